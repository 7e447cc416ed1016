"""Measurements from files, one row per sample: the time columns and the variables."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._checks import short_repr
from .._wording import listed, unit_in
from . import _cells, _dates
from ._cells import Numbers, check_there, clean_name, is_missing, is_value, listed_names
from ._clock import is_rising, rank
from ._columns import FEWEST, is_clock, starts_again
from ._dates import is_date, is_packed, span, words_of
from ._formats import TEXT, TIME_NAMES, Found, Options, read_columns, read_grid, read_npy, read_npz
from ._text import read_excel, read_text

# Columns that name the variable of each row, in tables with a row for each value.
KINDS = set(
    "variable variables parameter param tag tagname sensor channel measure metric quantity element "
    "indicator item signal field species taxon".split()
)
VALUES = set("value values val wert valeur valor reading result count abundance biomass".split())
# Why columns are not variables, for one and for several.
DATES, TEXTS, EMPTY = "hold{s} dates", "hold{s} text", "{are} empty"
CONSTANT, COUNTS = "hold{s} one number throughout", "count{s} rows or time"
# Maximum number of cells of the reshaped table per value.
SPARSE = 50
# Columns that count samples or hours and may restart.
COUNTERS = set("index sample record counter count no nr seq packet frame hour".split())

# Names of columns of row numbers.
INDEX_NAMES = {"", "rownames", "row.names", "unnamed: 0", "index", "row", "rn", "obs"}
# Columns that may count seconds, or fractions of them, since 1970.
EPOCHS = set("timestamp timestamps time datetime date epoch unix unixtime ts".split())
# Words in the names of ages, which count back in years or thousands, from the present or 2000.
BEFORE = set("bp ybp b2k ka kyr".split())
# Columns of dates: small numbers in them may be days since some past day.
DAYS = set("date dates datum fecha data datetime datenum day yyyymm month".split())
# Days from the start of counting in spreadsheets and MATLAB to 1970, and the plausible range.
SERIALS = ((25569, 20_000, 80_000), (719529, 693_000, 780_000))
# Parts of a date that may have their own columns: their names, and their range.
PARTS = {
    "y": (" ".join(_dates.YEARS), -9999, 9999),
    "q": ("quarter qtr quartal trimestre", 1, 4),
    "m": ("month mon mo mm mnth seas season monat mois mes mese maand", 1, 12),
    "w": ("week epi week isoweek wk kw woche semaine semana", 1, 53),
    "d": ("day dy dd dom da tag jour dia giorno dag mday", 0, 31),
    "j": ("doy yday julian dayofyear day of year yearday", 1, 366),
    "h": ("hour hr hh he hour ending hr end hour of day stunde std hora heure uur", 0, 24),
    "min": ("minute min mn mi mm minutes minuto", 0, 59),
    "s": ("second sec ss seconds", 0, 60),
}
# Combinations of parts that determine a date, and parts that are used only with others.
TOGETHER = ({"y", "m"}, {"y", "q"}, {"y", "j"}, {"y", "w"}, {"m", "d"}, {"m"})
WITHIN = {"h": {"d", "j", "date"}, "min": {"h"}, "s": {"min"}}
# Parts that every date has, and the largest difference of time zones from UTC, in hours.
FIELDS = {"y": "year", "m": "month", "d": "day", "j": "day_of_year", "h": "hour"}
ZONES = 14
# Range of parts that are recognised only by their numbers.
GUESSED = {"y": (1500, 2300), "d": (1, 31)}
# Names given to columns without a name.
UNNAMED = re.compile(r"x\d+")
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}

READERS: dict[str, Callable[[Path, Options], Found]] = {
    **dict.fromkeys(TEXT, read_text), ".npz": read_npz, ".npy": read_npy, ".xlsx": read_excel,
    **dict.fromkeys((".parquet", ".feather", ".arrow", ".json", ".jsonl", ".ndjson"), read_columns),
    **dict.fromkeys((".nc", ".nc4", ".zarr"), read_grid),
}  # fmt: skip

GRIDS = (".nc", ".nc4", ".zarr")
SHEETS = (*TEXT, ".xlsx")
# Options for some formats only: the formats, and the description in the error message.
ONLY_FOR: dict[str, tuple[tuple[str, ...], str]] = {
    "separator": (TEXT, "is the character between the cells of a text file"),
    "decimal": (SHEETS, "is the decimal mark of a text file or a sheet"),
    "header": (SHEETS, "says whether the first row of a text file or a sheet holds names"),
    "key": (
        (".npz", ".xlsx", *GRIDS),
        "names an array of an NPZ file, a variable of a NetCDF file or a sheet of a workbook",
    ),
    "variables": (GRIDS, "names dimensions of a NetCDF or Zarr file"),
}


class Time(NamedTuple):
    """The column or columns of time, their stamps, and the assumptions made."""

    columns: tuple[str, ...] = ()
    stamps: np.ndarray | None = None
    said: tuple[str, ...] = ()


class Table(NamedTuple):
    """A table of measurements `[time dim]` with names, and time stamps where the file has them."""

    values: np.ndarray
    names: tuple[str, ...]
    stamps: np.ndarray | None  # numbers, datetime64 or timedelta64, [time]
    dt: float | None = None  # as stated in the file
    notices: tuple[str, ...] = ()  # assumptions made to read it
    trials: np.ndarray | None = None  # the recording of each row, if there are several
    mask: np.ndarray | None = None  # rows that may be the present of a window, if not all
    unit: str = ""  # of numeric stamps, from the name of their column

    @property
    def recordings(self) -> tuple[np.ndarray, ...]:
        """The rows of each recording."""
        return rows_of(self.trials, len(self.values))


def read_table(path: str | Path, **choices: Any) -> Table:
    """Read measurements from a file, one row per sample.

    - Text (.csv, .tsv, .txt, .dat and others; also in .gz, or alone in .zip): `separator`,
      `decimal` mark and `header` are those with which the cells read as numbers. The table begins
      below the last row of words; comments, titles, units, repeated headers and notes are skipped.
      A table with twelve columns of months becomes one series, and a table with times along the
      top is transposed.
    - NPZ: the array `key` (default `x`, or the only array), `[time dim]` or `[series time dim]`, or
      several arrays of one length. `names`, `dt` and `time` are used if present. NPY: the array.
    - Excel: the first sheet, or the one called `key`.
    - Parquet, Feather, JSON: the columns.
    - NetCDF and Zarr: all variables along one dimension, or the variable `key`. `trial` names the
      dimension of recordings, and `variables` the dimensions whose cells are variables.

    `time_column` names the column of time stamps. By default it is the first column, if it holds
    dates, is called time, date, year or similar, or is an index. Otherwise it is a date in separate
    columns, such as year, month and day or date and time of day; or the first column that holds
    dates, or that increases and has such a word in its name (time_yr). `day_first` decides what
    03/04/2001 means, and `time_zone` names the zone of a clock with daylight saving time.

    `columns` selects the variables and their order. Without it, columns are omitted, with a notice,
    if they hold text, nothing, a single number, or a straight line that counts rows; columns in
    `kept` stay. `missing` are texts that mean a missing value. `trial` names the column that
    identifies recordings; by default it is a column within each of whose values stamps increase,
    although they repeat. `only`, columns with some of their values, and `months` (1 to 12, of
    dates) select the rows that may be the present of a window; a column of `only` is a variable
    only if `columns` names it.

    The choices are the fields of `Options`.

    **Raises:** `ValueError` if the file cannot be read as a table, or a column is missing or not
    numeric; `ImportError` if an optional dependency is missing; `OSError` if the file cannot be
    opened.
    """
    path, options = Path(path), Options(**choices)
    _check_options(path, options)
    found = READERS[_suffix(path)](path, options)
    file, frame, trials = path.name, found.frame, found.trials
    if not frame.size:
        raise ValueError(f"{file} holds no data.")
    columns = [clean_name(name) for name in options.columns or ()]
    masks = [rows_with(file, frame, options.only)] if options.only else []
    if options.trial is not None and trials is None:
        check_there(file, [options.trial], frame)
        trials = np.array([str(cell) for cell in frame.pop(options.trial)])
    options = options._replace(decimal=found.decimal, missing=(*options.missing, *found.missing))
    read = Clocks(file, frame, trials, options)
    time = read.time()
    stamps, said = time.stamps, (*found.said, *time.said)
    _check_dated(file, stamps, options)
    panel = panel_of(frame, time) if trials is None else None
    if trials is None and panel is None and (panel := panel_of(held := _held(frame), time)):
        frame = held
    if panel and not columns and (wide := _wide(frame, time, panel)) is not None:
        frame, time, panel, kind = wide
        read, stamps = read._replace(frame=frame), time.stamps
        said += (f"column {kind!r} names its variables; if not, use --trial {kind}.",)
    if panel:
        trials = groups_of(frame, panel)
        frame = frame.drop(columns=list(panel))
        tell = f"column {panel[0]!r} tells" if len(panel) == 1 else f"columns {listed(panel)} tell"
        said += (f"{tell} recordings apart, because time stamps repeat.",)
    others = {*time.columns, *(name for name, _ in options.only)}
    others |= {name for name in frame.columns[:1] if time.columns and name.lower() in INDEX_NAMES}
    wanted = columns or [name for name in frame if name not in others]
    check_there(file, wanted, frame)
    if not wanted:
        raise ValueError(f"{file} has no column except the time column {time.columns[0]!r}.")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"--columns names a column of {file} twice: {listed_names(wanted)}.")
    numbers = {name: read.number(name) for name in wanted}
    if not columns:
        free = {name: each for name, each in numbers.items() if name not in options.kept}
        left, more = _variables(read, free, stamps, rows_of(trials, len(frame)))
        numbers = {name: numbers[name] for name in wanted if name in left or name in options.kept}
        counted = all(name.lower() in INDEX_NAMES for name in time.columns)  # rows, if anything
        said += (*more, *_like_time(left, rows_of(trials, len(frame))) * counted)
    _check_numeric(file, numbers, frame)
    for text in dict.fromkeys(each.said for each in numbers.values() if each.said):
        names = [name for name, each in numbers.items() if each.said == text]
        said += (f"{text} ({listed_names(names)}).",)
    values = np.stack([each.values for each in numbers.values()], axis=1)
    masks += [rows_of_months(file, stamps, options.months)] if options.months else []
    mask = np.all(masks, axis=0) if masks else None
    if stamps is not None and trials is None:
        rows = np.arange(len(stamps))
        if len(stamps) > 1 and falls(stamps):
            rows = rows[::-1]
            said += ("its rows begin with the latest; their order is reversed.",)
        if len(remarks := _remarks(values[rows], stamps[rows])):
            rows = np.delete(rows, remarks)
            said += (f"{len(remarks)} rows with remarks but no numbers are left out.",)
        values, stamps, mask = values[rows], stamps[rows], None if mask is None else mask[rows]
    notices = tuple(f"{file}: {text}" for text in said)
    numeric = stamps is not None and stamps.dtype.kind in "iuf" and len(time.columns) == 1
    unit = _unit_of(time.columns[0], stamps) if numeric else ""
    return Table(values, tuple(numbers), stamps, found.dt, notices, trials, mask, unit)


def _unit_of(name: str, stamps: np.ndarray) -> str:
    """Return the unit of numeric stamps: from the name of their column, or years if they are
    decimal years such as 1950.042.
    """
    low, high = GUESSED["y"]
    dated = "date" in words_of(name) and len(stamps) > 0
    in_years = dated and low <= stamps.min() and stamps.max() <= high
    return unit_in(name) or ("year" if in_years else "")


def _suffix(path: Path) -> str:
    """Return the extension that determines the format, in lower case."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() or ".txt" if last in (".gz", ".zip") else last


