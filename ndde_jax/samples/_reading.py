"""Reading measurements from any container as [`Samples`][ndde_jax.Samples].

Containers are recognised by the name of their module, so none has to be installed.
"""

import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._checks import check_kind, check_names, check_sizes
from .._types import Checked
from .._wording import amount, unit_ratio
from ._cells import clean_name, listed_names
from ._clock import sampling
from ._dates import regular_reading, typed_stamps
from ._examples import Example
from ._formats import CLOCKS, TRIAL_NAMES
from ._samples import Samples, as_given, read_mask
from ._tables import Table, read_table, rows_of
from ._trajectories import Trajectories, read_trajectories, recordings_of, vectors

# Sampling intervals may differ by this share, as with rounded clocks.
SAME_INTERVAL = 1e-3
RESAMPLE = "Resample the record to the interval of the discovery."


def read_samples(
    x: Any,
    *,
    dt: Any = None,
    t: Any = None,
    names: Checked[Sequence[str] | None] = None,
    time_unit: Checked[str] = "",
    mask: Any = None,
) -> Samples:
    """Return measurements in any container, checked, as one value.

    **Arguments:** the same as for [`discover`][ndde_jax.discover]. [`Samples`][ndde_jax.Samples]
    are returned unchanged, except for names and mask given with them, and a unit if they have none.
    A file is given by its name or as a `pathlib.Path`; assumptions made to read it are issued as a
    warning. For other choices, read the file with pandas and pass the frame.

    **Raises:** `ValueError` for unusable input, as [`lagged_windows`][ndde_jax.lagged_windows].

    ```python
    import numpy as np
    import ndde_jax as ndde

    samples = ndde.read_samples(np.random.default_rng(0).normal(size=(100, 2)), dt=0.5)
    print(samples)  # Samples of x0, x1: 100 times, dt = 0.5
    ```
    """
    check_kind(time_unit, str, "time_unit", "a word, such as 'day'")
    own_time = dt is None and t is None
    if isinstance(x, Samples):
        if not own_time:
            raise ValueError("x has its own times: omit dt and t.")
        names = x.names if names is None else check_names(names, x.dim)
        kept = x.mask if mask is None else read_mask(mask, list(map(len, x.values)))
        unit = time_unit or x.time_unit
        if x.time_unit and unit_ratio(x.time_unit, unit) != 1:
            raise ValueError(
                f"time_unit must be that of x, {x.time_unit!r}; got {time_unit!r}. Omit it."
            )
        starts = x.starts if unit == x.time_unit else ()
        return dataclasses.replace(x, names=names, time_unit=unit, mask=kept, starts=starts)
    labelled, data = read_clocked(x, dt, t, names, time_unit)
    # With another clock or unit than the container's, dates are unknown.
    starts = labelled.starts if own_time and time_unit in ("", labelled.time_unit) else ()
    time_unit = time_unit or labelled.time_unit if own_time else time_unit
    if data.xp is not np:
        raise ValueError("measurements traced by JAX cannot be stored; read them outside jit.")
    for value in data.complete:
        check_sizes(value, data.dtype, "x")
    names = tuple(labelled.names or (f"x{i}" for i in range(data.dim)))
    kind = np.float32 if data.epsilon > np.finfo(np.float64).eps else np.float64
    values = tuple(value.astype(kind, copy=False) for value in data.complete)
    pairs = zip(data.starts, data.intervals, strict=True)
    times = tuple(float(start) + np.append(0.0, np.cumsum(steps)) for start, steps in pairs)
    dtype = jnp.dtype(data.dtype)
    precision = "" if dtype == jnp.result_type(float) else dtype.name
    kept = read_mask(mask, list(map(len, values)))
    regular, dt = data.regular, float(data.dt)
    return Samples(values, times, dt, regular, names, time_unit, precision, (), kept, starts)


