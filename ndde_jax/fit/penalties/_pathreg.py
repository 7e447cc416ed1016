"""PathReg: hard-concrete gates on every unit, paid by the paths they leave open."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._checks import check_choice
from ..._types import Checked, as_number
from .._gates import (
    RULES,
    HardConcrete,
    check_gate,
    deterministic_gate,
    hard_mask,
    logistic_noise,
    open_probability,
    sample_gate,
)
from ._base import UNITS, AbstractMethod, Layers, as_path, path_weights, scale_inputs

VARIANTS = ("reference", "gates")


class PathReg(AbstractMethod):
    """The PathReg method: gates on inputs and hidden units, paid by open paths from inputs to
    outputs.

    Mean squared error plus λ times the mean over inputs of the expected share of open paths; the
    reference adds path products of weights: λ mean |W_L| ⋯ |W_1| + λ/10 (open paths). With one
    network per target the share of open paths factorises into (input gate) × (hidden gates), so
    closing hidden units pays as well as closing inputs, which is why it selects few inputs.

    **Arguments:**

    - `coefficient`: λ; an open input with all hidden units open pays λ/F.
    - `path`: prices of an input that rank edges, as for [`L0NDDE`][ndde_jax.L0NDDE]; none by
        default.
    - `unit`: as for `L0NDDE`.
    - `variant`: `"reference"` (weights and gates) or `"gates"`, the paper's.
    - `log_alpha`, `max_log_alpha`, `rule`, `gate`: as for `L0NDDE`.

    Aliee et al., *Sparsity in continuous-depth neural networks* (2022).
    """

    coefficient: Float[Array, ""] = eqx.field(
        converter=as_number("coefficient", least=0), default=0.1
    )
    path: Float[Array, "price"] = eqx.field(converter=as_path, default=())
    unit: Checked[str] = eqx.field(static=True, default="mean")
    variant: Checked[str] = eqx.field(static=True, default="reference")
    log_alpha: Float[Array, ""] = eqx.field(converter=as_number("log_alpha"), default=2.0)
    max_log_alpha: Float[Array, ""] = eqx.field(
        converter=as_number("max_log_alpha", above=0), default=4.0
    )
    rule: Checked[str] = eqx.field(static=True, default="open_probability")
    gate: Checked[HardConcrete] = eqx.field(default_factory=HardConcrete)

    @property
    def n_draws(self) -> int:
        """The number of draws: one, because hidden gates multiply weights."""
        return 1

    def __check_init__(self):
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.variant, "variant", VARIANTS)
        check_choice(self.rule, "rule", RULES)
        check_gate(self.gate)

    @classmethod
    def paper(cls, coefficient=1.0) -> "PathReg":
        """Return the paper's settings for dysts: 1, gates only, and the mask sigmoid(log_alpha) >
        1/2 that it has for all gates. The paper does not say which units have gates, where these
        start, and that they are clamped.
        """
        return cls(coefficient=coefficient, variant="gates", rule="median")

    def init(self, layers: Layers) -> tuple[Array, ...]:
        """Return `log_alpha` of the inputs and of the units of each hidden layer."""
        return tuple(
            jnp.full((weight.shape[0], weight.shape[2]), self.log_alpha, weight.dtype)
            for weight, _ in layers
        )

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return logistic noise `[step network 1 unit]`, inputs first, then the hidden layers."""
        weight = layers[0][0]
        n_units = sum(weight.shape[2] for weight, _ in layers)
        return logistic_noise(key, (n_steps, weight.shape[0], 1, n_units), weight.dtype)

    def gates(self, selector: tuple, noise: Array) -> Float[Array, "network draw input"]:
        """Return draws for the inputs."""
        n = selector[0].shape[1]
        gate = _cast(self.gate, noise.dtype)
        return sample_gate(selector[0][:, None], noise=noise[..., :n], gate=gate)

    def gated_layers(self, selector: tuple, layers: Layers, noise: Array) -> Layers:
        """Return hidden units times their gates, which equals the next layer's columns times
        them.
        """
        ends = [sum(s.shape[1] for s in selector[: i + 1]) for i in range(len(selector))]
        gate, gated = _cast(self.gate, noise.dtype), [layers[0]]
        for log_alpha, end, layer in zip(selector[1:], ends[1:], layers[1:], strict=True):
            own = noise[:, 0, end - log_alpha.shape[1] : end]
            draw = sample_gate(log_alpha, noise=own, gate=gate)
            gated.extend(scale_inputs((layer,), draw))
        return tuple(gated)

    def penalty(
        self, selector: tuple, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return λ × mean over inputs of the expected share of open paths, or the reference's
        sum.
        """
        gate = _cast(self.gate, selector[0].dtype)
        share = open_probability(selector[0], gate)
        for log_alpha in selector[1:]:
            share = share * jnp.mean(open_probability(log_alpha, gate), axis=1)[:, None]
        if self.variant == "gates":
            return coefficient * jnp.mean(share, axis=1)
        return coefficient * jnp.mean(path_weights(layers) + 0.1 * share, axis=1)

    def project(self, selector: tuple) -> tuple:
        """Clamp `log_alpha`."""
        bound = self.max_log_alpha.astype(selector[0].dtype)
        return jax.tree.map(lambda log_alpha: jnp.clip(log_alpha, -bound, bound), selector)

    def scores(self, selector: tuple, layers: Layers) -> Float[Array, "network input"]:
        """Return the open probabilities of the inputs."""
        return open_probability(selector[0], _cast(self.gate, selector[0].dtype))

    def mask(self, selector: tuple, layers: Layers) -> Bool[Array, "network input"]:
        """Return the input gates open by `rule`."""
        return hard_mask(selector[0], self.rule, _cast(self.gate, selector[0].dtype))

    def freeze(self, selector: tuple, layers: Layers) -> Layers:
        """Return networks with the test-time values of hidden gates absorbed into the weights."""
        gate, frozen = _cast(self.gate, selector[0].dtype), [layers[0]]
        for log_alpha, layer in zip(selector[1:], layers[1:], strict=True):
            frozen.extend(scale_inputs((layer,), deterministic_gate(log_alpha, gate)))
        return tuple(frozen)


def _cast(gate: HardConcrete, dtype) -> HardConcrete:
    return jax.tree.map(lambda leaf: leaf.astype(dtype), gate)
