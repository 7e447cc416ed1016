"""One discovery for all tests, and the windows that a call would use."""

import pytest

from .small import DT, NAMES, X, discover


@pytest.fixture(scope="session")
def found():
    return discover(X, dt=DT, names=NAMES, time_unit="h")


@pytest.fixture
def windows_of(monkeypatch):
    """A function that runs `discover` up to the first fit and returns the windows for it."""

    class Reached(Exception):
        pass

    def reached(given, *args, **options):
        raise Reached(getattr(given, "windows", given))

    def windows_of(x, **options):
        with pytest.raises(Reached) as caught:
            discover(x, **options)
        return caught.value.args[0]

    for name in ("recover", "corrected_at_midpoints"):
        monkeypatch.setattr(f"ndde_jax._discover.{name}", reached)
    return windows_of
