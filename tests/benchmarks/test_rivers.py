"""The rivers benchmark: protocol, baselines against other code, a small run, predictions."""

import itertools
import re

import jax
import numpy as np
import pytest

from benchmarks import tables
from benchmarks._store import Store
from benchmarks.blowflies import recruitment_delay
from benchmarks.rivers import baselines, methods, report, runner, travel
from benchmarks.rivers.__main__ import main
from benchmarks.rivers.data import connected_subgraphs, interpolated, read_record
from benchmarks.rivers.scoring import auroc, wrong_edges


@pytest.fixture(scope="module")
def flood():
    return read_record()


def test_the_flood_is_as_published(flood):
    assert flood.x.shape == (3010, 42) and flood.dt == 0.25
    assert np.isnan(flood.x).sum() == 29
    assert flood.truth.sum() == 42
    ends = flood.truth[flood.names.index("640"), flood.names.index("431")]
    assert ends and not flood.truth[flood.names.index("431"), flood.names.index("640")]
    sets = connected_subgraphs(flood.truth, 5)
    assert len(sets) == 2139
    density = np.mean([flood.truth[np.ix_(s, s)].sum() / 20 for s in sets])
    assert density == pytest.approx(0.2002, abs=5e-5)


def test_subgraphs_are_what_brute_force_finds():
    rng = np.random.default_rng(0)
    truth = np.triu(rng.random((9, 9)) < 0.25, 1)

    def connected(members):
        seen, either = {members[0]}, truth | truth.T
        for _ in members:
            seen |= {j for j in members if any(either[i, j] for i in seen)}
        return len(seen) == len(members)

    expected = [s for s in itertools.combinations(range(9), 4) if connected(s)]
    assert connected_subgraphs(truth, 4) == expected


def test_gaps_are_bridged():
    x = np.array([[np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan], [4.0, 7.0]])
    np.testing.assert_array_equal(interpolated(x), [[2, 1], [2, 3], [3, 5], [4, 7]])


def test_auroc_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 5, 60).astype(float), rng.random(60) < 0.3
    assert auroc(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
    assert np.isnan(auroc(scores, np.zeros(60, bool)))


def test_wrong_edges_are_counted():
    truth = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], bool)
    graph = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1]], bool)
    assert wrong_edges(graph, truth) == {"false": 1, "missed": 1, "swapped": 1}


def test_the_published_var_is_that_of_statsmodels(flood):
    api = pytest.importorskip("statsmodels.tsa.api")
    x = flood.filled[:600, [5, 9, 20]]
    fitted = api.VAR(x).fit(5, trend="c").coefs  # [lag target source]
    found = baselines.largest_coefficient(x, 5)
    np.testing.assert_allclose(found, fitted.max(axis=0).T, rtol=1e-6, atol=1e-8)


def test_shifted_correlations_are_those_of_shifted_arrays(flood):
    x = flood.filled[:300, [5, 20]]
    at, peak = baselines._peaks(x, 30)
    one, other = x.T
    pairs = {0: (one, other)} | {k: (one[:-k], other[k:]) for k in range(1, 31)}
    pairs |= {-k: (one[k:], other[:-k]) for k in range(1, 31)}
    values = {shift: np.corrcoef(*pair)[0, 1] for shift, pair in pairs.items()}
    assert at[0, 1] == max(values, key=values.get) == -at[1, 0]
    assert peak[0, 1] == pytest.approx(max(values.values()))


@pytest.mark.parametrize("name", ["pairs", "pairs_reverse", "all_others", "granger", "rank"])
def test_what_claims_to_know_no_unit_knows_none(flood, name):
    x = flood.filled[:800, [5, 9, 20]]
    key = jax.random.key(0)
    one = methods.METHODS[name](x, 0.25, key=key).scores
    other = methods.METHODS[name](x * [1e-3, 1.0, 40.0], 0.25, key=key).scores
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_units_are_all_that_the_published_var_knows(flood):
    key, truths, scores = jax.random.key(0), [], {"var": [], "var_rescaled": [], "rank": []}
    for gauges in connected_subgraphs(flood.truth, 5)[::120]:
        truths.append(flood.truth[np.ix_(gauges, gauges)][~np.eye(5, dtype=bool)])
        for name, found in scores.items():
            score = methods.METHODS[name](flood.filled[:, gauges], 0.25, key=key).scores
            found.append(score[~np.eye(5, dtype=bool)])
    joint = {name: auroc(np.array(found), np.array(truths)) for name, found in scores.items()}
    assert joint["var"] > 0.75 and joint["var_rescaled"] < 0.35
    assert joint["rank"] > joint["var"]


