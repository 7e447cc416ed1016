"""Dates: conversion from times counted since a date, reading from text, and time zones."""

import contextlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from .._wording import MONTHS, SECONDS, unit_ratio
from ._clock import WORKING_DAY, rank, written as written

# Zones with daylight saving, one for each rule in use.
_ZONES = ("Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "Australia/Sydney",
         "Pacific/Auckland", "America/Santiago")  # fmt: skip


def dates_after(
    start: str, times: Float[np.ndarray, "*times"], unit: str, dt: float | None = None
) -> Shaped[np.ndarray, "*times"]:
    """Return the dates at times counted since a start date.

    The result is `datetime64` at the resolution of the unit and of the sampling interval `dt` (by
    default that of the times): months have no days, and days have no hours.

    >>> dates_after("1950-01-01T00:00:00", np.array([0.0, 578.0]), "month")
    array(['1950-01', '1998-03'], dtype='datetime64[M]')
    """
    first, times = np.datetime64(start, "us"), np.asarray(times, float)
    if unit == WORKING_DAY:
        return np.busday_offset(first.astype("M8[D]"), np.round(times).astype(int), roll="forward")
    months = unit_ratio(unit, "month")
    if months is not None:
        dates = first.astype("M8[M]") + np.round(times * months).astype("m8[M]")
        return dates.astype("M8[Y]") if months >= MONTHS["year"] else dates
    seconds = _seconds(unit)
    # Stamps that scatter around a grid of half-hours may be counted in days.
    least = seconds * min(1.0, _interval(times) if dt is None else dt)
    fine = "D" if least >= SECONDS["day"] else "m" if least >= SECONDS["minute"] else "ms"
    return (first + span(times * seconds)).astype(f"M8[{fine}]")


def _interval(times: np.ndarray) -> float:
    """Return the shortest interval between times; for a single time, its fractional part."""
    steps = np.abs(np.diff(times.ravel()) if times.size > 1 else times.ravel() % 1)
    return float(np.min(steps, initial=1.0, where=steps > 0))


def elapsed(start: str, other: str, unit: str) -> float:
    """Return the time from one date to another, in a unit that has dates.

    >>> elapsed("1950-01-01T00:00:00", "1998-03-01T00:00:00", "month")
    578.0
    """
    first, last = np.datetime64(start, "us"), np.datetime64(other, "us")
    if unit == WORKING_DAY:
        return float(np.busday_count(first.astype("M8[D]"), last.astype("M8[D]")))
    months = unit_ratio("month", unit)
    if months is not None:
        return float((last.astype("M8[M]") - first.astype("M8[M]")).astype(int) * months)
    return float((last - first) / np.timedelta64(1, "s")) / _seconds(unit)


def _seconds(unit: str) -> float:
    if seconds := unit_ratio(unit, "second"):
        return seconds
    raise ValueError(f"times counted in {unit!r} have no dates; expected a unit such as 'day'.")


def span(seconds: Any) -> Any:
    """Return seconds as durations, `timedelta64[us]`."""
    return np.round(np.asarray(seconds) * 1e6).astype("m8[us]")


# ---- dates as people write them ----

