"""The default treatment of measurements before the search; a test decides each step."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._checks import argument_error, check_kind
from .._types import Checked, divisor
from .._wording import listed, time_span, times as ratio_in_words, unit_ratio
from . import _treatments
from ._clock import DECIMALS, ON_GRID, find_grid, step_counts, underlying_step
from ._clock_inputs import clock_length
from ._columns import (
    APART,
    codes_of,
    find_isolated_outliers,
    find_spikes,
    have_responses,
    is_clock as counts,
    is_event,
    period_of,
    trends,
)
from ._gaps import around_a_grid, fill_gaps, interpolated, linearly_interpolated, with_rows
from ._holds import forward_filled, held_inputs, measured_seldom
from ._lines import SAME_CLOCK, Line, find_lines, with_overtones
from ._samples import Samples, mask_at, named, treated
from ._treatments import CALENDAR, HELD, OFFSETS, SCHEDULE, TRANSFORM

EVERY = tuple("codes held spikes rows clock seldom gaps level offsets season trend".split())
# Steps decided by tests; offsets must be requested.
STEPS = tuple(step for step in EVERY if step != OFFSETS)
# Largest share of a step that single precision may lose to a large level.
LOST = 1e-2
# Minimum number of samples to test for trends, and minimum share of the variance of a trend.
FEWEST, TREND = 100, 0.05
# Ratio of long to short intervals (95 and 5 % quantiles) above which stamps are interpolated even
# without an underlying grid: below it a lag of sixteen samples is one delay to half a sample.
UNEVEN = 1.6
# Share of steps that must be equal for every row to count as one step, and by how much the others
# may differ, in steps.
EQUAL, NEARLY = 0.9, 1 / 3
# Candidates for rounding the uncertain interval of a clock that scatters, in seconds.
ROUND = (86400.0, 3600.0, 1800.0, 900.0, 600.0, 300.0, 60.0, 30.0, 10.0, 5.0, 1.0, 0.1, 1e-2, 1e-3)
# Share of stamps followed by a stamp at the next grid point, from which on the points without a
# stamp are missing values rather than signs of an irregular clock.
PAIRED = 0.5
# Share of missing values of a variable beyond which they are not estimated.
SPARSE = 0.4
# Minimum share of a season in the variance that stronger ones leave.
SEASON = 0.03
# Share of variance in spectral lines above which a variable is itself a clock: a known input.
CLOCK = 0.998
# Clocks that a season may have.
CLOCKS = "day", "week", "year"


def prepare_samples(
    samples: Checked[Samples],
    steps: Checked[Sequence[str]] = STEPS,
    inputs: Checked[Sequence[str]] = (),
    transform: Any = None,
) -> Samples:
    """Treat common faults of real series where a test detects them, and leave the rest unchanged.

    **Arguments:**

    - `samples`: from [`read_samples`][ndde_jax.read_samples]. Treated samples are returned
        unchanged.
    - `steps`: a selection of the following, applied in this order; all but offsets by default.
        `"codes"`: numbers that programs write for missing values (−999, 9999, 1e20) become missing
            values if they repeat and lie far from all other values; other numbers (−200) if they
            repeat often and lie several ranges off.
        `"held"`: variables that change only at the ticks of a slower clock and that no other
            variable predicts become known inputs. Nothing can drive them between ticks.
        `"spikes"`: single values far from their neighbours become missing values in variables that
            move smoothly. In others, single outliers beyond six standard deviations do, if the
            variable forgets them at once. Binary columns and rare events stay, as do bursts that
            other variables respond to or precede.
        `"rows"`: rows missing from a regular grid become missing values.
        `"clock"`: irregular time stamps are treated after `"rows"`. If nearly all steps are equal
            and the rest differ by less than a third, as in weeks that restart each year, each row
            counts as one step. Stamps that scatter around a grid are interpolated onto a grid with
            its step, and stamps whose intervals differ 1.6-fold or more onto a grid with the
            median interval.
        `"seldom"`: in variables with values at no more than every second sample, if another has
            more, each value holds until the next, and `discover` reads them as known inputs.
        `"gaps"`: gaps of up to five samples are filled, by a curve where paths are smooth and by a
            forecast from the past where noise drives them.
        `"level"`: a level so large that single precision would lose the steps is subtracted, and
            added back to all results in measured units.
        `"offsets"`: only on request: the mean of every recording is replaced by the common mean,
            except for known inputs.
        `"season"`: oscillations of stable phase are removed from all variables, unless one variable
            is the clock itself.
        `"trend"`: straight trends are removed from the variables that have one.
    - `inputs`: names of known inputs. Their spikes and trends stay, and so does a season that one
        of them contains, since it is the measured cause.
    - `transform`: variables to transform before all steps, so that a season of a logarithm is a
        factor: a mapping from names to kinds, or one kind for all variables; None by default.
        `"log"` is for variables that are positive and skewed, or whose noise grows with their
        level. `"ranks"` gives normal scores: the r-th of n values becomes the point below which a
        standard normal lies with probability r/(n + 1), and ties get their mean score. Values in
        between are interpolated linearly; values beyond the range lie on the line through the
        outermost tenth, so that every score can be inverted. Missing values stay missing.

    **Returns:** [`Samples`][ndde_jax.Samples] whose `treatments` describe each step and hold the
    data to undo it; `as_measured` undoes all.

    **Raises:** `ValueError` for arguments that are not samples or steps, for logarithms of values
    not above 0, and for a transform of samples that are already treated.

    ```python
    import numpy as np
    import ndde_jax as ndde

    rng, t = np.random.default_rng(0), np.arange(600)
    x = rng.normal(size=(600, 2)) + 3 * np.sin(2 * np.pi * t / 12)[:, None]
    samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0, time_unit="month"))
    print(samples.treatments[0].text)
    ```
    """
    check_kind(samples, Samples, "samples", "what read_samples returns")
    several = isinstance(steps, Iterable) and not isinstance(steps, str)
    steps = tuple(steps) if several else (steps,)
    if unknown := [step for step in steps if not isinstance(step, str) or step not in EVERY]:
        raise argument_error("steps", f"some of {', '.join(EVERY)}", unknown[0])
    kinds = _treatments.read_transform(transform, samples.names)
    if samples.treatments:
        if kinds and kinds != samples.transform:
            remedy = "pass it there, prepare_samples(samples, transform=...)."
            raise ValueError(f"transform comes too late for samples already treated: {remedy}")
        return samples
    if unknown := [name for name in inputs if name not in samples.names]:
        raise argument_error("inputs", f"some of {', '.join(samples.names)}", unknown[0])
    known = np.isin(np.asarray(samples.names), list(inputs))
    samples = _transformed(samples, kinds)
    treatments = (_without_codes, _held, _without_spikes, _with_rows, _regular,
                  _seldom, _filled, _without_level, _without_offsets, _without_season,
                  _without_trend)  # fmt: skip
    for name, treat in zip(EVERY, treatments, strict=True):
        if name in steps:
            samples = treat(samples, known)
        if name == "held":  # later steps treat held variables as known inputs
            known[list(treated_columns(samples, HELD))] = True
    return samples


def _transformed(samples: Samples, kinds: dict[str, str]) -> Samples:
    """Return samples with some variables as their logarithms or normal scores."""
    if not kinds:
        return samples
    columns = [samples.names.index(name) for name in kinds]
    tables = _treatments.tables_of(samples.values, kinds, samples.names)
    kept = {"kinds": tuple(kinds.values()), "tables": tables}
    text, old = _treatments.describe_transform(kinds), {"values": samples.values}
    # The treatment is made first, because it transforms these values and later ones.
    plain = treated(samples, TRANSFORM, text, len(kinds), columns, old, **kept)
    read = (_treatments.transformed(plain.treatments[0], x.astype(float)) for x in samples.values)
    new = (x.astype(old.dtype) for x, old in zip(read, samples.values, strict=True))
    return dataclasses.replace(plain, values=tuple(new))


def _without_codes(samples: Samples, known) -> Samples:
    every = range(samples.dim)
    columns = [[x[:, j] for x in samples.values] for j in every]
    anywhere = tuple(set().union(*map(codes_of, columns)))
    codes = [codes_of(column, anywhere) for column in columns]
    gone = [np.stack([np.isin(x[:, j], codes[j]) for j in every], axis=1) for x in samples.values]
    listed = ", ".join(f"{code:g}" for code in sorted(set().union(*codes)))
    text = f"{{}} values of {{}} are {listed}, a code for missing values."
    return _left_out(samples, "codes", text, text, gone)


def _held(samples: Samples, known) -> Samples:
    """Return the samples with a record of which variables are held inputs."""
    found = held_inputs(samples) if samples.regular else {}
    found = {j: clock for j, clock in found.items() if not known[j]}
    then = "only, and no other variable predicts the changes: "
    return _as_inputs(samples, found, ("changes", "change"), then, samples.values)


def _seldom(samples: Samples, known) -> Samples:
    """Return the samples with values that hold until the next in variables measured seldom."""
    found = measured_seldom(samples) if samples.regular else {}
    values = [forward_filled(x, found) for x in samples.values if found]
    then = "only: each holds until the next, and "
    return _as_inputs(samples, found, ("has values", "have values"), then, values)


def _as_inputs(
    samples: Samples, clocks: Mapping[int, int], verbs: tuple[str, str], then: str, values: Any
) -> Samples:
    """Return samples with new values and a record of which variables are inputs from here on.

    The sentence says what they do, alone or together (`verbs`), at one in how many samples, and
    `then` follows.
    """
    if not clocks:
        return samples
    often = " and ".join(map(str, sorted(set(clocks.values()))))
    alone = len(clocks) == 1
    are = "it is read as an input" if alone else "they are read as inputs"
    what = f"{named(samples, clocks)} {verbs[not alone]} at one in {often} samples"
    text = f"{what} {then}{are}, which nothing drives."
    return treated(samples, HELD, text, max(clocks.values()), clocks, {"values": values})


def treated_columns(samples: Samples, name: str) -> tuple[int, ...]:
    """Return the numbers of the variables treated under a name."""
    return tuple(j for one in samples.treatments if one.name == name for j in one.columns)


def with_schedules(samples: Samples, periods: Mapping[int, int]) -> Samples:
    """Return the samples with a record of which variables repeat themselves, and their periods."""
    if not periods:
        return samples
    each = {time_span(p * samples.dt, unit=samples.time_unit): None for p in periods.values()}
    one = len(periods) == 1
    text = (
        f"{named(samples, periods)} {'repeats itself' if one else 'repeat themselves'} every "
        f"{listed(each)}: {'a schedule' if one else 'schedules'}, which nothing else drives. A "
        "link from a schedule may be due to anything else that keeps the same time."
    )
    size = max(periods.values())
    return treated(samples, SCHEDULE, text, size, periods, {"values": samples.values})


def _without_spikes(samples: Samples, known) -> Samples:
    gone = []
    for x, forgotten in zip(samples.values, find_isolated_outliers(samples.values), strict=True):
        first = find_spikes(x) | forgotten
        # Again without them: one spike may have hidden another next to it.
        second = find_spikes(linearly_interpolated(np.where(first, np.nan, x)))
        gone.append((first | second) & np.isfinite(x) & ~known[None])
    # More than this share is the behaviour of the variable, not measurement error.
    few = np.mean(np.concatenate(gone), axis=0) <= 0.05
    few &= ~have_responses(samples.values, [found & few[None] for found in gone])
    one = "{} value far from both its neighbours ({}) is taken as an error and left out."
    many = "{} single values far from both their neighbours ({}) are taken as errors and left out."
    return _left_out(samples, "spikes", one, many, [found & few[None] for found in gone])


def _left_out(samples: Samples, name: str, one: str, many: str, gone: list[np.ndarray]) -> Samples:
    """Return samples with some values missing; the sentences, for one and for several, have
    placeholders for the number of values and the names.
    """
    counts = sum(found.sum(axis=0) for found in gone)
    if not counts.any():
        return samples
    columns, number = np.flatnonzero(counts), int(counts.sum())
    values = tuple(np.where(g, np.nan, x) for g, x in zip(gone, samples.values, strict=True))
    text = (one if number == 1 else many).format(number, named(samples, columns))
    return treated(samples, name, text, number, columns, {"values": values})


def _without_level(samples: Samples, known) -> Samples:
    steps = np.concatenate([np.diff(x, axis=0) for x in samples.values])
    there = np.isfinite(steps).any(axis=0)
    spread, level = np.zeros(samples.dim), np.zeros(samples.dim)
    spread[there] = np.nanstd(steps[:, there], axis=0)
    level[there] = np.round(np.nanmean(np.concatenate(samples.values)[:, there], axis=0))
    large = (spread > 0) & (np.abs(level) * np.finfo(np.float32).eps > LOST * spread)
    if not large.any():
        return samples
    columns, level = np.flatnonzero(large), np.where(large, level, 0.0)
    then = "which is subtracted, and added back to results in measured units"
    text = f"{named(samples, columns)} vary little compared with their level, {then}."
    constants = np.tile(level, (len(samples.values), 1))
    return _shifted(samples, text, np.abs(level).max(), columns, constants)


def _without_offsets(samples: Samples, known) -> Samples:
    """Return the samples with the mean of every recording replaced by the common mean."""
    offsets, apart = _treatments.offsets_of(samples.values, known)
    if len(samples.values) == 1 or not offsets.any():
        return samples
    worst = int(np.argmax(apart))
    by = f"{apart[worst]:.2g} of its standard deviations within recordings"
    text = (
        f"Each of {len(offsets)} recordings has its own mean, which the common mean replaces. "
        f"Means lie furthest apart in {samples.names[worst]}, by {by}. Forecasts start from the "
        "offset of the last recording."
    )
    return _shifted(samples, text, apart[worst], np.flatnonzero(~known), offsets)


def _shifted(samples: Samples, text: str, size: float, columns, constants) -> Samples:
    """Return samples minus a constant for each recording, `[recording dim]`."""
    values = tuple(x - at[None] for x, at in zip(samples.values, constants, strict=True))
    kept = tuple(np.stack([at, np.zeros_like(at)]) for at in constants)
    return treated(samples, OFFSETS, text, size, columns, {"values": values}, coefficients=kept)


def _with_rows(samples: Samples, known) -> Samples:
    """Return the samples on a regular grid, with missing values in the added rows."""
    if samples.regular or min(map(len, samples.times)) < 8:
        return samples
    grid = find_grid(samples.times)
    # If most samples have no neighbour on the grid, hardly any window would be complete.
    if grid is None or grid.neighbours < PAIRED or _merged_interval(samples) is not None:
        return samples
    parts = zip(samples.values, samples.times, grid.counts, strict=True)
    rows = [with_rows(x, count, t[0], grid.step) for x, t, count in parts]
    values, times = zip(*rows, strict=True)
    size = sum(map(len, values)) - sum(map(len, samples.values))
    they = "1 row missing, now" if size == 1 else f"{size} rows missing, now"
    missing = f" with {they} filled with missing values" if size else ""
    grid_of = time_span(grid.step, unit=samples.time_unit, digits=4)
    text = f"The time stamps lie on a grid of {grid_of}{missing}."
    changes = {"values": values, "times": times, "dt": grid.step, "regular": True}
    return treated(samples, "rows", text, size, range(samples.dim), changes)


def _regular(samples: Samples, known) -> Samples:
    samples = _with_rows(samples, known)
    if samples.regular or min(map(len, samples.times)) < 8:
        return samples
    pairs = list(zip(samples.values, samples.times, strict=True))
    intervals = np.concatenate([np.diff(t) for t in samples.times])
    merged = _merged_interval(samples)
    off = intervals / np.median(intervals)
    off = np.abs(off - np.maximum(np.round(off), 1))
    if (off < ON_GRID).mean() > EQUAL and off.max() < NEARLY and merged is None:
        return _by_row(samples, int((off >= ON_GRID).sum()))
    low, high = np.quantile(intervals, [0.05, 0.95])
    even = high < UNEVEN * low and not all(map(around_a_grid, samples.times))
    if even and merged is None:
        return samples
    if merged is None:
        second = unit_ratio("second", samples.time_unit)
        sizes = DECIMALS if second is None else [size * second for size in ROUND]
        step = underlying_step(samples.times, float(np.median(intervals)), sizes)
    else:
        step = merged
    values, times, errors = zip(*(interpolated(x, t, step) for x, t in pairs), strict=True)
    error = np.average(errors, axis=0, weights=[float(len(x)) for x in values])
    increment = np.nanvar(np.concatenate([np.diff(x, axis=0) for x in values]), axis=0)
    share = error / divisor(increment)
    worst = int(np.argmax(share))
    size = share[worst]
    grid_of = time_span(step, unit=samples.time_unit, digits=4)
    onto = f"values are interpolated onto a grid of {grid_of}"
    why = "The clock is irregular"
    if merged is not None:
        why = "No variable has values at more than half of the time stamps, as in merged tables"
    text = f"{why}; {onto}. The interpolation error variance {_has(samples, worst, size)}."
    changes = {"values": values, "times": times, "dt": step, "regular": True}
    return treated(samples, "clock", text, size, range(samples.dim), changes)


def _by_row(samples: Samples, others: int) -> Samples:
    """Return the samples with each row as one step, for a clock whose steps are equal except for
    `others` of them.
    """
    intervals = np.concatenate([np.diff(t) for t in samples.times])
    step = float(np.median(intervals))
    counts = step_counts(samples.times, step)
    parts = list(zip(samples.values, samples.times, counts, strict=True))
    values, times = zip(*(with_rows(x, c, t[0], step) for x, t, c in parts), strict=True)
    each, number = time_span(step, unit=samples.time_unit, digits=4), len(intervals)
    text = (
        f"The clock is nearly regular, as for weeks that restart each year: all but {others} of "
        f"{number} steps are {each}, and each row counts as one step."
    )
    size = sum(map(len, values)) - sum(map(len, samples.values))
    if size:
        text += f" Missing rows, filled with missing values: {size}."
    mask = mask_at(samples.mask, [t[0] + step * c for _, t, c in parts], times)
    changes = {"values": values, "times": times, "dt": step, "regular": True, "mask": mask}
    return treated(samples, CALENDAR, text, others / number, range(samples.dim), changes)


def _merged_interval(samples: Samples) -> float | None:
    """Return the shortest interval between values of any one variable in merged tables, where no
    variable has values at most of the stamps; None for other tables.
    """
    usual = float(np.median(np.concatenate([np.diff(t) for t in samples.times])))
    own = min(_own_interval(samples, j) for j in range(samples.dim))
    return own if usual * UNEVEN < own < np.inf else None


def _own_interval(samples: Samples, variable: int) -> float:
    """Return the median time between successive values of a variable; infinite without any."""
    pairs = zip(samples.values, samples.times, strict=True)
    between = [np.diff(t[np.isfinite(x[:, variable])]) for x, t in pairs]
    return float(np.median(np.concatenate(between))) if any(map(len, between)) else np.inf


def without_counters(samples: Samples, kept: Sequence[str] = ()) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples without variables that count rows or time, and the names of these.

    A straight line explains every trend and is explained only by itself. Variables in `kept` stay.

    **Raises:** `ValueError` if nothing else is measured.
    """
    parts = list(zip(samples.values, samples.times, strict=True))
    clocks = [all(counts(x[:, j], t) for x, t in parts) for j in range(samples.dim)]
    keep = [j for j, name in enumerate(samples.names) if name in kept or not clocks[j]]
    if len(keep) == samples.dim or samples.treatments:
        return samples, ()
    if not keep:
        raise ValueError(
            "expected a variable that does more than count rows or time; got "
            f"{listed(samples.names)}. A straight line has no causes here: add measured variables."
        )
    values = tuple(x[:, keep] for x in samples.values)
    names = tuple(samples.names[j] for j in keep)
    gone = tuple(name for name in samples.names if name not in names)
    return dataclasses.replace(samples, values=values, names=names), gone


