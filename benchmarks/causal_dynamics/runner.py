"""Run methods on graphs: a task is one method on one graph, with all its series together."""

import dataclasses
import functools
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

from benchmarks._runner import run_tasks
from benchmarks._store import POOLED, Record, Store, Unit

from .data import Graph, read_graph, standardise
from .methods import METHODS
from .outcomes import Prediction
from .scoring import failed, individual_scores, pooled_scores
from .settings import Settings, settings_for

BENCHMARK = "causal_dynamics"


@dataclass(frozen=True)
class Task:
    """One method on the series of one graph that are not done yet."""

    path: Path
    graph: str
    category: str
    method: str
    seed: int
    series: tuple[int, ...]
    settings: Settings

    def unit(self, series: int) -> Unit:
        """The key of one series in the store."""
        return Unit(BENCHMARK, self.category, self.graph, series, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of the task, one per series."""
        return tuple(self.unit(series) for series in self.series)

    @property
    def settings_text(self) -> str:
        """The settings of the category for the method."""
        return self.settings.to_json()

    def without(self, done: set[Unit]) -> "Task":
        """The series that are not done yet."""
        rest = tuple(series for series in self.series if self.unit(series) not in done)
        return dataclasses.replace(self, series=rest)


def run(
    files: Sequence[Path],
    methods: Sequence[str],
    store: Store,
    *,
    series: int | None = None,
    seed: int = 0,
    predictions: Path | None = None,
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet.

    **Arguments:**

    - `files`: the graphs, see `find_files`.
    - `methods`: names in `METHODS`.
    - `series`: number of series of every graph; all by default.
    - `seed`: with the name of the graph it determines every random number.
    - `predictions`: folder for one `.npz` per graph with `preds` [series, source, target], `graph`
        (the same, boolean) and the total `seconds`, in a folder per method if there are several.
    - `workers`: processes; 1 computes in this one.
    - `retry_errors`: whether series whose status is an error are repeated.

    **Raises:** `ValueError` on an unknown method, or if the store holds results made with other
    settings.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"unknown method {', '.join(unknown)}; known: {', '.join(METHODS)}.")
    tasks = list(_tasks(files, methods, series, seed))
    run_tasks(
        tasks,
        evaluate,
        store,
        summarise=functools.partial(_pooled, store),
        killed=killed,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )
    if predictions is not None:
        for task in tasks:
            folder = predictions / task.method if len(methods) > 1 else predictions
            _write_predictions(task, store, folder)


def evaluate(task: Task) -> list[Record]:
    """Compute one task: a record per series. An exception of the method becomes a status."""
    graph = read_graph(task.path)
    start = time.perf_counter()
    try:
        found = _predict(graph, task)
    except Exception as error:
        status = f"error: {type(error).__name__}: {error}"
        found = [_nothing(graph, status) for _ in task.series]
    return _records(task, graph, found, (time.perf_counter() - start) / len(task.series))


def killed(task: Task, status: str) -> list[Record]:
    """Return records of a task that ended its process every time."""
    graph = read_graph(task.path)
    return _records(task, graph, [_nothing(graph, status) for _ in task.series], 0.0)


def _records(task: Task, graph: Graph, found: list[Prediction], seconds: float) -> list[Record]:
    return [
        Record(
            task.unit(series),
            {**scores, "failed": float(failed(prediction))},
            prediction.status,
            seconds,
            {"scores": prediction.scores, "graph": prediction.graph},
        )
        for series, prediction, scores in zip(
            task.series, found, individual_scores(found, graph.labels), strict=True
        )
    ]


def _predict(graph: Graph, task: Task) -> list[Prediction]:
    standardised = standardise(graph.series)
    series = [standardised[i] for i in task.series]
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(f"{graph.category}/{graph.name}".encode()))
    return METHODS[task.method](series, graph.dt, task.settings, key=key)


def _nothing(graph: Graph, status: str) -> Prediction:
    shape = graph.labels["published"].shape
    return Prediction(np.full(shape, np.nan), np.zeros(shape, bool), status)


def _tasks(files, methods, n_series, seed) -> Iterator[Task]:
    for path in files:
        graph = read_graph(path)
        series = tuple(range(len(graph.series)))[:n_series]
        for method in methods:
            settings = settings_for(graph.category)
            yield Task(path, graph.name, graph.category, method, seed, series, settings)


def _pooled(store: Store, task: Task, records: Iterable[Record]) -> list[Record]:
    """Return joint scores over the new series and those of earlier runs."""
    earlier = [u for u in store.same_graph(task.unit(POOLED)) if u.series != POOLED]
    arrays = {unit: store.arrays(unit) for unit in earlier}
    arrays |= {record.unit: record.arrays for record in records}
    found = [Prediction(a["scores"], a["graph"], "") for _, a in sorted(arrays.items())]
    scores = pooled_scores(found, read_graph(task.path).labels)
    return [Record(task.unit(POOLED), {**scores, "series": len(found)}, "pooled", 0.0)]


def _write_predictions(task: Task, store: Store, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [store.arrays(task.unit(series)) for series in task.series]
    units = {task.unit(series) for series in task.series}
    seconds = store.seconds(units)
    # Renaming is atomic: a reader never sees half a file.
    part = folder / f".{task.graph}.part.npz"
    np.savez(
        part,
        preds=np.stack([a["scores"] for a in arrays]),
        graph=np.stack([a["graph"] for a in arrays]),
        seconds=seconds,
    )
    part.replace(folder / f"{task.graph}.npz")
