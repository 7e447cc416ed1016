"""What was measured, as one value: read once, and kept with whatever is made from it."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ._masks import mask_at
from ._offsets import OFFSETS
from ._treatments import Treatment


@dataclasses.dataclass(frozen=True)
class Samples:
    """Trajectories of one system, with their times and labels; NumPy, made by
    [`read_samples`][ndde_jax.read_samples].

    Stands wherever measurements are taken, and needs no `dt`, `t` or `names` beside it.

    - `values`: one array `[time dim]` per trajectory, in the unit and precision they came in. NaN
        marks missing values, each variable on its own.
    - `times`: one array `[time]` per trajectory, in `time_unit`; from 0 where only an interval was
        given.
    - `dt`: sampling interval, their mean if it is not `regular`.
    - `regular`: whether samples are equally spaced, to 1e-6.
    - `names`: of the variables.
    - `time_unit`: a word, empty if unknown.
    - `precision`: floating type of what is computed from them, `"float32"` or `"float64"`; empty
        for the default of JAX.
    - `treatments`: what was done to them, in order, by
        [`prepare_samples`][ndde_jax.prepare_samples]; each keeps what it changed.
    - `mask`: which samples may be the present of a window, one bool array `[time]` per trajectory;
        empty if all may.
    """

    values: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    dt: float
    regular: bool
    names: tuple[str, ...]
    time_unit: str = ""
    precision: str = ""
    treatments: tuple[Treatment, ...] = ()
    mask: tuple[np.ndarray, ...] = ()

    @property
    def dim(self) -> int:
        """Number of variables."""
        return self.values[0].shape[1]

    @property
    def present(self) -> tuple[np.ndarray, ...]:
        """Where a value was measured, bool `[time dim]` per trajectory."""
        return tuple(~np.isnan(value) for value in self.values)

    @property
    def offsets(self) -> np.ndarray:
        """What was taken from every recording, `[trajectory dim]`; zeros unless the treatment
        `"offsets"` was asked for.
        """
        none = np.zeros((len(self.values), self.dim))
        found = (t for t in self.treatments if t.name == OFFSETS)
        return sum((np.stack([c[0] for c in t.coefficients]) for t in found), none)

    def as_measured(self) -> "Samples":
        """The samples before all treatments."""
        if not self.treatments:
            return self
        first = self.treatments[0]
        return dataclasses.replace(
            self,
            values=first.values,
            times=first.times,
            dt=first.dt,
            regular=first.regular,
            treatments=(),
            mask=mask_at(self.mask, self.times, first.times) if self.mask else (),
        )

    def __repr__(self) -> str:
        lengths = ", ".join(str(len(value)) for value in self.values)
        unit = f" {self.time_unit}" if self.time_unit else ""
        missing = sum(int(np.isnan(value).sum()) for value in self.values)
        return (
            f"Samples of {', '.join(self.names)}: {lengths} times, "
            f"{'' if self.regular else 'mean '}dt = {self.dt:.6g}{unit}"
            + (f", {missing} values missing" if missing else "")
            + (f", {sum(int(m.sum()) for m in self.mask)} in the mask" if self.mask else "")
            + "".join(f"; {treatment.name}" for treatment in self.treatments)
        )


def as_given(samples: Samples) -> tuple[list, float | None, list | None]:
    """Values, dt and t for what reads raw measurements; exactly one of the two times is None."""
    # Floating arrays of JAX set the precision of what is computed from them.
    kept = samples.precision
    values = [jnp.asarray(value, kept) if kept else value for value in samples.values]
    return (values, samples.dt, None) if samples.regular else (values, None, list(samples.times))
