"""A record in chunks: every window counted once, and the same graph as of the whole in memory."""

import functools
import subprocess
import sys

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.regression._summed import sums_of
from ndde_jax.samples._chunks import part_of
from ndde_jax.select import _whole
from ndde_jax.select._between import Record
from ndde_jax.select._measured import fit_splines
from ndde_jax.select._midpoint import read_steps
from ndde_jax.select._whole import (
    Columns,
    Whole,
    _LateInput,
    pieces,
    sums_of_record,
    sums_over,
)
from ndde_jax.windows._windows import KnownData

KEY, FAST = jax.random.key(0), ndde.Recipe.fast()
DT, LAGS = 0.5, (0, 1, 3)


def record(n, seed=0):
    """y[t+1] = y/2 + .6 tanh x[t−2] + e, x[t+1] = x/2 + e, z[t+1] = z/2 + .3 x y[t−1] + e."""
    rng, x = np.random.default_rng(seed), np.zeros((n, 3))
    noise = rng.normal(size=x.shape)
    for t in range(3, n - 1):
        drive = [0, 0.6 * np.tanh(x[t - 3, 0]), 0.3 * x[t, 0] * x[t - 1, 1]]
        x[t + 1] = 0.5 * x[t] + np.array(drive) + noise[t]
    return x


def path(n, seed=0, delay=1.9, substeps=10):
    """A flow that relaxes, with x → y after a delay and y → z at once, sampled every .5."""
    rng, h = np.random.default_rng(seed), DT / substeps
    late = round(delay / h)
    x = np.zeros((n * substeps + late, 3))
    noise = 0.4 * np.sqrt(h) * rng.normal(size=x.shape)
    for t in range(late, len(x) - 1):
        drive = np.array([0.0, 1.2 * np.tanh(x[t - late, 0]), 0.9 * x[t, 1]])
        x[t + 1] = x[t] + h * (drive - 0.7 * x[t]) + noise[t]
    return x[late::substeps]


def in_pieces(x, size):
    """A function that reads an array in chunks of one size, the last one shorter."""
    return lambda: (x[k : k + size] for k in range(0, len(x), size))


# ---- sums ----


def columns_of(windows, drift=None, chunks=None):
    """Columns that cut windows like these, with two inputs between the candidates."""
    n_inputs = windows.dim * windows.n_lags
    knots = np.linspace(-2, 2, 7)[None] * np.ones((n_inputs + 2, 1))
    whole = Whole(chunks, 0, np.arange(windows.dim), np.zeros(windows.dim), drift)
    places, none = windows.dim * 2, np.zeros(windows.dim)
    late = _LateInput(0, places, 2.6, True), _LateInput(1, places + 1, 2.9, False)
    forward = windows.scheme in ("midpoint", "euler")
    part = Record(np.zeros((0, windows.dim)), np.zeros(0, int), forward, none, none > 0)
    pairs = np.stack(np.triu_indices(n_inputs + 2, 1), axis=1)
    return Columns(_whole._without_rows(windows), whole, knots, pairs, late, part)


def expected(windows):
    """Sums of the candidates and the rates of windows in memory."""
    data = KnownData(windows)
    return sums_of(data.inputs, data.outputs, data.weight)


def assert_same_sums(found, windows):
    n, own = windows.dim * windows.n_lags, expected(windows)
    lines = np.arange(n) * 6  # the straight line of every candidate
    assert float(found.weight[0]) == float(own.weight[0])
    size = float(own.weight[0])
    for one, other in (
        (found.x[:, lines], own.x),
        (found.xx[:, lines][:, :, lines], own.xx),
        (found.xy[:, lines], own.xy),
        (found.yy, own.yy),
    ):
        np.testing.assert_allclose(one / size, other / size, atol=2e-5)


@pytest.mark.parametrize("size", [1, 2, 7, 50, 300, 1000])
@pytest.mark.parametrize("scheme", ["euler", "central4"])
def test_every_window_is_counted_once_whatever_the_chunks(size, scheme, monkeypatch):
    monkeypatch.setattr(_whole, "SIZE", 64)
    x = record(300)
    x[100:103, 1] = np.nan
    windows = ndde.lagged_windows(x, dt=DT, lags=LAGS, scheme=scheme)
    assert_same_sums(sums_over(columns_of(windows), in_pieces(x, size)()), windows)


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 113])
def test_steps_are_met_halfway_as_in_memory(size, monkeypatch):
    monkeypatch.setattr(_whole, "SIZE", 100)
    x = path(400)
    steps = read_steps(x, dt=DT, lags=LAGS)
    drift = fit_splines(steps.plain, "full")
    windows = steps.corrected_by(drift)
    assert_same_sums(sums_over(columns_of(windows, drift), in_pieces(x, size)()), windows)


