"""Tables as text."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float

from ._store import Row

# Possible verdicts of a report on its graph, the best first.
VERDICTS = ("supported", "with reservations", "not supported")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """A Markdown table, readable as plain text too.

    **Arguments:**

    - `header`: names of the columns.
    - `rows`: cells as strings, one row per line.
    - `text_columns`: how many of the first columns are left-aligned; the rest hold numbers and are
        right-aligned.

    **Raises:** `ValueError` if a row has another number of cells than the header.

    ```python
    from benchmarks.tables import markdown, number

    print(markdown(["method", "AUROC"], [["l0ndde", number(0.934)]]))
    ```
    """
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"expected {len(header)} cells in every row; got {len(row)}: {row}")
    widths = [max(3, *(len(line[i]) for line in [header, *rows])) for i in range(len(header))]
    left = [i < text_columns for i in range(len(header))]
    rule = [
        "-" * width if is_left else "-" * (width - 1) + ":"
        for width, is_left in zip(widths, left, strict=True)
    ]

    def line(cells):
        padded = (
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(cells, widths, left, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(header), line(rule), *map(line, rows)])


def number(value: float, digits: int = 2) -> str:
    """Format with a fixed number of digits, without a leading zero; `-` where undefined."""
    if math.isnan(value):
        return "-"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text


def mean(values: Iterable[float]) -> float:
    """Return the mean over defined values; NaN if there are none."""
    finite = [value for value in values if not math.isnan(value)]
    return sum(finite) / len(finite) if finite else math.nan


def median(values: Iterable[float]) -> float:
    """Return the median over defined values; NaN if there are none."""
    finite = [value for value in values if not math.isnan(value)]
    return float(np.median(finite)) if finite else math.nan


def ranks(values: Float[np.ndarray, "method case"], *, largest_first: bool = False):
    """Return the rank of every method in every case, `[method case]`: 1 is best, ties share their
    mean, and missing values (NaN) rank last. Needs SciPy.
    """
    from scipy.stats import rankdata

    signed = -values if largest_first else values
    return rankdata(np.where(np.isnan(signed), np.inf, signed), axis=0)


def statuses(rows: Iterable[Row], metric: str) -> str:
    """Return the number of statuses of every method, counted on the rows of one metric."""
    counts = defaultdict(Counter)
    for row in rows:
        if row.metric == metric:
            counts[row.method][row.status] += 1
    return "; ".join(
        f"{method}: " + ", ".join(f"{status} {n}" for status, n in counter.most_common())
        for method, counter in sorted(counts.items())
    )
