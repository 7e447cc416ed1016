"""Tables from other programs: NumPy archives, Excel, Parquet, Feather, JSON, NetCDF, Zarr.

What a file announces is checked before anything is unpacked; pandas and xarray read it then.
"""

import codecs
import csv
import io
import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files import check_size, opened, read_array, read_member
from ._cells import (
    COMMA_NUMBER,
    MISSING,
    check_there,
    clean_name,
    decimal_mark,
    is_missing,
    is_value,
    text_of,
    to_float,
)

TRIAL_NAMES = set(
    "trial series run realization realisation ensemble member recording system".split()
)
TIME_NAMES = set("t time date datetime timestamp month year day times dates".split())
# More columns than this, and than rows, are variables and samples the wrong way round.
WIDE = 2_000
# What other files begin with that end up under the wrong name.
SIGNATURES = {
    b"PK": "a zip archive or an Excel workbook; give a workbook a name that ends with .xlsx",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the sheet as CSV",
    b"\x93NUMPY": "a single NumPy array (.npy); save it with np.savez(path, x=array)",
    b"\x89HDF": "an HDF5 or NetCDF file; give it a name that ends with .nc",
    b"CDF": "a NetCDF file; give it a name that ends with .nc",
    b"PAR1": "a Parquet file; give it a name that ends with .parquet",
    b"ARROW1": "a Feather file; give it a name that ends with .feather",
    b"\x1f\x8b": "compressed with gzip; unpack it",
}
# Cells that a sheet may span for each that it holds, and for nothing.
SPARSE, SPAN = 50, 2_000_000
# Marks between cells, in the order in which they are believed; None are blanks.
SEPARATORS = (";", "\t", ",", "|", None)
# The marks with which texts begin that are not plain UTF-8.
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
LATIN = "it is not UTF-8; read as Latin-1. If names look wrong, save it as UTF-8."
# What no text holds stands between the cells of a single column.
_NOTHING = "\x1f"
# Lines and cells that are looked at to tell what was meant.
LOOKED_AT, CELLS = 200, 10_000
# Longest title above a table, in lines.
TITLE = 100


class Options(NamedTuple):
    """Options for reading a file, which `read_table` explains; None leaves a choice to the file."""

    columns: Sequence[str] | None = None
    time_column: str | None = None
    key: str | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    missing: Sequence[str] = ()
    day_first: bool | None = None
    time_zone: str | None = None
    trial: str | None = None
    variables: Sequence[str] = ()
    only: Sequence[tuple[str, tuple[str, ...]]] = ()
    months: Sequence[int] = ()
    kept: Sequence[str] = ()


class Found(NamedTuple):
    """The contents of a file as a pandas frame; `trials` numbers the recordings, one per row, where
    there are several.
    """

    frame: Any
    dt: float | None = None
    said: tuple[str, ...] = ()
    trials: np.ndarray | None = None
    decimal: str = "."


def refuse_signature(path: Path, raw: bytes, expected: str) -> None:
    """Raise an error for a file whose first bytes are those of another format, and name that
    format.
    """
    for start, what in SIGNATURES.items():
        if raw.startswith(start):
            raise ValueError(f"{path.name} is not {expected} but {what}.")


def unique_names(file: str, names: Sequence[Any]) -> list[str]:
    """Return printable names; raise an error if two columns share one."""
    names = [clean_name(name) for name in names]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{file} has two columns of the same name, {twice!r}. Rename one.")
    return names


def check_width(path: Path, n_columns: int, n_rows: int, options: Options) -> None:
    """Raise an error for a table that seems to be transposed."""
    if n_columns > WIDE and n_columns > n_rows and not options.columns:
        raise ValueError(
            f"{path.name} has {n_columns} columns and only {n_rows} rows: rows are samples and "
            "columns are variables, so it may have to be transposed. Otherwise choose some with "
            "--columns."
        )


@contextmanager
def _blamed_on(path: Path, kind: str, remedy: str = "") -> Iterator[None]:
    """Blame on a file whatever a reader raises, in one line.

    **Raises:** `ValueError` that names the file; `ImportError` for a library that is not there.
    """
    try:
        yield
    except ImportError as error:
        needed = (error.name or str(error)).partition(".")[0]
        raise ImportError(
            f"Reading {path.suffix} files needs {needed}: pip install 'ndde_jax[data]'."
        ) from error
    except Exception as error:  # readers raise what they stumble over
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(".")
        if not (isinstance(error, ValueError) and path.name in text):
            text = f"{path.name} cannot be read as {kind}: {text}"
        raise ValueError(f"{text}.{remedy and ' ' + remedy}") from error


