"""Figures of the results and of theory against practice; Matplotlib, without a display."""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks._figures import axes, save
from benchmarks._store import Store

from .runner import BENCHMARK
from .scoring import LEVELS


def draw(store: Store, directory: Path) -> list[Path]:
    """Draw scores by method and level, and learning curves if their tasks were run.

    **Raises:** `ValueError` if there are no results.
    """
    values = defaultdict(list)
    for row in store.rows(BENCHMARK):
        if not math.isnan(row.value):
            values[row.category, row.method, row.metric].append(row.value)
    if not values:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    directory.mkdir(parents=True, exist_ok=True)
    categories = sorted({key[0] for key in values})
    made = [
        _bars(values, category, directory) for category in categories if "length" not in category
    ]
    if any(category.startswith("length/") for category in categories):
        made.append(_curves(values, directory))
    return made


def _bars(values, category: str, directory: Path) -> Path:
    methods = sorted({key[1] for key in values if key[0] == category})
    figure, panels = axes(2)
    for axis, score in zip(panels, ("auroc", "f1"), strict=True):
        for i, level in enumerate(LEVELS):
            means = [
                np.mean(values.get((category, m, f"{level}.{score}"), [math.nan])) for m in methods
            ]
            axis.barh(np.arange(len(methods)) + 0.27 * (1 - i), means, height=0.25, label=level)
        axis.set_yticks(np.arange(len(methods)), methods)
        axis.set(title=f"{category}: {score.upper()}", xlim=(0, 1))
    panels[0].legend(loc="lower right", fontsize=8)
    path = directory / f"{category}.png"
    return save(figure, path)


def _curves(values, directory: Path) -> Path:
    lengths = sorted({int(key[0].split("/")[1]) for key in values if key[0].startswith("length/")})
    methods = sorted({key[1] for key in values if key[0].startswith("length/")})
    figure, panels = axes(3)
    for axis, metric in zip(panels, ("exact.auroc", "exact.f1", "exact.recovered"), strict=True):
        for method in methods:
            means = [
                np.mean(values.get((f"length/{n}", method, metric), [math.nan])) for n in lengths
            ]
            axis.plot(lengths, means, marker="o", label=method)
        axis.set(xscale="log", xlabel="samples", title=metric, ylim=(0, 1.02))
    panels[0].legend(fontsize=8)
    path = directory / "learning_curves.png"
    return save(figure, path)


def draw_recovery(rows: list[dict], path: Path) -> Path:
    """Draw recovery against length, one line per price, and against margin over spread. Markers are
    filled if the price is inside the theorem's window, open if the theorem makes no statement, and
    crossed out if the true graph costs more than one without an edge.
    """
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure, panels = axes(2, 4.6)
    lines = defaultdict(list)
    for row in rows:
        factor = row["factor"]
        label = "library's price" if math.isnan(factor) else f"{factor:.3g} s²min"
        lines[row["system"], label].append(row)
    for i, ((system, label), points) in enumerate(lines.items()):
        # Lines are shifted slightly, so that none hides another.
        x = [p["length"] * 1.015 ** (i - len(lines) / 2) for p in points]
        y = [p["recovered"] for p in points]
        (line,) = panels[0].plot(x, y, label=f"{system}, {label}")
        for at, p in zip(x, points, strict=True):
            color = line.get_color()
            style = dict(color=color, marker="o", mfc=color if p["inside"] else "white")
            if p["hopeless"]:
                style = dict(color=color, marker="x")
            panels[0].plot(at, p["recovered"], **style)
            ratio = max(p["margin"] / p["spread"], 1e-2)
            panels[1].plot(ratio, p["recovered"], **style)
    panels[0].set(xscale="log", xlabel="samples", ylabel="exact recovery", ylim=(-0.05, 1.05))
    panels[0].set_xticks(sorted({row["length"] for row in rows}))
    panels[0].xaxis.set_major_formatter(ScalarFormatter())
    panels[0].xaxis.set_minor_formatter(NullFormatter())
    panels[0].set_title("filled: inside the theorem's window; ×: must fail", fontsize=10)
    panels[0].legend(fontsize=7)
    panels[1].axvline(1, color="grey", lw=0.8)
    panels[1].set(xscale="log", xlabel="margin / spread (0.01: none)", ylim=(-0.05, 1.05))
    return save(figure, path)
