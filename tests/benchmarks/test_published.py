"""No figure outlives the results it came from."""

import gzip
import math

import numpy as np
import pytest

from benchmarks import published
from benchmarks._store import POOLED, Record, Store, Unit
from benchmarks.delays.report import table

UNIT = Unit("delays", "low", "ring", 0, "discover", 3)
METRICS = {"dim": 3.0, "exact.f1": 2 / 3, "exact.auroc": math.nan, "failed": 0.0}
ARRAYS = {"scores": np.arange(6.0).reshape(2, 3) / 7, "graph": np.eye(2, dtype=bool)}


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        store.agree_on_settings("delays", "discover", "low", "length 4000")
        store.write([Record(UNIT, METRICS, "ok", 1.5, ARRAYS)])
    return path


def test_what_is_published_reads_like_the_results(results, tmp_path):
    out = tmp_path / "published" / "low.csv"
    assert published.keep(results, out, benchmark="delays", arrays=True) == 1
    with published.read(out) as read, Store(results) as original:
        assert table(read) == table(original)
        rows = {row.metric: row.value for row in read.rows("delays")}
        assert rows == pytest.approx(METRICS, abs=1e-5, nan_ok=True)
        for name, array in read.arrays(UNIT).items():
            np.testing.assert_allclose(array, ARRAYS[name], atol=1e-6)
            assert array.dtype == ARRAYS[name].dtype
    text = out.read_text()
    assert text.startswith("# kept at ") and "# settings discover low " in text


def test_compressed_files_hold_the_same_and_are_always_the_same(results, tmp_path):
    plain, small, again = (tmp_path / name for name in ("low.csv", "low.csv.gz", "again.csv.gz"))
    for out in (plain, small, again):
        published.keep(results, out, benchmark="delays")
    assert gzip.decompress(small.read_bytes()) == plain.read_bytes()
    assert small.read_bytes() == again.read_bytes()
    with published.read(small) as read, published.read(plain) as original:
        assert table(read) == table(original)


def test_what_is_pooled_can_be_kept_alone(results, tmp_path):
    pooled = UNIT._replace(series=POOLED)
    with Store(results) as store:
        store.write([Record(pooled, METRICS, "ok", 0.0, {})])
    out = tmp_path / "low.csv"
    assert published.keep(results, out, benchmark="delays") == 2
    assert published.keep(results, out, benchmark="delays", pooled=True) == 1
    with published.read(out) as read:
        assert {row.series for row in read.rows("delays")} == {POOLED}


def test_a_file_is_updated_method_by_method(results, tmp_path):
    """Figures absent from the results stay, under the commit at which they were kept."""
    out, older, both = (tmp_path / name for name in ("low.csv", "older.sqlite", "both.sqlite"))
    other = UNIT._replace(method="granger")
    stale = Record(UNIT, METRICS | {"exact.f1": 0.1}, "ok", 9.0, ARRAYS)
    fresh = Record(UNIT, METRICS, "ok", 1.5, ARRAYS)
    beside = Record(other, METRICS | {"exact.f1": 0.25}, "ok", 2.0, ARRAYS)
    for path, records in ((older, (stale, beside)), (both, (fresh, beside))):
        with Store(path) as store:
            for method in ("discover", "granger"):
                store.agree_on_settings("delays", method, "low", "length 4000")
            store.write(records)
    published.keep(older, out, benchmark="delays", arrays=True)
    first = out.read_text().splitlines()[0]
    for _ in range(2):
        published.keep(results, out, benchmark="delays", arrays=True, update=True)
        with published.read(out) as read, Store(both) as original:
            assert table(read) == table(original)
        comments = [line for line in out.read_text().splitlines() if line.startswith("#")]
        assert comments[0] == f"{first} granger"
        assert [line.split()[2] for line in comments if "settings" in line] == [
            "granger",
            "discover",
        ]
        assert comments[2] == f"{first} discover"


def test_another_category_of_a_method_is_added(results, tmp_path):
    out, more, both = (tmp_path / name for name in ("low.csv", "more.sqlite", "both.sqlite"))
    here, there = (
        Record(unit, METRICS, "ok", 1.5, ARRAYS) for unit in (UNIT, UNIT._replace(category="high"))
    )
    for path, records in ((more, [there]), (both, [here, there])):
        with Store(path) as store:
            for record in records:
                store.agree_on_settings("delays", "discover", record.unit.category, "length 4000")
            store.write(records)
    published.keep(results, out, benchmark="delays", arrays=True)
    published.keep(more, out, benchmark="delays", arrays=True, update=True)
    with published.read(out) as read, Store(both) as original:
        assert table(read) == table(original)
    comments = [line for line in out.read_text().splitlines() if line.startswith("# kept at")]
    assert comments[1] == f"{comments[0]} (high)" and comments[0].endswith(" discover")


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="does not hold published results"):
        published.read(path)


def test_a_block_holds_what_its_command_prints(results, tmp_path):
    out = tmp_path / "low.csv"
    published.keep(results, out, benchmark="delays")
    head = f"<!-- python -m benchmarks.delays table {out} -->\n"
    stale = f"Before.\n\n{head}\n| old | .999 |\n\n<!-- end -->\n\nAfter.\n"
    new = published.rendered(stale)
    with Store(results) as store:
        assert new == f"Before.\n\n{head}\n{table(store)}\n\n<!-- end -->\n\nAfter.\n"
    assert published.rendered(new) == new


@pytest.mark.parametrize(
    "file", published.readmes(), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_readmes_hold_what_was_published(file):
    text = file.read_text(encoding="utf-8")
    assert published.rendered(text) == text, "run `python -m benchmarks.published readme`"


def test_everything_published_is_shown():
    shown = "".join(file.read_text(encoding="utf-8") for file in published.readmes())
    for path in sorted((published.ROOT / "benchmarks").glob("*/published/*.csv*")):
        assert str(path.relative_to(published.ROOT)) in shown
