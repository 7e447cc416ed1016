"""The benchmark of dirty data: the faults are as described, and tables count them."""

import numpy as np
import pytest

from benchmarks._store import Record, Store, Unit
from benchmarks.dirty import __main__ as command, data, runner
from benchmarks.dirty.methods import METHODS, Answer
from benchmarks.dirty.report import calibration, table
from benchmarks.verdict import __main__ as verdict


def test_the_network_is_the_equation_it_says():
    """Against a loop over plain numbers."""
    net = data.Network(
        np.array([[0.0, 1.2], [-1.1, 0.0]]), np.array([[0.0, 2.0], [1.0, 0.0]]), sigma=0.3
    )
    path = data.simulate(net, 5, np.random.default_rng(3), burn=1)
    rng, h, longest = np.random.default_rng(3), data.DT / data.FINE, 2 * data.FINE
    steps = 6 * data.FINE
    start = 0.5 * rng.normal(size=2)
    x = [[float(start[0]), float(start[1])] for _ in range(longest + 1)]
    noise = 0.3 * np.sqrt(h) * rng.normal(size=(steps, 2))
    for k in range(steps):
        a, b = x[-1]
        late_a, late_b = x[longest + k - 2 * data.FINE][0], x[longest + k - data.FINE][1]
        drift_a, drift_b = -a - 1.1 * np.tanh(1.5 * late_b), -b + 1.2 * np.tanh(1.5 * late_a)
        x.append([a + h * drift_a + noise[k, 0], b + h * drift_b + noise[k, 1]])
    np.testing.assert_allclose(path, np.array(x)[longest + data.FINE + 1 :], rtol=1e-12)


def test_truth_has_the_lags_of_the_network():
    net, _ = data.fine(0)
    graph = net.graph
    assert graph[..., 0].trace() == data.DIM
    for i, j in np.argwhere(net.weights != 0):
        assert graph[i, j].sum() == 1 and graph[i, j, int(net.delays[i, j])]


@pytest.mark.parametrize("kind", data.KINDS)
def test_every_kind_differs_from_its_twin_and_repeats_itself(kind):
    clean, case = data.twin(0), data.dirty(kind, 0)
    again = data.dirty(kind, 0)
    np.testing.assert_array_equal(case.x, again.x)
    assert case.x.shape[1] == len(case.graph)
    assert case.x.shape != clean.x.shape or not np.array_equal(case.x, clean.x)
    assert case.x.shape[0] <= data.LENGTH


def test_there_are_enough_kinds():
    assert len(data.KINDS) >= 12


def _fixed(false, names=(), verdict=0):
    """A method that knows the truth of the twin and adds false edges to it."""

    def method(x, lags, *, key, **options):
        graph = np.zeros((x.shape[1], x.shape[1], len(lags)), bool)
        graph.ravel()[:false] = True
        return Answer(graph, names, verdict, len(names))

    return method


def test_a_run_is_resumed_and_the_table_counts(tmp_path, monkeypatch):
    calls = []

    def counted(x, lags, **options):
        calls.append(x.shape)
        return _fixed(3, ("trend",), 1)(x, lags, **options)

    monkeypatch.setitem(METHODS, "fixed", counted)
    with Store(tmp_path / "r.sqlite") as store:
        for _ in range(2):
            runner.run(["trend", "short"], ["fixed"], store, seeds=[0], progress=False)
        text = table(store)
    assert len(calls) == 3  # the twin and two kinds, once
    rows = {row.split("|")[2].strip(): row for row in text.splitlines() if "fixed" in row}
    assert [cell.strip() for cell in rows["trend"].split("|")[6:8]] == ["1.00", "1.00"]
    assert [cell.strip() for cell in rows["short"].split("|")[6:7]] == [".00"]


def test_a_refusal_is_good_and_a_fault_is_not(monkeypatch):
    def refuses(*_, **__):
        raise ValueError("too short")

    def fails(*_, **__):
        raise RuntimeError("broken")

    for method, status, refused in (
        (refuses, "refused: too short", 1.0),
        (fails, "error: Run", 0.0),
    ):
        monkeypatch.setitem(METHODS, "it", method)
        (record,) = runner.evaluate(runner.Task("short", "it", 0))
        assert record.status.startswith(status) and record.metrics["refused"] == refused


def test_calibration_by_hand():
    one = dict(edges=10, true=9, summary_edges=5, summary_true=5, summary_truth=6, verdict=0)
    two = dict(edges=4, true=1, summary_edges=4, summary_true=2, summary_truth=4, verdict=2)
    text = calibration([(("a", "b", 0, "m", 0), one), (("c", "b", 0, "m", 0), two)])
    rows = [[cell.strip() for cell in row.split("|")[2:-1]] for row in text.splitlines()[2:]]
    assert rows[0] == ["supported", "1", "10", ".900", "1.000", ".500"]
    assert rows[1][1:4] == ["0", "0", "-"]
    assert rows[2] == ["not supported", "1", "4", ".250", ".500", ".200"]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "discover", _fixed(0))
    out = str(tmp_path / "r.sqlite")
    assert command.main(["run", "--out", out, "--only", "short", "--limit", "1"]) == 0
    assert command.main(["table", out]) == 0
    assert "| discover | short" in capsys.readouterr().out
    assert command.main(["run", "--out", out, "--only", "nothing"]) == 2
    assert "season_common" in capsys.readouterr().err


def test_records_are_kept_with_graphs(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "fixed", _fixed(2))
    (record,) = runner.evaluate(runner.Task("trend", "fixed", 0))
    assert isinstance(record, Record) and isinstance(record.unit, Unit)
    assert record.arrays["graph"].sum() == 2
    assert record.metrics["edges"] == 2


def test_verdicts_on_the_systems_of_delays(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "discover", _fixed(0))
    out = str(tmp_path / "r.sqlite")
    arguments = ["run", "--out", out, "--smoke", "--only", "mackey"]
    assert verdict.main(arguments) == 0 and verdict.main(arguments) == 0
    assert command.main(["run", "--out", out, "--only", "short"]) == 0
    assert verdict.main(["table", out]) == 0
    text = capsys.readouterr().out
    assert text.count("| discover | supported ") == 3 and "Together" in text
