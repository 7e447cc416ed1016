"""The search on a record that does not fit into memory, by sums over its windows.

A part of the record is in memory as windows. It determines how windows are cut, where knots lie and
which delays there are. One pass over the record then sums the products of all columns, which are
sufficient statistics: the search is the same as in memory, on a design made from these sums.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from .._axes import flat_inputs
from .._types import to_jax
from ..models._model import NeuralDDE
from ..regression._design import knots_of, spline_terms
from ..regression._summed import Summed, Sums, summed_design, sums_of
from ..regression._terms import Own, best_fit
from ..samples._chunks import Chunks, as_block
from ..windows._windows import KnownData, Windows, row_range
from ._between import REACH, Delayed, Record, Refined, Refiner, newton_step, shifted, standardised
from ._measured import fit_screened
from ._midpoint import steps_between
from ._partial import lags_read, of_other_rows, scaled_rows, stencil_of
from ._splines import SHORTLIST, SplineGraph, search_known
from ._target_fit import Coefficients, TargetFit

# Number of windows whose columns are computed at a time.
SIZE = 4096
# Most products of two inputs that are summed. With more inputs, only products among the inputs that
# the part in memory shortlists for a target.
MOST_PAIRS = 1000
# How far one pass over the record may move a delay, in samples.
FARTHEST = 0.5
# Most such passes, and the change in samples below which they end.
MOVES, STILL = 3, 0.1


class Whole(NamedTuple):
    """A record, a part of which is in memory.

    - `chunks`: the whole record; `length`: its number of samples.
    - `columns`: the columns that are variables; `level`: what was subtracted from them.
    - `drift`: the drift used for states halfway through each step, of midpoint windows; else None.
    """

    chunks: Chunks
    length: int
    columns: Int[np.ndarray, " dim"]
    level: Float[np.ndarray, " dim"]
    drift: NeuralDDE | None

    def values(self, block: Any) -> Float[np.ndarray, "time dim"]:
        """Return the variables of a chunk, transformed like the part in memory."""
        return as_block(block)[:, self.columns].astype(float) - self.level[None]


class _LateInput(NamedTuple):
    """A source of a target at a delay between the candidates, in samples, replacing the candidate
    `place`; read along `straight` lines or cubics. `delay` includes `shift`.
    """

    target: int
    place: int
    delay: float
    straight: bool
    shift: float = 0.0


class Columns(NamedTuple):
    """The columns of windows, whose inner products are summed.

    - `windows`: windows without rows, which define how others are cut and standardised.
    - `whole`: the record; its chunks may be omitted.
    - `knots`: of the splines of all inputs, the candidates first, `[input knot]`.
    - `late`: further inputs, at delays between the candidates.
    - `pairs`: the inputs whose products are columns.
    - `record`: the part of the record in memory, which defines how samples are read at such delays;
        None without any.
    """

    windows: Windows
    whole: Whole
    knots: Float[np.ndarray, "input knot"]
    pairs: Int[np.ndarray, "pair 2"]
    late: tuple[_LateInput, ...] = ()
    record: Record | None = None

    @property
    def back(self) -> int:
        """The number of samples before the present that a window reads."""
        late = int(np.ceil(max((one.delay for one in self.late), default=0))) + 3
        return max(lags_read(self.windows)[-1], -min(stencil_of(self.windows)), late)

    @property
    def ahead(self) -> int:
        """The number of samples after the present that a window reads."""
        return max(stencil_of(self.windows))

    def summed(self) -> Summed:
        """Return the design of the sums over the whole record."""
        return summed_design(sums_of_record(self), self.knots, self.pairs)

    def of(self, values: Float[np.ndarray, "time dim"], first: int) -> Sums:
        """Return the sums over the complete windows in some samples whose present is `first` or
        later.
        """
        lags = lags_read(self.windows)
        start, stop = row_range(len(values), lags, stencil_of(self.windows))
        first = min(max(first, start), max(stop, start))
        states = np.zeros((0, len(lags), values.shape[1]))
        rates = states[:, 0]
        if stop > first:
            states, rates = scaled_rows((values,), (), self.windows)
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
        """Return complete windows, with states halfway through the step if the scheme has these."""
        wide = of_other_rows(self.windows, states, rates, np.ones(len(position), bool), position)
        if self.windows.scheme != "midpoint" or not len(position):
            return dataclasses.replace(wide, history=wide.history[:, : self.windows.n_lags])
        return steps_between(wide, self.windows.lags, wide.prior).corrected_by(self.whole.drift)

    def _late(self, values: Any, position: Any, inputs: Any) -> Float[np.ndarray, "window late"]:
        """Return the inputs at delays of their own, or at their candidates where the record does
        not reach far enough.
        """
        if self.record is None:
            return inputs[:, :0]
        dim, values = self.windows.dim, standardised(values, self.windows)
        record = self.record._replace(values=values, position=position)
        late = np.stack(
            [record.at(one.place % dim, one.delay, one.target, one.straight) for one in self.late],
            axis=1,
        )
        places = [one.place for one in self.late]
        return np.where(np.isfinite(late), late, inputs[:, places])


def sums_over(columns: Columns, blocks: Iterable[Any], first: int = 0) -> Sums:
    """Return the sums over all windows of consecutive chunks whose present is the `first` sample or
    later; windows reach across the borders of chunks.
    """
    parts = pieces(map(columns.whole.values, blocks), columns.back, columns.ahead, first)
    return functools.reduce(operator.add, (columns.of(*part) for part in parts))


def sums_of_record(columns: Columns) -> Sums:
    """Return the sums over all windows of the record, by the workers of a cluster for a Dask array
    and chunk by chunk otherwise.
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
        parts.append(dask.delayed(sums_over)(given, [part], start - begin))
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [dask.delayed(operator.add)(*two) if len(two) > 1 else two[0] for two in pairs]
    return dask.compute(*parts)[0]


