"""The delays benchmark: tasks, scores, anchors, runner, table; seconds each."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks import linear
from benchmarks._store import Store
from benchmarks.delays.__main__ import main
from benchmarks.delays.attractor import attractor_scores, sliced_wasserstein
from benchmarks.delays.data import Series, simulate, truth
from benchmarks.delays.methods import METHODS, Prediction
from benchmarks.delays.networks import random_network
from benchmarks.delays.runner import choose, run
from benchmarks.delays.scoring import near_scores, score
from benchmarks.delays.settings import Specification, settings, specifications
from ndde_jax.samples._noise import measurement_error


def test_there_are_enough_tasks():
    names = list(settings()["systems"])
    dims = [Specification(name, "low", 250).system().dim for name in names]
    delays = [len(Specification(name, "low", 250).system().lags) for name in names]
    assert len(names) >= 24
    assert (min(dims), max(dims)) == (1, 20) and {1, 2, 3, 4} <= set(delays)
    assert {s.category for s in specifications()} == {
        "low",
        "medium",
        "high",
        "observed",
        "offgrid",
    }
    assert {s.length for s in specifications(("length",))} == {250, 1000, 4000, 16000}


@pytest.mark.parametrize("name", list(settings()["systems"]))
def test_candidates_contain_the_true_delays_or_miss_them(name):
    spec = Specification(name, "low", 250)
    times = np.array(spec.lags) * spec.sampling_step
    delays = np.asarray(spec.system().lags)
    assert np.abs(times[:, None] - delays[None]).min(axis=0).max() < 1e-6 * delays[-1]
    graph, _ = truth(spec)
    assert graph.sum() == np.asarray(spec.system().graph).sum()
    off = Specification(name, "offgrid", 250)
    times = np.array(off.lags) * off.sampling_step
    assert np.abs(times - delays[0]).min() > 0.3 * off.grid
    graph, found = truth(off)
    np.testing.assert_array_equal(np.isfinite(found), graph)
    assert np.nanmax(np.abs(found - times[None, None])) <= 0.5 * off.grid + 1e-9


def test_random_networks_are_sparse_and_use_every_delay():
    system = random_network(10, delays=(1.0, 2.0, 3.0), seed=0)
    graph = np.asarray(system.graph)
    assert graph[..., 0].sum() == 10 and graph[..., 1:].any(axis=(0, 1)).all()
    assert 2 <= graph[..., 1:].sum(axis=(0, 2)).min()
    assert graph[..., 1:].sum(axis=(0, 2)).max() <= 3
    x = np.linspace(-1, 1, 10)
    jacobian = np.asarray(system.jacobian(0.0, jnp.asarray(x), jnp.stack([x, 2 * x, -x])))
    np.testing.assert_array_equal(np.moveaxis(jacobian, (0, 1, 2), (2, 1, 0)) != 0, graph)
    again = random_network(10, delays=(1.0, 2.0, 3.0), seed=0)
    np.testing.assert_array_equal(again.parameters["weights"], system.parameters["weights"])


def test_a_series_is_what_the_specification_says():
    spec = Specification("mackey_glass", "low", 500)
    series = simulate(spec)
    assert series.x.shape == (500, 1) and series.lags == spec.lags
    # Noise adds 0.05 standard deviations during a grid step.
    added = series.sigma[0] * math.sqrt(series.grid) / series.x.std()
    assert 0.03 < added < 0.08
    # The true drift at the true lags: 0.2 x(t-17) / (1 + x(t-17)^10) - 0.1 x.
    k = int(np.nonzero(series.graph[0, 0])[0][1])
    now, late = series.history[:, 0, 0], series.history[:, k, 0]
    np.testing.assert_allclose(
        series.drift[:, 0], 0.2 * late / (1 + late**10) - 0.1 * now, rtol=1e-5, atol=1e-7
    )
    assert not np.array_equal(simulate(spec, 1).x, series.x)


def tiny(graph, lags=(0, 5, 10, 15, 20, 25)):
    graph = np.asarray(graph, bool)
    delays = np.where(graph, np.array(lags)[None, None] * 0.1, np.nan)
    d = graph.shape[0]
    history = np.random.default_rng(0).normal(size=(50, len(lags), d))
    spec = Specification("mackey_glass", "low", 10)
    return Series(
        spec, np.zeros((10, d)), 0.1, lags, graph, delays, history, 2 * history[:, 0], np.ones(d)
    )


def test_scores_of_the_truth_and_of_a_neighbour():
    series = tiny([[[1, 0, 1, 0, 0, 0]]])
    perfect = Prediction(series.graph.astype(float), series.graph, lambda h: 2 * h[0])
    scores = score(perfect, series)
    for level in ("exact", "near"):
        assert scores[f"{level}.auroc"] == scores[f"{level}.f1"] == 1
        assert scores[f"{level}.shd"] == 0
    assert scores["exact.recovered"] == 1 and scores["lag_error"] == 0
    assert scores["drift_error"] == pytest.approx(0, abs=1e-6)
    shifted = np.array([[[1, 0, 0, 1, 0, 0]]], bool)
    scores = score(Prediction(shifted.astype(float), shifted, lambda h: 0 * h[0]), series)
    assert scores["exact.f1"] == 0.5 and scores["near.f1"] == 1 and scores["near.shd"] == 0
    assert scores["exact.auroc"] == 5 / 8
    assert scores["lag_error_steps"] == pytest.approx(1) and scores["summary.f1"] == 1
    assert scores["drift_error"] == pytest.approx(1, rel=0.1)


def test_refined_delays_are_what_is_scored():
    series = tiny([[[1, 0, 1, 0, 0, 0]]])
    delays = np.where(series.graph, 1.02, np.nan)
    found = Prediction(series.graph.astype(float), series.graph, delays=delays)
    assert score(found, series)["lag_error"] == pytest.approx(0.02)


def test_laws_are_compared_by_projections():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(500, 1)), 2 * rng.normal(size=(500, 1)) + 1
    expected = np.mean(np.abs(np.sort(a[:, 0]) - np.sort(b[:, 0])))
    np.testing.assert_allclose(sliced_wasserstein(a, b), expected, rtol=1e-10)
    # A shift by d moves every projection by its component along d: E|cos| = 2/π in the plane.
    c = rng.normal(size=(400, 2))
    assert sliced_wasserstein(c, c + np.array([3.0, 0])) == pytest.approx(6 / np.pi, rel=0.1)


@pytest.mark.slow
def test_the_true_graph_keeps_the_attractor_and_a_wrong_one_does_not():
    spec = Specification("mackey_glass", "low", 1500)
    series = simulate(spec)
    windows = ndde.select.midpoint_windows(series.x, dt=series.dt, lags=series.lags)
    config = ndde.fitting.StrengthConfig(restarts=1)
    decay = np.zeros_like(series.graph)
    decay[..., 0] = True

    def fitted(graph):
        return ndde.fitting.fit_graph(windows, graph, key=jax.random.key(0), config=config)

    model = fitted(series.graph)
    right, wrong = (attractor_scores(m, windows, series) for m in (model, fitted(decay)))
    # A confined model, such as those of `discover`, stays unchanged.
    assert attractor_scores(ndde.confine(model, windows=windows), windows, series) == right
    assert right["law"] < 4 * right["chance.law"] and right["spectrum"] < 5
    assert wrong["law"] > 2 * right["law"] and wrong["spectrum"] > 2 * right["spectrum"]
    # True: 0.0053 per day (Farmer 1982 has 0.007 at this delay), over the delay of 17 days.
    assert right["exponent_error"] < 0.06 and np.isfinite(wrong["exponent_error"])
    assert right["escaped"] == wrong["escaped"] == 0
    assert right["chance.law"] == wrong["chance.law"] > 0


def test_near_scores_match_one_to_one():
    truth_ = np.array([[[0, 1, 1, 0, 0, 0]]], bool)
    one = np.array([[[0, 0, 0, 1, 0, 0]]], bool)
    assert near_scores(one.astype(float), one, truth_)["f1"] == pytest.approx(2 / 3)
    far = np.array([[[0, 0, 0, 0, 0, 1]]], bool)
    scores = near_scores(far.astype(float), far, truth_)
    assert scores["f1"] == 0 and scores["shd"] == 3 and scores["auroc"] < 0.5


def test_failed_predictions_count_as_empty_graphs():
    series = tiny([[[1, 0, 1, 0, 0, 0]]])
    scores = score(Prediction(np.full((1, 1, 6), np.nan), series.graph), series)
    assert scores["exact.auroc"] == 0.5 and scores["exact.shd"] == 2


@pytest.mark.parametrize("method", [linear.lagged_lasso, linear.vector_autoregression])
def test_linear_methods_find_linear_links(method):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(400, 6))
    rate = inputs[:, [0, 3]] @ np.array([[1.0, 0.0], [-1.0, 2.0]]) + rng.normal(size=(400, 2))
    sizes, kept = method(inputs, rate)
    expected = np.zeros((2, 6), bool)
    expected[0, [0, 3]] = expected[1, 3] = True
    assert sizes[expected].min() > sizes[~expected].max()
    assert (kept & expected).sum() == 3 and (kept & ~expected).sum() <= 2


def test_granger_is_statsmodels_least_squares():
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    inputs, rate = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    scores, _ = linear.vector_autoregression(inputs, rate)
    t = api.OLS(rate[:, 0], api.add_constant(inputs)).fit().tvalues[1:]
    np.testing.assert_allclose(scores[0], t**2, rtol=1e-8)


def test_linear_strengths_are_a_nested_comparison():
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(200, 6))  # two lags of three variables
    rate = inputs @ rng.normal(size=(6, 3)) * [1.0, 0.1, 0.0] + rng.normal(size=(200, 3))
    rise, kept = linear.linear_strengths(inputs, rate)
    for target, y in enumerate(rate.T):
        full = api.OLS(y, api.add_constant(inputs)).fit()
        for source in range(3):
            others = np.arange(6) % 3 != source
            rest = api.OLS(y, api.add_constant(inputs[:, others])).fit()
            expected = (rest.ssr - full.ssr) / full.centered_tss
            np.testing.assert_allclose(rise[target, [source, source + 3]], expected, rtol=1e-8)
    assert kept[0].all() and not kept[2].any()


def test_run_resume_and_table(tmp_path, capsys):
    out = str(tmp_path / "results.sqlite")
    command = ["run", "--smoke", "--limit", "1", "--out", out]
    methods = ["--method", "granger", "--method", "selfedges"]
    assert main([*command, *methods]) == 0
    with Store(tmp_path / "results.sqlite") as store:
        first = list(store.rows("delays"))
    assert main([*command, *methods, "--method", "lasso"]) == 0
    with Store(tmp_path / "results.sqlite") as store:
        rows = list(store.rows("delays"))
        assert set(first) <= set(rows)  # seconds included: nothing was computed twice
        unit = next(iter(store.done("delays", method="lasso")))
        assert set(store.arrays(unit)) == {"scores", "graph", "truth"}
    capsys.readouterr()
    assert main(["table", out]) == 0
    text = capsys.readouterr().out
    assert "granger" in text and "exact auroc" in text
    assert main(["figures", out, "--out", str(tmp_path / "figures")]) == 0
    assert (tmp_path / "figures" / "low.png").exists()
    assert main(["table", str(tmp_path / "nothing.sqlite")]) == 2


def test_an_exception_becomes_a_status(tmp_path, monkeypatch):
    def broken(x, dt, lags, *, key):
        raise RuntimeError("no")

    monkeypatch.setitem(METHODS, "selfedges", broken)
    with Store(tmp_path / "r.sqlite") as store:
        run(choose(smoke=True, limit=1), ["selfedges"], store, progress=False)
        rows = list(store.rows("delays"))
    assert {row.status for row in rows} == {"error: RuntimeError: no"}


def test_learned_systems_are_simulated_on_request(tmp_path, monkeypatch, capsys):
    spec = choose(smoke=True, limit=1)[0]
    windows = ndde.lagged_windows(simulate(spec).x, dt=simulate(spec).dt, lags=spec.lags)
    graph = simulate(spec).graph

    def knows(x, dt, lags, *, key):
        return Prediction(graph * 1.0, graph, lambda history: history[0], windows=windows)

    def simulated(model, given, series, seed):
        assert given is windows and series.spec == spec and seed == 0
        return {"spectrum": 2.5, "law": 0.125, "chance.law": 0.0625, "escaped": 0.0}

    monkeypatch.setitem(METHODS, "search", knows)
    monkeypatch.setattr("benchmarks.delays.runner.attractor_scores", simulated)
    out = str(tmp_path / "r.sqlite")
    command = ["run", "--smoke", "--limit", "1", "--method", "search", "--method", "selfedges"]
    assert main([*command, "--out", out, "--attractor"]) == 0
    capsys.readouterr()
    assert main(["table", out, "--level", "attractor"]) == 0
    rows = {line.split("|")[3].strip(): line for line in capsys.readouterr().out.splitlines()[2:4]}
    assert "2.500" in rows["search"] and ".125" in rows["search"] and ".062" in rows["search"]
    assert ".125" not in rows["selfedges"]
    # Results without simulation are not mixed with results with it.
    assert main([*command, "--out", out]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name, system", [("agl", "suarez_schopf"), ("cnode", "mackey_glass")])
def test_held_out_blocks_choose_a_better_coefficient_than_another_system(name, system, tmp_path):
    specs = [Specification(system, "low", 1000)]
    with Store(tmp_path / "r.sqlite") as store:
        run(specs, [f"{name}_tuned", f"{name}_free"], store, progress=False)
        found = {(r.method, r.metric): r.value for r in store.rows("delays")}
    assert found[f"{name}_free", "exact.f1"] > found[f"{name}_tuned", "exact.f1"]
    assert found[f"{name}_free", "drift_error"] < 0.5


def test_choices():
    assert [s.name for s in choose(only="low/mackey_glass_r")] == ["mackey_glass_ring"]
    with pytest.raises(ValueError, match="none of the"):
        choose(only="nowhere")


@pytest.mark.slow
def test_search_beats_the_linear_methods_on_a_small_task(tmp_path):
    with Store(tmp_path / "r.sqlite") as store:
        specs = [Specification("mackey_glass", category, 2000) for category in ("low", "offgrid")]
        run(specs, ["granger", "lasso", "search"], store, progress=False)
        found = {(r.category, r.method, r.metric): r.value for r in store.rows("delays")}
    for level in ("exact", "near"):
        best = max(found["low", method, f"{level}.f1"] for method in ("granger", "lasso"))
        assert found["low", "search", f"{level}.f1"] > best
    # Off the grid several candidates interpolate the true delay, and all methods keep them. What
    # the search adds is the delay between them.
    assert found["offgrid", "search", "lag_error_steps"] < 0.1
    assert found["offgrid", "granger", "lag_error_steps"] > 0.3


@pytest.mark.slow
def test_recovery_needs_a_price_inside_the_window():
    from benchmarks.delays.theory import recovery

    # The window is sufficient, not necessary: prices slightly above it may still recover the graph,
    # but none above the worth of its weakest edge.
    rows = recovery("mackey_glass", lengths=(2000,), prices=(0.1,), seeds=2)
    inside, outside, own = rows
    assert inside["inside"] and not inside["hopeless"] and inside["recovered"] == 1
    assert outside["hopeless"] and not outside["inside"]
    assert outside["margin"] < 0 and outside["recovered"] == 0
    assert own["recovered"] == 1 and not own["hopeless"]


def test_the_price_that_breaks_a_graph_is_its_least_share():
    """Independent inputs: the worth of an edge is its squared coefficient."""
    from benchmarks.delays.theory import breaking_price

    history = np.random.default_rng(0).normal(size=(20000, 2, 2))
    drift = np.stack([2 * history[:, 0, 0] + history[:, 1, 1], 3 * history[:, 0, 1]], 1)
    graph = np.zeros((2, 2, 2), bool)
    graph[0, 0, 0] = graph[1, 0, 1] = graph[1, 1, 0] = True
    made = Series(
        spec=specifications(("low",))[0],
        x=history[:, 0],
        dt=0.1,
        lags=(0, 1),
        graph=graph,
        delays=np.where(graph, 0.0, np.nan),
        history=history,
        drift=drift,
        sigma=np.array([0.5, 0.5]),
    )
    expected = made.explained[0] * 1 / 5
    np.testing.assert_allclose(breaking_price(made), expected, rtol=0.03)


def test_further_categories_are_low_noise_with_larger_errors():
    """The path is that of the same key; the errors are independent and of the requested size."""
    one = simulate(Specification("mackey_glass", "observed_10", 600))
    other = simulate(Specification("mackey_glass", "observed_5", 600))
    for series, share in ((one, 0.1), (other, 0.05)):
        best, _ = measurement_error(series.x[:, 0])
        assert np.sqrt(best) / series.x.std() == pytest.approx(share, rel=0.35)
    assert not {"observed_5", "observed_10"} & {s.category for s in specifications()}


def test_a_seed_draws_other_networks_and_leaves_the_published_ones():
    def graphs(seed):
        specs = choose(categories=["low"], only="low/network_*", draw=seed)
        return {spec.name: np.asarray(spec.system().graph) for spec in specs}

    first, same, other = graphs(0), graphs(0), graphs(1)
    assert first.keys() == other.keys() and len(first) == 9
    for name, graph in first.items():
        np.testing.assert_array_equal(same[name], graph)
        assert other[name].shape == graph.shape
    # Only two units with one delay can be drawn alike; nothing larger is.
    changed = [name for name, graph in first.items() if not np.array_equal(graph, other[name])]
    assert set(changed) >= {"network_3", "network_5", "network_8", "network_10", "network_20"}
    mackey = [choose(categories=["low"], only="low/mackey_glass", draw=d)[0] for d in (0, 1)]
    np.testing.assert_array_equal(*(np.asarray(spec.system().graph) for spec in mackey))


def test_every_method_of_rates_can_have_the_windows_of_search(monkeypatch):
    from benchmarks.delays import methods as module

    for name in ("lasso", "granger", "forest", "pysindy", "l0ndde", "l0ndde_edge", "agl", "cnode",
                 "pathreg", "node"):  # fmt: skip
        assert {name, f"{name}_midpoint"} <= METHODS.keys()
    seen = []
    real = module.linear.on_windows

    def looked_at(regress, windows, **options):
        seen.append(windows.scheme)
        return real(regress, windows, **options)

    monkeypatch.setattr(module.linear, "on_windows", looked_at)
    x = np.cumsum(np.random.default_rng(0).normal(size=(300, 2)), axis=0) * 0.1
    for name in ("granger", "granger_midpoint"):
        METHODS[name](x, 0.1, (0, 1, 2), key=jax.random.key(0))
    assert seen[0] != "midpoint" and seen[1] == "midpoint"


def test_gates_that_price_an_edge_charge_the_same_for_any_number_of_candidates():
    from benchmarks.delays.methods import by_edge

    prices = [float(by_edge(n).coefficients(n, 4, 128)[0]) / n for n in (3, 30)]
    assert prices[0] == pytest.approx(prices[1]) == pytest.approx(0.05 / 3)
