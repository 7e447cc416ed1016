"""Figures of effects, interactions, forecasts, interventions and series (matplotlib, `plot`).

No pyplot; colours are safe for colour-blind readers. In surfaces, blue lowers the rate, vermilion
raises it, and white does neither. Hatched cells hold no data. A point marks a cell whose 90 %
interval excludes zero, so that colour is not the only sign. In curves, blue is without a change,
vermilion with it, and black is measured.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Real, Shaped
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from .._checks import argument_error, check_names, check_real_array
from .._types import Checked
from .._wording import amount, percent
from ..samples._dates import dates_after
from ._graphs import LINE, figure_for, short_names, wrapped

_COLOURS = LinearSegmentedColormap.from_list("interaction", ["#0072B2", "#FFFFFF", "#D55E00"])
# Most surfaces in one figure, and the least share of a rate's variance that one must explain.
_MOST, _LEAST = 12, 0.01
# Characters per line beside a panel.
HIGH = 30


def _check(value: Any, name: str, has: str, made_by: str) -> None:
    if not hasattr(value, has) or isinstance(value, type):
        raise argument_error(name, f"what {made_by} returns", value)


def draw_surface(surface: Any) -> FigureBase:
    """Draw the joint effect of two sources on a rate, beyond the curve of each."""
    fig = figure_for(None, 4.4, 3.6)
    _draw(fig, fig.add_subplot(), surface)
    return fig


def plot_interactions(interactions: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the surfaces of pairs that explain more than 1 % of the variance of a rate, largest
    first. The title gives the number of pairs that explain less, or are omitted beyond twelve.

    - `interactions`: the result of `found.effects().interactions()`.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    _check(interactions, "interactions", "above", "found.effects().interactions()")
    rows = interactions.above(_LEAST)
    shown = rows[:_MOST]
    fig, lines, columns = _grid(fig, len(shown), 3.6, 3.0)
    for k, (first, first_lag, second, second_lag, target, *_) in enumerate(shown):
        surface = interactions.effects.surface(first, second, target, first_lag, second_lag)
        _draw(fig, fig.add_subplot(lines, columns, k + 1), surface)
    smaller, more = len(interactions) - len(rows), len(rows) - len(shown)
    said = [f"{more} smaller ones not shown"] if more else []
    said += [f"{smaller} pairs below 1 %"] if smaller else []
    title = "interactions, beyond both curves" if shown else "no pair carries 1 % of a rate"
    fig.suptitle("; ".join([title, *said]), fontsize=10)
    return fig


def _grid(
    fig: FigureBase | None, n: int, width: float, height: float
) -> tuple[FigureBase, int, int]:
    """Return a figure with room for `n` panels, and its numbers of rows and columns."""
    columns = min(4, max(n, 1))
    lines = max(-(-n // columns), 1)
    return figure_for(fig, width * columns, height * lines + 0.4), lines, columns


def _short(*names: str) -> dict[str, str]:
    """Return each name as figures show it."""
    each = list(dict.fromkeys(names))
    return dict(zip(each, short_names(each), strict=True))


def _draw(fig: FigureBase, ax: Axes, surface: Any) -> None:
    most = np.nanmax(np.abs(surface.z))
    most = most if most > 0 else 1.0
    ax.patch.set(hatch="////", edgecolor="#BBBBBB", facecolor="#F4F4F4")
    z = np.ma.masked_invalid(surface.z.T)
    mesh = ax.pcolormesh(surface.x, surface.y, z, cmap=_COLOURS, vmin=-most, vmax=most)
    sure = np.nan_to_num((surface.low > 0) | (surface.high < 0)).astype(bool)
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in (surface.x, surface.y)]
    at = np.nonzero(sure & np.isfinite(surface.z))
    ax.plot(middles[0][at[0]], middles[1][at[1]], ".", color="#333333", markersize=2.5)
    unit = f" (per {surface.time_unit})" if surface.time_unit else ""
    bar = fig.colorbar(mesh, ax=ax)
    short = _short(surface.first[0], surface.second[0], surface.target)
    bar.set_label(wrapped(f"rate of {short[surface.target]}{unit}", HIGH), fontsize=8)
    bar.ax.tick_params(labelsize=7)
    shares = surface.share, surface.share_low, surface.share_high
    share, low, high = (percent(x, 1) for x in shares)
    ax.set_title(f"{share} of its variance ({low}–{high})", fontsize=8, color="#555555")
    for label, (name, lag) in ((ax.set_xlabel, surface.first), (ax.set_ylabel, surface.second)):
        label(wrapped(short[name] + ago(lag), HIGH), fontsize=8)
    ax.tick_params(labelsize=7)


# Quantiles of paths: the median, and the ends of 50 and 90 % intervals.
_ENDS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
_OWN, _CHANGED, _MEASURED = "#0072B2", "#D55E00", "#000000"
# Most curves in one figure; the others have smaller slopes.
_MOST_CURVES = 24
# Measured samples shown before a forecast: number per step of the forecast, and least number.
_PAST_SHARE, _PAST_LEAST = 1, 20


def plot_effects(effects: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the curve of every kept edge with its 90 % interval, largest effects first.

    A tick below marks each slice of the data. The title of a panel gives the share of resamples
    that contain the edge. At most 24 curves are shown; the title of the figure gives the number
    omitted.

    - `effects`: the result of `found.effects()`.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    _check(effects, "effects", "curve", "found.effects()")
    rows = effects.rows()
    shown = rows[:_MOST_CURVES]
    fig, lines, columns = _grid(fig, len(shown), 2.9, 2.3)
    unit, short = effects.found.time_unit, _short(*(name for row in rows for name in row[:2]))
    for k, (source, target, lag, *_, share) in enumerate(shown):
        ax = fig.add_subplot(lines, columns, k + 1)
        try:
            x, y, low, high = effects.curve(source, target, lag)
        except ValueError as error:
            ax.text(0.5, 0.5, str(error), ha="center", va="center", wrap=True, fontsize=7)
            ax.set_axis_off()
            continue
        ax.axhline(0, color="#999999", linewidth=0.6)
        ax.fill_between(x, low, high, color=_OWN, alpha=0.25, linewidth=0)
        ax.plot(x, y, color=_OWN, linewidth=1.6)
        ax.plot(x, np.zeros_like(x), "|", color="#555555", markersize=5, clip_on=False,
                transform=ax.get_xaxis_transform())  # fmt: skip
        ax.set_title(f"in {share:.0%} of resamples", fontsize=8, color="#555555")
        per = f" (per {unit})" if unit else ""
        ax.set_xlabel(wrapped(short[source] + ago(lag, effects.found.dt, unit), HIGH), fontsize=8)
        ax.set_ylabel(wrapped(f"rate of {short[target]}{per}", HIGH), fontsize=8)
        ax.tick_params(labelsize=7)
    more = f"; {len(rows) - len(shown)} smaller ones not shown" if len(rows) > len(shown) else ""
    title = "no edge kept" if not rows else f"effects on rates, 90 % intervals{more}"
    fig.suptitle(title, fontsize=10)
    return fig


def ago(lag: int, dt: float = 1.0, time_unit: str = "") -> str:
    """Return how long ago a source is read: a time if its unit is known, samples otherwise."""
    if not lag:
        return ""
    time = amount(float(lag * dt), time_unit) if time_unit else amount(float(lag), "sample")
    return f", {time} ago"


def plot_forecast(forecast: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the end of the record, the median of the paths, and their 50 and 90 % intervals, with
    one panel per variable.

    - `forecast`: the result of `found.forecast(...)`.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    _check(forecast, "forecast", "quantile", "found.forecast(...)")
    ends = np.asarray(forecast.quantile(_ENDS))
    fig = figure_for(fig, 8.0, 1.6 * len(forecast.names) + 0.8)
    axes = fig.subplots(len(forecast.names), 1, sharex=True, squeeze=False)[:, 0]
    names = short_names(forecast.names)
    for i, ax in enumerate(axes):
        _past(ax, forecast, i)
        _fan(ax, _dated(forecast, forecast.ts), ends[:, :, i], _OWN, "median, 50 and 90 %")
        ax.set_ylabel(wrapped(names[i], LINE), fontsize=9)
        ax.tick_params(labelsize=7)
    axes[-1].set_xlabel(_time_label(forecast.time_unit, forecast.start), fontsize=9)
    axes[0].legend(fontsize=7, frameon=False, loc="upper left")
    return fig


def plot_intervention(intervention: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot paths with and without a change on the left, and the effect on the right, with one row
    per variable.

    - `intervention`: the result of `found.intervene(...)`.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    _check(intervention, "intervention", "effect", "found.intervene(...)")
    dim, names = len(intervention.names), short_names(intervention.names)
    fig = figure_for(fig, 9.0, 1.8 * dim + 0.6)
    axes = np.asarray(fig.subplots(dim, 2, sharex=True, squeeze=False))
    effect, times = np.asarray(intervention.effect(_ENDS)), _dated(intervention, intervention.ts)
    both = (intervention.baseline, _OWN, "without"), (intervention.changed, _CHANGED, "with")
    for i, (left, right) in enumerate(axes):
        for paths, colour, label in both:
            ends = np.quantile(np.asarray(paths)[:, :, i], _ENDS, axis=0, method="weibull")
            left.fill_between(times, ends[0], ends[4], color=colour, alpha=0.2, lw=0)
            left.plot(times, ends[2], color=colour, linewidth=1.5, label=label)
        right.axhline(0, color="#999999", linewidth=0.6)
        _fan(right, times, effect[:, :, i], _CHANGED, "effect")
        left.set_ylabel(wrapped(names[i], LINE), fontsize=9)
        left.tick_params(labelsize=7)
        right.tick_params(labelsize=7)
    axes[0, 0].set_title("without and with, 90 % intervals", fontsize=9)
    axes[0, 1].set_title("effect, same noise: median, 50 and 90 %", fontsize=9)
    axes[0, 0].legend(fontsize=7, frameon=False, loc="upper left")
    for ax in axes[-1]:
        ax.set_xlabel(_time_label(intervention.time_unit, intervention.start), fontsize=9)
    return fig


def _dated(result: Any, times: np.ndarray) -> np.ndarray:
    """Return times as dates if these are known."""
    return dates_after(result.start, times, result.time_unit) if result.start else times


def _time_label(unit: str, start: str = "") -> str:
    """Return the label of a time axis; empty for dates."""
    return "" if start else f"time ({unit})" if unit else "time"


def _past(ax: Axes, forecast: Any, i: int) -> None:
    """Plot the last measurements, up to the first step."""
    n = min(len(forecast.history), max(_PAST_SHARE * len(forecast.ts), _PAST_LEAST))
    step = forecast.ts[1] - forecast.ts[0] if len(forecast.ts) > 1 else 1.0
    times = _dated(forecast, forecast.ts[0] - step * np.arange(n, 0, -1))
    ax.plot(times, forecast.history[-n:, i], color=_MEASURED, linewidth=1.0, label="measured")


def _fan(ax: Axes, ts, ends, colour: str, label: str) -> None:
    """Plot five quantiles as two bands and a line."""
    ax.fill_between(ts, ends[0], ends[4], color=colour, alpha=0.18, linewidth=0)
    ax.fill_between(ts, ends[1], ends[3], color=colour, alpha=0.3, linewidth=0)
    ax.plot(ts, ends[2], color=colour, linewidth=1.6, label=label)


def plot_trajectories(
    t: Checked[Shaped[ArrayLike, "time"]],
    x: Checked[Real[ArrayLike, "time dim"]],
    names: Checked[Sequence[str]],
    *,
    units: Checked[Sequence[str] | None] = None,
    time_unit: str = "",
    fig: FigureBase | None = None,
) -> FigureBase:
    """Plot one strip per variable over a shared time axis; missing values leave gaps.

    `t` holds numbers or `datetime64` stamps. Raises ValueError if `names` or `units` do not fit.

    >>> t = np.linspace(0, 6, 50)
    >>> figure = plot_trajectories(t, np.stack([np.sin(t), np.cos(t)], axis=1), ("sin", "cos"))
    """
    check_real_array(x, "x", "[time dim]")
    t, x = np.asarray(t), np.asarray(x)
    if x.ndim != 2 or 0 in x.shape:
        raise argument_error("x", "[time dim], with at least one sample and variable", x)
    if t.shape != x.shape[:1] or t.dtype.kind not in "fiuM":
        raise argument_error("t", f"one number or datetime64 stamp for each of {len(x)} samples", t)
    names = short_names(check_names(names, x.shape[1]))
    if units is not None:
        if isinstance(units, str) or not isinstance(units, Sequence):
            raise argument_error("units", "a sequence of words, one per variable", units)
        if len(units) != x.shape[1]:
            raise ValueError(f"units must be {x.shape[1]}, one per variable; got {len(units)}.")
    fig = figure_for(fig, 8.0, 0.8 + 0.95 * x.shape[1])
    axes = fig.subplots(x.shape[1], 1, sharex=True, squeeze=False)[:, 0]
    for j, ax in enumerate(axes):
        ax.plot(t, x[:, j], color="#0072B2", linewidth=0.9)
        unit = f"\n({units[j]})" if units is not None else ""
        ax.set_ylabel(wrapped(names[j], LINE) + unit, rotation=0, ha="right", va="center")
        ax.yaxis.set_major_locator(MaxNLocator(3))
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.01)
    fig.align_ylabels(axes)
    if not np.issubdtype(t.dtype, np.datetime64):
        axes[-1].set_xlabel(_time_label(time_unit))
    return fig
