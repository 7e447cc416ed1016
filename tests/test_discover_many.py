"""Many systems: the same as one by one, for any executor; finished results stay."""

import concurrent.futures
import errno
import multiprocessing
import os
import pickle
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _discover_many, _files
from ndde_jax._executors import Failed, run_many
from ndde_jax._store import from_bytes, to_bytes

from .many_parts import KEY, OPTIONS, SYSTEMS, assert_same, bits, run

CONSTANT = np.ones((80, 2))


@pytest.fixture(scope="module")
def alone():
    """Results one by one, through `discover`."""
    return [ndde.discover(x, key=jr.fold_in(KEY, i), **OPTIONS) for i, x in enumerate(SYSTEMS)]


@pytest.fixture
def computed(monkeypatch, alone):
    """Indices of the systems computed from here on, without cost; `computed.wrong` holds exceptions
    that some raise.
    """

    class Computed(list):
        wrong = {}  # noqa: RUF012

    computed = Computed()
    index_of = {jr.key_data(jr.fold_in(KEY, i)).tobytes(): i for i in range(100)}

    def discover(x, *, key, **_):
        i = index_of[jr.key_data(key).tobytes()]
        if i in computed.wrong:
            raise computed.wrong[i]
        computed.append(i)
        return alone[i % len(alone)]

    monkeypatch.setattr(_discover_many, "discover", discover)
    return computed


class Deferred(concurrent.futures.Executor):
    """An executor in the calling thread, through what processes would send; it may break."""

    def __init__(self, breaks_at=None, error=None):
        self.sent, self.breaks_at, self.error = [], breaks_at, error

    def submit(self, function, /, *arguments, **options):
        future = concurrent.futures.Future()
        if len(self.sent) == self.breaks_at:
            future.set_exception(self.error)
        else:
            sent = pickle.loads(pickle.dumps((function, arguments, options)))
            future.set_result(sent[0](*sent[1], **sent[2]))
        self.sent.append(arguments)
        return future

    def shutdown(self, *_, **__):
        raise AssertionError("an executor that was given is not shut down")


# ---- the same as one by one ----


@pytest.mark.parametrize("workers", [None, 2])
def test_equals_one_by_one(workers, alone):
    assert_same(run(workers=workers), alone)


def test_an_executor_of_threads_changes_nothing_and_stays_open(alone):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert_same(run(executor=pool), alone)
        assert pool.submit(lambda: 7).result() == 7


def test_systems_may_come_from_a_generator(computed, alone):
    assert_same(run(x for x in SYSTEMS), alone)


def test_a_system_depends_on_its_number_and_on_nothing_else(alone):
    assert_same(run(SYSTEMS[:1]), alone[:1])
    assert_same(run(SYSTEMS[:1] * 2)[:1], alone[:1])


def precision(value):
    """A context in which a worker computes."""
    return jnp.ones(1).dtype.name, jax.config.jax_default_matmul_precision


def test_precision_travels():
    # A worker has the settings it started with, single precision; here a thread that differs from
    # its caller.
    def many(pool=None):
        return run_many(
            lambda i, device: precision(i), 1, executor=pool, progress=False,
            parcel=lambda i: (precision, to_bytes(i)),
        )[0]  # fmt: skip

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = jax.enable_x64(False)
        pool.submit(other.__enter__).result()
        assert pool.submit(precision, 0).result()[0] == "float32"
        assert many(pool) == many() == ("float64", None)
        pool.submit(other.__exit__, None, None, None).result()
        with jax.enable_x64(False), jax.default_matmul_precision("highest"):
            assert many(pool) == many() == ("float32", "highest")


def test_what_systems_carry_is_used(alone, monkeypatch):
    samples = ndde.read_samples(SYSTEMS[0], dt=0.25, names=("a", "b"), time_unit="day")
    seen = []
    monkeypatch.setattr(_discover_many, "discover", lambda x, **options: seen.append(x) or alone[0])
    run([samples], dt=None)
    assert (seen[0].dt, seen[0].names, seen[0].time_unit) == (0.25, ("a", "b"), "day")


