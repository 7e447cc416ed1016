"""Windows whose states are taken where a forward difference sees them: halfway through the step."""

import dataclasses
from collections.abc import Iterable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._prior import PriorKnowledge, read_prior
from ._spline import spline_graph
from ._trajectories import read_lags
from ._types import RealScalarLike, TrajectoryLike
from ._windows import Windows, lagged_windows


def midpoint_windows(
    x: TrajectoryLike,
    *,
    dt: RealScalarLike,
    lags: Iterable = (0,),
    names: Sequence[str] | None = None,
    rate: Float[Array, "window dim"] | None = None,
    prior: PriorKnowledge | None = None,
) -> Windows:
    """Forward differences, paired with the states half a step later: second order, noise or not.

    The increment over a step is the integral of the drift over that step, so a forward difference
    belongs to its middle: a drift that depends on X(t − τ) seems to depend on X(t − τ + dt/2), that
    is on two neighbouring lags, and indirect drivers appear as direct ones. A central difference
    has neither error, but in noise-driven data it measures something else than the drift (see
    [`lagged_windows`][ndde_jax.lagged_windows]). Here the rates are forward differences, and

    - past states (lags ≥ 1) are means over the step, by cubic interpolation of the two samples on
      either side, which are known (of three for lag 1);
    - present states are *predicted* half a step ahead, X[k] + rate · dt/2 and a correction for the
      change of that rate, from what was known at sample k. The noise of the step is not in the
      prediction, so no bias enters.

    Means of the two ends of a step would do as well, were it not for data with little noise: there
    their error, dt²/12 of the second derivative, shows as edges at further lags.

    What is fitted to these windows is the drift itself, and a fitted model is used as any other.

    **Arguments:**

    - `x`, `dt`, `lags`, `names`, `prior`: as for [`lagged_windows`][ndde_jax.lagged_windows];
        samples must be equally spaced.
    - `rate`: expected standardised rates of the rows of the windows of scheme "euler" that have the
        lags l − 2 to l + 1 for each l ≥ 1 of `lags`, for the prediction; by default what
        [`spline_graph`][ndde_jax.spline_graph] fits.

    **Returns:** [`Windows`][ndde_jax.Windows] of scheme `"euler"`.

    **Raises:** as [`lagged_windows`][ndde_jax.lagged_windows], and `ValueError` for a `rate` of
    another shape.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=0.1, n_steps=6000, history=system.history, sigma=0.02,
        key=jax.random.key(0), save_every=10,
    )
    windows = ndde.midpoint_windows(path.ys, dt=1.0, lags=(0, 13, 17, 21))
    print(ndde.spline_graph(windows).graph[0, 0])  # lags 0 and 17
    ```
    """
    lags = read_lags(lags)
    near = {lag: _neighbours(lag) for lag in lags}
    both = tuple(sorted({other for weights in near.values() for other in weights}))
    wide = lagged_windows(x, dt=dt, lags=both, scheme="euler", names=names)
    prior = read_prior(prior, wide.dim, len(lags))
    samples = wide.history
    wide = dataclasses.replace(wide, lags=lags, prior=prior)
    start = jnp.array([both.index(lag) for lag in lags])
    plain = dataclasses.replace(wide, history=samples[:, start])
    if rate is None:
        rate = spline_graph(plain).rate
    if rate.shape != wide.increment.shape:
        raise ValueError(f"rate must have shape {wide.increment.shape}; got {rate.shape}.")
    share = np.array([[near[lag].get(other, 0) for other in both] for lag in lags])
    history = jnp.einsum("lo,wod->wld", jnp.asarray(share, samples.dtype), samples)
    if 0 in lags:
        s = wide.scaling
        physical = s.rate_center[None] + s.rate_scale[None] * rate
        follows = (wide.position[1:] == wide.position[:-1] + 1) & wide.valid[1:] & wide.valid[:-1]
        change = jnp.where(follows[:, None], jnp.diff(physical, axis=0), 0)
        change = jnp.concatenate([jnp.zeros_like(physical[:1]), change])
        ahead = (physical / 2 - change / 12) * wide.dt / s.scale[None]
        history = history.at[:, lags.index(0)].add(jnp.where(wide.valid[:, None], ahead, 0))
    return dataclasses.replace(wide, history=history)


def _neighbours(lag: int) -> dict[int, float]:
    """Weights of samples, by their lag, in the mean over the step that begins at a lag."""
    if lag == 0:
        return {0: 1.0}
    if lag == 1:
        return {2: -1 / 12, 1: 8 / 12, 0: 5 / 12}
    return {lag + 1: -1 / 24, lag: 13 / 24, lag - 1: 13 / 24, lag - 2: -1 / 24}
