"""Interventions: simulated futures with and without a change of the system, on the same noise."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import (
    argument_error,
    check_key,
    check_real_array,
    check_whole,
    is_traced,
    short_repr,
)
from .._types import Checked, namespace_of
from .._wording import amount, listed
from ._arguments import inputs_of, kept_lags, mapping, read_span, series, variable
from ._ensemble import Ensemble
from ._forecast import (
    Level,
    Origin,
    divergence_note,
    frame_by_time,
    known_inputs,
    outside_note,
    path_quantile,
    read_history,
    summary_of_ends,
    times_of,
)
from ._left_out import spread_by_replicates
from ._simulate import Change, Edits, check_memory, learned_paths, with_column

# Share of resamples below which a note calls an edge weak.
UNSUPPORTED = 0.5
# Effects below this share of the range of a variable's paths are rounding errors in single
# precision. The range counts, not the level, since a large level is subtracted first.
ROUNDING = 1e-6
# Correlation of neighbouring residuals above which a note reports it.
MEMORY = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Intervention:
    """The paths without and with a change, on the same noise; made by `found.intervene`.

    - `ts`: times `[horizon]`.
    - `baseline`, `changed`: `[path horizon dim]`, in measured units; NumPy, or JAX if anything is
        traced. Each pair of paths differs only by the change, so their difference is its effect.
    - `diverged`: pairs in which a path left the range of the data a thousandfold, bool `[path]`.
    - `notes`: sentences on the assumptions of the result.
    - `start`: the date of time 0 in ISO 8601; empty if unknown.
    """

    ts: Float[np.ndarray, "horizon"]
    baseline: Float[Array | np.ndarray, "path horizon dim"]
    changed: Float[Array | np.ndarray, "path horizon dim"]
    diverged: Bool[Array, "path"]
    names: tuple[str, ...]
    time_unit: str
    notes: tuple[str, ...] = ()
    start: str = ""

    @property
    def difference(self) -> Float[Array | np.ndarray, "path horizon dim"]:
        """The effect of the change, path by path."""
        return self.changed - self.baseline

    def effect(self, q: Any = 0.5) -> Float[Array | np.ndarray, "..."]:
        """Return a quantile of the difference, `[horizon dim]`; the median by default."""
        return path_quantile(self.difference, q)

    def to_frame(self):
        """Return a pandas DataFrame: time (and date if known), variable, medians without and with
        the change, effect, and its 90 % interval.
        """
        medians = (path_quantile(paths, 0.5) for paths in (self.baseline, self.changed))
        names = ("baseline", "changed", "effect", "low_90", "high_90")
        effect = self.effect(np.array([0.5, 0.05, 0.95]))
        return frame_by_time(self, dict(zip(names, (*medians, *effect), strict=True)))

    def plot(self):
        """Return a matplotlib Figure; needs matplotlib."""
        from ..plot import plot_intervention

        return plot_intervention(self)

    def __repr__(self) -> str:
        pairs = amount(len(self.changed), "pair", 9)
        head = f"Intervention, {pairs} of paths {times_of(self)}"
        if is_traced(self.changed):
            return head
        inside = np.asarray(self.baseline)[~np.asarray(self.diverged)]
        size = np.ptp(inside, axis=(0, 1)) if len(inside) else 0.0
        return head + summary_of_ends(self, "effects", self.difference, "+", ROUNDING * size)


class WithInterventions:
    """The interventions on a discovered system. A base of [`Discovery`][ndde_jax.Discovery]."""

    def intervene(
        self: Any,
        values: Checked[Mapping | None] = None,
        *,
        horizon: Checked[int | str] = 24,
        start: Checked[int | str] = 0,
        stop: Checked[int | str | None] = None,
        paths: Checked[int] = 200,
        key: Checked[PRNGKeyArray],
        shift: Checked[Mapping | None] = None,
        cut: Checked[Sequence | None] = None,
        scale: Checked[Mapping | None] = None,
        delay: Checked[Mapping | None] = None,
        inputs: Any = None,
        history: Any = None,
        ensemble: Checked[Ensemble | None] = None,
    ) -> Intervention:
        """Return simulated futures with and without an intervention, on the same noise.

        The intervention holds at samples k with `start` ≤ k < `stop`. Sample 0 is the present, and
        `ts` begins one sample later. Several changes may be combined.

        **Arguments:**

        - `values`: variables to set, by name or index, in measured units: a number, `[horizon]`
            numbers, or a function of time (as in `ts`), or of time and state `[dim]`. With `start`
            0 the present is set as well.
        - `shift`: amounts, one or `[horizon]`, added to the values of a variable that all *other*
            variables read, now and later, and to its recorded values. Its own drift reads it
            unshifted. For variables read as logarithms or ranks, amounts are in those units.
        - `cut`: edges (source, target) or (source, target, lag). The target reads the source at its
            mean over the record.
        - `scale`: a mapping from edges to factors of their effect: the difference between the rate
            with the source and the rate with the source at its mean. 0 is the same as a cut.
        - `delay`: a mapping from edges to new delays, in samples or with a unit.
        - `horizon`, `start`, `stop`: in samples, or times with their unit such as "6h".
        - `paths`, `key`, `inputs`, `history`, `ensemble`: as in
            [`forecast`][ndde_jax.Discovery.forecast].

        **Returns:** [`Intervention`][ndde_jax.use.Intervention]. Its `notes` say if the result
        depends on an edge that fewer than half of the resamples contain, leaves the range of the
        data, or may miss a hidden driver. Numbers in `values`, `shift` and `scale` may be traced:
        `jax.grad` of any outcome with respect to them works, without notes on the result.

        **Raises:** `ValueError` for an unknown variable, an edge that is not in the graph, or if
        there is nothing to do.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 2))
        for k in range(399):
            rate = np.array([x[k, 1] - x[k, 0], -x[k, 1]])
            x[k + 1] = x[k] + 0.2 * rate + 0.3 * rng.normal(size=2)
        found = ndde.discover(
            x, dt=0.2, names=("heat", "sun"), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
        )
        g = found.intervene({"sun": 1.0}, horizon=30, key=jax.random.key(1))
        print(g.effect()[-1])  # about what the sun is changed by, for both
        ```
        """
        key = check_key(key)
        steps = read_span(horizon, self, "horizon")
        begin = read_span(start, self, "start", least=0)
        end = steps + 1 if stop is None else read_span(stop, self, "stop", least=1)
        if not begin < end or begin >= steps:
            raise ValueError(
                f"start must lie before stop and before the horizon; got start {begin}, stop "
                f"{'none' if stop is None else end}, horizon {steps} samples."
            )
        check_whole(paths, "paths")
        check_memory(steps, paths, len(self.names))
        when = (np.arange(steps + 1) >= begin) & (np.arange(steps + 1) < end)
        edits, cuts = _edits(self, cut, scale, delay)
        need = int(self.lags[-1]) + 1 if edits is None else int(np.max(edits.at)) + 1
        origin, later = read_history(self, history, need), np.arange(1, steps + 1)
        level = origin.level(np.arange(steps + 1))
        plain, told, moved = known_inputs(origin, inputs, level, steps)
        # The ensemble corrects one-step forecasts on the data, but not the effect of a change.
        ensemble = spread_by_replicates(self, self._given(ensemble, moved), self._replicates)
        change = dataclasses.replace(plain, active=when, edits=edits)
        change, acted = _setting(self, change, values, when, origin, level)
        change, shifted, about = _shifting(self, change, shift, when, acted)
        acted += shifted
        if not acted and edits is None:
            raise ValueError(
                "intervene needs a change: values to set, shift=, cut=, scale= or delay=."
            )
        given = (origin.newest(need), paths, key)
        baseline, first = learned_paths(self, ensemble, plain, *given)
        changed, second = learned_paths(self, ensemble, change, *given)
        _check_set(self, change, changed, acted)
        diverged = first | second
        notes = (
            *origin.notes, *told, *about,
            *_notes(self, ensemble, acted, cuts, change, when, baseline, changed),
            *divergence_note(diverged),
        )  # fmt: skip
        level = origin.level(later)
        baseline, changed = level.outside(baseline), level.outside(changed)
        about = (self.names, self.time_unit, notes, origin.start)
        return Intervention(origin.after(later), baseline, changed, diverged, *about)


def _setting(found, change: Change, values, when, origin: Origin, level: Level):
    """Return a change that also sets variables, and the variables set."""
    steps, rules, acted = len(when) - 1, {}, []
    for name, given in mapping(values, "the first argument", "variables to values").items():
        i = variable(name, found, "a variable to set")
        if i in acted:
            raise ValueError(f"{found.names[i]} is set twice; give it one value.")
        acted.append(i)
        if callable(given):
            rules[i], given = _rule(given, str(name)), None
        else:
            given = level.series(i, given, f"the value of {name}", steps)
        change = change.setting(i, when, given)
    rule = _together(rules, origin, level, when) if rules else None
    return dataclasses.replace(change, rule=rule), acted


def _shifting(found, change: Change, shift, when, already: list[int]):
    """Return a change that also shifts variables, the variables shifted, and notes on transformed
    variables, whose transformed values are shifted.
    """
    offset, notes = np.zeros(change.value.shape), []
    shifted: list[int] = []
    for name, by in mapping(shift, "shift", "variables to amounts").items():
        i = variable(name, found, "a variable to shift")
        if i in already:
            raise ValueError(f"{found.names[i]} is set, so it cannot be shifted as well.")
        if i in shifted:
            raise ValueError(f"{found.names[i]} is shifted twice; give it one amount.")
        shifted.append(i)
        new = series(by, f"the shift of {name}", len(when) - 1)
        offset = with_column(offset, i, namespace_of(new).where(when, new, 0))
        kind = found.samples.transform.get(found.names[i])
        about = f"the shift of {found.names[i]} applies to its"
        if kind == "ranks":
            notes.append(f"{about} normal scores")
        elif kind == "log" and not is_traced(by) and np.ndim(by) == 0:
            factor = float(np.exp(np.asarray(by, float)))
            notes.append(f"{about} logarithm: others read it multiplied by {factor:.4g}")
        elif kind == "log":
            notes.append(f"{about} logarithm, so it is a factor")
    return dataclasses.replace(change, shift=offset if shifted else None), shifted, notes


def _rule(function: Any, name: str):
    """Return a given function as one of time and state."""
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
            f"the value of {name} must be a function of time, or of time and state; got one with "
            f"{count} arguments."
        )
    return (lambda t, x: function(t)) if count == 1 else function


def _together(rules, origin, level, when):
    """Return all functions of time and state, in measured units, as one; when they are not active,
    values set before stay.
    """

    def rule(k, state, value):
        here = level.at(k)
        state = here.outside(state)
        t = origin.after(jnp.asarray(k, value.dtype))
        for i, function in rules.items():
            new = jax.vmap(lambda x, f=function: jnp.asarray(f(t, x), x.dtype).reshape(()))
            new = here.one_inside(i, new(state))
            value = value.at[:, i].set(jnp.where(jnp.asarray(when)[k], new, value[:, i]))
        return value

    return rule


def _edits(found, cut, scale, delay) -> tuple[Edits | None, list[tuple[int, int, int]]]:
    """Return the changed mechanisms, and their edges."""
    cut = [] if cut is None else cut
    if not isinstance(cut, list | tuple):
        raise argument_error("cut", "a list of edges such as [('x', 'y')]", cut)
    if len(cut) in (2, 3) and isinstance(cut[0], str):
        cut = [tuple(cut)]
    scale = mapping(scale, "scale", "edges such as ('x', 'y') to factors")
    delay = mapping(delay, "delay", "edges such as ('x', 'y') to lags in samples")
    if not (cut or scale or delay):
        return None, []
    dim = len(found.names)
    at = np.tile(np.asarray(found.lags)[None, :, None], (dim, 1, dim))
    closed, scaled, touched = np.zeros(at.shape, bool), [], []

    def inputs(edge, name):
        """Return the inputs of an edge, bool `[target lag source]`."""
        places, mask = _edge(found, edge, name), np.zeros(at.shape, bool)
        if name == "delay" and len(places) > 1:
            raise ValueError(
                f"{_in_words(edge)} has edges at lags "
                f"{', '.join(str(found.lags[a]) for *_, a in places)}; say which one gets the new "
                "delay, as (source, target, lag)."
            )
        for i, j, a in places:
            mask[j, inputs_of(found, i, j, a), i] = True
        touched.extend(places)
        return mask

    for edge in cut:
        closed |= inputs(edge, "cut")
    for edge, new in delay.items():
        mask = inputs(edge, "delay")
        at[mask] = read_span(new, found, f"the delay of {_in_words(edge)}", least=0)
    for edge, factor in scale.items():
        check_real_array(factor, f"the factor of {_in_words(edge)}", "one number", finite=True)
        scaled.append(inputs(edge, "scale"))
    dtype = found.model.dt.dtype
    factors = jnp.stack([jnp.asarray(f, dtype) for f in (0.0, *scale.values())])[1:]
    return Edits(at, closed, np.reshape(scaled, (-1, *at.shape)).astype(bool), factors), touched


def _in_words(edge: Any) -> str:
    return " -> ".join(map(str, edge[:2])) if isinstance(edge, tuple | list) else short_repr(edge)


def _edge(found, edge: Any, name: str) -> list[tuple[int, int, int]]:
    """Return the kept edges (source, target, position of the lag) that a key refers to."""
    if not isinstance(edge, tuple | list) or len(edge) not in (2, 3):
        raise argument_error(name, "made of edges (source, target) or (source, target, lag)", edge)
    i, j = (variable(v, found, f"an edge of {name}") for v in edge[:2])
    lag = edge[2] if len(edge) == 3 else None
    kept = kept_lags(found, i, j, lag, f"a lag in {name}", f"{name}= would change nothing")
    return [(i, j, int(a)) for a in kept]


def _check_set(found, change: Change, changed, acted) -> None:
    """Raise an error unless functions return finite numbers, above 0 if logarithms are read."""
    if change.rule is None or is_traced(changed, change.value):
        return
    for i in acted:
        if not bool(jnp.isfinite(changed[..., i]).all()):
            logarithm = found.samples.transform.get(found.names[i]) == "log"
            expected = "values above 0, since its logarithm is read" if logarithm else "numbers"
            raise ValueError(
                f"the function for the value of {found.names[i]} must return {expected}; on at "
                "least one path it did not."
            )


def _notes(found, ensemble, acted, touched, change, when, baseline, changed) -> list[str]:
    """Return notes on what the result depends on: weak edges, extrapolation, hidden drivers."""
    if is_traced(baseline, changed, change.value):
        return []
    names = found.names
    notes = [
        f"the result rests on {names[i]} -> {names[j]} at lag {found.lags[a]}, an edge that only "
        f"{ensemble.share[i, j, a]:.0%} of the resamples contain."
        for i, j, a in _weak(found, ensemble, acted, touched)
    ]
    notes += outside_note(found, changed, baseline, when[1:])
    passed_on = np.argwhere(found.passed_on.any(axis=2))
    if len(passed_on):
        links = listed([f"{names[i]} -> {names[j]}" for i, j in passed_on])
        notes.append(
            f"another variable passes on {links} within a sampling interval, but the drift reads "
            "the source directly: a change of the variable in between has no effect there."
        )
    # Autocorrelated residuals point to an unmeasured driver, except those of known inputs.
    lasting = zip(names, ensemble.noise.memory, strict=True)
    if hidden := [name for name, m in lasting if m > MEMORY and name not in found.inputs]:
        notes.append(
            f"the residuals of {', '.join(hidden)} are autocorrelated: a driver may be hidden, and "
            "the change could act differently through it."
        )
    return notes


def _weak(found, ensemble, acted, touched) -> list[tuple[int, ...]]:
    """Return the kept edges along which the change spreads and that too few resamples contain."""
    reached = set(acted) | {j for _, j, _ in touched}
    for _ in found.names:
        reached |= {int(j) for i in reached for j in np.flatnonzero(found.graph[i].any(axis=1))}
    edges = {tuple(map(int, e)) for e in np.argwhere(found.graph) if int(e[0]) in reached}
    # Variables that are set no longer respond to their sources.
    edges = {e for e in edges | set(touched) if e[1] not in acted or e in touched}
    weak = [e for e in edges if not ensemble.share[e] >= UNSUPPORTED]
    return sorted(weak, key=lambda e: ensemble.share[e])[:5]
