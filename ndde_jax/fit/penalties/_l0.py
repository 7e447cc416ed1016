"""L0-NDDE: hard-concrete gates on the inputs, paid by their expected number."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._checks import check_choice, check_whole
from ..._types import Checked, as_number
from .._gates import (
    RULES,
    HardConcrete,
    check_gate,
    expected_l0,
    hard_mask,
    logistic_noise,
    open_probability,
    sample_gate,
)
from ._base import UNITS, AbstractMethod, Layers, as_path


class L0NDDE(AbstractMethod):
    r"""The paper's estimator: mean squared error plus λ times the expected number of inputs.

    Per target j with F = dim · lags candidate inputs, on standardised data,

        mean_k w_k (dX_j/dt − f_j(z_j ⊙ Z_k))² + (λ / F) Σ_i P(z_ij ≠ 0).

    So **an input is worth keeping iff dropping it raises its target's standardised mean squared
    error by more than λ/F**. (Averaged over the targets this is the paper's loss with its penalty
    divided by dim² · lags.)

    **Arguments:**

    - `coefficient`: λ. The default 0.05 keeps, with three inputs, what explains more than 1.7 % of
        the variance of a rate. It is on the generous side, since
        [`signal_strengths`][ndde_jax.signal_strengths] afterwards tests every edge.
    - `path`: prices of an input, shares of its target's variance, that rank the edges. Each price
        trains its own gates and networks, in the same batch, with λ = price · F; an edge's score is
        its open probability averaged over them, λ itself and the sparsifying phase, so it says how
        high a price the edge survives, and how long. The default spans what can matter, whatever
        the number of inputs. `()` trains λ alone.
    - `unit`: what λ multiplies. `"mean"`: as above. `"sum"`: the loss is the mean over targets of
        their risks plus λ Σ P(z_ij ≠ 0) over all inputs of all targets, so an input must lower its
        target's error by λ · dim. `"batch"`: the squared errors of a batch are added up, not
        averaged, beside the same sum, so by λ / batch size. Only the model's own coefficient is
        meant, not the path.
    - `n_draws`: gate draws per minibatch; 3 as in the paper.
    - `log_alpha`: where gates start; 2, open with probability 0.94. Started higher, they have
        almost no gradient.
    - `max_log_alpha`: gates are clamped to ± this; 4. Beyond it draws are constant for all
        practical purposes and a gate could never come back.
    - `rule`: which gates the model keeps, see [`hard_mask`][ndde_jax.gates.hard_mask]; by default
        those that are open more often than not. The paper keeps those whose sigmoid exceeds one
        half, `"median"`.
    - `gate`: temperature and stretch of the hard-concrete distribution.

    `L0NDDE.paper()` has the coefficient and settings of the paper's first benchmark.

    References: the paper, equations (risk), (penalized risk) and "Implementation and optimization";
    Louizos, Welling and Kingma, *Learning sparse neural networks through L0 regularization* (2018).
    """

    coefficient: Float[Array, ""] = eqx.field(
        converter=as_number("coefficient", least=0), default=0.05
    )
    path: Float[Array, "price"] = eqx.field(
        converter=as_path, default=(0.007, 0.033, 0.067, 0.17, 0.33, 0.67, 1.33)
    )
    unit: Checked[str] = eqx.field(static=True, default="mean")
    n_draws: Checked[int] = eqx.field(static=True, default=3)
    log_alpha: Float[Array, ""] = eqx.field(converter=as_number("log_alpha"), default=2.0)
    max_log_alpha: Float[Array, ""] = eqx.field(
        converter=as_number("max_log_alpha", above=0), default=4.0
    )
    rule: Checked[str] = eqx.field(static=True, default="open_probability")
    gate: Checked[HardConcrete] = eqx.field(default_factory=HardConcrete)

    def __check_init__(self):
        check_choice(self.unit, "unit", UNITS)
        check_whole(self.n_draws, "n_draws")
        check_choice(self.rule, "rule", RULES)
        check_gate(self.gate)

    @classmethod
    def paper(cls, coefficient=0.025) -> "L0NDDE":
        """Return the paper's settings: one coefficient, no path (CausalDynamics: 0.025, dysts:
        0.05), and the mask sigmoid(log_alpha) > 1/2. The paper does not say what λ multiplies, here
        the number of open gates of all targets beside the mean of their risks; where gates start,
        here at 1; and that they are clamped to ± 4. Of the readings of its text that were tried,
        these two come nearest to its numbers of wrong edges: benchmarks/causal_dynamics/README.md
        lists them all.
        """
        return cls(coefficient=coefficient, path=(), unit="sum", log_alpha=1.0, rule="median")

    def init(self, layers: Layers) -> Array:
        """Return `log_alpha` of every gate."""
        weight = layers[0][0]
        return jnp.full((weight.shape[0], weight.shape[2]), self.log_alpha, weight.dtype)

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return logistic noise `[step network draw input]`."""
        weight = layers[0][0]
        shape = (n_steps, weight.shape[0], self.n_draws, weight.shape[2])
        return logistic_noise(key, shape, weight.dtype)

    def gates(self, selector: Array, noise: Array) -> Float[Array, "network draw input"]:
        """Return hard-concrete draws."""
        gate = _cast(self.gate, selector.dtype)
        return sample_gate(selector[:, None, :], noise=noise, gate=gate)

    def penalty(
        self, selector: Array, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return (λ / F) × expected number of open gates."""
        number = expected_l0(selector, _cast(self.gate, selector.dtype), axis=1)
        return coefficient * (number / selector.shape[1])

    def project(self, selector: Array) -> Array:
        """Clamp `log_alpha`."""
        bound = self.max_log_alpha.astype(selector.dtype)
        return jnp.clip(selector, -bound, bound)

    def scores(self, selector: Array, layers: Layers) -> Float[Array, "network input"]:
        """Return open probabilities."""
        return open_probability(selector, _cast(self.gate, selector.dtype))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return the gates open by `rule`."""
        return hard_mask(selector, self.rule, _cast(self.gate, selector.dtype))


def _cast(gate: HardConcrete, dtype) -> HardConcrete:
    return HardConcrete(
        gate.temperature.astype(dtype), gate.low.astype(dtype), gate.high.astype(dtype)
    )
