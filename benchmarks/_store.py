"""One SQLite file of results, shared by all benchmarks and safe to interrupt at any time.

The unit of work is a `Unit`: one method with one seed on one series. All its metrics and arrays
are written in one transaction, so after a crash a unit is either complete or absent, and a resumed
run may skip `Store.done()`. Checksums are written with them, see `_checksums`, and a file that does
not match them is refused. The journal is SQLite's default (rollback), not a write-ahead log:
between transactions the file is complete by itself, and can be copied alone or read during a run.
"""

import contextlib
import io
import math
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from . import _checksums
from ._checksums import UNIT as _UNIT, VERSION, WHERE_UNIT as _WHERE_UNIT, Unit as Unit

POOLED = -1
"""Series index of the metrics that pool all series of a graph."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    benchmark TEXT NOT NULL, category TEXT NOT NULL, graph TEXT NOT NULL, series INTEGER NOT NULL,
    method TEXT NOT NULL, seed INTEGER NOT NULL, metric TEXT NOT NULL,
    value REAL, status TEXT NOT NULL, seconds REAL,
    PRIMARY KEY (benchmark, category, graph, series, method, seed, metric)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arrays (
    benchmark TEXT NOT NULL, category TEXT NOT NULL, graph TEXT NOT NULL, series INTEGER NOT NULL,
    method TEXT NOT NULL, seed INTEGER NOT NULL, name TEXT NOT NULL, npy BLOB NOT NULL,
    PRIMARY KEY (benchmark, category, graph, series, method, seed, name)
);
CREATE TABLE IF NOT EXISTS settings (
    benchmark TEXT NOT NULL, method TEXT NOT NULL, category TEXT NOT NULL, settings TEXT NOT NULL,
    PRIMARY KEY (benchmark, method, category)
);
"""


# Errors of SQLite that do not mean a damaged file.
_NO_DAMAGE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CONSTRAINT,
)


