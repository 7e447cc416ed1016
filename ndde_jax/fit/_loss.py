"""The loss of one window, in its plain textbook form, and its mean over windows and gates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from .._checks import check_windows, refusal
from .._types import Checked, Scaling
from ..models._model import AbstractDelayModel, NeuralDDE, check_model, check_model_matches
from ..models._networks import Layer, MaskedDrift, apply_layers, squared_input_gradient
from ..windows._windows import Windows
from .penalties import scale_inputs


def window_loss(
    model: Checked[AbstractDelayModel],
    history: Float[ArrayLike, "lag dim"],
    rate: Float[ArrayLike, "dim"],
    *,
    scaling: Checked[Scaling | None] = None,
) -> Float[Array, "target"]:
    """Return the squared error of the drift on one window, per target: ‖rate − G(history)‖² in
    standardised units, in which predicting the mean rate costs 1 on average.

    The paper's (X(t_{k+1}) − X(t_k))/Δ_k − G(Z_k), squared. [`fit`][ndde_jax.fit] minimises its
    mean over windows, weighted by the lengths of their steps, and over draws of the gates; it takes
    any other function of this signature in its place, `fit(..., loss=...)`.

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


class MeanLoss(eqx.Module):
    """The mean of a loss over windows and draws of the gates, for networks that are trained
    together.

    - `function`: of a model, a history and a rate, as [`window_loss`][ndde_jax.window_loss]; that
        itself is computed by batched products.
    - `scaling`, `dt`, `lags`: of the windows, with which networks are a model in physical units.
    """

    function: Callable
    scaling: Scaling
    dt: Float[Array, ""]
    lags: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self,
        layers: tuple[Layer, ...],
        inputs: Float[Array, "input window"],
        outputs: Float[Array, "network window"],
        weight: Float[Array, "window"],
        gates: Float[Array, "network draw input"],
    ) -> Float[Array, "network"]:
        """Return the weighted mean of every network; networks are (coefficient, target)."""
        if self.function is window_loss:
            return empirical_risk(layers, inputs, outputs, weight, gates)
        dim = self.scaling.center.shape[0]
        apart = lambda a: a.reshape(-1, dim, *a.shape[1:])  # noqa: E731
        every = jnp.ones((dim, len(self.lags), dim), bool)
        histories = inputs.T.reshape(-1, len(self.lags), dim)

        def system(layers, gates, rates):
            """Return the losses of one coefficient, `[draw window target]`."""

            def drawn(gates):
                drift = MaskedDrift(scale_inputs(layers, gates))
                model = NeuralDDE(drift, every, self.scaling, self.dt, self.lags)
                return jax.vmap(lambda history, rate: self.function(model, history, rate))(
                    histories, rates.T
                )

            return jax.vmap(drawn)(jnp.swapaxes(gates, 0, 1))

        each = jax.vmap(system)(jax.tree.map(apart, layers), apart(gates), apart(outputs))
        if each.shape[3:] != (dim,):
            raise ValueError(
                f"loss must return one number per target, [target] = ({dim},), of one window; got "
                f"shape {each.shape[3:]}."
            )
        total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
        mean = jnp.sum(weight[None, None, :, None] * each, axis=(1, 2))
        return mean.reshape(-1) / (gates.shape[1] * total)


def empirical_risk(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    outputs: Float[Array, "network window"],
    weight: Float[Array, "window"],
    gates: Float[Array, "network draw input"],
) -> Float[Array, "network"]:
    """Return the weighted mean squared error of every network, averaged over draws of its gates.

    The paper's empirical risk Σ_k Δ_k ‖(X_{k+1} − X_k)/Δ_k − G(Z_k)‖², per target, in standardised
    units, with weights Δ_k normalised to mean 1: predicting a constant has risk 1.
    """
    residual = apply_layers(layers, inputs, gates) - outputs[:, None, :]
    total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
    return jnp.sum(weight[None, None, :] * residual**2, axis=(1, 2)) / (gates.shape[1] * total)


def gradient_penalty(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    gates: Float[Array, "network draw input"],
    risk: Float[Array, "network"],
    coefficient: Float[Array, ""],
    variant: str,
    n_networks: int,
) -> Float[Array, "network"]:
    """Return a penalty that keeps the drift from varying faster than the data support.

    - `"jacobian"`: coefficient × mean ‖∂G_j/∂z‖² on standardised data. Entries of the Jacobian are
        of order 1, so coefficients between 1e-5 and 1e-2 make sense.
    - `"prediction"`: the squared gradient of the loss with respect to the *predictions* instead,
        all draws, windows and networks together. The loss is the mean over these, so its penalty
        equals the loss times 4 / (draws · batch · networks): the paper's coefficients of 100 to
        10000 amount to a rescaling. For reproduction only.
    """
    if variant == "jacobian":
        return coefficient * squared_input_gradient(layers, inputs, gates)
    factor = 4 / (gates.shape[1] * inputs.shape[1] * n_networks)
    return coefficient * factor * risk
