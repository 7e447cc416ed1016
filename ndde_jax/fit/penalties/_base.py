"""The interface of a method: everything but the penalty is shared by all methods."""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from ..._checks import check_choice, check_real_array, is_traced, refusal, shown
from ..._types import Checked, as_number
from ...models._networks import Layer

Selector: TypeAlias = PyTree[Array]
# What λ multiplies, see `L0NDDE`.
UNITS = ("mean", "sum", "batch")
Layers = tuple[Layer, ...]


class AbstractMethod(eqx.Module):
    """A way to decide which inputs a drift may use.

    A method owns the parameters that select inputs (its *selector*), draws gates from them, and
    charges for them. Networks are stacked along one axis `network` = (coefficient on the path,
    target), and inputs are flat: (lag, source).

    A new method needs the abstract members below; the others do nothing unless overridden: nothing
    is drawn, and inputs are open while they are trained.
    """

    coefficient: eqx.AbstractVar[Float[Array, ""]]
    path: eqx.AbstractVar[Float[Array, "price"]]
    unit: eqx.AbstractVar[str]

    @property
    def n_draws(self) -> int:
        """The number of draws of gates in a step: one."""
        return 1

    def coefficients(self, n_inputs: int, dim: int, batch_size: int) -> Float[Array, "coefficient"]:
        """Return penalty coefficients trained side by side; the first belongs to the model, the
        others, prices of one input times the number of inputs, only rank edges.
        """
        path = self.path * n_inputs
        # Networks minimise the sum over targets of mean squared errors plus means over inputs.
        scale = {"mean": 1.0, "sum": n_inputs * dim, "batch": n_inputs / batch_size}[self.unit]
        return jnp.concatenate([(self.coefficient * scale).astype(path.dtype)[None], path])

    @abc.abstractmethod
    def init(self, layers: Layers) -> Selector:
        """Return the initial selector parameters, for networks of these shapes."""

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Draw the randomness of `n_steps` steps at once, `[step ...]`, since drawing inside the
        loop would cost more than the step; none for gates that are not drawn.
        """
        return jnp.zeros((n_steps, 0))

    def gates(self, selector: Selector, noise: Array) -> Float[Array, "network draw input"]:
        """Return the gates of one step; open ones for a selector with one number per input."""
        return jnp.ones_like(selector)[:, None]

    @abc.abstractmethod
    def penalty(
        self, selector: Selector, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return the penalty of each network, in units of its mean squared error."""

    @abc.abstractmethod
    def scores(self, selector: Selector, layers: Layers) -> Float[Array, "network input"]:
        """Return a continuous score in [0, 1] of every input."""

    @abc.abstractmethod
    def mask(self, selector: Selector, layers: Layers) -> Bool[Array, "network input"]:
        """Return the inputs that the frozen model uses."""

    def project(self, selector: Selector) -> Selector:
        """Return the selector projected to the admissible range, after every step."""
        return selector

    def begin(self, selector: Selector, layers: Layers, initial: Layers) -> tuple[Selector, Layers]:
        """Return selector and networks to go on from when the warm-up ends. `initial` are the
        random networks before it, whether or not the warm-up trained them.
        """
        return selector, layers

    def gated_layers(self, selector: Selector, layers: Layers, noise: Array) -> Layers:
        """Return the networks of one step, for methods that gate more than inputs."""
        return layers

    def proximal_shrinkage(
        self, selector: Selector, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network input"] | None:
        """Return the weight of the norm of each first-layer column, for a penalty that is not
        differentiated but applied as a proximal step; None for methods without one.
        """
        return None

    def freeze(self, selector: Selector, layers: Layers) -> Layers:
        """Return the networks once the mask is frozen, with gates that are neither 0 nor 1
        absorbed.
        """
        return layers


def as_path(values: Any) -> Float[Array, "price"]:
    """Return a sequence of numbers, possibly empty, as a vector."""
    check_real_array(values, "path", "a sequence of prices")
    array = jnp.asarray(values, dtype=jnp.result_type(float))
    if array.ndim != 1:
        raise ValueError(f"path must be a sequence of numbers; got shape {array.shape}.")
    if not is_traced(array) and not np.all(np.asarray(array) >= 0):
        raise ValueError(f"path must hold prices that are not negative; got {shown(values)}.")
    return array


class AbstractPenalty(AbstractMethod):
    """A method that charges for its inputs.

    - `coefficient`: λ, 0.1 unless a method says otherwise.
    - `path`: prices of an input that rank edges; none unless a method says otherwise.
    - `unit`: what λ multiplies, `"mean"`, `"sum"` or `"batch"`; see [`L0NDDE`][ndde_jax.L0NDDE].
    """

    coefficient: Float[Array, ""] = eqx.field(
        converter=as_number("coefficient", least=0), default=0.1
    )
    path: Float[Array, "price"] = eqx.field(converter=as_path, default=())
    unit: Checked[str] = eqx.field(static=True, default="mean")

    def __check_init__(self):
        check_choice(self.unit, "unit", UNITS)


def path_weights(layers: Layers) -> Float[Array, "network input"]:
    """Return the sum over all paths from an input to the output of the product of absolute weights,
    |W_L| ⋯ |W_1|: 0 if and only if every path is cut, and a bound on |∂G/∂z_i| up to slopes ≤ 1.
    """
    product = jnp.abs(layers[-1][0])
    for weight, _ in layers[-2::-1]:
        product = product @ jnp.abs(weight)
    return product[:, 0]


def column_norms(layers: Layers) -> Float[Array, "network input"]:
    """Return the norm of the first-layer weights of each input; its derivative is 0 where it
    is 0.
    """
    square = jnp.sum(layers[0][0] ** 2, axis=1)
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def scale_inputs(layers: Layers, factor: Float[Array, "network input"]) -> Layers:
    """Return the networks with each input multiplied by a factor."""
    (weight, bias), *rest = layers
    return ((weight * factor[:, None, :], bias), *rest)


def bounded(values: Float[Array, "network input"]) -> Float[Array, "network input"]:
    """Return sizes in [0, ∞) mapped monotonically to scores in [0, 1)."""
    return values / (1 + values)


def group_shrink(layers: Layers, threshold: Float[Array, "network input"]) -> Layers:
    """Apply the proximal step of Σ threshold ‖column‖: columns shrink by the threshold, to exact
    zeros.
    """
    norm = column_norms(layers)
    factor = jnp.where(norm > threshold, 1 - threshold / jnp.where(norm > 0, norm, 1), 0)
    return scale_inputs(layers, factor)


def stop(tree: PyTree[Array]) -> PyTree[Array]:
    """Return constants as far as derivatives are concerned."""
    return jax.tree.map(jax.lax.stop_gradient, tree)


def check_method(method: Any, name: str = "method") -> None:
    """Raise an error unless the argument is an instance of a method."""
    if not isinstance(method, AbstractMethod):
        raise refusal(
            name, "a method such as ndde_jax.L0NDDE()", method, "Mind the parentheses: L0NDDE()."
        )
