"""The command-line arguments shared by all benchmarks."""

import argparse
import sys
from pathlib import Path

from . import published
from ._store import Store


def positive(text: str) -> int:
    """A whole number from 1 on, as argparse reads it."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number; got {number}")
    return number


def executor(text: str) -> str:
    """Return `dask:ADDRESS`, the scheduler of a Dask cluster, as argparse reads it."""
    engine, _, address = text.partition(":")
    if engine != "dask" or not address:
        raise argparse.ArgumentTypeError(
            f"expected dask:ADDRESS, such as dask:tcp://10.0.0.1:8786; got {text}"
        )
    return text


def add_machines(parser: argparse.ArgumentParser) -> None:
    """Add the options `--workers` of this machine or an `--executor` of others."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--workers", type=positive, default=1, metavar="N", help="processes")
    either.add_argument(
        "--executor",
        type=executor,
        dest="workers",
        default=argparse.SUPPRESS,
        metavar="dask:ADDRESS",
        help="the workers of a Dask cluster, which find this checkout on their PYTHONPATH",
    )
    # `program` reads this before anything is parsed.
    parser.add_argument(
        "--no-cache", action="store_true", help="keep and reuse no compiled programs"
    )


def carry_out(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse the arguments, run the `action` they name, and return the exit status."""
    options = parser.parse_args(arguments)
    try:
        return options.action(options)
    except (ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def existing_store(path: Path) -> Store:
    """Return the store of an existing results file, or of its published CSV.

    **Raises:** `ValueError` if the file does not exist, since `Store` would create it.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; create it with `run --out`.")
    return published.read(path) if path.name.endswith(published.ENDINGS) else Store(path)
