"""What the command line writes: all results of a discovery together, or none of them."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ._atomic import Together


def write_results(found: Any, report: str, directory: Path, *, plot: bool) -> list[str]:
    """All results, or none of them if one cannot be written; their names."""
    contents = {"report.txt": report_text(report), "edges.csv": _edges(found)}
    if plot:
        contents |= _pictures(found)
    with Together() as files:
        for name, content in contents.items():
            files.add(directory / name, content)
        found.save(directory / "discovery")
    return [*contents, "discovery"]


def _edges(found: Any) -> bytes:
    """One row per candidate edge, as `Discovery.to_frame` orders them; needs no pandas."""
    kept, scores = found.graph.ravel(), np.asarray(found.scores).ravel()
    order = np.lexsort((-scores, ~kept))
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["source", "target", "lag", "level_lag", "delay", "kept", "score", "lower"])
    for i, j, k in zip(*np.unravel_index(order, found.graph.shape), strict=True):
        lag, edge = found.lags[k], (i, j, k)
        numbers = (lag * found.dt, found.graph[edge], found.scores[edge], found.lower[edge])
        lags = (lag, found.level_lags[k])
        writer.writerow([found.names[i], found.names[j], *lags, *map(str, numbers)])
    return file.getvalue().encode()


def _pictures(found: Any) -> dict[str, bytes]:
    try:
        from .plot import plot_lag_matrix, plot_process_graph
    except ImportError:
        print("No pictures: install ndde_jax[plot], or pass --no-plot.", file=sys.stderr)
        return {}
    shared = {"lags": found.lags, "names": found.names, "dt": found.dt}
    shared["time_unit"] = found.time_unit
    matrix = plot_lag_matrix(found.scores, graph=found.graph, **shared)
    process = plot_process_graph(found.graph, scores=found.scores, **shared).get_figure()
    drawn = {}
    for name, figure in (("lag_matrix.png", matrix), ("process_graph.png", process)):
        content = io.BytesIO()
        figure.savefig(content, dpi=150, format="png")
        drawn[name] = content.getvalue()
    return drawn


def report_text(report: str) -> bytes:
    """A report as it is written: one line end at its end."""
    return (report.rstrip() + "\n").encode()


def forget_stages(directory: Path) -> None:
    """Remove the stages of a discovery that is saved."""
    for file in directory.glob("*.npz"):
        file.unlink(missing_ok=True)
    try:
        directory.rmdir()
    except OSError:
        pass  # it was never made, or holds something else
