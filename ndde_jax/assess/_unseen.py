"""Hidden common drivers: what a source's past knows of its target although the source is given."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._inputs import Inputs, kept_columns
from ._score import group_test


class Unseen(NamedTuple):
    """`older`: p of the collider test of a pair, the smallest over its kept edges; `others`: p of
    the other lags of a source beside those kept. `[source target]`, NaN where nothing was tested.
    """

    older: Float[np.ndarray, "source target"]
    others: Float[np.ndarray, "source target"]


def unseen(inputs: Inputs, graph: Bool[np.ndarray, "source target lag"]) -> Unseen:
    rows = inputs.rows
    lags, dim = np.asarray(rows.lags), rows.dim
    older, others = np.full((dim, dim), np.nan), np.full((dim, dim), np.nan)
    linked = graph.any(axis=2)
    for i, j in np.argwhere(linked | linked.T):
        if i == j:
            continue
        base = kept_columns(inputs, graph[:, j], own=int(j))
        others[i, j] = _others(inputs, graph, i, j, base)
        if linked[i, j]:
            older[i, j] = _older(inputs, graph, i, j, base)
    return Unseen(older, others)


def _others(inputs, graph, i, j, base):
    kept = np.flatnonzero(graph[i, j])
    rest = np.setdiff1d(np.arange(graph.shape[2]), kept)
    if not len(rest):
        return np.nan
    return group_test(inputs.rows.rates[:, j], inputs.line[:, rest, i], base).p


def _older(inputs, graph, i, j, base):
    rows = inputs.rows
    lags = np.asarray(rows.lags)
    kept = lags[graph[i, j]]
    near = (np.abs(lags[:, None] - kept[None]) <= rows.step).any(axis=1)
    past = lags > kept.max() + rows.step
    given = [base, inputs.line[:, near, i], *[inputs.bend[:, a, i, :2] for a in np.flatnonzero(near)]]
    columns = [inputs.line[:, past, i]]
    parents = [(s, a) for s, a in np.argwhere(graph[:, i])]
    there = np.ones(len(rows.rates), bool)
    for shift in (kept.max() + rows.step, kept.max() + 2 * rows.step):
        row = rows.before(shift)
        there &= row >= 0
        for s, a in parents:
            columns.append(inputs.line[row, a, s][:, None])
    for shift in (lags[-1] + rows.step, lags[-1] + 2 * rows.step):
        row = rows.before(shift)
        there &= row >= 0
        columns.append(inputs.line[row, 0, i][:, None])
    given, columns = np.concatenate(given, 1)[there], np.concatenate(columns, 1)[there]
    return group_test(rows.rates[there, j], columns, given).p
