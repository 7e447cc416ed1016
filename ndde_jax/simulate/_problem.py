"""The equation to solve, as a value, with its delays in units of steps."""

import dataclasses
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._checks import argument_error, check_real_array, is_traced
from .._memory import round_size
from .._types import to_jax
from ..models._model import AbstractDelayModel

# The largest number of past steps kept in memory.
MOST_STEPS = 10**8


def tolerance(dtype: Any) -> float:
    """Return the relative distance to a whole number of steps within which a delay is on the grid.

    0.3 / 0.1 is not 3 in floating point, and 0.3 differs between single and double precision.
    """
    return 1e-7 if jnp.finfo(dtype).bits == 64 else 1e-5


# Run lengths that programs are compiled for, in units of a power of ten.
ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def rounded(n: int) -> int:
    """Return the next round number, at least `n`; there are ten per decade."""
    power = 10 ** max(len(str(n)) - 2, 0)
    return n if n < 10 else next(r * power for r in ROUND if r * power >= n)


class Delays(eqx.Module):
    """The delays τ/dt, with the static bounds that fix the size of buffers and blocks.

    - `steps`: τ/dt, a differentiable leaf.
    - `shortest`, `longest`: whole numbers of steps that enclose all delays.
    - `on_grid`: whether every delay is known to be a whole number of steps.
    - `out_of_bounds`: 0, or NaN if a delay lies outside the given bounds; None if none can.
        Delays outside are set to a bound, so that lagged values stay finite.
    - `moved`: whether derivatives with respect to the delays may be taken.
    """

    steps: Float[Array, "delay"]
    shortest: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)
    on_grid: bool = eqx.field(static=True)
    out_of_bounds: Float[Array, ""] | None = None
    moved: bool = eqx.field(static=True, default=True)

    @property
    def number(self) -> int:
        """The number of delays."""
        return self.steps.shape[0]

    @property
    def near(self) -> Bool[Array, "delay"]:
        """A mask of the delays that are whole numbers of steps up to rounding."""
        fraction = jax.lax.stop_gradient(self.split()[1])
        return jnp.abs(fraction) <= tolerance(fraction.dtype) * self.steps

    @property
    def reach(self) -> Int[Array, ""]:
        """The number of steps before the start at which reading of the history begins."""
        return jnp.max(self.split()[0]).astype(jnp.asarray(0).dtype) + 1

    def split(self) -> tuple[Int[Array, "delay"], Float[Array, "delay"]]:
        """Return the whole steps and the remaining fraction; only the fraction has a gradient."""
        fixed = jax.lax.stop_gradient(self.steps)
        whole = jnp.floor(fixed * (1 + tolerance(fixed.dtype)))
        return whole.astype(jnp.int32), self.steps - whole


