"""Files as they come: spreadsheets, columns of text, time found by its content, recordings."""

import zipfile

import numpy as np
import pytest

from ndde_jax.samples._tables import read_table, sampling

HEAD = '<?xml version="1.0"?><{} xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def workbook(path, rows, texts=(), styles=("0",), formats=""):
    """A workbook as Excel writes it: shared texts, styles, one sheet."""
    sheet = "".join(f'<row r="{i}">{"".join(row)}</row>' for i, row in enumerate(rows, start=1))
    shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
    kinds = "".join(f'<xf numFmtId="{kind}"/>' for kind in styles)
    with zipfile.ZipFile(path, "w") as book:
        book.writestr(
            "xl/worksheets/sheet1.xml",
            HEAD.format("worksheet") + f"<sheetData>{sheet}</sheetData></worksheet>",
        )
        book.writestr("xl/sharedStrings.xml", HEAD.format("sst") + shared + "</sst>")
        book.writestr(
            "xl/styles.xml",
            HEAD.format("styleSheet")
            + f"<numFmts>{formats}</numFmts><cellXfs>{kinds}</cellXfs></styleSheet>",
        )
    return path


def test_a_workbook_with_dates_and_an_empty_cell(tmp_path):
    days = [36892, 36923, 36951, 36982]  # the first of January to April 2001
    rows = [['<c r="A1" t="s"><v>0</v></c>', '<c r="B1" t="s"><v>1</v></c>']]
    rows += [
        [f'<c r="A{i}" s="1"><v>{day}</v></c>', f'<c r="B{i}"><v>{value}</v></c>' if value else ""]
        for i, (day, value) in enumerate(zip(days, (1.5, 0, 3.5, 4.0), strict=True), start=2)
    ]
    path = workbook(tmp_path / "x.xlsx", rows, ("when", "flow"), styles=("0", "14"))
    found = read_table(path)
    assert found.names == ("flow",)
    np.testing.assert_array_equal(found.values, [[1.5], [np.nan], [3.5], [4.0]])
    assert sampling(found.stamps)[:2] == (1.0, "month")


def test_a_format_of_the_users_own_is_a_date_too(tmp_path):
    rows = [
        [f'<c r="A{i}" s="1"><v>{36892 + i / 24}</v></c>', f'<c r="B{i}"><v>{i}</v></c>']
        for i in range(1, 9)
    ]
    own = '<numFmt numFmtId="170" formatCode="dd.mm.yyyy hh:mm"/>'
    path = workbook(tmp_path / "x.xlsx", rows, styles=("0", "170"), formats=own)
    assert sampling(read_table(path, time_column="x0").stamps)[:2] == (1.0, "hour")


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
    assert found.notices == (f"x.csv: column {name!r} is taken for the time.",)


def test_a_name_like_time_that_does_not_rise_is_a_variable(tmp_path):
    (tmp_path / "x.csv").write_text("a,travel time\n1,3\n3,1\n2,2\n")
    assert read_table(tmp_path / "x.csv").names == ("a", "travel time")


def test_semicolons_and_decimal_commas_are_found_and_said(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1,5;2,5\n3,5;4,5\n")
    found = read_table(tmp_path / "x.csv")
    np.testing.assert_array_equal(found.values, [[1.5, 2.5], [3.5, 4.5]])
    assert "decimal comma" in found.notices[0]


def test_recordings_are_told_apart_by_a_column(tmp_path):
    (tmp_path / "x.csv").write_text("who,t,a\nb,0,1\nb,1,2\na,0,3\nb,2,4\na,1,5\n")
    found = read_table(tmp_path / "x.csv", trial="who", time_column="t")
    assert found.names == ("a",)
    assert [found.values[rows, 0].tolist() for rows in found.recordings] == [[1, 2, 4], [3, 5]]
    assert [found.stamps[rows].tolist() for rows in found.recordings] == [[0, 1, 2], [0, 1]]
    with pytest.raises(ValueError, match="no column 'z'"):
        read_table(tmp_path / "x.csv", trial="z")
