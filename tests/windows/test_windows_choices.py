"""The automatic scheme of windows and its explanation, refusals, and unusual arguments."""

import chex
import hypothesis.strategies as st
import jax
import jax.test_util
import numpy as np
import pytest
from hypothesis import given

from ndde_jax.samples._trajectories import read_lags
from ndde_jax.windows._windows import Windows, lagged_windows, stack_windows


def walk(length, dim=2):
    return np.random.default_rng(0).normal(size=(length, dim)).cumsum(axis=0)


# ------------------------------------------------------------------------- choices and refusals


def test_automatic_scheme_and_its_explanation():
    time = 0.05 * np.arange(2000)
    smooth = np.stack([np.sin(time), np.cos(0.7 * time)], axis=1)
    noise = np.random.default_rng(0).normal(size=smooth.shape).cumsum(axis=0)
    for x, scheme in (
        (smooth, "central4"),
        (smooth + 0.005 * noise, "central"),
        (smooth + noise, "euler"),
    ):
        windows = lagged_windows(x, dt=0.05, scheme="auto")
        assert windows.scheme == scheme
        text = windows.explain()
        assert f"scheme '{scheme}'" in text and f"takes '{scheme}', as was done" in text
        assert ("current velocity" in text) == (scheme == "central")
    text = lagged_windows(smooth, dt=0.05, scheme="euler").explain()
    assert "takes 'central4':" in text and "false edges" in text


def test_explanation_counts_and_scales():
    x = walk(50)
    x[20] = np.nan
    windows = lagged_windows(x, dt=0.5, lags=(0, 5))
    text = windows.explain()
    assert "41 windows of 2 variables at lags (0, 5) samples, dt = 0.5; 3 left out" in text
    assert f"by mean {np.nanmean(x[:, 0]):.3g}, {np.nanmean(x[:, 1]):.3g}" in text
    t = np.cumsum(np.random.default_rng(1).uniform(0.5, 2.0, 50))
    text = lagged_windows(x, t=t, scheme="auto").explain()
    assert "mean dt" in text and "not equally spaced" in text and "'euler'" in text
    assert "unknown" in lagged_windows(x[:5], dt=1.0).explain()
    with pytest.raises(ValueError, match="describes one system"):
        stack_windows([windows]).explain()


X = walk(30)


def with_value(value, k=4, j=1):
    x = X.copy()
    x[k, j] = value
    return x


def flat(j=1):
    x = X.copy()
    x[:, j] = 0.1
    return x


