"""The normal distribution of columns of which some values are missing, by maximum likelihood."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# Rounds of expectation and maximisation; they end once no covariance of standardised columns moves
# by this much.
ROUNDS, SETTLED = 20, 1e-3


class Normal(NamedTuple):
    """A normal distribution, and the rows that it was fitted to.

    - `mean`, `covariance`: of the columns; the covariance is positive definite.
    - `values`: the rows, with the expected value given what is measured in the row where one is
        missing.
    - `patterns`: which values are missing, `[pattern column]`, and the `pattern` of each row.
    """

    mean: Float[np.ndarray, " column"]
    covariance: Float[np.ndarray, "column column"]
    values: Float[np.ndarray, "row column"]
    patterns: Bool[np.ndarray, "pattern column"]
    pattern: Int[np.ndarray, " row"]


def fit_normal(x: Float[np.ndarray, "row column"]) -> Normal:
    """Return the normal distribution of rows of which values are missing, NaN.

    Expectation and maximisation (Dempster, Laird and Rubin, 1977): missing values are replaced by
    their expectation given those measured in the same row, and their conditional covariance enters
    the sums of products. So a covariance is never that of pairs of columns over different rows,
    which may have negative eigenvalues. One row of independent standard values is added, which
    keeps it positive definite where columns are redundant.

    Right where a value is missing for reasons that measured ones tell, or for none. Columns should
    be of the size of 1; one without any value is taken for independent of the others.

    ```python
    import numpy as np
    from ndde_jax import regression

    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 1)) + 0.5 * rng.normal(size=(2000, 2))
    x[rng.random(x.shape) < 0.3] = np.nan
    print(np.round(regression.fit_normal(x).covariance, 1))  # [[1.2 1. ] [1.  1.2]]
    ```
    """
    missing = np.isnan(x)
    patterns, pattern = np.unique(missing, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    order = np.argsort(pattern, kind="stable")
    ends = np.cumsum(np.bincount(pattern, minlength=len(patterns)))
    rows = [(gone, part) for gone, part in zip(patterns, np.split(order, ends[:-1]), strict=True)]
    count = np.maximum((~missing).sum(axis=0), 1)
    mean = np.where(missing, 0, x).sum(axis=0) / count
    values = np.where(missing, mean[None], x)
    spread = ((values - mean[None]) ** 2).sum(axis=0) / count
    covariance = np.diag(np.where(spread > 0, spread, 1))
    n, eye = len(x), np.eye(x.shape[1])
    for number in range(ROUNDS if missing.any() else 1):
        precision = np.linalg.inv(covariance)
        extra = np.zeros_like(covariance)
        for gone, part in rows if missing.any() else ():
            if not gone.any():
                continue
            own = np.linalg.inv(precision[np.ix_(gone, gone)])
            off = (values[np.ix_(part, ~gone)] - mean[~gone]) @ precision[np.ix_(~gone, gone)]
            values[np.ix_(part, gone)] = mean[gone] - off @ own
            extra[np.ix_(gone, gone)] += len(part) * own
        before, mean = covariance, values.mean(axis=0)
        off = values - mean[None]
        covariance = (off.T @ off + extra + eye) / (n + 1)
        if number and np.abs(covariance - before).max() < SETTLED:
            break
    return Normal(mean, covariance, values, patterns, pattern)
