"""Intended meanings of files as users have them: three of each kind, and the right result."""

import datetime
import io
import json
import time

import jax
import numpy as np
import pandas as pd
import pytest

import ndde_jax as ndde
from ndde_jax.samples._clock import sampling
from ndde_jax.samples._columns import codes_of, find_spikes, is_clock, is_event
from ndde_jax.samples._dates import read_dates
from ndde_jax.samples._prepare import without_counters
from ndde_jax.samples._tables import read_table, rows_of_months
from tests.check.test_data_findings import oscillators

X = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0).round(3)
ROWS = [f"{a},{b}" for a, b in X]


def read(tmp_path, text, name="x.csv", **options):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_table(tmp_path / name, **options)


def clock(found, rows=slice(None)):
    return sampling(found.stamps[rows])[:2]


# ---- headers, marks, units ----


@pytest.mark.parametrize(
    "text, names",
    [
        (pd.DataFrame(X).to_csv(), ("0", "1")),
        (pd.DataFrame(X).to_csv(index=False), ("0", "1")),
        ("," + "101,205\n" + "\n".join(f"{i},{row}" for i, row in enumerate(ROWS)), ("101", "205")),
        ('"a","b"\n' + "\n".join(f'"{i}",{row}' for i, row in enumerate(ROWS, 1)), ("a", "b")),
        ("# made today\n# a,b\n# m,s\n" + "\n".join(ROWS), ("a", "b")),
        ("Gauge 12, upper river\n\nmade 2021\na,b\n" + "\n".join(ROWS), ("a", "b")),
        ("a,b\nm3/s,°C\n" + "\n".join(ROWS), ("a", "b")),
        ("a,b,notes\n" + "\n".join(f"{row}," for row in ROWS), ("a", "b")),
        ("a,b\n" + "\n".join(f"{row}," for row in ROWS), ("a", "b")),
        ("\n".join(ROWS), ("x0", "x1")),
        ("a  b\n" + "\n".join(row.replace(",", "   ") for row in ROWS), ("a", "b")),
    ],
)
def test_names_stand_over_numbers(text, names, tmp_path):
    found = read(tmp_path, text)
    assert found.names == names
    np.testing.assert_allclose(found.values, X)


def test_numbers_may_be_names_or_a_sample_and_an_option_decides(tmp_path):
    text = pd.DataFrame(X).to_csv(index=False)
    assert "--header no" in read(tmp_path, text).notices[0]
    assert len(read(tmp_path, text, header=False).values) == len(X) + 1


@pytest.mark.parametrize("mark", ["?", "****", "#N/A", "--", "n/a", "NoData", "-9999x"])
def test_what_means_missing(mark, tmp_path):
    rows = [*ROWS[:5], f"{mark},1.5", *ROWS[5:]]
    options = {"missing": ["-9999x"]} if "x" in mark else {}
    found = read(tmp_path, "a,b\n" + "\n".join(rows), **options)
    assert np.isnan(found.values[5, 0]) and found.values[5, 1] == 1.5
    assert np.isnan(found.values).sum() == 1
    assert any(repr(mark) in text for text in found.notices) == (mark in ("?", "****"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("level\n1.5\n\n\n2.5\n3.5\n\n4.5\n\n\n", [1.5, np.nan, np.nan, 2.5, 3.5, np.nan, 4.5]),
        ("level\n1,5\n2,5\n   \n3,5\n", [1.5, 2.5, np.nan, 3.5]),
        ('level\n""\n1.5\n""\n2.5\n3.5\n""\n', [np.nan, 1.5, np.nan, 2.5, 3.5, np.nan]),
        ("level\n-----\n1.5\n--\n2.5\n3.5\n-----\n", [1.5, np.nan, 2.5, 3.5]),
        ("Gauge\n\nlevel\n\n1.5\n\n2.5\n3.5\n", [1.5, np.nan, 2.5, 3.5]),
        ("| level |\n| 1.5 |\n| 2.5 |\n| 3.5 |\n", [1.5, 2.5, 3.5]),
        # Double spacing, and more than one column.
        ("level\n\n1.5\n\n2.5\n\n3.5\n", [1.5, 2.5, 3.5]),
        ("level,rain\n1.5,1\n\n2.5,2\n3.5,1\n", [1.5, 2.5, 3.5]),
    ],
)
def test_a_blank_line_of_a_single_column_is_a_missing_value(text, expected, tmp_path):
    found = read(tmp_path, text)
    np.testing.assert_array_equal(found.values[:, 0], expected)
    assert not any("title" in said for said in found.notices) or text.startswith("Gauge")


def test_excel_errors_in_the_first_column_are_no_comments(tmp_path):
    found = read(tmp_path, "a,b\n" + "\n".join(["#DIV/0!,1", "#N/A,2", *ROWS]))
    assert len(found.values) == len(X) + 2 and np.isnan(found.values[:2, 0]).all()


@pytest.mark.parametrize("mark", ["#NV", "#WERT!", "#", "//", "%", "!"])
def test_a_row_that_begins_as_a_comment_is_a_row(mark, tmp_path):
    rows = [f"{a};{b}".replace(".", ",") for a, b in X]
    rows[5] = f"{mark};{rows[5].partition(';')[2]}"
    found = read(tmp_path, "a;b\n" + "\n".join(rows))
    assert len(found.values) == len(X) and np.isnan(found.values).sum() == 1
    assert np.isnan(found.values[5, 0]) and found.values[5, 1] == X[5, 1]


@pytest.mark.parametrize("comment", ["# moved, upwards", "#moved", "# a,b", "#1,2,3"])
def test_a_comment_between_rows_is_none(comment, tmp_path):
    found = read(tmp_path, "# a,b\n" + "\n".join([*ROWS[:5], comment, *ROWS[5:]]))
    np.testing.assert_array_equal(found.values, X)


def test_a_value_behind_a_comment_mark_is_named(tmp_path):
    rows = [*ROWS[:5], "#1.5,2.5", *ROWS[5:]]
    with pytest.raises(ValueError, match=r"'#1\.5' in data row 6"):
        read(tmp_path, "a,b\n" + "\n".join(rows))


@pytest.mark.parametrize("mark, option", [("<0.5", "--missing '<*'"), ("warm", "--missing 'warm'")])
def test_what_is_not_understood_is_named_with_the_option(mark, option, tmp_path):
    with pytest.raises(ValueError) as error:
        read(tmp_path, "a,b\n" + "\n".join([*ROWS[:3], f"1,{mark}", *ROWS]))
    assert mark in str(error.value) and "data row 4" in str(error.value)
    assert option in str(error.value)
    option = option.partition("'")[2].strip("'")
    found = read(tmp_path, "a,b\n" + "\n".join([*ROWS[:3], f"1,{mark}", *ROWS]), missing=[option])
    assert np.isnan(found.values[3, 1])


@pytest.mark.parametrize(
    "cells, options, expected",
    [
        (["1.234,5", "2.000,25", "0,5"], {}, [1234.5, 2000.25, 0.5]),
        (["1.548", "12.000", "3"], {"decimal": ","}, [1548, 12000, 3]),
        (['"4,369"', '"12,000.5"', '"7"'], {}, [4369, 12000.5, 7]),
        (["1 234,5", "22 000,0", "3,25"], {}, [1234.5, 22000, 3.25]),
        (["1'234.5", "22'000", "3.25"], {}, [1234.5, 22000, 3.25]),
        (["45%", "47.5 %", "50%"], {}, [45, 47.5, 50]),
        (["1.5 mm", "2 mm", "0.25 mm"], {}, [1.5, 2, 0.25]),
        (["true", "False", "TRUE"], {}, [1, 0, 1]),
        (["−1.5", "2", "3"], {}, [-1.5, 2, 3]),
    ],
)
def test_numbers_as_people_write_them(cells, options, expected, tmp_path):
    rows = [f"{cell};{i * i}" for i, cell in enumerate(cells)]
    found = read(tmp_path, "a;b\n" + "\n".join(rows), **options)
    np.testing.assert_allclose(found.values[:, 0], expected)


