"""Times at which a solution has a kink or a jump, and the steps that end there.

Equal steps are divided where a kink lies inside. Beyond the last kink by the longest delay, steps
are equal again and `_blocks` takes over.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._checks import check_concrete, check_number, check_real_array, check_whole
from .._memory import round_size
from .._types import Checked
from . import _blocks
from ._problem import Breaks, Delays, Problem, concrete
from ._tableau import Tableau

# The largest number of sums of delays; beyond it, the sums with most terms are omitted.
MOST = 10_000


def sums(n_delays: int, order: int) -> Int[np.ndarray, "kink delay"]:
    """Return the count of each delay in every sum of up to `order` delays, the empty sum first."""
    while math.comb(n_delays + order, order) > MOST:
        order -= 1
    delays = range(n_delays)
    every = (itertools.combinations_with_replacement(delays, many) for many in range(order + 1))
    rows = [[chosen.count(i) for i in delays] for chosen in itertools.chain(*every)]
    return np.asarray(rows, int).reshape(len(rows), n_delays)


def read_jumps(jumps: Any) -> Any:
    """Return the times of jumps as an array, possibly traced; empty by default."""
    if jumps is None:
        return np.zeros(0)
    check_real_array(jumps, "jumps", "times at which the drift jumps", finite=True)
    if np.ndim(jumps) > 1:
        raise ValueError(f"jumps must be one time or a list of them; got shape {np.shape(jumps)}.")
    return jnp.atleast_1d(jumps) if isinstance(jumps, jax.Array) else np.atleast_1d(jumps)


def read_breaks(
    jumps, delays: Delays, t0, dt, order: int, n_steps: int, *, apart, noisy, bounded, few_sizes
) -> Breaks | None:
    """Return where steps must end for a solver of this order; None if equal steps suffice.

    `apart`: whether the state jumps at the start; `bounded`: whether bounds on the delays were
    given, so that all delays within them share a program.
    """
    jumps = read_jumps(jumps)
    smooth = delays.on_grid or noisy or order <= 2
    if not len(jumps) and (not delays.number or (smooth and not apart)):
        return None
    counts = sums(delays.number, order)
    origins, known = [(jnp.zeros((), dt.dtype), 0.0)], concrete(jumps)
    for i in range(len(jumps)):
        at = (jnp.asarray(jumps[i], dt.dtype) - t0) / dt
        origins.append((at, concrete(at) if known is not None else None))
    steps = None if bounded else concrete(delays.steps)
    least = np.full(delays.number, delays.shortest) if steps is None else steps
    most = np.full(delays.number, delays.longest) if steps is None else steps
    if few_sizes and steps is not None:
        least = np.asarray([round_size(math.floor(delay), up=False) for delay in steps])
    found, last = [], 0
    for i, (at, position) in enumerate(origins):
        rows = counts[1:] if i == 0 else counts
        first = 0.0 if position is None else float(position)
        rows = rows[first + rows @ least <= n_steps]
        if not len(rows) or first < -TINY:
            continue
        found.append(at + jnp.asarray(rows, dt.dtype) @ delays.steps)
        end = n_steps if position is None else math.ceil(first + float(np.max(rows @ most)) + TINY)
        last = max(last, end)
    if not found:
        return None
    last = round_size(last) if few_sizes else last
    return Breaks(jnp.concatenate(found), min(last, n_steps), bool(len(jumps)))


# The rounding error of a position, as a share of a step.
TINY = 1e-6


def kinks(
    delays: Any, t0: Any, t1: Any, *, order: Checked[int] = 5, jumps: Any = None
) -> Float[Array, "kink"]:
    """Return the times at which the solution of a delay equation has kinks.

    If the history does not satisfy the equation, the first derivative jumps at `t0`, the second one
    delay later, and so on. Every jump of the drift has the same effect. A step across a kink has a
    large error, which a step-size controller resolves by trial. Pass these times to
    `diffrax.ClipStepSizeController` as `jump_ts`, so that steps end there.
    [`solve_sdde`][ndde_jax.solve_sdde] does this automatically.

    **Arguments:**

    - `delays`: in units of time.
    - `t0`, `t1`: start and end.
    - `order`: order of the solver (5): sums of up to this many delays are kinks to it.
    - `jumps`: times at which the drift itself jumps, none by default.

    **Returns:** ascending times between `t0` and `t1`, both excluded.

    **Raises:** `ValueError` for delays that are not positive numbers, and for traced arguments.

    ```python
    import ndde_jax as ndde

    print(ndde.simulate.kinks((1.0, 1.5), 0.0, 3.2, order=2)[1])  # 1.5
    ```
    """
    check_concrete("kinks", (delays, t0, t1, jumps), "How many there are depends on them.")
    check_real_array(delays, "delays", "in units of time", finite=True, above=0)
    if np.ndim(delays) > 1:
        raise ValueError(
            f"delays must be one number or one per delay; got shape {np.shape(delays)}."
        )
    if not np.size(delays):
        raise ValueError("delays must be one number or more; got none.")
    check_number(t0, "t0")
    check_number(t1, "t1")
    check_whole(order, "order")
    values = np.atleast_1d(np.asarray(delays, float))
    starts = np.concatenate([[float(t0)], np.asarray(read_jumps(jumps), float)])
    times = (starts[:, None] + (sums(len(values), order) @ values)[None]).ravel()
    times = np.sort(times[(times > float(t0)) & (times < float(t1))])
    # Drops sums of different delays that are equal up to rounding.
    apart = np.diff(times, prepend=-np.inf) > 1e-9 * (float(t1) - float(t0))
    return jnp.asarray(times[apart], jnp.result_type(float))


# Share of the way to a step's middle by which times move to decide their side of a kink.
INSIDE = 1e-3


def divided_length(problem: Problem, n_steps: int, save_every: int) -> int:
    """Return the number of equal steps to divide, a multiple of `save_every` or all."""
    if problem.breaks is None:
        return 0
    needed = problem.breaks.last + problem.delays.longest + 1
    return min(n_steps, -(-needed // save_every) * save_every)


def run_divided(
    problem: Problem, tableau: Tableau, carry, draws, n_steps: int, save_every: int, end
):
    """Run the first steps; return the carry for `_blocks`, and every `save_every`-th state.

    Steps after `end` have length zero.
    """
    dtype, breaks = problem.dt.dtype, problem.breaks
    assert breaks is not None
    y, past = carry
    n_past, n_breaks = past.shape[0], breaks.at.shape[0]
    # A break outside the run makes a step of length zero, which changes nothing. So does a break
    # on the grid, just before the node; its derivative moves the ends of two steps.
    last = jnp.asarray(end, dtype)
    at = jnp.where((breaks.at > 0) & (breaks.at < last), breaks.at, 0)
    node = jax.lax.stop_gradient(jnp.round(at) - at)
    at = at + jnp.where(jnp.abs(node) < _rounding(dtype), node, 0)
    nodes = jnp.concatenate([at, jnp.minimum(jnp.arange(n_steps + 1, dtype=dtype), last)])
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

    # Room for all that a delay may reach back over and for the spare steps at the end: records of
    # length zero in front.
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
    if n_past <= n_steps:  # otherwise nothing follows
        recent = place[n_steps - n_past : n_steps]
        records = records[recent - (n_blocks * block - records.shape[0])]
    return (y, records), saved


def _read(problem: Problem, tableau: Tableau, starts, lengths, records, at, h):
    """Return lagged values at every stage of steps that begin at `at` and have the lengths `h`."""
    n_steps, n_stages, n_delays = len(at), len(tableau.c), problem.delays.number
    state = records.shape[2:]
    if not n_delays:
        return jnp.zeros((n_steps, n_stages, 0, *state), records.dtype)
    c = jnp.asarray(tableau.c, at.dtype)
    stages = at[:, None] + c[None] * h[:, None]
    # A step that begins (ends) at a kink reads a step that begins (ends) at one. Hence the lookup
    # uses a time moved inside the step, by more than rounding and at most to its middle.
    middle = jnp.abs(0.5 - c)[None] * h[:, None]
    inside = jnp.maximum(INSIDE * middle, _rounding(at.dtype))
    inside = stages + jnp.sign(0.5 - c)[None] * jnp.minimum(inside, middle)

    def lagged(times):
        return (times[:, :, None] - problem.delays.steps[None, None]).reshape(-1)

    inner = jax.lax.stop_gradient(lagged(inside))
    index = jnp.searchsorted(jax.lax.stop_gradient(starts), inner, side="right") - 1
    index = jnp.clip(index, 0, len(starts) - 1)
    size = lengths[index]
    fraction = (lagged(stages) - starts[index]) / jnp.where(size > 0, size, 1)
    weights = jax.vmap(tableau.weights)(fraction).astype(records.dtype)
    weights = weights.reshape(weights.shape + (1,) * len(state))
    return jnp.sum(records[index] * weights, axis=1).reshape(n_steps, n_stages, n_delays, *state)


def _rounding(dtype) -> float:
    """Return the tolerance of a position in steps: closer positions count as equal."""
    return float(jnp.finfo(dtype).eps) ** 0.5
