"""The loss of one window and the risk of a model, in their plain textbook form."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._checks import check_windows, refusal
from .._scaling import Scaling
from .._types import Checked
from ..models._model import AbstractDelayModel, check_model, check_model_matches
from ..windows._windows import Windows


def window_loss(
    model: Checked[AbstractDelayModel],
    history: Float[ArrayLike, "lag dim"],
    rate: Float[ArrayLike, "dim"],
    *,
    scaling: Checked[Scaling | None] = None,
) -> Float[Array, "target"]:
    """Return the squared error of the drift on one window, per target: ‖rate − G(history)‖² in
    standardised units, in which predicting the mean rate costs 1 on average.

    The paper's (X(t_{k+1}) − X(t_k))/Δ_k − G(Z_k), squared. Training minimises its weighted mean,
    [`risk`][ndde_jax.risk], by batched products that are tested equal to it.

    **Arguments:**

    - `model`: any learned model; its units are physical.
    - `history`, `rate`: one row of `Windows.history` and `Windows.increment`, standardised.
    - `scaling`: of that row; by default the model's, which is that of the windows it was fitted to.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    loss = jax.vmap(lambda z, r: ndde.window_loss(model, z, r))
    print(loss(windows.history, windows.increment).mean(axis=0))  # about 0
    ```
    """
    check_model(model)
    if scaling is not None and not isinstance(scaling, Scaling):
        raise refusal("scaling", "a Scaling, such as windows.scaling", scaling)
    s = model.scaling if scaling is None else scaling
    history, rate = jnp.asarray(history), jnp.asarray(rate)
    drift = model(history * s.scale[None] + s.center[None])
    return (rate - (drift - s.rate_center) / s.rate_scale) ** 2


def risk(model: Checked[AbstractDelayModel], windows: Checked[Windows]) -> Float[Array, "target"]:
    """Return the paper's empirical risk per target: the mean of
    [`window_loss`][ndde_jax.window_loss] over all windows, weighted by the lengths of their steps.

    Pure: `jit`, `vmap` and `grad` with respect to model and windows apply. 1 is as good as
    predicting the mean rate.

    **Raises:** `ValueError` for several systems at once, or a model of other variables or lags.

    ```python
    import equinox as eqx, jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    slope = eqx.filter_grad(lambda w: ndde.risk(model, w).sum())(windows)  # by each number in them
    print(slope.increment.shape)  # (496, 2)
    ```
    """
    check_windows(windows, "risk")
    check_model_matches(windows, model)

    def loss(history: Any, rate: Any):
        return window_loss(model, history, rate, scaling=windows.scaling)

    each = jax.vmap(loss)(windows.history, windows.increment)
    weight = windows.weight
    total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
    return jnp.sum(jnp.where(weight[:, None] > 0, weight[:, None] * each, 0), axis=0) / total
