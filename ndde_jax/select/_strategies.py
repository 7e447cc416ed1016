"""Interface and result of a strategy, and the strategies as values: each has its own settings, and
its docstring states its cost.

The path of a coefficient, which a strategy uses, is here too.
"""

import abc
import dataclasses
import functools
import itertools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs, to_graph_axes
from .._checks import (
    argument_error,
    check_config,
    check_key,
    check_non_negative,
    check_real_array,
    check_whole,
    check_windows,
    is_traced,
    short_repr,
)
from .._types import Checked, Graph, Scores, Settings, namespace_of, setting, to_jax
from ..fit._fit import FitConfig, FitResult, Status, fit
from ..fit._prices import EBIC, RESOLUTION, AbstractPrice, PerInput, as_price
from ..fit._refit import (
    StrengthConfig,
    best_of_starts,
    blocks_of,
    checked_graph,
    fit_layers,
    folds_of,
    held_out_squares,
    search_mask,
)
from ..fit.penalties import L0NDDE, NODE, AbstractMethod, check_method
from ..models._model import AbstractDelayModel
from ..windows._windows import FlatData, KnownData, Windows
from ._judge import MoveProblem, judge
from ._measured import Measured, measure_graph
from ._screened import Screened
from ._splines import SplineGraph, spline_graph

# ---- the path of a coefficient ----


class SweptGraphs(eqx.Module):
    """The graphs along a grid of coefficients, with their prediction errors on held-out data.

    - `coefficients`: the grid of λ, ascending, `[coefficient]`.
    - `graphs`: `[coefficient source target lag]`.
    - `death`: the smallest coefficient from which on an edge is closed, `[source target lag]`; 0
        for edges that are never open, infinite for those open at the largest coefficient.
    - `scores`: a ranking: the method's scores averaged over the grid and the training.
    - `held_out`: mean squared error of the refitted graphs on held-out blocks, summed over targets
        in standardised units, `[coefficient]`.
    - `standard_error`: standard error of the difference of `held_out` from its minimum, from paired
        blocks.
    - `status`: status of the underlying fit.
    """

    coefficients: Float[Array, "coefficient"]
    graphs: Bool[Array, "coefficient source target lag"]
    death: Scores
    scores: Scores
    held_out: Float[Array, "coefficient"]
    standard_error: Float[Array, "coefficient"]
    status: Status

    def select(self, errors: Checked[float] = 1.0) -> Float[Array, ""]:
        """Return the largest coefficient whose held-out risk is within `errors` standard errors of
        the minimum.

        The difference is paired by block, so errors common to both graphs cancel. The margin is
        widened by 1e-4 per target, the error of difference quotients. The rule favours sparse
        graphs if data are few. It keeps proxies of true drivers if candidates are collinear,
        because proxies predict as well.
        """
        check_non_negative(errors=errors)
        excess = self.held_out - jnp.min(self.held_out)
        good = excess <= errors * self.standard_error + RESOLUTION * self.graphs.shape[2]
        return jnp.max(jnp.where(good, self.coefficients, -jnp.inf))

    def graph(self, coefficient: Any = None) -> Graph:
        """Return the graph at a coefficient of the grid, by default at the selected one."""
        if coefficient is not None:
            check_non_negative(coefficient=coefficient)
        chosen = self.select() if coefficient is None else jnp.asarray(coefficient)
        return self.graphs[jnp.argmin(jnp.abs(self.coefficients - chosen))]


