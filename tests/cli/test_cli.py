"""The command line: its arguments and its output."""

import csv
import html.parser
import importlib.metadata
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from ndde_jax.samples._examples import load_example

from .small import EXPECTED, run, write

ROOT = Path(__file__).resolve().parents[2]


def test_discover_writes_everything_and_says_so(table, tmp_path, calls, capsys):
    out = tmp_path / "new" / "result"
    assert run("discover", table, "--lags", "0:2", "--out", out) == 0
    report = (out / "report.txt").read_text()
    assert report.startswith("Verdict: with reservations.\n") and "a → b" in report
    rows = (out / "edges.csv").read_text().splitlines()
    assert rows[:3] == [
        "source,target,lag,level_lag,delay,kept,score,lower,delay_estimate,delay_low,delay_high,"
        "p,q,reason",
        "a,b,2,3,2,True,0.5,0.25,1.5,1,2,0.001,0.01,kept",
        "a,a,0,1,0,False,0,0,,,,0.5,,does not pay its price",
    ]
    assert len(rows) == 1 + 2 * 2 * 3
    assert (out / "discovery" / "model").read_text() == "saved"
    for name in ("lag_matrix.png", "process_graph.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.startswith(report)
    for name in ("report.txt", "edges.csv", "lag_matrix.png", "process_graph.png", "discovery"):
        assert f"wrote {out / name}" in printed
    assert f"ndde-jax effects {out / 'discovery'} --out {out / 'effects'}" in printed


class Page(html.parser.HTMLParser):
    """The parts that are open, shown, and requested from elsewhere."""

    VOID = ("meta", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.shown, self.images, self.outside = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open += [] if tag in self.VOID else [tag]
        for name, value in attributes:
            if tag == "img" and name == "alt":
                self.images.append(value)
            if name in ("src", "href") and not value.startswith("data:image/png;base64,"):
                self.outside.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.shown.append(data)


def test_the_page_is_whole_in_itself(table, tmp_path, calls):
    command = ("discover", table, "--lags", "0:2", "--out", tmp_path / "out", "--check")
    assert run(*command) == 0
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    page = Page(text)
    assert page.open == [] and page.outside == []
    assert "script" not in page.tags and "link" not in page.tags and "url(" not in text
    assert page.tags.count("h1") == 1 and len(page.images) == 2 and all(page.images)
    shown = " ".join(page.shown)
    pieces = ("a, b: with reservations", "Short <b>", "Few & far.", "0.500", "0.250", "12.5%")
    pieces += ("90 min (60 to 120)", "And 2 more, in", "a <-> b", "follows checked with")
    for piece in (*pieces, "Not drawn. ndde-jax discover"):
        assert piece in " ".join(shown.split()).replace(" : ", ": ").replace(":  ", ": "), piece
    assert "report on a, b, checked with" in shown
    assert shlex.join(map(str, ("ndde-jax", *command))) in shown
    assert 'name="viewport"' in text


def test_effects_that_cannot_be_drawn_say_why(table, tmp_path, calls):
    for name, check in (("plain", ()), ("checked", ("--check",))):
        out = tmp_path / name
        assert run("discover", table, "--out", out, "--effects", *check, "--quiet") == 0
        shown = " ".join(Page((out / "report.html").read_text("utf-8")).shown)
        assert "Not drawn: too few samples for effects." in shown


def test_the_page_has_no_pictures_where_none_are_drawn(table, tmp_path, calls):
    assert run("discover", table, "--no-plot", "--out", tmp_path) == 0
    assert "img" not in Page((tmp_path / "report.html").read_text("utf-8")).tags


def test_arguments_reach_discover(table, tmp_path, calls):
    assert (
        run(
            *("discover", table, "--dt", 0.5, "--lags", "0,6,3", "--out", tmp_path, "--seed", 7),
            *("--columns", "b,a", "--scheme", "central", "--time-unit", "h", "--no-plot"),
            *("--coefficient", 0.02, "--recipe", "fast", "--quiet"),
        )
        == 0
    )
    ((values, options),) = calls
    np.testing.assert_array_equal(values, np.array(EXPECTED)[:, ::-1])
    key, prior, recipe = (options.pop(name) for name in ("key", "prior", "recipe"))
    assert not recipe.strategy.fits_networks
    assert bool(prior.allowed.all()) and not bool(prior.required.any())
    assert jax.numpy.array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(7)))
    assert options == {
        "dt": 0.5, "lags": (0, 3, 6), "names": ("b", "a"), "scheme": "central", "time_unit": "h",
        "coefficient": 0.02, "progress": False,
        "directory": tmp_path / "unfinished", "transform": None, "treat": True, "inputs": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("of", "lags", "expected"),
    [
        ("rate", "0:6h:2h", (0, 4, 8, 12)),
        ("level", "2h:6h:2h", (3, 7, 11)),
        ("rate", "0,3", (0, 3)),
    ],
)
def test_times_are_lags_of_the_grid_that_discover_makes(of, lags, expected, tmp_path, calls):
    stamps = np.datetime64("2021-01-01T00:00") + 30 * np.arange(600).astype("m8[m]")
    x = np.random.default_rng(0).normal(size=(600, 2))
    # Half of the rows are missing, so that the mean interval is about an hour.
    rows = [f"{stamps[k]},{x[k, 0]},{x[k, 1]}" for k in range(600) if k // 50 % 2 == 0]
    file = tmp_path / "x.csv"
    file.write_text("time,a,b\n" + "\n".join(rows) + "\n")
    options = ("--lags", lags, "--lags-of", of, "--out", tmp_path, "--no-plot", "--quiet")
    assert run("discover", file, *options) == 0
    assert calls[0][1]["lags"] == expected


def test_what_is_known_reaches_discover(table, tmp_path, calls):
    assert (
        run(
            *("discover", table, "--lags", "0,3", "--out", tmp_path, "--no-plot", "--quiet"),
            *("--forbid", "a > a@3", "--require", "b>b@0", "--exogenous", "b"),
        )
        == 0
    )
    ((_, options),) = calls
    allowed = np.ones((2, 2, 2), bool)
    allowed[0, 0, 1] = allowed[0, 1] = False
    np.testing.assert_array_equal(options["prior"].allowed, allowed)
    assert np.argwhere(options["prior"].required).tolist() == [[1, 1, 0]]
    calls.clear()
    run("discover", table, "--out", tmp_path, "--no-plot", "--quiet", "--no-self-edges")
    ((_, options),) = calls
    np.testing.assert_array_equal(options["prior"].allowed[..., 0], ~np.eye(2, dtype=bool))


def test_an_option_that_lists_names_adds_to_what_was_listed(table, tmp_path, calls):
    options = ("--out", tmp_path, "--no-plot", "--quiet", "--columns", "b", "--columns", "a")
    assert run("discover", table, *options, "--inputs", "b", "--exogenous", "a") == 0
    ((_, options),) = calls
    assert options["names"] == ("b", "a")
    np.testing.assert_array_equal(options["prior"].allowed[..., 0], np.eye(2, dtype=bool))


def test_inputs_may_be_clocks(table, tmp_path, calls):
    options = ("--out", tmp_path, "--no-plot", "--quiet", "--lags", "0", "--inputs", "b,year")
    assert run("discover", table, *options) == 0
    ((_, options),) = calls
    assert options["inputs"] == ["b", "year"]
    np.testing.assert_array_equal(options["prior"].allowed[..., 0], [[1, 0], [1, 1]])


def test_totals_stand_where_their_interval_begins(table, tmp_path, calls):
    options = ("--out", tmp_path, "--no-plot", "--quiet", "--totals", "b")
    assert run("discover", table, *options) == 0
    ((values, _),) = calls
    a, b = np.array(EXPECTED).T
    np.testing.assert_array_equal(values, np.column_stack([a[:-1], b[1:]]))


@pytest.mark.parametrize("text", ["a", "a>", ">b", "a>b@", "a>b@x", "a>b@-1"])
def test_bad_edges_leave_with_code_2(text, table, tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        run("discover", table, "--forbid", text, "--out", tmp_path)
    assert error.value.code == 2
    assert "SOURCE>TARGET" in capsys.readouterr().err


@pytest.mark.parametrize("option, value", [("--forbid", "a>q"), ("--inputs", "q")])
def test_an_unknown_variable_is_told_by_the_option_that_named_it(option, value, table, capsys):
    assert run("discover", table, option, value) == 2
    assert f"{option}: there is no variable 'q'" in capsys.readouterr().err


def test_check_extends_the_report(table, tmp_path, calls):
    run("discover", table, "--out", tmp_path, "--no-plot", "--quiet", "--check", "--seed", 3)
    # Not with the randomness of the discovery that is checked.
    other = jax.random.key_data(jax.random.fold_in(jax.random.key(3), 1))[-1]
    assert f"report on a, b, checked with {other}\n" in (tmp_path / "report.txt").read_text()


def test_defaults_come_from_the_file(table, tmp_path, calls):
    assert run("discover", table, "--out", tmp_path, "--no-plot") == 0
    ((_, options),) = calls
    assert (options["dt"], options["time_unit"], options["lags"]) == (1.0, "month", None)
    assert (options["scheme"], options["coefficient"], options["progress"]) == (None, None, True)
    assert "t" not in options


def test_irregular_stamps_are_passed_on(tmp_path, calls):
    path = write(tmp_path / "x.csv", "t,a\n0,1\n1,2\n3,5\n")
    assert run("discover", path, "--out", tmp_path, "--no-plot") == 0
    ((values, options),) = calls
    assert options["dt"] is None
    np.testing.assert_array_equal(options["t"], [0, 1, 3])
    assert values.shape == (3, 1)


def test_example_brings_its_own_settings(tmp_path, calls):
    assert run("discover", "--example", "tropical_pacific", "--out", tmp_path, "--no-plot") == 0
    example = load_example("tropical_pacific")
    ((values, options),) = calls
    np.testing.assert_array_equal(values, example.values)
    for name in ("dt", "time_unit", "names", "lags"):
        assert options[name] == getattr(example, name)
    assert run("discover", "--example=tropical_pacific", "--columns=SOI", "--lags=0:3",
                "--out", tmp_path / "b", "--no-plot") == 0  # fmt: skip
    values, options = calls[1]
    np.testing.assert_array_equal(values[:, 0], example.values[:, 2])
    assert (options["names"], options["lags"]) == (("SOI",), (0, 1, 2, 3))


def test_quiet_prints_nothing(table, tmp_path, calls, capsys):
    assert run("discover", table, "--out", tmp_path, "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_edges_are_written_and_pictures_left_out_without_matplotlib(
    table, tmp_path, calls, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ndde_jax.plot", None)
    assert run("discover", table, "--lags", "0:1", "--out", tmp_path) == 0
    rows = list(csv.DictReader((tmp_path / "edges.csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2
    (kept,) = (row for row in rows if row["kept"] == "True")
    assert (kept["source"], kept["target"], kept["lag"]) == ("a", "b", "1")
    assert (float(kept["delay"]), float(kept["score"]), float(kept["lower"])) == (1, 0.5, 0.25)
    captured = capsys.readouterr()
    assert "ndde_jax[plot]" in captured.err
    assert "png" not in captured.out


def test_examples_are_listed_with_their_licence(capsys):
    assert run("examples") == 0
    printed = capsys.readouterr().out
    assert "enso\n" in printed
    assert "Public domain" in printed
    assert run("examples", "--quiet") == 0
    assert capsys.readouterr().out.split() == ["elbe_flood", "enso", "tropical_pacific"]


def test_version(capsys):
    with pytest.raises(SystemExit) as exit:
        run("--version")
    assert exit.value.code == 0
    try:
        expected = importlib.metadata.version("ndde_jax")
    except importlib.metadata.PackageNotFoundError:
        expected = "unknown"
    assert expected in capsys.readouterr().out


def shown(names):
    """The verdict on the variables shown on the first pages."""
    pages = [(ROOT / page).read_text("utf-8") for page in ("README.md", "docs/index.md")]
    texts = {
        text for page in pages for text in re.findall(r"```text\n(Verdict: .*?)```", page, re.S)
    }
    (verdict,) = (text for text in texts if names[0] in text)
    return verdict.removesuffix("[...]\n")


def test_the_first_page_shows_what_its_command_prints(tmp_path):
    assert run("discover", "--example=elbe_flood", "--out", tmp_path, "--no-plot", "--quiet") == 0
    report = (tmp_path / "report.txt").read_text("utf-8")
    assert report.startswith(shown(load_example("elbe_flood").names))


@pytest.mark.slow
def test_the_second_example_is_what_its_command_prints(tmp_path):
    """In single precision, as for users: networks start elsewhere in double precision."""
    command = [sys.executable, "-m", "ndde_jax.cli", "discover", "--example=tropical_pacific"]
    subprocess.run([*command, "--out", tmp_path, "--no-plot", "--quiet"], check=True)
    report = (tmp_path / "report.txt").read_text("utf-8")
    assert report.startswith(shown(load_example("tropical_pacific").names))


@pytest.mark.slow
def test_discover_end_to_end_on_real_data(tmp_path, capsys):
    assert run("discover", "--example", "tropical_pacific", "--lags", "0:2", "--out", tmp_path) == 0
    names = load_example("tropical_pacific").names
    report = (tmp_path / "report.txt").read_text()
    assert all(name in report for name in names)
    header = (tmp_path / "edges.csv").read_text().splitlines()[0].split(",")
    assert {"source", "target", "lag"} <= set(header)
    assert (tmp_path / "lag_matrix.png").stat().st_size > 10_000
    assert (tmp_path / "process_graph.png").stat().st_size > 10_000
    assert (tmp_path / "discovery").exists()
    assert report.splitlines()[0] in capsys.readouterr().out
