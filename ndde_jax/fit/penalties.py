"""The methods: implementations of one interface that differ only in how they choose inputs.

They are those of the paper's comparison: NODE, CNODE, AGL, PathReg, and gates with an L0 penalty.
"""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from .._checks import (
    check_choice,
    check_flag,
    check_kind,
    check_real_array,
    check_whole,
    is_traced,
    short_repr,
)
from .._types import Checked, Settings, as_scalar, number, root, setting
from ..models._networks import Layer
from ._gates import (
    RULES,
    HardConcrete,
    check_gate,
    deterministic_gate,
    expected_l0,
    hard_mask,
    logistic_noise,
    open_probability,
    sample_gate,
)

Selector: TypeAlias = PyTree[Array]
# What λ multiplies, see `L0NDDE`.
UNITS = ("mean", "sum", "batch")
Layers = tuple[Layer, ...]
# A number for each network, or for each of its inputs.
PerNetwork: TypeAlias = Float[Array, "network"]
PerNetworkInput: TypeAlias = Float[Array, "network input"]


class AbstractMethod(Settings):
    """A way to decide which inputs a drift may use.

    A method owns the parameters that select inputs (its *selector*), draws gates from them, and
    charges for them. Networks are stacked along one axis `network` = (coefficient on the path,
    target), and inputs are flat: (lag, source).

    Subclasses implement the abstract members below. The others do nothing unless overridden:
    nothing is drawn, and inputs are open during training.
    """

    coefficient: eqx.AbstractVar[Float[Array, ""]]
    path: eqx.AbstractVar[Float[Array, "price"]]
    unit: eqx.AbstractVar[str]

    @property
    def n_draws(self) -> int:
        """The number of gate draws per step: one."""
        return 1

    def coefficients(self, n_inputs: int, dim: int, batch_size: int) -> Float[Array, "coefficient"]:
        """Return the penalty coefficients trained side by side. The first belongs to the model; the
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
        loop would cost more than the step; by default none.
        """
        return jnp.zeros((n_steps, 0))

    def gates(self, selector: Selector, noise: Array) -> Float[Array, "network draw input"]:
        """Return the gates of one step; by default open, for a selector with a number per input."""
        return jnp.ones_like(selector)[:, None]

    @abc.abstractmethod
    def penalty(self, selector: Selector, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return the penalty of each network, in units of its mean squared error."""

    @abc.abstractmethod
    def scores(self, selector: Selector, layers: Layers) -> PerNetworkInput:
        """Return a continuous score in [0, 1] of every input."""

    @abc.abstractmethod
    def mask(self, selector: Selector, layers: Layers) -> Bool[Array, "network input"]:
        """Return the inputs that the frozen model uses."""

    def project(self, selector: Selector) -> Selector:
        """Return the selector projected to the admissible range, after every step."""
        return selector

    def begin(self, selector: Selector, layers: Layers, initial: Layers) -> tuple[Selector, Layers]:
        """Return the selector and networks to continue from after the warm-up. `initial` holds the
        random networks before it, whether or not the warm-up trained them.
        """
        return selector, layers

    def gated_layers(self, selector: Selector, layers: Layers, noise: Array) -> Layers:
        """Return the networks of one step, for methods that gate more than inputs."""
        return layers

    def proximal_shrinkage(
        self, selector: Selector, coefficient: PerNetwork
    ) -> PerNetworkInput | None:
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
        raise ValueError(f"path must hold prices that are not negative; got {short_repr(values)}.")
    return array


class AbstractPenalty(AbstractMethod):
    """A method that charges for its inputs.

    - `coefficient`: λ, 0.1 unless a method says otherwise.
    - `path`: prices of an input that rank edges; none unless a method says otherwise.
    - `unit`: what λ multiplies, `"mean"`, `"sum"` or `"batch"`; see [`L0NDDE`][ndde_jax.L0NDDE].
    """

    coefficient: Float[Array, ""] = number("coefficient", 0.1, least=0)
    path: Float[Array, "price"] = eqx.field(converter=as_path, default=())
    unit: Checked[str] = setting("mean", check_choice, options=UNITS)


def path_weights(layers: Layers) -> PerNetworkInput:
    """Return the sum over all paths from an input to the output of the product of absolute weights,
    |W_L| ⋯ |W_1|: 0 if and only if every path is cut, and a bound on |∂G/∂z_i|, as slopes are ≤ 1.
    """
    product = jnp.abs(layers[-1][0])
    for weight, _ in layers[-2::-1]:
        product = product @ jnp.abs(weight)
    return product[:, 0]


def column_norms(layers: Layers) -> PerNetworkInput:
    """Return the norm of the first-layer weights of each input; its derivative is 0 where it
    is 0.
    """
    return root(jnp.sum(layers[0][0] ** 2, axis=1))


def scale_inputs(layers: Layers, factor: PerNetworkInput) -> Layers:
    """Return the networks with each input multiplied by a factor."""
    (weight, bias), *rest = layers
    return ((weight * factor[:, None, :], bias), *rest)


def bounded(values: PerNetworkInput) -> PerNetworkInput:
    """Return sizes in [0, ∞) mapped monotonically to scores in [0, 1)."""
    return values / (1 + values)


def group_shrink(layers: Layers, threshold: PerNetworkInput) -> Layers:
    """Apply the proximal step of Σ threshold ‖column‖: columns shrink by the threshold, to exact
    zeros.
    """
    norm = column_norms(layers)
    factor = jnp.where(norm > threshold, 1 - threshold / jnp.where(norm > 0, norm, 1), 0)
    return scale_inputs(layers, factor)


def stop(tree: PyTree[Array]) -> PyTree[Array]:
    """Return the arrays as constants for differentiation."""
    return jax.tree.map(jax.lax.stop_gradient, tree)


def check_method(method: Any, name: str = "method") -> None:
    """Raise an error unless the argument is an instance of a method."""
    expected, remedy = "a method such as ndde_jax.L0NDDE()", "Mind the parentheses: L0NDDE()."
    check_kind(method, AbstractMethod, name, expected, remedy)


class NODE(AbstractMethod):
    """A plain neural differential equation: the dense baseline of every comparison.

    Nothing is selected, so the graph is complete. Scores are p / (1 + p), where p is the sum of
    path products of absolute weights of a trained network. They are for ranking only.

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

    @classmethod
    def paper(cls) -> "NODE":
        """Return the paper's settings: there are none."""
        return cls()

    def init(self, layers: Layers) -> Array:
        """Return an empty selector: there is nothing to learn."""
        return jnp.zeros_like(layers[0][0][:, 0])

    def penalty(self, selector: Array, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return a zero penalty."""
        return jnp.zeros_like(coefficient)

    def scores(self, selector: Array, layers: Layers) -> PerNetworkInput:
        """Return the path products as scores."""
        return bounded(path_weights(layers))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return a mask with every input open."""
        return jnp.ones_like(selector, bool)


class CNODE(AbstractPenalty):
    """The C-NODE method: mean squared error plus (λ / F) Σ_i |gate_i|, or |path product_i|.

    **Arguments:**

    - `coefficient`: λ, in the units of [`L0NDDE`][ndde_jax.L0NDDE]: a gate that is fully open pays
        λ/F.
    - `path`: prices of an input that rank edges, as for `L0NDDE`; none by default.
    - `unit`: as for `L0NDDE`.
    - `variant`: `"gates"`: each input is multiplied by σ(logit) and σ is penalised. Large weights
        can undo a small gate, so the penalty also shrinks gates of inputs that matter, and no gate
        ever closes exactly. `"weights"`, the paper's: each input is multiplied by a weight that
        starts at 1, is penalised, and is clipped at 0, which it reaches. `"paths"`, the original:
        no gates, and the penalty is the sum over inputs of |W_L| ⋯ |W_1|.
    - `threshold`: inputs whose gate (or path product) is at most this are excluded from the model.
        The default 0.05 closes inputs that the penalty has shrunk to a twentieth.
    - `logit`: initial logit of the gates; 2, σ = 0.88. Variant `"gates"` only.

    Aliee et al., *Sparsity in continuous-depth neural networks* (2022), section on C-NODE;
    the paper, "Baselines".
    """

    variant: Checked[str] = setting("gates", check_choice, options=("gates", "weights", "paths"))
    threshold: Float[Array, ""] = number("threshold", 0.05, least=0)
    logit: Float[Array, ""] | None = number("logit", None)

    def __check_init__(self):
        if self.variant != "gates" and self.logit is not None:
            raise ValueError(f"variant={self.variant!r} has no gates, so logit must be omitted.")

    @classmethod
    def paper(cls, coefficient=50.0) -> "CNODE":
        """Return the paper's settings for CausalDynamics: λ = 50 (dysts: 0.05), weights cut at
        1e-8. Its weights were either 0 or above 1e-3, so they are not sigmoids, which are never 0.
        The paper does not say that weights start at 1 and never fall below 0, nor what λ
        multiplies. Here it is the sum of all weights, with squared errors summed over a batch, by
        far the closest to the paper's wrong edges (benchmarks/causal_dynamics/README.md).
        """
        return cls(coefficient=coefficient, variant="weights", unit="batch", threshold=1e-8)

    def init(self, layers: Layers) -> Array:
        """Return logits, or weights of the inputs; path products need none."""
        if self.variant == "weights":
            return jnp.ones_like(layers[0][0][:, 0])
        start = 2.0 if self.logit is None else self.logit
        return jnp.full_like(layers[0][0][:, 0], start)

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

    def penalty(self, selector: Array, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return (λ / F) Σ |gate| or |path product|."""
        return coefficient * jnp.mean(self._size(selector, layers), axis=1)

    def _size(self, selector, layers):
        return path_weights(layers) if self.variant == "paths" else self._gate(selector)

    def scores(self, selector: Array, layers: Layers) -> PerNetworkInput:
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


class AGL(AbstractPenalty):
    """The adaptive group lasso: mean squared error plus (λ / F) Σ_i ‖W_i‖ / ‖pilot W_i‖^γ.

    W_i are the first-layer weights of input i, and the pilot is the dense network at the end of
    the warm-up. The penalty acts as a proximal step after each Adam step, in the same metric: the
    first layer moves with one step size per column, and the column shrinks by that step size times
    its weight. (With Adam's own elementwise steps and an unscaled shrinkage, columns vanish for any
    data once λ exceeds √width times the pilot's norm.) Columns reach exact zeros.

    **Arguments:**

    - `coefficient`: λ, in the units of [`L0NDDE`][ndde_jax.L0NDDE]: a column as large as its pilot
        pays λ/F.
    - `path`: prices of an input that rank edges, as for `L0NDDE`; none by default.
    - `unit`: as for `L0NDDE`.
    - `gamma`: power of the pilot's norm; 1. 0 is the plain group lasso.
    - `reset`: after the pilot, restart from the random initial weights, as in the reference,
        instead of continuing from the pilot.

    Bellot, Branson and van der Schaar, *Neural graphical modelling in continuous time* (2022); Zou,
    *The adaptive lasso* (2006).
    """

    gamma: Float[Array, ""] = number("gamma", 1.0, least=0)
    reset: Checked[bool] = setting(False, check_flag)

    @classmethod
    def paper(cls, coefficient=5.0) -> "AGL":
        """Return the paper's coefficient for CausalDynamics, 5 (dysts: 50). The paper does not give
        the power of the pilot's norm, the pilot itself, or proximal steps for the penalty; its
        weights were 0 or above 1e-3, which gradients alone do not produce. Nor does it say what λ
        multiplies: here the sum of all columns, with squared errors summed over a batch, as for
        `CNODE.paper`.
        """
        return cls(coefficient=coefficient, unit="batch")

    def init(self, layers: Layers) -> Array:
        """Return the adaptive weights of the columns, 1 until there is a pilot."""
        return jnp.ones_like(layers[0][0][:, 0])

    def begin(self, selector: Array, layers: Layers, initial: Layers) -> tuple[Array, Layers]:
        """Return the weights from the pilot, and the networks to continue from."""
        norm = jnp.maximum(column_norms(layers), 1e-3)
        weights = stop(norm ** -self.gamma.astype(norm.dtype))
        return weights, initial if self.reset else layers

    def penalty(self, selector: Array, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return (λ / F) Σ weight ‖W_i‖ for the objective only; the proximal step applies the
        penalty.
        """
        return stop(coefficient * jnp.mean(selector * column_norms(layers), axis=1))

    def proximal_shrinkage(self, selector: Array, coefficient: PerNetwork) -> PerNetworkInput:
        """Return (λ / F) × weight."""
        return stop(selector) * coefficient[:, None] / selector.shape[1]

    def scores(self, selector: Array, layers: Layers) -> PerNetworkInput:
        """Return the column norms as n / (1 + n)."""
        return bounded(column_norms(layers))

    def mask(self, selector: Array, layers: Layers) -> Bool[Array, "network input"]:
        """Return the columns that are not exactly zero."""
        return column_norms(layers) > 0


class AbstractGated(AbstractPenalty):
    """A method with hard-concrete gates, clamped after every step; draws and penalties differ."""

    log_alpha: Float[Array, ""] = number("log_alpha", 2.0)
    max_log_alpha: Float[Array, ""] = number("max_log_alpha", 4.0, above=0)
    rule: Checked[str] = setting("open_probability", check_choice, options=RULES)
    gate: Checked[HardConcrete] = setting(HardConcrete, check_gate)

    def gated(self, layers: Layers) -> Layers:
        """Return the layers whose incoming units have gates: the first, which has the inputs."""
        return layers[:1]

    def init(self, layers: Layers) -> tuple[Array, ...]:
        """Return `log_alpha` of the inputs, and of the units of each further gated layer."""
        return tuple(
            jnp.full((weight.shape[0], weight.shape[2]), self.log_alpha, weight.dtype)
            for weight, _ in self.gated(layers)
        )

    def noise(self, key: PRNGKeyArray, n_steps: int, layers: Layers) -> Array:
        """Return logistic noise `[step network draw unit]`, inputs first."""
        weight = layers[0][0]
        n_units = sum(weight.shape[2] for weight, _ in self.gated(layers))
        shape = (n_steps, weight.shape[0], self.n_draws, n_units)
        return logistic_noise(key, shape, weight.dtype)

    def gates(self, selector: tuple, noise: Array) -> Float[Array, "network draw input"]:
        """Return hard-concrete draws for the inputs."""
        inputs = selector[0]
        return sample_gate(inputs[:, None], noise=noise[..., : inputs.shape[1]], gate=self.gate)

    def project(self, selector: Selector) -> Selector:
        """Clamp `log_alpha`."""

        def clamped(log_alpha):
            bound = self.max_log_alpha.astype(log_alpha.dtype)
            return jnp.clip(log_alpha, -bound, bound)

        return jax.tree.map(clamped, selector)

    def scores(self, selector: Selector, layers: Layers) -> PerNetworkInput:
        """Return the open probabilities of the inputs."""
        return open_probability(selector[0], self.gate)

    def mask(self, selector: Selector, layers: Layers) -> Bool[Array, "network input"]:
        """Return the inputs whose gates are open by `rule`."""
        return hard_mask(selector[0], self.rule, self.gate)


class L0NDDE(AbstractGated):
    r"""The paper's estimator: mean squared error plus λ times the expected number of inputs.

    Per target j with F = dim · lags candidate inputs, on standardised data,

        mean_k w_k (dX_j/dt − f_j(z_j ⊙ Z_k))² + (λ / F) Σ_i P(z_ij ≠ 0).

    So **an input is worth keeping iff dropping it raises its target's standardised mean squared
    error by more than λ/F**. (Averaged over the targets this is the paper's loss with its penalty
    divided by dim² · lags.)

    **Arguments:**

    - `coefficient`: λ. With three inputs, the default 0.05 keeps those that explain more than 1.7 %
        of the variance of a rate. It is generous, since
        [`signal_strengths`][ndde_jax.signal_strengths] afterwards tests every edge.
    - `path`: prices of an input, as shares of its target's variance, that rank the edges. Each
        price trains its own gates and networks, in the same batch, with λ = price · F. The score of
        an edge is its open probability, averaged over these prices, λ itself and the sparsifying
        phase: how high a price the edge survives, and how long. The default spans the relevant
        range for any number of inputs. `()` trains λ alone.
    - `unit`: what λ multiplies. `"mean"`: as above. `"sum"`: the loss is the mean over targets of
        their risks plus λ Σ P(z_ij ≠ 0) over all inputs of all targets, so an input must lower its
        target's error by λ · dim. `"batch"`: the same sum is added to squared errors that are
        summed over a batch, not averaged, so the error must fall by λ / batch size. The unit
        applies to the model's own coefficient, not to the path.
    - `n_draws`: gate draws per minibatch; 3 as in the paper.
    - `log_alpha`: initial location of gates; 2, open with probability 0.94. Gates that start higher
        have almost no gradient.
    - `max_log_alpha`: gates are clamped to ± this; 4. Beyond it draws are practically constant and
        a gate could never recover.
    - `rule`: which gates the model keeps, see [`hard_mask`][ndde_jax.gates.hard_mask]; by default
        those that are open more often than not. The paper keeps those whose sigmoid exceeds one
        half, `"median"`.
    - `gate`: temperature and stretch of the hard-concrete distribution.

    `L0NDDE.paper()` has the coefficient and settings of the paper's first benchmark.

    References: the paper, equations (risk), (penalized risk) and "Implementation and optimization";
    Louizos, Welling and Kingma, *Learning sparse neural networks through L0 regularization* (2018).
    """

    coefficient: Float[Array, ""] = number("coefficient", 0.05, least=0)
    path: Float[Array, "price"] = eqx.field(
        converter=as_path, default=(0.007, 0.033, 0.067, 0.17, 0.33, 0.67, 1.33)
    )
    n_draws: Checked[int] = setting(3, check_whole)

    @classmethod
    def paper(cls, coefficient=0.025) -> "L0NDDE":
        """Return the paper's settings: one coefficient (CausalDynamics: 0.025, dysts: 0.05), no
        path, and the mask sigmoid(log_alpha) > 1/2. The paper does not say what λ multiplies (here
        the number of open gates of all targets, next to the mean of their risks), where gates start
        (here at 1), or that they are clamped to ± 4. Among the readings that were tried, these two
        come closest to its numbers of wrong edges: benchmarks/causal_dynamics/README.md lists them
        all.
        """
        return cls(coefficient=coefficient, path=(), unit="sum", log_alpha=1.0, rule="median")

    def penalty(self, selector: tuple, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return (λ / F) × expected number of open gates."""
        inputs = selector[0]
        return coefficient * (expected_l0(inputs, self.gate, axis=1) / inputs.shape[1])


class PathReg(AbstractGated):
    """The PathReg method: gates on inputs and hidden units, with a penalty on open paths from
    inputs to outputs.

    Mean squared error plus λ times the mean over inputs of the expected share of open paths; the
    reference adds path products of weights: λ mean |W_L| ⋯ |W_1| + λ/10 (open paths). With one
    network per target the share of open paths factorises into (input gate) × (hidden gates).
    Closing hidden units pays as well as closing inputs, which is why it selects few inputs.

    **Arguments:**

    - `coefficient`: λ; an open input with all hidden units open pays λ/F.
    - `path`: prices of an input that rank edges, as for [`L0NDDE`][ndde_jax.L0NDDE]; none by
        default.
    - `unit`: as for `L0NDDE`.
    - `variant`: `"reference"` (weights and gates) or `"gates"`, the paper's.
    - `log_alpha`, `max_log_alpha`, `rule`, `gate`: as for `L0NDDE`.

    Aliee et al., *Sparsity in continuous-depth neural networks* (2022).
    """

    variant: Checked[str] = setting("reference", check_choice, options=("reference", "gates"))

    @classmethod
    def paper(cls, coefficient=1.0) -> "PathReg":
        """Return the paper's settings for dysts: λ = 1, gates only, and the mask sigmoid(log_alpha)
        > 1/2 that it uses for all gates. The paper does not say which units have gates, where these
        start, or that they are clamped.
        """
        return cls(coefficient=coefficient, variant="gates", rule="median")

    def gated(self, layers: Layers) -> Layers:
        """Return all layers: hidden units have gates like inputs."""
        return layers

    def gated_layers(self, selector: tuple, layers: Layers, noise: Array) -> Layers:
        """Return the networks with hidden units multiplied by their gates, through the next layer's
        columns.
        """
        ends = [sum(s.shape[1] for s in selector[: i + 1]) for i in range(len(selector))]
        gated = [layers[0]]
        for log_alpha, end, layer in zip(selector[1:], ends[1:], layers[1:], strict=True):
            own = noise[:, 0, end - log_alpha.shape[1] : end]
            draw = sample_gate(log_alpha, noise=own, gate=self.gate)
            gated.extend(scale_inputs((layer,), draw))
        return tuple(gated)

    def penalty(self, selector: tuple, layers: Layers, coefficient: PerNetwork) -> PerNetwork:
        """Return λ × mean over inputs of the expected share of open paths, or the reference's
        sum.
        """
        share = open_probability(selector[0], self.gate)
        for log_alpha in selector[1:]:
            share = share * jnp.mean(open_probability(log_alpha, self.gate), axis=1)[:, None]
        if self.variant == "gates":
            return coefficient * jnp.mean(share, axis=1)
        return coefficient * jnp.mean(path_weights(layers) + 0.1 * share, axis=1)

    def freeze(self, selector: tuple, layers: Layers) -> Layers:
        """Return networks with the test-time values of hidden gates absorbed into the weights."""
        frozen = [layers[0]]
        for log_alpha, layer in zip(selector[1:], layers[1:], strict=True):
            frozen.extend(scale_inputs((layer,), deterministic_gate(log_alpha, self.gate)))
        return tuple(frozen)
