"""Tables in text and spreadsheets: separators, the beginning of the table, and its names."""

import codecs
import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._files import check_size, opened, read_member
from . import _cells
from ._cells import (
    check_there,
    clean_name,
    decimal_mark,
    is_missing,
    is_value,
    listed_names,
    points_separate_thousands,
    text_of,
    to_float,
)
from ._dates import YEARS, is_date, month_of, words_of
from ._formats import TIME_NAMES, Found, Options, blamed_on, check_width, refuse_signature, unpacked

Rows = Sequence[Sequence[str]]
LATIN = "it is not UTF-8; read as Latin-1. If names look wrong, save it as UTF-8."
# Separators in order of preference; None is whitespace.
SEPARATORS = (";", "\t", ",", "|", None)
# Byte-order marks and their encodings.
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
# Number of cells that a sheet may span per cell that it holds, and in any case.
SPARSE, SPAN = 50, 2_000_000
_YEAR = re.compile(r"(1[5-9]|2[01])\d\d")
# Separator of single-column files: a character that no text holds.
_NOTHING = "\x1f"
# Lines that begin like comments. Excel's error values also begin with #, and cells with semicolons.
_COMMENT = re.compile(r"\s*(#|%|!|//|;\s[^;]*$)")
# Maximum number of lines and cells examined to detect the format.
LOOKED_AT, CELLS = 200, 10_000
# Longest title above a table and longest note below it, in lines.
TITLE, NOTE = 100, 20


def read_text(path: Path, options: Options) -> Found:
    """Return the rows of a text file, with any separator."""
    text, said = _decoded(path)
    spaced, title = _without_comments(text)
    lines = [line for line in spaced if line.strip()]
    if lines and (given := re.fullmatch(r"sep=(.)\s*", lines[0])):
        lines, spaced = lines[1:], spaced[1:]
        options = options._replace(separator=options.separator or given[1])
    if not lines:
        raise ValueError(f"{path.name} holds no data.")
    # Counted before splitting, because a million cells take long.
    check_width(path, max(lines[0].count(m) for m in ";\t,| ") + 1, len(lines), options)
    separator = _separator(lines[:LOOKED_AT], options)
    if separator == "|" and all(line.strip()[:1] == "|" for line in lines):
        lines = spaced = [line.strip().strip("|") for line in lines]
    rows = _rows(lines, separator)
    if max(map(len, rows)) == 1:
        rows = _with_empty(_rows(spaced, separator))
    if "\n" in rows[-1][-1] and text.count('"') % 2:
        raise ValueError(f"{path.name} is not a table of numbers: a quotation mark is not closed.")
    # In a commented header, the names begin above the first column.
    end = len(lines[0]) - len(lines[0].lstrip().partition(" ")[2])
    marks = [line[: len(line) - len(line.lstrip("#%!/; "))] for line in title]
    pairs = zip(title, marks, strict=True)
    title = [line[len(mark) :] for line, mark in pairs if separator or len(mark) < end]
    comments = [[cell.strip() for cell in row] for row in _rows(title, separator)]
    try:
        return parse_table(path, rows, comments, separator, options, said)
    except ValueError:
        aligned = _aligned(lines) if separator is options.separator is None else None
        if aligned is None:
            raise
        with contextlib.suppress(ValueError):
            return parse_table(path, aligned, comments, "", options, said)
        raise