def seasons(samples: Samples) -> tuple[Line, ...]:
    """Return the spectral lines of outer clocks in the longest trajectory, strongest first."""
    return tuple(line for line in spectral_lines(samples) if line.outer)


def spectral_lines(samples: Samples) -> tuple[Line, ...]:
    """Return the clear spectral lines in the longest regular trajectory, strongest first.

    A line is clear if it has enough of the variance that stronger lines leave in its variable or,
    for a known clock, of the variance of the steps.
    """
    x = max(samples.values, key=len)
    if not samples.regular or np.isnan(x).mean() > 0.3:
        return ()
    left, kept = np.ones(samples.dim), []
    for line in find_lines(
        linearly_interpolated(x), tuple(clock / samples.dt for clock in _clocks(samples))
    ):
        clear = line.share > SEASON * left[line.column]
        if clear or (line.of_clock and line.share_of_steps > SEASON):
            kept.append(line)
        if line.outer:
            left[line.column] = max(left[line.column] - line.share, 0.0)
    return tuple(kept)


def carriers(
    samples: Samples, lines: Sequence[Line], known: Bool[np.ndarray, "dim"]
) -> Bool[np.ndarray, "dim"]:
    """Return which variables carry spectral lines as clocks: known inputs with lines, or that are
    waves with the periods of other variables' lines; and variables that consist of their lines, or
    have some and repeat themselves, like the hour of the day.
    """
    share = np.zeros(samples.dim)
    for line in lines:
        share[line.column] += line.share
    x = linearly_interpolated(max(samples.values, key=len))
    again = [bool(share[j]) and period_of(x[:, j]) is not None for j in range(samples.dim)]
    waves = np.any([_are_waves(x, line) for line in lines], axis=0)
    return (known & ((share > 0) | waves)) | (share > CLOCK) | np.array(again)


