"""The benchmark of the simulator: references are right, and tables show deviations."""

import dataclasses

import numpy as np
import pytest

from benchmarks._store import Store
from benchmarks.simulator import __main__ as command, runner
from benchmarks.simulator.problems import PROBLEMS, reference


@pytest.mark.parametrize("name", [n for n, p in PROBLEMS.items() if p.exact and p.constant])
def test_references_equal_closed_forms(name):
    """SciPy's solution, where both are available."""
    problem = PROBLEMS[name]
    found = reference(dataclasses.replace(problem, exact=None))
    tolerance = 1e-7 if problem.stiff else 1e-11
    np.testing.assert_allclose(found, reference(problem), atol=tolerance)


def test_a_reference_by_hand():
    """x′ = −x(t − 1) with the history 1 is a parabola after two delays."""
    x = reference(PROBLEMS["hnw_17_1"])[:, 0]
    t = PROBLEMS["hnw_17_1"].times
    early, later = t <= 1, (t > 1) & (t <= 2)
    np.testing.assert_allclose(x[early], 1 - t[early], atol=1e-13)
    np.testing.assert_allclose(x[later], 1 - t[later] + (t[later] - 1) ** 2 / 2, atol=1e-13)


def test_there_are_enough_problems_of_others():
    theirs = [p for p in PROBLEMS.values() if not p.source.startswith("after")]
    assert len(PROBLEMS) >= 30 and len(theirs) >= 25


def test_a_solver_off_its_order_is_named(tmp_path):
    assert command.off("Heun", 1e-3, 1.2) and not command.off("Heun", 1e-3, 1.9)
    assert not command.off("Tsit5", 1e-11, 0.3)
    assert command.off("adaptive Tsit5", 1e-2, np.nan)
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        runner.run(["hnw_17_1"], store, only_method="Euler", progress=False)
    with Store(path) as store:
        (row,) = [r for r in store.rows("simulator") if r.metric == "order"]
        assert row.status == "ok" and 0.9 < row.value < 1.1
        assert "off their order or tolerance: none." in command.table(store)
    assert command.main(["run", "--out", str(path), "--only", "no such"]) == 2
