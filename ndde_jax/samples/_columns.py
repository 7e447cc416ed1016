"""Tests on single columns: kind (clock, events, smooth path), invalid values, trends and steps."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._types import divisor
from ._clock import rounding_of
from ._gaps import linearly_interpolated, runs

# Minimum number of samples to recognise the kind of a column.
FEWEST = 20
# How far from its neighbours a spike must lie, in typical distances and in ranges of the four
# neighbours; and the largest typical distance of a smooth path, as a share of its spread.
FAR, RANGES, SMOOTH = 10.0, 4.0, 0.6
# Standard deviations beyond which a value is an outlier, and between which it counts as large.
# Nats by which "outliers are forgotten at once" must be likelier than "they last as large values
# do": 20 to 1.
OUTLYING, LARGE, CLEARLY = 6.0, (1.5, 3.0), 3.0
# Standard deviations beyond which a single value between usual ones is a gross error, whatever a
# variable remembers, and beyond which it is one if a share of it as large as of a usual value would
# make the next an outlier. Of Student's t with three degrees of freedom, one in 10,000 exceeds 25.
GROSS, FORGOTTEN = 100.0, 30.0
# Codes that programs write for missing values, in addition to numbers made of nines.
CODES = (-99.0, -999.25, -32768.0, 32767.0, -2147483648.0)
NINES = re.compile(r"-?9{2,}\.?9+")
HUGE = 1e18
# Share of samples without an event from which on events are rare.
RARE = 0.7
# Share of zeros from which on a variable without negative values rests at zero. A sensor that is
# clipped at the end of its range has fewer.
RESTS = 0.1
# How far beyond all other values a code must lie, in their ranges. For a number that programs do
# not commonly write: how far it must lie, and how often it must repeat.
CODE_APART, STRANGE_APART, OFTEN = 1.0, 4.0, 5
# Minimum and maximum number of blocks of a record, and correlation times per block.
FEWEST_BLOCKS, MOST_BLOCKS, TIMES_PER_BLOCK = 8, 32, 8
# Number of past samples that predict the next one, and the standard errors required of a trend in
# the prediction errors. Chosen by inspecting records without a trend, of which a network that
# switches between wells (network_20 of `benchmarks.delays`) comes closest, with 6.2.
PAST, IN_NEWS = 3, 6.5
# Samples before and after a spike in which other variables may move with it; number of places
# around it for comparison; and probability of a false detection.
NEAR, AROUND, CHANCE = 5, 20, 1e-3
# Sizes of a full turn; the share of it that an angle must cover; and the share of the sum of
# squared steps that must vanish if steps go the shorter way round: for independent values a half.
TURNS, ROUND, SMALLER = (360.0, 2 * np.pi), 0.9, 0.6
# Standard errors by which blocks must differ, allowing for all places where a regime could change.
APART = 5.3


def is_clock(x: Float[np.ndarray, "time"], times: Float[np.ndarray, "time"] | None = None) -> bool:
    """Return whether a column is a clock: a straight line or staircase over rows or times.

    Examples are row numbers, identifiers given in order, a second clock, or the year of monthly
    rows. The residual of a straight line must be rounding, or at most one step of a staircase whose
    steps are multiples of one height.
    """
    there = np.isfinite(x)
    x = x[there]
    if len(x) < FEWEST or len(np.unique(x)) < 3:
        return False
    rises = np.diff(x)
    rises = rises if x[-1] > x[0] else -rises
    if not (rises >= 0).all():
        return False
    stair = float(rises[rises > 0].min())
    printed = rounding_of((x,))
    rows = np.flatnonzero(there).astype(float)
    for at in [rows] if times is None else [rows, times[there]]:
        at, values = at - at.mean(), x - x.mean()
        off = np.abs(values - at * (at @ values / (at @ at))).max()
        rounding = 1e-6 * np.ptp(x) + 4 * np.finfo(float).eps * np.abs(x).max()
        level = np.abs((rises / stair + 0.5) % 1 - 0.5).max() < 1e-6
        stairs = np.ptp(x) > 4.5 * stair and level and off <= 1.01 * stair
        if off <= rounding or off <= 0.55 * min(printed, np.ptp(x) / 10) or stairs:
            return True
    return False


def starts_again(x: Float[np.ndarray, "time"]) -> bool:
    """Return whether a column counts in equal steps and restarts from its minimum at about the same
    height, such as the hour of the day or an index from 0 to 255.
    """
    steps = np.diff(x)
    rises, falls = steps[steps > 0], steps[steps < 0]
    seldom = 0 < 2 * len(falls) < len(rises) == len(steps) - len(falls) and len(steps) > FEWEST
    equal = seldom and (rises == rises[0]).all() and falls.max() < 0.85 * falls.min()
    return bool(equal and (x[1:][steps < 0] == x.min()).all())


def is_event(x: Float[np.ndarray, "time"]) -> bool:
    """Return whether a column records events: at most two values, or one that most samples have."""
    _, counts = np.unique(x[np.isfinite(x)], return_counts=True)
    return 0 < len(counts) <= 2 or bool(counts.max(initial=0) > 0.5 * counts.sum())


def rests_at_zero(x: Float[np.ndarray, "time"]) -> bool:
    """Return whether a column is often zero and never negative, like rain, counts and power."""
    x = x[np.isfinite(x)]
    return bool(len(x) and x.min() == 0 and (x == 0).mean() > RESTS)


class Turn(NamedTuple):
    """An angle that wraps around after a full turn.

    - `seam`: where it wraps around.
    - `share`: share of the sum of squared steps that vanishes if steps go the shorter way round.
    """

    seam: float
    share: float


def wrapping_angle(x: Float[np.ndarray, "time"]) -> Turn | None:
    """Return the turn of a column of degrees or radians that wraps around; None if it does not.

    Such a column lies within one turn that begins at zero or half a turn below, nearly fills it,
    and most of its movement from sample to sample is jumps from one end to the other.
    """
    there = x[np.isfinite(x)]
    steps = np.diff(x)
    steps = steps[np.isfinite(steps)]
    square = float(steps @ steps)
    if min(len(there), len(steps)) < FEWEST or not square > 0:
        return None
    low, high = float(there.min()), float(there.max())
    for size in TURNS:
        shorter = (steps + size / 2) % size - size / 2
        share, rounding = 1 - float(shorter @ shorter) / square, 2e-3 * size
        for seam in (0.0, -size / 2):
            within = low >= seam - rounding and high <= seam + size + rounding
            if within and high - low > ROUND * size and share > SMALLER:
                return Turn(seam, share)
    return None


def is_pulse(x: Float[np.ndarray, "time"]) -> bool:
    """Return whether events are rare and last about one sample, so unknown between samples."""
    known = x[np.isfinite(x)]
    values, counts = np.unique(known, return_counts=True)
    if not len(known) or counts.max() < RARE * len(known):
        return False
    active = runs(known != values[np.argmax(counts)])
    return len(active) > 2 and float(np.mean(np.diff(active, axis=1))) < 2


def codes_of(values: Sequence[np.ndarray], elsewhere: Sequence[float] = ()) -> tuple[float, ...]:
    """Return the codes for missing values in a variable: numbers that programs commonly write for
    them, that occur at least twice and lie beyond all other values by more than their range.

    Any other whole number is a code if it repeats more often, lies much further from the other
    values, and does not look like a measurement: it is negative, or the other values are not all
    whole. A code found `elsewhere` in the record also counts if it is the only negative value.
    """
    pooled = np.concatenate(values)
    found, counts = np.unique(pooled[np.isfinite(pooled)], return_counts=True)
    nines = np.array([NINES.fullmatch(f"{x:.15g}") is not None for x in found], bool)
    codes = nines | np.isin(found, [*CODES, *elsewhere]) | (np.abs(found) >= HUGE)
    codes = codes & (counts > 1) & (_distance_in_ranges(found, found[~codes]) > CODE_APART)
    rest = found[~codes]
    if len(rest) > FEWEST:
        for end, others in ((rest[0], rest[1:]), (rest[-1], rest[:-1])):
            strange = end < 0 or (end > 0 and (others % 1 != 0).any())
            strange &= end % 1 == 0 and counts[found == end][0] >= OFTEN
            alone = end < 0 <= others[0] and end in elsewhere
            codes |= (found == end) & (
                alone or strange & (_distance_in_ranges(end, others) > STRANGE_APART)
            )
    return tuple(found[codes].tolist())


def _distance_in_ranges(x: Any, others: Float[np.ndarray, "value"]) -> Any:
    """Return how far a number lies beyond others, in units of their range; 0 for few others."""
    if len(others) < 3:
        return 0.0 * x
    low, high = others.min(), others.max()
    return np.maximum(low - x, x - high) / (high - low)


def find_spikes(x: Float[np.ndarray, "time dim"]) -> Bool[np.ndarray, "time dim"]:
    """Return where single values are spikes that no continuous path would produce.

    A value is a spike if its distance from the median of its two neighbours on either side exceeds
    ten times the typical distance (the larger of the median over 0.67 and the 90 % quantile over
    1.64, as for normal distances) and four times the range of three of the four. A burst of several
    samples, which a system can produce, is not a spike. Variables that record events, rest at zero,
    wrap around like an angle, or jump from sample to sample anyway have none.
    """
    found = np.zeros(x.shape, bool)
    if len(x) < FEWEST:
        return found
    around = np.sort(np.stack([x[:-4], x[1:-3], x[3:-1], x[4:]]), axis=0)
    distance = np.abs(x[2:-2] - (around[1] + around[2]) / 2)
    # One of the four may be a spike itself.
    spread = np.minimum(around[3] - around[1], around[2] - around[0])
    with np.errstate(invalid="ignore"):
        for j in range(x.shape[1]):
            there = np.isfinite(distance[:, j]) & np.isfinite(spread[:, j])
            if (
                there.sum() < FEWEST
                or is_event(x[:, j])
                or rests_at_zero(x[:, j])
                or wrapping_angle(x[:, j])
            ):
                continue
            far = distance[there, j]
            typical = max(np.median(far) / 0.6745, np.quantile(far, 0.9) / 1.645)
            low, high = np.nanquantile(x[:, j], [0.16, 0.84])
            if typical > SMOOTH * (high - low) / 2:
                continue
            floor = 1e-9 * np.nanmax(np.abs(x[:, j]))
            found[2:-2, j] = there & (distance[:, j] > FAR * typical + floor)
            found[2:-2, j] &= distance[:, j] > RANGES * spread[:, j]
    return found


def find_isolated_outliers(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return where single values of recordings `[time dim]` are outliers that their variable
    forgets at once, `[time dim]` each.

    Dynamical noise lasts, however large: the next value remembers it, at least as much as it
    remembers a usual large value. A measurement error leaves no trace (Fox, 1972: additive and
    innovational outliers). The values after all outliers of a variable are therefore tested
    together. Of a variable whose values hardly depend on the previous ones only gross errors are
    found, and none of variables that record events, rest at zero or wrap around like an angle.
    """
    apart = np.full((1, values[0].shape[1]), np.nan)
    joined = np.concatenate([part for x in values for part in (x, apart)])
    found = np.zeros(joined.shape, bool)
    for j, x in enumerate(joined.T):
        if np.isfinite(x).sum() < FEWEST:
            continue
        low, middle, high = np.nanquantile(x, [0.16, 0.5, 0.84])
        if not high > low:
            continue
        z = 2 * (x - middle) / (high - low)
        far = np.abs(np.nan_to_num(z)) > OUTLYING
        if not far.any() or is_event(x) or rests_at_zero(x) or wrapping_angle(x):
            continue
        single = far & ~np.roll(far, 1) & ~np.roll(far, -1)
        found[:, j] = single & (np.abs(z) > GROSS)
        # The next value, in the direction of each value; NaN for the last of a recording.
        after = np.sign(z) * np.clip(np.roll(z, -1), -LARGE[1], LARGE[1])
        usual = (np.abs(z) > LARGE[0]) & (np.abs(z) < LARGE[1]) & np.isfinite(after)
        if usual.sum() < FEWEST:
            continue
        lasting, variance = after[usual].mean(), after[usual].var()
        remembered = np.abs(z) * lasting / np.abs(z[usual]).mean()
        found[:, j] |= single & (np.abs(z) > FORGOTTEN) & (remembered > OUTLYING)
        outliers = after[single & np.isfinite(after)]
        nats = lasting * (lasting / 2 - outliers).sum() / max(variance, 1e-3)
        if lasting > 0 and nats > CLEARLY:
            found[:, j] = single
    ends = np.cumsum([len(x) + 1 for x in values])[:-1]
    return [part[:-1] for part in np.split(found, ends)]


