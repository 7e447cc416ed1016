"""The recipes of the benchmark's categories, and the format that all files share."""

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.random as jr
import numpy as np

NOISE = 2.0  # of 0, 0.5, 1, 1.5 and 2 in the published files, the one in the paper's table
# Beyond this a series counts as diverged: sums of such values still fit into single precision.
LIMIT = 1e30

Arrays = dict[str, np.ndarray]
Note = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """The recipe of a category."""

    noise: float = 0.0
    hidden: bool = False
    lagged: bool = False
    standardise: bool = False


RECIPES = {
    "simple/default": Recipe(),
    "simple/noise": Recipe(noise=NOISE),
    "simple/confounder": Recipe(hidden=True),
    "coupled/default": Recipe(),
    "coupled/noise": Recipe(noise=NOISE),
    "coupled/confounder": Recipe(hidden=True),
    "coupled/timelag": Recipe(lagged=True),
    "coupled/standardize": Recipe(standardise=True),
}


def file_of(category: str, seed: int, x: np.ndarray, published: np.ndarray, **more) -> Arrays:
    """Return the arrays of a file: the common ones, and more."""
    arrays = {
        "x": x.astype(np.float32),
        "adjacency": published,
        "adjacency_true": published,
        "category": category,
        "tier": category.partition("/")[0],
        "seed": seed,
        "n_series": len(x),
        "dropped_variable": -1,
        **more,
    }
    arrays = {key: np.asarray(value) for key, value in arrays.items()}
    return {k: v.astype(np.int8) if v.dtype == bool and v.ndim else v for k, v in arrays.items()}


def without(index: int | None, *matrices: np.ndarray) -> list[np.ndarray]:
    """Return matrices without one row and column."""
    if index is None:
        return list(matrices)
    return [np.delete(np.delete(matrix, index, 0), index, 1) for matrix in matrices]


def stream(seed: int, category: str, index: int | str) -> tuple[int, int, int]:
    """Return the seed of one graph's random numbers, which does not depend on other graphs."""
    return seed, zlib.crc32(category.encode()), zlib.crc32(str(index).encode())


def key_of(stream: Sequence[int]):
    """The JAX key of a `stream`."""
    return functools.reduce(jr.fold_in, stream[1:], jr.key(stream[0]))


def bounded(series: np.ndarray) -> bool:
    """Return whether a series stays below `LIMIT`."""
    return bool((np.abs(series) < LIMIT).all())  # NaN is not smaller
