"""The result type of a method, and helpers that all methods share."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .data import varying

OK = "ok"


class Prediction(NamedTuple):
    """The prediction of a method for one series, [source, target].

    `scores` rank the edges, NaN where the method failed; `graph` holds the kept edges; `status` is
    `ok` or the error.
    """

    scores: Float[np.ndarray, "source target"]
    graph: Bool[np.ndarray, "source target"]
    status: str


Method = Callable[..., list[Prediction]]


def blind_to_constants(method: Method) -> Method:
    """Hide constant variables from a method and give them no edges.

    A constant variable has no drift and no information about the others, and a fit cannot
    standardise it. The climate tier has one.
    """

    @functools.wraps(method)
    def wrapped(series, dt, settings, *, key):
        varies = varying(series)
        if not varies.any():
            raise ValueError("every variable is constant")
        found = method([x[:, varies] for x in series], dt, settings, key=key)
        inside = np.ix_(varies, varies)

        def embed(prediction):
            scores = np.zeros(2 * varies.shape, dtype=prediction.scores.dtype)
            graph = np.zeros(2 * varies.shape, dtype=bool)
            scores[inside], graph[inside] = prediction.scores, prediction.graph
            return Prediction(scores, graph, prediction.status)

        return [embed(prediction) for prediction in found]

    return wrapped


def values(found):
    """Return the strength of each edge of a spline search, or that of all lags of its source."""
    return np.maximum(found.value, np.asarray(found.source_value)[:, :, None])


def outcome(found) -> str:
    """Return `ok`, or `refused` for windows that a spline search does not accept."""
    return OK if np.isfinite(found.risk).all() else "refused"
