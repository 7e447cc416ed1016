"""Run methods on records of the families, or on the plants of a directory."""

import dataclasses
import fnmatch
import json
import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax.random as jr
import numpy as np

from benchmarks._runner import run_tasks
from benchmarks._store import Record as Result, Store, Unit

from . import data
from .methods import METHODS, ONLY, SECTIONS, Prediction
from .scoring import failed, nothing, score
from .settings import settings

BENCHMARK = "world"


class Kind(NamedTuple):
    """Records of one family and size, or one plant."""

    family: str
    size: str


@dataclass(frozen=True)
class Task:
    """One method on one record."""

    kind: Kind
    method: str
    seed: int
    directory: Path | None = None
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        return Unit(BENCHMARK, *self.kind, 0, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks of a method share."""
        names = ("plants", SECTIONS.get(self.method, self.method))
        return json.dumps({name: settings().get(name, {}) for name in names}, sort_keys=True)

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def choose(
    directory: Path | None = None, *, only: str | None = None, limit: int | None = None
) -> list[Kind]:
    """Return families and sizes, or plants of a directory, by text or shell pattern, at most
    `limit`.

    **Raises:** `ValueError` if nothing is left.
    """
    if directory is None:
        kinds = [
            Kind(family, data.label(*size))
            for family, (_, sizes) in data.FAMILIES.items()
            for size in sizes
        ]
    else:
        kinds = [Kind(data.PLANTS, name) for name in data.plants(directory)]
    names = {kind: "/".join(kind) for kind in kinds}
    kept = [kind for kind in kinds if only is None or fnmatch.fnmatch(names[kind], f"*{only}*")]
    if not kept:
        raise ValueError(f"nothing matches {only!r}; there are: {', '.join(names.values())}.")
    return kept[:limit]


def run(
    kinds: Sequence[Kind],
    methods: Sequence[str],
    store: Store,
    *,
    directory: Path | None = None,
    seeds: Sequence[int] = (0,),
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet."""
    tasks = [
        Task(kind, method, seed, directory)
        for method in methods
        for kind in kinds
        for seed in seeds
        if suits(method, kind)
    ]
    run_tasks(
        tasks,
        evaluate,
        store,
        # Records of one size share compiled programs.
        kind=lambda task: (task.method, task.kind),
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


def suits(method: str, kind: Kind) -> bool:
    """Return whether a method is run on such records: some are for one family only, or take minutes
    with many variables.
    """
    most = settings().get(method, {}).get("dim", math.inf)
    few = kind.family == data.PLANTS or int(kind.size.split("x")[0]) <= most
    return few and kind.family in ONLY.get(method, (kind.family,))


def evaluate(task: Task) -> list[Result]:
    """Compute one task. An exception of the method becomes a status: a refusal if it is a
    `ValueError`. Records are made before the timing starts.
    """
    record = data.record(*task.kind, task.seed, task.directory)
    key = jr.fold_in(jr.key(task.seed), zlib.crc32("/".join(task.kind).encode()))
    wall, work = time.perf_counter(), time.process_time()
    found, status = _predicted(task.method, record, key)
    cpu, seconds = time.process_time() - work, time.perf_counter() - wall
    metrics = score(found, record) | {"cpu": cpu}
    arrays = {"scores": np.asarray(found.scores, float)}
    if found.graph is not None:
        arrays["graph"] = np.asarray(found.graph)
    return [Result(task.unit, metrics, status, seconds, arrays)]


def _predicted(method: str, record: data.Record, key) -> tuple[Prediction, str]:
    try:
        found = METHODS[method](record.x, record.dt, record.lags, key=key)
    except ValueError as error:
        return nothing(record), f"refused: {error}"
    except Exception as error:
        return nothing(record), f"error: {type(error).__name__}: {error}"
    return found, "error: not finite" if failed(found) else "ok"
