"""Comparison of two readings of a record, as a map or as a flow, in nats and with equal freedom.

The step of a map is the drift at the sample, that of a flow the average of the drift over the step.
If a drift is a sum of features, that average is a weighted sum of the features of neighbouring
samples, for every delay. So a flow's candidates are linear combinations of a map's columns. Both
readings are the same kind of regression at the same prices, and their likelihoods can be compared.

Due to this average, one column of a flow spreads its delay over two or three samples. A map whose
sources act over several lags, as in a vector autoregression, would pay for each of these lags and
look like a flow. So both readings may also use the mean over three neighbouring lags or delays, at
half the price of three columns.

If links of a map act within a sampling interval, a driver of their source drives their target as
well. The end of a flow's step represents this in one column. So a map whose residuals are
correlated may also use the ends of the steps that it predicts.

If neighbours predict every sample, there is almost no noise, and the residuals of both readings are
errors of interpolation and of features, which a flow cannot control. Then a flow may leave up to
ten times the residual variance of a map, because a map could jump and would have no reason to move
so smoothly. There are two exceptions, both with noise as their residual: an oscillating
autoregression, for example of second order, and a map of few inputs, no more than the flow needs.

If the variance of the noise changes, stretches of high variance would dominate, by more nats than
they justify. Then the comparison is repeated with every window weighted by the inverse of the local
variance, and the evidence is shrunk according to its own variability.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, divisor
from ._design import WIDTH, InterpolationErrors, check_room, knots_of, spline_terms
from ._distributed import distributed_lags
from ._search import FLOOR, LINE, OUT, PROGRESS, Problem, Selection, best_of, search_from
from ._summed import sums_of, with_changed

# Nats within which the readings are undecided: odds of 20 to 1.
CLEARLY = 3.0
# Factor by which a flow may exceed the residual variance of a map on a smooth path, and the nats by
# which the flow is then preferred.
ALLOWED, SURE = 10.0, 10.0
# Residual variance of a map relative to the squared interpolation error from both sides, median
# over variables, from which on it is noise carried on by the past of the variables. White noise in
# a law of second order gives two or more, and less for a variable driven by another such variable.
# Chosen by inspecting oscillating autoregressions and flows of dysts with measurement errors.
CARRIED = 1.5
# The same ratio from which on, up to the one above, the allowance is doubtful, and the most inputs
# per variable of a map for that: more are proxies for what the map lacks. Chosen by inspecting maps
# with steep responses (.5 to 1.5, up to 3 inputs), flows with measurement errors and smooth flows
# (up to .15, or with fewer inputs than the map, or with products).
DOUBTFUL, FEW = 0.5, 3
# Most numbers in a matrix of columns; in longer records the first windows decide.
MOST_NUMBERS = 5 * 10**7
# Fits of a graph with the end of the step predicted by its own drift; searches with the end that
# the best graph so far predicts.
SETTLES, ROUNDS = 3, 2
# The values of `GRAMS` and `FEATURES` of a design when two readings are compared, and when a map is
# searched first.
COMPARED, SEARCHED = (26, 8), (8, 4)
# Number of candidates, variables × lags, from which on a flow has no delays at half samples.
MANY = 150
# Most candidates in the comparison for coarse lags: a size that is compiled already.
FINER = 96
# Number of neighbouring lags in a mean: the least that no single delay of a flow averages. Price of
# a mean beyond its column: half a column, for its position. Both were chosen by inspecting records
# of known kind, among them sparse autoregressions like those of public benchmarks; prices from
# 0.3 to 0.7 columns separate maps from flows about as well.
SPREAD, PLACE = 3, 0.5
# Windows without estimates that a target needs for any evidence.
FEWEST = 20
# Half-lives, in windows, of the weights of a local variance, and the least local variance relative
# to the mean.
MEMORIES, LEAST = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0), 1e-3


class Readings(NamedTuple):
    """A comparison of a record read as a map and as a flow.

    - `nats`: log likelihood ratio of the flow to the map, prices included, `[target]`.
    - `map_graph`, `flow_graph`: the inputs of each, `[source target lag]`; a flow's delay between
        two lags is at the lower one.
    - `map_cost`: the criterion of the map per window, `[target]`; NaN if only a part of a long
        record was compared.
    - `distributed`: the inputs of a map whose sources act over several lags each. None unless that
        is clearly likelier than the plain map and the flow is not clearly likelier.
    - `trust`: factor by which nats from equally weighted windows must shrink if the variance of the
        noise changes; else 1.
    - `smooth`: whether neighbours predict every sample, so that interpolation errors are allowed
        for.
    - `clear`: the evidence from which on a record is a flow's.
    - `doubtful`: the nats of each target that this allowance added to `nats`, if the residual of
        the map is noise and the flow needs as many inputs; else 0. Unless a target needs products,
        such a record is that of a map that moves smoothly.
    """

    nats: Float[np.ndarray, " target"]
    map_graph: KnownGraph
    flow_graph: KnownGraph
    map_cost: Float[np.ndarray, " target"]
    distributed: KnownGraph | None = None
    trust: float = 1.0
    smooth: bool = False
    clear: float = CLEARLY
    doubtful: float = 0.0

    @property
    def evidence(self) -> float:
        """The log likelihood ratio of the flow to the map, summed over targets."""
        return float(self.nats.sum())

    @property
    def name(self) -> str:
        """The likelier reading, `"map"` or `"flow"`; `"undecided"` within 3 nats, and where values
        hardly persist up to 3 nats per variable for a flow.
        """
        if self.evidence <= -CLEARLY:
            return "map"
        return "flow" if self.evidence >= self.clear else "undecided"


def mean_weights(delay: float, curved: bool | Bool[np.ndarray, " variable"] = False) -> np.ndarray:
    """Return the weights of features in their mean over a step, at l − 1, l and l + 1 samples ago.

    l is the integer part of a delay. Features are linear between samples, or parabolic if they are
    `curved`. `[3]` or `[3 variable]`.
    """
    late, early = 1 - delay % 1, delay % 1
    lines = late**2 / 2, 1 - (late**2 + early**2) / 2, early**2 / 2
    # The area between a parabola and a line is the same in either half, wherever the step begins.
    area = 1 / 12, -1 / 6, 1 / 12
    return np.stack([line - curved * a for line, a in zip(lines, area, strict=True)])


def with_allowance(
    nats: Float[np.ndarray, " target"], windows: float
) -> Float[np.ndarray, " target"]:
    """Return the log likelihood ratio of the flow to the map on a smooth path, with an allowance
    for interpolation errors. The flow may leave up to ten times the residual variance of the map,
    and is then likelier by ten nats.
    """
    room = windows * len(nats) * np.log(ALLOWED) / 2
    return nats + np.clip(SURE - nats.sum(), 0, room) / len(nats)


class _Steps(NamedTuple):
    """The steps between samples whose neighbours at all lags are known.

    - `rates`: the increment of each variable in a step, `[window target]`.
    - `now`: samples at the start of a step, `[window variable]`.
    - `around`: features of the samples at some lags, `[window variable feature]`.
    - `measured`: whether the samples at some lags are measured, not estimated, `[window variable]`;
        lag −1 is the end of the step. Empty if all are measured.
    - `between`: the deviation of paths from lines and cubics between samples.
    """

    rates: np.ndarray
    now: np.ndarray
    around: dict[int, np.ndarray]
    measured: dict[int, np.ndarray]
    knots: np.ndarray
    between: InterpolationErrors


class _Fit(NamedTuple):
    """A choice of inputs with the rates that its fit predicts, `[window target]`."""

    found: Selection
    says: np.ndarray

    def total(self) -> float:
        """Return the criterion, summed over all targets."""
        return float(self.found.cost.sum())


class _Regression:
    """A regression of rates on groups of columns, searched by sums and then refitted.

    - `n_means`: number of inputs, the last ones, that are means over several lags or delays. Each
        costs a column and a half, for its coefficient and its position, instead of one column per
        lag.
    - `room`: number of inputs of another regression that is searched by the same program.
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
        """Return the selection found from each start; None starts without inputs.

        - `means`: whether means are candidates.
        """
        problem = self.problem
        if not means:
            problem = problem._replace(allowed=self.allowed & ~self.means[None])
        return search_from(problem, starts, least=self.room)

    def refit(self, found: Selection, at) -> _Fit:
        """Return the same choice refitted on the present columns, with its predictions from the
        columns `at`.
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
        """Return the criterion of each target in the windows that are valid for it. Its inputs are
        those found that are worth their price there. 0 if almost no window is valid.
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

    def residuals(self, found: Selection) -> Float[np.ndarray, "window target"]:
        """Return the residuals of a choice, times the square root of the weight of each window."""
        return self.root * (self.rates - self.refit(found, self.columns).says)


