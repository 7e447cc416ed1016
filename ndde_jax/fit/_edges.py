"""The edges of a fit: its scores and its graph, `[source target lag]`."""

from typing import Any

from .._axes import to_graph_axes
from .._checks import refusal
from .._types import Checked, Graph, Scores
from ._fit import FitResult


def edge_scores(result: Checked[FitResult]) -> Scores:
    """Return the score of each edge in a fit, `[source target lag]`, in [0, 1].

    For [`L0NDDE`][ndde_jax.L0NDDE] this is the probability that the gate is open, averaged over the
    prices on the method's path and over the sparsifying phase: the longer an edge survives, and the
    higher the price it survives, the higher it ranks. NaN if the fit diverged or was refused. A
    ranking and no effect size; for that see [`signal_strengths`][ndde_jax.signal_strengths].
    """
    _check(result)
    return to_graph_axes(result.scores)


def window_graph(result: Checked[FitResult]) -> Graph:
    """Return the edges that the fitted model uses, `[source target lag]`."""
    _check(result)
    return to_graph_axes(result.model.mask)


def _check(result: Any) -> None:
    if not isinstance(result, FitResult):
        raise refusal("result", "what fit returns", result, "In a discovery: found.scores.")
