"""One step of the simulator, and the samples of the record that it reads.

States between samples follow a cubic through the four surrounding samples (Lagrange), one-sided at
the present and at the start of the past. A variable that jumps because it is set is interpolated
linearly up to the jump.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from ..samples._samples import Samples
from ..select._partial import completed
from ..simulate._problem import lagrange_weights

MOST_ROWS = 20_000
# Nodes of the cubic.
NODES = 4
# Stages of a step: the share of the step at which the drift is evaluated, the distance to the next
# stage along this rate, the weight of the rate, and whether the next stage restarts from the
# progress so far. "heun": the mean of the rates at both ends, with the present at the end
# predicted. "map": the rate at the start, which is all that a map reads. "flow": finer than the
# sampling, with the past read between samples: two parts, each by the classical fourth-order
# Runge-Kutta method. One part is too coarse if the present moves far within a step; four gave the
# same as two on every delayed system tried.
_RUNGE_KUTTA = (
    (0.0, 0.5, 1 / 6, 0.0),
    (0.5, 0.5, 1 / 3, 0.0),
    (0.5, 1.0, 1 / 3, 0.0),
    (1.0, 0.0, 1 / 6, 1.0),
)
_STAGES = {
    "heun": ((0.0, 1.0, 1 / 2, 0.0), (1.0, 0.0, 1 / 2, 1.0)),
    "map": ((0.0, 0.0, 1.0, 1.0),),
    "flow": tuple(
        ((part + time) / 2, on / 2, weight / 2, anew)
        for part in (0, 1)
        for time, on, weight, anew in _RUNGE_KUTTA
    ),
}
KINDS = tuple(_STAGES)
# Shares of a step after its start at which its stages read the past, and those used for a mean over
# the step, with their weights.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
_MEANS = {
    "heun": ((0.0, 1.0), (1 / 2, 1 / 2)),
    "map": ((0.0,), (1.0,)),
    "flow": ((0.0, 0.5, 1.0), (1 / 6, 2 / 3, 1 / 6)),
}
Drift = Callable[[np.ndarray], np.ndarray]


def nodes(place: Any, newest: Any, xp: Any, count: int) -> Any:
    """Return the first of the `count` samples around the interval that begins at sample `place`;
    for a count of 1, as without a past, that sample.
    """
    return xp.clip(place - int(count > 1), 0, newest - count + 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The pairs of neighbouring samples with the past that a step from one to the next reads.

    - `past`: states at the lags, seen from each of the `SHARES` of the way from sample k to the
        next, `[row share lag dim]`; the caller finds the present.
    - `now`, `next`: samples k and k + 1, `[row dim]`.
    - `position`: k, ascending; later trajectories continue the count after a gap.
    """

    past: Float[np.ndarray, "row share lag dim"]
    now: Float[np.ndarray, "row dim"]
    next: Float[np.ndarray, "row dim"]
    position: Int[np.ndarray, "row"]

    def __len__(self) -> int:
        return len(self.now)

    @property
    def start(self) -> Float[np.ndarray, "row lag dim"]:
        """The states at the lags, seen from sample k."""
        return self.past[:, 0]

    def are_of(self, found: Any) -> bool:
        """Return whether these are steps of the samples of a discovery, at its lags."""
        lags, values = np.asarray(found.lags), samples_of(found).values
        spare = ((0, _gap_between_recordings(lags)), (0, 0))
        states = np.concatenate([np.pad(np.asarray(x, np.float64), spare) for x in values])
        if self.start.shape[1:] != (len(lags), states.shape[1]) or len(states) < self.position[-1]:
            return False
        past = states[self.position[:, None] - lags[None]]
        return np.array_equal(past, self.start) and np.array_equal(
            states[self.position + 1], self.next
        )


def samples_of(found: Any) -> Samples:
    """Return the samples of a discovery; if few windows are complete, with the estimates that it
    started from.
    """
    more = None if found.windows.partial is None else completed(found.samples, found.lags)
    return found.samples if more is None else more.samples


def _gap_between_recordings(lags: Any) -> int:
    """Return the number of positions skipped between recordings, more than a step reads."""
    return 2 * int(lags[-1]) + 10


