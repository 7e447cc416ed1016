"""Evidence for a discovery: what holds on another record, and the windows that decide an edge."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from .._checks import short_repr
from .._types import Checked
from ..assess._score import drift_of
from ..fit._fit import window_loss
from ..fit._prices import EBIC
from ..samples._prepare import prepare_samples, treated_columns
from ..samples._reading import read_alike, read_samples
from ..samples._samples import Samples
from ..samples._treatments import HELD
from ..select._measured import fit_splines, measure_graph
from ..select._midpoint import at_midpoints, read_steps
from ..select._screened import Screened
from ..windows._windows import Windows, lagged_windows
from ._arguments import inputs_of, kept_lags, variable
from ._forecast import clock_times, removed_in_time


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """The result of [`Discovery.validate`][ndde_jax.Discovery.validate] on another record; NumPy.

    - `names`, `lags`: those of the discovery; lags in samples.
    - `explained`: share of the variance of each rate of change that the learned drift explains
        without refitting, `[target]`; negative if a constant would do better.
    - `graph`: edges of the discovery, `[source target lag]`.
    - `holds`: the edges that, refitted on that record, are worth their price and explain more than
        chance does from block to block.
    - `strength`: strength of each edge on that record, a share of the variance of its target's
        rate.
    """

    names: tuple[str, ...]
    lags: tuple[int, ...]
    explained: Float[np.ndarray, " target"]
    graph: Bool[np.ndarray, "source target lag"]
    holds: Bool[np.ndarray, "source target lag"]
    strength: Float[np.ndarray, "source target lag"]

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{name} {round(share, 2) + 0.0:.0%}"  # not "-0%"
            for name, share in zip(self.names, self.explained.tolist(), strict=True)
        )
        lines = [f"Explained of the rates of change: {shares}."]
        kept, held = int(self.graph.sum()), int(self.holds.sum())
        lines.append(
            f"{held} of {kept} edges hold on this record: worth their price, and more than chance."
        )
        for i, j, a in np.argwhere(self.graph & ~self.holds):
            lines.append(
                f"  does not hold: {self.names[i]} -> {self.names[j]} at lag {self.lags[a]}, "
                f"worth {self.strength[i, j, a]:.3g}"
            )
        return "\n".join(lines)


def _read(found: Any, other: Any, dt: Any, t: Any) -> Samples:
    """Return another record, read and treated like that of the discovery."""
    known, own_time = found.samples, dt is None and t is None
    alike = read_alike(known, other, wanted_by="validate", time=own_time)
    if not own_time:
        # This checks the record and gives the interval of the stamps.
        given = read_samples(alike.values, dt=dt, t=t, names=known.names, time_unit=known.time_unit)
        alike = read_alike(known, given, wanted_by="validate")
    steps = ("seldom",) if treated_columns(known, HELD) else ()
    prepared = prepare_samples(read_samples(alike), steps, found.inputs, known.transform)
    gone = removed_in_time(found)
    timed = t is not None or (own_time and (alike.t is not None or bool(alike.starts)))
    if gone and not (timed and bool(alike.starts) == bool(known.starts)):
        raise ValueError(
            f"validate expected times on the clock of the discovery, since a "
            f"{' and a '.join(removed.name for removed in gone)} was removed from its record and "
            "must be removed from this one; got none. Give a table with dates, or t=."
        )
    values = []
    for number, value in enumerate(prepared.values):
        times = clock_times(found, prepared, number)
        values.append(value - known.level - sum(removed.removed(times, -1) for removed in gone))
    return dataclasses.replace(prepared, values=tuple(values))


def _windows(found: Any, samples: Samples) -> Windows:
    """Return windows with the scheme and lags of the discovery."""
    scheme, alike = found.windows.scheme, dict(lags=found.lags, prior=found.windows.prior)
    if scheme == "midpoint":
        return at_midpoints(read_steps(samples, **alike))
    return lagged_windows(samples, scheme=scheme, **alike)


# ---- windows that decide an edge ----


@dataclasses.dataclass(frozen=True, eq=False)
class Influence:
    """The influence of each window on an edge; NumPy; made by `found.influence`.

    - `value`: contribution of each window to the strength of the edge, `[row]`: the rise of its
        error without the edge, times its weight. Values sum to the strength. A negative value is
        evidence against the edge.
    - `drop`: by how much the strength would fall without a window and with all else refitted, to
        first order in its weight (the derivative of a minimum is that at fixed parameters).
    - `strength`: strength of the edge on these windows, a share of the variance of its target's
        rate: the rise of the mean squared error when splines are refitted without it. In-sample, so
        slightly above `found.scores`.
    - `time`: present time of each window, in the unit of the data, `[row]`; `trajectory`: its
        recording, `[row]`.
    """

    value: Float[np.ndarray, "row"]
    drop: Float[np.ndarray, "row"]
    strength: float
    time: Float[np.ndarray, "row"]
    trajectory: Int[np.ndarray, "row"]
    edge: tuple[str, str, tuple[int, ...]]

    def largest(self, share: float = 0.5) -> Float[np.ndarray, "moment"]:
        """Return the fewest times that together provide a share of the evidence for the edge,
        ascending.

        **Raises:** `ValueError` for a share outside 0 to 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie in [0, 1]; got {short_repr(share)}.")
        speaks = np.maximum(self.value, 0)
        order = np.argsort(-speaks)
        enough = np.searchsorted(np.cumsum(speaks[order]), share * speaks.sum()) + 1
        return np.sort(self.time[order[:enough]])

    def to_frame(self):
        """Return a pandas DataFrame with a row per window: trajectory, time, value, drop."""
        import pandas as pd

        names = ("trajectory", "time", "value", "drop")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        source, target, lags = self.edge
        at = ", ".join(map(str, lags))
        few = len(self.largest())
        return (
            f"Influence on {source} -> {target} at lag {at}: strength {self.strength:.3g}; "
            f"{few} of {len(self.value)} windows provide half of the evidence for it"
        )


