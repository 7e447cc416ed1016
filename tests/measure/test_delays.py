"""Delays between the candidates, and their intervals."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.measure._delays import clip_intervals, profile_delays, widen_intervals
from ndde_jax.select._screened import Screened
from ndde_jax.select._worth import student_quantile


def late_oscillator(tau, seed, n=2000, dt=0.1, fine=5):
    """x' = −x + 4 sin x(t−τ), chaotic, noise 0.2; samples dt apart."""
    drift = lambda t, x, lagged, args: -x + 4 * jnp.sin(lagged[0])  # noqa: E731
    path = ndde.solve_sdde(
        drift,
        lags=tau,
        dt=dt / fine,
        n_steps=n * fine,
        history=jnp.array([0.7]),
        sigma=0.2,
        key=jr.key(seed),
        save_every=fine,
    )
    return np.asarray(path.ys)[300:]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_delay_between_the_candidates_is_estimated(seed):
    """Two kept neighbours turn out to be one delay; its interval holds the truth and is short."""
    x = late_oscillator(1.73, seed)
    graph = np.array([[[True, False, True, True]]])
    found = ndde.measure.refine_delays(x, graph, dt=0.1, lags=(0, 10, 15, 20))
    assert found.delay.shape == (1,) and found.lags.tolist() == [[15, 20]]
    truth = 1.73 + 0.02 / 2  # Euler's method applies the drift half a step late
    assert found.lower[0] < truth < found.upper[0]
    # Student's t, or a quarter of a sample if that is more.
    half = max(stats.t.ppf(0.975, 31) * found.standard_error[0], 0.025)
    assert found.upper[0] - found.delay[0] == pytest.approx(half, rel=1e-4)
    assert found.upper[0] - found.lower[0] < 0.1
    assert 0 < found.resolution[0] < 0.5


def test_a_delay_that_runs_to_the_end_of_its_room_stays_at_its_candidate():
    """The source acts a sample late, and the only candidate late enough to move to is at five."""
    rng, x = np.random.default_rng(0), np.zeros((15_000, 2))
    noise = rng.normal(size=x.shape) * np.sqrt(0.05)
    for t in range(10, len(x) - 1):
        drive = [0.0, 2 * np.tanh(x[t - 10, 0])]
        x[t + 1] = x[t] + 0.05 * (drive - np.array([0.3, 1.0]) * x[t]) + noise[t]
    samples = ndde.read_samples(x[::10], dt=0.5)
    windows = ndde.lagged_windows(samples.values[0], dt=0.5, lags=(0, 5, 10), scheme="euler")
    graph = np.zeros((2, 2, 3), bool)
    graph[[0, 1], [0, 1], 0] = graph[0, 1, 1] = True
    delays, intervals = profile_delays(samples, windows, graph)
    assert delays[0, 1, 1] == 5
    np.testing.assert_array_equal(intervals[0, 1, 1], [0.0, 10.0])


@pytest.mark.parametrize("memory", [0.0, 0.98])
def test_a_delay_that_stays_at_its_lag_may_be_at_others_that_the_data_do_not_exclude(memory):
    """Neighbouring lags of a slow source are equivalent; neighbours alone held too little."""
    rng, x = np.random.default_rng(2), np.zeros((300, 2))
    for t in range(2, 299):
        x[t + 1, 0] = memory * x[t, 0] + np.sqrt(1 - memory**2) * rng.normal()
        x[t + 1, 1] = 0.5 * x[t, 1] + 0.4 * x[t - 2 : t, 0].sum() + rng.normal()
    windows = ndde.select.midpoint_windows(x, dt=0.5, lags=range(6))
    graph = np.zeros((2, 2, 6), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = graph[0, 1, 2] = True
    # As if no delay could be estimated.
    grid = np.where(graph, np.arange(6.0), np.nan)
    around = np.stack([grid - 1, grid + 1], axis=-1)
    _, ends = widen_intervals(Screened(windows), graph, (grid, around))
    wide = np.ptp(ends[0, 1, 2])
    assert wide == 2 if memory == 0 else wide > 2
    np.testing.assert_array_equal(ends[1, 1, 0], around[1, 1, 0])
    graph[0, 1, :4] = True
    run = np.where(graph, np.arange(6.0), np.nan)
    near = np.stack([run - 1, run + 1], axis=-1)
    _, ends = widen_intervals(Screened(windows), graph, (run, near))
    assert (ends[0, 1, :4, 0] <= 0).all() and (ends[0, 1, :4, 1] >= 3).all()


def test_an_interval_ends_where_no_later_delay_was_looked_at():
    """A delay with almost no effect has an unbounded interval: "(0 to 286197 minutes)"."""
    delays = np.array([[[np.nan, 1.0], [7.0, 2.0]]])
    ends = np.array([[[[np.nan, np.nan], [0.0, 286197.0]], [[6.0, 8.0], [1.9, 2.1]]]])
    same, intervals = clip_intervals(5.0, (delays, ends))
    np.testing.assert_array_equal(same, delays)
    np.testing.assert_array_equal(intervals[0, 0], [[np.nan, np.nan], [0.0, 5.0]])
    np.testing.assert_array_equal(intervals[0, 1], [[6.0, 7.0], [1.9, 2.1]])


def test_no_delayed_edge_gives_no_estimate():
    x = late_oscillator(1.0, 0, n=500)
    found = ndde.measure.refine_delays(x, np.array([[[True, False]]]), dt=0.1, lags=(0, 10))
    assert found.delay.shape == (0,) and found.lags.shape == (0, 2)
    with pytest.raises(ValueError, match="source target lag"):
        ndde.measure.refine_delays(x, np.ones((1, 2, 2), bool), dt=0.1, lags=(0, 10))
    with pytest.raises(
        ValueError, match=r"leave 38 steps, .* at least 52 that have them are needed"
    ):
        ndde.measure.refine_delays(x[:130], np.ones((1, 1, 2), bool), dt=0.1, lags=(0, 90))


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    graph = np.array([[[True, False, True, True]]])
    inside = 0
    for seed in range(20):
        x = late_oscillator(1.73, seed)
        found = ndde.measure.refine_delays(x, graph, dt=0.1, lags=(0, 10, 15, 20))
        inside += bool(found.lower[0] <= 1.73 <= found.upper[0])
    assert inside >= 17  # 95 % nominal; fewer than 17 of 20 have probability .016


@pytest.mark.parametrize("blocks", [2, 3, 5, 10, 20, 32, 200])
def test_quantiles_of_delay_intervals_against_scipy(blocks):
    """The quantile used to be 2 for most numbers of blocks: 3 blocks need 4.3."""
    for probability in (0.95, 0.975):
        expected = stats.t.ppf(probability, blocks - 1)
        assert student_quantile(probability, blocks - 1) == pytest.approx(expected, rel=1e-6)
