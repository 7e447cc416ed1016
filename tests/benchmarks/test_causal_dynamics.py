"""The CausalDynamics benchmark on tiny synthetic graphs: reading, scoring, tables, tuning."""

import math
from pathlib import Path

import jax.random as jr
import numpy as np
import pytest
import sklearn.metrics as skm

from benchmarks._store import POOLED, Record, Unit
from benchmarks.causal_dynamics import data, methods, outcomes, runner, scoring
from benchmarks.causal_dynamics.__main__ import main
from benchmarks.causal_dynamics.methods import METHODS
from benchmarks.causal_dynamics.outcomes import Prediction
from benchmarks.causal_dynamics.report import cost, table
from benchmarks.causal_dynamics.settings import Settings, settings_for

CHAIN = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
SETTINGS = Settings(lags=(0,), scheme="euler")


# Reading


def test_graph_carries_the_label_sets_as_source_target(graphs):
    graph = data.read_graph(graphs / "simple_default_A.npz")
    assert (graph.name, graph.category, graph.dt) == ("simple_default_A", "simple/default", 0.1)
    assert graph.series.shape == (4, 30, 3)
    assert graph.labels["published"][0, 1]
    assert not graph.labels["published"][1, 0]
    assert graph.labels["transposed"][1, 0]
    assert graph.labels["corrected"][0, 2]
    assert not graph.labels["published"][0, 2]


def test_corrected_labels_are_optional_but_the_series_are_not(graphs, write_graph):
    write_graph(graphs, "plain", adjacency_true=None)
    assert set(data.read_graph(graphs / "plain.npz").labels) == {"published", "transposed"}
    write_graph(graphs, "broken", x=None)
    with pytest.raises(ValueError, match="lacks x"):
        data.read_graph(graphs / "broken.npz")
    write_graph(graphs, "misfit", adjacency=np.ones((3, 3)), x=np.zeros((4, 30, 2)))
    with pytest.raises(ValueError, match=r"got \(4, 30, 2\)"):
        data.read_graph(graphs / "misfit.npz")


def test_files_are_selected_by_pattern_and_number(graphs):
    def found(**options):
        return [f.stem for f in data.find_files(graphs, **options)]

    assert found() == ["simple_default_A", "simple_noise_B", "simple_noise_dense"]
    assert found(only="noise") == ["simple_noise_B", "simple_noise_dense"]
    assert found(only="simple_*_B") == ["simple_noise_B"]
    assert found(limit=1) == ["simple_default_A"]
    with pytest.raises(ValueError, match="matches 'coupled'"):
        found(only="coupled")
    with pytest.raises(ValueError, match=r"expected \.npz files"):
        data.find_files(graphs / "nowhere")


def test_standardising_as_the_benchmark_does():
    x = np.random.default_rng(0).normal(3.0, 5.0, size=(4, 50, 3))
    x[1, 7, 0] = np.nan
    x[:, :, 2] = 0.1
    scaled = data.standardise(x)
    filled = np.where(np.isnan(x), 0.0, x)[..., :2]
    expected = (filled - filled.mean((0, 1))) / (filled.std((0, 1)) + 1e-8)
    np.testing.assert_allclose(scaled[..., :2], expected)
    np.testing.assert_array_equal(data.varying(list(scaled)), [True, True, False])


