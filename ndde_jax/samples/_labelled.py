"""Names, values and time axis of the container that the measurements come in."""

import os
import warnings
from typing import Any, NamedTuple

import numpy as np

from ._cells import clean_name
from ._clock import Dates, sampling, settled
from ._examples import Example
from ._formats import TIME_NAMES
from ._samples import Samples, as_given
from ._tables import Table, dates_of, from_calendar, read_table, rows_of


class Labelled(NamedTuple):
    """Measurements and their container's labels; `None` where it has none."""

    values: Any
    names: tuple[str, ...] | None
    dt: float | None
    t: Any  # one array, or one per trajectory
    time_unit: str
    mask: tuple[np.ndarray, ...] = ()  # which samples may be the present of a window; empty: all


def read_labelled(x: Any, *, time: bool = True) -> Labelled:
    """Unpack samples, examples, files (as a `Path`), and frames of pandas, Polars, Arrow and
    xarray; return anything else unchanged.

    A pandas Series or DataFrame gives its column names and, from an index of dates, durations or
    numbers that is not a mere row count, its time axis; an index of two levels, such as site and
    day, several recordings. Frames in a list are matched by the names of their columns. An xarray
    DataArray or Dataset must have one dimension for time and at most one for variables.
    Recognised by module, so none has to be installed. Without `time` the time axis is not looked
    at: it may be anything.
    """
    if isinstance(x, Samples):
        values, dt, t = as_given(x)
        return Labelled(values, x.names, dt, t, x.time_unit, x.mask)
    if isinstance(x, Example):
        return Labelled(x.values, x.names, x.dt if time else None, None, x.time_unit)
    many = isinstance(x, list | tuple) and len(x) > 0 and all(map(_kind, x))
    if not (many or _kind(x)):
        return Labelled(x, None, None, None, "")
    return joined([part for item in (x if many else [x]) for part in _parts(item, time)])


def _kind(x: Any) -> str:
    """Return the library that a container belongs to; empty if it carries no labels."""
    module = type(x).__module__.partition(".")[0]
    if module in ("pandas", "xarray"):
        return module
    if isinstance(x, os.PathLike):
        return "file"
    return "frame" if hasattr(x, "__dataframe__") or hasattr(x, "__arrow_c_stream__") else ""


def _parts(x: Any, time: bool) -> list[Labelled]:
    """Return each recording of a container."""
    readers = {"pandas": _from_pandas, "xarray": _from_xarray, "frame": _from_frame}
    return {**readers, "file": _from_file}[_kind(x)](x, time)


def _from_file(path: Any, time: bool) -> list[Labelled]:
    table = read_table(path)
    if table.notices:
        warnings.warn(" ".join(table.notices), stacklevel=6)
    return from_table(table, time=time)


def from_table(table: Table, *, time: bool = True) -> list[Labelled]:
    """Return each recording of a table; with its clock only if `time` is given."""
    parts = []
    for rows in table.recordings:
        stamps = table.stamps[rows] if time and table.stamps is not None else None
        dt, t, unit = _time(stamps) if table.dt is None else (table.dt if time else None, None, "")
        mask = () if table.mask is None else (table.mask[rows],)
        parts.append(Labelled(table.values[rows], table.names, dt, t, unit, mask))
    return parts


