"""Time stamps: the interval between them, and resampling of irregular ones to a regular grid."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

# Stamps this close to whole multiples of one interval, as a share of it, are a grid.
ON_GRID = 2e-3
# Longest hole, in typical intervals, that interpolation bridges.
LONGEST_HOLE = 2.5
# From so many stamps on, rounded ones on one straight line are no accident.
MANY = 20
# Share of intervals that are the shortest one from which on the others are holes.
MOSTLY = 0.7
# What dates are rounded to, in seconds, and numbers.
DATES, DECIMALS = (60.0, 1.0, 1e-3, 1e-6), tuple(10.0**-k for k in range(13))
LENGTHS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}


class Grid(NamedTuple):
    """A regular grid on which all stamps lie, and the number of steps from the first stamp to
    each.
    """

    step: float
    counts: tuple[np.ndarray, ...]

    @property
    def complete(self) -> bool:
        """A flag: every step of the grid has its stamp."""
        return all((np.diff(count) == 1).all() for count in self.counts)


class Sampling(NamedTuple):
    """The interval of time stamps, None if they are irregular or rows are missing; its unit, empty
    if unknown; and the stamps as numbers in that unit, on their grid if there is one.
    """

    dt: float | None
    unit: str
    times: np.ndarray


def sampling(stamps: np.ndarray) -> Sampling:
    """Return the sampling interval of stamps given as numbers, dates or durations.

    Dates give the largest unit that makes the interval a whole number, in the order year, month,
    day, hour, minute, second; irregular ones are counted in days. Numbers keep their unit. The
    interval is fitted to all stamps, so that 33 and 34 milliseconds in turn are 30 a second.

    **Raises:** `ValueError` if the stamps do not increase strictly.
    """
    stamps = np.asarray(stamps)
    if stamps.dtype.kind == "m":
        stamps = np.datetime64(0, "s") + stamps
    dated = stamps.dtype.kind == "M"
    if dated and np.datetime_data(stamps.dtype)[0] in "YMWDhm":
        stamps = stamps.astype("datetime64[s]")
    start = 0.0 if dated or not len(stamps) else float(stamps[0])
    times = (
        (stamps - stamps[:1]) / np.timedelta64(1, "s")
        if dated
        else np.asarray(stamps, float) - start
    )
    check_increasing(stamps)
    if dated and (days := _working_days(stamps)) is not None:
        grid = find_grid((days,), (1.0,))
        return Sampling(1.0 if grid and grid.complete else None, "working day", days)
    if dated and (months := _months(stamps)) is not None:
        grid, unit, length = find_grid((months,), (1.0,)), "month", 1.0
        if grid is not None and grid.step % 12 == 0:
            unit, length = "year", 12.0
        if grid is None:
            return Sampling(None, unit, months)
    else:
        grid = find_grid((times,), DATES if dated else _decimals(stamps))
        unit, length = "", 1.0
        if dated:
            whole = (n for n, size in LENGTHS.items() if grid and grid.step % size == 0)
            unit = "day" if grid is None else next(whole, "second")
            length = LENGTHS[unit]
    if grid is None:
        return Sampling(None, unit, start + times / length)
    step = float(f"{grid.step / length:.12g}")
    return Sampling(step if grid.complete else None, unit, start + step * grid.counts[0])


def check_increasing(stamps: np.ndarray) -> None:
    """Raise an error for stamps that repeat or decrease, and name the likely reason.

    **Raises:** `ValueError`.
    """
    rises = np.diff(stamps) > np.zeros((), np.diff(stamps[:2]).dtype)
    if len(stamps) > 1 and rises.all():
        return
    row = int(np.argmin(rises)) + 2 if len(stamps) > 1 else 1
    text = f"Expected at least two time stamps, strictly increasing; data row {row} breaks this"
    if len(stamps) < 2:
        raise ValueError(f"{text}.")
    before, after = stamps[row - 2], stamps[row - 1]
    text += f", where {_written(before)} is followed by {_written(after)}. "
    if stamps.dtype.kind == "M" and np.timedelta64(0, "h") <= before - after < np.timedelta64(
        1, "h"
    ):
        text += (
            "If clocks went back an hour there, as daylight saving time ends, name the zone with "
            "--time-zone, or in Python set index.tz_localize(ZONE, ambiguous='infer'). "
        )
    raise ValueError(
        f"{text}If the file holds several recordings, name the column that tells them apart with "
        "--trial. Sort the rows by time otherwise, or give dt instead."
    )


def _written(stamp: Any) -> str:
    text = str(stamp).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _working_days(stamps: np.ndarray) -> np.ndarray | None:
    """Return days since the first, weekends not counted, if the stamps are nearly all working
    days.
    """
    days = stamps.astype("datetime64[D]")
    whole = (stamps - days.astype(stamps.dtype) == stamps[0] - days[0].astype(stamps.dtype)).all()
    if len(stamps) < MANY or not whole or not np.is_busday(days).all():
        return None
    count = np.busday_count(days[0], days)
    return count.astype(float) if len(days) > 0.8 * (count[-1] + 1) else None


def _months(stamps: np.ndarray) -> np.ndarray | None:
    """Return months since the first of dates at the same point of each month, or close to it."""
    # The second and third try shift month ends, those of working days too, into the next month.
    for days in (0, 1, 4):
        shifted = stamps.astype("datetime64[s]") + np.timedelta64(days, "D")
        months = shifted.astype("datetime64[M]")
        within = shifted - months.astype("datetime64[s]")
        steps = np.diff(stamps)
        near = within.max() - within.min() <= np.timedelta64(3, "D") and len(steps)
        near = near and (steps >= np.timedelta64(26, "D")).all() and (steps != steps[0]).any()
        if (within == within[0]).all() or near:
            return (months - months[0]).astype(float)
    return None


def _decimals(stamps: np.ndarray) -> tuple[float, ...]:
    return (1.0,) if stamps.dtype.kind in "iu" else DECIMALS


def find_grid(times: Sequence[np.ndarray], resolutions: Sequence[float] = DECIMALS) -> Grid | None:
    """Return the regular grid of the stamps of one or several trajectories; None if there is none.

    Either all intervals are whole multiples of the shortest; or stamps, rounded to what they are
    printed in, lie on a straight line, fitted by least squares to how many steps each is from the
    first. The second is asked first where no interval prevails.
    """
    times = [np.asarray(t, float) - t[0] for t in times]
    pooled = np.concatenate([np.diff(t) for t in times])
    if not len(pooled) or not (pooled > 0).all():
        return None
    rounding = rounding_of(times, resolutions)
    step = float(np.median(pooled))
    shortest = float(np.mean(pooled[pooled < 1.5 * pooled.min()]))
    same = np.abs(pooled - shortest) <= ON_GRID * shortest
    exact = _multiples(times, pooled, step) or _multiples(times, pooled, shortest)
    if exact is not None and (same.mean() >= MOSTLY or len(pooled) < MANY):
        return exact
    ranks = tuple(np.arange(len(t)) for t in times)
    if (np.abs(pooled - step) <= ON_GRID / 2 * step).all():
        return _fitted(times, ranks, np.inf)
    if len(pooled) < MANY or rounding >= step:
        return exact
    return (
        _fitted(times, ranks, rounding / 2)
        or exact
        or _fitted(times, _counts(times, step), min(rounding / 2, step / 4))
    )


def rounding_of(times: Sequence[np.ndarray], resolutions: Sequence[float] = DECIMALS) -> float:
    """Return the coarsest resolution that all stamps are multiples of; 0 if there is none."""
    pooled = np.concatenate(times)
    for size in resolutions:
        if (np.abs(pooled / size - np.round(pooled / size)) < 1e-4).all():
            return size
    return 0.0


def _counts(times, step: float) -> tuple[np.ndarray, ...]:
    """Return the number of steps from the first stamp to each, counted from stamp to stamp."""
    steps = [np.maximum(np.round(np.diff(t) / step), 1).astype(int) for t in times]
    return tuple(np.concatenate([[0], np.cumsum(whole)]) for whole in steps)


def _multiples(times, pooled, step: float) -> Grid | None:
    """Return the grid of this step, if all intervals are multiples of it and few rows are
    missing.
    """
    multiple = pooled / step
    whole = np.round(multiple)
    near = np.abs(multiple - whole) <= ON_GRID * np.maximum(multiple, 1)
    if not (near.all() and (whole >= 1).all() and whole.sum() <= 4 * len(whole)):
        return None
    return Grid(float(f"{pooled.sum() / whole.sum():.12g}"), _counts(times, step))


def _fitted(times, counts, tolerance: float) -> Grid | None:
    """Return the least-squares step; None if a stamp is further from its grid point than the
    tolerance.
    """
    centred = [(t - t.mean(), k - k.mean()) for t, k in zip(times, counts, strict=True)]
    square = sum(k @ k for _, k in centred)
    step = sum(t @ k for t, k in centred) / square
    # Rounded stamps have the mean of their roundings taken off as well.
    off = max(np.abs(t - step * k).max() for t, k in centred)
    if not (off <= tolerance * 1.1 + 1e-9 * step):
        return None
    return Grid(float(f"{step:.12g}"), tuple(counts))


def around_a_grid(times: Float[np.ndarray, "time"]) -> bool:
    """Return whether each stamp lies nearest to its own point of a regular grid."""
    count = np.arange(len(times))
    step, start = np.polyfit(count, times, 1)
    return bool(np.abs(times - start - step * count).max() < step / 2)


def with_rows(
    x: Float[np.ndarray, "time dim"], count: np.ndarray, start: float, step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"]]:
    """Return the samples on a grid with a row for every count; NaN where nothing was measured."""
    values = np.full((count[-1] + 1, x.shape[1]), np.nan)
    values[count] = x
    return values, start + step * np.arange(len(values))


def interpolated(
    x: Float[np.ndarray, "time dim"], times: Float[np.ndarray, "time"], step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"], Float[np.ndarray, "dim"]]:
    """Return samples interpolated to a grid of this step, its times, and the variance of the error.

    Per variable a cubic spline or straight lines, whichever finds every other value, left out, from
    the rest with the smaller error. That error belongs to twice the interval: a fourth of its
    variance, for paths that noise drives half of it, is what the grid has. The half is taken.
    Grid points in holes wider than 2.5 intervals are NaN.
    """
    from scipy.interpolate import CubicSpline

    grid = times[0] + step * np.arange(int((times[-1] - times[0]) / step * (1 + 1e-12)) + 1)
    values = np.full((len(grid), x.shape[1]), np.nan)
    error = np.zeros(x.shape[1])
    for j, column in enumerate(x.T):
        there = np.isfinite(column)
        at, known = times[there], column[there]
        if len(known) < 8:
            continue
        kept, left = np.arange(0, len(at), 2), np.arange(1, len(at) - 1, 2)
        straight = np.interp(at[left], at[kept], known[kept]) - known[left]
        curved = CubicSpline(at[kept], known[kept])(at[left]) - known[left]
        straight, curved = np.mean(straight**2), np.mean(curved**2)
        spline = curved < straight
        values[:, j] = CubicSpline(at, known)(grid) if spline else np.interp(grid, at, known)
        error[j] = min(straight, curved) / 2
        after = np.clip(np.searchsorted(at, grid), 1, len(at) - 1)
        hole = at[after] - at[after - 1] > LONGEST_HOLE * step
        on_sample = np.minimum(np.abs(grid - at[after]), np.abs(grid - at[after - 1])) < 1e-9 * step
        values[(hole & ~on_sample) | (grid > at[-1]) | (grid < at[0]), j] = np.nan
    return values, grid, error