def pieces(
    blocks: Iterable[np.ndarray], back: int, ahead: int, first: int = 0
) -> Iterator[tuple[Float[np.ndarray, "time dim"], int]]:
    """Yield consecutive samples, a few thousand at a time, and the index of the first one that is
    the present of a window counted there. Each part begins `back` samples earlier, so that these
    windows are complete; windows end `ahead` samples after the present.
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


class ClosedForms(NamedTuple):
    """The final regressions of all targets.

    - `data`: the data, with the inputs that networks may add.
    - `plain`: fits with sources at the candidates; `refiners`, `refined`: the search for delays of
        their own, and its result where it found any; `fits`: fits with these delays.
    - `found`: the result of the first search; `summed`: its sums, if sums were used.
    - `proxies`: number of inputs omitted because they explain nothing beyond common factors.
    """

    data: KnownData
    plain: list[TargetFit]
    refiners: list[Refiner]
    refined: list[Refined | None]
    fits: list[TargetFit]
    found: SplineGraph
    summed: Summed | None = None
    proxies: int = 0


def on_whole(screened: Any, between: bool) -> ClosedForms:
    """Return the regressions of a record from its sums; with `between`, delays between the
    candidates.
    """
    data, windows = screened.data, screened.windows
    n_inputs = data.inputs.shape[1]
    shortlist = np.asarray(screened.found.shortlist).tolist()
    columns = Columns(
        windows=_without_rows(windows),
        whole=screened.whole,
        knots=screened.knots,
        pairs=_pairs(n_inputs, shortlist),
    )
    summed, found = _searched(columns, data)
    if screened.whole.drift is not None:
        # States halfway used the drift of the part in memory; repeat with that of the record.
        drift = fit_screened(screened.knowing(summed=summed), found.graph)
        columns = columns._replace(whole=screened.whole._replace(drift=drift))
        summed, found = _searched(columns, data)
    found = eqx.tree_at(lambda f: f.rate, found, screened.found.rate)
    masks = flat_inputs(np.asarray(found.graph))
    plain = [screened.fit(j, mask, summed.rate(j)) for j, mask in enumerate(masks)]
    if screened.errors is not None and np.any(screened.errors > 0):
        sizes = np.sqrt(screened.errors) / np.asarray(windows.scaling.scale, float)
        plain = [fit.without_proxies(sizes) for fit in plain]
        data = data.allowing(~np.stack([fit.second_lags(sizes) for fit in plain]))
    refiners = screened.refiners(data, plain) if between else []
    refined, fits = _refined(columns, plain, refiners)
    return ClosedForms(data, plain, refiners, refined, fits, found, summed)


def _searched(columns: Columns, data: KnownData) -> tuple[Summed, SplineGraph]:
    """Return the sums over a record, and the graph that splines find from them."""
    summed = columns.summed()
    return summed, search_known(data.on_rows(summed.outputs), summed.design, SHORTLIST)


def _refined(
    columns: Columns, plain: list[TargetFit], refiners: list[Refiner]
) -> tuple[list[Refined | None], list[TargetFit]]:
    """Return the delays of their own of the sources of each target, if any, and the fits with them:
    like [`Refiner`][ndde_jax.select._between.Refiner], but for all targets at once, because every
    search with other delays is a pass over the record.
    """
    refined: list[Refined | None] = [None] * len(plain)
    fits: list[TargetFit] = list(plain)
    found: dict[int, tuple[float, Refined] | None] = dict.fromkeys(range(len(refiners)))
    steps = {
        j: refiner.delays_to_try(j, plain[j].mask, plain[j].criterion())
        for j, refiner in enumerate(refiners)
    }
    seen: dict[tuple[int, int], TargetFit] = {}
    while steps:
        asked: dict[int, Delayed] = {}
        for j in list(steps):
            try:
                asked[j] = steps[j].send(found[j])
            except StopIteration as end:
                del steps[j]
                refined[j] = end.value
                if end.value is not None:
                    fits[j] = seen[j, id(end.value)]
        if not asked:
            break
        # The part in memory gives approximate delays.
        for _ in range(MOVES):
            before, asked = asked, _moved(columns, asked, refiners)
            moves = [np.abs(before[j].delays - at.delays) for j, at in asked.items()]
            if np.nanmax(moves) < STILL:
                break
        asked = {j: refiners[j].placed(j, at) for j, at in asked.items()}
        late = _Late.of(asked, refiners, (0.0,))
        summed = late.added_to(columns, refiners).summed()
        for j, at in asked.items():
            rate = summed.rate(j, late.inputs(j, 0.0))
            cost, on_sums = refiners[j].searched(j, rate.design, rate.output, at)
            part = refiners[j].with_delays(j, at)
            new = on_sums._replace(design=part)
            fit = TargetFit(part, plain[j].data, j, on_sums.mask, rate)
            seen[j, id(new)], found[j] = fit, (cost, new)
    return refined, fits


class _Late(NamedTuple):
    """The inputs at delays of their own, in addition to the `n_inputs` candidates."""

    given: list[_LateInput]
    n_inputs: int

    @classmethod
    def of(cls, asked: dict[int, Delayed], refiners: list[Refiner], shifts: Sequence[float]):
        """Return the inputs at all delays, each with the given shifts."""
        given: list[_LateInput] = []
        for j, at in asked.items():
            for place in map(int, at.places):
                delay, own = float(at.delays[place]), refiners[j]
                straight = own.record.straight(int(own.source[place]), delay)
                given += [_LateInput(j, place, shifted(delay, d), straight, d) for d in shifts]
        return cls(given, len(refiners[0].lag))

    def inputs(self, j: int, shift: float) -> Int[np.ndarray, " input"]:
        """Return the numbers of the inputs of a target; delays replace their candidates."""
        numbers = np.arange(self.n_inputs)
        for k, one in enumerate(self.given):
            if one.target == j and one.shift == shift:
                numbers[one.place] = self.n_inputs + k
        return numbers

    def added_to(self, columns: Columns, refiners: list[Refiner]) -> Columns:
        """Return the columns with these inputs and their products with others."""
        knots = []
        for one in self.given:
            own = refiners[one.target]
            values = own.states(one.target, [one.place], [one.delay - one.shift])[:, 0]
            knots.append(knots_of(values[own.data.weight > 0]))
        n, late = self.n_inputs, self.n_inputs + np.arange(len(self.given))
        base = np.unique(columns.pairs)
        pairs = [np.stack([np.tile(base, len(late)), np.repeat(late, len(base))], axis=1)]
        two = [(a, b) for a in range(len(late)) for b in range(a) if self._multiplied(a, b)]
        pairs += [np.array(two, int).reshape(-1, 2)[:, ::-1] + n]
        return columns._replace(
            knots=np.concatenate([columns.knots, knots]),
            late=tuple(self.given),
            pairs=np.concatenate([columns.pairs, *pairs]),
            record=refiners[0].record,
        )

    def _multiplied(self, a: int, b: int) -> bool:
        """Return whether two of these inputs have the same target and different places."""
        one, other = self.given[a], self.given[b]
        return one.target == other.target and one.place != other.place


def _moved(
    columns: Columns, asked: dict[int, Delayed], refiners: list[Refiner]
) -> dict[int, Delayed]:
    """Return the delays after one Gauss–Newton step, by sums over the whole record."""
    late = _Late.of(asked, refiners, (-REACH, 0.0, REACH))
    summed = late.added_to(columns, refiners).summed()
    every, moved = summed.design, {}
    for j, at in asked.items():
        low, middle, high = (late.inputs(j, shift) for shift in (-REACH, 0.0, REACH))
        design, output, _ = summed.rate(j, middle)
        y, _ = design.standardised(output)
        inputs = at.known | np.isfinite(at.delays)
        fit = best_fit(design, y, inputs, Own.of(j, design.n_inputs, refiners[j].data.dim))
        model, slopes = Coefficients.of(design, fit), []
        for place in map(int, at.places):
            ends = high[place], low[place]
            above, below = (every.terms[:, end] for end in ends)
            products = []
            for other in middle[model.partners(place)]:
                far, _ = every.centred_products(np.array([(other, end) for end in ends]))
                products.append(far[:, 0] - far[:, 1])
            slopes.append(model.change(place, above - below, products) / (2 * REACH))
        step = newton_step(fit.left_of(np.stack(slopes, axis=1)), fit.residual)
        delays = at.delays.copy()
        moves = np.clip(step, -FARTHEST, FARTHEST)
        least = refiners[j].record.shortest(refiners[j].source[at.places])
        delays[at.places] = np.maximum(delays[at.places] + moves, least)
        moved[j] = at._replace(delays=delays)
    return moved


def _pairs(n_inputs: int, ranked: Sequence[Sequence[int]]) -> Int[np.ndarray, "pair 2"]:
    """Return the pairs of inputs whose products are summed: all pairs, or those among the inputs
    that are worth most to each target, as many of these as there is room for.
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
    """Return windows without rows, which only define how others are cut."""
    names = ("history", "increment", "valid", "weight", "position")
    rows = {name: to_jax(np.asarray(getattr(windows, name))[:0]) for name in names}
    return dataclasses.replace(windows, partial=None, **rows)
