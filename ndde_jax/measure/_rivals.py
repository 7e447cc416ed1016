"""The rivals of an edge: other inputs that could take its place, which leaving edges out does not
show.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._axes import to_graph_axes
from .._types import Checked, Scores
from ..fit._newton import fit_network, select_inputs
from ..fit._refit import (
    StrengthConfig,
    _best_of_starts,
    checked_graph,
    checked_refit,
    input_slots,
    spread_network,
)
from ..models._networks import init_layers
from ..windows._flat import FlatData
from ..windows._windows import Windows


class RivalEdges(eqx.Module):
    """The best single replacement of every edge of a graph.

    Costs are rises of the target's corrected risk, as shares of the variance of its rate; around
    zero, the data cannot tell the edge from its rival. Infinite where there is no edge, or none to
    replace it.

    - `cost`: of the best replacement by *another* source, `[source target lag]`.
    - `rival`: that source and the index of its lag, `[source target lag 2]`; −1 where there is
        none.
    - `lag_cost`: of the same source at each other lag, `[source target lag rival_lag]`.
    """

    cost: Scores
    rival: Int[Array, "source target lag 2"]
    lag_cost: Float[Array, "source target lag rival_lag"]


def rival_edges(
    windows: Checked[Windows],
    graph: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> RivalEdges:
    """Replace every edge of a graph by every other candidate in turn, and refit.

    A signal strength is the loss when an edge is left out and nothing takes its place. Where
    candidates are functions of one another (neighbouring lags, a limit cycle, two sensors of one
    thing), another input could have done as well; then the graph is one of several that the data
    support equally. Each refit takes the better of two starts, half of `config.steps` each: the
    network of the graph, with the replaced column scaled by the correlation of the two inputs, and
    random weights.

    **Arguments:** as for [`signal_strengths`][ndde_jax.signal_strengths]; `graph` is needed.

    **Returns:** [`RivalEdges`][ndde_jax.measure.RivalEdges]. A replacement that the prior does not
    allow is no rival.

    **Raises:** as [`signal_strengths`][ndde_jax.signal_strengths].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(400) * 0.1
    x = np.stack([np.sin(t), np.cos(t), 2 * np.sin(t)], 1)  # the third repeats the first
    windows = ndde.lagged_windows(x, dt=0.1, scheme="central4")
    graph = np.zeros((3, 3, 1), bool)
    graph[0, 1] = True
    rivals = ndde.measure.rival_edges(windows, graph, key=jax.random.key(0))
    print(rivals.cost[0, 1, 0], rivals.rival[0, 1, 0])
    ```
    """
    config, key = checked_refit("rival_edges", windows, config, key, max_inputs)
    _, base = checked_graph(windows, graph)
    cost = _replacements(windows, base, config, input_slots(base, max_inputs), key=key)
    dim, n_lags = windows.dim, windows.n_lags
    # [target (lag source) (lag source)] -> per edge, its replacements [lag source].
    cost = cost.reshape(dim, n_lags, dim, n_lags, dim)
    own = jnp.eye(dim, dtype=bool)[None, None, :, None, :]
    others = jnp.where(own, jnp.inf, cost).reshape(dim, n_lags, dim, n_lags * dim)
    best = jnp.argmin(others, axis=-1)
    least = jnp.min(others, axis=-1)
    rival = jnp.stack([best % dim, best // dim], axis=-1)
    rival = jnp.where(jnp.isfinite(least)[..., None], rival, -1)
    same = jnp.min(jnp.where(own, cost, jnp.inf), axis=-1)
    return RivalEdges(
        cost=to_graph_axes(least),
        rival=jnp.moveaxis(rival, (0, 1, 2), (1, 2, 0)),
        lag_cost=jnp.moveaxis(same, (0, 1, 2), (1, 2, 0)),
    )


@eqx.filter_jit
def _replacements(
    windows: Windows,
    base: Bool[Array, "target input"],
    config: StrengthConfig,
    max_inputs: int,
    *,
    key: PRNGKeyArray,
) -> Float[Array, "target edge input"]:
    data = FlatData(windows)
    n = jnp.maximum(jnp.sum(data.weight), 1)
    n_inputs = base.shape[1]
    dtype = data.inputs.dtype
    unit = jnp.eye(n_inputs, dtype=bool)
    n_steps = max(config.steps // 2, 1)
    size = dict(width=config.width, depth=config.depth, dtype=dtype)
    key, random_key = jr.split(key)
    random = jax.tree.map(lambda a: a[0], init_layers(1, max_inputs, key=random_key, **size))
    scaled = data.inputs * jnp.sqrt(data.weight / n)[:, None]
    correlation = scaled.T @ scaled
    power = jnp.maximum(jnp.diagonal(correlation), jnp.finfo(dtype).tiny)

    def target(args):
        mask, allowed, required, output, key = args
        _, fitted = _best_of_starts(data, mask, output, config, max_inputs, key=key)
        risk = fitted.corrected_risk(n)
        (weight, bias), *rest = spread_network(fitted.network, mask, max_inputs)

        def replace(edge, rival):
            changed = (mask & ~unit[edge]) | unit[rival]
            # The least-squares image of the old input in the new one.
            column = weight[:, edge] * correlation[edge, rival] / power[rival]
            start = weight.at[:, edge].set(0).at[:, rival].set(column)
            index, used = select_inputs(changed.astype(dtype), max_inputs)
            inputs = data.inputs[:, index] * used[None]

            def refitted(network, decay):
                return fit_network(
                    network, inputs, output, data.weight, n_iterations=n_steps, decay=decay
                ).corrected_risk(n)

            warm = refitted(((start[:, index], bias), *rest), fitted.decay)
            return jnp.fmin(warm, refitted(random, 1e-2)) - risk

        def pair(index):
            edge, rival = index // n_inputs, index % n_inputs
            possible = mask[edge] & ~required[edge] & allowed[rival] & ~mask[rival]
            # A branch that is not taken costs nothing: most pairs are none.
            return jax.lax.cond(
                possible & ~data.refused,
                lambda: replace(edge, rival),
                lambda: jnp.asarray(jnp.inf, dtype),
            )

        return jax.lax.map(pair, jnp.arange(n_inputs**2)).reshape(n_inputs, n_inputs)

    keys = jr.split(key, base.shape[0])
    return jax.lax.map(target, (base, data.allowed, data.required, data.outputs.T, keys))


def joint_strengths(
    windows: Checked[Windows],
    graph: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
) -> Float[Array, "source target"]:
    """Return the strength of each source of a graph that all other variables together cannot
    replace.

    The rise of the target's corrected risk when the source is left out at all lags and *every other
    candidate input* takes its place: the paper's signal strength, whose projection is onto
    functions of all other coordinates, with the lags of a source taken together. Strengths relative
    to a sparse graph are larger. Near zero, the source is a function of the others along the
    data, and the graph is a choice among equals. NaN where the graph has no edge.

    **Arguments:** as for [`rival_edges`][ndde_jax.measure.rival_edges]. Networks see all candidate
    inputs, so this is for some forty of them.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(400) * 0.1
    x = np.stack([np.sin(t), np.cos(t), 2 * np.sin(t)], 1)  # the third repeats the first
    windows = ndde.lagged_windows(x, dt=0.1, scheme="central4")
    graph = np.zeros((3, 3, 1), bool)
    graph[0, 1] = True
    print(ndde.measure.joint_strengths(windows, graph, key=jax.random.key(0))[0, 1])
    ```
    """
    config, key = checked_refit("joint_strengths", windows, config, key)
    graph, _ = checked_graph(windows, graph)
    source = jnp.tile(jnp.eye(windows.dim, dtype=bool), (1, windows.n_lags))
    return rises_without(windows, source, jnp.any(graph, axis=2).T, config, key)[0].T


@eqx.filter_jit
def rises_without(windows: Windows, groups, asked, config: StrengthConfig, key):
    """Return the rise of the corrected risk of every target from all candidates to all but a group
    of them, `[target group]`, NaN where it is not `asked`; and the risk of all.

    `groups` are inputs left out together, `[group input]`; `asked` is `[target group]`.
    """
    data = FlatData(windows)
    n, n_inputs = jnp.maximum(jnp.sum(data.weight), 1), data.inputs.shape[1]

    def target(args):
        allowed, wanted, output, key = args

        def risk(mask):
            _, fitted = _best_of_starts(data, mask, output, config, n_inputs, key=key)
            return fitted.corrected_risk(n)

        full = risk(allowed)

        def rise(args):
            one, inputs = args
            return jax.lax.cond(
                one & ~data.refused,
                lambda: risk(allowed & ~inputs) - full,
                lambda: jnp.asarray(jnp.nan, full.dtype),
            )

        return jax.lax.map(rise, (wanted, groups)), full

    keys = jr.split(key, data.dim)
    value, risk = jax.lax.map(target, (data.allowed, asked, data.outputs.T, keys))
    return value, jnp.where(data.refused, jnp.nan, risk)
