"""Columns out of files, CSV and NPZ among them, and what is wrong with a file that has none.

They need nothing but NumPy; what needs more is in `_table_packages`.
"""

import codecs
import contextlib
import csv
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Column: TypeAlias = Sequence[Any] | np.ndarray  # cells as text, or an array of any type
Columns: TypeAlias = Mapping[str, Column]  # in the order of the file

MISSING = {"", "nan", "na", "n/a", "null", "none", "-", ".", "<na>", "nat"}
DATE = re.compile(r"\d{4}[-/]\d{1,2}([-/]\d{1,2}([ T].*)?)?")
TRIAL_NAMES = {
    "trial",
    "series",
    "run",
    "realization",
    "realisation",
    "ensemble",
    "member",
    "recording",
    "system",
}
TIME_NAMES = {"t", "time", "date", "datetime", "timestamp", "month", "year", "day"}
COMMA_NUMBER = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")
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
    b"\x1f\x8b": "compressed with gzip; unpack it",
}


class Options(NamedTuple):
    """How a file is to be read."""

    key: str | None = None
    separator: str | None = None
    decimal: str | None = None
    wide: bool = False  # many columns are meant, because some of them were asked for


class Found(NamedTuple):
    """What a file holds; `trials` numbers the recordings, one per row, where there are several."""

    columns: Columns
    dt: float | None = None
    notices: tuple[str, ...] = ()
    trials: np.ndarray | None = None


# ---- text ----


def read_csv(path: Path, options: Options) -> Found:
    """Rows of text, separated by comma, semicolon, tab or blanks."""
    text, notices = _decoded(path)
    lines = [line for line in text.splitlines(True) if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{path.name} holds no data.")
    separator = _separator(lines, options)
    # Counted before anything is cut, because a million cells take their time.
    width = len(lines[0].split()) if separator is None else lines[0].count(separator) + 1
    check_width(path, width, len(lines), options)
    try:
        rows = [
            [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator or "\0")
        ]
    except csv.Error as error:
        raise ValueError(f"{path.name} is no table of numbers: {error}.") from error
    if separator is None:
        rows = [line.split() for line in lines]
    decimal = options.decimal or "."
    if options.decimal is None and separator != "," and _has_decimal_comma(rows):
        decimal = ","
        notices += (f"{path.name}: numbers are read with a decimal comma.",)
    is_header = any(not is_value(cell, decimal) for cell in rows[0])
    header = rows.pop(0) if is_header else [f"x{i}" for i in range(len(rows[0]))]
    for number, row in enumerate(rows, start=1 + is_header):
        if len(row) != len(header):
            hint = " If commas are decimal commas, say so with --decimal ,." * (
                separator == "," and options.separator is None
            )
            raise ValueError(
                f"{path.name}: expected {len(header)} columns, as in the first row; row {number} "
                f"has {len(row)}.{hint}"
            )
    if separator == "," and not is_header and len(header) == 2 and options.separator is None:
        if all(cell.lstrip("+-").isdecimal() for row in rows for cell in row):
            notices += (
                f"{path.name}: read as two columns of whole numbers; if they are one column with "
                "decimal commas, say so with --decimal ,.",
            )
    check_unique(path.name, header)
    columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=False))
    if decimal == ",":
        columns = {name: [_with_point(cell) for cell in column] for name, column in columns.items()}
    return Found(columns, None, notices)


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """The text of a file in whatever encoding, and what had to be assumed."""
    raw = path.read_bytes()
    marks = {
        codecs.BOM_UTF8: "utf-8-sig",
        codecs.BOM_UTF32_LE: "utf-32",
        codecs.BOM_UTF16_LE: "utf-16",
        codecs.BOM_UTF16_BE: "utf-16",
    }
    encoding = next((name for mark, name in marks.items() if raw.startswith(mark)), None)
    if encoding is None:
        _refuse_signature(path, raw, "text")
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


def _refuse_signature(path: Path, raw: bytes, expected: str) -> None:
    for start, what in SIGNATURES.items():
        if raw.startswith(start):
            raise ValueError(f"{path.name} is not {expected} but {what}.")


def _separator(lines: list[str], options: Options) -> str | None:
    """Between cells; None for blanks. Semicolons and tabs that occur in every line go first,
    because commas beside them are decimal ones.
    """
    if options.separator is not None:
        return None if options.separator.isspace() and options.separator != "\t" else (
            options.separator
        )  # fmt: skip
    for candidate in ";\t":
        counts = {line.count(candidate) for line in lines[:20]}
        if len(counts) == 1 and counts != {0}:
            return candidate
    candidates = ";\t" if options.decimal == "," else ",;\t"
    best = max(candidates, key=lines[0].count)
    return best if lines[0].count(best) else None


