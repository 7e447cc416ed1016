"""The default treatment of measurements before the search, each step only if a test calls for
it.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._checks import check_kind, refusal
from .._spoken import listed, time_span, times as said_as_times, unit_ratio
from .._types import Checked, divisor
from . import _treatments
from ._clock import DECIMALS, ON_GRID, counted, find_grid, step_behind
from ._columns import (
    APART,
    are_answered,
    codes_of,
    find_forgotten,
    find_spikes,
    is_clock as counts,
    is_event,
    period_of,
    trends,
)
from ._gaps import around_a_grid, bridged, fill_gaps, interpolated, with_rows
from ._holds import held_inputs, measured_seldom, until_the_next
from ._lines import SAME_CLOCK, Line, find_lines, with_overtones
from ._samples import Samples, mask_at, named, treated
from ._treatments import CALENDAR, HELD, OFFSETS, SCHEDULE, TRANSFORM

EVERY = tuple("codes held spikes rows clock seldom gaps level offsets season trend".split())
# Those that tests call for; offsets have to be asked for.
STEPS = tuple(step for step in EVERY if step != OFFSETS)
# What single precision may lose of a step beside a large level, as a share of it.
LOST = 1e-2
# Fewest samples in which trends are looked for, and the least share of a variance one must have.
FEWEST, TREND = 100, 0.05
# Ratio of long to short intervals (95 and 5 % quantiles) from which on stamps are interpolated even
# if no grid is behind them: below it a lag of sixteen samples is within half a sample of one delay.
UNEVEN = 1.6
# Share of steps that must be equal for rows to count as such steps, and how much the others may
# differ, in steps.
EQUAL, NEARLY = 0.9, 1 / 3
# What the interval of a clock that scatters is rounded to where it is known no better, in seconds.
ROUND = (86400.0, 3600.0, 1800.0, 900.0, 600.0, 300.0, 60.0, 30.0, 10.0, 5.0, 1.0, 0.1, 1e-2, 1e-3)
# Share of stamps whose next one is the next point of their grid, from which on the points without a
# stamp are missing values, and not signs of an irregular clock.
PAIRED = 0.5
# Share of missing values of a variable beyond which there is too little to estimate them from.
SPARSE = 0.4
# Smallest share that a season must have of the variance that stronger ones leave.
SEASON = 0.03
# Share from which on a variable is itself a clock: it is a known input, and nothing is removed.
CLOCK = 0.998
# Known clocks: so many of a unit.
CLOCKS = ("day", 1.0), ("week", 1.0), ("day", 365.2425), ("month", 12.0)


def prepare_samples(
    samples: Checked[Samples],
    steps: Checked[Sequence[str]] = STEPS,
    inputs: Checked[Sequence[str]] = (),
    transform: Any = None,
) -> Samples:
    """Treat the common faults of real series where a test finds them; leave the rest unchanged.

    **Arguments:**

    - `samples`: of [`read_samples`][ndde_jax.read_samples]; treated ones are returned as they are.
    - `steps`: which of these, in this order, by default all but offsets:
        `"codes"`: numbers that programs write for missing values (−999, 9999, 1e20), where they
            repeat and lie far from all others, become missing values; others too (−200) where they
            repeat often and lie several ranges off.
        `"held"`: variables that change only every so many samples and that nothing else in the
            record foretells are known inputs from here on. Nothing can drive them in between.
        `"spikes"`: single values off their neighbours become missing values, in variables that
            move smoothly; in others single outliers, beyond six standard deviations, that the
            variable forgets at once. Binary columns and rare events stay, and so do bursts that
            other variables answer, or announce.
        `"rows"`: rows that are merely missing from a regular grid become missing values.
        `"clock"`: irregular time stamps, after `"rows"`. Where nearly all steps are equal and the
            rest differ by less than a third, as weeks that begin anew each year, a row counts as
            such a step. Stamps that scatter around a grid are
            interpolated onto one of its step, and those whose intervals differ by more than half
            onto one of the median interval.
        `"seldom"`: variables with values at every second sample at most, where another has more:
            each value holds until the next, and `discover` reads them as known inputs.
        `"gaps"`: gaps of up to five samples are filled, by a curve where paths are smooth and by a
        forecast from the past where noise drives them.
        `"level"`: a level so large that single precision would lose the steps beside it is
            subtracted, and added again to all results in measured units.
        `"offsets"`: only if named: every recording gets the mean of all instead of its own, known
            inputs excepted.
        `"season"`: oscillations of stable phase are removed from all variables; not where one
        variable is the clock itself.
        `"trend"`: straight trends, in the variables that have one.
    - `inputs`: names of known inputs. Their spikes and trends stay, and so does a season that one
        of them carries: it is the measured cause of it.
    - `transform`: variables to read as something else, before all steps, so that a season of a
        logarithm is a factor: a mapping from names to
        `"log"`, for what is positive and skewed, or whose noise grows with it; or
        `"ranks"`, normal scores: the r-th of n values becomes the point below which a standard
        normal lies with probability r/(n + 1), ties their mean; straight lines between, and beyond
        the range along the line through the outermost tenth, so that there is a way back from
        anywhere. Or one of these for all variables. None by default. Missing values stay missing.

    **Returns:** [`Samples`][ndde_jax.Samples] whose `treatments` describe each step and hold the
    data to undo it; `as_measured` undoes all.

    **Raises:** `ValueError` for arguments that are not samples or steps, for logarithms of values
    not above 0, and for a transform of samples that are treated already.

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
        raise refusal("steps", f"some of {', '.join(EVERY)}", unknown[0])
    kinds = _treatments.read_transform(transform, samples.names)
    if samples.treatments:
        if kinds and kinds != samples.transform:
            remedy = "name it there, prepare_samples(samples, transform=...)."
            raise ValueError(f"transform comes too late for samples treated already: {remedy}")
        return samples
    if unknown := [name for name in inputs if name not in samples.names]:
        raise refusal("inputs", f"some of {', '.join(samples.names)}", unknown[0])
    known = np.isin(np.asarray(samples.names), list(inputs))
    samples = _transformed(samples, kinds)
    treatments = (_without_codes, _held, _without_spikes, _with_rows, _regular,
                  _seldom, _filled, _without_level, _without_offsets, _without_season,
                  _without_trend)  # fmt: skip
    for name, treat in zip(EVERY, treatments, strict=True):
        if name in steps:
            samples = treat(samples, known)
        if name == "held":  # a value that holds until the next is no cause of a season
            known[list(treated_columns(samples, HELD))] = True
    return samples


