"""The main function: its results, and symmetries."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.select._strategies import recovery

from .small import (
    DT,
    LAGS,
    NAMES,
    STRENGTH,
    TRUTH,
    X,
    assert_same_scores,
    assert_same_windows,
    discover,
)


def test_finds_graph_and_drift_of_a_map(found):
    np.testing.assert_array_equal(found.graph, TRUTH)
    assert found.scores[TRUTH].min() > 0.05 > 0.01 > np.abs(found.scores[~TRUTH]).max()
    assert (found.lower[TRUTH] > 0).all()
    assert (found.names, found.lags, found.dt, found.time_unit) == (NAMES, LAGS, DT, "h")
    for array in (found.graph, found.scores, found.lower):
        assert isinstance(array, np.ndarray) and array.shape == (2, 2, 2)
    now, past = X[2:-1], X[:-3]
    drift = jax.vmap(found.model)(jnp.asarray(np.stack([now, past], axis=1)))
    true = np.stack(
        [-0.7 * now[:, 0] + np.tanh(past[:, 1]), -1.6 * now[:, 1] + 0.7 * past[:, 1]], axis=1
    )
    error = np.sqrt(np.mean((drift - true / DT) ** 2, axis=0)) / np.std(true / DT, axis=0)
    assert error[0] < 0.01 and error[1] < 0.1  # the second equation is driven by noise


def test_sources_are_ranked_whatever_the_delay(found):
    assert found.source_scores.shape == (2, 2)
    # On the scale of explained variance, nearly all of two rates.
    assert 1.7 < found.source_scores.sum() <= 2
    absent = ~TRUTH.any(axis=2)
    assert found.source_scores[absent].max() < 0.1 * found.source_scores[~absent].min()


def test_model_uses_the_graph_and_nothing_else(found):
    np.testing.assert_array_equal(np.transpose(found.model.mask, (2, 0, 1)), found.graph)
    gradient = jax.jit(jax.jacobian(found.model))(jnp.asarray([[0.3, -0.2], [0.4, 0.1]]))
    used = np.transpose(np.asarray(gradient) != 0, (2, 0, 1))  # [target lag source]
    np.testing.assert_array_equal(used, found.graph)


def test_report_is_about_this_discovery(found):
    report = found.report(full=True)
    assert "197 windows" in report
    edges = report.partition("Edges kept")[2].partition("Findings")[0]
    # One link, of a map: a source at lag 2 moves the level after 3 samples of half an hour.
    links = re.findall(r"^(\S+ → \S+)  +(.*?)  ", edges, flags=re.MULTILINE)
    assert links[0] == ("driver → driven", "1.5 h")
    assert {link for link, _ in links[1:]} == {"driven → itself", "driver → itself"}
    assert found.verdict == "supported" and report.startswith("Verdict: supported.")


def test_coefficient_sets_the_price(found):
    priced = discover(X, dt=DT, coefficient=4 * 0.1)
    assert priced.coefficient == 0.4
    np.testing.assert_array_equal(priced.graph, priced.scores > 0.1)
    assert (priced.graph <= (found.scores > 0.05)).all()
    assert 0 < priced.graph.sum() < found.graph.sum()
    np.testing.assert_array_equal(np.transpose(priced.model.mask, (2, 0, 1)), priced.graph)


@pytest.mark.parametrize(
    "recipe",
    [
        ndde.Recipe.fast(),
        ndde.Recipe(strategy=ndde.select.Splines()),
        ndde.Recipe(strategy=ndde.select.Moves(refit=STRENGTH), family=ndde.models.Polynomials()),
    ],
    ids=["fast", "a strategy", "a strategy and a family"],
)
def test_other_recipes_find_the_graph(found, recipe):
    other = discover(X, dt=DT, names=NAMES, recipe=recipe)
    np.testing.assert_array_equal(other.graph, TRUTH)
    assert not other.networks.any()
    assert_same_scores(other.scores[TRUTH], found.scores[TRUTH], atol=0.05)
    assert other.recipe.strategy == recipe.strategy
    name = "moves" if isinstance(recipe.strategy, ndde.select.Moves) else "splines"
    assert name in other.report(full=True)


@pytest.mark.slow
def test_gates_alone_bring_their_networks():
    config = ndde.FitConfig(max_steps=100, warmup="adam", warmup_steps=0, refine="none", width=4)
    gates = ndde.select.Gates(config=config, improve=False)
    recipe = ndde.Recipe(strategy=gates, scheme="euler", confine=False, delays=False)
    key = jax.random.key(0)
    found = ndde.discover(X, dt=DT, lags=LAGS, recipe=recipe, key=key)
    search_key, _ = jax.random.split(key)
    alone = ndde.recover(found.windows, gates, key=search_key)
    np.testing.assert_array_equal(found.graph, alone.graph)
    assert eqx.tree_equal(found.model, alone.details.model)


@pytest.mark.slow
def test_what_no_spline_describes_is_left_to_networks():
    """A ridge function of three inputs, which is no sum of products of two."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    for k in range(799):
        x[k + 1, 0] = np.tanh(2 * x[k] @ np.array([1.0, 1.0, -1.0])) + 0.1 * x[k + 1, 0]
    # One hidden unit is such a ridge.
    refit = dataclasses.replace(STRENGTH, steps=60, fold_steps=30)
    options = dict(dt=1.0, lags=(0,), scheme="euler", key=jax.random.key(0))
    recipe = ndde.Recipe(strategy=ndde.select.Default(networks=refit))
    found = ndde.discover(x, recipe=recipe, names=("a", "b", "c"), **options)
    assert found.networks[0] and found.graph[:, 0, 0].all()
    assert "networks explained more of a," in found.report(full=True).replace("\n", " ")
    fast = ndde.discover(x, recipe=ndde.Recipe.fast(), **options)
    assert not fast.networks.any()
    assert found.strengths.risk[0] < 0.5 * fast.strengths.risk[0]