def joined(parts: list[Labelled]) -> Labelled:
    """Return several recordings as one, their variables matched by name."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names, values = first.names, []
    for number, part in enumerate(parts):
        value = np.asarray(part.values)
        if names is not None and part.names != names and len(names) > 1:
            if part.names is None or set(part.names) != set(names):
                raise ValueError(
                    f"x: all frames of a list must have the same columns; the first has "
                    f"{_listed(names)}, number {number} has {_listed(part.names)}."
                )
            value = value[:, [part.names.index(name) for name in names]]
        values.append(value)
    masks = tuple(mask for part in parts for mask in part.mask)
    if any(part.time_unit != first.time_unit for part in parts):
        raise ValueError("x: the recordings count time in different units; give dt.")
    steps = [part.dt for part in parts]
    if None not in steps and np.allclose(steps, steps[0], rtol=1e-3, atol=0):
        return Labelled(values, names, steps[0], None, first.time_unit, masks)
    if any(part.dt is None and part.t is None for part in parts):
        return Labelled(values, names, None, None, first.time_unit, masks)
    times = [
        float(part.dt or 1) * np.arange(len(part.values)) if part.t is None else part.t
        for part in parts
    ]
    return Labelled(values, names, None, times, first.time_unit, masks)


def _listed(names: tuple[str, ...] | None) -> str:
    return ", ".join((names or ())[:8]) or "none with names"


def _from_frame(x: Any, time: bool) -> list[Labelled]:
    """Return any other frame, read by the interchange protocols; a column of time stands for the
    index.
    """
    import pandas as pd

    if hasattr(x, "to_pandas"):
        frame = x.to_pandas()
    elif hasattr(x, "__arrow_c_stream__") and hasattr(pd.DataFrame, "from_arrow"):
        frame = pd.DataFrame.from_arrow(x)
    else:
        frame = pd.api.interchange.from_dataframe(x)
    if isinstance(frame, pd.DataFrame):
        dated = [c for c in frame if frame[c].dtype.kind == "M" or str(c).lower() in TIME_NAMES]
        if dated and frame.shape[1] > 1:
            frame = frame.set_index(dated[0])
    return _from_pandas(frame, time)


def _from_pandas(x: Any, time: bool) -> list[Labelled]:
    import pandas as pd

    frame = x.to_frame() if isinstance(x, pd.Series) else x
    # By position: two columns may have the same name, which is for the caller to refuse.
    text = [str(c) for c, kind in frame.dtypes.items() if not _is_real(pd.api.types, kind)]
    if text:
        raise ValueError(
            f"x: all columns must hold real numbers; {', '.join(text)} do not. Drop them with "
            "x.drop(columns=[...]), or make a time column the index with set_index."
        )
    # Columns without names are numbered by pandas.
    numbered = isinstance(frame.columns, pd.RangeIndex) or (x.ndim == 1 and x.name is None)
    labels = [" ".join(map(str, c)) if isinstance(c, tuple) else c for c in frame.columns]
    names = None if numbered else tuple(map(clean_name, labels))
    values = frame.to_numpy(float, na_value=np.nan)
    index = frame.index
    if index.nlevels == 1:
        return [Labelled(values, names, *_time(_stamps(index, pd) if time else None))]
    levels = [index.get_level_values(k) for k in range(index.nlevels)]
    clocks = [
        k for k, level in enumerate(levels)
        if isinstance(level, pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex)
        or str(level.name).lower() in TIME_NAMES
    ]  # fmt: skip
    clock = levels.pop(clocks[0] if clocks else -1)
    groups = np.array([" ".join(map(str, key)) for key in zip(*levels, strict=True)])
    rows = rows_of(groups, len(groups))
    stamps = _stamps(clock, pd) if time else None
    return [Labelled(values[r], names, *_time(None if stamps is None else stamps[r])) for r in rows]


def _stamps(index: Any, pd: Any) -> np.ndarray | None:
    """Return the times of an index; None for one that counts rows or holds texts."""
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return settled(dates_of(index)).stamps
    if isinstance(index, pd.TimedeltaIndex):
        return index.to_numpy()
    if hasattr(index, "calendar") and len(index):  # xarray's CFTimeIndex
        return from_calendar(index.to_numpy())
    counts = isinstance(index, pd.RangeIndex)
    return index.to_numpy(float) if not counts and _is_real(pd.api.types, index.dtype) else None


def _is_real(types: Any, kind: Any) -> bool:
    return types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)


def _from_xarray(x: Any, time: bool) -> list[Labelled]:
    import xarray as xr

    if isinstance(x, xr.Dataset):
        x = x.to_dataarray("variable")
    if x.ndim > 2:
        x = x.squeeze()
    if x.ndim not in (1, 2):
        raise ValueError(
            "x: an xarray object must have one dimension for time and at most one for variables; "
            f"got {x.dims}. Average over the others, or make one of those that are variables: "
            f"x.stack(cell={tuple(map(str, x.dims[1:]))})."
        )
    dated = [d for d in x.dims if d in x.coords and np.issubdtype(x[d].dtype, np.datetime64)]
    named = [d for d in x.dims if str(d).lower() in ("time", "t", "date")]
    others = [d for d in x.dims if d != "variable"] + list(x.dims)
    along = (named + dated + others)[0]
    x = x.transpose(along, ...)
    names = None
    if x.ndim == 2:
        other = x.dims[1]
        labels = x[other].values if other in x.coords else range(x.shape[1])
        names = tuple(clean_name(v if isinstance(v, str) else f"{other}{v}") for v in labels)
    elif x.name is not None:
        names = (clean_name(x.name),)
    if x.dtype.kind not in "fiub":
        raise ValueError(f"x: an xarray object must hold real numbers; got dtype {x.dtype}.")
    stamps = x[along].values if time and along in x.coords else None
    if stamps is not None and len(stamps) and hasattr(stamps[0], "calendar"):
        stamps = from_calendar(stamps)
    elif stamps is not None and stamps.dtype.kind == "M":
        stamps = settled(Dates(stamps)).stamps
    return [Labelled(np.asarray(x.values, float), names, *_time(stamps))]


def _time(stamps: np.ndarray | None) -> tuple[float | None, np.ndarray | None, str]:
    if stamps is None or len(stamps) == 0:
        return None, None, ""
    if stamps.dtype.kind not in "fiuMm":
        raise ValueError(
            f"x: cannot read the time axis, which begins with {stamps[0]!r}; expected numbers or "
            "dates. Pass dt or t instead."
        )
    found = sampling(stamps)
    return (found.dt, None, found.unit) if found.dt is not None else (None, found.times, found.unit)
