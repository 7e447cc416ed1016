"""Effects of kept edges: direction, strength, response curves, interactions of two sources.

Curves and interactions are accumulated local effects: the change of a rate from one end of a slice
of the source to the other, with all other inputs as measured there, summed over slices and centred
(Apley and Zhu, *JRSS B* 82 (2020), 1059).
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from .._blas import one_blas_thread
from .._checks import check_whole
from .._types import Checked, to_jax
from .._wording import amount, more_than, percent
from ..models._model import padded_rows
from ._arguments import edges_of_inputs, inputs_of, kept_lags, sum_to_edges, variable
from ._ensemble import Ensemble, histories_of, rates_of
from ._left_out import Curvature, find_curvature, missed_by_lags, residuals_of

# Slices per source of a surface.
POINTS = 8
# Half the interval over which the slope of a curvature is taken, in standard deviations.
NEAR = 0.01
# Quantile of a two-sided 90 % interval, in standard deviations.
LEVEL, Z_90 = 0.9, 1.6449
# Bisections for each end of an interval: to a millionth of the starting range.
HALVINGS = 20
# Rows whose derivatives are computed together; all padded lengths are multiples of it.
BATCH = 128
# Level beyond which a linear response has no meaning.
UNSTABLE = 1e6
# Steps of a linear response within a sample of a flow.
FINE = 4
# Edges and pairs shown in a printed summary.
SHOWN, SHOWN_PAIRS = 12, 8


# ---- linear functionals of a drift, and their intervals ----


def moved(histories: np.ndarray, inputs: np.ndarray, i: int, a: int, values: np.ndarray):
    """Return histories in which a source at one lag takes other values; all `inputs` `[lag]` read
    for the same edge are shifted with it.
    """
    z = histories.copy()
    z[:, inputs, i] += (values - histories[:, a, i])[:, None]
    return z


class Slices:
    """Slices of a source with equally many values in each.

    - `edges`: ends of the slices, ascending, `[slice+1]`.
    - `values`: values of the source; `slot`: the slice of each, `[row]`.
    """

    def __init__(self, values: np.ndarray, points: int, name: str):
        """Raises `ValueError` for fewer than three different ends."""
        self.edges = edges = np.unique(np.quantile(values, np.linspace(0, 1, points + 1)))
        if len(edges) < 3:
            raise ValueError(f"{name} takes too few different values for a curve: {len(edges)}.")
        self.values = np.clip(values, edges[0], edges[-1])
        self.slot = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(self) - 1)

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and the upper end of the slice of each value."""
        return self.edges[self.slot], self.edges[self.slot + 1]

    def accumulated(self, values: Float[np.ndarray, "row part"]) -> Float[np.ndarray, "end part"]:
        """Return cumulative sums, up to each end, of the means within slices."""
        steps = slice_means(values, self.slot, len(self))
        return np.concatenate([np.zeros((1, steps.shape[1])), steps.cumsum(axis=0)])


