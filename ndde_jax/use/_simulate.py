"""Paths of an ensemble, with and without changes, by the solver of the library.

A step is one sampling interval long and is the map for which the correction and the noise of the
ensemble were estimated. The solver treats it as an Euler step, whose drift is the mean rate over
the step. Heun's step reads the past only at samples, where it is known, and is of second order.
"flow" is of fourth order in parts of an interval, and reads an interpolated past. "map" reads what
is known at the start of a step.
"""

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .._checks import is_traced
from .._memory import machine_memory
from .._types import namespace_of, to_jax
from ..simulate._problem import lagrange_weights
from ..simulate._solve import solve_sdde
from ._ensemble import Ensemble, Member, in_precision, relative_amplitude
from ._one_step import NODES, mean_rate, nodes

# Standard deviations from the mean at which a path is held and counts as diverged.
FAR = 1e3
# Steps in one part of a long run, and steps times paths above which a progress bar is shown.
PART, MANY = 10_000, 10_000_000


class Edits(eqx.Module):
    """The changed mechanisms.

    - `at`: lag in samples at which a target reads an input, `[target lag source]`.
    - `cut`: inputs that a target reads at their mean, bool `[target lag source]`.
    - `scaled`, `factor`: inputs whose effect on a target is multiplied by a factor.
    """

    at: Int[np.ndarray, "target lag source"]
    cut: Bool[np.ndarray, "target lag source"]
    scaled: Bool[np.ndarray, "edit target lag source"]
    factor: Float[Array, "edit"]


class Change(eqx.Module):
    """The change made to a system, by sample, `[sample dim]`; sample 0 is the present. In NumPy
    unless something is traced.

    - `held`, `value`: variables that are set, and to what. `rule` computes values from (sample,
        state) instead.
    - `shift`: added to what other variables read of a variable, and to what is recorded.
    - `active`: whether edits hold during the step that begins at a sample, `[sample]`.
    """

    held: Bool[Array | np.ndarray, "sample dim"]
    value: Float[Array | np.ndarray, "sample dim"]
    shift: Float[Array | np.ndarray, "sample dim"] | None
    active: Bool[Array | np.ndarray, "sample"]
    edits: Edits | None
    rule: Callable | None = eqx.field(static=True, default=None)

    @property
    def taken(self) -> Bool[Array, "sample dim"]:
        """A mask of where the setting of a variable starts, so that it jumps."""
        return jnp.asarray(self.held) & ~jnp.pad(self.held, ((1, 0), (0, 0)))[:-1]

    def setting(self, i: int, when: Any, value: Any = None) -> "Change":
        """Return the change that also sets a variable at some samples, `[sample]`, to values
        `[sample]`, or to those of the rule if None.
        """
        held, values = with_column(self.held, i, when | self.held[:, i]), self.value
        if value is not None:
            xp = namespace_of((value, values))
            values = with_column(values, i, xp.where(when, value, values[:, i]))
        return dataclasses.replace(self, held=held, value=values)

    def hold(self, k: Any, state: Float[Array, "path dim"]) -> Float[Array, "path dim"]:
        """Return states of sample `k`, which may be traced, with variables set; unchanged before
        sample 0.
        """
        at = jnp.maximum(k, 0)
        value = jnp.broadcast_to(self.value[at][None], state.shape)
        if self.rule is not None:
            value = self.rule(at, state, value)
        return jnp.where((self.held[at] & (k >= 0))[None], value, state)


def no_change(horizon: int, dim: int) -> Change:
    """Return a change that does nothing."""
    held = np.zeros((horizon + 1, dim), bool)
    return Change(held, held.astype(float), None, held.any(axis=1), None)


def with_column(table: Any, column: int, new: Any) -> Any:
    """Return a copy whose column holds `new`; in NumPy unless something is traced."""
    if namespace_of((table, new)) is jnp:
        return jnp.asarray(table).at[:, column].set(new)
    table = np.array(table)
    table[:, column] = new
    return table


def samples_read(lags: Any, step: str, newest: int) -> tuple[int, ...]:
    """Return the samples that a step of the simulator reads, counted back from the present.

    - `newest`: number of past samples before the present.
    """
    lags = sorted({int(lag) for lag in lags})
    read = {0, *lags, *(lag - 1 for lag in lags if lag > 0)}
    if step == "flow" and newest:
        count = min(NODES, newest + 1)
        for lag in lags:
            first = int(nodes(min(newest - lag, newest - 1), newest, np, count))
            read |= {newest - first - a for a in range(count)}
    return tuple(sorted(read))


