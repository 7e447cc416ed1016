"""The drift of a given graph, and the checks of every function that takes a graph."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._axes import from_graph_axes
from .._checks import (
    check_graph,
    refusal,
)
from .._memory import make_room
from .._types import Checked, Graph
from ..models._model import NeuralDDE
from ..models._networks import MaskedDrift
from ..windows._windows import Windows
from ._refit import (
    StrengthConfig,
    checked_refit,
    fit_layers,
)


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

    **Returns:** [`NeuralDDE`][ndde_jax.models.NeuralDDE], whose mask is the graph; its weights are
    NaN for windows that [`fit`][ndde_jax.fit] would refuse.

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths].
    """
    config, key = checked_refit("fit_graph", windows, config, key, max_inputs)
    graph, base = checked_graph(windows, graph)
    make_room(windows, config, key)
    layers, _ = fit_layers(windows, base, config, input_slots(base, max_inputs), key=key)
    mask = from_graph_axes(graph)
    return NeuralDDE(MaskedDrift(layers), mask, windows.scaling, windows.dt, windows.lags)


def checked_graph(windows: Windows, graph: Any) -> tuple[Graph, Array]:
    """Return a graph as `[source target lag]` and as a mask `[target input]`; raise a `ValueError`
    for anything else.
    """
    shape = (windows.dim, windows.dim, windows.n_lags)
    if isinstance(graph, str):
        if graph != "full":
            raise refusal("graph", "'full' or [source target lag]", graph)
        graph = windows.prior.allowed
    graph = check_graph(graph, shape)
    return graph, from_graph_axes(graph).reshape(windows.dim, -1)


def input_slots(base, max_inputs: int | None) -> int:
    """Return the number of inputs that a network must have room for."""
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
