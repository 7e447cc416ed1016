"""Dates of times that are counted from a date in a unit of time."""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from .._spoken import MONTHS, SECONDS, unit_ratio

WORKING_DAY = "working day"


def dates_after(
    start: str, times: Float[np.ndarray, "*times"], unit: str
) -> Shaped[np.ndarray, "*times"]:
    """Return the dates at times counted from a date on, `datetime64` as fine as the unit: months
    have no days, and days no hours.

    >>> dates_after("1950-01-01T00:00:00", np.array([0.0, 578.0]), "month")
    array(['1950-01', '1998-03'], dtype='datetime64[M]')
    """
    first, times = np.datetime64(start, "us"), np.asarray(times, float)
    if unit == WORKING_DAY:
        return np.busday_offset(first.astype("M8[D]"), np.round(times).astype(int), roll="forward")
    months = unit_ratio(unit, "month")
    if months is not None:
        dates = first.astype("M8[M]") + np.round(times * months).astype(int)
        return dates.astype("M8[Y]") if months >= MONTHS["year"] else dates
    seconds = _seconds(unit)
    fine = "D" if seconds >= SECONDS["day"] else "m" if seconds >= SECONDS["minute"] else "ms"
    return (first + np.round(times * seconds * 1e6).astype("m8[us]")).astype(f"M8[{fine}]")


def elapsed(start: str, other: str, unit: str) -> float:
    """Return the time from one date to another, in a unit in which dates count times.

    >>> elapsed("1950-01-01T00:00:00", "1998-03-01T00:00:00", "month")
    578.0
    """
    first, last = np.datetime64(start, "us"), np.datetime64(other, "us")
    if unit == WORKING_DAY:
        return float(np.busday_count(first.astype("M8[D]"), last.astype("M8[D]")))
    months = unit_ratio("month", unit)
    if months is not None:
        return float((last.astype("M8[M]") - first.astype("M8[M]")).astype(int) * months)
    return float((last - first) / np.timedelta64(1, "s")) / _seconds(unit)


def _seconds(unit: str) -> float:
    seconds = unit_ratio(unit, "second")
    if seconds is None:
        raise ValueError(f"times counted in {unit!r} have no dates; expected a unit such as 'day'.")
    return seconds


def written(stamp: Any) -> str:
    """Return a date or a number in words, without a fraction that is 0.

    >>> written(np.datetime64("2001-12-31T18:00")), written(np.datetime64("1998-03"))
    ('2001-12-31 18:00', '1998-03')
    """
    text = str(stamp).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text
