"""Scores of the long-run behaviour of the learned system, simulated with its residual noise."""

import functools
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float
from scipy.stats import wasserstein_distance

import ndde_jax as ndde
from ndde_jax import metrics

from .data import Series, another_run
from .settings import Specification

# Steps per sample of the simulated path, and samples over which growth is measured.
FINE, GROWTH = 2, 10_000
# Directions on which laws are projected, and standard deviations beyond which a path has left.
DIRECTIONS, FAR = 64, 20.0


class Reference(NamedTuple):
    """Two true runs, `[time dim]`, and the leading Lyapunov exponent of the true drift."""

    path: Float[np.ndarray, "time dim"]
    twin: Float[np.ndarray, "time dim"]
    exponent: float


@functools.lru_cache(maxsize=2)
def reference(spec: Specification, seed: int = 0) -> Reference:
    """Return the true runs of a task, with which learned systems are compared."""
    system = spec.system()
    exponent = _growth(
        system.drift, history=system.history, lags=system.lags, dt=spec.sampling_step
    )
    path, twin = (another_run(spec, seed, number) for number in range(2))
    return Reference(path, twin, exponent)


def attractor_scores(
    model: ndde.models.NeuralDDE | ndde.models.RestoredDDE,
    windows: ndde.Windows,
    series: Series,
    seed: int = 0,
) -> dict[str, float]:
    """Return distances of the learned system from the true one.

    - `spectrum`: log-spectral distance of the noisy paths, in decibels.
    - `law`: sliced Wasserstein distance between the laws of the state now and at the longest true
        delay before, in true standard deviations.
    - `exponent_error`: difference of the leading Lyapunov exponents of the noise-free drifts, per
        longest delay.
    - `escaped`: 1 if the path ends beyond 20 standard deviations.
    - `chance.spectrum`, `chance.law`: the same distances between two true paths, the best possible.

    The model runs from the end of the data, confined to their box, with independent noises of the
    size of its one-step residuals: as a map if it was trained on forward differences, otherwise as
    a differential equation.
    """
    spec, true = series.spec, reference(series.spec, seed)
    as_map = windows.scheme == "euler"
    if not isinstance(model, ndde.models.RestoredDDE):  # those of `discover` are confined already
        model = ndde.confine(model, windows=windows)
    past = jnp.asarray(series.x[-spec.lags[-1] - 2 :], windows.history.dtype)
    sigma = jnp.sqrt(jnp.diagonal(ndde.check.noise_covariance(windows, model)))
    options = dict(history=past, sigma=sigma, key=jr.key(seed))
    if as_map:
        path = ndde.simulate.rollout(model, n_steps=spec.length, **options)
    else:
        path = ndde.solve_sdde(
            model,
            dt=series.dt / FINE,
            n_steps=FINE * spec.length,
            save_every=FINE,
            solver=diffrax.Heun(),
            **options,
        )
    exponent = _growth(model, history=past, solver=diffrax.Euler() if as_map else None)
    ys = np.asarray(metrics.bounded(path.ys), float)[1:]
    scale = true.path.std(axis=0)
    longest = float(spec.system().lags[-1])
    late = round(longest / series.dt)
    return {
        **_distances(ys, true.path, late),
        **{f"chance.{k}": v for k, v in _distances(true.twin, true.path, late).items()},
        "exponent_error": abs(exponent - true.exponent) * longest,
        "escaped": float(np.any(np.abs(ys[-1] - true.path.mean(axis=0)) > FAR * scale)),
    }


def sliced_wasserstein(
    a: Float[np.ndarray, "point dim"], b: Float[np.ndarray, "point dim"]
) -> float:
    """Mean over random directions of the one-dimensional Wasserstein distance W₁ (Bonneel et al.,
    *J. Math. Imaging Vision* 51, 2015).
    """
    directions = np.random.default_rng(0).normal(size=(a.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    pairs = zip((a @ directions).T, (b @ directions).T, strict=True)
    return float(np.mean([wasserstein_distance(u, v) for u, v in pairs]))


def _distances(path, true, late: int) -> dict[str, float]:
    center, scale = true.mean(axis=0), true.std(axis=0)
    path, true = (path - center) / scale, (true - center) / scale
    spectrum = jax.jit(metrics.log_spectral_distance)(path, true)
    delayed = [np.concatenate([z[late:], z[: len(z) - late]], axis=1) for z in (path, true)]
    return {"spectrum": float(spectrum), "law": sliced_wasserstein(*delayed)}


def _growth(drift, **options) -> float:
    """Return the leading Lyapunov exponent of a noise-free drift."""
    return float(ndde.lyapunov_spectrum(drift, n_steps=GROWTH, k=1, **options).exponents[0])
