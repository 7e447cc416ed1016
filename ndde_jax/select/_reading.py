"""The windows of a record, read as a map or as a flow."""

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..regression._readings import CLEARLY, Readings, compare_readings, with_allowance
from ..samples._factors import factor_nats, proportional
from ..samples._holds import clock_of, is_switch
from ..samples._samples import Samples, named
from ..windows._prior import PriorKnowledge, read_prior
from ..windows._stencils import choose_scheme, reads_filtered, rings
from ..windows._windows import Measurements, Windows, cut_windows, read_measurements
from ._midpoint import at_midpoints, cut_steps
from ._partial import completed, with_partial
from ._returns import MOST_PERSISTENCE, correlation_of_neighbours
from ._screened import Screened

# Within this many nats the map is preferred, because it interpolates nothing between samples.
TIE = 1.0
DECIDED = {
    "map": "The samples follow a map, from one sample to the next: likelier than a flow by {nats}.",
    "flow": "The samples follow a continuous path, a flow: likelier than a map by {nats}.",
}
SMOOTH = (
    "The samples follow a smooth path, a flow: likelier than a map by {nats}, with an allowance "
    "for interpolation errors."
)
# The beginning of both sentences.
EITHER = "Map or flow is undecided"
UNDECIDED = {
    "map": f"{EITHER} ({{nats}} between them); the graph is that of a map, from one sample to the "
    "next.",
    "flow": f"{EITHER} ({{nats}} between them); the graph is that of a flow, with states halfway "
    "through each step.",
}
SEARCHED = {
    "map": "The samples follow a map, from one sample to the next: likelier than a flow by {nats}, "
    "each with its best inputs and products.",
    "flow": "The samples follow a continuous path, a flow: likelier than a map by {nats}, each "
    "with its best inputs and products.",
}
READ_AS_MAP = (
    "The samples are read as a map, from one sample to the next. With states halfway through "
    "each step, neighbouring lags of an input would have opposite effects."
)
BY_LOGARITHMS = (
    "That was decided by the logarithms of {names}: changes proportional to the level are likelier "
    "than changes independent of it."
)
# Nats per window and variable by which a search must favour a reading that the comparison of sums
# does not favour: a tenth of the residual variance, since states halfway through a step are
# predicted and so not exactly known. Half of it for a map whose candidate lags skip samples: a
# delay between candidates fits neither reading, and many inputs of a map are a proxy for it.
DECISIVE_NATS, DECISIVE_NATS_COARSE = 0.05, 0.35
# Fall of the criterion per window by products from which on they are needed. In simulated bilinear
# systems and Lorenz's with noise true products make it fall by .04 to .5, and false ones of linear
# flows by .035 at most; chosen with these in view.
NEEDED = 0.05
# Share of a target's windows that must be complete for them to decide how it is read.
COMPLETE = 0.5


class Chosen(NamedTuple):
    """The windows chosen for samples, `screened`; sentences on choices by `"auto"` that the windows
    do not explain themselves; and the time it took, `seconds`.
    """

    screened: Screened
    choices: tuple[str, ...]
    seconds: float


class _Cut(NamedTuple):
    """The samples, their `measured` values, and how these are cut into windows."""

    samples: Samples
    measured: Measurements
    lags: tuple[int, ...]
    prior: PriorKnowledge | None

    def windows(self, scheme: str = "euler") -> Windows:
        """Return the windows of a scheme, by default of a map."""
        return cut_windows(self.measured, self.lags, scheme, self.prior)

    def read_as(self, reading: str, readings: Readings | None) -> Screened:
        """Return the windows of a map, or those of a flow, with states halfway through steps."""
        if reading == "map":
            return Screened(self.windows(), readings=readings)
        steps = cut_steps(self.measured, self.lags, self.prior)
        return Screened(at_midpoints(steps), steps=steps, readings=readings)


def choose_windows(
    samples: Samples,
    *,
    lags: tuple[int, ...],
    scheme: str,
    prior: PriorKnowledge | None,
    partial: bool = True,
) -> Chosen:
    """Return [`lagged_windows`][ndde_jax.lagged_windows] of any scheme, including `"midpoint"`,
    with the reason for a choice by `"auto"`.

    Except for records without noise, both readings of the samples, as a map from one sample to the
    next and as a flow between them, are compared at the same prices by
    [`compare_readings`][ndde_jax.regression.compare_readings]. A map uses states at the samples, a
    flow states halfway through each step. If few windows are complete and windows are to be
    `partial` afterwards, some are completed first.

    **Raises:** as `lagged_windows`, and `ValueError` for midpoints of irregular samples.
    """
    started = time.perf_counter()
    more = completed(samples, lags) if partial and scheme in ("auto", "euler", "midpoint") else None
    beginning = samples if more is None else more.samples
    screened, choices = _chosen(samples, beginning, lags, scheme, prior)
    if more is not None:
        if rings(np.asarray(screened.windows.ringing)):  # estimates would be inseparable
            screened, choices = _chosen(samples, samples, lags, scheme, prior)
        else:
            choices = (*choices, more.note)
    return Chosen(screened, choices, time.perf_counter() - started)


