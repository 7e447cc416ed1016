"""Euler–Maruyama with past states in a ring: the fastest way forward."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ._blocks import between
from ._problem import Problem


def start(problem: Problem) -> tuple[Array, Array]:
    """Return the state at the start, and the ring of states before it."""
    y = problem.start()
    n = _size(problem)
    steps = jnp.arange(n)
    # Slot k mod n holds the state of step k; the ring starts with steps 0, 1 − n, 2 − n, …
    steps = jnp.where(steps == 0, 0, steps - n)
    if n == 1:
        return y, y[None]
    return y, put(jax.vmap(problem.past)(steps), y, 0)


def _size(problem: Problem) -> int:
    return problem.delays.longest + 2 if problem.delays.number else 1


def run(problem: Problem, carry, first, draws, n_steps: int, limit):
    """Run `n_steps` steps from step `first` on and return all their states; it can be
    differentiated.

    The state stands still from step `limit` on.
    """
    advance = _step(problem, first, limit, slopes=True)

    def body(state, xs):
        state = advance(state, *xs)
        return state, state[0]

    y, ring = carry
    state = (y, ring, first % _size(problem))
    (y, ring, _), states = jax.lax.scan(body, state, (jnp.arange(n_steps), draws))
    return (y, ring), states


def fill(problem: Problem, carry, out, row, first, draw, n_steps: int, limit):
    """Run steps without derivatives, each state written to row `row(k)` of `out`.

    `draw(k)` is the increment of step k. Neither the increments nor the states of a chunk exist as
    an array of their own: for a batch, moving these through memory takes longer than the steps.
    """
    advance = _step(problem, first, limit, slopes=False)

    def body(carry, k):
        state, out = carry
        state = advance(state, k, draw(k))
        return (state, put(out, state[0], row(k))), None

    y, ring = carry
    state = (y, ring, first % _size(problem))
    ((y, ring, _), out), _ = jax.lax.scan(body, (state, out), jnp.arange(n_steps))
    return (y, ring), out


def get(rows: Array, index) -> Array:
    """Return the row of an index that is not negative; the last one beyond the end."""
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False, allow_negative_indices=False)


def put(rows: Array, row: Array, index) -> Array:
    """Return `rows` with one row replaced; the last one if the index is beyond the end."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0, allow_negative_indices=False)


def _step(problem: Problem, first, limit, *, slopes: bool):
    """Return one step of (state, ring, slot of the state), given its number after `first` and its
    draw.

    The new state is written to the slot that the next step does not read first, after the reads of
    this one: a write that depends on the reads lets XLA update the ring in place, which makes the
    difference between 10 and 1000 ns a step. `slopes`: derivatives by the delays are wanted.
    """
    n = _size(problem)
    whole, fraction = problem.delays.split()
    whole = whole.astype(jnp.asarray(0).dtype)  # of positions in the ring
    near = problem.delays.near
    delays = range(problem.delays.number)

    def slot(position):
        return jnp.where(position < 0, position + n, position)

    def read(ring, at, i):
        late = get(ring, slot(at - whole[i]))
        if problem.delays.on_grid and not (slopes and problem.delays.moved):
            return late
        later = get(ring, slot(at - whole[i] - 1))
        if slopes and problem.delays.moved:
            sooner = get(ring, slot(at - whole[i] + 1))
            return between(late, later, sooner, fraction[i], near[i])
        return late + fraction[i] * (later - late)

    def step(state, k, draw):
        y, ring, at = state
        lagged = [read(ring, at, i) for i in delays]
        lagged = jnp.stack(lagged) if lagged else jnp.zeros((0, *y.shape), y.dtype)
        t = problem.time(first + k)
        new = y + problem.dt * problem.drift(t, y, lagged, problem.args)
        noise = problem.noise(t, y, lagged, draw, problem.dt)
        new = new if noise is None else new + noise
        if limit is not None:
            new = jnp.where(first + k < limit, new, y)
        at = jnp.where(at + 1 == n, 0, at + 1)
        if problem.delays.number:
            ring = put(ring, new, at)
        return new, ring, at

    return step
