"""Generated graphs of the CausalDynamics benchmark: files, seeds, omissions, commands."""

import json

import jax.random as jr
import numpy as np
import pytest

from benchmarks._store import Store
from benchmarks.causal_dynamics import (
    coupled,
    data,
    generate,
    networks,
    recipes,
    simple,
    trajectories,
)
from benchmarks.causal_dynamics.__main__ import main
from benchmarks.causal_dynamics.trajectories import corrected_graph, published_graph

FEW = ("Lorenz", "Rossler", "SprottB")


@pytest.fixture(autouse=True)
def few_systems(monkeypatch):
    """Every participating system is compiled. Steps are long: their accuracy is tested in
    `test_causal_dynamics_trajectories`.
    """
    monkeypatch.setattr(trajectories, "_SUBSTEPS", 10)
    monkeypatch.setattr(trajectories, "_FINE", 10)
    monkeypatch.setattr(simple, "systems_with_jacobian", lambda: FEW)
    monkeypatch.setattr(coupled, "systems_for_roots", lambda: FEW)


def made(category, *, n_graphs=1, seed=0, n_series=3, n_nodes=5, **options):
    return dict(
        generate.generated(
            category, n_graphs=n_graphs, seed=seed, n_series=n_series, n_nodes=n_nodes, **options
        )
    )


def same(first, second):
    return first.keys() == second.keys() and all(
        np.array_equal(first[key], second[key]) for key in first
    )


@pytest.mark.parametrize(
    "category",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (not name.startswith("simple/")))
        for name in recipes.RECIPES
    ],
)
def test_every_category_is_generated_from_the_seed_alone(category):
    found = made(category, n_graphs=2)
    assert len(found) == 2
    for name, arrays in found.items():
        dim = arrays["x"].shape[2]
        assert name.startswith(category.replace("/", "_"))
        assert arrays["x"].dtype == np.float32
        assert arrays["x"].shape[:2] == (3, 1000)
        assert np.isfinite(arrays["x"]).all()
        assert arrays["adjacency"].shape == arrays["adjacency_true"].shape == (dim, dim)
        assert arrays["adjacency"].dtype == np.int8
        assert arrays["category"] == category
        assert arrays["noise"] == (2.0 if category.endswith("noise") else 0.0)
        assert len({series.tobytes() for series in arrays["x"]}) == 3
    # Repeated, and for any number of graphs.
    one = made(category, n_graphs=1)
    assert len(one) == 1 and all(same(found[name], one[name]) for name in one)
    other = made(category, n_graphs=3 if category.startswith("simple") else 1, seed=1)
    assert not any(np.array_equal(a["x"], b["x"]) for a in other.values() for b in one.values())


def test_simple_graphs_carry_both_labels_and_hide_the_confounder():
    for name, arrays in made("simple/confounder", n_graphs=3).items():
        system = name.rpartition("_")[2]
        hidden = int(arrays["dropped_variable"])
        kept = np.delete(np.arange(3), hidden)
        published = published_graph(system)
        assert hidden == networks.hidden_variable(published, tier="simple")
        inside = np.ix_(kept, kept)
        np.testing.assert_array_equal(arrays["adjacency"], published[inside])
        np.testing.assert_array_equal(arrays["adjacency_raw"], published.T[inside])
        np.testing.assert_array_equal(arrays["adjacency_true"], corrected_graph(system)[inside])
        assert arrays["x"].shape[2] == 2