@pytest.mark.parametrize(
    "x, options, message",
    [
        (np.zeros((2, 2, 2, 2)), {"dt": 1.0}, r"got shape \(2, 2, 2, 2\)"),
        (np.array(1.0), {"dt": 1.0}, r"got shape \(\)"),
        (np.zeros((0, 2)), {"dt": 1.0}, "trajectory 0 is empty"),
        (np.zeros((0, 5, 2)), {"dt": 1.0}, "holds no trajectories"),
        ([], {"dt": 1.0}, "empty"),
        ([X, X[:0]], {"dt": 1.0}, "trajectory 1 is empty"),
        ([[1.0, 2.0], [3.0]], {"dt": 1.0}, "one rectangular array"),
        (np.array([["a", "b"]] * 9), {"dt": 1.0}, "must hold real numbers"),
        (X * 1j, {"dt": 1.0}, "must hold real numbers"),
        ({"a": X[:, 0]}, {"dt": 1.0}, r"a list of these; got \{'a'.*pandas\.DataFrame\(x\)"),
        (iter(X), {"dt": 1.0}, "a list of these; got a value of type .*iterator"),
        ("record.csv", {"dt": 1.0}, "or name a file; got 'record.csv', and no such file"),
        (X.astype(object), {"dt": 1.0}, "dtype object"),
        (with_value(np.inf), {"dt": 1.0}, "column 1 is infinite at sample 4 of trajectory 0"),
        (with_value(-np.inf), {"dt": 1.0, "names": ("u", "v")}, r"column 1 \('v'\) is infinite"),
        (flat(), {"dt": 1.0}, "column 1 of x is constant"),
        (flat(0), {"dt": 1.0, "names": ("u", "v")}, r"column 0 \('u'\) of x is constant"),
        (X, {"dt": 1.0, "names": ("u",)}, "names must be 2 different names.* 1 for 2"),
        (X[:3], {"dt": 1.0}, "only 2 windows can be built, fewer than dim"),
        (np.where(np.arange(30)[:, None] % 3 == 0, np.nan, X), {"dt": 1.0, "lags": (0, 1)},
         "only 0 valid windows remain"),
        (X * np.nan, {"dt": 1.0}, "every sample has a missing value"),
        (walk(9, dim=20), {"dt": 1.0}, r"more columns \(20\) than rows \(9\).*transposed"),
        (X.T, {"dt": 1.0, "lags": (0, 10)}, r"trajectory 0 has 2 samples.*transposed \(x.T\)"),
        (X, {"dt": 1.0, "lags": (0, 29)}, "largest lag of 29 samples .* needs at least 31"),
        ([X, X[:6]], {"dt": 1.0, "lags": (7,)}, "trajectory 1 has 6 samples, too short"),
        (X, {"dt": 1.0, "lags": (-1, 0)}, r"not negative; got \(-1, 0\)"),
        (X, {"dt": 1.0, "lags": (2, 0)}, r"ascending.*got \(2, 0\)"),
        (X, {"dt": 1.0, "lags": (0, 1, 1)}, r"unique.*got \(0, 1, 1\)"),
        (X, {"dt": 1.0, "lags": (0, 1.5)}, r"whole numbers of samples.*got \(0, 1.5\)"),
        (X, {"dt": 1.0, "lags": (False, True)}, "whole numbers"),
        (X, {"dt": 1.0, "lags": ()}, "got none"),
        (X, {}, "exactly one of dt .* got neither"),
        (X, {"dt": 1.0, "t": np.arange(30)}, "exactly one of dt .* got both"),
        (X, {"dt": 0.0}, "dt must be one positive number; got 0.0"),
        (X, {"dt": -1}, "dt must be one positive number"),
        (X, {"dt": np.nan}, "dt must be one positive number"),
        (X, {"t": np.zeros(30)}, "strictly increasing; it is not between samples 0 and 1"),
        (X, {"t": np.where(np.arange(30) == 9, np.nan, np.arange(30))}, "samples 8 and 9"),
        (X, {"t": np.arange(29.0)}, r"has 30 samples, but its stamps have shape \(29,\)"),
        ([X, X], {"t": [np.arange(30.0)] * 3}, "got 3 vectors of time stamps for 2 trajectories"),
        (X, {"t": np.arange(30).astype("datetime64[D]")}, "Convert dates to numbers"),
        (X, {"dt": 1.0, "scheme": "forward"}, "scheme must be one of .* got 'forward'"),
        (X, {"t": np.arange(30.0) ** 2, "scheme": "central"}, "needs equally spaced samples"),
        ([X, X[:, :1]], {"dt": 1.0}, "trajectory 0 has 2 columns, trajectory 1 has 1"),
    ],
)  # fmt: skip
def test_refusals(x, options, message):
    with pytest.raises(ValueError, match=message):
        lagged_windows(x, **options)


def test_refusals_under_jit():
    with pytest.raises(ValueError, match="outside and pass their scheme"):
        jax.jit(lambda x: lagged_windows(x, dt=1.0, scheme="auto"))(X)
    with pytest.raises(ValueError, match="pass dt instead of t"):
        jax.jit(lambda t: lagged_windows(X, t=t, scheme="central"))(np.arange(30.0))
    with pytest.raises(ValueError, match="too short"):
        jax.jit(lambda x: lagged_windows(x, dt=1.0, lags=(30,)))(X)


@given(st.sets(st.integers(0, 50), min_size=1))
def test_lags_of_any_integer_type(lags):
    expected = tuple(sorted(lags))
    assert read_lags(np.array(expected)) == expected
    assert read_lags(list(expected)) == expected
    assert all(type(lag) is int for lag in read_lags(np.array(expected)))


def test_windows_pass_through_jit():
    windows = lagged_windows(X, dt=1.0, lags=(0, 2))
    same = jax.jit(lambda w: w)(windows)
    assert isinstance(same, Windows)
    chex.assert_trees_all_close(same, windows)
