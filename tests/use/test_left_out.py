"""Intervals of effects include the errors of a drift: curvature, delays between lags, readings."""

import dataclasses
import types

import jax
import numpy as np
import pytest
from scipy import optimize, stats

import ndde_jax as ndde
from ndde_jax.select._measured import fit_splines
from ndde_jax.use import _left_out
from ndde_jax.use._effects import Z_90, _at_delays, _respond, interval_ends
from ndde_jax.use._ensemble import make_basis
from ndde_jax.use._left_out import missed_by_lags
from ndde_jax.use._one_step import Quadrature

from .small import discovery

LAGS = (0, 1)


def curved(seed, n=1200, size=0.3, noise=None):
    """y[t+1] = y/2 + size · tanh(1.5 x[t−1]) + e: a curvature that is not worth its price."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 2))
    spread = np.ones(n) if noise is None else noise(rng, n)
    for t in range(1, n - 1):
        link = np.array([0, size * np.tanh(1.5 * x[t - 1, 0])])
        x[t + 1] = 0.5 * x[t] + link + spread[t] * rng.normal(size=2)
    return x


def mapped(x):
    """The true graph, splines on it: a map."""
    graph = np.zeros((2, 2, 2), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = graph[0, 1, 1] = True
    model = fit_splines(ndde.lagged_windows(x, dt=1.0, lags=LAGS), graph)
    found = discovery(x, graph, lags=LAGS, dt=1.0, names=("x", "y"), model=model)
    return dataclasses.replace(found, reading="map")


@pytest.fixture(scope="module")
def found():
    return mapped(curved(4))


@pytest.mark.slow
def test_a_curve_is_possible_where_the_drift_is_straight(found):
    effects = found.effects()
    at, y, low, high = effects.curve("x", "y", 1, points=10)
    slope = np.diff(y) / np.diff(at)
    np.testing.assert_allclose(slope, slope[0], rtol=1e-3)
    truth = 0.3 * np.tanh(1.5 * at)
    truth -= (truth[1:] + truth[:-1]).mean() / 2
    assert (low[1:-1] < truth[1:-1]).all() and (truth[1:-1] < high[1:-1]).all()
    # Not by being wide: straight lines to both ends of the true curve are excluded.
    assert (high - low)[1:-1].max() < np.ptp(truth) and (low <= y).all() and (y <= high).all()


@pytest.mark.slow
def test_a_mean_slope_is_not_that_of_a_line_through_rare_extremes():
    """A line is determined far out, where a saturating curve is flat."""
    spread = lambda rng, n: np.exp(rng.normal(size=n))  # noqa: E731
    x = curved(1, n=3000, noise=spread)
    effects = mapped(x).effects()
    truth = np.mean(0.45 / np.cosh(1.5 * x[:-2, 0]) ** 2)
    edge = (0, 1, 1)
    assert effects.slope[edge] < 0.6 * truth
    assert effects.slope_low[edge] < truth < effects.slope_high[edge]


def test_coefficients_of_curvature_are_those_of_bayes():
    """Compared with joint normal distributions, averaged by their likelihoods."""
    rng, n = np.random.default_rng(2), 300
    columns = rng.normal(size=(n, 2))
    residual = 0.1 * columns[:, 0] + rng.normal(size=n)
    prior = np.array([[1.0, 0.3], [0.3, 0.5]])
    mean, covariance = _left_out._posterior(columns, residual, np.linalg.inv(prior), 1.0)
    inverse = np.linalg.inv(columns.T @ columns)
    seen = inverse @ columns.T @ residual
    error = inverse @ (columns.T * residual**2) @ columns @ inverse
    unit = np.mean([c @ prior @ c for c in columns])
    chances, firsts, seconds = [], [], []
    for size in (1 / 4, 1 / 2):
        before = prior * size**2 / unit
        joint = np.block([[before, before], [before, before + error]])
        chances.append(stats.multivariate_normal(np.zeros(2), before + error).pdf(seen))
        given = joint[:2, 2:] @ np.linalg.inv(joint[2:, 2:])
        firsts.append(given @ seen)
        seconds.append(before - given @ joint[2:, :2] + np.outer(firsts[-1], firsts[-1]))
    chances = np.array(chances) / np.sum(chances)
    expected = chances @ firsts
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    second = np.tensordot(chances, seconds, axes=1) - np.outer(expected, expected)
    np.testing.assert_allclose(covariance, second, rtol=1e-4, atol=1e-9)


def regressed(x, y):
    """A straight line through points, and its residual."""
    histories = x[:, None, None]
    basis, columns = make_basis(histories, [0], []), np.stack([np.ones(len(x)), x], axis=1)
    line = np.linalg.lstsq(columns, y, rcond=None)[0]
    which = np.arange(2)
    center = _left_out.Center(basis, which, basis(histories)[:, which], line)
    path, residual = Quadrature((histories,), (1.0,)), (y - columns @ line)[:, None]
    return line, _left_out.CenterResiduals(histories, path, [center], residual, y.std()[None])


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 0.2, 0.3, 0.5])
def test_curvature_of_any_size_is_held_as_often_as_it_should(size):
    """Also those of a standard error or two: priors of smaller curvature smoothed them away."""
    rng, inside = np.random.default_rng(7), []
    at = np.array([-1.0, 1.0])
    for _ in range(150):
        x = 1.2 * rng.normal(size=500)
        y = size * np.tanh(1.5 * x) + rng.normal(size=500)
        line, left = regressed(x, y)
        curvature = _left_out.find_curvature(left, 0, 0, np.ones(1, bool))
        shift, variance = curvature.of(np.diff(curvature(at[:, None, None]), axis=0)[0])
        variance += (np.ptp(at) * np.std(y) / np.std(x)) ** 2 / 500
        change = np.ptp(at) * line[1] + shift
        inside.append(abs(change - np.ptp(size * np.tanh(1.5 * at))) < Z_90 * np.sqrt(variance))
    assert 0.83 < np.mean(inside) < 0.97


def test_a_variable_of_two_values_has_no_curvature():
    rng = np.random.default_rng(3)
    x = (rng.normal(size=300) > 0).astype(float)
    _, left = regressed(x, 0.5 * x + rng.normal(size=300))
    curvature = _left_out.find_curvature(left, 0, 0, np.ones(1, bool))
    assert not curvature.covariance.any() and not curvature.mean.any()


def test_an_interval_of_two_readings_is_that_of_their_mixture():
    center, half, apart = np.array([0.0, 1.0]), np.array([1.0, 0.5]), np.array([2.0, -3.0])
    low, high = interval_ends(center, half, apart, 0.3)
    for k in range(2):
        one, other = (stats.norm(at, half[k] / Z_90) for at in (center[k], center[k] + apart[k]))
        below = lambda u, one=one, other=other: 0.7 * one.cdf(u) + 0.3 * other.cdf(u)  # noqa: E731
        expected = [optimize.brentq(lambda u, p=p: below(u) - p, -9, 9) for p in (0.05, 0.95)]  # noqa: B023
        np.testing.assert_allclose([low[k], high[k]], expected, atol=1e-4)
    np.testing.assert_array_equal(interval_ends(center, half, apart, 0.0)[0], center - half)


@pytest.mark.slow
def test_an_undecided_record_may_be_a_map_or_a_flow(found):
    """For x[t+1] = x/2 + e the slope is −1/2 as a map, and near −ln 2 as a flow."""
    decided = found.effects()
    assert decided.slope_low[0, 0, 0] > -np.log(2)
    undecided = dataclasses.replace(found, reading="undecided", evidence=0.0)
    undecided = dataclasses.replace(
        undecided, windows=ndde.lagged_windows(found.samples, lags=LAGS, scheme="euler")
    )
    effects = undecided.effects()
    low, high = effects.slope_low[0, 0, 0], effects.slope_high[0, 0, 0]
    assert low < -np.log(2) * 0.97 and high > -0.5
    # A record that is barely a flow is barely one here.
    sure = dataclasses.replace(undecided, evidence=-20.0).effects()
    assert sure.slope_low[0, 0, 0] > -np.log(2) * 0.97


def test_slopes_of_delays_between_lags_are_too_small_at_the_lags():
    """A source driven by noise, read half a sample beside its delay of 3.5 samples."""
    rng, fine, n = np.random.default_rng(5), 20, 3000
    noise = rng.normal(size=(n * fine, 2)) / np.sqrt(fine)
    x = np.zeros((n * fine + 1, 2))
    for k in range(n * fine):
        late = x[k - 70, 0] if k >= 70 else 0.0
        x[k + 1] = x[k] + (np.array([0.0, late]) - 0.4 * x[k]) / fine + noise[k]
    x = x[::fine][100:]
    graph = np.zeros((2, 2, 5), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = graph[0, 1, 4] = True
    windows = ndde.select.midpoint_windows(x, dt=1.0, lags=range(5))
    given = dict(
        samples=ndde.read_samples(x, dt=1.0), windows=windows, graph=graph, reads=graph, dt=1.0,
        lags=(0, 1, 2, 3, 4), events=False, delays=np.where(graph, 3.5, np.nan),
        delay_resolved=graph & (np.arange(5) > 0), moves_between_samples=True,
    )  # fmt: skip
    shift = missed_by_lags(types.SimpleNamespace(**given))
    at_lags = ndde.select.fit_splines(windows, graph)
    slope = jax.jacfwd(at_lags)(np.zeros((5, 2), at_lags.dt.dtype))[1, 4, 0]
    assert slope < 0.93
    assert slope + shift[0, 1, 4] == pytest.approx(1.0, abs=0.05)
    assert not shift[:, 0].any()
    none = types.SimpleNamespace(**given | {"delay_resolved": graph & False})
    assert not missed_by_lags(none).any()


def test_responses_are_heard_at_the_delay_and_not_at_the_lag_that_is_read():
    graph = np.zeros((2, 2, 3), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = graph[0, 1, 2] = True
    delays = np.where(graph, [0.0, 0.5, 0.8], np.nan)  # of a lag at 1, by a step of .5
    resolved = np.zeros_like(graph)
    resolved[0, 1, 2] = True
    given = dict(
        graph=graph, reads=graph, lags=(0, 1, 2), dt=0.5, delays=delays, delay_resolved=resolved,
        moves_between_samples=True,
    )  # fmt: skip
    slopes = np.arange(12.0).reshape(1, 2, 2, 3)
    found, late = _at_delays(types.SimpleNamespace(**given), slopes, 4)
    assert late == (0.0, 1.0, 1.5, 2.0)
    assert found[0, 0, 1].tolist() == [3.0, 4.0, 5.0, 0.0]
    assert found[0, 1, 1].tolist() == [9.0, 10.0, 0.0, 11.0]
    pushed = np.zeros((1, 2, 2, 4))
    pushed[0, 0, 1, 2] = 1.0
    # The rate from 1.5 to 1.75 samples after a push that lasts a quarter.
    heard = _respond(pushed, late, 0.5, 4, False, 4)[0][:, 0, 1]
    assert heard[1] == 0 and heard[2] > 0
