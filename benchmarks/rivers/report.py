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
TRUST = ("sets", "method", "verdict", "reports", "edges", "true", "of the true links")


def table(store: Store) -> str:
    """Return Markdown: one row per kind of sets and method. AUROC is a mean over sets, `joint` that
    of all pairs of all sets in one ranking; wrong edges are means over sets. For methods with
    verdicts, one row per verdict follows: the share of true edges in such reports.

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
    said = [row for group, tasks in sorted(groups.items()) for row in _trust(store, *group, tasks)]
    parts = [tables.markdown(HEADER, body, text_columns=3)]
    parts += [tables.markdown(TRUST, said, text_columns=3)] if said else []
    return "\n\n".join([*parts, f"Statuses: {ended}."])


def _trust(store, category, method, tasks):
    """Yield for each verdict the share of true edges between gauges in such reports, and their
    share in the true links of all sets.
    """
    judged = {unit: task for unit, task in tasks.items() if "verdict" in task}
    links = {unit: float(_kept(store, unit)[1].sum()) for unit in judged}
    for number, verdict in enumerate(tables.VERDICTS):
        chosen = [unit for unit, task in judged.items() if task["verdict"] == number]
        if not chosen:
            continue
        right = sum(links[unit] - judged[unit]["missed"] for unit in chosen)
        edges = right + sum(judged[unit]["false"] for unit in chosen)
        shares = (right / edges if edges else math.nan, right / sum(links.values()))
        numbers = (tables.number(share, 2) for share in shares)
        yield [category, method, verdict, str(len(chosen)), f"{edges:.0f}", *numbers]


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
    """Write one `method/sets.npz` per unit with its `scores`, `[source target]`; return the number
    of files.
    """
    units = {Unit(*(getattr(r, n) for n in Unit._fields)) for r in store.rows(BENCHMARK)}
    for unit in sorted(units):
        folder = directory / unit.method
        folder.mkdir(parents=True, exist_ok=True)
        name = unit.graph if unit.seed == 0 else f"{unit.graph}_seed{unit.seed}"
        np.savez(folder / f"{name.replace(' ', '_')}.npz", scores=store.arrays(unit)["scores"])
    return len(units)
