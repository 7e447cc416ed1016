"""Measurements from files, one row per sample: which column is time, and which are variables."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._checks import shown
from .._spoken import listed
from ._cells import (
    COMMA_NUMBER,
    MISSING,
    NAMES,
    Numbers,
    as_numbers,
    check_there,
    clean_name,
    is_missing,
    is_value,
    text_of,
    to_float,
)
from ._clock import (
    PACKED,
    Dates,
    is_date,
    is_rising,
    read_clock,
    read_dates,
    settled,
    typed_stamps,
)
from ._columns import is_clock
from ._formats import READERS, TIME_NAMES, Options

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
# Parts that mean something beside one of these only.
WITHIN = {"hour": {"day", "yearday"}, "minute": {"hour"}}


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
    parts = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    return tuple(parts[k] for k in np.argsort(first))


class Time(NamedTuple):
    """The column or columns of time, their stamps, and the assumptions made."""

    columns: tuple[str, ...] = ()
    stamps: np.ndarray | None = None
    said: tuple[str, ...] = ()


def read_table(path: str | Path, **choices: Any) -> Table:
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

    The choices are the fields of `Options`.

    **Raises:** `ValueError` if the file cannot be read as a table, a column is missing or not
    numeric; `ImportError` if the extra is missing; `OSError` if the file cannot be opened.
    """
    path, options = Path(path), Options(**choices)
    _check_options(path, options)
    found = READERS[path.suffix.lower()](path, options)
    file, frame, trials = path.name, found.frame, found.trials
    if not frame.size:
        raise ValueError(f"{file} holds no data.")
    columns = [clean_name(name) for name in options.columns or ()]
    mask = rows_with(file, frame, options.only) if options.only else None
    if options.trial is not None and trials is None:
        check_there(file, [options.trial], frame)
        trials = np.array([str(cell) for cell in frame.pop(options.trial)])
    read = _Clocks(file, frame, trials, options._replace(decimal=found.decimal))
    time = read.time()
    stamps, said = time.stamps, (*found.said, *time.said)
    if trials is None and stamps is not None and (panel := _panel(frame, time)):
        trials = _groups(frame, panel)
        frame = frame.drop(columns=list(panel))
        tell = f"column {panel[0]!r} tells" if len(panel) == 1 else f"columns {listed(panel)} tell"
        said += (f"{tell} recordings apart, whose clocks repeat.",)
    others = {*time.columns, *(name for name, _ in options.only)}
    wanted = columns or [name for name in frame if name not in others]
    check_there(file, wanted, frame)
    if not wanted:
        raise ValueError(f"{file} has no column beside the time column {time.columns[0]!r}.")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"--columns names a column of {file} twice: {listed(wanted, NAMES)}.")
    numbers = {name: read.number(name) for name in wanted}
    if not columns:
        free = {name: each for name, each in numbers.items() if name not in options.kept}
        left, more = _variables(free, frame, stamps, rows_of(trials, len(frame)))
        numbers = {name: numbers[name] for name in wanted if name in left or name in options.kept}
        said += more
    _check_numeric(file, numbers, frame)
    for text in dict.fromkeys(each.said for each in numbers.values() if each.said):
        names = [name for name, each in numbers.items() if each.said == text]
        said += (f"{text} ({listed(names, NAMES)}).",)
    values = np.stack([each.values for each in numbers.values()], axis=1)
    if options.months:
        inside = rows_of_months(file, stamps, options.months)
        mask = inside if mask is None else mask & inside
    if stamps is not None and trials is None and len(stamps) > 1 and _falls(stamps):
        values, stamps = values[::-1], stamps[::-1]
        mask = None if mask is None else mask[::-1]
        said += ("its rows begin with the last; they are turned round.",)
    notices = tuple(f"{file}: {text}" for text in said)
    return Table(values, tuple(numbers), stamps, found.dt, notices, trials, mask)


def _check_options(path: Path, options: Options) -> None:
    separator, decimal = options.separator, options.decimal
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


# ---- rows ----


