"""Measurements before windows are cut, for any lags."""

from typing import Any, NamedTuple

import numpy as np

from .._checks import check_names
from .._types import TrajectoryLike
from ..samples._noise import pooled_noise_share, pooled_ringing, pooled_roll_off
from ..samples._reading import read_labelled
from ..samples._trajectories import Trajectories, read_trajectories
from ._rows import check_range


class Measurements(NamedTuple):
    """The measurements read once, for windows of any lags and schemes: trajectories, and estimates
    of their noise, `[dim]`.
    """

    data: Trajectories
    names: tuple[str, ...] | None
    mask: tuple[np.ndarray, ...]
    noise_share: Any
    roll_off: Any
    ringing: Any


def read_measurements(
    x: TrajectoryLike, *, dt: Any = None, t: Any = None, names: Any = None
) -> Measurements:
    """Return measurements as [`lagged_windows`][ndde_jax.lagged_windows] reads them."""
    labelled = read_labelled(x, time=dt is None and t is None)
    names = labelled.names if names is None else check_names(names, None)
    if dt is None and t is None:
        dt, t = labelled.dt, labelled.t
    data = read_trajectories(labelled.values, dt=dt, t=t, names=names)
    if data.xp is np:
        check_range(data, names)
    unknown = data.xp.full((data.dim,), data.xp.nan)
    roll_off = pooled_roll_off(data) if data.regular else unknown
    ringing = pooled_ringing(data) if data.regular else unknown
    return Measurements(data, names, labelled.mask, pooled_noise_share(data), roll_off, ringing)
