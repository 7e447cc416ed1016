"""Tables from other programs: NumPy archives, Excel, Parquet, Feather, JSON, NetCDF, Zarr.

What a file announces is checked before anything is unpacked; pandas and xarray read it then.
"""

import importlib
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._archive import check_size, opened, read_array, read_member
from ._cells import clean_name, decimal_mark

TRIAL_NAMES = {
    *("trial", "series", "run", "realization", "realisation", "ensemble", "member", "recording"),
    "system",
}
TIME_NAMES = {
    "t",
    "time",
    "date",
    "datetime",
    "timestamp",
    "month",
    "year",
    "day",
    "times",
    "dates",
}
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


class Options(NamedTuple):
    """Options for reading a file; None leaves a choice to the file's own contents."""

    key: str | None = None
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    trial: str | None = None
    variables: Sequence[str] = ()
    wide: bool = False  # many columns are meant, because some of them were asked for


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
    if n_columns > WIDE and n_columns > n_rows and not options.wide:
        raise ValueError(
            f"{path.name} has {n_columns} columns and only {n_rows} rows: rows are samples and "
            "columns are variables, so it may have to be transposed. Otherwise choose some with "
            "--columns."
        )


def _frame_of(path: Path, x: np.ndarray, names: Any, what: str, options: Options):
    """Return a frame from an array `[time dim]`, or `[series time dim]` with the series of each
    row.
    """
    import pandas as pd

    trials = None
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
        key = options.key or (members[0] if len(members) == 1 else "x")
        if not members:
            raise ValueError(f"{path.name} holds no array of numbers.")
        if key not in members:
            raise ValueError(
                f"{path.name} has no array {key!r}; it has: {', '.join(members[:20])}. Name one "
                "with --key."
            )
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
    frame, trials = _frame_of(path, x, names, f"{path.name}[{key!r}]", options)
    return Found(frame, None if dt is None else float(dt.item()), (), trials)


# ---- spreadsheets ----


def read_excel(path: Path, options: Options) -> Found:
    """Return the first sheet of a workbook, or the one that `key` names."""
    from ._text import found_in

    pandas = _extra("pandas", path)
    remedy = "Export the spreadsheet as CSV (.csv)."
    try:
        _check_workbook(path)
    except ValueError as error:
        raise ValueError(f"{error} {remedy}") from error
    _extra("openpyxl", path)
    try:
        rows = pandas.read_excel(
            path, sheet_name=options.key or 0, header=None, dtype=object, na_filter=False,
            engine="openpyxl",
        )  # fmt: skip
    except Exception as error:  # of openpyxl, which raises what it stumbles over
        raise ValueError(
            f"{path.name} cannot be read as an Excel workbook ({_first_line(error)}). {remedy}"
        ) from error
    texts = [cell for cell in rows.to_numpy().ravel() if isinstance(cell, str)]
    mark = options.decimal or decimal_mark(texts[:10_000], ";")

    def written(cell: Any) -> str:
        if isinstance(cell, float):
            return "" if cell != cell else str(cell).replace(".", mark)
        return "" if cell is None or cell is pandas.NaT else str(cell).strip()

    rows = [row for row in rows.map(written).to_numpy().tolist() if any(row)]
    if not rows:
        raise ValueError(f"{path.name} holds no data.")
    check_width(path, len(rows[0]), len(rows), options)
    full = [sum(map(bool, row)) for row in rows]
    usual = float(np.median(full))
    start = next(i for i, n in enumerate(full) if n >= usual / 2) if usual > 2 else 0
    said = (f"{path.name}: its first {start} rows are taken for a title.",) if start else ()
    return found_in(path, rows[start:], [], ";", options._replace(decimal=mark), said)


_REFERENCE = re.compile(rb"""[\s:]r\s*=\s*["']([^"']*)["']""")
_PLACE = re.compile(rb"([A-Z]{0,3})(\d{0,7})")


def _check_workbook(path: Path) -> None:
    """Raise an error for a workbook that unpacks to too much, defines entities, or misstates its
    span.
    """
    with opened(path, path.name) as book:
        sizes = book.infolist()
        check_size(
            path.name, sum(part.file_size for part in sizes), sum(p.compress_size for p in sizes)
        )
        for part in sizes:
            if not part.filename.endswith((".xml", ".rels")):
                continue
            content = read_member(book, part.filename, path.name)
            if b"\0" in content or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                raise ValueError(
                    f"{path.name} is refused: {part.filename} is no plain UTF-8 or defines "
                    "entities, which no spreadsheet does."
                )
            if part.filename.startswith("xl/worksheets/"):
                _check_span(path, content)


