"""Methods as small adapters of one signature: a series in, scored edges out.

An adapter gets the samples, their interval, the candidate lags and a key, and returns a
`Prediction`. To add a method, write its adapter and one line in `METHODS`.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

import ndde_jax as ndde
from benchmarks import linear, peers
from benchmarks.causal_dynamics.methods import quick_path, single_coefficient
from benchmarks.causal_dynamics.settings import settings_for

from .settings import settings

OK = "ok"
# Methods with one coefficient, by their names in `benchmarks.causal_dynamics`.
SINGLE = ("l0ndde_single", "agl", "cnode", "pathreg")
# Passes of `search`, and the number of candidate inputs beyond which there is only one, since each
# takes minutes there.
PASSES, MANY = 3, 40


class Prediction(NamedTuple):
    """The prediction of a method for one series.

    - `scores` rank the edges, NaN where the method failed; `graph` holds the kept edges.
    - `drift`: physical history `[lag dim]` to physical drift, or None.
    - `delays`: estimated delay of every kept edge, in time; None means the lags themselves.
    - `status`: `ok`, or the error.
    - `windows`: the data of the drift, if it can be simulated.
    """

    scores: Float[np.ndarray, "source target lag"]
    graph: Bool[np.ndarray, "source target lag"]
    drift: Callable | None = None
    delays: Float[np.ndarray, "source target lag"] | None = None
    status: str = OK
    windows: ndde.Windows | None = None


def allones(x, dt, lags, *, key):
    """Return an anchor: everything drives everything at all lags."""
    shape = (x.shape[1], x.shape[1], len(lags))
    return Prediction(np.ones(shape), np.ones(shape, bool))


def selfedges(x, dt, lags, *, key):
    """Return an anchor: every variable drives itself at lag 0 and nothing else."""
    graph = np.zeros((x.shape[1], x.shape[1], len(lags)), bool)
    graph[..., 0] = np.eye(x.shape[1])
    return Prediction(graph.astype(float), graph)


Gated = ndde.L0NDDE | ndde.AGL | ndde.CNODE | ndde.PathReg | ndde.NODE


def gates(method: Gated | Callable[[int], Gated], windows_of: Callable | None = None):
    """One of the library's methods with its default coefficient, or one that depends on the number
    of inputs, on the windows of the settings or others.
    """

    def fit(x, dt, lags, *, key):
        windows = (windows_of or _windows)(x, dt, lags)
        inputs = windows.dim * windows.n_lags
        chosen = method if isinstance(method, ndde.fitting.AbstractMethod) else method(inputs)
        result = ndde.fit(chosen, windows, key=key)
        scores = np.asarray(ndde.edge_scores(result))
        status = OK if np.isfinite(scores).all() else result.outcome
        graph = np.asarray(ndde.window_graph(result))
        return Prediction(scores, graph, result.model, status=status, windows=windows)

    return fit


def by_default(kind: type[Gated]) -> Callable[[int], Gated]:
    """Return a method with its defaults, made only when needed, since XLA may not be set up at
    import.
    """
    return lambda inputs: kind()


def by_edge(inputs: int) -> ndde.L0NDDE:
    """Return gates whose price of an edge is the default price at three candidates, regardless of
    their number, by which `L0NDDE` divides its coefficient.
    """
    return ndde.L0NDDE(coefficient=0.05 / 3 * inputs)


def tuned(name: str):
    """One of the library's methods with the coefficient that the paper's rule chose on Lorenz84."""

    def fit(x, dt, lags, *, key):
        coefficient = settings_for("simple").coefficients[name]
        return gates(single_coefficient(name, coefficient))(x, dt, lags, key=key)

    return fit


def truth_free(name: str):
    """Return a method with the coefficient of its path that held-out blocks choose."""

    def fit(x, dt, lags, *, key):
        windows, (path_key, fit_key) = _windows(x, dt, lags), jr.split(key)
        found = quick_path(name, windows, settings()["method"]["grid"], key=path_key)
        graph = np.asarray(found.graph())
        model = ndde.fitting.fit_graph(windows, graph, key=fit_key)
        return _checked(Prediction(np.asarray(found.scores), graph, model, windows=windows))

    return fit


def discover(x, dt, lags, *, key, recipe=None):
    """The library's `discover`, by default without a recipe."""
    found = ndde.discover(x, dt=dt, lags=lags, recipe=recipe, key=key)
    delays = np.where(found.graph, found.delays, np.nan)
    model, windows = found.model, found.windows
    return _checked(Prediction(found.scores, found.graph, model, delays, windows=windows))


