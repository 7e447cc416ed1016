"""Delays of a graph between the candidate lags, in closed form."""

import numpy as np
from jaxtyping import Bool, Float

from ..samples._samples import Samples
from ..select._basis import N_FEATURES
from ..select._regression import FLOOR, Regression
from ..select._spline_search import columns_of, spline_terms_of
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
# How much worse than the model that found the graph splines may explain a rate.
WORSE = 1.1
# Of two-sided intervals.
CONFIDENCE = 0.90


def profile_delays(
    samples: Samples,
    windows: Windows,
    graph: Bool[np.ndarray, "source target lag"],
    risk: Float[np.ndarray, " target"] | None = None,
) -> tuple[Float[np.ndarray, "source target lag"], Float[np.ndarray, "source target lag 2"]]:
    """Delays of all kept edges, in time, and intervals that hold them with 90 % confidence given
    the graph; NaN where there is no edge.

    For every target, splines and products of its inputs describe the rate, the sources of delayed
    edges are interpolated between samples, and Gauss–Newton steps move the delays, with all
    coefficients adapting (variable projection, Golub and Pereyra, 1973). Kept lags of one source
    that are neighbours among the candidates become one delay where that describes the rate with
    fewer terms. Intervals from the sums of influence over 32 stretches of the record (White, 1982),
    never shorter than half a sampling interval to either side, which interpolation may err.

    A delay below 2.5 samples, any delay of irregular samples, and those of a target that splines
    explain worse than its `risk` by a tenth of it stay at their candidate lag, with half the way to
    the neighbouring candidates for an interval; a present state has no delay.
    """
    lags, dt = np.asarray(windows.lags, float), float(windows.dt)
    delays = np.where(graph, dt * lags, np.nan)
    edges = np.concatenate([lags[:1], (lags[1:] + lags[:-1]) / 2, lags[-1:]])
    around = dt * np.stack([edges[:-1], edges[1:]], axis=-1)
    around[lags == 0] = 0
    intervals = np.where(graph[..., None], around[None, None], np.nan)
    data = KnownData(windows)
    if data.refused or not samples.regular or not (graph & (lags >= SHORTEST + 0.5)).any():
        return delays, intervals
    record = _Record(samples, windows)
    for target in range(data.dim):
        most = np.inf if risk is None else WORSE * (float(risk[target]) + FLOOR)
        found = _target(record, data, windows, graph[:, target], target, most)
        for source, group, delay, half in found:
            delays[source, target, group] = dt * delay
            intervals[source, target, group] = dt * np.array([max(delay - half, 0), delay + half])
    return delays, intervals


class _Record:
    """Standardised samples at the positions of the windows, NaN between trajectories."""

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

    def at(self, source: int, delay: float) -> Float[np.ndarray, " window"]:
        """A source so many samples ago, by Catmull–Rom interpolation; NaN where unknown."""
        when = self.position + self.shift - delay
        base = np.floor(when).astype(int)
        u = when - base
        column = self.values[:, source]
        p0, p1, p2, p3 = (column[np.clip(base + k, 0, len(column) - 1)] for k in (-1, 0, 1, 2))
        p0 = np.where(base < 1, np.nan, p0)
        a = -0.5 * p0 + 1.5 * p1 - 1.5 * p2 + 0.5 * p3
        b = p0 - 2.5 * p1 + 2 * p2 - 0.5 * p3
        return ((a * u + b) * u + 0.5 * (p2 - p0)) * u + p1


def _target(record: _Record, data: KnownData, windows: Windows, graph, target: int, most: float):
    """Rows (source, indices of kept lags, delay, half of the interval), in samples."""
    lags = np.asarray(windows.lags)
    fixed, groups = [], []
    for source in range(graph.shape[0]):
        kept = np.flatnonzero(graph[source])
        free = [i for i in kept if lags[i] >= SHORTEST + 0.5]
        fixed += [(i, source) for i in kept if lags[i] < SHORTEST + 0.5]
        runs = np.split(free, np.nonzero(np.diff(free) > 1)[0] + 1) if free else []
        groups += [(source, np.asarray(run, int)) for run in runs]
    if not groups:
        return []
    separate = [(source, np.array([i])) for source, run in groups for i in run]
    candidates = [groups] if len(separate) == len(groups) else [groups, separate]
    fits = [_fit(record, data, lags, fixed, terms, target) for terms in candidates]
    fits = [fit for fit in fits if fit is not None and fit[2] + FLOOR <= most]
    best = min(fits, key=lambda fit: fit[0], default=None)
    return [] if best is None else best[1]


