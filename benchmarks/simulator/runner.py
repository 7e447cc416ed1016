"""Solve every problem with every solver, at two step sizes or tolerances."""

import dataclasses
import fnmatch
import functools
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde
from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from .problems import OUTPUTS, PROBLEMS, Problem, reference

BENCHMARK = "simulator"
CONSTANT = {
    "Euler": (diffrax.Euler, 1),
    "Heun": (diffrax.Heun, 2),
    "Bosh3": (diffrax.Bosh3, 3),
    "Tsit5": (diffrax.Tsit5, 5),
}
ADAPTIVE = {"adaptive Tsit5": diffrax.Tsit5, "adaptive Kvaerno5": diffrax.Kvaerno5}
TOLERANCES = (1e-5, 1e-7)
# Number of steps that an adaptive solver keeps in memory.
CAPACITY = 1024


def methods(problem: Problem) -> list[str]:
    """Return the methods for a problem: implicit solvers for stiff ones, constant steps for
    constant delays.
    """
    if problem.stiff:
        return ["adaptive Kvaerno5"]
    return [*(CONSTANT if problem.constant else ()), "adaptive Tsit5"]


@dataclass(frozen=True)
class Task:
    """One solver on one problem."""

    problem: str
    method: str
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        return Unit(BENCHMARK, "problems", self.problem, 0, self.method, 0)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks share."""
        steps = {name: (problem.steps, problem.end) for name, problem in PROBLEMS.items()}
        shared = {"steps": steps, "tolerances": TOLERANCES, "capacity": CAPACITY}
        return json.dumps(shared, sort_keys=True)

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def choose(only: str | None = None, limit: int | None = None) -> list[str]:
    """Return problems by text or shell pattern, at most `limit`.

    **Raises:** `ValueError` if nothing is left.
    """
    kept = [name for name in PROBLEMS if only is None or fnmatch.fnmatch(name, f"*{only}*")]
    if not kept:
        raise ValueError(f"no problem matches {only!r}; there are: {', '.join(PROBLEMS)}.")
    return kept[:limit]


def run(
    names: Iterable[str],
    store: Store,
    *,
    only_method: str | None = None,
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet."""
    tasks = [
        Task(name, method)
        for name in names
        for method in methods(PROBLEMS[name])
        if only_method in (None, method)
    ]
    run_tasks(
        tasks,
        evaluate,
        store,
        kind=lambda task: task.problem,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


@functools.cache
def known(name: str) -> np.ndarray:
    """Return the reference of a problem, computed once per process."""
    return reference(PROBLEMS[name])


def evaluate(task: Task) -> list[Record]:
    """Compute one task: the errors at the coarser and at the finer steps, and the order."""
    problem, start, metrics, status = PROBLEMS[task.problem], time.perf_counter(), {}, "ok"
    try:
        with jax.enable_x64(True):
            right, errors, said = known(task.problem), [], []
            scale = np.max(np.abs(right), axis=0)
            for level in range(2):
                if task.method in CONSTANT:
                    found, text, count = constant_steps(problem, task.method, level)
                else:
                    found, text, count = own_steps(problem, task.method, level, scale)
                errors.append(float(np.max(np.abs(found - right) / scale)))
                said.append(text)
                metrics[("steps_coarse", "steps")[level]] = float(count)
        ratio = 2.0 if task.method in CONSTANT else TOLERANCES[0] / TOLERANCES[1]
        small = errors[1] > 0 and math.isfinite(errors[0])
        order = math.log(errors[0] / errors[1]) / math.log(ratio) if small else math.nan
        metrics |= {"error_coarse": errors[0], "error": errors[1], "order": order}
        status = said[1] if said[1] != "ok" else said[0]
    except Exception as error:
        status = f"error: {type(error).__name__}: {error}"
    return [Record(task.unit, metrics, status, time.perf_counter() - start)]


# The same function gives the same compiled program.
@functools.cache
def _rate(problem: Problem):
    return lambda t, x, lagged, args: jnp.stack(
        [jnp.asarray(v, float) for v in problem.rate(jnp, t, x, lagged)]
    )


@functools.cache
def _term(problem: Problem) -> ndde.simulate.DelayTerm:
    delays = problem.delays
    if not problem.constant:
        given = problem.delays
        delays = lambda t, x, args: jnp.stack(list(given(jnp, t, x)))  # noqa: E731
    return ndde.simulate.DelayTerm(_rate(problem), delays, lambda t: problem.past(jnp, t))


def constant_steps(problem: Problem, method: str, level: int):
    """Return states at the output times by `solve_sdde`, its status, and the number of steps."""
    n = problem.steps * 2**level
    path = ndde.solve_sdde(
        _rate(problem),
        delays=problem.delays,
        dt=(problem.end - problem.begin) / n,
        n_steps=n,
        t0=problem.begin,
        history=lambda t: problem.past(jnp, t),
        y0=None if problem.start is None else jnp.asarray(problem.start),
        jumps=problem.jumps or None,
        solver=CONSTANT[method][0](),
    )
    good = bool(path.status == ndde.simulate.PathStatus.successful)
    text = "ok" if good else str(ndde.simulate.PathStatus[path.status]).partition(":")[0]
    return np.asarray(path.ys[n // OUTPUTS :: n // OUTPUTS]), text, n


def own_steps(problem: Problem, method: str, level: int, scale: np.ndarray):
    """Return states at the output times by adaptive Diffrax steps, and the number of steps."""
    shortest = min(problem.delays) if problem.constant else math.inf
    rtol = TOLERANCES[level]
    jumps = jnp.asarray(problem.jumps)
    if problem.constant:
        jumps = ndde.simulate.kinks(
            problem.delays, problem.begin, problem.end, jumps=problem.jumps or None
        )
    controller = diffrax.PIDController(
        rtol=jnp.asarray(rtol),
        atol=jnp.asarray(rtol * 1e-3 * float(np.min(scale))),
        dtmax=shortest,
    )
    if len(jumps):
        controller = diffrax.ClipStepSizeController(controller, jump_ts=jumps)
    found = diffrax.diffeqsolve(
        _term(problem),
        ndde.simulate.DelaySolver(ADAPTIVE[method](), capacity=CAPACITY),
        problem.begin,
        problem.end,
        min(shortest, 1.0) * 1e-4,
        jnp.asarray(problem.first()),
        saveat=diffrax.SaveAt(ts=jnp.asarray(problem.times)),
        stepsize_controller=controller,
        max_steps=100_000,
        throw=False,
    )
    good = bool(found.result == diffrax.RESULTS.successful)
    text = "ok" if good else "max_steps"
    return np.asarray(found.ys), text, int(found.stats["num_accepted_steps"])
