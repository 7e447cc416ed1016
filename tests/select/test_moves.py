"""Spline screening, midpoint windows, search among lags: against oracles and known systems."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import ndde_jax as ndde
from ndde_jax.fit._newton import fit_network
from ndde_jax.fit._prices import EBIC
from ndde_jax.measure._delays import student_quantile
from ndde_jax.select._basis import N_FEATURES, QUANTILES, spline
from ndde_jax.select._judge import BLOCKS, stretches
from ndde_jax.select._problem import MoveProblem

QUICK = ndde.fitting.StrengthConfig(steps=15, fold_steps=5, restarts=1, search=4)


def delayed_pair(n=1200, delay=6, seed=0, noise=0.3):
    """y follows x after `delay` steps of 0.1; x follows its own past; Euler–Maruyama."""
    rng, dt = np.random.default_rng(seed), 0.1
    x = np.zeros((n, 2))
    for k in range(delay, n - 1):
        past = x[k - delay]
        drift = np.array([4 * np.sin(past[0]) - x[k, 0], past[0] - x[k, 1]])
        x[k + 1] = x[k] + dt * drift + noise * np.sqrt(dt) * rng.normal(size=2)
    return x


@pytest.fixture(scope="module")
def pair():
    """Windows with an exact Euler target: lags 0, 3, 6, 9 samples, of which 0 and 6 are true."""
    return ndde.lagged_windows(delayed_pair(), dt=0.1, lags=(0, 3, 6, 9))


TRUTH = np.zeros((2, 2, 4), bool)
TRUTH[0, 0, [0, 2]] = TRUTH[0, 1, 2] = TRUTH[1, 1, 0] = True


def test_spline_graph_finds_the_lag_among_its_neighbours(pair):
    found = ndde.select.spline_graph(pair)
    np.testing.assert_array_equal(found.graph, TRUTH)
    assert ndde.metrics.auroc(found.evidence, TRUTH) == 1
    assert (np.asarray(found.evidence) > 0)[TRUTH].all()


def test_risk_and_rate_of_a_spline_model_are_those_of_least_squares(pair):
    found = ndde.select.spline_graph(pair)
    z = np.asarray(pair.history).reshape(len(pair.history), -1)
    y, kinds = np.asarray(pair.increment), set()
    for target in range(2):
        chosen = np.moveaxis(TRUTH, (0, 1, 2), (2, 0, 1))[target].ravel()
        root, inputs = jnp.ones(len(z)), jnp.asarray(z[:, chosen].T)
        columns = [np.asarray(spline(c, root)) for c in inputs]
        pairs = itertools.combinations(np.nonzero(chosen)[0], 2)
        designs = [
            np.column_stack([np.ones(len(z)), z[:, chosen]]),
            np.column_stack([np.ones(len(z)), *columns]),
            np.column_stack([np.ones(len(z)), *columns, *(z[:, a] * z[:, b] for a, b in pairs)]),
        ]
        fits = [d @ np.linalg.lstsq(d, y[:, target], rcond=None)[0] for d in designs]
        risks = [np.mean((y[:, target] - f) ** 2) / np.var(y[:, target]) for f in fits]
        costs = [
            len(z) * np.log(risk + 1e-4) + (design.shape[1] - 1) * np.log(len(z))
            for risk, design in zip(risks, designs, strict=True)
        ]
        best = np.argmin(costs)
        kinds.add(int(best))
        np.testing.assert_allclose(found.risk[target], risks[best], rtol=1e-6)
        np.testing.assert_allclose(found.rate[:, target], fits[best], atol=1e-4)
    assert kinds == {0, 1}  # one law is straight, the other not


def test_value_of_an_edge_is_what_its_risk_changes_by(pair):
    """The risk without the edge, or with it, is that of the only graph that a prior leaves."""
    found = ndde.select.spline_graph(pair)
    for edge in ((0, 0, 2), (1, 1, 0), (1, 0, 0)):
        other = TRUTH.copy()
        other[edge] = not TRUTH[edge]
        edges = {True: [], False: []}
        for source, target, lag in np.ndindex(other.shape):
            edges[bool(other[source, target, lag])].append((source, target, pair.lags[lag]))
        prior = ndde.prior_knowledge(
            2, lags=pair.lags, required=edges[True], forbidden=edges[False]
        )
        fixed = ndde.select.spline_graph(eqx.tree_at(lambda w: w.prior, pair, prior))
        np.testing.assert_array_equal(fixed.graph, other)
        change = float(fixed.risk[edge[1]] - found.risk[edge[1]])
        assert (change > 0) == bool(TRUTH[edge])
        np.testing.assert_allclose(found.value[edge], abs(change), rtol=1e-6)


def test_source_value_is_that_of_all_its_lags(pair):
    found = ndde.select.spline_graph(pair)
    prior = ndde.prior_knowledge(2, lags=pair.lags, forbidden=[(0, 0), (1, 0), (1, 1)])
    without = ndde.select.spline_graph(eqx.tree_at(lambda w: w.prior, pair, prior))
    # Nothing is left for x0; x1 keeps x0 where it had it.
    np.testing.assert_allclose(found.source_value[0, 0], without.risk[0] - found.risk[0], rtol=1e-6)
    assert found.source_value[0, 0] > 1.05 * np.max(found.value[0, 0])
    kept = TRUTH.sum(axis=2) == 1
    np.testing.assert_allclose(
        found.source_value[kept], np.max(found.value, axis=2, where=TRUTH, initial=0)[kept]
    )
    assert (np.asarray(found.source_value)[~TRUTH.any(axis=2)] == 0).all()


def test_restricted_cubic_splines_span_what_they_should():
    """Linear functions exactly, nothing but linear ones beyond the outer knots."""
    z = jnp.sort(jr.normal(jr.key(0), (500,)))
    basis = np.asarray(spline(z, jnp.ones(500)))
    np.testing.assert_allclose(basis.T @ basis, np.eye(N_FEATURES), atol=1e-9)
    centred = np.asarray(z - z.mean())
    np.testing.assert_allclose(basis @ (basis.T @ centred), centred, atol=1e-9)
    beyond = np.asarray(z) > np.quantile(z, QUANTILES[-1])
    line = np.stack([np.ones(beyond.sum()), np.asarray(z)[beyond]], 1)
    rest = basis[beyond] - line @ np.linalg.lstsq(line, basis[beyond], rcond=None)[0]
    assert np.abs(rest).max() < 1e-9


def test_products_are_found():
    rng = np.random.default_rng(1)
    w = ndde.lagged_windows(rng.normal(size=(600, 3)), dt=1.0)
    z = w.history[:, 0]
    w = eqx.tree_at(lambda w: w.increment, w, jnp.stack([z[:, 1] * z[:, 2], z[:, 0], z[:, 2]], 1))
    expected = np.array([[0, 1, 0], [1, 0, 0], [1, 0, 1]], bool)
    np.testing.assert_array_equal(ndde.select.spline_graph(w).graph[:, :, 0], expected)


def test_inputs_that_act_only_through_one_another_are_found_among_many():
    """No spline of either has anything to do with the product of two independent inputs."""
    rng = np.random.default_rng(0)
    w = ndde.lagged_windows(rng.normal(size=(600, 2)), dt=1.0, lags=range(30))
    z = w.history
    rates = [z[:, 3, 1] * z[:, 17, 0], z[:, 2, 0] * z[:, 25, 0] + 0.7 * z[:, 11, 1]]
    expected = np.zeros((2, 2, 30), bool)
    expected[1, 0, 3] = expected[0, 0, 17] = True
    expected[0, 1, [2, 25]] = expected[1, 1, 11] = True
    found = ndde.select.spline_graph(eqx.tree_at(lambda w: w.increment, w, jnp.stack(rates, 1)))
    np.testing.assert_array_equal(found.graph, expected)
    for target in range(2):  # what the model has leads the shortlist
        drivers = np.flatnonzero(np.moveaxis(expected, 2, 0)[:, :, target])
        assert set(drivers) == set(np.asarray(found.shortlist)[target, : len(drivers)])


@pytest.mark.slow
def test_a_full_shortlist_makes_room():
    """Products of neighbours on a ring: the first models fill their shortlists with stand-ins."""
    system = ndde.systems.get("lorenz96_delayed")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=1 / 300, n_steps=40000, history=system.history,
        sigma=0.5, key=jr.key(0), save_every=10,
    )  # fmt: skip
    lags = (0, 5, 10, 15, 20, 25)
    found = ndde.select.spline_graph(
        ndde.select.midpoint_windows(path.ys[500:], dt=1 / 30, lags=lags)
    )
    expected = np.zeros((6, 6, 6), bool)
    for i in range(6):
        expected[[(i + 1) % 6, i - 2, i - 1, i], i, 0] = True
        expected[(i + 3) % 6, i, 3] = True
    np.testing.assert_array_equal(found.graph, expected)


def test_padding_changes_nothing(pair):
    from ndde_jax.windows._stack import pad_windows

    padded = pad_windows(pair, len(pair.history) + 100)
    a, b = ndde.select.spline_graph(pair), ndde.select.spline_graph(padded)
    np.testing.assert_array_equal(a.graph, b.graph)
    np.testing.assert_allclose(a.evidence, b.evidence, rtol=1e-6, atol=1e-9)


def test_a_constant_variable_gives_nan(pair):
    w = eqx.tree_at(lambda w: w.increment, pair, pair.increment.at[:, 0].set(0))
    found = ndde.select.search_lags(w, key=jr.key(0), config=QUICK)
    assert np.isnan(found.evidence).all() and not np.asarray(found.graph).any()


@pytest.mark.slow
def test_midpoints_are_of_second_order():
    """Rates minus the drift at the windows' states, for x'' = −x: halving dt quarters it."""

    def error(dt, maker):
        t = dt * np.arange(int(60 / dt))
        w = maker(np.stack([np.sin(t), np.cos(t)], 1), dt=dt, lags=(0,))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 0]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        drift = jnp.stack([states[:, 1], -states[:, 0]], 1)
        return float(jnp.sqrt(jnp.mean((rates - drift) ** 2)))

    plain = [error(dt, ndde.lagged_windows) for dt in (0.1, 0.05)]
    middle = [error(dt, ndde.select.midpoint_windows) for dt in (0.1, 0.05)]
    assert 1.9 < plain[0] / plain[1] < 2.1
    assert 3.5 < middle[0] / middle[1] < 4.5
    assert middle[0] < plain[0] / 20