# First letters of month names in the languages of Western Europe, without accents.
_STARTS = (
    "jan|ene|gen feb|fev mar|mrz|mrt|maer apr|abr|avr may|mai|mei|mag jun|juin|giu "
    "jul|juil|lug aug|ago|aou sep|set oct|okt|ott|out nov dec|dez|dic"
)
_MONTHS = {s: k for k, month in enumerate(_STARTS.split(), start=1) for s in month.split("|")}
_MONTH = re.compile(rf"(?<![a-z])({'|'.join(sorted(_MONTHS, key=len, reverse=True))})[a-z]*\.?")
# Three-month seasons by the first letters of the months.
_SEASONS = "djf jfm fma mam amj mjj jja jas aso son ond ndj".split()
# Days of the week in the same languages. "mar" is also a month: it is a weekday before a date whose
# month is a number, or before a day and the name of a month.
_WEEKDAY = re.compile(
    r"^((mon|tue|wed|thu|fri|sat|sun)[a-z]*|mo|di|mi|do|fr|sa|so"
    r"|(diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend"
    r"|lun(di|edi|es)?|mer(credi|coledi)?|mie(rcoles)?|jeu(di)?|jue(ves)?|gio(vedi)?"
    r"|ven(dredi|erdi)?|vie(rnes)?|sam(edi)?|sab(ado|ato)?|dim(anche)?|dom(ingo|enica)?"
    r"|ma|wo|vr|za|zo|(maan|dins|woens|donder|vrij|zater|zon)dag"
    r"|mar(di|tes|tedi)|mar(?=[., ]+(\d+[-/.]\d+[-/.]\d|\d+\.? [a-z])))[., ]+"
)
# Zone abbreviations, in hours ahead of UTC.
_LETTERS = {
    **dict.fromkeys(("z", "utc", "gmt", "wet"), 0), "bst": 1, "west": 1, "cet": 1, "cest": 2,
    "eet": 2, "eest": 3, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6,
    "pst": -8, "pdt": -7, "jst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13,
}  # fmt: skip
# Names of columns of years.
YEARS = set("year yr yy yyyy jahr annee an ano anno jaar aaaa".split())
# The time of day, after a date or alone.
_CLOCK = re.compile(
    r"(?:^|[t ,_]+|(?<=\d):)(\d{1,3}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?\s*"
    rf"(?:([ap])\.?(?:m\.?)?)?\s*({'|'.join(_LETTERS)}|[+-]\d\d:?(?:\d\d)?)?$"
)
# Dates without separators, from months to seconds; used only where nothing else can be meant.
_PACKED = re.compile(
    r"(1[5-9]|2[0-2])\d\d([0-3]\d\d|(0[1-9]|1[0-2])"
    r"((0[1-9]|[12]\d|3[01])(t?([01]\d|2[0-4])([0-5]\d){0,2}z?)?)?)"
)
# Patterns of dates whose separators are hyphens and whose named months are numbers after @.
_Y, _M, _D = r"(?P<y>[+-]?\d{4})", r"(?P<m>0?[1-9]|1[0-2])", r"(?P<d>0?[1-9]|[12]\d|3[01])"
_SHAPES = [
    re.compile(shape)
    for shape in (
        rf"{_Y}-(?P<m>\d\d?)(-(?P<d>\d\d?))?", rf"{_M}-{_Y}", rf"{_Y}-(?P<j>\d{{3}})",
        rf"{_D}-{_M}-(?P<y>\d{{4}}|\d\d)", rf"{_M}-{_D}-(?P<y>\d{{4}}|\d\d)",
        rf"{_D}-?@(?P<m>\d\d)-?(?P<y>\d{{4}}|\d\d)", rf"@(?P<m>\d\d)-?({_D}-)?{_Y}",
        r"@(?P<m>\d\d)-(?P<y>\d\d)", rf"{_Y}-?@(?P<m>\d\d)(-?{_D})?",
        rf"{_Y}-?q(?P<q>[1-4])", rf"q(?P<q>[1-4])-?{_Y}", r"(?P<q>[1-4])-?q-?(?P<y>\d{4}|\d\d)",
        rf"{_Y}-?m(?P<m>\d\d?)", rf"{_Y}-?w(?P<w>\d\d?)(-(?P<u>[1-7]))?",
        rf"{_Y}-(?P<next>\d{{4}}|\d\d)", rf"(?P<y>\d\d)-{_M}-{_D}",
    )
]  # fmt: skip
_DAY_FIRST, _MONTH_FIRST = _SHAPES[3:5]
_SHORT_YEAR_FIRST = _SHAPES[-1]


