"""NODE: no penalty, every input open."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._types import as_scalar
from ._base import AbstractMethod, Layers, as_path, bounded, no_noise, path_weights


class NODE(AbstractMethod):
    """A plain neural differential equation: the dense anchor of every comparison.

    Nothing is selected, so the graph is complete. Scores are sums of path products of absolute
    weights, p / (1 + p): a trained network's own opinion, for ranking only.

    Chen et al., *Neural ordinary differential equations* (2018); with lagged inputs as in
    the paper.
    """

    @property
    def coefficient(self) -> Float[Array, ""]:
        """The penalty coefficient: 0."""
        return as_scalar(0.0)

    @property
    def path(self) -> Float[Array, "price"]:
        """The path of prices: empty, since edges are not ranked by prices."""
        return as_path(())

    @property
    def unit(self) -> str:
        """The unit of the penalty, which is zero: the mean squared error."""
        return "mean"

    @property
    def n_draws(self) -> int:
        """The number of draws: one, because gates are deterministic."""
        return 1

    @classmethod
    def paper(cls) -> "NODE":
        """Return the paper's settings: there are none."""
        return cls()

    def init(self, layers: Layers) -> Array:
        """Return an empty selector: there is nothing to learn."""
        return jnp.zeros_like(layers[0][0][:, 0])

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return no noise, `[step 0]`: the gates are deterministic."""
        return no_noise(n_steps)

    def gates(self, selector: Array, noise: Array) -> Float[Array, "network draw input"]:
        """Return open gates."""
        return jnp.ones_like(selector)[:, None]

    def penalty(
        self, selector: Array, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return a zero penalty."""
        return jnp.zeros_like(coefficient)

    def scores(self, selector: Array, layers: Layers) -> Float[Array, "network input"]:
        """Return the path products as scores."""
        return bounded(path_weights(layers))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return a mask with every input open."""
        return jnp.ones_like(selector, bool)
