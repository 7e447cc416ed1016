"""What the data themselves say about identifiability: inputs, noise and damping."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._confine import RestoredDDE
from ._model import NeuralDDE
from ._thin import is_regular, standardised_samples
from ._windows import Windows


def condition_number(windows: Windows) -> float:
    """Ratio of the largest to the smallest singular value of the lagged design; infinite if inputs
    are linearly dependent.
    """
    valid = np.asarray(windows.valid)
    design = np.asarray(windows.history, float)[valid]
    design = design.reshape(len(design), -1)
    return float(np.linalg.cond(design))


def noise_covariance(windows: Windows, model: NeuralDDE | RestoredDDE) -> Float[Array, "dim dim"]:
    """ΣΣᵀ per unit of time, physical units, from what a model leaves of one-step increments.

    Whatever scheme the model was fitted with, increments X[k+1] − X[k] − dt·G are taken, since the
    residuals of central differences are not the noise. Where there is hardly any noise this
    measures the error of the forward difference instead, and is an upper bound.

    **Raises:** `ValueError` for irregular sampling or without lag 0.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(2000, 1)).cumsum(axis=0)
    windows = ndde.lagged_windows(x, dt=1.0)
    model = ndde.fit_graph(windows, "full", key=jax.random.key(0))
    print(ndde.noise_covariance(windows, model))  # about 1
    ```
    """
    if not is_regular(windows) or 0 not in windows.lags:
        raise ValueError("noise_covariance needs equally spaced samples and lag 0.")
    valid, scaling = np.asarray(windows.valid), windows.scaling
    scale, dt = np.asarray(scaling.scale, float), float(windows.dt)
    if windows.scheme in ("euler", "midpoint"):
        rate = np.asarray(windows.increment, float)[valid] * np.asarray(scaling.rate_scale)[None]
        step = dt * (rate + np.asarray(scaling.rate_center)[None])
    else:
        samples, first = standardised_samples(windows)
        position = np.asarray(windows.position)[valid] - first
        step = (samples[position + 1] - samples[position]) * scale[None]
    history = np.asarray(windows.history, float)[valid]
    history = history * scale[None, None] + np.asarray(scaling.center)[None, None]
    drift = jax.vmap(model)(jnp.asarray(history, windows.history.dtype))
    residual = step - dt * np.asarray(drift, float)
    residual = residual[np.isfinite(residual).all(axis=1)]
    return jnp.asarray(residual.T @ residual / (len(residual) * dt), windows.history.dtype)


def radial_drift(windows: Windows, share: float = 0.1) -> tuple[float, float]:
    """Mean of ⟨u, dX/dt⟩ / mean of ‖u‖² over the outermost `share` of the states, and its standard
    error from 16 blocks; u is the standardised present state, per unit of time.

    Negative: far out, the data are pulled back, as dissipativity asks.
    """
    valid = np.asarray(windows.valid)
    state = np.asarray(windows.history, float)[valid, 0]
    scaling = windows.scaling
    rate = np.asarray(windows.increment, float)[valid] * np.asarray(scaling.rate_scale)[None]
    rate = (rate + np.asarray(scaling.rate_center)[None]) / np.asarray(scaling.scale)[None]
    square = (state**2).sum(axis=1)
    outer = square >= np.quantile(square, 1 - share)
    pull = (state * rate).sum(axis=1)[outer]
    estimate = pull.mean() / square[outer].mean()
    residual = pull - estimate * square[outer]
    blocks = [block.sum() for block in np.array_split(residual, min(16, len(residual)))]
    error = np.sqrt(np.sum(np.square(blocks))) / square[outer].sum()
    return float(estimate), float(error)
