"""Scores of forecasts: error and valid prediction time of single paths, and scores of ensembles.

Single trajectories are `[*batch time dim]`, with every variable standardised by the mean and
standard deviation of the training data. Row 0 of both is the given initial state; the result is
one number per trajectory of the batch. Paths of an ensemble lie along the first axis,
`[path *shape]`, as forecasts return them. Every function takes NumPy or JAX arrays and works under
`jit` and `vmap`.
"""

from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Shaped

from .._checks import check_choice, check_flag, check_positive, check_real_array
from .._types import Checked, floating_type, namespace_of, root, to_jax

NORMS = ("l2", "rms")
# Numbers `[*batch time dim]`, and a number or one per trajectory.
Trajectory: TypeAlias = Checked[Shaped[ArrayLike, "..."]]
Each: TypeAlias = Checked[Shaped[ArrayLike, "..."]]


def bounded(predicted: Trajectory, *, limit: Checked[float] = 1e3) -> Array:
    """Return a forecast without infinities: values after it diverged are replaced by distant ones.

    From the first row with a non-finite value on, all values are `limit`; earlier values are
    clipped to ±`limit`. Otherwise a single forecast that diverges makes every mean infinite.

    **Arguments:**

    - `predicted`: a forecast `[*batch time dim]`.
    - `limit`: bound in standardised units, in which an attractor spans about ±3; 1000 by default,
        far outside the attractor and far from overflow when squared.

    **Returns:** an array of the same shape.

    **Raises:** `ValueError` for fewer than two axes, or a `limit` that is not positive.

    ```python
    import numpy as np
    from ndde_jax import metrics

    print(metrics.bounded(np.array([[0.5], [2e4], [np.inf], [0.0]])).ravel())  # [.5 1000 1000 1000]
    ```
    """
    predicted = as_trajectory(predicted, "predicted")
    check_positive(limit=limit)
    return _ended(predicted, limit)


@jax.jit
def _ended(predicted: Array, limit: Any) -> Array:
    finite = jnp.all(jnp.isfinite(predicted), axis=-1)
    alive = jnp.cumprod(finite.astype(jnp.int32), axis=-1).astype(bool)
    return jnp.clip(jnp.where(alive[..., None], predicted, limit), -limit, limit)


def valid_prediction_time(
    predicted: Trajectory,
    truth: Trajectory,
    *,
    dt: Each,
    lyapunov: Each = 1.0,
    threshold: Each = 1.0,
    norm: Checked[str] = "l2",
) -> Float[Array, "..."]:
    """Return the time until a forecast is further than `threshold` from the truth, in Lyapunov
    times.

    This is `lyapunov · dt · k`, where k is the first sample at which the error exceeds the
    threshold or is not a number; the whole length if there is none.

    **Arguments:**

    - `predicted`, `truth`: `[*batch time dim]`, standardised; the longer one is cut.
    - `dt`: sampling interval, a number or one per trajectory.
    - `lyapunov`: largest exponent of the true system per unit of time; the default 1 gives time in
        the unit of `dt`.
    - `threshold`: 1 by default, about the typical distance of a state from the mean.
    - `norm`: norm of the error at one time. `"l2"`, the default, is the Euclidean distance over
        variables; `"rms"` is its root mean square, which does not grow with their number (with
        threshold 0.5 the valid prediction time of Vlachas et al., *Neural Networks* 126, 2020).

    **Returns:** one number per trajectory, at most `lyapunov · dt · time`.

    **Raises:** `ValueError` if the batches or variables differ, or for an unknown `norm`.

    ```python
    import numpy as np
    from ndde_jax import metrics

    truth = np.zeros((100, 2))
    predicted = truth + 0.05 * np.arange(100)[:, None]
    print(metrics.valid_prediction_time(predicted, truth, dt=0.1, lyapunov=0.5))  # 0.75
    ```
    """
    check_choice(norm, "norm", NORMS)
    predicted, truth = same_length(predicted, truth)
    batch = truth.shape[:-2]
    given = (("threshold", threshold), ("dt", dt), ("lyapunov", lyapunov))
    return _valid_time(
        predicted, truth, norm, *(_each(value, batch, name) for name, value in given)
    )


@partial(jax.jit, static_argnums=2)
def _valid_time(predicted: Any, truth: Any, norm: str, threshold: Any, dt: Any, rate: Any) -> Array:
    square = (predicted - truth) ** 2
    error = jnp.sqrt(jnp.sum(square, axis=-1) if norm == "l2" else jnp.mean(square, axis=-1))
    # In this form an error that is not a number exceeds any threshold.
    valid = error <= threshold[..., None]
    steps = jnp.sum(jnp.cumprod(valid.astype(jnp.int32), axis=-1), axis=-1)
    return steps.astype(error.dtype) * (dt * rate)


