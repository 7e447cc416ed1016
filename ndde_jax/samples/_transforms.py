"""Transformation of variables to logarithms or normal scores, and its inverse."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from .._checks import is_traced, refusal, shown
from ._treatments import Treatment

TRANSFORM = "transform"
# Of a variable, in pictures and tables of effects, and in equations.
LABELS = {"log": "log {}", "ranks": "score of {}"}
FORMULAS = {"log": "log({})", "ranks": "score({})"}
KINDS = tuple(LABELS)
# Beyond the data, scores go on along the line through the outermost tenth, this far.
OUTER, FAR = 1.2816, 1e4


def read_transform(transform: Any, names: tuple[str, ...]) -> dict[str, str]:
    """Return the kinds of transformation by variable name, in the order of the variables.

    **Raises:** `ValueError` for what is neither a kind nor a mapping from variables to kinds.
    """
    kinds = " or ".join(map(repr, KINDS))
    expected = f"a mapping from variables to {kinds}, or one of these for all variables"
    if transform is None:
        return {}
    if isinstance(transform, str):
        transform = dict.fromkeys(names, transform)
    if not isinstance(transform, Mapping):
        raise refusal("transform", expected, transform, 'Write transform={"flow": "log"}.')
    for name, kind in transform.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise refusal("transform", expected, kind)
        if name not in names:
            raise ValueError(
                f"transform names {shown(name)}, which is no variable; these are "
                f"{', '.join(names[:20])}."
            )
    return {name: transform[name] for name in names if name in transform}


def check_logarithm(values: Any, name: str, remedy: str) -> None:
    """Raise an error unless all values to be logged are above 0; traced numbers pass.

    **Raises:** `ValueError` that says how many are not, and what to do.
    """
    if is_traced(values):
        return
    values = np.asarray(values, float)
    below = values <= 0
    if not below.any():
        return
    if values.size == 1:
        raise ValueError(f"{name}: {values.item():.4g} has no logarithm. {remedy}")
    count, verb = int(below.sum()), "have" if below.sum() > 1 else "has"
    raise ValueError(
        f"{name}: {count} of {values.size} values {verb} no logarithm, not being above 0 (the "
        f"smallest is {np.nanmin(values):.4g}). {remedy}"
    )


def scores_of(values: Float[np.ndarray, "time"], name: str) -> Float[np.ndarray, "knot 2"]:
    """Return the distinct values, ascending, and their normal scores, with a point far beyond
    either end.

    The r-th of n ordered values has the score at which a standard normal lies below it with
    probability r/(n + 1); equal values have the mean of theirs.

    **Raises:** `ValueError` for fewer than two different values.
    """
    from scipy.special import ndtri

    known = np.sort(values[np.isfinite(values)])
    different, slot = np.unique(known, return_inverse=True)
    if len(different) < 2:
        raise ValueError(
            f"transform: {name} has fewer than two different values, so its ranks say nothing."
        )
    each = ndtri(np.arange(1, len(known) + 1) / (len(known) + 1))
    scores = np.bincount(slot.ravel(), each) / np.bincount(slot.ravel())
    low = max(int(np.searchsorted(scores, -OUTER)), 1)
    high = min(int(np.searchsorted(scores, OUTER)) - 1, len(scores) - 2)
    first = (different[low] - different[0]) / (scores[low] - scores[0])
    last = (different[-1] - different[high]) / (scores[-1] - scores[high])
    ends = [different[0] - FAR * first, different[-1] + FAR * last]
    return np.stack(
        [
            np.concatenate([ends[:1], different, ends[1:]]),
            np.concatenate([scores[:1] - FAR, scores, scores[-1:] + FAR]),
        ],
        axis=1,
    )


def tables_of(
    values: tuple[np.ndarray, ...], transform: Mapping[str, str], names: tuple[str, ...]
) -> tuple[np.ndarray, ...]:
    """Return the tables that each transformed variable needs for both directions; empty for a
    logarithm.

    **Raises:** `ValueError` for variables that cannot be transformed so.
    """
    tables = []
    for name, kind in transform.items():
        column = np.concatenate([np.asarray(x[:, names.index(name)], float) for x in values])
        if kind == "log":
            remedy = (
                f"Mark them as missing if they are errors, or read {name} by its ranks "
                f'(transform={{"{name}": "ranks"}}, --ranks "{name}") or as it is.'
            )
            check_logarithm(column, f"transform: {name}", remedy)
            tables.append(np.zeros((0, 2)))
        else:
            tables.append(scores_of(column, name))
    return tuple(tables)


def said_of_transform(transform: Mapping[str, str]) -> str:
    """Return a sentence on the transformation for the report."""
    parts, units = [], []
    for kind, one, many, unit in (
        ("log", "its logarithm", "their logarithms", "the logarithm"),
        ("ranks", "the normal scores of its ranks", "normal scores of their ranks", "the scores"),
    ):
        names = [name for name, own in transform.items() if own == kind]
        if names:
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            listed = ", ".join(names[:4]) + more
            verb = f"is read as {one}" if len(names) == 1 else f"are read as {many}"
            parts.append(f"{listed} {verb}")
            units.append(unit)
    own = "it" if len(transform) == 1 else "them"
    return (
        f"{', and '.join(parts)}: slopes, effects and units of {own} are those of "
        f"{' and of '.join(units)}. Forecasts and what is set are in measured units."
    )


# ---- there and back ----


def transformed(treatment: Treatment | None, values: Any, xp: Any = np) -> Any:
    """Return measured values `[... dim]` as a treatment transforms them, in NumPy or JAX."""
    return _by_column(treatment, values, xp, one_transformed)


def restored(treatment: Treatment | None, values: Any, xp: Any = np) -> Any:
    """Return measured values, by the inverse transformation."""
    return _by_column(treatment, values, xp, one_restored)


def _by_column(treatment, values, xp, function):
    if treatment is None or not treatment.kinds:
        return values
    parts = [values[..., j] for j in range(values.shape[-1])]
    for j in treatment.columns:
        parts[j] = function(treatment, j, parts[j], xp)
    return xp.stack(parts, axis=-1)


def one_transformed(treatment: Treatment | None, column: int, values: Any, xp: Any = np) -> Any:
    """Return one variable transformed, without checks."""
    kind, table = _kind(treatment, column)
    if kind == "log":
        return xp.log(values)
    return values if kind == "" else _between(values, table[:, 0], table[:, 1], xp)


def one_restored(treatment: Treatment | None, column: int, values: Any, xp: Any = np) -> Any:
    """Return one variable restored; logarithms are clipped to where their exponential is finite."""
    kind, table = _kind(treatment, column)
    if kind == "log":
        most = float(np.log(np.finfo(values.dtype).max)) / 2
        return xp.exp(xp.clip(values, -most, most))
    return values if kind == "" else _between(values, table[:, 1], table[:, 0], xp)


def _kind(treatment, column):
    if treatment is None or column not in treatment.columns or not treatment.kinds:
        return "", None
    place = treatment.columns.index(column)
    return treatment.kinds[place], treatment.tables[place]


def _between(values, knots, heights, xp):
    dtype = values.dtype
    return xp.interp(values, xp.asarray(knots, dtype), xp.asarray(heights, dtype)).astype(dtype)
