"""Refits of one graph, and of all graphs that are an edge away from it, in one compiled program.

Also holds the checks of functions that take a graph.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._axes import from_graph_axes
from .._checks import (
    argument_error,
    check_config,
    check_graph,
    check_key,
    check_number,
    check_whole,
    check_windows,
    is_traced,
)
from .._memory import drop_programs_if_many
from .._types import Checked, Graph, Settings, setting
from ..models._model import NeuralDDE
from ..models._networks import Layer, MaskedDrift, init_layers
from ..windows._windows import FlatData, Windows
from ._newton import NetworkFit, fit_network, predict, select_inputs
from ._prices import AbstractPrice


class StrengthConfig(Settings):
    """The effort of refits; all settings are static.

    - `restarts`: random starts of each in-sample fit, of which the best is kept; 2. One start in
        ten ends in a poor minimum.
    - `steps`: Levenberg–Marquardt steps from a random start; 40, after which the risk on
        noise-free chaotic systems is about 1e-6.
    - `search`: largest number of edges per target that [`Gates`][ndde_jax.select.Gates] flips; 8.
    - `folds`: number of contiguous blocks held out in turn; 4.
    - `fold_steps`: steps of a held-out refit, which starts from the in-sample fit; 10.
    - `blocks`, `resamples`: numbers of blocks and draws of the block bootstrap; 32 and 200. Blocks
        must be longer than the autocorrelation of the residuals.
    - `confidence`: confidence level of the one-sided lower bound; 0.95.
    - `width`, `depth`: size of the networks, as in [`FitConfig`][ndde_jax.FitConfig].
    """

    restarts: Checked[int] = setting(2, check_whole)
    steps: Checked[int] = setting(40, check_whole)
    search: Checked[int] = setting(8, check_whole, least=0)
    folds: Checked[int] = setting(4, check_whole, least=2)
    fold_steps: Checked[int] = setting(10, check_whole)
    blocks: Checked[int] = setting(32, check_whole, least=2)
    resamples: Checked[int] = setting(200, check_whole)
    confidence: Checked[float] = setting(0.95, check_number, least=0.5, below=1)
    width: Checked[int] = setting(8, check_whole)
    depth: Checked[int] = setting(2, check_whole)

    def random_networks(
        self, n: int, n_inputs: int, dtype: Any, *, key: PRNGKeyArray
    ) -> tuple[Layer, ...]:
        """Return `n` random networks with `n_inputs` inputs, stacked."""
        size = dict(width=self.width, depth=self.depth, dtype=dtype)
        return init_layers(n, n_inputs, key=key, **size)


def checked_refit(
    who: str, windows: Any, config: Any, key: Any, max_inputs: Any = None
) -> tuple[StrengthConfig, Array]:
    """Check the arguments common to all refits; return settings and key."""
    check_windows(windows, who)
    check_config(config, StrengthConfig)
    if max_inputs is not None:
        check_whole(max_inputs, "max_inputs")
    return StrengthConfig() if config is None else config, check_key(key)


@eqx.filter_jit
def search_mask(
    windows: Windows,
    starts: Bool[Array, "target start input"],
    config: StrengthConfig,
    max_inputs: int,
    price: AbstractPrice,
    *,
    key: PRNGKeyArray,
) -> tuple[Bool[Array, "target input"], Float[Array, "target"], Float[Array, "target"]]:
    """Return the best of several masks per target, improved by flipping its best edge while that
    lowers the criterion.

    The criterion is corrected risk + price × number of inputs. Returns the masks, their corrected
    risks in the search, and the final price of an input. Targets are independent, so this is
    coordinate descent on the L0 objective. It ends where no single addition or removal improves
    it, or after `config.search` flips.

    A start is fitted from scratch. Its neighbours start from its weights and take `fold_steps`
    steps; a neighbour that this underrates is corrected by the strengths measured later.
    """
    data = FlatData(windows)
    n, n_inputs = data.total, starts.shape[2]
    flips = jnp.eye(n_inputs, dtype=bool)
    dtype = data.inputs.dtype

    def target(output, key, starts, undecided):
        def from_scratch(mask):
            _, chosen = best_of_starts(data, mask, output, config, max_inputs, key=key)
            risk = jnp.where(jnp.sum(mask) > max_inputs, jnp.inf, chosen.corrected_risk(n))
            return risk, spread_network(chosen.network, mask, max_inputs), chosen.decay

        risks, networks, decays = jax.lax.map(from_scratch, starts)
        lowest = jnp.min(jnp.where(jnp.isfinite(risks), risks, jnp.inf))
        paid = price(lowest, n, n_inputs, config.width)
        cost = risks + paid * jnp.sum(starts, axis=1).astype(dtype)
        first = jnp.argmin(jnp.where(jnp.isfinite(cost), cost, jnp.inf))
        random = _at(config.random_networks(1, n_inputs, dtype, key=key), 0)

        def neighbour(mask, previous, network, decay):
            # Without inputs a network shrinks to its bias, from where nothing can be learnt.
            network = jax.tree.map(lambda a, b: jnp.where(jnp.any(previous), a, b), network, random)
            decay = jnp.where(jnp.any(previous), decay, 1e-2)
            (weight, bias), *rest = network
            weight = jnp.where(jnp.any(weight != 0, axis=0)[None], weight, random[0][0])
            index, used = select_inputs(mask.astype(dtype), max_inputs)
            found = fit_network(
                ((weight[:, index], bias), *rest),
                data.inputs[:, index] * used[None],
                output,
                data.weight,
                n_iterations=config.fold_steps,
                decay=decay,
            )
            spread = spread_network(found.network, mask, max_inputs)
            return found.corrected_risk(n), spread, found.decay

        def flip_best(carry):
            mask, risk, network, decay, count, _ = carry
            risks, networks, decays = jax.lax.map(
                lambda flip: neighbour(mask ^ flip, mask, network, decay), flips
            )
            paid = price(risk, n, n_inputs, config.width)
            gain = risk - risks + jnp.where(mask, paid, -paid)
            full = jnp.sum(mask) >= max_inputs
            possible = jnp.isfinite(gain) & (mask | ~full) & undecided
            gain = jnp.where(possible, gain, -jnp.inf)
            best = jnp.argmax(gain)
            better = gain[best] > 0
            flipped = (mask ^ flips[best], risks[best], *_at((networks, decays), best))
            kept = (mask, risk, network, decay)
            chosen = jax.tree.map(lambda a, b: jnp.where(better, a, b), flipped, kept)
            return (*chosen, count + better.astype(count.dtype), better)

        def unfinished(carry):
            return carry[5] & (carry[4] < config.search) & ~data.refused

        start = (*_at((starts, risks, networks, decays), first), jnp.zeros((), int), True)
        start = jax.tree.map(jnp.asarray, start)
        mask, risk, *_ = jax.lax.while_loop(unfinished, flip_best, start)
        return mask, risk, price(risk, n, n_inputs, config.width)

    mask, risk, paid = data.each_target(target, key, data.apply_prior(starts), data.undecided)
    return mask, *(jnp.where(data.refused, jnp.nan, a) for a in (risk, paid))


def _at(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def spread_network(network, mask, max_inputs: int):
    """Return a network on the open inputs as one on all inputs, with zero weights for the
    others.
    """
    (weight, bias), *rest = network
    index, used = select_inputs(mask.astype(weight.dtype), max_inputs)
    full = jnp.zeros((weight.shape[0], mask.shape[0]), weight.dtype)
    return ((full.at[:, index].set(weight * used[None]), bias), *rest)


@eqx.filter_jit
def fit_layers(
    windows: Windows,
    mask: Bool[Array, "target input"],
    config: StrengthConfig,
    max_inputs: int,
    *,
    key: PRNGKeyArray,
) -> tuple[tuple[Layer, ...], Float[Array, "target"]]:
    """Return stacked networks trained on the inputs that are open in `mask`, and their corrected
    risk; NaN for windows that are refused.
    """
    data = FlatData(windows)

    def target(output, key, mask):
        _, chosen = best_of_starts(data, mask, output, config, max_inputs, key=key)
        return spread_network(chosen.network, mask, max_inputs), chosen.corrected_risk(data.total)

    layers, risk = data.each_target(target, key, mask)
    return jax.tree.map(lambda a: jnp.where(data.refused, jnp.nan, a), (layers, risk))


def best_of_starts(
    data: FlatData, mask, output, config: StrengthConfig, max_inputs: int, *, key: PRNGKeyArray
) -> tuple[Float[Array, "window slot"], NetworkFit]:
    """Return the open inputs, and the best of several fits to all windows."""
    dtype = data.inputs.dtype
    index, used = select_inputs(mask.astype(dtype), max_inputs)
    inputs = data.inputs[:, index] * used[None]
    starts = config.random_networks(config.restarts, max_inputs, dtype, key=key)
    fits = jax.lax.map(
        lambda start: fit_network(start, inputs, output, data.weight, n_iterations=config.steps),
        starts,
    )
    risks = jax.vmap(lambda f: f.corrected_risk(data.total))(fits)
    best = jnp.argmin(jnp.where(jnp.isfinite(risks), risks, jnp.inf))
    return inputs, _at(fits, best)


def held_out_squares(
    fitted: NetworkFit, inputs, output, weight, fold, train, config: StrengthConfig
) -> Float[Array, "window"]:
    """Return the squared error of every window by a refit without its fold, from `fitted`."""

    def left_out(k):
        refit = fit_network(
            fitted.network,
            inputs,
            output,
            weight * train[k],
            n_iterations=config.fold_steps,
            decay=fitted.decay,
        )
        return jnp.where(fold == k, (predict(refit.network, inputs) - output) ** 2, 0)

    return jnp.sum(jax.lax.map(left_out, jnp.arange(config.folds)), axis=0)


def blocks_of(valid: Bool[Array, "window"], n_blocks: int) -> Int[Array, "window"]:
    """Return the block of every window, contiguous with equally many valid ones; −1 if invalid."""
    rank = jnp.cumsum(valid) - 1
    block = rank * n_blocks // jnp.maximum(jnp.sum(valid), 1)
    return jnp.where(valid, block, -1)


def folds_of(windows: Windows, data: FlatData, n_folds: int):
    """Return the fold of every window, and for each fold the windows that share no sample
    with it.
    """
    fold = blocks_of(windows.valid, n_folds)
    position = windows.position
    gap = windows.reach
    far = jnp.iinfo(position.dtype).max // 2
    member = fold[None] == jnp.arange(n_folds)[:, None]
    first = jnp.min(jnp.where(member, position[None], far), axis=1, keepdims=True)
    last = jnp.max(jnp.where(member, position[None], -far), axis=1, keepdims=True)
    apart = (position[None] < first - gap) | (position[None] > last + gap)
    return fold, (apart & windows.valid[None]).astype(data.inputs.dtype)


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

    **Raises:** as for [`signal_strengths`][ndde_jax.signal_strengths].
    """
    config, key = checked_refit("fit_graph", windows, config, key, max_inputs)
    kept, base = checked_graph(windows, graph)
    slots = input_slots(windows, graph, max_inputs)
    drop_programs_if_many(windows, config, key)
    layers, _ = fit_layers(windows, base, config, slots, key=key)
    mask = from_graph_axes(kept)
    return NeuralDDE(MaskedDrift(layers), mask, windows.scaling, windows.dt, windows.lags)


