"""Accumulated local effects: response curves of sources, and interactions of two.

Within slices of a source, what a change from one end to the other does to a rate, all else as it
was measured there, summed up and centred (Apley and Zhu, *JRSS B* 82 (2020), 1059).
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._spoken import percent
from ..models._model import model_rates
from ._arguments import inputs_of
from ._ensemble import Ensemble

# Slices of each source of a surface.
POINTS = 8
# Rows that averages are taken over, spread evenly over the record; their error is far below that of
# the ensemble.
MOST_ROWS = 1000
# Two-sided 90 %.
WIDE = 1.6449


def histories_of(ensemble: Ensemble) -> Float[np.ndarray, "row lag dim"]:
    """Return at most so many histories of the record."""
    start = ensemble.rows.start
    return start[np.unique(np.linspace(0, len(start) - 1, MOST_ROWS).astype(int))]


def rates_of(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the physical rates of a model as a function of histories, `[row dim]`."""
    return lambda histories: model_rates(model, histories, model.dt.dtype)


def moved(histories: np.ndarray, inputs: np.ndarray, i: int, a: int, values: np.ndarray):
    """Return histories where a source at one lag takes other values; all inputs read for the same
    edge, `inputs` `[lag]`, move with it.
    """
    z = histories.copy()
    z[:, inputs, i] += (values - histories[:, a, i])[:, None]
    return z


