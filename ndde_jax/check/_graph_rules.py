"""Rules about a graph and what its inputs leave; each decides together with those about samples."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._spoken import amount, listed, percent, time_span
from .._types import KnownGraph, Pairs, to_jax
from ..assess._assess import Relations, relations
from ..assess._rivals import touching
from ..assess._score import drift_of
from ..models._model import AbstractDelayModel
from ..samples._factors import factor_nats, proportional
from ..samples._samples import Samples
from ..select._between import delays_between, left_at_delays
from ..select._measured import SignalStrengths
from ..select._midpoint import measured_rows
from ..select._splines import MISSED, NOISELESS
from ..windows._choose_lags import with_a_quarter_more
from ..windows._windows import Windows, is_regular
from ._conditioning import memory_of
from ._finding import (
    ESTIMATED,
    GRAPH,
    NOTE,
    PROBLEM,
    RESERVATION,
    SHOWN_LINKS,
    Hit,
    Limits,
    rules_about,
)

# Rows of measured values in which residuals are looked at, at least.
FEWEST = 100
# An edge whose strength is less than this many times its price is weak.
CLEAR = 2.0
# Share of edges that may be doubtful before the graph has reservations, and before it is not
# supported. A graph that is called supported promises that 95 % of its edges are true, so doubt
# about one edge in twenty is named, and weighs nothing.
DOUBT, DOUBTFUL = 0.05, 0.5
# Share of the pairs of four variables or more that are related at once, as sensors are that pick up
# one another.
MIXED = 2 / 3
# Share of the links between variables from which on a graph is not supported: "with reservations"
# promises that four of five are true, and of links between confounded pairs hardly one is.
TOO_MANY = 0.2
# Share of the links that no test could tell from those of an unseen driver.
UNTOLD = 0.1
# Variables that events pass through, beyond which the wrong neighbour is picked as often as the
# right one: in simulated floods .6 of the pairs are true of 3 and 5 gauges, .5 of 8 and 12
# (`python -m benchmarks.rivers simulated`).
MANY = 8
# An edge must cost, or explain, at least this share of a price where something takes its place.
OF_PRICE = 0.5
# Lags of one source of a flow, some next to each other, from which on they mean no delay between
# them but a driver that is not seen. Set by looking: of 165 true links of simulated flows one had
# so many, of 21 by a driver that is white noise four, and all of six more with reservations. The
# target of that one follows its source fully, as a dryer's temperature does, and theirs by half.
SPREAD = 3
# Share of inputs that another variable could carry, two at least, from which on a graph is not
# supported: of clean records one input in seventy is, by chance, and two of a dozen are not.
CARRIED = 0.15
# Share of a rate's variance that persists in what is left of it.
MEMORY, HEAVY_MEMORY = 0.05, 0.3
# Share of the variance of a next value below which hardly anything is foretold, and share of a
# rate's that then still seems to be explained: of independent values it is a half.
FORESIGHT, THIRD = 0.05, 1 / 3
PROCESS = "data-generating process"
FINITE = "finite-sample recovery"
SUPPORT = "full support of the occupation measure"
PENALISED = "identifiability with the penalised objective"

measured_rule = rules_about(GRAPH)
estimated_rule = rules_about(GRAPH, kind=ESTIMATED, theorem=PROCESS)

Edge = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class GraphEvidence:
    """The value that rules about a graph read; a [`Discovery`][ndde_jax.Discovery] has all of it.

    - `names`, `inputs`: of the variables, and of those that are known inputs.
    - `windows`, `model`, `strengths`: the data, the drift, and what edges are worth.
    - `graph`, `scores`, `lower`, `reads`, `delays`: `[source target lag]`, and `delay_intervals`
        `[source target lag 2]`; in `time_unit`.
    - `price`: what an edge of each target must be worth, `[target]`.
    - `flow`: whether the drift moves between samples, and is not a map from one to the next.
    - `whole`: whether delays are whole lags, as those of samples that are read as a map.
    - `events`: whether events pass through, and edges say who comes first.
    - `relations`: what is hidden, at once or drifting.
    - `samples`: where the windows come from; None if only these are known.
    - `alone`: strengths of the edges as the paper defines them; None where they were not measured.
    - `passed_on`: pairs of a map between which another variable passes on within a sampling
        interval what foretells the target; None where these were not looked for.
    - `held_out`: share of the variance of each rate that is left on blocks of the record that were
        not fitted, `[target]`; None where that was not measured.
    """

    names: tuple[str, ...]
    inputs: tuple[str, ...]
    windows: Windows
    model: AbstractDelayModel
    strengths: SignalStrengths
    graph: np.ndarray
    scores: np.ndarray
    lower: np.ndarray
    reads: np.ndarray
    delays: np.ndarray
    delay_intervals: np.ndarray
    price: np.ndarray
    flow: bool
    events: bool
    relations: Relations
    time_unit: str = ""
    samples: Samples | None = None
    whole: bool = False
    alone: np.ndarray | None = None
    passed_on: np.ndarray | None = None
    held_out: np.ndarray | None = None

    @property
    def lags(self) -> tuple[int, ...]:
        """The candidate lags, in samples, of rates."""
        return self.windows.lags

    @property
    def dt(self) -> float:
        """The sampling interval."""
        return float(self.windows.dt)

    @property
    def step(self) -> int:
        """The samples from the present to the level that a rate moves; none for a flow."""
        return 0 if self.flow else self.windows.step

    @property
    def used(self) -> int:
        """The number of windows that were used; where values are missing, those of the target that
        has fewest.
        """
        return int(self.counts.min())

    @property
    def counts(self) -> Int[np.ndarray, "target"]:
        """The number of windows that count for each target."""
        return np.asarray(self.windows.count(self.graph))

    @property
    def candidates(self) -> int:
        """The candidate inputs of a target."""
        return len(self.names) * len(self.lags)

    @property
    def modelled(self) -> Bool[np.ndarray, "target"]:
        """The variables that are not known inputs."""
        return ~np.isin(np.asarray(self.names), self.inputs)

    @property
    def kept(self) -> KnownGraph:
        """The edges into variables that are modelled: the past of a known input only continues
        it.
        """
        return self.graph & self.modelled[None, :, None]

    @property
    def pairs(self) -> Pairs:
        """The links between different variables, whatever the lag, into those that are modelled."""
        apart = ~np.eye(len(self.names), dtype=bool)
        return self.graph.any(axis=2) & apart & self.modelled[None]

    @property
    def foretelling(self) -> Pairs:
        """The links between different variables, and pairs that foretell without one."""
        return self.pairs if self.passed_on is None else self.pairs | self.passed_on

    @property
    def second_half(self) -> str:
        """The date at which the second half of a single recording begins, for a sentence on halves;
        empty where it is not known.
        """
        samples = self.samples
        if samples is None or len(samples.values) > 1:
            return ""
        date = samples.when(len(samples.values[0]) // 2)
        return f" (the second begins at {date})" if date else ""

    @functools.cached_property
    def drift(self) -> Float[np.ndarray, "row dim"] | None:
        """The drift of the model at all windows; None where samples are not equally spaced."""
        return drift_of(self.windows, self.model) if is_regular(self.windows) else None

    @functools.cached_property
    def memory(self) -> Float[np.ndarray, "target"]:
        """The share of each rate's variance that persists in its residuals; empty where
        neighbouring windows are not samples in a row.
        """
        if self.drift is None:
            return np.zeros(0)
        windows = self._windows_measured()
        drift = self.drift.copy() if windows is self.windows else drift_of(windows, self.model)
        scaling = windows.scaling
        increment = np.asarray(windows.increment, float)[np.asarray(windows.valid)]
        # Where a drift can only read around a delay, what that leaves is known to remember.
        around = (self.reads & ~self.graph).any(axis=(0, 2)) & (self.samples is not None)
        for j in map(int, np.flatnonzero(around)):
            left = left_at_delays(self.samples, windows, self.graph, self.delays, j)
            rate = float(scaling.rate_scale[j]) * (increment[:, j] - left)
            drift[:, j] = float(scaling.rate_center[j]) + rate
        return memory_of(windows, drift)

    def _windows_measured(self) -> Windows:
        """Return windows without rows that hold estimates of the model, whose residuals are of its
        own making; all of them if too few are left.
        """
        samples, windows = self.samples, self.windows
        if samples is None or all(t.name != "impute" for t in samples.treatments):
            return windows
        try:
            rows = measured_rows(samples, windows) & np.asarray(windows.valid)
        except ValueError:
            return windows
        return dataclasses.replace(windows, valid=to_jax(rows)) if rows.sum() >= FEWEST else windows

    @property
    def unconfirmed(self) -> KnownGraph:
        """The links between variables that pass on nothing that is new in their source."""
        return self.relations.unconfirmed & self.kept

    @functools.cached_property
    def weak(self) -> KnownGraph:
        """The edges that do not stand clear of their price and of zero, or pass on nothing new."""
        required = np.asarray(self.windows.prior.required)
        clear = (self.lower > 0) & (self.scores > CLEAR * self.price[None, :, None])
        return self.kept & ~required & ~clear | self.unconfirmed

    @functools.cached_property
    def touching(self) -> KnownGraph:
        """The edges of a source one lag after another edge of it: one of the two may be a
        stand-in.
        """
        return touching(self.graph, self.lags) & self.kept

    @functools.cached_property
    def replaceable(self) -> KnownGraph:
        """The edges that another variable could carry: of lags next to each other, which are
        replaced together, the first. Past states, a few of which tell any rate without noise, are
        no rivals of a present that explains it.
        """
        rivals, now = self.relations.rivals, np.asarray(self.lags) == 0
        close = (rivals.lower <= 0) | (rivals.cost < OF_PRICE * self.price[None, :, None])
        told = np.asarray(self.strengths.risk, float) < MISSED
        told &= self.flow & ~self.kept[:, :, ~now].any(axis=(0, 2))
        late = ~now[rivals.rival[..., 1]] & told[None, :, None]
        return close & np.isfinite(rivals.cost) & self.kept & ~self.touching & ~late

    @property
    def doubt(self) -> str:
        """The weight of doubtful edges: that of all of them together; a problem where most links
        between variables are doubtful, of two pairs and for two reasons at least.
        """
        # Of a map no delay lies between two lags.
        edges = np.stack([self.weak, self.touching & (not self.whole), self.replaceable])
        untold = np.broadcast_to(self.relations.not_excluded[..., None], self.kept.shape)
        between = self.kept & self.pairs[..., None]
        reasons = np.concatenate([edges, untold[None]]) & between
        doubtful, several = reasons.any(axis=0), reasons.any(axis=(1, 2, 3)).sum() > 1
        # Of one pair at many lags it is the lags that are in doubt.
        if several and doubtful.any(axis=2).sum() > 1 and doubtful.sum() > DOUBTFUL * between.sum():
            return PROBLEM
        return RESERVATION if edges.any(axis=0).sum() > DOUBT * self.kept.sum() else NOTE

    def edges(self, which: KnownGraph) -> list[Edge]:
        """Return edges of a graph, strongest first."""
        found = [(int(i), int(j), int(a)) for i, j, a in np.argwhere(which)]
        return sorted(found, key=lambda edge: -self.scores[edge])

    def links(self) -> list[Edge]:
        """Return edges between different variables, strongest first; where events pass, one for
        each pair, since a travel time is of the pair, whichever lags carry it.
        """
        edges = [edge for edge in self.edges(self.kept) if edge[0] != edge[1]]
        return list({edge[:2]: edge for edge in edges[::-1]}.values())[::-1] if self.events else (
            edges
        )  # fmt: skip

    def after(self, edge: Edge) -> str:
        """Return how long after its source a target moves, with the interval: "3.4 h (2.9 to 3.8)";
        where that is only the grid of the candidate lags, "not resolved below".

        Of a map this is counted to the level that moves, one sample more than the delay of the
        rate, and in samples where the unit of time is unknown; of a flow it is the delay. Empty for
        a flow that reads the present.
        """
        step, on_grid = self.step * self.dt, self.lags[edge[2]] * self.dt
        delay = float(self.delays[edge])
        delay = delay if np.isfinite(delay) else on_grid
        low, high = (float(end) + step for end in self.delay_intervals[edge])
        grid = delay == on_grid and low < high and self.flow and not self.events
        said = self._span(delay + step, low, high)
        return said.replace(")", ", not resolved below)") if grid else said

    def _span(self, *times: float) -> str:
        """Return a time, and its interval, in words; empty if it is none."""
        if not times[0] > 0:
            return ""
        if self.flow or self.time_unit:
            return time_span(*times, unit=self.time_unit or "time unit")
        return time_span(*(time / self.dt for time in times), unit="sample")

    def candidate(self, source: int, lag: int) -> str:
        """Return a candidate input, by the places of its source and lag, in words that count as
        `after` does: "wind after 3.4 h".
        """
        late = self._span((self.lags[lag] + self.step) * self.dt)
        return f"{self.names[source]} {f'after {late}' if late else 'without delay'}"

    def named(self, which: Bool[np.ndarray, "dim"]) -> str:
        """Return the names of some variables for a sentence."""
        return listed([name for name, one in zip(self.names, which, strict=True) if one])

    def label(self, edge: Edge) -> str:
        """Return an edge by its candidate: "wind@2 → waves"."""
        return f"{self.names[edge[0]]}@{self.lags[edge[2]]} → {self.names[edge[1]]}"

    def link(self, edge: Edge) -> str:
        """Return an edge in words: "wind → waves after 3.4 h (2.9 to 3.8)"."""
        late = self.after(edge)
        arrow = f"{self.names[edge[0]]} → {self.names[edge[1]]}"
        return f"{arrow} after {late}" if late else f"{arrow} without delay"

    def links_listed(self, edges: list[Edge]) -> str:
        """Return edges for a sentence, the first few of them, and those at one delay once."""
        return listed(self.links_told(edges), SHOWN_LINKS, "; ")

    def links_told(self, edges: list[Edge]) -> list[str]:
        """Return edges in words, and lags that have one delay together once."""
        return list(dict.fromkeys(map(self.link, edges)))

    def pairs_listed(self, pairs: Pairs, sign: str) -> str:
        """Return pairs for a sentence, the first few of them."""
        named = [f"{self.names[i]} {sign} {self.names[j]}" for i, j in np.argwhere(pairs)]
        return listed(named, SHOWN_LINKS)


def evidence_of(found: Any) -> GraphEvidence:
    """Return what rules read of a [`Discovery`][ndde_jax.Discovery]."""
    same = ("names", "inputs", "windows", "model", "strengths", "graph", "delays")
    same += ("delay_intervals", "events", "time_unit", "samples", "scores", "lower", "held_out")
    looked_for = found.length is None and 0 in found.lags and not found.moves_between_samples
    return GraphEvidence(
        **{name: getattr(found, name) for name in same},
        reads=found.reads if found.moves_between_samples else found.graph,
        price=np.asarray(found.strengths.price(found.coefficient), float),
        flow=found.moves_between_samples,
        relations=found._relations,
        whole=found.reading == "map" and not found.events,
        passed_on=found.passed_on.any(axis=2) if looked_for else None,
    )


def evidence_of_windows(
    windows: Windows,
    model: AbstractDelayModel,
    strengths: SignalStrengths,
    coefficient: Any,
    names: tuple[str, ...],
) -> GraphEvidence:
    """Return what rules read where nothing is known but windows, strengths and a drift."""
    graph = np.asarray(strengths.kept(coefficient))
    delays = np.where(graph, np.asarray(windows.lags, float) * float(windows.dt), np.nan)
    return GraphEvidence(
        names=names,
        inputs=(),
        windows=windows,
        model=model,
        strengths=strengths,
        graph=graph,
        scores=np.asarray(strengths.value),
        lower=np.asarray(strengths.lower),
        reads=graph,
        delays=delays,
        delay_intervals=np.repeat(delays[..., None], 2, axis=-1),
        price=np.asarray(strengths.price(coefficient), float),
        flow=windows.scheme != "euler",
        events=False,
        relations=relations(windows, graph, model),
    )


# ---- enough data ----


@measured_rule(
    "short record",
    "{used} windows for {candidates} candidate inputs of {whom}.",
    "Use fewer lags or variables, or longer data.",
    limits=Limits(
        reservation=25.0,
        problem=10.0,
        below=True,
        why="windows for each kept input and logarithm of the number of candidates, the scale on "
        "which sparse graphs are recovered (Wainwright, IEEE Trans. Inf. Theory 55, 2009)",
    ),
    theorem=FINITE,
)
def _short(e: GraphEvidence) -> Iterator[Hit]:
    degree = np.maximum(e.graph.sum(axis=(0, 2)), 1)
    size = e.counts / (degree * np.log(max(e.candidates, 2)))
    shortest = int(size.argmin())
    used = int(e.counts[shortest])
    whom = "each variable" if (e.counts == used).all() else e.names[shortest]
    words = {"used": used, "candidates": e.candidates, "whom": whom}
    yield Hit(float(size[shortest]), words, value=used / e.candidates)


@measured_rule(
    "lost windows",
    "More windows are lost to missing values ({dropped}) than are left ({used}){of}.",
    "Fill short gaps, or leave out the variable that is missing most.",
    limits=Limits(note=0.5, why="of all windows: what is left may not be like what is lost"),
    theorem=FINITE,
)
def _lost(e: GraphEvidence) -> Iterator[Hit]:
    every = int(e.windows.n_valid) + int(e.windows.dropped)
    some = e.windows.partial is not None
    of = f" for {e.names[int(e.counts.argmin())]}" if some else ""
    words = {"dropped": every - e.used, "used": e.used, "of": of}
    yield Hit((every - e.used) / max(every, 1), words)


# ---- edges ----


@measured_rule(
    "proportional changes",
    "{who} {change} in proportion to {level}, which is {nats:.3g} nats likelier than by amounts: "
    "noise multiplies, and so may what drives.",
    "If {who} cannot fall below zero, compare with what logarithms tell: transform={transform} "
    "({options}).",
)
def _proportional(e: GraphEvidence) -> Iterator[Hit]:
    if e.samples is None or e.events:
        return
    nats = factor_nats(e.samples)
    columns = np.flatnonzero(proportional(nats, e.samples) & e.modelled)
    if not len(columns):
        return
    names = [e.names[int(j)] for j in columns]
    one = len(names) == 1
    words = {
        "who": listed(names),
        "change": "changes" if one else "change",
        "level": "its level" if one else "their levels",
        "nats": nats[columns].sum(),
        "transform": {name: "log" for name in names},
        "options": " ".join(f'--log "{name}"' for name in names),
    }
    yield Hit(float(nats[columns].sum()), words, weight=NOTE)


@estimated_rule(
    "no edge",
    "No candidate input is worth its parameters.",
    "Sample more often, add lags or variables, or record for longer.",
    limits=Limits(problem=1.0, below=True, why="edges kept"),
    theorem=PENALISED,
)
def _no_edge(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(float(e.kept.sum()))


@estimated_rule(
    "passing events",
    "A few events pass through all variables, which then stand in for one another: links say who "
    "comes first and whom it is most like, not what works directly.{many}",
    "{remedy}",
    limits=Limits(
        reservation=0.0,
        problem=float(MANY),
        why="variables: in simulated floods .6 of the pairs are true of 3 and 5 gauges, .5 of 8 "
        "and 12 (python -m benchmarks.rivers simulated)",
    ),
    theorem=SUPPORT,
)
def _events(e: GraphEvidence) -> Iterator[Hit]:
    if not (e.events and e.graph.any()):
        return
    n = len(e.names)
    many, remedy = "", "Read links as who comes first; a record with more events tells more."
    if n > MANY:
        many = f" Of {n} variables the wrong neighbour is as likely as the right one."
        remedy = "Take a few that can be neighbours at a time, or record more events."
    yield Hit(float(n), {"many": many, "remedy": remedy}, value=float(e.pairs.sum()))


@estimated_rule(
    "weak edges",
    "{weak}.",
    "Record for longer, or {how}.",
    limits=Limits(
        note=0.0,
        reservation=DOUBT,
        problem=DOUBTFUL,
        why="a share of the edges: 'supported' promises that 95 % are true; a problem, too, where "
        "more than a fifth of the links between variables pass on nothing new in their source",
    ),
    theorem=PENALISED,
)
def _weak(e: GraphEvidence) -> Iterator[Hit]:
    kept, said = int(e.kept.sum()), []
    for which, one, many in (
        (
            e.weak & ~e.unconfirmed,
            "is hardly worth its price, or not in every part of the record",
            "are hardly worth their price, or not in every part of the record",
        ),
        (
            e.unconfirmed,
            "passes on nothing that is new in its source",
            "pass on nothing that is new in their source",
        ),
    ):
        if edges := e.edges(which)[::-1]:
            what = one if len(edges) == 1 else many
            said.append(f"{len(edges)} of {kept} inputs {what}: {e.links_listed(edges)}")
    if said:
        share = float(e.weak.sum() / kept)
        stale = e.unconfirmed.sum() / max((e.kept & e.pairs[..., None]).sum(), 1)
        below, them = not (e.weak & (e.lower > 0)).any(), "it" if e.weak.sum() == 1 else "them"
        drop = f"drop {them}: found.graph & (found.lower > 0)"
        how = drop if below else f"conclude nothing from {them}"
        weight = PROBLEM if share > DOUBTFUL or stale > TOO_MANY else e.doubt
        yield Hit(share, {"weak": ". ".join(said), "how": how}, weight=weight)


@estimated_rule(
    "neighbouring lags",
    "{pairs} at lags next to each other: the delay lies between them, or they stand in for a "
    "driver that is not seen{rather}.",
    "{remedy}Read the lag as an interval, or thin out the lags.",
    limits=Limits(note=0.0, reservation=DOUBT, why="a share of the edges, as for weak edges"),
    theorem=SUPPORT,
)
def _neighbours(e: GraphEvidence) -> Iterator[Hit]:
    if e.touching.any():
        pairs = e.pairs_listed(e.touching.any(axis=2), "→")
        weight = NOTE if e.whole else e.doubt
        words = {"pairs": pairs, "rather": "", "remedy": ""}
        many = e.touching.any(axis=2) & (e.kept.sum(axis=2) >= SPREAD) & e.pairs
        # Nothing unseen drives a known input, and what is followed fully acts over a while.
        many &= e.modelled[:, None] & e.relations.partly
        if many.any() and not e.whole and not e.events:
            which = e.pairs_listed(many, "→")
            words["rather"] = f". A delay takes two at most, but more are kept of {which}"
            words["remedy"] = "Add what may drive both. "
            weight = PROBLEM
        yield Hit(float(e.touching.sum() / e.kept.sum()), words, weight=weight)


@estimated_rule(
    "delay between lags",
    "Delays lie between the candidate lags: {links}. Strengths are of these delays; the drift, and "
    "effects and forecasts with it, have only the candidates around them.",
    "Discover again with lags={finer}, among which they are.",
    limits=Limits(note=0.0, why="a share of the edges; the graph is right all the same"),
    theorem=SUPPORT,
)
def _between(e: GraphEvidence) -> Iterator[Hit]:
    between, finer = delays_between(e.graph, e.reads, e.delays / e.dt, e.lags)
    between &= e.kept
    if between.any():
        words = {"links": e.links_listed(e.edges(between)), "finer": finer}
        yield Hit(float(between.sum() / e.kept.sum()), words)


# ---- what the inputs leave ----


@estimated_rule(
    "drift not finite",
    "The fitted drift is not finite along the data.",
    "Fit it again with another seed.",
    limits=Limits(problem=0.0, why="variables without a finite rate"),
)
def _finite(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(float((~np.isfinite(e.memory)).sum()))


@estimated_rule(
    "no noise, lags",
    "No noise moves {who}: what comes next follows from any few samples before it, so that lags "
    "stand in for one another, and delays may lie beside the true ones: {links}.",
    "Record or simulate it with noise that moves the system, a hundredth of a standard deviation a "
    "sample; or give those lags only that can be.",
    limits=Limits(
        reservation=0.0,
        why="a share of the links with a delay; without noise those of steep laws have others "
        "beside them",
    ),
    theorem=SUPPORT,
)
def _no_noise(e: GraphEvidence) -> Iterator[Hit]:
    if not e.flow or e.events:
        return
    late = e.kept & (np.asarray(e.lags) > 0)
    still = late & (np.asarray(e.strengths.risk, float) < NOISELESS)[None, :, None]
    if still.any():
        words = {"who": e.named(still.any(axis=(0, 2))), "links": e.links_listed(e.edges(still))}
        yield Hit(float(still.sum() / late.sum()), words)


@estimated_rule(
    "sensor noise",
    "What is left of the rate of {who} turns back from one sample to the next, as errors of the "
    "measurement do. A lag may be off by some samples{late}; and only what moves a source can tell "
    "a link from an unseen driver.",
    "Average neighbouring samples, or sample less often; if these are differences of what was "
    "measured, analyse that.",
    limits=Limits(
        note=-1.0,
        reservation=0.0,
        why="a share of the links between variables that have a delay, which errors move",
    ),
)
def _sensor_noise(e: GraphEvidence) -> Iterator[Hit]:
    which = e.relations.turning_back & e.modelled
    if not which.any():
        return
    apart = ~np.eye(len(e.names), dtype=bool)[:, :, None]
    touched = e.kept & apart & (which[:, None, None] | which[None, :, None])
    late = touched & (np.asarray(e.lags) > 0)
    links = f": {e.links_listed(e.edges(late))}" if late.any() else ""
    words = {"who": e.named(which), "late": links}
    yield Hit(float(late.sum() / max((e.kept & apart).sum(), 1)), words)


@estimated_rule(
    "no foresight",
    "Hardly anything of the next value of {who} is foretold ({share} at most). What is explained "
    "of the rate is the way back to the mean, which values that are independent of all before them "
    "go as well.",
    "Nothing; sample more often if something passes within one interval.",
    limits=Limits(
        note=1 - FORESIGHT,
        why="a share of the variance of the next value that stays open, with a rate of which "
        "a third is explained: of independent values half is",
    ),
)
def _no_foresight(e: GraphEvidence) -> Iterator[Hit]:
    if e.flow:
        return
    risk, scaling = np.asarray(e.strengths.risk, float), e.windows.scaling
    step = np.asarray(scaling.rate_scale, float) * e.dt * e.windows.step
    left = risk * (step / np.asarray(scaling.scale, float)) ** 2
    which = e.modelled & (left > 1 - FORESIGHT) & (risk < 1 - THIRD)
    if which.any():
        least = float(left[which].min())
        yield Hit(least, {"who": e.named(which), "share": percent(max(1 - least, 0.0))})


@estimated_rule(
    "residual memory",
    "What is left of the rate of {who} has a memory ({share} of the variance): a driver is hidden "
    "or a delay is not among the candidates.",
    "Add the driver or larger lags; edges may be stand-ins.",
    limits=Limits(
        reservation=MEMORY,
        problem=HEAVY_MEMORY,
        why="a share of a rate's variance: beyond the first a driver or a delay seems to be "
        "missing, beyond the second that decides",
    ),
)
def _memory(e: GraphEvidence) -> Iterator[Hit]:
    if not e.memory.size or not np.isfinite(e.memory).all():
        return
    memory = np.where(e.modelled, e.memory, 0)
    worst, heavy = float(memory.max()), memory > MEMORY
    share = percent(worst) if heavy.sum() == 1 else f"up to {percent(worst)}"
    # Who comes first, which decides where events pass, does not rest on the drift.
    weight = RESERVATION if worst > HEAVY_MEMORY and e.events else None
    yield Hit(worst, {"who": e.named(heavy), "share": share}, weight=weight)


@estimated_rule(
    "persistent rates",
    "{rates} from one sample to the next, beyond what was found: samples may be means over the "
    "interval or smoothed, something unseen may drive the system, or the drift that was found "
    "lacks a part of the real one.",
    "Use values at single times; of means, read delays with half an interval of doubt.",
    limits=Limits(
        reservation=0.0,
        why="a share of the variables; tested for all of them together at an error rate of .001",
    ),
)
def _persistent(e: GraphEvidence) -> Iterator[Hit]:
    which = e.relations.persistent & e.modelled
    if which.any():
        who = e.named(which)
        rates = f"The rate of {who} goes on" if which.sum() == 1 else f"The rates of {who} go on"
        yield Hit(float(which.sum() / e.modelled.sum()), {"rates": rates})


@estimated_rule(
    "later delay",
    "What is left of a rate is explained by a state before every candidate lag: {links}. A delay "
    "seems to be missing, and links that are kept may stand in for it.",
    "Discover again with lags up to {largest} samples: lags=range({most}).",
    limits=Limits(
        reservation=0.0,
        why="the largest share of what is left of a rate that such a state explains",
    ),
)
def _later(e: GraphEvidence) -> Iterator[Hit]:
    later, step = e.relations.later, e.step
    which = np.flatnonzero((later.lag >= 0) & e.modelled)
    if not len(which):
        return
    told = []
    for j in which[np.argsort(-later.share[which], kind="stable")]:
        before = amount(float(later.lag[j] + step), "sample")
        source, share = e.names[later.source[j]], percent(float(later.share[j]))
        told.append(f"{e.names[j]} by {source} {before} before ({share})")
    largest = with_a_quarter_more(int(later.lag[which].max()))
    words = {"links": listed(told, SHOWN_LINKS, "; "), "largest": largest, "most": largest + 1}
    yield Hit(float(later.share[which].max()), words)


@estimated_rule(
    "hidden driver",
    "Something unseen seems to drive both of {pairs}: the target does not follow all that moves "
    "the source, as it would if driven.",
    "Add what drives both if it was measured; read these links as common causes.",
    limits=Limits(reservation=0.0, problem=TOO_MANY, why="a share of the links between variables"),
)
def _hidden(e: GraphEvidence) -> Iterator[Hit]:
    held = e.pairs & e.relations.confounded
    pairs = e.pairs_listed(np.triu(held | held.T, 1), "<->")
    yield Hit(float(held.sum() / max(e.pairs.sum(), 1)), {"pairs": pairs})


@estimated_rule(
    "hidden driver possible",
    "Something unseen that drives both variables would look the same as {links}: {pairs}. Nothing "
    "that was measured moves the source so that one could see its target follow.",
    "Add what may drive both. Name a source that you set yourself among the inputs.",
    limits=Limits(
        note=0.0,
        reservation=UNTOLD,
        why="a share of the links between variables: a few true ones in a hundred are not told",
    ),
)
def _not_excluded(e: GraphEvidence) -> Iterator[Hit]:
    held = e.pairs & e.relations.not_excluded & ~e.relations.confounded & e.modelled[:, None]
    count, kept = int(held.sum()), int(e.pairs.sum())
    links = f"the links of {count} of {kept} pairs" if kept > 1 else "the one link"
    yield Hit(count / max(kept, 1), {"links": links, "pairs": e.pairs_listed(held, "→")})


@estimated_rule(
    "replaceable edges",
    "{count} of {kept} inputs could as well come from {rivals}, at a cost that is within chance or "
    "below half the price of an edge: {edges}.",
    "{remedy}",
    limits=Limits(
        note=0.0,
        reservation=DOUBT,
        problem=CARRIED,
        why="a share of the edges; for a problem without a past that one of the drivers could "
        "carry, and two at least: one in seventy is by chance",
    ),
    theorem="faithfulness",
)
def _replaceable(e: GraphEvidence) -> Iterator[Hit]:
    if e.replaceable.any():
        rivals, count = e.relations.rivals, int(e.replaceable.sum())
        said = [
            f"{e.link(k)}, or {e.candidate(*map(int, rivals.rival[k]))}"
            for k in e.edges(e.replaceable)
        ]
        share = count / int((e.kept & ~e.touching).sum())
        edges = listed(said, SHOWN_LINKS, "; ")
        words = {"count": count, "kept": int(e.kept.sum()), "edges": edges}
        own = [_by_own_past(e, edge) for edge in e.edges(e.replaceable)]
        words["rivals"] = "another variable" + " or from the target's own past" * any(own)
        words["remedy"] = (
            "Record for longer: of few samples a past tells what its drivers did."
            if all(own)
            else "Leave out one of two variables that say the same, or rule a link out with "
            "prior_knowledge (--forbid)."
        )
        # Of a past that a driver could carry, at another lag, no link is at stake; and of a link
        # that the target's own past could carry, none to another variable.
        other = [not _drives_anyway(e, edge) for edge in e.edges(e.replaceable)]
        other = [told and not past for told, past in zip(other, own, strict=True)]
        many = sum(other) > 1 and share * sum(other) / count > CARRIED
        yield Hit(share, words, weight=PROBLEM if many else e.doubt)


def _by_own_past(e: GraphEvidence, edge: Edge) -> bool:
    """Return whether the rival of a link is the target itself before what the link reads: a copy
    of the source stands in for it at the same time.
    """
    rival, lag = map(int, e.relations.rivals.rival[edge])
    return rival == edge[1] and lag > edge[2]


def _drives_anyway(e: GraphEvidence, edge: Edge) -> bool:
    """Return whether an input is a variable's own past, and its rival one of its drivers."""
    source, target, _ = edge
    rival = int(e.relations.rivals.rival[edge][0])
    return source == target and bool(e.kept[rival, target].any())


