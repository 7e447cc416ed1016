"""Methods as small adapters of one signature: levels in, a ranking of edges out.

An adapter gets filled levels `[time gauge]`, the interval in hours and a key, and returns a
`Prediction`. To add a method, write its adapter and one line in `METHODS`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

import ndde_jax as ndde
from benchmarks import linear, peers

from . import baselines
from .settings import settings

OK = "ok"


class Prediction(NamedTuple):
    """The prediction of a method for one set of gauges.

    - `scores` rank the edges, NaN where the method failed.
    - `graph`: edges it keeps; None if it only ranks.
    - `verdict`: its verdict on that graph, one of `tables.VERDICTS`; None if it has none.
    - `status`: `ok`, or the error.
    """

    scores: Float[np.ndarray, "source target"]
    graph: Bool[np.ndarray, "source target"] | None = None
    verdict: str | None = None
    status: str = OK


def chance(x, dt, *, key):
    """Return random scores, an anchor."""
    return Prediction(np.asarray(jr.uniform(key, (x.shape[1], x.shape[1]))))


def ranked(score: Callable, *, before: Callable = lambda x: x, after: Callable = lambda s: s):
    """Return a NumPy baseline; its settings are read when it runs."""

    def rank(x, dt, *, key):
        return Prediction(after(score(before(x))))

    return rank


def _var(x):
    return baselines.largest_coefficient(x, settings()["var"]["lags"])


def _direction(x):
    return baselines.correlation_direction(x, settings()["correlation"]["largest"])


def _best_direction(x):
    largest = settings()["correlation"]["largest"]
    return baselines.correlation_direction(x, largest, best_only=True)


def _ahead(x):
    return baselines.correlation_ahead(x, settings()["correlation"]["largest"])


def _pairs(x):
    return baselines.own_past_and(x, settings()["pairs"]["lags"])


def _pairs_more(x):
    return baselines.own_past_and(x, settings()["pairs"]["more"])


def _all_others(x):
    return baselines.given_all_others(x, settings()["pairs"]["lags"])


def on_windows(regress: Callable):
    """A regression of `benchmarks.linear` on lagged levels; a source counts by its best lag."""

    def fit(x, dt, *, key):
        scores, graph = linear.on_windows(regress, _windows(x, dt))
        return Prediction(scores.max(axis=2), graph.any(axis=2))

    return fit


def pcmci_plus(x, dt, *, key):
    """Conditional independence tests of tigramite (`peers`), on levels."""
    scores, graph = peers.pcmci_plus(x, range(settings()["peers"]["tau_max"]))
    return Prediction(scores.max(axis=2), graph.any(axis=2))


def varlingam(x, dt, *, key):
    """VARLiNGAM (Hyvärinen et al. 2010) of the package `lingam`: the largest absolute effect,
    including contemporaneous ones, of standardised levels.
    """
    return Prediction(_varlingam(baselines.standardised(x)))


def varlingam_raw(x, dt, *, key):
    """Return VARLiNGAM's ranking of raw levels, whose units it can use."""
    return Prediction(_varlingam(x))


def _varlingam(x):
    from lingam import VARLiNGAM

    found = VARLiNGAM(lags=settings()["peers"]["lags"], prune=False, criterion=None)
    found.fit(x)
    # [lag target source]
    return np.abs(found.adjacency_matrices_).max(axis=0).T


def splines(x, dt, *, key):
    """The library's closed-form search alone, ranked by the strength of each source."""
    found = ndde.select.spline_graph(_windows(x, dt))
    kept = np.asarray(found.graph).any(axis=2)
    return Prediction(np.asarray(found.evidence).max(axis=2), kept)


def rank(x, dt, *, key):
    """The library's ranking alone, mixed with the strengths of linear regressions: seconds for all
    subgraphs.
    """
    strengths = -np.expm1(-_all_others(x))
    return Prediction(ndde.measure.rank_sources(_samples(x, dt), np.maximum(strengths, 0)).value)


def rank_splines(x, dt, *, key):
    """The library's ranking, mixed with the strengths of its closed-form search."""
    found = ndde.select.spline_graph(_windows(x, dt))
    strengths = np.maximum(np.asarray(found.source_value, float), 0)
    kept = np.asarray(found.graph).any(axis=2)
    return Prediction(ndde.measure.rank_sources(_samples(x, dt), strengths).value, kept)


def _samples(x, dt) -> ndde.Samples:
    return ndde.read_samples(np.ascontiguousarray(x, np.float64), dt=dt, time_unit="h")


def discover(x, dt, *, key):
    """`discover` with its defaults, on the candidate lags of the settings."""
    names = [f"gauge {i}" for i in range(x.shape[1])]
    lags = settings()["windows"]["lags"]
    found = ndde.discover(x, dt=dt, lags=lags, names=names, time_unit="h", key=key)
    graph = np.asarray(found.graph).any(axis=2)
    return Prediction(np.asarray(found.source_scores), graph, str(found.verdict))


def _windows(x, dt) -> ndde.Windows:
    return ndde.lagged_windows(
        np.ascontiguousarray(x, np.float64), dt=dt, lags=settings()["windows"]["lags"]
    )


Method = Callable[..., Prediction]
METHODS: dict[str, Method] = {
    "chance": chance,
    "var": ranked(_var),
    "var_rescaled": ranked(_var, before=baselines.standardised),
    "correlation": ranked(_direction),
    "correlation_best": ranked(_best_direction),
    "correlation_ahead": ranked(_ahead),
    "pairs": ranked(_pairs),
    "pairs_reverse": ranked(_pairs, after=baselines.less_its_reverse),
    "pairs_reverse_five": ranked(_pairs_more, after=baselines.less_its_reverse),
    "pairs_root": ranked(_pairs, after=baselines.sign_and_root),
    "all_others": ranked(_all_others),
    "all_others_reverse": ranked(_all_others, after=baselines.less_its_reverse),
    "granger": on_windows(linear.vector_autoregression),
    "lasso": on_windows(linear.lagged_lasso),
    "pcmci_plus": pcmci_plus,
    "varlingam": varlingam,
    "varlingam_raw": varlingam_raw,
    "splines": splines,
    "rank": rank,
    "rank_splines": rank_splines,
    "discover": discover,
}
# Methods whose settings were chosen by this truth, as all published ones were.
WITH_TRUTH = ("var", "correlation", "correlation_best", "pairs_reverse", "pairs_root")
# The default methods of `run`.
DEFAULT = ("var", "var_rescaled", "correlation", "pairs", "pairs_reverse", "all_others", "rank")
