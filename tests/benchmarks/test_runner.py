"""Runs of benchmarks: dying workers, interrupts, and two runs that share a file."""

import argparse
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks._arguments import add_machines
from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit
from benchmarks._workers import _Line

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Task:
    """A task that ends its process until the folder `marks` holds `deaths` files."""

    series: int
    marks: str = ""
    deaths: int = 0
    finished: bool = False

    @property
    def units(self):
        unit = Unit("bench", "simple", f"graph{self.series}", self.series, "m", 0)
        return () if self.finished else (unit,)

    settings_text = "{}"

    def without(self, done):
        return replace(self, finished=self.units[0] in done)


def evaluate(task):
    died = list(Path(task.marks).glob(f"{task.series}-*")) if task.marks else []
    if len(died) < task.deaths:
        (Path(task.marks) / f"{task.series}-{len(died)}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if task.series == 99:
        raise RuntimeError("of task 99")
    return [Record(task.units[0], {"a": float(task.series)}, "ok", 0.0)]


def statuses(store):
    return {row.series: row.status for row in store.rows("bench")}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as store:
        yield store


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_workers_are_replaced_and_stubborn_tasks_recorded(store, tmp_path, capsys):
    deaths = {1: 1, 3: 2, 4: 99}
    tasks = [Task(i, str(tmp_path), deaths.get(i, 0)) for i in range(6)]
    run_tasks(tasks, evaluate, store, workers=2, progress=False)
    failed = "error: worker process was killed by signal 9 twice"
    assert statuses(store) == {i: failed if i in (3, 4) else "ok" for i in range(6)}
    said = capsys.readouterr().out
    assert "killed by signal 9 while computing m on simple graph1; tried again" in said
    assert "once more while computing m on simple graph4; given up" in said
    assert said.count("tried again") == 3 and said.count("given up") == 2
    run_tasks(tasks[:4], evaluate, store, workers=2, retry_errors=True, progress=False)
    assert statuses(store)[3] == "ok"


def test_a_process_goes_on_with_its_kind_and_takes_others_when_there_is_no_more():
    line = _Line([("a", 0), ("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)], lambda task: task[0])
    assert line.take(None, set()) == (0, ("a", 0))
    assert line.take(None, {"a"}) == (2, ("b", 2))
    assert line.take("a", {"b"}) == (1, ("a", 1))
    line.first(1, ("a", 1))
    assert line.take("b", {"c"})[1] == ("b", 5)
    assert line.take("b", {"a"})[1] == ("c", 4)
    assert line.take("c", {"a"})[1] == ("a", 1)
    assert line.take("a", set())[1] == ("a", 3)
    assert line.take("a", set()) == (None, None)


def test_without_kinds_tasks_are_taken_one_by_one():
    taken = []
    line = _Line((taken.append(i) or i for i in range(9)), None)
    assert [line.take(None, {None})[1] for _ in range(2)] == [0, 1] and taken == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_kinds_are_all_computed_though_one_kills_its_process(store, tmp_path):
    tasks = [Task(i, str(tmp_path), deaths=1 if i == 2 else 0) for i in range(6)]
    options = dict(kind=lambda task: task.series % 2, workers=2, progress=False)
    run_tasks(tasks, evaluate, store, **options)
    assert statuses(store) == dict.fromkeys(range(6), "ok")


def test_what_a_task_raises_reaches_the_caller(store):
    with pytest.raises(RuntimeError, match="of task 99"):
        run_tasks([Task(0), Task(99)], evaluate, store, workers=2, progress=False)


def test_two_runs_share_a_file_and_say_so(store, capsys):
    """The other run writes series 1 during this one's series 0, and 2 during 2."""

    def with_other(task):
        with Store(store.path) as other:
            for series in {0: [1], 2: [2]}.get(task.series, []):
                other.write([Record(Task(series).units[0], {"a": -1.0}, "other", 0.0)])
        return evaluate(task)

    run_tasks([Task(i) for i in range(4)], with_other, store, progress=False)
    assert statuses(store) == {0: "ok", 1: "other", 2: "other", 3: "ok"}
    first, second = capsys.readouterr().out.splitlines()
    assert "m on simple graph1 is already in" in first and "by another run" in first
    assert "1 of 1 results are already in" in second and second.endswith("they are kept")


INTERRUPTED = """
import signal, sys, time
from benchmarks._runner import program, run_tasks
from benchmarks._store import Store
from tests.benchmarks.test_runner import Task, evaluate
def slowly(task):
    if task.series == 3:
        print("computing", flush=True)
        time.sleep(300)
    return evaluate(task)
def main():
    with Store(sys.argv[1]) as store:
        run_tasks([Task(i) for i in range(6)], slowly, store, progress=False)
    return 0
if __name__ == "__main__":
    # Processes in a shell's background begin with interrupts ignored, and so do their children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(program(main) if sys.argv[2] == "program" else main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("how", ["program", "function"])
def test_an_interrupted_run_says_how_to_go_on(how, tmp_path):
    path = tmp_path / "results.sqlite"
    command = [sys.executable, "-c", INTERRUPTED, str(path), how, "--no-cache"]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        code, said = process.wait(120), process.stderr.read()
    sentence = f"interrupted; 3 of 6 tasks are in {path}, and the same command resumes from there."
    assert sentence in said
    if how == "program":
        assert code == 130 and "Traceback" not in said
    with Store(path) as store:
        assert set(statuses(store)) == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_dask_cluster_computes_tasks_though_one_kills_its_worker(store, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.chdir(REPOSITORY)
    tasks = [Task(i, str(tmp_path), int(i == 2)) for i in range(6)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
        local_directory=str(tmp_path),
    ) as cluster:  # fmt: skip
        address = f"dask:{cluster.scheduler_address}"
        run_tasks(tasks, evaluate, store, workers=address, progress=False)
        assert statuses(store) == dict.fromkeys(range(6), "ok")
        assert list(tmp_path.glob("2-*"))
        # The cluster still exists.
        run_tasks([*tasks, Task(7)], evaluate, store, workers=address, progress=False)
    assert statuses(store) == dict.fromkeys((*range(6), 7), "ok")


def test_the_address_of_a_cluster(capsys):
    parser = argparse.ArgumentParser()
    add_machines(parser)
    assert parser.parse_args([]).workers == 1
    assert parser.parse_args(["--workers", "3"]).workers == 3
    address = "dask:tcp://127.0.0.1:8786"
    assert parser.parse_args(["--executor", address]).workers == address
    for wrong in (
        ["--executor", "8786"],
        ["--executor", "dask:"],
        ["--workers", "2", "--executor", address],
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(wrong)
    assert "expected dask:ADDRESS" in capsys.readouterr().err


@pytest.mark.slow
def test_commands_are_imported_before_xla_reads_its_flags():
    """`program` sets the flags, and XLA reads them with its first array."""
    text = """
        import importlib, pathlib
        from jax._src import xla_bridge

        for file in sorted(pathlib.Path("benchmarks").glob("**/*.py")):
            text = file.read_text(encoding="utf-8")
            if "program(main)" in text:
                importlib.import_module(".".join(file.with_suffix("").parts))
                assert not xla_bridge.backends_are_initialized(), file
                print(file)
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "benchmarks/use.py" in done.stdout and len(done.stdout.split()) >= 8
