"""From a fitted model to edges, and from [target, lag, source] to [source, target, lag]."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Shaped

from ._checks import check_real_array, refusal
from ._fit import FitResult
from ._types import Checked, Graph, Scores


def to_graph_axes(array: Array) -> Array:
    """[..., target, lag, source] -> [..., source, target, lag]."""
    return jnp.moveaxis(array, (-3, -2, -1), (-2, -1, -3))


def from_graph_axes(array: Array) -> Array:
    """[..., source, target, lag] -> [..., target, lag, source], the inverse of `to_graph_axes`."""
    return jnp.moveaxis(array, (-3, -2, -1), (-1, -3, -2))


def edge_scores(result: Checked[FitResult]) -> Scores:
    """How strongly a fit holds on to each edge, `[source target lag]`, in [0, 1].

    For [`L0NDDE`][ndde_jax.L0NDDE] this is the probability that the gate is open, averaged over the
    prices on the method's path and over the sparsifying phase: the longer an edge survives, and the
    higher the price it survives, the higher it ranks. NaN if the fit diverged or was refused. A
    ranking and no effect size; for that see [`signal_strengths`][ndde_jax.signal_strengths].
    """
    _check(result)
    return to_graph_axes(result.scores)


def window_graph(result: Checked[FitResult]) -> Graph:
    """Edges the fitted model uses, `[source target lag]`."""
    _check(result)
    return to_graph_axes(result.model.mask)


def summary_graph(
    graph: Checked[Shaped[ArrayLike, "*batch source target lag"]],
) -> Shaped[Array, "*batch source target"]:
    """Maximum over lags: whether (or how strongly) a source drives a target at any delay."""
    check_real_array(graph, "graph", "[source target lag]")
    graph = jnp.asarray(graph)
    if graph.ndim < 3 or graph.shape[-3] != graph.shape[-2] or 0 in graph.shape:
        raise ValueError(f"graph must be [source target lag]; got shape {graph.shape}.")
    return jnp.max(graph, axis=-1)


def _check(result: Any) -> None:
    if not isinstance(result, FitResult):
        raise refusal("result", "what fit returns", result, "Of a discovery it is found.fit.")
