"""The one simulator behind forecasts and interventions: a pure function of arrays.

A step is Heun's, one sampling interval long: it reads the past at the samples only, where it is
known, is of second order, and is the very map that the correction and the noise of the ensemble
were estimated for. Where sampling is too coarse for it, the present is held during a step.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ._basis import Basis
from ._noise import relative_amplitude

# Standard deviations from the mean at which a path is held and counts as diverged.
FAR = 1e3


class Learned(eqx.Module):
    """What a simulator needs to know: drift of every member, noise, and what is far away."""

    model: Any
    basis: Basis
    trust: Float[Array, "target"]
    theta: Float[Array, "member target feature"]
    dt: Float[Array, ""]
    factor: Float[Array, "dim dim"]
    amplitude: Float[Array, "dim 3"]
    center: Float[Array, "dim"]
    scale: Float[Array, "dim"]
    lags: tuple[int, ...] = eqx.field(static=True)
    ahead: bool = eqx.field(static=True, default=True)

    def drift(self, member: Int[Array, "path"], z: Float[Array, "path lag dim"]):
        """Physical rates `[path dim]`."""
        features = self.basis(z)
        extra = jnp.einsum("pf,ptf->pt", features, self.theta[member])
        return self.trust[None] * jax.vmap(self.model)(z) + extra


class Edits(eqx.Module):
    """Changed mechanisms.

    - `at`: lag in samples at which a target reads an input, `[target lag source]`.
    - `cut`: inputs that a target sees at their mean, bool `[target lag source]`.
    - `scaled`, `factor`: inputs whose effect on a target is multiplied.
    """

    at: Int[ArrayLike, "target lag source"]
    cut: Bool[ArrayLike, "target lag source"]
    scaled: Bool[ArrayLike, "edit target lag source"]
    factor: Float[Array, "edit"]


class Change(eqx.Module):
    """What is done to a system, by sample; sample 0 is the present, `[sample dim]`.

    - `held`, `value`: variables that are set. `rule` computes values from (sample, state) instead.
    - `shift`: added to what others see of a variable, and to what is recorded.
    - `active`: whether edits hold during the step that begins at a sample, `[sample]`.
    """

    held: Bool[Array, "sample dim"]
    value: Float[Array, "sample dim"]
    shift: Float[Array, "sample dim"] | None
    active: Bool[Array, "sample"]
    edits: Edits | None
    rule: Callable | None = eqx.field(static=True, default=None)


def no_change(horizon: int, dim: int, dtype) -> Change:
    """Nothing is done."""
    zeros = jnp.zeros((horizon + 1, dim), dtype)
    return Change(zeros > 0, zeros, None, jnp.zeros(horizon + 1, bool), None)


@eqx.filter_jit
def simulate(
    learned: Learned,
    change: Change,
    history: Float[ArrayLike, "path past dim"],
    member: Int[Array, "path"],
    noise: Float[ArrayLike, "step path dim"],
) -> tuple[Float[Array, "path step dim"], Bool[Array, "path"]]:
    """Paths after the present, and which of them diverged; `noise` is of unit covariance."""

    def hold(k, state):
        value = jnp.broadcast_to(change.value[k][None], state.shape)
        if change.rule is not None:
            value = change.rule(k, state, value)
        return jnp.where(change.held[k][None], value, state)

    # Where a variable is taken hold of it jumps. A step that begins there reads what it is set to,
    # one that ends there what it was before: else it would be held half a step too early.
    taken = change.held & ~jnp.pad(change.held, ((1, 0), (0, 0)))[:-1]

    def before(k, free, state):
        return jnp.where(taken[k][None], free, state)

    history, noise = jnp.asarray(history), jnp.asarray(noise)
    left = history
    offsets = jnp.zeros_like(history)
    if change.shift is not None:
        offsets = offsets.at[:, -1].add(change.shift[0][None])
    history = history.at[:, -1].set(hold(0, history[:, -1]))
    limit = FAR * learned.scale[None]

    def step(carry, given):
        buffer, left, offset, alive = carry
        k, draw = given
        now = buffer[:, -1]
        first = _drift(learned, change, k, member, buffer, offset)
        free = now + learned.dt * first if learned.ahead else now
        guess = hold(k + 1, free)
        ahead = None if change.shift is None else change.shift[k + 1]
        buffer, offset = _push(buffer, guess), _pushed(offset, ahead)
        left = _push(left, before(k + 1, free, guess))
        second = _drift(learned, change, k, member, left, offset)
        z = (now - learned.center[None]) / learned.scale[None]
        kick = (draw @ learned.factor.T) * relative_amplitude(learned.amplitude, z, jnp)
        new = now + learned.dt / 2 * (first + second) + kick
        bound = jnp.clip(new - learned.center[None], -limit, limit) + learned.center[None]
        inside = jnp.all(jnp.abs(new - learned.center[None]) <= limit, axis=1)
        bound = jnp.where(jnp.isfinite(bound), bound, learned.center[None] + limit)
        new = hold(k + 1, bound)
        buffer = buffer.at[:, -1].set(new)
        left = left.at[:, -1].set(before(k + 1, bound, new))
        seen = new if ahead is None else new + ahead[None]
        return (buffer, left, offset, alive & inside), seen

    steps = jnp.arange(noise.shape[0])
    start = (history, left, offsets, jnp.ones(history.shape[0], bool))
    (*_, alive), paths = jax.lax.scan(step, start, (steps, noise))
    return jnp.moveaxis(paths, 0, 1), ~alive


def _push(buffer, state):
    return jnp.concatenate([buffer[:, 1:], state[:, None]], axis=1)


def _pushed(offset, ahead):
    """Offsets one sample later; unused ones stay."""
    if ahead is None:
        return offset
    return _push(offset, jnp.broadcast_to(ahead[None], offset[:, -1].shape))


def _drift(learned, change, k, member, buffer, offset):
    """Rates with all that is changed."""
    newest = buffer.shape[1] - 1
    if change.edits is None and change.shift is None:
        return learned.drift(member, buffer[:, newest - jnp.asarray(learned.lags)])
    dim, n_lags = buffer.shape[2], len(learned.lags)
    lags = jnp.broadcast_to(jnp.asarray(learned.lags)[:, None], (n_lags, dim))
    source = jnp.arange(dim)[None]
    edits = change.edits

    def rate(target):
        """Of one target, which sees the others shifted and some inputs changed."""

        def of(at, cut):
            z = buffer[:, newest - at, source]
            others = (jnp.arange(dim) != target)[None, None]
            z = z + jnp.where(others, offset[:, newest - at, source], 0)
            z = jnp.where(cut[None], learned.center[None, None], z)
            return learned.drift(member, z)[:, target]

        plain = of(lags, jnp.zeros(lags.shape, bool))
        if edits is None:
            return plain
        at, cut = edits.at[target], edits.cut[target]
        base = of(at, cut)

        def scaled(mask, factor):
            # The rate without the input, which is the same as `base` for other targets.
            return (factor - 1) * (base - of(at, cut | mask[target]))

        total = base
        if edits.scaled.shape[0]:
            total = base + jnp.sum(jax.vmap(scaled)(edits.scaled, edits.factor), axis=0)
        return jnp.where(change.active[k], total, plain)

    return jax.vmap(rate, out_axes=1)(jnp.arange(dim))
