"""Scores of probabilistic forecasts: ensembles of paths against observations.

Paths lie along the first axis, `[path *shape]`, as forecasts return them. NumPy or JAX, under `jit`
and `vmap` as well.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Shaped

from .._checks import check_flag, check_real_array
from .._types import Checked


def crps(
    samples: Checked[Shaped[ArrayLike, "path *shape"]],
    truth: Checked[Shaped[ArrayLike, "*shape"]],
    *,
    fair: Checked[bool] = True,
) -> Float[Array, "*shape"]:
    """Return the continuous ranked probability score of an ensemble; small is good.

    E|X − y| − ½ E|X − X′|, X and X′ being drawn from the forecast, in units of the variable: the
    squared distance between its distribution function and the step at what came, integrated. For a
    single path it is the absolute error.

    **Arguments:**

    - `samples`: `[path *shape]`.
    - `truth`: `[*shape]`, what came. NaN gives NaN.
    - `fair`: average |X − X′| over pairs of different paths, the default, so that the expected
        score does not depend on how many paths there are (Ferro, *QJRMS* 140, 2014). Without it,
        of the empirical distribution itself, which punishes small ensembles. A single path has no
        pairs: then both are the absolute error.

    **Returns:** `[*shape]`.

    **Raises:** `ValueError` if the shapes do not agree, or without paths.

    Gneiting and Raftery, *JASA* 102 (2007), 359.

    ```python
    import numpy as np
    from ndde_jax import metrics

    paths = np.random.default_rng(0).normal(size=(1000, 3))
    print(metrics.crps(paths, np.zeros(3)))  # about .23 each
    ```
    """
    samples, truth = _paths(samples, truth)
    check_flag(fair, "fair")
    return _crps(samples, truth, fair)


@partial(jax.jit, static_argnums=2)
def _crps(samples: Array, truth: Array, fair: bool) -> Array:
    n = samples.shape[0]
    error = jnp.mean(jnp.abs(samples - truth[None]), axis=0)
    if n == 1:
        return error
    # Of ordered values the mean absolute difference is a weighted sum.
    rank = (2 * jnp.arange(1, n + 1) - n - 1).astype(samples.dtype)
    between = jnp.tensordot(rank, jnp.sort(samples, axis=0), 1)
    return error - between / (n * (n - 1) if fair else n * n)


def interval_coverage(
    low: Checked[Shaped[ArrayLike, "*shape"]],
    high: Checked[Shaped[ArrayLike, "*shape"]],
    truth: Checked[Shaped[ArrayLike, "*shape"]],
) -> Float[Array, ""]:
    """Return the share of observations that lie in their interval, ends included.

    **Arguments:** arrays of one shape. Where the truth is NaN nothing came, and nothing is counted;
    an interval with an end that is NaN contains nothing.

    **Returns:** a number, NaN if nothing came.

    **Raises:** `ValueError` if the shapes differ.

    ```python
    import numpy as np
    from ndde_jax import metrics

    print(metrics.interval_coverage(np.zeros(4), np.ones(4), np.array([0.5, 1.0, 2.0, -1.0])))  # .5
    ```
    """
    arrays = []
    for value, name in ((low, "low"), (high, "high"), (truth, "truth")):
        check_real_array(value, name, "of one shape")
        arrays.append(_floating(value))
    low, high, truth = arrays
    if not low.shape == high.shape == truth.shape:
        raise ValueError(
            f"low, high and truth must have one shape; got {low.shape}, {high.shape} and "
            f"{truth.shape}."
        )
    came = ~jnp.isnan(truth)
    inside = (low <= truth) & (truth <= high)
    return jnp.mean(inside.astype(truth.dtype), where=came)


def energy_score(
    samples: Checked[Shaped[ArrayLike, "path *batch dim"]],
    truth: Checked[Shaped[ArrayLike, "*batch dim"]],
) -> Float[Array, "*batch"]:
    """Return the score of several variables together: E‖X − y‖ − ½ E‖X − X′‖, over pairs of
    different paths; [`crps`][ndde_jax.metrics.crps] if there is one variable.

    It sees whether the variables vary together as they should, which scores of one at a time do
    not. Standardise variables of unlike units first.

    **Arguments:**

    - `samples`: `[path *batch dim]`.
    - `truth`: `[*batch dim]`.

    **Returns:** `[*batch]`.

    **Raises:** `ValueError` if the shapes do not agree, or without paths.

    Gneiting and Raftery, *JASA* 102 (2007), 359.

    ```python
    import numpy as np
    from ndde_jax import metrics

    paths = np.random.default_rng(0).normal(size=(500, 2))
    print(metrics.energy_score(paths, np.zeros(2)))  # about .37
    ```
    """
    samples, truth = _paths(samples, truth)
    if truth.ndim < 1:
        raise ValueError("truth must be [*batch dim], with an axis of variables; got a number.")
    return _energy(samples, truth)


@jax.jit
def _energy(samples: Array, truth: Array) -> Array:
    n = samples.shape[0]
    error = jnp.mean(jnp.linalg.norm(samples - truth[None], axis=-1), axis=0)
    if n == 1:
        return error

    def from_one(total: Any, path: Array):
        return total + jnp.sum(jnp.linalg.norm(samples - path[None], axis=-1), axis=0), None

    between, _ = jax.lax.scan(from_one, jnp.zeros_like(error), samples)
    return error - between / (2 * n * (n - 1))


def _floating(value: Any) -> Array:
    value = jnp.asarray(value)
    return value if jnp.issubdtype(value.dtype, jnp.floating) else value.astype(float)


def _paths(samples: Any, truth: Any) -> tuple[Array, Array]:
    check_real_array(samples, "samples", "[path *shape]")
    check_real_array(truth, "truth", "[*shape]")
    samples, truth = _floating(samples), _floating(truth)
    if samples.ndim < 1 or samples.shape[0] < 1 or samples.shape[1:] != truth.shape:
        raise ValueError(
            "samples must be [path *shape] and truth [*shape]; got "
            f"{samples.shape} and {truth.shape}."
        )
    dtype = jnp.result_type(samples, truth)
    return samples.astype(dtype), truth.astype(dtype)
