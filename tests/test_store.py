"""The one file format: bit by bit what was saved, or refused with an error; never half a file."""

import errno
import json
import os
import threading
import time
import zipfile

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _files, _store
from ndde_jax._store import FORMAT, Kept, Stages, fingerprint, read, to_bytes, write

PRIOR = ndde.prior_knowledge(2, lags=(0, 3), forbidden=[(0, 1)])
SCALING = ndde.windows.Scaling(*(jnp.arange(2.0) + i for i in range(4)))
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def assert_equal(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved.npz"


@pytest.fixture
def full_disk(monkeypatch):
    """Every write ends as on a full disk: some of it arrives."""

    def fsync(descriptor):
        raise FULL

    monkeypatch.setattr(_files.os, "fsync", fsync)


# ---- what comes back ----


@pytest.mark.parametrize(
    "value",
    [
        PRIOR,
        (SCALING, [PRIOR, None], {"a": 1.5, "b": "größe", "c": True, "d": jnp.arange(3)}),
        ndde.Status.diverged,
        np.float32([1, np.nan, np.inf]),
        jnp.zeros((2, 0), bool),
        (1e-300, float("inf"), -0.0, 2**60),
    ],
    ids=["module", "nested", "status", "array", "empty", "numbers"],
)
def test_values_come_back_as_they_were(value, path):
    write(path, value)
    assert_equal(read(path, object), value)
    assert to_bytes(read(path, object)) == path.read_bytes()


def test_windows_and_their_static_fields_come_back(path):
    windows = ndde.lagged_windows(np.arange(20.0) ** 1.5, dt=0.1, lags=(0, 2), prior=None)
    write(path, windows)
    assert_equal(read(path, ndde.Windows), windows)
    assert ndde.Status[read_status(path)] == ndde.Status[ndde.Status.stopped]


def read_status(path):
    write(path, {"status": ndde.Status.stopped})
    return read(path, dict)["status"]


def test_random_keys_come_back(path):
    write(path, jr.key(5))
    np.testing.assert_array_equal(jr.key_data(read(path, jax.Array)), jr.key_data(jr.key(5)))


def test_numpy_opens_the_file_without_this_library(path):
    write(path, (SCALING, PRIOR))
    with np.load(path) as file:
        np.testing.assert_array_equal(file["0.center"], SCALING.center)
        about = json.loads(file["about.json"])
    assert (about["format"], about["library"]) == (FORMAT, _store.version())


def test_what_is_no_data_is_not_saved(path):
    for wrong in (lambda: 0, np.array(["a"]), np.array([None]), {1: 2}, object()):
        with pytest.raises(TypeError, match="cannot be saved"):
            write(path, {"field": wrong})
    assert not path.exists()


def test_double_precision_is_not_rounded_without_a_word(path):
    write(path, SCALING)
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.warns(UserWarning, match="saved in double precision"):
            loaded = read(path, ndde.windows.Scaling)
    finally:
        jax.config.update("jax_enable_x64", True)
    assert loaded.center.dtype == jnp.float32


class Mine(ndde.select.AbstractStrategy):
    """A strategy unknown to the library."""

    most: int = 2

    def search(self, windows, price, key):
        """Return nothing: stored and loaded strategies never search."""


def test_a_class_derived_from_an_abstract_one_is_kept_and_asked_for_where_it_is_not_there(path):
    write(path, ndde.Recipe(strategy=Mine(3)))
    assert read(path, ndde.Recipe).strategy == Mine(3)
    changed(path, lambda about: about["content"]["fields"]["strategy"].update({"class": "Yours"}))
    with pytest.raises(ValueError, match=r"holds a Yours, .* but of .*test_store\. Import what"):
        read(path, ndde.Recipe)


# ---- damage ----


def test_every_bit_of_a_file_is_guarded(path):
    """No flip loads, whichever byte it hits: numbers, names, the archive's own, the digest."""
    whole = to_bytes(SCALING)
    rng = np.random.default_rng(0)
    # All of the comment, and a sample of the rest.
    places = [*range(len(whole) - 120, len(whole)), *rng.integers(0, len(whole), 300)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"saved\.npz is (damaged|cut short)"):
            read(path, object)


def test_cut_and_empty_and_foreign_files_are_refused(path):
    whole = to_bytes(SCALING)
    for n in (len(whole) - 1, len(whole) // 2, 10):
        path.write_bytes(whole[:n])
        with pytest.raises(ValueError, match=r"(cut short|damaged).*compute it again"):
            read(path, object)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        read(path, object)
    np.savez(path, center=np.zeros(2))
    with pytest.raises(ValueError, match="not saved by this version"):
        read(path, object)
    with pytest.raises(FileNotFoundError):
        read(path.with_name("other.npz"), object)


def changed(path, change):
    """A saved file with an edited description and a matching checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    about = json.loads(members["about.json"])
    change(about)
    members["about.json"] = json.dumps(about).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment
    body = path.read_bytes()[:-64]
    path.write_bytes(body + _store.hashlib.sha256(body).hexdigest().encode())


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda a: a.update(format=99, library="9.1"), "ndde_jax 9.1 in format 99; this is"),
        (lambda a: a["content"].update({"class": "Popen"}), "'Popen' is missing"),
        (lambda a: a["content"]["fields"].pop("scale"), "other fields .scale differ"),
        (lambda a: a["content"]["fields"].update(extra=1), "other fields .extra differ"),
        (lambda a: a["content"]["fields"]["scale"].update(array="none"), "'none' is missing"),
        (lambda a: a.update(content=3), "does not hold a Scaling but a int"),
        (lambda a: a.pop("content"), "'content' is missing"),
    ],
)
def test_other_versions_and_contents_are_refused(change, words, path):
    write(path, SCALING)
    changed(path, lambda about: None)
    assert_equal(read(path, ndde.windows.Scaling), SCALING)
    changed(path, change)
    with pytest.raises(ValueError, match=words):
        read(path, ndde.windows.Scaling)


def test_statuses_of_another_order_are_refused(path):
    write(path, ndde.Status.diverged)
    changed(path, lambda about: about["content"]["items"].reverse())
    with pytest.raises(ValueError, match="Status has other items"):
        read(path, object)


# ---- writing ----


def test_a_full_disk_leaves_what_was_there(path, full_disk):
    with pytest.raises(OSError, match=r"saved\.npz cannot be written .*No space left.*unchanged"):
        write(path, PRIOR)
    assert list(path.parent.iterdir()) == []
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="are unchanged"):
        write(path, PRIOR)
    assert [p.name for p in path.parent.iterdir()] == ["saved.npz"]
    assert path.read_bytes() == b"before"


def test_files_appear_together_or_not_at_all(tmp_path):
    (tmp_path / "b").write_bytes(b"old")
    contents = {tmp_path / "a": b"new", tmp_path / "b": b"new"}
    with pytest.raises(KeyboardInterrupt), _files.together(contents):
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
    with _files.together(contents):
        assert (tmp_path / "b").read_bytes() == b"old"
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"new", "b": b"new"}


def test_threads_that_write_one_file_do_not_meet(path):
    values = [jnp.full(2000, float(i)) for i in range(8)]
    threads = [threading.Thread(target=write, args=(path, value)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = np.asarray(read(path, jax.Array))
    assert (loaded == loaded[0]).all()
    assert [p.name for p in path.parent.iterdir()] == ["saved.npz"]


def test_partial_files_of_killed_processes_are_removed_and_no_others(tmp_path):
    old, young = (tmp_path / f".x.npz.{name}.partial" for name in ("old", "young"))
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (0, time.time() - 2 * _files.ABANDONED))
    Kept(tmp_path)
    assert list(tmp_path.iterdir()) == [young]


def test_a_process_that_leaves_at_once_removes_what_it_writes(path):
    with pytest.raises(FileNotFoundError), _files.together({path: b"new"}):
        _files.drop_partial()
        assert list(path.parent.iterdir()) == []


# ---- fingerprints ----


def test_fingerprints_tell_apart_numbers_types_and_settings():
    key = jr.key(0)
    different = [
        (PRIOR, key),
        (PRIOR, jr.key(1)),
        (ndde.prior_knowledge(2, lags=(0, 3)), key),
        (np.zeros(2), np.float32(0)),
        (np.zeros(2), np.float64(0)),
        (np.zeros((1, 2)), np.float64(0)),
        (None, "a"),
        ("a", None),
    ]
    assert len({fingerprint(tree) for tree in different}) == len(different)
    assert fingerprint(different[0]) == fingerprint((PRIOR, jr.key(0)))


# ---- stages ----


def run_stages(directory, *, inputs=1, calls, second=lambda: jnp.ones(2)):
    def first():
        calls.append("first")
        return PRIOR

    def other():
        calls.append("second")
        return second()

    with Stages(2, directory=directory, inputs=(inputs, np.arange(3))) as stage:
        return stage("the first", first), stage("the second", other)


def test_stages_are_kept_and_recognised_by_their_inputs(tmp_path):
    calls = []

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stages(tmp_path / "new", calls=calls, second=interrupted)
    expected = run_stages(None, calls=[])
    assert_equal(run_stages(tmp_path / "new", calls=calls), expected)
    assert_equal(run_stages(tmp_path / "new", calls=calls), expected)
    assert calls == ["first", "second", "second"]
    run_stages(tmp_path / "new", inputs=2, calls=calls)
    assert calls[3:] == ["first", "second"]


@pytest.mark.parametrize(
    "seconds, said", [(5.0, None), (42.0, "about 40 seconds"), (600.0, "about 10 minutes")]
)
def test_a_long_run_is_announced(capsys, seconds, said):
    for progress in (True, False):
        with Stages(1, progress=progress) as stage:
            stage.expect(seconds)
        printed = capsys.readouterr().err
        assert (said is not None and progress) == ("This will take" in printed)
        assert said is None or not progress or said in printed


def test_damaged_stages_run_again(tmp_path):
    calls = []
    expected = run_stages(tmp_path, calls=calls)
    (file,) = tmp_path.glob("*first*")
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.warns(UserWarning, match=r"cannot be read .*computed again"):
        assert_equal(run_stages(tmp_path, calls=calls), expected)
    assert calls == ["first", "second", "first"]


def test_stages_that_cannot_be_kept_are_returned(tmp_path, full_disk):
    with pytest.warns(UserWarning, match=r"Not stored in .*“the \w+” .*No space left") as caught:
        assert_equal(run_stages(tmp_path, calls=[]), run_stages(None, calls=[]))
    assert len(caught) == 2
    assert list(tmp_path.iterdir()) == []