def read_clocked(
    x: Any, dt: Any, t: Any, names: Any, time_unit: str = ""
) -> "tuple[Labelled, Trajectories]":
    """Return measurements with labels, and as trajectories; names and clock are those given, else
    those of the container, in the unit given.
    """
    found = read_labelled(x, time=dt is None and t is None)
    if dt is None and t is None:
        dt, t = _counted_in(time_unit, found)
        if dt is None and t is None and found.starts:
            raise ValueError("Expected at least two time stamps; x has one and no interval.")
    found = found._replace(names=found.names if names is None else check_names(names, None))
    return found, read_trajectories(found.values, dt=dt, t=t, names=found.names)


def _counted_in(unit: str, found: "Labelled") -> tuple[Any, Any]:
    """Return the interval and the stamps of a container in a unit of time, or in its own."""
    ratio = unit_ratio(found.time_unit or unit, unit or found.time_unit)
    if ratio is None:
        raise ValueError(
            f"time_unit must be one to which the times of x, in the unit {found.time_unit!r}, can "
            f"be converted; got {unit!r}. Omit it, or give the sampling interval dt in that unit."
        )
    dt, t = found.dt, found.t
    if ratio == 1:
        return dt, t
    if t is not None:
        t = [ratio * each for each in t] if isinstance(t, list) else ratio * t
    return None if dt is None else ratio * dt, t


def read_alike(known: Samples, other: Any, *, wanted_by: str, time: bool = True) -> "Labelled":
    """Return another record with the variables, their order and the time unit of the first; a
    record without a clock gets the interval of the first.

    **Arguments:**

    - `known`: the first record.
    - `other`: as for [`discover`][ndde_jax.discover]. Named columns are matched by name, and there
        may be others; columns of arrays must be those of the first record.
    - `wanted_by`: the caller, for messages.
    - `time`: whether to read its clock.

    **Raises:** `ValueError` for other variables or another sampling interval.
    """
    found = read_labelled(other, time=time)
    records = recordings_of(found.values)
    records = list(records[0]) if np.ndim(records[0]) == 3 else records
    values = [_columns_of(np.asarray(record), known.dim) for record in records]
    names = known.names if found.names is None else found.names
    wrong = [value.shape for value in values if value.shape[1:] != (len(names),)]
    if wrong or not set(known.names) <= set(names):
        got = f"an array of shape {wrong[0]}" if wrong else listed_names(names)
        expected = f"the variables {listed_names(known.names)}, one column each"
        raise ValueError(f"{wanted_by} expected {expected}; got {got}.")
    order = [names.index(name) for name in known.names]
    found = found._replace(values=[value[:, order] for value in values], names=known.names)
    if not time or (found.dt is None and found.t is None):
        return found._replace(dt=known.dt, t=None, time_unit=known.time_unit)
    unit = known.time_unit or found.time_unit
    ratio = unit_ratio(found.time_unit or unit, unit)
    if ratio is None:
        got = f"the unit {known.time_unit!r}; got {found.time_unit!r}"
        raise ValueError(f"{wanted_by} expected times in {got}. {RESAMPLE}")
    stamps, step = None, (found.dt or 0.0) * ratio
    if found.dt is None:
        stamps = [np.asarray(stamp, float) * ratio for stamp in vectors(found.t, len(values))]
        steps = np.concatenate([np.diff(stamp) for stamp in stamps])
        if not len(steps):  # single samples, whose dates are known
            return found._replace(dt=known.dt, t=None, time_unit=unit)
        step = float(steps.mean())
    if not abs(step / known.dt - 1) < SAME_INTERVAL:
        got = f"{amount(known.dt, unit, 6)}; got {amount(step, unit, 6)}"
        raise ValueError(f"{wanted_by} expected a sampling interval of {got}. {RESAMPLE}")
    return found._replace(dt=step if stamps is None else None, t=stamps, time_unit=unit)


def _columns_of(value: np.ndarray, dim: int) -> np.ndarray:
    """Return a matrix; a vector is a record of one variable, or one sample of several."""
    return value.reshape(-1, 1) if value.ndim == 1 and dim == 1 else np.atleast_2d(value)