def _wide(frame: Any, time: Time, panel: Sequence[str]) -> tuple[Any, Time, list[str], str] | None:
    """Return a frame with a row for each value as one with a column for each variable; None for any
    other frame. Also return its time, the columns that identify recordings, and the column that
    named the variables.
    """
    named = [name for name in frame if words_of(name) & VALUES and name not in time.columns]
    values = [name for name in named if not frame[name].map(is_missing).all()]
    kinds = [name for name in panel if words_of(name) & KINDS]
    if len(values) != 1 or len(kinds) != 1:
        return None
    sites, clock = [name for name in panel if name not in kinds], time.columns[0]
    if len(np.unique(time.stamps)) * frame[kinds[0]].nunique() > SPARSE * len(frame):
        return None
    rows = frame[[*panel, *values]].assign(**{clock: time.stamps})
    wide = rows.pivot(index=[*sites, clock], columns=kinds[0], values=values[0])
    wide = wide[list(dict.fromkeys(frame[kinds[0]]))].reset_index()
    wide.columns = [clean_name(name) for name in wide.columns]
    return wide, Time((clock,), wide[clock].to_numpy()), sites, kinds[0]


def _check_options(path: Path, options: Options) -> None:
    separator, decimal = options.separator, options.decimal
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}")
    if path.is_dir() and path.suffix != ".zarr":
        raise IsADirectoryError(f"{path} is a directory; expected a file of measurements.")
    if _suffix(path) not in READERS:
        text = f"expected a name that ends with one of: {' '.join(READERS)}"
        other = "Export other spreadsheets and arrays as CSV"
        raise ValueError(f"Cannot tell the format of {path.name}; {text}. {other}.")
    for name, (suffixes, what) in ONLY_FOR.items():
        if getattr(options, name) not in (None, (), []) and _suffix(path) not in suffixes:
            raise ValueError(f"--{name} {what}, which {path.name} is not. Omit it.")
    if decimal not in (None, ".", ","):
        raise ValueError(f"--decimal must be a point or a comma; got {decimal!r}.")
    if separator is not None and (len(separator) != 1 or separator in '"\r\n\0'):
        raise ValueError(f"--separator must be one character; got {separator!r}.")
    if separator is not None and separator == decimal:
        raise ValueError(f"--separator and --decimal must differ; both are {decimal!r}.")


