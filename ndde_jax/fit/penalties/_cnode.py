"""C-NODE: an L1 penalty, on deterministic gates or on path products of weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._checks import check_choice
from ..._types import Checked, as_number
from ._base import (
    UNITS,
    AbstractMethod,
    Layers,
    as_path,
    bounded,
    no_noise,
    path_weights,
    scale_inputs,
)

VARIANTS = ("gates", "weights", "paths")


class CNODE(AbstractMethod):
    """The C-NODE method: mean squared error plus (λ / F) Σ_i |gate_i|, or |path product_i|.

    **Arguments:**

    - `coefficient`: λ, in the units of [`L0NDDE`][ndde_jax.L0NDDE]: a gate that is fully open pays
        λ/F.
    - `path`: prices of an input that rank edges, as for `L0NDDE`; none by default.
    - `unit`: as for `L0NDDE`.
    - `variant`: `"gates"`: each input is multiplied by σ(logit) and σ is penalised. A small gate is
        undone by large weights, so the penalty shrinks gates of inputs that matter as well, and no
        gate ever closes exactly. `"weights"`, the paper's: each input is multiplied by a weight
        that starts at 1, is penalised, and stops at 0, which it reaches. `"paths"`, the original:
        no gates, and the penalty is the sum over inputs of |W_L| ⋯ |W_1|.
    - `threshold`: inputs whose gate (or path product) is at most this are left out of the model.
        The default 0.05 closes what the penalty has shrunk to a twentieth.
    - `logit`: where gates start; 2, σ = 0.88. Variant `"gates"` only.

    Aliee et al., *Sparsity in continuous-depth neural networks* (2022), section on C-NODE;
    the paper, "Baselines".
    """

    coefficient: Float[Array, ""] = eqx.field(
        converter=as_number("coefficient", least=0), default=0.1
    )
    path: Float[Array, "price"] = eqx.field(converter=as_path, default=())
    unit: Checked[str] = eqx.field(static=True, default="mean")
    variant: Checked[str] = eqx.field(static=True, default="gates")
    threshold: Float[Array, ""] = eqx.field(converter=as_number("threshold", least=0), default=0.05)
    logit: Float[Array, ""] | None = eqx.field(
        converter=as_number("logit", optional=True), default=None
    )

    @property
    def n_draws(self) -> int:
        """The number of draws: one, because gates are deterministic."""
        return 1

    def __check_init__(self):
        check_choice(self.unit, "unit", UNITS)
        check_choice(self.variant, "variant", VARIANTS)
        if self.variant != "gates" and self.logit is not None:
            raise ValueError(f"variant={self.variant!r} has no gates, so logit must be left out.")

    @classmethod
    def paper(cls, coefficient=50.0) -> "CNODE":
        """Return the paper's settings for CausalDynamics: 50 (dysts: 0.05), weights cut at 1e-8. It
        says that its weights were either 0 or above 1e-3, so they are no sigmoids, which are never
        0. The paper does not say that they start at 1 and never fall below 0; nor what λ
        multiplies: here the sum of all weights, beside squared errors summed over a batch, by far
        the nearest to its wrong edges (benchmarks/causal_dynamics/README.md).
        """
        return cls(coefficient=coefficient, variant="weights", unit="batch", threshold=1e-8)

    def init(self, layers: Layers) -> Array:
        """Return logits, or weights of the inputs; path products need none."""
        if self.variant == "weights":
            return jnp.ones_like(layers[0][0][:, 0])
        start = 2.0 if self.logit is None else self.logit
        return jnp.full_like(layers[0][0][:, 0], start)

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return no noise, `[step 0]`: the gates are deterministic."""
        return no_noise(n_steps)

    def gates(self, selector: Array, noise: Array) -> Float[Array, "network draw input"]:
        """Return σ(logit), or weights."""
        return self._gate(selector)[:, None]

    def _gate(self, selector):
        if self.variant == "gates":
            return jax.nn.sigmoid(selector)
        return selector if self.variant == "weights" else jnp.ones_like(selector)

    def project(self, selector: Array) -> Array:
        """Return the weights clipped below at 0."""
        return jnp.maximum(selector, 0) if self.variant == "weights" else selector

    def penalty(
        self, selector: Array, layers: Layers, coefficient: Float[Array, "network"]
    ) -> Float[Array, "network"]:
        """Return (λ / F) Σ |gate| or |path product|."""
        return coefficient * jnp.mean(self._size(selector, layers), axis=1)

    def _size(self, selector, layers):
        return path_weights(layers) if self.variant == "paths" else self._gate(selector)

    def scores(self, selector: Array, layers: Layers) -> Float[Array, "network input"]:
        """Return gates, or sizes n / (1 + n) of weights and path products."""
        size = self._size(selector, layers)
        return size if self.variant == "gates" else bounded(size)

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return the inputs above the threshold."""
        size = self._size(selector, layers)
        return size > self.threshold.astype(size.dtype)

    def freeze(self, selector: Array, layers: Layers) -> Layers:
        """Return networks with the gates absorbed into the first layer."""
        return scale_inputs(layers, self._gate(selector))
