"""How long until there is a graph: in a fresh process, with programs kept, warm, on another shape;
beside peers on the same data; and how it grows.

CPU seconds, which another program on the machine disturbs least, and seconds on the clock.
"""

import functools
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax.random as jr
import numpy as np

import ndde_jax as ndde
from benchmarks import linear, peers
from benchmarks.tables import markdown

EXAMPLE = "tropical_pacific"
# A length that no earlier call had.
SHORTER = 600
# (variables, candidate lags, samples), each number doubled on its own, and what PCMCI+ is timed on.
SIZES = ((5, 5, 1000), (10, 5, 1000), (5, 10, 1000), (5, 5, 2000), (20, 10, 2000))
QUICK = ((2, 2, 200), (3, 2, 200))


def report(*, quick: bool = False) -> str:
    """Both tables as Markdown."""
    return f"{first_graph(quick=quick)}\n\n{growth(QUICK if quick else SIZES, quick=quick)}"


def first_graph(*, quick: bool = False) -> str:
    """A table of what a user waits for on the example of the front page."""
    example = ndde.load_example(EXAMPLE)
    x = example.values[: 120 if quick else None]
    shared = dict(dt=example.dt, lags=example.lags, key=jr.key(0))
    recipe = ndde.Recipe.fast() if quick else ndde.Recipe()

    def discover(values):
        return ndde.discover(values, recipe=recipe, **shared)

    rows = [] if quick else list(_processes())
    discover(x)
    shorter = x[: len(x) * SHORTER // 720]
    rows += [
        ("`ndde.discover`, warm", *_timed(lambda: discover(x))),
        (f"`ndde.discover`, then {len(shorter)} samples", *_timed(lambda: discover(shorter))),
    ]
    windows = ndde.lagged_windows(x, dt=example.dt, lags=example.lags)
    rows += _peers(x, example.lags, windows)
    title = f"Time to a graph, `{EXAMPLE}`: {x.shape[0]} samples of {x.shape[1]} variables, "
    cells = [[name, f"{cpu:.1f}", f"{wall:.1f}"] for name, cpu, wall in rows]
    return f"{title}{len(example.lags)} lags.\n\n" + markdown(["", "CPU s", "s"], cells)


def _processes() -> Iterator[tuple[str, float, float]]:
    """The command line in fresh processes, with an empty cache of programs and a full one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("nothing compiled", "programs kept"):
            out = Path(folder, name.replace(" ", "_"))
            command = [sys.executable, "-m", "ndde_jax.cli", "discover", "--example", EXAMPLE]
            run = [*command, "--out", str(out), "--quiet"]
            start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(run, check=True, env=environment, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            yield f"`ndde-jax discover`, {name}", cpu, time.perf_counter() - start


def _peers(x, lags, windows) -> list[tuple[str, float, float]]:
    """Other libraries on the same data, of those that are installed."""
    known = {
        "tigramite": ("PCMCI+ (tigramite), warm", lambda: peers.pcmci_plus(x, lags)),
        "pysindy": (
            "sparse regression (PySINDy), warm",
            lambda: linear.on_windows(peers.lagged_sparse_regression, windows),
        ),
    }
    rows = []
    for package, (name, run) in known.items():
        if importlib.util.find_spec(package) is None:
            rows.append((f"{name}: not installed", np.nan, np.nan))
            continue
        run()
        rows.append((name, *_timed(run)))
    return rows


def growth(sizes, *, quick: bool = False) -> str:
    """A table of warm calls on simulated networks of several sizes."""
    recipes = {"default": ndde.Recipe(), "fast": ndde.Recipe.fast()}
    if quick:
        recipes.pop("default")
    peer = importlib.util.find_spec("tigramite") is not None
    cells = []
    for dim, n_lags, length in sizes:
        x, lags = network(dim, length, seed=0), tuple(range(n_lags))
        row = [str(dim), str(n_lags), str(length)]
        for recipe in recipes.values():

            def discover(x=x, lags=lags, recipe=recipe):
                return ndde.discover(x, dt=1.0, lags=lags, recipe=recipe, key=jr.key(0))

            discover()
            row.append(f"{_timed(discover)[0]:.1f}")
        row.append(
            f"{_timed(functools.partial(peers.pcmci_plus, x, lags))[0]:.1f}" if peer else "-"
        )
        cells.append(row)
    heads = ["variables", "lags", "samples", *(f"`{name}`" for name in recipes), "PCMCI+"]
    return "CPU seconds of a warm call on simulated networks.\n\n" + markdown(heads, cells)


def network(dim: int, length: int, *, seed: int) -> np.ndarray:
    """Noisy relaxations, each of which follows two others after one to three samples."""
    rng = np.random.default_rng(seed)
    x, kicks = np.zeros((length + 100, dim)), rng.normal(size=(length + 100, dim))
    sources, delays = rng.integers(dim, size=(2, dim)), rng.integers(1, 4, size=(2, dim))
    for k in range(3, len(x) - 1):
        drive = np.tanh(x[k - delays, sources]).sum(axis=0)
        x[k + 1] = 0.7 * x[k] + 0.1 * drive + 0.5 * kicks[k]
    return x[100:]


def _timed(run: Callable) -> tuple[float, float]:
    """CPU seconds of this process, and seconds on the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall
