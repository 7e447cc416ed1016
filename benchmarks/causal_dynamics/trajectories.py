"""Trajectories of dysts' systems, sampled and disturbed as in the benchmark.

A start is dysts' initial condition times one uniform number, without burn-in. A series covers
n_samples / 100 periods. Noise is a Wiener process of amplitude noise · start in each variable, so
a variable that starts at zero has none. The noisy path is computed on a grid of 50 points per
sample, as in dysts, and thinned in the frequency domain. Some variables are phases, which dysts
maps into a bounded range afterwards.

The benchmark uses an implicit solver or a stochastic Runge-Kutta method of order 1. Here it is the
classical method of order 4 with a constant step, for many series together.
"""

import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ndde_jax.systems import _dysts

SAMPLES = 1000
SAMPLES_PER_PERIOD = 100
BATCH = 10
# Steps per sample without noise; with the 50 of dysts, fast systems lose the sixth digit.
_SUBSTEPS = 100
# Points of the noisy path per sample. dysts has 49.99, which gives a prime number of points.
_FINE = 50
# Samples computed beyond SAMPLES, so that time lags need no further compilation.
_SPARE = 10


class Flow(NamedTuple):
    """The parts of a dysts system that the benchmark uses in addition to the equations."""

    start: Float[np.ndarray, "dim"]
    period: float


@functools.cache
def flow(name: str) -> Flow:
    """Return the initial condition and period of one of dysts' systems."""
    record = _dysts._records()[name]
    return Flow(_dysts._initial(record), record["period"])


@functools.cache
def systems_with_jacobian() -> tuple[str, ...]:
    """The systems of the simple tier: three variables, and a Jacobian that dysts publishes."""
    return tuple(name for name in _three_dimensional() if published_graph(name) is not None)


@functools.cache
def systems_for_roots() -> tuple[str, ...]:
    """The systems that drive the coupled tier: all with three variables that JAX can trace."""
    traceable = _dysts.traceable()
    return tuple(name for name in _three_dimensional() if name in traceable)


def _three_dimensional() -> tuple[str, ...]:
    return tuple(name for name in _dysts.ode_names() if flow(name).start.size == 3)


def published_graph(
    name: str, point: tuple[float, float, float] = (1, 1, 1)
) -> Bool[np.ndarray, "source target"] | None:
    """Return where dysts' Jacobian is not zero at one point, at time 0, with every parameter 1.

    The benchmark finds its labels in this way; later versions use the point (1.1, 1.2, 1.3).
    None if dysts has no Jacobian.
    """
    jacobian = getattr(_dysts._modules()[1], name)._jac
    # Evaluated once: Numba, if installed, would take a fifth of a second to compile it.
    jacobian = getattr(jacobian, "py_func", jacobian)
    n_parameters = len(inspect.signature(jacobian).parameters) - len(point) - 1
    value = jacobian(*point, 0, *[1] * n_parameters)
    return None if value is None else (np.asarray(value, float) != 0).T


def corrected_graph(name: str) -> Bool[np.ndarray, "source target"]:
    """Return derivatives of the right-hand side that differ from zero somewhere on the
    attractor.
    """
    return np.asarray(_dysts.make_dysts(name).graph[..., 0])


def random_series(
    name: str,
    keys: Key[Array, "series"],
    *,
    noise: float = 0.0,
    n_samples: int = SAMPLES,
) -> Float[np.ndarray, "series time dim"]:
    """Return series from random starts, one per key; see `series_from`."""
    shares = np.concatenate([_uniform(_first(batch)) for batch, _ in _batches(keys)])[: len(keys)]
    starts = flow(name).start * shares[:, None]
    return series_from(name, starts, noise=noise, keys=keys, n_samples=n_samples)


def series_from(
    name: str,
    starts: Float[np.ndarray, "series dim"],
    *,
    noise: float = 0.0,
    keys: Key[Array, "series"] | None = None,
    n_samples: int = SAMPLES,
) -> Float[np.ndarray, "series time dim"]:
    """Return series from given starts, in double precision. A series that diverges is not finite.

    Series are computed in batches of constant size, so that a system is compiled once. `keys` are
    needed for the noise.
    """
    parts = []
    for batch, chosen in _batches(keys if noise else jr.split(jr.key(0), len(starts))):
        with jax.enable_x64(True):
            x = jnp.asarray(starts[chosen].T, jnp.float64)
            if noise:
                part = _disturbed(name, x, noise, _second(batch), n_samples)
            else:
                part = _undisturbed(name, x, n_samples)
            parts.append(np.asarray(part))
    series = np.concatenate(parts, axis=-1)[..., : len(starts)]
    return _postprocessed(name, series.transpose(2, 0, 1))


