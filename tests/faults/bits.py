"""Bits flip in saved files."""

import random
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import ndde_jax as ndde
from benchmarks._store import Record, Store
from ndde_jax import _store
from tests.faults import unit


def flips(directory: Path, n: int) -> Counter:
    """Random bit flips, a third each in a discovery, a result of `fit_many` and a results file."""
    outcomes = Counter()
    for name, (path, load) in _stored(directory).items():
        expected, whole = load(), path.read_bytes()
        random.seed(name)
        for _ in range(-(-n // 3)):
            damaged = bytearray(whole)
            damaged[random.randrange(len(whole))] ^= 1 << random.randrange(8)
            path.write_bytes(damaged)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    same = _equal(load(), expected)
            except ValueError:
                outcomes[name, "refused"] += 1
            else:
                outcomes[name, "equal numbers" if same else "OTHER NUMBERS"] += 1
        path.write_bytes(whole)
    return outcomes


def _stored(directory: Path) -> dict[str, tuple[Path, Callable]]:
    x = np.random.default_rng(0).normal(size=(80, 2)).cumsum(0)
    small = dict(width=4, depth=1)
    config = ndde.FitConfig(
        max_steps=20, epoch_steps=10, warmup="adam", warmup_steps=0, refine="none", **small
    )
    cheap = ndde.fitting.StrengthConfig(
        steps=5, restarts=1, folds=2, fold_steps=5, resamples=5, search=1, **small
    )
    method = ndde.L0NDDE(path=())
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=cheap))
    found = ndde.discover(x, dt=1.0, scheme="euler", recipe=recipe, key=jax.random.key(0))
    found.save(directory / "discovery")
    windows = [ndde.lagged_windows(x, dt=1.0)]
    many = dict(key=jax.random.key(0), directory=directory / "many", progress=False)
    ndde.fit_many(method, windows, config, **many)
    (fit,) = (directory / "many").iterdir()
    results = directory / "results.sqlite"
    rng = np.random.default_rng(0)
    with Store(results) as store:
        store.agree_on_settings("bench", "m", "simple", "lags 0, 6")
        store.write(
            Record(unit(i), {"a": rng.normal(), "b": np.nan}, "ok", 1.5, {"x": rng.normal(size=9)})
            for i in range(100)
        )

    def load_results():
        with Store(results) as store:
            rows = list(store.rows("bench"))
            store.agree_on_settings("bench", "m", "simple", "lags 0, 6")
            units = sorted(store.done("bench"))
            return repr(rows), [(unit, store.arrays(unit)["x"]) for unit in units]

    return {
        "discovery": (
            directory / "discovery" / "discovery.npz",
            lambda: ndde.Discovery.load(directory / "discovery"),
        ),
        "fit_many": (fit, lambda: _store.read(fit, ndde.FitResult)),
        "SQLite": (results, load_results),
    }


def _equal(one, other) -> bool:
    """Also nodes that are not leaves."""
    if isinstance(one, ndde.Discovery):
        one, other = vars(one), vars(other)
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
        for a, b in zip(leaves, others, strict=True)
    )
