"""Systems, protocol and methods, read from `settings.toml`."""

import json
import tomllib
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

SETTINGS_FILE = Path(__file__).with_name("settings.toml")
PRESETS = ("ours", "ablation", "paper")
# Quantities of which the noise is a share.
NOISES = ("std", "variance")


@dataclass(frozen=True)
class Recipe:
    """The recipe of a learned method's training. `settings.toml` explains the fields."""

    penalty: str
    coefficient: float | None = None
    fit: str = "default"
    gradient_penalty: float | None = None
    warmup_steps: int | None = None
    refine_steps: int | None = None
    graph: str = "penalty"
    drift: str = "map"
    confine: bool = False

    def __post_init__(self):
        allowed = {
            "penalty": ("l0ndde", "node", "cnode", "agl", "pathreg"),
            "fit": ("default", "paper"),
            "graph": ("penalty", "full", "discover"),
            "drift": ("map", "networks", "best", "round"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be one of {values}; got {getattr(self, name)!r}.")
        if self.drift == "map" and self.graph != "penalty":
            raise ValueError("drift='map' is fitted with the penalty, so it needs graph='penalty'.")

    def to_json(self) -> str:
        """Return one line of text that is equal if and only if the recipes are."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Protocol:
    """The protocol of trajectories. `settings.toml` explains the fields."""

    noise: float
    train_lyapunov_times: float
    min_samples: int
    max_samples: int
    test_lyapunov_times: float
    n_tests: int
    substeps: int
    noise_of: str = "std"

    def __post_init__(self):
        if self.noise_of not in NOISES:
            raise ValueError(f"noise_of must be one of {NOISES}; got {self.noise_of!r}.")

    def sigma(self, spread: np.ndarray) -> np.ndarray:
        """Return the amplitude of the noise, per square root of time, of variables with these
        standard deviations.
        """
        return self.noise * spread if self.noise_of == "std" else np.sqrt(self.noise) * spread


@cache
def _tables(file: Path) -> dict:
    return tomllib.loads(Path(file).read_text())


def recipes(file: Path = SETTINGS_FILE) -> dict[str, Recipe]:
    """Return all learned methods of all presets by name.

    **Raises:** `ValueError` if the file names a setting that does not exist.
    """
    known = [f.name for f in fields(Recipe)]
    found = {}
    for preset in PRESETS:
        for name, values in _tables(file).get(preset, {}).items():
            unknown = sorted(set(values) - set(known))
            if unknown:
                raise ValueError(
                    f"{file}: unknown setting {', '.join(unknown)} of {name}; known: {known}."
                )
            found[name] = Recipe(**values)
    return found


def protocol(file: Path = SETTINGS_FILE, **changes) -> Protocol:
    """The protocol of generated data, with optional changes."""
    return Protocol(**(_tables(file)["protocol"] | changes))


def grid(file: Path = SETTINGS_FILE) -> dict[str, list[float]]:
    """Return values of every setting that `tune` tries."""
    return _tables(file)["grid"]


def beyond_grid(file: Path = SETTINGS_FILE) -> dict[str, list[float]]:
    """Return values that `tune` tries beyond an end of the grid, if that end is the best."""
    return _tables(file)["beyond_grid"]


def tuning_names(file: Path = SETTINGS_FILE) -> tuple[str, ...]:
    """The systems on which settings are chosen."""
    return tuple(_tables(file)["systems"]["tuning"])


def system_names(file: Path = SETTINGS_FILE) -> tuple[str, ...]:
    """The tuning systems, then the test systems."""
    systems = _tables(file)["systems"]
    return (*systems["tuning"], *systems["test"])


def regime(name: str, file: Path = SETTINGS_FILE) -> str:
    """Return the regime of a system at dysts' parameters: chaotic, regular, transient or
    unbounded.
    """
    systems = _tables(file)["systems"]
    found = [kind for kind in ("regular", "transient", "unbounded") if name in systems[kind]]
    return found[0] if found else "chaotic"
