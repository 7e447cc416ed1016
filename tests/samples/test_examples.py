"""The example series: shapes, published statistics, provenance."""

import importlib.resources

import numpy as np
import pytest

from ndde_jax.samples._examples import example_names, load_example
from ndde_jax.samples._reading import read_samples

MONTHLY = ("enso", "tropical_pacific")


@pytest.fixture(params=example_names())
def example(request):
    return load_example(request.param)


@pytest.fixture(params=MONTHLY)
def monthly(request):
    return load_example(request.param)


def test_every_example_is_consistent(example):
    n, dim = example.values.shape
    assert example.values.dtype == np.float64
    assert np.isfinite(example.values).all()
    assert np.ptp(example.values, axis=0).min() > 1
    assert len(example.names) == len(set(example.names)) == len(example.units) == dim
    assert example.time.shape == (n,)
    assert len(set(np.diff(example.time).astype(int))) == 1
    assert example.dt > 0 and example.time_unit
    assert example.lags == tuple(sorted(set(example.lags)))
    assert min(example.lags) >= 0
    assert max(example.lags) * 20 < n


def test_every_example_tells_where_it_comes_from(example):
    readme = (importlib.resources.files("ndde_jax") / "data" / "README.md").read_text("utf-8")
    assert f"`{example.name}.csv" in readme
    assert len(example.source) > 40
    assert "Public domain" in example.licence or "dl-de/by-2-0" in example.licence


def test_monthly_examples_come_from_noaa(monthly):
    assert (monthly.dt, monthly.time_unit) == (1.0, "month")
    assert "NOAA" in monthly.source
    assert "ERSST" in monthly.source
    readme = (importlib.resources.files("ndde_jax") / "data" / "README.md").read_text("utf-8")
    assert all(f"**`{name}`**" in readme for name in monthly.names)


def test_the_flood_runs_downstream():
    example = load_example("elbe_flood")
    assert example.values.shape == (3010, 5)
    assert (example.dt, example.time_unit) == (0.25, "h")
    assert str(example.time[example.values[:, -1].argmax()])[:7] == "2024-09"
    assert {(link.source, link.target) for link in example.known} == {
        ("Rotes Wasser", "upper Müglitz"),
        ("upper Müglitz", "lower Müglitz"),
        ("Bahra", "Gottleuba"),
    }
    assert "Namensnennung" in (
        importlib.resources.files("ndde_jax") / "data" / "README.md"
    ).read_text("utf-8")


def test_blowflies_are_read_from_the_users_file_only(tmp_path):
    with pytest.raises(ValueError, match=r"do not ship.*path="):
        load_example("blowflies")
    with pytest.raises(ValueError, match="path is only for 'blowflies'"):
        load_example("enso", path=tmp_path)
    file = tmp_path / "blowflies.csv"
    file.write_text("day;count;set\n40;3721;1\n")
    with pytest.raises(ValueError, match="SHA-256"):
        load_example("blowflies", path=file)


def test_known_links_name_variables_and_candidate_lags(example):
    assert example.known
    for link in example.known:
        assert {link.source, link.target} <= set(example.names)
        assert link.effect in {"+", "-"}
        if link.delay is not None:
            assert set(range(link.delay[0], link.delay[1] + 1)) & set(example.lags)
        assert any(character.isdigit() for character in link.reference)


def test_enso_shows_the_great_el_ninos():
    example = load_example("enso")
    series = example.values[:, 0]
    assert example.values.shape == (732, 1)
    assert (str(example.time[0]), str(example.time[-1])) == ("1950-01", "2010-12")
    warmest = {str(month)[:4] for month in example.time[np.argsort(series)[-12:]]}
    assert {"1983", "1997"} <= warmest <= {"1982", "1983", "1997", "1998"}
    assert 4 < series.max() < 5  # °C: an anomaly, neither raw (> 18) nor scaled to unit deviation


def test_enso_matches_the_table_it_was_taken_from():
    datasets = pytest.importorskip("statsmodels.api").datasets
    table = datasets.elnino.load_pandas().data.to_numpy()[:, 1:]
    expected = table - table.mean(axis=0)
    np.testing.assert_allclose(load_example("enso").values[:, 0], expected.ravel(), atol=1e-9)


def test_temperatures_have_no_annual_cycle_left(monthly):
    month = monthly.time.astype(int) % 12
    for name, series in zip(monthly.names, monthly.values.T, strict=True):
        if name.startswith("NINO"):
            means = [series[month == m].mean() for m in range(12)]
            np.testing.assert_allclose(means, 0, atol=1e-12)


def test_tropical_pacific_agrees_with_enso_and_with_the_literature():
    example = load_example("tropical_pacific")
    assert example.names == ("NINO1+2", "NINO3.4", "SOI")
    assert example.values.shape == (720, 3)
    east, central, soi = example.values.T
    # Shifted climatology (one year less), otherwise the same series.
    assert np.corrcoef(east, load_example("enso").values[12:, 0])[0, 1] > 0.9999
    assert np.corrcoef(central, soi)[0, 1] < -0.7  # Bjerknes feedback
    assert str(example.time[central.argmax()])[:4] in {"1982", "1983", "1997", "1998"}
    assert str(example.time[soi.argmin()]) == "1983-02"
    assert soi[-1] == 2.9  # the published value, unchanged


def test_the_documented_order_of_arrival_is_in_the_data():
    """t-values of a linear regression of monthly increments on all variables at lags 0 to 6."""
    values = load_example("tropical_pacific").values
    n, dim, order = *values.shape, 6
    past = [values[order - lag : n - 1 - lag] for lag in range(order + 1)]
    design = np.column_stack([*past, np.ones(n - 1 - order)])
    increment = np.diff(values, axis=0)[order:]
    coefficients, residual, *_ = np.linalg.lstsq(design, increment, rcond=None)
    variance = np.outer(np.diag(np.linalg.inv(design.T @ design)), residual / len(increment))
    t = (coefficients / np.sqrt(variance))[:-1].reshape(order + 1, dim, dim)
    east, central, soi = range(dim)
    # A wind anomaly acts on the central Pacific at once and on South America one to two months
    # later; the atmosphere responds to the central Pacific and not to the coast.
    assert t[:, soi, central].argmin() == 0
    assert t[0, soi, central] < -4
    assert abs(t[0, soi, east]) < 1
    assert t[:, soi, east].argmin() in {1, 2}
    assert t[:, soi, east].min() < -2.5
    assert t[0, central, soi] < -3
    assert np.abs(t[:, east, soi]).max() < 2


def test_loading_twice_gives_independent_arrays():
    load_example("enso").values[:] = np.nan
    assert np.isfinite(load_example("enso").values).all()


def test_unknown_example_lists_the_choices():
    with pytest.raises(ValueError, match=r"enso, tropical_pacific; got 'el_nino'"):
        load_example("el_nino")


def test_an_example_is_read_with_its_names_and_its_clock(example):
    samples = read_samples(example)
    np.testing.assert_array_equal(samples.values[0], example.values)
    assert (samples.names, samples.dt) == (example.names, example.dt)
    assert samples.time_unit == example.time_unit
    assert read_samples(example, dt=2.0, time_unit="day").dt == 2
