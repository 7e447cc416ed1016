"""Results behind the tables of the READMEs: `python -m benchmarks.published keep|readme`.

`keep` writes a results file as CSV, compressed if the name ends in .gz, with the current commit
and a digest of the settings. `table` of every benchmark reads it like the results file. In a
README, a table between

    <!-- python -m benchmarks.delays table benchmarks/delays/published/low.csv -->
    <!-- end -->

is the output of that command: `readme` inserts it, and a test checks that it matches the results.
"""

import argparse
import contextlib
import csv
import gzip
import hashlib
import importlib
import io
import json
import math
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ._store import POOLED, Record, Store, Unit

ROOT = Path(__file__).parent.parent
COLUMNS = ("benchmark", "category", "graph", "series", "method", "seed", "what", "value")
# Files that hold published results.
ENDINGS = (".csv", ".csv.gz")
# Digits of numbers, enough for any table.
DIGITS = 6
_BLOCK = re.compile(
    r"(?P<head><!-- python -m (?P<module>benchmarks[.\w]*) (?P<arguments>[^\n]*?) -->\n)"
    r"(?P<body>.*?)(?P<tail><!-- end -->)",
    re.DOTALL,
)


def keep(
    results: Path,
    out: Path,
    *,
    benchmark: str,
    arrays: bool = False,
    pooled: bool = False,
    update: bool = False,
) -> int:
    """Write the units of one benchmark as CSV and return their number, with `arrays` if a table
    needs them, or only the `pooled` metrics. An `update` keeps methods and categories of the file
    that the results do not have, with their commits.
    """
    with Store(results) as store:
        units = defaultdict(list)
        for row in store.rows(benchmark):
            if row.series == POOLED or not pooled:
                units[Unit(*(getattr(row, name) for name in COLUMNS[:6]))].append(row)
        settings = sorted(store.settings(benchmark))
        new = {(unit.method, unit.category) for unit in units}
        comments, others = _others(out, new) if update else ([], [])
        said = f" {', '.join(_named(new, {line[4] for line in others}))}" if others else ""
        comments.append(f"# kept at {_commit()}{said}\n")
        for method, category, text in settings:
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            comments.append(f"# settings {method} {category} {digest}\n")
        lines = [list(line) for line in others]
        for unit, rows in units.items():
            lines.append([*unit, "status", rows[0].status])
            lines.append([*unit, "seconds", _short(rows[0].seconds)])
            lines += [[*unit, f"metric {row.metric}", _short(row.value)] for row in rows]
            for name, value in store.arrays(unit).items() if arrays else ():
                lines.append([*unit, f"array {name}", json.dumps(_shortened(value))])
    # Units are sorted; the rows of a unit keep their order.
    lines.sort(key=lambda line: (*line[:3], int(line[3]), line[4], int(line[5])))
    out.parent.mkdir(parents=True, exist_ok=True)
    with _written(out) as file:
        file.writelines(comments)
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])
    return len(units)


def _named(new: set[tuple[str, str]], others: set[str]) -> list[str]:
    """Return methods; those that `others` have too are followed by their new categories."""
    parts = defaultdict(list)
    for method, category in sorted(new):
        parts[method].append(category)
    return [f"{m} ({'+'.join(of)})" if m in others else m for m, of in parts.items()]