def not_carried(samples: Samples, lines: Sequence[Line], by: Bool[np.ndarray, "dim"]) -> list[Line]:
    """Return the spectral lines that are not lines or waves of the variables `by`, nor their halves
    or thirds: days of the week carry the week but not the day.
    """
    x = linearly_interpolated(max(samples.values, key=len))[:, by]
    own = [line for line in lines if by[line.column] or _are_waves(x, line).any()]
    carried = with_overtones(tuple(line.period for line in own))
    return [
        line for line in lines if all(abs(1 / c - 1 / line.period) * len(x) >= 2 for c in carried)
    ]


def _are_waves(x: Float[np.ndarray, "time dim"], line: Line) -> Bool[np.ndarray, " dim"]:
    """Return which variables are waves with the period of a line, or of which it is an overtone."""
    found, whole = np.zeros(x.shape[1], bool), x.var(axis=0)
    for period in (line.period * k for k in (1, 2, 3)):
        wave = _treatments.terms(np.arange(len(x), dtype=float), (period,))[:, [0, 2, 3]]
        left = x - wave @ np.linalg.lstsq(wave, x, rcond=None)[0]
        found |= left.var(axis=0) < (1 - CLOCK) * whole
    return found


def _clocks(samples: Samples) -> tuple[float, ...]:
    """Return the periods of known clocks, in the time unit of the samples; if rows count as weeks,
    a year has 52.
    """
    lengths = (clock_length(clock, samples.time_unit) for clock in CLOCKS)
    shorter = 1.0
    for stamps in (t.times[0] for t in samples.treatments if t.name == CALENDAR):
        shorter = float(np.ptp(samples.times[0]) / np.ptp(stamps))
    return tuple(length * shorter for length in lengths if length)