def test_a_recipe_is_a_value(found):
    with pytest.raises(ValueError, match=r"Recipe\.fast\(\)"):
        discover(X, dt=DT, recipe=ndde.Recipe)
    with pytest.raises(ValueError, match="Mind the parentheses"):
        ndde.Recipe(strategy=ndde.select.Gates)
    for bad in (dict(passes=0), dict(scheme="upwind"), dict(strategy=1), dict(family="net")):
        with pytest.raises(ValueError, match=next(iter(bad))):
            ndde.Recipe(**bad)


def test_equations_of_a_discovery(found):
    """The equation of the driver; the driven variable follows a hyperbolic tangent."""
    key = jax.random.key(0)
    _, text = found.equations(key=key, rounds=0, family="polynomial")
    number = r"([0-9.]+)"
    match = re.fullmatch(rf"ddriver/dt = -{number} driver \+ {number} driver\[t-1\]", text)
    assert match, text
    # By default it is compared with the drift that was found; the other law is not polynomial.
    other, same = found.equations(key=key)
    assert re.fullmatch(rf"ddriver/dt = -{number} driver \+ {number} driver\[t-1\]", same), same
    assert other.startswith("ddriven/dt = f(") or other.count("^3")
    np.testing.assert_allclose([float(value) for value in match.groups()], [3.2, 1.4], atol=0.1)


def test_nothing_is_worth_any_price():
    nothing = discover(X, dt=DT, coefficient=100.0)
    assert not nothing.graph.any()
    assert "none: no candidate input explains" in nothing.report()
    rate = np.diff(X, axis=0)[2:].mean(axis=0) / DT
    drift = nothing.model(jnp.asarray([[0.3, -0.2], [0.4, 0.1]]))
    np.testing.assert_allclose(drift, rate, atol=0.01)


def test_scheme_is_chosen_by_default(found, windows_of):
    assert_same_windows(windows_of(X, dt=DT, scheme="auto"), found.windows)
    time = 0.1 * np.arange(300)
    smooth = np.stack([np.sin(time), np.cos(time)], axis=1)
    assert windows_of(smooth, dt=0.1, scheme="auto").scheme == "central4"


def delayed_and_smooth(n=1000):
    """dX = (2 sin 2X(t − 1) − X) dt + 0.05 dW, every 0.2 of an Euler–Maruyama path."""
    rng, x = np.random.default_rng(0), np.ones(20 * (n + 50))
    for k in range(100, len(x) - 1):
        x[k + 1] = x[k] + 0.01 * (2 * np.sin(2 * x[k - 100]) - x[k]) + 0.005 * rng.normal()
    return x[1000::20]


