"""Between values as they are measured and those that a drift knows: transforms and offsets."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

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
    - `offset`: of the recording, taken after them, `[dim]`.
    """

    reading: Treatment | None
    offset: np.ndarray
    names: tuple[str, ...]

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
            self.offset[j], values.dtype
        )

    def kind(self, j: int) -> str:
        """How a variable is read, `"log"`, `"ranks"` or, as it is, nothing."""
        found = self.reading
        if found is None or j not in found.columns:
            return ""
        return found.kinds[found.columns.index(j)]

    def _logarithms(self) -> list[int]:
        return [j for j in range(len(self.offset)) if self.kind(j) == "log"]

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
        return offset.reshape((1,) * (values.ndim - 1) + offset.shape)


def level_of(found: Any, *, offset: bool = True) -> Level:
    """Of the last recording, whose level is that of forecasts; without `offset`, the common one."""
    samples = found.samples
    own = samples.offsets[-1] if offset else np.zeros(samples.dim)
    return Level(samples.reading, own, tuple(samples.names))
