"""Noise in a trajectory: its amount, and whether it is white, filtered, ringing, or measurement
error.
"""

import functools
import operator
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import divisor
from .._wording import listed
from ._gaps import longest_run
from ._samples import Samples
from ._trajectories import Trajectories

# Shortest stretch without missing values whose spectrum is used.
SHORTEST_SPECTRUM = 64

# Number of differences of the increments, after which the remainder counts as noise. Each one
# reduces a smooth signal by another factor ~ frequency * dt and costs one sample.
ORDER = 4
# Samples at either end over which ringing is averaged, and the quantile of all such stretches of
# the series with which it is compared.
END = 8
LOUD = 0.97
# Length of the shortest stretch that can show an error, in samples.
FEWEST = 50
# If the variance of one-step changes exceeds this share of the variance, sampling is too coarse:
# the memory of the path itself then looks like errors.
COARSE = 0.3
# Frequency, in cycles per sample, above which a path hardly adds to the spectrum of its changes.
HIGH = 0.25
# Standard errors by which a measurement error must exceed zero.
SURE = 2.5
# Number of high-frequency bands compared with the expected spectrum; the share of it below which a
# band is empty; and the probability of a false empty band.
BANDS, EMPTY, BY_CHANCE = 8, 0.5, 1e-4
# Scoring steps of the likelihood; five usually suffice.
STEPS = 25


def pooled_roll_off(data: Trajectories) -> Any:
    """Return the ratio of the median power of the increments in the top quarter of frequencies to
    that in the quarter below, for each variable; NaN when traced, and without 64 samples in a row.

    White noise in the increments gives 0.9 to 1, noise that was band-limited before sampling 0.7,
    averages over the sampling interval (such as monthly means) less, and observation noise more
    than 1, with a standard deviation of about 8/√time. The ratio says little about signals without
    noise. The longest stretch without missing values of each trajectory is used.
    """
    if data.xp is jnp:
        return jnp.full((data.dim,), jnp.nan)
    top, below = [], []
    for value, present in zip(data.values, data.present, strict=True):
        whole = value[longest_run(present)]
        if len(whole) < SHORTEST_SPECTRUM:
            continue
        increment = np.diff(whole, axis=0)
        increment = increment - increment.mean(axis=0)
        taper = np.hanning(len(increment))[:, None]
        power = np.abs(np.fft.rfft(increment * taper, axis=0)) ** 2
        frequency = np.linspace(0, 1, len(power))
        top.append(power[frequency > 0.75])
        below.append(power[(frequency > 0.5) & (frequency <= 0.75)])
    if not top:
        return np.full(data.dim, np.nan)
    # Medians: bursts of a few samples leave spectral lines that would dominate a mean.
    low, high = (np.median(np.concatenate(band), axis=0) for band in (below, top))
    return np.where(low > 0, high / divisor(low), np.nan)


def pooled_ringing(data: Trajectories) -> Any:
    """Return how much stronger high frequencies are at both ends of a series than elsewhere, for
    each variable; NaN when traced, and without a trajectory of 64 samples, complete at both ends.

    Resampling by Fourier transform treats a series as periodic. The jump from its last value to its
    first leaves an oscillation at the sampling frequency that is strongest at the two ends (Gibbs)
    and that forward differences read as a fast drift. With E the mean of (Δ⁵x)² over 8 samples,

        ringing = min(E at the start, E at the end) / 97 % quantile of E,

    the largest of all trajectories. With noise alone, the value rarely exceeds 1, and exceeds 1.5
    in about one series of 10⁵. Ringing reaches 2 to 20. Bursts or transients count only if they
    occur at both ends.
    """
    ringing = np.full(data.dim, np.nan)
    if data.xp is jnp:
        return jnp.asarray(ringing)
    for value, present in zip(data.values, data.present, strict=True):
        complete = _runs(present, ORDER + 1 + END)
        if len(value) < SHORTEST_SPECTRUM or not (complete[0] and complete[-1]):
            continue
        square = np.diff(value, n=ORDER + 1, axis=0) ** 2
        energy = np.lib.stride_tricks.sliding_window_view(square, END, axis=0).mean(axis=-1)
        loud = np.quantile(energy[complete], LOUD, axis=0)
        ends = np.minimum(energy[0], energy[-1])
        ringing = np.fmax(ringing, np.where(loud > 0, ends / divisor(loud), 0))
    return ringing


