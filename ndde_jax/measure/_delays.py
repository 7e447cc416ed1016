"""The delays of a graph between the candidate lags, in closed form."""

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int

from .._checks import check_concrete, check_graph, check_positive, check_real_array
from .._types import Checked, KnownGraph, KnownScores, RealScalarLike
from ..regression._terms import FLOOR, fit_terms
from ..samples._reading import read_samples
from ..samples._samples import Samples
from ..samples._trajectories import read_lags
from ..select._between import (
    BLOCKS,
    CONFIDENCE,
    FINEST as SAME,
    NEAREST,
    SETTLED,
    FittedDelays,
    Record,
    fewest_windows,
    fit_delays,
    runs_of,
)
from ..select._measured import Measured
from ..select._midpoint import midpoint_windows
from ..select._screened import Screened
from ..select._worth import student_quantile
from ..windows._windows import KnownData, Windows

# Number of candidates on either side with which a lag is compared.
NEAR = 3
# Largest risk of splines, relative to that of the model that found the graph.
MAX_RISK_RATIO = 1.1
# Smallest half-width of the interval of an estimate, in samples, which discretisation leaves
# whatever the noise.
FINEST = 0.25


# Delays of edges and their intervals, in samples: the sampling interval of windows may be in single
# precision, in which 0.1 is no decimal.
Delays = tuple[KnownScores, Float[np.ndarray, "source target lag 2"]]


class DelayEstimates(eqx.Module):
    """The delays of the edges of a graph, in units of time, one entry per delayed term.

    - `source`, `target`: positions of the two variables of the edge.
    - `lags`: first and last candidate lag that the term represents, in samples, `[term 2]`. They
        differ where neighbouring kept lags were replaced by one delay.
    - `delay`: the estimate.
    - `standard_error`: from the spread over 32 segments of the series, which accounts for
        autocorrelated residuals and a drift that splines describe only approximately.
    - `lower`, `upper`: two-sided 95 % interval, by Student's t with 31 degrees of freedom.
    - `resolution`: the change of the delay that worsens the fit by the price of an edge. Two lags
        of one source that are closer than this cannot be distinguished in these data.
    """

    source: Int[np.ndarray, "term"]
    target: Int[np.ndarray, "term"]
    lags: Int[np.ndarray, "term 2"]
    delay: Float[np.ndarray, "term"]
    standard_error: Float[np.ndarray, "term"]
    lower: Float[np.ndarray, "term"]
    upper: Float[np.ndarray, "term"]
    resolution: Float[np.ndarray, "term"]


