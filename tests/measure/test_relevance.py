"""Ranking of sources: what distinguishes delays from stand-ins, and the regressions beneath."""

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.measure._relevance import _shares, linear_gains, rank, relevance
from ndde_jax.windows._flat import KnownData


@pytest.fixture(scope="module")
def samples():
    """A driver, what it drives after two samples, and noise beside them."""
    rng = np.random.default_rng(0)
    x = np.zeros((600, 3))
    for k in range(2, 599):
        kick = rng.normal(size=3)
        x[k + 1] = 0.7 * x[k] + kick * [1.0, 0.3, 1.0]
        x[k + 1, 1] += 0.8 * x[k - 2, 0]
    return ndde.read_samples(x, dt=1.0)


@pytest.fixture(scope="module")
def windows(samples):
    return ndde.lagged_windows(samples, lags=(0, 1, 2))


def test_linear_strengths_are_those_of_least_squares(windows):
    value, risk = linear_gains(KnownData(windows))
    inputs = np.asarray(windows.history).reshape(len(windows.history), -1)
    for target in range(3):
        y = np.asarray(windows.increment)[:, target]

        def left(columns, y=y):
            design = np.column_stack([inputs[:, columns], np.ones(len(y))])
            return np.mean((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)

        every = list(range(9))
        assert risk[target] == pytest.approx(left(every), rel=1e-5)
        for source in range(3):
            fewer = [i for i in every if i % 3 != source]
            rise = left(fewer) - left(every)
            assert value[source, target] == pytest.approx(rise, rel=1e-4, abs=1e-6)


def test_shares_are_roots_of_shares():
    value = np.array([[0.4, 0.0], [0.1, 0.0]])
    np.testing.assert_allclose(_shares(value, 1.0), [[np.sqrt(0.8), 0], [np.sqrt(0.2), 0]])
    np.testing.assert_allclose(_shares(value, 0.0), np.sqrt(value))


def test_the_driver_is_relevant(windows):
    value = relevance(windows)
    assert value.shape == (3, 3)
    assert value[0, 1] > 3 * max(value[2, 1], value[1, 0], value[1, 2])


def test_one_lag_a_source_leaves_the_strengths_and_several_do_not(samples, windows):
    strengths = np.array([[0.5, 0.4, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.5]])
    graph = np.zeros((3, 3, 3), bool)
    graph[0, 1, 2] = graph[0, 0, 0] = True
    value, reasons = rank(samples, windows, strengths, graph)
    np.testing.assert_allclose(value, strengths)
    assert not reasons
    graph[0, 1] = True
    value, reasons = rank(samples, windows, strengths, graph)
    np.testing.assert_allclose(value, relevance(windows))
    assert "3.0 lags of a source" in reasons[0]


def test_the_ranking_reaches_discover(samples):
    fast = ndde.Recipe.fast()
    found = ndde.discover(samples, lags=(0, 1, 2), recipe=fast, key=jax.random.key(0))
    own = np.asarray(found.strengths.source_value)
    expected, _ = rank(found.samples, found.windows, own, found.graph)
    np.testing.assert_array_equal(found.source_scores, expected)
