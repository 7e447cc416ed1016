"""The candidates that a model reads for each edge, where delays lie between them."""

import numpy as np
from jaxtyping import Bool, Float, Int


def edge_of_reads(
    reads: Bool[np.ndarray, "*pair lag"],
    graph: Bool[np.ndarray, "*pair lag"],
    delays: Float[np.ndarray, "*pair lag"],
    candidates: Float[np.ndarray, " lag"],
) -> Int[np.ndarray, "*pair lag"]:
    """Return, for every candidate that is read, the position of the edge of its pair with the
    nearest delay; an edge's own candidate belongs to that edge. −1 where nothing is read.

    `delays` are of the edges, `candidates` of the lags, in the same unit.
    """
    n_lags = graph.shape[-1]
    far = np.abs(delays[..., None, :] - candidates[:, None])  # [... read edge]
    far = np.where(graph[..., None, :], np.nan_to_num(far, nan=np.inf), np.inf)
    nearest = np.argmin(far, axis=-1)
    nearest = np.where(graph, np.arange(n_lags), nearest)
    return np.where(reads & graph.any(axis=-1, keepdims=True), nearest, -1)


def with_a_reader_each(
    reads: Bool[np.ndarray, "*pair lag"],
    graph: Bool[np.ndarray, "*pair lag"],
    delays: Float[np.ndarray, "*pair lag"],
    candidates: Float[np.ndarray, " lag"],
) -> Bool[np.ndarray, "*pair lag"]:
    """Return the candidates that are read for pairs with edges, and those of edges that have no
    reader.
    """
    reads = reads & graph.any(axis=-1, keepdims=True)
    edge = edge_of_reads(reads, graph, delays, candidates)
    served = (edge[..., None] == np.arange(graph.shape[-1])).any(axis=-2)
    return reads | (graph & ~served)


def delays_between(
    graph: Bool[np.ndarray, "source target lag"],
    reads: Bool[np.ndarray, "source target lag"],
    delays: Float[np.ndarray, "source target lag"],
    lags: tuple[int, ...],
) -> tuple[Bool[np.ndarray, "source target lag"], tuple[int, ...]]:
    """Return the edges whose delay, in samples, is read off several candidates and is, rounded,
    none of them; and the lags with these.
    """
    sample = np.round(np.nan_to_num(delays)).astype(int)
    several = graph & (reads & ~graph).any(axis=2, keepdims=True)
    between = several & ~np.isin(sample, lags)
    return between, tuple(sorted({*map(int, lags), *map(int, sample[between])}))
