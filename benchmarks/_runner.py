"""One runner for all benchmarks: resumable, in one process or several.

A benchmark divides its work into tasks, each a set of `Unit`s that a method computes together.
Workers only compute. Only the process that calls `run_tasks` writes, one transaction per task, so a
run can be stopped at any moment and resumes where it stopped.
"""

import functools
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

from ._store import Record, Store, Unit
from ._workers import Killed, in_processes, on_cluster


class Task(Protocol):
    """A piece of work that is sent to a worker, so everything in it must be picklable."""

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units that the task computes; all of one benchmark, method and category."""
        ...

    @property
    def settings_text(self) -> str:
        """The settings that the task is computed with; a store refuses to mix different ones."""
        ...

    def without(self, done: set[Unit]) -> Self:
        """The task that remains when these units are done."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)
# A number of processes, or `dask:ADDRESS`.
Workers = int | str

# The message of the run in this process when it is interrupted.
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

    - `tasks`: all tasks, including those that are done.
    - `evaluate`: a module-level function, since workers import it; returns one record per unit of
        the task. It must turn failures into a status that begins with `error`.
    - `store`: the store for the records.
    - `summarise`: computes further records of a task, in this process, from its new records and
        the store.
    - `killed`: makes the records of a task that ended its worker process twice, from the status.
    - `kind`: the kind of a task. Tasks of one kind go to one process, as long as the other
        processes have other kinds. For tasks that share compiled programs or simulations.
    - `workers`: number of processes; 1 computes in this one. Or `dask:ADDRESS`, the workers of a
        cluster.
    - `retry_errors`: whether units whose status is an error are repeated.

    A process that is killed is replaced. Another run may write the same file at the same time; its
    results are kept and not computed again. After an interrupt the same call resumes the run.

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
    """Run `main` as the process of a benchmark, which Ctrl-C ends at once with a message. Unless
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
        f"interrupted; {n_done} of {n} tasks are in {store.path}, and the same command "
        "resumes from there."
    )


def _still_to_do(tasks: Sequence[AnyTask], store: Store, bar) -> Iterator[AnyTask]:
    """Yield the tasks, without the units that another run has done by then."""
    for task in tasks:
        unit = task.units[0]
        rest = task.without(store.done(unit.benchmark, method=unit.method))
        if rest.units:
            yield rest
        else:
            bar.write(f"{_name(task)} is already in {store.path}, written by another run")
            bar.update()


def _write(store: Store, task: AnyTask, records: list[Record], summarise, say) -> None:
    unit = task.units[0]
    there = store.done(unit.benchmark, method=unit.method) & {record.unit for record in records}
    if there:
        say(
            f"{_name(task)}: {len(there)} of {len(records)} results are already in {store.path}, "
            "written by another run; they are kept"
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
    """Evaluate one task. Compiled functions are cleared before there are too many of them."""
    records = evaluate(task)
    # A worker whose tasks never used JAX has nothing to clear, and need not spend two seconds on
    # its import.
    if "jax" in sys.modules:
        from ndde_jax._memory import drop_programs_if_many

        drop_programs_if_many()
    return records
