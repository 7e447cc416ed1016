"""Files on disk: discoveries, and stages of one that was interrupted."""

import dataclasses
import errno

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _discover, _files, _store
from ndde_jax._discovery import FILE
from ndde_jax._store import _Packed

from .small import DT, LAGS, NAMES, STRENGTH, X, discover


@pytest.fixture(scope="module")
def saved(found, tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs") / "new" / "found"
    found.save(directory)
    return directory


def test_save_and_load_return_the_same(found, saved):
    loaded = ndde.Discovery.load(saved)
    everything = [
        (d.windows, d.strengths, d.model, d.graph, d.scores, d.lower, d.delays, d.recipe)
        for d in (found, loaded)
    ]
    assert jax.tree.structure(everything[0]) == jax.tree.structure(everything[1])
    for a, b in zip(*map(jax.tree.leaves, everything), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    labels = ("names", "lags", "dt", "time_unit", "coefficient")
    assert [getattr(loaded, n) for n in labels] == [getattr(found, n) for n in labels]
    assert loaded.report() == found.report()
    history = jnp.asarray([[0.3, -0.2], [0.4, 0.1]])
    np.testing.assert_array_equal(loaded.model(history), found.model(history))
    assert eqx.tree_equal(loaded.recipe, found.recipe)


def test_save_keeps_a_coefficient_and_overwrites(found, tmp_path):
    found.save(tmp_path)
    priced = discover(X, dt=DT, names=("größe", "b"), coefficient=0.4)
    priced.save(tmp_path)
    loaded = ndde.Discovery.load(str(tmp_path))
    assert (loaded.names, loaded.coefficient, loaded.time_unit) == (("größe", "b"), 0.4, "")
    np.testing.assert_array_equal(loaded.graph, priced.graph)


def test_neither_a_value_nor_a_file_is_overwritten_by_mistake(found, saved, tmp_path):
    for one in (found, ndde.Discovery.load(saved)):
        with pytest.raises(ValueError, match="read-only"):
            one.graph[0, 0, 0] = True
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match=r"save writes to a directory; .*notes is a file"):
        found.save(tmp_path / "notes")


def test_loading_something_else_is_refused(found, saved, tmp_path):
    for nothing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match="does not hold a saved discovery"):
            ndde.Discovery.load(nothing)
    (tmp_path / "edges.csv").write_text("source,target,lag\na,b,1\n")
    with pytest.raises(ValueError, match=r"edges\.csv is not a saved discovery; give"):
        ndde.Discovery.load(tmp_path / "edges.csv")
    whole = (saved / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut short"):
        ndde.Discovery.load(tmp_path)
    _store.write(tmp_path / FILE, found.windows)
    with pytest.raises(ValueError, match="does not hold a Discovery but a Windows"):
        ndde.Discovery.load(tmp_path)


def named(*names):
    return dataclasses.replace(ndde.read_samples(X, dt=DT), names=names)


def test_a_full_disk_leaves_the_previous_discovery(found, tmp_path, monkeypatch):
    found.save(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_files.os, "fsync", fsync)
    with pytest.raises(OSError, match=r"discovery\.npz cannot be written \(No space"):
        dataclasses.replace(found, samples=named("p", "q")).save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    assert (tmp_path / FILE).read_bytes() == before


STAGES = [
    "corrected_at_midpoints",
    pytest.param("recover", marks=pytest.mark.slow),
    pytest.param("delays_of", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_discovery_goes_on_from_its_stages(stage, tmp_path, monkeypatch):
    """Stages before `stage` are not repeated."""
    stages = ("corrected_at_midpoints", "recover", "delays_of")
    calls = []

    def counted(name, original):
        def call(*args, **options):
            if name == interrupted:
                raise KeyboardInterrupt
            calls.append(name)
            return original(*args, **options)

        return call

    options = dict(
        dt=DT,
        names=NAMES,
        scheme="midpoint",
        recipe=ndde.Recipe(passes=2, strategy=ndde.select.Default(networks=STRENGTH)),
    )
    whole = discover(X, **options)
    for name in stages:
        monkeypatch.setattr(_discover, name, counted(name, getattr(_discover, name)))
    options["directory"] = tmp_path / "kept"
    interrupted = stage
    with pytest.raises(KeyboardInterrupt):
        discover(X, **options)
    assert tuple(calls) == stages[: stages.index(stage)]
    interrupted = None
    resumed = discover(X, **options)
    assert tuple(calls) == stages
    resumed.save(tmp_path / "one")
    whole.save(tmp_path / "other")
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "other" / FILE).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"coefficient": 0.4},
        {"recipe": ndde.Recipe.fast()},
        {"dt": 1.0},
        {"key": jax.random.key(1)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_stages_of_another_call_are_not_used(change, tmp_path, monkeypatch):
    class Reached(Exception):
        pass

    def reached(*args, **options):
        raise Reached

    options = dict(dt=DT, lags=LAGS, scheme="euler", key=jax.random.key(0), directory=tmp_path)
    kept = []
    monkeypatch.setattr(_discover, "recover", reached)
    monkeypatch.setattr("ndde_jax._store.Kept.load", lambda self, name: kept.append(name))
    for call in (options, options | change, options):
        with pytest.raises(Reached):
            ndde.discover(X, **call)
    assert kept[0] == kept[2] != kept[1]


def test_what_was_never_asked_for_is_saved_the_same_and_stays_packed(found):
    fresh = dataclasses.replace(found)
    before = _store.to_bytes(fresh)
    packed = [type(vars(fresh)[name]) for name in ("windows", "strengths", "model")]
    assert packed == [_Packed] * 3
    _ = fresh.windows, fresh.strengths, fresh.model
    assert not any(isinstance(value, _Packed) for value in vars(fresh).values())
    assert _store.to_bytes(fresh) == before
