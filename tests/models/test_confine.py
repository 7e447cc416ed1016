"""Damping and confinement: certificates against search, and simulations from far away."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.windows import Scaling
from tests.helpers import networks

DIM, LAGS = 2, (0, 3)


@pytest.fixture(scope="module")
def model():
    drift = networks(DIM, len(LAGS), key=jr.key(0))
    scaling = Scaling(*map(jnp.asarray, ([1.0, -2.0], [0.5, 3.0], [0.1, 0.2], [2.0, 0.7])))
    mask = jnp.ones((DIM, len(LAGS), DIM), bool)
    return ndde.models.NeuralDDE(drift, mask, scaling, jnp.asarray(0.05), LAGS)


def far_histories(n, scale, key):
    return scale * jr.normal(key, (n, len(LAGS), DIM))


def test_bound_holds_and_is_nearly_attained(model):
    """Random search over histories of all sizes, then gradient ascent from the best."""
    bound = ndde.models.drift_bound(model)
    size = jnp.exp(jr.uniform(jr.key(2), (4000,), minval=-2, maxval=5)[:, None, None])
    histories = size * far_histories(4000, 1.0, jr.key(1))
    drifts = jnp.abs(jax.vmap(model)(histories))
    assert bool(jnp.all(drifts <= bound[None]))
    for j in range(DIM):
        h = histories[jnp.argmax(drifts[:, j])]
        ascend = jax.jit(lambda h, j=j: h + 0.3 * jax.grad(lambda h: jnp.abs(model(h)[j]))(h))
        for _ in range(200):
            h = ascend(h)
        assert float(jnp.abs(model(h)[j])) <= float(bound[j])
        assert float(jnp.abs(model(h)[j])) > 0.3 * float(bound[j])


def test_confined_drift_equals_the_free_one_inside_the_box(model):
    confined = ndde.confine(model, radius=jnp.array([1.0, 4.0]), rate=3.0)
    inside = jr.uniform(jr.key(3), (200, DIM), minval=-1, maxval=1) * confined.radius[None]
    # Lagged states may lie anywhere.
    histories = far_histories(200, 50.0, jr.key(4)).at[:, 0].set(inside + confined.center[None])
    np.testing.assert_array_equal(jax.vmap(confined)(histories), jax.vmap(model)(histories))


def test_force_is_linear_outside_the_box(model):
    confined = ndde.confine(model, radius=1.0, rate=jnp.array([3.0, 5.0]))
    u = jnp.array([2.5, -7.0])
    history = jnp.zeros((2, DIM)).at[0].set(confined.center + u)
    force = confined(history) - model(history)
    np.testing.assert_allclose(force, [-3 * 1.5, 5 * 6.0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["damp", "confine"])
def test_certificate_inequality(model, kind):
    restored = ndde.models.damp(model, rate=2.0) if kind == "damp" else ndde.confine(model)
    certificate = restored.certificate()
    histories = jnp.concatenate(
        [far_histories(2000, s, jr.key(i)) for i, s in enumerate((1.0, 10.0, 1000.0))]
    )
    u = histories[:, 0] - restored.center[None]
    radial = jnp.sum(u * jax.vmap(restored)(histories), axis=1)
    size = jnp.sum(u**2, axis=1)
    assert bool(jnp.all(radial <= certificate.alpha - certificate.beta0 * size + 1e-9 * size))
    beyond = jnp.sqrt(size) > certificate.absorbing_radius
    assert bool(jnp.any(beyond)) and bool(jnp.all(radial[beyond] < 0))


def simulate(restored, start, n, sigma, key):
    """Euler-Maruyama with a ring of past states, constant history."""
    depth, dt = LAGS[-1] + 1, restored.dt

    def step(past, noise):
        history = jnp.stack([past[lag] for lag in LAGS])
        new = past[0] + dt * restored(history) + sigma * jnp.sqrt(dt) * noise
        return jnp.concatenate([new[None], past[:-1]]), new

    past = jnp.broadcast_to(start, (depth, DIM))
    return jax.lax.scan(step, past, jr.normal(key, (n, DIM)))[1]


@pytest.mark.parametrize("kind", ["damp", "confine"])
def test_simulation_from_far_away_comes_back_and_stays(model, kind):
    restored = (
        ndde.models.damp(model, rate=2.0) if kind == "damp" else ndde.confine(model, rate=4.0)
    )
    certificate = restored.certificate()
    start = restored.center + 1e4
    path = jax.jit(lambda s: simulate(restored, start, 4000, s, jr.key(5)))(0.0)
    radius = jnp.linalg.norm(path - restored.center[None], axis=1)
    assert float(radius[0]) > 100 * float(certificate.absorbing_radius)
    assert bool(jnp.all(radius[2000:] <= certificate.absorbing_radius))

    sigma = 0.5
    noisy = jax.jit(lambda s: simulate(restored, start, 4000, s, jr.key(6)))(sigma)
    second = jnp.mean(jnp.sum((noisy[2000:] - restored.center[None]) ** 2, axis=1))
    assert float(second) < float(certificate.second_moment(sigma * jnp.eye(DIM)))


def test_default_box_covers_the_data():
    x = np.cumsum(np.random.default_rng(0).normal(size=(200, 2)), axis=0)
    windows = ndde.lagged_windows(x, dt=1.0)
    model = ndde.fitting.fit_graph(
        windows, "full", key=jr.key(0), config=ndde.fitting.StrengthConfig(steps=3, restarts=1)
    )
    confined = ndde.confine(model, windows=windows)
    used = x[:-1]  # the last sample is not the present of a window
    assert bool(np.all(np.abs(used - np.asarray(confined.center)) <= np.asarray(confined.radius)))
    drift = jax.vmap(confined)(jnp.asarray(used)[:, None])
    np.testing.assert_array_equal(drift, jax.vmap(model)(jnp.asarray(used)[:, None]))


def test_a_variable_that_moves_at_the_very_end_alone_has_a_box():
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[:, 1] = np.arange(60) == 59
    windows = ndde.lagged_windows(x, dt=1.0)
    family = ndde.models.Polynomials()
    model = ndde.fit_drift(windows, np.eye(2, dtype=bool)[:, :, None], family, key=jr.key(0))
    confined = ndde.confine(model, windows=windows)
    assert bool(np.all(np.asarray(confined.radius) > 0))


def test_default_box_covers_other_data_than_the_model_saw(model):
    """The windows' own units count, whatever the scaling of the model."""
    x = 100 + 10 * np.cumsum(np.random.default_rng(1).normal(size=(60, 2)), axis=0)
    windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS)
    confined = ndde.confine(model, windows=windows)
    np.testing.assert_allclose(confined.radius, np.ptp(x[:-1], axis=0), rtol=1e-9)
    np.testing.assert_allclose(confined.center, (x[:-1].max(axis=0) + x[:-1].min(axis=0)) / 2)
    about = ndde.confine(model, windows=windows, center=model.scaling.center)
    distance = np.abs(x[:-1] - np.asarray(model.scaling.center)).max(axis=0)
    np.testing.assert_allclose(about.radius, 2 * distance, rtol=1e-9)
    three = ndde.lagged_windows(np.concatenate([x, x[:, :1] ** 2], axis=1), dt=1.0, lags=LAGS)
    with pytest.raises(ValueError, match="2 variables of the model; got 3"):
        ndde.confine(model, windows=three)


