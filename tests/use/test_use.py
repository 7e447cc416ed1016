"""Effects, forecasts and interventions of a linear system with delays, against that system."""

import io
import json
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.use._forecast import make_learned, path_quantile
from ndde_jax.use._simulate import no_change, simulate

from .small import DT, LAGS, NAMES, SIGMA, TRUTH, A, discovery, linear_path

HORIZON = 12
KEY = jax.random.key(0)


def respond(history, steps, a=A, held=None, fine=10):
    """The mean of the true system from a history on, `[step dim]`: noise has no part in it."""
    past = np.repeat(history, fine, axis=0)[fine - 1 :]
    # Between samples the true path is not known; straight lines are near.
    row = np.arange(len(history)) * fine
    past = np.stack(
        [np.interp(np.arange(row[-1] + 1), row, column) for column in history.T], axis=1
    )
    x, out = list(past), []
    for k in range(steps * fine):
        if held:
            x[-1] = x[-1].copy()
            for i, value in held.items():
                x[-1][i] = value
        rate = sum(a[:, i] @ x[-1 - fine * lag] for i, lag in enumerate(LAGS))
        x.append(x[-1] + DT / fine * rate)
        for i, value in (held or {}).items():
            x[-1][i] = value
        if (k + 1) % fine == 0:
            out.append(x[-1].copy())
    return np.array(out)


# ---- the ensemble ----


def test_resamples_contain_the_true_edges_and_no_other(found):
    ensemble = found.resample()
    assert (ensemble.share[TRUTH] > 0.9).all()
    # Forward differences see sun at lag 1, between two candidates, so either lag may be taken;
    # sources that drive nothing are not.
    driven = TRUTH.any(axis=2)
    assert (ensemble.graphs.mean(axis=0).max(axis=2)[~driven] < 0.3).all()
    assert ensemble.graphs.shape == (40, *TRUTH.shape)


def test_an_edge_that_is_none_has_a_small_share():
    graph = TRUTH.copy()
    graph[2, 0, 1] = True
    share = discovery(linear_path(800), graph).resample(resamples=20).share
    assert share[2, 0, 1] < 0.5 and (share[TRUTH] > 0.9).all()


def test_another_key_draws_other_halves_and_the_first_is_kept(found):
    one = found.resample()
    assert found._members is one
    other = discovery(linear_path(400), TRUTH)
    first = other.resample(resamples=4)
    second = other.resample(resamples=4, key=jax.random.key(1))
    assert not np.array_equal(first.theta, second.theta)
    assert first.share.shape == second.share.shape


# ---- effects ----


def test_slopes_and_signs_are_those_of_the_system(found):
    effects = found.effects()
    true = np.moveaxis(A, (0, 1, 2), (1, 2, 0))
    np.testing.assert_array_equal(effects.sign, np.sign(true))
    np.testing.assert_allclose(effects.slope[TRUTH], true[TRUTH], atol=0.15)
    assert np.isnan(effects.slope[~TRUTH]).all()
    inside = (effects.slope_low <= true) & (true <= effects.slope_high)
    assert inside[TRUTH].sum() >= 4


@pytest.mark.slow
def test_intervals_of_slopes_spread_as_estimates_from_other_records_do():
    slopes, widths = [], []
    for seed in range(8):
        effects = discovery(linear_path(500, seed=seed), TRUTH).effects()
        slopes.append(effects.slope[TRUTH])
        widths.append((effects.slope_high - effects.slope_low)[TRUTH] / 2 / 1.645)
    ratio = np.mean(widths) / np.mean(np.std(slopes, axis=0, ddof=1))
    assert 0.6 < ratio < 1.6


def test_curves_of_a_linear_system_are_straight_centred_and_on_the_data(found):
    x, y, low, high = found.effects().curve("sun", "heat")
    assert x.shape == y.shape == low.shape == high.shape == (21,)
    sun = found.samples.values[0][:, 0]
    assert sun.min() <= x[0] < x[-1] <= sun.max()
    np.testing.assert_allclose(np.polyfit(x, y, 1)[0], 1.2, atol=0.1)
    assert np.abs(y - np.polyval(np.polyfit(x, y, 1), x)).max() < 0.05 * np.ptp(y)
    weights = np.histogram(sun, x)[0]
    assert abs(np.average((y[1:] + y[:-1]) / 2, weights=weights)) < 0.03 * np.ptp(y)
    assert (low < y).all() and (y < high).all()
    by_index = found.effects().curve(0, 1, 2, points=20)
    np.testing.assert_array_equal(by_index[1], y)


