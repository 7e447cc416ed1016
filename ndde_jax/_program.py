"""The process of a command line: how it ends, and the compiled programs it keeps.

All of this is for commands; the library itself never uses it.

JAX stores compiled programs under a digest of the program, its own version and its settings. They
are code for one kind of processor, so each kind has its own directory.
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
    """Run the work of a whole process so that Ctrl-C and SIGTERM end it within moments.

    The work runs in a thread. In the main thread Python could not raise for many seconds while XLA
    compiles, and an exception in the middle of XLA can cause a segmentation fault. The main thread
    waits. On a signal it prints `farewell()` and ends the process at once, which loses nothing,
    since files are written entirely or not at all.

    Returns and raises what the work does. Outside the main thread, where no signal arrives, it just
    runs the work.
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
            # Not by Python's buffer, to which the other thread may be writing.
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
        signal.signal(number, signal.SIG_IGN)  # the work is done
    return outcome.result()


# Programs are kept however quickly they compiled: hundreds of small ones take half of the time, and
# the choice should not depend on how busy the machine is.
SECONDS = 0.0
# Beyond this size the oldest files are removed first.
MOST_BYTES = 2**30

# JAX reads these when it is imported, so processes started from here use the same cache.
DIRECTORY = "JAX_COMPILATION_CACHE_DIR"
# XLA reads it before the first program.
FLAGS = "XLA_FLAGS"
INSTRUCTIONS, FUSION = "--xla_cpu_max_isa", "--xla_cpu_experimental_ynn_fusion_type"
SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": SECONDS,
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
}


def enable_compilation_cache(environment: MutableMapping[str, str] = os.environ) -> Path | None:
    """Let this process, and those it starts, keep and reuse compiled programs.

    Returns the directory: that of `JAX_COMPILATION_CACHE_DIR`, or else one in the user's cache;
    None if that cannot be written, which is no error.
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


def disable_wrong_sums(environment: MutableMapping[str, str] = os.environ) -> None:
    """Turn off the setting that makes jaxlib 0.10.2 return wrong sums (jax-ml/jax#39103).

    This library does not install with that release, but if it is there, the command line must not
    print wrong numbers.
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

    Before 0.10.2 jaxlib mistakes preferences of the compiler for features of the processor,
    compiles again, and prints a page for every program (openxla/xla#44565). Code for AVX2 has none
    of these preferences.
    """
    import jaxlib.version

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and jaxlib.version.__version_info__ < (0, 10, 2)


def user_directory(environment: MutableMapping[str, str]) -> Path | None:
    """Return a directory below `XDG_CACHE_HOME` or `~/.cache`, for processors like this one; None
    if it cannot be written.
    """
    base = environment.get("XDG_CACHE_HOME", "")
    # By the XDG standard, a relative path is ignored.
    home = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")
    directory = Path(home) / "ndde_jax" / "xla" / _processor()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None


def drop_oldest(directory: Path, most: int = MOST_BYTES) -> None:
    """Remove files, the oldest first, until the rest takes at most this many bytes."""
    with contextlib.suppress(OSError):  # removed by another process, or not ours to remove
        files = [(path.stat().st_mtime, path) for path in directory.iterdir() if path.is_file()]
        excess = sum(path.stat().st_size for _, path in files) - most
        for _, path in sorted(files):
            if excess <= 0:
                return
            excess -= path.stat().st_size
            path.unlink()


def _processor() -> str:
    """Return a digest of the processor: different machines may share a home directory."""
    kind = platform.machine() + platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind += next(line for line in lines if line.startswith(("flags", "Features")))
    return hashlib.sha256(kind.encode()).hexdigest()[:12]