def slice_means(values: np.ndarray, slot: np.ndarray, count: int) -> np.ndarray:
    """Return means of the rows in each of `count` slices, `[slice ...]`; 0 in empty slices."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, slot, values)
    return sums / np.maximum(np.bincount(slot, minlength=count), 1)[:, None]


def per_member(own: np.ndarray, columns: np.ndarray, ensemble: Ensemble, target: int) -> np.ndarray:
    """Return a linear functional of the drift for the learned model, the centre of the ensemble and
    its members, `[... model]`, from its values for the model alone `[...]` and for the columns
    `[... feature]`.
    """
    theta = np.concatenate([ensemble.center[None, target], ensemble.theta[:, target]])
    steps = ensemble.trust[target] * own[..., None] + columns @ theta.T
    first = own[..., None] if ensemble.own[target] else steps[..., :1]
    return np.concatenate([first, steps], axis=-1)


def center_and_spread(
    found: Float[np.ndarray, "model *value"],
    bias: Float[np.ndarray, "replicate *value"] | tuple[()] = (),
) -> tuple[Float[np.ndarray, "*value"], Float[np.ndarray, "*value"]]:
    """Return the estimate and half the width of a 90 % interval.

    Both come from one quantity, along the first axis, of the learned model, the centre of the
    ensemble and its members, and from its differences between bootstrap models and the learned
    model, `[replicate ...]`.

    Members spread about their centre like estimates from other records. The centre is fitted to
    steps instead of rates, with other functions, so its distance from the model shows uncertainty
    that comes from neither the record's length nor the graph. The bootstrap shows the bias of the
    estimator.
    """
    model, center, members = found[0], found[1], found[2:]
    chance = np.mean((members - center[None]) ** 2, axis=0)
    variance = chance + (center - model) ** 2
    if len(bias):
        # A mean of estimates from records of this length also varies by chance.
        variance = variance + np.maximum(np.mean(bias, axis=0) ** 2 - chance / len(bias), 0)
    return model, Z_90 * np.sqrt(variance)


def interval_ends(
    found: np.ndarray,
    spread: np.ndarray,
    apart: np.ndarray,
    probability: float,
    shift: Any = 0.0,
    variance: Any = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of a 90 % interval that allows for both readings of a record and what the
    drift omits.

    - `found`, `spread`: the estimate under the chosen reading, and half the width of its interval.
    - `apart`: the difference of the other reading, which has the `probability`.
    - `shift`, `variance`: what the drift omits, and its variance. If it is clearly nonzero, the
        interval lies on its side of the estimate and ends there.
    """
    from scipy.special import ndtr

    center, half = found + shift, np.sqrt(spread**2 + Z_90**2 * variance)
    size = np.maximum(half / Z_90, 1e-300)

    def end(share):
        low = center + np.minimum(apart, 0) - half
        high = center + np.maximum(apart, 0) + half
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            first, second = (ndtr((middle - at) / size) for at in (center, center + apart))
            below = (1 - probability) * first + probability * second < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    low, high = center - half, center + half
    if probability > 0:
        low, high = end((1 - LEVEL) / 2), end((1 + LEVEL) / 2)
    return np.minimum(low, found), np.maximum(high, found)


# ---- two sources ----


@dataclasses.dataclass(frozen=True, eq=False)
class Surface:
    """The joint effect of two sources on a rate, beyond their own curves; NumPy; made by
    [`Effects.surface`][ndde_jax.use.Effects.surface].

    - `x`, `y`: ends of the slices of the first and the second source, in physical units.
    - `z`: mean of the interaction over the corners of each cell, in units of the target per unit of
        time; NaN without data.
    - `low`, `high`: 90 % interval of `z`, which includes the choice of the graph.
    - `count`: rows of the data in each cell; `z` is NaN if it is 0.
    - `share`: share of the variance of the target's measured rate that the interaction explains
        over the data, on the scale of the `scores` of edges. `share_low` and `share_high` are its
        90 % interval.
    - `first`, `second`: name and lag of each source; `target`: its name.
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
        """Return a matplotlib Figure; needs matplotlib. Cells without data are hatched; a point
        marks cells whose 90 % interval excludes zero.
        """
        from ..plot._effects import draw_surface

        return draw_surface(self)

    def __repr__(self) -> str:
        share, low, high = (percent(x, 1) for x in (self.share, self.share_low, self.share_high))
        return (
            f"{in_words(*self.first)} with {in_words(*self.second)} on the rate of {self.target}: "
            f"{share} of its variance ({low} to {high}); {int((self.count == 0).sum())} of "
            f"{self.count.size} cells hold no data"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Interactions:
    """The interactions of pairs of kept inputs of the same target; made by
    [`Effects.interactions`][ndde_jax.use.Effects.interactions].

    A sequence of rows with the fields `columns`, the largest `share` first; see
    [`Surface`][ndde_jax.use.Surface]. A pair in which one source takes too few values for slices
    has NaN shares and comes last.
    """

    table: tuple[tuple, ...]
    effects: Any = dataclasses.field(repr=False)

    columns = ("first", "first_lag", "second", "second_lag", "target", "share", "low", "high")

    def rows(self) -> list[tuple]:
        """Return the rows of `to_frame` as tuples."""
        return list(self.table)

    def to_frame(self):
        """Return a pandas DataFrame with a row per pair."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    def above(self, share: float) -> list[tuple]:
        """Return the rows of pairs that explain more than this share."""
        return [row for row in self.table if row[5] > share]

    def plot(self):
        """Return a matplotlib Figure with the largest surfaces; needs matplotlib."""
        from ..plot import plot_interactions

        return plot_interactions(self)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        pairs = amount(len(self), "pair", 9)
        lines = [f"Interactions of {pairs}: shares of a rate explained only by both sources"]
        for first, a, second, b, target, *shares in self.table[:SHOWN_PAIRS]:
            share, low, high = (percent(x, 1) for x in shares)
            pair = f"{in_words(first, a)} with {in_words(second, b)} -> {target}"
            lines.append(f"  {pair}  {share} ({low} to {high})")
        lines += more_than(SHOWN_PAIRS, len(self), "  and {} more")
        return "\n".join(lines)