@pytest.mark.parametrize(
    "rows, options, expected, said",
    [
        (["1.002;971", "964;1.011", "987;1.200"], {}, [[1002, 971], [964, 1011], [987, 1200]], 1),
        (["1.002;5", "1.234.567;6"], {}, [[1002, 5], [1234567, 6]], 1),
        (["1.002;971", "964;1.011", "987;1"], {"decimal": "."}, [[1.002, 971], [964, 1.011]], 0),
        # Three decimals: of every number, below 1, beside a column of whole numbers, and with a
        # code for missing values.
        (["1.002;1.971", "1.964;1.011"], {}, [[1.002, 1.971], [1.964, 1.011]], 0),
        (["1.002;971", "964;0.964", "987;1.2"], {}, [[1.002, 971], [964, 0.964]], 0),
        (["1.025;1", "1.026;2", "1.024;3"], {}, [[1.025, 1], [1.026, 2]], 0),
        (["1.025;1", "0;2", "1.024;3", "0;4"], {}, [[1.025, 1], [0, 2]], 0),
        (["1.025;2.123", "1000;3.456", "7;2.345", "8;1.234"], {}, [[1.025, 2.123]], 0),
    ],
)
def test_points_part_thousands_where_smaller_numbers_have_none(
    rows, options, expected, said, tmp_path
):
    found = read(tmp_path, "a;b\n" + "\n".join(rows), columns=["a", "b"], **options)
    np.testing.assert_array_equal(found.values[: len(expected)], expected)
    assert sum("separate thousands" in text for text in found.notices) == said


def test_thousands_are_told_from_all_rows(tmp_path):
    rows = ["1.002;1.971"] * 1500 + ["964;1.002", "987;1.003"]
    assert read(tmp_path, "a;b\n" + "\n".join(rows)).values[[0, -1], 0].tolist() == [1002, 987]


@pytest.mark.parametrize("separator", [";", "\t", ",", "|"])
def test_a_unit_in_every_cell_hides_no_separator(separator, tmp_path):
    rows = [f"{a:.1f}%{separator}{b:.1f}%" for a, b in X]
    found = read(tmp_path, f"a{separator}b\n" + "\n".join(9 * rows))
    assert found.names == ("a", "b")
    np.testing.assert_allclose(found.values, np.tile(X, (9, 1)), atol=0.06)


def test_blanks_within_cells_between_tabs_part_none(tmp_path):
    """A gauge of the USGS: most cells are words, and dates hold a blank."""
    hours = pd.date_range("2021-03-20", periods=60, freq="h")
    rows = [
        f"USGS\t01335754\t{h:%Y-%m-%d %H:%M}\tEST\t{x:.1f}\tP"
        for h, x in zip(hours, X[:, 0], strict=True)
    ]
    head = "agency_cd\tsite_no\tdatetime\ttz_cd\t1_00060\t1_00060_cd\n5s\t15s\t20d\t6s\t14n\t10s\n"
    found = read(tmp_path, head + "\n".join(rows), "x.txt")
    assert found.names == ("1_00060",) and clock(found) == (1.0, "hour")
    assert any("'datetime' is read as the time" in text for text in found.notices)
    assert not any("'site_no' is taken" in text for text in found.notices)


def test_numbers_with_blanks_and_a_tab_between_them_are_cells(tmp_path):
    rows = [f"{k}\t{a} {b}" for k, (a, b) in enumerate(X)]
    np.testing.assert_array_equal(read(tmp_path, "\n".join(rows), "x.txt").values, X)


# ---- clocks ----

DAYS = pd.date_range("2021-03-01", periods=60, freq="D")


@pytest.mark.parametrize(
    "form",
    ["%d.%m.%Y", "%d.%m.%Y %H:%M", "%m/%d/%Y", "%d/%m/%y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y",
     "%Y-%m-%dT%H:%M:%SZ", "%m/%d/%Y %I:%M %p", "%a, %d %b %Y", "%d%b%Y:%H:%M:%S",
     "%y-%m-%d", "%H:%M %d.%m.%Y"],
)  # fmt: skip
def test_dates_in_many_ways(form, tmp_path):
    rows = [f'"{day.strftime(form)}",{row}' for day, row in zip(DAYS, ROWS, strict=True)]
    found = read(tmp_path, "when,a,b\n" + "\n".join(rows))
    assert found.names == ("a", "b") and clock(found) == (1.0, "day")
    assert found.stamps[0] == np.datetime64("2021-03-01")


@pytest.mark.parametrize(
    "days, form",
    [
        ("Mo Di Mi Do Fr Sa So", "{}, %d.%m.%Y"),
        ("Mo. Di. Mi. Do. Fr. Sa. So.", "{} %d.%m.%Y %H:%M"),
        ("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag", "{}, %d.%m.%Y"),
        ("lun mar mer jeu ven sam dim", "{} %d/%m/%Y"),
        ("lun. mar. mer. jeu. ven. sam. dim.", "{} %d mars %Y"),
        ("lundi mardi mercredi jeudi vendredi samedi dimanche", "{} %d mars %Y"),
        ("lun mar mié jue vie sáb dom", "{} %d/%m/%Y"),
        ("ma di wo do vr za zo", "{} %d-%m-%Y"),
    ],
)
def test_days_of_the_week_before_dates(days, form):
    # Days up to the fourth could each be a month, but not before a point.
    for n in (4, 31) if "%m" not in form or "%d." in form else (31,):
        march = pd.date_range("2021-03-01", periods=n, freq="D")
        texts = [day.strftime(form.format(days.split()[day.weekday()])) for day in march]
        np.testing.assert_array_equal(read_dates(texts, "when").stamps, march.to_numpy())


@pytest.mark.parametrize("text", ["Mar 2, 2021", "mar. 2 2021", "2 Mar 2021", "Mar 2 2021 10:00"])
def test_march_is_no_tuesday(text):
    assert read_dates([text], "when").stamps[0].astype("M8[D]") == np.datetime64("2021-03-02")


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M"])
@pytest.mark.parametrize(
    "first, days", [("2023-01-01", 120), ("2019-12-20", 500), ("2024-02-11", 9)]
)
def test_dates_of_any_stretch_of_years(first, days, form):
    """January to April are not quarters."""
    expected = pd.date_range(first, periods=days, freq="D")
    found = read_dates(list(expected.strftime(form)), "when").stamps
    np.testing.assert_array_equal(found, expected.to_numpy())


@pytest.mark.parametrize(
    "cells, option, day_first",
    [
        (["12.03.2021", "13.03.2021", "14.03.2021"], "month-first", False),
        (["03/12/2021", "03/13/2021", "03/14/2021"], "day-first", True),
        (["03/13/2021", "03/14/2021", "03/15/2021"], "day-first", True),
    ],
)
def test_a_month_that_does_not_exist_is_named_with_the_option(cells, option, day_first):
    with pytest.raises(ValueError, match=f"no month 13: remove --dates {option}"):
        read_dates(cells, "when", day_first=day_first)


