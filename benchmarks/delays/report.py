"""Tables of the results."""

import math
from collections import defaultdict

from benchmarks import tables
from benchmarks._store import Row, Store

from .runner import BENCHMARK
from .scoring import LEVELS

SIZES = ((1, 5), (6, 20))


def table(store: Store, *, level: str | None = None) -> str:
    """Markdown: one row per category, size and method; means over systems and replicates.

    Without `level`, AUROC and F1 of all three levels; with one, all scores of that level.

    **Raises:** `ValueError` if there are no results.
    """
    groups = defaultdict(lambda: defaultdict(dict))
    rows = list(store.rows(BENCHMARK))
    for row in rows:
        groups[row.category, row.method][row.graph, row.series, row.seed][row.metric] = row.value
    if not groups:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    scores = ("auroc", "auprc", "f1", "shd")
    columns = (
        [f"{at}.{name}" for at in LEVELS for name in ("auroc", "f1")]
        if level is None
        else [f"{level}.{name}" for name in scores]
    )
    columns += ["exact.recovered", "lag_error_steps", "drift_error"]
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
    for (category, method), tasks in sorted(groups.items()):
        for low, high in SIZES:
            chosen = {key: t for key, t in tasks.items() if low <= t.get("dim", 1) <= high}
            if not chosen:
                continue
            n_failed = sum(t["failed"] for t in chosen.values())
            cells = [
                tables.number(tables.mean(t.get(name, math.nan) for t in chosen.values()), 3)
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


def _seconds(rows: list[Row]) -> dict:
    return {
        (row.category, row.method, (row.graph, row.series, row.seed)): row.seconds for row in rows
    }
