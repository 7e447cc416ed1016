"""Measurement errors, estimated beside noise that a system remembers; lags that they cause."""

import jax
import numpy as np
import pytest
from scipy.signal import lfilter

import ndde_jax as ndde
from ndde_jax.samples._noise import measurement_error, measurement_errors
from ndde_jax.select._screened import Screened
from ndde_jax.windows._windows import KnownData

DT, LAGS = 0.1, (0, 5, 10, 15)


def path(n=3000, seed=0):
    """A noisy oscillation and its target one unit of time later; variances near 1/2."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 200, 3))
    x[:11, 0] = 1.0
    kicks = np.sqrt(DT) * 0.05 * rng.normal(size=x.shape)
    for k in range(10, len(x) - 1):
        pull = 1 - x[k, 0] ** 2 - x[k, 1] ** 2
        drift = np.array(
            [
                x[k, 1] + pull * x[k, 0],
                -x[k, 0] + pull * x[k, 1],
                2 * np.tanh(2 * x[k - 10, 0]) - x[k, 2],
            ]
        )
        x[k + 1] = x[k] + DT * drift + kicks[k]
    return x[200:]


def truth():
    graph = np.zeros((3, 3, 4), bool)
    graph[:2, :2, 0] = graph[2, 2, 0] = graph[0, 2, 2] = True
    return graph


@pytest.fixture(scope="module")
def clean():
    return path()


@pytest.fixture(scope="module")
def short(clean):
    """Enough for a discovery."""
    return clean[:1500]


def test_errors_beside_a_walk_are_estimated_nearly_without_bias():
    """The model itself: increments with white noise q, errors of variance r."""
    rng = np.random.default_rng(1)
    for q, r in ((1.0, 0.3), (0.2, 1.0)):
        walks = np.sqrt(q) * rng.normal(size=(2000, 80)).cumsum(axis=0)
        x = walks + np.sqrt(r) * rng.normal(size=walks.shape)
        best, least = np.transpose([measurement_error(column) for column in x.T])
        assert best.mean() == pytest.approx(r, rel=0.12)
        # The subtracted part is two and a half standard deviations, or more.
        assert 0.9 < (best - least).mean() / (2.5 * best.std()) < 1.8


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_errors_of_a_path_are_found_and_not_made_too_large(clean, share):
    """The path's own share of high frequencies decreases, and lowers the estimate of errors."""
    rng = np.random.default_rng(1)
    for column in clean.T:
        size = share * column.std()
        best, least = measurement_error(column + size * rng.normal(size=len(column)))
        assert 0.65 * size < np.sqrt(best) < 1.15 * size
        assert least < best and (least > 0 or share < 0.05)


def test_what_a_system_remembers_is_no_error(clean):
    rng = np.random.default_rng(2)
    walks = rng.normal(size=(2000, 60)).cumsum(axis=0)
    assert sum(measurement_error(walk)[1] > 0 for walk in walks.T) <= 2
    assert all(measurement_error(column)[1] <= 0 for column in clean.T)


def test_maps_and_rounded_values_are_told_apart(clean):
    rng = np.random.default_rng(3)
    x = np.zeros(4000)
    for k in range(3999):  # its own memory looks like errors
        x[k + 1] = 0.4 * x[k] + rng.normal()
    assert measurement_error(x) == (0.0, 0.0)
    step = 0.1 * clean[:, 0].std()
    best, least = measurement_error(np.round(clean[:, 0] / step) * step)
    assert best == pytest.approx(step**2 / 12, rel=0.3) and least > 0


def test_of_a_longest_stretch_and_never_of_uneven_times(clean):
    x = clean + 0.05 * np.random.default_rng(4).normal(size=clean.shape)
    x[100] = np.nan
    samples = ndde.read_samples(x, dt=DT)
    errors = measurement_errors(samples)
    np.testing.assert_allclose(errors, [measurement_error(c)[0] for c in x[101:].T])
    uneven = np.cumsum(np.random.default_rng(5).uniform(0.05, 0.15, len(x)))
    assert not measurement_errors(ndde.read_samples(x[101:], t=uneven[101:])).any()


def test_constant_and_short_series_have_none():
    for x in (np.ones(500), np.arange(20.0)):
        assert measurement_error(x) == (0.0, 0.0)


