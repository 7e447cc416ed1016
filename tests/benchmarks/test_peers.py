"""Other libraries' methods, where they are installed (the extra `peers`)."""

import jax
import numpy as np
import pytest

from benchmarks import peers

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


def test_pcmci_plus_finds_a_delayed_driver():
    pytest.importorskip("tigramite")
    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(10, 1999):
        drift = np.array([-x[k, 0], 2 * x[k - 10, 0] - x[k, 1]])
        x[k + 1] = x[k] + 0.1 * drift + np.array([0.3, 0.1]) * rng.normal(size=2)
    scores, graph = peers.pcmci_plus(x, (0, 5, 10))
    expected = np.zeros((2, 2, 3), bool)
    expected[0, 0, 0] = expected[1, 1, 0] = expected[0, 1, 2] = True
    assert graph[expected].all()
    assert scores[expected].min() > 2 * scores[~expected].max()


def test_pysindy_finds_a_spiral_and_forecasts_it(tmp_path):
    pytest.importorskip("pysindy")
    from benchmarks.dysts import anchors, forecast

    dt = 0.02
    z = np.exp((-0.2 + 2j) * dt * np.arange(1500))
    x = np.stack([z.real, z.imag], axis=1)
    powers, found = peers.sparse_regression(x, dt, degree=2)
    linear = {tuple(p): found[:, i] for i, p in enumerate(powers) if found[:, i].any()}
    assert linear.keys() == {(1, 0), (0, 1)}
    np.testing.assert_allclose(linear[1, 0], [-0.2, 2], atol=0.01)
    np.testing.assert_allclose(linear[0, 1], [-2, -0.2], atol=0.01)
    drift = anchors.Polynomial(jax.numpy.asarray(found), tuple(map(tuple, powers.tolist())))
    model = forecast.TrueSystem(drift, np.zeros(2), np.ones(2))
    rate = forecast.rate_of_change(model, jax.numpy.array([1.0, 0.5]))
    np.testing.assert_allclose(rate, [-1.2, 1.9], atol=0.02)


def test_pysindy_finds_delayed_terms():
    pytest.importorskip("pysindy")
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(1000, 6))  # three lags of two variables
    rate = np.stack([inputs[:, 4] - inputs[:, 0], inputs[:, 1] * inputs[:, 2]], axis=1)
    sizes, kept = peers.lagged_sparse_regression(inputs, rate)
    expected = np.zeros((2, 6), bool)
    expected[0, [0, 4]] = expected[1, [1, 2]] = True
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_allclose(sizes[0, [0, 4]], 1 / np.sqrt(2), rtol=0.05)
