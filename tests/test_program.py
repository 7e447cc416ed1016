"""Programs that Ctrl-C ends at once, and their message."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ndde_jax import cli
from ndde_jax._program import run_program

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def own_signals():
    """Signal handlers are restored after a program."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


PROGRAM = """
import sys, time
from ndde_jax._program import run_program
def work():
    print("working", flush=True)
    time.sleep(60)
sys.exit(run_program(work, lambda: "what is kept"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_leaves_at_once(number):
    command = [sys.executable, "-c", PROGRAM]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(number)
        assert process.wait(10) == 130
        assert process.stderr.read() == "what is kept\n"


def test_a_program_that_ends_returns_or_raises(own_signals):
    def fail():
        raise ValueError("of the work")

    assert run_program(lambda: 7, str) == 7
    with pytest.raises(ValueError, match="of the work"):
        run_program(fail, str)


def test_the_program_is_main_with_the_arguments_of_the_process(monkeypatch, capsys, own_signals):
    monkeypatch.setattr(sys, "argv", ["ndde-jax", "--no-cache", "examples", "--quiet"])
    assert cli.program() == 0
    assert "enso" in capsys.readouterr().out