@estimated_rule(
    "derived variable",
    "{who} {derived} of the present states of other variables, to a hundredth of the variance: "
    "{told}.",
    "Leave out what is computed from others.",
    limits=Limits(
        reservation=0.0,
        problem=1.0,
        why="variables: links to and from one are those of what it is computed from; of several "
        "each may be the one that is computed",
    ),
    theorem=SUPPORT,
)
def _derived(e: GraphEvidence) -> Iterator[Hit]:
    derived = e.relations.derived
    one = derived.sum() == 1
    words = {
        "who": e.named(derived),
        "derived": "is a function" if one else "are functions",
        "told": "its links are those of what it is computed from"
        if one
        else "which of them is computed, and which drives, cannot be told",
    }
    yield Hit(float(derived.sum()), words)


@estimated_rule(
    "links at once",
    "{pairs} {are} within one sampling interval (correlation up to {strongest:.2f} of what is left "
    "of their rates): {meaning}.",
    "{remedy}",
    limits=Limits(
        note=-1.0, reservation=0.0, problem=TOO_MANY, why="a share of the links between variables"
    ),
)
def _at_once(e: GraphEvidence) -> Iterator[Hit]:
    related = e.relations.at_once & e.modelled[None] & e.modelled[:, None]
    if related.any():
        # A pair that is related at once stands in for one another as sources, and passes on as
        # targets, also links that were left out for it.
        touched = e.foretelling & (related.any(axis=1)[:, None] | related.any(axis=1)[None])
        # What drives one of the pair, itself included, is found to drive the other.
        passed_on = (e.pairs | np.eye(len(e.names), dtype=bool)) @ related
        share = float((e.pairs & passed_on).sum() / max(e.pairs.sum(), 1))
        # Of a map, links that are passed on are left out where they were looked for. A flow
        # explains what its own links do within a step; what else relates two rates, as noise that
        # they share, makes no link.
        grave = share > TOO_MANY and e.passed_on is None and not e.flow
        # Links that have nothing to do with the pair are as sure; that there are none is not.
        apart = e.pairs.any() and not touched.any()
        weight = NOTE if apart else PROBLEM if grave else RESERVATION
        dim = int(e.modelled.sum())
        mixed = bool(dim > 3 and related.sum() > MIXED * dim * (dim - 1))
        words = {
            "are": "are related",
            "meaning": "which comes first cannot be told",
            "remedy": "Sample more often; read these links as relations without a direction. If "
            "one is a total over the interval before its time stamp, shift it one row back."
            + " Sensors that pick up one another, as electrodes do, are unmixed first."
            * mixed,
        }
        yield _hit_at_once(e, np.triu(related, 1), "--", share, words, weight)
    driven = e.relations.at_once & e.modelled[None] & ~e.modelled[:, None]
    # What acts within the interval does what it goes on to do afterwards.
    driven &= ~(e.relations.correlation * _directions(e) < 0)
    if driven.any():
        inputs = [e.names[int(i)] for i in np.flatnonzero(driven.any(axis=1))]
        shared = e.relations.correlation**2 * np.asarray(e.strengths.risk, float)[None]
        known = np.where(e.graph, e.scores, 0).max(axis=2)
        missing = driven & ~(known > shared)
        one = len(inputs) == 1
        words = {
            "are": "acts" if driven.sum() == 1 else "act",
            "meaning": "no state before a step tells of that",
            "remedy": f"If {listed(inputs)} {'is a sum or mean' if one else 'are sums or means'} "
            "over the interval before the time stamp, as a day's rain is, shift "
            f"{'it' if one else 'them'} one row back, to where the interval begins: "
            + "; ".join(f"x[{name!r}] = x[{name!r}].shift(-1)" for name in inputs),
        }
        weight = RESERVATION if missing.any() else NOTE
        yield _hit_at_once(e, driven, "→", float(missing.sum() / driven.sum()), words, weight)