def coefficient_path(
    method: Checked[AbstractMethod],
    windows: Checked[Windows],
    coefficients: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[FitConfig | None] = None,
    refit: Checked[StrengthConfig | None] = None,
) -> SweptGraphs:
    """Fit a method for a whole grid of coefficients in one batch.

    All coefficients share warm-up, minibatches and compilation. Every graph found is then refitted
    on all windows, and once without each of `refit.folds` contiguous blocks, and evaluated on the
    omitted block. Works under `jit` and `vmap`.

    **Arguments:**

    - `method`: the method whose penalty is swept; its own `coefficient` and `path` are replaced.
    - `windows`: windows of one system.
    - `coefficients`: the grid of λ, positive and ascending.
    - `key`: random key of the fit and the refits.
    - `config`: [`FitConfig`][ndde_jax.FitConfig] of the fit; the final model is not refined.
    - `refit`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig] of the refits.

    **Returns:** a [`SweptGraphs`][ndde_jax.select.SweptGraphs].

    **Raises:** `ValueError` for coefficients that are not positive and ascending, or a method
    without a penalty.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    coefficients, key = (0.01, 0.1, 1.0), jax.random.key(0)
    found = ndde.select.coefficient_path(ndde.AGL(), windows, coefficients, key=key)
    print(found.select(), found.graph()[:, :, 0])
    ```
    """
    check_method(method)
    check_windows(windows, "coefficient_path")
    check_config(config, FitConfig)
    check_config(refit, StrengthConfig, "refit")
    key = check_key(key)
    check_real_array(coefficients, "coefficients", "at least two, positive and ascending")
    if isinstance(method, NODE):
        raise ValueError("method NODE has no penalty, so there is no path of coefficients.")
    values = jnp.asarray(coefficients, jnp.result_type(float))
    if values.ndim != 1 or values.shape[0] < 2:
        raise ValueError(f"coefficients must be at least two, [coefficient]; got {values.shape}.")
    known = None if is_traced(coefficients) else np.asarray(coefficients, float)
    if known is not None and not (
        known[0] > 0 and np.all(np.diff(known) > 0) and np.isfinite(known[-1])
    ):
        raise ValueError(
            f"coefficients must be positive, finite and ascending; got {short_repr(coefficients)}."
        )
    # Only the graphs of the fits are used.
    config = dataclasses.replace(FitConfig() if config is None else config, refine="none")
    n_inputs = windows.dim * windows.n_lags
    swept = eqx.tree_at(
        lambda m: (m.coefficient, m.path), method, (values[0], values[1:] / n_inputs)
    )
    fit_key, key = jr.split(key)
    result = fit(swept, windows, config, key=fit_key)
    refit = StrengthConfig() if refit is None else refit
    return _judge(windows, result, values, refit, key)


@eqx.filter_jit
def _judge(windows: Windows, result: FitResult, coefficients, config, key) -> SweptGraphs:
    masks = result.path_masks
    n, dim = masks.shape[:2]
    error, block_weight = held_out_errors(windows, masks.reshape(n, dim, -1), config, key=key)
    total = error.sum(axis=0)  # [coefficient block]
    mean = total @ block_weight
    best = jnp.argmin(mean)
    difference = (total - total[best][None]) * block_weight[None] * config.blocks
    spread = jnp.std(difference, axis=1, ddof=1) / jnp.sqrt(1.0 * config.blocks)
    graphs = to_graph_axes(masks)
    # The death of an edge is the coefficient after the last one at which it is open.
    ends = jnp.concatenate([coefficients, jnp.full((1,), jnp.inf)])
    last = n - jnp.argmax(graphs[::-1], axis=0)
    death = jnp.where(jnp.any(graphs, axis=0), ends[last], 0)
    return SweptGraphs(
        coefficients=coefficients,
        graphs=graphs,
        death=death,
        scores=to_graph_axes(result.scores),
        held_out=mean,
        standard_error=spread,
        status=result.status,
    )


