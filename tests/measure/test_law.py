"""Drifts of present states: the differences they are fitted to, and when a law suffices."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
import scipy.optimize

import ndde_jax as ndde
from ndde_jax.measure import _law
from ndde_jax.models import Best, Networks, PolynomialDrift, Polynomials
from ndde_jax.select._target_fit import CHANCE

DT, SIGMA = 0.06, 0.06
QUICK = Best(networks=Networks(members=1, width=4, depth=1, steps=8))


def rates(x, spring=lambda p: p):
    """Van der Pol's oscillator, with any spring."""
    p, v = x[..., 0], x[..., 1]
    return np.stack([v, (1 - p**2) * v - spring(p)], axis=-1)


def path(n=1500, sigma=SIGMA, seed=0, substeps=10, **options):
    """Driven by white noise, by Heun's method."""
    rng, h = np.random.default_rng(seed), DT / substeps
    x, found = np.array([1.0, 0.5]), []
    for k in range((n + 100) * substeps):
        if k % substeps == 0:
            found.append(x)
        kick = sigma * np.sqrt(h) * rng.normal(size=2)
        first = rates(x, **options)
        second = rates(x + h * first + kick, **options)
        x = x + h * (first + second) / 2 + kick
    return np.array(found[100:])


@pytest.fixture(scope="module")
def driven():
    return path()


def central(x):
    """Windows such as those in which a graph is found, and the samples."""
    samples = ndde.read_samples(x, dt=DT)
    return samples, ndde.lagged_windows(samples, scheme="central")


def test_noise_that_drives_the_system_asks_for_forward_differences(driven):
    samples, windows = central(driven)
    assert _law.law_windows(samples, windows).scheme == "euler"


@pytest.mark.slow
def test_errors_of_measurements_ask_for_central_ones(driven):
    rng = np.random.default_rng(1)
    smooth = path(sigma=0.0)
    for size, scheme in ((1e-6, "euler"), (0.05, "central")):
        samples, windows = central(smooth + size * rng.normal(size=smooth.shape))
        assert _law.law_windows(samples, windows).scheme == scheme
    # The scheme is chosen by its effect on the drift: each is better where it is chosen.
    samples, windows = central(smooth + 0.05 * rng.normal(size=smooth.shape))
    graph = np.ones((2, 2, 1), bool)
    forward = ndde.lagged_windows(samples)
    kept, other = (
        ndde.fit_drift(w, graph, Polynomials(), key=jr.key(0)) for w in (windows, forward)
    )
    error = [
        np.mean((np.asarray(jax.vmap(m)(smooth[::10, None])) - rates(smooth[::10])) ** 2)
        for m in (kept, other)
    ]
    assert error[0] < error[1]


def test_filtered_noise_and_delays_stay(driven):
    smoothed = np.apply_along_axis(lambda c: np.convolve(c, [0.5, 0.5], "valid"), 0, driven)
    samples, windows = central(smoothed)
    assert _law.law_windows(samples, windows) is windows
    samples = ndde.read_samples(driven, dt=DT)
    for given in (
        ndde.lagged_windows(samples, lags=(0, 1), scheme="central"),
        ndde.lagged_windows(samples, scheme="euler"),
    ):
        assert _law.law_windows(samples, given) is given


@pytest.mark.slow
def test_a_law_is_as_accurate_as_least_squares_of_its_own_terms(driven):
    windows = ndde.lagged_windows(driven, dt=DT)
    law = _law.fit_law(windows, np.ones((2, 2, 1), bool), QUICK, key=jr.key(0))
    assert isinstance(law.drift, PolynomialDrift) and law.drift.networks is None

    def flow(numbers, x, n=4):
        a, b, c, d = numbers
        rate = lambda x: np.stack(  # noqa: E731
            [a * x[:, 1], b * x[:, 1] + c * x[:, 0] ** 2 * x[:, 1] + d * x[:, 0]], axis=1
        )
        for _ in range(n):
            h = DT / n
            k = rate(x)
            x = x + h * rate(x + h / 2 * k)
        return x

    best = scipy.optimize.least_squares(
        lambda numbers: (flow(numbers, driven[:-1]) - driven[1:]).ravel(), [1.0, 1, -1, -1]
    )
    a, b, c, d = best.x
    # Errors of the numbers; the two estimates must differ by less.
    spread = np.sqrt(np.diag(np.linalg.inv(best.jac.T @ best.jac)) * SIGMA**2 * DT)
    x = np.array([[0.7, -0.4], [1.5, 0.3], [-0.2, 1.8], [-1.9, 0.1]])
    expected = np.stack(
        [a * x[:, 1], b * x[:, 1] + c * x[:, 0] ** 2 * x[:, 1] + d * x[:, 0]], axis=1
    )
    found = np.array([law(one[None]) for one in x])
    np.testing.assert_allclose(found, expected, atol=spread.max() / 2)
    jacobian = jax.vmap(jax.jacfwd(law))(x[:, None])[:, :, 0]
    np.testing.assert_array_equal(np.any(jacobian != 0, axis=0), [[False, True], [True, True]])


@pytest.mark.slow
def test_what_no_polynomial_says_is_left_to_networks(monkeypatch):
    windows = ndde.lagged_windows(path(spring=lambda p: 2 * np.sign(p) * np.abs(p) ** 0.5), dt=DT)
    graph = np.array([[[False], [True]], [[True], [True]]])
    simple = ndde.fit_drift(windows, graph, Polynomials(), key=jr.key(0))
    assert _law.residual_is_explained(windows, simple) == [False, True]
    drift = _law.fit_law(windows, graph, QUICK, key=jr.key(0)).drift
    assert drift.networks is not None
    # The more targets, the less evidence from one of them alone.
    monkeypatch.setattr(_law, "lack_of_fit_p_value", lambda *_: 0.6 * CHANCE)
    assert _law.residual_is_explained(windows, simple) == [False, False]


@pytest.mark.slow
def test_other_families_and_windows_are_fitted_as_they_are(driven):
    graph = np.ones((2, 2, 1), bool)
    _, between = central(driven)
    for given, family in ((between, QUICK), (ndde.lagged_windows(driven, dt=DT), Polynomials())):
        found = _law.fit_law(given, graph, family, key=jr.key(0))
        expected = ndde.fit_drift(given, graph, family, key=jr.key(0))
        np.testing.assert_array_equal(found.drift.coefficients, expected.drift.coefficients)


def test_a_fit_that_failed_leaves_nothing(driven):
    windows = ndde.lagged_windows(driven, dt=DT)
    windows = eqx.tree_at(lambda w: w.history, windows, np.nan * windows.history)
    model = _law.fit_law(windows, np.ones((2, 2, 1), bool), QUICK, key=jr.key(0))
    assert np.isnan(np.asarray(model.drift.coefficients)).all()
