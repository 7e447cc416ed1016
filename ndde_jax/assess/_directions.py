"""The likelier direction of a relation at once, by the shape of distributions.

Where x drives y within a sampling interval, y = b x + e with e independent of x. A sum of
independent variables is nearer to a normal distribution than its parts, so that the two directions
differ in their likelihood unless all is normal (Hyvärinen and Smith, 2013, "Pairwise likelihood
ratios for estimation of non-Gaussian structural equation models").
"""

import numpy as np
from jaxtyping import Bool, Float

# The entropy of a density by its mean log cosh, that of a normal one being `NORMAL`, and by its
# skewness (Hyvärinen, 1998).
NORMAL, HEAVY, SKEW = 0.37457, 79.047, 7.4129


def direction_evidence(
    left: Float[np.ndarray, "row dim"], pairs: Bool[np.ndarray, "source target"]
) -> Float[np.ndarray, "source target"]:
    """Return by how many nats a relation of residuals is likelier from source to target than the
    other way round, antisymmetric; 0 for what is no pair, and near 0 where all is normal.

    **Arguments:**

    - `left`: the residuals, NaN where they are not known.
    - `pairs`: which to compare, symmetric.
    """
    nats = np.zeros(pairs.shape)
    for i, j in np.argwhere(np.triu(pairs, 1)):
        both = left[:, [i, j]]
        both = both[np.isfinite(both).all(axis=1)]
        if len(both) < 2 or not np.ptp(both, axis=0).all():
            continue
        x, y = ((both - both.mean(axis=0)) / both.std(axis=0)).T
        along = (x * y).mean()
        forward = _entropy(y) + _entropy(x - along * y)
        back = _entropy(x) + _entropy(y - along * x)
        nats[i, j] = len(both) * (forward - back)
        nats[j, i] = -nats[i, j]
    return nats


def _entropy(u: Float[np.ndarray, " row"]) -> float:
    """Return the entropy of a sample of mean zero once it is of variance one, up to a constant."""
    u = u / max(u.std(), 1e-300)
    log_cosh = np.logaddexp(u, -u) - np.log(2)
    skew = (u * np.exp(-(u**2) / 2)).mean()
    return float(-HEAVY * (log_cosh.mean() - NORMAL) ** 2 - SKEW * skew**2)
