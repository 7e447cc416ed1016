"""Names, values and time axis of whatever container the measurements come in."""

from typing import Any, NamedTuple

import numpy as np

from ._examples import Example
from ._samples import Samples, as_given
from ._tables import sampling


class Labelled(NamedTuple):
    """Measurements and what their container says about them; `None` where it says nothing."""

    values: Any
    names: tuple[str, ...] | None
    dt: float | None
    t: np.ndarray | None
    time_unit: str
    mask: tuple[np.ndarray, ...] = ()  # which samples may be the present of a window; empty: all


def read_labelled(x: Any, *, time: bool = True) -> Labelled:
    """Unpack samples, examples, pandas and xarray objects; anything else is returned as it is.

    A pandas Series or DataFrame gives its column names and, from an index of dates, durations or
    numbers that is not a mere row count, its time axis. An xarray DataArray or Dataset must have
    one dimension for time and at most one for variables. Recognised by module, so neither has to be
    installed. Without `time` the time axis is not looked at: it may be anything.
    """
    if isinstance(x, Samples):
        values, dt, t = as_given(x)
        return Labelled(values, x.names, dt, t, x.time_unit, x.mask)
    if isinstance(x, Example):
        return Labelled(x.values, x.names, x.dt if time else None, None, x.time_unit)
    module = type(x).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(x, time)
    if module == "xarray":
        return _from_xarray(x, time)
    return Labelled(x, None, None, None, "")


def _from_pandas(x: Any, time: bool) -> Labelled:
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
    names = None if numbered else tuple(str(c) for c in frame.columns)
    index = frame.index
    stamps = None
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        stamps = index.tz_localize(None).to_numpy("datetime64[ns]")
        if index.tz is not None:
            # Hours are regular in universal time, days and months by the clock on the wall, which
            # daylight saving shifts.
            universal = index.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[ns]")
            stamps = universal if len(np.unique(np.diff(universal))) == 1 else stamps
    elif isinstance(index, pd.TimedeltaIndex):
        stamps = index.to_numpy("timedelta64[ns]")
    elif not isinstance(index, pd.RangeIndex) and _is_real(pd.api.types, index.dtype):
        stamps = index.to_numpy(float)
    return Labelled(frame.to_numpy(float, na_value=np.nan), names, *_time(stamps if time else None))


def _is_real(types: Any, kind: Any) -> bool:
    return types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)


def _from_xarray(x: Any, time: bool) -> Labelled:
    import xarray as xr

    if isinstance(x, xr.Dataset):
        x = x.to_dataarray("variable")
    if x.ndim not in (1, 2):
        raise ValueError(
            "x: an xarray object must have one dimension for time and at most one for variables; "
            f"got {x.dims}. Select or stack the others first."
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
        names = tuple(str(v) if isinstance(v, str) else f"{other}{v}" for v in labels)
    elif x.name is not None:
        names = (str(x.name),)
    if x.dtype.kind not in "fiub":
        raise ValueError(f"x: an xarray object must hold real numbers; got dtype {x.dtype}.")
    stamps = x[along].values if time and along in x.coords else None
    return Labelled(np.asarray(x.values, float), names, *_time(stamps))


def _time(stamps: np.ndarray | None) -> tuple[float | None, np.ndarray | None, str]:
    if stamps is None or len(stamps) == 0:
        return None, None, ""
    if np.issubdtype(stamps.dtype, np.timedelta64):
        stamps = np.datetime64(0, "ns") + stamps
    if stamps.dtype.kind not in "fiuM":
        raise ValueError(
            f"x: cannot read the time axis, which begins with {stamps[0]!r}; expected numbers or "
            "dates. Pass dt or t instead."
        )
    dt, unit, numbers = sampling(stamps)
    return (dt, None, unit) if dt is not None else (None, numbers, unit)
