"""Forecast and attractor metrics against SciPy, scikit-learn, loops and closed forms."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.signal
from scipy.special import logsumexp
from sklearn.neighbors import KernelDensity

from ndde_jax import metrics


def oscillation(n=900, dim=3, phase=0.0, seed=0):
    t = 0.05 * np.arange(n)[:, None]
    rates = np.array([1.0, 2.3, 3.1])[None, :dim]
    return np.sin(rates * t + phase) + 0.02 * np.random.default_rng(seed).normal(size=(n, dim))


def valid_steps(predicted, truth, threshold, norm):
    for k, (p, t) in enumerate(zip(predicted, truth, strict=False)):
        difference = p - t
        error = np.linalg.norm(difference) if norm == "l2" else np.sqrt(np.mean(difference**2))
        if not error <= threshold:
            return k
    return min(len(predicted), len(truth))


@pytest.mark.parametrize("norm", ["l2", "rms"])
@pytest.mark.parametrize("threshold", [0.05, 0.5, 1.0, 99.0])
def test_valid_prediction_time_counts_the_steps_before_the_first_miss(norm, threshold):
    truth, predicted = oscillation(), oscillation(n=700, phase=0.01 * np.arange(700)[:, None])
    got = metrics.valid_prediction_time(
        predicted, truth, dt=0.05, lyapunov=0.7, threshold=threshold, norm=norm
    )
    steps = valid_steps(predicted, truth, threshold, norm)
    np.testing.assert_allclose(got, steps * 0.05 * 0.7, rtol=1e-12)
    assert (steps == 700) == (threshold == 99.0)


def test_a_forecast_is_not_valid_where_it_is_not_a_number():
    truth = np.zeros((10, 2))
    predicted = truth.copy()
    predicted[4, 1] = np.nan
    assert metrics.valid_prediction_time(predicted, truth, dt=1.0) == 4
    assert metrics.valid_prediction_time(metrics.bounded(predicted), truth, dt=1.0) == 4


def test_a_forecast_that_comes_back_stays_invalid():
    truth = np.zeros((10, 1))
    predicted = truth.copy()
    predicted[3] = 2.0
    assert metrics.valid_prediction_time(predicted, truth, dt=0.5) == 1.5


@pytest.mark.parametrize("lyapunov", [0.3, 1.0, 7.0, 1e3])
def test_nrmse_averages_over_the_horizon_without_the_start(lyapunov):
    truth, predicted = oscillation(), oscillation(phase=0.3, seed=1)
    n = int(np.clip(round(5 / lyapunov / 0.05), 2, len(truth) - 1))
    expected = np.sqrt(((truth - predicted)[1 : n + 1] ** 2).mean(axis=1)).mean()
    got = metrics.nrmse(predicted, truth, dt=0.05, lyapunov=lyapunov)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_what_comes_after_the_horizon_does_not_matter():
    truth = oscillation()
    predicted = truth + 0.1
    predicted[-1] = np.nan
    np.testing.assert_allclose(metrics.nrmse(predicted, truth, dt=0.05), 0.1, rtol=1e-9)
    assert np.isnan(metrics.nrmse(predicted, truth, dt=0.05, horizon=1e9))


def test_bounded_forecasts_end_where_they_explode():
    x = np.array([[0.0, 1.0], [5e3, -5e3], [1.0, np.inf], [0.0, 0.0]])
    expected = [[0, 1], [1e3, -1e3], [1e3, 1e3], [1e3, 1e3]]
    np.testing.assert_array_equal(metrics.bounded(x), expected)
    np.testing.assert_array_equal(metrics.bounded(np.stack([x, np.ones_like(x)]))[0], expected)
    np.testing.assert_array_equal(metrics.bounded(x[:1], limit=0.5), [[0, 0.5]])


@pytest.mark.parametrize("n,segment", [(900, None), (901, None), (900, 128), (900, 129), (64, 64)])
def test_log_spectral_distance_equals_scipy(n, segment):
    truth, predicted = oscillation(n), 1.3 * oscillation(n + 5, phase=1.0, seed=3)
    length = segment or min(2048, n // 4)
    power, other = (
        scipy.signal.welch(x[:n], nperseg=length, axis=0)[1][1:] for x in (truth, predicted)
    )
    floor = 1e-6 * power.mean(axis=0)
    distance = 10 * np.log10(np.maximum(power, floor) / np.maximum(other, floor))
    expected = np.sqrt((distance**2).mean(axis=0)).mean()
    got = metrics.log_spectral_distance(predicted, truth, segment=segment)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_log_spectral_distance_of_a_rescaled_signal_in_decibels():
    truth = np.random.default_rng(0).normal(size=(5000, 2))
    np.testing.assert_allclose(metrics.log_spectral_distance(10 * truth, truth), 20, rtol=1e-6)
    assert metrics.log_spectral_distance(truth, truth) == 0
    # A constant has no power at all, so it is compared with the floor, 60 dB below the mean.
    constant = metrics.log_spectral_distance(0 * truth, truth)
    assert 55 < constant < 65
    assert metrics.log_spectral_distance(0 * truth, truth, floor=1e-3) < constant - 25


def kernel_density(points, samples, variance):
    estimate = KernelDensity(bandwidth=np.sqrt(variance)).fit(points)
    return estimate.score_samples(samples)


@pytest.mark.parametrize("variance", [0.01, 1.0])
def test_state_space_divergence_equals_kernel_densities(variance):
    truth, predicted = oscillation(300), oscillation(260, phase=0.4, seed=2)
    rng = np.random.default_rng(5)
    samples = truth[rng.integers(0, 300, 150)] + np.sqrt(variance) * rng.normal(size=(150, 3))
    expected = np.mean(
        kernel_density(truth, samples, variance) - kernel_density(predicted, samples, variance)
    )
    got = metrics.state_space_divergence(predicted, truth, variance=variance, samples=samples)
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.slow
def test_state_space_divergence_of_two_gaussians():
    """Mixtures of many components drawn from Gaussians approach the closed form."""
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 4000, 1))
    predicted = 0.5 + 2 * predicted
    p, q = 1 + 0.04, 4 + 0.04
    expected = 0.5 * (p / q + 0.25 / q - 1 + np.log(q / p))
    got = metrics.state_space_divergence(
        predicted, truth, variance=0.04, n_samples=8000, key=jr.key(1)
    )
    np.testing.assert_allclose(got, expected, atol=0.04)


def test_state_space_divergence_does_not_underflow_far_away():
    """Where every density underflows to zero, its logarithm does not."""
    truth = np.zeros((50, 2))
    far = metrics.state_space_divergence(truth + 1e3, truth, samples=truth[:10])
    np.testing.assert_allclose(far, 2 * 1e6 / 0.02, rtol=1e-9)


def test_long_trajectories_are_thinned_evenly():
    truth, predicted = oscillation(500), oscillation(500, phase=0.2)
    samples = truth[:40]
    z = [
        logsumexp(-((samples[:, None] - x[::3][None]) ** 2).sum(-1) / 0.02, axis=1)
        - np.log(len(x[::3]))
        for x in (truth, predicted)
    ]
    got = metrics.state_space_divergence(predicted, truth, samples=samples, max_points=200)
    np.testing.assert_allclose(got, np.mean(z[0] - z[1]), rtol=1e-8)


def test_draws_are_fixed_unless_a_key_is_given():
    truth, predicted = oscillation(200), oscillation(200, phase=0.3)
    first, again, other = (
        metrics.state_space_divergence(predicted, truth, **key)
        for key in ({}, {}, {"key": jr.key(9)})
    )
    assert first == again != other


def test_batches_equal_single_trajectories():
    truth = np.stack([oscillation(200, seed=i) for i in range(4)]).reshape(2, 2, 200, 3)
    predicted = truth + 0.1 * np.arange(4).reshape(2, 2, 1, 1) * np.linspace(0, 5, 200)[:, None]
    lyapunov = np.array([[0.5, 1.0], [2.0, 3.0]])

    def each(f):
        return [[f(i, j) for j in range(2)] for i in range(2)]

    for metric in (metrics.valid_prediction_time, metrics.nrmse):
        got = metric(predicted, truth, dt=0.05, lyapunov=lyapunov)
        np.testing.assert_allclose(
            got,
            each(
                lambda i, j, m=metric: m(
                    predicted[i, j], truth[i, j], dt=0.05, lyapunov=lyapunov[i, j]
                )
            ),
        )
    for metric in (metrics.log_spectral_distance, metrics.state_space_divergence):
        expected = each(lambda i, j, m=metric: m(predicted[i, j], truth[i, j]))
        np.testing.assert_allclose(metric(predicted, truth), expected, rtol=1e-9)


def test_single_precision_stays_single():
    x = jnp.asarray(oscillation(100), jnp.float32)
    for value in (
        metrics.log_spectral_distance(x, x),
        metrics.state_space_divergence(x, x, samples=x[:5]),
        metrics.nrmse(x, x, dt=jnp.float32(0.1)),
    ):
        assert value.dtype == jnp.float32


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda x: metrics.nrmse(x[:, :2], x, dt=0.1), "agree in batch and variables"),
        (lambda x: metrics.valid_prediction_time(x[:, 0], x, dt=0.1), r"got shape \(50,\)"),
        (lambda x: metrics.valid_prediction_time(x, x, dt=0.1, norm="max"), "norm must be one of"),
        (lambda x: metrics.nrmse(x[:2], x, dt=0.1), "three samples"),
        (lambda x: metrics.log_spectral_distance(x, x, segment=51), "between 2 and the number"),
        (lambda x: metrics.log_spectral_distance(x[:7], x), "at least 8 samples"),
        (lambda x: metrics.state_space_divergence(x[None], x), "agree in batch and variables"),
        (lambda x: metrics.state_space_divergence(x, x, samples=x[:, :1]), "samples must be"),
        (lambda x: metrics.bounded(x, limit=0.0), "limit must be positive"),
        (lambda x: metrics.bounded(x[:0]), "at least one sample"),
    ],
)
def test_unusable_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(oscillation(50))
