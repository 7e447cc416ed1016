"""One runner for all benchmarks: resumable, in one process or several.

A benchmark cuts its work into tasks, each a set of `Unit`s that a method computes together. Workers
only compute; the process that calls `run_tasks` alone writes, one transaction per task, so a run
can be stopped at any moment and goes on where it stopped.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import connection, get_context, parent_process
from typing import Protocol, Self, TypeVar

import jax

from ._store import Record, Store, Unit


class Task(Protocol):
    """A piece of work that travels to a worker, so everything in it must be picklable."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """What it computes; all of one benchmark, method and category."""
        ...

    @property
    def settings_text(self) -> str:
        """Settings it is computed with; a store refuses to mix different ones."""
        ...

    def without(self, done: set[Unit]) -> Self:
        """The task that is left when these units are done."""
        ...


# Every compiled function takes some memory areas, of which Linux allows a process 65 530; beyond
# that compilation fails. A large task takes a few thousand.
MOST_MAPS = 30_000

AnyTask = TypeVar("AnyTask", bound=Task)
Share = tuple[int, int]
EVERYTHING: Share = (0, 1)


def run_tasks(
    tasks: Iterable[AnyTask],
    evaluate: Callable[[AnyTask], list[Record]],
    store: Store,
    *,
    summarise: Callable[[AnyTask, list[Record]], list[Record]] | None = None,
    workers: int = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Do what the store does not hold yet.

    **Arguments:**

    - `tasks`: all of them, also those done.
    - `evaluate`: a function of a module, since workers import it; one record per unit of the task.
        It must turn what goes wrong into a status that begins with `error`.
    - `store`: where the records go.
    - `summarise`: further records of a task, made here from its new records and the store.
    - `workers`: processes; 1 computes in this one.
    - `retry_errors`: do units again whose status is an error.

    **Raises:** `ValueError` if the store holds results made with other settings.
    """
    from tqdm import tqdm

    tasks = list(tasks)
    for task in tasks:
        unit = task.units[0]
        store.agree_on_settings(unit.benchmark, unit.method, unit.category, task.settings_text)
    if retry_errors:
        store.forget(units_with_errors(store, tasks))
    done = set().union(*(store.done(name) for name in {task.units[0].benchmark for task in tasks}))
    unfinished = [rest for task in tasks if (rest := task.without(done)).units]
    with tqdm(total=len(tasks), initial=len(tasks) - len(unfinished), disable=not progress) as bar:
        for task, records in _evaluated(unfinished, evaluate, workers):
            more = [] if summarise is None else summarise(task, records)
            store.write([*records, *more])
            bar.set_postfix_str(f"{task.units[0].method} {task.units[0].graph}")
            bar.update()


def share_of(tasks: Sequence[AnyTask], share: Share) -> list[AnyTask]:
    """The tasks of one of several machines, `(first, 1)` for the first of one.

    Tasks need nothing from one another, so machines need no connection: each does its share into a
    file of its own, and `Store.absorb` joins the files. Neighbouring tasks, which tend to cost the
    same, go to different machines.
    """
    index, count = share
    return list(tasks)[index::count]


def units_with_errors(store: Store, tasks: Iterable[Task]) -> set[Unit]:
    """Units of the tasks whose status is an error."""
    wanted = {unit for task in tasks for unit in task.units}
    found = set()
    for benchmark in {unit.benchmark for unit in wanted}:
        for row in store.rows(benchmark):
            if row.status.startswith("error"):
                found.add(Unit(*(getattr(row, name) for name in Unit._fields)))
    return found & wanted


def _evaluated(
    tasks: Sequence[AnyTask], evaluate: Callable[[AnyTask], list[Record]], workers: int
) -> Iterator[tuple[AnyTask, list[Record]]]:
    if workers == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _evaluate(evaluate, task)
        return
    # Forked children would inherit JAX's threads in an unknown state.
    with ProcessPoolExecutor(workers, get_context("spawn"), _exit_with_parent) as pool:
        running = {pool.submit(_evaluate, evaluate, task): task for task in tasks}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _evaluate(evaluate: Callable[[AnyTask], list[Record]], task: AnyTask) -> list[Record]:
    """One task. Compiled functions are forgotten before there are too many of them."""
    records = evaluate(task)
    if memory_maps() > MOST_MAPS:
        jax.clear_caches()
    return records


def memory_maps() -> int:
    """Memory areas of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def _exit_with_parent() -> None:
    """End a worker whose parent was killed; it would wait for work for ever."""

    def watch():
        connection.wait([parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
