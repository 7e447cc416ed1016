"""Ranking of sources: what distinguishes delays from proxies, and the underlying regressions."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.measure import _relevance
from ndde_jax.measure._relevance import _shares, linear_gains, own_risk, rank, relevance
from ndde_jax.select._screened import Screened
from ndde_jax.windows._windows import KnownData


@pytest.fixture(scope="module")
def samples():
    """A driver, its target two samples later, and noise."""
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
        assert risk[target] == pytest.approx(left(every), rel=1e-9)
        for source in range(3):
            fewer = [i for i in every if i % 3 != source]
            rise = left(fewer) - left(every)
            assert value[source, target] == pytest.approx(rise, rel=1e-6, abs=1e-12)


def test_shares_are_roots_of_shares():
    value = np.array([[0.4, 0.0], [0.1, 0.0]])
    np.testing.assert_allclose(_shares(value, 1.0), [[np.sqrt(0.8), 0], [np.sqrt(0.2), 0]])
    np.testing.assert_allclose(_shares(value, 0.0), np.sqrt(value))


def test_the_driver_is_relevant(windows):
    value, reason = relevance(Screened(windows))
    assert value.shape == (3, 3) and "by its past" in reason
    assert value[0, 1] > 3 * max(value[2, 1], value[1, 0], value[1, 2])


def test_the_past_counts_where_the_present_does_not_tell_the_rate(windows):
    """The driver acts after two samples; the other two variables need no past."""

    def share(reason):
        return int(reason.split("% by its present")[0].split()[-1])

    alone = windows.prior.allowed & (jnp.arange(3) != 1)[None, :, None]
    undelayed = eqx.tree_at(lambda w: w.prior.allowed, windows, alone)
    assert share(relevance(Screened(windows))[1]) < 50 < share(relevance(Screened(undelayed))[1])


def test_one_lag_a_source_is_ranked_as_by_its_strength():
    """A smooth delay without errors: neighbouring lags and other variables are proxies for it."""
    t = np.arange(1500) * 0.1
    x = np.stack([np.sin(t) + np.sin(np.sqrt(2) * t), np.cos(0.7 * t) ** 2, np.zeros_like(t)], 1)
    rng = np.random.default_rng(0)
    for k in range(10, len(t) - 1):
        x[k + 1, 2] = x[k, 2] + 0.1 * (np.tanh(2 * x[k - 10, 0]) - x[k, 2]) + 0.003 * rng.normal()
    screened = Screened(ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 5, 10, 15)))
    value = relevance(screened)[0][:, 2]
    assert value[0] > value[1] and value[2] > value[1]
    assert value[1] < 0.2 * value[0]


def test_the_ranking_reaches_discover(samples):
    fast = ndde.Recipe.fast()
    found = ndde.discover(samples, lags=(0, 1, 2), recipe=fast, key=jax.random.key(0))
    own = np.asarray(found.strengths.source_value)
    expected, (reason,) = rank(found.samples, Screened(found.windows), own)
    np.testing.assert_array_equal(found.ranking, expected)
    assert reason in found.choices


def test_rankings_of_different_records_are_on_one_scale(samples):
    """Where almost nothing is explained, almost nothing counts."""
    noise = ndde.read_samples(np.random.default_rng(0).normal(size=(600, 3)).cumsum(axis=0), dt=1.0)
    totals = []
    for each in (samples, noise):
        screened = Screened(ndde.lagged_windows(each, lags=(0, 1, 2)))
        value, _ = rank(each, screened, np.zeros((3, 3)))
        totals.append(value.sum())
        explained = 1 - np.asarray(screened.found.risk)
        assert totals[-1] == pytest.approx(np.maximum(explained, 1e-6).sum(), rel=1e-6)
    assert totals[0] > 10 * totals[1]


def test_trust_weighs_the_present_against_the_past(windows, monkeypatch):
    screened, found = Screened(windows), {}
    for steepness in (0.0, 1e9):
        monkeypatch.setattr(_relevance, "STEEPNESS", steepness)
        found[steepness], _ = relevance(screened)
    now = ndde.select.spline_graph(_relevance._present(windows))
    worth = np.maximum(np.asarray(now.value).max(axis=2), np.asarray(now.source_value))
    np.testing.assert_allclose(found[0.0], _shares(worth, 0.5))
    assert np.abs(found[1e9] - found[0.0]).max() > 0.1


def chaotic(rate, start, dt, n=1000):
    """A path by the classical Runge-Kutta method, after a while."""
    x, path = np.array(start, float), []
    for _ in range(n + 200):
        first = rate(x)
        second = rate(x + dt / 2 * first)
        third = rate(x + dt / 2 * second)
        x = x + dt / 6 * (first + 2 * second + 2 * third + rate(x + dt * third))
        path.append(x)
    path = np.array(path[200:])
    return (path - path.mean(axis=0)) / path.std(axis=0)


@pytest.fixture(scope="module")
def made():
    """One variable of a system of Lorenz, one of a system of Rössler, and a sum of all six."""
    lorenz = chaotic(
        lambda x: np.array(
            [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
        ),
        (1, 2, 20),
        0.02,
    )
    roessler = chaotic(
        lambda x: np.array([-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)]),
        (1, 2, 0),
        0.1,
    )
    both = np.concatenate([lorenz, roessler], axis=1)
    total = both @ [0.8, -1.1, 0.6, 0.9, 0.7, -0.8]
    x = np.stack([lorenz[:, 0], roessler[:, 0], total], axis=1)
    return Screened(ndde.lagged_windows(x, dt=1.0, lags=(0, 2, 4, 6)))


def test_an_autonomous_variable_is_predicted_by_its_own_past(made):
    own = own_risk(made.data)
    assert own[:2].max() < 0.3 * own[2] and own.max() < 1


def test_effects_are_no_sources_of_autonomous_variables(made):
    value, _ = relevance(made)
    assert value[:2, 2].min() > 1.5 * max(value[2, :2].max(), value[0, 1], value[1, 0])


def test_the_own_past_is_fitted_by_the_best_polynomial(windows):
    """Per degree of freedom, with weights, and by fewer terms for fewer windows."""
    data = KnownData(windows)
    weight = np.linspace(0.5, 1.5, len(data.outputs))
    past, y = data.inputs[:, 1::3], data.outputs[:, 1]
    terms = {0: np.ones((len(y), 1))}
    for degree in (1, 2, 3):
        new = [
            past[:, list(t)].prod(axis=1)
            for t in itertools.combinations_with_replacement(range(3), degree)
        ]
        terms[degree] = np.column_stack([terms[degree - 1], *new])

    def left(degree, rows):
        columns, root = terms[degree][rows], np.sqrt(weight[rows])
        c = np.linalg.lstsq(columns * root[:, None], y[rows] * root, rcond=None)[0]
        rest = (weight[rows] * (y[rows] - columns @ c) ** 2).sum()
        return rest / (len(root) - columns.shape[1])

    for n, degrees in ((len(y), (1, 2, 3)), (45, (1, 2)), (10, (0,))):
        some = data.weighing(np.where(np.arange(len(y)) < n, weight, 0))
        rows = slice(n)
        expected = min(1, *(left(d, rows) / left(0, rows) for d in (0, *degrees)))
        assert own_risk(some)[1] == pytest.approx(expected, rel=1e-6)


def test_a_long_record_is_thinned_for_the_own_past(windows, monkeypatch):
    data = KnownData(windows)
    whole = own_risk(data)
    monkeypatch.setattr(_relevance, "ENOUGH", 10)
    np.testing.assert_allclose(own_risk(data), whole, atol=0.1)
    assert (own_risk(data) != whole).any()


def test_what_rounding_leaves_does_not_order_two_variables():
    weight = _relevance._autonomy_weights(np.array([0.0, 1e-9, 0.5, 0.2]))
    assert (np.diagonal(weight) == 1).all() and weight[2, 3] == weight[3, 2] == 1
    assert weight[0, 1] == pytest.approx(weight[1, 0], rel=0.02) and weight[0, 1] < 0.002
    assert weight[2, 0] < 0.002 and weight[0, 2] == pytest.approx(np.sqrt(2), abs=0.01)
