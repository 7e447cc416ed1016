"""Figure of the results: the score of every graph, method by method."""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks._figures import axes, save
from benchmarks._store import POOLED, Store

from .runner import BENCHMARK


def draw(store: Store, directory: Path, *, labels: str = "corrected") -> list[Path]:
    """Draw one picture per tier: AUROC of every graph (dots) and its mean (bar), by category.

    The dashed line is the guess that every variable drives only itself, if that was run.

    **Raises:** `ValueError` if there are no results.
    """
    series = defaultdict(list)
    for row in store.rows(BENCHMARK):
        if row.series != POOLED and row.metric == f"{labels}.auroc" and not math.isnan(row.value):
            series[row.category, row.method, row.graph].append(row.value)
    if not series:
        raise ValueError(f"{store.path} holds no AUROC against the {labels} labels.")
    graphs = defaultdict(list)
    for (category, method, _), values in series.items():
        graphs[category, method].append(tables.mean(values))
    categories = sorted({category for category, _ in graphs})
    directory.mkdir(parents=True, exist_ok=True)
    return [
        _tier(
            graphs, [c for c in categories if c.startswith(f"{tier}/")], directory / f"{tier}.png"
        )
        for tier in sorted({category.partition("/")[0] for category in categories})
    ]


def _tier(graphs, categories: list[str], path: Path) -> Path:
    methods = sorted(
        {m for c, m in graphs if c in categories and m not in ("allones", "selfedges")}
    )
    figure, panels = axes(len(categories), 2.6, height=1 + 0.26 * len(methods), sharey=True)
    for axis, category in zip(panels, categories, strict=True):
        for y, method in enumerate(methods):
            values = np.array(graphs.get((category, method), []))
            axis.plot(values, np.full(len(values), y), "o", ms=3, alpha=0.5, color="C0", mew=0)
            if len(values):
                axis.plot(values.mean(), y, "|", ms=12, mew=2, color="black")
        axis.axvline(0.5, color="lightgrey", lw=1, zorder=0)
        if guess := graphs.get((category, "selfedges")):
            axis.axvline(np.mean(guess), color="grey", lw=1, ls="--", zorder=0)
        axis.set(
            title=category, xlim=(-0.02, 1.02), ylim=(len(methods) - 0.4, -0.6), xlabel="AUROC"
        )
    panels[0].set_yticks(np.arange(len(methods)), methods)
    return save(figure, path)
