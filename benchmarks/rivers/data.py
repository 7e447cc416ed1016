"""A river record: levels at gauges, and the next gauge downstream of each."""

import csv
import functools
import gzip
import importlib.resources
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

# Files of a directory given with `--data`, and the files of the package.
SERIES, EDGES = "rivers_ts*.csv*", "edges.csv"
SHIPPED = ("elbe_flood.csv.gz", "elbe_flood_edges.csv")


@dataclass(frozen=True, eq=False)
class Record:
    """One record of one river network.

    - `x`: levels, NaN where missing; `dt`: time between samples, in hours; `names`: of the gauges.
    - `truth`: upstream gauge to the next one downstream.
    """

    x: Float[np.ndarray, "time gauge"]
    dt: float
    names: tuple[str, ...]
    truth: Bool[np.ndarray, "gauge gauge"]

    @functools.cached_property
    def filled(self) -> Float[np.ndarray, "time gauge"]:
        """The levels without missing values: linear interpolation, constant at the ends."""
        return interpolated(self.x)


@functools.cache
def read_record(directory: Path | None = None) -> Record:
    """The record of a directory, `rivers_ts*.csv` and `edges.csv`, or that of the package.

    **Raises:** `ValueError` if a file is missing, or an edge names a gauge without a series.
    """
    series, edges = _files(directory)
    header, *rows = csv.reader(io.StringIO(series))
    names = tuple(header[1:])
    time = np.array([row[0] for row in rows], "datetime64[s]")
    x = np.array([[float(cell) if cell else np.nan for cell in row[1:]] for row in rows])
    steps = np.diff(time).astype(float) / 3600
    if not len(steps) or not np.allclose(steps, steps[0]):
        raise ValueError(f"samples must be equally spaced; got steps from {steps.min()} h on.")
    truth = np.zeros((len(names), len(names)), bool)
    for row in csv.DictReader(io.StringIO(edges)):
        ends = row["source"], row["target"]
        if missing := [end for end in ends if end not in names]:
            raise ValueError(f"edge {ends[0]} -> {ends[1]}: there is no series of {missing[0]}.")
        truth[names.index(ends[0]), names.index(ends[1])] = True
    return Record(x, float(steps[0]), names, truth)


def _files(directory: Path | None) -> tuple[str, str]:
    if directory is None:
        place = importlib.resources.files("ndde_jax") / "data"
        series, edges = (place / name for name in SHIPPED)
        return gzip.decompress(series.read_bytes()).decode(), edges.read_text(encoding="utf-8")
    found = sorted(Path(directory).glob(SERIES))
    edges = Path(directory) / EDGES
    if len(found) != 1 or not edges.exists():
        raise ValueError(
            f"{directory} must hold one {SERIES} and {EDGES}; it holds "
            f"{', '.join(path.name for path in found) or 'no series'}."
        )
    raw = found[0].read_bytes()
    text = gzip.decompress(raw) if found[0].suffix == ".gz" else raw
    return text.decode(), edges.read_text(encoding="utf-8")


def interpolated(x: Float[np.ndarray, "time gauge"]) -> Float[np.ndarray, "time gauge"]:
    """Return the values, interpolated linearly across missing ones, with the nearest value beyond
    the ends.
    """
    time, filled = np.arange(len(x)), np.array(x)
    for column in filled.T:
        missing = np.isnan(column)
        if missing.all():
            raise ValueError("a gauge has no values.")
        column[missing] = np.interp(time[missing], time[~missing], column[~missing])
    return filled


def connected_subgraphs(truth: Bool[np.ndarray, "gauge gauge"], size: int) -> list[tuple[int, ...]]:
    """Return all connected sets of `size` gauges, regardless of direction, in order."""
    either = truth | truth.T
    neighbours = [frozenset(np.flatnonzero(row).tolist()) for row in either]
    found = {frozenset([gauge]) for gauge in range(len(truth))}
    for _ in range(size - 1):
        found = {
            members | {new} for members in found for i in members for new in neighbours[i] - members
        }
    return sorted(tuple(sorted(members)) for members in found)
