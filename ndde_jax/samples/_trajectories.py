"""Raw measurements, checked and converted to one form."""

import itertools
import operator
import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import argument_error, check_names, check_number, is_real, is_traced, short_repr
from .._types import TrajectoryLike
from .._wording import listed

# Maximum number of candidate lags.
MOST_LAGS = 100_000
NONE_COMPLETE = "every sample has a missing value: no window can be built."


class Trajectories(NamedTuple):
    """The trajectories, as lists of arrays of the namespace `xp`: float64 NumPy unless traced."""

    values: list[Any]  # each [time dim], zeros where a sample is missing
    present: list[Any]  # each bool [time]: no variable is missing at this sample
    intervals: list[Any]  # each [time-1]: time between successive samples
    dt: Any  # mean interval
    regular: bool
    starts: list[Any]  # the first time of each
    epsilon: float  # relative rounding error of the input
    dtype: Any  # of computations
    xp: ModuleType
    complete: list[Any]  # each [time dim] as given, NaN where a value is missing

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.values[0].shape[1]


def read_trajectories(x: TrajectoryLike, *, dt: Any, t: Any, names: Any = None) -> Trajectories:
    """Check measurements and their times; raise a `ValueError` for unusable input."""
    series = [_as_array(item) for item in recordings_of(x)]
    if len(series) == 1 and series[0].ndim == 3:
        if not len(series[0]):
            raise ValueError("x is empty: it holds no trajectories.")
        series = list(series[0])
    dtype, epsilon = _precision(series)
    traced = is_traced(series, dt, t)
    xp = jnp if traced else np
    if traced:
        epsilon = max(epsilon, float(jnp.finfo(dtype).eps))
    series = [_as_matrix(a, i, traced, dtype) for i, a in enumerate(series)]
    dim = series[0].shape[1]
    for i, a in enumerate(series):
        if a.shape[1] != dim:
            got = f"trajectory 0 has {dim} columns, trajectory {i} has {a.shape[1]}"
            raise ValueError(f"all trajectories must have the same variables; {got}.")
    if names is not None:
        names = check_names(names, dim)
    if not traced:
        _check_values(series, names)
    present = [~xp.any(xp.isnan(a), axis=1) for a in series]
    values = [xp.where(p[:, None], a, 0) for p, a in zip(present, series, strict=True)]
    intervals, mean, regular, starts = _times(dt, t, list(map(len, series)), xp, dtype)
    return Trajectories(
        values, present, intervals, mean, regular, starts, epsilon, dtype, xp, complete=series
    )


def read_lags(lags: Any) -> tuple[int, ...]:
    """Return lags as a tuple of ints; raise a `ValueError` for anything else."""
    expected = "lags must be whole numbers of samples, ascending, unique and not negative"
    wrong = ValueError(f"{expected}, like (0, 5, 10); got {short_repr(lags)}.")
    try:
        # One more than allowed, because iterators may be infinite.
        items = tuple(itertools.islice(lags, MOST_LAGS + 1))
        result = tuple(operator.index(lag) for lag in items)
    except TypeError as error:
        raise wrong from error
    if len(items) > MOST_LAGS:
        got = f"got more: {short_repr(lags)}. Take every tenth, for example: range(0, stop, 10)."
        raise ValueError(f"lags must be at most {MOST_LAGS} candidates; {got}")
    if any(isinstance(lag, bool | np.bool_) for lag in items):
        raise wrong
    if not result:
        raise ValueError(f"{expected}; got none. Use (0,) for a system without delays.")
    if min(result) < 0 or any(b <= a for a, b in itertools.pairwise(result)):
        raise ValueError(f"{expected}; got {short_repr(result)}.")
    return result


def column_name(j: int, names: Sequence[str] | None) -> str:
    """Return the name of a variable in error messages."""
    return f"column {j}" if names is None else f"column {j} ({names[j]!r})"


def transposed_hint(rows: int, columns: int) -> str:
    """Return a hint for an error message when the array may be transposed."""
    said = f" x has more columns ({columns}) than rows ({rows}): rows are samples and columns are"
    return f"{said} variables, so it may have to be transposed (x.T)." if columns > rows else ""


def recordings_of(x: Any) -> list[Any]:
    """Return the items of a list of arrays; anything else as the only item."""
    many = isinstance(x, list | tuple) and any(getattr(item, "ndim", 0) > 0 for item in x)
    return list(x) if many else [x]


def _as_array(x: Any) -> Any:
    """Return an array of real numbers, not yet converted."""
    if isinstance(x, (str, os.PathLike)):
        raise ValueError(
            f"x must hold real numbers or name a file; got {str(x)!r}, and no such file exists."
        )
    if isinstance(x, np.ma.MaskedArray):
        x = x.astype(float).filled(np.nan)  # type: ignore[attr-defined]
    given = x
    try:
        x = x if isinstance(x, jax.Array) else np.asarray(x)
    except ValueError as error:
        remedy = "pass trajectories of different length as a list of arrays."
        raise ValueError(f"x must be one rectangular array; {remedy}") from error
    if x.dtype == object and x.ndim == 0:
        remedy = "Convert it to a NumPy array or a pandas frame."
        if isinstance(given, Mapping):
            remedy = "Pass variables by name as pandas.DataFrame(x), and recordings as a list."
        raise argument_error("x", "an array, a frame, or a list of these", given, remedy)
    if not is_real(x.dtype):
        got = f"dtype {x.dtype}. Missing values are written as NaN."
        raise ValueError(f"x must hold real numbers; got {got}")
    return x


