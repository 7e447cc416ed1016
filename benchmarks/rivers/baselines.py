"""Baselines that a table of river methods should include: a few lines of NumPy each.

All take filled levels `[time gauge]` and return scores `[source target]`.
"""

import numpy as np
from jaxtyping import Float

Levels = Float[np.ndarray, "time gauge"]
Ranking = Float[np.ndarray, "source target"]


def largest_coefficient(x: Levels, lags: int) -> Ranking:
    """The published vector autoregression: least squares of the levels on `lags` past levels and an
    intercept, ranked by the largest signed coefficient. It depends on the units of gauges.
    """
    n, dim = x.shape
    past = [x[lags - k : n - k] for k in range(1, lags + 1)]
    design = np.column_stack([np.ones(n - lags), *past])
    coefficients = np.linalg.lstsq(design, x[lags:], rcond=None)[0][1:]
    return coefficients.reshape(lags, dim, dim).max(axis=0)


def standardised(x: Levels) -> Levels:
    """Return every gauge in units of its standard deviation."""
    return (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)


def correlation_direction(x: Levels, largest: int, *, best_only: bool = False) -> Ranking:
    """The published cross-correlation: an edge from the variable that is ahead at the shift of the
    highest correlation, up to `largest` samples, with score 1. With `best_only`, a source keeps
    only the target it correlates with most.
    """
    at, peak = _peaks(x, largest)
    kept = at > 0
    if best_only:
        height = np.where(kept, peak, -np.inf)
        kept &= height == height.max(axis=1, keepdims=True)
    return kept.astype(float)


def correlation_ahead(x: Levels, largest: int) -> Ranking:
    """Return the highest correlation, positive where the source is ahead."""
    at, peak = _peaks(x, largest)
    return np.sign(at) * np.maximum(peak, 0)


def _peaks(x: Levels, largest: int):
    """Return the number of samples by which a source is ahead of a target at the highest
    correlation of their overlapping parts, and that correlation, `[source target]`.
    """
    n, dim = x.shape
    largest = min(largest, n // 2)
    z = standardised(x)
    spectrum = np.fft.rfft(z, 2 * n, axis=0)
    # Sums of products at shifts 0, 1, ...: source early, target late.
    products = spectrum.conj()[:, :, None] * spectrum[:, None, :]
    crossed = np.fft.irfft(products, axis=0)[: largest + 1]
    left = n - np.arange(largest + 1)
    first, square = (np.cumsum(np.vstack([np.zeros(dim), part]), axis=0) for part in (z, z**2))
    early, early_square = (part[left] / left[:, None] for part in (first, square))
    late, late_square = ((part[n] - part[n - left]) / left[:, None] for part in (first, square))
    covariance = crossed / left[:, None, None] - early[:, :, None] * late[:, None, :]
    spread = (early_square - early**2)[:, :, None] * (late_square - late**2)[:, None, :]
    ahead = covariance / np.sqrt(np.maximum(spread, 1e-300))
    table = np.concatenate([np.swapaxes(ahead[:0:-1], 1, 2), ahead])
    return table.argmax(axis=0) - largest, table.max(axis=0)


def own_past_and(x: Levels, lags: int) -> Ranking:
    """Return the gain from a source's past beyond the target's own, pair by pair: the decrease of
    the log squared error of the next step, both with `lags` past levels and an intercept.
    """
    n, dim = x.shape
    past = [standardised(x)[lags - k : n - k] for k in range(1, lags + 1)]
    own = [np.column_stack([np.ones(n - lags), *(p[:, i] for p in past)]) for i in range(dim)]
    rate = standardised(np.diff(x, axis=0)[lags - 1 :])
    added = np.zeros((dim, dim))
    for target in range(dim):
        alone = _error(own[target], rate[:, target])
        for source in set(range(dim)) - {target}:
            both = np.column_stack([own[target], own[source][:, 1:]])
            added[source, target] = np.log(alone / _error(both, rate[:, target]))
    return added


def given_all_others(x: Levels, lags: int) -> Ranking:
    """Return the gain from a source's past beyond all others: Granger causality as a strength."""
    n, dim = x.shape
    past = np.stack([standardised(x)[lags - k : n - k] for k in range(1, lags + 1)], axis=1)
    rate = standardised(np.diff(x, axis=0)[lags - 1 :])
    one = np.ones((n - lags, 1))
    full = _error(np.column_stack([one, past.reshape(n - lags, -1)]), rate)
    added = np.zeros((dim, dim))
    for source in range(dim):
        rest = np.delete(past, source, axis=2).reshape(n - lags, -1)
        added[source] = np.log(_error(np.column_stack([one, rest]), rate) / full)
    return added


def less_its_reverse(scores: Ranking) -> Ranking:
    """Return the asymmetry of a score: that of a pair minus that of its reverse."""
    return scores - scores.T


def sign_and_root(scores: Ranking) -> Ranking:
    """Return the sign of the asymmetry times the root of asymmetry and score; chosen by inspecting
    the flood's truth.
    """
    less = less_its_reverse(scores)
    return np.sign(less) * np.sqrt(np.abs(less) * np.maximum(scores, 0))


def _error(design, output):
    left = output - design @ np.linalg.lstsq(design, output, rcond=None)[0]
    return np.maximum(np.mean(left**2, axis=0), 1e-300)