def nrmse(
    predicted: Trajectory, truth: Trajectory, *, dt: Each, lyapunov: Each = 1.0, horizon: Each = 5.0
) -> Float[Array, "..."]:
    """Return the root mean square error over the variables, averaged over the first Lyapunov times.

    This is the mean over samples 1 … n of √(mean over variables of the squared error), with
    n = horizon / (lyapunov · dt), rounded, at least 2 and at most the number available. Do not read
    it alone: the constant mean scores about 0.9 and so beats a second true orbit, about 1.3.

    **Arguments:**

    - `predicted`, `truth`, `dt`, `lyapunov`: as for
        [`valid_prediction_time`][ndde_jax.metrics.valid_prediction_time]. Pass forecasts that may
        diverge through [`bounded`][ndde_jax.metrics.bounded] first.
    - `horizon`: in Lyapunov times; 5 by default, when most forecasts of chaos have lost track.

    **Returns:** one number per trajectory; NaN if a forecast is not finite within the horizon.

    **Raises:** `ValueError` if the batches or variables differ, or with fewer than three samples.

    ```python
    import numpy as np
    from ndde_jax import metrics

    truth = np.zeros((100, 2))
    print(metrics.nrmse(truth + 0.3, truth, dt=0.1, lyapunov=0.5))  # 0.3
    ```
    """
    predicted, truth = same_length(predicted, truth)
    n_samples = truth.shape[-2]
    if n_samples < 3:
        raise ValueError(
            "predicted and truth must have at least three samples, the first being the start; got "
            f"{n_samples}."
        )
    given = (("dt", dt), ("lyapunov", lyapunov), ("horizon", horizon))
    return _mean_error(predicted, truth, *(_each(v, truth.shape[:-2], name) for name, v in given))


@jax.jit
def _mean_error(predicted: Any, truth: Any, dt: Any, lyapunov: Any, horizon: Any) -> Array:
    error, n_samples = root(jnp.mean((predicted - truth) ** 2, axis=-1)), truth.shape[-2]
    steps = jnp.clip(jnp.round(horizon / lyapunov / dt), 2, n_samples - 1)
    index = jnp.broadcast_to(jnp.arange(n_samples), error.shape)
    counted = (index >= 1) & (index <= steps[..., None].astype(index.dtype))
    return jnp.mean(error, axis=-1, where=counted)


def as_trajectory(x: Any, name: str) -> Array:
    """Return a floating array with at least the axes [time dim]."""
    check_real_array(x, name, "[*batch time dim]")
    x = _floating(x)
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(
            f"{name} must be [*batch time dim], with at least one sample and one variable; got "
            f"shape {x.shape}. A single variable is written [time 1]."
        )
    return x


def same_batch(predicted: Any, truth: Any) -> tuple[Array, Array]:
    """Return both as floating arrays of one type, with the same batch and variables."""
    predicted, truth = as_trajectory(predicted, "predicted"), as_trajectory(truth, "truth")
    if predicted.shape[:-2] != truth.shape[:-2] or predicted.shape[-1] != truth.shape[-1]:
        raise ValueError(
            "predicted and truth must agree in batch and variables, [*batch time dim]; got "
            f"{predicted.shape} and {truth.shape}."
        )
    dtype = jnp.result_type(predicted, truth)
    return predicted.astype(dtype), truth.astype(dtype)


def same_length(predicted: Any, truth: Any) -> tuple[Array, Array]:
    """Return both as [`same_batch`][ndde_jax.metrics._forecast.same_batch], cut to the shorter."""
    predicted, truth = same_batch(predicted, truth)
    n = min(predicted.shape[-2], truth.shape[-2])
    return predicted[..., :n, :], truth[..., :n, :]


def _each(value: Any, batch: tuple[int, ...], name: str) -> Array:
    """Return one number for every trajectory."""
    least = dict(least=0) if name == "threshold" else dict(above=0)
    check_real_array(value, name, "one or one per trajectory", **least)
    try:
        return jnp.broadcast_to(jnp.asarray(value), batch)
    except ValueError:
        raise ValueError(
            f"{name} must be one number or one per trajectory, {batch}; got {jnp.shape(value)}."
        ) from None


