"""A search among many collinear inputs: moves ranked by a linearised network, judged by refits."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._axes import flat_inputs, from_flat_inputs
from .._checks import check_whole, is_traced
from .._types import Checked, Graph, RealScalarLike, Scores, to_jax
from ..fit._prices import AbstractPrice, as_price
from ..fit._refit import StrengthConfig, checked_refit
from ..windows._flat import FlatData, KnownData
from ..windows._windows import Windows
from ._judge import MoveProblem, judge
from ._splines import SplineGraph, spline_graph


class LagSearch(eqx.Module):
    """A graph found by [`search_lags`][ndde_jax.select.search_lags], with its evidence.

    - `graph`: `[source target lag]`.
    - `evidence`: by how much the logarithm of a target's risk rises when a kept edge is left out,
      or falls when a dropped one is added, `[source target lag]`. Kept edges are refitted without;
      dropped ones are linearised (on the shortlist) or regressed on splines (elsewhere).
    - `risk`: standardised mean squared error per target, corrected for the parameters used.
    - `threshold`: least fall of that risk for which an edge is kept, `[target]`.
    - `screening`: the [`SplineGraph`][ndde_jax.select.SplineGraph] it started from.
    """

    graph: Graph
    evidence: Scores
    risk: Float[jax.Array, "target"]
    threshold: Float[jax.Array, "target"]
    screening: SplineGraph


def search_lags(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    coefficient: Checked[RealScalarLike | AbstractPrice | None] = None,
    config: Checked[StrengthConfig | None] = None,
    shortlist: Checked[int] = 12,
) -> LagSearch:
    """Search for the graph among many candidate lags, where neighbours are nearly collinear.

    For each target, [`spline_graph`][ndde_jax.select.spline_graph] makes a shortlist and a first
    choice. A network is fitted on that choice and improved move by move: an edge added, dropped, or
    *swapped* for another. All moves are ranked by the risk after one Gauss–Newton step, the best
    few are refitted, and the best of these is taken if it lowers risk + price × edges, with the
    price of [`SignalStrengths.kept`][ndde_jax.measure.SignalStrengths.kept]. Unlike in
    [`Gates`][ndde_jax.select.Gates] the cost does not grow with the number of candidates, and a
    wrong lag can be corrected in one move, without passing through a worse graph. What the prior of
    the windows decides is never moved.

    **Arguments:**

    - `windows`: of one system; [`midpoint_windows`][ndde_jax.select.midpoint_windows] where noise
        drives the system, since lags half a step off cost edges.
    - `key`: initial weights.
    - `coefficient`: λ, an edge costs λ/F of its target's variance, F being the number of
        candidates, or a price; by default [`EBIC`][ndde_jax.select.EBIC].
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig]: `restarts` and `steps` of first
        fits, `fold_steps` of refits, at most `search` moves.
    - `shortlist`: inputs per target to search among, static.

    **Returns:** [`LagSearch`][ndde_jax.select.LagSearch]; NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.search_lags(windows, key=jax.random.key(0)).graph[:, :, 0])
    ```
    """
    config, key = checked_refit("search_lags", windows, config, key)
    price = as_price(coefficient, "coefficient")
    check_whole(shortlist, "shortlist")
    screening = spline_graph(windows, shortlist=shortlist)
    if is_traced(windows, screening, price, key):
        return _search_traced(windows, screening, price, config, key)
    data = KnownData(windows)
    numbers = functools.partial(to_jax, dtype=data.dtype)
    if data.refused:
        nothing = numbers(np.full(data.dim, np.nan))
        return LagSearch(screening.graph, screening.evidence, nothing, nothing, screening)
    rows = judge(data, screening, price, config, key=key)
    return LagSearch(
        graph=to_jax(from_flat_inputs(np.stack([row.mask for row in rows]))),
        evidence=numbers(from_flat_inputs(np.stack([row.evidence for row in rows]))),
        risk=numbers(np.array([row.risk for row in rows])),
        threshold=numbers(np.array([row.threshold for row in rows])),
        screening=screening,
    )


@eqx.filter_jit
def _search_traced(windows, screening: SplineGraph, price, config, key) -> LagSearch:
    data = FlatData(windows)
    n, n_inputs = data.total, data.inputs.shape[1]
    first, spline_evidence = flat_inputs(screening.graph), flat_inputs(screening.evidence)

    def target(output, key, slots, chosen, undecided, evidence):
        inputs = data.inputs[:, slots]
        undecided = undecided[slots]
        problem = MoveProblem(inputs, output, data.weight, n_inputs, price, config, undecided)
        state = problem.from_scratch(chosen[slots], key)
        mask, found, linear, paid = problem.search(state, n)
        inside = problem.evidence(mask, found, linear, n)
        evidence = evidence.at[slots].set(inside)
        chosen = jnp.zeros(n_inputs, bool).at[slots].set(mask)
        return chosen, evidence, found.corrected_risk(n), paid

    each = (screening.shortlist, first, data.undecided, spline_evidence)
    mask, evidence, risk, threshold = data.each_target(target, key, *each)
    refused = data.refused
    return LagSearch(
        graph=from_flat_inputs(mask) & ~refused,
        evidence=jnp.where(refused, jnp.nan, from_flat_inputs(evidence)),
        risk=jnp.where(refused, jnp.nan, risk),
        threshold=jnp.where(refused, jnp.nan, threshold),
        screening=screening,
    )
