"""The coverage of intervals: discover, compare with the truth, count."""

import dataclasses
import functools
import json
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import jax.random as jr
import numpy as np

import ndde_jax as ndde

from .. import tables
from .._runner import run_tasks
from .._store import Record, Store, Unit
from . import sized

BENCHMARK, METHOD = "verdict_coverage", "discover"
# Level of a confidence interval of a share.
LEVEL = 0.95
# Steps ahead of forecasts and of backtests, and number of origins of backtests.
AHEAD, TESTED, ORIGINS = (1, 5, 20), (1, 10), 5
# Number of slices of a curve, and the ends of slices that are compared.
SLICES, ENDS = 10, (2, 8)
# Samples after a push, and after a source is held.
PUSHED, HELD = 6, 20
KINDS = (
    "delay",
    "delay, grid only",
    "lag",
    "slope",
    "own slope",
    "curve",
    "push",
    "hold",
    *(f"forecast, {ahead} ahead" for ahead in AHEAD),
    *(f"backtest, {ahead} ahead" for ahead in TESTED),
)


@dataclass(frozen=True)
class Task:
    """One record of a kind of system and a length."""

    name: str
    length: int
    seed: int
    number: int = 0
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        return Unit(BENCHMARK, str(self.length), self.name, self.number, METHOD, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks share."""
        return json.dumps({"lags": sized.LAGS, "ahead": AHEAD, "tested": TESTED})

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def tasks(
    *,
    records: int,
    seed: int,
    only: str | None = None,
    lengths: Sequence[int] | None = None,
) -> list[Task]:
    """Return tasks of `records` records of each length and kind of system whose name contains
    `only`.

    **Raises:** `ValueError` if nothing is left.
    """
    found = [
        Task(name, length, seed, number)
        for length in lengths or sized.LENGTHS
        for name in sized.SYSTEMS
        for number in range(records)
        if only is None or only in name
    ]
    if not found:
        raise ValueError(f"nothing matches {only!r}; there are: {', '.join(sized.SYSTEMS)}.")
    return found


def run(chosen: Sequence[Task], store: Store, *, workers: int | str = 1, progress=True) -> None:
    """Run the tasks that the store does not hold yet."""
    run_tasks(
        chosen,
        evaluate,
        store,
        kind=lambda task: (task.name, task.length),
        workers=workers,
        progress=progress,
    )


@dataclass
class Counts:
    """The intervals of one record by kind: whether each contains the truth, its width as a share of
    the truth's scale, and the number of links without an interval.
    """

    inside: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    width: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, kind: str, truth, low, high, scale) -> None:
        """Count intervals of a kind."""
        for one in np.broadcast(truth, low, high, scale):
            true, least, most, size = map(float, one)
            self.inside[kind].append(least <= true <= most)
            self.width[kind].append((most - least) / size)

    def metrics(self) -> dict[str, float]:
        """Return all counts as numbers by name; widths are medians."""
        found = {}
        for kind in KINDS:
            found[f"{kind}: n"] = float(len(self.inside[kind]))
            found[f"{kind}: covered"] = float(sum(self.inside[kind]))
            found[f"{kind}: missing"] = float(self.missing[kind])
            width = self.width[kind]
            found[f"{kind}: width"] = float(np.median(width)) if width else math.nan
        return found


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception becomes a status."""
    known = sized.record(task.name, task.length, task.seed, task.number)
    text = f"{task.name} {task.length} {task.number}".encode()
    keys = jr.split(jr.fold_in(jr.key(task.seed), zlib.crc32(text)), 3)
    start = time.perf_counter()
    try:
        found = ndde.discover(known.x, dt=1.0, lags=sized.LAGS, key=keys[0])
        metrics, status = counted(found, known, keys[1:]), f"ok: {found.reading}"
    except Exception as error:
        metrics, status = {"failed": 1.0}, f"error: {error}"[:300]
    return [Record(task.unit, metrics, status, time.perf_counter() - start)]


def counted(found, known: sized.Known, keys) -> dict[str, float]:
    """Return the counts of the intervals of a discovery, by kind."""
    counts, effects = Counts(), found.effects()
    _delays(counts, found, known)
    _effects(counts, effects, known)
    spread = known.x.std(axis=0)
    low, high = found.forecast(max(AHEAD), key=keys[0]).interval(0.9)
    for ahead in AHEAD:
        ends = (known.after[ahead - 1], low[ahead - 1], high[ahead - 1])
        counts.add(f"forecast, {ahead} ahead", *ends, spread)
    options = dict(data=known.after, origins=ORIGINS, rivals=(), at=TESTED, key=keys[1])
    inside = found.backtest(max(TESTED), **options).inside[0]
    for k, ahead in enumerate(TESTED):
        counts.inside[f"backtest, {ahead} ahead"] += inside[:, k].ravel().tolist()
    return counts.metrics()


def place(graph, known: sized.Known, link: int, strength) -> int | None:
    """Return the index of the lag at which a link is found: its own lag in a map, the strongest
    kept lag of its pair in a flow; None if it is not found.
    """
    source, target, late = known.source[link], known.target[link], known.delay[link]
    kept = graph[source, target]
    if known.substeps == 1:
        lag = sized.LAGS.index(int(late))
        return lag if kept[lag] else None
    return int(np.argmax(np.where(kept, strength[source, target], -np.inf))) if kept.any() else None


def _delays(counts: Counts, found, known: sized.Known) -> None:
    for link, late in enumerate(known.delay):
        at = place(found.graph, known, link, found.scores)
        pair = known.source[link], known.target[link]
        if known.substeps == 1:
            # For a map, the interval nearest to the lag counts, whichever lag was kept.
            kept = np.flatnonzero(found.graph[pair])
            if not len(kept):
                counts.missing["lag"] += 1
                continue
            ends = found.delay_intervals[pair][kept]
            inside = ends[np.argmin(np.abs(ends.mean(axis=1) - late))]
            counts.add("lag", late, *inside, 1.0)
            continue
        if at is None:
            counts.missing["delay"] += 1
            continue
        low, high = found.delay_intervals[(*pair, at)]
        resolved = bool(found.delay_resolved[(*pair, at)])
        counts.add("delay" if resolved else "delay, grid only", late, low, high, 1.0)


def _effects(counts: Counts, effects, known: sized.Known) -> None:
    graph, found = effects.graph, effects.found
    total, slopes = effects.total, known.slopes
    for link, slope in enumerate(slopes):
        source, target = known.source[link], known.target[link]
        at = place(graph, known, link, found.scores)
        if at is None:
            for kind in ("slope", "curve", "push", "hold"):
                counts.missing[kind] += 1
            continue
        edge = (source, target, at)
        counts.add("slope", slope, effects.slope_low[edge], effects.slope_high[edge], abs(slope))
        _curve(counts, effects, known, link, at)
        for kind, steps, held in (("push", PUSHED, False), ("hold", HELD, True)):
            truth = known.response(link, steps, held=held)
            low, high = (
                getattr(total, f"{'step' if held else 'pulse'}_{end}") for end in ("low", "high")
            )
            where = (steps, source, target)
            counts.add(kind, truth[-1], low[where], high[where], np.abs(truth).max())
    for j, own in enumerate(known.own):
        if not graph[j, j, 0]:
            counts.missing["own slope"] += 1
            continue
        ends = effects.slope_low[j, j, 0], effects.slope_high[j, j, 0]
        counts.add("own slope", own, *ends, abs(own))


def _curve(counts: Counts, effects, known: sized.Known, link: int, at: int) -> None:
    source, target = known.source[link], known.target[link]
    lag = sized.LAGS[at]
    x, _, low, high = effects.curve(int(source), int(target), lag, points=SLICES)
    truth = known.contribution(link, x)
    truth = truth - (truth[1:] + truth[:-1]).mean() / 2
    some = list(ENDS)
    counts.add("curve", truth[some], low[some], high[some], np.ptp(truth))


def table(store: Store) -> str:
    """Return Markdown: how many intervals of each kind contain the truth.

    **Raises:** `ValueError` if the store holds no results.
    """
    sums: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    widths: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in store.rows(BENCHMARK):
        if row.metric == "failed":
            sums["records that failed", ""]["n"] += 1
            continue
        kind, what = row.metric.split(": ")
        key = kind, group(row.graph)
        if what == "width":
            widths[key] += [] if math.isnan(row.value) else [row.value]
        else:
            sums[key][what] += row.value
    if not sums:
        raise ValueError(f"{store.path} holds no coverage; run it first.")
    rows = []
    for key in sorted(sums, key=_order):
        n, covered, missing = (int(sums[key][what]) for what in ("n", "covered", "missing"))
        if not n and not missing:
            continue
        width = tables.number(float(np.median(widths[key]))) if widths[key] else "-"
        cells = [str(covered), str(n), exact(covered, n), width, str(missing or "-")]
        rows.append([*key, *cells])
    header = ["interval", "of", "covered", "n", "share", "median width", "not found"]
    return tables.markdown(header, rows, text_columns=2)


def group(name: str) -> str:
    """Return the group of a kind of system: maps or flows, and changing noise."""
    system = sized.SYSTEMS[name]
    return f"{'flows' if system.flow else 'maps'}{', changing noise' if system.changing else ''}"


def _order(key: tuple[str, str]) -> tuple:
    return (KINDS.index(key[0]) if key[0] in KINDS else len(KINDS), key[1])


@functools.cache
def exact(part: int, whole: int) -> str:
    """Return a share with its exact limits (Clopper and Pearson 1934) for independent values:
    ".90 (.87–.93)"; `-` if there are none.
    """
    if not whole:
        return "-"
    from scipy.stats import binomtest

    limits = binomtest(part, whole).proportion_ci(LEVEL, method="exact")
    low, high = tables.number(limits.low), tables.number(limits.high)
    return f"{tables.number(part / whole)} ({low}–{high})"
