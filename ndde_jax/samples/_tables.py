"""Measurements from files: CSV, NPZ, Excel, Parquet and NetCDF, one row per sample."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._masks import rows_of_months, rows_with
from ._table_files import (
    COMMA_NUMBER,
    DATE,
    MISSING,
    TIME_NAMES,
    Column,
    Columns,
    Options,
    to_float,
)
from ._table_packages import READERS

_PACKED_DATE = re.compile(r"\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")  # 195001, 19500131
_ZONE = re.compile(r"(Z|([+-])(\d\d):?(\d\d)?)$")


class Table(NamedTuple):
    """Measurements `[time dim]` with names, and time stamps where the file has them."""

    values: np.ndarray
    names: tuple[str, ...]
    stamps: np.ndarray | None  # numbers or datetime64, [time]
    dt: float | None = None  # as the file states it
    notices: tuple[str, ...] = ()  # what had to be assumed to read it
    trials: np.ndarray | None = None  # the recording each row belongs to, where there are several
    mask: np.ndarray | None = None  # rows that may be the present of a window, if not all

    @property
    def recordings(self) -> tuple[np.ndarray, ...]:
        """Rows of each recording, in order of its first row."""
        if self.trials is None:
            return (np.arange(len(self.values)),)
        _, first, which = np.unique(self.trials, return_index=True, return_inverse=True)
        return tuple(np.flatnonzero(which == k) for k in np.argsort(first))


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    time_column: str | None = None,
    key: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    trial: str | None = None,
    only: Sequence[tuple[str, tuple[str, ...]]] = (),
    months: Sequence[int] = (),
) -> Table:
    """Read measurements from CSV, NPZ, Excel, Parquet or NetCDF, one row per sample.

    - CSV: separated by comma, semicolon, tab or blanks, or by `separator`; lines that start with #
      are skipped; a header row is recognised, and so is a decimal comma, unless the comma also
      separates: then say `decimal=","`. Empty cells and nan, na, null, none, - and . are missing
      values. UTF-8, UTF-16 with its mark, or else Latin-1.
    - NPZ: the array `key` (default `x`, or the only array), `[time dim]`; `names` and `dt` are
      used if the file has them.
    - Parquet and NetCDF (extra `data`): a table's columns; a data set's variables along one
      dimension, or the variable `key`, `[time dim]`, or with a dimension of trials.

    `time_column` names the column of time stamps. By default it is the first column if that holds
    dates, or is called time, t, date, month, year, day or like these, or is an index without a
    name; or else the first that holds dates or, increasing, has such a word in its name (time_yr).
    `columns` picks variables and their order; without it columns of text are left out, and a notice
    says so. `trial` names a column that tells recordings apart. `only`, columns with some of their
    values, and `months` (1 to 12, of dates) say which rows may be the present of a window; such a
    column is a variable only if `columns` names it.

    Raises ValueError if the file cannot be read as a table, a column is missing or is not numeric;
    ImportError if the extra is missing; OSError if the file cannot be opened.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; expected a file of measurements.")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        sheet = " Export a spreadsheet as CSV." if path.suffix.lower().startswith(".xls") else ""
        raise ValueError(
            f"Cannot tell the format of {path.name}; expected a name that ends with one of: "
            f"{' '.join(READERS)}.{sheet}"
        )
    if decimal not in (None, ".", ","):
        raise ValueError(f"--decimal must be a point or a comma; got {decimal!r}.")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n\0'):
        raise ValueError(f"--separator must be one character; got {separator!r}.")
    if separator is not None and separator == decimal:
        raise ValueError(f"--separator and --decimal must differ; both are {decimal!r}.")
    found, dt, notices, trials = reader(path, Options(key, separator, decimal, bool(columns)))
    if not found or not len(next(iter(found.values()))):
        raise ValueError(f"{path.name} holds no data.")
    mask = rows_with(path.name, found, only) if only else None
    if trial is not None:
        if trial not in found:
            raise ValueError(
                f"{path.name} has no column {trial!r}; it has: {_listed(list(found))}."
            )
        trials = np.array([str(cell) for cell in found[trial]])
        found = {name: column for name, column in found.items() if name != trial}
    if time_column is None:
        time_column, said = _time_column(path.name, found, trials)
        notices += said
    wanted = list(columns) if columns else _variables(found, time_column, only)
    if not columns:
        wanted, said = _without_text(path.name, wanted, found)
        notices += said
    for name in [*wanted, *([time_column] if time_column is not None else [])]:
        if name not in found:
            raise ValueError(f"{path.name} has no column {name!r}; it has: {_listed(list(found))}.")
    if not wanted:
        raise ValueError(f"{path.name} has no column beside the time column {time_column!r}.")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"--columns names a column of {path.name} twice: {_listed(wanted)}.")
    _check_numeric(path.name, wanted, found)
    values = np.stack([_numbers(found[name]) for name in wanted], axis=1)
    stamps = None if time_column is None else _stamps(path.name, time_column, found[time_column])
    if months:
        inside = rows_of_months(path.name, stamps, months)
        mask = inside if mask is None else mask & inside
    return Table(values, tuple(wanted), stamps, dt, notices, trials, mask)


