"""Strips of measured series over a shared time axis."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import ArrayLike, Real, Shaped
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

from .._checks import check_names, check_real_array, refusal
from .._types import Checked


def plot_trajectories(
    t: Checked[Shaped[ArrayLike, "time"]],
    x: Checked[Real[ArrayLike, "time dim"]],
    names: Checked[Sequence[str]],
    *,
    units: Checked[Sequence[str] | None] = None,
    time_unit: str = "",
    fig: FigureBase | None = None,
) -> FigureBase:
    """Plot one strip for each variable over a shared time axis; missing values leave gaps.

    `t` holds numbers or `datetime64` stamps. Raises ValueError if `names` or `units` do not fit.

    >>> t = np.linspace(0, 6, 50)
    >>> figure = plot_trajectories(t, np.stack([np.sin(t), np.cos(t)], axis=1), ("sin", "cos"))
    """
    check_real_array(x, "x", "[time dim]")
    t, x = np.asarray(t), np.asarray(x)
    if x.ndim != 2 or 0 in x.shape:
        raise refusal("x", "[time dim], with at least one sample and variable", x)
    if t.shape != x.shape[:1] or t.dtype.kind not in "fiuM":
        raise refusal("t", f"one number or datetime64 stamp for each of {len(x)} samples", t)
    names = check_names(names, x.shape[1])
    if units is not None:
        if isinstance(units, str) or not isinstance(units, Sequence):
            raise refusal("units", "a sequence of words, one per variable", units)
        if len(units) != x.shape[1]:
            raise ValueError(f"units must be {x.shape[1]}, one per variable; got {len(units)}.")
    if fig is None:
        fig = Figure(figsize=(8.0, 0.8 + 0.95 * x.shape[1]), layout="constrained")
    axes = fig.subplots(x.shape[1], 1, sharex=True, squeeze=False)[:, 0]
    for j, ax in enumerate(axes):
        ax.plot(t, x[:, j], color="#0072B2", linewidth=0.9)
        unit = f"\n({units[j]})" if units is not None else ""
        ax.set_ylabel(names[j] + unit, rotation=0, ha="right", va="center")
        ax.yaxis.set_major_locator(MaxNLocator(3))
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.01)
    fig.align_ylabels(axes)
    if not np.issubdtype(t.dtype, np.datetime64):
        axes[-1].set_xlabel(f"time ({time_unit})" if time_unit else "time")
    return fig
