"""Every row of the paper's two tables and every figure, computed in one command.

    python -m benchmarks.paper --list                    # steps, and how long they take
    python -m benchmarks.paper --out DIR                 # all steps; the same command resumes
    python -m benchmarks.paper --out DIR --only dysts    # steps whose name contains this
    python -m benchmarks.paper --out DIR --smoke         # the smallest size, minutes

Every step is a command of a benchmark, printed before it runs; interrupted steps that fit and score
resume. Tables are written to DIR/tables, figures to DIR/figures, results to DIR/*.sqlite.
The climate tier is not generated: with `--climate DIR`, its published files are read.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ._runner import program
from .causal_dynamics.paper import presets, readings
from .causal_dynamics.recipes import RECIPES
from .dysts.report import ANCHORS
from .dysts.settings import recipes

# The seed of the generated graphs.
SEED = "2407"
COUPLED = tuple(name for name in RECIPES if name.startswith("coupled"))
SIMPLE = tuple(name for name in RECIPES if name.startswith("simple"))
GUESSES = ("allones", "empty", "selfedges", "linear")


class Step(NamedTuple):
    """A command, `python -m benchmarks.MODULE ...`, whose output goes to a file if it has one.

    `hours` are estimates for one free core, from times of parts of the steps; some steps are mostly
    compilation.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    hours: float
    prints: str | None = None


def steps(out: Path, *, smoke: bool = False, climate: Path | None = None) -> list[Step]:
    """Return all steps, in order."""
    makers: Sequence[Callable] = (_causal_dynamics, _units, _readings, _ablations, _dysts, _delays)
    return [step for make in makers for step in make(out, smoke, climate)]


def _many(option: str, values) -> tuple[str, ...]:
    return tuple(text for value in values for text in (option, value))


def _climate(name: str, run, climate: Path | None, only: str, hours: float) -> list[Step]:
    """The steps of the climate tier, which is not generated, if its files are given."""
    if climate is None:
        return []
    return [Step(name, "causal_dynamics", (*run, "--data", str(climate), "--only", only), hours)]


