"""Records of innovations: inputs that only correct others for a common factor, and times of larger
noise.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.fit._newton import NetworkFit
from ndde_jax.regression import Readings
from ndde_jax.regression._design import design_of
from ndde_jax.select._default import _better, excess
from ndde_jax.select._judge import Judged
from ndde_jax.select._returns import variance_weighted
from ndde_jax.select._screened import Screened
from ndde_jax.select._target_fit import TargetFit
from ndde_jax.windows._windows import KnownData


def market(seed, variables=10, n=700, links=5, by_news=True):
    """Return white noise with one common factor, in which the innovation of one variable alone (or
    its value) moves another one sample later, and the pairs.
    """
    rng = np.random.default_rng(seed)
    news = rng.normal(size=(n, variables))
    x = rng.normal(size=(n, 1)) * rng.uniform(1, 2, size=variables)[None] + news
    order = rng.permutation(variables)
    truth = np.zeros((variables, variables), bool)
    truth[order[:links], order[links : 2 * links]] = True
    moving = news if by_news else x
    x[1:, order[links : 2 * links]] += 0.6 * moving[:-1, order[:links]]
    return x, truth


def found_in(x):
    found = ndde.discover(x, dt=1.0, lags=(0, 1, 2), key=jax.random.key(0))
    return found, found.graph.any(axis=2) & ~np.eye(x.shape[1], dtype=bool)


def test_the_past_of_a_market_is_no_source():
    x, truth = market(2)
    found, pairs = found_in(x)
    np.testing.assert_array_equal(pairs, truth)
    assert any("common to all variables" in said for said in found.choices)
    # At the same price without factors, inputs that correct a source for the market pay for
    # themselves, in an ordinary regression as well.
    j = int(np.flatnonzero(truth.any(axis=0))[0])
    i = int(np.flatnonzero(truth[:, j])[0])
    past = x[:-1] - x[:-1].mean(axis=0)
    y = x[1:, j] - x[1:, j].mean()
    alone, all_ = (
        np.sum((y - a @ np.linalg.lstsq(a, y, rcond=None)[0]) ** 2) for a in (past[:, [i, j]], past)
    )
    assert len(y) * np.log(alone / all_) > past.shape[1] * np.log(len(y))


def test_error_rates_and_ranking_of_a_market_are_those_of_news():
    x, truth = market(2)
    found, _ = found_in(x)
    apart = ~np.eye(10, dtype=bool) & ~truth
    # A multiple of a sample of the market explains any target that news of another share move.
    driven = np.broadcast_to(truth.any(axis=0), truth.shape) & apart
    p = found.p_values[driven][:, 0]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert np.nanmax(found.q_values[truth][:, 0]) < 0.01
    assert found.source_scores[truth].min() > found.source_scores[apart].max()


@pytest.mark.slow
def test_what_is_worth_its_price_beside_a_market_stays():
    x, truth = market(1, by_news=False)
    _, pairs = found_in(x)
    assert (pairs & truth).sum() == truth.sum() and (pairs & ~truth).sum() <= 1


def test_common_factors_take_nothing_from_levels_that_last():
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(800, 1)) * rng.uniform(1, 2, size=6)[None] + rng.normal(size=(800, 6))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t] = 0.7 * x[t - 1] + 0.4 * np.tanh(x[t - 1, [1, 2, 3, 4, 5, 0]]) + 0.3 * noise[t]
    found, pairs = found_in(x)
    np.testing.assert_array_equal(np.argwhere(pairs)[:, 0], (np.argwhere(pairs)[:, 1] + 1) % 6)
    assert pairs.sum() == 6 and not any("market" in said for said in found.choices)


def volatile(seed, variables=8, n=1200):
    """Return independent noise, whose varying variance is the same for all, and that variance."""
    rng = np.random.default_rng(seed)
    size = np.zeros(n)
    for t in range(1, n):
        size[t] = 0.97 * size[t - 1] + 0.3 * rng.normal()
    return np.exp(size / 2)[:, None] * rng.normal(size=(n, variables)), np.exp(size)


@pytest.mark.slow
def test_a_volatile_time_makes_no_links():
    found, pairs = found_in(volatile(0)[0])
    assert not pairs.any() and any("volatile times" in said for said in found.choices)
    found, _ = found_in(np.random.default_rng(2).normal(size=(500, 4)))
    assert not any("volatile times" in said for said in found.choices)


@pytest.mark.slow
def test_links_are_found_in_volatile_times():
    truth = np.zeros((6, 6), bool)
    truth[[1, 2, 0, 4, 5, 3], range(6)] = True
    x, _ = volatile(4, variables=6, n=1200)
    x[1:] += 0.25 * x[:-1] @ truth
    found, pairs = found_in(x)
    assert (pairs & truth).sum() == 6 and (pairs & ~truth).sum() <= 1
    assert any("volatile times" in said for said in found.choices)


def test_windows_count_by_how_calm_their_time_is():
    x, variance = volatile(3)
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1), scheme="euler")
    readings = Readings(np.zeros(8), *np.zeros((2, 8, 8, 2), bool), np.zeros(8))
    weight = variance_weighted(Screened(windows, readings=readings)).inverse_variance
    place = np.asarray(windows.position).astype(int) + 1
    assert np.corrcoef(np.log(weight), -np.log(variance[place]))[0, 1] > 0.85
    assert weight.sum() == pytest.approx(len(weight))
    # Lasting values get equal weights, however their variance changes, and so does the part that
    # inputs explain.
    lasting = ndde.lagged_windows(np.cumsum(x, axis=0), dt=1.0, lags=(0, 1), scheme="euler")
    assert variance_weighted(Screened(lasting, readings=readings)).inverse_variance is None
    driven = np.stack([np.roll(x[:, 0], k) for k in range(8)], axis=1)
    driven = ndde.lagged_windows(driven, dt=1.0, lags=(0, 1), scheme="euler")
    assert variance_weighted(Screened(driven, readings=readings)).inverse_variance is None


def test_a_network_is_compared_in_the_units_of_weighted_windows():
    """One that predicts what the regression does is neither better nor worse."""
    x, _ = volatile(3)
    x[1:] += 0.4 * x[:-1, ::-1]
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1), scheme="euler")
    readings = Readings(np.zeros(8), *np.zeros((2, 8, 8, 2), bool), np.zeros(8))
    screened = variance_weighted(Screened(windows, readings=readings))
    mask = np.zeros(16, bool)
    mask[[0, 7]] = True
    own, weight = screened.fit(0, mask), screened.data.weight
    assert own.linear and screened.inverse_variance is not None
    columns = np.column_stack([np.ones(len(weight)), screened.data.inputs[:, mask]])
    y, root = screened.data.outputs[:, 0], np.sqrt(weight)
    slopes = np.linalg.lstsq(root[:, None] * columns, root * y, rcond=None)[0]
    risk = weight @ (y - columns @ slopes) ** 2 / weight.sum()
    assert abs(np.log(risk / float(own.part.risk))) > 0.02  # in other units
    assert excess(own, _network(risk, float(own.part.charged)), 2) == pytest.approx(0, abs=1e-3)


def test_a_network_that_gains_in_a_few_windows_replaces_no_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(641, 2))
    data = KnownData(ndde.lagged_windows(x, dt=1.0, lags=(0,), scheme="euler"))
    mask = np.array([True, False])
    own = TargetFit(design_of(data.inputs, data.weight), data, 0, mask)
    columns = np.column_stack([np.ones(640), data.inputs[:, 0]])
    slopes = np.linalg.lstsq(columns, data.outputs[:, 0], rcond=None)[0]
    by_stretch = np.mean(((data.outputs[:, 0] - columns @ slopes) ** 2).reshape(32, 20), axis=1)
    gain = 0.1 * by_stretch.mean() * rng.uniform(0.5, 1.5, size=32)
    once = np.where(np.arange(32) == 5, gain.sum(), 0.0)
    judged = [
        Judged(mask, np.zeros(2), np.zeros(2), np.zeros((2, 32)), by_stretch - by, 0.9, 0.1, *fit)
        for fit in [(_network(0.9, 5.0), np.arange(2))]
        for by in (gain, once, -gain)
    ]
    assert [_better(own, row) for row in judged] == [True, False, False]


def _network(risk, n_effective):
    one = jnp.zeros((1, 2)), jnp.zeros(1)
    return NetworkFit((one,), *map(jnp.asarray, (risk, n_effective, np.zeros(0))))


def test_a_share_that_moves_several_others_is_no_common_factor():
    """Its past was taken for a second factor, beyond which it explains nothing."""
    rng = np.random.default_rng(0)
    news = rng.normal(size=(700, 10)) * np.where(np.arange(10) == 0, 1.5, 1)
    x = rng.normal(size=(700, 1)) * rng.uniform(1, 2, size=10) + news
    x[1:, 1:4] += 0.3 * news[:-1, :1]
    truth = np.zeros((10, 10), bool)
    truth[0, 1:4] = True
    found, pairs = found_in(x)
    np.testing.assert_array_equal(pairs, truth)
    assert any("common to all variables" in said for said in found.choices)


def test_news_from_one_sample_to_the_next_are_no_flow_for_a_few_nats():
    """A flow's many inputs, each at a small gain, made it 3.4 nats likelier for ten variables."""
    x, truth = market(31)
    found, pairs = found_in(x)
    assert found.reading == "undecided" and found.evidence > 3
    np.testing.assert_array_equal(pairs, truth)