def _frame_of(path: Path, x: np.ndarray, names: Any, key: str, options: Options):
    """Return a frame from an array `[time dim]`, or `[series time dim]` with the series of each
    row.
    """
    import pandas as pd

    what, trials = f"{path.name}[{key!r}]", None
    if x.ndim == 3 and 0 not in x.shape:
        trials = np.repeat(np.arange(len(x)), x.shape[1])
        x = x.reshape(-1, x.shape[2])
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2:
        raise ValueError(f"Expected {what} of shape [time dim]; got {x.shape}.")
    if x.dtype.kind not in "fiubUSO":
        raise ValueError(f"{what} must hold real numbers; got dtype {x.dtype}.")
    check_width(path, x.shape[1], x.shape[0], options)
    names = [f"x{i}" for i in range(x.shape[1])] if names is None else list(names)
    if len(names) != x.shape[1]:
        raise ValueError(f"{what} has {x.shape[1]} columns, and {path.name} {len(names)} names.")
    return pd.DataFrame(x, columns=unique_names(path.name, names)), trials


# ---- archives ----


def read_npz(path: Path, options: Options) -> Found:
    """Return the one array `[time dim]` of an NPZ, with its `names` and `dt`; unpack nothing
    else.
    """
    with path.open("rb") as raw:
        start = raw.read(8)
    if not start:
        raise ValueError(f"{path.name} is empty.")
    if not start.startswith(b"PK"):
        refuse_signature(path, start, "an NPZ archive")
        raise ValueError(f"{path.name} is not an NPZ archive; np.savez(path, x=array) makes one.")
    with opened(path, path.name) as archive:
        members = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        if not members:
            raise ValueError(f"{path.name} holds no array of numbers.")
        key = options.key or (members[0] if len(members) == 1 else "x")
        check_there(path.name, [key], members, "array", " Name one with --key.")
        x, dt, names = (
            read_array(archive, f"{name}.npy", path.name) if name in members else None
            for name in (key, "dt", "names")
        )
    if x is None:
        raise ValueError(f"{path.name}[{key!r}] holds objects, which are no array of numbers.")
    if dt is not None and (dt.size != 1 or dt.dtype.kind not in "iuf"):
        raise ValueError(f"{path.name}['dt'] must be one number; got shape {dt.shape}.")
    if names is not None and (names.ndim != 1 or names.dtype.kind not in "USiu"):
        raise ValueError(
            f"{path.name}['names'] must be one text per column; got shape {names.shape} and dtype "
            f"{names.dtype}."
        )
    frame, trials = _frame_of(path, x, names, key, options)
    return Found(frame, None if dt is None else float(dt.item()), (), trials)


# ---- spreadsheets ----


def read_excel(path: Path, options: Options) -> Found:
    """Return the first sheet of a workbook, or the one that `key` names."""
    with _blamed_on(path, "an Excel workbook", "Export the spreadsheet as CSV (.csv)."):
        import pandas as pd

        _check_workbook(path)
        sheet = pd.read_excel(
            path, sheet_name=options.key or 0, header=None, dtype=object, na_filter=False,
            engine="openpyxl",
        )  # fmt: skip
    texts = [cell for cell in sheet.to_numpy().ravel() if isinstance(cell, str)]
    mark = options.decimal or decimal_mark(texts[:10_000], ";")
    # Spreadsheets keep numbers apart from texts, which are written with the mark of the sheet.
    written = sheet.map(lambda c: text_of(c).replace(".", mark if isinstance(c, float) else "."))
    rows = [row for row in written.to_numpy().tolist() if any(row)]
    if not rows:
        raise ValueError(f"{path.name} holds no data.")
    check_width(path, len(rows[0]), len(rows), options)
    full = [sum(map(bool, row)) for row in rows]
    usual = float(np.median(full))
    start = next(i for i, n in enumerate(full) if n >= usual / 2) if usual > 2 else 0
    said = (f"its first {start} rows are taken for a title.",) if start else ()
    return found_in(path, rows[start:], [], ";", options._replace(decimal=mark), said)


_REFERENCE = re.compile(rb"""[\s:]r\s*=\s*["']([^"']*)["']""")


def _check_workbook(path: Path) -> None:
    """Raise an error for a workbook that unpacks to too much, defines entities, or misstates its
    span.
    """
    with opened(path, path.name) as book:
        sizes = book.infolist()
        check_size(
            path.name, sum(part.file_size for part in sizes), sum(p.compress_size for p in sizes)
        )
        for name in (n for n in book.namelist() if n.endswith((".xml", ".rels"))):
            content = read_member(book, name, path.name)
            if b"\0" in content or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                raise ValueError(
                    f"{path.name} is refused: {name} is no plain UTF-8 or defines entities, which "
                    "no spreadsheet does."
                )
            if name.startswith("xl/worksheets/"):
                _check_span(path, _REFERENCE.findall(content))