# ---- containers ----


class Labelled(NamedTuple):
    """The measurements and the labels of their container, `None` if it has none."""

    values: Any
    names: tuple[str, ...] | None
    dt: float | None
    t: Any  # one array, or one per trajectory
    time_unit: str
    mask: tuple[np.ndarray, ...] = ()  # which samples may be the present of a window; empty: all
    starts: tuple[str, ...] = ()  # the date of time 0 of each recording; empty if unknown


def read_labelled(x: Any, *, time: bool = True) -> Labelled:
    """Unpack samples, examples, files (by name), and frames of pandas, Polars, Arrow and xarray;
    return anything else unchanged.

    A pandas Series or DataFrame provides its column names. An index of dates, durations or numbers,
    other than a mere row count, provides its time axis. An index of two levels, such as site and
    day, gives several recordings. Frames in a list are matched by their column names. An xarray
    DataArray or Dataset must have one dimension for time and at most one for variables; one called
    member, series, trial or similar separates recordings, as in files. Without `time` the time axis
    is ignored and may be anything.
    """
    if isinstance(x, Samples):
        values, dt, t = as_given(x)
        return Labelled(values, x.names, dt, t, x.time_unit, x.mask, x.starts)
    if isinstance(x, Labelled):
        return x
    if isinstance(x, Example):
        starts = (_start(x.time),) if time else ()
        dt = x.dt if time else None
        return Labelled(x.values, x.names, dt, None, x.time_unit, starts=starts)
    items = list(x) if isinstance(x, list | tuple) else [x]
    readers = [_reader(item) for item in items]
    if not any(readers):
        return Labelled(x, None, None, None, "")
    if None in readers:
        raise ValueError(
            "x: a list must hold frames or arrays, not both, because columns of frames are matched "
            "by name and columns of arrays by position. Convert all of them to frames."
        )
    pairs = zip(readers, items, strict=True)
    return joined([part for reader, item in pairs if reader for part in reader(item, time)])


def _reader(x: Any) -> Callable[[Any, bool], list["Labelled"]] | None:
    """Return the reader for a container; None if it has no labels."""
    if isinstance(x, os.PathLike) or (isinstance(x, str) and os.path.exists(x)):
        return _from_file
    module = type(x).__module__.partition(".")[0]
    if module in ("pandas", "xarray"):
        return _from_pandas if module == "pandas" else _from_xarray
    other = hasattr(x, "__dataframe__") or hasattr(x, "__arrow_c_stream__")
    return _from_frame if other else None


def _from_file(path: Any, time: bool) -> list[Labelled]:
    table = read_table(path)
    if table.notices:
        warnings.warn(" ".join(table.notices), stacklevel=5)
    return from_table(table, time=time)


def from_table(table: Table, *, time: bool = True) -> list[Labelled]:
    """Return each recording of a table, with its clock only if `time` is true."""
    own = table.dt if time else None
    stamps = table.stamps if time and own is None else None
    parts = []
    for rows in table.recordings:
        part = _timed(table.values, table.names, stamps, rows)
        dt = part.dt if own is None else own
        unit = part.time_unit or (table.unit if stamps is not None else "")
        mask = () if table.mask is None else (table.mask[rows],)
        parts.append(part._replace(dt=dt, time_unit=unit, mask=mask))
    return parts


