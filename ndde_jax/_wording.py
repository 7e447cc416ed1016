"""Amounts, shares and times in words, and units of time."""

import math
import re
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

# Units of three letters that have no plural.
ABBREVIATED = ("min", "sec", "kyr")


def amount(value: float | int, unit: str, digits: int = 3) -> str:
    """Return a number with its unit, in the plural if the unit is a word.

    >>> amount(2.0, "month"), amount(0.25, "h"), amount(3.0, ""), amount(12.0, "working day", 6)
    ('2 months', '0.25 h', '3', '12 working days')
    """
    number = f"{value:.{digits}g}"
    word = len(unit) > 2 and unit.replace(" ", "").isalpha() and unit not in ABBREVIATED
    if word and not unit.endswith("s") and number != "1":
        unit += "s"
    return f"{number} {unit}".rstrip()


def percent(share: float, digits: int = 0) -> str:
    """Return a share in percent; one above 100 % is shown without its size.

    >>> percent(0.314), percent(0.0314, 1), percent(31.6)
    ('31%', '3.1%', 'more than 100%')
    """
    return "more than 100%" if share > 1 else f"{share:.{digits}%}"


def times(share: float) -> str:
    """Return a ratio of any size, as a percentage below 2 and as a multiple from 2.

    >>> times(0.4), times(78.0)
    ('40% of', '78 times')
    """
    return f"{share:.0%} of" if share < 2 else f"{share:.0f} times"


def listed(names: Iterable[Any], most: int = 4, separator: str = ", ") -> str:
    """Return names for a sentence; if there are many, the first few, but never "and 1 more".

    >>> listed("abcde"), listed("abcdefg")
    ('a, b, c, d, e', 'a, b, c, d and 3 more')
    """
    names = [str(name) for name in names]
    if len(names) <= most + 1:
        return separator.join(names)
    return f"{separator.join(names[:most])} and {len(names) - most} more"


def more_than(shown: int, count: int, said: str) -> list[str]:
    """Return a phrase with the number of items that are not shown; nothing if all are.

    >>> more_than(4, 9, "and {} more"), more_than(4, 3, "and {} more")
    (['and 5 more'], [])
    """
    return [said.format(count - shown)] if count > shown else []


def wrapped(text: str, indent: str = "") -> str:
    """Return a text in lines of at most 88 columns, with all but the first indented."""
    return textwrap.fill(text, 88, subsequent_indent=indent)


# ---- times ----

# Seconds, or months, of a unit.
SECONDS = {
    "ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0,
    "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0,
    "d": 86400.0, "day": 86400.0, "w": 604800.0, "wk": 604800.0, "week": 604800.0,
}  # fmt: skip
MONTHS = {
    "mo": 1.0, "month": 1.0, "y": 12.0, "yr": 12.0, "a": 12.0, "year": 12.0, "ka": 12e3,
    "kyr": 12e3,
}  # fmt: skip
# Units for a time that is below 1 in its own unit, or above this many of a larger unit.
DISPLAY_UNITS, MANY = {
    "second": (
        ("day", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6),
        ("ns", 1e-9), ("ps", 1e-12),
    ),
    "month": (("year", 12.0), ("month", 1.0)),
}, 3.0  # fmt: skip


def unit_ratio(unit: str, own: str) -> float | None:
    """Return the length of a unit of time in another one; None if it is not known."""
    if unit == own:
        return 1.0
    one, other = (name.lower() for name in (unit, own))
    for table in (SECONDS, MONTHS):
        known = {**table, **{f"{name}s": length for name, length in table.items()}}
        if one in known and other in known:
            return known[one] / known[other]
    return None


# Words for time in the name of a column, next to which its unit may stand, and words that mean
# counting backwards.
TIME = set("t time times elapsed clock timestamp age zeit temps tiempo tempo tijd".split())
AGO = set("bp ago".split())


def unit_in(name: str) -> str:
    """Return the unit of time in the name of a column of numbers; empty if there is none.

    >>> unit_in("time_h"), unit_in("t [ms]"), unit_in("Elapsed time (min)"), unit_in("days")
    ('h', 'ms', 'min', 'day')
    >>> unit_in("t (µs)"), unit_in("age_ka_BP"), unit_in("kyr BP")
    ('µs', 'ka', 'kyr')
    >>> unit_in("time"), unit_in("depth_m"), unit_in("s")
    ('', '', '')
    """
    every = re.findall(r"[^\W\d_]+", name.lower().replace("\u03bc", "µ"))
    words = [word for word in every if word not in AGO]
    unit, units = words[-1] if words else "", {*SECONDS, *MONTHS}
    unit = unit.removesuffix("s") if unit.removesuffix("s") in units else unit
    spelt_out = len(words) == 1 and (len(unit) > 2 or len(every) > 1)
    return unit if unit in units and (spelt_out or TIME & set(words[:-1])) else ""


def time_span(
    value: float, low: float = np.nan, high: float = np.nan, *, unit: str, digits: int = 3
) -> str:
    """Return a time and its interval, in a unit in which the time is neither below 1 nor long.

    The digits are those that the interval supports; without an interval, `digits`.

    >>> time_span(0.5811, unit="h"), time_span(3.4321, 2.94, 3.81, unit="h")
    ('34.9 min', '3.4 h (2.9 to 3.8)')
    >>> time_span(673.0, 567.0, 730.0, unit="minute"), time_span(114.0, unit="minute")
    ('11 h (9 to 12)', '114 minutes')
    >>> time_span(120.0, unit="minute"), time_span(155.0, unit="minute")
    ('2 h', '155 minutes')
    >>> time_span(0.15, 0.147, 0.153, unit="kyr"), time_span(240.0, unit="month")
    ('150 years (147 to 153)', '20 years')
    """
    for base, units in DISPLAY_UNITS.items():
        own = unit_ratio(unit, base)
        if own is None or not value:
            continue
        told = abs(value) * own
        if abs(value) < 1:
            fitting = ((name, size) for name, size in units if told >= size)
        else:
            # From three of a larger unit; two, and two and a half, are as easy to read.
            least = {size: 2.0 if (2 * told / size).is_integer() else MANY for _, size in units}
            fitting = ((name, size) for name, size in units if own < size <= told / least[size])
        unit, size = next(fitting, (unit, own))
        scale = own / size
        value, low, high = value * scale, low * scale, high * scale
    if not low < high:
        return amount(value, unit, digits)
    digits = max(0, math.ceil(-math.log10(high - low)), int(abs(value) < 10))
    said = [f"{number:.{digits}f}" for number in (value, low, high)]
    if digits:
        said = [number.rstrip("0").rstrip(".") for number in said]
    # A unit that is a word is in the plural after any number except one.
    unit = amount(1.0 if said[0] == "1" else 2.0, unit).partition(" ")[2]
    return f"{said[0]} {unit}".rstrip() + f" ({said[1]} to {said[2]})"
