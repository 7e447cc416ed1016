"""Names, values and time axis of whatever container the measurements come in."""

from typing import Any, NamedTuple

import numpy as np

from ._tables import sampling


class Labelled(NamedTuple):
    """Measurements and what their container says about them; `None` where it says nothing."""

    values: Any
    names: tuple[str, ...] | None
    dt: float | None
    t: np.ndarray | None
    time_unit: str


def read_labelled(x: Any) -> Labelled:
    """Unpack pandas and xarray objects; anything else is returned as it is.

    A pandas Series or DataFrame gives its column names and, from a datetime or numeric index that
    is not a mere row count, its time axis. An xarray DataArray or Dataset must have one dimension
    for time and at most one for variables. Recognised by module, so neither has to be installed.
    """
    module = type(x).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(x)
    if module == "xarray":
        return _from_xarray(x)
    return Labelled(x, None, None, None, "")


def _from_pandas(x: Any) -> Labelled:
    import pandas as pd

    frame = x.to_frame() if isinstance(x, pd.Series) else x
    text = [str(c) for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]
    if text:
        raise ValueError(
            f"all columns must be numeric; got {', '.join(text)}. Drop them, or make a time column "
            "the index with set_index."
        )
    names = tuple(f"x{i}" if c is None else str(c) for i, c in enumerate(frame.columns))
    index = frame.index
    stamps = None
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if not isinstance(index, pd.RangeIndex):
        if isinstance(index, pd.DatetimeIndex):
            stamps = index.tz_localize(None).to_numpy("datetime64[ns]")
        elif pd.api.types.is_numeric_dtype(index.dtype):
            stamps = index.to_numpy(float)
    return Labelled(frame.to_numpy(float, na_value=np.nan), names, *_time(stamps))


def _from_xarray(x: Any) -> Labelled:
    import xarray as xr

    if isinstance(x, xr.Dataset):
        x = x.to_dataarray("variable")
    if x.ndim not in (1, 2):
        raise ValueError(
            "an xarray object must have one dimension for time and at most one for variables; got "
            f"{x.dims}. Select or stack the others first."
        )
    dated = [d for d in x.dims if d in x.coords and np.issubdtype(x[d].dtype, np.datetime64)]
    named = [d for d in x.dims if str(d).lower() in ("time", "t", "date")]
    time = (named + dated + [d for d in x.dims if d != "variable"])[0]
    x = x.transpose(time, ...)
    names = None
    if x.ndim == 2:
        other = x.dims[1]
        labels = x[other].values if other in x.coords else range(x.shape[1])
        names = tuple(str(v) if isinstance(v, str) else f"{other}{v}" for v in labels)
    elif x.name is not None:
        names = (str(x.name),)
    stamps = x[time].values if time in x.coords else None
    return Labelled(np.asarray(x.values, float), names, *_time(stamps))


def _time(stamps: np.ndarray | None) -> tuple[float | None, np.ndarray | None, str]:
    if stamps is None:
        return None, None, ""
    dt, unit, numbers = sampling(stamps)
    return (dt, None, unit) if dt is not None else (None, numbers, unit)