def held_out_errors(
    windows: Windows,
    masks: Bool[Array, "graph target input"],
    config: StrengthConfig,
    *,
    key: PRNGKeyArray,
) -> tuple[Float[Array, "target graph block"], Float[Array, "block"]]:
    """Return the mean squared error of refitted graphs on held-out folds by bootstrap block, and
    the share of the weight in each block.
    """
    data = FlatData(windows)
    fold, train = folds_of(windows, data, config.folds)
    block = blocks_of(data.weight > 0, config.blocks)
    member = (block[:, None] == jnp.arange(config.blocks)[None]).astype(data.weight.dtype)
    member = member * data.weight[:, None]
    share = jnp.sum(member, axis=0)
    n_inputs = masks.shape[2]

    def one(mask, output, key):
        inputs, chosen = best_of_starts(data, mask, output, config, n_inputs, key=key)
        error = held_out_squares(chosen, inputs, output, data.weight, fold, train, config)
        return (error @ member) / jnp.where(share > 0, share, 1)

    # All graphs of a target have the same starts, so that their differences are paired. A graph
    # equal to the previous one, which is common along a path, needs no refit.
    def target(output, key, masks):
        def step(before, mask):
            last, error = before
            error = jax.lax.cond(
                jnp.any(mask != last), lambda: one(mask, output, key), lambda: error
            )
            return (mask, error), error

        none = jnp.zeros(share.shape, jnp.result_type(data.outputs))
        return jax.lax.scan(step, (~masks[0], none), masks)[1]

    errors = data.each_target(target, key, jnp.swapaxes(masks, 0, 1))
    return errors, share / jnp.maximum(jnp.sum(share), 1)


# ---- strategies ----


class Recovery(eqx.Module):
    """A graph and its evidence, for all strategies.

    - `graph`: edges kept, `[source target lag]`.
    - `scores`: a ranking of all candidate edges, higher being more certain, in units of the
        strategy.
    - `risk`: standardised mean squared error of the graph per target, corrected for the parameters
        used; 1 is as good as predicting the mean rate.
    - `price`: least fall of that risk for which an edge was kept, `[target]`; NaN if the strategy
        has its own criterion.
    - `status`: a [`Status`][ndde_jax.Status]. Failures are data, so a batch never stops.
    - `details`: the strategy's own result.
    - `model`: the drift fitted on the graph, for strategies that choose edges by it alone; else
        None.
    - `measured`: strengths, delays and drift ([`Measured`][ndde_jax.select.Measured]), for
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
        """Return the measure of the graph: the strategy's own, or otherwise one in closed form."""
        if self.measured is not None:
            return self.measured
        found = measure_graph(screened, self.graph, price)
        return found if self.model is None else found.with_model(self.model)


class AbstractStrategy(Settings):
    """A way to find a graph; a value that contains its settings.

    A new strategy implements `search`, in JAX because [`recover`][ndde_jax.recover] may be under
    `vmap`. [`discover`][ndde_jax.discover] measures the graph it finds, estimates its delays and
    reports on it, as for any strategy. The other members are for strategies that can do more.

    - `averages_out_errors`: whether lags that only average out measurement errors are omitted for
        windows whose samples are known; reports mention it.
    - `reads_sums`: whether sums over windows suffice, for records that do not fit into memory.
    """

    averages_out_errors: ClassVar[bool] = False
    reads_sums: ClassVar[bool] = False

    @abc.abstractmethod
    def search(self, windows: Windows, price: AbstractPrice | None, key: PRNGKeyArray) -> Recovery:
        """Return the graph of one system; `price` is None where none was given."""

    @property
    def fits_networks(self) -> bool:
        """Whether the search may fit networks, so that it depends on its key; a drift of present
        states alone may then also be a network.
        """
        return True

    def without_networks(self) -> "AbstractStrategy":
        """Return the strategy for records in which variables are proxies for one another, for
        example where events pass through, and networks would separate them by accident; by default
        the strategy itself.
        """
        return self

    def on(self, screened: Screened) -> "AbstractStrategy":
        """Return the strategy for windows whose samples are known. Samples may contain more
        information than windows: measurement errors, delays between the candidate lags. By default
        the strategy itself, which uses windows alone.
        """
        return self

    def described(self, judged: str) -> str:
        """Return a sentence for a report; `judged` names the targets described by networks."""
        return f"Graph found by {type(self).__name__.lower()}."


def recovery(
    windows: Windows, graph, scores, risk, price, details, status=None, **more
) -> Recovery:
    """Return the result with the status implied by its numbers."""
    refused = FlatData(windows).refused
    xp = namespace_of((refused, risk))
    failed = ~xp.all(xp.isfinite(xp.asarray(risk))) & ~xp.asarray(refused)
    status = Status.converged if status is None else status
    status = Status.where(to_jax(failed), Status.diverged, status)
    status = Status.where(refused, Status.refused, status)
    price = to_jax(xp.broadcast_to(xp.asarray(price), np.shape(risk)))
    return Recovery(graph, scores, risk, price, status, details, **more)


