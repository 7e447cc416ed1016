"""Coverage of intervals: the systems are as described, and the table counts correctly."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.linalg
from scipy import stats

import ndde_jax as ndde
from benchmarks._store import Record, Store, Unit
from benchmarks.verdict import __main__ as command, coverage, sized
from ndde_jax.measure._delays import profile_delays


def test_records_follow_their_own_links():
    one = sized.record("bent map", 60, 3, 0)
    x, late = np.concatenate([one.x, one.after]), one.delay.astype(int)
    now = np.arange(10, 300)
    step = x[now] * (1 + one.own)
    for link in range(sized.LINKS):
        step[:, one.target[link]] += one.contribution(link, x[now - late[link], one.source[link]])
    left = (x[now + 1] - step).ravel()
    assert stats.kstest(left, "norm").pvalue > 0.001
    values = one.source_values[0]
    np.testing.assert_allclose(values[20:], one.x[20 - late[0] : 60 - late[0], one.source[0]])
    slope = np.mean(one.contribution(0, values + 1e-6) - one.contribution(0, values)) / 1e-6
    assert one.slopes[0] == pytest.approx(slope, rel=1e-4)


def test_responses_are_those_of_the_linear_system():
    one = sized.record("linear flow", 60, 3, 0)
    now = dataclasses.replace(one, delay=np.zeros(sized.LINKS))
    matrix = np.diag(now.own)
    np.add.at(matrix, (now.target, now.source), now.size)
    expected = scipy.linalg.expm(4 * matrix)[now.target[1], now.source[1]]
    assert now.response(1, 4, held=False)[-1] == pytest.approx(expected, abs=0.03)
    # The source has no effect before the delay.
    first = int(np.floor(one.delay[1]))
    assert not one.response(1, first, held=True).any()


def test_the_table_counts_by_hand(tmp_path):
    counts = coverage.Counts()
    counts.add("slope", 1.0, [0.5, 0.9, 1.1], [1.5, 1.0, 1.5], 2.0)
    counts.missing["slope"] += 2
    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(ValueError, match="no coverage"):
            coverage.table(store)
        for k, metrics in enumerate((counts.metrics(), {"failed": 1.0})):
            unit = Unit(coverage.BENCHMARK, "500", "linear map", k, "discover", 1)
            store.write([Record(unit, metrics, "ok", 1.0)])
        rows = coverage.table(store).splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    limits = stats.beta.ppf([0.025, 0.975], [2, 3], [2, 1])
    said = f".67 ({limits[0]:.2f}–{limits[1]:.2f})".replace("0.", ".")
    assert cells[0] == ["slope", "maps", "2", "3", said, ".20", "2"]
    assert cells[1][:4] == ["records that failed", "", "0", "1"]


@pytest.mark.slow
def test_one_tiny_record_of_each_kind(tmp_path, capsys):
    out = str(tmp_path / "r.sqlite")
    arguments = ["coverage", "--out", out, "--records", "1", "--length", "150", "--only", "linear"]
    assert command.main(arguments) == 0
    first = capsys.readouterr().out
    assert "| forecast, 5 ahead" in first and "failed" not in first
    assert command.main(["table", out]) == 0 and capsys.readouterr().out == first
    assert command.main([*arguments[:3], "--only", "nothing"]) == 2


@pytest.mark.slow
def test_delays_of_flows_lie_in_their_intervals_as_often_as_they_should():
    """Intervals given the graph; they used to reach half a sample either way, and held all."""
    inside, widths = [], []
    for seed, number in np.ndindex(2, 20):
        one = sized.record("linear flow", 1000, 9 + seed, number)
        graph = np.zeros((sized.DIM, sized.DIM, len(sized.LAGS)), bool)
        graph[:, :, 0] = np.eye(sized.DIM)
        lag = np.round(one.delay).astype(int)
        graph[one.source, one.target, lag] = True
        samples = ndde.read_samples(one.x, dt=1.0)
        windows = ndde.select.midpoint_windows(one.x, dt=1.0, lags=sized.LAGS)
        _, intervals = profile_delays(samples, windows, graph)
        ends = intervals[one.source, one.target, lag][lag > 1]
        inside += ((ends[:, 0] <= one.delay[lag > 1]) & (one.delay[lag > 1] <= ends[:, 1])).tolist()
        widths += (ends[:, 1] - ends[:, 0]).tolist()
    # About 90; too wide is wrong as well.
    assert 0.84 < np.mean(inside) < 0.99 and np.median(widths) < 0.6


def test_an_error_is_a_status(monkeypatch, tmp_path, capsys):
    def fails(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(coverage.ndde, "discover", fails)
    out = str(tmp_path / "r.sqlite")
    arguments = ["coverage", "--out", out, "--records", "1", "--length", "60", "--only", "bent map"]
    assert command.main(arguments) == 0
    assert "| records that failed |" in capsys.readouterr().out


def test_medians_of_nothing_are_unknown():
    assert math.isnan(coverage.Counts().metrics()["lag: width"])