def refine_delays(
    x: Checked[Float[ArrayLike, "time dim"]],
    graph: Checked[Bool[ArrayLike, "source target lag"]],
    *,
    dt: Checked[RealScalarLike],
    lags,
) -> DelayEstimates:
    """Estimate the delays of a graph between the candidate lags, with intervals.

    For each target, splines and products of the sources of its kept edges describe the rate. Each
    source is interpolated at its own real-valued delay, and coefficients and delays are fitted
    together by Gauss–Newton steps. Rates are forward differences and states are taken half a step
    later, as in [`midpoint_windows`][ndde_jax.select.midpoint_windows]. Neighbouring kept lags of
    one source are replaced by one delay where the extended Bayesian information criterion prefers
    it: a delay between two candidates shows as both. A delay stays within one candidate step of its
    start.

    Given the graph, the interval covers noise and the finite length of the series. It covers
    neither a wrong graph nor interpolation errors where samples are sparse. Its half-width is at
    least a quarter of a sampling interval. Edges at lags below 2 samples stay where they are and
    get no estimate.

    **Arguments:**

    - `x`: one trajectory without missing values.
    - `graph`, `lags`, `dt`: edges at candidate lags (samples), and the sampling interval. The
        function runs outside `jit`.

    **Returns:** [`DelayEstimates`][ndde_jax.measure.DelayEstimates].

    **Raises:** `ValueError` if `graph` does not fit `x` and `lags`, or too few steps are left to
    explain, and as for [`lagged_windows`][ndde_jax.lagged_windows].

    Coefficients adapt to every delay (variable projection, Golub and Pereyra, 1973). Intervals
    follow from the sandwich formula (White, 1982).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=0.1, n_steps=8000, history=system.history, sigma=0.02,
        key=jax.random.key(0), save_every=10,
    )
    lags = (0, 15, 20)
    graph = np.array([[[True, True, False]]])
    found = ndde.measure.refine_delays(path.ys, graph, dt=1.0, lags=lags)
    print(found.delay, found.lower, found.upper)  # true: 17
    ```
    """
    check_concrete("refine_delays", (x, graph, dt))
    check_positive(dt=dt)
    check_real_array(x, "x", "one trajectory [time dim]", finite=True)
    x, lags = np.asarray(x, float), read_lags(lags)
    if x.ndim != 2:
        raise ValueError(f"x must be one trajectory [time dim]; got shape {x.shape}.")
    graph = np.asarray(check_graph(graph, (x.shape[1], x.shape[1], len(lags))))
    windows = midpoint_windows(x, dt=dt, lags=lags)
    record, data = Record.of(read_samples(x, dt=dt), windows), KnownData(windows)
    rows = []
    for target in map(int, np.flatnonzero(graph.any(axis=(0, 2)))):
        # Every delay is chosen among the candidates, for which the extended criterion charges.
        given = (record, data, np.asarray(lags, float), graph[:, target], target, np.inf)
        found = _settled(*given, charge=2 * np.log(data.inputs.shape[1]))
        if found is None:
            _check_enough(data, lags, graph[:, target])
            continue
        settled, terms = found
        # The price of a linear term, the cheapest edge.
        n, among = float(data.weight.sum()), data.inputs.shape[1]
        price = (settled.risk + FLOOR) * (np.log(n) + 2 * np.log(among)) / n
        apart = np.sqrt(price / np.maximum(settled.curvature, 1e-30))
        for k, (source, group) in enumerate(terms):
            ends = lags[group[0]], lags[group[-1]]
            rows.append((source, target, *ends, settled.delay[k], settled.error[k], apart[k]))
    table = np.array(rows, float).reshape(-1, 7)
    source, target, *ends = table[:, :4].astype(int).T
    unit = float(dt)
    delay, error, apart = unit * table[:, 4:].T
    half = np.maximum(student_quantile(0.975, BLOCKS - 1) * error, unit * FINEST)
    return DelayEstimates(
        source=source,
        target=target,
        lags=np.stack(ends, axis=1),
        delay=delay,
        standard_error=error,
        lower=delay - half,
        upper=delay + half,
        resolution=apart,
    )


def _check_enough(data: KnownData, lags: tuple[int, ...], graph) -> None:
    """Raise an error if a target has delays but too few steps to estimate them."""
    delayed = graph & (np.asarray(lags) > NEAREST)
    n, needed = int((data.weight > 0).sum()), fewest_windows(int(graph.sum()))
    if delayed.any():
        raise ValueError(
            f"delays of up to {lags[-1]} samples leave {n} steps, not all of which have values at "
            f"neighbouring delays; at least {needed} that have them are needed. Use a longer "
            "series or shorter lags."
        )


def candidate_lags(windows: Windows, graph: KnownGraph) -> Delays:
    """Return the candidate lags of kept edges, in samples, and intervals of length zero; NaN where
    there is no edge.
    """
    delays = np.where(graph, np.asarray(windows.lags, float), np.nan)
    return delays, np.repeat(delays[..., None], 2, axis=-1)


def delays_of(samples: Samples, screened: Screened, measured: Measured) -> Delays:
    """Return the delays of measured edges, in samples, with 90 % intervals: those of the strategy,
    or those by [`profile_delays`][ndde_jax.measure._delays.profile_delays] for targets for which
    the strategy has none.
    """
    windows = screened.windows
    own, half = measured.delays, measured.halves
    options = dict(
        risk=np.asarray(measured.strengths.risk), known=np.isfinite(own).any(axis=(0, 2))
    )
    delays, intervals = profile_delays(samples, windows, measured.graph, **options)
    # Splines place delays less precisely than they estimate where a network describes the target.
    half = np.where(measured.networks[:, None], np.fmax(half, SAME), half)
    ends = np.stack([np.maximum(own - half, 0), own + half], axis=-1)
    there = np.isfinite(own)
    found = np.where(there, own, delays), np.where(there[..., None], ends, intervals)
    found = clip_intervals(windows.lags[-1] + 1.0, found)
    return widen_intervals(screened, measured.graph, found)


