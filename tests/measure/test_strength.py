"""Signal strengths against closed forms: linear systems, where projections are known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.linear_model import LinearRegression

import ndde_jax as ndde
from ndde_jax.fit._prices import EBIC, RESOLUTION

QUICK = ndde.fitting.StrengthConfig(steps=15, fold_steps=5, restarts=1, folds=3, resamples=100)


@pytest.fixture(scope="module")
def linear():
    """Rates exactly linear in white inputs: the cost of dropping one is that of regression."""
    rng = np.random.default_rng(0)
    n = 400
    z = rng.normal(size=(n, 1, 2))
    z = (z - z.mean(0)) / z.std(0)
    clean = np.stack([z[:, 0, 0] + 0.5 * z[:, 0, 1], -0.8 * z[:, 0, 1]], axis=1)
    rate = clean + 0.3 * rng.normal(size=(n, 2))
    rate = (rate - rate.mean(0)) / rate.std(0)
    walk = np.cumsum(rng.normal(size=(n + 1, 2)), axis=0)
    windows = ndde.lagged_windows(walk, dt=1.0)
    import equinox as eqx

    return eqx.tree_at(
        lambda w: (w.history, w.increment), windows, (jnp.asarray(z), jnp.asarray(rate))
    )


def regression_risk(windows, inputs, target):
    z, y = np.asarray(windows.history[:, 0]), np.asarray(windows.increment[:, target])
    if not inputs:
        return np.mean(y**2)
    fitted = LinearRegression().fit(z[:, inputs], y).predict(z[:, inputs])
    return np.mean((fitted - y) ** 2)


def test_values_are_those_of_regression(linear):
    graph = np.array([[True, False], [True, True]])[:, :, None]
    strengths = ndde.signal_strengths(linear, graph=graph, key=jax.random.key(0), config=QUICK)
    for source, target in itertools.product(range(2), range(2)):
        base = [i for i in range(2) if graph[i, target, 0]]
        flipped = sorted(set(base) ^ {source})
        sign = 1 if graph[source, target, 0] else -1
        expected = sign * (
            regression_risk(linear, flipped, target) - regression_risk(linear, base, target)
        )
        for estimate in (strengths.value, strengths.held_out):
            np.testing.assert_allclose(estimate[source, target, 0], expected, atol=0.02)
    assert bool(jnp.all(strengths.lower <= strengths.held_out))
    np.testing.assert_array_equal(strengths.kept()[:, :, 0], graph[:, :, 0])
    # Value > coefficient / F, in plain units.
    edge = float(strengths.value[0, 0, 0])
    assert bool(strengths.kept(2 * edge * 0.99)[0, 0, 0])
    assert not bool(strengths.kept(2 * edge * 1.01)[0, 0, 0])


@pytest.mark.parametrize("n_inputs", [3, 200])
@pytest.mark.parametrize("width", [1, 8])
def test_the_price_of_an_edge_is_where_the_information_criterion_is_indifferent(width, n_inputs):
    """n ln(risk) + parameters · (ln n + ln F) of Gaussian models with and without an input, found
    by bisection; the compared risks are corrected by generalised cross-validation.
    """
    n_parameters, risk = 10, 0.3

    def indifferent(n):
        def criterion(risk, parameters):
            return n * np.log(risk) + parameters * (np.log(n) + np.log(n_inputs))

        target = criterion(risk, n_parameters)
        with_input = brentq(lambda r: criterion(r, n_parameters + width) - target, 1e-9, 1.0)
        corrected = risk / (1 - n_parameters / n) ** 2
        return corrected, corrected - with_input / (1 - (n_parameters + width) / n) ** 2

    errors = []
    for n in (2_000, 20_000, 200_000):
        corrected, expected = indifferent(n)
        found = float(EBIC()(corrected, n, n_inputs, width)) - RESOLUTION
        errors.append(abs(found / expected - 1))
    # To first order in 1 / n, like the criterion itself: ten times the data, a tenth of the error.
    assert errors[0] < 0.2 and errors[1] < 0.3 * errors[0] and errors[2] < 0.3 * errors[1]


def test_few_windows_never_make_an_edge_free():
    assert float(EBIC()(1.0, 3, 2, 8)) >= RESOLUTION


def test_search_finds_the_best_subset_by_brute_force(linear):
    """Every subset of inputs of every target, refitted by regression."""
    n = linear.valid.shape[0]
    for start in (np.zeros((2, 2, 1), bool), np.ones((2, 2, 1), bool)):
        strategy = ndde.select.Gates(starts=start, refit=QUICK)
        found = ndde.recover(linear, strategy, key=jax.random.key(1)).graph
        for target in range(2):
            subsets = [s for r in range(3) for s in itertools.combinations(range(2), r)]
            price = float(EBIC()(regression_risk(linear, [0, 1], target), n, 2, 8))
            cost = {s: regression_risk(linear, list(s), target) + price * len(s) for s in subsets}
            best = min(cost, key=cost.get)
            assert tuple(np.flatnonzero(found[:, target, 0])) == best


@pytest.mark.slow
def test_a_source_at_all_lags_is_worth_more_than_each_of_its_collinear_lags():
    """x1 is driven by x0 at two neighbouring lags that can replace each other."""
    rng = np.random.default_rng(2)
    n, dt = 500, 0.1
    x = np.zeros((n, 2))
    x[:, 0] = np.sin(0.3 * dt * np.arange(n)) + 0.3 * np.cos(0.7 * dt * np.arange(n))
    for k in range(n - 1):
        x[k + 1, 1] = x[k, 1] + dt * (x[k, 0] - x[k, 1]) + 0.02 * rng.normal() * np.sqrt(dt)
    windows = ndde.lagged_windows(x, dt=dt, lags=(0, 1))
    strengths = ndde.signal_strengths(windows, graph="full", key=jax.random.key(0), config=QUICK)
    assert strengths.source_value[0, 1] > 3 * float(jnp.max(strengths.value[0, 1]))
    assert strengths.source_value.shape == (2, 2)


def test_fit_graph_uses_only_the_graph(linear):
    graph = np.zeros((2, 2, 1), bool)
    graph[1, 0] = True
    model = ndde.fitting.fit_graph(linear, graph, key=jax.random.key(0), config=QUICK)
    jacobian = jax.jacfwd(model)(jnp.ones((1, 2)))  # [target, lag, source]
    np.testing.assert_array_equal(jacobian[:, 0, :] != 0, [[False, True], [False, False]])
    # A target without inputs gets its mean rate.
    np.testing.assert_allclose(model(jnp.ones((1, 2)))[1], linear.scaling.rate_center[1], atol=0.01)


@pytest.mark.slow
def test_noise_alone_keeps_nothing():
    walk = np.cumsum(np.random.default_rng(3).normal(size=(400, 2)), axis=0)
    windows = ndde.lagged_windows(walk, dt=1.0)
    strengths = ndde.signal_strengths(windows, key=jax.random.key(0), config=QUICK)
    assert int(strengths.kept().sum()) == 0


def test_refused_windows_give_nan(linear):
    import equinox as eqx

    broken = eqx.tree_at(lambda w: w.increment, linear, linear.increment.at[3].set(jnp.nan))
    strengths = ndde.signal_strengths(broken, graph="full", key=jax.random.key(0), config=QUICK)
    assert bool(jnp.all(jnp.isnan(strengths.value)))
    assert not bool(jnp.any(strengths.kept()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(folds=1), "folds must be at least 2"),
        (dict(steps=0), "steps must be at least 1"),
        (dict(confidence=1.5), r"confidence must lie in \[0.5, 1\)"),
    ],
)
def test_unusable_settings(change, message):
    with pytest.raises(ValueError, match=message):
        ndde.fitting.StrengthConfig(**change)


def test_unusable_graphs(linear):
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"\[source target lag\]"):
        ndde.signal_strengths(linear, graph=np.ones((3, 3, 1), bool), key=key)
    with pytest.raises(ValueError, match="'full'"):
        ndde.signal_strengths(linear, graph="dense", key=key)
    with pytest.raises(ValueError, match="max_inputs=1 is too small"):
        ndde.signal_strengths(linear, graph="full", key=key, max_inputs=1)
    with pytest.raises(ValueError, match="windows of one system"):
        ndde.signal_strengths(ndde.stack_windows([linear, linear]), graph="full", key=key)
