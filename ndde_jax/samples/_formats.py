"""Tables from other programs: NumPy arrays, Parquet, Feather, JSON, NetCDF, Zarr.

Sizes stated in a file are checked before it is unpacked. pandas and xarray do the reading.
"""

import gzip
import itertools
import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._files import FREE, RATIO, array_shape, check_size, opened, read_array, read_member
from ._cells import check_there, clean_name, listed_names
from ._dates import is_date

TRIAL_NAMES = set("trial series run realization realisation ensemble member".split())
TRIAL_NAMES |= {"recording", "system"}
# Names of a dimension, index or column of time; and of a time column in a table, alone or among
# other words, in several languages.
CLOCKS = set("t time times date dates datetime timestamp month year day".split())
TIME_NAMES = CLOCKS | set(
    "timestamps days months years hour hours minute elapsed doy x_value epoch unix unixtime "
    "datenum yyyymm yyyymmdd zeit zeitstempel datum tag monat jahr sample cycle fecha hora tiempo "
    "heure temps jour tijd dag jaar ora tempo".split()
)
TEXT = (".csv", ".tsv", ".txt", ".dat", ".data", ".tab", ".asc", ".prn", ".rdb", ".lvm", ".log")
# More columns than this, and than rows, suggest that a table is transposed.
WIDE = 2_000
# First bytes of other formats, for files with the wrong extension.
SIGNATURES = {
    b"PK": "a zip archive or an Excel workbook; give a workbook a name that ends with .xlsx",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the sheet as CSV",
    b"\x93NUMPY": "a NumPy array; give it a name that ends with .npy",
    b"\x89HDF": "an HDF5 or NetCDF file; give it a name that ends with .nc",
    b"CDF": "a NetCDF file; give it a name that ends with .nc",
    b"PAR1": "a Parquet file; give it a name that ends with .parquet",
    b"ARROW1": "a Feather file; give it a name that ends with .feather",
    b"\x1f\x8b": "compressed with gzip; give it a name that ends with .gz",
}


class Options(NamedTuple):
    """The options for reading a file, as in `read_table`; None: detected from the file."""

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
    """The contents of a file as a pandas frame; `trials` is the recording of each row, if there are
    several.
    """

    frame: Any
    trials: np.ndarray | None = None
    dt: float | None = None
    said: tuple[str, ...] = ()
    decimal: str = "."
    missing: tuple[str, ...] = ()  # codes for missing values that the file itself states


def refuse_signature(path: Path, raw: bytes, expected: str) -> None:
    """Raise an error that names the true format of a file, if its first bytes show another one."""
    for start, what in SIGNATURES.items():
        if raw.startswith(start):
            raise ValueError(f"{path.name} is not {expected} but {what}.")


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, or of the one text in a compressed file, after checking that its
    unpacked size is in proportion.
    """
    suffix, size = path.suffix.lower(), path.stat().st_size
    if suffix == ".gz":
        try:
            with gzip.open(path) as file:
                raw = file.read(FREE + RATIO * size + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path.name} is damaged: {error}.") from error
        check_size(path.name, len(raw), size)
        return raw
    if suffix != ".zip":
        return path.read_bytes()
    with opened(path, path.name) as archive:
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
        if len(names) == 1 and names[0].lower().endswith(TEXT):
            return read_member(archive, names[0], path.name)
    got = listed_names(map(clean_name, names)) or "nothing"
    remedy = "expected one table in text. Unpack it, and pass the file of measurements."
    raise ValueError(f"{path.name} holds {got}; {remedy}")


def unique_names(file: str, names: Sequence[Any]) -> list[str]:
    """Return printable names; raise an error if two columns have the same name."""
    names = [clean_name(name) for name in names]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{file} has two columns with the same name, {twice[0]!r}. Rename one.")
    return names


def check_width(path: Path, n_columns: int, n_rows: int, options: Options) -> None:
    """Raise an error for a table that seems to be transposed."""
    if n_columns > WIDE and n_columns > n_rows and not options.columns:
        raise ValueError(
            f"{path.name} has {n_columns} columns and only {n_rows} rows: rows are samples and "
            "columns variables, so it may have to be transposed. Otherwise select some: --columns."
        )


@contextmanager
def blamed_on(path: Path, kind: str, remedy: str = "") -> Iterator[None]:
    """Convert any error of a reader to one line that names the file.

    **Raises:** `ValueError` that names the file; `ImportError` for a library that is not installed.
    """
    try:
        yield
    except ImportError as error:
        needed = (error.name or str(error)).partition(".")[0]
        remedy = "pip install 'ndde_jax[data]'"
        raise ImportError(f"Reading {path.suffix} files needs {needed}: {remedy}.") from error
    except Exception as error:  # readers raise errors of any type
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(".")
        if not (isinstance(error, ValueError) and path.name in text):
            text = f"{path.name} cannot be read as {kind}: {text}"
        raise ValueError(f"{text}.{remedy and ' ' + remedy}") from error


def _found(path: Path, x: np.ndarray, names: Any, key: str, options: Options) -> Found:
    """Return the frame of an array `[time dim]`, or of `[series time dim]` with the series of each
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
    width = x.shape[1]
    check_width(path, width, len(x), options)
    names = [f"x{i}" for i in range(width)] if names is None else list(names)
    if len(names) != width:
        raise ValueError(f"{what} has {width} columns, but {path.name} has {len(names)} names.")
    return Found(pd.DataFrame(x, columns=unique_names(path.name, names)), trials)


