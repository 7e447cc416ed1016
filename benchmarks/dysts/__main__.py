"""Command line: `python -m benchmarks.dysts generate|run|tune|table|figures`."""

import argparse
import fnmatch
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store
from benchmarks.causal_dynamics.data import find_files

from . import associations
from .methods import METHODS
from .report import ANCHORS, ablation, table
from .runner import run
from .settings import NOISES, grid, protocol, recipes, system_names, tuning_names
from .tuning import tune

FIVE = ("discover", "node", "cnode", "agl", "pathreg")


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dysts")
    actions = parser.add_subparsers(required=True, metavar="generate|run|tune|table|figures")

    making = actions.add_parser("generate", help="simulate the data alone")
    making.set_defaults(action=_generate)
    making.add_argument("--out", type=Path, required=True, metavar="DIR")
    making.add_argument("--workers", type=positive, default=1, metavar="N", help="processes")
    _select(making)

    running = actions.add_parser("run", help="fit and score; resumes a stopped run")
    running.set_defaults(action=_run)
    add_machines(running)
    running.add_argument("--data", type=Path, metavar="DIR", help="systems as .npz; default: made")
    running.add_argument(
        "--method",
        action="append",
        choices=METHODS,
        help=f"may be repeated; by default {', '.join((*FIVE, *ANCHORS))}",
    )
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--predictions", type=Path, metavar="DIR", help="write forecasts")
    running.add_argument("--retry-errors", action="store_true", help="redo systems with errors")
    _select(running)

    choosing = actions.add_parser("tune", help="choose settings by the valid prediction time")
    choosing.set_defaults(action=_tune, only=None, limit=None, noise=protocol().noise_of)
    choosing.add_argument("--data", type=Path, metavar="DIR", help="systems as .npz; default: made")
    choosing.add_argument("--method", required=True, choices=recipes())
    choosing.add_argument("--key", action="append", choices=grid(), help="may be repeated")
    choosing.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite trials")
    choosing.add_argument("--workers", type=positive, default=1, metavar="N", help="processes")
    choosing.add_argument("--seed", type=int, default=0)

    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    showing.add_argument("--only", metavar="PATTERN", help="systems whose name matches")
    showing.add_argument(
        "--associations",
        action="store_true",
        help="association of metrics with errors of graph and step",
    )
    _noise(showing)

    drawing = actions.add_parser("figures", help="trajectories, associations, power spectra")
    drawing.set_defaults(action=_figures)
    drawing.add_argument("results", type=Path)
    drawing.add_argument("--data", type=Path, metavar="DIR", help="as given to run")
    drawing.add_argument("--out", type=Path, required=True, metavar="DIR")
    return parser


def _select(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="PATTERN", help="systems whose name contains this")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N systems")
    parser.add_argument("--seed", type=int, default=0)
    _noise(parser)


def _noise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--noise",
        choices=NOISES,
        default=protocol().noise_of,
        help="unit of the noise of generated data; each has its own category of results",
    )


def category(options) -> str:
    """Return the category of results, one for each kind of noise."""
    return "data" if options.noise == protocol().noise_of else options.noise


def _generate(options) -> int:
    _made(options.out, options)
    return 0


def _run(options) -> int:
    if options.data is None:
        files = _made(made_folder(options.out, category(options)), options)
    else:
        files = find_files(options.data, only=options.only, limit=options.limit)
    with Store(options.out) as store:
        run(
            files,
            list(dict.fromkeys(options.method or (*FIVE, *ANCHORS))),
            store,
            seed=options.seed,
            category=category(options),
            predictions=options.predictions,
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
    return 0


def made_folder(results: Path, category: str = "data") -> Path:
    """Return the folder of the data of a run without `--data`."""
    return results.with_name(f"{results.stem}_{category}")


def _tune(options) -> int:
    names = tuning_names()
    folder = options.data or made_folder(options.out)
    if options.data is None:
        _made(folder, options, names)
    files = [folder / f"{name}.npz" for name in names]
    if missing := [file.stem for file in files if not file.exists()]:
        raise ValueError(f"{folder} lacks {', '.join(missing)}; omit --data to simulate them.")
    with Store(options.out) as store:
        more = dict(keys=options.key, seed=options.seed, workers=options.workers)
        print(tune(options.method, files, store, **more))
    return 0


def _made(folder: Path, options, known: Sequence[str] | None = None) -> list[Path]:
    """Return the systems of the folder, after simulating those that are missing."""
    from .generate import generate_all

    known = system_names() if known is None else known
    kept = [n for n in known if options.only is None or fnmatch.fnmatch(n, f"*{options.only}*")]
    kept = kept[: options.limit]
    if not kept:
        raise ValueError(f"none of the {len(known)} systems matches {options.only!r}.")
    settings = protocol(noise_of=options.noise)
    return generate_all(kept, folder, seed=options.seed, workers=options.workers, settings=settings)


def _table(options) -> int:
    with existing_store(options.results) as store:
        which = dict(only=options.only, category=category(options))
        if options.associations:
            print(associations.table(store, **which))
            return 0
        print(table(store, **which))
        if shares := ablation(store, known={"discover", *recipes()}, **which):
            print(f"\n{shares}")
    return 0


def _figures(options) -> int:
    from .figures import draw_all

    folder = options.data or made_folder(options.results)
    with existing_store(options.results) as store:
        for path in draw_all(store, folder, options.out):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
