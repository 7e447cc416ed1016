"""Measurements from files, one row per sample: which column is time, and which are variables."""

from collections.abc import Callable, Sequence
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
    check_there,
    clean_name,
    is_missing,
    text_of,
    to_float,
)
from ._clock import rank
from ._columns import is_clock, starts_again
from ._formats import TEXT, Found, Options, read_columns, read_grid, read_npy, read_npz
from ._text import read_excel, read_text
from ._time_columns import UNNAMED, Clocks, Time, falls, groups_of, panel_of, rows_of, words_of

# Columns that name what another column holds, in tables with a row for each value.
KINDS = set(
    "variable variables parameter param tag tagname sensor channel measure metric quantity element "
    "indicator item signal field species taxon".split()
)
VALUES = set("value values val wert valeur valor reading result count abundance biomass".split())
# Cells that such a table may take for each value it has.
SPARSE = 50
# Columns that count samples or hours and may start again.
COUNTERS = set("index sample record counter count no nr seq packet frame hour".split())

READERS: dict[str, Callable[[Path, Options], Found]] = {
    **dict.fromkeys(TEXT, read_text),
    ".npz": read_npz,
    ".npy": read_npy,
    ".xlsx": read_excel,
    **dict.fromkeys((".parquet", ".feather", ".arrow", ".json", ".jsonl", ".ndjson"), read_columns),
    **dict.fromkeys((".nc", ".nc4", ".zarr"), read_grid),
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


def read_table(path: str | Path, **choices: Any) -> Table:
    """Read measurements from a file, one row per sample.

    - Text (.csv, .tsv, .txt, .dat and others; also in .gz, or alone in .zip): `separator`,
      `decimal` mark and `header` are found by trying which reading leaves numbers. The table begins
      below the last row of words; comments, titles, units, repeated headers and notes are skipped.
      Rows of twelve months are read one after another, and times along the top turned.
    - NPZ: the array `key` (default `x`, or the only array), `[time dim]` or `[series time dim]`, or
      several of one length; `names`, `dt` and `time` are used if the file has them. NPY.
    - Excel: the first sheet, or the one called `key`.
    - Parquet, Feather, JSON: the columns.
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
    found = READERS[_suffix(path)](path, options)
    file, frame, trials = path.name, found.frame, found.trials
    if not frame.size:
        raise ValueError(f"{file} holds no data.")
    columns = [clean_name(name) for name in options.columns or ()]
    mask = rows_with(file, frame, options.only) if options.only else None
    if options.trial is not None and trials is None:
        check_there(file, [options.trial], frame)
        trials = np.array([str(cell) for cell in frame.pop(options.trial)])
    options = options._replace(decimal=found.decimal, missing=(*options.missing, *found.missing))
    read = Clocks(file, frame, trials, options)
    time = read.time()
    stamps, said = time.stamps, (*found.said, *time.said)
    panel = panel_of(frame, time) if trials is None else None
    if panel and not columns and (wide := _wide(frame, time, panel)) is not None:
        frame, time, panel, kind = wide
        read, stamps = read._replace(frame=frame), time.stamps
        said += (f"column {kind!r} names its variables; --trial {kind} if it does not.",)
    if panel:
        trials = groups_of(frame, panel)
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
    if stamps is not None and trials is None and len(stamps) > 1 and falls(stamps):
        values, stamps = values[::-1], stamps[::-1]
        mask = None if mask is None else mask[::-1]
        said += ("its rows begin with the last; they are turned round.",)
    if stamps is not None and trials is None and len(remarks := _remarks(frame, values, stamps)):
        values, stamps = np.delete(values, remarks, axis=0), np.delete(stamps, remarks)
        mask = None if mask is None else np.delete(mask, remarks)
        said += (f"{len(remarks)} rows that hold remarks and no numbers are left out.",)
    notices = tuple(f"{file}: {text}" for text in said)
    return Table(values, tuple(numbers), stamps, found.dt, notices, trials, mask)


def _suffix(path: Path) -> str:
    """Return the end of a name that tells the format, in small letters."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() or ".txt" if last in (".gz", ".zip") else last


def _wide(frame: Any, time: Time, panel: Sequence[str]) -> tuple[Any, Time, list[str], str] | None:
    """Return a frame with a column for each variable, of one with a row for each value: with its
    time, the columns that tell recordings apart, and the one that named the variables; None for any
    other.
    """
    values = [
        name for name in frame
        if words_of(name) & VALUES and name not in time.columns
        and not frame[name].map(is_missing).all()
    ]  # fmt: skip
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
        kinds = ((".xls", ".ods"), "a spreadsheet"), ((".mat", ".h5", ".hdf5"), "its arrays")
        ends = next((what for ends, what in kinds if path.suffix.lower().startswith(ends)), "")
        sheet = f" Export {ends} as CSV." if ends else ""
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

    def counts(name: str, x: np.ndarray) -> bool:
        counter = words_of(name) & COUNTERS or (UNNAMED.fullmatch(name) and np.ptp(x) > 20)
        return (counter and starts_again(x)) or all(
            is_clock(x[r], t) for r, t in zip(rows, times, strict=True)
        )

    tests = {
        "hold{s} text": lambda name, each: each.empty and not no_cells(name),
        "{are} empty": lambda _, each: each.empty,
        "hold{s} one number throughout": lambda _, each: constant(each.values),
        "count{s} rows or time": lambda name, each: counts(name, each.values),
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


def _remarks(frame: Any, values: np.ndarray, stamps: np.ndarray) -> np.ndarray:
    """Return the rows with words and no numbers, if the clock is regular without them only."""
    empty = np.flatnonzero(np.isnan(values).all(axis=1))
    if not len(empty) or rank(stamps) > 2:
        return empty[:0]
    left = np.delete(stamps, empty)
    return empty if len(left) > 2 and rank(left) > rank(stamps) else empty[:0]


def _check_numeric(file: str, numbers: dict[str, Numbers], frame: Any) -> None:
    """Raise an error for columns of text: name the cell, the usable columns, and the remedies."""
    text = {name: each.wrong for name, each in numbers.items() if each.wrong is not None}
    if not text:
        return
    name, row = next(iter(text.items()))
    cell = str(frame[name].iloc[row]).strip()
    rest = [other for other in numbers if other not in text]
    mark = max(
        set(cell) - set(".+-eE:/ "), key=lambda c: (not c.isalnum()) * cell.count(c), default=""
    )
    if len(frame.columns) == 1 and mark and not mark.isalnum() and is_missing(mark):
        remedy = f"If {mark!r} stands between cells, say so with --separator '{mark}'"
    elif COMMA_NUMBER.fullmatch(cell):
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