def test_of_two_readings_of_a_date_the_regular_one_is_meant(tmp_path):
    days = pd.date_range("2021-01-04", periods=20, freq="6h")  # 4 January to 8: no day above 12
    rows = [f"{day.strftime('%d/%m/%Y %H:%M')},{i * i}" for i, day in enumerate(days)]
    assert clock(read(tmp_path, "date,a\n" + "\n".join(rows))) == (6.0, "hour")
    months = read(tmp_path, "date,a\n" + "\n".join(rows), day_first=False)
    assert months.stamps[4] == np.datetime64("2021-05-01")


@pytest.mark.parametrize(
    "head, cells, expected",
    [
        ("year,month", lambda day: f"{day.year},{day.month}", (1.0, "month")),
        ("Year,DOY", lambda day: f"{day.year},{day.day_of_year}", (1.0, "day")),
        ("month,day", lambda day: f"{day.month},{day.day}", (1.0, "day")),
        ("date,hour", lambda day: f"{day.date()},0:00", (1.0, "day")),
        ("year,quarter", lambda day: f"{day.year},{day.quarter}", (3.0, "month")),
        ("quarter", lambda day: f"{day.year}Q{day.quarter}", (3.0, "month")),
        ("year", lambda day: f"{day.year}", (1.0, "year")),
    ],
)
def test_dates_in_parts(head, cells, expected, tmp_path):
    steps = {"month": "MS", "day": "D", "year": "YS"}[expected[1]]
    days = pd.date_range("1981-11-01", periods=30, freq="QS" if "q" in head else steps)
    rows = [f"{cells(day)},{i * i % 7}" for i, day in enumerate(days)]
    found = read(tmp_path, f"{head},a\n" + "\n".join(rows))
    assert found.names == ("a",) and clock(found) == expected


@pytest.mark.parametrize("head, form", [("year,month,day", "%Y,%m,%d"), ("year,doy", "%Y,%j")])
def test_dates_in_parts_out_of_order_are_refused_and_no_variables(head, form, tmp_path):
    days = pd.date_range("1981-11-01", periods=60, freq="D")[np.arange(60) * 7 % 60]
    rows = [f"{i + 1},{day.strftime(form)},{i * i % 7}" for i, day in enumerate(days)]
    found = read(tmp_path, f"row,{head},a\n" + "\n".join(rows))
    assert found.names == ("a",)
    with pytest.raises(ValueError, match="1981-12-27 00:00:00 is followed by 1981-11-04"):
        clock(found)


def test_local_parts_of_dates_in_universal_time_are_neither_a_clock_nor_variables(tmp_path):
    """With stations whose clocks repeat, the year 2013 was once taken for thirteen minutes past
    eight.
    """
    universal = pd.date_range("2013-03-01", periods=900, freq="h", tz="UTC")
    local = universal.tz_convert("America/New_York")
    parts = {name: getattr(local, name) for name in ("year", "month", "day", "hour")}
    rows = pd.DataFrame(parts | {"temp": np.arange(900.0) ** 2 % 71, "stamp": universal})
    frame = pd.concat([rows.assign(station=name) for name in ("JFK", "LGA")])
    found = read(tmp_path, frame.to_csv(index=False))
    assert found.names == ("temp",) and set(found.trials) == {"JFK", "LGA"}
    assert found.stamps[0] == np.datetime64("2013-03-01T00:00") and clock(found, slice(900))[0] == 1


@pytest.mark.parametrize("rate, unit", [(30, 1e3), (24, 1e3), (60, 1e2)])
def test_rounded_stamps_are_regular(rate, unit):
    stamps = np.round(np.arange(900) * unit / rate).astype(int)
    found = sampling(stamps)
    assert found.dt == pytest.approx(unit / rate, rel=1e-5)
    holes = sampling(np.delete(stamps, [100, 101, 500]))
    assert holes.dt is None
    np.testing.assert_allclose(holes.times[100] / (unit / rate), 102, rtol=1e-4)


def test_months_as_decimals_of_a_year():
    for digits in (2, 3, 4):
        assert sampling(np.round(1950 + np.arange(400) / 12, digits)).dt == pytest.approx(
            1 / 12, 1e-4
        )


def test_whole_stamps_without_a_grid_are_irregular():
    uneven = np.cumsum(np.random.default_rng(0).integers(5, 13, 300))
    assert sampling(uneven).dt is None and sampling(uneven).times.tolist() == uneven.tolist()


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Berlin",
        pytest.param("Australia/Sydney", marks=pytest.mark.slow),
        pytest.param("America/New_York", marks=pytest.mark.slow),
    ],
)
def test_daylight_saving(zone, tmp_path):
    local = pd.date_range("2022-01-01", periods=8000, freq="h", tz=zone).tz_localize(None)
    frame = pd.DataFrame({"time": local, "a": np.sin(np.arange(8000.0))})
    found = read(tmp_path, frame.to_csv(index=False))
    assert clock(found) == (1.0, "hour") and "daylight saving" in found.notices[0]
    given = read(tmp_path, frame.to_csv(index=False), time_zone=zone)
    assert clock(given) == (1.0, "hour") and not given.notices


@pytest.mark.parametrize("freq, expected", [("h", "hour"), ("15min", "minute"), ("D", "day")])
def test_zones_are_kept_through_gaps(freq, expected):
    index = pd.date_range("2022-10-01", periods=900, freq=freq, tz="Europe/Berlin")
    frame = pd.DataFrame({"a": np.arange(900.0) ** 2}, index=index)
    assert ndde.read_samples(frame).regular
    samples = ndde.read_samples(frame.drop(index[100]))
    assert samples.time_unit == expected
    filled = ndde.prepare_samples(samples, ("clock",))
    assert filled.regular and len(filled.values[0]) == 900 and np.isnan(filled.values[0][100, 0])


@pytest.mark.parametrize(
    "freq, zone, begins",
    [
        ("D", "Asia/Tokyo", "2024-01-01T00"),
        ("D", "Europe/Berlin", "2024-04-02T00"),  # in summer alone, when clocks are ahead
        ("MS", "Asia/Tokyo", "1960-01-01T00"),
        ("MS", "Europe/Berlin", "1960-01-01T00"),
        ("h", "America/New_York", "2024-01-01T00"),
        ("h", "Australia/Sydney", "2024-06-01T00"),
        # Standard time, whatever part of a year is covered.
        ("h", "Europe/Berlin", "2024-07-01T00"),
    ],
)
def test_dates_with_a_zone_are_those_of_its_clocks(freq, zone, begins, tmp_path):
    """For a frame, and for a file whose dates include their offset."""
    index = pd.date_range(begins, periods=200, freq=freq, tz=zone)
    frame = pd.DataFrame({"a": np.arange(200.0) ** 2}, index=index.rename("time"))
    ahead = pd.Timedelta(hours=1) if (freq, zone) == ("h", "Europe/Berlin") else pd.Timedelta(0)
    expected = pd.Timestamp(begins) - ahead
    samples = ndde.read_samples(frame)
    assert samples.regular and pd.Timestamp(samples.starts[0]) == expected
    if zone == "Asia/Tokyo":
        assert read(tmp_path, frame.to_csv()).stamps[0] == expected


def test_months_are_those_of_the_clock_on_the_wall(tmp_path):
    index = pd.date_range("1960-01-01", periods=240, freq="MS", tz="Asia/Tokyo", name="time")
    table = read(tmp_path, pd.DataFrame({"a": np.arange(240.0) ** 2}, index=index).to_csv())
    inside = rows_of_months("x.csv", table.stamps, [6, 7, 8])
    np.testing.assert_array_equal(index.month[inside], np.tile([6, 7, 8], 20))


