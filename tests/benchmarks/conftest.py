"""Shared parts of tests of graph benchmarks: synthetic graphs, a store, a method for one test."""

import jax.random as jr
import numpy as np
import pytest

from benchmarks._store import Store
from benchmarks.causal_dynamics.methods import METHODS
from benchmarks.causal_dynamics.outcomes import Prediction

CHAIN = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])


def _write_graph(folder, name, *, adjacency=CHAIN, category="simple/default", **changes):
    rng = np.random.default_rng(len(name))
    arrays = {
        "x": rng.normal(size=(4, 30, len(adjacency))).astype(np.float32),
        "adjacency": adjacency,
        "adjacency_true": np.maximum(adjacency, np.eye(len(adjacency), k=2)),
        "dt": 0.1,
        "category": category,
        **changes,
    }
    np.savez(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})


@pytest.fixture
def write_graph():
    """Write a graph file; a change to None omits that array."""
    return _write_graph


@pytest.fixture
def graphs(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    _write_graph(folder, "simple_default_A")
    _write_graph(folder, "simple_noise_B", category="simple/noise")
    _write_graph(folder, "simple_noise_dense", category="simple/noise", adjacency=np.ones((2, 2)))
    return folder


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as store:
        yield store


@pytest.fixture
def register(monkeypatch):
    """Add a method for one test."""
    return lambda name, method: monkeypatch.setitem(METHODS, name, method)


def _random_scores(series, dt, settings, *, key):
    """Scores with occasional ties; NaN in series 1, as a failed fit gives."""
    shape = (len(series), *2 * series[0].shape[1:])
    scores = np.array(jr.uniform(key, shape)).round(1)
    scores[1:2] = np.nan
    return [
        Prediction(s, s >= 0.5, "diverged" if i == 1 else "converged") for i, s in enumerate(scores)
    ]


def _value(store, metric, series, *, method=None):
    """A metric of the first graph; `method` tells apart several in one store."""
    (found,) = (
        row.value
        for row in store.rows("causal_dynamics")
        if (row.metric, row.series, row.graph) == (metric, series, "simple_default_A")
        and method in (None, row.method)
    )
    return found


@pytest.fixture
def random_scores():
    return _random_scores


@pytest.fixture
def value():
    return _value
