"""A test of whether noise was filtered before sampling or a signal is smooth, by a law's
residual.
"""

import numpy as np

from ..fit._correction import following_rows, meet_midway_known
from ..models._polynomials import all_exponents, monomials
from ..windows._windows import Windows

# Correlation of what a law leaves of one step with what it leaves of the next. White noise has 0,
# and the mildest of filters, the mean over one interval between samples, 1/4 (the part of a
# Brownian path that neighbouring means share); half of that tells them apart.
WHITE = 0.125
# Variables up to which polynomials of all of them are at least quadratic.
MOST = 12
# Rows for every term, below which a law takes much of the noise with it.
ROWS = 5
# Corrections of the rates by what the law does during a step.
ROUNDS = 6


def leaves_white_noise(windows: Windows) -> bool:
    """Return whether polynomials of all present states leave white noise of every rate.

    `windows` hold forward differences. Where no polynomial is the law, its residual is no noise,
    and the answer is no, as it is for measurement errors, of which a step and the next share one.
    NumPy: it compiles nothing.
    """
    exponents, valid = all_exponents(windows.dim), np.asarray(windows.valid)
    if windows.lags != (0,) or windows.dim > MOST or valid.sum() < ROWS * len(exponents):
        return False
    s = windows.scaling
    center, scale = np.asarray(s.center, float), np.asarray(s.scale, float)
    rate_center, rate_scale = np.asarray(s.rate_center, float), np.asarray(s.rate_scale, float)
    following = following_rows(windows, np.asarray(windows.history))

    def terms(z):
        return monomials(np.asarray(z, np.float64), exponents)

    def fitted(seen):
        """Return coefficients `[term dim]`, and the residual of every rate; NaN where a diverging
        polynomial has left no numbers to fit.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            columns, rate = terms(seen.history[:, 0]), np.asarray(seen.increment, np.float64)
        if not (np.isfinite(columns[valid]).all() and np.isfinite(rate[valid]).all()):
            return np.full((columns.shape[1], rate.shape[1]), np.nan), np.full_like(rate, np.nan)
        c = np.linalg.lstsq(columns[valid], rate[valid], rcond=None)[0]
        return c, rate - columns @ c

    seen = windows
    for _ in range(ROUNDS):
        c, _ = fitted(seen)
        if not np.isfinite(c).all():
            return False

        def drift(lagged, c=c):
            z = (lagged[:, 0] - center[None]) / np.where(scale > 0, scale, 1)[None]
            return rate_center[None] + rate_scale[None] * (terms(z) @ c)

        seen = meet_midway_known(windows, drift, following, np.zeros_like(following))
    left = fitted(seen)[1]
    # Rates have variance 1: what leaves more than it began with is no law.
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.all(np.mean(left[valid] ** 2, axis=0) < 2):
            return False
    memory = memory_of_steps(windows, left)
    return bool(np.all(np.abs(memory) < WHITE))


def memory_of_steps(windows: Windows, left) -> np.ndarray:
    """Return the correlation of the residuals of consecutive steps, `[dim]`; NaN if there is
    none.
    """
    left, valid = np.asarray(left, np.float64), np.asarray(windows.valid)
    position = np.asarray(windows.position)
    both = valid[1:] & valid[:-1] & (position[1:] == position[:-1] + windows.step)
    first, second = left[:-1][both], left[1:][both]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = np.sqrt(np.sum(first**2, axis=0) * np.sum(second**2, axis=0))
        return np.sum(first * second, axis=0) / size
