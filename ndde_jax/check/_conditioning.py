"""Measures of identifiability from the data: inputs, noise and damping."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

from .._checks import check_concrete, check_windows
from .._types import Checked, to_jax
from ..assess._score import drift_of
from ..models._model import AbstractDelayModel, check_model_matches
from ..windows._stencils import STENCILS
from ..windows._windows import Windows, is_regular, standardised_samples

# Number of earlier times with which residuals are compared, and the number of standard errors
# beyond which a correlation counts: by chance, one in a thousand such sets exceeds it.
EARLIER, CHANCE = 3, 3.6


def condition_number(windows: Windows) -> float:
    """Return the ratio of the largest to the smallest singular value of the lagged design.

    It is infinite if inputs are linearly dependent.
    """
    valid = np.asarray(windows.valid)
    design = np.asarray(windows.history, float)[valid]
    design = design.reshape(len(design), -1)
    return float(np.linalg.cond(design))


def noise_covariance(
    windows: Checked[Windows], model: Checked[AbstractDelayModel | Callable]
) -> Float[Array, "dim dim"]:
    """Return ΣΣᵀ per unit of time, in physical units, from the residuals of a model's one-step
    increments.

    The increments are X[k+1] − X[k] − dt·G whatever scheme the model was fitted with, because the
    residuals of central differences are not the noise. For thinned windows they are taken over the
    longer step. With very little noise, the result measures the error of the forward difference and
    is an upper bound.

    **Raises:** `ValueError` for irregular sampling or if lag 0 is not a candidate.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(2000, 1)).cumsum(axis=0)
    windows = ndde.lagged_windows(x, dt=1.0)
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    print(ndde.check.noise_covariance(windows, model))  # about 1
    ```
    """
    _check("noise_covariance", windows, model)
    if 0 not in windows.lags:
        raise ValueError(f"windows must have lag 0 among their lags; got {windows.lags}.")
    return to_jax(covariance_of(windows, drift_of(windows, model)), windows.history.dtype)


def covariance_of(
    windows: Windows, drift: Float[np.ndarray, "row dim"]
) -> Float[np.ndarray, "dim dim"]:
    """Return [`noise_covariance`][ndde_jax.check.noise_covariance] for the rates `drift`."""
    valid, scaling = np.asarray(windows.valid), windows.scaling
    scale, dt = np.asarray(scaling.scale, float), windows.step * float(windows.dt)
    if windows.scheme in ("euler", "midpoint"):
        step = dt * _rates(windows)
    else:
        samples, first = standardised_samples(windows)
        position = np.asarray(windows.position)[valid] - first
        step = (samples[position + windows.step] - samples[position]) * scale[None]
    residual = step - dt * drift
    residual = residual[np.isfinite(residual).all(axis=1)]
    if not len(residual):
        raise ValueError(
            "noise_covariance found no two neighbouring samples among these windows; build them "
            "with scheme='euler', or thin them less."
        )
    return residual.T @ residual / (len(residual) * dt)


def residual_memory(
    windows: Checked[Windows], model: Checked[AbstractDelayModel | Callable]
) -> Float[np.ndarray, "dim"]:
    """Return the share of each rate's variance that persists in the residuals of a model.

    Noise that drives a system is new at every step, and so are the residuals of a complete drift.
    If a driver is hidden, a delay is not among the candidates or the network is too small, the
    residuals are autocorrelated. The result is the largest covariance, in absolute value, of the
    residuals with those at the next three times whose differences share no sample; 0 where it may
    be chance (one case in a thousand). White measurement error does not add to it. Central
    differences do if noise drives the system (`scheme="auto"` avoids them there). NaN where the
    model is not finite.

    **Raises:** `ValueError` for a batch of systems or irregular sampling.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(1999):
        drift = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
        x[k + 1] = x[k] + 0.1 * drift + [0.1, 0.5] * rng.normal(size=2)
    windows = ndde.lagged_windows(x[:, :1], dt=0.1)  # the second variable is hidden
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    print(ndde.check.residual_memory(windows, model))  # about a fifth; 0 with both variables
    ```
    """
    _check("residual_memory", windows, model)
    return memory_of(windows, drift_of(windows, model))


def memory_of(windows: Windows, drift: Float[np.ndarray, "row dim"]) -> Float[np.ndarray, "dim"]:
    """Return [`residual_memory`][ndde_jax.check.residual_memory] for the rates `drift`."""
    valid, scaling = np.asarray(windows.valid), windows.scaling
    fitted = drift - np.asarray(scaling.rate_center)[None]
    residual = np.asarray(windows.increment, float)[valid]
    residual -= fitted / np.asarray(scaling.rate_scale)[None]
    residual -= residual.mean(axis=0)
    offsets = STENCILS.get(windows.scheme, STENCILS["euler"])
    step = (max(offsets) - min(offsets) + 1) * windows.step
    # One row per sample: trajectories stay apart, and missing samples stay missing.
    position = np.asarray(windows.position)[valid]
    by_sample = np.full((position.max() + 1, windows.dim), np.nan)
    by_sample[position] = residual
    return np.array([_persistent(column, step) for column in by_sample.T])


def _rates(windows: Windows) -> Float[np.ndarray, "row dim"]:
    """Return the valid rates of change, in physical units."""
    rates = np.asarray(windows.increment, float)[np.asarray(windows.valid)]
    scaling = windows.scaling
    return rates * np.asarray(scaling.rate_scale)[None] + np.asarray(scaling.rate_center)[None]


def _check(who: str, windows, model) -> None:
    """Raise an error unless windows and model match, are concrete, and are equally spaced."""
    check_windows(windows, who, "take one with unstack_windows")
    check_model_matches(windows, model)
    check_concrete(who, (windows, model))
    if not is_regular(windows):
        raise ValueError(f"{who} needs windows of equally spaced samples.")


def _persistent(residual: Float[np.ndarray, "sample"], step: int) -> float:
    """Return the largest absolute covariance with later residuals; 0 where it may be chance."""

    def products(k):
        both = residual[: len(residual) - k] * residual[k:]
        return both[np.isfinite(both)]

    if not products(0).size:
        return float("nan")
    square = np.mean(products(0))
    if not square > 0:
        return 0.0
    # Overlapping differences correlate neighbouring residuals, which widens the null (Bartlett).
    alike = [np.mean(products(k)) / square for k in range(1, step) if products(k).size]
    spread = square * np.sqrt(1 + 2 * np.sum(np.square(alike)))
    largest = 0.0
    for k in range(step, (EARLIER + 1) * step, step):
        both = products(k)
        if both.size and abs(both.mean()) > CHANCE * spread / np.sqrt(both.size):
            largest = max(largest, abs(float(both.mean())))
    return largest


def radial_drift(windows: Windows) -> tuple[float, float]:
    """Return the mean of ⟨u, dX/dt⟩ over that of ‖u‖² in the outermost tenth of the states, and
    its standard error from 16 blocks.

    Here u is the standardised present state, and rates are per unit of time. A negative value means
    that the data are pulled back from far out, as dissipativity requires.
    """
    state = np.asarray(windows.history, float)[np.asarray(windows.valid), 0]
    rate = _rates(windows) / np.asarray(windows.scaling.scale)[None]
    square = (state**2).sum(axis=1)
    outer = square >= np.quantile(square, 0.9)
    pull = (state * rate).sum(axis=1)[outer]
    estimate = pull.mean() / square[outer].mean()
    residual = pull - estimate * square[outer]
    blocks = [block.sum() for block in np.array_split(residual, min(16, len(residual)))]
    error = np.sqrt(np.sum(np.square(blocks))) / square[outer].sum()
    return float(estimate), float(error)