def _check_span(path: Path, references: list[bytes]) -> None:
    """Raise an error for cells placed so far out that the rows and columns up to them fill
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
        raise ValueError(
            f"{path.name} spans {height} rows of {width} columns and has {len(references)} cells."
        )


# ---- columns ----


def read_columns(path: Path, options: Options) -> Found:
    """Return the columns of a Parquet or Feather file, or the fields of JSON lines; an index
    first.
    """
    kind = {".parquet": "Parquet", ".feather": "Feather"}.get(path.suffix.lower(), "JSON lines")
    with _blamed_on(path, kind):
        import pandas as pd

        if kind == "Parquet":
            import pyarrow.parquet

            about = pyarrow.parquet.ParquetFile(path).metadata
            check_size(path.name, 8 * about.num_rows * about.num_columns, path.stat().st_size)
            frame = pd.read_parquet(path)
        elif kind == "Feather":
            frame = _read_feather(path)
        else:
            frame = pd.read_json(path, lines=True, dtype=False)
    if not isinstance(frame.index, pd.RangeIndex):
        names = ["time", *(f"level_{i}" for i in range(1, frame.index.nlevels))]
        own = zip(frame.index.names, names, strict=True)
        frame = frame.reset_index(names=[name or other for name, other in own])
    check_width(path, frame.shape[1], len(frame), options)
    frame.columns = unique_names(path.name, list(frame.columns))
    return Found(frame)


def _read_feather(path: Path) -> Any:
    """Return the messages of a Feather file as a frame, once their sizes are known; offsets in its
    footer are not followed.
    """
    import pandas as pd
    import pyarrow.ipc

    with pyarrow.memory_map(str(path)) as source:
        if source.read(8) != b"ARROW1\0\0":
            refuse_signature(path, path.read_bytes()[:8], "a Feather file")
            return pd.read_feather(path)  # the first version of the format packs nothing
        announced = sum(
            _unpacked(message.metadata.to_pybytes(), message.body)
            for message in pyarrow.ipc.MessageReader.open_stream(source)
            if message.type in ("record batch", "dictionary")
        )
        check_size(path.name, announced, path.stat().st_size)
        source.seek(8)
        return pyarrow.ipc.open_stream(source).read_pandas()


def _unpacked(message: bytes, body: Any) -> int:
    """Return the number of bytes that an Arrow message unpacks to: its flat buffer lists the
    positions of columns, and each begins with its size if it is compressed.
    """

    def number(kind: str, at: int) -> int:
        return struct.unpack_from("<" + kind, message, at)[0]

    def member(table: int, k: int) -> int:
        """Return the position of the k-th member of a table, 0 if it has none."""
        about = table - number("i", table)
        place = 4 + 2 * k
        offset = number("H", about + place) if place < number("H", about) else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + number("I", at)

    batch = follow(member(follow(0), 2))
    if number("B", member(follow(0), 1)) == 2:  # a dictionary wraps one
        batch = follow(member(batch, 1))
    length = number("q", member(batch, 0)) if member(batch, 0) else 0
    total, columns = 0, follow(member(batch, 2))
    for k in range(number("I", columns)):
        offset, size = (number("q", columns + 4 + 16 * k + 8 * i) for i in (0, 1))
        packed = member(batch, 3) and size >= 8
        total += max(struct.unpack_from("<q", body, offset)[0] if packed else size, 0)
    return max(total, length)


# ---- grids ----


def read_grid(path: Path, options: Options) -> Found:
    """Return variables of a NetCDF or Zarr file along one dimension, or one variable `[time
    dim]`.
    """
    group, _, key = (options.key or "").rpartition("/")
    with _blamed_on(path, "NetCDF"):
        data = _opened_grid(path, group)
    with data:
        chosen = [key] if key else _variables(path, data, group)
        check_there(path.name, chosen, list(map(str, data.data_vars)), "variable")
        files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
        packed = sum(file.stat().st_size for file in files)
        check_size(path.name, 8 * sum(data[name].size for name in chosen), packed)
        array, what = data[chosen[0]].squeeze(), ", ".join(chosen)
        if array.ndim == 1 and not key:
            array = data[chosen].squeeze().to_dataarray("").transpose(..., "")
        if not array.ndim:
            raise ValueError(f"{path.name}[{what!r}] is a single number; expected [time dim].")
        named = [d for d in array.dims if str(d).lower() in TIME_NAMES]
        time = next(iter([*named, *array.dims]), None)
        others = [d for d in array.dims if d != time]
        trial = [d for d in others if d == options.trial] or [
            d for d in others if str(d).lower() in TRIAL_NAMES and d not in options.variables
        ]
        inner = [d for d in others if d not in trial[:1]]
        if len(inner) > 1 and set(inner) != set(options.variables):
            sizes = ", ".join(f"{d} ({array.sizes[d]})" for d in inner)
            raise ValueError(
                f"{path.name}[{what!r}] has the dimensions {sizes} beside {time}. Say which are "
                f"variables, --variables {','.join(map(str, inner))}, or which tells recordings "
                f"apart, --trial {inner[0]}; averages over regions are fewer and clearer variables."
            )
        array = array.transpose(*trial[:1], time, *inner)
        x = array.to_numpy()
        x = x.reshape(*x.shape[: x.ndim - len(inner)], -1 if inner else 1)
        frame, trials = _frame_of(path, x, _labels(array, inner), what, options)
        if time in data.coords:
            stamps = _stamps(data.coords[time])
            names = unique_names(path.name, [time, *frame])
            frame.insert(0, names[0], np.tile(stamps, len(frame) // max(len(stamps), 1)))
        return Found(frame, None, (), trials)


def _variables(path: Path, data: Any, group: str) -> list[str]:
    """Return the variables that are meant if none is named: all along one dimension, or the one
    there is.
    """
    if not data.data_vars and not group and (groups := _groups(path)):
        raise ValueError(
            f"{path.name} keeps its variables in groups: {', '.join(groups)}. Name one with --key "
            f"{groups[0]}/VARIABLE."
        )
    long = {str(name): x.dims for name, x in data.squeeze().data_vars.items() if x.ndim}
    if len(long) != 1 and [len(dims) for dims in set(long.values())] != [1]:
        names = ", ".join(map(str, data.data_vars))
        raise ValueError(f"{path.name}: name the variable to use with --key; it has: {names}.")
    return list(long)


def _opened_grid(path: Path, group: str) -> Any:
    import xarray

    zarr = {"engine": "zarr", "consolidated": False} if path.suffix.lower() == ".zarr" else {}
    data = xarray.open_dataset(path, decode_times=False, group=group or None, **zarr)
    try:  # numbers with the unit "days" are numbers, and not spans of time
        return xarray.decode_cf(data, decode_timedelta=False)
    except ValueError:
        return data


def _groups(path: Path) -> list[str]:
    try:
        import netCDF4

        with netCDF4.Dataset(path) as file:
            return list(file.groups)
    except (ImportError, OSError):
        return []


def _labels(array: Any, inner: Sequence[Any]) -> list[str] | None:
    """Return a name for each cell of the dimensions that become variables."""
    if not any(d in array.coords for d in inner):
        return None
    own = (
        [f"{d}{v:g}" if isinstance(v, np.number) else str(v) for v in array[d].to_numpy()]
        for d in inner
    )
    return [" ".join(cell) for cell in itertools.product(*own)]


def _stamps(coordinate: Any) -> np.ndarray:
    """Return the times of a coordinate; months, of which xarray knows none, as dates."""
    units, values = str(coordinate.attrs.get("units", "")), coordinate.to_numpy()
    if not units.lower().startswith("months since"):
        return values
    start = np.datetime64(units.split()[2][:7], "M")
    return (start + np.floor(values).astype("timedelta64[M]")).astype("datetime64[s]")


# ---- text ----


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
        said += (f"its last {foot} lines are taken for a note.",)
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
        said += (f"its first {start} lines are taken for a title.",)
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
        said += ("numbers are read with a decimal comma.",)
    header, rows, more = _headed(rows, title, separator, decimal, options)
    rows, units = _without_units(rows, decimal)
    frame = pd.DataFrame(rows, columns=range(len(header)), dtype=object)
    kept = [j for j, name in enumerate(header) if name.strip() or frame[j].ne("").any()]
    frame = frame[kept]
    frame.columns = unique_names(path.name, [header[j] for j in kept])
    return Found(frame, None, (*said, *more, *units), None, decimal)


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file in its likely encoding, and the assumptions made."""
    raw = path.read_bytes()
    encoding = next((name for mark, name in BOMS.items() if raw.startswith(mark)), "")
    if not encoding:
        refuse_signature(path, raw, "text")
    start = raw[:10_000]
    odd = sum(byte < 32 and byte not in b"\t\r\n\f" for byte in start) > len(start) / 50
    try:
        text, said = raw.decode(encoding or "utf-8"), ()
        odd = False
    except UnicodeDecodeError as error:
        if encoding:
            raise ValueError(
                f"{path.name} is damaged: it begins like {encoding} and is not. Save it as UTF-8."
            ) from error
        text, said = raw.decode("latin-1"), (LATIN,)
    if odd or (b"\0" in raw and not encoding):
        raise ValueError(
            f"{path.name} is not text: it holds bytes that no text does. Export it as CSV in UTF-8."
        )
    return text, said


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
    scores: dict[str | None, float] = {}
    for candidate in SEPARATORS:
        if candidate == "," == options.decimal:
            continue
        rows = _rows(lines, candidate)
        width, count = Counter(map(len, rows)).most_common(1)[0]
        cells = [cell for row in rows[1:] if len(row) == width for cell in row][:CELLS]
        good = sum(is_value(cell, options.decimal) for cell in cells) + 1
        if width > 1:
            scores[candidate] = round(count / len(rows) * good / (len(cells) + 1), 2)
    found = max(scores, key=scores.__getitem__, default=_NOTHING)
    name, *rest = (line.strip() for line in lines)
    # One column: its name holds no mark, or is a number itself, as are all others.
    plain = is_value(name, options.decimal) or not any(mark in name for mark in ";\t,|")
    good = sum(is_value(cell, options.decimal) for cell in rest) / len(rest) if rest else 0
    return _NOTHING if plain and good > scores.get(found, 0.0) else found


