"""Windows with missing values, for the targets that do not need the missing variables."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from .._types import divisor, to_jax
from ..models._splines import host_splines
from ..regression._design import WIDTH
from ..regression._missing import fit_normal
from ..samples._samples import Samples
from ..windows._stencils import STENCILS, rings
from ..windows._windows import PartialWindows, Windows, row_range
from ._between import standardised
from ._measured import fit_screened
from ._midpoint import Steps, interpolation_lags, steps_between
from ._screened import Screened

# Most numbers in the splines of all targets, each in its own windows: 4 GB in double precision.
MOST_NUMBERS = 5 * 10**8
# Complete windows per variable that a first drift needs, and complete windows per variable after
# some are completed; windows per value of a window from which expected values are estimated.
FEWEST, ENOUGH, TELLING = 2, 10, 4


class Completed(NamedTuple):
    """The samples with estimates in the windows that miss fewest values, and a sentence on it."""

    samples: Samples
    note: str


def completed(samples: Samples, lags: tuple[int, ...]) -> Completed | None:
    """Return samples with estimates of the values missing in the windows with fewest missing
    values, so that enough windows are complete for a scale and a first drift. None if enough are
    complete, if the rate of some variable was measured too rarely, or if the windows are too large
    for [`with_partial`][ndde_jax.select._partial.with_partial], which afterwards separates measured
    values from estimates.

    Estimates are expected values given all measured states of the window, as in
    [`PartialWindows`][ndde_jax.windows.PartialWindows].
    """
    every = np.concatenate(samples.values).astype(float)
    missing = np.isnan(every)
    if not samples.regular or not missing.any():
        return None
    # The samples that each window reads, as indices into all recordings joined.
    offsets = np.array(sorted({*(-lag for lag in interpolation_lags(lags)), *STENCILS["euler"]}))
    starts = np.cumsum([0, *map(len, samples.values)])[:-1]
    present = np.concatenate(
        [
            start + np.arange(-offsets[0], len(x) - offsets[-1])
            for start, x in zip(starts, samples.values, strict=True)
        ]
    )
    if samples.mask:
        present = present[np.concatenate(samples.mask)[present]]
    reads = present[:, None] + offsets[None]
    gone = missing.sum(axis=1)[reads].sum(axis=1)
    complete, enough = int((gone == 0).sum()), ENOUGH * samples.dim
    rated = (~missing[present] & ~missing[present + 1]).sum(axis=0)
    too_large = len(reads) * len(lags) * samples.dim**2 * WIDTH > MOST_NUMBERS
    if complete >= FEWEST * samples.dim or rated.min() < enough or too_large:
        return None
    center, scale = np.nanmean(every, axis=0), divisor(np.nanstd(every, axis=0))
    order = np.argsort(gone, kind="stable")
    reads = reads[order[: max(enough, TELLING * len(offsets) * samples.dim)]]
    z = (every - center[None]) / scale[None]
    expected = fit_normal(z[reads].reshape(len(reads), -1)).values.reshape(*reads.shape, -1)
    total, count = np.zeros_like(every), np.zeros(len(every))
    np.add.at(total, reads[:enough], expected[:enough])
    np.add.at(count, reads[:enough], 1)
    fill = missing & (count > 0)[:, None]
    mean = total / np.maximum(count, 1)[:, None] * scale[None] + center[None]
    values = np.split(np.where(fill, mean, every), starts[1:])
    values = tuple(new.astype(x.dtype) for new, x in zip(values, samples.values, strict=True))
    made = dataclasses.replace(samples, values=values)
    note = (
        f"{complete} of {len(gone)} windows are complete. Initially, {enough - complete} of those "
        f"with the fewest missing values are completed by {int(fill.sum())} estimates. Each "
        "variable is then explained in all windows in which its rate and inputs are measured."
    )
    return Completed(made, note)


def with_partial(screened: Screened, samples: Samples) -> Screened:
    """Return windows with the rows that miss values of some variables added as partial windows. The
    same windows if no target gains any, if samples are irregular, if the ends of the record ring
    and count as missing, or if the splines of all targets do not fit into memory.
    """
    windows = screened.windows
    if not int(windows.dropped) or not samples.regular or rings(np.asarray(windows.ringing)):
        return screened
    if screened.data.refused or screened.data.inputs.size * WIDTH * windows.dim > MOST_NUMBERS:
        return screened
    partial = _partial(screened, samples)
    if (np.asarray(partial.rated).sum(axis=0) == int(windows.n_valid)).all():
        return screened
    windows = dataclasses.replace(windows, partial=partial)
    return Screened(windows, steps=screened.steps, readings=screened.readings)


def _partial(screened: Screened, samples: Samples) -> PartialWindows:
    """Return the rows of all windows, unchanged where nothing is missing."""
    windows = screened.windows
    midway, lags = windows.scheme == "midpoint", lags_read(windows)
    states, rates = scaled_rows(samples.values, samples.mask, windows)
    rated = np.isfinite(rates)
    used, known = rated.any(axis=1), np.isfinite(states)
    filled = np.zeros_like(states)
    flat = states[used].reshape(int(used.sum()), -1)
    filled[used] = fit_normal(flat).values.reshape(-1, *states.shape[1:])
    rates = np.where(rated, rates, 0)
    if midway:
        wide = of_other_rows(windows, filled, rates, used, windows.position)
        middle = _midpoints(screened, steps_between(wide, windows.lags, windows.prior), rated)
        filled, rates = np.asarray(middle.history), np.where(rated, np.asarray(middle.increment), 0)
        known = _known_at_midpoints(known, lags, windows.lags)
    whole = np.asarray(windows.valid)
    history = np.where(whole[:, None, None], np.asarray(windows.history), filled)
    increment = np.where(whole[:, None], np.asarray(windows.increment), rates)
    dtype = windows.history.dtype
    return PartialWindows(
        history=to_jax(history, dtype),
        increment=to_jax(increment, dtype),
        known=to_jax(known & used[:, None, None]),
        rated=to_jax(rated),
    )


def _midpoints(screened: Screened, steps: Steps, rated: Bool[np.ndarray, "window dim"]) -> Windows:
    """Return the states halfway through each step, computed with the drift of the complete windows;
    missing rates are those of this drift.
    """
    model = fit_screened(screened, screened.found.graph)
    s = jax.tree.map(lambda a: np.asarray(a, float)[None], steps.plain.scaling)
    start = np.asarray(steps.plain.history, float) * s.scale[None] + s.center[None]
    drift: Any = host_splines(model)
    expected = (drift(start) - s.rate_center) / s.rate_scale
    increment = np.where(rated, np.asarray(steps.plain.increment), expected)
    plain = dataclasses.replace(
        steps.plain, increment=to_jax(increment, steps.plain.increment.dtype)
    )
    return steps._replace(plain=plain).corrected_by(model)


def lags_read(windows: Windows) -> tuple[int, ...]:
    """Return the lags of the samples that a window reads."""
    return interpolation_lags(windows.lags) if windows.scheme == "midpoint" else windows.lags


def stencil_of(windows: Windows) -> dict[int, float]:
    """Return the finite difference that defines a rate."""
    return STENCILS["euler" if windows.scheme == "midpoint" else windows.scheme]


def of_other_rows(
    windows: Windows,
    states: Float[np.ndarray, "window wide dim"],
    rates: Float[np.ndarray, "window dim"],
    valid: Bool[np.ndarray, " window"],
    position: Any,
) -> Windows:
    """Return windows with other rows, cut and standardised in the same way, with the states at all
    lags that they read.
    """
    dtype = windows.history.dtype
    return dataclasses.replace(
        windows,
        history=to_jax(states, dtype),
        increment=to_jax(rates, dtype),
        valid=to_jax(valid),
        weight=to_jax(valid, dtype),
        position=to_jax(position),
        lags=lags_read(windows),
    )


def scaled_rows(
    recordings: Sequence[np.ndarray], mask: Sequence[np.ndarray], windows: Windows
) -> tuple[Float[np.ndarray, "window lag dim"], Float[np.ndarray, "window dim"]]:
    """Return the states and rates of every row of recordings, standardised like those of windows;
    NaN for values that are missing or outside the mask, if there is one.
    """
    stencil, s = stencil_of(windows), windows.scaling
    scale, rate_center, rate_scale = (
        np.asarray(a, float) for a in (s.scale, s.rate_center, s.rate_scale)
    )
    lags, states, rates = lags_read(windows), [], []
    for number, value in enumerate(recordings):
        z = standardised(value, windows)
        start, stop = row_range(len(z), lags, stencil)
        rate = sum(c * z[start + o : stop + o] for o, c in stencil.items()) / float(windows.dt)
        if mask:
            steps = range(min(stencil), max(stencil))
            inside = np.all([mask[number][start + o : stop + o] for o in steps], axis=0)
            rate = np.where(inside[:, None], rate, np.nan)
        states.append(np.stack([z[start - lag : stop - lag] for lag in lags], axis=1))
        rates.append((rate * scale[None] - rate_center[None]) / rate_scale[None])
    return np.concatenate(states), np.concatenate(rates)


def _known_at_midpoints(
    known: Bool[np.ndarray, "window wide dim"], wide: tuple[int, ...], lags: tuple[int, ...]
) -> Bool[np.ndarray, "window lag dim"]:
    """Return for which states halfway through a step all samples that interpolation reads are
    measured.
    """
    read = [[wide.index(lag) for lag in interpolation_lags((lag,))] for lag in lags]
    return np.stack([known[:, places].all(axis=1) for places in read], axis=1)
