"""Execution of many systems in threads, processes or on a cluster: one loop submits, stores and
resumes.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import jax

from ._checks import argument_error, check_whole
from ._memory import drop_programs_if_many
from ._store import Kept, from_bytes, to_bytes
from ._types import Checked

# Systems that an executor receives at a time: enough for hundreds of workers, and few enough that
# those waiting take little memory.
MAX_PENDING = 512
# The function that computes a system, and its argument as bytes.
Parcel = tuple[Callable[[Any], Any], bytes]


@dataclasses.dataclass(frozen=True)
class Failed:
    """The entry in a list of results for a system that failed.

    - `index`: index of the system.
    - `error`: message of the error, as the function raises it for this system alone.
    - `kind`: type of the error: `"ValueError"` for data that are refused; `"KilledWorker"` for a
        system that ended the cluster processes that computed it.
    - `traceback`: traceback of the error.
    """

    index: int
    error: str
    kind: str
    traceback: str = dataclasses.field(default="", repr=False, compare=False)

    def exception(self) -> Exception:
        """Return the error to raise: a `ValueError` if it was one, otherwise a `RuntimeError`."""
        if self.kind == "ValueError":
            return ValueError(f"systems[{self.index}]: {self.error}")
        error = RuntimeError(f"systems[{self.index}]: {self.kind}: {self.error}")
        error.add_note(self.traceback)
        return error


def run_many(
    one: Callable[[int, Any], Any] | None,
    n: int,
    *,
    kept: Kept | None = None,
    name: Callable[[int], str | None] | None = None,
    executor: Checked[Executor | None] = None,
    parcel: Callable[[int], Parcel] | None = None,
    workers: Checked[int | None] = None,
    keep_failures: bool = False,
    progress: bool = True,
    label: str = "fit",
    stacklevel: int = 1,
) -> list:
    """Return the results of n systems, in order, computing only those not stored as `name(i)`.

    Without an executor `one(i, device)` runs in threads of this process: XLA releases Python's
    lock. With an executor, `parcel(i)` returns a module-level function and its argument as bytes;
    the result comes back as bytes, and is stored here. With `keep_failures` an error becomes
    `Failed` in the place of the result.
    """
    from tqdm import tqdm

    executor = as_executor(executor)
    if workers is None:
        cores = max(os.cpu_count() or 1, len(jax.local_devices()))
        workers = cores if executor is None else MAX_PENDING
    check_whole(workers, "workers")
    # The main thread, where Ctrl-C arrives, only waits, even for reading and storing: an interrupt
    # in the middle of XLA can end the process with a segmentation fault.
    pool = concurrent.futures.ThreadPoolExecutor(workers if executor is None else 1)
    names: list[str | None] = [None] * n
    results: list[Any] = [None] * n

    def keep(i: int, result: Any) -> None:
        if kept is not None and names[i] is not None:
            kept.save(names[i], result, f"system {i}")

    if executor is None:
        crew = _ThreadBackend(pool, keep, keep_failures, _settings(), one)
    else:
        crew = _ExecutorBackend(pool, keep, keep_failures, _settings(), executor, parcel)
    pending: dict[Future, int] = {}
    closing = contextlib.ExitStack()
    try:
        if kept is not None and name is not None:
            names[:] = pool.submit(lambda: [name(i) for i in range(n)]).result()
            results[:] = pool.submit(lambda: [file and kept.load(file) for file in names]).result()
            kept.warn(stacklevel=stacklevel + 1)
        missing = [i for i in range(n) if results[i] is None]
        shown = dict(desc=label, unit="system", disable=not progress)
        bar = closing.enter_context(tqdm(total=n, initial=n - len(missing), **shown))
        waiting = iter(missing)
        ahead = n if executor is None else workers
        while True:
            for i in itertools.islice(waiting, ahead - len(pending)):
                pending[crew.start(i)] = i
            if not pending:
                break
            for future in _finished(pending):
                results[pending[future]] = crew.receive(pending[future], future)
                del pending[future]
                bar.update()
    except BaseException as error:
        # Running systems finish here and are kept; those that have not started are dropped.
        for future in pending:
            future.cancel()
        running = sum(not future.done() for future in pending) if executor is None else 0
        if progress and running and isinstance(error, KeyboardInterrupt):
            print(f"Interrupted; waiting for {running} running fits to be kept.", file=sys.stderr)
        # Results that other processes finished after the interruption.
        for future, i in pending.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                with contextlib.suppress(Exception):
                    crew.receive(i, future)
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, concurrent.futures.BrokenExecutor):
            error.add_note(BROKEN)
        if kept is not None:
            where = f"{kept.count()} results are kept in {kept.directory}"
            error.add_note(f"{where}; the same call resumes from there.")
        elif executor is not None:
            error.add_note("With directory=... finished results would have been kept.")
        raise
    finally:
        closing.close()
        pool.shutdown()
        if kept is not None:
            kept.warn(stacklevel=stacklevel + 1)
    return results


def _finished(pending: dict[Future, int]) -> list[Future]:
    """Return at least one finished future, in order of their systems."""
    done, _ = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
    return sorted(done, key=pending.get)


@dataclasses.dataclass
class _Backend:
    """A base of the two ways to compute systems: a `pool` of threads, and how results are kept."""

    pool: Executor
    keep: Callable[[int, Any], None]
    keep_failures: bool
    settings: "Settings"

    def attempt(self, i: int, work: Callable[[], Any], blamed: type[Exception] = Exception) -> Any:
        """Return the result for a system, or `Failed` if it fails and failures are kept."""
        try:
            with _with_settings(self.settings):
                return work()
        except blamed as error:
            if not self.keep_failures:
                raise
            return _failed(i, error)


@dataclasses.dataclass
class _ThreadBackend(_Backend):
    """A backend of threads in this process, which share its devices in turn and store their
    results.
    """

    one: Callable[[int, Any], Any]

    def start(self, i: int) -> Future:
        return self.pool.submit(self._work, i)

    def receive(self, i: int, future: Future) -> Any:
        return future.result()

    def _work(self, i: int) -> Any:
        devices = jax.local_devices()
        device = devices[i % len(devices)]
        # A default device compiles programs again, so set one only if there are several devices.
        with jax.default_device(device) if len(devices) > 1 else contextlib.nullcontext():
            result = self.attempt(i, lambda: jax.block_until_ready(self.one(i, device)))
        if not isinstance(result, Failed):
            self.keep(i, result)
        return result


@dataclasses.dataclass
class _ExecutorBackend(_Backend):
    """Computation by a given executor; the one thread of the pool packs, unpacks and stores."""

    executor: Executor
    parcel: Callable[[int], Parcel]

    def start(self, i: int) -> Future:
        ready = self.pool.submit(self.attempt, i, lambda: self.parcel(i), ValueError)
        parcel: Parcel | Failed = ready.result()
        if isinstance(parcel, Failed):
            return ready
        return self.executor.submit(compute, i, *parcel, self.settings)

    def receive(self, i: int, future: Future) -> Any:
        try:
            answer = future.result()
        except Exception as error:
            # Dask tried it on several workers, and all of them died.
            if not (self.keep_failures and type(error).__name__ == "KilledWorker"):
                raise
            answer = _failed(i, error)
        if not isinstance(answer, Failed):
            return self.pool.submit(self._unpack, i, answer).result()
        if not self.keep_failures:
            raise answer.exception()
        return answer

    def _unpack(self, i: int, answer: bytes) -> Any:
        with _with_settings(self.settings):
            result = from_bytes(answer, object)
        self.keep(i, result)
        return result


BROKEN = (
    "A process of the executor ended. It may have been killed because it ran out of memory, or the "
    'script starts processes outside of `if __name__ == "__main__":`. A broken executor cannot be '
    "used again; make a new one."
)


def compute(
    index: int, function: Callable[[Any], Any], value: bytes, settings: "Settings"
) -> bytes | Failed:
    """Return the result of a system, from bytes to bytes; runs in a worker. Errors are sent as
    text, since not every exception can be sent.
    """
    with _with_settings(settings):
        try:
            drop_programs_if_many()
            return to_bytes(jax.block_until_ready(function(from_bytes(value, object))))
        except Exception as error:
            return _failed(index, error)


def as_executor(executor: Any) -> Executor | None:
    """Return an executor of `concurrent.futures`, or that of a Dask client.

    **Raises:** `ValueError` for anything else, and for an executor that forks.
    """
    if executor is None:
        return None
    if callable(getattr(executor, "get_executor", None)) and not isinstance(executor, type):
        executor = executor.get_executor(pure=False)
    if not isinstance(executor, Executor):
        expected = "None, a concurrent.futures.Executor or a dask.distributed.Client"
        raise argument_error("executor", expected, executor)
    if isinstance(executor, concurrent.futures.ProcessPoolExecutor):
        context = getattr(executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ValueError(
                "executor must spawn its processes; got a ProcessPoolExecutor that forks, "
                "and JAX hangs in forked processes. Write ProcessPoolExecutor(N, "
                'mp_context=multiprocessing.get_context("spawn")).'
            )
    return executor


def sendable(value: Any, what: str = "settings") -> bytes:
    """Return a value as bytes, to send it or to derive a file name from it.

    **Raises:** `ValueError` if it holds objects that cannot be saved.
    """
    try:
        return to_bytes(value)
    except TypeError as error:
        raise ValueError(
            f"{what} must consist of arrays, numbers, words and objects of ndde_jax to be sent or "
            f"stored; {error} Omit executor and directory."
        ) from error


# ---- settings of JAX, which change numbers but are not among the arguments ----

Settings = tuple[bool, str | None]


def _settings() -> Settings:
    """Return the caller's settings of JAX."""
    return bool(jax.config.jax_enable_x64), jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]


@contextlib.contextmanager
def _with_settings(settings: Settings) -> Iterator[None]:
    """Apply the caller's settings in this thread, in any process."""
    x64, precision = settings
    with contextlib.ExitStack() as stack:
        if x64 != jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            stack.enter_context(jax.enable_x64(x64))
        if precision != jax.config.jax_default_matmul_precision:  # type: ignore[attr-defined]
            stack.enter_context(jax.default_matmul_precision(precision))
        yield


def _failed(index: int, error: Exception) -> Failed:
    kind = "ValueError" if isinstance(error, ValueError) else type(error).__name__
    text = "".join(traceback.format_exception(error))
    return Failed(index, str(error) or type(error).__name__, kind, text)
