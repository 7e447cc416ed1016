"""A single thread for NumPy's linear algebra: for command lines, never for the library by itself.

A search solves thousands of small systems of equations. OpenBLAS hands each to as many threads as
there are cores, which then wait for one another: a third more CPU time, and no sooner done.
"""

import ctypes
import os
from collections.abc import MutableMapping
from pathlib import Path

# Read by OpenBLAS when it is loaded, which has happened here, and not yet in processes to come.
VARIABLE = "OPENBLAS_NUM_THREADS"
OTHERS = ("OMP_NUM_THREADS", "GOTO_NUM_THREADS")
# Where the wheels of NumPy keep it, and its names; what comes from elsewhere keeps its threads.
FOLDERS = ("numpy.libs", "numpy/.dylibs")
FUNCTIONS = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads")


def one_blas_thread(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set one BLAS thread for this process and those it starts, unless the user has set a
    number.
    """
    if any(name in environment for name in (VARIABLE, *OTHERS)):
        return
    environment[VARIABLE] = "1"
    for library in _bundled():
        try:
            handle = ctypes.CDLL(str(library))
        except OSError:
            continue
        for name in FUNCTIONS:
            if hasattr(handle, name):
                getattr(handle, name)(1)


def _bundled() -> list[Path]:
    """Return NumPy's own BLAS libraries; SciPy loads its own later, and reads the variable then."""
    import numpy

    site = Path(numpy.__file__).parents[1]
    return [path for folder in FOLDERS for path in (site / folder).glob("*openblas*")]