class Rotation(eqx.Module):
    """x'' = −x."""

    lags: tuple = eqx.field(static=True, default=(0,))

    def __call__(self, history):
        return jnp.stack([history[0, 1], -history[0, 0]])


def test_midpoints_of_the_true_model_are_of_fourth_order():
    def error(dt):
        t = dt * np.arange(int(60 / dt))
        x = np.stack([np.sin(t), np.cos(t)], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, model=Rotation())
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 0]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        drift = jnp.stack([states[:, 1], -states[:, 0]], 1)
        return float(jnp.sqrt(jnp.mean((rates - drift) ** 2)))

    assert 14 < error(0.4) / error(0.2) < 18
    assert error(0.2) < 2e-6


@pytest.mark.parametrize(
    "lag,order", [(1, 3), *(pytest.param(lag, 4, marks=pytest.mark.slow) for lag in (2, 7))]
)
def test_the_past_is_interpolated(lag, order):
    """Halfway between samples, from samples not later than the present."""

    def error(dt):
        t = dt * np.arange(int(40 / dt))
        x = np.stack([np.sin(t), np.cos(t)], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, lags=(0, lag))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 1]
        at = t[np.asarray(w.position)] + (0.5 - lag) * dt
        return np.abs(np.asarray(states) - np.stack([np.sin(at), np.cos(at)], 1)).max()

    assert np.log2(error(0.2) / error(0.1)) == pytest.approx(order, abs=0.2)


