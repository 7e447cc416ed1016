"""Itô and Stratonovich, and the strong and weak orders of every solver with noise."""

import math

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ndde_jax import lyapunov_spectrum, solve_sdde
from ndde_jax.simulate import PathStatus

PATHS, FINE = 20_000, 128
MU, VOL = 0.4, 0.6


def slope(errors):
    """The order of errors under step halving."""
    return -np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0]


def brownian(seed=0, fine=FINE, paths=PATHS):
    """W and H of `fine` steps over one unit of time, `[time 2 path 1]`."""
    rng = np.random.default_rng(seed)
    w, h = rng.normal(size=(2, fine, paths, 1)) / math.sqrt(fine)
    return np.stack([w, h / math.sqrt(12)], axis=1)


def coarser(noise):
    """The same over steps twice as long: ∫ W over a step h is h (H + W/2)."""
    w, h = (
        noise[:, 0].reshape(-1, 2, *noise.shape[2:]),
        noise[:, 1].reshape(-1, 2, *noise.shape[2:]),
    )
    total = w[:, 0] + w[:, 1]
    integral = (h[:, 0] + w[:, 0] / 2 + w[:, 0] + h[:, 1] + w[:, 1] / 2) / 2
    return np.stack([total, integral - total / 2], axis=1)


def test_steps_are_put_together_as_brownian_motion_does():
    noise = coarser(coarser(brownian(paths=4000)))
    steps = len(noise)
    np.testing.assert_allclose(np.mean(noise[:, 0] ** 2) * steps, 1, rtol=0.01)
    np.testing.assert_allclose(np.mean(noise[:, 1] ** 2) * steps, 1 / 12, rtol=0.01)
    assert abs(np.mean(noise[:, 0] * noise[:, 1])) * steps < 0.002


def levels(noise, coarsest=16):
    """Noise of a few steps, coarse ones first."""
    found = [noise]
    while len(found[-1]) > coarsest:
        found.append(coarser(found[-1]))
    return found[::-1]


def ends(drift, noise, solver, *, start=1.0, both=False, **given):
    """States at time 1."""
    return np.asarray(
        solve_sdde(
            drift,
            dt=1 / len(noise),
            n_steps=len(noise),
            history=lambda t: jnp.full((noise.shape[2], 1), start),
            increments=noise if both else noise[:, 0],
            diagonal=True,
            solver=solver,
            **given,
        ).ys[-1, :, 0]
    )


def geometric(t, x, lagged, args):
    return MU * x


def proportional(t, x, lagged, args):
    return VOL * x


# Solver, its limit, and its strong order for diagonal noise.
MULTIPLICATIVE = [
    (diffrax.Euler(), "Itô", 0.5),
    (diffrax.ItoMilstein(), "Itô", 1.0),
    (diffrax.EulerHeun(), "Stratonovich", 1.0),
    (diffrax.StratonovichMilstein(), "Stratonovich", 1.0),
]


def solvers(*slow):
    """Solvers with their orders, some of which are in the slow suite."""
    named = {type(row[0]).__name__: row for row in MULTIPLICATIVE}
    params = [
        pytest.param(*row, id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name, row in named.items()
    ]
    return pytest.mark.parametrize("solver, calculus, order", params)


@solvers("StratonovichMilstein")
def test_orders_on_geometric_brownian_motion(solver, calculus, order):
    """Compared with exp((μ − σ²/2) t + σ W), without the correction in the Stratonovich sense."""
    noise = brownian()
    log = (MU - (VOL**2 / 2 if calculus == "Itô" else 0)) + VOL * noise[:, 0].sum(axis=0)[:, 0]
    exact, strong, weak = np.exp(log), [], []
    for steps in levels(noise)[:4]:
        found = ends(geometric, steps, solver, sigma=proportional)
        strong.append(np.mean(np.abs(found - exact)))
        weak.append(abs(np.mean(found - exact)))
    assert abs(slope(strong) - order) < 0.15, strong
    # Errors of the mean, on the same noise as the exact solution.
    assert 0.8 < slope(weak) < 1.3, weak
    assert weak[-1] < 0.01


@pytest.mark.slow
@solvers("Euler", "ItoMilstein", "StratonovichMilstein")
def test_orders_with_a_delayed_drift(solver, calculus, order):
    """Diffusion of the present, against Milstein's method on a far finer grid.

    In the Stratonovich sense the reference has an additional drift of ½ g g′.
    """

    def drift(t, x, lagged, args):
        return jnp.sin(lagged[0]) - x + args

    def diffusion(t, x, lagged, args):
        return 1.2 * jnp.cos(x) * jnp.exp(-t)

    def corrected(t, x, lagged, args):
        more = -0.36 * jnp.sin(2 * x) * jnp.exp(-2 * t)
        return drift(t, x, lagged, args) + (more if calculus == "Stratonovich" else 0)

    given = dict(delays=0.5, sigma=diffusion, args=0.3, start=0.4)
    noise = brownian(1, fine=4096, paths=300)
    exact = ends(corrected, noise, diffrax.ItoMilstein(), **given)
    strong = [
        np.mean(np.abs(ends(drift, steps, solver, **given) - exact))
        for steps in levels(noise, 16)[:4]
    ]
    assert abs(slope(strong) - order) < 0.2, strong


ADDITIVE = [
    (diffrax.Euler(), 1.0, 1.0),
    (diffrax.Heun(), 1.0, 2.0),
    (diffrax.SRA1(), 1.5, 2.0),
    (diffrax.ShARK(), 1.5, 2.0),
]


@pytest.mark.parametrize(
    "solver, order, weakly",
    [
        pytest.param(*row, id=name, marks=[] if name == "SRA1" else pytest.mark.slow)
        for row in ADDITIVE
        for name in [type(row[0]).__name__]
    ],
)
def test_orders_with_additive_noise(solver, order, weakly):
    """A nonlinear drift with two delays on the grid, against SRA1 on a far finer one."""

    def drift(t, x, lagged, args):
        return jnp.sin(2 * lagged[0]) - x**3 + lagged[1] * jnp.cos(3 * t)

    given = dict(delays=(0.25, 0.5), sigma=0.8, start=0.3)
    noise = brownian(2, fine=1024, paths=1500)
    exact = ends(drift, noise, diffrax.SRA1(), both=True, **given)
    strong, weak = [], []
    for steps in levels(noise, 16)[:4]:
        found = ends(drift, steps, solver, both=order == 1.5, **given)
        strong.append(np.mean(np.abs(found - exact)))
        weak.append(abs(np.mean(found - exact)))
    assert abs(slope(strong) - order) < 0.2, strong
    assert slope(weak) > weakly - 0.5, weak


@pytest.mark.parametrize("solver", [diffrax.SRA1(), diffrax.ShARK()])
def test_a_linear_delay_equation_is_exact(solver):
    """dX = b X(t − 1) dt + σ dW by the method of steps: X(2) contains ∫ W, given by W and H."""
    b, sigma = -0.7, 0.4
    first, second = brownian(3, 16, 50), brownian(4, 16, 50)
    noise = np.concatenate([first, second])
    path = solve_sdde(
        lambda t, x, lagged, args: b * lagged[0],
        delays=1.0,
        dt=1 / 16,
        n_steps=32,
        history=lambda t: jnp.ones((50, 1)),
        sigma=sigma,
        increments=noise,
        solver=solver,
    )
    w = np.concatenate([np.zeros((1, 50, 1)), np.cumsum(first[:, 0], axis=0)])
    integral = np.sum(w[:-1] + first[:, 0] / 2 + first[:, 1], axis=0) / 16
    exact = 1 + b + sigma * w[-1] + b * (1 + b / 2 + sigma * integral)
    exact = exact + sigma * second[:, 0].sum(axis=0)
    np.testing.assert_allclose(path.ys[-1], exact, atol=1e-12)


def test_the_increments_of_a_key_are_the_same_for_all_solvers():
    """Solvers of order 1.5 use more of the noise."""

    def solve(drift, solver):
        return solve_sdde(
            drift,
            dt=0.5,
            n_steps=4000,
            history=jnp.zeros(1),
            sigma=1.0,
            key=jr.key(5),
            solver=solver,
        ).ys[:, 0]

    still = lambda t, x, lagged, args: 0 * x  # noqa: E731
    w = solve(still, diffrax.Euler())
    np.testing.assert_allclose(solve(still, diffrax.SRA1()), w, atol=1e-12)
    # A drift of the state uses H.
    grows = lambda t, x, lagged, args: jnp.sin(x)  # noqa: E731
    found, plain = solve(grows, diffrax.SRA1()), solve(grows, diffrax.Heun())
    assert not np.allclose(found[:50], plain[:50])


@pytest.mark.parametrize(
    "solver", [diffrax.SRA1(), pytest.param(diffrax.ItoMilstein(), marks=pytest.mark.slow)]
)
def test_derivatives(solver):
    """Derivatives with respect to coefficients of drift and diffusion, against differences."""

    def end(values, solver, dtype=jnp.float64):
        rate, vol = values
        additive = isinstance(solver, diffrax.SRA1)
        return solve_sdde(
            lambda t, x, lagged, args: -args[0] * lagged[0],
            delays=0.2,
            dt=0.1,
            n_steps=30,
            history=jnp.ones(2, dtype),
            sigma=vol if additive else lambda t, x, lagged, args: args[1] * jnp.sin(x),
            args=(rate, vol),
            key=jr.key(0),
            solver=solver,
        ).ys[-1, 0]

    values = (jnp.asarray(0.4), jnp.asarray(0.3))
    both = jax.jit(jax.value_and_grad(lambda v: end(v, solver)))
    found = both(values)[1]
    for i in range(2):
        moved = [list(values), list(values)]
        moved[0][i], moved[1][i] = values[i] + 1e-6, values[i] - 1e-6
        right = (both(tuple(moved[0]))[0] - both(tuple(moved[1]))[0]) / 2e-6
        np.testing.assert_allclose(found[i], right, rtol=1e-6)
    small = tuple(v.astype(jnp.float32) for v in values)
    assert end(small, solver, jnp.float32).dtype == jnp.float32


def refused(match, *, drift=geometric, **given):
    given = dict(dt=0.1, n_steps=5, history=jnp.ones(2), key=jr.key(0), delays=0.2) | given
    with pytest.raises(ValueError, match=match):
        solve_sdde(drift, **given)


@pytest.mark.parametrize(
    "solver",
    [diffrax.ItoMilstein(), pytest.param(diffrax.StratonovichMilstein(), marks=pytest.mark.slow)],
)
def test_what_milstein_leaves_out_is_refused(solver):
    refused("reads lagged", sigma=lambda t, x, lagged, args: lagged[0], solver=solver)
    refused("diagonal noise", sigma=lambda t, x, lagged, args: jnp.ones((2, 2)), solver=solver)

    def path(sigma):
        given = dict(dt=0.1, n_steps=5, history=jnp.ones(2), key=jr.key(0), delays=0.2)
        return solve_sdde(geometric, sigma=sigma, solver=solver, **given)

    crossed = path(lambda t, x, lagged, args: 0.1 * x[::-1])
    assert crossed.status == PathStatus.crossed
    assert path(lambda t, x, lagged, args: 0.1 * x).status == PathStatus.successful
    assert path(0.1).status == PathStatus.successful


def test_what_order_one_and_a_half_cannot_do_is_refused():
    given = dict(sigma=0.1, solver=diffrax.SRA1())
    refused("known delays that are whole multiples of dt", delays=0.25, **given)
    refused("known delays that are whole multiples of dt", delay_bounds=(0.1, 0.4), **given)
    refused("cannot handle jumps", jumps=0.25, **given)
    refused("depends on the state", **given | dict(sigma=proportional))
    refused("W and H of each step", **given, increments=np.zeros((5, 2)), key=None)

    def end(delay):
        start = dict(dt=0.1, n_steps=5, history=jnp.ones(2), key=jr.key(0))
        return solve_sdde(geometric, delays=delay, **start, **given).ys[-1, 0]

    with pytest.raises(ValueError, match="no derivative"):
        jax.grad(end)(0.2)
    with pytest.raises(ValueError, match="solver must be"):
        lyapunov_spectrum(
            geometric, dt=0.1, n_steps=500, history=jnp.ones(1), solver=diffrax.SRA1()
        )
