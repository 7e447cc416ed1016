"""Sampling intervals of time stamps, and regular grids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

WORKING_DAY = "working day"
# Stamps form a grid if they lie this close to whole multiples of an interval, as a share of it.
ON_GRID = 2e-3
# Number of stamps from which on a straight line through rounded stamps is no accident.
MANY = 20
# If at least this share of the intervals equals the shortest one, the others are gaps.
MOSTLY = 0.7
# Resolutions that dates (in seconds) and numbers are rounded to.
DATES, DECIMALS = (60.0, 1.0, 1e-3, 1e-6), tuple(10.0**-k for k in range(13))
LENGTHS = {"day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}


class Grid(NamedTuple):
    """A regular grid on which all stamps lie, and the number of steps from the first stamp to
    each.
    """

    step: float
    counts: tuple[np.ndarray, ...]

    @property
    def complete(self) -> bool:
        """Whether every point of the grid has a stamp."""
        return self.neighbours == 1

    @property
    def neighbours(self) -> float:
        """The share of stamps that are followed by a stamp at the next point of the grid."""
        steps = np.concatenate([np.diff(count) for count in self.counts])
        return float(np.mean(steps == 1)) if len(steps) else 1.0


class Sampling(NamedTuple):
    """The interval of time stamps, None if they are irregular or rows are missing; its unit, empty
    if unknown; and the stamps as numbers in that unit, on their grid if there is one.
    """

    dt: float | None
    unit: str
    times: np.ndarray


# ---- the interval ----


def sampling(stamps: np.ndarray) -> Sampling:
    """Return the sampling interval of stamps given as numbers, dates or durations.

    For dates, the unit is the largest of year, month, day, hour, minute and second that makes the
    interval a whole number; irregular dates are counted in days. Numbers keep their unit. The
    interval is fitted to all stamps, so alternating 33 and 34 milliseconds give 30 per second.

    **Raises:** `ValueError` if the stamps do not increase strictly.
    """
    stamps = np.asarray(stamps)
    if stamps.dtype.kind == "m":
        stamps = np.datetime64(0, "s") + stamps
    if stamps.dtype.kind == "M" and np.datetime_data(stamps.dtype)[0] in "YMWDhm":
        stamps = stamps.astype("datetime64[s]")
    check_increasing(stamps)
    start, irregular, printed = 0.0, "", (1.0,)
    units: dict[str, float] = {"": 1.0}
    if stamps.dtype.kind != "M":
        start = float(stamps[0])
        times = np.asarray(stamps, float) - start
        printed = printed if stamps.dtype.kind in "iu" else DECIMALS
    elif (times := _working_days(stamps)) is not None:
        units, irregular = {WORKING_DAY: 1.0}, WORKING_DAY
    elif (times := _months(stamps)) is not None:
        units, irregular = {"year": 12.0, "month": 1.0}, "month"
    else:
        times = (stamps - stamps[:1]) / np.timedelta64(1, "s")
        units, irregular, printed = LENGTHS, "day", DATES
    grid = find_grid((times,), printed)
    if grid is None:
        return Sampling(None, irregular, start + times / units[irregular])
    whole = (unit for unit, length in units.items() if grid.step % length == 0)
    unit = next(whole, list(units)[-1])
    step = float(f"{grid.step / units[unit]:.12g}")
    return Sampling(step if grid.complete else None, unit, start + step * grid.counts[0])


def check_increasing(stamps: np.ndarray) -> None:
    """Raise an error for stamps that repeat or decrease, with the likely reason.

    **Raises:** `ValueError`.
    """
    if len(stamps) > 1 and (rises := is_rising(stamps)).all():
        return
    row = int(np.argmin(rises)) + 2 if len(stamps) > 1 else 1
    text = f"Expected at least two time stamps, strictly increasing; data row {row} breaks this"
    if row == 1:
        raise ValueError(f"{text}.")
    before, after = stamps[row - 2], stamps[row - 1]
    text += f", where {written(before)} is followed by {written(after)}. "
    if stamps.dtype.kind == "M" and before - after < np.timedelta64(1, "h"):
        text += (
            "If clocks went back an hour there at the end of daylight saving time, name the zone "
            "with --time-zone, or in Python set index.tz_localize(ZONE, ambiguous='infer'). "
        )
    again = "If rows are duplicated, remove the duplicates. " if before == after else ""
    several = (
        "If there are several recordings, name the column that tells them apart with --trial, or "
        "in Python use set_index([recording, time])."
    )
    raise ValueError(f"{text}{again}{several} Otherwise sort the rows by time.")


def is_rising(stamps: np.ndarray) -> np.ndarray:
    """Return whether each stamp, whatever it counts, is later than the one before."""
    return stamps[1:] > stamps[:-1]


def _working_days(stamps: np.ndarray) -> np.ndarray | None:
    """Return working days since the first stamp, if the stamps cover nearly all working days."""
    days = stamps.astype("datetime64[D]")
    whole = (stamps - days.astype(stamps.dtype) == stamps[0] - days[0].astype(stamps.dtype)).all()
    if len(stamps) < MANY or not whole or not np.is_busday(days).all():
        return None
    count = np.busday_count(days[0], days)
    return count.astype(float) if len(days) > 0.8 * (count[-1] + 1) else None


def _months(stamps: np.ndarray) -> np.ndarray | None:
    """Return months since the first date, for dates at about the same point of each month."""
    # The second and third try shift month ends, including last working days, to the next month.
    for days in (0, 1, 4):
        shifted = stamps.astype("datetime64[s]") + np.timedelta64(days, "D")
        months = shifted.astype("datetime64[M]")
        within = shifted - months.astype("datetime64[s]")
        if not is_rising(months).all():
            continue
        steps = np.diff(stamps)
        near = np.ptp(within) <= np.timedelta64(3, "D") and (steps != steps[0]).any()
        near = near and (steps >= np.timedelta64(26, "D")).all()
        if (within == within[0]).all() or near:
            return (months - months[0]).astype(float)
    return None


def written(stamp: Any) -> str:
    """Return a date or a number in words, without a fraction that is 0.

    >>> written(np.datetime64("2001-12-31T18:00")), written(np.datetime64("1998-03"))
    ('2001-12-31 18:00', '1998-03')
    """
    text = str(stamp)
    text = text if text == "NaT" else text.replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---- grids ----


def find_grid(times: Sequence[np.ndarray], resolutions: Sequence[float] = DECIMALS) -> Grid | None:
    """Return the regular grid of the stamps of one or several trajectories; None if there is none.

    Either all intervals are whole multiples of the shortest, or the stamps, up to the resolution
    they are printed in, lie on a straight line fitted by least squares to the number of steps from
    the first stamp. The second is tested first if no interval prevails.
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
    prevails = exact is not None and same.mean() >= MOSTLY
    if prevails or len(pooled) < MANY or rounding >= step:
        return exact
    return (
        _fitted(times, [np.arange(len(t)) for t in times], rounding / 2)
        or exact
        or _fitted(times, step_counts(times, step), min(rounding / 2, step / 4))
    )


