"""The interface of a strategy, its result, and the strategies as values: each has its own settings,
and its docstring says what it costs.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs, to_graph_axes
from .._checks import check_config, check_real_array, check_whole, refusal
from .._types import Checked, Graph, Scores, namespace_of, to_jax
from ..fit._fit import FitConfig, Status, fit
from ..fit._prices import EBIC, AbstractPrice, PerInput
from ..fit._refit import StrengthConfig, checked_graph, fit_layers, search_mask
from ..fit.penalties import L0NDDE, AbstractMethod, check_method
from ..models._model import AbstractDelayModel
from ..windows._flat import FlatData
from ..windows._windows import Windows
from ._exhaustive import exact_graph
from ._measured import Measured, measure_graph
from ._moves import search_lags
from ._path import coefficient_path
from ._screened import Screened
from ._splines import spline_graph


class Recovery(eqx.Module):
    """A graph and its evidence, whatever strategy found it.

    - `graph`: edges kept, `[source target lag]`.
    - `scores`: a ranking of all candidate edges, higher is surer; the unit is the strategy's.
    - `risk`: standardised mean squared error of the graph per target, corrected for the parameters
        used; 1 is as good as predicting the mean rate.
    - `price`: least fall of that risk for which an edge was kept, `[target]`; NaN where the
        strategy has a criterion of its own.
    - `status`: a [`Status`][ndde_jax.Status]. Failures are data, so a batch never stops.
    - `details`: the strategy's own result.
    - `model`: the drift that was fitted on the graph, by strategies that choose edges by it alone;
        else None.
    - `measured`: strengths, delays and drift ([`Measured`][ndde_jax.select.Measured]), from
        strategies that measure edges to choose them; else None, and
        [`discover`][ndde_jax.discover] measures the graph in closed form.
    """

    graph: Graph
    scores: Scores
    risk: Float[Array, "target"]
    price: Float[Array, "target"]
    status: Status
    details: Any
    model: AbstractDelayModel | None = None
    measured: Measured | None = None

    def measure(self, screened: Screened, price: AbstractPrice) -> Measured:
        """Return the measure of the graph: the strategy's own, or one in closed form."""
        if self.measured is not None:
            return self.measured
        found = measure_graph(screened, self.graph, price)
        return found if self.model is None else found.with_model(self.model)


class AbstractStrategy(eqx.Module):
    """A way to find a graph; a value that owns its settings.

    A new one implements `search` and, because [`recover`][ndde_jax.recover] may be under `vmap`,
    does so in JAX. [`discover`][ndde_jax.discover] measures what it finds, estimates its delays,
    and reports on it, as for any strategy; all else is for strategies that can do more.

    - `averages_out_errors`: whether lags that only average out errors of measurement are left out,
        of windows whose samples are known; reports say so.
    - `reads_sums`: whether sums over windows are enough, as where a record does not fit into
        memory.
    """

    averages_out_errors: ClassVar[bool] = False
    reads_sums: ClassVar[bool] = False

    @abc.abstractmethod
    def search(self, windows: Windows, price: AbstractPrice | None, key: PRNGKeyArray) -> Recovery:
        """Return the graph of one system; `price` is None where none was given."""

    @property
    def fits_networks(self) -> bool:
        """Whether the search may fit networks, so that it depends on its key; a drift of present
        states alone may then be a network, too.
        """
        return True

    def without_networks(self) -> "AbstractStrategy":
        """Return the strategy for records in which variables stand in for one another, as where
        events pass through, and networks would tell them apart by accident; by default itself.
        """
        return self

    def on(self, screened: Screened) -> "AbstractStrategy":
        """Return the strategy for windows whose samples are known, which may tell more than
        windows do: errors of measurement, delays between the candidate lags. By default itself,
        which sees windows alone.
        """
        return self

    def described(self, judged: str) -> str:
        """Return a sentence for a report; `judged` names the targets that networks describe."""
        return f"Graph found by {type(self).__name__.lower()}."


def recovery(
    windows: Windows, graph, scores, risk, price, details, status=None, **more
) -> Recovery:
    """Return the result with the status that its numbers imply."""
    refused = FlatData(windows).refused
    xp = namespace_of((refused, risk))
    failed = ~xp.all(xp.isfinite(xp.asarray(risk))) & ~xp.asarray(refused)
    status = Status.converged if status is None else status
    status = Status.where(to_jax(failed), Status.diverged, status)
    status = Status.where(refused, Status.refused, status)
    price = to_jax(xp.broadcast_to(xp.asarray(price), np.shape(risk)))
    return Recovery(graph, scores, risk, price, status, details, **more)


# Most inputs of a target in a search by flips, which keeps a refit cheap.
MAX_INPUTS = 16