def _check_span(path: Path, content: bytes) -> None:
    """Raise an error for cells placed so far out that the rows and columns up to them fill
    memory.
    """
    width = height = count = 0
    for reference in _REFERENCE.findall(content):
        place = _PLACE.fullmatch(reference)
        if place is None:
            raise ValueError(f"{path.name} names a cell {reference[:20].decode('latin-1')!r}.")
        column = 0
        for letter in place[1]:
            column = 26 * column + letter - 64
        width, height, count = max(width, column), max(height, int(place[2] or 0)), count + 1
    if width * height > SPAN + SPARSE * count:
        raise ValueError(
            f"{path.name} spans {height} rows of {width} columns and has {count} cells."
        )


# ---- columns ----


def read_columns(path: Path, options: Options) -> Found:
    """Return the columns of a Parquet or Feather file, or the fields of JSON lines; an index
    first.
    """
    pandas = _extra("pandas", path)
    kind = {".parquet": "Parquet", ".feather": "Feather"}.get(path.suffix.lower(), "JSON lines")
    try:
        if kind == "Parquet":
            about = _extra("pyarrow.parquet", path).ParquetFile(path).metadata
            _check_rows(path, about.num_rows, about.num_columns)
            frame = pandas.read_parquet(path)
        elif kind == "Feather":
            frame = _read_feather(_extra("pyarrow", path), pandas, path)
        else:
            frame = pandas.read_json(path, lines=True, dtype=False)
    except ImportError:
        raise
    except Exception as error:  # of pyarrow and pandas, which raise what they stumble over
        if isinstance(error, ValueError) and path.name in str(error):
            raise
        raise ValueError(f"{path.name} cannot be read as {kind}: {_first_line(error)}") from error
    if not isinstance(frame.index, pandas.RangeIndex):
        names = [
            name or ("time" if i == 0 else f"level_{i}") for i, name in enumerate(frame.index.names)
        ]
        frame = frame.reset_index(names=names)
    check_width(path, frame.shape[1], len(frame), options)
    frame.columns = unique_names(path.name, list(frame.columns))
    return Found(frame)


def _check_rows(path: Path, rows: int, columns: int) -> None:
    check_size(path.name, 8 * rows * columns, path.stat().st_size)


