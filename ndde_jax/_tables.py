"""Measurements from files: CSV, NPZ, Parquet and NetCDF, one row per sample.

CSV needs nothing but NumPy; pandas and xarray are imported when a file calls for them.
"""

import csv
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Column: TypeAlias = Sequence[Any] | np.ndarray  # cells as text, or an array of any type
Columns: TypeAlias = Mapping[str, Column]  # in the order of the file

_MISSING = {"", "nan", "na", "n/a", "null", "none", "-", "."}
_DATE = re.compile(r"\d{4}[-/]\d{1,2}([-/]\d{1,2}([ T].*)?)?")
_TIME_NAMES = {"t", "time", "date", "datetime", "timestamp", "month", "year", "day"}
_PACKED_DATE = re.compile(r"\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")  # 195001, 19500131


class Table(NamedTuple):
    """Measurements `[time dim]` with names, and time stamps where the file has them."""

    values: np.ndarray
    names: tuple[str, ...]
    stamps: np.ndarray | None  # numbers or datetime64, [time]
    dt: float | None = None  # as the file states it


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    time_column: str | None = None,
    key: str | None = None,
) -> Table:
    """Read measurements from CSV, NPZ, Parquet or NetCDF, one row per sample.

    - CSV: separated by comma, semicolon, tab or blanks; lines that start with # are skipped; a
      header row is recognised. Empty cells and nan, na, null, none, - and . are missing values.
    - NPZ: the array `key` (default `x`, or the only array), `[time dim]`; `names` and `dt` are
      used if the file has them.
    - Parquet and NetCDF (extra `data`): a table's columns; a data set's variables along one
      dimension, or the variable `key`, `[time dim]`.

    `time_column` names the column of time stamps. By default it is the first column if that holds
    dates, or is called time, t, date, month, year, day or like these, or is an index without a
    name. `columns` picks variables and their order.

    Raises ValueError if the file cannot be read as a table, a column is missing or is not numeric;
    ImportError if the extra is missing; OSError if the file cannot be opened.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"Cannot tell the format of {path.name}; expected a name that ends with one of: "
            f"{' '.join(_READERS)}."
        )
    found, dt = reader(path, key)
    if not found or not len(next(iter(found.values()))):
        raise ValueError(f"{path.name} holds no data.")
    if time_column is None:
        first = next(iter(found))
        time_column = first if len(found) > 1 and _is_time(first, found[first]) else None
    wanted = list(columns) if columns else [name for name in found if name != time_column]
    for name in [*wanted, *([time_column] if time_column is not None else [])]:
        if name not in found:
            raise ValueError(f"{path.name} has no column {name!r}; it has: {', '.join(found)}.")
    if not wanted:
        raise ValueError(f"{path.name} has no column beside the time column {time_column!r}.")
    values = np.stack([_numbers(name, found[name]) for name in wanted], axis=1)
    stamps = None if time_column is None else _stamps(time_column, found[time_column])
    return Table(values, tuple(wanted), stamps, dt)


def sampling(stamps: np.ndarray) -> tuple[float | None, str, np.ndarray]:
    """Sampling interval of time stamps: `(dt, unit, times)`; `dt` is None if they are irregular.

    Dates with a constant step give the largest unit that makes `dt` a whole number, in the order
    year, month, day, hour, minute, second; irregular dates are counted in days. Numbers keep their
    unit, which is unknown ("").

    Raises ValueError if the stamps do not increase strictly.
    """
    unit, times = "", stamps
    if np.issubdtype(stamps.dtype, np.datetime64):
        calendar = _calendar(stamps)
        if calendar is not None:
            return calendar
        seconds = (stamps - stamps[0]) / np.timedelta64(1, "s")
        steps = np.unique(np.diff(seconds))
        lengths = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
        whole = [name for name, length in lengths.items() if (steps % length == 0).all()]
        regular = len(steps) == 1
        unit = "day" if not regular else (whole[0] if whole else "second")
        times = seconds / lengths[unit]
    difference = np.diff(times)
    if len(times) < 2 or not (difference > 0).all():
        row = int(np.argmin(difference > 0)) + 2 if len(times) > 1 else 1
        raise ValueError(
            f"Expected at least two time stamps, strictly increasing; data row {row} breaks this."
        )
    typical = float(np.median(difference))
    # Stamps are often rounded to a few decimals.
    regular = np.allclose(difference, typical, rtol=1e-3, atol=0)
    return (typical if regular else None), unit, times


def _calendar(stamps: np.ndarray) -> tuple[float, str, np.ndarray] | None:
    """Months or years if the dates step by a constant number of months, else None."""
    # The second try shifts month ends to the first of the next month.
    for shift in (np.timedelta64(0, "D"), np.timedelta64(1, "D")):
        shifted = stamps.astype("datetime64[s]") + shift
        months = shifted.astype("datetime64[M]")
        within = shifted - months.astype("datetime64[s]")
        steps = np.unique(np.diff(months.astype(int)))
        if (within == within[0]).all() and len(steps) == 1 and steps[0] > 0:
            unit, length = ("year", 12) if steps[0] % 12 == 0 else ("month", 1)
            times = (months - months[0]).astype(float) / length
            return float(steps[0] // length), unit, times
    return None


def _read_csv(path: Path, key: str | None) -> tuple[Columns, None]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [line for line in file if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{path.name} holds no data.")
    delimiter = max(",;\t", key=lines[0].count)
    if lines[0].count(delimiter):
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)]
    else:
        rows = [line.split() for line in lines]
    is_header = any(not _is_value(cell) for cell in rows[0])
    header = rows.pop(0) if is_header else [f"x{i}" for i in range(len(rows[0]))]
    if len(set(header)) < len(header):
        raise ValueError(f"{path.name} has two columns of the same name: {', '.join(header)}.")
    for number, row in enumerate(rows, start=1 + is_header):
        if len(row) != len(header):
            raise ValueError(
                f"{path.name}: expected {len(header)} columns, as in the first row; row {number} "
                f"has {len(row)}."
            )
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=False)), None


def _read_npz(path: Path, key: str | None) -> tuple[Columns, float | None]:
    with np.load(path, allow_pickle=False) as file:
        names = [name for name in file.files if file[name].ndim in (1, 2)]
        if key is None:
            key = names[0] if len(file.files) == 1 and names else "x"
        if key not in file.files:
            raise ValueError(
                f"{path.name} has no array {key!r}; it has: {', '.join(file.files)}. Name one with "
                "--key."
            )
        x = np.asarray(file[key])
        given = [str(name) for name in file["names"]] if "names" in file.files else None
        dt = float(file["dt"]) if "dt" in file.files and file["dt"].size == 1 else None
    return _columns_of(x, given, f"{path.name}[{key!r}]"), dt


def _read_parquet(path: Path, key: str | None) -> tuple[Columns, None]:
    pandas = _extra("pandas", path)
    _extra("pyarrow", path)
    frame = pandas.read_parquet(path)
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(names=[frame.index.name or "time"])
    return {str(name): frame[name].to_numpy() for name in frame.columns}, None


def _read_netcdf(path: Path, key: str | None) -> tuple[Columns, None]:
    xarray = _extra("xarray", path)
    try:
        with xarray.open_dataset(path) as file:
            data = file.load()
    except ImportError as error:  # xarray is there, what reads the format is not
        raise ImportError(f"{error} Try: pip install 'ndde_jax[data]'.") from error
    if key is None:
        matrices = [str(name) for name, array in data.items() if array.ndim == 2]
        series = {str(name): array for name, array in data.items() if array.ndim == 1}
        if len({array.dims for array in series.values()}) == 1:
            dimension = next(iter(series.values())).dims[0]
            columns = {name: array.to_numpy() for name, array in series.items()}
            return _with_time(data, dimension, columns), None
        if series or len(matrices) != 1:
            raise ValueError(
                f"{path.name}: name the variable to use with --key; it has: "
                f"{', '.join(map(str, data))}."
            )
        key = matrices[0]
    if key not in data:
        raise ValueError(f"{path.name} has no variable {key!r}; it has: {', '.join(data)}.")
    array = data[key]
    dimension = next((name for name in array.dims if str(name) in _TIME_NAMES), array.dims[0])
    array = array.transpose(dimension, ...)
    given = None
    if array.ndim == 2 and array.dims[1] in array.coords:
        given = [str(name) for name in array.coords[array.dims[1]].to_numpy()]
    columns = _columns_of(array.to_numpy(), given, f"{path.name}[{key!r}]")
    return _with_time(data, dimension, columns), None


_READERS: dict[str, Callable[[Path, str | None], tuple[Columns, float | None]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".txt": _read_csv,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".nc": _read_netcdf,
}


def _with_time(data: Any, dimension: Any, columns: Columns) -> Columns:
    if dimension not in data.coords:
        return columns
    return {str(dimension): data.coords[dimension].to_numpy(), **columns}


def _columns_of(x: np.ndarray, names: list[str] | None, what: str) -> Columns:
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2:
        raise ValueError(f"Expected {what} of shape [time dim]; got {x.shape}.")
    if names is None or len(names) != x.shape[1]:
        names = [f"x{i}" for i in range(x.shape[1])]
    return {name: x[:, j] for j, name in enumerate(names)}


def _extra(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Reading {path.suffix} files needs {module}: pip install 'ndde_jax[data]'."
        ) from error


def _is_value(cell: str) -> bool:
    """Whether a cell of a CSV file is a number, a date or a missing value, rather than a name."""
    return cell.lower() in _MISSING or _float(cell) is not None or bool(_DATE.fullmatch(cell))


def _float(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def _is_time(name: str, column: Column) -> bool:
    if name.strip().lower() in _TIME_NAMES or not name.strip():
        return True
    return not _is_numeric(column) and bool(_DATE.fullmatch(str(column[0])[:19]))


def _is_numeric(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "fiub"


def _numbers(name: str, column: Column) -> np.ndarray:
    if _is_numeric(column):
        return np.asarray(column, dtype=float)
    values = np.full(len(column), np.nan)
    for row, cell in enumerate(column):
        if cell is None or str(cell).lower() in _MISSING:
            continue
        number = _float(cell)
        if number is None:
            raise ValueError(
                f"Column {name!r} is not numeric: {str(cell)!r} in data row {row + 1}. Choose the "
                "columns to use with --columns; decimals are written with a point."
            )
        values[row] = number
    return values


def _stamps(name: str, column: Column) -> np.ndarray:
    if isinstance(column, np.ndarray) and np.issubdtype(column.dtype, np.datetime64):
        return column
    packed = name.strip().lower() in {"date", "month", "day"}
    packed = packed and all(_PACKED_DATE.fullmatch(str(cell)) for cell in column)
    if packed:
        column = ["-".join(filter(None, (c[:4], c[4:6], c[6:]))) for c in map(str, column)]
    elif _is_numeric(column) or not _DATE.fullmatch(str(column[0])[:19]):
        stamps = _numbers(name, column)
        if np.isnan(stamps).any():
            raise ValueError(f"The time column {name!r} has missing values.")
        return stamps
    iso = []
    for row, cell in enumerate(column):
        day, _, clock = str(cell).replace("/", "-").replace("T", " ").partition(" ")
        clock = clock.removesuffix("Z").removesuffix("+00:00")
        parts = [part.zfill(2) for part in day.split("-")]
        try:
            iso.append(np.datetime64("-".join(parts) + (f"T{clock.strip()}" if clock else "")))
        except ValueError:
            raise ValueError(
                f"The time column {name!r} holds {str(cell)!r} in data row {row + 1}; expected "
                "dates such as 2001-12, 2001-12-31 or 2001-12-31 18:00."
            ) from None
    return np.array(iso)