def _transformed(samples: Samples, kinds: dict[str, str]) -> Samples:
    """Return some variables as their logarithms or as normal scores."""
    if not kinds:
        return samples
    columns = [samples.names.index(name) for name in kinds]
    tables = _treatments.tables_of(samples.values, kinds, samples.names)
    kept = {"kinds": tuple(kinds.values()), "tables": tables}
    text, old = _treatments.said_of_transform(kinds), {"values": samples.values}
    # The treatment first, since it is what transforms, these values and later ones.
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
    text = f"{{}} values of {{}} are {listed}, which stands for a missing value."
    return _left_out(samples, "codes", text, text, gone)


def _held(samples: Samples, known) -> Samples:
    """Return the samples, and a record of which variables are inputs that are held."""
    found = held_inputs(samples) if samples.regular else {}
    found = {j: clock for j, clock in found.items() if not known[j]}
    then = "only, and no other variable tells to what: "
    return _as_inputs(samples, found, ("changes", "change"), then, samples.values)


def _seldom(samples: Samples, known) -> Samples:
    """Return the samples with values that hold until the next where there are few."""
    found = measured_seldom(samples) if samples.regular else {}
    values = [until_the_next(x, found) for x in samples.values if found]
    then = "only: each holds until the next, and "
    return _as_inputs(samples, found, ("has values", "have values"), then, values)


