"""Command line: `python -m benchmarks.causal_dynamics run|table`."""

import argparse
import sys
from pathlib import Path

from benchmarks._store import Store

from .data import find_files
from .methods import METHODS
from .paper_table import paper_table
from .report import table
from .runner import run
from .tuning import tune


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.action(options)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causal_dynamics")
    actions = parser.add_subparsers(required=True, metavar="run|table")

    running = actions.add_parser("run", help="fit and score; resumes what an earlier run left")
    running.set_defaults(action=_run)
    running.add_argument("--data", type=Path, required=True, metavar="DIR", help="graphs as .npz")
    running.add_argument(
        "--method", action="append", required=True, choices=METHODS, help="may be repeated"
    )
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--only", metavar="PATTERN", help="graphs whose name contains this")
    running.add_argument("--limit", type=_positive, metavar="N", help="at most N graphs")
    running.add_argument("--series", type=_positive, metavar="K", help="first K series per graph")
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes")
    running.add_argument("--predictions", type=Path, metavar="DIR", help="write scores per graph")
    running.add_argument("--retry-errors", action="store_true", help="redo series with errors")

    tuning = actions.add_parser(
        "tune", help="the coefficient that ranks one graph best, the paper's way"
    )
    tuning.set_defaults(action=_tune)
    tuning.add_argument("--data", type=Path, required=True, metavar="DIR", help="graphs as .npz")
    tuning.add_argument("--method", action="append", required=True, help="may be repeated")
    tuning.add_argument("--graph", default="simple_default_Lorenz84", metavar="NAME")
    tuning.add_argument("--series", type=_positive, metavar="K", help="first K series only")
    tuning.add_argument("--seed", type=int, default=0)

    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    showing.add_argument(
        "--joint", action="store_true", help="rank the series of a graph together, as published"
    )
    showing.add_argument(
        "--labels",
        default="published",
        choices=("published", "transposed", "corrected"),
        help="of the paper-shaped table; published rows are shown with the first (%(default)s)",
    )
    showing.add_argument(
        "--reference", metavar="METHOD", help="mark methods that differ from it (Welch's test)"
    )
    showing.add_argument("--latex", action="store_true", help="the paper-shaped table in LaTeX")
    return parser


def _run(options) -> int:
    files = find_files(options.data, only=options.only, limit=options.limit)
    with Store(options.out) as store:
        run(
            files,
            list(dict.fromkeys(options.method)),
            store,
            series=options.series,
            seed=options.seed,
            predictions=options.predictions,
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
    return 0


def _tune(options) -> int:
    file = options.data / f"{options.graph}.npz"
    for method in options.method:
        print(tune(method, file, series=options.series, seed=options.seed), flush=True)
    return 0


def _table(options) -> int:
    if not options.results.exists():
        raise ValueError(f"{options.results} does not exist; `run --out` makes it.")
    with Store(options.results) as store:
        if not options.latex:
            print(table(store, joint=options.joint), end="\n\n")
        print(
            paper_table(
                store, labels=options.labels, reference=options.reference, latex=options.latex
            )
        )
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number; got {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
