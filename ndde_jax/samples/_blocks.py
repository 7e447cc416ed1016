"""Tests on blocks of a record, each several correlation times long, for trends and steps."""

import numpy as np
from jaxtyping import Float

# Fewest and most blocks of a record that are compared, and how many correlation times one spans.
FEWEST_BLOCKS, MOST_BLOCKS, TIMES_PER_BLOCK = 8, 32, 8
# How many standard errors blocks must lie apart, over all places where a regime could change.
APART = 5.3


def blocks(x: Float[np.ndarray, "time"]) -> Float[np.ndarray, "block sample"] | None:
    """Return a record cut into blocks of several correlation times; None for fewer than eight."""
    n = len(x)
    centred = x - x.mean()
    spectrum = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum)[:n]
    if not correlation[0] > 0:
        return None
    below = np.flatnonzero(correlation < correlation[0] / np.e)
    time = int(below[0]) if len(below) else n
    length = max(TIMES_PER_BLOCK * time, n // MOST_BLOCKS, 8)
    count = n // length
    if count < FEWEST_BLOCKS:
        return None
    return x[: n // count * count].reshape(count, -1)


def standard_errors(fitted, values, degrees: int) -> float:
    """Return by how many standard errors a pattern of blocks differs from zero; correlated
    neighbouring blocks count as fewer.
    """
    from scipy.special import stdtr

    rest = values - fitted
    pattern = fitted - fitted.mean()
    square = float(rest @ rest)
    if not square > 1e-24 * float(values @ values):
        return np.inf if float(pattern @ pattern) > 0 else 0.0
    alike = float(rest[1:] @ rest[:-1]) / square
    alike = min(max(alike, 0.0), 0.9)
    size = np.sqrt(float(pattern @ pattern) / (square / (len(values) - degrees)))
    # Of a normal distribution: with few blocks their own scatter is uncertain.
    size = size * np.sqrt((1 - alike) / (1 + alike))
    chance = np.log(max(float(stdtr(len(values) - degrees, -size)), 1e-300))
    return float(np.sqrt(max(-2 * chance - np.log(max(-4 * np.pi * chance, 1.0)), 0.0)))


def trend(x: Float[np.ndarray, "time"]) -> tuple[float, float]:
    """Return the standard errors of a linear trend in the block means, and its share of the
    variance of the samples; zeros if a step would fit better or the record is too short to tell.
    """
    cut = blocks(x - line(x))
    if cut is None:
        return 0.0, 0.0
    count = len(cut)
    means = x[: len(x) // count * count].reshape(count, -1).mean(axis=1)
    fitted = line(means)
    step = best_step(means)[1]
    if np.sum((means - step) ** 2) < np.sum((means - fitted) ** 2):
        return 0.0, 0.0
    variance = x.var()
    share = float(np.var(line(x)) / variance) if variance > 0 else 0.0
    return standard_errors(fitted, means, 2), share


def line(x: Float[np.ndarray, "time"]) -> Float[np.ndarray, "time"]:
    """Return the least-squares straight line."""
    time = np.arange(len(x)) - (len(x) - 1) / 2
    return x.mean() + time * (time @ x / (time @ time))


def best_step(values: Float[np.ndarray, "time"]) -> tuple[int, Float[np.ndarray, "time"]]:
    """Return the best split of a record into two levels, at least an eighth from either end, and
    the levels.
    """
    n = len(values)
    total = np.cumsum(values)
    places = np.arange(max(n // 8, 2), n - max(n // 8, 2) + 1)
    left, right = total[places - 1] / places, (total[-1] - total[places - 1]) / (n - places)
    gain = places * left**2 + (n - places) * right**2
    best = int(np.argmax(gain))
    place = int(places[best])
    return place, np.where(np.arange(n) < place, left[best], right[best])
