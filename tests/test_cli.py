"""The command line: arguments, file formats, what it writes, and how it fails."""

import csv
import errno
import html.parser
import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
import types
import warnings

import jax
import numpy as np
import pytest

import ndde_jax
from ndde_jax import _atomic, cli
from ndde_jax.check._finding import Finding
from ndde_jax.check._verdict import Verdict
from ndde_jax.samples._examples import load_example
from ndde_jax.samples._tables import read_table, sampling


class FakeDiscovery:
    """The part of `Discovery` that the command uses; the first variable drives the last."""

    def __init__(self, values, *, names, lags, dt, time_unit, **_):
        dim = np.shape(values)[1]
        self.names, self.lags, self.time_unit = names, lags, time_unit
        self.dt = 1.0 if dt is None else dt
        self.level_lags = tuple(lag + 1 for lag in lags)
        self.graph = np.zeros((dim, dim, len(lags)), bool)
        self.graph[0, -1, -1] = True
        self.scores = self.graph * 0.5
        self.lower = self.graph * 0.25
        self.delays = np.where(self.graph, 1.5, np.nan)
        self.delay_intervals = self.delays[..., None] + np.array([-0.5, 0.5])
        self.samples = types.SimpleNamespace(values=[np.asarray(values, float)])
        finding = Finding("measured", "short <b>", 3.0, "", "Few & far.", "More.", "reservation")
        memory = [0.0] * (dim - 1) + [0.125]
        self.verdict = Verdict([finding], lines=["Verdict: with reservations."], memory=memory)
        self.strengths = types.SimpleNamespace(risk=np.linspace(0.5, 0.25, dim))

    def report(self, checked=None, *, full=False):
        return (
            ("full " if full else "")
            + f"report on {', '.join(self.names)}"
            + (f", {checked}" if checked else "")
        )

    def identifiability(self, *, key, progress):
        return f"checked with {jax.random.key_data(key)[-1]}"

    def effects(self):
        raise ValueError("too few samples for effects.")

    def save(self, directory):
        directory.mkdir()
        (directory / "model").write_text("saved")


@pytest.fixture
def calls(monkeypatch):
    """Replaces `discover`; the list holds the values and options of each call."""
    calls = []

    def discover(values, **options):
        calls.append((values, options))
        return FakeDiscovery(values, **options)

    monkeypatch.setattr(ndde_jax, "discover", discover, raising=False)
    return calls


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("month,a,b\n2001-01,1,10\n2001-02,,20\n2001-03,3,30\n2001-04,4,nan\n")
    return path


EXPECTED = [[1, 10], [np.nan, 20], [3, 30], [4, np.nan]]


def _write(path, text):
    path.write_text(text)
    return path


def _run(*arguments):
    return cli.main([str(argument) for argument in arguments])


# ---- the main job ----


