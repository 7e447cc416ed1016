"""The published NetCDF files of CausalDynamics, one graph each.

```
simple/noise=0.00_confounder=False/data/Lorenz84_N10_T1000.nc
coupled/coupling=nonlinear_noise=0.00_systems=10_confounder=False_standardize=False_timelag=0/data/
    SRANDOM_N10_T1000_seed0.nc
climate/coupled_atmos_ocean/data/ESM_N10_T1000.nc
climate/coupled_enso_modes/data/AO_N10_T1000.nc
```

The folder determines the content; the files state neither orientation nor sampling interval.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from .recipes import NOISE

_SIMPLE = re.compile(r"noise=(?P<noise>[\d.]+)_confounder=(?P<confounder>\w+)")
_COUPLED = re.compile(
    r"coupling=(?P<coupling>\w+)_noise=(?P<noise>[\d.]+)_systems=(?P<systems>\d+)"
    r"_confounder=(?P<confounder>\w+)_standardize=(?P<standardize>\w+)_timelag=(?P<timelag>\d+)"
)
_CLIMATE = {"coupled_atmos_ocean": "maooam", "coupled_enso_modes": "enso"}
# Rows of these matrices are targets; those of all others are sources.
_TARGETS_FIRST = ("simple", "maooam")
_DT_CLIMATE = {"maooam": 500.0, "enso": 1 / 12}  # model time units, years


@dataclass(frozen=True)
class Place:
    """The parts of a file's path; `system` is the beginning of the file's name."""

    tier: str
    category: str
    name: str
    system: str


@dataclass(frozen=True)
class Contents:
    """A file's series and labels; `corrected` is None if unknown."""

    series: Float[np.ndarray, "series time dim"]
    dt: float
    published: Bool[np.ndarray, "source target"]
    corrected: Bool[np.ndarray, "source target"] | None


def find(directory: str | Path) -> list[Path]:
    """Return all `.nc` files in folders called `data`; others hold results of the benchmark."""
    return sorted(f for f in Path(directory).resolve().rglob("*.nc") if f.parent.name == "data")


def place(path: str | Path) -> Place:
    """Return the tier, category and a name that is unique in the published tree.

    If possible, the category is one of the paper's table: noise 2, and one change at a time. Others
    get a descriptive name, e.g. `simple/noise0.5+confounder`.

    **Raises:** `ValueError` if the folder is not one of the published ones.
    """
    path = Path(path).absolute()
    folder = path.parent.parent.name if path.parent.name == "data" else path.parent.name
    system, _, rest = path.stem.partition("_N")
    if folder in _CLIMATE:
        kind = _CLIMATE[folder]
        return Place("climate", f"climate/{kind}", f"climate_{kind}_{system}", system)
    if match := _COUPLED.fullmatch(folder):
        category = _changes(match, "confounder", "timelag", "standardize")
        _, _, seed = rest.partition("_seed")
        name = (
            f"coupled_{category}_D{match['systems']}_{match['coupling']}_lag{match['timelag']}"
            f"_{system.lower()}_seed{seed or 0}"
        )
        return Place("coupled", f"coupled/{category}", name, system)
    if match := _SIMPLE.fullmatch(folder):
        category = _changes(match, "confounder")
        return Place("simple", f"simple/{category}", f"simple_{category}_{system}", system)
    raise ValueError(
        f"{path}: the folder {folder!r} is not one of CausalDynamics. Expected "
        "noise=..._confounder=..., coupling=..._noise=..., or one of the climate tier, and in it a "
        "folder 'data'; keep the published tree."
    )


def _changes(match: re.Match, *names: str) -> str:
    noise = float(match["noise"])
    found = [] if noise == 0 else ["noise" if noise == NOISE else f"noise{noise:g}"]
    found += [name for name in names if match[name] not in ("False", "0")]
    return "+".join(found) or "default"


def read(path: str | Path) -> Contents:
    """Read one file.

    If nodes have several components, the first is used, as in the benchmark. The labels are the
    summary graph if there is one. Corrected labels of the simple tier come from the equations; no
    errors are known in the labels of the other tiers.

    **Raises:** `ValueError` if the file is not as published; `ImportError` without xarray.
    """
    where = place(path)
    node = "dim" if where.tier == "simple" else "node"
    try:
        import xarray as xr
    except ModuleNotFoundError as error:
        raise ImportError(
            "NetCDF files need xarray and netCDF4: pip install 'ndde_jax[data]'."
        ) from error
    with xr.open_dataset(path) as file:
        summary = "adjacency_matrix_summary"
        matrix = _variable(path, file, summary if summary in file else "adjacency_matrix")
        series = _variable(path, file, "time_series")
        _check_dims(path, matrix, (f"{node}_in", f"{node}_out"))
        others = ("time", "system", node)
        _check_dims(path, series, others if node == "dim" else (*others, "dim"))
        if node != "dim":
            series = series.isel(dim=0)
        values = series.transpose("system", "time", node).to_numpy()
        raw = matrix.transpose(f"{node}_in", f"{node}_out").to_numpy() != 0
        kept = series[node].to_numpy()
    targets_first = any(word in _TARGETS_FIRST for word in where.category.split("/"))
    published = raw.T if targets_first else raw
    corrected = _true_graph(where.system, kept) if where.tier == "simple" else published
    return Contents(values, _dt(where), published, corrected)


def _variable(path, file, name):
    if name not in file:
        raise ValueError(f"{path} lacks {name}; it has {', '.join(map(str, file.data_vars))}.")
    return file[name]


def _check_dims(path, array, expected: tuple[str, ...]) -> None:
    if set(array.dims) != set(expected):
        raise ValueError(
            f"{path}: expected {array.name} with axes {expected}; got {tuple(array.dims)}."
        )


def _true_graph(system: str, kept: np.ndarray) -> Bool[np.ndarray, "source target"] | None:
    """Return the graph of the remaining variables, by their numbers before one was hidden."""
    from .trajectories import corrected_graph, systems_with_jacobian

    if system not in systems_with_jacobian():
        return None
    return corrected_graph(system)[np.ix_(kept, kept)]


def _dt(where: Place) -> float:
    if where.tier == "climate":
        return _DT_CLIMATE[where.category.partition("/")[2]]
    if where.tier == "coupled":
        return 1.0  # every root has its own clock
    from .trajectories import SAMPLES_PER_PERIOD, flow, systems_with_jacobian

    if where.system not in systems_with_jacobian():
        raise ValueError(f"{where.system} is not a dysts system; its sampling step is unknown.")
    return flow(where.system).period / SAMPLES_PER_PERIOD
