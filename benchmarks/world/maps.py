"""Maps: the next sample as a function of the last ones and of noise, with their links.

Lags are those of rates: a source at lag L moves the level L + 1 samples later.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .generators import BEFORE, LAGS


class Map(NamedTuple):
    """A map and its truth.

    - `step`: the next state `[dim]`, from past states `[lag dim]`, the present first, and noise.
    - `links`: links of the step by lag; `at_once`: links within the sample.
    - `start`: first state; `noise`: standard deviation of the noise.
    """

    step: Callable
    links: Bool[np.ndarray, "source target lag"]
    at_once: Bool[np.ndarray, "source target"]
    start: Float[np.ndarray, " dim"]
    noise: Float[np.ndarray, " dim"]


def iterated(
    system: Map, n: int, rng: np.random.Generator, before: int = BEFORE
) -> Float[np.ndarray, "time dim"]:
    """Return `n` samples of a map, after a transient.

    **Raises:** `ValueError` if it diverges.
    """
    noise = rng.normal(size=(n + before, len(system.start))) * system.noise
    past = np.tile(system.start, (LAGS, 1))
    path = np.zeros_like(noise)
    for k in range(len(path)):
        path[k] = system.step(past, noise[k])
        past = np.concatenate([path[k][None], past[:-1]])
    if not np.abs(path).max() < 1e6:
        raise ValueError("the map diverges.")
    return path[before:]


class Links(NamedTuple):
    """Single links between variables, at lags of rates; −1 is within the sample."""

    source: np.ndarray
    target: np.ndarray
    lag: np.ndarray
    size: np.ndarray

    def among(self, chosen) -> "Links":
        """Return the chosen links."""
        return Links(*(part[chosen] for part in self))

    def graph(self, dim: int) -> Bool[np.ndarray, "source target lag"]:
        """Return the graph with every variable's own present, without links within the sample."""
        graph = np.zeros((dim, dim, LAGS), bool)
        graph[..., 0] = np.eye(dim)
        late = self.among(self.lag >= 0)
        graph[late.source, late.target, late.lag] = True
        return graph


