"""Systems of one shape, by a batch, a loop, threads or processes.

All timings are warm; compilation and start are timed apart.
"""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr

import ndde_jax as ndde
from benchmarks.tables import markdown

from .discovery import network
from .fits import configuration

COUNTS = (1, 8, 64)
LAGS = (0, 1, 2)
LENGTH, WORKERS = 500, 2
# Sparsifying steps of the gates: enough to be most of the work.
STEPS = 500
QUICK = ("`fit_drift`, polynomials",)


def _splines(windows, key):
    return ndde.recover(windows, ndde.select.Splines(), key=key)


def _gates(windows, key):
    gates = ndde.select.Gates(config=configuration(STEPS), improve=False)
    return ndde.recover(windows, gates, key=key)


def _polynomials(windows, key):
    return ndde.fit_drift(windows, "full", ndde.models.Polynomials(), flow=None, key=key)


def _networks(windows, key):
    return ndde.fit_drift(windows, "full", ndde.models.Networks(), flow=None, key=key)


TASKS = {
    "`recover`, splines": _splines,
    f"`recover`, gates, {STEPS} steps": _gates,
    "`fit_drift`, polynomials": _polynomials,
    "`fit_drift`, networks": _networks,
}


class Cost(NamedTuple):
    """CPU seconds, of this process or of all workers, and wall-clock seconds."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:.2f} / {self.wall:.2f}"


def report(*, quick: bool = False) -> str:
    """Return a Markdown table."""
    length, counts = (60, (1, 2)) if quick else (LENGTH, COUNTS)
    rows = []
    for name in QUICK if quick else TASKS:
        systems = [windows(i, length) for i in range(max(counts))]
        rows += _rows(name, systems, counts, processes=not quick)
    title = (
        f"Systems of three variables, {len(LAGS)} lags and {length} samples each: CPU seconds / "
        "seconds, all of them together and everything compiled. Then seconds of the first call of "
        f"one system, of the first batch, and until {WORKERS} processes had done their first."
    )
    ways = ["loop", "batch", f"{WORKERS} threads", f"{WORKERS} processes"]
    return f"{title}\n\n" + markdown(["", "systems", *ways, "first", "batch", "start"], rows)


def windows(seed: int, length: int) -> ndde.Windows:
    """Return windows of a small network."""
    return ndde.lagged_windows(network(3, length, seed=seed), dt=1.0, lags=LAGS)


def one(name: str, number: int, system: ndde.Windows) -> Any:
    """The result for one system, whose number determines its key."""
    return jax.block_until_ready(TASKS[name](system, jr.fold_in(jr.key(0), number)))


def batch(name: str) -> Callable[[list[ndde.Windows]], Any]:
    """Return a function of a list of systems, compiled as one program."""
    mapped = eqx.filter_jit(eqx.filter_vmap(TASKS[name]))

    def run(systems: list[ndde.Windows]) -> Any:
        keys = jax.vmap(lambda i: jr.fold_in(jr.key(0), i))(jax.numpy.arange(len(systems)))
        return jax.block_until_ready(mapped(ndde.stack_windows(systems), keys))

    return run


def _rows(name: str, systems, counts, *, processes: bool) -> Iterator[list[str]]:
    start = time.perf_counter()
    one(name, 0, systems[0])
    first = time.perf_counter() - start
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(WORKERS))
        pool, starting = None, float("nan")
        if processes:
            start = time.perf_counter()
            pool = stack.enter_context(_processes(name, systems[0]))
            starting = time.perf_counter() - start
        for count in counts:
            chosen = systems[:count]
            run = batch(name)
            start = time.perf_counter()
            run(chosen)
            compiling = time.perf_counter() - start
            loop = _timed(lambda: [one(name, i, w) for i, w in enumerate(chosen)])  # noqa: B023
            together = _timed(lambda: run(chosen))  # noqa: B023
            several = ["-", "-"]
            if count > 1:
                several[0] = str(_timed(lambda: _shared(threads, name, chosen)))  # noqa: B023
            if count > 1 and pool is not None:
                several[1] = str(_elsewhere(pool, name, chosen))
            seconds = [f"{s:.1f}" for s in (first, compiling, starting)]
            yield [name, str(count), str(loop), str(together), *several, *seconds]


def _timed(run: Callable) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return Cost(time.process_time() - cpu, time.perf_counter() - wall)


def _shared(threads: Executor, name: str, systems) -> list:
    return list(threads.map(one, [name] * len(systems), range(len(systems)), systems))


@contextlib.contextmanager
def _processes(name: str, system: ndde.Windows) -> Iterator[Executor]:
    """Yield an executor of spawned processes, each of which has computed a first result."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(WORKERS + 1)
    arguments = (name, system, ready)
    with ProcessPoolExecutor(WORKERS, context, _warm, arguments) as pool:
        for _ in range(WORKERS):
            pool.submit(time.sleep, 1)  # a sleeping process makes the pool start the next one
        ready.wait()
        yield pool


def _warm(name: str, system: ndde.Windows, ready) -> None:
    one(name, 0, system)
    ready.wait()


def _elsewhere(pool: Executor, name: str, systems) -> Cost:
    wall = time.perf_counter()
    used = list(pool.map(_cpu_of_one, [name] * len(systems), range(len(systems)), systems))
    return Cost(sum(used), time.perf_counter() - wall)


def _cpu_of_one(name: str, number: int, system: ndde.Windows) -> float:
    before = time.process_time()
    one(name, number, system)
    return time.process_time() - before
