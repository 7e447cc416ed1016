"""Rules about a graph and its residuals, which decide together with those about samples."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, Pairs, to_jax
from .._wording import amount, listed, percent, time_span
from ..assess._assess import Relations, relations
from ..assess._rivals import adjacent_lags
from ..assess._score import drift_of
from ..models._model import AbstractDelayModel
from ..samples._factors import factor_nats, proportional
from ..samples._samples import Samples
from ..select._between import delays_between, residuals_at_delays
from ..select._measured import SignalStrengths
from ..select._midpoint import measured_rows
from ..select._splines import MISSED, NOISELESS
from ..windows._choose_lags import with_a_quarter_more
from ..windows._windows import Windows, is_regular
from ._conditioning import memory_of
from ._data_tests import is_set
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

# Fewest rows of measured values in which residuals are tested.
FEWEST = 100
# An edge whose strength is less than this many times its price is weak.
CLEAR = 2.0
# Share of doubtful edges above which the graph has reservations, and above which it is not
# supported. "Supported" promises that 95 % of the edges are true, so doubt about one edge in twenty
# is reported without weight.
DOUBT, DOUBTFUL = 0.05, 0.5
# Share of the pairs of four variables or more that are related at once if sensors pick up one
# another.
MIXED = 2 / 3
# Share of the links between variables above which a graph is not supported: "with reservations"
# promises that four of five are true, and almost no link between confounded pairs is.
TOO_MANY = 0.2
# Share of the links that no test could distinguish from those of an unobserved driver.
UNDECIDED = 0.1
# Number of variables with passing events above which the wrong neighbour is chosen as often as the
# right one: in simulated floods, .6 of the pairs are true for 3 and 5 gauges, .5 for 8 and 12
# (`python -m benchmarks.rivers simulated`).
MANY = 8
# Share of a price below which the loss from replacing an edge is negligible.
OF_PRICE = 0.5
# Number of lags of one source of a flow, some of them adjacent, from which on they indicate an
# unobserved driver and not a delay between them. Chosen by inspecting simulated flows: one of 165
# true links had that many, and four of 21 links by a white-noise driver, and all of six more with
# reservations. The target of the true link follows its source fully, like a dryer's temperature;
# the targets of the others follow by half.
MANY_LAGS = 3
# Share of inputs, at least two, that another variable could replace above which a graph is not
# supported: in clean records one input in seventy is replaceable by chance, two in a dozen are not.
REPLACEABLE_LIMIT = 0.15
# Variance of a sum relative to that of each part below which the sum is constant: rounding to two
# digits leaves less.
CONSTANT = 1e-3
# Share of a rate's variance that persists in its residuals: limits of a reservation and a problem.
MEMORY, HEAVY_MEMORY = 0.05, 0.3
# Share of the variance of the next value below which it counts as unpredictable, and share of the
# rate's variance that must still seem to be explained: for independent values it is one half.
FORESIGHT, EXPLAINED_SHARE = 0.05, 1 / 3
PROCESS = "data-generating process"
FINITE = "finite-sample recovery"
SUPPORT = "full support of the occupation measure"
PENALISED = "identifiability with the penalised objective"

measured_rule = rules_about(GRAPH)
estimated_rule = rules_about(GRAPH, kind=ESTIMATED, theorem=PROCESS)

Edge = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class GraphEvidence:
    """The input of rules about a graph, all of it from a [`Discovery`][ndde_jax.Discovery].

    - `names`, `inputs`: the names of the variables, and of those that are known inputs.
    - `windows`, `model`, `strengths`: the data, the drift and the strengths of the edges.
    - `graph`, `scores`, `lower`, `reads`, `delays`: `[source target lag]`, and `delay_intervals`
        `[source target lag 2]`; in `time_unit`.
    - `price`: the price of an edge of each target, `[target]`.
    - `flow`: whether the drift is a flow between samples, not a map from one to the next.
    - `whole`: whether delays are whole lags, as in the map reading; `undecided`: whether the record
        may be either.
    - `events`: whether events pass through, so that edges say which variable comes first.
    - `relations`: hidden, contemporaneous and drifting relations.
    - `samples`: the samples of the windows; None if only the windows are known.
    - `alone`: strengths of the edges as the paper defines them; None if they were not measured.
    - `passed_on`: pairs of a map whose link another variable passes on within a sampling interval;
        None if these were not searched for.
    - `held_out`: unexplained share of the variance of each rate on held-out blocks of the record,
        `[target]`; None if it was not measured.
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
    undecided: bool = False
    alone: np.ndarray | None = None
    passed_on: np.ndarray | None = None
    held_out: np.ndarray | None = None

    @property
    def lags(self) -> tuple[int, ...]:
        """The candidate lags of rates, in samples."""
        return self.windows.lags

    @property
    def dt(self) -> float:
        """The sampling interval."""
        return float(self.windows.dt if self.samples is None else self.samples.dt)

    @property
    def step(self) -> int:
        """The number of samples from the present to the level that a rate moves; 0 for a flow."""
        return 0 if self.flow else self.windows.step

    @property
    def used(self) -> int:
        """The number of windows used; with missing values, that of the target with fewest."""
        return int(self.counts.min())

    @property
    def counts(self) -> Int[np.ndarray, "target"]:
        """The number of windows that count for each target."""
        return np.asarray(self.windows.count(self.graph))

    @property
    def candidates(self) -> int:
        """The number of candidate inputs of a target."""
        return len(self.names) * len(self.lags)

    @property
    def modelled(self) -> Bool[np.ndarray, "target"]:
        """The variables that are not known inputs."""
        return ~np.isin(np.asarray(self.names), self.inputs)

    @property
    def kept(self) -> KnownGraph:
        """The edges into modelled variables, without those into known inputs."""
        return self.graph & self.modelled[None, :, None]

    @property
    def pairs(self) -> Pairs:
        """The links between different variables at any lag, into modelled variables."""
        apart = ~np.eye(len(self.names), dtype=bool)
        return self.graph.any(axis=2) & apart & self.modelled[None]

    @property
    def foretelling(self) -> Pairs:
        """The links between different variables, and pairs that predict without a link."""
        return self.pairs if self.passed_on is None else self.pairs | self.passed_on

    @property
    def second_half(self) -> str:
        """The date at which the second half of a single recording begins, as a phrase for a
        sentence; empty if it is not known.
        """
        samples = self.samples
        if samples is None or len(samples.values) > 1:
            return ""
        date = samples.when(len(samples.values[0]) // 2)
        return f" (the second begins at {date})" if date else ""

    @functools.cached_property
    def drift(self) -> Float[np.ndarray, "row dim"] | None:
        """The drift of the model at all windows; None if samples are not equally spaced."""
        return drift_of(self.windows, self.model) if is_regular(self.windows) else None

    @functools.cached_property
    def memory(self) -> Float[np.ndarray, "target"]:
        """The share of each rate's variance that persists in its residuals; empty if samples are
        not equally spaced.
        """
        if self.drift is None:
            return np.zeros(0)
        windows = self._windows_measured()
        drift = self.drift.copy() if windows is self.windows else drift_of(windows, self.model)
        scaling = windows.scaling
        increment = np.asarray(windows.increment, float)[np.asarray(windows.valid)]
        # A drift that can only read lags around a delay leaves autocorrelated residuals.
        around = (self.reads & ~self.graph).any(axis=(0, 2)) & (self.samples is not None)
        for j in map(int, np.flatnonzero(around)):
            left = residuals_at_delays(self.samples, windows, self.graph, self.delays, j)
            rate = float(scaling.rate_scale[j]) * (increment[:, j] - left)
            drift[:, j] = float(scaling.rate_center[j]) + rate
        return memory_of(windows, drift)

    def _windows_measured(self) -> Windows:
        """Return windows without rows that contain values imputed by the model, because these bias
        its residuals; all windows if too few are left.
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
        """The links between variables that pass on nothing new from their source."""
        return self.relations.unconfirmed & self.kept

    @functools.cached_property
    def weak(self) -> KnownGraph:
        """The edges that are not clearly above their price and zero, or pass on nothing new."""
        required = np.asarray(self.windows.prior.required)
        clear = (self.lower > 0) & (self.scores > CLEAR * self.price[None, :, None])
        return self.kept & ~required & ~clear | self.unconfirmed

    @functools.cached_property
    def touching(self) -> KnownGraph:
        """The edges of a source one lag after another edge of it, without those of one delay that
        was found between the two: one of the two may be a proxy.
        """
        one_delay = np.zeros_like(self.kept)
        one_delay[..., 1:] = self.delays[..., 1:] == self.delays[..., :-1]
        return adjacent_lags(self.graph, self.lags) & self.kept & ~one_delay

    @functools.cached_property
    def replaceable(self) -> KnownGraph:
        """The edges that another variable could replace: of adjacent lags, which are replaced
        together, the first. Without noise a few past states predict any rate, so past states are no
        rivals of present states that explain it. Cosine and sine of one phase are no rivals either.
        """
        rivals, now = self.relations.rivals, np.asarray(self.lags) == 0
        close = (rivals.lower <= 0) | (rivals.cost < OF_PRICE * self.price[None, :, None])
        explained = np.asarray(self.strengths.risk, float) < MISSED
        explained &= self.flow & ~self.kept[:, :, ~now].any(axis=(0, 2))
        late = ~now[rivals.rival[..., 1]] & explained[None, :, None]
        alike = self.one_phase[np.arange(len(self.names))[:, None, None], rivals.rival[..., 0]]
        possible = np.isfinite(rivals.cost) & ~late & ~alike
        return close & possible & self.kept & ~self.touching

    @functools.cached_property
    def one_phase(self) -> Pairs:
        """The pairs whose squares add up to a constant, as cosine and sine of one phase do."""
        scaling = self.windows.scaling
        scale, center = np.asarray(scaling.scale, float), np.asarray(scaling.center, float)
        now = np.asarray(self.windows.history, float)[np.asarray(self.windows.valid), 0]
        squares = (now * scale + center) ** 2
        squares = squares - squares.sum(axis=0) / max(len(squares), 1)
        covariance = squares.T @ squares / max(len(squares), 1)
        spread = np.diag(covariance)
        both = spread[:, None] + spread + 2 * covariance
        return both < CONSTANT * np.minimum(spread[:, None], spread)

    @property
    def doubt(self) -> str:
        """The weight of all doubtful edges together; a problem if most links between variables are
        doubtful, of at least two pairs and for at least two reasons, and at least two of them not
        only because an unobserved driver is possible. Doubts about a variable's own past count if
        a copy could replace it; if there are no links; or if two variables drive each other and
        nothing else moves them, since an unobserved driver may then be behind all of their edges.
        """
        # In a map no delay lies between two lags.
        edges = np.stack([self.weak, self.touching & (not self.whole), self.replaceable])
        not_excluded = np.broadcast_to(self.relations.not_excluded[..., None], self.kept.shape)
        between = self.kept & self.pairs[..., None]
        reasons = np.concatenate([edges, not_excluded[None]]) & between
        doubtful, several = reasons.any(axis=0), reasons.any(axis=(1, 2, 3)).sum() > 1
        several &= (edges.any(axis=0) & between).sum() > 1
        # If one pair has many lags, only the lags are in doubt.
        if several and doubtful.any(axis=2).sum() > 1 and doubtful.sum() > DOUBTFUL * between.sum():
            return PROBLEM
        counted = between if between.any() and not self.unmoved_pairs else self.kept
        doubtful = edges.any(axis=0) & counted
        for edge in self.edges(self.replaceable & ~between):
            doubtful[edge] |= not _own_past_is_predicted(self, edge)
        return RESERVATION if doubtful.sum() > DOUBT * counted.sum() else NOTE

    @property
    def unmoved_pairs(self) -> list[list[str]]:
        """The names of pairs that drive each other and that nothing else drives."""
        alone = (self.pairs.sum(axis=0) == 1) & self.modelled
        mutual = np.argwhere(np.triu(self.pairs & self.pairs.T) & alone & alone[:, None])
        return [[self.names[i], self.names[j]] for i, j in mutual]

    def edges(self, which: KnownGraph) -> list[Edge]:
        """Return the edges of a graph, strongest first."""
        found = [(int(i), int(j), int(a)) for i, j, a in np.argwhere(which)]
        return sorted(found, key=lambda edge: -self.scores[edge])

    def links(self) -> list[Edge]:
        """Return edges between different variables, strongest first; with passing events, one for
        each pair, since a travel time belongs to the pair whatever the lags.
        """
        edges = [edge for edge in self.edges(self.kept) if edge[0] != edge[1]]
        return list({edge[:2]: edge for edge in edges[::-1]}.values())[::-1] if self.events else (
            edges
        )  # fmt: skip

    def after(self, edge: Edge) -> str:
        """Return the time from source to target with its interval: "3.4 h (2.9 to 3.8)", or "not
        resolved below" if the interval is only the grid of the candidate lags.

        For a map this is counted to the level that moves, one sample more than the delay of the
        rate, and in samples if the unit of time is unknown. If it may also be a flow, the interval
        begins at the delay of the rate. For a flow it is the delay: "at most
        1 h" if it reads the present and a delay of that length is not excluded, and empty if no
        delay was a candidate.
        """
        step, on_grid = self.step * self.dt, self.lags[edge[2]] * self.dt
        delay = float(self.delays[edge])
        delay = delay if np.isfinite(delay) else on_grid
        low, high = map(float, self.delay_intervals[edge])
        # If the record may also be a flow, the interval already extends to the level that moves.
        if not (self.undecided and high > 0):
            low, high = low + step, high + step
        if delay + step == 0 < high:
            return f"at most {self._span(high)}"
        grid = delay == on_grid and low < high and self.flow and not self.events
        said = self._span(delay + step, low, high)
        return said.replace(")", ", not resolved below)") if grid else said

    def _span(self, *times: float) -> str:
        """Return a time and its interval in words; empty if the time is not positive."""
        if not times[0] > 0:
            return ""
        if self.flow or self.time_unit:
            return time_span(*times, unit=self.time_unit or "time unit")
        return time_span(*(time / self.dt for time in times), unit="sample")

    def candidate(self, source: int, lag: int) -> str:
        """Return a candidate input in words, from the positions of its source and lag; times are
        counted as in `after`: "wind after 3.4 h".
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
        """Return the first few edges for a sentence, listing edges with one delay once."""
        return listed(self.links_told(edges), SHOWN_LINKS, "; ")

    def links_told(self, edges: list[Edge]) -> list[str]:
        """Return edges in words, listing lags that share one delay once."""
        return list(dict.fromkeys(map(self.link, edges)))

    def pairs_listed(self, pairs: Pairs, sign: str) -> str:
        """Return the first few pairs for a sentence."""
        named = [f"{self.names[i]} {sign} {self.names[j]}" for i, j in np.argwhere(pairs)]
        return listed(named, SHOWN_LINKS)


def evidence_of(found: Any) -> GraphEvidence:
    """Return the evidence of a [`Discovery`][ndde_jax.Discovery]."""
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
        undecided=found.reading == "undecided" and not found.events,
        passed_on=found.passed_on.any(axis=2) if looked_for else None,
    )


