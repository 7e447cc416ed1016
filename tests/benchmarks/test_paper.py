"""One command for the paper's tables and figures: every step is a command that exists."""

import importlib
from pathlib import Path

import pytest

from benchmarks import paper
from benchmarks.causal_dynamics.methods import METHODS


def parsed(step, monkeypatch):
    """The arguments of a step, read by the command's own parser."""
    if step.module in ("readings", "ablations"):
        seen = {}
        module = importlib.import_module(f"benchmarks.{step.module}")
        monkeypatch.setattr(module, "run", lambda out, **given: seen.update(given))
        if step.arguments[0] == "run":
            module.main(step.arguments)
            assert seen
        return
    module = importlib.import_module(f"benchmarks.{step.module}.__main__")
    module._parser().parse_args(step.arguments)


@pytest.mark.parametrize("smoke", [True, False])
def test_every_step_is_a_command_that_its_benchmark_reads(smoke, monkeypatch, tmp_path):
    found = paper.steps(tmp_path, smoke=smoke, climate=tmp_path / "published")
    for step in found:
        parsed(step, monkeypatch)
    assert len({step.name for step in found}) == len(found)
    assert sum(step.hours for step in found) < 8


def test_all_rows_of_both_tables_are_among_them():
    text = paper.listed(paper.steps(Path("paper")))
    for name in ("l0ndde_paper", "l0ndde_paper_no_gradient", "agl_paper", "cnode_paper"):
        assert name in METHODS and text.count(f"--method {name} ") >= 1
    for name in ("l0ndde_paper", "node_paper", "cnode_paper", "agl_paper", "pathreg_paper"):
        rows = next(s for s in paper.steps(Path("paper")) if s.name == "dysts: rows").arguments
        assert name in rows
    assert "coupled/timelag" in text and "in all" in text


def test_steps_run_in_order_print_to_files_and_stop_at_the_first_that_fails(
    tmp_path, monkeypatch, capsys
):
    done = []

    class Done:
        stdout = "| a table |"

        def __init__(self, code):
            self.returncode = code

    def fake(command, **_):
        done.append(command[3:5])
        return Done(3 if command[2] == "benchmarks.dysts" else 0)

    monkeypatch.setattr(paper.subprocess, "run", fake)
    assert paper.main(["--out", str(tmp_path), "--smoke"]) == 3
    names = [command[0] for command in done]
    assert names[0] == "generate" and "table" in names and names[-1] == "generate"
    assert (tmp_path / "tables" / "table_1.md").read_text() == "| a table |"
    assert "dysts: systems ended with 3" in capsys.readouterr().err


def test_choices_and_the_list(tmp_path, capsys):
    assert paper.main(["--only", "readings", "--list"]) == 0
    assert capsys.readouterr().out.count("python -m") == 2
    with pytest.raises(SystemExit):
        paper.main(["--only", "nothing of the kind"])


@pytest.mark.slow
def test_the_smallest_size_of_table_1_in_full(tmp_path):
    assert paper.main(["--out", str(tmp_path), "--smoke", "--only", "causal_dynamics"]) == 0
    text = (tmp_path / "tables" / "table_1.md").read_text()
    assert "l0ndde_paper" in text and "L0-NDDE †" in text