def _without_season(samples: Samples, known) -> Samples:
    lines = seasons(samples)
    clocks = carriers(samples, lines, known)
    lines = not_carried(samples, lines, clocks)
    if not lines:
        return samples
    periods = _periods(lines, samples)
    coefficients, values = [], []
    for x, t in zip(samples.values, samples.times, strict=True):
        design = _treatments.terms(t - t[0], periods)
        found = np.zeros((design.shape[1], samples.dim))
        for j, there in enumerate(np.isfinite(x).T):
            if there.sum() > 3 * len(found):
                found[:, j] = np.linalg.lstsq(design[there], x[there, j], rcond=None)[0]
        found[:2] = 0  # the level stays, and so does the trend, fitted only to separate the season
        found[:, clocks] = 0
        coefficients.append(found)
        values.append(x - design @ found)
    best = max(lines, key=lambda line: line.share)
    said = listed(time_span(period, unit=samples.time_unit, digits=4) for period in periods)
    held = f"made up {best.share:.0%} of the variance of {samples.names[best.column]}"
    whom = (
        f"all variables but {named(samples, np.flatnonzero(clocks))}"
        if clocks.any()
        else "all variables"
    )
    if len(periods) == 1:
        text = f"A season of {said} was removed from {whom}; it {held}."
    else:
        text = f"Seasons of {said} were removed from {whom}; the strongest {held}."
    columns, new = sorted({line.column for line in lines}), {"values": tuple(values)}
    kept = {"periods": periods, "coefficients": tuple(coefficients)}
    return treated(samples, "season", text, best.share, columns, new, **kept)


