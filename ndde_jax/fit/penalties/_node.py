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
        """There is nothing to pay."""
        return as_scalar(0.0)

    @property
    def path(self) -> Float[Array, "price"]:
        """Nor to rank by prices."""
        return as_path(())

    @property
    def unit(self) -> str:
        """Of nothing."""
        return "mean"

    @property
    def n_draws(self) -> int:
        """Gates are deterministic."""
        return 1

    @classmethod
    def paper(cls) -> "NODE":
        """The paper's: nothing to set."""
        return cls()

    def init(self, layers: Layers) -> Array:
        """Nothing to learn."""
        return jnp.zeros_like(layers[0][0][:, 0])

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """None."""
        return no_noise(n_steps)

    def gates(self, selector: Array, noise: Array) -> Float[Array, "network draw input"]:
        """All open."""
        return jnp.ones_like(selector)[:, None]

    def penalty(
        self, selector: Array, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """None."""
        return jnp.zeros_like(coefficient)

    def scores(self, selector: Array, layers: Layers) -> Float[Array, "network input"]:
        """Path products."""
        return bounded(path_weights(layers))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Everything."""
        return jnp.ones_like(selector, bool)
