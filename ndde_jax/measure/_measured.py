"""The graph, strengths and drift in one pass: closed forms, and networks where those do better."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

from .._axes import from_graph_axes
from .._types import to_jax
from ..fit._prices import EBIC, AbstractPrice
from ..fit._refit import StrengthConfig
from ..models._model import NeuralDDE
from ..regression._readings import Readings
from ..regression._terms import FLOOR
from ..select._default import judged_by_networks, network_criterion
from ..select._judge import BLOCKS, Judged, fit_on, stretches
from ..select._leftover import beyond_chance
from ..select._screened import Screened
from ..select._spline_fit import spline_drift
from ..select._splines import SplineGraph
from ..select._target_fit import TargetFit
from ..windows._flat import KnownData
from ..windows._windows import Windows
from ._delays import student_quantile
from ._record import Record
from ._refined import Refined, Refiner
from ._strength import SignalStrengths

# Nats of twice the likelihood within which a map's own inputs are preferred.
MARGIN = 6.0
# Of the one-sided lower bounds.
CONFIDENCE = 0.95


class Measured(NamedTuple):
    """The graph, strengths and drift from one pass over windows.

    - `strengths`, `model`: relative to and on the graph found.
    - `networks`: whether a network describes a target, `[target]`, and not splines.
    - `graph`: edges kept at the price, `[source target lag]`.
    - `reads`: candidates that the model reads; others beside those of the graph where a delay lies
        between them.
    - `held_out`: share of the variance of each rate that is left on blocks that were not fitted,
        given the graph.
    - `delays`, `halves`: of edges that have a delay of their own, in samples, and halves of their
        90 % intervals; NaN elsewhere.
    """

    strengths: SignalStrengths
    model: NeuralDDE
    networks: Bool[np.ndarray, " target"]
    graph: Bool[np.ndarray, "source target lag"]
    reads: Bool[np.ndarray, "source target lag"]
    delays: Float[np.ndarray, "source target lag"]
    halves: Float[np.ndarray, "source target lag"]
    held_out: Float[np.ndarray, " target"]


class _Target(NamedTuple):
    """The measures of one target, over all inputs."""

    mask: Bool[np.ndarray, " input"]
    worth: Float[np.ndarray, " input"]
    lower: Float[np.ndarray, " input"]
    source: Float[np.ndarray, " source"]
    risk: float
    threshold: float


def find_and_measure(
    windows: Windows,
    price: AbstractPrice,
    *,
    key,
    config: StrengthConfig | None = None,
    screened: Screened | None = None,
    errors: Float[np.ndarray, " dim"] | None = None,
    record: Record | None = None,
) -> Measured:
    """Return the graph, the worth of every edge, and the drift.

    Splines and products choose inputs and describe the drift. Where a closed form finds that
    functions of these inputs explain more, a network is fitted; unless it is clearly worse,
    networks judge edges added, dropped and exchanged (see
    [`search_lags`][ndde_jax.select.search_lags]), and where the result is better by the extended
    Bayesian information criterion, they replace splines. Without `config` no network is fitted.

    Where measurements have `errors`, of these variances, several lags of one source average them
    out. Of such lags those go that explain less than errors of this size in the inputs hide, and
    networks do not bring others in.

    With a `record` of the samples delays may lie between the candidates, see
    [`Refiner`][ndde_jax.measure._refined.Refiner]; networks then see sources at these delays, too.

    `screened` is the result of splines on the windows, where it is known.
    """
    screened = Screened(windows) if screened is None else screened
    data, design, screening = screened.data, screened.design, screened.found
    dim, chosen = data.dim, _flat(screening.graph)
    regressions = [TargetFit(design, data, j, chosen[j]) for j in range(dim)]
    if screened.readings is not None and windows.scheme == "euler" and not data.refused:
        regressions = _or_of_a_map(regressions, screened.readings, data)
        chosen = np.stack([own.mask for own in regressions])
        screening = eqx.tree_at(lambda s: s.graph, screening, _graph(chosen, dim))
    if errors is not None and np.any(errors > 0) and not data.refused:
        sizes = np.sqrt(errors) / np.asarray(windows.scaling.scale, float)
        regressions = [own.without_stand_ins(data, sizes) for own in regressions]
        chosen = np.stack([own.mask for own in regressions])
        screening = eqx.tree_at(lambda s: s.graph, screening, _graph(chosen, dim))
        data = data.allowing(~np.stack([own.second_lags(data, sizes) for own in regressions]))
    refiner: Refiner | None = None
    plain = list(regressions)
    refined: list[Refined | None] = [None] * dim
    if record is not None and isinstance(price, EBIC) and not data.refused:
        refiner = Refiner(record, data, windows.lags, design, screened.data.allowed)
        refined = [refiner(j, mask) for j, mask in enumerate(chosen)]
        for j, found in enumerate(refined):
            if found is not None:
                regressions[j] = TargetFit(found.design, data, j, found.mask)
        chosen = np.stack([own.mask for own in regressions])
        screening = _searched_again(screening, chosen, refined)
    judged: list[Judged | None] = [None] * dim
    if config is not None and not data.refused:
        judged = judged_by_networks(data, screening, regressions, price, config, key)
    outside = _flat(screening.value)
    outside = np.stack(
        [outside[j] if refined[j] is None else own.outside() for j, own in enumerate(regressions)]
    )
    found = _measured(windows, data, design, regressions, judged, chosen, outside, price)
    given = (refiner, refined, judged, plain, data, price, config, key)
    return _reading_candidates(found, *given)


def _or_of_a_map(
    regressions: list[TargetFit], readings: Readings, data: KnownData
) -> list[TargetFit]:
    """Return the regressions, with the inputs of the map in the place of those that explain their
    target worse, or no better: a straight line costs it one column, where others bend all inputs of
    a target or none.
    """
    found = _flat(readings.map_graph)
    better = [
        readings.map_cost[j] <= (own.criterion() + MARGIN) / own.n
        for j, own in enumerate(regressions)
    ]
    return [
        TargetFit(own.design, data, j, found[j])
        if better[j] and (found[j] != own.mask).any()
        else own
        for j, own in enumerate(regressions)
    ]


def measure_graph(windows: Windows, graph, price: AbstractPrice) -> Measured:
    """Return the strengths and the drift on a graph found elsewhere, by closed forms; the strengths
    of other edges are the parts of the residual that splines explain.
    """
    screened = Screened(windows)
    data, design = screened.data, screened.design
    chosen = _flat(graph)
    regressions = [TargetFit(design, data, j, mask) for j, mask in enumerate(chosen)]
    outside = np.stack([own.outside() for own in regressions])
    judged = [None] * data.dim
    found = _measured(windows, data, design, regressions, judged, chosen, outside, price)
    # On the graph as it is, whatever its edges are worth.
    drift = spline_drift(data, design, chosen)
    model = eqx.tree_at(
        lambda m: (m.drift, m.mask), found.model, (drift, from_graph_axes(jnp.asarray(graph)))
    )
    return found._replace(model=model, graph=np.asarray(graph), reads=np.asarray(graph))


def _searched_again(screening: SplineGraph, chosen, refined: list[Refined | None]) -> SplineGraph:
    """Return the result of splines, with the choices and shortlists of targets that have delays of
    their own.
    """
    shortlist = np.array(screening.shortlist)
    for j, found in enumerate(refined):
        if found is not None:
            shortlist[j] = found.shortlist
    parts = _graph(chosen, len(chosen)), shortlist
    return eqx.tree_at(lambda s: (s.graph, s.shortlist), screening, parts)


def _reading_candidates(
    found: Measured, refiner, refined, judged, plain, data, price, config, key
) -> Measured:
    """Return the measurement with a model that reads candidates although delays lie between them:
    for a target with such delays those around each, as many as describe it best, and a network
    where that explains more.
    """
    if refiner is None or all(own is None for own in refined):
        return found
    dim, design = data.dim, plain[0].design
    mask = _flat(found.graph)
    delays, halves = (np.full(mask.shape, np.nan) for _ in range(2))
    networks = [None if row is None else (row.fit.network, row.slots) for row in judged]
    reads, late = mask.copy(), {}
    for j, own in enumerate(refined):
        if own is None:
            continue
        delays[j], halves[j] = (np.where(mask[j], a, np.nan) for a in (own.delays, own.halves))
        if refiner.off(own).any():
            readings = refiner.readings(j, own, mask[j], plain[j].mask)
            fits = [TargetFit(design, data, j, inputs) for inputs in readings]
            late[j] = sorted(fits, key=TargetFit.criterion)
            reads[j], networks[j] = late[j][0].mask, None
    asked = [late[j][0].leftover() if j in late else 1.0 for j in range(dim)]
    asked = beyond_chance(asked) if config is not None else [False] * dim
    n = max(float(data.weight.sum()), 1.0)
    for j in map(int, np.flatnonzero(asked)):
        # Where data tell that there is more to a law they can tell it from more candidates.
        own, widest = late[j][0], max(late[j], key=lambda fit: len(fit.inputs))
        fit, slots = fit_on(data, j, widest.mask, price, config, jr.fold_in(key, j))
        if network_criterion(fit, len(widest.inputs), n, mask.shape[1]) < own.criterion():
            reads[j], networks[j] = widest.mask, (fit.network, slots)
    drift = spline_drift(data, design, reads, networks)
    reads, delays, halves = (_graph(values, dim) for values in (reads, delays, halves))
    model = eqx.tree_at(
        lambda m: (m.drift, m.mask), found.model, (drift, from_graph_axes(jnp.asarray(reads)))
    )
    return found._replace(model=model, reads=reads, delays=delays, halves=halves)


def _measured(windows, data, design, regressions, judged, chosen, outside, price) -> Measured:
    dim = len(chosen)
    rows = [
        _target(regressions[j], judged[j], chosen[j], outside[j], data, j, price)
        for j in range(dim)
    ]
    strengths = _strengths(rows, windows, data)
    kept = np.asarray(strengths.kept(None if isinstance(price, EBIC) else price))
    networks = [None if row is None else (row.fit.network, row.slots) for row in judged]
    mask = _flat(kept)
    drift = spline_drift(data, design, mask, networks)
    model = NeuralDDE(
        drift, from_graph_axes(jnp.asarray(kept)), windows.scaling, windows.dt, windows.lags
    )
    by_network = np.array([row is not None for row in judged])
    nowhere = np.full(kept.shape, np.nan)
    held_out = np.full(dim, np.nan)
    if not data.refused:
        fits = [
            own if (own.mask == mask[j]).all() else TargetFit(own.design, data, j, mask[j])
            for j, own in enumerate(regressions)
        ]
        held_out = np.array([fit.held_out(windows.reach) for fit in fits])
    return Measured(strengths, model, by_network, kept, kept, nowhere, nowhere, held_out)


def _flat(edges) -> np.ndarray:
    """Return edges `[source target lag]` as `[target input]`."""
    edges = np.asarray(edges)
    return edges.transpose(1, 2, 0).reshape(edges.shape[1], -1)


def _graph(mask, dim: int) -> np.ndarray:
    """Return inputs `[target input]` as `[source target lag]`."""
    return np.moveaxis(mask.reshape(dim, -1, dim), (2, 0, 1), (0, 1, 2))


def _target(own: TargetFit, judged, chosen, outside, data, j, price) -> _Target:
    n, n_inputs = own.n, data.inputs.shape[1]
    if judged is None:
        mask = chosen
        risk = own.corrected_risk()
        worth, blocks = np.maximum(outside, 0), np.zeros((n_inputs, BLOCKS))
        rank = stretches(own.root)
        size = np.maximum(np.bincount(rank, own.root > 0, BLOCKS), 1)
        errors = own.errors(own.all)
        left = np.bincount(rank, errors, BLOCKS) / size
        for place, i in enumerate(own.inputs):
            keep = own.all & (np.arange(len(own.inputs)) != place)
            worth[i] = own.corrected_risk(keep) - risk
            blocks[i] = np.bincount(rank, own.errors(keep) - errors, BLOCKS) / size
        # What the criterion charges for a linear input, the least it charges.
        threshold = (risk + FLOOR) * (np.log(n) + 2 * np.log(n_inputs)) / n
        # The criterion has decided, edge by edge and with the others adapting: the price shown is
        # at most what the least of those kept is worth.
        least = 0.99 * worth[mask].min(initial=np.inf)
        limit = max(min(float(threshold), least), 0.0)
        if not isinstance(price, EBIC):
            limit = float(price(np.asarray(risk), n, n_inputs, 1))
    else:
        mask, risk, limit = judged.mask, judged.risk, judged.threshold
        examined = mask | np.isin(np.arange(n_inputs), judged.slots)
        worth = np.where(examined, judged.worth, np.maximum(outside, 0))
        blocks, left = judged.blocks, judged.left
        own = TargetFit(own.design, data, j, mask)
    # What a dropped one would be worth beyond its price is nothing, or it had been kept.
    worth = np.where(mask, worth, np.minimum(worth - limit, 0))
    lower = np.where(mask, lower_bound(worth, blocks, left), worth)
    return _Target(mask, worth, lower, _sources(own, worth, data.dim), risk, limit)


def lower_bound(
    worth: Float[np.ndarray, " input"],
    blocks: Float[np.ndarray, "input block"],
    left: Float[np.ndarray, " block"],
) -> Float[np.ndarray, " input"]:
    """Return a lower confidence bound of the worth of each input, from its worth in blocks and the
    risk there with it, `left`.

    Student's bound of the mean. Where a variable moves in bursts, a few blocks hold all that an
    edge is worth, and that bound lies below zero although the edge explains most of the rate in
    nearly every block. There it is the bound of the mean share (b − a) / (b + a) of errors a with
    the edge and b without, which no block dominates, in a block of median size. Bursts are sizes
    b + a that count as fewer than half as many equal ones, (Σ size)² / Σ size².
    """
    count = blocks.shape[1]
    quantile = student_quantile(CONFIDENCE, count - 1) / np.sqrt(count)
    plain = worth - quantile * blocks.std(axis=1, ddof=1)
    size = 2 * left[None] + blocks
    bursts = size.sum(axis=1) ** 2 < count / 2 * (size**2).sum(axis=1)
    share = blocks / np.where(size > 0, size, 1)
    steady = share.mean(axis=1) - quantile * share.std(axis=1, ddof=1)
    steady = np.minimum(steady * np.median(size, axis=1), worth)
    return np.where(bursts & (plain <= 0), np.maximum(plain, steady), plain)


def _sources(own: TargetFit, worth, dim: int):
    """Return the worth of each source at all its kept lags together, or at its best lag if that is
    more.
    """
    rise = np.zeros(dim)
    risk = own.corrected_risk()
    for source in range(dim):
        keep = own.inputs % dim != source
        if not keep.all():
            rise[source] = own.corrected_risk(keep) - risk
    return np.maximum(rise, worth.reshape(-1, dim).max(axis=0))


def _strengths(rows: list[_Target], windows: Windows, data: KnownData) -> SignalStrengths:
    dim = data.dim

    def numbers(values):
        values = np.asarray(values, float)
        return to_jax(np.full_like(values, np.nan) if data.refused else values, data.dtype)

    def edges(name):
        return _graph(np.stack([getattr(row, name) for row in rows]), dim)

    risk, unknown = numbers([row.risk for row in rows]), np.full(edges("worth").shape, np.nan)
    source = numbers(np.stack([row.source for row in rows], axis=1))
    return SignalStrengths(
        value=numbers(edges("worth")),
        held_out=numbers(unknown),
        lower=numbers(edges("lower")),
        source_value=source,
        source_held_out=numbers(np.full(source.shape, np.nan)),
        graph=to_jax(edges("mask") & (not data.refused)),
        risk=risk,
        risk_in_sample=risk,
        threshold=numbers([row.threshold for row in rows]),
        prior=windows.prior,
    )
