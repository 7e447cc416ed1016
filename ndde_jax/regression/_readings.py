"""A comparison of two readings of a record, map or flow, in nats and with equal freedom.

A map moves by the drift at its samples, a flow by the drift averaged over the step. Where a drift
is a sum of features, that average is a weighted sum of the features of neighbouring samples,
whatever the delay. So a flow's candidates are linear combinations of a map's columns, both readings
are the same kind of regression at the same prices, and their likelihoods can be compared.

A flow's delay is spread over two or three samples by that average, at the price of one column. A
map whose sources act over several lags, as in a vector autoregression of some order, would pay for
each of them and look like a flow. So both readings may also have the mean over three neighbouring
lags or delays, at half the price of as many columns.

Where links of a map work within the sample, what drives their source drives their target as well,
and the end of a flow's step says all of that in one column. So a map whose rates are related beside
what it explains may have the ends of the steps that it foretells, too.

Where neighbours tell every sample, hardly any noise is left, and what both readings leave is error
of interpolation and of features, on which a flow has no hold. There a flow may leave up to ten
times what a map leaves: a map, free to leap, would have no reason to move so smoothly. But for an
autoregression that swings, such as one of second order: what it leaves is noise.

Where the variance of the noise changes, loud stretches would decide alone, by more nats than they
are worth: there the comparison is made again with every window weighed by the inverse variance of
its neighbourhood, and its evidence shrunk to what its own scatter bears out.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, divisor
from ._design import WIDTH, Between, check_room, knots_of, spline_terms
from ._distributed import distributed_lags
from ._search import FLOOR, LINE, OUT, PROGRESS, Problem, Selection, best_of, search_from
from ._summed import sums_of, with_changed

# Nats within which two readings are equally likely: 20 to 1.
CLEARLY = 3.0
# By how much more a flow may leave of a smooth path than a map, and by how many nats it then is the
# reading.
ALLOWED, SURE = 10.0, 10.0
# What a map leaves of steps, over the squared error of guesses from both sides, median over
# variables, from which on it is noise that the variables' own past carries. White noise in a law of
# second order gives two and more, and less in what another such variable drives. Set by looking at
# swinging autoregressions and at flows of dysts with errors of measurement.
CARRIED = 1.5
# Numbers in a matrix of columns; of longer records the first windows decide.
MOST_NUMBERS = 5 * 10**7
# Fits of a graph whose own drift predicts the end of the step; searches with the end that the best
# graph so far predicts.
SETTLES, ROUNDS = 3, 2
# What `GRAMS` and `FEATURES` of a design are where two readings are compared, and where a map is
# searched beforehand.
COMPARED, SEARCHED = (26, 8), (8, 4)
# Candidates, variables × lags, from which on a flow has no delays at half samples.
MANY = 150
# Candidates among which coarse lags are told apart: a size that the compiler knows.
FINER = 96
# Neighbouring lags in a mean: the least that no delay of a flow averages by itself. What a mean
# costs beside its column: half a column, for where it lies. Both were chosen by looking at records
# of known kind, among them sparse autoregressions like those of the world's benchmarks; prices from
# 0.3 to 0.7 columns tell maps from flows about as well.
SPREAD, PLACE = 3, 0.5
# Windows without estimates that a target must have for any evidence.
FEWEST = 20
# Windows to either side within which the weight of others in a local variance halves, and the least
# local variance relative to the mean.
MEMORIES, LEAST = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0), 1e-3


class Readings(NamedTuple):
    """A comparison of a record read as a map and as a flow.

    - `nats`: log likelihood of the flow over that of the map, prices included, `[target]`.
    - `map_graph`, `flow_graph`: the inputs that each has, `[source target lag]`; a flow's delay
        between two lags is at the lower of them.
    - `map_cost`: the criterion of the map per window, `[target]`; NaN where only a part of a long
        record was compared.
    - `distributed`: the inputs of a map whose sources act over several lags each, where that is
        clearly likelier than the map, and the flow is not; None elsewhere.
    - `trust`: by how much nats of windows that count alike must shrink where the variance of the
        noise changes; 1 elsewhere.
    - `smooth`: whether neighbours tell every sample, and errors of interpolation are allowed for.
    """

    nats: Float[np.ndarray, " target"]
    map_graph: KnownGraph
    flow_graph: KnownGraph
    map_cost: Float[np.ndarray, " target"]
    distributed: KnownGraph | None = None
    trust: float = 1.0
    smooth: bool = False

    @property
    def evidence(self) -> float:
        """The log likelihood of the flow over that of the map, of all targets."""
        return float(self.nats.sum())

    @property
    def name(self) -> str:
        """The likelier reading, `"map"` or `"flow"`; `"undecided"` within 3 nats."""
        if not abs(self.evidence) >= CLEARLY:
            return "undecided"
        return "flow" if self.evidence > 0 else "map"


def mean_weights(delay: float, bend: bool | Bool[np.ndarray, " variable"] = False) -> np.ndarray:
    """Return the weights of the features of samples l − 1, l, l + 1 steps ago in their mean over a
    step, where l is the whole part of a delay; features are linear between samples, or parabolas
    where they `bend`, `[3]` or `[3 variable]`.
    """
    late, early = 1 - delay % 1, delay % 1
    lines = late**2 / 2, 1 - (late**2 + early**2) / 2, early**2 / 2
    # A parabola leaves a line by the same area in either half, wherever the step begins.
    area = 1 / 12, -1 / 6, 1 / 12
    return np.stack([line - bend * a for line, a in zip(lines, area, strict=True)])


def allowing(nats: Float[np.ndarray, " target"], windows: float) -> Float[np.ndarray, " target"]:
    """Return the log likelihood of the flow over that of the map on a smooth path, where errors of
    interpolation are allowed for: the flow may leave up to ten times what the map leaves, and is
    then the likelier by ten nats.
    """
    room = windows * len(nats) * np.log(ALLOWED) / 2
    return nats + np.clip(SURE - nats.sum(), 0, room) / len(nats)


class _Steps(NamedTuple):
    """The steps between samples whose neighbours at all lags are known.

    - `rates`: by how much each variable moves in a step, `[window target]`.
    - `now`: samples at the start of a step, `[window variable]`.
    - `around`: features of the samples some lags before, `[window variable feature]`.
    - `measured`: whether the samples some lags before are measured, and no estimates,
        `[window variable]`; of lag −1 those at the end of the step. Empty where all are.
    - `between`: how far paths leave lines and cubics between samples.
    """

    rates: np.ndarray
    now: np.ndarray
    around: dict[int, np.ndarray]
    measured: dict[int, np.ndarray]
    knots: np.ndarray
    between: Between


class _Fit(NamedTuple):
    """A choice of inputs with the rates that its fit predicts, `[window target]`."""

    found: Selection
    says: np.ndarray

    def total(self) -> float:
        """Return the criterion, summed over all targets."""
        return float(self.found.cost.sum())


class _Regression:
    """A regression of rates on groups of columns: searched by sums, then refitted.

    - `n_means`: how many inputs, the last ones, are means over several lags or delays. Each pays
        for a column and a half, its size and where it lies, instead of a column for each lag.
    - `room`: inputs of another regression that is searched by the same program.
    """

    def __init__(
        self,
        columns,
        rates,
        weight,
        choices: int,
        allowed,
        required,
        n_means: int = 0,
        room: int = 0,
    ):
        self.columns = columns.reshape(len(rates), -1)
        self.rates, self.weight, self.choices, self.room = rates, weight, choices, room
        self.allowed, self.required = allowed, required
        self.means = np.arange(columns.shape[1]) >= columns.shape[1] - n_means
        self.n, self.root = float(len(rates)), np.sqrt(weight)[:, None]
        self.center = weight @ rates / weight.sum()
        self.sums = sums_of(self.columns, rates, weight)

    @functools.cached_property
    def problem(self) -> Problem:
        """The problem of these columns."""
        return self._problem()

    def _problem(self) -> Problem:
        return Problem.of(self.sums, WIDTH, n=self.n)._replace(
            choices=np.asarray(self.choices, float),
            allowed=self.allowed,
            required=self.required,
            price=PLACE * np.log(self.n) * self.means,
        )

    def search(self, *starts, means: bool = True) -> list[Selection]:
        """Return the selection that is found from each start; None starts without inputs.

        - `means`: whether means are candidates.
        """
        problem = self.problem
        if not means:
            problem = problem._replace(allowed=self.allowed & ~self.means[None])
        return search_from(problem, starts, least=self.room)

    def refit(self, found: Selection, at) -> _Fit:
        """Return the same choice refitted on the present columns, with its predictions from columns
        `at`.
        """
        says, risk = np.zeros_like(self.rates), found.risk.copy()
        for j, level in enumerate(found.level):
            used = _used(level)
            x, y = self.columns[:, used], self.root[:, 0] * (self.rates[:, j] - self.center[j])
            mean = self.weight @ x / self.weight.sum()
            x = self.root * (x - mean)
            size = divisor(np.sqrt((x**2).sum(axis=0)))
            x = x / size
            beta = np.linalg.lstsq(x.T @ x, x.T @ y, rcond=1e-9)[0]
            risk[j] = np.sum((y - x @ beta) ** 2) / max(y @ y, 1e-300)
            says[:, j] = self.center[j] + (at[:, used] - mean) @ (beta / size)
        cost = found.cost + self.n * (np.log(risk + FLOOR) - np.log(found.risk + FLOOR))
        return _Fit(found._replace(risk=risk, cost=cost), says)

    def cost_within(
        self, found: Selection, counting: Bool[np.ndarray, "window target"]
    ) -> Float[np.ndarray, " target"]:
        """Return the criterion of each target in the windows that count for it, with those of the
        inputs found that pay there; 0 where hardly any window counts.
        """
        cost, columns = np.zeros(len(found.level)), self.columns.reshape(len(self.rates), -1, WIDTH)
        for j, level in enumerate(found.level):
            used, rows = np.flatnonzero(level > OUT), np.flatnonzero(counting[:, j])
            if len(used) and len(rows) >= FEWEST:
                some = _Regression(
                    columns[np.ix_(rows, used)],
                    self.rates[rows][:, [j]],
                    self.weight[rows],
                    self.choices,
                    np.ones((1, len(used)), bool),
                    self.required[[j]][:, used],
                    int(self.means[used].sum()),
                )
                cost[j] = some.search(level[None, used])[0].cost[0]
        return cost

    def left(self, found: Selection) -> Float[np.ndarray, "window target"]:
        """Return what a choice leaves of the rates, times the root of the weight of a window."""
        return self.root * (self.rates - self.refit(found, self.columns).says)


def _used(level: Int[np.ndarray, " input"]) -> Int[np.ndarray, " column"]:
    """Return the columns of inputs at some levels."""
    line = np.flatnonzero(level > OUT) * WIDTH
    bend = (np.flatnonzero(level > LINE)[:, None] * WIDTH + np.arange(1, WIDTH)).ravel()
    return np.concatenate([line, bend])


class _Flow(_Regression):
    """A regression on the columns of a flow. Columns with delays below one sample need the end of
    the step, which is predicted by the drift that is being fitted, evaluated at the start of the
    step. A prediction by another fit would use the result of that fit without paying for it.
    """

    def __init__(self, steps: _Steps, candidates: "_Candidates", *given):
        self.around, self.delays = steps.around, candidates.delays
        self.now, self.knots, self.bend = steps.now, steps.knots, steps.between.bent
        self.short = [place for place, delay in enumerate(self.delays) if delay < 1]
        self.parts = candidates.parts(self.delays)
        columns = [self._mean(delay, steps.around[0]) for delay in self.delays]
        super().__init__(_with_means(columns, self.parts), steps.rates, *given)
        self.at_start = self.columns.copy()
        moving = np.zeros((len(columns) + len(self.parts), *columns[0].shape[1:]), bool)
        moving[self.short] = True
        for number, part in enumerate(self.parts):
            moving[len(columns) + number, :, 0] = not set(part).isdisjoint(self.short)
        self.moving = moving.reshape(-1)

    @property
    def problem(self) -> Problem:
        """The problem of these columns, of which some follow the end of the step."""
        self.sums = with_changed(self.sums, self.columns, self.rates, self.weight, self.moving)
        return self._problem()

    def _mean(self, delay: float, end):
        lag = int(delay)
        later = end if lag == 0 else self.around[lag - 1]
        late, at, early = mean_weights(delay, self.bend)[..., None]
        mean = late * later + at * self.around[lag]
        return mean + early * self.around[lag + 1] if early.any() else mean

    def end_at(self, ahead: Float[np.ndarray, "window target"]) -> None:
        """Set the end of each step `ahead` of its start."""
        end, wide = spline_terms(self.now + ahead, self.knots), self.now.shape[1] * WIDTH
        for place in self.short:
            new = self._mean(self.delays[place], end)
            self.columns[:, place * wide : (place + 1) * wide] = new.reshape(len(new), -1)
        lines = self.columns.reshape(len(end), -1, *end.shape[1:])[..., 0]
        for number, part in enumerate(self.parts):
            if not set(part).isdisjoint(self.short):
                lines[:, len(self.delays) + number] = lines[:, part].mean(axis=1)

    def settle(self, found: Selection, ahead) -> _Fit:
        """Return the fit of a graph whose own drift predicts the end."""
        fit = _Fit(found, ahead)
        for _ in range(SETTLES):
            self.end_at(fit.says)
            fit = self.refit(fit.found, self.at_start)
        return fit


def _steps(
    recordings: list[np.ndarray],
    needed: list[int],
    most: int,
    inside: tuple | None,
    estimated: tuple | None = None,
) -> _Steps:
    """Return the first `most` steps; with a mask `inside`, only those that start within it."""
    known = [np.isfinite(x).all(axis=1) for x in recordings]
    knots = knots_of(np.concatenate([x[k] for x, k in zip(recordings, known, strict=True)]))
    between = Between.of(recordings)
    rates, now = [], []
    around: dict[int, list[np.ndarray]] = {lag: [] for lag in needed}
    measured: dict[int, list[np.ndarray]] = {lag: [] for lag in (-1, *needed)}
    for number, x in enumerate(recordings):
        at = np.arange(needed[-1], len(x) - 1)
        seen = known[number][at + 1]
        if inside is not None:
            seen = seen & inside[number][at]
        for lag in needed:
            seen = seen & known[number][at - lag]
        at = at[seen][:most]
        most -= len(at)
        if not len(at):
            continue
        first = at[0] - needed[-1]
        terms = spline_terms(np.nan_to_num(x[first : at[-1] + 1]), knots)
        rates.append(x[at + 1] - x[at])
        now.append(x[at])
        for lag in needed:
            around[lag].append(terms[at - lag - first])
        if estimated is not None:
            for lag, parts in measured.items():
                parts.append(~estimated[number][at - lag])
    if not rates:
        dim = recordings[0].shape[1]
        return _Steps(np.zeros((0, dim)), np.zeros((0, dim)), {}, {}, knots, between)
    joined, told = (
        {lag: np.concatenate(parts) for lag, parts in some.items() if parts}
        for some in (around, measured)
    )
    return _Steps(np.concatenate(rates), np.concatenate(now), joined, told, knots, between)


def _with_means(
    columns: list[Float[np.ndarray, "window source term"]], parts: list[list[int]]
) -> Float[np.ndarray, "window input term"]:
    """Return the columns, followed by straight lines of the means over some of them."""
    more = []
    for part in parts:
        mean = np.zeros_like(columns[0])
        mean[..., 0] = np.mean([columns[place][..., 0] for place in part], axis=0)
        more.append(mean)
    return np.concatenate([*columns, *more], axis=1)


class _Candidates(NamedTuple):
    """The inputs of both readings: a map's at whole `lags`, a flow's at `delays`, some between
    them; and behind these, of both, the means over `SPREAD` lags in a row.
    """

    dim: int
    lags: tuple[int, ...]
    delays: tuple[float, ...]

    def spread(self) -> list[tuple[int, ...]]:
        """Return the lags of each mean."""
        rows = [tuple(range(lag, lag + SPREAD)) for lag in self.lags]
        return [row for row in rows if set(row) <= set(self.lags)]

    def parts(self, places: tuple[int | float, ...]) -> list[list[int]]:
        """Return which of some lags or delays each mean is over."""
        return [[places.index(lag) for lag in row] for row in self.spread()]

    def inputs_of(
        self, graph: np.ndarray, delays: tuple[int | float, ...], *, whole: bool = False
    ) -> np.ndarray:
        """Return the inputs that a graph `[source target lag]` has of a map, or of a flow at some
        delays, `[target input]`: at all delays from each lag up to the next, with the means over
        its lags, or at `whole` ones only.
        """
        rows = [graph[:, :, self.lags.index(int(d))].T & (not whole or d % 1 == 0) for d in delays]
        more = [graph[:, :, part].all(axis=2).T & (not whole) for part in self.parts(self.lags)]
        return np.stack([*rows, *more], axis=1).reshape(self.dim, -1)

    def given(
        self, allowed: np.ndarray, required: np.ndarray, delays: tuple[int | float, ...]
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the inputs at some lags or delays that graphs allow and require, and how many are
        means.
        """
        inputs = self.inputs_of(allowed, delays), self.inputs_of(required, delays, whole=True)
        return *inputs, self.n_means()

    def n_means(self) -> int:
        """Return the number of inputs that are means."""
        return len(self.spread()) * self.dim

    def needed(self) -> list[int]:
        """Return the samples before the present that both readings use."""
        whole = [int(delay) for delay in self.delays]
        later = [max(lag - 1, 0) for lag in whole]
        return sorted({0, *whole, *later, *(lag + 1 for lag in whole)})

    def to_flow(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a map's inputs as a flow's, each in the middle of the interval that its lag stands
        for.
        """
        middles = [lag + 0.5 if lag > 0 and lag + 0.5 in self.delays else lag for lag in self.lags]
        return self._moved(level, [self.delays.index(delay) for delay in middles], self.delays)

    def to_map(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a flow's inputs as a map's, each at the lag not above its delay."""
        return self._moved(level, [self.lags.index(int(delay)) for delay in self.delays], self.lags)

    def _moved(self, level, to: list[int], delays: tuple[int | float, ...]) -> np.ndarray:
        """Return inputs, each at another place among some delays, and their means."""
        level = level.reshape(self.dim, -1, self.dim)
        out = np.zeros((self.dim, len(delays), self.dim), np.int32)
        for i, place in enumerate(to):
            out[:, place] = np.maximum(out[:, place], level[:, i])
        return np.concatenate([out, level[:, len(to) :]], axis=1).reshape(self.dim, -1)

    def each(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a map's inputs with the lags of its means in their place."""
        level = level.reshape(self.dim, -1, self.dim)
        out = np.zeros_like(level)
        out[:, : len(self.lags)] = level[:, : len(self.lags)]
        for number, part in enumerate(self.parts(self.lags)):
            mean = level[:, len(self.lags) + number, None]
            out[:, part] = np.maximum(out[:, part], mean)
        return out.reshape(self.dim, -1)

    def graph_of(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a map's inputs as a graph, `[source target lag]`."""
        every = self.each(level).reshape(self.dim, -1, self.dim)[:, : len(self.lags)]
        return (every > OUT).transpose(2, 0, 1)


def compare_readings(
    recordings: list[np.ndarray],
    lags: tuple[int, ...],
    allowed: KnownGraph,
    required: KnownGraph,
    inside: tuple[np.ndarray, ...] | None = None,
    estimated: tuple[np.ndarray, ...] | None = None,
) -> Readings | None:
    """Return the evidence for a flow over a map in equally spaced samples, NaN where missing; None
    where too few windows know the neighbours of every lag.

    Both readings are searched from nothing and from each other's graph, since each gets stuck in an
    optimum of its own. Where the lags leave samples out, a delay between two of them fits neither
    reading, and whichever is half a sample nearer would win: so both have all lags about those that
    matter to a map, for as many targets as there is room for.

    Where the variance of what both leave clearly changes, windows are weighed by its inverse, and
    the evidence is calibrated by its scatter; graphs are those of windows that count alike, but for
    distributed lags.

    Values that were estimated lie between their neighbours, as those of a flow do. So the evidence
    of a target is that of the windows in which its rate, its inputs and the samples about these are
    measured.

    - `recordings`: standardised, each `[time dim]`.
    - `inside`: samples that may be the present of a window, one array for each recording.
    - `estimated`: values that are no measurements, one array for each recording.

    **Raises:** `ValueError` for more candidates than fit into memory.
    """
    complete = all(step == 1 for step in np.diff(lags))
    n_inputs, n_windows = recordings[0].shape[1] * len(lags), sum(map(len, recordings))
    most = max(MOST_NUMBERS // (n_inputs * WIDTH), 1000)
    check_room(n_inputs, min(n_windows, most), *(COMPARED if complete else SEARCHED))
    if complete:
        return _compare(recordings, lags, allowed, required, inside, estimated)
    dim = recordings[0].shape[1]
    steps = _steps(
        recordings, sorted({0, *lags}), MOST_NUMBERS // (len(lags) * dim * WIDTH), inside
    )
    if len(steps.rates) <= dim + 2:
        return None
    columns = np.concatenate([steps.around[lag] for lag in lags], axis=1)
    flat = (edges.transpose(1, 2, 0).reshape(dim, -1) for edges in (allowed, required))
    even = np.ones(len(columns))
    (coarse,) = _Regression(columns, steps.rates, even, dim * len(lags), *flat).search(None)
    graph = (coarse.level > OUT).reshape(dim, len(lags), dim).transpose(2, 0, 1)
    chosen = _Finer.of(graph, lags, coarse.risk)
    found = _compare(
        [x[:, chosen.variables] for x in recordings],
        chosen.lags,
        chosen.edges(allowed, lags),
        chosen.edges(required & False, lags),
        inside,
        estimated and tuple(guessed[:, chosen.variables] for guessed in estimated),
    )
    if found is None:
        return None
    nats = np.zeros(dim)
    nats[chosen.variables] = found.nats
    unknown = np.full(dim, np.nan)
    return found._replace(
        nats=nats, map_graph=graph, flow_graph=graph, map_cost=unknown, distributed=None
    )


class _Finer(NamedTuple):
    """A part of the candidates, with all lags about those that matter.

    - `variables`: targets and their sources; `targets`: which of these are targets.
    """

    variables: np.ndarray
    targets: np.ndarray
    lags: tuple[int, ...]

    @classmethod
    def of(cls, graph: np.ndarray, lags: tuple[int, ...], risk: np.ndarray) -> "_Finer":
        """Return as many targets of a graph as there is room for, the best explained first; where
        there is no room for one, those lags that are nearest to the ones that matter to it.
        """
        best = cls(np.zeros(0, int), np.zeros(0, bool), lags)
        for target in np.argsort(risk, kind="stable"):
            targets = [*best.variables[best.targets].tolist(), int(target)]
            some = graph[:, targets]
            variables = np.union1d(np.flatnonzero(some.any((1, 2))), targets)
            used, reach = np.flatnonzero(some.any((0, 1))), lags[-1]
            fine = _all_about(lags, used, reach)
            while len(targets) == 1 and reach > 0 and len(variables) * len(fine) > FINER:
                reach //= 2
                fine = _all_about(lags, used, reach)
            if len(targets) > 1 and len(variables) * len(fine) > FINER:
                break
            best = cls(variables, np.isin(variables, targets), fine)
        return best

    def edges(self, edges: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
        """Return edges `[source target lag]` of this part, each lag taken from the nearest
        candidate.
        """
        nearest = np.abs(np.asarray(self.lags)[:, None] - np.asarray(lags)[None]).argmin(axis=1)
        some = edges[np.ix_(self.variables, self.variables)][:, :, nearest]
        return some & self.targets[None, :, None]


def _all_about(
    lags: tuple[int, ...], used: Int[np.ndarray, " place"], reach: int
) -> tuple[int, ...]:
    """Return all lags from each of those in use halfway to its neighbours, at most `reach`, and one
    beyond.
    """
    after = np.minimum(np.diff(lags, append=2 * lags[-1] - lags[-2]) // 2, reach)
    before = np.minimum(np.diff(lags, prepend=0) // 2, reach)
    about = (range(max(lags[k] - int(before[k]) - 1, 0), lags[k] + int(after[k]) + 2) for k in used)
    return tuple(sorted({0}.union(*about)))


def _compare(
    recordings: list[np.ndarray],
    lags: tuple[int, ...],
    allowed: KnownGraph,
    required: KnownGraph,
    inside: tuple[np.ndarray, ...] | None,
    estimated: tuple[np.ndarray, ...] | None,
) -> Readings | None:
    dim = recordings[0].shape[1]
    halves = dim * len(lags) < MANY
    delays: list[float] = []
    for lag in lags:
        delays += [float(lag), lag + 0.5] if halves and lag + 1 in lags else [float(lag)]
    candidates = _Candidates(dim, tuple(lags), tuple(delays))
    most = max(MOST_NUMBERS // (len(delays) * dim * WIDTH), 1000)
    steps = _steps(recordings, candidates.needed(), most, inside, estimated)
    n = len(steps.rates)
    if n <= dim + 2:
        return None
    read = _Compared.of(steps, candidates, allowed, required, np.ones(n))
    weighed, nats, trust = read, read.nats, 1.0
    variance = changing_variance(read.left)
    if variance is not None:
        # Rows count by how quiet their stretch is, and what they say by how far it scatters.
        trust = read.calibration()
        weighed = _Compared.of(steps, candidates, allowed, required, 1 / variance)
        nats = weighed.nats * weighed.calibration()
    smooth = steps.between.smooth and not read.swings(candidates, steps)
    if smooth:
        nats = allowing(nats, float(n))
    whole = n < most
    told = whole and nats.sum() < CLEARLY
    weak = _distributed(weighed.as_map, weighed.plain, candidates) if told else None
    return Readings(
        nats=nats,
        map_graph=candidates.graph_of(read.plain.level),
        flow_graph=candidates.graph_of(candidates.to_map(read.flow.found.level)),
        map_cost=read.plain.cost / n if whole else np.full(dim, np.nan),
        distributed=weak,
        trust=trust,
        smooth=smooth,
    )


class _Compared(NamedTuple):
    """The searches of both readings.

    - `plain`: the best map without means; `flow`: the best flow.
    - `left`: what both leave of the rates, `[reading window target]`, times the root of the weight
        of each window.
    - `nats`: the log likelihood of the flow over that of the map, prices included, `[target]`.
    """

    as_map: _Regression
    plain: Selection
    flow: _Fit
    left: Float[np.ndarray, "2 window target"]
    nats: Float[np.ndarray, " target"]

    @classmethod
    def of(cls, steps: _Steps, candidates: _Candidates, allowed, required, weight) -> "_Compared":
        """Return the best of both readings, windows weighed."""
        # The same number for both: that a flow has twice the candidates must not decide.
        lags, choices = candidates.lags, candidates.dim * len(candidates.lags)
        as_map = _Regression(
            _with_means([steps.around[lag] for lag in lags], candidates.parts(lags)),
            steps.rates,
            weight,
            choices,
            *candidates.given(allowed, required, lags),
            room=candidates.dim * len(candidates.delays) + candidates.n_means(),
        )
        given = candidates.given(allowed, required, candidates.delays)
        as_flow = _Flow(steps, candidates, weight, choices, *given)
        (plain,) = as_map.search(None, means=False)
        maps = as_map.search(None, plain.level) if candidates.n_means() else [plain]
        from_map = candidates.to_flow(best_of(maps).level)
        starts = as_flow.search(None, from_map)
        fitted = [(found, as_flow.refit(found, as_flow.at_start).says) for found in starts]
        best = min((as_flow.settle(*one) for one in fitted), key=_Fit.total)
        for _ in range(ROUNDS):
            before = best.total()
            as_flow.end_at(best.says)
            searched = as_flow.search(None, best.found.level, from_map)
            settled = [as_flow.settle(found, best.says) for found in searched]
            best = min((best, *settled), key=_Fit.total)
            if not best.total() < before - PROGRESS:
                break
        from_flow = candidates.to_map(best.found.level)
        plain = best_of([plain, *as_map.search(candidates.each(from_flow), means=False)])
        from_flow_too = as_map.search(from_flow) if candidates.n_means() else []
        of_map = best_of([plain, *maps, *from_flow_too])
        as_flow.end_at(best.says)
        left = np.stack([as_map.left(of_map), as_flow.left(best.found)])
        costs = of_map.cost, best.found.cost
        if not steps.measured and of_map.cost.sum() > best.total() - 2 * CLEARLY:
            costs = _with_ends(as_map, of_map, left[0], steps), costs[1]
        if steps.measured:
            of_either = candidates.graph_of(of_map.level) | candidates.graph_of(from_flow)
            counting = _counting(steps.measured, of_either, lags)
            pairs = (as_map, of_map), (as_flow, best.found)
            costs = tuple(one.cost_within(found, counting) for one, found in pairs)
        return cls(as_map, plain, best, left, (costs[0] - costs[1]) / 2)

    def swings(self, candidates: "_Candidates", steps: _Steps) -> bool:
        """Return whether a map moves smoothly by itself: every variable follows its own past in
        straight lines, and what is left of its steps is noise, more than guesses from both sides
        miss. Errors of measurement, which guesses of a higher order miss more, are no such noise.
        """
        dim, itself = candidates.dim, np.arange(candidates.dim)
        level = self.plain.level.reshape(dim, -1, dim)[:, : len(candidates.lags)]
        lines = level[itself, :, itself].max(axis=1) == LINE
        between, left = steps.between, np.mean(self.left[0] ** 2, axis=0)
        ratio = left / divisor(np.mean(steps.rates**2, axis=0) * between.least)
        noise = (ratio > 1) & (between.quintics < between.cubics)
        return bool((lines & noise).all() and np.median(ratio) > CARRIED)

    def calibration(self) -> float:
        """Return by how much the evidence must shrink for its spread to be what nats say, at most
        1: the variance that the likelihood believes it has over the one that it has, by the squares
        of its terms (as of the sandwich formula, White 1982).
        """
        size = np.maximum(np.mean(self.left**2, axis=(0, 1)), 1e-300)
        apart, middle = self.left[0] - self.left[1], self.left.mean(axis=0)
        believed = np.sum(apart**2 / size)
        there = np.sum((apart * middle / size).sum(axis=1) ** 2)
        return float(min(believed / there, 1.0)) if there > 0 else 1.0


# Correlation of what a map leaves of two rates from which on one may drive the other within the
# sample, and standard errors beyond which it is not there by chance.
AT_ONCE, AT_ONCE_BEYOND = 0.15, 4.0
# Correlation of samples from which on two variables are one quantity, measured twice.
ONE = 0.9


def _with_ends(
    as_map: _Regression,
    found: Selection,
    left: Float[np.ndarray, "window target"],
    steps: _Steps,
) -> Float[np.ndarray, " target"]:
    """Return the cost of a map of which some links may work within the sample, where what it leaves
    of two rates is related.

    What drives a source then drives its targets, too. One column, the end of the source's step as
    the map foretells it, says what the map needs several others for, and a flow has that column.
    Sensors of one quantity foretell one another without any link, and are left out.
    """
    n, dim = left.shape
    shared = np.corrcoef(left, rowvar=False)
    related = np.abs(shared) > max(AT_ONCE, AT_ONCE_BEYOND / np.sqrt(n))
    # Nor is a variable related to itself.
    related &= np.abs(np.corrcoef(steps.now, rowvar=False)) < ONE
    related &= as_map.allowed[:, : -as_map.means.sum() or None].reshape(dim, -1, dim).any(axis=1)
    if not related.any():
        return found.cost
    ends = spline_terms(steps.now + as_map.refit(found, as_map.columns).says, steps.knots)
    more = _Regression(
        np.concatenate([ends, as_map.columns.reshape(n, -1, WIDTH)], axis=1),
        as_map.rates,
        as_map.weight,
        as_map.choices,
        np.concatenate([related, as_map.allowed], axis=1),
        np.concatenate([related & False, as_map.required], axis=1),
        int(as_map.means.sum()),
    )
    start = np.concatenate([np.zeros((dim, dim), np.int32), found.level], axis=1)

    def cost_with(open_: Bool[np.ndarray, "target source"]) -> Float[np.ndarray, " target"]:
        allowed = np.concatenate([open_, as_map.allowed], axis=1)
        problem = more.problem._replace(allowed=allowed)
        best = best_of(search_from(problem, (None, start), least=as_map.room))
        return np.minimum(found.cost, best.cost)

    gain = found.cost - cost_with(related)
    if not (gain > 0).any():
        return found.cost
    # Ends that foretell one another foretell nothing: only who gains more may have the other's.
    return cost_with(related & (gain[:, None] > gain[None]))


def _counting(
    measured: dict[int, np.ndarray], graph: KnownGraph, lags: tuple[int, ...]
) -> Bool[np.ndarray, "window target"]:
    """Return the windows in which the rate of a target and its inputs, with the samples about
    these, are measured.
    """
    counting = measured[-1] & measured[0]
    for i, j, a in np.argwhere(graph):
        for lag in {max(lags[a] + side, 0) for side in (-1, 0, 1)}:
            counting[:, j] &= measured[lag][:, i]
    return counting


def changing_variance(
    left: Float[np.ndarray, "reading window target"],
) -> Float[np.ndarray, " window"] | None:
    """Return the relative variance of the noise by window where it clearly changes, from what is
    left of rates; None elsewhere.

    A window has the mean square of those around it, itself left out, with weights that fall by
    half within one of `MEMORIES`, whichever makes the window likeliest; beyond a constant variance
    by 3 nats and more.
    """
    square = np.mean(left**2, axis=0)
    square = (square / np.maximum(square.mean(axis=0), 1e-300)).mean(axis=1)
    best, least = None, -square.sum() / 2 + CLEARLY
    for memory in MEMORIES:
        variance = _around(square, memory)
        if (nats := -np.sum(np.log(variance) + square / variance) / 2) > least:
            best, least = variance, nats
    return None if best is None else best / best.mean()


def _around(square: Float[np.ndarray, " window"], memory: float) -> Float[np.ndarray, " window"]:
    """Return the weighted mean of the windows around each."""
    keep = 0.5 ** (1 / memory)
    total, count = (
        _before(values, keep) + _before(values[::-1], keep)[::-1]
        for values in (square, np.ones_like(square))
    )
    return np.maximum(total / count, LEAST * square.mean())


def _before(values: Float[np.ndarray, " window"], keep: float) -> Float[np.ndarray, " window"]:
    """Return sums over all windows before each, a share `keep` of which is left a window later."""
    from scipy.linalg import solve_banded

    bands = np.stack([np.ones(len(values)), np.full(len(values), -keep)])
    return np.append(0.0, solve_banded((1, 0), bands, values)[:-1])


def _distributed(
    as_map: _Regression, plain: Selection, candidates: _Candidates
) -> KnownGraph | None:
    """Return the graph of a map with distributed lags where it is clearly likelier than a plain
    one, with several lags of some other variable; None elsewhere.
    """
    dim, n_lags = candidates.dim, len(candidates.lags)
    shape, others = (dim, n_lags, dim), ~np.eye(dim, dtype=bool)
    start, allowed, required = (
        mask[:, : n_lags * dim] for mask in (plain.level > OUT, as_map.allowed, as_map.required)
    )
    if n_lags < 2 or not (start.reshape(shape).any(axis=1) & others).any():
        return None
    lines = as_map.columns.reshape(len(as_map.rates), -1, WIDTH)[:, : n_lags * dim, 0]
    sums = sums_of(lines, as_map.rates, as_map.weight)
    problem = Problem.of(sums, 1, n=as_map.n)._replace(allowed=allowed, required=required)
    found = distributed_lags(problem, n_lags, start)
    several = found.mask.reshape(shape).sum(axis=1) > 1
    if not (several & others).any() or found.cost > plain.cost.sum() - 2 * CLEARLY:
        return None
    return found.mask.reshape(shape).transpose(2, 0, 1)
