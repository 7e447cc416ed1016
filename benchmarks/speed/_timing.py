"""Measurement of seconds, and of the peak speed of a core."""

import os
import time

import jax
import jax.numpy as jnp
import jax.random as jr


def best_of(repeats: int, run) -> float:
    """Return the minimum of several times in seconds, since noise of the machine only adds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def compile_and_run(repeats: int, run) -> tuple[float, float]:
    """Return the extra seconds of the first call, and the minimum seconds of a later call."""
    first = best_of(1, run)
    least = best_of(repeats, run)
    return first - least, least


def matmul_peak(n: int = 1024) -> float:
    """Return floating-point operations per second of a large matrix product, per core in use."""
    a = jr.normal(jr.key(0), (n, n), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(a))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 2 * n**3 / best_of(20, lambda: product(a)) / cores