def _used(level: Int[np.ndarray, " input"]) -> Int[np.ndarray, " column"]:
    """Return the columns of inputs at some levels."""
    line = np.flatnonzero(level > OUT) * WIDTH
    curve = (np.flatnonzero(level > LINE)[:, None] * WIDTH + np.arange(1, WIDTH)).ravel()
    return np.concatenate([line, curve])


class _Flow(_Regression):
    """A regression on the columns of a flow. Columns with delays below one sample need the end of
    the step. It is predicted by the drift that is being fitted, evaluated at the start of the step.
    A prediction from another fit would use the result of that fit without paying for it.
    """

    def __init__(self, steps: _Steps, candidates: "_Candidates", *given):
        self.around, self.delays = steps.around, candidates.delays
        self.now, self.knots, self.curved = steps.now, steps.knots, steps.between.curved
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
        """The problem of these columns, some of which depend on the end of the step."""
        self.sums = with_changed(self.sums, self.columns, self.rates, self.weight, self.moving)
        return self._problem()

    def _mean(self, delay: float, end):
        lag = int(delay)
        later = end if lag == 0 else self.around[lag - 1]
        late, at, early = mean_weights(delay, self.curved)[..., None]
        mean = late * later + at * self.around[lag]
        return mean + early * self.around[lag + 1] if early.any() else mean

    def end_at(self, ahead: Float[np.ndarray, "window target"]) -> None:
        """Set the end of each step to its start plus `ahead`."""
        end, wide = spline_terms(self.now + ahead, self.knots), self.now.shape[1] * WIDTH
        for place in self.short:
            new = self._mean(self.delays[place], end)
            self.columns[:, place * wide : (place + 1) * wide] = new.reshape(len(new), -1)
        lines = self.columns.reshape(len(end), -1, *end.shape[1:])[..., 0]
        for number, part in enumerate(self.parts):
            if not set(part).isdisjoint(self.short):
                lines[:, len(self.delays) + number] = lines[:, part].mean(axis=1)

    def with_end_predicted(self, found: Selection, ahead) -> _Fit:
        """Return the fit of a graph with the end of the step predicted by its own drift."""
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
    """Return the first `most` steps; with a mask `inside`, only steps that start within it."""
    known = [np.isfinite(x).all(axis=1) for x in recordings]
    knots = knots_of(np.concatenate([x[k] for x, k in zip(recordings, known, strict=True)]))
    between = InterpolationErrors.of(recordings)
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
    """Return the columns, followed by linear features of the means over some of them."""
    more = []
    for part in parts:
        mean = np.zeros_like(columns[0])
        mean[..., 0] = np.mean([columns[place][..., 0] for place in part], axis=0)
        more.append(mean)
    return np.concatenate([*columns, *more], axis=1)


