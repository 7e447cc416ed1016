"""Shared parts of the tests of many systems."""

import jax.random as jr
import numpy as np

import ndde_jax as ndde
from ndde_jax._executors import Failed
from ndde_jax._store import to_bytes

KEY = jr.key(5)
RECIPE = ndde.Recipe(strategy=ndde.select.Default(networks=None), delays=False, passes=1)
OPTIONS = dict(dt=0.5, lags=(0, 1), scheme="euler", recipe=RECIPE, treat=False)


def table(seed, n=80):
    """A noisy linear map whose first variable drives the second."""
    kick = np.random.default_rng(seed).normal(size=(n, 2))
    x = np.zeros((n, 2))
    for k in range(n - 1):
        x[k + 1] = x[k] @ np.array([[0.6, 0.5], [0.0, 0.4]]) + 0.3 * kick[k]
    return x


SYSTEMS = [table(seed) for seed in range(3)]


def run(systems=SYSTEMS, **options):
    settings = dict(key=KEY, progress=False)
    return ndde.discover_many(systems, **OPTIONS | settings | options)


def bits(found):
    """Everything in a discovery."""
    return found if isinstance(found, Failed) else to_bytes(found)


def assert_same(many, others):
    assert [bits(found) for found in many] == [bits(found) for found in others]
