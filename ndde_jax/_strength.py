"""Signal strengths: what an edge is worth, measured by refitting with and without it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ._checks import (
    check_choice,
    check_coefficient,
    check_graph,
    check_real_array,
    refusal,
)
from ._drift import MaskedDrift
from ._fit import FitConfig, FitResult, fit
from ._graph import from_graph_axes, to_graph_axes
from ._lag_search import search_lags
from ._memory import make_room
from ._methods import L0NDDE
from ._model import NeuralDDE
from ._prior import PriorKnowledge
from ._refit import (
    StrengthConfig,
    checked_refit,
    compare_alternatives,
    edge_price,
    fit_layers,
    search_mask,
)
from ._types import Checked, Graph, Scores
from ._windows import Windows

# Most inputs of a target in a search.
MAX_INPUTS = 16
# Candidate inputs per target from which on "auto" searches by splines: the cost of judging every
# move by refitted networks grows with the square of their number.
SPLINE_SEARCH_INPUTS = 25


class SignalStrengths(eqx.Module):
    """What every candidate edge is worth, as a share of the variance of its target's rate.

    Each strength compares two graphs that differ in one edge: it is the rise of the target's
    standardised mean squared error when a kept edge is left out, or the fall when a dropped one is
    added, everything else refitted. The paper's ŝ². Around zero, and possibly below, where nothing
    is there.

    - `value`: the strength to rank by, `[source target lag]`: the in-sample estimate with both
        risks corrected for the parameters they used (generalised cross-validation).
    - `held_out`: the same on blocks left out of the refit. Less biased, noisier.
    - `lower`: one-sided lower confidence bound of `held_out`, from a block bootstrap of the paired
        differences.
    - `source_value`, `source_held_out`: strength of a source at all its kept lags together,
        `[source target]`. Neighbouring lags can stand in for one another in `value`, not here.
    - `graph`: the graph the strengths are relative to.
    - `risk`: held-out risk of that graph per target; 1 is as good as predicting the mean rate.
    - `risk_in_sample`: the same in-sample, corrected.
    - `threshold`: what an edge must be worth per target under the default rule of `kept`.
    - `prior`: the prior knowledge of the windows. Edges that are not allowed are measured like all
        others, which tests the prior, but never kept.
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

    def kept(self, coefficient=None) -> Graph:
        """Edges worth keeping, `[source target lag]`.

        **Arguments:**

        - `coefficient`: λ of the L0 rule: keep iff the strength exceeds λ/F with F candidate inputs
            per target, the exchange rate of [`L0NDDE`][ndde_jax.L0NDDE]. By default no coefficient
            is needed: keep iff the strength exceeds

                10⁻⁴ + risk · width · (ln n − 2 + ln F) / n

            and is positive on held-out blocks. This is the extended Bayesian information criterion
            for the `width` weights that an input brings, less what the correction of the risks has
            charged already, plus the resolution of difference quotients. It becomes stricter with
            noise and with more candidates, laxer with more data.

        Edges of the prior are kept or not whatever they are worth.
        """
        check_coefficient(coefficient)
        if coefficient is None:
            good = (self.value > self.threshold[None, :, None]) & (self.held_out > 0)
        else:
            price = jnp.asarray(coefficient) / (self.value.shape[0] * self.value.shape[2])
            good = self.value > price
        return self.prior.apply(good)


