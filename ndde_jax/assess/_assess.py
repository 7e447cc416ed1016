"""Error rates of edges, and hidden, contemporaneous or drifting relations outside a graph.

If two variables are related at once, the shape of their distributions shows which drives the other.
If x drives y within a sampling interval, y = b x + e with e independent of x. A sum of independent
variables is closer to a normal distribution than its parts, so the two directions differ in
likelihood unless all variables are normal (Hyvärinen and Smith, 2013, "Pairwise likelihood ratios
for estimation of non-Gaussian structural equation models").
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._blas import one_blas_thread
from .._checks import check_concrete, check_windows
from .._types import Checked, KnownGraph, KnownScores, Pairs, Square, divisor
from ..fit._refit import checked_graph
from ..measure._relevance import linear_gains
from ..models._model import AbstractDelayModel
from ..select._returns import common_factors
from ..windows._windows import KnownData, Windows
from ._later import Later, later_states
from ._relations import (
    at_once,
    drifting,
    hidden_driver_tests,
    noisy_rates,
    partial_correlations,
    partial_residuals,
    persistent,
    residuals,
    static_targets,
    turning_back,
    unconfirmed,
)
from ._rivals import Rivals, partial_rivals, rivals
from ._score import Rows, edge_p_values, kept_p_values, partial_rows_of, read_inputs, rows_of

# Constants of the approximation of an entropy by the mean log cosh, which is `NORMAL` for a normal
# density, and by the skewness (Hyvärinen, 1998).
NORMAL, HEAVY, SKEW = 0.37457, 79.047, 7.4129


# ---- directions ----


def direction_evidence(left: Float[np.ndarray, "row dim"], pairs: Pairs) -> Square:
    """Return by how many nats a relation of residuals is likelier from source to target than in
    reverse, antisymmetric; 0 for other pairs, and near 0 if all residuals are normal.

    **Arguments:**

    - `left`: the residuals, NaN where unknown.
    - `pairs`: the pairs to compare, symmetric.
    """
    nats = np.zeros(pairs.shape)
    for i, j in np.argwhere(np.triu(pairs, 1)):
        both = left[:, [i, j]]
        both = both[np.isfinite(both).all(axis=1)]
        if len(both) < 2 or not np.ptp(both, axis=0).all():
            continue
        x, y = ((both - both.mean(axis=0)) / both.std(axis=0)).T
        along = (x * y).mean()
        forward = _entropy(y) + _entropy(x - along * y)
        back = _entropy(x) + _entropy(y - along * x)
        nats[i, j] = len(both) * (forward - back)
        nats[j, i] = -nats[i, j]
    return nats


def _entropy(u: Float[np.ndarray, " row"]) -> float:
    """Return the entropy of a zero-mean sample scaled to unit variance, up to a constant."""
    u = u / max(u.std(), 1e-300)
    log_cosh = np.logaddexp(u, -u) - np.log(2)
    skew = (u * np.exp(-(u**2) / 2)).mean()
    return float(-HEAVY * (log_cosh.mean() - NORMAL) ** 2 - SKEW * skew**2)


# The p-value at which a source that is not kept counts half in a ranking, and the factor for all
# sources of a target without kept edges. A ranking by explained shares of each rate would rate what
# explains an actuator by chance as highly as what drives a sensor. Both were chosen by inspecting
# rankings of simulated plants, of the world's benchmarks and of CausalDynamics' developer set. A
# level of .2 ranks them about as well. A smaller factor ranks plants better, and networks with few
# samples and few kept edges worse.
LIKELY, UNDRIVEN = 0.05, 0.25
# The factor for all sources that are not kept. Shares of two rates are hardly comparable, and the
# search has compared the sources of each.
NOT_KEPT = 0.5
# The factor for pairs that an unobserved variable seems to drive. On twenty records of the world's
# `hidden` family, a quarter and a tenth rank as well.
CONFOUNDED = 0.5
# The false discovery rate below which a source may drive a target although no edge is kept. Chosen
# by inspecting rankings of the world's benchmarks: at .05 two plants rank lower.
FALSE_DISCOVERIES = 1e-3


# ---- error rates, and relations ----


@dataclasses.dataclass(frozen=True, eq=False)
class ErrorRates:
    """The p-value `p` and the false discovery rate `q` of every candidate edge,
    `[source target lag]`.

    - `linear`: the p-value of all lags of a source together, in a linear regression of the target's
        rate on all candidates, `[source target]`; NaN if there are too few windows.
    """

    p: KnownScores
    linear: Square

    @property
    def q(self) -> KnownScores:
        """The false discovery rates (Benjamini and Hochberg, 1995) over candidates between
        different variables; NaN elsewhere.
        """
        from scipy.stats import false_discovery_control  # takes a moment to import

        tested = np.isfinite(self.p) & ~np.eye(len(self.p), dtype=bool)[:, :, None]
        q = np.full(self.p.shape, np.nan)
        if tested.any():
            q[tested] = false_discovery_control(self.p[tested])
        return q

    def weighed(self, ranking: Square, graph: KnownGraph) -> Square:
        """Return a ranking of sources in which other variables without a kept edge count at most
        half, by 1 / (1 + 20 p), and a quarter of that if the target keeps no edge from any other
        variable, and none is significant.

        Here p is the geometric mean of two p-values of all lags of a source: those of its edges,
        combined by Fisher's method, and `linear`. Edges are tested given the kept ones alone, which
        is stronger where few sources act. A regression on all candidates is stronger where many
        weak ones do.
        """
        from scipy.special import chdtrc  # takes a moment to import

        linked, others = graph.any(axis=2), ~np.eye(len(graph), dtype=bool)
        tested = np.isfinite(self.p)
        surprise = -2 * np.log(np.where(tested, np.maximum(self.p, 1e-300), 1)).sum(axis=2)
        p = chdtrc(2 * np.maximum(tested.sum(axis=2), 1), surprise)
        p = np.sqrt(p * np.where(np.isfinite(self.linear), self.linear, p))
        weight = NOT_KEPT / (1 + p / LIKELY)
        with np.errstate(invalid="ignore"):
            driven = linked | (self.q < FALSE_DISCOVERIES).any(axis=2)
        undriven = ~np.any(driven & others, axis=0, keepdims=True)
        weight = np.where(undriven, weight * UNDRIVEN, weight)
        # Negative rankings by precedence stay as they are.
        return np.where(linked | ~others | (ranking <= 0), ranking, ranking * weight)


# Flags of pairs of variables, of candidate edges and of targets.
PAIRS, EDGES = ("at_once", "confounded", "not_excluded", "partly"), ("drifting", "unconfirmed")
TARGETS = ("static", "derived", "turning_back", "persistent")


@dataclasses.dataclass(frozen=True, eq=False)
class Relations:
    """The relations between variables that a causal graph does not contain.

    - `correlation`: correlation of the residuals of two rates; pairs that are related `at_once`,
        and pairs that are `confounded`; all `[source target]`, symmetric.
    - `forward`: for pairs at once, by how many nats the source is likelier to drive the target than
        the reverse, from the shape of their distributions, `[source target]`, antisymmetric.
    - `drifting`: inputs whose effect changes, `[source target lag]`.
    - `static`: variables that are functions of the present states of others, `[target]`; `derived`:
        those that seem to be computed from them.
    - `rivals`: the cost of replacing a kept input by another candidate, `Rivals`.
    - `not_excluded`: links that may come from an unobserved driver of both variables, since nothing
        that moves the source shows that the target follows, `[source target]`.
    - `partly`: links whose target shows less than the full effect if something moves the source,
        `[source target]`; includes those that are `not_excluded`.
    - `unconfirmed`: links between different variables that pass on nothing new from their source,
        `[source target lag]`.
    - `turning_back`: variables whose residual rates are negatively autocorrelated, as measurement
        errors make them, `[target]`.
    - `persistent`: variables whose rates persist from one step to the next beyond the kept inputs,
        if the rates of the whole record do, `[target]`.
    - `later`: states further back than every candidate that explain the residual of a rate,
        `Later`.
    """

    correlation: Square
    at_once: Pairs
    forward: Square
    confounded: Pairs
    drifting: KnownGraph
    static: Bool[np.ndarray, " target"]
    derived: Bool[np.ndarray, " target"]
    rivals: Rivals
    not_excluded: Pairs
    partly: Pairs
    unconfirmed: KnownGraph
    turning_back: Bool[np.ndarray, " target"]
    persistent: Bool[np.ndarray, " target"]
    later: Later

    @classmethod
    def none(cls, graph: KnownGraph) -> "Relations":
        """Return the relations of a graph about which nothing is known."""
        none = np.zeros_like(graph)
        parts = ((PAIRS, none[..., 0]), (EDGES, none), (TARGETS, none[0, :, 0]))
        flags: Any = {name: part for names, part in parts for name in names}
        return cls(
            correlation=np.full(none.shape[:2], np.nan),
            forward=np.zeros(none.shape[:2]),
            rivals=Rivals.none(graph),
            later=Later.none(len(graph)),
            **flags,
        )

    def with_target(
        self, j: int, part: "Relations", some: Bool[np.ndarray, " target"]
    ) -> "Relations":
        """Return the relations with those of target j replaced by a `part` for `some` variables;
        a hidden driver of j and an input is recorded in this direction only.
        """
        numbers, own = np.flatnonzero(some), int(some[:j].sum())
        values = {}
        for name in (*EDGES, "confounded", "not_excluded", "partly"):
            values[name] = np.array(getattr(self, name))
            values[name][some, j] = getattr(part, name)[:, own]
        for name in TARGETS:
            values[name] = np.array(getattr(self, name))
            values[name][j] = getattr(part, name)[own]
        later = Later(*map(np.array, self.later))
        source = int(part.later.source[own])
        later.source[j] = numbers[source] if source >= 0 else -1
        later.lag[j], later.share[j] = part.later.lag[own], part.later.share[own]
        return dataclasses.replace(self, **values, later=later)

    def of_links(self, linked: Pairs) -> "Relations":
        """Return the relations with those about links limited to some pairs."""
        either = linked | linked.T
        return dataclasses.replace(
            self,
            confounded=self.confounded & either,
            not_excluded=self.not_excluded & linked,
            partly=self.partly & linked,
        )

    def of_events(self) -> "Relations":
        """Return only the correlation and the static variables: the other tests assume that the
        kept inputs explain the rates.
        """
        nothing = Relations.none(self.unconfirmed)
        return dataclasses.replace(
            nothing, correlation=self.correlation, static=self.static, derived=self.derived
        )

    def ranked(
        self, lagged: Square, graph: KnownGraph, risk: Float[np.ndarray, " target"]
    ) -> Square:
        """Return a ranking of sources by past and present states, plus what pairs share at once.

        The added part is the share of the rate's variance that goes with the residual of the source
        alone, weighted by the likelihood of the direction. Without partial correlations, a common
        movement such as a market's would outweigh every delayed link. A kept link shows the
        direction better, so pairs with one get nothing added. Pairs that an unobserved variable
        seems to drive count half.

        **Arguments:**

        - `lagged`: the ranking by past and present states.
        - `risk`: the unexplained share of the variance of each rate.
        """
        linked = graph.any(axis=2)
        alone = self.at_once & ~linked & ~linked.T
        shared = partial_correlations(self.correlation) ** 2
        shared *= np.clip(np.nan_to_num(risk), 0, 1)[None]
        odds = 1 / (1 + np.exp(-np.clip(self.forward, -50, 50)))
        ranking = lagged + np.where(alone, shared * odds, 0)
        return np.where(self.confounded & (ranking > 0), CONFOUNDED * ranking, ranking)

    def of_inputs(self, inputs: Bool[np.ndarray, " source"]) -> "Relations":
        """Return the relations if some variables are known inputs: no unobserved variable drives an
        input and a target, relations at once point to the target, and those of two inputs do not
        count.
        """
        known = inputs[:, None] | inputs[None]
        toward = inputs[:, None] & ~inputs[None]
        return dataclasses.replace(
            self,
            at_once=self.at_once & ~(inputs[:, None] & inputs[None]),
            forward=np.where(toward, np.inf, np.where(toward.T, -np.inf, self.forward)),
            confounded=self.confounded & ~known,
            not_excluded=self.not_excluded & ~inputs[:, None],
        )

    def of_held(self, sources: Sequence[int]) -> "Relations":
        """Return the relations if some sources have new values at few samples only.

        Their innovations came at any time since the last value, so no test can show whether their
        targets follow it. An apparent hidden driver becomes one that is not excluded.
        """
        held = np.zeros(len(self.confounded), bool)
        held[list(sources)] = True
        untestable = self.confounded & (held[:, None] | held[None, :])
        return dataclasses.replace(
            self,
            confounded=self.confounded & ~untestable,
            not_excluded=self.not_excluded | untestable & held[:, None],
            unconfirmed=self.unconfirmed & ~held[:, None, None],
        )


# Number of rows below which nothing is tested, and the share of complete windows up to which each
# target uses windows of its own.
FEWEST, COMPLETE = 40, 0.5


def later_of(
    windows: Windows, graph: Any, model: AbstractDelayModel | Callable | None = None
) -> Later:
    """Return the part of [`relations`][ndde_jax.assess.relations] about delays longer than every
    candidate.
    """
    graph = _checked(windows, graph, "later_of")
    rows = rows_of(windows, model)
    if len(rows.rates) < FEWEST:
        return Later.none(len(graph))
    inputs = read_inputs(rows)
    left = residuals(inputs, graph)
    asked = noisy_rates(inputs, left) & ~turning_back(rows, left)
    return later_states(inputs, graph, asked)


@one_blas_thread()
def related_at_once(windows: Windows, graph: Any) -> Pairs:
    """Return the pairs related `at_once` by the part of [`relations`][ndde_jax.assess.relations]
    that finds them, in windows without missing values.
    """
    graph = _checked(windows, graph, "related_at_once")
    inputs = read_inputs(rows_of(windows))
    return at_once(inputs, graph, residuals(inputs, graph)).related


@one_blas_thread()
def error_rates(windows: Checked[Windows], graph: Any) -> ErrorRates:
    """Return the error rates of every candidate edge, given the other edges of a graph.

    **Arguments:**

    - `windows`: windows of one system, outside `jit`.
    - `graph`: the graph, `[source target lag]`.

    **Returns:** [`ErrorRates`][ndde_jax.assess.ErrorRates], NaN for fewer than 40 windows.

    **Raises:** `ValueError` for a graph of another shape.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(200, 2))
    windows = ndde.lagged_windows(x, dt=1.0)
    print(ndde.assess.error_rates(windows, np.zeros((2, 2, 1), bool)).p[:, :, 0])
    ```
    """
    graph = _checked(windows, graph, "error_rates")
    rows = rows_of(windows)
    enough = len(rows.rates) >= FEWEST
    p = np.full(graph.shape, np.nan)
    if enough:
        inputs = read_inputs(rows)
        left = np.nan_to_num(residuals(inputs, graph))
        risk = left.var(axis=0) / divisor(rows.rates.var(axis=0))
        p = edge_p_values(inputs, graph, common_factors(windows, left.T, risk))
    if enough and windows.partial is not None:
        some = kept_p_values(read_inputs(partial_rows_of(windows)), graph, p)
        p = np.where(rows.allowed, some, np.nan)
    return ErrorRates(p, _linear_p_values(windows))


def _linear_p_values(windows: Windows) -> Square:
    """Return the p-values of all lags of each source together, by an F test in a linear regression
    on all candidates.
    """
    from scipy.special import fdtrc  # takes a moment to import

    data = KnownData(windows)
    n, n_inputs = float((data.weight > 0).sum()), data.inputs.shape[1]
    rest = n - n_inputs - 1
    if rest < n_inputs:
        return np.full((windows.dim, windows.dim), np.nan)
    rise, left = linear_gains(data)
    ratio = np.maximum(rise, 0) * rest / (windows.n_lags * divisor(left))
    return fdtrc(windows.n_lags, rest, ratio)


@one_blas_thread()
def relations(
    windows: Checked[Windows],
    graph: Any,
    model: AbstractDelayModel | Callable | None = None,
    *,
    undecided: Checked[bool] = False,
    late: Float[np.ndarray, "window target column"] | None = None,
) -> Relations:
    """Return what the residuals of a graph show about pairs of variables and changes over time.

    **Arguments:**

    - `windows`: windows of one system, outside `jit`.
    - `graph`: the graph, `[source target lag]`.
    - `model`: a drift on that graph, used as a further column where it explains much more than
        polynomials of the inputs, so that a strong bend is not mistaken for an unobserved variable.
        By default none.
    - `undecided`: whether forward differences may also be those of a continuous path. The effect of
        a link of such a path within a step then relates no pair at once. By default they may not.
    - `late`: the sources of every target at delays between the lags, in valid windows without
        missing values; zero where a target has fewer. By default none.

    **Returns:** [`Relations`][ndde_jax.assess.Relations]; empty for fewer than 40 windows.

    **Raises:** `ValueError` for a graph of another shape.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(200, 2))
    windows = ndde.lagged_windows(x, dt=1.0)
    print(ndde.assess.relations(windows, np.zeros((2, 2, 1), bool)).at_once)
    ```
    """
    graph = _checked(windows, graph, "relations")
    required, rows = np.asarray(windows.prior.required), rows_of(windows, model)
    rows = rows._replace(late=late)
    every = rows if windows.partial is None else partial_rows_of(windows, model)
    found = _relations(rows, every, graph, required, undecided)
    if len(rows.rates) > COMPLETE * np.median(np.asarray(windows.count(graph))):
        return found
    # Most windows lack some variable.
    return _by_target(found, every, graph, required, undecided)


def _by_target(
    found: Relations, every: Rows, graph: KnownGraph, required: KnownGraph, undecided: bool
) -> Relations:
    """Return the relations of each target from the rows that have it, its inputs and their inputs,
    if there are enough; pairs at once are those found from the rows that have both variables.
    """
    linked = np.asarray(graph.any(axis=2))
    if np.isnan(found.correlation).all():
        apart = partial_residuals(every, graph, poor=1.0)
        pairs = at_once(read_inputs(every), graph, apart, undecided)
        found = dataclasses.replace(
            found,
            correlation=pairs.correlation,
            at_once=pairs.related,
            forward=direction_evidence(apart, pairs.related),
        )
    found = dataclasses.replace(found, confounded=found.confounded & linked)
    for j in range(len(graph)):
        inputs = linked[:, j] | (np.arange(len(graph)) == j)
        some = inputs | linked[:, inputs].any(axis=1)
        own, place = every.of(some), np.ix_(some, some)
        if len(own.rates) < FEWEST:
            continue
        kept = graph[place] & inputs[some][None, :, None]
        part = _relations(own, own, kept, required[place], undecided)
        hidden = part.confounded & kept.any(axis=2)
        found = found.with_target(j, dataclasses.replace(part, confounded=hidden), some)
    return dataclasses.replace(
        found,
        confounded=found.confounded | found.confounded.T,
        rivals=partial_rivals(every, graph, required, FEWEST),
    )


def _relations(
    rows: Rows, every: Rows, graph: KnownGraph, required: KnownGraph, undecided: bool
) -> Relations:
    """Return the relations from complete rows, and from `every` row where values may be missing."""
    if len(rows.rates) < FEWEST:
        return Relations.none(graph)
    inputs = read_inputs(rows)
    left = residuals(inputs, graph)
    some, apart = inputs, left
    # A bend shared by two rates relates their polynomial residuals, so the drift is given too.
    if every.known is not None:
        some, apart = read_inputs(every), partial_residuals(every, graph, poor=1.0)
    elif rows.drift is not None:
        apart = residuals(inputs, graph, poor=1.0)
    mistaken = turning_back(rows, left)
    static, hidden = static_targets(rows, left), hidden_driver_tests(inputs, graph, left, mistaken)
    # A map may act over several lags: there only tested links can show that a target does not.
    partly = hidden.partly & (np.isfinite(hidden.follows) | (not undecided))
    related = at_once(some, graph, apart, undecided)
    correlation = related.correlation
    if static.derived.any():
        # A computed variable is related to its parts at once, and relates them given itself.
        related = at_once(some, graph, np.where(static.derived, np.nan, apart), undecided)
    return Relations(
        correlation=correlation,
        at_once=related.related,
        forward=direction_evidence(apart, related.related),
        confounded=hidden.pairs,
        drifting=drifting(inputs, graph),
        static=static.found,
        derived=static.derived,
        rivals=rivals(inputs, graph, required),
        not_excluded=hidden.not_excluded & ~required.any(axis=2),
        partly=partly & ~required.any(axis=2),
        unconfirmed=unconfirmed(some, graph, required) & ~mistaken[:, None, None],
        turning_back=mistaken,
        persistent=persistent(inputs, graph, left),
        later=later_states(inputs, graph, noisy_rates(inputs, left) & ~mistaken),
    )


def _checked(windows: Any, graph: Any, name: str) -> KnownGraph:
    check_windows(windows, name)
    check_concrete(name, (windows, graph), "Call it outside jit.")
    return np.asarray(checked_graph(windows, graph)[0])
