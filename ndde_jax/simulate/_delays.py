"""Delays in units of steps: their static bounds, and the position of each reading."""

import math
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._checks import check_real_array, refusal
from .._types import to_jax

# Of the past in memory.
MOST_STEPS = 10**8


def tolerance(dtype: Any) -> float:
    """Return the relative distance to a whole number of steps at which a delay is taken to be on
    the grid: 0.3 / 0.1 is not 3 in floating point, and 0.3 in single precision not that in double.
    """
    return 1e-7 if jnp.finfo(dtype).bits == 64 else 1e-5


class Delays(eqx.Module):
    """The delays τ/dt, with the static bounds that fix the size of buffers and blocks.

    - `steps`: τ/dt, a differentiable leaf.
    - `shortest`, `longest`: whole numbers of steps that enclose all delays.
    - `on_grid`: whether every delay is known to be a whole number of steps.
    - `stray`: 0, or NaN if one lies outside the bounds that were given; None where none does.
        Delays outside stand at a bound, so that whatever reads them stays finite.
    - `moved`: whether derivatives by the delays may be asked for.
    """

    steps: Float[Array, "delay"]
    shortest: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    on_grid: bool = eqx.field(static=True)
    stray: Float[Array, ""] | None = None
    moved: bool = eqx.field(static=True, default=True)

    @property
    def number(self) -> int:
        """The number of delays."""
        return self.steps.shape[0]

    @property
    def near(self) -> Bool[Array, "delay"]:
        """A mask of the delays that are whole numbers of steps but for rounding."""
        fraction = jax.lax.stop_gradient(self.split()[1])
        return jnp.abs(fraction) <= tolerance(fraction.dtype) * self.steps

    def split(self) -> tuple[Int[Array, "delay"], Float[Array, "delay"]]:
        """Return whole steps, and the fraction of a step left over; only the latter has a
        gradient.
        """
        fixed = jax.lax.stop_gradient(self.steps)
        whole = jnp.floor(fixed * (1 + tolerance(fixed.dtype)))
        return whole.astype(jnp.int32), self.steps - whole


def read_delays(lags: Any, dt: Any, bounds: Any, dtype: Any, name: str = "lags") -> Delays:
    """Return delays given in units of time, checked, by the name `lags` or `delays`."""
    limits = {"lags": "lag_bounds"}.get(name, "delay_bounds")
    if lags is None:
        lags = ()
    if callable(lags):
        raise ValueError(
            f"{name} that depend on time or state have no buffer of a known size here; give the "
            "function to ndde.simulate.DelayTerm, for diffrax.diffeqsolve."
        )
    check_real_array(lags, name, "delays in units of time, one number or a list")
    known = concrete(lags)
    lags = constant(lags, dtype)
    if lags.ndim > 1:
        raise ValueError(
            f"{name} must be a number or one number per delay; got shape {lags.shape}."
        )
    lags = jnp.atleast_1d(lags)
    if known is not None and not (np.all(known > 0) and np.all(np.isfinite(known))):
        raise ValueError(f"{name} must be positive and finite; got {known}.")
    if lags.shape[0] == 0:
        return Delays(lags, 1, 0, True)
    steps, stray, close = lags / dt, None, tolerance(dtype)
    if bounds is None:
        if known is None:
            raise ValueError(
                f"{name} are traced by jit or vmap, so the size of buffers is unknown; pass "
                f"{limits}=(shortest, longest), in units of time, that enclose them."
            )
        known = np.atleast_1d(known) / dt
        on_grid = bool(np.all(np.abs(known - np.round(known)) <= close * np.abs(known)))
        low, high = float(known.min()), float(known.max())
    else:
        both = np.asarray(bounds) if isinstance(bounds, tuple | list) else np.zeros(0)
        if both.shape != (2,) or both.dtype.kind not in "iuf" or not 0 < both[0] <= both[1]:
            raise refusal(limits, "two numbers, 0 < shortest <= longest", bounds)
        on_grid = False
        steps, stray = _held_within(lags, known, bounds, dt, name, limits)
        low, high = (float(bound) / float(dt) for bound in bounds)
    if not math.isfinite(high) or low <= 0:
        raise refusal(limits, "finite", bounds)
    if high > MOST_STEPS:
        raise ValueError(
            f"{name} of up to {high * float(dt):.3g} are {high:.3g} steps of dt = {float(dt):.3g}, "
            f"more than {MOST_STEPS:.0e} that can be kept in memory; take a larger dt."
        )
    shortest = math.floor(low * (1 + close))
    longest = math.ceil(high * (1 - close))
    if shortest < 1:
        raise ValueError(
            f"the shortest of {name}, {low * float(dt):g}, is below the step dt = {float(dt):g}, "
            "so a step would need its own end; take dt no larger than the shortest delay."
        )
    return Delays(steps, shortest, longest, on_grid, stray)


def _held_within(lags, known, bounds, dt, name: str, limits: str):
    """Return delays in steps, those outside the bounds at a bound; and whether one was, see
    `Delays`.
    """
    close = tolerance(lags.dtype)
    low, high = float(bounds[0]) * (1 - close), float(bounds[1]) * (1 + close)
    if known is not None:
        if np.any(known < low) or np.any(known > high):
            raise ValueError(
                f"{name} must lie within {limits} = ({bounds[0]:g}, {bounds[1]:g}), which fix the "
                f"size of buffers; got {known}. Take wider bounds."
            )
        return lags / dt, None
    inside = (lags >= low) & (lags <= high)
    held = jnp.where(inside, lags, jnp.asarray(bounds[0], lags.dtype))
    # With a derivative that nobody takes for one, unless what is NaN has been left out.
    steep = jnp.finfo(lags.dtype).max * jnp.sum(lags - jax.lax.stop_gradient(lags))
    return held / dt, jnp.where(jnp.all(inside), 0, jnp.nan + steep)


def constant(value: Any, dtype: Any) -> Any:
    """Return `jnp.asarray(value, dtype)`, cached for Python's numbers, because making the array
    takes as long as some thousand steps.
    """
    if isinstance(value, float | int):
        return _constant(float(value), np.dtype(dtype))
    return jnp.asarray(value, dtype)


@lru_cache(maxsize=1024)
def _constant(value: float, dtype: Any) -> Array:
    with jax.ensure_compile_time_eval():
        return to_jax(value, dtype)


def concrete(value: Any) -> np.ndarray | None:
    """Return the numbers behind a value if they can be known now (also under an eager `grad`)."""
    leaves = jax.tree.leaves(value)
    # Not for all: inside jit the result of any operation is traced, also on plain numbers.
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        value = jax.lax.stop_gradient(value)
    try:
        return np.asarray(value, float)
    except jax.errors.TracerArrayConversionError:
        return None
