"""A second look: halves of the record, other inputs, other differences, a rollout."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from ..assess._inputs import Inputs
from ..assess._score import basis
from ..fit._prices import AbstractPrice
from ..measure._stability import EdgeStability, edge_stability, find_again
from ..models._confine import RestoredDDE, confine
from ..models._model import AbstractDelayModel
from ..select._strategy import AbstractStrategy
from ..simulate._solve import solve_sdde
from ..windows._thin import first_rows, is_regular, thin_windows
from ..windows._windows import Windows
from ._graph_rules import GraphEvidence

# Rows for every column of a regression on all candidates.
ROWS = 5
# Steps of a rollout, no more than a picture would show.
STEPS = 5000


@dataclasses.dataclass(frozen=True)
class Finder:
    """The way graphs are found again: a `strategy`, at a `price`; `seeds` times on each half."""

    strategy: AbstractStrategy | Callable
    price: AbstractPrice | None
    seeds: int
    progress: bool


@dataclasses.dataclass(frozen=True)
class RefitEvidence:
    """The value that rules about refits read; None where something was not made.

    - `base`: the graph and its data.
    - `stability`: graphs of halves of the record.
    - `joint`: what all other variables together cannot say of a source, `[source target]`.
    - `thinned`, `other_scheme`: graphs of differences over two steps, and of another scheme.
    - `outside`: share of a rollout of the drift that is outside the box of the data.
    """

    base: GraphEvidence
    stability: EdgeStability | None = None
    joint: np.ndarray | None = None
    thinned: np.ndarray | None = None
    other_scheme: np.ndarray | None = None
    outside: float | None = None


def refit(base: GraphEvidence, inputs: Inputs, finder: Finder, key: PRNGKeyArray) -> RefitEvidence:
    """Return what refits find."""
    windows, keys = base.windows, jr.split(key)
    stability = None
    if base.used // 2 >= windows.dim + 1:
        stability = edge_stability(
            windows,
            key=keys[0],
            seeds=finder.seeds,
            strategy=finder.strategy,
            price=finder.price,
            progress=finder.progress,
        )
    thinned, other = _other_differences(base, finder, keys[1])
    return RefitEvidence(
        base=base,
        stability=stability,
        joint=shares_beyond_others(inputs, base, whole_sources=True),
        thinned=thinned,
        other_scheme=other,
        outside=share_outside(base.model, windows) if 0 in windows.lags else None,
    )


def shares_beyond_others(
    inputs: Inputs, base: GraphEvidence, *, whole_sources: bool
) -> np.ndarray | None:
    """Return what all other candidates together cannot say of an edge, `[source target lag]`, or
    of all lags of a source, `[source target]`: the share of the variance of the rate that it
    explains beside them, less what chance explains. NaN without an edge; None for more candidates
    than the rows tell apart.
    """
    columns, graph = _columns(inputs), base.graph
    n, rates = columns.shape[-1], inputs.rows.rates
    for width in (columns.shape[2], 1):  # lines alone where there are too few rows for bends
        if columns.shape[0] * columns.shape[1] * width * ROWS <= n:
            columns = columns[:, :, :width]
            break
    else:
        return None
    share = np.full(graph.shape, np.nan)
    allowed = inputs.rows.allowed
    for i, j, a in np.argwhere(graph).tolist():
        others = allowed[:, j].copy()
        others[i, slice(None) if whole_sources else a] = False
        rate, given = rates[:, j], _gathered(columns, others)
        tested = graph[:, j] & ~others & allowed[:, j] if whole_sources else None
        added = np.concatenate([given, _gathered(columns, tested)], 1) if whole_sources else (
            np.concatenate([given, columns[a, i].T], axis=1)
        )  # fmt: skip
        before, after = (_left(rate, c) for c in (given, added))
        count = added.shape[1] - given.shape[1]
        noise = after @ after / max(n - added.shape[1] - 1, 1)
        share[i, j, a] = (before @ before - after @ after - count * noise) / (rate @ rate)
    if not whole_sources:
        return share
    return np.where(graph.any(axis=2), np.nanmax(np.nan_to_num(share, nan=-np.inf), axis=2), np.nan)


def share_outside(model: AbstractDelayModel, windows: Windows) -> float:
    """Return the share of a rollout of the drift, without noise, outside the box of the data."""
    confined = model if isinstance(model, RestoredDDE) else confine(model, windows=windows)
    row = int(np.argmax(np.asarray(windows.valid)))
    scaling = windows.scaling
    state = windows.history[row, windows.lags.index(0)] * scaling.scale + scaling.center
    # Forward differences describe a map, central ones a rate, which needs shorter steps.
    parts = 1 if windows.scheme == "euler" else 4
    steps = parts * min(int(windows.n_valid), STEPS)
    path = solve_sdde(
        confined, history=state, n_steps=steps, dt=confined.dt / parts, save_every=parts
    )
    distance = jnp.abs(path.ys - confined.center[None])
    return float(jnp.mean(~jnp.all(distance <= confined.radius[None], axis=1)))


def _other_differences(
    base: GraphEvidence, finder: Finder, key: PRNGKeyArray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return graphs of differences over two steps, and of another scheme; None without these."""
    windows = base.windows
    if not base.flow or not is_regular(windows) or windows.scheme == "midpoint":
        return None, None  # a map has no step; midpoints hold states between samples
    other = "central" if windows.scheme != "central" else "euler"
    # Of the length of the halves, and of the whole: shapes that are compiled already.
    asked = ((2, None, base.used // 2), (1, other, windows.valid.shape[0]))
    found: list[np.ndarray | None] = []
    for factor, scheme, length in asked:
        try:
            changed = first_rows(thin_windows(windows, factor, scheme=scheme), length)
        except ValueError:
            found.append(None)
            continue
        found.append(np.asarray(find_again(changed, finder.strategy, finder.price, key)[0]))
    return found[0], found[1]


def _columns(inputs: Inputs) -> Float[np.ndarray, "lag source column row"]:
    """Return lines and bends of every candidate, centred."""
    columns = np.concatenate([inputs.line[..., None], inputs.bend], axis=-1)
    columns = np.ascontiguousarray(np.moveaxis(columns, 0, -1))
    return columns - columns.mean(axis=-1, keepdims=True)


def _gathered(
    columns: Float[np.ndarray, "lag source column row"], which: Bool[np.ndarray, "source lag"]
) -> Float[np.ndarray, "row some"]:
    return columns[which.T].reshape(-1, columns.shape[-1]).T


def _left(rate: Float[np.ndarray, "row"], columns: Float[np.ndarray, "row some"]) -> np.ndarray:
    q = basis(columns)
    return rate - (q @ rate) @ q
