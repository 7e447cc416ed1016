"""The log density of a recorded path, for inference by gradients or sampling."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import check_real_array
from .._memory import make_room
from .._types import Checked
from ..models._model import AbstractDelayModel
from ._advance import Path
from ._problem import Problem, concrete, noise_shape
from ._read import read_problem, read_system
from ._tableau import read_solver


def log_density(
    model: Checked[Callable | AbstractDelayModel],
    path: Path | Float[Array, "time dim"] | Any,
    dt: Any,
    sigma: Any,
    *,
    delays: Any = None,
    args: Any = None,
    t0: Any = 0.0,
    delay_bounds: Checked[tuple[float, float] | None] = None,
) -> Float[Array, ""]:
    """Return the log density of a sampled path, the Euler–Maruyama likelihood.

    The sum over steps of log N(X[k+1]; X[k] + dt G(t, X[k], X(t−τ₁), …), dt Σ Σᵀ), given the first
    samples, as far as the longest delay reaches. Delays between samples are read on a straight
    line, as `solve_sdde` does with Euler's method. Works under `jit` and `vmap`, and is
    differentiable with respect to every array: weights of the model, `args`, `sigma`, delays, path.
    It can serve directly as the potential of BlackJAX or in a `numpyro.factor`.

    **Arguments:**

    - `model`: a learned model, which brings its lags; or `drift(t, x, lagged, args)`, or a
        [`System`][ndde_jax.systems.System].
    - `path`: states `[time dim]`, dt apart, or a [`Path`][ndde_jax.simulate.Path].
    - `dt`: sampling interval; of a model, that of its data.
    - `sigma`: Σ: a number, a diagonal `[dim]`, a matrix `[dim noise]` of full rank, or a function
        like the drift that returns one of these.
    - `delays`: in units of time, of a function.
    - `args`, `t0`: as for [`solve_sdde`][ndde_jax.solve_sdde].
    - `delay_bounds`: needed where delays are traced, and wherever densities of several delays are
        compared: it fixes how many samples are given, so that all have as many terms. NaN for a
        delay outside.

    **Returns:** the log density, in nats.

    **Raises:** `ValueError` as `solve_sdde`, for a path that is no longer than its delays, and for
    a `sigma` of zero.

    Euler–Maruyama likelihoods of delay equations: Küchler and Sørensen, *Statistical Inference for
    Stochastic Processes* 13 (2010).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    drift = lambda t, x, lagged, args: -args * lagged[0]
    path = ndde.solve_sdde(
        drift, delays=1.0, dt=0.1, n_steps=500, history=np.ones(1), sigma=0.2, args=0.9,
        key=jax.random.key(0),
    )
    score = lambda rate: ndde.simulate.log_density(drift, path, 0.1, 0.2, delays=1.0, args=rate)
    print(jax.grad(score)(0.5), jax.grad(score)(1.3))  # uphill towards 0.9 from both sides
    ```
    """
    states = path.ys if isinstance(path, Path) else path
    check_real_array(states, "path", "states [time dim]")
    if np.ndim(states) != 2 or np.shape(states)[0] < 2:
        raise ValueError(f"path must be states [time dim]; got shape {np.shape(states)}.")
    start = states[-1]
    given = read_system(model, delays, None, dt, start, None, noisy=False)._replace(history=start)
    problem = read_problem(given, args, t0, delay_bounds, read_solver(None))
    if isinstance(model, AbstractDelayModel) and problem.delays.longest != max(model.lags):
        raise ValueError(f"dt must be that of the model's data, {float(model.dt):g}; got {dt}.")
    states = jnp.asarray(states, problem.dt.dtype)
    first, n = problem.delays.longest, states.shape[0] - 1
    if n <= first:
        raise ValueError(
            f"path has {n + 1} samples, and its longest delay is {first} steps; it needs more."
        )
    dim = states.shape[1]
    if not callable(sigma):
        check_real_array(sigma, "sigma", f"a number, a diagonal [{dim}] or a matrix [{dim} noise]")
        noise_shape(np.shape(sigma), (dim,), False, "sigma")
        known = concrete(sigma)
        if known is not None and known.ndim < 2 and not np.all(known):
            raise ValueError(
                "sigma must not be zero: a path of which a variable has no noise has no density."
            )
        sigma = jnp.asarray(sigma, states.dtype)
    make_room(problem, states, sigma)
    total = _density(problem.without_past, states, sigma)
    stray = problem.delays.stray
    return total if stray is None else total + stray


# One program: each operation would be compiled by itself.
@eqx.filter_jit
def _density(
    problem: Problem, states: Float[Array, "time dim"], sigma: Array | Callable
) -> Float[Array, ""]:
    """Return the sum over the steps after the longest delay."""
    steps = jnp.arange(problem.delays.longest, states.shape[0] - 1)
    whole, fraction = problem.delays.split()
    whole = whole.astype(steps.dtype)

    def late(k):
        at = k - whole
        sooner, later = states[at], states[jnp.maximum(at - 1, 0)]
        return sooner + fraction[:, None] * (later - sooner)

    def one(k):
        x, t, lagged = states[k], problem.time(k), late(k)
        rest = states[k + 1] - x - problem.dt * problem.drift(t, x, lagged, problem.args)
        root = sigma(t, x, lagged, problem.args) if callable(sigma) else sigma
        return _gaussian(rest, jnp.asarray(root, x.dtype), problem.dt)

    return jnp.sum(jax.vmap(one)(steps))


def _gaussian(rest: Float[Array, "dim"], sigma: Array, dt: Array) -> Float[Array, ""]:
    """Return the log density of N(0, dt Σ Σᵀ)."""
    constant = 0.5 * rest.shape[0] * jnp.log(2 * jnp.pi * dt)
    if sigma.ndim < 2:
        scale = jnp.broadcast_to(jnp.abs(sigma), rest.shape)
        return -0.5 * jnp.sum((rest / scale) ** 2) / dt - jnp.sum(jnp.log(scale)) - constant
    root = jnp.linalg.cholesky(sigma @ sigma.T)
    scaled = jax.scipy.linalg.solve_triangular(root, rest, lower=True)
    return -0.5 * jnp.sum(scaled**2) / dt - jnp.sum(jnp.log(jnp.diagonal(root))) - constant
