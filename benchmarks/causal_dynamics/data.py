"""The benchmark's graphs: series and the label sets they are scored against."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

_REQUIRED = ("x", "adjacency", "dt", "category")


@dataclass(frozen=True)
class Graph:
    """One graph of the benchmark with its series.

    `labels` holds the truth as [source, target] under up to three names: `published` (as the
    benchmark ships it, re-oriented where its files store [target, source]), `transposed` (the same,
    read the wrong way round, as some published tables did) and `corrected` (structurally right).
    """

    name: str
    category: str
    series: Float[np.ndarray, "series time dim"]
    dt: float
    labels: Mapping[str, Bool[np.ndarray, "source target"]]


def find_files(
    directory: str | Path, *, only: str | None = None, limit: int | None = None
) -> list[Path]:
    """The `.npz` files of a directory, sorted by name.

    **Arguments:**

    - `directory`: holds one file per graph.
    - `only`: keep names that contain this text or shell pattern, e.g. `simple_default` or
        `coupled_*_D10`.
    - `limit`: keep the first so many of them.

    **Raises:** `ValueError` if nothing is left.
    """
    files = sorted(Path(directory).glob("*.npz"))
    if not files:
        raise ValueError(f"expected .npz files in {directory}; found none. Check --data.")
    kept = [f for f in files if only is None or fnmatch.fnmatch(f.stem, f"*{only}*")][:limit]
    if not kept:
        raise ValueError(f"none of the {len(files)} graphs in {directory} matches {only!r}.")
    return kept


def read_graph(path: str | Path) -> Graph:
    """Read one `.npz` file; the name of the graph is the name of the file.

    Keys: `x` [series, time, dim], `adjacency` and optionally `adjacency_true` [source, target],
    `dt`, `category` (such as `simple/noise`).

    **Raises:** `ValueError` if keys are missing or shapes do not fit together.
    """
    path = Path(path)
    with np.load(path, allow_pickle=False) as file:
        missing = [key for key in _REQUIRED if key not in file]
        if missing:
            raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(file)}.")
        series, published = file["x"], file["adjacency"].astype(bool)
        labels = {"published": published, "transposed": published.T}
        if "adjacency_true" in file:
            labels["corrected"] = file["adjacency_true"].astype(bool)
        graph = Graph(path.stem, str(file["category"]), series, float(file["dt"]), labels)
    if series.ndim != 3 or any(truth.shape != 2 * series.shape[2:] for truth in labels.values()):
        raise ValueError(
            f"{path}: expected x [series, time, dim] and adjacency [dim, dim]; got {series.shape} "
            f"and {published.shape}."
        )
    return graph


def standardise(series: Float[np.ndarray, "series time dim"]) -> Float[np.ndarray, "..."]:
    """What the benchmark does to the series before any method sees them.

    Missing values become 0, then every variable gets one mean and one standard deviation over all
    series and times. Float64, so that a constant variable stays exactly constant.
    """
    series = np.nan_to_num(np.asarray(series, dtype=np.float64))
    mean, deviation = series.mean(axis=(0, 1)), series.std(axis=(0, 1))
    return (series - mean) / (deviation + 1e-8)


def varying(series: Sequence[Float[np.ndarray, "time dim"]]) -> Bool[np.ndarray, " dim"]:
    """Variables that are not constant in any of the series."""
    return np.all([np.ptp(x, axis=0) > 0 for x in series], axis=0)
