"""The loss of one window and its mean, against loops and against the kernel of training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._fit import empirical_risk
from tests.helpers import networks


@pytest.fixture(scope="module")
def irregular():
    """Uneven steps, so that weights differ, and a gap."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.5, 1.5, size=60))
    x = rng.normal(size=(60, 2)).cumsum(axis=0)
    x[20, 0] = np.nan
    return ndde.lagged_windows(x, t=t, lags=(0, 2))


@pytest.fixture(scope="module")
def model(irregular):
    drift = networks(2, 2, width=4, depth=2, key=jr.key(0))
    mask = jnp.array([[[True, False], [True, True]], [[False, True], [True, False]]])
    w = irregular
    return ndde.models.NeuralDDE(drift, mask, w.scaling, w.dt, w.lags)


def test_the_mean_over_windows_is_the_kernel_of_training(irregular, model):
    w = irregular
    gates = model.mask.reshape(2, -1).astype(float)[:, None]
    inputs, outputs = w.history.reshape(len(w.valid), -1).T, w.increment.T
    kernel = empirical_risk(model.drift.layers, inputs, outputs, w.weight, gates)
    np.testing.assert_allclose(ndde.risk(model, w), kernel, rtol=1e-10)


def test_by_a_loop_in_physical_units(irregular, model):
    """Rates and drifts in physical units, their difference in units of the spread of rates."""
    w, s = irregular, irregular.scaling
    total, weight = np.zeros(2), 0.0
    for k in np.flatnonzero(np.asarray(w.valid)):
        history = w.history[k] * s.scale[None] + s.center[None]
        rate = w.increment[k] * s.rate_scale + s.rate_center
        loss = ((rate - model(history)) / s.rate_scale) ** 2
        np.testing.assert_allclose(
            ndde.window_loss(model, w.history[k], w.increment[k]), loss, rtol=1e-9
        )
        total += float(w.weight[k]) * np.asarray(loss)
        weight += float(w.weight[k])
    np.testing.assert_allclose(ndde.risk(model, w), total / weight, rtol=1e-9)


def test_windows_scaled_otherwise_are_judged_in_their_own_units(irregular, model):
    w, s = irregular, irregular.scaling
    other = ndde.windows.Scaling(2 * s.center, 3 * s.scale, s.rate_center, 2 * s.rate_scale)
    moved = eqx.tree_at(lambda m: m.scaling, w, other)
    history = w.history * other.scale[None, None] + other.center[None, None]
    drift = jax.vmap(model)(history)
    rate = w.increment * other.rate_scale[None] + other.rate_center[None]
    loss = ((rate - drift) / other.rate_scale[None]) ** 2
    expected = (w.weight[:, None] * loss)[np.asarray(w.valid)].sum(axis=0) / w.weight.sum()
    np.testing.assert_allclose(ndde.risk(model, moved), expected, rtol=1e-9)


def test_under_jit_vmap_and_grad(irregular, model):
    w = irregular
    both = ndde.stack_windows([w, w])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(ndde.risk, in_axes=(None, 0)))(model, both)[1], ndde.risk(model, w)
    )

    def total(increment):
        return ndde.risk(model, eqx.tree_at(lambda w: w.increment, w, increment)).sum()

    slope = jax.grad(total)(w.increment)
    step = jnp.zeros_like(slope).at[3, 1].set(1e-5)
    difference = (total(w.increment + step) - total(w.increment - step)) / 2e-5
    assert float(slope[3, 1]) == pytest.approx(float(difference), rel=1e-6)
    assert not bool(jnp.any(slope[~np.asarray(w.valid)]))


def test_refusals(irregular, model):
    with pytest.raises(ValueError, match="model must have the lags of the windows"):
        ndde.risk(model, ndde.lagged_windows(np.arange(20.0)[:, None] ** [1, 2], dt=1.0))
    with pytest.raises(ValueError, match="scaling must be a Scaling"):
        ndde.window_loss(model, irregular.history[0], irregular.increment[0], scaling=2.0)