def read_delays(
    lags: Any, dt: Any, bounds: Any, dtype: Any, name: str = "lags", *, few_sizes: bool = False
) -> tuple[Delays, int]:
    """Return the checked delays and the number of history samples that they need.

    `name` is the argument they came from, `lags` or `delays`, in units of time. With `few_sizes`,
    delays of similar length share a program.
    """
    limits = {"lags": "lag_bounds"}.get(name, "delay_bounds")
    lags = () if lags is None else lags
    if callable(lags):
        raise ValueError(
            f"{name} that depend on time or state need a buffer of unknown size; pass the "
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
        return Delays(lags, 1, 0, True), 1
    steps, out_of_bounds, close = lags / dt, None, tolerance(dtype)
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
            raise argument_error(limits, "two numbers, 0 < shortest <= longest", bounds)
        on_grid = False
        steps, out_of_bounds = _held_within(lags, known, bounds, dt, name, limits)
        low, high = (float(bound) / float(dt) for bound in bounds)
    if not math.isfinite(high) or low <= 0:
        raise argument_error(limits, "finite", bounds)
    if high > MOST_STEPS:
        raise ValueError(
            f"{name} of up to {high * float(dt):.3g} are {high:.3g} steps of dt = "
            f"{float(dt):.3g}, more than {MOST_STEPS:.0e} that can be kept in memory; use a "
            "larger dt."
        )
    shortest = math.floor(low * (1 + close))
    longest = math.ceil(high * (1 - close))
    if shortest < 1:
        raise ValueError(
            f"the shortest of {name}, {low * float(dt):g}, is below the step dt = {float(dt):g}, "
            "so a step would need the state at its own end; use a dt of at most the shortest "
            "delay."
        )
    needed = longest + 1
    if few_sizes:
        longest = round_size(math.floor(high * (1 + close)) + 1)
        shortest = round_size(shortest, up=False)
    return Delays(steps, shortest, longest, on_grid, out_of_bounds), needed


def _held_within(lags, known, bounds, dt, name: str, limits: str):
    """Return delays in steps, set to a bound if outside, and `out_of_bounds` of `Delays`."""
    close = tolerance(lags.dtype)
    low, high = float(bounds[0]) * (1 - close), float(bounds[1]) * (1 + close)
    if known is not None:
        if np.any(known < low) or np.any(known > high):
            raise ValueError(
                f"{name} must lie within {limits} = ({bounds[0]:g}, {bounds[1]:g}), which fix the "
                f"size of buffers; got {known}. Widen the bounds."
            )
        return lags / dt, None
    inside = (lags >= low) & (lags <= high)
    held = jnp.where(inside, lags, jnp.asarray(bounds[0], lags.dtype))
    # Its derivative is too large to pass for a real one, unless NaN values are excluded.
    steep = jnp.finfo(lags.dtype).max * jnp.sum(lags - jax.lax.stop_gradient(lags))
    return held / dt, jnp.where(jnp.all(inside), 0, jnp.nan + steep)


def constant(value: Any, dtype: Any) -> Any:
    """Return `jnp.asarray(value, dtype)`, cached for Python numbers.

    Making the array takes as long as some thousand steps.
    """
    if isinstance(value, float | int):
        return _constant(float(value), np.dtype(dtype))
    return jnp.asarray(value, dtype)


@lru_cache(maxsize=1024)
def _constant(value: float, dtype: Any) -> Array:
    with jax.ensure_compile_time_eval():
        return to_jax(value, dtype)


def concrete(value: Any) -> np.ndarray | None:
    """Return the numbers behind a value if they are known now (also under an eager `grad`)."""
    # Only if traced: inside jit the result of any operation is traced, even on plain numbers.
    if is_traced(value):
        value = jax.lax.stop_gradient(value)
    try:
        return np.asarray(value, float)
    except jax.errors.TracerArrayConversionError:
        return None


def _shape_of(function: Callable, at: tuple[Any, ...], name: str) -> Any:
    """Return the shape of a user function's result.

    **Raises:** `ValueError` for a function that JAX cannot trace, and for one that indexes beyond
    the end of the state or of the delays, where JAX would silently read the last entry.
    """

    def called():
        known = (np.zeros(value.shape, value.dtype) for value in at[1:3])
        with np.errstate(all="ignore"):
            try:
                function(at[0], *known, *at[3:])
            except IndexError:
                raise
            except Exception:  # failing on NumPy arrays is no mistake
                pass
        return function(*at)

    try:
        return jax.eval_shape(called)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(
            f"{name}(t, x, lagged, args) must be a function that JAX can trace: with jax.numpy in "
            "place of numpy, and jax.numpy.where in place of `if` on values. It fails with: "
            f"{str(error).splitlines()[0]}"
        ) from error
    except IndexError as error:
        raise ValueError(
            f"{name}(t, x, lagged, args) indexes beyond an array: x has the shape {at[1].shape}, "
            f"and delays= makes lagged {at[2].shape}. It fails with: {error}"
        ) from error


class Breaks(eqx.Module):
    """The times at which the solution or one of its derivatives may jump, in steps from the start.

    - `at`: positions, a differentiable leaf, unordered; those outside the run are ignored.
    - `last`: a static number of steps after which there are no breaks.
    - `forced`: whether the drift itself jumps at some of them.
    """

    at: Float[Array, "kink"]
    last: int = eqx.field(static=True)
    forced: bool = eqx.field(static=True)


class Problem(eqx.Module):
    """A stochastic delay differential equation on a grid; all arrays are leaves."""

    drift: Callable
    sigma: Any
    args: Any
    dt: Float[Array, ""]
    t0: Float[Array, ""]
    diagonal: bool = eqx.field(static=True)
    rule: str = eqx.field(static=True)  # the solver's: "ito", "ito milstein", "milstein", "heun"
    delays: Delays
    history: Any  # callable, with the `shape` of a state
    y0: Float[Array, "*state"] | None = None  # the state at the start, if not the history's
    breaks: Breaks | None = None

    def time(self, step, fraction=0.0) -> Float[Array, "*step"]:
        """Return the time of a step.

        Computed from the step number, because a running sum of dt drifts in single precision.
        """
        dtype = self.dt.dtype
        return self.t0 + (jnp.asarray(step, dtype) + jnp.asarray(fraction, dtype)) * self.dt

    def noise(self, t, y, lagged, increment, dt) -> Float[Array, "*state"] | None:
        """Return the contribution of a Brownian increment over a step of `dt` to the state.

        For Euler–Maruyama (Itô) it is Σ dW. Milstein's method adds ½ Σ ∂Σ/∂x (dW² − dt), or
        ½ Σ ∂Σ/∂x dW² for Stratonovich. Heun's takes the mean of Σ dW before and after the noise.
        """
        if increment is None:
            return None

        def diffusion(y):
            given = self.sigma
            return jnp.asarray(given(t, y, lagged, self.args) if callable(given) else given)

        added = lambda y: apply_sigma(diffusion(y), increment, diagonal=self.diagonal)  # noqa: E731
        if not callable(self.sigma) or self.rule == "ito":
            return added(y)
        if self.rule == "heun":
            first = added(y)
            return 0.5 * (first + added(y + first))
        sigma, slope = jax.jvp(diffusion, (y,), (diffusion(y),))
        squares = increment**2 - (dt if self.rule == "ito milstein" else 0)
        return sigma * increment + 0.5 * slope * squares

    @property
    def without_past(self) -> "Problem":
        """The problem during the run, when the history is no longer read."""
        return dataclasses.replace(self, history=None, y0=None)

    def past(self, step) -> Float[Array, "*state"]:
        """Return the history at `step` ≤ 0, in steps from the start."""
        if isinstance(self.history, GridHistory):
            # By the time since the start: far from zero single precision has no digits left.
            return self.history(jnp.asarray(step, self.dt.dtype) * self.dt)
        return self.history(self.time(step))

    def start(self) -> Float[Array, "*state"]:
        """Return the state at the start."""
        return self.past(0) if self.y0 is None else self.y0

    def check(self) -> tuple[int, ...] | None:
        """Return the shape of one Brownian increment, None without noise.

        Raises an error for functions that return a wrong shape. This traces them, so call it inside
        compiled code.
        """
        state = self.history.shape
        past = jnp.zeros((1 + self.delays.number, *state), self.dt.dtype)
        at = (self.t0, past[0], past[1:], self.args)
        rate = _shape_of(self.drift, at, "drift")
        if getattr(rate, "shape", None) != state:
            raise ValueError(
                "drift(t, x, lagged, args) must return the shape of the state in its history, "
                f"{state}; got {rate}."
            )
        if jnp.issubdtype(rate.dtype, jnp.complexfloating):
            raise ValueError(
                f"drift(t, x, lagged, args) must return real numbers; got {rate.dtype}. Write real "
                "and imaginary parts as variables."
            )
        if self.sigma is None:
            return None
        shape = np.shape(self.sigma)
        if callable(self.sigma):
            shape = getattr(_shape_of(self.sigma, at, "sigma"), "shape", None)
            if "milstein" in self.rule:
                self._check_milstein(at, shape)
        return noise_shape(shape, state, self.diagonal, "sigma(t, x, lagged, args)")

    def _check_milstein(self, at, shape) -> None:
        """Raise an error for noise that is not diagonal or depends on the past.

        Milstein's method omits the terms of both.
        """
        state = self.history.shape
        if shape != state:
            raise ValueError(
                f"Milstein's method needs diagonal noise, a sigma of shape {state}; got {shape}. "
                "Use diffrax.Euler() (Itô) or diffrax.EulerHeun() (Stratonovich)."
            )
        closed = jax.make_jaxpr(lambda lagged: self.sigma(*at[:2], lagged, at[3]))(at[2])
        if any(partial_eval.dce_jaxpr(closed.jaxpr, [True])[1]):
            raise ValueError(
                "Milstein's method needs a sigma of the present state, but this one reads "
                "lagged, which requires double integrals over two times. Use diffrax.Euler() "
                "(Itô) or diffrax.EulerHeun() (Stratonovich)."
            )

    def crossed(self, y) -> Bool[Array, ""]:
        """Return whether the diffusion of a variable depends on another variable.

        Milstein's method omits such terms and then loses its order.
        """
        n, past = y.shape[-1], jnp.zeros((self.delays.number, *y.shape), y.dtype)
        sigma = lambda y: jnp.asarray(self.sigma(self.t0, y, past, self.args))  # noqa: E731

        def by(unit):
            return jax.jvp(sigma, (y,), (jnp.broadcast_to(unit, y.shape),))[1]

        slopes = jax.vmap(by, out_axes=-1)(jnp.eye(n, dtype=y.dtype))
        return jnp.any(jnp.where(jnp.eye(n, dtype=bool), 0, slopes) != 0)


class LearnedDrift(eqx.Module):
    """A learned model as drift(t, x, lagged, args): `x` and `lagged` make up the model's input."""

    model: AbstractDelayModel

    def __call__(self, t, x, lagged, args=None):
        """Return the drift of the model, for one state or a batch of them."""
        present = x[None] if self.model.lags[0] == 0 else x[None][:0]
        history = jnp.concatenate([present, lagged])
        model = self.model
        for _ in range(x.ndim - 1):
            model = jax.vmap(model, in_axes=1)
        return model(history)


class ConstantHistory(eqx.Module):
    """A constant state at all times before the start."""

    value: PyTree[Float[Array, "..."]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the state."""
        return self.value.shape

    def __call__(self, t):
        """Return the state."""
        return self.value


class FunctionHistory(eqx.Module):
    """A history given as a function of time, in the precision of the simulation."""

    function: Callable
    shape: tuple[int, ...] = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __call__(self, t):
        """Return the state at a time before the start."""
        return jnp.asarray(self.function(t), self.dtype)


class GridHistory(eqx.Module):
    """A history of equally spaced samples, the last one at the start, with cubic interpolation.

    A function of the time since the start. Exact at the samples; linear if there are fewer than
    four.
    """

    values: Float[Array, "time *state"]
    dt: Float[Array, ""]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the state."""
        return self.values.shape[1:]

    def __call__(self, t):
        """Return the state at a time within the samples."""
        n = self.values.shape[0]
        position = t / self.dt + (n - 1)
        width = min(n, 4)
        if width < 4:
            width = min(n, 2)
        first = jnp.floor(position).astype(jnp.int32) - (width - 1) // 2
        first = jnp.clip(first, 0, n - width)
        at = position - first.astype(position.dtype)
        rows = jax.lax.dynamic_slice_in_dim(self.values, first, width)
        weights = jnp.stack(lagrange_weights(at, width)).astype(rows.dtype)
        return jnp.tensordot(weights, rows, axes=1)


def lagrange_weights(at: Any, count: int) -> list[Any]:
    """Return the weights at position `at` of the polynomial through samples 0 to `count` − 1."""
    found = []
    for a in range(count):
        weight = 0 * at + 1.0
        for b in range(count):
            if b != a:
                weight = weight * (at - b) / (a - b)
        found.append(weight)
    return found


def noise_shape(shape: Any, state: tuple[int, ...], diagonal: bool, what: str) -> tuple[int, ...]:
    """Return the shape of a Brownian increment for a Σ of this shape.

    Two axes or more are a matrix unless `diagonal` is set: with as many members as variables, the
    diagonals of a batch and a matrix have the same shape. Raises `ValueError` for any other shape.
    """
    dim, batch = state[-1], state[:-1]
    if shape in ((), (dim,)) or (diagonal and shape == state):
        return state
    matrix = shape is not None and len(shape) >= 2 and not diagonal
    if matrix and shape[-2] == dim and shape[:-2] in ((), batch):
        return (*batch, shape[-1])
    hint = ""
    if diagonal:
        allowed = f"a number or diagonals {list(state)}"
    else:
        allowed = f"a number, a diagonal [{dim}] or a matrix [{dim} noise]"
        if batch:
            allowed += f", or one matrix per member, {[*batch, dim]} and noise"
            hint = " Use diagonal=True for one diagonal per member." if shape == state else ""
    raise ValueError(f"{what} must be {allowed}; got shape {shape}.{hint}")


def apply_sigma(sigma, increment, *, diagonal: bool):
    """Return Σ dW for a number, a diagonal or a matrix, the latter two optionally per member."""
    if sigma.ndim >= 2 and not diagonal:
        return jnp.einsum("...ij,...j->...i", sigma, increment)
    return sigma.reshape((1,) * (increment.ndim - sigma.ndim) + sigma.shape) * increment