def test_curves_see_what_a_slope_does_not():
    rng, x = np.random.default_rng(0), np.zeros((3000, 2))
    for k in range(2999):
        rate = np.array([-x[k, 0], x[k, 0] ** 2 - x[k, 1]])
        x[k + 1] = x[k] + 0.2 * rate + np.sqrt(0.2) * np.array([0.7, 0.2]) * rng.normal(size=2)
    graph = np.zeros((2, 2, 1), bool)
    graph[0, 0, 0] = graph[1, 1, 0] = graph[0, 1, 0] = True
    made = discovery(x, graph, lags=(0,), dt=0.2, names=("a", "b"))
    at, y, *_ = made.effects().curve("a", "b")
    mean = np.mean(x[:, 0] ** 2)
    assert np.corrcoef(y, at**2 - mean)[0, 1] > 0.98
    assert abs(made.effects().slope[0, 1, 0]) < 0.25


def test_total_effects_are_those_of_the_linear_system(found):
    total = found.effects().total
    true_step = respond(np.zeros((LAGS[-1] + 1, 3)), 20, held={0: 1.0})
    np.testing.assert_allclose(total.step[1:21, 0], true_step, atol=0.2)
    start = np.zeros((LAGS[-1] + 1, 3))
    start[-1, 0] = 1.0
    # The push is at time 0; a past that rises towards it would not be.
    pulse = respond(np.concatenate([start[:-1], start[-1:]]), 20)
    assert np.abs(total.pulse[1:21, 0] - pulse).max() < 0.3
    assert (total.step_low <= total.step).all() and (total.step <= total.step_high).all()
    np.testing.assert_array_equal(total.step[:, 0, 0], 1)
    np.testing.assert_array_equal(total.step[0], np.eye(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ice", "sun"), "ice -> sun is no edge"),
        (("sun", "heat", 0), "is kept at lags 2 samples; got lag 0"),
        (("sun", "heat", "2"), "lag must be a lag in samples"),
        (("moon", "heat"), "source must name a variable"),
    ],
)
def test_curves_are_of_kept_edges(found, arguments, message):
    with pytest.raises(ValueError, match=message):
        found.effects().curve(*arguments)


def test_frames_and_words(found):
    frame = found.effects().to_frame()
    assert list(frame["source"][:1]) == ["sun"] and len(frame) == TRUTH.sum()
    assert "sun@2 -> heat" in repr(found.effects())
    assert "in 100% of resamples" in repr(found.effects())


# ---- the simulator ----


def test_the_simulator_is_heuns_method(found):
    learned = make_learned(found, found.resample())
    rng = np.random.default_rng(0)
    history = rng.normal(size=(2, LAGS[-1] + 1, 3)) * 0.3
    noise, member = rng.normal(size=(5, 2, 3)), jnp.array([3, 17])
    got, diverged = simulate(learned, no_change(5, 3, float), history, member, noise)
    assert not diverged.any()
    past = np.array(LAGS)
    x = list(np.moveaxis(history, 1, 0))
    for k in range(5):
        drift = lambda x: np.asarray(  # noqa: E731
            learned.drift(member, jnp.stack([jnp.asarray(x[-1 - lag]) for lag in past], axis=1))
        )
        first = drift(x)
        guess = x[-1] + DT * first
        second = drift([*x, guess])
        x.append(x[-1] + DT / 2 * (first + second) + noise[k] @ np.asarray(learned.factor).T)
    np.testing.assert_allclose(got, np.stack(x[-5:], axis=1), rtol=1e-9)


def test_the_noise_of_a_step_is_that_of_the_system(found):
    covariance = found.resample().noise.covariance / DT
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), SIGMA, rtol=0.2)


# ---- forecasts ----


def test_forecasts_have_the_mean_and_the_spread_of_the_true_system(found):
    history = linear_path(80, seed=5)
    made = found.forecast(HORIZON, key=KEY, history=history)
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON)
    paths = np.asarray(made.paths)
    np.testing.assert_allclose(paths.mean(axis=0), expected, atol=0.12)
    # Of independent runs from this history: the stationary spread of the system bounds it.
    spread = paths.std(axis=0)
    assert (np.diff(spread[:, 0]) > -0.1).all()
    one_step = SIGMA * np.sqrt(DT)
    np.testing.assert_allclose(spread[0], one_step, rtol=0.25)


def test_intervals_cover_what_comes(found):
    table = found.backtest(HORIZON, data=linear_path(1200, seed=7), origins=60, key=KEY)
    own = table.methods.index("ndde_jax")
    coverage = table.coverage[own].mean(axis=1)
    assert (coverage > 0.82).all() and (coverage < 0.97).all()
    assert table.held_out and table.origins == 60
    crps = table.crps.mean(axis=2)
    assert (crps[own] < crps[table.methods.index("persistence")]).all()
    assert (crps[own] < 1.1 * crps[table.methods.index("VAR")]).all()
    assert "VAR" in repr(table) and len(table.to_frame()) == table.crps.size


