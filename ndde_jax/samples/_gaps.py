"""Filling of short gaps: by a spline through the neighbours where paths are smooth, by a forecast
from previous samples where noise drives them.

A curve is the better estimate but the wrong one under noise: it contains half of the noise of the
next step, which a regression then finds in its inputs. A forecast uses only the past, so
regressions on it are unbiased (the error of Berkson, *Are there two regressions?*, Journal of the
American Statistical Association, 1950).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

# Paths are smooth up to this error of a curve through the neighbours, as a share of the variance of
# one-step increments.
SMOOTH = 0.1
# Longest gap that is filled, in samples; and how often the forecast is refitted to its own values.
LONGEST, ROUNDS = 5, 3
# Number of previous samples that the forecast uses.
ORDER = 2
# Longest gap, in typical intervals, that interpolation bridges.
LONGEST_HOLE = 2.5


def fill_gaps(
    x: Float[np.ndarray, "time dim"],
) -> tuple[Float[np.ndarray, "time dim"], Bool[np.ndarray, "time dim"], Float[np.ndarray, "dim"]]:
    """Return a trajectory with its short gaps filled, their positions, and the expected error.

    The error is measured on held-out values, one in twenty: its variance as a share of that of
    one-step increments, per variable. Gaps longer than five samples and gaps at the ends stay.
    """
    missing = np.isnan(x)
    short = missing & ~_long(missing)
    error = np.zeros(x.shape[1])
    if not short.any():
        return x, short, error
    held = np.zeros_like(missing)
    rows = np.arange(10, len(x) - 1)
    held[rows, rows % x.shape[1]] = rows // x.shape[1] % max(20 // x.shape[1], 2) == 0
    held &= ~missing
    for j in np.flatnonzero(~held.any(axis=0)):  # all are missing, as when every other value is
        held[np.flatnonzero(~missing[:, j])[10:-1:20], j] = True
    trial = np.where(held, np.nan, x)
    steps = np.diff(x, axis=0)
    unseen = np.isnan(steps).all(axis=0)  # no two values in succession
    steps[:, unseen] = np.diff(_curved(x, missing), axis=0)[:, unseen]
    increments = np.nanvar(steps, axis=0)
    hidden = missing | held
    curve, forecast = (_error(fill(trial, hidden), x, held) for fill in (_curved, _forecast))
    smooth = curve <= SMOOTH * increments
    error = np.where(smooth, curve, forecast) / np.where(increments > 0, increments, 1)
    filled = np.where(smooth[None], _curved(x, missing), _forecast(x, missing))
    return np.where(short, filled, x), short, error


def runs(there: Bool[np.ndarray, "time"]) -> Int[np.ndarray, "run 2"]:
    """Return the start and stop of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(int), [0]])))
    return edges.reshape(-1, 2)


def longest_run(there: Bool[np.ndarray, "time"]) -> slice:
    """Return the longest run of true values, empty if there is none."""
    found = np.concatenate([np.zeros((1, 2), int), runs(there)])
    return slice(*found[np.ptp(found, axis=1).argmax()].tolist())


class Stretch(NamedTuple):
    """A part of a variable without long gaps: the index of its `first` sample, and its values `x`,
    with short gaps bridged by straight lines.
    """

    first: int
    x: Float[np.ndarray, "time"]

    @classmethod
    def longest(cls, x: Float[np.ndarray, "time"]) -> "Stretch":
        """Return the longest stretch of a variable, empty if nothing is measured."""
        run = longest_run(~_long(~np.isfinite(x)[:, None])[:, 0])
        return cls(run.start, linearly_interpolated(x[run, None])[:, 0])


def linearly_interpolated(x: Float[np.ndarray, "time dim"]) -> Float[np.ndarray, "time dim"]:
    """Return values with straight lines over all gaps; zeros for a variable without values."""
    import pandas as pd

    filled = pd.DataFrame(x, dtype=float).interpolate(limit_direction="both")
    return np.array(filled.fillna(0.0), order="C")  # sums round in the order of memory


def _error(filled, x, held):
    square = np.where(held, (filled - np.where(held, x, 0)) ** 2, 0)
    return square.sum(axis=0) / np.maximum(held.sum(axis=0), 1)


