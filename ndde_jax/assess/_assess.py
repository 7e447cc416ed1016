"""Error rates of edges, and what is unseen, at once, or drifting beside a graph.

Of two variables that are related at once the shape of distributions tells which drives the other:
where x drives y within a sampling interval, y = b x + e with e independent of x. A sum of
independent variables is nearer to a normal distribution than its parts, so that the two directions
differ in their likelihood unless all is normal (Hyvärinen and Smith, 2013, "Pairwise likelihood
ratios for estimation of non-Gaussian structural equation models").
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._blas import one_blas_thread
from .._checks import check_concrete, check_windows
from .._types import Checked, KnownGraph, KnownScores, Pairs, Square
from ..fit._refit import checked_graph
from ..models._model import AbstractDelayModel
from ..windows._windows import Windows
from ._later import Later, later_states
from ._relations import (
    at_once,
    drifting,
    noisy_rates,
    partial_correlations,
    partial_residuals,
    persistent,
    residuals,
    static_targets,
    turning_back,
    unconfirmed,
    unseen,
)
from ._rivals import Rivals, partial_rivals, rivals
from ._score import Rows, edge_p_values, kept_p_values, partial_rows_of, read_inputs, rows_of

# The entropy of a density by its mean log cosh, that of a normal one being `NORMAL`, and by its
# skewness (Hyvärinen, 1998).
NORMAL, HEAVY, SKEW = 0.37457, 79.047, 7.4129


# ---- directions ----


def direction_evidence(left: Float[np.ndarray, "row dim"], pairs: Pairs) -> Square:
    """Return by how many nats a relation of residuals is likelier from source to target than the
    other way round, antisymmetric; 0 for what is no pair, and near 0 where all is normal.

    **Arguments:**

    - `left`: the residuals, NaN where they are not known.
    - `pairs`: which to compare, symmetric.
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
    """Return the entropy of a sample of mean zero once it is of variance one, up to a constant."""
    u = u / max(u.std(), 1e-300)
    log_cosh = np.logaddexp(u, -u) - np.log(2)
    skew = (u * np.exp(-(u**2) / 2)).mean()
    return float(-HEAVY * (log_cosh.mean() - NORMAL) ** 2 - SKEW * skew**2)


# The p-value at which a source that is not kept counts half in a ranking, and the part that counts
# of all sources of a target into which none is kept. A ranking by shares of what tells each rate
# would give what chance explains of an actuator as much as what drives a sensor. Both were chosen
# by looking at rankings of simulated plants, of the world's benchmarks and of CausalDynamics'
# developer set: a level of .2 ranks them about as well; a smaller part ranks plants better, and
# networks of which few samples keep few edges worse.
LIKELY, UNDRIVEN = 0.05, 0.25


# ---- error rates, and relations ----


@dataclasses.dataclass(frozen=True, eq=False)
class ErrorRates:
    """The p-value `p` and the false discovery rate `q` of every candidate edge,
    `[source target lag]`.
    """

    p: KnownScores

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
        """Return a ranking of sources in which another variable without a kept edge counts less:
        1 / (1 + 20 p), where p is that of all its lags together by Fisher's method, and a quarter
        of that where the target keeps no edge from any other variable, as one that nothing drives.
        """
        from scipy.special import chdtrc  # takes a moment to import

        linked, others = graph.any(axis=2), ~np.eye(len(graph), dtype=bool)
        tested = np.isfinite(self.p)
        surprise = -2 * np.log(np.where(tested, np.maximum(self.p, 1e-300), 1)).sum(axis=2)
        weight = 1 / (1 + chdtrc(2 * np.maximum(tested.sum(axis=2), 1), surprise) / LIKELY)
        undriven = ~np.any(linked & others, axis=0, keepdims=True)
        weight = np.where(undriven, weight * UNDRIVEN, weight)
        # What precedence ranks below nothing stays there.
        return np.where(linked | ~others | (ranking <= 0), ranking, ranking * weight)


# Flags of pairs of variables, of candidate edges and of targets.
PAIRS, EDGES = ("at_once", "confounded", "not_excluded", "partly"), ("drifting", "unconfirmed")
TARGETS = ("static", "derived", "turning_back", "persistent")


