"""Malicious files end in a sentence, and take no memory out of proportion to their size."""

import gzip
import io
import json
import shutil
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import _output, _store
from ndde_jax.samples._reading import read_labelled
from ndde_jax.samples._tables import read_table
from tests.bad_files import npz, packed
from tests.use import small

MEBI = 2**20
X = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)


def peak(call):
    """The exception of a call, and its peak memory, in bytes."""
    tracemalloc.start()
    try:
        call()
    except Exception as error:
        return error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return None, 0


def refusal(path):
    """The sentence that refuses a file, which names the file and takes little memory."""
    error, memory = peak(lambda: read_table(path))
    assert isinstance(error, ValueError) and path.name in str(error), error
    assert memory < 100 * MEBI
    return str(error)


# ---- archives ----


def test_an_array_that_nobody_asked_for_is_not_unpacked(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(packed(x=X, other=np.zeros(20_000_000)))
    tracemalloc.start()
    found = read_table(path)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(found.values, X)
    assert memory < 50 * MEBI


@pytest.mark.parametrize("key", [None, "x"])
def test_a_member_that_nobody_asked_for_may_be_damaged(tmp_path, key):
    path = tmp_path / "x.npz"
    path.write_bytes(packed(x=X))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.npy", b"no array")
    np.testing.assert_array_equal(read_table(path, key=key).values, X)


def test_an_array_of_noughts_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(packed(x=np.zeros((5_000_000, 2))))
    assert "since measurements do not pack so well" in refusal(tmp_path / "x.npz")


def test_a_header_that_announces_more_than_there_is(tmp_path):
    raw = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**13, 1)}
    np.lib.format.write_array_header_1_0(raw, header)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", raw.getvalue())
    assert "its header says" in refusal(tmp_path / "x.npz")


def test_objects_are_never_loaded(tmp_path):
    (tmp_path / "x.npz").write_bytes(npz(x=np.array([{}, 1], object)))
    assert "holds objects" in refusal(tmp_path / "x.npz")


# ---- spreadsheets ----