@pytest.mark.parametrize("category, lag", [("coupled/default", 0), ("coupled/timelag", 1)])
def test_roots_show_the_first_component_of_their_trajectories(monkeypatch, category, lag):
    drawn = []

    def recorded(*args, draw=coupled.random_series, **options):
        drawn.extend(series := draw(*args, **options))
        return series

    monkeypatch.setattr(coupled, "random_series", recorded)
    ((_, arrays),) = made(category, n_series=2).items()
    assert arrays["activation"] == "linear"
    np.testing.assert_array_equal(arrays["adjacency"], arrays["adjacency_true"])
    roots = ~arrays["adjacency_noself"].any(axis=0)
    np.testing.assert_array_equal(roots & (np.diag(arrays["adjacency"]) > 0), roots)
    known = {series[:1000, 0].astype(np.float32).tobytes() for series in drawn}
    assert {series.shape for series in drawn} == {(1000 + lag, 3)}
    shown = [[x[:, i].tobytes() in known for i in range(5)] for x in arrays["x"]]
    np.testing.assert_array_equal(shown, [roots, roots])


def test_standardised_networks_have_unit_deviations():
    ((_, arrays),) = made("coupled/standardize").items()
    np.testing.assert_allclose(arrays["x"].std(axis=1, ddof=1), 1, rtol=1e-4)


def test_time_lags_alternate_and_are_written_down():
    first, second = made("coupled/timelag", n_graphs=2).values()
    assert (first["lags"].tolist(), second["lags"].tolist()) == ([1], [5])
    assert (first["driver"], second["driver"]) == ("nonlinear", "periodic")
    for arrays in (first, second):
        both = arrays["adjacency_regular_edges"] | arrays["adjacency_time_edges"]
        np.testing.assert_array_equal(arrays["adjacency_noself"], both)


def test_lagged_block_of_a_network_is_the_same_inputs_later(monkeypatch):
    seen = []

    def watched(network, inputs, *, propagate=networks.propagated, **options):
        seen.append((network, inputs))
        return propagate(network, inputs, **options)

    monkeypatch.setattr(networks, "propagated", watched)
    made("coupled/timelag", n_graphs=2)
    for (network, inputs), lag in zip(seen, (1, 5), strict=True):
        now, later = inputs[:, :, :5], inputs[:, :, 5:]
        np.testing.assert_array_equal(now[:, lag:], later[:, :-lag])
        read = network.parentless.reshape(2, 5).any(axis=0)
        assert (np.ptp(later[:, :, read], axis=1) > 0).all()


def test_confounded_networks_lose_the_node_with_two_parents():
    arrays = next(
        arrays
        for arrays in made("coupled/confounder", n_graphs=4).values()
        if arrays["dropped_variable"] >= 0
    )
    assert arrays["x"].shape[2] == len(arrays["adjacency"]) == 4


def test_half_of_the_nodes_of_a_periodic_network_are_sinusoids():
    plan = coupled._plan("coupled/default", recipes.RECIPES["coupled/default"], 1, 0, 40, 5)
    from_outside = (plan.inputs != 0).any(axis=(1, 3))
    assert set(from_outside.sum(axis=1)) == {2, 3}
    assert from_outside.mean(axis=0).min() > 0.2
    chaotic = set(map(tuple, plan.chaotic.tolist()))
    roots = np.flatnonzero(plan.network.parentless)
    assert chaotic == {(s, n) for s in range(40) for n in roots if not from_outside[s, n]}


def blowing_up(keep):
    """Series that are finite only where their uniform number is below `keep`."""

    def draw(name, keys, *, noise=0.0, n_samples=1000):
        shares = np.array([float(jr.uniform(key)) for key in keys])
        series = np.broadcast_to(shares[:, None, None], (len(keys), n_samples, 3)).copy()
        series[shares >= keep] = np.nan
        series[(shares >= keep) & (shares < (1 + keep) / 2)] = 1e35
        return series

    return draw


def test_series_that_blow_up_are_drawn_again_and_counted(monkeypatch):
    monkeypatch.setattr(simple, "random_series", blowing_up(0.5))
    arrays = made("simple/noise", n_series=4)
    (arrays,) = arrays.values()
    assert (arrays["x"] < 0.5).all()
    assert arrays["n_rejected"] > 0
    monkeypatch.setattr(simple, "random_series", blowing_up(0.01))
    notes = []
    assert made("simple/noise", n_graphs=2, n_series=4, note=notes.append) == {}
    assert notes[-1] == "simple/noise: 0 graphs, all there are"
    assert any("Lorenz left out, 0 of 20 series are finite" in note for note in notes)


