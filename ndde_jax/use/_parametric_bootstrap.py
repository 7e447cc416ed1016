"""Parametric bootstrap: the bias and spread of the estimator on a drift that is known."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from .._memory import padded_length
from ..models._model import NeuralDDE
from ..samples._reading import read_samples
from ..simulate._solve import solve_sdde
from ._effects import histories_of, rates_of
from ._ensemble import Ensemble
from ._refitted import refitted

# Two tell a bias from chance well enough: what is left of chance only widens.
ECHOES = 2
# Samples of a short recording, in units of what the drift reads.
STRETCH = 4
# Steps of the simulation per sample, samples of an echo, and values of all variables together.
FINE, LONGEST, MOST_VALUES = 4, 4000, 40_000
# An echo whose deviations differ from those of the data by more than this factor is of a system
# that lives elsewhere, and says nothing about these data.
ALIKE = 2.0
# Of the mean square of columns, against rounding.
RIDGE = 1e-6


def make_echoes(found: Any, ensemble: Ensemble) -> tuple[NeuralDDE, ...]:
    """Return models fitted to simulated records of the learned system, made with its noise and
    measurement error from the start of the data on, or in stretches along them, and sampled,
    differenced and fitted on its graph like the data.

    By how much they differ from the learned drift is by how much that may differ from the true one,
    for all that has nothing to do with the length of the record: coarse sampling, error in the
    inputs, curves that are smoothed. Networks are echoed by splines.

    None for what the learned system cannot make anew: known inputs, passing events; and for
    irregular sampling.
    """
    windows = found.windows
    if found.inputs or found.events or not found.samples.regular:
        return ()
    record = max(found.samples.values, key=len)
    past = found.lags[-1] + 1
    made = [x for x in _long_runs(found, ensemble, record, past) if _alike(x, record)]
    # Left to itself the learned system may settle where the data are not: then it is begun anew
    # all along them.
    if not made:
        made = [x for x in _stretches(found, ensemble, record, past) if _alike(x, record)]
    dt, scheme = float(found.dt), windows.scheme
    return tuple(refitted(found, read_samples(list(x), dt=dt), scheme) for x in made)


def _run(found: Any, ensemble: Ensemble, start: Any, n: int, key: Any) -> Any:
    """Return so many samples of the learned system that follow a start, `[n dim]`."""
    dt, dtype = float(found.dt), found.model.dt.dtype
    # A map moves from sample to sample; nothing is between them.
    fine = FINE if found.moves_between_samples else 1
    factor = ensemble.noise.factor / np.sqrt(dt)
    path = solve_sdde(
        found.model,
        dt=dt / fine,
        n_steps=n * fine,
        history=jnp.asarray(start, dtype),
        sigma=jnp.asarray(factor, dtype),
        key=key,
        save_every=fine,
    )
    return path.ys[1:]


def _measured(ensemble: Ensemble, k: int, x: np.ndarray) -> np.ndarray:
    return x + np.random.default_rng(k).normal(size=x.shape) * ensemble.noise.error


def _long_runs(found: Any, ensemble: Ensemble, record: np.ndarray, past: int) -> list[np.ndarray]:
    """Return one recording per bootstrap model, `[1 time dim]`, from the start of the data on."""
    start = np.asarray(record[:past], np.float64)
    if not np.isfinite(start).all():
        return []
    n = min(len(record), LONGEST, max(MOST_VALUES // len(found.names), 4 * past)) - 1
    # One of a few lengths, since every length compiles anew.
    long = padded_length(n)
    runs = (np.asarray(_run(found, ensemble, start, long, jr.key(k)))[:n] for k in range(ECHOES))
    return [_measured(ensemble, k, x.astype(np.float64))[None] for k, x in enumerate(runs)]


def _stretches(found: Any, ensemble: Ensemble, record: np.ndarray, past: int) -> list[np.ndarray]:
    """Return many short recordings per bootstrap model, `[stretch time dim]`, that begin with pasts
    of the record.
    """
    record, length = np.asarray(record, np.float64), STRETCH * past
    most = max(MOST_VALUES // (length * record.shape[1]), 1)
    first = np.arange(0, len(record) - past, length)
    first = first[np.unique(np.linspace(0, len(first) - 1, most).astype(int))]
    starts = record[first[:, None] + np.arange(past)[None]]
    starts = starts[np.isfinite(starts).all(axis=(1, 2))]
    if not len(starts):
        return []
    keys = jr.split(jr.key(0), (ECHOES, len(starts)))
    go_on = jax.vmap(lambda start, key: _run(found, ensemble, start, length, key))
    made = []
    for k in range(ECHOES):
        new = np.asarray(go_on(jnp.asarray(starts, found.model.dt.dtype), keys[k]), np.float64)
        made.append(np.concatenate([starts, _measured(ensemble, k, new)], axis=1))
    return made


def _alike(x: np.ndarray, record: np.ndarray) -> bool:
    if not np.isfinite(x).all():
        return False
    ratio = x.std(axis=(0, 1)) / np.maximum(np.nanstd(record, axis=0), 1e-300)
    return bool(((ratio > 1 / ALIKE) & (ratio < ALIKE)).all())


def spread_by_echoes(found: Any, ensemble: Ensemble, echoes: tuple[NeuralDDE, ...]) -> Ensemble:
    """Return the ensemble with members that differ by the bias of estimation as well: each has the
    mean difference of the bootstrap models from the learned drift, as far as the columns of the
    ensemble can express it, times a standard normal number of its own.
    """
    from scipy.special import ndtri

    if not echoes:
        return ensemble
    histories = histories_of(ensemble)
    bias = np.mean([rates_of(echo)(histories) for echo in echoes], axis=0)
    bias = bias - rates_of(found.model)(histories)
    features, theta = ensemble.basis(histories), ensemble.theta.copy()
    number = ndtri((np.arange(len(theta)) + 0.5) / len(theta))
    number = np.random.default_rng(0).permutation(number)
    for j in range(theta.shape[1]):
        used = (theta[:, j] != 0).any(axis=0) | (ensemble.center[j] != 0)
        if used.any():
            some = features[:, used]
            gram = some.T @ some
            gram += RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
            weights = np.linalg.solve(gram, some.T @ bias[:, j])
            theta[:, j, used] += number[:, None] * weights[None]
    return dataclasses.replace(ensemble, theta=theta)