def _aligned(lines: list[str]) -> list[list[str]] | None:
    """Return the cells of fixed-width columns, some of them empty; None if whitespace separates a
    different number of columns.
    """
    import pandas as pd

    text = io.StringIO("".join(lines))
    frame = pd.read_fwf(text, header=None, dtype=str, keep_default_na=False)
    width = Counter(len(line.split()) for line in lines).most_common(1)[0][0]
    return frame.to_numpy().tolist() if frame.shape[1] == width else None


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file in its likely encoding, and the assumptions made."""
    raw = unpacked(path)
    encoding = next((name for mark, name in BOMS.items() if raw.startswith(mark)), "")
    zeros = [raw[k:2000:2].count(0) for k in (0, 1)]  # of UTF-16, one in two bytes of plain text
    if not encoding and max(zeros) > 8 * min(zeros) + len(raw[:2000]) / 4:
        encoding = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    if not encoding:
        refuse_signature(path, raw, "text")
    try:
        text, said = raw.decode(encoding or "utf-8"), ()
    except UnicodeDecodeError as error:
        if encoding:
            text = f"damaged: it begins like {encoding} but is not. Save it as UTF-8."
            raise ValueError(f"{path.name} is {text}") from error
        text, said = raw.decode("latin-1"), (LATIN,)
    controls = sum(byte < 32 and byte not in b"\t\r\n\f" for byte in raw[:10_000])
    if not encoding and (b"\0" in raw or (said and controls > len(raw[:10_000]) / 50)):
        text = "not text: it holds bytes that no text has. Export it as CSV in UTF-8."
        raise ValueError(f"{path.name} is {text}")
    return text, said


def _without_comments(text: str) -> tuple[list[str], list[str]]:
    """Return the lines that are not comments, without blank ones at the ends, and the comments
    above the table, one of which may be its header.
    """
    lines: list[str] = []
    title: list[str] = []
    for line in io.StringIO(text, newline=None):
        above = (line for line in reversed(lines) if line.strip())
        if _COMMENT.match(line) and (line in title or not _is_row(line, next(above, ""))):
            title += [] if lines else [line]
        elif lines or line.strip():
            lines.append(line if line.strip() else "\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines, title


def _is_row(line: str, above: str) -> bool:
    """Return whether a line that begins like a comment is a row: its first cell is a mark for
    missing values, or is one word and there are as many cells as in the line above.
    """
    if re.split(r"[\t,;]", line.strip())[0].strip('" ').lower() in _cells.MISSING:
        return True
    mark = next((mark for mark in ";\t|," if mark in above), None)
    if mark is None or line.count(mark) != above.count(mark):
        return False
    return len(line.partition(mark)[0].split()) == 1


def _with_empty(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows of a single column, in which blank lines between values are empty cells.
    Blank lines above the first value are not, nor are they in double-spaced files.
    """
    first = next((k for k, row in enumerate(rows) if any(row) and is_value(row[0])), 0)
    spacing = not any(a and b for a, b in itertools.pairwise(rows[first:]))
    return [row or [""] for k, row in enumerate(rows) if row or (k > first and not spacing)]


def _separator(lines: Sequence[str], options: Options) -> str | None:
    """Return the separator that gives the most rows of one width with values in them; None for
    whitespace.
    """
    given = options.separator
    if given is not None:
        return None if given.isspace() and given != "\t" else given
    name = lines[0].strip()
    # A single column has a name without separators, or a number in its first row.
    plain = is_value(name, options.decimal) or not any(mark in name for mark in ";\t,|")
    scores: dict[str | None, float] = {}
    tabs = False
    for candidate in (*SEPARATORS, *[_NOTHING] * plain):
        rows = _rows(lines, candidate)
        width, count = Counter(map(len, rows)).most_common(1)[0]
        cells = [cell for row in rows[1:] if len(row) == width for cell in row][:CELLS]
        good = sum(is_value(cell, options.decimal) for cell in cells) + 1
        if (width > 1 or candidate == _NOTHING) and not candidate == "," == options.decimal:
            scores[candidate] = round(count / len(rows) * good / (len(cells) + 1), 2)
        if candidate == "\t":
            tabs = width > 1 and 2 * count > len(rows) and not any(map(_spaced, cells))
    # With tabs, spaces do not separate cells but words, or a date and the time of day.
    if tabs:
        scores.pop(None, None)
    return max(scores, key=scores.__getitem__, default=_NOTHING)


def _spaced(cell: str) -> bool:
    """Return whether a cell holds several numbers separated by spaces."""
    parts = cell.split()
    return len(parts) > 1 and all(to_float(part) is not None for part in parts)


def _rows(lines: Sequence[str], separator: str | None) -> list[list[str]]:
    if separator is None:
        separator, lines = " ", [" ".join(line.split()) + "\n" for line in lines]
    try:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return [line.rstrip("\r\n").split(separator) for line in lines]


