"""The search on all of a record that does not fit into memory, by sums over its windows.

A part of the record is in memory as windows. It tells how windows are cut, where knots lie and what
delays there are; one pass over the record then sums the products of all columns, and the search is
the same as in memory, on a design made of these sums.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from .._axes import flat_inputs
from .._types import to_jax
from ..models._model import NeuralDDE
from ..regression._features import knots_of, spline_terms
from ..regression._search import PROGRESS
from ..regression._summed import SummedDesign, summed_design
from ..regression._sums import Sums, sums_of
from ..regression._terms import Fit, describe, find_terms, fit_terms, outside_gains
from ..samples._chunks import Chunks, as_block
from ..windows._flat import KnownData
from ..windows._rows import row_range
from ..windows._stencils import STENCILS
from ..windows._windows import Windows
from ._between import Record, Refined, Refiner, shift_of
from ._midpoint import around, steps_between
from ._partial import scaled_rows
from ._splines import SHORTLIST, SplineGraph, search_known
from ._target_fit import TargetFit

# Windows whose columns are made at a time.
SIZE = 4096
# Products of two inputs that are summed at most: of more inputs than have so many, the products
# among those that the part in memory shortlists for a target.
MOST_PAIRS = 1000


class Whole(NamedTuple):
    """A record of which a part is in memory.

    - `chunks`: all of it.
    - `columns`: those that are variables; `level`: what was subtracted from them.
    - `drift`: that meets every step halfway, of midpoint windows; else None.
    """

    chunks: Chunks
    columns: Int[np.ndarray, " dim"]
    level: Float[np.ndarray, " dim"]
    drift: NeuralDDE | None

    def values(self, block: Any) -> Float[np.ndarray, "time dim"]:
        """Return the variables of a chunk as the part in memory has them."""
        return as_block(block)[:, self.columns].astype(float) - self.level[None]


class Columns(NamedTuple):
    """The columns of windows whose inner products are summed.

    - `windows`: how windows are cut and standardised; they have no rows.
    - `whole`: the record. Its chunks may be left out.
    - `knots`: of the splines of all inputs, the candidates first, `[input knot]`.
    - `places`, `delays`: further inputs, candidates' sources at delays between these, in samples.
    - `pairs`: the inputs whose products are columns.
    """

    windows: Windows
    whole: Whole
    knots: Float[np.ndarray, "input knot"]
    places: Int[np.ndarray, " late"]
    delays: Float[np.ndarray, " late"]
    pairs: Int[np.ndarray, "pair 2"]

    @property
    def lags(self) -> tuple[int, ...]:
        """The lags of the samples that a window reads."""
        midway = self.windows.scheme == "midpoint"
        return around(self.windows.lags) if midway else self.windows.lags

    @property
    def stencil(self) -> dict[int, float]:
        """The difference that is a rate."""
        return STENCILS["euler" if self.windows.scheme == "midpoint" else self.windows.scheme]

    @property
    def back(self) -> int:
        """The number of samples before the present that a window reads."""
        late = int(np.ceil(self.delays.max(initial=0))) + 2
        return max(self.lags[-1], -min(self.stencil), late)

    @property
    def ahead(self) -> int:
        """The number of samples after the present that a window reads."""
        return max(self.stencil)

    def of(self, values: Float[np.ndarray, "time dim"], first: int) -> Sums:
        """Return the sums over the complete windows in some samples whose present is not before the
        `first`.
        """
        start, stop = row_range(len(values), self.lags, self.stencil)
        first = min(max(first, start), max(stop, start))
        states = np.zeros((0, len(self.lags), values.shape[1]))
        rates = states[:, 0]
        if stop > first:
            states, rates = scaled_rows((values,), (), self.windows, self.lags)
            states, rates = states[first - start :], rates[first - start :]
        known = np.isfinite(states).all(axis=(1, 2)) & np.isfinite(rates).all(axis=1)
        position = first + np.flatnonzero(known)
        rows = self._windows(states[known], rates[known], position)
        inputs = np.asarray(rows.history, float).reshape(len(position), -1)
        inputs = np.concatenate([inputs, self._late(values, position, inputs)], axis=1)
        terms = spline_terms(inputs, self.knots).reshape(len(position), -1)
        products = inputs[:, self.pairs[:, 0]] * inputs[:, self.pairs[:, 1]]
        columns = np.concatenate([terms, products], axis=1)
        return sums_of(columns, np.asarray(rows.increment, float), np.ones(len(position)))

    def _windows(self, states: Any, rates: Any, position: Any) -> Windows:
        """Return complete windows, met halfway through the step where the scheme asks for it."""
        dtype, n = self.windows.history.dtype, len(position)
        wide = dataclasses.replace(
            self.windows,
            history=to_jax(states, dtype),
            increment=to_jax(rates, dtype),
            valid=to_jax(np.ones(n, bool)),
            weight=to_jax(np.ones(n), dtype),
            position=to_jax(position),
            lags=self.lags,
        )
        if self.windows.scheme != "midpoint" or not n:
            return dataclasses.replace(wide, history=wide.history[:, : self.windows.n_lags])
        return steps_between(wide, self.windows.lags, wide.prior).met_by(self.whole.drift)

    def _late(self, values: Any, position: Any, inputs: Any) -> Float[np.ndarray, "window late"]:
        """Return the inputs at delays of their own; at their candidates where the record does not
        reach so far.
        """
        s, dim = self.windows.scaling, self.windows.dim
        center, scale = np.asarray(s.center, float), np.asarray(s.scale, float)
        rows = (values - center[None]) / scale[None]
        record = Record(rows, position, shift_of(self.windows))
        late = [
            record.at(p % dim, delay) for p, delay in zip(self.places, self.delays, strict=True)
        ]
        if not late:
            return inputs[:, :0]
        late = np.stack(late, axis=1)
        return np.where(np.isfinite(late), late, inputs[:, self.places])


def sums_over(columns: Columns, blocks: Iterable[Any], first: int = 0) -> Sums:
    """Return the sums over all windows of a stretch whose present is not before the `first` sample,
    from its chunks in order; windows reach back over their borders.
    """
    parts = pieces(map(columns.whole.values, blocks), columns.back, columns.ahead, first)
    return functools.reduce(operator.add, (columns.of(*part) for part in parts))


def sums_of_record(columns: Columns) -> Sums:
    """Return the sums over all windows of the record: by the workers of a cluster, chunk by chunk,
    where it is an array of Dask; one chunk after the other elsewhere.
    """
    chunks = columns.whole.chunks
    x = chunks.dask
    if x is None:
        return sums_over(columns, chunks.blocks())
    import dask

    columns = columns._replace(whole=columns.whole._replace(chunks=None))
    given, ends = dask.delayed(columns), np.cumsum(x.chunks[0]).tolist()
    parts = []
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        begin = max(start - columns.back, 0)
        part = x[begin : stop + columns.ahead]
        parts.append(dask.delayed(_sums_of_chunk)(given, part, start - begin))
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [dask.delayed(operator.add)(*two) if len(two) > 1 else two[0] for two in pairs]
    return dask.compute(*parts)[0]


def _sums_of_chunk(columns: Columns, values: Any, first: int) -> Sums:
    return sums_over(columns, [values], first)


def pieces(
    blocks: Iterable[np.ndarray], back: int, ahead: int, first: int = 0
) -> Iterator[tuple[Float[np.ndarray, "time dim"], int]]:
    """Yield consecutive samples, a few thousand at a time, and the first of them that is the
    present of a window which is counted there. Each begins so far `back` that these windows are
    complete; windows end so far `ahead` of the present.
    """
    held: list[np.ndarray] = []
    count = 0
    for block in blocks:
        for k in range(0, len(block), SIZE):
            held.append(block[k : k + SIZE])
            count += len(held[-1])
            if count - ahead - first >= SIZE:
                values = np.concatenate(held)
                yield values, first
                cut = max(count - ahead - back, 0)
                held, first = [values[cut:]], count - ahead - cut
                count -= cut
    if count - ahead > first or not count:
        yield np.concatenate(held), first


class SummedFit(TargetFit):
    """A fit by the sums of a record, beside that of the part of it which is in memory. What no sums
    tell is told of the part: held-out errors, errors from stretch to stretch, and what is left.
    """

    def __init__(self, whole: SummedDesign, y: Float[np.ndarray, " row"], part: TargetFit):
        self.whole, self.y, self.part = whole, y, part
        self.data, self.target, self.mask, self.inputs = (
            part.data, part.target, part.mask, part.inputs
        )  # fmt: skip
        self.design, self.root, self.all = part.design, part.root, part.all
        self.power, self.n = part.power, float(whole.n_windows)

    def on(self, mask: Bool[np.ndarray, " input"], design: Any = None) -> "SummedFit":
        """Return the fit of the same target on other inputs."""
        same = (mask == self.mask).all()
        return self if same else SummedFit(self.whole, self.y, self.part.on(mask))

    def of_windows(self) -> TargetFit:
        """Return the fit of the part that is in memory."""
        return self.part

    @functools.cached_property
    def fit(self) -> Fit:
        """The least squares fit with all inputs."""
        terms = find_terms(self.whole, self.y, self.mask, self.mask)
        return fit_terms(self.whole, self.y, terms)

    def outside(self) -> Float[np.ndarray, " input"]:
        """Return the fall of the risk that every other input would bring."""
        return np.maximum(outside_gains(self.whole, self.fit), 0)

    def held_out(self, reach: int) -> float:
        """Return the share that is left on blocks of the part that were not fitted."""
        return self.part.held_out(reach)

    def left(self) -> Float[np.ndarray, " window"]:
        """Return the residual in the part."""
        return self.part.left()

    def leftover(self) -> float:
        """Return the probability of the leftover in the part."""
        return self.part.leftover()

    def hidden(self, sizes) -> float:
        """Return the share that errors of inputs hide, in the part."""
        return self.part.hidden(sizes)

    def errors(self, keep) -> Float[np.ndarray, " window"]:
        """Return the squared error of every window of the part."""
        return self.part.errors(keep)


class ClosedForms(NamedTuple):
    """The closed forms of all targets that a search ended with.

    - `data`: with the inputs that networks may bring in.
    - `plain`: with sources at the candidates; `refined`: delays of their own, of targets that have
        any; `fits`: with these.
    - `found`: the search that they began with.
    """

    data: KnownData
    plain: list[TargetFit]
    refined: list[Refined | None]
    fits: list[TargetFit]
    found: SplineGraph


def on_whole(screened: Any, part: ClosedForms, refiners: list[Refiner]) -> ClosedForms:
    """Return the closed forms of a record by its sums, from those of the part in memory, whose
    delays between the candidates are kept where the whole needs them.
    """
    data, windows, whole = screened.data, screened.windows, screened.whole
    late = [
        (j, int(place), float(found.delays[place]))
        for j, found in enumerate(part.refined)
        if found is not None
        for place in np.flatnonzero(np.isfinite(found.delays))
    ]
    n_inputs = data.inputs.shape[1]
    numbers = {entry[:2]: n_inputs + k for k, entry in enumerate(late)}
    own = [[numbers[j, p] for i, p, _ in late if i == j] for j in range(data.dim)]
    ranked = [[*a, *b] for a, b in zip(own, np.asarray(part.found.shortlist).tolist(), strict=True)]
    made_of = [part.refined[j].design.inputs[data.some, place] for j, place, _ in late]  # type: ignore[union-attr]
    knots = np.concatenate([screened.knots, *(knots_of(x)[None] for x in made_of)])
    columns = Columns(
        windows=_without_rows(windows),
        whole=whole,
        knots=knots,
        places=np.array([place for _, place, _ in late], int),
        delays=np.array([delay for *_, delay in late], float),
        pairs=_pairs(len(knots), ranked),
    )
    every, outputs = summed_design(sums_of_record(columns), knots, columns.pairs)
    design = every.of_inputs(np.arange(n_inputs))
    found = search_known(data.on_rows(outputs), design, SHORTLIST)
    found = eqx.tree_at(lambda f: f.rate, found, part.found.rate)
    rates = [design.standardised(output)[0] for output in outputs.T]
    masks = flat_inputs(np.asarray(found.graph))
    plain: list[Any] = [
        SummedFit(design, y, screened.fit(j, masks[j])) for j, y in enumerate(rates)
    ]
    if screened.errors is not None and np.any(screened.errors > 0):
        sizes = np.sqrt(screened.errors) / np.asarray(windows.scaling.scale, float)
        plain = [fit.without_stand_ins(sizes) for fit in plain]
        data = data.allowing(~np.stack([fit.second_lags(sizes) for fit in plain]))
    fits, refined = list(plain), list(part.refined)
    for j, before in enumerate(part.refined):
        if before is None:
            continue
        places = np.arange(n_inputs)
        for place in np.flatnonzero(np.isfinite(before.delays)):
            places[place] = numbers[j, place]
        taken = every.of_inputs(places)
        fits[j], refined[j] = _refined(plain[j], before, refiners[j], taken, data.allowed[j])
    return ClosedForms(data, plain, refined, fits, found)


def _refined(
    plain: SummedFit,
    before: Refined,
    refiner: Refiner,
    design: SummedDesign,
    allowed: Bool[np.ndarray, " input"],
) -> tuple[SummedFit, Refined | None]:
    """Return the fit of a target with some sources at delays that the part in memory has for them,
    and these; the plain fit and None where they are not worth their price to the whole.
    """
    j, y, data = plain.target, plain.y, plain.data
    taken = np.isfinite(before.delays)
    terms = find_terms(design, y, allowed | taken, data.required[j], data.dim)
    found = describe(design, y, terms, data.dim, min(SHORTLIST, design.n_inputs))
    kept = found.mask & taken
    fit = SummedFit(design, y, plain.part.on(found.mask, before.design))
    cost = fit.criterion() + refiner.price_of(kept, plain.n)
    delays, halves = (np.where(kept, a, np.nan) for a in (before.delays, before.halves))
    refined = Refined(before.design, found.mask, found.slots, delays, halves)
    fewer = refiner.between(refined) or found.mask.sum() < plain.mask.sum()
    return (fit, refined) if fewer and cost < plain.criterion() - PROGRESS else (plain, None)


def _pairs(n_inputs: int, ranked: Sequence[Sequence[int]]) -> Int[np.ndarray, "pair 2"]:
    """Return the pairs of inputs whose products are summed: all, or those among as many of the
    inputs that are worth most to each target, the best first, as there is room for.
    """
    if n_inputs * (n_inputs - 1) // 2 <= MOST_PAIRS:
        return np.stack(np.triu_indices(n_inputs, 1), axis=1)
    for most in range(max(map(len, ranked)), 0, -1):
        some = [sorted(row[:most]) for row in ranked]
        pairs = {(a, b) for row in some for k, a in enumerate(row) for b in row[k + 1 :]}
        if len(pairs) <= MOST_PAIRS:
            break
    return np.array(sorted(pairs), int).reshape(-1, 2)


def _without_rows(windows: Windows) -> Windows:
    """Return windows of which only the way they are cut is left."""
    names = ("history", "increment", "valid", "weight", "position")
    rows = {name: to_jax(np.asarray(getattr(windows, name))[:0]) for name in names}
    return dataclasses.replace(windows, partial=None, **rows)
