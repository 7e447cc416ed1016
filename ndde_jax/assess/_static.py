"""Edges of another kind: functions of others at the same time, and effects that change steadily."""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..regression._features import knots_of, spline_terms
from ..regression._search import WINDOWS_PER_COLUMN
from ._rows import Inputs, Rows, kept_columns
from ._score import source_tests

# Share of a level's variance that may be left on blocks that were not fitted: derived variables are
# computed or measured to a few digits, and what is driven lags behind its drivers by more.
LEFT = 0.01
BLOCKS = 5
# Relative size of singular values that count.
RESOLVED = 1e-8


def static_targets(rows: Rows) -> Bool[np.ndarray, " target"]:
    """Return which variables the present states of all others give, to a hundredth of a variance.

    Each level is regressed on splines of the others' levels, their squares and products, block by
    block from the other blocks. Nothing is told where the present is no candidate, or where there
    are fewer than four windows a column.
    """
    n, dim = len(rows.rates), rows.dim
    found = np.zeros(dim, bool)
    if dim < 2 or 0 not in rows.lags:
        return found
    now = rows.past[:, list(rows.lags).index(0)]
    terms = np.asarray(spline_terms(now, knots_of(now)))
    for j in range(dim):
        others = [i for i in range(dim) if i != j]
        pairs = [
            now[:, a] * now[:, b] for a, b in itertools.combinations_with_replacement(others, 2)
        ]
        columns = [np.ones(n), *pairs, *np.moveaxis(terms[:, others].reshape(n, -1), 1, 0)]
        if WINDOWS_PER_COLUMN * len(columns) > n:
            continue
        x, y = np.stack(columns, axis=1), now[:, j]
        x = x / np.maximum(np.sqrt((x**2).mean(axis=0)), 1e-300)
        left = 0.0
        for block in np.array_split(np.arange(n), BLOCKS):
            rest = np.setdiff1d(np.arange(n), block)
            c = np.linalg.lstsq(x[rest], y[rest], rcond=RESOLVED)[0]
            left += np.sum((y[block] - x[block] @ c) ** 2)
        found[j] = left < LEFT * np.sum((y - y.mean()) ** 2)
    return found


# Error rate of a whole record: all candidates of all targets together (Bonferroni).
ERROR = 1e-3


class Drifting(NamedTuple):
    """`p` of every candidate, `[source target lag]`, and those that are `found`."""

    p: Float[np.ndarray, "source target lag"]
    found: Bool[np.ndarray, "source target lag"]


def drifting(inputs: Inputs, graph: Bool[np.ndarray, "source target lag"]) -> Drifting:
    """Test whether inputs × time explain what the kept inputs, the input itself and time leave of a
    rate. A link that goes from one sign to the other is seen here and nowhere else.
    """
    rows = inputs.rows
    n, dim, lags = len(rows.rates), rows.dim, len(rows.lags)
    time = np.linspace(-1, 1, n)
    p = np.full((dim, dim, lags), np.nan)
    line = inputs.line.transpose(2, 1, 0).reshape(-1, n)
    test = line[:, None] * time
    made = line[:, None]
    for j in range(dim):
        given = np.concatenate([kept_columns(inputs, graph[:, j], own=j), time[:, None]], axis=1)
        if n > 2 * (given.shape[1] + 10):
            tested = source_tests(rows.rates[:, j], _centred(test), _centred(made), given)
            p[:, j] = tested.p.reshape(dim, lags)
    p = np.where(rows.allowed, p, np.nan)
    with np.errstate(invalid="ignore"):
        return Drifting(p, p < ERROR / max(np.isfinite(p).sum(), 1))


def _centred(a):
    return a - a.mean(axis=-1, keepdims=True)
