"""Forecasts: simulated paths of a learned system from the end of a record."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import (
    check_concrete,
    check_key,
    check_number,
    check_real_array,
    check_whole,
    is_traced,
    short_repr,
)
from .._types import Checked, namespace_of
from .._wording import amount, listed, more_than, times
from ..samples._clock_inputs import clock_columns, wave_of
from ..samples._columns import rests_at_zero
from ..samples._dates import dates_after, elapsed, written
from ..samples._gaps import linearly_interpolated
from ..samples._prepare import treated_columns
from ..samples._reading import Labelled, read_alike, read_labelled, read_samples
from ..samples._samples import Samples
from ..samples._treatments import (
    OFFSETS,
    SCHEDULE,
    Treatment,
    check_logarithm,
    one_transformed,
    restored,
    transformed,
)
from ..windows._prior import schedules_of
from ._arguments import mapping, read_span, series, variable
from ._ensemble import Ensemble
from ._simulate import Change, check_memory, learned_paths, no_change

# Excess over the range of the data, as a share of it, beyond which a past is reported as outside.
MAX_EXCESS = 0.1
# Share of times and paths outside the range of the data above which a note reports it.
OUTSIDE = 0.05
# Paths have come to rest if their spread is below this share of that of equally long stretches of
# the record. Then the number of such stretches required, and the least samples in one.
AT_REST, STRETCHES, SHORTEST = 0.2, 4, 20
# What `inputs` may be: a mapping from these.
INPUTS_AHEAD = (
    "known inputs to their future values, or a frame or an existing file with a column for each"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Forecast:
    """A forecast as a set of paths that the data and the noise allow; made by `found.forecast`.

    - `ts`: times `[horizon]`, continuing from the last sample, in the unit of the data.
    - `paths`: `[path horizon dim]`, in measured units (logarithms and ranks undone). NumPy in
        double precision, which resolves variations about a large level; JAX if anything is traced.
    - `diverged`: paths that left the range of the data a thousandfold and were held there, bool
        `[path]`. They count in every quantile.
    - `history`: the last samples before the forecast, `[time dim]`.
    - `notes`: sentences on the assumptions of the forecast.
    - `start`: the date of time 0 in ISO 8601; empty if unknown.
    """

    ts: Float[np.ndarray, "horizon"]
    paths: Float[Array | np.ndarray, "path horizon dim"]
    diverged: Bool[Array, "path"]
    history: Float[np.ndarray, "time dim"]
    names: tuple[str, ...]
    time_unit: str
    notes: tuple[str, ...] = ()
    start: str = ""

    def quantile(self, q: Any) -> Float[Array | np.ndarray, "..."]:
        """Return a quantile at each time, `[horizon dim]`; for several, `[q horizon dim]`."""
        return path_quantile(self.paths, q)

    @property
    def median(self) -> Float[Array | np.ndarray, "horizon dim"]:
        """The median of the paths."""
        return self.quantile(0.5)

    def interval(self, level: Checked[float] = 0.9) -> tuple[Any, Any]:
        """Return the lower and upper ends of a central interval, each `[horizon dim]`.

        - `level`: the share of paths inside, between 0 and 1.
        """
        check_number(level, "level", above=0, below=1)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def to_frame(self):
        """Return a pandas DataFrame: time (and date if known), variable, median, and the ends of
        the 50 and 90 % intervals.
        """
        ends = self.quantile(np.array([0.5, 0.05, 0.25, 0.75, 0.95]))
        names = ("median", "low_90", "low_50", "high_50", "high_90")
        return frame_by_time(self, dict(zip(names, ends, strict=True)))

    def plot(self):
        """Return a matplotlib Figure; needs matplotlib."""
        from ..plot import plot_forecast

        return plot_forecast(self)

    def __repr__(self) -> str:
        head = f"Forecast, {amount(len(self.paths), 'path', 9)} {times_of(self)}"
        if is_traced(self.paths):
            return head
        return head + summary_of_ends(self, "values", self.paths)


# Variables listed by a forecast or an intervention, and the quantiles shown for each.
SHOWN, ENDS = 12, np.array([0.5, 0.05, 0.95])


def summary_of_ends(made: Any, what: str, paths: Any, sign: str = "", rounding: Any = -1.0) -> str:
    """Return a header and a line per variable: the median and 90 % interval at the last time (no
    interval for a single path), or "unchanged" within `rounding`.
    """
    ends = np.asarray(path_quantile(paths, ENDS))[:, -1]
    changed = ~(np.abs(ends).max(axis=0) <= rounding)  # non-finite values count as changed
    several = len(paths) > 1
    rows = []
    for name, (middle, low, high), moved in zip(made.names, ends.T, changed, strict=True):
        width = f" ({low:.3g} to {high:.3g})" if several else ""
        rows.append(f"  {name}  " + (f"{middle:{sign}.3g}{width}" if moved else "unchanged"))
    more = more_than(SHOWN, len(rows), "  and {} more: to_frame()")
    head = f"; {what} at the end{', with 90 % intervals' if several else ''}:"
    return "\n".join([head, *rows[:SHOWN], *more])


def times_of(made: Any) -> str:
    """Return the times of a forecast or an intervention, in words."""
    first = time_label(made, 0) if made.start else f"{made.ts[0]:.6g}"
    return f"from {first} to {time_label(made, -1)}"


def time_label(made: Any, k: int) -> str:
    """Return one time of a forecast or an intervention, in words: its date if known."""
    if made.start:
        return written(dates_after(made.start, made.ts, made.time_unit)[k])
    return amount(made.ts[k], made.time_unit, 6)


def frame_by_time(of: Any, columns: Mapping[str, Any]) -> Any:
    """Return a pandas DataFrame of columns `[horizon dim]`, with a row per time and variable."""
    import pandas as pd

    index = pd.MultiIndex.from_product((of.ts, of.names), names=("time", "variable"))
    columns = {name: np.ravel(column) for name, column in columns.items()}
    table = pd.DataFrame(columns, index).reset_index()
    if of.start:
        dates = [written(date) for date in dates_after(of.start, of.ts, of.time_unit)]
        table.insert(1, "date", np.repeat(dates, len(of.names)))
    return table


def path_quantile(paths: Any, q: Any) -> Any:
    """Return quantiles over paths, at position q (n + 1) among the n ordered ones (Weibull, 1939).

    A new path then lies below the quantile with probability q. The default of `numpy.quantile`,
    between the first and the last path, would make intervals from few paths too narrow.
    """
    check_real_array(q, "q", "between 0 and 1", least=0)
    if is_traced(paths, q):
        n = paths.shape[0]
        place = jnp.clip((jnp.asarray(q, paths.dtype) * (n + 1) - 1) / max(n - 1, 1), 0, 1)
        return jnp.quantile(paths, place, axis=0)
    if np.any(np.asarray(q) > 1):
        raise ValueError(f"q must lie in [0, 1]; got {short_repr(q)}.")
    return np.quantile(np.asarray(paths), np.asarray(q, float), axis=0, method="weibull")


class WithForecasts:
    """The forecasts of a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    def forecast(
        self: Any,
        horizon: Checked[int | str] = 24,
        *,
        paths: Checked[int] = 200,
        key: Checked[PRNGKeyArray],
        history: Any = None,
        inputs: Any = None,
        ensemble: Checked[Ensemble | None] = None,
    ) -> Forecast:
        """Return simulated paths from the end of the record on, in measured units.

        Each path follows one member of an ensemble of drifts (see
        [`resample`][ndde_jax.Discovery.resample]). Its noise is drawn from the residuals of
        one-step forecasts by the same simulator, so one step is calibrated by construction. The
        noise keeps its covariance between variables and its tails. It depends on the state if the
        data clearly show this, and measurement error is separated if neighbouring residuals clearly
        show it.

        **Arguments:**

        - `horizon`: in samples, or a time with its unit such as "6h"; 24 samples by default. A long
            forecast reports the memory it needs and shows a progress bar.
        - `paths`: number of paths. With the default of 200, the ends of a 90 % interval vary by a
            tenth of its width.
        - `key`: key for the noise.
        - `history`: the samples to start from, `[time dim]` in measured units, newest last, at the
            interval of the data and at least one sample longer than the largest lag. May be a
            frame, whose columns are matched by name, or [`Samples`][ndde_jax.Samples]; their times
            determine the phase of seasons. By default the end of the (last) record. Removed seasons
            and trends continue in the forecast.
        - `inputs`: future values of known inputs by name, one number or `[horizon]`; or a frame or
            file with a column for each, whose rows are found by their dates. Without dates, the
            first row is the next sample. Known inputs are variables that the prior lets no
            other variable drive.
        - `ensemble`: the result of [`resample`][ndde_jax.Discovery.resample]; by default of 40
            halves.

        **Returns:** [`Forecast`][ndde_jax.use.Forecast].

        **Raises:** `ValueError` for irregular sampling, a unit that cannot be compared with that of
        the data, a history that is too short or not finite, and paths that exceed the memory of
        this machine.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        t = np.arange(400) * 0.1
        x = np.stack([np.sin(t), np.cos(t)], 1)
        found = ndde.discover(x, dt=0.1, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        f = found.forecast(20, key=jax.random.key(1))
        print(f.median[-1], np.sin(f.ts[-1]))
        ```
        """
        key, steps = check_key(key), read_span(horizon, self, "horizon")
        check_whole(paths, "paths")
        check_memory(steps, paths, len(self.names))
        origin, later = read_history(self, history), np.arange(1, steps + 1)
        level = origin.level(np.arange(steps + 1))
        change, told, given = known_inputs(origin, inputs, level, steps)
        ensemble = self._given(ensemble, given)
        run, diverged = learned_paths(self, ensemble, change, origin.newest(), paths, key)
        past = origin.past
        notes = (*origin.notes, *told, *divergence_note(diverged))
        notes += _beyond_note(self, past) or outside_note(self, run)
        if inputs is None:  # given inputs may be at rest themselves
            notes += _at_rest_note(self, run)
        run = origin.level(later).outside(run)
        notes += _below_zero_note(self, run)
        past = origin.level(np.arange(1 - len(past), 1)).outside(past)
        about = (self.names, self.time_unit, notes, origin.start)
        return Forecast(origin.after(later), run, diverged, past, *about)


