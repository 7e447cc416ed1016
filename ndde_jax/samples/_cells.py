"""The meaning of a table's cells: numbers, dates, marks for missing values, or words."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._wording import listed
from ._dates import is_date, is_time

MISSING = {"", "no data", "#n/a n/a"} | set(
    "#div/0! #value! #ref! #name? #num! #null! nan na n/a null none nil <na> nat missing nodata "
    "#n/a #na n.a. -nan 1.#ind -1.#ind 1.#qnan n/d nd n.d. "
    "#nv #wert! #bezug! #zahl! #valeur! #nombre! #nom? #nul!".split()
)
# A comma that separates decimals: 1,5 and 1.234,5.
COMMA_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")
POINT_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
# Thousands separated by points or commas: 1.234.567 and 1,234,567.5.
POINTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
COMMAS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
# Literal characters: Arrow's regular expressions, which pandas may use, do not support \u.
_SPACES = re.compile("[+-]?\\d{1,3}(['’ \u00a0\u202f]\\d{3})+([.,]\\d*)?")
_WITH_UNIT = r"^([+-]?[\d.,]*\d(?:[eE][+-]?\d+)?)\s*(?![eE][+-]?\d)([^\d\s.,:/*^+-]\S{0,9})$"
# Maximum length of a name before it is cut, and number of names in an error message.
LONGEST_NAME, NAMES = 120, 20
_FLAGS = dict.fromkeys("true on yes open".split(), "1")
_FLAGS |= dict.fromkeys("false off no closed".split(), "0")
# Other minus signs, a Fortran exponent (1.0D+03), and a currency sign.
_MINUS, _EXPONENT = "[−–‐‑]", r"^([+-]?[\d.]+)[dD]([+-]?\d+)$"
_CURRENCY = r"^([+-]?)[$€£¥]\s*"
# A number with a currency or percent sign, or with a unit after a space.
_DECORATED = re.compile(
    r"(?=.*[$€£¥%\s])[+-]?[$€£¥]?(\d{1,3}([.,]\d{3})+|\d+)?([.,]?\d+)(\s?%|\s[^\W\d]{1,5})?"
)
# A number followed by a mark, which no name looks like.
_MARKED = r"[<>~]?\s*[+-]?\d*[.,]\d+\s*[^\s\d.,]{0,3}"


class Numbers(NamedTuple):
    """A column as numbers, NaN where missing. `wrong` is the first row that does not hold a number,
    `said` lists the assumptions made, and `empty` says whether there are no numbers at all.
    """

    values: np.ndarray
    wrong: int | None = None
    said: str = ""
    empty: bool = False


def clean_name(name: Any) -> str:
    """Return a name as one short line, without control characters or marks that change the
    writing direction.
    """
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in str(name)[:1000])
    text = " ".join(text.split())
    text = text[1:-1] if len(text) > 2 and text[0] == text[-1] in "'\"" else text
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def to_float(cell: Any) -> float | None:
    """Return a cell as a number, or None if it is not one."""
    try:
        return None if "_" in str(cell) else float(cell)
    except (TypeError, ValueError):
        return None


def text_of(cell: Any) -> str:
    """Return a cell as text without surrounding whitespace, empty for None and NaN."""
    return "" if cell is None or cell != cell else str(cell).strip()


def is_missing(cell: Any) -> bool:
    """Return whether a cell marks a missing value: empty, a word for it, or only punctuation."""
    text = text_of(cell).lower()
    return text in MISSING or not any(letter.isalnum() for letter in text)


def is_value(cell: str, decimal: str | None = None) -> bool:
    """Return whether a cell is a number, a date, a time of day or missing, rather than a name."""
    cell = re.sub(_EXPONENT, r"\1e\2", re.sub(_MINUS, "-", cell.strip()))
    if to_float(cell) is not None or is_missing(cell) or is_date(cell) or is_time(cell):
        return True
    written = (COMMAS, _SPACES, _DECORATED) + (COMMA_NUMBER, POINTS) * (decimal != ".")
    return cell[:1] in "<>" or any(pattern.fullmatch(cell) for pattern in written)


def decimal_mark(cells: Sequence[str], separator: str) -> str:
    """Return the decimal mark of a text, judged by its numbers: a comma if some comma can only be a
    decimal mark, or if semicolons separate the cells and no point contradicts this.
    """
    with_comma = [cell for cell in cells if COMMA_NUMBER.fullmatch(cell)]
    if not with_comma or any(
        (POINT_NUMBER.fullmatch(cell) and not POINTS.fullmatch(cell))
        or ("." in cell and COMMAS.fullmatch(cell))
        for cell in cells
    ):
        return "."
    sure = any(not COMMAS.fullmatch(cell) for cell in with_comma)
    return "," if sure or separator == ";" else "."


def points_separate_thousands(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the points in the numbers of a table separate thousands.

    Each point must be followed by three digits. In addition, some number has two points, or some
    column also holds whole numbers below 1000, at least two of them, because a single one can be a
    code for missing values.
    """
    parted, large, twice = set[int](), set[int](), False
    small: dict[int, set[str]] = {}
    for row in rows:
        for j, cell in enumerate(row):
            if "." in cell:
                if POINTS.fullmatch(cell):
                    parted.add(j)
                    twice |= cell.count(".") > 1
                elif POINT_NUMBER.fullmatch(cell):
                    return False
            elif (digits := cell.lstrip("+-")).isdecimal():
                if len(digits) > 3:
                    large.add(j)
                else:
                    small.setdefault(j, set()).add(digits)
    mixed = any(len(small.get(j, ())) > 1 for j in parted)
    return (twice or mixed) and not parted & large


