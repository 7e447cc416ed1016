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
    passed_on: KnownGraph,
    events: bool = False,
) -> np.ndarray:
    """Return why each candidate was kept or not, texts `[source target lag]`.

    `price` is what an edge of each target must be worth; `passed_on` are those that other variables
    pass on within a sampling interval; `events` says that edges were chosen by
    who comes first, and that `allowed` holds that choice.
    """

    def reason(i: int, j: int, a: int) -> str:
        score, cost = float(scores[i, j, a]), float(price[j])
        worth = f"{score:.2g}" if score > 0 else "nothing"
        pays = f"explains {worth} for a price of {cost:.2g}"
        if graph[i, j, a]:
            if required[i, j, a]:
                return "kept: required"
            return f"kept: {pays}" if score > cost else f"kept with the others: by itself it {pays}"
        if not allowed[i, j, a]:
            return "allowed: no, events reach another variable first" if events else "allowed: no"
        if passed_on[i, j, a]:
            return (
                "passed on within a sampling interval: it tells nothing beside a variable that is "
                "related to the target at once"
            )
        beside = [k for k in (a - 1, a + 1) if 0 <= k < len(lags) and graph[i, j, k]]
        if beside:
            stands = f"stands for lag {lags[beside[0]]}, which was kept: "
            return stands + (f"{pays} only in its place" if score > cost else f"beside it {pays}")
        if not score > cost:
            return f"does not pay its price: {pays}"
        if not lower[i, j, a] > 0:
            return f"differs too much from stretch to stretch: {pays}, but not reliably"
        return f"explained by what was kept with it: {pays} when the graph was measured"

    said = np.empty(graph.shape, object)
    for edge in np.ndindex(*graph.shape):
        said[edge] = reason(*edge)
    return said
