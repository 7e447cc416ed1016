"""The reasons, in a few words, why candidate edges were kept or not."""

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
    """Return why each candidate was kept or not, as texts `[source target lag]`.

    `price` is the price of an edge of each target. `passed_on` marks edges that other variables
    pass on within a sampling interval. `events` says that edges were chosen by order of arrival,
    and that `allowed` contains that choice.
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
            return "not allowed: events reach another variable first" if events else "not allowed"
        if passed_on[i, j, a]:
            return (
                "passed on within a sampling interval: it explains nothing given a variable that "
                "is related to the target at once"
            )
        beside = [k for k in (a - 1, a + 1) if 0 <= k < len(lags) and graph[i, j, k]]
        if beside:
            stands = f"proxy for lag {lags[beside[0]]}, which was kept: "
            return stands + (f"{pays} only in its place" if score > cost else f"given it, {pays}")
        if not score > cost:
            return f"does not pay its price: {pays}"
        if not lower[i, j, a] > 0:
            return f"differs too much from stretch to stretch: {pays}, but not reliably"
        return f"explained by the other kept inputs: {pays} when the graph was measured"

    said = np.empty(graph.shape, object)
    for edge in np.ndindex(*graph.shape):
        said[edge] = reason(*edge)
    return said
