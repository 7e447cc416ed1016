"""Checksums of the content of a results file, so that damage is not taken for results.

SQLite detects a broken file structure, but neither a changed number nor a missing row. Every unit
of work therefore has a checksum of all its metrics, statuses and times, and one of its arrays,
written in the same transaction. The file also has a sum over all of them, so that none can be
missing. The settings of a method count as a unit too.
"""

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

VERSION = 2
"""The version of results files, SQLite's `user_version`; 0 for files without checksums."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS checksums (
    benchmark TEXT NOT NULL, category TEXT NOT NULL, graph TEXT NOT NULL, series INTEGER NOT NULL,
    method TEXT NOT NULL, seed INTEGER NOT NULL, results TEXT NOT NULL, arrays TEXT NOT NULL,
    PRIMARY KEY (benchmark, category, graph, series, method, seed)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS total (units INTEGER NOT NULL, digest TEXT NOT NULL);
"""

_MODULUS = 1 << 128
# A series index that marks settings.
_SETTINGS = -2


class Unit(NamedTuple):
    """A unit of work that is done once: one method, with one seed, on one series of one graph."""

    benchmark: str
    category: str
    graph: str
    series: int
    method: str
    seed: int


UNIT = ", ".join(Unit._fields)
WHERE_UNIT = " AND ".join(f"{name} = ?" for name in Unit._fields)


def settings_unit(benchmark: str, method: str, category: str) -> Unit:
    """Return the unit that represents the settings of a method."""
    return Unit(benchmark, category, "", _SETTINGS, method, 0)


def renew(db: sqlite3.Connection, units: Iterable[Unit]) -> None:
    """Update the checksums of the file, in the transaction that changes it."""
    count, total = _total(db)
    for unit in dict.fromkeys(units):
        if (old := kept(db, unit)) is not None:
            count, total = count - 1, total - _entry(unit, *old)
            db.execute(f"DELETE FROM checksums WHERE {WHERE_UNIT}", unit)
        rows = results_of(db, unit)
        if rows:
            new = digest(unit, rows), digest(unit, arrays_of(db, unit))
            count, total = count + 1, total + _entry(unit, *new)
            db.execute("INSERT INTO checksums VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*unit, *new))
    db.execute("DELETE FROM total")
    db.execute("INSERT INTO total VALUES (?, ?)", (count, f"{total % _MODULUS:032x}"))


def adopt(db: sqlite3.Connection) -> None:
    """Give a file without checksums its first ones."""
    units = [Unit(*row) for row in db.execute(f"SELECT DISTINCT {UNIT} FROM results")]
    settings = db.execute("SELECT benchmark, method, category FROM settings").fetchall()
    renew(db, [*units, *(settings_unit(*key) for key in settings)])


def problem(db: sqlite3.Connection) -> str:
    """Return in words what is damaged in the file, without reading its arrays; empty if intact."""
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        return found
    entries = _entries(db)
    count, total = _total(db)
    if count != len(entries) or total != sum(_entry(*entry) for entry in entries) % _MODULUS:
        return f"it holds {len(entries)} checksums instead of {count}, or one has changed"
    n_rows = n_settings = 0
    for unit, results, _ in entries:
        rows = results_of(db, unit)
        if digest(unit, rows) != results:
            return f"{describe(unit)} has changed since it was written"
        n_settings += unit.series == _SETTINGS
        n_rows += len(rows) if unit.series != _SETTINGS else 0
    for table, expected in (("results", n_rows), ("settings", n_settings)):
        (n,) = db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
        if n != expected:
            return f"it holds {n} rows of {table}, but checksums for {expected}"
    return ""


def intact(db: sqlite3.Connection) -> list[Unit]:
    """Return the units of a damaged file whose metrics and arrays are unchanged."""
    found, cursor = [], db.execute("SELECT * FROM checksums")
    while True:
        try:
            row = cursor.fetchone()
        except sqlite3.DatabaseError:
            return found  # the rest cannot be reached
        if row is None:
            return found
        unit, (results, arrays) = Unit(*row[:6]), row[6:]
        try:
            if digest(unit, results_of(db, unit)) == results:
                if digest(unit, arrays_of(db, unit)) == arrays:
                    found.append(unit)
        except sqlite3.DatabaseError:
            pass


def kept(db: sqlite3.Connection, unit: Unit) -> tuple[str, str] | None:
    """The checksums of a unit's metrics and arrays; None if it has none."""
    query = f"SELECT results, arrays FROM checksums WHERE {WHERE_UNIT}"
    return db.execute(query, unit).fetchone()


def results_of(db: sqlite3.Connection, unit: Unit) -> list[tuple]:
    """Return the rows that the checksum of a unit's metrics covers."""
    if unit.series == _SETTINGS:
        query = "SELECT settings FROM settings WHERE (benchmark, method, category) = (?, ?, ?)"
        return db.execute(query, (unit.benchmark, unit.method, unit.category)).fetchall()
    query = f"SELECT metric, value, status, seconds FROM results WHERE {WHERE_UNIT} ORDER BY metric"
    return db.execute(query, unit).fetchall()


def arrays_of(db: sqlite3.Connection, unit: Unit) -> list[tuple]:
    """The arrays of a unit, `(name, npy)`."""
    return db.execute(
        f"SELECT name, npy FROM arrays WHERE {WHERE_UNIT} ORDER BY name", unit
    ).fetchall()


def digest(unit: Unit, rows: list[tuple]) -> str:
    """A checksum of the content of a unit. `repr` distinguishes every number from all others."""
    return hashlib.sha256(repr((tuple(unit), rows)).encode()).hexdigest()[:32]


def describe(unit: Unit) -> str:
    """The description of a unit for a sentence."""
    if unit.series == _SETTINGS:
        return f"the settings of {unit.method} on {unit.category}"
    return f"{unit.method} on {unit.category} {unit.graph}, series {unit.series}, seed {unit.seed},"


def _entries(db: sqlite3.Connection) -> list[tuple[Unit, str, str]]:
    query = db.execute(f"SELECT {UNIT}, results, arrays FROM checksums")
    return [(Unit(*row[:6]), *row[6:]) for row in query]


def _entry(unit: Unit, results: str, arrays: str) -> int:
    return int(digest(unit, [(results, arrays)]), 16)


def _total(db: sqlite3.Connection) -> tuple[int, int]:
    row = db.execute("SELECT units, digest FROM total").fetchone()
    return (0, 0) if row is None else (row[0], int(row[1], 16))