def _periods(lines: Sequence[Line], samples: Samples) -> tuple[float, ...]:
    """Return one period for each group of lines with about the same period: the mean frequency
    weighted by their shares, or the period of a known clock if it is close.
    """
    longest = max(map(len, samples.values))
    groups: list[list[Line]] = []
    for line in lines:
        near = [g for g in groups if abs(1 / g[0].period - 1 / line.period) * longest < 2] or [[]]
        groups += [] if near[0] else near
        near[0].append(line)
    periods = []
    for group in groups:
        share = np.array([line.share for line in group])
        frequency = float(share @ np.array([1 / line.period for line in group]) / share.sum())
        clocks = with_overtones(_clocks(samples))
        known = (c for c in clocks if abs(samples.dt / c - frequency) * longest < SAME_CLOCK)
        periods.append(float(next(known, samples.dt / frequency)))
    return tuple(periods)


def _without_trend(samples: Samples, known) -> Samples:
    # Several trials that drift alike do so because of their dynamics.
    if not samples.regular or len(samples.values) > 1 or len(samples.values[0]) < FEWEST:
        return samples
    x, elapsed = samples.values[0], samples.times[0] - samples.times[0][0]
    rises = np.array([_slope(elapsed, column) for column in x.T])
    may = ~known & ~np.array([is_event(column) for column in x.T])
    found, shares, left = np.zeros(samples.dim, bool), np.zeros(samples.dim), x
    # Again without those found: the trend of a driver can hide that of its target.
    for _ in range(samples.dim):
        errors, held = trends(linearly_interpolated(left))
        new = (errors > APART) & (held > TREND) & may & ~found
        if not new.any():
            break
        found, shares = found | new, np.where(new, held, shares)
        left = x - elapsed[:, None] * np.where(found, rises, 0)
    if not found.any():
        return samples
    columns, worst = np.flatnonzero(found), int(np.argmax(shares))
    coefficients = np.stack([np.zeros(samples.dim), np.where(found, rises, 0)])  # the level stays
    said = f"it made up {shares[worst]:.0%} of the variance of {samples.names[worst]}"
    text = f"A straight trend was removed from {named(samples, columns)}; {said}."
    new, kept = {"values": (x - _treatments.terms(elapsed, ()) @ coefficients,)}, (coefficients,)
    return treated(samples, "trend", text, shares[worst], columns, new, coefficients=kept)


