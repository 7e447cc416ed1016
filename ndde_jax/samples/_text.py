"""Text files: the format is found by trying readings and keeping the one that yields numbers."""

import codecs
import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    rows, widths = _cut(path, lines, separator, options)
    most = Counter(widths).most_common(1)[0][0]
    foot = 0
    while most > 1 and foot < 5 and widths[-1 - foot] == 1 and foot < len(widths) - 2:
        foot += 1
    if foot and to_float(rows.iloc[-foot, 0]) is None:
        said += (f"{path.name}: its last {foot} lines are taken for a note.",)
        rows, widths = rows.iloc[: len(rows) - foot], widths[: len(widths) - foot]
    other = [i for i, n in enumerate(widths[: TITLE + 1]) if n != most]
    start = other[-1] + 1 if other and most > 1 else 0
    bare = start == 1 and widths[0] == most - 1  # a header one name short
    if bare and rows.iloc[1:, most - 1].str.strip().any():
        rows.iloc[0] = ["", *rows.iloc[0, : most - 1]]  # R gives its row names none
    if bare:  # or there is a comma at the end of every other row
        start, widths[0] = 0, most
    elif 0 < start <= min(TITLE, len(rows) - start) and not any(
        to_float(cell) is not None
        for cells, n in zip(rows.iloc[:start].to_numpy(), widths, strict=False)
        for cell in cells[: n if n == most else 0]
    ):
        said += (f"{path.name}: its first {start} lines are taken for a title.",)
    else:
        start = 0
    _check_ragged(path, widths, start, separator, options)
    return found_in(path, rows.iloc[start:].map(str.strip), title, separator, options, said)


def found_in(
    path: Path, rows: Any, title: list[str], separator: str | None, options: Options, said=()
) -> Found:
    """Return the contents of text rows: names, units below them, numbers with either decimal
    mark.
    """
    rows.columns = range(rows.shape[1])
    decimal = options.decimal or decimal_mark(
        [cell for cell in rows.iloc[:1000].to_numpy().ravel() if cell], separator or ""
    )
    if decimal == "," and options.decimal is None:
        said += (f"{path.name}: numbers are read with a decimal comma.",)
    header, rows, more = _headed(path, rows, title, separator, decimal, options)
    rows, units = _without_units(path, rows, decimal)
    kept = [j for j, name in enumerate(header) if name.strip() or rows[j].ne("").any()]
    frame = rows[kept].reset_index(drop=True)
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
        return [line.split() for line in lines]
    try:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return [line.rstrip("\r\n").split(separator) for line in lines]


def _cut(path: Path, lines: list[str], separator: str | None, options: Options):
    """Return cells as texts `[row column]`, and the number of cells of each row."""
    import pandas as pd

    quoted = any('"' in line for line in lines)
    if separator is None or quoted:
        widths = [len(row) for row in _rows(lines, separator)]
    else:
        widths = [line.count(separator) + 1 for line in lines]
    most = max(widths)
    if most * len(widths) > 4 * sum(widths) + 10_000:
        _check_ragged(path, widths, 0, separator, options)
    try:
        rows = pd.read_csv(
            io.StringIO("".join(lines)),
            sep=r"\s+" if separator is None else separator,
            header=None,
            names=range(most),
            index_col=False,
            dtype=object,
            na_filter=False,
            skipinitialspace=True,
        )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, ValueError) as error:
        raise ValueError(f"{path.name} is no table of numbers: {error}.") from error
    return rows, widths[: len(rows)]


def _check_ragged(path: Path, widths, start: int, separator: str | None, options: Options) -> None:
    """Raise an error for rows of different widths, and name the first."""
    expected = widths[start]
    for number, width in enumerate(widths[start:], start=start + 1):
        if width != expected:
            hint = " If commas are decimal commas, say so with --decimal ,." * (
                separator == "," and options.separator is None
            )
            raise ValueError(
                f"{path.name}: expected {expected} columns, as in the first row; row {number} "
                f"has {width}.{hint}"
            )


def _headed(path: Path, rows: Any, title: list[str], separator, decimal: str, options: Options):
    """Return names, the rows below them, and the assumptions made."""
    first, body = list(rows.iloc[0]), rows.iloc[1:]
    numbered = [f"x{j}" for j in range(len(first))]
    headed, sure = _is_header(first, body.iloc[:1000], decimal)
    said: tuple[str, ...] = ()
    if options.header is not None:
        headed = options.header
    elif not sure:
        listed = ", ".join(first[:5])
        said = (f"{path.name}: its first row, {listed}, is taken for names; --header no if not.",)
    if headed:
        return first, body, said
    for names in _rows(title, separator):
        if len(names) == len(first) and not any(is_value(name) for name in names):
            return names, rows, said
    if separator == "," and len(first) == 2 and options.separator is None:
        whole = rows.map(lambda cell: cell.lstrip("+-").isdecimal())
        if whole.all(axis=None):
            said += (
                f"{path.name}: read as two columns of whole numbers; if they are one column with "
                "decimal commas, say so with --decimal ,.",
            )
    return numbered, rows, said


def _is_header(first: list[str], body: Any, decimal: str) -> tuple[bool, bool]:
    """Return whether a row holds names, and whether that is plain enough to go without a remark.

    Names stand over numbers. Numbers are names where the first is missing and the others whole, as
    pandas writes an index beside columns without names; or where they count from 0 or 1 over
    numbers that all have decimals.
    """
    words = [j for j, cell in enumerate(first) if not _like_below(cell, body, j, decimal)]
    if not len(body):
        return bool(words), True
    over_numbers = any(
        sum(is_value(below, decimal) for below in body[j]) > len(body) / 2 for j in words
    )
    if over_numbers or len(words) == len(first):
        return True, True
    whole = [cell for cell in first if cell.lstrip("-").isdecimal()]
    if len(set(whole)) == len(whole) == len(first) - 1 and not first[0] and len(first) > 1:
        return True, True
    count = [str(k) for k in range(len(first))], [str(k + 1) for k in range(len(first))]
    if first in count and len(first) > 1:
        mark = "," if decimal == "," else "."
        decimals = all(mark in cell for j in body for cell in body[j] if not is_missing(cell))
        return decimals, not decimals
    return False, True


def _like_below(cell: str, body: Any, j: int, decimal: str) -> bool:
    """Return whether a cell is a value, or is written like the one below it: 45% over 47%."""
    if is_value(cell, decimal):
        return True
    if not len(body) or not any(letter.isdigit() for letter in cell):
        return False

    def shape(text: str) -> str:
        return "".join(letter for letter in text if not (letter.isdigit() or letter in ".,+- "))

    return shape(cell) == shape(body[j].iloc[0]) != "" and len(shape(cell)) < 6


def _without_units(path: Path, rows: Any, decimal: str):
    """Return the rows below a row of units, if there is one: words above numbers, and no number in
    it.
    """
    if len(rows) < 3:
        return rows, ()
    first, body = list(rows.iloc[0]), rows.iloc[1:LOOKED_AT]
    words = [j for j, cell in enumerate(first) if not is_value(cell, decimal)]
    numbers = any(
        to_float(cell) is not None or COMMA_NUMBER.fullmatch(cell) or cell[:1] in tuple("<>")
        for cell in first
    )
    over = [j for j in words if all(is_value(cell, decimal) for cell in body[j])]
    if numbers or not over:
        return rows, ()
    listed = ", ".join(cell for cell in first if cell)
    return rows.iloc[1:], (f"{path.name}: a row of units ({listed[:60]}) is left out.",)
