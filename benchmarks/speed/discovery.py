"""The time to a graph: in a fresh process, with programs kept, warm, and on another shape, compared
with peers on the same data; its memory; and its growth.

Times are CPU seconds, which other programs on the machine affect least, and wall-clock seconds.
"""

import importlib.util
import math
import os
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
# A length that differs from those of earlier calls.
SHORTER = 600
# (variables, candidate lags, samples): a base from which each number alone is doubled twice.
MIDDLE, DOUBLINGS = (5, 5, 1000), 2
LARGE = (20, 10, 2000)
AXES = ("variables", "lags", "samples")
QUICK_MIDDLE, QUICK_DOUBLINGS = (2, 2, 200), 1
REPEATS = 3


def report(*, quick: bool = False) -> str:
    """Return both tables as Markdown."""
    if quick:
        return f"{first_graph(quick=True)}\n\n{growth(QUICK_MIDDLE, QUICK_DOUBLINGS, quick=True)}"
    return f"{first_graph()}\n\n{growth(MIDDLE, DOUBLINGS, LARGE)}"


def first_graph(*, quick: bool = False) -> str:
    """Return a table of a user's waiting times on the example of the front page."""
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
        ("`ndde.discover`, warm", *_timed(lambda: discover(x)), np.nan),
        (
            f"`ndde.discover`, then {len(shorter)} samples",
            *_timed(lambda: discover(shorter)),
            np.nan,
        ),
    ]
    windows = ndde.lagged_windows(x, dt=example.dt, lags=example.lags)
    rows += _peers(x, example.lags, windows)
    title = f"Time to a graph, `{EXAMPLE}`: {x.shape[0]} samples of {x.shape[1]} variables, "
    cells = [
        [name, f"{cpu:.1f}", f"{wall:.1f}", _megabytes(peak)] for name, cpu, wall, peak in rows
    ]
    heads = ["", "CPU s", "s", "peak MB"]
    return f"{title}{len(example.lags)} lags.\n\n" + markdown(heads, cells)


def _megabytes(peak: float) -> str:
    return "-" if math.isnan(peak) else f"{peak / 1e6:.0f}"


def _processes() -> Iterator[tuple[str, float, float, float]]:
    """The command line in fresh processes, with an empty cache of programs and a full one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        for name in ("nothing compiled", "programs kept"):
            out = Path(folder, name.replace(" ", "_"))
            command = [sys.executable, "-m", "ndde_jax.cli", "discover", "--example", EXAMPLE]
            run = [*command, "--out", str(out), "--quiet"]
            yield f"`ndde-jax discover`, {name}", *_process(run, environment)


def _process(command, environment=None) -> tuple[float, float, float]:
    """Return CPU seconds of a process, wall-clock seconds, and its peak memory in bytes."""
    start, peak = time.perf_counter(), math.nan
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    # The system's figure after its end would include memory from before its start.
    pid = 0
    while pid == 0:
        peak = _peak_memory(child.pid, peak)
        time.sleep(0.02)
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return used.ru_utime + used.ru_stime, time.perf_counter() - start, peak


def _peak_memory(pid: int, before: float) -> float:
    """Return the peak memory of a process in bytes, if the system reports it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return before
    told = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return 1024.0 * int(told[0]) if told else before


def _peers(x, lags, windows) -> list[tuple[str, float, float, float]]:
    """Return rows of other libraries on the same data, if they are installed."""
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
            rows.append((f"{name}: not installed", np.nan, np.nan, np.nan))
            continue
        run()
        rows.append((name, *_timed(run), np.nan))
    return rows


def growth(middle, doublings: int, *more, quick: bool = False) -> str:
    """Time warm calls on simulated networks of several sizes, and fit the growth exponents."""
    methods = _methods(quick=quick)
    scaled = [
        tuple(number * 2 ** (step * (k == axis)) for k, number in enumerate(middle))
        for axis in range(len(AXES))
        for step in range(1, doublings + 1)
    ]
    seconds = {size: _costs(methods, size) for size in (tuple(middle), *scaled, *more)}
    cells = [
        [*map(str, size), *("-" if math.isnan(one) else f"{one:.2f}" for one in row)]
        for size, row in seconds.items()
    ]
    heads = [f"`{name}`" if name in ("default", "fast") else name for name in methods]
    table = markdown([*AXES, *heads], cells)
    slopes = []
    for axis, name in enumerate(AXES):
        sizes = [tuple(middle), *scaled[axis * doublings : (axis + 1) * doublings]]
        costs = [seconds[size] for size in sizes]
        power = np.polyfit(np.log([size[axis] for size in sizes]), np.log(costs), 1)[0]
        slopes.append([name, *("-" if math.isnan(one) else f"{one:.1f}" for one in power)])
    grown = markdown(["the cost grows with", *heads], slopes)
    return (
        f"CPU seconds of a warm call on simulated networks, minimum of {REPEATS}.\n\n{table}\n\n"
        f"Exponents: lines through the logarithms of the {doublings + 1} sizes of each.\n\n{grown}"
    )


def _methods(*, quick: bool) -> dict[str, Callable]:
    """Return functions of samples and lags."""

    def discover(recipe):
        return lambda x, lags: ndde.discover(x, dt=1.0, lags=lags, recipe=recipe, key=jr.key(0))

    default = {} if quick else {"default": discover(ndde.Recipe())}
    peer = peers.pcmci_plus if importlib.util.find_spec("tigramite") else None
    return {**default, "fast": discover(ndde.Recipe.fast()), "PCMCI+": peer}


def _costs(methods, size) -> list[float]:
    """Return CPU seconds of each, NaN if it is not installed."""
    dim, n_lags, length = size
    x, lags = network(dim, length, seed=0), tuple(range(n_lags))
    costs = []
    for run in methods.values():
        if run is None:
            costs.append(math.nan)
            continue
        run(x, lags)
        costs.append(min(_timed(lambda run=run: run(x, lags))[0] for _ in range(REPEATS)))
    return costs


def network(dim: int, length: int, *, seed: int) -> np.ndarray:
    """Return a network of noisy relaxations, each driven by two others with lags of one to three
    samples.
    """
    rng = np.random.default_rng(seed)
    x, kicks = np.zeros((length + 100, dim)), rng.normal(size=(length + 100, dim))
    sources, delays = rng.integers(dim, size=(2, dim)), rng.integers(1, 4, size=(2, dim))
    for k in range(3, len(x) - 1):
        drive = np.tanh(x[k - delays, sources]).sum(axis=0)
        x[k + 1] = 0.7 * x[k] + 0.1 * drive + 0.5 * kicks[k]
    return x[100:]


def _timed(run: Callable) -> tuple[float, float]:
    """Return CPU seconds of this process, and wall-clock seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall
