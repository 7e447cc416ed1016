"""Delays of a few samples in noise: one link each, without signs of anything unobserved."""

import functools

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._flow import correct_at_midpoints_numpy
from ndde_jax.select._between import Record, Refiner, states_at_delays
from ndde_jax.select._midpoint import read_steps
from ndde_jax.windows._windows import KnownData

PARTS, LAGS, LINK = 20, tuple(range(6)), (0, 1)


def path(delay, *, pull=0.6, forget=0.1, noise=0.12, n=1000, seed=0):
    """A gauge that follows another one, `lower' = pull (upper(t − delay) − lower)`, and a third
    that follows none; twenty Euler–Maruyama steps a sample.
    """
    rng, h, lag = np.random.default_rng(seed), 1 / PARTS, round(delay * PARTS)
    steps = (n + 200) * PARTS
    kicks = np.sqrt(h) * rng.normal(size=(steps, 3)) * [np.sqrt(2 * forget), noise, 0.4]
    x = np.zeros((steps, 3))
    for k in range(steps - 1):
        late = x[k - lag, 0] if k >= lag else 0.0
        upper, lower, other = x[k]
        rate = np.array([-forget * upper, pull * (late - lower), -0.3 * other])
        x[k + 1] = x[k] + h * rate + kicks[k]
    return x[200 * PARTS :: PARTS]


@functools.cache
def found(delay, seed=0, **options):
    x = path(delay, seed=seed, **options)
    return ndde.discover(x, dt=1.0, lags=LAGS, key=jax.random.key(0))


@pytest.mark.parametrize("delay, seed", [(1.6, 2), (3.6, 2)])
def test_a_delay_between_samples_is_one_link_and_nothing_is_hidden(delay, seed):
    one = found(delay, seed)
    kept = np.flatnonzero(one.graph[LINK])
    assert len(kept) == 1 and one.reading == "flow"
    low, high = one.delay_intervals[LINK][kept[0]]
    assert low <= delay <= high < low + 1
    assert not one.at_once.any() and not one.confounded.any()
    assert one.verdict != "not supported"


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1.6, 3.4, 3.6, 4.4])
def test_few_delays_between_samples_are_refused(delay):
    """With corrections by proxies in present states, 19 of these 48 were."""
    every = [found(delay, seed, forget=forget) for seed in range(6) for forget in (0.1, 0.4)]
    refused = sum(one.verdict == "not supported" for one in every)
    assert refused <= 2
    assert sum(one.confounded.any() for one in every) <= 1
    flows = [one for one in every if one.reading == "flow"]
    single = [one for one in flows if one.graph[LINK].sum() == 1]
    assert len(single) >= 0.6 * len(flows)
    inside = [
        low <= delay <= high for one in single for low, high in one.delay_intervals[LINK][
            one.graph[LINK]
        ]
    ]  # fmt: skip
    assert np.mean(inside) >= 0.85


def record_of(x):
    windows = ndde.select.midpoint_windows(x, dt=1.0, lags=LAGS)
    return Record.of(ndde.read_samples(x, dt=1.0), windows), windows


def test_a_source_at_a_short_delay_is_its_mean_over_the_step():
    """The mean of the lines between samples over an equally long time, and nothing later."""
    x = path(1.6, n=300)
    record, windows = record_of(x)
    record = record._replace(later=np.zeros(3), rough=np.ones(3, bool))
    center, scale = (
        np.asarray(a, float)[0] for a in (windows.scaling.center, windows.scaling.scale)
    )
    time, fine = np.arange(len(x)), np.linspace(0, 1, 4001)
    present = np.asarray(windows.position)[5:-5]
    for delay in (1.0, 1.3, 1.6, 2.5):
        own = record.at(0, delay, 1)[5:-5]
        at = present[:, None] - delay + fine[None]
        mean = np.trapezoid(np.interp(at, time, (x[:, 0] - center) / scale), fine, axis=1)
        np.testing.assert_allclose(own, mean, atol=1e-5)
    later = x.copy()
    k = int(present[50])
    later[k + 1 :] += 7.0
    moved = record._replace(values=record.values.copy())
    moved.values[k + 1 : len(x)] += 7.0
    for delay in (1.0, 1.2):
        assert moved.at(0, delay, 1)[55] == record.at(0, delay, 1)[55]


def test_delays_of_a_graph_are_columns_where_they_lie_between_lags():
    x = path(1.6, n=300)
    samples = ndde.read_samples(x, dt=1.0)
    record, windows = record_of(x)
    graph, delays = np.zeros((3, 3, 6), bool), np.full((3, 3, 6), np.nan)
    graph[0, 1, 2], delays[0, 1, 2] = True, 1.6
    graph[2, 1, 3], delays[2, 1, 3] = True, 3.0
    graph[1, 1, 0], delays[1, 1, 0] = True, 0.0
    late = states_at_delays(samples, windows, graph, delays)
    assert late.shape == (int(windows.n_valid), 3, 1)
    own = record.at(0, 1.6, 1)
    valid = np.asarray(windows.valid) & np.isfinite(own)
    np.testing.assert_allclose(late[valid[np.asarray(windows.valid)], 1, 0], own[valid])
    assert not late[:, [0, 2]].any()
    delays[0, 1, 2] = 2.0
    assert states_at_delays(samples, windows, graph, delays) is None


def test_sources_read_as_means_correct_no_rate():
    """Of a drift with a delayed source alone there is nothing to correct then."""
    steps = read_steps(path(1.6, n=300), dt=1.0, lags=LAGS)
    plain = steps.plain

    def drift(history):
        return np.stack([0 * history[:, 0, 0], history[:, 2, 0], -0.3 * history[:, 0, 2]], axis=1)

    def rates(means):
        met = correct_at_midpoints_numpy(plain, drift, steps.end, steps.bend, np.array(means))
        return np.asarray(met.increment) - np.asarray(plain.increment)

    every, none = rates([False] * 3), rates([False, True, False])
    assert np.abs(every[:, 1]).max() > 0.01
    assert np.abs(none[:, 1]).max() < 1e-5
    np.testing.assert_array_equal(none[:, 2], every[:, 2])


def test_only_rough_sources_have_delays_near_the_present():
    x = path(1.6, n=300)
    record, windows = record_of(x)
    data = KnownData(windows)
    rough = record._replace(rough=np.array([True, False, True]))
    design = ndde.regression.design_of(data.inputs, data.weight)
    refiner = Refiner(rough, data, LAGS, design, data.allowed)
    free = refiner._free(1).reshape(6, 3)
    np.testing.assert_array_equal(free[:, 0], [False, True, True, True, True, True])
    np.testing.assert_array_equal(free[:, 1], [False, False, False, True, True, True])