def _check_dated(file: str, stamps: np.ndarray | None, options: Options) -> None:
    """Raise an error for date options if the time column holds no dates."""
    if stamps is not None and stamps.dtype.kind == "M":
        return
    for name, value in (("--dates", options.day_first), ("--time-zone", options.time_zone)):
        if value is not None:
            what = f"{name} says how dates in the time column are read; {file} has none"
            raise ValueError(f"{what}. Omit it, or name that column with --time-column.")


# ---- rows ----


def rows_with(file: str, frame: Any, only: Sequence[tuple[str, tuple[str, ...]]]) -> np.ndarray:
    """Return the rows in which each given column has one of its given values, bool `[row]`.

    Cells are compared as numbers if both are numbers, else as text.

    **Raises:** `ValueError` for a column that does not exist, or a value that no row has.
    """
    inside = np.ones(len(frame), bool)
    for name, values in only:
        check_there(f"--only: {file}", [name], frame)
        cells = [_cells.comparable(cell) for cell in frame[name]]
        wanted = [_cells.comparable(value) for value in values]
        if absent := [v for v, cell in zip(values, wanted, strict=True) if cell not in set(cells)]:
            where = f"{file} has {absent[0]!r} in column {name!r}"
            there = listed_names(clean_name(cell) for cell in frame[name].unique())
            raise ValueError(f"--only: no row of {where}; it holds: {there}.")
        inside &= np.array([cell in wanted for cell in cells])
    return inside


