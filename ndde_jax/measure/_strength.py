"""Strengths of edges by refits of networks: with and without an edge, and with replacements.

Refits also certify that flipping any single edge would not pay.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._axes import from_flat_inputs, to_graph_axes
from .._checks import check_kind
from .._memory import drop_programs_if_many
from .._types import Checked, Scores
from ..fit._newton import fit_network, select_inputs
from ..fit._prices import EBIC, as_price
from ..fit._refit import (
    StrengthConfig,
    best_of_starts,
    blocks_of,
    checked_graph,
    checked_refit,
    folds_of,
    held_out_squares,
    input_slots,
    spread_network,
)
from ..select._default import recover, refitting_strategy
from ..select._measured import SignalStrengths
from ..windows._windows import FlatData, Windows


def signal_strengths(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    graph: Any = None,
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> SignalStrengths:
    """Measure the strength of every edge relative to a graph.

    For each target the graph is refitted as it is, with every single edge removed or added, and
    without each source at all lags. Each refit takes `restarts` random starts on all windows, and
    continues on contiguous blocks with a gap of the largest lag around the held-out block. Networks
    are trained by Levenberg–Marquardt with evidence regularisation, so noise-free data are fitted
    to about 1e-6 of their variance and noisy data are not overfitted.

    Strengths are relative to a *selected* graph, because with many collinear inputs any single one
    can be dropped from the full model at no cost.

    **Arguments:**

    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows], one system.
    - `key`: random key of the starts, the bootstrap, and the fit that selects the graph.
    - `graph`: `[source target lag]`; `"full"` for all edges allowed (good for few inputs); by
        default the graph that [`recover`][ndde_jax.recover] finds with this `config` of refits.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `max_inputs`: largest number of inputs of a compared network, static. By default the largest
        in-degree of the graph plus one, rounded up to a multiple of four; under `jit` and `vmap`,
        where the graph is not known, all inputs.

    **Returns:** [`SignalStrengths`][ndde_jax.measure.SignalStrengths]; all NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a graph of the wrong shape, or with more inputs than `max_inputs`
    allows.

    Based on the paper's s_ij² (equation "signal"), but relative to a graph instead of all inputs.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strengths = ndde.signal_strengths(windows, graph="full", key=jax.random.key(0))
    print(strengths.kept()[:, :, 0])
    ```
    """
    config, key = checked_refit("signal_strengths", windows, config, key, max_inputs)
    fit_key, key = jr.split(key)
    if graph is None:
        graph = recover(windows, refitting_strategy(windows, config), key=fit_key).graph
    kept, base = checked_graph(windows, graph)
    max_inputs = input_slots(windows, graph, max_inputs)
    drop_programs_if_many(windows, config, key)
    found = _compared(windows, base, config, max_inputs, key=key)
    n = jnp.maximum(windows.n_valid, 1).astype(found["value"].dtype)
    threshold = EBIC()(found["risk_in_sample"], n, base.shape[1], config.width)
    return SignalStrengths(**found, graph=kept, threshold=threshold, prior=windows.prior)


@eqx.filter_jit
def _compared(
    windows: Windows,
    base: Bool[Array, "target input"],
    config: StrengthConfig,
    max_inputs: int,
    *,
    key: PRNGKeyArray,
) -> dict[str, Array]:
    """Refit the graph `base`, every graph one edge away, and every graph without one source; return
    the risk of `base`, and by how much each edge or source lowers it, kept or not.

    `max_inputs` bounds the inputs of any network and determines the cost of a refit.
    """
    data = FlatData(windows)
    dim, n_inputs = base.shape
    n_lags = n_inputs // dim
    dtype = data.inputs.dtype
    fold, train = folds_of(windows, data, config.folds)

    flipped = base[:, None, :] ^ jnp.eye(n_inputs, dtype=bool)[None]
    masks = [base[:, None, :], flipped]
    if n_lags > 1:  # with one lag, removing a source is removing an edge
        source = jnp.tile(jnp.eye(dim, dtype=bool), (1, n_lags))
        masks.append(base[:, None, :] & ~source[None])
    masks = jnp.concatenate(masks, axis=1)

    def target(output, key, masks):
        # All alternatives start from the same weights: paired comparisons are less noisy.
        def alternative(mask):
            inputs, chosen = best_of_starts(data, mask, output, config, max_inputs, key=key)
            error = held_out_squares(chosen, inputs, output, data.weight, fold, train, config)
            return chosen.corrected_risk(data.total), error

        return jax.lax.map(alternative, masks)

    risk, error = data.each_target(target, key, masks)
    mean_error = error @ data.weight / data.total

    edges = slice(1, n_inputs + 1)
    sign = jnp.where(base, 1, -1).astype(dtype)
    paired = sign[..., None] * (error[:, edges] - error[:, :1])
    rises = risk - risk[:, :1], mean_error - mean_error[:, :1]
    in_sample, held_out = (sign * rise[:, edges] for rise in rises)
    source_in_sample, source_held_out = in_sample, held_out
    if n_lags > 1:
        source_in_sample, source_held_out = (rise[:, n_inputs + 1 :] for rise in rises)
    found = dict(
        value=from_flat_inputs(in_sample),
        held_out=from_flat_inputs(held_out),
        lower=from_flat_inputs(_lower_bound(paired, data, config, key=jr.fold_in(key, 0))),
        source_value=source_in_sample.T,
        source_held_out=source_held_out.T,
        risk=mean_error[:, 0],
        risk_in_sample=risk[:, 0],
    )
    return jax.tree.map(lambda a: jnp.where(data.refused, jnp.nan, a), found)


def _lower_bound(
    difference: Float[Array, "target input window"],
    data: FlatData,
    config: StrengthConfig,
    *,
    key: PRNGKeyArray,
) -> Float[Array, "target input"]:
    """Return a lower confidence bound of the mean paired difference, by resampling blocks."""
    block = blocks_of(data.weight > 0, config.blocks)
    member = (block[:, None] == jnp.arange(config.blocks)[None]).astype(difference.dtype)
    sums = difference @ (data.weight[:, None] * member)
    weights = data.weight @ member
    # How often each block is drawn, [resample block].
    draws = jr.randint(key, (config.resamples, config.blocks), 0, config.blocks)
    counts = jax.vmap(lambda d: jnp.bincount(d, length=config.blocks))(draws)
    counts = counts.astype(difference.dtype)
    totals = counts @ weights
    means = (sums @ counts.T) / jnp.where(totals > 0, totals, 1)[None, None]
    return jnp.quantile(means, 1 - config.confidence, axis=-1)


class OneFlip(eqx.Module):
    """The local optimality of a graph in the L0 objective: no single edge is worth flipping.

    - `optimal`: whether no flip pays, per target.
    - `margin`: by how much flipping an edge would raise the objective, `[source target lag]`. If it
        is negative, flipping pays. Infinite for edges that the prior decides.
    - `price`: price of an edge, `[target]`.
    """

    optimal: Bool[Array, "target"]
    margin: Float[Array, "source target lag"]
    price: Float[Array, "target"]


def one_flip_certificate(
    strengths: Checked[SignalStrengths], coefficient: Checked[float | None] = None
) -> OneFlip:
    """Certify the graph that strengths were measured on.

    Every single addition and removal has been refitted for the strengths; this compares them with
    the price of an edge. Like [`exact_graph`][ndde_jax.select.exact_graph], it is relative to the
    refits.

    **Arguments:**

    - `strengths`: from [`signal_strengths`][ndde_jax.signal_strengths].
    - `coefficient`: λ, an edge costs λ/F; by default the price of
        [`SignalStrengths.kept`][ndde_jax.measure.SignalStrengths.kept].

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    strengths = ndde.signal_strengths(windows, key=jax.random.key(0))
    print(ndde.measure.one_flip_certificate(strengths).optimal)
    ```
    """
    check_kind(strengths, SignalStrengths, "strengths", "what signal_strengths returns")
    price = strengths.price(as_price(coefficient, "coefficient"))
    gain = strengths.value - price[None, :, None]
    margin = jnp.where(strengths.graph, gain, -gain)
    margin = jnp.where(strengths.prior.undecided, margin, jnp.inf)
    return OneFlip(jnp.all(margin >= 0, axis=(0, 2)), margin, price)


class RivalEdges(eqx.Module):
    """The best single replacement of every edge of a graph.

    Costs are rises of the target's corrected risk, as shares of the variance of its rate. Near
    zero, the data cannot distinguish the edge from its rival. Infinite where there is no edge, or
    no replacement.

    - `cost`: cost of the best replacement by *another* source, `[source target lag]`.
    - `rival`: that source and the index of its lag, `[source target lag 2]`; −1 where there is
        none.
    - `lag_cost`: cost of the same source at each other lag, `[source target lag rival_lag]`.
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

    A signal strength is the loss when an edge is removed and not replaced. If candidates are
    functions of one another (neighbouring lags, a limit cycle, two sensors of the same quantity),
    another input may do as well, and the graph is one of several that the data support equally.
    Each refit takes the better of two starts, half of `config.steps` each: the network of the
    graph, with the replaced column scaled by the correlation of the two inputs, and random weights.

    **Arguments:** as for [`signal_strengths`][ndde_jax.signal_strengths]; `graph` is required.

    **Returns:** [`RivalEdges`][ndde_jax.measure.RivalEdges]. A replacement that the prior does not
    allow is no rival.

    **Raises:** as for [`signal_strengths`][ndde_jax.signal_strengths].

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
    slots = input_slots(windows, graph, max_inputs)
    cost = _replacements(windows, base, config, slots, key=key)
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
    n, n_inputs = data.total, base.shape[1]
    dtype = data.inputs.dtype
    unit = jnp.eye(n_inputs, dtype=bool)
    n_steps = max(config.steps // 2, 1)
    key, random_key = jr.split(key)
    random = config.random_networks(1, max_inputs, dtype, key=random_key)
    random = jax.tree.map(lambda a: a[0], random)
    scaled = data.inputs * jnp.sqrt(data.weight / n)[:, None]
    correlation = scaled.T @ scaled
    power = jnp.maximum(jnp.diagonal(correlation), jnp.finfo(dtype).tiny)

    def target(output, key, mask, allowed, required):
        _, fitted = best_of_starts(data, mask, output, config, max_inputs, key=key)
        risk = fitted.corrected_risk(n)
        (weight, bias), *rest = spread_network(fitted.network, mask, max_inputs)

        def replace(edge, rival):
            changed = (mask & ~unit[edge]) | unit[rival]
            # The least-squares projection of the old input onto the new one.
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
            # A branch that is not taken costs nothing, and most pairs are not possible.
            return jax.lax.cond(
                possible & ~data.refused,
                lambda: replace(edge, rival),
                lambda: jnp.asarray(jnp.inf, dtype),
            )

        return jax.lax.map(pair, jnp.arange(n_inputs**2)).reshape(n_inputs, n_inputs)

    return data.each_target(target, key, base, data.allowed, data.required)


def joint_strengths(
    windows: Checked[Windows],
    graph: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[StrengthConfig | None] = None,
) -> Float[Array, "source target"]:
    """Return the part of the strength of each source of a graph that all other variables together
    cannot replace.

    This is the rise of the target's corrected risk if the source is removed at all lags and *every
    other candidate input* replaces it: the paper's signal strength, whose projection is onto
    functions of all other coordinates, with the lags of a source taken together. Strengths relative
    to a sparse graph are larger. Near zero, the source is a function of the others in these data,
    and the graph is one of several equally good ones. NaN where the graph has no edge.

    **Arguments:** as for [`rival_edges`][ndde_jax.measure.rival_edges]. Networks take all candidate
    inputs, so this is for about forty of them.

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
    """Return the rise of the corrected risk of every target if a group of candidates is removed,
    `[target group]`, NaN where not `asked`; and the risk with all candidates.

    `groups` are inputs removed together, `[group input]`; `asked` is `[target group]`.
    """
    data = FlatData(windows)

    def target(output, key, allowed, wanted):
        def risk(mask):
            _, fitted = best_of_starts(data, mask, output, config, len(mask), key=key)
            return fitted.corrected_risk(data.total)

        full = risk(allowed)

        def rise(args):
            one, inputs = args
            return jax.lax.cond(
                one & ~data.refused,
                lambda: risk(allowed & ~inputs) - full,
                lambda: jnp.asarray(jnp.nan, full.dtype),
            )

        return jax.lax.map(rise, (wanted, groups)), full

    value, risk = data.each_target(target, key, data.allowed, asked)
    return value, jnp.where(data.refused, jnp.nan, risk)
