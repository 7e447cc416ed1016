"""Reading of measurements in any container as [`Samples`][ndde_jax.Samples]."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._checks import check_names, check_sizes, refusal
from .._types import Checked
from ._labelled import read_labelled
from ._masks import read_mask
from ._samples import Samples
from ._trajectories import Trajectories, first_stamps, read_trajectories


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

    **Arguments:** as [`discover`][ndde_jax.discover] takes them; [`Samples`][ndde_jax.Samples] are
    returned as they are, but for what is given beside them. A file is given as a `pathlib.Path`;
    what had to be assumed to read it is a warning, and the options of `ndde-jax discover` are
    those of pandas then: read it with pandas, and pass the frame.

    **Raises:** `ValueError` for what cannot be used, as
    [`lagged_windows`][ndde_jax.lagged_windows].

    ```python
    import numpy as np
    import ndde_jax as ndde

    samples = ndde.read_samples(np.random.default_rng(0).normal(size=(100, 2)), dt=0.5)
    print(samples)  # Samples of x0, x1: 100 times, dt = 0.5
    ```
    """
    if not isinstance(time_unit, str):
        raise refusal("time_unit", "a word, such as 'day'", time_unit)
    if isinstance(x, Samples):
        if not (dt is None and t is None):
            raise ValueError("x carries its times: leave dt and t out.")
        names = x.names if names is None else check_names(names, x.dim)
        lengths = [len(value) for value in x.values]
        kept = x.mask if mask is None else read_mask(mask, lengths)
        return dataclasses.replace(x, names=names, time_unit=time_unit or x.time_unit, mask=kept)
    own_time = dt is None and t is None
    labelled = read_labelled(x, time=own_time)
    if own_time:
        dt, t = labelled.dt, labelled.t
        time_unit = time_unit or labelled.time_unit
    names = labelled.names if names is None else check_names(names, None)
    data = read_trajectories(labelled.values, dt=dt, t=t, names=names)
    if data.xp is not np:
        raise ValueError("measurements that JAX traces cannot be kept; read them outside jit.")
    for value in data.complete:
        check_sizes(value, data.dtype, "x")
    names = tuple(f"x{i}" for i in range(data.dim)) if names is None else tuple(names)
    single = data.epsilon > np.finfo(np.float64).eps
    default = jnp.dtype(data.dtype) == jnp.result_type(float)
    return Samples(
        values=tuple(value.astype(np.float32) if single else value for value in data.complete),
        times=tuple(_times(data, t)),
        dt=float(data.dt),
        regular=data.regular,
        names=names,
        time_unit=time_unit,
        precision="" if default else jnp.dtype(data.dtype).name,
        mask=read_mask(mask, [len(value) for value in data.complete]),
    )


def _times(data: Trajectories, t: Any) -> Iterator[np.ndarray]:
    """Yield the times of each trajectory, counted from its first stamp."""
    starts = [0.0] * len(data.values) if t is None else first_stamps(t, len(data.values))
    for start, intervals in zip(starts, data.intervals, strict=True):
        yield start + np.concatenate([np.zeros(1), np.cumsum(intervals)])
