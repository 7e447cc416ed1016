"""Graph, strengths and drift in one go: closed forms, and networks where those do better."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._axes import from_graph_axes
from .._types import to_jax
from ..fit._newton import NetworkFit
from ..fit._prices import EBIC, AbstractPrice
from ..fit._refit import StrengthConfig
from ..models._model import NeuralDDE
from ..select._basis import N_FEATURES
from ..select._judge import BLOCKS, Judged, judge, stretches
from ..select._leftover import beyond_chance, chance_of_leftover
from ..select._regression import FLOOR, Regression, log_choices
from ..select._screened import Screened
from ..select._spline_fit import spline_drift
from ..select._spline_search import Columns, outside_gains, spline_terms_of
from ..windows._flat import KnownData
from ..windows._windows import Windows
from ._delays import student_quantile
from ._strength import SignalStrengths

# A network that describes a rate this much worse than bent splines, per window, may still need
# fewer of the inputs, and then be better.
COMPARABLE = 0.05
# Of the one-sided lower bounds.
CONFIDENCE = 0.95


class Measured(NamedTuple):
    """What a pass over windows says.

    - `strengths`, `model`: relative to and on the graph found.
    - `networks`: whether a network describes a target, `[target]`, and not splines.
    - `graph`: what is kept at the price, `[source target lag]`.
    """

    strengths: SignalStrengths
    model: NeuralDDE
    networks: Bool[np.ndarray, " target"]
    graph: Bool[np.ndarray, "source target lag"]


class _Target(NamedTuple):
    """Of one target, over all inputs."""

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
) -> Measured:
    """The graph, what every edge is worth, and the drift.

    Splines and products choose inputs and describe the drift. Where a closed form finds that
    functions of these inputs explain more, a network is fitted; unless it is clearly worse,
    networks judge edges added, dropped and exchanged (see
    [`search_lags`][ndde_jax.select.search_lags]), and where the result is better by the extended
    Bayesian information criterion, they have the word.
    Without `config` no network is fitted.

    Where measurements have `errors`, of these variances, several lags of one source average them
    out. Of such lags those go that explain less than errors of this size in the inputs hide, and
    networks do not bring others in.

    `screened` is what splines make of the windows, where that is known.
    """
    screened = Screened(windows) if screened is None else screened
    data, columns, screening = screened.data, screened.columns, screened.found
    dim, n_inputs = data.dim, data.inputs.shape[1]
    chosen = _flat(screening.graph)
    regressions = [_Fit(columns, data, j, chosen[j]) for j in range(dim)]
    if errors is not None and np.any(errors > 0) and not data.refused:
        sizes = np.sqrt(errors) / np.asarray(windows.scaling.scale, float)
        regressions = [own.without_stand_ins(columns, data, sizes) for own in regressions]
        chosen = np.stack([own.mask for own in regressions])
        screening = eqx.tree_at(lambda s: s.graph, screening, _graph(chosen, dim))
        data = data.allowing(~np.stack([own.second_lags(data, sizes) for own in regressions]))
    judged: list[Judged | None] = [None] * dim
    if config is not None and not data.refused:
        n = max(float(data.weight.sum()), 1.0)
        at_any_price = not isinstance(price, EBIC)

        def excess(j: int, found, degree: int) -> float:
            """By how much a network describes a target worse than splines, per window."""
            return float(_criterion(found, degree, n, n_inputs) - regressions[j].criterion()) / n

        def needed(j: int, found) -> bool:
            slack = 0 if regressions[j].linear else COMPARABLE
            return bool(at_any_price or excess(j, found, int(chosen[j].sum())) < slack)

        # Who asks for a price wants networks' strengths at it.
        asked = [True] * dim
        if not at_any_price:
            asked = beyond_chance([own.leftover(data) for own in regressions])
        judged = judge(data, screening, price, config, key=key, asked=asked, needed=needed)
        judged = [
            row if row and (at_any_price or excess(j, row.fit, int(row.mask.sum())) < 0) else None
            for j, row in enumerate(judged)
        ]
    outside = _flat(screening.value)
    return _measured(windows, data, columns, regressions, judged, chosen, outside, price)


def measure_graph(windows: Windows, graph, price: AbstractPrice) -> Measured:
    """The same of a graph that something else found, by closed forms; what other edges would be
    worth is what splines say of the residual.
    """
    screened = Screened(windows)
    data, columns = screened.data, screened.columns
    chosen = _flat(graph)
    regressions = [_Fit(columns, data, j, mask) for j, mask in enumerate(chosen)]
    outside = np.stack([own.outside(columns) for own in regressions])
    judged = [None] * data.dim
    found = _measured(windows, data, columns, regressions, judged, chosen, outside, price)
    # On the graph as it is, whatever its edges are worth.
    drift = spline_drift(data, columns, chosen)
    model = eqx.tree_at(
        lambda m: (m.drift, m.mask), found.model, (drift, from_graph_axes(jnp.asarray(graph)))
    )
    return found._replace(model=model, graph=np.asarray(graph))


def _measured(windows, data, columns, regressions, judged, chosen, outside, price) -> Measured:
    dim = len(chosen)
    rows = [
        _target(regressions[j], judged[j], chosen[j], outside[j], columns, data, j, price)
        for j in range(dim)
    ]
    strengths = _strengths(rows, windows, data)
    kept = np.asarray(strengths.kept(None if isinstance(price, EBIC) else price))
    networks = [None if row is None else (row.fit.network, row.slots) for row in judged]
    mask = _flat(kept)
    drift = spline_drift(data, columns, mask, networks)
    model = NeuralDDE(
        drift, from_graph_axes(jnp.asarray(kept)), windows.scaling, windows.dt, windows.lags
    )
    by_network = np.array([row is not None for row in judged])
    return Measured(strengths, model, by_network, kept)


def _flat(edges) -> np.ndarray:
    """`[source target lag]` to `[target input]`."""
    edges = np.asarray(edges)
    return edges.transpose(1, 2, 0).reshape(edges.shape[1], -1)


def _graph(mask, dim: int) -> np.ndarray:
    """`[target input]` to `[source target lag]`."""
    return np.moveaxis(mask.reshape(dim, -1, dim), (2, 0, 1), (0, 1, 2))


def _criterion(found: NetworkFit, degree: int, n: float, n_inputs: int) -> float:
    """The extended Bayesian information criterion of a network, comparable to a regression's."""
    weights = float(found.n_effective) * np.log(n)
    return float(
        n * np.log(float(found.risk) + FLOOR) + weights + 2 * log_choices(n_inputs, degree)
    )


