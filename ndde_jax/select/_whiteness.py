"""Whether noise was filtered before sampling, or a signal is smooth: what a law leaves says."""

import equinox as eqx
import jax.random as jr
import numpy as np

from .._memory import padded_length
from ..fit._correction import left_midway
from ..fit._drift import fit_drift
from ..models._families import Polynomials
from ..windows._stack import pad_windows
from ..windows._windows import Windows

# Correlation of what a law leaves of one step with what it leaves of the next. White noise has 0,
# and the mildest of filters, the mean over one interval between samples, 1/4 (the part of a
# Brownian path that neighbouring means share); half of that tells them apart.
WHITE = 0.125
# Variables up to which polynomials of all of them are at least quadratic.
MOST = 12


def leaves_white_noise(windows: Windows) -> bool:
    """Whether polynomials of all present states leave white noise of every rate.

    `windows` hold forward differences. Where no polynomial is the law, what it leaves is no noise,
    and the answer is no, as it is for measurement errors, of which a step and the next share one.
    """
    if windows.lags != (0,) or windows.dim > MOST:
        return False
    windows = pad_windows(windows, padded_length(len(windows.valid)))
    law = fit_drift(windows, "full", Polynomials(), key=jr.key(0))  # which draws nothing
    return bool(np.all(np.abs(memory_of_steps(windows, _left(windows, law))) < WHITE))


@eqx.filter_jit
def _left(windows, law):
    return left_midway(windows, law)[1]


def memory_of_steps(windows: Windows, left) -> np.ndarray:
    """Correlation of what is left of a step with what is left of the next, `[dim]`; NaN if there is
    none.
    """
    left, valid = np.asarray(left, np.float64), np.asarray(windows.valid)
    position = np.asarray(windows.position)
    both = valid[1:] & valid[:-1] & (position[1:] == position[:-1] + windows.step)
    first, second = left[:-1][both], left[1:][both]
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(np.sum(first**2, axis=0) * np.sum(second**2, axis=0))
        return np.sum(first * second, axis=0) / size
