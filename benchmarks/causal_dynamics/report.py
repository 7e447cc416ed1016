"""Tables of the results."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchmarks import tables
from benchmarks._store import POOLED, Row, Store

from .runner import BENCHMARK
from .scoring import SCORES

LABELS = ("corrected", "published")
# Graphs of the published benchmark, each with SERIES series.
ALL_GRAPHS, SERIES = 14_693, 10


def table(store: Store, *, joint: bool = False, labels: Sequence[str] = LABELS) -> str:
    """Return a Markdown table of categories and methods, and a line on statuses.

    AUROC and AUPRC are means over series, then over graphs; with `joint`, the series of a graph
    share one ranking, as in the published tables. SHD is summed over the series of a graph, then
    averaged over graphs. A graph whose truth is complete or empty under a label set is excluded
    from that set's columns, whose number of graphs is given. Failed series count as empty graphs.
    """
    rows = list(store.rows(BENCHMARK))
    groups = defaultdict(list)
    for row in rows:
        groups[row.category, row.method].append(row)
    if not groups:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    header = ["category", "method"]
    for label in labels:
        header += [f"graphs ({label})", "AUROC", "AUPRC", "SHD"]
    header += ["series", "failed", "s/series"]
    body = [
        [category, method, *_cells(group, joint, labels)]
        for (category, method), group in sorted(groups.items())
    ]
    ended = tables.statuses(rows, "failed")
    return f"{tables.markdown(header, body, text_columns=2)}\n\nStatuses, in series: {ended}."


def cost(store: Store) -> str:
    """Return the cost of the whole benchmark extrapolated from these results, with compilation: at
    the mean rate over categories, and at that of the slowest category.
    """
    seconds = defaultdict(lambda: defaultdict(list))
    for row in store.rows(BENCHMARK):
        if row.metric == "failed" and row.series != POOLED:
            seconds[row.method][row.category].append(row.seconds)
    body = []
    for method, categories in sorted(seconds.items()):
        rates = [tables.mean(values) for values in categories.values()]
        hours = [rate * ALL_GRAPHS * SERIES / 3600 for rate in (tables.mean(rates), max(rates))]
        body.append(
            [
                method,
                str(len(rates)),
                *(f"{h:.1f}" for h in hours),
                *(f"{h * 0.6:.1f}" for h in hours),
            ]
        )
    header = ["method", "categories", "h", "h (slowest)", "100: min", "100: min (slowest)"]
    title = (
        f"All {ALL_GRAPHS} graphs of the benchmark, extrapolated, on one machine and on a hundred:"
    )
    return f"{title}\n\n{tables.markdown(header, body)}"


def _cells(rows: Iterable[Row], joint: bool, labels: Sequence[str]) -> list[str]:
    single = [row for row in rows if row.series != POOLED]
    pooled = [row for row in rows if row.series == POOLED]
    cells = []
    for label in labels:
        auroc, auprc = (
            _per_graph(pooled if joint else single, f"{label}.{score}") for score in SCORES[:2]
        )
        scored = {graph for graph, value in auroc.items() if not math.isnan(value)}
        shd = _per_graph(pooled, f"{label}.shd")
        cells.append(str(len(scored)))
        for values, digits in ((auroc, 3), (auprc, 3), (shd, 1)):
            cells.append(tables.number(tables.mean(values[graph] for graph in scored), digits))
    runs = [row for row in single if row.metric == "failed"]
    n_failed = sum(row.value for row in runs)
    return [
        *cells,
        str(len(runs)),
        f"{n_failed:.0f}",
        tables.number(tables.mean(row.seconds for row in runs), 2),
    ]


def _per_graph(rows: Iterable[Row], metric: str) -> dict[tuple[str, int], float]:
    """Return the mean over series of one metric, for every graph and seed."""
    values = defaultdict(list)
    for row in rows:
        if row.metric == metric:
            values[row.graph, row.seed].append(row.value)
    return {graph: tables.mean(of_series) for graph, of_series in values.items()}
