"""Delays in units of steps: what of them is static, and where each reading falls."""

import math
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._checks import check_real_array, refusal

# A delay within this relative distance of a whole number of steps is taken to be on the grid:
# 0.3 / 0.1 is not 3 in floating point.
TOLERANCE = 1e-5
# Of the past in memory.
MOST_STEPS = 10**8


class Delays(eqx.Module):
    """Delays τ/dt, with the static bounds that fix the size of buffers and blocks.

    - `steps`: τ/dt, a differentiable leaf.
    - `shortest`, `longest`: whole numbers of steps that enclose all delays.
    - `on_grid`: whether every delay is known to be a whole number of steps.
    """

    steps: Float[Array, "delay"]
    shortest: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    on_grid: bool = eqx.field(static=True)

    @property
    def number(self) -> int:
        """How many delays."""
        return self.steps.shape[0]

    def split(self) -> tuple[Int[Array, "delay"], Float[Array, "delay"]]:
        """Whole steps, and the fraction of a step left over; only the latter has a gradient."""
        fixed = jax.lax.stop_gradient(self.steps)
        whole = jnp.floor(fixed * (1 + TOLERANCE))
        return whole.astype(jnp.int32), self.steps - whole


def read_delays(lags: Any, dt: Any, bounds: Any, order: int, dtype: Any) -> Delays:
    """Checks delays given in units of time."""
    if lags is None:
        lags = ()
    check_real_array(lags, "lags", "delays in units of time, one number or a list")
    known = concrete(lags)
    lags = jnp.asarray(lags, dtype)
    if lags.ndim > 1:
        raise ValueError(f"lags must be a number or one number per delay; got shape {lags.shape}.")
    lags = jnp.atleast_1d(lags)
    if known is not None and not (np.all(known > 0) and np.all(np.isfinite(known))):
        raise ValueError(f"lags must be positive and finite; got {known}.")
    if lags.shape[0] == 0:
        return Delays(lags, 1, 0, True)
    steps = lags / dt
    if bounds is None:
        if known is None:
            raise ValueError(
                "lags are traced by jit or vmap, so the size of buffers is unknown; pass "
                "lag_bounds=(shortest, longest), in units of time, that enclose them."
            )
        known = np.atleast_1d(known) / dt
        on_grid = bool(np.all(np.abs(known - np.round(known)) <= TOLERANCE * np.abs(known)))
        low, high = float(known.min()), float(known.max())
    else:
        both = np.asarray(bounds) if isinstance(bounds, tuple | list) else np.zeros(0)
        if both.shape != (2,) or both.dtype.kind not in "iuf" or not 0 < both[0] <= both[1]:
            raise refusal("lag_bounds", "two numbers, 0 < shortest <= longest", bounds)
        on_grid = False
        low, high = (float(bound) / float(dt) for bound in bounds)
    if not math.isfinite(high) or low <= 0:
        raise refusal("lag_bounds", "finite", bounds)
    if high > MOST_STEPS:
        raise ValueError(
            f"lags of up to {high * float(dt):.3g} are {high:.3g} steps of dt = {float(dt):.3g}, "
            f"more than {MOST_STEPS:.0e} that can be kept in memory; take a larger dt."
        )
    shortest = math.floor(low * (1 + TOLERANCE))
    longest = math.ceil(high * (1 - TOLERANCE))
    if shortest < 1:
        raise ValueError(
            f"the shortest lag, {low * float(dt):g}, is below the step dt = {float(dt):g}, so a "
            "step would need its own end; take dt no larger than the shortest lag."
        )
    if order > 2 and not on_grid and bounds is None:
        warnings.warn(
            f"dt = {float(dt):g} does not divide every lag; kinks that travel from the history "
            f"then fall inside steps, and the order drops from {order} to 2. Take dt = lag / "
            "integer if accuracy matters.",
            stacklevel=4,
        )
    return Delays(steps, shortest, longest, on_grid)


def concrete(value: Any) -> np.ndarray | None:
    """The numbers behind a value if they can be known now (also under an eager `grad`)."""
    leaves = jax.tree.leaves(value)
    # Not for all: inside jit the result of any operation is traced, also on plain numbers.
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        value = jax.lax.stop_gradient(value)
    try:
        return np.asarray(value, float)
    except jax.errors.TracerArrayConversionError:
        return None
