"""An error rate for every candidate edge, given the other kept inputs of its target."""

import numpy as np
from jaxtyping import Bool, Float

from ._inputs import Inputs, earlier, kept_columns
from ._rivals import together, touching
from ._score import group_test, source_tests

# Rows for every column of a regression, below which nothing is tested.
ROWS = 2
# Error rate of a whole record: all candidates between different variables, among which links were
# chosen (Bonferroni).
ERROR = 0.01


def edge_p_values(
    inputs: Inputs, graph: Bool[np.ndarray, "source target lag"]
) -> Float[np.ndarray, "source target lag"]:
    """The probability that an input explains its target's rate as well by chance.

    Each candidate, as a line and two bends, is tested beside the other kept inputs of its target
    and beside what its source was made of: that source's own past and its kept inputs then, as the
    momentary conditional independence of Runge et al. (2019). What is left of a source is then new
    at every step, so the test holds whatever memory the residuals have, and its variance is that of
    the scores themselves, so it holds whatever happens to the size of noise.

    **Returns:** NaN where prior knowledge excludes an edge or too few rows are left; 1 where an
    input has nothing of its own.
    """
    rows = inputs.rows
    lags, dim = rows.lags, rows.dim
    p = np.full((dim, dim, len(lags)), np.nan)
    given = [kept_columns(inputs, graph[:, j], own=j) for j in range(dim)]
    for a, lag in enumerate(lags):
        past = [earlier(inputs, graph, i, lag) for i in range(dim)]
        there = past[0][1]
        widest = max(columns.shape[1] for columns, _ in past)
        if there.sum() < ROWS * (widest + 10):
            continue
        made = np.zeros((dim, widest, int(there.sum())))
        for i, (columns, _) in enumerate(past):
            made[i, : columns.shape[1]] = columns[there].T
        made -= made.mean(axis=2, keepdims=True)
        test = np.ascontiguousarray(inputs.test[there, a].transpose(1, 2, 0))
        test -= test.mean(axis=2, keepdims=True)
        for j in range(dim):
            if len(given[j]) > ROWS * (given[j].shape[1] + widest):
                p[:, j, a] = source_tests(rows.rates[there, j], test, made, given[j][there]).p
    # What is kept stands among the columns of its target, and so does the present of a target.
    special = graph.copy()
    special[np.arange(dim), np.arange(dim), 0] = True
    for i, j, a in np.argwhere(special).tolist():
        others = graph[:, j].copy()
        others[i, a] = False
        own = None if (i, a) == (j, 0) else j
        past, there = earlier(inputs, graph, i, lags[a])
        beside = np.concatenate([kept_columns(inputs, others, own=own), past], axis=1)[there]
        if len(beside) > ROWS * (beside.shape[1] + 10):
            p[i, j, a] = group_test(rows.rates[there, j], inputs.test[there, a, i], beside).p
    return np.where(rows.allowed, p, np.nan)


def q_values(p: Float[np.ndarray, "source target lag"]) -> Float[np.ndarray, "source target lag"]:
    """Return false discovery rates (Benjamini and Hochberg, 1995) over candidates between different
    variables; NaN elsewhere.
    """
    from scipy.stats import false_discovery_control

    tested = np.isfinite(p) & ~np.eye(len(p), dtype=bool)[:, :, None]
    q = np.full(p.shape, np.nan)
    if tested.any():
        q[tested] = false_discovery_control(p[tested])
    return q


def unconfirmed(
    inputs: Inputs,
    graph: Bool[np.ndarray, "source target lag"],
    required: Bool[np.ndarray, "source target lag"],
) -> Bool[np.ndarray, "source target lag"]:
    """Return the kept links between different variables that explain nothing that is new in their
    source: beside what that was made of they are within chance of the best of all candidates.

    The test is that of the p-values, of lags next to each other together, since a delay lies
    between these and neither is much without the other. A link that stands for what drives its
    source, or for a memory that both share, explains its target only as long as that is not given.
    """
    rows = inputs.rows
    found = np.zeros(graph.shape, bool)
    apart = ~np.eye(rows.dim, dtype=bool)[:, :, None]
    candidates = int((rows.allowed & apart).sum())
    beside = touching(graph, rows.lags)
    for j in range(rows.dim):
        for i, places in together(graph[:, j], beside[:, j]):
            if i == j or required[i, j, places].any():
                continue
            others = graph[:, j].copy()
            others[i, places] = False
            past, there = earlier(inputs, graph, i, rows.lags[places[-1]])
            given = np.concatenate([kept_columns(inputs, others, own=j), past], axis=1)[there]
            if len(given) > ROWS * (given.shape[1] + 10):
                columns = inputs.test[:, places, i][there].reshape(len(given), -1)
                p = group_test(rows.rates[there, j], columns, given).p
                found[i, j, places] = p * candidates > ERROR
    return found