def _chosen(
    samples: Samples,
    beginning: Samples,
    lags: tuple[int, ...],
    scheme: str,
    prior: PriorKnowledge | None,
) -> tuple[Screened, tuple[str, ...]]:
    """Return the windows, cut from the `beginning` samples, and sentences on choices that they do
    not explain themselves.
    """
    cut = _Cut(samples, read_measurements(beginning), lags, prior)
    windows = cut.windows("euler" if scheme == "midpoint" else scheme)
    regular = cut.measured.data.regular
    decided = scheme
    if scheme == "auto":
        noise = (np.asarray(windows.noise_share), windows.roll_off, windows.ringing)
        # Increments lose power where noise was filtered, and where the signal reaches the sampling
        # frequency, which central differences would blur. Midpoint states suit both cases.
        halfway_too = any(lag > 0 for lag in lags) or reads_filtered(*noise)
        decided = choose_scheme(*noise, regular=regular, delayed=halfway_too)
    compared = regular and decided in ("euler", "midpoint") and not rings(windows.ringing)
    readings = _compared(cut) if compared else None
    if scheme == "auto" and readings is not None:
        # A value held between the ticks of a clock is neither a flow, whatever drives it, nor a
        # map. Sums of splines do not describe a switch, neither at the samples nor between them.
        before = samples.as_measured()
        held = np.array(
            [is_switch(before, j) or clock_of(before, j) > 1 for j in range(samples.dim)]
        )
        held &= ~held.all()
        readings = readings._replace(nats=np.where(held, 0, readings.nats))
        growing = proportional(factor_nats(samples), samples)
        if growing.any():
            logs, begun = (_with_logarithms(one, growing) for one in (samples, beginning))
            logs = _Cut(logs, read_measurements(begun), lags, prior)
            by_logarithms = _read_by_logarithms(logs, cut, readings, decided, ~held)
            if by_logarithms is not None:
                screened, said = by_logarithms
                why = BY_LOGARITHMS.format(names=named(samples, np.flatnonzero(growing)))
                return screened, (*said, why)
        return _as_read(cut, readings, decided, ~held)
    if decided == "midpoint":
        return cut.read_as("flow", readings), ()
    return Screened(windows, readings=readings), ()


def _with_logarithms(samples: Samples, columns: Bool[np.ndarray, "dim"]) -> Samples:
    """Return samples with the logarithms of some variables; NaN for values without one."""
    values = []
    for x in samples.values:
        x = np.array(x, float)
        x[:, columns] = np.log(np.where(x[:, columns] > 0, x[:, columns], np.nan))
        values.append(x)
    return dataclasses.replace(samples, values=tuple(values))


def _read_by_logarithms(
    logs: _Cut, cut: _Cut, readings: Readings, decided: str, counting: Bool[np.ndarray, " target"]
) -> tuple[Screened, tuple[str, ...]] | None:
    """Return the windows of measurements read as their logarithms indicate, as a map or as a flow:
    under multiplicative noise, sums of splines of the values themselves describe neither. None if
    there are too few logarithms, or if they favour a flow more than the values do. A flow is a flow
    in both scales, whereas a map that is additive, such as a river fed by the rain of some days, is
    not additive in its logarithm.
    """
    compared = _compared(logs)
    if compared is None:
        return None
    compared = compared._replace(nats=np.where(counting, compared.nats, 0))
    if compared.evidence > max(readings.evidence, 0):
        return None
    likelier, said = _as_read(logs, compared, decided, counting)
    found = likelier.readings or compared
    readings = readings._replace(nats=found.nats, trust=found.trust, smooth=found.smooth)
    reading = "flow" if likelier.windows.scheme == "midpoint" else "map"
    return cut.read_as(reading, readings), said


