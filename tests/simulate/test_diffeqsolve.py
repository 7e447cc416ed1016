"""`DelayTerm` and `DelaySolver` inside `diffrax.diffeqsolve`."""

import math

import diffrax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde

from .small import brownian_path


def drift(t, x, lagged, args):
    return -0.5 * x + jnp.sin(2 * lagged[0]) - 0.3 * lagged[1]


def cosine(t):
    return jnp.cos(t)[None]


LAGS = jnp.array([0.5, 1.2])


HEUN = pytest.param(diffrax.Heun(), marks=pytest.mark.slow)


@pytest.mark.parametrize("solver", [diffrax.Euler(), HEUN, diffrax.Tsit5()])
def test_constant_steps_equal_solve_sdde(solver):
    """Two independent solutions of the same equation; with noise where Diffrax allows it."""
    n, dt = 60, 0.1
    terms, sigma = ndde.simulate.DelayTerm(drift, LAGS, cosine), 0.0
    if not isinstance(solver, diffrax.Tsit5):
        sigma = 0.2
        noise = brownian_path(jr.key(0), n, dt, (1,))
        terms = diffrax.MultiTerm(
            terms, diffrax.ControlTerm(lambda t, y, args: sigma * jnp.eye(1), noise)
        )
    found = diffrax.diffeqsolve(
        terms,
        ndde.simulate.DelaySolver(solver, capacity=20),
        0.0,
        n * dt,
        None,
        jnp.ones(1),
        saveat=diffrax.SaveAt(t0=True, steps=True),
        stepsize_controller=diffrax.StepTo(ts=dt * np.arange(n + 1)),
        max_steps=n,
        adjoint=diffrax.ForwardMode(),
    )
    path = ndde.solve_sdde(
        drift,
        lags=LAGS,
        dt=dt,
        n_steps=n,
        history=cosine,
        sigma=sigma,
        key=jr.key(0),
        solver=solver,
    )
    # The history is read exactly here, and by a fit of the dense output there.
    tolerance = 1e-12 if isinstance(solver, diffrax.Euler) else 1e-4 * dt
    np.testing.assert_allclose(found.ys[: n + 1], path.ys, atol=tolerance)


def delayed(t, x, lagged, args):
    return -lagged[0]


def ones(t):
    return jnp.ones(1)


def adaptive(solver=diffrax.Tsit5(), rtol=1e-7, dtmax=np.inf, **kwargs):  # noqa: B008
    return diffrax.diffeqsolve(
        ndde.simulate.DelayTerm(delayed, math.pi / 2, cosine),
        ndde.simulate.DelaySolver(solver, capacity=400),
        0.0,
        12.0,
        0.1,
        jnp.ones(1),
        stepsize_controller=diffrax.PIDController(
            rtol=rtol, atol=rtol / 100, dtmax=jnp.asarray(dtmax)
        ),
        adjoint=diffrax.ForwardMode(),
        **kwargs,
    )


@pytest.mark.parametrize("dtmax", [jnp.inf, 1.0])
def test_adaptive_steps(dtmax):
    """x' = −x(t − π/2) is solved by cos t; steps longer than the delay are rejected."""
    found = adaptive(dtmax=dtmax, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 12, 25)))
    np.testing.assert_allclose(found.ys[:, 0], jnp.cos(found.ts), atol=1e-6)
    assert int(found.stats["num_accepted_steps"]) < 200


@pytest.mark.slow
@pytest.mark.parametrize("y0", [1.0, 0.0], ids=["continuous", "jump"])
def test_adaptive_steps_meet_their_tolerance_where_they_end_at_kinks(y0):
    """x' = −x(t − 1) with history 1, in closed form; x(0) = 0 is a jump at the start."""

    def exact(t):
        terms = range(math.floor(t) + 1)
        own = sum((-1) ** k * (t - k) ** k / math.factorial(k) for k in terms)
        past = sum((-1) ** k * (t - k + 1) ** k / math.factorial(k) for k in range(len(terms) + 1))
        return past + (y0 - 1) * own

    controller = diffrax.ClipStepSizeController(
        diffrax.PIDController(rtol=1e-4, atol=1e-6, dtmax=1.0),
        jump_ts=ndde.simulate.kinks(1.0, 0.0, 5.5),
    )
    found = diffrax.diffeqsolve(
        ndde.simulate.DelayTerm(delayed, 1.0, jnp.ones(1)),
        ndde.simulate.DelaySolver(diffrax.Tsit5(), capacity=64),
        0.0,
        5.5,
        0.1,
        jnp.full(1, y0),
        stepsize_controller=controller,
    )
    np.testing.assert_allclose(found.ys[-1, 0], exact(5.5), atol=2e-4)


