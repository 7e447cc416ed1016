"""All containers of data make the same windows."""

import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde

from .small import DT, LAGS, NAMES, X, assert_same_scores, assert_same_windows, discover


@pytest.mark.parametrize(
    "x",
    [jnp.asarray(X), [X], X[None], X.tolist()],
    ids=["jax", "list of one", "series axis", "nested lists"],
)
def test_arrays_of_every_kind(x, found, windows_of):
    assert_same_windows(windows_of(x, dt=DT), found.windows)


def test_several_trajectories(windows_of):
    parts = [X[:80], X[80:]]
    expected = ndde.lagged_windows(parts, dt=DT, lags=LAGS)
    assert_same_windows(windows_of(parts, dt=DT), expected)
    assert expected.valid.shape == (77 + 117,)


def test_pandas_end_to_end(found):
    pd = pytest.importorskip("pandas")
    index = pd.date_range("1990-01-01", periods=len(X), freq="MS")
    same = discover(pd.DataFrame(X, columns=NAMES, index=index))
    assert (same.names, same.dt, same.time_unit) == (NAMES, 1.0, "month")
    np.testing.assert_array_equal(same.graph, found.graph)
    assert_same_scores(same.scores, found.scores)
    assert "driver → driven" in same.report()


def test_pandas_numeric_and_irregular_index(found, windows_of):
    pd = pytest.importorskip("pandas")
    stamps = DT * np.arange(len(X))
    assert_same_windows(windows_of(pd.DataFrame(X, index=stamps)), found.windows)
    stamps = stamps + 0.1 * np.sin(np.arange(len(X)))
    irregular = windows_of(pd.DataFrame(X, index=stamps), treat=False)
    assert_same_windows(irregular, ndde.lagged_windows(X, t=stamps, lags=LAGS))
    assert np.ptp(irregular.weight) > 0.1


def test_pandas_series(windows_of):
    pd = pytest.importorskip("pandas")
    series = pd.Series(X[:, 1], index=DT * np.arange(len(X)), name="driver")
    assert_same_windows(windows_of(series), ndde.lagged_windows(X[:, 1], dt=DT, lags=LAGS))


def test_xarray(found, windows_of):
    xr = pytest.importorskip("xarray")
    coords = {"time": DT * np.arange(len(X)), "v": list(NAMES)}
    array = xr.DataArray(X, dims=("time", "v"), coords=coords)
    dataset = array.to_dataset(dim="v")
    for x in (array, array.T, dataset):
        assert_same_windows(windows_of(x), found.windows)


def test_names_of_containers_are_kept_and_can_be_replaced(found):
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(X, dims=("time", "v"), coords={"v": list(NAMES)})
    kept = discover(array, dt=DT)
    assert (kept.names, kept.time_unit) == (NAMES, "")
    np.testing.assert_array_equal(kept.scores, found.scores)
    assert discover(array, dt=DT, names=["p", "q"]).names == ("p", "q")
    assert discover(X, dt=DT).names == ("x0", "x1")


def test_explicit_times_override_those_of_the_container(found, windows_of):
    pd = pytest.importorskip("pandas")
    dates = pd.date_range("1990-01-01", periods=len(X), freq="MS")
    x = pd.DataFrame(X, columns=NAMES, index=dates)
    assert_same_windows(windows_of(x, dt=DT), found.windows)
    assert_same_windows(windows_of(x, t=DT * np.arange(len(X))), found.windows)
    # Then the index may be anything.
    shuffled = x.set_axis(np.random.default_rng(0).permutation(len(X)), axis=0)
    assert_same_windows(windows_of(shuffled, dt=DT), found.windows)
