"""Two ways of stepping: the method of steps, and Euler–Maruyama with past states in a ring.

The method of steps takes any explicit solver and advances in blocks no longer than the shortest
delay. All lagged values of a block are known before it begins. They are read at once from the
records of past steps (see `Tableau`) and are inputs of the inner loop, which keeps gradients cheap.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._problem import Problem
from ._tableau import Tableau

# Without delays, blocks only save memory.
FREE_BLOCK = 256


def block_length(problem: Problem, longest: int = 1024) -> int:
    """Return the largest number of steps that a block may have."""
    return min(problem.delays.shortest if problem.delays.number else FREE_BLOCK, longest)


def start(problem: Problem, tableau: Tableau) -> tuple[Array, Array]:
    """Return the state at the start, and the records `[step row *state]` of earlier steps."""
    y = problem.start()
    n = problem.delays.longest + 1 if problem.delays.number else 0
    if n == 0:
        return y, jnp.zeros((0, tableau.n_rows, *y.shape), y.dtype)
    # Rounded-up sizes may reach back further than the history has values.
    steps = jnp.maximum(jnp.arange(-n, 0), -problem.delays.reach).astype(y.dtype)
    return y, jax.vmap(lambda k: tableau.record(problem.past, k))(steps)


def read_past(
    problem: Problem, tableau: Tableau, records: Float[Array, "step row *state"], n_steps: int
) -> Float[Array, "time stage delay *state"]:
    """Return the lagged values at every stage of the next `n_steps` steps."""
    n, _, *state = records.shape
    whole, fraction = problem.delays.split()
    if not problem.delays.number:
        return jnp.zeros((n_steps, len(tableau.c), 0, *state), records.dtype)
    if tableau.stages:
        if not problem.delays.on_grid:
            raise ValueError(
                f"{type(tableau.solver).__name__} reads the past at its own stages, so it needs "
                "known delays that are whole multiples of dt, without delay_bounds. Use "
                "diffrax.Heun() for others."
            )
        rows = [jax.lax.dynamic_slice_in_dim(records, n - back, n_steps)[:, 2:] for back in whole]
        return jnp.stack(rows, axis=2)
    if tableau.order == 1:
        return _between_states(problem, records, n_steps)[:, None]

    def reading(c, i):
        at = c - fraction[i]
        # A reading before the start of the step `whole` back lies in the step before that.
        earlier = (at < 0).astype(whole.dtype)
        rows = jax.lax.dynamic_slice_in_dim(records, n - (whole[i] + earlier), n_steps)
        weights = tableau.weights(at + earlier.astype(at.dtype)).astype(records.dtype)
        return jnp.tensordot(rows, weights, axes=[[1], [0]])

    delays = range(problem.delays.number)
    stages = [jnp.stack([reading(c, i) for i in delays], axis=1) for c in tableau.c]
    return jnp.stack(stages, axis=1)


def _between_states(problem: Problem, records, n_steps: int) -> Float[Array, "time delay *state"]:
    """Return the lagged values for Euler's method, linearly interpolated between states."""
    whole, fraction = problem.delays.split()
    near = problem.delays.near

    def reading(i):
        first = records.shape[0] - whole[i]
        if problem.delays.on_grid and not problem.delays.moved:
            return jax.lax.dynamic_slice_in_dim(records[:, 0], first, n_steps)
        rows = jax.lax.dynamic_slice_in_dim(records, first, n_steps)
        before = jax.lax.dynamic_slice_in_dim(records, first - 1, n_steps)[:, 0]
        return between(rows[:, 0], before, rows[:, 1], fraction[i], near[i])

    return jnp.stack([reading(i) for i in range(problem.delays.number)], axis=1)


def between(state, before, after, fraction, near):
    """Return the state a fraction of a step before `state`, interpolated linearly.

    `before` and `after` are the states one step earlier and later. The line has kinks at states.
    There the derivative is the mean of both sides, as in central differences.
    """
    slope = jnp.where(near, 0.5 * (before - after), before - state)
    # In a diverged path, 0 · ∞ would spoil derivatives; `state` still shows the divergence.
    return state + fraction * jnp.where(jnp.isfinite(slope), slope, 0)


def advance(problem: Problem, tableau: Tableau, y, at, length, lagged, draw):
    """Return the record of one step from `at`, counted in steps from the start.

    `length`: in steps (None: 1); `lagged`: the past at every stage; `draw`: the noise increment.
    """

    forced = problem.breaks is not None and problem.breaks.forced
    h = problem.dt if length is None else length * problem.dt

    def moment(c):
        t = problem.time(at, c if length is None else c * length)
        if not forced or c == 0.5:
            return t
        # A drift that jumps at an end of the step is evaluated on the step's side of the jump,
        # moved inside by the possible rounding error of the time.
        size = jnp.abs(t) + jnp.abs(problem.t0) + problem.dt
        shift = 8 * jnp.finfo(t.dtype).eps * size
        return t + shift if c < 0.5 else t - shift

    added = lambda draw: problem.noise(moment(0.0), y, lagged[0], draw, h)  # noqa: E731
    noise = jax.vmap(added)(draw) if tableau.stages and draw is not None else added(draw)

    def rate(stage, y):
        return h * problem.drift(moment(tableau.c[stage]), y, lagged[stage], problem.args)

    return tableau.step(rate, y, noise)