@pytest.mark.slow
def test_implicit_solvers_of_stiff_equations():
    """cos t, which attracts a thousand times faster than it moves; explicit steps would be .003."""
    rate = lambda t, x, lagged, args: (  # noqa: E731
        -1000 * (x - jnp.cos(t)) + lagged[0] - jnp.cos(t - 1) - jnp.sin(t)
    )
    found = diffrax.diffeqsolve(
        ndde.simulate.DelayTerm(rate, 1.0, cosine),
        ndde.simulate.DelaySolver(diffrax.Kvaerno5(), capacity=128),
        0.0,
        5.0,
        0.1,
        jnp.ones(1),
        stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8, dtmax=1.0),
    )
    np.testing.assert_allclose(found.ys[-1, 0], math.cos(5), atol=1e-5)
    assert int(found.stats["num_steps"]) < 200


# DDETST B1 and D1 (Enright and Hayashi, 1997): x = log t, and its derivative. Both delays vanish at
# t = 1, that of D1 depends on the state.
VANISHING = {
    "B1": (
        lambda t, x, lagged, args: 1 - lagged[0],
        lambda t, x, args: t - jnp.exp(1 - 1 / t),
        lambda t: jnp.log(t)[None],
    ),
    "D1": (
        lambda t, x, lagged, args: jnp.stack([x[1], -lagged[0, 1] * x[1] ** 2 * jnp.exp(1 - x[1])]),
        lambda t, x, args: t - jnp.exp(1 - x[1])[None],
        lambda t: jnp.stack([jnp.log(t), 1 / t]),
    ),
}


def vanishing(name, solver, controller, dt0, **given):
    drift, delays, history = VANISHING[name]
    return diffrax.diffeqsolve(
        ndde.simulate.DelayTerm(drift, delays, history),
        ndde.simulate.DelaySolver(solver, capacity=512),
        0.1,
        5.0,
        dt0,
        history(jnp.asarray(0.1)),
        stepsize_controller=controller,
        **given,
    )


@pytest.mark.parametrize("name", [pytest.param("B1", marks=pytest.mark.slow), "D1"])
def test_delays_that_depend_on_time_and_state(name):
    controller = diffrax.PIDController(rtol=1e-8, atol=1e-10)
    found = vanishing(name, diffrax.Tsit5(), controller, 1e-3)
    np.testing.assert_allclose(found.ys[-1, 0], math.log(5), atol=1e-7)
    assert int(found.stats["num_steps"]) < 100


@pytest.mark.slow
@pytest.mark.parametrize("solver, order", [(diffrax.Bosh3(), 3), (diffrax.Tsit5(), 5)])
@pytest.mark.parametrize("name", VANISHING)
def test_orders_where_delays_vanish(name, solver, order):
    def error(n):
        found = vanishing(name, solver, diffrax.ConstantStepSize(), 4.9 / n)
        return abs(float(found.ys[-1, 0]) - math.log(5))

    assert order - 0.5 < math.log2(error(200) / error(400)) < order + 1.5


@pytest.mark.slow
def test_the_derivative_by_a_delay_that_depends_on_the_state():
    """x′ = −x(t − a (1 + x²)) differentiated with respect to a, against differences."""

    def end(a):
        return diffrax.diffeqsolve(
            ndde.simulate.DelayTerm(
                lambda t, x, lagged, args: -lagged[0], lambda t, x, args: a * (1 + x**2), cosine
            ),
            ndde.simulate.DelaySolver(diffrax.Heun(), capacity=64),
            0.0,
            1.5,
            0.05,
            jnp.ones(1),
        ).ys[-1, 0]

    found = jax.jit(jax.grad(lambda a: end(a)))(0.3)
    np.testing.assert_allclose(found, (end(0.3 + 1e-6) - end(0.3 - 1e-6)) / 2e-6, rtol=1e-6)


def test_what_delays_cannot_be():
    with pytest.raises(ValueError, match=r"pass the function to ndde.simulate.DelayTerm"):
        ndde.solve_sdde(drift, delays=lambda t, x, args: t, dt=0.1, n_steps=3, history=jnp.ones(1))
    with pytest.raises(ValueError, match="neutral equations"):
        ndde.simulate.DelayTerm(lambda t, x, lagged, rates, args: -rates[0], 1.0, jnp.ones(1))
    # A delay that reaches into the future is not solved, with an error.
    ahead = diffrax.diffeqsolve(
        ndde.simulate.DelayTerm(
            lambda t, x, lagged, args: -lagged[0], lambda t, x, args: -jnp.ones(1), cosine
        ),
        ndde.simulate.DelaySolver(diffrax.Heun(), capacity=16),
        0.0,
        1.0,
        0.1,
        jnp.ones(1),
        throw=False,
    )
    assert bool(jnp.all(jnp.isnan(ahead.ys)))


