"""Edges as the model sees them: inputs at candidate lags, several where a delay lies between."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..measure._reads import edge_of_reads


def edges_of_inputs(found: Any, pair: Any = ...) -> Int[np.ndarray, "*pair lag"]:
    """For every input of the model the position of its edge's lag, −1 where there is no input; of
    all pairs, `[source target lag]`, or of one, `[lag]`.
    """
    candidates = float(found.dt) * np.asarray(found.lags, float)
    reads, graph, delays = (
        np.asarray(part)[pair] for part in (found.reads, found.graph, found.delays)
    )
    return edge_of_reads(reads, graph, delays, candidates)


def inputs_of(found: Any, i: int, j: int, a: int) -> Bool[np.ndarray, " lag"]:
    """At which lags the model reads the source of one edge."""
    return edges_of_inputs(found, (i, j)) == a


def folded(
    found: Any, values: Float[np.ndarray, "*batch source target lag"]
) -> Float[np.ndarray, "*batch source target lag"]:
    """Sums over the inputs of every edge, at the edge; 0 elsewhere."""
    edge = edges_of_inputs(found)
    sums = np.zeros(np.shape(values))
    for i, j, lag in np.argwhere(edge >= 0):
        sums[..., i, j, edge[i, j, lag]] += np.asarray(values)[..., i, j, lag]
    return sums
