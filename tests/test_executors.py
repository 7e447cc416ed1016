"""The loop over threads, processes and a cluster, whose workers may be killed."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._executors import run_many
from ndde_jax._store import from_bytes, to_bytes

from .many_parts import assert_same, run, table


def add_one(value):
    """A function for `run_many`, which sends functions by name."""
    return value + 1


def kill_once(value):
    """End the process unless another did before."""
    number, flag = value
    if number == 2 and not os.path.exists(flag):
        open(flag, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return np.float64(number)


def test_only_so_many_are_handed_over_ahead():
    class Counting(concurrent.futures.ThreadPoolExecutor):
        open = most = 0

        def submit(self, *arguments, **options):
            self.open += 1
            self.most = max(self.most, self.open)
            future = super().submit(*arguments, **options)
            future.add_done_callback(self.closed)
            return future

        def closed(self, _):
            self.open -= 1

    with Counting(4) as pool:
        parcel = lambda i: (add_one, to_bytes(np.float64(i)))  # noqa: E731
        found = run_many(None, 30, executor=pool, parcel=parcel, workers=3, progress=False)
    assert found == [np.float64(i + 1) for i in range(30)]
    assert pool.most <= 3


def test_results_are_stored_as_they_finish(tmp_path):
    """The second finishes while the first waits for its file."""
    kept = ndde._store.Kept(tmp_path)
    seen = threading.Event()

    def first(value):
        while not (tmp_path / "second.npz").exists():
            if seen.wait(0.01):
                break
        return value

    functions = [first, add_one]
    names = ["first", "second"]
    timer = threading.Timer(20, seen.set)
    timer.start()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        run_many(
            None, 2, kept=kept, name=names.__getitem__, executor=pool, progress=False,
            parcel=lambda i: (functions[i], to_bytes(np.float64(i))),
        )  # fmt: skip
    timer.cancel()
    assert not seen.is_set()


def test_bytes_are_read_as_what_they_are():
    assert from_bytes(to_bytes((1, "a")), tuple) == (1, "a")
    with pytest.raises(ValueError, match=r"what was received is (damaged|cut short)"):
        from_bytes(to_bytes((1, "a"))[:-3], tuple)


# ---- a cluster ----


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    import dask

    # The paths of the library and of the functions of these tests.
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    with warnings.catch_warnings(), dask.config.set(temporary_directory=str(tmp_path)):
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_computes_the_same_though_a_worker_is_killed(cluster, tmp_path):
    wanted = run()
    directory = tmp_path / "kept"
    victim = next(iter(cluster.run(os.getpid).values()))
    killed = []

    def kill():
        # As soon as something is stored, so that it is in the middle.
        while not (directory.exists() and list(directory.glob("*.npz"))):
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    systems = [table(seed) for seed in range(8)]
    many = run(systems, executor=cluster, directory=directory)
    thread.join(10)
    assert killed == [victim] and victim not in cluster.run(os.getpid).values()
    assert_same(many[:3], wanted)
    assert all(isinstance(found, ndde.Discovery) for found in many)
    assert len(list(directory.glob("*.npz"))) == 8
    # The client still owns it.
    assert cluster.submit(add_one, 1).result() == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_task_that_kills_its_dask_worker_is_done_by_another(cluster, tmp_path):
    flag = str(tmp_path / "killed")
    found = run_many(
        None, 6, executor=cluster, progress=False,
        parcel=lambda i: (kill_once, to_bytes((i, flag))),
    )  # fmt: skip
    assert found == list(range(6)) and os.path.exists(flag)


@pytest.mark.slow
def test_a_spawned_process_that_is_killed_breaks_the_pool_and_loses_nothing(tmp_path):
    flag, kept = str(tmp_path / "killed"), ndde._store.Kept(tmp_path / "kept")

    def many():
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return run_many(
                None, 4, executor=pool, progress=False, kept=kept, name="system {}".format,
                parcel=lambda i: (kill_once, to_bytes((i, flag))),
            )  # fmt: skip

    with pytest.raises(concurrent.futures.BrokenExecutor) as caught:
        many()
    assert "2 results are kept" in caught.value.__notes__[-1]
    assert many() == [0, 1, 2, 3]