def _directions(e: GraphEvidence) -> Int[np.ndarray, "source target"]:
    """Return whether a target rather rises (1) or falls (−1) after its source is high, of the
    strongest lag kept; 0 without a link, and where no window holds all variables.
    """
    valid = np.asarray(e.windows.valid)
    past, rates = (np.asarray(a, float)[valid] for a in (e.windows.history, e.windows.increment))
    rates = rates - rates.sum(axis=0) / max(len(rates), 1)
    direction = np.zeros(e.pairs.shape, int)
    for i, j in np.argwhere(e.pairs):
        a = int(np.where(e.graph[i, j], e.scores[i, j], -1).argmax())
        direction[i, j] = np.sign(past[:, a, i] @ rates[:, j])
    return direction


def _hit_at_once(
    e: GraphEvidence, pairs: Pairs, arrow: str, share: float, words: dict[str, str], weight: str
) -> Hit:
    """Return the finding on some pairs."""
    strongest = float(np.nanmax(np.abs(e.relations.correlation[pairs])))
    words = words | {"pairs": e.pairs_listed(pairs, arrow), "strongest": strongest}
    return Hit(share, words, value=strongest, weight=weight)


@estimated_rule(
    "drifting link",
    "Effects change over the record: {pairs}. Links that go from one sign to the other are missing "
    "from the graph, and slopes are means.",
    "Analyse the first and the second half on their own{second_half}, or give what changes the "
    "effects, such as a season, as a variable.",
    limits=Limits(
        reservation=0.0,
        problem=1.0,
        why="a share of the candidates, each tested at an error rate of .001 for all together, and "
        "explaining a thousandth of its target's rate, since less may be an error of the drift; a "
        "problem where a link between variables that are not linked turns, which is then missing",
    ),
)
def _drifting(e: GraphEvidence) -> Iterator[Hit]:
    drifts = e.relations.drifting & e.modelled[None, :, None]
    pairs = e.pairs_listed(drifts.any(axis=2), "→")
    apart = ~np.eye(len(e.names), dtype=bool)
    missing = (drifts.any(axis=2) & apart & ~e.pairs).any()
    words = {"pairs": pairs, "second_half": e.second_half}
    yield Hit(float(drifts.sum() / drifts.size), words, weight=PROBLEM if missing else None)
