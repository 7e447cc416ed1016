"""Ensembles and effects of a linear system with delays, against that system; and saved files."""

import copy
import io
import json
import sys
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.use._ensemble import diffusion_of

from .small import HORIZON, KEY, LAGS, NAMES, TRUTH, A, discovery, linear_path, respond


def test_resamples_contain_the_true_edges_and_no_other(found):
    ensemble = found.resample()
    assert (ensemble.share[TRUTH] > 0.9).all()
    # Forward differences show sun at lag 1, between two candidates, so either lag may be kept;
    # sources without effect are not.
    driven = TRUTH.any(axis=2)
    assert (ensemble.graphs.mean(axis=0).max(axis=2)[~driven] < 0.3).all()
    assert ensemble.graphs.shape == (40, *TRUTH.shape)


def test_an_edge_that_is_none_has_a_small_share():
    graph = TRUTH.copy()
    graph[2, 0, 1] = True
    share = discovery(linear_path(800), graph).resample(resamples=20).share
    assert share[2, 0, 1] < 0.5 and (share[TRUTH] > 0.9).all()


@pytest.mark.slow
def test_another_key_draws_other_halves_and_the_discovery_stays_as_it_is(found):
    before = found.effects()
    few = found.resample(resamples=4, key=jax.random.key(3))
    np.testing.assert_array_equal(found.effects().slope_low, before.slope_low)
    other = found.effects(ensemble=few).slope_low
    assert not np.array_equal(other, before.slope_low, equal_nan=True)
    with pytest.raises(ValueError, match=r"what found\.resample"):
        found.effects(ensemble=found)
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


@pytest.mark.slow
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
        (("ice", "sun"), "ice -> sun is not an edge"),
        (("sun", "heat", 0), "lag: sun -> heat has lags of 2 samples; got 0"),
        (("sun", "heat", "2"), "lag must be a lag in samples"),
        (("moon", "heat"), "source must be one of"),
    ],
)
def test_curves_are_of_kept_edges(found, arguments, message):
    with pytest.raises(ValueError, match=message):
        found.effects().curve(*arguments)


def test_frames_and_words(found):
    frame = found.effects().to_frame()
    assert list(frame["source"][:1]) == ["sun"] and len(frame) == TRUTH.sum()
    assert "sun at lag 2 -> heat" in repr(found.effects())
    assert "in 100% of resamples" in repr(found.effects())


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


def test_one_of_a_kind_is_told_in_the_singular():
    x = np.zeros(80)
    for k in range(79):
        x[k + 1] = 0.5 * x[k] + np.random.default_rng(k).normal()
    found = ndde.discover(x, dt=1.0, lags=(0,), recipe=ndde.Recipe.fast(), key=KEY)
    assert repr(found).startswith("Discovery of 1 variable at")
    assert "1 variable (x0), 80 samples" in found.report(full=True)
    assert repr(found.effects()).startswith("Effects of 1 edge, ")
    forecast = repr(found.forecast(1, paths=1, key=KEY))
    assert forecast.startswith("Forecast, 1 path from") and forecast.count("to") == 1
    change = repr(found.intervene({"x0": 0.0}, horizon=1, paths=1, key=KEY))
    assert change.startswith("Intervention, 1 pair of paths from") and "interval" not in change
    assert "1 edge in all" in repr(found.resample(resamples=2))
    with pytest.raises(ValueError, match="it holds 1 window, "):
        ndde.discover(x[:2], dt=1.0, lags=(0,), key=KEY)


# ---- for other programs ----


def test_json_and_dot_hold_every_edge(found):
    about = json.loads(found.to_json())
    assert about["variables"] == list(NAMES) and len(about["edges"]) == TRUTH.sum()
    edge = next(e for e in about["edges"] if (e["source"], e["target"]) == ("heat", "ice"))
    assert (edge["lag"], edge["delay"], edge["sign"]) == (4, 1.0, -1)
    assert '"heat" -> "ice" [style=dashed, label="4"];' in found.to_dot()
    assert found.to_dot().count("->") == TRUTH.sum()