def underlying_step(times: Sequence[np.ndarray], usual: float, sizes: Sequence[float]) -> float:
    """Return the step of the grid around which stamps scatter; the usual interval if there is none.

    The step is fitted by least squares to the number of usual intervals between each stamp and the
    first. It is then rounded to a whole multiple of the first of the sizes that has one within
    three standard errors.
    """
    counts = step_counts(times, usual)
    grid = _fitted(times, counts, 0.45 * usual)
    if grid is None:
        return usual
    centred = [(t - t.mean(), k - k.mean()) for t, k in zip(times, counts, strict=True)]
    off = np.concatenate([t - grid.step * k for t, k in centred])
    error = 3 * off.std() / np.sqrt(sum(k @ k for _, k in centred))
    near = (size * round(grid.step / size) for size in sizes)
    return next((step for step in near if step and abs(step - grid.step) <= error), grid.step)


def rounding_of(times: Sequence[np.ndarray], resolutions: Sequence[float] = DECIMALS) -> float:
    """Return the coarsest resolution of which all stamps are multiples; 0 if there is none."""
    pooled = np.concatenate(times)
    for size in resolutions:
        if (np.abs(pooled / size - np.round(pooled / size)) < 1e-4).all():
            return size
    return 0.0


def step_counts(times: Sequence[np.ndarray], step: float) -> tuple[np.ndarray, ...]:
    """Return the number of steps from the first stamp to each, counted from stamp to stamp."""
    steps = [np.maximum(np.round(np.diff(t) / step), 1).astype(int) for t in times]
    return tuple(np.concatenate([[0], np.cumsum(whole)]) for whole in steps)


def _multiples(times, pooled, step: float) -> Grid | None:
    """Return the grid of this step if all intervals are multiples of it with few rows missing."""
    multiple = pooled / step
    whole = np.round(multiple)
    near = np.abs(multiple - whole) <= ON_GRID * np.maximum(multiple, 1)
    good = near.all() and (whole >= 1).all() and whole.sum() <= 4 * len(whole)
    mean = float(f"{pooled.sum() / max(whole.sum(), 1):.12g}")
    return Grid(mean, step_counts(times, step)) if good else None


def _fitted(times, counts, tolerance: float) -> Grid | None:
    """Return the least-squares step; None if a stamp is further from its grid point than the
    tolerance.
    """
    centred = [(t - t.mean(), k - k.mean()) for t, k in zip(times, counts, strict=True)]
    square = sum(k @ k for _, k in centred)
    step = sum(t @ k for t, k in centred) / square
    # The mean of the rounding errors of the stamps has been subtracted too.
    off = max(np.abs(t - step * k).max() for t, k in centred)
    good = off <= tolerance * 1.1 + 1e-9 * step
    return Grid(float(f"{step:.12g}"), tuple(counts)) if good else None


def rank(stamps: np.ndarray, rows: Sequence[np.ndarray] = ()) -> int:
    """Return 3 for a regular clock, 2 if rows are missing, 1 if it only increases, else 0."""
    worst = 3
    for r in rows or (slice(None),):
        try:
            found = sampling(stamps[r])
        except ValueError:
            return 0
        steps = np.diff(found.times)
        holes = np.allclose(steps % steps.min(), 0, atol=1e-6)
        worst = min(worst, 3 if found.dt is not None else 1 + holes)
    return worst
