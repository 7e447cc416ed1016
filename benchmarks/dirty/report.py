"""Tables of the results."""

import math
from collections import defaultdict

from benchmarks import tables
from benchmarks._store import Store

from .data import KINDS
from .runner import BENCHMARK, TWIN


def results(store: Store, benchmark: str) -> dict:
    """Return metrics by `(graph, category, series, method, seed)`.

    **Raises:** `ValueError` if there are none.
    """
    found = defaultdict(dict)
    for row in store.rows(benchmark):
        key = (row.graph, row.category, row.series, row.method, row.seed)
        found[key][row.metric] = row.value
    if not found:
        raise ValueError(f"{store.path} holds no results of {benchmark}; run it first.")
    return found


def table(store: Store) -> str:
    """Return Markdown: one row per method and kind, and the reliability of verdicts.

    `good` is the share of seeds in which the record has at most one false edge more than its twin,
    or a finding names the fault, or the method refuses the data; for twins, the share without a
    finding that lowers the verdict.
    """
    found = results(store, BENCHMARK)
    methods = sorted({key[3] for key in found})
    header = ["method", "kind", "seeds", "false", "twin's", "named", "good", *tables.VERDICTS]
    rows = []
    for method in methods:
        for kind in (TWIN, *KINDS):
            chosen = {k[4]: m for k, m in found.items() if k[0] == kind and k[3] == method}
            if chosen:
                rows.append(_row(found, method, kind, chosen))
    parts = [tables.markdown(header, rows, text_columns=2)]
    parts.append(calibration(found.items()))
    return "\n\n".join(parts)


def _row(found, method, kind, chosen) -> list[str]:
    good, beside = [], []
    for seed, metrics in chosen.items():
        clean = found.get((TWIN, "network", 0, method, seed), {})
        beside.append(clean.get("false", math.nan))
        few = metrics["false"] <= clean.get("false", math.nan) + 1
        good.append(float(few or metrics["named"] > 0 or metrics["refused"] > 0))
    quiet = [float(metrics["reasons"] == 0) for metrics in chosen.values()]
    shares = [
        tables.mean(float(metrics["verdict"] == k) for metrics in chosen.values())
        for k in range(len(tables.VERDICTS))
    ]
    return [
        method,
        kind,
        str(len(chosen)),
        tables.number(tables.mean(m["false"] for m in chosen.values())),
        tables.number(tables.mean(beside)),
        "-" if kind == TWIN else tables.number(tables.mean(m["named"] for m in chosen.values())),
        tables.number(tables.mean(quiet if kind == TWIN else good)),
        *(tables.number(share) for share in shares),
    ]


def calibration(items) -> str:
    """Return Markdown: for each verdict, the shares of edges that are true with and without the
    lag, and the share of all true summary edges in these reports.
    """
    groups = defaultdict(list)
    for key, metrics in items:
        if metrics["verdict"] >= 0:
            groups[key[3]].append(metrics)
    header = ["method", "verdict", "reports", "edges", "true", "true, summary", "of all true"]
    rows = []
    for method, all_metrics in sorted(groups.items()):
        everything = sum(m["summary_truth"] for m in all_metrics)
        for number, verdict in enumerate(tables.VERDICTS):
            chosen = [m for m in all_metrics if m["verdict"] == number]
            sums = {
                name: sum(m[name] for m in chosen)
                for name in ("edges", "true", "summary_edges", "summary_true")
            }
            rows.append(
                [
                    method,
                    verdict,
                    str(len(chosen)),
                    f"{sums['edges']:.0f}",
                    tables.number(_share(sums["true"], sums["edges"]), 3),
                    tables.number(_share(sums["summary_true"], sums["summary_edges"]), 3),
                    tables.number(_share(sums["summary_true"], everything), 3),
                ]
            )
    return tables.markdown(header, rows, text_columns=2)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
