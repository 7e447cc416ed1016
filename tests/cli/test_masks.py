"""Only some rows of a file serve as the present of a window."""

import numpy as np
import pytest

from .small import run, write


@pytest.fixture
def years(tmp_path):
    dates = [f"{2001 + k // 12}-{k % 12 + 1:02d}" for k in range(48)]
    lines = [
        f"{date},{k % 5},{k * k % 7},{'wet' if k % 12 in (3, 4) else 'dry'},{k % 4}"
        for k, date in enumerate(dates)
    ]
    return write(tmp_path / "years.csv", "date,a,b,season,quarter\n" + "\n".join(lines) + "\n")


def found_mask(calls, years, tmp_path, *arguments):
    out = tmp_path / f"out{len(calls)}"
    words = ("--lags", "0:1", "--out", out, "--no-plot", "--quiet", *arguments)
    assert run("discover", years, *words) == 0
    return calls[-1][1]


def test_months_of_dates(calls, years, tmp_path):
    options = found_mask(calls, years, tmp_path, "--months", "12,1,2")
    np.testing.assert_array_equal(options["mask"], np.isin(np.arange(48) % 12, (11, 0, 1)))
    assert options["names"] == ("a", "b", "quarter")


def test_values_of_a_column_which_is_no_variable_then(calls, years, tmp_path):
    options = found_mask(calls, years, tmp_path, "--only", "quarter=1, 3.0")
    np.testing.assert_array_equal(options["mask"], np.arange(48) % 4 % 2 == 1)
    assert options["names"] == ("a", "b")
    options = found_mask(calls, years, tmp_path, "--only", "quarter=1", "--columns", "a,quarter")
    assert options["names"] == ("a", "quarter")
    options = found_mask(
        calls, years, tmp_path, "--only", "season=wet", "--months", "5", "--columns", "a,b"
    )
    np.testing.assert_array_equal(options["mask"], np.arange(48) % 12 == 4)
    assert "mask" not in found_mask(calls, years, tmp_path, "--columns", "a,b")


def test_recordings_have_one_each(calls, tmp_path):
    lines = [f"{k % 20},{k // 20},{k % 7},{k % 3},{int(k % 20 > 9)}" for k in range(40)]
    file = write(tmp_path / "x.csv", "t,who,a,b,late\n" + "\n".join(lines) + "\n")
    # The replacement for a discovery cannot show what it finds in several recordings.
    run("discover", file, "--trial", "who", "--only", "late=1", "--lags", "0", "--out", tmp_path)
    values, options = calls[-1]
    assert len(values) == 2 and options["names"] == ("a", "b")
    assert [m.tolist() for m in options["mask"]] == [[False] * 10 + [True] * 10] * 2


@pytest.mark.slow
def test_winters_of_a_file_from_end_to_end(tmp_path, capsys):
    rng, x = np.random.default_rng(0), np.zeros((600, 2))
    winter = np.isin(np.arange(600) % 12, (11, 0, 1, 2))
    for k in range(599):
        push = 1.0 if winter[k] else -1.0
        rate = np.array([-x[k, 0], push * x[k, 0] - x[k, 1]])
        x[k + 1] = x[k] + 0.5 * rate + np.array([0.7, 0.3]) * rng.normal(size=2)
    rows = [
        f"{1950 + k // 12}-{k % 12 + 1:02d},{a:.5f},{b:.5f}" for k, (a, b) in enumerate(x.tolist())
    ]
    file = write(tmp_path / "x.csv", "date,a,b\n" + "\n".join(rows) + "\n")
    arguments = ("--months", "12,1,2,3", "--lags", "0:1", "--recipe", "fast", "--no-plot", "--full")
    assert run("discover", file, *arguments, "--no-treat", "--out", tmp_path / "out") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Only the 200 of 600 samples in the mask" in said and "a → b" in said
    assert run("effects", tmp_path / "out", "--out", tmp_path / "effects", "--no-plot") == 0
    lines = (tmp_path / "effects" / "effects.csv").read_text().splitlines()
    assert any(line.startswith("a,b,0,") and ",1," in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "rain=1"], "has no column 'rain'; it has: date, a, b, season, quarter"),
        (["--only", "season=foggy"], "has 'foggy' in column 'season'; it holds: dry, wet"),
        (["--only", "season=wet", "--months", "1"], "--only and --months together leave no row"),
        (["--months", "1", "--time-column", "quarter"], "--months needs a time column with dates"),
    ],
)
def test_what_leaves_nothing_is_said_in_a_line(years, tmp_path, capsys, arguments, message):
    assert run("discover", years, "--dt", "1", "--out", tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.strip().count("\n") <= 1


def test_examples_have_no_rows_to_choose(tmp_path, capsys):
    assert run("discover", "--example", "enso", "--months", "1", "--out", tmp_path / "out") == 2
    assert "for data files" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--only", "season"], ["--only", "=1"], ["--only", "a=1,,2"], ["--months", "13"]]
)
def test_words_that_are_none(years, arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run("discover", years, *arguments)
    assert stop.value.code == 2 and "xpected" in capsys.readouterr().err


def test_offsets_are_a_setting_of_the_recipe(calls, years, tmp_path):
    assert not found_mask(calls, years, tmp_path, "--columns", "a,b")["recipe"].offsets
    words = ("--columns", "a,b", "--offsets", "--recipe", "fast")
    recipe = found_mask(calls, years, tmp_path, *words)["recipe"]
    assert recipe.offsets and not recipe.strategy.fits_networks
