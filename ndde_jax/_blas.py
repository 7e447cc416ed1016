"""The threads of NumPy's and SciPy's linear algebra.

A search solves thousands of small systems of equations. OpenBLAS splits each among as many threads
as there are cores, which then wait for one another. This takes longer, and several times the CPU
time.

The wheels of NumPy and SciPy each include an OpenBLAS. Other builds keep their threads, and so does
a number of threads that the user has set by an environment variable.
"""

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

# OpenBLAS reads it when it is loaded: already done in this process, but not in those started later.
VARIABLE = "OPENBLAS_NUM_THREADS"
OTHER_VARIABLES = ("OMP_NUM_THREADS", "GOTO_NUM_THREADS")
# The module that loads each library, the folders that hold it, and the suffix of its functions.
PACKAGES = (
    ("numpy", ("numpy.libs", "numpy/.dylibs"), "64_"),
    ("scipy.linalg", ("scipy.libs", "scipy/.dylibs"), ""),
)

_lock = threading.Lock()
_inside = 0


class _Library(NamedTuple):
    """A loaded OpenBLAS: functions that set and return its number of threads."""

    set_threads: Callable[[int], Any]
    threads: Callable[[], int]


# The libraries that are limited at the moment, with their earlier numbers of threads.
_limited: list[tuple[_Library, int]] = []


def limit_blas_to_one_thread(environment: MutableMapping[str, str] = os.environ) -> None:
    """Limit this process and those it starts to one BLAS thread, unless the user has set a
    number.
    """
    if not _chosen(environment):
        environment[VARIABLE] = "1"
        for library in _loaded():
            library.set_threads(1)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread within this context and restore the earlier number after it, unless the
    user has set a number. Contexts may be nested, and entered by several threads at once.
    """
    global _inside
    if _chosen(os.environ):
        yield
        return
    import scipy.linalg  # noqa: F401  # otherwise JAX loads its library within the context

    with _lock:
        if _inside == 0:
            _limited[:] = [(library, library.threads()) for library in _loaded()]
            for library, _ in _limited:
                library.set_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, number in _limited:
                    library.set_threads(number)


def _chosen(environment: MutableMapping[str, str]) -> bool:
    return any(name in environment for name in (VARIABLE, *OTHER_VARIABLES))


def _loaded() -> list[_Library]:
    """Return the libraries loaded by the wheels of NumPy and SciPy."""
    loaded = (place for package, *place in PACKAGES if package in sys.modules)
    return [library for place in loaded for library in _libraries(*place)]


@functools.cache
def _libraries(folders: tuple[str, ...], end: str) -> list[_Library]:
    import numpy

    site, found = Path(numpy.__file__).parents[1], []
    for path in (path for folder in folders for path in (site / folder).glob("*openblas*")):
        with contextlib.suppress(OSError, AttributeError):
            handle = ctypes.CDLL(str(path))
            names = (f"scipy_openblas_{verb}_num_threads{end}" for verb in ("set", "get"))
            found.append(_Library(*(getattr(handle, name) for name in names)))
    return found
