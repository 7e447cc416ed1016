"""Readings of the paper's objective, compared with its published rows."""

import math
from collections.abc import Mapping, Sequence

from benchmarks import tables
from benchmarks._store import Store

from .paper import OBJECTIVES, readings
from .paper_table import MARK, Values, own, published

# The published row with which a reading is compared.
_ROWS = {"l0ndde": "L0-NDDE", "agl": "AGL", "cnode": "C-NODE"}


def readings_table(store: Store) -> str:
    """Return readings below the published row that they might explain: SHD per ten series and joint
    AUROC against labels as published, and the mean distance of SHD in doublings.

    **Raises:** `ValueError` if there are no readings.
    """
    categories, theirs = published()
    ours = own(store, "published")
    names = list(dict.fromkeys(name for name, _ in ours["shd"]))
    categories = [c for c in categories if any((name, c) in ours["shd"] for name in names)]
    lines = []
    for kind, row in _ROWS.items():
        found = [name for name in readings() if name in names and name.split("_")[1] == kind]
        if found:
            lines.append(_line(theirs, f"{row} {MARK}", (f"{row} {MARK}", "", ""), categories))
            lines += [_line(ours, name, (name, *_meaning(name)), categories, row) for name in found]
    if not lines:
        raise ValueError(f"{store.path} holds no reading; run methods whose names begin unit_.")
    lines += [
        _line(ours, name, (name, "", ""), categories) for name in ("allones", "empty")
        if name in names
    ]  # fmt: skip
    header = ["method", "objective", "gates start", *(f"SHD {c}" for c in categories),
              *(f"AUROC {c}" for c in categories), "doublings off"]  # fmt: skip
    return tables.markdown(header, lines, text_columns=3)


def _meaning(name: str) -> tuple[str, str]:
    _, kind, unit, *start = name.split("_")
    shown = ", ".join(start)
    return OBJECTIVES[unit], shown if kind == "l0ndde" else (shown or "1")


def _line(
    values: Mapping[str, Values],
    name: str,
    cells: tuple[str, ...],
    categories: Sequence[str],
    row: str | None = None,
) -> list[str]:
    shown = [
        tables.number(values[score][name, c].mean, digits) if (name, c) in values[score] else "-"
        for score, digits in (("shd", 0), ("auroc", 2))
        for c in categories
    ]
    return [*cells, *shown, "-" if row is None else tables.number(_off(values, name, row), 2)]


def _off(values: Mapping[str, Values], name: str, row: str) -> float:
    """Return the mean |log₂| of SHD over the published one; an SHD of 0 counts as 1."""
    _, theirs = published()
    pairs = [
        (cell.mean, theirs["shd"][f"{row} {MARK}", category].mean)
        for (method, category), cell in values["shd"].items()
        if method == name and not math.isnan(cell.mean)
    ]
    return tables.mean(abs(math.log2(max(own, 1.0) / other)) for own, other in pairs)
