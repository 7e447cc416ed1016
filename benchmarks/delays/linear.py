"""Regressions on lagged inputs, small enough to read: what a table should be compared with."""

import numpy as np
from jaxtyping import Bool, Float


def lagged_lasso(
    inputs: Float[np.ndarray, "window input"], rate: Float[np.ndarray, "window target"]
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """L1-penalised regression of every rate on all inputs, the penalty chosen by BIC.

    Returns absolute coefficients on standardised inputs, and which are not zero. Needs
    scikit-learn.
    """
    from sklearn.linear_model import LassoLarsIC

    scaled = _standardise(inputs)
    sizes = np.stack(
        [np.abs(LassoLarsIC(criterion="bic").fit(scaled, y).coef_) for y in _standardise(rate).T]
    )
    return sizes, sizes > 0


def vector_autoregression(
    inputs: Float[np.ndarray, "window input"],
    rate: Float[np.ndarray, "window target"],
    *,
    level: float = 0.01,
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Granger causality: least squares on all inputs, and a t-test of every coefficient.

    Returns t², and the coefficients significant at a false discovery rate of `level` (Benjamini
    and Hochberg, 1995) over all edges. Needs SciPy.
    """
    from scipy import stats

    design = np.column_stack([_standardise(inputs), np.ones(len(inputs))])
    coefficients, *_ = np.linalg.lstsq(design, rate, rcond=None)
    freedom = len(inputs) - design.shape[1]
    variance = np.sum((rate - design @ coefficients) ** 2, axis=0) / freedom
    unit = np.diag(np.linalg.pinv(design.T @ design))
    t = (coefficients / np.sqrt(np.outer(unit, variance)))[:-1].T
    p = 2 * stats.t.sf(np.abs(t), freedom)
    adjusted = stats.false_discovery_control(p.ravel()).reshape(p.shape)
    return t**2, adjusted <= level


def random_forest(
    inputs: Float[np.ndarray, "window input"],
    rate: Float[np.ndarray, "window target"],
    *,
    seed: int,
) -> tuple[Float[np.ndarray, "target input"], Bool[np.ndarray, "target input"]]:
    """Impurity importance of every input in a forest per target; kept above twice the uniform
    share. Needs scikit-learn.
    """
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_estimators=30, min_samples_leaf=5, max_features=1 / 3, random_state=seed
    )
    sizes = np.stack([forest.fit(inputs, y).feature_importances_ for y in rate.T])
    return sizes, sizes > 2 / inputs.shape[1]


def _standardise(a):
    return (a - a.mean(axis=0)) / a.std(axis=0)
