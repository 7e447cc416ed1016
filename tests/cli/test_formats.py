"""The files that the command line reads, and their time stamps."""

import importlib.metadata
import importlib.util

import numpy as np
import pytest

from ndde_jax.samples._clock import sampling
from ndde_jax.samples._tables import read_table

from .small import EXPECTED, run, write


@pytest.mark.parametrize(
    "text",
    [
        "month,a,b\n2001-01,1,10\n2001-02,,20\n2001-03,3,30\n2001-04,4,nan\n",
        "# a comment\nanything;a;b\n2001/01;1;10\n2001/02;NA;20\n2001/03;3;30\n2001/04;4;-\n",
        "date\ta\tb\n200101\t1\t10\n200102\t.\t20\n200103\t3\t30\n200104\t4\tnull\n",
        "\ufeffDate,a,b\r\n2001-01-31,1,10\r\n2001-02-28,,20\r\n2001-03-31,3,30\r\n2001-04-30,4,",
    ],
)
def test_csv_dialects(text, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    found = read_table(path)
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, EXPECTED)
    dt, unit, _ = sampling(found.stamps)
    assert (dt, unit) == (1.0, "month")


def test_csv_without_header_or_time(tmp_path):
    found = read_table(write(tmp_path / "x.txt", "1  10\nnan 20\n3  30\n4 nan\n"))
    assert (found.names, found.stamps) == (("x0", "x1"), None)
    np.testing.assert_array_equal(found.values, EXPECTED)
    one = read_table(write(tmp_path / "y.csv", "1.5\n2e3\n"))
    np.testing.assert_array_equal(one.values, [[1.5], [2000]])


def test_a_column_of_numbers_is_no_time_unless_named_so(tmp_path):
    path = write(tmp_path / "x.csv", "k,a\n0,5\n2,6\n4,7\n")
    assert read_table(path).names == ("k", "a")
    found = read_table(path, time_column="k")
    assert found.names == ("a",)
    assert sampling(found.stamps)[:2] == (2.0, "")
    index = read_table(write(tmp_path / "y.csv", ",a\n0,5\n1,6\n"))
    assert index.names == ("a",)


def test_npz(tmp_path):
    x = np.array(EXPECTED)
    np.savez(tmp_path / "x.npz", x=x, other=x[:2], names=np.array(["a", "b"]), dt=0.25)
    found = read_table(tmp_path / "x.npz")
    assert (found.names, found.dt) == (("a", "b"), 0.25)
    np.testing.assert_array_equal(found.values, x)
    assert read_table(tmp_path / "x.npz", key="other").values.shape == (2, 2)
    np.savez(tmp_path / "y.npz", y=x)
    assert read_table(tmp_path / "y.npz").names == ("x0", "x1")
    with pytest.raises(ValueError, match=r"no array 'z'; it has: x, other"):
        read_table(tmp_path / "x.npz", key="z")
    np.savez(tmp_path / "z.npz", x=np.zeros((2, 3, 4, 5)))
    with pytest.raises(ValueError, match=r"shape \[time dim\]; got \(2, 3, 4, 5\)"):
        read_table(tmp_path / "z.npz")
    np.savez(tmp_path / "series.npz", x=np.arange(24.0).reshape(2, 3, 4))
    series = read_table(tmp_path / "series.npz")
    first, second = (series.values[rows] for rows in series.recordings)
    np.testing.assert_array_equal(first, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(second, 12 + np.arange(12.0).reshape(3, 4))


def test_npz_brings_its_sampling_interval(tmp_path, calls):
    np.savez(tmp_path / "x.npz", x=np.zeros((5, 2)), dt=0.25)
    assert run("discover", tmp_path / "x.npz", "--out", tmp_path, "--no-plot", "--quiet") == 0
    assert calls[0][1]["dt"] == 0.25


@pytest.mark.parametrize("index", [True, False])
def test_parquet(index, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    stamps = pandas.date_range("2001-01-01", periods=4, freq="MS", name="when" if index else "date")
    frame = pandas.DataFrame(EXPECTED, columns=["a", "b"], index=stamps)
    (frame if index else frame.reset_index()).to_parquet(tmp_path / "x.parquet")
    found = read_table(tmp_path / "x.parquet")
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, EXPECTED)
    assert sampling(found.stamps)[:2] == (1.0, "month")


def test_netcdf(tmp_path):
    xarray = pytest.importorskip("xarray")
    if not any(map(importlib.util.find_spec, ("netCDF4", "h5py"))):
        pytest.skip("needs netCDF4 or h5py")
    x = np.array(EXPECTED)
    time = np.arange("2001-01", "2001-05", dtype="datetime64[M]").astype("datetime64[ns]")
    data = xarray.Dataset(
        {"a": ("time", x[:, 0]), "b": ("time", x[:, 1])}, coords={"time": time}
    )  # fmt: skip
    data.to_netcdf(tmp_path / "x.nc")
    found = read_table(tmp_path / "x.nc")
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.values, x)
    assert sampling(found.stamps)[:2] == (1.0, "month")

    matrix = xarray.DataArray(x.T, coords={"index": ["a", "b"], "time": time})
    xarray.Dataset({"m": matrix}).to_netcdf(tmp_path / "y.nc")
    for key in (None, "m"):
        found = read_table(tmp_path / "y.nc", key=key)
        assert found.names == ("a", "b")
        np.testing.assert_array_equal(found.values, x)
    with pytest.raises(ValueError, match="no variable 'z'"):
        read_table(tmp_path / "y.nc", key="z")


# ---- time stamps ----


@pytest.mark.parametrize(
    ("start", "step", "expected"),
    [
        ("2001-01-01", np.timedelta64(1, "D"), (1.0, "day")),
        ("2001-01-01", np.timedelta64(7, "D"), (7.0, "day")),
        ("2001-01-01T00:00", np.timedelta64(6, "h"), (6.0, "hour")),
        ("2001-01-01T00:00", np.timedelta64(90, "m"), (90.0, "minute")),
        ("2001-01-01T00:00", np.timedelta64(9, "s"), (9.0, "second")),
        ("2001-01", np.timedelta64(3, "M"), (3.0, "month")),
        ("2001-01", np.timedelta64(24, "M"), (2.0, "year")),
    ],
)
def test_sampling_of_regular_dates(start, step, expected):
    stamps = np.datetime64(start) + step * np.arange(50)
    dt, unit, times = sampling(stamps)
    assert (dt, unit) == expected
    np.testing.assert_allclose(times, dt * np.arange(50))


def test_sampling_of_irregular_and_rounded_stamps():
    dates = np.array(["2001-01-01", "2001-01-02", "2001-01-05"], dtype="datetime64[D]")
    dt, unit, times = sampling(dates)
    assert (dt, unit) == (None, "day")
    np.testing.assert_array_equal(times, [0, 1, 4])
    assert sampling(np.round(np.arange(100) / 3, 5))[0] == pytest.approx(1 / 3, rel=1e-4)
    for stamps in ([0.0, 1.0, 1.0], [0.0], [3.0, 2.0, 1.0]):
        with pytest.raises(ValueError, match="strictly increasing"):
            sampling(np.array(stamps))
