"""Reading the published tree of CausalDynamics, from synthetic files with its layout."""

import sys

import numpy as np
import pytest
import xarray as xr

from benchmarks._store import Store
from benchmarks.causal_dynamics import data, netcdf
from benchmarks.causal_dynamics.__main__ import main

CHAIN = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])  # asymmetric, so that the orientation shows
PLAIN = "noise=0.00_confounder=False"
COUPLED = "coupling={}_noise={}_systems=3_confounder={}_standardize={}_timelag={}"


def series_of(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def write(path, matrices, series, axes, node, labels=None):
    """A data set with the coordinates that the published files have."""
    labels = np.arange(series.shape[axes.index(node)]) if labels is None else labels
    coordinates = {name: labels for name in (node, f"{node}_in", f"{node}_out")}
    variables = {name: ((f"{node}_in", f"{node}_out"), m) for name, m in matrices.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    xr.Dataset({"time_series": (axes, series), **variables}, coords=coordinates).to_netcdf(path)
    return path


def write_simple(root, *, system="Lorenz", folder=PLAIN, matrix=CHAIN, labels=None):
    return write(
        root / "simple" / folder / "data" / f"{system}_N10_T1000.nc",
        {"adjacency_matrix": matrix},
        series_of(20, 4, len(matrix)),
        ("time", "system", "dim"),
        "dim",
        labels,
    )


def write_coupled(root, *, folder, seed=7, matrices=None):
    matrices = matrices or {"adjacency_matrix": CHAIN, "adjacency_matrix_summary": CHAIN}
    return write(
        root / "coupled" / folder / "data" / f"SRANDOM_N10_T1000_seed{seed}.nc",
        matrices,
        series_of(20, 4, 3, 3),
        ("time", "system", "node", "dim"),
        "node",
    )


def write_climate(root, folder, system):
    return write(
        root / "climate" / folder / "data" / f"{system}_N10_T1000.nc",
        {"adjacency_matrix": CHAIN.astype(float)},
        series_of(20, 4, 3, 2),
        ("time", "system", "node", "dim"),
        "node",
    )


def test_simple_files_hold_targets_in_rows(tmp_path):
    graph = data.read_graph(write_simple(tmp_path))
    assert (graph.name, graph.category) == ("simple_default_Lorenz", "simple/default")
    np.testing.assert_array_equal(graph.series, series_of(20, 4, 3).transpose(1, 0, 2))
    np.testing.assert_array_equal(graph.labels["published"], CHAIN.T)
    np.testing.assert_array_equal(graph.labels["transposed"], CHAIN)
    # x' = σ(y − x), y' = x(ρ − z) − y, z' = xy − βz
    np.testing.assert_array_equal(graph.labels["corrected"], [[1, 1, 1], [1, 1, 1], [0, 1, 1]])
    assert graph.dt == pytest.approx(1.5008 / 100)  # the period that dysts lists, over 100


def test_confounded_simple_file_keeps_the_truth_of_what_is_left(tmp_path):
    matrix = np.array([[1, 0], [1, 1]])
    path = write_simple(
        tmp_path, folder="noise=0.00_confounder=True", matrix=matrix, labels=np.array([0, 2])
    )
    graph = data.read_graph(path)
    assert graph.category == "simple/confounder"
    np.testing.assert_array_equal(graph.labels["published"], matrix.T)
    np.testing.assert_array_equal(graph.labels["corrected"], [[1, 1], [0, 1]])  # x and z


def test_coupled_files_hold_sources_in_rows_and_components_of_which_one_counts(tmp_path):
    matrices = {"adjacency_matrix": np.triu(CHAIN, 1), "adjacency_matrix_summary": CHAIN}
    folder = COUPLED.format("nonlinear", "0.00", False, False, 0)
    graph = data.read_graph(write_coupled(tmp_path, folder=folder, matrices=matrices))
    assert graph.name == "coupled_default_D3_nonlinear_lag0_srandom_seed7"
    assert (graph.category, graph.dt) == ("coupled/default", 1.0)
    expected = series_of(20, 4, 3, 3)[..., 0].transpose(1, 0, 2)
    np.testing.assert_array_equal(graph.series, expected)
    np.testing.assert_array_equal(graph.labels["published"], CHAIN)
    np.testing.assert_array_equal(graph.labels["corrected"], CHAIN)


def test_without_a_summary_graph_the_plain_one_counts(tmp_path):
    folder = COUPLED.format("nonlinear", "0.00", False, False, 0)
    path = write_coupled(tmp_path, folder=folder, matrices={"adjacency_matrix": np.triu(CHAIN, 1)})
    np.testing.assert_array_equal(data.read_graph(path).labels["published"], np.triu(CHAIN, 1))


def test_climate_files_differ_in_orientation(tmp_path):
    ocean = data.read_graph(write_climate(tmp_path, "coupled_atmos_ocean", "ESM"))
    enso = data.read_graph(write_climate(tmp_path, "coupled_enso_modes", "AO"))
    assert (ocean.name, ocean.category) == ("climate_maooam_ESM", "climate/maooam")
    assert (enso.name, enso.category) == ("climate_enso_AO", "climate/enso")
    np.testing.assert_array_equal(ocean.labels["published"], CHAIN.T)
    np.testing.assert_array_equal(enso.labels["published"], CHAIN)
    assert (ocean.dt, enso.dt) == (500.0, 1 / 12)
    assert ocean.series.shape == enso.series.shape == (4, 20, 3)


@pytest.mark.parametrize(
    "folder, category",
    [
        ("noise=2.00_confounder=False", "simple/noise"),
        ("noise=0.50_confounder=False", "simple/noise0.5"),
        ("noise=1.50_confounder=True", "simple/noise1.5+confounder"),
        (COUPLED.format("periodic", "2.00", False, False, 0), "coupled/noise"),
        (COUPLED.format("nonlinear", "0.00", True, False, 0), "coupled/confounder"),
        (COUPLED.format("nonlinear", "0.00", False, True, 0), "coupled/standardize"),
        (COUPLED.format("nonlinear", "0.00", False, False, 5), "coupled/timelag"),
    ],
)
def test_category_follows_from_the_folder(folder, category):
    assert netcdf.place(f"{folder}/data/X_N10_T1000_seed0.nc").category == category
    assert netcdf.place(f"{folder}/X_N10_T1000_seed0.nc").category == category


def test_tree_is_found_with_unique_names_and_without_results(tmp_path):
    files = [
        write_simple(tmp_path),
        write_simple(tmp_path, folder="noise=0.50_confounder=False"),
        write_simple(tmp_path, folder="noise=2.00_confounder=False"),
    ]
    for coupling in ("nonlinear", "periodic"):
        for lag in (0, 1, 5):
            folder = COUPLED.format(coupling, "0.00", False, False, lag)
            files += [write_coupled(tmp_path, folder=folder, seed=seed) for seed in (0, 1)]
    results = tmp_path / "simple" / PLAIN / "eval" / "pcmciplus" / "Lorenz_N10_T1000.nc"
    results.parent.mkdir(parents=True)
    results.write_bytes(files[0].read_bytes())
    found = data.find_files(tmp_path)
    assert sorted(found) == sorted(f.resolve() for f in files)
    names = [data.graph_name(f) for f in found]
    assert len(set(names)) == len(files)
    assert names == [data.read_graph(f).name for f in found]
    assert len(data.find_files(tmp_path, only="coupled_*_lag5")) == 4
    assert len(data.find_files(tmp_path / "simple" / PLAIN / "data")) == 1


def test_files_that_are_not_as_published_are_refused(tmp_path):
    stray = write_simple(tmp_path, folder="something")
    with pytest.raises(ValueError, match="'something' is not one of CausalDynamics"):
        data.find_files(tmp_path, only="Lorenz")
    with pytest.raises(ValueError, match="not one of CausalDynamics"):
        data.read_graph(stray)
    folder = tmp_path / "simple" / PLAIN / "data"
    no_graph = write(
        folder / "Lorenz_N1_T1.nc", {}, series_of(5, 2, 3), ("time", "system", "dim"), "dim"
    )
    with pytest.raises(ValueError, match="lacks adjacency_matrix; it has time_series"):
        data.read_graph(no_graph)
    flat = write(
        folder / "Chua_N1_T1.nc",
        {"adjacency_matrix": CHAIN},
        series_of(5, 3),
        ("time", "dim"),
        "dim",
    )
    with pytest.raises(ValueError, match=r"time_series with axes \('time', 'system', 'dim'\)"):
        data.read_graph(flat)
    with pytest.raises(ValueError, match="Unheard is not a dysts system"):
        data.read_graph(write_simple(tmp_path, system="Unheard"))


def test_missing_reader_is_named(tmp_path, monkeypatch):
    path = write_simple(tmp_path)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match="pip install"):
        data.read_graph(path)


def test_benchmark_runs_on_the_tree(tmp_path, capsys):
    write_simple(tmp_path)
    write_coupled(tmp_path, folder=COUPLED.format("nonlinear", "0.00", False, False, 0))
    out, preds = tmp_path / "out.sqlite", tmp_path / "preds"
    arguments = ["--data", str(tmp_path), "--method", "selfedges", "--out", str(out)]
    assert main(["run", *arguments, "--predictions", str(preds)]) == 0
    names = ["coupled_default_D3_nonlinear_lag0_srandom_seed7", "simple_default_Lorenz"]
    with Store(out) as store:
        assert sorted({row.graph for row in store.rows("causal_dynamics")}) == names
    assert sorted(f.stem for f in preds.iterdir()) == names
    assert "error" not in capsys.readouterr().err
