"""Brownian increments on a grid, drawn from one key per system."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

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