def _as_inputs(
    samples: Samples, clocks: Mapping[int, int], verbs: tuple[str, str], then: str, values: Any
) -> Samples:
    """Return samples with other values and a record of which variables are inputs from here on:
    what they do, alone or together, at one in so many samples, and what else is said of them.
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
    """Return the numbers of the variables that the treatments of a name concern."""
    return tuple(j for one in samples.treatments if one.name == name for j in one.columns)


def with_schedules(samples: Samples, periods: Mapping[int, int]) -> Samples:
    """Return the samples with a record of which variables repeat themselves, and after how many
    samples.
    """
    if not periods:
        return samples
    each = {time_span(p * samples.dt, unit=samples.time_unit): None for p in periods.values()}
    one = len(periods) == 1
    text = (
        f"{named(samples, periods)} {'repeats itself' if one else 'repeat themselves'} every "
        f"{listed(each)}: {'a schedule' if one else 'schedules'}, which nothing else drives. A "
        "link from there stands for all that keeps the same time."
    )
    size = max(periods.values())
    return treated(samples, SCHEDULE, text, size, periods, {"values": samples.values})


def _without_spikes(samples: Samples, known) -> Samples:
    gone = []
    for x, forgotten in zip(samples.values, find_forgotten(samples.values), strict=True):
        first = find_spikes(x) | forgotten
        # Again without them: one may have hidden another beside it.
        second = find_spikes(bridged(np.where(first, np.nan, x)))
        gone.append((first | second) & np.isfinite(x) & ~known[None])
    # More than these are no accidents of a measurement but what the variable does.
    few = np.mean(np.concatenate(gone), axis=0) <= 0.05
    few &= ~are_answered(samples.values, [found & few[None] for found in gone])
    one = "{} value far off both its neighbours ({}) is taken as an error and left out."
    many = "{} single values far off both their neighbours ({}) are taken as errors and left out."
    return _left_out(samples, "spikes", one, many, [found & few[None] for found in gone])


def _left_out(samples: Samples, name: str, one: str, many: str, gone: list[np.ndarray]) -> Samples:
    """Return samples without some values; the sentences, of one and of several, have places for
    their number and names.
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
    then = "which is taken off and added again to what is said in measured units"
    text = f"{named(samples, columns)} vary little beside their level, {then}."
    constants = np.tile(level, (len(samples.values), 1))
    return _shifted(samples, text, np.abs(level).max(), columns, constants)


def _without_offsets(samples: Samples, known) -> Samples:
    """Return every recording with the common mean in place of its own."""
    offsets, apart = _treatments.offsets_of(samples.values, known)
    if len(samples.values) == 1 or not offsets.any():
        return samples
    worst = int(np.argmax(apart))
    by = f"{apart[worst]:.2g} of its standard deviations within recordings"
    text = (
        f"Each of {len(offsets)} recordings has a mean of its own, which that of all replaces; "
        f"they lie furthest apart in {samples.names[worst]}, by {by}. Forecasts start from the "
        "offset of the last."
    )
    return _shifted(samples, text, apart[worst], np.flatnonzero(~known), offsets)


def _shifted(samples: Samples, text: str, size: float, columns, constants) -> Samples:
    """Return samples without a constant of each recording, `[recording dim]`."""
    values = tuple(x - at[None] for x, at in zip(samples.values, constants, strict=True))
    kept = tuple(np.stack([at, np.zeros_like(at)]) for at in constants)
    return treated(samples, OFFSETS, text, size, columns, {"values": values}, coefficients=kept)


def _with_rows(samples: Samples, known) -> Samples:
    """Return the samples on a regular grid, with missing values in the rows that it has more."""
    if samples.regular or min(map(len, samples.times)) < 8:
        return samples
    grid = find_grid(samples.times)
    # Where most samples have no neighbour on the grid, hardly a window would be complete.
    if grid is None or grid.neighbours < PAIRED or _merged_interval(samples) is not None:
        return samples
    parts = zip(samples.values, samples.times, grid.counts, strict=True)
    rows = [with_rows(x, count, t[0], grid.step) for x, t, count in parts]
    values, times = zip(*rows, strict=True)
    size = sum(map(len, values)) - sum(map(len, samples.values))
    they = "1 row missing; its values are" if size == 1 else f"{size} rows missing; these are"
    missing = f" with {they} missing values now" if size else ""
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
        step = step_behind(samples.times, float(np.median(intervals)), sizes)
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
        why = "No variable has values at most of the time stamps, as in tables that were merged"
    text = f"{why}; {onto}. The error of that {_has(samples, worst, size)}."
    changes = {"values": values, "times": times, "dt": step, "regular": True}
    return treated(samples, "clock", text, size, range(samples.dim), changes)


