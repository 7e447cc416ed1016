"""Search for a graph with a strategy and a price, and the default strategy.

Closed-form regressions choose inputs and delays between the candidate lags, and networks judge
where they explain more.
"""

import contextlib
import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs
from .._blas import one_blas_thread
from .._checks import (
    check_config,
    check_flag,
    check_key,
    check_kind,
    check_windows,
    is_traced,
)
from .._memory import drop_programs_if_many
from .._types import (
    Checked,
    KnownMask,
    RealScalarLike,
    concretely,
    divisor,
    setting,
    to_jax,
)
from ..fit._newton import NetworkFit
from ..fit._prices import EBIC, AbstractPrice, as_price
from ..fit._refit import StrengthConfig
from ..regression._readings import Readings
from ..regression._search import columns_price, log_choices
from ..regression._terms import FLOOR
from ..windows._windows import KnownData, Windows
from ._between import Refined
from ._judge import Judged, fit_on, judge
from ._measured import Described, Measured, drift_on, fit_screened, measure_targets, networks_of
from ._returns import proxies_among
from ._screened import Screened
from ._splines import MARGIN, SplineGraph, search_priced, with_own_present
from ._strategies import AbstractStrategy, Gates, Moves, Recovery, Splines, recovery
from ._target_fit import TargetFit, significant_lack_of_fit
from ._whole import ClosedForms, on_whole
from ._worth import BLOCKS, stretches, student_quantile

# From this many candidate inputs per target, judging every edge by refitted networks takes too
# long: the cost grows with the square of the number.
MANY_INPUTS = 25
# A network whose criterion is this much worse than that of a nonlinear regression, per window, may
# still win after inputs that it does not need are dropped.
SLACK_PER_WINDOW = 0.05
# Confidence that a network leaves less than a regression, from its gain in 32 stretches. Chosen by
# inspection between the gains for unrelated series with a shared volatility and those for nonlinear
# records of the world's benchmarks.
THROUGHOUT = 0.975
TOGETHER = (
    "Sources act over several lags each. For each target, sources were chosen first and then their "
    "lags, at a price adapted to the size of the effects in this record. Many of these lags are "
    "weak individually."
)
PROXIES = (
    "Much of the residuals is common to all variables, like the market factor of stocks. Inputs "
    "that explain nothing beyond these common factors are omitted: {}."
)
ALONE = (
    "Past states were omitted as inputs of {} of {} variables: without noise, differences of a few "
    "past states reproduce any rate, and the present states alone explain 99 % of it."
)


def recover(
    windows: Checked[Windows],
    strategy: Checked[AbstractStrategy | None] = None,
    price: Checked[AbstractPrice | RealScalarLike | None] = None,
    *,
    key: Checked[PRNGKeyArray],
) -> Recovery:
    """Find which variables drive which, at which lag.

    Pure: `jit`, and `vmap` over windows, keys and all numbers in strategy and price, agree with
    single calls. [`Default`][ndde_jax.select.Default] does less under both, so there they agree
    with each other. A graph is piecewise constant and has no derivatives. `risk` and `scores` of
    [`Splines`][ndde_jax.select.Splines] are differentiable in the windows, given the graph.

    **Arguments:**

    - `windows`: windows of one system, from [`lagged_windows`][ndde_jax.lagged_windows].
    - `strategy`: [`Gates`][ndde_jax.select.Gates], [`Splines`][ndde_jax.select.Splines],
        [`Moves`][ndde_jax.select.Moves], [`Exhaustive`][ndde_jax.select.Exhaustive] or
        [`CoefficientPath`][ndde_jax.select.CoefficientPath]. Default:
        [`Default`][ndde_jax.select.Default], closed forms, and networks where these explain more.
    - `price`: least worth of a kept edge: [`EBIC`][ndde_jax.select.EBIC], the default,
        [`PerInput`][ndde_jax.select.PerInput], or a number λ for `PerInput(λ)`.
    - `key`: source of all randomness.

    **Returns:** [`Recovery`][ndde_jax.select.Recovery]; with NaN and the status `refused` for
    windows that [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`), for a value that is not a
    strategy or price, and for a price that the strategy cannot use.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    found = ndde.recover(windows, ndde.select.Splines(), key=jax.random.key(0))
    print(found.graph[:, :, 0], found.status)
    ```
    """
    check_windows(windows, "recover")
    key = check_key(key)
    strategy = as_strategy(strategy)
    price = None if price is None else as_price(price)
    drop_programs_if_many(windows, strategy, price, key)
    known = not is_traced((windows, strategy, price, key))
    with one_blas_thread(), concretely() if known else contextlib.nullcontext():
        return strategy.search(windows, price, key)


