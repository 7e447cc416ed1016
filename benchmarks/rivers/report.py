"""Tables of the results, and predictions as files."""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks._store import Store, Unit

from .methods import WITH_TRUTH
from .runner import BENCHMARK
from .scoring import auroc, pairs

HEADER = ("sets", "method", "settings", "tasks", "failed", "AUROC", "joint")
HEADER = (*HEADER, "false", "missed", "swapped", "s/task", "CPU s/task")


def table(store: Store) -> str:
    """Markdown: one row per kind of sets and method. AUROC is a mean over sets, `joint` that of all
    pairs of all sets in one ranking; wrong edges are means over sets.

    **Raises:** `ValueError` if there are no results.
    """
    rows = list(store.rows(BENCHMARK))
    groups, seconds = defaultdict(lambda: defaultdict(dict)), defaultdict(dict)
    for row in rows:
        group, unit = (row.category, row.method), Unit(*(getattr(row, n) for n in Unit._fields))
        groups[group][unit][row.metric] = row.value
        seconds[group][unit] = row.seconds
    if not groups:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    body = [
        _line(store, *group, tasks, seconds[group].values())
        for group, tasks in sorted(groups.items())
    ]
    ended = tables.statuses(rows, "failed")
    return f"{tables.markdown(HEADER, body, text_columns=3)}\n\nStatuses: {ended}."


def _line(store, category, method, tasks, seconds):
    def average(name):
        return tables.mean(task.get(name, math.nan) for task in tasks.values())

    scores, truths = zip(*(_kept(store, unit) for unit in tasks), strict=True)
    joint = auroc(np.concatenate(scores), np.concatenate(truths))
    return [
        category,
        method,
        "with the truth" if method in WITH_TRUTH else "",
        str(len(tasks)),
        f"{sum(task['failed'] for task in tasks.values()):.0f}",
        tables.number(average("auroc"), 4),
        tables.number(joint, 4),
        *(tables.number(average(name), 2) for name in ("false", "missed", "swapped")),
        tables.number(tables.mean(seconds), 3),
        tables.number(average("cpu"), 3),
    ]


def _kept(store, unit):
    arrays = store.arrays(unit)
    return pairs(arrays["scores"]), pairs(arrays["truth"])


def write_predictions(store: Store, directory: Path) -> int:
    """One `method/sets.npz` per unit with its `scores`, `[source target]`; returns how many."""
    units = {Unit(*(getattr(r, n) for n in Unit._fields)) for r in store.rows(BENCHMARK)}
    for unit in sorted(units):
        folder = directory / unit.method
        folder.mkdir(parents=True, exist_ok=True)
        name = unit.graph if unit.seed == 0 else f"{unit.graph}_seed{unit.seed}"
        np.savez(folder / f"{name.replace(' ', '_')}.npz", scores=store.arrays(unit)["scores"])
    return len(units)
