"""The reliability of verdicts: `python -m benchmarks.verdict kinds|coverage|run|table`.

`kinds` discovers records of every kind, with fresh seeds, `run` the systems of `benchmarks.delays`,
and both store the reports. `table` compares them with the truth, together with the dirty records
in the same file. `coverage` counts how often intervals contain the truth.
"""

import argparse
import dataclasses
import json
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr

from .._arguments import add_machines, carry_out, existing_store, positive
from .._runner import program, run_tasks
from .._store import Record, Store, Unit
from ..delays.data import simulate
from ..delays.runner import choose
from ..delays.settings import CATEGORIES, Specification
from ..dirty.data import Case
from ..dirty.methods import METHODS, Answer
from ..dirty.report import calibration, results
from ..dirty.runner import BENCHMARK as DIRTY, scored
from . import calibration as by_kind, coverage

BENCHMARK = "verdict"
# Far from the seeds on which thresholds were decided.
FRESH = 1000


@dataclass(frozen=True)
class Task:
    """One method on one series of the delays benchmark."""

    spec: Specification
    method: str
    seed: int
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        spec = self.spec
        return Unit(BENCHMARK, spec.category, spec.name, spec.series, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks of a category share."""
        return json.dumps({"length": self.spec.length})

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception of the method becomes a status."""
    series = simulate(task.spec, task.seed)
    case = Case(series.x, series.graph)
    name = f"{task.spec.category}/{task.spec.name}/{task.spec.series}".encode()
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(name))
    start = time.perf_counter()
    try:
        found = METHODS[task.method](series.x, series.lags, dt=series.dt, key=key)
        status = "; ".join(found.names)[:300] or "ok"
    except Exception as error:
        found, status = Answer(~(series.graph | True), verdict=2), f"error: {error}"
    metrics = scored(found, case)
    arrays = {"graph": found.graph, "truth": series.graph}
    return [Record(task.unit, metrics, status, time.perf_counter() - start, arrays)]


def run(
    specs: Sequence[Specification],
    methods: Sequence[str],
    store: Store,
    *,
    seed: int = FRESH,
    workers: int | str = 1,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet."""
    tasks = [Task(spec, method, seed) for method in methods for spec in specs]
    run_tasks(tasks, evaluate, store, workers=workers, progress=progress)


def table(store: Store) -> str:
    """Return Markdown: the tables by kind, the calibration on the delays benchmark, on the dirty
    records, and on both.
    """
    for one in (by_kind, coverage):
        if next(iter(store.rows(one.BENCHMARK)), None) is not None:
            return one.table(store)
    groups = {}
    for benchmark in (BENCHMARK, DIRTY):
        try:
            groups[benchmark] = list(results(store, benchmark).items())
        except ValueError:
            continue
    if not groups:
        raise ValueError(f"{store.path} holds no verdicts; run this or benchmarks.dirty first.")
    titles = {BENCHMARK: "Systems of the delays benchmark", DIRTY: "Dirty records and their twins"}
    parts = [f"{titles[name]}:\n\n{calibration(items)}" for name, items in groups.items()]
    if len(groups) > 1:
        together = [item for items in groups.values() for item in items]
        parts.append(f"Together:\n\n{calibration(together)}")
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict")
    actions = parser.add_subparsers(required=True, metavar="kinds|coverage|run|table")
    kinds = actions.add_parser("kinds", help="records of every kind; resumes a stopped run")
    kinds.set_defaults(action=_kinds)
    kinds.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    kinds.add_argument("--data", type=Path, metavar="DIR", help="also plants, from their files")
    kinds.add_argument("--records", type=positive, default=10, metavar="K", help="of each kind")
    kinds.add_argument("--only", metavar="PATTERN", help="kinds whose name or group contains this")
    kinds.add_argument("--seed", type=int, default=FRESH)
    add_machines(kinds)
    covered = actions.add_parser("coverage", help="test of intervals; resumes, prints the table")
    covered.set_defaults(action=_coverage)
    covered.add_argument("--out", type=Path, metavar="FILE", help="SQLite results; coverage.sqlite")
    covered.add_argument("--records", type=positive, default=10, metavar="N", help="of each kind")
    covered.add_argument("--length", type=positive, action="append", metavar="T", help="samples")
    covered.add_argument("--only", metavar="PATTERN", help="systems whose name contains this")
    covered.add_argument("--seed", type=int, default=FRESH)
    add_machines(covered)
    running = actions.add_parser("run", help="simulate, discover, judge; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument(
        "--method", action="append", choices=METHODS, help="may be repeated; discover"
    )
    running.add_argument("--category", action="append", choices=CATEGORIES, help="may be repeated")
    running.add_argument("--only", metavar="PATTERN", help="tasks whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N tasks")
    running.add_argument("--length", type=positive, metavar="T", help="samples")
    running.add_argument("--smoke", action="store_true", help="three tiny tasks")
    running.add_argument("--seed", type=int, default=FRESH)
    add_machines(running)
    showing = actions.add_parser("table", help="print the calibration as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    return parser


def _kinds(options) -> int:
    chosen = by_kind.tasks(
        records=options.records, seed=options.seed, only=options.only, directory=options.data
    )
    with Store(options.out) as store:
        by_kind.run(chosen, store, workers=options.workers)
    return 0


def _coverage(options) -> int:
    chosen = coverage.tasks(
        records=options.records, seed=options.seed, only=options.only, lengths=options.length
    )
    with Store(options.out or Path("coverage.sqlite")) as store:
        coverage.run(chosen, store, workers=options.workers)
        print(coverage.table(store))
    return 0


def _run(options) -> int:
    specs = choose(
        categories=options.category or CATEGORIES,
        only=options.only,
        limit=options.limit,
        length=options.length,
        smoke=options.smoke,
    )
    methods = tuple(dict.fromkeys(options.method)) if options.method else ("discover",)
    with Store(options.out) as store:
        run(
            specs,
            methods,
            store,
            seed=options.seed,
            workers=options.workers,
        )
    return 0


def _table(options) -> int:
    with existing_store(options.results) as store:
        print(table(store))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
