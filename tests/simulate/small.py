"""The noise of a path for Diffrax."""

import diffrax
import jax.numpy as jnp
import numpy as np

from ndde_jax.simulate._noise import increments


def brownian_path(key, n, dt, shape):
    """Return the sums of the increments that `solve_sdde` draws with this key, at its steps."""
    steps = increments(key, jnp.asarray(0), n, shape, dt, float)
    values = jnp.concatenate([jnp.zeros((1, *shape)), jnp.cumsum(steps, axis=0)])
    return diffrax.LinearInterpolation(dt * np.arange(n + 1), values)
