"""`solve_sdde`: paths of stochastic delay differential equations; and the log density of a path,
for inference by gradients or sampling.
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

    Compiled once per drift function and shapes: give numbers that change through `args`, or make
    the drift an `eqx.Module`, because a new lambda compiles anew. Runs of other lengths share a
    program, ten from one power of ten to the next, except with `increments` or `progress`, and
    where something is traced: a `jit` around compiles as usual. Differentiable, forward and
    backward, with respect to every array, the delays included; the backward pass keeps the saved
    states and one past per block of the shortest delay, and recomputes the rest. Works under `jit`
    and `vmap`.

    **Arguments:**

    - `drift`: `drift(t, x, lagged, args)` with `lagged` `[delay *state]`; or a learned model, which
        brings its lags and dt; or a [`System`][ndde_jax.systems.System], which brings its delays,
        history and dt, and with a `key` its noise.
    - `history`: the past up to `t0`: a state `[dim]` that was constant, samples `[time dim]` dt
        apart (for a model: as far apart as its data) of which the last is the start, or a function
        of time. A batch `[batch dim]` is stepped as one state if a function or samples
        `[time batch dim]` say so; it is several times faster than `vmap`.
    - `n_steps`, `dt`: number and length of steps. Each delay must be at least one step long. For a
        model dt is that of its data by default, or an integer fraction of it.
    - `delays`: τ in units of time, any number of them, none for an ordinary equation. `lags` is the
        same.
    - `sigma`: Σ, none by default; a number, a diagonal `[dim]`, a matrix `[dim noise]`, one matrix
        per member of a batch `[batch dim noise]`, or a function like the drift that returns one of
        these: in the sense of Itô or of Stratonovich, whichever the solver uses.
    - `diagonal`: `sigma` holds diagonals, one per member: `[batch dim]`. Nothing is guessed from
        shapes, which agree for as many members as variables; without it two axes are a matrix.
    - `key`: for the noise; one key, or one per member of a batch. The noise of a member depends on
        its key alone, and that of a longer run begins with that of a shorter one.
    - `increments`: Brownian increments instead, `[time *noise]`, variance dt; for `SRA1` and
        `ShARK` `[time 2 *noise]`, with the space-time Lévy area H of each step, variance dt/12.
    - `args`: passed on to `drift`.
    - `solver`: any explicit Runge–Kutta method of Diffrax; Euler (Euler–Maruyama, Itô) by default.
        Each reads lagged values by its own dense output. For noise that depends on the state also
        `ItoMilstein` and `StratonovichMilstein`, of strong order 1 where the diffusion of every
        variable is a function of that variable now, and `EulerHeun` (Stratonovich; of strong order
        1 there, ½ otherwise). For a constant `sigma` and delays on the grid also `SRA1` and
        `ShARK`, of strong order 1.5 and weak order 2; other solvers have strong order 1 then.
    - `save_every`: keep one state in this many. Memory does not grow with the steps in between.
    - `t0`: time of the start.
    - `delay_bounds`: bounds on the delays in units of time, needed where they are traced by `jit`
        or `vmap`, so that the sizes of buffers are known. With them all delays inside are one
        program; without, those from one number of steps 2^k or 3·2^k to the next. `lag_bounds` is
        the same. For a delay outside them all values are NaN.
    - `y0`: the state at `t0` if it is not the end of the history: a jump there.
    - `jumps`: times at which the drift itself jumps, as where a forcing is switched on. Steps end
        there, and after sums of delays from there, so that solvers keep their order.
    - `progress`: show a bar, and on an interrupt return what there is. Not inside `jit`.

    **Returns:** a [`Path`][ndde_jax.simulate.Path]. Its `status` says if the path diverged, if it
    grew because steps are too long for the drift, or if a delay lies outside its bounds. Paths
    under `vmap` that diverge leave the gradients of their neighbours alone; their own counts up to
    at most 1024 steps before they do.

    **Raises:** `ValueError` for delays below dt, outside their bounds or traced without bounds, a
    history that is too short or not finite, a `sigma` or `increments` of the wrong shape, noise
    without `key`, a solver that is not explicit, a dt that single precision loses beside `t0`; all
    before anything is compiled.

    Where dt does not divide the delays, a solver of order above 2 divides the steps in which a kink
    lies: the derivatives of a solution jump at `t0` and at sums of delays after it.

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
    # What is traced is compiled as a whole, and has its own sizes.
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

    This is the map that a model fitted with forward differences (`scheme="euler"`) describes. The
    model of a flow, and one fitted with central differences, describe rates of change instead;
    their rollout is *continuous*, [`solve_sdde`][ndde_jax.solve_sdde] with a solver of higher
    order, such as `diffrax.Bosh3()`. Where the two differ much, the data were sampled too coarsely
    for a drift to be read off them.

    **Arguments:** as for `solve_sdde`; `history` is a state `[dim]` or samples `[time dim]` at the
    interval of the data.

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
    drop_programs_if_many(problem, states, sigma)
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
