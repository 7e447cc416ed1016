"""Run methods on systems: a task is one method on one system, the most that an interrupt costs."""

import dataclasses
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from . import forecast
from .anchors import Learned, Method
from .data import Problem, read_problem
from .methods import METHODS
from .scoring import METRICS, score
from .settings import recipes, tuning_names

BENCHMARK = "dysts"
# Numbers of samples of the first test's forecast and of its spectrum that are kept for figures.
KEPT = 4000


@dataclass(frozen=True)
class Task:
    """One method on one system."""

    path: Path
    method: str
    seed: int
    category: str
    settings: str
    predictions: Path | None = None
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the system in the store."""
        return Unit(BENCHMARK, self.category, self.path.stem, 0, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings of the method."""
        return self.settings

    def without(self, done: set[Unit]) -> "Task":
        """Return the task, marked as finished if it is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def run(
    files: Sequence[Path],
    methods: Sequence[str],
    store: Store,
    *,
    seed: int = 0,
    category: str = "data",
    predictions: Path | None = None,
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet.

    **Arguments:**

    - `files`: the systems, `.npz`.
    - `methods`: names in `METHODS`.
    - `seed`: with the name of the system it determines every random number.
    - `category`: distinguishes sets of data in one store.
    - `predictions`: folder for one `.npz` per system with `test0`, `test1`, … [time, dim], `graph`
        [target, source] and `lyap` [test, dim], in a folder per method if there are several. A
        system whose file is missing is computed again.
    - `workers`: processes; 1 computes in this one.
    - `retry_errors`: whether systems whose status is an error are repeated.

    **Raises:** `ValueError` on an unknown method, or if the store holds results made with other
    settings.
    """
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"unknown method {', '.join(unknown)}; known: {', '.join(METHODS)}.")
    tasks = list(_tasks(files, methods, seed, category, predictions))
    if predictions is not None:
        store.forget(
            task.unit for task in tasks if not (task.predictions / task.path.name).exists()
        )
    run_tasks(
        tasks,
        evaluate,
        store,
        killed=killed,
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
        for path in files:
            yield Task(path, method, seed, category, settings, folder)


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception of the method becomes a status."""
    return evaluate_with(METHODS[task.method], task)


def evaluate_with(method: Method, task: Task) -> list[Record]:
    """Compute one task with any method. An exception of the method becomes a status."""
    problem = read_problem(task.path)
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(problem.name.encode()))
    start, fitted = time.perf_counter(), None
    try:
        (learned,) = method([problem], keys=[key])
        fitted = time.perf_counter()
        trajectories, spectra, error = _simulate(problem, learned)
        values = score(problem, trajectories, spectra, learned.graph, problem.spectra)
        status = learned.status
    except Exception as failure:
        values, arrays = _nothing(), {}
        status = f"error: {type(failure).__name__}: {str(failure).strip()[:300]}"
    else:
        values |= {
            "train": error,
            "test_lyapunov_times": problem.n_forecast * problem.dt * problem.lyapunov,
            "tuning": float(problem.name in tuning_names()),
            "chaotic": float(problem.regime == "chaotic"),
            "dense_shd": float(1 - problem.graph.mean()),
        }
        arrays = _arrays(learned, trajectories, spectra)
        if task.predictions is not None:
            _write_predictions(task.predictions / task.path.name, trajectories, arrays)
    seconds = (fitted or time.perf_counter()) - start
    return [Record(task.unit, values, status, seconds, arrays)]


def killed(task: Task, status: str) -> list[Record]:
    """The record of a task that ended its process every time."""
    return [Record(task.unit, _nothing(), status, 0.0)]


def _nothing() -> dict[str, float]:
    return dict.fromkeys([*METRICS, "train"], np.nan)


def _simulate(problem: Problem, learned: Learned) -> tuple:
    """Return forecasts, exponents and one-step error of the learned system."""
    model, solver = learned.model, learned.solver
    if model is None:
        return np.zeros((len(problem.starts), problem.n_forecast, problem.dim)), None, np.nan
    starts = problem.starts + learned.shift
    (paths,) = forecast.forecasts([model], [problem], solver, [starts])
    (spectra,) = forecast.exponents([model], [problem], solver)
    return paths, spectra, forecast.one_step_error(model, problem, solver)


def _arrays(learned: Learned, trajectories, spectra) -> dict[str, np.ndarray]:
    arrays = {"start": np.asarray(trajectories[0, :KEPT], np.float32)}
    if learned.graph is not None:
        arrays["graph"] = learned.graph
    if spectra is not None:
        arrays["spectra"] = spectra
    return arrays


def _write_predictions(path: Path, trajectories, arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tests = {f"test{k}": np.asarray(one, np.float32) for k, one in enumerate(trajectories)}
    if "graph" in arrays:
        tests["graph"] = arrays["graph"].T.astype(int)
    if "spectra" in arrays:
        tests["lyap"] = arrays["spectra"]
    # Renaming is atomic: a reader never sees half a file.
    part = path.with_name(f".{path.stem}.part.npz")
    np.savez(part, **tests)
    part.replace(path)
