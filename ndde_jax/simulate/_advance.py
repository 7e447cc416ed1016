"""The chunk-by-chunk run of a problem: noise, saved states, and loops with and without gradients.

Derivatives are guarded, so that a diverging path does not affect the other paths of a batch.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._checks import is_traced
from .._types import to_jax
from . import _blocks
from ._kinks import divided_length, run_divided
from ._noise import area_key, increments
from ._problem import FunctionHistory, Problem
from ._tableau import Tableau

# Steps between two draws of noise, and between two checkpoints.
CHUNK = 1024
# With shorter blocks, copying the past at each block costs more than the steps of the block.
SHORT_BLOCK = 10
# Growth in the second half of a run above which the steps are tested for stability, and the change
# of the increment between two steps, relative to the increment, that no explicit method resolves.
GROWN, STIFF = 30.0, 1.5
# Runs with fewer states are not tested; in a long run this many early states are inspected.
SHORT_RUN, PROBES = 5, 256
# Parts of a run between two updates of a progress bar.
PARTS = 100


@dataclasses.dataclass(frozen=True)
class Plan:
    """The static settings of a run, with room for `n_steps`.

    A run may end sooner, at a step `end`, so that runs of different lengths share a program.
    """

    tableau: Tableau
    n_steps: int
    save_every: int
    chunk: int
    block: int
    ring: bool
    ring_backward: bool
    first: int  # steps before the first chunk, divided at kinks

    @classmethod
    def of(cls, problem: Problem, tableau: Tableau, n_steps: int, save_every: int) -> "Plan":
        """Return a plan of as few equal chunks as possible, each of as few blocks as possible.

        Steps beyond the end are computed and dropped.
        """
        n_steps, save_every = int(n_steps), int(save_every)
        euler = tableau.order == 1 and problem.breaks is None
        longest = _blocks.block_length(problem)
        first = divided_length(problem, n_steps, save_every)
        chunk = _part_length(max(n_steps - first, 1), CHUNK)
        block = _part_length(chunk, longest)
        chunk = block * -(-chunk // block)
        short = problem.delays.number > 0 and longest < SHORT_BLOCK
        return cls(tableau, n_steps, save_every, chunk, block, euler, euler and short, first)

    @property
    def n_chunks(self) -> int:
        """The number of chunks that cover all steps from `first` on."""
        return -(-(self.n_steps - self.first) // self.chunk)

    @property
    def limit(self) -> int | None:
        """The step after which the state stays constant; None if chunks end with the last step."""
        whole = self.first + self.n_chunks * self.chunk == self.n_steps
        return None if whole else self.n_steps

    @property
    def rows(self) -> int:
        """An upper bound on the number of states that one chunk saves."""
        return -(-self.chunk // self.save_every)


def _part_length(n: int, longest: int) -> int:
    """Return the length of the fewest equal parts of `n` steps, at most `longest` each."""
    return -(-n // -(-n // longest))


class PathStatus(eqx.Enumeration):
    """The status at the end of a simulation."""

    successful = "successful"
    diverged = "diverged: a value is not finite; use a smaller dt, or confine a learned model"
    unstable = (
        "unstable: the path grows because its steps are too long for this drift; use a smaller dt"
    )
    outside = "outside: a delay lies outside delay_bounds, so all values are NaN; widen the bounds"
    crossed = (
        "crossed: the diffusion of a variable depends on another, which Milstein's method "
        "neglects; use diffrax.Euler() or diffrax.EulerHeun()"
    )
    interrupted = "interrupted: the path ends where it was stopped"


class Path(eqx.Module):
    """A simulated path.

    - `ts`: times `[time]`, the start first.
    - `ys`: states `[time *state]`, the initial one first, then every `save_every`-th.
    - `status`: a [`PathStatus`][ndde_jax.simulate.PathStatus].
    """

    ts: Float[Array, "time"]
    ys: Float[Array, "time *state"]
    status: PathStatus


@eqx.filter_jit
def simulate(problem: Problem, noise, plan: Plan, end: Int[Array, ""] | None = None) -> Path:
    """Simulate a run to step `end`, which must be a saved step; all steps of the plan by default.

    The noise is a key, the increments or None. Rows after the end are undefined.
    """
    return _finish(problem, _whole(_convert(problem), noise, end, plan=plan), plan, end)


def cut(path: Path, n: int) -> Path:
    """Return the first `n` rows, if possible without compiling a program for each `n`."""
    if path.ts.shape[0] == n:
        return path
    # Traced values may reach this point through a closure, unseen by earlier checks.
    if jax.default_backend() == "cpu" and not is_traced(path) and not path.ys.committed:
        return Path(to_jax(np.asarray(path.ts)[:n]), to_jax(np.asarray(path.ys)[:n]), path.status)
    return Path(path.ts[:n], path.ys[:n], path.status)


def _finish(problem, ys, plan, end=None):
    """Return the path of the computed states, the initial one first."""
    ts = problem.time(plan.save_every * jnp.arange(ys.shape[0]))
    n = ys.shape[0] - 1 if end is None else end // plan.save_every
    stable = _stable(problem, ys, n, plan)
    status = PathStatus.where(stable, PathStatus.successful, PathStatus.unstable)
    status = PathStatus.where(jnp.all(jnp.isfinite(ys)), status, PathStatus.diverged)
    if "milstein" in problem.rule and callable(problem.sigma):
        crossed = problem.crossed(ys[0]) | problem.crossed(ys[n])
        status = PathStatus.where(crossed, PathStatus.crossed, status)
    out_of_bounds = problem.delays.out_of_bounds
    if out_of_bounds is not None:
        ys = ys + out_of_bounds
        status = PathStatus.where(jnp.isfinite(out_of_bounds), status, PathStatus.outside)
    return Path(ts, ys, status)


finish = eqx.filter_jit(_finish)


def _stable(problem: Problem, ys, n, plan: Plan):
    """Return False for a path that grew, up to row `n`, because its steps are too long.

    The final state then lies along the direction in which the error grows. From one step to the
    next, the increment changes by more than the stability regions of explicit methods allow. Growth
    of the true solution is resolved there.
    """
    if ys.shape[0] < SHORT_RUN:
        return jnp.asarray(True)
    arrays, rest = eqx.partition((ys, problem), eqx.is_array)
    ys, problem = eqx.combine(jax.lax.stop_gradient(arrays), rest)
    last = ys[n]
    half = 1 + n // 2
    early = jnp.arange(min(PROBES, ys.shape[0])) * (1 + half // PROBES)
    axes = tuple(a for a in range(ys.ndim) if a not in range(1, ys.ndim - 1))
    before = jnp.max(jnp.abs(ys[jnp.minimum(early, half - 1)]), axis=axes)
    grown = jnp.max(jnp.abs(last), axis=-1) > GROWN * before
    saved = jnp.round(problem.delays.steps / plan.save_every).astype(int)
    lagged = ys[jnp.maximum(n - saved, 0)]

    def move(y, t):
        by = problem.dt * problem.drift(t, y, lagged, problem.args)
        return y + by, by

    # In a loop, so that the drift is compiled once.
    moves = jax.lax.scan(move, last, problem.time(n * plan.save_every + jnp.arange(2)))[1]
    length = lambda v: jnp.max(jnp.abs(v), axis=-1)  # noqa: E731
    resolved = length(moves[1] - moves[0]) <= STIFF * length(moves[0])
    return jnp.all(~grown | resolved) | (n + 1 < SHORT_RUN)


def _convert(problem: Problem) -> Problem:
    """Return the problem with the closed-over tracers of its functions as explicit arguments.

    A derivative rule may not close over tracers.
    """
    t = jax.ShapeDtypeStruct((), problem.dt.dtype)
    shape = problem.history.shape
    state = jax.ShapeDtypeStruct(shape, t.dtype)
    past = jax.ShapeDtypeStruct((problem.delays.number, *shape), t.dtype)
    at, convert = (t, state, past, problem.args), eqx.filter_closure_convert
    where, new = [lambda p: p.drift], [convert(problem.drift, *at)]
    if isinstance(problem.history, FunctionHistory):
        where.append(lambda p: p.history.function)
        new.append(convert(problem.history.function, t))
    if callable(problem.sigma):
        where.append(lambda p: p.sigma)
        new.append(convert(problem.sigma, *at))
    return eqx.tree_at(lambda p: [w(p) for w in where], problem, new)


@eqx.filter_custom_jvp
def _whole(problem: Problem, noise, end, *, plan: Plan):
    if not plan.ring:
        return _all_chunks(problem, noise, end, plan, ring=False, slopes=False)
    n_rows = plan.n_steps // plan.save_every
    n_chunks = plan.n_chunks if end is None else -(-end // plan.chunk)
    start = _blocks.start_ring(problem)
    return _filled(problem, noise, start, 0, n_chunks, n_rows, plan, end)[1]


@_whole.def_jvp
def _whole_jvp(primals, tangents, *, plan: Plan):
    # The ring is fastest without derivatives; derivatives use blocks, unless these are short.
    moved = tangents[0].delays.steps is not None
    if moved and plan.tableau.stages:
        raise ValueError(
            f"{type(plan.tableau.solver).__name__} needs delays on the grid, so it has no "
            "derivative with respect to them; use diffrax.Heun()."
        )

    def run(problem, noise, end):
        delays = dataclasses.replace(problem.delays, moved=moved)
        problem = dataclasses.replace(problem, delays=delays)
        return _all_chunks(problem, noise, end, plan, plan.ring_backward, slopes=True)

    return eqx.filter_jvp(run, primals, tangents)


def _all_chunks(problem, noise, end, plan: Plan, ring: bool, slopes: bool):
    carry, early = _start(problem, noise, plan, ring, end)
    if not plan.n_chunks:
        return early
    saved = _chunks(problem, noise, carry, 0, plan.n_chunks, plan, end, ring=ring, slopes=slopes)[1]
    return jnp.concatenate([early, _pick(saved, plan, plan.n_chunks)])


def _start(problem, noise, plan, ring, end=None):
    """Return the carry of the first chunk, and the states saved before it."""
    early = problem.start()[None]
    if not plan.first:
        start = _blocks.start_ring(problem) if ring else _blocks.start(problem, plan.tableau)
        return start, early
    draws = _draws(problem, noise, plan)(jnp.asarray(0), plan.first)

    def advance(problem, own):
        problem, end = problem
        return run_divided(problem, plan.tableau, *own, plan.first, plan.save_every, end)

    own, end = (_blocks.start(problem, plan.tableau), draws), plan.n_steps if end is None else end
    carry, saved = guarded(advance, (problem.without_past, end), own)
    return carry, jnp.concatenate([early, saved])


def _is_given(noise) -> bool:
    return noise is not None and not jnp.issubdtype(noise.dtype, jax.dtypes.prng_key)


def _draws(problem, noise, plan) -> Callable[[Any, int], Array | None]:
    """Return a function that maps (first step, number of steps) to increments `[time *noise]`.

    For methods of order 1.5 these are W and H of each step, `[time 2 *noise]`.
    """
    shape, both = problem.check(), (2,) if plan.tableau.stages else ()
    dt, dtype = problem.dt, problem.dt.dtype
    if noise is None:
        return lambda first, n: None
    if _is_given(noise):
        if noise.shape[1:] != (*both, *shape):
            hint = " (W and H of each step)" if both else ""
            expected = (plan.n_steps, *both, *shape)
            raise ValueError(f"increments must have shape {expected}{hint}; got {noise.shape}.")
        missing = plan.first + plan.n_chunks * plan.chunk - plan.n_steps
        padded = jnp.concatenate([noise, jnp.zeros((missing, *noise.shape[1:]), dtype)])
        return lambda first, n: jax.lax.dynamic_slice_in_dim(padded, first, n)

    def drawn(first, n):
        keys = (noise, area_key(noise)) if both else (noise,)
        draws = [increments(key, first, n, shape, dt, dtype) for key in keys]
        return jnp.stack([draws[0], draws[1] / 12**0.5], axis=1) if both else draws[0]

    return drawn


def _filled(problem, noise, carry, first_chunk, n_chunks, n_rows: int, plan: Plan, end=None):
    """Run some chunks with the ring, without derivatives; return the carry and the states.

    Row 0 is the state before these chunks; `n_rows` rows of saved states follow.
    """
    draws = _draws(problem, noise, plan)
    # Steps after the last saved one are not needed.
    end = plan.n_steps // plan.save_every * plan.save_every if end is None else end
    start = first_chunk * plan.chunk // plan.save_every

    def one(index, carry):
        carry, out = carry
        first = index * plan.chunk
        n_steps = jnp.minimum(plan.chunk, end - first)
        drawn, of = (noise, first) if _is_given(noise) else (draws(first, plan.chunk), 0)
        draw = lambda k: None if drawn is None else _blocks.get(drawn, of + k)  # noqa: E731

        def row(k):
            # The row of the next saved step, whose state is written there last. `//` would add
            # operations for negative numbers.
            k = first + k
            return 1 + jax.lax.div(k, jnp.asarray(plan.save_every, k.dtype)) - start

        return _blocks.fill_ring(problem, carry, out, row, first, draw, n_steps)

    y = carry[0]
    out = _blocks.put(jnp.zeros((1 + n_rows, *y.shape), y.dtype), y, 0)
    return jax.lax.fori_loop(first_chunk, first_chunk + n_chunks, one, (carry, out))


def _chunks(
    problem, noise, carry, first_chunk, n_chunks: int, plan: Plan, end=None, *, ring=False, slopes
):
    """Run some chunks; return the carry and the states to save, `[chunk row *state]`."""
    draws_of = _draws(problem, noise, plan)
    running, limit = problem.without_past, plan.limit if end is None else end

    def advance(shared, own):
        problem, first, limit = shared
        carry, draws = own
        if ring:
            return _blocks.run_ring(problem, carry, first, draws, plan.chunk, limit)
        sizes = plan.chunk, plan.block, limit
        return _blocks.run(problem, plan.tableau, carry, first, draws, *sizes, slopes=slopes)

    def run(carry, first):
        own = carry, draws_of(first, plan.chunk)
        carry, states = guarded(advance, (running, first, limit), own)
        if plan.save_every > 1:
            # Step first + i + 1 is saved if it is a multiple of save_every.
            row = (-first - 1) % plan.save_every + plan.save_every * jnp.arange(plan.rows)
            states = states[jnp.minimum(row, plan.chunk - 1)]
        return carry, states

    def stay(carry, first):
        y = carry[0]
        return carry, jnp.broadcast_to(y, (plan.rows, *y.shape))

    @jax.checkpoint
    def one(carry, index):
        first = plan.first + index * plan.chunk
        if end is None or n_chunks == 1:
            return run(carry, first)
        return jax.lax.cond(first < end, run, stay, carry, first)

    return jax.lax.scan(one, carry, first_chunk + jnp.arange(n_chunks))


def _pick(saved, plan: Plan, n_chunks: int):
    """Return the saved states `[chunk row *state]` in order of time."""
    done = min(n_chunks * plan.chunk, plan.n_steps - plan.first)
    saved = saved.reshape(-1, *saved.shape[2:])
    if plan.save_every == 1:
        return saved[:done]
    step = plan.save_every * np.arange(1, done // plan.save_every + 1) - 1
    chunk = step // plan.chunk
    row = (step - chunk * plan.chunk) // plan.save_every
    return saved[chunk * plan.rows + row]


_begin = eqx.filter_jit(_start)


@eqx.filter_jit
def _part(problem, noise, carry, first_chunk, n_chunks: int, plan: Plan):
    """Run a part of the chunks; return the carry and its states.

    With blocks, the states are the input of `_pick`. With the ring, they are the output of
    `_filled`, whose last row may not be final yet.
    """
    if not plan.ring:
        return _chunks(problem, noise, carry, first_chunk, n_chunks, plan, slopes=False)
    n_rows = (n_chunks * plan.chunk - 1) // plan.save_every + 2
    return _filled(problem, noise, carry, first_chunk, n_chunks, n_rows, plan)


def simulate_with_progress(problem, noise, plan: Plan) -> tuple[Array, bool]:
    """Run part by part, so that a progress bar can move and an interrupt keeps finished parts."""
    from tqdm.auto import tqdm

    size = -(-plan.n_chunks // PARTS)
    (carry, start), saved, done = _begin(problem, noise, plan, plan.ring), [], 0
    with tqdm(total=plan.n_steps, unit="step", unit_scale=True) as bar:
        try:
            while done < plan.n_chunks:
                n = min(size, plan.n_chunks - done)
                carry, states = _part(problem, noise, carry, jnp.asarray(done), n, plan)
                if plan.ring:
                    states = states[1 : 1 + _n_saved(done + n, plan) - _n_saved(done, plan)]
                saved.append(jax.block_until_ready(states))
                done += n
                bar.update(min(plan.first + done * plan.chunk, plan.n_steps) - bar.n)
        except KeyboardInterrupt:
            pass
    if not saved:
        return start, plan.n_chunks == 0
    saved = jnp.concatenate(saved)
    saved = saved if plan.ring else _pick(saved, plan, done)
    return jnp.concatenate([start, saved]), done == plan.n_chunks


def _n_saved(n_chunks: int, plan: Plan) -> int:
    """Return the number of states saved after this many chunks."""
    return min(n_chunks * plan.chunk, plan.n_steps) // plan.save_every


@eqx.filter_custom_jvp
def guarded(function: Callable, shared: Any, own: Any) -> tuple[Any, Array]:
    """Return `function(shared, own)`, several steps, with zero derivatives if a step diverges.

    If a loss excludes a diverged path, its last step receives a zero cotangent. The derivative of
    that step is infinite, and 0 · ∞ gives NaN in the sum over all paths. Hence no tangent enters or
    leaves a group of steps of which one diverges and, by transposition, no cotangent. Guarding
    each step separately would cost far more.

    **Arguments:**

    - `function`: returns one or more arrays with batch axes before the last axis, and states
        `[time *batch dim]`.
    - `shared`: numbers shared by all members of a batch. If the state itself has batch axes, they
        may receive NaN, because their cotangents are already summed over members.
    - `own`: numbers of each member, with batch axes before the last axis.
    """
    return function(shared, own)


@guarded.def_jvp
def _guarded_jvp(primals, tangents):
    function, *given = primals
    moved = tangents[1:]
    is_moved = jax.tree.map(lambda t: t is not None, moved, is_leaf=lambda t: t is None)
    varied, fixed = eqx.partition(tuple(given), is_moved)
    new, push = jax.linearize(lambda varied: function(*eqx.combine(varied, fixed)), varied)
    ok = jnp.all(jnp.isfinite(new[1]), axis=(0, -1))

    def kept(tangent):
        one = jnp.expand_dims(ok, -1)
        one = jnp.reshape(one, (1,) * (tangent.ndim - one.ndim) + one.shape)
        return jnp.where(one, tangent, 0)

    shared, own = moved
    own = jax.tree.map(kept, own)
    if ok.ndim == 0:
        shared = jax.tree.map(lambda t: jnp.where(ok, t, 0), shared)
    return new, jax.tree.map(kept, push((shared, own)))