def test_sums_begin_where_they_are_told_and_add_up():
    x = record(500)
    windows = ndde.lagged_windows(x, dt=DT, lags=LAGS)
    columns = columns_of(windows)
    whole = sums_over(columns, [x])
    first = sums_over(columns, [x[: 200 + columns.ahead]])
    second = sums_over(columns, [x[200 - columns.back :]], columns.back)
    both = first + second
    for one, other in zip(jax.tree.leaves(both), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_pieces_overlap_by_what_windows_read(monkeypatch):
    monkeypatch.setattr(_whole, "SIZE", 10)
    x = np.arange(57.0)[:, None]
    counted = []
    for values, first in pieces(in_pieces(x, 4)(), back=6, ahead=2):
        present = values[first : len(values) - 2, 0]
        assert first >= min(6, present[0])  # its past is there, where one exists
        counted += present.tolist()
    assert counted == np.arange(55.0).tolist()


@pytest.mark.parametrize("chunk", [37, 250])
def test_a_dask_array_is_summed_in_its_own_chunks(chunk):
    dask = pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    x = record(500)
    windows = ndde.lagged_windows(x, dt=DT, lags=LAGS)
    lazy = array.from_array(x, chunks=(chunk, 2))
    with dask.config.set(scheduler="synchronous"):
        found = sums_of_record(columns_of(windows, chunks=ndde.Chunks(lazy)))
    assert_same_sums(found, windows)


# ---- discoveries ----


OPTIONS = dict(dt=DT, lags=(0, 3), recipe=FAST, key=KEY)
N, HELD = 2000, 800


@functools.cache
def in_memory():
    return ndde.discover(record(N)[:, :2], treat=False, **OPTIONS)


@functools.cache
def by_chunks(size, held=HELD):
    return ndde.discover(ndde.Chunks(in_pieces(record(N)[:, :2], size), in_memory=held), **OPTIONS)


def test_the_graph_is_that_of_the_whole_in_memory():
    found = by_chunks(501)
    np.testing.assert_array_equal(found.graph, in_memory().graph)
    # The part in memory decides where knots lie, and nothing else that matters for these.
    np.testing.assert_allclose(found.scores, in_memory().scores, atol=2e-3)
    assert np.argwhere(found.graph).tolist() == [[0, 0, 0], [0, 1, 1], [1, 1, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 37, 2000])
@pytest.mark.parametrize("held", [400, 1999])
def test_the_chunks_do_not_matter(size, held):
    np.testing.assert_array_equal(by_chunks(size, held).graph, in_memory().graph)
    np.testing.assert_allclose(by_chunks(size, held).scores, by_chunks(501, held).scores, atol=1e-6)


def test_the_report_says_what_is_of_the_whole_and_what_of_a_part():
    found = by_chunks(501)
    samples, said = found.samples, " ".join(found.choices)
    assert found.length == N and sum(map(len, samples.values)) == HELD
    assert samples.times[0][0] == 0 and samples.times[-1][-1] == DT * (N - 1)
    assert f"record of {N} samples was read in chunks" in said
    assert f"{HELD} samples in {len(samples.values)} stretches" in said and "season" in said
    with pytest.raises(ValueError, match="read in chunks"):
        found.update(record(100)[:, :2])


@pytest.mark.slow
def test_a_record_that_fits_into_memory_is_discovered_as_an_array():
    x = ndde.Chunks(in_pieces(record(N)[:, :2], 999), in_memory=N)
    found = ndde.discover(x, treat=False, **OPTIONS)
    assert found.length is None
    np.testing.assert_array_equal(found.scores, in_memory().scores)


@pytest.mark.slow
def test_a_map_of_products_is_that_of_the_whole():
    x, options = record(8000), OPTIONS | {"lags": range(4)}
    whole = ndde.discover(x, treat=False, **options)
    found = ndde.discover(ndde.Chunks(in_pieces(x, 1023), in_memory=2000), **options)
    np.testing.assert_array_equal(found.graph, whole.graph)
    np.testing.assert_allclose(found.scores, whole.scores, atol=2e-3)


@pytest.mark.parametrize("option", ["mask", "t", "transform", "inputs"])
def test_what_needs_all_of_the_record_is_refused(option):
    x = record(1000)
    given = {
        "mask": np.arange(1000) > 5, "t": np.arange(1000.0), "transform": {"x0": "ranks"},
        "inputs": {"u": np.zeros(1000)},
    }  # fmt: skip
    options = {"dt": None if option == "t" else DT, option: given[option]}
    with pytest.raises(ValueError, match=f"{option}.*read in chunks"):
        ndde.discover(ndde.Chunks(x, in_memory=500), lags=LAGS, key=KEY, **options)


def test_a_clock_is_refused_for_a_record_in_chunks():
    x = ndde.Chunks(record(N)[:, :2], in_memory=500)
    with pytest.raises(
        ValueError, match="as clocks, cannot be used on a record that is read in chunks"
    ):
        ndde.discover(x, dt=1.0, time_unit="h", lags=LAGS, key=KEY, inputs="day")


def test_a_strategy_that_needs_windows_is_refused():
    with pytest.raises(ValueError, match=r"select\.Default.*Splines"):
        ndde.discover(
            ndde.Chunks(record(1000), in_memory=500),
            dt=DT,
            recipe=ndde.Recipe(strategy=ndde.select.Splines()),
            key=KEY,
        )


@pytest.mark.slow
@pytest.mark.parametrize("delay, seed", [(1.5, 0), (1.5, 1), (1.9, 0)])
def test_the_graph_of_a_flow_is_that_of_the_whole(delay, seed):
    """Where both are read as flows, which the part in memory decides."""
    x, options = path(6000, seed, delay), OPTIONS | {"lags": range(6)}
    whole = ndde.discover(x, treat=False, **options)
    found = ndde.discover(ndde.Chunks(in_pieces(x, 313), in_memory=3000), **options)
    assert found.reading == whole.reading == "flow"
    np.testing.assert_array_equal(found.graph, whole.graph)
    np.testing.assert_allclose(found.delays, whole.delays, atol=DT)


# ---- sources ----


def sources(directory, x):
    """The same record in every supported container."""
    np.save(directory / "x.npy", x)
    yield directory / "x.npy"
    yield np.load(directory / "x.npy", mmap_mode="r")
    yield in_pieces(x, 77)
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    table = pyarrow.table({f"v{k}": column for k, column in enumerate(x.T)})
    parquet.write_table(table, directory / "x.parquet", row_group_size=100)
    yield directory / "x.parquet"
    (directory / "many").mkdir()
    for k in range(3):
        parquet.write_table(table.slice(100 * k, 100), directory / "many" / f"{k}.parquet")
    yield directory / "many"
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(directory / "x.zarr", shape=x.shape, chunks=(90, 2), dtype=x.dtype)
    stored[:] = x
    yield stored
    yield directory / "x.zarr"


@pytest.mark.filterwarnings("ignore")  # Zarr's own text
def test_all_sources_give_the_same_samples(tmp_path):
    x = record(300)
    for source in sources(tmp_path, x):
        chunks = ndde.Chunks(source, rows=128)
        assert chunks.length == 300
        np.testing.assert_array_equal(np.concatenate(list(chunks.blocks())), x)
        part = part_of(chunks, most=100, reach=1)
        assert [len(values) for values in part.values] == [50, 50] and not part.whole
        np.testing.assert_array_equal(part.values[-1], x[-50:])
    assert ndde.Chunks(tmp_path / "x.parquet").names == ("v0", "v1", "v2")
    only = ndde.Chunks(tmp_path / "x.parquet", columns=("v2",))
    np.testing.assert_array_equal(np.concatenate(list(only.blocks())), x[:, 2:])


def test_chunks_that_are_no_record_are_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame({"a": ["x"], "b": [1.0]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"'a' holds .*columns="):
        list(ndde.Chunks(tmp_path / "x.parquet").blocks())
    with pytest.raises(ValueError, match="same variables"):
        list(ndde.Chunks(lambda: [np.ones((3, 2)), np.ones((3, 1))]).blocks())
    with pytest.raises(ValueError, match="infinite"):
        list(ndde.Chunks(np.full((3, 2), np.inf)).blocks())
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ndde.Chunks(tmp_path / "nowhere.npy")
    with pytest.raises(ValueError, match="empty"):
        ndde.discover(ndde.Chunks(lambda: []), dt=1.0, key=KEY)


# ---- memory ----

PROGRAM = r"""
import re, resource, sys
from pathlib import Path
import jax, numpy as np
import ndde_jax as ndde

x = np.load(sys.argv[1], mmap_mode="r")
found = ndde.discover(x, dt=1.0, lags=range(6), recipe=ndde.Recipe.fast(), key=jax.random.key(0))
links = found.graph.any(axis=2)
np.fill_diagonal(links, False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if (status := Path("/proc/self/status")).exists():
    # What `getrusage` says begins with the peak of the process that started this one.
    peak = int(re.search(r"VmHWM:\s*(\d+) kB", status.read_text())[1])
print(peak, *np.argwhere(links).ravel())
"""


@pytest.mark.slow
def test_a_record_of_a_million_samples_takes_less_than_a_gigabyte(tmp_path):
    n, series = 10**6, 1000
    rng, x = np.random.default_rng(0), np.zeros((n // series, series, 5), np.float32)
    for t in range(3, len(x) - 1):
        drive = np.zeros_like(x[0])
        drive[:, 1], drive[:, 4] = 0.6 * np.tanh(x[t - 3, :, 0]), 0.5 * np.sin(x[t, :, 3])
        x[t + 1] = 0.4 * x[t] + drive + 0.6 * rng.normal(size=x[0].shape)
    x[-1] = np.nan  # between the recordings
    np.save(tmp_path / "x.npy", x.transpose(1, 0, 2).reshape(n, 5))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "x.npy")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    unit = 1024 if sys.platform == "linux" else 1
    assert int(said[0]) * unit < 10**9
    assert [int(number) for number in said[1:]] == [0, 1, 3, 4]
