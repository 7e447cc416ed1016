"""What curves and surfaces share: the rows they are made of, slices of a source, and intervals."""

from typing import Any

import jax
import numpy as np

from .._types import to_jax
from ._basis import Basis
from ._ensemble import Ensemble

# Rows that averages are taken over, spread evenly over the record; their error is far below that of
# the ensemble.
MOST_ROWS = 1000
# Two-sided 90 %.
WIDE = 1.6449


def histories_of(ensemble: Ensemble) -> np.ndarray:
    """Of at most so many rows, `[row lag dim]`."""
    start = ensemble.rows.start
    return start[np.unique(np.linspace(0, len(start) - 1, MOST_ROWS).astype(int))]


def slices(values: np.ndarray, points: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Ends of slices with equally many values each `[slice+1]`, and the slice of every value.

    **Raises:** `ValueError` for fewer than three different ends.
    """
    edges = np.unique(np.quantile(values, np.linspace(0, 1, points + 1)))
    if len(edges) < 3:
        raise ValueError(f"{name} takes too few different values for a curve: {len(edges)}.")
    slot = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return edges, slot


def as_jax(values: np.ndarray, model: Any) -> jax.Array:
    """In the type of the model."""
    return to_jax(values, model.dt.dtype)


def cast_basis(basis: Basis, model: Any) -> Basis:
    """With all floating numbers in the type of the model."""
    return jax.tree.map(lambda a: as_jax(a, model) if a.dtype.kind == "f" else to_jax(a), basis)


def by_model(own: np.ndarray, columns: np.ndarray, ensemble: Ensemble, target: int) -> np.ndarray:
    """What is linear in a drift, of the learned model, of the centre of the ensemble and of its
    members, `[... model]`, from the same of the model alone `[...]` and of the columns
    `[... feature]`.
    """
    theta = np.concatenate([ensemble.center[None, target], ensemble.theta[:, target]])
    steps = ensemble.trust[target] * own[..., None] + columns @ theta.T
    first = own[..., None] if ensemble.own[target] else steps[..., :1]
    return np.concatenate([first, steps], axis=-1)


def center_and_spread(
    found: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What to say and half the width of a 90 % interval, from the same quantity of the learned
    model, of the centre of the ensemble, and of its members, along the first axis; and what the
    same quantity of echoes differs by from that of the learned model, `[echo ...]`.

    Members spread about their centre as estimates from other records would. That centre is fitted
    to steps instead of rates, with other functions: how far it is from the model shows what neither
    the record's length nor the graph decides. Echoes show what the way of estimating does.
    """
    model, center, members = found[0], found[1], found[2:]
    variance = np.mean((members - center[None]) ** 2, axis=0) + (center - model) ** 2
    if bias is not None and len(bias):
        variance = variance + np.mean(bias, axis=0) ** 2
    return model, WIDE * np.sqrt(variance)
