"""From a fitted model to edges, and from [target, lag, source] to [source, target, lag]."""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Shaped

from ._fit import FitResult
from ._types import Graph, Scores


def to_graph_axes(array: Array) -> Array:
    """[..., target, lag, source] -> [..., source, target, lag]."""
    return jnp.moveaxis(array, (-3, -2, -1), (-2, -1, -3))


def from_graph_axes(array: Array) -> Array:
    """[..., source, target, lag] -> [..., target, lag, source], the inverse of `to_graph_axes`."""
    return jnp.moveaxis(array, (-3, -2, -1), (-1, -3, -2))


def edge_scores(result: FitResult) -> Scores:
    """How strongly a fit holds on to each edge, `[source target lag]`, in [0, 1].

    For [`L0NDDE`][ndde_jax.L0NDDE] this is the probability that the gate is open, averaged over the
    prices on the method's path and over the sparsifying phase: the longer an edge survives, and the
    higher the price it survives, the higher it ranks. NaN if the fit diverged or was refused. A
    ranking and no effect size; for that see [`signal_strengths`][ndde_jax.signal_strengths].
    """
    return to_graph_axes(result.scores)


def window_graph(result: FitResult) -> Graph:
    """Edges the fitted model uses, `[source target lag]`."""
    return to_graph_axes(result.model.mask)


def summary_graph(
    graph: Shaped[ArrayLike, "source target lag"],
) -> Shaped[Array, "source target"]:
    """Maximum over lags: whether (or how strongly) a source drives a target at any delay."""
    return jnp.max(jnp.asarray(graph), axis=-1)
