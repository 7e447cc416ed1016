"""Tables of the results."""

import math
from collections import defaultdict

import numpy as np

from benchmarks import tables
from benchmarks._store import Row, Store

from .runner import BENCHMARK
from .scoring import LEVELS

SIZES = ((1, 5), (6, 20))
# Scores that differ by less count as equal.
TIE = 1e-9
# The level of `run --attractor`, and its columns.
ATTRACTOR = "attractor"
SIMULATED = (
    "spectrum",
    "chance.spectrum",
    "law",
    "chance.law",
    "exponent_error",
    "escaped",
    "drift_error",
)


def table(store: Store, *, level: str | None = None) -> str:
    """Return Markdown: one row per category, size and method; means over systems and replicates.

    Without `level`, AUROC and F1 of all three levels; with one, all scores of that level. The level
    `attractor` has medians of the distances between learned and true attractor, since single
    systems that leave their attractor would dominate a mean.

    **Raises:** `ValueError` if there are no results.
    """
    rows = list(store.rows(BENCHMARK))
    groups = _grouped(rows, store)
    columns, middle = _columns(level), tables.median if level == ATTRACTOR else tables.mean
    header = [
        "category",
        "D",
        "method",
        "tasks",
        "failed",
        *(name.replace(".", " ").replace("_", " ") for name in columns),
        "s/task",
    ]
    seconds = _seconds(rows)
    body = []
    for (category, method), tasks in sorted(groups.items(), key=lambda item: _by_length(item[0])):
        for low, high in SIZES:
            chosen = {key: t for key, t in tasks.items() if low <= t.get("dim", 1) <= high}
            if not chosen:
                continue
            n_failed = sum(t["failed"] for t in chosen.values())
            cells = [
                tables.number(middle(t.get(name, math.nan) for t in chosen.values()), 3)
                for name in columns
            ]
            time = tables.mean(seconds[category, method, key] for key in chosen)
            body.append(
                [
                    category,
                    f"{low}-{high}",
                    method,
                    str(len(chosen)),
                    f"{n_failed:.0f}",
                    *cells,
                    tables.number(time, 1),
                ]
            )
    ended = tables.statuses(rows, "failed")
    return f"{tables.markdown(header, body, text_columns=3)}\n\nStatuses: {ended}."


def differences(store: Store, reference: str) -> str:
    """Return Markdown: the difference of every other method from one, on the tasks of both: mean
    and standard error over tasks, and the numbers of tasks on which it is better and worse.

    **Raises:** `ValueError` if there are no results of the reference.
    """
    groups = _grouped(list(store.rows(BENCHMARK)), store)
    if not any(method == reference for _, method in groups):
        raise ValueError(f"{store.path} holds no results of {reference}.")
    body = []
    for (category, method), tasks in sorted(groups.items(), key=lambda item: _by_length(item[0])):
        theirs = groups.get((category, reference), {})
        for low, high in SIZES if method != reference else ():
            shared = [k for k, t in tasks.items() if k in theirs and low <= t["dim"] <= high]
            if not shared:
                continue
            cells = []
            for name in (f"{at}.{score}" for at in LEVELS for score in ("auroc", "f1")):
                gaps = np.array([tasks[k][name] - theirs[k][name] for k in shared])
                gaps = gaps[np.isfinite(gaps)]
                mean = gaps.mean() if len(gaps) else math.nan
                error = gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else math.nan
                better, worse = (gaps > TIE).sum(), (gaps < -TIE).sum()
                cells.append(f"{mean:+.3f} ± {error:.3f} ({better} / {worse})")
            body.append([category, f"{low}-{high}", method, str(len(shared)), *cells])
    scores = [f"{at} {score}" for at in LEVELS for score in ("auroc", "f1")]
    head = ["category", "D", f"less {reference}", "tasks", *scores]
    return f"{tables.markdown(head, body, text_columns=3)}\n\nIn brackets: tasks better / worse."


def _grouped(rows: list[Row], store: Store) -> dict:
    """Return scores by category and method, then by graph, series and seed."""
    groups = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row.category, row.method][row.graph, row.series, row.seed][row.metric] = row.value
    if not groups:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    return groups


def _by_length(group: tuple[str, str]) -> tuple[str, int, str]:
    """Return a sort key: by category, learning curves by their numbers of samples, and by
    method.
    """
    category, method = group
    name, _, length = category.partition("/")
    return name, int(length or 0), method


def _columns(level: str | None) -> list[str]:
    if level == ATTRACTOR:
        return list(SIMULATED)
    columns = (
        [f"{at}.{name}" for at in LEVELS for name in ("auroc", "f1")]
        if level is None
        else [f"{level}.{name}" for name in ("auroc", "auprc", "f1", "shd")]
    )
    return [*columns, "exact.recovered", "lag_error_steps", "drift_error"]


def _seconds(rows: list[Row]) -> dict:
    return {
        (row.category, row.method, (row.graph, row.series, row.seed)): row.seconds for row in rows
    }
