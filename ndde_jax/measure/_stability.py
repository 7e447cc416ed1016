"""How often an edge is found again: on halves of the data, from other seeds, at other prices."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import check_concrete, check_key, check_number, check_whole, check_windows
from .._executors import run_many
from .._types import Checked, Scores
from ..fit._fit import FitConfig, fit
from ..fit._refit import StrengthConfig
from ..fit.penalties import L0NDDE, AbstractMethod
from ..select._path import without_refinement
from ..select._select import check_settings, select_graph
from ..windows._thin import half_blocks
from ..windows._windows import Windows


class EdgeStability(eqx.Module):
    """Shares of refits that find an edge, `[source target lag]`.

    - `selected`: of (seed, half of the data), by the library's selection.
    - `open`: of (seed, half of the data, coefficient on the method's path), by the gates alone.
    - `graphs`: what was selected each time, `[refit source target lag]`.
    """

    selected: Scores
    open: Scores
    graphs: Bool[Array, "refit source target lag"]

    def expected_false(self, threshold: Checked[float] = 0.9) -> Float[Array, ""]:
        """Bound on the expected number of false edges among those selected more often than
        `threshold` > ½: q² / ((2 · threshold − 1) · p), with q edges selected on average among p.

        For random halves, exchangeable false edges and a selection better than guessing; the halves
        here are contiguous, because samples depend on one another, so it is a guide. Meinshausen
        and Bühlmann, *Stability selection*, JRSS B 72 (2010).
        """
        check_number(threshold, "threshold", above=0.5, most=1)
        chosen = jnp.mean(jnp.sum(self.graphs, axis=(1, 2, 3)).astype(self.selected.dtype))
        return chosen**2 / ((2 * threshold - 1) * self.selected.size)


def edge_stability(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    seeds: Checked[int] = 2,
    method: Checked[AbstractMethod | None] = None,
    config: Checked[FitConfig | None] = None,
    strength_config: Checked[StrengthConfig | None] = None,
    search: Checked[str] = "auto",
    select: Checked[Callable | None] = None,
    progress: bool = False,
) -> EdgeStability:
    """Select the graph again on the first, middle and last half of the data, from several seeds.

    An edge that only one half knows belongs to that half: to chance, or to dynamics that changed.

    **Arguments:**

    - `windows`: of one system; outside `jit`, because halves depend on missing values.
    - `seeds`: repetitions on each half.
    - `method`, `config`: of gates fitted to each half, and `strength_config`, `search`: how their
        graph is improved.
    - `select`: instead, a function of windows and a key that returns a graph; then there are no
        gates, and `open` is as `selected`.
    - `progress`: show a bar.

    **Returns:** [`EdgeStability`][ndde_jax.measure.EdgeStability].

    **Raises:** `ValueError` if half of the data are fewer rows than variables plus one.

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
    check_settings(method, config, strength_config, search)
    key = check_key(key)
    halves = half_blocks(windows)
    if halves[0].history.shape[0] < windows.dim + 1:
        raise ValueError(
            f"half of the data are {halves[0].history.shape[0]} rows, fewer than dim + 1 = "
            f"{windows.dim + 1}; stability needs longer data."
        )
    method = L0NDDE() if method is None else method
    config = without_refinement(FitConfig() if config is None else config)

    def one(i: int, device):
        fit_key, search_key = jr.split(jr.fold_in(key, i))
        half = halves[i % len(halves)]
        if select is not None:
            graph = jnp.asarray(select(half, search_key))
            return graph, graph[None]
        result = fit(method, half, config, key=fit_key)
        graph = select_graph(half, result, key=search_key, config=strength_config, search=search)
        return graph, to_graph_axes(result.path_masks)

    found = run_many(one, len(halves) * seeds, progress=progress)
    graphs = jnp.stack([graph for graph, _ in found])
    along = jnp.stack([masks for _, masks in found])
    return EdgeStability(
        selected=jnp.mean(graphs, axis=0, dtype=windows.history.dtype),
        open=jnp.mean(along, axis=(0, 1), dtype=windows.history.dtype),
        graphs=graphs,
    )
