"""Forecasts: paths of a learned system from the end of a record."""

import dataclasses
from collections.abc import Mapping
from typing import Any

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
    shown,
)
from .._spoken import amount, listed, more_than, times
from .._types import Checked, namespace_of
from ..samples._columns import rests
from ..samples._dates import dates_after, elapsed, written
from ..samples._gaps import bridged
from ..samples._prepare import treated_columns
from ..samples._reading import read_alike, read_labelled, read_samples
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

# Share of the range of the data beyond which a past is said to lie outside of it.
BEYOND = 0.1
# Share of times and paths outside the range of the data from which on a note says so.
OUTSIDE = 0.05
# Share of the spread that the record has in as many samples below which paths have come to rest;
# stretches of the record that this takes, and the least samples of one.
AT_REST, STRETCHES, SHORTEST = 0.2, 4, 20


@dataclasses.dataclass(frozen=True, eq=False)
class Forecast:
    """A set of forecast paths that data and noise allow for; made by `found.forecast`.

    - `ts`: times `[horizon]`, in the unit of the data, on from the last sample.
    - `paths`: `[path horizon dim]`, physical units, as they would be measured (logarithms and
        ranks undone); NumPy, in double precision, so that a large level leaves room for what
        varies about it; of JAX where something is traced.
    - `diverged`: paths that left the range of the data a thousandfold and were held there, bool
        `[path]`; they count in every quantile.
    - `history`: the last samples before, `[time dim]`.
    - `notes`: sentences on the assumptions of the forecast.
    - `start`: the date of time 0, as ISO 8601 writes it; empty where it is not known.
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
        """Return a quantile at each time, `[horizon dim]`, or `[q horizon dim]` of several."""
        return path_quantile(self.paths, q)

    @property
    def median(self) -> Float[Array | np.ndarray, "horizon dim"]:
        """The value below which half of the paths lie."""
        return self.quantile(0.5)

    def interval(self, level: Checked[float] = 0.9) -> tuple[Any, Any]:
        """Return the lower and the upper end of a central interval, each `[horizon dim]`.

        - `level`: the share of paths in it, between 0 and 1.
        """
        check_number(level, "level", above=0, below=1)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def to_frame(self):
        """Return a pandas DataFrame: time (and date, where it is known), variable, median and the
        ends of the 50 and 90 % intervals.
        """
        ends = self.quantile(np.array([0.5, 0.05, 0.25, 0.75, 0.95]))
        names = ("median", "low_90", "low_50", "high_50", "high_90")
        return by_time(self, dict(zip(names, ends, strict=True)))

    def plot(self):
        """Return a matplotlib Figure; needs matplotlib."""
        from ..plot import plot_forecast

        return plot_forecast(self)

    def __repr__(self) -> str:
        head = f"Forecast, {amount(len(self.paths), 'path', 9)} {times_of(self)}"
        if is_traced(self.paths):
            return head
        return head + said_of_ends(self, "values", self.paths)


# Variables that a forecast or an intervention lists, and what it says of each.
SHOWN, ENDS = 12, np.array([0.5, 0.05, 0.95])


def said_of_ends(made: Any, what: str, paths: Any, sign: str = "", rounding: Any = -1.0) -> str:
    """Return a line per variable: a median and its 90 % interval at the last time, which one path
    has none of, or that it is unchanged to `rounding`; and what stands above these lines.
    """
    ends = np.asarray(path_quantile(paths, ENDS))[:, -1]
    changed = ~(np.abs(ends).max(axis=0) <= rounding)  # so is what is not finite
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
    first = said_of_time(made, 0) if made.start else f"{made.ts[0]:.6g}"
    return f"from {first} to {said_of_time(made, -1)}"


def said_of_time(made: Any, k: int) -> str:
    """Return one of the times of a forecast or an intervention, in words: its date if known."""
    if made.start:
        return written(dates_after(made.start, made.ts, made.time_unit)[k])
    return amount(made.ts[k], made.time_unit, 6)


def by_time(of: Any, columns: Mapping[str, Any]) -> Any:
    """Return a pandas DataFrame of columns `[horizon dim]`, a row for each time and variable."""
    import pandas as pd

    index = pd.MultiIndex.from_product((of.ts, of.names), names=("time", "variable"))
    columns = {name: np.ravel(column) for name, column in columns.items()}
    table = pd.DataFrame(columns, index).reset_index()
    if of.start:
        dates = [written(date) for date in dates_after(of.start, of.ts, of.time_unit)]
        table.insert(1, "date", np.repeat(dates, len(of.names)))
    return table


def path_quantile(paths: Any, q: Any) -> Any:
    """Return quantiles along the axis of paths: the position q (n + 1) among the n ordered ones
    (Weibull, 1939), so that a new path lies below it with probability q. Positions between the
    first and the last path, as `numpy.quantile` takes them, would make intervals of few paths too
    narrow.
    """
    check_real_array(q, "q", "between 0 and 1", least=0)
    if is_traced(paths, q):
        n = paths.shape[0]
        place = jnp.clip((jnp.asarray(q, paths.dtype) * (n + 1) - 1) / max(n - 1, 1), 0, 1)
        return jnp.quantile(paths, place, axis=0)
    if np.any(np.asarray(q) > 1):
        raise ValueError(f"q must lie in [0, 1]; got {shown(q)}.")
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
        inputs: Checked[Mapping | None] = None,
        ensemble: Checked[Ensemble | None] = None,
    ) -> Forecast:
        """Return paths from the end of the record on, as they would be measured.

        Each path follows one member of an ensemble of drifts (see
        [`resample`][ndde_jax.Discovery.resample]), with noise drawn from what one-step forecasts of
        this very simulator leave on the data, so that one step is calibrated by construction: with
        its covariance between variables, its tails, its dependence on the state where the data
        clearly show one, and measurement error apart from it where neighbouring residuals clearly
        show that.

        **Arguments:**

        - `horizon`: in samples, or a time with its unit, such as "6h"; 24 samples by default. A
            long one reports the memory it needs and shows a progress bar.
        - `paths`: number of paths; with 200, the default, the ends of a 90 % interval vary by a
            tenth of its width.
        - `key`: for the noise.
        - `history`: where to start, physical units, `[time dim]`, newest last, at the interval of
            the data and at least the largest lag and one sample long; or a frame, whose columns
            are matched by name, or [`Samples`][ndde_jax.Samples]; times that these have say where
            in a season it ends. By default the
            end of the (last) record. Seasons and trends that were removed go on in the forecast.
        - `inputs`: future values, one number or `[horizon]`, of known inputs by name: of variables
            that the prior lets no other drive.
        - `ensemble`: what [`resample`][ndde_jax.Discovery.resample] returned; by default that of 40
            halves.

        **Returns:** [`Forecast`][ndde_jax.use.Forecast].

        **Raises:** `ValueError` for irregular sampling, a unit that cannot be compared with that of
        the data, a history that is too short or not finite, and paths that this machine has no
        memory for.

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
        ensemble, key = self._given(ensemble), check_key(key)
        steps = read_span(horizon, self, "horizon")
        check_whole(paths, "paths")
        check_memory(steps, paths, len(self.names))
        origin, later = read_history(self, history), np.arange(1, steps + 1)
        level = origin.level(np.arange(steps + 1))
        change, told = known_inputs(origin, inputs, level, steps)
        run, diverged = learned_paths(self, ensemble, change, origin.newest(), paths, key)
        past = origin.past
        notes = (*origin.notes, *told, *divergence_note(diverged))
        notes += _beyond_note(self, past) or outside_note(self, run)
        if inputs is None:  # what is given may be at rest itself
            notes += _at_rest_note(self, run)
        run = origin.level(later).outside(run)
        notes += _below_zero_note(self, run)
        past = origin.level(np.arange(1 - len(past), 1)).outside(past)
        about = (self.names, self.time_unit, notes, origin.start)
        return Forecast(origin.after(later), run, diverged, past, *about)