class Dates(NamedTuple):
    """Dates as `datetime64[us]`, in standard time without daylight saving where they name a zone.

    `wall` holds local clock time, and `said` the assumptions made.
    """

    stamps: np.ndarray
    wall: np.ndarray | None = None
    said: str = ""

    def later(self, seconds: Any) -> "Dates":
        """Return the dates this many seconds later."""
        wall = None if self.wall is None else self.wall + span(seconds)
        return self._replace(stamps=self.stamps + span(seconds), wall=wall)


def without_accents(text: str) -> str:
    """Return a text in lower case without accents."""
    text = unicodedata.normalize("NFKD", text.strip().lower())
    return text if text.isascii() else "".join(c for c in text if not unicodedata.combining(c))


def words_of(name: str) -> set[str]:
    """Return the words of a name, in lower case without accents."""
    return set(re.split(r"[^a-z]+", without_accents(name))) - {""}


def month_of(cell: Any) -> float:
    """Return the number of a month given by number, name or season; NaN if it is not one."""
    text = without_accents(str(cell))
    if text in _SEASONS:
        return _SEASONS.index(text) + 1.0
    found = _MONTH.fullmatch(text)
    try:
        return float(_MONTHS[found[1]] if found else text)
    except ValueError:
        return np.nan


def _without_weekday(cell: str) -> str:
    """Return a date in lower case, without accents and without a leading day of the week."""
    return _WEEKDAY.sub("", without_accents(cell))


def _split_date_and_time(cell: str) -> tuple[str, re.Match | None]:
    """Return a date with hyphens as separators, and the time of day after it; of a time span, the
    beginning.
    """
    text = _without_weekday(cell).partition(" - ")[0]
    text = _spread(text) if is_packed(text) else text
    text = re.sub(r"^(\w{3} +\d+) ([\d:]+) (\d{4})$", r"\1 \3 \2", text)
    text = re.sub(r"(\d\d[-/.]\d\d?)[t ](\d\d)(?=z?$)", r"\1 \2:00", text)
    text = re.sub(r"^(\d\d?:\d\d(?::\d\d)?) +(.*\d)$", r"\2 \1", text)  # the time before the date
    text = re.sub(r"^(\d{4}):(\d\d?)(?::(\d\d?))?(?= |$)", r"\1-\2-\3", text)
    clock = _CLOCK.search(text)
    day = text[: clock.start()] if clock else text
    day = _MONTH.sub(lambda name: f"@{_MONTHS[name[1]]:02d}", day)
    day = re.sub(r"(?<!^)[-/.,\s年月]+|日", "-", day).rstrip("-")
    return day, clock


def is_date(cell: Any) -> bool:
    """Return whether a cell is written as a date, with or without a time of day."""
    if not isinstance(cell, str) or not 4 <= len(cell) <= 60 or not re.search(r"\d", cell):
        return False
    if re.fullmatch(r"\s*[+-]?\d*[.,]?\d*\s*", cell):
        return False
    day, _ = _split_date_and_time(cell)
    return any(shape.fullmatch(day) for shape in _SHAPES)


def is_time(cell: str) -> bool:
    """Return whether a cell is a time of day such as 13:45."""
    return ":" in cell and _CLOCK.fullmatch(cell.lower().partition(" - ")[0]) is not None


def is_packed(cell: Any) -> bool:
    """Return whether a cell can be a date without separators."""
    return _PACKED.fullmatch(str(cell).strip().lower()) is not None


def _spread(text: str) -> str:
    """Return a date without separators as one with separators."""
    digits = re.sub(r"\D", "", text)
    if len(digits) < 8:  # a month, or a day of the year
        return f"{digits[:4]}-{digits[4:]}"
    clock = digits[8:].ljust(6, "0")
    day = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
    return f"{day} {clock[:2]}:{clock[2:4]}:{clock[4:]}"