def _variables(found: Columns, time_column: str | None, only) -> list[str]:
    """Columns that nothing else was said of."""
    said = {time_column, *(name for name, _ in only)}
    return [name for name in found if name not in said]


def _time_column(file: str, found: Columns, trials) -> tuple[str | None, tuple[str, ...]]:
    """The column of time stamps, and what to say if it is not where everybody looks for it."""
    if len(found) < 2:
        return None, ()
    first = next(iter(found))
    if _is_time(first, found[first]):
        return first, ()
    for name, column in found.items():
        words = set(re.split(r"[^a-z]+", name.strip().lower()))
        dated = not _is_numeric(column) and all(
            DATE.fullmatch(str(cell)[:19]) for cell in column[:1000]
        )
        if dated or (words & TIME_NAMES and _increases(column, trials)):
            return name, (f"{file}: column {name!r} is taken for the time.",)
    return None, ()


def _increases(column: Column, trials) -> bool:
    """Whether numbers rise all the way, within each recording."""
    if _text_row(column) is not None or len(column) < 3:
        return False
    rises = np.diff(_numbers(column)) > 0
    return bool((rises if trials is None else rises | (trials[1:] != trials[:-1])).all())


def _without_text(
    file: str, wanted: list[str], found: Columns
) -> tuple[list[str], tuple[str, ...]]:
    """Columns that hold numbers, and which are left out because they hold none at all."""
    text = [name for name in wanted if _is_text(found[name])]
    rest = [name for name in wanted if name not in text]
    if not text or not rest:
        return wanted, ()
    what = f"columns {_listed(text)} hold" if len(text) > 1 else f"column {text[0]!r} holds"
    return rest, (f"{file}: {what} text and {'are' if len(text) > 1 else 'is'} left out.",)


