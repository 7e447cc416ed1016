"""The reason why a candidate edge was kept or not, in a few words."""

import numpy as np
from jaxtyping import Float

from .._types import KnownGraph, KnownScores


def reasons(
    graph: KnownGraph,
    scores: KnownScores,
    lower: KnownScores,
    price: Float[np.ndarray, "target"],
    allowed: KnownGraph,
    required: KnownGraph,
    lags: tuple[int, ...],
    *,
    events: bool = False,
) -> np.ndarray:
    """Return why each candidate was kept or not, texts `[source target lag]`.

    `price` is what an edge of each target must be worth; `events` says that edges were chosen by
    who comes first, and that `allowed` holds that choice.
    """
    said = np.empty(graph.shape, object)
    for i, j, a in np.ndindex(*graph.shape):
        said[i, j, a] = _reason(
            (i, j, a), graph, scores, lower, price, allowed, required, lags, events
        )
    return said


def _reason(edge, graph, scores, lower, price, allowed, required, lags, events) -> str:
    i, j, a = edge
    score, cost = float(scores[edge]), float(price[j])
    worth = f"{score:.2g}" if score > 0 else "nothing"
    pays = f"explains {worth} for a price of {cost:.2g}"
    if required[edge] and graph[edge]:
        return "kept: required"
    if graph[edge]:
        return f"kept: {pays}" if score > cost else f"kept with the others: by itself it {pays}"
    if not allowed[edge]:
        return "allowed: no, events come from elsewhere first" if events else "allowed: no"
    beside = [a + side for side in (-1, 1) if 0 <= a + side < len(lags) and graph[i, j, a + side]]
    if not score > cost:
        if beside:
            return f"stands for lag {lags[beside[0]]}, which was kept: beside it {pays}"
        return f"does not pay its price: {pays}"
    if beside:
        return f"stands for lag {lags[beside[0]]}, which was kept: {pays} only in its place"
    if not lower[edge] > 0:
        return f"differs too much from stretch to stretch: {pays}, but not reliably"
    return f"explained by what was kept with it: {pays} when the graph was measured"