class Past(NamedTuple):
    """The past of a step, for every path, at the samples that it reads.

    - `seen`: states; `left`: the states just before a jump, where a variable jumps.
    - `shift`: shifts of what other variables read; `jumps`: where a variable jumps.
    """

    seen: Float[Array, "path back dim"]
    left: Float[Array, "path back dim"]
    shift: Float[Array, "back dim"]
    jumps: Bool[Array, "back dim"]


class Steps(eqx.Module):
    """The steps of many paths, as a solver equation: its drift is the mean rate of a step.

    The solver keeps states as a step returns them. Values that are set, shifted or out of bounds
    are changed when they are read. A step that ends where the setting of a variable starts then
    reads its value before, and a step that begins there the set value. Otherwise the variable would
    be set half a step too early.

    - `members`: the drift of each path.
    - `factor`, `amplitude`: parameters of the noise of one step.
    - `begin`: sample at time 0 of the solver.
    - `back`: samples that a step reads, counted back; `newest`: number of past samples before the
        present.
    """

    members: Member
    factor: Float[Array, "dim dim"]
    amplitude: Float[Array, "dim 3"]
    change: Change
    begin: Int[Array, ""]
    step: str = eqx.field(static=True)
    back: tuple[int, ...] = eqx.field(static=True)
    newest: int = eqx.field(static=True)

    def __call__(self, t: Any, x: Float[Array, "path dim"], lagged: Any, args: Any = None) -> Any:
        """Return the change over a step, as `solve_sdde` requires; time in samples."""
        k = self.sample(t)
        past = self.past(k, jnp.concatenate([x[None], lagged]))
        return past.seen[:, 0] - x + self.members.dt * self.rate(k, past)

    def noise(self, t: Any, x: Any, lagged: Any, args: Any = None) -> Float[Array, "path dim dim"]:
        """Return a root of the covariance of a step's noise."""
        scaling = self.members.scaling
        z = (self.seen(self.sample(t), x) - scaling.center[None]) / scaling.scale[None]
        return relative_amplitude(self.amplitude, z, jnp)[:, :, None] * self.factor[None]

    def sample(self, t: Any) -> Int[Array, ""]:
        """Return the sample number at a time of the solver."""
        return self.begin + jnp.round(t).astype(int)

    def limits(self) -> tuple[Float[Array, "dim"], Float[Array, "dim"]]:
        """Return the states at which paths are held."""
        center, far = self.members.scaling.center, FAR * self.members.scaling.scale
        return center - far, center + far

    def seen(self, k: Any, state: Float[Array, "path dim"]) -> Float[Array, "path dim"]:
        """Return states of one sample as they are read: held within bounds, or set."""
        low, high = self.limits()
        bound = jnp.clip(jnp.where(jnp.isfinite(state), state, high[None]), low[None], high[None])
        return self.change.hold(k, bound)

    def past(self, k: Any, states: Float[Array, "back path dim"]) -> Past:
        """Return the past of a step that begins at sample k."""
        samples, change = k - jnp.asarray(self.back), self.change
        known, at = (samples >= 0)[:, None], jnp.maximum(samples, 0)
        seen = jax.vmap(self.seen)(samples, states)
        jumps = jnp.asarray(change.taken)[at] & known
        shift = jnp.zeros(jumps.shape, states.dtype)
        if change.shift is not None:
            shift = jnp.where(known, jnp.asarray(change.shift)[at], shift)
        left = jnp.where(jumps[:, None], states, seen)
        return Past(jnp.moveaxis(seen, 1, 0), jnp.moveaxis(left, 1, 0), shift, jumps)

    def look(self, past: Past, s: Any, state: Any, lag: Any) -> tuple[Any, Any]:
        """Return the states of every source at its lags, `[path lag source]`, a share `s` of a step
        after its start, where the present is `state`; and the shifts of what other variables read,
        `[lag source]`, which hold from a sample on, not before.
        """
        place = np.zeros(self.back[-1] + 1, int)
        place[list(self.back)] = np.arange(len(self.back))

        def get(values, back):
            return values[..., jnp.asarray(place)[back], jnp.arange(values.shape[-1])[None]]

        here, newest = state[:, None], self.newest
        if newest == 0:
            return jnp.broadcast_to(here, (len(state), *lag.shape)), get(past.shift, lag)
        before = get(past.seen, lag)
        if self.step != "map":
            before = (1 - s) * before + s * get(past.left, jnp.maximum(lag - 1, 0))
        if self.step == "flow":
            count, first_of_two = min(NODES, newest + 1), newest - jnp.maximum(lag, 1)
            first = nodes(first_of_two, newest, jnp, count)
            shares = lagrange_weights((first_of_two - first).astype(state.dtype) + s, count)
            around = [newest - first - a for a in range(count)]
            cubic = sum(w[None] * get(past.seen, b) for w, b in zip(shares, around, strict=True))
            jump = jnp.stack([get(past.jumps, b) for b in around[1:]]).any(axis=0)
            before = jnp.where(jump[None], before, cubic)
        return jnp.where((lag == 0)[None], here, before), get(past.shift, lag)

    def rate(self, k: Any, past: Past) -> Float[Array, "path dim"]:
        """Return the mean rate over a step that begins at sample k."""
        now, change, dt = past.seen[:, 0], self.change, self.members.dt
        at_start = partial(self.look, past, 0.0, now)
        if self.step == "map":
            return self._drift(k, at_start)
        ahead = now
        if self.step == "flow" and change.rule is not None:
            ahead = now + dt * self._drift(k, at_start)
        # Variables set at both ends of a step are known within it.
        held, fixed = (change.held[k] & change.held[k + 1])[None], change.hold(k + 1, ahead)

        def rate(s, state):
            end = fixed if self.step == "flow" else change.hold(k + 1, state)
            state = jnp.where(held, now + s * (end - now), state)
            return self._drift(k, partial(self.look, past, s, state))

        return mean_rate(rate, now, dt, self.step, jnp)

    def _drift(self, k: Any, look: Callable) -> Float[Array, "path dim"]:
        """Return rates with all changes applied; `look` gives states and shifts of each source at
        its lags.
        """
        dim, center = self.factor.shape[0], self.members.scaling.center
        lags = jnp.asarray(self.members.lags)
        lags, edits = jnp.broadcast_to(lags[:, None], (len(lags), dim)), self.change.edits
        if edits is None and self.change.shift is None:
            return self.members.each(look(lags)[0])

        def rate(target):
            """Return the rate of a target with shifted sources and changed inputs."""
            others = (jnp.arange(dim) != target)[None]

            def of(at, cut):
                z, shift = look(at)
                z = z + jnp.where(others, shift, 0)[None]
                z = jnp.where(cut[None], center[None, None], z)
                return self.members.each(z)[:, target]

            plain = of(lags, jnp.zeros(lags.shape, bool))
            if edits is None:
                return plain
            at, cut, scaled = jnp.asarray(edits.at), jnp.asarray(edits.cut), edits.scaled
            at, cut = at[target], cut[target]
            total = base = of(at, cut)
            if len(scaled):
                # The rates without each input, which equal `base` for other targets.
                without = jax.vmap(lambda mask: of(at, cut | mask[target]))(jnp.asarray(scaled))
                more = (edits.factor - 1)[:, None] * (base[None] - without)
                total = base + jnp.sum(more, axis=0)
            return jnp.where(self.change.active[k], total, plain)

        return jax.vmap(rate, out_axes=1)(jnp.arange(dim))


