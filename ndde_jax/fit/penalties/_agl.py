"""AGL: the adaptive group lasso on first-layer columns."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._checks import check_choice, check_flag
from ..._types import Checked, as_number
from ._base import (
    UNITS,
    AbstractMethod,
    Layers,
    as_path,
    bounded,
    column_norms,
    no_noise,
    stop,
)


class AGL(AbstractMethod):
    """The adaptive group lasso: mean squared error plus (λ / F) Σ_i ‖W_i‖ / ‖pilot W_i‖^γ.

    W_i are the first-layer weights of input i, and the pilot is the dense network at the end of
    the warm-up. The penalty acts as a proximal step after each step of Adam, taken in the same
    metric: the first layer moves with one step size per column, and the column shrinks by that step
    size times its weight. (With Adam's own elementwise steps and an unscaled shrinkage, columns die
    whatever the data say once λ exceeds √width times the pilot's norm.) Columns reach exact zeros.

    **Arguments:**

    - `coefficient`: λ, in the units of [`L0NDDE`][ndde_jax.L0NDDE]: a column as large as its pilot
        pays λ/F.
    - `path`: prices of an input that rank edges, as for `L0NDDE`; none by default.
    - `unit`: as for `L0NDDE`.
    - `gamma`: power of the pilot's norm; 1. 0 is the plain group lasso.
    - `reset`: after the pilot, start again from the random initial weights, as the reference does,
        instead of going on from the pilot.

    Bellot, Branson and van der Schaar, *Neural graphical modelling in continuous time* (2022); Zou,
    *The adaptive lasso* (2006).
    """

    coefficient: Float[Array, ""] = eqx.field(
        converter=as_number("coefficient", least=0), default=0.1
    )
    path: Float[Array, "price"] = eqx.field(converter=as_path, default=())
    unit: Checked[str] = eqx.field(static=True, default="mean")
    gamma: Float[Array, ""] = eqx.field(converter=as_number("gamma", least=0), default=1.0)
    reset: Checked[bool] = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_choice(self.unit, "unit", UNITS)
        check_flag(self.reset, "reset")

    @property
    def n_draws(self) -> int:
        """The number of draws: one, because gates are deterministic."""
        return 1

    @classmethod
    def paper(cls, coefficient=5.0) -> "AGL":
        """Return the paper's coefficient for CausalDynamics, 5 (dysts: 50). The paper does not give
        the power of the pilot's norm, the pilot itself, or proximal steps for the penalty; its
        weights were 0 or above 1e-3, which gradients alone do not produce. Nor does it say what λ
        multiplies: here the sum of all columns, beside squared errors summed over a batch, as for
        `CNODE.paper`.
        """
        return cls(coefficient=coefficient, unit="batch")

    def init(self, layers: Layers) -> Array:
        """Return the adaptive weights of the columns, 1 until there is a pilot."""
        return jnp.ones_like(layers[0][0][:, 0])

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return no noise, `[step 0]`: the gates are deterministic."""
        return no_noise(n_steps)

    def gates(self, selector: Array, noise: Array) -> Float[Array, "network draw input"]:
        """Return open gates: columns close by their weights."""
        return jnp.ones_like(selector)[:, None]

    def begin(self, selector: Array, layers: Layers, initial: Layers) -> tuple[Array, Layers]:
        """Return weights from the pilot."""
        norm = jnp.maximum(column_norms(layers), 1e-3)
        weights = stop(norm ** -self.gamma.astype(norm.dtype))
        return weights, initial if self.reset else layers

    def penalty(
        self, selector: Array, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return (λ / F) Σ weight ‖W_i‖; it counts for the objective, the proximal step does the
        work.
        """
        return stop(coefficient * jnp.mean(selector * column_norms(layers), axis=1))

    def proximal_shrinkage(
        self, selector: Array, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network input"]:
        """Return (λ / F) × weight."""
        return stop(selector) * coefficient[:, None] / selector.shape[1]

    def scores(self, selector: Array, layers: Layers) -> Float[Array, "network input"]:
        """Return the column norms as n / (1 + n)."""
        return bounded(column_norms(layers))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return the columns that are not exactly zero."""
        return column_norms(layers) > 0
