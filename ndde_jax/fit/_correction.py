"""Correction of forward differences for the bias of the sampling interval.

A forward difference (X[k+1] − X[k]) / dt is an unbiased measurement of the *flow* over one sample,
(Φ(X[k]) − X[k]) / dt, whatever the dynamical noise, but it differs from the drift by
dt/2 · (∂G) G + …, a tenth of it at a hundred samples per period. That shows as false edges (paths
of two steps look like one), and a sparse network cannot represent it. Central differences have no
such bias but measure the current velocity, not the drift, where noise drives the system.

So the difference between flow and drift is computed, with the model fitted so far, and subtracted
from the data: deferred correction. Its noise stays that of forward differences, its fixed point is
the drift whose one-step forecasts are right, and everything that fits, selects or scores on windows
works on corrected ones. While the model is being fitted, corrections are made at the middle of each
step, where a wrong model does the least harm.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import check_windows, refusal
from .._memory import make_room
from .._types import Checked, Scaling, to_jax
from ..models._model import AbstractDelayModel
from ..windows._windows import Windows


def correct_flow(
    windows: Checked[Windows], model: Checked[AbstractDelayModel | Callable]
) -> Windows:
    """Return windows whose forward differences are corrected to rates of change by a model.

    From each rate of change the model's own difference between flow and drift is subtracted,
    (Φ(x) − x)/h − G(x), where Φ is one classical Runge–Kutta step of the length h of the row. With
    the true model the result is its drift plus white noise, up to the noise's own O(dt).

    **Arguments:**

    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows] with `scheme="euler"`, not
        corrected before: corrections replace one another, they do not add up.
    - `model`: from [`fit_flow`][ndde_jax.fitting.fit_flow], say, with the lags of the windows. Any
        function from a physical history `[lag dim]` to a physical drift will do, if it has `lags`.

    **Returns:** `Windows` that differ in `increment` only. Lagged states are interpolated linearly
    during a step; in the last row before a gap they stand still.

    **Raises:** `ValueError` for central differences, several systems at once, or other lags.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    model = ndde.fitting.fit_graph(windows, "full", key=jax.random.key(0))
    corrected = ndde.fitting.correct_flow(windows, model)
    print(ndde.fitting.fit_graph(corrected, "full", key=jax.random.key(0))(np.array([[0.0, 1.0]])))
    ```
    """
    _check(windows)
    check_lagged_model(model)
    lags = tuple(model.lags)  # type: ignore[union-attr]
    if lags != windows.lags:
        raise ValueError(f"model must have the lags of the windows, {windows.lags}; got {lags}.")
    make_room(windows, model)
    return _correct(windows, model)


def check_lagged_model(model: Any) -> None:
    """Raise an error unless a model is a function from physical histories to a physical drift with
    `lags`.
    """
    if not callable(model) or not isinstance(getattr(model, "lags", None), tuple):
        raise refusal(
            "model", "a fitted model, or a function with the attribute lags, a tuple", model
        )


def _check(windows: Any) -> None:
    check_windows(windows, "correct_flow")
    if windows.scheme != "euler":
        raise ValueError(
            "windows must hold forward differences, which measure a flow, scheme='euler'; got "
            f"{windows.scheme!r}, which estimates the rate of change itself."
        )


@eqx.filter_jit
def _correct(windows: Windows, model) -> Windows:
    def bias(start, end, increment, h):
        rate = _rate(model, start, end)
        return _mean_rate(rate, start[0], 0.0, 1.0, h) - rate(start[0], 0.0)

    following = following_rows(windows, windows.history)
    difference = _each_step(bias, windows, following) / windows.scaling.rate_scale[None]
    # A model that leaves the attractor within one step has nothing to say there.
    difference = jnp.where(jnp.isfinite(difference), difference, 0)
    increment = windows.increment - jnp.where(windows.valid[:, None], difference, 0)
    return eqx.tree_at(lambda w: w.increment, windows, increment.astype(windows.increment.dtype))


@eqx.filter_jit
def meet_midway(windows: Windows, model, following=None, bend=None) -> Windows:
    """Return windows at the middle of every step, with the rates of change that the model needs
    there.

    `following`: standardised histories at the end of the step; by default those of the next row,
    and where that does not start there the past stands still. `bend`: how far off the straight line
    the past lies halfway, by default not at all.

    The model goes half a step forward from the start and half a step back from the end. Where the
    two do not meet, its rate of change at the middle is wrong by their distance per step. That is
    exact to second order in the step and first in the error, while a correction at the start is to
    first order in the step: rounds converge faster, and still do where steps are long.
    """

    def meet(start, end, increment, h, bend):
        rate = _rate(model, start, end, bend)
        x = start[0]
        # Both ways as a batch, since a model is compiled wherever it is called.
        ends = jnp.stack([x, x + h * increment]), jnp.arange(2, dtype=x.dtype)
        return _meeting(rate, x, *jax.vmap(lambda x, at: _mean_rate(rate, x, at, 0.5, h))(*ends), h)

    s = windows.scaling
    following = following_rows(windows, windows.history) if following is None else following
    bend = jnp.zeros_like(following) if bend is None else bend
    move, difference = _each_step(meet, windows, following, bend * s.scale[None, None])
    usable = jnp.all(jnp.isfinite(move) & jnp.isfinite(difference), axis=1) & windows.valid
    return _at_middle(windows, following, bend, move, difference, usable, s, jnp)


def meet_midway_known(windows: Windows, drift: Callable, following, bend) -> Windows:
    """Apply [`meet_midway`][ndde_jax.fit._correction.meet_midway] in NumPy, which compiles nothing,
    for a drift of many physical histories at once.
    """
    s = jax.tree.map(lambda a: np.asarray(a, np.float64), windows.scaling)
    history, increment = np.asarray(windows.history), np.asarray(windows.increment)
    valid, weight = np.asarray(windows.valid), np.asarray(windows.weight, np.float64)
    start, end = (
        np.asarray(a, np.float64) * s.scale[None, None] + s.center[None, None]
        for a in (history, following)
    )
    bent = np.asarray(bend, np.float64) * s.scale[None, None]
    h = (windows.step * float(windows.dt) * np.where(weight > 0, weight, 1))[:, None]
    present = windows.lags[0] == 0

    def rate(x, fraction):
        lagged = start + fraction * (end - start) + 4 * fraction * (1 - fraction) * bent
        if present:
            lagged[:, 0] = x
        return drift(lagged)

    physical = increment * s.rate_scale[None] + s.rate_center[None]
    with np.errstate(all="ignore"):  # a drift may diverge; then nothing is corrected
        x = start[:, 0]
        ends = _mean_rate(rate, x, 0.0, 0.5, h), _mean_rate(rate, x + h * physical, 1.0, 0.5, h)
        move, difference = _meeting(rate, x, *ends, h)
        # What goes beyond the numbers of the windows is no correction either.
        size = np.abs(move) / s.scale[None] + np.abs(difference) / s.rate_scale[None]
        usable = (size < np.finfo(history.dtype).max / 2).all(axis=1) & valid
    return _at_middle(windows, following, bend, move, difference, usable, s, np)


def _meeting(rate: Callable, x: Any, first: Any, second: Any, h: Any) -> tuple[Any, Any]:
    """Return half a step forward from a state, and by how much the rate at the middle of a step is
    wrong, where half a step back from its end does not meet it; from the mean rates of both halves.
    """
    move = 0.5 * h * first
    return move, rate(x + move, 0.5) - 0.5 * (first + second)


def _at_middle(
    windows: Windows, following, bend, move, difference, usable, s: Scaling, xp: ModuleType
) -> Windows:
    """Return windows at the middle of every usable step, corrected, in NumPy or JAX."""
    history, increment = xp.asarray(windows.history), xp.asarray(windows.increment)
    move, difference = (xp.where(usable[:, None], a, 0) for a in (move, difference))
    halfway = xp.where(usable[:, None, None], 0.5 * (history + following) + bend, history)
    if windows.lags[0] == 0:
        now = history[:, 0] + move / s.scale[None]
        halfway = xp.concatenate([now[:, None], halfway[:, 1:]], axis=1)
    increment = increment + difference / s.rate_scale[None]
    new = to_jax(halfway, history.dtype), to_jax(increment, windows.increment.dtype)
    return eqx.tree_at(lambda w: (w.history, w.increment), windows, new)


def _each_step(function: Callable, windows: Windows, following, *others):
    """Return `function(start, end, increment, h, *others)` of every row, in physical units."""
    s = windows.scaling
    start, end = (
        history * s.scale[None, None] + s.center[None, None]
        for history in (windows.history, following)
    )
    increment = windows.increment * s.rate_scale[None] + s.rate_center[None]
    step = windows.step * windows.dt * jnp.where(windows.weight > 0, windows.weight, 1)
    return jax.vmap(function)(start, end, increment, step, *others)


def _rate(model, start, end, bend=0.0):
    """Return the drift of a state at a fraction of the step from one history to the next, on a
    parabola that lies `bend` off the straight line halfway.
    """

    def rate(x, fraction):
        lagged = start + fraction * (end - start) + 4 * fraction * (1 - fraction) * bend
        return model(lagged.at[0].set(x) if model.lags[0] == 0 else lagged)

    return rate


def _mean_rate(rate, x, start, stop, h):
    """Return the mean rate over one classical Runge–Kutta step between two fractions of the
    interval.
    """
    part = stop - start
    k1 = rate(x, start)
    k2 = rate(x + 0.5 * part * h * k1, start + 0.5 * part)
    k3 = rate(x + 0.5 * part * h * k2, start + 0.5 * part)
    k4 = rate(x + part * h * k3, stop)
    return (k1 + 2 * k2 + 2 * k3 + k4) / 6


def following_rows(windows: Windows, history: Float[Array | np.ndarray, "window lag dim"]):
    """Return histories at the end of the step, where the next row holds it; else the row's own. In
    NumPy where the history is.
    """
    xp = np if isinstance(history, np.ndarray) else jnp
    valid, position = xp.asarray(windows.valid), xp.asarray(windows.position)
    adjacent = (position[1:] == position[:-1] + windows.step) & valid[1:] & valid[:-1]
    later = xp.where(adjacent[:, None, None], history[1:], history[:-1])
    return xp.concatenate([later, history[-1:]])
