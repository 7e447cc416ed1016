"""Rows of training data cut from arrays of samples, and checks that there are enough."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .._checks import check_sizes
from ..samples._trajectories import Trajectories, column_name, transposed_hint
from ._stencils import STENCILS


def row_range(n: int, lags: tuple[int, ...], stencil: dict[int, float]) -> tuple[int, int]:
    """Return the first sample that has all its neighbours, and the one after the last."""
    return max(lags[-1], -min(stencil)), n - max(stencil)


def cut_rows(
    z: Any,
    present: Any,
    interval: Any,
    inside: Any,
    lags: tuple[int, ...],
    stencil: dict[int, float],
    xp: Any,
) -> tuple[Any, Any, Any, Any, Any]:
    """Return history, rate, validity and step length of every row of one trajectory, and which rows
    miss a value. With `inside` [time] only rows count of which every step that the difference
    measures begins there.
    """
    start, stop = row_range(len(z), lags, stencil)
    history = xp.stack([z[start - lag : stop - lag] for lag in lags], axis=1)
    step = interval[start:stop]
    difference = sum(c * z[start + o : stop + o] for o, c in stencil.items())
    touched = {-lag for lag in lags} | set(stencil)
    valid = xp.all(xp.stack([present[start + o : stop + o] for o in sorted(touched)]), axis=0)
    asked = np.ones(stop - start, bool)
    if inside is not None:
        steps = range(min(stencil), max(stencil))
        asked = np.all([inside[start + o : stop + o] for o in steps], axis=0)
    missing = asked & ~valid
    valid = asked & valid
    history = xp.where(valid[:, None, None], history, 0)
    return history, difference / step[:, None], valid, step, missing


def positions(data: Trajectories, lags: tuple[int, ...], stencil: dict[int, float]) -> Any:
    """Return the sample indices of all rows, trajectories apart from one another."""
    gap = lags[-1] + max(stencil) - min(stencil) + 1
    positions, offset = [], 0
    for value in data.values:
        positions.append(offset + np.arange(*row_range(len(value), lags, stencil)))
        offset += len(value) + gap
    return np.concatenate(positions)


def moments(values: Any, weight: Any, xp: ModuleType) -> tuple[Any, Any]:
    """Return weighted mean and standard deviation over the first axis."""
    weight = xp.asarray(weight, values.dtype)
    total = xp.sum(weight)
    share = (weight / xp.where(total > 0, total, 1))[:, None]
    mean = xp.sum(share * values, axis=0)
    variance = xp.sum(share * (values - mean[None]) ** 2, axis=0)
    spread = variance > 0
    # The inner where keeps the derivative of the root at 0 from turning into NaN.
    return mean, xp.where(spread, xp.sqrt(xp.where(spread, variance, 1)), 0)


def check_lengths(data: Trajectories, lags: tuple[int, ...], scheme: str) -> None:
    """Raise an error unless every trajectory holds a row, and all together enough."""
    rows = 0
    for i, value in enumerate(data.values):
        start, stop = row_range(len(value), lags, STENCILS[scheme])
        if stop <= start:
            raise ValueError(
                f"trajectory {i} has {len(value)} samples, too short for the largest lag of "
                f"{lags[-1]} samples and {scheme!r} differences; it needs at least "
                f"{start + len(value) - stop + 1}." + transposed_hint(*value.shape)
            )
        rows += stop - start
    check_count(rows, data, "windows can be built")


def check_count(rows: int, data: Trajectories, what: str) -> None:
    """Raise an error for too few rows: a linear drift of the present state alone has dim + 1
    coefficients per target.
    """
    if rows < data.dim + 1:
        raise ValueError(
            f"only {rows} {what}, fewer than dim + 1 = {data.dim + 1}: not even a linear drift is "
            "determined. Use longer data, smaller lags, or fill short gaps first."
            + transposed_hint(sum(len(v) for v in data.values), data.dim)
        )


def check_range(data: Trajectories, names: Sequence[str] | None) -> None:
    """Raise an error for values that would be infinite or zero in the floating type of the
    windows.
    """
    check_sizes(data.dt, data.dtype, "dt")
    for j in range(data.dim):
        for value in data.values:
            check_sizes(value[:, j], data.dtype, f"{column_name(j, names)} of x")


def check_constant(constant: Any, names: Sequence[str] | None) -> None:
    """Raise an error for variables without variation beyond rounding, by name."""
    if constant.any():
        culprits = ", ".join(column_name(int(j), names) for j in np.flatnonzero(constant))
        raise ValueError(
            f"{culprits} of x is constant: it can neither drive nor be driven. Drop it."
        )
