"""Nicholson's blowflies: the delay of recruitment from counts of adults alone.

    python -m benchmarks.blowflies --data DIR

Nicholson's equation is dN/dt = P N(t−τ) exp(−N(t−τ)/N0) − δ N. Given τ and N0 it is linear in P and
δ, so least squares gives both, and a profile over delays remains. Errors are assumed to be
proportional to the number of adults. All delays up to half the cycle are tried, since a cycle made
by delayed feedback lasts at least two delays. The interval is that of the best delays of resampled
blocks, each one cycle long.
"""

import argparse
import csv
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import tables

# Days over which changes are computed: the longest sampling interval of the four sets.
STEP = 2.0
# Days between candidate delays, draws of blocks, and values of N0 as shares of the largest counts.
GRID, DRAWS, LEVEL = 0.25, 400, 0.9
SHARES = np.geomspace(0.05, 1, 10)
# Cycles below which blocks of one cycle are too few to draw from.
FEWEST = 7


class Delay(NamedTuple):
    """Estimate and 90 % interval in days, length and number of cycles, and the unexplained share
    of the weighted variance.
    """

    best: float
    lower: float
    upper: float
    cycle: float
    cycles: float
    left: float


def read_sets(path: Path) -> dict[str, Float[np.ndarray, "row 2"]]:
    """Return days and counts of every set, `day;count;set`."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    return {
        name: np.array([[float(r["day"]), float(r["count"])] for r in rows if r["set"] == name])
        for name in dict.fromkeys(row["set"] for row in rows)
    }


def recruitment_delay(
    series: Float[np.ndarray, "row 2"], *, draws: int = DRAWS, seed: int = 0
) -> Delay:
    """The profile's best delay, with its interval."""
    days, counts = series.T
    dt = float(np.median(np.diff(days)))
    regular = np.arange(days[0], days[-1] + dt / 2, dt)
    counts = np.interp(regular, days, counts)
    cycle = cycle_length(counts, dt)
    delays = np.arange(STEP, cycle / 2 + GRID / 2, GRID)
    rows = _rows(counts, dt, delays)
    n_blocks = max(round(rows.shape[2] * dt / cycle), 3)
    block = np.arange(rows.shape[2]) * n_blocks // rows.shape[2]
    gram = np.stack(
        [
            np.einsum("dnrp,dnrq->dnpq", rows[:, :, block == b], rows[:, :, block == b])
            for b in range(n_blocks)
        ]
    )
    chosen = np.random.default_rng(seed).multinomial(
        n_blocks, np.full(n_blocks, 1 / n_blocks), draws
    )
    profile = _left(gram.sum(axis=0))
    drawn = [delays[_left(np.tensordot(c, gram, 1)).argmin()] for c in chosen]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    span = (regular[-1] - regular[0]) / cycle
    return Delay(delays[profile.argmin()], low, high, cycle, span, profile.min())


def cycle_length(counts: Float[np.ndarray, "row"], dt: float) -> float:
    """The first peak of the autocorrelation after it becomes negative, in days."""
    centred, n = counts - counts.mean(), len(counts)
    shifts = np.arange(n // 2)
    correlation = np.array([centred[: n - k] @ centred[k:] / (n - k) for k in shifts])
    correlation = np.convolve(correlation, np.ones(3) / 3, "same") / correlation[0]
    start = np.flatnonzero(correlation < 0)[0]
    rises = np.flatnonzero(
        (correlation[1:-1] > correlation[:-2])
        & (correlation[1:-1] >= correlation[2:])
        & (correlation[1:-1] > 0.1)
    )
    return float(shifts[1:-1][rises[rises + 1 > start][0]] * dt)


def _rows(counts, dt, delays) -> Float[np.ndarray, "delay share row 3"]:
    """Return weighted columns adults, births at P = 1, and change per day, for every delay
    and N0.
    """
    ahead = max(round(STEP / dt), 1)
    time = np.arange(len(counts)) * dt
    at = np.arange(int(np.ceil(delays[-1] / dt)), len(counts) - ahead)
    change = (counts[at + ahead] - counts[at]) / (ahead * dt)
    weight = 1 / (counts[at] + np.median(counts) / 4)
    within = np.linspace(0, ahead * dt, 4 * ahead + 1)
    largest = np.quantile(counts, 0.97)
    found = []
    for delay in delays:
        # Adults that emerge within the step were laid within one of the same length.
        past = np.mean([np.interp(time[at] + s - delay, time, counts) for s in within], axis=0)
        births = [past * np.exp(-past / (share * largest)) for share in SHARES]
        found.append([np.stack([counts[at], b, change], 1) * weight[:, None] for b in births])
    return np.array(found)


def _left(gram) -> Float[np.ndarray, "delay"]:
    """Return the unexplained share of the squared change at the best N0 with positive births."""
    inside, across, total = gram[..., :2, :2], gram[..., :2, 2:], gram[..., 2, 2]
    ridge = 1e-9 * np.trace(inside, axis1=-2, axis2=-1)[..., None, None] * np.eye(2)
    coefficient = np.linalg.solve(inside + ridge, across)
    left = total - (across * coefficient).sum(axis=(-2, -1))
    left = np.where(coefficient[..., 1, 0] > 0, left, total)
    return (left / total).min(axis=-1)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blowflies")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="blowflies.csv")
    options = parser.parse_args(arguments)
    body = []
    for name, series in read_sets(options.data / "blowflies.csv").items():
        found = recruitment_delay(series)
        note = "" if found.cycles >= FEWEST else f"{found.cycles:.1f} cycles: too short to rely on"
        interval = f"{found.lower:.2f} to {found.upper:.2f}"
        body.append(
            [name, f"{found.best:.2f}", interval, f"{found.cycle:.0f}", f"{found.left:.2f}", note]
        )
    header = ["set", "delay [day]", "90 % interval", "cycle [day]", "left", "note"]
    print(tables.markdown(header, body))
    return 0


if __name__ == "__main__":
    sys.exit(main())