def in_words(name: str, lag: int) -> str:
    """Return a source at its lag, in words."""
    return f"{name} at lag {lag}" if lag else name


def _surfaces(effects, first, second, targets, points) -> list[Surface]:
    """Return the surfaces of targets whose drifts read the same inputs for both edges."""
    found, ensemble = effects.found, effects.ensemble
    histories, labels = histories_of(ensemble), found.samples.labels
    source = [(labels[i], int(found.lags[a])) for i, a in (first, second)]
    values = (histories[:, a, i] for i, a in (first, second))
    grid = Grid(*values, points, *(in_words(*each) for each in source))

    def at(u, v):
        z = histories
        for (i, a), ends in ((first, u), (second, v)):
            z = moved(z, inputs_of(found, i, targets[0], a), i, a, ends)
        return z

    (low, high), (left, right) = (side.ends for side in grid.sides)
    corners = [at(high, right), at(high, left), at(low, right), at(low, left)]

    def mixed(function):
        """Return the mixed difference: how much more a change of the first source matters at the
        upper end of the second.
        """
        c = [function(z) for z in corners]
        return grid.mean(c[0] - c[1] - c[2] + c[3])  # [first second dim or feature]

    rates, columns = mixed(rates_of(found.model)), mixed(ensemble.basis)
    variance = np.asarray(found.windows.scaling.rate_scale, np.float64) ** 2
    made = []
    for j in targets:
        nodes = grid.interaction(per_member(rates[..., j], columns, ensemble, j))
        z, spread = center_and_spread(np.moveaxis(_cells(nodes), -1, 0))
        z = np.where(grid.count > 0, z, np.nan)
        share, low_share, high_share = map(
            float, _explained_variance(grid.at_rows(nodes).T) / variance[j]
        )
        made.append(
            Surface(
                x=grid.sides[0].edges, y=grid.sides[1].edges, z=z, low=z - spread, high=z + spread,
                count=grid.count, share=share, share_low=low_share, share_high=high_share,
                first=source[0], second=source[1], target=labels[j], time_unit=found.time_unit,
            )
        )  # fmt: skip
    return made


def _explained_variance(values: np.ndarray) -> np.ndarray:
    """Return the variance that surfaces explain, with its 90 % interval, from values `[model row]`.

    The interval is that of the projection on the surface itself: the sizes of all members would be
    positive even without an interaction.
    """
    size = np.sqrt(np.mean(values[0] ** 2))
    if size == 0:
        return np.array([0.0, 0.0, Z_90**2 * np.mean(values[1:] ** 2)])
    along = values @ values[0] / (len(values[0]) * size)
    (middle,), (spread,) = center_and_spread(along[:, None])
    return np.array([middle, max(middle - spread, 0.0), middle + spread]) ** 2


