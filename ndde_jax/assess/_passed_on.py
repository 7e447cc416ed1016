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
    bounded_columns,
    drift_if_better,
    group_test,
    kept_columns,
    read_inputs,
    residuals_of,
    rows_of,
)

# The level at which a link must explain something, alone and given the value at the same sample of
# a variable related to its target, and the largest number of such variables, by correlation.
LEVEL, MOST = 0.01, 3
# Share of the partial correlation of a pair from which on those with a third count as much.
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
    given its value at the same sample, `[source target lag]`; NaN for all other edges.

    If a drives b some samples later and b drives c at once, the past of a predicts c, but not given
    the value of b at the same sample. A direct link explains something given any variable. A link
    is therefore passed on if it explains nothing given one of the variables related to its target
    at once, or given all of them, and one of these has the same source at the same lag. This is the
    rule of the PC algorithm (Spirtes, Glymour and Scheines, 2000), as in PCMCI+ (Runge, 2020). Of
    links that explain one another, as those of two sensors of one quantity, one stays. A relation
    at once has one direction: links that are passed on only if two variables act on each other both
    stay, since nothing shows which one is direct. Pairs about as strongly related to a third
    variable as to each other are not tested: an unobserved variable may move all three, as a field
    moves stations, and what a source passes on at once may then cancel its direct link.

    **Arguments:**

    - `windows`: windows of a map, one system, outside `jit`.
    - `graph`: the inputs that explain most of every rate, `[source target lag]`.
    - `model`, `undecided`: as for [`relations`][ndde_jax.assess.relations]. Links into a target
        that polynomials describe much worse than the model are not tested.
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
    # A bend shared by two rates relates their polynomial residuals.
    rows = rows_of(windows, model)
    inputs = inputs._replace(rows=rows)
    pairs = at_once(inputs, graph, residuals(inputs, graph, poor=1.0), undecided)
    # Computed variables are determined by their parts, so they are excluded.
    own = ~static_targets(rows, left).derived
    related, now = pairs.related & own[:, None] & own, rows.lags.index(0)
    size = np.where(related, np.abs(partial_correlations(pairs.correlation)), 0)
    third = np.stack([np.minimum(size, of_j).max(axis=1) for of_j in size], axis=1)
    related &= third < SHARED * size
    later = rows.past[:, now] + rows.moves * rows.rates
    for j in np.flatnonzero(related.any(axis=0)):
        by_polynomials = residuals_of(rows.rates[:, j], kept_columns(inputs, graph[:, j]))
        if drift_if_better(rows, int(j), by_polynomials) is not None:
            continue
        by_size = np.argsort(-np.abs(np.nan_to_num(pairs.correlation[:, j])), kind="stable")
        some = [bounded_columns(later[:, i]) for i in by_size if related[i, j]][:MOST]
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
        # Passed on only against the direction of others: so may the link back, and both stay.
        if _nearest(related, carried[i, :, a] & (np.arange(rows.dim) != j), j) is not None:
            carried[j, i] |= np.isfinite(through[j, i])
            through[j, i] = np.nan
    return through


def _nearest(
    leads: Bool[np.ndarray, "dim dim"], carriers: Bool[np.ndarray, "dim"], target: int
) -> list[int] | None:
    """Return the variables on the shortest path at once from one of the carriers to a target, with
    both ends; None if there is no path.

    - `leads`: which variable may act on which at once, `[source target]`.
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
    """Return the largest p-value of an edge given each of some columns; 0 if this test cannot
    detect the edge at all, for example one that multiplies others.
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