def crps(
    samples: Checked[Shaped[ArrayLike, "path *shape"]],
    truth: Checked[Shaped[ArrayLike, "*shape"]],
    *,
    fair: Checked[bool] = True,
) -> Float[Array, "*shape"]:
    """Return the continuous ranked probability score of an ensemble; small is good.

    The score is E|X − y| − ½ E|X − X′|, with X and X′ drawn from the forecast, in units of the
    variable: the integrated squared distance between the forecast distribution function and the
    step at the observation. For a single path it is the absolute error.

    **Arguments:**

    - `samples`: `[path *shape]`.
    - `truth`: `[*shape]`, the observations. NaN gives NaN.
    - `fair`: average |X − X′| over pairs of different paths, the default, so that the expected
        score does not depend on the number of paths (Ferro, *QJRMS* 140, 2014). Without it the
        score is that of the empirical distribution, which penalises small ensembles. A single path
        has no pairs: then both are the absolute error.

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
    # The mean absolute difference of sorted values is a weighted sum.
    rank = (2 * jnp.arange(1, n + 1) - n - 1).astype(samples.dtype)
    between = jnp.tensordot(rank, jnp.sort(samples, axis=0), 1)
    return error - between / (n * (n - 1) if fair else n * n)


def interval_coverage(
    low: Checked[Shaped[ArrayLike, "*shape"]],
    high: Checked[Shaped[ArrayLike, "*shape"]],
    truth: Checked[Shaped[ArrayLike, "*shape"]],
) -> Float[Array, ""]:
    """Return the share of observations that lie in their interval, ends included.

    **Arguments:** arrays of one shape. Where the truth is NaN there is no observation, and nothing
    is counted. An interval with an end that is NaN contains nothing.

    **Returns:** a number, NaN without observations.

    **Raises:** `ValueError` if the shapes differ.

    ```python
    import numpy as np
    from ndde_jax import metrics

    print(metrics.interval_coverage(np.zeros(4), np.ones(4), np.array([0.5, 1.0, 2.0, -1.0])))  # .5
    ```
    """
    for value, name in ((low, "low"), (high, "high"), (truth, "truth")):
        check_real_array(value, name, "of one shape")
    shapes = [np.shape(value) for value in (low, high, truth)]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"low, high and truth must have one shape; got {shapes[0]}, {shapes[1]} and "
            f"{shapes[2]}."
        )
    low, high, truth = _subtract_level(truth, low, high, truth)
    came = ~jnp.isnan(truth)
    return jnp.mean(((low <= truth) & (truth <= high)).astype(truth.dtype), where=came)


def energy_score(
    samples: Checked[Shaped[ArrayLike, "path *batch dim"]],
    truth: Checked[Shaped[ArrayLike, "*batch dim"]],
) -> Float[Array, "*batch"]:
    """Return the energy score of several variables, E‖X − y‖ − ½ E‖X − X′‖, over pairs of different
    paths; equal to [`crps`][ndde_jax.metrics.crps] for one variable.

    It depends on whether the variables vary together correctly, which scores of single variables do
    not. Standardise variables with different units first.

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

    def apart(path: Array) -> Array:
        return root(jnp.sum((samples - path[None]) ** 2, axis=-1))

    error = jnp.mean(apart(truth), axis=0)
    if n == 1:
        return error

    def from_one(total: Any, path: Array):
        return total + jnp.sum(apart(path), axis=0), None

    between, _ = jax.lax.scan(from_one, jnp.zeros_like(error), samples)
    return error - between / (2 * n * (n - 1))


def _floating(value: Any) -> Array:
    return to_jax(value, floating_type(value))


def _subtract_level(level: Any, *values: Any) -> list[Array]:
    """Return the values minus a level, in the precision in which they are given: JAX's may not
    resolve differences at levels such as 1e9.
    """
    xp, kind = namespace_of((level, values)), jnp.result_type(*map(floating_type, values))
    level, *values = (xp.asarray(a, np.float64 if xp is np else kind) for a in (level, *values))
    level = xp.where(xp.isfinite(level), level, 0)
    return [to_jax(a - xp.broadcast_to(level, a.shape), kind) for a in values]


def _paths(samples: Any, truth: Any) -> tuple[Array, Array]:
    check_real_array(samples, "samples", "[path *shape]")
    check_real_array(truth, "truth", "[*shape]")
    shape = np.shape(samples)
    if len(shape) < 1 or shape[0] < 1 or shape[1:] != np.shape(truth):
        raise ValueError(
            f"samples must be [path *shape] and truth [*shape]; got {shape} and {np.shape(truth)}."
        )
    samples, truth = _subtract_level(truth, samples, truth)
    return samples, truth
