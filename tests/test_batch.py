"""Many systems: order, padding, failures, resuming."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _batch

CONFIG = ndde.FitConfig(max_steps=60, epoch_steps=20, newton_steps=6, batch_size=32)
METHOD = ndde.L0NDDE(path=(0.1,))
KEY = jr.key(0)


def system(seed, n=150, dim=2):
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(n)
    x = np.stack([np.sin(t * (1 + 0.1 * i) + rng.uniform(0, 6)) for i in range(dim)], axis=1)
    return ndde.lagged_windows(x + 0.2 * x**2, dt=0.1, scheme="central")


@pytest.fixture(scope="module")
def windows():
    """Two lengths that share a padded shape, and one of another dimension."""
    return [system(0), system(1, n=170), system(2, n=140, dim=1)]


@pytest.fixture(scope="module")
def results(windows):
    return ndde.fit_many(METHOD, windows, CONFIG, key=KEY, progress=False)


def same(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


def test_equals_one_by_one_fits_in_order(windows, results):
    for i, w in enumerate(windows[::2]):
        single = ndde.fit(METHOD, w, CONFIG, key=jr.fold_in(KEY, 2 * i))
        same(single, results[2 * i], rtol=1e-4, atol=1e-6)
    assert [r.model.mask.shape[0] for r in results] == [2, 2, 1]


def test_one_worker_equals_many(windows, results):
    alone = ndde.fit_many(METHOD, windows, CONFIG, key=KEY, workers=1, progress=False)
    same(alone, results, rtol=0)


def test_failures_leave_neighbours_untouched(windows, results):
    broken = eqx.tree_at(lambda w: w.increment, windows[1], windows[1].increment.at[3].set(jnp.nan))
    still = eqx.tree_at(lambda w: w.increment, windows[1], jnp.zeros_like(windows[1].increment))
    for bad in (broken, still):
        found = ndde.fit_many(
            METHOD, [windows[0], bad, windows[2]], CONFIG, key=KEY, progress=False
        )
        assert found[1].outcome == "refused"
        assert bool(jnp.all(jnp.isnan(found[1].scores)))
        same([found[0], found[2]], [results[0], results[2]], rtol=0)


def test_interrupted_run_resumes_and_repeats_nothing(windows, results, tmp_path, monkeypatch):
    calls = []
    real = _batch.fit

    def counting(*args, **kwargs):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    arguments = dict(key=KEY, directory=tmp_path, workers=1, progress=False)
    monkeypatch.setattr(_batch, "fit", counting)
    with pytest.raises(KeyboardInterrupt):
        ndde.fit_many(METHOD, windows, CONFIG, **arguments)
    assert len(list(tmp_path.glob("*.eqx"))) == 2
    (tmp_path / "half.123.partial").write_bytes(b"half a file")

    monkeypatch.setattr(_batch, "fit", real)
    ran = []
    monkeypatch.setattr(
        _batch, "fit", lambda *a, **k: _counted(ran, k) or real(*a, **k), raising=True
    )
    resumed = ndde.fit_many(METHOD, windows, CONFIG, **arguments)
    assert ran == [jr.key_data(jr.fold_in(KEY, 2)).tolist()]
    same(resumed, results, rtol=0)

    # Everything is there now: nothing runs, and shapes alone are asked for.
    ran.clear()
    same(ndde.fit_many(METHOD, windows, CONFIG, **arguments), results, rtol=0)
    assert not ran

    # Other settings are other results.
    other = ndde.L0NDDE(coefficient=0.2, path=(0.1,))
    ndde.fit_many(other, windows[:1], CONFIG, **arguments)
    assert len(ran) == 1


def _counted(ran, keywords):
    key = keywords["key"]
    if not isinstance(key, jax.core.Tracer):
        ran.append(jr.key_data(key).tolist())


def test_progress_bar(windows, capsys):
    ndde.fit_many(METHOD, windows[:1], CONFIG, key=KEY)
    assert "1/1" in capsys.readouterr().err
    ndde.fit_many(METHOD, windows[:1], CONFIG, key=KEY, progress=False)
    assert capsys.readouterr().err == ""


def test_edge_cases(windows):
    assert ndde.fit_many(METHOD, [], CONFIG, key=KEY, progress=False) == []
    with pytest.raises(ValueError, match=r"windows\[1\] must be the Windows of one system"):
        ndde.fit_many(METHOD, [windows[0], np.zeros((5, 2))], CONFIG, key=KEY)
    with pytest.raises(ValueError, match="unstack_windows"):
        ndde.fit_many(METHOD, [ndde.stack_windows(windows[:2])], CONFIG, key=KEY)
    with pytest.raises(ValueError, match="workers must be at least 1"):
        ndde.fit_many(METHOD, windows, CONFIG, key=KEY, workers=0)


def test_padded_lengths_are_few_and_waste_little():
    lengths = {_batch._padded_length(n) for n in range(1, 20_001)}
    assert len(lengths) < 30
    assert all(n <= _batch._padded_length(n) <= max(64, 1.3 * n + 64) for n in range(1, 20_001))
