"""How the command line fails: interruptions, full disks, bad arguments, bad files."""

import errno
import os
import re
import runpy
import sys
import warnings

import numpy as np
import pytest

import ndde_jax
from ndde_jax import _files, cli

from .small import FakeDiscovery, kept_stage, run, write


def test_stages_are_forgotten_once_all_is_written(table, tmp_path, calls):
    kept_stage(tmp_path / "unfinished")
    assert run("discover", table, "--out", tmp_path, "--no-plot", "--quiet") == 0
    assert not (tmp_path / "unfinished").exists()


@pytest.mark.parametrize("finished", [0, 2])
def test_an_interrupt_says_what_is_kept(finished, table, tmp_path, capsys, monkeypatch):
    kept_stage(tmp_path / "unfinished", "of-another-command.npz")
    os.utime(tmp_path / "unfinished" / "of-another-command.npz", (0, 0))

    def discover(*_, directory, **__):
        for i in range(finished):
            kept_stage(directory, f"{i}.npz")
        raise KeyboardInterrupt

    monkeypatch.setattr(ndde_jax, "discover", discover)
    assert run("discover", table, "--out", tmp_path) == 130
    (line,) = capsys.readouterr().err.split("\n")[1:-1]
    if finished:
        assert f"2 finished stages are kept in {tmp_path / 'unfinished'}" in line
        assert "the same command resumes from there" in line
    else:
        assert "before any stage was finished" in line
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".csv"] == ["unfinished"]


def test_an_interrupted_check_keeps_results_and_stages(table, tmp_path, calls, capsys, monkeypatch):
    def interrupted(self, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeDiscovery, "identifiability", interrupted)
    kept_stage(tmp_path / "unfinished")
    assert run("discover", table, "--out", tmp_path, "--no-plot", "--check") == 130
    error = capsys.readouterr().err
    assert (
        f"report.txt, report.html, edges.csv, discovery are complete in {tmp_path}, without"
        in error
    )
    assert (tmp_path / "report.txt").read_text().startswith("Verdict: with reservations.\n")
    assert (tmp_path / "unfinished").exists()


@pytest.mark.parametrize("fails_at", range(1, 7))
def test_a_full_disk_leaves_previous_results_as_they_were(
    fails_at, table, tmp_path, calls, capsys, monkeypatch
):
    """Whichever file does not fit on the disk."""

    def save(self, directory):
        _files.write_bytes(directory, b"discovery of " + " ".join(self.names).encode())

    monkeypatch.setattr(FakeDiscovery, "save", save)
    out = tmp_path / "out"
    assert run("discover", table, "--out", out, "--quiet") == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    assert len(before) == 6
    writes, fsync = [], _files.os.fsync

    def full(descriptor):
        writes.append(descriptor)
        if len(writes) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(_files.os, "fsync", full)
    assert run("discover", table, "--columns", "a", "--out", out, "--quiet") == 2
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
    assert run("discover", table, "--out", tmp_path, "--no-plot", "--quiet") == 0
    assert capsys.readouterr().err == "ndde-jax: warning: Not stored.\n"


def test_without_a_time_column_samples_are_counted(tmp_path, calls, capsys):
    rows = (f"{k % 7},{k * k % 11}" for k in range(30))
    write(tmp_path / "x.csv", "\n".join(["a,b", *rows]))
    assert run("discover", tmp_path / "x.csv", "--out", tmp_path, "--no-plot") == 0
    assert calls[0][1]["dt"] == 1.0 and calls[0][1]["time_unit"] == ""
    assert "Times are counted in samples" in capsys.readouterr().err


# ---- lags ----


@pytest.mark.parametrize("text", ["", "1:", "a", "3:1", "-1,0", "0:4:0", "0:4:1:2", "1.5"])
def test_bad_lags_leave_with_code_2(text, capsys):
    with pytest.raises(SystemExit) as exit:
        run("discover", "--example=enso", f"--lags={text}")
    assert exit.value.code == 2
    error = capsys.readouterr().err
    assert "START:STOP" in error and f"got {text!r}" in error
    assert error.startswith("ndde-jax: error: argument --lags") and error.count("\n") == 1
    assert error.endswith("ndde-jax discover --help lists the options.\n")