def pooled_noise_share(data: Trajectories) -> Any:
    """Return the share of white noise in the variance of the one-step increments, for each
    variable; NaN without six complete samples in a row, 0 if the increments do not vary.

    A signal that is smooth at the sampling interval is nearly a polynomial over a few samples, so
    repeated differences remove it. What dynamical noise adds to the increments dₖ = Xₖ₊₁ − Xₖ is
    independent from step to step, so differences keep it. With m = 4,

        share = mean((Δᵐ d)²) / binomial(2m, m) / var(d),  clipped to [0, 1].

    The share is about 0 for a smooth, well-sampled signal. For an SDE it is about σ²dt / var(d),
    too high by a factor 1 + (relaxation rate × dt) because the drift responds to the noise. White
    *observation* noise counts 1.8 times its own share of var(d), so the result quickly reaches 1.
    A signal sampled so coarsely that it turns within a few samples also reads as noise.

    For irregular times, rates dₖ/Δₖ, with noise variance σ²/Δₖ, replace the increments. Divided
    differences at the midpoints replace the plain ones, scaled to have expected square σ². The
    share is σ² mean(1/Δ) / var(d/Δ); for constant Δ this is the formula above.

    The order of differences follows Gasser, Sroka and Jennen-Steinmetz, *Residual variance and
    residual pattern in nonlinear regression* (Biometrika, 1986), and Hall, Kay and Titterington,
    *Asymptotically optimal difference-based estimation of variance* (Biometrika, 1990).
    """
    xp, m = data.xp, ORDER
    rates, squares, kept, complete = [], [], [], []
    for value, present, interval in zip(data.values, data.present, data.intervals, strict=True):
        rate = xp.diff(value, axis=0) / interval[:, None]
        rates.append(rate)
        kept.append(_runs(present, 2))
        n = len(rate) - m
        if n > 0:
            # On a regular grid, all samples share one set of weights.
            weights = _contrasts(interval[: m + 1] if data.regular else interval, xp)
            terms = [weights[:, j, None] * rate[j : j + n] for j in range(m + 1)]
            squares.append(sum(terms) ** 2)
            complete.append(_runs(present, m + 2))
    if not squares:
        return xp.full((data.dim,), xp.nan)
    rate, keep = xp.concatenate(rates), xp.concatenate(kept)
    variance = _masked_mean((rate - _masked_mean(rate, keep, xp)[None]) ** 2, keep, xp)
    diffusion = _masked_mean(xp.concatenate(squares), xp.concatenate(complete), xp)
    frequency = _masked_mean(1 / xp.concatenate(data.intervals)[:, None], keep, xp)
    size = xp.max(xp.abs(xp.concatenate(data.values)), axis=0)
    varies = xp.sqrt(variance) * data.dt > data.epsilon * size
    share = diffusion * frequency / xp.where(varies, variance, 1)
    return xp.where(varies, xp.clip(share, 0, 1), xp.where(xp.isnan(variance), xp.nan, 0))


def _contrasts(interval: Any, xp: ModuleType) -> Any:
    """Return divided differences of m + 1 successive rates: [contrast m+1].

    They vanish on polynomials of degree below m in the midpoints of the intervals. They are scaled
    to have expected square σ² if each rate has independent noise of variance σ²/Δ.
    """
    n = len(interval) - ORDER
    step = xp.stack([interval[j : j + n] for j in range(ORDER + 1)], axis=1)
    midpoint = xp.cumsum(step, axis=1) - step / 2
    midpoint = midpoint / xp.sum(step, axis=1, keepdims=True)  # keeps the products in range
    ones = xp.eye(ORDER + 1, dtype=midpoint.dtype)[None]
    gaps = midpoint[:, :, None] - midpoint[:, None, :] + ones
    weights = 1 / xp.prod(gaps, axis=2)
    return weights / xp.sqrt(xp.sum(weights**2 / step, axis=1, keepdims=True))


