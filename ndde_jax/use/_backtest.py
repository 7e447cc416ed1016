"""Forecasts from many origins, compared with simple methods that any model should beat."""

import dataclasses
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray
from numpy.lib.stride_tricks import sliding_window_view

from .._checks import argument_error, check_choice, check_key, check_whole, short_repr
from .._types import Checked, divisor
from ..metrics._forecast import crps, energy_score
from ._arguments import read_span
from ._ensemble import generator
from ._forecast import (
    MAX_EXCESS,
    Level,
    excess,
    level_of,
    path_quantile,
    read_record,
    removed_in_time,
)
from ._one_step import Rows
from ._simulate import learned_paths, no_change

OWN = "ndde_jax"
# Steps ahead that are scored by default, with the last one.
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


@dataclasses.dataclass(frozen=True, eq=False)
class Backtest:
    """The scores of forecasts by method and step; NumPy; made by `found.backtest`.

    - `methods`: `"ndde_jax"`, then the rivals, fitted to the record of the discovery.
    - `steps`: samples ahead, `[step]`.
    - `scores`: CRPS of every origin, in standard deviations of the variable,
        `[method origin step dim]`; `crps`: the means over origins, `[method step dim]`.
    - `inside`: whether the later value lay inside the 90 % interval, `[method origin step dim]`;
        `coverage`: the share inside, `[method step dim]`.
    - `beyond`: origins whose past leaves the range of the record by more than a tenth of it, bool
        `[origin]`. The drift is extrapolated there, and intervals do not include its error.
    - `energy`: energy score over all standardised variables, `[method step]`.
    """

    methods: tuple[str, ...]
    steps: np.ndarray
    scores: Float[np.ndarray, "method origin step dim"]
    inside: Bool[np.ndarray, "method origin step dim"]
    energy: Float[np.ndarray, "method step"]
    names: tuple[str, ...]
    beyond: Bool[np.ndarray, "origin"]
    held_out: bool

    @property
    def origins(self) -> int:
        """The number of origins."""
        return len(self.beyond)

    @property
    def coverage(self) -> Float[np.ndarray, "method step dim"]:
        """The share of later values inside the 90 % intervals."""
        return self.inside.mean(axis=1)

    @property
    def crps(self) -> Float[np.ndarray, "method step dim"]:
        """The continuous ranked probability scores, averaged over origins."""
        return self.scores.mean(axis=1)

    def against(
        self, rival: Checked[str]
    ) -> tuple[Float[np.ndarray, "step"], Float[np.ndarray, "step"]]:
        """Return by how much the CRPS is better than a rival's, averaged over variables and
        origins, with its standard error. The error takes origins as independent: it is right if
        `origins` are so few that horizons do not overlap, and too small otherwise.

        **Raises:** `ValueError` for a rival that was not included.
        """
        rivals = self.methods[1:]
        if not isinstance(rival, str) or rival not in rivals:
            raise ValueError(f"rival must be one of {', '.join(rivals)}; got {short_repr(rival)}.")
        better = (self.scores[self.methods.index(rival)] - self.scores[0]).mean(axis=2)
        return better.mean(axis=0), better.std(axis=0, ddof=1) / np.sqrt(len(better))

    def to_frame(self):
        """Return a pandas DataFrame: method, step, variable, crps, coverage."""
        import pandas as pd

        axes = {"method": self.methods, "step": self.steps, "variable": self.names}
        index = pd.MultiIndex.from_product(axes.values(), names=list(axes))
        columns = {"crps": self.crps.ravel(), "coverage": self.coverage.ravel()}
        return pd.DataFrame(columns, index).reset_index()

    def __repr__(self) -> str:
        data = "held-out data" if self.held_out else "the data that were fitted"
        lines = [
            f"Backtest on {data}, {self.origins} origins: CRPS in standard deviations (coverage of "
            "90 % intervals), means over variables",
            "step  " + "".join(f"{method:>20}" for method in self.methods),
        ]
        means = (each.mean(axis=2).T for each in (self.crps, self.coverage))
        for step, *pairs in zip(self.steps, *means, strict=True):
            cells = (f"{crps:.4f} ({share:.2f})" for crps, share in zip(*pairs, strict=True))
            lines.append(f"{step:>4}  " + "".join(f"{cell:>20}" for cell in cells))
        if self.beyond.any():
            familiar = self.inside[0][~self.beyond]
            rest = f"; coverage from the others is {familiar.mean():.2f}" if len(familiar) else ""
            lines.append(
                f"{self.beyond.sum()} of the origins have a past outside the range of the record, "
                f"where the drift is extrapolated{rest}."
            )
        return "\n".join(lines)


