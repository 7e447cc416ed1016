"""Jumps and kinks: every solver keeps its order, and derivatives move with them."""

import itertools
import math

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import ndde_jax as ndde
from ndde_jax import solve_sdde

ORDERS = [
    pytest.param(diffrax.Euler(), 1, id="Euler", marks=pytest.mark.slow),
    pytest.param(diffrax.Heun(), 2, id="Heun", marks=pytest.mark.slow),
    pytest.param(diffrax.Bosh3(), 3, id="Bosh3", marks=pytest.mark.slow),
    pytest.param(diffrax.Tsit5(), 5, id="Tsit5"),
]


def by_method_of_steps(rate, delays, history, y0, t1, stops=()):
    """SciPy's DOP853 from one sum of delays to the next."""
    sums = {0.0, t1, *stops}
    for _ in range(6):
        sums |= {s + d for s in sums for d in delays if s + d < t1}
    ends = sorted(sums)
    pieces = []

    def past(t, side):
        if t < 0 or (t <= 1e-12 and side < 0):
            return history(t)
        for start, end, sol in pieces:
            if t < end - 1e-12 or (t <= end + 1e-12 and side < 0):
                return sol(max(t, start))
        return pieces[-1][2](t)

    y = np.asarray(y0, float)
    for start, end in itertools.pairwise(ends):
        if end - start < 1e-12:
            continue
        middle = 0.5 * (start + end)

        def f(t, x, middle=middle):
            side = 1 if t < middle else -1
            t_in = t + side * 1e-13
            return rate(t_in, x, [past(t - d, side) for d in delays])

        found = scipy.integrate.solve_ivp(
            f, (start, end), y, method="DOP853", rtol=1e-12, atol=1e-13, dense_output=True
        )
        pieces.append((start, end, found.sol))
        y = found.y[:, -1]
    return np.array([past(t, -1)[0] for t in TIMES])


def pulse(t, x, lagged, args):
    """Nonlinear, with two delays and a forcing that is switched on."""
    on = jnp.where(t >= 1.37, 1.0, 0.0)
    return -x + 1.5 * jnp.tanh(lagged[0]) - 0.4 * lagged[1] * x + on


def undisturbed(t, x, lagged, args):
    """Return the drift without the forcing; one function, so that cases share a program."""
    return pulse(0.0 * t, x, lagged, args)


