"""The closed forms in NumPy against the traced ones in JAX, and delays against those simulated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._memory import padded_length
from ndde_jax.fit._flow import correct_at_midpoints, correct_at_midpoints_numpy
from ndde_jax.measure._delays import profile_delays
from ndde_jax.models._splines import host_splines
from ndde_jax.regression._design import design_of, spline_terms
from ndde_jax.select import _default, _target_fit
from ndde_jax.select._target_fit import CHANCE

LAGS, DT, DELAY = (0, 5, 10, 15), 0.1, 0.83


def delayed(n=1200, seed=0):
    """x' = −x + y(t − 0.83) z, y and z noisy relaxations, Euler–Maruyama at 0.01, every tenth."""
    rng, x = np.random.default_rng(seed), np.zeros((10 * n + 200, 3))
    kicks = 0.1 * rng.normal(size=x.shape) * [0.3, 4.0, 4.0]
    for k in range(100, len(x) - 1):
        late = x[k - round(DELAY / 0.01), 1]
        drift = np.array([late * x[k, 2] - x[k, 0], -x[k, 1], -x[k, 2]])
        x[k + 1] = x[k] + 0.01 * drift + kicks[k]
    return x[200::10]


@pytest.fixture(scope="module")
def x():
    return delayed()


@pytest.fixture(scope="module")
def windows(x):
    return ndde.select.midpoint_windows(x, dt=DT, lags=LAGS)


@pytest.fixture(scope="module")
def found(windows):
    return ndde.select.spline_graph(windows, shortlist=5)


@pytest.fixture(scope="module")
def traced_search():
    return eqx.filter_jit(lambda w: ndde.select.spline_graph(w, shortlist=5))


def assert_same_search(found, traced):
    np.testing.assert_array_equal(found.graph, traced.graph)
    for name in ("evidence", "source_value", "risk", "rate"):
        np.testing.assert_allclose(getattr(found, name), getattr(traced, name), atol=1e-6)


def test_known_windows_are_searched_as_traced_ones(windows, found, traced_search):
    traced = traced_search(windows)
    assert_same_search(found, traced)
    np.testing.assert_array_equal(np.sort(found.shortlist), np.sort(traced.shortlist))
    assert found.graph[2, 0, 0] and np.asarray(found.graph)[1, 0, 1:3].any()


def test_few_allowed_inputs_are_all_that_is_searched(windows, traced_search):
    """The same as in the traced search; and a target without any has none."""
    allowed = np.zeros((3, 3, len(LAGS)), bool)
    allowed[[0, 1, 2], 0, [0, 2, 0]] = allowed[1, 1, 0] = True
    prior = ndde.windows.PriorKnowledge(jnp.asarray(allowed), jnp.zeros_like(allowed))
    few = eqx.tree_at(lambda w: w.prior, windows, prior)
    found = ndde.select.spline_graph(few, shortlist=5)
    assert_same_search(found, traced_search(few))
    np.testing.assert_array_equal(found.graph, allowed)
    assert all(len(set(slots)) == 5 for slots in np.asarray(found.shortlist).tolist())
    assert set(np.flatnonzero(allowed[:, 0].T)) <= set(np.asarray(found.shortlist[0]).tolist())
    assert np.isfinite(found.evidence).all()


def test_the_drift_of_splines_is_what_the_search_fitted(windows, found):
    model = ndde.select.fit_splines(windows, found.graph)
    s = windows.scaling
    histories = windows.history * s.scale[None, None] + s.center[None, None]
    rate = (jax.vmap(model)(histories) - s.rate_center[None]) / s.rate_scale[None]
    np.testing.assert_allclose(rate, found.rate, atol=1e-8)
    np.testing.assert_allclose(
        host_splines(model)(np.asarray(histories)), jax.vmap(model)(histories)
    )
    middle, spread = model.drift.output_range()
    assert (np.abs(rate - middle[None]) <= spread[None]).all()
    assert bool(jnp.all(jnp.isfinite(ndde.confine(model, windows=windows)(histories[0]))))


def test_where_knots_coincide_rounding_is_no_term():
    """Levels of a gauge take three values at rest, and some hundred others in a flood."""
    rng = np.random.default_rng(0)
    rest, flood = rng.choice([-0.403, -0.327, -0.176], 900), rng.uniform(-0.1, 8.5, 100)
    z = np.concatenate([rest, flood])
    design = design_of(z[:, None], np.ones(1000))
    assert len(set(design.knots[0].tolist())) < len(design.knots[0])
    rebuilt = (spline_terms(z, design.knots[0]) - design.mean) @ design.matrix[0]
    np.testing.assert_allclose(rebuilt, design.features[:, 0], atol=1e-9)
    assert np.abs(design.matrix).max() < 1e5


def test_midpoints_of_a_known_drift_are_those_that_jax_computes(windows, found):
    model = ndde.select.fit_splines(windows, found.graph)
    plain = ndde.lagged_windows(delayed(200), dt=DT, lags=LAGS)
    following, bend = np.roll(plain.history, -1, axis=0), 0.01 * np.asarray(plain.history)
    known = correct_at_midpoints_numpy(plain, host_splines(model), following, bend)
    traced = correct_at_midpoints(plain, model, jnp.asarray(following), jnp.asarray(bend))
    np.testing.assert_allclose(known.history, traced.history, atol=1e-10)
    np.testing.assert_allclose(known.increment, traced.increment, atol=1e-10)


def test_what_has_no_inputs_gets_its_mean_rate(windows):
    nothing = ndde.select.fit_splines(windows, np.zeros((3, 3, 4), bool))
    np.testing.assert_allclose(
        nothing(jnp.zeros((4, 3))), np.asarray(windows.scaling.rate_center), atol=1e-12
    )


@pytest.mark.parametrize("share, asked", [(0.2, True), (0.6, False)])
def test_networks_are_asked_for_by_the_number_of_targets(windows, monkeypatch, share, asked):
    """With three inputs each has a third of the chance."""
    seen = []

    def judge(*arguments, asked, **options):
        seen.extend(asked)
        return [None] * len(asked)

    monkeypatch.setattr(_target_fit, "lack_of_fit_p_value", lambda *_: share * CHANCE)
    monkeypatch.setattr(_default, "judge", judge)
    config = ndde.fitting.StrengthConfig()
    ndde.recover(windows, ndde.select.Default(networks=config), key=jr.key(0))
    assert seen == [asked] * 3


@pytest.mark.parametrize(
    "config", [None, ndde.fitting.StrengthConfig(width=4, depth=1, restarts=1)]
)
def test_strengths_are_rises_of_the_risk(windows, found, config):
    measured = ndde.recover(windows, ndde.select.Default(networks=config), key=jr.key(0)).measured
    strengths = measured.strengths
    kept = np.asarray(strengths.kept())
    assert kept[2, 0, 0] and kept[1, 0, 1:3].any()
    value, lower = np.asarray(strengths.value), np.asarray(strengths.lower)
    assert value[kept].min() > 0 >= value[~kept].max()
    assert (lower[kept] <= value[kept]).all() and np.isnan(strengths.held_out).all()
    # Without z, which acts only through the product, the rate of x loses what both explain.
    without = np.array(kept)
    without[2, 0] = False
    model = ndde.select.fit_splines(windows, without)
    s = windows.scaling
    histories = windows.history * s.scale[None, None] + s.center[None, None]
    rate = (jax.vmap(model)(histories)[:, 0] - s.rate_center[0]) / s.rate_scale[0]
    rise = float(np.mean((windows.increment[:, 0] - rate) ** 2)) - float(strengths.risk[0])
    np.testing.assert_allclose(strengths.source_value[2, 0], rise, rtol=0.1)


def test_delays_between_candidates_lie_in_their_intervals(x, windows):
    graph = np.zeros((3, 3, 4), bool)
    graph[[0, 1, 2], [0, 1, 2], 0] = graph[2, 0, 0] = True
    graph[1, 0, 1:3] = True
    samples = ndde.read_samples(x, dt=DT)
    delays, intervals = (DT * part for part in profile_delays(samples, windows, graph))
    assert np.isnan(delays[~graph]).all() and (delays[..., 0][graph[..., 0]] == 0).all()
    np.testing.assert_array_equal(delays[1, 0, 1], delays[1, 0, 2])  # one delay for neighbours
    low, high = intervals[1, 0, 1]
    assert low <= DELAY + 0.005 and DELAY - 0.005 <= high and high - low < 0.3
    # Where splines explain a rate much worse than its model does, no delay between candidates is
    # claimed.
    found = profile_delays(samples, windows, graph, np.full(3, 1e-6))
    delays, intervals = (DT * part for part in found)
    np.testing.assert_allclose(delays[1, 0, 1:3], [0.5, 1.0])
    np.testing.assert_allclose(intervals[1, 0, 1], [0.0, 1.0])


@pytest.mark.parametrize("n, room", [(1, 256), (256, 256), (257, 384), (385, 512), (3000, 3072)])
def test_lengths_are_padded_to_few(n, room):
    assert padded_length(n) == room