def clip_intervals(latest: float, found: Delays) -> Delays:
    """Return delays with intervals that end at the latest delay that was tried: where the data
    barely determine a delay, the curvature says nothing about distant ones.
    """
    delays, intervals = found
    return delays, np.minimum(intervals, np.fmax(delays, latest)[..., None])


def widen_intervals(screened: Screened, graph: KnownGraph, found: Delays) -> Delays:
    """Return delays with wider intervals where a delay stays at its candidate lag: they include all
    delays closest to a candidate that is not excluded, and neighbouring lags of the same source
    that were also kept.
    """
    delays, intervals = found
    lags = np.asarray(screened.windows.lags, float)
    at_lag = graph & (delays == lags)
    if not at_lag.any():
        return found
    low, high = np.moveaxis(lags_not_excluded(screened, graph, at_lag), -1, 0)
    middle = (lags[1:] + lags[:-1]) / 2
    below, above = np.append(lags[0], middle), np.append(middle, lags[-1])
    first, last = (np.searchsorted(lags, np.nan_to_num(end)) for end in (low, high))
    low, high = below[first], above[last]
    for source, target in np.argwhere(at_lag.any(axis=2)):
        for run in runs_of(np.flatnonzero(at_lag[source, target])):
            low[source, target, run] = np.minimum(low[source, target, run], lags[run[0]])
            high[source, target, run] = np.maximum(high[source, target, run], lags[run[-1]])
    own = (np.eye(len(graph), dtype=bool)[..., None]) & (lags == 0)
    some = at_lag & ~own
    low = np.where(some, np.minimum(low, intervals[..., 0]), intervals[..., 0])
    high = np.where(some, np.maximum(high, intervals[..., 1]), intervals[..., 1])
    return delays, np.stack([low, high], axis=-1)


def profile_delays(
    samples: Samples,
    windows: Windows,
    graph: KnownGraph,
    risk: Float[np.ndarray, " target"] | None = None,
    known: Bool[np.ndarray, " target"] | None = None,
) -> Delays:
    """Return the delays of all kept edges, in samples, and their 90 % confidence intervals given
    the graph; NaN where there is no edge.

    For every target, splines and products of its inputs describe the rate, and the delays of its
    sources are fitted with them by [`fit_delays`][ndde_jax.select._between.fit_delays].
    Neighbouring kept lags of one source become one delay where that describes the rate with fewer
    terms.

    Delays stay at their candidate lag, with the neighbouring candidates as ends of the interval,
    for candidates below 2 samples, irregular samples, targets whose delays are `known`, and targets
    whose `risk` splines exceed by more than a tenth. The present of a variable itself has no delay.
    """
    lags = np.asarray(windows.lags, float)
    delays = np.where(graph, lags, np.nan)
    # Whichever of two candidates is nearer, chance may have selected the other.
    near = np.concatenate([lags[:1], lags, lags[-1:]])
    around = np.stack([near[:-2], near[2:]], axis=-1)
    intervals = np.where(graph[..., None], around[None, None], np.nan)
    own = np.arange(len(graph))
    intervals[own, own] *= (lags != 0)[None, :, None]
    data = KnownData(windows)
    open_ = np.ones(data.dim, bool) if known is None else ~known
    free = graph & (lags > NEAREST) & open_[None, :, None]
    if data.refused or not samples.regular or not free.any():
        return delays, intervals
    record = Record.of(samples, windows)
    for target in map(int, np.flatnonzero(free.any(axis=(0, 2)))):
        most = np.inf if risk is None else MAX_RISK_RATIO * (float(risk[target]) + FLOOR)
        found = _settled(record, data, lags, graph[:, target], target, most)
        if found is None:
            continue
        settled, terms = found
        low, high = np.maximum(settled.delay - settled.half, 0), settled.delay + settled.half
        start = np.array([lags[group].mean() for _, group in terms])
        # A delay that reaches the end of its range has not converged and stays at its candidate.
        inside = np.abs(settled.delay - start) < search_ranges(lags, terms) - SETTLED
        inside &= settled.delay > record.shortest([source for source, _ in terms])
        for k, (source, group) in enumerate(terms):
            if not inside[k]:
                continue
            delays[source, target, group] = settled.delay[k]
            intervals[source, target, group] = low[k], high[k]
    return delays, intervals