def _by_row(samples: Samples, others: int) -> Samples:
    """Return the samples with rows for a clock, all but some `others` of whose steps are equal."""
    intervals = np.concatenate([np.diff(t) for t in samples.times])
    step = float(np.median(intervals))
    counts = counted(samples.times, step)
    parts = list(zip(samples.values, samples.times, counts, strict=True))
    values, times = zip(*(with_rows(x, c, t[0], step) for x, t, c in parts), strict=True)
    each, number = time_span(step, unit=samples.time_unit, digits=4), len(intervals)
    text = (
        f"The clock is nearly regular, as that of weeks which begin anew each year: all but "
        f"{others} of {number} steps are of {each}, and a row counts as one of these."
    )
    size = sum(map(len, values)) - sum(map(len, samples.values))
    if size:
        text += f" Rows that are missing have missing values: {size}."
    mask = mask_at(samples.mask, [t[0] + step * c for _, t, c in parts], times)
    changes = {"values": values, "times": times, "dt": step, "regular": True, "mask": mask}
    return treated(samples, CALENDAR, text, others / number, range(samples.dim), changes)


def _merged_interval(samples: Samples) -> float | None:
    """Return the shortest interval between two values of a variable, in stamps of tables that were
    merged, where no variable has values at most of them; None elsewhere.
    """
    usual = float(np.median(np.concatenate([np.diff(t) for t in samples.times])))
    own = min(_own_interval(samples, j) for j in range(samples.dim))
    return own if usual * UNEVEN < own < np.inf else None


def _own_interval(samples: Samples, variable: int) -> float:
    """Return the median time from one value of a variable to its next; infinite without any."""
    pairs = zip(samples.values, samples.times, strict=True)
    between = [np.diff(t[np.isfinite(x[:, variable])]) for x, t in pairs]
    return float(np.median(np.concatenate(between))) if any(map(len, between)) else np.inf


def set_aside(samples: Samples, kept: Sequence[str] = ()) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples without variables that count rows or time, and the names of these.

    A straight line explains every trend and is explained by itself alone. Those in `kept` stay.

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
            f"{listed(samples.names)}. A straight line has no causes here: add what was measured."
        )
    values = tuple(x[:, keep] for x in samples.values)
    names = tuple(samples.names[j] for j in keep)
    gone = tuple(name for name in samples.names if name not in names)
    return dataclasses.replace(samples, values=values, names=names), gone


def seasons(samples: Samples) -> tuple[Line, ...]:
    """Return the spectral lines of outer clocks in the longest trajectory of regular samples;
    strongest first.
    """
    return tuple(line for line in rhythms(samples) if line.outer)


def rhythms(samples: Samples) -> tuple[Line, ...]:
    """Return the spectral lines in the longest trajectory of regular samples that hold a clear
    share of what stronger ones leave of their variable or, as lines of known clocks, of its steps;
    strongest first.
    """
    x = max(samples.values, key=len)
    if not samples.regular or np.isnan(x).mean() > 0.3:
        return ()
    left, kept = np.ones(samples.dim), []
    for line in find_lines(bridged(x), tuple(clock / samples.dt for clock in _clocks(samples))):
        clear = line.share > SEASON * left[line.column]
        if clear or (line.of_clock and line.share_of_steps > SEASON):
            kept.append(line)
        if line.outer:
            left[line.column] = max(left[line.column] - line.share, 0.0)
    return tuple(kept)


def carriers(
    samples: Samples, lines: Sequence[Line], known: Bool[np.ndarray, "dim"]
) -> Bool[np.ndarray, "dim"]:
    """Return which variables carry spectral lines as clocks do: known inputs that have some, and
    variables that consist of theirs, or have some and repeat themselves, as hours of the day do.
    """
    share = np.zeros(samples.dim)
    for line in lines:
        share[line.column] += line.share
    x = bridged(max(samples.values, key=len))
    again = [bool(share[j]) and period_of(x[:, j]) is not None for j in range(samples.dim)]
    return (known & (share > 0)) | (share > CLOCK) | np.array(again)