def joined(parts: list[Labelled]) -> Labelled:
    """Return several recordings as one, their variables matched by name."""
    first, names = parts[0], parts[0].names
    if len(parts) == 1:
        return first
    values, clocks = [], []
    for number, part in enumerate(parts):
        ratio = unit_ratio(part.time_unit, first.time_unit)
        if ratio is None:
            one, other = (f"{p.time_unit}s" if p.time_unit else "no unit" for p in (first, part))
            got = f"the first recording counts time in {one}, number {number} in {other}"
            raise ValueError(f"x: {got}. Resample them to one interval; if they have one, pass dt.")
        dt, t = part.dt, part.t
        clocks.append((None if dt is None else ratio * dt, None if t is None else ratio * t))
        value, own = np.asarray(part.values), part.names or ()
        if names is not None and own != names and len(names) > 1:
            if set(own) != set(names):
                other = f"number {number} has {listed_names(own) or 'no names'}"
                got = f"the first has {listed_names(names)}, {other}"
                raise ValueError(f"x: all frames of a list must have the same columns; {got}.")
            value = value[:, [own.index(name) for name in names]]
        values.append(value)
    dt, times, steps = None, None, [step for step, _ in clocks if step is not None]
    if len(steps) == len(parts):
        dt, number = steps[0], int(np.argmax(np.abs(np.divide(steps, steps[0]) - 1)))
        if not abs(steps[number] / dt - 1) < SAME_INTERVAL:
            one, other = (amount(step, first.time_unit, 6) for step in (dt, steps[number]))
            got = f"the first recording has one sample every {one}, number {number} every {other}"
            raise ValueError(f"x: {got}. Resample them to one interval.")
    elif all(step is not None or t is not None for step, t in clocks):
        pairs = zip(clocks, values, strict=True)
        times = [step * np.arange(len(value)) if step else t for (step, t), value in pairs]
    masks = tuple(mask for part in parts for mask in part.mask)
    starts = tuple(start for part in parts for start in part.starts)
    starts = starts if len(starts) == len(parts) else ()
    return Labelled(values, names, dt, times, first.time_unit, masks, starts)


def _from_frame(x: Any, time: bool) -> list[Labelled]:
    """Return any other frame, read by interchange protocols; a time column is the index."""
    import pandas as pd

    if hasattr(x, "to_pandas"):
        frame = x.to_pandas()
    elif hasattr(x, "__arrow_c_stream__") and hasattr(pd.DataFrame, "from_arrow"):
        frame = pd.DataFrame.from_arrow(x)
    else:
        frame = pd.api.interchange.from_dataframe(x)
    columns = frame if isinstance(frame, pd.DataFrame) and frame.shape[1] > 1 else ()
    dated = [c for c in columns if frame[c].dtype.kind == "M" or str(c).lower() in CLOCKS]
    frame = frame.set_index(dated[0]) if dated else frame
    return _from_pandas(frame, time)


def _from_pandas(x: Any, time: bool) -> list[Labelled]:
    import pandas as pd

    if not isinstance(x, pd.Series | pd.DataFrame):
        kind = f"a pandas {type(x).__name__}"
        raise ValueError(f"x must be a DataFrame, a Series, or a list of them; got {kind}.")
    frame = x.to_frame() if isinstance(x, pd.Series) else x
    # By position: two columns may have the same name, which the caller rejects.
    text = [str(c) for c, kind in frame.dtypes.items() if not _is_real(kind)]
    if text:
        raise ValueError(
            f"x: all columns must hold real numbers; {', '.join(text)} do not. For numbers of "
            "dtype object, use x.astype(float). Otherwise drop them with x.drop(columns=[...]), or "
            "make a time column the index with set_index; if another column identifies the "
            "recordings, with set_index([recording, time])."
        )
    # Columns without names are numbered by pandas.
    numbered = isinstance(frame.columns, pd.RangeIndex) or (x.ndim == 1 and x.name is None)
    labels = [" ".join(map(str, c)) if isinstance(c, tuple) else c for c in frame.columns]
    labels = [f"column {j + 1}" if pd.isna(c) or c == "" else c for j, c in enumerate(labels)]
    names = None if numbered else tuple(map(clean_name, labels))
    values, index = frame.to_numpy(float, na_value=np.nan), frame.index
    levels = [index.get_level_values(k) for k in range(index.nlevels)]
    dated = pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex
    timed = [isinstance(level, dated) or str(level.name).lower() in CLOCKS for level in levels]
    clock = levels.pop(timed.index(True) if any(timed) else -1)
    keys = [" ".join(map(str, key)) for key in zip(*levels, strict=True)]
    stamps = _stamps(clock) if time else None
    rows = rows_of(np.array(keys) if levels else None, len(values))
    return [_timed(values, names, stamps, each) for each in rows]