def refitting_strategy(windows: Windows, refit: StrengthConfig | None = None) -> AbstractStrategy:
    """Return the strategy, with these settings, that judges every edge by refitted networks.

    It is gates for few candidates. It is moves from 25 candidate inputs (variables × lags) on, and
    for midpoint windows. The cost of gates grows with the square of the number of candidates.
    """
    refit = StrengthConfig() if refit is None else refit
    many = windows.dim * windows.n_lags >= MANY_INPUTS
    return Moves(refit=refit) if many or windows.scheme == "midpoint" else Gates(refit=refit)


def as_strategy(strategy: Any, otherwise: AbstractStrategy | None = None) -> AbstractStrategy:
    """Return a strategy; None means the default one, or `otherwise` if given.

    **Raises:** `ValueError` for anything else, for example a class.
    """
    if strategy is None:
        return otherwise or Default()
    expected = "a strategy such as ndde_jax.select.Moves()"
    check_kind(strategy, AbstractStrategy, "strategy", expected, "Mind the parentheses: Moves().")
    return strategy


class Default(AbstractStrategy):
    """The default strategy: closed-form regressions choose the inputs, and networks judge them
    where nonlinear functions of the inputs explain more.

    The default of [`recover`][ndde_jax.recover] and of [`Recipe`][ndde_jax.Recipe]. Regressions on
    splines and products choose inputs and describe the drift. Where a closed-form test finds that
    smooth functions of these inputs explain more, a network is fitted. Unless it is clearly worse,
    networks judge edges added, dropped and exchanged (see
    [`Moves`][ndde_jax.select.Moves]). If the result is better by the extended Bayesian
    information criterion, the network replaces the splines. Edges whose lower bound is not positive
    are dropped, and so are edges that are not worth a given price.

    For records without noise that have past states as inputs, sums of splines with 21 knots are
    tried as well, starting from the best pair of inputs. Inputs are then assumed to have errors of
    a thousandth of their standard deviation. Otherwise a deterministic law would select lags that
    compensate for the error of seven knots, or adjacent states whose differences are rates. Where
    the present states explain 99 % of a rate with no more inputs, and past states leave more than
    a hundred-thousandth unexplained, only the present states are used.

    [`discover`][ndde_jax.discover] has the samples as well and does more:

    - *Innovations*, what a variable's own past does not predict. Where values are mostly
        innovations, like stock returns, windows are weighted by the inverse of the local variance.
    - *Common factors.* Where they move all variables, as a market does, sources must explain
        something beyond these factors at their lag.
    - *Measurement errors.* Several lags of one source average them out. So lags that explain less
        than the errors in the inputs hide are dropped, and networks add no other lags of that
        source.
    - *Maps.* The inputs of the map comparison are used where they explain as much. Sources may act
        over several lags each, most of them weak. Then sources are chosen first and their lags
        after that, at a price adapted to the size of the effects, and all of these are kept.
    - *Flows.* The present of a target replaces its own past where that describes the rate almost
        as well.
    - *Delays between the candidates.* Networks then read the sources at these delays.

    Under `jit` and `vmap`, splines with seven knots and products decide alone, because the number
    of targets that need more depends on the data. No networks are fitted, and a strongly nonlinear
    law without noise keeps inputs that compensate for the error of the splines. Traced windows are
    not measured either.

    - `screen`: the closed-form search, [`Splines`][ndde_jax.select.Splines].
    - `delays`: whether to search for delays between the candidate lags; this needs the samples,
        which windows alone do not contain.
    - `networks`: settings of the networks, [`StrengthConfig`][ndde_jax.fitting.StrengthConfig];
        None for no networks.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strategy = ndde.select.Default(networks=None)
    print(ndde.recover(windows, strategy, key=jax.random.key(0)).graph[:, :, 0])
    ```
    """

    averages_out_errors: ClassVar[bool] = True
    reads_sums: ClassVar[bool] = True
    screen: Checked[Splines] = setting(
        Splines, check_kind, kind=Splines, expected="ndde_jax.select.Splines(...)"
    )
    delays: Checked[bool] = setting(True, check_flag)
    networks: Checked[StrengthConfig | None] = setting(
        StrengthConfig, check_config, kind=StrengthConfig
    )

    def search(self, windows, price, key) -> Recovery:
        """Return the graph from closed forms, then from networks for the targets that need them."""
        if is_traced(windows, price):
            return _without_networks(windows, self.screen.shortlist, price)
        known = self.without_networks() if is_traced(key) else self
        with concretely():
            return known._search(Screened(windows), price, key)

    @property
    def fits_networks(self) -> bool:
        """Whether networks may be fitted."""
        return self.networks is not None

    def without_networks(self) -> "Default":
        """Return the strategy with closed forms alone."""
        return dataclasses.replace(self, networks=None)

    def on(self, screened: Screened) -> "_OnSamples":
        """Return the strategy that also knows measurement errors and values between the candidate
        lags.
        """
        return _OnSamples(self, screened)

    def described(self, judged: str) -> str:
        """Return a sentence for a report."""
        if self.networks is None:
            return "Graph found by regression on splines and products of inputs, in closed form."
        by_networks = (
            f"explained more of {judged}, and judged its inputs" if judged else "explained no more"
        )
        return (
            f"Graph found by regression on splines and products of inputs; networks {by_networks}."
        )

    def _search(self, screened: Screened, price, key) -> Recovery:
        """Return the graph of concrete windows, with its measure."""
        price = EBIC() if price is None else price
        windows, weak = screened.windows, distributed_inputs(screened, price)
        between = self.delays and isinstance(price, EBIC)
        if screened.whole is None or screened.data.refused:
            closed = _on_windows(screened, weak, between)
        else:
            closed = on_whole(screened, between)
        data, refined, fits = closed.data, closed.refined, closed.fits
        screened = screened.knowing(summed=closed.summed)
        screening, judged = _updated_screening(closed), [None] * data.dim
        if self.networks is not None and not data.refused:
            in_memory = [own.of_windows() for own in fits]
            judged = judged_by_networks(data, screening, in_memory, price, self.networks, key)
        value = flat_inputs(np.asarray(screening.value))
        targets = [
            Described(
                own,
                value[j] if refined[j] is None else own.gains_of_others(),
                judged[j],
                refined[j],
                # Its lags were chosen together; each may be weak.
                together=weak is not None and judged[j] is None,
            )
            for j, own in enumerate(fits)
        ]
        measured = measure_targets(screened, data, targets, price)
        if any(found is not None for found in refined):
            given = (closed, targets, price, self.networks, key)
            measured = _with_drift_on_candidates(screened, measured, *given)
        remarks = (TOGETHER,) * (weak is not None)
        remarks += (PROXIES.format(closed.proxies),) * (closed.proxies > 0)
        if screened.whole is None and screened.alone.any():
            remarks += (ALONE.format(int(screened.alone.sum()), data.dim),)
        measured = dataclasses.replace(measured, remarks=remarks)
        risk = [
            own.fit.on(mask).corrected_risk() if own.network is None else own.network.risk
            for own, mask in zip(targets, flat_inputs(measured.graph), strict=True)
        ]
        return recovery(
            windows,
            to_jax(measured.graph),
            screening.evidence,
            to_jax(np.array(risk, float), data.dtype),
            measured.strengths.threshold,
            screening,
            measured=measured,
        )


