"""Known clocks as inputs: the cosine and the sine of a day, a year or any other period."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._wording import unit_ratio
from ._dates import elapsed
from ._lag_times import TIME
from ._samples import Samples

# Clocks that need no number, and the names of the columns of a clock.
NAMED = ("hour", "day", "week", "year")
WAVES = {" cosine": np.cos, " sine": np.sin}
DAYS_OF_A_YEAR = 365.2425
# Largest difference of an estimated period from that of a clock, as a share.
SAME_LENGTH = 2e-3


def clock_of(column: str) -> str:
    """Return the clock of the name of a column, such as "year" of "year sine"; empty if none."""
    clock, _, wave = column.rpartition(" ")
    return clock if f" {wave}" in WAVES and is_clock(clock) else ""


def is_clock(name: str) -> bool:
    """Return whether a name is that of a clock: "hour", "day", "week", "year", or a time with its
    unit, such as "12.42h".
    """
    return name in NAMED or TIME.fullmatch(name) is not None


def clock_named(period: float, unit: str) -> str:
    """Return the name of the clock with a period in a unit of time; empty if the unit has none.

    >>> clock_named(12.0, "month"), clock_named(24.0, "hour"), clock_named(12.42, "hour")
    ('year', 'day', '12.42hour')
    """
    if unit_ratio(unit, "second") is None and unit_ratio(unit, "month") is None:
        return ""
    near = (
        name
        for name in NAMED
        if (length := clock_length(name, unit)) and abs(period / length - 1) < SAME_LENGTH
    )
    return next(near, f"{period:.4g}{unit}")


def with_clocks(samples: Samples, clocks: Sequence[str]) -> Samples:
    """Return the samples with cosine and sine of clocks as further variables.

    **Raises:** `ValueError` if the unit of time is unknown, or several trajectories have no dates.
    """
    if not clocks:
        return samples
    names = [clock + wave for clock in clocks for wave in WAVES]
    if len(samples.values) > 1 and not (samples.starts and all(samples.starts)):
        raise ValueError(
            f"inputs holds the clock {clocks[0]!r}, but the trajectories have no dates that show "
            "its phase. Give time stamps with dates, or add its cosine and sine as variables."
        )
    values = [
        np.column_stack([x, *(wave_of(name, samples, k, samples.times[k]) for name in names)])
        for k, x in enumerate(samples.values)
    ]
    columns = (*samples.names, *names)
    return dataclasses.replace(samples, values=tuple(values), names=columns)


def clock_columns(samples: Samples) -> dict[str, str]:
    """Return the variables that are waves of clocks, with the names of these clocks."""

    def holds(j: int, name: str) -> bool:
        waves = (wave_of(name, samples, k, times) for k, times in enumerate(samples.times))
        pairs = zip(samples.values, waves, strict=True)
        return all(np.allclose(x[:, j], wave, atol=1e-6) for x, wave in pairs)

    named = {name: clock_of(name) for name in samples.names}
    return {
        name: clock
        for j, (name, clock) in enumerate(named.items())
        if clock and clock_length(clock, samples.time_unit) is not None and holds(j, name)
    }


def without_clocks(samples: Samples) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples without waves of clocks, and the names of these clocks."""
    clocks = clock_columns(samples)
    keep = np.array([name not in clocks for name in samples.names])
    names = tuple(name for name in samples.names if name not in clocks)
    values = tuple(x[:, keep] for x in samples.values)
    rest = dataclasses.replace(samples, values=values, names=names)
    return rest, tuple(dict.fromkeys(clocks.values()))


def wave_of(
    column: str, samples: Samples, trajectory: int, times: Float[np.ndarray, "*times"]
) -> Float[np.ndarray, "*times"]:
    """Return a column of a clock at times of a trajectory; the phase is 0 at the first date."""
    clock = clock_of(column)
    period = _period(clock, samples.time_unit)
    starts = samples.starts
    if starts and starts[0] and starts[trajectory]:
        times = times + elapsed(starts[0], starts[trajectory], samples.time_unit)
    return WAVES[column.removeprefix(clock)](2 * np.pi * np.asarray(times, float) / period)


def clock_length(clock: str, unit: str) -> float | None:
    """Return the length of a clock in a unit of time; None if it is not known."""
    match = TIME.fullmatch(clock)
    count, of = (float(match[1]), match[2]) if match else (1.0, clock)
    if of == "year" and unit_ratio(of, unit) is None:
        count, of = DAYS_OF_A_YEAR * count, "day"
    ratio = unit_ratio(of, unit)
    return None if ratio is None else count * ratio


def _period(clock: str, unit: str) -> float:
    """Return the period of a clock in a unit of time."""
    period = clock_length(clock, unit)
    if period is None:
        known = f"{unit!r} cannot be converted" if unit else "the unit of dt is unknown"
        raise ValueError(
            f"inputs holds {clock!r}, which is not a variable of x but a clock, and {known}; pass "
            "time_unit, or add its cosine and sine as variables."
        )
    return period
