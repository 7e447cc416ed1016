"""The cost of discovering many systems: one system, memory, and the gain from processes."""

import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import jax.random as jr

import ndde_jax as ndde
from benchmarks.tables import markdown

from .discovery import network

# Numbers of systems, of three variables, and their lengths.
COUNTS = (1, 64, 1000)
QUICK = (1, 3)
LENGTHS = range(505, 1500, 10)
LAGS = (0, 1, 2, 3)
# Number of systems after which memory is compared with that at the end.
WARM = 100
# Number of systems for the comparison of warm processes that are pinned to a core.
PINNED = 200


def report(*, quick: bool = False, workers: tuple[int, ...] = (1, 2)) -> str:
    """Return a Markdown table."""
    recipe = ndde.Recipe.fast() if quick else ndde.Recipe()
    rows = []
    for count in QUICK if quick else COUNTS:
        systems = [network(3, LENGTHS[i % len(LENGTHS)], seed=i) for i in range(count)]
        for number in workers if count > 1 and not quick else workers[:1]:
            rows.append([str(count), str(number), *_measured(systems, number, recipe)])
    title = (
        f"Systems of three variables, {len(LAGS)} lags and {LENGTHS[0]} to {LENGTHS[-1]} samples, "
        f"{len(LENGTHS)} different lengths; one after the other in this process, or in spawned "
        "processes, including compilation and starting."
    )
    heads = ["systems", "processes", "s", "CPU s", "CPU s a system", "memory, last : hundredth"]
    table = f"{title}\n\n{markdown(heads, rows)}"
    return table if quick else f"{table}\n\n{gain(PINNED, recipe)}"


def gain(count: int, recipe) -> str:
    """Return a sentence on two warm processes against one, each pinned to its own core."""
    systems = [network(3, LENGTHS[i % len(LENGTHS)], seed=i) for i in range(count)]
    one, two = (_pinned(systems, workers, recipe) for workers in (1, 2))
    return (
        f"Warm and pinned to a core each, one process takes {one:.1f} s for {count} systems, two "
        f"take {two:.1f} s: {one / two:.2f} times as fast."
    )


def _pinned(systems, workers: int, recipe) -> float:
    """Return seconds of the second of two runs over the same systems."""
    context = get_context("spawn")
    cores = context.Queue()
    for core in _cores(workers):
        cores.put(core)
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_pin, initargs=(cores,)
    ) as pool:
        for _ in range(2):
            start = time.perf_counter()
            ndde.discover_many(systems, executor=pool, **_options(recipe))
        return time.perf_counter() - start


def _cores(workers: int) -> list[int | None]:
    """Return a core for every worker, as far as the machine has them; None if it cannot tell."""
    if not hasattr(os, "sched_getaffinity"):
        return [None] * workers
    cores = sorted(os.sched_getaffinity(0))
    return [cores[worker % len(cores)] for worker in range(workers)]


def _pin(cores) -> None:
    core = cores.get()
    if core is not None:
        os.sched_setaffinity(0, {core})


def _options(recipe) -> dict:
    return dict(dt=1.0, lags=LAGS, key=jr.key(0), recipe=recipe, progress=False, errors="raise")


def _measured(systems, workers: int, recipe) -> list[str]:
    start, before = time.perf_counter(), _cpu()
    options, memory = _options(recipe), []
    if workers == 1:
        for part in (systems[:WARM], systems[WARM:]):
            if part:
                ndde.discover_many(part, **options)
                memory.append(_resident())
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            ndde.discover_many(systems, executor=pool, **options)
    seconds, cpu = time.perf_counter() - start, _cpu() - before
    grown = f"{memory[-1] / memory[0]:.2f}" if len(memory) > 1 else "-"
    return [f"{seconds:.0f}", f"{cpu:.0f}", f"{cpu / len(systems):.2f}", grown]


def _cpu() -> float:
    """Return the CPU seconds of this process and of its finished child processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _resident() -> float:
    """Return resident bytes; NaN if the system does not report them."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return float("nan")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
