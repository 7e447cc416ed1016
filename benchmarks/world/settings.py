"""`settings.toml` as values."""

import functools
import tomllib
from pathlib import Path

SETTINGS_FILE = Path(__file__).with_name("settings.toml")


@functools.cache
def settings() -> dict:
    """The file, parsed."""
    return tomllib.loads(SETTINGS_FILE.read_text())