def signal_strengths(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    graph: Any = None,
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> SignalStrengths:
    """Measure what every edge is worth relative to a graph.

    For each target the graph is refitted as it is, with every single edge removed or added, and
    without each source at all lags: from `restarts` random starts on all windows, and from there on
    contiguous blocks with a gap of the largest lag around what is held out. Networks are trained by
    Levenberg–Marquardt with evidence regularisation, so noise-free data are fitted to about 1e-6 of
    their variance and noisy data are not overfitted.

    Relative to a *selected* graph, because with many collinear inputs every single one can be
    dropped from the full model at no cost.

    **Arguments:**

    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows], one system.
    - `key`: random starts, bootstrap, and the fit that selects the graph.
    - `graph`: `[source target lag]`; `"full"` for all edges allowed (good for few inputs); by
        default that of [`select_graph`][ndde_jax.select_graph].
    - `config`: [`StrengthConfig`][ndde_jax.StrengthConfig].
    - `max_inputs`: most inputs of any network compared, static. By default the largest in-degree of
        the graph plus one, rounded up to a multiple of four; under `jit` and `vmap`, where the
        graph is not known, all inputs.

    **Returns:** [`SignalStrengths`][ndde_jax.SignalStrengths]; all NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a graph of the wrong shape, or with more inputs than `max_inputs`
    allows.

    The strength is the paper's s_ij² (equation "signal"), estimated by refitting.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strengths = ndde.signal_strengths(windows, graph="full", key=jax.random.key(0))
    print(strengths.kept()[:, :, 0])
    ```
    """
    config, key = checked_refit("signal_strengths", windows, config, key, max_inputs)
    fit_key, key = jr.split(key)
    if graph is None:
        graph = select_graph(windows, key=fit_key, config=config)
    graph, base = checked_graph(windows, graph)
    max_inputs = input_slots(base, max_inputs)
    make_room(windows, config, key)
    result = compare_alternatives(windows, base, config, max_inputs, key=key)

    def edges(a):
        return to_graph_axes(a.reshape(windows.dim, windows.n_lags, windows.dim))

    n = jnp.maximum(windows.n_valid, 1).astype(result.in_sample.dtype)
    return SignalStrengths(
        value=edges(result.in_sample),
        held_out=edges(result.held_out),
        lower=edges(result.lower),
        source_value=result.source_in_sample.T,
        source_held_out=result.source_held_out.T,
        graph=graph,
        risk=result.base_held_out,
        risk_in_sample=result.base_in_sample,
        threshold=edge_price(result.base_in_sample, n, base.shape[1], config.width),
        prior=windows.prior,
    )


def search_graph(
    windows: Checked[Windows],
    graphs: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> Graph:
    """The best of several graphs, target by target, improved edge by edge until no flip pays.

    Every target takes the inputs of the graph that serves it best, then its best addition or
    removal, again and again, judged by refitting: the risk, corrected for the parameters used, plus
    the price of the edges (see [`SignalStrengths.kept`][ndde_jax.SignalStrengths.kept]) must fall.
    What gates select is a good start but seldom such a local optimum, above all among collinear
    lags.

    **Arguments:**

    - `windows`, `key`, `config`: as for [`signal_strengths`][ndde_jax.signal_strengths]; at most
        `config.search` flips per target.
    - `graphs`: where to start, `[source target lag]` or `[start source target lag]`; one that is
        all False makes this a forward selection.
    - `max_inputs`: most inputs of a target, static; 16 by default, which keeps a refit cheap. A
        start with more is passed over.

    **Returns:** the graph, `[source target lag]`.

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths].
    """
    config, key = checked_refit("search_graph", windows, config, key, max_inputs)
    check_real_array(
        graphs, "graphs", "booleans [source target lag] or with a first axis of starts"
    )
    if np.ndim(graphs) not in (3, 4) or 0 in np.shape(graphs):
        raise refusal("graphs", "[source target lag] or [start source target lag]", graphs)
    graphs = [graphs] if np.ndim(graphs) == 3 else graphs
    starts = jnp.stack([checked_graph(windows, graph)[1] for graph in graphs], axis=1)
    max_inputs = min(MAX_INPUTS if max_inputs is None else max_inputs, starts.shape[2])
    make_room(windows, config, key)
    mask = search_mask(windows, starts, config, max_inputs, key=key)
    return to_graph_axes(mask.reshape(windows.dim, windows.n_lags, windows.dim))


def chosen_search(windows: Windows, search: Checked[str]) -> str:
    """What `"auto"` means for these windows; `ValueError` for what is no search."""
    check_choice(search, "search", ("auto", "gates", "splines"))
    if search != "auto":
        return search
    many = windows.dim * windows.n_lags >= SPLINE_SEARCH_INPUTS
    return "splines" if many or windows.scheme == "midpoint" else "gates"


def select_graph(
    windows: Checked[Windows],
    result: Checked[FitResult | None] = None,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
    search: Checked[str] = "auto",
) -> Graph:
    """The library's best graph.

    **Arguments:**

    - `windows`, `key`, `config`: as for [`search_graph`][ndde_jax.search_graph].
    - `result`: a fit whose gates the search starts from; by default one of
        [`L0NDDE`][ndde_jax.L0NDDE] with its default settings.
    - `search`: `"gates"` takes what gates select along their path of coefficients, and nothing, as
        starts of [`search_graph`][ndde_jax.search_graph]; `"splines"` needs no gates and is
        [`search_lags`][ndde_jax.search_lags], whose cost hardly grows with the number of candidates
        and which can exchange neighbouring lags. `"auto"` takes the second from 25 candidate inputs
        per target (variables × lags) on, and for midpoint windows.

    **Returns:** the graph, `[source target lag]`.

    **Raises:** as [`search_graph`][ndde_jax.search_graph], and `ValueError` for another `search`.
    """
    _, key = checked_refit("select_graph", windows, config, key)
    if result is not None and not isinstance(result, FitResult):
        raise refusal("result", "what fit returns", result)
    fit_key, search_key = jr.split(key)
    if chosen_search(windows, search) == "splines":
        return search_lags(windows, key=search_key, config=config).graph
    if result is None:
        result = fit(L0NDDE(), windows, FitConfig(refine="none"), key=fit_key)
    graphs = to_graph_axes(result.path_masks)
    graphs = jnp.concatenate([graphs, jnp.zeros_like(graphs[:1])])
    return search_graph(windows, graphs, key=search_key, config=config)


def fit_graph(
    windows: Checked[Windows],
    graph: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> NeuralDDE:
    """Fit a drift on a given graph, without any selection.

    **Arguments:**

    - `windows`, `key`, `config`, `max_inputs`: as for
        [`signal_strengths`][ndde_jax.signal_strengths].
    - `graph`: `[source target lag]`. A target without inputs gets its mean rate.

    **Returns:** [`NeuralDDE`][ndde_jax.NeuralDDE], whose mask is the graph; its weights are NaN for
    windows that [`fit`][ndde_jax.fit] would refuse.

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths].
    """
    config, key = checked_refit("fit_graph", windows, config, key, max_inputs)
    graph, base = checked_graph(windows, graph)
    make_room(windows, config, key)
    layers, _ = fit_layers(windows, base, config, input_slots(base, max_inputs), key=key)
    mask = from_graph_axes(graph)
    return NeuralDDE(MaskedDrift(layers), mask, windows.scaling, windows.dt, windows.lags)


def checked_graph(windows: Windows, graph: Any) -> tuple[Graph, Array]:
    """A graph as `[source target lag]` and as a mask `[target input]`, or a `ValueError`."""
    shape = (windows.dim, windows.dim, windows.n_lags)
    if isinstance(graph, str):
        if graph != "full":
            raise refusal("graph", "'full' or [source target lag]", graph)
        graph = windows.prior.allowed
    graph = check_graph(graph, shape)
    return graph, from_graph_axes(graph).reshape(windows.dim, -1)


def input_slots(base, max_inputs: int | None) -> int:
    """Inputs that a network must have room for."""
    n_inputs = base.shape[1]
    if isinstance(base, jax.core.Tracer):
        return n_inputs if max_inputs is None else min(max_inputs, n_inputs)
    needed = min(int(np.asarray(base).sum(axis=1).max()) + 1, n_inputs)
    if max_inputs is None:
        # In steps of four: few different shapes, few compilations.
        return min(-(-needed // 4) * 4, n_inputs)
    if max_inputs < needed:
        raise ValueError(
            f"max_inputs={max_inputs} is too small: a target of the graph, with one edge "
            f"added, has {needed} inputs. Raise it or thin out the graph."
        )
    return min(max_inputs, n_inputs)