def evidence_of_windows(
    windows: Windows,
    model: AbstractDelayModel,
    strengths: SignalStrengths,
    coefficient: Any,
    names: tuple[str, ...],
) -> GraphEvidence:
    """Return the evidence if only windows, strengths and a drift are known."""
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
    "Use fewer lags or variables, or a longer record.",
    limits=Limits(
        reservation=25.0,
        problem=10.0,
        below=True,
        why="windows per kept input and per logarithm of the number of candidates, the scale on "
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
    "More windows are lost to missing values ({dropped}) than remain ({used}){of}.",
    "Fill short gaps, or omit the variable with the most missing values.",
    limits=Limits(
        note=0.5, why="a share of all windows: those that remain may differ from those lost"
    ),
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
    "{who} {change} in proportion to {level}, which fits better than changes of a fixed size (by "
    "{nats:.3g} units of log-likelihood). The noise is multiplicative, and drivers may be too.",
    "If {who} cannot fall below zero, compare with the graph of the logarithms: "
    "transform={transform} ({options}).",
)
def _proportional(e: GraphEvidence) -> Iterator[Hit]:
    if e.samples is None or e.events:
        return
    nats = factor_nats(e.samples)
    every = np.concatenate(e.samples.values)
    columns = [
        int(j)
        for j in np.flatnonzero(proportional(nats, e.samples) & e.modelled)
        if not is_set(every[np.isfinite(every[:, j]), j])
    ]
    if not columns:
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
    "No candidate input explains as much as an edge must explain to be kept.",
    "Sample more often, add lags or variables, or record for longer.",
    limits=Limits(problem=1.0, below=True, why="edges kept"),
    theorem=PENALISED,
)
def _no_edge(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(float(e.kept.sum()))


@estimated_rule(
    "passing events",
    "A few events pass through all variables, which are then proxies for one another. Links say "
    "which variable comes first and which it resembles most, not which acts directly.{many}",
    "{remedy}",
    limits=Limits(
        reservation=0.0,
        problem=float(MANY),
        why="number of variables: in simulated floods .6 of the pairs are true for 3 and 5 gauges, "
        ".5 for 8 and 12 (python -m benchmarks.rivers simulated)",
    ),
    theorem=SUPPORT,
)
def _events(e: GraphEvidence) -> Iterator[Hit]:
    if not (e.events and e.graph.any()):
        return
    n = len(e.names)
    many, remedy = "", "Read links as an order of arrival; a record with more events shows more."
    if n > MANY:
        many = f" With {n} variables, the wrong neighbour is as likely as the right one."
        remedy = "Analyse a few possible neighbours at a time, or record more events."
    yield Hit(float(n), {"many": many, "remedy": remedy}, value=float(e.pairs.sum()))


@estimated_rule(
    "weak edges",
    "{weak}.",
    "Record for longer, or {how}.",
    limits=Limits(
        note=0.0,
        reservation=DOUBT,
        problem=DOUBTFUL,
        why="a share of the edges: 'supported' promises that 95 % are true; also a problem if more "
        "than a fifth of the links between variables pass on nothing new from their source",
    ),
    theorem=PENALISED,
)
def _weak(e: GraphEvidence) -> Iterator[Hit]:
    kept, said = int(e.kept.sum()), []
    for which, one, many in (
        (
            e.weak & ~e.unconfirmed,
            "explains little more than an edge must, or not throughout the record",
            "explain little more than an edge must, or not throughout the record",
        ),
        (
            e.unconfirmed,
            "passes on nothing new from its source",
            "pass on nothing new from their source",
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
        how = drop if below else f"draw no conclusion from {them}"
        weight = PROBLEM if share > DOUBTFUL or stale > TOO_MANY else e.doubt
        yield Hit(share, {"weak": ". ".join(said), "how": how}, weight=weight)


@estimated_rule(
    "neighbouring lags",
    "{pairs} at adjacent lags: the delay lies between them, or they are proxies for an unobserved "
    "driver{rather}.",
    "{remedy}Read the lag as an interval, or thin out the lags.",
    limits=Limits(note=0.0, reservation=DOUBT, why="a share of the edges, as for weak edges"),
    theorem=SUPPORT,
)
def _neighbours(e: GraphEvidence) -> Iterator[Hit]:
    if e.touching.any():
        pairs = e.pairs_listed(e.touching.any(axis=2), "→")
        weight = NOTE if e.whole else e.doubt
        words = {"pairs": pairs, "rather": "", "remedy": ""}
        many = e.touching.any(axis=2) & (e.kept.sum(axis=2) >= MANY_LAGS) & e.pairs
        # Nothing unobserved drives a known input, and a source followed fully acts for some time.
        many &= e.modelled[:, None] & e.relations.partly
        if many.any() and not e.whole and not e.events:
            which = e.pairs_listed(many, "→")
            words["rather"] = (
                f". One delay seldom takes more than two lags, but more are kept for {which}"
            )
            words["remedy"] = "Add possible common drivers. "
            weight = PROBLEM
        yield Hit(float(e.touching.sum() / e.kept.sum()), words, weight=weight)


@estimated_rule(
    "delay between lags",
    "Delays lie between candidate lags: {links}. Strengths are those of these delays. The drift, "
    "effects and forecasts have only the candidates around them.",
    "Discover again with lags={finer}, which include them.",
    limits=Limits(note=0.0, why="a share of the edges; the graph is still right"),
    theorem=SUPPORT,
)
def _between(e: GraphEvidence) -> Iterator[Hit]:
    between, finer = delays_between(e.graph, e.reads, e.delays / e.dt, e.lags)
    between &= e.kept
    if between.any():
        words = {"links": e.links_listed(e.edges(between)), "finer": finer}
        yield Hit(float(between.sum() / e.kept.sum()), words)


# ---- residuals ----


@estimated_rule(
    "drift not finite",
    "The fitted drift is not finite along the data.",
    "Fit it again with another key (--seed).",
    limits=Limits(problem=0.0, why="variables without a finite rate"),
)
def _finite(e: GraphEvidence) -> Iterator[Hit]:
    yield Hit(float((~np.isfinite(e.memory)).sum()))


@estimated_rule(
    "no noise, lags",
    "No noise moves {who}: the next value follows from any few samples before it. Lags are then "
    "proxies for one another, and delays may lie next to the true ones: {links}.",
    "Use values from before any smoothing or filter. Record or simulate it with noise that moves "
    "the system, a hundredth of a standard deviation per sample; or pass only the lags that are "
    "possible.",
    limits=Limits(
        reservation=0.0,
        why="a share of the links with a delay; without noise, links of steep laws are kept with "
        "neighbouring lags",
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
    "The residuals of the rate of {who} are negatively autocorrelated, as measurement errors make "
    "them. A lag may be off by some samples{late}. Only what moves a source can distinguish a link "
    "from an unobserved driver.",
    "Average neighbouring samples, or sample less often; if the values are differences of a "
    "measured variable, analyse that variable.",
    limits=Limits(
        note=-1.0,
        reservation=0.0,
        why="a share of the links between variables that have a delay, which errors shift",
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
    "The next value of {who} is hardly predictable ({share} of its variance at most). What is "
    "explained of the rate is the return to the mean, which independent values show as well.",
    "Nothing, unless something acts within one interval: then sample more often.",
    limits=Limits(
        note=1 - FORESIGHT,
        why="the unexplained share of the variance of the next value, if a third of the rate is "
        "explained: for independent values half of it is",
    ),
)
def _no_foresight(e: GraphEvidence) -> Iterator[Hit]:
    if e.flow:
        return
    risk, scaling = np.asarray(e.strengths.risk, float), e.windows.scaling
    step = np.asarray(scaling.rate_scale, float) * e.dt * e.windows.step
    left = risk * (step / np.asarray(scaling.scale, float)) ** 2
    which = e.modelled & (left > 1 - FORESIGHT) & (risk < 1 - EXPLAINED_SHARE)
    if which.any():
        least = float(left[which].min())
        yield Hit(least, {"who": e.named(which), "share": percent(max(1 - least, 0.0))})


@estimated_rule(
    "residual memory",
    "The residuals of the rate of {who} are autocorrelated ({share} of the variance): a driver is "
    "hidden or a delay is not among the candidates.",
    "Add the driver or larger lags; edges may be proxies.",
    limits=Limits(
        reservation=MEMORY,
        problem=HEAVY_MEMORY,
        why="a share of a rate's variance: above the first limit a driver or a delay seems to be "
        "missing, above the second this decides",
    ),
)
def _memory(e: GraphEvidence) -> Iterator[Hit]:
    if not e.memory.size or not np.isfinite(e.memory).all():
        return
    memory = np.where(e.modelled, e.memory, 0)
    worst, heavy = float(memory.max()), memory > MEMORY
    share = percent(worst) if heavy.sum() == 1 else f"up to {percent(worst)}"
    # With passing events the order of arrival decides, which does not rest on the drift.
    weight = RESERVATION if worst > HEAVY_MEMORY and e.events else None
    yield Hit(worst, {"who": e.named(heavy), "share": share}, weight=weight)


@estimated_rule(
    "persistent rates",
    "{rates} from one sample to the next more than the graph explains. Samples may be means over "
    "the interval or smoothed, an unobserved variable may drive the system, or the fitted drift "
    "may lack a part of the real one.",
    "Use instantaneous values; if samples are means, delays are uncertain by half an interval.",
    limits=Limits(
        reservation=0.0,
        why="a share of the variables; tested for all of them together at an error rate of .001",
    ),
)
def _persistent(e: GraphEvidence) -> Iterator[Hit]:
    which = e.relations.persistent & e.modelled
    if which.any():
        who = e.named(which)
        rates = f"The rate of {who} persists" if which.sum() == 1 else f"The rates of {who} persist"
        yield Hit(float(which.sum() / e.modelled.sum()), {"rates": rates})


@estimated_rule(
    "later delay",
    "A state further back than every candidate lag explains part of the residual of a rate: "
    "{links}. A delay seems to be missing, and kept links may be proxies for it.",
    "Discover again with lags up to {largest} samples: lags=range({most}).",
    limits=Limits(
        reservation=0.0,
        why="the largest share of the residual variance of a rate that such a state explains",
    ),
)
def _later(e: GraphEvidence) -> Iterator[Hit]:
    later, step = e.relations.later, e.step
    which = np.flatnonzero((later.lag >= 0) & e.modelled)
    if not len(which):
        return
    phrases = []
    for j in which[np.argsort(-later.share[which], kind="stable")]:
        before = amount(float(later.lag[j] + step), "sample")
        source, share = e.names[later.source[j]], percent(float(later.share[j]))
        phrases.append(f"{e.names[j]} by {source} {before} before ({share})")
    largest = with_a_quarter_more(int(later.lag[which].max()))
    words = {"links": listed(phrases, SHOWN_LINKS, "; "), "largest": largest, "most": largest + 1}
    yield Hit(float(later.share[which].max()), words)


@estimated_rule(
    "hidden driver",
    "{pairs}: an unobserved variable seems to drive both variables. The target does not follow "
    "everything that moves the source, as it would if the source drove it.",
    "Add the common driver if it was measured; read these links as common causes.",
    limits=Limits(reservation=0.0, problem=TOO_MANY, why="a share of the links between variables"),
)
def _hidden(e: GraphEvidence) -> Iterator[Hit]:
    held = e.pairs & e.relations.confounded
    pairs = e.pairs_listed(np.triu(held | held.T, 1), "<->")
    yield Hit(float(held.sum() / max(e.pairs.sum(), 1)), {"pairs": pairs})


@estimated_rule(
    "hidden driver possible",
    "An unobserved driver of both variables would look the same as {links}: {pairs}. Nothing "
    "measured moves the source alone, and strongly enough to show whether its target follows.",
    "Add possible common drivers. If you set a source yourself, declare it as an input.",
    limits=Limits(
        note=0.0,
        reservation=UNDECIDED,
        why="a share of the links between variables: a few true links in a hundred stay undecided",
    ),
)
def _not_excluded(e: GraphEvidence) -> Iterator[Hit]:
    held = e.pairs & e.relations.not_excluded & ~e.relations.confounded & e.modelled[:, None]
    count, kept = int(held.sum()), int(e.pairs.sum())
    links = f"the links of {count} of {kept} pairs" if kept > 1 else "the one link"
    yield Hit(count / max(kept, 1), {"links": links, "pairs": e.pairs_listed(held, "→")})


@estimated_rule(
    "replaceable edges",
    "{count} of {kept} inputs could be replaced by {rivals}, with a loss that is within chance or "
    "below half of what an edge must explain: {edges}.",
    "{remedy}",
    limits=Limits(
        note=0.0,
        reservation=DOUBT,
        problem=REPLACEABLE_LIMIT,
        why="a share of the edges; for a problem at least two links between variables: one in "
        "seventy is replaceable by chance",
    ),
    theorem="faithfulness",
)
def _replaceable(e: GraphEvidence) -> Iterator[Hit]:
    if e.replaceable.any():
        rivals, count = e.relations.rivals, int(e.replaceable.sum())
        said = [
            f"{e.link(k)}, or from {e.candidate(*map(int, rivals.rival[k]))}"
            for k in e.edges(e.replaceable)
        ]
        share = count / int((e.kept & ~e.touching).sum())
        edges = listed(said, SHOWN_LINKS, "; ")
        words = {"count": count, "kept": int(e.kept.sum()), "edges": edges}
        own = [_by_own_past(e, edge) for edge in e.edges(e.replaceable)]
        words["rivals"] = "another variable" + " or by the target's own past" * any(own)
        words["remedy"] = (
            "Record for longer: in a short record a past reflects what its drivers did."
            if all(own)
            else "Omit one of two variables with the same information, or rule a link out with "
            "prior_knowledge (--forbid)."
        )
        # If a driver, or another variable at another lag, could replace a target's own past, no
        # kept link is at stake; if the target's own past could replace a link, no link from
        # another variable is.
        other = [not _own_past_is_predicted(e, edge) for edge in e.edges(e.replaceable)]
        other = [told and not past for told, past in zip(other, own, strict=True)]
        many = sum(other) > 1 and share * sum(other) / count > REPLACEABLE_LIMIT
        yield Hit(share, words, weight=PROBLEM if many else e.doubt)


def _by_own_past(e: GraphEvidence, edge: Edge) -> bool:
    """Return whether the rival of a link is its target at a larger lag; a copy of the source
    replaces it at the same lag.
    """
    rival, lag = map(int, e.relations.rivals.rival[edge])
    return rival == edge[1] and lag > edge[2]


def _own_past_is_predicted(e: GraphEvidence, edge: Edge) -> bool:
    """Return whether an input is a variable's own past and its rival one of its drivers, or at
    another lag, as what a stimulus moved is; a copy of the variable is its rival at the same lag.
    """
    source, target, place = edge
    rival, lag = map(int, e.relations.rivals.rival[edge])
    return source == target and (lag != place or bool(e.kept[rival, target].any()))


@estimated_rule(
    "derived variable",
    "{who} {derived} of the present states of other variables, to within a hundredth of the "
    "variance: {told}.",
    "Omit what is computed from others.",
    limits=Limits(
        reservation=0.0,
        problem=1.0,
        why="number of variables: the links of one are those of the variables it is computed from; "
        "with several, each may be the computed one",
    ),
    theorem=SUPPORT,
)
def _derived(e: GraphEvidence) -> Iterator[Hit]:
    derived = e.relations.derived
    one = derived.sum() == 1
    words = {
        "who": e.named(derived),
        "derived": "is a function" if one else "are functions",
        "told": "its links are those of the variables it is computed from"
        if one
        else "which of them is computed and which drives cannot be determined",
    }
    yield Hit(float(derived.sum()), words)


@estimated_rule(
    "links at once",
    "{pairs} {are} within one sampling interval (residual correlation up to {strongest:.2f}): "
    "{meaning}.",
    "{remedy}",
    limits=Limits(
        note=-1.0, reservation=0.0, problem=TOO_MANY, why="a share of the links between variables"
    ),
)
def _at_once(e: GraphEvidence) -> Iterator[Hit]:
    related = e.relations.at_once & e.modelled[None] & e.modelled[:, None]
    if related.any():
        # The variables of a related pair are proxies for one another as sources, and as targets
        # pass on links, including those dropped for that reason.
        touched = e.foretelling & (related.any(axis=1)[:, None] | related.any(axis=1)[None])
        # What drives one of the pair, itself included, seems to drive the other.
        passed_on = (e.pairs | np.eye(len(e.names), dtype=bool)) @ related
        share = float((e.pairs & passed_on).sum() / max(e.pairs.sum(), 1))
        # In a map, passed-on links are dropped if they were searched for. A flow explains what its
        # own links do within a step; other relations of two rates, such as shared noise, make no
        # link.
        grave = share > TOO_MANY and e.passed_on is None and not e.flow
        # Links unrelated to the pair are as sure as before; the absence of links is not.
        apart = e.pairs.any() and not touched.any()
        weight = NOTE if apart else PROBLEM if grave else RESERVATION
        dim = int(e.modelled.sum())
        mixed = bool(dim > 3 and related.sum() > MIXED * dim * (dim - 1))
        words = {
            "are": "are related",
            "meaning": "which comes first cannot be determined",
            "remedy": "Sample more often; read these links as relations without a direction. If "
            "one is a total over the interval before its time stamp, shift it one row back."
            + " First unmix sensors that pick up one another, such as electrodes."
            * mixed,
        }
        yield _hit_at_once(e, np.triu(related, 1), "--", share, words, weight)
    driven = e.relations.at_once & e.modelled[None] & ~e.modelled[:, None]
    # The effect within the interval has the same sign as the effect afterwards.
    driven &= ~(e.relations.correlation * _directions(e) < 0)
    if driven.any():
        shared = e.relations.correlation**2 * np.asarray(e.strengths.risk, float)[None]
        known = np.where(e.graph, e.scores, 0).max(axis=2)
        missing = driven & ~(known > shared)
        words = {
            "are": "acts" if driven.sum() == 1 else "act",
            "meaning": "the states before the step do not show this effect",
            "remedy": _as_totals(e, driven) or "Sample more often.",
        }
        weight = RESERVATION if missing.any() else NOTE
        yield _hit_at_once(e, driven, "→", float(missing.sum() / driven.sum()), words, weight)


def _as_totals(e: GraphEvidence, driven: Pairs) -> str:
    """Return the advice to read inputs where their interval begins; empty if all of them have links
    without a delay, as they do if they are read so.
    """
    now = e.kept[:, :, np.asarray(e.lags) == 0].any(axis=2) & ~np.eye(len(e.names), dtype=bool)
    places = np.flatnonzero(driven.any(axis=1) & ~now.any(axis=1))
    inputs = [e.names[int(i)] for i in places]
    if not inputs:
        return ""
    are, them = ("is a sum or mean", "it") if len(inputs) == 1 else ("are sums or means", "them")
    moved = "; ".join(f"x[{name!r}] = x[{name!r}].shift(-1)" for name in inputs)
    return (
        f"If {listed(inputs)} {are} over the interval before the time stamp, such as a day's rain, "
        f"shift {them} one row back with {moved} (--totals {','.join(inputs)}), to where the "
        "interval begins."
    )


def _directions(e: GraphEvidence) -> Int[np.ndarray, "source target"]:
    """Return the direction in which a target moves, 1 or −1, after high values of its source at the
    strongest kept lag; 0 without a link, and if no window has all variables.
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
    """Return the hit for some pairs."""
    strongest = float(np.nanmax(np.abs(e.relations.correlation[pairs])))
    words = words | {"pairs": e.pairs_listed(pairs, arrow), "strongest": strongest}
    return Hit(share, words, value=strongest, weight=weight)


@estimated_rule(
    "drifting link",
    "Effects change over the record: {pairs}. Links that change sign are missing from the graph, "
    "and slopes are means over the record.",
    "Analyse the first and the second half separately{second_half}, or add what changes the "
    "effects, such as a season, as a variable.",
    limits=Limits(
        reservation=0.0,
        problem=1.0,
        why="a share of the candidates, tested at an error rate of .001 for all together, that "
        "explain a thousandth of their target's rate, since less may be an error of the drift; a "
        "problem if the effect changes between unlinked variables, whose link is then missing",
    ),
)
def _drifting(e: GraphEvidence) -> Iterator[Hit]:
    drifts = e.relations.drifting & e.modelled[None, :, None]
    pairs = e.pairs_listed(drifts.any(axis=2), "→")
    apart = ~np.eye(len(e.names), dtype=bool)
    missing = (drifts.any(axis=2) & apart & ~e.pairs).any()
    words = {"pairs": pairs, "second_half": e.second_half}
    yield Hit(float(drifts.sum() / drifts.size), words, weight=PROBLEM if missing else None)
