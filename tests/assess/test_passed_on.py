"""Links that another variable passes on within a sampling interval."""

import jax
import numpy as np
import pytest
from scipy.linalg import expm, solve_continuous_lyapunov

import ndde_jax as ndde
from benchmarks.verdict import kinds
from ndde_jax.assess._passed_on import passed_on_p_values

NAMES = ("a", "b", "c")


def chain(seed=0, n=800, at_once=0.6):
    """a drives b after two samples, and b drives c at once."""
    rng = np.random.default_rng(seed)
    noise, x = rng.normal(size=(n + 50, 3)), np.zeros((n + 50, 3))
    for t in range(2, n + 50):
        a = 0.5 * x[t - 1, 0] + noise[t, 0]
        b = 0.4 * x[t - 1, 1] + 0.5 * x[t - 2, 0] + noise[t, 1]
        x[t] = a, b, 0.5 * x[t - 1, 2] + at_once * b + noise[t, 2]
    return x[50:]


def graph(*edges, dim=3, n_lags=3):
    """Every variable driven by itself, plus some edges."""
    kept = np.zeros((dim, dim, n_lags), bool)
    kept[np.arange(dim), np.arange(dim), 0] = True
    for edge in edges:
        kept[edge] = True
    return kept


# The predictors of each variable of the chain; those of c include the drivers of b.
FORETELL = (0, 1, 1), (0, 2, 1), (1, 2, 0)


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_through_another_is_told_from_what_does_not(seed):
    windows = ndde.lagged_windows(chain(seed), dt=1.0, lags=(0, 1, 2))
    found = passed_on_p_values(windows, graph(*FORETELL))
    expected = graph(*FORETELL) & ~graph(FORETELL[0])
    np.testing.assert_array_equal(np.isfinite(found), expected)


def test_nothing_is_passed_on_where_nothing_is_at_once():
    windows = ndde.lagged_windows(chain(at_once=0.0), dt=1.0, lags=(0, 1, 2))
    assert np.isnan(passed_on_p_values(windows, graph(*FORETELL))).all()


def test_a_link_of_its_own_stays_beside_what_is_related_at_once():
    x = chain()
    x[2:, 2] += 0.4 * x[:-2, 0]
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1, 2))
    assert np.isnan(passed_on_p_values(windows, graph(*FORETELL))[0, 2, 1])


def test_one_link_stays_of_two_sensors_of_one_quantity():
    """Given either of them the source has no further information about the other."""
    rng = np.random.default_rng(3)
    source, level = rng.normal(size=300), np.zeros(300)
    for t in range(1, 300):
        level[t] = 0.6 * level[t - 1] + 0.5 * source[t - 1] + 0.4 * rng.normal()
    sensors = level[:, None] + 0.1 * rng.normal(size=(300, 2))
    windows = ndde.lagged_windows(np.column_stack([source, sensors]), dt=1.0, lags=(0, 1, 2))
    found = passed_on_p_values(windows, graph((0, 1, 0), (0, 2, 0)))
    assert np.isfinite(found[0, 1:, 0]).sum() == 1


def test_a_link_that_multiplies_another_stays():
    """Alone it does not show in the test, with or without the contemporaneous variables."""
    x, others = chain(), np.random.default_rng(1).normal(size=(800, 2))
    x[2:, 2] += 0.5 * others[:-2].prod(axis=1)
    windows = ndde.lagged_windows(np.hstack([x, others]), dt=1.0, lags=(0, 1, 2))
    kept = graph((0, 1, 1), (3, 1, 1), (4, 1, 1), (3, 2, 1), (4, 2, 1), dim=5)
    assert np.isnan(passed_on_p_values(windows, kept)[3:, 2, 1]).all()


def test_required_edges_stay():
    prior = ndde.prior_knowledge(NAMES, lags=(0, 1, 2), required=[("a", "c", 1)])
    windows = ndde.lagged_windows(chain(), dt=1.0, lags=(0, 1, 2), prior=prior)
    assert not np.isfinite(passed_on_p_values(windows, graph(*FORETELL)))[0, 2].any()


def test_a_regression_with_the_other_variable_in_it_agrees():
    import statsmodels.api as sm

    x = chain()
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1, 2))
    found = passed_on_p_values(windows, graph(*FORETELL))[0, 2, 1]
    y, t = x[3:, 2], np.arange(2, len(x) - 1)
    given = np.column_stack([x[t, 2], x[t, 1], x[t + 1, 1]])
    fitted = sm.OLS(y, sm.add_constant(np.column_stack([x[t - 1, 0], given]))).fit(cov_type="HC0")
    # Lines alone there, curves too here: both are far from any threshold.
    assert fitted.pvalues[1] > 0.05 and found > 0.05
    without = sm.OLS(y, sm.add_constant(np.column_stack([x[t - 1, 0], given[:, :2]]))).fit()
    assert without.pvalues[1] < 1e-6


