"""The search over the paper's grids."""

import dataclasses
import math
import re

import pytest

from benchmarks._store import Record, Store
from benchmarks.dysts import generate, tuning
from benchmarks.dysts.__main__ import main
from benchmarks.dysts.settings import Recipe, grid, protocol, recipes

SHORT = dataclasses.replace(
    protocol(), train_lyapunov_times=1, min_samples=60, max_samples=80, substeps=3
)


@pytest.fixture
def trials(monkeypatch):
    """A replacement for fits: the valid prediction time is a function of the recipe."""
    done = []

    def evaluate(trial):
        r = trial.recipe
        done.append(trial.unit)
        peak = 2.0 - abs(math.log10(r.coefficient / 5))
        peak -= 0.01 * abs(math.log1p(r.gradient_penalty) - math.log1p(100))
        vlpt = math.nan if r.warmup_steps == 100 else peak + 0.1 * (r.warmup_steps == 25)
        return [Record(trial.unit, {"vlpt": vlpt, "lsd": 99.0}, "ok", 0.1)]

    monkeypatch.setattr(tuning, "evaluate", evaluate)
    return done


def test_one_setting_after_another_each_with_the_best_before(tmp_path, store, trials):
    files = [tmp_path / "A.npz", tmp_path / "B.npz"]
    text = tuning.tune("agl_paper", files, store, progress=False)
    assert text.endswith(
        "coefficient = 5\ngradient_penalty = 100\nwarmup_steps = 25\nrefine_steps = 0"
    )
    best = re.findall(r"\| (\w+) +\| +([\d.]+) ← \| +([\d.]+) \|", text)
    assert [(key, value) for key, value, _ in best] == [
        ("coefficient", "5"), ("gradient_penalty", "100"), ("warmup_steps", "25"),
        ("refine_steps", "0"),
    ]  # fmt: skip
    assert [float(time) for *_, time in best][1:] == [2.0, 2.1, 2.1]
    sizes = [len(values) for values in grid().values()]
    # One value of a setting is the best so far, done before; equally good ones are ties.
    assert len(trials) == len(set(trials)) <= 2 * sum(sizes)
    before = len(trials)
    assert tuning.tune("agl_paper", files, store, progress=False) == text
    assert len(trials) == before
    # Another seed is another experiment.
    tuning.tune("agl_paper", files, store, keys=["coefficient"], seed=1, progress=False)
    assert len(trials) == before + 2 * len(grid()["coefficient"])


@pytest.mark.parametrize("end", ["least", "largest"])
def test_beyond_the_grid_where_its_end_is_best(tmp_path, store, monkeypatch, end):
    sign, done = (1 if end == "least" else -1), []

    def evaluate(trial):
        done.append(trial.recipe.coefficient)
        return [Record(trial.unit, {"vlpt": -sign * done[-1]}, "ok", 0.1)]

    monkeypatch.setattr(tuning, "evaluate", evaluate)
    monkeypatch.setattr(tuning, "grid", lambda: {"coefficient": [0.1, 1.0, 10.0]})
    monkeypatch.setattr(tuning, "beyond_grid", lambda: {"coefficient": [0.01, 0.02, 50.0]})
    text = tuning.tune("agl", [tmp_path / "A.npz"], store, progress=False)
    assert done[3:] == ([0.01, 0.02] if end == "least" else [50.0])
    assert text.endswith(f"coefficient = {0.01 if end == 'least' else 50:g}")


def test_only_what_a_recipe_uses_is_tuned(tmp_path, store, trials):
    assert tuning.tuned_keys(Recipe("node")) == []
    assert tuning.tuned_keys(Recipe("agl")) == ["coefficient"]
    assert "coefficient" not in tuning.tuned_keys(recipes()["node_paper"])
    with pytest.raises(ValueError, match="nothing to tune"):
        tuning.tune("node", [tmp_path / "A.npz"], store)
    with pytest.raises(ValueError, match="got warmup_steps"):
        tuning.tune("cnode", [tmp_path / "A.npz"], store, keys=["warmup_steps"])
    with pytest.raises(ValueError, match="unknown recipe oracle"):
        tuning.tune("oracle", [tmp_path / "A.npz"], store)


def test_a_folder_without_the_systems_is_refused(tmp_path, capsys):
    arguments = ["--data", str(tmp_path), "--out", str(tmp_path / "t.sqlite")]
    assert main(["tune", "--method", "cnode", *arguments]) == 2
    assert "lacks MooreSpiegel" in capsys.readouterr().err


@pytest.mark.slow
def test_recipes_are_fitted_and_the_better_coefficient_wins(tmp_path, monkeypatch, capsys):
    generate.generate("Lorenz", tmp_path / "Lorenz.npz", seed=3, settings=SHORT)
    monkeypatch.setattr("benchmarks.dysts.__main__.tuning_names", lambda: ("Lorenz",))
    monkeypatch.setattr(tuning, "grid", lambda: {"coefficient": [0.01, 1000.0]})
    monkeypatch.setattr(tuning, "beyond_grid", dict)
    out = tmp_path / "trials.sqlite"
    arguments = ["--data", str(tmp_path), "--out", str(out)]
    assert main(["tune", "--method", "cnode", *arguments]) == 0
    # So large a penalty leaves no drift at all.
    assert capsys.readouterr().out.endswith("coefficient = 0.01\n")
    with Store(out) as store:
        rows = [row for row in store.rows(tuning.BENCHMARK) if row.metric == "vlpt"]
    assert len(rows) == 2
