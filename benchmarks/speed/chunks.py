"""A record on disk: seconds and memory of its discovery in chunks, and the gain by Dask workers.

`python -m benchmarks.speed.chunks FILE` discovers one record and prints its time and memory.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ndde_jax as ndde
from benchmarks.tables import markdown

DIM, LAGS = 5, 6
# Number of recordings in a file, each followed by a sample of NaN.
SERIES = 1000
# Links of the map below, (source, target, lag), in addition to those of each variable to itself.
LINKS = {(0, 1, 0), (0, 2, 0), (1, 2, 1), (2, 0, 3), (1, 3, 5), (3, 4, 2)}
LENGTHS, DASK_LENGTH, QUICK = (10**5, 10**6, 10**7), 10**6, 10**5


def write_record(path: Path, n: int) -> None:
    """Write a map of five variables with noise, `[time dim]`, in single precision."""
    rng, each = np.random.default_rng(0), n // SERIES
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, DIM))
    out = out.reshape(SERIES, each, DIM)
    x = np.zeros((LAGS, SERIES, DIM))  # the last states, latest first
    for t in range(each):
        a, b, c, d, e = x[0].T
        drives = (
            0.5 * a + 0.4 * x[3][:, 2],
            0.3 * b + 0.6 * np.tanh(a),
            0.2 * c + 0.25 * x[1][:, 1] * a,
            0.4 * d + 0.4 * x[5][:, 1],
            0.3 * e + 0.5 * np.sin(x[2][:, 3]),
        )
        new = np.stack(drives, axis=1) + 0.6 * rng.normal(size=x[0].shape)
        x = np.concatenate([new[None], x[:-1]])
        out[:, t] = new
    out[:, -1] = np.nan


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[None]:
    """Provide Dask processes, each with one thread."""
    from dask.distributed import Client, LocalCluster

    options = dict(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with LocalCluster(processes=True, **options) as made, Client(made) as client:
        # Imports of workers are not timed.
        client.run(lambda: __import__("ndde_jax") and None)
        yield


def measure(path: Path, workers: int) -> dict[str, float]:
    """Return seconds, CPU seconds and the peak of memory of this process, in megabytes, and whether
    the links are the true ones.
    """
    x = np.load(path, mmap_mode="r")
    with contextlib.ExitStack() as stack:
        if workers:
            stack.enter_context(cluster(workers))
            x = _lazily(path, len(x))
        begun = time.perf_counter()
        found = ndde.discover(
            x, dt=1.0, lags=range(LAGS), recipe=ndde.Recipe.fast(), key=jax.random.key(0)
        )
        seconds = time.perf_counter() - begun
    links = {tuple(link) for link in np.argwhere(found.graph).tolist() if link[0] != link[1]}
    unit = 1024 if sys.platform == "linux" else 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return dict(seconds=seconds, cpu=time.process_time(), peak=peak, exact=float(links == LINKS))


def _lazily(path: Path, n: int) -> Any:
    """Return a Dask array of eight chunks, read by the workers."""
    import dask.array

    read = dask.delayed(lambda start, stop: np.array(np.load(path, mmap_mode="r")[start:stop]))
    edges = np.linspace(0, n, 9).astype(int).tolist()
    parts = [
        dask.array.from_delayed(read(start, stop), shape=(stop - start, DIM), dtype=np.float32)
        for start, stop in itertools.pairwise(edges)
    ]
    return dask.array.concatenate(parts)


def report(*, quick: bool = False) -> str:
    """Return a Markdown table."""
    with tempfile.TemporaryDirectory() as directory:
        rows = []
        for n in (QUICK,) if quick else LENGTHS:
            path = Path(directory) / f"{n}.npy"
            write_record(path, n)
            for workers in (0, 1, 2) if n == DASK_LENGTH and _has_dask() else (0,):
                found = _in_a_process(path, workers)
                how = f"{workers} Dask" if workers else "memory map"
                rows.append(
                    [f"{n:.0e}", how, *(f"{found[k]:.0f}" for k in ("cpu", "seconds", "peak"))]
                )
                rows[-1].append("yes" if found["exact"] else "no")
    title = (
        f"A record of {DIM} variables in single precision on disk, {LAGS} lags, one core for each "
        "process. CPU seconds and memory are of the whole process with imports and compilation, "
        "without workers; seconds are of the call."
    )
    return f"{title}\n\n" + markdown(["samples", "", "CPU s", "s", "peak MB", "links exact"], rows)


def _has_dask() -> bool:
    try:
        import dask.array
        import distributed
    except ImportError:
        return False
    return bool(dask.array and distributed)


def _in_a_process(path: Path, workers: int) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name, str(path), "--workers", str(workers)]
    # One core for each process, so that only the number of workers differs.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(said.stdout.splitlines()[-1])


def main(argv=None) -> int:
    """Measure one record and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.chunks", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--workers", type=int, default=0, help="of Dask; 0 reads a memory map")
    arguments = parser.parse_args(argv)
    print(json.dumps(measure(arguments.path, arguments.workers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
