"""Methods as small adapters of one signature: a record's samples in, scored edges out.

An adapter gets samples (NaN where missing), the time between them, candidate lags of rates (None
if unknown) and a key, and returns a `Prediction`. To add a method, write its adapter and one line
in `METHODS`. Peers run with the settings that their authors or packages recommend.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

import ndde_jax as ndde
from benchmarks import linear, peers
from benchmarks.rivers import baselines
from benchmarks.rivers.data import interpolated

from .settings import settings
from .transfer import transfer_entropies

OK = "ok"


class Prediction(NamedTuple):
    """The prediction of a method for one record.

    - `scores` rank the pairs, NaN where the method failed.
    - `graph`: kept links, at lags of rates; None if it only ranks.
    - `at_once`: pairs reported as related within a sampling interval, symmetric; None if it does
        not report them.
    - `verdict`: its verdict on that graph, one of `tables.VERDICTS`; None if it has none.
    """

    scores: Float[np.ndarray, "source target"]
    graph: Bool[np.ndarray, "source target lag"] | None = None
    at_once: Bool[np.ndarray, "source target"] | None = None
    verdict: str | None = None


def discover(x, dt, lags, *, key):
    """Return the prediction of `discover` with its defaults."""
    found = ndde.discover(x, dt=dt, lags=lags, key=key)
    scores, graph = np.asarray(found.source_scores), np.asarray(found.graph)
    return Prediction(scores, graph, np.asarray(found.at_once), str(found.verdict))


def conditional_independence(**options):
    """PCMCI+ or LPCMCI of tigramite, which exclude missing values."""

    def fit(x, dt, lags, *, key):
        level = settings()["pcmci"]["level"]
        found = peers.time_lagged_links(x, _candidates(lags), level=level, **options)
        return Prediction(found.scores.max(axis=2), found.graph, found.at_once)

    return fit


def var(x, dt, lags, *, key):
    """Granger causality of statsmodels: a vector autoregression with its order by Akaike's
    criterion, t-tests of its coefficients, and an F-test of each pair for the ranking.
    """
    from scipy import stats
    from statsmodels.tsa.api import VAR

    x, lags = baselines.standardised(interpolated(x)), _candidates(lags)
    level, dim = settings()["var"]["level"], x.shape[1]
    fitted = VAR(x).fit(maxlags=len(lags), ic="aic", trend="c")
    order = max(fitted.k_ar, 1)
    fitted = fitted if fitted.k_ar else VAR(x).fit(1)
    # [(lag source) target], behind the intercept.
    p = np.asarray(fitted.pvalues)[1:]
    kept = stats.false_discovery_control(p.ravel()).reshape(p.shape) <= level
    graph = np.zeros((dim, dim, len(lags)), bool)
    graph[..., :order] = np.moveaxis(kept.reshape(order, dim, dim), 0, 2)
    inputs, following = _levels(x, range(order))
    design = np.column_stack([inputs, np.ones(len(inputs))])
    group = [*(np.arange(inputs.shape[1]) % dim), -1]
    rise, _ = linear.nested_comparisons(design, group, following)
    left = following - design @ np.linalg.lstsq(design, following, rcond=None)[0]
    # F up to a common factor, since p-values of strong links are all zero.
    return Prediction(rise / np.mean(left**2, axis=0), graph)


def lasso(x, dt, lags, *, key):
    """An L1-penalised autoregression, its penalty chosen by BIC (scikit-learn)."""
    return _regression(linear.lagged_lasso, x, lags)


def pysindy(x, dt, lags, *, key):
    """SINDy on delayed polynomials (`peers`)."""
    return _regression(peers.lagged_sparse_regression, x, lags)


def _regression(regress, x, lags) -> Prediction:
    lags = _candidates(lags)
    x = baselines.standardised(interpolated(x))
    sizes, kept = regress(*_levels(x, lags))
    return Prediction(_by_source(sizes, lags).max(axis=2), _by_source(kept, lags))


def trees(x, dt, lags, *, key):
    """Boosted trees of scikit-learn for each target: the fall of its held-out R² when a column is
    permuted. They accept missing values.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    chosen, lags = settings()["trees"], _candidates(lags)
    seed = int(jr.randint(key, (), 0, 2**31 - 1))
    rng = np.random.default_rng(seed)
    inputs, following = _levels(x, lags)
    first = np.arange(len(inputs)) < (1 - chosen["held"]) * len(inputs)
    shape = (x.shape[1], inputs.shape[1])
    mean, deviation = np.zeros(shape), np.zeros(shape)
    # With so few rows, threads cost more than they save.
    with threadpool_limits(1):
        for target, y in enumerate(following.T):
            known = ~np.isnan(y)
            model = HistGradientBoostingRegressor(random_state=seed)
            model.fit(inputs[first & known], y[first & known])
            rest = ~first & known
            fall = _permuted(model, inputs[rest], y[rest], chosen["times"], rng)
            mean[target], deviation[target] = fall.mean(axis=1), fall.std(axis=1)
    kept = mean > chosen["deviations"] * deviation
    return Prediction(_by_source(mean, lags).max(axis=2), _by_source(kept, lags))


