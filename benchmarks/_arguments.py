"""What the command lines of all benchmarks read alike."""

import argparse
from pathlib import Path

from ._runner import EVERYTHING
from ._store import Store


def positive(text: str) -> int:
    """A whole number from 1 on, as argparse reads it."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive number; got {number}")
    return number


def share(text: str) -> tuple[int, int]:
    """`2/5`, the second of five machines, as argparse reads it."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(
            f"expected I/N with I from 1 to N, such as 2/5; got {text}"
        )
    return int(index) - 1, int(count)


def add_machines(parser: argparse.ArgumentParser) -> None:
    """`--workers` of this machine, and its `--share` among several."""
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes")
    parser.add_argument(
        "--share",
        type=share,
        default=EVERYTHING,
        metavar="I/N",
        help="of N machines, this is the Ith",
    )


def existing_store(path: Path) -> Store:
    """A results file that is there already.

    **Raises:** `ValueError` if it is not: `Store` would create it.
    """
    if not path.exists():
        raise ValueError(f"{path} does not exist; `run --out` makes it.")
    return Store(path)
