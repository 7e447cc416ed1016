"""Paths of stochastic delay differential equations (`solve_sdde`), and their log density.

The log density serves inference by gradients or sampling.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._checks import check_flag, check_real_array, is_traced
from .._memory import drop_programs_if_many
from .._types import Checked
from ..models._model import AbstractDelayModel, check_model
from ._advance import Path, PathStatus, Plan, cut, finish, simulate, simulate_with_progress
from ._problem import Problem, concrete, constant, noise_shape, rounded
from ._read import check_counts, read_bounds, read_noise, read_problem, read_system
from ._tableau import read_solver


def solve_sdde(
    drift: Checked[Callable | AbstractDelayModel],
    *,
    n_steps: Any,
    history: Any = None,
    delays: Any = None,
    dt: Any = None,
    sigma: Any = None,
    diagonal: bool = False,
    key: Any = None,
    increments: Any = None,
    args: Any = None,
    solver: Checked[diffrax.AbstractSolver | None] = None,
    save_every: Any = 1,
    t0: Any = 0.0,
    delay_bounds: Checked[tuple[float, float] | None] = None,
    y0: Any = None,
    jumps: Any = None,
    lag_bounds: Checked[tuple[float, float] | None] = None,
    lags: Any = None,
    progress: Checked[bool] = False,
) -> Path:
    """Simulate dX = G(t, X(t), X(t−τ₁), …) dt + Σ dW with a constant step.

    Compiled once per drift function and set of shapes. Pass changing numbers through `args`, or
    make the drift an `eqx.Module`, because every new lambda is compiled again. Runs of similar
    length share a program: there are ten program lengths per power of ten. The exceptions are
    `increments`, `progress` and traced arguments: an enclosing `jit` compiles as usual.
    Differentiable in forward and reverse mode with respect to every array, including the delays.
    The backward pass keeps the saved states and one copy of the past per block of the shortest
    delay, and recomputes the rest. Works under `jit` and `vmap`.

    **Arguments:**

    - `drift`: `drift(t, x, lagged, args)` with `lagged` `[delay *state]`; or a learned model, which
        supplies its lags and dt; or a [`System`][ndde_jax.systems.System], which supplies its
        delays, history and dt, and also its noise if a `key` is given.
    - `history`: the past up to `t0`: a constant state `[dim]`, samples `[time dim]` that end at
        the start and are dt apart (for a model, one interval of its data apart), or a function of
        time. A batch is stepped as one state `[batch dim]` if the history is a function that
        returns it or samples `[time batch dim]`; this is several times faster than `vmap`.
    - `n_steps`, `dt`: number and length of steps. Each delay must be at least one step long. For a
        model, dt is that of its data (the default) or an integer fraction of it.
    - `delays`: τ in units of time, any number of them; none for an ordinary equation. `lags` is an
        alias.
    - `sigma`: Σ, none by default; a number, a diagonal `[dim]`, a matrix `[dim noise]`, one matrix
        per member of a batch `[batch dim noise]`, or a function like the drift that returns one of
        these. The solver determines the interpretation, Itô or Stratonovich.
    - `diagonal`: `sigma` holds one diagonal per member, `[batch dim]`. Without it, two axes mean a
        matrix. Shapes cannot decide this if there are as many members as variables.
    - `key`: for the noise; one key, or one per member of a batch. The noise of a member depends on
        its key alone, and the noise of a longer run begins with that of a shorter one.
    - `increments`: Brownian increments in place of `key`, `[time *noise]`, variance dt. For `SRA1`
        and `ShARK`, `[time 2 *noise]` with the space-time Lévy area H of each step, variance dt/12.
    - `args`: passed on to `drift`.
    - `solver`: any explicit Runge–Kutta method of Diffrax; Euler (Euler–Maruyama, Itô) by default.
        Each reads lagged values from its own dense output. State-dependent noise also allows
        `ItoMilstein` and `StratonovichMilstein`, of strong order 1 where the diffusion of every
        variable depends only on the present value of that variable, and `EulerHeun` (Stratonovich;
        strong order 1 in the same case, ½ otherwise). A constant `sigma` with delays on the grid
        also allows `SRA1` and `ShARK`, of strong order 1.5 and weak order 2; other solvers then
        have strong order 1.
    - `save_every`: save every `save_every`-th state. Memory does not grow with the steps between.
    - `t0`: start time.
    - `delay_bounds`: bounds on the delays in units of time, required where `jit` or `vmap` traces
        the delays, so that buffer sizes are known. All delays within the bounds share a program.
        Without bounds, delays between successive step counts of the form 2^k or 3·2^k share one.
        A traced delay outside the bounds makes all values NaN. `lag_bounds` is an alias.
    - `y0`: the state at `t0` if it differs from the end of the history: a jump there.
    - `jumps`: times at which the drift itself jumps, for example where a forcing is switched on.
        Steps end at these times and at sums of delays after them, so that solvers keep their order.
    - `progress`: show a progress bar, and return the partial path on an interrupt. Not inside
        `jit`.

    **Returns:** a [`Path`][ndde_jax.simulate.Path]. Its `status` says if the path diverged, if it
    grew because steps are too long for the drift, or if a delay lies outside its bounds. Paths
    that diverge under `vmap` do not affect the gradients of the others. Their own gradients end at
    most 1024 steps before the divergence.

    **Raises:** `ValueError` for delays below dt, outside their bounds or traced without bounds, a
    history that is too short or not finite, a `sigma` or `increments` of the wrong shape, noise
    without `key`, a solver that is not explicit, and a dt that the floating-point precision cannot
    resolve at `t0`; all before anything is compiled.

    The derivatives of a solution jump at `t0` and at sums of delays after it. Where dt does not
    divide the delays, solvers of order above 2 divide the steps that contain such a kink.

    Method of steps: Bellen and Zennaro, *Numerical Methods for Delay Differential Equations*
    (2003); Euler–Maruyama with delays: Buckwar, *J. Comput. Appl. Math.* 125 (2000); strong order
    1.5: Rößler, *SIAM J. Numer. Anal.* 48 (2010), Foster et al., *SIAM J. Numer. Anal.* 62 (2024).

    ```python
    import jax
    import ndde_jax as ndde

    langevin = lambda t, x, lagged, args: -x + 0.5 * lagged[0]
    path = ndde.solve_sdde(
        langevin, delays=1.0, dt=0.01, n_steps=1000, history=jax.numpy.zeros(1), sigma=0.1,
        key=jax.random.key(0),
    )
    print(path.ts[-1], path.ys[-1], path.status)
    ```
    """
    check_counts(n_steps, save_every)
    check_flag(progress, "progress")
    tableau = read_solver(solver)
    noisy = key is not None or increments is not None
    given = read_system(drift, delays, lags, dt, history, sigma, noisy=noisy)
    bounds = read_bounds(delay_bounds, lag_bounds)
    # Traced runs are compiled as a whole, with sizes of their own.
    traced = is_traced(jnp.zeros(()), given, args, t0, y0, jumps, key)
    few_sizes = not (traced or progress or increments is not None)
    room = rounded(int(n_steps)) if few_sizes else n_steps
    options: dict[str, Any] = dict(diagonal=diagonal, y0=y0, jumps=jumps)
    options |= dict(n_steps=room, few_sizes=few_sizes)
    problem = read_problem(given, args, t0, bounds, tableau, **options)
    noise = read_noise(key, increments, problem, n_steps)
    plan = Plan.of(problem, tableau, room, save_every)
    drop_programs_if_many(problem, noise)
    if few_sizes:
        n = n_steps // plan.save_every
        end = constant(n * plan.save_every, jax.dtypes.canonicalize_dtype(int))
        return cut(simulate(problem, noise, plan, end), 1 + n)
    if not progress:
        return simulate(problem, noise, plan)
    ys, complete = simulate_with_progress(problem, noise, plan)
    path = finish(problem, ys, plan)
    return path if complete else Path(path.ts, path.ys, PathStatus.interrupted)


def rollout(
    model: Checked[AbstractDelayModel],
    *,
    history: Any,
    n_steps: Checked[int],
    sigma: Any = 0.0,
    key: Checked[PRNGKeyArray | None] = None,
    save_every: Checked[int] = 1,
) -> Path:
    """Iterate X[k+1] = X[k] + dt G(X[k], X[k−l₁], …) + Σ dW: the *discrete* rollout.

    This is the map described by a model that was fitted with forward differences
    (`scheme="euler"`). A model of a flow, or one fitted with central differences, describes rates
    of change instead. Its rollout is *continuous*: [`solve_sdde`][ndde_jax.solve_sdde] with a
    solver of higher order, such as `diffrax.Bosh3()`. If the two rollouts differ strongly, the
    data were sampled too coarsely to determine a drift.

    **Arguments:** as for `solve_sdde`; `history` is a state `[dim]` or samples `[time dim]` at the
    sampling interval of the data.

    **Returns:** a [`Path`][ndde_jax.simulate.Path]. [`confine`][ndde_jax.confine] the model first
    if it diverges.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(800) * 0.02
    x = np.stack([np.sin(t), np.cos(t)], 1)
    windows = ndde.lagged_windows(x, dt=0.02)
    model = ndde.fit(ndde.L0NDDE(), windows, key=jax.random.key(0)).model
    print(ndde.simulate.rollout(model, history=x[:1], n_steps=10).ys[-1], x[10])
    ```
    """
    check_model(model)
    return solve_sdde(
        model, history=history, n_steps=n_steps, sigma=sigma, key=key, save_every=save_every
    )


# ---- densities ----


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

    The sum over steps of log N(X[k+1]; X[k] + dt G(t, X[k], X(t−τ₁), …), dt Σ Σᵀ), conditional on
    the first samples, as many as the longest delay spans. Lagged values between samples are
    interpolated linearly, as in `solve_sdde` with Euler's method. Works under `jit` and `vmap`.
    Differentiable with respect to every array: weights of the model, `args`, `sigma`, delays, path.
    It can serve directly as the potential of BlackJAX or in a `numpyro.factor`.

    **Arguments:**

    - `model`: a learned model, which supplies its lags; or `drift(t, x, lagged, args)`, or a
        [`System`][ndde_jax.systems.System].
    - `path`: states `[time dim]`, dt apart, or a [`Path`][ndde_jax.simulate.Path].
    - `dt`: sampling interval; for a learned model, that of its data.
    - `sigma`: Σ: a number, a diagonal `[dim]`, a matrix `[dim noise]` of full rank, or a function
        like the drift that returns one of these.
    - `delays`: in units of time; for a function only.
    - `args`, `t0`: as for [`solve_sdde`][ndde_jax.solve_sdde].
    - `delay_bounds`: required where delays are traced, and for comparing densities at different
        delays: the bounds fix the number of conditioning samples, so that all densities have the
        same number of terms. A traced delay outside gives NaN.

    **Returns:** the log density, in nats.

    **Raises:** `ValueError` as in `solve_sdde`, for a path no longer than its delays, and for a
    `sigma` of zero.

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
            f"path has {n + 1} samples, but its longest delay is {first} steps; it needs more."
        )
    dim = states.shape[1]
    if not callable(sigma):
        check_real_array(sigma, "sigma", f"a number, a diagonal [{dim}] or a matrix [{dim} noise]")
        noise_shape(np.shape(sigma), (dim,), False, "sigma")
        known = concrete(sigma)
        if known is not None and known.ndim < 2 and not np.all(known):
            raise ValueError(
                "sigma must not be zero: a path has no density if one of its variables has no "
                "noise."
            )
        sigma = jnp.asarray(sigma, states.dtype)
    drop_programs_if_many(problem, states, sigma)
    total = _density(problem.without_past, states, sigma)
    out_of_bounds = problem.delays.out_of_bounds
    return total if out_of_bounds is None else total + out_of_bounds


# One program: otherwise each operation would be compiled separately.
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
