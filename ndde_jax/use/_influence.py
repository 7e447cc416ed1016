"""Which stretches of a record decide an edge."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from .._checks import shown
from ..fit._risk import window_loss
from ..select._spline_fit import fit_splines
from ..windows._windows import Windows
from ._arguments import inputs_of, kept_lags, variable


@dataclasses.dataclass(frozen=True)
class Influence:
    """What each window does for an edge; NumPy; made by `found.influence`.

    - `value`: what each window adds to the strength of the edge, `[row]`: what its error rises by
        without the edge, times its weight. They sum up to the strength; negative where a window
        speaks against the edge.
    - `drop`: by how much the strength would fall if a window were left out and all else fitted
        again, to first order in its weight (the derivative of a minimum is that at fixed numbers).
    - `strength`: of the edge on these windows, a share of the variance of its target's rate: the
        rise of the mean squared error when it is left out and splines are fitted again. In-sample,
        so a little above `found.scores`.
    - `time`: when a window is the present, in the unit of the data, `[row]`; `trajectory`: of which
        recording, `[row]`.
    """

    value: Float[np.ndarray, "row"]
    drop: Float[np.ndarray, "row"]
    strength: float
    time: Float[np.ndarray, "row"]
    trajectory: Int[np.ndarray, "row"]
    edge: tuple[str, str, tuple[int, ...]]

    def largest(self, share: float = 0.5) -> Float[np.ndarray, "moment"]:
        """The fewest times that together make up a share of what speaks for the edge, ascending.

        **Raises:** `ValueError` for a share outside 0 to 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie in [0, 1]; got {shown(share)}.")
        speaks = np.maximum(self.value, 0)
        order = np.argsort(-speaks)
        enough = np.searchsorted(np.cumsum(speaks[order]), share * speaks.sum()) + 1
        return np.sort(self.time[order[:enough]])

    def to_frame(self):
        """A pandas DataFrame with a row per window: trajectory, time, value; needs pandas."""
        import pandas as pd

        names = ("trajectory", "time", "value", "drop")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        source, target, lags = self.edge
        at = ", ".join(map(str, lags))
        few = len(self.largest())
        return (
            f"Influence on {source} -> {target} at lag {at}: strength {self.strength:.3g}; "
            f"{few} of {len(self.value)} windows make up half of what speaks for it"
        )


def influence(found: Any, source: Any, target: Any, lag: Any) -> Influence:
    """As `found.influence` says."""
    i, j = variable(source, found, "a source"), variable(target, found, "a target")
    reads = np.asarray(found.reads)
    slots = kept_lags(found, i, j, lag, "lag", "nothing decides it")
    without = reads.copy()
    without[i, j] &= ~np.any([inputs_of(found, i, j, int(a)) for a in slots], axis=0)
    windows = found.windows
    weight = np.asarray(windows.weight, np.float64)
    weight = weight / weight.sum()
    gain = _losses(windows, without)[:, j] - _losses(windows, reads)[:, j]
    used = weight > 0
    strength = float(weight[used] @ gain[used])
    # Leaving a window out raises the weights of the others.
    drop = weight * (gain - strength) / (1 - weight)
    trajectory, time = _when(found, windows)
    lags = tuple(int(found.lags[a]) for a in slots)
    edge = (found.names[i], found.names[j], lags)
    value = weight * gain
    return Influence(value[used], drop[used], strength, time[used], trajectory[used], edge)


def _losses(windows: Windows, graph: np.ndarray) -> np.ndarray:
    """Squared errors of every window, `[row target]`, of splines on a graph."""
    model = fit_splines(windows, graph)
    loss = jax.vmap(lambda past, rate: window_loss(model, past, rate, scaling=windows.scaling))
    return np.asarray(loss(windows.history, windows.increment), np.float64)


def _when(found: Any, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Trajectory and time of every window: trajectories have as many windows less than samples."""
    position, lengths = np.asarray(windows.position), [len(v) for v in found.samples.values]
    less = (sum(lengths) - len(position)) // len(lengths)
    trajectory = np.repeat(np.arange(len(lengths)), [n - less for n in lengths])
    first = np.cumsum([0, *(n - less for n in lengths[:-1])])
    sample = position - position[first][trajectory] + position[0]
    time = np.empty(len(position))
    for m, times in enumerate(found.samples.times):
        time[trajectory == m] = np.asarray(times, float)[sample[trajectory == m]]
    return trajectory, time
