"""Strengths, bounds and drift of a graph found by any strategy: in closed form, by least squares on
splines and products, and from networks where these judged the graph.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._axes import flat_inputs, from_flat_inputs, from_graph_axes
from .._checks import check_concrete, check_windows
from .._types import (
    Checked,
    Graph,
    KnownGraph,
    KnownMask,
    KnownScores,
    RealScalarLike,
    Scores,
    concretely,
    on_host_or_traced,
    to_jax,
)
from ..fit._prices import EBIC, AbstractPrice, as_price
from ..fit._refit import checked_graph
from ..models._model import AbstractDelayModel, NeuralDDE
from ..models._networks import MaskedDrift
from ..models._splines import SplineDrift, pairs_of
from ..regression._design import WIDTH
from ..windows._prior import PriorKnowledge
from ..windows._windows import KnownData, Windows
from ._between import Refined
from ._judge import Judged
from ._screened import Screened
from ._target_fit import Coefficients, TargetFit
from ._worth import lower_bound

# ---- the drift of splines ----

# Drifts are constant further outside the data than this share of their range.
SPARE = 0.5


@concretely()
def fit_splines(windows: Checked[Windows], graph: Any) -> NeuralDDE:
    """Fit a drift on a given graph in closed form: splines of its inputs, and their products if
    these are worth their price.

    The Bayesian information criterion chooses among the linear, the additive and the multiplicative
    model of every target, as [`spline_graph`][ndde_jax.select.spline_graph] does. As good as a
    network where effects are additive or multiplicative, and a thousand times faster.

    **Arguments:**

    - `windows`: windows of one system, outside `jit`.
    - `graph`: `[source target lag]`, or `"full"` for all edges allowed.

    **Returns:** [`NeuralDDE`][ndde_jax.models.NeuralDDE] with a
    [`SplineDrift`][ndde_jax.models.SplineDrift], NaN for windows that [`fit`][ndde_jax.fit] would
    refuse.

    **Raises:** `ValueError` for a graph of another shape.

    ```python
    import numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.fit_splines(windows, "full")(np.array([[0.0, 1.0]])))  # about [1, 0]
    ```
    """
    check_windows(windows, "fit_splines")
    check_concrete("fit_splines", (windows, graph), "Use fit_drift there.")
    return fit_screened(Screened(windows), checked_graph(windows, graph)[0])


def fit_screened(screened: Screened, graph: Graph) -> NeuralDDE:
    """Return [`fit_splines`][ndde_jax.select.fit_splines] for windows whose columns may be
    available already, on a graph that was checked.
    """
    windows, mask = screened.windows, from_graph_axes(graph)
    base = np.asarray(mask).reshape(len(mask), -1)
    drift = spline_drift(screened, base)
    return NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


def spline_drift(screened: Screened, mask, networks=None) -> SplineDrift:
    """Return the drift on a mask `[target input]` of windows whose columns are available.

    `networks`: for each target a network with its slots, or None if splines describe the target.
    """
    data = screened.data
    networks = [None] * data.dim if networks is None else networks
    open_to_splines = mask & np.array([network is None for network in networks])[:, None]
    n_slots = _padded(int(open_to_splines.sum(axis=1).max()), mask.shape[1])
    rows = [
        _target(screened, j, open_to_splines[j], n_slots)
        if networks[j] is None
        else (np.zeros(n_slots, int), 0.0, *_nothing(n_slots))
        for j in range(data.dim)
    ]

    used = data.inputs[data.some] if data.some.any() else np.zeros((1, mask.shape[1]))
    low, high = used.min(axis=0), used.max(axis=0)
    return SplineDrift(
        index=to_jax(np.stack([row[0] for row in rows])),
        knots=data.numbers(screened.knots),
        constant=data.numbers([row[1] for row in rows]),
        splines=data.numbers([row[2] for row in rows]),
        products=data.numbers([row[3] for row in rows]),
        lower=data.numbers(low - SPARE * (high - low)),
        upper=data.numbers(high + SPARE * (high - low)),
        networks=_stacked_networks(networks, mask, data.dtype),
    )


def _stacked_networks(networks, mask, dtype) -> MaskedDrift | None:
    """Return one network per target on all inputs; zero for targets without one."""
    if not any(networks):
        return None

    def on_all_inputs(entry, own):
        network, slots = entry
        (weight, bias), *rest = jax.tree.map(np.asarray, network)
        wide = np.zeros((len(weight), len(own)), weight.dtype)
        wide[:, slots] = weight * own[slots][None]
        return ((wide, bias), *rest)

    rows = [
        None if entry is None else on_all_inputs(entry, own)
        for entry, own in zip(networks, mask, strict=True)
    ]
    zero = jax.tree.map(np.zeros_like, next(filter(None, rows)))
    return MaskedDrift(
        jax.tree.map(lambda *parts: to_jax(np.stack(parts), dtype), *(row or zero for row in rows))
    )


def _nothing(n_slots: int):
    return np.zeros((n_slots, WIDTH)), np.zeros(n_slots * (n_slots - 1) // 2)


def _padded(needed: int, n_inputs: int) -> int:
    """Return a number of slots rounded up to a multiple of four, at most all inputs, for few
    compilations.
    """
    return max(min(-(-needed // 4) * 4, n_inputs), 1)


def _target(screened: Screened, j: int, mask: KnownMask, n_slots: int):
    """Return the index, constant and coefficients of one target, in the terms of `SplineDrift`."""
    rate, inputs = screened.rate(j, mask), np.flatnonzero(mask)
    design, output, mean = rate
    _, size = design.standardised(output)
    index = np.zeros(n_slots, int)
    splines, products = _nothing(n_slots)
    if len(inputs):
        index[: len(inputs)] = inputs
        index[len(inputs) :] = inputs[0]
        own = screened.fit(j, mask, None if screened.summed is None else rate)
        if own.whole.matrix.shape != design.matrix.shape:
            # Inputs of a drift have the same knots for all targets, even if one needs more.
            own = own.on(mask, design)
        every, pairs, paired = Coefficients.of(design, own.fit)
        splines[: len(inputs)] = size * every[inputs]
        means = design.products(pairs)[1]
        mean -= size * float((every * design.mean).sum() + paired @ means)
        places = {pair: k for k, pair in enumerate(zip(*pairs_of(n_slots), strict=True))}
        slots = np.searchsorted(inputs, pairs)
        for (a, b), value in zip(slots, paired, strict=True):
            products[places[(int(a), int(b))]] = size * value
    return index, mean, splines, products


# ---- strengths ----


class SignalStrengths(eqx.Module):
    """The worth of every candidate edge, as a share of the variance of its target's rate.

    Each strength compares two graphs that differ in one edge: it is the rise of the target's
    standardised mean squared error when a kept edge is omitted, or the fall when a dropped one is
    added, with everything else refitted. It is around zero, and may be negative, for an edge that
    does not exist. It is at least the paper's s², for which all other candidates, not only those of
    the graph, may replace an edge: [`paper_strengths`][ndde_jax.theory.paper_strengths].

    - `value`: the strength to rank by, `[source target lag]`: the in-sample estimate with both
        risks corrected for the parameters they used (generalised cross-validation). If no single
        lag of a source is worth its price, since the lags can replace one another, but all together
        are, the best lag gets the joint value.
    - `held_out`: the same on blocks excluded from the refit, less biased and noisier. NaN for
        measures in closed form, which hold nothing out.
    - `lower`: one-sided lower confidence bound of `held_out`, from a block bootstrap of the paired
        differences. If nothing was held out, the bound of `value` from its spread over stretches of
        the record.
    - `source_value`, `source_held_out`: strength of a source at all its kept lags together,
        `[source target]`. Neighbouring lags can replace one another in `value`, but not here.
    - `graph`: the reference graph of the strengths.
    - `risk`: held-out risk of that graph per target; 1 is as good as predicting the mean rate. If
        nothing was held out, the corrected in-sample risk; in a [`Discovery`][ndde_jax.Discovery],
        1 if none of the measured edges was kept.
    - `risk_in_sample`: the corrected in-sample risk.
    - `threshold`: least worth of an edge per target under the default rule of `kept`.
    - `prior`: the prior knowledge of the windows. Forbidden edges are measured like all others,
        which tests the prior, but never kept.
    """

    value: Scores
    held_out: Scores
    lower: Scores
    source_value: Float[Array, "source target"]
    source_held_out: Float[Array, "source target"]
    graph: Graph
    risk: Float[Array, "target"]
    risk_in_sample: Float[Array, "target"]
    threshold: Float[Array, "target"]
    prior: PriorKnowledge

    def explaining_nothing(self, targets: Bool[np.ndarray, "target"]) -> "SignalStrengths":
        """Return the strengths with a risk of 1 for some targets without kept edges."""
        risks = {
            name: to_jax(np.where(targets, 1, old), old.dtype)
            for name, old in (("risk", self.risk), ("risk_in_sample", self.risk_in_sample))
        }
        return dataclasses.replace(self, **risks)

    def price(self, price: Checked[AbstractPrice | RealScalarLike | None] = None) -> Array:
        """Return the price of an edge for each target, `[target]`; by default the threshold."""
        price = as_price(price)
        if isinstance(price, EBIC):
            return self.threshold
        n_inputs = self.value.shape[0] * self.value.shape[2]
        return price(self.risk_in_sample, jnp.inf, n_inputs, 1)

    def kept(self, coefficient=None) -> Graph:
        """Return the edges worth keeping, `[source target lag]`.

        **Arguments:**

        - `coefficient`: λ of the L0 rule: keep iff the strength exceeds λ/F with F candidate inputs
            per target, the exchange rate of [`L0NDDE`][ndde_jax.L0NDDE]. By default no coefficient
            is needed: keep iff the strength exceeds

                10⁻⁴ + risk · width · (ln n − 2 + ln F) / n

            and is positive on held-out blocks or, if nothing was held out, has a positive lower
            bound from its spread over stretches of the record. This is the extended Bayesian
            information criterion for the `width` weights of an input, minus the charge already in
            the correction of the risks, plus the resolution of difference quotients. It is stricter
            for more noise and more candidates, and less strict for more data.

        Edges that the prior decides are kept or dropped regardless of their strength.
        """
        price = as_price(coefficient, "coefficient")
        if isinstance(price, EBIC):
            return _kept(self.prior, self.value, self.threshold, self.held_out, self.lower)
        return _kept(self.prior, self.value, self.price(price))


@on_host_or_traced
def _kept(xp, prior: PriorKnowledge, value, price, held_out=None, lower=None):
    good = value > price[None, :, None]
    if held_out is not None:
        good = good & ~(xp.where(xp.isnan(held_out), lower, held_out) <= 0)
    return prior.apply(good)


class Measured(eqx.Module):
    """The measure of a graph, which passes delays from the search to the final drift.

    A strategy that finds delays between the candidate lags lists such an edge in `graph` at the
    nearest candidate, with its delay in `delays`. `reads` are the candidates around it, from which
    a drift reconstructs the source at that delay. [`discover`][ndde_jax.discover] fits the final
    drift on `reads` by [`fit_drift`][ndde_jax.fit_drift], and shows `graph` and `delays`. The graph
    of any strategy is measured, by the strategy itself ([`Recovery`][ndde_jax.select.Recovery]) or
    else in closed form. In closed form, delays are those of the candidates, and `discover`
    estimates delays between candidates for the edges kept.

    - `strengths`: the worth of every candidate edge, with its lower bound and its price.
    - `model`: the drift on `reads`.
    - `networks`: whether a network, not splines, describes a target, `[target]`.
    - `graph`: edges kept at the price, `[source target lag]`.
    - `reads`: candidates that the model reads, including candidates outside the graph where a delay
        lies between them, or where another variable passes a link on within a sampling interval.
    - `held_out`: unexplained share of the variance of each rate on held-out blocks, given the
        graph.
    - `delays`, `halves`: delays between candidates, in samples, and half-widths of their 90 %
        intervals; NaN for other edges.
    - `remarks`: sentences for a report on how the graph was found.
    """

    strengths: SignalStrengths
    model: AbstractDelayModel
    networks: Bool[np.ndarray, " target"]
    graph: KnownGraph
    reads: KnownGraph
    delays: KnownScores
    halves: KnownScores
    held_out: Float[np.ndarray, " target"]
    remarks: tuple[str, ...] = eqx.field(static=True, default=())

    def with_model(self, model: AbstractDelayModel) -> "Measured":
        """Return the measure with another drift on the graph."""
        return dataclasses.replace(self, model=model)

    def without(self, edges: KnownGraph, remark: str) -> "Measured":
        """Return the measure without some edges, which the drift still reads and whose strength
        becomes at most 0, and with a remark on them.
        """
        old = self.strengths
        value, lower = (
            to_jax(np.where(edges, np.minimum(x, 0), x), x.dtype) for x in (old.value, old.lower)
        )
        graph, remarks = self.graph & ~edges, (*self.remarks, remark)
        nothing = ~graph.any(axis=(0, 2))
        strengths = dataclasses.replace(old, value=value, lower=lower).explaining_nothing(nothing)
        held_out = np.where(nothing, 1, self.held_out)
        changed = dict(strengths=strengths, graph=graph, held_out=held_out, remarks=remarks)
        return dataclasses.replace(self, **changed)


class Described(NamedTuple):
    """The final description of one target.

    - `fit`: the regression on the inputs chosen, with sources at delays of their own, if any.
    - `outside`: fall of the risk with each other input added.
    - `network`: the judgement of networks, if they describe the target better.
    - `refined`: its delays between the candidates, if any.
    - `together`: whether all its inputs are kept regardless of their single worth.
    """

    fit: TargetFit
    outside: Float[np.ndarray, " input"]
    network: Judged | None = None
    refined: Refined | None = None
    together: bool = False


class _Worth(NamedTuple):
    """The measures of one target for all inputs."""

    mask: KnownMask
    worth: Float[np.ndarray, " input"]
    lower: Float[np.ndarray, " input"]
    source: Float[np.ndarray, " source"]
    risk: float
    threshold: float


def measure_graph(screened: Screened, graph: Graph | KnownGraph, price: AbstractPrice) -> Measured:
    """Return the measure in closed form of a graph found elsewhere. All its edges stay, whatever
    their worth; the strengths of other edges are the parts of the residual that splines explain.
    """
    graph = np.asarray(graph)
    fits = [screened.fit(j, mask) for j, mask in enumerate(flat_inputs(graph))]
    targets = [Described(fit, fit.gains_of_others()) for fit in fits]
    return measure_targets(screened, screened.data, targets, price, graph)


def measure_targets(
    screened: Screened,
    data: KnownData,
    targets: list[Described],
    price: AbstractPrice,
    graph: KnownGraph | None = None,
) -> Measured:
    """Return the measure of the description of every target on a graph, by default the edges worth
    the price. `data` may allow fewer inputs than the windows do.
    """
    windows = screened.windows
    rows = [_worth_of(target, data, price) for target in targets]
    strengths = _strengths(rows, windows, data)
    if graph is None:
        whole = np.stack([target.fit.mask & target.together for target in targets])
        graph = np.asarray(strengths.kept(price)) | from_flat_inputs(whole)
    mask = flat_inputs(graph)
    by_network = np.array([target.network is not None for target in targets])
    held_out = np.full(len(mask), np.nan)
    if not data.refused:
        fits = [target.fit.on(own) for target, own in zip(targets, mask, strict=True)]
        held_out = np.array([fit.held_out(windows.reach) for fit in fits])
        # Strengths and risk refer to one graph; without an edge nothing is explained.
        strengths = strengths.explaining_nothing(~graph.any(axis=(0, 2)))
    nowhere = np.full(graph.shape, np.nan)
    model = drift_on(screened, graph, networks_of(targets))
    return Measured(strengths, model, by_network, graph, graph, nowhere, nowhere, held_out)


def networks_of(targets: list[Described]) -> list:
    """Return the network of each target with its slots; None for targets that splines describe."""
    judged = [target.network for target in targets]
    return [None if row is None else (row.fit.network, row.slots) for row in judged]


def drift_on(screened: Screened, reads, networks: list) -> NeuralDDE:
    """Return the drift that reads these candidates, `[source target lag]`."""
    windows = screened.windows
    drift = spline_drift(screened, flat_inputs(reads), networks)
    mask = from_graph_axes(to_jax(reads))
    return NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


def _worth_of(target: Described, data: KnownData, price: AbstractPrice) -> _Worth:
    """Return the worth of every input of a target, minus the price if it is not kept."""
    own, judged, outside = target.fit, target.network, np.maximum(target.outside, 0)
    own = own if judged is None else own.on(judged.mask)
    found = own.worth()
    mask, risk, limit = found.mask, float(found.risk), float(found.limit(own.n, price))
    if judged is not None:
        risk, limit = judged.risk, judged.threshold
        examined = mask | np.isin(np.arange(len(mask)), judged.slots)
        outside = np.where(examined, judged.worth, outside)
        worth = np.where(mask, np.minimum(outside, 1), 0)
        lower = np.where(mask, lower_bound(worth, judged.blocks, judged.left), 0)
        found = found._replace(value=worth, lower=lower)
    found = found.with_best_lags(limit)
    # A dropped input is worth no more than its price, otherwise it would have been kept.
    dropped = np.minimum(outside - limit, 0)
    worth, lower = (np.where(mask, kept, dropped) for kept in (found.value, found.lower))
    # The worth of a source at all its kept lags together, or at its best lag if that is more.
    source = np.maximum(found.together, worth.reshape(-1, data.dim).max(axis=0))
    return _Worth(mask, worth, lower, source, risk, limit)


def _strengths(rows: list[_Worth], windows: Windows, data: KnownData) -> SignalStrengths:
    def edges(name):
        return from_flat_inputs(np.stack([getattr(row, name) for row in rows]))

    risk, unknown = data.numbers([row.risk for row in rows]), np.full(edges("worth").shape, np.nan)
    source = data.numbers(np.stack([row.source for row in rows], axis=1))
    return SignalStrengths(
        value=data.numbers(edges("worth")),
        held_out=data.numbers(unknown),
        lower=data.numbers(edges("lower")),
        source_value=source,
        source_held_out=data.numbers(np.full(source.shape, np.nan)),
        graph=to_jax(edges("mask") & (not data.refused)),
        risk=risk,
        risk_in_sample=risk,
        threshold=data.numbers([row.threshold for row in rows]),
        prior=windows.prior,
    )
