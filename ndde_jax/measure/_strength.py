"""The signal strengths: the worth of an edge, measured by refitting with and without it."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._memory import make_room
from .._types import Checked, Graph, RealScalarLike, Scores
from ..fit._fixed import checked_graph, input_slots
from ..fit._prices import EBIC, AbstractPrice, as_price
from ..fit._refit import (
    StrengthConfig,
    checked_refit,
    compare_alternatives,
)
from ..select._recover import default_strategy, recover
from ..windows._prior import PriorKnowledge
from ..windows._windows import Windows


class SignalStrengths(eqx.Module):
    """The worth of every candidate edge, as a share of the variance of its target's rate.

    Each strength compares two graphs that differ in one edge: it is the rise of the target's
    standardised mean squared error when a kept edge is left out, or the fall when a dropped one is
    added, everything else refitted. Around zero, and possibly below, where nothing is there. At
    least the paper's s², for which all other candidates may make up for an edge and not only those
    of the graph: [`paper_strengths`][ndde_jax.theory.paper_strengths].

    - `value`: the strength to rank by, `[source target lag]`: the in-sample estimate with both
        risks corrected for the parameters they used (generalised cross-validation).
    - `held_out`: the same on blocks left out of the refit. Less biased, noisier. NaN where closed
        forms measured, which hold nothing out.
    - `lower`: one-sided lower confidence bound of `held_out`, from a block bootstrap of the paired
        differences; of `value`, from its spread over stretches of the record, where nothing was
        held out.
    - `source_value`, `source_held_out`: strength of a source at all its kept lags together,
        `[source target]`. Neighbouring lags can stand in for one another in `value`, not here.
    - `graph`: the graph the strengths are relative to.
    - `risk`: held-out risk of that graph per target; 1 is as good as predicting the mean rate. The
        corrected one in-sample where nothing was held out.
    - `risk_in_sample`: the same in-sample, corrected.
    - `threshold`: least worth of an edge per target under the default rule of `kept`.
    - `prior`: the prior knowledge of the windows. Edges that are not allowed are measured like all
        others, which tests the prior, but never kept.
    """

    value: Scores
    held_out: Scores
    lower: Scores
    source_value: Float[Array, "source target"]
    source_held_out: Float[Array, "source target"]
    graph: Graph
    risk: Float[Array, "target"]
    risk_in_sample: Float[Array, "target"]
    threshold: Float[Array, "target"]
    prior: PriorKnowledge

    def price(self, price: Checked[AbstractPrice | RealScalarLike | None] = None) -> Array:
        """Return the price of an edge of each target, `[target]`; by default the threshold."""
        price = as_price(price)
        if isinstance(price, EBIC):
            return self.threshold
        n_inputs = self.value.shape[0] * self.value.shape[2]
        return price(self.risk_in_sample, jnp.inf, n_inputs, 1)

    def kept(self, coefficient=None) -> Graph:
        """Return the edges worth keeping, `[source target lag]`.

        **Arguments:**

        - `coefficient`: λ of the L0 rule: keep iff the strength exceeds λ/F with F candidate inputs
            per target, the exchange rate of [`L0NDDE`][ndde_jax.L0NDDE]. By default no coefficient
            is needed: keep iff the strength exceeds

                10⁻⁴ + risk · width · (ln n − 2 + ln F) / n

            and is positive on held-out blocks, or beyond its spread over stretches of the record
            where nothing was held out. This is the extended Bayesian information criterion for the
            `width` weights that an input brings, less the charge already in the correction of the
            risks, plus the resolution of difference quotients. It becomes stricter with noise and
            with more candidates, laxer with more data.

        Edges that the prior decides are kept or dropped whatever their worth.
        """
        price = as_price(coefficient, "coefficient")
        if isinstance(price, EBIC):
            return _kept(self.prior, self.value, self.threshold, self.held_out, self.lower)
        return _kept(self.prior, self.value, self.price(price))


# One program where it is called by itself; part of the program around it otherwise.
@partial(jax.jit, inline=True)
def _kept(prior: PriorKnowledge, value, price, held_out=None, lower=None):
    good = value > price[None, :, None]
    if held_out is not None:
        good = good & ~(jnp.where(jnp.isnan(held_out), lower, held_out) <= 0)
    return prior.apply(good)


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
        graph = recover(windows, default_strategy(windows, config), key=fit_key).graph
    graph, base = checked_graph(windows, graph)
    max_inputs = input_slots(base, max_inputs)
    make_room(windows, config, key)
    result = compare_alternatives(windows, base, config, max_inputs, key=key)

    def edges(a):
        return to_graph_axes(a.reshape(windows.dim, windows.n_lags, windows.dim))

    n = jnp.maximum(windows.n_valid, 1).astype(result.in_sample.dtype)
    return SignalStrengths(
        value=edges(result.in_sample),
        held_out=edges(result.held_out),
        lower=edges(result.lower),
        source_value=result.source_in_sample.T,
        source_held_out=result.source_held_out.T,
        graph=graph,
        risk=result.base_held_out,
        risk_in_sample=result.base_in_sample,
        threshold=EBIC()(result.base_in_sample, n, base.shape[1], config.width),
        prior=windows.prior,
    )
