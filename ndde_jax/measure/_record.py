"""The sources at any delay, by interpolation between samples, and the gain from a delay."""

import copy
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..regression._design import design_of
from ..regression._features import spline_terms
from ..regression._terms import Terms, find_terms, fit_terms
from ..samples._samples import Samples
from ..select._target_fit import coefficients_of
from ..windows._flat import KnownData
from ..windows._windows import Windows
from ._delays import SHORTEST, student_quantile

# Gauss–Newton steps in the delays; they end once none moves by this many samples.
STEPS, SETTLED = 8, 0.02
# Half the distance, in samples, over which the slope with respect to a delay is taken.
REACH = 0.25
BLOCKS = 32
# Least half of an interval, in samples.
FINEST = 0.5
# Of two-sided intervals.
CONFIDENCE = 0.90


class Record:
    """The standardised samples at the positions of the windows, NaN between trajectories."""

    def __init__(self, samples: Samples, windows: Windows):
        center, scale = (
            np.asarray(a, float) for a in (windows.scaling.center, windows.scaling.scale)
        )
        self.position = np.asarray(windows.position)
        # Rows of one trajectory follow one another; the first sample of the first is 0.
        starts = np.flatnonzero(np.diff(self.position, prepend=self.position[0] - 2) != 1)
        offsets = self.position[starts] - self.position[0]
        self.values = np.full((offsets[-1] + len(samples.values[-1]) + 4, len(center)), np.nan)
        for offset, value in zip(offsets, samples.values, strict=True):
            rows = (np.asarray(value, float) - center[None]) / scale[None]
            self.values[offset : offset + len(rows)] = rows
        self.shift = 0.5 if windows.scheme in ("midpoint", "euler") else 0.0

    def of_rows(self, windows: Windows) -> "Record":
        """Return a record with these samples, read at the positions of other windows, for example
        those of a half.
        """
        other = copy.copy(self)
        other.position = np.asarray(windows.position)
        return other

    def at(self, source: int, delay: float) -> Float[np.ndarray, " window"]:
        """Return a source `delay` samples ago, by Catmull–Rom interpolation; NaN where unknown."""
        when = self.position + self.shift - delay
        base = np.floor(when).astype(int)
        u = when - base
        column = self.values[:, source]
        p0, p1, p2, p3 = (column[np.clip(base + k, 0, len(column) - 1)] for k in (-1, 0, 1, 2))
        p0 = np.where(base < 1, np.nan, p0)
        a = -0.5 * p0 + 1.5 * p1 - 1.5 * p2 + 0.5 * p3
        b = p0 - 2.5 * p1 + 2 * p2 - 0.5 * p3
        return ((a * u + b) * u + 0.5 * (p2 - p0)) * u + p1


class Settled(NamedTuple):
    """The estimated delays of some terms of one target, in samples, with all coefficients adapting.

    - `delay`, `half`: estimates, and halves of their 90 % intervals, `[term]`.
    - `criterion`: the extended Bayesian information criterion, delays counted as parameters.
    - `risk`: share of the variance of the rate that is left.
    """

    delay: Float[np.ndarray, " term"]
    half: Float[np.ndarray, " term"]
    criterion: float
    risk: float


def settle(record: Record, data: KnownData, known, sources, start, room, target: int):
    """Return the delays near `start`, at most `room` from it, with which splines and products of
    the sources there and of `known` inputs explain a rate best; None where too few windows know
    them.

    Gauss–Newton steps, all coefficients adapting (variable projection, Golub and Pereyra, 1973).
    Intervals from the sums of influence over stretches of the record (White, 1982), never shorter
    than half a sampling interval to either side, which interpolation may err.
    """
    start, room = np.asarray(start, float), np.asarray(room, float)
    delay, terms = start.copy(), None
    for _ in range(STEPS):
        state = linearised(record, data, known, sources, delay, target, terms)
        if state is None:
            return None
        move, terms = state.step(), state.terms
        new = np.clip(delay + np.clip(move, -room / 2, room / 2), start - room, start + room)
        new = np.maximum(new, SHORTEST)
        settled = np.abs(new - delay).max() < SETTLED
        delay = new
        if settled:
            break
    state = linearised(record, data, known, sources, delay, target)
    if state is None:
        return None
    return Settled(delay, np.maximum(state.halves(), FINEST), state.criterion, state.risk)


