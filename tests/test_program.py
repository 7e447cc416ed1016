"""Programs that Ctrl-C ends at once, and what they say then."""

import functools
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ndde_jax import cli

REPOSITORY = Path(__file__).parents[1]

PROGRAM = """
import sys, time
from ndde_jax._program import run_program
def work():
    print("working", flush=True)
    if sys.argv[1] == "error":
        raise ValueError("of the work")
    time.sleep(float(sys.argv[1]))
    return 7
sys.exit(run_program(work, lambda: "what is kept"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_leaves_at_once(number):
    command = [sys.executable, "-c", PROGRAM, "60"]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        assert process.wait(10) == 130
        assert process.stderr.read() == "what is kept\n"


def test_a_program_that_ends_returns_or_raises():
    run = functools.partial(subprocess.run, capture_output=True, text=True, cwd=REPOSITORY)
    assert run([sys.executable, "-c", PROGRAM, "0"]).returncode == 7
    failed = run([sys.executable, "-c", PROGRAM, "error"])
    assert failed.returncode == 1 and "ValueError: of the work" in failed.stderr


def test_the_program_is_main_with_the_arguments_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ndde-jax", "--no-cache", "examples", "--quiet"])
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        assert cli.program() == 0
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
            signal.signal(number, handler)
    assert "enso" in capsys.readouterr().out
