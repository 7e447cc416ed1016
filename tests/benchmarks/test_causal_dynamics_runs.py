"""Runs of the CausalDynamics benchmark: resumed, repeated, killed."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from benchmarks._store import POOLED, Store
from benchmarks.causal_dynamics import data, methods, runner
from benchmarks.causal_dynamics.__main__ import main

REPOSITORY = Path(__file__).parents[2]


def values(store):
    return [
        (r.graph, r.series, r.method, r.metric, r.status, None if math.isnan(r.value) else r.value)
        for r in store.rows("causal_dynamics")
    ]


def test_finished_work_is_not_repeated(graphs, store, register, value):
    calls = []

    def counted(series, dt, settings, *, key):
        calls.append(len(series))
        return methods.allones(series, dt, settings, key=key)

    register("counted", counted)
    files = data.find_files(graphs)
    runner.run(files[:1], ["counted"], store, series=1, progress=False)
    assert value(store, "series", POOLED) == 1
    runner.run(files, ["counted"], store, progress=False)
    assert calls == [1, 3, 4, 4]
    assert value(store, "series", POOLED) == 4  # the pooled row grew with its series
    runner.run(files, ["counted"], store, progress=False)
    assert calls == [1, 3, 4, 4]


def test_an_exception_becomes_a_status_and_can_be_retried(graphs, store, register, value):
    def crash(series, dt, settings, *, key):
        raise RuntimeError("out of luck")

    register("shaky", crash)
    files = data.find_files(graphs)[:1]
    runner.run(files, ["shaky"], store, progress=False)
    assert value(store, "failed", 0) == 1
    statuses = {r.status for r in store.rows("causal_dynamics") if r.series == 0}
    assert statuses == {"error: RuntimeError: out of luck"}

    register("shaky", methods.allones)
    runner.run(files, ["shaky"], store, progress=False)
    assert value(store, "failed", 0) == 1
    runner.run(files, ["shaky"], store, retry_errors=True, progress=False)
    assert value(store, "failed", 0) == 0


def test_randomness_depends_on_seed_and_graph_alone(graphs, tmp_path, register, random_scores):
    register("random", random_scores)
    files = data.find_files(graphs)

    def results(name, files, seed):
        with Store(tmp_path / name) as store:
            for file in files:
                runner.run([file], ["random"], store, seed=seed, progress=False)
            return values(store)

    forward = results("forward", files, 0)
    assert results("backward", files[::-1], 0) == forward
    assert results("seed", files, 1) != forward


@pytest.fixture
def double_precision_children(monkeypatch):
    """Child processes compute in the same precision as this one, and with its programs (see
    `conftest.py`) if these are kept.
    """
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if kept := jax.config.jax_compilation_cache_dir:
        monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", kept)
        monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


@pytest.mark.slow
@pytest.mark.usefixtures("double_precision_children")
def test_worker_processes_give_the_same_rows(graphs, tmp_path):
    files = data.find_files(graphs)
    found = []
    for workers in (1, 2):
        with Store(tmp_path / str(workers)) as store:
            runner.run(files, ["allones", "selfedges"], store, workers=workers, progress=False)
            found.append(values(store))
    assert found[0] == found[1]


# Runs the benchmark with a slow method; reports the start of each task.
SLOW_RUN = """
import sys, time
from benchmarks.causal_dynamics import methods
from benchmarks.causal_dynamics.__main__ import main
def slow(series, dt, settings, *, key):
    print("task", flush=True)
    time.sleep(1.0)
    return methods.selfedges(series, dt, settings, key=key)
methods.METHODS["slow"] = slow
sys.exit(main(["run", "--data", sys.argv[1], "--method", "slow", "--out", sys.argv[2]]))
"""


@pytest.mark.usefixtures("double_precision_children")
@pytest.mark.slow  # as `test_store` does for the store, which all runs share
def test_killed_run_resumes_to_the_same_results(graphs, tmp_path, register):
    out = tmp_path / "killed.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_RUN, str(graphs), str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=REPOSITORY,
    ) as process:
        for _ in range(2):
            assert process.stdout.readline() == "task\n"
        process.send_signal(signal.SIGKILL)  # one task written, the second under way
    with Store(out) as store:
        assert {u.graph for u in store.done("causal_dynamics")} == {"simple_default_A"}

    tasks = []

    def slow(series, dt, settings, *, key):
        tasks.append(len(series))
        return methods.selfedges(series, dt, settings, key=key)

    register("slow", slow)
    assert main(["run", "--data", str(graphs), "--method", "slow", "--out", str(out)]) == 0
    assert len(tasks) == 2

    with Store(out) as killed, Store(tmp_path / "whole.sqlite") as whole:
        runner.run(data.find_files(graphs), ["selfedges"], whole, progress=False)
        expected = [(graph, series, "slow", *rest) for graph, series, _, *rest in values(whole)]
        assert values(killed) == expected