class Lagging(eqx.Module):
    """x' = −x(t − τ), with the present as an idle input."""

    lags: tuple = eqx.field(static=True)

    def __call__(self, history):
        return -history[1] + 0.0 * history[0]


def test_rates_of_a_delayed_model_meet_at_the_middle():
    """x = exp(rt), r = −exp(−rτ): the rate that belongs to the middle, to fourth order."""

    def error(dt):
        lag = round(1.2 / dt)
        r = complex(0.3, 1.1)
        for _ in range(50):  # Newton, for r + exp(−rτ) = 0
            r -= (r + np.exp(-1.2 * r)) / (1 - 1.2 * np.exp(-1.2 * r))
        z = np.exp(r * dt * np.arange(round(12 / dt)))
        x = np.stack([z.real, z.imag], 1)
        w = ndde.select.midpoint_windows(x, dt=dt, lags=(0, lag), model=Lagging((0, lag)))
        s = w.scaling
        states = s.center[None] + s.scale[None] * w.history[:, 1]
        rates = s.rate_center[None] + s.rate_scale[None] * w.increment
        return float(jnp.abs(rates + states).max() / jnp.abs(rates).max())

    assert np.log2(error(0.2) / error(0.1)) == pytest.approx(4, abs=0.3)


def test_the_past_at_midpoints_ends_with_the_data():
    """With a model as without one, the last row knows where its past went."""
    x = delayed_pair(200)

    class Damped(eqx.Module):
        lags: tuple = eqx.field(static=True, default=(0, 3))

        def __call__(self, history):
            return history[1] - history[0]

    plain, found = (
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), model=model)
        for model in (None, Damped())
    )
    np.testing.assert_allclose(found.history[:, 1], plain.history[:, 1], atol=1e-12)
    assert found.scheme == plain.scheme == "midpoint"


