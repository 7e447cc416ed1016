"""A table to read, and a `discover` that costs nothing."""

import pytest

import ndde_jax

from .small import FakeDiscovery


@pytest.fixture
def calls(monkeypatch):
    """Replaces `discover`; the list holds the values and options of each call."""
    calls = []

    def discover(values, **options):
        calls.append((values, options))
        return FakeDiscovery(values, **options)

    monkeypatch.setattr(ndde_jax, "discover", discover, raising=False)
    return calls


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("month,a,b\n2001-01,1,10\n2001-02,,20\n2001-03,3,30\n2001-04,4,nan\n")
    return path