def test_help_names_the_decimal_marks(capsys):
    with pytest.raises(SystemExit):
        run("discover", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "--decimal MARK decimal mark of a text file, a point or a comma" in text


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
        (["data.csv", "--time-unit=day"], "in the unit 'month', can be converted"),
        (["ragged.csv", "--dt=1"], "row 3 has 1"),
        (
            ["text.csv", "--dt=1"],
            "text.csv: column 'b' is not numeric: 'warm' in data row 2. Leave it out: --columns a",
        ),
        (["back.csv"], "data row 3"),
        (["empty.csv", "--dt=1"], "no data"),
        (["header.csv", "--dt=1"], "no data"),
        (["data.xlsx", "--dt=1"], ".csv"),
        (["short.csv", "--dt=1"], "2 names"),
        (["sites.csv", "--trial=site"], "--trial site makes 2 recordings, 1 of 1 row, which has"),
        (["data.csv", "--key=gauges"], "--key names an array of an NPZ file, a variable"),
        (["data.csv", "--variables=lat"], "--variables names dimensions of a NetCDF or Zarr file"),
        (["x.npz", "--separator=;"], "the cells of a text file, which x.npz is not. Omit it"),
        (["x.npz", "--decimal=,"], "--decimal is the decimal mark of a text file or a sheet"),
        (["x.npz", "--header=no"], "--header says whether the first row of a text file"),
        (["x.npz", "--dates=day-first"], "dates in the time column are read; x.npz has none"),
        (["one.csv", "--time-zone=CET"], "--time-zone says how dates in the time column are read"),
        (["dates.csv", "--time-zone=Mars"], "Mars is no known time zone; expected a name such as"),
        (["--example=enso", "--dates=day-first"], "--dates is for data files"),
        (["--example=enso", "--time-column=t"], "--time-column is for data files"),
    ],
)
def test_errors_are_one_line_and_code_2(
    arguments, words, table, tmp_path, calls, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "ragged.csv": "a,b\n1,2\n3\n",
        "text.csv": "a,b\n1,2\n3,warm\n",
        "back.csv": "t,a\n0,1\n2,1\n1,1\n",
        "empty.csv": "\n",
        "header.csv": "a,b\n",
        "data.xlsx": "",
        "short.csv": "a,b\n1,2,3,4\n4,5,6,7\n",
        "sites.csv": "site,day,a\nb,2001-01-01,1\na,2001-01-01,1\na,2001-01-02,4\na,2001-01-03,2\n",
        "one.csv": "a\n1\n3\n2\n",
        "dates.csv": "time,a\n2001-01-01,1\n2001-01-02,3\n2001-01-03,2\n",
    }.items():
        write(tmp_path / name, text)
    np.savez(tmp_path / "x.npz", x=np.eye(5))
    assert run("discover", *arguments) == 2
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
    assert run("discover", table, "--out", tmp_path) == 2
    assert capsys.readouterr().err == f"ndde-jax: error: {table}: Expected more samples.\n"


def test_an_output_that_cannot_be_made_is_named(table, tmp_path, capsys, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(cli.tempfile, "TemporaryDirectory", refuse)
    assert run("discover", table, "--out", tmp_path / "new" / "result") == 2
    said = f"--out must be a directory that can be written; {tmp_path} cannot: Permission denied"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_reader_that_leaves_is_no_error(monkeypatch):
    """Like `head` does. Before, "Broken pipe" and code 2 came."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run("examples") == 0


def test_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "x.parquet").touch()
    assert run("discover", tmp_path / "x.parquet", "--dt=1") == 2
    assert "ndde_jax[data]" in capsys.readouterr().err


def test_the_package_is_the_command_line(monkeypatch):
    monkeypatch.setattr(cli, "program", lambda: 7)
    # Another test may have imported it, about which runpy would warn.
    monkeypatch.delitem(sys.modules, "ndde_jax.__main__", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module("ndde_jax", run_name="__main__")
    assert end.value.code == 7
