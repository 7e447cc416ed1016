"""Where products matter: what two sources do together that neither does alone."""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .._spoken import percent
from ._inputs import inputs_of
from ._slices import (
    WIDE,
    as_jax,
    by_model,
    cast_basis,
    center_and_spread,
    histories_of,
    slices,
)

POINTS = 8


@dataclasses.dataclass(frozen=True)
class Surface:
    """What two sources do to a rate together, beyond their own curves; NumPy; made by
    [`Effects.surface`][ndde_jax.use.Effects.surface].

    - `x`, `y`: ends of the slices of the first and of the second source, physical units.
    - `z`: mean of the interaction over the corners of every cell, units of the target per unit of
        time; NaN where no data are.
    - `low`, `high`: 90 % interval of it, the choice of the graph included.
    - `count`: rows of the data in every cell; 0 says why `z` is NaN.
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
        """A matplotlib Figure; needs matplotlib."""
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
    """Pairs of kept inputs of one target, by what they do together; made by
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
        """What `to_frame` shows, without pandas."""
        return list(self.table)

    def to_frame(self):
        """A pandas DataFrame with a row for each pair; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    def above(self, share: float) -> list[tuple]:
        """Rows of pairs that carry more than this share."""
        return [row for row in self.table if row[5] > share]

    def plot(self):
        """A matplotlib Figure with the surfaces of the largest; needs matplotlib."""
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
    """A source at its lag, as the words of effects have it."""
    return f"{name}@{lag}" if lag else name


def surface(effects: Any, first: tuple, second: tuple, target: int, points: int) -> Surface:
    """Of two different kept inputs, each (variable, position of its lag)."""
    return _surfaces(effects, first, second, [target], points)[0]


def interactions(effects: Any, points: int = POINTS) -> Interactions:
    """Of all pairs; targets that share a pair share its evaluations."""
    graph, names, lags = effects.graph, effects.found.samples.labels, effects.found.lags
    targets: dict[tuple, list[int]] = {}
    for j in range(graph.shape[1]):
        kept = [(int(i), int(a)) for i, a in np.argwhere(graph[:, j])]
        for pair in itertools.combinations(kept, 2):
            read = b"".join(_inputs(effects, end, j).tobytes() for end in pair)
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


def _inputs(effects, end: tuple[int, int], target: int) -> np.ndarray:
    """What is read for an edge, `[lag]`."""
    return inputs_of(effects.found, end[0], target, end[1])


def _surfaces(effects, first, second, targets, points) -> list[Surface]:
    """Of targets for which the model reads the same."""
    found, ensemble = effects.found, effects.ensemble
    model, basis = found.model, cast_basis(ensemble.basis, found.model)
    histories, labels = histories_of(ensemble), found.samples.labels
    grid = Grid(
        *(histories[:, a, i] for i, a in (first, second)),
        points,
        *(said(labels[i], found.lags[a]) for i, a in (first, second)),
    )
    place = jnp.asarray([*first, *second])
    inputs = np.stack([_inputs(effects, end, targets[0]) for end in (first, second)])
    inputs = as_jax(inputs, model)
    ends = as_jax(np.stack([*grid.ends(0), *grid.ends(1)]), model)
    rates, columns = (
        np.asarray(part, np.float64)
        for part in _corners(model, basis, as_jax(histories, model), place, inputs, ends)
    )
    rates, columns = (c[0] - c[1] - c[2] + c[3] for c in (rates, columns))
    rates, columns = grid.mean(rates), grid.mean(columns)  # [first second dim or feature]
    variance = np.asarray(found.windows.scaling.rate_scale, np.float64) ** 2
    made = []
    for j in targets:
        nodes = grid.interaction(by_model(rates[..., j], columns, ensemble, j))
        z, spread = center_and_spread(np.moveaxis(_cells(nodes), -1, 0))
        z = np.where(grid.count > 0, z, np.nan)
        shares = _shares(grid.at_rows(nodes).T) / variance[j]
        values = (z, z - spread, z + spread, grid.count, *map(float, shares))
        source = [(labels[i], int(found.lags[a])) for i, a in (first, second)]
        names = (*source, labels[j], found.time_unit)
        made.append(Surface(*grid.edges, *values, *names))
    return made


def _shares(values: np.ndarray) -> np.ndarray:
    """Variance that surfaces carry and its 90 % interval, from their values `[model row]`.

    The interval is that of the size along the surface itself: sizes of members would all be above
    zero, whatever is behind them.
    """
    size = np.sqrt(np.mean(values[0] ** 2))
    if size == 0:
        members = np.mean(values[1:] ** 2)
        return np.array([0.0, 0.0, WIDE**2 * members])
    along = values @ values[0] / (len(values[0]) * size)
    (middle,), (spread,) = center_and_spread(along[:, None])
    return np.array([middle, max(middle - spread, 0.0), middle + spread]) ** 2


@eqx.filter_jit
def _corners(model, basis, histories, place, inputs, ends):
    """Rates and columns of all rows at the corners of their cells: both sources at the upper ends
    of their slices, the second at its lower, the first at its lower, both; `ends` are lower and
    upper ones of the first, then of the second, `[4 row]`. All `inputs` of a source, `[2 lag]`,
    move with it.
    """
    i, a, k, b = place

    def at(u, v):
        z = histories.at[:, :, i].add(inputs[:1] * (u - histories[:, a, i])[:, None])
        z = z.at[:, :, k].add(inputs[1:] * (v - histories[:, b, k])[:, None])
        return jax.vmap(model)(z), basis(z)

    low, high, left, right = ends
    return jax.vmap(at)(jnp.stack([high, high, low, low]), jnp.stack([right, left, right, left]))


class Grid:
    """Slices of two sources and the rows in their cells."""

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
        """Lower and upper end of the slice of every row."""
        edges, slot = self.edges[axis], self.slots[axis]
        return edges[slot], edges[slot + 1]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Over the rows of every cell, `[first second ...]` of `[row ...]`; a cell without any has
        the mean of the nearest that have some, as sums across it need a number.
        """
        sums = np.zeros((self.count.size, values.shape[1]))
        np.add.at(sums, self._flat, values)
        means = sums / np.maximum(self.count.reshape(-1, 1), 1)
        at = np.stack(list(np.indices(self.shape)), axis=-1).reshape(-1, 2)
        full, empty = np.flatnonzero(self.count.ravel()), np.flatnonzero(self.count.ravel() == 0)
        far = ((at[empty, None] - at[None, full]) ** 2).sum(axis=-1)
        nearest = far == far.min(axis=1, keepdims=True)
        means[empty] = nearest @ means[full] / nearest.sum(axis=1, keepdims=True)
        return means.reshape(*self.shape, -1)

    def interaction(self, mixed: np.ndarray) -> np.ndarray:
        """Second-order accumulated local effects at the corners of all cells,
        `[first+1 second+1 ...]`, from mixed differences: summed up, less what each source does
        alone over the data, centred. All of it linear in the differences.
        """
        nodes = np.zeros((self.shape[0] + 1, self.shape[1] + 1, *mixed.shape[2:]))
        nodes[1:, 1:] = mixed.cumsum(axis=0).cumsum(axis=1)
        alone = [self._alone(nodes, axis) for axis in (0, 1)]
        nodes = nodes - alone[0][:, None] - alone[1][None]
        return nodes - self.at_rows(nodes).mean(axis=0)[None, None]

    def _alone(self, nodes: np.ndarray, axis: int) -> np.ndarray:
        """First-order accumulated local effects of a surface along one source."""
        (s, t), v = (self.slots[axis], self.slots[1 - axis]), self.within[1 - axis]
        nodes = np.moveaxis(nodes, axis, 0)
        change = nodes[1:] - nodes[:-1]
        here = (1 - v)[:, None] * change[s, t] + v[:, None] * change[s, t + 1]
        sums = np.zeros((len(change), nodes.shape[2]))
        np.add.at(sums, s, here)
        steps = sums / np.maximum(np.bincount(s, minlength=len(change)), 1)[:, None]
        return np.concatenate([np.zeros((1, nodes.shape[2])), steps.cumsum(axis=0)])

    def at_rows(self, nodes: np.ndarray) -> np.ndarray:
        """A surface between its corners, where the data are, `[row ...]`."""
        (s, t), (u, v) = self.slots, (w[:, None] for w in self.within)
        low = (1 - v) * nodes[s, t] + v * nodes[s, t + 1]
        high = (1 - v) * nodes[s + 1, t] + v * nodes[s + 1, t + 1]
        return (1 - u) * low + u * high


def _cells(nodes: np.ndarray) -> np.ndarray:
    """Means over the four corners of every cell."""
    return (nodes[1:, 1:] + nodes[1:, :-1] + nodes[:-1, 1:] + nodes[:-1, :-1]) / 4
