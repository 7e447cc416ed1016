"""`settings.toml` as values."""

import functools
import tomllib
import zlib
from dataclasses import dataclass
from pathlib import Path

from ndde_jax import systems

from .networks import random_network

SETTINGS_FILE = Path(__file__).with_name("settings.toml")
NOISE = ("low", "medium", "high")
CATEGORIES = (*NOISE, "observed", "offgrid")
# Categories that are run only on request.
FURTHER = ("observed_5", "observed_10")


@functools.cache
def settings() -> dict:
    """The file, parsed."""
    return tomllib.loads(SETTINGS_FILE.read_text())


@dataclass(frozen=True)
class Specification:
    """One task: a system, its disturbance, sampling and candidate lags.

    - `name`: the name of the system in `settings.toml`, or `random_SIZE_DELAYS_SEED`, a further
        network with delays 1, 2, … and a grid step of 1.
    - `category`: `low`, `medium`, `high` (process noise), `observed` (low, and measurement error;
        `observed_5` and `observed_10` have more of it), `offgrid` (low, and no candidate lag is a
        true one), or `length/n` (low, n samples).
    - `length`: samples.
    - `series`: replicate; with the names it determines all random numbers.
    - `draw`: 0 for the random networks of `settings.toml`; any other number draws a new structure
        and new weights.
    """

    name: str
    category: str
    length: int
    series: int = 0
    draw: int = 0

    @property
    def noise(self) -> float:
        """The standard deviations that noise adds to a variable during one grid step."""
        level = self.category if self.category in NOISE else "low"
        return settings()["noise"][level]

    @property
    def error(self) -> float:
        """The size of measurement errors, in standard deviations of a variable."""
        if self.category == "observed":
            return settings()["observed"]["share"]
        return settings()["larger_errors"].get(self.category, 0.0)

    @property
    def grid(self) -> float:
        """The step of the lag grid, in the system's unit of time."""
        grid = _entry(self.name)["grid"]
        if self.category != "offgrid":
            return grid
        steps = round(float(self.system().lags[0]) / grid)
        return float(self.system().lags[0]) / (steps + settings()["sampling"]["off_grid"])

    @property
    def sampling_step(self) -> float:
        """Time between samples."""
        return self.grid / settings()["sampling"]["per_step"]

    @property
    def lags(self) -> tuple[int, ...]:
        """The candidate lags in samples: 0 and the grid, some steps beyond the largest true
        delay.
        """
        sampling = settings()["sampling"]
        steps = round(float(self.system().lags[-1]) / self.grid) + sampling["beyond"]
        return tuple(sampling["per_step"] * k for k in range(steps + 1))

    def system(self) -> systems.System:
        """The system with its documented noise."""
        return _system(self.name, self.draw)


def _entry(name: str) -> dict:
    """Return the entry of a system in the file, or of a further network,
    `random_SIZE_DELAYS_SEED`.
    """
    if name in settings()["systems"]:
        return settings()["systems"][name]
    size, n_delays, seed = map(int, name.removeprefix("random_").split("_"))
    delays = [float(k + 1) for k in range(n_delays)]
    return {"size": size, "delays": delays, "seed": seed, "grid": 1.0}


@functools.lru_cache(maxsize=64)
def _system(name: str, draw: int) -> systems.System:
    entry = _entry(name)
    if "size" in entry:
        seed = entry["seed"] if draw == 0 else (zlib.crc32(name.encode()), draw)
        return random_network(entry["size"], delays=tuple(entry["delays"]), seed=seed)
    return systems.get(name, **entry.get("options", {}))


def specifications(
    categories=CATEGORIES, *, length: int | None = None, series: int = 1, draw: int = 0
) -> list[Specification]:
    """Return all tasks of the categories; `length` alone adds those of the learning curves."""
    lengths = settings()["length"]
    found = []
    for category in categories:
        if category == "length":
            found += [
                Specification(name, f"length/{n}", n, i, draw)
                for n in lengths["curve"]
                for name in lengths["systems"]
                for i in range(series)
            ]
        else:
            found += [
                Specification(name, category, length or lengths["default"], i, draw)
                for name in settings()["systems"]
                for i in range(series)
            ]
    return found
