"""Text files: the format is found by trying readings and keeping the one that yields numbers."""

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ._cells import COMMA_NUMBER, MISSING, decimal_mark, is_missing, is_value, to_float
from ._formats import Found, Options, check_width, refuse_signature, unique_names

# Marks between cells, in the order in which they are believed; None are blanks.
SEPARATORS = (";", "\t", ",", "|", None)
# What no text holds stands between the cells of a single column.
_NOTHING = "\x1f"
# Lines and cells that are looked at to tell what was meant.
LOOKED_AT, CELLS = 200, 10_000
# Longest title above a table, in lines.
TITLE = 100


def read_text(path: Path, options: Options) -> Found:
    """Return the rows of a text file, whatever separates their cells."""
    text, said = _decoded(path)
    lines, title = _without_comments(text)
    if not lines:
        raise ValueError(f"{path.name} holds no data.")
    # Counted before anything is cut, because a million cells take their time.
    check_width(path, max(lines[0].count(m) for m in ";\t,| ") + 1, len(lines), options)
    separator = _separator(lines[:LOOKED_AT], options)
    rows = _rows(lines, separator)
    if "\n" in rows[-1][-1] and text.count('"') % 2:
        raise ValueError(f"{path.name} is no table of numbers: a quotation mark is not closed.")
    rows = [[cell.strip() for cell in row] for row in rows]
    most = Counter(map(len, rows)).most_common(1)[0][0]
    alone = itertools.takewhile(lambda row: len(row) == 1, reversed(rows[2:][-5:]))
    foot = len(list(alone)) if most > 1 else 0
    if foot and to_float(rows[-foot][0]) is None:
        said += (f"{path.name}: its last {foot} lines are taken for a note.",)
        rows = rows[:-foot]
    other = [i for i, row in enumerate(rows[: TITLE + 1]) if len(row) != most]
    start = other[-1] + 1 if other and most > 1 else 0
    if start == 1 and len(rows[0]) == most - 1:  # a header one name short
        # R gives its row names none, or there is a comma at the end of every other row.
        named = any(row[-1] for row in rows[1:])
        rows[0], start = ["", *rows[0]] if named else [*rows[0], ""], 0
    elif 0 < start <= min(TITLE, len(rows) - start) and not any(
        to_float(cell) is not None for row in rows[:start] if len(row) == most for cell in row
    ):
        said += (f"{path.name}: its first {start} lines are taken for a title.",)
    else:
        start = 0
    rows = rows[start:]
    for number, row in enumerate(rows, start=start + 1):
        if len(row) != len(rows[0]):
            comma = separator == "," and options.separator is None
            hint = " If commas are decimal commas, say so with --decimal ,." * comma
            raise ValueError(
                f"{path.name}: expected {len(rows[0])} columns, as in the first row; row {number} "
                f"has {len(row)}.{hint}"
            )
    return found_in(path, rows, title, separator, options, said)


