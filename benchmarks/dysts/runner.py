"""Run methods over systems: a task is one method on several systems, fitted and run as a batch."""

import dataclasses
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

from benchmarks._runner import EVERYTHING, Share, run_tasks, share_of
from benchmarks._store import Record, Store, Unit

from . import forecast
from .data import Problem, read_problem
from .methods import METHODS, Learned
from .scoring import METRICS, score
from .settings import recipes

BENCHMARK = "dysts"
# Systems of a task: all of them, because systems of one batch share compilations, and every task
# repeats them.
BATCH = 50
# Samples of the first test's forecast that are kept for figures, and of its spectrum.
KEPT = 4000


@dataclass(frozen=True)
class Task:
    """One method on the systems that are still to be done."""

    paths: tuple[Path, ...]
    method: str
    seed: int
    category: str
    settings: str
    predictions: Path | None = None

    def unit(self, path: Path) -> Unit:
        """The key of one system in the store."""
        return Unit(BENCHMARK, self.category, path.stem, 0, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """One per system."""
        return tuple(self.unit(path) for path in self.paths)

    @property
    def settings_text(self) -> str:
        """What the method is told."""
        return self.settings

    def without(self, done: set[Unit]) -> "Task":
        """The systems that are not done yet."""
        rest = tuple(path for path in self.paths if self.unit(path) not in done)
        return dataclasses.replace(self, paths=rest)


def run(
    files: Sequence[Path],
    methods: Sequence[str],
    store: Store,
    *,
    seed: int = 0,
    category: str = "data",
    predictions: Path | None = None,
    workers: int = 1,
    share: Share = EVERYTHING,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Do what the store does not hold yet.

    **Arguments:**

    - `files`: the systems, `.npz`.
    - `methods`: names in `METHODS`.
    - `seed`: with the name of the system it fixes every random number.
    - `category`: tells apart sets of data in one store.
    - `predictions`: folder for one `.npz` per system with `test0`, `test1`, … [time, dim], `graph`
        [target, source] and `lyap` [test, dim]; a folder per method when there are several. A
        system whose file is missing is done again.
    - `workers`: processes; 1 computes in this one.
    - `share`: which part of the tasks, see `share_of`; by default all of them.
    - `retry_errors`: do systems again whose status is an error.

    **Raises:** `ValueError` on an unknown method, or if the store holds results made with other
    settings.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"unknown method {', '.join(unknown)}; known: {', '.join(METHODS)}.")
    tasks = share_of(list(_tasks(files, methods, seed, category, predictions)), share)
    if predictions is not None:
        store.forget(
            task.unit(path)
            for task in tasks
            for path in task.paths
            if not (task.predictions / path.name).exists()
        )
    run_tasks(
        tasks,
        evaluate,
        store,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


def _tasks(files, methods, seed, category, predictions) -> Iterator[Task]:
    known = recipes()
    for method in methods:
        settings = known[method].to_json() if method in known else "{}"
        folder = predictions
        if predictions is not None and len(methods) > 1:
            folder = predictions / method
        for first in range(0, len(files), BATCH):
            paths = tuple(files[first : first + BATCH])
            yield Task(paths, method, seed, category, settings, folder)


def evaluate(task: Task) -> list[Record]:
    """Compute one task: a record per system. An exception of the method becomes a status."""
    problems = [read_problem(path) for path in task.paths]
    start = time.perf_counter()
    found = _each_or_error(lambda some: _fit(task, some), problems)
    fitted = time.perf_counter()
    outcomes = _each_or_error(
        lambda pairs: _simulate(*zip(*pairs, strict=True)),
        [(p, one) for p, one in zip(problems, found, strict=True)],
    )
    seconds = (fitted - start) / len(problems)
    return [
        _record(task, path, problem, learned, outcome, seconds)
        for path, problem, learned, outcome in zip(
            task.paths, problems, found, outcomes, strict=True
        )
    ]


def _fit(task: Task, problems: Sequence[Problem]) -> list[Learned]:
    root = jr.key(task.seed)
    keys = [jr.fold_in(root, zlib.crc32(p.name.encode())) for p in problems]
    return METHODS[task.method](problems, keys=keys)


def _simulate(problems: Sequence[Problem], learned: Sequence[Learned]) -> list[tuple]:
    """Forecasts, exponents and one-step errors of what was learned."""
    failed = [one for one in learned if isinstance(one, Exception)]
    if failed:
        raise failed[0]
    if learned[0].model is None:
        return [(np.zeros((len(p.starts), p.n_forecast, p.dim)), None, np.nan) for p in problems]
    models, solver = [one.model for one in learned], learned[0].solver
    starts = [p.starts + one.shift for p, one in zip(problems, learned, strict=True)]
    paths = forecast.forecasts(models, problems, solver, starts)
    spectra = forecast.exponents(models, problems, solver)
    errors = [forecast.one_step_error(m, p, solver) for m, p in zip(models, problems, strict=True)]
    return list(zip(paths, spectra, errors, strict=True))


def _each_or_error(compute, items: Sequence) -> list:
    """All items as one batch; one by one if that fails, so that only the culprits are errors."""
    try:
        return compute(items)
    except Exception as error:
        if len(items) == 1:
            return [error]
    return [_each_or_error(compute, [item])[0] for item in items]


def _record(task, path, problem: Problem, learned, outcome, seconds) -> Record:
    unit = task.unit(path)
    if isinstance(outcome, Exception):
        missing = dict.fromkeys([*METRICS, "train"], np.nan)
        status = f"error: {type(outcome).__name__}: {str(outcome).strip()[:300]}"
        return Record(unit, missing, status, seconds)
    trajectories, spectra, error = outcome
    values = score(problem, trajectories, spectra, learned.graph, problem.spectra)
    values["train"] = error
    values["chaotic"] = float(problem.regime == "chaotic")
    values["dense_shd"] = float(1 - problem.graph.mean())
    arrays = {"start": np.asarray(trajectories[0, :KEPT], np.float32)}
    if learned.graph is not None:
        arrays["graph"] = learned.graph
    if spectra is not None:
        arrays["spectra"] = spectra
    if task.predictions is not None:
        _write_predictions(task.predictions / path.name, trajectories, arrays)
    return Record(unit, values, learned.status, seconds, arrays)


def _write_predictions(path: Path, trajectories, arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tests = {f"test{k}": np.asarray(one, np.float32) for k, one in enumerate(trajectories)}
    if "graph" in arrays:
        tests["graph"] = arrays["graph"].T.astype(int)
    if "spectra" in arrays:
        tests["lyap"] = arrays["spectra"]
    # Renaming is atomic: a reader never meets half a file.
    part = path.with_name(f".{path.stem}.part.npz")
    np.savez(part, **tests)
    part.replace(path)
