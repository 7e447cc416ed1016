"""Lags given in samples or as times with a unit."""

import re
from typing import Any

from .._checks import short_repr
from .._wording import MONTHS, SECONDS, unit_ratio
from ._samples import Samples

TIME = re.compile(r"(\d+(?:\.\d*)?)\s*([A-Za-z]+)")
# Maximum distance of a time from a sample, in sampling intervals.
OFF_GRID = 0.02
MOST = 10_000


def has_unit(lags: Any) -> bool:
    """Return whether lags are given as times."""
    items = lags if isinstance(lags, list | tuple) else [lags]
    return any(isinstance(item, str) and re.search("[A-Za-z]", item) for item in items)


def lags_in_samples(lags: Any, samples: Samples) -> Any:
    """Return lags in samples from times with a unit; lags without a unit are returned unchanged.

    "6h" is one lag, "0,6h,12h" a list, and "0:24h:2h" a range that includes its end; without a step
    it holds every sample. A list may mix numbers of samples and times.

    **Raises:** `ValueError` for text that is not a time, for a unit that cannot be converted into
    that of the samples, and for times that fall between samples.
    """
    if not has_unit(lags):
        return lags
    found: set[int] = set()
    for item in [lags] if isinstance(lags, str) else lags:
        found.update(written_lags(item, samples) if isinstance(item, str) else [item])
    return tuple(sorted(found))


def written_lags(text: str, samples: Samples | None = None) -> tuple[int, ...]:
    """Return lags in samples, ascending, from their text form; times require `samples`.

    **Raises:** `ValueError`, as `lags_in_samples`.

    >>> written_lags("0:12:3"), written_lags("0,3,6")
    ((0, 3, 6, 9, 12), (0, 3, 6))
    """
    found: set[int] = set()
    for part in text.split(","):
        ends = [_lag(end.strip(), samples, text) for end in part.split(":")]
        start, stop, step = ends if len(ends) == 3 else (ends[0], ends[-1], 1)
        if len(ends) > 3 or step < 1 or stop < start:
            raise _refused(text)
        lags = range(start, stop + 1, step)
        if len(lags) + len(found) > MOST:
            got = f"got {short_repr(text)}. START:STOP:STEP takes every STEPth lag."
            raise ValueError(f"lags: expected at most {MOST} lags; {got}")
        found.update(lags)
    return tuple(sorted(found))


def _refused(text: str) -> ValueError:
    expected = "START:STOP (STOP included), START:STOP:STEP or a list like 0,3,6, in whole numbers"
    expected += " of samples or in times such as 6h"
    return ValueError(f"lags: expected {expected}; got {short_repr(text)}.")


def _lag(text: str, samples: Samples | None, whole: str) -> int:
    """Return one lag in samples; `whole` is the complete text, for error messages."""
    if text.isdecimal():
        return int(text)
    match = TIME.fullmatch(text)
    if match is None or samples is None:
        raise _refused(whole)
    unit, own = match[2], samples.time_unit.strip()
    ratio = unit_ratio(unit, own)
    if ratio is None:
        why = f"{unit!r} has no meaning while the unit of dt is unknown; pass time_unit."
        if own:
            known = f"known units: {', '.join((*SECONDS, *MONTHS))} (months and years separately)"
            why = f"cannot convert {unit!r} into the unit of the samples, {own!r}; {known}."
        raise ValueError(f"lags: {why}")
    lag = float(match[1]) * ratio / samples.dt
    if abs(lag - round(lag)) > OFF_GRID:
        what = f"{lag:.4g} samples of {samples.dt:.4g} {samples.time_unit}, not a whole number"
        remedy = "Use the nearest sample, or interpolate to a finer grid."
        raise ValueError(f"lags: {text} is {what}. {remedy}")
    return round(lag)
