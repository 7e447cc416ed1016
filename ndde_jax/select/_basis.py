"""Restricted cubic splines of one input, as orthonormal columns."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..regression._features import QUANTILES, WIDTH

# Columns of a spline.
N_FEATURES = WIDTH
# Of the size of a term beside that of the variable itself: less is rounding in single precision,
# as where knots coincide.
LEAST = 1e-5


def centred(columns, root):
    """Rows times the root of their weight, so that weighted means become 0 and sums plain."""
    total = jnp.maximum(jnp.sum(root**2), 1)
    return (columns - ((root**2) @ columns / total)[None]) * root[:, None]


def normalised(columns, root):
    """Centred, and of unit length where they vary."""
    columns = centred(columns, root)
    norm = jnp.sqrt(jnp.sum(columns**2, axis=0))
    return columns / jnp.where(norm > 0, norm, 1)[None]


def _terms(columns, root):
    """The same of a variable and its curves, and zero where a curve is nothing but rounding."""
    size = jnp.sqrt(jnp.sum(centred(columns, root) ** 2, axis=0))
    return jnp.where((size > LEAST * size[0])[None], normalised(columns, root), 0)


def spline(z: Float[Array, "window"], root: Float[Array, "window"]):
    """Restricted cubic spline of one input: N_FEATURES orthonormal columns of mean zero."""
    at = jnp.array(QUANTILES, z.dtype)
    knots = jnp.nanquantile(jnp.where(root > 0, z, jnp.nan), at)
    span = jnp.maximum(knots[-1] - knots[0], 1e-6)
    wide = jnp.maximum(knots[-1] - knots[-2], 1e-6)

    def cube(c):
        return (jnp.maximum(z - c, 0) / span) ** 3

    # Linear beyond the outer knots, so that rare extremes have no leverage.
    curved = [
        cube(c)
        - cube(knots[-2]) * (knots[-1] - c) / wide
        + cube(knots[-1]) * (knots[-2] - c) / wide
        for c in knots[:-2]
    ]
    columns = _terms(jnp.stack([z, *curved], axis=1), root)
    basis, triangle = jnp.linalg.qr(columns)
    # Of a variable with few values some columns are redundant; what is left of them is rounding.
    return jnp.where((jnp.abs(jnp.diag(triangle)) > 1e-4)[None], basis, 0)
