"""Command line: `python -m benchmarks.delays run|table|figures|card|theory`."""

import argparse
import sys
from pathlib import Path

from benchmarks._arguments import add_machines, carry_out, existing_store, positive
from benchmarks._runner import program
from benchmarks._store import Store

from .settings import CATEGORIES, FURTHER


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    from .methods import METHODS
    from .report import ATTRACTOR
    from .scoring import LEVELS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.delays")
    actions = parser.add_subparsers(required=True, metavar="run|table|figures|card|theory")

    running = actions.add_parser("run", help="simulate, fit, score; resumes a stopped run")
    running.set_defaults(action=_run)
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--method", action="append", choices=METHODS, help="may be repeated")
    _add_choice(running)
    running.add_argument(
        "--seed", type=int, default=0, help="noise and starts; unless 0, other random networks too"
    )
    running.add_argument("--attractor", action="store_true", help="also simulate learned systems")
    add_machines(running)
    running.add_argument("--retry-errors", action="store_true", help="redo tasks with errors")

    showing = actions.add_parser("table", help="print results as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    showing.add_argument("--level", choices=(*LEVELS, ATTRACTOR), help="all its scores")

    showing.add_argument(
        "--less", choices=METHODS, help="paired differences of the other methods from this one"
    )

    drawing = actions.add_parser("figures", help="draw results, or recovery against theory")
    drawing.set_defaults(action=_figures)
    drawing.add_argument("results", type=Path)
    drawing.add_argument("--out", type=Path, required=True, metavar="DIR")

    describing = actions.add_parser("card", help="print why a task can be solved, or not")
    describing.set_defaults(action=_card)
    _add_choice(describing)

    comparing = actions.add_parser("theory", help="recovery by length and price, and the theorem")
    comparing.set_defaults(action=_theory)
    comparing.add_argument("--system", action="append", help="may be repeated; mackey_glass")
    comparing.add_argument("--length", action="append", type=positive, metavar="T")
    comparing.add_argument("--seeds", type=positive, default=5)
    comparing.add_argument("--out", type=Path, metavar="PNG", help="also draw it")
    return parser


def _add_choice(parser) -> None:
    parser.add_argument("--only", metavar="PATTERN", help="tasks whose category/name contains this")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most N tasks")
    parser.add_argument(
        "--category",
        action="append",
        choices=(*CATEGORIES, *FURTHER, "length"),
        help="may be repeated",
    )
    parser.add_argument("--length", type=positive, metavar="T", help="samples; 4000 by default")
    parser.add_argument("--series", type=positive, default=1, metavar="K", help="replicates")
    parser.add_argument("--smoke", action="store_true", help="three tiny tasks, seconds each")


def _choose(options):
    from .runner import choose

    return choose(
        categories=options.category or CATEGORIES,
        only=options.only,
        limit=options.limit,
        length=options.length,
        series=options.series,
        smoke=options.smoke,
        # Commands that describe tasks have no seed.
        draw=getattr(options, "seed", 0),
    )


def _run(options) -> int:
    from .methods import DEFAULT
    from .runner import run

    specs = _choose(options)
    methods = tuple(dict.fromkeys(options.method)) if options.method else DEFAULT
    with Store(options.out) as store:
        run(
            specs,
            methods,
            store,
            seed=options.seed,
            attractor=options.attractor,
            workers=options.workers,
            retry_errors=options.retry_errors,
        )
    return 0


def _table(options) -> int:
    from .report import differences, table

    with existing_store(options.results) as store:
        if options.less is not None:
            print(differences(store, options.less))
        else:
            print(table(store, level=options.level))
    return 0


def _figures(options) -> int:
    from .figures import draw

    with existing_store(options.results) as store:
        for path in draw(store, options.out):
            print(path)
    return 0


def _card(options) -> int:
    from .card import cards

    print(cards(_choose(options)))
    return 0


def _theory(options) -> int:
    from benchmarks import tables

    from .figures import draw_recovery
    from .theory import recovery

    lengths = {"lengths": tuple(options.length)} if options.length else {}
    rows = []
    for name in options.system or ("mackey_glass",):
        rows += recovery(name, seeds=options.seeds, **lengths)
    header = ["system", "samples", "price / s²min", "price", "in window", "hopeless", "margin"]
    header += ["spread", "recovered"]
    body = [
        [
            row["system"],
            str(row["length"]),
            tables.number(row["factor"]),
            *(
                str(row[name]) if isinstance(row[name], bool) else f"{row[name]:.1e}"
                for name in ("price", "inside", "hopeless", "margin", "spread")
            ),
            tables.number(row["recovered"]),
        ]
        for row in rows
    ]
    print(tables.markdown(header, body))
    if options.out:
        print(draw_recovery(rows, options.out))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
