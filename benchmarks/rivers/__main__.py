"""Command line: `python -m benchmarks.rivers run|table|delays|simulated`."""

import argparse
import sys
from pathlib import Path

from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    from .methods import METHODS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivers")
    actions = parser.add_subparsers(required=True, metavar="run|table|delays|simulated")

    running = actions.add_parser("run", help="rank, score; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--data", type=Path, metavar="DIR", help="another river record")
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--method", action="append", choices=METHODS, help="may be repeated")
    running.add_argument("--whole", action="store_true", help="all gauges at once")
    running.add_argument("--only", metavar="PATTERN", help="sets whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N sets, spread out")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--predictions", type=Path, metavar="DIR", help="write scores as .npz too")
    add_machines(running)
    running.add_argument("--retry-errors", action="store_true", help="redo tasks with errors")

    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)

    timing = actions.add_parser("delays", help="travel times of true edges and of peaks")
    timing.set_defaults(action=_delays)
    timing.add_argument("--data", type=Path, metavar="DIR", help="another river record")
    timing.add_argument("--seed", type=int, default=0)

    simulating = actions.add_parser("simulated", help="results on simulated floods")
    simulating.set_defaults(action=_simulated)
    return parser


def _simulated(options) -> int:
    from .simulated import table

    print(table())
    return 0


def _delays(options) -> int:
    from .data import read_record
    from .travel import travel_table

    print(travel_table(read_record(options.data), seed=options.seed))
    return 0


def _run(options) -> int:
    from .methods import DEFAULT
    from .report import write_predictions
    from .runner import choose, run

    category, sets = choose(
        options.data, whole=options.whole, only=options.only, limit=options.limit
    )
    methods = tuple(dict.fromkeys(options.method)) if options.method else DEFAULT
    with Store(options.out) as store:
        run(
            sets,
            category,
            methods,
            store,
            directory=options.data,
            seed=options.seed,
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
        if options.predictions:
            write_predictions(store, options.predictions)
    return 0


def _table(options) -> int:
    from .report import table

    with existing_store(options.results) as store:
        print(table(store))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
