"""Transpositions between the public order of axes, [source, target, lag], and the order used by
networks, [target, lag, source]; and the maximum over lags.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Shaped

from ._checks import check_real_array
from ._types import Checked, namespace_of, to_jax


def to_graph_axes(array: Array) -> Array:
    """Transpose [..., target, lag, source] -> [..., source, target, lag]."""
    return _moved(array, (-2, -1, -3))


def from_graph_axes(array: Array) -> Array:
    """Transpose [..., source, target, lag] -> [..., target, lag, source], the inverse of
    `to_graph_axes`.
    """
    return _moved(array, (-1, -3, -2))


def flat_inputs(edges: Any) -> Any:
    """Return edges `[source target lag]` as `[target input]`, with flat inputs (lag, source). NumPy
    arrays give NumPy, JAX arrays JAX.
    """
    xp = namespace_of(edges)
    flat = xp.transpose(xp.asarray(edges), (1, 2, 0)).reshape(edges.shape[1], -1)
    return to_jax(flat) if isinstance(edges, jax.Array) else flat


def from_flat_inputs(flat: Any) -> Any:
    """Return `[target input]` as `[source target lag]`, the inverse of `flat_inputs`."""
    xp, dim = namespace_of(flat), len(flat)
    edges = xp.transpose(xp.asarray(flat).reshape(dim, -1, dim), (2, 0, 1))
    return to_jax(edges) if isinstance(flat, jax.Array) else edges


def _moved(array: Array, to: tuple[int, ...]) -> Array:
    """Move axes, in NumPy if the values are known, since JAX compiles a program for every new
    shape.
    """
    xp = namespace_of(array)
    return to_jax(xp.moveaxis(xp.asarray(array), (-3, -2, -1), to))


def summary_graph(
    graph: Checked[Shaped[ArrayLike, "*batch source target lag"]],
) -> Shaped[Array, "*batch source target"]:
    """Return the maximum over lags: whether (or how strongly) a source drives a target at any
    delay.
    """
    check_real_array(graph, "graph", "[source target lag]")
    graph = jnp.asarray(graph)
    if graph.ndim < 3 or graph.shape[-3] != graph.shape[-2] or 0 in graph.shape:
        raise ValueError(f"graph must be [source target lag]; got shape {graph.shape}.")
    return jnp.max(graph, axis=-1)