# Most inputs of a target in a search by flips, which limits the cost of a refit.
MAX_INPUTS = 16


def _read_starts(starts: Any):
    """Return graphs to start a search from, or None."""
    if starts is None:
        return None
    expected = "booleans [source target lag] or with a first axis of several"
    check_real_array(starts, "starts", expected)
    if np.ndim(starts) not in (3, 4) or 0 in np.shape(starts):
        raise argument_error("starts", "[source target lag] or [start source target lag]", starts)
    return jnp.asarray(starts)


class Gates(AbstractStrategy):
    """A search by gates, or any penalty that closes inputs, improved edge by edge until no flip
    lowers the cost.

    The search starts from the graphs that a penalty keeps along its path of coefficients, and from
    the empty graph. The graph of the gates is seldom a local optimum of the cost, above all among
    collinear lags. Each target takes the inputs of its best start, and then repeatedly its best
    addition or removal by refitted networks, as long as the cost falls: the risk, corrected for the
    parameters used, plus the price of the edges. A flip costs one refit per candidate. A target has
    at most 16 inputs, and starts with more are ignored.

    - `penalty`: any of the five methods; by default [`L0NDDE`][ndde_jax.L0NDDE].
    - `config`: settings of the training, [`FitConfig`][ndde_jax.FitConfig]; by default without
        refinement, because only the graph is used.
    - `refit`: settings of the refits, [`StrengthConfig`][ndde_jax.fitting.StrengthConfig]; its
        `search` is the most flips per target.
    - `improve`: False returns the graph of the penalty at its own coefficient, or at the λ of a
        price per input, as in the paper.
    - `starts`: graphs to start from instead, `[source target lag]` or with a first axis of several.
        No gates are fitted then, and the scores are 1 for edges, else 0. A start that is all False
        makes the search a stepwise selection from the empty graph.
    """

    penalty: Checked[AbstractMethod] = setting(L0NDDE, check_method)
    config: Checked[FitConfig | None] = setting(None, check_config, kind=FitConfig)
    refit: Checked[StrengthConfig] = setting(StrengthConfig, check_config, kind=StrengthConfig)
    improve: bool = eqx.field(static=True, default=True)
    starts: Any = eqx.field(converter=_read_starts, default=None)

    def __check_init__(self):
        if self.starts is not None and not self.improve:
            raise ValueError("starts apply only to gates that are improved; omit improve=False.")

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
                "price must be a coefficient per input, the penalty's own unit, for gates that are "
                f"not improved; got {type(price).__name__}. Use PerInput(...) or improve=True."
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
        """Return the graph after flips from masks `[target start input]`; without gates, edges have
        no ranking.
        """
        price, most = EBIC() if price is None else price, min(MAX_INPUTS, starts.shape[2])
        mask, risk, paid = search_mask(windows, starts, self.refit, most, price, key=key)
        graph = from_flat_inputs(mask)
        scores = graph.astype(risk.dtype) if scores is None else scores
        return recovery(windows, graph, scores, risk, paid, result)