def _fit(record: _Record, data: KnownData, lags, fixed, terms, target: int):
    """Criterion, rows and risk of one way to group lags into delays; None if there is no fit."""
    gaps = np.diff(lags)
    step = float(gaps.max()) if len(gaps) else 1.0
    start = np.array([lags[group].mean() for _, group in terms], float)
    room = np.array([step * (1 + (len(group) - 1) / 2) for _, group in terms])
    known = data.inputs[:, [i * data.dim + source for i, source in fixed]]
    delay = start.copy()
    for _ in range(STEPS):
        state = _linearised(record, data, known, terms, delay, target)
        if state is None:
            return None
        slopes, residual, *_ = state
        gram = slopes.T @ slopes
        gram[np.diag_indices_from(gram)] *= 1 + 1e-6
        move = np.linalg.lstsq(gram, slopes.T @ residual, rcond=None)[0]
        new = np.clip(delay + np.clip(move, -step / 2, step / 2), start - room, start + room)
        new = np.maximum(new, SHORTEST)
        settled = np.abs(new - delay).max() < SETTLED
        delay = new
        if settled:
            break
    state = _linearised(record, data, known, terms, delay, target)
    if state is None:
        return None
    slopes, residual, criterion, rank, risk = state
    sums = np.stack([np.bincount(rank, column * residual, BLOCKS) for column in slopes.T])
    inverse = np.linalg.pinv(slopes.T @ slopes)
    error = np.sqrt(np.diag(inverse @ (sums @ sums.T) @ inverse) * BLOCKS / (BLOCKS - 1))
    half = student_quantile((1 + CONFIDENCE) / 2, BLOCKS - 1) * error
    rows = [
        (source, group, delay[k], max(float(half[k]), FINEST))
        for k, (source, group) in enumerate(terms)
    ]
    return criterion, rows, risk


def _linearised(record: _Record, data: KnownData, known, terms, delay, target: int):
    """Slopes of the prediction with respect to each delay, less what the coefficients take over;
    residuals, the criterion, and the stretch each window lies in.
    """
    late = np.stack([record.at(source, d) for (source, _), d in zip(terms, delay, strict=True)], 1)
    sides = [
        np.stack([record.at(source, d + h) for (source, _), d in zip(terms, delay, strict=True)], 1)
        for h in (-REACH, REACH)
    ]
    seen = np.isfinite(late + sides[0] + sides[1]).all(axis=1) & (data.weight > 0)
    if seen.sum() < 10 * (known.shape[1] + len(terms)) + BLOCKS:
        return None
    weight, inputs = data.weight[seen], np.concatenate([known, late], axis=1)[seen]
    columns = columns_of(inputs, weight)
    root = columns.root
    y = data.outputs[seen, target]
    y = (y - weight @ y / weight.sum()) * root
    y = y / max(np.linalg.norm(y), 1e-300)
    slots = np.arange(inputs.shape[1])
    model = Regression(columns, y, slots)
    criterion, model_risk, c = model.best(np.ones(len(slots), bool))
    used = model.columns[:, c != 0]
    residual = y - model.columns @ c
    paired = c[len(slots) * N_FEATURES :] / model.product_norm
    slopes = []
    for k in range(len(terms)):
        i = known.shape[1] + k
        own = columns.splines[i]
        a = own.matrix @ c[i * N_FEATURES : (i + 1) * N_FEATURES]
        low, high = (side[seen, k] for side in sides)
        slope = (spline_terms_of(high, own.knots) - spline_terms_of(low, own.knots)) @ a
        for (first, second), value in zip(model.pairs, paired, strict=True):
            if value and i in (first, second):
                slope += value * (high - low) * inputs[:, second if first == i else first]
        slopes.append(root * slope / (2 * REACH))
    slopes = np.stack(slopes, axis=1)
    slopes = slopes - used @ np.linalg.lstsq(used, slopes, rcond=None)[0]
    rank = np.minimum(np.arange(len(y)) * BLOCKS // len(y), BLOCKS - 1)
    # A delay is a parameter as well.
    return slopes, residual, criterion + len(terms) * np.log(model.n), rank, model_risk