def test_a_forecast_goes_on_from_the_record(found):
    made = found.forecast("3h", key=KEY)
    assert made.paths.shape == (200, HORIZON, 3)
    np.testing.assert_allclose(made.ts, found.samples.times[0][-1] + DT * np.arange(1, 13))
    np.testing.assert_array_equal(made.history[-1], found.samples.values[0][-1])
    np.testing.assert_array_equal(made.median, made.quantile(0.5))
    assert not made.diverged.any() and made.notes == ()
    same = found.forecast(HORIZON, key=KEY, history=found.samples.values[0])
    np.testing.assert_array_equal(same.paths, made.paths)
    assert len(made.to_frame()) == HORIZON * 3


def test_quantiles_of_few_paths_are_not_too_narrow():
    rng = np.random.default_rng(0)
    paths, truth = rng.normal(size=(19, 4000)), rng.normal(size=4000)
    low, high = path_quantile(jnp.asarray(paths), np.array([0.05, 0.95]))
    assert ndde.metrics.interval_coverage(low, high, truth) == pytest.approx(0.9, abs=0.02)
    expected = np.quantile(paths, [0.05, 0.5, 0.95], axis=0, method="weibull")
    np.testing.assert_allclose(path_quantile(jnp.asarray(paths), [0.05, 0.5, 0.95]), expected)


def test_missing_values_at_the_end_are_said(found):
    x = linear_path(400)
    x[-3, 1] = x[-2, 0] = np.nan
    made = discovery(x, TRUTH).forecast(HORIZON, key=KEY)
    assert "2 values are missing" in made.notes[0]
    assert np.isfinite(made.paths).all()


def test_paths_that_diverge_are_recorded():
    rng, x = np.random.default_rng(0), np.full((200, 1), 0.1)
    for k in range(199):
        x[k + 1] = 1.03 * x[k] + 0.01 * rng.normal()
    made = discovery(x, np.ones((1, 1, 1), bool), lags=(0,), dt=1.0, names=("a",))
    learned = make_learned(made, made.resample())
    huge = jnp.full((3, 1, 1), 1e9)
    paths, diverged = simulate(
        learned, no_change(2, 1, float), huge, jnp.arange(3), jnp.zeros((2, 3, 1))
    )
    assert diverged.all() and np.isfinite(paths).all()


def test_known_inputs_are_followed():
    prior = ndde.prior_knowledge(NAMES, lags=LAGS, exogenous=("sun",))
    graph = TRUTH & np.asarray(prior.allowed)
    made = discovery(linear_path(600), graph, prior=prior)
    assert "of sun, which nothing else drives" in made.forecast(HORIZON, key=KEY).notes[0]
    future = np.linspace(0, 1, HORIZON)
    forecast = made.forecast(HORIZON, key=KEY, inputs={"sun": future})
    np.testing.assert_allclose(forecast.paths[:, :, 0], np.tile(future, (200, 1)))
    assert forecast.notes == ()
    with pytest.raises(ValueError, match=r"inputs holds heat, .* known inputs are sun"):
        made.forecast(HORIZON, key=KEY, inputs={"heat": future})
    with pytest.raises(ValueError, match="one value per step"):
        made.forecast(HORIZON, key=KEY, inputs={"sun": future[:3]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(horizon=0), "horizon must be at least 1"),
        (dict(paths=0), "paths must be at least 1"),
        (dict(key=0), "key must be a JAX random key"),
        (dict(history=np.zeros((3, 3))), "at least 5 samples"),
        (dict(history=np.zeros((9, 2))), "history must be"),
        (dict(history=np.full((9, 3), np.nan)), "history must be finite"),
        (dict(inputs={"sun": np.zeros(24)}), "its known inputs are none"),
        (dict(inputs=3), "inputs must be a mapping"),
    ],
)
def test_forecasts_that_cannot_be_made_are_refused(found, options, message):
    with pytest.raises(ValueError, match=message):
        found.forecast(**{"key": KEY} | options)


def test_irregular_sampling_is_refused():
    x = linear_path(300)
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 300))
    made = discovery(x, TRUTH)
    samples = ndde.read_samples(x, t=times, names=NAMES)
    object.__setattr__(made, "samples", samples)
    with pytest.raises(ValueError, match="equally spaced"):
        made.effects()


# ---- interventions ----


