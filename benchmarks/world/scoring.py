"""Scores of a prediction: links at exact lags if these are known, pairs otherwise."""

import numpy as np

from benchmarks import tables
from benchmarks.rivers.scoring import auroc

from .data import Record
from .methods import Prediction


def failed(found: Prediction) -> bool:
    """Return whether a method gave no usable answer."""
    return not np.isfinite(found.scores).all()


def nothing(record: Record) -> Prediction:
    """Return the prediction of a failed method."""
    return Prediction(np.full(record.pairs.shape, np.nan))


def score(found: Prediction, record: Record) -> dict[str, float]:
    """Return all scores of one prediction; a failed one keeps nothing and ranks nothing.

    - `f1`: at exact lags between different variables if the record's lags are known, else of pairs;
        NaN if there are no links, or the method only ranks.
    - `auroc`: of pairs; NaN if there are no links.
    - `false`: number of kept pairs without a link, and of `possible` ones.
    - `at_once.f1`: of pairs related within a sampling interval, if method and record have any.
    - the counts for a table of verdicts, see `benchmarks.dirty.report.calibration`.
    """
    where, bad = record.where, failed(found)
    ranking = np.zeros_like(found.scores) if bad else np.asarray(found.scores, float)
    metrics = {
        "failed": float(bad),
        "auroc": auroc(ranking[record.ranked], record.pairs[record.ranked]),
        "verdict": -1.0 if found.verdict is None else float(tables.VERDICTS.index(found.verdict)),
    }
    graph = found.graph
    if graph is None and bad:
        graph = np.zeros((*where.shape, 1), bool)
    if graph is not None:
        metrics |= _kept(np.asarray(graph), record)
    if record.at_once is not None and found.at_once is not None and record.at_once[where].any():
        truth, kept = record.at_once[where], np.asarray(found.at_once)[where]
        metrics["at_once.f1"] = _f1(kept & truth, kept, truth)
    return metrics


def _kept(graph, record: Record) -> dict[str, float]:
    where, pairs = record.where, record.pairs[record.where]
    summary = graph.any(axis=2)[where]
    if record.links is None:
        kept, truth = summary, pairs
    else:
        kept, truth = np.zeros_like(record.links), record.links
        kept[..., : graph.shape[2]] = graph
        kept, truth = kept[where], truth[where]
    return {
        "f1": _f1(kept & truth, kept, truth) if truth.any() else float("nan"),
        "false": float((summary & ~pairs).sum()),
        "possible": float((~pairs).sum()),
        "edges": float(kept.sum()),
        "true": float((kept & truth).sum()),
        "summary_edges": float(summary.sum()),
        "summary_true": float((summary & pairs).sum()),
        "summary_truth": float(pairs.sum()),
    }


def _f1(right, kept, truth) -> float:
    total = kept.sum() + truth.sum()
    return float(2 * right.sum() / total) if total else 1.0
