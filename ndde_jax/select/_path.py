"""The coefficient paths: one fit for a whole grid of penalties, and a choice that needs no
truth.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import (
    check_config,
    check_key,
    check_non_negative,
    check_real_array,
    check_windows,
    is_traced,
    shown,
)
from .._types import Checked, Graph, Scores
from ..fit._fit import FitConfig, FitResult, Status, fit
from ..fit._prices import RESOLUTION
from ..fit._refit import StrengthConfig, best_of_starts, blocks_of, folds_of, held_out_squares
from ..fit.penalties import NODE, AbstractMethod, check_method
from ..windows._flat import FlatData
from ..windows._windows import Windows


class SweptGraphs(eqx.Module):
    """The graphs along a grid of coefficients, and their prediction errors on held-out data.

    - `coefficients`: λ, ascending, `[coefficient]`.
    - `graphs`: `[coefficient source target lag]`.
    - `death`: the smallest coefficient from which on an edge stays closed, `[source target lag]`;
        0 for edges closed throughout, infinite for those that survive the largest.
    - `scores`: the method's scores averaged over the grid and the training: a ranking.
    - `held_out`: mean squared error of the refitted graphs on held-out blocks, summed over targets
        in standardised units, `[coefficient]`.
    - `standard_error`: standard error of its difference from the best coefficient's, from blocks.
    - `status`: status of the underlying fit.
    """

    coefficients: Float[Array, "coefficient"]
    graphs: Bool[Array, "coefficient source target lag"]
    death: Scores
    scores: Scores
    held_out: Float[Array, "coefficient"]
    standard_error: Float[Array, "coefficient"]
    status: Status

    def select(self, errors: Checked[float] = 1.0) -> Float[Array, ""]:
        """Return the largest coefficient whose held-out risk is within a number of standard errors
        of the best.

        The difference is paired, block by block, so errors common to both graphs cancel; 1e-4 per
        target is added, the error of difference quotients. The rule errs towards sparse graphs
        where data are few, and keeps stand-ins of true drivers where candidates are collinear:
        these predict as well.
        """
        check_non_negative(errors, "errors")
        excess = self.held_out - jnp.min(self.held_out)
        good = excess <= errors * self.standard_error + RESOLUTION * self.graphs.shape[2]
        return jnp.max(jnp.where(good, self.coefficients, -jnp.inf))

    def graph(self, coefficient: Any = None) -> Graph:
        """Return the graph at a coefficient of the grid, by default the selected one."""
        if coefficient is not None:
            check_non_negative(coefficient, "coefficient")
        chosen = self.select() if coefficient is None else jnp.asarray(coefficient)
        return self.graphs[jnp.argmin(jnp.abs(self.coefficients - chosen))]


def coefficient_path(
    method: Checked[AbstractMethod],
    windows: Checked[Windows],
    coefficients: Any,
    *,
    key: Checked[PRNGKeyArray],
    config: Checked[FitConfig | None] = None,
    refit: Checked[StrengthConfig | None] = None,
) -> SweptGraphs:
    """Fit a method for a whole grid of coefficients in one batch.

    All coefficients share warm-up, minibatches and compilation. Every graph found is then refitted,
    on all windows and without each of `refit.folds` contiguous blocks, and judged on the block left
    out. Works under `jit` and `vmap`.

    **Arguments:**

    - `method`: the method whose penalty is swept; its own `coefficient` and `path` are replaced.
    - `windows`: of one system.
    - `coefficients`: λ, positive, ascending.
    - `key`: for the fit and the refits.
    - `config`: [`FitConfig`][ndde_jax.FitConfig] of the fit; the model itself is not refined.
    - `refit`: [`StrengthConfig`][ndde_jax.fitting.StrengthConfig] of the refits.

    **Returns:** a [`SweptGraphs`][ndde_jax.select.SweptGraphs].

    **Raises:** `ValueError` for coefficients that are not positive and ascending, or a method
    without a penalty.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    coefficients, key = (0.01, 0.1, 1.0), jax.random.key(0)
    found = ndde.select.coefficient_path(ndde.AGL(), windows, coefficients, key=key)
    print(found.select(), found.graph()[:, :, 0])
    ```
    """
    check_method(method)
    check_windows(windows, "coefficient_path")
    check_config(config, FitConfig)
    check_config(refit, StrengthConfig, "refit")
    key = check_key(key)
    check_real_array(coefficients, "coefficients", "at least two, positive and ascending")
    if isinstance(method, NODE):
        raise ValueError("method NODE has no penalty, so there is no path of coefficients.")
    values = jnp.asarray(coefficients, jnp.result_type(float))
    if values.ndim != 1 or values.shape[0] < 2:
        raise ValueError(f"coefficients must be at least two, [coefficient]; got {values.shape}.")
    known = None if is_traced(coefficients) else np.asarray(coefficients, float)
    if known is not None and not (
        known[0] > 0 and np.all(np.diff(known) > 0) and np.isfinite(known[-1])
    ):
        raise ValueError(
            f"coefficients must be positive, finite and ascending; got {shown(coefficients)}."
        )
    # Only graphs are wanted of the fits.
    config = dataclasses.replace(FitConfig() if config is None else config, refine="none")
    n_inputs = windows.dim * windows.n_lags
    swept = eqx.tree_at(
        lambda m: (m.coefficient, m.path), method, (values[0], values[1:] / n_inputs)
    )
    fit_key, key = jr.split(key)
    result = fit(swept, windows, config, key=fit_key)
    refit = StrengthConfig() if refit is None else refit
    return _judge(windows, result, values, refit, key)


@eqx.filter_jit
def _judge(windows: Windows, result: FitResult, coefficients, config, key) -> SweptGraphs:
    masks = result.path_masks
    n, dim = masks.shape[:2]
    error, block_weight = held_out_errors(windows, masks.reshape(n, dim, -1), config, key=key)
    total = error.sum(axis=0)  # [coefficient block]
    mean = total @ block_weight
    best = jnp.argmin(mean)
    difference = (total - total[best][None]) * block_weight[None] * config.blocks
    spread = jnp.std(difference, axis=1, ddof=1) / jnp.sqrt(1.0 * config.blocks)
    graphs = to_graph_axes(masks)
    # An edge is dead from the coefficient after the last at which it is open.
    ends = jnp.concatenate([coefficients, jnp.full((1,), jnp.inf)])
    last = n - jnp.argmax(graphs[::-1], axis=0)
    death = jnp.where(jnp.any(graphs, axis=0), ends[last], 0)
    return SweptGraphs(
        coefficients=coefficients,
        graphs=graphs,
        death=death,
        scores=to_graph_axes(result.scores),
        held_out=mean,
        standard_error=spread,
        status=result.status,
    )


def held_out_errors(
    windows: Windows,
    masks: Bool[Array, "graph target input"],
    config: StrengthConfig,
    *,
    key: PRNGKeyArray,
) -> tuple[Float[Array, "target graph block"], Float[Array, "block"]]:
    """Return the mean squared error of refitted graphs on held-out folds, by bootstrap block, and
    the blocks' shares of the weight.
    """
    data = FlatData(windows)
    fold, train = folds_of(windows, data, config.folds)
    block = blocks_of(data.weight > 0, config.blocks)
    member = (block[:, None] == jnp.arange(config.blocks)[None]).astype(data.weight.dtype)
    member = member * data.weight[:, None]
    share = jnp.sum(member, axis=0)
    n_inputs = masks.shape[2]

    def one(mask, output, key):
        inputs, chosen = best_of_starts(data, mask, output, config, n_inputs, key=key)
        error = held_out_squares(chosen, inputs, output, data.weight, fold, train, config)
        return (error @ member) / jnp.where(share > 0, share, 1)

    # The same starts for all graphs of a target, so that their differences are paired, and a graph
    # equal to the one before, as most are along a path, needs no refit.
    def target(output, key, masks):
        def step(before, mask):
            last, error = before
            error = jax.lax.cond(
                jnp.any(mask != last), lambda: one(mask, output, key), lambda: error
            )
            return (mask, error), error

        none = jnp.zeros(share.shape, jnp.result_type(data.outputs))
        return jax.lax.scan(step, (~masks[0], none), masks)[1]

    errors = data.each_target(target, key, jnp.swapaxes(masks, 0, 1))
    return errors, share / jnp.maximum(jnp.sum(share), 1)
