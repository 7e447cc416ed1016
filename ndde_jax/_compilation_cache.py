"""A cache of compiled programs that outlive the process: for command lines, never for the library.

JAX keeps them, under a digest of the program, its own version and its settings. What is kept is
code for one kind of processor, so that directories are told apart by it.
"""

import hashlib
import os
import platform
from collections.abc import MutableMapping
from pathlib import Path

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
    try:
        files = [(stat.st_mtime, stat.st_size, entry.path)
                 for entry in os.scandir(directory)
                 if entry.is_file() and (stat := entry.stat())]  # fmt: skip
        excess = sum(size for _, size, _ in files) - most
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            os.unlink(path)
            excess -= size
    except OSError:
        pass  # another process was faster, or it is not ours to remove


def _processor() -> str:
    """Return a digest of the processor: a home directory may be shared by unlike machines."""
    kind = platform.machine() + platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        kind += next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        pass
    return hashlib.sha256(kind.encode()).hexdigest()[:12]
