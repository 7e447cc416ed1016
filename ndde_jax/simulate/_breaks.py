"""Times at which a solution has a kink or a jump, so that steps can end there."""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._checks import check_number, check_real_array, check_whole
from .._types import Checked
from ._delays import Delays, concrete
from ._problem import Breaks

# Of sums of delays; with more, the sums of most delays are left out.
MOST = 10_000


def sums(n_delays: int, order: int) -> Int[np.ndarray, "kink delay"]:
    """How often each delay occurs in every sum of up to `order` of them, none at all first."""
    while math.comb(n_delays + order, order) > MOST:
        order -= 1
    rows = []
    for many in range(order + 1):
        for chosen in itertools.combinations_with_replacement(range(n_delays), many):
            rows.append([chosen.count(i) for i in range(n_delays)])
    return np.asarray(rows, int).reshape(len(rows), n_delays)


def read_jumps(jumps: Any) -> Any:
    """Times as an array or a traced one, none by default."""
    if jumps is None:
        return np.zeros(0)
    check_real_array(jumps, "jumps", "times at which the drift jumps", finite=True)
    if np.ndim(jumps) > 1:
        raise ValueError(f"jumps must be one time or a list of them; got shape {np.shape(jumps)}.")
    return jnp.atleast_1d(jumps) if isinstance(jumps, jax.Array) else np.atleast_1d(jumps)


def read_breaks(
    jumps: Any,
    delays: Delays,
    t0,
    dt,
    order: int,
    n_steps: int,
    *,
    apart: bool,
    noisy: bool,
    bounded: bool,
) -> Breaks | None:
    """Where a solver of some order needs steps to end; None where equal steps do that anyway.

    `apart`: whether the state jumps at the start; `bounded`: whether bounds of the delays were
    given, so that other delays within them make the same program.
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
    return Breaks(jnp.concatenate(found), min(last, n_steps), bool(len(jumps)))


# Of a step: what rounding may add to a position.
TINY = 1e-6


def kinks(
    delays: Any,
    t0: Any,
    t1: Any,
    *,
    order: Checked[int] = 5,
    jumps: Any = None,
) -> Float[Array, "kink"]:
    """Return the times at which the solution of a delay equation has kinks.

    A history that does not satisfy the equation makes the first derivative jump at `t0`, the second
    a delay later, and so on; every jump of the drift does the same. A step across one has a large
    error, which a controller of steps meets by trial; `diffrax.ClipStepSizeController` takes
    these times as its `jump_ts`, and steps then end there. [`solve_sdde`][ndde_jax.solve_sdde] does
    so by itself.

    **Arguments:**

    - `delays`: in units of time.
    - `t0`, `t1`: start and end.
    - `order`: that of the solver: sums of so many delays are kinks to it (5).
    - `jumps`: times at which the drift itself jumps, none by default.

    **Returns:** ascending times between `t0` and `t1`, both left out.

    **Raises:** `ValueError` for delays that are not positive numbers.

    ```python
    import ndde_jax as ndde

    print(ndde.simulate.kinks((1.0, 1.5), 0.0, 3.2, order=2)[1])  # 1.5
    ```
    """
    check_real_array(delays, "delays", "in units of time", finite=True, above=0)
    if np.ndim(delays) > 1:
        raise ValueError(
            f"delays must be one number or one per delay; got shape {np.shape(delays)}."
        )
    check_number(t0, "t0")
    check_number(t1, "t1")
    check_whole(order, "order")
    values = np.atleast_1d(np.asarray(delays, float))
    starts = np.concatenate([[float(t0)], np.asarray(read_jumps(jumps), float)])
    times = (starts[:, None] + (sums(len(values), order) @ values)[None]).ravel()
    times = np.sort(times[(times > float(t0)) & (times < float(t1))])
    # Sums of different delays that are equal but for rounding.
    apart = np.diff(times, prepend=-np.inf) > 1e-9 * (float(t1) - float(t0))
    return jnp.asarray(times[apart], jnp.result_type(float))