def test_clocks_without_a_zone_are_those_on_the_wall():
    """A record in standard time continues one without a zone at the same clock time."""
    index = pd.date_range("2024-01-01", periods=400, freq="h", tz="Asia/Tokyo")
    frame = pd.DataFrame({"a": np.arange(400.0) ** 2}, index=index)
    with_zone, without = (ndde.read_samples(f) for f in (frame, frame.tz_localize(None)))
    assert with_zone.starts == without.starts


@pytest.mark.parametrize("start", ["0850-01-01", "1650-01-01", "2200-01-01"])
def test_years_of_long_ago_and_far_ahead(start):
    index = pd.date_range(start, periods=170, freq="YS", unit="s")
    samples = ndde.read_samples(pd.DataFrame({"a": np.arange(170.0) ** 2}, index=index))
    assert (samples.dt, samples.time_unit, samples.regular) == (1.0, "year", True)


@pytest.mark.parametrize("calendar", ["360_day", "noleap", "julian"])
def test_calendars_of_models(calendar):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("cftime")
    for freq, unit in (("MS", "month"), ("D", "day")):
        stamps = xr.date_range(
            "2000-01-01", periods=120, freq=freq, calendar=calendar, use_cftime=True
        )
        data = xr.DataArray(np.arange(120.0) ** 2, dims="time", coords={"time": stamps}, name="a")
        samples = ndde.read_samples(data)
        assert (samples.dt, samples.time_unit, samples.regular) == (1.0, unit, True)


@pytest.mark.parametrize(
    "cells, said",
    [
        (["2022-10-30 02:00", "2022-10-30 02:00", "2022-10-30 03:10"], "daylight saving"),
        (["0", "1", "1", "2"], "--trial"),
        (["0", "2", "1", "3"], "sort the rows by time"),
    ],
)
def test_a_clock_that_goes_back_is_named_for_what_it_is(cells, said, tmp_path):
    found = read(tmp_path, "time,a\n" + "\n".join(f"{c},{i * i}" for i, c in enumerate(cells)))
    with pytest.raises(ValueError, match="strictly increasing") as error:
        sampling(found.stamps)
    assert said in str(error.value)


def test_rows_out_of_order_are_no_recordings(tmp_path):
    """A column whose values happen to repeat does not separate recordings where no stamp does."""
    days = [f"2019-04-{day:02d}" for day in range(1, 31)]
    days[11], days[10] = days[10], days[11]
    cells = [f"{(day * 7) % 10 or ''},{day * day}" for day in range(30)]
    found = read(tmp_path, "date,a,b\n" + "\n".join(map(",".join, zip(days, cells, strict=True))))
    with pytest.raises(ValueError, match="data row 12 breaks this"):
        sampling(found.stamps)


def test_the_latest_row_may_come_first(tmp_path):
    rows = [f"{day.date()},{row}" for day, row in zip(DAYS, ROWS, strict=True)][::-1]
    found = read(tmp_path, "date,a,b\n" + "\n".join(rows))
    np.testing.assert_allclose(found.values, X)
    assert clock(found) == (1.0, "day") and "order is reversed" in found.notices[0]


# ---- shapes ----


@pytest.mark.parametrize("order", [["site", "day"], ["day", "site"]])
@pytest.mark.parametrize("labels", ["PQR", (3, 1, 2)])
def test_a_long_panel_is_recordings(order, labels, tmp_path):
    frame = pd.concat(
        pd.DataFrame({"site": label, "day": np.arange(20), "a": X[i * 20 : i * 20 + 20, 0]})
        for i, label in enumerate(labels)
    )
    frame = frame.sort_values(order[0], kind="stable")[[*order, "a"]]
    found = read(tmp_path, frame.to_csv(index=False))
    assert found.names == ("a",) and "'site' tells recordings apart" in " ".join(found.notices)
    parts = {tuple(found.values[rows, 0]) for rows in found.recordings}
    assert parts == {tuple(X[i * 20 : i * 20 + 20, 0]) for i in range(3)}
    assert all(clock(found, rows) == (1.0, "") for rows in found.recordings)


def test_frames_of_a_list_are_matched_by_name():
    frame = pd.DataFrame(X, columns=["a", "b"])
    samples = ndde.read_samples([frame[:30], frame[30:][["b", "a"]]], dt=1.0)
    np.testing.assert_array_equal(np.concatenate(samples.values), X)
    with pytest.raises(ValueError, match=r"number 1 has a, c"):
        ndde.read_samples([frame, frame.rename(columns={"b": "c"})], dt=1.0)


@pytest.mark.parametrize("index", [range(20), pd.date_range("2001", periods=20, freq="D")])
def test_an_index_of_site_and_time_is_recordings(index):
    parts = {s: pd.DataFrame(X[i * 20 : i * 20 + 20], index=index) for i, s in enumerate("PQR")}
    samples = ndde.read_samples(pd.concat(parts, names=["site", "time"]))
    assert [value.shape for value in samples.values] == [(20, 2)] * 3 and samples.dt == 1
    np.testing.assert_array_equal(np.concatenate(samples.values), X)


def test_frames_of_arrow_keep_their_names():
    pa = pytest.importorskip("pyarrow")
    samples = ndde.read_samples(pa.table({"a": X[:, 0], "b": X[:, 1]}), dt=1.0)
    assert samples.names == ("a", "b")
    np.testing.assert_array_equal(samples.values[0], X)


def test_a_grid_asks_what_its_dimensions_are(tmp_path):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    x = np.random.default_rng(0).normal(size=(30, 2, 3))
    data = xr.DataArray(x, dims=("time", "lat", "lon"), coords={"lat": [10, 20]}, name="sst")
    data.to_netcdf(tmp_path / "x.nc")
    with pytest.raises(ValueError, match=r"lat \(2\), lon \(3\).*--variables lat,lon.*--trial lat"):
        read_table(tmp_path / "x.nc")
    found = read_table(tmp_path / "x.nc", variables=["lat", "lon"])
    np.testing.assert_array_equal(found.values, x.reshape(30, 6))
    assert found.names[3] == "lat20 lon0"
    each = read_table(tmp_path / "x.nc", trial="lat")
    np.testing.assert_array_equal(each.values[each.recordings[1]], x[:, 1])
    data.rename(lat="member").to_netcdf(tmp_path / "m.nc")  # no region, but recordings
    each = read_table(tmp_path / "m.nc")
    np.testing.assert_array_equal(each.values[each.recordings[1]], x[:, 1])
    data[:, :1].to_netcdf(tmp_path / "y.nc")  # one latitude is not a dimension
    np.testing.assert_array_equal(read_table(tmp_path / "y.nc").values, x[:, 0])
    data.rename("u").to_netcdf(tmp_path / "z.nc", group="deep")
    with pytest.raises(ValueError, match=r"groups: deep.*--key deep/VARIABLE"):
        read_table(tmp_path / "z.nc")
    assert read_table(tmp_path / "z.nc", key="deep/u", trial="lat").values.shape == (60, 3)


def test_feather_and_json_lines(tmp_path):
    frame = pd.DataFrame({"date": DAYS.strftime("%Y-%m-%d"), "a": X[:, 0], "b": X[:, 1]})
    frame.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    paths = [tmp_path / "x.jsonl"]
    if pytest.importorskip("pyarrow"):
        frame.to_feather(tmp_path / "x.feather")
        paths.append(tmp_path / "x.feather")
    for path in paths:
        found = read_table(path)
        np.testing.assert_allclose(found.values, X)
        assert found.names == ("a", "b") and clock(found) == (1.0, "day")


# ---- what a column is ----


