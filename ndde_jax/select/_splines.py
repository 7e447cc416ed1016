"""Graphs by spline regression: closed-form fits, fast enough to search among many lags.

With twenty variables and ten lags a target has two hundred candidate inputs, most of them nearly
copies of one another. A network refit for every one of them at every step of a search takes hours,
least squares on spline features milliseconds.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._axes import to_graph_axes
from .._checks import check_whole, check_windows
from .._memory import make_room
from .._types import Checked, Graph, Scores, to_jax
from ..windows._flat import FlatData, KnownData
from ..windows._windows import Windows
from ._regression import FLOOR
from ._spline_search import Columns, columns_of, search_target
from ._spline_traced import search_targets

# Inputs per target to search among.
SHORTLIST = 12
# Most moves of a search.
MOVES = 20


class SplineGraph(eqx.Module):
    """What [`spline_graph`][ndde_jax.select.spline_graph] found.

    - `graph`: `[source target lag]`.
    - `evidence`: by how much the logarithm of a target's risk rises when a kept edge is left out,
      or falls when a dropped one is added, per edge; a ranking across targets.
    - `shortlist`: inputs worth a closer look, flat (lag, source), best first, `[target slot]`.
    - `risk`: standardised mean squared error per target, in-sample.
    - `rate`: fitted standardised rates, `[window target]`.
    - `source_value`: rise of the risk when a source is left out at all its kept lags, which can
      stand in for one another in `value`; 0 where none is kept, `[source target]`.
    """

    graph: Graph
    evidence: Scores
    source_value: Float[Array, "source target"]
    shortlist: Int[Array, "target slot"]
    risk: Float[Array, "target"]
    rate: Float[Array, "window target"]

    @property
    def value(self) -> Scores:
        """The evidence as a share of the variance of the target's rate, as
        [`SignalStrengths.value`][ndde_jax.measure.SignalStrengths]: the rise of its risk without a
        kept edge, the fall with a dropped one. Logarithms give a weak input of a rate that is
        nearly explained as much weight as a strong input of one that is not; these do not.
        """
        return _worth(self.graph, self.evidence, self.risk)


# One program where it is called by itself; part of the program around it otherwise.
@partial(jax.jit, inline=True)
def _worth(graph, evidence, risk):
    change = jnp.where(graph, jnp.expm1(evidence), -jnp.expm1(-evidence))
    return (risk[None, :, None] + FLOOR) * change


def spline_graph(
    windows: Checked[Windows], *, shortlist: Checked[int] = SHORTLIST, steps: Checked[int] = MOVES
) -> SplineGraph:
    """Which inputs drive each rate, by spline regression and the extended Bayesian information
    criterion.

    For each target, inputs are taken in turn by how much their spline explains of what is left
    (orthogonal matching pursuit by groups), up to `shortlist` of them. Among these, models are
    improved by adding, dropping or *swapping* inputs: a swap is what corrects a wrong choice among
    neighbouring lags, which no single addition or removal mends. What the model leaves unexplained
    then draws up a new shortlist, on which inputs also come in pairs, by their product, since those
    that act only through one another have no spline to be found by; and so on while models get
    better. A model is linear, or a sum of splines, with or without the products of its inputs,
    whichever is best by

        n log(risk + 10⁻⁴) + (features) log n + 2 log (F choose inputs)

    ([Chen and Chen, 2008](https://doi.org/10.1093/biomet/asn034)), F being the number of
    candidates. At the end what is worth less than 10⁻⁴ of the rate's variance goes, the resolution
    of difference quotients.

    Good where effects of different inputs add up or multiply; elsewhere it lets in stand-ins that
    a network does not need, so let [`Gates`][ndde_jax.select.Gates] or
    [`Moves`][ndde_jax.select.Moves] have the last word.

    **Arguments:**

    - `windows`: of one system.
    - `shortlist`: inputs per target to search among, static; the number of products grows with its
        square.
    - `steps`: most moves of a search, static.

    **Returns:** [`SplineGraph`][ndde_jax.select.SplineGraph]; NaN for windows that
    [`fit`][ndde_jax.fit] would refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`) or `shortlist` below 1.

    ```python
    import numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.spline_graph(windows).graph[:, :, 0])
    ```
    """
    check_windows(windows, "spline_graph")
    check_whole(shortlist, "shortlist")
    check_whole(steps, "steps", least=0)
    make_room(windows)
    n_slots = min(shortlist, windows.dim * windows.n_lags)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(windows)):
        return _search_traced(windows, n_slots, steps)
    data = KnownData(windows)
    return search_known(data, columns_of(data.inputs, data.weight), n_slots, steps)


def search_known(
    data: KnownData, columns: Columns, shortlist: int, steps: int = MOVES
) -> SplineGraph:
    """[`spline_graph`][ndde_jax.select.spline_graph] of windows whose columns are at hand."""
    dim, n_inputs, dtype = data.dim, data.inputs.shape[1], data.dtype
    n_slots = min(shortlist, n_inputs)
    shape = (dim, n_inputs // dim, dim)
    sizes = dict(slots=n_slots, steps=steps, dim=dim)
    if data.refused:
        return _refused(data, n_slots)
    found = [
        search_target(columns, data.outputs[:, j], data.allowed[j], data.required[j], **sizes)
        for j in range(dim)
    ]

    def cast(values):
        return to_jax(np.asarray(values), dtype)

    mask = np.stack([f.mask for f in found]).reshape(shape).transpose(2, 0, 1)
    evidence = np.stack([f.evidence for f in found]).reshape(shape).transpose(2, 0, 1)
    return SplineGraph(
        graph=to_jax(mask),
        evidence=cast(evidence),
        source_value=cast(np.stack([f.rise for f in found], axis=1)),
        shortlist=to_jax(np.stack([f.slots for f in found])),
        risk=cast([f.risk for f in found]),
        rate=cast(np.stack([f.fitted for f in found], axis=1)),
    )


def _refused(data: KnownData, n_slots: int) -> SplineGraph:
    """NaN, and no edge."""
    dim, n_inputs = data.dim, data.inputs.shape[1]
    unknown = lambda *shape: jnp.full(shape, jnp.nan, data.dtype)  # noqa: E731
    return SplineGraph(
        graph=jnp.zeros((dim, dim, n_inputs // dim), bool),
        evidence=unknown(dim, dim, n_inputs // dim),
        source_value=unknown(dim, dim),
        shortlist=jnp.tile(jnp.arange(n_slots)[None], (dim, 1)),
        risk=unknown(dim),
        rate=unknown(len(data.weight), dim),
    )


@eqx.filter_jit
def _search_traced(windows: Windows, n_slots: int, steps: int) -> SplineGraph:
    data = FlatData(windows)
    found = search_targets(data, n_slots, steps)
    shape, refused = (data.dim, data.inputs.shape[1] // data.dim, data.dim), data.refused
    known = lambda values: jnp.where(refused, jnp.nan, values)  # noqa: E731
    return SplineGraph(
        graph=to_graph_axes(found.mask.reshape(shape)) & ~refused,
        evidence=known(to_graph_axes(found.evidence.reshape(shape))),
        source_value=known(found.rise.T),
        shortlist=found.slots,
        risk=known(found.risk),
        rate=known(found.fitted.T),
    )
