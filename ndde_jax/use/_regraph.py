"""The graph chosen again on halves of the data."""

from typing import Any

import numpy as np

from ..models._model import model_rates
from . import _halves
from ._basis import Basis, columns, families
from ._halves import Sums

# Candidates per target that a half may choose from.
SLOTS = 12


def candidates(found: Any, target: int) -> np.ndarray:
    """Candidates of one target, flat (lag, source): what the model reads first, then edges and
    their neighbours in lag, then others by score.
    """
    kept, edges = found.reads[:, target].T, found.graph[:, target].T  # [lag source]
    allowed = np.asarray(found.windows.prior.allowed)[:, target].T | kept | edges
    near = kept | edges
    near[1:] |= kept[:-1]
    near[:-1] |= kept[1:]
    score = np.nan_to_num(np.asarray(found.scores, float)[:, target].T, nan=-np.inf)
    order = np.lexsort((-score.ravel(), -near.ravel().astype(int), -kept.ravel().astype(int)))
    order = order[allowed.ravel()[order]]
    return np.sort(order[: max(SLOTS, int(kept.sum()) + 2)])


def kept_of(found, target: int, slots: np.ndarray) -> np.ndarray:
    """Whether the model reads the inputs in some slots, flat `[lag source]`."""
    return found.reads[:, target].T.ravel()[slots]


def physical_histories(windows: Any) -> np.ndarray:
    """Of valid windows, `[row lag dim]`."""
    scaling = windows.scaling
    history = np.asarray(windows.history, np.float64)[_valid(windows)]
    return history * np.asarray(scaling.scale) + np.asarray(scaling.center)


def select_again(
    found, target: int, basis: Basis, histories: np.ndarray, halves: np.ndarray
) -> tuple[np.ndarray, float]:
    """Inputs chosen on each half, bool `[half slot]`, and the mean squared error of a regression
    on what was kept, on all windows.
    """
    windows, slots = found.windows, np.asarray(basis.inputs)
    design = columns(basis, histories.reshape(len(histories), -1)[:, slots], np)
    block = _halves.block_of(len(design), halves.shape[1])
    output = np.asarray(windows.increment, np.float64)[_valid(windows), target]
    weight = np.asarray(windows.weight, np.float64)[_valid(windows)]
    sums = _halves.block_sums(design, output, weight, block, halves.shape[1])
    needs, kind = families(basis)
    required = np.asarray(windows.prior.required)[:, target].T.ravel()[slots]
    dim = windows.dim
    swaps = [
        (a, b) for a in range(len(slots)) for b in range(a) if slots[a] % dim == slots[b] % dim
    ]
    options = dict(fixed=required, swaps=swaps, n_candidates=windows.dim * windows.n_lags)
    start = kept_of(found, target, slots)
    halved = np.stack([sums[half].sum(0) for half in halves])
    chosen = _halves.choose(Sums(halved), start, needs, kind, **options)
    every = Sums(sums.sum(0))
    left = every.solve(_halves.best_family(every, start, needs, kind)[1])[1]
    return chosen, float(left / max(every.n, 1.0))


def model_risks(found, histories: np.ndarray) -> np.ndarray:
    """Mean squared errors of the learned model on all windows, standardised, `[target]`."""
    windows = found.windows
    scaling, weight = windows.scaling, np.asarray(windows.weight, np.float64)[_valid(windows)]
    rate = model_rates(found.model, histories, found.model.dt.dtype)
    rate = rate - np.asarray(scaling.rate_center)
    left = np.asarray(windows.increment, np.float64)[_valid(windows)]
    left = left - rate / np.asarray(scaling.rate_scale)
    return weight @ left**2 / max(weight.sum(), 1.0)


def as_graphs(shape, slots, masks) -> np.ndarray:
    """`[half source target lag]`."""
    dim, _, n_lags = shape
    graphs = np.zeros((len(masks[0]), dim, dim, n_lags), bool)
    for j, (slot, mask) in enumerate(zip(slots, masks, strict=True)):
        graphs[:, slot % dim, j, slot // dim] = mask
    return graphs


def shares(graphs: np.ndarray, slots) -> np.ndarray:
    """Of halves, with neighbouring lags of one source counted together."""
    together = graphs.copy()
    together[..., 1:] |= graphs[..., :-1]
    together[..., :-1] |= graphs[..., 1:]
    share = together.mean(axis=0)
    dim = graphs.shape[1]
    candidate = np.zeros(graphs.shape[1:], bool)
    for j, slot in enumerate(slots):
        candidate[slot % dim, j, slot // dim] = True
    return np.where(candidate, share, np.nan)


def _valid(windows) -> np.ndarray:
    return np.asarray(windows.valid)