class Grid:
    """A grid of slices of two sources, and the rows in its cells."""

    def __init__(self, x: np.ndarray, y: np.ndarray, points: int, *names: str):
        self.sides = [Slices(v, points, name) for v, name in zip((x, y), names, strict=True)]
        self.shape = tuple(map(len, self.sides))
        self._flat = np.ravel_multi_index([side.slot for side in self.sides], self.shape)
        self.count = np.bincount(self._flat, minlength=np.prod(self.shape)).reshape(self.shape)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Return means over the rows `[row ...]` in each cell, `[first second ...]`; an empty cell
        takes the mean of the nearest full cells, since sums across it need a number.
        """
        means = slice_means(values, self._flat, self.count.size).reshape(*self.shape, -1)
        full, empty = self.count > 0, self.count == 0
        far = ((np.argwhere(empty)[:, None] - np.argwhere(full)[None]) ** 2).sum(axis=-1)
        nearest = far == far.min(axis=1, keepdims=True)
        means[empty] = nearest @ means[full] / nearest.sum(axis=1, keepdims=True)
        return means

    def interaction(self, mixed: np.ndarray) -> np.ndarray:
        """Return second-order accumulated local effects at the corners of all cells,
        `[first+1 second+1 ...]`, from mixed differences: accumulated, less the effect of each
        source alone over the data, and centred. The result is linear in the differences.
        """
        nodes = np.zeros((self.shape[0] + 1, self.shape[1] + 1, *mixed.shape[2:]))
        nodes[1:, 1:] = mixed.cumsum(axis=0).cumsum(axis=1)
        alone = [self._alone(nodes, axis) for axis in (0, 1)]
        nodes = nodes - alone[0][:, None] - alone[1][None]
        return nodes - self.at_rows(nodes).mean(axis=0)[None, None]

    def _alone(self, nodes: np.ndarray, axis: int) -> np.ndarray:
        """Return first-order accumulated local effects of a surface along one source."""
        low, high = (self.at_rows(nodes, {axis: ends}) for ends in self.sides[axis].ends)
        return self.sides[axis].accumulated(high - low)

    def at_rows(self, nodes: np.ndarray, at: Mapping[int, np.ndarray] = {}) -> np.ndarray:
        """Return a surface interpolated from its corners to the data, `[row ...]`, or to other
        values `at` some axes.
        """
        from scipy.interpolate import interpn

        points = [at.get(axis, side.values) for axis, side in enumerate(self.sides)]
        return interpn([side.edges for side in self.sides], nodes, np.stack(points, axis=1))


def _cells(nodes: np.ndarray) -> np.ndarray:
    """Return means over the four corners of each cell."""
    return (nodes[1:, 1:] + nodes[1:, :-1] + nodes[:-1, 1:] + nodes[:-1, :-1]) / 4


# ---- every edge ----


@dataclasses.dataclass(frozen=True, eq=False)
class Total:
    """The response of levels along all paths of the graph; NumPy, `[time source target]`.

    In units of the target per unit of the source, as they are read (`found.samples.labels`).
    Responses are linear: those of the drift with its mean slopes. As for slopes, the intervals
    include what the mean slopes omit.

    - `ts`: times after the push, from 0.
    - `pulse`: response to a displacement of the source by one unit at time 0 only.
    - `step`: response to the source held one unit higher from time 0 on.
    - `pulse_low`, `pulse_high`, `step_low`, `step_high`: 90 % intervals.
    """

    ts: Float[np.ndarray, "time"]
    pulse: Float[np.ndarray, "time source target"]
    step: Float[np.ndarray, "time source target"]
    pulse_low: Float[np.ndarray, "time source target"]
    pulse_high: Float[np.ndarray, "time source target"]
    step_low: Float[np.ndarray, "time source target"]
    step_high: Float[np.ndarray, "time source target"]


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """The effects of the kept edges; NumPy, `[source target lag]`; made by `found.effects`.

    - `slope`: mean over the data of ∂(rate of the target)/∂(source at that lag), in units of the
        target per unit of time and per unit of the source, as they are read: of logarithms or
        scores if transformed; NaN where no edge is kept.
    - `slope_low`, `slope_high`: 90 % interval, possibly asymmetric about the slope. It includes the
        choice of the graph and what the drift omits: curvature that was not worth its price, delays
        that it reads at the nearest candidate, and the other reading of a record that is undecided
        between a map and a flow.
    - `sign`: sign of the slope, 1 or −1; 0 where no edge is kept. The interval shows how certain it
        is; a curve that rises and falls may have either sign.
    - `share`: share of the resamples that contain an edge at this lag or a neighbouring one.
    """

    graph: Bool[np.ndarray, "source target lag"]
    slope: Float[np.ndarray, "source target lag"]
    slope_low: Float[np.ndarray, "source target lag"]
    slope_high: Float[np.ndarray, "source target lag"]
    share: Float[np.ndarray, "source target lag"]
    found: Any
    ensemble: Ensemble
    curvatures: Mapping[tuple[int, int, int], Curvature]
    missed: Float[np.ndarray, "source target lag"]

    @property
    def sign(self) -> Int[np.ndarray, "source target lag"]:
        """The sign of the mean slope."""
        return np.sign(np.nan_to_num(self.slope)).astype(int)

    def curve(
        self, source: Any, target: Any, lag: Any = None, *, points: Checked[int] = 20
    ) -> tuple[np.ndarray, ...]:
        """Return the response curve of a source: x, y, and the ends of a 90 % interval of y,
        `[point]`.

        Accumulated local effects: the change of the target's rate from one end of each of `points`
        slices of the source to the other, with all other inputs as measured there, summed and
        centred over the data. The drift is never evaluated where there are no data. A curve through
        the mean of all other variables does so if variables are correlated.

        If curvature is not worth its price, the curve is a straight line. The interval still
        includes possible curvature, as a smoothing spline of unknown size in the residual rates. If
        it is clear, the interval lies on its side of the curve.

        **Arguments:**

        - `source`, `target`: names or indices.
        - `lag`: one of the discovery's lags, in samples; may be omitted if the edge has only one.
        - `points`: number of slices, with equally many samples each; 20 by default.

        **Raises:** `ValueError` for an edge that was not kept.

        Apley and Zhu, *JRSS B* 82 (2020), 1059.
        """
        check_whole(points, "points", least=2)
        found, ensemble, histories = self.found, self.ensemble, histories_of(self.ensemble)
        j = variable(target, found, "target")
        i, a = self._kept(j, source, "source", lag, "lag")
        inputs = inputs_of(found, i, j, a)
        sliced = Slices(histories[:, a, i], points, found.samples.labels[i])
        low, high = (moved(histories, inputs, i, a, ends) for ends in sliced.ends)

        def changes(function):
            """Return changes of a function from one end of each row's slice to the other."""
            return function(high) - function(low)

        def accumulated(changes):
            """Return summed mean changes `[row curve]` centred over the data, `[curve point]`."""
            curves = sliced.accumulated(changes)
            middle = (curves[1:] + curves[:-1]) / 2
            return (curves - middle[sliced.slot].mean(axis=0)[None]).T

        def apart(models):
            """Return differences between the curves of models and of the drift, `[model point]`."""
            every = [changes(rates_of(model))[:, j] - own for model in models]
            return accumulated(np.reshape(every, (-1, len(own))).T)

        own, curvature = changes(rates_of(found.model))[:, j], self.curvatures[i, j, a]
        reading = found._alternative_reading
        curves = accumulated(per_member(own, changes(ensemble.basis), ensemble, j))
        y, spread = center_and_spread(curves, apart(found._replicates))
        shift, variance = curvature.of(accumulated(changes(curvature)))
        line = accumulated(np.subtract(*sliced.ends[::-1])[:, None])[0]
        shift, other = shift + self.missed[i, j, a] * line, apart(reading.models).sum(axis=0)
        ends = interval_ends(y, spread, other, reading.probability, shift, variance)
        return sliced.edges, y, *ends

    def surface(
        self,
        first: Any,
        second: Any,
        target: Any,
        first_lag: Any = None,
        second_lag: Any = None,
        *,
        points: Checked[int] = POINTS,
    ) -> Surface:
        """Return the joint effect of two sources on a rate, beyond the sum of their own curves.

        Second-order accumulated local effects: in each cell of two slices, by how much more a
        change of the first source matters at the upper than at the lower end of the second, with
        all other inputs as measured there; summed, less what depends on one source only, and
        centred. For a drift x·y of independent sources it is (x − mean)(y − mean), for a sum of
        curves zero. Cells without data are NaN. The order of the sources only swaps the axes.

        **Arguments:**

        - `first`, `second`, `target`: names or indices. The sources may be one variable at two
            lags.
        - `first_lag`, `second_lag`: lags of the discovery, in samples; may be omitted if a source
            has only one edge to the target.
        - `points`: number of slices of each source, with equally many samples each; 8 by default,
            so that with independent sources a cell holds about 16 of the rows that are averaged.

        **Returns:** [`Surface`][ndde_jax.use.Surface].

        **Raises:** `ValueError` for an edge that was not kept, for the same input given twice, and
        for a source that takes too few different values.

        Apley and Zhu, *JRSS B* 82 (2020), 1059.
        """
        check_whole(points, "points", least=2)
        j = variable(target, self.found, "target")
        i, a = one = self._kept(j, first, "first", first_lag, "first_lag")
        other = self._kept(j, second, "second", second_lag, "second_lag")
        if one == other:
            raise ValueError(
                f"first and second must differ in variable or lag; both are "
                f"{self.found.names[i]} at lag {self.found.lags[a]}."
            )
        return _surfaces(self, one, other, [j], points)[0]

    def interactions(self) -> Interactions:
        """Return all pairs of kept inputs of the same target, ranked by the share of the variance
        of its rate that their product terms explain beyond their own curves.

        **Returns:** [`Interactions`][ndde_jax.use.Interactions], the largest first.
        """
        found, names = self.found, self.found.samples.labels
        # Targets with the same pair use the same evaluations.
        targets: dict[tuple, list[int]] = {}
        for j in range(len(names)):
            kept = [(int(i), int(a)) for i, a in np.argwhere(self.graph[:, j])]
            for pair in itertools.combinations(kept, 2):
                read = b"".join(inputs_of(found, i, j, a).tobytes() for i, a in pair)
                targets.setdefault((*pair, read), []).append(j)
        rows = []
        for (first, second, _), of in targets.items():
            try:
                made = _surfaces(self, first, second, of, POINTS)
                shares = [(s.share, s.share_low, s.share_high) for s in made]
            except ValueError:  # too few different values for slices: reported as NaN
                shares = [(np.nan,) * 3] * len(of)
            ends = [end for i, a in (first, second) for end in (names[i], int(found.lags[a]))]
            rows += [(*ends, names[j], *share) for j, share in zip(of, shares, strict=True)]
        rows.sort(key=lambda row: -np.nan_to_num(row[5], nan=-1))
        return Interactions(tuple(rows), self)

    def _kept(self, j: int, source: Any, name: str, lag: Any, lag_name: str) -> tuple[int, int]:
        """Return a kept input of a target: its variable, and the position of its lag."""
        found, i = self.found, variable(source, self.found, name)
        kept = kept_lags(found, i, j, lag, lag_name, "it has no curve")
        if len(kept) > 1:
            listed = ", ".join(str(found.lags[a]) for a in kept)
            raise ValueError(
                f"{found.names[i]} -> {found.names[j]} has edges at lags {listed}; say which with "
                f"{lag_name}=."
            )
        return i, int(kept[0])

    @functools.cached_property
    def total(self) -> Total:
        """The effects along all paths of the graph, on levels."""
        found, dt = self.found, float(self.found.dt)
        slopes, learned, bias = _slopes(found, self.ensemble)
        shift, variance = _slope_changes_by_curvature(found, self.ensemble, self.curvatures)
        # Each member has its own curvature.
        draws = np.random.default_rng(0).normal(size=(len(slopes) - 2, *shift.shape))
        slopes[2:] += draws * np.sqrt(variance)
        given = np.concatenate([slopes, learned[None], learned[None] + bias])
        fine = FINE if found.moves_between_samples else 0
        # Including what the drift omits, with sources at their delays instead of the nearest lags.
        shifted, late = _at_delays(found, slopes[:1] + shift + self.missed, max(fine, 1))
        steps = int(np.clip(2 * found.lags[-1] + 20, 40, 400))
        made: dict[str, np.ndarray] = {}
        for name, held in (("pulse", False), ("step", True)):
            response = _respond(given, found.lags, dt, steps, held, fine)
            own, of_learned, of_replicates = np.split(response, [len(slopes), len(slopes) + 1])
            y, spread = center_and_spread(own, of_replicates - of_learned)
            there = _respond(shifted, late, dt, steps, held, fine)[0]
            low, high = np.minimum(there - spread, y), np.maximum(there + spread, y)
            made |= {name: y, f"{name}_low": low, f"{name}_high": high}
        return Total(dt * np.arange(steps + 1), **made)

    def to_frame(self):
        """Return a pandas DataFrame with a row per kept edge, largest slope in units of standard
        deviations first.
        """
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    columns = ("source", "target", "lag", "delay", "sign", "slope", "low", "high", "share")

    def rows(self) -> list[tuple]:
        """Return the rows of `to_frame` as tuples."""
        names, lags, dt = self.found.samples.labels, self.found.lags, self.found.dt
        scale = np.asarray(self.found.model.scaling.scale)
        edges = np.argwhere(self.graph)
        size = [abs(self.slope[i, j, a]) * scale[i] / scale[j] for i, j, a in edges]
        numbers = (self.sign, self.slope, self.slope_low, self.slope_high, self.share)
        rows = []
        for i, j, a in edges[np.argsort(-np.asarray(size))]:
            edge = names[i], names[j], int(lags[a]), float(lags[a] * dt)
            rows.append((*edge, *(values[i, j, a].item() for values in numbers)))
        return rows

    def plot(self):
        """Return a matplotlib Figure with the curve of every kept edge; needs matplotlib."""
        from ..plot import plot_effects

        return plot_effects(self)

    def __repr__(self) -> str:
        per = f" per {self.found.time_unit}" if self.found.time_unit else ""
        edges = amount(int(self.graph.sum()), "edge", 9)
        lines = [
            f"Effects of {edges}, between variables first: rise of the target's rate of "
            f"change{per} per unit of the source, with 90 % intervals"
        ]
        rows = sorted(self.rows(), key=lambda row: row[0] == row[1])
        for source, target, lag, _, _, slope, low, high, share in rows[:SHOWN]:
            interval = f"{slope:+.3g} ({low:.3g} to {high:.3g})"
            edge = f"{in_words(source, lag)} -> {target}"
            lines.append(f"  {edge}  {interval}, in {share:.0%} of resamples")
        lines += more_than(SHOWN, len(rows), "  and {} more: to_frame()")
        lag = next((row[2] for row in rows[:SHOWN] if row[2]), 0)
        if lag and self.found.moves_between_samples:
            time = amount((lag + 1) * float(self.found.dt), self.found.time_unit)
            lines.append(
                "Lags count to the rate of change; the level moves one sample later (lag "
                f"{lag}: after {time})."
            )
        return "\n".join(lines)


