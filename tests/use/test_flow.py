"""Steps finer than the sampling: their order, and the same steps in simulator and regression."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import ndde_jax as ndde
from ndde_jax._types import Scaling
from ndde_jax.simulate._problem import lagrange_weights
from ndde_jax.use._effects import _respond
from ndde_jax.use._ensemble import Member, make_basis
from ndde_jax.use._one_step import KINDS, NODES, nodes, quadrature, step_rows
from ndde_jax.use._simulate import Steps, no_change, samples_read, simulate

from .small import KEY

LATE = 3 * np.pi / 2  # sin(t − LATE) = cos(t)


@pytest.mark.parametrize("place", [0, 1, 4, 6])
def test_a_cubic_is_read_exactly_wherever_it_begins(place):
    t = np.arange(8.0)
    values, newest = t**3 - 4 * t**2 + t - 2, 7
    first = nodes(np.array(place), newest, np, NODES)
    assert first >= 0 and first + 3 <= newest
    for s in (0.0, 0.25, 0.5, 1.0):
        weights = lagrange_weights(place - first + s, NODES)
        found = sum(w * values[first + a] for a, w in enumerate(weights))
        np.testing.assert_allclose(found, (place + s) ** 3 - 4 * (place + s) ** 2 + place + s - 2)


def discovery_of(samples, lags):
    """A replacement with the attributes of a discovery that a step reads."""
    windows = types.SimpleNamespace(partial=None)
    return types.SimpleNamespace(samples=samples, lags=lags, windows=windows)


@pytest.mark.parametrize("lags", [(0,), (0, 1), (0, 2, 5)])
def test_a_step_begins_at_the_samples_of_its_lags(lags):
    x = np.random.default_rng(0).normal(size=(40, 2))
    rows = step_rows(discovery_of(ndde.read_samples(x, dt=1.0), lags))
    k = np.arange(lags[-1], 39)
    np.testing.assert_allclose(rows.start, x[k[:, None] - lags], atol=1e-12)
    np.testing.assert_allclose(rows.now, x[k])


def rotating(history):
    """x' = x(t − τ) (x² + x(t − τ)²), which sin t solves."""
    now, late = history[..., 0, :], history[..., 1, :]
    return late * (now**2 + late**2)


def record(n, length):
    """That solution, n samples per delay; rows of a replacement for a discovery."""
    dt = LATE / n
    x = np.sin(dt * np.arange(length))[:, None]
    samples = ndde.read_samples(x, dt=dt)
    return step_rows(discovery_of(samples, (0, n))), dt


def error_of(step, n):
    rows, dt = record(n, 4 * n)
    _, rate = quadrature(rotating, rows, (0, n), dt, step)
    return np.abs(rows.now + dt * rate - rows.next).max()


@pytest.mark.parametrize(("step", "order"), [("map", 2), ("heun", 3), ("flow", 5)])
def test_errors_of_one_step_have_their_order(step, order):
    errors = np.array([error_of(step, n) for n in (16, 32, 64)])
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), order, atol=0.25)


def test_the_mean_of_a_path_is_that_of_the_step():
    rows, dt = record(12, 60)
    path, rate = quadrature(rotating, rows, (0, 12), dt, "flow")
    # Simpson's rule along a path of fourth order.
    np.testing.assert_allclose(path.mean(rotating), rate, atol=2e-4)


class Known(ndde.AbstractDelayModel):
    """A known drift, in place of a learned one."""

    drift: object = eqx.field(static=True)
    lags: tuple[int, ...] = eqx.field(static=True)
    dt: jnp.ndarray
    scaling: Scaling
    mask: jnp.ndarray

    def __call__(self, history):
        return self.drift(history)


def steps_of(drift, rows, lags, dt, step, change, past):
    """The steps of one path of that drift alone, without noise."""
    basis = make_basis(rows.start, np.array([0]), np.zeros((0, 2), int))
    n, one = len(np.atleast_1d(drift(rows.start[0]))), jnp.ones
    zero, mask = jnp.zeros(n), one((n, len(lags), n), bool)
    model = Known(drift, lags, jnp.asarray(dt), Scaling(zero, one(n), zero, one(n)), mask)
    return Steps(
        members=Member(model, basis, one(n), jnp.zeros((1, n, len(basis.kind)))),
        factor=jnp.zeros((n, n)),
        amplitude=jnp.tile(jnp.array([1.0, 0.0, 0.0]), (n, 1)),
        change=change,
        begin=jnp.asarray(0),
        step=step,
        back=samples_read(lags, step, past - 1),
        newest=past - 1,
    )


@pytest.mark.parametrize("step", KINDS)
def test_the_simulator_takes_the_step_that_was_fitted(step):
    n = 5
    rows, dt = record(n, 40)
    _, rate = quadrature(rotating, rows, (0, n), dt, step)
    x = np.sin(dt * np.arange(40))[:, None]
    for k in (n + 1, 20, 33):
        made = steps_of(rotating, rows, (0, n), dt, step, no_change(1, 1), n + 2)
        path, *_ = simulate(made, x[k - n - 1 : k + 1, None], jnp.zeros((1, 1, 1)))
        np.testing.assert_allclose(path[0, 0], (rows.now + dt * rate)[k - n], rtol=1e-12)