class Splines(AbstractStrategy):
    """A spline regression with the extended Bayesian information criterion, in closed form and
    without networks.

    Takes milliseconds once compiled. See [`spline_graph`][ndde_jax.select.spline_graph]. Its
    criterion counts features of splines, so it accepts no other price.

    - `shortlist`: number of inputs per target that are listed for networks to examine.
    """

    shortlist: Checked[int] = setting(12, check_whole)

    @property
    def fits_networks(self) -> bool:
        """Whether the search may fit networks: it does not."""
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
    """A search by moves from the choice of splines, with networks as judges: edges are added,
    dropped and exchanged. For many candidate lags, neighbours of which are nearly collinear.

    For each target, [`spline_graph`][ndde_jax.select.spline_graph] makes a shortlist and a first
    choice. A network is fitted on that choice and improved by local search: an edge is added,
    dropped, or *swapped* for another. All moves are ranked by the risk after one Gauss–Newton step,
    the best few are refitted, and the best of these is taken if it lowers risk + price × edges.
    Unlike for [`Gates`][ndde_jax.select.Gates], the cost does not grow with the number of
    candidates, and one move can correct a wrong lag without passing through a worse graph. Edges
    that the prior of the windows decides are not changed. If noise drives the system, use
    [`midpoint_windows`][ndde_jax.select.midpoint_windows], because lags that are off by half a step
    lose edges.

    The score of an edge is the rise of the logarithm of a target's risk without it, or for a
    dropped edge its fall with it. Kept edges are evaluated by a refit without them, dropped ones by
    linearisation (on the shortlist) or by a regression on splines (elsewhere). `details` of the
    result is the [`SplineGraph`][ndde_jax.select.SplineGraph] from which the search started.

    - `shortlist`: number of inputs to search among per target.
    - `refit`: settings of the networks: `restarts` and `steps` of first fits, `fold_steps` of
        refits, and the most moves, `search`.
    """

    shortlist: Checked[int] = setting(12, check_whole)
    refit: Checked[StrengthConfig] = setting(StrengthConfig, check_config, kind=StrengthConfig)

    def search(self, windows, price, key) -> Recovery:
        """Return the graph after moves from the choice of splines."""
        price, screening = as_price(price), spline_graph(windows, shortlist=self.shortlist)
        if is_traced(windows, screening, price, key):
            return _search_traced(windows, screening, price, self.refit, key)
        data = KnownData(windows)
        numbers = functools.partial(to_jax, dtype=data.dtype)
        if data.refused:
            nothing = numbers(np.full(data.dim, np.nan))
            graph, scores = screening.graph, screening.evidence
            return recovery(windows, graph, scores, nothing, nothing, screening)
        rows = judge(data, screening, price, self.refit, key=key)
        return recovery(
            windows,
            graph=to_jax(from_flat_inputs(np.stack([row.mask for row in rows]))),
            scores=numbers(from_flat_inputs(np.stack([row.evidence for row in rows]))),
            risk=numbers(np.array([row.risk for row in rows])),
            price=numbers(np.array([row.threshold for row in rows])),
            details=screening,
        )


@eqx.filter_jit
def _search_traced(windows, screening: SplineGraph, price, config, key) -> Recovery:
    """Return the result of the moves from a screening, for traced windows."""
    data = FlatData(windows)
    n, n_inputs = data.total, data.inputs.shape[1]
    first, spline_evidence = flat_inputs(screening.graph), flat_inputs(screening.evidence)

    def target(output, key, slots, chosen, undecided, evidence):
        inputs = data.inputs[:, slots]
        undecided = undecided[slots]
        problem = MoveProblem(inputs, output, data.weight, n_inputs, price, config, undecided)
        state = problem.from_scratch(chosen[slots], key)
        mask, found, linear, paid = problem.search(state, n)
        inside = problem.evidence(mask, found, linear, n)
        evidence = evidence.at[slots].set(inside)
        chosen = jnp.zeros(n_inputs, bool).at[slots].set(mask)
        return chosen, evidence, found.corrected_risk(n), paid

    each = (screening.shortlist, first, data.undecided, spline_evidence)
    mask, evidence, risk, paid = data.each_target(target, key, *each)
    numbers = (from_flat_inputs(evidence), risk, paid)
    scores, risk, paid = (jnp.where(data.refused, jnp.nan, a) for a in numbers)
    graph = from_flat_inputs(mask) & ~data.refused
    return recovery(windows, graph, scores, risk, paid, screening)


# Most inputs of a target of which all subsets are tried: 2^F refits per target are 4096 for twelve,
# half a minute each.
MOST_INPUTS = 12