def range_of(found: Any) -> tuple[Float[np.ndarray, "dim"], Float[np.ndarray, "dim"]]:
    """Return the smallest and largest value of each variable, as the drift reads it."""
    seen = np.concatenate([np.asarray(v, np.float64) for v in found.samples.values])
    return np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)


def excess(
    found: Any, past: Float[np.ndarray, "*batch time dim"]
) -> Float[np.ndarray, "*batch dim"]:
    """Return how far the states read by the first step leave the range of the data, as a share
    of that range; 0 inside.
    """
    low, high = range_of(found)
    read = past[..., past.shape[-2] - 1 - np.asarray(found.lags), :]
    beyond = np.maximum(low - read.min(axis=-2), read.max(axis=-2) - high)
    return np.maximum(beyond, 0) / np.where(high > low, high - low, 1.0)


def _beyond_note(found: Any, past: np.ndarray) -> tuple[str, ...]:
    """Return a note on a past outside the range of the data; empty inside."""
    by = excess(found, past)
    worst = int(np.argmax(by))
    if by[worst] <= MAX_EXCESS:
        return ()
    return (
        f"{found.names[worst]} starts outside the range of the data, by "
        f"{times(float(by[worst]))} that range: the drift is an extrapolation there, and intervals "
        "do not include its error.",
    )


