"""The two gradient loops of a fit: sparsify until the objective plateaus, then refine."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int

from ..models._networks import Layer
from ..windows._flat import FlatData
from ._loss import MeanLoss, gradient_penalty
from .penalties._base import group_shrink, scale_inputs

# Adam's decay rates of the mean and of the mean square of gradients.
ADAM_MEMORY = (0.9, 0.999)


class Train(eqx.Module):
    """The state that the sparsifying loop carries."""

    params: tuple
    optimiser: Any
    step: Int[Array, ""]
    epoch: Int[Array, ""]
    smoothed: Float[Array, ""]
    best: Float[Array, ""]
    best_step: Int[Array, ""]
    losses: Float[Array, "epoch"]
    scores: Float[Array, "network input"]


class Known(eqx.Module):
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


def sparsify(
    method,
    config,
    mean_loss: MeanLoss,
    data,
    known,
    coefficient,
    warmup_steps,
    layers,
    initial,
    selector,
    key,
) -> Train:
    """Train networks and gates by Adam until the smoothed penalised objective stops improving.

    `initial` are the random networks; `layers` the same, or fitted already. What the warm-up has
    beyond whole epochs comes before them, so that it takes as many steps as asked for.
    """
    dtype = data.inputs.dtype
    n_networks, n_inputs = coefficient.shape[0], data.inputs.shape[1]
    repeats = n_networks // data.dim
    per_epoch = epoch_length(config)
    n_warmup, first_steps = divmod(warmup_steps, per_epoch)
    n_epochs = n_warmup + config.max_steps // per_epoch
    # A tenth of a second that most imports of the library need not spend.
    import chex
    import optax

    chex.assert_tree_shape_prefix((layers, initial), (n_networks,))
    chex.assert_shape([known.allowed, known.required], (n_networks, n_inputs))
    adam = optax.scale_by_adam(*ADAM_MEMORY)
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
        # One number for all networks would be charged to each of them, and say nothing.
        chex.assert_shape([risk, charge], (n_networks,))
        loss = risk + jnp.where(active, charge, 0)
        if config.gradient_penalty is not None:
            loss = loss + gradient_penalty(
                layers,
                inputs,
                gates,
                risk,
                config.gradient_penalty.astype(dtype),
                config.gradient_penalty_variant,
                data.dim,
            )
        # The model's own coefficient comes first, and it alone decides when to stop.
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

    def epoch(state: Train) -> Train:
        batch_key, noise_key = jr.split(jr.fold_in(key, state.epoch))
        batches = data.minibatches(batch_key, per_epoch, config.batch_size)
        noise = method.noise(noise_key, per_epoch, layers)
        active = (state.epoch >= n_warmup).astype(dtype)
        started = method.begin(state.params[1], state.params[0], initial)[::-1]
        params = _where(state.epoch == n_warmup, started, state.params)
        (params, optimiser, _), own = jax.lax.scan(
            step, (params, state.optimiser, active), (*batches, noise)
        )
        step_count = state.step + per_epoch
        loss = jnp.mean(own)
        # The objective jumps when the penalty sets in, so the average starts afresh there.
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

    params = (layers, selector)
    optimiser = adam.init(params)
    if first_steps:
        batch_key, noise_key = jr.split(jr.fold_in(key, n_epochs))
        batches = data.minibatches(batch_key, first_steps, config.batch_size)
        noise = method.noise(noise_key, first_steps, layers)
        carry = (params, optimiser, jnp.zeros((), dtype))
        (params, optimiser, _), _ = jax.lax.scan(step, carry, (*batches, noise))
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
    """Take an Optax step; Optax adds integers to floats, which strict promotion in JAX refuses."""
    with jax.numpy_dtype_promotion("standard"):
        return adam.update(gradient, optimiser)


def _where(condition, true, false):
    return jax.tree.map(lambda t, f: jnp.where(condition, t, f), true, false)


def _proximal_step(layers, moved, optimiser, rate, shrinkage) -> tuple[Layer, ...]:
    """Return the first layer's step with one step size per column, and the shrinkage of columns in
    the same metric: with Adam's elementwise step sizes the two would not balance at a minimum.
    """
    count = optimiser.count.astype(rate.dtype)
    mean = optimiser.mu[0][0][0] / (1 - ADAM_MEMORY[0] ** count)
    square = optimiser.nu[0][0][0] / (1 - ADAM_MEMORY[1] ** count)
    step = rate / (jnp.sqrt(jnp.mean(square, axis=1)) + 1e-8)
    weight = layers[0][0] - step[:, None] * mean
    return group_shrink(((weight, moved[0][1]), *moved[1:]), step * shrinkage)


def refine_weights(
    config, mean_loss: MeanLoss, data: FlatData, mask, layers, key
) -> tuple[Layer, ...]:
    """Train the networks alone by Adam with a cosine schedule, inputs fixed by the mask."""
    per_epoch = min(config.epoch_steps, config.refine_steps)
    n_epochs, last_steps = divmod(config.refine_steps, per_epoch)
    import optax

    schedule = optax.cosine_decay_schedule(1.0, config.refine_steps, alpha=0.01)
    adam = optax.scale_by_adam(*ADAM_MEMORY)
    rate = config.learning_rate.astype(data.inputs.dtype)
    gates = mask[:, None]

    def objective(layers, inputs, outputs, weight):
        risk = mean_loss(layers, inputs, outputs, weight, gates)
        if config.gradient_penalty is not None:
            risk = risk + gradient_penalty(
                layers,
                inputs,
                gates,
                risk,
                config.gradient_penalty.astype(risk.dtype),
                config.gradient_penalty_variant,
                data.dim,
            )
        return jnp.sum(risk)

    def step(carry, batch):
        layers, optimiser, count = carry
        update, optimiser = _adam_step(adam, jax.grad(objective)(layers, *batch), optimiser)
        with jax.numpy_dtype_promotion("standard"):
            factor = rate * schedule(count).astype(rate.dtype)
        return (
            jax.tree.map(lambda p, u: p - factor * u, layers, update),
            optimiser,
            count + 1,
        ), None

    def epoch(carry, key, n_steps=per_epoch):
        batches = data.minibatches(key, n_steps, config.batch_size)
        return jax.lax.scan(step, carry, batches)[0], None

    carry = (layers, adam.init(layers), jnp.zeros((), jnp.int32))
    carry = jax.lax.scan(jax.checkpoint(epoch), carry, jr.split(key, n_epochs))[0]
    if last_steps:
        carry = epoch(carry, jr.fold_in(key, n_epochs), last_steps)[0]
    return carry[0]
