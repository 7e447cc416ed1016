"""A table to read, and a `discover` at no cost."""

import pytest

import ndde_jax

from .small import FakeDiscovery


@pytest.fixture
def calls(monkeypatch):
    """A replacement for `discover`. The list holds the values and options of each call, including
    what the samples carry.
    """
    calls = []

    def discover(samples, **options):
        single = len(samples.values) == 1
        values = samples.values[0] if single else list(samples.values)
        options |= {"names": samples.names, "time_unit": samples.time_unit, "dt": samples.dt}
        if not samples.regular:
            options |= {"dt": None, "t": samples.times[0] if single else list(samples.times)}
        if samples.mask:
            options["mask"] = samples.mask[0] if single else list(samples.mask)
        calls.append((values, options))
        return FakeDiscovery(samples, **options)

    monkeypatch.setattr(ndde_jax, "discover", discover, raising=False)
    return calls


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("month,a,b\n2001-01,1,10\n2001-02,,20\n2001-03,3,30\n2001-04,4,nan\n")
    return path