def heat(n=1500, dim=4):
    """A rod whose points warm their neighbours and have noises of their own, sampled so rarely that
    these noises are related; exact, by the matrix exponential.
    """
    drift = -0.2 * np.eye(dim)
    for i in range(dim - 1):
        drift[[i, i + 1], [i + 1, i]] += 0.6
        drift[[i, i + 1], [i, i + 1]] -= 0.6
    step, still = expm(0.5 * drift), solve_continuous_lyapunov(drift, -np.eye(dim))
    root = np.linalg.cholesky(still - step @ still @ step.T)
    rng, x = np.random.default_rng(2), np.zeros((n + 50, dim))
    for t in range(n + 49):
        x[t + 1] = step @ x[t] + root @ rng.normal(size=dim)
    return x[50:]


def test_links_in_both_directions_are_not_both_passed_on():
    x = heat()
    near = [(i, j, 0) for i in range(4) for j in range(4) if abs(i - j) == 1]
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1), scheme="euler")
    found = passed_on_p_values(windows, graph(*near, dim=4, n_lags=2))
    assert np.isnan(found[tuple(np.transpose(near))]).all()
    # Every neighbour adds information by ordinary least squares, too.
    import statsmodels.api as sm

    past = sm.add_constant(x[:-1])
    assert all(sm.OLS(x[1:, j], past).fit().pvalues[i + 1] < 1e-6 for i, j, _ in near)


@pytest.mark.slow
def test_a_graph_that_is_empty_for_what_is_passed_on_is_not_supported():
    rng, x = np.random.default_rng(0), np.zeros((1000, 2))
    for t in range(1, 1000):
        x[t, 0] = 0.8 * x[t - 1, 0] + rng.normal()
        x[t, 1] = 0.3 * x[t - 1, 1] + 0.7 * x[t, 0] + rng.normal()
    found = ndde.discover(x, dt=1.0, lags=(0, 1), key=jax.random.key(0))
    assert found.passed_on.any() and not found.graph[0, 1].any()
    assert found.verdict == "with reservations"
    assert [one.name for one in found.verdict.reasons] == ["links at once"]


def test_too_short_a_record_tells_nothing():
    windows = ndde.lagged_windows(chain()[:30], dt=1.0, lags=(0, 1, 2))
    assert np.isnan(passed_on_p_values(windows, graph(*FORETELL))).all()
    later = ndde.lagged_windows(chain(), dt=1.0, lags=(1, 2))
    assert np.isnan(passed_on_p_values(later, graph((0, 1, 1), n_lags=2))).all()


def test_a_discovery_has_links_of_their_own_and_a_drift_that_reads_all():
    found = ndde.discover(chain(), dt=1.0, lags=(0, 1, 2), key=jax.random.key(0))
    np.testing.assert_array_equal(found.graph, graph((0, 1, 1)))
    np.testing.assert_array_equal(found.reads, graph(*FORETELL))
    assert found.at_once[1, 2] and not found.confounded.any()
    assert (found.scores[~found.graph] <= 0).all() and found.p_values[0, 2, 1] > 0.01
    assert found.reasons[0, 2, 1].startswith("passed on within a sampling interval")
    assert any("x0 → x2" in choice for choice in found.choices)
    assert found.verdict == "with reservations"
    assert "x0 → x1 after 2 samples" in found.report()
    # The drift is that of all predictors: c rises after a has, through b.
    assert float(found.model(np.repeat([[3.0, 0, 0]], 3, axis=0))[2]) > 0.3


@pytest.mark.slow
def test_what_is_passed_on_is_said_of_interventions_and_nothing_new_in_halves():
    found = ndde.discover(chain(n=1200), dt=1.0, lags=(0, 1, 2), key=jax.random.key(0))
    told = {one.name for one in found.identifiability(key=jax.random.key(1)).findings}
    assert "links at once" in told and "edges of halves" not in told
    held = found.intervene({"x1": 0.0}, horizon=3, paths=20, key=jax.random.key(2))
    assert any("passes on x0 -> x2" in note for note in held.notes)


@pytest.mark.slow
def test_links_at_once_no_longer_bring_in_lagged_ones():
    """Twelve records whose variables are a chain within the sample."""
    kept = true = truth = 0
    for number in range(12):
        case = kinds.case("links at once", 30_000, number)
        found = ndde.discover(case.x, dt=1.0, lags=case.lags, key=jax.random.key(number))
        apart = case.judged[..., None]
        kept += (found.graph & apart).sum()
        true += (found.graph & case.links & apart).sum()
        truth += (case.links & apart).sum()
    assert true > 0.7 * kept and true > 0.75 * truth
