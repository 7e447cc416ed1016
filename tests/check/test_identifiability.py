"""Stability on halves, and the report that combines all results."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.check._graph_rules import evidence_of_windows
from ndde_jax.select._strategies import recovery
from ndde_jax.windows._windows import FlatData
from tests.helpers import QUICK, TRUTH, networks, windows

FIT = ndde.FitConfig(max_steps=400, newton_steps=10, batch_size=64, width=4, learning_rate=5e-3)
STRATEGY = ndde.select.Gates(ndde.L0NDDE(path=(0.01, 0.1)), FIT, QUICK)


# ---- stability ----


@pytest.mark.slow
def test_stability_on_the_easy_system():
    found = ndde.measure.edge_stability(windows(), key=jr.key(0), seeds=1, strategy=STRATEGY)
    assert found.graphs.shape == (3, 3, 3, 1)
    np.testing.assert_array_equal(found.selected[:, :, 0] == 1, TRUTH.T)
    np.testing.assert_allclose(found.selected, np.mean(found.graphs, axis=0), rtol=1e-6)
    assert float(jnp.min(found.open[TRUTH.T[:, :, None]])) > 0.6


def test_the_price_reaches_the_strategy():
    class Priced(ndde.select.AbstractStrategy):
        def search(self, windows, price, key):
            graph = jnp.full((3, 3, 1), price is not None and float(price.coefficient) == 2.0)
            risk = jnp.ones(3, jnp.float32)
            return recovery(windows, graph, graph.astype(jnp.float32), risk, risk, None)

    for price, share in ((2.0, 1), (None, 0)):
        found = ndde.measure.edge_stability(
            windows(), key=jr.key(0), seeds=1, strategy=Priced(), price=price
        )
        np.testing.assert_array_equal(found.selected, share)
        np.testing.assert_array_equal(found.open, share)


def test_stability_refusals():
    with pytest.raises(ValueError, match="seeds must be at least 1"):
        ndde.measure.edge_stability(windows(), key=jr.key(0), seeds=0)
    for strategy, price, message in [
        (ndde.select.Gates, None, r"Mind the parentheses"),
        ("splines", None, "strategy must be a strategy such as"),
        (lambda windows, key: None, 0.1, "price applies to a strategy"),
    ]:
        with pytest.raises(ValueError, match=message):
            ndde.measure.edge_stability(windows(), key=jr.key(0), strategy=strategy, price=price)
    x = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(ValueError, match="longer record"):
        ndde.measure.edge_stability(ndde.lagged_windows(x, dt=1.0), key=jr.key(0))


# ---- the report ----

N = 403


def driven(n=N):
    """Noise explores; the second variable drives the first three samples later."""
    rng = np.random.default_rng(1)
    x = np.zeros((n, 2))
    for k in range(3, n - 1):
        x[k + 1] = 0.5 * x[k] + 0.5 * rng.normal(size=2)
        x[k + 1, 0] += np.tanh(2 * x[k - 3, 1])
    return x


def cycle():
    """A limit cycle without noise: one number, the phase, determines everything."""
    t = 0.3 * np.arange(N)
    return np.stack([np.sin(t) + 0.3 * np.sin(2 * t), np.cos(t) + 0.2 * np.cos(3 * t)], axis=1)


def report_on(x, **options):
    w = ndde.lagged_windows(x, dt=1.0, lags=(0, 3))
    settings = dict(strategy=STRATEGY, config=QUICK, seeds=1)
    return ndde.identifiability_report(
        w, names=("wind", "sea"), key=jr.key(0), **(settings | options)
    )


@pytest.fixture(scope="module")
def good():
    return report_on(driven())


@pytest.mark.slow
def test_good_data_are_supported(good):
    assert good.supported, str(good)
    assert bool(good.graph[1, 0, 1])
    assert good["stable edges"] == 1
    assert "replaceable edges" not in {finding.name for finding in good.findings}
    assert good.verdict == "supported" and "refits on parts" in good.verdict.lines[0]
    assert good["windows per input"] == pytest.approx(399 / 4)
    kept = np.asarray(good.strengths.value)[good.graph]
    assert good["smallest signal strength"] == pytest.approx(kept.min())
    assert good["largest in-degree"] == good.graph.sum(axis=(0, 2)).max()
    # The window is that of the strengths against all inputs, which are not larger.
    alone = np.asarray(good.alone)
    np.testing.assert_array_equal(np.isfinite(alone), good.graph)
    assert good["smallest strength against all inputs"] == pytest.approx(np.nanmin(alone))
    assert np.nanmin(alone) < kept.min() + 0.02
    smallest = max(float(np.nanmin(alone)), 0)
    assert good["penalty window"] == pytest.approx(smallest / good["largest in-degree"], rel=1e-5)
    assert good["reach of the noise"] > 1
    assert good["share outside the box"] == 0
    assert good["radial drift"] < 0


@pytest.mark.slow
def test_every_number_is_labelled(good):
    kinds = {finding.name: finding.kind for finding in good.findings}
    assert set(kinds.values()) == {"measured", "estimated", "assumed"}
    assert kinds["stable edges"] == "measured"
    assert kinds["smallest signal strength"] == "estimated"
    assert kinds["no hidden driver"] == "assumed"
    assert all(finding.text for finding in good.findings)
    with pytest.raises(KeyError, match="no finding 'weather'"):
        good["weather"]


@pytest.mark.slow
def test_text(good):
    text = str(good)
    assert repr(good) == text
    assert max(map(len, text.splitlines())) <= 88
    assert "sea@3 → wind" in text
    for title in ("Measured:", "Estimated:", "Assumed:"):
        assert title in text
    assert text.startswith("Verdict: supported, refits on parts of the data included.")


@pytest.mark.parametrize("least", [0.06, -0.01])
def test_the_window_is_that_of_the_strengths_against_all_inputs(least):
    """Relative to the graph every edge is worth 1. Against all inputs the weakest is worth almost
    nothing, or by chance less than nothing, and then no price is inside.
    """
    x = np.random.default_rng(0).normal(size=(60, 2))
    w = ndde.lagged_windows(x, dt=1.0, lags=(0, 1))
    ones, two = jnp.ones((2, 2, 2)), jnp.ones(2)
    strengths = ndde.measure.SignalStrengths(
        *[ones] * 3, *[ones[..., 0]] * 2, ones > 0, two, two, 0.01 * two, w.prior
    )
    drift = networks(2, 2, width=2, depth=1, key=jr.key(0))
    model = ndde.models.NeuralDDE(drift, ones > 0, w.scaling, w.dt, w.lags)
    alone = np.full((2, 2, 2), 0.5)
    alone[1, 0, 1] = least
    lines = []
    for known in (None, alone):
        found = evidence_of_windows(w, model, strengths, None, ("wind", "sea"))
        found = dataclasses.replace(found, alone=known)
        rules = ("penalty window", "smallest strength against all inputs")
        told = [finding for name in rules for finding in ndde.check.RULES[name].findings(found)]
        lines.append({finding.name: finding for finding in told})
    wide, narrow = lines
    assert wide["penalty window"].value == pytest.approx(1 / 4)
    assert "at most (0, ŝ²_min / d_max)" in wide["penalty window"].text
    assert narrow["penalty window"].value == pytest.approx(max(least, 0) / 4)
    finding = narrow["smallest strength against all inputs"]
    assert finding.value == pytest.approx(least) and "sea@1 → wind" in finding.text
    assert (least < 0) == ("empty" in narrow["penalty window"].text)


def quick_report_on(x):
    """Without refits of parts."""
    w = ndde.lagged_windows(x, dt=1.0, lags=(0, 3))
    strengths = ndde.signal_strengths(w, graph="full", key=jr.key(0), config=QUICK)
    model = ndde.fitting.fit_graph(w, strengths.kept(), key=jr.key(0), config=QUICK)
    return ndde.identifiability_report(w, strengths=strengths, model=model)


@pytest.mark.slow
def test_short_data_are_not_supported():
    report = quick_report_on(driven(30))
    assert not report.supported
    assert any(problem.startswith("26 windows for 4 candidate") for problem in report.problems)


@pytest.mark.slow
def test_collinear_inputs_are_not_supported():
    x = driven()
    x[:, 0] = x[:, 1] + 1e-5 * np.random.default_rng(2).normal(size=N)
    report = report_on(x)
    assert not report.supported
    assert any("could be replaced by another variable" in text for text in report.problems)
    assert report["condition number"] > 1e4 and report["replaceable edges"] > 0


@pytest.mark.slow
def test_an_orbit_that_does_not_explore_is_not_supported():
    report = report_on(cycle())
    assert not report.supported
    assert "could be replaced by another variable" in " ".join(str(report).split())
    assert report["reach of the noise"] < 1 or report["noise share"] < 1e-3


def test_a_rate_without_drivers_is_not_supported():
    x = np.random.default_rng(5).normal(size=(N, 2)).cumsum(axis=0)
    report = quick_report_on(x)
    assert not report.supported
    assert any("as an edge must explain" in text for text in report.problems), str(report)


@pytest.mark.slow
def test_nothing_is_fitted_without_a_key(good):
    w = ndde.lagged_windows(driven(), dt=1.0, lags=(0, 3))
    model = ndde.fitting.fit_graph(w, good.graph, key=jr.key(0), config=QUICK)
    quick = ndde.identifiability_report(w, strengths=good.strengths, model=model)
    assert quick.stability is None and quick.joint is None and quick.thinned is None
    assert quick["smallest signal strength"] == good["smallest signal strength"]
    assert "refits" not in quick.verdict.lines[0] and not quick.problems
    with pytest.raises(ValueError, match="Pass key; or pass strengths and model"):
        ndde.identifiability_report(w, strengths=good.strengths)
    with pytest.raises(ValueError, match="names must be 2"):
        ndde.identifiability_report(w, strengths=good.strengths, model=model, names=("a",))
    with pytest.raises(ValueError, match="one system"):
        ndde.identifiability_report(ndde.stack_windows([w, w]), key=jr.key(0))


@pytest.mark.slow
def test_a_price_outside_the_window_is_said(good):
    w = ndde.lagged_windows(driven(), dt=1.0, lags=(0, 3))
    model = ndde.fitting.fit_graph(w, good.graph, key=jr.key(0), config=QUICK)
    weakest, candidates = good["smallest signal strength"], 4
    # A target with more than one edge: dropping all of them saves more than the weakest is worth.
    assert good["largest in-degree"] == 2

    def at(share):
        return ndde.identifiability_report(
            w, strengths=good.strengths, model=model, coefficient=share * weakest * candidates
        )

    for share, outside in ((0.1, False), (0.45, False), (0.55, True), (0.9, True)):
        report = at(share)
        (line,) = (f.text for f in report.findings if f.name == "penalty window")
        assert ("outside it" in line) is outside and (report["margin"] < 0) is outside


@pytest.mark.slow
def test_settings_of_rows_survive():
    """Halves and thinned windows keep the prior."""
    w = eqx.tree_at(lambda w: w.prior, windows(), ndde.prior_knowledge(3, forbidden=[(1, 0)]))
    found = ndde.measure.edge_stability(w, key=jr.key(0), seeds=1, strategy=STRATEGY)
    assert not bool(jnp.any(found.graphs[:, 1, 0]))
    x = np.random.default_rng(0).normal(size=(80, 2)).cumsum(axis=0)
    w = ndde.lagged_windows(x, dt=1.0, prior=ndde.prior_knowledge(2, self_edges=False))
    thinned = ndde.windows.thin_windows(w, 2)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), w.prior, thinned.prior))
    assert FlatData(thinned).allowed.sum() == 2


def test_a_discovery_selects_again_as_it_did(monkeypatch):
    rng, x = np.random.default_rng(0), np.zeros((600, 2))
    for k in range(2, 599):
        x[k + 1, 0] = 0.5 * x[k, 0] + 0.5 * rng.normal()
        x[k + 1, 1] = 0.3 * x[k, 1] + np.tanh(x[k - 2, 0]) + 0.3 * rng.normal()
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 2))
    seen = []

    def select(half, key):
        seen.append(int(half.n_valid))
        return ndde.select.spline_graph(half).graph

    stability = ndde.measure.edge_stability(
        windows, key=jax.random.key(0), seeds=1, strategy=select
    )
    assert len(seen) == 3 and max(seen) <= 300
    np.testing.assert_array_equal(stability.selected, stability.graphs.mean(axis=0))
    np.testing.assert_array_equal(stability.open, stability.selected)
    found = ndde.discover(
        x, dt=1.0, lags=(0, 2), scheme="euler", recipe=ndde.Recipe.fast(), key=jax.random.key(0)
    )

    class Asked(Exception):
        pass

    def asked(_, finder, *__):
        raise Asked(finder.strategy, finder.seeds)

    monkeypatch.setattr("ndde_jax._discovery.examine", asked)
    strategy = ndde.select.Splines(shortlist=3)
    by_strategy = dataclasses.replace(found, recipe=ndde.Recipe(strategy=strategy))
    with pytest.raises(Asked) as caught:
        by_strategy.identifiability(key=jax.random.key(0))
    assert caught.value.args == (strategy, 1)  # nothing in it is random
    # The default searches with information from the samples, and finds the same graph again.
    with pytest.raises(Asked) as caught:
        found.identifiability(key=jax.random.key(0))
    again = ndde.recover(found.windows, caught.value.args[0], key=jax.random.key(1))
    np.testing.assert_array_equal(again.graph, found.graph)