# ---- archives ----


def read_npz(path: Path, options: Options) -> Found:
    """Return one array `[time dim]` of an NPZ file with `names` and `dt`; unpack nothing else."""
    with path.open("rb") as raw:
        start = raw.read(8)
    if not start.startswith(b"PK"):
        refuse_signature(path, start, "an NPZ archive")
        is_what = "not an NPZ archive; np.savez(path, x=array) makes one" if start else "empty"
        raise ValueError(f"{path.name} is {is_what}.")
    with opened(path, path.name) as archive:
        members = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        if not members:
            raise ValueError(f"{path.name} holds no array of numbers.")

        def read(name: str) -> np.ndarray | None:
            return read_array(archive, f"{name}.npy", path.name) if name in members else None

        about = {"dt", "names"} | CLOCKS
        left = [name for name in members if name not in about] or members
        key = options.key or (left[0] if len(left) == 1 else "x")
        # Arrays that were not requested are not opened.
        unsaid = [] if options.key or "x" in members else left
        shapes = {array_shape(archive, f"{name}.npy", path.name) for name in unsaid}
        if len(shapes) == 1 == len(min(shapes)):
            found = [read(name) for name in left]  # one series in each array
            x = None if any(s is None for s in found) else np.stack(found, axis=1)
            names, key = np.array(left), ", ".join(left)
        else:
            check_there(path.name, [key], members, "array", " Name one with --key.")
            x, names = read(key), read("names")
        dt, clocks = read("dt"), [name for name in members if name in CLOCKS - {key}]
        time = read(clocks[0]) if clocks and dt is None else None
    if x is None:
        raise ValueError(f"{path.name}[{key!r}] holds objects, not an array of numbers.")
    if dt is not None and (dt.size != 1 or dt.dtype.kind not in "iuf"):
        raise ValueError(f"{path.name}['dt'] must be one number; got shape {dt.shape}.")
    if names is not None and (names.ndim != 1 or names.dtype.kind not in "USiu"):
        got = f"shape {names.shape} and dtype {names.dtype}"
        raise ValueError(f"{path.name}['names'] must be one text per column; got {got}.")
    found = _found(path, x, names, key, options)
    if time is not None and time.shape == (len(found.frame),) and clocks[0] not in found.frame:
        found.frame.insert(0, clocks[0], time)
    return found._replace(dt=None if dt is None else float(dt.item()))


def read_npy(path: Path, options: Options) -> Found:
    """Return an array `[time dim]` or `[series time dim]`; Python objects are never loaded."""
    with blamed_on(path, "a NumPy array"):
        x = np.load(path, mmap_mode="r", allow_pickle=False)
    return _found(path, np.array(x), None, "x", options)


# ---- columns ----


def read_columns(path: Path, options: Options) -> Found:
    """Return the columns of a Parquet or Feather file, or the fields of JSON lines, index first."""
    suffix = path.suffix.lower().replace(".arrow", ".feather")
    kinds = {".parquet": "Parquet", ".feather": "Feather", ".json": "JSON"}
    with blamed_on(path, kind := kinds.get(suffix, "JSON lines")):
        import pandas as pd

        if kind == "Parquet":
            import pyarrow.parquet

            about = pyarrow.parquet.ParquetFile(path).metadata
            check_size(path.name, 8 * about.num_rows * about.num_columns, path.stat().st_size)
            frame = pd.read_parquet(path)
        elif kind == "Feather":
            frame = _read_feather(path)
        else:
            frame = _read_json(path)
    if not isinstance(frame.index, pd.RangeIndex):
        # The name of an index that counts rows makes it the last choice for the time.
        counted = all(str(label) == str(row) for row, label in enumerate(frame.index))
        own, first = frame.index.names, "index" if counted else "time"
        names = [name or (f"level_{i}" if i else first) for i, name in enumerate(own)]
        frame = frame.reset_index(names=names)
    check_width(path, frame.shape[1], len(frame), options)
    frame.columns = unique_names(path.name, list(frame.columns))
    return Found(frame)


def _read_json(path: Path) -> Any:
    """Return JSON as a frame: records, columns, rows, lines of records, or `split`."""
    import pandas as pd

    text = path.read_text("utf-8-sig")
    try:
        data: Any = json.loads(text)
    except json.JSONDecodeError:
        data = [json.loads(line) for line in text.splitlines() if line.strip()]
    parts = list(data.values()) if isinstance(data, dict) else []
    if parts and {"columns", "data"} <= set(data):
        return pd.DataFrame(data["data"], data.get("index"), data["columns"])
    tables = [part for part in parts if isinstance(part, list) and part]
    data = tables[0] if len(tables) == 1 and isinstance(tables[0][0], dict) else data
    # Each record or column may add keys that all others lack.
    records = list(data.values()) if isinstance(data, dict) else data
    keys = set().union(*(record for record in records if isinstance(record, dict)))
    check_size(path.name, 8 * len(records) * len(keys), path.stat().st_size)
    if keys and isinstance(data, dict) and _are_rows(data) and not _are_rows(keys):
        return pd.DataFrame.from_dict(data, orient="index")
    return pd.DataFrame(data)


