"""Flows without delays: rates of change as a function of time and state, with their links."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Flow(NamedTuple):
    """A flow and its truth.

    - `drift`: rate `[dim]` at a time and a state.
    - `links`: the states in each rate.
    - `start`: first state; `noise`: diffusion; `step`: time between samples.
    - `recorded`: function from states `[time dim]` to recorded variables `[time variable]`.
    """

    drift: Callable
    links: Bool[np.ndarray, "source target"]
    start: Float[np.ndarray, " dim"]
    noise: float
    step: float
    recorded: Callable = lambda states: states


def integrated(
    system: Flow, n: int, rng: np.random.Generator, *, substeps: int = 10, before: int = 200
) -> Float[np.ndarray, "time variable"]:
    """Return `n` samples after a transient, by fourth-order Runge–Kutta steps with Gaussian noise,
    `substeps` steps per sample.

    **Raises:** `ValueError` if it diverges.
    """
    h, x, drift = system.step / substeps, system.start, system.drift
    kicks = system.noise * np.sqrt(h) * rng.normal(size=((n + before) * substeps, len(x)))
    path = np.zeros((n + before, len(x)))
    for k, kick in enumerate(kicks):
        t = k * h
        a = drift(t, x)
        b = drift(t + h / 2, x + h / 2 * a)
        c = drift(t + h / 2, x + h / 2 * b)
        d = drift(t + h, x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d) + kick
        if k % substeps == substeps - 1:
            path[k // substeps] = x
    if not np.abs(path).max() < 1e6:
        raise ValueError("the flow diverges.")
    return system.recorded(path[before:])


def lorenz96(rng: np.random.Generator, dim: int, *, force: float = 10.0) -> Flow:
    """Return Lorenz's ring (1996), sampled as in Tank et al. (2021), without noise."""

    def drift(t, x):
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + force

    ring = np.eye(dim, dtype=bool)
    # The sources of a variable are the next one and the two before.
    links = ring | np.roll(ring, -1, axis=1) | np.roll(ring, 1, axis=1) | np.roll(ring, 2, axis=1)
    return Flow(drift, links, force + rng.normal(size=dim), 0.0, 0.05)


def lotka_volterra(rng: np.random.Generator, dim: int) -> Flow:
    """Return a system of equal numbers of predators and prey, each linked to two of the other kind
    (Marcinkevičs and Vogt 2021). States are noisy logarithms; numbers are recorded.
    """
    half = dim // 2
    eaten = np.zeros((half, half))
    for k in range(half):
        eaten[[k, (k + 1) % half], k] = 1  # [prey predator]

    def drift(t, x):
        level = np.exp(np.clip(x, -20, 20))
        prey, hunters = level[:half], level[half:]
        grown = 1.1 - 0.2 * eaten @ hunters - 0.02 * prey
        return np.concatenate([grown, 0.2 * eaten.T @ prey - 1.1])

    links = np.zeros((dim, dim), bool)
    links[:half, half:], links[half:, :half] = eaten, eaten.T
    links[np.arange(half), np.arange(half)] = True
    return Flow(drift, links, np.log(rng.uniform(1, 4, dim)), 0.1, 0.2, np.exp)


def kuramoto(rng: np.random.Generator, dim: int) -> Flow:
    """Return phase oscillators, each coupled to one or two others; sines of phases are recorded."""
    pace = rng.uniform(0.5, 2.0, dim)
    links = np.zeros((dim, dim), bool)
    for target in range(dim):
        others = np.delete(np.arange(dim), target)
        links[rng.choice(others, rng.integers(1, 3), replace=False), target] = True
    pull = 0.4 * links

    def drift(t, x):
        return pace + np.sum(pull * np.sin(x[:, None] - x[None]), axis=0)

    links = links | np.eye(dim, dtype=bool)
    return Flow(drift, links, rng.uniform(0, 6, dim), 0.3, 0.25, np.sin)


def genes(rng: np.random.Generator, dim: int) -> Flow:
    """Return a gene network as in DREAM: every gene has one to three regulators, preferably early
    ones, and is transcribed and translated. There is noise, and a third of the genes are perturbed
    every thirty samples. Transcripts are recorded, proteins are not.
    """
    links, demand = np.eye(dim, dtype=bool), 1 / np.arange(1, dim + 1)
    sign = np.zeros((dim, dim))
    for target in range(dim):
        others = np.delete(np.arange(dim), target)
        share = demand[others] / demand[others].sum()
        chosen = rng.choice(others, rng.integers(1, 4), replace=False, p=share)
        links[chosen, target] = True
        sign[chosen, target] = rng.choice([-1, 1], len(chosen), p=[0.4, 0.6])
    half = rng.uniform(0.3, 0.6, (dim, dim))
    push = rng.normal(size=(1000, dim)) * (rng.random((1000, dim)) < 1 / 3)
    made = rng.uniform(0.8, 1.2, dim)

    def drift(t, x):
        rna, protein = np.maximum(x[:dim], 0), np.maximum(x[dim:], 0)
        bound = protein[:, None] ** 2 / (protein[:, None] ** 2 + half**2)
        pull = np.sum(sign * (bound - 0.5), axis=0) + 0.5 * push[int(t / 30) % 1000]
        return np.concatenate([made / (1 + np.exp(-4 * pull)) - x[:dim], rna - x[dim:]])

    start = rng.uniform(0.2, 0.8, 2 * dim)
    return Flow(drift, links, start, 0.05, 1.0, lambda states: states[:, :dim])


def neurons(rng: np.random.Generator, dim: int) -> Flow:
    """Return the neurons of NetSim (Smith et al. 2011): time constant 50 ms, links of about .4
    around a ring and across it, and inputs that switch on and off.
    """
    links = np.eye(dim, dtype=bool) | np.roll(np.eye(dim, dtype=bool), 1, axis=1)
    links[0, dim // 2] = True
    size = np.clip(rng.normal(0.4, 0.1, (dim, dim)), 0.2, 0.6) * (links & ~np.eye(dim, dtype=bool))
    # Every input is off for ten seconds and on for two and a half, on average.
    spans = rng.exponential(np.tile([10.0, 2.5], 1000)[:, None], (2000, dim))
    tick = 40
    grid = np.arange(80_000) / tick
    on = np.stack([np.searchsorted(turn, grid) % 2 for turn in np.cumsum(spans, axis=0).T], axis=1)

    def drift(t, x):
        return 20 * (x @ size - x + on[int(t * tick)])

    return Flow(drift, links, np.zeros(dim), 0.2, 0.1)


def haemodynamic(
    activity: Float[np.ndarray, "time dim"], rng: np.random.Generator, *, step: float, every: int
) -> Float[np.ndarray, "sample dim"]:
    """Return the haemodynamic response to activity, every `every` steps, with 1 % noise. The double
    gamma function of each region has a random shift with standard deviation half a second.
    """
    from scipy import stats

    t, responses = np.arange(0, 32, step), []
    for column in activity.T:
        late = t - rng.normal(0, 0.5)
        answer = stats.gamma.pdf(late, 6) - stats.gamma.pdf(late, 16) / 6
        responses.append(np.convolve(column, answer)[: len(activity)][::every])
    blood = np.stack(responses, axis=1)
    return blood + 0.01 * blood.std(axis=0) * rng.normal(size=blood.shape)