def _without_networks(windows: Windows, shortlist: int, price: AbstractPrice | None) -> Recovery:
    """Return the edges that splines find and that are worth their price, under tracing."""
    found, priced = search_priced(windows, shortlist, price)
    graph = windows.prior.apply(from_flat_inputs(priced.mask) & found.graph)
    risk = jnp.where(jnp.isfinite(found.risk), priced.risk, jnp.nan)
    return recovery(windows, graph, found.evidence, risk, priced.limit, found)


class _OnSamples(AbstractStrategy):
    """The default strategy on windows whose samples are known."""

    default: Default
    screened: Any

    @property
    def fits_networks(self) -> bool:
        """Whether networks may be fitted."""
        return self.default.fits_networks

    def search(self, windows, price, key) -> Recovery:
        """Return the graph of these windows, which may be a subset of those of the samples."""
        return self.default._search(self.screened.on(windows), price, key)


def distributed_inputs(
    screened: Screened, price: AbstractPrice
) -> Bool[np.ndarray, "target input"] | None:
    """Return the inputs of a map whose sources act over several lags each; None if the record is
    not such a map, or if another price was given.
    """
    readings, refused = screened.readings, screened.data.refused
    if readings is None or refused or screened.windows.scheme != "euler":
        return None
    if screened.whole is not None:
        return None  # lags that are weak in the part in memory are not weak in the whole record
    if readings.name == "flow" or readings.distributed is None or not isinstance(price, EBIC):
        return None
    return flat_inputs(readings.distributed)