def calendar(parts: Mapping[str, Any]) -> np.ndarray:
    """Return the days, `datetime64[D]`, for years `y` with months `m`, quarters `q`, weeks `w` and
    days of the week `u`, days of the month `d` or days of the year `j`; NaT for those that do not
    exist.
    """
    lost = np.any([np.isnan(x) for x in parts.values()], axis=0)
    given = {key: np.where(lost, 1, x).astype(int) for key, x in parts.items()}
    year, one = (given["y"] - 1970).astype("M8[Y]"), np.ones(len(lost), int)
    if "w" in given:
        fourth = year.astype("M8[D]") + np.timedelta64(3, "D")  # of January, in the first week
        monday = (fourth.astype(int) + 3) % 7
        after = 7 * given["w"] + given.get("u", one) - 8
        days = fourth + (after - monday).astype("m8[D]")
        lost |= (given["w"] < 1) | (given["w"] > 53)
    elif "j" in given:
        days = year.astype("M8[D]") + (given["j"] - 1).astype("m8[D]")
        lost |= days.astype("M8[Y]") != year
    else:
        month = given.get("m", 3 * given.get("q", one) - 2)
        months, day = year.astype("M8[M]") + (month - 1).astype("m8[M]"), given.get("d", one)
        # 1950-01-00 is a month.
        after = day if (day == 0).all() else day - 1
        days = months.astype("M8[D]") + after.astype("m8[D]")
        lost |= (days.astype("M8[M]") != months) | (month < 1) | (month > 12)
    return np.where(lost, np.datetime64("NaT", "D"), days)


def _read_days(texts: Sequence[str], shape: re.Pattern) -> np.ndarray:
    """Return the days, `datetime64[D]`, given by texts of one pattern; NaT for other texts."""
    found = [shape.fullmatch(text) for text in texts]
    parts = {}
    for key in shape.groupindex:
        parts[key] = np.array([np.nan if m is None else float(m[key] or 1) for m in found])
    years = parts["y"]
    if any(m and len(m["y"]) == 2 for m in found):
        years = years + np.where(years < 69, 2000, 1900)
        # Dates in order: a year is moved back a century if an earlier row is far after a later one.
        falls = (np.diff(years) < -50).astype(int)
        years = years - 100 * np.append(falls[::-1].cumsum()[::-1], 0)
    if "next" in parts:  # a winter or a water year: 1950/51, 1950-1951
        years = np.where((parts.pop("next") - years) % 100 == 1, years, np.nan)
    quarters = shape is _SHAPES[0] and set(parts["m"]) == {1, 2, 3, 4} and len(texts) > 8
    if quarters and not any(m and (m["d"] or m["m"][0] == "0") for m in found):
        parts["q"] = parts.pop("m")  # 1990:1 to 1990:4, and no days of January to April
    return calendar({**parts, "y": years})


def _seconds_of(clock: re.Match | None) -> float:
    """Return the seconds from midnight to a time of day; NaN for a time that does not exist."""
    if clock is None:
        return 0.0
    hour, minute, second = int(clock[1]), int(clock[2]), float((clock[3] or "0").replace(",", "."))
    if clock[4]:
        hour += 12 * (clock[4] == "p" and hour < 12) - 12 * (clock[4] == "a" and hour == 12)
    return 3600 * hour + 60 * minute + second if minute < 60 and second < 61 else np.nan


def _utc_offset(clock: re.Match | None) -> float:
    zone = (clock and clock[5]) or ""
    if not zone or zone in _LETTERS:
        return 60.0 * _LETTERS.get(zone, np.nan)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (-1 if zone[0] == "-" else 1) * (60.0 * int(digits[:2]) + int(digits[2:]))


