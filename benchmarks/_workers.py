"""Processes that compute tasks and are replaced when they are killed.

The pools of the standard library give up when one process dies, and do not report its task.
"""

import contextlib
import itertools
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent import futures
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any

# A task that ends its process this often is the cause: it may need too much memory.
MOST_DEATHS = 2
# Number of tasks sent to a cluster before others are finished, and searched for a kind.
AHEAD = 512
SECONDS_TO_CONNECT = 30


@dataclass(frozen=True)
class Killed:
    """The result of a task that ended its process every time."""

    status: str


def in_processes(
    tasks: Iterable[Any],
    evaluate: Callable[[Any], Any],
    workers: int,
    say: Callable[[str], None] = print,
    name: Callable[[Any], str] = str,
    kind: Callable[[Any], Hashable] | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of a task and its result of `evaluate`, in the order in which they finish.

    `tasks` are taken one by one when a process is free. With a `kind`, the next few hundred are
    considered, and each process continues with its own kind. A process that dies is replaced and
    its task tried again; after a second death the task gives `Killed`. Exceptions of `evaluate` are
    raised here. All processes end with this generator.
    """
    line, deaths = _Line(tasks, kind), Counter()
    crew: list[_Worker] = []
    try:
        while True:
            while len(busy := [worker for worker in crew if worker.number is not None]) < workers:
                idle = [worker for worker in crew if worker.number is None]
                at_hand = idle[0].kind if idle else None
                number, task = line.take(at_hand, {worker.kind for worker in busy})
                if number is None:
                    break
                if not idle:
                    idle = [_Worker(evaluate)]
                    crew += idle
                idle[0].give(number, task)
                idle[0].kind = line.kind(task)
            if not busy:
                return
            ready = connection.wait([worker.connection for worker in busy])
            for worker in [worker for worker in busy if worker.connection in ready]:
                number, task = worker.number, worker.task
                try:
                    worked, outcome = worker.take()
                except (EOFError, OSError):
                    crew.remove(worker)
                    how = worker.end()
                    deaths[number] += 1
                    if deaths[number] < MOST_DEATHS:
                        say(f"a worker process {how} while computing {name(task)}; tried again.")
                        line.first(number, task)
                        continue
                    say(f"a worker process {how} once more while computing {name(task)}; given up.")
                    worked, outcome = True, Killed(f"error: worker process {how} twice")
                if not worked:
                    raise outcome
                yield task, outcome
    finally:
        for worker in crew:
            worker.end()


def on_cluster(
    tasks: Iterable[Any],
    evaluate: Callable[[Any], Any],
    address: str,
    say: Callable[[str], None] = print,
    name: Callable[[Any], str] = str,
) -> Iterator[tuple[Any, Any]]:
    """Yield results like `in_processes`, from the workers of the Dask cluster whose scheduler is
    at this address.

    Dask replaces workers that die; a task that kills several gives `Killed`. The cluster keeps
    running; unfinished tasks are cancelled when this generator ends.

    **Raises:** `ValueError` if no scheduler answers at the address.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise ValueError("--executor dask:... needs Dask: install ndde_jax[cluster].") from error
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from error
    tasks, pending = iter(tasks), {}
    with client, client.get_executor(pure=False) as executor:
        try:
            while True:
                for task in itertools.islice(tasks, AHEAD - len(pending)):
                    pending[executor.submit(evaluate, task)] = task
                if not pending:
                    return
                for future in futures.wait(pending, return_when=futures.FIRST_COMPLETED).done:
                    task = pending.pop(future)
                    try:
                        outcome = future.result()
                    except KilledWorker as error:
                        say(f"{name(task)} killed its workers; given up.")
                        outcome = Killed(f"error: {error}")
                    yield task, outcome
        finally:
            for future in pending:
                future.cancel()


class _Line:
    """The queue of waiting tasks, with their numbers."""

    def __init__(self, tasks: Iterable[Any], kind: Callable[[Any], Hashable] | None):
        self.ahead = 1 if kind is None else AHEAD
        self.kind = kind or (lambda task: None)
        self.coming, self.waiting = enumerate(tasks), deque()

    def first(self, number: int, task: Any) -> None:
        """Put a task back."""
        self.waiting.appendleft((number, task))

    def take(self, at_hand: Hashable, taken: set) -> tuple[int | None, Any]:
        """The next task of the current kind, else of a kind without a process, else of any."""
        self.waiting.extend(itertools.islice(self.coming, max(0, self.ahead - len(self.waiting))))
        if not self.waiting:
            return None, None
        kinds = [self.kind(task) for _, task in self.waiting]
        free = [one for one in kinds if one not in taken]
        chosen = kinds.index(at_hand if at_hand in kinds else (free or kinds)[0])
        number, task = self.waiting[chosen]
        del self.waiting[chosen]
        return number, task


class _Worker:
    """A process and its task: `number` is None while it is idle."""

    def __init__(self, evaluate: Callable[[Any], Any]):
        # Forked children would inherit JAX's threads in an unknown state.
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, evaluate), daemon=True)
        with _blocked_interrupts():
            self.process.start()
        theirs.close()  # so that the connection ends with the process
        self.number = self.task = self.kind = None

    def give(self, number: int, task: Any) -> None:
        self.number, self.task = number, task
        # A process that died while idle is detected when its answer is awaited.
        with contextlib.suppress(OSError):
            self.connection.send(task)

    def take(self) -> tuple[bool, Any]:
        """Return whether the task worked, and its result or exception."""
        answer = self.connection.recv()
        self.number = self.task = None
        return answer

    def end(self) -> str:
        """End the process; return in words how it ended if it had already."""
        self.connection.close()
        self.process.join(0.5)
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        if code is not None and code < 0:
            return f"was killed by signal {-code}"
        return f"ended with code {code}"


def _work(tasks: connection.Connection, evaluate: Callable[[Any], Any]) -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            answer = True, evaluate(task)
        except Exception as error:
            answer = False, error
        try:
            tasks.send(answer)
        except OSError:
            return
        except Exception as error:  # what cannot be pickled
            tasks.send(
                (False, RuntimeError(f"{task} gave a result that cannot be sent ({error})."))
            )


def _exit_with_parent() -> None:
    """End a worker whose parent was killed, since nobody needs its results."""
    connection.wait([parent_process().sentinel])
    os._exit(1)


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block interrupts for processes started here, so that Ctrl-C, which a terminal sends to all,
    does not reach them: the parent ends them. Interrupts are blocked from the start, even during
    imports, on systems with signal masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
