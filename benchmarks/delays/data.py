"""The data of a task: a series, its truth, and points at which a drift is judged."""

import functools
import math
import zlib
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

import ndde_jax as ndde

from .settings import Specification

# Samples of the run for standard deviations, and of the run on which a drift is judged.
PILOT, TEST = 2000, 1000


@dataclass(frozen=True)
class Series:
    """A series: the inputs of a method (`x`, `dt`, `lags`) and the truth.

    - `x`: samples; `dt`: time between them; `lags`: candidates, in samples.
    - `graph`: the truth on the candidate lags. Off the grid, a true delay counts as the candidate
        nearest to it.
    - `delays`: true delay of every edge of `graph`, in time; NaN elsewhere.
    - `history`: states of an independent run at the candidate lags, and `drift`, the true drift
        there.
    - `sigma`: diagonal of the diffusion.
    """

    spec: Specification
    x: Float[np.ndarray, "time dim"]
    dt: float
    lags: tuple[int, ...]
    graph: Bool[np.ndarray, "source target lag"]
    delays: Float[np.ndarray, "source target lag"]
    history: Float[np.ndarray, "point lag dim"]
    drift: Float[np.ndarray, "point dim"]
    sigma: Float[np.ndarray, "dim"]

    @property
    def grid(self) -> float:
        """The step of the lag grid, in time."""
        return (self.lags[1] - self.lags[0]) * self.dt

    @property
    def explained(self) -> Float[np.ndarray, "dim"]:
        """The share of the variance of each measured rate that the drift explains."""
        drift = self.drift.var(axis=0)
        return drift / (drift + self.sigma**2 / self.dt)


@functools.lru_cache(maxsize=4)
def simulate(spec: Specification, seed: int = 0) -> Series:
    """Simulate one task. Every random number follows from the specification and the seed.

    **Raises:** `ValueError` if the path diverges.
    """
    system, step = spec.system(), spec.sampling_step
    pilot_key, key, test_key, error_key = jr.split(_key(spec, seed), 4)

    # One number per variable, as in the other runs, so that they share a program.
    alike = np.broadcast_to(system.sigma, (system.dim,))
    pilot, _, _ = _run(spec, alike, PILOT, pilot_key)
    deviation = pilot.std(axis=0)
    driven = alike > 0
    sigma = np.where(driven, spec.noise * deviation / math.sqrt(spec.grid), 0.0)

    x, _, _ = _run(spec, sigma, spec.length, key)
    if spec.error > 0:
        x = x + spec.error * x.std(axis=0) * np.asarray(jr.normal(error_key, x.shape))
    n_test = TEST + spec.lags[-1]
    test, late, times = _run(spec, sigma, n_test, test_key)
    drift = np.asarray(jax.vmap(system.drift)(times, jnp.asarray(test), jnp.asarray(late)))
    rows = np.arange(spec.lags[-1], n_test)[:, None] - np.asarray(spec.lags)[None]

    graph, delays = truth(spec)
    return Series(
        spec, x, step, spec.lags, graph, delays, test[rows], drift[spec.lags[-1] :], sigma
    )


def another_run(spec: Specification, seed: int, number: int) -> Float[np.ndarray, "time dim"]:
    """A further run of the same task without measurement error, as long as its series."""
    key = _key(spec, seed, f"/another/{number}")
    return _run(spec, simulate(spec, seed).sigma, spec.length, key)[0]


def truth(spec: Specification) -> tuple[np.ndarray, np.ndarray]:
    """The true graph on the candidate lags, and the true delay of its edges."""
    system = spec.system()
    full = np.asarray(system.graph)
    graph = np.zeros((*full.shape[:2], len(spec.lags)), bool)
    delays = np.full(graph.shape, np.nan)
    for k, delay in enumerate((0.0, *np.asarray(system.lags, float))):
        nearest = round(delay / spec.grid)
        graph[:, :, nearest] |= full[:, :, k]
        delays[:, :, nearest] = np.where(full[:, :, k], delay, delays[:, :, nearest])
    return graph, delays


def _key(spec: Specification, seed: int, purpose: str = ""):
    name = f"{spec.name}/{spec.category}/{spec.series}{purpose}"
    return jr.fold_in(jr.key(seed), zlib.crc32(name.encode()))


def _run(spec: Specification, sigma, n_samples: int, key):
    """Return samples, the states at the true delays before each, and the times."""
    system, step = spec.system(), spec.sampling_step
    fine = math.ceil(step / system.dt)
    dt = step / fine
    # The past of the first sample, and the transient before it.
    lead = math.ceil(max(system.transient, 2 * float(system.lags[-1])) / step)
    # As long as the longest run of the task, which begins with this one, to share a program.
    longest = max(PILOT, spec.length, TEST + spec.lags[-1])
    path = ndde.solve_sdde(
        system.drift,
        lags=system.lags,
        dt=dt,
        n_steps=(lead + longest - 1) * fine,
        history=system.history,
        sigma=jnp.asarray(sigma),
        key=key,
    )
    ys = np.asarray(path.ys)
    if not np.isfinite(ys).all():
        raise ValueError(f"{spec.name} diverges at noise {spec.noise:g}.")
    index = (lead + np.arange(n_samples)) * fine
    late = []
    for delay in np.asarray(system.lags, float):
        whole, part = divmod(delay / dt, 1)
        if min(part, 1 - part) < 1e-4:
            whole, part = round(delay / dt), 0.0
        at = index - int(whole)
        late.append((1 - part) * ys[at] + part * ys[at - 1])
    late = np.stack(late, axis=1) if late else np.zeros((n_samples, 0, ys.shape[1]))
    return ys[index], late, jnp.asarray(index * dt)