def test_settings_of_a_category_override_those_of_its_tier(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(
        'default = {lags = [0], scheme = "auto"}\n'
        'tier.simple = {lags = [0, 1], scheme = "euler"}\n'
        'category."simple/noise" = {lags = [0, 2]}\n'
    )
    assert settings_for("climate/enso", file) == Settings((0,), "auto")
    assert settings_for("simple/default", file) == Settings((0, 1), "euler")
    assert settings_for("simple/noise", file) == Settings((0, 2), "euler")
    file.write_text('default = {lags = [0], scheme = "auto", lambda = 3}\n')
    with pytest.raises(ValueError, match="unknown setting lambda"):
        settings_for("simple/default", file)


@pytest.mark.parametrize("category", ["simple/noise", "coupled/timelag", "climate/maooam"])
def test_shipped_settings_are_valid(category):
    assert settings_for(category).lags[0] == 0


# Methods


def test_anchors():
    series = [np.zeros((10, 3))] * 2
    guesses = {"allones": np.ones((3, 3)), "empty": np.zeros((3, 3)), "selfedges": np.eye(3)}
    for name, expected in guesses.items():
        found = METHODS[name](series, 0.1, SETTINGS, key=jr.key(0))
        assert len(found) == 2
        for scores, graph, status in found:
            np.testing.assert_array_equal(scores, expected)
            np.testing.assert_array_equal(graph, expected)
            assert status == "ok"


def test_constant_variables_are_hidden_and_get_no_edges():
    seen = []

    @outcomes.blind_to_constants
    def everything(series, dt, settings, *, key):
        seen.extend(x.shape for x in series)
        return methods.allones(series, dt, settings, key=key)

    series = np.random.default_rng(0).normal(size=(2, 20, 3))
    series[:, :, 1] = 4.0
    first, _ = everything(list(series), 0.1, SETTINGS, key=jr.key(0))
    assert seen == [(20, 2), (20, 2)]
    np.testing.assert_array_equal(first.scores, [[1, 0, 1], [0, 0, 0], [1, 0, 1]])
    np.testing.assert_array_equal(first.graph, first.scores > 0)
    with pytest.raises(ValueError, match="every variable is constant"):
        everything([np.zeros((20, 3))], 0.1, SETTINGS, key=jr.key(0))


# Scoring


def test_scores_equal_scikit_learn():
    rng = np.random.default_rng(1)
    found = [Prediction(s, s >= 0.5, "ok") for s in rng.random((4, 3, 3)).round(1)]
    labels = {"published": CHAIN.astype(bool), "transposed": CHAIN.T.astype(bool)}
    individual = scoring.individual_scores(found, labels)
    pooled = scoring.pooled_scores(found, labels)
    for name, truth in labels.items():
        truths, scores = np.tile(truth.ravel(), 4), np.ravel([p.scores for p in found])
        np.testing.assert_allclose(pooled[f"{name}.auroc"], skm.roc_auc_score(truths, scores))
        np.testing.assert_allclose(
            pooled[f"{name}.auprc"], skm.average_precision_score(truths, scores)
        )
        assert pooled[f"{name}.shd"] == np.sum((scores >= 0.5) != truths)
        for one, prediction in zip(individual, found, strict=True):
            expected = skm.roc_auc_score(truth.ravel(), prediction.scores.ravel())
            np.testing.assert_allclose(one[f"{name}.auroc"], expected)
        assert pooled[f"{name}.shd"] == sum(one[f"{name}.shd"] for one in individual)
    assert pooled["published.auroc"] != pooled["transposed.auroc"]


def test_failure_scores_as_an_empty_graph_and_complete_truth_not_at_all():
    failure = Prediction(np.full((2, 2), np.nan), np.ones((2, 2), bool), "diverged")
    labels = {"published": np.eye(2, dtype=bool), "corrected": np.ones((2, 2), bool)}
    (scores,) = scoring.individual_scores([failure], labels)
    assert scoring.failed(failure)
    assert scores["published.auroc"] == 0.5
    assert scores["published.shd"] == 2
    assert math.isnan(scores["corrected.auroc"])
    assert math.isnan(scores["corrected.auprc"])


# Running


def test_run_stores_scores_statuses_and_predictions(
    graphs, store, register, tmp_path, random_scores, value
):
    register("random", random_scores)
    files = data.find_files(graphs)
    runner.run(files, ["random"], store, predictions=tmp_path / "preds", progress=False)

    with np.load(tmp_path / "preds" / "simple_default_A.npz") as file:
        preds, kept, seconds = file["preds"], file["graph"], file["seconds"]
    assert preds.shape == kept.shape == (4, 3, 3)
    assert seconds > 0
    scored = np.nan_to_num(preds, nan=0.0)
    truth = np.tile(CHAIN, (4, 1, 1))
    for series in range(4):
        expected = skm.roc_auc_score(CHAIN.ravel(), scored[series].ravel())
        np.testing.assert_allclose(value(store, "published.auroc", series), expected)
        assert value(store, "failed", series) == (series == 1)
    expected = skm.roc_auc_score(truth.ravel(), scored.ravel())
    np.testing.assert_allclose(value(store, "published.auroc", POOLED), expected)
    assert value(store, "published.shd", POOLED) == np.sum((scored >= 0.5) != truth)
    statuses = {r.status for r in store.rows("causal_dynamics") if r.series == 1}
    assert statuses == {"diverged"}


def table_cells(text):
    """The cells of a table by (category, method), and its lines."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    cells = {tuple(line[:2]): line[2:] for line in lines if line and line[0].startswith("simple")}
    return cells, text.splitlines()


def test_table_shows_graphs_failures_and_statuses(graphs, store, register, random_scores, value):
    register("random", random_scores)
    runner.run(data.find_files(graphs), ["random", "allones"], store, progress=False)
    cells, lines = table_cells(table(store))
    assert set(cells) == {
        (category, method)
        for category in ("simple/default", "simple/noise")
        for method in ("random", "allones")
    }
    noise = cells["simple/noise", "allones"]
    assert noise[0] == "1"  # the complete graph is omitted ...
    assert noise[1] == ".500"
    assert noise[3] == "12.0"  # ... of the SHD too: 3 absent edges in each of 4 series
    assert noise[8:10] == ["8", "0"]  # but its series were run
    assert cells["simple/noise", "random"][8:10] == ["8", "2"]
    assert lines[-1] == ("Statuses, in series: allones: ok 12; random: converged 9, diverged 3.")
    means = [value(store, "corrected.auroc", series, method="random") for series in range(4)]
    assert cells["simple/default", "random"][1] == f"{np.mean(means):.3f}"[1:]
    pooled = value(store, "corrected.auroc", POOLED, method="random")
    joint, _ = table_cells(table(store, joint=True))
    assert joint["simple/default", "random"][1] == f"{pooled:.3f}"[1:]


def test_cost_of_the_whole_benchmark_and_figures(store, tmp_path, capsys):
    for category, seconds in (("simple/default", 1.0), ("coupled/noise", 3.0)):
        unit = Unit("causal_dynamics", category, "graph", 0, "linear", 0)
        store.write([Record(unit, {"failed": 0.0, "corrected.auroc": 0.75}, "ok", seconds)])
    row = next(line for line in cost(store).splitlines() if line.startswith("| linear"))
    hours = 14_693 * 10 / 3600
    expected = [2 * hours, 3 * hours, 2 * hours * 0.6, 3 * hours * 0.6]
    assert [float(cell) for cell in row.split("|")[3:-1]] == pytest.approx(expected, abs=0.06)
    assert main(["figures", str(store.path), "--out", str(tmp_path / "figures")]) == 0
    drawn = capsys.readouterr().out.split()
    assert [Path(path).name for path in drawn] == ["coupled.png", "simple.png"]
    assert all(Path(path).stat().st_size > 5000 for path in drawn)


def test_command_line(graphs, tmp_path, capsys):
    out = tmp_path / "out.sqlite"
    options = ["--data", str(graphs), "--method", "selfedges", "--out", str(out)]
    assert main(["run", *options, "--limit", "1", "--series", "2"]) == 0
    assert main(["table", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| simple/default | selfedges |" in printed
    assert "selfedges: ok 2." in printed
    assert main(["run", *options, "--only", "nothing"]) == 2
    assert main(["table", str(tmp_path / "missing.sqlite")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_tuning_takes_the_best_coefficient_of_the_grid(graphs, register, monkeypatch, capsys):
    """A method that is right at one coefficient only, with all other settings as shipped."""

    def picky(series, dt, settings, *, key):
        right = settings.coefficients["picky"] == 0.25
        scores = CHAIN if right else 1.0 - CHAIN
        return [Prediction(scores.astype(float), scores > 0.5, "ok") for _ in series]

    register("picky", picky)
    options = ["tune", "--data", str(graphs), "--method", "picky", "--series", "2"]
    assert main([*options, "--graph", "simple_default_A"]) == 0
    printed = capsys.readouterr().out
    assert "picky = 0.25\n" in printed
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("| ")][2:]
    assert [float(row[0]) for row in rows] == sorted(settings_for("simple/default").grid)
    best = [row for row in rows if float(row[0]) == 0.25]
    assert float(best[0][1]) == 1 and float(best[0][3]) == pytest.approx(5 / 9, abs=1e-3)
    assert main([*options, "--graph", "missing"]) == 2
    assert main(["tune", "--data", str(graphs), "--method", "none"]) == 2


def test_single_coefficients_reach_the_methods():
    for name in ("l0ndde_single", "agl", "cnode", "pathreg"):
        method = methods.single_coefficient(name, 0.125)
        assert float(method.coefficient) == 0.125 and method.path.shape == (0,)
    assert methods.single_coefficient("node", None).coefficients(3, 3, 128).shape == (1,)
    assert METHODS.keys() >= {"agl_free", "cnode_free", "pathreg_free", "l0ndde_single_free"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["agl", "agl_free", "cnode", "pathreg", "node", "l0ndde_paper"])
def test_baselines_on_a_driven_variable(name):
    """The first of two variables drives the second; a method that ranks it last found nothing."""
    rng = np.random.default_rng(0)
    x = np.zeros((500, 2))
    for k in range(499):
        x[k + 1] = 0.8 * x[k] + 0.3 * rng.normal(size=2)
        x[k + 1, 1] += 0.8 * np.tanh(2 * x[k, 0])
    settings = Settings(lags=(0,), scheme="euler", grid=(0.03, 0.3, 1.0), coefficients={name: 0.1})
    (found,) = METHODS[name]([x], 1.0, settings, key=jr.key(0))
    assert found.status in ("converged", "stopped")
    assert found.scores.shape == (2, 2) and np.isfinite(found.scores).all()
    assert found.scores[0, 1] > found.scores[1, 0]
    assert found.graph[0, 1]


def test_rows_of_the_paper_have_its_windows_and_settings(monkeypatch):
    """Euler rates of the present state whatever the settings of the category are, and its table of
    hyperparameters.
    """
    import ndde_jax as ndde

    seen = []

    def fits(method, windows, config, **_):
        seen.append((method, windows, config))
        raise RuntimeError("seen")

    monkeypatch.setattr(ndde, "fit_many", fits)
    x = np.cumsum(np.random.default_rng(0).normal(size=(200, 3)), axis=0)
    settings = Settings(lags=(0, 2, 4), scheme="central4")
    rows = {"l0ndde_paper": 0.025, "l0ndde_paper_no_gradient": 0.01, "agl_paper": 5.0,
            "cnode_paper": 50.0}  # fmt: skip
    for name in (*rows, "unit_cnode_batch"):
        with pytest.raises(RuntimeError, match="seen"):
            METHODS[name]([x], 0.1, settings, key=jr.key(0))
    for (name, coefficient), (method, windows, config) in zip(rows.items(), seen, strict=False):
        assert float(method.coefficient) == pytest.approx(coefficient)
        assert windows[0].lags == (0,) and windows[0].scheme == "euler"
        penalty = config.gradient_penalty
        assert (penalty is None) if "no_gradient" in name else float(penalty) == 100
        assert (config.warmup, config.warmup_steps, config.patience) == ("adam", 100, 200)
    # λ Σ over targets and inputs beside squared errors summed over targets and a batch of 128.
    for method in (seen[3][0], seen[-1][0]):
        price = float(method.coefficients(3, 3, 128)[0]) / 3
        assert price == pytest.approx(50 / 128)
