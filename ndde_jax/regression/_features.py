"""The features of one input: a straight line and the bends of a restricted cubic spline."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Knots of restricted cubic splines (Harrell, Regression Modeling Strategies, 2015, table 2.3).
QUANTILES = (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975)
# Terms of a spline: the input itself first.
WIDTH = len(QUANTILES) - 1


def knots_of(values: Float[np.ndarray, "sample *input"]) -> Float[np.ndarray, "*input knot"]:
    """Return the knots of each input, quantiles of its values."""
    if not len(values):
        return np.zeros((*values.shape[1:], len(QUANTILES)))
    return np.moveaxis(np.quantile(values, QUANTILES, axis=0), 0, -1)


def spline_terms(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> Float[Array | np.ndarray, "*input term"]:
    """Return the terms of a restricted cubic spline of every input; the first is the input itself.

    Linear beyond the outer knots, so that rare extremes have no leverage (Harrell, 2015, equation
    2.25).
    """
    xp = np if isinstance(z, np.ndarray) and isinstance(knots, np.ndarray) else jnp
    span = xp.maximum(knots[..., -1] - knots[..., 0], 1e-6)
    wide = xp.maximum(knots[..., -1] - knots[..., -2], 1e-6)
    beyond = [xp.maximum(z - knots[..., k], 0) / span for k in range(knots.shape[-1])]
    # Several times as quick as a power.
    *cubes, before, last = [u * u * u for u in beyond]
    curved = [
        cube
        - before * (knots[..., -1] - knots[..., k]) / wide
        + last * (knots[..., -2] - knots[..., k]) / wide
        for k, cube in enumerate(cubes)
    ]
    return xp.stack([z, *curved], axis=-1)
