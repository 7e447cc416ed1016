"""Irregular time stamps brought onto a regular grid, so that a lag means one delay."""

import numpy as np
from jaxtyping import Float

# Stamps this close to whole multiples of one interval, as a share of it, are a grid with rows
# missing.
ON_GRID = 2e-3
# Longest hole, in typical intervals, that interpolation bridges.
LONGEST_HOLE = 2.5


def common_step(times: tuple[np.ndarray, ...]) -> float | None:
    """The interval of which all others are whole multiples, None if there is none."""
    pooled = np.concatenate([np.diff(stamps) for stamps in times])
    step = float(np.median(pooled))
    small = pooled[pooled < 1.5 * pooled.min()]
    for candidate in (step, float(np.mean(small))):
        multiple = pooled / candidate
        if (np.abs(multiple - np.round(multiple)) <= ON_GRID * np.maximum(multiple, 1)).all():
            whole = np.round(multiple)
            if (whole >= 1).all() and whole.sum() <= 4 * len(whole):
                return float(pooled.sum() / whole.sum())
    return None


def around_a_grid(times: Float[np.ndarray, "time"]) -> bool:
    """Whether stamps lie around a regular grid, none nearer to another of its points."""
    count = np.arange(len(times))
    step, start = np.polyfit(count, times, 1)
    return bool(np.abs(times - start - step * count).max() < step / 2)


def with_rows(
    x: Float[np.ndarray, "time dim"], times: Float[np.ndarray, "time"], step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"]]:
    """The same samples on a grid that has a row for every time; NaN where there was none."""
    row = np.concatenate([[0], np.cumsum(np.round(np.diff(times) / step).astype(int))])
    values = np.full((row[-1] + 1, x.shape[1]), np.nan)
    values[row] = x
    return values, times[0] + step * np.arange(len(values))


def interpolated(
    x: Float[np.ndarray, "time dim"], times: Float[np.ndarray, "time"], step: float
) -> tuple[Float[np.ndarray, "row dim"], Float[np.ndarray, "row"], Float[np.ndarray, "dim"]]:
    """Samples on a grid of this step, its times, and the variance of the error.

    Per variable a cubic spline or straight lines, whichever finds every other value, left out, from
    the rest with the smaller error. That error belongs to twice the interval: a fourth of its
    variance, for paths that noise drives half of it, is what the grid has. The half is taken.
    Grid points in holes wider than 2.5 intervals are NaN.
    """
    from scipy.interpolate import CubicSpline

    grid = times[0] + step * np.arange(int((times[-1] - times[0]) / step * (1 + 1e-12)) + 1)
    values = np.full((len(grid), x.shape[1]), np.nan)
    error = np.zeros(x.shape[1])
    for j, column in enumerate(x.T):
        there = np.isfinite(column)
        at, known = times[there], column[there]
        if len(known) < 8:
            continue
        kept, left = np.arange(0, len(at), 2), np.arange(1, len(at) - 1, 2)
        straight = np.interp(at[left], at[kept], known[kept]) - known[left]
        curved = CubicSpline(at[kept], known[kept])(at[left]) - known[left]
        straight, curved = np.mean(straight**2), np.mean(curved**2)
        spline = curved < straight
        values[:, j] = CubicSpline(at, known)(grid) if spline else np.interp(grid, at, known)
        error[j] = min(straight, curved) / 2
        after = np.clip(np.searchsorted(at, grid), 1, len(at) - 1)
        hole = at[after] - at[after - 1] > LONGEST_HOLE * step
        on_sample = np.minimum(np.abs(grid - at[after]), np.abs(grid - at[after - 1])) < 1e-9 * step
        values[(hole & ~on_sample) | (grid > at[-1]) | (grid < at[0]), j] = np.nan
    return values, grid, error
