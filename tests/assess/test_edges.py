"""Error rates of candidate edges: uniform without an effect, small with one."""

import jax
import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import ndde_jax as ndde
from benchmarks.world import generators
from ndde_jax.assess._assess import ErrorRates, error_rates
from ndde_jax.assess._score import group_test
from ndde_jax.metrics import auroc

LAGS = (0, 1, 2)


def own_past(dim, lags):
    graph = np.zeros((dim, dim, lags), bool)
    graph[np.arange(dim), np.arange(dim), 0] = True
    return graph


def null(records, **options):
    """p-values between independent variables, `[record lag direction]`."""
    batch = generators.independent(records, **options)
    graph = own_past(2, len(LAGS))
    found = []
    for x in batch.x:
        p = error_rates(ndde.lagged_windows(x, dt=1.0, lags=LAGS), graph).p
        found.append([p[0, 1], p[1, 0]])
    return np.swapaxes(np.array(found), 1, 2)


def regression(n=400, seed=0):
    """A rate, tested columns and given columns, of noise whose variance changes."""
    rng = np.random.default_rng(seed)
    given = rng.normal(size=(n, 3))
    columns = given[:, :2] + rng.normal(size=(n, 2))
    noise = rng.uniform(-1, 1, size=n) * (0.5 + np.minimum(np.abs(columns[:, 0]), 1))
    return given @ [1.0, -1.0, 0.5] + 0.1 * columns[:, 1] + noise, columns, given


@pytest.mark.parametrize("seed", range(3))
def test_the_score_test_is_the_robust_one_of_wooldridge(seed):
    """The regression-based statistic (1991): n minus the residual squares of ones on products."""
    rate, columns, given = regression(seed=seed)
    given_all = sm.add_constant(given)
    left = sm.OLS(rate, given_all).fit().resid
    own = np.column_stack([sm.OLS(column, given_all).fit().resid for column in columns.T])
    n = len(rate)
    share = 1 - sm.OLS(np.ones(n), own * left[:, None]).fit().ssr / n
    rest = n - 4 - 2
    expected = stats.f.sf(rest / 2 * share / (1 - share), 2, rest)
    np.testing.assert_allclose(group_test(rate, columns, given).p, expected, rtol=1e-6)


def test_it_agrees_with_a_wald_test_of_hc3():
    own, other = [], []
    for seed in range(40):
        rate, columns, given = regression(n=1500, seed=seed)
        full = sm.OLS(rate, sm.add_constant(np.hstack([given, columns]))).fit(cov_type="HC3")
        other.append(float(full.wald_test(np.eye(6)[4:], use_f=True, scalar=True).pvalue))
        own.append(float(group_test(rate, columns, given).p))
    assert stats.spearmanr(own, other).statistic > 0.98


EASY, HARD = (
    pytest.param(*kind, marks=pytest.mark.slow) for kind in (("gaussian", 0.0), ("volatile", 0.5))
)


@pytest.mark.parametrize("noise, memory", [HARD, ("student", 0.9), EASY])
def test_p_values_are_uniform_where_there_is_nothing(noise, memory):
    p = null(100, n=400, memory=memory, noise=noise, seed=5)
    assert stats.kstest(p[:, 1].ravel(), "uniform").pvalue > 0.01
    assert (p < 0.01).mean() < 0.025


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("noise", generators.NOISES)
def test_rates_of_a_thousand_pairs(noise, memory):
    p = null(1000, memory=memory, noise=noise, seed=17)
    # Directions and lags of a pair are nearly independent, but not quite: one of each.
    assert stats.kstest(p[:, 1, 0], "uniform").pvalue > 1e-3
    for level in (0.05, 0.01, 0.001):
        assert (p < level).mean() < 1.4 * level + 1e-3


@pytest.mark.slow
def test_shared_volatility_is_no_link():
    """Two unlinked series share a variance: an F-test rejects too often."""
    batch = generators.independent(60, n=1000, noise="volatile", seed=3)
    own, classical = [], []
    for x in batch.x:
        windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS)
        own.append(np.nanmin(error_rates(windows, own_past(2, 3)).q))
        rate, past = np.diff(x[2:, 1]), np.column_stack([x[2:-1, 1], x[2:-1, 0] ** 2, x[2:-1, 0]])
        fit = sm.OLS(rate, sm.add_constant(past)).fit()
        classical.append(float(fit.f_test(np.eye(4)[2:]).pvalue))
    assert np.mean(np.array(own) < 0.05) < 0.12
    assert np.mean(np.array(classical) < 0.05) > 0.15


