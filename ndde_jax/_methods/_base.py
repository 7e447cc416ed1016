"""What a method must provide; everything but the penalty is shared by all methods."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from .._drift import Layer

Selector = PyTree[Array]


class AbstractMethod(eqx.Module):
    """A way to decide which inputs a drift may use.

    A method owns the parameters that select inputs (its *selector*), draws gates from them, and
    charges for them. Networks are stacked along one axis `network` = (coefficient on the path,
    target), and inputs are flat: (lag, source).
    """

    n_draws: eqx.AbstractVar[int]

    @abc.abstractmethod
    def coefficients(self, n_inputs: int) -> Float[Array, "coefficient"]:
        """Penalty coefficients trained side by side; the first belongs to the model, the others
        only rank edges.
        """

    @abc.abstractmethod
    def init(self, n_networks: int, n_inputs: int, dtype) -> Selector:
        """Selector parameters at the start."""

    @abc.abstractmethod
    def noise(
        self, key: PRNGKeyArray, n_steps: int, n_networks: int, n_inputs: int, dtype
    ) -> Array:
        """All the randomness of `n_steps` steps at once: drawing inside the loop would cost more
        than the step.
        """

    @abc.abstractmethod
    def gates(self, selector: Selector, noise: Array) -> Float[Array, "network draw input"]:
        """Gates of one step."""

    @abc.abstractmethod
    def penalty(
        self, selector: Selector, layers: tuple[Layer, ...], coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """What each network pays, in units of its mean squared error."""

    @abc.abstractmethod
    def project(self, selector: Selector) -> Selector:
        """Back into the admissible range, after every step."""

    @abc.abstractmethod
    def scores(
        self, selector: Selector, layers: tuple[Layer, ...]
    ) -> Float[Array, "network input"]:
        """Continuous score in [0, 1] of every input."""

    @abc.abstractmethod
    def mask(self, selector: Selector, layers: tuple[Layer, ...]) -> Bool[Array, "network input"]:
        """Inputs the frozen model uses."""


def as_path(values) -> Float[Array, "price"]:
    """A sequence of numbers, possibly empty, as a vector."""
    array = jnp.asarray(values, dtype=jnp.result_type(float))
    if array.ndim != 1:
        raise ValueError(f"path must be a sequence of numbers; got shape {array.shape}.")
    return array