def test_roots_that_blow_up_are_drawn_again(monkeypatch):
    monkeypatch.setattr(coupled, "random_series", blowing_up(0.3))
    ((_, arrays),) = made("coupled/noise").items()
    roots = arrays["x"][..., np.diag(arrays["adjacency"]) > 0]
    assert (roots < 0.3).all()
    assert len(np.unique(roots)) == 3 * roots.shape[2]
    monkeypatch.setattr(coupled, "random_series", blowing_up(0.0))
    with pytest.raises(ValueError, match="roots diverged with each of 40 systems"):
        made("coupled/noise")


def test_files_are_read_back_and_not_made_twice(tmp_path, monkeypatch):
    options = {"n_graphs": 2, "seed": 3, "n_series": 2}
    paths = list(generate.write(tmp_path, ["simple/default"], **options))
    assert sorted(paths) == data.find_files(tmp_path)
    graph = data.read_graph(paths[0])
    assert graph.name == paths[0].stem
    assert set(graph.labels) == {"published", "transposed", "corrected"}

    monkeypatch.setattr(simple, "random_series", None)
    assert list(generate.write(tmp_path, ["simple/default"], **options)) == paths
    monkeypatch.undo()
    monkeypatch.setattr(simple, "systems_with_jacobian", lambda: FEW)
    with pytest.raises(ValueError, match="exists with seed = 3, not 4"):
        list(generate.write(tmp_path, ["simple/default"], **{**options, "seed": 4}))
    with pytest.raises(ValueError, match="exists with n_series = 2, not 3"):
        list(generate.write(tmp_path, ["simple/default"], **{**options, "n_series": 3}))


def test_climate_is_not_generated(tmp_path):
    with pytest.raises(ValueError, match=r"climate/enso cannot be generated.*published files"):
        list(generate.write(tmp_path, ["climate/enso"], n_graphs=1, seed=0))


def test_generate_command(tmp_path, capsys):
    arguments = ["--out", str(tmp_path), "--category", "simple/default", "--graphs", "1"]
    assert main(["generate", *arguments, "--series", "2"]) == 0
    assert capsys.readouterr().out.startswith("1 graphs of 2 series in ")
    (file,) = data.find_files(tmp_path)
    assert data.read_graph(file).series.shape == (2, 1000, 3)


def test_run_generates_what_it_is_not_given(tmp_path, capsys):
    out = tmp_path / "out.sqlite"
    arguments = ["--method", "selfedges", "--out", str(out), "--seed", "2", "--graphs", "2"]
    cached = ["--category", "simple/default", "--cache", str(tmp_path / "cache")]
    assert main(["run", *arguments, *cached]) == 0
    files = data.find_files(tmp_path / "cache" / "seed2")
    with Store(out) as store:
        assert {(u.graph, u.seed) for u in store.done("causal_dynamics")} == {
            (file.stem, 2) for file in files
        }
    assert main(["run", *arguments, *cached, "--only", "nothing"]) == 2
    assert main(["run", *arguments, "--data", str(tmp_path / "cache" / "seed2")]) == 2
    assert "--graphs select generated graphs" in capsys.readouterr().err
    listed = json.loads((tmp_path / "cache" / "seed2" / "_simple_default.json").read_text())
    assert sorted(listed["graphs"]) == [file.stem for file in files]


def test_choice_of_categories():
    from benchmarks.causal_dynamics.__main__ import _chosen, _parser

    def chosen(*arguments):
        return _chosen(_parser().parse_args(["generate", "--out", "x", *arguments]))

    assert chosen() == list(recipes.RECIPES)
    assert chosen("--tier", "simple") == [f"simple/{c}" for c in ("default", "noise", "confounder")]
    assert chosen("--category", "coupled/noise", "--category", "simple/noise") == [
        "simple/noise",
        "coupled/noise",
    ]