def _is_text(column: Column) -> bool:
    """Whether no cell is a number, although there are some."""
    if _is_numeric(column):
        return False
    cells = [cell for cell in column if not _is_missing(cell)]
    return bool(cells) and all(
        isinstance(cell, str) and to_float(cell) is None and not COMMA_NUMBER.fullmatch(cell)
        for cell in cells
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _check_numeric(file: str, wanted: list[str], found: Columns) -> None:
    """Refuse columns of text, and say which ones are left without them."""
    text = {name: row for name in wanted if (row := _text_row(found[name])) is not None}
    if not text:
        return
    name, row = next(iter(text.items()))
    cell = str(found[name][row])
    rest = [other for other in wanted if other not in text]
    remedy = f"Leave it out: --columns {','.join(rest[:20])}" + ",..." * (len(rest) > 20)
    if COMMA_NUMBER.fullmatch(cell):
        remedy = "If this is a decimal comma, say so with --decimal ,"
    elif not rest:
        remedy = "Numbers are written with a decimal point, or with a comma and --decimal ,"
    more = f" (and {len(text) - 1} more columns)" if len(text) > 1 else ""
    cell = cell if len(cell) <= 40 else cell[:36] + " ..."
    raise ValueError(
        f"{file}: column {name!r} is not numeric: {cell!r} in data row {row + 1}{more}. {remedy}."
    )


def _text_row(column: Column) -> int | None:
    """The first cell that is no number."""
    if _is_numeric(column):
        return None
    for row, cell in enumerate(column):
        spoilt = isinstance(cell, np.datetime64 | np.timedelta64 | complex)
        if spoilt or (not _is_missing(cell) and to_float(cell) is None):
            return row
    return None


def sampling(stamps: np.ndarray) -> tuple[float | None, str, np.ndarray]:
    """Sampling interval of time stamps: `(dt, unit, times)`; `dt` is None if they are irregular.

    Dates with a constant step give the largest unit that makes `dt` a whole number, in the order
    year, month, day, hour, minute, second; irregular dates are counted in days. Numbers keep their
    unit, which is unknown ("").

    Raises ValueError if the stamps do not increase strictly.
    """
    unit, times = "", stamps
    if np.issubdtype(stamps.dtype, np.datetime64):
        calendar = _calendar(stamps)
        if calendar is not None:
            return calendar
        seconds = (stamps - stamps[0]) / np.timedelta64(1, "s")
        steps = np.unique(np.diff(seconds))
        lengths = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
        whole = [name for name, length in lengths.items() if (steps % length == 0).all()]
        regular = len(steps) == 1
        unit = "day" if not regular else (whole[0] if whole else "second")
        times = seconds / lengths[unit]
    difference = np.diff(times)
    if len(times) < 2 or not (difference > 0).all():
        row = int(np.argmin(difference > 0)) + 2 if len(times) > 1 else 1
        raise ValueError(
            "Expected at least two time stamps, strictly increasing; data row "
            f"{row} breaks this. Sort the rows by time, or give dt instead."
        )
    typical = float(np.median(difference))
    # Stamps are often rounded to a few decimals.
    regular = np.allclose(difference, typical, rtol=1e-3, atol=0)
    return (typical if regular else None), unit, times


def _calendar(stamps: np.ndarray) -> tuple[float, str, np.ndarray] | None:
    """Months or years if the dates step by a constant number of months, else None."""
    # The second try shifts month ends to the first of the next month.
    for shift in (np.timedelta64(0, "D"), np.timedelta64(1, "D")):
        shifted = stamps.astype("datetime64[s]") + shift
        months = shifted.astype("datetime64[M]")
        within = shifted - months.astype("datetime64[s]")
        steps = np.unique(np.diff(months.astype(int)))
        if (within == within[0]).all() and len(steps) == 1 and steps[0] > 0:
            unit, length = ("year", 12) if steps[0] % 12 == 0 else ("month", 1)
            times = (months - months[0]).astype(float) / length
            return float(steps[0] // length), unit, times
    return None


def _is_time(name: str, column: Column) -> bool:
    if name.strip().lower() in TIME_NAMES or not name.strip():
        return True
    return not _is_numeric(column) and bool(DATE.fullmatch(str(column[0])[:19]))


def _is_numeric(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "fiub"


def _is_missing(cell: Any) -> bool:
    return cell is None or str(cell).strip().lower() in MISSING


def _numbers(column: Column) -> np.ndarray:
    """A column that has been found to be numeric."""
    if _is_numeric(column):
        return np.asarray(column, dtype=float)
    return np.array([np.nan if _is_missing(cell) else float(cell) for cell in column])


def _stamps(file: str, name: str, column: Column) -> np.ndarray:
    if isinstance(column, np.ndarray) and np.issubdtype(column.dtype, np.datetime64):
        return column
    packed = name.strip().lower() in {"date", "month", "day"}
    packed = packed and all(_PACKED_DATE.fullmatch(str(cell)) for cell in column)
    if packed:
        column = ["-".join(filter(None, (c[:4], c[4:6], c[6:]))) for c in map(str, column)]
    elif _is_numeric(column) or not DATE.fullmatch(str(column[0])[:19]):
        row = _text_row(column)
        if row is not None:
            raise ValueError(
                f"{file}: the time column {name!r} holds {str(column[row])[:40]!r} in data row "
                f"{row + 1}; expected numbers, or dates such as 2001-12-31."
            )
        stamps = _numbers(column)
        if np.isnan(stamps).any():
            raise ValueError(f"{file}: the time column {name!r} has missing values.")
        return stamps
    return np.array([_date(file, name, row, cell) for row, cell in enumerate(column)])


def _date(file: str, name: str, row: int, cell: Any) -> np.datetime64:
    """A date, with its time of day; in universal time if it says by how much it is off."""
    day, _, clock = str(cell).replace("/", "-").replace("T", " ").partition(" ")
    zone = _ZONE.search(clock)
    clock = clock[: zone.start()] if zone else clock
    parts = [part.zfill(2) for part in day.split("-")]
    try:
        stamp = np.datetime64("-".join(parts) + (f"T{clock.strip()}" if clock else ""))
    except ValueError:
        raise ValueError(
            f"{file}: the time column {name!r} holds {str(cell)!r} in data row {row + 1}; expected "
            "dates such as 2001-12, 2001-12-31 or 2001-12-31 18:00."
        ) from None
    if zone and zone[2]:
        minutes = 60 * int(zone[3]) + int(zone[4] or 0)
        stamp = stamp - np.timedelta64(minutes if zone[2] == "+" else -minutes, "m")
    return stamp
