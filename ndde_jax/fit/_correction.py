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
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import check_windows, refusal
from .._memory import make_room
from .._types import Checked, to_jax
from ..models._model import AbstractDelayModel
from ..windows._windows import Windows

# Mean square of a correction, relative to the variance of the rates, from which on the step is too
# long for it: what forgets most of its state within a step cannot be followed back from its end.
# Of densely sampled flows it is below a tenth; of coarse ones it comes near the limit.
TOO_LONG = 1.0


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
    step = _step(windows, jax.vmap(model), following_rows(windows, windows.history), None, jnp)
    bias = _mean_rate(step.rate, step.start, 0.0, 1.0, step.h) - step.rate(step.start, 0.0)
    difference = bias / windows.scaling.rate_scale[None]
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
    following = following_rows(windows, windows.history) if following is None else following
    return _met(windows, jax.vmap(model), following, bend, jnp)


def meet_midway_known(windows: Windows, drift: Callable, following, bend=None) -> Windows:
    """Apply [`meet_midway`][ndde_jax.fit._correction.meet_midway] in NumPy, which compiles nothing,
    for a drift of many physical histories at once.
    """
    with np.errstate(all="ignore"):  # a drift may diverge; then nothing is corrected
        return _met(windows, drift, following, bend, np)


class _Step(NamedTuple):
    """The step of every row, in physical units.

    - `start`: states `[window dim]`; `increment`: rates of change over the steps; `h`: lengths.
    - `rate`: drift of states at a fraction of the step, whose past moves from one history to the
        next.
    """

    start: Any
    increment: Any
    h: Any
    rate: Callable


def _step(windows: Windows, drift: Callable, following, bend, xp: ModuleType) -> _Step:
    """Return the steps of windows, for a drift of many physical histories, in NumPy or JAX."""
    dtype = np.float64 if xp is np else windows.history.dtype
    s, history, following, increment, weight = jax.tree.map(
        lambda a: xp.asarray(a, dtype),
        (windows.scaling, windows.history, following, windows.increment, windows.weight),
    )
    start, end = (a * s.scale[None, None] + s.center[None, None] for a in (history, following))
    bent = 0.0 if bend is None else xp.asarray(bend, dtype) * s.scale[None, None]

    def rate(x, fraction):
        lagged = start + fraction * (end - start) + 4 * fraction * (1 - fraction) * bent
        if windows.lags[0] == 0:
            lagged = xp.concatenate([x[:, None], lagged[:, 1:]], axis=1)
        return drift(lagged)

    increment = increment * s.rate_scale[None] + s.rate_center[None]
    h = windows.step * xp.asarray(windows.dt, dtype) * xp.where(weight > 0, weight, 1)[:, None]
    return _Step(start[:, 0], increment, h, rate)


def _met(windows: Windows, drift: Callable, following, bend, xp: ModuleType) -> Windows:
    """Return windows at the middle of every step, corrected, in NumPy or JAX."""
    x, increment, h, rate = _step(windows, drift, following, bend, xp)
    ends = xp.stack([x, x + h * increment]), xp.arange(2, dtype=x.dtype)

    def halfway(x, at):
        return _mean_rate(rate, x, at, 0.5, h)

    # In JAX both ways as a batch, since a model is compiled wherever it is called.
    first, second = jax.vmap(halfway)(*ends) if xp is jnp else map(halfway, *ends)
    move = 0.5 * h * first
    difference = rate(x + move, 0.5) - 0.5 * (first + second)
    s = jax.tree.map(lambda a: xp.asarray(a, x.dtype), windows.scaling)
    move, difference = move / s.scale[None], difference / s.rate_scale[None]
    history = xp.asarray(windows.history)
    # What goes beyond the numbers of the windows is no correction.
    most = jnp.finfo(history.dtype).max / 2
    usable = xp.all(xp.abs(move) + xp.abs(difference) < most, axis=1) & xp.asarray(windows.valid)
    move, difference = (xp.where(usable[:, None], a, 0) for a in (move, difference))
    count = xp.maximum(xp.sum(usable), 1).astype(difference.dtype)
    square = xp.sum(difference**2, axis=0) / count
    difference = xp.where(square[None] < TOO_LONG, difference, 0)
    middle = 0.5 * (history + xp.asarray(following)) + (0 if bend is None else xp.asarray(bend))
    middle = xp.where(usable[:, None, None], middle, history)
    if windows.lags[0] == 0:
        now = history[:, 0] + move
        middle = xp.concatenate([now[:, None], middle[:, 1:]], axis=1)
    rates = xp.asarray(windows.increment) + difference
    new = to_jax(middle, history.dtype), to_jax(rates, windows.increment.dtype)
    return eqx.tree_at(lambda w: (w.history, w.increment), windows, new)


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
