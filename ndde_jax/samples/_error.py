"""White measurement errors, told by their spectrum from noise that drives the system."""

import numpy as np
from jaxtyping import Float

from ._gaps import runs
from ._samples import Samples

# Samples of the shortest stretch that can show an error.
FEWEST = 50
# Changes from sample to sample larger than this share of the variance say that sampling is too
# coarse for a path, whose memory of its own then looks like errors.
COARSE = 0.3
# Cycles per sample from which on a path adds next to nothing to the spectrum of its changes.
HIGH = 0.25
# Standard deviations by which an error must exceed nothing.
SURE = 2.5
# Scoring steps of the likelihood; five are the rule.
STEPS = 25


def measurement_error(x: Float[np.ndarray, "time"]) -> tuple[float, float]:
    """Return the variance of white measurement error, and that less two and a half standard errors.

    Changes of samples with errors of variance r and increments with white noise q have the
    spectrum q + 4 r sin²(πf) at frequencies f that a smooth path does not reach. Both are estimated
    from the periodogram above f = 1/4 by Whittle's likelihood (Whittle, *Estimation and information
    in stationary time series*, Arkiv för Matematik, 1953).
    """
    steps = np.diff(x)
    if len(x) < FEWEST or not steps.var() < COARSE * x.var():
        return 0.0, 0.0
    taper = np.hanning(len(steps))
    power = np.abs(np.fft.rfft((steps - steps.mean()) * taper)) ** 2 / np.sum(taper**2)
    frequency = np.fft.rfftfreq(len(steps))
    high = frequency > HIGH
    shapes = np.stack([np.ones(high.sum()), 4 * np.sin(np.pi * frequency[high]) ** 2], axis=1)
    return _white(power[high], shapes)


def _white(power, shapes) -> tuple[float, float]:
    """Return the maximiser of Σ −log S − I/S with S = shapes @ (q, r), by Fisher scoring."""
    if not power.mean() > 0:
        return 0.0, 0.0
    parameters = np.array([power.mean() / 2, power.mean() / 6])
    for _ in range(STEPS):
        weight = 1 / np.maximum(shapes @ parameters, 1e-12 * power.mean()) ** 2
        information = shapes.T @ (weight[:, None] * shapes)
        new = np.linalg.solve(information, shapes.T @ (weight * power))
        # Neither is negative; the other then explains all.
        if new[0] < 0:
            new = np.array([0.0, np.mean(power / shapes[:, 1])])
        elif new[1] < 0:
            return 0.0, 0.0
        parameters = new
    # Two frequencies in three are independent under this taper.
    deviation = float(np.sqrt(1.5 * np.linalg.inv(information)[1, 1]))
    return float(parameters[1]), float(parameters[1]) - SURE * deviation


def measurement_errors(samples: Samples) -> Float[np.ndarray, " dim"]:
    """Return the variance of the white measurement error of every variable, from its longest
    stretch; 0 where none can be shown, or samples are not equally spaced.
    """
    if not samples.regular:
        return np.zeros(samples.dim)
    found = []
    for j in range(samples.dim):
        best, least = measurement_error(max((stretch(x[:, j]) for x in samples.values), key=len))
        found.append(best if least > 0 else 0.0)
    return np.array(found)


def said_of_errors(samples: Samples, errors) -> tuple[str, ...]:
    """Return a sentence for a report on measurement errors; empty if there are none."""
    shares = [
        f"{np.sqrt(error) / np.nanstd(np.concatenate([x[:, j] for x in samples.values])):.1%} of "
        f"{samples.names[j]}"
        for j, error in enumerate(errors)
        if error > 0
    ]
    if not shares:
        return ()
    more = f" and {len(shares) - 4} more" if len(shares) > 4 else ""
    return (
        f"Measurement errors are about {', '.join(shares[:4])}{more}, in standard deviations. "
        "Several lags of one source average them out, so those are left out that explain less than "
        "such errors hide.",
    )


def stretch(x):
    """Return the longest stretch without missing values."""
    found = runs(np.isfinite(x))
    start, stop = found[np.argmax(found[:, 1] - found[:, 0])] if len(found) else (0, 0)
    return x[start:stop].astype(float)