class WithEffects:
    """The effects of a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    @one_blas_thread()
    def effects(self: Any, *, ensemble: Checked[Ensemble | None] = None) -> Effects:
        """Return the effect of every kept edge: sign, mean slope, curve, and total effects along
        paths, with intervals that include the choice of the graph.

        **Arguments:**

        - `ensemble`: the result of [`resample`][ndde_jax.Discovery.resample]; by default of 40
            halves.

        **Returns:** [`Effects`][ndde_jax.use.Effects].

        **Raises:** `ValueError` for irregular sampling, or too few samples.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            rate = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
            x[k + 1] = x[k] + 0.2 * rate + 0.3 * rng.normal(size=2)
        found = ndde.discover(x, dt=0.2, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.effects())
        ```
        """
        ensemble, reading = self._given(ensemble), self._alternative_reading
        graph = np.asarray(self.graph)
        slopes, own, bias = _slopes(self, ensemble)
        center, spread = center_and_spread(sum_to_edges(self, slopes), sum_to_edges(self, bias))
        left, missed = residuals_of(self, ensemble), missed_by_lags(self)
        curvatures = {
            (i, j, a): find_curvature(left, j, i, inputs_of(self, i, j, a))
            for i, j, a in np.argwhere(graph).tolist()
        }
        shift, variance = _slope_changes_by_curvature(self, ensemble, curvatures)
        other = _differences(reading.models, histories_of(ensemble), own)
        apart = sum_to_edges(self, other).sum(axis=0)
        shift = shift + missed
        low, high = interval_ends(center, spread, apart, reading.probability, shift, variance)
        slope, low, high, share = (
            np.where(graph, a, np.nan) for a in (center, low, high, ensemble.share)
        )
        return Effects(graph, slope, low, high, share, self, ensemble, curvatures, missed)


def _slopes(found: Any, ensemble: Ensemble) -> tuple[np.ndarray, ...]:
    """Return mean slopes `[model source target lag]` of the model (of the centre for targets that
    the model explains poorly), the centre of the ensemble and every member; those of the learned
    model for all targets; and the differences of bootstrap models from the latter.
    """
    histories = histories_of(ensemble)
    own, columns = (mean_slopes(model, histories) for model in (found.model, ensemble.basis))
    columns = np.moveaxis(columns, 0, -1)
    every = [per_member(each, columns, ensemble, j) for j, each in enumerate(own)]
    slopes, own = to_graph(np.moveaxis(every, -1, 0)), to_graph(own)
    return slopes, own, _differences(found._replicates, histories, own)


def _slope_changes_by_curvature(
    found: Any, ensemble: Ensemble, curvatures: Mapping[tuple[int, int, int], Curvature]
):
    """Return the change of mean slopes by curvature, and its variance, `[source target lag]`. A
    straight line through a curve has its mean slope only if the source is normally distributed.
    """
    histories = histories_of(ensemble)
    shift, variance = np.zeros((2, *np.shape(found.graph)))
    for (i, j, a), curvature in curvatures.items():
        inputs, values = inputs_of(found, i, j, a), histories[:, a, i]
        near = NEAR * values.std()
        ends = (moved(histories, inputs, i, a, values + side) for side in (near, -near))
        above, below = (curvature(z).mean(axis=0) for z in ends)
        slope = (above - below) / (2 * near) if near > 0 else 0 * above
        shift[i, j, a], variance[i, j, a] = curvature.of(slope)
    return shift, variance


def to_graph(slopes: Float[np.ndarray, "*batch target lag source"]):
    """Return slopes in the order of a graph, `[*batch source target lag]`."""
    return np.moveaxis(slopes, (-3, -2, -1), (-2, -1, -3))


def _differences(models: tuple[Any, ...], histories: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the differences of the mean slopes of models from those of the learned model, `own`,
    `[model source target lag]`.
    """
    slopes = [to_graph(mean_slopes(model, histories)) - own for model in models]
    return np.reshape(slopes, (-1, *own.shape))


def mean_slopes(function: Any, histories: np.ndarray) -> Float[np.ndarray, "output lag dim"]:
    """Return mean derivatives over histories, of a model or of the columns of a basis."""
    dtype = function.dt.dtype if hasattr(function, "dt") else None
    slopes = _jacobians(jax.tree.map(to_jax, function), to_jax(padded_rows(histories), dtype))
    return np.asarray(slopes[: len(histories)].mean(axis=0), np.float64)


@eqx.filter_jit
def _jacobians(function, rows):
    return jax.lax.map(jax.jacfwd(function), rows, batch_size=BATCH)


def _at_delays(
    found: Any, slopes: Float[np.ndarray, "member source target lag"], parts: int
) -> tuple[Float[np.ndarray, "member source target late"], tuple[float, ...]]:
    """Return slopes with each edge that is read at a single candidate lag moved to its own delay,
    rounded to a fraction 1 / `parts` of a sample, and all delays used, in samples.
    """
    lags, edge = np.asarray(found.lags, float), edges_of_inputs(found)
    late = np.broadcast_to(lags, np.shape(found.graph)).copy()
    alone = (edge[..., None, :] == np.arange(len(lags))[:, None]).sum(axis=-1) == 1
    moved_off = found.delay_resolved & alone & np.asarray(found.reads)
    delays = np.nan_to_num(np.asarray(found.delays)) / float(found.dt)
    late[moved_off] = np.round(parts * delays[moved_off]) / parts
    every = np.unique(late)
    here = np.where(late[..., None] == every, slopes[..., None], 0)  # [... lag late]
    return here.sum(axis=-2), tuple(every.tolist())


# Without the solver: a linear map of all members takes 2 ms for three variables, compiling the
# solver's program over a second.
def _respond(
    slopes: np.ndarray, lags: tuple[int | float, ...], dt: float, steps: int, held: bool, fine: int
) -> np.ndarray:
    """Return levels after a unit push of each source, `[member time source target]`: for a flow by
    `fine` steps of Heun's method per sample, for a map (`fine` 0) from sample to sample.
    """
    parts = max(fine, 1)
    n, dim, small = *slopes.shape[:2], dt / parts
    past = np.round(parts * np.asarray(lags)).astype(int)
    start, pushed = int(past[-1]), np.arange(dim)
    end = start + parts * steps
    level = np.zeros((n, dim, end + 1, dim))  # [member pushed time variable]
    level[:, pushed, start, pushed] = 1.0
    rate = lambda k: np.einsum("mstl,mpls->mpt", slopes, level[:, :, k - past])  # noqa: E731

    def move(k, change):
        level[:, :, k + 1] = level[:, :, k] + change
        if held:
            level[:, pushed, k + 1, pushed] = 1.0

    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(start, end):
            slope = rate(k)
            move(k, small * slope)
            if fine:
                move(k, small / 2 * (slope + rate(k + 1)))
    # A member with unstable mean slopes has no finite response to average.
    response = np.nan_to_num(level[:, :, start::parts].swapaxes(1, 2), nan=UNSTABLE)
    return np.clip(response, -UNSTABLE, UNSTABLE)
