"""Lower bounds on the worth of an edge."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats

import ndde_jax as ndde
from ndde_jax.fit._prices import EBIC
from ndde_jax.select import _worth
from ndde_jax.select._judge import judge
from ndde_jax.select._measured import Described, measure_targets
from ndde_jax.select._screened import Screened
from ndde_jax.select._worth import BLOCKS, CONFIDENCE, lower_bound, stretches


def students(worth, blocks, left):
    bound = scipy.stats.ttest_1samp(blocks, 0, axis=1).confidence_interval(2 * CONFIDENCE - 1)
    return bound.low


def draw(rng, shape=()):
    """Errors with an edge and without, in blocks of very different sizes."""
    size = rng.lognormal(sigma=2, size=(*shape, BLOCKS))
    left = size * rng.uniform(0.1, 0.3, (*shape, BLOCKS))
    return size, left


def test_what_is_worth_something_in_the_mean_has_students_bound():
    rng = np.random.default_rng(0)
    blocks, left = 1 + 0.5 * rng.normal(size=(6, BLOCKS)), np.full(BLOCKS, 0.5)
    worth = blocks.mean(axis=1)
    found = lower_bound(worth, blocks, left)
    np.testing.assert_allclose(found, students(worth, blocks, left), rtol=1e-12)


def test_what_explains_most_of_every_block_is_worth_something():
    size, left = draw(np.random.default_rng(1))
    size[[3, 17]] *= 1000
    left[[3, 17]] *= 1000
    blocks = (size - left)[None]
    worth = blocks.mean(axis=1)
    assert students(worth, blocks, left) < 0
    found = lower_bound(worth, blocks, left)
    assert 0 < found[0] <= np.median(blocks) < worth[0]


def test_the_bound_of_shares_against_their_definition():
    rng = np.random.default_rng(5)
    size, left = draw(rng)
    size[0], left[0] = 1e4, 1e3
    blocks = (size - left)[None]
    shares = [(b - a) / (b + a) for a, b in zip(left, left + blocks[0], strict=True)]
    least = scipy.stats.ttest_1samp(shares, 0).confidence_interval(2 * CONFIDENCE - 1).low
    expected = least * np.median([a + b for a, b in zip(left, left + blocks[0], strict=True)])
    worth = blocks.mean(axis=1)
    np.testing.assert_allclose(lower_bound(worth, blocks, left), [expected], rtol=1e-12)
    # The price of weights may leave less: no bound exceeds the value that it bounds.
    assert lower_bound(expected / 2 * np.ones(1), blocks, left)[0] == expected / 2


def test_where_nothing_bursts_the_mean_alone_decides():
    """A second chance to exceed zero would accept one in ten instead of one in twenty."""
    rng = np.random.default_rng(7)
    left = rng.uniform(0.8, 1.2, BLOCKS)
    blocks = 0.1 * rng.normal(size=(4000, BLOCKS))
    worth = blocks.mean(axis=1)
    found = lower_bound(worth, blocks, left)
    np.testing.assert_allclose(found, students(worth, blocks, left), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bursts", [1, 2])
def test_what_explains_a_burst_alone_is_not(bursts):
    rng = np.random.default_rng(2)
    left = rng.uniform(0.9, 1.1, BLOCKS)
    blocks = 0.01 * rng.normal(size=(1, BLOCKS))
    blocks[0, :bursts] = 50.0
    assert lower_bound(blocks.mean(axis=1), blocks, left)[0] < blocks.mean()
    assert lower_bound(blocks.mean(axis=1), blocks, left)[0] < 0.02 * blocks.mean()


def test_what_explains_nothing_is_seldom_worth_something():
    """In blocks of different sizes with random signs: one in twenty for each of two bounds."""
    rng = np.random.default_rng(3)
    size, left = draw(rng, (4000,))
    blocks = size * rng.uniform(-0.05, 0.05, size.shape)
    found = [lower_bound(b.mean()[None], b[None], e)[0] for b, e in zip(blocks, left, strict=True)]
    assert np.mean(np.array(found) > 0) < 2 * (1 - CONFIDENCE)


def test_an_edge_that_acts_in_bursts_is_kept(monkeypatch):
    """A variable that follows another through storms and calms, a thousand times larger in one than
    in the other: nearly all of the variance lies in two stretches, and the edge holds in all.
    """
    rng = np.random.default_rng(4)
    n = 1600
    size = np.where((np.arange(n) // 50) % 16 == 3, 100.0, 1.0)
    first = size * rng.normal(size=n)
    second = np.zeros(n)
    second[1:] = np.cumsum(first[:-1] + 0.3 * size[:-1] * rng.normal(size=n - 1))
    x = np.stack([first, second], 1)
    recipe = dataclasses.replace(ndde.Recipe.fast(), events=False, scheme="euler")

    def found():
        options = dict(dt=1.0, lags=(0,), recipe=recipe, treat=False)
        return ndde.discover(x, **options, key=jax.random.key(0))

    assert found().graph[0, 1, 0] and found().lower[0, 1, 0] > 0
    monkeypatch.setattr(_worth, "lower_bound", students)
    assert not found().graph[0, 1, 0]


@pytest.mark.parametrize("effect", [1.0, 0.0])
def test_a_source_whose_lags_stand_in_for_one_another_keeps_the_best(effect):
    """For a slow source either of two lags may go, and for a source without effect both."""
    rng = np.random.default_rng(0)
    source, target = np.cumsum(np.cumsum(rng.normal(size=1500))), np.zeros(1500)
    source /= source.std()
    noise = rng.normal(size=1500)
    for t in range(1, 1500):
        target[t] = 0.5 * target[t - 1] + effect * source[t - 1] + noise[t]
    x = np.stack([source, target], axis=1)
    screened = Screened(ndde.lagged_windows(x, dt=1.0, lags=(0, 1)))
    masks = np.array([[1, 0, 0, 0], [1, 1, 1, 0]], bool)  # both lags of the source
    fits = [screened.fit(j, mask) for j, mask in enumerate(masks)]
    targets = [Described(own, own.gains_of_others()) for own in fits]
    measured = measure_targets(screened, screened.data, targets, EBIC())
    assert measured.graph[0, 1].sum() == effect
    assert (measured.strengths.value[0, 1].max() > 0.05) == (effect > 0)


def test_blocks_of_a_network_add_up_to_its_risk():
    x = np.random.default_rng(6).normal(size=(300, 2)).cumsum(axis=0)
    x[:, 1] += 3 * np.sin(x[:, 0])
    screened = Screened(ndde.lagged_windows(x, dt=1.0, scheme="euler"))
    data = screened.data
    rows = judge(
        data, screened.found, EBIC(), ndde.fitting.StrengthConfig(steps=5), key=jax.random.key(0)
    )
    size = np.bincount(stretches(data.weight), data.weight, BLOCKS)
    for row in rows:
        np.testing.assert_allclose(row.left @ size / size.sum(), float(row.fit.risk), rtol=1e-4)


def test_what_loses_all_its_edges_at_the_end_is_not_explained():
    """A residual that bursts from stretch to stretch was counted as explained."""
    rng, z = np.random.default_rng(1), np.zeros((80, 3))
    for i in range(1, len(z)):
        z[i] = 0.6 * z[i - 1] + rng.normal(size=3)
    windows = ndde.lagged_windows(np.exp(1.2 * z), dt=1.0, lags=range(6), scheme="euler")
    found = ndde.recover(windows, ndde.select.Default(networks=None), key=jax.random.key(0))
    measured = found.measure(Screened(windows), EBIC())
    dropped = np.asarray(measured.strengths.graph) & ~measured.graph
    nothing = ~measured.graph.any(axis=(0, 2))
    assert (dropped.any(axis=(0, 2)) & nothing).any()
    np.testing.assert_allclose(np.asarray(measured.strengths.risk)[nothing], 1)


def test_a_target_without_edges_that_others_pass_on_is_not_explained():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    x[1:, 1] += x[:-1, 0]
    windows = ndde.lagged_windows(x, dt=1.0, lags=range(2), scheme="euler")
    found = ndde.recover(windows, ndde.select.Default(networks=None), key=jax.random.key(0))
    measured = found.measure(Screened(windows), EBIC())
    assert measured.graph.any(axis=(0, 2)).all()
    bare = measured.without(measured.graph, "all of it")
    np.testing.assert_array_equal(bare.strengths.risk, 1)
    np.testing.assert_array_equal(bare.held_out, 1)