def listed_names(names: Iterable[Any]) -> str:
    """Return names for a sentence, only the first ones if there are very many."""
    return listed(names, NAMES)


def comparable(cell: Any) -> float | str:
    """Return a number or a text that is equal for any two cells with the same meaning."""
    text = text_of(cell)
    number = to_float(text)
    return "" if text.lower() in MISSING else text if number is None else number


def check_there(
    where: str, names: Iterable[str], there: Iterable, what: str = "column", remedy: str = ""
) -> None:
    """Raise an error for a name that does not exist."""
    for name in names:
        if name not in there:
            known = f"it has: {listed_names(there)}.{remedy}"
            raise ValueError(f"{where} has no {what} {name!r}; {known}")


def as_numbers(column: Any, *, decimal: str = ".", marks: Sequence[str] = ()) -> Numbers:
    """Return a column of a table as numbers, whatever type its cells have.

    `marks` are texts that mean missing. One that ends in * matches every text with that beginning.
    """
    import pandas as pd

    codes = [number for mark in marks if (number := to_float(mark)) is not None]
    if column.dtype.kind in "fiub":
        values = column.to_numpy(float, na_value=np.nan)
        values = np.where(np.isin(values, codes), np.nan, values)
        return Numbers(values, empty=bool(np.isnan(values).all()))
    if column.dtype.kind in "mMc":
        return Numbers(np.full(len(column), np.nan), 0)
    values = pd.to_numeric(column, errors="coerce")
    if decimal == "." and not codes and np.isfinite(values).all():
        return Numbers(values.to_numpy(float))
    texts = column.map(text_of)
    beginnings = tuple(mark[:-1] for mark in marks if mark.endswith("*"))
    gone = texts.map(is_missing) | texts.isin(marks) | texts.str.startswith(beginnings)
    odd = sorted({t for t in texts[gone].unique() if t.lower() not in MISSING and t not in marks})
    said = [f"{odd[0]!r} is read as missing" if len(odd) == 1 else "marks are read as missing"]
    said = said if set(odd) - {"-", ".", "--", "---"} else []
    values = pd.to_numeric(texts.mask(gone, "nan"), errors="coerce")
    left = values.isna() & ~gone
    if (decimal == "," and (~gone).any()) or left.any():
        again, more = _rewritten(texts[~gone], decimal)
        values[~gone] = pd.to_numeric(again, errors="coerce")
        left = values.isna() & ~gone
        said += more * (not left.any())
    values[values.isin(codes)] = np.nan
    wrong = int(np.argmax(left)) if left.any() else None
    words = left[~gone].all() and not texts[~gone].str.fullmatch(_MARKED).any()
    return Numbers(values.to_numpy(float), wrong, "; ".join(said), bool(gone.all() or words))


def _rewritten(texts: Any, decimal: str) -> tuple[Any, list[str]]:
    """Return numbers in Python's notation, and the assumptions made about other notations."""
    said = []
    for written, plain in ((_MINUS, "-"), (_EXPONENT, r"\1e\2"), (_CURRENCY, r"\1")):
        texts = texts.str.replace(written, plain, regex=True)
    parts = texts.str.extract(_WITH_UNIT)
    units = parts[1].dropna().unique()
    if len(units) == 1 and parts[1].notna().all():
        texts, said = parts[0], [f"the unit {units[0]!r} after its numbers is ignored"]
    elif texts.str.lower().isin(_FLAGS).all():
        return texts.str.lower().map(_FLAGS), []
    spaced = texts.str.fullmatch(_SPACES)
    texts = texts.mask(spaced, texts.str.replace(r"['’\s]", "", regex=True))
    if decimal == ",":
        commas = texts.str.fullmatch(COMMA_NUMBER) | texts.str.fullmatch(POINTS)
        # A point without a following comma separates thousands if all points of the column do.
        bad = texts.str.contains(".", regex=False) & ~commas
        plain = texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        return texts.mask(commas, plain).mask(bad, "?"), said
    thousands = texts.str.fullmatch(COMMAS)
    if thousands.any():
        said.append("commas in its numbers separate thousands; if not, use --decimal ,")
    return texts.mask(thousands, texts.str.replace(",", "", regex=False)), said