def _rows(lines: Sequence[str], separator: str | None) -> list[list[str]]:
    if separator is None:
        separator, lines = " ", [" ".join(line.split()) + "\n" for line in lines]
    try:
        return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error:
        return [line.rstrip("\r\n").split(separator) for line in lines]


def _headed(rows: list[list[str]], title, separator, decimal: str, options: Options):
    """Return names, the rows below them, and the assumptions made."""
    first = rows[0]
    below = list(zip(*rows[1:1001], strict=True)) or [()] * len(first)
    headed, sure = _is_header(first, below, decimal)
    if options.header or (headed and options.header is None):
        names = ", ".join(first[:5])
        said = (f"its first row, {names}, is taken for names; --header no if not.",)
        return first, rows[1:], () if sure or options.header else said
    for names in _rows(title, separator):
        if len(names) == len(first) and not any(map(is_value, names)):
            return names, rows, ()
    said = ()
    plain = (cell.lstrip("+-").isdecimal() for row in rows for cell in row)
    if separator == "," and len(first) == 2 and options.separator is None and all(plain):
        said = (
            "read as two columns of whole numbers; if they are one column with decimal commas, say "
            "so with --decimal ,.",
        )
    return [f"x{j}" for j in range(len(first))], rows, said


def _is_header(first: list[str], below: list[tuple[str, ...]], decimal: str) -> tuple[bool, bool]:
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


