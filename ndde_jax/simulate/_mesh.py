"""The method of steps where the solution has kinks: equal steps, divided where one lies inside.

From the last kink on, and a longest delay later, steps are equal again and `_blocks` goes on.
"""

import jax
import jax.numpy as jnp

from . import _blocks
from ._problem import Problem
from ._tableau import Tableau

# Of a step: how far inside of it a time is taken for whether it lies before a kink or after it.
INSIDE = 1e-3


def length(problem: Problem, n_steps: int, save_every: int) -> int:
    """How many equal steps of a run are gone over here, a multiple of `save_every` or all."""
    if problem.breaks is None:
        return 0
    needed = problem.breaks.last + problem.delays.longest + 1
    return min(n_steps, -(-needed // save_every) * save_every)


def run(problem: Problem, tableau: Tableau, carry, draws, n_steps: int, save_every: int):
    """The first steps: what `_blocks` goes on with, and every `save_every`-th state."""
    dtype, breaks = problem.dt.dtype, problem.breaks
    assert breaks is not None
    y, past = carry
    n_past, n_breaks = past.shape[0], breaks.at.shape[0]
    # A break of no interest makes a step of length zero, which changes nothing. So does one on the
    # grid, just before the node; its derivative moves the ends of two steps.
    at = jnp.where((breaks.at > 0) & (breaks.at < n_steps), breaks.at, 0)
    node = jax.lax.stop_gradient(jnp.round(at) - at)
    at = at + jnp.where(jnp.abs(node) < _rounding(dtype), node, 0)
    nodes = jnp.concatenate([at, jnp.arange(n_steps + 1, dtype=dtype)])
    order = jnp.argsort(jax.lax.stop_gradient(nodes))
    nodes = nodes[order]
    place = jnp.zeros_like(order).at[order].set(jnp.arange(len(order)))[n_breaks:]
    block = min(_blocks.block_length(problem), n_steps + n_breaks)
    n_blocks = -(-(n_steps + n_breaks) // block)
    spare = n_blocks * block - n_steps - n_breaks
    starts = jnp.concatenate([nodes[:-1], jnp.full(spare, n_steps, dtype)])
    lengths = jnp.concatenate([jnp.diff(nodes), jnp.zeros(spare, dtype)])
    if draws is not None:
        # Each part of a step has its share of the increment.
        of = jnp.clip(jnp.cumsum(order >= n_breaks)[:-1] - 1, 0, n_steps - 1)
        share = lengths[: n_steps + n_breaks].reshape(-1, *(1,) * (draws.ndim - 1))
        draws = draws[of] * share
        draws = jnp.concatenate([draws, jnp.zeros((spare, *draws.shape[1:]), dtype)])

    def grouped(a):
        return a.reshape(n_blocks, block, *a.shape[1:])

    @jax.checkpoint
    def one(carry, given):
        *grid, draws = given
        y, records, seen = carry
        late = _read(problem, tableau, *seen, records, *grid)

        def step(y, given):
            record = _blocks.advance(problem, tableau, y, *given)
            return record[1], record

        y, new = jax.lax.scan(step, y, (*grid, late, draws))
        if problem.delays.number:
            records = jnp.concatenate([records, new])[block:]
            seen = [jnp.concatenate(pair)[block:] for pair in zip(seen, grid, strict=True)]
        return (y, records, seen), new[:, 1]

    # Room for all that a delay may reach back over, and for the spare steps at the end, with
    # records of no length in front.
    filler = n_breaks + spare if n_past else 0
    seen = [
        jnp.concatenate([jnp.full(filler, -n_past, dtype), jnp.arange(-n_past, 0, dtype=dtype)]),
        jnp.concatenate([jnp.zeros(filler, dtype), jnp.ones(n_past, dtype)]),
    ]
    past = jnp.concatenate([jnp.zeros((filler, *past.shape[1:]), past.dtype), past])
    given = (grouped(starts), grouped(lengths), None if draws is None else grouped(draws))
    (y, records, _), states = jax.lax.scan(one, (y, past, seen), given)
    states = states.reshape(-1, *states.shape[2:])
    # The state at a node is the end of the step before it.
    saved = states[place[save_every::save_every] - 1]
    if n_past <= n_steps:  # else nothing follows
        last = place[n_steps - n_past : n_steps]
        records = records[last - (n_blocks * block - records.shape[0])]
    return (y, records), saved


def _read(problem: Problem, tableau: Tableau, starts, lengths, records, at, h):
    """Lagged values at every stage of steps that begin at `at` and have the lengths `h`."""
    n_steps, n_stages, n_delays = len(at), len(tableau.c), problem.delays.number
    state = records.shape[2:]
    if not n_delays:
        return jnp.zeros((n_steps, n_stages, 0, *state), records.dtype)
    c = jnp.asarray(tableau.c, at.dtype)
    # What begins at a kink reads what begins at one.
    within, after = c + (0.5 - c) * INSIDE, _rounding(at.dtype)

    def times(c):
        stages = at[:, None] + c[None] * h[:, None]
        return (stages[:, :, None] - problem.delays.steps[None, None]).reshape(-1)

    inner = jax.lax.stop_gradient(times(within) + after)
    index = jnp.searchsorted(jax.lax.stop_gradient(starts), inner, side="right") - 1
    index = jnp.clip(index, 0, len(starts) - 1)
    size = lengths[index]
    fraction = (times(c) - starts[index]) / jnp.where(size > 0, size, 1)
    weights = jax.vmap(tableau.weights)(fraction).astype(records.dtype)
    weights = weights.reshape(weights.shape + (1,) * len(state))
    found = jnp.sum(records[index] * weights, axis=1)
    return found.reshape(n_steps, n_stages, n_delays, *state)


def _rounding(dtype) -> float:
    """Return the tolerance of a position in steps: what is nearer than this is the same."""
    return float(jnp.finfo(dtype).eps) ** 0.5
