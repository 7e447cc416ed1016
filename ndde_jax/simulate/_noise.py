"""Brownian increments on a grid, drawn from one key per system."""

import math
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key, PRNGKeyArray

from .._checks import argument_error, check_key, check_number, check_positive, check_whole
from .._types import Checked

# Increments are drawn in blocks of this many steps, each from its own key. A longer run then
# begins with the noise of a shorter one, and no block needs to be kept.
DRAW = 128


def increments(
    key: Key[Array, "*batch"], first: Any, n_steps: int, shape: tuple[int, ...], dt, dtype
) -> Float[Array, "time *noise"]:
    """Return √dt × standard normal draws for steps first, …, first + n_steps − 1.

    `key` is one key, or an array of keys whose axes are the leading axes of `shape`. A draw depends
    only on its key and its step, so members of a batch equal single runs bit for bit.
    """
    if key.ndim:
        each = lambda key: increments(key, first, n_steps, shape[1:], dt, dtype)  # noqa: E731
        return jax.vmap(each, out_axes=1)(key)
    n_blocks = -(-n_steps // DRAW) + 1
    blocks = first // DRAW + jnp.arange(n_blocks)
    # Flat draws equal draws in the final shape, and compile far faster.
    length = DRAW * math.prod(shape)
    draw = jax.vmap(lambda block: jr.normal(jr.fold_in(key, block), (length,), dtype))(blocks)
    draw = draw.reshape(n_blocks * DRAW, *shape)
    draw = jax.lax.dynamic_slice_in_dim(draw, first % DRAW, n_steps)
    return jnp.sqrt(jnp.asarray(dt, dtype)) * draw


def area_key(key: Key[Array, "*batch"]) -> Key[Array, "*batch"]:
    """Return the keys of the space-time Lévy areas H for the given keys of increments."""
    # No block of increments has this number.
    return jax.vmap(area_key)(key) if key.ndim else jr.fold_in(key, 2**32 - 1)


class GridBrownianPath(diffrax.AbstractBrownianPath):
    """A Brownian motion on the grid t0, t0 + dt, …, for `diffrax.diffeqsolve` with constant steps.

    The increments are those of [`solve_sdde`][ndde_jax.solve_sdde] with the same key, drawn once in
    advance. This is two thousand times cheaper than a `VirtualBrownianTree`, and valid only on its
    grid.

    **Arguments:**

    - `key`: one key per system.
    - `n_steps`, `dt`, `t0`: the grid.
    - `shape`: shape of one increment.

    **Example:**

    ```python
    import jax
    import ndde_jax as ndde

    noise = ndde.simulate.GridBrownianPath(jax.random.key(0), n_steps=100, dt=0.1, shape=(2,))
    print(noise.evaluate(0.3, 0.4))    # variance 0.1
    ```
    """

    values: Float[Array, "time *noise"]
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    dt: Float[Array, ""]

    levy_area = diffrax.BrownianIncrement

    def __init__(
        self,
        key: Checked[PRNGKeyArray],
        *,
        n_steps: Checked[int],
        dt,
        t0=0.0,
        shape: Checked[tuple[int, ...]] = (),
        dtype=None,
    ):
        key = check_key(key)
        check_whole(n_steps, "n_steps")
        check_positive(dt=dt)
        check_number(t0, "t0")
        if not isinstance(shape, tuple | list) or not all(isinstance(n, int) for n in shape):
            raise argument_error("shape", "a tuple of whole numbers", shape)
        dtype = jnp.result_type(float) if dtype is None else dtype
        self.values = increments(key, jnp.asarray(0), n_steps, tuple(shape), dt, dtype)
        self.t0 = jnp.asarray(t0, dtype)
        self.dt = jnp.asarray(dt, dtype)
        self.t1 = self.t0 + n_steps * self.dt

    def evaluate(self, t0, t1=None, left: bool = True, use_levy: bool = False):
        """Return the increment over the step from `t0` to `t1`; NaN if that is no grid step."""
        del left
        if t1 is None:
            raise ValueError("GridBrownianPath holds increments only; give both ends of a step.")
        position = (jnp.asarray(t0) - self.t0) / self.dt
        step = jnp.round(position).astype(jnp.int32)
        length = (jnp.asarray(t1) - t0) / self.dt
        off = jnp.maximum(jnp.abs(position - step.astype(position.dtype)), jnp.abs(length - 1))
        fits = (off < 1e-3) & (step >= 0) & (step < self.values.shape[0])
        value = jnp.where(fits, self.values[step], jnp.nan)
        if use_levy:
            return diffrax.BrownianIncrement(dt=self.dt, W=value)
        return value
