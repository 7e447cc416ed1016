"""Which variable precedes, and travel times, against brute-force regressions and known waves."""

import tracemalloc

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.measure._precedence import ORDERS


def flood(*, n=1500, seed=0, dim=4):
    """Rain falls on the first catchment; every other gauge has the water of the previous one, three
    samples later and spread out, at another scale, and a little rain of its own.
    """
    rng = np.random.default_rng(seed)
    decay = 0.85 ** np.arange(60)
    rain = rng.gamma(0.02, size=(n, dim)) ** 1.5
    x = [np.convolve(rain[:, 0], decay)[:n]]
    for k in range(1, dim):
        routed = np.convolve(np.roll(x[-1], 3), 0.6 ** np.arange(30))[:n] * 0.4
        x.append(routed + 0.2 * np.convolve(rain[:, k], decay)[:n])
    return np.stack(x, axis=1) * 10.0 ** np.arange(dim)


def feedback(*, n=1500, seed=0):
    """Two variables that drive each other equally, one with nine times the noise, other units."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 3))
    step = np.array([[0.6, 0.3, 0.0], [0.3, 0.6, 0.0], [0.0, 0.4, 0.5]])
    for t in range(1, n):
        x[t] = step @ x[t - 1] + rng.normal(size=3)
    return x, np.abs(step.T)


def brute_force(x):
    """Partial R² by one regression after another."""
    n, dim = x.shape
    depth, rate = max(ORDERS), np.diff(x, axis=0)[max(ORDERS) - 1 :]
    share = np.zeros((dim, dim))

    def error(target, sources, order):
        past = [x[depth - 1 - k : n - 1 - k, v] for v in sources for k in range(order)]
        design, y = np.column_stack([np.ones(len(rate)), *past]), rate[:, target]
        return np.sum((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2)

    for order in ORDERS:
        for source, target in zip(*np.nonzero(~np.eye(dim, dtype=bool)), strict=True):
            alone, both = error(target, [target], order), error(target, [target, source], order)
            share[source, target] += (1 - both / alone) / len(ORDERS)
    lead = share - share.T
    return np.sign(lead) * np.sqrt(np.abs(lead) * share)


def test_precedence_is_what_regressions_say():
    x, _ = feedback(n=400)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(ndde.measure.precedence(x)[off], brute_force(x)[off], atol=1e-8)


def test_own_past_explains_what_a_closed_form_says():
    # x[t] = a x[t-1] + e: the increment has variance 2/(1+a) and the innovation 1.
    rng, a = np.random.default_rng(0), 0.2
    x = np.zeros((40000, 2))
    for t in range(1, len(x)):
        x[t] = a * x[t - 1] + rng.normal(size=2)
    np.testing.assert_allclose(np.diag(ndde.measure.precedence(x)), 1 - (1 + a) / 2, atol=0.02)


def test_a_variable_alone_has_a_past_too():
    x, _ = feedback(n=400)
    together = np.diag(ndde.measure.precedence(x))
    np.testing.assert_allclose(ndde.measure.precedence(x[:, :1])[0, 0], together[0], atol=1e-9)


def test_many_variables_fit_into_memory():
    """All pairs at once used to need gigabytes for a hundred variables."""
    x = np.random.default_rng(0).normal(size=(300, 50))
    tracemalloc.start()
    ndde.measure.precedence(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * x.nbytes * max(ORDERS)


def test_water_upstream_comes_first():
    value = ndde.measure.precedence(flood())
    upstream = np.triu_indices(4, 1)
    assert (value[upstream] > 0).all()
    assert (value.T[upstream] < 0).all()


@pytest.mark.parametrize("scale", [(1, 1, 1, 1), (1e-6, 30, 1e9, 0.2)])
def test_no_unit_matters(scale):
    x, strengths = flood(), 0.05 * np.ones((4, 4))
    before = ndde.measure.rank_sources(x, strengths)
    after = ndde.measure.rank_sources(x * np.array(scale) + np.array(scale), strengths)
    np.testing.assert_allclose(after.value, before.value, atol=1e-6)
    assert after.trust == pytest.approx(before.trust, abs=1e-6)


def test_one_flood_is_ranked_by_precedence_and_a_feedback_loop_by_strengths():
    ranking = ndde.measure.rank_sources(flood(), np.full((4, 4), 0.01))
    assert ranking.trust > 0.9
    assert "precedence ranks the sources" in ranking.reason
    x, strengths = feedback()
    ranking = ndde.measure.rank_sources(x, strengths)
    assert ranking.trust == 0
    assert "strengths rank" in ranking.reason
    np.testing.assert_array_equal(ranking.value, strengths)


def test_strong_strengths_are_believed_even_in_a_flood():
    strengths = np.eye(4) + 0.5 * np.eye(4, k=1) + 0.4 * np.eye(4, k=-1)
    ranking = ndde.measure.rank_sources(flood(), strengths)
    assert ranking.trust == 0
    assert ndde.measure.rank_sources(flood(), strengths * 0.1).trust > 0.9


def test_missing_values_constants_and_trajectories():
    x = flood()
    gaps = x.copy()
    gaps[200:230, 1] = np.nan
    whole, holed = ndde.measure.precedence(x), ndde.measure.precedence(gaps)
    assert np.abs(whole - holed).max() < 0.1
    gaps[:, 2] = np.where(np.arange(len(x)) % 2, np.nan, gaps[:, 2])
    assert np.isfinite(ndde.measure.precedence(gaps)).all()
    two = ndde.read_samples([x[:700], x[700:]], dt=1.0)
    assert np.abs(ndde.measure.precedence(two) - whole).max() < 0.1
    still = np.column_stack([x, np.ones(len(x))])
    assert np.isfinite(ndde.measure.precedence(still)).all()
    np.testing.assert_array_equal(ndde.measure.precedence(still)[4], 0)
    copied = ndde.measure.precedence(np.column_stack([x, x[:, 0]]))
    assert abs(copied[0, 4]) < 1e-6 and np.isfinite(copied).all()


def test_what_cannot_be_ranked_by_precedence_says_why():
    x = flood()
    for samples, why in [
        (ndde.read_samples(x[:, :1], dt=1.0), "one variable"),
        (ndde.read_samples(x[:40], dt=1.0), "fewer than"),
        (ndde.read_samples(x[:200], t=np.cumsum(1 + np.arange(200) % 3)), "not equally spaced"),
    ]:
        strengths = np.eye(samples.dim)
        ranking = ndde.measure.rank_sources(samples, strengths)
        assert ranking.trust == 0 and why in ranking.reason
        np.testing.assert_array_equal(ranking.value, strengths)
    with pytest.raises(ValueError, match=r"strengths must be .*\(4, 4\)"):
        ndde.measure.rank_sources(x, np.eye(3))


def test_a_wave_takes_the_time_it_takes():
    x = flood(n=3000)
    samples = ndde.read_samples(x, dt=0.25, names=list("abcd"), time_unit="h")
    found = ndde.measure.travel_time(samples, "a", "b", largest=20, key=jax.random.key(0))
    # Three samples, plus the mean delay of the reservoir: 0.6 / 0.4 samples.
    assert found.lower <= (3 + 1.5) * 0.25 <= found.upper
    assert abs(found.delay - 4.5 * 0.25) < 0.3
    assert found.upper - found.lower < 2.5
    assert found.likeness > 0.8 and not found.at_end
    scaled = ndde.measure.travel_time(
        x * [-3, -3, 1, 1] + 7, 0, 1, largest=20, key=jax.random.key(0)
    )
    assert scaled.delay * 0.25 == pytest.approx(found.delay, abs=1e-6)
    assert ndde.measure.travel_time(samples, 0, 3, largest=4, key=jax.random.key(0)).at_end


def test_travel_time_between_samples():
    t = np.arange(2000)
    x = np.stack([np.exp(-(((t - c - 400) % 500 - 250) ** 2) / 300) for c in (0, 5.4)], axis=1)
    found = ndde.measure.travel_time(x, 0, 1, largest=20, key=jax.random.key(1))
    assert found.delay == pytest.approx(5.4, abs=0.05)
    assert found.lower < 5.4 < found.upper


def test_travel_time_refuses_what_it_cannot_measure():
    x, key = flood(n=200), jax.random.key(0)
    with pytest.raises(ValueError, match="largest must leave four blocks"):
        ndde.measure.travel_time(x, 0, 1, largest=50, key=key)
    with pytest.raises(ValueError, match="source must be one of"):
        ndde.measure.travel_time(x, "nobody", 1, largest=5, key=key)
    uneven = ndde.read_samples(x, t=np.cumsum(1 + np.arange(200) % 3))
    with pytest.raises(ValueError, match="equally spaced"):
        ndde.measure.travel_time(uneven, 0, 1, largest=5, key=key)
