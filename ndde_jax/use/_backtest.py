"""Forecasts from many origins, beside methods that anybody should beat."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from .._checks import check_key, check_real_array, check_whole
from ..metrics._ensembles import crps, energy_score
from ._ensemble import Ensemble
from ._forecast import draw_noise, make_learned, measured, path_quantile
from ._simulate import no_change, simulate
from ._times import read_span

METHODS = ("ndde_jax", "persistence", "climatology", "VAR")


@dataclasses.dataclass(frozen=True)
class Backtest:
    """Scores by method and step; NumPy; made by `found.backtest`.

    - `methods`: `"ndde_jax"`, `"persistence"` (steps of the record, summed up from the present),
        `"climatology"` (values of the record) and `"VAR"` (least squares on all lags, Gaussian
        noise), fitted to the record of the discovery.
    - `steps`: samples ahead, `[step]`.
    - `crps`: in standard deviations of a variable, mean over origins, `[method step dim]`.
    - `coverage`: share of what came inside 90 % intervals, `[method step dim]`.
    - `energy`: energy score of all variables, standardised, `[method step]`.
    """

    methods: tuple[str, ...]
    steps: np.ndarray
    crps: Float[np.ndarray, "method step dim"]
    coverage: Float[np.ndarray, "method step dim"]
    energy: Float[np.ndarray, "method step"]
    names: tuple[str, ...]
    origins: int
    held_out: bool

    def to_frame(self):
        """A pandas DataFrame: method, step, variable, crps, coverage; needs pandas."""
        import pandas as pd

        m, s, d = np.indices(self.crps.shape).reshape(3, -1)
        table = {
            "method": np.asarray(self.methods)[m],
            "step": self.steps[s],
            "variable": np.asarray(self.names)[d],
            "crps": self.crps.ravel(),
            "coverage": self.coverage.ravel(),
        }
        return pd.DataFrame(table)

    def __repr__(self) -> str:
        data = "data held back" if self.held_out else "the data that were fitted"
        lines = [
            f"Backtest on {data}, {self.origins} origins: CRPS in standard deviations (coverage of "
            "90 % intervals), means over variables",
            "step  " + "".join(f"{method:>20}" for method in self.methods),
        ]
        for k, step in enumerate(self.steps):
            cells = [
                f"{self.crps[m, k].mean():.4f} ({self.coverage[m, k].mean():.2f})"
                for m in range(len(self.methods))
            ]
            lines.append(f"{step:>4}  " + "".join(f"{cell:>20}" for cell in cells))
        return "\n".join(lines)


def backtest(
    found: Any,
    ensemble: Ensemble,
    *,
    horizon: Any,
    data: Any,
    origins: Any,
    paths: Any,
    key: Any,
) -> Backtest:
    """As `found.backtest` says."""
    key, steps = check_key(key), read_span(horizon, found, "horizon")
    check_whole(origins, "origins", least=2)
    check_whole(paths, "paths", least=2)
    need, dim = int(found.lags[-1]) + 1, len(found.names)
    record = [np.asarray(v, np.float64) for v in found.samples.values]
    past, came = _origins(record if data is None else [_read(data, dim)], need, steps, origins)
    rng = np.random.default_rng(np.asarray(jr.key_data(jr.fold_in(key, 1))).tolist())
    own = _own(found, ensemble, past, steps, paths, key)
    rivals = (
        _persistence(record, past, steps, paths, rng),
        _climatology(record, past, steps, paths, rng),
        _autoregression(record, found.lags, past, steps, paths, rng),
    )
    scale = np.nanstd(np.concatenate(record), axis=0)
    scores = [_score(forecasts, came, scale) for forecasts in (own, *rivals)]
    parts = [np.stack(part) for part in zip(*scores, strict=True)]
    at = np.unique(np.array([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, steps]).clip(max=steps))
    crps_, coverage, energy = (part[:, at - 1] for part in parts)
    return Backtest(
        METHODS, at, crps_, coverage, energy, found.names, len(past), data is not None
    )  # fmt: skip


def _read(data: Any, dim: int) -> np.ndarray:
    check_real_array(data, "data", f"[time dim] with {dim} variables")
    values = np.asarray(data, np.float64)
    values = values[:, None] if values.ndim == 1 and dim == 1 else values
    if values.ndim != 2 or values.shape[1] != dim:
        raise ValueError(f"data must be [time dim] with {dim} variables; got shape {values.shape}.")
    return values


def _origins(record, need: int, steps: int, most: int):
    """Pasts `[origin past dim]` and what came, `[origin step dim]`, evenly spread."""
    pieces = []
    for values in record:
        for k in range(need, len(values) - steps + 1):
            pieces.append((values, k))
    pieces = [
        (values[k - need : k], values[k : k + steps])
        for values, k in (pieces[i] for i in _spread(len(pieces), most))
        if np.isfinite(values[k - need : k + steps]).all()
    ]
    if len(pieces) < 2:
        raise ValueError(
            f"a backtest needs complete stretches of {need} samples of history and {steps} to "
            "forecast, at two origins or more; shorten the horizon or give longer data."
        )
    return tuple(np.stack(part) for part in zip(*pieces, strict=True))


def _spread(n: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, most).round().astype(int)) if n else np.array([], int)


def _own(found, ensemble, past, steps, paths, key) -> np.ndarray:
    """`[path origin step dim]`, all origins in one run."""
    learned, n = make_learned(found, ensemble), len(past)
    dtype = learned.dt.dtype
    start = jnp.repeat(jnp.asarray(past, dtype), paths, axis=0)
    member = jnp.tile(jnp.arange(paths) % ensemble.resamples, n)
    change = no_change(steps, past.shape[2], dtype)
    noise_key, error_key = jr.split(key)
    noise = draw_noise(ensemble, noise_key, steps, n * paths, dtype)
    run, _ = simulate(learned, change, start, member, noise)
    run = np.asarray(measured(ensemble, run, error_key, change), np.float64)
    return np.moveaxis(run.reshape(n, paths, steps, -1), 1, 0)


def _persistence(record, past, steps, paths, rng):
    change = np.concatenate([np.diff(v, axis=0) for v in record])
    change = change[np.isfinite(change).all(axis=1)]
    change = change - change.mean(axis=0)
    drawn = change[rng.integers(len(change), size=(paths, len(past), steps))]
    return past[None, :, -1:] + np.cumsum(drawn, axis=2)


def _climatology(record, past, steps, paths, rng):
    values = np.concatenate(record)
    values = values[np.isfinite(values).all(axis=1)]
    return values[rng.integers(len(values), size=(paths, len(past), steps))]


def _autoregression(record, lags, past, steps, paths, rng):
    """Least squares of increments on all lags, iterated."""
    lags = np.asarray(lags)

    def flat(h):
        return np.concatenate([h.reshape(*h.shape[:-2], -1), np.ones((*h.shape[:-2], 1))], -1)

    inputs, outputs = [], []
    for values in record:
        k = np.arange(lags[-1], len(values) - 1)
        inputs.append(flat(values[k[:, None] - lags[None]]))
        outputs.append(values[k + 1] - values[k])
    design, change = np.concatenate(inputs), np.concatenate(outputs)
    usable = np.isfinite(design).all(axis=1) & np.isfinite(change).all(axis=1)
    design, change = design[usable], change[usable]
    weights, *_ = np.linalg.lstsq(design, change, rcond=None)
    left = change - design @ weights
    covariance = left.T @ left / max(len(left) - design.shape[1], 1)
    values, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    buffer = np.broadcast_to(past[None], (paths, *past.shape)).copy()
    out = []
    for _ in range(steps):
        now = buffer[:, :, -1]
        kick = rng.normal(size=now.shape) @ factor.T
        new = now + flat(buffer[:, :, buffer.shape[2] - 1 - lags]) @ weights + kick
        # An unstable autoregression must not overflow.
        new = np.clip(new, -1e100, 1e100)
        buffer = np.concatenate([buffer[:, :, 1:], new[:, :, None]], axis=2)
        out.append(new)
    return np.stack(out, axis=2)


def _score(forecasts, came, scale):
    """CRPS and coverage `[step dim]`, energy score `[step]`."""
    z, truth = jnp.asarray(forecasts / scale), jnp.asarray(came / scale)
    low, high = path_quantile(z, 0.05), path_quantile(z, 0.95)
    inside = (low <= truth) & (truth <= high)
    return (
        np.asarray(jnp.mean(crps(z, truth), axis=0)),
        np.asarray(inside).mean(axis=0),
        np.asarray(jnp.mean(energy_score(z, truth), axis=0)),
    )