def have_responses(
    values: Sequence[np.ndarray], spikes: Sequence[np.ndarray]
) -> Bool[np.ndarray, "dim"]:
    """Return the variables whose spikes are not errors, because other variables move more before or
    after them than in their neighbourhood (Mann and Whitney, 1947).

    Movements at the sample of the spike itself do not count: a logger may fail for all variables.
    """
    found = np.zeros(values[0].shape[1], bool)
    columns = np.flatnonzero(np.concatenate(spikes).any(axis=0))
    if not len(columns):
        return found
    from scipy.stats import mannwhitneyu  # takes most of a second to import

    each = [(linearly_interpolated(x), gone) for x, gone in zip(values, spikes, strict=True)]
    for j in columns:
        chances = []
        for late in [*range(1, NEAR + 1), *range(-NEAR, 0)]:
            parts = [_moves(x, gone[:, j], late) for x, gone in each]
            here, around = (np.concatenate(part) for part in zip(*parts, strict=True))
            here, around = (np.delete(part, j, axis=1) for part in (here, around))
            if here.size and around.size:
                test = mannwhitneyu(here, around, alternative="greater", method="asymptotic")
                chances.append(np.nan_to_num(test.pvalue, nan=1.0))
        found[j] = np.size(chances) > 0 and bool(np.min(chances) * np.size(chances) < CHANCE)
    return found