def rows_with(file: str, frame: Any, only: Sequence[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """Return the rows of a frame in which each given column has one of its values, bool `[row]`.

    Cells are compared as numbers where both are numbers, else as they are written.

    **Raises:** `ValueError` for a column that is not there, and a value that no row has.
    """
    inside = np.ones(len(frame), bool)
    for name, values in only:
        check_there(f"--only: {file}", [name], frame)
        cells = [_comparable(cell) for cell in frame[name]]
        wanted = [_comparable(value) for value in values]
        if absent := [v for v, cell in zip(values, wanted, strict=True) if cell not in set(cells)]:
            some = ", ".join(dict.fromkeys(str(cell).strip() for cell in frame[name][:2000]))
            raise ValueError(
                f"--only: no row of {file} has {absent[0]!r} in column {name!r}; it holds: "
                f"{some if len(some) < 80 else some[:76] + ' ...'}."
            )
        inside &= np.array([cell in wanted for cell in cells])
    return inside


def rows_of_months(file: str, stamps: np.ndarray | None, months: Sequence[int]) -> np.ndarray:
    """Return the rows whose date is in one of these months, 1 to 12, bool `[row]`.

    **Raises:** `ValueError` if the time column holds no dates.
    """
    if stamps is None or stamps.dtype.kind != "M":
        raise ValueError(
            f"--months needs a time column with dates; that of {file} "
            + ("is missing." if stamps is None else f"begins with {shown(stamps[0])}.")
            + " Name a column of months with --only month=12,1,2."
        )
    return np.isin(stamps.astype("datetime64[M]").astype(int) % 12 + 1, list(months))


def _comparable(cell: Any) -> Any:
    text = text_of(cell)
    number = to_float(text)
    return "" if text.lower() in MISSING else text if number is None else number


# ---- variables ----


def _variables(numbers: dict[str, Numbers], frame, stamps, rows):
    """Return the columns that can be variables, and remarks on the others; raise if there are
    none.
    """
    if stamps is not None and stamps.dtype.kind not in "fiu":
        stamps = (stamps - stamps[0]) / np.timedelta64(1, "s")
    times = [None if stamps is None else stamps[r].astype(float) for r in rows]

    def no_cells(name: str) -> bool:
        return bool(frame[name].map(is_missing).all())

    def constant(x: np.ndarray) -> bool:
        known = x[np.isfinite(x)]
        return len(known) > 9 and bool((known == known[0]).all())

    def counts(x: np.ndarray) -> bool:
        return all(is_clock(x[r], t) for r, t in zip(rows, times, strict=True))

    tests = {
        "hold{s} text": lambda name, each: each.empty and not no_cells(name),
        "{are} empty": lambda _, each: each.empty,
        "hold{s} one number throughout": lambda _, each: constant(each.values),
        "count{s} rows or time": lambda _, each: counts(each.values),
    }
    said: tuple[str, ...] = ()
    for what, test in tests.items():
        gone = [
            name for name, each in numbers.items()
            if (each.empty or each.wrong is None) and test(name, each)
        ]  # fmt: skip
        if not gone or len(gone) == len(numbers):
            continue
        numbers = {name: each for name, each in numbers.items() if name not in gone}
        one = len(gone) == 1
        columns, are = (
            (f"column {gone[0]!r}", "is") if one else (f"columns {listed(gone, NAMES)}", "are")
        )
        what = what.format(s="s" if one else "", are=are)
        said += (f"{columns} {what} and {are} left out.",)
    return numbers, said


def _check_numeric(file: str, numbers: dict[str, Numbers], frame: Any) -> None:
    """Raise an error for columns of text: name the cell, the usable columns, and the remedies."""
    text = {name: each.wrong for name, each in numbers.items() if each.wrong is not None}
    if not text:
        return
    name, row = next(iter(text.items()))
    cell = str(frame[name].iloc[row]).strip()
    rest = [other for other in numbers if other not in text]
    if COMMA_NUMBER.fullmatch(cell):
        remedy = "If this is a decimal comma, say so with --decimal ,"
    elif rest:
        remedy = f"Leave it out: --columns {','.join(rest[:20])}" + ",..." * (len(rest) > 20)
    else:
        remedy = "Numbers are written with a decimal point, or with a comma and --decimal ,"
    if not numbers[name].empty and len(cell) <= 20:
        prefix = f"{cell[0]}*" if cell[:1] in "<>" else cell
        remedy += f"; or read it as a missing value: --missing '{prefix}'"
    more = f" (and {len(text) - 1} more columns)" if len(text) > 1 else ""
    short = cell if len(cell) <= 40 else cell[:36] + " ..."
    raise ValueError(
        f"{file}: column {name!r} is not numeric: {short!r} in data row {row + 1}{more}. {remedy}."
    )


# ---- time ----


class _Clocks(NamedTuple):
    """The columns of a file, which are looked through for its time."""

    file: str
    frame: Any
    trials: np.ndarray | None
    options: Options

    def number(self, name: str) -> Numbers:
        """Return a column as numbers."""
        return as_numbers(
            self.frame[name], decimal=self.options.decimal, marks=self.options.missing
        )

    def time(self) -> Time:
        """Return the time column that was named, or the most likely one."""
        names, given = list(self.frame), self.options.time_column
        if given is not None:
            check_there(self.file, [given], names)
            return self._of((given,))
        if len(names) < 2:
            return Time()
        if (parts := self._parts()) is not None:
            return parts
        index = [name for name in names[:1] if name.lower() in INDEX_NAMES]
        first = names[len(index)]
        if first.lower() in TIME_NAMES or self._dated(first):
            return self._of((first, *index))
        for name in names:
            words = set(re.split(r"[^a-z]+", name.lower()))
            if self._dated(name) or (words & TIME_NAMES and self._rises(name)):
                said = f"column {name!r} is taken for the time."
                return self._of((name, *index), said)
        return self._of((names[0],)) if index and self._rises(names[0]) else Time()

    def _of(self, columns: tuple[str, ...], *said: str) -> Time:
        """Return the stamps of the first of some columns; the others say less of time."""
        stamps, more = self._stamps(columns[0])
        texts = (n for n in self.frame if n not in columns and not self._dated(n))
        clock = next((n for n in texts if ":" in str(self.frame[n].iloc[0])), None)
        if clock is not None and stamps.dtype.kind == "M" and self._dated(columns[0]):
            seconds = read_clock([str(cell) for cell in self.frame[clock]])
            if seconds is not None:
                within = (seconds % 86400 * 1e6).astype("timedelta64[us]")
                stamps, note = self._settled(Dates(stamps.astype("datetime64[us]") + within))
                columns, more = (*columns, clock), (*more, *note)
        return Time(columns, stamps, (*said, *more))

    def _parts(self) -> Time | None:
        """Return time from columns of year, month, day and hour; without a year, years are counted
        on.
        """
        found: dict[str, str] = {}
        values: dict[str, np.ndarray] = {}
        for part, (words, low, high) in PARTS.items():
            if part in WITHIN and not WITHIN[part] & set(found):
                continue
            for name in (n for n in self.frame if n.lower() in words and part not in found):
                x = self.number(name).values
                if ((x == np.round(x)) & (low <= x) & (x <= high)).all():
                    found[part], values[part] = name, x.astype(int)
        pairs = ({"year", "month"}, {"year", "quarter"}, {"year", "yearday"}, {"month", "day"})
        if not any(pair <= set(found) for pair in pairs):
            return None
        part = values.get
        months = part("month", 3 * part("quarter", np.ones(len(self.frame), int)) - 2)
        years = part("year", 2001 + np.cumsum(np.diff(months, prepend=months[0]) < 0))
        years = np.where((years >= 0) & (years < 100), years + 1900, years)
        start = (years - 1970).astype("datetime64[Y]").astype("datetime64[M]")
        start = start + np.asarray(months - 1).astype("timedelta64[M]")
        days = part("yearday", part("day", 1)) - 1
        minutes = 1440 * days + 60 * part("hour", 0) + part("minute", 0)
        stamps = start.astype("datetime64[m]") + np.asarray(minutes).astype("timedelta64[m]")
        stamps = stamps.astype("datetime64[us]")
        stamps, said = self._settled(Dates(stamps))
        said = (f"columns {', '.join(found.values())} are taken for the time.", *said)
        index = [name for name in list(self.frame)[:1] if name.lower() in INDEX_NAMES]
        time = Time((*found.values(), *index), stamps, said)
        rises = all(is_rising(stamps[r]).all() for r in self._rows())
        return time if rises or _panel(self.frame, time) or _falls(stamps) else None

    def _rows(self) -> tuple[np.ndarray, ...]:
        return rows_of(self.trials, len(self.frame))

    def _dated(self, name: str) -> bool:
        column = self.frame[name]
        if column.dtype.kind in "mMfiub":
            return column.dtype.kind in "mM"
        return len(column) > 0 and all(
            is_date(cell) or hasattr(cell, "calendar") or hasattr(cell, "isoformat")
            for cell in column.iloc[:1000]
        )

    def _rises(self, name: str) -> bool:
        """Return whether numbers increase throughout each recording."""
        read = self.number(name)
        if read.wrong is not None or len(read.values) < 2:
            return False
        rises = all(is_rising(read.values[r]).all() for r in self._rows())
        return rises or _panel(self.frame, Time((name,), read.values)) is not None

    def _stamps(self, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        column, where = self.frame[name], f"{self.file}: the time column {name!r}"
        if column.isna().any():
            raise ValueError(f"{where} has missing values.")
        typed = typed_stamps(column)
        if typed is not None:
            return self._settled(typed)
        cells, word = [str(cell).strip() for cell in column], name.lower()
        if word in TIME_NAMES - {"t", "time", "times"} and all(map(PACKED.fullmatch, cells)):
            return self._settled(read_dates(cells, where))
        if column.dtype.kind not in "fiub" and is_date(cells[0]):
            return self._settled(read_dates(cells, where, day_first=self.options.day_first))
        if column.dtype.kind not in "fiub" and (seconds := read_clock(cells)) is not None:
            return np.round(seconds * 1e6).astype("timedelta64[us]"), ()
        values, wrong, *_ = self.number(name)
        if wrong is not None:
            raise ValueError(
                f"{where} holds {cells[wrong][:40]!r} in data row {wrong + 1}; expected "
                "numbers, or dates such as 2001-12-31."
            )
        if np.isnan(values).any():
            raise ValueError(f"{where} has missing values.")
        # Units per second of numbers that count from 1970 and give plausible dates.
        scales = (
            s for s in (1.0, 1e3, 1e6, 1e9) if ((values > 5e8 * s) & (values < 4e9 * s)).all()
        )
        if word in EPOCHS and (scale := next(scales, None)):
            stamps = np.round(values * (1e6 / scale)).astype("datetime64[us]")
            return stamps, (f"column {name!r} counts from 1970; --dt says otherwise.",)
        whole, most = (values == np.round(values)).all(), np.abs(values).max()
        if word in PARTS["year"][0] and whole and most < 10_000:
            years = (values.astype(int) - 1970).astype("datetime64[Y]")
            return years.astype("datetime64[s]"), ()
        return values.astype(int) if whole and most < 2**53 else values, ()

    def _settled(self, dates: Dates) -> tuple[np.ndarray, tuple[str, ...]]:
        found = settled(dates, self.options.time_zone, self._rows())
        return found.stamps, tuple(dict.fromkeys(filter(None, (dates.said, found.said))))


def _falls(stamps: np.ndarray) -> bool:
    return bool(is_rising(stamps[::-1]).all())


def _groups(frame: Any, names: Sequence[str]) -> np.ndarray:
    """Return a group label for each row from the values of some columns together."""
    return np.array([" ".join(map(str, row)) for row in frame[list(names)].to_numpy(object)])


def _panel(frame: Any, time: Time) -> tuple[str, ...] | None:
    """Return the column, or the text columns together, that tell recordings apart: stamps repeat,
    and increase within each of their values.
    """
    stamps = time.stamps
    if stamps is None or len(stamps) < 3 or _falls(stamps) or is_rising(stamps).all():
        return None
    parts = {word for words, *_ in PARTS.values() for word in words}
    kinds = {name: frame[name].dtype.kind for name in frame if name not in time.columns}
    alone = [name for name, kind in kinds.items() if kind != "f" and name.lower() not in parts]
    words = [n for n in alone if kinds[n] == "O" and not all(map(is_value, map(str, frame[n])))]
    found = []
    for names in [*((name,) for name in alone), *([tuple(words)] if len(words) > 1 else [])]:
        groups = _groups(frame, names)
        rows = rows_of(groups, len(groups))
        if 2 <= len(rows) <= len(groups) / 3 and all(is_rising(stamps[r]).all() for r in rows):
            found.append((len(rows), names))
    return min(found, default=(0, None))[1]