class _Candidates(NamedTuple):
    """The inputs of both readings: a map's at integer `lags`, a flow's at `delays`, some of them
    between lags; and after these, for both, the means over `SPREAD` consecutive lags.
    """

    dim: int
    lags: tuple[int, ...]
    delays: tuple[float, ...]

    def spread(self) -> list[tuple[int, ...]]:
        """Return the lags of each mean."""
        rows = [tuple(range(lag, lag + SPREAD)) for lag in self.lags]
        return [row for row in rows if set(row) <= set(self.lags)]

    def parts(self, places: tuple[int | float, ...]) -> list[list[int]]:
        """Return the indices of the lags or delays in each mean."""
        return [[places.index(lag) for lag in row] for row in self.spread()]

    def inputs_of(
        self, graph: np.ndarray, delays: tuple[int | float, ...], *, whole: bool = False
    ) -> np.ndarray:
        """Return the inputs of a graph `[source target lag]` of a map, or of a flow at some delays,
        `[target input]`. They are at all delays from each lag up to the next, with the means over
        its lags; with `whole`, at integer delays only.
        """
        rows = [graph[:, :, self.lags.index(int(d))].T & (not whole or d % 1 == 0) for d in delays]
        more = [graph[:, :, part].all(axis=2).T & (not whole) for part in self.parts(self.lags)]
        return np.stack([*rows, *more], axis=1).reshape(self.dim, -1)

    def given(
        self, allowed: np.ndarray, required: np.ndarray, delays: tuple[int | float, ...]
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the inputs at some lags or delays that graphs allow and require, and the number of
        means.
        """
        inputs = self.inputs_of(allowed, delays), self.inputs_of(required, delays, whole=True)
        return *inputs, self.n_means()

    def n_means(self) -> int:
        """Return the number of inputs that are means."""
        return len(self.spread()) * self.dim

    def needed(self) -> list[int]:
        """Return the lags of the samples that both readings use."""
        whole = [int(delay) for delay in self.delays]
        later = [max(lag - 1, 0) for lag in whole]
        return sorted({0, *whole, *later, *(lag + 1 for lag in whole)})

    def to_flow(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a map's inputs as a flow's, each in the middle of the interval that its lag
        represents.
        """
        middles = [lag + 0.5 if lag > 0 and lag + 0.5 in self.delays else lag for lag in self.lags]
        return self._moved(level, [self.delays.index(delay) for delay in middles], self.delays)

    def to_map(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a flow's inputs as a map's, each at the largest lag not above its delay."""
        return self._moved(level, [self.lags.index(int(delay)) for delay in self.delays], self.lags)

    def _moved(self, level, to: list[int], delays: tuple[int | float, ...]) -> np.ndarray:
        """Return inputs moved to other places among some delays, with their means."""
        level = level.reshape(self.dim, -1, self.dim)
        out = np.zeros((self.dim, len(delays), self.dim), np.int32)
        for i, place in enumerate(to):
            out[:, place] = np.maximum(out[:, place], level[:, i])
        return np.concatenate([out, level[:, len(to) :]], axis=1).reshape(self.dim, -1)

    def each(self, level: Int[np.ndarray, "target input"]) -> np.ndarray:
        """Return a map's inputs with its means replaced by their lags."""
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
    if too few windows contain the neighbours of every lag.

    Both readings are searched from the empty graph and from each other's graph, because each gets
    stuck in local optima. If the lags skip samples, a delay between two of them fits neither
    reading, and the reading that is half a sample nearer would win. So both then have all lags
    around those that matter to a map, for as many targets as there is room for.

    If the residual variance of both readings clearly changes, windows are weighted by its inverse,
    and the evidence is calibrated by its variability. Graphs are those of equally weighted windows,
    except for distributed lags.

    Estimated values lie between their neighbours, like those of a flow. So the evidence of a target
    is from the windows in which its rate, its inputs and the samples around these are measured.

    - `recordings`: standardised samples, each `[time dim]`.
    - `inside`: samples that may be the present of a window, one array per recording.
    - `estimated`: values that are not measurements, one array per recording.

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
    chosen = _FineLags.of(graph, lags, coarse.risk)
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


class _FineLags(NamedTuple):
    """A part of the candidates, with all lags around those that matter.

    - `variables`: targets and their sources; `targets`: whether each of these is a target.
    """

    variables: np.ndarray
    targets: np.ndarray
    lags: tuple[int, ...]

    @classmethod
    def of(cls, graph: np.ndarray, lags: tuple[int, ...], risk: np.ndarray) -> "_FineLags":
        """Return as many targets of a graph as there is room for, the best explained first. If
        there is no room for one, return its lags nearest to those that matter to it.
        """
        best = cls(np.zeros(0, int), np.zeros(0, bool), lags)
        for target in np.argsort(risk, kind="stable"):
            targets = [*best.variables[best.targets].tolist(), int(target)]
            some = graph[:, targets]
            variables = np.union1d(np.flatnonzero(some.any((1, 2))), targets)
            used, reach = np.flatnonzero(some.any((0, 1))), lags[-1]
            fine = _lags_around(lags, used, reach)
            while len(targets) == 1 and reach > 0 and len(variables) * len(fine) > FINER:
                reach //= 2
                fine = _lags_around(lags, used, reach)
            if len(targets) > 1 and len(variables) * len(fine) > FINER:
                break
            best = cls(variables, np.isin(variables, targets), fine)
        return best

    def edges(self, edges: np.ndarray, lags: tuple[int, ...]) -> np.ndarray:
        """Return the edges `[source target lag]` of this part, with the nearest candidate for each
        lag.
        """
        nearest = np.abs(np.asarray(self.lags)[:, None] - np.asarray(lags)[None]).argmin(axis=1)
        some = edges[np.ix_(self.variables, self.variables)][:, :, nearest]
        return some & self.targets[None, :, None]


def _lags_around(
    lags: tuple[int, ...], used: Int[np.ndarray, " place"], reach: int
) -> tuple[int, ...]:
    """Return all lags from each lag in use to halfway to its neighbours, at most `reach`, and one
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
    variance = local_variance(read.left)
    if variance is not None:
        # Windows are weighted by the inverse local variance, and evidence by its variability.
        trust = read.calibration()
        weighed = _Compared.of(steps, candidates, allowed, required, 1 / variance)
        nats = weighed.nats * weighed.calibration()
    smooth = steps.between.smooth and not read.is_smooth_map(candidates, steps)
    whole, doubtful = n < most, 0.0
    if smooth:
        allowed_for = with_allowance(nats, float(n))
        if whole and nats.sum() < 0 and read.is_simple_map(steps):
            doubtful = float(allowed_for[0] - nats[0])
        nats = allowed_for
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
        doubtful=doubtful,
    )


class _Compared(NamedTuple):
    """The searches of both readings.

    - `plain`: the best map without means; `flow`: the best flow.
    - `left`: residuals of both readings, `[reading window target]`, times the square root of the
        weight of each window.
    - `nats`: log likelihood ratio of the flow to the map, prices included, `[target]`.
    """

    as_map: _Regression
    plain: Selection
    flow: _Fit
    left: Float[np.ndarray, "2 window target"]
    nats: Float[np.ndarray, " target"]

    @classmethod
    def of(cls, steps: _Steps, candidates: _Candidates, allowed, required, weight) -> "_Compared":
        """Return the best of both readings with weighted windows."""
        # The same number for both, so that the twice as many candidates of a flow do not decide.
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
        best = min((as_flow.with_end_predicted(*one) for one in fitted), key=_Fit.total)
        for _ in range(ROUNDS):
            before = best.total()
            as_flow.end_at(best.says)
            searched = as_flow.search(None, best.found.level, from_map)
            settled = [as_flow.with_end_predicted(found, best.says) for found in searched]
            best = min((best, *settled), key=_Fit.total)
            if not best.total() < before - PROGRESS:
                break
        from_flow = candidates.to_map(best.found.level)
        plain = best_of([plain, *as_map.search(candidates.each(from_flow), means=False)])
        from_flow_too = as_map.search(from_flow) if candidates.n_means() else []
        of_map = best_of([plain, *maps, *from_flow_too])
        as_flow.end_at(best.says)
        left = np.stack([as_map.residuals(of_map), as_flow.residuals(best.found)])
        costs = of_map.cost, best.found.cost
        if not steps.measured and of_map.cost.sum() > best.total() - 2 * CLEARLY:
            costs = _with_ends(as_map, of_map, left[0], steps), costs[1]
        if steps.measured:
            of_either = candidates.graph_of(of_map.level) | candidates.graph_of(from_flow)
            counting = _counting(steps.measured, of_either, lags)
            pairs = (as_map, of_map), (as_flow, best.found)
            costs = tuple(one.cost_within(found, counting) for one, found in pairs)
        return cls(as_map, plain, best, left, (costs[0] - costs[1]) / 2)

    def is_smooth_map(self, candidates: "_Candidates", steps: _Steps) -> bool:
        """Return whether a map is smooth by itself. Then every variable depends linearly on its own
        past. The residual of its steps is noise, larger than the interpolation error from both
        sides. It is not measurement error, for which interpolation of higher order is worse.
        """
        dim, itself = candidates.dim, np.arange(candidates.dim)
        level = self.plain.level.reshape(dim, -1, dim)[:, : len(candidates.lags)]
        lines = level[itself, :, itself].max(axis=1) == LINE
        between, ratio = steps.between, self.relative_residual(steps)
        noise = (ratio > 1) & (between.quintics < between.cubics)
        return bool((lines & noise).all() and np.median(ratio) > CARRIED)

    def is_simple_map(self, steps: _Steps) -> bool:
        """Return whether the map has few inputs, no more than the flow, and its residual is noise
        that no variable carries on.
        """
        inputs = [(level > OUT).sum() for level in (self.plain.level, self.flow.found.level)]
        few = inputs[0] <= min(inputs[1], FEW * len(steps.rates[0]))
        return bool(few and DOUBTFUL < np.median(self.relative_residual(steps)) < CARRIED)

    def relative_residual(self, steps: _Steps) -> Float[np.ndarray, " target"]:
        """Return the residual variance of the map relative to the squared interpolation error from
        both sides.
        """
        left, size = np.mean(self.left[0] ** 2, axis=0), np.mean(steps.rates**2, axis=0)
        return left / divisor(size * steps.between.least)

    def calibration(self) -> float:
        """Return the factor, at most 1, by which the evidence must shrink to have the variability
        that nats imply. It is the variance assumed by the likelihood over the actual variance,
        estimated from squares of its terms (as in the sandwich formula, White 1982).
        """
        size = np.maximum(np.mean(self.left**2, axis=(0, 1)), 1e-300)
        apart, middle = self.left[0] - self.left[1], self.left.mean(axis=0)
        believed = np.sum(apart**2 / size)
        there = np.sum((apart * middle / size).sum(axis=1) ** 2)
        return float(min(believed / there, 1.0)) if there > 0 else 1.0


# Correlation of two residuals of a map from which on one variable may drive the other within the
# sampling interval, and the number of standard errors beyond which it is significant.
AT_ONCE, AT_ONCE_BEYOND = 0.15, 4.0
# Correlation of samples from which on two variables are the same quantity, measured twice.
ONE = 0.9


def _with_ends(
    as_map: _Regression,
    found: Selection,
    left: Float[np.ndarray, "window target"],
    steps: _Steps,
) -> Float[np.ndarray, " target"]:
    """Return the cost of a map some of whose links may act within the sampling interval, if the
    residuals of two rates are correlated.

    A driver of a source then drives its targets, too. One column, the end of the source's step as
    the map predicts it, replaces several others that the map would need, and a flow has that
    column. Sensors of one quantity predict one another without a link and are excluded.
    """
    n, dim = left.shape
    shared = np.corrcoef(left, rowvar=False)
    related = np.abs(shared) > max(AT_ONCE, AT_ONCE_BEYOND / np.sqrt(n))
    # This also excludes each variable itself.
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
    # Ends that predict one another predict nothing: only the target that gains more may use the
    # other's end.
    return cost_with(related & (gain[:, None] > gain[None]))


def _counting(
    measured: dict[int, np.ndarray], graph: KnownGraph, lags: tuple[int, ...]
) -> Bool[np.ndarray, "window target"]:
    """Return the windows in which the rate of a target and its inputs, with the samples around
    these, are measured.
    """
    counting = measured[-1] & measured[0]
    for i, j, a in np.argwhere(graph):
        for lag in {max(lags[a] + side, 0) for side in (-1, 0, 1)}:
            counting[:, j] &= measured[lag][:, i]
    return counting


def local_variance(
    left: Float[np.ndarray, "reading window target"],
) -> Float[np.ndarray, " window"] | None:
    """Return the relative variance of the noise by window, from residuals, if it clearly changes;
    otherwise None.

    The variance of a window is the weighted mean square of the windows around it, excluding itself.
    Weights halve within one of `MEMORIES`, the one with the greatest likelihood, which must exceed
    that of a constant variance by 3 nats.
    """
    square = np.mean(left**2, axis=0)
    square = (square / np.maximum(square.mean(axis=0), 1e-300)).mean(axis=1)
    best, least = None, -square.sum() / 2 + CLEARLY
    for memory in MEMORIES:
        variance = _local_mean(square, memory)
        if (nats := -np.sum(np.log(variance) + square / variance) / 2) > least:
            best, least = variance, nats
    return None if best is None else best / best.mean()


def _local_mean(
    square: Float[np.ndarray, " window"], memory: float
) -> Float[np.ndarray, " window"]:
    """Return the weighted mean over the other windows around each window."""
    keep = 0.5 ** (1 / memory)
    total, count = (
        _before(values, keep) + _before(values[::-1], keep)[::-1]
        for values in (square, np.ones_like(square))
    )
    return np.maximum(total / count, LEAST * square.mean())


def _before(values: Float[np.ndarray, " window"], keep: float) -> Float[np.ndarray, " window"]:
    """Return sums over all windows before each, with weights that decay by `keep` per window."""
    from scipy.linalg import solve_banded

    bands = np.stack([np.ones(len(values)), np.full(len(values), -keep)])
    return np.append(0.0, solve_banded((1, 0), bands, values)[:-1])


def _distributed(
    as_map: _Regression, plain: Selection, candidates: _Candidates
) -> KnownGraph | None:
    """Return the graph of a map with distributed lags if it is clearly likelier than a plain one
    and has several lags of some other variable; else None.
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