def _others(path: Path, new: set[tuple[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the comments and lines of a published file on methods and categories not in `new`."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        text = file.readlines()
    lines = list(csv.reader(line for line in text if not line.startswith("#")))[1:]
    lines = [line for line in lines if (line[4], line[1]) not in new]
    others, comments = sorted({line[4] for line in lines}), []
    for comment in text:
        if match := re.match(r"# settings (\S+) (\S+)", comment):
            comments += [comment] if match[1] in others and match.groups() not in new else []
        elif match := re.match(r"# kept at (\S+) *(.*)", comment):
            # The commit of all methods of the file, or of those named after it.
            named = match[2].split(", ") if match[2] else others
            of = [method for method in named if method.split(" (")[0] in others]
            comments += [f"# kept at {match[1]} {', '.join(of)}\n"] if of else []
    return comments, lines


def read(path: Path) -> Store:
    """A store in memory from a file of [`keep`][benchmarks.published.keep]."""
    units: dict[Unit, dict] = defaultdict(dict)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", newline="") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        if tuple(next(rows, ())) != COLUMNS:
            raise ValueError(f"{path} does not hold published results: its columns differ.")
        for benchmark, category, graph, series, method, seed, what, value in rows:
            unit = Unit(benchmark, category, graph, int(series), method, int(seed))
            units[unit][what] = value
    store = Store(Path(":memory:"))
    store.write(_record(unit, found) for unit, found in units.items())
    return store


@contextlib.contextmanager
def _written(path: Path) -> Iterator[io.TextIOBase]:
    """A text file, compressed or not, with the same bytes for the same text."""
    text = io.StringIO()
    yield text
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def _record(unit: Unit, found: dict[str, str]) -> Record:
    def of(kind: str):
        start = f"{kind} "
        return ((k.removeprefix(start), v) for k, v in found.items() if k.startswith(start))

    metrics = {name: float(value or "nan") for name, value in of("metric")}
    arrays = {name: np.array(json.loads(value)) for name, value in of("array")}
    return Record(unit, metrics, found["status"], float(found["seconds"] or "nan"), arrays)


def rendered(text: str) -> str:
    """Return a README with the output of its commands."""

    def block(match: re.Match) -> str:
        printed = _printed(match["module"], shlex.split(match["arguments"]))
        return f"{match['head']}\n{printed}\n\n{match['tail']}"

    return _BLOCK.sub(block, text)


def readmes() -> list[Path]:
    """Return the READMEs and pages with such tables."""
    files = [ROOT / "README.md", *sorted((ROOT / "benchmarks").glob("**/README.md"))]
    files += sorted((ROOT / "docs").glob("*.md"))
    return [file for file in files if _BLOCK.search(file.read_text(encoding="utf-8"))]


def _printed(module: str, arguments: list[str]) -> str:
    found = importlib.import_module(module)
    # The command line of a package is in its `__main__`.
    main = getattr(found, "main", None) or importlib.import_module(f"{module}.__main__").main
    named = [str(ROOT / a) if a.endswith(ENDINGS) else a for a in arguments]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if status := main(named):
            raise ValueError(f"python -m {module} {shlex.join(arguments)} ended with {status}.")
    return out.getvalue().strip()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _shortened(array: np.ndarray) -> list:
    rounded = np.round(array, DIGITS) if np.issubdtype(array.dtype, np.floating) else array
    return rounded.tolist()


def _short(value: float) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.{DIGITS}g}"


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    actions = parser.add_subparsers(required=True, metavar="keep|readme", dest="action")
    keeping = actions.add_parser("keep", help="write results as CSV")
    keeping.add_argument("results", type=Path)
    keeping.add_argument("--benchmark", required=True, help="causal_dynamics, dysts, delays, …")
    keeping.add_argument("--out", type=Path, required=True, metavar="FILE")
    keeping.add_argument("--arrays", action="store_true", help="include scores and graphs")
    keeping.add_argument("--pooled", action="store_true", help="only metrics of pooled series")
    keeping.add_argument(
        "--update", action="store_true", help="keep other methods and categories of the file"
    )
    actions.add_parser("readme", help="insert the tables into the READMEs")
    options = parser.parse_args(arguments)
    if options.action == "readme":
        for file in readmes():
            file.write_text(rendered(file.read_text(encoding="utf-8")), encoding="utf-8")
            print(file.relative_to(ROOT))
        return 0
    chosen = dict(arrays=options.arrays, pooled=options.pooled, update=options.update)
    n = keep(options.results, options.out, benchmark=options.benchmark, **chosen)
    print(f"{options.out}: {n} units")
    return 0


if __name__ == "__main__":
    sys.exit(main())
