"""The version of the library, as installed."""

import importlib.metadata


def version() -> str:
    """Return the version, or `"unknown"` for a source tree that has not been installed."""
    try:
        return importlib.metadata.version("ndde_jax")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
