"""Methods as small adapters of one signature: series in, scored graphs out.

An adapter gets the standardised series of one graph (a list of [time dim] arrays), their sampling
interval, the category's settings and a key, and returns one `Prediction` per series, in order. To
add a method, write its adapter and one line in `METHODS`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

from .data import varying
from .settings import Settings

OK = "ok"


class Prediction(NamedTuple):
    """What a method says about one series, [source, target].

    `scores` rank the edges, NaN where the method failed; `graph` holds those it would keep;
    `status` is `ok` or says what happened.
    """

    scores: Float[np.ndarray, "source target"]
    graph: Bool[np.ndarray, "source target"]
    status: str


Method = Callable[..., list[Prediction]]


def allones(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
    """Anchor: everything drives everything."""
    return [_guess(np.ones(2 * x.shape[1:])) for x in series]


def selfedges(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
    """Anchor: every variable drives itself and nothing else."""
    return [_guess(np.eye(x.shape[1])) for x in series]


def blind_to_constants(method: Method) -> Method:
    """Hide constant variables from a method and give them no edges.

    A variable that never moves has no drift to learn and tells nothing about the others, and a fit
    cannot standardise it. The climate tier has one.
    """

    @functools.wraps(method)
    def wrapped(series, dt, settings, *, key):
        seen = varying(series)
        if not seen.any():
            raise ValueError("every variable is constant")
        found = method([x[:, seen] for x in series], dt, settings, key=key)
        inside = np.ix_(seen, seen)

        def embed(prediction):
            scores = np.zeros(2 * seen.shape, dtype=prediction.scores.dtype)
            graph = np.zeros(2 * seen.shape, dtype=bool)
            scores[inside], graph[inside] = prediction.scores, prediction.graph
            return Prediction(scores, graph, prediction.status)

        return [embed(prediction) for prediction in found]

    return wrapped


@blind_to_constants
def l0ndde(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
    """Gates of the L0-penalised drift: open probabilities as scores, open gates as graph."""
    import ndde_jax as ndde

    windows = [_windows(x, dt, settings) for x in series]
    given = {} if settings.coefficient is None else {"coefficient": settings.coefficient}
    method = ndde.L0NDDE(**given)
    fits = ndde.fit_many(method, windows, ndde.FitConfig(), key=key, progress=False)
    return [_prediction(ndde.edge_scores(fit), ndde.window_graph(fit), fit.outcome) for fit in fits]


@blind_to_constants
def strength(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
    """Refitted signal strengths: what leaving an input out costs, and the default rule on it."""
    import ndde_jax as ndde

    def one(x, key):
        found = ndde.signal_strengths(_windows(x, dt, settings), key=key)
        # A monotone map into (-1, 1) with 1/2 at the typical price of an edge: the benchmark's own
        # scorer counts an edge from 1/2 on.
        value = np.asarray(found.value)
        scores = value / (np.abs(value) + np.median(found.threshold))
        return _prediction(scores, found.kept(), OK if np.isfinite(value).all() else "refused")

    keys = jr.split(key, len(series))
    return [one(x, key) for x, key in zip(series, keys, strict=True)]


METHODS: dict[str, Method] = {
    "allones": allones,
    "selfedges": selfedges,
    "l0ndde": l0ndde,
    "strength": strength,
}


def _windows(x, dt, settings):
    import ndde_jax as ndde

    return ndde.lagged_windows(x, dt=dt, lags=settings.lags, scheme=settings.scheme)


def _prediction(scores, graph, status) -> Prediction:
    """From [source target lag] to [source target]: the strongest lag speaks for the pair."""
    return Prediction(np.asarray(scores).max(axis=-1), np.asarray(graph).any(axis=-1), status)


def _guess(scores) -> Prediction:
    return Prediction(scores, scores > 0.5, OK)
