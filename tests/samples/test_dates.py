"""Dates of records that have them, from reading to findings and forecasts."""

import jax
import numpy as np
import pandas as pd
import pytest

import ndde_jax as ndde
from ndde_jax.samples._dates import dates_after, elapsed, written
from ndde_jax.samples._lag_times import lags_in_samples


def wandering(n, seed=0):
    """Return two variables of which the first drives the second, and is louder in the end."""
    x = np.random.default_rng(seed).normal(size=(n, 2))
    for k in range(1, n):
        x[k] += 0.5 * x[k - 1] + np.array([0.0, 0.5 * x[k - 1, 0]])
    x[n // 2 :, 0] *= 3
    return x


@pytest.mark.parametrize(
    "start, freq, unit, said",
    [
        ("1950-01-31", "ME", "month", "1952-01"),
        ("1950-01-01", "YS", "year", "1974"),
        ("2001-03-25", "D", "day", "2001-04-18"),
        ("2001-03-24", "15min", "minute", "2001-03-24 06:00"),
        ("2021-01-04", "B", "working day", "2021-02-05"),
        ("2001-03-24", "500ms", "second", "2001-03-24 00:00:12"),
    ],
)
def test_dates_are_those_of_the_container(start, freq, unit, said):
    index = pd.date_range(start, periods=25, freq=freq)
    samples = ndde.read_samples(pd.DataFrame({"a": range(25), "b": range(25)}, index=index))
    assert samples.time_unit == unit
    dates = samples.dates(samples.times[0])
    np.testing.assert_array_equal(dates, index.to_numpy().astype(dates.dtype))
    assert (
        samples.when(-1) == said == written(dates_after(str(index[0]), samples.times[0], unit)[-1])
    )
    assert elapsed(str(index[0]), str(index[-1]), unit) == samples.times[0][-1]


@pytest.fixture(scope="module")
def scattered():
    """Half-hours, each up to five minutes early or late, nine of them missing."""
    late = np.random.default_rng(0).integers(-300, 300, 400)
    index = pd.date_range("2021-01-01", periods=400, freq="30min") + pd.to_timedelta(late, "s")
    frame = pd.DataFrame(wandering(400), columns=["a", "b"], index=index)
    return frame.drop(index[200:209])


def test_stamps_that_scatter_have_the_step_of_their_grid(scattered):
    prepared = ndde.prepare_samples(ndde.read_samples(scattered))
    assert prepared.regular and prepared.dt * 48 == pytest.approx(1, rel=1e-12)
    assert lags_in_samples("0:24h:6h", prepared) == (0, 12, 24, 36, 48)
    first = scattered.index[0]
    dates = [f"{first + pd.Timedelta(hours=hours):%Y-%m-%d %H:%M}" for hours in (5, 5.5)]
    assert [prepared.when(k) for k in (10, 11)] == dates


@pytest.mark.slow
def test_forecasts_of_stamps_that_scatter_are_dated_to_the_minute(scattered):
    found = ndde.discover(scattered, lags=(0, 1), recipe=ndde.Recipe.fast(), key=jax.random.key(0))
    made = found.forecast("6h", paths=4, key=jax.random.key(0))
    assert len(made.ts) == 12 and made.to_frame()["date"].nunique() == 12
    assert ":" in repr(found.forecast(1, paths=4, key=jax.random.key(0))).splitlines()[0]


@pytest.mark.parametrize("step, unit", [(1.0, "h"), (0.25, ""), (7.0, "day"), (1.5, "min")])
def test_the_step_behind_a_scatter_is_as_round_as_its_error_allows(step, unit):
    t = step * (np.arange(300) + np.random.default_rng(0).uniform(-0.2, 0.2, 300))
    read = ndde.read_samples(wandering(300), t=t, time_unit=unit)
    prepared = ndde.prepare_samples(read, steps=("clock",))
    assert prepared.regular and prepared.dt == pytest.approx(step, rel=1e-12)


def test_no_date_is_made_up():
    index = pd.date_range("1950-01-01", periods=30, freq="MS")
    frame = pd.DataFrame({"a": range(30)}, index=index)
    for samples in (
        ndde.read_samples(frame, dt=1.0),
        ndde.read_samples(frame, time_unit="year"),
        ndde.read_samples(frame.reset_index(drop=True), dt=1.0, time_unit="month"),
        ndde.read_samples(frame.set_index(np.arange(30) / 12 + 1950)),
    ):
        assert samples.dates(samples.times[0]) is None
        assert samples.when(0) == ""


def test_uneven_dates_and_several_recordings_keep_their_own():
    parts = []
    for start in ("2001-05-01", "2010-01-01"):
        days = np.array([0, 1, 3.5, 4, 7, 8.25])
        index = pd.Timestamp(start) + pd.to_timedelta(days, unit="D")
        parts.append(pd.DataFrame({"a": days}, index=index))
    samples = ndde.read_samples(parts)
    assert [samples.when(-1, k) for k in (0, 1)] == ["2001-05-09", "2010-01-09"]


def test_findings_name_dates():
    x = wandering(720)
    x[100:112, 1] = np.nan
    index = pd.date_range("1950-01-01", periods=720, freq="MS")
    dated = ndde.read_samples(pd.DataFrame(x, columns=["a", "b"], index=index))
    texts = {one.name: one.text for one in ndde.data_findings(dated)}
    place = int(texts["change of regime"].split("%")[0].split(", ")[-1]) / 100
    month = texts["change of regime"].split("in about ")[1][:7]
    assert abs(
        np.datetime64(month) - index[int(place * 720)].to_numpy().astype("M8[M]")
    ) < np.timedelta64(8, "M")
    assert "the longest gap spans 12 samples, 1958-05 to 1959-04." in texts["missing stretch"]
    plain = ndde.read_samples(x, dt=1.0, names=("a", "b"), time_unit="month")
    texts = {one.name: one.text for one in ndde.data_findings(plain)}
    assert "changes after about" in texts["change of regime"]
    assert "the longest gap spans 12 samples. " in texts["missing stretch"]


@pytest.fixture(scope="module")
def found():
    index = pd.date_range("1950-01-01", periods=300, freq="MS")
    frame = pd.DataFrame(wandering(300), columns=["a", "b"], index=index)
    return ndde.discover(frame, lags=(0, 1), recipe=ndde.Recipe.fast(), key=jax.random.key(0))


@pytest.mark.slow
def test_reports_and_forecasts_speak_of_dates(found):
    assert "from 1950-01 to 1974-12" in found.report(full=True)
    made = found.forecast(24, paths=10, key=jax.random.key(1))
    assert "from 1975-01 to 1976-12;" in repr(made)
    frame = made.to_frame()
    assert frame.date.iloc[0] == "1975-01"
    assert frame.date.iloc[-1] == "1976-12"
    (line,) = (line for line in made.plot().axes[0].lines if line.get_label() == "measured")
    assert line.get_xdata()[-1] == np.datetime64("1974-12")


def test_a_dated_history_is_on_the_clock_of_the_record(found):
    """Otherwise a season that was removed returns out of phase."""
    index = pd.date_range("1990-06-01", periods=10, freq="MS")
    history = pd.DataFrame(wandering(10), columns=["a", "b"], index=index)
    history = ndde.read_samples(history)
    made = found.forecast(2, paths=5, history=history, key=jax.random.key(1))
    assert "from 1991-04 to 1991-05;" in repr(made)
    assert made.ts[0] == 12 * 41 + 3


def test_update_goes_on_and_stores_keep_dates(found, tmp_path):
    longer = found.update(wandering(12, seed=1))
    assert longer.samples.when(-1) == "1975-12"
    found.save(tmp_path / "found")
    assert ndde.Discovery.load(tmp_path / "found").samples.when(-1) == "1974-12"