def _stamps(index: Any) -> np.ndarray | None:
    """Return the times of an index; None if it counts rows or holds text other than dates."""
    import pandas as pd

    index = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    if pd.api.types.is_string_dtype(index):
        dates = pd.to_datetime(index, format="ISO8601", errors="coerce")
        index = index if dates.isna().any() else dates
    if (typed := typed_stamps(index)) is not None:
        return regular_reading(typed).stamps
    counts = isinstance(index, pd.RangeIndex) or not _is_real(index.dtype)
    return None if counts else index.to_numpy(float)


def _is_real(kind: Any) -> bool:
    from pandas.api.types import is_complex_dtype, is_numeric_dtype

    return is_numeric_dtype(kind) and not is_complex_dtype(kind)


def _from_xarray(x: Any, time: bool) -> list[Labelled]:
    import xarray as xr

    x = x.to_dataarray("variable") if isinstance(x, xr.Dataset) else x
    x = x.squeeze() if x.ndim > 2 else x
    named = [d for d in x.dims if str(d).lower() in ("time", "t", "date")]
    dated = [d for d in x.dims if d in x.coords and x[d].dtype.kind == "M"]
    others = [d for d in x.dims if d != "variable"] + list(x.dims)
    along = (named + dated + others + [""])[0]
    trials = [d for d in x.dims if str(d).lower() in TRIAL_NAMES and d != along]
    if x.ndim == 3 and len(trials) == 1:
        each = range(x.sizes[trials[0]])
        return [p for k in each for p in _from_xarray(x.isel({trials[0]: k}, drop=True), time)]
    if x.ndim not in (1, 2):
        cells = f"stack(cell={tuple(str(d) for d in x.dims if d != along)})"
        raise ValueError(
            "x: an xarray object must have one dimension for time and at most one for variables; "
            f"got {x.dims}. Average over the others, or combine those that are variables, "
            f"{'x.to_dataarray()' if 'variable' in x.dims else 'x'}.{cells}. Pass recordings as a "
            "list, or call their dimension trial."
        )
    if x.dtype.kind not in "fiub":
        raise ValueError(f"x: an xarray object must hold real numbers; got dtype {x.dtype}.")
    x = x.transpose(along, ...)
    if time and along in x.coords and _stamps(x.indexes[along]) is None:
        got = f"which starts with {x.indexes[along][0]!r}; expected numbers or dates"
        raise ValueError(f"x: cannot read the time axis, {got}. Pass dt or t instead.")
    frame = x.to_pandas()
    if x.ndim == 2:
        other = x.dims[1]
        frame.columns = [v if isinstance(v, str | tuple) else f"{other}{v}" for v in frame.columns]
    return _from_pandas(frame, time)


def _timed(values: Any, names: Any, stamps: np.ndarray | None, rows: np.ndarray) -> Labelled:
    """Return some rows with the interval of their stamps, or with the stamps as numbers if there is
    no interval; with their unit, and the date from which they are counted.
    """
    if stamps is None or len(stamps) == 0:
        return Labelled(values[rows], names, None, None, "")
    starts = (_start(stamps[rows]),) if stamps.dtype.kind == "M" else ()
    if starts and len(rows) == 1:
        return Labelled(values[rows], names, None, None, "", starts=starts)  # no interval yet
    found = sampling(stamps[rows])
    times = None if found.dt is not None else found.times
    return Labelled(values[rows], names, found.dt, times, found.unit, starts=starts)


def _start(stamps: np.ndarray) -> str:
    return str(stamps[0].astype("datetime64[us]"))
