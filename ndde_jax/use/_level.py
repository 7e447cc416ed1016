"""Between values as they are measured and those that a drift knows: logarithms and ranks, offsets,
seasons and trends.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..samples._offsets import OFFSETS
from ..samples._samples import Samples
from ..samples._transforms import (
    check_logarithm,
    one_transformed,
    restored,
    transformed,
)
from ..samples._treatments import Treatment


@dataclasses.dataclass(frozen=True)
class Level:
    """The way in and out, in NumPy or JAX, for values `[... dim]`.

    - `reading`: logarithms and scores, if any.
    - `offset`: what was taken after them, of the recording, `[dim]`, or with seasons and trends at
        certain times, `[time dim]`.
    """

    reading: Treatment | None
    offset: Any
    names: tuple[str, ...]

    def at(self, k: Any) -> "Level":
        """At the k-th of the times, which may be traced."""
        if self.offset.ndim == 1:
            return self
        return dataclasses.replace(self, offset=jnp.asarray(self.offset)[k])

    def inside(self, values: Any, name: str, xp: Any = np) -> Any:
        """What the drift knows, of measured values that messages call `name`.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        for j in self._logarithms():
            self.check(j, values[..., j], f"{name}, {self.names[j]}")
        return transformed(self.reading, values, xp) - self._offset(values, xp)

    def outside(self, values: Any, xp: Any = np) -> Any:
        """As measured, of what the drift knows."""
        return restored(self.reading, values + self._offset(values, xp), xp)

    def one_inside(self, j: int, values: Any, xp: Any = jnp) -> Any:
        """Of one variable; nothing is checked."""
        return one_transformed(self.reading, j, values, xp) - xp.asarray(
            self.offset[..., j], values.dtype
        )

    def kind(self, j: int) -> str:
        """How a variable is read, `"log"`, `"ranks"` or, as it is, nothing."""
        found = self.reading
        if found is None or j not in found.columns:
            return ""
        return found.kinds[found.columns.index(j)]

    def _logarithms(self) -> list[int]:
        return [j for j in range(len(self.names)) if self.kind(j) == "log"]

    def check(self, j: int, values: Any, name: str) -> None:
        """Whether measured values of a variable, which messages call `name`, can be read.

        **Raises:** `ValueError` for values that have no logarithm.
        """
        if self.kind(j) == "log":
            remedy = f"{self.names[j]} was read as its logarithm: give values above 0."
            check_logarithm(values, name, remedy)

    def _offset(self, values: Any, xp: Any) -> Any:
        """With axes for each of those of the values."""
        offset = xp.asarray(self.offset, values.dtype)
        return offset.reshape((1,) * (values.ndim - offset.ndim) + offset.shape)


def level_of(found: Any, times: Any = None, *, offset: bool = True) -> Level:
    """Of the last recording, whose level is that of forecasts, at times if these are given; without
    `offset`, the common one.
    """
    samples = found.samples
    own = samples.offsets[-1] if offset else np.zeros(samples.dim)
    if times is not None:
        own = own[None] + sum(t.removed(np.asarray(times), -1) for t in removed_in_time(found))
    return Level(samples.reading, own, tuple(samples.names))


def removed_in_time(found: Any) -> list[Treatment]:
    """Seasons and trends."""
    return [t for t in found.samples.treatments if t.coefficients and t.name != OFFSETS]


def read_timed(found: Any, given: Samples, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What the drift knows of one recording with times, `[time dim]`, and these.

    **Raises:** `ValueError` for several recordings, other variables or another interval.
    """
    samples = found.samples
    if len(given.values) != 1 or given.names != samples.names or not given.regular:
        raise ValueError(
            f"{name} must be one recording of {', '.join(samples.names)}, equally spaced; got "
            f"{given!r}."
        )
    if abs(given.dt - float(found.dt)) > 1e-6 * float(found.dt):
        raise ValueError(
            f"{name} must have the interval of the data, {float(found.dt):.6g}; got {given.dt:.6g}."
        )
    times = np.asarray(given.times[0], float)
    values = np.asarray(given.values[0], np.float64)
    return level_of(found, times).inside(values, name), times
