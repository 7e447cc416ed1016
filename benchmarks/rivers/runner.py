"""Run methods on subgraphs, each with its own series only."""

import dataclasses
import fnmatch
import functools
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

from benchmarks import tables
from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from .data import connected_subgraphs, read_record
from .methods import METHODS, Prediction
from .scoring import auroc, pairs, wrong_edges
from .settings import settings

BENCHMARK = "rivers"
WHOLE = "whole"
# Subgraphs per task: each task is one transaction, the most that a stopped run loses.
CHUNK = 25


@dataclass(frozen=True)
class Task:
    """One method on some sets of gauges of one record."""

    directory: Path | None
    category: str
    sets: tuple[tuple[int, ...], ...]
    method: str
    seed: int

    def unit(self, gauges: tuple[int, ...]) -> Unit:
        """The key of one set in the store."""
        return Unit(BENCHMARK, self.category, _label(self, gauges), 0, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of the task, one per set."""
        return tuple(self.unit(gauges) for gauges in self.sets)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks of a category share."""
        return json.dumps(settings(), sort_keys=True)

    def without(self, done: set[Unit]) -> "Task":
        """The sets that are left."""
        left = tuple(gauges for gauges in self.sets if self.unit(gauges) not in done)
        return dataclasses.replace(self, sets=left)


def choose(
    directory: Path | None = None,
    *,
    whole: bool = False,
    only: str | None = None,
    limit: int | None = None,
) -> tuple[str, list[tuple[int, ...]]]:
    """Return the category and the chosen sets of gauges, by text or shell pattern in their names
    joined by hyphens. A limit takes evenly spread sets, since consecutive sets share gauges.

    **Raises:** `ValueError` if nothing is left.
    """
    record, size = read_record(directory), settings()["protocol"]["size"]
    sets = [tuple(range(len(record.names)))] if whole else _sets(directory, size)
    kept = [s for s in sets if only is None or fnmatch.fnmatch(_name(record.names, s), f"*{only}*")]
    if not kept:
        raise ValueError(f"none of the {len(sets)} sets of gauges matches {only!r}.")
    if limit is not None and limit < len(kept):
        kept = [kept[i] for i in np.linspace(0, len(kept) - 1, limit).round().astype(int)]
    return (WHOLE if whole else f"connected {size}"), kept


@functools.cache
def _sets(directory: Path | None, size: int):
    return connected_subgraphs(read_record(directory).truth, size)


def run(
    sets: Sequence[tuple[int, ...]],
    category: str,
    methods: Sequence[str],
    store: Store,
    *,
    directory: Path | None = None,
    seed: int = 0,
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet.

    **Raises:** `ValueError` on an unknown method, or if the store holds results made with other
    settings.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"unknown method {', '.join(unknown)}; known: {', '.join(METHODS)}.")
    chunks = [tuple(sets[i : i + CHUNK]) for i in range(0, len(sets), CHUNK)]
    tasks = [Task(directory, category, c, method, seed) for method in methods for c in chunks]
    run_tasks(
        tasks,
        evaluate,
        store,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception of the method becomes a status."""
    return [_evaluate(task, gauges) for gauges in task.sets]


def _evaluate(task: Task, gauges: tuple[int, ...]) -> Record:
    record = read_record(task.directory)
    truth = record.truth[np.ix_(gauges, gauges)]
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(_label(task, gauges).encode()))
    levels = np.ascontiguousarray(record.filled[:, gauges])
    wall, work = time.perf_counter(), time.process_time()
    try:
        found = METHODS[task.method](levels, record.dt, key=key)
    except Exception as error:
        nothing = np.full(truth.shape, np.nan)
        found = Prediction(nothing, status=f"error: {type(error).__name__}: {error}")
    cpu, seconds = time.process_time() - work, time.perf_counter() - wall
    failed = not np.isfinite(pairs(found.scores)).all()
    # A failed method ranks nothing.
    scores = np.zeros_like(found.scores) if failed else np.asarray(found.scores, float)
    metrics = {"auroc": auroc(pairs(scores), pairs(truth)), "failed": float(failed), "cpu": cpu}
    if found.graph is not None:
        metrics |= wrong_edges(np.asarray(found.graph), truth)
    if found.verdict is not None:
        metrics["verdict"] = float(tables.VERDICTS.index(found.verdict))
    arrays = {"scores": scores, "truth": truth}
    return Record(task.unit(gauges), metrics, found.status, seconds, arrays)


def _label(task: Task, gauges: tuple[int, ...]) -> str:
    names = read_record(task.directory).names
    return f"all {len(gauges)}" if task.category == WHOLE else _name(names, gauges)


def _name(names: tuple[str, ...], gauges: tuple[int, ...]) -> str:
    return "-".join(names[gauge] for gauge in gauges)
