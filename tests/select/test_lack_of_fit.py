"""Whether networks are worth fitting, against chance and against shapes that splines miss."""

import jax
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.select import _judge
from ndde_jax.select._target_fit import UNITS, lack_of_fit_p_value

N = 600


def data(seed, n=N):
    draw = np.random.default_rng(seed)
    return draw, draw.normal(size=(n, 3)), np.ones(n)


def residual_of(y, known):
    known = np.concatenate([np.ones((len(y), 1)), known], axis=1)
    return y - known @ np.linalg.lstsq(known, y, rcond=None)[0]


def test_noise_alone_is_uniform():
    """The Kolmogorov–Smirnov test."""
    chances = []
    for seed in range(200):
        draw, z, root = data(seed)
        chances.append(lack_of_fit_p_value(residual_of(draw.normal(size=N), z), z, z, root))
    assert stats.kstest(chances, "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    "shape",
    [
        lambda z: 0.4 * np.sin(2 * z[:, 0]),
        lambda z: 0.3 * z[:, 0] * z[:, 1],
        lambda z: 0.5 * np.tanh(2 * z[:, 0] * z[:, 1] + z[:, 2]),
    ],
    ids=["curve", "product", "network"],
)
def test_what_is_left_is_seen(shape):
    """Shapes with a twelfth of the variance, in 2000 windows."""
    draw, z, root = data(0, 2000)
    left = residual_of(shape(z) + draw.normal(size=2000), z)
    assert lack_of_fit_p_value(left, z, z, root) < 1e-3


def test_what_the_model_has_already_is_not_left():
    """The same curve if the model has its column."""
    draw, z, root = data(0, 2000)
    curve = 0.4 * np.sin(2 * z[:, :1])
    known = np.concatenate([z, curve], axis=1)
    left = residual_of(curve[:, 0] + draw.normal(size=2000), known)
    assert lack_of_fit_p_value(left, known, z, root) > 0.01


def test_padding_says_nothing():
    """Windows without weight, whatever their values."""
    draw, z, root = data(1)
    left = residual_of(draw.normal(size=N), z)
    more = np.concatenate([z, draw.normal(size=(50, 3))])
    padded = [np.concatenate([a, np.zeros((50, *a.shape[1:]))]) for a in (left, z, root)]
    found = lack_of_fit_p_value(padded[0], padded[1], more, padded[2])
    np.testing.assert_allclose(found, lack_of_fit_p_value(left, z, z, root), rtol=1e-9)


def test_where_nothing_can_be_told():
    """No input, too few windows, and a residual of zero."""
    draw, z, root = data(2)
    left = residual_of(draw.normal(size=N), z)
    assert lack_of_fit_p_value(left, z, z[:, :0], root) == 1.0
    assert lack_of_fit_p_value(0 * left, z, z, root) == 1.0
    few = slice(0, 6)
    assert lack_of_fit_p_value(left[few], z[few], z[few], root[few]) == 1.0
    less = slice(0, UNITS)
    assert 0 < lack_of_fit_p_value(left[less], z[less], z[less], root[less]) < 1


def test_a_linear_law_costs_no_network(monkeypatch):
    """Splines describe it, so nothing is compiled."""

    def never(*_):
        raise AssertionError("a network was fitted")

    monkeypatch.setattr(_judge, "_from_scratch", never)
    draw, x = np.random.default_rng(3), np.zeros((800, 2))
    for t in range(1, 800):
        step = np.array([-0.1 * x[t - 1, 0] + 0.08 * x[t - 1, 1], -0.1 * x[t - 1, 1]])
        x[t] = x[t - 1] + step + 0.1 * draw.normal(size=2)
    found = ndde.discover(x, dt=1.0, lags=(0, 1), key=jax.random.key(0))
    assert not found.networks.any() and found.graph[1, 0, 0]