@dataclasses.dataclass(frozen=True, eq=False)
class Relations:
    """The relations that a graph of causes does not hold.

    - `correlation` of what is left of two rates, pairs that are related `at_once` and pairs that
        are `confounded`, `[source target]`, symmetric.
    - `forward`: of pairs at once, by how many nats the source rather drives the target than the
        other way round, by the shape of their distributions, `[source target]`, antisymmetric.
    - `drifting`: inputs whose effect changes, `[source target lag]`.
    - `static`: variables that are functions of the present states of others, `[target]`, and those
        that seem to be computed from them, `derived`.
    - `rivals`: what replacing a kept input by another candidate costs, `Rivals`.
    - `not_excluded`: links that may as well come from something unseen that drives both, since
        nothing that moves the source shows that the target follows, `[source target]`.
    - `partly`: links whose target follows the source by less than all of their effect, where
        something moves it, `[source target]`; those that are not excluded among them.
    - `unconfirmed`: links between different variables that explain nothing that is new in their
        source, `[source target lag]`.
    - `turning_back`: variables of which what is left of the rate turns back at the next step, as
        errors of the measurement make it, `[target]`.
    - `persistent`: variables whose rates go on from one step to the next beyond what is kept, where
        those of the record do, `[target]`.
    - `later`: states later than every candidate that explain what is left of a rate, `Later`.
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
        """Return the relations of a graph of which nothing is told."""
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
        """Return the relations with what those of `some` variables tell of the target j; that
        something hidden drives it and an input is noted for this direction alone.
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
        """Return the relations where what is told of links is told of some pairs only."""
        either = linked | linked.T
        return dataclasses.replace(
            self,
            confounded=self.confounded & either,
            not_excluded=self.not_excluded & linked,
            partly=self.partly & linked,
        )

    def of_events(self) -> "Relations":
        """Return the correlation alone, and what is static: other tests take the inputs kept for
        what explains the rates.
        """
        nothing = Relations.none(self.unconfirmed)
        return dataclasses.replace(
            nothing, correlation=self.correlation, static=self.static, derived=self.derived
        )

    def ranked(
        self, lagged: Square, graph: KnownGraph, risk: Float[np.ndarray, " target"]
    ) -> Square:
        """Return a ranking of sources by their past and present with what pairs share at once: the
        part of the rate's variance that goes with what is new at the same time in the source alone,
        more of it for the likelier direction; what moves all variables, as a market does, would
        outweigh every delayed link. Where a link is kept, it tells the direction better.

        **Arguments:**

        - `lagged`: the ranking by past and present states.
        - `risk`: share of the variance of each rate that is left.
        """
        linked = graph.any(axis=2)
        alone = self.at_once & ~linked & ~linked.T
        shared = partial_correlations(self.correlation) ** 2
        shared *= np.clip(np.nan_to_num(risk), 0, 1)[None]
        odds = 1 / (1 + np.exp(-np.clip(self.forward, -50, 50)))
        return lagged + np.where(alone, shared * odds, 0)

    def of_inputs(self, inputs: Bool[np.ndarray, " source"]) -> "Relations":
        """Return the relations where some variables are known to drive the others: nothing unseen
        drives one of them and a target, and what they share with it at once goes its way. What two
        of them share is no matter of the system.
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
        """Return the relations where some sources have a new value at few samples only.

        What is new in them came at any time since the last value, so that it cannot be told whether
        their targets follow it: what seemed to be a hidden driver is not excluded.
        """
        held = np.zeros(len(self.confounded), bool)
        held[list(sources)] = True
        untold = self.confounded & (held[:, None] | held[None, :])
        return dataclasses.replace(
            self,
            confounded=self.confounded & ~untold,
            not_excluded=self.not_excluded | untold & held[:, None],
            unconfirmed=self.unconfirmed & ~held[:, None, None],
        )


# Rows below which nothing is tested; and the share of a target's windows that miss nothing up to
# which it is told by windows of its own.
FEWEST, COMPLETE = 40, 0.5


def later_of(
    windows: Windows, graph: Any, model: AbstractDelayModel | Callable | None = None
) -> Later:
    """Return the part of [`relations`][ndde_jax.assess.relations] that tells of delays longer than
    every candidate.
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
def error_rates(windows: Checked[Windows], graph: Any) -> ErrorRates:
    """Return the error rates of every candidate edge, given the other edges of a graph.

    **Arguments:**

    - `windows`: of one system, outside `jit`.
    - `graph`: `[source target lag]`.

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
    p = edge_p_values(read_inputs(rows), graph) if enough else np.full(graph.shape, np.nan)
    if enough and windows.partial is not None:
        some = kept_p_values(read_inputs(partial_rows_of(windows)), graph, p)
        p = np.where(rows.allowed, some, np.nan)
    return ErrorRates(p)


@one_blas_thread()
def relations(
    windows: Checked[Windows],
    graph: Any,
    model: AbstractDelayModel | Callable | None = None,
    *,
    undecided: Checked[bool] = False,
) -> Relations:
    """Return what the inputs of a graph leave says about pairs of variables and about time.

    **Arguments:**

    - `windows`: of one system, outside `jit`.
    - `graph`: `[source target lag]`.
    - `model`: a drift on that graph, which is given beside polynomials of the inputs where these
        leave much more: the rest of a strong bend is nothing unseen. By default none.
    - `undecided`: whether forward differences may as well be those of a continuous path. What a
        link of such a path does within a step then relates no pair at once. By default they are
        not.

    **Returns:** [`Relations`][ndde_jax.assess.Relations]; nothing is told of fewer than 40 windows.

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
    every = rows if windows.partial is None else partial_rows_of(windows, model)
    found = _relations(rows, every, graph, required, undecided)
    if len(rows.rates) > COMPLETE * np.median(np.asarray(windows.count(graph))):
        return found
    # Most windows miss some variable.
    return _by_target(found, every, graph, required, undecided)


def _by_target(
    found: Relations, every: Rows, graph: KnownGraph, required: KnownGraph, undecided: bool
) -> Relations:
    """Return the relations of every target by the rows that hold it, its inputs, and theirs, where
    there are enough; pairs at once as they were found, by the rows that hold both.
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
    """Return the relations by rows that are complete, and by `every` row where some of its values
    may be missing.
    """
    if len(rows.rates) < FEWEST:
        return Relations.none(graph)
    inputs = read_inputs(rows)
    left = residuals(inputs, graph)
    some, apart = inputs, left
    # What polynomials leave of a bend that two rates share relates them: the drift is given too.
    if every.known is not None:
        some, apart = read_inputs(every), partial_residuals(every, graph, poor=1.0)
    elif rows.drift is not None:
        apart = residuals(inputs, graph, poor=1.0)
    mistaken = turning_back(rows, left)
    static, hidden = static_targets(rows, left), unseen(inputs, graph, left, mistaken)
    # A map may well act over several lags: there only what was tested says that a target does not.
    partly = hidden.partly & (np.isfinite(hidden.follows) | (not undecided))
    related = at_once(some, graph, apart, undecided)
    correlation = related.correlation
    if static.derived.any():
        # What is computed from others is related to them at once, and relates them given itself.
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