def _read_starts(starts: Any):
    """Return graphs to start a search from; None stays None."""
    if starts is None:
        return None
    expected = "booleans [source target lag] or with a first axis of several"
    check_real_array(starts, "starts", expected)
    if np.ndim(starts) not in (3, 4) or 0 in np.shape(starts):
        raise refusal("starts", "[source target lag] or [start source target lag]", starts)
    return jnp.asarray(starts)


class Gates(AbstractStrategy):
    """A search by gates, or by any penalty that closes inputs, improved edge by edge until no flip
    pays.

    The search starts from the graphs that a penalty keeps along its path of coefficients, and from
    the empty graph. The graph of the gates is seldom such a local optimum, above all among
    collinear lags. Every target takes the inputs of the start that serves it best, then its best
    addition or removal, again and again, judged by refitted networks: the risk, corrected for the
    parameters used, plus the price of the edges must fall. Costs a refit per candidate and flip. No
    target gets more than 16 inputs, and a start with more is passed over.

    - `penalty`: [`L0NDDE`][ndde_jax.L0NDDE] by default; any of the five.
    - `config`: settings of the training, [`FitConfig`][ndde_jax.FitConfig]; without refinement by
        default, since only the graph is wanted.
    - `refit`: settings of the refits, [`StrengthConfig`][ndde_jax.fitting.StrengthConfig]; at most
        its `search` flips per target.
    - `improve`: False takes what the penalty keeps at its own coefficient, or at the λ of a price
        per input, as the paper does.
    - `starts`: graphs to start from instead, `[source target lag]` or with a first axis of several;
        no gates are fitted then, and the scores are 1 for edges, else 0. One that is all False
        makes this a forward selection.
    """

    penalty: Checked[AbstractMethod] = eqx.field(default_factory=L0NDDE)
    config: Checked[FitConfig | None] = None
    refit: Checked[StrengthConfig] = eqx.field(default_factory=StrengthConfig)
    improve: bool = eqx.field(static=True, default=True)
    starts: Any = eqx.field(converter=_read_starts, default=None)

    def __check_init__(self):
        check_method(self.penalty, "penalty")
        check_config(self.config, FitConfig)
        check_config(self.refit, StrengthConfig, "refit")
        if self.starts is not None and not self.improve:
            raise ValueError("starts are for gates that are improved; leave out improve=False.")

    def search(self, windows, price, key) -> Recovery:
        """Return the graph after the fit of the penalty and the flips."""
        if self.starts is not None:
            return self._flip(windows, _inputs_of(windows, self.starts), price, key)
        fit_key, search_key = jr.split(key)
        penalty, n_inputs = self.penalty, windows.dim * windows.n_lags
        if isinstance(price, PerInput):
            given = price.coefficient.astype(penalty.coefficient.dtype)
            penalty = eqx.tree_at(lambda p: p.coefficient, penalty, given)
        elif price is not None and not self.improve:
            raise ValueError(
                "price must be a coefficient per input for gates that are not improved, whose own "
                f"unit it is; got {type(price).__name__}. Use PerInput(...) or improve=True."
            )
        config = self.config
        if config is None:
            config = FitConfig(refine="none") if self.improve else FitConfig()
        result = fit(penalty, windows, config, key=fit_key)
        scores = to_graph_axes(result.scores)
        if not self.improve:
            share = (penalty.coefficient / n_inputs).astype(result.risk.dtype)
            graph = to_graph_axes(result.model.mask)
            found = (graph, scores, result.risk, share, result, result.status)
            return recovery(windows, *found, model=result.model)
        masks = result.path_masks.reshape(len(result.path_masks), windows.dim, n_inputs)
        starts = jnp.moveaxis(jnp.concatenate([masks, jnp.zeros_like(masks[:1])]), 0, 1)
        return self._flip(windows, starts, price, search_key, scores, result)

    def _flip(self, windows, starts, price, key, scores=None, result=None) -> Recovery:
        """Return the graph after flips from masks `[target start input]`; without gates edges have
        no ranking.
        """
        price, most = EBIC() if price is None else price, min(MAX_INPUTS, starts.shape[2])
        mask, risk, paid = search_mask(windows, starts, self.refit, most, price, key=key)
        graph = from_flat_inputs(mask)
        scores = graph.astype(risk.dtype) if scores is None else scores
        return recovery(windows, graph, scores, risk, paid, result)


class Splines(AbstractStrategy):
    """A spline regression with the extended Bayesian information criterion: closed forms, no
    network.

    Milliseconds once compiled. See [`spline_graph`][ndde_jax.select.spline_graph]. Its criterion
    counts features of splines, so it takes no other price.

    - `shortlist`: inputs per target that are named for networks to look at.
    """

    shortlist: Checked[int] = eqx.field(static=True, default=12)

    def __check_init__(self):
        check_whole(self.shortlist, "shortlist")

    @property
    def fits_networks(self) -> bool:
        """False."""
        return False

    def search(self, windows, price, key) -> Recovery:
        """Return the graph of the spline regression; nothing in it is random."""
        if not (price is None or isinstance(price, EBIC)):
            raise ValueError(
                f"price must be EBIC() for splines; got {type(price).__name__}. Use Moves() with "
                "this price."
            )
        found = spline_graph(windows, shortlist=self.shortlist)
        scores, risk = found.evidence, found.risk
        return recovery(windows, found.graph, scores, risk, jnp.full_like(risk, jnp.nan), found)


