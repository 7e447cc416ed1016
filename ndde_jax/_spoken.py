"""Parsing and formatting of lags, edges, amounts and shares in their written form."""

import math

import numpy as np

# More candidate lags than anybody means.
MOST_LAGS = 10_000


def parse_lags(text: str) -> tuple[int, ...]:
    """Return lags in samples, ascending: "0:12" (end included), "0:12:3" or "0,3,6".

    Raises ValueError for anything else.

    >>> parse_lags("0:12:3")
    (0, 3, 6, 9, 12)
    """
    try:
        if ":" in text:
            start, stop, *step = map(int, text.split(":"))
            (step,) = step or (1,)
            lags = range(start, stop + 1, step) if step > 0 else ()
            if len(lags) > MOST_LAGS:
                raise OverflowError
        else:
            lags = [int(part) for part in text.split(",")]
    except OverflowError:
        raise ValueError(
            f"Expected at most {MOST_LAGS} candidate lags; got {text!r}. START:STOP:STEP takes "
            "every STEPth."
        ) from None
    except ValueError:
        lags = ()
    if not lags or min(lags) < 0:
        raise ValueError(
            f"Expected lags as START:STOP (STOP included), START:STOP:STEP or a list like 0,3,6, "
            f"all non-negative integers; got {text!r}."
        )
    return tuple(sorted(set(lags)))


def parse_edge(text: str) -> tuple:
    """Return an edge as the user writes it, for `prior_knowledge`: "a>b" or "a>b@3".

    Raises ValueError for anything else.

    >>> parse_edge("wind > sea@3")
    ('wind', 'sea', 3)
    """
    source, arrow, rest = text.partition(">")
    target, at, lag = rest.rpartition("@") if "@" in rest else (rest, "", "")
    source, target, lag = source.strip(), target.strip(), lag.strip()
    if not (arrow and source and target) or (at and not lag.isdecimal()):
        raise ValueError(
            f"Expected an edge as SOURCE>TARGET or SOURCE>TARGET@LAG; got {text!r} (quote it: "
            "shells read > as a redirection)."
        )
    return (source, target, int(lag)) if at else (source, target)


def parse_only(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a column and the values that count: "season=winter" or "month=12,1,2".

    Raises ValueError for anything else.

    >>> parse_only("month = 12, 1, 2")
    ('month', ('12', '1', '2'))
    """
    column, equals, values = text.partition("=")
    found = tuple(dict.fromkeys(value.strip() for value in values.split(",")))
    if not (equals and column.strip() and all(found)):
        raise ValueError(f"Expected COLUMN=VALUE or COLUMN=VALUE,VALUE; got {text!r}.")
    return column.strip(), found


def parse_months(text: str) -> tuple[int, ...]:
    """Return months of the year by number: "12,1,2".

    Raises ValueError for anything else.

    >>> parse_months("12,1,2")
    (12, 1, 2)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 12 for part in parts):
        raise ValueError(f"Expected months as numbers from 1 to 12, such as 12,1,2; got {text!r}.")
    return tuple(dict.fromkeys(map(int, parts)))


def amount(value: float, unit: str, digits: int = 3) -> str:
    """Return a number with its unit, which is in the plural if it is a word.

    >>> amount(2.0, "month"), amount(0.25, "h"), amount(3.0, ""), amount(1234.0, "day", 6)
    ('2 months', '0.25 h', '3', '1234 days')
    """
    number = f"{value:.{digits}g}"
    word = len(unit) > 2 and unit.isalpha() and unit not in ("min", "sec")
    if word and not unit.endswith("s") and number != "1":
        unit += "s"
    return f"{number} {unit}".rstrip()


def percent(share: float, digits: int = 0) -> str:
    """Return a share of at most 100 %; an estimate beyond that is shown as such without its size.

    >>> percent(0.314), percent(0.0314, 1), percent(31.6)
    ('31%', '3.1%', 'more than 100%')
    """
    return "more than 100%" if share > 1 else f"{share:.{digits}%}"


def times(share: float) -> str:
    """Return a ratio that may exceed a whole, whatever its size.

    >>> times(0.4), times(78.0)
    ('40% of', '78 times')
    """
    return f"{share:.0%} of" if share < 2 else f"{share:.0f} times"


# Units of time, in seconds, by what people call them; a month and a year are means.
SECONDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
SMALLER = (("day", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def time_span(value: float, low: float = np.nan, high: float = np.nan, *, unit: str) -> str:
    """Return a time with its unit and the interval it lies in, in a unit in which it is above 1.

    Digits are those that the interval leaves; without one, three.

    >>> time_span(0.5811, unit="h"), time_span(3.4321, 2.94, 3.81, unit="h")
    ('34.9 min', '3.4 h (2.9 to 3.8)')
    """
    if unit in SECONDS and 0 < abs(value) < 1:
        seconds = value * SECONDS[unit]
        unit, factor = next(
            ((name, size) for name, size in SMALLER if abs(seconds) >= size),
            (unit, SECONDS[unit]),
        )
        scale = seconds / value / factor
        value, low, high = value * scale, low * scale, high * scale
    if not low < high:
        return amount(value, unit)
    digits = max(0, math.ceil(-math.log10(high - low)), int(abs(value) < 10))
    said = [f"{number:.{digits}f}" for number in (value, low, high)]
    if digits:
        said = [number.rstrip("0").rstrip(".") for number in said]
    # A unit that is a word is in the plural beside any number but one.
    unit = amount(1.0 if said[0] == "1" else 2.0, unit).partition(" ")[2]
    return f"{said[0]} {unit}".rstrip() + f" ({said[1]} to {said[2]})"
