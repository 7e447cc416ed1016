"""Lower bounds of what an edge is worth, against the share of draws in which they hold."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats

import ndde_jax as ndde
from ndde_jax.measure import _measured
from ndde_jax.measure._measured import BLOCKS, CONFIDENCE, uncertainty

DRAWS = 20_000


def students(blocks):
    quantile = scipy.stats.t.ppf(CONFIDENCE, BLOCKS - 1)
    return quantile * blocks.std(axis=1, ddof=1) / np.sqrt(BLOCKS)


def misses(bound, blocks, mean):
    """How often a lower bound lies above what it bounds."""
    return np.mean(blocks.mean(axis=1) - bound(blocks) > mean)


def test_blocks_that_scatter_alike_have_students_bound():
    half = np.random.default_rng(0).normal(size=(5, BLOCKS // 2))
    blocks = np.concatenate([half, -half], axis=1) + 3
    np.testing.assert_allclose(uncertainty(blocks), students(blocks), rtol=1e-9)
    np.testing.assert_array_equal(uncertainty(np.ones((2, BLOCKS))), 0)


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5])
def test_bounds_of_skewed_blocks_miss_as_often_as_they_say(shape):
    """Student's hardly ever do, and so say less than they could; mirrored, they miss too often."""
    rng = np.random.default_rng(1)
    blocks, mean = rng.lognormal(sigma=shape, size=(DRAWS, BLOCKS)), np.exp(shape**2 / 2)
    for sign in (1, -1):
        own = misses(uncertainty, sign * blocks, sign * mean)
        other = misses(students, sign * blocks, sign * mean)
        assert abs(own - (1 - CONFIDENCE)) < abs(other - (1 - CONFIDENCE))


def test_what_a_few_bursts_explain_is_worth_more_than_nothing():
    blocks = np.full((1, BLOCKS), 1e-3)
    blocks[0, [7, 20]] = 30.0, 10.0
    assert blocks.mean() < students(blocks)[0]
    assert blocks.mean() > uncertainty(blocks)[0]


def test_an_edge_that_acts_in_bursts_is_kept(monkeypatch):
    """Storms fill a tank that drains into another: nearly all that the first explains of the second
    lies in two stretches of the record.
    """
    rng = np.random.default_rng(2)
    first, second = np.zeros(1500), np.zeros(1500)
    for k in range(1499):
        rain = 9.0 if 700 <= k < 706 else 4.0 if 1100 <= k < 1106 else 0.0
        first[k + 1] = 0.8 * first[k] + rain + 0.02 * rng.normal()
        second[k + 1] = 0.9 * second[k] + 0.1 * first[k] + 0.02 * rng.normal()
    x = np.stack([first, second], 1)
    recipe = dataclasses.replace(ndde.Recipe.fast(), events=False, scheme="euler")

    def kept():
        found = ndde.discover(x, dt=1.0, recipe=recipe, key=jax.random.key(0), treat=False)
        return found.graph[0, 1, 0]

    assert kept()
    monkeypatch.setattr(_measured, "uncertainty", students)
    assert not kept()