def carried_by_none(
    samples: Samples, lines: Sequence[Line], by: Bool[np.ndarray, "dim"]
) -> list[Line]:
    """Return the spectral lines that are none of the variables `by`, nor two or three cycles in one
    of theirs: days of the week carry the week, and not the day.
    """
    carried = with_overtones(tuple(line.period for line in lines if by[line.column]))
    n = max(map(len, samples.values))
    return [line for line in lines if all(abs(1 / c - 1 / line.period) * n >= 2 for c in carried)]


def _clocks(samples: Samples) -> tuple[float, ...]:
    """Return the periods of known clocks, in the unit of time of samples; of rows that count as
    weeks, a year has 52.
    """
    ratios = ((count, unit_ratio(name, samples.time_unit)) for name, count in CLOCKS)
    shorter = 1.0
    for stamps in (t.times[0] for t in samples.treatments if t.name == CALENDAR):
        shorter = float(np.ptp(samples.times[0]) / np.ptp(stamps))
    return tuple(count * ratio * shorter for count, ratio in ratios if ratio)


def _without_season(samples: Samples, known) -> Samples:
    lines = seasons(samples)
    clocks = carriers(samples, lines, known)
    lines = carried_by_none(samples, lines, clocks)
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
        found[:2] = 0  # the level stays, and so does a trend, which only keeps out of the season
        found[:, clocks] = 0
        coefficients.append(found)
        values.append(x - design @ found)
    best = max(lines, key=lambda line: line.share)
    said = listed(time_span(period, unit=samples.time_unit, digits=4) for period in periods)
    held = f"held {best.share:.0%} of the variance of {samples.names[best.column]}"
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
    """Return one period for what the variables say of the same one, weighted by what it is worth
    there; that of a known clock if it is close.
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
    # Trials that all drift alike drift because of how the trial goes on: that is dynamics.
    if not samples.regular or len(samples.values) > 1 or len(samples.values[0]) < FEWEST:
        return samples
    x, elapsed = samples.values[0], samples.times[0] - samples.times[0][0]
    rises = np.array([_slope(elapsed, column) for column in x.T])
    may = ~known & ~np.array([is_event(column) for column in x.T])
    found, shares, left = np.zeros(samples.dim, bool), np.zeros(samples.dim), x
    # Again without those found: a trend is hidden by that of a variable which brings it on.
    for _ in range(samples.dim):
        errors, held = trends(bridged(left))
        new = (errors > APART) & (held > TREND) & may & ~found
        if not new.any():
            break
        found, shares = found | new, np.where(new, held, shares)
        left = x - elapsed[:, None] * np.where(found, rises, 0)
    if not found.any():
        return samples
    columns, worst = np.flatnonzero(found), int(np.argmax(shares))
    coefficients = np.stack([np.zeros(samples.dim), np.where(found, rises, 0)])  # the level stays
    said = f"it held {shares[worst]:.0%} of the variance of {samples.names[worst]}"
    text = f"A straight trend was removed from {named(samples, columns)}; {said}."
    new, kept = {"values": (x - _treatments.terms(elapsed, ()) @ coefficients,)}, (coefficients,)
    return treated(samples, "trend", text, shares[worst], columns, new, coefficients=kept)


def _slope(elapsed: Float[np.ndarray, "time"], column: Float[np.ndarray, "time"]) -> float:
    """Return the slope of the straight line through the measured values of a variable."""
    there = np.isfinite(column)
    return float(np.polyfit(elapsed[there], column[there], 1)[0]) if there.sum() > 1 else 0.0


def _has(samples: Samples, worst: Any, error: float) -> str:
    """Return how large an error is in the variable where it is largest, for a sentence."""
    step = f"the variance of a step of {samples.names[worst]}"
    return f"has {said_as_times(error)} {step}, where it is largest"


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
    number, of = int(counts.sum()), named(samples, columns)
    what = f"{number} missing values in short gaps ({of}) are estimated"
    if number == 1:
        what = f"1 missing value ({of}) is estimated"
    text = f"{what}; the error {_has(samples, worst, error[worst])}.{stay}"
    return treated(samples, "gaps", text, error[worst], columns, {"values": values})
