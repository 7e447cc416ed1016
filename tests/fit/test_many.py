"""Many systems: the same as one by one, in order, despite failing neighbours and interruptions."""

import dataclasses
import errno
import os
import re
import subprocess
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _files
from ndde_jax._executors import run_many
from ndde_jax._memory import SHORTEST, padded_length
from ndde_jax.fit import _fit as _batch
from ndde_jax.fit._fit import fit_many

METHOD = ndde.L0NDDE(path=())
# Without Newton steps and warm-up it compiles in a second; the training itself does not matter
# here.
FIT = ndde.FitConfig(
    max_steps=50, epoch_steps=25, warmup="adam", warmup_steps=0, refine="none", width=4, depth=1
)
KEY = jr.key(3)


def system(seed, n=210, dim=2):
    x = np.random.default_rng(seed).normal(size=(n, dim)).cumsum(axis=0)
    return ndde.lagged_windows(x, dt=1.0)


SYSTEMS = [system(seed) for seed in range(4)]


def run(windows, directory=None, *, method=METHOD, config=FIT, key=KEY, workers=2, progress=False):
    return fit_many(
        method,
        windows,
        config,
        key=key,
        directory=directory,
        workers=workers,
        progress=progress,
    )


def assert_equal(one, other):
    """Bit by bit."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def results():
    return run(SYSTEMS)


@pytest.fixture
def fitted(monkeypatch):
    """Indices of the systems fitted from here on; `fitted.interrupt` raises for one of them."""

    class Fitted(list):
        interrupt = None

    fitted, original, lock = Fitted(), _batch.fit, threading.Lock()
    index_of = {jr.key_data(jr.fold_in(KEY, i)).tobytes(): i for i in range(len(SYSTEMS))}

    def fit(method, windows, config=None, *, key):
        index = index_of.get(jr.key_data(key).tobytes(), -1)
        if index == fitted.interrupt:
            raise KeyboardInterrupt
        with lock:
            fitted.append(index)
        return original(method, windows, config, key=key)

    monkeypatch.setattr(_batch, "fit", fit)
    return fitted


# ---- the same as one by one ----


def test_equals_one_by_one_whatever_lengths_and_dimensions(results):
    windows = [SYSTEMS[0], system(1, n=300), system(2, n=65, dim=1)]
    assert [padded_length(len(w.valid)) for w in windows] == [256, 384, 256]
    many = run(windows)
    assert_equal(many[0], results[0])
    for i in (1, 2):
        assert_equal([ndde.fit(METHOD, windows[i], FIT, key=jr.fold_in(KEY, i))], many[i : i + 1])
    # Traced windows are not padded; sums over padded rows round differently.
    one = eqx.filter_jit(ndde.fit)(METHOD, windows[2], FIT, key=jr.fold_in(KEY, 2))
    assert jax.tree.structure(one) == jax.tree.structure(many[2])
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(many[2]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    for i in (1, 2):
        np.testing.assert_array_equal(many[i].model.scaling.center, windows[i].scaling.center)


def test_workers_change_nothing(results):
    assert_equal(run(SYSTEMS, workers=1), results)
    assert_equal(run(SYSTEMS, workers=None), results)


def test_a_system_depends_on_its_number_and_on_nothing_else(results):
    assert_equal(run(SYSTEMS[:2]), results[:2])
    moved = run([SYSTEMS[1], SYSTEMS[0]])
    assert not np.array_equal(moved[1].losses, results[0].losses)


def test_default_configuration_is_that_of_fit(results, monkeypatch):
    seen = []
    monkeypatch.setattr(_batch, "fit", lambda *args, key: seen.append(args[2]) or results[0])
    fit_many(METHOD, SYSTEMS[:1], key=KEY, progress=False)
    assert eqx.tree_equal(seen[0], ndde.FitConfig())


@pytest.mark.parametrize("progress", [False, True])
def test_no_systems(progress, tmp_path):
    assert run([], progress=progress) == []
    assert run([], tmp_path / "store", progress=progress) == []


def test_failures_are_statuses_and_leave_neighbours_untouched(results):
    huge = eqx.tree_at(lambda w: w.increment, SYSTEMS[1], SYSTEMS[1].increment * 1e200)
    x = np.random.default_rng(2).normal(size=(210, 2)).cumsum(axis=0)
    x[:, 1] = 4.0  # refused outright unless traced
    constant = jax.jit(lambda x: ndde.lagged_windows(x, dt=1.0))(x)
    mixed = run([SYSTEMS[0], huge, constant, SYSTEMS[3]])
    assert [result.outcome for result in mixed] == ["stopped", "diverged", "refused", "stopped"]
    assert np.isnan(mixed[1].scores).all() and np.isnan(mixed[2].scores).all()
    assert_equal([mixed[0], mixed[3]], [results[0], results[3]])
    unknown = eqx.tree_at(lambda w: w.increment, SYSTEMS[1], SYSTEMS[1].increment.at[7].set(np.nan))
    mixed = run([SYSTEMS[0], unknown])
    assert mixed[1].outcome == "refused"
    assert_equal(mixed[0], results[0])


# ---- refusals ----


@pytest.mark.parametrize(
    "wrong, got",
    [
        (np.zeros((5, 2)), r"\(5, 2\)"),
        (None, "NoneType"),
        (ndde.stack_windows(SYSTEMS[:2]), r"\(2, 209, 1, 2\).*unstack_windows"),
    ],
)
def test_what_is_not_one_system_is_refused(wrong, got, fitted, tmp_path):
    with pytest.raises(ValueError, match=rf"windows\[1\] must be the Windows of one system.*{got}"):
        run([SYSTEMS[0], wrong], tmp_path / "store")
    assert fitted == []
    assert not (tmp_path / "store").exists()


def test_workers_must_be_positive():
    with pytest.raises(ValueError, match="workers must be at least 1; got 0"):
        run(SYSTEMS, workers=0)


# ---- padding ----


def test_padding_is_bounded_and_lengths_are_few():
    lengths = np.arange(1, 20000)
    padded = np.array([padded_length(int(n)) for n in lengths])
    assert (padded >= lengths).all()
    assert (padded < np.maximum(1.5 * lengths, SHORTEST + 1)).all()
    assert len(np.unique(padded)) < 25


# ---- on disk ----


def test_results_are_kept_one_file_each_and_read_back(results, tmp_path, fitted):
    store = tmp_path / "deep" / "store"
    assert_equal(run(SYSTEMS, store), results)
    assert sorted(fitted) == [0, 1, 2, 3]
    assert [path.suffix for path in store.iterdir()] == [".npz"] * 4
    fitted.clear()
    assert_equal(run(SYSTEMS, str(store)), results)
    assert fitted == []
    # More systems: only the new ones.
    run([*SYSTEMS[:3], system(9)], store)
    assert fitted == [3]


def test_a_file_appears_as_soon_as_its_system_is_done(tmp_path, monkeypatch):
    original, before = _batch.fit, []

    def fit(method, windows, config=None, *, key):
        before.append(len(list(tmp_path.glob("*.npz"))))
        return original(method, windows, config, key=key)

    monkeypatch.setattr(_batch, "fit", fit)
    run(SYSTEMS, tmp_path, workers=1)
    assert before == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"config": eqx.tree_at(lambda c: c.gate_learning_rate, FIT, jnp.asarray(0.2))},
        {"config": dataclasses.replace(FIT, max_steps=75)},
        {"method": ndde.L0NDDE(path=(), coefficient=0.1)},
        {"method": ndde.L0NDDE(path=(), n_draws=2)},
        {"key": jr.key(4)},
        {"windows": [eqx.tree_at(lambda w: w.increment, SYSTEMS[0], -SYSTEMS[0].increment)]},
        {
            "windows": [
                eqx.tree_at(lambda w: w.valid, SYSTEMS[0], SYSTEMS[0].valid.at[3].set(False))
            ]
        },
    ],
    ids=["number", "static", "price", "draws", "key", "data", "gap"],
)
def test_changed_arguments_are_fitted_afresh(change, results, tmp_path, monkeypatch):
    calls = []

    def fit(method, windows, config=None, *, key):
        calls.append(1)
        return results[0]

    monkeypatch.setattr(_batch, "fit", fit)
    original = dict(windows=SYSTEMS[:1])
    run(**original, directory=tmp_path)
    run(**original, directory=tmp_path)
    assert len(calls) == 1
    run(**original | change, directory=tmp_path)
    assert len(list(tmp_path.glob("*.npz"))) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_resumes_and_repeats_nothing(workers, results, tmp_path, fitted):
    fitted.interrupt = 2
    with pytest.raises(KeyboardInterrupt) as caught:
        run(SYSTEMS, tmp_path, workers=workers)
    done = set(fitted)
    assert caught.value.__notes__ == [
        f"{len(done)} results are kept in {tmp_path}; the same call resumes from there."
    ]
    assert {0, 1} <= done and 2 not in done
    assert len(list(tmp_path.iterdir())) == len(done)
    fitted.interrupt = None
    fitted.clear()
    assert_equal(run(SYSTEMS, tmp_path, workers=workers), results)
    assert sorted(fitted) == sorted({0, 1, 2, 3} - done)


def test_partial_files_are_ignored(results, tmp_path, fitted):
    run(SYSTEMS[:2], tmp_path)
    half = sorted(tmp_path.iterdir())[0]
    content = half.read_bytes()
    half.rename(half.with_suffix(".1234.partial")).write_bytes(content[: len(content) // 2])
    fitted.clear()
    assert_equal(run(SYSTEMS[:2], tmp_path), results[:2])
    assert len(fitted) == 1


def test_a_damaged_file_is_computed_again(results, tmp_path, fitted):
    run(SYSTEMS[:2], tmp_path)
    damaged = sorted(tmp_path.iterdir())[0]
    damaged.write_bytes(damaged.read_bytes()[:50])
    fitted.clear()
    with pytest.warns(UserWarning, match="cannot be read"):
        assert_equal(run(SYSTEMS[:2], tmp_path), results[:2])
    assert len(fitted) == 1


def test_an_interrupted_write_leaves_no_half_result(results, tmp_path, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(SYSTEMS[:1], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert_equal(run(SYSTEMS[:1], tmp_path), results[:1])


def test_a_full_disk_loses_no_results(results, tmp_path, fitted, monkeypatch):
    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, "fsync", fsync)
        with pytest.warns(UserWarning) as caught:
            assert_equal(run(SYSTEMS[:2], tmp_path, workers=1), results[:2])
    (warning,) = caught
    assert re.search("system 0, system 1 .*No space left.*computes these", str(warning.message))
    assert list(tmp_path.iterdir()) == []
    fitted.clear()
    assert_equal(run(SYSTEMS[:2], tmp_path), results[:2])
    assert sorted(fitted) == [0, 1]


def test_failed_systems_are_not_repeated_either(tmp_path, fitted):
    huge = eqx.tree_at(lambda w: w.increment, SYSTEMS[1], SYSTEMS[1].increment * 1e200)
    first = run([SYSTEMS[0], huge], tmp_path)
    fitted.clear()
    assert_equal(run([SYSTEMS[0], huge], tmp_path), first)
    assert fitted == [] and first[1].outcome == "diverged"


# ---- progress and errors ----


def test_progress_is_shown_on_request_only(results, tmp_path, capsys):
    run(SYSTEMS, tmp_path)
    assert capsys.readouterr() == ("", "")
    run(SYSTEMS, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "0/4" in err and "4/4" in err
    run(SYSTEMS, tmp_path, progress=True)
    assert "4/4" in capsys.readouterr().err


def test_an_error_in_one_system_reaches_the_caller():
    def one(i, device):
        if i == 1:
            raise RuntimeError("system 1")
        return i

    with pytest.raises(RuntimeError, match="system 1"):
        run_many(one, 3, workers=1, progress=False)


def test_systems_run_side_by_side():
    """Two workers meet at a barrier that neither could pass alone."""
    barrier = threading.Barrier(2, timeout=10)

    def one(i, device):
        barrier.wait()
        return i

    assert run_many(one, 4, workers=2, progress=False) == [0, 1, 2, 3]


SEVERAL_DEVICES = """
import jax, numpy as np
import ndde_jax as ndde
assert jax.device_count() == 2
method, key = ndde.L0NDDE(path=(0.1,)), jax.random.key(3)
config = ndde.FitConfig(max_steps=40, newton_steps=5, width=4, depth=1)
x = np.random.default_rng(0).normal(size=(4, 210, 2)).cumsum(axis=1)
systems = [ndde.lagged_windows(a, dt=1.0) for a in x]
many = ndde.fit_many(method, systems, config, key=key, workers=2, progress=False)
devices = [set.union(*(a.devices() for a in jax.tree.leaves(one))) for one in many]
assert {len(d) for d in devices} == {1} and len(set.union(*devices)) == 2, devices
for i, (one, windows) in enumerate(zip(many, systems)):
    alone = ndde.fit(method, windows, config, key=jax.random.fold_in(key, i))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(a, b)
"""


@pytest.mark.slow
def test_every_worker_has_a_device_of_its_own():
    flags = "--xla_force_host_platform_device_count=2"
    subprocess.run(
        [sys.executable, "-c", SEVERAL_DEVICES], env={**os.environ, "XLA_FLAGS": flags}, check=True
    )