def _compared(cut: _Cut) -> Readings | None:
    """Return the comparison of a record read as a map and as a flow; None if it is too short.

    Where most windows miss some variable, each target is compared in the windows that contain the
    variables relevant to it in either reading.
    """
    data, estimated = cut.measured.data, cut.samples.estimated
    rows = [np.asarray(x, float) for x in data.complete]
    every = np.concatenate(rows)
    center, scale = np.nanmean(every, axis=0), np.nanstd(every, axis=0)
    rows = [(x - center) / np.where(scale > 0, scale, 1) for x in rows]
    known = read_prior(cut.prior, data.dim, len(cut.lags))
    allowed, required = np.asarray(known.allowed), np.asarray(known.required)
    inside = tuple(cut.measured.mask) if cut.measured.mask else None
    guessed = estimated if any(one.any() for one in estimated) else None

    def compared(some: Bool[np.ndarray, " variable"], target: Any = slice(None)) -> Any:
        edges = np.zeros((2, *allowed.shape), bool)
        edges[:, :, target] = np.stack([allowed, required])[:, :, target]
        return compare_readings(
            [x[:, some] for x in rows],
            cut.lags,
            edges[0][some][:, some],
            edges[1][some][:, some],
            inside,
            guessed and tuple(one[:, some] for one in guessed),
        )

    graphs = _graphs_where_most_is_missing(cut)
    if graphs is None:
        return compared(np.ones(data.dim, bool))
    nats, trust, smooth = np.zeros(data.dim), 1.0, False
    for j in range(data.dim):
        some = graphs[:, :, j].any(axis=(0, 2)) | (np.arange(data.dim) == j)
        found = compared(some, [j])
        if found is not None:
            nats[j] = found.nats[some[:j].sum()]
            trust, smooth = min(trust, found.trust), smooth or found.smooth
    unknown = np.full(data.dim, np.nan)
    as_map, as_flow = graphs
    return Readings(nats, as_map, as_flow, unknown, trust=trust, smooth=smooth)


def _graphs_where_most_is_missing(
    cut: _Cut,
) -> Bool[np.ndarray, "reading source target lag"] | None:
    """Return the graphs of both readings if most windows miss some variable that the typical target
    does not need; None otherwise.
    """
    windows = cut.windows()
    if int(windows.n_valid) > COMPLETE * windows.valid.shape[0]:
        return None
    readings = Screened(windows), cut.read_as("flow", None)
    found = [with_partial(reading, cut.samples) for reading in readings]
    if any(reading.windows.partial is None for reading in found):
        return None
    graphs = np.stack([np.asarray(reading.found.graph) for reading in found])
    counts = np.asarray(found[0].windows.count(graphs.any(axis=0)))
    return graphs if int(windows.n_valid) < COMPLETE * np.median(counts) else None


def _as_read(
    cut: _Cut, readings: Readings, decided: str, counting: Bool[np.ndarray, " target"]
) -> tuple[Screened, tuple[str, ...]]:
    """Return the windows of a map or of a flow, whichever reading of the record is likelier.

    The readings were compared as sums of splines without products. Both readings are searched if
    the likelier one multiplies inputs, if it is a map whose candidate lags skip samples, or if the
    comparison says little. The evidence of a target that products describe clearly better is that
    of the search. The search decides altogether if its evidence, over the targets that are
    `counting`, exceeds that of the comparison.

    Suppose the search finds a flow clearly less likely, by more nats than the comparison favoured
    it. Then the graph is that of the map if the comparison is undecided, and the record is read as
    a map if neighbouring lags of the flow undo one another, unless delays between the candidates,
    which the search lacks, are why. Neither applies where candidate lags skip samples, because a
    delay between them fits neither reading.

    An allowance for interpolation errors that is doubtful (see
    [`Readings`][ndde_jax.regression.Readings]) counts only with such lags, or if products describe
    a target better.
    """
    limit = TIE if decided == "euler" else -CLEARLY
    as_map = cut.read_as("map", readings)
    done = {"map": as_map}

    def read_as(reading: str) -> Screened:
        """Return the windows of a reading, searched once."""
        if reading not in done:
            done[reading] = cut.read_as(reading, readings)
        return done[reading]

    coarse = any(step > 1 for step in np.diff(cut.lags))
    if readings.doubtful and not coarse:
        both = {"map": as_map, "flow": read_as("flow")}
        if not _needing_products(both, readings).any():
            plain = readings.nats - readings.doubtful * counting
            readings = readings._replace(nats=plain, smooth=False, doubtful=0.0)
            for one in both.values():
                one.readings = readings
    if np.median(correlation_of_neighbours(as_map.windows)) <= MOST_PERSISTENCE:
        # Little of a value persists halfway to the next: a flow has to be clearly likelier, in the
        # mean over targets. Many inputs of a flow that each pay a little fit white noise, too.
        limit = CLEARLY * len(readings.nats)
        readings = as_map.readings = readings._replace(clear=limit)
    likelier, other = ("map", "flow") if readings.evidence <= limit else ("flow", "map")
    between = f"{abs(readings.evidence):.3g} nats"
    chosen = read_as(likelier)
    n, dim = float(np.asarray(chosen.windows.valid).sum()), chosen.windows.dim
    tells = {
        "map": n * dim * (DECISIVE_NATS_COARSE if coarse else DECISIVE_NATS),
        "flow": n * dim * DECISIVE_NATS,
    }
    unsure = abs(readings.evidence) < tells[other] or (coarse and likelier == "map")
    unsure = unsure and not (readings.smooth and likelier == "flow")
    needed = np.zeros(dim, bool)
    if unsure or np.asarray(chosen.found.products).any():
        searched = {"map": as_map, "flow": read_as("flow")}
        nats = _nats_of_searches(searched["map"], searched["flow"], readings) * counting
        total = float(nats.sum())
        if not readings.smooth:
            # The comparison has no products, so it says nothing about targets that need them.
            needed = _needing_products(searched, readings)
            readings = readings._replace(nats=np.where(needed, nats, readings.nats))
            likelier, other = ("map", "flow") if readings.evidence <= limit else ("flow", "map")
            between, chosen = f"{abs(readings.evidence):.3g} nats", searched[likelier]
            chosen.readings = readings
        reading = "flow" if total > 0 else "map"
        if likelier == "flow" and not coarse and total < -max(readings.evidence, CLEARLY):
            if readings.name == "undecided":
                return as_map, (UNDECIDED["map"].format(nats=between),)
            if not _between_lags(readings) and _n_sign_changes(chosen) > _n_sign_changes(as_map):
                both = np.where(needed, nats, readings.nats + nats)
                as_map.readings = readings._replace(nats=both)
                return as_map, (READ_AS_MAP,)
        if abs(total) > max(abs(readings.evidence), tells[reading]):
            best = searched[reading]
            best.readings = readings._replace(nats=nats)
            return best, (SEARCHED[reading].format(nats=f"{abs(total):.3g} nats"),)
    if readings.name == "undecided":
        why = UNDECIDED[likelier]
    elif needed.any():
        why = SEARCHED[likelier]
    else:
        why = SMOOTH if readings.smooth and likelier == "flow" else DECIDED[likelier]
    return chosen, (why.format(nats=between),)


