"""Files as users have them: spreadsheets, text columns, time found by its content, recordings."""

import datetime
import re

import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.samples._clock import sampling
from ndde_jax.samples._tables import read_table


def workbook(path, rows, formats=()):
    """A workbook of these rows; `formats` are of the columns."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for j, code in enumerate(formats, start=1):
        for (cell,) in book.active.iter_rows(min_col=j, max_col=j):
            cell.number_format = code
    book.save(path)
    return path


def test_a_workbook_with_dates_and_an_empty_cell(tmp_path):
    days = [datetime.datetime(2001, month, 1) for month in (1, 2, 3, 4)]
    rows = [("when", "flow"), *zip(days, (1.5, None, 3.5, 4.0), strict=True)]
    found = read_table(workbook(tmp_path / "x.xlsx", rows))
    assert found.names == ("flow",)
    np.testing.assert_array_equal(found.values, [[1.5], [np.nan], [3.5], [4.0]])
    assert sampling(found.stamps)[:2] == (1.0, "month")


def test_a_format_of_the_users_own_is_a_date_too(tmp_path):
    rows = [(36892 + i / 24, i * i) for i in range(1, 9)]
    path = workbook(tmp_path / "x.xlsx", rows, formats=("dd.mm.yyyy hh:mm",))
    assert sampling(read_table(path, time_column="x0").stamps)[:2] == (1.0, "hour")


def test_a_workbook_has_a_title_units_and_commas(tmp_path):
    rows = [("Gauge of the upper river", None, None), ("day", "flow", "rain"), (None, "m3/s", "mm")]
    rows += [(i, f"{i * i},5", i % 3) for i in range(12)]
    found = read_table(workbook(tmp_path / "x.xlsx", rows))
    assert found.names == ("flow", "rain") and any("m3/s" in text for text in found.notices)
    np.testing.assert_array_equal(found.values[:, 0], np.arange(12.0) ** 2 + 0.5)


def test_sheets_that_are_not_read_are_named(tmp_path):
    path = workbook(tmp_path / "x.xlsx", [("flow",), *((i % 5,) for i in range(12))])
    assert not read_table(path).notices
    book = pytest.importorskip("openpyxl").load_workbook(path)
    book.create_sheet("rain").append(("wet",))
    book.save(path)
    assert read_table(path).notices == (
        "x.xlsx: its first sheet, 'Sheet', is read; --key names another: rain.",
    )
    assert read_table(path, key="Sheet").notices == ()
    with pytest.raises(ValueError, match=r"x\.xlsx has no sheet 'snow'; it has: Sheet, rain\.$"):
        read_table(path, key="snow")
    book.create_sheet("notes", 0)
    book.save(path)
    with pytest.raises(ValueError, match="no data: its first sheet, 'notes', is read; --key"):
        read_table(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello"])
def test_what_is_no_workbook_is_refused(content, tmp_path):
    (tmp_path / "x.xlsx").write_bytes(content)
    with pytest.raises(ValueError, match="Export the spreadsheet as CSV"):
        read_table(tmp_path / "x.xlsx")


def test_columns_of_text_are_left_out_with_a_notice(tmp_path):
    (tmp_path / "x.csv").write_text("a,site,b\n1,north,2\n3,south,4\n5,,6\n")
    found = read_table(tmp_path / "x.csv")
    assert found.names == ("a", "b")
    assert found.notices == ("x.csv: column 'site' holds text and is left out.",)
    with pytest.raises(ValueError, match="not numeric"):
        read_table(tmp_path / "x.csv", columns=["a", "site"])


def test_a_column_with_one_odd_cell_is_not_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,warm\n")
    with pytest.raises(ValueError, match="'warm'"):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize("name", ["time_yr", "Date [d]", "obs time"])
def test_time_is_found_by_its_content(name, tmp_path):
    (tmp_path / "x.csv").write_text(f"a,{name},b\n1,0.5,2\n3,1.0,4\n2,1.5,6\n")
    found = read_table(tmp_path / "x.csv")
    assert found.names == ("a", "b")
    np.testing.assert_array_equal(found.stamps, [0.5, 1.0, 1.5])
    assert found.notices == (f"x.csv: column {name!r} is read as the time.",)


@pytest.mark.parametrize(
    "place, cell", [(20, "11.05.202O"), (1, "?"), (40, "Summe"), (40, "Total 2020"), (7, "")]
)
def test_a_bad_cell_among_dates_is_named_and_the_dates_are_kept(place, cell, tmp_path):
    days = [datetime.date(2020, 5, 1) + datetime.timedelta(days=k) for k in range(40)]
    cells = [f"{day:%d.%m.%Y}" for day in days]
    cells[place - 1] = cell
    rows = [f"{cell};{k % 7};{k % 5}" for k, cell in enumerate(cells)]
    (tmp_path / "x.csv").write_text("Datum;a;b\n" + "\n".join(rows))
    with pytest.raises(ValueError, match=f"'Datum' holds '{re.escape(cell)}' in data row {place};"):
        read_table(tmp_path / "x.csv")


def test_a_column_with_other_dates_is_not_asked_for_the_time(tmp_path):
    rows = [f"{'2020-01-01' if k % 3 else 'never'},2020-05-{k + 1:02d},{k % 7}" for k in range(30)]
    (tmp_path / "x.csv").write_text("repaired,day,a\n" + "\n".join(rows))
    found = read_table(tmp_path / "x.csv")
    assert found.names == ("a",) and sampling(found.stamps)[:2] == (1.0, "day")


def test_a_first_column_in_equal_steps_is_the_time(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["beat,rr,p", *(f"{k},{k % 7},{k * k % 11}" for k in range(40))]))
    found = read_table(path)
    assert found.names == ("rr", "p") and np.array_equal(found.stamps, range(40))


def test_ages_count_back(tmp_path):
    """The deepest ice came first: read forwards, effects would come before causes."""
    path, age = tmp_path / "x.csv", np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 40))
    path.write_text("\n".join(["age_kyr_BP,dust,ice", *(f"{t},{t % 7},{t * t}" for t in age)]))
    found = read_table(path)
    np.testing.assert_allclose(found.stamps, -age[::-1])
    np.testing.assert_allclose(found.values[:, 1], age[::-1] ** 2)
    assert any("counts back from the present" in text for text in found.notices)


def test_the_unit_of_numbers_is_that_in_the_name_of_their_column(tmp_path):
    path, rows = tmp_path / "x.csv", [f"{0.5 * k},{k % 7},{k * k % 11}" for k in range(40)]
    for name, unit in (("time_h", "h"), ("t [ms]", "ms"), ("time", ""), ("days", "day")):
        path.write_text("\n".join([f"{name},a,b", *rows]))
        assert read_table(path).unit == unit
    samples = ndde.read_samples(path)
    assert (samples.dt, samples.time_unit) == (0.5, "day")
    assert ndde.read_samples(path, time_unit="week").time_unit == "week"
    assert ndde.read_samples(str(path)).names == samples.names  # by name, too
    path.write_text(
        "\n".join(["date,a,b", *(f"{1950 + k / 12:.3f},{k % 7},{k % 5}" for k in range(40))])
    )
    assert read_table(path).unit == "year"
    path.write_text("\n".join(["date,a,b", *rows]))
    assert read_table(path).unit == ""


def test_a_name_like_time_that_does_not_rise_is_a_variable(tmp_path):
    (tmp_path / "x.csv").write_text("a,travel time\n1,3\n3,1\n2,2\n")
    assert read_table(tmp_path / "x.csv").names == ("a", "travel time")


def test_semicolons_and_decimal_commas_are_found_and_said(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1,5;2,5\n3,5;4,5\n")
    found = read_table(tmp_path / "x.csv")
    np.testing.assert_array_equal(found.values, [[1.5, 2.5], [3.5, 4.5]])
    assert "decimal comma" in found.notices[0]


def test_merged_cells_tell_recordings_apart(tmp_path):
    """As pandas writes an index with two levels."""
    days = [datetime.datetime(2001, 1, day) for day in range(1, 9)]
    rows = [("site", "date", "flow"), *((None, day, day.day % 5) for day in 2 * days)]
    rows[1], rows[9] = ("north", *rows[1][1:]), ("south", *rows[9][1:])
    found = read_table(workbook(tmp_path / "x.xlsx", rows))
    assert found.names == ("flow",) and list(map(len, found.recordings)) == [8, 8]
    assert found.notices == (
        "x.xlsx: column 'site' tells recordings apart, because time stamps repeat.",
    )


def test_recordings_are_told_apart_by_a_column(tmp_path):
    (tmp_path / "x.csv").write_text("who,t,a\nb,0,1\nb,1,2\na,0,3\nb,2,4\na,1,5\n")
    found = read_table(tmp_path / "x.csv", trial="who", time_column="t")
    assert found.names == ("a",)
    assert [found.values[rows, 0].tolist() for rows in found.recordings] == [[1, 2, 4], [3, 5]]
    assert [found.stamps[rows].tolist() for rows in found.recordings] == [[0, 1, 2], [0, 1]]
    with pytest.raises(ValueError, match="no column 'z'"):
        read_table(tmp_path / "x.csv", trial="z")