def step_rows(found: Any) -> Rows:
    """Return all steps with complete samples that begin inside the mask, if there is one.

    **Raises:** `ValueError` for irregular sampling.
    """
    check_regular(found.samples)
    lags, samples = np.asarray(found.lags), samples_of(found)
    parts, begin = [], 0
    masks = samples.mask or (None,) * len(samples.values)
    for values, inside in zip(samples.values, masks, strict=True):
        values = np.asarray(values, np.float64)
        k = np.arange(lags[-1], len(values) - 1)
        at = np.concatenate([k[:, None] - lags, k[:, None] + 1 - lags, k[:, None] + [0, 1]], axis=1)
        usable = np.isfinite(values[at]).all((1, 2))
        k = k[usable if inside is None else usable & inside[k]]
        parts.append((_pasts(values, k, lags), values[k], values[k + 1], begin + k))
        begin += len(values) + _gap_between_recordings(lags)
    every = -(-sum(len(part[0]) for part in parts) // MOST_ROWS) or 1
    return Rows(*(np.concatenate(part)[::every] for part in zip(*parts, strict=True)))


def check_regular(samples: Samples) -> None:
    """Raise an error for irregular samples, in which lags have no fixed length in time."""
    if not samples.regular:
        raise ValueError(
            "forecasts, effects, interventions and imputation need equally spaced samples: the "
            "lags of this discovery have no fixed length in time. Interpolate to a regular grid "
            "and discover again."
        )


def _pasts(
    values: Float[np.ndarray, "time dim"], k: Int[np.ndarray, "row"], lags: Int[np.ndarray, "lag"]
) -> Float[np.ndarray, "row share lag dim"]:
    """Return states at the lags, seen from within steps; interpolated linearly if surrounding
    samples are missing.
    """
    place = k[:, None] - lags[None]
    count = min(NODES, int(lags[-1]) + 1)
    first = nodes(place, k[:, None], np, count)
    found = np.empty((len(k), len(SHARES), len(lags), values.shape[1]))
    for i, s in enumerate(SHARES):
        shares = lagrange_weights(place - first + s, count)
        cubic = sum(w[..., None] * values[first + a] for a, w in enumerate(shares))
        line = (1 - s) * values[place] + s * values[place + 1]
        found[:, i] = np.where(np.isfinite(cubic), cubic, line)
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class Quadrature:
    """The quadrature points of a step: histories `[row lag dim]` and their weights in its mean."""

    histories: tuple[np.ndarray, ...]
    weights: tuple[float, ...]

    def mean(self, function: Drift) -> np.ndarray:
        """Return the mean of a function of histories over a step."""
        parts = zip(self.weights, self.histories, strict=True)
        return np.sum([w * function(z) for w, z in parts], axis=0)


def quadrature(
    drift: Drift,
    rows: Rows,
    lags: Sequence[int],
    dt: float,
    step: str,
    given: Bool[np.ndarray, "dim"] | None = None,
) -> tuple[Quadrature, np.ndarray]:
    """Return the quadrature points of each step, and its mean rate, `[row dim]`.

    `given` variables move from one sample to the next on a line, as the simulator moves those with
    known values, and the others by the drift.
    """
    # Of several stages at one time, the last is the best.
    lags, states = tuple(lags), dict[float, np.ndarray]()

    def moved(share, state):
        if given is None or step == "map":
            return state
        return np.where(given, rows.now + share * (rows.next - rows.now), state)

    def at(share):
        histories = rows.past[:, SHARES.index(share)].copy()
        if 0 in lags:
            histories[:, lags.index(0)] = states[share]
        return histories

    def rate(share, state):
        states[share] = moved(share, state)
        return drift(at(share))

    mean = mean_rate(rate, rows.now, dt, step, np)
    if step == "flow":
        states[1.0] = moved(1.0, rows.now + dt * mean)
    shares, weights = _MEANS[step]
    return Quadrature(tuple(map(at, shares)), weights), mean


def mean_rate(rate: Callable, now: Any, dt: Any, step: str, xp: Any) -> Any:
    """Return the mean rate over a step of the simulator, `[row dim]`, in NumPy or JAX.

    - `rate`: the drift at a share of the step after its start, for a given present state.
    - `now`: states at the start.
    """

    def stage(carry, given):
        begin, state, gone = carry
        s, on, weight, anew = given
        slope = rate(s, state)
        gone = gone + dt * weight * slope
        begin = xp.where(anew > 0, now + gone, begin)
        return (begin, begin + dt * on * slope, gone), None

    carry, table = (now, now, xp.zeros_like(now)), np.array(_STAGES[step])
    if xp is np:
        for row in table:
            carry, _ = stage(carry, row)
    else:  # a loop, so that the drift is compiled once
        carry, _ = jax.lax.scan(stage, carry, tuple(xp.asarray(table, now.dtype).T))
    return carry[2] / dt