def outside_note(
    found: Any, run: Any, before: Any = None, when: Any = slice(None)
) -> tuple[str, ...]:
    """Return a note on paths `[path step dim]`, as the drift reads them, that leave the range of
    the data; empty if none does.

    - `before`: paths without the change, if one was made; `when`: the steps that count.
    """
    if is_traced(run, before):
        return ()
    low, high = range_of(found)

    def share(paths):
        paths = np.asarray(paths)
        return np.mean((paths < low) | (paths > high), axis=0)[when].mean(axis=0)

    after, ends = share(run), level_of(found).outside(np.stack([low, high]))
    plain = [""] * len(after)
    if before is not None:
        plain = [f" ({value:.0%} without the change)" for value in share(before)]
    said = [
        f"{found.names[i]} ({ends[0, i]:.4g} to {ends[1, i]:.4g}) in {after[i]:.0%}{plain[i]}"
        for i in np.argsort(-after, kind="stable")
        if after[i] > OUTSIDE
    ]
    if not said:
        return ()
    return (
        f"Outside the range of the data: {listed(said)} of the times and paths. The drift is an "
        "extrapolation there.",
    )


def _at_rest_note(found: Any, run: Any) -> tuple[str, ...]:
    """Return a note on paths that come to rest, unlike the record, from the second half of each
    path and complete stretches of the record of the same length.
    """
    length = run.shape[1] // 2
    if is_traced(run) or length < SHORTEST:
        return ()
    stretches = [
        np.asarray(values[k : k + length], float)
        for values in found.samples.values
        for k in range(0, len(values) - length + 1, length)
    ]
    complete = [part for part in stretches if np.isfinite(part).all()]
    if len(complete) < STRETCHES:
        return ()
    usual = np.median([part.std(axis=0) for part in complete], axis=0)
    late = np.median(np.std(np.asarray(run)[:, -length:], axis=1), axis=0)
    still = [
        name
        for name, own, other in zip(found.names, late, usual, strict=True)
        if own < AT_REST * other
    ]
    if not still:
        return ()
    return (
        f"{listed(still)} {'comes' if len(still) == 1 else 'come'} to rest on most paths, unlike "
        "any part of the record: what keeps the system moving was not found.",
    )


