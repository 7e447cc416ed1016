"""Custom losses, compared with SciPy and with the kernel of training."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize

import ndde_jax as ndde
from ndde_jax.fit._fit import MeanLoss, empirical_risk
from ndde_jax.models._networks import init_layers

CONFIG = ndde.FitConfig(max_steps=1500, warmup_steps=0, width=4, depth=1, patience=None)


class Huber(eqx.Module):
    """Squares up to a distance, and straight lines beyond it."""

    delta: jax.Array

    def __call__(self, model, history, rate):
        square = ndde.window_loss(model, history, rate)
        far = 2 * self.delta * jnp.sqrt(jnp.maximum(square, 1e-12)) - self.delta**2
        return jnp.where(square < self.delta**2, square, far)


@pytest.fixture(scope="module")
def kicked():
    """x[k + 1] = x[k] / 2, with noise, and every tenth step a kick to one side."""
    rng = np.random.default_rng(0)
    kicks = 0.2 * rng.normal(size=400) + 3 * (rng.random(400) < 0.1)
    x = np.zeros(401)
    for k in range(400):
        x[k + 1] = 0.5 * x[k] + kicks[k]
    return ndde.lagged_windows(x[:, None], dt=1.0)


def scipys(windows, delta):
    """Intercept and slope of a straight line by the same loss; squares where delta is infinite."""
    z, y = (np.asarray(a, float).ravel() for a in (windows.history, windows.increment))
    loss = dict(loss="huber", f_scale=delta) if np.isfinite(delta) else {}
    found = scipy.optimize.least_squares(lambda c: c[0] + c[1] * z - y, [0.0, 0.0], **loss)
    return found.x


def drift(result, windows, z):
    """The drift at states, in standardised units."""
    s = windows.scaling
    rates = jax.vmap(result.model)((jnp.asarray(z) * s.scale + s.center)[:, None, None])[:, 0]
    return np.asarray((rates - s.rate_center) / s.rate_scale)


@pytest.mark.slow
def test_a_loss_of_ones_own_is_what_training_minimises(kicked):
    """Outliers shift least squares; Huber's loss shifts as far as SciPy says."""
    delta, given = 0.3, (ndde.NODE(), kicked, CONFIG)
    robust = ndde.fit(*given, key=jr.key(0), loss=Huber(jnp.asarray(delta)))
    squares = ndde.fit(*given, key=jr.key(0))
    z = np.quantile(kicked.history, [0.25, 0.5, 0.75])
    expected, by_squares = (c[0] + c[1] * z for c in (scipys(kicked, d) for d in (delta, np.inf)))
    assert (by_squares - expected).min() > 0.15
    np.testing.assert_allclose(drift(robust, kicked, z), expected, atol=0.05)
    np.testing.assert_allclose(drift(squares, kicked, z), by_squares, atol=0.05)
    assert squares.risk[0] < robust.risk[0]  # which remains the mean squared error


def test_the_general_mean_is_the_kernel_where_the_loss_is():
    """Two coefficients, three targets, two lags, four draws of the gates; with the derivative."""
    rng = np.random.default_rng(1)
    windows = ndde.lagged_windows(rng.normal(size=(40, 3)), dt=0.5, lags=(0, 2))
    layers = init_layers(6, 6, width=5, depth=2, key=jr.key(2))
    gates = jnp.asarray(rng.random((6, 4, 6)))
    inputs = windows.history.reshape(len(windows.valid), -1).T
    outputs = jnp.tile(windows.increment.T, (2, 1))

    def again(model, history, rate):
        return ndde.window_loss(model, history, rate)

    mean = MeanLoss(again, windows.scaling, windows.dt, windows.lags)

    def both(layers):
        given = (layers, inputs, outputs, windows.weight, gates)
        return mean(*given), empirical_risk(*given)

    np.testing.assert_allclose(*jax.jit(both)(layers), rtol=1e-9)
    slopes = jax.jit(jax.jacrev(lambda a: tuple(map(jnp.sum, both(a)))))(layers)
    for one, other in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


def test_what_knows_squares_alone_is_refused(kicked):
    for config, message in (
        (ndde.FitConfig(refine="newton"), 'refine="newton" minimises squared errors'),
        (ndde.FitConfig.paper(), "is derived for squared errors"),
    ):
        with pytest.raises(ValueError, match=message):
            ndde.fit(ndde.NODE(), kicked, config, key=jr.key(0), loss=Huber(jnp.asarray(1.0)))
    with pytest.raises(ValueError, match="loss must be a function"):
        ndde.fit(ndde.NODE(), kicked, CONFIG, key=jr.key(0), loss="huber")
    with pytest.raises(
        ValueError, match=r"of \(model, history, rate\), .* got one of \(found, rate\)"
    ):
        two = lambda found, rate: (found - rate) ** 2  # noqa: E731
        ndde.fit(ndde.NODE(), kicked, CONFIG, key=jr.key(0), loss=two)
    with pytest.raises(ValueError, match="loss must be a function that returns one number"):
        ndde.fit(ndde.NODE(), kicked, CONFIG, key=jr.key(0), loss=lambda *_: "small")
    with pytest.raises(ValueError, match=r"one number per target, \[target\] = \(1,\)"):
        total = lambda *window: ndde.window_loss(*window).sum()  # noqa: E731
        ndde.fit(ndde.NODE(), kicked, CONFIG, key=jr.key(0), loss=total)