def test_a_drift_of_zero_is_held_as_others_are(model):
    """A variable that is set from outside and ends where it began has a drift of zero."""
    for rates, expected in ([[0.1, 0.0], [2.0, 0.0]], None), ([[0.0, 0.0], [0.0, 0.0]], 1.0):
        center, scale = map(jnp.asarray, rates)
        zero = dataclasses.replace(model.scaling, rate_center=center, rate_scale=scale)
        still = dataclasses.replace(model, scaling=zero)
        assert ndde.models.drift_bound(still)[1] == 0
        rate = ndde.confine(still).rate
        assert rate[1] == (rate[0] if expected is None else expected) > 0


def test_damping_is_linear_everywhere(model):
    """G = N − K(x − c) with per-variable rates, about a center of one's own."""
    rate, center = np.array([0.5, 2.0]), np.array([3.0, -1.0])
    damped = ndde.models.damp(model, rate=rate, center=center)
    histories = far_histories(50, 20.0, jr.key(8))
    expected = jax.vmap(model)(histories) - rate[None] * (histories[:, 0] - center[None])
    np.testing.assert_allclose(jax.vmap(damped)(histories), expected, rtol=1e-9)
    certificate = damped.certificate()
    np.testing.assert_allclose(certificate.bound, np.linalg.norm(ndde.models.drift_bound(model)))
    np.testing.assert_allclose(certificate.pull, 0.5)


def test_single_precision_and_plain_lists(model):
    single = jax.tree.map(
        lambda a: a.astype(jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, model
    )
    radius = jnp.array([1.0, 4.0], jnp.float32)
    for confined in (ndde.confine(single), ndde.confine(single, radius=radius)):
        history = jnp.ones((2, DIM), jnp.float32)
        leaves = jax.tree.leaves((confined, confined(history), confined.certificate()))
        assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32"), jnp.dtype(bool)}
    listed = ndde.confine(model, radius=[1, 4], rate=(2.0, 3.0), center=[0.5, 0])
    np.testing.assert_array_equal(listed.radius, [1, 4])
    np.testing.assert_array_equal(listed.rate, [2, 3])
    np.testing.assert_array_equal(listed.center, [0.5, 0])


def test_transforms(model):
    confined = ndde.confine(model, radius=1.0, rate=2.0)
    histories = far_histories(3, 5.0, jr.key(7))
    together = jax.jit(jax.vmap(confined))(histories)
    for h, expected in zip(histories, together, strict=True):
        np.testing.assert_allclose(confined(h), expected, rtol=1e-9)
    rates = jnp.array([1.0, 2.0])
    radius = jax.vmap(lambda r: ndde.confine(model, rate=r).certificate().absorbing_radius)(rates)
    assert bool(jnp.all(jnp.isfinite(radius)))
    gradient = jax.grad(lambda r: ndde.models.damp(model, rate=r).certificate().absorbing_radius)(
        2.0
    )
    bound = jnp.linalg.norm(ndde.models.drift_bound(model))
    np.testing.assert_allclose(gradient, -bound / 4, rtol=1e-9)


def test_unusable_arguments(model):
    with pytest.raises(ValueError, match="radius must be positive"):
        ndde.confine(model, radius=-1.0)
    with pytest.raises(ValueError, match="rate must be positive"):
        ndde.models.damp(model, rate=0.0)
    with pytest.raises(ValueError, match=r"center must be a number or have shape \(2,\)"):
        ndde.confine(model, center=jnp.zeros(3))
    with pytest.raises(ValueError, match="center must be finite"):
        ndde.confine(model, center=np.nan)
    with pytest.raises(ValueError, match="radius must be finite"):
        ndde.confine(model, radius=np.inf)
    without = ndde.models.NeuralDDE(model.drift, model.mask, model.scaling, model.dt, (1, 3))
    with pytest.raises(ValueError, match="lag 0"):
        ndde.confine(without)
