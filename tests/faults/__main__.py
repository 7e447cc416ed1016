"""All figures: `python -m tests.faults`."""

import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.bits import flips
from tests.faults.disk import fill_disk
from tests.faults.stops import stop_benchmark, stop_cli, stop_fit_many


def everything(directory: Path) -> Iterator[tuple[str, Counter]]:
    """All figures."""
    yield "510 bit flips", flips(directory, 510)
    kill, interrupt = signal.SIGKILL, signal.SIGINT
    yield "10 kills of fit_many", stop_fit_many(directory / "a", kill, 10)
    yield "10 kills of a benchmark", stop_benchmark(directory / "b", kill, 10)
    yield "8 interrupts of fit_many", stop_fit_many(directory / "c", interrupt, 8)
    yield "4 interrupts of a benchmark", stop_benchmark(directory / "d", interrupt, 4)
    yield "8 interrupts of ndde-jax discover", stop_cli(directory / "e", interrupt, 8)
    yield "a full disk", fill_disk(directory)


def say(title: str, outcomes: Counter) -> None:
    """Print counts."""
    print(title)
    for name, count in sorted(outcomes.items(), key=str):
        print(f"  {' '.join(name) if isinstance(name, tuple) else name}: {count}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for figure in everything(Path(folder)):
            say(*figure)
