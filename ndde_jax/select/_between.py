"""Delays between the candidate lags: sources at any delay, and the search continued with them.

A regression represents a delay between two candidates as a weighted sum of both. Here sources are
interpolated at the delay itself, which is estimated by Gauss–Newton steps.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, KnownMask, KnownScores, divisor
from ..regression._design import (
    WIDTH,
    Design,
    InterpolationErrors,
    design_of,
    knots_of,
    quantiles_of,
    spline_terms,
)
from ..regression._search import PROGRESS
from ..regression._terms import Own, Terms, best_fit, describe, find_terms, fit_terms
from ..samples._samples import Samples
from ..windows._windows import KnownData, Windows
from ._splines import MARGIN, SHORTLIST
from ._target_fit import Coefficients
from ._worth import student_quantile

# Shortest delays read along cubics and along lines. The mean over the step that begins a delay
# before the present reads three samples along cubics and two along lines, from the one before its
# beginning, and must not read the end of the step that is explained. Lines miss the bends of smooth
# paths, whose delays end half a sample before those at which a derivative would read that step.
CUBIC, NEAREST, SMOOTH = 3.0, 1.0, 1.75
# Most Gauss–Newton steps in the delays, and the change in samples below which they end.
STEPS, SETTLED = 8, 0.02
# Half the distance, in samples, over which the derivative with respect to a delay is taken. The
# whole distance is one sample: halfway between two samples a mean of both changes less with the
# delay than at either, and standard errors would be too small for an estimate close to a sample.
REACH = 0.5
BLOCKS = 32
# Distance, in samples, within which a search treats two delays as equal.
FINEST = 0.5
# Error of a delay, in samples, because a step of a flow is not exactly the mean of a drift over the
# samples around it. Chosen by comparing errors with their standard errors: .075 would do for the
# linear flows of `benchmarks.verdict.sized`; smooth systems in `benchmarks.delays` have .1 to .2.
STEP = 0.2
# Level of two-sided intervals.
CONFIDENCE = 0.90
# By how many inputs a model with delays must be smaller to be preferred within a margin.
FEWER = 2
# Most searches, each with the delays settled by the previous one.
ROUNDS = 3
# How far a delay may move from its start, in steps between candidates.
ROOM = 1.5
# Distance from a candidate, in such steps, that counts as at the candidate: measurement errors and
# halved steps shift delays by up to a sample.
NEAR_CANDIDATE = 0.2


class Record(NamedTuple):
    """The standardised samples that windows were cut from, NaN between trajectories.

    - `values`: `[sample dim]`; `position`: of each window, as an index into `values`.
    - `forward`: whether rates are forward differences, which are means over a step.
    - `later`: by how many samples the effective time of a driver is after the middle of the step.
    - `rough`: the variables that straight lines interpolate as well as cubics do.
    - `width`: number of terms of the splines used with it.
    """

    values: Float[np.ndarray, "sample dim"]
    position: Int[np.ndarray, " window"]
    forward: bool
    later: Float[np.ndarray, " target"]
    rough: Bool[np.ndarray, " dim"]
    width: int = WIDTH

    @classmethod
    def of(cls, samples: Samples, windows: Windows) -> "Record":
        """Return the record of samples that were cut into windows."""
        position = np.asarray(windows.position)
        # Rows of one trajectory are consecutive; the first sample of the first one has offset 0.
        starts = np.flatnonzero(np.diff(position, prepend=position[0] - 2) != 1)
        offsets = position[starts] - position[0]
        values = np.full((offsets[-1] + len(samples.values[-1]) + 4, windows.dim), np.nan)
        for offset, value in zip(offsets, samples.values, strict=True):
            values[offset : offset + len(value)] = standardised(value, windows)
        forward = windows.scheme in ("midpoint", "euler")
        later = _effective_time(windows) if forward else np.zeros(windows.dim)
        return cls(
            values, position, forward, later, forward & InterpolationErrors.of([values]).rough
        )

    def of_rows(self, windows: Windows) -> "Record":
        """Return the record with these samples read at the positions of other windows, for example
        those of a half.
        """
        return self._replace(position=np.asarray(windows.position))

    def at(
        self, source: int, delay: float, target: int, straight: bool | None = None
    ) -> Float[np.ndarray, " window"]:
        """Return a source `delay` samples ago, NaN where unknown, by Catmull–Rom interpolation or
        along `straight` lines between samples; by default lines where they interpolate as well or
        cubics would read too far.

        A forward difference is the integral of the drift over its step, so for it the source is
        averaged over an equally long time.
        """
        straight = self.straight(source, delay) if straight is None else straight
        when = self.position - max(delay - self.later[target], NEAREST if straight else CUBIC - 1)
        base = np.floor(when).astype(int)
        u = when - base
        column = self.values[:, source]
        if not self.forward:
            a, b, c, d = self._cubic(column, base, straight)
            return ((a * u + b) * u + c) * u + d
        first, second = (self._cubic(column, base + k, straight) for k in (0, 1))
        whole, before, after = (
            (((a / 4 * s + b / 3) * s + c / 2) * s + d) * s
            for (a, b, c, d), s in ((first, 1.0), (first, u), (second, u))
        )
        return whole - before + after

    def straight(self, source: int, delay: float, other: bool = False) -> bool:
        """Return whether a source at a delay is read along straight lines; with `other`, whether
        the alternative interpolation is along lines, where there is an alternative.
        """
        return bool(delay < CUBIC or self.rough[source] != other)

    def shortest(self, sources: Any) -> Float[np.ndarray, " term"]:
        """Return the shortest delay at which each of some sources is read."""
        return np.where(self.rough[np.asarray(sources, int)], NEAREST, SMOOTH)

    def _cubic(self, column, base, straight: bool) -> tuple[np.ndarray, ...]:
        """Return the coefficients of the interpolant after given samples, highest power first."""
        p0, p1, p2, p3 = (
            np.where(base < -k, np.nan, column[np.clip(base + k, 0, len(column) - 1)])
            for k in (-1, 0, 1, 2)
        )
        if straight:
            return np.zeros_like(p1), np.zeros_like(p1), p2 - p1, p1
        a = -0.5 * p0 + 1.5 * p1 - 1.5 * p2 + 0.5 * p3
        b = p0 - 2.5 * p1 + 2 * p2 - 0.5 * p3
        return a, b, 0.5 * (p2 - p0), p1


def standardised(values: Any, windows: Windows) -> Float[np.ndarray, "time dim"]:
    """Return samples in the units of windows, in double precision."""
    center, scale = windows.scaling.center, windows.scaling.scale
    return (np.asarray(values, float) - np.asarray(center, float)) / np.asarray(scale, float)


def _effective_time(windows: Windows) -> Float[np.ndarray, " target"]:
    """Return by how many samples the effective time of a driver is after the middle of the step.

    Under damping at the rate g, an effect at the fraction v of a step is weighted by
    exp(−g (1 − v)) at its end. The centre of these weights is 1/2 + g/12 for small g.
    """
    if 0 not in windows.lags:
        return np.zeros(windows.dim)
    valid = np.asarray(windows.valid)
    now = np.asarray(windows.history, float)[valid, windows.lags.index(0)]
    rate = np.asarray(windows.increment, float)[valid]
    if len(now) < fewest_windows(windows.dim):
        return np.zeros(windows.dim)
    own = np.diag(np.linalg.lstsq(now, rate, rcond=None)[0])
    scaling = windows.scaling
    scale, rate_scale = (np.asarray(a, float) for a in (scaling.scale, scaling.rate_scale))
    damped = -own * rate_scale / scale * float(windows.dt)
    return np.clip(damped, -1, 1) / 12


class FittedDelays(NamedTuple):
    """The estimated delays of some terms of one target, in samples, all coefficients refitted.

    - `delay`, `error`: estimates and their standard errors, `[term]`.
    - `blur`: by how much the alternative interpolation, cubics or lines, would move the delays,
        `[term]`.
    - `curvature`: rise of the risk per squared distance from the estimate, `[term]`.
    - `criterion`: the extended Bayesian information criterion, delays counted as parameters.
    - `risk`: unexplained share of the variance of the rate.
    """

    delay: Float[np.ndarray, " term"]
    error: Float[np.ndarray, " term"]
    blur: Float[np.ndarray, " term"]
    curvature: Float[np.ndarray, " term"]
    criterion: float
    risk: float

    @property
    def half(self) -> Float[np.ndarray, " term"]:
        """The half-widths of 90 % intervals, from sampling error and interpolation."""
        quantile = student_quantile((1 + CONFIDENCE) / 2, BLOCKS - 1)
        return np.sqrt((quantile * self.error) ** 2 + self.blur**2 + STEP**2)


def fewest_windows(n_inputs: int) -> int:
    """Return the least number of windows for which delays are estimated."""
    return 10 * n_inputs + BLOCKS


def fit_delays(record: Record, data: KnownData, known, sources, start, room, target: int):
    """Return the delays within `room` of `start` at which splines and products of the sources and
    of `known` inputs explain a rate best; None if too few windows contain all inputs.

    Gauss–Newton steps on the profile least squares, the coefficients being refitted at every delay
    (variable projection, Golub and Pereyra, 1973). Standard errors are from sums of the influence
    function (White, 1982).
    """
    start, room = np.asarray(start, float), np.asarray(room, float)
    delay, terms = start.copy(), None
    for _ in range(STEPS):
        state = linearised(record, data, known, sources, delay, target, terms)
        if state is None:
            return None
        move, terms = state.step(), state.terms
        new = np.clip(delay + np.clip(move, -room / 2, room / 2), start - room, start + room)
        new = np.maximum(new, record.shortest(sources))
        settled = np.abs(new - delay).max() < SETTLED
        delay = new
        if settled:
            break
    state = linearised(record, data, known, sources, delay, target)
    if state is None:
        return None
    other = linearised(record, data, known, sources, delay, target, state.terms, other=True)
    # Cubics read further, so a short record may have too few windows for them.
    blur = 0 * room if other is None else np.minimum(np.abs(other.step() - state.step()), room)
    # Close to the present, smooth paths too are read along lines, which err as the path bends.
    bends = ~record.rough[np.asarray(sources, int)] & (delay < CUBIC)
    blur = np.where(bends, np.maximum(blur, FINEST), blur)
    error, curvature = state.errors()
    return FittedDelays(delay, error, blur, curvature, state.criterion, state.risk)


def _own_among(data: KnownData, known, sources, target: int) -> Own | None:
    """Return the own state of a target among `known` columns of candidates and then sources at
    delays; None if it is not one of them.
    """
    past = data.inputs[:, target :: data.dim]
    same = (known[:, :, None] == past[:, None]).all(axis=0)
    others = np.concatenate([~same.any(axis=1), np.asarray(sources) != target])
    return Own(int(same[:, 0].argmax()), others) if same[:, 0].any() else None


def newton_step(
    slopes: Float[np.ndarray, "row term"], residual: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " term"]:
    """Return the Gauss–Newton step, the regression of a residual on the derivatives."""
    gram = slopes.T @ slopes
    gram[np.diag_indices_from(gram)] *= 1 + 1e-6
    return np.linalg.lstsq(gram, slopes.T @ residual, rcond=None)[0]


class Linearised(NamedTuple):
    """A model of one rate with its derivatives with respect to the delays of its terms.

    - `slopes`: derivatives of the prediction with respect to each delay, orthogonal to the columns
        of the model, `[window term]`.
    - `residual`: standardised, weighted.
    - `criterion`, `risk`: as in [`FittedDelays`][ndde_jax.select._between.FittedDelays].
    - `stretch`: the stretch of the record that contains each window.
    - `terms`: the terms of the model; the same at all delays that are compared.
    """

    slopes: Float[np.ndarray, "window term"]
    residual: Float[np.ndarray, " window"]
    criterion: float
    risk: float
    stretch: np.ndarray
    terms: Terms

    def step(self) -> Float[np.ndarray, " term"]:
        """Return the Gauss–Newton step of the delays."""
        return newton_step(self.slopes, self.residual)

    def gains(self) -> Float[np.ndarray, " term"]:
        """Return the predicted fall of the criterion if one delay moved to its best value."""
        along = self.slopes.T @ self.residual
        square = np.maximum((self.slopes**2).sum(axis=0), 1e-300)
        share = np.minimum(along**2 / square / max(self.residual @ self.residual, 1e-300), 0.99)
        n = len(self.residual)
        return -n * np.log1p(-share) - np.log(n)

    def errors(self) -> tuple[Float[np.ndarray, " term"], Float[np.ndarray, " term"]]:
        """Return the standard errors of the delays and the curvature of the risk in each. The error
        is the larger of two sandwich estimates: from sums over stretches, which account for
        autocorrelation, and from single windows, which vary less.
        """
        influence = self.slopes.T * self.residual
        sums = np.stack([np.bincount(self.stretch, row, BLOCKS) for row in influence])
        inverse = np.linalg.pinv(self.slopes.T @ self.slopes)
        by_stretch = sums @ sums.T * BLOCKS / (BLOCKS - 1)
        squares = [np.diag(inverse @ s @ inverse) for s in (by_stretch, influence @ influence.T)]
        return np.sqrt(np.maximum(*squares)), 1 / np.maximum(np.diag(inverse), 1e-300)


def linearised(
    record: Record,
    data: KnownData,
    known,
    sources,
    delay,
    target: int,
    terms: Terms | None = None,
    *,
    other: bool = False,
) -> Linearised | None:
    """Return the model of a rate on `known` inputs and sources at their delays, with the best terms
    unless these are given; None if too few windows contain all inputs. With `other`, sources are
    read by the alternative interpolation.
    """
    # The three delays of a source use the same interpolant.
    read = [
        (int(i), d, record.straight(int(i), d, other)) for i, d in zip(sources, delay, strict=True)
    ]
    states = [
        np.stack([record.at(i, shifted(d, h), target, lines) for i, d, lines in read], axis=1)
        for h in (-REACH, 0.0, REACH)
    ]
    seen = np.isfinite(sum(states)).all(axis=1) & (data.weight > 0)
    if seen.sum() < fewest_windows(known.shape[1] + len(sources)):
        return None
    weight = data.weight[seen]
    low, late, high = (state[seen] for state in states)
    inputs = np.concatenate([known[seen], late], axis=1)
    knots = knots_of(inputs[weight > 0], quantiles_of(record.width))
    design = design_of(inputs, weight, knots)
    y, _ = design.standardised(data.outputs[seen, target])
    if terms is None:
        every = np.ones(design.n_inputs, bool)
        terms = find_terms(design, y, every, every, own=_own_among(data, known, sources, target))
    fit = fit_terms(design, y, terms)
    model, root, slopes = Coefficients.of(design, fit), design.root, []
    for k in range(len(sources)):
        i = known.shape[1] + k
        terms_low, terms_high = (spline_terms(z[:, k], design.knots[i]) for z in (low, high))
        products = [(high[:, k] - low[:, k]) * inputs[:, other] for other in model.partners(i)]
        slopes.append(root * model.change(i, terms_high - terms_low, products) / (2 * REACH))
    slopes = fit.left_of(np.stack(slopes, axis=1))
    stretch = np.minimum(np.arange(len(y)) * BLOCKS // len(y), BLOCKS - 1)
    # Each delay is a parameter.
    criterion = fit.criterion(candidates=0) + len(sources) * np.log(float(fit.n))
    return Linearised(slopes, fit.residual, criterion, float(fit.risk), stretch, terms)


def shifted(delay: float, shift: float) -> float:
    """Return a delay and, for a `shift` of plus or minus `REACH`, the two whose difference gives
    its derivative: both later where the earlier one would be within the step that is explained.
    """
    return max(delay - REACH, NEAREST) + REACH + shift if shift else delay


def runs_of(places) -> list[np.ndarray]:
    """Return the runs of consecutive numbers among ascending places."""
    places = np.asarray(places, int)
    return np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []


class Refined(NamedTuple):
    """The inputs of one target, some at delays between the candidates.

    - `design`: of all candidates; a source at its own delay replaces the nearest candidate.
    - `mask`, `shortlist`: the inputs kept by the search, and those it searched.
    - `delays`, `halves`: delays of kept places in samples, and half-widths of their 90 % intervals;
        NaN where a source stays at its candidate, `[input]`.
    """

    design: Design
    mask: KnownMask
    shortlist: Int[np.ndarray, " slot"]
    delays: Float[np.ndarray, " input"]
    halves: Float[np.ndarray, " input"]


class Delayed(NamedTuple):
    """The delays at which sources of a target are tried, `[input]`.

    - `delays`, `halves`: by place, in samples, and half-widths of their intervals; NaN elsewhere.
    - `known`: the other inputs of the estimate, which keep their delay.
    """

    delays: Float[np.ndarray, " input"]
    halves: Float[np.ndarray, " input"]
    known: KnownMask

    @property
    def places(self) -> Int[np.ndarray, " place"]:
        """The candidates that are replaced by sources at these delays."""
        return np.flatnonzero(np.isfinite(self.delays))


class Refiner:
    """A search for delays between the candidates that describe a rate with fewer terms, or better.

    A regression represents a delay between two candidates as a weighted sum of both and of others
    further away, so one link appears as several. Here neighbouring lags of one source become one
    delay. Its estimate replaces the nearest candidate, and the search restarts: proxies are
    dropped, and the inputs that they masked are found. The extended Bayesian information criterion
    decides, with a delay as one parameter. Two lags of a source both stay if both are needed.

    `places`, `[target input]`, are the candidates that a delay may replace.
    """

    def __init__(
        self,
        record: Record,
        data: KnownData,
        lags: tuple[int, ...],
        design: Design,
        places: Bool[np.ndarray, "target input"],
    ):
        lags = np.asarray(lags, float)
        self.record, self.data, self.lags = record, data, lags
        self.design, self.places = design, places
        self.lag = np.repeat(lags, data.dim)
        self.source = np.tile(np.arange(data.dim), len(lags))
        gaps = np.diff(lags, prepend=np.nan, append=np.nan)
        # Distance to the further neighbour; one sample where there is no neighbour.
        self.gap = np.repeat(np.nan_to_num(np.fmax(gaps[:-1], gaps[1:]), nan=1.0), data.dim)

    def __call__(self, j: int, mask: KnownMask, cost: float) -> Refined | None:
        """Return target `j` refined from the `mask` that splines chose at the criterion `cost`;
        None if it needs no such delay.
        """
        output = self.data.outputs[:, j]
        steps, found = self.delays_to_try(j, mask, cost), None
        while True:
            try:
                at = steps.send(found)
            except StopIteration as end:
                return end.value
            found = self.searched(j, self.with_delays(j, at), output, at)

    def delays_to_try(
        self, j: int, mask: KnownMask, cost: float
    ) -> Generator["Delayed", "tuple[float, Refined] | None", Refined | None]:
        """Yield the delays to search a target with, and receive what each search found, from a
        `mask` with the criterion `cost`; return the best result, if any is better.
        """
        terms = self._terms(j, mask)
        if not terms or not self._may_gain(j, mask, terms):
            return None
        sources, count = self._sources(terms), mask.sum()
        # Present states may also stand for a delay, so it is first sought without them.
        tried = mask & ~self._presents(j, mask)
        start, best = self._starts(j, tried, terms), None
        for number in range(ROUNDS):
            at = self._settled(j, tried, sources, start)
            found = None if at is None else (yield at)
            merged = len(sources) < (mask & self._free(j)).sum() or (tried != mask).any()
            if found is not None and found[0] < cost + self._allowance(j, mask, found[1]):
                cost, best = found
                mask, delays = best.mask, best.delays
            elif number == 0 and merged:
                delays = np.full(len(self.lag), np.nan)  # neighbours that are not one delay
            else:
                break
            # The inputs kept now, each lag separately.
            tried = mask
            own = np.flatnonzero(mask & self._free(j))
            if not len(own):
                break
            sources, start = self.source[own], np.where(np.isfinite(delays), delays, self.lag)[own]
        # Delays that coincide with candidates do not justify more inputs.
        if best is not None and (self.between(best) or best.mask.sum() < count):
            return best
        return None

    def _allowance(self, j: int, mask, found: Refined) -> float:
        """Return by how much the criterion may rise with delays. The mean of a rough path over a
        step is not exactly that of the lines between samples, which many lags make up for.
        """
        rough = self.record.rough[self.source[mask & self._free(j)]].all()
        fewer = found.mask.sum() + FEWER <= mask.sum()
        return MARGIN if rough and fewer else -PROGRESS

    def _free(self, j: int) -> KnownMask:
        """Return the inputs with a delay that are not required at their candidate. Where cubics
        would read too far, only sources that lines interpolate as well have delays.
        """
        least = np.where(self.record.rough[self.source], NEAREST, CUBIC)
        return (self.lag >= least) & ~self.data.required[j]

    def _presents(self, j: int, mask) -> KnownMask:
        """Return the present states of other rough sources that are kept with the first delay."""
        free, late = self._free(j), np.zeros(len(mask), bool)
        late[: -self.data.dim] = (mask & free)[self.data.dim :]
        other = (self.source != j) & self.record.rough[self.source]
        return mask & ~free & late & other & (self.lag == 0)

    def _terms(self, j: int, mask) -> list[Int[np.ndarray, " input"]]:
        """Return the groups of inputs with one delay each: neighbouring lags of one source."""
        free = (mask & self._free(j)).reshape(len(self.lags), -1)
        dim = self.data.dim
        return [run * dim + i for i in range(dim) for run in runs_of(np.flatnonzero(free[:, i]))]

    def _sources(self, terms) -> list[int]:
        return [int(self.source[run[0]]) for run in terms]

    def _given(self, j: int, mask) -> tuple[Record, KnownData, np.ndarray]:
        """Return record, data, and the values of the inputs that keep their delay."""
        return self.record, self.data, self.data.inputs[:, mask & ~self._free(j)]

    def _may_gain(self, j: int, mask, terms) -> bool:
        """Return whether lags are adjacent, or the derivatives predict a gain from moving one."""
        if any(len(run) > 1 for run in terms) or self._presents(j, mask).any():
            return True
        own = np.concatenate(terms)
        state = linearised(*self._given(j, mask), self.source[own], self.lag[own], j)
        return state is not None and bool(state.gains().max() > 0)

    def _starts(self, j: int, mask, terms) -> Float[np.ndarray, " term"]:
        """Return the middle of each run, or the lag in it with the lower criterion."""
        given, sources = self._given(j, mask), self._sources(terms)
        start = np.array([self.lag[run].mean() for run in terms])

        def cost(delay):
            state = linearised(*given, sources, delay, j)
            return np.inf if state is None else state.criterion

        least = cost(start) if any(len(run) > 2 for run in terms) else 0.0
        for k, run in enumerate(terms):
            # Between two lags the middle is close enough.
            for lag in self.lag[run] if len(run) > 2 else ():
                trial = start.copy()
                trial[k] = lag
                if (now := cost(trial)) < least:
                    least, start = now, trial
        return start

    def _settled(self, j: int, mask, sources, start) -> "Delayed | None":
        """Return the delays that converge near `start`; None if none does."""
        nearest = np.abs(self.lag[None] - np.asarray(start)[:, None]).argmin(axis=1)
        room = ROOM * self.gap[nearest]
        settled = fit_delays(*self._given(j, mask), sources, start, room, j)
        if settled is None:
            return None
        # A delay at the end of its room has not converged and stays at its candidate.
        rough = self.record.rough[np.asarray(sources, int)]
        inside = rough | (settled.delay > CUBIC - REACH)
        inside &= np.abs(settled.delay - start) < room
        if not inside.any():
            return None
        found = np.asarray(sources)[inside], settled.delay[inside], settled.half[inside]
        at = self._placed(j, *found, mask & ~self._free(j))
        return at if len(at.places) else None

    def placed(self, j: int, at: "Delayed") -> "Delayed":
        """Return the same delays, each in the place that is now nearest to it."""
        own = at.places
        return self._placed(j, self.source[own], at.delays[own], at.halves[own], at.known)

    def _placed(self, j: int, sources, delay, half, known) -> "Delayed":
        delays, halves = (np.full(len(self.lag), np.nan) for _ in range(2))
        for k, source in enumerate(sources):
            own = np.flatnonzero(self.places[j] & self._free(j) & (self.source == source))
            place = own[np.abs(self.lag[own] - delay[k]).argmin()] if len(own) else None
            # Of two delays of one source at one place, only the first is used.
            if place is not None and np.isnan(delays[place]):
                delays[place], halves[place] = delay[k], half[k]
        return Delayed(delays, halves, known)

    def with_delays(self, j: int, at: "Delayed") -> Design:
        """Return the design with some sources at delays of their own."""
        return self.design.with_inputs(at.places, self.states(j, at.places, at.delays[at.places]))

    def searched(self, j: int, design: Design, output, at: "Delayed") -> tuple[float, Refined]:
        """Return the criterion and result of a search on a design with sources at delays."""
        taken, dim, (y, _) = np.isfinite(at.delays), self.data.dim, design.standardised(output)
        may, own = self.data.allowed[j] | taken, Own.of(j, design.n_inputs, dim)
        terms = find_terms(design, y, may, self.data.required[j], dim, own)
        found = describe(design, output, terms, dim, min(SHORTLIST, design.n_inputs))
        kept = found.mask & taken
        # One more parameter, and the choice among distinguishable positions about a candidate.
        each = np.log(design.n_windows) + 2 * np.log(np.maximum(self.gap[kept] / FINEST, 1))
        cost = best_fit(design, y, found.mask, own).criterion() + each.sum()
        # The shortest delay that can be read stands for all that are shorter.
        own = kept & (at.delays > NEAREST)
        delays, halves = (np.where(own, values, np.nan) for values in (at.delays, at.halves))
        return cost, Refined(design, found.mask, found.slots, delays, halves)

    def states(self, j: int, places, delays) -> Float[np.ndarray, "window place"]:
        """Return the sources at their delays, or at their candidates where the record does not
        reach far enough.
        """
        late = [
            self.record.at(int(self.source[place]), delay, j)
            for place, delay in zip(places, delays, strict=True)
        ]
        late = np.stack(late, axis=1)
        return np.where(np.isfinite(late), late, self.data.inputs[:, places])

    def readings(self, j: int, found: Refined, mask, inputs) -> list[KnownMask]:
        """Return sets of candidates from which a drift can reconstruct the sources of a mask at
        their delays: one or two on either side of a delay between candidates, or the part of these
        that is among given inputs.
        """
        around = [mask.copy(), mask.copy()]
        for place in np.flatnonzero(mask & self.away_from_candidate(found)):
            own = np.flatnonzero(self.places[j] & (self.source == self.source[place]))
            far = self.lag[own] - found.delays[place]
            for side in (own[far < 0][::-1], own[far > 0]):
                around[0][side[:1]] = True
                around[1][side[:2]] = True
        some = around[1] & (inputs | ~self._free(j)), mask, found.delays
        reads, graph, delays = (np.reshape(a, (len(self.lags), -1)).T for a in some)
        delays = np.where(np.isfinite(delays), delays, self.lags)
        return [with_candidate_per_edge(reads, graph, delays, self.lags).T.ravel(), *around]

    def between(self, found: Refined) -> bool:
        """Return whether some delay is clearly away from its candidate: the candidate lies outside
        the interval of the delay and not close to it.
        """
        near = np.fmax(np.fmax(found.halves, FINEST), NEAR_CANDIDATE * self.gap)
        return bool((self._distance_to_candidate(found) > near).any())

    def away_from_candidate(self, found: Refined) -> KnownMask:
        """Return the places whose candidate is outside the interval of the delay."""
        return self._distance_to_candidate(found) > np.fmax(np.nan_to_num(found.halves), FINEST)

    def _distance_to_candidate(self, found: Refined) -> Float[np.ndarray, " input"]:
        return np.nan_to_num(np.abs(self.lag - found.delays))


def states_at_delays(
    samples: Samples, windows: Windows, graph: KnownGraph, delays: KnownScores
) -> Float[np.ndarray, "window target column"] | None:
    """Return the sources of every target whose delays, in units of time, lie between the lags, in
    valid windows; zero where a target has fewer. None without any.
    """
    lags, at = np.asarray(windows.lags, float), np.asarray(delays) / samples.dt
    between = graph & (np.abs(np.nan_to_num(at) - lags) > SETTLED) & (np.nan_to_num(at) > NEAREST)
    if not between.any():
        return None
    record, valid = Record.of(samples, windows), np.asarray(windows.valid)
    columns = np.zeros((int(valid.sum()), len(graph), int(between.sum(axis=(0, 2)).max())))
    for j in range(len(graph)):
        for k, (i, a) in enumerate(np.argwhere(between[:, j])):
            late = record.at(int(i), float(at[i, j, a]), j)
            near = np.asarray(windows.history, float)[:, a, i]
            columns[:, j, k] = np.where(np.isfinite(late), late, near)[valid]
    return columns


def residuals_at_delays(
    samples: Samples, windows: Windows, graph: KnownGraph, delays: KnownScores, target: int
) -> Float[np.ndarray, " window"]:
    """Return the residual of a target's standardised rate on splines of its sources at their
    delays, in units of time, in the valid windows.
    """
    record, data, inputs = Record.of(samples, windows), KnownData(windows), []
    edges = np.argwhere(graph[:, target])
    for i, a in edges:
        state = data.inputs[:, a * data.dim + i]
        delay = float(delays[i, target, a]) / samples.dt
        if delay > NEAREST:
            late = record.at(int(i), delay, target)
            state = np.where(np.isfinite(late), late, state)
        inputs.append(state)
    design = design_of(np.stack(inputs, axis=1), data.weight)
    place = np.flatnonzero((edges == [target, 0]).all(axis=1))
    own = Own(int(place[0]), edges[:, 0] != target) if len(place) else None
    y, size = design.standardised(data.outputs[:, target])
    left = size * best_fit(design, y, np.ones(len(edges), bool), own).residual
    return (left / divisor(design.root))[np.asarray(windows.valid)]


def edge_of_reads(
    reads: Bool[np.ndarray, "*pair lag"],
    graph: Bool[np.ndarray, "*pair lag"],
    delays: Float[np.ndarray, "*pair lag"],
    candidates: Float[np.ndarray, " lag"],
) -> Int[np.ndarray, "*pair lag"]:
    """Return, for every candidate that is read, the position of the edge of its pair with the
    nearest delay, or −1 where nothing is read. An edge's own candidate belongs to that edge.

    `delays` are of the edges, `candidates` of the lags, in the same unit.
    """
    n_lags = graph.shape[-1]
    far = np.abs(delays[..., None, :] - candidates[:, None])  # [... read edge]
    far = np.where(graph[..., None, :], np.nan_to_num(far, nan=np.inf), np.inf)
    nearest = np.argmin(far, axis=-1)
    nearest = np.where(graph, np.arange(n_lags), nearest)
    return np.where(reads & graph.any(axis=-1, keepdims=True), nearest, -1)


def with_candidate_per_edge(
    reads: Bool[np.ndarray, "*pair lag"],
    graph: Bool[np.ndarray, "*pair lag"],
    delays: Float[np.ndarray, "*pair lag"],
    candidates: Float[np.ndarray, " lag"],
) -> Bool[np.ndarray, "*pair lag"]:
    """Return the candidates that are read for pairs with edges, and those of edges that no
    candidate read belongs to.
    """
    reads = reads & graph.any(axis=-1, keepdims=True)
    edge = edge_of_reads(reads, graph, delays, candidates)
    served = (edge[..., None] == np.arange(graph.shape[-1])).any(axis=-2)
    return reads | (graph & ~served)


def delays_between(
    graph: KnownGraph, reads: KnownGraph, delays: KnownScores, lags: tuple[int, ...]
) -> tuple[KnownGraph, tuple[int, ...]]:
    """Return the edges whose delay, in samples, is read from several candidates and, when rounded,
    is none of them; and the lags extended by these delays.
    """
    sample = np.round(np.nan_to_num(delays)).astype(int)
    several = graph & (reads & ~graph).any(axis=2, keepdims=True)
    between = several & ~np.isin(sample, lags)
    return between, tuple(sorted({*map(int, lags), *map(int, sample[between])}))
