"""Tests of raw samples before anything is fitted: closed forms in NumPy, well below a second.

Each is designed not to fire on a system's own oscillations, bursts, chaos or slow noise.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._types import divisor
from ..samples._columns import (
    PAST,
    best_step,
    blocks,
    line,
    period_of,
    standard_errors,
    steps_and_past,
)
from ..samples._gaps import runs

# Largest lag at which a column is tested as a copy of another.
COPY_LAGS = 24
# Fewest changes that show how small changes get, and a share of their median. Where changes of all
# sizes occur, the smallest exceeds that share in at most one record in a thousand.
CHANGES, BAND = 50, 0.3
# For running means: the largest reach before and after a sample, the number of windows used, the
# largest share of the variance that rounding leaves, and the relative tolerance of the weights.
REACH, WINDOWS, LEFT, UNEVEN = 31, 600, 1e-4, 0.1
# For variables set by hand or by a controller: the smallest share of samples that repeat the one
# before, how much further than one step they move (per share of moving samples), and the number of
# steps at which a move is capped.
RESTS, MOVES, FAR = 0.45, 2.0, 4.0
# The same for variables that are moved along ramps and rest between them, and the smallest share of
# their moves that follow another.
RAMPS = 0.3, 0.9
# Fewest samples of a recording whose mean counts, fewest such recordings, and the largest
# autocorrelation at one sample.
LEAST_OF_RECORDING, LEAST_RECORDINGS, MOST_MEMORY = 40, 4, 0.995
# Number of lags at which levels are compared, and the largest lag up to which correlations are
# summed; both suffice for long recordings.
COMPARED, SUMMED = 16, 200
# For a constant level: the smallest ratio of what it keeps over half of a recording to what it
# keeps over a sixth of it.
KEPT = 0.75
# For shifts of the level of a variable: fewest rows and rows per column of a regression on the
# past, places that are tried, and the most lags of Bartlett's weights, which allow for what the
# past leaves correlated.
ROWS, ROWS_EACH, PLACES, BARTLETT = 200, 8, 49, 100


def regime_change(x: Float[np.ndarray, "time"]) -> tuple[float, str, float]:
    """Return the clearest change of a mean, spread, noise or memory between two parts of a record.

    The result is the size in standard errors, what changes, and where (a share of the record).
    """
    best = (0.0, "", 0.0)
    step = best_step(x)[1]
    cut = blocks(x - step)
    if cut is None:
        return best
    count = len(cut)
    whole = x[: len(x) // count * count].reshape(count, -1)
    increments = np.diff(whole, axis=1)
    spread = np.maximum(cut.var(axis=1), 1e-300)
    noise = np.maximum((np.diff(increments, axis=1) ** 2).mean(axis=1), 1e-300)
    # An autocorrelation, bounded where a block hardly moves and steps are lost in rounding.
    steps = (increments**2).mean(axis=1)
    memory = 1 - steps / np.maximum(2 * spread, steps / 4)
    features = {
        "mean": whole.mean(axis=1),
        "spread": np.log(spread),
        "size of its steps": np.log(noise),
        "memory": memory,
    }
    for name, values in features.items():
        place, fitted = best_step(values)
        if name == "mean" and np.sum((values - line(values)) ** 2) < np.sum((values - fitted) ** 2):
            continue  # a trend
        errors = standard_errors(fitted, values, 3)
        if errors > best[0]:
            best = (errors, name, place / count)
    return best


class Shifts(NamedTuple):
    """The clearest shift of each level: its size in standard `errors`, the `heights` that
    its rate makes up for, in standard deviations of the level, and its `places` in the record, from
    0 to 1, all `[dim]`.
    """

    errors: Float[np.ndarray, "dim"]
    heights: Float[np.ndarray, "dim"]
    places: Float[np.ndarray, "dim"]


def shifts(x: Float[np.ndarray, "time dim"]) -> Shifts:
    """Return the clearest step in the part of each rate that the past of all variables misses.

    A sensor that was recalibrated, or a law that changed, shows here although its step is smaller
    than the slow changes that the past explains. The past enters with its squares and cubes and
    with a trend, so that a nonlinear system that moves to another state shows none. Rows with
    missing values are left out. Too short records have no shift.
    """
    n, dim = x.shape
    none = Shifts(np.zeros(dim), np.zeros(dim), np.zeros(dim))
    if n <= PAST or not np.isfinite(x).any(axis=0).all():
        return none
    rates, linear, past, time = steps_and_past(x)
    design = np.concatenate([np.ones_like(time), time, past], axis=1)
    known = np.isfinite(design).all(axis=1) & np.isfinite(rates).all(axis=1)
    rows = int(known.sum())
    if rows < max(ROWS, ROWS_EACH * design.shape[1]):
        return none
    basis, triangle = np.linalg.qr(design[known])
    basis = basis[:, np.abs(np.diag(triangle)) > 1e-8 * np.sqrt(rows)]
    left = rates[known] - basis @ (basis.T @ rates[known])
    places = np.unique(np.linspace(rows // 8, rows - rows // 8, PLACES).astype(int))
    late = (np.arange(rows)[:, None] >= places).astype(float)
    late -= basis @ (basis.T @ late)
    squares = divisor((late**2).sum(axis=0))
    heights = late.T @ left / squares[:, None]
    best = np.argmax(heights**2 * squares[:, None], axis=0)
    pattern, height = late[:, best], heights[best, np.arange(dim)]
    scores = pattern * (left - pattern * height)
    spread = (scores**2).sum(axis=0)
    total, reach = spread.copy(), min(rows // 8, BARTLETT)
    for lag in range(1, reach + 1):
        total += 2 * (1 - lag / (reach + 1)) * (scores[lag:] * scores[:-lag]).sum(axis=0)
    errors = np.abs(height) * squares[best] / divisor(np.sqrt(np.maximum(total, spread)))
    linear = design[known][:, : 2 + linear.shape[1]]
    returns = np.diag(np.linalg.lstsq(linear, rates[known])[0][2 : 2 + dim])
    heights = np.abs(height / np.where(returns == 0, 1, returns))
    return Shifts(errors, heights, (np.flatnonzero(known)[places[best]] + PAST - 1) / n)


def inside(
    before: Float[np.ndarray, "time dim"],
    after: Float[np.ndarray, "time dim"],
    waves: Float[np.ndarray, "time wave"],
) -> float:
    """Tell a season that drives the system (negative) from one added to the samples (positive).

    The next step is regressed on the last four samples, their squares and cubes: once for samples
    without the season, and once for samples with it, with its waves as further columns. The linear
    parts of the two are the same. If the season is part of the state, the second describes the
    nonlinearity. The result is the difference of the log residual variances, averaged over the
    variables.
    """
    alone = _unexplained(after, np.zeros((len(after), 0)))
    beside = _unexplained(before, waves)
    return float(np.mean(np.log(beside / alone)))


def _unexplained(x, waves) -> Float[np.ndarray, "dim"]:
    """Return the residual variance of a step given a polynomial of the past, in sample units."""
    z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    past = np.concatenate([z[3 - lag : len(z) - 1 - lag] for lag in range(4)], axis=1)
    design = np.concatenate(
        [np.ones((len(past), 1)), past, past**2, past**3, waves[3 : len(z) - 1]], axis=1
    )
    basis = np.linalg.qr(design)[0]
    step = np.diff(x, axis=0)[3:]
    rest = step - basis @ (basis.T @ step)
    return np.maximum(rest.var(axis=0), 1e-300) / max(1 - design.shape[1] / len(design), 0.1)


def unit_root(x: Float[np.ndarray, "time"], order: int = 4) -> float:
    """Return the Dickey–Fuller statistic; above −1.7 no restoring force can be shown.

    It uses four lagged differences and a constant (Journal of the American Statistical Association,
    1979).
    """
    change = np.diff(x)
    n = len(change) - order
    if n < 10 * order:
        return -np.inf
    design = np.stack(
        [
            x[order:-1],
            np.ones(n),
            *(change[order - k : order - k + n] for k in range(1, order + 1)),
        ],
        axis=1,
    )
    y = change[order:]
    scale = np.linalg.norm(design, axis=0)
    design = design / np.where(scale > 0, scale, 1)
    # The inverse below has the square of this condition number.
    coefficients, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-7)
    rest = y - design @ coefficients
    variance = rest @ rest / max(n - design.shape[1], 1)
    if rank < design.shape[1] or not variance > 1e-20 * (y @ y) / n:
        return -np.inf  # a path without noise follows from its past: not a random walk
    error = np.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0])
    return float(coefficients[0] / error)


def quantum(x: Float[np.ndarray, "time"]) -> float:
    """Return the step of which all differences are multiples; 0 if there is none."""
    values = np.unique(x)
    if len(values) < 2 or len(values) > len(x) / 2:
        return 0.0
    gaps = np.diff(values)
    size = float(gaps.min())
    if not size > 1e-9 * (values[-1] - values[0]):
        return 0.0
    multiple = gaps / size
    return size if (np.abs(multiple - np.round(multiple)) < 1e-3 * multiple).all() else 0.0


def is_set(x: Float[np.ndarray, "time"]) -> bool:
    """Return whether a variable is set, like an actuator or a switch, and not measured.

    Such a variable has two values, or it mostly rests. When it moves, it moves further than a
    rounded variable that rests as often, at irregular intervals, or along ramps.
    """
    values, change = np.unique(x), np.diff(x)
    if len(values) == 2:
        return True
    moved = change != 0
    rests = 1 - float(moved.mean()) if len(change) else 0.0
    step = quantum(x)
    if len(values) < 2 or not moved.any():
        return False
    if step > 0:
        # Rounding: if the mean change is s steps, a value moves with a probability of about s, and
        # then by less than 1 + s steps on average. A few large moves may be spikes.
        size = float(np.minimum(np.abs(change[moved]) / step, FAR).mean())
        far = rests > RESTS and size > 1 + MOVES * (1 - rests) and not slower_clock(x, 1)
        return far or (rests > RAMPS[0] and consecutive_change_share(x) > RAMPS[1])
    # Held readings change at fixed intervals.
    gaps = np.diff(np.flatnonzero(moved))
    if rests < RESTS or len(gaps) < 5 or consecutive_change_share(x) > 0.5:
        return False
    shortest = max(int(gaps.min()), 2)
    return float((gaps % shortest == 0).mean()) < 0.9


def clipped(x: Float[np.ndarray, "time"]) -> float:
    """Return the share of samples exactly at the largest or smallest value of a record.

    It is 0 if the record repeats another value as often.
    """
    values, counts = np.unique(x, return_counts=True)
    if len(values) < 10:
        return 0.0
    inner = counts[1:-1].max()
    ends = [count for count in (counts[0], counts[-1]) if count >= max(5, 4 * inner)]
    return float(sum(ends) / len(x))


def _product(x: Float[np.ndarray, "time"], lag: int) -> float:
    """Return the mean product of values `lag` samples apart; 0 without any."""
    both = x[lag:] * x[: max(len(x) - lag, 0)]
    return float(np.nanmean(both)) if np.isfinite(both).any() else 0.0


def baselines(recordings: Sequence[np.ndarray]) -> tuple[float, float]:
    """Return the spread of the means of recordings `[time]`, in standard deviations within them,
    and the probability of a spread as large if all have one mean.

    The probability is that of an F test. The variance of a mean is that of a first-order
    autoregression with the autocorrelation within recordings, corrected for their length (Kendall,
    *Biometrika* 41, 1954), or that given by the sum of all autocorrelations, whichever is larger. A
    variable that merely moves slowly keeps less of its level over half a recording than over a
    sixth of one; the probability is then 1.
    """
    from scipy.special import fdtrc  # takes a moment to import

    kept = [x for x in recordings if np.isfinite(x).sum() >= LEAST_OF_RECORDING]
    if len(kept) < LEAST_RECORDINGS:
        return 0.0, 1.0
    counts = np.array([np.isfinite(x).sum() for x in kept])
    means = np.array([np.nanmean(x) for x in kept])
    centred = [np.nan_to_num(x - mean) for x, mean in zip(kept, means, strict=True)]
    total, n = counts.sum(), counts.mean()
    level = counts @ means / total
    near, far = (
        np.mean([_product(x - level, k) for x in kept for k in np.unique(lags).tolist()])
        for lags in np.linspace([n / 8, n / 2], [n / 4, 3 * n / 4], COMPARED).astype(int).T
    )
    if not far > KEPT * near or not near > 0:
        return 0.0, 1.0
    variance = sum(float(x @ x) for x in centred) / total
    if not variance > 0:
        return 0.0, 1.0
    reach = min(int(n) // 4, SUMMED)
    seen = np.array(
        [
            sum(float(x[:-k] @ x[k:]) for x in centred if len(x) > k) / (total * variance)
            for k in range(1, reach + 1)
        ]
    )
    first = min(seen[0] + (1 + 3 * max(seen[0], 0)) / n, MOST_MEMORY)
    low = np.flatnonzero(seen < 2 / np.sqrt(total))
    memory = 1 + 2 * float(seen[: low[0] if len(low) else reach].sum())
    memory = max(memory, (1 + first) / (1 - first), 1.0)
    own = variance / (1 - min(memory / n, 0.8))  # subtracting the means has reduced it
    between = counts @ (means - level) ** 2 / (len(kept) - 1)
    spare = max(total / memory - len(kept), 1.0)
    chance = float(fdtrc(len(kept) - 1, spare, between / (own * memory)))
    return float(means.std() / np.sqrt(variance)), chance


class Run(NamedTuple):
    """The longest run of one value: its first sample, its length, and the share of all samples that
    repeat the one before.
    """

    start: int
    length: int
    repeats: float


def longest_run(x: Float[np.ndarray, "time"]) -> Run:
    """Return the longest run of one value."""
    same = np.diff(x) == 0
    if not same.any():
        return Run(0, 1, 0.0)
    start, stop = max(runs(same), key=np.ptp)
    return Run(int(start), int(stop - start) + 1, float(same.mean()))


def consecutive_change_share(x: Float[np.ndarray, "time"]) -> float:
    """Return the share of changes that directly follow another; zero in a held record."""
    changed = np.diff(x) != 0
    return float((changed[1:] & changed[:-1]).sum() / max(changed.sum(), 1))


def deadband(x: Float[np.ndarray, "time"]) -> float:
    """Return the smallest change that is recorded, as by a plant historian.

    It is 0 if smaller changes occur too, so that the smallest change is far below the usual one, or
    if the record steps between few values.
    """
    changes = np.abs(np.diff(x))
    changes = changes[changes > 0]
    if len(changes) < CHANGES or len(np.unique(changes)) < len(changes) / 2:
        return 0.0
    least = float(changes.min())
    return least if least > BAND * np.median(changes) else 0.0


# Periods of a slower clock that are looked for, in samples; the share of all squared changes that
# must fall on its ticks; and how much larger a typical change there must be than elsewhere.
SLOWEST, ON_TICKS, LARGER = 12, 0.9, 4.0


def slower_clock(x: Float[np.ndarray, "time"], order: int) -> int:
    """Return the period, in samples, of the clock at whose ticks the values (`order` 1) or slopes
    (2) of a variable change, also if they were rounded since; 0 if there is none.
    """
    changes = np.diff(x, n=order) ** 2
    total = changes.sum()
    for period in range(2, SLOWEST + 1):
        each = changes[: len(changes) // period * period].reshape(-1, period)
        if len(each) < CHANGES or not total > 0:
            break
        tick = int(np.argmax(each.sum(axis=0)))
        rest = np.delete(each, tick, axis=1).mean()
        if each[:, tick].sum() > ON_TICKS * total and np.median(each[:, tick]) > LARGER * rest:
            return period if period_of(x) is None else 0
    return 0


# Second differences, in units of the resolution, below which equal steps may come from rounding. Of
# sums of two sines that were rounded, up to .6 of the steps equal the one before, and nearly as
# many the one before that: the shares differ by up to .15.
ROUNDED, BY_ROUNDING, MOST_EQUAL = 5.0, 0.25, 0.65


def straight_share(x: Float[np.ndarray, "time"]) -> float:
    """Return the share of samples exactly on a sloping line through their neighbours, beyond
    chance, since whole numbers have many equal steps, and so have smooth records that are rounded.
    """
    steps, size = np.diff(x), np.abs(x).max()
    if len(steps) < 3:
        return 0.0
    moves = np.abs(steps) > 1e-7 * size
    if period := slower_clock(x, 2):
        return 1 - 1 / period

    def equal(apart: int) -> float:
        same = np.abs(steps[apart:] - steps[:-apart]) < 1e-9 * size
        return float((same & moves[:-apart]).mean())

    share, unit = equal(1), 1e-9 * divisor(size)
    alike = np.unique(np.round(steps[moves] / unit), return_counts=True)[1]
    chance = float(np.sum((alike / len(steps)) ** 2))
    bends, gaps = np.abs(np.diff(steps)), np.diff(np.unique(np.round(x / unit)))
    bends = bends[bends >= unit]
    rounded = len(bends) > 0 and np.median(bends) < ROUNDED * gaps.min() * unit
    if rounded and share < MOST_EQUAL:
        beyond = share - max(chance, equal(2))
        return beyond if beyond > BY_ROUNDING else 0.0
    return max(share - chance, 0.0)


def copies(x: Float[np.ndarray, "time dim"]) -> list[tuple[int, int, int, float]]:
    """Return columns that are copies of earlier ones: `(column, of, lag, unexplained share)`.

    At lag 0 the levels must correlate by at least .995 and their difference must have no memory.
    Later copies must be exact to 1e-3 of the variance in levels, and close in steps: a variable
    that follows another closely is driven by it, and is not a copy.
    """
    z = _standardised(x)
    steps = _standardised(np.diff(x, axis=0))
    pairs = np.triu(~np.eye(x.shape[1], dtype=bool)) & z.any(axis=0)[:, None] & z.any(axis=0)[None]
    found, rest = [], 1 - (z.T @ z / len(z)) ** 2
    for i, j in np.argwhere(pairs & (rest < 0.01)):
        left = z[:, j] - np.sign(z[:, i] @ z[:, j]) * z[:, i]
        # The errors of a second sensor are new at every sample. The difference between two
        # variables that move together is not.
        if rest[i, j] < 1e-5 or _correlation(left[1:], left[:-1]) < 0.5:
            found.append((int(j), int(i), 0, max(float(rest[i, j]), 0.0)))
    apart = rest >= 0.01
    for lag in range(1, min(COPY_LAGS, len(x) // 10) + 1):
        level = 1 - (z[:-lag].T @ z[lag:] / (len(z) - lag)) ** 2
        step = 1 - (steps[:-lag].T @ steps[lag:] / (len(steps) - lag)) ** 2
        for i, j in np.argwhere((pairs | pairs.T) & apart & (level < 2e-3) & (step < 0.02)):
            exact = 1 - _correlation(z[lag:, j], z[:-lag, i]) ** 2
            if exact < 1e-3:
                found.append((int(j), int(i), lag, max(exact, 0.0)))
                apart[i, j] = False
    return found


def _correlation(a, b) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0


def running_means(x: Float[np.ndarray, "time dim"]) -> list[tuple[int, int, int]]:
    """Return columns that are means of neighbouring samples of others: `(column, of, samples)`.

    Each column is regressed on another one, up to `REACH` samples before and after. It is a mean if
    consecutive samples have equal weights, all others none, and the residual is negligible.
    """
    n, found = min(len(x), WINDOWS), list[tuple[int, int, int]]()
    if n < 6 * REACH:
        return found
    start = (len(x) - n) // 2
    z = _standardised(x[start : start + n])
    for i in np.flatnonzero(z.any(axis=0)).tolist():
        around = np.lib.stride_tricks.sliding_window_view(z[:, i], 2 * REACH + 1)
        around, rest = around - around.mean(axis=0), z[REACH : n - REACH]
        rest = rest - rest.mean(axis=0)
        gram = around.T @ around
        gram += 1e-9 * np.trace(gram) * np.eye(len(gram))  # a ridge, for smooth columns
        weights = np.linalg.solve(gram, around.T @ rest)
        left = np.var(rest - around @ weights, axis=0) / divisor(np.var(rest, axis=0))
        others = (left < LEFT) & z.any(axis=0) & (np.arange(z.shape[1]) != i)
        for j in np.flatnonzero(others).tolist():
            large = weights[:, j] > 0.5 * np.abs(weights[:, j]).max()
            width = int(large.sum())
            if not 1 < width < len(large) or np.ptp(np.flatnonzero(large)) >= width:
                continue
            level = weights[large, j].mean()
            if np.abs(weights[:, j] - level * large).max() < UNEVEN * level:
                found.append((j, i, width))
    return found


def combination(x: Float[np.ndarray, "time dim"]) -> tuple[float, Bool[np.ndarray, "dim"]]:
    """Return the smallest share of variance along a direction of three or more standardised
    columns, and which columns these are.
    """
    nothing = 1.0, np.zeros(x.shape[1], bool)
    if x.shape[1] < 3:
        return nothing
    z = _standardised(x)
    values, vectors = np.linalg.eigh(z.T @ z / len(z))
    involved = np.abs(vectors[:, 0]) > 0.1
    if involved.sum() < 3:
        return nothing
    # The steps must agree too: a slow movement shared by all columns is not a combination.
    steps = np.diff(z, axis=0) @ vectors[:, 0]
    share = float(steps.var() / (np.diff(z, axis=0).var(axis=0) @ vectors[:, 0] ** 2))
    return max(float(values[0]), share), involved


def _standardised(x):
    centred = x - x.mean(axis=0)
    scale = centred.std(axis=0)
    return np.where(scale > 0, centred / np.where(scale > 0, scale, 1), 0)


def returns(x: Float[np.ndarray, "time dim"]) -> float:
    """Return how closely a record repeats itself.

    This is the largest autocorrelation, averaged over the variables, after it has first fallen
    below one half.
    """
    z = _standardised(x)
    n = len(z)
    spectrum = np.abs(np.fft.rfft(z, 2 * n, axis=0)) ** 2
    correlation = np.fft.irfft(spectrum, axis=0)[: n // 2].sum(axis=1)
    correlation = correlation / np.maximum(n - np.arange(n // 2), 1) / max(x.shape[1], 1)
    below = np.flatnonzero(correlation < 0.5)
    return float(correlation[below[0] :].max()) if len(below) else 0.0
