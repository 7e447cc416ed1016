"""What of a discovery holds on another record."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..fit._prices import EBIC
from ..measure._measured import measure_graph
from ..samples._prepare import prepare_samples
from ..samples._reading import read_samples
from ..samples._samples import Samples
from ..select._midpoint import halfway, read_steps
from ..windows._windows import Windows, lagged_windows

# An interval between samples may differ by this share, as clocks that are rounded do.
SAME_INTERVAL = 1e-3


@dataclasses.dataclass(frozen=True)
class Validation:
    """What [`Discovery.validate`][ndde_jax.Discovery.validate] found on another record; NumPy.

    - `names`, `lags`: of the discovery; lags in samples.
    - `explained`: share of the variance of each rate of change that the learned drift explains, as
        it is, `[target]`; below zero where a constant would do better.
    - `graph`: edges of the discovery, `[source target lag]`.
    - `holds`: those of them that are worth their price there, refitted, and more than chance does
        from block to block.
    - `strength`: what each is worth there, a share of the variance of its target's rate.
    """

    names: tuple[str, ...]
    lags: tuple[int, ...]
    explained: Float[np.ndarray, " target"]
    graph: Bool[np.ndarray, "source target lag"]
    holds: Bool[np.ndarray, "source target lag"]
    strength: Float[np.ndarray, "source target lag"]

    def __str__(self) -> str:
        shares = ", ".join(
            f"{name} {share:.0%}" for name, share in zip(self.names, self.explained, strict=True)
        )
        lines = [f"Explained of the rates of change: {shares}."]
        kept, held = int(self.graph.sum()), int(self.holds.sum())
        lines.append(f"{held} of {kept} edges hold on this record.")
        for i, j, a in np.argwhere(self.graph & ~self.holds):
            lines.append(
                f"  does not hold: {self.names[i]} -> {self.names[j]} at lag {self.lags[a]}, "
                f"worth {self.strength[i, j, a]:.3g}"
            )
        return "\n".join(lines)


def validate(found: Any, other: Any, *, dt: Any = None, t: Any = None) -> Validation:
    """Return what holds on another record; see [`Discovery.validate`][ndde_jax.Discovery.validate].

    **Raises:** `ValueError` for other variables or another sampling interval.
    """
    samples = _read(found, other, dt, t)
    windows = _windows(found, samples)
    histories = np.asarray(windows.history, float)
    s = jax.tree.map(lambda a: np.asarray(a, float), windows.scaling)
    physical = histories * s.scale[None, None] + s.center[None, None]
    dtype = found.model.dt.dtype
    # A shape of its own for every length would be a program of its own.
    says = np.asarray(jax.lax.map(found.model, jnp.asarray(physical, dtype), batch_size=256), float)
    rates = np.asarray(windows.increment, float) * s.rate_scale[None] + s.rate_center[None]
    weight = np.asarray(windows.weight, float) * np.asarray(windows.valid)
    mean = weight @ rates / weight.sum()
    left = weight @ (rates - says) ** 2
    explained = 1 - left / np.maximum(weight @ (rates - mean) ** 2, 1e-300)
    measured = measure_graph(windows, found.reads, EBIC())
    strength = np.asarray(measured.strengths.value, float)
    holds = found.graph & np.asarray(measured.strengths.kept())
    return Validation(found.names, found.lags, explained, found.graph, holds, strength)


def _read(found: Any, other: Any, dt: Any, t: Any) -> Samples:
    """Return another record as the discovery reads its own."""
    timed = isinstance(other, Samples) or hasattr(other, "index") or hasattr(other, "coords")
    if dt is None and t is None and not timed:
        dt = found.dt
    named = isinstance(other, Samples) or hasattr(other, "columns") or hasattr(other, "coords")
    samples = read_samples(other, dt=dt, t=t, names=None if named else found.names)
    if samples.names != found.names:
        raise ValueError(
            f"validate expected the variables {', '.join(found.names)}; got "
            f"{', '.join(samples.names)}. Select and order them like those of the discovery."
        )
    if not abs(samples.dt / found.dt - 1) < SAME_INTERVAL:
        raise ValueError(
            f"validate expected a sampling interval of {found.dt:.6g}; got {samples.dt:.6g}. "
            "Resample the record to that of the discovery."
        )
    return prepare_samples(samples, (), found.inputs, found.samples.transform)


def _windows(found: Any, samples: Samples) -> Windows:
    """Return windows of the scheme and lags of the discovery."""
    if found.windows.scheme == "midpoint":
        return halfway(read_steps(samples, lags=found.lags, prior=found.windows.prior))
    scheme = found.windows.scheme
    return lagged_windows(samples, lags=found.lags, scheme=scheme, prior=found.windows.prior)