def range_of(found: Any) -> tuple[Float[np.ndarray, "dim"], Float[np.ndarray, "dim"]]:
    """Return the least and the largest value of each variable, as the drift reads it."""
    seen = np.concatenate([np.asarray(v, np.float64) for v in found.samples.values])
    return np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)


def excess(
    found: Any, past: Float[np.ndarray, "*batch time dim"]
) -> Float[np.ndarray, "*batch dim"]:
    """Return by how much the states that the drift reads first leave the range of the data, as a
    share of that range; 0 inside.
    """
    low, high = range_of(found)
    read = past[..., past.shape[-2] - 1 - np.asarray(found.lags), :]
    beyond = np.maximum(low - read.min(axis=-2), read.max(axis=-2) - high)
    return np.maximum(beyond, 0) / np.where(high > low, high - low, 1.0)


def _beyond_note(found: Any, past: np.ndarray) -> tuple[str, ...]:
    """Return a note on a past outside the range of the data; empty inside."""
    by = excess(found, past)
    worst = int(np.argmax(by))
    if by[worst] <= BEYOND:
        return ()
    return (
        f"{found.names[worst]} comes from outside the range of the data, by "
        f"{times(float(by[worst]))} it: the drift is an extrapolation there, and intervals do not "
        "know by how much it errs.",
    )


