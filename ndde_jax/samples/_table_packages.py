"""Columns out of what other programs write: Excel, Parquet and NetCDF.

pandas and xarray are imported when a file calls for them.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._table_files import (
    TIME_NAMES,
    TRIAL_NAMES,
    Column,
    Columns,
    Found,
    Options,
    check_unique,
    check_width,
    columns_of,
    is_value,
    read_csv,
    read_npz,
    unfolded,
)

# ---- spreadsheets ----


def read_xlsx(path: Path, options: Options) -> Found:
    """The first sheet of a workbook, with a header row or without."""
    from ._excel import sheet_rows

    rows = [row for row in sheet_rows(path) if any(cell is not None for cell in row)]
    if not rows:
        raise ValueError(f"{path.name} holds no data.")
    check_width(path, len(rows[0]), len(rows), options)
    is_header = any(isinstance(cell, str) and not is_value(cell) for cell in rows[0])
    header = [f"x{i}" for i in range(len(rows[0]))]
    if is_header:
        header = ["" if cell is None else str(cell).strip() for cell in rows.pop(0)]
    if not rows:
        raise ValueError(f"{path.name} holds no data.")
    kept = [j for j, name in enumerate(header) if name or any(row[j] is not None for row in rows)]
    check_unique(path.name, [header[j] for j in kept])
    return Found({header[j]: _sheet_column([row[j] for row in rows]) for j in kept})


def _sheet_column(cells: list[Any]) -> Column:
    """Dates or numbers as an array, anything else as cells."""
    if all(isinstance(cell, np.datetime64) for cell in cells):
        return np.array(cells, "datetime64[s]")
    if all(cell is None or isinstance(cell, float) for cell in cells):
        return np.array([np.nan if cell is None else cell for cell in cells])
    return cells


# ---- pandas and xarray ----


def read_parquet(path: Path, options: Options) -> Found:
    """The columns of a table, its index first if it is more than a count of rows."""
    pandas = _extra("pandas", path)
    _extra("pyarrow", path)
    try:
        frame = pandas.read_parquet(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read as Parquet: {_first_line(error)}") from error
    if frame.index.nlevels > 1:
        raise ValueError(
            f"{path.name} has an index of {frame.index.nlevels} levels; expected one, of time. "
            "Select one trajectory, or write it after reset_index()."
        )
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index(names=[frame.index.name or "time"])
    for name in frame.columns[[isinstance(k, pandas.DatetimeTZDtype) for k in frame.dtypes]]:
        frame[name] = frame[name].dt.tz_convert("UTC").dt.tz_localize(None)
    check_width(path, frame.shape[1], len(frame), options)
    names = [str(name) for name in frame.columns]
    check_unique(path.name, names)
    return Found({name: frame.iloc[:, j].to_numpy() for j, name in enumerate(names)})


def read_netcdf(path: Path, options: Options) -> Found:
    """Variables along one dimension, or one variable `[time dim]`."""
    xarray = _extra("xarray", path)
    try:
        # Numbers with the unit "days" are numbers, and not spans of time.
        with xarray.open_dataset(path, decode_timedelta=False) as file:
            data = file.load()
    except ImportError as error:  # xarray is there, what reads the format is not
        raise ImportError(f"{error} Try: pip install 'ndde_jax[data]'.") from error
    except (ValueError, OSError, RuntimeError) as error:
        raise ValueError(f"{path.name} cannot be read as NetCDF: {_first_line(error)}") from error
    key = options.key
    if key is None:
        matrices = [str(name) for name, array in data.items() if array.ndim == 2]
        series = {str(name): array for name, array in data.items() if array.ndim == 1}
        if len({array.dims for array in series.values()}) == 1:
            dimension = next(iter(series.values())).dims[0]
            columns = {name: array.to_numpy() for name, array in series.items()}
            return Found(_with_time(data, dimension, columns))
        if series or len(matrices) != 1:
            raise ValueError(
                f"{path.name}: name the variable to use with --key; it has: "
                f"{', '.join(map(str, data))}."
            )
        key = matrices[0]
    if key not in data:
        raise ValueError(
            f"{path.name} has no variable {key!r}; it has: {', '.join(map(str, data))}."
        )
    array = data[key]
    if array.ndim == 0:
        raise ValueError(f"{path.name}[{key!r}] is a single number; expected [time dim].")
    dimension = next((name for name in array.dims if str(name) in TIME_NAMES), array.dims[0])
    others = [name for name in array.dims if name != dimension]
    series = [name for name in others if str(name).lower() in TRIAL_NAMES]
    first = series[:1] or others[: array.ndim == 3]
    array = array.transpose(*first, dimension, ...) if array.ndim == 3 else array.transpose(
        dimension, ...
    )  # fmt: skip
    given = None
    if array.ndim > 1 and array.dims[-1] != dimension and array.dims[-1] in array.coords:
        given = [str(name) for name in array.coords[array.dims[-1]].to_numpy()]
    x, trials = unfolded(array.to_numpy())
    columns = columns_of(path, x, given, f"{path.name}[{key!r}]", options)
    columns = _with_time(data, dimension, columns, 1 if trials is None else len(array))
    return Found(columns, None, (), trials)


READERS: dict[str, Callable[[Path, Options], Found]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".txt": read_csv,
    ".npz": read_npz,
    ".xlsx": read_xlsx,
    ".parquet": read_parquet,
    ".nc": read_netcdf,
}


def _with_time(data: Any, dimension: Any, columns: Columns, series: int = 1) -> Columns:
    if dimension not in data.coords:
        return columns
    return {str(dimension): np.tile(data.coords[dimension].to_numpy(), series), **columns}


def _extra(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Reading {path.suffix} files needs {module}: pip install 'ndde_jax[data]'."
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