@pytest.mark.slow
def test_spawned_processes_change_nothing(tmp_path):
    """They start in single precision, and compute in that of the caller."""
    context = multiprocessing.get_context("spawn")
    wanted = run()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert_same(run(executor=pool), wanted)
        with pytest.warns(UserWarning, match="1 of 2 systems could not be discovered"):
            mixed = run([SYSTEMS[0], CONSTANT], executor=pool, directory=tmp_path)
        assert_same(mixed[:1], wanted[:1])
        assert isinstance(mixed[1], Failed) and len(list(tmp_path.glob("*.npz"))) == 1
        windows = [ndde.lagged_windows(x, dt=0.5) for x in SYSTEMS]
        config = ndde.FitConfig(
            max_steps=50, epoch_steps=25, warmup="adam", warmup_steps=0, refine="none", width=4,
            depth=1,
        )  # fmt: skip
        many = dict(config=config, key=KEY, progress=False)
        here = ndde.fit_many(ndde.L0NDDE(path=()), windows, **many)
        there = ndde.fit_many(ndde.L0NDDE(path=()), windows, executor=pool, **many)
    assert [to_bytes(a) for a in here] == [to_bytes(b) for b in there]


@pytest.mark.parametrize(
    "settings",
    [
        *(ndde.Recipe(), ndde.Recipe.fast(), ndde.Recipe.paper()),
        *(ndde.L0NDDE(), ndde.PathReg(), ndde.AGL(), ndde.CNODE(), ndde.NODE()),
        *(ndde.FitConfig(), ndde.FitConfig.paper()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_survive_the_journey(settings):
    assert eqx.tree_equal(from_bytes(to_bytes(settings), object), settings)


# ---- failures ----


@pytest.mark.parametrize("executor", [None, Deferred()], ids=["here", "sent"])
def test_a_refused_system_leaves_a_sentence_and_its_neighbours(executor, alone):
    systems = [SYSTEMS[0], CONSTANT, "no data"]
    with pytest.warns(UserWarning, match=r"2 of 3 systems .*systems\[1\]: .*systems\[2\]: "):
        many = run(systems, executor=executor)
    assert_same(many[:1], alone[:1])
    for i in (1, 2):
        with pytest.raises(ValueError) as caught:
            ndde.discover(systems[i], key=jr.fold_in(KEY, i), **OPTIONS)
        assert many[i] == Failed(i, str(caught.value), "ValueError")
        assert "Traceback" in many[i].traceback


@pytest.mark.parametrize("executor", [None, Deferred()], ids=["here", "sent"])
def test_other_errors_are_kept_too(executor, computed):
    computed.wrong = {1: ZeroDivisionError("by zero")}
    with pytest.warns(UserWarning, match="1 of 3 systems could"):
        failed = run(executor=executor)[1]
    assert (failed.index, failed.error, failed.kind) == (1, "by zero", "ZeroDivisionError")


@pytest.mark.parametrize("executor", [None, Deferred()], ids=["here", "sent"])
def test_errors_may_be_raised(executor, computed, tmp_path):
    computed.wrong = {1: ValueError("no good")}
    with pytest.raises(ValueError, match="no good") as caught:
        run(executor=executor, errors="raise", directory=tmp_path)
    assert "results are kept in" in caught.value.__notes__[-1]
    assert len(list(tmp_path.glob("*.npz"))) == len(computed) >= 1


def test_what_all_systems_share_is_to_blame_when_all_fail_alike(computed):
    computed.wrong = dict.fromkeys(range(3), ValueError("lags are too long"))
    with pytest.raises(ValueError, match=r"systems\[0\]: lags are too long"):
        run()


# ---- refusals ----


@pytest.mark.parametrize(
    "wrong",
    [SYSTEMS[0], SYSTEMS[0][:, 0], {"a": SYSTEMS[0]}, "systems", 3, None],
)
def test_one_table_is_no_list_of_systems(wrong):
    with pytest.raises(ValueError, match="systems must be a list of systems"):
        run(wrong)


def test_an_executor_must_be_one_and_must_not_fork(computed):
    with pytest.raises(ValueError, match=r"executor must be None, a concurrent\.futures"):
        run(executor="dask")
    with pytest.raises(ValueError, match=r"executor must be None.* got the class Thread"):
        run(executor=concurrent.futures.ThreadPoolExecutor)
    forking = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=forking) as pool:
        with pytest.raises(ValueError, match=r'hangs in forked.*get_context\("spawn"\)'):
            run(executor=pool)
    assert computed == []


def test_what_cannot_travel_is_refused():
    class Own(ndde.Recipe):
        """A recipe unknown to every worker."""

    with pytest.raises(ValueError, match=r"Own cannot be saved.* Omit executor and directory"):
        run(recipe=Own(strategy=ndde.select.Default(networks=None)), executor=Deferred())


# ---- on disk ----


@pytest.mark.parametrize("sent", [False, True], ids=["here", "sent"])
def test_what_is_stored_is_not_computed_again(sent, computed, tmp_path, alone):
    def many(systems=SYSTEMS, **options):
        return run(systems, directory=tmp_path, executor=Deferred() if sent else None, **options)

    assert_same(many(SYSTEMS[:2]), alone[:2])
    files = sorted(tmp_path.iterdir())
    assert [file.name[:6] for file in files] == ["00000-", "00001-"]
    assert bits(ndde.Discovery.load(files[1])) == bits(alone[1])
    computed.clear()
    assert_same(many(), alone)
    assert computed == [2]
    for change in (
        {"systems": [-SYSTEMS[0]]},
        {"lags": (0, 2)},
        {"recipe": ndde.Recipe.fast()},
        {"coefficient": 0.1},
        {"dt": 0.25},
        {"names": ("a", "b")},
    ):
        computed.clear()
        many(**{"systems": SYSTEMS[:1]} | change)
        assert computed == [0], change


def test_failures_are_tried_again(computed, tmp_path):
    computed.wrong = {1: ValueError("not today")}
    with pytest.warns(UserWarning, match="not today"):
        run(directory=tmp_path)
    computed.wrong = {}
    computed.clear()
    assert all(isinstance(found, ndde.Discovery) for found in run(directory=tmp_path))
    assert computed == [1]


def test_a_full_disk_loses_no_discovery(computed, tmp_path, monkeypatch, alone):
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_files.os, "fsync", fsync)
    with pytest.warns(UserWarning, match="system 0, system 1, system 2 .*No space left"):
        assert_same(run(directory=tmp_path, executor=Deferred()), alone)


def test_an_interrupted_run_goes_on(computed, tmp_path, alone):
    computed.wrong = {1: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt) as caught:
        run(directory=tmp_path)
    done = set(computed)
    assert 0 in done and 1 not in done
    assert f"{len(done)} results are kept in" in caught.value.__notes__[-1]
    computed.wrong = {}
    computed.clear()
    assert_same(run(directory=tmp_path), alone)
    assert set(computed) == {0, 1, 2} - done


def test_a_broken_pool_keeps_what_is_finished_and_says_how_to_go_on(computed, tmp_path, alone):
    broken = concurrent.futures.process.BrokenProcessPool("terminated abruptly")
    with pytest.raises(concurrent.futures.BrokenExecutor) as caught:
        run(directory=tmp_path, executor=Deferred(breaks_at=1, error=broken))
    notes = " ".join(caught.value.__notes__)
    assert re.search("A process of the executor ended.*2 results are kept.*resumes", notes)
    computed.clear()
    assert_same(run(directory=tmp_path, executor=Deferred()), alone)
    assert computed == [1]


def test_a_system_that_kills_its_workers_is_a_failure(computed):
    class KilledWorker(Exception):
        """An exception as Dask raises it."""

    with pytest.warns(UserWarning, match="all those workers died"):
        many = run(executor=Deferred(1, KilledWorker("all those workers died")))
    assert [isinstance(found, Failed) for found in many] == [False, True, False]
    assert many[1].kind == "KilledWorker"


def test_progress_is_shown_on_request_only(computed, capsys):
    run()
    assert capsys.readouterr() == ("", "")
    run(executor=Deferred(), progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "discover" in err and "3/3" in err
