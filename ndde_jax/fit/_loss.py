"""The empirical risk of stacked networks on a batch of windows."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..models._networks import Layer, apply_layers, squared_input_gradient


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
