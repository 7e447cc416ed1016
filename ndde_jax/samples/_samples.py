"""The samples as one value: read once, and stored with every result made from them."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from .._checks import argument_error
from .._wording import listed
from ._clock import step_counts
from ._dates import dates_after, written
from ._trajectories import vectors
from ._treatments import BEFORE, CALENDAR, FORMULAS, LABELS, OFFSETS, TRANSFORM, Treatment, restored

# Treatments that replace missing values by estimates.
ESTIMATES = ("gaps", "impute")


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Trajectories of one system with their times and labels, as NumPy arrays; made by
    [`read_samples`][ndde_jax.read_samples].

    Accepted wherever measurements are, without `dt`, `t` or `names`.

    - `values`: one array `[time dim]` per trajectory, in the unit and precision of the input. NaN
        marks missing values, separately for each variable.
    - `times`: one array `[time]` per trajectory, in `time_unit`; starting at 0 if only an interval
        was given.
    - `dt`: sampling interval; the mean interval if not `regular`.
    - `regular`: whether samples are equally spaced, to 1e-6.
    - `names`: of the variables.
    - `time_unit`: a word, empty if unknown.
    - `precision`: floating type of computations, `"float32"` or `"float64"`; empty for the default
        of JAX.
    - `treatments`: the treatments applied by [`prepare_samples`][ndde_jax.prepare_samples], in
        order; each stores what it changed.
    - `mask`: which samples may be the present of a window, one bool array `[time]` per trajectory;
        empty if all may.
    - `starts`: the date of time 0 of each trajectory, in ISO 8601; empty if dates are unknown.
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
    starts: tuple[str, ...] = ()

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.values[0].shape[1]

    @property
    def present(self) -> tuple[np.ndarray, ...]:
        """A mask of the measured values, bool `[time dim]` per trajectory."""
        return tuple(~np.isnan(value) for value in self.values)

    def dates(
        self, times: Float[np.ndarray, "*times"], trajectory: int = 0
    ) -> Shaped[np.ndarray, "*times"] | None:
        """Return the dates at times of a trajectory, `datetime64` at the resolution of the time
        unit and the sampling interval; None if they are unknown.

        ```python
        import pandas as pd
        import ndde_jax as ndde

        months = pd.date_range("1950-01-01", periods=24, freq="MS")
        samples = ndde.read_samples(pd.DataFrame({"soi": range(24)}, index=months))
        print(samples.dates(samples.times[0][-1:]))  # ['1951-12']
        ```
        """
        start = self.starts[trajectory] if self.starts else ""
        for stamps in (t.times[trajectory] for t in self.treatments if t.name == CALENDAR):
            rows = stamps[0] + self.dt * step_counts((stamps,), self.dt)[0]
            times = times + np.interp(times, rows, stamps - rows)
        return dates_after(start, times, self.time_unit, self.dt) if start else None

    def when(self, index: int, trajectory: int = 0) -> str:
        """Return the date of a sample as text; empty if it is unknown."""
        dates = self.dates(self.times[trajectory][[index]], trajectory)
        return "" if dates is None else written(dates[0])

    @property
    def offsets(self) -> np.ndarray:
        """The constants subtracted from every recording, `[trajectory dim]`, by the treatments
        `"offsets"` and `"level"`; zeros without these.
        """
        return sum(self._constants(), np.zeros((len(self.values), self.dim)))

    @property
    def level(self) -> np.ndarray:
        """The constant subtracted from all recordings, `[dim]`: a level that is large compared with
        the changes of a variable.
        """
        alike = (c[0] for c in self._constants() if (c == c[:1]).all())
        return sum(alike, np.zeros(self.dim))

    def _constants(self) -> list[np.ndarray]:
        """Return the constants that each treatment subtracted, `[trajectory dim]`."""
        found = (t.coefficients for t in self.treatments if t.name == OFFSETS)
        return [np.stack([c[0] for c in coefficients]) for coefficients in found]

    @property
    def reading(self) -> Treatment | None:
        """The treatment `"transform"`, if there is one."""
        return next((t for t in self.treatments if t.name == TRANSFORM), None)

    @property
    def transform(self) -> dict[str, str]:
        """The transformed variables by name, each with its kind, `"log"` or `"ranks"`."""
        found = self.reading
        pairs = zip(found.columns, found.kinds, strict=True) if found else ()
        return {self.names[j]: kind for j, kind in pairs}

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the variables as transformed, such as "log flow"."""
        return self._formatted_names(LABELS)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the variables in equations, such as "log(flow)"."""
        return self._formatted_names(FORMULAS)

    def _formatted_names(self, words: Mapping[str, str]) -> tuple[str, ...]:
        kinds = self.transform
        return tuple(words[kinds[n]].format(n) if n in kinds else n for n in self.names)

    @property
    def estimated(self) -> tuple[np.ndarray, ...]:
        """A mask of estimated values, in short gaps or from
        [`Discovery.impute`][ndde_jax.Discovery.impute], bool `[time dim]` per trajectory.
        """
        found = [np.zeros(value.shape, bool) for value in self.values]
        for treatment in self.treatments:
            if treatment.name in ESTIMATES:
                found = [a | np.isnan(b) for a, b in zip(found, treatment.values, strict=True)]
        return tuple(a & there for a, there in zip(found, self.present, strict=True))

    def as_measured(self) -> "Samples":
        """The samples before all treatments."""
        return self.before(*(treatment.name for treatment in self.treatments[:1]))

    def before(self, *names: str) -> "Samples":
        """The samples before the first treatment with one of these names; unchanged without one."""
        places = (k for k, treatment in enumerate(self.treatments) if treatment.name in names)
        if (first := next(places, None)) is None:
            return self
        before = self.treatments[first].before
        mask = mask_at(self.mask, self.times, before["times"])
        return dataclasses.replace(self, **before, treatments=self.treatments[:first], mask=mask)

    def __repr__(self) -> str:
        lengths = ", ".join(str(len(value)) for value in self.values)
        mean = "" if self.regular else "mean "
        text = f"Samples of {', '.join(self.names)}: {lengths} times, {mean}dt = {self.dt:.6g}"
        text += f" {self.time_unit}" if self.time_unit else ""
        if missing := sum(int(np.isnan(value).sum()) for value in self.values):
            text += f", {missing} values missing"
        text += f", {sum(int(m.sum()) for m in self.mask)} in the mask" if self.mask else ""
        return text + "".join(f"; {treatment.name}" for treatment in self.treatments)


def treated(
    samples: Samples, name: str, text: str, size: Any, columns: Iterable, changes: dict, **kept: Any
) -> Samples:
    """Return changed samples with a record of what they were before."""
    before = {field: getattr(samples, field) for field in BEFORE}
    columns = tuple(int(j) for j in columns)
    treatment = Treatment(name, text, float(size), columns, **before, **kept)
    pairs = zip(changes["values"], samples.values, strict=True)  # keeps the precision
    values = tuple(new.astype(old.dtype, copy=False) for new, old in pairs)
    new = {**changes, "values": values, "treatments": (*samples.treatments, treatment)}
    if "times" in new:
        new.setdefault("mask", mask_at(samples.mask, samples.times, new["times"]))
    return dataclasses.replace(samples, **new)


def in_measured_units(
    samples: Samples, values: Float[np.ndarray, "time dim"], trajectory: int
) -> Float[np.ndarray, "time dim"]:
    """Return values on the grid of treated samples in measured units: removed terms are added back,
    and logarithms and ranks are inverted.
    """
    for treatment in reversed(samples.treatments):
        if treatment.coefficients:
            values = values + treatment.removed(samples.times[trajectory], trajectory)
        values = restored(treatment, values)
    return values


def named(samples: Samples, columns: Iterable) -> str:
    """Return the names of some variables, for a sentence."""
    return listed((samples.names[int(j)] for j in columns), most=4)


def as_given(samples: Samples) -> tuple[list, float | None, list | None]:
    """Return values, dt and t for functions that read raw measurements; exactly one of dt and t is
    None.
    """
    # Floating JAX arrays determine the precision of computations.
    kept = samples.precision
    values = [jnp.asarray(value, kept) if kept else value for value in samples.values]
    return (values, samples.dt, None) if samples.regular else (values, None, list(samples.times))


# ---- masks ----


def read_mask(mask: Any, lengths: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return one bool array per trajectory; an empty sequence if every sample counts.

    **Raises:** `ValueError` for anything but booleans, for another number of samples, and if no
    sample is selected.
    """
    if mask is None:
        return ()
    expected = "booleans, one per sample, [time] (a list of arrays for several trajectories)"
    try:
        parts = [np.asarray(part) for part in vectors(mask, len(lengths))]
    except (TypeError, ValueError):  # nested unevenly
        parts = []
    if not parts or any(part.dtype != bool for part in parts):
        remedy = "Write a condition on the samples, such as np.isin(month, (12, 1, 2))."
        raise argument_error("mask", expected, mask, remedy)
    if [part.shape for part in parts] != [(n,) for n in lengths]:
        got = f"got shapes {listed((part.shape for part in parts), most=6)}"
        known = f"for trajectories of {listed(lengths, most=6)} samples"
        raise ValueError(f"mask must hold one boolean per sample, {known}; {got}.")
    if not any(part.any() for part in parts):
        raise ValueError("mask must be True somewhere: it leaves no sample as the present.")
    return () if all(part.all() for part in parts) else tuple(parts)


def mask_at(
    mask: tuple[np.ndarray, ...], times: Sequence[np.ndarray], new: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Return the mask at other times, by the nearest sample; an empty mask stays empty."""
    places = [np.searchsorted((t[1:] + t[:-1]) / 2, at) for t, at in zip(times, new, strict=True)]
    return tuple(m[at] for m, at in zip(mask, places, strict=bool(mask)))


def describe_mask(mask: tuple[np.ndarray, ...], n_rows: int, n_left: int) -> tuple[str, ...]:
    """Return a sentence about the mask for a report."""
    inside, every = sum(int(part.sum()) for part in mask), sum(map(len, mask))
    only = f"Only the {inside} of {every} samples in the mask serve as the present of a window"
    left = f"{n_left} of {n_rows} windows are left; their past may lie outside the mask"
    whole = "Seasons, trends, noise and measurement errors are estimated on the whole record"
    return (f"{only}: {left}. {whole}, and passing events are not tested for.",) if mask else ()