def workbook(tmp_path, sheet=None, **members):
    """A good workbook, with its sheet or other members replaced."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("a", "b"), *X.tolist()]:
        book.active.append(row)
    book.save(tmp_path / "good.xlsx")
    changed = {name.replace("__", "/") + ".xml": text for name, text in members.items()}
    if sheet is not None:
        changed["xl/worksheets/sheet1.xml"] = sheet
    with (
        zipfile.ZipFile(tmp_path / "good.xlsx") as old,
        zipfile.ZipFile(tmp_path / "x.xlsx", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in dict.fromkeys([*old.namelist(), *changed]):
            new.writestr(name, changed[name] if name in changed else old.read(name))
    return tmp_path / "x.xlsx"


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    "<sheetData>{}</sheetData></worksheet>"
)


@pytest.mark.parametrize(
    "rows, words",
    [
        ('<row r="1"><c r="ZZZZZZ1"><v>1</v></c></row>', "names a cell 'ZZZZZZ1'"),
        ("<row r='1'><c r='&#90;ZZZ1'><v>1</v></c></row>", "names a cell"),
        ("".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(1, 999)), "spans"),
        (
            '<row r="1"><c r="A1"><v>1</v></c></row><row r="9999999"><c r="ZZ9999999"/></row>',
            "spans",
        ),
    ],
)
def test_cells_far_out_make_no_room(rows, words, tmp_path):
    assert words in refusal(workbook(tmp_path, SHEET.format(rows)))


def test_shared_strings_and_sheets_are_measured_before_they_are_unpacked(tmp_path):
    many = "<si><t>abcdefgh</t></si>" * 4_000_000
    assert "pack so well" in refusal(workbook(tmp_path, xl__sharedStrings=f"<sst>{many}</sst>"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused_in_any_encoding(encoding, tmp_path):
    text = '<!DOCTYPE x [<!ENTITY a "aaaa">]>' + SHEET.format("<row><c><v>&a;</v></c></row>")
    text = f'<?xml version="1.0" encoding="{encoding}"?>{text}'
    assert "defines entities" in refusal(workbook(tmp_path, text.encode(encoding)))


# ---- Parquet ----


def test_a_column_that_repeats_a_billion_times_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a": np.zeros(30_000_000, np.int8)})
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    del table
    assert "pack so well" in refusal(tmp_path / "x.parquet")


# ---- JSON and compressed text ----


@pytest.mark.parametrize("lines", [True, False])
def test_records_that_share_no_key_are_refused(lines, tmp_path):
    records = [json.dumps({f"k{i}": i}) for i in range(20_000)]
    text = "\n".join(records) if lines else f"[{','.join(records)}]"
    (tmp_path / "x.json").write_text(text)
    assert "pack so well" in refusal(tmp_path / "x.json")


def test_compressed_text_is_unpacked_no_further_than_its_size_allows(tmp_path):
    text = b"a,b\n" + b"1.25,2.5\n" * 8_000_000
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text, 1))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("x.csv", text)
    del text
    for name in ("x.csv.gz", "x.zip"):
        assert "pack so well" in refusal(tmp_path / name)


# ---- Feather and Zarr ----


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_feather_file_of_noughts_is_refused(compression, tmp_path):
    pa, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    table = pa.table({"a": np.zeros(6_000_000)})
    feather.write_feather(table, tmp_path / "x.feather", compression, chunksize=6_000_000)
    del table
    assert "pack so well" in refusal(tmp_path / "x.feather")


@pytest.mark.parametrize("compression", ["lz4", "zstd", "uncompressed"])
def test_feather_files_come_back_whatever_packs_them(compression, tmp_path):
    pa, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    words = pa.array(["n", "s"] * 30).dictionary_encode()
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "place": words})
    feather.write_feather(table, tmp_path / "x.feather", compression, chunksize=25)
    np.testing.assert_array_equal(read_table(tmp_path / "x.feather").values, X)


def test_a_size_that_a_feather_file_forges_is_seen(tmp_path):
    pa, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    size = 8 * 60
    feather.write_feather(pa.table({"a": np.zeros(60)}), tmp_path / "x.feather", "lz4")
    raw = (tmp_path / "x.feather").read_bytes()
    place = raw.index(size.to_bytes(8, "little") + b"\x04\x22\x4d\x18")  # before the LZ4 frame
    raw = raw[:place] + (10**13).to_bytes(8, "little") + raw[place + 8 :]
    (tmp_path / "x.feather").write_bytes(raw)
    assert "pack so well" in refusal(tmp_path / "x.feather")


def test_zarr_is_read_and_its_announced_size_checked(tmp_path):
    pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")
    time = np.arange("2000-01-01", "2000-03-01", dtype="datetime64[D]").astype("datetime64[ns]")
    data = xarray.DataArray(X, dims=("time", "place"), coords={"time": time, "place": ["p", "q"]})
    data.to_dataset(name="u").to_zarr(tmp_path / "x.zarr", consolidated=False, zarr_format=2)
    found = read_table(tmp_path / "x.zarr")
    np.testing.assert_array_equal(read_labelled(str(tmp_path / "x.zarr")).values, found.values)
    np.testing.assert_array_equal(found.values, X)
    assert found.names == ("p", "q") and found.stamps is not None
    # All values of missing chunks are the fill value, however many there are.
    about = tmp_path / "x.zarr" / "u" / ".zarray"
    settings = json.loads(about.read_text()) | {"shape": [60, 2 * 10**9]}
    about.write_text(json.dumps(settings))
    for name in ("place", "time"):
        shutil.rmtree(tmp_path / "x.zarr" / name)
    assert "pack so well" in refusal(tmp_path / "x.zarr")


# ---- stored results ----


@pytest.fixture(scope="module")
def stored():
    samples = ndde.read_samples(X, dt=1.0, names=("a", "b"))
    return _store.to_bytes(samples)


def signed(content, members, compression=zipfile.ZIP_STORED, about=None):
    """A stored result with other members and a forged valid checksum."""
    import hashlib

    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, about if about and name == _store.ABOUT else old.read(name))
        for name, data in members.items():
            new.writestr(name, data, compression)
        new.comment = old.comment[: -_store._DIGEST] + b"0" * _store._DIGEST
    body = buffer.getvalue()[: -_store._DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def test_members_that_are_packed_are_refused_and_others_not_read(stored):
    noughts = bytes(50 * MEBI)
    bad = signed(stored, {"extra.npy": noughts}, zipfile.ZIP_DEFLATED)
    error, memory = peak(lambda: _store.from_bytes(bad, ndde.Samples))
    assert isinstance(error, ValueError) and "is packed" in str(error) and memory < 10 * MEBI
    good = signed(stored, {"extra.npy": b"no array"})
    assert _store.from_bytes(good, ndde.Samples).names == ("a", "b")


def test_an_array_is_handed_out_once(stored):
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        about = json.loads(archive.read(_store.ABOUT))
    values = about["content"]["fields"]["values"]["tuple"]
    values *= 10_000
    bad = signed(stored, {}, about=json.dumps(about))
    error, memory = peak(lambda: _store.from_bytes(bad, ndde.Samples))
    assert isinstance(error, ValueError) and "does not fit" in str(error) and memory < 30 * MEBI


def test_names_in_a_stored_result_steer_no_terminal(stored):
    bad = signed(stored, {}, about=zipfile.ZipFile(io.BytesIO(stored)).read(_store.ABOUT).replace(
        b'"a"', b'"\\u001b[31ma"'))  # fmt: skip
    assert _store.from_bytes(bad, ndde.Samples).names == ("[31ma", "b")


def spoilt_description(about, rng):
    """One place of a description replaced by a value that does not belong there, or deleted."""
    places = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(about["content"])
    node, key = places[rng.integers(len(places))]
    others = (None, -1, 1e308, "x" * 5000, [], {}, [1, "a"], {"tuple": []}, {"array": "graph"})
    k = int(rng.integers(len(others) + 1))
    if k == len(others):
        del node[key]
    else:
        node[key] = others[k]
    return json.dumps(about)


def spoilt_discovery(whole, rng):
    """A stored discovery corrupted somewhere; half of the cases with a forged valid checksum."""
    if rng.random() < 0.5:
        raw = bytearray(whole)
        for place in rng.integers(len(raw), size=rng.integers(1, 6)):
            raw[place] ^= 1 << int(rng.integers(8))
        return bytes(raw[: int(rng.integers(len(raw)))] if rng.random() < 0.3 else raw)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        about = json.loads(archive.read(_store.ABOUT))
        arrays = [name for name in archive.namelist() if name.endswith(".npy")]
        members = {name: archive.read(name) for name in archive.namelist()}
    if rng.random() < 0.6:
        members[_store.ABOUT] = spoilt_description(about, rng).encode()
    else:
        shape = tuple(map(int, rng.integers(0, 4, size=rng.integers(0, 4))))
        kind = ("f4", "f8", "i8", "?", "U3", "c8")[rng.integers(6)]
        new = io.BytesIO()
        np.save(new, np.zeros(shape, kind))
        members[arrays[rng.integers(len(arrays))]] = new.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as new:
        for name, data in members.items():
            new.writestr(name, data)
        with zipfile.ZipFile(io.BytesIO(whole)) as old:
            new.comment = old.comment
    return signed(buffer.getvalue(), {})


def fuzz_discoveries(directory, draws, seed=0):
    """Count loads that ended in a discovery; all others ended in one sentence, within memory."""
    rng = np.random.default_rng(seed)
    small.discovery(small.linear_path(60), small.TRUTH).save(directory)
    file, loaded = directory / "discovery.npz", 0
    whole = file.read_bytes()
    for _ in range(draws):
        file.write_bytes(spoilt_discovery(whole, rng))
        error, memory = peak(lambda: ndde.Discovery.load(directory))
        assert error is None or type(error) is ValueError, repr(error)
        assert error is None or (15 < len(str(error)) < 900 and "\n" not in str(error))
        assert memory < 200 * MEBI
        loaded += error is None
    return loaded


def test_spoilt_discoveries_end_in_a_sentence(tmp_path):
    assert fuzz_discoveries(tmp_path, 30, seed=1) < 15


@pytest.mark.slow
def test_many_spoilt_discoveries_end_in_a_sentence(tmp_path):
    assert fuzz_discoveries(tmp_path, 500) < 250


# ---- names ----


def test_a_name_that_begins_as_a_formula_is_shown_and_not_computed():
    assert _output.escape_formula("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0"
    assert _output.escape_formula("@sum") == "'@sum" and _output.escape_formula("+a") == "'+a"
    for cell in ("-1.5e-3", "a=b", "", 3, None):
        assert _output.escape_formula(cell) == cell


def test_no_picture_costs_a_report(monkeypatch, capsys):
    plot = pytest.importorskip("ndde_jax.plot")

    class Found:
        """The part of a discovery that is drawn."""

        names = (r"$\frac{1}{$", "<script>")
        lags, dt, time_unit = (0, 1), 1.0, ""
        graph = np.ones((2, 2, 2), bool)
        scores = np.ones((2, 2, 2))
        delays = np.ones((2, 2, 2))
        confounded = np.zeros((2, 2), bool)

    pictures = _output.pictures_or_none(lambda: _output._drawn(Found))
    assert set(pictures) == {"lag_matrix.png", "process_graph.png"}

    def broken(*_, **__):
        raise RuntimeError("no such font")

    monkeypatch.setattr(plot, "plot_process_graph", broken)
    assert _output.pictures_or_none(lambda: _output._drawn(Found)) == {}
    assert "No pictures: RuntimeError: no such font" in capsys.readouterr().err


# ---- spoilt at random ----


@pytest.mark.slow
def test_spoilt_files_end_in_a_sentence(tmp_path):
    """500 draws, bits flipped or cut short: at most 200 MiB more than the files are large."""
    import pandas as pd

    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_parquet(tmp_path / "good.parquet")
    frame.to_feather(tmp_path / "good.feather")
    workbook(tmp_path)
    (tmp_path / "good.npz").write_bytes(packed(x=X))
    script = (
        "import resource, sys\n"
        "from ndde_jax.samples._tables import read_table\n"
        "import pandas, openpyxl, pyarrow.feather, pyarrow.parquet\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        read_table(path)\n"
        "    except (ValueError, ImportError) as error:\n"
        "        assert 15 < len(str(error)) < 900, error\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    rng = np.random.default_rng(0)
    paths = []
    for k in range(500):
        kind = ("npz", "xlsx", "parquet", "feather")[k % 4]
        raw = bytearray((tmp_path / f"good.{kind}").read_bytes())
        for place in rng.integers(len(raw), size=rng.integers(1, 6)):
            raw[place] ^= 1 << int(rng.integers(8))
        raw = raw[: int(rng.integers(1, len(raw)))] if rng.random() < 0.2 else raw
        paths.append(tmp_path / f"{k}.{kind}")
        paths[-1].write_bytes(raw)
    made = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    assert int(made.stdout) < 200
