"""Steps of the record: what a simulator has at hand before each, and where it leads."""

import dataclasses
from typing import Any

import numpy as np

from ..samples._samples import Samples
from ._between import NODES, nodes, weights

MOST_ROWS = 20_000
# Shares of a step between its ends at which a finer one asks for the past.
WITHIN = (0.25, 0.5, 0.75)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Pairs of neighbouring samples with the past that a step from one to the next reads.

    - `start`: states at the lags, seen from sample k, `[row lag dim]`.
    - `end`: the same seen from sample k + 1, except that the present is for the caller to predict.
    - `now`, `next`: samples k and k + 1, `[row dim]`.
    - `position`: k, later trajectories counting on with a gap; ascending.
    - `between`: states at the lags, seen from a quarter, half and three quarters of the way from
        sample k to the next, `[row 3 lag dim]`; the present is for the caller to find.
    """

    start: np.ndarray
    end: np.ndarray
    now: np.ndarray
    next: np.ndarray
    position: np.ndarray
    between: np.ndarray

    def __len__(self) -> int:
        return len(self.now)


def step_rows(found: Any) -> Rows:
    """All steps whose samples were measured and which begin in the mask, if there is one.

    **Raises:** `ValueError` for irregular sampling.
    """
    check_regular(found.samples)
    lags = np.asarray(found.lags)
    parts, begin = [], 0
    masks = found.samples.mask or (None,) * len(found.samples.values)
    for values, inside in zip(found.samples.values, masks, strict=True):
        values = np.asarray(values, np.float64)
        k = np.arange(lags[-1], len(values) - 1)
        start = values[k[:, None] - lags[None]]
        end = values[k[:, None] + 1 - lags[None]]
        usable = np.isfinite(start).all((1, 2)) & np.isfinite(end).all((1, 2))
        usable &= np.isfinite(values[k]).all(1) & np.isfinite(values[k + 1]).all(1)
        if inside is not None:
            usable &= inside[k]
        k = k[usable]
        parts.append(
            (
                start[usable],
                end[usable],
                values[k],
                values[k + 1],
                begin + k,
                _between(values, k, lags),
            )
        )
        begin += len(values) + 2 * int(lags[-1]) + 10
    rows = Rows(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if len(rows) > MOST_ROWS:
        every = -(-len(rows) // MOST_ROWS)
        rows = Rows(*(getattr(rows, f.name)[::every] for f in dataclasses.fields(rows)))
    return rows


def check_regular(samples: Samples) -> None:
    """Steps are as long as the lags say only between equally spaced samples."""
    if not samples.regular:
        raise ValueError(
            "forecasts, effects, interventions and imputation need equally spaced samples: the "
            "lags of this discovery have no fixed length in time. Interpolate to a regular grid "
            "and discover again."
        )


def _between(values: np.ndarray, k: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """States at the lags, seen from within steps, `[row 3 lag dim]`; straight lines where the
    samples around are missing.
    """
    place = k[:, None] - lags[None]
    count = min(NODES, int(lags[-1]) + 1)
    first = nodes(place, k[:, None], np, count)
    found = np.empty((len(k), len(WITHIN), len(lags), values.shape[1]))
    for i, s in enumerate(WITHIN):
        shares = weights(place, first, s, count)
        cubic = sum(w[..., None] * values[first + a] for a, w in enumerate(shares))
        line = (1 - s) * values[place] + s * values[place + 1]
        found[:, i] = np.where(np.isfinite(cubic), cubic, line)
    return found
