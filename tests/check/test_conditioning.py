"""Noise, autocorrelation and damping of the residuals of rates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.linalg

import ndde_jax as ndde
from ndde_jax.check._conditioning import condition_number, radial_drift
from ndde_jax.check._graph_rules import evidence_of_windows
from tests.helpers import QUICK


def linear(n=20_000, dt=0.05):
    """An Ornstein–Uhlenbeck process whose noise is correlated, and its ΣΣᵀ."""
    sigma = np.array([[0.5, 0.0], [0.3, 1.2]])
    pull = np.array([[1.0, 0.4], [0.0, 0.8]])
    steps = np.random.default_rng(3).normal(size=(n, 2)) @ sigma.T * np.sqrt(dt)
    x = np.zeros((n, 2))
    for k in range(n - 1):
        x[k + 1] = x[k] - dt * pull @ x[k] + steps[k]
    return x, sigma @ sigma.T


@pytest.mark.parametrize(
    "scheme",
    ["euler", *(pytest.param(other, marks=pytest.mark.slow) for other in ("midpoint", "central"))],
)
def test_noise_covariance(scheme):
    x, truth = linear()
    if scheme == "midpoint":
        w = ndde.select.midpoint_windows(x, dt=0.05)
    else:
        w = ndde.lagged_windows(x, dt=0.05, scheme=scheme)
    model = ndde.fitting.fit_graph(w, "full", key=jr.key(0), config=QUICK)
    found = ndde.check.noise_covariance(w, model)
    np.testing.assert_allclose(found, truth, rtol=0.05, atol=0.01)


@pytest.mark.slow
def test_residual_memory_is_the_covariance_that_a_hidden_driver_leaves():
    """Comparison with the stationary covariances of the linear system, x1 hidden."""
    n, dt = 20_000, 0.1
    step = np.eye(2) + dt * np.array([[-1.0, 1.0], [0.0, -1.0]])
    noise = np.diag([0.1, 0.5])
    x, drawn = np.zeros((n, 2)), np.random.default_rng(0).normal(size=(n, 2)) @ noise
    for k in range(n - 1):
        x[k + 1] = step @ x[k] + drawn[k]
    x = 5 + x  # models see physical units, windows do not
    whole, part = ndde.lagged_windows(x, dt=dt), ndde.lagged_windows(x[:, :1], dt=dt)
    model = ndde.fitting.fit_graph(whole, "full", key=jr.key(0), config=QUICK)
    np.testing.assert_array_equal(ndde.check.residual_memory(whole, model), [0, 0])

    stationary = scipy.linalg.solve_discrete_lyapunov(step, noise**2)
    rate = (step - np.eye(2))[0] / dt
    variance = rate @ stationary @ rate + noise[0, 0] ** 2 / dt**2
    left = rate - [rate @ stationary[:, 0] / stationary[0, 0], 0]
    # By the state two samples earlier, and by the noise that drove the rate then.
    later = left @ step
    covariance = later @ step @ stationary @ left + later[0] * noise[0, 0] ** 2 / dt
    model = ndde.fitting.fit_graph(part, "full", key=jr.key(0), config=QUICK)
    found = ndde.check.residual_memory(part, model)
    np.testing.assert_allclose(found, covariance / variance, rtol=0.1)


def seen(windows, model, names):
    """The evidence that rules read for a complete graph."""
    shape = (windows.dim, windows.dim, windows.n_lags)
    strengths = ndde.measure.SignalStrengths(
        *[jnp.ones(shape)] * 3, *[jnp.ones(shape[:2])] * 2, jnp.ones(shape, bool),
        *[jnp.ones(shape[0])] * 2, jnp.zeros(shape[0]), windows.prior,
    )  # fmt: skip
    return evidence_of_windows(windows, model, strengths, None, names)


def told(windows, model, names):
    return list(ndde.check.RULES["residual memory"].findings(seen(windows, model, names)))


@pytest.mark.slow
def test_a_delay_that_is_no_candidate_is_noticed():
    rng, x = np.random.default_rng(0), np.zeros((3000, 2))
    for k in range(15, 2999):
        drift = np.array([-x[k, 0], 2 * np.tanh(2 * x[k - 15, 0]) - x[k, 1]])
        x[k + 1] = x[k] + 0.1 * drift + [0.3, 0.1] * rng.normal(size=2)
    for lags, missed in (((0,), True), ((0, 15), False)):
        w = ndde.lagged_windows(x, dt=0.1, lags=lags)
        model = ndde.fitting.fit_graph(w, "full", key=jr.key(0), config=QUICK)
        found = told(w, model, ("driver", "follower"))
        assert [finding.value > 0.1 for finding in found] == [True] * missed
        assert all("rate of follower are" in finding.text for finding in found)


def test_residual_memory_across_gaps_and_trajectories():
    """Residuals are not compared across missing values and ends of trajectories."""
    rng = np.random.default_rng(0)
    paths = [rng.normal(size=(n, 1)).cumsum(axis=0) for n in (300, 200)]
    paths[0][100:103] = np.nan
    w = ndde.lagged_windows(paths, dt=1.0)
    model = ndde.fitting.fit_graph(w, "full", key=jr.key(0), config=QUICK)
    assert ndde.check.residual_memory(w, model) == [0]
    # Rates that equal those two samples earlier, wherever those are known.
    signs = np.where(np.asarray(w.position) // 2 % 2 == 0, 1.0, -1.0)[:, None]
    alternating = eqx.tree_at(lambda w: w.increment, w, jnp.asarray(signs, jnp.float32))
    np.testing.assert_allclose(ndde.check.residual_memory(alternating, model), 1, atol=0.1)
    half = eqx.tree_at(lambda w: w.valid, alternating, w.valid & (rng.random(len(signs)) < 0.5))
    np.testing.assert_allclose(ndde.check.residual_memory(half, model), 1, atol=0.1)
    # A constant error of a rate is not autocorrelation.
    shifted = eqx.tree_at(lambda w: w.increment, w, w.increment + 0.7)
    assert ndde.check.residual_memory(shifted, model) == [0]


def test_residuals_need_one_system_on_a_grid_and_a_finite_model():
    x, _ = linear(200)
    w = ndde.lagged_windows(x, t=np.arange(200.0) ** 1.1)
    model = ndde.fitting.fit_graph(w, "full", key=jr.key(0), config=QUICK)
    for measure in (ndde.check.noise_covariance, ndde.check.residual_memory):
        with pytest.raises(ValueError, match="equally spaced"):
            measure(w, model)
    with pytest.raises(ValueError, match="one system"):
        ndde.check.residual_memory(ndde.stack_windows([w, w]), model)
    numbers, rest = eqx.partition(model, eqx.is_inexact_array)
    broken = eqx.combine(jax.tree.map(lambda leaf: leaf * jnp.nan, numbers), rest)
    regular = ndde.lagged_windows(x, dt=1.0)
    assert np.isnan(ndde.check.residual_memory(regular, broken)).all()
    assert told(w, model, ("a", "b")) == told(regular, broken, ("a", "b")) == []
    (finding,) = ndde.check.RULES["drift not finite"].findings(seen(regular, broken, ("a", "b")))
    assert finding.weight == "problem"


def test_radial_drift_is_the_rate_of_an_isotropic_pull():
    rng = np.random.default_rng(0)
    x = np.zeros((20_000, 3))
    for k in range(len(x) - 1):
        x[k + 1] = x[k] - 0.1 * 0.7 * x[k] + np.sqrt(0.1) * rng.normal(size=3)
    pull, error = radial_drift(ndde.lagged_windows(x, dt=0.1))
    assert abs(pull + 0.7) < 3 * error and error < 0.2


def test_condition_number():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    w = ndde.lagged_windows(x, dt=1.0)
    design = np.asarray(w.history)[:, 0]
    assert condition_number(w) == pytest.approx(np.linalg.cond(design), rel=1e-6)