class WithEvidence:
    """The evidence for a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    def validate(self: Any, other: Any, *, dt: Any = None, t: Any = None) -> Validation:
        """Return how well the discovery holds on another record: the share of each rate that the
        learned drift explains without refitting, and the edges that are worth their price there.

        **Arguments:**

        - `other`: one or several records of the same variables at the same interval, in any form
            that `discover` takes. Columns are matched by name if named, and others ignored. Seasons
            and trends that the discovery removed are also removed from it, by its times.
        - `dt`, `t`: its sampling interval or time stamps; by default those of the record, or else
            the interval of the discovery.

        **Returns:** [`Validation`][ndde_jax.use.Validation].

        **Raises:** `ValueError` for other variables or another sampling interval, for records
        without times if a season or a trend was removed, and for records that are too short for
        [`lagged_windows`][ndde_jax.lagged_windows].

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((800, 2))
        for k in range(799):
            x[k + 1] = 0.8 * x[k] + [0.4 * x[k, 1], 0] + 0.3 * rng.normal(size=2)
        found = ndde.discover(x[:400], dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        print(found.validate(x[400:]))
        ```
        """
        windows = _windows(self, _read(self, other, dt, t))
        valid, s = np.asarray(windows.valid), windows.scaling
        weight, rates = (np.asarray(a, float)[valid] for a in (windows.weight, windows.increment))
        rates = rates * np.asarray(s.rate_scale, float) + np.asarray(s.rate_center, float)
        mean = weight @ rates / weight.sum()
        left = weight @ (rates - drift_of(windows, self.model)) ** 2
        explained = 1 - left / np.maximum(weight @ (rates - mean) ** 2, 1e-300)
        measured = measure_graph(Screened(windows), self.reads, EBIC())
        strength = np.asarray(measured.strengths.value, float)
        holds = self.graph & np.asarray(measured.strengths.kept())
        return Validation(self.names, self.lags, explained, self.graph, holds, strength)

    def influence(
        self: Any,
        source: Checked[str | int],
        target: Checked[str | int],
        *,
        lag: Checked[int | None] = None,
    ) -> Influence:
        """Return the contribution of each window to the strength of an edge, and the loss without
        the window; in closed form, by splines on the graph.

        **Arguments:**

        - `source`, `target`: variables, by name or index.
        - `lag`: lag in samples; by default all kept lags of the source together.

        **Returns:** [`Influence`][ndde_jax.use.Influence].

        **Raises:** `ValueError` for an edge that was not kept.

        Influence of an observation on a minimum: Cook and Weisberg, *Residuals and Influence in
        Regression* (1982).

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            x[k + 1] = 0.8 * x[k] + [0.4 * x[k, 1], 0] + 0.3 * rng.normal(size=2)
        found = ndde.discover(
            x, dt=0.2, lags=(0,), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
        )
        made = found.influence(1, 0)
        print(made)
        ```
        """
        i, j = variable(source, self, "a source"), variable(target, self, "a target")
        reads = np.asarray(self.reads)
        slots = kept_lags(self, i, j, lag, "lag", "no window decides it")
        without = reads.copy()
        without[i, j] &= ~np.any([inputs_of(self, i, j, int(a)) for a in slots], axis=0)
        windows = self.windows
        weight = np.asarray(windows.weight, np.float64)
        weight = weight / weight.sum()
        gain = _losses(windows, without)[:, j] - _losses(windows, reads)[:, j]
        used = weight > 0
        strength = float(weight[used] @ gain[used])
        # Leaving a window out raises the weights of the others.
        drop = weight * (gain - strength) / (1 - weight)
        trajectory, time = _when(self, windows)
        edge = (self.names[i], self.names[j], tuple(int(self.lags[a]) for a in slots))
        value = weight * gain
        return Influence(value[used], drop[used], strength, time[used], trajectory[used], edge)


def _losses(windows: Windows, graph: np.ndarray) -> np.ndarray:
    """Return the squared errors of every window, `[row target]`, of splines on a graph."""
    model = fit_splines(windows, graph)
    loss = jax.vmap(lambda past, rate: window_loss(model, past, rate, scaling=windows.scaling))
    return np.asarray(loss(windows.history, windows.increment), np.float64)


def _when(found: Any, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Return the trajectory and time of every window."""
    position = np.asarray(windows.position)
    # Rows of one trajectory are consecutive, and all trajectories start at the same sample.
    first = np.diff(position, prepend=position[0] - 2) != 1
    trajectory = np.cumsum(first) - 1
    sample = position - position[first][trajectory] + position[0]
    begins = np.cumsum([0, *map(len, found.samples.times)])
    times = np.concatenate([np.asarray(times, float) for times in found.samples.times])
    return trajectory, times[begins[trajectory] + sample]