def test_what_is_set_moves_the_others_as_in_the_true_system(found):
    history = linear_path(80, seed=5)
    made = found.intervene({"sun": 0.8}, horizon=HORIZON, key=KEY, history=history)
    np.testing.assert_array_equal(made.changed[:, :, 0], 0.8)
    past = history[-LAGS[-1] - 1 :]
    expected = respond(past, HORIZON, held={0: 0.8}) - respond(past, HORIZON)
    np.testing.assert_allclose(made.difference.mean(axis=0), expected, atol=0.12)
    np.testing.assert_array_equal(made.effect(), made.effect(0.5))
    # What nothing has reached yet differs by nothing at all: the noise is the same.
    np.testing.assert_allclose(made.difference[:, 0, 2], 0, atol=1e-12)


def test_an_edge_that_is_cut_acts_no_more(found):
    history = linear_path(80, seed=5)
    made = found.intervene(cut=[("sun", "heat")], horizon=HORIZON, key=KEY, history=history)
    without = A.copy()
    without[1, 1, 0] = 0
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON, a=without)
    np.testing.assert_allclose(made.changed.mean(axis=0), expected, atol=0.15)
    np.testing.assert_array_equal(made.difference[:, :, 0], 0)
    scaled = found.intervene(
        scale={("sun", "heat"): 0.0}, horizon=HORIZON, key=KEY, history=history
    )
    np.testing.assert_allclose(scaled.changed, made.changed, atol=1e-9)
    half = found.intervene(scale={(0, 1): 0.5}, horizon=HORIZON, key=KEY, history=history)
    # To first order in a step; drifts are nearly linear.
    np.testing.assert_allclose(half.effect()[:4, 1], made.effect()[:4, 1] / 2, atol=0.03)


def test_a_new_delay_is_that_of_the_other_system(found):
    history = linear_path(80, seed=5)
    made = found.intervene(delay={("heat", "ice"): 0}, horizon=HORIZON, key=KEY, history=history)
    other = A.copy()
    other[2, 0, 1], other[2, 2, 1] = A[2, 2, 1], 0
    expected = respond(history[-LAGS[-1] - 1 :], HORIZON, a=other)
    np.testing.assert_allclose(made.changed.mean(axis=0), expected, atol=0.15)
    longer = found.intervene(delay={("heat", "ice"): 9}, horizon=HORIZON, key=KEY)
    assert np.isfinite(longer.changed).all()


def test_a_shift_is_seen_by_others_and_not_by_oneself(found):
    made = found.intervene(shift={"sun": 0.5}, horizon=HORIZON, start=3, stop=8, key=KEY)
    difference = np.asarray(made.difference)
    active = (np.arange(1, HORIZON + 1) >= 3) & (np.arange(1, HORIZON + 1) < 8)
    np.testing.assert_allclose(difference[:, :, 0], np.tile(0.5 * active, (200, 1)), atol=1e-9)
    # Sun drives heat two samples later, and the shift ends.
    np.testing.assert_allclose(difference[:, :4, 1], 0, atol=0.05)
    assert (difference[:, 8, 1] > 0.05).all()


def test_values_may_follow_time_and_state(found):
    series = np.linspace(-0.5, 0.5, HORIZON)
    made = found.intervene({"sun": series}, horizon=HORIZON, key=KEY)
    np.testing.assert_allclose(made.changed[:, :, 0], np.tile(series, (200, 1)))
    last = found.samples.times[0][-1]
    by_time = found.intervene(
        {"sun": lambda t: -0.5 + (t - last - DT) / DT / (HORIZON - 1)}, horizon=HORIZON, key=KEY
    )
    np.testing.assert_allclose(by_time.changed[:, 1:, 0], made.changed[:, 1:, 0], atol=1e-9)
    mirrored = found.intervene({0: lambda t, x: -x[1]}, horizon=HORIZON, start="1h", key=KEY)
    np.testing.assert_allclose(mirrored.changed[:, 4:, 0], -mirrored.changed[:, 4:, 1])
    np.testing.assert_array_equal(mirrored.difference[:, :3], 0)


def test_outcomes_have_gradients(found):
    def outcome(value, factor):
        made = found.intervene(
            {"sun": value}, scale={("heat", "ice"): factor}, horizon=HORIZON, key=KEY
        )
        assert made.notes == ()
        return jnp.mean(made.changed[:, -1, 2])

    got = jax.grad(outcome, argnums=(0, 1))(0.5, 0.9)
    step = 1e-5
    by_value = (outcome(0.5 + step, jnp.asarray(0.9)) - outcome(0.5 - step, jnp.asarray(0.9))) / (
        2 * step
    )
    by_factor = (outcome(0.5, 0.9 + step) - outcome(0.5, 0.9 - step)) / (2 * step)
    np.testing.assert_allclose(got, [by_value, by_factor], rtol=1e-5)
    assert abs(got[0]) > 0.1