def splines(x, dt, lags, *, key):
    """The first stage of `search` alone: spline regression, no network."""
    found = ndde.select.spline_graph(_midpoints(x, dt, lags))
    return _checked(Prediction(np.asarray(found.evidence), np.asarray(found.graph)))


def search(x, dt, lags, *, key):
    """Moves judged by networks alone, where `discover` uses closed forms first."""
    passes = PASSES if x.shape[1] * len(lags) <= MANY else 1
    return discover(x, dt, lags, key=key, recipe=search_recipe(passes))


def search_recipe(passes: int = PASSES) -> ndde.Recipe:
    """The recipe of `search`."""
    options = dict(strategy=ndde.select.Moves(), family=ndde.models.Networks())
    return ndde.Recipe(scheme="midpoint", passes=passes, **options)


def _checked(prediction: Prediction) -> Prediction:
    usable = np.isfinite(prediction.scores).all()
    return prediction if usable else prediction._replace(status="refused")


def regression(regress: Callable, windows_of: Callable | None = None, **options):
    """A method from a function of flat lagged inputs and rates, see `linear`."""

    def fit(x, dt, lags, *, key):
        if regress is linear.random_forest:
            options["seed"] = int(jr.randint(key, (), 0, 2**31 - 1))
        windows = (windows_of or _windows)(x, dt, lags)
        return Prediction(*linear.on_windows(regress, windows, **options))

    return fit


def pcmci_plus(x, dt, lags, *, key):
    """Conditional independence tests of tigramite, on levels instead of rates."""
    return Prediction(*peers.pcmci_plus(x, lags))


@functools.lru_cache(maxsize=2)
def _cached_midpoints(data: bytes, shape, dt, lags):
    return ndde.select.midpoint_windows(np.frombuffer(data).reshape(shape), dt=dt, lags=lags)


def _midpoints(x, dt, lags) -> ndde.Windows:
    x = np.ascontiguousarray(x, dtype=np.float64)
    return _cached_midpoints(x.tobytes(), x.shape, dt, tuple(lags))


def _midpoints_too(methods: dict) -> dict:
    """Return the methods, and each again with states at the middle of each step, as in `search`."""
    found = {name: make(given) for name, (make, given) in methods.items()}
    for name, (make, given) in methods.items():
        found[f"{name}_midpoint"] = make(given, _midpoints)
    return found


Method = Callable[..., Prediction]
METHODS: dict[str, Method] = {
    "allones": allones,
    "selfedges": selfedges,
    "pcmci_plus": pcmci_plus,
    **_midpoints_too(
        {
            "lasso": (regression, linear.lagged_lasso),
            "granger": (regression, linear.vector_autoregression),
            "forest": (regression, linear.random_forest),
            "pysindy": (regression, peers.lagged_sparse_regression),
            "l0ndde": (gates, by_default(ndde.L0NDDE)),
            "l0ndde_edge": (gates, by_edge),
            "agl": (gates, by_default(ndde.AGL)),
            "cnode": (gates, by_default(ndde.CNODE)),
            "pathreg": (gates, by_default(ndde.PathReg)),
            "node": (gates, by_default(ndde.NODE)),
        }
    ),
    **{f"{name}_tuned": tuned(name) for name in SINGLE},
    **{f"{name}_free": truth_free(name) for name in SINGLE},
    "discover": discover,
    "splines": splines,
    "search": search,
}
# The default methods of `run`; the others take hours on the largest networks.
DEFAULT = ("allones", "selfedges", "lasso", "granger", "l0ndde", "search", "discover")


@functools.lru_cache(maxsize=2)
def _cached_windows(data: bytes, shape, dt, lags, scheme):
    return ndde.lagged_windows(np.frombuffer(data).reshape(shape), dt=dt, lags=lags, scheme=scheme)


def _windows(x, dt, lags) -> ndde.Windows:
    """Return windows with the scheme of the settings; the methods of one task share them."""
    x = np.ascontiguousarray(x, dtype=np.float64)
    return _cached_windows(x.tobytes(), x.shape, dt, tuple(lags), settings()["method"]["scheme"])
