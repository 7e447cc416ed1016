"""The residuals of one-step forecasts: noise that drives the system, and measurement error."""

import dataclasses
from typing import Any

import numpy as np

# Standard errors from which on something counts as clear.
CLEAR = 5.0
# Least share of a squared residual's variance that its state must explain to count.
STATE_SHARE = 0.02
# Squared amplitudes relative to the mean, which keep a quadratic from leaving sense.
LOW, HIGH = 0.05, 20.0


@dataclasses.dataclass(frozen=True)
class Noise:
    """The noise of one step of the simulator, physical units.

    - `draws`: residuals made white and of unit covariance, `[row dim]`: what is drawn from, since
        their tails are those of the data.
    - `factor`: `[dim dim]`, whose square is the covariance of one step.
    - `error`: standard deviation of the measurement error of each variable, `[dim]`; 0 where the
        residuals show none.
    - `amplitude`: of each variable, coefficients a, b, c of its squared relative amplitude
        a + bz + cz², z being its standardised present state; 1, 0, 0 where the data show no
        dependence, `[dim 3]`.
    - `memory`: largest correlation of residuals with those one to three steps later, `[dim]`; 0
      where it may be chance. Noise that drives a system is new at every step: memory points to a
      driver that was not measured.
    """

    draws: np.ndarray
    factor: np.ndarray
    error: np.ndarray
    amplitude: np.ndarray
    memory: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of one step, `[dim dim]`."""
        return self.factor @ self.factor.T


def estimate_noise(
    residual: np.ndarray, state: np.ndarray, position: np.ndarray, freedom: np.ndarray
) -> Noise:
    """Return the noise, estimated from the one-step residuals of the centre of an ensemble.

    - `residual`: `[row dim]`, physical.
    - `state`: standardised present states, `[row dim]`.
    - `position`: samples, to find neighbours.
    - `freedom`: parameters per variable, `[dim]`: residuals are as much too small.
    """
    n = len(residual)
    residual = residual * np.sqrt(n / np.maximum(n - freedom, n / 2))[None]
    amplitude = np.stack([_amplitude(r, z) for r, z in zip(residual.T, state.T, strict=True)])
    even = residual / relative_amplitude(amplitude, state)
    error = _measurement_error(residual, position)
    covariance = even.T @ even / n
    size = np.sqrt(np.maximum(np.diag(covariance), 0))
    size = np.where(size > 0, size, 1.0)
    tiny = 1e-10 * np.eye(len(size))
    correlation = covariance / size[:, None] / size[None]
    white = np.linalg.solve(np.linalg.cholesky(correlation + tiny), (even / size[None]).T).T
    white = white - white.mean(axis=0)
    white = white / np.maximum(white.std(axis=0), 1e-12)
    driving = _positive(correlation - 2 * np.diag((error / size) ** 2))
    factor = size[:, None] * np.linalg.cholesky(driving + tiny)
    return Noise(white, factor, error, amplitude, _memory(residual, position))


def relative_amplitude(amplitude: Any, z: Any, xp: Any = np) -> Any:
    """Return the size of the noise at standardised states, `[*batch dim]`."""
    ahead = (None,) * (z.ndim - 1)
    a, b, c = (amplitude[:, i][ahead] for i in range(3))
    return xp.sqrt(xp.clip(a + b * z + c * z**2, LOW, HIGH))


def _amplitude(residual: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the coefficients of the squared amplitude, if the state clearly explains it."""
    none = np.array([1.0, 0.0, 0.0])
    square = residual**2
    # Rare extremes would decide alone.
    square = np.minimum(square, 12 * square.mean())
    if not square.mean() > 0:
        return none
    square = square / square.mean()
    design = np.stack([np.ones_like(z), z, z**2], axis=1)
    found = np.linalg.lstsq(design, square, rcond=None)[0]
    explained = np.var(design @ found) / np.var(square)
    # Two coefficients by chance: chi-squared with two degrees of freedom, doubled for dependence.
    clear = len(z) * explained > CLEAR**2 + 2 and explained > STATE_SHARE
    return found if clear else none


def _measurement_error(residual: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the measurement error, which enters two neighbouring steps with opposite signs."""
    follows = np.diff(position) == 1
    before, after = residual[:-1][follows], residual[1:][follows]
    variance = np.mean(residual**2, axis=0)
    if len(before) < 20:
        return np.zeros(residual.shape[1])
    shared = -np.mean(before * after, axis=0)
    clear = shared > CLEAR * variance / np.sqrt(len(before))
    return np.sqrt(np.where(clear, np.minimum(shared, 0.49 * variance), 0.0))


def _memory(residual: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the largest clear correlation with later residuals."""
    largest = np.zeros(residual.shape[1])
    variance = np.maximum(np.mean(residual**2, axis=0), 1e-300)
    for steps in (1, 2, 3):
        pairs = position[steps:] - position[:-steps] == steps
        if pairs.sum() < 20:
            continue
        before, after = residual[:-steps][pairs], residual[steps:][pairs]
        correlation = np.mean(before * after, axis=0) / variance
        clear = correlation > CLEAR / np.sqrt(len(before))
        largest = np.maximum(largest, np.where(clear, correlation, 0))
    return largest


def _positive(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest covariance matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 1e-6)) @ vectors.T
