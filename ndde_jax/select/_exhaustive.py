"""An exact L0 search for few inputs, and a certificate of local optimality for any graph."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import from_flat_inputs
from .._memory import make_room
from .._types import Checked, Graph
from ..fit._prices import AbstractPrice, as_price
from ..fit._refit import StrengthConfig, best_of_starts, checked_refit
from ..windows._flat import FlatData
from ..windows._windows import Windows

# 2^F refits per target: 4096 at twelve inputs, half a minute each.
MOST_INPUTS = 12


class ExactGraph(eqx.Module):
    """The best of all graphs, target by target.

    - `graph`: minimiser of risk + price × number of inputs, `[source target lag]`.
    - `margin`: by how much the cost of the second best subset of inputs exceeds it, `[target]`;
        infinite where the prior leaves one subset only.
    - `price`: price of one input, `[target]`.
    - `subsets`: all subsets of inputs in the order of `risk`, `[subset lag source]`.
    - `risk`: risk of every subset, corrected for the parameters used, `[target subset]`.
    """

    graph: Graph
    margin: Float[Array, "target"]
    price: Float[Array, "target"]
    subsets: Bool[Array, "subset lag source"]
    risk: Float[Array, "target subset"]


def exact_graph(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    coefficient: Checked[float | AbstractPrice | None] = None,
    config: Checked[StrengthConfig | None] = None,
) -> ExactGraph:
    """Minimise the L0 objective by trying every subset of inputs of every target.

    The objective is a sum over targets, so 2^F refits each decide it. "Exact" up to the refits:
    each is the best of `config.restarts` nonconvex fits.

    **Arguments:**

    - `windows`: of one system, with at most 12 candidate inputs F = dim · lags.
    - `key`: for the refits.
    - `coefficient`: λ, an input costs λ/F as in [`L0NDDE`][ndde_jax.L0NDDE], or a price, asked for
        at the risk of the best subset; by default [`EBIC`][ndde_jax.select.EBIC].
    - `config`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].

    **Raises:** `ValueError` for a batch of systems or more than 12 inputs: use
    [`recover`][ndde_jax.recover] then.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.select.exact_graph(windows, key=jax.random.key(0)).graph[:, :, 0])
    ```
    """
    config, key = checked_refit("exact_graph", windows, config, key)
    price = as_price(coefficient, "coefficient")
    n_inputs = windows.dim * windows.n_lags
    if n_inputs > MOST_INPUTS:
        raise ValueError(
            f"windows have {n_inputs} candidate inputs and these 2^{n_inputs} subsets; at most "
            f"{MOST_INPUTS} inputs can be enumerated. Use ndde_jax.recover, or fewer lags."
        )
    make_room(windows, coefficient, config, key)
    return _enumerate(windows, price, config, key)


@eqx.filter_jit
def _enumerate(windows: Windows, price: AbstractPrice, config: StrengthConfig, key) -> ExactGraph:
    data = FlatData(windows)
    dim, n_inputs = data.dim, data.inputs.shape[1]
    subsets = np.array(list(itertools.product((False, True), repeat=n_inputs)))
    subsets = jnp.asarray(subsets[np.argsort(subsets.sum(axis=1), kind="stable")])

    def target(output, key):
        def risk(mask):
            _, chosen = best_of_starts(data, mask, output, config, n_inputs, key=key)
            return chosen.corrected_risk(data.total)

        return jax.lax.map(risk, subsets)

    risk = jnp.where(data.refused, jnp.nan, data.each_target(target, key))
    paid = price(jnp.min(risk, axis=1), data.total, n_inputs, config.width)
    cost = risk + paid[:, None] * jnp.sum(subsets, axis=1).astype(risk.dtype)[None]
    candidate = jnp.broadcast_to(subsets, (dim, *subsets.shape))
    obeys = jnp.all(data.apply_prior(candidate) == candidate, axis=2)
    cost = jnp.where(obeys, cost, jnp.inf)
    best = jnp.argmin(cost, axis=1)
    ordered = jnp.sort(cost, axis=1)
    return ExactGraph(
        graph=from_flat_inputs(subsets[best]),
        margin=ordered[:, 1] - ordered[:, 0],
        price=paid,
        subsets=subsets.reshape(-1, n_inputs // dim, dim),
        risk=risk,
    )
