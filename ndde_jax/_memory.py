"""Limits of compiled programs: how many there may be, and what runs side by side in one.

Every compiled program takes some memory areas, of which Linux allows a process 65 530; beyond that
compilation fails or the process ends. A program is compiled for each combination of shapes, so a
loop over systems of many lengths gets there after a hundred of them: programs are dropped before.

Under `vmap` a factorisation becomes a batch whose parts wait for threads of XLA, of which there are
as many as cores. As many such batches side by side as there are threads wait for ever (jaxlib
0.10.1, `ParallelBatchMap`): 64 systems on two cores did, at the first call. XLA runs side by side
whatever does not need one another's results, so what is not to run yet is made to need one.
"""

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Inexact

from ._checks import is_traced

# A large fit takes a few thousand.
MOST_MAPS = 30_000
# Counting takes two milliseconds for a thousand areas, so it is not done at every call, and takes
# no more than this share of the time. Areas come from compiling, which takes far longer: a second
# of it adds a few hundred.
INTERVAL = 0.5
MOST_OF_TIME = 0.02
# Rows of the shortest padded data.
SHORTEST = 256

_next_count = 0.0
# Areas that stayed when programs were forgotten: they are of something else.
_others = 0


def make_room(*arguments: Any) -> None:
    """Drop compiled programs if there are too many. For functions that are about to compile, with
    their arguments; does nothing while those are traced, since the outer trace needs what is
    compiled.
    """
    global _next_count, _others
    before = time.monotonic()
    if before < _next_count:
        return
    count, now = memory_maps(), time.monotonic()
    _next_count = now + max(INTERVAL, (now - before) / MOST_OF_TIME)
    if count <= MOST_MAPS + _others:
        return
    # Under `jit` every new array is traced, under `vmap` and `grad` only what depends on arguments.
    if not is_traced(jnp.zeros(()), arguments):
        jax.clear_caches()
        # Else a process with many of its own would compile everything again and again.
        _others = max(0, memory_maps() - MOST_MAPS // 2)


def memory_maps() -> int:
    """Return the number of memory areas of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def machine_memory() -> float:
    """Return the bytes of memory of this machine; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def few(n: int, *, up: bool = True) -> int:
    """Return the next size of 2^k and 3·2^k, or the one before it, so that few are compiled."""
    step = max((1 << n.bit_length()) // 4, 1)
    return (-(-n // step) if up else n // step) * step


def padded_length(n: int) -> int:
    """Return a length with room for this many rows, of which few are compiled."""
    return few(max(n, SHORTEST))


def after(value: Inexact[Array, "..."], done: Inexact[Array, "*other"]) -> Inexact[Array, "..."]:
    """Return the value unchanged, but computed after `done`. A barrier of XLA would not do: on CPUs
    it is gone before programs are scheduled.
    """
    first = done.ravel()[0]
    return value + jnp.minimum(jnp.abs(first), 0).astype(value.dtype)