@pytest.mark.slow
def test_states_may_be_trees_of_arrays():
    def rate(t, x, lagged, args):
        return {"a": -lagged["a"][0], "b": lagged["a"][0] - x["b"]}

    def both(t, x, lagged, args):
        return jnp.stack([-lagged[0, 0], lagged[0, 0] - x[1]])

    def end(rate, history):
        return diffrax.diffeqsolve(
            ndde.simulate.DelayTerm(rate, 1.0, history),
            ndde.simulate.DelaySolver(diffrax.Tsit5(), capacity=16),
            0.0,
            2.0,
            0.2,
            history,
        ).ys

    tree = end(rate, {"a": jnp.ones(1), "b": jnp.zeros(1)})
    flat = end(both, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(jnp.concatenate([tree["a"], tree["b"]], axis=1), flat, rtol=1e-12)


def test_learned_models_and_systems_are_terms():
    rng = np.random.default_rng(0)
    windows = ndde.lagged_windows(rng.normal(size=(200, 2)).cumsum(axis=0), dt=0.1, lags=(0, 5))
    family = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, "full", family, flow=None, key=jr.key(0))
    start = jnp.array([0.3, -0.1])
    term = ndde.simulate.DelayTerm(model, history=start)
    np.testing.assert_allclose(term.delays, [0.5])
    np.testing.assert_allclose(term.vf(0.0, start, None), model(jnp.stack([start, start])))
    with pytest.raises(ValueError, match="DelayTerm"):
        model.vector_field(0.0, start)
    system = ndde.systems.get("mackey_glass")
    assert ndde.simulate.DelayTerm(system).delays == system.delays
    with pytest.raises(ValueError, match="DelayTerm"):
        system.vector_field(0.0, system.history)
    lorenz = ndde.systems.get("Lorenz")
    found = diffrax.ODETerm(lorenz.vector_field).vf(0.0, lorenz.history, None)
    np.testing.assert_array_equal(found, lorenz.drift(0.0, lorenz.history, jnp.zeros((0, 3))))


def test_there_is_no_way_back():
    def end(start):
        return diffrax.diffeqsolve(
            ndde.simulate.DelayTerm(delayed, 1.0, ones),
            ndde.simulate.DelaySolver(diffrax.Tsit5(), capacity=32),
            0.0,
            1.0,
            0.1,
            start,
            adjoint=diffrax.BacksolveAdjoint(),
        ).ys.sum()

    with pytest.raises(ValueError, match="impossible with delays"):
        jax.grad(end)(jnp.ones(1))


def test_events_end_the_solution():
    found = adaptive(
        diffrax.Heun(),
        1e-4,
        event=diffrax.Event(lambda t, y, args, **kwargs: y[0] + 0.5, diffrax.optimistix_newton())
        if hasattr(diffrax, "optimistix_newton")
        else diffrax.Event(lambda t, y, args, **kwargs: y[0] < -0.5),
    )
    assert found.result == diffrax.RESULTS.event_occurred
    assert 2 * math.pi / 3 < float(found.ts[-1]) < 2 * math.pi / 3 + 0.6


def test_wrong_rather_than_silent():
    """Steps beyond the shortest delay, and a memory that is too short, give NaN."""

    def constant(dt, capacity):
        return diffrax.diffeqsolve(
            ndde.simulate.DelayTerm(delayed, 1.0, ones),
            ndde.simulate.DelaySolver(diffrax.Euler(), capacity=capacity),
            0.0,
            6.0,
            jnp.asarray(dt),
            jnp.ones(1),
            adjoint=diffrax.ForwardMode(),
        ).ys

    assert jnp.all(jnp.isfinite(constant(0.25, 8)))
    assert jnp.all(jnp.isnan(constant(0.25, 2)))
    assert jnp.all(jnp.isnan(constant(1.5, 8)))
    with pytest.raises(ValueError, match="needs a DelayTerm"):
        diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: -y),
            ndde.simulate.DelaySolver(diffrax.Euler()),
            0.0,
            1.0,
            0.1,
            jnp.ones(1),
        )


@pytest.mark.slow
def test_gradient():
    def end(theta):
        return diffrax.diffeqsolve(
            ndde.simulate.DelayTerm(lambda t, x, lagged, args: -args * lagged[0], 1.0, cosine),
            ndde.simulate.DelaySolver(diffrax.Heun(), capacity=12),
            0.0,
            3.0,
            0.1,
            jnp.ones(1),
            args=theta,
            max_steps=64,
        ).ys[-1, 0]

    step, run = 1e-5, jax.jit(jax.value_and_grad(end))
    difference = (run(0.8 + step)[0] - run(0.8 - step)[0]) / (2 * step)
    np.testing.assert_allclose(run(0.8)[1], difference, rtol=1e-7)


def test_progress_meter(capfd):
    adaptive(diffrax.Heun(), 1e-4, progress_meter=diffrax.TqdmProgressMeter())
    assert "100" in capfd.readouterr().err
