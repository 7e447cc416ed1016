"""Compiled programs are discarded before there are too many, and never during tracing."""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@pytest.fixture
def cached(monkeypatch):
    """A compiled function, in a process that has too many of them."""
    function = jax.jit(lambda x: x + 1)
    function(1.0)
    assert _memory.memory_maps() > 100
    monkeypatch.setattr(_memory, "MOST_MAPS", 100)
    monkeypatch.setattr(_memory, "INTERVAL", 0.0)
    monkeypatch.setattr(_memory, "MAX_TIME_SHARE", np.inf)
    monkeypatch.setattr(_memory, "_next_count", 0.0)
    monkeypatch.setattr(_memory, "_others", 0)
    return function._cache_size


@pytest.mark.slow
def test_programs_are_forgotten_when_there_are_too_many(cached, monkeypatch):
    monkeypatch.setattr(_memory, "MOST_MAPS", 10**9)
    _memory.drop_programs_if_many()
    assert cached() == 1
    monkeypatch.setattr(_memory, "MOST_MAPS", 100)
    _memory.drop_programs_if_many(jnp.ones(2), None)
    assert cached() == 0


@pytest.mark.slow
def test_counting_is_not_done_at_every_call(cached, monkeypatch):
    monkeypatch.setattr(_memory, "INTERVAL", 3600.0)
    _memory.drop_programs_if_many()
    counted = []
    monkeypatch.setattr(_memory, "memory_maps", lambda: counted.append(1) or 0)
    for _ in range(1000):
        _memory.drop_programs_if_many()
    assert counted == []


def test_counting_takes_a_small_share_of_the_time(cached, monkeypatch):
    monkeypatch.setattr(_memory, "MAX_TIME_SHARE", 0.01)
    counted = []
    monkeypatch.setattr(_memory, "memory_maps", lambda: counted.append(time.sleep(0.01)) or 0)
    start = time.monotonic()
    while time.monotonic() < start + 0.2:
        _memory.drop_programs_if_many()
    assert len(counted) == 1


def test_areas_of_others_do_not_make_every_call_compile_again(cached):
    _memory.drop_programs_if_many()
    assert cached() == 0
    function = jax.jit(lambda x: x - 1)
    function(1.0)
    _memory.drop_programs_if_many()  # far more than 100 remain, none of them its own
    assert function._cache_size() == 1


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad, jax.jacfwd])
def test_nothing_is_forgotten_while_tracing(transform, cached):
    def function(x):
        _memory.drop_programs_if_many(x)
        return jnp.sum(x * x)

    transform(function)(np.ones(()) if transform is jax.grad else np.ones(2))
    assert cached() == 1


def fit():
    windows = ndde.lagged_windows(np.arange(70.0) ** 1.5, dt=1.0)
    config = ndde.FitConfig(
        max_steps=2, epoch_steps=2, warmup="adam", warmup_steps=0, refine="none", width=2, depth=1
    )
    return ndde.fit(ndde.L0NDDE(path=()), windows, config, key=jax.random.key(0)).losses


def simulate():
    return ndde.solve_sdde(
        lambda t, x, lagged, args: -x, lags=1.0, dt=0.5, n_steps=4, history=np.ones(1)
    ).ys


def splines():
    return ndde.select.spline_graph(ndde.lagged_windows(np.arange(30.0) ** 1.5, dt=1.0)).evidence


@pytest.mark.parametrize("front_door", [fit, simulate, splines])
def test_front_doors_make_room_and_give_the_same(front_door, cached, monkeypatch):
    emptied = front_door()
    assert cached() == 0
    monkeypatch.setattr(_memory, "MOST_MAPS", 10**9)
    np.testing.assert_array_equal(front_door(), emptied)
