"""Search for graphs by spline regression: closed-form fits, fast enough for many lags.

With twenty variables and ten lags, a target has two hundred candidate inputs, most of them nearly
collinear with others. Refitting a network for each of them at every step of a search takes hours;
least squares on spline features takes milliseconds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._axes import from_flat_inputs
from .._checks import check_whole, check_windows
from .._memory import drop_programs_if_many
from .._types import (
    Checked,
    Graph,
    Scores,
    concretely,
    namespace_of,
    on_host_or_traced,
    to_jax,
)
from ..fit._prices import EBIC, AbstractPrice
from ..regression._design import MANY_QUANTILES, QUANTILES, Design, design_of
from ..regression._search import columns_price
from ..regression._terms import (
    FLOOR,
    Described,
    Fit,
    Own,
    Terms,
    describe,
    describe_fit,
    find_all_terms,
    find_sums,
    find_terms,
    find_traced,
    fit_terms,
)
from ..windows._stencils import SMOOTH_SHARE
from ..windows._windows import FlatData, FlatPartial, KnownData, Windows
from ._worth import Worth, worth_of

# Number of inputs per target that are listed for closer examination.
SHORTLIST = 12


class SplineGraph(eqx.Module):
    """A graph found by [`spline_graph`][ndde_jax.select.spline_graph], with evidence for its edges.

    - `graph`: `[source target lag]`.
    - `evidence`: rise of the logarithm of a target's risk without a kept edge, or its fall with a
      dropped one, per edge; a ranking across targets.
    - `shortlist`: inputs worth examining, flat (lag, source), best first, `[target slot]`.
    - `risk`: standardised in-sample mean squared error per target.
    - `rate`: fitted standardised rates, `[window target]`.
    - `cost`: the minimised criterion per window, `[target]`.
    - `products`: number of products of two inputs in use, `[target]`.
    - `source_value`: rise of the risk without a source at all its kept lags, which can replace one
      another in `value`; 0 for sources that are not kept, `[source target]`.
    """

    graph: Graph
    evidence: Scores
    source_value: Float[Array, "source target"]
    shortlist: Int[Array, "target slot"]
    risk: Float[Array, "target"]
    rate: Float[Array, "window target"]
    cost: Float[Array, "target"]
    products: Int[Array, "target"]

    @property
    def value(self) -> Scores:
        """The evidence as a share of the variance of the target's rate, as
        [`SignalStrengths.value`][ndde_jax.measure.SignalStrengths]: the rise of its risk without a
        kept edge, the fall with a dropped one. Unlike these shares, logarithms give a weak input of
        a rate that is nearly explained as much weight as a strong input of one that is not.
        """
        return _worth(self.graph, self.evidence, self.risk)


@on_host_or_traced
def _worth(xp, graph, evidence, risk):
    change = xp.where(graph, xp.expm1(evidence), -xp.expm1(-evidence))
    return (risk[None, :, None] + FLOOR) * change


def spline_graph(windows: Checked[Windows], *, shortlist: Checked[int] = SHORTLIST) -> SplineGraph:
    """Return the inputs that drive each rate, from spline regression with the extended Bayesian
    information criterion.

    For each target, inputs are added, dropped and *exchanged* as long as that lowers

        n log(risk + 10⁻⁴) + (features) log n · n / (n − features − 2) + 2 log (F choose inputs)

    ([Chen and Chen, 2008](https://doi.org/10.1093/biomet/asn034)), where F is the number of
    candidates. The best of three kinds of model is taken: a linear model with one feature per
    input; the same with products of inputs and the target's own state, also with one feature each;
    or splines and products, with all the features of its spline charged for each input. An
    exchange corrects a wrong choice among neighbouring lags, which no single addition or removal
    can. The residual then indicates which products of two inputs may help, since inputs that act
    only through one another are not detected by their splines. The search continues with these
    products until none helps. On a smooth path, a sum over many lags of all sources already fits
    closely, so products of the states at the first lag are also searched separately. A
    product costs one column, the choice of its inputs, and 2 log (pairs choose products). An input
    worth less than 10⁻⁴ of the rate's variance, the resolution of difference quotients, is dropped,
    unless it has returned twice. With
    [`PartialWindows`][ndde_jax.windows.PartialWindows], each target is searched in the windows that
    contain its rate and the inputs found for it.

    Accurate where effects of different inputs are additive or multiplicative. Elsewhere it admits
    proxies that a network does not need, so [`Gates`][ndde_jax.select.Gates] or
    [`Moves`][ndde_jax.select.Moves] should decide.

    **Arguments:**

    - `windows`: windows of one system.
    - `shortlist`: number of inputs to list for each target, static.

    **Returns:** [`SplineGraph`][ndde_jax.select.SplineGraph]; NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`) or `shortlist` below 1.

    ```python
    import numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.spline_graph(windows).graph[:, :, 0])
    ```
    """
    check_windows(windows, "spline_graph")
    check_whole(shortlist, "shortlist")
    drop_programs_if_many(windows)
    if namespace_of(windows) is jnp:
        return _search_traced(windows, min(shortlist, windows.dim * windows.n_lags))[0]
    with concretely():
        data = KnownData(windows)
        if data.partial is not None:
            return search_partial(data, min(shortlist, data.inputs.shape[1]))
        return search_known(data, design_of(data.inputs, data.weight), shortlist)


def search_known(
    data: KnownData, design: Design, shortlist: int, now: list[Terms] | None = None
) -> SplineGraph:
    """Return the [`spline_graph`][ndde_jax.select.spline_graph] of windows with a given design.

    - `now`: the [`present_terms`][ndde_jax.select._splines.present_terms], if known.
    """
    if data.refused:
        nothing = [Terms.lines(mask) for mask in data.allowed & False]
        with np.errstate(divide="ignore", invalid="ignore"):
            return graph_of_terms(data, [design] * data.dim, nothing, shortlist)
    outputs = _standardised(data, design)
    own = own_states(data.dim, design.n_inputs)
    every = find_all_terms(design, outputs, data.allowed, data.required, data.dim, now, own=own)
    return graph_of_terms(data, [design] * data.dim, every, shortlist)


class Searched(NamedTuple):
    """The graph of windows; the targets described by splines with `many` knots, and those described
    by present states `alone`, `[target]`.
    """

    found: SplineGraph
    many: Bool[np.ndarray, "target"]
    alone: Bool[np.ndarray, "target"]


# Unexplained share of a rate below which a law of the present states without noise is taken to be
# complete. Share below which a law is exact, so that the past states it needs do not merely
# compensate for errors of the splines. Chosen by inspecting every other flow of dysts. That the
# law needs no more inputs was chosen on these and on coupled networks of CausalDynamics.
MISSED, KNOWN = 0.01, 1e-5
# Largest unexplained share of a rate's variance for paths without noise. Noise of a hundredth of a
# standard deviation per sample leaves more for any path that moves by less than a third per sample.
NOISELESS = 1e-3
# Error variance assumed for the inputs of a record without noise. With zero, differences of a few
# states just before the present reproduce a rate, with large coefficients of opposite signs. Chosen
# by inspecting the links of seven chaotic flows and of flows with delays.
EXACT = 1e-6
# Difference of the criterion, in units of twice the log likelihood, within which the inputs of a
# map, and for a flow the present of its target, are preferred.
MARGIN = 6.0


class _Law(NamedTuple):
    """The terms of a rate on a design, with their fit."""

    design: Design
    terms: Terms
    fit: Fit

    @classmethod
    def of(cls, design: Design, y: Float[np.ndarray, " window"], terms: Terms) -> "_Law":
        return cls(design, terms, fit_terms(design, y, terms))

    def cost(self) -> float:
        return float(self.fit.criterion())

    def late(self, dim: int) -> bool:
        """Return whether the terms read past states."""
        return bool(self.terms.reads()[dim:].any())

    def repairs(self, present: "_Law", dim: int) -> bool:
        """Return whether the terms read past states that only compensate for errors of the law of
        the present states.
        """
        return bool(_compensates(self.fit, present.fit, dim))


def _compensates(law: Fit, present: Fit, dim: int) -> Any:
    """Return whether a law reads past states that only compensate for errors of the law of the
    present states, which then needs no more inputs: the present states of many variables that move
    together also reproduce what the own past of one explains.
    """
    inputs = law.terms.reads()
    simple = present.terms.reads().sum() <= inputs.sum()
    close = (present.risk < MISSED) & (law.risk > KNOWN) & (law.risk < NOISELESS)
    return close & simple & inputs[dim:].any()


def with_own_present(inputs: Any, j: Any, dim: int, allowed: Any, required: Any) -> Any:
    """Return the inputs of a rate of a flow, `[input]`, with the present of target `j` in place of
    its past states, if it has any and none of them is required.
    """
    numbers = np.arange(inputs.shape[0])
    past = inputs & (numbers % dim == j) & (numbers >= dim)
    present = allowed & (numbers == j)
    may = past.any() & present.any() & ~(past & required).any()
    return (inputs & ~(past & may)) | (present & may)


def search_flow(
    data: KnownData,
    few: Design,
    many: Callable[[], Design] | None,
    shortlist: int,
    now: list[Terms],
) -> Searched:
    """Return the [`spline_graph`][ndde_jax.select.spline_graph] of a flow with past and present
    states as inputs, some of whose rates may have no noise. Each target has a design with few
    knots, or one with many if sums of its splines describe the target better.

    Differences of a few states just before the present reproduce the rate of a path without noise,
    and so compensate for errors of the splines in a law of the present states. If these errors are
    small, the law needs no more inputs, and past states do not explain the rest exactly, only
    present states are used.

    - `many`: the design with many knots; None for few knots alone.
    - `now`: the [`present_terms`][ndde_jax.select._splines.present_terms].
    """
    outputs, dim = _standardised(data, few), data.dim
    states = own_states(dim, few.n_inputs)
    terms = find_all_terms(few, outputs, data.allowed, data.required, dim, now, own=states)
    laws = [_Law.of(few, y, own) for y, own in zip(outputs.T, terms, strict=True)]
    present = [
        _Law.of(few, y, own.among(few.n_inputs)) for y, own in zip(outputs.T, now, strict=True)
    ]
    both = list(zip(laws, present, strict=True))
    if many is not None:
        both = _with_spline_sums(both, data, outputs, many)
    alone = np.array([law.repairs(own, dim) for law, own in both])
    alone &= ~data.required[:, dim:].any(axis=1)
    laws = [own if taken else law for (law, own), taken in zip(both, alone, strict=True)]
    designs, terms = [law.design for law in laws], [law.terms for law in laws]
    found = graph_of_terms(data, designs, terms, shortlist)
    return Searched(found, np.array([design is not few for design in designs]), alone)


def _with_spline_sums(
    both: list[tuple[_Law, _Law]],
    data: KnownData,
    outputs: Float[np.ndarray, "window target"],
    many: Callable[[], Design],
) -> list[tuple[_Law, _Law]]:
    """Return the law of every rate and its law of the present states, replaced by sums of splines
    with many knots where these are better.

    A law of the present states with few knots cannot be improved if its residual is negligible and
    its price is below that of two inputs with many knots.
    """
    dim, n, n_columns = data.dim, both[0][0].fit.n, 2 * (len(MANY_QUANTILES) - 1)
    least = n * np.log(FLOOR) + columns_price(n, float(n_columns))
    places = [
        j
        for j, (law, _) in enumerate(both)
        if law.late(dim) or law.fit.risk > FLOOR or law.cost() > least
    ]
    if not places:
        return both
    y, allowed, required = outputs[:, places], data.allowed[places], data.required[places]
    first = required | allowed & (np.arange(allowed.shape[1]) < dim)
    sums = (find_sums(many(), y, may, required) for may in (allowed, first))
    better = list(both)
    for j, *terms in zip(places, *sums, strict=True):
        whole, now = (_Law.of(many(), outputs[:, j], own) for own in terms)
        law, present = both[j]
        better[j] = min(law, whole, now, key=_Law.cost), min(present, now, key=_Law.cost)
    return better


def present_terms(data: KnownData, design: Design) -> list[Terms]:
    """Return the terms of every rate found by a search among the inputs at the first lag."""
    first, outputs = slice(data.dim), _standardised(data, design)
    few = design.of_inputs(first)
    own = own_states(data.dim, data.dim)
    return find_all_terms(few, outputs, data.allowed[:, first], data.required[:, first], 0, own=own)


def own_states(dim: int, n_inputs: int) -> list[Own]:
    """Return the own state of every rate among its inputs."""
    return [Own.of(j, n_inputs, dim) for j in range(dim)]


def _standardised(data: KnownData, design: Design) -> Float[np.ndarray, "window target"]:
    """Return the rates standardised for regressions."""
    return np.stack([design.standardised(output)[0] for output in data.outputs.T], axis=1)


def graph_of_terms(
    data: KnownData, designs: list[Design], every: list[Terms], shortlist: int
) -> SplineGraph:
    """Return the graph that the terms of every rate read, each on a design, and its evidence."""
    n_slots = min(shortlist, designs[0].n_inputs)
    rows = [
        describe(design, raw, terms, data.dim, n_slots)
        for design, raw, terms in zip(designs, data.outputs.T, every, strict=True)
    ]
    return _graph_of(_stacked(rows), data)


def _stacked(rows: list[Described]) -> Described:
    return jax.tree.map(lambda *parts: np.stack(parts), *rows)


# Most searches of a target with missing inputs; the last one is among the inputs found before.
ROUNDS = 4


def partial_knots(partial: FlatPartial) -> Any:
    """Return the knots of the splines of every input, at quantiles of its measured values and the
    same for all targets, `[input knot]`.
    """
    xp = namespace_of(partial)
    seen = partial.known & partial.rated.any(axis=1)[:, None]
    # Values in windows that have any rate; for an input measured in none of them, all values.
    columns = xp.where(seen | ~seen.any(axis=0)[None], partial.inputs, xp.nan)
    return xp.nanquantile(columns, np.asarray(QUANTILES, columns.dtype), axis=0).T


def search_partial(data: KnownData, shortlist: int) -> SplineGraph:
    """Return the [`spline_graph`][ndde_jax.select.spline_graph] of windows with missing values,
    each target on its own windows.

    At first a target has all windows that contain its rate, with expected values in place of
    missing inputs. Then it is searched again in the windows in which the inputs found are measured,
    until no input is found that is missing in any of them. So every kept input was measured
    wherever it was fitted, and was compared there with all others.
    """
    partial: Any = data.partial
    knots, n_slots = partial_knots(partial), min(shortlist, data.inputs.shape[1])
    rows, each = [], (partial.outputs.T, partial.rated.T, data.allowed, data.required)
    for j, (raw, rated, allowed, required) in enumerate(zip(*each, strict=True)):
        given, used = (partial, knots, raw, rated, allowed, required, data.dim, j), required
        for number in range(ROUNDS):
            found = _searched_once(*given, used, number)
            if not found.again:
                break
            used = found.used
        rows.append(describe(found.design, raw, found.terms, data.dim, n_slots))
    return _graph_of(_stacked(rows), data)


class _Found(NamedTuple):
    """The result of a search of one target: the `terms` of a rate `y` in the windows of a `design`,
    and those of the `present` states alone; the inputs that the windows of the next search must
    contain, `used`; and whether that search is needed because it has fewer windows, `again`.
    """

    design: Design
    y: Any
    terms: Terms
    present: Terms
    used: Any
    again: Any


def _searched_once(
    partial: FlatPartial, knots, raw, rated, allowed, required, dim: int, j, used, number
) -> _Found:
    """Return the result of a search in the windows that contain a rate and the inputs `used`."""
    weight = partial.weight(rated, used)
    design = design_of(partial.inputs, weight, knots)
    y, _ = design.standardised(raw)
    may, own = allowed & (used | (number < ROUNDS - 1)), Own.of(j, design.n_inputs, dim)
    terms = find_terms(design, y, may, required, dim, own)
    more = used | terms.reads()
    again = (weight > partial.weight(rated, more)).any()
    return _Found(design, y, terms, terms, more, again)


def _graph_of(found: Described, data: KnownData | FlatData) -> SplineGraph:
    """Return the results of all targets on the axes of a graph; NaN for refused windows."""
    dtype = data.outputs.dtype if isinstance(data, FlatData) else data.dtype
    xp = namespace_of(found)
    known = lambda a: to_jax(xp.where(data.refused, np.nan, a), dtype)  # noqa: E731
    return SplineGraph(
        graph=to_jax(from_flat_inputs(found.mask & xp.logical_not(data.refused))),
        evidence=known(from_flat_inputs(found.evidence)),
        source_value=known(found.rise.T),
        shortlist=to_jax(found.slots),
        risk=known(found.risk),
        rate=known(found.fitted.T),
        cost=known(found.cost),
        products=to_jax(found.products),
    )


class Priced(NamedTuple):
    """The inputs of each target that are worth a price, `[target input]`; the risk with only these
    inputs, and the price, `[target]`.
    """

    mask: Bool[Array, "target input"]
    risk: Float[Array, "target"]
    limit: Float[Array, "target"]


def search_priced(
    windows: Windows, shortlist: int, price: AbstractPrice | None
) -> tuple[SplineGraph, Priced]:
    """Return the [`spline_graph`][ndde_jax.select.spline_graph] of traced windows, and which of its
    inputs are worth a price; without a price, their lower bound over stretches of the record must
    also be positive.
    """
    return _search_traced(windows, min(shortlist, windows.dim * windows.n_lags), price, priced=True)


@eqx.filter_jit
def _search_traced(
    windows: Windows, n_slots: int, price: AbstractPrice | None = None, *, priced: bool = False
) -> tuple[SplineGraph, Any]:
    data, partial, dim = FlatData(windows), FlatPartial.of(windows, jnp), windows.dim
    scheme, lags = windows.scheme, windows.lags
    # Whether the present of a flow may replace past states.
    beside = priced and scheme != "euler" and len(lags) > 1 and lags[0] == 0
    error: Any = 0.0
    if beside and scheme == "central4":
        exact = jnp.mean(windows.noise_share) < SMOOTH_SHARE
        error = jnp.where(exact, EXACT, 0.0).astype(data.inputs.dtype)
    whole = design_of(data.inputs, data.weight, error=error) if partial is None else None

    # A batch is a loop over one program: equally fast here, and much faster to compile.
    @jax.custom_batching.sequential_vmap
    def search(design, raw, allowed, required, partial):
        knots = None if partial is None else partial_knots(partial)

        def target(args):
            raw, rated, *given, j = args

            def once(may, must, used, number):
                if partial is not None:
                    given = (raw, rated, may, must, dim, j)
                    return _searched_once(partial, knots, *given, used, number)
                y, _ = design.standardised(raw)  # every window contains all inputs
                both = find_traced(design, y, may, must, dim, Own.of(j, design.n_inputs, dim))
                return _Found(design, y, *both, used, jnp.asarray(False))

            return _search_target(once, *given, j, dim, scheme if beside else None)

        rated = jnp.ones_like(raw, bool) if partial is None else partial.rated
        raw = raw if partial is None else partial.outputs
        return jax.lax.map(target, (raw.T, rated.T, allowed, required, jnp.arange(dim)))

    # The choice of terms is piecewise constant; their worth is differentiable.
    given, partial_given = jax.lax.stop_gradient(((whole, data.outputs), partial))
    every, used = search(*given, data.allowed, data.required, partial_given)
    if partial is None:
        outputs, rated = data.outputs, jnp.ones(data.outputs.shape, bool)
    else:
        outputs, rated = partial.outputs, partial.rated
        knots = partial_knots(partial)

    def described(args):
        raw, rated, terms, used = args
        design = whole
        if partial is not None:
            design = design_of(partial.inputs, partial.weight(rated, used), knots)
        if not priced:
            return describe(design, raw, terms, data.dim, n_slots), None
        # The fits without each input are solved once: two batches of solves in parallel can
        # deadlock, waiting for one another's threads.
        fit = fit_terms(design, design.standardised(raw)[0], terms)
        worth = worth_of(fit, fit, design.root, data.dim)
        found = describe_fit(design, raw, fit, worth.rises, n_slots)
        return found, _worth_a_price(fit, worth, price)

    found, kept = jax.lax.map(described, (outputs.T, rated.T, every, used))
    return _graph_of(found, data), kept


def _worth_a_price(fit: Fit, worth: Worth, price: AbstractPrice | None) -> Priced:
    """Return the inputs that one target keeps at a price."""
    limit = worth.limit(jnp.maximum(fit.n, 2), price)
    worth = worth.with_best_lags(limit)
    kept = worth.mask & (worth.value > limit)
    if price is None or isinstance(price, EBIC):
        kept = kept & ~(worth.lower <= 0)
    return Priced(kept, fit.corrected_risk(worth.mask & ~kept), limit)


def _search_target(
    once: Callable[..., _Found], allowed, required, j, dim: int, scheme: str | None
) -> tuple[Terms, Any]:
    """Return the final terms of target `j`, and the inputs that its windows had to contain, under
    tracing. One loop, whose body is compiled once, serves all searches.

    - `once`: the search among allowed inputs, with all required ones, in the windows that contain
        given inputs; its last argument is the number of earlier searches.
    - `scheme`: scheme of the windows of a flow whose present may replace past states; None for
        other windows.
    """

    def searched(carry):
        terms, cost, (may, must, used), number, _, last = carry
        found = once(may, must, used, number)
        again = found.again & (number + 1 < ROUNDS) & ~last
        new, new_cost, other = found.terms, cost, found.terms.reads()
        if scheme is not None:
            law, now = (fit_terms(found.design, found.y, t) for t in (new, found.present))
            alone = _compensates(law, now, dim) & ~must[dim:].any()
            alone &= (scheme == "midpoint") | (found.design.error > 0)
            new = jax.tree.map(lambda a, b: jnp.where(alone, b, a), new, found.present)
            new_cost = jnp.where(alone, now.criterion(), law.criterion())
            better = ~last | (new_cost <= cost + MARGIN)
            new = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, terms)
            other = with_own_present(new.reads(), j, dim, allowed, required)
        asks = (other != new.reads()).any() & ~again & ~last
        given = (other, other, used | other), (may, must, jnp.where(again, found.used, used))
        given = jax.tree.map(lambda a, b: jnp.where(asks, a, b), *given)
        return new, new_cost, given, number + 1, again | asks, asks

    yes, no = jnp.asarray(True), jnp.asarray(False)
    start = Terms.none(len(required), jnp), (allowed, required, required)
    carry = start[0], jnp.zeros(()), start[1], jnp.zeros((), jnp.int32), yes, no
    terms, _, (_, _, used), *_ = jax.lax.while_loop(lambda c: c[4], searched, carry)
    return terms, used