class WithBacktests:
    """The backtests of a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    def backtest(
        self: Any,
        horizon: Checked[int | str] = 24,
        *,
        data: Any = None,
        origins: Checked[int] = 20,
        paths: Checked[int] = 100,
        key: Checked[PRNGKeyArray],
        rivals: Checked[Sequence[str]] = ("persistence", "climatology", "VAR"),
        at: Checked[Sequence[int] | None] = None,
    ) -> Backtest:
        """Score forecasts from many origins against later values, and those of rivals fitted to the
        same record with the same lags. Known inputs are forecast as well, but not scored.

        **Arguments:**

        - `horizon`: horizon in samples, or a time with its unit.
        - `data`: data to forecast, `[time dim]` at the interval of the discovery, or
            [`Samples`][ndde_jax.Samples] with times, which are required if seasons were removed. By
            default the discovery's own record, to which the drift was fitted: scores then flatter
            the drift and the autoregression alike. Data and scores are in measured units; rivals
            read logarithms if the discovery does.
        - `origins`: number of origins, evenly spread over the stretches without gaps; 20 by
            default.
        - `paths`: paths per forecast, 100 by default.
        - `key`: key for the noise.
        - `rivals`: `"persistence"`, steps of the record, accumulated from the present;
            `"climatology"`, values of the record; `"VAR"`, least squares of increments on all lags;
            and optionally `"PySINDy"` (`pip install "ndde_jax[peers]"`), polynomials of all lags,
            with noise from its residuals, since it has no noise model.
        - `at`: steps ahead to score, in samples; 1, 2, 5, 10, 20, … and the last by default.

        **Returns:** [`Backtest`][ndde_jax.use.Backtest], a table of CRPS, coverage of 90 %
        intervals and energy score by step.

        **Raises:** `ValueError` if the data have fewer complete stretches of a history and the
        horizon than origins, for an unknown rival, and for a step beyond the horizon; `ImportError`
        without PySINDy.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((600, 1))
        for k in range(599):
            x[k + 1] = 0.8 * x[k] + rng.normal()
        found = ndde.discover(x[:400], dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.backtest(5, data=x[400:], key=jax.random.key(1)))
        ```
        """
        key, steps = check_key(key), read_span(horizon, self, "horizon")
        check_whole(origins, "origins", least=2)
        check_whole(paths, "paths", least=2)
        rivals, at = _rivals(rivals), _steps(at, steps)
        # One sample beyond the largest lag, since a finer step interpolates between samples there.
        need = int(self.lags[-1]) + 2
        record = [np.asarray(v, np.float64) for v in self.samples.values]
        # Offsets belong to recordings, and held-out data have none.
        level = level_of(self, offset=False)
        given = record if data is None else [_held_out(self, data, level)]
        past, came = _origins(given, need, steps, int(origins))
        rng = generator(jr.fold_in(key, 1))
        change = no_change(steps, len(self.names))
        own = np.asarray(learned_paths(self, self._members, change, past, paths, key)[0])
        own = np.moveaxis(own.reshape(len(past), paths, steps, -1), 1, 0)
        # Rivals read what the discovery reads. All are scored in measured units.
        scale = np.nanstd(level.outside(np.concatenate(record)), axis=0)
        asked = RivalTask(record, self._members.rows, self.lags, past, steps, paths, rng)
        forecasts = (own, *(RIVALS[rival](asked) for rival in rivals))
        came = level.outside(came)[:, at - 1]
        names = tuple(name for name in self.names if name not in self.inputs)
        kept = np.isin(self.names, names)
        scores = [
            _score(level.outside(paths[:, :, at - 1])[..., kept], came[..., kept], scale[kept])
            for paths in forecasts
        ]
        scores_, inside, energy = (np.stack(part) for part in zip(*scores, strict=True))
        beyond = excess(self, past).max(axis=1) > MAX_EXCESS
        methods, held_out = (OWN, *rivals), data is not None
        return Backtest(methods, at, scores_, inside, energy, names, beyond, held_out)


def _rivals(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise argument_error("rivals", f"a sequence of names, of {', '.join(RIVALS)}", names)
    for name in names:
        check_choice(name, "rivals", RIVALS)
    if "PySINDy" in names and importlib.util.find_spec("pysindy") is None:
        raise ImportError('a backtest against PySINDy needs it: pip install "ndde_jax[peers]".')
    return tuple(dict.fromkeys(names))


def _steps(at: Any, steps: int) -> np.ndarray:
    if at is None:
        return np.unique(np.array([*STEPS, steps]).clip(max=steps))
    if isinstance(at, str) or not isinstance(at, Sequence) or not len(at):
        raise argument_error("at", "a sequence of steps, in samples", at)
    for step in at:
        check_whole(step, "at", least=1, most=steps)
    return np.unique(np.array(at, int))


def _held_out(found: Any, data: Any, level: Level) -> np.ndarray:
    """Return held-out data as the drift reads them, `[time dim]`.

    **Raises:** `ValueError` for data without times if a season or a trend was removed.
    """
    values, timed = read_record(found, data, "data", level)
    gone = [t.name for t in removed_in_time(found)]
    if gone and timed is None:
        raise ValueError(
            f"the discovery removed a {' and a '.join(gone)} from its record, but data is "
            "an array without times. Give data=ndde_jax.read_samples(x, t=...)."
        )
    return values


def _origins(record, need: int, steps: int, number: int):
    """Return pasts `[origin past dim]` and later values `[origin step dim]`, evenly spread over the
    complete stretches of a record.
    """
    length = need + steps
    long = [v for v in record if len(v) >= length]
    there = [sliding_window_view(np.isfinite(v).all(axis=1), length).all(axis=1) for v in long]
    places = [(v, k) for v, whole in zip(long, there, strict=True) for k in np.flatnonzero(whole)]
    if len(places) < number:
        raise ValueError(
            f"a backtest from {number} origins needs as many complete stretches of {need} samples "
            f"of history and {steps} to forecast; got {len(places)}. Shorten the horizon, give "
            "longer data or use fewer origins."
        )
    chosen = np.linspace(0, len(places) - 1, number).round().astype(int)
    pieces = np.stack([v[k : k + length] for v, k in (places[i] for i in chosen)])
    return pieces[:, :need], pieces[:, need:]


def _score(forecasts, came, scale):
    """Return the CRPS, whether intervals cover, `[origin step dim]`, and the energy score,
    `[step]`.
    """
    # Relative to the later values: no score depends on the level, which may exceed single
    # precision.
    z = jnp.asarray((forecasts - came) / scale)
    low, high = path_quantile(z, 0.05), path_quantile(z, 0.95)
    zero = jnp.zeros(came.shape, z.dtype)
    energy = jnp.mean(energy_score(z, zero), axis=0)
    return np.asarray(crps(z, zero)), (low <= 0) & (0 <= high), np.asarray(energy)


# ---- rivals: paths `[path origin step dim]` ----


# Numbers of inputs up to which PySINDy uses polynomials of degree 3 and 2; beyond, it is linear.
CUBIC, QUADRATIC = 12, 40
# States of polynomials are clipped at so many standard deviations of the record, since iterated
# polynomials may explode.
MAX_DEVIATIONS = 20.0
Paths = Float[np.ndarray, "path origin step dim"]


@dataclasses.dataclass(frozen=True, eq=False)
class RivalTask:
    """The forecasts that a rival has to make, and the data it may use.

    - `record`: recordings of the discovery; `rows`: their complete steps.
    - `past`: the samples before each origin.
    """

    record: list[np.ndarray]
    rows: Rows
    lags: tuple[int, ...]
    past: Float[np.ndarray, "origin past dim"]
    steps: int
    paths: int
    rng: np.random.Generator

    @property
    def inputs(self) -> Float[np.ndarray, "row input"]:
        """The states at all lags, newest first."""
        return self.rows.start.reshape(len(self.rows), -1)

    @property
    def change(self) -> Float[np.ndarray, "row dim"]:
        """The increments after these states."""
        return self.rows.next - self.rows.now

    def drawn(self, values: Float[np.ndarray, "row dim"]) -> Paths:
        """Return complete rows of `values`, drawn independently at every step."""
        values = values[np.isfinite(values).all(axis=1)]
        return values[self.rng.integers(len(values), size=(self.paths, len(self.past), self.steps))]

    def iterated(self, step: Callable, factor: np.ndarray, low: Any, high: Any) -> Paths:
        """Return paths of the expected increments of `step` plus Gaussian noise, held in bounds."""
        lags, (n, start, dim) = np.asarray(self.lags), self.past.shape
        x = np.zeros((self.paths, n, start + self.steps, dim))
        x[:, :, :start] = self.past
        for k in range(start, start + self.steps):
            history, now = x[:, :, k - 1 - lags], x[:, :, k - 1]
            kick = self.rng.normal(size=now.shape) @ factor.T
            new = now + step(history.reshape(self.paths, n, -1)) + kick
            x[:, :, k] = np.clip(new, low, high)
        return x[:, :, start:]


def persistence(asked: RivalTask) -> Paths:
    """Return forecasts by persistence: steps of the record, accumulated from the present."""
    change = np.concatenate([np.diff(v, axis=0) for v in asked.record])
    change = change - change[np.isfinite(change).all(axis=1)].mean(axis=0)
    return asked.past[None, :, -1:] + np.cumsum(asked.drawn(change), axis=2)


def climatology(asked: RivalTask) -> Paths:
    """Return forecasts by climatology: values of the record."""
    return asked.drawn(np.concatenate(asked.record))


def autoregression(asked: RivalTask) -> Paths:
    """Return forecasts by autoregression: least squares of increments on all lags, iterated, with
    Gaussian noise.
    """
    inputs, change = asked.inputs, asked.change
    flat = lambda h: np.concatenate([h, np.ones((*h.shape[:-1], 1))], -1)  # noqa: E731
    weights, *_ = np.linalg.lstsq(flat(inputs), change, rcond=None)
    factor = _covariance_root(change - flat(inputs) @ weights, inputs.shape[1] + 1)
    # An unstable autoregression must not overflow.
    return asked.iterated(lambda h: flat(h) @ weights, factor, -1e100, 1e100)


def sparse_regression(asked: RivalTask) -> Paths:
    """Return forecasts by PySINDy: increments regressed on polynomials of all lags, iterated. It
    has no noise model, so Gaussian noise of its residuals is added, and states are held within
    twenty standard deviations of the record.
    """
    import pysindy

    inputs, change = asked.inputs, asked.change
    dim, n_inputs = change.shape[1], inputs.shape[1]
    degree = 3 if n_inputs <= CUBIC else 2 if n_inputs <= QUADRATIC else 1
    library = pysindy.PolynomialLibrary(degree=degree)
    model = pysindy.SINDy(feature_library=library)
    middle, spread = inputs.mean(axis=0), divisor(inputs.std(axis=0))
    mean, size = change.mean(axis=0), divisor(change.std(axis=0))
    z = (inputs - middle) / spread
    # PySINDy needs as many states as rates, so delayed states enter as control.
    given = dict(u=z[:, dim:]) if n_inputs > dim else {}
    model.fit(z[:, :dim], t=1.0, x_dot=(change - mean) / size, **given)
    weights, powers = np.asarray(model.coefficients()), np.asarray(library.powers_)
    used = (weights != 0).any(axis=0)
    weights, powers = weights[:, used], powers[used]

    def step(h):
        z = (h - middle) / spread
        out = np.zeros((*h.shape[:-1], dim))
        for weight, power in zip(weights.T, powers, strict=True):
            term = np.ones(h.shape[:-1])
            for k in np.flatnonzero(power):
                term = term * z[..., k] ** power[k]
            out += term[..., None] * weight
        return mean + size * out

    factor = _covariance_root(change - step(inputs), int(used.sum()))
    values = np.concatenate(asked.record)
    center, wide = np.nanmean(values, axis=0), MAX_DEVIATIONS * np.nanstd(values, axis=0)
    return asked.iterated(step, factor, center - wide, center + wide)


RIVALS: dict[str, Callable[[RivalTask], Paths]] = {
    "persistence": persistence,
    "climatology": climatology,
    "VAR": autoregression,
    "PySINDy": sparse_regression,
}


def _covariance_root(left, n_fitted: int):
    """Return a square root of the covariance of the residuals."""
    values, vectors = np.linalg.eigh(left.T @ left / max(len(left) - n_fitted, 1))
    return vectors * np.sqrt(np.maximum(values, 0))
