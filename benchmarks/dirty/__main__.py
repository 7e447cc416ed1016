"""Command line: `python -m benchmarks.dirty run|table`."""

import argparse
import sys
from pathlib import Path

from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store

from .methods import METHODS
from .report import table
from .runner import choose, run


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dirty")
    actions = parser.add_subparsers(required=True, metavar="run|table")
    running = actions.add_parser("run", help="simulate, discover, score; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument(
        "--method", action="append", choices=METHODS, help="may be repeated; discover"
    )
    running.add_argument("--only", metavar="PATTERN", help="kinds whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N kinds")
    running.add_argument("--seed", type=int, default=0, help="the first one")
    running.add_argument("--seeds", type=positive, default=1, metavar="K", help="how many")
    add_machines(running)
    running.add_argument("--retry-errors", action="store_true", help="redo tasks with errors")
    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    return parser


def _run(options) -> int:
    kinds = choose(options.only, options.limit)
    methods = tuple(dict.fromkeys(options.method)) if options.method else ("discover",)
    with Store(options.out) as store:
        run(
            kinds,
            methods,
            store,
            seeds=range(options.seed, options.seed + options.seeds),
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
    return 0


def _table(options) -> int:
    with existing_store(options.results) as store:
        print(table(store))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
