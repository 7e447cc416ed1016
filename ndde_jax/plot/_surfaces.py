"""Pictures of the interactions of two sources (matplotlib, extra `plot`).

Blue lowers the rate, vermilion raises it, and white does neither; hatched cells hold no data. A
point marks a cell whose 90 % interval excludes zero, so that colour is not all there is to see.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, FigureBase

from .._checks import refusal
from .._spoken import amount, percent

_COLOURS = LinearSegmentedColormap.from_list("interaction", ["#0072B2", "#FFFFFF", "#D55E00"])
# Surfaces on one figure, and the least share of a rate's variance that one of them carries.
_MOST, _LEAST = 12, 0.01


def plot_surface(surface: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the joint effect of two sources on a rate, beyond the curve of each.

    Cells without data are hatched; a point marks those whose 90 % interval excludes zero.

    - `surface`: what `found.effects().surface(...)` returns.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    if not hasattr(surface, "share_low") or isinstance(surface, type):
        raise refusal("surface", "what found.effects().surface(...) returns", surface)
    if fig is None:
        fig = Figure(figsize=(4.4, 3.6), layout="constrained")
    _draw(fig, fig.add_subplot(), surface)
    return fig


def plot_interactions(interactions: Any, *, fig: FigureBase | None = None) -> FigureBase:
    """Plot the surfaces of pairs that carry more than 1 % of the variance of a rate, largest first;
    the title says how many carry less, or are left out beyond twelve.

    - `interactions`: what `found.effects().interactions()` returns.
    - `fig`: figure or subfigure to draw on; by default a new one.

    Raises ValueError for anything else.
    """
    if not hasattr(interactions, "above") or isinstance(interactions, type):
        raise refusal("interactions", "what found.effects().interactions() returns", interactions)
    rows = interactions.above(_LEAST)
    shown = rows[:_MOST]
    columns = min(4, max(len(shown), 1))
    lines = max(-(-len(shown) // columns), 1)
    if fig is None:
        fig = Figure(figsize=(3.6 * columns, 3.0 * lines + 0.4), layout="constrained")
    for k, (first, first_lag, second, second_lag, target, *_) in enumerate(shown):
        surface = interactions.effects.surface(first, second, target, first_lag, second_lag)
        _draw(fig, fig.add_subplot(lines, columns, k + 1), surface)
    smaller, more = len(interactions) - len(rows), len(rows) - len(shown)
    said = [f"{more} smaller ones not shown"] if more else []
    said += [f"{smaller} pairs below 1 %"] if smaller else []
    title = "interactions, beyond both curves" if shown else "no pair carries 1 % of a rate"
    fig.suptitle("; ".join([title, *said]), fontsize=10)
    return fig


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
    bar.set_label(f"rate of {surface.target}{unit}", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    share = (
        f"{percent(surface.share, 1)} of its variance "
        f"({percent(surface.share_low, 1)}–{percent(surface.share_high, 1)})"
    )
    ax.set_title(share, fontsize=8, color="#555555")
    for label, (name, lag) in ((ax.set_xlabel, surface.first), (ax.set_ylabel, surface.second)):
        label(name + (f", {amount(float(lag), 'sample')} ago" if lag else ""), fontsize=8)
    ax.tick_params(labelsize=7)
