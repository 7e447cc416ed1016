"""The benchmark's scores of one graph, with the library's metrics.

A failed prediction (a score that is not finite) is scored as an empty graph, as in the benchmark.
Unlike there, its status is kept and tables count it.
"""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jaxtyping import Bool

from ndde_jax import metrics

from .outcomes import Prediction

SCORES = ("auroc", "auprc", "shd")


def failed(prediction: Prediction) -> bool:
    """Return whether a method gave no usable answer."""
    return not np.isfinite(prediction.scores).all()


def individual_scores(
    predictions: Sequence[Prediction], labels: Mapping[str, Bool[np.ndarray, "source target"]]
) -> list[dict[str, float]]:
    """Return AUROC, AUPRC and SHD of every series against every label set.

    Returns one dictionary per series with names such as `corrected.auroc`. AUROC and AUPRC are NaN
    where the truth is complete or empty.
    """
    scores, graphs = _stacked(predictions)
    columns = {
        f"{name}.{score}": np.asarray(values)
        for name, truth in labels.items()
        for score, values in zip(SCORES, _each(scores, graphs, truth), strict=True)
    }
    return [
        {name: float(values[i]) for name, values in columns.items()}
        for i in range(len(predictions))
    ]


def pooled_scores(
    predictions: Sequence[Prediction], labels: Mapping[str, Bool[np.ndarray, "source target"]]
) -> dict[str, float]:
    """Return the joint scores of the benchmark's tables: all series of a graph in one ranking.

    The SHD is summed over series.
    """
    scores, graphs = _stacked(predictions)
    return {
        f"{name}.{score}": float(value)
        for name, truth in labels.items()
        for score, value in zip(SCORES, _pooled(scores, graphs, truth), strict=True)
    }


def _stacked(predictions):
    scores = np.stack([np.zeros_like(p.scores) if failed(p) else p.scores for p in predictions])
    graphs = np.stack([np.zeros_like(p.graph) if failed(p) else p.graph for p in predictions])
    return scores, graphs


def _one(scores, graph, truth):
    return (
        metrics.auroc(scores, truth),
        metrics.auprc(scores, truth),
        metrics.structural_hamming_distance(graph, truth),
    )


_each = jax.jit(jax.vmap(_one, in_axes=(0, 0, None)))


@jax.jit
def _pooled(scores, graphs, truth):
    return _one(scores, graphs, jax.numpy.broadcast_to(truth, scores.shape))
