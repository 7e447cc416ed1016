"""Measurements from files, one row per sample: which column is time, and which are variables."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._cells import COMMA_NUMBER, Numbers, as_numbers, clean_name, is_missing, is_value
from ._clock import PACKED, Dates, check_increasing, is_date, read_clock, read_dates, settled
from ._columns import is_clock
from ._formats import (
    TIME_NAMES,
    Found,
    Options,
    read_columns,
    read_excel,
    read_grid,
    read_npz,
)
from ._masks import rows_of_months, rows_with
from ._text import read_text

READERS: dict[str, Callable[[Path, Options], Found]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), read_text),
    ".npz": read_npz,
    ".xlsx": read_excel,
    **dict.fromkeys((".parquet", ".feather", ".jsonl", ".ndjson"), read_columns),
    **dict.fromkeys((".nc", ".zarr"), read_grid),
}
# How programs call the number of a row.
INDEX_NAMES = {"", "rownames", "row.names", "unnamed: 0", "index", "row", "rn", "obs"}
# Columns of numbers that may count seconds, or thousandths of them, from 1970 on.
EPOCHS = {"timestamp", "time", "datetime", "date", "epoch", "unix", "unixtime", "ts"}
# Parts of a date that may have columns of their own: how they are called, and what they can be.
PARTS = {
    "year": (("year", "yr", "yy", "yyyy", "#yy"), -9999, 9999),
    "quarter": (("quarter", "qtr"), 1, 4),
    "month": (("month", "mon", "mo", "mm"), 1, 12),
    "day": (("day", "dy", "dd", "dom"), 1, 31),
    "yearday": (("doy", "yday", "julian", "dayofyear", "day of year"), 1, 366),
    "hour": (("hour", "hr", "hh"), 0, 24),
    "minute": (("minute", "min", "mn"), 0, 59),
}


class Table(NamedTuple):
    """A table of measurements `[time dim]` with names, and time stamps where the file has them."""

    values: np.ndarray
    names: tuple[str, ...]
    stamps: np.ndarray | None  # numbers, datetime64 or timedelta64, [time]
    dt: float | None = None  # as the file states it
    notices: tuple[str, ...] = ()  # what had to be assumed to read it
    trials: np.ndarray | None = None  # the recording each row belongs to, where there are several
    mask: np.ndarray | None = None  # rows that may be the present of a window, if not all

    @property
    def recordings(self) -> tuple[np.ndarray, ...]:
        """The rows of each recording."""
        return rows_of(self.trials, len(self.values))


def rows_of(trials: np.ndarray | None, count: int) -> tuple[np.ndarray, ...]:
    """Return the rows of each recording, in order of its first row."""
    if trials is None:
        return (np.arange(count),)
    _, first, which = np.unique(trials, return_index=True, return_inverse=True)
    return tuple(np.flatnonzero(which == k) for k in np.argsort(first))


class Time(NamedTuple):
    """The column or columns of time, their stamps, and the assumptions made."""

    columns: tuple[str, ...] = ()
    stamps: np.ndarray | None = None
    said: tuple[str, ...] = ()


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    time_column: str | None = None,
    key: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    missing: Sequence[str] = (),
    day_first: bool | None = None,
    time_zone: str | None = None,
    trial: str | None = None,
    variables: Sequence[str] = (),
    only: Sequence[tuple[str, tuple[str, ...]]] = (),
    months: Sequence[int] = (),
    kept: Sequence[str] = (),
) -> Table:
    """Read measurements from a file, one row per sample.

    - Text (.csv, .tsv, .txt, .dat): `separator`, `decimal` mark and `header` are found by trying
      which reading leaves numbers. Lines above the table that begin with # are skipped, and so are
      a title and a row of units.
    - NPZ: the array `key` (default `x`, or the only array), `[time dim]` or `[series time dim]`;
      `names` and `dt` are used if the file has them.
    - Excel: the first sheet, or the one called `key`.
    - Parquet, Feather, JSON lines: the columns.
    - NetCDF and Zarr: all variables along one dimension, or the variable `key`. `trial` names the
      dimension that tells recordings apart, `variables` those whose cells are variables.

    `time_column` names the column of time stamps. By default it is the first column if that holds
    dates, or is called time, date, year or like these, or is an index; year, month and day in
    columns of their own, or a date beside a time of day; or else the first that holds dates or,
    increasing, has such a word in its name (time_yr). `day_first` decides what 03/04/2001 means,
    `time_zone` names the zone of a clock that daylight saving shifts.

    `columns` picks variables and their order. Without it columns are left out, with a notice, that
    hold text, nothing, one number throughout, or a straight line, which counts rows; those `kept`
    are left in. `missing` are
    texts that mean a missing value. `trial` names a column that tells recordings apart; without it
    one is found if stamps repeat and rise within each of its values. `only`, columns with some of
    their values, and `months` (1 to 12, of dates) say which rows may be the present of a window;
    such a column is a variable only if `columns` names it.

    **Raises:** `ValueError` if the file cannot be read as a table, a column is missing or not
    numeric; `ImportError` if the extra is missing; `OSError` if the file cannot be opened.
    """
    path = Path(path)
    _check_options(path, separator, decimal)
    reader = READERS[path.suffix.lower()]
    options = Options(key, separator, decimal, header, trial, variables, bool(columns))
    found = reader(path, options)
    frame, trials, said = found.frame, found.trials, found.said
    if not len(frame) or not frame.shape[1]:
        raise ValueError(f"{path.name} holds no data.")
    columns = None if columns is None else [clean_name(name) for name in columns]
    mask = rows_with(path.name, frame, only) if only else None
    if trial is not None and trials is None:
        _check_there(path.name, frame, [trial])
        trials = np.array([str(cell) for cell in frame[trial]])
        frame = frame.drop(columns=trial)

    def number(name: str) -> Numbers:
        return as_numbers(frame[name], decimal=found.decimal, marks=missing)

    if time_column is not None:
        _check_there(path.name, frame, [time_column])
    read = _Reader(path.name, frame, trials, number, day_first, time_zone)
    time = read.time(time_column)
    said += time.said
    if trials is None and time.stamps is not None and (panel := _panel(frame, time)):
        trials = _groups(frame, panel)
        frame = frame.drop(columns=list(panel))
        listed = (
            f"column {panel[0]!r} tells" if len(panel) == 1 else f"columns {_listed(panel)} tell"
        )
        said += (f"{path.name}: {listed} recordings apart, whose clocks repeat.",)
    wanted = columns or [
        name for name in frame if name not in (*time.columns, *(name for name, _ in only))
    ]
    _check_there(path.name, frame, wanted)
    if not wanted:
        raise ValueError(f"{path.name} has no column beside the time column {time.columns[0]!r}.")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"--columns names a column of {path.name} twice: {_listed(wanted)}.")
    numbers = {name: number(name) for name in wanted}
    stamps = time.stamps
    rows = rows_of(trials, len(frame))
    if not columns:
        free = {name: each for name, each in numbers.items() if name not in kept}
        left, more = _variables(path.name, free, frame, stamps, rows)
        numbers = {n: each for n, each in numbers.items() if n in left or n in kept}
        said += more
    _check_numeric(path.name, numbers, frame)
    said += _assumed(path.name, numbers)
    values = np.stack([each.values for each in numbers.values()], axis=1)
    if months:
        inside = rows_of_months(path.name, stamps, months)
        mask = inside if mask is None else mask & inside
    if stamps is not None and trials is None and len(stamps) > 1 and _falls(stamps):
        values, stamps = values[::-1], stamps[::-1]
        mask = None if mask is None else mask[::-1]
        said += (f"{path.name}: its rows begin with the last; they are turned round.",)
    return Table(values, tuple(numbers), stamps, found.dt, said, trials, mask)


def _check_options(path: Path, separator: str | None, decimal: str | None) -> None:
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}")
    if path.is_dir() and path.suffix != ".zarr":
        raise IsADirectoryError(f"{path} is a directory; expected a file of measurements.")
    if path.suffix.lower() not in READERS:
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


def _check_there(file: str, frame: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame:
            raise ValueError(f"{file} has no column {name!r}; it has: {_listed(list(frame))}.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


# ---- variables ----


def _variables(file: str, numbers: dict[str, Numbers], frame, stamps, rows):
    """Return the columns that can be variables, and remarks on the others; raise if there are
    none.
    """
    times = None
    if stamps is not None:
        times = stamps.astype(float) if stamps.dtype.kind in "fiu" else (
            (stamps - stamps[0]) / np.timedelta64(1, "s")
        )  # fmt: skip

    def counts(x: np.ndarray) -> bool:
        return all(is_clock(x[r], None if times is None else times[r]) for r in rows)

    tests = (
        ("hold{s} text", lambda name, each: each.empty and not _no_cells(frame[name])),
        ("{are} empty", lambda _, each: each.empty),
        (
            "hold{s} one number throughout",
            lambda name, each: (
                len(each.values) > 9 and each.wrong is None and _constant(each.values)
            ),
        ),
        ("count{s} rows or time", lambda _, each: each.wrong is None and counts(each.values)),
    )
    said: tuple[str, ...] = ()
    for what, test in tests:
        gone = [name for name, each in numbers.items() if test(name, each)]
        if not gone or len(gone) == len(numbers):
            continue
        numbers = {name: each for name, each in numbers.items() if name not in gone}
        one = len(gone) == 1
        listed = f"column {gone[0]!r}" if one else f"columns {_listed(gone)}"
        verb = "is" if one else "are"
        what = what.format(s="s" if one else "", are=verb)
        said += (f"{file}: {listed} {what} and {verb} left out.",)
    return numbers, said


def _no_cells(column: Any) -> bool:
    return bool(column.map(is_missing).all())


def _constant(values: np.ndarray) -> bool:
    known = values[np.isfinite(values)]
    return len(known) > 9 and bool((known == known[0]).all())


def _check_numeric(file: str, numbers: dict[str, Numbers], frame: Any) -> None:
    """Raise an error for columns of text: name the cell, the usable columns, and the remedies."""
    text = {name: each.wrong for name, each in numbers.items() if each.wrong is not None}
    if not text:
        return
    name, row = next(iter(text.items()))
    cell = str(frame[name].iloc[row]).strip()
    rest = [other for other in numbers if other not in text]
    short = cell if len(cell) <= 40 else cell[:36] + " ..."
    if COMMA_NUMBER.fullmatch(cell):
        remedy = "If this is a decimal comma, say so with --decimal ,"
    elif rest:
        remedy = f"Leave it out: --columns {','.join(rest[:20])}" + ",..." * (len(rest) > 20)
    else:
        remedy = "Numbers are written with a decimal point, or with a comma and --decimal ,"
    if numbers[name].empty is False and len(cell) <= 20:
        prefix = f"{cell[0]}*" if cell[:1] in "<>" else cell
        remedy += f"; or read it as a missing value: --missing '{prefix}'"
    more = f" (and {len(text) - 1} more columns)" if len(text) > 1 else ""
    raise ValueError(
        f"{file}: column {name!r} is not numeric: {short!r} in data row {row + 1}{more}. {remedy}."
    )


def _assumed(file: str, numbers: dict[str, Numbers]) -> tuple[str, ...]:
    """Return the assumptions made about columns, those with the same one named together."""
    by_text: dict[str, list[str]] = {}
    for name, each in numbers.items():
        if each.said:
            by_text.setdefault(each.said, []).append(name)
    return tuple(f"{file}: {said} ({_listed(names)})." for said, names in by_text.items())


# ---- time ----


class _Reader(NamedTuple):
    """A reader that looks through the columns of a file for its time."""

    file: str
    frame: Any
    trials: np.ndarray | None
    number: Callable[[str], Numbers]
    day_first: bool | None
    zone: str | None

    def time(self, given: str | None) -> Time:
        """Return the time column that was named, or the most likely one."""
        if given is not None:
            return self._of((given,), ())
        if self.frame.shape[1] < 2:
            return Time()
        if (parts := self._parts()) is not None:
            return parts
        names = list(self.frame)
        index = names[0].strip().lower() in INDEX_NAMES
        for name in names[index:2] if index else names[:1]:
            if name.strip().lower() in TIME_NAMES or self._dated(name):
                return self._of((name, *names[:index]), ())
        for name in names:
            words = set(re.split(r"[^a-z]+", name.strip().lower()))
            if self._dated(name) or (words & TIME_NAMES and self._rises(name)):
                said = (f"{self.file}: column {name!r} is taken for the time.",)
                return self._of((name, *names[:index]), said)
        if index and self._rises(names[0]):
            return self._of((names[0],), ())
        return Time()

    def _of(self, columns: tuple[str, ...], said: tuple[str, ...]) -> Time:
        """Return the stamps of the first of some columns; the others say less of time."""
        name = columns[0]
        stamps, more = self._stamps(name)
        clock = next((n for n in self.frame if n not in columns and self._clock(n)), None)
        if clock is not None and stamps.dtype.kind == "M" and self._dated(name):
            seconds = read_clock([str(cell) for cell in self.frame[clock]])
            if seconds is not None:
                within = (seconds % 86400 * 1e6).astype("timedelta64[us]")
                dates, note = self._settled(Dates(stamps.astype("datetime64[us]") + within))
                stamps, columns = dates, (*columns, clock)
                more += note
        return Time(columns, stamps, (*said, *more))

    def _clock(self, name: str) -> bool:
        return ":" in str(self.frame[name].iloc[0]) and not self._dated(name)

    def _parts(self) -> Time | None:
        """Return time from columns of year, month, day and hour; without a year, years are counted
        on.
        """
        found = {}
        for part, (words, low, high) in PARTS.items():
            for name in (n for n in self.frame if n.strip().lower() in words):
                x = self.number(name).values
                if part not in found and ((x == np.round(x)) & (low <= x) & (x <= high)).all():
                    found[part] = (name, x.astype(int))
        for part, above in (("hour", ("day", "yearday")), ("minute", ("hour",))):
            if not any(other in found for other in above):
                found.pop(part, None)
        pairs = [("year", "month"), ("year", "quarter"), ("year", "yearday"), ("month", "day")]
        if not any(set(pair) <= set(found) for pair in pairs):
            return None
        values = {part: x for part, (_, x) in found.items()}
        months = values.get("month", 3 * values.get("quarter", np.ones(len(self.frame), int)) - 2)
        years = values.get("year", 2001 + np.cumsum(np.diff(months, prepend=months[0]) < 0))
        years = np.where((years >= 0) & (years < 100), years + 1900, years)
        start = (years - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (months - 1)
        days = values.get("yearday", values.get("day", 1)) - 1
        hours, minutes = values.get("hour", 0), values.get("minute", 0)
        stamps = start.astype("datetime64[m]") + (1440 * days + 60 * hours + minutes)
        stamps, said = self._settled(Dates(stamps.astype("datetime64[us]")))
        names = tuple(name for name, _ in found.values())
        listed = ", ".join(names)
        first = next(iter(self.frame))
        index = (first,) if first.strip().lower() in INDEX_NAMES else ()
        said = (f"{self.file}: columns {listed} are taken for the time.", *said)
        time = Time((*names, *index), stamps, said)
        rises = all((np.diff(stamps[r]) > np.timedelta64(0)).all() for r in self._rows())
        return time if rises or _panel(self.frame, time) or _falls(stamps) else None

    def _rows(self) -> tuple[np.ndarray, ...]:
        return rows_of(self.trials, len(self.frame))

    def _dated(self, name: str) -> bool:
        column = self.frame[name]
        if getattr(column.dtype, "kind", "O") in "mM":
            return True
        if getattr(column.dtype, "kind", "O") in "fiub":
            return False
        cells = column.iloc[:1000]
        return bool(len(cells)) and all(
            is_date(cell) or hasattr(cell, "calendar") or hasattr(cell, "isoformat")
            for cell in cells
        )

    def _rises(self, name: str) -> bool:
        """Return whether numbers increase throughout each recording."""
        read = self.number(name)
        if read.wrong is not None or len(read.values) < 2:
            return False
        rises = all((np.diff(read.values[r]) > 0).all() for r in self._rows())
        return rises or _panel(self.frame, Time((name,), read.values)) is not None

    def _stamps(self, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        column, where = self.frame[name], f"{self.file}: the time column {name!r}"
        kind = getattr(column.dtype, "kind", "O")
        if column.isna().any():
            raise ValueError(f"{where} has missing values.")
        if kind == "M":
            return self._settled(dates_of(column))
        if kind == "m":
            return column.to_numpy(), ()
        if hasattr(column.iloc[0], "calendar"):
            return from_calendar(column.to_numpy()), ()
        cells = [str(cell).strip() for cell in column]
        word = name.strip().lower()
        if word in TIME_NAMES - {"t", "time", "times"} and all(map(PACKED.fullmatch, cells)):
            return self._settled(read_dates(cells, where))
        if kind not in "fiub" and is_date(cells[0]):
            return self._settled(read_dates(cells, where, day_first=self.day_first))
        if kind not in "fiub" and (seconds := read_clock(cells)) is not None:
            return np.round(seconds * 1e6).astype("timedelta64[us]"), ()
        read = self.number(name)
        if read.wrong is not None:
            raise ValueError(
                f"{where} holds {cells[read.wrong][:40]!r} in data row {read.wrong + 1}; expected "
                "numbers, or dates such as 2001-12-31."
            )
        if np.isnan(read.values).any():
            raise ValueError(f"{where} has missing values.")
        whole = (read.values == np.round(read.values)).all()
        if word in EPOCHS and (scale := _since_1970(read.values)):
            stamps = np.round(read.values * (1e6 / scale)).astype("datetime64[us]")
            return stamps, (f"{self.file}: column {name!r} counts from 1970; --dt says otherwise.",)
        if word in PARTS["year"][0] and whole and (np.abs(read.values) < 10_000).all():
            years = (read.values.astype(int) - 1970).astype("datetime64[Y]")
            return years.astype("datetime64[s]"), ()
        return read.values.astype(int) if whole and np.abs(
            read.values
        ).max() < 2**53 else read.values, ()

    def _settled(self, dates: Dates) -> tuple[np.ndarray, tuple[str, ...]]:
        found = settled(dates, self.zone, self._rows())
        said = dict.fromkeys(text for text in (dates.said, found.said) if text)
        return found.stamps, tuple(f"{self.file}: {text}" for text in said)


def dates_of(column: Any) -> Dates:
    """Return a column or index of pandas dates, with local clock time where it has a zone."""
    zone = getattr(column, "dt", column)
    if zone.tz is None:
        return Dates(column.to_numpy())
    return Dates(
        zone.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        if hasattr(column, "dt") else zone.tz_convert("UTC").tz_localize(None).to_numpy(),
        zone.tz_localize(None).to_numpy(),
    )  # fmt: skip


def from_calendar(stamps: np.ndarray) -> np.ndarray:
    """Return dates of another calendar (360 days, no leap years): as months if they are monthly,
    else as durations since the first.
    """
    months = np.array([12 * stamp.year + stamp.month for stamp in stamps])
    within = np.array([24 * stamp.day + stamp.hour for stamp in stamps])
    if len(stamps) > 1 and np.ptp(within) <= 72 and (np.diff(months) >= 1).all():
        return (months - 12 * 1970 - 1).astype("datetime64[M]").astype("datetime64[s]")
    seconds = np.array([(stamp - stamps[0]).total_seconds() for stamp in stamps])
    return np.round(seconds * 1e6).astype("timedelta64[us]")


def _since_1970(values: np.ndarray) -> float | None:
    """Return the units per second of numbers that count from 1970 and give plausible dates; else
    None.
    """
    scales = (1.0, 1e3, 1e6, 1e9)
    return next((s for s in scales if ((values > 5e8 * s) & (values < 4e9 * s)).all()), None)


def _falls(stamps: np.ndarray) -> bool:
    return bool((np.diff(stamps) < np.zeros((), np.diff(stamps[:2]).dtype)).all())


def _groups(frame: Any, names: Sequence[str]) -> np.ndarray:
    """Return a group label for each row from the values of some columns together."""
    return np.array([" ".join(map(str, row)) for row in frame[list(names)].to_numpy(object)])


def _panel(frame: Any, time: Time) -> tuple[str, ...] | None:
    """Return the column, or the text columns together, that tell recordings apart: stamps repeat,
    and increase within each of their values.
    """
    stamps = time.stamps
    if stamps is None or len(stamps) < 3 or _falls(stamps):
        return None
    try:
        check_increasing(stamps)
        return None
    except ValueError:
        pass
    kinds = {n: getattr(frame[n].dtype, "kind", "O") for n in frame if n not in time.columns}
    parts = {word for words, *_ in PARTS.values() for word in words}
    alone = [n for n, kind in kinds.items() if kind != "f" and n.strip().lower() not in parts]
    words = [n for n in alone if kinds[n] == "O" and not all(map(is_value, map(str, frame[n])))]
    zero = np.zeros((), np.diff(stamps[:2]).dtype)
    found = []
    for names in [*((n,) for n in alone), *([tuple(words)] if len(words) > 1 else [])]:
        groups = _groups(frame, names)
        count = len(np.unique(groups))
        rows = rows_of(groups, len(groups)) if 2 <= count <= len(groups) / 3 else ()
        if rows and all((np.diff(stamps[r]) > zero).all() for r in rows):
            found.append((count, names))
    return min(found, default=(0, None))[1]