class Exhaustive(AbstractStrategy):
    """An exhaustive search over the subsets of inputs of every target, for at most twelve
    candidates.

    The objective risk + price × inputs is a sum over targets, so 2^F refits per target suffice for
    F candidates. The minimum is exact up to the refits, each the best of `refit.restarts` nonconvex
    fits. The price is computed at the least risk of all subsets. The score of an edge is the rise
    of the best cost when the edge is flipped, signed so that positive values support the edge.
    `details` of the result are all subsets of flat (lag, source) inputs, `[subset input]`, and the
    risk of each, corrected for the parameters used, `[target subset]`.

    - `refit`: settings of the refits.
    """

    refit: Checked[StrengthConfig] = setting(StrengthConfig, check_config, kind=StrengthConfig)

    def search(self, windows, price, key) -> Recovery:
        """Return the best of all graphs, at 2^F refits per target."""
        n_inputs = windows.dim * windows.n_lags
        if n_inputs > MOST_INPUTS:
            raise ValueError(
                f"windows have {n_inputs} candidate inputs with 2^{n_inputs} subsets; at most "
                f"{MOST_INPUTS} inputs can be enumerated. Use another strategy, or fewer lags."
            )
        return _enumerate(windows, as_price(price), self.refit, key)


@eqx.filter_jit
def _enumerate(windows: Windows, price: AbstractPrice, config: StrengthConfig, key) -> Recovery:
    """Return the result of refits of all subsets of the candidates."""
    data = FlatData(windows)
    n_inputs = data.inputs.shape[1]
    subsets = np.array(list(itertools.product((False, True), repeat=n_inputs)))
    subsets = jnp.asarray(subsets[np.argsort(subsets.sum(axis=1), kind="stable")])

    def target(output, key):
        def risk(mask):
            _, chosen = best_of_starts(data, mask, output, config, n_inputs, key=key)
            return chosen.corrected_risk(data.total)

        return jax.lax.map(risk, subsets)

    risk = jnp.where(data.refused, jnp.nan, data.each_target(target, key))
    paid = price(jnp.min(risk, axis=1), data.total, n_inputs, config.width)
    cost = risk + paid[:, None] * jnp.sum(subsets, axis=1).astype(risk.dtype)[None]
    # The cost of the best subset with or without each input, [target input].
    best = lambda keep: jnp.min(  # noqa: E731
        jnp.where(keep.T[None], cost[:, None], jnp.inf), axis=2
    )
    scores = from_flat_inputs(best(~subsets) - best(subsets))
    candidate = jnp.broadcast_to(subsets, (data.dim, *subsets.shape))
    obeys = jnp.all(data.apply_prior(candidate) == candidate, axis=2)
    chosen = jnp.argmin(jnp.where(obeys, cost, jnp.inf), axis=1)
    least = jnp.take_along_axis(risk, chosen[:, None], axis=1)[:, 0]
    graph = from_flat_inputs(subsets[chosen])
    return recovery(windows, graph, scores, least, paid, (subsets, risk))


class CoefficientPath(AbstractStrategy):
    """A fit of a grid of coefficients in one batch, with the coefficient chosen on held-out blocks.

    See [`coefficient_path`][ndde_jax.select.coefficient_path]. A price per input selects the
    nearest coefficient of the grid instead.

    - `coefficients`: the grid of λ, at least two values, ascending.
    - `penalty`: the penalty whose coefficient is varied.
    - `config`, `refit`: settings of the training and of the refits.
    """

    coefficients: Float[Array, "coefficient"] = eqx.field(converter=jnp.asarray)
    penalty: Checked[AbstractMethod] = setting(L0NDDE, check_method)
    config: Checked[FitConfig | None] = setting(None, check_config, kind=FitConfig)
    refit: Checked[StrengthConfig] = setting(StrengthConfig, check_config, kind=StrengthConfig)

    def search(self, windows, price, key) -> Recovery:
        """Return the refitted graph of the selected coefficient, after a fit of all of them."""
        if not (price is None or isinstance(price, PerInput)):
            raise ValueError(
                "price must be a coefficient per input for a path of coefficients; got "
                f"{type(price).__name__}. Omit it to let held-out blocks decide."
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
    """Return one graph or several as masks by target and flat (lag, source)."""
    graphs = [starts] if np.ndim(starts) == 3 else list(starts)
    return jnp.stack([checked_graph(windows, graph)[1] for graph in graphs], axis=1)