def test_notes_say_what_an_answer_rests_on(found):
    far = found.intervene({"sun": 5.0}, horizon=HORIZON, key=KEY)
    assert any("sun is outside the range" in note for note in far.notes)
    graph = TRUTH.copy()
    graph[0, 2, 1] = True
    weak = discovery(linear_path(800), graph)
    made = weak.intervene({"sun": 0.1}, horizon=HORIZON, key=KEY)
    assert any("rests on sun -> ice at lag 2" in note for note in made.notes)
    other = weak.intervene({"ice": 0.1}, horizon=HORIZON, key=KEY)
    assert not any("rests on" in note for note in other.notes)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (None, {}, "needs something to do"),
        ({"moon": 1.0}, {}, "a variable to set must name a variable"),
        ({"sun": "high"}, {}, "the value of sun must be real numbers"),
        ({"sun": np.nan}, {}, "must be finite"),
        ({"sun": np.zeros(3)}, {}, r"\[horizon\] = \(24,\)"),
        ({"sun": lambda a, b, c: 0.0}, {}, "function of time"),
        (3, {}, "must be a mapping"),
        ({"sun": 1.0}, dict(start=24), "start must lie before"),
        ({"sun": 1.0}, dict(start=5, stop=5), "start must lie before"),
        ({"sun": 1.0}, dict(shift={"sun": 1.0}), "is set, so shifting"),
        (None, dict(cut=[("ice", "sun")]), "ice -> sun is no edge"),
        (None, dict(cut=[("sun", "heat", 4)]), "no edge of the graph at lag 4"),
        (None, dict(cut="sun>heat"), "cut must be a list"),
        (None, dict(cut=[("sun",)]), "cut must be of edges"),
        (None, dict(scale={("sun", "heat"): "half"}), "factor of sun -> heat"),
        (None, dict(delay={("sun", "heat"): -1}), "must not be negative"),
        ({"sun": 0.0}, dict(inputs={"sun": np.zeros(24)}), "known inputs are none"),
    ],
)
def test_interventions_that_cannot_be_made_are_refused(found, values, options, message):
    with pytest.raises(ValueError, match=message):
        found.intervene(values, **{"key": KEY} | options)


# ---- saved discoveries ----


def test_a_saved_discovery_answers_the_same(found, tmp_path):
    found.save(tmp_path)
    loaded = ndde.Discovery.load(tmp_path)
    np.testing.assert_array_equal(loaded.effects().slope, found.effects().slope)
    made = [d.forecast(HORIZON, key=KEY).paths for d in (loaded, found)]
    np.testing.assert_array_equal(*made)


def test_pictures_can_be_drawn(found):
    pytest.importorskip("matplotlib")
    made = (
        found.effects(),
        found.forecast(HORIZON, key=KEY),
        found.intervene({"sun": 0.8}, horizon=HORIZON, key=KEY),
    )
    for answer, panels in zip(made, (TRUTH.sum(), 3, 6), strict=True):
        figure = answer.plot()
        assert len(figure.axes) == panels
        figure.savefig(io.BytesIO(), dpi=40)


# ---- for other programs ----


def test_json_and_dot_hold_every_edge(found):
    about = json.loads(found.to_json())
    assert about["variables"] == list(NAMES) and len(about["edges"]) == TRUTH.sum()
    edge = next(e for e in about["edges"] if (e["source"], e["target"]) == ("heat", "ice"))
    assert (edge["lag"], edge["delay"], edge["sign"]) == (4, 1.0, -1)
    assert '"heat" -> "ice" [style=dashed, label="4"];' in found.to_dot()
    assert found.to_dot().count("->") == TRUTH.sum()


def test_networkx_gets_nodes_and_edges(found, monkeypatch):
    class MultiDiGraph:
        def __init__(self, **about):
            self.about, self.edges = about, []

        def add_nodes_from(self, names):
            self.nodes = tuple(names)

        def add_edge(self, source, target, **what):
            self.edges.append((source, target, what))

    monkeypatch.setitem(sys.modules, "networkx", SimpleNamespace(MultiDiGraph=MultiDiGraph))
    graph = found.to_networkx()
    assert graph.nodes == NAMES and len(graph.edges) == TRUTH.sum()
    assert ("sun", "heat", 2) in [(s, t, what["lag"]) for s, t, what in graph.edges]
