"""The one simulator behind forecasts and interventions: a pure function of arrays.

A step is one sampling interval long, and the very map that the correction and the noise of the
ensemble were estimated for. Heun's reads the past at the samples only, where it is known, and is of
second order; "flow" is of fourth order in parts of an interval, and reads a past that is
interpolated; "hold" keeps the present during a step.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .._checks import is_traced
from .._types import namespace_of, to_jax
from ._ensemble import Ensemble
from ._half_sampling import Basis
from ._noise import relative_amplitude
from ._one_step import NODES, nodes, stages, weights

# Standard deviations from the mean at which a path is held and counts as diverged.
FAR = 1e3
# Steps of one part of a long run, and steps of single paths from which on a bar is shown.
PART, MANY = 10_000, 10_000_000


class Learned(eqx.Module):
    """The inputs of a simulator: every member's drift, noise, centre and scale of the data."""

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
    step: str = eqx.field(static=True, default="heun")

    def drift(self, member: Int[Array, "path"], z: Float[Array, "path lag dim"]):
        """Return physical rates `[path dim]`."""
        features = self.basis(z)
        extra = jnp.einsum("pf,ptf->pt", features, self.theta[member])
        return self.trust[None] * jax.vmap(self.model)(z) + extra


class Edits(eqx.Module):
    """The changed mechanisms.

    - `at`: lag in samples at which a target reads an input, `[target lag source]`.
    - `cut`: inputs that a target sees at their mean, bool `[target lag source]`.
    - `scaled`, `factor`: inputs whose effect on a target is multiplied.
    """

    at: Int[ArrayLike, "target lag source"]
    cut: Bool[ArrayLike, "target lag source"]
    scaled: Bool[ArrayLike, "edit target lag source"]
    factor: Float[Array, "edit"]


class Change(eqx.Module):
    """The change made to a system, by sample; sample 0 is the present, `[sample dim]`. In NumPy
    where nothing is traced.

    - `held`, `value`: variables that are set. `rule` computes values from (sample, state) instead.
    - `shift`: added to what others see of a variable, and to what is recorded.
    - `active`: whether edits hold during the step that begins at a sample, `[sample]`.
    """

    held: Bool[Array | np.ndarray, "sample dim"]
    value: Float[Array | np.ndarray, "sample dim"]
    shift: Float[Array | np.ndarray, "sample dim"] | None
    active: Bool[Array | np.ndarray, "sample"]
    edits: Edits | None
    rule: Callable | None = eqx.field(static=True, default=None)


def no_change(horizon: int, dim: int, dtype: Any = float) -> Change:
    """Return the change that does nothing."""
    held, active = np.zeros((horizon + 1, dim), bool), np.zeros(horizon + 1, bool)
    return Change(held, np.zeros(held.shape, dtype), None, active, None)


def with_column(table: Any, column: int, new: Any) -> Any:
    """Return a copy whose column holds `new`; in NumPy, unless something is traced."""
    if namespace_of((table, new)) is jnp:
        return jnp.asarray(table).at[:, column].set(new)
    table = np.array(table)
    table[:, column] = new
    return table


def simulate(
    learned: Learned,
    change: Change,
    history: Float[ArrayLike, "path past dim"],
    member: Int[ArrayLike, "path"],
    noise: Float[ArrayLike, "step path dim"],
) -> tuple[Float[Array, "path step dim"], Bool[Array, "path"]]:
    """Return paths after the present, and which of them diverged; `noise` has unit covariance."""
    paths, (_, alive) = _advance(learned, change, history, None, 0, member, noise)
    return paths, ~alive