class Linearised(NamedTuple):
    """A model of one rate, with its derivatives with respect to the delays of its terms.

    - `slopes`: derivatives of the prediction with respect to each delay, less the part that the
        coefficients can replace, `[window term]`.
    - `residual`: standardised, weighted.
    - `criterion`, `risk`: as of [`Settled`][ndde_jax.measure._record.Settled].
    - `stretch`: the stretch of the record that each window lies in.
    - `terms`: the terms of the model; the same at all delays that are compared.
    """

    slopes: Float[np.ndarray, "window term"]
    residual: Float[np.ndarray, " window"]
    criterion: float
    risk: float
    stretch: np.ndarray
    terms: Terms

    def step(self) -> Float[np.ndarray, " term"]:
        """Return the Gauss–Newton step to the delays that explain most."""
        gram = self.slopes.T @ self.slopes
        gram[np.diag_indices_from(gram)] *= 1 + 1e-6
        return np.linalg.lstsq(gram, self.slopes.T @ self.residual, rcond=None)[0]

    def gains(self) -> Float[np.ndarray, " term"]:
        """Return the fall of the criterion if one delay moved to the value that explains most."""
        along = self.slopes.T @ self.residual
        square = np.maximum((self.slopes**2).sum(axis=0), 1e-300)
        share = np.minimum(along**2 / square / max(self.residual @ self.residual, 1e-300), 0.99)
        n = len(self.residual)
        return -n * np.log1p(-share) - np.log(n)

    def halves(self) -> Float[np.ndarray, " term"]:
        """Return half the lengths of 90 % intervals."""
        sums = np.stack(
            [np.bincount(self.stretch, column * self.residual, BLOCKS) for column in self.slopes.T]
        )
        inverse = np.linalg.pinv(self.slopes.T @ self.slopes)
        error = np.sqrt(np.diag(inverse @ (sums @ sums.T) @ inverse) * BLOCKS / (BLOCKS - 1))
        return student_quantile((1 + CONFIDENCE) / 2, BLOCKS - 1) * error


def linearised(
    record: Record, data: KnownData, known, sources, delay, target: int, terms: Terms | None = None
) -> Linearised | None:
    """Return the model of a rate by `known` inputs and sources at their delays, of the terms that
    are best here unless they are given; None where too few windows know all inputs.
    """
    states = [
        np.stack([record.at(int(i), d + h) for i, d in zip(sources, delay, strict=True)], axis=1)
        for h in (-REACH, 0.0, REACH)
    ]
    seen = np.isfinite(sum(states)).all(axis=1) & (data.weight > 0)
    if seen.sum() < 10 * (known.shape[1] + len(sources)) + BLOCKS:
        return None
    weight = data.weight[seen]
    low, late, high = (state[seen] for state in states)
    inputs = np.concatenate([known[seen], late], axis=1)
    design = design_of(inputs, weight)
    y, _ = design.standardised(data.outputs[seen, target])
    if terms is None:
        every = np.ones(design.n_inputs, bool)
        terms = find_terms(design, y, every, every)
    fit = fit_terms(design, y, terms)
    splines, pairs, paired = coefficients_of(design, fit)
    slopes = []
    for k in range(len(sources)):
        i = known.shape[1] + k
        moved = spline_terms(high[:, k], design.knots[i]) - spline_terms(low[:, k], design.knots[i])
        slope = moved @ splines[i]
        for (first, second), value in zip(pairs, paired, strict=True):
            if i in (first, second):
                other = inputs[:, second if first == i else first]
                slope += value * (high[:, k] - low[:, k]) * other
        slopes.append(design.root * slope / (2 * REACH))
    slopes = np.stack(slopes, axis=1)
    slopes = slopes - fit.columns @ (fit.inverse @ (fit.columns.T @ slopes))
    stretch = np.minimum(np.arange(len(y)) * BLOCKS // len(y), BLOCKS - 1)
    # A delay is a parameter as well.
    criterion = fit.criterion(candidates=0) + len(sources) * np.log(float(fit.n))
    return Linearised(slopes, fit.residual, criterion, float(fit.risk), stretch, terms)
