"""The paper's choice of a coefficient: the one that best ranks the edges of one graph."""

import dataclasses
from pathlib import Path

import jax.random as jr
import numpy as np

from benchmarks import tables

from .data import read_graph, standardise
from .methods import METHODS
from .scoring import individual_scores
from .settings import settings_for


def tune(method: str, file: Path, *, series: int | None = None, seed: int = 0) -> str:
    """Return a Markdown table of coefficients and mean AUROC per series, and the best coefficient.

    Scores are against the published labels, as in the paper, and the corrected ones if they can be
    ranked. The smallest of equally good coefficients is best, since ties come from rankings that
    stay the same while the graph becomes empty.

    **Raises:** `ValueError` if the method does not exist or the file does not.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method}; known: {', '.join(METHODS)}.")
    if not file.exists():
        raise ValueError(f"{file} does not exist; name the folder with --data.")
    graph = read_graph(file)
    data = list(standardise(graph.series)[:series])
    settings = settings_for(graph.category)

    def scores(coefficient):
        given = dataclasses.replace(
            settings, coefficients={**settings.coefficients, method: coefficient}
        )
        found = METHODS[method](data, graph.dt, given, key=jr.key(seed))
        rows = individual_scores(found, graph.labels)
        mean = lambda name: float(np.mean([row[name] for row in rows]))  # noqa: E731
        kept = float(np.mean([prediction.graph.mean() for prediction in found]))
        return mean("published.auroc"), mean("corrected.auroc"), kept

    results = [scores(coefficient) for coefficient in settings.grid]
    best = settings.grid[int(np.nanargmax([auroc for auroc, *_ in results]))]
    body = [
        [f"{coefficient:g}", *(tables.number(value, 3) for value in row)]
        for coefficient, row in zip(settings.grid, results, strict=True)
    ]
    header = [method, "AUROC (published)", "AUROC (corrected)", "share kept"]
    return f"{tables.markdown(header, body)}\n\n{method} = {best:g}\n"