def read_clock(cells: Sequence[str]) -> np.ndarray | None:
    """Return times of day such as 13:45, 1:45 pm or 2 days 0:00:01.5 in seconds, continuing past
    midnight; None if any cell is something else.
    """
    seconds = []
    for cell in cells:
        text = without_accents(cell).partition(" - ")[0]
        text = re.sub(r"^(\d\d?)\.(\d\d)\.(?=\d\d)", r"\1:\2:", text)
        text = re.sub(r"^(\d+:\d\d[.,]\d+)$", r"0:\1", text)
        days = re.match(r"(\d+)\s*(?:d|days?)[ ,]*(?=\d)", text)
        clock = _CLOCK.fullmatch(text[days.end() :] if days else text)
        if clock is None or np.isnan(within := _seconds_of(clock)):
            return None
        seconds.append(within + 86400 * int(days[1] if days else 0))
    return seconds + 86400 * np.cumsum(np.diff(seconds, prepend=seconds[:1]) < -43200)


def read_dates(cells: Sequence[str], where: str, *, day_first: bool | None = None) -> Dates:
    """Return a column of dates as time stamps.

    `day_first` decides whether 03/04/2001 is in March or in April. By default it is the reading
    that fits the most cells. If both fit equally, it is the one with the more regular clock, and
    then the month comes first, except in dates with points.

    **Raises:** `ValueError` that names the first cell that is not a date, and its row.
    """
    import pandas as pd

    cut = [_split_date_and_time(cell) for cell in cells]
    seconds = np.array([_seconds_of(clock) for _, clock in cut])
    ahead = np.array(
        [_utc_offset(clock) for _, clock in cut]
    )  # minutes, NaN where no zone is named
    which, unique = pd.factorize(np.array([day for day, _ in cut], object))
    texts = list(unique)
    shapes = [shape for shape in _SHAPES if shape.fullmatch(texts[0])] or _SHAPES[:1]
    if day_first is not None and {_DAY_FIRST, _MONTH_FIRST} & set(shapes):
        shapes = [_DAY_FIRST if day_first else _MONTH_FIRST]
    within = span(np.nan_to_num(seconds))
    tried = {s: _read_days(texts, s)[which].astype("M8[us]") + within for s in shapes}
    # Rows of the same day, whose hours are in another column, count once.
    once = {s: x[np.append(True, x[1:] != x[:-1])] for s, x in tried.items()}
    ranks = {s: max(rank(x), rank(x[::-1])) for s, x in once.items()}
    there = {s: np.sum(~np.isnat(x)) for s, x in tried.items()}
    marks = {s: (there[s], ranks[s], s is not _SHORT_YEAR_FIRST) for s in shapes}
    # Among equals the last shape wins: the month first, but not with points.
    points = "." in _without_weekday(cells[0]).split()[0]
    best = max(shapes if points else shapes[::-1], key=marks.__getitem__)
    equal = best is _MONTH_FIRST and marks[best] == marks.get(_DAY_FIRST)
    said = "dates are read with the month first; if not, use --dates day-first." * equal
    wrong = np.isnat(tried[best]) | np.isnan(seconds)
    if wrong.any():
        row = int(np.argmax(wrong))
        like = "2001-12, 2001-12-31 18:00, 31.12.2001 or 31-Dec-2001"
        what = f"{cells[row][:40]!r} in data row {row + 1}"
        other = _DAY_FIRST if best is _MONTH_FIRST else _MONTH_FIRST
        found = None if day_first is None else other.fullmatch(cut[row][0])
        if found and int(found["d"]) > 12:
            option = f"remove --dates {'day' if day_first else 'month'}-first"
            raise ValueError(f"{where} holds {what}; there is no month {found['d']}: {option}.")
        expected = f"expected dates such as {like}, or numbers"
        raise ValueError(f"{where} holds {what}; {expected}. Remove rows that are not samples.")
    if np.isnan(ahead).all():
        return Dates(tried[best], None, said)
    minutes = np.nan_to_num(ahead).astype("m8[m]")
    return Dates(tried[best] - minutes + minutes.min(), tried[best], said)


# ---- containers ----


