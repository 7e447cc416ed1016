"""The SDDE simulator against closed forms, SciPy, plain Diffrax and hand-written loops."""

import math
from functools import partial

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import jaxlib
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import ndde_jax as ndde
from ndde_jax import solve_sdde
from ndde_jax.simulate._noise import increments

from .small import brownian_path


def langevin(t, x, lagged, args):
    return -x + 0.5 * lagged[0]


ORDERS = [(diffrax.Euler(), 1), (diffrax.Heun(), 2), (diffrax.Bosh3(), 3), (diffrax.Tsit5(), 5)]
names = [type(solver).__name__ for solver, _ in ORDERS]


@pytest.mark.parametrize("solver, order", ORDERS, ids=names)
@pytest.mark.parametrize("on_grid", [pytest.param(True, marks=pytest.mark.slow), False])
def test_order_of_convergence(solver, order, on_grid):
    """A smooth solution: every solver reads its lags at its own order, on the grid and off it.

    x' = −ω x(t − π/2ω) is solved by cos ωt; in steps of one, two ω are two lengths of a step.
    """
    lags = np.array([8.0, 16.0]) + (0.0 if on_grid else 0.37)
    frequency = math.pi / 2 / lags
    path = solve_sdde(
        lambda t, x, lagged, args: -frequency * jnp.diagonal(lagged),
        delays=lags,
        dt=1.0,
        n_steps=round(4 * lags[1]),
        history=lambda t: jnp.cos(frequency * t),
        solver=solver,
    )
    error = np.abs(np.asarray(path.ys) - np.cos(frequency[None] * np.asarray(path.ts)[:, None]))
    errors = [error[: 1 + round(4 * lag), i].max() for i, lag in enumerate(lags)]
    rate = math.log2(errors[0] / errors[1])
    assert order - 0.35 < rate < order + 1.2, (rate, errors)


def polynomial(t):
    """Exact solution of x' = −x(t − 1) with history 1."""
    return sum((-1) ** k * (t - k + 1) ** k / math.factorial(k) for k in range(math.floor(t) + 2))


@pytest.mark.parametrize("dt", [0.5, 0.1])
def test_piecewise_polynomial_is_exact(dt):
    """A solution of degree 5 on each interval is within the reach of Tsit5 up to t = 4."""
    path = solve_sdde(
        lambda t, x, lagged, args: -lagged[0],
        lags=1.0,
        dt=dt,
        n_steps=round(4 / dt),
        history=jnp.ones(1),
        solver=diffrax.Tsit5(),
    )
    exact = [polynomial(float(t) + 1e-12) for t in np.asarray(path.ts)]
    np.testing.assert_allclose(np.asarray(path.ys)[:, 0], exact, atol=1e-10)


def scipy_mackey_glass(tau, end, history=1.2):
    """SciPy's DOP853, restarted at every multiple of the delay."""
    pieces = [lambda t: np.full(np.shape(t), history)]
    value, times = history, []
    for k in range(math.ceil(end / tau)):
        past = pieces[-1]

        def rate(t, x, past=past):
            late = past(t - tau)
            return 0.2 * late / (1 + late**10) - 0.1 * x

        span = (k * tau, (k + 1) * tau)
        found = scipy.integrate.solve_ivp(
            rate, span, [value], method="DOP853", rtol=1e-11, atol=1e-13, dense_output=True
        )
        pieces.append(lambda t, dense=found.sol: dense(t)[0])
        value = found.y[0, -1]
        times.append(span[1])
    return np.array(times), np.array([pieces[k + 1](t) for k, t in enumerate(times)])


def test_mackey_glass_against_scipy():
    system = ndde.systems.get("mackey_glass")
    path = solve_sdde(
        system.drift,
        lags=system.lags,
        dt=0.25,
        n_steps=170 * 4,
        history=jnp.array([1.2]),
        solver=diffrax.Tsit5(),
        save_every=68,
    )
    times, values = scipy_mackey_glass(17.0, 170.0)
    np.testing.assert_allclose(path.ts[1:], times)
    np.testing.assert_allclose(path.ys[1:, 0], values, atol=2e-9)


HEUN = pytest.param(diffrax.Heun(), marks=pytest.mark.slow)


@pytest.mark.parametrize("solver", [diffrax.Euler(), HEUN, diffrax.Tsit5()])
def test_without_delays_equals_diffrax(solver):
    """On the same increments, to rounding; without noise for Tsit5, which has no SDE order."""
    n, dt = 300, 0.02
    drift = lambda t, x, args: jnp.stack([x[1] + jnp.sin(t), -args * x[0] ** 3])  # noqa: E731
    noise = brownian_path(jr.key(3), n, dt, (2,))
    sigma = jnp.array([0.3, 0.1])
    terms = diffrax.ODETerm(drift)
    if not isinstance(solver, diffrax.Tsit5):
        diffusion = diffrax.ControlTerm(lambda t, y, args: jnp.diag(sigma), noise)
        terms = diffrax.MultiTerm(terms, diffusion)
    start = jnp.array([1.0, 0.0])
    expected = diffrax.diffeqsolve(
        terms,
        solver,
        0.0,
        n * dt,
        None,
        start,
        args=2.0,
        saveat=diffrax.SaveAt(t0=True, steps=True),
        stepsize_controller=diffrax.StepTo(ts=dt * np.arange(n + 1)),
        max_steps=n,
    ).ys[: n + 1]
    path = solve_sdde(
        lambda t, x, lagged, args: drift(t, x, args),
        dt=dt,
        n_steps=n,
        history=start,
        sigma=0.0 if isinstance(solver, diffrax.Tsit5) else sigma,
        key=jr.key(3),
        args=2.0,
        solver=solver,
    )
    np.testing.assert_allclose(path.ys, expected, rtol=1e-12, atol=1e-12)


def test_stationary_variance_of_a_linear_equation():
    """Compared with the exact law of the Euler–Maruyama recursion, from its companion matrix."""
    a, b, tau, dt, sigma = -2.0, -1.0, 0.5, 0.05, 0.7
    lag = round(tau / dt)
    companion = np.eye(lag + 1, k=-1)
    companion[0, 0], companion[0, lag] = 1 + a * dt, b * dt
    noise = np.zeros_like(companion)
    noise[0, 0] = sigma**2 * dt
    covariance = scipy.linalg.solve_discrete_lyapunov(companion, noise)
    path = solve_sdde(
        lambda t, x, lagged, args: a * x + b * lagged[0],
        lags=tau,
        dt=dt,
        n_steps=400,
        history=lambda t: jnp.zeros((4000, 1)),
        sigma=sigma,
        key=jr.key(0),
        save_every=lag,
    )
    last, before = np.asarray(path.ys[-1, :, 0]), np.asarray(path.ys[-2, :, 0])
    for sample, expected in (
        (last**2, covariance[0, 0]),
        (last * before, covariance[0, lag]),
    ):
        error = sample.std() / math.sqrt(len(sample))
        assert abs(sample.mean() - expected) < 4 * error


@pytest.mark.parametrize("tau", [1.0, 0.77])
def test_strong_order_with_additive_noise(tau):
    """Order 1, on the grid and off it, against a fine path on the same Brownian motion."""
    fine, n = 1 / 512, 1024
    noise = math.sqrt(fine) * np.random.default_rng(1).normal(size=(n, 400, 1))
    drift = lambda t, x, lagged, args: jnp.sin(2 * lagged[0]) - x**3  # noqa: E731

    def end(factor):
        increments = noise.reshape(n // factor, factor, 400, 1).sum(axis=1)
        path = solve_sdde(
            drift,
            lags=tau,
            dt=fine * factor,
            n_steps=n // factor,
            history=lambda t: 0.3 * jnp.ones((400, 1)),
            sigma=0.8,
            increments=increments,
        )
        return np.asarray(path.ys)[-1]

    exact = end(1)
    coarse, finer = (np.mean(np.abs(end(f) - exact)) for f in (32, 16))
    assert 0.8 < math.log2(coarse / finer) < 1.35


def test_multiplicative_noise_is_ito():
    """Geometric Brownian motion: mean and second moment of the recursion in closed form."""
    mu, vol, dt, n = 0.5, 0.4, 0.05, 20
    path = solve_sdde(
        lambda t, x, lagged, args: mu * x,
        dt=dt,
        n_steps=n,
        history=lambda t: jnp.ones((8_000, 1)),
        sigma=lambda t, x, lagged, args: vol * x,
        diagonal=True,
        key=jr.key(2),
    )
    last = np.asarray(path.ys[-1, :, 0])
    for sample, expected in (
        (last, (1 + mu * dt) ** n),
        (last**2, ((1 + mu * dt) ** 2 + vol**2 * dt) ** n),
    ):
        assert abs(sample.mean() - expected) < 4 * sample.std() / math.sqrt(len(sample))


@pytest.mark.parametrize("form", ["matrix", "function"])
def test_full_sigma_correlates_the_noise(form):
    matrix = np.array([[1.0, 0.0, 0.5], [0.3, 2.0, 0.0]])
    sigma = matrix if form == "matrix" else lambda t, x, lagged, args: matrix
    noise = np.random.default_rng(4).normal(size=(50, 3))
    path = solve_sdde(
        lambda t, x, lagged, args: 0 * x,
        dt=0.1,
        n_steps=50,
        history=jnp.zeros(2),
        sigma=sigma,
        increments=noise,
    )
    expected = np.cumsum(noise @ matrix.T, axis=0)
    np.testing.assert_allclose(np.asarray(path.ys)[1:], expected, atol=1e-12)


def loop(drift, lags, dt, n, history, sigma, increments):
    """A plain Euler–Maruyama loop, lags on the grid, `history` [time dim]."""
    states, first = [np.asarray(row) for row in history], len(history) - 1
    for k in range(n):
        x = states[first + k]
        lagged = np.stack([states[first + k - round(lag / dt)] for lag in lags])
        rate = np.asarray(drift(k * dt, x, lagged, None))
        states.append(x + dt * rate + sigma * np.asarray(increments[k]))
    return np.stack(states[first:])


def two_lags(t, x, lagged, args):
    return np.array([[0.0, 1.0], [-1.0, -0.2]]) @ x - 0.4 * lagged[0] + 0.1 * lagged[1] * t


@pytest.mark.parametrize("lags", [(0.3, 0.7), (0.1, 2.0)])
@pytest.mark.parametrize("solver", ["ring", "blocks"])
def test_against_a_plain_loop(lags, solver):
    """Both drivers, array history, several lags, lengths that are no multiple of anything."""
    n, dt = 1237, 0.1
    rng = np.random.default_rng(0)
    history, noise = rng.normal(size=(21, 2)), rng.normal(size=(n, 2))
    # The derivative runs the blocks, so its primal shows their result.

    def solve(scale):
        return solve_sdde(
            lambda t, x, lagged, args: jnp.asarray(two_lags(t, x, lagged, args)),
            lags=lags,
            dt=dt,
            n_steps=n,
            history=scale * jnp.asarray(history),
            sigma=0.01,
            increments=noise,
        ).ys

    one = jnp.ones(())
    ys = solve(one) if solver == "ring" else jax.jvp(solve, (one,), (one,))[0]
    expected = loop(two_lags, lags, dt, n, history, 0.01, noise)
    np.testing.assert_allclose(ys, expected, rtol=1e-9, atol=1e-9)


def test_noise_belongs_to_its_key():
    """Batches equal single runs bit for bit, and a longer run begins like a shorter one."""
    keys = jr.split(jr.key(5), 3)
    # The last bit depends on the compiler: here the one of users (see tests/conftest.py).
    older = jaxlib.version.__version_info__ < (0, 11, 1)
    options = {"xla_cpu_use_fusion_emitters": True} if older else {}
    compiled = partial(jax.jit, compiler_options=options)

    def single(key, n=1300):
        return solve_sdde(
            langevin, lags=1.0, dt=0.01, n_steps=n, history=jnp.zeros(2), sigma=0.1, key=key
        ).ys

    alone = compiled(single)
    singles = jnp.stack([alone(key) for key in keys])
    np.testing.assert_array_equal(compiled(jax.vmap(single))(keys), singles)
    np.testing.assert_array_equal(compiled(partial(single, n=150))(keys[0]), singles[0, :151])
    inside = solve_sdde(
        langevin,
        lags=1.0,
        dt=0.01,
        n_steps=1300,
        history=lambda t: jnp.zeros((3, 2)),
        sigma=0.1,
        key=keys,
    ).ys
    np.testing.assert_allclose(jnp.swapaxes(inside, 0, 1), singles, rtol=1e-12, atol=1e-14)
    draws = increments(keys[0], jnp.asarray(0), 1300, (2,), 0.01, float)
    assert abs(float(jnp.std(draws)) - 0.1) < 0.004
    assert len(np.unique(np.asarray(draws))) == draws.size


def twice_delayed(t, x, lagged, args):
    return -lagged[0] + 0.2 * lagged[1] * x


@pytest.mark.parametrize("save_every", [1, 7, 1024, 1500])
def test_saved_states_are_those_of_the_full_path(save_every):
    common = dict(lags=(0.3, 0.55), dt=0.01, history=jnp.ones(1), sigma=0.1, key=jr.key(6))
    full = solve_sdde(twice_delayed, n_steps=3001, **common)
    part = solve_sdde(twice_delayed, n_steps=3001, save_every=save_every, **common)
    np.testing.assert_array_equal(part.ys, np.asarray(full.ys)[::save_every])
    np.testing.assert_allclose(part.ts, np.asarray(full.ts)[::save_every])


SOLVERS = [pytest.param(diffrax.Euler(), marks=pytest.mark.slow), diffrax.Bosh3()]


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS, ids=["Euler", "Bosh3"])
def test_gradients_against_central_differences(solver):
    """Drift parameters, history, noise and delays; one lag on the grid, one off it."""
    noise = 0.1 * jr.normal(jr.key(7), (90, 1))

    def loss(values, bounds=None):
        theta, start, sigma, lags = values
        path = solve_sdde(
            lambda t, x, lagged, args: -theta * x + jnp.sin(lagged[0]) - 0.3 * lagged[1],
            lags=lags,
            dt=0.1,
            n_steps=90,
            history=lambda t: start * jnp.cos(t)[None],
            sigma=sigma,
            increments=noise,
            solver=solver,
            lag_bounds=(0.4, 1.9) if bounds is None else bounds,
        )
        return jnp.mean(path.ys**2)

    values = tuple(map(np.array, (0.7, 1.3, 0.4, [0.53, 1.687])))
    value = jax.jit(jax.value_and_grad(loss))
    gradient = jax.tree.map(np.asarray, value(values)[1])
    leaves, structure = jax.tree.flatten(values)
    step = 1e-5
    for i, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            ends = []
            for sign in (1, -1):
                moved = list(leaves)
                moved[i] = leaf.copy()
                moved[i][index] += sign * step
                ends.append(float(value(jax.tree.unflatten(structure, moved))[0]))
            found = float(jax.tree.leaves(gradient)[i][index])
            assert abs(found - (ends[0] - ends[1]) / (2 * step)) < 1e-6 * max(1, abs(found))
    # Forward mode agrees, and outside jit the sizes are inferred from the values themselves.
    forward = jax.jacfwd(loss)(values)
    for a, b in zip(jax.tree.leaves(forward), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_numbers_of_a_list_may_be_traced(transform):
    """Delays, noise and history as a tuple of traced numbers equal those of one traced array."""
    noise = 0.1 * jr.normal(jr.key(7), (40, 2))

    def loss(values, together):
        return jnp.mean(
            solve_sdde(
                lambda t, x, lagged, args: -x + jnp.sin(lagged[0] - 0.3 * lagged[1]),
                delays=together(values[:2]),
                dt=0.1,
                n_steps=40,
                history=together(values[1:3]),
                sigma=together(values[2:]),
                increments=noise,
                delay_bounds=(0.4, 1.9),
            ).ys
            ** 2
        )

    values = jnp.array([0.53, 1.687, 0.4, 0.8])
    apart, as_one = (
        transform(jax.grad(lambda values, together=together: loss(values, together)))(values)
        for together in (tuple, jnp.asarray)
    )
    np.testing.assert_allclose(apart, as_one, rtol=1e-12)
    assert np.all(np.abs(as_one) > 1e-6)
