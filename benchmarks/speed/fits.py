"""Training: one sparsifying step against PyTorch, its compilation, and many systems against one."""

import subprocess
import time
from pathlib import Path

import jax
import jax.random as jr
import numpy as np

import ndde_jax as ndde
from benchmarks import tables

from ._timing import best_of, matmul_peak

SIZES = ((3, 3), (10, 20))  # targets, inputs
BATCH, DRAWS, WIDTH = 128, 3, 8


def report(*, quick: bool, torch_python: str) -> str:
    """Measure, and return two Markdown tables."""
    steps, repeats = (200, 2) if quick else (2000, 5)
    peak = matmul_peak()
    rows = []
    for n_targets, n_inputs in SIZES[:1] if quick else SIZES:
        w = windows(n_targets, n_inputs, key=jr.key(0))
        compiling, per_step = step_time(w, steps, repeats)
        torch = torch_time(torch_python, n_targets, n_inputs, steps)
        rate = step_flops(n_targets, n_inputs) / per_step
        rows.append(
            (
                f"{n_targets} targets, {n_inputs} inputs",
                f"{1e6 * per_step:.0f}",
                "not installed" if torch is None else f"{torch:.0f}",
                "" if torch is None else f"{torch / (1e6 * per_step):.1f}",
                f"{compiling:.1f}",
                f"{rate / 1e9:.1f} GFLOP/s = {100 * rate / peak:.0f} %",
            )
        )
    header = ("size", "µs/step", "PyTorch µs/step", "ratio", "compile s", "rate, share of peak")
    many = batch_rows(8 if quick else 64, steps // 2, repeats)
    return (
        f"{tables.markdown(header, rows)}\n\n"
        f"Matrix-product peak of one core: {peak / 1e9:.0f} GFLOP/s (float32).\n\n"
        f"{tables.markdown(('many systems', 'value'), many)}"
    )


def windows(n_targets: int, n_inputs: int, *, key, n: int = 1000) -> ndde.Windows:
    """Return random walks with the number of lags that gives this number of inputs."""
    lags = tuple(range(n_inputs // n_targets))
    x = np.cumsum(np.asarray(jr.normal(key, (n + len(lags), n_targets))), axis=0)
    return ndde.lagged_windows(x, dt=1.0, lags=lags)


def configuration(n_steps: int) -> ndde.FitConfig:
    """Return settings of sparsifying steps only."""
    return ndde.FitConfig(
        max_steps=n_steps, warmup="adam", warmup_steps=0, refine="none", patience=n_steps + 1
    )


def step_time(w: ndde.Windows, n_steps: int, repeats: int) -> tuple[float, float]:
    """Return seconds to compile, and seconds per step: the slope between two lengths, free of
    overhead.
    """
    method = ndde.L0NDDE(path=())
    seconds = []
    for n in (n_steps, 3 * n_steps):
        run = lambda n=n: ndde.fit(method, w, configuration(n), key=jr.key(1))  # noqa: E731
        start = time.perf_counter()
        jax.block_until_ready(run())
        first = time.perf_counter() - start
        seconds.append((first, best_of(repeats, run)))
    (first, short), (_, long) = seconds
    return first - short, (long - short) / (2 * n_steps)


def step_flops(n_targets: int, n_inputs: int) -> float:
    """Return the number of multiplications and additions of one step's matrix products, forward and
    backward.

    The backward pass has two products per forward product, but none for the inputs.
    """
    columns = 2 * DRAWS * BATCH * n_targets
    first, rest = WIDTH * n_inputs, WIDTH * WIDTH + WIDTH
    return columns * (2 * first + 3 * rest)


def torch_time(python: str, n_targets: int, n_inputs: int, n_steps: int) -> float | None:
    """Return microseconds per step of the PyTorch peer, None if it cannot run."""
    script = Path(__file__).parent / "torch_l0.py"
    command = [python, str(script), str(n_targets), str(n_inputs), str(min(n_steps, 500))]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return float(answer.stdout) if answer.returncode == 0 else None


def batch_rows(n_systems: int, n_steps: int, repeats: int) -> list[tuple[str, str]]:
    """Return rows on many systems: a warm loop, and one and two workers of `fit_many`."""
    method, config = ndde.L0NDDE(path=()), configuration(n_steps)
    many = [windows(3, 3, key=jr.key(i)) for i in range(n_systems)]
    one = many[0]
    padded = ndde.fit_many(method, [one], config, key=jr.key(0), progress=False)
    jax.block_until_ready(padded)

    def loop():
        for i in range(n_systems):
            jax.block_until_ready(ndde.fit(method, one, config, key=jr.key(i)))

    def batch(workers):
        return ndde.fit_many(method, many, config, key=jr.key(0), workers=workers, progress=False)

    repeats = min(repeats, 3)
    jax.block_until_ready(ndde.fit(method, one, config, key=jr.key(0)))
    single = best_of(repeats, loop)
    alone = best_of(repeats, lambda: batch(1))
    pair = best_of(repeats, lambda: batch(2))
    return [
        ("systems", str(n_systems)),
        ("cost per system, batch with one worker / warm loop", f"{alone / single:.2f}"),
        ("speed-up of two workers over one", f"{alone / pair:.2f}"),
    ]
