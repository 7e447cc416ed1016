"""The arguments of a simulation, checked before anything is compiled."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import (
    argument_error,
    check_key,
    check_number,
    check_real_array,
    check_sizes,
    is_traced,
)
from .._memory import round_size
from .._types import namespace_of, to_jax
from ..models._model import AbstractDelayModel
from ._kinks import read_breaks
from ._problem import (
    ConstantHistory,
    Delays,
    FunctionHistory,
    GridHistory,
    LearnedDrift,
    Problem,
    concrete,
    constant,
    noise_shape,
    read_delays,
)
from ._tableau import Tableau

# The largest number of steps that a 32-bit index counts.
MOST_STEPS = 2**31 - 1


def check_counts(n_steps: Any, save_every: Any) -> None:
    """Raise an error unless the counts are positive whole numbers."""
    for name, value in (("n_steps", n_steps), ("save_every", save_every)):
        whole = isinstance(value, int | np.integer)
        whole = whole and not isinstance(value, bool | np.timedelta64)
        if not whole or value < 1:
            raise argument_error(name, "a positive whole number", value)
        if value > MOST_STEPS:
            raise ValueError(f"{name} must be at most {MOST_STEPS}; got {value}.")
    if save_every > n_steps:
        raise ValueError(
            f"save_every = {save_every} exceeds n_steps = {n_steps}, so no state is saved."
        )


class Given(NamedTuple):
    """The parts of the equation to simulate, from a `System` or from arguments."""

    drift: Any
    delays: Any
    dt: Any
    history: Any
    sigma: Any
    name: str  # of the argument that gave the delays


def is_system(value: Any) -> bool:
    """Return whether a value is a `System`; this folder does not import the class."""
    return all(hasattr(value, name) for name in ("drift", "lags", "history", "sigma", "dt"))


def read_system(drift, delays, lags, dt, history, sigma, *, noisy: bool) -> Given:
    """Return the parts of the equation; a `System` supplies those that are not arguments."""
    if delays is not None and lags is not None:
        raise ValueError("give the delays as delays= or as lags=, which mean the same; got both.")
    name = "delays" if lags is None else "lags"
    delays = lags if delays is None else delays
    if is_system(drift):
        own = drift.lags if np.shape(drift.lags)[0] else None
        delays = own if delays is None else delays
        dt = drift.dt if dt is None else dt
        history = drift.history if history is None else history
        if sigma is None and noisy:
            sigma = drift.sigma
        drift = drift.drift
    if history is None:
        raise ValueError(
            "history is missing; give a state [dim], samples [time dim] or a function of time. "
            "Only a System has its own."
        )
    return Given(drift, delays, dt, history, 0.0 if sigma is None else sigma, name)


def read_bounds(delay_bounds: Any, lag_bounds: Any) -> Any:
    """Return the bounds from one of their two names."""
    if delay_bounds is not None and lag_bounds is not None:
        raise ValueError(
            "give the bounds as delay_bounds= or as lag_bounds=, which mean the same; got both."
        )
    return lag_bounds if delay_bounds is None else delay_bounds


def read_problem(
    given: Given,
    args: Any,
    t0: Any,
    bounds: Any,
    tableau: Tableau,
    *,
    diagonal: bool = False,
    y0: Any = None,
    jumps: Any = None,
    n_steps: int | None = None,
    few_sizes: bool = False,
) -> Problem:
    """Return the problem, checked as far as possible without running the drift.

    With `n_steps`, the breaks of a run of this length are tracked for a solver of this order.
    """
    drift, lags, dt, history, sigma, name = given
    if not callable(drift):
        raise argument_error(
            "drift", "a function drift(t, x, lagged, args), or a learned model", drift
        )
    if not callable(history):
        check_real_array(history, "history", "a state [dim] or samples [time dim]")
    dtype = _dtype(history)
    check_number(t0, "t0")
    start = concrete(t0)
    t0 = constant(t0, dtype)
    if isinstance(drift, AbstractDelayModel):
        if lags is not None:
            raise ValueError(f"a learned model has its own lags; omit {name}.")
        dt, delays = _model_grid(drift, dt, dtype)
        spacing, needed = drift.dt, max(drift.lags) + 1
        drift = LearnedDrift(drift)
    else:
        check_signature(drift)
        dt = read_step(dt, lags)
        delays, needed = read_delays(lags, dt, bounds, dtype, name, few_sizes=few_sizes)
        spacing = dt
    _check_resolution(start, concrete(dt), dtype)
    dt = constant(dt, dtype)
    past = read_history(history, spacing, needed, dtype)
    order, rule = tableau.order, tableau.rule
    sigma = read_sigma(sigma, past.shape, order, dtype, diagonal=diagonal)
    y0 = read_start(y0, past.shape, dtype)
    breaks = None
    if tableau.stages and jumps is not None:
        raise ValueError(
            f"{type(tableau.solver).__name__} does not divide its steps, so it cannot handle "
            "jumps; use diffrax.Heun()."
        )
    # A solver that reads stages of earlier steps is on the right side of a jump at the start.
    if n_steps is not None and not tableau.stages:
        how = dict(apart=y0 is not None, noisy=sigma is not None, bounded=bounds is not None)
        how["few_sizes"] = few_sizes
        breaks = read_breaks(jumps, delays, t0, dt, order, n_steps, **how)
    # Python floats would be part of the program, which would be recompiled for each value.
    floats = lambda leaf: constant(leaf, dtype) if isinstance(leaf, float) else leaf  # noqa: E731
    args = jax.tree.map(floats, args)
    return Problem(drift, sigma, args, dt, t0, diagonal, rule, delays, past, y0, breaks)


def check_signature(function: Callable, name: str = "drift") -> None:
    """Raise an error if a drift or other coefficient clearly does not take four arguments."""
    try:
        inspect.signature(function).bind(0.0, None, None, None)
    except ValueError:
        return
    except TypeError as error:
        neutral = " Delayed derivatives (neutral equations) are not solved." * (name == "drift")
        raise ValueError(
            f"{name} must be a function {name}(t, x, lagged, args) of the time, the state, the "
            f"delayed states and args; {error}.{neutral}"
        ) from error


def _check_resolution(t0: Any, dt: Any, dtype: Any) -> None:
    """Raise an error if the precision cannot tell the times of successive steps apart."""
    if t0 is None or dt is None:
        return
    if np.spacing(np.abs(np.asarray(t0, dtype))) > np.abs(dt) / 16:
        raise ValueError(
            f"{jnp.dtype(dtype).name} cannot resolve times dt = {float(dt):g} apart "
            f"at t0 = {float(t0):g}; count time from the start, t0=0, or enable "
            'jax.config.update("jax_enable_x64", True).'
        )


def read_start(y0: Any, state: tuple[int, ...], dtype) -> Any:
    """Return the state at the start, given apart from the history, or None."""
    if y0 is None:
        return None
    check_real_array(y0, "y0", f"a state {list(state)}", finite=True)
    if np.shape(y0) != state:
        raise ValueError(f"y0 must have the shape of a state, {state}; got {np.shape(y0)}.")
    return to_jax(y0, dtype)


def read_step(dt: Any, lags: Any) -> Any:
    """Return the step, a positive number; it may be traced only without lags."""
    if dt is None:
        raise ValueError("dt is missing; give the length of a step, in units of time.")
    check_number(dt, "dt")
    if is_traced(dt):
        # Also if only grad traces it: the value would be known, but the derivative lost.
        if lags is not None:
            raise ValueError(
                "dt is traced by jit, vmap or grad; with delays it must be a number, since it "
                "fixes the size of buffers."
            )
        return dt
    known = concrete(dt)
    if known is None or known.ndim != 0 or not (np.isfinite(known) and known > 0):
        raise argument_error("dt", "a positive number", dt)
    check_sizes(known, jnp.result_type(float), "dt")
    return float(known)


def _dtype(history: Any):
    """Return the dtype of the simulation, which is that of its history."""
    default = jnp.result_type(float)
    if callable(history):
        history = _answer_of(history, default)
    found = getattr(history, "dtype", default)
    # NumPy's double precision is used only if JAX has it enabled.
    found = jax.dtypes.canonicalize_dtype(found)
    return found if jnp.issubdtype(found, jnp.floating) else default


def _answer_of(history: Callable, dtype: Any) -> Any:
    """Return the shape and dtype that a history function returns."""
    try:
        return jax.eval_shape(history, jax.ShapeDtypeStruct((), dtype))
    except TypeError as error:
        raise ValueError(
            f"history(t) must be a function of time that JAX can trace; it fails with: {error}"
        ) from error


def _model_grid(model, dt, dtype) -> tuple[Any, Delays]:
    """Return the step and delays of a learned model, whose lags are whole numbers of steps."""
    substeps = 1
    if dt is not None:
        check_number(dt, "dt", above=0)
        own, given = concrete(model.dt), None if is_traced(dt) else concrete(dt)
        if own is None or given is None:
            raise ValueError(
                "with a learned model, dt fixes the size of buffers, so neither dt nor the "
                "model's own may be traced by jit, vmap or grad; omit dt, or close over the "
                "model."
            )
        substeps = max(round(float(own) / float(given)), 1)
        if not abs(float(own) / float(given) / substeps - 1) < 1e-4:
            raise ValueError(
                f"dt must be the model's own, {float(own):g}, or an integer fraction of it; "
                f"got {float(given):g}."
            )
    steps = [substeps * lag for lag in model.lags if lag > 0]
    ends = min(steps, default=1), max(steps, default=0)
    return model.dt / substeps, Delays(to_jax(steps, dtype), *ends, True)


def read_history(history: Any, spacing, needed: int, dtype) -> Any:
    """Return the history as a function of time.

    It is given as a function, a constant state `[dim]` or samples `[time *state]`.
    """
    if callable(history):
        state = _answer_of(history, dtype)
        if not getattr(state, "shape", ()):
            raise ValueError(
                f"history(t) must return the state, an array [dim] or [batch dim]; got {state}."
            )
        return FunctionHistory(history, state.shape, dtype)
    values = to_jax(history, dtype)
    if values.ndim == 0:
        raise ValueError("history must be a state [dim], samples [time dim] or a function of time.")
    known = concrete(history)
    if known is not None and not np.isfinite(known).all():
        raise ValueError(
            "history must be finite; fill or remove its missing or infinite values first."
        )
    if 0 in values.shape:
        raise ValueError(f"history must hold at least one number; got shape {values.shape}.")
    if values.ndim == 1:
        return ConstantHistory(values)
    if values.shape[0] < needed:
        raise ValueError(
            f"history has {values.shape[0]} samples, too few for the longest lag; it needs "
            f"{needed}, the last of them at the start."
        )
    # A program is compiled for each number of samples, so samples that are not read are dropped,
    # except for a few. Interpolation needs two of these.
    values = values[-round_size(needed + 2) :]
    # Interpolated records begin one step before the longest delay: extrapolate by one sample.
    if needed > 1:
        xp = namespace_of(values)
        values = xp.asarray(values)
        values = to_jax(xp.concatenate([2 * values[:1] - values[1:2], values]))
    return GridHistory(values, jnp.asarray(spacing, dtype))


def read_sigma(sigma: Any, state: tuple[int, ...], order: int, dtype, *, diagonal: bool) -> Any:
    """Return the diffusion, checked; None if there is none."""
    if callable(sigma):
        if order > 1:
            raise ValueError(
                "a diffusion that depends on the state needs solver=diffrax.Euler() or "
                "ItoMilstein() (Itô), or EulerHeun() or StratonovichMilstein() (Stratonovich); "
                "other solvers take a constant sigma."
            )
        check_signature(sigma, "sigma")
        return sigma
    dim = state[-1]
    check_real_array(sigma, "sigma", f"one, a diagonal [{dim}] or a matrix [{dim} noise]")
    known = None if is_traced(sigma) else np.asarray(sigma)
    sigma = constant(sigma, dtype) if isinstance(sigma, float | int) else to_jax(sigma, dtype)
    noise_shape(sigma.shape, state, diagonal, "sigma")
    if known is not None and not np.all(np.isfinite(known)):
        raise ValueError("sigma must be finite; it holds missing or infinite values.")
    # A zero that is not traced needs no draws.
    return None if known is not None and not known.any() else sigma


def read_noise(key: Any, increments: Any, problem: Problem, n_steps: int) -> Any:
    """Return a key, increments, or None if there is no noise."""
    state = problem.history.shape
    if problem.sigma is None:
        return None
    if key is not None and increments is not None:
        raise ValueError("give the noise as key= or as increments=; got both.")
    if increments is not None:
        check_real_array(increments, "increments", "[time *noise]")
        noise = to_jax(increments, problem.dt.dtype)
        if noise.ndim == 0 or noise.shape[0] != n_steps:
            raise ValueError(
                f"increments must be [time *noise], one for each of {n_steps} steps; got shape "
                f"{noise.shape}."
            )
        return noise
    if key is None:
        raise ValueError("sigma is not zero: pass key= for the noise, or increments=.")
    dtype = getattr(key, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key) or key.ndim == 0:
        key = check_key(key)
    if key.ndim >= len(state) or key.shape != state[: key.ndim]:
        raise ValueError(
            f"key must be one key or one per member of a batch, shape {state[:-1]}; got shape "
            f"{key.shape}. Under vmap each member takes one."
        )
    return key