@eqx.filter_jit
def _advance(learned, change, history, carry, begin, member, noise):
    """Return the next part of all paths, and its end; from `history` on if `carry` is None."""

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

    if carry is None:
        history = jnp.asarray(history)
        offset = jnp.zeros_like(history)
        if change.shift is not None:
            offset = offset.at[:, -1].add(change.shift[0][None])
        values = history.at[:, -1].set(hold(0, history[:, -1]))
        jumps = jnp.zeros(history.shape[1:], bool).at[-1].set(taken[0])
        carry = (Past(values, history, offset, jumps), jnp.ones(history.shape[0], bool))
    limit = FAR * learned.scale[None]

    def step(carry, given):
        past, alive = carry
        k, draw = given
        now = past.values[:, -1]
        first = _drift(learned, change, k, member, _at_samples(past))
        free = now if learned.step == "hold" else now + learned.dt * first
        guess = hold(k + 1, free)
        ahead = None if change.shift is None else change.shift[k + 1]
        if learned.step == "flow":
            # What is held on both sides of a step is known within it.
            held = (change.held[k] & change.held[k + 1])[None]
            new = _flow(learned, change, k, member, past, held, guess)
            past = past.push(guess, free, ahead, taken[k + 1])
        else:
            # What others see shifted is shifted from a sample on, not before.
            offset = past.offset
            past = past.push(guess, before(k + 1, free, guess), ahead, taken[k + 1])
            end = _at_samples(Past(past.left, past.left, offset, past.jumps))
            second = _drift(learned, change, k, member, end)
            new = now + learned.dt / 2 * (first + second)
        z = (now - learned.center[None]) / learned.scale[None]
        new = new + (draw @ learned.factor.T) * relative_amplitude(learned.amplitude, z, jnp)
        away = new - learned.center[None]
        inside = jnp.all(jnp.abs(away) <= limit, axis=1)
        bound = jnp.where(jnp.isfinite(away), jnp.clip(away, -limit, limit), limit)
        bound = bound + learned.center[None]
        new = hold(k + 1, bound)
        past = past.settle(new, before(k + 1, bound, new))
        seen = new if ahead is None else new + ahead[None]
        return (past, alive & inside), seen

    noise = jnp.asarray(noise)
    steps = begin + jnp.arange(noise.shape[0])
    carry, paths = jax.lax.scan(step, carry, (steps, noise))
    return jnp.moveaxis(paths, 0, 1), carry


def make_learned(found: Any, ensemble: Ensemble) -> Learned:
    """Return the inputs of the simulator, in the precision of the model."""
    dtype = found.model.dt.dtype
    cast = lambda a: to_jax(a, dtype if np.asarray(a).dtype.kind == "f" else None)  # noqa: E731
    noise, scaling = ensemble.noise, found.model.scaling
    return Learned(
        model=found.model,
        basis=jax.tree.map(cast, ensemble.basis),
        trust=cast(ensemble.trust),
        theta=cast(ensemble.theta),
        dt=cast(float(found.dt)),
        factor=cast(noise.factor),
        amplitude=cast(noise.amplitude),
        center=cast(scaling.center),
        scale=cast(scaling.scale),
        lags=tuple(found.lags),
        step=ensemble.step,
    )


def learned_paths(
    found: Any,
    ensemble: Ensemble,
    change: Change,
    past: Float[np.ndarray, "origin time dim"],
    paths: int,
    key: Any,
) -> tuple[Any, Any]:
    """Return paths of all members from the end of every past on, as they would be measured but for
    treatments, `[origin*path step dim]`, and which diverged; equal keys give equal noise.

    Long runs are made in parts, after a word on what they take, with a bar. Paths are NumPy unless
    something is traced.
    """
    learned, noise = make_learned(found, ensemble), ensemble.noise
    dtype, steps = learned.dt.dtype, len(change.active) - 1
    noise_key, error_key = jr.split(key)
    start = to_jax(np.repeat(past, paths, axis=0), dtype)
    member = to_jax(np.tile(np.arange(paths) % ensemble.resamples, len(past)))
    rows, error = to_jax(noise.draws, dtype), to_jax(noise.error, dtype)
    change = jax.tree.map(lambda a: to_jax(a, dtype) if a.dtype.kind == "f" else to_jax(a), change)
    parts: list[Any] = []
    carry: Any = None
    with _bar(steps, start.shape[0], start.shape[2]) as bar:
        for begin in range(0, steps, PART):
            n = min(PART, steps - begin)
            keys = [jr.fold_in(k, begin) if begin else k for k in (noise_key, error_key)]
            drawn = _drawn(keys[0], rows, (n, len(start)))
            part, carry = _advance(learned, change, start, carry, begin, member, drawn)
            if np.any(noise.error > 0):
                part = _with_error(part, error, keys[1], change.held[begin + 1 : begin + n + 1])
            parts.append(part if is_traced(part) else np.asarray(part, np.float64))
            bar.update(n)
    xp = namespace_of(parts)
    return (parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=1)), ~carry[1]