def _permuted(model, inputs, y, times, rng) -> Float[np.ndarray, "input time"]:
    """Return the fall of R² by input and permutation."""
    n, width = inputs.shape
    moved = np.broadcast_to(inputs, (width, times, n, width)).copy()
    column = np.arange(width)
    # [input time row]: the one column of each block that is permuted.
    own = np.broadcast_to(inputs.T[:, None], (width, times, n))
    moved[column, :, :, column] = rng.permuted(own, axis=2)
    said = model.predict(moved.reshape(-1, width)).reshape(width, times, n)
    error = np.mean((y - model.predict(inputs)) ** 2)
    return (np.mean((y - said) ** 2, axis=2) - error) / y.var()


def varlingam(x, dt, lags, *, key):
    """VARLiNGAM (Hyvärinen et al. 2010) of the package `lingam`, order by BIC, pruned."""
    from lingam import VARLiNGAM

    lags = _candidates(lags)
    x = baselines.standardised(interpolated(x))
    found = VARLiNGAM(lags=len(lags), criterion="bic", prune=True)
    found.fit(x)
    # [lag target source], the present first.
    sizes = np.abs(np.asarray(found.adjacency_matrices_)).transpose(2, 1, 0)
    graph = np.zeros((x.shape[1], x.shape[1], len(lags)), bool)
    graph[..., : sizes.shape[2] - 1] = sizes[..., 1:] > 0
    now = sizes[..., 0] > 0
    return Prediction(sizes[..., 1:].max(axis=2, initial=0.0), graph, now | now.T)


def transfer(x, dt, lags, *, key):
    """Transfer entropy of pairs by nearest neighbours (Frenzel and Pompe 2007)."""
    chosen = {name: value for name, value in settings()["transfer"].items() if name != "dim"}
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    return Prediction(*transfer_entropies(interpolated(x), _candidates(lags), rng=rng, **chosen))


def asymmetry(x, dt, lags, *, key):
    """Return a ranking: the gain from a source's past beyond the target's, minus the reverse."""
    added = baselines.own_past_and(interpolated(x), len(_candidates(lags)))
    return Prediction(baselines.less_its_reverse(added))


def _candidates(lags) -> range:
    """Return consecutive lags from 0 on; those of the settings if unknown."""
    return range(settings()["plants"]["lags"] if lags is None else max(lags) + 1)


def _levels(x, lags: range):
    """Return levels at the lags, `[window (lag source)]`, and those of the next sample."""
    rows = np.arange(max(lags), len(x) - 1)
    return np.column_stack([x[rows - lag] for lag in lags]), x[rows + 1]


def _by_source(found, lags: range):
    """Return an array `[source target lag]` from `[target (lag source)]`."""
    return found.reshape(len(found), len(lags), -1).transpose(2, 0, 1)


Method = Callable[..., Prediction]
METHODS: dict[str, Method] = {
    "discover": discover,
    "pcmci_plus": conditional_independence(),
    "pcmci_robust": conditional_independence(robust=True),
    "lpcmci": conditional_independence(hidden=True),
    "var": var,
    "lasso": lasso,
    "varlingam": varlingam,
    "trees": trees,
    "transfer": transfer,
    "pysindy": pysindy,
    "asymmetry": asymmetry,
}
# The default methods of `run`.
DEFAULT = ("discover",)
# Families on which a method is run, if not all.
ONLY = {"lpcmci": ("hidden",)}
# The name of a method in the settings, if it differs.
SECTIONS = dict.fromkeys(("pcmci_plus", "pcmci_robust", "lpcmci"), "pcmci")
