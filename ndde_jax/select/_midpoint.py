"""Windows with states halfway through each step, the time to which a forward difference belongs."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from .._checks import argument_error, check_real_array, is_traced
from .._types import Checked, RealScalarLike, TrajectoryLike, namespace_of, to_jax
from ..fit._flow import correct_at_midpoints, correct_at_midpoints_numpy
from ..models._model import AbstractDelayModel
from ..models._splines import host_splines
from ..samples._samples import Samples
from ..samples._trajectories import read_lags
from ..windows._prior import PriorKnowledge, read_prior
from ..windows._windows import Measurements, Windows, cut_windows, lagged_windows, read_measurements
from ._splines import spline_graph

IRREGULAR = (
    "scheme='midpoint' needs equally spaced samples; use scheme='euler' with irregular time "
    "stamps, or interpolate to a regular grid."
)


def midpoint_windows(
    x: TrajectoryLike,
    *,
    dt: Checked[RealScalarLike | None] = None,
    lags: Any = (0,),
    names: Checked[Sequence[str] | None] = None,
    rate: Checked[Float[Array, "window dim"] | None] = None,
    model: Checked[AbstractDelayModel | Callable | None] = None,
    prior: Checked[PriorKnowledge | None] = None,
) -> Windows:
    """Return forward differences paired with the states half a step later: second order, with or
    without noise.

    The increment over a step is the integral of the drift over that step, so a forward difference
    belongs to the middle of the step. Paired with the state at its start, a drift that depends on
    X(t − τ) seems to depend on X(t − τ + dt/2), that is on two neighbouring lags, and indirect
    drivers appear as direct ones. A central difference has neither error, but in noise-driven data
    it does not measure the drift (see [`lagged_windows`][ndde_jax.lagged_windows]). Here the rates
    are forward differences, and

    - past states (lags ≥ 1) are interpolated from the known samples around them: two on either side
      (Catmull and Rom, 1974), or at lag 1 two before and one after. With linear interpolation, the
      curvature of the path would appear as further lags;
    - present states are *predicted* half a step ahead, X[k] + rate · dt/2, from the values known at
      sample k. The prediction does not contain the noise of the step, so it adds no bias.

    A model fitted to these windows is a model of the drift itself and is used like any other. Given
    a model, the windows become more accurate: from each sample the model goes half a step forward,
    and from the next sample half a step back. Where the two states do not meet, the rate is
    corrected by their difference. With little noise, it pays to search again on such windows.

    **Arguments:**

    - `x`, `dt`, `lags`, `names`, `prior`: as for [`lagged_windows`][ndde_jax.lagged_windows];
        samples must be equally spaced.
    - `rate`: expected standardised rates for the prediction, one row per returned window; by
        default those fitted by [`spline_graph`][ndde_jax.select.spline_graph].
    - `model`: used instead of `rate`: a model fitted to such windows, or any function with `lags`
        from a physical history `[lag dim]` to a physical drift.

    **Returns:** [`Windows`][ndde_jax.Windows] of scheme `"midpoint"`.

    **Raises:** as [`lagged_windows`][ndde_jax.lagged_windows], and `ValueError` for a `rate` of
    another shape, a model of other lags, or both.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=0.1, n_steps=6000, history=system.history, sigma=0.02,
        key=jax.random.key(0), save_every=10,
    )
    windows = ndde.select.midpoint_windows(path.ys, dt=1.0, lags=(0, 13, 17, 21))
    print(ndde.select.spline_graph(windows).graph[0, 0])  # lags 0 and 17
    ```
    """
    if model is not None:
        if not callable(model) or not isinstance(getattr(model, "lags", None), tuple):
            expected = "a fitted model, or a function with a tuple as attribute lags"
            raise argument_error("model", expected, model)
        if rate is not None or tuple(model.lags) != read_lags(lags):
            raise ValueError(
                f"expected either rate or model, and a model with the lags {read_lags(lags)}; got "
                f"{'both' if rate is not None else tuple(model.lags)}."
            )
    steps = read_steps(x, dt=dt, lags=lags, names=names, prior=prior)
    return at_midpoints(steps, rate) if model is None else steps.corrected_by(model)


class Steps(NamedTuple):
    """The forward differences with the states at the start of each step, `plain`; the states at its
    `end`; and the deviation of the path between from a straight line, `bend`, `[window lag dim]`.
    """

    plain: Windows
    end: Any
    bend: Any

    def corrected_by(self, model: Any, means: Bool[np.ndarray, " target"] | None = None) -> Windows:
        """Return the states halfway through each step and the corrected rates, from a model.

        `means`: the targets whose delayed sources are read as means over the step, if the model
        consists of splines on the host; by default none.
        """
        drift = None if is_traced(self.plain) else host_splines(model)
        if drift is not None:
            return correct_at_midpoints_numpy(self.plain, drift, self.end, self.bend, means)
        return correct_at_midpoints(self.plain, model, to_jax(self.end), to_jax(self.bend))


def read_steps(x, *, lags, dt=None, names=None, prior=None) -> Steps:
    """Return the steps of measurements, read as
    [`midpoint_windows`][ndde_jax.select.midpoint_windows] does.
    """
    lags = read_lags(lags)
    return cut_steps(read_measurements(x, dt=dt, names=names), lags, prior)


def cut_steps(measured: Measurements, lags: tuple[int, ...], prior) -> Steps:
    """Return the steps of measurements that were read already."""
    wide = cut_windows(measured, interpolation_lags(lags), "euler", None)
    if not measured.data.regular:
        raise ValueError(IRREGULAR)
    return steps_between(wide, lags, read_prior(prior, wide.dim, len(lags)))


def interpolation_lags(lags: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lags of the samples that interpolation halfway through a step reads."""
    return tuple(sorted({_shifted(lag, shift) for lag in lags for shift in (-1, 0, 1, 2)}))


def steps_between(wide: Windows, lags: tuple[int, ...], prior: PriorKnowledge) -> Steps:
    """Return the steps of windows that contain the samples around every lag."""
    # Concrete values are computed in NumPy, which compiles nothing for another length.
    xp = namespace_of(wide.history) if is_traced(wide) else np
    history = xp.asarray(wide.history)
    before, start, end, after = (
        history[:, np.array([wide.lags.index(_shifted(lag, shift)) for lag in lags])]
        for shift in (-1, 0, 1, 2)
    )
    bend = _bend(before, start, end, after, lags, xp)
    plain = dataclasses.replace(
        wide, history=to_jax(start), lags=lags, prior=prior, scheme="midpoint"
    )
    return Steps(plain, end, bend)


def at_midpoints(steps: Steps, rate=None) -> Windows:
    """Return the states halfway through each step, present ones predicted with the expected rates;
    by default those of [`spline_graph`][ndde_jax.select.spline_graph].
    """
    rate = spline_graph(steps.plain).rate if rate is None else rate
    wide, lags = steps.plain, steps.plain.lags
    check_real_array(rate, "rate", f"shape {wide.increment.shape}")
    if np.shape(rate) != wide.increment.shape:
        raise ValueError(f"rate must have shape {wide.increment.shape}; got {np.shape(rate)}.")
    xp = namespace_of((wide, rate))
    rate = xp.asarray(rate, wide.increment.dtype)
    plain, end, bend = jax.tree.map(xp.asarray, tuple(steps))
    history = (plain.history + end) / 2 + bend
    if 0 in lags:
        s = plain.scaling
        physical = s.rate_center[None] + s.rate_scale[None] * rate
        ahead = xp.where(plain.valid[:, None], physical * (plain.dt / 2) / s.scale[None], 0)
        place = np.arange(len(lags)) == lags.index(0)
        history = xp.where(place[None, :, None], plain.history + ahead[:, None], history)
    return dataclasses.replace(wide, history=to_jax(history.astype(wide.history.dtype)))


def _shifted(lag: int, shift: int) -> int:
    """Return a lag `shift` samples later; lag 0 stays 0."""
    return max(lag - shift, 0) if lag > 0 else 0


def _bend(before, start, end, after, lags: tuple[int, ...], xp):
    """Return the deviation of the interpolated path from a straight line, halfway from `start` to
    `end`.
    """
    cubic = (start + end - before - after) / 16
    parabola = (2 * start - before - end) / 8
    at = np.asarray(lags)[None, :, None]
    return xp.where(at >= 2, cubic, xp.where(at == 1, parabola, 0))


def measured_rows(samples: Samples, windows: Windows) -> np.ndarray:
    """Return which windows of these samples contain only measured values, bool `[window]`.

    **Raises:** `ValueError` if too few are left.
    """
    pairs = zip(samples.values, samples.estimated, strict=True)
    values = tuple(np.where(guessed, np.nan, x) for x, guessed in pairs)
    samples = dataclasses.replace(samples, values=values)
    if windows.scheme == "midpoint":
        return np.asarray(read_steps(samples, lags=windows.lags).plain.valid)
    return np.asarray(lagged_windows(samples, lags=windows.lags, scheme=windows.scheme).valid)
