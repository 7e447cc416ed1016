"""Settings per category, read from `settings.toml`."""

import json
import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

SETTINGS_FILE = Path(__file__).with_name("settings.toml")


@dataclass(frozen=True)
class Settings:
    """The settings of a category for methods. `settings.toml` explains the fields."""

    lags: tuple[int, ...]
    scheme: str
    coefficient: float | None = None
    coefficients: dict[str, float] = field(default_factory=dict)
    grid: tuple[float, ...] = ()

    def to_json(self) -> str:
        """Return one line of text that is equal if and only if the settings are."""
        return json.dumps(asdict(self), sort_keys=True)


def settings_for(category: str, file: str | Path = SETTINGS_FILE) -> Settings:
    """Return the settings of one category, such as `simple/noise`.

    **Raises:** `ValueError` if the file names a setting that does not exist.
    """
    tables = tomllib.loads(Path(file).read_text())
    tier = category.partition("/")[0]
    merged = {
        **tables.get("default", {}),
        **tables.get("tier", {}).get(tier, {}),
        **tables.get("category", {}).get(category, {}),
    }
    known = [f.name for f in fields(Settings)]
    unknown = sorted(set(merged) - set(known))
    if unknown:
        raise ValueError(f"{file}: unknown setting {', '.join(unknown)}; known: {known}.")
    tuples = {name: tuple(merged[name]) for name in ("lags", "grid") if name in merged}
    return Settings(**{**merged, **tuples})