@pytest.mark.parametrize(
    "make",
    [
        lambda n: np.arange(n),
        lambda n: 7 - 2.5 * np.arange(n),
        lambda n: np.round(np.arange(n) / 3, 4),
        lambda n: 1950 + np.arange(n) // 12,
        lambda n: 1e9 + 3600 * np.arange(n),
    ],
)
def test_counters_are_told_from_paths(make):
    assert is_clock(np.asarray(make(600), float))


@pytest.mark.parametrize(
    "make",
    [
        lambda r, n: np.cumsum(r.normal(size=n)),
        lambda r, n: np.cumsum(r.random(n)),
        lambda r, n: np.cumsum(r.integers(0, 2, n)).astype(float),
        lambda r, n: np.sin(np.arange(n) / 400),
        lambda r, n: (np.arange(n) > n // 2).astype(float),
        lambda r, n: np.arange(n) ** 2.0,
    ],
)
def test_paths_are_no_counters(make):
    for seed in range(5):
        assert not is_clock(make(np.random.default_rng(seed), 600))


def test_counters_alone_are_refused():
    rows = np.arange(50.0)
    with pytest.raises(ValueError, match="does more than count rows or time; got x0, x1"):
        ndde.discover(np.stack([rows, 5 + 2 * rows], axis=1), dt=1.0, key=jax.random.key(0))


def test_a_counter_is_left_out_of_a_file(tmp_path):
    rows = [f"{row},{i},{2000 + i / 12:.2f}" for i, row in enumerate(ROWS)]
    found = read(tmp_path, "a,b,id,stamp\n" + "\n".join(rows))
    assert found.names == ("a", "b")
    assert "columns id, stamp count rows or time and are left out" in found.notices[0]


def test_events_are_never_spikes():
    rng = np.random.default_rng(0)
    pulses = (rng.random(900) < 0.03) * 1.0
    noisy = pulses * 8 + 0.1 * rng.normal(size=900)
    rain = pulses * rng.exponential(size=900)
    assert is_event(pulses) and is_event(rain) and is_event(np.arange(900) % 2.0)
    assert not find_spikes(np.stack([pulses, noisy, rain], axis=1)).any()
    x = oscillators()
    x[[100, 700], 1] += 20
    assert np.argwhere(find_spikes(x)).tolist() == [[100, 1], [700, 1]]
    assert not is_event(x[:, 0])


@pytest.mark.parametrize("code", [-999.0, 9999.0, 1e20])
def test_codes_of_missing_values(code):
    x = oscillators()
    x[[100, 102, 700], 1] = code
    samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0), ("codes",))
    (treatment,) = samples.treatments
    assert np.argwhere(np.isnan(samples.values[0])).tolist() == [[100, 1], [102, 1], [700, 1]]
    assert f"{code:g}" in treatment.text
    np.testing.assert_array_equal(samples.as_measured().values[0], x)


def test_numbers_that_only_look_like_codes_stay():
    rng = np.random.default_rng(0)
    within = np.round(1000 * rng.normal(size=500))
    within[[3, 50]] = 999
    once = rng.normal(size=500)
    once[7] = -999
    for x in (within, once, rng.normal(size=500)):
        assert codes_of([x]) == ()


def test_any_number_that_repeats_far_off_all_others_is_a_code():
    rng = np.random.default_rng(4)
    x = rng.gamma(2, size=(600, 3)) * [1, 100, 1] + [0, 0, 30]
    gone = rng.random(600) < 0.1
    x[gone] = -200  # well within a range of the second
    (treatment,) = ndde.prepare_samples(ndde.read_samples(x, dt=1.0), ("codes",)).treatments
    assert treatment.size == 3 * gone.sum() and "-200" in treatment.text
    assert codes_of([x[:, 1]]) == ()
    assert codes_of([np.where(gone, 7777, x[:, 0])]) == (7777.0,)


def test_real_values_that_lie_far_off_are_no_codes():
    rng = np.random.default_rng(5)
    noise = rng.normal(size=600)
    some = rng.random(600) < 0.1
    stopped = np.where(some, 0.0, 1500 + noise)  # a machine at rest
    idle = np.where(some, 800, np.round(1500 + 5 * noise))  # whole numbers as all others
    rain = np.where(noise > 1, np.round(rng.gamma(0.3, 20, size=600), 1), 0.0)
    flood = np.exp(noise)
    flood[[100, 101, 300]] = 400.0
    limit = np.minimum(rng.gamma(0.3, 20, size=600), 40.0)  # a sensor at its limit
    flag = np.where(some, -1.0, (noise > 0).astype(float))
    few = np.where(some, -20.0, np.sign(noise))
    floor = np.where(some, -120.0, -40 + 8 * noise)  # of silence, in decibel
    floor[3] = -80
    for x in (stopped, idle, rain, flood, limit, flag, few, floor):
        assert codes_of([x]) == ()
    assert codes_of([np.where(some, -200, noise)], (-200.0,)) == (-200.0,)
    assert codes_of([np.where(some, -200, 150 * noise)], (-200.0,)) == ()


@pytest.mark.parametrize("level", [1e7, -3e8, 1e9])
def test_a_large_level_does_not_drown_the_steps(level):
    x = oscillators() + np.array([level, 0, 0])
    samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0))
    (treatment,) = samples.treatments
    small = samples.values[0].astype(np.float32)
    steps = np.diff(small[:, 0]) - np.diff(x[:, 0])
    assert np.abs(steps).max() < 1e-5
    back = samples.values[0] + treatment.removed(samples.times[0])
    np.testing.assert_allclose(back, x, rtol=1e-15, atol=1e-12)


def test_a_workbook_is_read_by_its_texts(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"when": [day.date() for day in DAYS], "a": X[:, 0], "b": X[:, 1]})
    frame.to_excel(tmp_path / "x.xlsx", index=False)
    found = read_table(tmp_path / "x.xlsx")
    np.testing.assert_allclose(found.values, X)
    assert found.names == ("a", "b") and clock(found) == (1.0, "day")
    assert isinstance(frame.when[0], datetime.date)


def test_names_are_one_line(tmp_path):
    names = ["a\x1b[31m", "b\nc", "d" * 500]
    text = io.StringIO()
    pd.DataFrame(np.c_[X, X[:, 0] ** 2], columns=names).to_csv(text, index=False)
    found = read(tmp_path, text.getvalue())
    assert found.names[:2] == ("a [31m", "b c") and len(found.names[2]) == 120


def test_a_path_is_read_and_what_was_assumed_is_a_warning(tmp_path):
    rows = [f"{day.strftime('%Y-%m-%d')};{a};{b}" for day, (a, b) in zip(DAYS, X, strict=True)]
    (tmp_path / "x.csv").write_text("day;a;b\n" + "\n".join(rows).replace(".", ","))
    with pytest.warns(UserWarning, match="decimal comma"):
        samples = ndde.read_samples(tmp_path / "x.csv")
    assert samples.names == ("a", "b") and (samples.dt, samples.time_unit) == (1.0, "day")
    np.testing.assert_array_equal(samples.values[0], X)