@pytest.mark.slow
def test_smooth_samples_of_a_delayed_system_are_taken_midway():
    options = dict(dt=0.2, lags=(0, 3, 5, 7), scheme="auto")
    found = discover(delayed_and_smooth(), **options)
    assert found.windows.scheme == "midpoint"
    np.testing.assert_array_equal(found.graph[0, 0], [True, False, True, False])
    assert "takes 'midpoint', as was done" in found.windows.explain()
    # The residual rates are those that the first model corrected.
    plain = ndde.select.midpoint_windows(delayed_and_smooth(), dt=0.2, lags=(0, 3, 5, 7))
    assert not np.allclose(found.windows.increment, plain.increment, atol=1e-6)


def test_midpoints_can_be_asked_for(windows_of):
    same = ndde.select.midpoint_windows(X, dt=DT, lags=LAGS)
    assert_same_windows(windows_of(X, dt=DT, scheme="midpoint"), same)
    stamps = DT * np.arange(len(X))
    once = (lag for lag in LAGS)  # an iterable need not last
    assert_same_windows(windows_of(X, t=stamps, lags=once, scheme="midpoint"), same)
    with pytest.raises(ValueError, match="'midpoint' needs equally spaced samples"):
        discover(X, t=stamps + 0.1 * np.sin(np.arange(len(X))), scheme="midpoint")


@pytest.mark.parametrize("scheme", ["midpoint", "central"])
def test_a_row_may_be_missing_for_every_scheme(windows_of, scheme):
    there, stamps = np.arange(len(X)) != 100, DT * np.arange(len(X))
    empty = np.where(there[:, None], X, np.nan)
    same = windows_of(empty, t=stamps, scheme=scheme)
    assert_same_windows(windows_of(X[there], t=stamps[there], scheme=scheme), same)


def test_irregular_samples_end_to_end():
    """The map as an Euler scheme with steps of unequal length."""
    rng = np.random.default_rng(1)
    step = rng.uniform(0.8, 1.2, size=len(X) - 1)
    x = X.copy()
    for k in range(2, len(X) - 1):
        drift = np.array(
            [-0.7 * x[k, 0] + np.tanh(x[k - 2, 1]), -1.6 * x[k, 1] + 0.7 * x[k - 2, 1]]
        )
        x[k + 1] = x[k] + step[k] * drift + [0, 0.3 * np.sqrt(step[k]) * rng.normal()]
    irregular = discover(x, t=DT * np.concatenate([[0], np.cumsum(step)]))
    np.testing.assert_array_equal(irregular.graph, TRUTH)
    assert "not equally spaced" in irregular.report(full=True)
    np.testing.assert_allclose(irregular.dt, DT * step.mean())


def test_a_record_may_begin_with_missing_values(found):
    late = X.copy()
    late[:4, 0] = np.nan
    np.testing.assert_array_equal(discover(late, dt=DT, treat=False).graph, found.graph)


def test_missing_values_are_left_out(found):
    x = X.copy()
    x[[20, 90], [0, 1]] = np.nan
    gaps = discover(x, dt=DT, treat=False)
    # Each sample is missing as present state, next state and lagged state.
    assert int(gaps.windows.dropped) == 6
    np.testing.assert_array_equal(gaps.graph, TRUTH)
    assert_same_scores(gaps.scores, found.scores, atol=0.03)


