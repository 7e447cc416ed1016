"""Units of time, and lags given in samples or as times with a unit."""

import re
from collections.abc import Iterable
from typing import Any

from .._checks import shown
from ._samples import Samples

# Seconds, or months, of a unit.
SECONDS = {
    "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
    "hr": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0, "w": 604800.0, "wk": 604800.0,
    "week": 604800.0,
}  # fmt: skip
MONTHS = {"mo": 1.0, "month": 1.0, "y": 12.0, "yr": 12.0, "a": 12.0, "year": 12.0}
_TIME = re.compile(r"(\d+(?:\.\d*)?)\s*([A-Za-z]+)")
# How far a time may lie off a sample, in sampling intervals.
OFF_GRID = 0.02
MOST = 10_000


def has_unit(lags: Any) -> bool:
    """Return whether lags are given as times."""
    items = lags if isinstance(lags, list | tuple) else [lags]
    return any(isinstance(item, str) and re.search("[A-Za-z]", item) for item in items)


def lags_in_samples(lags: Any, samples: Samples) -> Any:
    """Return lags in samples from times with a unit; lags without one are returned as they are.

    "6h" is one lag, "0,6h,12h" a list, "0:24h:2h" a range with its end, without a step every
    sample; a list may mix numbers of samples and times.

    **Raises:** `ValueError` for what is no time, for a unit that cannot be converted into that of
    the samples, and for times that fall between samples.
    """
    if not has_unit(lags):
        return lags
    found: set[int] = set()
    for item in [lags] if isinstance(lags, str) else lags:
        for part in item.split(",") if isinstance(item, str) else [item]:
            found.update(_several(part, samples))
    if len(found) > MOST:
        raise ValueError(f"lags: expected at most {MOST}; got {len(found)}: {shown(lags)}.")
    return tuple(sorted(found))


def _several(part: Any, samples: Samples) -> Iterable[int]:
    """Return the lags, in samples, of one lag or a range."""
    if not isinstance(part, str):
        return [part]
    ends = [_lag(end.strip(), samples) for end in part.split(":")]
    if len(ends) == 1:
        return ends
    start, stop, step = (*ends, 1)[:3]
    if len(ends) > 3 or step < 1 or stop < start:
        raise ValueError(
            f"lags: expected START:STOP or START:STOP:STEP, such as 0:24h:2h; got {shown(part)}."
        )
    return range(start, stop + 1, step)


def _lag(text: str, samples: Samples) -> int:
    """Return one lag in samples."""
    if text.isdecimal():
        return int(text)
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(
            f"lags: expected whole numbers of samples or times such as 6h; got {shown(text)}."
        )
    own = samples.time_unit.strip()
    ratio = unit_ratio(match[2], own)
    if ratio is None:
        why = (
            f"cannot convert {match[2]!r} into the unit of the samples, {own!r}; known are "
            f"{', '.join((*SECONDS, *MONTHS))}, months and years on their own."
            if own
            else f"{match[2]!r} means nothing as long as the unit of dt is unknown; give time_unit."
        )
        raise ValueError(f"lags: {why}")
    lag = float(match[1]) * ratio / samples.dt
    if abs(lag - round(lag)) > OFF_GRID:
        raise ValueError(
            f"lags: {text} is {lag:.4g} samples of {samples.dt:.4g} {samples.time_unit}, and no "
            "whole number. Take the nearest, or interpolate to a finer grid."
        )
    return round(lag)


def unit_ratio(unit: str, own: str) -> float | None:
    """Return how many of a second unit of time the first is; None where that is not known."""
    if unit == own:
        return 1.0
    one, other = (name.lower() for name in (unit, own))
    for table in (SECONDS, MONTHS):
        known = {**table, **{f"{name}s": length for name, length in table.items()}}
        if one in known and other in known:
            return known[one] / known[other]
    return None