def _moves(
    x: Float[np.ndarray, "time dim"], spikes: Bool[np.ndarray, "time"], late: int
) -> tuple[Float[np.ndarray, "spike dim"], Float[np.ndarray, "place dim"]]:
    """Return how far variables move `late` samples after spikes (before them if negative), and at
    places around the spikes.
    """
    first, last = (-1, late) if late > 0 else (late - 1, -1)
    inner = np.arange(NEAR + 1, len(x) - NEAR - 1)
    moved = np.abs(x[inner + last] - x[inner + first])
    apart = np.arange(2 * NEAR, 2 * NEAR + AROUND // 2)
    around = np.flatnonzero(spikes)[:, None] + np.concatenate([-apart, apart])
    beside = np.bincount(around[(around >= 0) & (around < len(x))], minlength=len(x))[inner]
    here = spikes[inner]
    return moved[here], np.repeat(moved, np.where(here, 0, beside), axis=0)


# ---- trends and steps in blocks of a record ----


def correlation_time(x: Float[np.ndarray, "time"], longest: int) -> int | None:
    """Return the first lag, in samples, at which the autocorrelation of a record has fallen to 1/e;
    None if there is none below `longest`.
    """
    spectrum = np.abs(np.fft.rfft(x - x.mean(), 2 * len(x))) ** 2
    correlation = np.fft.irfft(spectrum)[:longest]
    below = np.flatnonzero(correlation < correlation[0] / np.e)
    return int(below[0]) if len(below) and correlation[0] > 0 else None


def blocks(x: Float[np.ndarray, "time"]) -> Float[np.ndarray, "block sample"] | None:
    """Return a record cut into blocks of several correlation times; None if fewer than eight."""
    n = len(x)
    time = correlation_time(x, n)
    count = 0 if time is None else n // max(TIMES_PER_BLOCK * time, n // MOST_BLOCKS, 8)
    return None if count < FEWEST_BLOCKS else x[: n // count * count].reshape(count, -1)


def standard_errors(fitted, values, degrees: int) -> float:
    """Return by how many standard errors a pattern in block means differs from zero; correlated
    neighbouring blocks count as fewer.
    """
    from scipy.special import stdtr

    rest = values - fitted
    pattern = fitted - fitted.mean()
    square = float(rest @ rest)
    if not square > 1e-24 * float(values @ values):
        return np.inf if float(pattern @ pattern) > 0 else 0.0
    alike = min(max(float(rest[1:] @ rest[:-1]) / square, 0.0), 0.9)
    size = np.sqrt(float(pattern @ pattern) / (square / (len(values) - degrees)))
    # Converted from Student's t to normal: with few blocks their scatter itself is uncertain.
    size = size * np.sqrt((1 - alike) / (1 + alike))
    chance = np.log(max(float(stdtr(len(values) - degrees, -size)), 1e-300))
    return float(np.sqrt(max(-2 * chance - np.log(max(-4 * np.pi * chance, 1.0)), 0.0)))


class Trends(NamedTuple):
    """The linear trends of variables: by how many standard `errors` they differ from zero, and
    their `shares` of the variance of the samples, both `[dim]`.
    """

    errors: Float[np.ndarray, "dim"]
    shares: Float[np.ndarray, "dim"]


def trends(x: Float[np.ndarray, "time dim"]) -> Trends:
    """Return the linear trends of complete, equally spaced samples.

    A trend shows in the means of long blocks. In a system with long memory, slow fluctuations hide
    it there. It then shows in short blocks of the errors of one-step predictions from the past of
    all variables. That counts only if the past pulls the variable back, unlike a random walk
    (Ericsson and MacKinnon, 2002, whose limits also grow with the number of variables), and if time
    explains the steps beside that past: a variable that follows a random walk with drift is pulled
    back, too, but has no trend of its own.
    """
    if len(x) < FEWEST:
        return Trends(*np.zeros((2, x.shape[1])))
    pull, of_time, news = _prediction_errors(x)
    errors, of_news = (np.array([_errors_of_trend(c) for c in each.T]) for each in (x, news))
    shown = (pull < -(4 + x.shape[1] / 2)) & (np.minimum(of_news, of_time) > IN_NEWS)
    errors[shown] = np.maximum(errors, of_news)[shown]
    variance = x.var(axis=0)
    rises = np.array([np.var(line(level)) for level in x.T])
    return Trends(errors, rises / np.where(variance > 0, variance, 1))


def _errors_of_trend(x: Float[np.ndarray, "time"]) -> float:
    """Return by how many standard errors the linear trend of the block means differs from zero; 0
    if a step fits better or the record is too short.
    """
    cut = blocks(x - line(x)) if len(x) else None
    if cut is None:
        return 0.0
    means = x[: cut.size].reshape(cut.shape).mean(axis=1)
    fitted, step = line(means), best_step(means)[1]
    if np.sum((means - step) ** 2) < np.sum((means - fitted) ** 2):
        return 0.0
    return standard_errors(fitted, means, 2)


class PredictionErrors(NamedTuple):
    """Regressions of steps on the past of all variables and on time: by how many standard errors
    the level of each variable `pulls` it back and `time` moves it, `[dim]`, and the `steps` minus
    their prediction from the past, in standard deviations of the samples, `[step dim]`; no steps if
    there are too few for the columns. Squares and cubes of levels count as past, but not for pulls.
    """

    pulls: Float[np.ndarray, "dim"]
    time: Float[np.ndarray, "dim"]
    steps: Float[np.ndarray, "step dim"]


def _prediction_errors(x: Float[np.ndarray, "time dim"]) -> PredictionErrors:
    """Return the errors of one-step predictions, `[time dim]` samples."""
    n, dim = x.shape
    if n < 4 * ((PAST + 2) * dim + 2):
        return PredictionErrors(np.zeros(dim), np.zeros(dim), np.zeros((0, dim)))
    steps, linear, past, time = steps_and_past(x)
    pulls = np.diag(_regressed(steps, linear, time).errors)
    found = _regressed(steps, past, time)
    of_past = past @ found.coefficients[: past.shape[1]]
    return PredictionErrors(pulls, np.abs(found.errors[past.shape[1]]), steps - of_past)


class StepsAndPast(NamedTuple):
    """The `steps` to the next sample, `[step dim]`, and what may explain them: the `linear` past,
    levels first, the whole `past` with squares and cubes of the levels, and `time`, `[step 1]`.
    """

    steps: Float[np.ndarray, "step dim"]
    linear: Float[np.ndarray, "step column"]
    past: Float[np.ndarray, "step more"]
    time: Float[np.ndarray, "step 1"]


def steps_and_past(x: Float[np.ndarray, "time dim"]) -> StepsAndPast:
    """Return the steps of standardised samples, and their past. With squares and cubes a system
    that moves from one well to another has no trend or shift.
    """
    z = (x - np.nanmean(x, axis=0)) / divisor(np.nanstd(x, axis=0))
    rises = np.diff(z, axis=0)
    steps, level = rises[PAST - 1 :], z[PAST - 1 : -1]
    before = [rises[PAST - 1 - lag : -lag] for lag in range(1, PAST)]
    linear = np.concatenate([level, *before], axis=1)
    past = np.concatenate([linear, level**2, level**3], axis=1)
    return StepsAndPast(steps, linear, past, np.linspace(-1, 1, len(steps))[:, None])


class _Regressed(NamedTuple):
    """The coefficients of a regression, and their sizes in standard `errors`."""

    coefficients: Float[np.ndarray, "column target"]
    errors: Float[np.ndarray, "column target"]


def _regressed(steps, past, time) -> _Regressed:
    """Return the regression of steps on the past, on time and on a constant."""
    columns = np.concatenate([past, time, np.ones_like(time)], axis=1)
    inverse = np.linalg.pinv(columns.T @ columns, hermitian=True)
    found = inverse @ (columns.T @ steps)
    variance = (steps - columns @ found).var(axis=0)
    return _Regressed(
        found, found / np.sqrt(np.maximum(np.diag(inverse)[:, None] * variance, 1e-300))
    )


def line(x: Float[np.ndarray, "time"]) -> Float[np.ndarray, "time"]:
    """Return the least-squares straight line."""
    time = np.arange(len(x)) - (len(x) - 1) / 2
    return x.mean() + time * (time @ x / (time @ time))


def best_step(values: Float[np.ndarray, "time"]) -> tuple[int, Float[np.ndarray, "time"]]:
    """Return the best split of a record into two levels, at least an eighth from either end, and
    the levels.
    """
    n = len(values)
    total = np.cumsum(values)
    places = np.arange(max(n // 8, 2), n - max(n // 8, 2) + 1)
    left, right = total[places - 1] / places, (total[-1] - total[places - 1]) / (n - places)
    gain = places * left**2 + (n - places) * right**2
    best = int(np.argmax(gain))
    place = int(places[best])
    return place, np.where(np.arange(n) < place, left[best], right[best])


def period_of(x: Float[np.ndarray, "time"]) -> int | None:
    """Return the period, in samples, of a variable that repeats itself up to rounding, as a
    schedule does; None if it does not, or for fewer than three periods.
    """
    from scipy.fft import irfft, rfft

    n, most = len(x), len(x) // 3
    if most < 2 or not np.ptp(x) > 0:
        return None
    z, periods = (x - x.mean()) / x.std(), np.arange(1, most + 1)
    along = irfft(np.abs(rfft(z, 2 * n)) ** 2, 2 * n)[periods]
    square = np.cumsum(z**2)
    # Sums of squared differences: the squares of both parts, minus twice their products.
    apart = square[n - 1 - periods] + square[-1] - square[periods - 1] - 2 * along
    near = periods[apart < 1e-6 * n][:4].tolist()
    return next((p for p in near if np.allclose(z[p:], z[:-p], rtol=0, atol=1e-9)), None)