class _Fit:
    """Least squares of one target on some inputs, with and without each."""

    def __init__(self, columns: Columns, data: KnownData, j: int, mask):
        self.target, self.mask, self.inputs = j, np.asarray(mask), np.flatnonzero(mask)
        root = columns.root
        self.root = root
        total = max(float(root @ root), 1)
        y = (data.outputs[:, j] - root**2 @ data.outputs[:, j] / total) * root
        self.power = float(y @ y) / total
        self.y = y / np.sqrt(self.power * total if self.power > 0 else 1)
        self.model = Regression(columns, self.y, self.inputs)
        self.all = np.ones(len(self.inputs), bool)

    @property
    def linear(self) -> bool:
        """Whether the best model takes every input as it is."""
        return bool(self.solution(self.all)[2] <= len(self.inputs))

    def criterion(self) -> float:
        """The extended Bayesian information criterion."""
        return self.model.criterion(self.all)

    def solution(self, keep):
        """Risk, coefficients and number of columns of a model with some inputs."""
        risk, coefficients = self.model.best(keep)[1:]
        return risk, coefficients, int((coefficients != 0).sum())

    def corrected_risk(self, keep=None) -> float:
        """Generalised cross-validation."""
        risk, _, count = self.solution(self.all if keep is None else keep)
        return float(risk / (1 - min(count / max(self.model.n, 1), 0.9)) ** 2)

    def leftover(self, data: KnownData) -> float:
        """The chance that smooth functions of the inputs explain more of nothing but noise."""
        coefficients = self.solution(self.all)[1]
        columns = self.model.columns[:, coefficients != 0]
        residual = self.y - self.model.columns @ coefficients
        return chance_of_leftover(residual, columns, data.inputs[:, self.inputs], self.root)

    def hidden(self, columns: Columns, data: KnownData, sizes) -> float:
        """The share of the rate's variance that errors of these `sizes` in the inputs, each on its
        own, make the model miss; at most all it misses.
        """
        risk, coefficients, _ = self.solution(self.all)
        own = coefficients[: len(self.inputs) * N_FEATURES].reshape(-1, N_FEATURES)
        paired = coefficients[len(self.inputs) * N_FEATURES :] / self.model.product_norm
        first, second = self.model.pairs.T
        total = 0.0
        for slot, i in enumerate(self.inputs):
            size, spline = sizes[i % data.dim], columns.splines[i]
            above, below = (
                spline_terms_of(data.inputs[:, i] + sign * size, spline.knots) for sign in (1, -1)
            )
            missed = (above - below) / 2 @ (spline.matrix @ own[slot])
            for mine, other in ((first, second), (second, first)):
                with_it = mine == slot
                missed += size * (data.inputs[:, self.inputs[other[with_it]]] @ paired[with_it])
            total += float(np.sum((self.root * missed) ** 2))
        return min(total, risk)

    def without_stand_ins(self, columns: Columns, data: KnownData, sizes) -> "_Fit":
        """Without lags of a source that has several, as long as the least of them explains less
        than errors in the inputs hide: what averages errors out cannot explain more.
        """
        mask, limit, own = self.mask.copy(), self.hidden(columns, data, sizes), self
        while True:
            sources = own.inputs % data.dim
            several = np.bincount(sources, minlength=data.dim)[sources] > 1
            open_ = several & ~data.required[self.target][own.inputs]
            if not open_.any():
                return own
            risk, places = own.corrected_risk(), np.arange(len(sources))
            worth = [own.corrected_risk(own.all & (places != p)) for p in np.flatnonzero(open_)]
            least = int(np.argmin(worth))
            if worth[least] - risk >= limit:
                return own
            mask[own.inputs[np.flatnonzero(open_)[least]]] = False
            own = _Fit(columns, data, self.target, mask)

    def second_lags(self, data: KnownData, sizes) -> Bool[np.ndarray, " input"]:
        """Inputs that are not kept, of sources with errors that are kept at another lag."""
        kept = np.bincount(self.inputs % data.dim, minlength=data.dim) > 0
        return np.tile(kept & (sizes > 0), len(self.mask) // data.dim) & ~self.mask

    def outside(self, columns: Columns):
        """What every other input would lower the risk by."""
        risk, coefficients, _ = self.solution(self.all)
        residual = self.y - self.model.columns @ coefficients
        gains = outside_gains(columns, residual, self.inputs) - N_FEATURES * risk / self.model.n
        return np.maximum(gains, 0)

    def errors(self, keep):
        """Squared error of every window with some of the inputs, of mean `risk`."""
        return (self.y - self.model.columns @ self.solution(keep)[1]) ** 2 * self.model.n


def _target(own: _Fit, judged, chosen, outside, columns, data, j, price) -> _Target:
    n, n_inputs = own.model.n, data.inputs.shape[1]
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
        own = _Fit(columns, data, j, mask)
    # What a dropped one would be worth beyond its price is nothing, or it had been kept.
    worth = np.where(mask, worth, np.minimum(worth - limit, 0))
    lower = np.where(mask, lower_bound(worth, blocks, left), worth)
    return _Target(mask, worth, lower, _sources(own, worth, data.dim), risk, limit)


def lower_bound(
    worth: Float[np.ndarray, " input"],
    blocks: Float[np.ndarray, "input block"],
    left: Float[np.ndarray, " block"],
) -> Float[np.ndarray, " input"]:
    """What each input is worth at least, from its worth in blocks, and what is left there with it.

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


def _sources(own: _Fit, worth, dim: int):
    """What each source is worth at all its kept lags together, or at its best if that is more."""
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