@pytest.mark.parametrize(
    "rows, names, clock_is",
    [
        # A note below, weeks, prices of working days, two columns that identify panels.
        (["a,b", *ROWS, "Source: nobody"], ("a", "b"), None),
        (["week,a,b", *(f"2021-W{i + 1:02d},{ROWS[i]}" for i in range(50))], ("a", "b"),
         (7, "day")),
        (
            ["Date,Close", *(f"{day.date()},${1000 + i * i % 7}.50" for i, day in enumerate(
                pd.bdate_range("2020-01-01", periods=60)))],
            ("Close",),
            (1, "working day"),
        ),
        (
            ["land,good,year,a", *(f"{c},{g},{1950 + i},{X[i, 0]}" for c in "AB" for g in "xy"
                                   for i in range(30))],
            ("a",),
            (1, "year"),
        ),
        (
            ["timestamp,a,b", *(f"{1_600_000_000_000 + 60_000 * i},{ROWS[i]}" for i in range(60))],
            ("a", "b"),
            (1, "minute"),
        ),
        (
            ["Date,Time,a,b", *(f"03/01/2021,{(i % 12 or 12)}:00 {'AP'[i // 12]}M,{ROWS[i]}"
                                for i in range(24))],
            ("a", "b"),
            (1, "hour"),
        ),
    ],
)  # fmt: skip
def test_tables_as_offices_and_instruments_write_them(rows, names, clock_is, tmp_path):
    found = read(tmp_path, "\n".join(rows))
    assert found.names == names
    for part in found.recordings:
        assert (found.stamps is None) == (clock_is is None)
        assert clock_is is None or clock(found, part) == clock_is


def test_an_input_may_count(tmp_path):
    text = "a,ramp\n" + "\n".join(f"{a},{i / 10}" for i, a in enumerate(X[:, 0]))
    assert read(tmp_path, text).names == ("a",)
    assert read(tmp_path, text, kept=["ramp"]).names == ("a", "ramp")


def test_numbers_that_mean_missing_are_compared_as_numbers(tmp_path):
    text = "a,b\n" + "\n".join([*ROWS, "-999.0,1", "-999,2"])
    found = read(tmp_path, text, missing=["-999"])
    assert np.isnan(found.values[-2:, 0]).all() and not np.isnan(found.values[:-2]).any()


@pytest.mark.slow
@pytest.mark.parametrize("given, names", [((), ("x0", "x2")), (("x1",), ("x0", "x1", "x2"))])
def test_a_counter_is_set_aside_unless_it_is_an_input(given, names):
    x = np.column_stack([oscillators()[:, 0], np.arange(1200.0), oscillators()[:, 1]])
    samples, gone = without_counters(ndde.read_samples(x, dt=1.0), given)
    assert samples.names == names and gone == tuple(n for n in ("x1",) if n not in given)
    if not given:
        recipe = ndde.Recipe.fast()
        found = ndde.discover(x[:300], dt=1.0, recipe=recipe, key=jax.random.key(0))
        assert found.names == names and any("x1 counts" in text for text in found.choices)
        prior = ndde.prior_knowledge(("x0", "x1", "x2"), lags=(0,), forbidden=[("x0", "x2")])
        found = ndde.discover(x[:300], dt=1.0, prior=prior, recipe=recipe, key=jax.random.key(0))
        assert found.names == names and not found.graph[0, 1].any()


def test_a_question_that_no_data_can_answer_is_refused_at_once():
    x = np.random.default_rng(0).normal(size=(200, 300))
    start = time.process_time()
    with pytest.raises(ValueError, match="600 candidate inputs, and 198 windows"):
        ndde.discover(x, dt=1.0, lags=(0, 1), key=jax.random.key(0))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("x", [X[:4], X[:6], [X[i : i + 2] for i in range(0, 60, 2)]])
def test_too_few_samples_are_said_in_words(x):
    with pytest.raises(ValueError, match="x is too short for the largest lag, 0"):
        ndde.discover(x, dt=1.0, lags=(0,), key=jax.random.key(0))


def test_a_toggle_has_no_regimes():
    for column in (np.arange(1200) % 2, (np.arange(1200) > 300) * (np.arange(1200) % 7 == 0)):
        x = np.column_stack([oscillators()[:, 0], column])
        found = ndde.data_findings(ndde.prepare_samples(ndde.read_samples(x, dt=1.0)))
        assert not {"change of regime", "quantised", "trend"} & {f.name for f in found}


def test_a_variable_may_be_called_as_a_part_of_a_date_is(tmp_path):
    days = pd.date_range("1990-01-01", periods=60, freq="MS")
    rows = [f"{day.year},{day.month},{i * i % 30},{i % 7}" for i, day in enumerate(days)]
    found = read(tmp_path, "year,month,max,min\n" + "\n".join(rows))
    assert found.names == ("max", "min") and clock(found) == (1.0, "month")


# ---- layouts of data centres and loggers ----

HOURS = pd.date_range("2019-02-27 22:00", periods=60, freq="h")
MONTHS = pd.date_range("1981-01-01", periods=60, freq="MS")
YEARS = [[1981 + i, *row] for i, row in enumerate(X[:, 0].reshape(5, 12).tolist())]
NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def lines(stamps, form, mark=","):
    """Rows of a date or its parts, written by `form`, and two numbers."""
    written = (form(day) if callable(form) else day.strftime(form) for day in stamps)
    return [mark.join([text, *map(str, x)]) for text, x in zip(written, X, strict=True)]