def check_memory(steps: int, paths: int, dim: int) -> None:
    """Raise an error for paths that do not fit in this machine's memory.

    **Raises:** `ValueError` that says how much they take.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # the system does not tell
        return
    if 16 * steps * paths * dim > memory:
        raise ValueError(
            f"{_size(steps, paths, dim)}, and as much again on the way; this machine has "
            f"{memory / 1e9:.3g} GB. Ask for fewer paths or a shorter horizon."
        )


def _size(steps: int, paths: int, dim: int) -> str:
    return f"{steps:,} steps of {paths:,} paths take {8e-9 * steps * paths * dim:.3g} GB"


def _bar(steps: int, paths: int, dim: int) -> Any:
    """Return a progress bar, after a note on the work ahead where that is long; else a hidden
    one.
    """
    from tqdm.auto import tqdm

    if many := steps * paths > MANY:
        said = f"{_size(steps, paths, dim)}; the bar says how long they will take."
        tqdm.write(said, file=sys.stderr)
    return tqdm(total=steps, unit="step", unit_scale=True, disable=not many)


# One program for each number of paths, instead of one for every operation.
@partial(jax.jit, static_argnames="shape")
def _drawn(key, rows, shape):
    return rows[jr.randint(key, shape, 0, len(rows))]


@jax.jit
def _with_error(run, error, key, held):
    # What is set is known. Drawn as a row of numbers, which compiles in half the time.
    error = error[None, None] * jr.normal(key, (run.size,), run.dtype).reshape(run.shape)
    return run + jnp.where(held[None], 0, error)


class Past(eqx.Module):
    """The last samples of every path, newest last.

    - `values`: `[path past dim]`; `left`: the same just before, where a variable jumps.
    - `offset`: added to what others see.
    - `jumps`: which samples a variable jumps at, `[past dim]`.
    """

    values: Float[Array, "path past dim"]
    left: Float[Array, "path past dim"]
    offset: Float[Array, "path past dim"]
    jumps: Bool[Array, "past dim"]

    def push(self, state, left, ahead, jumps) -> "Past":
        """Return the past one sample later; offsets that are not used stay."""
        offset = self.offset
        if ahead is not None:
            offset = _push(offset, jnp.broadcast_to(ahead[None], state.shape))
        jumps = jnp.concatenate([self.jumps[1:], jumps[None]])
        return Past(_push(self.values, state), _push(self.left, left), offset, jumps)

    def settle(self, state, left) -> "Past":
        """Return the past with another present."""
        values, lefts = self.values.at[:, -1].set(state), self.left.at[:, -1].set(left)
        return Past(values, lefts, self.offset, self.jumps)


def _push(buffer, state):
    return jnp.concatenate([buffer[:, 1:], state[:, None]], axis=1)


def _at_samples(past: Past) -> Callable:
    """Return states and offsets at lags `[lag source]` from the newest sample."""
    values = past.values
    newest, source = values.shape[1] - 1, jnp.arange(values.shape[2])[None]
    return lambda at: (values[:, newest - at, source], past.offset[:, newest - at, source])


def _within(past: Past, s, state) -> Callable:
    """Return states and offsets a share `s` of a step after the newest sample, where the present is
    `state`.
    """
    newest, source = past.values.shape[1] - 1, jnp.arange(past.values.shape[2])[None]
    count = min(NODES, newest + 1)

    def look(at):
        offset = past.offset[:, newest - at, source]
        here = jnp.broadcast_to(state[:, None], offset.shape)
        if newest == 0:
            return here, offset
        place = jnp.minimum(newest - at, newest - 1)
        first = nodes(place, newest, jnp, count)
        shares = weights(place.astype(s.dtype), first.astype(s.dtype), s, count)
        cubic = sum(w[None] * past.values[:, first + a, source] for a, w in enumerate(shares))
        jump = jnp.stack([past.jumps[first + a, source] for a in range(1, count)]).any(axis=0)
        low, high = past.values[:, place, source], past.left[:, place + 1, source]
        before = jnp.where(jump[None], (1 - s) * low + s * high, cubic)
        return jnp.where((at == 0)[None], here, before), offset

    return look


def _flow(learned, change, k, member, past: Past, held, end):
    """Return the end of a step of fourth order; `held` variables go straight to `end`."""
    now = past.values[:, -1]

    def stage(carry, given):
        begin, state, gone = carry
        s, on, weight, last = given
        state = jnp.where(held, now + s * (end - now), state)
        rate = _drift(learned, change, k, member, _within(past, s, state))
        gone = gone + learned.dt * weight * rate
        begin = jnp.where(last > 0, now + gone, begin)
        return (begin, begin + learned.dt * on * rate, gone), None

    table = jnp.asarray(stages(), now.dtype)
    (reached, _, _), _ = jax.lax.scan(stage, (now, now, jnp.zeros_like(now)), tuple(table.T))
    return reached


def _drift(learned, change, k, member, look):
    """Return rates with all changes made; `look` gives states and offsets at the lags."""
    dim, n_lags = learned.center.shape[0], len(learned.lags)
    lags = jnp.broadcast_to(jnp.asarray(learned.lags)[:, None], (n_lags, dim))
    edits = change.edits
    if change.edits is None and change.shift is None:
        return learned.drift(member, look(lags)[0])

    def rate(target):
        """Return the rate of one target, which reads the others shifted and some inputs changed."""

        def of(at, cut):
            z, offset = look(at)
            others = (jnp.arange(dim) != target)[None, None]
            z = z + jnp.where(others, offset, 0)
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