def checked_graph(windows: Windows, graph: Any) -> tuple[Graph, Array]:
    """Return a graph as `[source target lag]` and as a mask `[target input]`; raise a `ValueError`
    for anything else.
    """
    shape = (windows.dim, windows.dim, windows.n_lags)
    if isinstance(graph, str):
        if graph != "full":
            raise argument_error("graph", "'full' or [source target lag]", graph)
        graph = windows.prior.allowed
    graph = check_graph(graph, shape)
    return graph, from_graph_axes(graph).reshape(windows.dim, -1)


def input_slots(windows: Windows, graph: Any, max_inputs: int | None) -> int:
    """Return the number of inputs that a network must have room for: all if the graph is traced.

    A known graph is counted even if the windows are traced: random starts depend on the number, and
    a fit must be the same under `jit`.
    """
    graph = windows.prior.allowed if isinstance(graph, str) else graph
    n_inputs = windows.dim * windows.n_lags
    if is_traced(graph):
        return n_inputs if max_inputs is None else min(max_inputs, n_inputs)
    needed = min(int(np.asarray(graph, bool).sum(axis=(0, 2)).max()) + 1, n_inputs)
    if max_inputs is None:
        # In steps of four: few different shapes, few compilations.
        return min(-(-needed // 4) * 4, n_inputs)
    if max_inputs < needed:
        raise ValueError(
            f"max_inputs={max_inputs} is too small: a target of the graph, with one edge "
            f"added, has {needed} inputs. Raise it or thin out the graph."
        )
    return min(max_inputs, n_inputs)
