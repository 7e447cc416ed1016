"""Pictures of effects, forecasts and interventions (matplotlib, extra `plot`).

As the other pictures: no pyplot, colours safe for colour-blind readers. Blue is what would happen,
vermilion what a change makes of it, black what was measured.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from .._checks import refusal
from .._spoken import amount
from ..samples._dates import dates_after

_OWN, _CHANGED, _MEASURED = "#0072B2", "#D55E00", "#000000"
# Curves on one figure; the others have smaller slopes.
_MOST_CURVES = 24
# Measured samples before a forecast, for each of its steps, and at least so many.
_PAST_SHARE, _PAST_LEAST = 1, 20


def plot_effects(effects: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the curve of every kept edge with its 90 % interval, largest effects first.

    A tick below marks each slice of the data. The title of a panel says in how many resamples the
    edge is found again. At most 24 curves; the title of the figure says how many are left out.

    - `effects`: what `found.effects()` returns.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    if not hasattr(effects, "curve"):
        raise refusal("effects", "what found.effects() returns", effects)
    rows = effects.rows()
    shown = rows[:_MOST_CURVES]
    columns = min(4, max(len(shown), 1))
    lines = max(-(-len(shown) // columns), 1)
    if fig is None:
        fig = Figure(figsize=(2.9 * columns, 2.3 * lines + 0.4), layout="constrained")
    unit = effects.found.time_unit
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
        ax.set_xlabel(source + ago(lag, effects.found), fontsize=8)
        ax.set_ylabel(f"rate of {target}" + (f" (per {unit})" if unit else ""), fontsize=8)
        ax.tick_params(labelsize=7)
    more = f"; {len(rows) - len(shown)} smaller ones not shown" if len(rows) > len(shown) else ""
    title = "no edge kept" if not rows else f"effects on rates, 90 % intervals{more}"
    fig.suptitle(title, fontsize=10)
    return fig


def ago(lag: int, found: Any) -> str:
    """Return how long ago a source is read: a time where its unit is known, samples otherwise."""
    if not lag:
        return ""
    if found.time_unit:
        return f", {amount(float(lag * found.dt), found.time_unit)} ago"
    return f", {amount(float(lag), 'sample')} ago"


def plot_forecast(forecast: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the end of the record, the median of the paths, and their 50 and 90 % intervals; a panel
    for each variable.

    - `forecast`: what `found.forecast(...)` returns.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    if not hasattr(forecast, "quantile"):
        raise refusal("forecast", "what found.forecast(...) returns", forecast)
    ends = np.asarray(forecast.quantile(np.array([0.05, 0.25, 0.5, 0.75, 0.95])))
    axes, fig = _panels(forecast, fig)
    for i, ax in enumerate(axes):
        _past(ax, forecast, i)
        _fan(ax, _dated(forecast, forecast.ts), ends[:, :, i], _OWN, "median, 50 and 90 %")
    axes[0].legend(fontsize=7, frameon=False, loc="upper left")
    return fig


def plot_intervention(intervention: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot paths with and without a change on the left, and the effect on the right; a row for each
    variable.

    - `intervention`: what `found.intervene(...)` returns.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    if not hasattr(intervention, "effect"):
        raise refusal("intervention", "what found.intervene(...) returns", intervention)
    dim, q = len(intervention.names), np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    if fig is None:
        fig = Figure(figsize=(9, 1.8 * dim + 0.6), layout="constrained")
    axes = np.asarray(fig.subplots(dim, 2, sharex=True, squeeze=False))
    effect, times = np.asarray(intervention.effect(q)), _dated(intervention, intervention.ts)
    for i, (left, right) in enumerate(axes):
        for paths, colour, label in (
            (intervention.baseline, _OWN, "without"),
            (intervention.changed, _CHANGED, "with"),
        ):
            ends = np.quantile(np.asarray(paths)[:, :, i], q[[0, 2, 4]], axis=0, method="weibull")
            left.fill_between(times, ends[0], ends[2], color=colour, alpha=0.2, lw=0)
            left.plot(times, ends[1], color=colour, linewidth=1.5, label=label)
        right.axhline(0, color="#999999", linewidth=0.6)
        _fan(right, times, effect[:, :, i], _CHANGED, "effect")
        left.set_ylabel(intervention.names[i], fontsize=9)
        left.tick_params(labelsize=7)
        right.tick_params(labelsize=7)
    axes[0, 0].set_title("without and with, 90 % intervals", fontsize=9)
    axes[0, 1].set_title("effect, same noise: median, 50 and 90 %", fontsize=9)
    axes[0, 0].legend(fontsize=7, frameon=False, loc="upper left")
    for ax in axes[-1]:
        ax.set_xlabel(_time_label(intervention), fontsize=9)
    return fig


def _dated(result: Any, times: np.ndarray) -> np.ndarray:
    """Return times as dates where these are known."""
    return dates_after(result.start, times, result.time_unit) if result.start else times


def _time_label(result: Any) -> str:
    if result.start:
        return ""
    return f"time ({result.time_unit})" if result.time_unit else "time"


def _panels(result: Any, fig: FigureBase | None):
    """Return axes below one another that share the time."""
    dim = len(result.names)
    if fig is None:
        fig = Figure(figsize=(8, 1.6 * dim + 0.8), layout="constrained")
    axes = np.asarray(fig.subplots(dim, 1, sharex=True, squeeze=False))[:, 0]
    for ax, name in zip(axes, result.names, strict=True):
        ax.set_ylabel(name, fontsize=9)
        ax.tick_params(labelsize=7)
    axes[-1].set_xlabel(_time_label(result), fontsize=9)
    return axes, fig


def _past(ax: Axes, forecast: Any, i: int) -> None:
    """Plot the last measurements, up to the first step."""
    n = min(len(forecast.history), max(_PAST_SHARE * len(forecast.ts), _PAST_LEAST))
    step = forecast.ts[1] - forecast.ts[0] if len(forecast.ts) > 1 else 1.0
    times = forecast.ts[0] - step * np.arange(n, 0, -1)
    times = _dated(forecast, times)
    ax.plot(times, forecast.history[-n:, i], color=_MEASURED, linewidth=1.0, label="measured")


def _fan(ax: Axes, ts, ends, colour: str, label: str) -> None:
    """Plot five quantiles as two bands and a line."""
    ax.fill_between(ts, ends[0], ends[4], color=colour, alpha=0.18, linewidth=0)
    ax.fill_between(ts, ends[1], ends[3], color=colour, alpha=0.3, linewidth=0)
    ax.plot(ts, ends[2], color=colour, linewidth=1.6, label=label)
