"""Treatments applied to measurements before any fit, stored so that they can be undone.

A treatment maps `Samples` to `Samples` and stores what it changed, so nothing is lost: the report
says what was done, `Samples.as_measured` undoes it, and a forecast adds a season back.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._checks import argument_error, check_kind, is_traced, short_repr
from .._wording import listed

# Recordings of one system that differ by a constant, such as the height of a gauge.
OFFSETS = "offsets"
# Inputs that hold their value between the ticks of a clock.
HELD = "held"
# Variables that repeat themselves.
SCHEDULE = "schedule"
# A nearly regular clock, whose rows count as its usual step.
CALENDAR = "calendar"
# Fields of the samples before a treatment, stored with it.
BEFORE = ("values", "times", "dt", "regular")
TRANSFORM = "transform"
# Names of a transformed variable: in figures and tables of effects, and in equations.
LABELS = {"log": "log {}", "ranks": "score of {}"}
FORMULAS = {"log": "log({})", "ranks": "score({})"}
KINDS = tuple(LABELS)
# In sentences: for one variable, for several, and the unit.
READ_AS = {
    "log": ("its logarithm", "their logarithms", "the logarithm"),
    "ranks": ("the normal scores of its ranks", "normal scores of their ranks", "the scores"),
}
# Scores continue beyond the data along the line through the outermost tenth, this far.
OUTER, FAR = 1.2816, 1e4


@dataclasses.dataclass(frozen=True, eq=False)
class Treatment:
    """A treatment of samples, with the NumPy arrays that undo it.

    - `name`: its name, such as `"season"`.
    - `text`: a sentence on what was done, for the report.
    - `size`: the number behind it, of the kind that the sentence states.
    - `columns`: numbers of the treated variables.
    - `values`, `times`, `dt`, `regular`: those of the samples before.
    - `periods`: periods of the seasons removed, in units of time; empty for other treatments.
    - `coefficients`: coefficients of the removed terms, `[term dim]` per trajectory: a constant,
        the time since the first sample, then cosine and sine of every period. Empty if nothing was
        removed.
    - `kinds`: the transforms, `"log"` or `"ranks"`, one for each of `columns`; empty for other
        treatments.
    - `tables`: distinct values and their normal scores, `[knot 2]`, for each of `columns`; without
        rows for a logarithm.
    """

    name: str
    text: str
    size: float
    columns: tuple[int, ...]
    values: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    dt: float
    regular: bool
    periods: tuple[float, ...] = ()
    coefficients: tuple[np.ndarray, ...] = ()
    kinds: tuple[str, ...] = ()
    tables: tuple[np.ndarray, ...] = ()

    @property
    def before(self) -> dict[str, Any]:
        """The stored fields of the samples before the treatment, by name."""
        return {field: getattr(self, field) for field in BEFORE}

    def removed(
        self, times: Float[np.ndarray, "time"], trajectory: int = 0
    ) -> Float[np.ndarray, "time dim"]:
        """Return the terms removed from a trajectory, continued to any times; zeros if there are
        none.

        ```python
        import numpy as np
        import ndde_jax as ndde

        rng, t = np.random.default_rng(0), np.arange(600.0)
        x = np.sin(2 * np.pi * t / 12)[:, None] + 0.3 * rng.normal(size=(600, 2))
        samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0, time_unit="month"))
        (season,) = samples.treatments
        print(season.removed(np.arange(600.0, 612.0))[:, 0])  # the next year of it
        ```
        """
        if not self.coefficients:
            return np.zeros((len(times), self.values[0].shape[1]))
        elapsed = np.asarray(times, float) - self.times[trajectory][0]
        return terms(elapsed, self.periods) @ self.coefficients[trajectory]


def terms(
    elapsed: Float[np.ndarray, "time"], periods: tuple[float, ...]
) -> Float[np.ndarray, "time term"]:
    """Return a constant, the time, and cosine and sine of every period."""
    columns = [np.ones_like(elapsed), elapsed]
    for period in periods:
        angle = 2 * np.pi * elapsed / period
        columns += [np.cos(angle), np.sin(angle)]
    return np.stack(columns, axis=1)


def offsets_of(
    values: Sequence[np.ndarray], known: Bool[np.ndarray, "dim"]
) -> tuple[Float[np.ndarray, "recording dim"], Float[np.ndarray, "dim"]]:
    """Return the offset of each recording's mean from the common mean, 0 for known inputs and if
    nothing was measured; and the spread of offsets, in standard deviations within recordings.
    """
    counts = np.stack([np.isfinite(x).sum(axis=0) for x in values])
    sums = np.stack([np.nansum(np.asarray(x, float), axis=0) for x in values])
    means = sums / np.maximum(counts, 1)
    total = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    offsets = np.where((counts > 0) & ~known[None], means - total[None], 0.0)
    left = sum(np.nansum((x - m[None]) ** 2, axis=0) for x, m in zip(values, means, strict=True))
    within = np.sqrt(left / np.maximum(counts.sum(axis=0), 1))
    return offsets, offsets.std(axis=0) / np.where(within > 0, within, 1.0)


# ---- logarithms and normal scores ----


def read_transform(transform: Any, names: tuple[str, ...]) -> dict[str, str]:
    """Return the kinds of transform by variable name, in the order of the variables.

    **Raises:** `ValueError` for anything but a kind or a mapping from variables to kinds.
    """
    kinds = " or ".join(map(repr, KINDS))
    expected = f"a mapping from variables to {kinds}, or one of these for all variables"
    if transform is None:
        return {}
    if isinstance(transform, str):
        transform = dict.fromkeys(names, transform)
    check_kind(transform, Mapping, "transform", expected, 'Write transform={"flow": "log"}.')
    for name, kind in transform.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise argument_error("transform", expected, kind)
        if name not in names:
            known = f"variables are {', '.join(names[:20])}"
            raise ValueError(
                f"transform names {short_repr(name)}, which is not a variable; {known}."
            )
    return {name: transform[name] for name in names if name in transform}


def check_logarithm(values: Any, name: str, remedy: str) -> None:
    """Raise an error unless all values to be logged are above 0; traced numbers are not checked.

    **Raises:** `ValueError` that says how many are not above 0, and what to do.
    """
    if is_traced(values):
        return
    values = np.asarray(values, float)
    count, smallest = int((values <= 0).sum()), f"{np.nanmin(values, initial=np.inf):.4g}"
    what, verb = f"{count} of {values.size} values", "have" if count > 1 else "has"
    why = f", which exists only above 0 (the smallest is {smallest})"
    if values.size == 1:
        what, why = smallest, ""
    if count:
        raise ValueError(f"{name}: {what} {verb} no logarithm{why}. {remedy}")


def scores_of(values: Float[np.ndarray, "time"], name: str) -> Float[np.ndarray, "knot 2"]:
    """Return the distinct values, ascending, and their normal scores, with a point far beyond
    either end.

    The r-th of n ordered values has the score below which a standard normal lies with probability
    r/(n + 1); equal values have their mean score.

    **Raises:** `ValueError` for fewer than two different values.
    """
    from scipy.special import ndtri

    known = np.sort(values[np.isfinite(values)])
    different, slot = np.unique(known, return_inverse=True)
    if len(different) < 2:
        few = f"{name} has fewer than two different values"
        raise ValueError(f"transform: {few}, so its ranks say nothing.")
    each = ndtri(np.arange(1, len(known) + 1) / (len(known) + 1))
    scores = np.bincount(slot.ravel(), each) / np.bincount(slot.ravel())
    low = max(int(np.searchsorted(scores, -OUTER)), 1)
    high = min(int(np.searchsorted(scores, OUTER)) - 1, len(scores) - 2)
    table = np.stack([different, scores], axis=1)
    first = (different[low] - different[0]) / (scores[low] - scores[0])
    last = (different[-1] - different[high]) / (scores[-1] - scores[high])
    before = table[:1] - FAR * np.array([[first, 1.0]])
    after = table[-1:] + FAR * np.array([[last, 1.0]])
    return np.concatenate([before, table, after])


def tables_of(
    values: tuple[np.ndarray, ...], transform: Mapping[str, str], names: tuple[str, ...]
) -> tuple[np.ndarray, ...]:
    """Return the table of each transformed variable, for both directions; empty for a logarithm.

    **Raises:** `ValueError` for variables that cannot be transformed.
    """
    tables = []
    for name, kind in transform.items():
        column = np.concatenate([np.asarray(x[:, names.index(name)], float) for x in values])
        if kind == "log":
            by_ranks = f'by its ranks (transform={{"{name}": "ranks"}}, --ranks "{name}")'
            remedy = (
                f"Mark them as missing if they are errors, or read {name} {by_ranks} or as it is."
            )
            check_logarithm(column, f"transform: {name}", remedy)
        tables.append(np.zeros((0, 2)) if kind == "log" else scores_of(column, name))
    return tuple(tables)


def describe_transform(transform: Mapping[str, str]) -> str:
    """Return a sentence about the transforms for the report."""
    parts, units = [], []
    for kind in [kind for kind in READ_AS if kind in transform.values()]:
        one, many, unit = READ_AS[kind]
        names = [name for name, own in transform.items() if own == kind]
        verb = f"is read as {one}" if len(names) == 1 else f"are read as {many}"
        parts.append(f"{listed(names, most=4)} {verb}")
        units.append(unit)
    own, are = "it" if len(transform) == 1 else "them", " and of ".join(units)
    text = f"{', and '.join(parts)}: slopes, effects and units of {own} are those of {are}."
    return f"{text} Forecasts and the values that interventions set are in measured units."


# ---- there and back ----


def transformed(
    treatment: Treatment | None, values: Any, xp: Any = np, *, back: bool = False
) -> Any:
    """Return measured values `[... dim]` transformed by a treatment, in NumPy or JAX; or, if
    `back`, the measured values of transformed ones.
    """
    if treatment is None or not treatment.kinds:
        return values
    columns = [values[..., j] for j in range(values.shape[-1])]
    each = [one_transformed(treatment, j, x, xp, back=back) for j, x in enumerate(columns)]
    return xp.stack(each, axis=-1)


def restored(treatment: Treatment | None, values: Any, xp: Any = np) -> Any:
    """Return measured values, by the inverse transform."""
    return transformed(treatment, values, xp, back=True)


def one_transformed(
    treatment: Treatment | None, column: int, values: Any, xp: Any = np, *, back: bool = False
) -> Any:
    """Return one variable transformed, or transformed `back`, without checks.

    Logarithms are clipped before exponentiation so that results stay finite. Scores are
    interpolated linearly between the rows of their table.
    """
    if treatment is None or not treatment.kinds or column not in treatment.columns:
        return values
    place = treatment.columns.index(column)
    if treatment.kinds[place] == "log":
        if not back:
            return xp.log(values)
        most = float(np.log(np.finfo(values.dtype).max)) / 2
        return xp.exp(xp.clip(values, -most, most))
    columns = treatment.tables[place].T
    knots, heights = (xp.asarray(c, values.dtype) for c in (columns[::-1] if back else columns))
    return xp.interp(values, knots, heights).astype(values.dtype)
