"""Training: warm up, sparsify until the objective plateaus, freeze the mask, refine.

This module holds the loss of one window in its textbook form, both gradient loops, fits of many
systems, which are distributed over cores and devices and can be resumed, and the scores and the
graph of a fit, `[source target lag]`.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from equinox.internal import nondifferentiable_backward
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import (
    argument_error,
    check_choice,
    check_concrete,
    check_config,
    check_key,
    check_kind,
    check_whole,
    check_windows,
    is_traced,
    short_repr,
)
from .._executors import run_many, sendable
from .._memory import drop_programs_if_many, padded_length
from .._store import Kept, fingerprint
from .._types import Checked, Graph, Scaling, Scores, Settings, number, setting
from ..models._model import AbstractDelayModel, NeuralDDE, check_model, check_model_matches
from ..models._networks import Layer, MaskedDrift, apply_layers, init_layers, squared_input_gradient
from ..windows._windows import FlatData, Windows, pad_windows
from ._newton import fit_network
from .penalties import AbstractMethod, check_method, group_shrink, scale_inputs

# ---- the loss ----


def window_loss(
    model: Checked[AbstractDelayModel],
    history: Float[ArrayLike, "lag dim"],
    rate: Float[ArrayLike, "dim"],
    *,
    scaling: Checked[Scaling | None] = None,
) -> Float[Array, "target"]:
    """Return the squared error of the drift on one window, per target: ‖rate − G(history)‖² in
    standardised units, in which predicting the mean rate costs 1 on average.

    This is the square of the paper's (X(t_{k+1}) − X(t_k))/Δ_k − G(Z_k). [`fit`][ndde_jax.fit]
    minimises its mean over windows, weighted by step length, and over draws of the gates. Any other
    function of this signature can replace it, `fit(..., loss=...)`.

    **Arguments:**

    - `model`: any learned model; its units are physical.
    - `history`, `rate`: one row of `Windows.history` and `Windows.increment`, standardised.
    - `scaling`: scaling of that row; by default the model's, that of the windows it was fitted to.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    loss = jax.vmap(lambda z, r: ndde.window_loss(model, z, r))
    print(loss(windows.history, windows.increment).mean(axis=0))  # about 0
    ```
    """
    check_model(model)
    check_kind(scaling, Scaling | None, "scaling", "a Scaling, such as windows.scaling")
    s = model.scaling if scaling is None else scaling
    history, rate = jnp.asarray(history), jnp.asarray(rate)
    drift = model(history * s.scale[None] + s.center[None])
    return (rate - (drift - s.rate_center) / s.rate_scale) ** 2


def risk(model: Checked[AbstractDelayModel], windows: Checked[Windows]) -> Float[Array, "target"]:
    """Return the paper's empirical risk per target: the mean of
    [`window_loss`][ndde_jax.window_loss] over all windows, weighted by step length.

    Pure: supports `jit`, `vmap`, and `grad` with respect to model and windows. Predicting the mean
    rate has risk 1.

    **Raises:** `ValueError` for several systems at once, or a model with other variables or lags.

    ```python
    import equinox as eqx, jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    slope = eqx.filter_grad(lambda w: ndde.risk(model, w).sum())(windows)  # by each number in them
    print(slope.increment.shape)  # (496, 2)
    ```
    """
    check_windows(windows, "risk")
    check_model_matches(windows, model)

    def loss(history: Any, rate: Any):
        return window_loss(model, history, rate, scaling=windows.scaling)

    each = jax.vmap(loss)(windows.history, windows.increment)
    weight = windows.weight
    total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
    return jnp.sum(jnp.where(weight[:, None] > 0, weight[:, None] * each, 0), axis=0) / total


class MeanLoss(eqx.Module):
    """The mean of a loss over windows and draws of the gates, for networks that are trained
    together.

    - `function`: a loss of a model, a history and a rate. [`window_loss`][ndde_jax.window_loss]
        itself is computed by batched products.
    - `scaling`, `dt`, `lags`: those of the windows; they make networks a model in physical units.
    """

    function: Callable
    scaling: Scaling
    dt: Float[Array, ""]
    lags: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self,
        layers: tuple[Layer, ...],
        inputs: Float[Array, "input window"],
        outputs: Float[Array, "network window"],
        weight: Float[Array, "window"],
        gates: Float[Array, "network draw input"],
    ) -> Float[Array, "network"]:
        """Return the weighted mean loss of every network; networks are (coefficient, target)."""
        if self.function is window_loss:
            return empirical_risk(layers, inputs, outputs, weight, gates)
        dim = self.scaling.center.shape[0]
        apart = lambda a: a.reshape(-1, dim, *a.shape[1:])  # noqa: E731
        every = jnp.ones((dim, len(self.lags), dim), bool)
        histories = inputs.T.reshape(-1, len(self.lags), dim)

        def system(layers, gates, rates):
            """Return the losses of one coefficient, `[draw window target]`."""

            def drawn(gates):
                drift = MaskedDrift(scale_inputs(layers, gates))
                model = NeuralDDE(drift, every, self.scaling, self.dt, self.lags)
                return jax.vmap(lambda history, rate: self._checked_loss(model, history, rate))(
                    histories, rates.T
                )

            return jax.vmap(drawn)(jnp.swapaxes(gates, 0, 1))

        each = jax.vmap(system)(jax.tree.map(apart, layers), apart(gates), apart(outputs))
        if each.shape[3:] != (dim,):
            raise ValueError(
                f"loss must return one number per target, [target] = ({dim},), for one window; got "
                f"shape {each.shape[3:]}."
            )
        total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
        mean = jnp.sum(weight[None, None, :, None] * each, axis=(1, 2))
        return mean.reshape(-1) / (gates.shape[1] * total)

    def _checked_loss(self, model: NeuralDDE, history: Array, rate: Array) -> Any:
        """Return the loss of one window; raise if it is not of numbers."""
        loss = self.function(model, history, rate)
        if not isinstance(loss, jax.Array | np.ndarray | np.number | float | int):
            raise argument_error(
                "loss", "a function that returns one number per target, [target]", loss
            )
        return loss


def empirical_risk(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    outputs: Float[Array, "network window"],
    weight: Float[Array, "window"],
    gates: Float[Array, "network draw input"],
) -> Float[Array, "network"]:
    """Return the weighted mean squared error of every network, averaged over draws of its gates.

    The paper's empirical risk Σ_k Δ_k ‖(X_{k+1} − X_k)/Δ_k − G(Z_k)‖², per target, in standardised
    units, with weights Δ_k normalised to mean 1: predicting a constant has risk 1.
    """
    residual = apply_layers(layers, inputs, gates) - outputs[:, None, :]
    total = jnp.maximum(jnp.sum(weight), jnp.finfo(weight.dtype).tiny)
    return jnp.sum(weight[None, None, :] * residual**2, axis=(1, 2)) / (gates.shape[1] * total)


def gradient_penalty(
    layers: tuple[Layer, ...],
    inputs: Float[Array, "input window"],
    gates: Float[Array, "network draw input"],
    risk: Float[Array, "network"],
    coefficient: Float[Array, ""],
    variant: str,
    n_networks: int,
) -> Float[Array, "network"]:
    """Return a penalty that keeps the drift from varying faster than the data support.

    - `"jacobian"`: coefficient × mean ‖∂G_j/∂z‖² on standardised data. Entries of the Jacobian are
        of order 1, so coefficients between 1e-5 and 1e-2 make sense.
    - `"prediction"`: the squared gradient of the loss with respect to the *predictions* instead,
        all draws, windows and networks together. The loss is the mean over these, so its penalty
        equals the loss times 4 / (draws · batch · networks): the paper's coefficients of 100 to
        10000 amount to a rescaling. For reproduction only.
    """
    if variant == "jacobian":
        return coefficient * squared_input_gradient(layers, inputs, gates)
    factor = 4 / (gates.shape[1] * inputs.shape[1] * n_networks)
    return coefficient * factor * risk


# ---- training ----

# Largest number of inputs for which "auto" means Newton. A warm start that fits many collinear
# inputs to convergence entrenches the wrong ones: on networks of noisy delayed units with 18 inputs
# it lowers the AUROC of gates by a tenth, with 3 inputs it raises it by two hundredths.
NEWTON_WARMUP_INPUTS = 8
# Refining costs n_windows · (8 n_inputs)² operations per target and step.
NEWTON_REFINE_INPUTS = 40
# The variants of the gradient penalty, see `gradient_penalty`.
VARIANTS = ("jacobian", "prediction")


class Status(eqx.Enumeration):
    """The status at the end of a fit."""

    converged = "converged: the objective stopped improving"
    stopped = "stopped at the step limit"
    diverged = "diverged: the objective became infinite or not a number"
    refused = "refused: a variable is constant or there are too few valid windows"


class FitConfig(Settings):
    """The settings of training; numbers are array leaves (sweep them with `vmap`), the rest is
    static.

    The defaults are the library's best recipe; [`FitConfig.paper`][ndde_jax.FitConfig.paper] gives
    the paper's.

    **Arguments:**

    - `learning_rate`, `gate_learning_rate`: Adam rates for networks and gates. By default 1e-3 for
        networks that start from a Newton warm-up, else 5e-3. Gates have their own, much larger
        rate: with a shared rate they barely move before the networks have adapted to them.
    - `gradient_penalty`, `gradient_penalty_variant`: see `gradient_penalty` in the source of
        `fit/_fit.py`; `None`, the default, is 0.
    - `warmup`: `"newton"` starts the gates from networks fitted to all inputs by
        [Levenberg–Marquardt](https://doi.org/10.1162/neco.1992.4.3.415) (`newton_steps` of them);
        `"adam"` from `warmup_steps` penalty-free Adam steps, as in the paper; `"auto"` is
        `"newton"` up to 8 inputs, `"adam"` beyond.
    - `max_steps`: largest number of Adam steps in the sparsifying phase, in whole epochs of
        `epoch_steps`.
    - `patience`: the phase ends once the smoothed penalised objective has not improved for this
        many steps. `None` always takes `max_steps`, which makes `fit` reverse-differentiable.
    - `refine`: once the mask is frozen, train the networks further with `"newton"`, with `"adam"`
        (`refine_steps`, cosine decay) or not at all (`"none"`); `"auto"` is `"newton"` up to 40
        inputs, `"adam"` beyond.
    - `batch_size`: windows per step, drawn with replacement.
    - `epoch_steps`: steps between two evaluations of the stopping rule, one entry of `losses`.
    - `smoothing`, `improvement`: the stopping rule uses a running mean of the objective over
        epochs, in which the past has weight 0.7. Only a decrease by a thousandth or more counts,
        since smaller ones are minibatch noise. With 0 and 0 every epoch is compared with the best
        one before it.
    - `scores`: what ranks the edges: the method's score averaged over the sparsifying phase
        (`"phase"`) or at the end of training (`"end"`, as in the paper).
    - `width`, `depth`: hidden units per layer and hidden layers of the networks.
    """

    learning_rate: Float[Array, ""] | None = number("learning_rate", None, least=0, finite=False)
    gate_learning_rate: Float[Array, ""] = number("gate_learning_rate", 0.1, least=0, finite=False)
    gradient_penalty: Float[Array, ""] | None = number(
        "gradient_penalty", None, least=0, finite=False
    )
    gradient_penalty_variant: Checked[str] = setting("jacobian", check_choice, options=VARIANTS)
    warmup: Checked[str] = setting("auto", check_choice, options=("auto", "newton", "adam"))
    warmup_steps: Checked[int] = setting(1000, check_whole, least=0)
    max_steps: Checked[int] = setting(2000, check_whole)
    patience: Checked[int | None] = eqx.field(static=True, default=1000)
    refine: Checked[str] = setting("auto", check_choice, options=("auto", "newton", "adam", "none"))
    refine_steps: Checked[int] = setting(1000, check_whole, least=0)
    newton_steps: Checked[int] = setting(40, check_whole)
    batch_size: Checked[int] = setting(128, check_whole)
    epoch_steps: Checked[int] = setting(50, check_whole)
    smoothing: Float[Array, ""] = number("smoothing", 0.7, least=0, below=1)
    improvement: Float[Array, ""] = number("improvement", 1e-3, least=0, below=1)
    scores: Checked[str] = setting("phase", check_choice, options=("phase", "end"))
    width: Checked[int] = setting(8, check_whole)
    depth: Checked[int] = setting(2, check_whole)

    def __check_init__(self):
        if self.patience is not None:
            check_whole(self.patience, "patience")

    @classmethod
    def paper(cls, **changes) -> "FitConfig":
        """Return the paper's recipe: one Adam at 1e-3 for everything, 100 warm-up steps, a stop
        after 200 steps that do not lower the penalised objective of their batch, scores at that
        point, gradient penalty 100, batches of 128, networks of two layers of 8. `changes` override
        single settings.

        These are the settings of its first benchmark, except that the 200 steps after the mask is
        frozen come from its second, which for L0-NDDE has neither warm-up nor gradient penalty. The
        paper does not specify the limit of 10000 steps, the cosine schedule of the last steps, that
        an iteration is one batch, or which gradient is penalised: here that of the loss with
        respect to the predictions, a rescaling of the loss (see `gradient_penalty_variant`).
        """
        settings = dict(
            learning_rate=1e-3,
            gate_learning_rate=1e-3,
            gradient_penalty=100.0,
            gradient_penalty_variant="prediction",
            warmup="adam",
            warmup_steps=100,
            max_steps=10000,
            patience=200,
            epoch_steps=1,
            smoothing=0.0,
            improvement=0.0,
            scores="end",
            refine="adam",
            refine_steps=200,
        )
        return cls(**(settings | changes))


class FitResult(eqx.Module):
    """A fitted drift and the record of its fit. The status is data: failed fits raise no error.

    - `model`: [`NeuralDDE`][ndde_jax.models.NeuralDDE].
    - `scores`: score of every input in [0, 1], `[target lag source]`, see
        [`edge_scores`][ndde_jax.edge_scores]; NaN if the fit failed.
    - `path_masks`: inputs open at the end of training at each coefficient of the method's path; the
        model's own coefficient comes first.
    - `risk`: standardised mean squared error of the final model per target; predicting the mean
        rate has risk 1.
    - `losses`: smoothed penalised objective, summed over targets, at the end of each epoch of
        `config.epoch_steps` steps; NaN after the last.
    - `steps`: gradient steps over all phases (Newton steps count as one).
    - `status`: [`Status`][ndde_jax.Status].
    """

    model: NeuralDDE
    scores: Float[Array, "target lag source"]
    path_masks: Bool[Array, "coefficient target lag source"]
    risk: Float[Array, "target"]
    losses: Float[Array, "epoch"]
    steps: Int[Array, ""]
    status: Status

    @property
    def outcome(self) -> str:
        """The first word of the status of a single fit: converged, stopped, diverged or refused."""
        return Status[self.status].split()[0].rstrip(":")  # type: ignore[misc]


def fit(
    method: Checked[AbstractMethod],
    windows: Checked[Windows],
    config: Checked[FitConfig | None] = None,
    *,
    key: Checked[PRNGKeyArray],
    loss: Checked[Callable] = window_loss,
) -> FitResult:
    """Fit a sparse drift to lagged windows.

    Pure. Compiled once per combination of shapes and static settings; windows are padded to a few
    lengths. `jit` and `vmap` over windows, keys and all numbers in `method` and `config` agree with
    one-by-one fits. Under `grad` set `FitConfig(patience=None)`.

    **Arguments:**

    - `method`: the method that selects the inputs, e.g. [`L0NDDE`][ndde_jax.L0NDDE].
    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows], one system.
    - `config`: [`FitConfig`][ndde_jax.FitConfig]; its defaults if omitted.
    - `key`: random key of initial weights, minibatches and gates.
    - `loss`: the loss of one window, a pure function with the signature of
        [`window_loss`][ndde_jax.window_loss], the default. It maps a model in physical units and
        one row of `windows.history` and `windows.increment` to one number per target, and may be
        robust, weighted or physics-informed. Its mean over windows, weighted by step length, and
        over draws of the gates is minimised. The numbers in a callable `eqx.Module` may be swept.
        With any other loss Adam trains all phases, unless `config` has `warmup="newton"`, which
        then starts with least squares. `FitResult.risk` remains the mean squared error.

    **Returns:** [`FitResult`][ndde_jax.FitResult].

    **Raises:** `ValueError` if `windows` is a batch (use `vmap` or
    [`fit_many`][ndde_jax.fit_many]), for a loss that returns another shape, and for settings that
    require squared errors together with another loss.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    result = ndde.fit(ndde.L0NDDE(), windows, ndde.FitConfig(max_steps=500), key=jax.random.key(0))
    print(result.status, ndde.window_graph(result)[:, :, 0])

    def absolute(model, history, rate):
        return abs(ndde.window_loss(model, history, rate)) ** 0.5

    ndde.fit(ndde.L0NDDE(), windows, ndde.FitConfig(max_steps=500), loss=absolute,
             key=jax.random.key(0))
    ```
    """
    check_method(method)
    check_windows(windows, "fit", "use jax.vmap or fit_many for several")
    check_config(config, FitConfig)
    key = check_key(key)
    config = FitConfig() if config is None else config
    config = _for_loss(config, loss)
    drop_programs_if_many(method, windows, config, key)
    length = padded_length(len(windows.valid))
    if length > len(windows.valid) and not is_traced(windows):
        windows = pad_windows(windows, length)
    result = _fit(method, windows, config, key, loss)
    if config.patience is None:
        return result
    # JAX raises such an error for a loop, but in reverse mode these results come first.
    return nondifferentiable_backward(
        result,
        msg="the number of steps of fit depends on the data, so it has no reverse-mode "
        "derivative (grad); use FitConfig(patience=None), or forward mode (jvp).",
    )


def _for_loss(config: FitConfig, loss: Any) -> FitConfig:
    """Return the settings for a loss; raise for those that require squared errors with another."""
    if not callable(loss) or isinstance(loss, type):
        raise argument_error("loss", "a function such as ndde_jax.window_loss", loss)
    try:
        inspect.signature(loss).bind(None, None, None)
    except TypeError:
        raise ValueError(
            "loss must be a function of (model, history, rate), like ndde_jax.window_loss; got one "
            f"of {inspect.signature(loss)}."
        ) from None
    except ValueError:  # a built-in function that does not tell
        pass
    if loss is window_loss:
        return config
    if config.refine == "newton":
        raise ValueError(
            'refine="newton" minimises squared errors, whatever the loss; with a loss of your own '
            'use refine="adam" or "none".'
        )
    if config.gradient_penalty is not None and config.gradient_penalty_variant == "prediction":
        raise ValueError(
            'gradient_penalty_variant="prediction" is derived for squared errors; with a loss of '
            'your own use "jacobian".'
        )
    named = {name: getattr(config, name) for name in ("warmup", "refine")}
    named = {name: "adam" if value == "auto" else value for name, value in named.items()}
    return dataclasses.replace(config, **named)


def _fit(method, windows, config, key, loss=window_loss):
    """Run a fit as separate programs, so that the two Newton fits, which take longest to compile,
    share one.
    """
    n_inputs = windows.dim * windows.n_lags
    warmup = _phase(config.warmup, n_inputs <= NEWTON_WARMUP_INPUTS)
    refine = _phase(config.refine, n_inputs <= NEWTON_REFINE_INPUTS)
    if config.learning_rate is None:
        rate = np.asarray(1e-3 if warmup == "newton" else 5e-3, windows.history.dtype)
        config = eqx.tree_at(lambda c: c.learning_rate, config, rate, is_leaf=lambda x: x is None)
    data, dtype = FlatData(windows), windows.history.dtype
    mean_loss = MeanLoss(loss, windows.scaling, windows.dt, windows.lags)
    sizes = (n_inputs, data.dim, config.batch_size)
    n_networks, steps = data.dim, 0
    if warmup == "adam":
        # A Newton fit starts the networks of all coefficients; otherwise each has its own start.
        n_networks *= len(eqx.filter_eval_shape(method.coefficients, *sizes))
    init_key, train_key, refine_key = jr.split(key, 3)
    size = dict(width=config.width, depth=config.depth, dtype=dtype)
    initial = layers = init_layers(n_networks, n_inputs, key=init_key, **size)
    if warmup == "newton":
        layers = _newton(initial, data, data.allowed, config.newton_steps)
        steps = config.newton_steps
    networks = (layers, initial, warmup, train_key)
    found = _sparsified(method, config, mean_loss, data, *networks)
    layers = found.layers
    if refine == "newton":
        layers = _newton(layers, data, found.mask, config.newton_steps)
        steps += config.newton_steps
    elif refine == "adam" and config.refine_steps > 0:
        layers = _refined(config, mean_loss, data, found.mask, layers, refine_key)
        steps += config.refine_steps
    mask, layers, more = _finalized(data, found, layers, steps)
    model = NeuralDDE(MaskedDrift(layers), mask, windows.scaling, windows.dt, windows.lags)
    return FitResult(model=model, **more)


def _phase(asked: str, few: bool) -> str:
    """Return the training method, given whether the inputs are few."""
    return ("newton" if few else "adam") if asked == "auto" else asked


class _Sparsified(eqx.Module):
    """The result of the sparsifying phase."""

    layers: tuple[Layer, ...]
    mask: Bool[Array, "target input"]
    masks: Bool[Array, "coefficient target input"]
    scores: Float[Array, "target input"]
    losses: Float[Array, "epoch"]
    steps: Int[Array, ""]
    converged: Bool[Array, ""]
    healthy: Bool[Array, ""]


@eqx.filter_jit
def _sparsified(method, config, mean_loss, data, layers, initial, warmup: str, key) -> _Sparsified:
    dtype, (dim, n_inputs) = data.inputs.dtype, data.allowed.shape
    coefficients = method.coefficients(n_inputs, dim, config.batch_size).astype(dtype)
    n_coefficients = coefficients.shape[0]
    warmup_steps = config.warmup_steps
    if warmup == "newton":
        layers, initial = jax.tree.map(
            lambda leaf: jnp.tile(leaf, (n_coefficients,) + (1,) * (leaf.ndim - 1)),
            (layers, initial),
        )
        warmup_steps = 0

    known = PriorMasks(data, n_coefficients)
    # Columns of disallowed inputs stay at zero, so that no penalty on weights counts them.
    allowed = known.allowed.astype(dtype)
    layers, initial = scale_inputs(layers, allowed), scale_inputs(initial, allowed)
    coefficient = jnp.repeat(coefficients, dim)
    given = (config, mean_loss, data, known, coefficient, warmup_steps)
    train = sparsify(method, *given, layers, initial, key)
    layers, selector = train.params
    waited = train.step - train.best_step
    converged = False if config.patience is None else waited >= config.patience

    # Averaged over the phase too: at prices that close all gates, the order of closing still ranks
    # them.
    n_active = jnp.maximum(train.epoch - warmup_steps // epoch_length(config), 1)
    scores = train.scores / n_active.astype(dtype)
    if config.scores == "end":
        scores = known.decide(method.scores(selector, layers), 1)
    # The first coefficient is the model's own.
    masks = known.decide(method.mask(selector, layers), True)
    frozen = method.freeze(selector, layers)
    first = jnp.where(known.required[:, None], layers[0][0], frozen[0][0])
    layers = ((first, frozen[0][1]), *frozen[1:])
    masks = masks.reshape(n_coefficients, dim, n_inputs)
    return _Sparsified(
        layers=jax.tree.map(lambda leaf: leaf[:dim], layers),
        mask=masks[0],
        masks=masks,
        scores=scores.reshape(n_coefficients, dim, n_inputs).mean(axis=0),
        losses=train.losses,
        steps=train.step,
        converged=jnp.asarray(converged),
        healthy=jnp.isfinite(train.smoothed),
    )


@eqx.filter_jit
def _refined(config, mean_loss, data: FlatData, mask, layers, key):
    return refine_weights(config, mean_loss, data, mask.astype(data.inputs.dtype), layers, key)


@eqx.filter_jit
def _finalized(data: FlatData, found: _Sparsified, layers, steps):
    """Return the final mask and weights, and all other parts of a result."""
    gates = found.mask.astype(data.inputs.dtype)[:, None]
    risk = empirical_risk(layers, data.inputs.T, data.outputs.T, data.weight, gates)
    layers = jax.tree.map(lambda a: jnp.where(data.refused, jnp.nan, a), layers)
    failed = ~(jnp.all(jnp.isfinite(risk)) & found.healthy)
    status = Status.where(found.converged, Status.converged, Status.stopped)
    status = Status.where(failed, Status.diverged, status)
    status = Status.where(data.refused, Status.refused, status)
    failed = failed | data.refused
    n_coefficients, dim, n_inputs = found.masks.shape
    lagged = (dim, n_inputs // dim, dim)
    more = dict(
        scores=jnp.where(failed, jnp.nan, found.scores.reshape(lagged)),
        path_masks=found.masks.reshape(n_coefficients, *lagged),
        risk=jnp.where(failed, jnp.nan, risk),
        losses=found.losses,
        steps=found.steps + steps,
        status=status,
    )
    return found.mask.reshape(lagged), layers, more


@eqx.filter_jit
def _newton(layers, data: FlatData, mask, n_steps: int) -> tuple[Layer, ...]:
    """Train each target's network by Levenberg–Marquardt, one after the other: batching matrices of
    these sizes in lock-step gains nothing on CPU.
    """

    def one(args):
        network, output, open_inputs = args
        return fit_network(
            network, data.inputs * open_inputs[None], output, data.weight, n_iterations=n_steps
        ).network

    return jax.lax.map(one, (layers, data.outputs.T, mask.astype(data.inputs.dtype)))


def fit_many(
    method: Checked[AbstractMethod],
    windows: Checked[Sequence],
    config: Checked[FitConfig | None] = None,
    *,
    key: Checked[PRNGKeyArray],
    directory: Checked[str | os.PathLike | None] = None,
    executor: Checked[Executor | None] = None,
    workers: Checked[int | None] = None,
    progress: bool = True,
) -> list[FitResult]:
    """Fit many systems, of any lengths, dimensions, lags and schemes.

    Element i equals `fit(method, windows[i], config, key=jr.fold_in(key, i))`, whatever the other
    systems are. Systems are padded to a few common lengths, each compiled once, and run in
    parallel, one per worker. On CPU this beats a `vmap` batch, which waits for its slowest member
    at every epoch. A system that diverges or has nothing to fit has the corresponding
    [`Status`][ndde_jax.Status].

    **Arguments:**

    - `method`, `config`: as for [`fit`][ndde_jax.fit], the same for all systems.
    - `windows`: one [`Windows`][ndde_jax.Windows] per system.
    - `key`: system i uses `jr.fold_in(key, i)`.
    - `directory`: where to store finished results, one file per system, written as soon as it is
        done. A later call with the same arguments reads them and fits only the missing systems. A
        result is recognised by its data, method, configuration and key, never by its index alone.
        Damaged files are recomputed. If the disk is full, all results are still returned, and a
        warning says which could not be stored.
    - `executor`: where systems are computed, as for [`discover_many`][ndde_jax.discover_many]; by
        default threads of this process. Results are the same.
    - `workers`: systems fitted at a time; by default the number of CPU cores, or of JAX devices if
        larger. Workers take turns on the available devices. With an executor, the number of systems
        submitted to it and not yet finished, by default 512.
    - `progress`: show a progress bar.

    **Returns:** a list of [`FitResult`][ndde_jax.FitResult], in order.

    **Raises:** `ValueError` if an element of `windows` is not the windows of one system.
        `BrokenExecutor` if processes of an executor die; finished results are kept.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    systems = [np.stack([np.sin(w * t), np.cos(w * t)], 1) for w in (1.0, 1.5)]
    windows = [ndde.lagged_windows(x, dt=0.1, scheme="central4") for x in systems]
    config = ndde.FitConfig(max_steps=200)
    results = ndde.fit_many(ndde.L0NDDE(), windows, config, key=jax.random.key(0), progress=False)
    print([str(result.status) for result in results])
    ```
    """
    check_method(method)
    check_config(config, FitConfig)
    check_concrete("fit_many", (windows, config, method), "Use fit, which may be traced.")
    if isinstance(windows, Windows | Mapping | str) or not isinstance(windows, Iterable):
        raise ValueError(
            f"windows must be a list with one Windows per system; got {short_repr(windows)}."
        )
    key, windows = check_key(key), list(windows)
    config = FitConfig() if config is None else config
    for i, w in enumerate(windows):
        if not isinstance(w, Windows) or w.history.ndim != 3:
            raise ValueError(
                f"windows[{i}] must be the Windows of one system; got "
                f"{getattr(getattr(w, 'history', w), 'shape', type(w).__name__)}. Use "
                "unstack_windows for a stacked batch."
            )

    def one(i: int, device) -> FitResult:
        # As in `fit`, but before the windows are on their device.
        item = pad_windows(windows[i], padded_length(len(windows[i].valid)))
        return fit(method, *jax.device_put((item, config), device), key=jr.fold_in(key, i))

    def given(i: int) -> tuple:
        return method, windows[i], config, jr.fold_in(key, i)

    return run_many(
        one,
        len(windows),
        kept=None if directory is None else Kept(directory),
        name=lambda i: fingerprint(given(i)),
        executor=executor,
        parcel=lambda i: (_fit_system, sendable(given(i))),
        workers=workers,
        progress=progress,
        stacklevel=2,
    )


def _fit_system(arguments: tuple) -> FitResult:
    """Fit one system; the function that an executor calls."""
    method, windows, config, key = arguments
    return fit(method, windows, config, key=key)


def edge_scores(result: Checked[FitResult]) -> Scores:
    """Return the score of each edge in a fit, `[source target lag]`, in [0, 1].

    For [`L0NDDE`][ndde_jax.L0NDDE] this is the probability that the gate is open, averaged over the
    prices on the method's path and over the sparsifying phase: the longer an edge survives, and the
    higher the price it survives, the higher it ranks. NaN if the fit diverged or was refused. This
    is no effect size; for effect sizes see [`signal_strengths`][ndde_jax.signal_strengths].
    """
    _check(result)
    return to_graph_axes(result.scores)


def window_graph(result: Checked[FitResult]) -> Graph:
    """Return the edges that the fitted model uses, `[source target lag]`."""
    _check(result)
    return to_graph_axes(result.model.mask)


def _check(result: Any) -> None:
    check_kind(result, FitResult, "result", "what fit returns", "For a discovery: found.scores.")


# Adam's decay rates of the mean and of the mean square of gradients.
ADAM_MEMORY = (0.9, 0.999)
# Added under the root of Adam's second moment, whose gradient is infinite at 0: weights of a column
# that stays closed never move, and NaN times zero would reach the derivative of every setting.
LEAST_SQUARE = 1e-30


class Train(eqx.Module):
    """The state of the sparsifying loop."""

    params: tuple
    optimiser: Any
    step: Int[Array, ""]
    epoch: Int[Array, ""]
    smoothed: Float[Array, ""]
    best: Float[Array, ""]
    best_step: Int[Array, ""]
    losses: Float[Array, "epoch"]
    scores: Float[Array, "network input"]


class PriorMasks(eqx.Module):
    """The prior knowledge of every network, `[network input]`."""

    allowed: Bool[Array, "network input"]
    required: Bool[Array, "network input"]

    def __init__(self, data: FlatData, repeats: int):
        self.allowed = jnp.tile(data.allowed, (repeats, 1))
        self.required = jnp.tile(data.required, (repeats, 1))

    def decide(self, values, certain):
        """Return `values` per input, or per draw and input, where the data decide; `certain` where
        an input is required, and 0 where it is not allowed.
        """
        shape = (values.shape[0],) + (1,) * (values.ndim - 2) + values.shape[-1:]
        allowed, required = self.allowed.reshape(shape), self.required.reshape(shape)
        nothing = jnp.zeros_like(values)
        return jnp.where(
            required, jnp.asarray(certain, values.dtype), jnp.where(allowed, values, nothing)
        )


def epoch_length(config) -> int:
    """Return the number of steps between two evaluations of the stopping rule."""
    return min(config.epoch_steps, config.max_steps)


def _steepness(config: FitConfig, layers, inputs, gates, risk, dim: int) -> Any:
    """Return the gradient penalty of the settings, 0 if none."""
    if config.gradient_penalty is None:
        return 0.0
    coefficient = config.gradient_penalty.astype(risk.dtype)
    variant = config.gradient_penalty_variant
    return gradient_penalty(layers, inputs, gates, risk, coefficient, variant, dim)


def sparsify(
    method, config, mean_loss, data, known, coefficient, warmup_steps, layers, initial, key
) -> Train:
    """Train networks and gates by Adam until the smoothed penalised objective stops improving.

    `initial` holds the random networks, `layers` the same or already fitted ones. Warm-up steps
    beyond whole epochs come first, so that there are exactly `warmup_steps` of them.
    """
    dtype = data.inputs.dtype
    n_networks, n_inputs = coefficient.shape[0], data.inputs.shape[1]
    repeats = n_networks // data.dim
    per_epoch = epoch_length(config)
    n_warmup, first_steps = divmod(warmup_steps, per_epoch)
    n_epochs = n_warmup + config.max_steps // per_epoch
    # Imported here, since most imports of the library do not need this tenth of a second.
    import chex
    import optax

    chex.assert_tree_shape_prefix((layers, initial), (n_networks,))
    chex.assert_shape([known.allowed, known.required], (n_networks, n_inputs))
    adam = optax.scale_by_adam(*ADAM_MEMORY, eps_root=LEAST_SQUARE)
    rates = (config.learning_rate.astype(dtype), config.gate_learning_rate.astype(dtype))
    memory, least = config.smoothing.astype(dtype), 1 - config.improvement.astype(dtype)

    def objective(params, inputs, outputs, weight, noise, active):
        layers, selector = params
        # Gates stay open during warm-up.
        gates = known.decide(jnp.where(active, method.gates(selector, noise), 1), 1)
        chex.assert_shape(gates, (n_networks, None, n_inputs))
        layers = _where(active, method.gated_layers(selector, layers, noise), layers)
        risk = mean_loss(layers, inputs, jnp.tile(outputs, (repeats, 1)), weight, gates)
        paying = scale_inputs(layers, 1 - known.required.astype(dtype))
        charge = method.penalty(selector, paying, coefficient)
        # A single number would broadcast to all networks without an error.
        chex.assert_shape([risk, charge], (n_networks,))
        loss = risk + jnp.where(active, charge, 0)
        loss = loss + _steepness(config, layers, inputs, gates, risk, data.dim)
        # The model's own coefficient comes first and alone decides when to stop.
        return jnp.sum(loss), jnp.sum(loss[: data.dim])

    def step(carry, batch):
        params, optimiser, active = carry
        gradient, own = jax.grad(objective, has_aux=True)(params, *batch, active)
        update, optimiser = _adam_step(adam, gradient, optimiser)
        layers, selector = params
        moved = jax.tree.map(lambda p, u: p - rates[0] * u, layers, update[0])
        shrinkage = method.proximal_shrinkage(selector, coefficient)
        if shrinkage is not None:
            shrinkage = jnp.where(known.required, 0, active * shrinkage)
            moved = _proximal_step(layers, moved, optimiser, rates[0], shrinkage)
        layers = moved
        selector = jax.tree.map(lambda p, u: p - rates[1] * active * u, selector, update[1])
        return ((layers, method.project(selector)), optimiser, active), own

    def run(carry, number, n_steps: int):
        batch_key, noise_key = jr.split(jr.fold_in(key, number))
        batches = data.minibatches(batch_key, n_steps, config.batch_size)
        noise = method.noise(noise_key, n_steps, layers)
        return jax.lax.scan(step, carry, (*batches, noise))

    def epoch(state: Train) -> Train:
        active = (state.epoch >= n_warmup).astype(dtype)
        started = method.begin(state.params[1], state.params[0], initial)[::-1]
        params = _where(state.epoch == n_warmup, started, state.params)
        carry = (params, state.optimiser, active)
        (params, optimiser, _), own = run(carry, state.epoch, per_epoch)
        step_count = state.step + per_epoch
        loss = jnp.mean(own)
        # The objective jumps when the penalty sets in, so the average restarts there.
        fresh = (state.epoch == 0) | (state.epoch == n_warmup)
        smoothed = jnp.where(fresh, loss, memory * state.smoothed + (1 - memory) * loss)
        improved = (smoothed < least * state.best) | (active == 0) | fresh
        return Train(
            params,
            optimiser,
            step_count,
            state.epoch + 1,
            smoothed,
            jnp.where(improved, smoothed, state.best),
            jnp.where(improved, step_count, state.best_step),
            state.losses.at[state.epoch].set(smoothed),
            state.scores + active * known.decide(method.scores(params[1], params[0]), 1),
        )

    params = (layers, method.init(layers))
    optimiser = adam.init(params)
    if first_steps:
        carry = (params, optimiser, jnp.zeros((), dtype))
        (params, optimiser, _), _ = run(carry, n_epochs, first_steps)
    start = Train(
        params,
        optimiser,
        jnp.asarray(first_steps, jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.asarray(0, dtype),
        jnp.asarray(jnp.inf, dtype),
        jnp.zeros((), jnp.int32),
        jnp.full((n_epochs,), jnp.nan, dtype),
        jnp.zeros((n_networks, n_inputs), dtype),
    )
    if config.patience is None:
        body = jax.checkpoint(lambda state, _: (epoch(state), None))
        return jax.lax.scan(body, start, None, length=n_epochs)[0]

    def unfinished(state: Train):
        waiting = state.step - state.best_step < config.patience
        healthy = jnp.isfinite(state.smoothed) & ~data.refused
        return (state.epoch < n_epochs) & waiting & healthy

    return jax.lax.while_loop(unfinished, epoch, start)


def _adam_step(adam, gradient, optimiser):
    """Take an Optax step, which adds integers to floats; JAX's strict promotion refuses that."""
    with jax.numpy_dtype_promotion("standard"):
        return adam.update(gradient, optimiser)


def _where(condition, true, false):
    return jax.tree.map(lambda t, f: jnp.where(condition, t, f), true, false)


def _proximal_step(layers, moved, optimiser, rate, shrinkage) -> tuple[Layer, ...]:
    """Step the first layer with one step size per column, and shrink its columns in the same
    metric: with Adam's elementwise step sizes the two would not balance at a minimum.
    """
    count = optimiser.count.astype(rate.dtype)
    mean = optimiser.mu[0][0][0] / (1 - ADAM_MEMORY[0] ** count)
    square = optimiser.nu[0][0][0] / (1 - ADAM_MEMORY[1] ** count)
    step = rate / (jnp.sqrt(jnp.mean(square, axis=1) + LEAST_SQUARE) + 1e-8)
    weight = layers[0][0] - step[:, None] * mean
    return group_shrink(((weight, moved[0][1]), *moved[1:]), step * shrinkage)


def refine_weights(
    config, mean_loss: MeanLoss, data: FlatData, mask, layers, key
) -> tuple[Layer, ...]:
    """Train only the networks, by Adam with a cosine schedule, with inputs fixed by the mask."""
    per_epoch = min(config.epoch_steps, config.refine_steps)
    n_epochs, last_steps = divmod(config.refine_steps, per_epoch)
    import optax

    schedule = optax.cosine_decay_schedule(1.0, config.refine_steps, alpha=0.01)
    adam = optax.scale_by_adam(*ADAM_MEMORY, eps_root=LEAST_SQUARE)
    rate = config.learning_rate.astype(data.inputs.dtype)
    gates = mask[:, None]

    def objective(layers, inputs, outputs, weight):
        risk = mean_loss(layers, inputs, outputs, weight, gates)
        return jnp.sum(risk + _steepness(config, layers, inputs, gates, risk, data.dim))

    def step(carry, batch):
        layers, optimiser, count = carry
        update, optimiser = _adam_step(adam, jax.grad(objective)(layers, *batch), optimiser)
        with jax.numpy_dtype_promotion("standard"):
            factor = rate * schedule(count).astype(rate.dtype)
        layers = jax.tree.map(lambda p, u: p - factor * u, layers, update)
        return (layers, optimiser, count + 1), None

    def epoch(carry, key, n_steps=per_epoch):
        batches = data.minibatches(key, n_steps, config.batch_size)
        return jax.lax.scan(step, carry, batches)[0], None

    carry = (layers, adam.init(layers), jnp.zeros((), jnp.int32))
    carry = jax.lax.scan(jax.checkpoint(epoch), carry, jr.split(key, n_epochs))[0]
    if last_steps:
        carry = epoch(carry, jr.fold_in(key, n_epochs), last_steps)[0]
    return carry[0]
