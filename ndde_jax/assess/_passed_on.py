"""Links of a map that another variable passes on within a sampling interval."""

import numpy as np
from jaxtyping import Bool

from .._blas import one_blas_thread
from .._checks import check_concrete
from .._types import KnownGraph, KnownScores
from ..models._model import AbstractDelayModel
from ..windows._windows import Windows
from ._assess import FEWEST
from ._relations import at_once, partial_correlations, residuals, static_targets
from ._score import (
    ROWS,
    Columns,
    Inputs,
    drift_beyond,
    group_test,
    kept_columns,
    left_by,
    read_inputs,
    rows_of,
    tested,
)

# The level at which a link must explain something, before and beside what a variable that is
# related to its target does at the same sample; and the most of these that are looked at, those of
# the largest correlation.
LEVEL, MOST = 0.01, 3
# Share of the partial correlation of a pair from which on those of both with a third count as much.
SHARED = 0.5


@one_blas_thread()
def passed_on_p_values(
    windows: Windows,
    graph: KnownGraph,
    model: AbstractDelayModel | None = None,
    *,
    undecided: bool = False,
) -> KnownScores:
    """Return the p-values of links that another variable passes on within a sampling interval,
    beside what that does at the same sample, `[source target lag]`; NaN for all other edges.

    If a drives b some samples later, and b drives c at once, then the past of a foretells c. Beside
    the value of b at the same sample it says nothing of c. A link of its own says something beside
    any variable. So a link is passed on that explains nothing beside one of the variables that are
    related to its target at once, or beside all of them, where one of these has the same source at
    the same lag: the rule of the PC algorithm (Spirtes, Glymour and Scheines, 2000), as in PCMCI+
    (Runge, 2020). Of links that explain one another's, as of two sensors of one quantity, one
    stays. What works at once works in one direction: links that are passed on only if two variables
    work on one another both stay, since nothing tells which one is. Pairs that are both related to
    a third variable about as much as to one another are not asked: something unseen may move all
    three, as a field moves stations, and beside that what a source passes on at once may cancel a
    link of its own.

    **Arguments:**

    - `windows`: of a map, one system, outside `jit`.
    - `graph`: the inputs that tell most of every rate, `[source target lag]`.
    - `model`, `undecided`: as of [`relations`][ndde_jax.assess.relations]. Links into a target that
        polynomials describe much worse than the model are not asked.
    """
    check_concrete("passed_on_p_values", (windows, graph), "Call it outside jit.")
    rows, graph = rows_of(windows), np.array(graph)
    p = np.full(graph.shape, np.nan)
    if len(rows.rates) < FEWEST or 0 not in rows.lags:
        return p
    inputs = read_inputs(rows)
    left = residuals(inputs, graph)
    if not at_once(inputs, graph, left, undecided).related.any():
        return p
    # What polynomials leave of a bend that two rates share relates them.
    rows = rows_of(windows, model)
    inputs = inputs._replace(rows=rows)
    pairs = at_once(inputs, graph, residuals(inputs, graph, poor=1.0), undecided)
    # Of what is computed from others these give all there is.
    own = ~static_targets(rows, left).derived
    related, now = pairs.related & own[:, None] & own, rows.lags.index(0)
    size = np.where(related, np.abs(partial_correlations(pairs.correlation)), 0)
    third = np.stack([np.minimum(size, of_j).max(axis=1) for of_j in size], axis=1)
    related &= third < SHARED * size
    later = rows.past[:, now] + rows.moves * rows.rates
    for j in np.flatnonzero(related.any(axis=0)):
        by_polynomials = left_by(rows.rates[:, j], kept_columns(inputs, graph[:, j]))
        if drift_beyond(rows, int(j), by_polynomials) is not None:
            continue
        by_size = np.argsort(-np.abs(np.nan_to_num(pairs.correlation[:, j])), kind="stable")
        some = [tested(later[:, i]) for i in by_size if related[i, j]][:MOST]
        beside = [*some, np.concatenate(some, axis=1)][: 1 if len(some) == 1 else None]
        for i, a in np.argwhere(graph[:, j]):
            if i != j and not np.asarray(windows.prior.required)[i, j, a]:
                p[i, j, a] = _by_chance(inputs, graph[:, j], int(j), (int(i), int(a)), beside)
    carried = graph | (np.eye(rows.dim, dtype=bool)[..., None] & (np.arange(len(rows.lags)) == now))
    first, through = np.zeros_like(related), np.full(graph.shape, np.nan)
    for i, j, a in sorted(np.argwhere(p > LEVEL).tolist(), key=lambda edge: -p[tuple(edge)]):
        carried[i, j, a] = False
        along = _nearest(related & ~first.T, carried[i, :, a], j)
        if along is not None:
            through[i, j, a] = p[i, j, a]
            first[along[:-1], along[1:]] = True
            continue
        carried[i, j, a] = True
        # Passed on only against the way of others: then so may be the link back, and both stay.
        if _nearest(related, carried[i, :, a] & (np.arange(rows.dim) != j), j) is not None:
            carried[j, i] |= np.isfinite(through[j, i])
            through[j, i] = np.nan
    return through


def _nearest(
    leads: Bool[np.ndarray, "dim dim"], carriers: Bool[np.ndarray, "dim"], target: int
) -> list[int] | None:
    """Return the variables on the shortest way at once from one of the carriers to a target, with
    these two; None where there is no way.

    - `leads`: which variable may work on which at once, `[source target]`.
    """
    from scipy.sparse.csgraph import breadth_first_order  # takes a moment to import

    order, after = breadth_first_order(leads.T, target)
    found = next((int(k) for k in order if carriers[k]), None)
    if found is None:
        return None
    way = [found]
    while way[-1] != target:
        way.append(int(after[way[-1]]))
    return way


def _by_chance(
    inputs: Inputs,
    kept: Bool[np.ndarray, "source lag"],
    target: int,
    edge: tuple[int, int],
    beside: list[np.ndarray],
) -> float:
    """Return the largest p-value of an edge beside each of some columns; 0 where it does not show
    in this test at all, as one that multiplies others.
    """
    others = kept.copy()
    others[edge] = False
    given = kept_columns(inputs, others, own=target)
    rate, columns = inputs.rows.rates[:, target], inputs.test[:, edge[1], edge[0]]

    def p(*more: Columns) -> float:
        every = np.concatenate([given, *more], axis=1)
        enough = len(rate) > ROWS * (every.shape[1] + 10)
        return float(group_test(rate, columns, every).p) if enough else 0.0

    alone = p()
    return max(map(p, beside)) if alone <= LEVEL else 0.0
