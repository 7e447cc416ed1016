"""Splines and products of a few inputs, which can be evaluated anywhere: what corrections are of.

Unlike the columns a search makes, which exist on the data only, these belong to a simulator.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from ..regression._features import QUANTILES

# Inputs are held this share of the range of the data beyond it, so that no path runs away along the
# straight continuation of a spline.
SPARE = 0.25
CURVED = len(QUANTILES) - 2


class Basis(eqx.Module):
    """One constant, then of every input itself and its curved spline columns, then products.

    - `inputs`: which are used, flat (lag, source).
    - `pairs`: whose products are columns, as positions in `inputs`.
    - `center`, `scale`, `knots`, `low`, `high`: of each; the last three standardised.
    """

    inputs: Int[Array | np.ndarray, "input"]
    pairs: Int[Array | np.ndarray, "pair 2"]
    center: Float[Array | np.ndarray, "input"]
    scale: Float[Array | np.ndarray, "input"]
    knots: Float[Array | np.ndarray, "input knot"]
    low: Float[Array | np.ndarray, "input"]
    high: Float[Array | np.ndarray, "input"]

    def __call__(
        self, history: Float[ArrayLike, "*batch lag dim"]
    ) -> Float[Array, "*batch feature"]:
        """All columns for physical histories."""
        return _of_histories(self, jnp.asarray(history))


# One program where it is called by itself, part of the program around it otherwise.
@partial(jax.jit, inline=True)
def _of_histories(basis, history):
    flat = history.reshape(*history.shape[:-2], -1)
    return columns(basis, flat[..., basis.inputs], jnp)


def make_basis(histories: np.ndarray, inputs: np.ndarray, pairs: np.ndarray) -> Basis:
    """Of physical histories `[row lag dim]`, in NumPy."""
    z = histories.reshape(len(histories), -1)[:, inputs]
    center, scale = z.mean(axis=0), z.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (z - center) / scale
    knots = np.quantile(z, QUANTILES, axis=0).T
    # Of a variable with few values, knots that coincide would divide by zero.
    knots = knots + 1e-6 * np.arange(len(QUANTILES))
    low, high = z.min(axis=0), z.max(axis=0)
    spare = SPARE * (high - low)
    return Basis(
        np.asarray(inputs, int), np.asarray(pairs, int).reshape(-1, 2),
        center, scale, knots, low - spare, high + spare,
    )  # fmt: skip


def columns(basis: Basis, values: Any, xp: Any) -> Any:
    """`[*batch feature]` of physical inputs `[*batch input]`, in NumPy or JAX."""
    ahead = (None,) * (values.ndim - 1)
    z = (values - basis.center[ahead]) / basis.scale[ahead]
    z = xp.clip(z, basis.low[ahead], basis.high[ahead])
    knots = basis.knots[ahead]  # [*batch input knot]
    first, before, last = knots[..., :1], knots[..., -2:-1], knots[..., -1:]
    above = xp.maximum(z[..., None] - knots, 0) / (last - first)
    cubes = above * above * above  # several times as quick as a power, in NumPy
    wide = last - before
    # Linear beyond the outer knots, so that rare extremes have no leverage (Harrell, 2015).
    curved = (
        cubes[..., :-2]
        - cubes[..., -2:-1] * (last - knots[..., :-2]) / wide
        + cubes[..., -1:] * (before - knots[..., :-2]) / wide
    )
    products = z[..., basis.pairs[:, 0]] * z[..., basis.pairs[:, 1]]
    one = xp.ones_like(z[..., :1])
    flat = curved.reshape(*z.shape[:-1], -1)
    return xp.concatenate([one, z, flat, products], axis=-1)


def families(basis: Basis) -> tuple[np.ndarray, np.ndarray]:
    """Of each column, the one or two inputs it needs (positions in `inputs`, −1 for none), and the
    family from which on it is used: 0 linear, 1 splines, 2 splines and products.
    """
    n, n_pairs = len(basis.inputs), len(basis.pairs)
    needs = np.full((1 + n + n * CURVED + n_pairs, 2), -1)
    needs[1 : 1 + n, 0] = np.arange(n)
    needs[1 + n : 1 + n + n * CURVED, 0] = np.repeat(np.arange(n), CURVED)
    needs[1 + n + n * CURVED :] = basis.pairs
    kind = np.repeat([0, 0, 1, 2], [1, n, n * CURVED, n_pairs])
    return needs, kind
