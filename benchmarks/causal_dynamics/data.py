"""The benchmark's graphs: series and the label sets they are scored against."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from . import netcdf

_REQUIRED = ("x", "adjacency", "dt", "category")


@dataclass(frozen=True)
class Graph:
    """One graph of the benchmark with its series.

    `labels` holds the truth as [source, target] under up to three names: `published` (from the
    benchmark, re-oriented if its files store [target, source]), `transposed` (its transpose, as
    used by some published tables) and `corrected` (structurally correct).
    """

    name: str
    category: str
    series: Float[np.ndarray, "series time dim"]
    dt: float
    labels: Mapping[str, Bool[np.ndarray, "source target"]]


def find_files(
    directory: str | Path, *, only: str | None = None, limit: int | None = None
) -> list[Path]:
    """Return the `.npz` files of a directory and the published NetCDF files under it, sorted.

    **Arguments:**

    - `directory`: holds one file per graph.
    - `only`, `limit`: see `select_files`.

    **Raises:** `ValueError` if there are none, or none is left.
    """
    files = sorted(Path(directory).glob("*.npz")) + netcdf.find(directory)
    if not files:
        raise ValueError(
            f"expected .npz files in {directory}, or folders of CausalDynamics with .nc files in "
            "data/ under it; found none. Check --data."
        )
    return select_files(files, only=only, limit=limit)


def select_files(
    files: Sequence[Path], *, only: str | None = None, limit: int | None = None
) -> list[Path]:
    """Return some of the files.

    **Arguments:**

    - `only`: keep names of graphs that contain this text or shell pattern, e.g. `simple_default` or
        `coupled_*_D10`.
    - `limit`: largest number of files to keep.

    **Raises:** `ValueError` if nothing is left.
    """
    kept = [f for f in files if only is None or fnmatch.fnmatch(graph_name(f), f"*{only}*")]
    if not kept:
        raise ValueError(f"none of the {len(files)} graphs matches {only!r}.")
    return kept[:limit]


def graph_name(path: str | Path) -> str:
    """Return the name of the graph in a file; for `.npz` that of the file."""
    path = Path(path)
    return netcdf.place(path).name if path.suffix == ".nc" else path.stem


def read_graph(path: str | Path) -> Graph:
    """Read one `.npz` file, or one `.nc` file of the published benchmark.

    Keys of `.npz`: `x` [series, time, dim], `adjacency` and optionally `adjacency_true` [source,
    target], `dt`, `category` (such as `simple/noise`).

    **Raises:** `ValueError` if keys are missing or shapes are inconsistent.
    """
    path = Path(path)
    if path.suffix == ".nc":
        contents, category = netcdf.read(path), netcdf.place(path).category
        series, dt = contents.series, contents.dt
        published, corrected = contents.published, contents.corrected
    else:
        with np.load(path, allow_pickle=False) as file:
            missing = [key for key in _REQUIRED if key not in file]
            if missing:
                raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(file)}.")
            category, series, dt = str(file["category"]), file["x"], float(file["dt"])
            published = file["adjacency"].astype(bool)
            corrected = file["adjacency_true"].astype(bool) if "adjacency_true" in file else None
    labels = {"published": published, "transposed": published.T}
    if corrected is not None:
        labels["corrected"] = corrected
    if series.ndim != 3 or any(truth.shape != 2 * series.shape[2:] for truth in labels.values()):
        raise ValueError(
            f"{path}: expected series [series, time, dim] and adjacency [dim, dim]; got "
            f"{series.shape} and {published.shape}."
        )
    return Graph(graph_name(path), category, series, dt, labels)


def standardise(series: Float[np.ndarray, "series time dim"]) -> Float[np.ndarray, "..."]:
    """Standardise the series like the benchmark, which does so for all methods.

    Missing values become 0, then every variable gets one mean and one standard deviation over all
    series and times. Float64, so that a constant variable stays exactly constant.
    """
    series = np.nan_to_num(np.asarray(series, dtype=np.float64))
    mean, deviation = series.mean(axis=(0, 1)), series.std(axis=(0, 1))
    return (series - mean) / (deviation + 1e-8)


def varying(series: Sequence[Float[np.ndarray, "time dim"]]) -> Bool[np.ndarray, " dim"]:
    """Return variables that are not constant in any of the series."""
    return np.all([np.ptp(x, axis=0) > 0 for x in series], axis=0)
