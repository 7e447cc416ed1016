"""The process of a command line: how it ends, and the compiled programs it keeps.

All of it is for commands, never for the library by itself.

JAX keeps compiled programs under a digest of the program, its own version and its settings. What is
kept is code for one kind of processor, so that directories are told apart by it.
"""

import contextlib
import hashlib
import os
import platform
import signal
import threading
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future
from pathlib import Path

from ._files import drop_partial

INTERRUPTED = 130


def run_program(work: Callable[[], int], farewell: Callable[[], str]) -> int:
    """Run the work of a whole process, which Ctrl-C and SIGTERM end within moments.

    The work is done in a thread, since Python could not raise in the main thread while XLA compiles
    there, for many seconds, and what it then raises in the middle of XLA can end in a segmentation
    fault. The main thread waits, and when told to leave says `farewell()` and ends the process as
    it is, which loses nothing where files are there entirely or not at all.

    Returns what the work returns and raises what it raises. In another thread than the main one,
    where no signal arrives, it just does the work.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: Future[int] = Future()

    def run():
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    def leave(*_):
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        drop_partial()
        with contextlib.suppress(OSError):
            # Past Python's own buffer: the other thread may be writing there.
            os.write(2, f"{farewell()}\n".encode())
        os._exit(INTERRUPTED)

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        signal.signal(number, leave)
    thread = threading.Thread(target=run, name="work", daemon=True)
    thread.start()
    while thread.is_alive():
        # Windows delivers signals only between waits.
        thread.join(0.2)
    for number in signals:
        signal.signal(number, signal.SIG_IGN)  # it is over
    return outcome.result()


# All are kept, however quickly they compiled: hundreds of small ones take half of the time, and
# what is kept should not depend on how busy the machine is.
SECONDS = 0.0
# Beyond it what was written first goes first.
MOST_BYTES = 2**30

# Read by JAX when it is imported; by these, processes started from here do the same.
DIRECTORY = "JAX_COMPILATION_CACHE_DIR"
# Read by XLA before the first program.
FLAGS = "XLA_FLAGS"
INSTRUCTIONS, FUSION = "--xla_cpu_max_isa", "--xla_cpu_experimental_ynn_fusion_type"
SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": SECONDS,
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
}


def keep_compiled(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Let this process, and those it starts, keep and reuse compiled programs.

    Returns where: what `JAX_COMPILATION_CACHE_DIR` says, or else a directory of the user's cache;
    None if that cannot be written, which stops nothing.
    """
    import jax

    directory = environment.get(DIRECTORY, "")
    if not directory:
        own = user_directory(environment)
        if own is None:
            return None
        drop_oldest(own)
        directory = environment[DIRECTORY] = str(own)
        for name, value in SETTINGS.items():
            if name not in environment:
                environment[name] = str(value)
                jax.config.update(name.lower(), value)
    jax.config.update(DIRECTORY.lower(), directory)
    if _refuses_its_own():
        _add_flag(environment, INSTRUCTIONS, "AVX2")
    return Path(directory)


def add_up_right(environment: MutableMapping[str, str] = os.environ) -> None:
    """Turn off the setting that makes jaxlib 0.10.2 return wrong sums (jax-ml/jax#39103).

    Installing this library excludes that release; who has it all the same is not to read wrong
    numbers from a command line.
    """
    import jaxlib.version

    if jaxlib.version.__version_info__ == (0, 10, 2):
        _add_flag(environment, FUSION, "")


def _add_flag(environment: MutableMapping[str, str], name: str, value: str) -> None:
    """Add a flag unless the user has set it."""
    flags = environment.get(FLAGS, "")
    if name not in flags:
        environment[FLAGS] = f"{flags} {name}={value}".strip()


def _refuses_its_own() -> bool:
    """Return whether this XLA compiles programs for AVX-512 that it then refuses to load.

    Before 0.10.2 jaxlib takes preferences of the compiler for abilities of the processor, compiles
    anew, and prints a page for every program (openxla/xla#44565). Code for AVX2 has none of them.
    """
    import jaxlib.version

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and jaxlib.version.__version_info__ < (0, 10, 2)


def user_directory(environment: MutableMapping[str, str]) -> Path | None:
    """Return a directory below `XDG_CACHE_HOME` or `~/.cache`, for processors like this one; None
    if none can be written.
    """
    base = environment.get("XDG_CACHE_HOME", "")
    # As its standard says, what is not absolute counts as nothing.
    home = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
    directory = Path(home) / "ndde_jax" / "xla" / _processor()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None


def drop_oldest(directory: Path, most: int = MOST_BYTES) -> None:
    """Remove files, the oldest first, until the rest takes at most so many bytes."""
    with contextlib.suppress(OSError):  # another process was faster, or it is not ours to remove
        files = [(path.stat().st_mtime, path) for path in directory.iterdir() if path.is_file()]
        excess = sum(path.stat().st_size for _, path in files) - most
        for _, path in sorted(files):
            if excess <= 0:
                return
            excess -= path.stat().st_size
            path.unlink()


def _processor() -> str:
    """Return a digest of the processor: a home directory may be shared by unlike machines."""
    kind = platform.machine() + platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind += next(line for line in lines if line.startswith(("flags", "Features")))
    return hashlib.sha256(kind.encode()).hexdigest()[:12]
