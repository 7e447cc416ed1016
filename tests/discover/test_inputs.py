"""Known inputs that act within a sampling interval, such as totals stamped at its end."""

import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde


@pytest.fixture(scope="module")
def rained():
    """A store gains the rain between two samples, which is stamped at the second."""
    rng, n = np.random.default_rng(0), 600
    rain = np.where(rng.random(n) < 0.4, rng.gamma(1.0, 1.0, n), 0.0)
    store = np.zeros(n)
    for k in range(1, n):
        store[k] = 0.8 * store[k - 1] + 0.5 * rain[k] + 0.2 * rng.normal()
    return rain, store


def rain_discovered(rain, store):
    names, recipe = ("rain", "store"), ndde.Recipe.fast()
    x = np.stack([rain, store], axis=1)
    settings = dict(dt=1.0, names=names, lags=(0, 1), inputs=["rain"], recipe=recipe)
    return ndde.discover(x, key=jr.key(0), **settings)


def test_an_input_that_acts_within_a_step_is_named_with_its_remedy(rained):
    rain, store = rained
    found = rain_discovered(rain, store)
    assert found.at_once[0, 1] and not found.confounded.any()
    (said,) = [one for one in found.findings if one.name == "links at once"]
    assert said.text.startswith("rain → store acts within one sampling interval")
    assert "x['rain'] = x['rain'].shift(-1)" in said.remedy and said.weight == "reservation"
    assert "rain → store: within one sampling interval" in found.report()


def test_an_input_that_stands_where_its_interval_begins_is_a_link(rained):
    rain, store = rained
    found = rain_discovered(rain[1:], store[:-1])
    assert found.graph[0, 1, 0] and found.scores[0, 1, 0] > 0.3
    assert "links at once" not in [one.name for one in found.findings]