def _runs(present: Any, length: int) -> Any:
    """Return, for each sample, whether it and the following ones, `length` in all, are present."""
    n = max(len(present) - length + 1, 0)
    return functools.reduce(operator.and_, (present[j : j + n] for j in range(length)))


def _masked_mean(values: Any, mask: Any, xp: ModuleType) -> Any:
    """Return the mean over the first axis where the mask is set; NaN if it is set nowhere."""
    count = xp.sum(mask).astype(values.dtype)
    total = xp.sum(xp.where(mask[:, None], values, 0), axis=0)
    return xp.where(count > 0, total / xp.where(count > 0, count, 1), xp.nan)


# ---- measurement errors ----


def measurement_error(x: Float[np.ndarray, "time"]) -> tuple[float, float]:
    """Return the variance of white measurement error, and the variance minus 2.5 standard errors.

    With error variance r and white increment noise q, one-step changes have the spectrum
    q + 4 r sin²(πf) at frequencies f that a smooth path does not reach. Both are estimated from the
    periodogram above f = 1/4 by Whittle's likelihood (Whittle, *Estimation and information in
    stationary time series*, Arkiv för Matematik, 1953). Averages of several samples and
    interpolated values have empty bands of high frequencies, which errors would fill: for these
    both results are 0.
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


def _has_empty_band(power, expected) -> bool:
    """Return whether a band of a periodogram is nearly empty relative to its expectation."""
    from scipy.special import gammainc  # takes a moment to import

    for band in np.array_split(power / expected, BANDS):
        # Two frequencies in three are independent under the taper; each is exponential.
        count = len(band) / 1.5
        rare = gammainc(count, count * band.mean()) < BY_CHANCE / BANDS
        if rare and band.mean() < EMPTY:
            return True
    return False


def _white(power, shapes) -> tuple[float, float]:
    """Return r and its lower bound from the maximum of Σ −log S − I/S with S = shapes @ (q, r), by
    Fisher scoring; 0 if the spectrum has an empty band.
    """
    if not power.mean() > 0:
        return 0.0, 0.0
    parameters = np.array([power.mean() / 2, power.mean() / 6])
    for _ in range(STEPS):
        weight = 1 / np.maximum(shapes @ parameters, 1e-12 * power.mean()) ** 2
        information = shapes.T @ (weight[:, None] * shapes)
        new = np.linalg.solve(information, shapes.T @ (weight * power))
        # Neither may be negative; the other one then explains everything.
        if new[0] < 0:
            new = np.array([0.0, np.mean(power / shapes[:, 1])])
        elif new[1] < 0:
            return 0.0, 0.0
        parameters = new
    if _has_empty_band(power, np.maximum(shapes @ parameters, 1e-12 * power.mean())):
        return 0.0, 0.0
    # The factor 1.5 is for frequencies that are not all independent, as above.
    deviation = float(np.sqrt(1.5 * np.linalg.inv(information)[1, 1]))
    return float(parameters[1]), float(parameters[1]) - SURE * deviation


def measurement_errors(samples: Samples) -> Float[np.ndarray, " dim"]:
    """Return the variance of the white measurement error of each variable, from its longest
    stretch; 0 if none can be shown or samples are not equally spaced.
    """
    found = np.zeros(samples.dim)
    for j in range(samples.dim) if samples.regular else ():
        best, least = measurement_error(max((stretch(x[:, j]) for x in samples.values), key=len))
        found[j] = best if least > 0 else 0.0
    return found


def describe_errors(samples: Samples, errors) -> tuple[str, ...]:
    """Return a sentence on measurement errors for a report; empty if there are none."""
    shown = np.flatnonzero(np.asarray(errors) > 0)
    spread = np.nanstd(np.concatenate(samples.values)[:, shown], axis=0)
    parts = zip(np.sqrt(np.asarray(errors)[shown]) / spread, shown, strict=True)
    shares = [f"{share:.1%} of {samples.names[j]}" for share, j in parts]
    text = f"Measurement errors are about {listed(shares, most=4)} (standard deviations). Several"
    then = "so lags that explain less than such errors hide are omitted."
    return (f"{text} lags of one source average them out, {then}",) if shares else ()


def stretch(x):
    """Return the longest stretch without missing values."""
    return x[longest_run(np.isfinite(x))].astype(float)
