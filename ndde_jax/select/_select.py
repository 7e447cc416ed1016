"""Which graph: of several given ones improved edge by edge, or the best search the library has."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import (
    check_choice,
    check_config,
    check_real_array,
    refusal,
)
from .._memory import make_room
from .._types import Checked, Graph
from ..fit._fit import FitConfig, FitResult, fit
from ..fit._fixed import checked_graph
from ..fit._prices import EBIC
from ..fit._refit import (
    StrengthConfig,
    checked_refit,
    search_mask,
)
from ..fit.penalties import L0NDDE, check_method
from ..windows._windows import Windows
from ._moves import search_lags, searches_by_moves

# Most inputs of a target in a search.
MAX_INPUTS = 16


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
    the price of the edges (see [`SignalStrengths.kept`][ndde_jax.measure.SignalStrengths.kept])
    must fall. What gates select is a good start but seldom such a local optimum, above all among
    collinear lags.

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
    mask, *_ = search_mask(windows, starts, config, max_inputs, EBIC(), key=key)
    return to_graph_axes(mask.reshape(windows.dim, windows.n_lags, windows.dim))


def chosen_search(windows: Windows, search: Checked[str]) -> str:
    """What `"auto"` means for these windows; `ValueError` for what is no search."""
    check_choice(search, "search", ("auto", "gates", "splines"))
    if search != "auto":
        return search
    return "splines" if searches_by_moves(windows) else "gates"


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

    - `windows`, `key`, `config`: as for [`search_graph`][ndde_jax.select.search_graph].
    - `result`: a fit whose gates the search starts from; by default one of
        [`L0NDDE`][ndde_jax.L0NDDE] with its default settings.
    - `search`: `"gates"` takes what gates select along their path of coefficients, and nothing, as
        starts of [`search_graph`][ndde_jax.select.search_graph]; `"splines"` needs no gates and is
        [`search_lags`][ndde_jax.select.search_lags], whose cost hardly grows with the number of
        candidates and which can exchange neighbouring lags. `"auto"` takes the second from 25
        candidate inputs per target (variables × lags) on, and for midpoint windows.

    **Returns:** the graph, `[source target lag]`.

    **Raises:** as [`search_graph`][ndde_jax.select.search_graph], and `ValueError` for another
    `search`.
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


def check_settings(method: Any, config: Any, strength_config: Any, search: Any) -> None:
    """How to select a graph: a method, its settings and those of the refits, None for defaults."""
    if method is not None:
        check_method(method)
    check_config(config, FitConfig)
    check_config(strength_config, StrengthConfig, "strength_config")
    check_choice(search, "search", ("auto", "gates", "splines"))