def late_relaxation(history):
    """a' = −a, b' = a(t − τ) − b."""
    now, late = history[..., 0, :], history[..., 1, :]
    return jnp.stack([-now[..., 0], late[..., 0] - now[..., 1]], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("begin", [0, 3])
def test_what_is_held_is_heard_of_after_the_delay_and_no_sooner(begin):
    lag, dt, n = 4, 0.25, 30
    x = np.zeros((20, 2))
    rows = step_rows(discovery_of(ndde.read_samples(x + np.arange(20.0)[:, None], dt=dt), (0, lag)))
    change = no_change(n, 2)
    held = np.zeros((n + 1, 2), bool)
    held[begin:, 0] = True
    change = type(change)(jnp.asarray(held), jnp.asarray(held * 1.0), None, change.active, None)
    made = steps_of(late_relaxation, rows, (0, lag), dt, "flow", change, lag + 2)
    path, *_ = simulate(made, x[: lag + 2, None], jnp.zeros((n, 1, 2)))
    t = dt * np.arange(1, n + 1)
    since = np.maximum(t - dt * (begin + lag), 0)
    np.testing.assert_array_equal(path[: begin + lag, 0, 1], 0)
    np.testing.assert_allclose(path[:, 0, 1], 1 - np.exp(-since), atol=2e-6)


def coarse(n=700, seed=0, sigma=0.02):
    """x' = x − x³ − ¾ x(t − 6), noise 0.02, every 0.6; Heun's method, fifty steps a sample."""
    rng, h = np.random.default_rng(seed), 0.012
    past = 500
    x = np.full((n + 100) * 50 + past, 0.5)
    kick = sigma * np.sqrt(h) * rng.normal(size=len(x))
    for k in range(past, len(x) - 1):
        rate = lambda v, late: v - v**3 - 0.75 * late  # noqa: E731
        first = rate(x[k], x[k - past])
        x[k + 1] = x[k] + h / 2 * (first + rate(x[k] + h * first, x[k + 1 - past])) + kick[k]
    return x[past + 100 * 50 :: 50, None]


def test_coarse_sampling_of_a_smooth_path_takes_it():
    found = ndde.discover(
        coarse(), dt=0.6, lags=(0, 5, 10), recipe=ndde.Recipe.fast(), treat=False, key=KEY
    )
    np.testing.assert_array_equal(found.graph[0, 0], [True, False, True])
    members = found.resample()
    assert members.step == "flow"
    # The residual is the noise of the system, whose own dynamics amplifies it within a step, and no
    # error of measurement.
    size = float(np.sqrt(members.noise.covariance[0, 0]))
    assert size == pytest.approx(0.02 * np.sqrt(0.6), rel=0.4)
    assert members.noise.error[0] == 0


def test_linear_responses_are_those_of_the_map_or_of_the_flow():
    """By powers and by the exponential of the matrix; a lag of a map acts one step later."""
    matrix = np.array([[-0.5, 0.0], [0.4, -0.3]])
    slopes = matrix.T[None, ..., None]  # [member source target lag]
    moved = _respond(slopes, (0,), 1.0, 6, held=False, fine=0)[0]
    expected = [np.linalg.matrix_power(np.eye(2) + matrix, k).T for k in range(7)]
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    flow = _respond(slopes, (0,), 1.0, 6, held=False, fine=4)[0]
    expected = [scipy.linalg.expm(k * matrix).T for k in range(7)]
    np.testing.assert_allclose(flow, expected, atol=2e-3)
    late = np.zeros((1, 2, 2, 2))
    late[0, 0, 1, 1] = 1.0
    heard = _respond(late, (0, 2), 1.0, 4, held=False, fine=0)[0][:, 0, 1]
    np.testing.assert_allclose(heard, [0, 0, 0, 1, 2])


@pytest.mark.slow
def test_slopes_of_a_map_are_as_certain_as_its_regression():
    """Steps between the samples of a map widened intervals fourfold and more."""
    rng, x = np.random.default_rng(1), np.zeros((600, 2))
    for k in range(3, 599):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=2)
        x[k + 1, 1] += 0.5 * x[k - 2, 0]
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=None))
    found = ndde.discover(x, dt=1.0, lags=(0, 1, 2, 3), recipe=recipe, key=jax.random.key(0))
    effects = found.effects()
    assert found.reading == effects.ensemble.step == "map" and found.graph[0, 1, 2]
    width = effects.slope_high[0, 1, 2] - effects.slope_low[0, 1, 2]
    inputs = np.stack([x[3:-1, 1], x[1:-3, 0]], axis=1)
    error = np.sqrt(np.linalg.inv(inputs.T @ inputs)[1, 1])
    assert 0.7 < width / (2 * 1.645 * error) < 1.6
    assert not found.delay_resolved.any()
