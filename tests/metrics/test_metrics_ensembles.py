"""Scores of ensembles against double sums, closed forms and loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from ndde_jax import metrics


def double_sum(x, y, fair):
    n = len(x)
    pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1))
    return np.abs(x - y).mean(axis=0) - pairs / (2 * (n * (n - 1) if fair else n * n))


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("n", [2, 7, 40])
def test_crps_is_the_double_sum(n, fair):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 3, 2)), rng.normal(size=(3, 2))
    got = metrics.crps(x, y, fair=fair)
    np.testing.assert_allclose(got, double_sum(x, y, fair), rtol=1e-12)


def test_crps_of_one_path_is_the_absolute_error():
    np.testing.assert_allclose(metrics.crps([[1.0, 5.0]], [3.0, 4.5]), [2.0, 0.5])


@pytest.mark.parametrize("y", [-2.0, 0.0, 0.7])
def test_the_fair_crps_of_a_gaussian_has_the_mean_of_its_closed_form(y):
    # Gneiting and Raftery (2007), equation 21, for the standard normal distribution.
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    x = np.random.default_rng(0).normal(size=(5, 200_000))
    got = np.asarray(metrics.crps(x, np.full(200_000, y)))
    assert got.mean() == pytest.approx(exact, abs=4 * got.std() / np.sqrt(len(got)))
    unfair = np.asarray(metrics.crps(x, np.full(200_000, y), fair=False))
    assert unfair.mean() > exact + 0.05


def test_a_missing_truth_gives_a_missing_score():
    got = metrics.crps(np.zeros((3, 2)), [1.0, np.nan])
    assert got[0] == 1 and np.isnan(got[1])


def test_interval_coverage_counts_what_came():
    low, high = np.zeros(6), np.ones(6)
    truth = np.array([0.0, 1.0, 0.5, 2.0, -0.1, np.nan])
    assert metrics.interval_coverage(low, high, truth) == pytest.approx(3 / 5)
    assert metrics.interval_coverage(low * np.nan, high, truth) == 0
    assert np.isnan(metrics.interval_coverage(low, high, truth * np.nan))


@pytest.mark.parametrize("level", [0.0, 1e6, 1e9])
def test_scores_do_not_depend_on_the_level(level):
    """Single precision cannot distinguish 1e9 from its neighbours: all forecasts looked exact."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 20, 2)), rng.normal(size=(20, 2))
    with jax.enable_x64(False):
        low, high = np.quantile(x, [0.1, 0.9], axis=0) + level
        got = metrics.crps(x + level, y + level), metrics.energy_score(x + level, y + level)
        covered = metrics.interval_coverage(low, high, y + level)
    expected = metrics.crps(x, y), metrics.energy_score(x, y)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    inside = (low <= y + level) & (y + level <= high)
    assert float(covered) == pytest.approx(inside.mean())


def test_energy_score_is_the_double_sum_and_for_one_variable_the_crps():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 4, 3)), rng.normal(size=(4, 3))
    pairs = np.linalg.norm(x[:, None] - x[None], axis=-1).sum(axis=(0, 1)) / (2 * 9 * 8)
    expected = np.linalg.norm(x - y, axis=-1).mean(axis=0) - pairs
    np.testing.assert_allclose(metrics.energy_score(x, y), expected, rtol=1e-12)
    one = metrics.energy_score(x[..., :1], y[..., :1])
    np.testing.assert_allclose(one, metrics.crps(x[..., 0], y[..., 0]), rtol=1e-12)


def test_scores_can_be_differentiated_and_compiled():
    x = np.random.default_rng(0).normal(size=(8, 3))
    score = lambda y: jnp.sum(metrics.crps(x, y))  # noqa: E731
    y = jnp.array([0.1, -0.3, 2.0])
    step, found = 1e-6, jax.jit(jax.grad(score))(y)
    for i in range(3):
        ahead, back = y.at[i].add(step), y.at[i].add(-step)
        expected = (score(ahead) - score(back)) / (2 * step)
        assert found[i] == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("function", [metrics.crps, metrics.energy_score])
def test_shapes_must_agree(function):
    with pytest.raises(ValueError, match=r"samples must be \[path"):
        function(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="samples"):
        function(np.zeros((0, 2)), np.zeros(2))


def test_intervals_must_have_the_shape_of_the_truth():
    with pytest.raises(ValueError, match="low, high and truth must have one shape"):
        metrics.interval_coverage(np.zeros(2), np.zeros(2), np.zeros(3))


def test_gradients_are_finite_where_paths_meet():
    """A path has no distance from itself, and a forecast begins at the true state."""
    x, y = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2))), jnp.zeros(2)
    apart = np.eye(8).reshape(8, 4, 2) * 1e-6
    steps = [
        (metrics.energy_score(x + d, y) - metrics.energy_score(x - d, y)) / 2e-6 for d in apart
    ]
    slopes = jax.grad(metrics.energy_score)(x, y).ravel()
    np.testing.assert_allclose(slopes, np.array(steps), atol=1e-8)

    truth = jnp.ones((50, 2))

    def drifted(s):
        return metrics.nrmse(truth + s * jnp.arange(50.0)[:, None], truth, dt=0.1)

    # The error at sample k is s k.
    np.testing.assert_allclose(jax.grad(drifted)(1.0), drifted(2.0) - drifted(1.0), rtol=1e-6)
