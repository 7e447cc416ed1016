"""Ablations: the changes of a row, resuming, and the table by hand."""

import numpy as np
import pytest

import ndde_jax as ndde
from benchmarks import ablations
from benchmarks._store import Record, Store, Unit

pytestmark = pytest.mark.slow  # of a benchmark that seldom changes and takes long to compile


def test_the_first_row_of_every_part_is_the_estimator_as_it_is():
    for rows in ablations.PARTS.values():
        assert next(iter(rows.values())) == ablations.Row()
        changed = list(rows.values())[1:]
        assert changed and all(row != ablations.Row() for row in changed)


def test_quality_of_the_true_drift_and_of_one_that_runs_away():
    system = ndde.systems.get("Lorenz")
    clean = ablations.sampled("Lorenz")

    class True_:
        lags, dt = (0,), 1e-3

        def __call__(self, history):
            return self.sign * system.drift(0.0, history[0], history[:0])

    import jax

    @jax.tree_util.register_static
    class Right(True_):
        sign = 1.0

    @jax.tree_util.register_static
    class Away(True_):
        sign = -3.0

    right = ablations._quality(Right(), system, clean, clean.std(axis=0), 0)
    away = ablations._quality(Away(), system, clean, clean.std(axis=0), 0)
    assert right["drift"] < 1e-5 and right["lost"] == 0
    # The drift is missing four times, and Lorenz run backwards leaves its attractor.
    assert away["drift"] == pytest.approx(4, rel=0.05) and away["lost"] == 1


def test_a_run_fits_the_estimator_once_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    done = []

    def score(part, row, system, seed):
        done.append((part, row, system, seed))
        return dict(wrong=0.1 * len(done), auroc=0.5, drift=0.2, lost=0.0)

    monkeypatch.setattr(ablations, "score", score)
    file = tmp_path / "ablations.sqlite"
    parts = ["draws of the gates", "confinement"]
    for systems in (["Lorenz"], ["Lorenz", "Rossler"]):
        ablations.run(file, systems=systems, seeds=1, parts=parts)
    # Two of five rows are the estimator unchanged.
    assert len(done) == len(set(done)) == 2 * 4
    with Store(file) as store:
        rows = {(r.category, r.graph): r.value for r in store.rows(ablations.BENCHMARK)
                if r.method in ("3", "none") and r.metric == "wrong"}  # fmt: skip
    for system in ("Lorenz", "Rossler"):
        assert rows[parts[0], system] == rows[parts[1], system]


def test_the_table_compares_in_pairs(tmp_path, capsys):
    file = tmp_path / "ablations.sqlite"
    values = {"3": (0.1, 0.3), "1": (0.2, 0.5)}
    with Store(file) as store:
        for row, wrong in values.items():
            for seed, value in enumerate(wrong):
                unit = Unit(ablations.BENCHMARK, "draws of the gates", "Lorenz", 0, row, seed)
                metrics = dict(wrong=value, auroc=0.8, drift=0.2, lost=0.5)
                store.write([Record(unit, metrics, "ok", 1.0)])
    ablations.main(["table", str(file)])
    lines = capsys.readouterr().out.splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[2:]]
    assert cells[0][1:] == ["3", ".20", ".80", ".20", ".50", "2"]
    # Differences .1 and .2: mean .15, standard error .05.
    assert cells[1][2] == ".35 (+0.15 ± 0.05)" and cells[1][5:] == [".50", "2"]


@pytest.mark.slow
def test_a_fit_of_the_smallest_size():
    small = dict(max_steps=50, newton_steps=2, width=2, depth=1, refine="none")
    found = ablations.score("lags", "0, 1", "Rossler", 0, **small)
    assert set(found) == {"wrong", "auroc", "drift", "lost"}
    assert np.isfinite(list(found.values())).all() and 0 <= found["wrong"] <= 2
