"""The stability of an edge under refits: on halves of the data, from other seeds, at other
prices.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import check_concrete, check_key, check_whole, check_windows
from .._executors import run_many
from .._types import Checked, Graph, RealScalarLike, Scores
from ..fit._fit import FitResult
from ..fit._prices import AbstractPrice, as_price
from ..select._default import as_strategy, recover
from ..select._strategies import AbstractStrategy
from ..windows._windows import Windows, half_blocks


class EdgeStability(eqx.Module):
    """The shares of refits that find an edge, `[source target lag]`.

    - `selected`: share of (seed, half of the data), by the strategy.
    - `open`: share of (seed, half of the data, coefficient on the penalty's path), by gates alone;
        equals `selected` for a strategy without gates.
    - `graphs`: the graph selected by each refit, `[refit source target lag]`.
    """

    selected: Scores
    open: Scores
    graphs: Bool[Array, "refit source target lag"]


def edge_stability(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    seeds: Checked[int] = 2,
    strategy: Checked[AbstractStrategy | Callable | None] = None,
    price: Checked[AbstractPrice | RealScalarLike | None] = None,
    progress: bool = False,
) -> EdgeStability:
    """Select the graph again on the first, middle and last half of the data, from several seeds.

    An edge found in only one half is due to chance, or to a change of the dynamics.

    **Arguments:**

    - `windows`: windows of one system; outside `jit`, because halves depend on missing values.
    - `seeds`: repetitions on each half.
    - `strategy`, `price`: as for [`recover`][ndde_jax.recover]; or, without a price, a function of
        windows and a key that returns a graph.
    - `progress`: show a progress bar.

    **Returns:** [`EdgeStability`][ndde_jax.measure.EdgeStability].

    **Raises:** `ValueError` if half of the data has fewer rows than variables plus one, and as for
    [`recover`][ndde_jax.recover].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    stability = ndde.measure.edge_stability(windows, seeds=1, key=jax.random.key(0))
    print(stability.selected[:, :, 0])
    ```
    """
    check_windows(windows, "edge_stability", "take one with unstack_windows")
    check_concrete("edge_stability", (windows, key), "Halves depend on missing values.")
    check_whole(seeds, "seeds")
    strategy = as_finder(strategy)
    if price is not None and callable(strategy):
        raise ValueError("price applies to a strategy, not to a function of windows; omit it.")
    price = None if price is None else as_price(price)
    key = check_key(key)
    halves = half_blocks(windows)
    if halves[0].history.shape[0] < windows.dim + 1:
        raise ValueError(
            f"half of the data has {halves[0].history.shape[0]} rows, fewer than dim + 1 = "
            f"{windows.dim + 1}. Use a longer record."
        )

    def one(i: int, device):
        return find_again(halves[i % len(halves)], strategy, price, jr.fold_in(key, i))

    found = run_many(one, len(halves) * seeds, progress=progress)
    graphs = jnp.stack([graph for graph, _ in found])
    along = jnp.stack([masks for _, masks in found])
    return EdgeStability(
        selected=jnp.mean(graphs, axis=0, dtype=windows.history.dtype),
        open=jnp.mean(along, axis=(0, 1), dtype=windows.history.dtype),
        graphs=graphs,
    )


def as_finder(
    strategy: Any, otherwise: AbstractStrategy | None = None
) -> AbstractStrategy | Callable:
    """Return a strategy, as [`as_strategy`][ndde_jax.select._default.as_strategy] does, or a
    function of windows and a key.
    """
    function = callable(strategy) and not isinstance(strategy, type)
    return strategy if function else as_strategy(strategy, otherwise)


def find_again(
    windows: Windows,
    strategy: AbstractStrategy | Callable,
    price: AbstractPrice | None,
    key: PRNGKeyArray,
) -> tuple[Graph, Bool[Array, "path source target lag"]]:
    """Return a graph, and the graphs that gates alone keep along their path of coefficients, if
    there are gates.
    """
    if not isinstance(strategy, AbstractStrategy):
        graph = jnp.asarray(strategy(windows, key))
        return graph, graph[None]
    found = recover(windows, strategy, price, key=key)
    gated = isinstance(found.details, FitResult)
    return found.graph, to_graph_axes(found.details.path_masks) if gated else found.graph[None]
