"""Command line: `python -m benchmarks.simulator run|table`."""

import argparse
import math
import sys
from pathlib import Path

from benchmarks import tables
from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store

from .problems import PROBLEMS
from .runner import ADAPTIVE, BENCHMARK, CONSTANT, TOLERANCES, choose, run

# Below the first error, rounding and errors of the reference may matter, so the order is not
# tested; below the second no order is shown.
FLOOR, SHOWN = 1e-9, 1e-11
# Largest deficit of a measured order, and largest ratio of an error to its tolerance.
SLACK, MANY = 0.5, 1000.0


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator")
    actions = parser.add_subparsers(required=True, metavar="run|table")
    running = actions.add_parser("run", help="solve and compare; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--method", choices=[*CONSTANT, *ADAPTIVE], help="one solver; all")
    running.add_argument("--only", metavar="PATTERN", help="problems whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N problems")
    add_machines(running)
    running.add_argument("--retry-errors", action="store_true", help="redo tasks with errors")
    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    return parser


def _run(options) -> int:
    with Store(options.out) as store:
        run(
            choose(options.only, options.limit),
            store,
            only_method=options.method,
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
    return 0


def _table(options) -> int:
    with existing_store(options.results) as store:
        print(table(store))
    return 0


def off(method: str, error: float, order: float) -> bool:
    """Return whether a solver is below its order, or an adaptive one above its tolerance."""
    if method in CONSTANT:
        return not (error < FLOOR or order > CONSTANT[method][1] - SLACK)
    return not error < MANY * TOLERANCES[1]


def table(store: Store) -> str:
    """Return Markdown: per problem the error of each solver at its finer steps, and its order.

    **Raises:** `ValueError` if there are no results.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    statuses: dict[tuple[str, str], str] = {}
    for row in store.rows(BENCHMARK):
        key = (row.graph, row.method)
        found.setdefault(key, {})[row.metric] = math.nan if row.value is None else row.value
        statuses[key] = row.status
    if not found:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run it first.")
    rows, wrong = [], []
    columns = [*CONSTANT, *ADAPTIVE]
    for name, problem in PROBLEMS.items():
        if not any((name, method) in found for method in columns):
            continue
        cells = [name, problem.source]
        for method in columns:
            metrics, status = found.get((name, method)), statuses.get((name, method), "")
            if metrics is None:
                cells.append("")
            elif status != "ok":
                cells.append(status.partition(":")[0])
            else:
                error, order = metrics["error"], metrics["order"]
                shown = f" ({order:.1f})" if method in CONSTANT and error > SHOWN else ""
                if bad := off(method, error, order):
                    wrong.append(f"{name} by {method}")
                cells.append(f"{error:.0e}{shown}{' off' if bad else ''}")
        rows.append(cells)
    said = ", ".join(wrong) if wrong else "none"
    counts = f"{len(rows)} problems, {len(found)} solutions; off their order or tolerance: {said}."
    header = ["problem", "source", *columns]
    return f"{tables.markdown(header, rows, text_columns=2)}\n\n{counts}"


if __name__ == "__main__":
    sys.exit(program(main))