def drawn(
    rng: np.random.Generator, dim: int, n: int, strength: tuple[float, float], at_once: float = 0.0
) -> Links:
    """Return distinct random links, a share of them within the sample and then from earlier to
    later variables of a random order.
    """
    order = rng.permutation(dim)
    places = [(i, j) for i in range(dim) for j in range(dim) if i != j]
    chosen = rng.permutation(len(places))[: min(n, len(places) // 2)]
    source, target = np.array([places[k] for k in chosen]).T
    lag = rng.integers(0, LAGS - 1, len(chosen))
    now = rng.random(len(chosen)) < at_once
    rank = np.argsort(order)
    backward = now & (rank[source] > rank[target])
    source, target = np.where(backward, target, source), np.where(backward, source, target)
    # A pair may have been drawn in both directions; after a reversal it is one link.
    _, first = np.unique(np.stack([source, target]), axis=1, return_index=True)
    size = rng.uniform(*strength, len(chosen)) * rng.choice([-1, 1], len(chosen))
    found = Links(source, target, np.where(now, -1, lag), size).among(np.sort(first))
    # Within a sample causes are computed before their effects.
    return found.among(np.argsort(rank[found.source], kind="stable"))


def stabilised(own: Float[np.ndarray, " dim"], links: Links, radius: float = 0.97) -> Links:
    """Return links reduced until the linear map is stable."""
    dim = len(own)
    for _ in range(100):
        now, late = links.among(links.lag < 0), links.among(links.lag >= 0)
        blocks = np.zeros((LAGS, dim, dim))
        blocks[0] = np.diag(own)
        blocks[late.lag, late.target, late.source] = late.size
        inside = np.eye(dim)
        inside[now.target, now.source] -= now.size
        companion = np.eye(LAGS * dim, k=-dim)
        companion[:dim] = np.hstack(list(np.linalg.solve(inside, blocks)))
        if np.abs(np.linalg.eigvals(companion)).max() < radius:
            return links
        links = links._replace(size=0.9 * links.size)
    raise ValueError("the map is not stable.")


def nonlinear_response(x):
    """The nonlinear dependence of tigramite's benchmarks."""
    return (1 + 5 * x * np.exp(-(x**2) / 20)) * x


def structural(
    rng: np.random.Generator, dim: int, *, nonlinear: bool = False, at_once: float = 0.0
) -> Map:
    """Return a random structural process as in Runge (2020): three links for two variables, with
    lags of up to five samples and sizes .1 to .5, and own coefficients .3 to .95. Half of the links
    are nonlinear if `nonlinear`.
    """
    own = rng.uniform(0.3, 0.95, dim)
    links = stabilised(own, drawn(rng, dim, max(1, 3 * dim // 2), (0.1, 0.5), at_once))
    curved = nonlinear * (rng.random(len(links.size)) < 0.5)
    scale = rng.uniform(0.5, 2.0, dim)

    def moved(size, curve, value):
        return size * np.where(curve, nonlinear_response(value), value)

    late = np.flatnonzero(links.lag >= 0)
    now = np.flatnonzero(links.lag < 0)

    def step(past, noise):
        x = own * past[0] + noise
        value = past[links.lag[late], links.source[late]]
        np.add.at(x, links.target[late], moved(links.size[late], curved[late], value))
        for k in now:
            x[links.target[k]] += moved(links.size[k], curved[k], x[links.source[k]])
        return x

    together = np.zeros((dim, dim), bool)
    together[links.source[now], links.target[now]] = True
    return Map(step, links.graph(dim), together, np.zeros(dim), scale)


def sparse_var(rng: np.random.Generator, dim: int) -> Map:
    """Return the sparse autoregression of Tank et al. (Neural Granger causality, 2021): a fifth of
    the variables, including itself, drive each, all at three lags with the same size; radius .95.
    """
    matrix, lags = 0.2 * np.eye(dim), 3
    parents = max(1, dim // 5 - 1)
    for target in range(dim):
        others = np.delete(np.arange(dim), target)
        matrix[target, rng.choice(others, parents, replace=False)] = 0.2
    companion = np.eye(lags * dim, k=-dim)
    while True:
        companion[:dim] = np.hstack([matrix] * lags)
        if np.abs(np.linalg.eigvals(companion)).max() <= 0.95:
            break
        matrix = 0.95 * matrix
    graph = np.zeros((dim, dim, LAGS), bool)
    graph[..., :lags] = (matrix.T != 0)[..., None]
    return Map(
        lambda past, noise: matrix @ past[:lags].sum(axis=0) + noise,
        graph,
        np.zeros((dim, dim), bool),
        np.zeros(dim),
        np.full(dim, 0.1),
    )


def threshold(rng: np.random.Generator, dim: int) -> Map:
    """Return a threshold autoregression: all effects change with the sign of their input."""
    own, other = rng.uniform(0.4, 0.8, dim), rng.uniform(-0.4, 0.2, dim)
    links = stabilised(own, drawn(rng, dim, dim, (0.4, 0.8)))

    def step(past, noise):
        x = np.where(past[0] > 0, own, other) * past[0] + noise
        value = past[links.lag, links.source]
        np.add.at(x, links.target, links.size * np.where(value > 0, value, -0.5 * value))
        return x

    return Map(step, links.graph(dim), np.zeros((dim, dim), bool), np.zeros(dim), np.full(dim, 1.0))


def bilinear(rng: np.random.Generator, dim: int) -> Map:
    """Return a bilinear autoregression: a source, limited by tanh, is multiplied by its target's
    own value. All factors of a value together are less than 1, so that none grows without limit.
    """
    own = rng.uniform(0.2, 0.5, dim)
    links, sum_of_sizes = drawn(rng, dim, dim, (0.3, 0.6)), np.zeros(dim)
    np.add.at(sum_of_sizes, links.target, np.abs(links.size))
    reduced = np.minimum((0.95 - own) / np.maximum(sum_of_sizes, 1e-9), 1)
    links = links._replace(size=reduced[links.target] * links.size)

    def step(past, noise):
        x = own * past[0] + noise
        value = np.tanh(past[links.lag, links.source]) * past[0, links.target]
        np.add.at(x, links.target, links.size * value)
        return x

    return Map(step, links.graph(dim), np.zeros((dim, dim), bool), np.zeros(dim), np.full(dim, 1.0))


def _parents(rng, dim, most=2) -> Bool[np.ndarray, "source target"]:
    graph = np.zeros((dim, dim), bool)
    for target in range(dim):
        others = np.delete(np.arange(dim), target)
        graph[rng.choice(others, rng.integers(1, most + 1), replace=False), target] = True
    return graph


def _at_lag_zero(graph) -> Bool[np.ndarray, "source target lag"]:
    links = np.zeros((*graph.shape, LAGS), bool)
    links[..., 0] = graph | np.eye(len(graph), dtype=bool)
    return links


def logistic(rng: np.random.Generator, dim: int) -> Map:
    """Return logistic maps without noise, each mixed with one or two others."""
    rate, share = rng.uniform(3.7, 4.0, dim), rng.uniform(0.05, 0.2, dim)
    graph = _parents(rng, dim)
    weights = graph / graph.sum(axis=0)

    def step(past, noise):
        moved = rate * past[0] * (1 - past[0])
        return (1 - share) * moved + share * (moved @ weights) + noise

    start = rng.uniform(0.2, 0.8, dim)
    return Map(step, _at_lag_zero(graph), np.zeros((dim, dim), bool), start, np.zeros(dim))


def henon(rng: np.random.Generator, dim: int) -> Map:
    """Return a chain of Hénon maps (Kugiumtzis 2013) without noise, each with lags 0 and 1."""
    share = rng.uniform(0.1, 0.3, dim)
    share[0] = 0.0
    graph = np.eye(dim, k=1, dtype=bool)

    def step(past, noise):
        x = past[0]
        mixed = share * np.concatenate([x[:1], x[:-1]]) + (1 - share) * x
        return 1.4 - mixed**2 + 0.3 * past[1] + noise

    links = _at_lag_zero(graph)
    links[..., 1] = np.eye(dim)
    start = rng.uniform(-0.2, 0.2, dim)
    return Map(step, links, np.zeros((dim, dim), bool), start, np.zeros(dim))


def ikeda(rng: np.random.Generator, dim: int) -> Map:
    """Return a chain of Ikeda maps without noise, each with a real and an imaginary part."""
    share = np.concatenate([[0.0], rng.uniform(0.1, 0.3, dim // 2 - 1)])
    gain = rng.uniform(0.85, 0.9, dim // 2)

    def step(past, noise):
        z = past[0, ::2] + 1j * past[0, 1::2]
        moved = 1 + gain * z * np.exp(1j * (0.4 - 6 / (1 + np.abs(z) ** 2)))
        mixed = (1 - share) * moved + share * np.concatenate([moved[:1], moved[:-1]])
        return np.stack([mixed.real, mixed.imag], axis=1).ravel() + noise

    pairs = np.kron(np.eye(dim // 2) + np.eye(dim // 2, k=1), np.ones((2, 2))).astype(bool)
    start = rng.uniform(0, 0.5, dim)
    return Map(step, _at_lag_zero(pairs), np.zeros((dim, dim), bool), start, np.zeros(dim))
