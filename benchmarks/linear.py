"""Short regressions on lagged inputs, baselines for every table."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float


def on_windows(regress: Callable, windows, **options):
    """Return scores and graph, `[source target lag]`, of one of the regressions below."""
    _, n_lags, dim = windows.history.shape
    found = regress(*flat_windows(windows), **options)
    # [target (lag source)] -> [source target lag]
    return [np.moveaxis(a.reshape(dim, n_lags, dim), (0, 1, 2), (1, 2, 0)) for a in found]


def flat_windows(
    windows,
) -> tuple[Float[np.ndarray, "window input"], Float[np.ndarray, "window target"]]:
    """Return inputs, in the order (lag, source), and rates of the valid windows."""
    valid = np.asarray(windows.valid)
    flat = np.asarray(windows.history, float).reshape(len(valid), -1)
    return flat[valid], np.asarray(windows.increment, float)[valid]


def lagged_lasso(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Return an L1-penalised regression of every rate on all inputs, the penalty chosen by BIC.

    Returns absolute coefficients on standardised inputs, and which are not zero. Needs
    scikit-learn.
    """
    from sklearn.linear_model import LassoLarsIC

    scaled = standardise(inputs)
    sizes = np.stack(
        [np.abs(LassoLarsIC(criterion="bic").fit(scaled, y).coef_) for y in standardise(rate).T]
    )
    return sizes, sizes > 0


def vector_autoregression(
    inputs: Float[np.ndarray, "window input"],
    rate: Float[np.ndarray, "window target"],
    *,
    level: float = 0.01,
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Return Granger causality: least squares on all inputs, and a t-test of every coefficient.

    Returns t², and the coefficients significant at a false discovery rate of `level` (Benjamini
    and Hochberg, 1995) over all edges. Needs SciPy.
    """
    from scipy import stats

    design = np.column_stack([standardise(inputs), np.ones(len(inputs))])
    coefficients, *_ = np.linalg.lstsq(design, rate, rcond=None)
    freedom = len(inputs) - design.shape[1]
    variance = np.sum((rate - design @ coefficients) ** 2, axis=0) / freedom
    unit = np.diag(np.linalg.pinv(design.T @ design))
    t = (coefficients / np.sqrt(np.outer(unit, variance)))[:-1].T
    p = 2 * stats.t.sf(np.abs(t), freedom)
    adjusted = stats.false_discovery_control(p.ravel()).reshape(p.shape)
    return t**2, adjusted <= level


def linear_strengths(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Return the rise of a rate's unexplained share when all lags of a source are omitted from a
    least-squares fit: a signal strength with linear functions. All lags of a pair have its
    strength, and are kept if the F-test is significant at a false discovery rate of 1 %. Needs
    SciPy.
    """
    from scipy import stats

    design = np.column_stack([standardise(inputs), np.ones(len(inputs))])
    source = np.arange(inputs.shape[1]) % rate.shape[1]
    rise, log_p = nested_comparisons(design, [*source, -1], standardise(rate))
    kept = stats.false_discovery_control(np.exp(log_p).ravel()).reshape(log_p.shape) <= 0.01
    return rise.T[:, source], kept.T[:, source]


def linear_risk(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> Float[np.ndarray, " target"]:
    """Return the share of each rate's variance left unexplained by least squares on all inputs."""
    design = np.column_stack([standardise(inputs), np.ones(len(inputs))])
    return _squared_error(design, standardise(rate))


def nested_comparisons(
    design: Float[np.ndarray, "row column"],
    group: Sequence[int],
    output: Float[np.ndarray, "row target"],
) -> tuple[Float[np.ndarray, "group target"], Float[np.ndarray, "group target"]]:
    """Compare least squares with and without each group of columns, numbered from 0; −1 always
    stays.

    Returns the increase of the mean squared error without the group, and log p of the F-test of no
    effect. Needs SciPy.
    """
    from scipy import stats

    group = np.asarray(group)

    full, freedom = _squared_error(design, output), len(design) - design.shape[1]
    groups = range(group.max() + 1)
    size = np.array([[np.sum(group == g)] for g in groups])
    rise = np.stack([_squared_error(design[:, group != g], output) for g in groups]) - full
    return rise, stats.f.logsf(rise / size / (full / freedom), size, freedom)


def _squared_error(design, output):
    left = output - design @ np.linalg.lstsq(design, output, rcond=None)[0]
    return np.mean(left**2, axis=0)


def random_forest(
    inputs: Float[np.ndarray, "window input"],
    rate: Float[np.ndarray, "window target"],
    *,
    seed: int,
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Return the impurity importance of every input in a forest per target; kept above twice the
    uniform share. Needs scikit-learn.
    """
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_estimators=30, min_samples_leaf=5, max_features=1 / 3, random_state=seed
    )
    sizes = np.stack([forest.fit(inputs, y).feature_importances_ for y in rate.T])
    return sizes, sizes > 2 / inputs.shape[1]


def standardise(a: Float[np.ndarray, "row column"]) -> Float[np.ndarray, "row column"]:
    """Return columns of mean 0 and variance 1; a constant one becomes 0."""
    spread = a.std(axis=0)
    return (a - a.mean(axis=0)) / np.where(spread > 0, spread, 1)