def rows_of_months(file: str, stamps: np.ndarray | None, months: Sequence[int]) -> np.ndarray:
    """Return the rows whose date is in one of these months (1 to 12), bool `[row]`.

    **Raises:** `ValueError` if the time column holds no dates.
    """
    if stamps is None or stamps.dtype.kind != "M":
        has = "is missing" if stamps is None else f"starts with {short_repr(stamps[0])}"
        remedy = "Name a column of months with --only month=12,1,2."
        raise ValueError(f"--months needs a time column with dates; that of {file} {has}. {remedy}")
    return np.isin(stamps.astype("datetime64[M]").astype(int) % 12 + 1, list(months))


# ---- variables ----


def _variables(read: "Clocks", numbers: dict[str, Numbers], stamps: Any, rows: Any):
    """Return the columns that can be variables, and notices about the others."""
    import pandas as pd

    dates, fields, parts = None, [], {}
    if stamps is not None and stamps.dtype.kind == "M":
        dates = pd.DatetimeIndex(stamps.astype("M8[s]"))
        fields = [getattr(dates, field) for field in FIELDS.values()]
        parts = {name: part for part, name in read.named({"date"}).items() if part in FIELDS}
    if stamps is not None and stamps.dtype.kind not in "fiu":
        stamps = (stamps - stamps[0]) / np.timedelta64(1, "s")
    times = [None if stamps is None else stamps[r].astype(float) for r in rows]

    def fault(name: str, each: Numbers) -> str:
        """Return why a column is not a variable; empty if it is one."""
        x, known = each.values, each.values[np.isfinite(each.values)]
        if read.dated(name):
            return DATES
        if each.empty:
            return EMPTY if read.frame[name].map(is_missing).all() else TEXTS
        if each.wrong is not None:
            return ""
        if len(known) > 9 and (known == known[0]).all():
            return CONSTANT
        again = len(known) > 9 and (
            any((x == field).all() for field in fields)
            or (name in parts and _is_local(x, dates, parts[name]))
        )
        counter = words_of(name) & COUNTERS or (UNNAMED.fullmatch(name) and np.ptp(x) > 20)
        pairs = zip(rows, times, strict=True)
        again = again or (counter and starts_again(x)) or all(is_clock(x[r], t) for r, t in pairs)
        return COUNTS if again else ""

    faults = {name: fault(name, each) for name, each in numbers.items()}
    said: tuple[str, ...] = ()
    for what in (DATES, TEXTS, EMPTY, CONSTANT, COUNTS):
        gone = [name for name in numbers if faults[name] == what]
        if not gone or len(gone) == len(numbers):
            continue
        numbers = {name: each for name, each in numbers.items() if name not in gone}
        columns, s, are = f"columns {listed_names(gone)}", "", "are"
        if len(gone) == 1:
            columns, s, are = f"column {gone[0]!r}", "s", "is"
        said += (f"{columns} {what.format(s=s, are=are)} and {are} left out.",)
    return numbers, said


def _like_time(numbers: dict[str, Numbers], rows: Any) -> tuple[str, ...]:
    """Return a notice about variables that have the name of a time or increase throughout."""
    like = [
        name
        for name, each in numbers.items()
        if (words_of(name) and words_of(name) <= TIME_NAMES | EPOCHS | _dates.YEARS)
        or (len(each.values) > FEWEST and all(is_rising(each.values[r]).all() for r in rows))
    ]
    looks = f"column {like[0]!r} looks like a time and is read as a variable" if like else ""
    if len(like) > 1:
        looks = f"columns {listed_names(like)} look like times and are read as variables"
    then = "--time-column names the time, --columns the variables."
    return (f"{looks}; {then}",) if like else ()


def _is_local(x: np.ndarray, dates: Any, part: str) -> bool:
    """Return whether numbers are a part of the dates in another time zone, with or without daylight
    saving time.
    """
    hours = np.arange(-ZONES, ZONES + 1).astype("m8[h]")
    same = [x == getattr(dates + hour, FIELDS[part]) for hour in hours]
    return any((one | other).all() for one, other in itertools.pairwise(same))


