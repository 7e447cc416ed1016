"""Copy the intact units of damaged results: `python -m benchmarks.rescue A B ... --out FILE`."""

import argparse
import sys
from pathlib import Path

from ._store import Store


def main(arguments: list[str] | None = None) -> int:
    """Copy intact units into one file; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rescue", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="as written by run --out")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="may exist")
    options = parser.parse_args(arguments)
    try:
        if missing := [str(file) for file in options.files if not file.exists()]:
            raise ValueError(f"{', '.join(missing)} does not exist; create it with `run --out`.")
        with Store(options.out) as store:
            for file in options.files:
                copied, found = store.rescue(file)
                print(f"{file}: {found} intact units, {copied} of them copied")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
