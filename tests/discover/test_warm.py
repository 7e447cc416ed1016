"""A second discovery compiles nothing, and no discovery does anything twice."""

from collections import Counter

import jax
import jax.monitoring
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.select import _judge, _splines

from .small import DT, NAMES, discover as discover_small, driven_map

COMPILED = "/jax/core/compile/backend_compile_duration"


def discover(x):
    # With a given price networks are always fitted.
    return discover_small(x, dt=DT, names=NAMES, coefficient=0.1, scheme="auto")


@pytest.fixture
def compiled():
    """Names of the programs compiled so far; a list that grows."""
    events = []

    def heard(event, duration, **of):
        if event == COMPILED:
            events.append(of.get("fun_name", ""))

    jax.monitoring.register_event_duration_secs_listener(heard)
    yield events
    jax.monitoring.unregister_event_duration_listener(heard)


def data(seed, n=200):
    x = driven_map(n)
    return x + 0.05 * x.std(axis=0) * np.random.default_rng(seed).normal(size=x.shape)


def test_a_second_discovery_compiles_nothing(compiled):
    jax.jit(lambda x: x + 2.5)(1.0)
    assert compiled  # the listener works
    assert discover(data(0)).networks.any()
    compiled.clear()
    discover(data(1))
    assert not compiled
    # Nor does another length that is padded to the same.
    discover(data(1, n=180))
    assert not compiled


def test_another_number_of_variables_compiles_searches_alone(compiled):
    rng = np.random.default_rng(0)
    for dim in (2, 4):
        compiled.clear()
        x = rng.normal(size=(120, dim)).cumsum(axis=0)
        found = ndde.discover(x - 0.5 * x.mean(axis=0), dt=1.0, lags=range(3), key=jr.key(0))
        assert not found.networks.any()
    assert set(compiled) <= {"jit(_search_first)"}


def test_nothing_is_fitted_twice(monkeypatch):
    fitted, searched = Counter(), Counter()
    refit, search = _judge._refit, _splines.find_all_terms

    def counted_refit(problem, mask, network, steps, decay=1e-2):
        leaves = [problem.output, problem.inputs, mask, *jax.tree.leaves(network), decay]
        fitted[b"".join(np.asarray(leaf).tobytes() for leaf in leaves)] += 1
        return refit(problem, mask, network, steps, decay)

    def counted_search(design, outputs, *rest, **given):
        searched[design.features.tobytes() + outputs.tobytes()] += 1
        return search(design, outputs, *rest, **given)

    monkeypatch.setattr(_judge, "_refit", counted_refit)
    monkeypatch.setattr(_splines, "find_all_terms", counted_search)
    discover(data(0))
    assert len(fitted) > 2 and set(fitted.values()) == {1}
    assert len(searched) > 0 and set(searched.values()) == {1}