def found_in(
    path: Path,
    rows: list[list[str]],
    title: list[str],
    separator: str | None,
    options: Options,
    said: tuple[str, ...] = (),
) -> Found:
    """Return the contents of text rows: names, units below them, numbers with either decimal
    mark.
    """
    import pandas as pd

    cells = [cell for row in rows[:1000] for cell in row if cell]
    decimal = options.decimal or decimal_mark(cells, separator or "")
    if decimal == "," and options.decimal is None:
        said += (f"{path.name}: numbers are read with a decimal comma.",)
    header, rows, more = _headed(path, rows, title, separator, decimal, options)
    rows, units = _without_units(path, rows, decimal)
    frame = pd.DataFrame(rows, columns=range(len(header)), dtype=object)
    kept = [j for j, name in enumerate(header) if name.strip() or frame[j].ne("").any()]
    frame = frame[kept]
    frame.columns = unique_names(path.name, [header[j] for j in kept])
    return Found(frame, None, (*said, *more, *units), None, decimal)


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file in its likely encoding, and the assumptions made."""
    raw = path.read_bytes()
    marks = {
        codecs.BOM_UTF8: "utf-8-sig",
        codecs.BOM_UTF32_LE: "utf-32",
        codecs.BOM_UTF16_LE: "utf-16",
        codecs.BOM_UTF16_BE: "utf-16",
    }
    encoding = next((name for mark, name in marks.items() if raw.startswith(mark)), None)
    if encoding is None:
        refuse_signature(path, raw, "text")
        if b"\0" in raw:
            raise ValueError(
                f"{path.name} is not text (it holds zero bytes). Export it as CSV in UTF-8."
            )
    try:
        return raw.decode(encoding or "utf-8"), ()
    except UnicodeDecodeError as error:
        if encoding is not None:
            raise ValueError(
                f"{path.name} is damaged: it begins like {encoding} and is not. Save it as UTF-8."
            ) from error
    if sum(byte < 32 and byte not in b"\t\r\n\f" for byte in raw[:10_000]) > len(raw[:10_000]) / 50:
        raise ValueError(f"{path.name} is not text. Export it as CSV in UTF-8.")
    return raw.decode("latin-1"), (
        f"{path.name} is not UTF-8; read as Latin-1. If names look wrong, save it as UTF-8.",
    )


def _without_comments(text: str) -> tuple[list[str], list[str]]:
    """Return the lines that are neither blank nor comments (# or %), and the comments above the
    table, one of which may be its header. Excel's error values begin with # too.
    """
    lines: list[str] = []
    title: list[str] = []
    for line in io.StringIO(text):
        start = line.lstrip()[:1]
        word = line.strip().partition("\t")[0].partition(",")[0].partition(";")[0].strip('" ')
        if start in ("#", "%") and word.lower() not in MISSING:
            title += [] if lines else [line.lstrip("#% ")]
        elif line.strip():
            lines.append(line)
    return lines, title


def _separator(lines: Sequence[str], options: Options) -> str | None:
    """Return the separator that leaves the most rows of one width with numbers in them; None for
    blanks.
    """
    given = options.separator
    if given is not None:
        return None if given.isspace() and given != "\t" else given
    best, found = (0.0, 0), _NOTHING
    for candidate in SEPARATORS:
        if candidate == "," == options.decimal:
            continue
        rows = _rows(lines, candidate)
        width, count = Counter(map(len, rows)).most_common(1)[0]
        cells = [cell for row in rows[1:] if len(row) == width for cell in row][:CELLS]
        good = sum(is_value(cell, options.decimal) for cell in cells) + 1
        score = round(count / len(rows) * good / (len(cells) + 1), 2)
        if width > 1 and score > best[0]:
            best, found = (score, width), candidate or " "
    alone = [line.strip() for line in lines]
    name, *rest = alone
    # One column: its name holds no mark, or is a number itself, as are all others.
    plain = is_value(name, options.decimal) or not any(mark in name for mark in ";\t,|")
    good = sum(is_value(cell, options.decimal) for cell in rest) / len(rest) if rest else 0
    if plain and good > best[0]:
        return _NOTHING
    return None if found == " " else found


def _rows(lines: Sequence[str], separator: str | None) -> list[list[str]]:
    if separator is None:
        separator, lines = " ", [" ".join(line.split()) + "\n" for line in lines]
    try:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return [line.rstrip("\r\n").split(separator) for line in lines]


def _headed(path: Path, rows: list[list[str]], title, separator, decimal: str, options: Options):
    """Return names, the rows below them, and the assumptions made."""
    first = rows[0]
    headed, sure = _is_header(first, _columns(rows[1:1001], len(first)), decimal)
    said: tuple[str, ...] = ()
    if options.header is not None:
        headed = options.header
    elif not sure:
        listed = ", ".join(first[:5])
        said = (f"{path.name}: its first row, {listed}, is taken for names; --header no if not.",)
    if headed:
        return first, rows[1:], said
    for names in _rows(title, separator):
        if len(names) == len(first) and not any(map(is_value, names)):
            return names, rows, said
    if separator == "," and len(first) == 2 and options.separator is None:
        if all(cell.lstrip("+-").isdecimal() for row in rows for cell in row):
            said += (
                f"{path.name}: read as two columns of whole numbers; if they are one column with "
                "decimal commas, say so with --decimal ,.",
            )
    return [f"x{j}" for j in range(len(first))], rows, said


def _columns(rows: list[list[str]], width: int) -> list[list[str]]:
    return [[row[j] for row in rows] for j in range(width)]


def _is_header(first: list[str], below: list[list[str]], decimal: str) -> tuple[bool, bool]:
    """Return whether a row holds names, and whether that is plain enough to go without a remark.

    Names stand over numbers. Numbers are names where the first is missing and the others whole, as
    pandas writes an index beside columns without names; or where they count from 0 or 1 over
    numbers that all have decimals.
    """
    width, count = len(first), len(below[0])
    words = [j for j in range(width) if not _like_below(first[j], below[j], decimal)]
    if not count:
        return bool(words), True
    over_numbers = any(sum(is_value(c, decimal) for c in below[j]) > count / 2 for j in words)
    if over_numbers or len(words) == width:
        return True, True
    whole = {cell for cell in first if cell.lstrip("-").isdecimal()}
    if len(whole) == width - 1 > 0 and not first[0]:
        return True, True
    counted = (list(map(str, range(start, start + width))) for start in (0, 1))
    headed = width > 1 and first in counted and all(
        decimal in cell for column in below for cell in column if not is_missing(cell)
    )  # fmt: skip
    return headed, not headed


def _like_below(cell: str, below: list[str], decimal: str) -> bool:
    """Return whether a cell is a value, or is written like the one below it: 45% over 47%."""
    if is_value(cell, decimal) or not below or not any(map(str.isdigit, cell)):
        return is_value(cell, decimal)
    shape, other = (re.sub(r"[\d.,+\- ]", "", text) for text in (cell, below[0]))
    return shape == other and 0 < len(shape) < 6


def _without_units(path: Path, rows: list[list[str]], decimal: str):
    """Return the rows below a row of units, if there is one: words above numbers, and no number in
    it.
    """
    if len(rows) < 3:
        return rows, ()
    first, below = rows[0], _columns(rows[1:LOOKED_AT], len(rows[0]))
    numbers = any(
        to_float(cell) is not None or COMMA_NUMBER.fullmatch(cell) or cell.startswith(("<", ">"))
        for cell in first
    )
    units = not numbers and any(
        not is_value(cell, decimal) and all(is_value(c, decimal) for c in below[j])
        for j, cell in enumerate(first)
    )
    listed = ", ".join(cell for cell in first if cell)[:60]
    return (rows[1:], (f"{path.name}: a row of units ({listed}) is left out.",)) if units else (
        rows, ())  # fmt: skip
