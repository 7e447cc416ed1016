"""Random faults: nothing wrong is loaded, nothing finished is lost, and programs end in time.

`python -m tests.faults` prints the same figures.
"""

import signal
import sys

import jax
import pytest

from tests.faults.__main__ import say
from tests.faults.bits import flips
from tests.faults.disk import fill_disk
from tests.faults.stops import stop_benchmark, stop_cli, stop_fit_many

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and file systems"),
]


@pytest.fixture(autouse=True)
def single_precision():
    """With the settings of users, as the programs have."""
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def test_flipped_bits_are_refused_or_harmless(tmp_path):
    outcomes = flips(tmp_path, 510)
    say("bit flips", outcomes)
    assert sum(outcomes.values()) == 510
    assert not any("OTHER NUMBERS" in key for key in outcomes)
    assert outcomes["discovery", "refused"] == outcomes["fit_many", "refused"] == 170


@pytest.mark.parametrize("stop, n", [(stop_fit_many, 10), (stop_benchmark, 10)])
def test_kill_9_loses_nothing(stop, n, tmp_path):
    outcomes = stop(tmp_path / "run", signal.SIGKILL, n)
    say(stop.__doc__, outcomes)
    assert outcomes["finished and LOST OR CHANGED"] == 0
    assert outcomes["finished and kept"] > 0


@pytest.mark.parametrize("stop, n", [(stop_fit_many, 8), (stop_benchmark, 4), (stop_cli, 8)])
def test_interrupts_lose_nothing_and_end_in_time(stop, n, tmp_path):
    outcomes = stop(tmp_path / "run", signal.SIGINT, n)
    say(stop.__doc__, outcomes)
    assert outcomes["finished and LOST OR CHANGED"] == 0
    assert outcomes["finished and kept"] > 0
    assert outcomes["partial files left"] == 0
    codes = {int(name.split()[-1]) for name in outcomes if name.startswith("exit code")}
    # 0: it was at its end. -2: Python's own code, while it imports, and of a script.
    assert codes <= {0, 130, -signal.SIGINT}
    assert outcomes["slowest exit after that, milliseconds"] < 2000


def test_a_full_disk_loses_nothing(tmp_path):
    try:
        outcomes = fill_disk(tmp_path)
    except PermissionError as error:
        pytest.skip(str(error))
    say("a full disk", outcomes)
    assert outcomes == {
        "refused with a sentence": 1,
        "earlier file as it was": 1,
        "fits returned": 3,
        "warnings of fit_many": 1,
        "discover: exit code 2": 1,
        "discover: one line of error": 1,
        "discover: other lines but warnings": 0,
        "discover: files left": 0,
        "partial files left": 0,
    }