def _remarks(values: np.ndarray, stamps: np.ndarray) -> np.ndarray:
    """Return the rows without numbers, if the clock is regular only without them."""
    empty = np.flatnonzero(np.isnan(values).all(axis=1))
    if not len(empty) or rank(stamps) > 2:
        return empty[:0]
    left = np.delete(stamps, empty)
    return empty if len(left) > 2 and rank(left) > rank(stamps) else empty[:0]


def _check_numeric(file: str, numbers: dict[str, Numbers], frame: Any) -> None:
    """Raise an error for columns of text that names the cell, the usable columns and the remedy."""
    text = {name: each.wrong for name, each in numbers.items() if each.wrong is not None}
    if not text:
        return
    name, row = next(iter(text.items()))
    cell = str(frame[name].iloc[row]).strip()
    rest = [other for other in numbers if other not in text]
    if _cells.COMMA_NUMBER.fullmatch(cell):
        remedy = "If this is a decimal comma, use --decimal ,"
    elif rest:
        remedy = f"Leave it out: --columns {','.join(rest[:20])}" + ",..." * (len(rest) > 20)
    else:
        remedy = "Write numbers with a decimal point, or with a comma and --decimal ,"
    if not numbers[name].empty and len(cell) <= 20:
        prefix = f"{cell[0]}*" if cell[:1] in "<>" else cell
        remedy += f"; or read it as a missing value: --missing '{prefix}'"
    more = f" (and {len(text) - 1} more columns)" if len(text) > 1 else ""
    cell = cell if len(cell) <= 40 else cell[:36] + " ..."
    what = f"column {name!r} is not numeric: {cell!r} in data row {row + 1}{more}"
    raise ValueError(f"{file}: {what}. {remedy}.")


# ---- time ----


def rows_of(trials: np.ndarray | None, count: int) -> tuple[np.ndarray, ...]:
    """Return the rows of each recording, in the order of their first rows."""
    if trials is None:
        return (np.arange(count),)
    import pandas as pd

    codes = pd.factorize(trials)[0]
    return tuple(np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1]))


def falls(stamps: np.ndarray) -> bool:
    """Return whether stamps decrease from row to row."""
    return bool(is_rising(stamps[::-1]).all())


def _whole(x: np.ndarray, low: int, high: int) -> bool:
    """Return whether all numbers are whole and within the range."""
    return bool(((x == np.round(x)) & (low <= x) & (x <= high)).all())


