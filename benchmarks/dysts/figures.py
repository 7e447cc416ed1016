"""Figures: predicted against true trajectories, associations of metrics, power spectra."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._store import Store, Unit

from .associations import AGAINST, RELATED, association
from .data import Problem, read_problem
from .report import ANCHORS, read
from .runner import BENCHMARK
from .scoring import METRICS

SHOWN = ("discover", "node", "cnode")
# Number of samples of a trajectory that are drawn; more would fill the attractor.
DRAWN = 2000
SEGMENT = 1024


def draw_all(store: Store, data: Path, folder: Path) -> list[Path]:
    """Draw every figure that the results allow, as PNG; returns the files.

    Associations need a method with a graph that may be wrong, so the anchors alone give none.

    **Raises:** `ValueError` if there are no results.
    """
    values = read(list(store.rows(BENCHMARK)))
    if not values:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run the benchmark first.")
    folder.mkdir(parents=True, exist_ok=True)
    methods = [m for m in SHOWN if m in values] or sorted(values)[:3]
    systems = sorted({s for m in methods for s in values[m]["vlpt"]})
    problems = [read_problem(data / f"{s}.npz") for s in systems if (data / f"{s}.npz").exists()]
    if not problems:
        raise ValueError(f"{data} holds none of the systems in {store.path}; check --data.")
    starts = {
        (unit.graph, unit.method): store.arrays(unit).get("start")
        for unit in sorted(store.done(BENCHMARK), key=_newest_last)
        if unit.method in methods
    }
    drawings = {
        "trajectories": lambda: trajectories(problems, methods, starts),
        "spectra": lambda: spectra(problems, methods, starts),
    }
    if set(values) - set(ANCHORS):
        drawings["associations"] = lambda: associations(values)
    written = []
    for name, draw in drawings.items():
        path = folder / f"{name}.png"
        figure = draw()
        figure.savefig(path, dpi=130)
        written.append(path)
    return written


def _newest_last(unit: Unit):
    return unit.seed


def trajectories(problems: Sequence[Problem], methods: Sequence[str], starts):
    """Draw true (black) and predicted (red) orbits from the first start, one row per system."""
    from matplotlib.figure import Figure

    blocks = 1 if len(problems) <= 4 else 3
    rows = -(-len(problems) // blocks)
    figure = Figure(figsize=(1.7 * blocks * len(methods), 1.75 * rows), layout="constrained")
    axes = figure.subplots(rows, blocks * len(methods), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for i, problem in enumerate(problems):
        row, block = i % rows, i // rows
        for j, method in enumerate(methods):
            axis = axes[row, block * len(methods) + j]
            _orbit(axis, problem, starts.get((problem.name, method)))
            if row == 0:
                axis.set_title(method, fontsize=9)
            if j == 0:
                axis.text(0.0, 1.0, problem.name, fontsize=7, transform=axis.transAxes, va="top")
    return figure


def _orbit(axis, problem: Problem, predicted) -> None:
    true = problem.tests[0][:DRAWN]
    pair = _most_spread(true)
    axis.plot(*true[:, pair].T, color="black", lw=0.4, rasterized=True)
    if predicted is not None:
        axis.plot(*predicted[:DRAWN][:, pair].T, color="red", lw=0.4, rasterized=True)
    low, high = true[:, pair].min(axis=0), true[:, pair].max(axis=0)
    margin = 0.15 * (high - low)
    axis.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axis.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _most_spread(x: np.ndarray) -> list[int]:
    """Return the two least correlated variables, which show the attractor at its widest."""
    correlation = np.abs(np.corrcoef(x.T)) + np.eye(x.shape[1])
    i, j = np.unravel_index(np.argmin(correlation), correlation.shape)
    return sorted((int(i), int(j)))


def spectra(problems: Sequence[Problem], methods: Sequence[str], starts):
    """Draw power spectra of the first variable along the first test."""
    from matplotlib.figure import Figure
    from scipy.signal import welch

    columns = min(6, len(problems))
    rows = -(-len(problems) // columns)
    figure = Figure(figsize=(2.1 * columns, 1.6 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=False)
    for axis in axes.flat[len(problems) :]:
        axis.set_axis_off()
    colours = ("red", "tab:blue", "tab:green")
    handles = []
    for axis, problem in zip(axes.flat, problems, strict=False):
        found = {"truth": problem.tests[0]}
        found |= {m: starts[key] for m in methods if (key := (problem.name, m)) in starts}
        handles = []
        for (label, x), colour in zip(found.items(), ("black", *colours), strict=False):
            n = min(len(x), len(starts[problem.name, methods[0]]))
            frequency, power = welch(x[:n, 0], fs=1 / problem.dt, nperseg=min(SEGMENT, n // 4))
            decibels = 10 * np.log10(power[1:] + 1e-12)
            width = 1.2 if label == "truth" else 0.7
            handles += axis.plot(frequency[1:], decibels, color=colour, lw=width, label=label)
        top = max(line.get_ydata().max() for line in handles[:1])
        axis.set_ylim(top - 90, top + 10)
        axis.set_xscale("log")
        axis.set_title(problem.name, fontsize=7, pad=2)
        axis.tick_params(labelsize=5, pad=1)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
    figure.supxlabel("frequency, per unit of time", fontsize=8)
    figure.supylabel("power, dB", fontsize=8)
    return figure


def associations(values):
    """Draw every metric against SHD and against the training error, with Kendall's τ."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.3 * len(RELATED), 4.8), layout="constrained")
    axes = figure.subplots(2, len(RELATED))
    for row, (against, label) in enumerate(AGAINST.items()):
        for axis, metric in zip(axes[row], RELATED, strict=True):
            found = association(values, metric, against)
            for method, x in found.x.items():
                # A little jitter separates coinciding values.
                jitter = 0.01 * np.random.default_rng(0).normal(size=x.size) * (against == "shd")
                axis.plot(x + jitter, found.y[method], ".", ms=3, alpha=0.7, label=method)
            axis.set_title(f"{METRICS[metric][0]}: τ = {found.text}", fontsize=8)
            axis.set_yscale("symlog", linthresh=1e-4) if metric in ("flee", "dky") else None
            axis.set_yscale("log") if metric in ("lsd",) else None
            axis.set_yscale("symlog", linthresh=0.1) if metric == "dstsp" else None
            axis.set_xscale("log" if against == "train" else "linear")
            axis.set_xlabel(label, fontsize=8)
            axis.tick_params(labelsize=6)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return figure
