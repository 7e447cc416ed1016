"""The paper-shaped table: published rows, ranks, tests, layout."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_ind

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
    assert len(categories) == 10 and len(values["shd"]) == 130
    assert values["auroc"]["L0-NDDE †", "simple/default"].mean == 0.64
    assert values["auprc"]["C-NODE †", "climate/maooam"].mean == 0.97
    assert values["shd"]["PCMCI+ †", "coupled/confounder"].mean == 324.63
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


def test_ranks_equal_scipy():
    rng = np.random.default_rng(1)
    methods, categories = list("abcd"), list("xyz")
    table = rng.integers(0, 4, size=(4, 3)) / 4  # with ties
    values = {
        (m, c): Cell(table[i, j]) for i, m in enumerate(methods) for j, c in enumerate(categories)
    }
    for largest_first in (True, False):
        found = average_ranks(values, methods, categories, largest_first=largest_first)
        sign = -1 if largest_first else 1
        expected = rankdata(sign * table, axis=0).mean(axis=1)
        np.testing.assert_allclose([found[m] for m in methods], expected)
    del values["a", "x"]
    partial = average_ranks(values, methods, categories, largest_first=False)
    expected = rankdata(table[:, 1:], axis=0).mean(axis=1)
    np.testing.assert_allclose([partial[m] for m in methods], expected)


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
    # Other labels are not what the paper scored against.
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
