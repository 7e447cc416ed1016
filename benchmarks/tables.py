"""Tables as text."""

import math
from collections.abc import Sequence


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
    """A fixed number of digits, without the leading zero of scores; `-` where undefined."""
    if math.isnan(value):
        return "-"
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("0.") else text
