"""Running a problem chunk by chunk: noise, saved states, and the driver for each direction."""

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import _blocks, _ring
from ._noise import increments
from ._problem import FunctionHistory, Problem
from ._tableau import Tableau

# Steps between two draws of noise and two checkpoints.
CHUNK = 1024
# With fewer steps in the shortest delay, copying the past at each block costs more than its steps.
SHORT_BLOCK = 10
# Parts of a run between two updates of a progress bar.
PARTS = 100


class Plan(eqx.Module):
    """All that is static about a run."""

    tableau: Tableau
    n_steps: int = eqx.field(static=True)
    save_every: int = eqx.field(static=True)
    chunk: int = eqx.field(static=True)
    ring: bool = eqx.field(static=True)
    ring_backward: bool = eqx.field(static=True)

    @classmethod
    def of(cls, problem: Problem, tableau: Tableau, n_steps: int, save_every: int) -> "Plan":
        """Chunks hold whole blocks, and no more steps than there are."""
        euler = isinstance(tableau.solver, diffrax.Euler)
        block = _blocks.block_length(problem)
        chunk = block * -(-min(CHUNK, n_steps) // block)
        short = problem.delays.number > 0 and block < SHORT_BLOCK
        return cls(tableau, int(n_steps), int(save_every), chunk, euler, euler and short)

    @property
    def n_chunks(self) -> int:
        """How many chunks cover all steps."""
        return -(-self.n_steps // self.chunk)

    @property
    def rows(self) -> int:
        """Upper bound on the states that one chunk saves."""
        return -(-self.chunk // self.save_every)


@eqx.filter_jit
def simulate(problem: Problem, noise, plan: Plan):
    """Times, states and whether all are finite; the noise is a key, the increments or None."""
    return _finish(problem, _whole(_convert(problem), noise, plan=plan), plan)


@eqx.filter_jit
def finish(problem: Problem, ys, plan: Plan):
    """The same from states that have been computed."""
    return _finish(problem, ys, plan)


def _finish(problem, ys, plan):
    ys = jnp.concatenate([problem.history(problem.t0)[None], ys])
    ts = problem.time(plan.save_every * jnp.arange(ys.shape[0]))
    return ts, ys, jnp.all(jnp.isfinite(ys))


def _convert(problem: Problem) -> Problem:
    """The same problem with functions whose closed-over tracers are arguments: a rule for
    derivatives may not close over them.
    """
    t = jax.ShapeDtypeStruct((), problem.dt.dtype)
    shape = problem.history.shape
    state = jax.ShapeDtypeStruct(shape, t.dtype)
    past = jax.ShapeDtypeStruct((problem.delays.number, *shape), t.dtype)
    where, new = [lambda p: p.drift], []
    new.append(eqx.filter_closure_convert(problem.drift, t, state, past, problem.args))
    if isinstance(problem.history, FunctionHistory):
        where.append(lambda p: p.history.function)
        new.append(eqx.filter_closure_convert(problem.history.function, t))
    if callable(problem.sigma):
        where.append(lambda p: p.sigma)
        new.append(eqx.filter_closure_convert(problem.sigma, t, state, past, problem.args))
    return eqx.tree_at(lambda p: [w(p) for w in where], problem, new)


@eqx.filter_custom_jvp
def _whole(problem: Problem, noise, *, plan: Plan):
    return _all_chunks(problem, noise, plan, plan.ring)


@_whole.def_jvp
def _whole_jvp(primals, tangents, *, plan: Plan):
    # Forward the ring is fastest; derivatives go through the blocks.
    run = functools.partial(_all_chunks, plan=plan, ring=plan.ring_backward)
    return eqx.filter_jvp(lambda problem, noise: run(problem, noise), primals, tangents)


def _all_chunks(problem, noise, plan: Plan, ring: bool):
    carry = _start(problem, plan, ring)
    return _pick(_chunks(problem, noise, carry, 0, plan.n_chunks, plan, ring)[1], plan)


def _start(problem, plan, ring):
    return _ring.start(problem) if ring else _blocks.start(problem, plan.tableau)


def _chunks(problem, noise, carry, first_chunk, n_chunks: int, plan: Plan, ring: bool):
    """Some chunks; of each the states that are to be saved, `[chunk row *state]`."""
    dtype = problem.dt.dtype
    shape = problem.check()
    given = noise is not None and not jnp.issubdtype(noise.dtype, jax.dtypes.prng_key)
    if given:
        if noise.shape[1:] != shape:
            raise ValueError(
                f"increments must have shape {(plan.n_steps, *shape)}; got {noise.shape}."
            )
        missing = plan.n_chunks * plan.chunk - plan.n_steps
        padded = jnp.concatenate([noise, jnp.zeros((missing, *noise.shape[1:]), dtype)])

    @jax.checkpoint
    def one(carry, index):
        first = index * plan.chunk
        if noise is None:
            draws = None
        elif given:
            draws = jax.lax.dynamic_slice_in_dim(padded, first, plan.chunk)
        else:
            draws = increments(noise, first, plan.chunk, shape, problem.dt, dtype)
        if ring:
            carry, states = _ring.run(problem, carry, first, draws, plan.chunk, plan.n_steps)
        else:
            carry, states = _blocks.run(
                problem, plan.tableau, carry, first, draws, plan.chunk, plan.n_steps
            )
        if plan.save_every > 1:
            # Step first + i + 1 is saved if it is a multiple of save_every.
            row = (-first - 1) % plan.save_every + plan.save_every * jnp.arange(plan.rows)
            states = states[jnp.minimum(row, plan.chunk - 1)]
        return carry, states

    return jax.lax.scan(one, carry, first_chunk + jnp.arange(n_chunks))


def _pick(saved, plan: Plan, n_chunks: int | None = None):
    """Saved states in order, from `[chunk row *state]`."""
    n_chunks = plan.n_chunks if n_chunks is None else n_chunks
    done = min(n_chunks * plan.chunk, plan.n_steps)
    saved = saved.reshape(-1, *saved.shape[2:])
    if plan.save_every == 1:
        return saved[:done]
    step = plan.save_every * np.arange(1, done // plan.save_every + 1) - 1
    chunk = step // plan.chunk
    row = (step - chunk * plan.chunk) // plan.save_every
    return saved[chunk * plan.rows + row]


@eqx.filter_jit
def _begin(problem, plan):
    return _start(problem, plan, plan.ring)


@eqx.filter_jit
def _part(problem, noise, carry, first_chunk, n_chunks: int, plan: Plan):
    return _chunks(problem, noise, carry, first_chunk, n_chunks, plan, plan.ring)


def simulate_with_progress(problem, noise, plan: Plan) -> tuple[Array, bool]:
    """Part by part, so that a bar can move and an interrupt keeps what is done."""
    from tqdm.auto import tqdm

    size = -(-plan.n_chunks // PARTS)
    carry, saved, done = _begin(problem, plan), [], 0
    with tqdm(total=plan.n_steps, unit="step", unit_scale=True) as bar:
        try:
            while done < plan.n_chunks:
                n = min(size, plan.n_chunks - done)
                carry, states = _part(problem, noise, carry, jnp.asarray(done), n, plan)
                saved.append(jax.block_until_ready(states))
                done += n
                bar.update(min(done * plan.chunk, plan.n_steps) - bar.n)
        except KeyboardInterrupt:
            pass
    if not saved:
        return jnp.zeros((0, *problem.history.shape), problem.dt.dtype), False
    return _pick(jnp.concatenate(saved), plan, done), done == plan.n_chunks