def _causal_dynamics(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps of Table 1, the appendix's full table, and its ablation of the gradient
    penalty.
    """
    simple, coupled, results = out / "simple", out / "coupled", out / "causal_dynamics.sqlite"
    rows = _many("--method", (*presets(), *GUESSES) if not smoke else ("l0ndde_paper", "empty"))
    run = ("run", *rows, "--out", str(results))
    small, nets = ("1", "1") if smoke else ("59", "24")
    categories = (SIMPLE[:1], COUPLED[:1]) if smoke else (SIMPLE, COUPLED)

    def generate(folder, names, graphs, series):
        chosen = _many("--category", names)
        size = ("--graphs", graphs, "--series", series, "--seed", SEED)
        return ("generate", "--out", str(folder), *chosen, *size)

    series = "1" if smoke else "3"
    found = [
        Step("causal_dynamics: simple systems", "causal_dynamics",
             generate(simple, categories[0], small, series), 0.02),
        Step("causal_dynamics: coupled networks", "causal_dynamics",
             generate(coupled, categories[1], nets, "1" if smoke else "2"), 0.1),
        Step("causal_dynamics: rows, simple", "causal_dynamics",
             (*run, "--data", str(simple)), 0.1),
        Step("causal_dynamics: rows, coupled", "causal_dynamics",
             (*run, "--data", str(coupled)), 0.25),
    ]  # fmt: skip
    found += _climate("causal_dynamics: rows, climate", run, climate, "climate", 0.1)
    show = ("table", str(results), "--joint", "--reference", "l0ndde_paper")
    found.append(Step("causal_dynamics: table", "causal_dynamics", show, 0, "table_1.md"))
    return found


def _units(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps on what λ multiplies, on graphs of the same benchmark."""
    results = out / "units.sqlite"
    rows = ("unit_l0ndde_sum_open", "allones") if smoke else (*readings(), "allones", "empty")
    run = ("run", *_many("--method", rows), "--series", "1", "--out", str(results))
    limit = "1" if smoke else "8"
    found = [
        Step(f"units: {name}", "causal_dynamics",
             (*run, "--data", str(out / folder), "--only", name, "--limit", limit), 0.1)
        for folder, name in (("simple", "simple_default"), ("coupled", "coupled_default"),
                             *(() if smoke else (("coupled", "coupled_noise"),)))
    ]  # fmt: skip
    found += _climate("units: climate", run, climate, "climate_enso", 0.05)
    show = ("readings", str(results))
    return [*found, Step("units: table", "causal_dynamics", show, 0, "units.md")]


def _readings(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps on what λ multiplies, on systems whose graph is known."""
    results = str(out / "readings.sqlite")
    size = ("--system", "Lorenz", "--setup", "dysts") if smoke else ("--seeds", "2")
    return [
        Step("readings: fits", "readings", ("run", *size, "--out", results), 0.1),
        Step("readings: table", "readings", ("table", results), 0, "readings.md"),
    ]


def _ablations(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps of the ablations of each part."""
    results = str(out / "ablations.sqlite")
    small = ("--system", "Lorenz", "--seeds", "1", "--part", "confinement")
    size = small if smoke else ("--seeds", "3")
    return [
        Step("ablations: fits", "ablations", ("run", *size, "--out", results), 0.15),
        Step("ablations: table", "ablations", ("table", results), 0, "ablations.md"),
    ]


def _dysts(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps of Table 2, the trajectories and the association of metrics with graphs and
    training errors.
    """
    data, results = str(out / "dysts"), str(out / "dysts.sqlite")
    size = ("--only", "Lorenz", "--limit", "1") if smoke else ()
    names = ("node_paper", "mean") if smoke else (*recipes(), *ANCHORS)
    rows = _many("--method", dict.fromkeys(names))
    return [
        Step("dysts: systems", "dysts", ("generate", *size, "--out", data), 0.05),
        Step("dysts: rows", "dysts", ("run", "--data", data, *size, *rows, "--out", results), 1.7),
        Step("dysts: table", "dysts", ("table", results), 0, "table_2.md"),
        Step("dysts: figures", "dysts",
             ("figures", results, "--data", data, "--out", str(out / "figures")), 0.02),
    ]  # fmt: skip


def _delays(out: Path, smoke: bool, climate: Path | None) -> list[Step]:
    """Return the steps beyond the paper's benchmarks: which variable drives which, at which
    delay.
    """
    results = str(out / "delays.sqlite")
    size = ("--smoke",) if smoke else ("--category", "low")
    names = ("allones", "granger") if smoke else (
        "allones", "selfedges", "granger", "granger_midpoint", "l0ndde", "l0ndde_midpoint",
        "l0ndde_edge_midpoint", "cnode", "cnode_midpoint", "discover",
    )  # fmt: skip
    return [
        Step("delays: rows", "delays",
             ("run", *size, *_many("--method", names), "--out", results), 1.5),
        Step("delays: table", "delays", ("table", results), 0, "delays.md"),
    ]  # fmt: skip


def listed(chosen: Sequence[Step]) -> str:
    """Return names, hours and commands."""
    lines = [
        f"{step.hours:4.2f} h  {step.name}\n        python -m benchmarks.{step.module} "
        + " ".join(step.arguments)
        for step in chosen
    ]
    return "\n".join([*lines, f"{sum(step.hours for step in chosen):4.2f} h  in all"])


def run(chosen: Sequence[Step], out: Path) -> int:
    """Run one step after another; return the status of the first that fails, or 0."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for step in chosen:
        command = (sys.executable, "-m", f"benchmarks.{step.module}", *step.arguments)
        print(f"[{step.name}] python -m benchmarks.{step.module} {' '.join(step.arguments)}",
              flush=True)  # fmt: skip
        kept = {"stdout": subprocess.PIPE, "text": True} if step.prints else {}
        done = subprocess.run(command, **kept)
        if done.returncode:
            print(
                f"{step.name} ended with {done.returncode}; finished work is kept.", file=sys.stderr
            )
            return done.returncode
        if step.prints:
            (out / "tables" / step.prints).write_text(done.stdout, encoding="utf-8")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, run the steps, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("paper"), metavar="DIR")
    parser.add_argument("--only", metavar="TEXT", help="steps whose name contains this")
    parser.add_argument("--climate", type=Path, metavar="DIR", help="published climate graphs")
    parser.add_argument("--smoke", action="store_true", help="the smallest size of every step")
    parser.add_argument("--list", action="store_true", help="list the steps and their times")
    given = parser.parse_args(arguments)
    chosen = [
        step
        for step in steps(given.out, smoke=given.smoke, climate=given.climate)
        if given.only is None or given.only in step.name
    ]
    if not chosen:
        parser.error(f"no step is called {given.only!r}; see --list.")
    if given.list:
        print(listed(chosen))
        return 0
    return run(chosen, given.out)


if __name__ == "__main__":
    sys.exit(program(main))