DELAYS, END, TIMES = (0.71, 1.0), 3.0, (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
CASES = {"history": (1.0, False), "jump at the start": (0.2, False), "forcing": (1.0, True)}


@pytest.fixture(scope="module")
def references():
    def rate(t, x, lagged, forced):
        on = float(forced and t >= 1.37)
        return -x + 1.5 * np.tanh(lagged[0]) - 0.4 * lagged[1] * x + on

    return {
        name: by_method_of_steps(
            lambda t, x, lagged, forced=forced: rate(t, x, lagged, forced),
            DELAYS,
            lambda t: np.ones(1),
            [y0],
            END,
            (1.37,) if forced else (),
        )
        for name, (y0, forced) in CASES.items()
    }


@pytest.mark.parametrize("solver, order", ORDERS)
@pytest.mark.parametrize("case", CASES)
def test_solvers_keep_their_order(case, solver, order, references):
    """Where dt divides neither the delays nor the time of the switch."""
    y0, forced = CASES[case]
    errors = []
    for n in (12, 24):
        path = solve_sdde(
            pulse if forced else undisturbed,
            delays=DELAYS,
            dt=END / n,
            n_steps=n,
            history=jnp.ones(1),
            y0=jnp.full(1, y0),
            jumps=(1.37,) if forced else None,
            solver=solver,
        )
        errors.append(np.max(np.abs(path.ys[n // 6 :: n // 6, 0] - references[case])))
    rate = math.log2(errors[0] / errors[1])
    assert order - 0.5 < rate < order + 1.7 or errors[1] < 1e-10, (rate, errors)
    assert errors[1] < 10 * (END / 24) ** order


def decaying(t, x, lagged, args):
    return -lagged[0]


def closed_form(tau, t=3.3):
    """x' = −x(t − τ) from x(0) = 1 with the history 0."""
    return sum((-1) ** k * max(t - k * tau, 0) ** k / math.factorial(k) for k in range(7))


def end_of(tau, bounds=None, solver=diffrax.Tsit5()):  # noqa: B008
    return solve_sdde(
        decaying,
        delays=tau,
        dt=0.1,
        n_steps=33,
        history=jnp.zeros(1),
        y0=jnp.ones(1),
        solver=solver,
        delay_bounds=bounds,
    ).ys[-1, 0]


slope_within_bounds = jax.jit(jax.grad(lambda tau: end_of(tau, (0.5, 2.0))))


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1.0, 0.93])
def test_the_derivative_by_a_delay_moves_the_jump(tau):
    """On the grid and off it, eager and compiled."""
    np.testing.assert_allclose(end_of(tau), closed_form(tau), atol=1e-12)
    right = (closed_form(tau + 1e-6) - closed_form(tau - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(end_of)(tau), right, rtol=1e-7)
    np.testing.assert_allclose(slope_within_bounds(tau), right, rtol=1e-7)
    if tau == 1.0:
        # For Euler's method, the order relative to its own solution, from one side or the other.
        euler = jax.grad(lambda tau: end_of(tau, solver=diffrax.Euler()))(tau)
        np.testing.assert_allclose(euler, right, rtol=0.2)


def test_single_precision_reads_the_right_side_of_a_jump_at_the_start():
    """Twenty delays off the grid: a step that ends where the jump is read ends before it."""
    for tau in np.random.default_rng(0).uniform(0.6, 1.2, 20).round(4):
        found = solve_sdde(
            decaying,
            delays=float(tau),
            dt=0.1,
            n_steps=33,
            history=jnp.zeros(1, jnp.float32),
            y0=jnp.ones(1, jnp.float32),
            solver=diffrax.Tsit5(),
            delay_bounds=(0.6, 1.2),
        ).ys[-1, 0]
        np.testing.assert_allclose(found, closed_form(tau), atol=1e-5)


@pytest.mark.slow
def test_the_derivative_by_the_time_of_a_jump():
    def end(at):
        return solve_sdde(
            lambda t, x, lagged, args: -x + jnp.where(t >= args, 1.0, 0.0),
            dt=0.1,
            n_steps=30,
            history=jnp.zeros(1),
            args=at,
            jumps=at,
            solver=diffrax.Tsit5(),
        ).ys[-1, 0]

    at = jnp.asarray(0.777)
    np.testing.assert_allclose(end(at), 1 - np.exp(-(3 - 0.777)), rtol=1e-7)
    np.testing.assert_allclose(jax.grad(end)(at), -np.exp(-(3 - 0.777)), rtol=1e-6)


@pytest.mark.slow
def test_a_long_run_goes_on_with_equal_steps():
    """The part after the last kink, with and without noise, saved rarely or not, with a bar."""
    given = dict(
        delays=0.53,
        dt=0.1,
        n_steps=3000,
        history=jnp.ones(1),
        y0=jnp.zeros(1),
        solver=diffrax.Heun(),
    )
    full = solve_sdde(decaying, **given)
    rare = solve_sdde(decaying, save_every=7, **given)
    shown = solve_sdde(decaying, progress=True, save_every=7, **given)
    np.testing.assert_allclose(rare.ys, full.ys[::7], atol=1e-13)
    np.testing.assert_allclose(shown.ys, rare.ys, atol=1e-13)
    assert full.ys.shape == (3001, 1) and full.ys[0] == 0
    # The start decays at the slowest root of λ = −e^(−.53 λ).
    assert float(jnp.max(jnp.abs(full.ys[-100:]))) < 1e-8
    noise = 0.1 * np.random.default_rng(0).normal(size=(3000, 1))
    apart = solve_sdde(decaying, sigma=0.2, increments=noise, **given)
    given.pop("y0")
    equal = solve_sdde(decaying, sigma=0.2, increments=noise, **given)
    np.testing.assert_allclose(apart.ys[-100:], equal.ys[-100:], atol=1e-8)


def test_kinks():
    found = ndde.simulate.kinks((1.0, 1.5), 0.0, 3.2, order=2)
    np.testing.assert_allclose(found, [1, 1.5, 2, 2.5, 3])
    found = ndde.simulate.kinks(1.0, 0.0, 3.2, order=1, jumps=0.3)
    np.testing.assert_allclose(found, [0.3, 1.0, 1.3])
    with pytest.raises(ValueError, match="kinks needs to see the numbers"):
        jax.jit(lambda delay: ndde.simulate.kinks(delay, 0.0, 3.2))(1.0)