def slices(values: np.ndarray, points: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of slices with equally many values each `[slice+1]`, and the slice of each
    value.

    **Raises:** `ValueError` for fewer than three different ends.
    """
    edges = np.unique(np.quantile(values, np.linspace(0, 1, points + 1)))
    if len(edges) < 3:
        raise ValueError(f"{name} takes too few different values for a curve: {len(edges)}.")
    slot = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return edges, slot


def slice_means(values: np.ndarray, slot: np.ndarray, count: int) -> np.ndarray:
    """Return means of the rows of each of so many slices, `[slice ...]`; 0 in empty ones."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, slot, values)
    return sums / np.maximum(np.bincount(slot, minlength=count), 1)[:, None]


def by_model(own: np.ndarray, columns: np.ndarray, ensemble: Ensemble, target: int) -> np.ndarray:
    """Return a linear functional of the drift, of the learned model, of the centre of the ensemble
    and of its members, `[... model]`, from its values for the model alone `[...]` and for the
    columns `[... feature]`.
    """
    theta = np.concatenate([ensemble.center[None, target], ensemble.theta[:, target]])
    steps = ensemble.trust[target] * own[..., None] + columns @ theta.T
    first = own[..., None] if ensemble.own[target] else steps[..., :1]
    return np.concatenate([first, steps], axis=-1)


def center_and_spread(
    found: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimate and half the width of a 90 % interval, from one quantity of the learned
    model, of the centre of the ensemble, and of its members, along the first axis; and from its
    differences between bootstrap models and the learned model, `[echo ...]`.

    Members spread about their centre as estimates from other records would. That centre is fitted
    to steps instead of rates, with other functions: its distance from the model shows the
    uncertainty that comes from neither the record's length nor the graph. The bootstrap shows the
    bias of the estimator.
    """
    model, center, members = found[0], found[1], found[2:]
    variance = np.mean((members - center[None]) ** 2, axis=0) + (center - model) ** 2
    if bias is not None and len(bias):
        variance = variance + np.mean(bias, axis=0) ** 2
    return model, WIDE * np.sqrt(variance)


# ---- one source ----


def curve(effects: Any, i: int, j: int, a: int, points: int) -> tuple[np.ndarray, ...]:
    """Return x, y and the ends of a 90 % interval of y along one edge, `[point]`."""
    found, ensemble, histories = effects.found, effects.ensemble, histories_of(effects.ensemble)
    edges, slot = slices(histories[:, a, i], points, found.samples.labels[i])
    inputs, count = inputs_of(found, i, j, a), np.bincount(slot, minlength=len(edges) - 1)
    low, high = (moved(histories, inputs, i, a, ends[slot]) for ends in (edges[:-1], edges[1:]))

    def steps(function):
        """Return the mean change of a function from one end of each slice to the other,
        `[slice ...]`.
        """
        return slice_means(function(high) - function(low), slot, len(count))

    def accumulated(steps):
        """Return sums of steps, centred over the data, `[... point]`."""
        curves = np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
        middle = (curves[1:] + curves[:-1]) / 2
        return (curves - (count @ middle / count.sum())[None]).T

    own = steps(rates_of(found.model))[:, j]
    curves = accumulated(by_model(own, steps(ensemble.basis), ensemble, j))
    echoed = [steps(rates_of(echo))[:, j] - own for echo in effects.echoes]
    y, spread = center_and_spread(curves, accumulated(np.stack(echoed, 1)) if echoed else None)
    return edges, y, y - spread, y + spread


# ---- two sources ----


@dataclasses.dataclass(frozen=True)
class Surface:
    """The joint effect of two sources on a rate, beyond their own curves; NumPy; made by
    [`Effects.surface`][ndde_jax.use.Effects.surface].

    - `x`, `y`: ends of the slices of the first and of the second source, physical units.
    - `z`: mean of the interaction over the corners of every cell, units of the target per unit of
        time; NaN where no data are.
    - `low`, `high`: 90 % interval of it, the choice of the graph included.
    - `count`: rows of the data in every cell; where it is 0, `z` is NaN.
    - `share`: of the variance of the target's rate, as measured, that the interaction carries over
        the data: on the scale of the `scores` of edges. `share_low` and `share_high` are a 90 %
        interval.
    - `first`, `second`: name and lag of the sources; `target`: name.
    """

    x: Float[np.ndarray, "first_end"]
    y: Float[np.ndarray, "second_end"]
    z: Float[np.ndarray, "first second"]
    low: Float[np.ndarray, "first second"]
    high: Float[np.ndarray, "first second"]
    count: Int[np.ndarray, "first second"]
    share: float
    share_low: float
    share_high: float
    first: tuple[str, int]
    second: tuple[str, int]
    target: str
    time_unit: str = ""

    def plot(self):
        """Return a matplotlib Figure; needs matplotlib."""
        from ..plot import plot_surface

        return plot_surface(self)

    def __repr__(self) -> str:
        empty, cells = int((self.count == 0).sum()), self.count.size
        return (
            f"{said(*self.first)} with {said(*self.second)} on the rate of {self.target}: "
            f"{percent(self.share, 1)} of its variance ({percent(self.share_low, 1)} to "
            f"{percent(self.share_high, 1)}); "
            f"{empty} of {cells} cells hold no data"
        )


@dataclasses.dataclass(frozen=True)
class Interactions:
    """The interactions of pairs of kept inputs of one target; made by
    [`Effects.interactions`][ndde_jax.use.Effects.interactions].

    A sequence of rows (`columns` names them), the largest `share` first; see
    [`Surface`][ndde_jax.use.Surface]. A pair of which one takes too few values for slices has NaN
    for shares and comes last.
    """

    table: tuple[tuple, ...]
    effects: Any = dataclasses.field(repr=False)

    columns = (
        *("first", "first_lag", "second", "second_lag", "target"),
        *("share", "low", "high"),
    )

    def rows(self) -> list[tuple]:
        """Return the rows of `to_frame` as tuples."""
        return list(self.table)

    def to_frame(self):
        """Return a pandas DataFrame with a row for each pair."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    def above(self, share: float) -> list[tuple]:
        """Return the rows of pairs that carry more than this share."""
        return [row for row in self.table if row[5] > share]

    def plot(self):
        """Return a matplotlib Figure with the largest surfaces; needs matplotlib."""
        from ..plot import plot_interactions

        return plot_interactions(self)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        lines = [f"Interactions of {len(self)} pairs: shares of a rate that only both explain"]
        for first, a, second, b, target, share, low, high in self.table[:8]:
            lines.append(
                f"  {said(first, a)} with {said(second, b)} -> {target}  {percent(share, 1)} "
                f"({percent(low, 1)} to {percent(high, 1)})"
            )
        if len(self) > 8:
            lines.append(f"  and {len(self) - 8} more")
        return "\n".join(lines)


def said(name: str, lag: int) -> str:
    """Return a source at its lag, in words."""
    return f"{name}@{lag}" if lag else name


def surface(effects: Any, first: tuple, second: tuple, target: int, points: int) -> Surface:
    """Return the surface of two different kept inputs, each (variable, position of its lag)."""
    return _surfaces(effects, first, second, [target], points)[0]


def interactions(effects: Any, points: int = POINTS) -> Interactions:
    """Return the shares of all pairs; targets that share a pair share its evaluations."""
    graph, names, lags = effects.graph, effects.found.samples.labels, effects.found.lags
    targets: dict[tuple, list[int]] = {}
    for j in range(graph.shape[1]):
        kept = [(int(i), int(a)) for i, a in np.argwhere(graph[:, j])]
        for pair in itertools.combinations(kept, 2):
            read = b"".join(inputs_of(effects.found, i, j, a).tobytes() for i, a in pair)
            targets.setdefault((*pair, read), []).append(j)
    rows = []
    for (first, second, _), of in targets.items():
        try:
            found = _surfaces(effects, first, second, of, points)
            shares = [(s.share, s.share_low, s.share_high) for s in found]
        except ValueError:  # too few different values: there are no slices, and NaN says so
            shares = [(np.nan,) * 3] * len(of)
        ends = [(names[i], int(lags[a])) for i, a in (first, second)]
        rows += [(*ends[0], *ends[1], names[j], *s) for j, s in zip(of, shares, strict=True)]
    rows.sort(key=lambda row: -np.nan_to_num(row[5], nan=-1))
    return Interactions(tuple(rows), effects)


def _surfaces(effects, first, second, targets, points) -> list[Surface]:
    """Return the surfaces of targets for which the model reads the same inputs."""
    found, ensemble = effects.found, effects.ensemble
    histories, labels = histories_of(ensemble), found.samples.labels
    source = [(labels[i], int(found.lags[a])) for i, a in (first, second)]
    values = (histories[:, a, i] for i, a in (first, second))
    grid = Grid(*values, points, *(said(*each) for each in source))

    def at(u, v):
        z = histories
        for (i, a), ends in ((first, u), (second, v)):
            z = moved(z, inputs_of(found, i, targets[0], a), i, a, ends)
        return z

    (low, high), (left, right) = grid.ends(0), grid.ends(1)
    corners = [at(high, right), at(high, left), at(low, right), at(low, left)]

    def mixed(function):
        """Return the mixed difference: how much more a change of the first matters at the upper end
        of the second.
        """
        c = [function(z) for z in corners]
        return grid.mean(c[0] - c[1] - c[2] + c[3])  # [first second dim or feature]

    rates, columns = mixed(rates_of(found.model)), mixed(ensemble.basis)
    variance = np.asarray(found.windows.scaling.rate_scale, np.float64) ** 2
    made = []
    for j in targets:
        nodes = grid.interaction(by_model(rates[..., j], columns, ensemble, j))
        z, spread = center_and_spread(np.moveaxis(_cells(nodes), -1, 0))
        z = np.where(grid.count > 0, z, np.nan)
        shares = _shares(grid.at_rows(nodes).T) / variance[j]
        share, low_share, high_share = map(float, shares)
        made.append(
            Surface(
                x=grid.edges[0], y=grid.edges[1], z=z, low=z - spread, high=z + spread,
                count=grid.count, share=share, share_low=low_share, share_high=high_share,
                first=source[0], second=source[1], target=labels[j], time_unit=found.time_unit,
            )
        )  # fmt: skip
    return made


def _shares(values: np.ndarray) -> np.ndarray:
    """Return the variance that surfaces carry and its 90 % interval, of values `[model row]`.

    The interval is that of the size along the surface itself: sizes of members would all be above
    zero, even without an interaction.
    """
    size = np.sqrt(np.mean(values[0] ** 2))
    if size == 0:
        members = np.mean(values[1:] ** 2)
        return np.array([0.0, 0.0, WIDE**2 * members])
    along = values @ values[0] / (len(values[0]) * size)
    (middle,), (spread,) = center_and_spread(along[:, None])
    return np.array([middle, max(middle - spread, 0.0), middle + spread]) ** 2


class Grid:
    """A grid of slices of two sources, and the rows in its cells."""

    def __init__(self, x: np.ndarray, y: np.ndarray, points: int, *names: str):
        made = [slices(v, points, name) for v, name in zip((x, y), names, strict=True)]
        self.edges = [edges for edges, _ in made]
        self.slots = [slot for _, slot in made]
        # Where in its slice a row lies, from 0 to 1.
        self.within = [
            np.clip((v - e[s]) / (e[s + 1] - e[s]), 0, 1)
            for v, e, s in zip((x, y), self.edges, self.slots, strict=True)
        ]
        self.shape = tuple(len(e) - 1 for e in self.edges)
        flat = np.ravel_multi_index(self.slots, self.shape)
        self.count = np.bincount(flat, minlength=np.prod(self.shape)).reshape(self.shape)
        self._flat = flat

    def ends(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper end of the slice of every row."""
        edges, slot = self.edges[axis], self.slots[axis]
        return edges[slot], edges[slot + 1]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return means over the rows of every cell, `[first second ...]` of `[row ...]`; an empty
        cell takes the mean of the nearest that are not, as sums across it need a number.
        """
        means = slice_means(values, self._flat, self.count.size)
        at = np.stack(list(np.indices(self.shape)), axis=-1).reshape(-1, 2)
        full, empty = np.flatnonzero(self.count.ravel()), np.flatnonzero(self.count.ravel() == 0)
        far = ((at[empty, None] - at[None, full]) ** 2).sum(axis=-1)
        nearest = far == far.min(axis=1, keepdims=True)
        means[empty] = nearest @ means[full] / nearest.sum(axis=1, keepdims=True)
        return means.reshape(*self.shape, -1)

    def interaction(self, mixed: np.ndarray) -> np.ndarray:
        """Return second-order accumulated local effects at the corners of all cells,
        `[first+1 second+1 ...]`, from mixed differences: summed up, less the effect of each source
        alone over the data, centred. All of it is linear in the differences.
        """
        nodes = np.zeros((self.shape[0] + 1, self.shape[1] + 1, *mixed.shape[2:]))
        nodes[1:, 1:] = mixed.cumsum(axis=0).cumsum(axis=1)
        alone = [self._alone(nodes, axis) for axis in (0, 1)]
        nodes = nodes - alone[0][:, None] - alone[1][None]
        return nodes - self.at_rows(nodes).mean(axis=0)[None, None]

    def _alone(self, nodes: np.ndarray, axis: int) -> np.ndarray:
        """Return first-order accumulated local effects of a surface along one source."""
        (s, t), v = (self.slots[axis], self.slots[1 - axis]), self.within[1 - axis]
        nodes = np.moveaxis(nodes, axis, 0)
        change = nodes[1:] - nodes[:-1]
        here = (1 - v)[:, None] * change[s, t] + v[:, None] * change[s, t + 1]
        steps = slice_means(here, s, len(change))
        return np.concatenate([np.zeros((1, nodes.shape[2])), steps.cumsum(axis=0)])

    def at_rows(self, nodes: np.ndarray) -> np.ndarray:
        """Return a surface interpolated between its corners to the data, `[row ...]`."""
        (s, t), (u, v) = self.slots, (w[:, None] for w in self.within)
        low = (1 - v) * nodes[s, t] + v * nodes[s, t + 1]
        high = (1 - v) * nodes[s + 1, t] + v * nodes[s + 1, t + 1]
        return (1 - u) * low + u * high


def _cells(nodes: np.ndarray) -> np.ndarray:
    """Return means over the four corners of every cell."""
    return (nodes[1:, 1:] + nodes[1:, :-1] + nodes[:-1, 1:] + nodes[:-1, :-1]) / 4