def _batches(keys):
    """Yield keys with their indices in batches of one size, the last one filled up with its last
    key.
    """
    words = np.asarray(jr.key_data(keys))
    for first in range(0, len(words), BATCH):
        chosen = np.minimum(np.arange(first, first + BATCH), len(words) - 1)
        yield jr.wrap_key_data(words[chosen]), chosen


def _undisturbed(name, x, n_samples):
    spacing = _duration(name, n_samples) / (n_samples - 1)
    n_computed = max(n_samples, SAMPLES + _SPARE)
    return _solver(name, n_computed - 1, _SUBSTEPS)(x, spacing / _SUBSTEPS, None)[:n_samples]


def _disturbed(name, x, noise, keys, n_samples):
    n_fine = _FINE * n_samples
    step = _duration(name, n_samples) / (n_fine - 1)
    wiener = _wiener(keys, step, n_fine - 1)
    fine = _solver(name, n_fine - 1, 1)(x, step, noise * x[None] * wiener)
    return thinned(fine, n_samples)


def _duration(name: str, n_samples: int) -> float:
    return flow(name).period * n_samples / SAMPLES_PER_PERIOD


@functools.cache
def _solver(name: str, n_outputs: int, substeps: int) -> Callable:
    """`solve(x [dim series], step, kicks)` with the start first, then every `substeps`-th state.

    `kicks` [time dim series] are added after each output's last step.
    """
    values = _dysts._records()[name]["parameters"]

    def rate(t, x):
        parameters = {key: jnp.asarray(value, x.dtype) for key, value in values.items()}
        field = functools.partial(_dysts._field(name), lagged=None, **parameters)
        return jax.vmap(field, in_axes=(None, 1), out_axes=1)(t, x)

    def advance(index, x, h):
        t = index * h
        k1 = rate(t, x)
        k2 = rate(t + h / 2, x + h / 2 * k1)
        k3 = rate(t + h / 2, x + h / 2 * k2)
        k4 = rate(t + h, x + h * k3)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    @jax.jit
    def solve(x, h, kicks):
        def one(j, carry):
            index, x = carry
            return index + 1, advance(index, x, h)

        def output(carry, kick):
            index, x = (
                one(0, carry) if substeps == 1 else jax.lax.fori_loop(0, substeps, one, carry)
            )
            x = x if kick is None else x + kick
            return (index, x), x

        _, xs = jax.lax.scan(output, (0, x), kicks, length=n_outputs)
        return jnp.concatenate([x[None], xs])

    return solve


@functools.partial(jax.jit, static_argnums=1)
def thinned(fine: Float[Array, "fine *rest"], n_samples: int) -> Float[Array, "time *rest"]:
    """Return fewer samples of the same duration: higher frequencies are cut off, as in SciPy's
    `resample`. The ends are less accurate, since the path is treated as periodic.
    """
    n_fine = fine.shape[0]
    spectrum = jnp.fft.rfft(fine, axis=0)[: n_samples // 2 + 1]
    if n_samples % 2 == 0 and n_samples < n_fine:
        spectrum = spectrum.at[-1].multiply(2)  # the highest frequency includes its mirror image
    return jnp.fft.irfft(spectrum, n_samples, axis=0) * (n_samples / n_fine)


@functools.partial(jax.jit, static_argnums=2)
def _wiener(keys, step, n_steps):
    """Return increments of Wiener processes [time dim series], each from its own key."""
    # Single precision is enough for random numbers and faster, as is transposing them afterwards.
    draw = jax.vmap(lambda key: jr.normal(key, (n_steps, 3), jnp.float32))
    return jnp.sqrt(step) * jnp.moveaxis(draw(keys), 0, -1).astype(jnp.float64)


@jax.jit
def _first(keys):
    """Return keys of the starts."""
    return jax.vmap(jr.split)(keys)[:, 0]


@jax.jit
def _second(keys):
    """Return keys of the noise."""
    return jax.vmap(jr.split)(keys)[:, 1]


def _uniform(keys) -> Float[np.ndarray, "series"]:
    with jax.enable_x64(True):
        return np.asarray(_shares(keys))


@jax.jit
def _shares(keys):
    return jax.vmap(lambda key: jr.uniform(key, dtype=jnp.float64))(keys)


def _postprocessed(name: str, series: np.ndarray) -> np.ndarray:
    system = _dysts.in_numpy(name, _dysts._records()[name]["parameters"])
    bound = getattr(system, "_postprocessing", None)
    if bound is None:
        return series
    with np.errstate(invalid="ignore"):  # of series that diverged
        return np.stack(bound(*np.moveaxis(series, -1, 0)), axis=-1)