def _slope(elapsed: Float[np.ndarray, "time"], column: Float[np.ndarray, "time"]) -> float:
    """Return the slope of the straight line through the measured values of a variable."""
    there = np.isfinite(column)
    return float(np.polyfit(elapsed[there], column[there], 1)[0]) if there.sum() > 1 else 0.0


def _has(samples: Samples, worst: Any, error: float) -> str:
    """Return, for a sentence, how large an error is in the variable where it is largest."""
    step = f"the variance of a step of {samples.names[worst]}"
    return f"is {ratio_in_words(error)} {step}, where it is largest"


def _filled(samples: Samples, known) -> Samples:
    gone = np.concatenate([np.isnan(x) for x in samples.values]).mean(axis=0)
    if not samples.regular or not gone.any() or gone.max() > SPARSE:
        return samples
    values, where, errors = zip(*map(fill_gaps, samples.values), strict=True)
    counts = sum(short.sum(axis=0) for short in where)
    if not counts.any():
        return samples
    columns, error = np.flatnonzero(counts), np.max(np.stack(errors), axis=0)
    left = sum(int(np.isnan(x).sum()) for x in values)
    worst = columns[np.argmax(error[columns])]  # of those that were filled
    stay = (
        "" if not left else f" {left} more stay missing." if left > 1 else " 1 more stays missing."
    )
    many, of = int(counts.sum()) > 1, named(samples, columns)
    # Values moved to equal steps leave some of these without one, and none was missing.
    moved = any(t.name == "clock" for t in samples.treatments)
    values_of = f"value{'s' * many} at equal steps" if moved else f"missing value{'s' * many}"
    where_of = f"{'in short gaps ' * many}({of}) {'are' if many else 'is'} estimated"
    what = f"{int(counts.sum())} {values_of} {where_of}"
    text = f"{what}; the error variance {_has(samples, worst, error[worst])}.{stay}"
    return treated(samples, "gaps", text, error[worst], columns, {"values": values})
