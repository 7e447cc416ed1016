"""The parts that single-file benchmarks share: fitting units one after another, `run` and
`table`.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import ndde_jax as ndde

from ._arguments import existing_store, positive
from ._store import Record, Store, Unit


def fill(
    out: Path,
    units: Iterable[Unit],
    settings: Callable[[Unit], str],
    score: Callable[[Unit, Store], dict[str, float]],
) -> None:
    """Yield the units that a file does not hold yet, so that a run can be resumed."""
    units = list(units)
    with Store(out) as store:
        for unit in units:
            store.agree_on_settings(unit.benchmark, unit.method, unit.category, settings(unit))
        done = set().union(*(store.done(name) for name in {unit.benchmark for unit in units}))
        for unit in units:
            if unit in done:
                continue
            start = time.perf_counter()
            found = score(unit, store)
            seconds = time.perf_counter() - start
            store.write([Record(unit, found, "ok", seconds)])
            print(f"{unit.category} {unit.graph} {unit.method}: {seconds:.0f} s", flush=True)


def command(
    arguments: Sequence[str] | None,
    *,
    name: str,
    description: str | None,
    option: str,
    choices: Sequence[str],
    systems: Sequence[str],
    seeds: int,
    run: Callable,
    table: Callable[[Store], str],
) -> None:
    """Run the commands `run --out FILE [--seeds N] [--system NAME] [--OPTION CHOICE]` and
    `table FILE`; `run` gets the file, and systems, number of seeds and chosen options by name.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("run", help="fit the units that the file does not hold yet")
    make.add_argument("--out", type=Path, required=True, metavar="FILE")
    make.add_argument("--seeds", type=positive, default=seeds, metavar="N")
    make.add_argument("--system", action="append", choices=ndde.systems.names(), metavar="NAME")
    make.add_argument(f"--{option}", action="append", choices=tuple(choices), dest="chosen")
    show = commands.add_parser("table", help="print the results as a table")
    show.add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "table":
        try:
            with existing_store(given.file) as store:
                print(table(store))
        except ValueError as error:
            parser.error(str(error))
        return
    chosen = {f"{option}s": given.chosen or tuple(choices)}
    run(given.out, systems=given.system or tuple(systems), seeds=given.seeds, **chosen)