def typed_stamps(column: Any) -> Dates | None:
    """Return a column or index of pandas dates, durations or dates of another calendar; None for
    any other type.
    """
    import pandas as pd

    if column.dtype.kind != "M":
        values = column.to_numpy()
        if len(values) and hasattr(values[0], "calendar"):
            return Dates(_from_calendar(values))
        return Dates(values) if column.dtype.kind == "m" else None
    index = pd.DatetimeIndex(column)
    if index.tz is None:
        return Dates(index.to_numpy())
    return Dates(_standard_time(index), index.tz_localize(None).to_numpy())


def _from_calendar(stamps: np.ndarray) -> np.ndarray:
    """Return dates of another calendar (360 days, no leap years) as months if they are monthly,
    else as durations since the first.
    """
    months = np.array([12 * stamp.year + stamp.month for stamp in stamps])
    within = np.array([24 * stamp.day + stamp.hour for stamp in stamps])
    if len(stamps) > 1 and np.ptp(within) <= 72 and (np.diff(months) >= 1).all():
        return (months - 12 * 1970 - 1).astype("datetime64[M]").astype("datetime64[s]")
    return span([(stamp - stamps[0]).total_seconds() for stamp in stamps])


# ---- zones ----


def regular_reading(
    dates: Dates, zone: str | None = None, rows: Sequence[np.ndarray] = ()
) -> Dates:
    """Return the reading of dates that is regular: local clock time, or standard time without
    daylight saving.

    If both are regular, days and months are in local time, and intervals below a day in standard
    time, as they are where clocks change. `rows` are those of each recording.

    **Raises:** `ValueError` for an unknown zone, or one in which these dates do not exist.
    """
    if dates.stamps.dtype.kind == "m":
        return dates
    local = dates.stamps if dates.wall is None else dates.wall
    if zone is not None:
        try:
            return dates._replace(stamps=_in_zone(local, zone))
        except KeyError as error:  # of the data base of zones
            expected = "expected a name such as 'Europe/Berlin' or 'UTC'"
            raise ValueError(f"--time-zone {zone} is no known time zone; {expected}.") from error
        except Exception as error:  # of pandas and of the data base of zones, of many kinds
            raise ValueError(f"--time-zone {zone}: {str(error).splitlines()[0][:200]}") from error
    rows = rows or (np.arange(len(dates.stamps)),)
    before = rank(dates.stamps, rows)
    steps = [np.diff(local[r].astype("M8[s]").astype(int)) for r in rows if len(r) > 2]
    typical = min(map(np.median, steps), default=0)
    if dates.wall is not None:
        on_the_wall, coarse = rank(local, rows), typical >= SECONDS["day"]
        better = on_the_wall > before or (coarse and on_the_wall == before)
        return dates._replace(stamps=local) if better else dates
    changes = any((np.abs(step - typical) == 3600).any() for step in steps)
    if before == 3 or not 0 < typical <= 43200 or not changes:
        return dates
    for name in _ZONES:
        said = f"read as local time of {name} or similar; name the zone with --time-zone."
        said = f"clocks change by an hour, as with daylight saving time; {said}"
        with contextlib.suppress(Exception):  # any error means that they are not of this zone
            stamps = np.array(local)
            for r in rows:
                stamps[r] = _in_zone(local[r], name)
            if rank(stamps, rows) > max(before, 1):
                return Dates(stamps, local, said)
    return dates


def _in_zone(local: np.ndarray, zone: str) -> np.ndarray:
    """Return the standard time for the local clock time of a zone."""
    import pandas as pd

    return _standard_time(pd.DatetimeIndex(local).tz_localize(zone, ambiguous="infer"))


def _standard_time(index: Any) -> np.ndarray:
    """Return dates with a zone in the standard time of the zone, its smaller offset from UTC in the
    year, whatever part of the year a record covers.
    """
    import pandas as pd

    universal = index.tz_convert("UTC").tz_localize(None)
    if len(index):
        seasons = [pd.Timestamp(index[0].year, month, 1, tz=index.tz) for month in (1, 7)]
        universal = universal + min(season.utcoffset() for season in seasons)
    return universal.to_numpy("datetime64[us]")