def block(
    problem: Problem, tableau: Tableau, carry, first, draws, n_steps: int, limit, *, slopes=True
):
    """Run `n_steps` steps, at most the shortest delay, starting with step `first`.

    The state stays constant from step `limit` on, if it is given: steps beyond the end might
    overflow, and 0 · NaN would spoil gradients. Derivatives (`slopes`) need a fixed number of
    steps; without them, steps from `limit` on are omitted.
    """
    y, records = carry
    past = read_past(problem, tableau, records, n_steps)

    def step(y, xs):
        k, lagged, draw = xs
        k = first + k
        record = advance(problem, tableau, y, k, None, lagged, draw)
        if slopes and limit is not None:
            still = jnp.concatenate([jnp.stack([y, y]), jnp.zeros_like(record[2:])])
            record = jnp.where(k < limit, record, still)
        return record[1], record

    def filled(k, carry):
        y, new = carry
        y, record = step(y, (k, get(past, k), None if draws is None else get(draws, k)))
        return y, put(new, record, k)

    if slopes:
        y, new = jax.lax.scan(step, y, (jnp.arange(n_steps), past, draws))
    else:
        new = jnp.zeros((n_steps, tableau.n_rows, *y.shape), y.dtype)
        n = n_steps if limit is None else jnp.clip(limit - first, 0, n_steps)
        y, new = jax.lax.fori_loop(0, n, filled, (y, new))
    kept = jnp.concatenate([records, new])[n_steps:] if problem.delays.number else records
    return (y, kept), new[:, 1]


def run(problem, tableau, carry, first, draws, n_steps: int, length: int, limit, *, slopes: bool):
    """Run `n_steps` steps, a multiple of the block's `length`, starting with step `first`."""
    n_blocks = n_steps // length

    def one(carry, xs):
        k, draws = xs
        at = first + k * length
        return block(problem, tableau, carry, at, draws, length, limit, slopes=slopes)

    if draws is not None:
        draws = draws.reshape(n_blocks, length, *draws.shape[1:])
    carry, states = jax.lax.scan(one, carry, (jnp.arange(n_blocks), draws))
    return carry, states.reshape(n_steps, *states.shape[2:])


def start_ring(problem: Problem) -> tuple[Array, Array]:
    """Return the state at the start, and the ring buffer of earlier states."""
    y = problem.start()
    n = _size(problem)
    steps = jnp.arange(n)
    # Slot k mod n holds the state of step k; the ring starts with steps 0, 1 − n, 2 − n, …
    steps = jnp.where(steps == 0, 0, steps - n)
    if n == 1:
        return y, y[None]
    return y, put(jax.vmap(problem.past)(jnp.maximum(steps, -problem.delays.reach)), y, 0)


def _size(problem: Problem) -> int:
    return problem.delays.longest + 2 if problem.delays.number else 1


def run_ring(problem: Problem, carry, first, draws, n_steps: int, limit):
    """Run `n_steps` steps, starting with step `first`, and return all states; differentiable.

    The state stays constant from step `limit` on.
    """
    advance = _step(problem, first, limit, slopes=True)

    def body(state, xs):
        state = advance(state, *xs)
        return state, state[0]

    y, ring = carry
    state = (y, ring, first % _size(problem))
    (y, ring, _), states = jax.lax.scan(body, state, (jnp.arange(n_steps), draws))
    return (y, ring), states


def fill_ring(problem: Problem, carry, out, row, first, draw, n_steps):
    """Run steps without derivatives, and write each state to row `row(k)` of `out`.

    `draw(k)` is the increment of step k. Neither the increments nor the states of a chunk form a
    separate array: for a batch, moving these through memory takes longer than the steps.
    """
    advance = _step(problem, first, None, slopes=False)

    def body(k, carry):
        state, out = carry
        state = advance(state, k, draw(k))
        return state, put(out, state[0], row(k))

    y, ring = carry
    state = (y, ring, first % _size(problem))
    (y, ring, _), out = jax.lax.fori_loop(0, n_steps, body, (state, out))
    return (y, ring), out


def get(rows: Array, index) -> Array:
    """Return the row at a nonnegative index; beyond the end, the last row."""
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False, allow_negative_indices=False)


def put(rows: Array, row: Array, index) -> Array:
    """Return `rows` with one row replaced; beyond the end, the last row."""
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0, allow_negative_indices=False)


def _step(problem: Problem, first, limit, *, slopes: bool):
    """Return the step function of (state, ring, slot of the state), step number and draw.

    The step number counts from `first`. The new state is written after the reads of its step, to
    the slot that the next step does not read first. A write that depends on the reads lets XLA
    update the ring in place: 10 instead of 1000 ns per step. `slopes`: derivatives with respect to
    the delays are needed.
    """
    n = _size(problem)
    whole, fraction = problem.delays.split()
    whole = whole.astype(jnp.asarray(0).dtype)  # the integer type of positions in the ring
    near = problem.delays.near
    delays = range(problem.delays.number)

    def slot(position):
        return jnp.where(position < 0, position + n, position)

    def read(ring, at, i):
        delayed = get(ring, slot(at - whole[i]))
        if problem.delays.on_grid and not (slopes and problem.delays.moved):
            return delayed
        before = get(ring, slot(at - whole[i] - 1))
        if slopes and problem.delays.moved:
            after = get(ring, slot(at - whole[i] + 1))
            return between(delayed, before, after, fraction[i], near[i])
        return delayed + fraction[i] * (before - delayed)

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