def outside_note(
    found: Any, run: Any, before: Any = None, when: Any = slice(None)
) -> tuple[str, ...]:
    """Return a note on paths as the drift reads them, `[path step dim]`, that leave the range of
    the data; empty inside.

    - `before`: paths without a change that was made; `when`: the steps that count.
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
        f"Outside the range of the data: {listed(said)} of the times and paths. There the drift is "
        "an extrapolation.",
    )


def _at_rest_note(found: Any, run: Any) -> tuple[str, ...]:
    """Return a note on paths that come to rest where the record does not, by the second half of
    each and as long stretches of the record that are complete.
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
        f"{listed(still)} {'comes' if len(still) == 1 else 'come'} to rest on most paths, as in no "
        "part of the record: what keeps the system moving was not found.",
    )


def _below_zero_note(found: Any, run: Any) -> tuple[str, ...]:
    """Return a note on paths that fall below zero where a variable rests there, as rain does."""
    if is_traced(run):
        return ()
    seen = np.concatenate(found.samples.as_measured().values)
    below = [
        f"{name} (in {share:.0%} of the times and paths)"
        for name, column, share in zip(
            found.names, seen.T, np.mean(run < 0, axis=(0, 1)), strict=True
        )
        if share > 0 and rests(column)
    ]
    if not below:
        return ()
    return (f"Below zero, where no value of the record is: {listed(below)}. Read these as zero.",)


