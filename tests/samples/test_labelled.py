"""Names, values and time axes from pandas and xarray objects."""

import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.samples._reading import read_labelled

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")

VALUES = np.array([[1.0, 10.0], [2.0, np.nan], [3.0, 30.0], [5.0, 50.0]])
NAMES = ("a", "b")


def frame(index=None):
    return pd.DataFrame(VALUES, columns=NAMES, index=index)


def read(x, **options):
    found = read_labelled(x, **options)
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.names == NAMES
    return found.dt, None if found.t is None else found.t.tolist(), found.time_unit


@pytest.mark.parametrize("x", [VALUES, jnp.asarray(VALUES), [VALUES, VALUES], [1.0, 2.0]])
def test_anything_else_passes_through_untouched(x):
    found = read_labelled(x)
    assert found.values is x
    assert found[1:] == (None, None, None, "", (), ())


@pytest.mark.parametrize(
    "index, expected",
    [
        (pd.date_range("2001-01-01", periods=4, freq="MS"), (1.0, None, "month")),
        (pd.date_range("2001-01-31", periods=4, freq="ME"), (1.0, None, "month")),
        (pd.date_range("2001-01-01", periods=4, freq="MS", tz="UTC"), (1.0, None, "month")),
        (pd.period_range("2001-01", periods=4, freq="Q"), (3.0, None, "month")),
        (pd.period_range("2001", periods=4, freq="Y"), (1.0, None, "year")),
        (pd.date_range("2001-01-01", periods=4, freq="6h"), (6.0, None, "hour")),
        (pd.to_timedelta([0, 12, 24, 36], "h"), (12.0, None, "hour")),
        (pd.Index([0.0, 0.25, 0.5, 0.75]), (0.25, None, "")),
        (pd.Index([3, 5, 7, 9]), (2.0, None, "")),
        (pd.Index([0.0, 1.0, 2.0, 4.0]), (None, [0.0, 1.0, 2.0, 4.0], "")),
        (
            pd.to_datetime(["2001-01-01", "2001-01-02", "2001-01-03", "2001-01-05"]),
            (None, [0.0, 1.0, 2.0, 4.0], "day"),
        ),
        (None, (None, None, "")),  # a row count has no information about time
        (pd.Index(["p", "q", "r", "s"]), (None, None, "")),
    ],
)
def test_pandas_index(index, expected):
    assert read(frame(index)) == expected


def test_pandas_series_and_unnamed_columns():
    series = pd.Series([1.0, 2.0], name="a", index=[0.0, 0.5])
    found = read_labelled(series)
    assert found.values.shape == (2, 1)
    assert found[1:] == (("a",), 0.5, None, "", (), ())
    assert read_labelled(series.rename(None)).names is None
    assert read_labelled(pd.DataFrame(VALUES)).names is None


def test_pandas_missing_values_and_types_become_floats():
    x = pd.DataFrame(
        {
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "small": np.array([1, 2, 3], np.int8),
            "flag": [True, False, True],
        }
    )
    found = read_labelled(x)
    assert found.values.dtype == float
    np.testing.assert_array_equal(found.values, [[1, 1, 1], [np.nan, 2, 0], [3, 3, 1]])