@pytest.mark.parametrize("steps", [np.ones(15), np.arange(60) % 3 + 1.0])
def test_a_graph_without_effects_is_exported_too(steps):
    """Too few samples, and some that are not equally spaced."""
    x, t = np.random.default_rng(0).normal(size=(len(steps), 2)), np.cumsum(steps)
    found = ndde.discover(x, t=t, treat=False, lags=(0,), recipe=ndde.Recipe.fast(), key=KEY)
    assert found.graph.any()
    for edge in json.loads(found.to_json())["edges"]:
        assert edge["slope"] is None and edge["sign"] is None and edge["score"] > 0
    assert found.to_dot().count("[style=solid]") == found.graph.sum()


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


@pytest.mark.parametrize(
    ("package", "export", "remedy"),
    [
        ("networkx", "to_networkx", "pip install networkx"),
        ("xarray", "to_xarray", r"pip install \"ndde_jax\[data\]\""),
    ],
)
def test_an_export_says_what_to_install(found, monkeypatch, package, export, remedy):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"{export} needs {package}: {remedy}"):
        getattr(found, export)()


def test_results_are_equal_to_themselves_alone(found):
    """Arrays inside cannot be compared by ==."""
    ensemble = found.resample(resamples=2)
    given = dict(key=KEY, ensemble=ensemble)
    made = (
        found, found.samples, ensemble, found.effects(ensemble=ensemble),
        found.forecast(2, paths=2, **given),
        found.intervene({"sun": 1.0}, horizon=2, paths=2, **given),
    )  # fmt: skip
    for result in made:
        other = copy.copy(result)
        assert result == result and result != other and len({result, other, result}) == 2


def test_an_ensemble_is_told_in_a_line(found):
    made = found.resample(resamples=4)
    counts = made.graphs.sum(axis=0)
    in_all = (counts == 4).sum()
    edges = f"{in_all} edges in all of them, {(counts > 0).sum() - in_all} in some"
    text = repr(made)
    assert text.startswith("Ensemble of 4 halves of 1495 steps: ") and edges in text
    assert len(text) < 150


def test_xarray_is_read_by_name(found):
    pytest.importorskip("xarray")
    data = found.to_xarray()
    edge = data.sel(source="heat", target="ice", lag=4)
    i, j = NAMES.index("heat"), NAMES.index("ice")
    place = (i, j, found.lags.index(4))
    assert bool(edge.graph) and float(edge.delay) == 4 * float(found.dt)
    assert float(edge.score) == float(found.scores[place])
    assert float(edge.delay_low) == found.delay_intervals[place][0]
    assert float(data.source_score.sel(source="heat", target="ice")) == found.source_scores[i, j]
    assert int(data.graph.sum()) == TRUTH.sum() and data.attrs["time_unit"] == found.time_unit


@pytest.mark.slow
def test_members_are_confined_where_the_regression_stands_alone(found):
    """Far outside the data the columns of a regression are constant, and nothing pulled back."""
    model = ndde.confine(found.model, windows=found.windows)
    member = found.resample().members(model, np.array([0]))
    at, far = found.lags.index(0), np.zeros((len(LAGS), len(NAMES)))
    far[at] = model.center + 3 * model.radius
    for trust in (0.0, 1.0):
        own = eqx.tree_at(
            lambda m: (m.trust, m.theta),
            member,
            (jnp.full_like(member.trust, trust), jnp.zeros_like(member.theta)),
        )
        np.testing.assert_allclose(
            own.each(jnp.asarray(far)[None])[0],
            -2 * model.rate * model.radius + trust * model.model(far),
            rtol=1e-4,
        )
    damped = ndde.models.damp(found.model, rate=2.0)
    alone = found.resample().members(damped, np.array([0]))
    alone = eqx.tree_at(lambda m: m.trust, alone, jnp.zeros_like(alone.trust))
    expected = alone.theta[0] @ alone.basis(far)
    np.testing.assert_allclose(alone.each(jnp.asarray(far)[None])[0], expected, rtol=1e-4)