def _has_decimal_comma(rows: list[list[str]]) -> bool:
    """Whether numbers are written 1,5 and none 1.5."""
    cells = [cell for row in rows[:1000] for cell in row]
    commas = any(COMMA_NUMBER.fullmatch(cell) for cell in cells)
    return commas and not any("." in cell and to_float(cell) is not None for cell in cells)


def _with_point(cell: str) -> str:
    return cell.replace(".", "").replace(",", ".") if COMMA_NUMBER.fullmatch(cell) else cell


def is_value(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number, a date or a missing value, rather than a name."""
    cell = _with_point(cell) if decimal == "," else cell
    return cell.lower() in MISSING or to_float(cell) is not None or bool(DATE.fullmatch(cell))


def to_float(cell: Any) -> float | None:
    """A cell as a number, if it is one."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


# ---- NumPy archives ----


def read_npz(path: Path, options: Options) -> Found:
    """One array `[time dim]`, with `names` and `dt` beside it."""
    with _archive(path) as file:
        arrays = {name: _member(path, file, name) for name in file.files}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if not arrays:
        raise ValueError(f"{path.name} holds no array of numbers.")
    key = options.key
    if key is None:
        usable = [name for name, array in arrays.items() if array.ndim in (1, 2, 3)]
        key = usable[0] if len(arrays) == 1 and usable else "x"
    if key not in arrays:
        raise ValueError(
            f"{path.name} has no array {key!r}; it has: {', '.join(arrays)}. Name one with --key."
        )
    what = f"{path.name}[{key!r}]"
    dt, names = arrays.get("dt"), arrays.get("names")
    if dt is not None and (dt.size != 1 or dt.dtype.kind not in "iuf"):
        raise ValueError(f"{path.name}['dt'] must be one number; got shape {dt.shape}.")
    if names is not None and (names.ndim != 1 or names.dtype.kind not in "USiu"):
        raise ValueError(
            f"{path.name}['names'] must be one text per column; got shape {names.shape} and dtype "
            f"{names.dtype}."
        )
    given = None if names is None else [str(name) for name in names]
    x, trials = unfolded(arrays[key])
    columns = columns_of(path, x, given, what, options)
    return Found(columns, None if dt is None else float(dt.item()), (), trials)


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[Any]:
    """An open NPZ file; what goes wrong while it is open is the file's fault."""
    with path.open("rb") as raw:
        start = raw.read(8)
        raw.seek(0)
        if not start:
            raise ValueError(f"{path.name} is empty.")
        if not start.startswith(b"PK"):
            _refuse_signature(path, start, "an NPZ archive")
            raise ValueError(
                f"{path.name} is not an NPZ archive; np.savez(path, x=array) makes one."
            )
        try:
            with np.load(raw, allow_pickle=False) as file:
                yield file
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
            raise ValueError(f"{path.name} is damaged: {error}.") from error
        except (NotImplementedError, RuntimeError) as error:
            raise ValueError(f"{path.name} cannot be unpacked: {error}.") from error


def _member(path: Path, file: Any, name: str) -> np.ndarray | None:
    """An array of the archive, None if it is something else."""
    try:
        found = file[name]
    except ValueError as error:
        if "allow_pickle" in str(error):
            return None
        raise ValueError(f"{path.name}[{name!r}] is damaged: {error}.") from error
    return found if isinstance(found, np.ndarray) else None


# ---- arrays ----


def unfolded(x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """`[series time dim]` as rows, and the series of each; anything else as it is."""
    if x.ndim != 3 or 0 in x.shape:
        return x, None
    return x.reshape(-1, x.shape[2]), np.repeat(np.arange(len(x)), x.shape[1])


def columns_of(
    path: Path, x: np.ndarray, names: list[str] | None, what: str, options: Options
) -> Columns:
    """The columns of a matrix, named."""
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2:
        raise ValueError(f"Expected {what} of shape [time dim]; got {x.shape}.")
    if x.dtype.kind not in "fiubUSO":
        raise ValueError(f"{what} must hold real numbers; got dtype {x.dtype}.")
    check_width(path, x.shape[1], x.shape[0], options)
    if names is None:
        names = [f"x{i}" for i in range(x.shape[1])]
    if len(names) != x.shape[1]:
        raise ValueError(f"{what} has {x.shape[1]} columns, and {path.name} {len(names)} names.")
    check_unique(path.name, names)
    return {name: x[:, j] for j, name in enumerate(names)}


def check_unique(file: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"{file} has two columns of the same name, {twice!r}. Rename one.")


def check_width(path: Path, n_columns: int, n_rows: int, options: Options) -> None:
    """Refuse what seems to lie on its side."""
    if n_columns > WIDE and n_columns > n_rows and not options.wide:
        raise ValueError(
            f"{path.name} has {n_columns} columns and only {n_rows} rows: rows are samples and "
            "columns are variables, so it may have to be transposed. Otherwise choose some with "
            "--columns."
        )
