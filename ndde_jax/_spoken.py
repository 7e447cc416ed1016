"""Lags, edges, amounts and shares as people write them."""

# More candidate lags than anybody means.
MOST_LAGS = 10_000


def parse_lags(text: str) -> tuple[int, ...]:
    """Lags in samples, ascending: "0:12" (end included), "0:12:3" or "0,3,6".

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
    """An edge as the user writes it, for `prior_knowledge`: "a>b" or "a>b@3".

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
    """A column and the values that count: "season=winter" or "month=12,1,2".

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
    """Months of the year by number: "12,1,2".

    Raises ValueError for anything else.

    >>> parse_months("12,1,2")
    (12, 1, 2)
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 12 for part in parts):
        raise ValueError(f"Expected months as numbers from 1 to 12, such as 12,1,2; got {text!r}.")
    return tuple(dict.fromkeys(map(int, parts)))


def amount(value: float, unit: str) -> str:
    """A number with its unit, which is in the plural if it is a word.

    >>> amount(2.0, "month"), amount(0.25, "h"), amount(3.0, "")
    ('2 months', '0.25 h', '3')
    """
    number = f"{value:.3g}"
    if len(unit) > 2 and unit.isalpha() and not unit.endswith("s") and number != "1":
        unit += "s"
    return f"{number} {unit}".rstrip()


def percent(share: float, digits: int = 0) -> str:
    """A share that is at most a whole; an estimate beyond that says no more than that it is.

    >>> percent(0.314), percent(0.0314, 1), percent(31.6)
    ('31%', '3.1%', 'more than 100%')
    """
    return "more than 100%" if share > 1 else f"{share:.{digits}%}"


def times(share: float) -> str:
    """A share of what is not its whole, whatever its size.

    >>> times(0.4), times(78.0)
    ('40% of', '78 times')
    """
    return f"{share:.0%} of" if share < 2 else f"{share:.0f} times"
