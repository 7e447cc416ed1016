"""The delays of a graph between the candidate lags, in closed form."""

import numpy as np
from jaxtyping import Bool, Float

from ..regression._terms import FLOOR, find_terms, fit_terms
from ..samples._samples import Samples
from ..select._between import CONFIDENCE, SHORTEST, Record, runs_of, settle
from ..select._measured import Measured
from ..select._screened import Screened
from ..windows._flat import KnownData
from ..windows._windows import Windows

# Candidates to either side that a lag is compared with.
NEAR = 3
# How much worse than the model that found the graph splines may explain a rate.
WORSE = 1.1


Delays = tuple[Float[np.ndarray, "source target lag"], Float[np.ndarray, "source target lag 2"]]


def candidate_lags(windows: Windows, graph: Bool[np.ndarray, "source target lag"]) -> Delays:
    """Return the candidate lags of kept edges, in time, and intervals without length; NaN where
    there is no edge.
    """
    delays = np.where(graph, float(windows.dt) * np.asarray(windows.lags, float), np.nan)
    return delays, np.repeat(delays[..., None], 2, axis=-1)


def delays_of(samples: Samples, windows: Windows, measured: Measured) -> Delays:
    """Return the delays of what was measured, in time, with 90 % intervals: those at which a
    strategy searched, and [`profile_delays`][ndde_jax.measure._profiles.profile_delays] of targets
    for which it has none.
    """
    own, half, dt = measured.delays, measured.halves, float(windows.dt)
    options = dict(
        risk=np.asarray(measured.strengths.risk), known=np.isfinite(own).any(axis=(0, 2))
    )
    delays, intervals = profile_delays(samples, windows, measured.graph, **options)
    ends = np.stack([np.maximum(own - half, 0), own + half], axis=-1)
    there = np.isfinite(own)
    return np.where(there, dt * own, delays), np.where(there[..., None], dt * ends, intervals)


def profile_delays(
    samples: Samples,
    windows: Windows,
    graph: Bool[np.ndarray, "source target lag"],
    risk: Float[np.ndarray, " target"] | None = None,
    known: Bool[np.ndarray, " target"] | None = None,
) -> Delays:
    """Return the delays of all kept edges, in time, and their 90 % confidence intervals given the
    graph; NaN where there is no edge.

    For every target, splines and products of its inputs describe the rate, and the delays of its
    sources [`settle`][ndde_jax.select._between.settle] with them. Kept lags of one source
    that are neighbours among the candidates become one delay where that describes the rate with
    fewer terms.

    A delay below 2.5 samples, any delay of irregular samples, of targets whose delays are `known`,
    and those of a target that splines explain worse than its `risk` by a tenth of it stay at their
    candidate lag, with half the way to the neighbouring candidates for an interval; a present state
    has no delay.
    """
    lags, dt = np.asarray(windows.lags, float), float(windows.dt)
    delays = np.where(graph, dt * lags, np.nan)
    edges = np.concatenate([lags[:1], (lags[1:] + lags[:-1]) / 2, lags[-1:]])
    around = dt * np.stack([edges[:-1], edges[1:]], axis=-1)
    around[lags == 0] = 0
    intervals = np.where(graph[..., None], around[None, None], np.nan)
    data = KnownData(windows)
    open_ = np.ones(data.dim, bool) if known is None else ~known
    free = graph & (lags >= SHORTEST + 0.5) & open_[None, :, None]
    if data.refused or not samples.regular or not free.any():
        return delays, intervals
    record = Record(samples, windows)
    for target in map(int, np.flatnonzero(free.any(axis=(0, 2)))):
        most = np.inf if risk is None else WORSE * (float(risk[target]) + FLOOR)
        found = _target(record, data, windows, graph[:, target], target, most)
        for source, group, delay, half in found:
            delays[source, target, group] = dt * delay
            intervals[source, target, group] = dt * np.array([max(delay - half, 0), delay + half])
    return delays, intervals


def whole_lags(screened: Screened, graph: Bool[np.ndarray, "source target lag"]) -> Delays:
    """Return the delays of a map's edges, lag times dt, and the range of the candidate lags that
    the data do not exclude, in time; NaN where there is no edge.

    A map's delay is a whole number of samples. With every other lag of the same source in the place
    of an edge's own, all else refitted, the likelihoods are weights of the lags; the likeliest that
    together have 90 % of them are not excluded.
    """
    windows, data = screened.windows, screened.data
    lags, dt = np.asarray(windows.lags, float), float(windows.dt)
    delays, intervals = candidate_lags(windows, graph)
    if data.refused or len(lags) == 1 or not graph.any():
        return delays, intervals
    design = screened.design
    for target in map(int, np.flatnonzero(graph.any(axis=(0, 2)))):
        y, _ = design.standardised(data.outputs[:, target])
        own = graph[:, target]
        mask = own.T.reshape(-1)
        terms = find_terms(design, y, mask, mask)
        inputs = [(int(i), int(k)) for i, k in np.argwhere(own)]
        for source, place in inputs:
            if lags[place] == 0 and source == target:
                continue  # what a variable does by itself has no delay
            near = range(max(place - NEAR, 0), min(place + NEAR + 1, len(lags)))
            others = [k for k in near if k == place or not own[source, k]]
            given = place * data.dim + source
            fits = [
                fit_terms(design, y, terms.replaced(given, k * data.dim + source)) for k in others
            ]
            risks = np.array([fit.risk for fit in fits])
            nats = -0.5 * float(design.n_windows) * np.log(risks + 1e-12)
            weight = np.exp(nats - nats.max())
            order = np.argsort(-weight)
            enough = np.cumsum(weight[order]) / weight.sum()
            kept = {others[k] for k in order[: int(np.searchsorted(enough, CONFIDENCE)) + 1]}
            kept.add(place)
            intervals[source, target, place] = dt * lags[min(kept)], dt * lags[max(kept)]
    return delays, intervals


def _target(record: Record, data: KnownData, windows: Windows, graph, target: int, most: float):
    """Return rows (source, indices of kept lags, delay, half of the interval), in samples."""
    lags = np.asarray(windows.lags)
    fixed, groups = [], []
    for source in range(graph.shape[0]):
        kept = np.flatnonzero(graph[source])
        free = [i for i in kept if lags[i] >= SHORTEST + 0.5]
        fixed += [(i, source) for i in kept if lags[i] < SHORTEST + 0.5]
        groups += [(source, run) for run in runs_of(free)]
    if not groups:
        return []
    known = data.inputs[:, [i * data.dim + source for i, source in fixed]]
    separate = [(source, np.array([i])) for source, run in groups for i in run]
    best = None
    for terms in [groups] if len(separate) == len(groups) else [groups, separate]:
        sources = [source for source, _ in terms]
        start = [lags[group].mean() for _, group in terms]
        found = settle(record, data, known, sources, start, room_of(lags, terms), target)
        if found is None or found.risk + FLOOR > most:
            continue
        if best is None or found.criterion < best[0].criterion:
            best = (found, terms)
    if best is None:
        return []
    found, terms = best
    return [(*term, found.delay[k], float(found.half[k])) for k, term in enumerate(terms)]


def room_of(lags, terms) -> Float[np.ndarray, " term"]:
    """Return the distance that the delay of each term may move: a candidate step, and the reach of
    its lags.
    """
    gaps = np.diff(lags)
    step = float(gaps.max()) if len(gaps) else 1.0
    return np.array([step * (1 + (len(group) - 1) / 2) for _, group in terms])
