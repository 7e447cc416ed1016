"""Delays between the candidates, and their intervals."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.measure._delays import student_quantile

FAST = ndde.fitting.StrengthConfig(steps=25, restarts=1)


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


@pytest.mark.parametrize("seed, blocks", [(0, 32), (1, 3)])
def test_a_delay_between_the_candidates_is_estimated(seed, blocks):
    """Two kept neighbours turn out to be one delay; its interval covers the truth and is short."""
    x = late_oscillator(1.73, seed)
    graph = np.array([[[True, False, True, True]]])
    config = ndde.fitting.StrengthConfig(steps=25, restarts=1, blocks=blocks)
    found = ndde.measure.refine_delays(
        x, graph, dt=0.1, lags=(0, 10, 15, 20), key=jr.key(0), config=config
    )
    assert found.delay.shape == (1,) and found.lags.tolist() == [[15, 20]]
    truth = 1.73 + 0.02 / 2  # Euler's method takes the drift half a step late
    assert found.lower[0] < truth < found.upper[0]
    # Student's t, or a quarter of a sample if that is more.
    half = max(stats.t.ppf(0.975, blocks - 1) * found.standard_error[0], 0.025)
    assert found.upper[0] - found.delay[0] == pytest.approx(half, rel=1e-4)
    assert found.upper[0] - found.lower[0] < (0.1 if blocks == 32 else 0.4)
    assert 0 < found.resolution[0] < 0.5
    on_graph = found.on_graph(graph, (0, 10, 15, 20))
    np.testing.assert_allclose(on_graph[0, 0, 2:], found.delay[0])
    assert np.isnan(on_graph[0, 0, :2]).all()


def test_interpolation_reproduces_cubics_at_the_samples_and_parabolas_between():
    from ndde_jax.measure._delays import _interpolated

    t = np.arange(20.0)
    value, slope = _interpolated(jnp.asarray(t**2 - 3 * t), jnp.array([5.0, 7.3]))
    np.testing.assert_allclose(value, [10.0, 7.3**2 - 3 * 7.3], rtol=1e-12)
    np.testing.assert_allclose(slope, [7.0, 2 * 7.3 - 3], rtol=1e-12)


@pytest.mark.slow
def test_no_delayed_edge_gives_no_estimate():
    x = late_oscillator(1.0, 0, n=500)
    found = ndde.measure.refine_delays(
        x, np.array([[[True, False]]]), dt=0.1, lags=(0, 10), key=jr.key(0)
    )
    assert found.delay.shape == (0,) and found.lags.shape == (0, 2)
    with pytest.raises(ValueError, match="source target lag"):
        ndde.measure.refine_delays(x, np.ones((1, 2, 2), bool), dt=0.1, lags=(0, 10), key=jr.key(0))
    with pytest.raises(ValueError, match="may grow to 182 samples; that leaves 16 of 200"):
        ndde.measure.refine_delays(
            x[:200], np.ones((1, 1, 2), bool), dt=0.1, lags=(0, 90), key=jr.key(0)
        )


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    graph = np.array([[[True, False, True, True]]])
    inside = 0
    for seed in range(20):
        x = late_oscillator(1.73, seed)
        found = ndde.measure.refine_delays(
            x, graph, dt=0.1, lags=(0, 10, 15, 20), key=jr.key(0), config=FAST
        )
        inside += bool(found.lower[0] <= 1.73 <= found.upper[0])
    assert inside >= 17  # 95 % nominal; fewer than 17 of 20 have probability .016


@pytest.mark.parametrize("blocks", [2, 3, 5, 10, 20, 32, 200])
def test_quantiles_of_delay_intervals_against_scipy(blocks):
    """They used to be 2 for most numbers of blocks: 3 blocks need 4.3."""
    for probability in (0.95, 0.975):
        expected = stats.t.ppf(probability, blocks - 1)
        assert student_quantile(probability, blocks - 1) == pytest.approx(expected, rel=1e-6)