def _precision(series: list[Any]) -> tuple[Any, float]:
    """Return the floating type of the results, and the rounding error of the input."""
    floats = [a for a in series if jnp.issubdtype(a.dtype, jnp.floating)]
    kept = len(floats) == len(series) and all(isinstance(a, jax.Array) for a in series)
    epsilons = [float(jnp.finfo(a.dtype).eps) for a in floats]
    epsilon = max(epsilons, default=float(np.finfo(float).eps))
    return jnp.result_type(*series) if kept else jnp.result_type(float), epsilon


def _as_matrix(x: Any, i: int, traced: bool, dtype: Any) -> Any:
    """Return a matrix [time dim], in float64 unless traced."""
    if x.ndim not in (1, 2):
        expected = "[time, dim], [time], [series, time, dim], or a list of the first two"
        raise ValueError(f"x must be {expected}; got shape {x.shape} for trajectory {i}.")
    if x.size == 0:
        raise ValueError(f"trajectory {i} is empty: its shape is {x.shape}.")
    x = x[:, None] if x.ndim == 1 else x
    # Row by row, because sums round in memory order, which differs between containers.
    if traced:
        return jnp.asarray(x, dtype)
    x = np.asarray(x, np.float64, order="C")
    missing = np.isnan(x)
    # R's NA is a signalling NaN: NumPy would warn at every sum.
    return np.where(missing, np.nan, x) if missing.any() else x


def _check_values(series: list[Any], names: Sequence[str] | None) -> None:
    """Raise an error for infinite values and for variables without any value."""
    for i, a in enumerate(series):
        if np.isinf(a).any():
            k, j = np.argwhere(np.isinf(a))[0]
            what = f"{column_name(int(j), names)} is infinite at sample {k} of trajectory {i}"
            raise ValueError(f"{what}; mark missing values as NaN.")
    empty = np.isnan(np.concatenate(series)).all(axis=0)
    if empty.any():
        who = listed(column_name(int(j), names) for j in np.flatnonzero(empty))
        raise ValueError(f"{NONE_COMPLETE} Nothing was measured of {who}: leave it out.")


def _times(
    dt: Any, t: Any, lengths: list[int], xp: ModuleType, dtype: Any
) -> tuple[list[Any], Any, bool, list[Any]]:
    """Return the intervals between samples, their mean, whether they are equal, and the first time
    of each trajectory.
    """
    if (dt is None) == (t is None):
        got = "neither" if dt is None else "both"
        both = "dt (sampling interval) and t (time stamps)"
        raise ValueError(f"pass exactly one of {both}; got {got}.")
    if t is None:
        try:
            check_number(dt, "dt", above=0)
        except ValueError:
            raise argument_error("dt", "one positive number", dt) from None
        step = xp.asarray(dt, dtype if xp is jnp else np.float64)
        return [xp.full((n - 1,), step) for n in lengths], step, True, [0.0] * len(lengths)
    stamps = _stamps(t, lengths)
    starts = [stamp[0] for stamp in stamps]
    if is_traced(stamps):
        # Equal spacing cannot be checked on traced stamps.
        intervals = [jnp.diff(jnp.asarray(s, dtype)) for s in stamps]
        return intervals, jnp.mean(jnp.concatenate(intervals)), False, starts
    floats = [s for s in stamps if jnp.issubdtype(s.dtype, jnp.floating)]
    # Large stamps, such as seconds since 1970, are themselves rounded.
    rounding = max((float(np.finfo(s.dtype).eps) * np.abs(s).max() for s in floats), default=0.0)
    intervals = [np.diff(np.asarray(s, np.float64)) for s in stamps]
    for i, interval in enumerate(intervals):
        good = np.isfinite(interval) & (interval > 0)
        if not good.all():
            k = int(np.argmin(good))
            where = f"between samples {k} and {k + 1} of trajectory {i}"
            raise ValueError(f"t must be finite and strictly increasing; it is not {where}.")
    pooled = np.concatenate(intervals)
    mean = pooled.mean() if len(pooled) else np.float64(1.0)
    regular = bool(np.all(np.abs(pooled - mean) <= 1e-6 * mean + 2 * rounding))
    if regular:
        intervals = [np.full_like(interval, mean) for interval in intervals]
    if xp is jnp:
        intervals, mean = [jnp.asarray(each, dtype) for each in intervals], jnp.asarray(mean, dtype)
    return intervals, mean, regular, starts


def _stamps(t: Any, lengths: list[int]) -> list[Any]:
    """Return one vector of time stamps per trajectory, checked."""
    stamps, count = vectors(t, len(lengths)), len(lengths)
    if len(stamps) != count:
        raise ValueError(f"got {len(stamps)} vectors of time stamps for {count} trajectories.")
    for i, (stamp, n) in enumerate(zip(stamps, lengths, strict=True)):
        if not is_real(stamp.dtype):
            remedy = "Convert dates to numbers in a unit of time, such as days since the first."
            raise ValueError(f"t must hold real numbers; got dtype {stamp.dtype}. {remedy}")
        if stamp.shape != (n,):
            got = f"trajectory {i} has {n} samples, but its stamps have shape {stamp.shape}"
            raise ValueError(f"t must have one stamp per sample; {got}.")
    return stamps


def vectors(x: Any, count: int) -> list[Any]:
    """Return one vector per trajectory, not yet checked, from a list or the rows of a matrix; a
    single vector is used for all.
    """
    many = isinstance(x, list | tuple) and any(np.ndim(item) > 0 for item in x)
    found = [a if isinstance(a, jax.Array) else np.asarray(a) for a in (x if many else [x])]
    return found if many else list(found[0]) if found[0].ndim == 2 else found * count
