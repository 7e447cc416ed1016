"""The signal strengths: the worth of an edge, measured by refitting with and without it.

They certify, too, that flipping no single edge would pay.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import from_flat_inputs
from .._checks import refusal
from .._memory import make_room
from .._types import Checked
from ..fit._prices import EBIC, as_price
from ..fit._refit import (
    StrengthConfig,
    checked_graph,
    checked_refit,
    compare_alternatives,
    input_slots,
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


class OneFlip(eqx.Module):
    """The local optimality of a graph in the L0 objective: no single edge is worth flipping.

    - `optimal`: whether no flip pays, per target.
    - `margin`: by how much flipping an edge would raise the objective, `[source target lag]`; a
        negative one says that flipping it pays. Infinite for edges that the prior decides.
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
    the price of an edge. Relative to the refits, as [`exact_graph`][ndde_jax.select.exact_graph]
    is.

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
    if not isinstance(strengths, SignalStrengths):
        raise refusal("strengths", "what signal_strengths returns", strengths)
    price = strengths.price(as_price(coefficient, "coefficient"))
    gain = strengths.value - price[None, :, None]
    margin = jnp.where(strengths.graph, gain, -gain)
    margin = jnp.where(strengths.prior.undecided, margin, jnp.inf)
    return OneFlip(jnp.all(margin >= 0, axis=(0, 2)), margin, price)