def _like_below(cell: str, below: Sequence[str], decimal: str) -> bool:
    """Return whether a cell is a value, or is written like the one below it: 45% over 47%."""
    if is_value(cell, decimal) or not below or not any(map(str.isdigit, cell)):
        return is_value(cell, decimal)
    shape, other = (re.sub(r"[\d.,+\- ]", "", text) for text in (cell, below[0]))
    return shape == other and 0 < len(shape) < 6


def _without_units(rows: list[list[str]], decimal: str):
    """Return the rows below a row of units, if there is one: words above numbers, and no number in
    it.
    """
    if len(rows) < 3:
        return rows, ()
    first, below = rows[0], list(zip(*rows[1:LOOKED_AT], strict=True))
    numbers = any(
        to_float(cell) is not None or COMMA_NUMBER.fullmatch(cell) or cell.startswith(("<", ">"))
        for cell in first
    )
    units = not numbers and any(
        not is_value(cell, decimal) and all(is_value(c, decimal) for c in below[j])
        for j, cell in enumerate(first)
    )
    if not units:
        return rows, ()
    listed = ", ".join(cell for cell in first if cell)[:60]
    return rows[1:], (f"a row of units ({listed}) is left out.",)


READERS: dict[str, Callable[[Path, Options], Found]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), read_text),
    ".npz": read_npz,
    ".xlsx": read_excel,
    **dict.fromkeys((".parquet", ".feather", ".jsonl", ".ndjson"), read_columns),
    **dict.fromkeys((".nc", ".zarr"), read_grid),
}