def test_midpoints_do_not_see_the_step_they_explain():
    x = delayed_pair(200)
    zero = lambda w: jnp.zeros_like(w.increment)  # noqa: E731
    wide = ndde.lagged_windows(x, dt=0.1, lags=(0, 4))
    w = ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), rate=zero(wide))
    s = w.scaling
    physical = np.asarray(s.center[None, None] + s.scale[None, None] * w.history)
    k = np.asarray(w.position) - np.asarray(w.position)[0] + 4
    between = (9 * (x[k - 3] + x[k - 2]) - x[k - 4] - x[k - 1]) / 16
    np.testing.assert_allclose(physical[:, 1], between, atol=1e-9)
    mean = np.asarray(s.rate_center)[None] * 0.1 / 2
    np.testing.assert_allclose(physical[:, 0], x[k] + mean, atol=1e-9)


def test_midpoint_windows_reads_its_arguments():
    x = delayed_pair(200)
    with pytest.raises(ValueError, match="rate must have shape"):
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), rate=jnp.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"a model with the lags \(0, 3\); got \(0,\)"):
        ndde.select.midpoint_windows(x, dt=0.1, lags=(0, 3), model=Rotation())
    with pytest.raises(ValueError, match=r"rate or model.* got both"):
        ndde.select.midpoint_windows(x, dt=0.1, rate=jnp.zeros((199, 2)), model=Rotation())


@pytest.mark.slow
def test_search_agrees_with_enumeration(pair):
    found = ndde.select.search_lags(pair, key=jr.key(0), config=QUICK)
    np.testing.assert_array_equal(found.graph, TRUTH)
    few = ndde.lagged_windows(delayed_pair(600)[:, :1], dt=0.1, lags=(0, 3, 6, 9))
    config = ndde.fitting.StrengthConfig(steps=15, restarts=1)
    exact = ndde.select.exact_graph(few, key=jr.key(1), config=config)
    search = ndde.select.search_lags(few, key=jr.key(0), config=QUICK)
    np.testing.assert_array_equal(search.graph, exact.graph)
    np.testing.assert_allclose(search.risk, jnp.min(exact.risk, axis=1), rtol=0.05)


