"""Strengths of edges by refits of networks with and without an edge."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import from_flat_inputs
from .._memory import drop_programs_if_many
from .._types import Checked
from ..fit._prices import EBIC
from ..fit._refit import (
    StrengthConfig,
    best_of_starts,
    blocks_of,
    checked_graph,
    checked_refit,
    folds_of,
    held_out_squares,
    input_slots,
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