def _below_zero_note(found: Any, run: Any) -> tuple[str, ...]:
    """Return a note on paths that fall below zero if a variable rests there, as rain does."""
    if is_traced(run):
        return ()
    seen = np.concatenate(found.samples.as_measured().values)
    below = [
        f"{name} (in {share:.0%} of the times and paths)"
        for name, column, share in zip(
            found.names, seen.T, np.mean(run < 0, axis=(0, 1)), strict=True
        )
        if share > 0 and rests_at_zero(column)
    ]
    if not below:
        return ()
    return (f"Below zero, unlike the whole record: {listed(below)}. Read these values as zero.",)


def divergence_note(diverged: Any) -> tuple[str, ...]:
    """Return a note on paths that diverged."""
    if isinstance(diverged, jax.core.Tracer) or not bool(jnp.any(diverged)):
        return ()
    return (
        f"{int(jnp.sum(diverged))} of {diverged.shape[0]} paths diverged. They are held far "
        "outside the range of the data and count in every quantile.",
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Level:
    """A map between measured values and values as the drift reads them, `[... dim]`; NumPy or JAX.

    - `samples`: the samples of the discovery, with any logarithms and scores.
    - `offset`: what is subtracted after these transforms: the level of the recording, `[dim]`, or
        with seasons and trends at certain times, `[time dim]`.
    """

    samples: Samples
    offset: Any

    def at(self, k: Any) -> "Level":
        """Return the level at the k-th time; k may be traced."""
        if self.offset.ndim == 1:
            return self
        return dataclasses.replace(self, offset=jnp.asarray(self.offset)[k])

    def inside(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values as the drift reads them, from measured values; messages call them `name`.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        for j, variable_name in enumerate(self.samples.names):
            self.check(j, values[..., j], f"{name}, {variable_name}")
        return transformed(self.samples.reading, values) - self._offset(values, np)

    def outside(self, values: Any) -> Any:
        """Return measured values from values as the drift reads them."""
        xp = namespace_of((values, self.offset))
        return restored(self.samples.reading, values + self._offset(values, xp), xp)

    def one_inside(self, j: int, values: Any, xp: Any = jnp) -> Any:
        """Return one variable as the drift reads it, without checks."""
        offset = xp.asarray(self.offset[..., j], values.dtype)
        return one_transformed(self.samples.reading, j, values, xp) - offset

    def series(self, j: int, values: Any, name: str, steps: int) -> Any:
        """Return values of one variable from sample 0 on, as the drift reads them, from a number or
        one per step in measured units.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        new = series(values, name, steps)
        self.check(j, values, name)  # as given, so that the message counts these values
        return self.one_inside(j, new, namespace_of((new, self.offset)))

    def check(self, j: int, values: Any, name: str) -> None:
        """Raise an error unless measured values of a variable can be transformed; messages call
        them `name`.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        own = self.samples.names[j]
        if self.samples.transform.get(own) == "log":
            check_logarithm(values, name, f"{own} was read as its logarithm: give values above 0.")

    def _offset(self, values: Any, xp: Any) -> Any:
        """Return the offset, reshaped to the number of axes of the values."""
        offset = xp.asarray(self.offset, values.dtype)
        return offset.reshape((1,) * (values.ndim - offset.ndim) + offset.shape)


def level_of(found: Any, times: Any = None, *, offset: bool = True) -> Level:
    """Return the level of the last recording, which forecasts use, at given times if any; without
    `offset`, the part common to all recordings.
    """
    samples = found.samples
    own = samples.offsets[-1] if offset else samples.level
    if times is not None:
        own = own[None] + sum(t.removed(np.asarray(times), -1) for t in removed_in_time(found))
    return Level(samples, own)


def removed_in_time(found: Any) -> list[Treatment]:
    """Return the seasons and trends that were removed."""
    return [t for t in found.samples.treatments if t.coefficients and t.name != OFFSETS]


def read_record(
    found: Any, given: Any, name: str, level: Level, order: str = ""
) -> tuple[Float[np.ndarray, "time dim"], Samples | None]:
    """Return one recording as the drift reads it, and its samples on the clock of the discovery, or
    None for values without times, which are read at a `level`. Messages call it `name`.

    **Raises:** `ValueError` for several recordings, other variables, another shape or interval.
    """
    check_concrete(
        f"reading {name}",
        given,
        "There, simulate the learned drift with ndde_jax.solve_sdde(found.model, history=...), "
        "which is differentiable.",
    )
    samples, dt, dim = found.samples, float(found.dt), len(found.names)
    labelled = None if isinstance(given, Samples) else read_labelled(given)
    if labelled is not None and labelled.names is not None:
        alike = read_alike(samples, labelled, wanted_by=name)
        if len(alike.values) > 1:
            raise ValueError(f"{name} must be one recording; got {len(alike.values)}.")
        timed = labelled.dt is not None or labelled.t is not None
        given = read_samples(alike) if timed else alike.values[0]
    if not isinstance(given, Samples):
        expected = f"[time dim] with {dim} variables{order}"
        check_real_array(given, name, expected)
        values = np.asarray(given, np.float64)
        values = values[:, None] if values.ndim == 1 and dim == 1 else values
        if values.ndim != 2 or values.shape[1] != dim:
            raise ValueError(f"{name} must be {expected}; got shape {values.shape}.")
        return level.inside(values, name), None
    if len(given.values) != 1 or given.names != samples.names or not given.regular:
        raise ValueError(
            f"{name} must be one recording of {', '.join(samples.names)}, equally spaced; got "
            f"{given!r}."
        )
    if abs(given.dt - dt) > 1e-6 * dt:
        raise ValueError(
            f"{name} must have the sampling interval of the data, {dt:.6g}; got {given.dt:.6g}."
        )
    times = clock_times(found, given)
    values = np.asarray(given.values[0], np.float64)
    given = dataclasses.replace(given, times=(times,))
    return level_of(found, times).inside(values, name), given


def clock_times(found: Any, given: Samples, number: int = 0) -> Float[np.ndarray, " time"]:
    """Return the times of a recording on the clock of the discovery, to keep seasons in phase."""
    times = np.asarray(given.times[number], float)
    if given.starts and _start(found):
        times = times + elapsed(_start(found), given.starts[number], found.samples.time_unit)
    return times


def _start(found: Any) -> str:
    """Return the date of time 0 of the last recording, which forecasts use; empty if unknown."""
    return found.samples.starts[-1] if found.samples.starts else ""


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """The start of simulated paths.

    - `past`: the past as the drift reads it, `[time dim]`; `notes`: sentences about it.
    - `time`: time of the newest sample; None if unknown, and then counted as 0.
    - `start`: the date of time 0; empty if unknown.
    """

    found: Any
    past: Float[np.ndarray, "time dim"]
    notes: tuple[str, ...]
    time: float | None
    start: str

    def after(self, k: Any) -> Any:
        """Return the time `k` samples later; k may be traced."""
        return (self.time or 0.0) + float(self.found.dt) * k

    def when(self, k: int) -> str:
        """Return the date, or the time, `k` samples later in words."""
        unit = self.found.samples.time_unit
        if self.start:
            return written(dates_after(self.start, np.array([self.after(k)]), unit)[0])
        return amount(float(self.after(k)), unit, 6)

    def level(self, k: np.ndarray) -> Level:
        """Return the level `k` samples later, without seasons and trends of unknown phase."""
        return level_of(self.found, None if self.time is None else self.after(k))

    def newest(self, need: int = 0) -> Float[np.ndarray, "1 time dim"]:
        """Return as much of the past as a simulator reads: one sample beyond the largest lag, if
        available, since a finer step interpolates between samples there.
        """
        return self.past[None, -max(need, int(self.found.lags[-1]) + 1) - 1 :]


def read_history(found: Any, history: Any, need: int | None = None) -> Origin:
    """Return the start of a forecast: a given history, or the end of the record.

    **Raises:** `ValueError` for a history that is too short, not finite or of other variables.
    """
    need = int(found.lags[-1]) + 1 if need is None else need
    samples, told, order = found.samples, list[str](), ", newest last"
    if history is not None:
        values, samples = read_record(found, history, "history", level_of(found), order)
        told += () if samples else _untimed(found)
    else:
        values = np.asarray(samples.values[-1], np.float64)
        if samples.mask and not samples.mask[-1][-1]:
            told.append("the record ends outside the mask, where the model was not fitted")
        guessed = int(samples.estimated[-1][-need:].sum())
        if guessed and any(t.name == "impute" for t in samples.treatments):
            told.append(
                f"{guessed} of the values of the last {need} samples "
                f"{'was' if guessed == 1 else 'were'} not measured: paths start from one draw of "
                "the model's estimate"
            )
    if len(values) < need:
        raise ValueError(
            f"history must hold at least {need} samples, for the largest lag and the present; got "
            f"{len(values)}."
        )
    values = values[-max(need, min(len(values), 3 * need + 20)) :]
    missing = ~np.isfinite(values)
    if missing.any():
        if history is not None or missing.all(axis=0).any():
            raise ValueError(
                f"history must be finite; {int(missing.sum())} of the {missing.size} values in its "
                f"last {len(values)} samples are missing or infinite. Give a complete history."
            )
        gone = amount(float(missing.sum()), "value", 9)
        told.append(
            f"{gone} {'is' if missing.sum() == 1 else 'are'} missing among the last {len(values)} "
            "samples and interpolated; to start elsewhere, give a complete history= in Python."
        )
        values = linearly_interpolated(values)
    time = None if samples is None else float(samples.times[-1][-1])
    start = _start(found) if samples is not None and samples.starts else ""
    return Origin(found, values, tuple(told), time, start)


def _untimed(found: Any) -> tuple[str, ...]:
    """Return a note on a history without times if seasons or trends were removed."""
    gone = [t.name for t in removed_in_time(found)]
    if not gone:
        return ()
    return (
        f"the discovery removed a {' and a '.join(gone)} from the data, but history= is an array "
        "without times: the forecast omits what was removed. Give ndde_jax.read_samples(x, t=...).",
    )


def inputs_ahead(origin: Origin, inputs: Any, steps: int) -> dict[str, Any]:
    """Return the future values of known inputs by name; clocks and periodic variables continue if
    the time of the newest sample is known.
    """
    table = None if inputs is None or isinstance(inputs, dict) else read_labelled(inputs)
    if table is None or table.names is None:
        given = mapping(inputs, "inputs", INPUTS_AHEAD)
    else:
        given = _rows_ahead(origin, table, steps)
    found, record = origin.found, origin.found.samples.as_measured()
    if origin.time is None or not record.regular:
        return given
    x = linearly_interpolated(np.asarray(record.values[-1], np.float64))
    last, later = len(record.values) - 1, origin.time + float(found.dt) * np.arange(1, steps + 1)
    clocks = {name: wave_of(name, record, last, later) for name in clock_columns(record)}
    told = treated_columns(found.samples, SCHEDULE)
    passed = round((origin.time - float(record.times[-1][-1])) / float(found.dt))
    ahead = {
        found.names[j]: x[len(x) - period :, j][(passed + np.arange(steps)) % period]
        for j, period in schedules_of(found.samples).items()
        if j in told and period <= len(x)
    }
    return {**ahead, **clocks, **given}


def _rows_ahead(origin: Origin, table: Labelled, steps: int) -> dict[str, Any]:
    """Return the columns of a table in the rows after the newest sample, by their dates; without
    dates the first row is the next sample.

    **Raises:** `ValueError` for several recordings, another interval, and missing rows.
    """
    dt, unit = float(origin.found.dt), origin.found.samples.time_unit
    timed = table.dt is not None or table.t is not None
    samples = read_samples(table, **({"time_unit": unit} if timed else {"dt": dt}))
    if len(samples.values) != 1:
        raise ValueError(f"inputs must be one recording; got {len(samples.values)}.")
    if abs(samples.dt - dt) > 0.25 / steps * dt:
        raise ValueError(
            f"inputs must have the sampling interval of the data, {amount(dt, unit)}; got "
            f"{amount(samples.dt, samples.time_unit)}."
        )
    values = samples.values[0]
    places = np.arange(len(values), dtype=float)
    if samples.starts and origin.start:
        places = (clock_times(origin.found, samples) - origin.after(1)) / dt
    rows = np.flatnonzero((places > -0.5) & (places < steps - 0.5))
    if len(rows) != steps or np.abs(places[rows] - np.arange(steps)).max() > 0.25:
        ends = " to ".join(origin.when(k) for k in sorted({1, steps}))
        raise ValueError(
            f"inputs must hold one row per sample of the forecast, {ends}; {len(rows)} of its "
            f"{len(values)} rows lie there. Add rows, or shorten the horizon."
        )
    return {name: values[rows, j] for j, name in enumerate(samples.names)}


class KnownInputs(NamedTuple):
    """A `change` that sets known inputs to their future values, `notes` on the others, and the
    `names` of those that were set, without clocks, whose values are close to what is forecast.
    """

    change: Change
    notes: tuple[str, ...]
    names: tuple[str, ...]


def known_inputs(origin: Origin, inputs: Any, level: Level, steps: int) -> KnownInputs:
    """Return the known inputs of a forecast.

    **Raises:** `ValueError` for variables that other variables may drive.
    """
    found, given = origin.found, set()
    change = no_change(steps, len(found.names))
    after = np.arange(steps + 1) > 0
    for name, values in inputs_ahead(origin, inputs, steps).items():
        j = variable(name, found, "an input")
        if found.names[j] not in found.inputs:
            known = ", ".join(found.inputs) or "none"
            raise ValueError(
                f"inputs holds {found.names[j]}, which other variables may drive in this "
                f"discovery; its known inputs are {known}. Name them in discover(..., inputs=...), "
                "or use intervene to set a variable."
            )
        given.add(found.names[j])
        change = change.setting(j, after, level.series(j, values, f"the future of {name}", steps))
        # The present was measured; during the first step, too, the input moves on a line.
        change = change.setting(j, ~after, origin.past[-1, j])
    missing = [name for name in found.inputs if name not in given]
    moved = tuple(name for name in found._series_inputs if name in given)
    if not missing:
        return KnownInputs(change, (), moved)
    note = (
        f"The future of {', '.join(missing)}, which no other variable drives, is forecast as well"
    )
    note = f"{note}; if it is known, give it as inputs= (--inputs FILE on the command line)."
    return KnownInputs(change, (note,), moved)