def _on_windows(
    screened: Screened, weak: Bool[np.ndarray, "target input"] | None, between: bool
) -> ClosedForms:
    """Return the regressions of windows in memory on the inputs that splines chose, corrected for
    maps, common factors and measurement errors; with `between`, delays between the candidates.

    - `weak`: the inputs of a map with distributed lags; None for other records.
    """
    data, windows, errors = screened.data, screened.windows, screened.errors
    chosen = flat_inputs(np.asarray(screened.found.graph)) if weak is None else weak
    plain = [screened.fit(j, mask) for j, mask in enumerate(chosen)]
    refined: list[Refined | None] = [None] * data.dim
    if data.refused:
        return ClosedForms(data, plain, [], refined, plain, screened.found)
    past = np.arange(data.inputs.shape[1]) >= data.dim
    data = data.allowing(~(screened.alone[:, None] & past[None]))
    if weak is None and screened.readings is not None and windows.scheme == "euler":
        plain = _with_map_inputs(screened, plain, screened.readings)
    proxies = np.zeros_like(data.allowed)
    if screened.readings is not None:
        proxies = proxies_among(windows, plain)
    if proxies.any():
        plain = [own.on(own.mask & ~gone) for own, gone in zip(plain, proxies, strict=True)]
        data = data.allowing(~proxies)
    if errors is not None and np.any(errors > 0):
        sizes = np.sqrt(errors) / np.asarray(windows.scaling.scale, float)
        plain = [own.without_proxies(sizes) for own in plain]
        data = data.allowing(~np.stack([own.second_lags(sizes) for own in plain]))
    if windows.scheme != "euler" and windows.lags[0] == 0:
        plain = [_with_own_present(own) for own in plain]
    refiners = screened.refiners(data, plain) if between else []
    if refiners:
        refined = [refiners[j](j, own.mask, own.criterion()) for j, own in enumerate(plain)]
    fits = [
        own if found is None else own.on(found.mask, found.design)
        for own, found in zip(plain, refined, strict=True)
    ]
    found, count = screened.found, int(proxies.sum())
    return ClosedForms(data, plain, refiners, refined, fits, found, proxies=count)