# ---- noise ----


def test_the_noise_matrix_is_that_of_the_system_and_simulates_its_spread():
    """The noise of an Ornstein–Uhlenbeck process, whose transitions and stationary covariance are
    known in closed form.
    """
    from scipy.linalg import expm, solve_continuous_lyapunov

    a, true, dt = np.array([[-1.0, 0.6], [0.0, -0.7]]), np.array([[0.5, 0.0], [0.3, 0.4]]), 0.1
    spread = solve_continuous_lyapunov(a, -true @ true.T)
    step = expm(a * dt)
    root = np.linalg.cholesky(spread - step @ spread @ step.T)
    rng, x = np.random.default_rng(0), np.zeros((4000, 2))
    for k in range(len(x) - 1):
        x[k + 1] = step @ x[k] + root @ rng.normal(size=2)
    found = ndde.discover(x, dt=dt, lags=(0,), key=KEY)
    sigma = found.sigma
    assert np.all(np.triu(sigma, 1) == 0)
    np.testing.assert_allclose(sigma @ sigma.T, true @ true.T, rtol=0.12)
    noise = dict(sigma=sigma, key=jax.random.key(2))
    path = ndde.solve_sdde(found.model, n_steps=40_000, history=x, **noise).ys[1000:]
    np.testing.assert_allclose(np.cov(path.T), spread, rtol=0.25)


def test_the_noise_of_a_step_and_that_of_the_equation_differ_by_what_the_drift_forgets():
    """Against the exact covariance of a step of a linear equation with complex eigenvalues."""
    from scipy.linalg import expm, solve_continuous_lyapunov

    a, dt = np.array([[-1.0, 2.0, 0.0], [-2.0, -0.5, 0.3], [0.0, 0.4, -3.0]]), 0.4
    root = np.array([[0.5, 0.0, 0.0], [0.3, 0.4, 0.0], [0.1, -0.2, 1.0]])
    spread, step = solve_continuous_lyapunov(a, -root @ root.T), expm(a * dt)
    covariance = spread - step @ spread @ step.T
    np.testing.assert_allclose(diffusion_of(covariance, a, dt), root @ root.T, atol=1e-12)
    # Without slopes nothing is forgotten, and of equal ones without eigenvectors nothing is known.
    np.testing.assert_allclose(diffusion_of(covariance, 0 * a, dt), covariance / dt, rtol=1e-12)
    one = np.diag([-1.0, -1.0, -1.0]) + np.diag([1.0, 1.0], 1)
    np.testing.assert_array_equal(diffusion_of(covariance, one, dt), covariance / dt)


def test_a_coarsely_sampled_flow_has_the_noise_of_its_equation():
    """Steps of half a memory have .79 of its covariance."""
    rng, x, kept = np.random.default_rng(0), np.zeros((3000, 2)), np.exp(-0.5)
    root = np.array([0.5, 0.2]) * np.sqrt((1 - kept**2) / 2)
    for k in range(len(x) - 1):
        x[k + 1] = kept * x[k] + root * rng.normal(size=2)
    found = ndde.discover(x, dt=0.5, lags=(0,), recipe=ndde.Recipe(scheme="midpoint"), key=KEY)
    np.testing.assert_allclose(np.sqrt(np.diag(found.sigma @ found.sigma.T)), [0.5, 0.2], rtol=0.05)


def test_the_noise_matrix_of_a_map_makes_the_noise_of_its_steps():
    rng, x = np.random.default_rng(1), np.zeros((2000, 2))
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]])
    noise = rng.multivariate_normal([0, 0], covariance, size=len(x))
    for k in range(2, len(x)):
        x[k] = [0.5 * x[k - 1, 0], 0.3 * x[k - 1, 1] + 0.8 * x[k - 2, 0]] + noise[k]
    found = ndde.discover(x, dt=0.5, lags=(0, 1, 2), key=KEY)
    sigma = found.sigma * np.sqrt(0.5)
    np.testing.assert_allclose(sigma @ sigma.T, covariance, atol=0.15)