@pytest.mark.slow
def test_lags_that_average_errors_out_are_left_out(short):
    """Without errors the same samples keep the same inputs, and nothing is reported."""
    fast, key = ndde.Recipe.fast(), jax.random.key(0)
    options = dict(dt=DT, lags=LAGS, recipe=fast, key=key)
    noisy = short + 0.05 * short.std(axis=0) * np.random.default_rng(6).normal(size=short.shape)
    found, quiet = ndde.discover(noisy, **options), ndde.discover(short, **options)
    assert sum("average them out" in choice for choice in found.choices) == 1
    assert not any("average them out" in choice for choice in quiet.choices)

    def graph(errors=None):
        """Inputs kept in the same windows if measurements have such errors."""
        strategy = fast.strategy.on(Screened(found.windows, errors=errors))
        return np.asarray(ndde.recover(found.windows, strategy, key=key).graph)

    without, with_them = graph(), graph(measurement_errors(found.samples))
    np.testing.assert_array_equal(found.graph, with_them)
    several = without.sum(axis=2) > 1
    assert with_them[several].sum() < without[several].sum()
    assert (with_them[several].sum(axis=1) > 0).all()
    np.testing.assert_array_equal(with_them[~several], without[~several])
    np.testing.assert_array_equal(graph(np.zeros(3)), without)


def test_networks_are_not_allowed_what_splines_left_out(short):
    """Required inputs stay allowed, and the data themselves are unchanged."""
    prior = ndde.prior_knowledge(("a", "b", "c"), lags=LAGS, required=[("a", "b", 5)])
    windows = ndde.lagged_windows(short, dt=DT, lags=LAGS, prior=prior)
    data = KnownData(windows)
    before = data.allowed.copy()
    narrow = data.allowing(np.zeros_like(before))
    np.testing.assert_array_equal(narrow.allowed, data.required)
    assert narrow.allowed.sum() == 1 and narrow.inputs is data.inputs
    np.testing.assert_array_equal(data.allowed, before)


@pytest.mark.slow
def test_the_graph_is_nearer_the_truth(short):
    rng, options = np.random.default_rng(7), dict(recipe=ndde.Recipe.fast(), key=jax.random.key(0))
    noisy = short + 0.05 * short.std(axis=0) * rng.normal(size=short.shape)
    found = ndde.discover(noisy, dt=DT, lags=LAGS, **options)
    searched = np.asarray(ndde.select.spline_graph(found.windows).graph)
    assert (found.graph != truth()).sum() < (searched != truth()).sum()
    assert found.graph[0, 2, 2]


@pytest.mark.slow
def test_required_lags_stay(short):
    noisy = short + 0.1 * short.std(axis=0) * np.random.default_rng(8).normal(size=short.shape)
    names = ("a", "b", "c")
    both = [("a", "c", lag) for lag in LAGS]
    prior = ndde.prior_knowledge(names, lags=LAGS, required=both)
    options = dict(recipe=ndde.Recipe.fast(), key=jax.random.key(0), names=names, prior=prior)
    assert ndde.discover(noisy, dt=DT, lags=LAGS, **options).graph[0, 2].all()


@pytest.mark.slow
def test_a_strategy_of_ones_own_is_not_said_to_leave_out_lags(short):
    noisy = short + 0.1 * short.std(axis=0) * np.random.default_rng(9).normal(size=short.shape)
    recipe = ndde.Recipe(strategy=ndde.select.Splines(), delays=False)
    found = ndde.discover(noisy, dt=DT, lags=LAGS, recipe=recipe, key=jax.random.key(0))
    assert not any("average them out" in choice for choice in found.choices)


@pytest.mark.parametrize("width", [3, 4, 7])
def test_means_of_samples_and_lines_between_them_are_no_errors(width):
    """Neighbouring samples of a mean need no averaging. Errors of a mean are still found."""
    rng, n = np.random.default_rng(width), 3000
    x = lfilter([1.0], [1.0, -0.8], rng.normal(size=n))
    mean = np.convolve(x, np.ones(width) / width, "valid")
    line = np.interp(np.arange(n), np.arange(0, n + width, width), x[: -(-(n + width) // width)])
    for smooth in (mean, line):
        assert measurement_error(smooth) == (0.0, 0.0)
        size = 0.3 * smooth.std()
        best, least = measurement_error(smooth + size * rng.normal(size=len(smooth)))
        assert least > 0 and 0.7 < best / size**2 < 1.3
