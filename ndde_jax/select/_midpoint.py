"""The windows with states at the point that a forward difference measures: halfway through the
step.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._checks import check_real_array, is_traced
from .._types import Checked, RealScalarLike, TrajectoryLike, namespace_of, to_jax
from ..fit._correction import check_lagged_model, meet_midway, meet_midway_known
from ..models._model import AbstractDelayModel
from ..regression._readings import CLEARLY, Readings, allowing, compare_readings
from ..samples._holds import clock_of
from ..samples._samples import Samples
from ..samples._trajectories import read_lags
from ..windows._prior import PriorKnowledge, read_prior
from ..windows._stencils import choose_scheme, reads_filtered, rings
from ..windows._windows import Measurements, Windows, cut_windows, lagged_windows, read_measurements
from ._screened import Screened
from ._spline_fit import known_drift
from ._splines import spline_graph

# Nats within which a tie goes to the map, which interpolates nothing between samples.
TIE = 1.0
DECIDED = {
    "map": "The samples move as a map, from one to the next: {nats} likelier than a flow.",
    "flow": "The samples are of a continuous path, a flow: {nats} likelier than a map.",
}
SMOOTH = (
    "The samples are of a smooth path, a flow: {nats} likelier than a map, errors of interpolation "
    "allowed for."
)
UNDECIDED = {
    "map": "Map or flow is undecided ({nats} between them); the graph is that of a map, from one "
    "sample to the next.",
    "flow": "Map or flow is undecided ({nats} between them); the graph is that of a flow, with "
    "states halfway through each step.",
}
SEARCHED = {
    "map": "The samples move as a map, from one to the next: {nats} likelier than a flow, each "
    "with the inputs and products that suit it best.",
    "flow": "The samples are of a continuous path, a flow: {nats} likelier than a map, each "
    "with the inputs and products that suit it best.",
}
# Nats for each window and variable by which a search must favour a reading that the comparison of
# sums does not: a tenth of what is left, since states halfway through a step are predicted, and so
# not exactly known. For a map half of it where candidate lags leave samples out: a delay between
# them fits neither reading, and many inputs of a map stand in for it.
TELLS, TELLS_COARSE = 0.05, 0.35
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
    """Return forward differences, paired with the states half a step later: second order, noise or
    not.

    The increment over a step is the integral of the drift over that step, so a forward difference
    belongs to its middle: a drift that depends on X(t − τ) seems to depend on X(t − τ + dt/2), that
    is on two neighbouring lags, and indirect drivers appear as direct ones. A central difference
    has neither error, but in noise-driven data it measures something else than the drift (see
    [`lagged_windows`][ndde_jax.lagged_windows]). Here the rates are forward differences, and

    - past states (lags ≥ 1) are interpolated from the samples around, which are known: two on
      either side (Catmull and Rom, 1974), or at lag 1 two before and one after. On a straight line
      between the ends of the step, what bends the path there would show up as further lags;
    - present states are *predicted* half a step ahead, X[k] + rate · dt/2, from what was known at
      sample k. The noise of the step is not in the prediction, so no bias enters.

    What is fitted to these windows is the drift itself, and a fitted model is used as any other.
    Given one, windows become more accurate: the model then goes half a step forward from each
    sample and half a step back from the next, and where the two do not meet its rate is corrected
    by how much they miss. Where noise is low, search again on such windows.

    **Arguments:**

    - `x`, `dt`, `lags`, `names`, `prior`: as for [`lagged_windows`][ndde_jax.lagged_windows];
        samples must be equally spaced.
    - `rate`: expected standardised rates for the prediction, one row per returned window; by
        default what [`spline_graph`][ndde_jax.select.spline_graph] fits.
    - `model`: fitted to windows like these without one, or any function from a physical history
        `[lag dim]` to a physical drift, if it has `lags`; instead of `rate`.

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
        check_lagged_model(model)
        if rate is not None or tuple(model.lags) != read_lags(lags):
            raise ValueError(
                f"expected rate or model, and a model with the lags {read_lags(lags)}; got "
                f"{'both' if rate is not None else tuple(model.lags)}."
            )
    steps = read_steps(x, dt=dt, lags=lags, names=names, prior=prior)
    return halfway(steps, rate) if model is None else steps.met_by(model)


class Steps(NamedTuple):
    """The forward differences with the states at the start of each step, `plain`; the states at its
    end; and the distance of the path between from the straight line, `[window lag dim]`.
    """

    plain: Windows
    end: Any
    bend: Any

    def met_by(self, model: Any) -> Windows:
        """Return the states halfway through each step, and the rates corrected there, by a
        model.
        """
        traced = is_traced(self.plain)
        if not traced and (drift := known_drift(model)) is not None:
            return meet_midway_known(self.plain, drift, self.end, self.bend)
        return meet_midway(self.plain, model, to_jax(self.end), to_jax(self.bend))


