"""Output of the command beside its result: notices, whose fault errors are, and edges."""

import csv
import itertools

import numpy as np
import pytest

import ndde_jax
from ndde_jax import _output, cli

from .small import FakeDiscovery


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command on a small file; return its exit code and its output."""
    (tmp_path / "x.csv").write_text("a;b\n1,5;2\n2,5;4\n3,5;1\n4,5;7\n")

    outs = (tmp_path / f"out{i}" for i in itertools.count())

    def command(*arguments, discover=FakeDiscovery):
        monkeypatch.setattr(ndde_jax, "discover", discover)
        shared = ["discover", str(tmp_path / "x.csv"), "--dt=1", f"--out={next(outs)}"]
        code = cli.main([*shared, *arguments])
        return code, capsys.readouterr()

    return command


def test_a_notice_says_what_was_assumed_unless_quiet(run):
    code, said = run("--no-plot")
    assert code == 0
    assert said.err == "ndde-jax: note: x.csv: numbers are read with a decimal comma.\n"
    assert run("--no-plot", "--quiet")[1].err == ""
    assert run("--no-plot", "--decimal=,")[1].err == ""


def test_a_fault_of_the_library_says_so_in_one_line(run):
    def broken(*_, **__):
        raise KeyError("no such leaf")

    code, said = run(discover=broken)
    assert code == 1
    assert said.err.count("\n", said.err.index("error")) == 1
    assert "KeyError: 'no such leaf'. This is a bug in ndde-jax" in said.err
    assert "--debug" in said.err and "Traceback" not in said.err
    code, said = run("--debug", discover=broken)
    assert code == 1 and "Traceback" in said.err and "no such leaf" in said.err


def test_too_little_memory_is_no_fault_of_the_library(run):
    def large(*_, **__):
        raise MemoryError("931 GiB")

    code, said = run(discover=large)
    assert code == 2 and "not enough memory: 931 GiB. Use fewer" in said.err


def test_debug_goes_before_the_command_too(capsys):
    assert cli.main(["--debug", "examples", "--quiet"]) == 0
    assert cli.main(["--debug", "discover"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_edges_are_in_the_order_of_the_frame(tmp_path):
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    samples = ndde_jax.read_samples(rng.normal(size=(4, 3)), names=tuple("abc"), dt=0.5)
    found = FakeDiscovery(samples, lags=(0, 2))
    found.graph, found.scores = rng.random((3, 3, 2)) > 0.5, rng.random((3, 3, 2))
    written = list(csv.DictReader(_output._edges(found).decode().splitlines()))
    frame = ndde_jax.Discovery.to_frame(found)
    assert list(written[0]) == list(frame.columns)
    for row, expected in zip(written, frame.to_dict("records"), strict=True):
        for name, value in expected.items():
            if name in ("delay_estimate", "delay_low", "delay_high", "p", "q"):
                # rounded in the file; an edge that is not kept has none: nan in the frame
                assert float(row[name] or "nan") == pytest.approx(value, nan_ok=True)
            else:
                assert row[name] == (f"{value:.12g}" if isinstance(value, float) else str(value))