# Nothing is decided by a prior.
EVERYTHING = jnp.ones(8, bool)


@pytest.mark.slow
def test_a_wrong_lag_is_swapped_for_the_right_one(pair):
    """From a network on a neighbour of the true lag, one move leads to the truth."""
    inputs = pair.history.reshape(len(pair.history), -1)  # (lag, source)
    problem = MoveProblem(inputs, pair.increment[:, 1], pair.weight, 8, EBIC(), QUICK, EVERYTHING)
    wrong = jnp.zeros(8, bool).at[jnp.array([1, 6])].set(True)  # y itself; x at lag 9
    mask, network = problem.from_scratch(wrong, jr.key(0))
    ranked = problem.moves[jnp.argsort(problem.linearised(mask, network))]
    right = jnp.zeros(8, bool).at[jnp.array([1, 4])].set(True)  # x at lag 6
    assert any((np.asarray(mask ^ move) == np.asarray(right)).all() for move in ranked[:4])
    found, *_ = problem.search((mask, network), jnp.asarray(1.0 * len(inputs)))
    np.testing.assert_array_equal(found, right)


@pytest.mark.slow
def test_linearised_risks_foresee_refits(pair):
    """An addition is predicted to a few per cent of the risk."""
    inputs = pair.history.reshape(len(pair.history), -1)
    problem = MoveProblem(inputs, pair.increment[:, 1], pair.weight, 8, EBIC(), QUICK, EVERYTHING)
    mask = jnp.zeros(8, bool).at[jnp.array([1, 4])].set(True)
    _, found = problem.from_scratch(mask, jr.key(0))
    risks = problem.linearised(mask, found)[:8]
    added = mask.at[0].set(True)
    refit = fit_network(
        problem._alive(found.network, added),
        jnp.where(added[None], inputs, 0),
        pair.increment[:, 1],
        pair.weight,
        n_iterations=10,
        decay=found.decay,
    )
    np.testing.assert_allclose(risks[0], refit.risk, rtol=0.05)


@pytest.mark.slow
def test_coefficient_sets_the_price(pair):
    nothing = ndde.select.search_lags(pair, key=jr.key(0), config=QUICK, coefficient=100.0)
    assert not np.asarray(nothing.graph).any()
    np.testing.assert_allclose(nothing.threshold, 100 / 8)
    cheap = ndde.select.search_lags(pair, key=jr.key(0), config=QUICK, coefficient=1e-6)
    assert np.asarray(cheap.graph).sum() > TRUTH.sum()


def test_one_system_at_a_time(pair):
    batch = ndde.stack_windows([pair, pair])
    for call in (ndde.select.spline_graph, lambda w: ndde.select.search_lags(w, key=jr.key(0))):
        with pytest.raises(ValueError, match=r"use jax\.vmap"):
            call(batch)
    with pytest.raises(ValueError, match="at least 1"):
        ndde.select.spline_graph(pair, shortlist=0)


FAST = ndde.fitting.StrengthConfig(steps=25, restarts=1)


def late_oscillator(tau, seed, n=2000, dt=0.1, fine=5):
    """x' = −x + 4 sin x(t−τ), chaotic, noise 0.2; samples dt apart."""
    drift = lambda t, x, lagged, args: -x + 4 * jnp.sin(lagged[0])  # noqa: E731
    path = ndde.solve_sdde(
        drift,
        lags=tau,
        dt=dt / fine,
        n_steps=n * fine,
        history=jnp.array([0.7]),
        sigma=0.2,
        key=jr.key(seed),
        save_every=fine,
    )
    return np.asarray(path.ys)[300:]


