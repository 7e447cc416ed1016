"""Programs are killed and interrupted at random times."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks._store import Record, Store, Unit
from ndde_jax import _store
from ndde_jax.cli import UNFINISHED
from tests.faults import unit

REPOSITORY = Path(__file__).parents[2]
N_SYSTEMS = 12
N_UNITS = 40

# Fits that take some tenths of a second each; reports which files it has stored, and when.
FIT_MANY = f"""
import sys, threading, time
import jax, numpy as np
import ndde_jax as ndde
from ndde_jax import _store
from ndde_jax.cli import UNFINISHED
original = _store.Kept.save
def save(self, name, value, label):
    original(self, name, value, label)
    sys.stdout.write(" ".join(("stored", name, str(time.time()))) + chr(10))  # at once
    sys.stdout.flush()
_store.Kept.save = save
systems = [
    ndde.lagged_windows(np.random.default_rng(i).normal(size=(100, 2)).cumsum(0), dt=1.0)
    for i in range({N_SYSTEMS})
]
config = ndde.FitConfig(
    max_steps=2000, epoch_steps=50, warmup="adam", warmup_steps=0, refine="none", width=4, depth=1
)
open(sys.argv[2], "w").close()
ndde.fit_many(ndde.L0NDDE(path=()), systems, config, key=jax.random.key(0),
              directory=sys.argv[1], progress=False, workers=2)
print("done", flush=True)
"""

# A benchmark that runs in worker processes.
BENCHMARK = f"""
import sys, time
from benchmarks._runner import program, run_tasks
from benchmarks._store import Store
from tests.faults.stops import Task, slowly
def main():
    open(sys.argv[2], "w").close()
    with Store(sys.argv[1]) as store:
        run_tasks([Task(i) for i in range({N_UNITS})], slowly, store, progress=False, workers=2)
    print("done", flush=True)
    return 0
if __name__ == "__main__":
    sys.exit(program(main))
"""


# The command `ndde-jax`, which reports when it begins.
CLI = """
import sys
from ndde_jax import cli
begun = sys.argv.pop(1)
run = cli._run
def begin(arguments):
    open(begun, "w").close()
    return run(arguments)
cli._run = begin
sys.exit(cli.program())
"""


def _stopped(
    command: list[str],
    number: signal.Signals,
    n: int,
    *,
    last: float,
    begun: Path,
    finished: Callable[[], dict],
    again: Callable[[], None] = lambda: None,
) -> Counter:
    """Stop a program `n` times at random within `last` seconds, and check the results.

    The time starts when the file `begun` exists: while Python imports, nothing can be lost.
    `finished()` returns the files on disk, by name; a file that existed once must exist for ever,
    with the same content. `again()` clears the disk after the program has ended.
    """
    random.seed(str(command))
    outcomes, before, slowest = Counter(), finished(), 0.0
    for _ in range(n):
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
        with subprocess.Popen(command, **pipes) as process:
            while not begun.exists() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(random.uniform(0.0, last))
            stamps = [time.time()]
            process.send_signal(number)
            process.wait()
            ended = time.time()
            out, err = process.communicate()
        begun.unlink(missing_ok=True)
        stored = [line.split() for line in out.splitlines() if line.startswith("stored")]
        # A running unit may end first, and is stored then.
        stamps += [float(stamp) for _, _, stamp in stored]
        slowest = max(slowest, ended - max(stamps))
        outcomes[f"exit code {process.returncode}"] += 1
        outcomes["tracebacks"] += "Traceback" in err
        now = finished()
        said = {name for _, name, _ in stored}
        lost = {name for name in before if now.get(name) != before[name]} | (said - set(now))
        if process.returncode == 0:  # stages are removed once their result is stored
            lost = {name for name in lost if not name.startswith(UNFINISHED)}
        outcomes["finished and LOST OR CHANGED"] += len(lost)
        outcomes["finished and kept"] += len(set(now) - set(before))
        before = now
        if out.endswith("done\n"):
            outcomes["ran to its end"] += 1
            again()
            before = finished()
    outcomes["slowest exit after that, milliseconds"] = round(1000 * slowest)
    return outcomes


def _kept_files(directory: Path) -> dict[str, bytes]:
    """Finished results, which must all load."""
    found = {}
    for path in directory.rglob("*.npz"):
        _store.read(path, object)
        stage = UNFINISHED in path.relative_to(directory).parts
        found[f"{UNFINISHED} {path.stem}" if stage else path.stem] = path.read_bytes()
    return found


def _kept_units(path: Path) -> dict[str, str]:
    """Rows and arrays of a results file, checked."""
    if not path.exists():
        return {}
    with Store(path) as store:
        rows = {str(row.series): repr(row) for row in store.rows("bench")}
        assert set(rows) == {str(unit.series) for unit in store.done("bench")}
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    return rows


def stop_fit_many(directory: Path, number: signal.Signals, n: int) -> Counter:
    """Results of `fit_many(directory=)`."""
    directory.mkdir()
    return _stopped(
        [sys.executable, "-c", FIT_MANY, str(directory / "many"), str(directory / "begun")],
        number,
        n,
        last=12.0,
        begun=directory / "begun",
        finished=lambda: _kept_files(directory),
        again=lambda: shutil.rmtree(directory / "many"),
    )


def stop_benchmark(directory: Path, number: signal.Signals, n: int) -> Counter:
    """Results of a benchmark with two workers."""
    directory.mkdir()
    path = directory / "results.sqlite"
    return _stopped(
        [sys.executable, "-c", BENCHMARK, str(path), str(directory / "begun"), "--no-cache"],
        number,
        n,
        last=8.0,
        begun=directory / "begun",
        finished=lambda: _kept_units(path),
        again=path.unlink,
    )


def stop_cli(directory: Path, number: signal.Signals, n: int) -> Counter:
    """The file of `ndde-jax discover`."""
    directory.mkdir()
    rng = np.random.default_rng(0)
    np.savez(directory / "data.npz", x=rng.normal(size=(100, 2)).cumsum(0), dt=1.0)
    out = directory / "out"
    outcomes = _stopped(
        [
            *(sys.executable, "-c", CLI, str(directory / "begun")),
            *("discover", str(directory / "data.npz"), "--no-cache"),
            *("--out", str(out), "--scheme", "euler", "--quiet", "--check"),
        ],
        number,
        n,
        last=20.0,
        begun=directory / "begun",
        finished=lambda: _kept_files(out),
    )
    outcomes["partial files left"] = len(list(out.rglob("*.partial")))
    return outcomes


class Task:
    """A task of the benchmark above; workers import it."""

    settings_text = "{}"

    def __init__(self, series: int, finished: bool = False):
        self.series, self.finished = series, finished

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (unit(self.series),)

    def without(self, done: set[Unit]) -> "Task":
        """Return whether its unit is done."""
        return Task(self.series, unit(self.series) in done)


def slowly(task: Task) -> list[Record]:
    """Work for some tenths of a second."""
    time.sleep(0.2)
    x = np.full((50, 50), float(task.series))
    return [Record(unit(task.series), {"a": x.sum()}, "ok", 0.0, {"x": x})]
