"""The drift of a graph by least squares on splines and products: nothing trained or compiled."""

from typing import Any

import jax
import numpy as np

from .._axes import from_graph_axes
from .._checks import check_concrete, check_windows
from .._types import Checked, Graph, KnownMask, concretely, to_jax
from ..fit._refit import checked_graph
from ..models._model import NeuralDDE
from ..models._networks import MaskedDrift
from ..models._splines import SplineDrift, pairs_of
from ..regression._features import WIDTH
from ..windows._windows import Windows
from ._screened import Screened
from ._target_fit import Coefficients

# Beyond the data by this share of their range drifts are continued as constants.
SPARE = 0.5


@concretely()
def fit_splines(windows: Checked[Windows], graph: Any) -> NeuralDDE:
    """Fit a drift on a given graph in closed form: splines of its inputs, and their products where
    those pay.

    Of the linear, the additive and the multiplicative model of every target the Bayesian
    information criterion takes one, as [`spline_graph`][ndde_jax.select.spline_graph] does. As good
    as a network where effects add up or multiply, and a thousand times faster.

    **Arguments:**

    - `windows`: of one system, outside `jit`.
    - `graph`: `[source target lag]`, or `"full"` for all edges allowed.

    **Returns:** [`NeuralDDE`][ndde_jax.models.NeuralDDE] with a
    [`SplineDrift`][ndde_jax.models.SplineDrift], NaN for windows that [`fit`][ndde_jax.fit] would
    refuse.

    **Raises:** `ValueError` for a graph of another shape.

    ```python
    import numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.fit_splines(windows, "full")(np.array([[0.0, 1.0]])))  # about [1, 0]
    ```
    """
    check_windows(windows, "fit_splines")
    check_concrete("fit_splines", (windows, graph), "Use fit_drift there.")
    return fit_screened(Screened(windows), checked_graph(windows, graph)[0])


def fit_screened(screened: Screened, graph: Graph) -> NeuralDDE:
    """Return [`fit_splines`][ndde_jax.select.fit_splines] of windows whose columns may be at hand,
    on a graph that is known to be one.
    """
    windows, mask = screened.windows, from_graph_axes(graph)
    base = np.asarray(mask).reshape(len(mask), -1)
    drift = spline_drift(screened, base)
    return NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


def spline_drift(screened: Screened, mask, networks=None) -> SplineDrift:
    """Return the drift of a mask `[target input]`, of windows whose columns are at hand.

    `networks`: one per target, with its slots, for the targets that splines do not describe, or
    None for those they do.
    """
    data = screened.data
    networks = [None] * data.dim if networks is None else networks
    open_to_splines = mask & np.array([network is None for network in networks])[:, None]
    n_slots = _padded(int(open_to_splines.sum(axis=1).max()), mask.shape[1])
    rows = [
        _target(screened, j, open_to_splines[j], n_slots)
        if networks[j] is None
        else (np.zeros(n_slots, int), 0.0, *_nothing(n_slots))
        for j in range(data.dim)
    ]

    def stacked(values):
        values = np.asarray(values, float)
        return to_jax(np.full_like(values, np.nan) if data.refused else values, data.dtype)

    used = data.inputs[data.some] if data.some.any() else np.zeros((1, mask.shape[1]))
    low, high = used.min(axis=0), used.max(axis=0)
    return SplineDrift(
        index=to_jax(np.stack([row[0] for row in rows])),
        knots=stacked(screened.knots),
        constant=stacked([row[1] for row in rows]),
        splines=stacked([row[2] for row in rows]),
        products=stacked([row[3] for row in rows]),
        lower=stacked(low - SPARE * (high - low)),
        upper=stacked(high + SPARE * (high - low)),
        networks=_stacked_networks(networks, mask, data.dtype),
    )


def _stacked_networks(networks, mask, dtype) -> MaskedDrift | None:
    """Return one network per target on all inputs; zero where there is none."""
    if not any(networks):
        return None

    def on_all_inputs(entry, own):
        network, slots = entry
        (weight, bias), *rest = jax.tree.map(np.asarray, network)
        wide = np.zeros((len(weight), len(own)), weight.dtype)
        wide[:, slots] = weight * own[slots][None]
        return ((wide, bias), *rest)

    rows = [
        None if entry is None else on_all_inputs(entry, own)
        for entry, own in zip(networks, mask, strict=True)
    ]
    zero = jax.tree.map(np.zeros_like, next(filter(None, rows)))
    return MaskedDrift(
        jax.tree.map(lambda *parts: to_jax(np.stack(parts), dtype), *(row or zero for row in rows))
    )


def _nothing(n_slots: int):
    return np.zeros((n_slots, WIDTH)), np.zeros(n_slots * (n_slots - 1) // 2)


def _padded(needed: int, n_inputs: int) -> int:
    """Return a number of slots rounded up to a multiple of four, at most all inputs: few
    compilations.
    """
    return max(min(-(-needed // 4) * 4, n_inputs), 1)


def _target(screened: Screened, j: int, mask: KnownMask, n_slots: int):
    """Return the index, constant and coefficients of one target, in the terms of `SplineDrift`."""
    rate, inputs = screened.rate(j, mask), np.flatnonzero(mask)
    design, output, mean = rate
    _, size = design.standardised(output)
    index = np.zeros(n_slots, int)
    splines, products = _nothing(n_slots)
    if len(inputs):
        index[: len(inputs)] = inputs
        index[len(inputs) :] = inputs[0]
        own = screened.fit(j, mask, None if screened.summed is None else rate)
        if own.whole.matrix.shape != design.matrix.shape:
            # Inputs of a drift have the same knots for all targets, also where one needs more.
            own = own.on(mask, design)
        every, pairs, paired = Coefficients.of(design, own.fit)
        splines[: len(inputs)] = size * every[inputs]
        means = design.products(pairs)[1]
        mean -= size * float((every * design.mean).sum() + paired @ means)
        places = {pair: k for k, pair in enumerate(zip(*pairs_of(n_slots), strict=True))}
        slots = np.searchsorted(inputs, pairs)
        for (a, b), value in zip(slots, paired, strict=True):
            products[places[(int(a), int(b))]] = size * value
    return index, mean, splines, products