def read_steps(x, *, lags, dt=None, names=None, prior=None) -> Steps:
    """Return the steps of measurements, read as
    [`midpoint_windows`][ndde_jax.select.midpoint_windows] does.
    """
    lags = read_lags(lags)
    return cut_steps(read_measurements(x, dt=dt, names=names), lags, prior)


def cut_steps(measured: Measurements, lags: tuple[int, ...], prior) -> Steps:
    """Return the steps of measurements that were read."""
    wide = cut_windows(measured, around(lags), "euler", None)
    if not measured.data.regular:
        raise ValueError(IRREGULAR)
    return steps_between(wide, lags, read_prior(prior, wide.dim, len(lags)))


def around(lags: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lags of the samples that interpolation halfway through a step reads."""
    return tuple(sorted({_shifted(lag, shift) for lag in lags for shift in (-1, 0, 1, 2)}))


def steps_between(wide: Windows, lags: tuple[int, ...], prior: PriorKnowledge) -> Steps:
    """Return the steps of windows that have the samples around every lag."""
    # What is known is computed in NumPy, which compiles nothing for another length.
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


def halfway(steps: Steps, rate=None) -> Windows:
    """Return the states halfway through each step, present ones predicted by the expected rates: by
    default those of [`spline_graph`][ndde_jax.select.spline_graph].
    """
    rate = spline_graph(steps.plain).rate if rate is None else rate
    wide, lags = steps.plain, steps.plain.lags
    check_real_array(rate, "rate", f"shape {wide.increment.shape}")
    if np.shape(rate) != wide.increment.shape:
        raise ValueError(f"rate must have shape {wide.increment.shape}; got {np.shape(rate)}.")
    traced = is_traced(wide) or is_traced(rate)
    xp = jnp if traced else np
    rate = xp.asarray(rate, wide.increment.dtype)
    start = xp.asarray(wide.history)
    history = (start + xp.asarray(steps.end)) / 2 + xp.asarray(steps.bend)
    if 0 in lags:
        _, scale, rate_center, rate_scale, step = (
            xp.asarray(a) for a in (*jax.tree.leaves(wide.scaling), wide.dt)
        )
        physical = rate_center[None] + rate_scale[None] * rate
        ahead = xp.where(xp.asarray(wide.valid)[:, None], physical * (step / 2) / scale[None], 0)
        place = np.arange(len(lags)) == lags.index(0)
        history = xp.where(place[None, :, None], start + ahead[:, None], history)
    return dataclasses.replace(wide, history=to_jax(history.astype(wide.history.dtype)))


def _shifted(lag: int, shift: int) -> int:
    """Return a lag `shift` samples later; the present stays where it is."""
    return max(lag - shift, 0) if lag > 0 else 0


def _bend(before, start, end, after, lags: tuple[int, ...], xp):
    """Return the distance of the interpolated path from the straight line halfway from `start` to
    `end`.
    """
    cubic = (start + end - before - after) / 16
    parabola = (2 * start - before - end) / 8
    at = np.asarray(lags)[None, :, None]
    return xp.where(at >= 2, cubic, xp.where(at == 1, parabola, 0))


def measured_rows(samples: Samples, windows: Windows) -> np.ndarray:
    """Return which rows of windows of these samples hold measured values only, bool `[window]`.

    **Raises:** `ValueError` if too few are left.
    """
    pairs = zip(samples.values, samples.estimated, strict=True)
    values = tuple(np.where(guessed, np.nan, x) for x, guessed in pairs)
    samples = dataclasses.replace(samples, values=values)
    if windows.scheme == "midpoint":
        return np.asarray(read_steps(samples, lags=windows.lags).plain.valid)
    return np.asarray(lagged_windows(samples, lags=windows.lags, scheme=windows.scheme).valid)


def choose_windows(
    samples: Samples, *, lags: tuple[int, ...], scheme: str, prior: PriorKnowledge | None
) -> tuple[Screened, tuple[str, ...]]:
    """Return [`lagged_windows`][ndde_jax.lagged_windows] of any scheme, `"midpoint"` included, and
    a sentence on a choice by `"auto"` that the windows do not explain themselves.

    Except for records without noise, both readings of the samples, as a map from one to the next
    and as a flow between them, are compared at the same prices by
    [`compare_readings`][ndde_jax.regression.compare_readings]: states at the samples suit a map,
    states halfway through each step a flow.

    **Raises:** as these, and `ValueError` for midpoints of irregular samples.
    """
    measured = read_measurements(samples)
    windows = cut_windows(measured, lags, "euler" if scheme == "midpoint" else scheme, prior)
    regular = measured.data.regular
    decided = scheme
    if scheme == "auto":
        noise = (np.asarray(windows.noise_share), windows.roll_off, windows.ringing)
        # Increments lose power where noise was filtered, and where the signal reaches the sampling
        # frequency, which central differences would blur. States halfway suit both.
        halfway_too = any(lag > 0 for lag in lags) or reads_filtered(*noise)
        decided = choose_scheme(*noise, regular=regular, delayed=halfway_too)
    compared = regular and decided in ("euler", "midpoint") and not rings(windows.ringing)
    readings = _compared(measured, samples.estimated, lags, prior) if compared else None
    if scheme == "auto" and readings is not None:
        # What is held between the ticks of a clock is no flow, whatever drives it, and no map.
        before = samples.as_measured()
        held = np.array([clock_of(before, j) > 1 for j in range(samples.dim)])
        held &= ~held.all()
        readings = readings._replace(nats=np.where(held, 0, readings.nats))
        return _as_read(readings, decided, measured, lags, prior, ~held)
    if decided == "midpoint":
        return _as_flow(readings, measured, lags, prior), ()
    return Screened(windows, readings=readings), ()


def _as_flow(readings: Readings | None, measured: Measurements, lags, prior) -> Screened:
    """Return the windows of a flow, halfway through its steps."""
    steps = cut_steps(measured, lags, prior)
    return Screened(halfway(steps), steps=steps, readings=readings)


def _compared(
    measured: Measurements,
    estimated: tuple[np.ndarray, ...],
    lags: tuple[int, ...],
    prior: PriorKnowledge | None,
) -> Readings | None:
    """Return the comparison of a record read as a map and as a flow; None where it is too short."""
    data = measured.data
    rows = [np.asarray(x, float) for x in data.complete]
    every = np.concatenate(rows)
    center, scale = np.nanmean(every, axis=0), np.nanstd(every, axis=0)
    scale = np.where(scale > 0, scale, 1)
    known = read_prior(prior, data.dim, len(lags))
    return compare_readings(
        [(x - center) / scale for x in rows],
        lags,
        np.asarray(known.allowed),
        np.asarray(known.required),
        tuple(measured.mask) if measured.mask else None,
        estimated if any(guessed.any() for guessed in estimated) else None,
    )


def _as_read(
    readings: Readings,
    decided: str,
    measured: Measurements,
    lags: tuple[int, ...],
    prior: PriorKnowledge | None,
    counting: Bool[np.ndarray, " target"],
) -> tuple[Screened, tuple[str, ...]]:
    """Return the windows of a map or of a flow, whichever reading of the record is likelier.

    The readings were compared as sums of splines, which have no products. Where the likelier one
    multiplies inputs, or is a map whose candidate lags leave samples out, or where the comparison
    tells little, both are searched, and the search decides if it tells more than the comparison
    did, about the targets that are `counting`.
    """

    def read_as(reading: str) -> Screened:
        if reading == "map":
            return Screened(cut_windows(measured, lags, "euler", prior), readings=readings)
        return _as_flow(readings, measured, lags, prior)

    limit = TIE if decided == "euler" else -CLEARLY
    likelier, other = ("map", "flow") if readings.evidence <= limit else ("flow", "map")
    chosen = read_as(likelier)
    n, dim = float(np.asarray(chosen.windows.valid).sum()), chosen.windows.dim
    coarse = any(step > 1 for step in np.diff(lags))
    tells = {kind: n * dim * TELLS for kind in ("map", "flow")}
    if coarse:
        tells["map"] = n * dim * TELLS_COARSE
    unsure = abs(readings.evidence) < tells[other] or (coarse and likelier == "map")
    unsure = unsure and not (readings.smooth and likelier == "flow")
    if unsure or np.asarray(chosen.found.products).any():
        searched = {likelier: chosen, other: read_as(other)}
        nats = _nats_of_searches(searched["map"], searched["flow"], readings) * counting
        total = float(nats.sum())
        reading = "flow" if total > 0 else "map"
        if abs(total) > max(abs(readings.evidence), tells[reading]):
            best = searched[reading]
            best.readings = readings._replace(nats=nats)
            return best, (SEARCHED[reading].format(nats=f"{abs(total):.3g} nats"),)
    nats = f"{abs(readings.evidence):.3g} nats"
    if readings.name == "undecided":
        why = UNDECIDED[likelier]
    else:
        why = SMOOTH if readings.smooth and likelier == "flow" else DECIDED[likelier]
    return chosen, (why.format(nats=nats),)


def _nats_of_searches(
    as_map: Screened, as_flow: Screened, readings: Readings
) -> Float[np.ndarray, " target"]:
    """Return the log likelihood of a flow over that of a map, both searched with products.

    In windows halfway through a step, states are predicted or read between samples. So on a smooth
    path a map is no likelier by what it leaves there of a target without products, which both
    readings describe better as they were compared.
    """
    n = float(np.asarray(as_map.windows.valid).sum())
    worse = np.asarray(as_map.found.cost) - np.asarray(as_flow.found.cost)
    nats = readings.trust * n * worse / 2
    if not readings.smooth:
        return nats
    multiplied = np.asarray(as_map.found.products) + np.asarray(as_flow.found.products) > 0
    return allowing(np.where(multiplied | (nats > 0), nats, readings.nats), n)