def _needing_products(
    searched: dict[str, Screened], readings: Readings
) -> Bool[np.ndarray, " target"]:
    """Return the targets that products describe clearly better than the sums of the comparison."""
    products = sum(np.asarray(one.found.products) for one in searched.values()) > 0
    costs = np.min([np.asarray(one.found.cost) for one in searched.values()], axis=0)
    return products & (readings.map_cost - costs > NEEDED)


def _between_lags(readings: Readings) -> bool:
    """Return whether delays lie between the candidates: the flow of the comparison, which has such
    delays, needs fewer inputs than the map, which has two neighbouring lags for each of them, and
    no target is clearly that of a map.
    """
    fewer = readings.flow_graph.sum() < readings.map_graph.sum()
    return bool(fewer and readings.nats.min() > -CLEARLY)


def _n_sign_changes(screened: Screened) -> int:
    """Return the number of lags of other variables whose coefficient has the opposite sign to that
    of the next lag, in a linear regression on the inputs found; lags skip no samples.

    The state at a sample is not a state halfway through a step, and midpoint states reproduce it
    only through lags that undo one another.
    """
    data, graph = screened.data, np.asarray(screened.found.graph)
    root, count = np.sqrt(data.weight)[:, None], 0
    for j in range(len(graph)):
        kept = np.flatnonzero(graph[:, j].T)  # inputs are [lag source]
        columns = np.concatenate([np.ones_like(root), data.inputs[:, kept]], axis=1)
        slopes = np.zeros(graph[:, j].T.shape)
        found = np.linalg.lstsq(root * columns, root[:, 0] * data.outputs[:, j], rcond=1e-9)[0]
        slopes.flat[kept] = found[1:]
        slopes[:, j] = 0
        count += int((slopes[1:] * slopes[:-1] < 0).sum())
    return count


def _nats_of_searches(
    as_map: Screened, as_flow: Screened, readings: Readings
) -> Float[np.ndarray, " target"]:
    """Return the log likelihood ratio of a flow to a map, both searched with products.

    States halfway through a step are predicted or interpolated. So on a smooth path, a target
    without products that favours the map here keeps the evidence of the original comparison, which
    describes it better in both readings.
    """
    n = float(np.asarray(as_map.windows.valid).sum())
    worse = np.asarray(as_map.found.cost) - np.asarray(as_flow.found.cost)
    nats = readings.trust * n * worse / 2
    if not readings.smooth:
        return nats
    multiplied = np.asarray(as_map.found.products) + np.asarray(as_flow.found.products) > 0
    return with_allowance(np.where(multiplied | (nats > 0), nats, readings.nats), n)