def test_links_are_seen_and_bends_as_well():
    rng = np.random.default_rng(0)
    x = np.zeros((800, 3))
    for k in range(1, 799):
        x[k + 1] = 0.5 * x[k] + rng.normal(size=3)
        x[k + 1, 1] += 0.3 * x[k - 1, 0] ** 2
        x[k + 1, 2] += 0.3 * x[k, 1]
    graph = own_past(3, 3)
    graph[0, 1, 1] = graph[1, 2, 0] = True
    rates = error_rates(ndde.lagged_windows(x, dt=1.0, lags=LAGS), graph)
    assert rates.p[0, 1, 1] < 1e-8 and rates.p[1, 2, 0] < 1e-8
    between = ~np.eye(3, dtype=bool)[:, :, None] & ~graph
    assert (rates.p[between] < 0.01).sum() <= 1
    tested = np.isfinite(rates.q)
    others = np.broadcast_to(~np.eye(3, dtype=bool)[..., None], (3, 3, 3))
    np.testing.assert_array_equal(tested, others)
    expected = stats.false_discovery_control(rates.p[tested])
    np.testing.assert_array_equal(rates.q[tested], expected)


def test_links_that_multiply_the_own_state_are_seen():
    """A source that decides how much of its target's state stays moves it neither up nor down."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    for k in range(1, 500):
        x[k, 1] += (0.3 + 0.4 * np.tanh(x[k - 1, 0])) * x[k - 1, 1]
    graph = own_past(2, len(LAGS))
    for kept in (False, True):
        graph[0, 1, 0] = kept
        p = error_rates(ndde.lagged_windows(x, dt=1.0, lags=LAGS), graph).p
        assert p[0, 1, 0] < 1e-4 and p[1, 0].min() > 0.01 and p[0, 1, 1:].min() > 0.01


def test_what_is_excluded_has_none():
    x = generators.independent(1, n=300, dim=2).x[0]
    prior = ndde.prior_knowledge(("a", "b"), lags=LAGS, forbidden=[("a", "b")])
    windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS, prior=prior)
    rates = error_rates(windows, own_past(2, 3))
    assert np.isnan(rates.p[0, 1]).all() and np.isfinite(rates.p[1, 0]).all()
    short = ndde.lagged_windows(x[:30], dt=1.0, lags=LAGS)
    assert np.isnan(error_rates(short, own_past(2, 3)).p).all()


def test_gaps_cost_only_the_rows_that_touch_them():
    x = generators.clean_map(1, n=900, seed=2)
    graph = x.links[0][:, :, :3]
    values = x.x[0].copy()
    whole = error_rates(ndde.lagged_windows(values, dt=1.0, lags=LAGS), graph).p
    values[400:420] = np.nan
    parts = error_rates(ndde.lagged_windows(values, dt=1.0, lags=LAGS), graph).p
    assert stats.spearmanr(whole.ravel(), parts.ravel()).statistic > 0.8


def test_they_rank_links():
    batch = generators.clean_map(10, n=800, strength=(0.25, 0.4), seed=4)
    p, truth = [], []
    between = np.broadcast_to(~np.eye(4, dtype=bool)[:, :, None], (4, 4, 6))
    for x, links in zip(batch.x, batch.links, strict=True):
        windows = ndde.lagged_windows(x, dt=1.0, lags=tuple(range(6)))
        p.append(error_rates(windows, links).p[between])
        truth.append(links[between])
    assert auroc(-np.log(np.concatenate(p) + 1e-300), np.concatenate(truth)) > 0.97


@pytest.mark.parametrize("direct", [False, True])
def test_links_that_stand_for_what_drives_their_source_are_unconfirmed(direct):
    """u drives s, and s or u itself drives t: s -> t is kept in both cases and true in only one."""
    rng, x = np.random.default_rng(0), np.zeros((600, 3))
    for k in range(2, 599):
        x[k + 1] = 0.3 * x[k] + rng.normal(size=3)
        x[k + 1, 1] += x[k, 0]
        x[k + 1, 2] += 0.6 * (x[k - 1, 1] if direct else x[k - 2, 0])
    graph = np.zeros((3, 3, 3), bool)
    graph[np.arange(3), np.arange(3), 0] = graph[0, 1, 0] = graph[1, 2, 1] = True
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1, 2))
    found = ndde.assess.relations(windows, graph).unconfirmed
    assert np.argwhere(found).tolist() == ([] if direct else [[1, 2, 1]])


def test_links_that_are_felt_in_products_alone_are_not_called_unconfirmed():
    """t follows the product of two signs: neither alone explains any of it, innovation or not."""
    rng = np.random.default_rng(1)
    x = np.sign(rng.normal(size=(600, 3)))
    x[1:, 2] = x[:-1, 0] * x[:-1, 1] + 0.3 * rng.normal(size=599)
    graph = np.zeros((3, 3, 2), bool)
    graph[np.arange(3), np.arange(3), 0] = graph[0, 2, 0] = graph[1, 2, 0] = True
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1))
    assert not ndde.assess.relations(windows, graph).unconfirmed.any()


def test_sources_count_less_by_what_chance_explains():
    p = np.full((3, 3, 2), 0.5)
    p[0, 1] = 0.025, np.nan  # one lag was tested
    p[1, 0] = 0.0125, 0.9
    p[0, 2] = np.nan  # nothing is known
    graph = np.zeros((3, 3, 2), bool)
    graph[2, 0, 1] = graph[0, 0, 0] = True
    ranking = np.array([[0.6, 0.3, 0.2], [0.4, 0.5, -0.1], [0.1, 0.2, 0.7]])
    expected = ranking.copy()  # edges, own pasts and values below zero stay
    both = stats.combine_pvalues(p[1, 0], method="fisher").pvalue
    expected[1, 0] = 0.4 / 2 / (1 + np.sqrt(both * 0.09) / 0.05)
    expected[0, 1] = 0.3 / 2 / 1.5 / 4  # nothing else has an edge into this one
    expected[2, 1] = 0.2 / 2 / (1 + stats.combine_pvalues([0.5, 0.5]).pvalue / 0.05) / 4
    expected[0, 2] = 0.2 / 2 / 21 / 4
    linear = np.full((3, 3), np.nan)
    linear[1, 0] = 0.09
    np.testing.assert_allclose(ErrorRates(p, linear).weighed(ranking, graph), expected)


def test_the_linear_p_values_are_those_of_an_f_test():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 3))
    x[2:, 1] += 0.2 * x[:-2, 0]
    windows = ndde.lagged_windows(x, dt=1.0, lags=LAGS)
    found = error_rates(windows, own_past(3, len(LAGS))).linear
    rows = np.arange(2, 199)
    past = np.concatenate([x[rows - lag] for lag in LAGS], axis=1)
    for j in range(3):
        fitted = sm.OLS(x[rows + 1, j] - x[rows, j], sm.add_constant(past)).fit()
        for i in range(3):
            lags = np.eye(10)[1 + i :: 3]
            assert found[i, j] == pytest.approx(float(fitted.f_test(lags).pvalue), rel=1e-3)
    assert np.isnan(
        error_rates(ndde.lagged_windows(x[:20], dt=1.0, lags=LAGS), own_past(3, 3)).linear
    ).all()


@pytest.mark.slow
def test_what_nothing_drives_ranks_so():
    """An actuator that decays slowly and an arm that rings: its past explains most of its rate."""
    rng, x = np.random.default_rng(1), np.zeros((600, 2))
    for k in range(2, 600):
        x[k, 0] = 0.8 * x[k - 1, 0] + 0.2 * rng.normal()
        ringing = 1.7 * x[k - 1, 1] - 0.96 * x[k - 2, 1]
        x[k, 1] = ringing + 0.1 * x[k - 1, 0] + 0.2 * x[k - 2, 0]
    x[:, 1] += 0.02 * x[:, 1].std() * rng.normal(size=600)
    recipe = ndde.Recipe.fast()
    found = ndde.discover(x, dt=1.0, lags=(0, 1, 2), recipe=recipe, key=jax.random.key(0))
    assert found.graph[0, 1].any() and not found.graph[1, 0].any()
    assert found.source_scores[0, 1] > 10 * found.source_scores[1, 0]
    assert found.ranking[0, 1] < found.ranking[1, 0]  # shares alone do not decide
