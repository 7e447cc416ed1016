"""Where a drift leads within one step of the simulator, from every sample of the record."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ._between import stages
from ._rows import WITHIN, Rows

# "heun": the mean of the rates at both ends, the present at the end predicted. "hold": the same
# with the present held, for maps. "flow": finer than the sampling, the past read between samples.
KINDS = ("heun", "hold", "flow")
Drift = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """What a step sees: histories `[row lag dim]` and their weights in its mean."""

    histories: tuple[np.ndarray, ...]
    weights: tuple[float, ...]

    def mean(self, function: Drift) -> np.ndarray:
        """Of a function of histories, over a step."""
        parts = zip(self.weights, self.histories, strict=True)
        return np.sum([w * function(z) for w, z in parts], axis=0)


def lead(
    drift: Drift, rows: Rows, lags: Sequence[int], dt: float, step: str
) -> tuple[Quadrature, np.ndarray]:
    """What a step sees, and the mean rate of it, `[row dim]`."""
    lags = tuple(lags)
    present = lags.index(0) if 0 in lags else None

    def at(histories, state):
        if present is None:
            return histories
        histories = histories.copy()
        histories[:, present] = state
        return histories

    if step != "flow":
        first = drift(rows.start)
        path = Quadrature(
            (rows.start, at(rows.end, rows.now + (step == "heun") * dt * first)), (0.5, 0.5)
        )
        return path, (first + drift(path.histories[1])) / 2
    # The past at the shares of a step that its stages ask for.
    past = {0.0: rows.start, 1.0: rows.end} | {s: rows.between[:, i] for i, s in enumerate(WITHIN)}
    begin, state, gone = rows.now, rows.now, np.zeros_like(rows.now)
    seen = []
    for s, on, weight, last in stages():
        rate = drift(at(past[s], state))
        gone = gone + dt * weight * rate
        seen.append(state)
        if last:
            begin = rows.now + gone
        state = begin + dt * on * rate
    states = (rows.now, seen[len(seen) // 2], rows.now + gone)
    path = Quadrature(
        tuple(at(past[s], x) for s, x in zip((0.0, 0.5, 1.0), states, strict=True)),
        (1 / 6, 2 / 3, 1 / 6),
    )
    return path, gone / dt