def corrected_at_midpoints(screened: Screened) -> Windows:
    """Return midpoint windows corrected by the motion during a step under the drift found in them.
    Splines describe it well enough, whatever the strategy.

    Where a delay lies between candidates, many of its source's lags are proxies for it, among them
    often the present: corrected by that, the rate would contain the source's innovation. The drift
    reads the candidates on either side of such a delay instead, and since the source will be read
    as a mean over the step, its motion corrects nothing. A smooth path has hardly any innovation.
    """
    graph, dim = np.asarray(screened.found.graph), screened.data.dim
    masks, means = flat_inputs(graph), np.zeros(dim, bool)
    if screened.record is not None and not screened.data.refused:
        fits = [screened.fit(j, mask) for j, mask in enumerate(masks)]
        refiners = screened.refiners(screened.data, fits)
        for j, own in enumerate(fits):
            lags = graph[:, j] & (np.arange(dim) != j)[:, None]
            several = (lags[:, 1:] & lags[:, :-1]).any(axis=1)
            found = None
            if several.any() and screened.record.rough[lags[:, 1:].any(axis=1)].all():
                found = refiners[j](j, own.mask, own.criterion())
            if found is not None:
                around = refiners[j].readings(j, found, found.mask, own.mask)[1]
                lag, source = np.divmod(np.arange(len(around)), dim)
                # The own past just before the present would inflate the effect of the present.
                beside = (source == j) & (lag == 1) & around[j]
                masks[j] = around & (found.mask | (lag > 0)) & ~beside
                means[j] = True
    model = fit_screened(screened, to_jax(from_flat_inputs(masks)))
    return screened.steps.corrected_by(model, means)


def _with_map_inputs(
    screened: Screened, regressions: list[TargetFit], readings: Readings
) -> list[TargetFit]:
    """Return the regressions, each on the inputs of the map where these explain the target as well
    or better. The map pays one column for a linear input, whereas the other regression has splines
    for all inputs of a target or for none.
    """
    found = flat_inputs(readings.map_graph)
    if screened.data.partial is not None or screened.inverse_variance is not None:
        return [
            _better_as_map(screened, own, mask)
            for own, mask in zip(regressions, found, strict=True)
        ]
    better = [
        readings.map_cost[j] <= (own.criterion() + _margin(own)) / own.n
        for j, own in enumerate(regressions)
    ]
    return [own.on(found[j]) if better[j] else own for j, own in enumerate(regressions)]


def _better_as_map(screened: Screened, own: TargetFit, inputs: KnownMask) -> TargetFit:
    """Return a regression, or the one on the inputs of the map if these explain as much in the
    windows that are valid for both.
    """
    both = screened.fit(own.target, own.mask | inputs)
    as_well = both.on(inputs).criterion() <= both.on(own.mask).criterion() + _margin(own)
    return screened.fit(own.target, inputs) if as_well else own


def _margin(own: TargetFit) -> float:
    """Return the difference of the criterion within which the inputs of the map are preferred to
    those of a regression: none where it has products, which the map has not.
    """
    return 0.0 if own.terms.used.any() else MARGIN


def _with_own_present(own: TargetFit) -> TargetFit:
    """Return a fit of a flow with the present of its target in place of past states of the target,
    if that describes the rate almost as well. Neighbouring lags of a variable that relaxes are
    nearly the same.
    """
    data, j = own.data, own.target
    mask = with_own_present(own.mask, j, data.dim, data.allowed[j], data.required[j])
    other = own.on(mask)
    return other if other.criterion() <= own.criterion() + MARGIN else own


def _updated_screening(closed: ClosedForms) -> SplineGraph:
    """Return the result of the splines with the graph of the present fits, and the shortlists of
    the targets that have delays of their own.
    """
    shortlist = np.array(closed.found.shortlist)
    for j, found in enumerate(closed.refined):
        if found is not None:
            shortlist[j] = found.shortlist
    graph = from_flat_inputs(np.stack([own.mask for own in closed.fits]))
    return eqx.tree_at(lambda s: (s.graph, s.shortlist), closed.found, (graph, shortlist))


