"""Ranks, tests of significance and shares in the tables of dysts."""

import itertools

import numpy as np

from benchmarks import tables
from benchmarks._store import Record, Unit
from benchmarks.dysts import associations, report, scoring
from benchmarks.dysts.settings import recipes


def test_ranks_share_ties_and_put_missing_values_last():
    kept = {
        "a": {"vlpt": {"s": 2.0, "t": 1.0}},
        "b": {"vlpt": {"s": 2.0, "t": 3.0}},
        "c": {"vlpt": {"s": 5.0}},
    }
    ranks = report._ranks(kept, ["a", "b", "c"], "vlpt", ["s", "t"])
    np.testing.assert_array_equal(ranks, [[2.5, 2], [2.5, 1], [1, 3]])


def test_permutation_test_against_the_exact_distribution():
    """If all eight pairs favour one, 2 of 2⁸ sign patterns are as extreme."""
    np.testing.assert_allclose(report.permutation_p(np.ones(8)), 2 / 256, atol=0.004)
    assert report.permutation_p(np.array([1.0, -1.0, 1.0, -1.0])) == 1


def test_shares_of_the_way_compare_the_same_systems(store):
    """A system that one method has not done must not change the medians of the others."""
    values = {
        "node": {"Lorenz": 1.0, "Chen": 100.0},
        "oracle": {"Lorenz": 5.0, "Chen": 200.0},
        "node_flow": {"Lorenz": 4.0},
    }
    metrics = dict.fromkeys(scoring.METRICS, 0.0)
    store.write(
        Record(
            Unit("dysts", "data", system, 0, method, 0),
            {**metrics, "vlpt": value, "chaotic": 1.0},
            "ok",
            0.0,
        )
        for method, systems in values.items()
        for system, value in systems.items()
    )
    text = report.ablation(store, known=recipes())
    (line,) = [line for line in text.splitlines() if "node_flow" in line]
    assert line.split("|")[2].strip() == ".75"
    assert line.split("|")[-2].strip() == "1"


def test_valid_times_are_compared_system_by_system(store):
    """The median of ratios, not the ratio of medians; anchors do not compete."""
    times = {"terms": (1.0, 10.0, 4.0), "discover": (0.5, 9.0, 4.0), "mean": (0.0, 0.0, 0.0)}
    store.write(
        Record(
            Unit("dysts", "data", system, 0, method, 0),
            {**dict.fromkeys(scoring.METRICS, 0.0), "vlpt": value, "chaotic": 1.0},
            "ok",
            0.0,
        )
        for method, values in times.items()
        for system, value in zip(("A", "B", "C"), values, strict=True)
    )
    said = "Median over systems of the valid time relative to that of `terms`: discover .90."
    assert said in report.table(store)


def test_associations_are_kendalls_over_all_methods_and_systems(store):
    """By counting pairs; anchors and systems without both numbers are omitted."""
    rng = np.random.default_rng(0)
    numbers = {}
    for method in ("discover", "node", "mean"):
        for system in "ABCDE":
            own = dict.fromkeys((*scoring.METRICS, "train"), 1.0)
            own |= {"shd": float(rng.integers(3)), "vlpt": float(rng.normal()), "chaotic": 1.0}
            numbers[method, system] = own
            store.write([Record(Unit("dysts", "data", system, 0, method, 0), own, "ok", 0.0)])
    pairs = [(n["shd"], n["vlpt"]) for (method, _), n in numbers.items() if method != "mean"]
    signs, ties = [], [0, 0]
    for (x, y), (u, v) in itertools.combinations(pairs, 2):
        signs.append(np.sign(x - u) * np.sign(y - v))
        ties[0], ties[1] = ties[0] + (x == u), ties[1] + (y == v)
    tau = sum(signs) / np.sqrt((len(signs) - ties[0]) * (len(signs) - ties[1]))
    found = associations.association(report.read(list(store.rows("dysts"))), "vlpt", "shd")
    np.testing.assert_allclose(found.tau, tau, rtol=1e-12)
    assert set(found.x) == {"discover", "node"}
    (line,) = [x for x in associations.table(store).splitlines() if x.startswith("| SHD/D²")]
    assert line.split("|")[3].strip().rstrip("*") == tables.number(tau, 2)
