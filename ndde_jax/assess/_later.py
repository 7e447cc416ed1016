"""Delays longer than every candidate, found in the residuals of the rates."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph
from ..windows._choose_lags import at_every_lag
from ._relations import saturating
from ._score import (
    NOISE,
    Columns,
    Inputs,
    SourceLags,
    basis,
    bounded_columns,
    clipped_residuals,
    conditioning_columns,
    group_test,
    kept_columns,
)

# Error rate of a whole record, for states of all variables at all lags together (Bonferroni), and
# the smallest share of the residual variance that a state must explain. Chosen by inspection: it
# was .04 to .79 for 40 rates whose delay was excluded from the candidates; of 190 complete graphs,
# two had .031 and .035, and the others no such state.
ERROR, LEAST = 0.01, 0.03
# How far back states are tested: at most a share of the record, and beyond the largest candidate by
# a multiple of it and some samples more.
FURTHEST, MULTIPLE, MORE = 0.1, 4, 20
# Residual share of a state, given the other columns, below which it is determined by them.
OWN = 1e-3
# Number of basis directions whose inner products are computed together.
SOME = 8


class Later(NamedTuple):
    """The state, further back than every candidate, that explains most of the residual of each
    rate, `[target]`: its `source` and `lag` in samples, −1 if none does beyond chance, and the
    `share` of the residual variance.
    """

    source: Int[np.ndarray, " target"]
    lag: Int[np.ndarray, " target"]
    share: Float[np.ndarray, " target"]

    @classmethod
    def none(cls, dim: int) -> "Later":
        """Return the result if no rate has such a state."""
        return cls(np.full(dim, -1), np.full(dim, -1), np.zeros(dim))


def _adjacent_candidates(inputs: Inputs, kept: SourceLags) -> SourceLags:
    """Return the candidates next to the delays of a continuous path, which may lie between two of
    them. What is missing of the state between predicts its change, and so do states before it.
    """
    lags = np.asarray(inputs.rows.lags)
    near = (np.abs(lags[:, None] - lags[None]) <= inputs.rows.step) & (lags[:, None] > 0)
    beside = kept @ near & ~kept
    return beside & inputs.rows.midway


def later_states(inputs: Inputs, graph: KnownGraph, asked: Bool[np.ndarray, " target"]) -> Later:
    """Return the states further back than every candidate that explain the residuals of the rates
    that are `asked` for.

    The strongest state is the one with the largest inner product, after projecting out the kept
    inputs, over all states and lags. A heteroscedasticity-robust test decides on it.
    """
    rows, dim = inputs.rows, inputs.rows.dim
    found = Later.none(dim)
    last, position = int(rows.lags[-1]), rows.position - rows.position[0]
    length = int(position[-1]) + 1
    furthest = min(int(FURTHEST * length), (MULTIPLE + 1) * last + MORE)
    used = position >= furthest
    if furthest <= last or rows.lags[0] != 0 or not used.any():
        return found
    states = bounded_columns(rows.past[:, 0])
    states = (states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-300)
    late = np.zeros((length, states[0].size))
    late[position] = states.reshape(len(states), -1)

    def along(columns: Columns, late=late):
        """Return inner products with every state, `[lag state column]`."""
        steps = np.zeros((length - furthest, columns.shape[1]))
        steps[position[used] - furthest] = columns
        return at_every_lag(late, steps, furthest)

    size = along(np.ones((int(used.sum()), 1)), late**2)[:, :, 0]
    for j in map(int, np.flatnonzero(asked)):
        # The part of a bend that polynomials miss is predicted by whatever moves the inputs.
        kept = conditioning_columns(inputs, graph, j, own=True, poor=1.0)
        beside = _adjacent_candidates(inputs, graph[:, j])
        read = saturating(inputs, graph[:, j] | beside)
        given = np.concatenate([kept, kept_columns(inputs, beside), read], axis=1)
        if used.sum() < 3 * (given.shape[1] + 10):
            continue
        q, own = basis(given[used]), size.copy()
        for start in range(0, len(q), SOME):
            own -= (along(q[start : start + SOME].T) ** 2).sum(axis=2)
        rate = rows.rates[used, j]
        left = clipped_residuals(rate, q)
        explained = along(left[:, None])[:, :, 0] ** 2 / max(float(left @ left), 1e-300)
        explained = np.where(own > OWN * size, explained / np.maximum(own, 1e-300), 0)
        explained[:last] = 0
        # A state that prior knowledge excludes at every lag does not count.
        explained *= np.repeat(rows.allowed[:, j].any(axis=1), states.shape[2])
        lag, state = np.unravel_index(explained.argmax(), explained.shape)
        share = float(explained[lag, state])
        # With very little noise, earlier states also predict the error of the method.
        beyond = share * float(left @ left) > NOISE * float(np.sum((rate - rate.mean()) ** 2))
        lag, source = int(lag) + 1, int(state) // states.shape[2]
        before = rows.before(lag)
        there = before >= 0
        test = group_test(rows.rates[there, j], states[before[there], source], given[there])
        count = dim * dim * (furthest - last)
        if float(test.p) * count < ERROR and share > LEAST and beyond:
            found.source[j], found.lag[j], found.share[j] = source, lag, share
    return found