def whole_lags(screened: Screened, graph: KnownGraph) -> Delays:
    """Return the delays of a map's edges, their lags, and the range of the candidate lags that the
    data do not exclude, in samples; NaN where there is no edge.

    A map's delay is a whole number of samples.
    """
    delays, _ = candidate_lags(screened.windows, graph)
    return delays, lags_not_excluded(screened, graph, graph)


def lags_not_excluded(
    screened: Screened, graph: KnownGraph, asked: KnownGraph
) -> Float[np.ndarray, "source target lag 2"]:
    """Return the smallest and largest candidate lag that the data do not exclude for the edges in
    `asked`, in samples; for other edges their own lag, NaN where there is no edge.

    Every other lag of the same source replaces an edge's own in turn, and all else is refitted. The
    likelihoods are weights of the lags; the likeliest lags with 90 % of the total are not excluded.
    """
    windows, data = screened.windows, screened.data
    lags = np.asarray(windows.lags, float)
    ranges = np.repeat(np.where(graph, lags, np.nan)[..., None], 2, axis=-1)
    if data.refused or len(lags) == 1:
        return ranges
    for target in map(int, np.flatnonzero(asked.any(axis=(0, 2)))):
        own = graph[:, target]
        # Use the windows that have all lags that are compared.
        every = np.broadcast_to(own.any(axis=1), own.T.shape)
        fit = screened.fit(target, every.reshape(-1)).on(own.T.reshape(-1))
        design, y, terms = fit.design, fit.y, fit.terms
        for source, place in np.argwhere(asked[:, target]):
            source, place = int(source), int(place)
            if lags[place] == 0 and source == target:
                continue  # a variable's own present has no delay
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
            ranges[source, target, place] = lags[min(kept)], lags[max(kept)]
    return ranges


def of_either_reading(found: Delays, *, flow: bool) -> Delays:
    """Return delays with intervals that are valid for either reading of a record. The lag of a map
    is half a sample shorter than the delay of an equivalent flow, and represents flows whose delay
    is up to half a sample longer or shorter.
    """
    delays, intervals = found
    low, high = np.moveaxis(intervals, -1, 0)
    # A variable's own present has no delay in either reading.
    late = ~(np.eye(len(delays), dtype=bool)[..., None] & (high <= 0))
    low = np.where(late & flow, np.maximum(low - 0.5, 0), low)
    high = np.where(late & (not flow), high + 1, high)
    return delays, np.stack([low, high], axis=-1)


# A source, and the positions of its lags that one delay represents.
Term = tuple[int, Int[np.ndarray, " place"]]


def _settled(
    record: Record,
    data: KnownData,
    lags: Float[np.ndarray, " lag"],
    graph: Bool[np.ndarray, "source lag"],
    target: int,
    most: float,
    charge: float = 0.0,
) -> tuple[FittedDelays, list[Term]] | None:
    """Return the delays of a target and the terms they belong to; None if it has none, or if the
    risk of splines exceeds `most`. The criterion, plus `charge` per term, decides between one delay
    for neighbouring lags and one for each.
    """
    late = graph & (lags > NEAREST)
    groups = [(i, run) for i, own in enumerate(late) for run in runs_of(np.flatnonzero(own))]
    if not groups:
        return None
    known = data.inputs[:, (graph & ~late).T.ravel()]
    separate = [(source, np.array([i])) for source, run in groups for i in run]
    best, least = None, np.inf
    for terms in [groups] if len(separate) == len(groups) else [groups, separate]:
        sources = [source for source, _ in terms]
        start = [lags[group].mean() for _, group in terms]
        found = fit_delays(record, data, known, sources, start, search_ranges(lags, terms), target)
        if found is None or found.risk + FLOOR > most:
            continue
        cost = found.criterion + charge * len(terms)
        if cost < least:
            best, least = (found, terms), cost
    return best


def search_ranges(lags, terms) -> Float[np.ndarray, " term"]:
    """Return the distance that the delay of each term may move: one candidate step, plus half of
    one for every further lag.
    """
    gaps = np.diff(lags)
    step = float(gaps.max()) if len(gaps) else 1.0
    return np.array([step * (1 + (len(group) - 1) / 2) for _, group in terms])
