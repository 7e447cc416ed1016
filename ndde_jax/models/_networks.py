"""One small tanh network per target, stacked so that a whole system is a few matrix products."""

import math
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._memory import padded_length
from .._types import namespace_of, to_jax
from ._families import AbstractDrift, Mask

# A layer is (weight [network, out, in], bias [network, out]).
Layer = tuple[Float[Array, "network _ _"], Float[Array, "network _"]]
# Random numbers drawn per array of a small network, so that most sizes share one program.
SHORTEST = 512


class MaskedDrift(AbstractDrift):
    """A drift G_j(z) = f_j(m_j ⊙ z): one network f_j per target, inputs masked at the first layer.

    The mask is an argument, not a parameter: gates, a graph or a test decide which inputs pass.
    Units are standardised; [`NeuralDDE`][ndde_jax.models.NeuralDDE] converts to physical units.

    - `layers`: (weight `[target out in]`, bias `[target out]`) of each layer.

    Hidden layers are tanh and the output is affine, so the drift is bounded (see
    [`drift_bound`][ndde_jax.models.drift_bound]).

    ```python
    import jax.numpy as jnp
    import ndde_jax as ndde

    hidden, output = jnp.ones((3, 8, 6)), jnp.ones((3, 1, 8))  # three variables at two lags
    drift = ndde.models.MaskedDrift(((hidden, jnp.zeros((3, 8))), (output, jnp.zeros((3, 1)))))
    mask = jnp.ones((3, 2, 3))                 # [target, lag, source]
    print(drift(jnp.zeros((2, 3)), mask))      # [target]
    ```
    """

    layers: tuple[Layer, ...]

    def __call__(
        self, history: Float[Array, "lag dim"], mask: Mask = None
    ) -> Float[Array, "target"]:
        """Return the standardised rate of change for one standardised history."""
        return _rates(self.layers, history, mask)

    def output_range(self) -> tuple[Float[Array, "target"], Float[Array, "target"]]:
        """Return the midpoint and half-width of an interval that contains all outputs: hidden units
        lie in [−1, 1], so the output is its bias ± the sum of its absolute weights at most.
        """
        xp = namespace_of(self.layers[-1])
        weight, bias = map(xp.asarray, self.layers[-1])
        return to_jax(bias[:, 0]), to_jax(xp.sum(xp.abs(weight[:, 0]), axis=1))


# Compiled as one program when called alone, otherwise inlined into the caller's program.
@partial(jax.jit, inline=True)
def _rates(layers, history, mask):
    z = history.reshape(-1)
    shape = len(layers[0][0]), 1, len(z)
    gates = jnp.ones(shape, z.dtype) if mask is None else mask.reshape(shape).astype(z.dtype)
    return apply_layers(layers, z[:, None], gates)[:, 0, 0]


def init_layers(
    n_networks: int, n_inputs: int, *, width: int, depth: int, key: PRNGKeyArray, dtype=None
) -> tuple[Layer, ...]:
    """Return weights and biases, uniform in ±1/√fan-in, of `n_networks` networks with one output
    each.
    """
    if depth < 1 or width < 1:
        raise ValueError(f"width and depth must be at least 1; got {width} and {depth}.")
    dtype = jnp.result_type(float) if dtype is None else dtype
    sizes = (n_inputs, *(width,) * depth, 1)
    shapes = [
        shape
        for fan_in, fan_out in pairwise(sizes)
        for shape in ((n_networks, fan_out, fan_in), (n_networks, fan_out))
    ]
    bounds = np.array([1 / math.sqrt(fan_in) for fan_in in sizes[:-1] for _ in range(2)])
    length = padded_length(max(SHORTEST, *map(math.prod, shapes)))
    draw = _uniform(key, to_jax(bounds, dtype), length)
    # Slicing a JAX array would compile another program.
    rows = namespace_of(draw).asarray(draw)
    arrays = [
        to_jax(row[: math.prod(shape)].reshape(shape))
        for row, shape in zip(rows, shapes, strict=True)
    ]
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


@partial(jax.jit, static_argnums=2, inline=True)
def _uniform(key, bounds, length):
    # One draw for all arrays, each as long as the longest, then truncated: the generator dominates
    # compilation, and element i of a draw does not depend on how many follow.
    keys = jax.vmap(jr.split)(jr.split(key, len(bounds) // 2)).reshape(-1, *key.shape)
    draw = lambda k, bound: jr.uniform(k, (length,), bounds.dtype, -bound, bound)  # noqa: E731
    return jax.vmap(draw)(keys, bounds)


def apply_layers(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    gates: Float[Array, "network draw input"],
) -> Float[Array, "network draw window"]:
    """Return the outputs of all networks on all windows, for several draws of their input gates.

    Windows are the last axis. Draws of the gates are folded into rows of the first product and into
    columns of the others, so a step is one matrix product for the first layer and one batched
    product for each further one. This order is 1.5 to 2 times faster on CPU than vmapping networks.
    """
    return _forward(layers, inputs, gates)[0]


@partial(jax.jit, inline=True)
def _forward(layers, inputs, gates):
    (weight, bias), *rest = layers
    n, h, f = weight.shape
    s, b = gates.shape[1], inputs.shape[1]
    first = (weight[:, :, None, :] * gates[:, None, :, :]).reshape(n * h * s, f) @ inputs
    hidden = [jnp.tanh(first.reshape(n, h, s * b) + bias[:, :, None])]
    for weight, bias in rest[:-1]:
        hidden.append(jnp.tanh(weight @ hidden[-1] + bias[:, :, None]))
    weight, bias = rest[-1]
    return (weight @ hidden[-1] + bias[:, :, None]).reshape(n, s, b), hidden


def squared_input_gradient(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    gates: Float[Array, "network draw input"],
) -> Float[Array, "network"]:
    """Return the mean over windows and draws of ‖∂G_j/∂z‖², by explicit backpropagation.

    The networks share their inputs, so `jax.vjp` with respect to these would sum over networks.
    """
    _, hidden = _forward(layers, inputs, gates)
    n, s, f = gates.shape
    back = jnp.swapaxes(layers[-1][0], 1, 2) * (1 - hidden[-1] ** 2)
    for (weight, _), h in zip(layers[-2:0:-1], hidden[-2::-1], strict=True):
        back = (jnp.swapaxes(weight, 1, 2) @ back) * (1 - h**2)
    gradient = jnp.swapaxes(layers[0][0], 1, 2) @ back
    gradient = gradient.reshape(n, f, s, -1) * jnp.swapaxes(gates, 1, 2)[..., None]
    return jnp.sum(gradient**2, axis=(1, 2, 3)) / (s * inputs.shape[1])
