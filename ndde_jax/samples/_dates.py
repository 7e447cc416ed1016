"""Dates in common written forms; the whole column decides the order of day and month."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._clock import sampling

_NAME = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_WEEKDAY = r"(mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+"
# What can be a date is cheap to tell; what it is, pandas tells.
_LOOKS = re.compile(
    rf"({_WEEKDAY})?"
    r"([+-]?\d{4}[-/]\d{1,2}|[+-]?\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d)"
    rf"|\d{{1,2}}[-/]\d{{4}}|\d{{1,2}}[-/. ]?{_NAME}\.?[-/., ]*(\d{{4}}|\d\d)"
    rf"|{_NAME}\.?[-/. ]*(\d{{1,2}},?\s+)?\d{{4}}|{_NAME}\.?-\d\d"
    rf"|\d{{4}}[-/. ]?{_NAME}([-/. ]?\d{{1,2}})?|\d{{4}}[-: ]?(q[1-4]|m\d{{1,2}}|w\d{{2}}))"
    r"([t ,:]+\d{1,2}:\d\d.*)?",
    re.IGNORECASE,
)
# The time of day, with the zone, at the end of a date.
_CLOCK = re.compile(
    r"(?:[T ,]+|(?<=\d):)(\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)\s*([AaPp])?\.?(?:[Mm]\.?)?\s*"
    r"(?:(Z|UTC|GMT)|([+-]\d{2}):?(\d{2})?)?$"
)
_FORMATS = (
    *("%Y-%m-%d", "%Y-%m", "%m-%Y", "%d-%b-%Y", "%d-%B-%Y", "%d-%b-%y", "%b-%d-%Y", "%B-%d-%Y"),
    *("%b-%Y", "%B-%Y", "%b-%y", "%Y-%b-%d", "%Y-%b", "%Y-%B", "%d%b%Y", "%YM%m", "%Y-M%m"),
)
_DAY_FIRST, _MONTH_FIRST = ("%d-%m-%Y", "%d-%m-%y"), ("%m-%d-%Y", "%m-%d-%y")
# 195001, 19500131, 1950013123: only where the column is called a date.
PACKED = re.compile(r"\d{4}(0[1-9]|1[0-2])((0[1-9]|[12]\d|3[01])([01]\d|2[0-3])?)?")
_TIME = re.compile(
    r"(?:(?P<days>\d+)\s*(?:d|days?)[ ,]*)?(\d{1,3}):(\d\d)(?::(\d\d(?:\.\d+)?))?"
    r"\s*([AaPp])?\.?(?:[Mm]\.?)?"
)
# Where clocks change, one for each rule that is in use.
ZONES = ("Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "Australia/Sydney",
         "Pacific/Auckland", "America/Santiago")  # fmt: skip


class Dates(NamedTuple):
    """Dates as `datetime64[us]`, in universal time where they name a zone; `wall` holds local clock
    time, `said` the assumptions made.
    """

    stamps: np.ndarray
    wall: np.ndarray | None = None
    said: str = ""


def is_date(cell: Any) -> bool:
    """Return whether a cell is written as a date, with or without a time of day."""
    return isinstance(cell, str) and _LOOKS.fullmatch(cell.strip()) is not None


def read_dates(cells: Sequence[str], where: str, *, day_first: bool | None = None) -> Dates:
    """Return a column of dates as time stamps.

    Where a date such as 03/04/2001 may be of March or of April, `day_first` decides; by default
    the reading that all cells allow, of two the one with the more regular clock, and then the month
    first after a slash.

    **Raises:** `ValueError` that names the first cell that is no date, and its row.
    """
    import pandas as pd

    texts = pd.Series([cell.strip() for cell in cells], dtype=object)
    parts = texts.str.extract(_CLOCK)
    days = texts.str.replace(_CLOCK, "", regex=True)
    dotted = "." in days.iloc[0]
    days = days.str.replace(f"^{_WEEKDAY}", "", regex=True, case=False)
    days = days.str.replace(r"(?<!^)[-/.,\s]+", "-", regex=True)
    clock = parts[0].fillna("0:00").str.replace(",", ".")
    short = clock.str.count(":") == 1
    elapsed = pd.to_timedelta(clock.where(~short, clock + ":00"), errors="coerce")
    half, hour = parts[1].str.lower(), np.floor(elapsed / pd.Timedelta(hours=1))
    twelve = ((half == "p") & (hour < 12)).astype(int) - ((half == "a") & (hour == 12)).astype(int)
    elapsed = elapsed + twelve * pd.Timedelta(hours=12)
    base, said = _days(days, elapsed, day_first, dotted)
    wrong = base.isna() | elapsed.isna()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{where} holds {texts[row][:40]!r} in data row {row + 1}; expected dates such as "
            "2001-12, 2001-12-31 18:00, 31.12.2001 or 31-Dec-2001, or numbers."
        )
    wall = base.to_numpy("datetime64[us]") + elapsed.to_numpy("timedelta64[us]")
    if not parts[[2, 3]].notna().any(axis=None):
        return Dates(wall, None, said)
    hours, minutes = (parts[k].fillna("0").astype(int).to_numpy() for k in (3, 4))
    ahead = 60 * hours + np.where(parts[3].fillna("").str.startswith("-"), -minutes, minutes)
    return Dates(wall - ahead.astype("timedelta64[m]"), wall, said)


def _days(days: Any, elapsed: Any, day_first: bool | None, dotted: bool) -> tuple[Any, str]:
    """Return dates parsed by the format that reads most of the texts, and the assumptions made."""
    import pandas as pd

    def read(*formats: str) -> Any:
        tried = [pd.to_datetime(days, format=f, errors="coerce") for f in formats]
        best = max(range(len(tried)), key=lambda k: int(tried[k].notna().sum()))
        if "%y" not in formats[best]:
            return tried[best]
        # Two digits of a year go back by a century where dates before a later one lie after it.
        falls = (np.diff(tried[best].dt.year.to_numpy(float)) < -50).astype(int)
        centuries = np.append(falls[::-1].cumsum()[::-1], 0)
        months = tried[best].to_numpy("datetime64[s]").astype("datetime64[M]")
        within = tried[best].to_numpy("datetime64[s]") - months.astype("datetime64[s]")
        return pd.Series((months - 1200 * centuries).astype("datetime64[s]") + within)

    if days.str.fullmatch(PACKED).all():
        return read({6: "%Y%m", 8: "%Y%m%d"}.get(len(days.iloc[0]), "%Y%m%d%H")), ""
    if days.str.fullmatch(r"\d{4}-?[Qq][1-4]").all():
        quarters = pd.PeriodIndex(days.str.replace("-", "").str.upper(), freq="Q")
        return pd.Series(quarters.to_timestamp()), ""
    if days.str.fullmatch(r"\d{4}-?[Ww]\d{2}").all():
        weeks = days.str.replace("-", "").str.upper() + "-1"
        return pd.to_datetime(weeks, format="%GW%V-%u", errors="coerce"), ""
    if days.str.match(r"\d{1,2}-\d{1,2}-").all():
        first, second = read(*_DAY_FIRST), read(*_MONTH_FIRST)
        if day_first is None and first.isna().any() == second.isna().any():
            within = elapsed.to_numpy("timedelta64[us]")
            ranks = [_rank(d.to_numpy("datetime64[us]") + within, ()) for d in (first, second)]
            day_first = dotted or ranks[0] > ranks[1]
            if not dotted and ranks[0] == ranks[1]:
                return second, (
                    "dates are read with the month first; if the day is, say --dates day-first."
                )
        elif day_first is None:
            day_first = bool(second.isna().any())
        return (first if day_first else second), ""
    try:  # years of any number, which older releases of pandas refuse
        return pd.Series(np.array(days, "datetime64[s]")), ""
    except ValueError:
        return read(*_FORMATS), ""


def read_clock(cells: Sequence[str]) -> np.ndarray | None:
    """Return times of day such as 13:45 or 0:00:01.5 in seconds, counted on past midnight; or
    None.
    """
    matches = [_TIME.fullmatch(cell.strip()) for cell in cells]
    if not matches or not all(matches):
        return None
    seconds = np.array(
        [
            86400 * float(m["days"] or 0)
            + 3600 * (int(m[2]) % 12 + 12 * (m[5] in "Pp") if m[5] else int(m[2]))
            + 60 * int(m[3])
            + float(m[4] or 0)
            for m in matches
            if m
        ]
    )
    days = np.cumsum(np.diff(seconds, prepend=seconds[0]) < -43200)
    return seconds + 86400 * days


# ---- zones ----


def settled(dates: Dates, zone: str | None = None, rows: Sequence[np.ndarray] = ()) -> Dates:
    """Return the reading of dates that is regular: universal time, or local time with changes of
    the clock compensated. `rows` are those of each recording.

    **Raises:** `ValueError` for a zone that is none, or in which these dates do not exist.
    """
    if zone is not None:
        local = dates.stamps if dates.wall is None else dates.wall
        try:
            return dates._replace(stamps=_universal(local, zone))
        except Exception as error:  # of pandas and of the data base of zones, of many kinds
            raise ValueError(f"--time-zone {zone}: {str(error).splitlines()[0][:200]}") from error
    rows = rows or (np.arange(len(dates.stamps)),)
    before = _rank(dates.stamps, rows)
    if dates.wall is not None:
        wall = _rank(dates.wall, rows)
        return dates._replace(stamps=dates.wall) if wall > before else dates
    hour = np.timedelta64(3600, "s")
    steps = [np.diff(dates.stamps[r].astype("datetime64[s]")) for r in rows if len(r) > 2]
    if before == 3 or not any((s != np.median(s.astype(int))).any() for s in steps):
        return dates
    typical = min((np.median(s.astype(int)) for s in steps), default=0)
    if not 0 < typical <= 43200:
        return dates
    if not any((np.abs(s.astype(int) - typical) == hour.astype(int)).any() for s in steps):
        return dates
    for name in ZONES:
        try:
            stamps = np.array(dates.stamps)
            for r in rows:
                stamps[r] = _universal(dates.stamps[r], name)
        except Exception:  # whatever says that these dates are not of this zone
            continue
        if _rank(stamps, rows) > max(before, 1):
            said = (
                f"clocks change by an hour as daylight saving time has it; read as local time of "
                f"{name} or the like, --time-zone says which."
            )
            return Dates(stamps, dates.stamps, said)
    return dates


def _universal(local: np.ndarray, zone: str) -> np.ndarray:
    import pandas as pd

    index = pd.DatetimeIndex(local).tz_localize(zone, ambiguous="infer")
    return index.tz_convert("UTC").tz_localize(None).to_numpy("datetime64[us]")


def _rank(stamps: np.ndarray, rows: Sequence[np.ndarray]) -> int:
    """Return 3 for a regular clock, 2 for one with missing rows, 1 for one that increases,
    else 0.
    """
    worst = 3
    for r in rows or (slice(None),):
        try:
            found = sampling(stamps[r])
        except ValueError:
            return 0
        on_grid = found.dt is not None
        steps = np.diff(found.times)
        holes = not on_grid and len(steps) and np.allclose(steps % steps.min(), 0, atol=1e-6)
        worst = min(worst, 3 if on_grid else 2 if holes else 1)
    return worst
