"""Inputs whose effect changes steadily over the record."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._inputs import Inputs, kept_columns
from ._score import source_tests

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