# ---- the table among the rows ----


def parse_table(
    path: Path, rows: Rows, comments: Rows, separator: str | None, options: Options, said: Any = ()
) -> Found:
    """Return the contents of text rows: find the table, its names, the units below them, and the
    decimal mark.

    The table begins below the last row that has only words where the other rows have values.
    """
    import pandas as pd

    lines = [[_bare(cell) for cell in row] for row in rows]
    wide = [row for row in lines if len(row) > 1] or lines
    width = Counter(map(len, wide)).most_common(1)[0][0]
    cells = [cell for row in wide[:1000] for cell in row if cell]
    decimal = options.decimal or decimal_mark(cells, separator or "")
    # The first row can hold names that are numbers.
    thousands = decimal == "." != options.decimal and points_separate_thousands(wide[1:])
    decimal = "," if thousands else decimal
    full = [row for row in wide if len(row) == width]
    hint = HINTS.get(separator, "") if options.separator is None else ""
    look = _Look(path.name, hint, full[: max(CELLS // width, 20)], decimal)
    foot = _foot(lines, look) if width > 1 else 0
    notes, lines = lines[len(lines) - foot :], lines[: len(lines) - foot]
    start, heads = _begin(lines, look, options.header is not False)
    names = max(heads, key=lambda row: (len({*row} - {""}), len(look.words(row))), default=[])
    units = heads[heads.index(names) + 1 :] if heads else []
    above = start - len(units) - bool(names)
    if not heads:
        names = next((row for row in comments if len(row) == width == len(look.words(row))), [])
    body, repeated = _body(lines, start, look, heads)
    sure, guessed = options.header or _are_names(body, look), ""
    if options.header is not False and not names and body and (sure or _may_be_names(body, look)):
        names, body = body[0], body[1:]
        guessed = "" if sure else ", ".join(names[:5])
    ambiguous = separator == "," and width == 2 and not names and options.separator is None
    cells = ", ".join(cell for row in units for cell in row if cell)
    assumed = {
        "points in its numbers separate thousands; if not, use --decimal .": thousands,
        "numbers are read with a decimal comma.": decimal == ","
        and not (thousands or options.decimal),
        f"its last {foot} lines are read as a note.": foot,
        f"its first {above} lines are read as a title.": above,
        "its last column has no name: the header may be one name short.": names
        and not names[-1]
        and any(row[-1] for row in body),
        f"a row of units ({cells[:60]}) is left out.": units,
        "rows that repeat its header are left out.": repeated,
        f"its first row, {guessed}, is read as names; if not, use --header no.": guessed,
        "read as two columns of whole numbers; if they are one column with decimal commas, use "
        "--decimal ,.": ambiguous and all(map(_is_whole, itertools.chain(*body))),
    }
    said += tuple(text for text, holds in assumed.items() if holds)
    for reshaped in (_long_months, _transposed):
        if not options.columns and (other := reshaped(path, names, body)):
            names, body, more = other
            said += more
    frame = pd.DataFrame(body, columns=range(len(names or body[0])), dtype=object)
    kept = [j for j in frame if (names and names[j]) or frame[j].ne("").any()]
    frame, names = frame[kept], [names[j] if names else f"x{j}" for j in kept]
    frame.columns, more = _distinct_names(names, [[row[j] for j in kept] for row in units])
    # A single number below a table, before a note, is often its code for missing values.
    codes = [row[0] for row in notes if len(row) == 1 and to_float(row[0]) is not None]
    return Found(frame, None, None, said + more, decimal, tuple(codes))


# Likely causes of rows that differ in length, by separator.
HINTS = {
    ",": " If commas are decimal commas, use --decimal ,.",
    None: " Spaces separate its cells: write NA where one is empty, or put commas between them.",
}


def _bare(cell: str) -> str:
    """Return a cell without surrounding whitespace and single quotes."""
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 2 and cell[0] == cell[-1] == "'" else cell


class _Look:
    """The columns of a table in which most cells are values, judged from some of its rows."""

    def __init__(self, name: str, hint: str, rows: Rows, decimal: str):
        self.name, self.hint, self.decimal, self.width = name, hint, decimal, len(rows[0])
        self.columns = []
        for j, column in enumerate(zip(*rows, strict=True)):
            cells = [cell for cell in column if not is_missing(cell)]
            values = sum(is_value(cell, decimal) for cell in cells)
            if 20 * len(cells) > len(rows) and 2 * values >= len(cells):
                self.columns.append(j)
        # In a dated table, a row without its date is not a sample; without numbers it is a gap.
        self.dated = sum(is_date(row[0]) for row in rows) > len(rows) / 2

    def words(self, row: Sequence[str]) -> set[str]:
        """Return the cells of a row that are not values."""
        return {cell for cell in row if cell and not is_value(cell, self.decimal)}

    def counts(self, row: Sequence[str]) -> tuple[int, int]:
        """Return the number of values and of words in the columns where other rows have values."""
        cells = [row[j] for j in self.columns if not is_missing(row[j])]
        values = sum(is_value(cell, self.decimal) for cell in cells)
        return values, len(cells) - values


def _foot(lines: Sequence[list[str]], look: _Look) -> int:
    """Return the number of lines below the table, which are words or empty."""
    foot, words = 0, False
    for row in reversed(lines[2:][-NOTE:]):
        values, others = look.counts(row) if len(row) == look.width else (0, 1)
        if any(row) and (values or not others):
            break
        words |= any(map(str.isalpha, "".join(row)))
        foot += 1
    return foot if words else 0


def _begin(lines, look: _Look, named: bool) -> tuple[int, list[list[str]]]:
    """Return the line at which the table begins, and the rows directly above it with a word for
    each column.

    **Raises:** `ValueError` if there are more or fewer words than columns.
    """
    heads: list[list[str]] = []
    start = 0
    for place, line in enumerate(lines[: TITLE + 1]):
        row = _fitted(line, lines[place + 1 :], look.width)
        values, words = look.counts(row) if row else (0, 0)
        words = words or (not look.columns and place == 0)
        if (values and not words) or (heads and row == [""]):
            break
        # Numbers may be names if a word stands above the dates: day, 5 m, 10 m.
        mixed = 0 in look.columns and row[:1] and look.words(row[:1]) and len(set(row)) == len(row)
        if named and words and (not values or (mixed and all(row))):
            heads = [*heads, row] if start == place else [row]
            start = place + 1
    else:
        return start, heads
    if heads and not any(look.words(row) < set(filter(None, row)) for row in lines[start:place]):
        start = place  # the remaining rows are words, a few units
    if start < place and not heads:
        other = lines[place - 1]
        if len(other) > 1 and len(look.words(other)) == len(other):
            text = f"{len(other)} names for the {look.width} columns below it.{look.hint}"
            raise ValueError(f"{look.name}: row {place} has {text}")
        start = place
    return start, heads


def _fitted(row: list[str], below: Sequence[list[str]], width: int) -> list[str]:
    """Return a row at the width of the table; a header may be one name short. Otherwise empty."""
    if len(row) >= width and not any(row[width:]):
        return row[:width]
    if len(row) == width - 1 and width > 2 and row[0]:
        # R writes no name above row names; or all other rows end with a comma; or the first name
        # stands above dates.
        others = [other for other in below[:1000] if len(other) == width]
        named = any(other[-1] for other in others)
        named = named and not (words_of(row[0]) & TIME_NAMES and all(is_date(o[0]) for o in others))
        return ["", *row] if named else [*row, ""]
    return []


def _body(lines, start: int, look: _Look, heads) -> tuple[list[list[str]], int]:
    """Return the rows of the table, and the number of omitted rows that repeat its header."""
    body: list[list[str]] = []
    repeated = 0
    for number, row in enumerate(lines[start:], start=start + 1):
        if row in heads:
            repeated += 1
        elif len(row) < look.width or any(row[look.width :]):
            text = f"{look.width} columns, as in most rows; row {number} has {len(row)}"
            raise ValueError(f"{look.name}: expected {text}.{look.hint}")
        elif any(map(str.strip, row, ["-=: "] * len(row))) or not _is_rule(row, look, not body):
            body.append(row[: look.width])
    return body, repeated


def _is_rule(row: Sequence[str], look: _Look, first: bool) -> bool:
    """Return whether a row of marks is a rule and not a sample. In a single column, "", - and --
    are missing values, except right below the header.
    """
    return bool(row[0]) and (first or len(row[0]) > 3) if look.width == 1 else look.dated


def _is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdecimal()


def _are_names(body: list[list[str]], look: _Look) -> bool:
    """Return whether the first row, which holds numbers, is certainly one of names.

    Its cells are dates or years in equal steps; or its first cell is a word above values; or the
    first cell is empty and the others are different whole numbers, as pandas writes unnamed
    columns with an index.
    """
    if len(body) < 2:
        return False
    first, below = body[0], body[1]
    times = [first[j] for j in look.columns if is_date(first[j]) or _YEAR.fullmatch(first[j])]
    if len(times) == len(look.columns) > 3 and not is_date(below[look.columns[0]]):
        if all(map(is_date, times)) or not np.diff(np.array(times, int), 2).any():
            return True
    if first[0] and 0 in look.columns and not is_value(first[0], look.decimal):
        return True
    whole = set(filter(_is_whole, first))
    return len(whole) == len(first) - 1 > 0 and not first[0]


def _may_be_names(body: list[list[str]], look: _Look) -> bool:
    """Return whether the first row may hold names: it counts from 0 or 1 above numbers that all
    have decimals.
    """
    width, below = len(body[0]), body[1:1001]
    counted = [[str(start + j) for j in range(width)] for start in (0, 1)]
    return bool(below) and width > 1 and body[0] in counted and all(
        look.decimal in cell for row in below for cell in row if not is_missing(cell)
    )  # fmt: skip


def _distinct_names(names: list[str], units: list[list[str]]) -> tuple[list[str], tuple[str, ...]]:
    """Return distinct names: equal ones are extended by the cells below them, or numbered."""
    names = [clean_name(name) or f"column {j + 1}" * (j > 0) for j, name in enumerate(names)]
    twice = {name for name in names if names.count(name) > 1}
    for row in units:
        pairs = zip(names, row, strict=True)
        longer = [f"{a} {clean_name(b)}" if a in twice else a for a, b in pairs]
        if len(set(longer)) == len(names):
            names = longer
            break
    counts = [names[:k].count(name) for k, name in enumerate(names)]
    pairs = zip(names, counts, strict=True)
    found = [f"{name}.{count}" if count else name for name, count in pairs]
    told = [name for name, old in zip(found, names, strict=True) if old in twice or name != old]
    said = f"columns of the same name are renamed: {listed_names(told)}."
    return found, (said,) if twice else ()


def _long_months(path: Path, names: list[str], body: list[list[str]]):
    """Return a table with rows of years and columns of months as one series; None for others."""
    width = len(body[0]) if body else 0
    months = list(map(month_of, names)) if names else [0.0, *range(1, 13)] * (width == 13)
    if not any(months[k : k + 12] == [*range(1, 13)] for k in range(1, 4)):
        return None
    first = months.index(1.0)
    years = np.array([to_float(row[first - 1]) or np.nan for row in body])
    sure = len(body) > 2 and bool((np.diff(years) == 1).all())
    if names:
        sure = not names[first].isdigit() or bool(words_of(names[first - 1]) & YEARS)
    if not sure or not ((years > 1000) & (years < 3000) & (years % 1 == 0)).all():
        return None
    keys = names[: first - 1]
    long = [
        [f"{year:.0f}-{month:02d}", *row[: first - 1], row[first + month - 1]]
        for year, row in zip(years, body, strict=True) for month in range(1, 13)
    ]  # fmt: skip
    gone = ", ".join(names[first + 12 :])
    others = f"; the others ({gone}) are left out" if gone else ""
    said = f"its twelve columns are months and are read as one series{others}."
    return ["date", *keys, clean_name(path.name.partition(".")[0])], long, (said,)


def _transposed(path: Path, names: list[str], body: list[list[str]]):
    """Return the transpose of a table whose columns are times and whose rows are variables; None
    for others.
    """
    dated = [j for j, name in enumerate(names) if is_date(name) or _YEAR.fullmatch(name)]
    first = dated[0] if dated else 0
    if len(dated) < 4 or dated != list(range(first, first + len(dated))) or not first:
        return None
    words = [[row[j] for row in body] for j in range(first)]
    if any(to_float(cell) is not None or is_date(cell) for column in words for cell in column):
        return None
    alone = [column for column in words if len(set(column)) == len(column)]
    labels = alone[0] if alone else [" ".join(row[:first]) for row in body]
    rows = [[names[j], *(row[j] for row in body)] for j in dated]
    clock = "year" if all(_YEAR.fullmatch(names[j]) for j in dated) else "date"
    return [clock, *labels], rows, ("its rows are variables, its columns times: it is transposed.",)


# ---- spreadsheets ----


def read_excel(path: Path, options: Options) -> Found:
    """Return the first sheet of a workbook, or the one that `key` names."""
    with blamed_on(path, "an Excel workbook", "Export the spreadsheet as CSV (.csv)."):
        import pandas as pd

        _check_workbook(path)
        with pd.ExcelFile(path, engine="openpyxl") as book:
            names = list(map(str, book.sheet_names))
            place = names.index(options.key) if options.key in names else 0
            sheet = pd.read_excel(book, place, header=None, dtype=object, na_filter=False)
    check_there(path.name, [options.key or names[0]], names, "sheet")
    texts = [cell for cell in sheet.to_numpy().ravel() if isinstance(cell, str)]
    mark = options.decimal or decimal_mark(texts[:10_000], ";")
    # Spreadsheets store numbers separately from texts, which use the decimal mark of the sheet.
    written = sheet.map(lambda c: text_of(c).replace(".", mark if isinstance(c, float) else "."))
    rows = [row for row in written.to_numpy().tolist() if any(row)]
    others = (
        f"its first sheet, {names[0]!r}, is read; --key names another: {listed_names(names[1:])}."
    )
    said = () if options.key or len(names) == 1 else (others,)
    if not rows:
        raise ValueError(f"{path.name} holds no data{': ' + others if said else '.'}")
    check_width(path, len(rows[0]), len(rows), options)
    found = parse_table(path, rows, [], ";", options._replace(decimal=mark))
    return found._replace(said=(*said, *found.said))


_REFERENCE = re.compile(rb"""[\s:]r\s*=\s*["']([^"']*)["']""")


def _check_workbook(path: Path) -> None:
    """Raise an error for a workbook that unpacks to too much, defines entities, or spans too many
    cells.
    """
    with opened(path, path.name) as book:
        parts = book.infolist()
        packed = sum(part.compress_size for part in parts)
        check_size(path.name, sum(part.file_size for part in parts), packed)
        for name in (n for n in book.namelist() if n.endswith((".xml", ".rels"))):
            content = read_member(book, name, path.name)
            if b"\0" in content or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                text = f"{name} is not UTF-8 or defines entities, which no spreadsheet does"
                raise ValueError(f"{path.name} is refused: {text}.")
            if name.startswith("xl/worksheets/"):
                _check_span(path, _REFERENCE.findall(content))


def _check_span(path: Path, references: list[bytes]) -> None:
    """Raise an error for cells placed so far out that the rows and columns up to them would fill
    memory.
    """
    from openpyxl.utils.cell import coordinate_to_tuple

    width = height = 0
    for reference in references:
        text = reference.decode("latin-1")
        try:
            row, column = coordinate_to_tuple(f"A{text}" if reference.isdigit() else text)
        except (ValueError, UnboundLocalError) as error:  # the second for no text at all
            raise ValueError(f"{path.name} names a cell {text[:20]!r}.") from error
        width, height = max(width, column), max(height, row)
    if width * height > SPAN + SPARSE * len(references):
        text = f"{height} rows of {width} columns and has {len(references)} cells"
        raise ValueError(f"{path.name} spans {text}.")