def _with_drift_on_candidates(
    screened: Screened,
    measured: Measured,
    closed: ClosedForms,
    targets: list[Described],
    price: AbstractPrice,
    config: StrengthConfig | None,
    key: Any,
) -> Measured:
    """Return the measure with a drift that reads candidates even where delays lie between them. A
    target with such delays reads the candidates around each delay, as many as describe it best. It
    has a network where that explains more.
    """
    mask = flat_inputs(measured.graph)
    delays, halves = (np.full(mask.shape, np.nan) for _ in range(2))
    reads, late, networks = mask.copy(), {}, networks_of(targets)
    for j, own in enumerate(target.refined for target in targets):
        if own is None:
            continue
        delays[j], halves[j] = (np.where(mask[j], a, np.nan) for a in (own.delays, own.halves))
        if closed.refiners[j].away_from_candidate(own).any():
            sets = closed.refiners[j].readings(j, own, mask[j], closed.plain[j].mask)
            every = screened.fit(j, np.any(sets, axis=0))
            late[j] = sorted((every.on(inputs) for inputs in sets), key=TargetFit.criterion)
            reads[j], networks[j] = late[j][0].mask, None
    asked = [late[j][0].lack_of_fit() if j in late else 1.0 for j in range(len(targets))]
    asked = significant_lack_of_fit(asked) if config is not None else [False] * len(targets)
    for j in map(int, np.flatnonzero(asked)):
        # Data that reveal more structure than splines describe also support more candidates.
        own, widest = late[j][0], max(late[j], key=lambda fit: len(fit.inputs))
        fit, slots = fit_on(own.data, j, widest.mask, price, config, jr.fold_in(key, j))
        if excess(own, fit, len(widest.inputs)) < 0:
            reads[j], networks[j] = widest.mask, (fit.network, slots)
    reads, delays, halves = (from_flat_inputs(values) for values in (reads, delays, halves))
    model = drift_on(screened, reads, networks)
    return dataclasses.replace(measured, model=model, reads=reads, delays=delays, halves=halves)


def judged_by_networks(
    data: KnownData, screening: SplineGraph, regressions: list[TargetFit], price, config, key
) -> list[Judged | None]:
    """Return the judgement of networks for the targets that networks describe better; None for the
    others.

    Where a closed-form test finds that functions of the inputs explain more, a network is fitted.
    Unless it is clearly worse, networks judge edges added, dropped and exchanged.
    """
    at_any_price = not isinstance(price, EBIC)

    def needed(j: int, found) -> bool:
        own = regressions[j]
        slack = 0 if own.linear else SLACK_PER_WINDOW
        return bool(at_any_price or excess(own, found, len(own.inputs)) < slack)

    # Under a given price, strengths are those of networks.
    asked = [True] * data.dim
    if not at_any_price:
        asked = significant_lack_of_fit([own.lack_of_fit() for own in regressions])
    seen = [(own.design.inputs, own.data.weight) for own in regressions]
    options = dict(key=key, asked=asked, needed=needed, seen=seen)
    rows = judge(data, screening, price, config, **options)
    return [
        row
        if row
        and (at_any_price or (excess(own, row.fit, int(row.mask.sum())) < 0 and _better(own, row)))
        else None
        for own, row in zip(regressions, rows, strict=True)
    ]


def _better(own: TargetFit, row: Judged) -> bool:
    """Return whether a network leaves less than a regression throughout the record. Under heavy
    tails it gains by fitting a few windows, which the criterion rewards.
    """
    weight = np.asarray(own.data.weight, float)
    rank = stretches(weight)
    squares = np.asarray(own.part.residual, float) ** 2 * own.power * weight.sum()
    size = divisor(np.bincount(rank, weight, BLOCKS))
    gain = np.bincount(rank, squares, BLOCKS) / size - row.left
    error = gain.std(ddof=1) / np.sqrt(BLOCKS)
    return bool(gain.mean() > student_quantile(THROUGHOUT, BLOCKS - 1) * error)


def excess(own: TargetFit, found: NetworkFit, degree: int) -> float:
    """Return how much worse a network on `degree` inputs describes a target than a regression does,
    by the extended Bayesian information criterion, per window.
    """
    n = max(float(own.data.weight.sum()), 1.0)
    weights = float(columns_price(n, float(found.n_effective)))
    choices = 2 * log_choices(len(own.mask), degree)
    # Shares of the variance with the weights of the windows, as those of the regression are.
    risk = float(found.risk) / float(divisor(own.power))
    criterion = n * np.log(risk + FLOOR) + weights + choices
    return float(criterion - own.criterion()) / n