class Moves(AbstractStrategy):
    """A search by moves from the choice of splines, judged by networks: edges are added, dropped
    and exchanged.

    The cost hardly grows with the number of candidates, and neighbouring lags can be exchanged.
    See [`search_lags`][ndde_jax.select.search_lags].

    - `shortlist`: inputs per target to search among.
    - `refit`: settings of first fits and refits.
    """

    shortlist: Checked[int] = eqx.field(static=True, default=12)
    refit: Checked[StrengthConfig] = eqx.field(default_factory=StrengthConfig)

    def __check_init__(self):
        check_whole(self.shortlist, "shortlist")
        check_config(self.refit, StrengthConfig, "refit")

    def search(self, windows, price, key) -> Recovery:
        """Return the graph after moves from the choice of splines."""
        options = dict(config=self.refit, shortlist=self.shortlist)
        found = search_lags(windows, key=key, coefficient=price, **options)
        return recovery(windows, found.graph, found.evidence, found.risk, found.threshold, found)


class Exhaustive(AbstractStrategy):
    """A trial of every subset of inputs of every target, for at most twelve candidates.

    Scores are by how much the best cost rises when an edge is flipped, signed so that positive
    speaks for the edge. See [`exact_graph`][ndde_jax.select.exact_graph].

    - `refit`: settings of the refits.
    """

    refit: Checked[StrengthConfig] = eqx.field(default_factory=StrengthConfig)

    def __check_init__(self):
        check_config(self.refit, StrengthConfig, "refit")

    def search(self, windows, price, key) -> Recovery:
        """Return the best of all graphs, at 2^F refits per target."""
        found = exact_graph(windows, key=key, coefficient=price, config=self.refit)
        subsets = found.subsets.reshape(len(found.subsets), -1)
        count = jnp.sum(subsets, axis=1).astype(found.risk.dtype)
        cost = found.risk + found.price[:, None] * count[None]
        # The best subset with an input against the best without it, [target input].
        best = lambda keep: jnp.min(  # noqa: E731
            jnp.where(keep.T[None], cost[:, None], jnp.inf), axis=2
        )
        scores = from_flat_inputs(best(~subsets) - best(subsets))
        mask = flat_inputs(found.graph)
        chosen = jnp.all(mask[:, None] == subsets[None], axis=2)
        risk = jnp.sum(jnp.where(chosen, found.risk, 0), axis=1)
        return recovery(windows, found.graph, scores, risk, found.price, found)


class CoefficientPath(AbstractStrategy):
    """A fit of a whole grid of coefficients in one batch, of which held-out blocks choose one.

    See [`coefficient_path`][ndde_jax.select.coefficient_path]. A price per input chooses the
    coefficient of the grid next to it instead.

    - `coefficients`: λ, at least two, ascending.
    - `penalty`: the penalty whose coefficient is varied.
    - `config`, `refit`: settings of training and refits.
    """

    coefficients: Float[Array, "coefficient"] = eqx.field(converter=jnp.asarray)
    penalty: Checked[AbstractMethod] = eqx.field(default_factory=L0NDDE)
    config: Checked[FitConfig | None] = None
    refit: Checked[StrengthConfig] = eqx.field(default_factory=StrengthConfig)

    def __check_init__(self):
        check_method(self.penalty, "penalty")
        check_config(self.config, FitConfig)
        check_config(self.refit, StrengthConfig, "refit")

    def search(self, windows, price, key) -> Recovery:
        """Return the refitted graph of the selected coefficient, after a fit of all."""
        if not (price is None or isinstance(price, PerInput)):
            raise ValueError(
                "price must be a coefficient per input for a path of coefficients; got "
                f"{type(price).__name__}. Leave it out to let held-out blocks choose."
            )
        path_key, fit_key = jr.split(key)
        options = dict(key=path_key, config=self.config, refit=self.refit)
        found = coefficient_path(self.penalty, windows, self.coefficients, **options)
        chosen = found.select() if price is None else price.coefficient
        graph = found.graph(chosen)
        mask = flat_inputs(graph)
        _, risk = fit_layers(windows, mask, self.refit, mask.shape[1], key=fit_key)
        share = jnp.asarray(chosen, risk.dtype) / mask.shape[1]
        return recovery(windows, graph, found.scores, risk, share, found)


def _inputs_of(windows, starts) -> Bool[Array, "target start input"]:
    """Return one graph or several as masks, by target and flat (lag, source)."""
    graphs = [starts] if np.ndim(starts) == 3 else list(starts)
    return jnp.stack([checked_graph(windows, graph)[1] for graph in graphs], axis=1)
