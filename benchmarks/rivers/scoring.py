"""Scores of rankings against the network, without the diagonal."""

import numpy as np
from jaxtyping import Bool, Float


def auroc(scores: Float[np.ndarray, "..."], truth: Bool[np.ndarray, "..."]) -> float:
    """Return the probability that a true edge ranks above a false one, with ties as half; NaN if
    there is only one kind.

    Needs NumPy only: joint rankings hold tens of thousands of pairs.
    """
    scores, truth = np.ravel(scores), np.ravel(truth)
    positive, n_true = scores[truth], int(truth.sum())
    negative = np.sort(scores[~truth])
    if not n_true or not len(negative) or np.isnan(scores).any():
        return float("nan")
    below = np.searchsorted(negative, positive, side="left")
    not_above = np.searchsorted(negative, positive, side="right")
    return float((below + not_above).sum() / (2 * n_true * len(negative)))


def pairs(matrix: np.ndarray) -> np.ndarray:
    """Return the entries off the diagonal, in order of rows."""
    return matrix[~np.eye(len(matrix), dtype=bool)]


def wrong_edges(
    graph: Bool[np.ndarray, "source target"], truth: Bool[np.ndarray, "source target"]
) -> dict[str, float]:
    """Return the numbers of false kept edges, of missed true edges, and of reversed edges among
    them.
    """
    kept, true = graph & ~np.eye(len(graph), dtype=bool), truth
    return {
        "false": float((kept & ~true).sum()),
        "missed": float((true & ~kept).sum()),
        "swapped": float((kept & ~true & true.T).sum()),
    }