@dataclass(frozen=True)
class Record:
    """The outcome of one unit: metrics by name (NaN where undefined), and arrays worth keeping."""

    unit: Unit
    metrics: Mapping[str, float]
    status: str
    seconds: float
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One row of the table `results`."""

    benchmark: str
    category: str
    graph: str
    series: int
    method: str
    seed: int
    metric: str
    value: float
    status: str
    seconds: float


_ROW = ", ".join(f.name for f in fields(Row))


class Store:
    """A results file, created when missing. Use as a context manager, or `close()` it.

    Several processes may open one file on a local disk; writers wait for each other up to
    `timeout` seconds (60 by default, far above the milliseconds a transaction takes).
    """

    def __init__(self, path: str | Path, *, timeout: float = 60.0):
        self.path = Path(path)
        self._db = sqlite3.connect(self.path, timeout=timeout, isolation_level=None)
        try:
            with self._undamaged():
                # A commit returns once the data are on disk, so results survive a power cut.
                self._db.execute("PRAGMA synchronous = FULL")
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        """Make the tables of a new file, or check that those of an old one are undamaged."""
        with self._transaction("DEFERRED"):
            tables = self._tables()
            (kind,) = self._db.execute("PRAGMA user_version").fetchone()
            if "checksums" in tables or kind:
                if kind != VERSION:
                    self._refuse(f"its version is {kind}, not {VERSION}")
                self._refuse(_checksums.problem(self._db))
                return
        with self._transaction():
            if "checksums" in self._tables():
                return  # another process was faster
            for statement in (_SCHEMA + _checksums.SCHEMA).split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {VERSION}")
            _checksums.adopt(self._db)
        if "results" in tables:
            warnings.warn(
                f"{self.path} was written without checksums. They are added now, but earlier "
                "damage cannot be detected.",
                stacklevel=4,
            )

    def _tables(self) -> set[str]:
        return {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}

    @contextlib.contextmanager
    def _undamaged(self) -> Iterator[None]:
        """Turn SQLite's error about a damaged file into a sentence."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _NO_DAMAGE:
                raise
            if code == sqlite3.SQLITE_NOTADB:
                raise ValueError(
                    f"{self.path} is not a results file of these benchmarks ({error}); "
                    "name another file, or one that does not exist yet."
                ) from error
            self._refuse(str(error))

    def _refuse(self, problem: str) -> None:
        if problem:
            raise ValueError(
                f"{self.path} is damaged: {problem}. Copy the intact units to a new file with "
                f"`python -m benchmarks.rescue {self.path} --out NEW`; a run into that "
                "file computes what is missing."
            )

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def done(self, benchmark: str, *, method: str | None = None) -> set[Unit]:
        """Return units already in the file, failed ones included (their status says so)."""
        query = f"SELECT DISTINCT {_UNIT} FROM results WHERE benchmark = ?"
        values = [benchmark]
        if method is not None:
            query += " AND method = ?"
            values.append(method)
        with self._undamaged():
            return {Unit(*row) for row in self._db.execute(query, values)}

    def same_graph(self, unit: Unit) -> list[Unit]:
        """Return units of all series of this unit's graph, method and seed, in order of series."""
        query = (
            f"SELECT DISTINCT {_UNIT} FROM results "
            f"WHERE {_WHERE_UNIT.replace('series = ?', 'series >= ?')} ORDER BY series"
        )
        return [Unit(*row) for row in self._db.execute(query, unit._replace(series=POOLED))]

    def write(self, records: Iterable[Record]) -> None:
        """Write the records to the file, all or none; an existing unit is replaced."""
        records = list(records)
        for record in records:
            if not record.metrics:
                raise ValueError(f"a record needs at least one metric; {record.unit} has none.")
        with self._transaction():
            for record in records:
                self._forget(record.unit)
                self._db.executemany(
                    f"INSERT INTO results ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        (*record.unit, metric, _null_if_nan(value), record.status, record.seconds)
                        for metric, value in record.metrics.items()
                    ],
                )
                self._db.executemany(
                    f"INSERT INTO arrays ({_UNIT}, name, npy) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [(*record.unit, name, _to_npy(a)) for name, a in record.arrays.items()],
                )
            _checksums.renew(self._db, [record.unit for record in records])

    def forget(self, units: Iterable[Unit]) -> None:
        """Remove units, so that a run repeats them."""
        units = list(units)
        with self._transaction():
            for unit in units:
                self._forget(unit)
            _checksums.renew(self._db, units)

    def rows(self, benchmark: str) -> Iterator[Row]:
        """Yield all rows of one benchmark, ordered by their key; an undefined value is NaN."""
        query = (
            f"SELECT {_UNIT}, results FROM checksums WHERE benchmark = ? AND series >= ? "
            f"ORDER BY {_UNIT}"
        )
        found = []
        with self._undamaged(), self._transaction("DEFERRED"):
            for *key, checksum in self._db.execute(query, (benchmark, POOLED)):
                unit = Unit(*key)
                rows = _checksums.results_of(self._db, unit)
                if _checksums.digest(unit, rows) != checksum:
                    self._refuse(f"{_checksums.describe(unit)} has changed since it was written")
                found += ((unit, *row) for row in rows)
        for unit, metric, value, status, seconds in found:
            yield Row(*unit, metric, math.nan if value is None else value, status, seconds)

    def rescue(self, damaged: str | Path) -> tuple[int, int]:
        """Copy the intact units of a damaged results file that are not here yet. Return the number
        of copied units and that of intact ones.
        """
        other = sqlite3.connect(f"{Path(damaged).absolute().as_uri()}?mode=ro", uri=True)
        try:
            units = _checksums.intact(other)
            here = {Unit(*row) for row in self._db.execute(f"SELECT {_UNIT} FROM checksums")}
            copied = [unit for unit in units if unit not in here]
            with self._transaction():
                for unit in copied:
                    self._copy(other, unit)
                _checksums.renew(self._db, copied)
        except sqlite3.DatabaseError as error:
            raise ValueError(f"nothing in {damaged} can be read ({error}).") from error
        finally:
            other.close()
        return len(copied), len(units)

    def _copy(self, other: sqlite3.Connection, unit: Unit) -> None:
        rows = _checksums.results_of(other, unit)
        if unit.series < POOLED:
            key = (unit.benchmark, unit.method, unit.category)
            self._db.execute("INSERT INTO settings VALUES (?, ?, ?, ?)", (*key, *rows[0]))
            return
        self._db.executemany(
            f"INSERT INTO results ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*unit, *row) for row in rows],
        )
        self._db.executemany(
            f"INSERT INTO arrays ({_UNIT}, name, npy) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(*unit, *row) for row in _checksums.arrays_of(other, unit)],
        )

    def seconds(self, units: Iterable[Unit]) -> float:
        """The time the units took, in total."""
        query = f"SELECT seconds FROM results WHERE {_WHERE_UNIT} LIMIT 1"
        found = [self._db.execute(query, unit).fetchone() for unit in units]
        return sum(row[0] for row in found if row is not None)

    def arrays(self, unit: Unit) -> dict[str, np.ndarray]:
        """The arrays of one unit by name; empty if it has none."""
        with self._undamaged(), self._transaction("DEFERRED"):
            rows, checksums = _checksums.arrays_of(self._db, unit), _checksums.kept(self._db, unit)
            if checksums is None and not rows:
                return {}
            if checksums is None or _checksums.digest(unit, rows) != checksums[1]:
                self._refuse(f"the arrays of {_checksums.describe(unit)} have changed")
        return {name: _from_npy(npy) for name, npy in rows}

    def agree_on_settings(self, benchmark: str, method: str, category: str, settings: str) -> None:
        """Store the settings of a method; refuse to mix results of different settings in one file.

        **Raises:** `ValueError` if the file holds results made with other settings.
        """
        key = (benchmark, method, category)
        with self._transaction():
            new = self._db.execute(
                "INSERT OR IGNORE INTO settings VALUES (?, ?, ?, ?)", (*key, settings)
            )
            if new.rowcount:
                _checksums.renew(self._db, [_checksums.settings_unit(*key)])
            query = "SELECT settings FROM settings WHERE (benchmark, method, category) = (?, ?, ?)"
            (kept,) = self._db.execute(query, key).fetchone()
        if kept != settings:
            raise ValueError(
                f"{self.path} holds results of {method} on {category} made with {kept}; this run "
                f"would use {settings}. Name another file with --out, or restore those settings."
            )

    def settings(self, benchmark: str) -> list[tuple[str, str, str]]:
        """Return method, category and settings of all results of a benchmark."""
        query = "SELECT method, category, settings FROM settings WHERE benchmark = ?"
        with self._undamaged():
            return list(self._db.execute(query, (benchmark,)))

    def _forget(self, unit: Unit) -> None:
        for table in ("results", "arrays"):
            self._db.execute(f"DELETE FROM {table} WHERE {_WHERE_UNIT}", unit)

    @contextlib.contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """Commit on success, roll back on any error. An immediate transaction takes the write lock
        at once; a deferred one reads one state of the file throughout.
        """
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _null_if_nan(value) -> float | None:
    value = float(value)
    return None if math.isnan(value) else value


def _to_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _from_npy(npy: bytes) -> np.ndarray:
    return np.load(io.BytesIO(npy), allow_pickle=False)
