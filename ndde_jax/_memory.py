"""Compiled programs are kept few, and forgotten before there are too many for the operating system.

Every compiled program takes some memory areas, of which Linux allows a process 65 530; beyond that
compilation fails or the process ends. A program is compiled for each combination of shapes, so a
loop over systems of many lengths gets there after a hundred of them.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp

# A large fit takes a few thousand.
MOST_MAPS = 30_000
# Counting takes milliseconds, so it is not done at every call. Areas come from compiling, which
# takes far longer: a second of it adds a few hundred.
INTERVAL = 0.5
# Rows of the shortest padded data.
SHORTEST = 256

_last_count = -INTERVAL
# Areas that stayed when programs were forgotten: they are of something else.
_others = 0


def make_room(*arguments: Any) -> None:
    """Forget compiled programs if there are too many. For functions that are about to compile, with
    their arguments; does nothing while those are traced, since who traces needs what is compiled.
    """
    global _last_count, _others
    now = time.monotonic()
    if now - _last_count < INTERVAL:
        return
    _last_count = now
    if memory_maps() <= MOST_MAPS + _others:
        return
    # Under `jit` every new array is traced, under `vmap` and `grad` only what depends on arguments.
    leaves = [jnp.zeros(()), *jax.tree.leaves(arguments)]
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        jax.clear_caches()
        # Else a process with many of its own would compile everything again and again.
        _others = max(0, memory_maps() - MOST_MAPS // 2)


def memory_maps() -> int:
    """Memory areas of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def padded_length(n: int) -> int:
    """Room for so many rows: 2^k or 3·2^k, so that few lengths are compiled."""
    length = SHORTEST
    while length < n:
        length = length * 3 // 2 if length & (length - 1) == 0 else length * 4 // 3
    return length