def simulate(
    steps: Steps, history: Float[ArrayLike, "past path dim"], noise: Float[Array, "step path dim"]
) -> tuple[Float[Array, "step path dim"], Bool[Array, "path"], Float[Array, "past path dim"]]:
    """Return paths after the present, which of them diverged, and the past for the next part.

    - `history`: states as the solver keeps them.
    - `noise`: noise of unit covariance.
    """
    delays = np.asarray(steps.back[1:], float)
    given = dict(history=history, sigma=steps.noise, increments=noise)
    path = solve_sdde(steps, delays=delays, dt=1.0, n_steps=len(noise), **given)
    return _recorded(steps, history, path.ys)


@eqx.filter_jit
def _recorded(steps: Steps, history: Any, ys: Any) -> tuple[Any, Any, Any]:
    low, high = steps.limits()
    inside = (ys[1:] >= low[None, None]) & (ys[1:] <= high[None, None])
    diverged = ~jnp.all(inside, axis=(0, 2))
    k = steps.begin + 1 + jnp.arange(len(ys) - 1)
    paths = jax.vmap(steps.seen)(k, ys[1:])
    if steps.change.shift is not None:
        paths = paths + jnp.asarray(steps.change.shift)[k][:, None]
    # The solver requires finite states.
    kept = jnp.where(jnp.isfinite(ys[1:]), ys[1:], high[None, None])
    past = jnp.concatenate([jnp.asarray(history), kept])[-len(history) :]
    return paths, diverged, past


