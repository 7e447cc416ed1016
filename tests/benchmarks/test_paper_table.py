"""The paper-shaped table: published rows, ranks, tests, layout."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from benchmarks import tables
from benchmarks._store import POOLED, Record, Store, Unit
from benchmarks.causal_dynamics.__main__ import main
from benchmarks.causal_dynamics.paper_table import (
    Cell,
    average_ranks,
    own,
    paper_table,
    published,
    welch,
)
from benchmarks.causal_dynamics.runner import BENCHMARK

CATEGORIES = ("simple/default", "coupled/noise")


@pytest.fixture
def store(tmp_path):
    """Two methods on three graphs of two categories, five series each."""
    rng = np.random.default_rng(0)
    with Store(tmp_path / "results.sqlite") as store:
        for method, shift in (("good_one", 0.3), ("other", 0.0)):
            for category in CATEGORIES:
                for graph in "abc":
                    auroc = 0.6 + shift + 0.01 * rng.uniform()
                    metrics = {"published.auroc": auroc, "published.auprc": auroc - 0.1}
                    metrics |= {"published.shd": 10 - 20 * shift, "series": 5}
                    metrics |= {"corrected.auroc": math.nan, "corrected.auprc": math.nan}
                    metrics |= {"corrected.shd": 3.0}
                    unit = Unit(BENCHMARK, category, graph, POOLED, method, 0)
                    store.write([Record(unit, metrics, "pooled", 0.0)])
        yield store


def cells(text, method):
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(f"| {method} ")
    ]


def test_published_values():
    categories, values = published()
    assert len(categories) == 10 and len(values["shd"]) == 140
    assert values["auroc"]["L0-NDDE †", "simple/default"].mean == 0.64
    assert values["auprc"]["C-NODE †", "climate/maooam"].mean == 0.97
    assert values["shd"]["PCMCI+ †", "coupled/confounder"].mean == 324.63
    assert values["auroc"]["L0-NDDE without gradient penalty †", "climate/enso"].mean == 0.52
    for score in ("auroc", "auprc"):
        assert all(0 <= cell.mean <= 1 for cell in values[score].values())


def test_own_values_are_means_over_graphs(store):
    values = own(store, "published")
    cell = values["auroc"]["good_one", "simple/default"]
    assert len(cell.graphs) == 3 and cell.mean == pytest.approx(np.mean(cell.graphs))
    assert 0.9 < cell.mean < 0.91
    assert values["shd"]["other", "coupled/noise"].mean == 20  # five series of ten
    undefined = own(store, "corrected")["auroc"]["other", "simple/default"]
    assert math.isnan(undefined.mean) and undefined.graphs == ()


def test_ranks_are_shared_by_ties_and_taken_where_all_methods_are():
    table = {
        ("a", "x"): 0.5, ("b", "x"): 0.9, ("c", "x"): 0.5,
        ("a", "y"): 0.1, ("b", "y"): 0.2, ("c", "y"): 0.3,
    }  # fmt: skip
    values = {key: Cell(value) for key, value in table.items()}
    found = average_ranks(values, "abc", "xy", largest_first=True)
    assert found == {"a": (2.5 + 3) / 2, "b": (1 + 2) / 2, "c": (2.5 + 1) / 2}
    found = average_ranks(values, "abc", "xy", largest_first=False)
    assert found == {"a": (1.5 + 1) / 2, "b": (3 + 2) / 2, "c": (1.5 + 3) / 2}
    del values["a", "x"]
    assert average_ranks(values, "abc", "xy", largest_first=True) == {"a": 3, "b": 2, "c": 1}
    assert math.isnan(average_ranks(values, "abc", "x", largest_first=True)["b"])


def test_what_is_missing_ranks_last():
    grid = np.array([[0.1, np.nan], [0.2, 0.5]])
    np.testing.assert_array_equal(tables.ranks(grid), [[1, 2], [2, 1]])
    np.testing.assert_array_equal(tables.ranks(grid, largest_first=True), [[2, 2], [1, 1]])


def test_welch():
    a, b = [0.1, 0.2, 0.25], [0.5, 0.6, 0.9, 0.4]
    assert welch(a, b) == pytest.approx(ttest_ind(a, b, equal_var=False).pvalue)
    assert math.isnan(welch([1.0], b))
    assert welch([1.0, 1.0], [1.0, 1.0]) == 1 and welch([1.0, 1.0], [2.0, 2.0]) == 0


def test_table_has_published_rows_beside_ours(store):
    text = paper_table(store, reference="good_one")
    shd, auroc, _ = cells(text, "good_one")
    assert len(shd) == 4  # method, two categories, rank
    assert auroc[1].startswith(".9") and auroc[3] == "1.0"
    assert cells(text, "L0-NDDE †")[1][1] == ".64"
    assert cells(text, "other")[1][1].endswith("*")
    assert "*" not in "".join(auroc)
    assert cells(text, "other")[0][1] == "20.0*"
    # Other labels are not those the paper scored against.
    assert "L0-NDDE" not in paper_table(store, labels="corrected")


def test_latex_is_balanced_and_escaped(store):
    text = paper_table(store, latex=True)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 3
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in rows} == {3}
    assert r"good\_one" in text and "†" not in text.rpartition("%")[0]


def test_command_line(store, capsys):
    assert main(["table", str(store.path), "--latex"]) == 0
    assert capsys.readouterr().out.startswith(r"\begin{tabular}")
    assert main(["table", str(store.path), "--reference", "nobody"]) == 2


def test_readings_stand_below_the_row_that_they_might_explain(tmp_path, capsys):
    """An SHD of 52.84 or 13.21 where 26.42 was published is off by one doubling."""
    file = tmp_path / "readings.sqlite"
    shd = {"unit_l0ndde_sum_open": 52.84, "unit_l0ndde_mean_undecided": 13.21, "allones": 28.0}
    with Store(file) as results:
        for method, value in shd.items():
            metrics = {"published.auroc": 0.7, "published.auprc": 0.8, "published.shd": value}
            unit = Unit(BENCHMARK, "simple/default", "a", POOLED, method, 0)
            results.write([Record(unit, metrics | {"series": 10}, "pooled", 0.0)])
    assert main(["readings", str(file)]) == 0
    text = capsys.readouterr().out
    assert cells(text, "L0-NDDE †")[0][3:] == ["26", ".64", "-"]
    found = cells(text, "unit_l0ndde_sum_open")[0]
    assert found[1:] == ["mean_j risk_j + λ Σ_ij z_ij", "open", "53", ".70", "1.00"]
    assert cells(text, "unit_l0ndde_mean_undecided")[0][2:] == ["undecided", "13", ".70", "1.00"]
    assert cells(text, "allones")[0][-1] == "-" and not cells(text, "AGL †")
