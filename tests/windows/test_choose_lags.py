"""Lags chosen from the data."""

import numpy as np
import pytest
from scipy.signal import lfilter

import ndde_jax as ndde
from ndde_jax.windows._choose_lags import at_every_lag


def delayed(lag, n=2000, seed=0):
    rng, x = np.random.default_rng(seed), np.zeros((n, 2))
    for k in range(lag, n - 1):
        x[k + 1] = 0.7 * x[k] + rng.normal(size=2) + [0.0, 0.6 * np.tanh(x[k - lag, 0])]
    return ndde.read_samples(x, dt=0.5, time_unit="day")


@pytest.mark.parametrize("lag", [3, 7, 11])
def test_a_short_delay_is_covered_by_every_lag_to_a_fourth_more(lag):
    lags, reason = ndde.windows.choose_lags(delayed(lag))
    assert lags == tuple(range(int(np.ceil(1.25 * lag)) + 2))
    assert f"{lag} is the largest" in reason and "day" in reason


def test_of_two_variables_seventy_five_lags_are_all_taken():
    lags, reason = ndde.windows.choose_lags(delayed(40))
    assert lags == tuple(range(52)) and "coarse" not in reason


def test_a_long_delay_is_among_few_candidates_with_its_neighbours():
    lags, reason = ndde.windows.choose_lags(delayed(60))
    assert {0, 1, 59, 60, 61} <= set(lags) and len(lags) <= 16
    assert "coarse" in reason


def test_without_delay_correlations_decide():
    rng, x = np.random.default_rng(0), np.zeros((2000, 1))
    for k in range(1999):
        x[k + 1] = 0.8 * x[k] + rng.normal()
    lags, reason = ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0))
    assert lags == tuple(range(6))  # 0.8 to the fifth is the first below 1/e
    assert "no delayed influence" in reason


def test_a_slow_source_tells_by_the_little_that_it_differs_from_the_present():
    # A temperature that follows a set point, and a melt that follows it ten samples late: of the
    # levels alone, only that of the set point is related to the residual given the present.
    rng, n = np.random.default_rng(3), 3000
    held = rng.integers(40, 120, size=n // 40)
    point = np.repeat(rng.choice([60.0, 65.0, 70.0], size=len(held)), held)[:n]
    warm, melt = np.full(n, 65.0), np.full(n, 10.0)
    for k in range(20, n - 1):
        warm[k + 1] = warm[k] + 0.08 * (point[k - 4] - warm[k]) + 0.15 * rng.normal()
        melt[k + 1] = 0.8 * melt[k] + 0.2 * (10 - 0.25 * (warm[k - 12] - 65)) + 0.05 * rng.normal()
    samples = ndde.read_samples(np.stack([point, warm, melt], axis=1), dt=10.0)
    lags, _ = ndde.windows.choose_lags(samples)
    assert {4, 12} <= set(lags)


@pytest.mark.parametrize("kind", ["lognormal", "rain", "counts"])
def test_a_few_large_values_bring_no_late_lags_and_hide_none(kind):
    rng, n = np.random.default_rng(1), 2500
    slow = lfilter([0.6], [1.0, -0.8], rng.normal(size=(n, 3)), axis=0)
    x = np.exp(1.2 * slow)
    if kind == "rain":
        x = np.where(rng.random((n, 3)) < 0.3, rng.gamma(0.6, 8.0, (n, 3)), 0.0)
    elif kind == "counts":
        x = rng.poisson(np.exp(slow)).astype(float)
    lags, reason = ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0))
    assert max(lags) < 15 and "no delayed influence" in reason
    driven = rng.normal(size=n)
    driven[9:] += 0.5 * x[:-9, 0] / x[:, 0].std()
    x[:, 2] = lfilter([1.0], [1.0, -0.7], driven)
    lags, reason = ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0))
    assert "8 is the largest" in reason  # of the rate


def test_a_path_without_noise_or_delay_gets_no_late_lags():
    step, x = 0.01, np.zeros((4000, 3))
    x[0] = 1.0, 2.0, 20.0
    for k in range(3999):
        u, v, w = x[k]
        x[k + 1] = x[k] + step * np.array([10 * (v - u), u * (28 - w) - v, u * v - 8 / 3 * w])
    lags, reason = ndde.windows.choose_lags(ndde.read_samples(x[500:], dt=step))
    assert "no delayed influence" in reason and max(lags) <= 15


@pytest.mark.parametrize("n, dim", [(60, 2), (400, 4), (1000, 8)])
def test_late_lags_of_unrelated_variables_are_as_rare_as_said(n, dim):
    late = 0
    for seed in range(20):
        rng, x = np.random.default_rng(seed), np.zeros((n, dim))
        for k in range(n - 1):
            x[k + 1] = 0.8 * x[k] + rng.normal(size=dim)
        reason = ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0))[1]
        late += "no delayed influence" not in reason
    assert late <= 1  # a chance of 1e-3 each


@pytest.mark.parametrize("rows", [150, 20], ids=["several pieces", "fewer than a piece"])
def test_inner_products_at_every_lag_are_those_of_shifted_columns(rows):
    rng, furthest = np.random.default_rng(0), 9
    late, now = rng.normal(size=(rows, 3)), rng.normal(size=(rows - furthest, 2))
    brute = [late[furthest - lag : rows - lag].T @ now for lag in range(1, furthest + 1)]
    np.testing.assert_allclose(at_every_lag(late, now, furthest), brute, atol=1e-12)


def test_what_is_too_short_gets_the_present():
    assert ndde.windows.choose_lags(
        ndde.read_samples(np.random.default_rng(0).normal(size=(8, 2)), dt=1.0)
    )[0] == (0,)


def test_of_many_variables_no_more_lags_than_a_record_can_decide_about():
    """One of sixty variables, three hundred samples each, follows another after eight samples."""
    rng, x = np.random.default_rng(0), np.zeros((300, 60))
    for k in range(8, 300):
        x[k] = 0.5 * x[k - 1] + rng.normal(size=60)
        x[k, 1] += 0.9 * x[k - 8, 0]
    lags, _ = ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0))
    assert 0 in lags and 7 in lags
    assert 60 * len(lags) <= 300 - max(lags) - 1