class Clocks(NamedTuple):
    """The columns of a file, searched for its time."""

    file: str
    frame: Any
    trials: np.ndarray | None
    options: Options

    def number(self, name: str) -> Numbers:
        """Return a column as numbers."""
        options = self.options
        return _cells.as_numbers(self.frame[name], decimal=options.decimal, marks=options.missing)

    def time(self) -> Time:
        """Return the time column that was named, or the most likely column or columns."""
        given = self.options.time_column
        if given is None:
            likely = self._likely() if self.frame.shape[1] > 1 else ()
            return next(filter(None, likely), Time())
        check_there(self.file, [given], self.frame)
        return self._of(given)

    def _likely(self) -> Iterator[Time | None]:
        """Yield candidates for the time, most likely first."""
        names = list(self.frame)
        index = names[0].lower() in INDEX_NAMES
        first = names[index]
        dated = list(filter(self.dated, names))
        moving = [name for name in dated if self.frame[name].iloc[0] != self.frame[name].iloc[-1]]
        for name in (moving or dated)[:1]:
            yield self._of(name, name in names[: index + 1] or words_of(name) <= {"date", "time"})
        named = self.named()
        yield self._of_parts(named)
        known = first.lower() in EPOCHS | {"t", "times", "dates"} or self._mostly_dated(first)
        if known or _dates.is_time(str(self.frame[first].iloc[0])):
            yield self._of(first)
        yield from self._days_and_times()
        for name in names:
            if words_of(name) & (TIME_NAMES | BEFORE) and self._rises(name):
                yield self._of(name, name == first and name.lower() in TIME_NAMES)
        for found in self._guessed():
            yield self._of_parts(found, panels=False)
        # Days and years out of order: a later error names the first such row.
        if "y" in named and {"d", "j"} & set(named):
            yield self._of_parts(named, even_unordered=True)
        elif set(named) == {"y"} and self.trials is None:
            years = self.number(named["y"]).values
            if len(np.unique(years)) == len(years) and _whole(years, *GUESSED["y"]):
                yield self._of(named["y"])
        if index and self._rises(names[0]):
            yield self._of(names[0])
        for name in names[:2] if len(self.frame) >= FEWEST else ():
            # A straight line in the first column or without a name, which may restart in each
            # recording.
            if (name == names[0] or UNNAMED.fullmatch(name)) and self._rises(name):
                steps = np.diff(self.number(name).values)
                if np.ptp(steps[steps > 0]) < 1e-3 * np.median(steps):
                    yield self._of(name, False)

    def _of(self, name: str, sure: bool = True) -> Time:
        """Return the time that a column holds; for dates that repeat, combined with the time of day
        in other columns.
        """
        said = () if sure else (f"column {name!r} is read as the time.",)
        dates = self._dates_of(name)
        if dates is None:
            stamps, more = self._numbers(name)
            if words_of(name) & BEFORE:
                stamps, more = -stamps, (*more, f"column {name!r} counts back from the present.")
            return Time((name,), stamps, said + more)
        times = self._times([name], dates, self._within_the_day(name))
        found = self._first_orderly(times) or times[0]
        return found._replace(said=said + found.said)

    def _days_and_times(self) -> Iterator[Time]:
        """Yield the time from day counts and times of day, such as 307 and 930."""
        for name in self.frame:
            if not words_of(name) & {"day", "days", "date"}:
                continue
            for clock, seconds in self._clocks([name]):
                days, columns = self.number(name).values, (name, *clock)
                if _whole(days, 0, 99_999) and (seconds % 3600).any() and np.ptp(seconds) > 43200:
                    stamps = span(86400 * days + seconds)
                    if is_rising(stamps).all():
                        yield Time(
                            columns,
                            stamps,
                            (f"columns {', '.join(columns)} are read as the time.",),
                        )

    def _of_parts(
        self, found: dict[str, str], panels: bool = True, *, even_unordered: bool = False
    ) -> Time | None:
        """Return the time from columns of its parts; without a year, a new year begins whenever the
        month falls. None if it neither increases nor, with `panels`, separates recordings, unless
        `even_unordered`.
        """
        together = any(pair <= set(found) for pair in TOGETHER)
        if not (together or (set(found) == {"y"} and not self.named())):
            return None
        values = {part: self._values(part, name) for part, name in found.items()}
        seconds = sum(values.pop(part) * SECONDS[part] for part in SECONDS if part in values)
        months = values.get("m", np.zeros(1))
        years = values.get("y", 2001 + np.cumsum(np.diff(months, prepend=months[0]) < 0))
        values["y"] = np.where((years >= 0) & (years < 100), years + 1900, years)
        days = _dates.calendar(values)
        if np.isnat(days).any():
            return None
        clocks = self._clocks(found.values()) if {"d", "j"} & set(found) else ()
        dates = _dates.Dates(days.astype("M8[us]") + span(seconds))
        times = self._times(found.values(), dates, clocks)
        time = self._first_orderly(times, panels)
        if time is None and even_unordered:
            time = times[-1]
        if time is None:
            return None
        taken = f"columns {', '.join(time.columns)} are read as the time."
        return time._replace(said=(taken, *time.said))

    def _times(self, columns: Collection[str], dates: _dates.Dates, clocks: Any) -> list[Time]:
        """Return the time given by the dates alone, if it increases or they include the time of
        day; otherwise also the combinations with each clock.
        """

        def at(more: tuple[str, ...] = (), later: Any = 0.0) -> Time:
            return Time((*columns, *more), *self._settled(dates.later(later)))

        alone = at()
        of_day = dates.stamps - dates.stamps.astype("M8[D]")
        if (of_day != of_day[:1]).any() or self._orderly(alone, panels=False):
            return [alone]
        return [*(at(*each) for each in clocks), alone]

    # ---- parts of dates ----

    def _values(self, part: str, name: str) -> np.ndarray:
        """Return a column as numbers; months may also be names."""
        read = self.number(name)
        if part == "m" and read.wrong is not None:
            return np.array([_dates.month_of(cell) for cell in self.frame[name]], float)
        return read.values

    def named(self, there: Collection[str] = ()) -> dict[str, str]:
        """Return the columns named like parts of dates, given the parts already there."""
        found: dict[str, str] = {}
        for part, (words, low, high) in PARTS.items():
            if part in WITHIN and not WITHIN[part] & {*found, *there}:
                continue
            for name in self.frame:
                plain = " ".join(re.split(r"[\W_\d]+", _dates.without_accents(name))).strip()
                called = f" {plain} " in f" {words} " and plain not in ("", "of", "end", "ending")
                if called and part not in found and name not in found.values():
                    if _whole(self._values(part, name), low, high):
                        found[part] = name
        return found

    def _guessed(self) -> Iterator[dict[str, str]]:
        """Yield columns that look like years followed by months, days and hours, whatever their
        names, fewest columns first.
        """
        names = list(self.frame)
        for first in range(min(3, len(names) - 1)):
            second = self.number(names[first + 1]).values
            of_year = _whole(second, 1, 366) and not _whole(second, 1, 31)
            parts = ["y", *("j" if of_year else "md"), "h", "min"]
            found: dict[str, str] = {}
            for part, name in zip(parts, names[first:], strict=False):
                x = self.number(name).values
                jumps = part == "y" and (np.abs(np.diff(x)) > 1).any()
                if jumps or not _whole(x, *GUESSED.get(part, PARTS[part][1:])):
                    break
                found[part] = name
                if len(found) > 1 or (np.diff(x) == 1).all():
                    yield dict(found)

    def _within_the_day(self, date: str) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield columns that hold the time of day for a date, and their seconds."""
        parts = {part: name for part, name in self.named({"date"}).items() if part in SECONDS}
        if parts:
            seconds = sum(self._values(part, n) * SECONDS[part] for part, n in parts.items())
            yield tuple(parts.values()), np.asarray(seconds)
        yield from self._clocks([date])

    def _clocks(self, columns: Collection[str]) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield columns with times of day, as text or as in 1330, and their seconds."""
        names, parts = list(self.frame), self.named({"date"})
        of_days = {name for part, name in parts.items() if part not in SECONDS}  # 1950 is a year
        for before, name in zip(["", *names], names, strict=False):
            if name in columns or name in of_days:
                continue
            cells = self.frame[name]
            called = words_of(name) & (TIME_NAMES | {"hhmm"})
            called = called or (before in columns and UNNAMED.fullmatch(name))
            marked = self._words(name) and re.search("[:.]", str(cells.iloc[0]))
            day = _dates.read_clock([str(cell) for cell in cells]) if marked else None
            x = self.number(name).values if called and day is None else np.array([np.nan])
            if day is not None:
                yield (name,), day % 86400
            elif _whole(x, 0, 24):
                yield (name,), x * 3600
            elif _whole(x, 0, 240_000) and (x % 100 < 60).all():
                x = x if x.max() > 2400 else 100 * x  # 1330 and 133000
                yield (name,), x // 10_000 * 3600 + x // 100 % 100 * 60 + x % 100

    # ---- what a column holds ----

    def _orderly(self, time: Time, panels: bool = True) -> bool:
        """Return whether stamps increase in each recording or all decrease; with `panels`, also
        whether they separate recordings.
        """
        stamps = time.stamps
        if stamps is None or len(stamps) < 2:
            return False
        rises = all(is_rising(stamps[r]).all() for r in rows_of(self.trials, len(stamps)))
        return rises or falls(stamps) or (panels and panel_of(self.frame, time) is not None)

    def _first_orderly(self, times: Sequence[Time], panels: bool = True) -> Time | None:
        """Return the first time that increases, or else the first that separates recordings."""
        choices = ((time, each) for each in (False, True)[: 1 + panels] for time in times)
        return next((time for time, each in choices if self._orderly(time, each)), None)

    def _rises(self, name: str) -> bool:
        """Return whether the numbers of a column increase throughout each recording."""
        read = self.number(name)
        return read.wrong is None and self._orderly(Time((name,), read.values))

    def _words(self, name: str) -> bool:
        """Return whether a column holds neither numbers nor dates nor durations."""
        return self.frame[name].dtype.kind not in "fiubmM"

    def dated(self, name: str) -> bool:
        """Return whether a column holds dates, in words or in digits without separators."""
        return self.frame[name].dtype.kind in "mM" or self._written(name) is not None

    def _mostly_dated(self, name: str) -> bool:
        """Return whether most cells of a column are dates; the others are then errors to report."""
        some = self.frame[name].iloc[:1000]
        return self._words(name) and sum(map(is_date, map(str, some))) > len(some) / 2

    def _written(self, name: str) -> list[str] | None:
        """Return the cells of a column as dates in words or in digits; None for other cells."""
        column = self.frame[name]
        if column.dtype.kind not in "fb" and all(map(is_packed, column)):
            digits = column.astype(str).str.replace(r"\D", "", regex=True)
            widths, steps = digits.str.len(), np.diff(digits.astype(int))
            months = name == "x0" and widths.max() == 6
            sure = months or (widths.min() >= 8 and len(digits) >= FEWEST)
            ordered = steps.any() and ((steps >= 0).all() or (steps <= 0).all())
            called = words_of(name) & (DAYS | EPOCHS)
            return list(map(str, column)) if called or (sure and ordered) else None
        if not self._words(name):
            return None
        if re.fullmatch(r"\d{4}\.(0[1-9]|1[0-2]?)", str(column.iloc[0])):
            # 1950.01 to 1950.12 are months, unless they are fractions of a year.
            numbers = np.round(100 * self.number(name).values)
            months, called = numbers % 100, words_of(name) & TIME_NAMES
            steady = 0 < months.min() and months.max() == 12 and (np.diff(months) % 12 == 1).all()
            return [f"{x // 100:.0f}-{x % 100:.0f}" for x in numbers] if called and steady else None
        kinds = ("calendar", "isoformat")
        some = column.iloc[:1000]
        if not all(is_date(cell) or any(hasattr(cell, kind) for kind in kinds) for cell in some):
            return None
        return [str(cell).strip() for cell in column]

    def _dates_of(self, name: str) -> _dates.Dates | None:
        """Return the dates or durations that a column holds; None if it holds anything else."""
        column = self.frame[name]
        if column.isna().any():
            raise ValueError(f"{self._called(name)} has missing values.")
        typed, cells = _dates.typed_stamps(column), self._written(name)
        if typed is not None:
            return typed
        dated = self._mostly_dated(name) or is_date(str(column.iloc[0]).strip())
        if cells is None and self._words(name) and dated:
            cells = [str(cell).strip() for cell in column]  # one of them is not a date
        if cells is None:
            return None
        return _dates.read_dates(cells, self._called(name), day_first=self.options.day_first)

    def _numbers(self, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return the stamps of a column of times of day or numbers, and the assumptions made."""
        cells = [str(cell).strip() for cell in self.frame[name]]
        if self._words(name) and (seconds := _dates.read_clock(cells)) is not None:
            return span(seconds), ()
        values, wrong, *_ = self.number(name)
        if wrong is not None:
            what = f"{cells[wrong][:40]!r} in data row {wrong + 1}"
            text = "expected numbers, or dates such as 2001-12-31."
            raise ValueError(f"{self._called(name)} holds {what}; {text}")
        if np.isnan(values).any():
            raise ValueError(f"{self._called(name)} has missing values.")
        return _counted(name, values)

    def _called(self, name: str) -> str:
        return f"{self.file}: the time column {name!r}"

    def _settled(self, dates: _dates.Dates) -> tuple[np.ndarray, tuple[str, ...]]:
        rows = rows_of(self.trials, len(self.frame))
        found = _dates.regular_reading(dates, self.options.time_zone, rows)
        return found.stamps, tuple(dict.fromkeys(filter(None, (dates.said, found.said))))


def _counted(name: str, values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return stamps from numbers: seconds since 1970, days of a spreadsheet, years, or others."""
    words = words_of(name)
    # Units per second of numbers that count from 1970 and give plausible dates.
    scales = (s for s in (1.0, 1e3, 1e6, 1e9) if ((values > 5e8 * s) & (values < 4e9 * s)).all())
    if words & EPOCHS and (scale := next(scales, None)):
        stamps = np.round(values * (1e6 / scale)).astype("datetime64[us]")
        return stamps, (f"column {name!r} counts from 1970; if not, use --dt.",)
    for start, low, high in SERIALS if words & DAYS else ():
        if ((values > low) & (values < high)).all():
            # To the second: fractions of days have too few decimals for more.
            stamps = np.round((values - start) * 86400).astype("datetime64[s]")
            return stamps, (f"column {name!r} counts days as spreadsheets do.",)
    whole, most = (values == np.round(values)).all(), np.abs(values).max()
    if words & _dates.YEARS and whole and most < 10_000:
        return (values.astype(int) - 1970).astype("datetime64[Y]").astype("datetime64[s]"), ()
    return values.astype(int) if whole and most < 2**53 else values, ()


def _held(frame: Any) -> Any:
    """Return a frame in which each text is repeated down to the next one, as in merged cells."""
    words = frame[[name for name in frame if frame[name].dtype.kind == "O"]]
    return frame.assign(**words.mask(words.map(is_missing)).ffill().fillna(words))


def groups_of(frame: Any, names: Sequence[str]) -> np.ndarray:
    """Return a group label for each row from the combined values of some columns."""
    return np.array([" ".join(map(str, row)) for row in frame[list(names)].to_numpy(object)])


def panel_of(frame: Any, time: Time) -> tuple[str, ...] | None:
    """Return the column, or several columns together, that identify recordings: stamps repeat, or
    go back where another recording begins, and increase within each of its values.
    """
    stamps = time.stamps
    if stamps is None or len(stamps) < 3 or falls(stamps) or is_rising(stamps).all():
        return None
    repeat = len(np.unique(stamps)) < len(stamps)
    parts = {word for words, *_ in PARTS.values() for word in words.split()}
    beside = [name for name in frame if name not in time.columns]
    kinds = {name: frame[name].dtype.kind for name in beside if name.lower() not in INDEX_NAMES}
    alone = [
        name for name, kind in kinds.items()
        if kind != "f" and (name.lower() not in parts or not is_value(str(frame[name].iloc[0])))
    ]  # fmt: skip
    words = [n for n in alone if kinds[n] == "O" and not all(map(is_value, map(str, frame[n])))]
    before = list(frame)[: list(frame).index(time.columns[0])]
    several = [tuple(words), tuple(name for name in alone if name in before)]
    found = []
    for names in [*((name,) for name in alone), *(each for each in several if len(each) > 1)]:
        groups = groups_of(frame, names)
        rows = rows_of(groups, len(groups))
        in_turn = (groups[1:] != groups[:-1]).sum() == len(rows) - 1
        few = 2 <= len(rows) <= len(groups) / 3 and (repeat or in_turn)
        if few and all(is_rising(stamps[r]).all() for r in rows):
            found.append((len(rows), names))
    return min(found, default=(0, None))[1]
