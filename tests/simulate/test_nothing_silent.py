"""Every limit of the simulator is reported: in a status, in NaN, or in an error."""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import solve_sdde
from ndde_jax.simulate import PathStatus


def logistic(t, x, lagged, args):
    return x * (1 - lagged[0])


def end(tau, bounds=None, n_steps=100, solver=None):
    return solve_sdde(
        logistic,
        delays=tau,
        dt=0.1,
        n_steps=n_steps,
        history=jnp.full(1, 2.0),
        delay_bounds=bounds,
        solver=solver,
    ).ys[-1, 0]


@pytest.mark.parametrize("tau", [0.3, pytest.param(2.5, marks=pytest.mark.slow)])
def test_a_delay_outside_its_bounds(tau):
    with pytest.raises(ValueError, match="delays must lie within delay_bounds"):
        end(tau, (0.5, 1.5))
    with pytest.raises(ValueError, match="delays must lie within delay_bounds"):
        jax.grad(lambda tau: end(tau, (0.5, 1.5)))(tau)

    def path(tau):
        return solve_sdde(
            logistic,
            delays=tau,
            dt=0.1,
            n_steps=20,
            history=jnp.full(1, 2.0),
            delay_bounds=(0.5, 1.5),
        )

    both = jax.jit(jax.vmap(path))(jnp.array([tau, 1.0]))
    assert bool(jnp.all(jnp.isnan(both.ys[0]))) and bool(jnp.all(jnp.isfinite(both.ys[1])))
    assert jax.jit(path)(tau).status == PathStatus.outside
    slope = jax.jit(jax.grad(lambda tau: jnp.sum(path(tau).ys ** 2)))
    assert jnp.isnan(slope(tau)) and jnp.isfinite(slope(1.0))

    def masked(taus):
        paths = jax.vmap(path)(taus)
        kept = jax.vmap(lambda s: s == PathStatus.successful)(paths.status)
        return jnp.sum(jnp.where(kept[:, None, None], paths.ys, 0.0) ** 2)

    gradient = jax.jit(jax.grad(masked))(jnp.array([tau, 1.0]))
    np.testing.assert_allclose(gradient, [0, slope(1.0)])


@pytest.mark.parametrize("tau", [0.1, pytest.param(0.8, marks=pytest.mark.slow), 1.2])
@pytest.mark.parametrize("bounds", [None, (0.1, 2.0)])
def test_the_derivative_by_a_delay_on_the_grid(tau, bounds):
    """The difference of both sides, for short and long delays, whose derivatives differ."""
    right = (float(end(tau + 1e-6)) - float(end(tau - 1e-6 if tau > 0.1 else tau))) / (
        2e-6 if tau > 0.1 else 1e-6
    )
    found = float(jax.grad(lambda tau: end(tau, bounds))(tau))
    if tau > 0.1:
        np.testing.assert_allclose(found, right, rtol=1e-4)
    else:  # A shorter one is below the step.
        np.testing.assert_allclose(found, right, rtol=0.2)


def test_dt_is_a_number_or_has_a_derivative():
    delayed = lambda dt: solve_sdde(  # noqa: E731
        logistic, delays=1.0, dt=dt, n_steps=5, history=jnp.full(1, 2.0)
    ).ys[-1, 0]
    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        with pytest.raises(ValueError, match="dt is traced"):
            transform(delayed)(0.1)
    free = lambda dt: solve_sdde(  # noqa: E731
        lambda t, x, lagged, args: -x, dt=dt, n_steps=5, history=jnp.ones(1)
    ).ys[-1, 0]
    for transform in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        np.testing.assert_allclose(transform(free)(0.1), -5 * 0.9**4, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [diffrax.Euler(), diffrax.Heun(), diffrax.Tsit5()])
def test_steps_too_long_for_a_stiff_drift(solver):
    def status(rate, dt=0.1):
        given = dict(delays=1.0, dt=dt, n_steps=60, history=jnp.ones(1), args=rate)
        stiff = lambda t, x, lagged, args: args * x + 0.1 * lagged[0]  # noqa: E731
        return solve_sdde(stiff, solver=solver, **given).status

    assert status(-60.0) == PathStatus.unstable
    assert status(-60.0, dt=0.01) == PathStatus.successful
    # A state that grows on its own does.
    assert status(4.0) == PathStatus.successful


@functools.cache
def slope_of_what_stays(solver, delayed):
    """The gradient of a loss of the paths that do not diverge, one program for any delay."""

    def loss(values, starts):
        rate, delay = values

        @jax.jit  # which hides from a path that it is in a batch
        def path(start):
            past = dict(delays=delay, delay_bounds=(0.2, 2.5)) if delayed else {}
            return solve_sdde(
                lambda t, x, lagged, args: (
                    args * x**2 - x + (0.1 * lagged[0] if len(lagged) else 0)
                ),
                dt=0.1,
                n_steps=60,
                history=start,
                args=rate,
                solver=solver,
                **past,
            )

        paths = jax.vmap(path)(starts)
        kept = jax.vmap(lambda status: status == PathStatus.successful)(paths.status)
        return jnp.sum(jnp.where(kept[:, None, None], paths.ys, 0.0) ** 2)

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


@pytest.mark.parametrize("delay", [0.3, 2.0, None])
@pytest.mark.parametrize(
    "solver", [diffrax.Euler(), pytest.param(diffrax.Tsit5(), marks=pytest.mark.slow)]
)
def test_a_path_that_diverges_leaves_the_gradients_of_its_neighbours_alone(delay, solver):
    slope = slope_of_what_stays(solver, delay is not None)
    values = (jnp.asarray(1.0), None if delay is None else jnp.asarray(delay))
    # Beside one that diverges, and beside an identical one, which doubles the gradients of shared
    # values.
    both, twice = slope(values, jnp.array([[0.5], [3.0]])), slope(values, jnp.full((2, 1), 0.5))
    for found, right in zip(jax.tree.leaves(both[0]), jax.tree.leaves(twice[0]), strict=True):
        assert jnp.isfinite(right)
        np.testing.assert_allclose(found, right / 2, rtol=1e-9)
    np.testing.assert_allclose(both[1][0], twice[1][0], rtol=1e-9)
    np.testing.assert_array_equal(both[1][1], 0)


def test_single_precision_names_what_it_cannot_say():
    def solve(**given):
        return solve_sdde(
            lambda t, x, lagged, args: jnp.cos(t)[None] + 0 * lagged[0],
            dt=0.001,
            n_steps=4,
            delays=0.002,
            history=jnp.zeros((4, 1), jnp.float32),
            **given,
        )

    with pytest.raises(ValueError, match="count time from the start"):
        solve(t0=1e5)
    assert len(np.unique(solve(t0=10.0).ts)) == 5


def test_exponents_that_single_precision_cannot_tell():
    """A direction that shrinks by e⁻²⁰ from one orthogonalisation to the next."""

    def spectrum(dtype):
        rates = jnp.array([-1.0, -100.0], dtype)
        return ndde.lyapunov_spectrum(
            lambda t, x, lagged, args: rates * x,
            dt=0.02,
            n_steps=400,
            history=jnp.ones(2, dtype),
            solver=diffrax.Tsit5(),
        ).exponents

    np.testing.assert_allclose(spectrum(jnp.float64), [-1, -100], rtol=0.1)
    np.testing.assert_allclose(spectrum(jnp.float32), [-1, -np.inf], rtol=0.1)


@pytest.mark.parametrize("delays", [None, 1.0])
def test_exponents_of_steps_too_long_for_a_linear_drift(delays):
    """Tangents then grow by the stability function of the solver, whatever the path does."""
    given = dict(history=jnp.ones(1), dt=0.1, n_steps=2000, k=1, delays=delays)
    fast = lambda t, x, lagged, args: -100.0 * x  # noqa: E731
    assert bool(jnp.all(jnp.isnan(ndde.lyapunov_spectrum(fast, **given).exponents)))


def test_numbers_in_args_do_not_compile_anew():
    traces = 0

    def drift(t, x, lagged, args):
        nonlocal traces
        traces += 1
        return -args["rate"] * lagged[0] ** args["power"]

    def solve(rate, power=1):
        args = {"rate": rate, "power": power}
        return solve_sdde(drift, delays=0.5, dt=0.1, n_steps=5, history=jnp.ones(1), args=args).ys

    first = solve(0.3)
    once = traces
    assert once > 0 and not np.array_equal(solve(0.7), first) and traces == once
    # Whole numbers may be part of a program.
    solve(0.3, 2)
    assert traces > once


@pytest.mark.parametrize("name", ["drift", "sigma"])
@pytest.mark.parametrize(
    "function",
    [lambda t, x, lagged, args: np.tanh(x), lambda t, x, lagged, args: x if x[0] > 0 else -x],
    ids=["numpy", "if"],
)
def test_a_function_that_cannot_be_traced_is_told_what_to_use_instead(name, function):
    functions = {"drift": lambda t, x, lagged, args: -x, "sigma": 0.1} | {name: function}
    options = dict(delays=(0.2,), dt=0.1, n_steps=5, history=jnp.ones(1), key=jax.random.key(0))
    with pytest.raises(ValueError, match=rf"{name}\(t, x, lagged, args\).*jax\.numpy in place"):
        ndde.solve_sdde(functions["drift"], sigma=functions["sigma"], **options)
