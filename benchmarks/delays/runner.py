"""Run methods on tasks: one method on one series each."""

import dataclasses
import fnmatch
import json
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax.random as jr
import numpy as np

from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from .attractor import attractor_scores
from .data import Series, simulate
from .methods import METHODS, Prediction
from .scoring import failed, score
from .settings import CATEGORIES, FURTHER, Specification, settings, specifications

BENCHMARK = "delays"
# The smallest tasks that cover every feature, for tests and a first look.
SMOKE = (
    Specification("mackey_glass", "low", 600),
    Specification("hopfield_pair", "offgrid", 600),
    Specification("network_2", "observed", 600),
)


@dataclass(frozen=True)
class Task:
    """One method on one series; with `attractor`, also a simulation of the learned system."""

    spec: Specification
    method: str
    seed: int
    attractor: bool = False
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        spec = self.spec
        return Unit(BENCHMARK, spec.category, spec.name, spec.series, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks of a category share."""
        chosen = {key: settings()[key] for key in ("sampling", "noise", "observed", "method")}
        chosen["length"] = self.spec.length
        if self.spec.category in FURTHER:
            chosen["error"] = self.spec.error
        if self.attractor:
            chosen["attractor"] = True
        return json.dumps(chosen, sort_keys=True)

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def choose(
    *,
    categories: Sequence[str] = CATEGORIES,
    only: str | None = None,
    limit: int | None = None,
    length: int | None = None,
    series: int = 1,
    smoke: bool = False,
    draw: int = 0,
) -> list[Specification]:
    """Return the chosen tasks, by text or shell pattern in `category/name`. With a `draw` other
    than 0, random networks differ from those of `settings.toml`.

    **Raises:** `ValueError` if nothing is left.
    """
    if smoke:
        found = [dataclasses.replace(spec, draw=draw) for spec in SMOKE]
    else:
        found = specifications(categories, length=length, series=series, draw=draw)
    kept = [
        spec
        for spec in found
        if only is None or fnmatch.fnmatch(f"{spec.category}/{spec.name}", f"*{only}*")
    ][:limit]
    if not kept:
        raise ValueError(f"none of the {len(found)} tasks matches {only!r}; see settings.toml.")
    return kept


def run(
    specs: Iterable[Specification],
    methods: Sequence[str],
    store: Store,
    *,
    seed: int = 0,
    attractor: bool = False,
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet. With `attractor`, also simulate learned
    systems.

    **Raises:** `ValueError` on an unknown method, or if the store holds results made with other
    settings.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"unknown method {', '.join(unknown)}; known: {', '.join(METHODS)}.")
    # All methods of a series follow one another, since they share its simulation, and all series of
    # a system, since they share compiled programs.
    specs = sorted(specs, key=lambda spec: list(settings()["systems"]).index(spec.name))
    tasks = [Task(spec, method, seed, attractor) for spec in specs for method in methods]
    run_tasks(
        tasks,
        evaluate,
        store,
        killed=killed,
        kind=system_of,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


def system_of(task: Task) -> str:
    """Return the name of the task's system; its series share compiled programs, and methods a
    simulation.
    """
    return task.spec.name


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception of the method becomes a status."""
    series = simulate(task.spec, task.seed)
    name = f"{task.spec.category}/{task.spec.name}/{task.spec.series}".encode()
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(name))
    start = time.perf_counter()
    try:
        found = METHODS[task.method](series.x, series.dt, series.lags, key=key)
    except Exception as error:
        found = _nothing(series, f"error: {type(error).__name__}: {error}")
    return _records(task, series, found, time.perf_counter() - start)


def killed(task: Task, status: str) -> list[Record]:
    """The record of a task that ended its process every time."""
    series = simulate(task.spec, task.seed)
    return _records(task, series, _nothing(series, status), 0.0)


def _nothing(series: Series, status: str) -> Prediction:
    shape = series.graph.shape
    return Prediction(np.full(shape, np.nan), np.zeros(shape, bool), status=status)


def _records(task: Task, series: Series, found: Prediction, seconds: float) -> list[Record]:
    metrics = {**score(found, series), "failed": float(failed(found)), "dim": series.x.shape[1]}
    if task.attractor and found.windows is not None and not failed(found):
        metrics |= attractor_scores(found.drift, found.windows, series, task.seed)
    arrays = {"scores": found.scores, "graph": found.graph, "truth": series.graph}
    if found.delays is not None:
        arrays["delays"] = found.delays
    return [Record(task.unit, metrics, found.status, seconds, arrays)]