def test_a_small_run_resumes_and_makes_a_table(tmp_path, capsys):
    out = tmp_path / "results.sqlite"
    arguments = ["run", "--out", str(out), "--limit", "3", "--method", "var", "--method", "pairs"]
    assert main([*arguments, "--predictions", str(tmp_path / "predictions")]) == 0
    with Store(out) as store:
        before = list(store.rows(runner.BENCHMARK))
        units = store.done(runner.BENCHMARK)
        unit = min(units)
        kept = store.arrays(unit)
    assert len(units) == 6
    assert main(arguments) == 0
    with Store(out) as store:
        assert list(store.rows(runner.BENCHMARK)) == before
        assert report.write_predictions(store, tmp_path / "again") == 6
    file = np.load(tmp_path / "predictions" / unit.method / f"{unit.graph}.npz")
    np.testing.assert_array_equal(file["scores"], kept["scores"])
    assert kept["truth"].shape == (5, 5)
    assert main(["table", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "var" in printed and "with the truth" in printed and "joint" in printed


def test_all_gauges_at_once_and_a_record_of_ones_own(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).cumsum(axis=0)
    lines = ["datetime,7,8,9"]
    stamps = np.datetime64("2024-01-01") + np.arange(120).astype("timedelta64[D]")
    lines += [
        f"{day}," + ",".join(f"{v:.5f}" for v in row) for day, row in zip(stamps, x, strict=True)
    ]
    (tmp_path / "rivers_ts_mine.csv").write_text("\n".join(lines))
    (tmp_path / "edges.csv").write_text("source,target\n7,8\n8,9\n")
    out = str(tmp_path / "r.sqlite")
    whole = ["run", "--data", str(tmp_path), "--out", out, "--whole", "--method", "rank"]
    assert main([*whole, "--method", "chance"]) == 0
    assert main(["table", out]) == 0
    assert "whole" in capsys.readouterr().out
    (tmp_path / "edges.csv").write_text("source,target\n7,10\n")
    read_record.cache_clear()
    assert main(whole) == 2
    assert "no series of 10" in capsys.readouterr().err
    assert main(["run", "--data", str(tmp_path / "nowhere"), "--out", out]) == 2


def test_verdicts_are_set_beside_the_truth(monkeypatch, tmp_path):
    """All true links in one report, and one swapped link in another."""
    category, (first, second) = runner.choose(limit=2)
    record = read_record(None)
    truths = [record.truth[np.ix_(gauges, gauges)] for gauges in (first, second)]
    one_swapped = np.zeros((5, 5), bool)
    one_swapped[tuple(np.argwhere(truths[1] & ~truths[1].T)[0][::-1])] = True
    said = iter([(truths[0], "supported"), (one_swapped, "not supported")])

    def says(x, dt, *, key):
        graph, verdict = next(said)
        return methods.Prediction(graph.astype(float), graph, verdict)

    monkeypatch.setitem(methods.METHODS, "chance", says)
    with Store(tmp_path / "r.sqlite") as store:
        runner.run([first, second], category, ["chance"], store, progress=False)
        lines = [re.split(r" *\| *", line) for line in report.table(store).splitlines()]
    share = truths[0].sum() / (truths[0].sum() + truths[1].sum())
    assert [line[3:-1] for line in lines if line[3:4] and "supported" in line[3]] == [
        ["supported", "1", str(truths[0].sum()), "1.00", tables.number(share, 2)],
        ["not supported", "1", "1", ".00", ".00"],
    ]


def test_a_method_that_fails_ranks_nothing(monkeypatch, tmp_path):
    def fails(x, dt, *, key):
        raise RuntimeError("no")

    monkeypatch.setitem(methods.METHODS, "chance", fails)
    category, sets = runner.choose(limit=1)
    with Store(tmp_path / "r.sqlite") as store:
        runner.run(sets, category, ["chance"], store, progress=False)
        rows = {row.metric: row for row in store.rows(runner.BENCHMARK)}
    assert rows["failed"].value == 1 and rows["auroc"].value == 0.5
    assert rows["failed"].status == "error: RuntimeError: no"


def test_peaks_are_read_in_the_middle_of_flat_tops():
    levels = np.zeros(50)
    levels[20:25] = 4.0
    levels[40] = 3.0
    assert travel.peak(levels) == 22


def test_recruitment_takes_the_delay_it_was_simulated_with():
    rng, delay, n = np.random.default_rng(0), 15, 400
    counts = np.full(n + 100, 500.0)
    for t in range(delay, n + 99):
        past = counts[t - delay]
        births = 8 * past * np.exp(-past / 500) * rng.gamma(20, 1 / 20)
        counts[t + 1] = max(0.8 * counts[t] * rng.gamma(200, 1 / 200) + births, 1)
    series = np.stack([np.arange(n), counts[100:]], axis=1).astype(float)
    found = recruitment_delay(series, draws=100)
    # Water that is added on day t counts from day t + 1 on.
    assert found.lower <= delay + 1 and found.upper >= delay
    assert found.upper - found.lower < 4
