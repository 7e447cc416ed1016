"""Command line: `python -m benchmarks.world run|table|picture`."""

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
    from .methods import DEFAULT, METHODS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.world")
    actions = parser.add_subparsers(required=True, metavar="run|table|picture")

    running = actions.add_parser("run", help="simulate, discover, score; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--data", type=Path, metavar="DIR", help="plants instead of simulations")
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument(
        "--method", action="append", choices=METHODS, help=f"may be repeated; {DEFAULT[0]}"
    )
    running.add_argument("--only", metavar="PATTERN", help="family/size that contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N families x sizes")
    running.add_argument("--seed", type=int, default=0, help="the first one")
    running.add_argument("--seeds", type=positive, default=1, metavar="K", help="how many")
    running.add_argument("--predictions", type=Path, metavar="DIR", help="write scores as .npz too")
    add_machines(running)
    running.add_argument("--retry-errors", action="store_true", help="redo tasks with errors")

    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    showing.add_argument("--families", action="store_true", help="short table by family")

    drawing = actions.add_parser("picture", help="draw the short table")
    drawing.set_defaults(action=_picture)
    drawing.add_argument("results", type=Path)
    drawing.add_argument("--out", type=Path, required=True, metavar="PNG")
    return parser


def _run(options) -> int:
    from .methods import DEFAULT
    from .runner import choose, run

    kinds = choose(options.data, only=options.only, limit=options.limit)
    methods = tuple(dict.fromkeys(options.method)) if options.method else DEFAULT
    # A plant has one record.
    n_seeds = options.seeds if options.data is None else 1
    with Store(options.out) as store:
        run(
            kinds,
            methods,
            store,
            directory=options.data,
            seeds=range(options.seed, options.seed + n_seeds),
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
        if options.predictions:
            from .report import write_predictions

            write_predictions(store, options.predictions)
    return 0


def _table(options) -> int:
    from .report import by_family, table

    with existing_store(options.results) as store:
        print(by_family(store) if options.families else table(store))
    return 0


def _picture(options) -> int:
    from .report import picture

    with existing_store(options.results) as store:
        print(picture(store, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
