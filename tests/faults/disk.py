"""The disk is full."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import ndde_jax as ndde
from ndde_jax import _store

REPOSITORY = Path(__file__).parents[2]


@contextlib.contextmanager
def small_disk(size: int) -> Iterator[Path]:
    """A file system of a given size in bytes, if this process may mount one.

    **Raises:** `PermissionError` if it may not.
    """
    directory = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        directory.rmdir()
        raise PermissionError("this process may not mount a small file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)
        directory.rmdir()


def fill_disk(directory: Path) -> Counter:
    """Saves that fit, and then saves that do not, on a file system of 256 kB."""
    outcomes = Counter()
    with small_disk(2**18) as disk:
        first = (disk / "kept.npz", np.arange(10_000))
        _store.write(*first)
        ballast = disk / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        try:
            _store.write(first[0], np.arange(20_000))
        except OSError as error:
            outcomes["refused with a sentence"] += "cannot be written (No space left" in str(error)
        outcomes["earlier file as it was"] += np.array_equal(
            _store.read(first[0], np.ndarray), first[1]
        )
        outcomes.update(_fit_on(disk))
        outcomes.update(_discover_on(disk, directory))
        outcomes["partial files left"] = len(list(disk.rglob("*.partial")))
    return outcomes


def _fit_on(disk: Path) -> Counter:
    windows = [
        ndde.lagged_windows(np.random.default_rng(i).normal(size=(100, 2)).cumsum(0), dt=1.0)
        for i in range(3)
    ]
    config = ndde.FitConfig(
        max_steps=20, epoch_steps=10, warmup="adam", warmup_steps=0, refine="none", width=4, depth=1
    )
    many = dict(key=jax.random.key(0), progress=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = ndde.fit_many(
                ndde.L0NDDE(path=()), windows, config, directory=disk / "many", **many
            )
        except OSError:
            return Counter({"fits returned": 0})
    said = [str(warning.message) for warning in caught if "Not stored" in str(warning.message)]
    return Counter({"fits returned": len(found), "warnings of fit_many": len(said)})


def _discover_on(disk: Path, directory: Path) -> Counter:
    np.savez(directory / "data.npz", x=np.random.default_rng(0).normal(size=(60, 2)), dt=1.0)
    out = disk / "out"
    with contextlib.suppress(OSError):
        out.mkdir()
    command = [sys.executable, "-m", "ndde_jax.cli", "discover", str(directory / "data.npz")]
    command += ["--out", str(out), "--scheme", "euler", "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    lines = run.stderr.strip().splitlines()
    return Counter(
        {
            "discover: exit code 2": int(run.returncode == 2),
            "discover: one line of error": sum("ndde-jax: error" in line for line in lines),
            "discover: other lines but warnings": sum(
                not line.startswith("ndde-jax: ") for line in lines
            ),
            "discover: files left": sum(path.is_file() for path in out.rglob("*")),
        }
    )