@pytest.mark.parametrize("seed, blocks", [(0, 32), (1, 3)])
def test_a_delay_between_the_candidates_is_estimated(seed, blocks):
    """Two kept neighbours turn out to be one delay; its interval covers the truth and is short."""
    x = late_oscillator(1.73, seed)
    graph = np.array([[[True, False, True, True]]])
    config = ndde.fitting.StrengthConfig(steps=25, restarts=1, blocks=blocks)
    found = ndde.measure.refine_delays(
        x, graph, dt=0.1, lags=(0, 10, 15, 20), key=jr.key(0), config=config
    )
    assert found.delay.shape == (1,) and found.lags.tolist() == [[15, 20]]
    truth = 1.73 + 0.02 / 2  # Euler's method takes the drift half a step late
    assert found.lower[0] < truth < found.upper[0]
    # Student's t, or a quarter of a sample if that is more.
    half = max(stats.t.ppf(0.975, blocks - 1) * found.standard_error[0], 0.025)
    assert found.upper[0] - found.delay[0] == pytest.approx(half, rel=1e-4)
    assert found.upper[0] - found.lower[0] < (0.1 if blocks == 32 else 0.4)
    assert 0 < found.resolution[0] < 0.5
    on_graph = found.on_graph(graph, (0, 10, 15, 20))
    np.testing.assert_allclose(on_graph[0, 0, 2:], found.delay[0])
    assert np.isnan(on_graph[0, 0, :2]).all()


def test_interpolation_reproduces_cubics_at_the_samples_and_parabolas_between():
    from ndde_jax.measure._delays import _interpolated

    t = np.arange(20.0)
    value, slope = _interpolated(jnp.asarray(t**2 - 3 * t), jnp.array([5.0, 7.3]))
    np.testing.assert_allclose(value, [10.0, 7.3**2 - 3 * 7.3], rtol=1e-12)
    np.testing.assert_allclose(slope, [7.0, 2 * 7.3 - 3], rtol=1e-12)


@pytest.mark.slow
def test_no_delayed_edge_gives_no_estimate():
    x = late_oscillator(1.0, 0, n=500)
    found = ndde.measure.refine_delays(
        x, np.array([[[True, False]]]), dt=0.1, lags=(0, 10), key=jr.key(0)
    )
    assert found.delay.shape == (0,) and found.lags.shape == (0, 2)
    with pytest.raises(ValueError, match="source target lag"):
        ndde.measure.refine_delays(x, np.ones((1, 2, 2), bool), dt=0.1, lags=(0, 10), key=jr.key(0))
    with pytest.raises(ValueError, match="may grow to 182 samples; that leaves 16 of 200"):
        ndde.measure.refine_delays(
            x[:200], np.ones((1, 1, 2), bool), dt=0.1, lags=(0, 90), key=jr.key(0)
        )


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    graph = np.array([[[True, False, True, True]]])
    inside = 0
    for seed in range(20):
        x = late_oscillator(1.73, seed)
        found = ndde.measure.refine_delays(
            x, graph, dt=0.1, lags=(0, 10, 15, 20), key=jr.key(0), config=FAST
        )
        inside += bool(found.lower[0] <= 1.73 <= found.upper[0])
    assert inside >= 17  # 95 % nominal; fewer than 17 of 20 have probability .016


@pytest.mark.parametrize("blocks", [2, 3, 5, 10, 20, 32, 200])
def test_quantiles_of_delay_intervals_against_scipy(blocks):
    """They used to be 2 for most numbers of blocks: 3 blocks need 4.3."""
    for probability in (0.95, 0.975):
        expected = stats.t.ppf(probability, blocks - 1)
        assert student_quantile(probability, blocks - 1) == pytest.approx(expected, rel=1e-6)


def test_stretches_hold_as_many_valid_windows_each():
    rng = np.random.default_rng(0)
    weight = (rng.random(400) < 0.8).astype(float)
    weight[:7] = 0  # ends that ring are left out first
    rank = stretches(weight)
    assert rank.min() == 0 and (np.diff(rank) >= 0).all()
    counts = np.bincount(rank, weight, BLOCKS)
    assert counts.max() - counts.min() <= 1
    assert (stretches(np.zeros(5)) == 0).all()
