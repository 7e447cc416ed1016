"""Command line: `python -m benchmarks.causal_dynamics run|generate|tune|table`."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store

from .data import find_files, graph_name, select_files
from .generate import write
from .limits import data_table, law_table
from .methods import METHODS
from .paper_table import paper_table
from .recipes import RECIPES
from .report import cost, table
from .runner import run
from .tuning import tune
from .units import readings_table


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causal_dynamics")
    actions = parser.add_subparsers(required=True, metavar="run|generate|tune|table")

    running = actions.add_parser("run", help="fit and score; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="graphs as .npz, or the published .nc tree; by default graphs are generated",
    )
    running.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep generated graphs here for later runs"
    )
    _add_choice_of_graphs(running)
    running.add_argument(
        "--method", action="append", required=True, choices=METHODS, help="may be repeated"
    )
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--only", metavar="PATTERN", help="graphs whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N graphs")
    running.add_argument("--series", type=positive, metavar="K", help="first K series per graph")
    running.add_argument("--seed", type=_seed, default=0)
    add_machines(running)
    running.add_argument("--predictions", type=Path, metavar="DIR", help="write scores per graph")
    running.add_argument("--retry-errors", action="store_true", help="redo series with errors")

    making = actions.add_parser("generate", help="write graphs of the benchmark's laws as .npz")
    making.set_defaults(action=_generate)
    making.add_argument("--out", type=Path, required=True, metavar="DIR")
    _add_choice_of_graphs(making)
    making.add_argument("--series", type=positive, default=10, metavar="K", help="per graph")
    making.add_argument("--seed", type=_seed, default=0)

    tuning = actions.add_parser(
        "tune", help="the coefficient that ranks one graph best, the paper's way"
    )
    tuning.set_defaults(action=_tune)
    tuning.add_argument("--data", type=Path, required=True, metavar="DIR", help="as for run")
    tuning.add_argument("--method", action="append", required=True, help="may be repeated")
    tuning.add_argument("--graph", default="simple_default_Lorenz84", metavar="NAME")
    tuning.add_argument("--series", type=positive, metavar="K", help="first K series only")
    tuning.add_argument("--seed", type=int, default=0)

    limiting = actions.add_parser("limits", help="scores of the best possible answers")
    limiting.set_defaults(action=_limits)
    limiting.add_argument("--data", type=Path, metavar="DIR", help="include limits of these graphs")
    limiting.add_argument("--graphs", type=positive, default=1000, metavar="N", help="per category")
    limiting.add_argument("--nodes", type=positive, default=10, metavar="N", help="of a network")
    limiting.add_argument("--seed", type=_seed, default=0)

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
    alone = showing.add_mutually_exclusive_group()
    alone.add_argument("--brief", action="store_true", help="the first table alone")
    alone.add_argument("--paper", action="store_true", help="the paper-shaped table alone")

    comparing = actions.add_parser("readings", help="methods unit_… and the published rows")
    comparing.set_defaults(action=_readings)
    comparing.add_argument("results", type=Path, help="as written by run --out")

    drawing = actions.add_parser("figures", help="draw results")
    drawing.set_defaults(action=_figures)
    drawing.add_argument("results", type=Path, help="as written by run --out")
    drawing.add_argument("--out", type=Path, required=True, metavar="DIR")
    drawing.add_argument("--labels", choices=("corrected", "published"), default="corrected")
    return parser


def _add_choice_of_graphs(parser: argparse.ArgumentParser) -> None:
    tiers = sorted({category.partition("/")[0] for category in RECIPES})
    parser.add_argument(
        "--tier", action="append", choices=tiers, help="generate its categories; may be repeated"
    )
    parser.add_argument(
        "--category", action="append", choices=RECIPES, help="generate it; may be repeated"
    )
    parser.add_argument(
        "--graphs", type=positive, metavar="N", help="graphs to generate per category; default 10"
    )
    parser.add_argument(
        "--nodes", type=positive, metavar="N", help="of a coupled network; default 10"
    )


def _chosen(options) -> list[str]:
    """Return categories to generate; all of them if none is named."""
    wanted = {*(options.tier or ()), *(options.category or ())} or {"simple", "coupled"}
    return [name for name in RECIPES if wanted & {name, name.partition("/")[0]}]


def _write_graphs(folder: Path, options, n_series: int) -> Iterator[Path]:
    return write(
        folder,
        _chosen(options),
        n_graphs=options.graphs or 10,
        seed=options.seed,
        n_series=n_series,
        n_nodes=options.nodes or 10,
        note=lambda text: print(text, file=sys.stderr),
    )


def _generate(options) -> int:
    start = time.perf_counter()
    n_graphs = sum(1 for _ in _write_graphs(options.out, options, options.series))
    seconds = time.perf_counter() - start
    print(
        f"{n_graphs} graphs of {options.series} series in {seconds:.1f} s, "
        f"{seconds / (n_graphs * options.series):.3f} s per series, compilation included"
    )
    return 0


@contextlib.contextmanager
def _graphs(options) -> Iterator[list[Path]]:
    """Yield the files for `run`; generated files are removed afterwards unless they are kept."""
    choices = ("tier", "category", "graphs", "nodes", "cache")
    if options.data is not None:
        given = [f"--{name}" for name in choices if getattr(options, name) is not None]
        if given:
            raise ValueError(
                f"{', '.join(given)} select generated graphs; with --data use --only and --limit."
            )
        yield find_files(options.data, only=options.only, limit=options.limit)
        return
    with contextlib.ExitStack() as stack:
        folder = options.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # Names of simple graphs do not depend on the seed, hence one folder per seed.
        files = list(_write_graphs(folder / f"seed{options.seed}", options, 10))
        yield select_files(files, only=options.only, limit=options.limit)


def _run(options) -> int:
    with _graphs(options) as files, Store(options.out) as store:
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
    named = [file for file in find_files(options.data) if graph_name(file) == options.graph]
    if not named:
        raise ValueError(f"{options.data} holds no graph {options.graph}; see --data and --graph.")
    for method in options.method:
        print(tune(method, named[0], series=options.series, seed=options.seed), flush=True)
    return 0


def _limits(options) -> int:
    files = [] if options.data is None else find_files(options.data)
    print(law_table(n_graphs=options.graphs, n_nodes=options.nodes, seed=options.seed))
    if files:
        print("\n" + data_table(files))
    return 0


def _table(options) -> int:
    with existing_store(options.results) as store:
        if not options.latex and not options.paper:
            print(table(store, joint=options.joint), end="\n\n")
            if options.brief:
                return 0
            print(cost(store), end="\n\n")
        print(
            paper_table(
                store, labels=options.labels, reference=options.reference, latex=options.latex
            )
        )
    return 0


def _readings(options) -> int:
    with existing_store(options.results) as store:
        print(readings_table(store))
    return 0


def _figures(options) -> int:
    from .figures import draw

    with existing_store(options.results) as store:
        for path in draw(store, options.out, labels=options.labels):
            print(path)
    return 0


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 2**32 - 1; got {number}")
    return number


if __name__ == "__main__":
    sys.exit(program(main))
