"""Maximum likelihood estimate of a normal distribution from rows with missing values."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# Most iterations of expectation and maximisation, and the change of covariances of standardised
# columns below which they end.
ROUNDS, SETTLED = 20, 1e-3


class Normal(NamedTuple):
    """A normal distribution, and the rows it was fitted to.

    - `mean`, `covariance`: moments of the columns; the covariance is positive definite.
    - `values`: the rows, with each missing value replaced by its expectation given the measured
        values of the row.
    - `patterns`: patterns of missing values, `[pattern column]`; `pattern`: that of each row.
    """

    mean: Float[np.ndarray, " column"]
    covariance: Float[np.ndarray, "column column"]
    values: Float[np.ndarray, "row column"]
    patterns: Bool[np.ndarray, "pattern column"]
    pattern: Int[np.ndarray, " row"]


def fit_normal(x: Float[np.ndarray, "row column"]) -> Normal:
    """Return the normal distribution of rows with missing values, NaN.

    Expectation and maximisation (Dempster, Laird and Rubin, 1977): missing values are replaced by
    their expectation given the measured ones of the same row, and their conditional covariance is
    added to the sums of products. This avoids covariances of pairs of columns over different rows,
    which may have negative eigenvalues. One row of independent standard values is added, which
    keeps the covariance positive definite if columns are redundant.

    Valid if values are missing at random, that is, for reasons that depend on measured values only,
    or on none. Columns should have a scale of about 1; a column without values is treated as
    independent of the others.

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
