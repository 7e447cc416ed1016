"""The results store and its runner: complete records or none, whatever happens to the process."""

import math
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks._store import Record, Store, Unit
from benchmarks.rescue import main as rescue

REPOSITORY = Path(__file__).parents[2]


def unit(series=0, *, graph="Lorenz", method="l0ndde", seed=0):
    return Unit("bench", "simple/noise", graph, series, method, seed)


def record(series=0, value=0.5, **key):
    scores = np.full((3, 3), value, np.float32)
    return Record(unit(series, **key), {"auroc": value, "shd": 2}, "ok", 1.5, {"scores": scores})


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as store:
        yield store


def test_rows_and_arrays_come_back_as_written(store):
    store.write([record(0, 0.25), record(1, math.nan)])
    first, second = (row for row in store.rows("bench") if row.metric == "auroc")
    assert (first.series, first.value, first.status, first.seconds) == (0, 0.25, "ok", 1.5)
    assert second.series == 1
    assert math.isnan(second.value)
    scores = store.arrays(unit(0))["scores"]
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.full((3, 3), 0.25))
    assert store.arrays(unit(7)) == {}
    assert store.seconds([unit(0), unit(1), unit(7)]) == 3.0


def test_done_lists_units_of_one_benchmark(store):
    store.write([record(0), record(1), record(0, method="strength"), record(0, seed=1)])
    assert store.done("other") == set()
    assert store.done("bench", method="strength") == {unit(0, method="strength")}
    assert store.done("bench") == {
        unit(0),
        unit(1),
        unit(0, method="strength"),
        unit(0, seed=1),
    }
    assert store.same_graph(unit(5)) == [unit(0), unit(1)]


def test_writing_again_replaces_and_forgetting_removes(store):
    store.write([record(0, 0.1)])
    store.write([Record(unit(0), {"auprc": 0.9}, "ok", 1.0)])
    assert [(row.metric, row.value) for row in store.rows("bench")] == [("auprc", 0.9)]
    assert store.arrays(unit(0)) == {}
    store.forget([unit(0)])
    assert store.done("bench") == set()


def test_a_batch_enters_entirely_or_not_at_all(store):
    broken = Record(unit(1), {"auroc": "not a number"}, "ok", 1.0)
    with pytest.raises(ValueError, match="could not convert"):
        store.write([record(0), broken])
    assert store.done("bench") == set()
    with pytest.raises(ValueError, match="at least one metric"):
        store.write([record(0), Record(unit(1), {}, "ok", 1.0)])
    assert store.done("bench") == set()


def test_results_of_different_settings_do_not_mix(store):
    store.agree_on_settings("bench", "l0ndde", "simple/noise", '{"lags": [0]}')
    store.agree_on_settings("bench", "l0ndde", "simple/noise", '{"lags": [0]}')
    store.agree_on_settings("bench", "l0ndde", "coupled/noise", '{"lags": [0, 6]}')
    with pytest.raises(ValueError, match="made with"):
        store.agree_on_settings("bench", "l0ndde", "simple/noise", '{"lags": [0, 6]}')


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database " * 100)
    with pytest.raises(ValueError, match="not a results file"):
        Store(path)


def test_two_writers_share_a_file(tmp_path):
    path = tmp_path / "results.sqlite"
    with Store(path) as one, Store(path) as other:
        for series in range(10):
            (one if series % 2 else other).write([record(series)])
        assert one.done("bench") == other.done("bench") == {unit(s) for s in range(10)}


# Writes units until none is left, and reports each before computing and after writing.
WORKER = """
import sys
import time
import numpy as np
from benchmarks._store import Record, Store, Unit
with Store(sys.argv[1]) as store:
    done = store.done("bench")
    for series in range(300):
        unit = Unit("bench", "simple", "Lorenz", series, "m", 0)
        if unit in done:
            continue
        print("computing", series, flush=True)
        time.sleep(0.002)
        scores = np.full((100, 100), float(series))
        store.write([Record(unit, {"a": series, "b": -series}, "ok", 0.0, {"scores": scores})])
        print("written", series, flush=True)
"""


