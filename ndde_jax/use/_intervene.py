"""Interventions: the same future with and without a change of the system."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._checks import check_key, check_real_array, check_whole, is_traced, refusal, shown
from .._types import namespace_of
from ._arguments import inputs_of, read_span, variable
from ._ensemble import Ensemble
from ._forecast import (
    by_time,
    divergence_note,
    known_inputs,
    level_of,
    newest,
    path_quantile,
    read_history,
)
from ._simulate import Change, Edits, check_memory, learned_paths, no_change, with_column

# Share of resamples below which an edge is called unsupported.
UNSUPPORTED = 0.5
# Share of values outside the range of the data from which on it is said.
OUTSIDE = 0.05
# Correlation of neighbouring residuals from which on it is said.
MEMORY = 0.1


@dataclasses.dataclass(frozen=True)
class Intervention:
    """The paths without and with a change, on the same noise; made by `found.intervene`.

    - `ts`: times `[horizon]`.
    - `baseline`, `changed`: `[path horizon dim]`, physical units; NumPy, of JAX where something is
        traced. Path by path they differ only by the change, so their difference is its effect.
    - `diverged`: paths of either that left the range of the data a thousandfold, bool `[path]`.
    - `notes`: sentences on the assumptions of the answer.
    """

    ts: Float[np.ndarray, "horizon"]
    baseline: Float[Array | np.ndarray, "path horizon dim"]
    changed: Float[Array | np.ndarray, "path horizon dim"]
    diverged: Bool[Array, "path"]
    names: tuple[str, ...]
    time_unit: str
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> Float[Array | np.ndarray, "path horizon dim"]:
        """The effect of the change, path by path."""
        return self.changed - self.baseline

    def effect(self, q: Any = 0.5) -> Float[Array | np.ndarray, "..."]:
        """Return a quantile of the difference, `[horizon dim]`; the median by default."""
        return path_quantile(self.difference, q)

    def to_frame(self):
        """Return a pandas DataFrame: time, variable, medians without and with, effect, 90 %
        interval.
        """
        medians = (path_quantile(paths, 0.5) for paths in (self.baseline, self.changed))
        names = ("baseline", "changed", "effect", "low_90", "high_90")
        effect = self.effect(np.array([0.5, 0.05, 0.95]))
        return by_time(self, dict(zip(names, (*medians, *effect), strict=True)))

    def plot(self):
        """Return a matplotlib Figure; needs matplotlib."""
        from ..plot import plot_intervention

        return plot_intervention(self)

    def __repr__(self) -> str:
        unit = f" {self.time_unit}" if self.time_unit else ""
        return (
            f"Intervention on {', '.join(self.names)}: {self.changed.shape[0]} pairs of paths "
            f"from {self.ts[0]:.6g} to {self.ts[-1]:.6g}{unit}"
        )


def intervene(
    found: Any,
    ensemble: Ensemble,
    values: Any,
    *,
    horizon: Any,
    start: Any,
    stop: Any,
    paths: Any,
    key: Any,
    shift: Any,
    cut: Any,
    scale: Any,
    delay: Any,
    inputs: Any,
    history: Any,
) -> Intervention:
    """Return futures with and without an intervention; see `found.intervene`."""
    key = check_key(key)
    steps = read_span(horizon, found, "horizon")
    begin = read_span(start, found, "start", least=0)
    end = steps + 1 if stop is None else read_span(stop, found, "stop", least=1)
    if not begin < end or begin >= steps:
        raise ValueError(
            f"start must lie before stop and before the horizon; got start {begin}, stop "
            f"{'none' if stop is None else end}, horizon {steps} samples."
        )
    check_whole(paths, "paths")
    check_memory(steps, paths, len(found.names))
    when = (np.arange(steps + 1) >= begin) & (np.arange(steps + 1) < end)
    edits, cuts = _edits(found, cut, scale, delay)
    need = int(found.lags[-1]) + 1 if edits is None else int(np.max(edits.at)) + 1
    past, notes, ends = read_history(found, history, need)
    plain, told = known_inputs(found, no_change(steps, len(found.names)), inputs)
    ts = ends.after(found, np.arange(steps + 1))
    level = ends.level(found, ts)
    clock = (ends.time, float(found.dt), level)
    change, acted = _change(found, plain, values, shift, edits, when, clock)
    if not acted and edits is None:
        raise ValueError(
            "intervene needs something to do: values to set, shift=, cut=, scale= or delay=."
        )
    given = (newest(found, past, need), paths, key)
    baseline, first = learned_paths(found, ensemble, plain, *given)
    changed, second = learned_paths(found, ensemble, change, *given)
    _check_set(found, change, changed, acted)
    notes = (
        *notes, *told, *_said_of_shift(level, shift, found),
        *_notes(found, ensemble, acted, cuts, change, when, baseline, changed),
        *divergence_note(first | second),
    )  # fmt: skip
    level = ends.level(found, ts[1:])
    baseline, changed = level.outside(baseline), level.outside(changed)
    diverged, names = first | second, found.names
    return Intervention(ts[1:], baseline, changed, diverged, names, found.time_unit, notes)


def _mapping(value: Any, name: str, what: str) -> dict:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise refusal(name, f"a mapping from {what}", value)
    return dict(value)


def _series(value: Any, name: str, steps: int) -> Any:
    """Return values by sample from 0 on, from a number or `[horizon]` of them."""
    check_real_array(value, name, "a number, or one per step of the horizon", finite=True)
    xp = namespace_of(value)
    value = xp.asarray(value, float)
    if value.shape not in ((), (steps,)):
        raise ValueError(
            f"{name} must be a number, or [horizon] = ({steps},) of them; got shape {value.shape}."
        )
    value = xp.broadcast_to(value, (steps,))
    return xp.concatenate([value[:1], value])


def _change(found, plain: Change, values, shift, edits, when, clock):
    """Return the change to make, and the variables it acts on."""
    steps, dim = len(when) - 1, plain.value.shape[1]
    held, value, rules, acted = plain.held, plain.value, {}, []
    for name, given in _mapping(values, "the first argument", "variables to values").items():
        i = variable(name, found, "a variable to set")
        acted.append(i)
        held = with_column(held, i, when | held[:, i])
        if callable(given):
            rules[i] = _rule(given, str(name))
        else:
            new = _series(given, f"the value of {name}", steps)
            clock[2].check(i, given, f"the value of {name}")
            xp = namespace_of((new, value))
            new = clock[2].one_inside(i, new, xp)
            value = with_column(value, i, xp.where(when, new, value[:, i]))
    offset = None
    for name, given in _mapping(shift, "shift", "variables to amounts").items():
        i = variable(name, found, "a variable to shift")
        if i in acted:
            raise ValueError(f"{found.names[i]} is set, so shifting it as well means nothing.")
        acted.append(i)
        offset = np.zeros((steps + 1, dim)) if offset is None else offset
        amount = _series(given, f"the shift of {name}", steps)
        offset = with_column(offset, i, namespace_of(amount).where(when, amount, 0))
    rule = _together(rules, clock, when) if rules else None
    return Change(held, value, offset, when, edits, rule), acted


def _rule(function: Any, name: str):
    """Return a function of time, or of time and state."""
    try:
        parameters = inspect.signature(function).parameters.values()
        count = sum(
            p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            for p in parameters
        )
    except (TypeError, ValueError):
        count = 1
    if count not in (1, 2):
        raise ValueError(
            f"the value of {name} must be a function of time, or of time and state; got one of "
            f"{count} arguments."
        )
    return (lambda t, x: function(t)) if count == 1 else function


def _together(rules, clock, when):
    """Return all functions as one, of states in measured units; where they are not active, values
    set before stay.
    """
    last, dt, level = clock

    def rule(k, state, value):
        here = level.at(k)
        state = here.outside(state)
        t = last + dt * jnp.asarray(k, value.dtype)
        for i, function in rules.items():
            new = jax.vmap(lambda x, f=function: jnp.asarray(f(t, x), x.dtype).reshape(()))
            new = here.one_inside(i, new(state))
            value = value.at[:, i].set(jnp.where(jnp.asarray(when)[k], new, value[:, i]))
        return value

    return rule


def _edits(found, cut, scale, delay) -> tuple[Edits | None, list[tuple[int, int, int]]]:
    """Return changed mechanisms, and their edges."""
    cut = [] if cut is None else cut
    if isinstance(cut, str) or not isinstance(cut, list | tuple):
        raise refusal("cut", "a list of edges such as [('x', 'y')]", cut)
    if len(cut) in (2, 3) and isinstance(cut[0], str):
        cut = [tuple(cut)]
    scale = _mapping(scale, "scale", "edges such as ('x', 'y') to factors")
    delay = _mapping(delay, "delay", "edges such as ('x', 'y') to lags in samples")
    if not (cut or scale or delay):
        return None, []
    dim, n_lags = len(found.names), len(found.lags)
    at = np.broadcast_to(np.asarray(found.lags)[None, :, None], (dim, n_lags, dim)).copy()
    closed, touched = np.zeros(at.shape, bool), []
    for edge in cut:
        for i, j, a in _edge(found, edge, "cut"):
            closed[j, inputs_of(found, i, j, a), i] = True
            touched.append((i, j, a))
    for edge, new in delay.items():
        places = _edge(found, edge, "delay")
        if len(places) > 1:
            raise ValueError(
                f"{_said(edge)} is kept at lags {', '.join(str(found.lags[a]) for *_, a in places)}"
                "; say which one gets the new delay, as (source, target, lag)."
            )
        ((i, j, a),) = places
        inputs = inputs_of(found, i, j, a)
        at[j, inputs, i] = read_span(new, found, f"the delay of {_said(edge)}", least=0)
        touched.append((i, j, a))
    scaled, factors = [], []
    for edge, factor in scale.items():
        check_real_array(factor, f"the factor of {_said(edge)}", "one number", finite=True)
        mask = np.zeros(at.shape, bool)
        for i, j, a in _edge(found, edge, "scale"):
            mask[j, inputs_of(found, i, j, a), i] = True
            touched.append((i, j, a))
        scaled.append(mask)
        factors.append(factor)
    dtype = found.model.dt.dtype
    factors = jnp.stack([jnp.asarray(f, dtype) for f in factors]) if factors else jnp.zeros(0)
    scaled = np.stack(scaled) if scaled else np.zeros((0, *at.shape), bool)
    return Edits(at, closed, scaled, jnp.asarray(factors, dtype)), touched


def _said(edge: Any) -> str:
    return " -> ".join(map(str, edge[:2])) if isinstance(edge, tuple | list) else shown(edge)


def _edge(found, edge: Any, name: str) -> list[tuple[int, int, int]]:
    """Return the kept edges (source, target, position of the lag) that are meant."""
    if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
        raise refusal(name, "of edges (source, target) or (source, target, lag)", edge)
    i, j = (variable(v, found, f"an edge of {name}") for v in edge[:2])
    kept = [int(a) for a in np.flatnonzero(found.graph[i, j])]
    if len(edge) == 3:
        kept = [a for a in kept if found.lags[a] == edge[2]]
    if not kept:
        raise ValueError(
            f"{name}: {_said(edge)} is no edge of the graph"
            + (f" at lag {edge[2]}" if len(edge) == 3 else "")
            + ", so nothing would change."
        )
    return [(i, j, a) for a in kept]


def _check_set(found, change: Change, changed, acted) -> None:
    """Raise an error unless functions set finite numbers, above 0 where logarithms are read."""
    if change.rule is None or is_traced(changed, change.value):
        return
    for i in acted:
        if not bool(jnp.isfinite(changed[..., i]).all()):
            kind = level_of(found).kind(i)
            expected = "values above 0, as its logarithm is read" if kind == "log" else "numbers"
            raise ValueError(
                f"the function for the value of {found.names[i]} must return {expected}; on some "
                "path it did not."
            )


def _said_of_shift(level, shift, found) -> list[str]:
    """Return a note on a shift of a transformed variable: it shifts the transformed values."""
    notes = []
    for name, amount in _mapping(shift, "shift", "variables to amounts").items():
        i = variable(name, found, "a variable to shift")
        kind = level.kind(i)
        if kind == "ranks":
            notes.append(f"the shift of {found.names[i]} is one of its normal scores")
        elif kind == "log" and not is_traced(amount) and np.ndim(amount) == 0:
            factor = float(np.exp(np.asarray(amount, float)))
            notes.append(
                f"the shift of {found.names[i]} is one of its logarithm: others see it multiplied "
                f"by {factor:.4g}"
            )
        elif kind == "log":
            notes.append(f"the shift of {found.names[i]} is one of its logarithm, a factor")
    return notes


def _notes(found, ensemble, acted, cuts, change, when, baseline, changed) -> list[str]:
    if is_traced(baseline, changed, change.value):
        return []
    names, notes = found.names, []
    for i, j, a in _weak(found, ensemble, acted, cuts):
        notes.append(
            f"rests on {names[i]} -> {names[j]} at lag {found.lags[a]}, an edge that only "
            f"{ensemble.share[i, j, a]:.0%} of the resamples contain."
        )
    seen = np.concatenate([np.asarray(v, float) for v in found.samples.values])
    low, high = np.nanmin(seen, axis=0), np.nanmax(seen, axis=0)
    ends = level_of(found).outside(np.stack([low, high]))
    outside = [
        np.mean((np.asarray(p) < low) | (np.asarray(p) > high), axis=0)[when[1:]].mean(axis=0)
        for p in (baseline, changed)
    ]
    for i in np.flatnonzero(outside[1] > outside[0] + OUTSIDE):
        notes.append(
            f"{names[i]} is outside the range of the data, {ends[0, i]:.4g} to {ends[1, i]:.4g}, "
            f"in {outside[1][i]:.0%} of the times and paths ({outside[0][i]:.0%} without the "
            "change): there the drift is an extrapolation."
        )
    notes += _hidden(found, ensemble)
    return notes


def _weak(found, ensemble, acted, touched) -> list[tuple[int, ...]]:
    """Return the kept edges along which the change spreads and that too few resamples contain."""
    reached, frontier = set(acted) | {j for _, j, _ in touched}, None
    while frontier != reached:
        frontier = set(reached)
        reached |= {int(j) for i in frontier for j in np.flatnonzero(found.graph[i].any(axis=1))}
    edges = {tuple(map(int, e)) for e in np.argwhere(found.graph) if int(e[0]) in reached}
    # What is set no longer listens.
    edges = {e for e in edges | set(touched) if e[1] not in acted or e in touched}
    weak = [e for e in edges if not ensemble.share[e] >= UNSUPPORTED]
    return sorted(weak, key=lambda e: ensemble.share[e])[:5]


def _hidden(found, ensemble) -> list[str]:
    """Return a note on residuals with memory, which point to an unmeasured driver."""
    memory = ensemble.noise.memory
    names = [n for n, m in zip(found.names, memory, strict=True) if m > MEMORY]
    if not names:
        return []
    return [
        f"what the drift of {', '.join(names)} leaves unexplained persists from sample to sample: "
        "a driver may be hidden, and the change could act through it differently."
    ]