def _long(missing: Bool[np.ndarray, "time dim"]) -> Bool[np.ndarray, "time dim"]:
    """Return which values lie in gaps that are too long or touch an end."""
    found = np.zeros_like(missing)
    for j, column in enumerate(missing.T):
        for start, stop in runs(column):
            found[start:stop, j] = stop - start > LONGEST or start == 0 or stop == len(column)
    return found


def _curved(x, missing):
    """Return a cubic spline through the measured values of each variable."""
    import pandas as pd

    frame = pd.DataFrame(np.where(missing, np.nan, x))
    for j in np.flatnonzero(missing.any(axis=0) & ((~missing).sum(axis=0) > 3)):
        frame[j] = frame[j].interpolate("cubicspline", limit_area="inside")
    return np.where(frame.isna(), x, frame)


def _forecast(x, missing):
    """Return a linear forecast from all variables at previous samples, refitted to the values that
    it fills.
    """
    filled = np.where(missing, np.nan, x)
    center = np.nanmean(filled, axis=0)
    scale = np.nanstd(filled, axis=0)
    scale = np.where(scale > 0, scale, 1)
    known = (filled - center) / scale
    z = linearly_interpolated(known)
    gaps = np.flatnonzero(missing[ORDER:].any(axis=1)) + ORDER
    for _ in range(ROUNDS):
        design = np.concatenate([z[ORDER - lag : len(z) - lag] for lag in range(1, ORDER + 1)], 1)
        coefficients = np.zeros((design.shape[1], x.shape[1]))
        for j, gone in enumerate(missing.T):
            rows = ~gone[ORDER:]
            gram = design[rows].T @ design[rows] + np.eye(design.shape[1])
            coefficients[:, j] = np.linalg.solve(gram, design[rows].T @ known[ORDER:][rows, j])
        for k in gaps:
            past = z[k - ORDER : k][::-1].ravel()
            z[k] = np.where(missing[k], past @ coefficients, z[k])
    return z * scale + center


# ---- irregular clocks ----


def around_a_grid(times: Float[np.ndarray, "time"]) -> bool:
    """Return whether each stamp is closest to its own point of a regular grid."""
    count = np.arange(len(times))
    step, start = np.polyfit(count, times, 1)
    return bool(np.abs(times - start - step * count).max() < step / 2)


def with_rows(
    x: Float[np.ndarray, "time dim"], count: np.ndarray, start: float, step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"]]:
    """Return samples on a grid with a row for every count; NaN where nothing was measured."""
    values = np.full((count[-1] + 1, x.shape[1]), np.nan)
    values[count] = x
    return values, start + step * np.arange(len(values))


def interpolated(
    x: Float[np.ndarray, "time dim"], times: Float[np.ndarray, "time"], step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"], Float[np.ndarray, "dim"]]:
    """Return samples interpolated to a grid of this step, its times, and the variance of the error.

    Each variable uses a cubic spline or straight lines, whichever predicts every other value,
    held out, with the smaller error. That error is for twice the interval. On the grid, a quarter
    of its variance remains for smooth paths, and half for paths driven by noise. Half is used. Grid
    points in holes wider than 2.5 intervals are NaN.
    """
    from scipy.interpolate import CubicSpline

    fits = (lambda at, known: lambda new: np.interp(new, at, known), CubicSpline)
    grid = times[0] + step * np.arange(int((times[-1] - times[0]) / step * (1 + 1e-12)) + 1)
    values = np.full((len(grid), x.shape[1]), np.nan)
    error = np.zeros(x.shape[1])
    for j, column in enumerate(x.T):
        there = np.isfinite(column)
        at, known = times[there], column[there]
        if len(known) < 8:
            continue
        kept, left = np.arange(0, len(at), 2), np.arange(1, len(at) - 1, 2)
        off = [fit(at[kept], known[kept])(at[left]) - known[left] for fit in fits]
        square = np.mean(np.square(off), axis=1)
        values[:, j] = fits[np.argmin(square)](at, known)(grid)
        error[j] = square.min() / 2
        after = np.clip(np.searchsorted(at, grid), 1, len(at) - 1)
        hole = at[after] - at[after - 1] > LONGEST_HOLE * step
        on_sample = np.minimum(np.abs(grid - at[after]), np.abs(grid - at[after - 1])) < 1e-9 * step
        values[(hole & ~on_sample) | (grid > at[-1]) | (grid < at[0]), j] = np.nan
    return values, grid, error
