"""Effects of kept edges: direction, strength, and response curve."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from .._checks import check_whole
from .._memory import padded_length
from .._types import Checked, to_jax
from ._arguments import folded, kept_lags, variable
from ._ensemble import Ensemble
from ._local_effects import (
    POINTS,
    Interactions,
    Surface,
    center_and_spread,
    curve,
    histories_of,
    interactions,
    surface,
)

# Rows whose derivatives are taken at once; all padded lengths are multiples of it.
BATCH = 128
# Beyond it a linear response has no meaning.
UNSTABLE = 1e6
# Edges of a printed summary.
SHOWN = 12


@dataclasses.dataclass(frozen=True)
class Total:
    """The response of levels along all paths of the graph; NumPy, `[time source target]`.

    Units of the target per unit of the source, as they are read (`found.samples.labels`). Linear:
    of the drift with its mean slopes.

    - `ts`: times after the push, from 0.
    - `pulse`: the source is displaced by one unit at time 0 and then left to itself.
    - `step`: it is held one unit higher from time 0 on.
    - `pulse_low`, `pulse_high`, `step_low`, `step_high`: 90 % intervals.
    """

    ts: Float[np.ndarray, "time"]
    pulse: Float[np.ndarray, "time source target"]
    step: Float[np.ndarray, "time source target"]
    pulse_low: Float[np.ndarray, "time source target"]
    pulse_high: Float[np.ndarray, "time source target"]
    step_low: Float[np.ndarray, "time source target"]
    step_high: Float[np.ndarray, "time source target"]


@dataclasses.dataclass(frozen=True)
class Effects:
    """The effects of the kept edges; NumPy, `[source target lag]`; made by `found.effects`.

    - `slope`: mean over the data of ∂(rate of the target)/∂(source at that lag), in units of the
        target per unit of time and per unit of the source, as they are read: of their logarithms
        or scores, if a transform was asked for; NaN where no edge is kept.
    - `slope_low`, `slope_high`: 90 % interval, the choice of the graph included.
    - `sign`: of the slope, 1 or −1; 0 where no edge is kept. The interval tells how certain it is;
        a curve that rises and falls may have either sign.
    - `share`: of the resamples that contain an edge, neighbouring lags counted together.
    """

    graph: Bool[np.ndarray, "source target lag"]
    slope: Float[np.ndarray, "source target lag"]
    slope_low: Float[np.ndarray, "source target lag"]
    slope_high: Float[np.ndarray, "source target lag"]
    share: Float[np.ndarray, "source target lag"]
    found: Any
    ensemble: Ensemble
    echoes: tuple[Any, ...] = ()

    @property
    def sign(self) -> Int[np.ndarray, "source target lag"]:
        """The sign of the mean slope."""
        return np.sign(np.nan_to_num(self.slope)).astype(int)

    def curve(
        self, source: Any, target: Any, lag: Any = None, *, points: Checked[int] = 20
    ) -> tuple[np.ndarray, ...]:
        """Return the response curve of a source: x, y, and the ends of a 90 % interval of y,
        `[point]`.

        Accumulated local effects: within each of `points` slices of the source, the change of the
        target's rate from one end of the slice to the other, all else as measured there; summed up
        and centred over the data. The drift is never evaluated where there are no data, unlike a
        curve through the mean of all other variables where variables are correlated.

        **Arguments:**

        - `source`, `target`: names or indices.
        - `lag`: in samples, one of the discovery's; may be left out if the edge has only one.
        - `points`: slices with equally many samples each, 20 by default.

        **Raises:** `ValueError` for an edge that was not kept.

        Apley and Zhu, *JRSS B* 82 (2020), 1059.
        """
        check_whole(points, "points", least=2)
        i, j = variable(source, self.found, "source"), variable(target, self.found, "target")
        return curve(self, i, j, self._lag(i, j, lag), points)

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

        Second-order accumulated local effects: within each cell of two slices, by how much a change
        of the first source matters more at the upper than at the lower end of the second, all else
        as it was measured there; summed up, less what depends on one source only, and centred. Of a
        drift x·y of independent sources it is (x − mean)(y − mean), of a sum of curves it is zero.
        Cells without data are NaN; the order of the sources only swaps the axes.

        **Arguments:**

        - `first`, `second`, `target`: names or indices. The sources may be one variable at two
            lags.
        - `first_lag`, `second_lag`: in samples, of the discovery's; may be left out where a source
            has only one edge to the target.
        - `points`: slices of each source with equally many samples, 8 by default, so that a cell of
            independent sources holds about 16 of the rows that averages are taken over.

        **Returns:** [`Surface`][ndde_jax.use.Surface].

        **Raises:** `ValueError` for an edge that was not kept, twice the same, and a source that
        takes too few different values.

        Apley and Zhu, *JRSS B* 82 (2020), 1059.
        """
        check_whole(points, "points", least=2)
        j = variable(target, self.found, "target")
        ends = []
        for name, source, lag in (("first", first, first_lag), ("second", second, second_lag)):
            i = variable(source, self.found, name)
            ends.append((i, self._lag(i, j, lag, f"{name}_lag")))
        if ends[0] == ends[1]:
            raise ValueError(
                f"first and second must differ in variable or lag; both are "
                f"{self.found.names[ends[0][0]]} at lag {self.found.lags[ends[0][1]]}."
            )
        return surface(self, ends[0], ends[1], j, points)

    def interactions(self) -> Interactions:
        """Return all pairs of kept inputs of one target, by the share of the variance of its rate
        that their product terms carry beyond their own curves.

        **Returns:** [`Interactions`][ndde_jax.use.Interactions], the largest first.
        """
        return interactions(self)

    def _lag(self, i: int, j: int, lag: Any, name: str = "lag") -> int:
        found = self.found
        kept = kept_lags(found, i, j, lag, name, "it has no curve")
        if len(kept) > 1:
            said, listed = f"{found.names[i]} -> {found.names[j]}", (found.lags[a] for a in kept)
            raise ValueError(
                f"{said} has edges at lags {', '.join(map(str, listed))}; say which with {name}=."
            )
        return int(kept[0])

    @functools.cached_property
    def total(self) -> Total:
        """The effects along all paths of the graph, on levels."""
        return _total(self)

    def to_frame(self):
        """Return a pandas DataFrame with a row for each kept edge, largest slope in units of
        standard deviations first.
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
        return [
            (
                names[i], names[j], int(lags[a]), float(lags[a] * dt), int(self.sign[i, j, a]),
                float(self.slope[i, j, a]), float(self.slope_low[i, j, a]),
                float(self.slope_high[i, j, a]), float(self.share[i, j, a]),
            )
            for i, j, a in edges[np.argsort(-np.asarray(size))]
        ]  # fmt: skip

    def plot(self):
        """Return a matplotlib Figure with the curve of every kept edge; needs matplotlib."""
        from ..plot import plot_effects

        return plot_effects(self)

    def __repr__(self) -> str:
        per = f" per {self.found.time_unit}" if self.found.time_unit else ""
        lines = [
            f"Effects of {int(self.graph.sum())} edges, between variables first: by how much the "
            f"target changes more{per} where the source is higher by one, 90 % intervals"
        ]
        rows = sorted(self.rows(), key=lambda row: row[0] == row[1])
        for source, target, lag, _, _, slope, low, high, share in rows[:SHOWN]:
            delay = f"@{lag}" if lag else ""
            lines.append(
                f"  {source}{delay} -> {target}  {slope:+.3g} ({low:.3g} to {high:.3g}), in "
                f"{share:.0%} of resamples"
            )
        if len(rows) > SHOWN:
            lines.append(f"  and {len(rows) - SHOWN} more: to_frame()")
        return "\n".join(lines)


class WithEffects:
    """The effects of a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    def effects(self: Any, *, ensemble: Checked[Ensemble | None] = None) -> Effects:
        """Return the effect of every kept edge: sign, mean slope, curve, and total effects along
        paths, with intervals that include the choice of the graph.

        **Arguments:**

        - `ensemble`: what [`resample`][ndde_jax.Discovery.resample] returned; by default that of 40
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
        ensemble, echoes = self._given(ensemble), self._echoed
        graph = np.asarray(self.graph)
        slopes, _, bias = _slopes(self, ensemble, echoes)
        center, spread = center_and_spread(folded(self, slopes), folded(self, bias))
        seen = lambda a: np.where(graph, a, np.nan)  # noqa: E731
        return Effects(
            graph, seen(center), seen(center - spread), seen(center + spread),
            seen(ensemble.share), self, ensemble, echoes,
        )  # fmt: skip


def _slopes(found: Any, ensemble: Ensemble, echoes: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    """Return mean slopes `[model source target lag]` of the model (where it explains the data; else
    of the centre), of the centre of the ensemble and of every member; those of the learned model on
    all targets; and the differences of bootstrap models from them.
    """
    histories = histories_of(ensemble)
    own, columns = (mean_slopes(model, histories) for model in (found.model, ensemble.basis))
    trusted = own * ensemble.trust[:, None, None]
    theta = np.concatenate([ensemble.center[None], ensemble.theta])
    members = trusted[None] + np.einsum("mtf,fls->mtls", theta, columns)
    said = np.where(ensemble.own[:, None, None], own, members[0])
    bias = [(mean_slopes(echo, histories) - own) for echo in echoes]
    bias = np.stack(bias) if bias else np.zeros((0, *own.shape))
    # [target lag source] -> [source target lag]
    to_graph = lambda a: np.moveaxis(a, (-3, -2, -1), (-2, -1, -3))  # noqa: E731
    return to_graph(np.concatenate([said[None], members])), to_graph(own), to_graph(bias)


def mean_slopes(function: Any, histories: np.ndarray) -> Float[np.ndarray, "output lag dim"]:
    """Return mean derivatives, over histories, of a model or of the columns of a basis."""
    dtype = function.dt.dtype if hasattr(function, "dt") else None
    # One of a few lengths, since every length compiles anew; spare rows are not counted.
    spare = np.repeat(histories[-1:], padded_length(len(histories)) - len(histories), axis=0)
    rows = to_jax(np.concatenate([histories, spare]), dtype)
    slopes = _jacobians(jax.tree.map(to_jax, function), rows)
    return np.asarray(slopes[: len(histories)].mean(axis=0), np.float64)


@eqx.filter_jit
def _jacobians(function, rows):
    return jax.lax.map(jax.jacfwd(function), rows, batch_size=BATCH)


def _total(effects: Effects) -> Total:
    """Return linear responses, with their spread."""
    found = effects.found
    slopes, learned, bias = _slopes(found, effects.ensemble, effects.echoes)
    given = np.concatenate([slopes, learned[None], learned[None] + bias])
    steps = int(np.clip(2 * found.lags[-1] + 20, 40, 400))
    both: list[np.ndarray] = []
    for held in (False, True):
        response = _respond(given, found.lags, float(found.dt), steps, held)
        # A member whose mean slopes are unstable has no finite response to average.
        response = np.clip(np.nan_to_num(response, nan=UNSTABLE), -UNSTABLE, UNSTABLE)
        own, of_learned, of_echoes = np.split(response, [len(slopes), len(slopes) + 1])
        y, spread = center_and_spread(own, of_echoes - of_learned)
        both += [y, y - spread, y + spread]
    pulse, pulse_low, pulse_high, step, step_low, step_high = both
    ts = float(found.dt) * np.arange(steps + 1)
    return Total(ts, pulse, step, pulse_low, pulse_high, step_low, step_high)


# Not the solver: a linear map of all members at once takes 2 ms for three variables, compiling the
# solver's program over a second.
def _respond(slopes, lags, dt: float, steps: int, held: bool) -> np.ndarray:
    """Return levels after a unit push of each source, by Heun's method, `[member time source
    target]`.
    """
    n, dim = slopes.shape[:2]
    buffer = np.zeros((n, dim, lags[-1] + 1, dim))  # [member pushed past variable]
    pushed = np.arange(dim)
    buffer[:, pushed, -1, pushed] = 1.0
    newest, past = lags[-1], np.asarray(lags)
    rate = lambda b: np.einsum("mstl,mpls->mpt", slopes, b[:, :, newest - past])  # noqa: E731

    def hold(state):
        if held:
            state[:, pushed, pushed] = 1.0
        return state

    out = [buffer[:, :, -1].copy()]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            now, first = buffer[:, :, -1].copy(), rate(buffer)
            buffer = np.concatenate([buffer[:, :, 1:], hold(now + dt * first)[:, :, None]], axis=2)
            new = hold(now + dt / 2 * (first + rate(buffer)))
            buffer[:, :, -1] = new
            out.append(new)
    return np.stack(out, axis=1)
