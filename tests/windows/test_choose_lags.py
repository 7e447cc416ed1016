"""Lags chosen from the data."""

import numpy as np
import pytest

import ndde_jax as ndde


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


def test_what_is_too_short_gets_the_present():
    assert ndde.windows.choose_lags(
        ndde.read_samples(np.random.default_rng(0).normal(size=(8, 2)), dt=1.0)
    )[0] == (0,)