def make_steps(found: Any, ensemble: Ensemble, change: Change, which: Any, past: int) -> Steps:
    """Return the steps of paths of the members `which`, which start from `past` samples."""
    model, noise = found.model, ensemble.noise
    edits = change.edits
    lags = found.lags if edits is None else np.unique([*found.lags, *edits.at.ravel()])
    members, step = ensemble.members(model, which), ensemble.step
    factor, amplitude = (in_precision(model, a) for a in (noise.factor, noise.amplitude))
    back = samples_read(lags, step, past - 1)
    return Steps(members, factor, amplitude, change, jnp.asarray(0), step, back, past - 1)


def learned_paths(
    found: Any,
    ensemble: Ensemble,
    change: Change,
    past: Float[np.ndarray, "origin time dim"],
    paths: int,
    key: Any,
) -> tuple[Any, Any]:
    """Return paths of all members from the end of every past on, with measurement error but before
    treatments are undone, `[origin*path step dim]`, and which diverged; equal keys give equal
    noise.

    Long runs are simulated in parts, with a note on their memory and a progress bar. Paths are
    NumPy unless something is traced.
    """
    cast = partial(in_precision, found.model)
    noise_key, error_key = jr.split(key)
    start = cast(np.moveaxis(np.repeat(past, paths, axis=0), 1, 0))
    which = np.tile(np.arange(paths) % ensemble.resamples, len(past))
    rows, error = cast(ensemble.noise.draws), cast(ensemble.noise.error)
    held, n_steps = change.held, len(change.active) - 1
    dtype = start.dtype
    change = jax.tree.map(lambda a: to_jax(a, dtype) if a.dtype.kind == "f" else a, change)
    steps = make_steps(found, ensemble, change, which, len(start))
    parts: list[Any] = []
    diverged: Any = jnp.zeros(start.shape[1], bool)
    with _bar(n_steps, *start.shape[1:]) as bar:
        for begin in range(0, n_steps, PART):
            n = min(PART, n_steps - begin)
            keys = [jr.fold_in(k, begin) if begin else k for k in (noise_key, error_key)]
            drawn = _drawn(keys[0], rows, (n, start.shape[1]))
            steps = eqx.tree_at(lambda s: s.begin, steps, jnp.asarray(begin))
            part, gone, start = simulate(steps, start, drawn)
            part, diverged = jnp.moveaxis(part, 0, 1), diverged | gone
            if np.any(ensemble.noise.error > 0):
                part = _with_error(part, error, keys[1], held[begin + 1 : begin + n + 1])
            parts.append(part if is_traced(part) else np.asarray(part, np.float64))
            bar.update(n)
    xp = namespace_of(parts)
    return (parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=1)), diverged


def check_memory(steps: int, paths: int, dim: int) -> None:
    """Raise an error for paths that do not fit in this machine's memory.

    **Raises:** `ValueError` that says how much memory they need.
    """
    memory = machine_memory()
    if 16 * steps * paths * dim > memory:
        raise ValueError(
            f"{_size(steps, paths, dim)}, and as much again temporarily; this machine has "
            f"{memory / 1e9:.3g} GB. Use fewer paths or a shorter horizon."
        )


def _size(steps: int, paths: int, dim: int) -> str:
    return f"{steps:,} steps of {paths:,} paths take {8e-9 * steps * paths * dim:.3g} GB"


def _bar(steps: int, paths: int, dim: int) -> Any:
    """Return a progress bar, after a note on the memory, for a long run; else a hidden bar."""
    from tqdm.auto import tqdm

    if many := steps * paths > MANY:
        said = f"{_size(steps, paths, dim)}; the bar shows the remaining time."
        tqdm.write(said, file=sys.stderr)
    return tqdm(total=steps, unit="step", unit_scale=True, disable=not many)


# One program per number of paths, instead of one per operation.
@partial(jax.jit, static_argnames="shape")
def _drawn(key, rows, shape):
    return rows[jr.randint(key, shape, 0, len(rows))]


@jax.jit
def _with_error(run, error, key, held):
    # Set values have no error. Drawn as a flat array, which compiles in half the time.
    error = error[None, None] * jr.normal(key, (run.size,), run.dtype).reshape(run.shape)
    return run + jnp.where(held[None], 0, error)