def test_progress_is_shown_on_request_only(found, capsys):
    discover(X, dt=DT)
    assert capsys.readouterr() == ("", "")
    discover(X, dt=DT, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    for stage in ("measuring edges", "estimating delays", "2/2"):
        assert stage in err


# ---- symmetries ----


@pytest.mark.parametrize("dt", [DT, 86400.0])
def test_units_change_nothing_but_the_model(found, dt):
    scale, shift = np.array([1000.0, 3e-4]), np.array([-50.0, 12.0])
    other = discover(X * scale + shift, dt=dt)
    np.testing.assert_array_equal(other.graph, found.graph)
    assert_same_scores(other.scores, found.scores)
    history = jnp.asarray([[0.3, -0.2], [0.4, 0.1]])
    np.testing.assert_allclose(
        other.model(history * scale[None] + shift[None]) / scale * dt,
        found.model(history) * DT,
        atol=0.01,
    )


def test_permuting_variables_permutes_the_graph(found):
    other = discover(X[:, ::-1], dt=DT)
    np.testing.assert_array_equal(other.graph[::-1, ::-1], found.graph)
    assert_same_scores(other.scores[::-1, ::-1], found.scores)


@pytest.mark.slow
def test_a_strategy_searches_windows_that_all_passes_have_corrected(monkeypatch):
    """By drifts on the results of splines, like the windows of the default."""
    seen = []

    def recover(windows, *args, **options):
        seen.append(windows)
        return ndde.recover(windows, *args, **options)

    monkeypatch.setattr("ndde_jax._discover.recover", recover)
    options = dict(dt=DT, scheme="midpoint")
    recipe = ndde.Recipe(strategy=ndde.select.Splines(), passes=3)
    found = discover(X, recipe=recipe, **options)
    (searched,) = seen
    np.testing.assert_array_equal(found.windows.history, searched.history)
    by_default = discover(
        X, recipe=ndde.Recipe(strategy=ndde.select.Default(networks=None), passes=3), **options
    )
    np.testing.assert_array_equal(by_default.windows.history, searched.history)
    once = discover(
        X, recipe=ndde.Recipe(strategy=ndde.select.Default(networks=None), passes=1), **options
    )
    assert not np.array_equal(once.windows.history, searched.history)


class Given(ndde.select.AbstractStrategy):
    """A search that returns a known graph, for any windows."""

    graph: jax.Array

    def search(self, windows, price, key):
        scores, risk = self.graph.astype(windows.history.dtype), jnp.full(windows.dim, 0.5)
        return recovery(windows, self.graph, scores, risk, jnp.nan, None)


def test_any_strategy_gets_strengths_bounds_delays_verdict_and_report(found):
    """A search that returns its own graph, with one edge too many, measured like any other."""
    graph = np.array(found.graph)
    graph[0, 1, 0] = True
    recipe = ndde.Recipe(strategy=Given(jnp.asarray(graph)))
    own = discover(X, dt=DT, names=NAMES, recipe=recipe)
    np.testing.assert_array_equal(own.graph, graph)
    # The other target's inputs are those that were found.
    np.testing.assert_allclose(own.scores[:, 0], found.scores[:, 0], atol=0.05)
    assert (own.lower[graph] < own.scores[graph]).all() and (own.lower[:, 0][TRUTH[:, 0]] > 0).all()
    assert np.isfinite(own.delays[graph]).all() and np.isfinite(own.held_out).all()
    assert own.verdict in ("supported", "with reservations", "not supported")
    assert "Graph found by given." in own.report(full=True).replace("\n", " ")


def test_recover_finds_what_discover_does(found):
    again = ndde.recover(found.windows, found.recipe.strategy, key=jax.random.key(5))
    np.testing.assert_array_equal(again.graph, found.graph)
    np.testing.assert_allclose(again.measured.strengths.lower, found.lower, atol=0.01)


def hutchinson(seed, n=1500, noise=0.02):
    """x' = 1.8 x (1 - x(t - 1)), every .1; Euler's method with 20 steps between samples."""
    h, lag = 0.005, 200
    rng, x = np.random.default_rng(seed), np.full(20 * n + 12_000, 0.5)
    for k in range(lag, len(x) - 1):
        drift = 1.8 * x[k] * (1 - x[k - lag])
        x[k + 1] = x[k] + h * drift + noise * np.sqrt(h) * rng.normal()
    return x[12_000::20]


@pytest.mark.slow
def test_candidates_go_on_where_the_last_was_kept():
    """Lags up to eight samples are chosen, the last of which is a proxy for ten."""
    found = ndde.discover(hutchinson(1), dt=0.1, key=jax.random.key(0))
    assert any("with lags up to 8, the last one was kept" in choice for choice in found.choices)
    delay = found.delays[0, 0][found.graph[0, 0]].max()
    low, high = found.delay_intervals[0, 0][found.graph[0, 0]].max(axis=0)
    assert low < 1 < high and abs(delay - 1) < 0.02