def test_discover_writes_everything_and_says_so(table, tmp_path, calls, capsys):
    out = tmp_path / "new" / "result"
    assert _run("discover", table, "--lags", "0:2", "--out", out) == 0
    assert (out / "report.txt").read_text() == "report on a, b\n"
    rows = (out / "edges.csv").read_text().splitlines()
    assert rows[:3] == [
        "source,target,lag,level_lag,delay,kept,score,lower,delay_estimate,delay_low,delay_high",
        "a,b,2,3,2.0,True,0.5,0.25,1.5,1,2",
        "a,a,0,1,0.0,False,0.0,0.0,,,",
    ]
    assert len(rows) == 1 + 2 * 2 * 3
    assert (out / "discovery" / "model").read_text() == "saved"
    for name in ("lag_matrix.png", "process_graph.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.startswith("report on a, b\n")
    for name in ("report.txt", "edges.csv", "lag_matrix.png", "process_graph.png", "discovery"):
        assert f"wrote {out / name}" in printed


class Page(html.parser.HTMLParser):
    """What is open, shown, and asked for from elsewhere."""

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
    assert _run(*command) == 0
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    page = Page(text)
    assert page.open == [] and page.outside == []
    assert "script" not in page.tags and "link" not in page.tags and "url(" not in text
    assert page.tags.count("h1") == 1 and len(page.images) == 2 and all(page.images)
    shown = " ".join(page.shown)
    pieces = ("a, b: with reservations", "short <b>", "Few & far.", "1 to 2", "0.5000", "12.5%")
    for piece in (*pieces, "More: docs/problems/short_<b>.md", "Not drawn: ndde-jax discover"):
        assert piece in " ".join(shown.split()).replace(" : ", ": ").replace(":  ", ": "), piece
    assert "full report on a, b, checked with" in shown
    assert shlex.join(map(str, ("ndde-jax", *command))) in shown
    assert 'name="viewport"' in text


def test_effects_that_cannot_be_drawn_say_why(table, tmp_path, calls):
    for name, check in (("plain", ()), ("checked", ("--check",))):
        out = tmp_path / name
        assert _run("discover", table, "--out", out, "--effects", *check, "--quiet") == 0
        shown = " ".join(Page((out / "report.html").read_text("utf-8")).shown)
        assert "Not drawn: too few samples for effects." in shown


def test_the_page_has_no_pictures_where_none_are_drawn(table, tmp_path, calls):
    assert _run("discover", table, "--no-plot", "--out", tmp_path) == 0
    assert "img" not in Page((tmp_path / "report.html").read_text("utf-8")).tags


def test_arguments_reach_discover(table, tmp_path, calls):
    assert (
        _run(
            *("discover", table, "--dt", 0.5, "--lags", "0,6,3", "--out", tmp_path, "--seed", 7),
            *("--columns", "b,a", "--scheme", "central", "--time-unit", "h", "--no-plot"),
            *("--coefficient", 0.02, "--recipe", "fast", "--quiet"),
        )
        == 0
    )
    ((values, options),) = calls
    np.testing.assert_array_equal(values, np.array(EXPECTED)[:, ::-1])
    key, prior, recipe = (options.pop(name) for name in ("key", "prior", "recipe"))
    assert not recipe.networks
    assert bool(prior.allowed.all()) and not bool(prior.required.any())
    assert jax.numpy.array_equal(jax.random.key_data(key), jax.random.key_data(jax.random.key(7)))
    assert options == {
        "dt": 0.5, "lags": (0, 3, 6), "names": ("b", "a"), "scheme": "central", "time_unit": "h",
        "coefficient": 0.02, "progress": False,
        "directory": tmp_path / "unfinished",
    }  # fmt: skip


def test_what_is_known_reaches_discover(table, tmp_path, calls):
    assert (
        _run(
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
    _run("discover", table, "--out", tmp_path, "--no-plot", "--quiet", "--no-self-edges")
    ((_, options),) = calls
    np.testing.assert_array_equal(options["prior"].allowed[..., 0], ~np.eye(2, dtype=bool))


@pytest.mark.parametrize("text", ["a", "a>", ">b", "a>b@", "a>b@x", "a>b@-1"])
def test_bad_edges_leave_with_code_2(text, table, tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        _run("discover", table, "--forbid", text, "--out", tmp_path)
    assert error.value.code == 2
    assert "SOURCE>TARGET" in capsys.readouterr().err


def test_check_extends_the_report(table, tmp_path, calls):
    _run("discover", table, "--out", tmp_path, "--no-plot", "--quiet", "--check", "--seed", 3)
    # Not with the randomness of the discovery that it checks.
    other = jax.random.key_data(jax.random.fold_in(jax.random.key(3), 1))[-1]
    assert (tmp_path / "report.txt").read_text() == f"report on a, b, checked with {other}\n"


def test_defaults_come_from_the_file(table, tmp_path, calls):
    assert _run("discover", table, "--out", tmp_path, "--no-plot") == 0
    ((_, options),) = calls
    assert (options["dt"], options["time_unit"], options["lags"]) == (1.0, "month", (0,))
    assert (options["scheme"], options["coefficient"], options["progress"]) == (None, None, True)
    assert "t" not in options


def test_irregular_stamps_are_passed_on(tmp_path, calls):
    path = _write(tmp_path / "x.csv", "t,a\n0,1\n1,2\n3,5\n")
    assert _run("discover", path, "--out", tmp_path, "--no-plot") == 0
    ((values, options),) = calls
    assert options["dt"] is None
    np.testing.assert_array_equal(options["t"], [0, 1, 3])
    assert values.shape == (3, 1)


def test_example_brings_its_own_settings(tmp_path, calls):
    assert _run("discover", "--example", "tropical_pacific", "--out", tmp_path, "--no-plot") == 0
    example = load_example("tropical_pacific")
    ((values, options),) = calls
    np.testing.assert_array_equal(values, example.values)
    for name in ("dt", "time_unit", "names", "lags"):
        assert options[name] == getattr(example, name)
    assert _run("discover", "--example=tropical_pacific", "--columns=SOI", "--lags=0:3",
                "--out", tmp_path / "b", "--no-plot") == 0  # fmt: skip
    values, options = calls[1]
    np.testing.assert_array_equal(values[:, 0], example.values[:, 2])
    assert (options["names"], options["lags"]) == (("SOI",), (0, 1, 2, 3))


def test_quiet_prints_nothing(table, tmp_path, calls, capsys):
    assert _run("discover", table, "--out", tmp_path, "--quiet") == 0
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_edges_without_pandas_and_pictures_without_matplotlib(
    table, tmp_path, calls, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "ndde_jax.plot", None)
    assert _run("discover", table, "--lags", "0:1", "--out", tmp_path) == 0
    rows = list(csv.DictReader((tmp_path / "edges.csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2
    (kept,) = (row for row in rows if row["kept"] == "True")
    assert (kept["source"], kept["target"], kept["lag"]) == ("a", "b", "1")
    assert (float(kept["delay"]), float(kept["score"]), float(kept["lower"])) == (1, 0.5, 0.25)
    captured = capsys.readouterr()
    assert "ndde_jax[plot]" in captured.err
    assert "png" not in captured.out


def test_examples_are_listed_with_their_licence(capsys):
    assert _run("examples") == 0
    printed = capsys.readouterr().out
    assert "enso\n" in printed
    assert "Public domain" in printed
    assert _run("examples", "--quiet") == 0
    assert capsys.readouterr().out.split() == ["elbe_flood", "enso", "tropical_pacific"]


def test_version(capsys):
    with pytest.raises(SystemExit) as exit:
        _run("--version")
    assert exit.value.code == 0
    try:
        expected = importlib.metadata.version("ndde_jax")
    except importlib.metadata.PackageNotFoundError:
        expected = "unknown"
    assert expected in capsys.readouterr().out


@pytest.mark.slow
def test_discover_end_to_end_on_real_data(tmp_path, capsys):
    assert (
        _run("discover", "--example", "tropical_pacific", "--lags", "0:2", "--out", tmp_path) == 0
    )
    names = load_example("tropical_pacific").names
    report = (tmp_path / "report.txt").read_text()
    assert all(name in report for name in names)
    header = (tmp_path / "edges.csv").read_text().splitlines()[0].split(",")
    assert {"source", "target", "lag"} <= set(header)
    assert (tmp_path / "lag_matrix.png").stat().st_size > 10_000
    assert (tmp_path / "process_graph.png").stat().st_size > 10_000
    assert (tmp_path / "discovery").exists()
    assert report.splitlines()[0] in capsys.readouterr().out


# ---- interruptions and full disks ----


def _kept_stage(directory, name="abc-stage.npz"):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("kept")


def test_stages_are_forgotten_once_all_is_written(table, tmp_path, calls):
    _kept_stage(tmp_path / "unfinished")
    assert _run("discover", table, "--out", tmp_path, "--no-plot", "--quiet") == 0
    assert not (tmp_path / "unfinished").exists()


@pytest.mark.parametrize("finished", [0, 2])
def test_an_interrupt_says_what_is_kept(finished, table, tmp_path, capsys, monkeypatch):
    _kept_stage(tmp_path / "unfinished", "of-another-command.npz")
    os.utime(tmp_path / "unfinished" / "of-another-command.npz", (0, 0))

    def discover(*_, directory, **__):
        for i in range(finished):
            _kept_stage(directory, f"{i}.npz")
        raise KeyboardInterrupt

    monkeypatch.setattr(ndde_jax, "discover", discover)
    assert _run("discover", table, "--out", tmp_path) == 130
    (line,) = capsys.readouterr().err.split("\n")[1:-1]
    if finished:
        assert f"2 finished stages are kept in {tmp_path / 'unfinished'}" in line
        assert "the same command goes on from there" in line
    else:
        assert "before anything was finished" in line
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".csv"] == ["unfinished"]


def test_an_interrupted_check_keeps_results_and_stages(table, tmp_path, calls, capsys, monkeypatch):
    def interrupted(self, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeDiscovery, "identifiability", interrupted)
    _kept_stage(tmp_path / "unfinished")
    assert _run("discover", table, "--out", tmp_path, "--no-plot", "--check") == 130
    error = capsys.readouterr().err
    assert (
        f"report.txt, edges.csv, report.html, discovery are complete in {tmp_path}, only the check"
        in error
    )
    assert (tmp_path / "report.txt").read_text() == "report on a, b\n"
    assert (tmp_path / "unfinished").exists()


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_a_full_disk_leaves_previous_results_as_they_were(
    fails_at, table, tmp_path, calls, capsys, monkeypatch
):
    """Whichever file does not fit."""

    def save(self, directory):
        _atomic.write_bytes(directory, b"discovery of " + " ".join(self.names).encode())

    monkeypatch.setattr(FakeDiscovery, "save", save)
    out = tmp_path / "out"
    assert _run("discover", table, "--out", out, "--quiet") == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert len(before) == 6
    writes, fsync = [], _atomic.os.fsync

    def full(descriptor):
        writes.append(descriptor)
        if len(writes) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(_atomic.os, "fsync", full)
    assert _run("discover", table, "--columns", "a", "--out", out, "--quiet") == 2
    error = capsys.readouterr().err
    assert re.fullmatch(r"ndde-jax: error: \S+ cannot be written \(No space left.*\n", error)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_warnings_are_one_line(table, tmp_path, calls, capsys, monkeypatch):
    def discover(values, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("Not\nstored.", stacklevel=1)
        return FakeDiscovery(values, **options)

    monkeypatch.setattr(ndde_jax, "discover", discover)
    assert _run("discover", table, "--out", tmp_path, "--no-plot", "--quiet") == 0
    assert capsys.readouterr().err == "ndde-jax: warning: Not stored.\n"


# ---- lags ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0:12", tuple(range(13))), ("0:12:3", (0, 3, 6, 9, 12)), ("1:5:3", (1, 4)),
     ("6,0,3,3", (0, 3, 6)), ("4", (4,))],
)  # fmt: skip
def test_lags(text, expected):
    assert cli.parse_lags(text) == expected


@pytest.mark.parametrize("text", ["", "1:", "a", "3:1", "-1,0", "0:4:0", "0:4:1:2", "1.5"])
def test_bad_lags_leave_with_code_2(text, capsys):
    with pytest.raises(SystemExit) as exit:
        _run("discover", "--example=enso", f"--lags={text}")
    assert exit.value.code == 2
    assert "START:STOP" in capsys.readouterr().err


# ---- errors ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv", "--dt=1"], "No such file: missing.csv"),
        ([], "either a data file or --example"),
        (["--example=el_nino"], "enso, tropical_pacific"),
        (["--example=enso", "--columns=SOI"], "has no column 'SOI'"),
        (["data.csv", "--columns=a,z"], "no column 'z'; it has: month, a, b"),
        (["data.csv", "--time-column=when"], "no column 'when'"),
        (["data.csv", "--time-unit=day"], "counted in months"),
        (["bare.csv"], "--dt"),
        (["ragged.csv", "--dt=1"], "row 3 has 1"),
        (
            ["text.csv", "--dt=1"],
            "text.csv: column 'b' is not numeric: 'warm' in data row 2. Leave it out: --columns a",
        ),
        (["back.csv"], "data row 3"),
        (["empty.csv", "--dt=1"], "no data"),
        (["header.csv", "--dt=1"], "no data"),
        (["data.xlsx", "--dt=1"], ".csv"),
        (["double.csv", "--dt=1"], "same name"),
    ],
)
def test_errors_are_one_line_and_code_2(
    arguments, words, table, tmp_path, calls, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "bare.csv": "a,b\n1,2\n3,4\n",
        "ragged.csv": "a,b\n1,2\n3\n",
        "text.csv": "a,b\n1,2\n3,warm\n",
        "back.csv": "t,a\n0,1\n2,1\n1,1\n",
        "empty.csv": "\n",
        "header.csv": "a,b\n",
        "data.xlsx": "",
        "double.csv": "a,a\n1,2\n",
    }.items():
        _write(tmp_path / name, text)
    assert _run("discover", *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("ndde-jax: error: ")
    assert error.count("\n") == 1
    assert words in error
    assert not calls
    assert not (tmp_path / "result").exists()  # nothing is written before the input is understood


def test_errors_of_the_library_are_reported_too(table, tmp_path, capsys, monkeypatch):
    def discover(*_, **__):
        raise ValueError("Expected more\nsamples.")

    monkeypatch.setattr(ndde_jax, "discover", discover, raising=False)
    assert _run("discover", table, "--out", tmp_path) == 2
    assert capsys.readouterr().err == f"ndde-jax: error: {table}: Expected more samples.\n"


def test_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    (tmp_path / "x.parquet").touch()
    assert _run("discover", tmp_path / "x.parquet", "--dt=1") == 2
    assert "ndde_jax[data]" in capsys.readouterr().err


# ---- formats ----


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
    found = read_table(_write(tmp_path / "x.txt", "1  10\nnan 20\n3  30\n4 nan\n"))
    assert (found.names, found.stamps) == (("x0", "x1"), None)
    np.testing.assert_array_equal(found.values, EXPECTED)
    one = read_table(_write(tmp_path / "y.csv", "1.5\n2e3\n"))
    np.testing.assert_array_equal(one.values, [[1.5], [2000]])


def test_a_column_of_numbers_is_no_time_unless_named_so(tmp_path):
    path = _write(tmp_path / "x.csv", "k,a\n0,5\n2,6\n4,7\n")
    assert read_table(path).names == ("k", "a")
    found = read_table(path, time_column="k")
    assert found.names == ("a",)
    assert sampling(found.stamps)[:2] == (2.0, "")
    index = read_table(_write(tmp_path / "y.csv", ",a\n0,5\n1,6\n"))
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
    assert _run("discover", tmp_path / "x.npz", "--out", tmp_path, "--no-plot", "--quiet") == 0
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
