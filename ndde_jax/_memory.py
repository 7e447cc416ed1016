"""Limits of compiled programs: how many there may be, and what runs in parallel within one.

Every compiled program takes some memory areas, of which Linux allows a process 65 530; beyond that
compilation fails or the process ends. A program is compiled for each combination of shapes, so a
loop over systems of many lengths reaches the limit after a hundred of them. Programs are dropped
before that.

Under `vmap` a factorisation becomes a batch whose parts wait for threads of XLA, of which there are
as many as cores. If as many such batches as threads run in parallel, they deadlock (jaxlib 0.10.1,
`ParallelBatchMap`): 64 systems on two cores did, at the first call. XLA runs operations in parallel
unless one needs the result of the other. So an operation that must wait is made to depend on one.
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
# no more than this share of the time. Compilation, which adds areas, is far slower: a few hundred
# areas in a second.
INTERVAL = 0.5
MAX_TIME_SHARE = 0.02
# Rows of the shortest padded data.
SHORTEST = 256

_next_count = 0.0
# Areas left after programs were dropped; they belong to something else.
_others = 0


def drop_programs_if_many(*arguments: Any) -> None:
    """Drop compiled programs if there are too many. Called by functions that are about to compile,
    with their arguments. Does nothing while those are traced, since the outer trace needs its
    programs.
    """
    global _next_count, _others
    before = time.monotonic()
    if before < _next_count:
        return
    count, now = memory_maps(), time.monotonic()
    _next_count = now + max(INTERVAL, (now - before) / MAX_TIME_SHARE)
    if count <= MOST_MAPS + _others:
        return
    # Under `jit` every new array is traced, under `vmap` and `grad` only what depends on arguments.
    if not is_traced(jnp.zeros(()), arguments):
        jax.clear_caches()
        # Otherwise a process with many other areas would compile everything again and again.
        _others = max(0, memory_maps() - MOST_MAPS // 2)


def memory_maps() -> int:
    """Return the number of memory areas of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def machine_memory() -> float:
    """Return the memory of this machine in bytes; infinite if the system does not report it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def round_size(n: int, *, up: bool = True) -> int:
    """Round up (or down) to 2^k or 3·2^k, so that programs are compiled for few sizes."""
    step = max((1 << n.bit_length()) // 4, 1)
    return (-(-n // step) if up else n // step) * step


def padded_length(n: int) -> int:
    """Return a length with room for this many rows, one of the few that are compiled."""
    return round_size(max(n, SHORTEST))


def after(value: Inexact[Array, "..."], done: Inexact[Array, "*other"]) -> Inexact[Array, "..."]:
    """Return the value unchanged, but computed after `done`. A barrier of XLA does not work: on
    CPUs it is removed before programs are scheduled.
    """
    first = done.ravel()[0]
    return value + jnp.minimum(jnp.abs(first), 0).astype(value.dtype)
