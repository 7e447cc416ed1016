"""Scores of the long-run behaviour of a learned system: spectra and invariant law.

Trajectories are `[*batch time dim]` in standardised units, as for forecasts. Since only long-run
statistics are compared, the two need not start at the same state.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Shaped

from .._checks import (
    check_key,
    check_non_negative,
    check_positive,
    check_real_array,
    check_whole,
)
from .._types import Checked, root
from ._forecast import Trajectory, same_batch, same_length

# Number of samples whose distances to all points are in memory at a time.
CHUNK = 128


def log_spectral_distance(
    predicted: Trajectory,
    truth: Trajectory,
    *,
    segment: Checked[int | None] = None,
    floor: Checked[float] = 1e-6,
) -> Float[Array, "..."]:
    """Return the root mean square distance of two power spectra, in decibels.

    This is √(mean over frequencies of (10 log₁₀ P − 10 log₁₀ P̂)²) per variable, averaged over
    variables. Spectra are Welch's: Hann window, half overlap, each segment minus its mean, without
    the zero frequency. They equal `scipy.signal.welch` with its defaults.

    **Arguments:**

    - `predicted`, `truth`: `[*batch time dim]`; the longer one is cut. Pass forecasts that may
        diverge through [`bounded`][ndde_jax.metrics.bounded] first.
    - `segment`: samples per segment, static; by default 2048 or a quarter of the length,
        whichever is less, so that at least seven segments are averaged.
    - `floor`: both spectra are raised to at least this share of the true one's mean power, so that
        rounding noise sixty decibels down (by default) is not compared.

    **Returns:** one number per trajectory, in dB; 0 for equal ones.

    **Raises:** `ValueError` if the batches or variables differ, or for a `segment` below 2 or
    longer than the trajectories.

    Welch, *IEEE Trans. Audio Electroacoustics* 15 (1967).

    ```python
    import numpy as np
    from ndde_jax import metrics

    truth = np.random.default_rng(0).normal(size=(4000, 2))
    print(metrics.log_spectral_distance(10 * truth, truth))  # 20 dB
    ```
    """
    check_non_negative(floor=floor)
    predicted, truth = same_length(predicted, truth)
    n = truth.shape[-2]
    segment = min(2048, n // 4) if segment is None else segment
    check_whole(segment, "segment", least=-n)
    if not 2 <= segment <= n:
        raise ValueError(
            f"segment must lie between 2 and the number of samples, {n}; got {segment}. The "
            "default needs at least 8 samples."
        )
    return _decibels(predicted, truth, int(segment), floor)


@partial(jax.jit, static_argnums=2)
def _decibels(predicted: Array, truth: Array, segment: int, floor: Any) -> Array:
    true_power, power = _welch(truth, segment), _welch(predicted, segment)
    lowest = floor * jnp.mean(true_power, axis=-2, keepdims=True)
    lowest = lowest + jnp.finfo(lowest.dtype).tiny
    difference = jnp.log(jnp.maximum(true_power, lowest)) - jnp.log(jnp.maximum(power, lowest))
    difference = difference * (10 / math.log(10))
    return jnp.mean(root(jnp.mean(difference**2, axis=-2)), axis=-1)


def _welch(x: Array, segment: int) -> Array:
    """Return the power spectral density `[*batch frequency dim]` without the zero frequency."""
    _, power = jax.scipy.signal.welch(x, nperseg=segment, axis=-2)
    return power[..., 1:, :]


def state_space_divergence(
    predicted: Trajectory,
    truth: Trajectory,
    *,
    variance: Checked[Shaped[ArrayLike, ""]] = 0.01,
    n_samples: Checked[int] = 1000,
    max_points: Checked[int] = 10_000,
    samples: Checked[Shaped[ArrayLike, "..."] | None] = None,
    key: Checked[PRNGKeyArray | None] = None,
) -> Float[Array, "..."]:
    """Return the Kullback–Leibler divergence of the predicted invariant law from the true one,
    D_stsp.

    Both laws are Gaussian mixtures with one isotropic component per point of the trajectory;
    KL(truth ‖ predicted) is the mean of log p − log q over samples of the truth. It is zero for the
    same points and never infinite: far away it grows as squared distance / (2 · variance).

    **Arguments:**

    - `predicted`, `truth`: `[*batch time dim]`; their lengths may differ.
    - `variance`: variance of the components, 0.01 by default: at 1, which some authors use, even
        the constant mean scores 0.6; a tenth of a standard deviation distinguishes attractors.
    - `n_samples`: number of samples of the Monte Carlo estimate, static; 1000 by default.
    - `max_points`: longer trajectories are thinned by the smallest whole number that leaves at most
        this many components.
    - `samples`: points of the true law to average over instead of drawn ones.
    - `key`: random key of the draws; without one they are the same in every call, so that scores
        can be compared. All trajectories of a batch share the draws.

    **Returns:** one number per trajectory, in nats; may fall below zero by the Monte Carlo error.

    **Raises:** `ValueError` if the batches or variables differ.

    Hershey and Olsen, *ICASSP* (2007); Koppe et al., *PLoS Comput. Biol.* 15 (2019).

    ```python
    import numpy as np
    from ndde_jax import metrics

    angle = 0.01 * np.arange(2000)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    print(metrics.state_space_divergence(circle, circle))  # 0
    print(metrics.state_space_divergence(0 * circle, circle))  # 48: 1 / (2 · .01) less ln p
    ```
    """
    check_positive(variance=variance)
    check_whole(n_samples, "n_samples")
    check_whole(max_points, "max_points")
    key = None if key is None else check_key(key)
    predicted, truth = (_thinned(a, max_points) for a in same_batch(predicted, truth))
    dtype = truth.dtype
    variance = jnp.asarray(variance, dtype)
    if samples is None:
        pick, spread = jr.split(jr.key(0) if key is None else key)
        samples = _draws(truth, variance, pick, spread, n_samples)
    check_real_array(samples, "samples", "[*batch sample dim]")
    samples = jnp.asarray(samples, dtype)
    if samples.shape[:-2] != truth.shape[:-2] or samples.shape[-1] != truth.shape[-1]:
        raise ValueError(
            "samples must be [*batch sample dim] with the batch and the variables of the "
            f"trajectories {truth.shape}; got {samples.shape}."
        )
    return _divergence(samples, truth, predicted, variance)


@jax.jit
def _divergence(samples: Array, truth: Array, predicted: Array, variance: Array) -> Array:
    batch = truth.shape[:-2]
    flat = [a.reshape(-1, *a.shape[-2:]) for a in (samples, truth, predicted)]
    # One trajectory at a time: the distances of a single one already fill the caches.
    value = jax.lax.map(lambda each: _mean_log_ratio(variance, *each), tuple(flat))
    return value.reshape(batch)


@partial(jax.jit, static_argnums=4)
def _draws(truth: Array, variance: Array, pick: Array, spread: Array, n_samples: int) -> Array:
    index = jr.randint(pick, (n_samples,), 0, truth.shape[-2])
    noise = jr.normal(spread, (n_samples, truth.shape[-1]), truth.dtype)
    noise = jnp.broadcast_to(noise, (*truth.shape[:-2], *noise.shape))
    return truth[..., index, :] + jnp.sqrt(variance) * noise


def _mean_log_ratio(variance, samples, truth, predicted):
    def log_ratio(z):
        return _log_density(z, truth, variance) - _log_density(z, predicted, variance)

    return jnp.mean(jax.lax.map(log_ratio, samples, batch_size=CHUNK))


def _log_density(z, points, variance):
    """Return the log density, up to the constant that both mixtures share."""
    square = jnp.sum((z[None] - points) ** 2, axis=-1)
    return jax.nn.logsumexp(-square / (2 * variance)) - math.log(points.shape[0])


def _thinned(x: Array, max_points: int) -> Array:
    return x[..., :: max(1, -(-x.shape[-2] // max_points)), :]