def _read_feather(pyarrow: Any, pandas: Any, path: Path) -> Any:
    """Return the messages of a Feather file as a frame, once their sizes are known; offsets in its
    footer are not followed.
    """
    importlib.import_module("pyarrow.ipc")
    with pyarrow.memory_map(str(path)) as source:
        if source.read(8) != b"ARROW1\0\0":
            refuse_signature(path, path.read_bytes()[:8], "a Feather file")
            return pandas.read_feather(path)  # the first version of the format packs nothing
        reader, announced = pyarrow.ipc.MessageReader.open_stream(source), 0
        for message in reader:
            if message.type in ("record batch", "dictionary"):
                announced += _unpacked(message.metadata.to_pybytes(), message.body)
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
    xarray = _extra("xarray", path)
    name, key = path.name, options.key
    group, _, key = key.rpartition("/") if key else ("", "", None)
    try:
        data = _opened_grid(xarray, path, group)
    except ImportError as error:  # xarray is there, what reads the format is not
        raise ImportError(f"{error} Try: pip install 'ndde_jax[data]'.") from error
    except Exception as error:  # of xarray and its readers, which raise what they stumble over
        raise ValueError(f"{name} cannot be read as NetCDF: {_first_line(error)}") from error
    with data:
        if not data.data_vars and not group and (groups := _groups(path)):
            raise ValueError(
                f"{name} keeps its variables in groups: {', '.join(groups)}. Name one with --key "
                f"{groups[0]}/VARIABLE."
            )
        files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
        size = sum(file.stat().st_size for file in files)
        if key is None:
            series = {str(n): a for n, a in data.squeeze().data_vars.items() if a.ndim == 1}
            rest = [str(n) for n, a in data.squeeze().data_vars.items() if a.ndim > 1]
            if series and not rest and len({a.dims for a in series.values()}) == 1:
                check_size(name, 8 * sum(a.size for a in series.values()), size)
                (dimension,) = next(iter(series.values())).dims
                columns = {n: a.to_numpy() for n, a in series.items()}
                return _with_time(path, data, dimension, columns, 1, None)
            if series or len(rest) != 1:
                listed = ", ".join(map(str, data.data_vars))
                raise ValueError(f"{name}: name the variable to use with --key; it has: {listed}.")
            (key,) = rest
        if key not in data:
            raise ValueError(
                f"{name} has no variable {key!r}; it has: {', '.join(map(str, data.data_vars))}."
            )
        array = data[key]
        if array.ndim == 0:
            raise ValueError(f"{name}[{key!r}] is a single number; expected [time dim].")
        check_size(name, 8 * array.size, size)
        array = array.squeeze()
        dimension = next((d for d in array.dims if str(d).lower() in TIME_NAMES), None)
        dimension = array.dims[0] if dimension is None and array.ndim else dimension
        others = [d for d in array.dims if d != dimension]
        trial = [d for d in others if d == options.trial] or [
            d for d in others if str(d).lower() in TRIAL_NAMES and d not in options.variables
        ]
        inner = [d for d in others if d not in trial[:1]]
        if len(inner) > 1 and set(inner) != set(options.variables):
            listed = ", ".join(f"{d} ({array.sizes[d]})" for d in inner)
            raise ValueError(
                f"{name}[{key!r}] has the dimensions {listed} beside {dimension}. Say which are "
                f"variables, --variables {','.join(map(str, inner))}, or which tells recordings "
                f"apart, --trial {inner[0]}; averages over regions are fewer and clearer variables."
            )
        array = array.transpose(*trial[:1], dimension, *inner)
        names = _labels(array, inner)
        x = array.to_numpy()
        x = x.reshape(*x.shape[: x.ndim - len(inner)], -1) if inner else x
        if trial and not inner:
            x = x[..., None]
        frame, trials = _frame_of(path, x, names, f"{name}[{key!r}]", options)
        series = 1 if trials is None else len(array)
        return _with_time(path, data, dimension, dict(frame.items()), series, trials)


def _opened_grid(xarray: Any, path: Path, group: str) -> Any:
    # Numbers with the unit "days" are numbers, and not spans of time.
    shared = {"decode_timedelta": False, "group": group or None}
    if path.suffix.lower() == ".zarr":
        shared |= {"engine": "zarr", "consolidated": False}
    try:
        return xarray.open_dataset(path, **shared)
    except ValueError as error:
        if "decode" not in str(error):
            raise
        return xarray.open_dataset(path, decode_times=False, **shared)


def _groups(path: Path) -> list[str]:
    try:
        with importlib.import_module("netCDF4").Dataset(path) as file:
            return list(file.groups)
    except (ImportError, OSError):
        return []


def _labels(array: Any, inner: Sequence[Any]) -> list[str] | None:
    """Return a name for each cell of the dimensions that become variables."""
    if not inner or not any(d in array.coords for d in inner):
        return None
    labels = [""]
    for d in inner:
        own = array.coords[d].to_numpy() if d in array.coords else range(array.sizes[d])
        own = [str(v) if isinstance(v, str) else f"{d}{v:g}" if np.ndim(v) == 0 and np.isreal(v)
               else str(v) for v in own]  # fmt: skip
        labels = [f"{before} {label}".strip() for before in labels for label in own]
    return labels


def _with_time(path: Path, data: Any, dimension: Any, columns: Mapping, series: int, trials):
    """Return the columns behind their time, where the file has one."""
    import pandas as pd

    columns = dict(columns)
    if dimension in data.coords:
        stamps = data.coords[dimension]
        values = stamps.to_numpy()
        if str(stamps.attrs.get("units", "")).lower().startswith("months since"):
            start = np.datetime64(stamps.attrs["units"].split()[2][:7], "M")
            values = start + np.floor(values).astype(int)
            values = values.astype("datetime64[s]")
        columns = {str(dimension): np.tile(values, series), **columns}
    frame = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    frame.columns = unique_names(path.name, list(columns))
    return Found(frame, None, (), trials)


def _extra(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"Reading {path.suffix} files needs {package}: pip install 'ndde_jax[data]'."
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