@pytest.mark.parametrize(
    "text, names, expected, start",
    [
        (
            ["# made by", "no\twhen\tq\tp\tq_cd", "4s\t8d\t9n\t9n\t2s"]
            + [f"a1\t{row}\tA" for row in lines(DAYS, "%Y-%m-%d", "\t")],
            ("q", "p"),
            (1.0, "day"),
            "2021-03-01",
        ),
        (
            [
                '"TOA5","x","y"',
                '"TIMESTAMP","RECORD","q","p"',
                '"TS","RN","m","K"',
                '"","","Avg","Smp"',
                *lines(HOURS, lambda day: f'"{day}",{day.day_of_year * 24 + day.hour}'),
            ],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            ["# about", "# STN,YYYYMMDD,   q,   p"]
            + [f" 7,{row}" for row in lines(DAYS, "%Y%m%d")],
            ("q", "p"),
            (1.0, "day"),
            "2021-03-01",
        ),
        (
            ["nr;MESS_DATUM;q;p;eor"] + [f"3;{row};eor" for row in lines(HOURS, "%Y%m%d%H", ";")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            [
                "FROM,TO,q,p",
                *lines(
                    HOURS, lambda day: f"{day:%Y%m%d%H%M},{day + pd.Timedelta('1h'):%Y%m%d%H%M}"
                ),
            ],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (lines(HOURS, "%Y %m %d %H", " "), ("x4", "x5"), (1.0, "hour"), "2019-02-27T22"),
        (
            ["# YY MM DD hh mm q p", "# yr mo dy hr mn m K", *lines(HOURS, "%Y %m %d %H %M", " ")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            ["Tag;Monat;Jahr;q;p", *lines(DAYS, "%d;%m;%Y", ";")],
            ("q", "p"),
            (1.0, "day"),
            "2021-03-01",
        ),
        (["Month,Year,q,p", *lines(MONTHS, "%B,%Y")], ("q", "p"), (1.0, "month"), "1981-01"),
        (
            ["date,hour ending,q,p", *lines(HOURS, lambda day: f"{day:%m/%d/%Y},{day.hour + 1}")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T23",
        ),
        (
            ["year,doy,hhmm,q,p", *lines(HOURS, "%Y,%j,%H%M")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            ["jour,heure,q,p", *lines(HOURS, "%d/%m/%Y,%H.%M.%S")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            [
                "Year,Week,q,p",
                *lines(
                    DAYS[0] + 7 * (DAYS - DAYS[0]),
                    lambda day: "{},{}".format(*day.isocalendar()[:2]),
                ),
            ],
            ("q", "p"),
            (7.0, "day"),
            "2021-03-01",
        ),
        (
            ["time;q;p", *lines(HOURS, lambda day: f"{day} - {day + pd.Timedelta('1h')}", ";")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            [
                "when,q,p",
                *lines(DAYS, lambda day: f"{day.day} {['mars', 'avr.'][day.month - 3]} 2021"),
            ],
            ("q", "p"),
            (1.0, "day"),
            "2021-03-01",
        ),
        (
            ["Date,q,p", *lines(DAYS, lambda day: str((day - pd.Timestamp("1899-12-30")).days))],
            ("q", "p"),
            (1.0, "day"),
            "2021-03-01",
        ),
        (
            ["Fecha,q,p", *lines(HOURS, "%d/%m/%Y %H:%M CET")],
            ("q", "p"),
            (1.0, "hour"),
            "2019-02-27T22",
        ),
        (
            ["date,q,p", *lines(MONTHS, lambda day: f"{day.year}.{day.month:02d}")],
            ("q", "p"),
            (1.0, "month"),
            "1981-01",
        ),
    ],
)
def test_tables_of_data_centres_and_loggers(text, names, expected, start, tmp_path):
    found = read(tmp_path, "\n".join(text), "x.txt")
    assert found.names == names
    np.testing.assert_allclose(found.values, X)
    assert clock(found) == expected
    assert str(found.stamps[0].astype("M8[us]")).startswith(start)


@pytest.mark.parametrize(
    "text",
    [
        ",".join(["Year", *NAMES, "Annual"])
        + "\n"
        + "".join(",".join(map(str, [*row, 0.5 * i * i])) + "\n" for i, row in enumerate(YEARS)),
        " ".join(["YR", *map(str, range(1, 13))])
        + "\n"
        + "".join(" ".join(map(str, row)) + "\n" for row in YEARS),
        "1981 1985\n"
        + "".join(" ".join(map(str, row)) + "\n" for row in YEARS)
        + " -99.9\n an index\n https://example.org\n",
    ],
)
def test_rows_of_twelve_months_are_one_record(text, tmp_path):
    found = read(tmp_path, text, "index.txt")
    assert found.names == ("index",) and clock(found) == (1.0, "month")
    assert found.stamps[0] == np.datetime64("1981-01")
    np.testing.assert_allclose(found.values[:, 0], X[:, 0])
    assert "months" in " ".join(found.notices)


def test_a_code_below_the_table_is_missing(tmp_path):
    rows = [" ".join(map(str, [*row[:12], -7.25])) for row in YEARS]
    found = read(tmp_path, "1981 1985\n" + "\n".join(rows) + "\n-7.25\nan index of old\n", "i.txt")
    assert np.isnan(found.values[11::12, 0]).all() and np.isnan(found.values).sum() == 5


@pytest.mark.parametrize("label", ["variable", "Tag", "sensor id"])
def test_a_row_for_each_value_is_a_column_for_each_variable(label, tmp_path):
    frame = pd.DataFrame({"time": np.repeat(DAYS, 2), label: ["a", "b"] * 60, "value": X.ravel()})
    found = read(tmp_path, frame.to_csv(index=False))
    assert found.names == ("a", "b") and clock(found) == (1.0, "day")
    np.testing.assert_allclose(found.values, X)
    assert f"--trial {label}" in " ".join(found.notices)
    each = read(tmp_path, frame.to_csv(index=False), trial=label)
    assert each.names == ("value",) and len(each.recordings) == 2


@pytest.mark.parametrize("stamps", [DAYS, pd.date_range("1961-01-01", periods=60, freq="YS")])
def test_times_along_the_top_are_turned(stamps, tmp_path):
    form = "%Y-%m-%d" if stamps is DAYS else "%Y"
    frame = pd.DataFrame(X.T, ["a", "b"], stamps.strftime(form))
    found = read(tmp_path, frame.to_csv(index_label="name"))
    assert found.names == ("a", "b") and clock(found)[0] == 1.0
    np.testing.assert_allclose(found.values, X)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda rows: [rows[0], *rows[1:30], rows[0], *rows[30:]], "repeat its header"),
        (lambda rows: [*rows, "", "Source: the river board, 2021"], "read as a note"),
        (lambda rows: [*rows[:40], ",,", *rows[40:], ",,", ",,"], ""),
        (lambda rows: ["Station,Upper river,", "Latitude,47.5,", ",,", *rows], "title"),
        (lambda rows: ["sep=,", *rows], ""),
        (lambda rows: ["! made by hand", "// in 2021", *rows], ""),
        (
            lambda rows: [
                f"| {row.replace(',', ' | ')} |" for row in (rows[0], "---,---,---", *rows[1:])
            ],
            "",
        ),
        (
            lambda rows: (
                [f"{rows[0]},pump"]
                + [f"{row},{'off on'.split()[i % 5 > 2]}" for i, row in enumerate(rows[1:])]
            ),
            "",
        ),
        (lambda rows: [f"{row},x{',' * (i > 0)}" for i, row in enumerate(rows)], "text"),
        (lambda rows: [*rows, "2021-03-29 07:11,,", "2021-03-29 07:12,,"], "no numbers"),
    ],
)
def test_what_stands_about_a_table(change, said, tmp_path):
    found = read(tmp_path, "\n".join(change(["when,a,b", *lines(DAYS, "%Y-%m-%d")])))
    assert found.names[:2] == ("a", "b") and clock(found) == (1.0, "day")
    np.testing.assert_allclose(found.values[:60, :2], X)
    assert len(found.values) == 60 and said in " ".join(found.notices)


@pytest.mark.parametrize(
    "cells, expected",
    [
        (["1.5D+02", "2.0d-01", "-3D0"], [150, 0.2, -3]),
        (["–1.5", "2", "‐3"], [-1.5, 2, -3]),
        (["$1,234.50", "$2.00", "$3.00"], [1234.5, 2, 3]),
        (["ON", "OFF", "ON"], [1, 0, 1]),
    ],
)
def test_numbers_of_other_programs(cells, expected, tmp_path):
    rows = [f"{cell};{i * i}" for i, cell in enumerate(cells)]
    found = read(tmp_path, "a;b\n" + "\n".join(rows))
    np.testing.assert_allclose(found.values[:, 0], expected)


def test_an_exponent_behind_a_decimal_comma_is_no_unit(tmp_path):
    found = read(tmp_path, "a;b\n7,5e+00;1\n2,5e+00;4\n3,5e+00;9\n")
    np.testing.assert_array_equal(found.values[:, 0], [7.5, 2.5, 3.5])
    assert "unit" not in " ".join(found.notices)


def test_a_number_with_a_mark_is_no_text(tmp_path):
    with pytest.raises(ValueError, match=r"'v' is not numeric: '1.5M'"):
        read(tmp_path, "v,a\n" + "\n".join(f"{i + 0.5}{'KM'[i % 2]},{i * i}" for i in range(1, 9)))


@pytest.mark.parametrize("orient", ["columns", "split", "index", "table"])
@pytest.mark.parametrize("clock", ["index", "column"])
def test_json_of_frames_keeps_their_dates(orient, clock, tmp_path):
    days = pd.date_range("2021-03-01", periods=12, freq="D", name="date")
    frame = pd.DataFrame({"a": np.arange(12) % 5, "b": np.arange(12) % 7}, index=days)
    frame = frame if clock == "index" else frame.reset_index()
    found = read(tmp_path, frame.to_json(orient=orient, date_format="iso"), "x.json")
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.stamps.astype("M8[s]"), days.to_numpy().astype("M8[s]"))
    assert not found.notices


@pytest.mark.parametrize("orient", ["records", "split", "list", "columns", "nested"])
def test_json_as_programs_write_it(orient, tmp_path):
    frame = pd.DataFrame({"date": DAYS.strftime("%Y-%m-%d"), "a": X[:, 0], "b": X[:, 1]})
    if orient in ("list", "nested"):
        value = frame.to_dict("list" if orient == "list" else "records")
        text = json.dumps(value if orient == "list" else {"about": {"n": 2}, "data": value})
    else:
        text = (frame if orient == "records" else frame.set_index("date")).to_json(orient=orient)
    found = read(tmp_path, text, "x.json")
    np.testing.assert_allclose(found.values, X)
    assert found.names == ("a", "b") and clock(found) == (1.0, "day")


def test_arrays_of_their_own_are_variables(tmp_path):
    np.savez(tmp_path / "x.npz", t=0.5 * np.arange(60), a=X[:, 0], b=X[:, 1])
    found = read_table(tmp_path / "x.npz")
    assert found.names == ("a", "b") and clock(found) == (0.5, "")
    np.testing.assert_array_equal(found.values, X)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(read_table(tmp_path / "x.npy").values, X)


@pytest.mark.parametrize("code", [99.99, 999.99, -99.9])
def test_nines_are_codes(code):
    x = np.random.default_rng(0).normal(size=500)
    x[[3, 50]] = code
    assert codes_of([x]) == (code,)


@pytest.mark.parametrize(
    "head, rows, names",
    [
        ("when,5,10\nd,degC,degC\n", lines(DAYS, "%Y-%m-%d"), ("5", "10")),
        ("when,q,p\nYYYY-MM-DD,m3/s,0.1 C\n", lines(DAYS, "%Y-%m-%d"), ("q", "p")),
        ("Lat: 5.5 Lon: 7.5\n-END-\nYEAR,DOY,q,p\n", lines(DAYS, "%Y,%j"), ("q", "p")),
        ("'when','q','p'\n", lines(DAYS, "'%Y-%m-%d'"), ("q", "p")),
        ("when,q,p\n", lines(DAYS, "%Y-%m-%dT%H"), ("q", "p")),
        ("yyyy mm dd   q    p\n             mm  C\n", lines(DAYS, "%Y  %m %d ", " "), ("q", "p")),
        ("from,to,when,q,p\n", lines(DAYS, "2020-01-01,2022-01-01,%Y-%m-%d"), ("q", "p")),
    ],
)
def test_heads_of_other_services(head, rows, names, tmp_path):
    found = read(tmp_path, head + "\n".join(rows), "x.txt")
    assert found.names == names and clock(found) == (1.0, "day")
    np.testing.assert_allclose(found.values, X)


def test_species_of_several_sites_are_variables_of_recordings(tmp_path):
    days = np.tile(np.repeat(DAYS[:30], 2), 2)
    frame = pd.DataFrame({"site": np.repeat(["P", "Q"], 60), "date": days})
    frame = frame.assign(species=["hare", "lynx"] * 60, count=X.ravel())
    found = read(tmp_path, frame.to_csv(index=False))
    assert found.names == ("hare", "lynx")
    np.testing.assert_allclose(found.values[found.recordings[1]], X[30:])


@pytest.mark.parametrize("first", [1500, 1950])
def test_twelve_sensors_are_no_months(first, tmp_path):
    frame = pd.DataFrame(np.tile(X, 6), range(first, first + 60), range(1, 13))
    found = read(tmp_path, frame.to_csv(index_label="time"))
    assert found.values.shape == (60, 12)


def test_recordings_without_names_are_told_apart(tmp_path):
    rows = [f"{i // 20} {i % 20 + 1} {a} {b}" for i, (a, b) in enumerate(X)]
    found = read(tmp_path, "\n".join(rows), "x.txt")
    assert found.names == ("x2", "x3") and len(found.recordings) == 3
    assert all(clock(found, rows) == (1.0, "") for rows in found.recordings)


@pytest.mark.parametrize("form", ["{0}/{1}", "{0}-{2}", "{0}/{2}"])
def test_years_that_begin_in_autumn(form, tmp_path):
    rows = [f"{form.format(y, f'{(y + 1) % 100:02d}', y + 1)},{i * i % 7}"
            for i, y in enumerate(range(1996, 2030))]  # fmt: skip
    found = read(tmp_path, "season,a\n" + "\n".join(rows))
    assert found.names == ("a",) and clock(found) == (1.0, "year")
    assert found.stamps[0] == np.datetime64("1996-01")


@pytest.mark.parametrize("cells", ["1.2.3", "1/8", "10.0.0.1"])
def test_words_of_digits_are_text(cells, tmp_path):
    rows = [f"{day.date()},{cells},{row}" for day, row in zip(DAYS, ROWS, strict=True)]
    found = read(tmp_path, "when,version,a,b\n" + "\n".join(rows))
    assert found.names == ("a", "b") and "'version' holds text" in found.notices[0]


def test_days_that_are_counted_beside_times_of_day_are_the_time(tmp_path):
    minutes = 930 * 60 // 100 + 10 * np.arange(100)
    rows = "".join(
        f"{307 + m // 1440},{m % 1440 // 60 * 100 + m % 60},{36 + m % 7}\n" for m in minutes
    )
    table = read(tmp_path, f"day,time,temp\n{rows}")
    assert table.names == ("temp",) and "columns day, time are read" in table.notices[0]
    assert (np.diff(table.stamps) == np.timedelta64(10, "m")).all()


def test_a_year_beside_dates_is_no_time_of_day(tmp_path):
    """1950 is not ten to eight in the evening, if the dates of several stations repeat."""
    days = [f"{year}-01-{day:02}" for year in (1950, 2022) for day in range(1, 32)]
    rows = "".join(
        f"{site},{date},{k % 7},{date[:4]}\n" for site in "ab" for k, date in enumerate(days)
    )
    table = read(tmp_path, f"site,date,tmax,year\n{rows}")
    assert table.stamps[0] == np.datetime64("1950-01-01") and len(table.recordings) == 2
    assert set(table.stamps.astype("M8[D]")) == set(np.array(days, "M8[D]"))
    assert (table.stamps == table.stamps.astype("M8[D]")).all()


def test_years_out_of_order_are_refused_and_not_read_as_a_variable(tmp_path):
    years = [*range(1900, 1950), *range(1850, 1900)]
    text = "".join(f"{k},{year},{year % 7}\n" for k, year in enumerate(years, start=1))
    with pytest.raises(ValueError, match=r"row 51 breaks this, where 1949.* followed by 1850"):
        sampling(read(tmp_path, f"rownames,year,level\n{text}").stamps)


def test_variables_that_look_like_times_are_named(tmp_path):
    """Like the ages of ice, which may count forward or back."""
    ages = np.cumsum(np.random.default_rng(0).integers(5, 90, 60))
    rows = "".join(f"{k},{age},{k % 5},{k % 7}\n" for k, age in enumerate(ages, start=1))
    (said,) = read(tmp_path, f"rownames,age,day,co2\n{rows}").notices
    assert "columns age, day look like times" in said and "--time-column" in said
    assert not read(tmp_path, f"time,mass,day,co2\n{rows}").notices


def test_a_header_one_name_short_above_dates_begins_with_them(tmp_path):
    rows = "".join(f"{1990 + k // 12}-{k % 12 + 1:02},{k % 5},{k % 7},-1\n" for k in range(40))
    table = read(tmp_path, f"Date,level,flow\n{rows}")
    assert table.names[:2] == ("level", "flow") and table.values[6, :2].tolist() == [1, 6]
    assert "the header may be one name short" in table.notices[0]
