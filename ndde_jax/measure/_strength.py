"""The signal strengths: the worth of an edge, measured by refitting with and without it."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray

from .._axes import from_flat_inputs
from .._memory import make_room
from .._types import Checked
from ..fit._fixed import checked_graph, input_slots
from ..fit._prices import EBIC
from ..fit._refit import (
    StrengthConfig,
    checked_refit,
    compare_alternatives,
)
from ..select._measured import SignalStrengths
from ..select._recover import recover, refitting_strategy
from ..windows._windows import Windows


def signal_strengths(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    graph: Any = None,
    config: Checked[StrengthConfig | None] = None,
    max_inputs: Checked[int | None] = None,
) -> SignalStrengths:
    """Measure the worth of every edge relative to a graph.

    For each target the graph is refitted as it is, with every single edge removed or added, and
    without each source at all lags: from `restarts` random starts on all windows, and from there on
    contiguous blocks with a gap of the largest lag around the held-out block. Networks are trained
    by Levenberg–Marquardt with evidence regularisation, so noise-free data are fitted to about 1e-6
    of their variance and noisy data are not overfitted.

    Relative to a *selected* graph, because with many collinear inputs every single one can be
    dropped from the full model at no cost.

    **Arguments:**

    - `windows`: from [`lagged_windows`][ndde_jax.lagged_windows], one system.
    - `key`: random starts, bootstrap, and the fit that selects the graph.
    - `graph`: `[source target lag]`; `"full"` for all edges allowed (good for few inputs); by
        default the graph that [`recover`][ndde_jax.recover] finds with this `config` of refits.
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `max_inputs`: most inputs of any network compared, static. By default the largest in-degree of
        the graph plus one, rounded up to a multiple of four; under `jit` and `vmap`, where the
        graph is not known, all inputs.

    **Returns:** [`SignalStrengths`][ndde_jax.measure.SignalStrengths]; all NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a graph of the wrong shape, or with more inputs than `max_inputs`
    allows.

    After the paper's s_ij² (equation "signal"), but relative to a graph, where the paper's is
    relative to all inputs.

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
    graph, base = checked_graph(windows, graph)
    max_inputs = input_slots(base, max_inputs)
    make_room(windows, config, key)
    result = compare_alternatives(windows, base, config, max_inputs, key=key)

    n = jnp.maximum(windows.n_valid, 1).astype(result.in_sample.dtype)
    return SignalStrengths(
        value=from_flat_inputs(result.in_sample),
        held_out=from_flat_inputs(result.held_out),
        lower=from_flat_inputs(result.lower),
        source_value=result.source_in_sample.T,
        source_held_out=result.source_held_out.T,
        graph=graph,
        risk=result.base_held_out,
        risk_in_sample=result.base_in_sample,
        threshold=EBIC()(result.base_in_sample, n, base.shape[1], config.width),
        prior=windows.prior,
    )