def _are_rows(keys: Iterable[str]) -> bool:
    """Return whether all keys are dates or row numbers, and not names."""
    return all(key.isdecimal() or is_date(key) for key in keys)


def _read_feather(path: Path) -> Any:
    """Return the messages of a Feather file as a frame, after checking their sizes; offsets in its
    footer are not followed.
    """
    import pandas as pd
    import pyarrow.ipc

    with pyarrow.memory_map(str(path)) as source:
        if source.read(8) != b"ARROW1\0\0":
            refuse_signature(path, path.read_bytes()[:8], "a Feather file")
            return pd.read_feather(path)  # version 1 of the format is never compressed
        messages = pyarrow.ipc.MessageReader.open_stream(source)
        full = (each for each in messages if each.type in ("record batch", "dictionary"))
        announced = sum(_unpacked(each.metadata.to_pybytes(), each.body) for each in full)
        check_size(path.name, announced, path.stat().st_size)
        source.seek(8)
        return pyarrow.ipc.open_stream(source).read_pandas()


def _unpacked(message: bytes, body: Any) -> int:
    """Return the number of bytes that an Arrow message unpacks to.

    Its flat buffer lists the positions of columns; a compressed column begins with its size.
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
    """Return the variables of a NetCDF or Zarr file along one dimension, or one `[time dim]`."""
    group, _, key = (options.key or "").rpartition("/")
    with blamed_on(path, "NetCDF"):
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
        time = min(array.dims, key=lambda d: str(d).lower() not in CLOCKS)
        others = [d for d in array.dims if d != time]
        series = [d for d in others if str(d).lower() in TRIAL_NAMES - {*options.variables}]
        trial = [d for d in others if d == options.trial] or series
        inner = [d for d in others if d not in trial[:1]]
        if len(inner) > 1 and set(inner) != set(options.variables):
            sizes = ", ".join(f"{d} ({array.sizes[d]})" for d in inner)
            remedy = f"--variables {','.join(map(str, inner))}, or which one numbers recordings"
            raise ValueError(
                f"{path.name}[{what!r}] has the dimensions {sizes} and {time}. Say which are "
                f"variables, {remedy}, --trial {inner[0]}. Averages over regions give fewer and "
                "clearer variables."
            )
        array = array.transpose(*trial[:1], time, *inner)
        x = array.to_numpy().reshape(*array.shape[: array.ndim - len(inner)], -1 if inner else 1)
        found = _found(path, x, _labels(array, inner), what, options)
        if time in data.coords:
            stamps = _stamps(data.coords[time])
            names = unique_names(path.name, [time, *found.frame])
            found.frame.insert(0, names[0], np.resize(stamps, len(found.frame)))
        return found


def _variables(path: Path, data: Any, group: str) -> list[str]:
    """Return the variables to use if none is named: all along one dimension, or the only one."""
    if not data.data_vars and not group and (groups := _groups(path)):
        said = f"groups: {', '.join(groups)}. Name one with --key {groups[0]}/VARIABLE."
        raise ValueError(f"{path.name} holds its variables in {said}")
    bounds = {data[name].attrs.get("bounds") for name in data.variables}
    series = ((str(name), x.dims) for name, x in data.squeeze().data_vars.items() if x.ndim)
    edges = ("_bnds", "_bounds")
    long = {n: dims for n, dims in series if n not in bounds and not n.endswith(edges)}
    if len(long) != 1 and [len(dims) for dims in set(long.values())] != [1]:
        names = ", ".join(map(str, data.data_vars))
        raise ValueError(f"{path.name}: name the variable to use with --key; it has: {names}.")
    return list(long)


def _opened_grid(path: Path, group: str) -> Any:
    import xarray

    zarr = {"engine": "zarr", "consolidated": False} if path.suffix.lower() == ".zarr" else {}
    data = xarray.open_dataset(path, decode_times=False, group=group or None, **zarr)
    try:  # numbers with the unit "days" are numbers, not durations
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
    cells = itertools.product(*([(d, v) for v in array[d].to_numpy()] for d in inner))
    return [
        " ".join(f"{d}{v:g}" if isinstance(v, np.number) else str(v) for d, v in cell)
        for cell in cells
    ]


def _stamps(coordinate: Any) -> np.ndarray:
    """Return the times of a coordinate; months, which xarray does not decode, as dates."""
    units, values = str(coordinate.attrs.get("units", "")), coordinate.to_numpy()
    if not units.lower().startswith("months since"):
        return values
    start = np.datetime64(units.split()[2][:7], "M")
    return (start + np.floor(values).astype("timedelta64[M]")).astype("datetime64[s]")
