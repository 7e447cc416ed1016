"""One runner for all benchmarks: resumable, in one process or several.

A benchmark cuts its work into tasks, each a set of `Unit`s that a method computes together. Workers
only compute; the process that calls `run_tasks` alone writes, one transaction per task, so a run
can be stopped at any moment and goes on where it stopped.
"""

import functools
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from ._store import Record, Store, Unit
from ._workers import Killed, in_processes, on_cluster


class Task(Protocol):
    """A piece of work that travels to a worker, so everything in it must be picklable."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that the task computes; all of one benchmark, method and category."""
        ...

    @property
    def settings_text(self) -> str:
        """The settings that the task is computed with; a store refuses to mix different ones."""
        ...

    def without(self, done: set[Unit]) -> Self:
        """The task that is left when these units are done."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)
# A number of processes, or `dask:ADDRESS`.
Workers = int | str

# What the run in this process says when it is interrupted.
_farewell = "interrupted before any result was written."


def run_tasks(
    tasks: Iterable[AnyTask],
    evaluate: Callable[[AnyTask], list[Record]],
    store: Store,
    *,
    summarise: Callable[[AnyTask, list[Record]], list[Record]] | None = None,
    killed: Callable[[AnyTask, str], list[Record]] | None = None,
    kind: Callable[[AnyTask], Hashable] | None = None,
    workers: Workers = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet.

    **Arguments:**

    - `tasks`: all of them, also those done.
    - `evaluate`: a function of a module, since workers import it; one record per unit of the task.
        It must turn what goes wrong into a status that begins with `error`.
    - `store`: where the records go.
    - `summarise`: further records of a task, made here from its new records and the store.
    - `killed`: records of a task that ended its worker process twice, from the status.
    - `kind`: of a task; those of a kind go to one process while there are others for the rest.
        For tasks that share what a process keeps, as compiled programs and simulations.
    - `workers`: processes; 1 computes in this one. Or `dask:ADDRESS`, the workers of a cluster.
    - `retry_errors`: do units again whose status is an error.

    A process that is killed is replaced. Another run may write the same file meanwhile; what it has
    done is not done again, and stays. After an interrupt the same call goes on where this one was.

    **Raises:** `ValueError` if the store holds results made with other settings.
    """
    from tqdm import tqdm

    global _farewell

    tasks = list(tasks)
    for task in tasks:
        unit = task.units[0]
        store.agree_on_settings(unit.benchmark, unit.method, unit.category, task.settings_text)
    if retry_errors:
        store.forget(units_with_errors(store, tasks))
    done = set().union(*(store.done(name) for name in {task.units[0].benchmark for task in tasks}))
    unfinished = [rest for task in tasks if (rest := task.without(done)).units]
    n_done = len(tasks) - len(unfinished)
    with tqdm(total=len(tasks), initial=n_done, disable=not progress) as bar:
        _farewell = _say_done(store, n_done, len(tasks))
        waiting = _still_to_do(unfinished, store, bar)
        try:
            for task, records in _evaluated(waiting, evaluate, workers, killed, kind, bar.write):
                _write(store, task, records, summarise, bar.write)
                bar.set_postfix_str(f"{task.units[0].method} {task.units[0].graph}")
                bar.update()
                n_done += 1
                _farewell = _say_done(store, n_done, len(tasks))
        except KeyboardInterrupt:
            bar.write(_farewell, file=sys.stderr)
            raise


def program(main: Callable[[], int]) -> int:
    """The process of a benchmark: `main`, which Ctrl-C ends at once with a sentence. Unless
    `--no-cache` is given, it and its workers keep compiled programs for later runs.
    """
    from ndde_jax._blas import limit_blas_to_one_thread
    from ndde_jax._program import disable_wrong_sums, enable_compilation_cache, run_program

    disable_wrong_sums()
    limit_blas_to_one_thread()
    if "--no-cache" not in sys.argv:
        enable_compilation_cache()
    return run_program(main, lambda: f"\n{_farewell}")


def _say_done(store: Store, n_done: int, n: int) -> str:
    return (
        f"interrupted; {n_done} of {n} tasks are in {store.path}, and the same command goes on "
        "from there."
    )


def _still_to_do(tasks: Sequence[AnyTask], store: Store, bar) -> Iterator[AnyTask]:
    """The tasks, without what another run has done when their turn comes."""
    for task in tasks:
        unit = task.units[0]
        rest = task.without(store.done(unit.benchmark, method=unit.method))
        if rest.units:
            yield rest
        else:
            bar.write(f"{_name(task)} is in {store.path} already, written by another run meanwhile")
            bar.update()


def _write(store: Store, task: AnyTask, records: list[Record], summarise, say) -> None:
    unit = task.units[0]
    there = store.done(unit.benchmark, method=unit.method) & {record.unit for record in records}
    if there:
        say(
            f"{_name(task)}: {len(there)} of {len(records)} results are in {store.path} already, "
            "written by another run meanwhile; they stay"
        )
        records = [record for record in records if record.unit not in there]
    more = [] if summarise is None else summarise(task, records)
    store.write([*records, *more])


def _name(task: AnyTask) -> str:
    unit = task.units[0]
    return f"{unit.method} on {unit.category} {unit.graph}"


def units_with_errors(store: Store, tasks: Iterable[Task]) -> set[Unit]:
    """Return units of the tasks whose status is an error."""
    wanted = {unit for task in tasks for unit in task.units}
    found = set()
    for benchmark in {unit.benchmark for unit in wanted}:
        for row in store.rows(benchmark):
            if row.status.startswith("error"):
                found.add(Unit(*(getattr(row, name) for name in Unit._fields)))
    return found & wanted


def _evaluated(
    tasks: Iterable[AnyTask],
    evaluate: Callable[[AnyTask], list[Record]],
    workers: Workers,
    killed: Callable[[AnyTask, str], list[Record]] | None,
    kind: Callable[[AnyTask], Hashable] | None,
    say: Callable[[str], None],
) -> Iterator[tuple[AnyTask, list[Record]]]:
    job = functools.partial(_evaluate, evaluate)
    if workers == 1:
        for task in tasks:
            yield task, job(task)
        return
    if isinstance(workers, str):
        computed = on_cluster(tasks, job, workers.removeprefix("dask:"), say, name=_name)
    else:
        computed = in_processes(tasks, job, workers, say, name=_name, kind=kind)
    for task, records in computed:
        if isinstance(records, Killed):
            records = (killed or _failed)(task, records.status)
        yield task, records


def _failed(task: AnyTask, status: str) -> list[Record]:
    return [Record(unit, {"failed": 1.0}, status, 0.0) for unit in task.units]


def _evaluate(evaluate: Callable[[AnyTask], list[Record]], task: AnyTask) -> list[Record]:
    """Evaluate one task. Compiled functions are forgotten before there are too many of them."""
    records = evaluate(task)
    # A worker whose tasks never came to JAX has nothing to forget, and need not wait two seconds
    # for it to be imported.
    if "jax" in sys.modules:
        from ndde_jax._memory import drop_programs_if_many

        drop_programs_if_many()
    return records