def divergence_note(diverged: Any) -> tuple[str, ...]:
    """Return a note on paths that diverged."""
    if isinstance(diverged, jax.core.Tracer) or not bool(jnp.any(diverged)):
        return ()
    return (
        f"{int(jnp.sum(diverged))} of {diverged.shape[0]} paths diverged; they are held far "
        "outside the range of the data and count in every quantile.",
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Level:
    """A map between measured values and those that a drift reads, `[... dim]`, in NumPy or JAX.

    - `samples`: of the discovery, with logarithms and scores, if any.
    - `offset`: what was taken after them, of the recording, `[dim]`, or with seasons and trends at
        certain times, `[time dim]`.
    """

    samples: Samples
    offset: Any

    def at(self, k: Any) -> "Level":
        """Return the level at the k-th of the times, which may be traced."""
        if self.offset.ndim == 1:
            return self
        return dataclasses.replace(self, offset=jnp.asarray(self.offset)[k])

    def inside(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values as the drift reads them, from measured values that messages call `name`.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        for j, variable_name in enumerate(self.samples.names):
            self.check(j, values[..., j], f"{name}, {variable_name}")
        return transformed(self.samples.reading, values) - self._offset(values, np)

    def outside(self, values: Any) -> Any:
        """Return measured values, from values as the drift reads them."""
        xp = namespace_of((values, self.offset))
        return restored(self.samples.reading, values + self._offset(values, xp), xp)

    def one_inside(self, j: int, values: Any, xp: Any = jnp) -> Any:
        """Return one variable as the drift reads it; nothing is checked."""
        offset = xp.asarray(self.offset[..., j], values.dtype)
        return one_transformed(self.samples.reading, j, values, xp) - offset

    def series(self, j: int, values: Any, name: str, steps: int) -> Any:
        """Return values of one variable by sample from 0 on as the drift reads them, from a number
        or one per step in measured units.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        new = series(values, name, steps)
        self.check(j, values, name)  # as they were given, so that the message counts those
        return self.one_inside(j, new, namespace_of((new, self.offset)))

    def check(self, j: int, values: Any, name: str) -> None:
        """Raise an error unless measured values of a variable, which messages call `name`, can be
        transformed.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        own = self.samples.names[j]
        if self.samples.transform.get(own) == "log":
            check_logarithm(values, name, f"{own} was read as its logarithm: give values above 0.")

    def _offset(self, values: Any, xp: Any) -> Any:
        """Return the offset with as many axes as the values."""
        offset = xp.asarray(self.offset, values.dtype)
        return offset.reshape((1,) * (values.ndim - offset.ndim) + offset.shape)


def level_of(found: Any, times: Any = None, *, offset: bool = True) -> Level:
    """Return the level of the last recording, which forecasts use, at times if these are given;
    without `offset`, the part that all recordings share.
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
    """Return one recording, which messages call `name`, as the drift reads it, and the samples with
    its clock; None of one without, which is read at a `level`.

    **Raises:** `ValueError` for several recordings, other variables, another shape or interval.
    """
    check_concrete(
        f"reading {name}",
        given,
        "There solve the learned drift, ndde_jax.solve_sdde(found.model, history=...), which is "
        "differentiable.",
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
            f"{name} must have the interval of the data, {dt:.6g}; got {given.dt:.6g}."
        )
    times = clock_times(found, given)
    values = np.asarray(given.values[0], np.float64)
    given = dataclasses.replace(given, times=(times,))
    return level_of(found, times).inside(values, name), given


def clock_times(found: Any, given: Samples, number: int = 0) -> Float[np.ndarray, " time"]:
    """Return the times of a recording by the clock of the discovery, so that seasons keep their
    phase.
    """
    times = np.asarray(given.times[number], float)
    if given.starts and _start(found):
        times = times + elapsed(_start(found), given.starts[number], found.samples.time_unit)
    return times


def _start(found: Any) -> str:
    """Return the date of time 0 of the last recording, which forecasts use; empty if unknown."""
    return found.samples.starts[-1] if found.samples.starts else ""


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """What paths begin with.

    - `past`: as the drift reads it, `[time dim]`; `notes`: sentences about it.
    - `time`: of its newest sample; None where it is not known, and counts as 0.
    - `start`: the date of time 0, empty where it is not known.
    """

    found: Any
    past: Float[np.ndarray, "time dim"]
    notes: tuple[str, ...]
    time: float | None
    start: str

    def after(self, k: Any) -> Any:
        """Return the time this many samples later, which may be traced."""
        return (self.time or 0.0) + float(self.found.dt) * k

    def level(self, k: np.ndarray) -> Level:
        """Return the level these many samples later, without seasons and trends where their phase
        is unknown.
        """
        return level_of(self.found, None if self.time is None else self.after(k))

    def newest(self, need: int = 0) -> Float[np.ndarray, "1 time dim"]:
        """Return as much of the past as a simulator reads: one sample more than the largest lag, if
        there is one, since a finer step reads around it.
        """
        return self.past[None, -max(need, int(self.found.lags[-1]) + 1) - 1 :]


def read_history(found: Any, history: Any, need: int | None = None) -> Origin:
    """Return what a forecast begins with: a history, or the end of the record.

    **Raises:** `ValueError` for one that is too short, of other variables or not finite.
    """
    need = int(found.lags[-1]) + 1 if need is None else need
    samples, told, order = found.samples, list[str](), ", newest last"
    if history is not None:
        values, samples = read_record(found, history, "history", level_of(found), order)
        told += () if samples else _untimed(found)
    else:
        values = np.asarray(samples.values[-1], np.float64)
        if samples.mask and not samples.mask[-1][-1]:
            told.append("the record ends outside the mask, where these laws were not looked for")
        guessed = int(samples.estimated[-1][-need:].sum())
        if guessed and any(t.name == "impute" for t in samples.treatments):
            told.append(
                f"of the values of the last {need} samples {guessed} "
                f"{'was' if guessed == 1 else 'were'} not measured: paths start from one draw of "
                "what the model says of them"
            )
    if len(values) < need:
        raise ValueError(
            f"history must hold at least {need} samples, the largest lag and the present; got "
            f"{len(values)}."
        )
    values = values[-max(need, min(len(values), 3 * need + 20)) :]
    missing = ~np.isfinite(values)
    if missing.any():
        if history is not None or missing.all(axis=0).any():
            raise ValueError(
                f"history must be finite; {int(missing.sum())} of its last {len(values)} samples' "
                "values are missing or infinite. Give a complete one."
            )
        gone = amount(float(missing.sum()), "value", 9)
        told.append(
            f"{gone} {'is' if missing.sum() == 1 else 'are'} missing among the last {len(values)} "
            "samples and interpolated; give a complete history= in Python to start from another."
        )
        values = bridged(values)
    time = None if samples is None else float(samples.times[-1][-1])
    start = _start(found) if samples is not None and samples.starts else ""
    return Origin(found, values, tuple(told), time, start)


def _untimed(found: Any) -> tuple[str, ...]:
    """Return a note on a history without times where time matters."""
    gone = [t.name for t in removed_in_time(found)]
    if not gone:
        return ()
    return (
        f"a {' and a '.join(gone)} was removed from the data, and history= is an array without "
        "times: it is read, and continued, without them; give ndde_jax.read_samples(x, t=...).",
    )


def inputs_ahead(origin: Origin, inputs: Any, steps: int) -> dict[str, Any]:
    """Return known inputs to their future values, with the variables that repeat themselves, which
    go on, where the time of the newest sample is known.
    """
    given = dict(mapping(inputs, "inputs", "known inputs to their future values"))
    found, record = origin.found, origin.found.samples.as_measured()
    told = treated_columns(found.samples, SCHEDULE)
    if origin.time is None or not told or not record.regular:
        return given
    x = bridged(np.asarray(record.values[-1], np.float64))
    passed = round((origin.time - float(record.times[-1][-1])) / float(found.dt))
    ahead = {
        found.names[j]: x[len(x) - period :, j][(passed + np.arange(steps)) % period]
        for j, period in schedules_of(found.samples).items()
        if j in told and period <= len(x)
    }
    return {**ahead, **given}


def known_inputs(
    origin: Origin, inputs: Any, level: Level, steps: int
) -> tuple[Change, tuple[str, ...]]:
    """Return a change that sets known inputs to values known in advance, and a note on the others.

    **Raises:** `ValueError` for variables that others may drive.
    """
    found, given = origin.found, set()
    change = no_change(steps, len(found.names))
    after = np.arange(steps + 1) > 0  # the present was measured
    for name, values in inputs_ahead(origin, inputs, steps).items():
        j = variable(name, found, "an input")
        if found.names[j] not in found.inputs:
            known = ", ".join(found.inputs) or "none"
            raise ValueError(
                f"inputs holds {found.names[j]}, which this discovery lets others drive; its known "
                f"inputs are {known}. Name them in discover(..., inputs=...), or use intervene to "
                "set a variable."
            )
        given.add(found.names[j])
        change = change.setting(j, after, level.series(j, values, f"the future of {name}", steps))
    missing = [name for name in found.inputs if name not in given]
    if not missing:
        return change, ()
    note = f"The future of {', '.join(missing)}, which nothing else drives, is forecast as well"
    return change, (f"{note}; where it is known, give inputs= in Python.",)
