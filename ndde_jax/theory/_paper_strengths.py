"""Signal strengths as the paper defines them, and the window of penalties that they leave."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import check_concrete, check_positive, check_whole
from .._memory import make_room
from .._types import Checked, Graph, RealScalarLike, Scores
from ..fit._fixed import checked_graph
from ..fit._refit import StrengthConfig, checked_refit
from ..measure._rivals import rises_without
from ..select._exhaustive import MOST_INPUTS, exact_graph
from ..select._recover import recover, refitting_strategy
from ..windows._flat import FlatData
from ..windows._windows import Windows
from ._penalty import penalty_window

# 2^F networks per target: at eight inputs 256, some ten seconds.
MOST_SUBSETS = 8


class PaperStrengths(eqx.Module):
    """The strengths (s_ij^a)²: the excess risk of the best of *all* graphs without an edge over the
    best with it, as a share of the variance of the target's rate.

    - `value`: `[source target lag]`; NaN where not measured, which is where `graph` has no edge
        unless all subsets were tried.
    - `risk`: of the best graph of all, `[target]`.
    - `graph`: whose edges `smallest` and `window` are about.
    - `exhaustive`: whether every subset of the inputs was tried, or only the largest one without
        the edge, which in the limit of much data and flexible networks is the best.
    """

    value: Scores
    risk: Float[Array, "target"]
    graph: Graph
    exhaustive: bool = eqx.field(static=True)

    @property
    def smallest(self) -> Float[Array, ""]:
        """The smallest strength s²_min, over the edges of the graph; infinite without any."""
        return jnp.min(jnp.where(self.graph, self.value, jnp.inf))

    @property
    def largest_degree(self) -> Array:
        """The degree d_max, the largest number of inputs of a target."""
        return jnp.max(jnp.sum(self.graph, axis=(0, 2)))

    def window(self, duration: Checked[RealScalarLike] = 1.0) -> Float[Array, ""]:
        """Return the upper end of the penalties for which the paper proves recovery, 0 where there
        are none: see [`penalty_window`][ndde_jax.theory.penalty_window].
        """
        check_positive(duration, "duration")
        smallest = jnp.where(jnp.any(self.graph), jnp.maximum(self.smallest, 0), 0)
        return penalty_window(smallest, self.largest_degree, duration)


def paper_strengths(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    graph: Any = None,
    config: Checked[StrengthConfig | None] = None,
    most_subsets: Checked[int] = MOST_SUBSETS,
) -> PaperStrengths:
    """Measure (s_ij^a)² as the paper defines it: the distance of G_j from all functions of all
    other candidate inputs.

    [`signal_strengths`][ndde_jax.signal_strengths] leaves an edge out and lets only the other edges
    of a selected graph make up for it. Here every other candidate may, so these strengths are at
    most those, up to errors of the fits, and near zero where another variable or lag says the same.
    The window of penalties of the paper's theorem is made from these.

    **Arguments:**

    - `windows`: of one system.
    - `key`: for the fits.
    - `graph`: `[source target lag]`, whose edges the window is about; by default the best of all
        subsets by [`EBIC`][ndde_jax.select.EBIC] where all are tried, otherwise what
        [`recover`][ndde_jax.recover] finds.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `most_subsets`: up to so many candidate inputs per target, 8 by default and 12 at most, every
        subset is fitted; with more, all inputs, and for every edge all but that one.

    **Returns:** [`PaperStrengths`][ndde_jax.theory.PaperStrengths].

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths]; inside `jit`.

    ```python
    import jax, numpy as np
    from ndde_jax import lagged_windows, theory

    rng = np.random.default_rng(0)
    x = np.zeros((400, 2))
    for k in range(399):
        drift = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
        x[k + 1] = x[k] + 0.1 * drift + [0.1, 0.5] * rng.normal(size=2)
    windows = lagged_windows(x, dt=0.1)
    print(theory.paper_strengths(windows, key=jax.random.key(0)).window())
    ```
    """
    config, key = checked_refit("paper_strengths", windows, config, key)
    check_concrete("paper_strengths", (windows, graph, key))
    check_whole(most_subsets, "most_subsets", least=0, most=MOST_INPUTS)
    if graph is not None:
        graph, _ = checked_graph(windows, graph)
    n_inputs = windows.dim * windows.n_lags
    if n_inputs <= most_subsets:
        found = exact_graph(windows, key=key, config=config)
        chosen = found.graph if graph is None else graph
        value, risk = _of_all_subsets(found.subsets, found.risk, windows)
        return PaperStrengths(value, risk, chosen, True)
    if graph is None:
        select_key, key = jr.split(key)
        graph = recover(windows, refitting_strategy(windows, config), key=select_key).graph
    value, risk = complement_strengths(windows, graph, config, key)
    return PaperStrengths(value, risk, graph, False)


def _of_all_subsets(subsets, risk, windows: Windows) -> tuple[Scores, Float[Array, "target"]]:
    """Return the least risk of the subsets without an input, less the least of all that are
    allowed.
    """
    flat = np.asarray(subsets).reshape(len(subsets), -1)
    allowed = np.asarray(FlatData(windows).allowed)
    possible = ~(flat[None] & ~allowed[:, None]).any(axis=2)
    costs = np.where(possible, np.asarray(risk), np.inf)
    best = costs.min(axis=1)
    without = np.stack([costs[:, ~column].min(axis=1) for column in flat.T], axis=1)
    value = (without - best[:, None]).reshape(windows.dim, -1, windows.dim)
    return to_graph_axes(jnp.asarray(value)), jnp.asarray(best)


def complement_strengths(
    windows: Windows, graph: Graph, config: StrengthConfig, key: PRNGKeyArray
) -> tuple[Scores, Float[Array, "target"]]:
    """Return for every edge of a graph the rise of the risk from all candidates to all but that
    one, NaN elsewhere; and the risk of all.
    """
    make_room(windows, config, key)
    mask = jnp.transpose(jnp.asarray(graph), (1, 2, 0)).reshape(windows.dim, -1)
    unit = jnp.eye(mask.shape[1], dtype=bool)
    value, risk = rises_without(windows, unit, mask, config, key)
    return to_graph_axes(value.reshape(windows.dim, windows.n_lags, windows.dim)), risk
