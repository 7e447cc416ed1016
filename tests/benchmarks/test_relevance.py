"""The method `relevance`: strengths against nested regressions, and when the past is asked."""

import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks.causal_dynamics.methods import METHODS
from benchmarks.causal_dynamics.relevance import (
    least_strength,
    strengths_now,
    strengths_of_past,
    trust_in_present,
)
from benchmarks.causal_dynamics.settings import settings_for


def relevance(x, dt):
    (found,) = METHODS["relevance"]([x], dt, settings_for("simple/default"), key=jr.key(0))
    return found


def worth(x, target):
    """What a linear model of x[k + 1, target] − x[k, target] loses without each source, and the
    share of the variance that it leaves.
    """
    api, rises = pytest.importorskip("statsmodels.api"), []
    for source in range(x.shape[1]):
        full, rest = (
            api.OLS(np.diff(x[:, target]), api.add_constant(x[:-1, kept])).fit()
            for kept in (slice(None), np.arange(x.shape[1]) != source)
        )
        rises.append((rest.ssr - full.ssr) / full.centered_tss)
    return np.array(rises), full.ssr / full.centered_tss


def test_strengths_of_linear_effects_are_those_of_nested_regressions():
    """x1 leans on x0."""
    rng, drift = np.random.default_rng(0), np.array([[-1, 0, 0], [0.6, -1, 0], [0, 0.1, -1]])
    x = np.zeros((1500, 3))
    for k in range(len(x) - 1):
        x[k + 1] = x[k] + 0.5 * drift @ x[k] + 0.3 * rng.normal(size=3)
    rises, risk = worth(x, 1)
    for method, exponent in ((strengths_now, 0.5), (strengths_of_past, 1.0)):
        found = method(ndde.lagged_windows(x, dt=0.5))
        assert found.status == "ok"
        expected = np.sqrt(rises / rises.sum() ** exponent)
        np.testing.assert_allclose(found.value[:2, 1], expected[:2], rtol=5e-3)
        np.testing.assert_allclose(found.risk[1], risk, rtol=5e-3)


@pytest.mark.slow
def test_linear_strengths_have_no_say_where_effects_are_bent():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 2))
    for k in range(len(x) - 1):
        x[k + 1, 1] = 3 * np.cos(2 * x[k, 0]) + 0.05 * rng.normal()
    windows = ndde.lagged_windows(x, dt=1.0)
    value = np.asarray(ndde.select.spline_graph(windows).value)[:, 1, 0]
    found = strengths_of_past(windows)
    np.testing.assert_allclose(found.value[:, 1], np.sqrt(value / value.sum()), rtol=0.05)


def test_trust_falls_with_what_the_past_adds():
    """1 where it adds nothing, whatever the noise; 4 powers of the mean ratio of risks."""
    rest = np.array([0.9, 0.2, 0.001])
    assert trust_in_present(rest, rest) == 1
    assert trust_in_present(rest, rest + 0.05) == 1  # worse with the past: chance
    halved = (rest + 0.1) / 2 - 0.1
    np.testing.assert_allclose(trust_in_present(rest, halved), 2**-4)
    one = np.array([0.9, 0.2, (0.001 + 0.1) / 4 - 0.1])
    np.testing.assert_allclose(trust_in_present(rest, one), 4 ** (-4 / 3))


def test_stand_ins_must_be_worth_more():
    """Where the present tells all, or nobody else is there, as much as anything worth naming."""
    least = least_strength(1.0, 10)
    assert least == least_strength(0.0, 2) == least_strength(0.0, 1)
    assert least < least_strength(0.5, 10) < least_strength(0.0, 10) < 1
    assert least_strength(0.0, 4) < least_strength(0.0, 10)


def driven(delay):
    """x0 forgets itself, x1 follows what x0 was so many samples ago."""
    rng = np.random.default_rng(0)
    x = np.zeros((1000, 2))
    for k in range(delay, len(x) - 1):
        x[k + 1, 0] = 0.6 * x[k, 0] + rng.normal()
        x[k + 1, 1] = 0.8 * x[k, 1] + 0.5 * x[k - delay, 0] + 0.3 * rng.normal()
    return x


def test_the_past_is_asked_where_it_tells_more():
    for delay in (0, 5):
        x = driven(delay)
        found = relevance(x, 1.0)
        assert found.status == "ok"
        np.testing.assert_array_equal(found.graph, [[1, 1], [0, 1]])
        present = strengths_now(ndde.lagged_windows(x, dt=1.0, scheme="auto")).value
        if delay:  # the present sees little of it, and shares are asked for more than present.value
            shares = strengths_of_past(ndde.lagged_windows(x, dt=1.0, lags=(0, 5, 10))).value
            assert rank(found.scores) == rank(shares) and present[0, 1] < shares[0, 1] - 0.3
        else:
            assert rank(found.scores) == rank(present)
            np.testing.assert_allclose(found.scores, present / (present + 0.12), atol=0.05)
        np.testing.assert_array_equal(found.graph, found.scores > 0.5)


def rank(scores):
    return scores.ravel().argsort().tolist()
