"""The benchmark's categories, generated: new series of the simple and coupled tiers from a seed.

The climate tier is not generated. Its ENSO model is a seasonal regression on observed indices, its
ocean-atmosphere model a spectral one of 36 modes whose tensor is assembled by another package. Both
are read from the published files.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from . import coupled, simple
from .recipes import RECIPES, Arrays, Note


def _ignore(text: str) -> None:
    pass


def write(
    folder: str | Path,
    categories: Sequence[str],
    *,
    n_graphs: int,
    seed: int,
    n_series: int = 10,
    n_nodes: int = 10,
    note: Note = _ignore,
) -> Iterator[Path]:
    """Write graphs as `.npz`, one by one, and yield their paths.

    A category that the folder already holds, with the same settings, is not computed again.

    **Arguments:**

    - `categories`: names in `RECIPES`.
    - `n_graphs`: number per category. The simple tier has at most 59 systems.
    - `seed`: with the names of category and graph it determines every random number.
    - `n_series`: number per graph.
    - `n_nodes`: number per network of the coupled tier.
    - `note`: called with messages on what is omitted and why.

    **Raises:** `ValueError` for an unknown category, or if the folder holds such a graph of another
    seed or number of series.
    """
    unknown = sorted(set(categories) - set(RECIPES))
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)} cannot be generated; known: {', '.join(RECIPES)}. The climate "
            "tier is read from the published files with --data."
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"n_graphs": n_graphs, "seed": seed, "n_series": n_series, "n_nodes": n_nodes}
    for category in categories:
        yield from _write_category(folder, category, settings, note)


def _write_category(folder: Path, category: str, settings: dict, note: Note) -> Iterator[Path]:
    done = folder / f"_{category.replace('/', '_')}.json"
    if done.exists():
        found = json.loads(done.read_text())
        paths = [folder / f"{name}.npz" for name in found["graphs"]]
        if found["settings"] == settings and all(path.exists() for path in paths):
            yield from paths
            return
    names = []
    for name, arrays in generated(category, **settings, note=note):
        path = folder / f"{name}.npz"
        if path.exists():
            _check_same(path, arrays)
        # Renaming is atomic: a stopped run leaves no half file.
        part = folder / f".{name}.part"
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.replace(path)
        names.append(name)
        yield path
    done.write_text(json.dumps({"settings": settings, "graphs": names}, indent=1))


def _check_same(path: Path, arrays: Arrays) -> None:
    with np.load(path, allow_pickle=False) as file:
        for key in ("seed", "n_series"):
            found = file[key].item() if key in file else None
            if found != arrays[key]:
                raise ValueError(
                    f"{path} exists with {key} = {found}, not {arrays[key]}; use another folder."
                )


def generated(
    category: str,
    *,
    n_graphs: int,
    seed: int,
    n_series: int = 10,
    n_nodes: int = 10,
    note: Note = _ignore,
) -> Iterator[tuple[str, Arrays]]:
    """Return names of graphs and the arrays of their files; arguments as in `write`."""
    recipe = RECIPES[category]
    if category.startswith("simple/"):
        return simple.graphs(
            category, recipe, n_graphs=n_graphs, seed=seed, n_series=n_series, note=note
        )
    return coupled.graphs(
        category, recipe, n_graphs=n_graphs, seed=seed, n_series=n_series, n_nodes=n_nodes
    )