def test_pandas_duplicate_columns_keep_their_values():
    found = read_labelled(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    np.testing.assert_array_equal(found.values, [[1, 2]])
    assert found.names == ("a", "a")


@pytest.mark.parametrize("missing", [None, np.nan, ""])
def test_a_column_without_a_name_among_others_is_called_by_its_place(missing):
    assert read_labelled(frame().set_axis(["a", missing], axis=1)).names == ("a", "column 2")


@pytest.mark.parametrize("column", [["x", "y"], [1j, 2j], pd.to_datetime(["2001", "2002"])])
def test_pandas_columns_that_are_no_numbers_are_named(column):
    x = pd.DataFrame({"fine": [1.0, 2.0], "station": column})
    with pytest.raises(ValueError, match=r"real numbers; station do not.*\[recording, time\]"):
        read_labelled(x)


def test_frames_and_arrays_are_no_list_of_recordings():
    """Before, columns of the frames were matched by position."""
    with pytest.raises(ValueError, match="frames or arrays, not both"):
        read_labelled([frame(), frame()[["b", "a"]], VALUES])


def test_recordings_count_time_in_the_unit_of_the_first():
    """An interval of days is not one of hours, whatever each is called."""
    hourly, daily, monthly = (
        frame(pd.date_range("2001-01-01", periods=4, freq=freq)) for freq in ("6h", "D", "MS")
    )
    found = read_labelled([daily, frame(pd.date_range("2001-01-01", periods=4, freq="24h"))])
    assert (found.dt, found.time_unit) == (1.0, "day")
    with pytest.raises(ValueError, match=r"every 1 day, number 1 every 0\.25 days\. Resample"):
        read_labelled([daily, hourly])
    found = read_labelled([hourly, frame(pd.Index(hourly.index[:3].union(daily.index[1:2])))])
    assert found.time_unit == "hour" and found.t[1].tolist() == [0, 6, 12, 24]
    with pytest.raises(ValueError, match="in days, number 1 in months"):
        read_labelled([daily, monthly])


def test_time_axis_is_ignored_on_request():
    """With an explicit dt the index may be anything, even unordered."""
    assert read(frame(pd.Index([3.0, 1.0, 2.0, 0.0])), time=False) == (None, None, "")
    with pytest.raises(ValueError, match="strictly increasing"):
        read_labelled(frame(pd.Index([3.0, 1.0, 2.0, 0.0])))


def test_empty_frame_has_no_time_axis():
    x = pd.DataFrame({"a": np.zeros(0)}, index=pd.DatetimeIndex([]))
    assert read_labelled(x)[2:] == (None, None, "", (), ())


@pytest.mark.parametrize("dims", [("time", "place"), ("place", "time")])
def test_xarray_array_in_either_orientation(dims):
    stamps = pd.date_range("2001-01-01", periods=4, freq="D")
    x = xr.DataArray(VALUES, dims=("time", "place"), coords={"time": stamps, "place": list(NAMES)})
    assert read(x.transpose(*dims)) == (1.0, None, "day")


def test_xarray_time_is_recognised_by_name_then_by_dates_then_by_place():
    dates = pd.date_range("2001-01-01", periods=4, freq="YS")
    x = xr.DataArray(VALUES.T, dims=("v", "when"), coords={"when": dates, "v": list(NAMES)})
    assert read(x) == (1.0, None, "year")
    x = xr.DataArray(VALUES, dims=("row", "v"), coords={"row": [0, 2, 4, 6], "v": list(NAMES)})
    assert read(x) == (2.0, None, "")
    x = xr.DataArray(VALUES.T, dims=("v", "T"), coords={"v": list(NAMES)})
    assert read(x) == (None, None, "")


def test_xarray_dataset_and_series():
    stamps = np.arange(4) * 0.5
    data = xr.Dataset(
        {name: ("t", VALUES[:, j]) for j, name in enumerate(NAMES)}, coords={"t": stamps}
    )
    assert read(data) == (0.5, None, "")
    found = read_labelled(data["a"])
    assert found.names == ("a",)
    np.testing.assert_array_equal(found.values, VALUES[:, :1])
    assert found.dt == 0.5
    assert read_labelled(xr.DataArray(VALUES[:, 0], dims="variable")).names is None


def test_xarray_numeric_labels_become_names():
    x = xr.DataArray(VALUES, dims=("time", "depth"), coords={"depth": [5, 10]})
    assert read_labelled(x).names == ("depth5", "depth10")
    assert read_labelled(xr.DataArray(VALUES, dims=("time", "depth"))).names == ("depth0", "depth1")


@pytest.mark.parametrize("dims", [("member", "time", "v"), ("v", "time", "member")])
def test_xarray_members_are_recordings(dims):
    x = xr.DataArray([VALUES, 2 * VALUES], dims=("member", "time", "v"), coords={"v": list(NAMES)})
    found = read_labelled(x.transpose(*dims))
    assert found.names == NAMES
    np.testing.assert_array_equal(found.values, [VALUES, 2 * VALUES])


def test_xarray_cells_are_named_by_their_parts():
    x = xr.DataArray(
        np.zeros((3, 2, 2)), dims=("y", "time", "v"), coords={"v": list(NAMES), "y": [1, 2, 3]}
    )
    assert read_labelled(x.stack(cell=("v", "y"))).names[:2] == ("a 1", "a 2")


def test_xarray_durations_and_irregular_stamps():
    hours = np.array([0, 1, 2, 3], "timedelta64[h]").astype("timedelta64[ns]")
    x = xr.DataArray(VALUES, dims=("time", "v"), coords={"time": hours, "v": list(NAMES)})
    assert read(x) == (1.0, None, "hour")
    x = x.assign_coords(time=[0.0, 1.0, 2.0, 4.0])
    assert read(x) == (None, [0.0, 1.0, 2.0, 4.0], "")


@pytest.mark.parametrize(
    "x, message",
    [
        (xr.DataArray(np.zeros((4, 2, 2)), dims=("y", "time", "x")), r"x.stack\(cell=\('y', 'x'\)"),
        (
            xr.Dataset({name: (("time", "y"), VALUES) for name in NAMES}),
            r"x\.to_dataarray\(\)\.stack\(cell=\('variable', 'y'\)\)",
        ),
        (xr.DataArray(np.zeros(()), dims=()), "at most one for variables"),
        (xr.DataArray(np.array(["a", "b"]), dims="time"), "real numbers; got dtype"),
        (xr.DataArray(np.array([1j, 2j]), dims="time"), "real numbers; got dtype complex"),
        (
            xr.DataArray(np.zeros(2), dims="time", coords={"time": ["early", "late"]}),
            "cannot read the time axis.*Pass dt",
        ),
        (
            xr.DataArray(np.zeros(2), dims="time", coords={"time": [1.0, 0.0]}),
            "strictly increasing",
        ),
    ],
)
def test_xarray_refusals(x, message):
    with pytest.raises(ValueError, match=message):
        read_labelled(x)


@pytest.mark.parametrize("freq", ["ms", "us"])
def test_a_record_shorter_than_a_second_has_an_interval(freq):
    index = pd.date_range("2001-01-01", periods=600, freq=freq)
    samples = ndde.read_samples(pd.DataFrame({"a": np.arange(600.0) % 7}, index=index))
    assert (samples.dt, samples.time_unit) == ({"ms": 1e-3, "us": 1e-6}[freq], "second")


def test_a_time_unit_converts_the_interval_of_dates():
    hourly = frame(pd.date_range("2001-01-01", periods=4, freq="h"))
    samples = ndde.read_samples(hourly, time_unit="min")
    assert (samples.dt, samples.time_unit) == (60.0, "min")
    uneven = frame(pd.DatetimeIndex(["2001-01-01", "2001-01-02", "2001-01-08", "2001-01-09"]))
    assert ndde.read_samples(uneven, time_unit="hour").times[0].tolist() == [0, 24, 168, 192]
    with pytest.raises(ValueError, match="in the unit 'hour', can be converted; got 'month'"):
        ndde.read_samples(hourly, time_unit="month")
    with pytest.raises(ValueError, match="that of x, 'hour'; got 'min'"):
        ndde.read_samples(ndde.read_samples(hourly), time_unit="min")


def test_an_index_of_dates_in_text_is_the_time_and_of_names_is_none():
    dates = pd.date_range("2001-01-01", periods=4, freq="6h")
    assert read(frame(pd.Index(dates.astype(str)))) == read(frame(dates))
    assert read(frame(pd.Index(["a", "b", "c", "d"]))) == (None, None, "")


def test_groups_of_a_frame_are_refused():
    with pytest.raises(ValueError, match=r"DataFrame, a Series, or a list .* DataFrameGroupBy"):
        read_labelled(frame(pd.RangeIndex(4)).groupby(level=0))