@pytest.mark.slow
def test_resumes_after_kill_9_without_loss_or_repetition(tmp_path):
    path = tmp_path / "results.sqlite"

    def start():
        command = [sys.executable, "-c", WORKER, str(path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)

    computed, written = [], set()

    def follow(process, lines):
        for _, line in zip(range(lines), process.stdout, strict=False):
            what, series = line.split()
            if what == "computing":
                computed.append(int(series))
            else:
                written.add(int(series))

    for kill_after in (41, 86, 20):  # odd and even: while computing, and right after a write
        with start() as process:
            follow(process, kill_after)
            process.send_signal(signal.SIGKILL)
            follow(process, 10**6)  # what was in the pipe already
        assert process.returncode == -signal.SIGKILL
        with Store(path) as store:
            done = {u.series for u in store.done("bench")}
        assert len(done) < 300  # it was killed before its end
        assert written <= done  # nothing that was reported is lost
        assert len(done - written) <= 1  # at most the report was lost, never the record
        written |= done

    with start() as process:
        follow(process, 10**6)
    assert process.returncode == 0

    # A series computed twice was in flight, unwritten, when a kill came.
    assert len(computed) <= 300 + 3
    assert sorted(set(computed)) == list(range(300))
    with Store(path) as store:
        rows = [(row.series, row.metric, row.value) for row in store.rows("bench")]
        assert rows == [(s, m, v) for s in range(300) for m, v in (("a", s), ("b", -s))]
        for u in store.done("bench"):
            np.testing.assert_array_equal(store.arrays(u)["scores"], float(u.series))
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


# ---- damage ----


@pytest.fixture
def file(tmp_path):
    """A results file of two units, with arrays and settings."""
    with Store(tmp_path / "file.sqlite") as store:
        store.agree_on_settings("bench", "l0ndde", "simple/noise", "lags 0")
        store.write([record(0, 0.25), record(1, 0.5), record(2, 0.75)])
    return tmp_path / "file.sqlite"


def change(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE results SET value = 0.26 WHERE series = 0 AND metric = 'auroc'",
        "UPDATE results SET status = 'ok!' WHERE series = 0",
        "UPDATE results SET seconds = 1 WHERE series = 0",
        "UPDATE results SET series = 9 WHERE series = 0",
        "UPDATE results SET series = 9 WHERE series = 0 AND metric = 'shd'",
        "DELETE FROM results WHERE series = 0",
        "DELETE FROM checksums WHERE series = 0",
        "DELETE FROM results; DELETE FROM checksums",
        "UPDATE settings SET settings = 'lags 1'",
        "DELETE FROM settings",
        "INSERT INTO results SELECT benchmark, category, graph, 9, method, seed, metric, value, "
        "status, seconds FROM results WHERE series = 0",
        "INSERT INTO settings VALUES ('bench', 'other', 'simple', '')",
        "UPDATE total SET units = 3",
        "DELETE FROM total",
        "UPDATE checksums SET arrays = results",
        "DROP TABLE checksums",
        "DROP TABLE results",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 3",
    ],
)
def test_what_was_not_written_here_is_refused(statement, file):
    change(file, *statement.split(";"))
    with pytest.raises(ValueError, match=r"file\.sqlite is damaged: .*rescue .*--out NEW"):
        Store(file)


@pytest.mark.parametrize(
    "statement", ["UPDATE arrays SET npy = (SELECT npy FROM arrays WHERE series = 1)",
                  "UPDATE arrays SET name = 'graph'", "DELETE FROM arrays"]
)  # fmt: skip
def test_changed_arrays_are_refused_when_they_are_read(statement, file):
    change(file, f"{statement} WHERE series = 0")
    with Store(file) as store:
        with pytest.raises(ValueError, match=r"the arrays of l0ndde .* series 0.* have changed"):
            store.arrays(unit(0))
        assert store.arrays(unit(1))["scores"][0, 0] == 0.5


def test_damage_after_opening_is_refused_when_it_is_read(file):
    with Store(file) as store:
        change(file, "UPDATE results SET value = 0.26 WHERE series = 0 AND metric = 'auroc'")
        with pytest.raises(ValueError, match="series 0, seed 0, has changed since it was written"):
            list(store.rows("bench"))


def test_what_is_intact_can_be_copied(file, tmp_path, capsys):
    change(
        file,
        "UPDATE results SET value = 0.26 WHERE series = 0",
        "UPDATE arrays SET name = 'graph' WHERE series = 2",
    )
    out = tmp_path / "new.sqlite"
    assert rescue([str(tmp_path / "nowhere"), "--out", str(out)]) == 2
    assert "does not exist" in capsys.readouterr().err
    for copied in (2, 0):
        assert rescue([str(file), "--out", str(out)]) == 0
        assert f"2 intact units, {copied} of them copied" in capsys.readouterr().out
    with Store(out) as store:
        assert store.done("bench") == {unit(1)}
        np.testing.assert_array_equal(store.arrays(unit(1))["scores"], 0.5)
        with pytest.raises(ValueError, match="made with lags 0"):
            store.agree_on_settings("bench", "l0ndde", "simple/noise", "lags 1")


def test_files_without_checksums_get_them_with_a_warning(file):
    change(file, "DROP TABLE checksums", "DROP TABLE total", "PRAGMA user_version = 0")
    with pytest.warns(UserWarning, match="was written without checksums"), Store(file) as store:
        assert [row.value for row in store.rows("bench") if row.metric == "auroc"] == [
            *(0.25, 0.5, 0.75)
        ]
    with Store(file) as store:
        assert store.arrays(unit(2))["scores"][0, 0] == 0.75
    change(file, "UPDATE results SET value = 0.26 WHERE series = 0 AND metric = 'auroc'")
    with pytest.raises(ValueError, match="is damaged"):
        Store(file)


def test_checksums_follow_what_is_written_and_forgotten(file):
    with Store(file) as store:
        store.forget([unit(0), unit(7)])
        store.write([record(1, 0.9), record(3)])
    with Store(file) as store:
        assert [row.value for row in store.rows("bench") if row.metric == "auroc"] == [
            *(0.9, 0.75, 0.5)
        ]
