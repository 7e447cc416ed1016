"""Scores at three levels: exact lags, lags within one grid step, and no lags (summary)."""

import jax
import numpy as np
from jaxtyping import Bool, Float

from ndde_jax import metrics

from .data import Series
from .methods import Prediction

LEVELS = ("exact", "near", "summary")


def failed(prediction: Prediction) -> bool:
    """Return whether a method gave no usable answer."""
    return not np.isfinite(prediction.scores).all()


def score(prediction: Prediction, series: Series) -> dict[str, float]:
    """Return all scores of one prediction, `exact.auroc` and so on.

    A failed prediction counts as an empty graph that ranks nothing. Undefined values (an AUROC
    where every edge is true) are NaN.
    """
    scores, graph = prediction.scores, prediction.graph
    if failed(prediction):
        scores, graph = np.zeros_like(scores), np.zeros_like(graph)
    truth = series.graph
    found = {f"exact.{name}": value for name, value in _ranking(scores, graph, truth).items()}
    found["exact.recovered"] = float((graph == truth).all())
    found |= {f"near.{name}": value for name, value in near_scores(scores, graph, truth).items()}
    summary = (scores.max(axis=-1), graph.any(axis=-1), truth.any(axis=-1))
    found |= {f"summary.{name}": value for name, value in _ranking(*summary).items()}
    found |= lag_error(scores, graph, prediction.delays, series)
    if prediction.drift is not None and not failed(prediction):
        found["drift_error"] = drift_error(prediction.drift, series)
    return found


def near_scores(
    scores: Float[np.ndarray, "source target lag"],
    graph: Bool[np.ndarray, "source target lag"],
    truth: Bool[np.ndarray, "source target lag"],
) -> dict[str, float]:
    """Return scores that forgive one grid step.

    In the ranking, a true edge has the score of the best candidate within one step of it, and
    candidates within one step of a true edge do not count as false. In the graph, kept and true
    edges of a pair are matched one to one, in order of lag, if at most one step apart; the rest are
    errors.
    """
    around = _widen(truth)
    best = np.max(_shifted(scores, -np.inf), axis=0)
    where = truth | ~around
    ranked = np.where(truth, best, scores)
    matched = sum(
        _n_matched(np.nonzero(graph[pair])[0], np.nonzero(truth[pair])[0])
        for pair in np.ndindex(truth.shape[:2])
    )
    n_found, n_true = int(graph.sum()), int(truth.sum())
    return {
        "auroc": float(metrics.auroc(ranked, truth, where=where)),
        "auprc": float(metrics.auprc(ranked, truth, where=where)),
        "f1": 2 * matched / max(n_found + n_true, 1),
        "shd": float(n_found + n_true - 2 * matched),
    }


def lag_error(scores, graph, delays, series: Series) -> dict[str, float]:
    """Return the mean distance of true delays from the nearest estimate of the same pair, in grid
    steps and in time, and the share of true delays whose pair was found with any delay.

    A pair has as many estimates as it has true delays: its kept lags with the highest scores. Lag 0
    is that of a variable's own decay and estimates no delay.
    """
    estimate = np.broadcast_to(np.asarray(series.lags) * series.dt, graph.shape)
    if delays is not None:
        estimate = np.where(np.isfinite(delays), delays, estimate)
    delayed = np.arange(graph.shape[2]) > 0
    distances, n = [], 0
    for pair in np.ndindex(graph.shape[:2]):
        true = series.delays[pair][series.graph[pair] & delayed]
        kept = np.nonzero(graph[pair] & delayed)[0]
        kept = kept[np.argsort(-scores[pair][kept], kind="stable")][: len(true)]
        n += len(true)
        if len(kept):
            distances += [np.min(np.abs(estimate[pair][kept] - delay)) for delay in true]
    mean = float(np.mean(distances)) if distances else float("nan")
    return {
        "lag_error": mean,
        "lag_error_steps": mean / series.grid,
        "lags_found": len(distances) / n if n else float("nan"),
    }


def drift_error(drift, series: Series) -> float:
    """Return the root mean square error of a drift on an independent run, relative to the spread of
    the true one; mean over variables. 1 is as good as the mean drift.
    """
    found = np.asarray(jax.vmap(drift)(np.asarray(series.history)))
    error = np.sqrt(np.mean((found - series.drift) ** 2, axis=0))
    return float(np.mean(error / series.drift.std(axis=0)))


def _ranking(scores, graph, truth) -> dict[str, float]:
    return {
        "auroc": float(metrics.auroc(scores, truth)),
        "auprc": float(metrics.auprc(scores, truth)),
        "f1": float(metrics.f1_score(graph, truth)),
        "shd": float(metrics.structural_hamming_distance(graph, truth)),
    }


def _shifted(a, fill):
    """The array and its neighbours by one lag, `[3 ...]`."""
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1)), constant_values=fill)
    return np.stack([padded[..., k : k + a.shape[2]] for k in range(3)])


def _widen(graph):
    return _shifted(graph, False).any(axis=0)


def _n_matched(found, true) -> int:
    """Return the largest number of pairs (found, true) at most one apart; both ascending."""
    i = j = n = 0
    while i < len(found) and j < len(true):
        if abs(found[i] - true[j]) <= 1:
            i, j, n = i + 1, j + 1, n + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    return n
