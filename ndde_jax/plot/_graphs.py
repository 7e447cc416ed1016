"""Figures of graphs: lag matrices, and arrows between nodes on a circle (matplotlib, `plot`).

Every function takes plain arrays, returns the figure or axes it drew on, and leaves matplotlib's
global state alone. Figures are made without pyplot: save them with `figure.savefig(...)`. A
notebook shows them after `%matplotlib inline`. Graphs and scores are `[source, target, lag]`.

Colours are safe for colour-blind readers: a blue ramp for scores, vermilion for kept edges, the
darker part of viridis for delays, and the palette of Okabe and Ito for variables.
"""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Bool, Real
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap, Normalize, PowerNorm, to_rgb
from matplotlib.figure import Figure, FigureBase
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from .._checks import argument_error, check_graph, check_names, check_positive, check_real_array
from .._types import Checked
from ..samples._trajectories import read_lags

_INK = "#222222"
_NODE = "#E8EEF4"
# Characters per line of the caption, per name, and per line of a name.
CAPTION, LONGEST, LINE = 60, 40, 20
_RING = 1.0  # radius of the circle of nodes; every other length is relative to it


class Edge(NamedTuple):
    """An arrow: all kept lags of one ordered pair of variables."""

    source: int
    target: int
    strength: float  # not negative
    colour: Any
    label: str
    unseen: bool = False  # dashed, with two heads: an unobserved variable drives both


def draw_process_graph(
    ax: Axes, edges: Sequence[Edge], names: Sequence[str], rims: Sequence[Any]
) -> int:
    """Draw nodes, arrows, loops and labels on `ax`; return the number of labels without room."""
    positions = _circle(len(names))
    radius = _node_radius(len(names))
    font = 10.0 if len(names) <= 8 else 9.0
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    for centre, rim in zip(positions, rims, strict=True):
        ax.add_patch(Circle(centre, radius, facecolor=_NODE, edgecolor=rim, lw=1.5, zorder=3))
    loops = {edge.source: edge for edge in edges if edge.source == edge.target}
    outside = _write_names(ax, positions, radius, names, loops, font)

    highest = max((edge.strength for edge in edges), default=0.0)
    pairs = {(edge.source, edge.target) for edge in edges}
    placed = [text.get_window_extent() for text in outside]
    placed += [_box_around(ax, centre, 0.9 * radius) for centre in positions]
    to_label = []
    # The strongest edge is drawn on top, and its label is placed first.
    for rank, edge in enumerate(sorted(edges, key=lambda edge: -edge.strength)):
        width = 0.9 + 2.6 * np.sqrt(edge.strength / highest) if highest > 0 else 1.5
        if edge.source == edge.target:
            curve = _loop(positions[edge.source], radius, len(names))
        else:
            both_ways = (edge.target, edge.source) in pairs
            curve = _clear_arc(positions, edge.source, edge.target, radius, both_ways)
            placed.append(_box_around(ax, curve[-1], 0.03))
            to_label += [(edge, curve)] if edge.label else []
        heads, line = ("<|-|>", "--") if edge.unseen else ("-|>", "-")
        style = dict(arrowstyle=heads, linestyle=line, mutation_scale=7 + 2.5 * width, lw=width)
        style |= dict(color=edge.colour, shrinkA=0, shrinkB=0, zorder=2 - 1e-3 * rank)
        ax.add_patch(FancyArrowPatch(path=Path(curve), capstyle="butt", **style))
    return sum(not _place(ax, curve, edge, placed, font - 1) for edge, curve in to_label)


def _circle(n: int) -> np.ndarray:
    """Return the centres `[n 2]`, clockwise from the top; two nodes lie side by side."""
    if n == 1:
        return np.zeros((1, 2))
    angle = (np.pi if n == 2 else np.pi / 2) - 2 * np.pi * np.arange(n) / n
    return _RING * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _node_radius(n: int) -> float:
    return 0.22 if n <= 2 else min(0.22, 0.33 * 2 * _RING * np.sin(np.pi / n))


def _outward(centre: np.ndarray, n: int) -> np.ndarray:
    """Return the direction of loops and labels: outwards, or upwards for one or two nodes."""
    return centre / np.hypot(*centre) if n > 2 else np.array([0.0, 1.0])


def _clear_arc(
    positions: np.ndarray, source: int, target: int, radius: float, both_ways: bool
) -> np.ndarray:
    """Return an arc that avoids all other nodes, bent towards the centre as far as needed."""
    start, end = positions[source], positions[target]
    others = np.delete(positions, [source, target], axis=0)
    across = end - start
    inward = -1.0 if np.array([across[1], -across[0]]) @ (start + end) > 1e-9 else 1.0
    # Two arrows between the same nodes bend to different sides, or by different amounts.
    first = 0.16 if both_ways else 0.07
    more = (0.55, 0.75, 0.95) if both_ways and source > target else (0.3, 0.45, 0.65, 0.85)
    for bend in (first, *(inward * bend for bend in more)):
        curve = _arc(start, end, radius, bend)
        gaps = np.hypot(*(curve[:, None] - others[None]).T)
        if gaps.min(initial=np.inf) > radius + 0.02:
            break
    return curve


def _arc(start: np.ndarray, end: np.ndarray, radius: float, bend: float) -> np.ndarray:
    """Return points `[k 2]` of a quadratic Bézier curve between the rims of two nodes."""
    across = end - start
    control = (start + end) / 2 + bend * np.array([across[1], -across[0]])
    s = np.linspace(0, 1, 400)[:, None]
    points = (1 - s) ** 2 * start + 2 * s * (1 - s) * control + s**2 * end
    free = np.hypot(*(points - start).T) > radius
    free &= np.hypot(*(points - end).T) > radius + 0.012
    return _thinned(points[free])


def _loop(centre: np.ndarray, radius: float, n: int) -> np.ndarray:
    """Return points of a loop on the outer side of a node, from rim to rim."""
    direction = _outward(centre, n)
    size = _loop_size(radius)
    middle = centre + direction * (radius + 0.45 * size)
    angle = np.arctan2(*direction[::-1]) + np.pi - np.linspace(0, 2 * np.pi, 200)
    points = middle + size * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return _thinned(points[np.hypot(*(points - centre).T) > radius + 0.008])


def _thinned(points: np.ndarray) -> np.ndarray:
    """Return about 40 of the points, including both ends.

    An arrow head takes its direction from the last two points, which must not be too close.
    """
    return points[np.linspace(0, len(points) - 1, min(len(points), 40)).round().astype(int)]


def _loop_size(radius: float) -> float:
    return 0.62 * radius


def _write_names(ax, positions, radius, names, loops, font) -> list[Text]:
    """Write names inside their nodes if all fit, else outside; delays of loops outside.

    Sets the limits of the axes to make room for the texts outside, and returns these texts.
    """
    n = len(names)
    style = {"ha": "center", "va": "center", "color": _INK, "zorder": 4}
    top_of_loop = radius + 1.45 * _loop_size(radius) + 0.02
    low, high = extent(n)
    _fit(ax, low, high)
    inside = [
        ax.text(*centre, wrapped(name), fontsize=font, **style)
        for centre, name in zip(positions, names, strict=True)
    ]
    widest = max(np.hypot(*text.get_window_extent().size) for text in inside)
    shrink = min(1.0, 2 * radius * _pixels_per_unit(ax) * 0.88 / widest)
    fits = font * shrink >= 6.5
    for text in inside:
        if fits:
            text.set_fontsize(font * shrink)
        else:
            text.remove()
    outside = []
    for node, (centre, name) in enumerate(zip(positions, names, strict=True)):
        delays = loops[node].label if node in loops else ""
        called = (wrapped(name, LINE), delays and f"self: {delays}")
        words = delays if fits else "\n".join(filter(None, called))
        if words:
            text = ax.text(*centre, words, fontsize=font - 1, **style)
            outside.append((text, centre, top_of_loop if node in loops else radius + 0.04))
    for _ in range(4):  # room for the texts changes the scale, which changes the room
        before = np.stack([low, high])
        for text, centre, distance in outside:
            half = text.get_window_extent().size / 2 / _pixels_per_unit(ax)
            direction = _outward(centre, n)
            # The whole box lies beyond the tangent of the loop.
            at = centre + direction * (distance + np.abs(direction) @ half)
            text.set_position(at)
            low = np.minimum(low, at - half - 0.03)
            high = np.maximum(high, at + half + 0.03)
        if np.array_equal((low, high), before):
            break
        _fit(ax, low, high)
    return [text for text, _, _ in outside]


def extent(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners `[2]` of the box around `n` nodes and their loops, with a small margin."""
    positions, radius = _circle(n), _node_radius(n)
    around = radius + 1.45 * _loop_size(radius) + 0.12
    low, high = positions.min(axis=0) - around, positions.max(axis=0) + around
    return np.minimum(low, -0.8), np.maximum(high, 0.8)


def _fit(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    # Text is measured in pixels, so the layout must be final before anything is placed.
    if figure := ax.get_figure(root=True):
        figure.draw_without_rendering()


def short_names(names: Sequence[str]) -> list[str]:
    """Return distinct names of at most 40 characters. Longer names keep their start and end; if
    these coincide, the part after their common prefix; or else their start, with their number.
    """
    long = [name for name in names if len(name) > LONGEST]
    letters = enumerate(zip(*long, strict=False))
    same, half = next((i for i, each in letters if len(set(each)) > 1), 0), LONGEST // 2
    for shorten in (
        lambda _, name: f"{name[:half]}…{name[1 - half :]}",
        lambda _, name: f"…{name[same : same + LONGEST - 1]}",
        lambda j, name: f"{j + 1}: {name[: LONGEST - 8]}…",
    ):
        found = [shorten(j, name) if name in long else name for j, name in enumerate(names)]
        if len(set(found)) == len(names):
            break
    return found


def wrapped(name: str, most: float | int = 7) -> str:
    """Return a name with more than `most` characters broken once, at the middlemost separator."""
    breaks = [i for i, character in enumerate(name) if character in " _-./"]
    if len(name) <= most or not breaks:
        return name
    at = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return name[: at + 1].rstrip() + "\n" + name[at + 1 :]


def _pixels_per_unit(ax: Axes) -> float:
    origin, one = ax.transData.transform([(0, 0), (1, 0)])
    return float(one[0] - origin[0])


def _box_around(ax: Axes, centre: np.ndarray, half: float) -> Bbox:
    return Bbox(ax.transData.transform([centre - half, centre + half]))


def _place(ax, curve, edge, placed: list[Bbox], font) -> bool:
    """Label an arrow on or beside its curve, at the first spot free of the boxes `placed`, and add
    the label to these; return False if there is no room.
    """
    tint = 0.7 * np.array(to_rgb(edge.colour))  # the colour of the arrow, darkened to be readable
    text = ax.text(0, 0, edge.label, ha="center", va="center", fontsize=font, color=tint, zorder=5)
    text.set_bbox({"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.85})
    half = text.get_window_extent().size / 2 + 2.0
    pixels = ax.transData.transform(curve)
    chord = pixels[-1] - pixels[0]
    along = chord / np.hypot(*chord)
    normal = np.array([-along[1], along[0]])
    aside = np.abs(normal) @ half + 2.0
    # On a short arrow, the label would hide the arrow and is placed beside it.
    hides = 2 * np.abs(along) @ half > 0.45 * np.hypot(*chord)
    offsets = [(0.0,), (aside, -aside)][:: -1 if hides else 1]
    for steps in offsets:
        for share in (0.5, 0.58, 0.42, 0.66, 0.34, 0.74, 0.26):
            for step in steps:
                at = pixels[int(share * (len(pixels) - 1))] + step * normal
                box = Bbox([at - half, at + half])
                if not any(box.overlaps(other) for other in placed):
                    text.set_position(ax.transData.inverted().transform(at))
                    placed.append(box)
                    return True
    text.remove()
    return False


_KEPT = "#D55E00"
_SCORES = colormaps["Blues"].with_extremes(bad="#DDDDDD")
_DELAYS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.75, 256)))
# Okabe & Ito, without the yellow, which is faint on white.
_SOURCES = "#0072B2 #D55E00 #009E73 #CC79A7 #000000 #56B4E9 #E69F00 #7F7F7F".split()
_MANY = 8  # more targets than this share one matrix, since their panels would be tiny
_MAX_MATRIX_WIDTH = 20.0  # inches
_PAGE = 4 / 3  # preferred ratio of width to height of a figure
_BAR = {"pad": 0.02, "fraction": 0.04, "panchor": False}


def plot_lag_matrix(
    scores: Checked[Real[ArrayLike, "source target lag"]],
    *,
    graph: Checked[Bool[ArrayLike, "source target lag"] | None] = None,
    lags: Checked[Sequence[int]],
    names: Checked[Sequence[str]],
    dt: Checked[float | None] = None,
    time_unit: Checked[str] = "",
    fig: FigureBase | None = None,
) -> FigureBase:
    """Plot the scores of all candidate edges: for each target, sources against lags.

    Up to eight targets get one panel each, with a shared colour scale. More targets, or a single
    lag, share one matrix: a row per target, and a block of lags per source.

    - `scores`: any score that grows with the evidence for an edge. NaN is drawn grey, and negative
        values like zero. The colour scale follows the square root, so that weak edges stay visible
        next to strong ones.
    - `graph`: kept edges, framed in vermilion; None for no frames.
    - `lags`: lags in samples; `dt` and `time_unit` convert them in the axis label.
    - `fig`: figure or subfigure to draw on; by default a new one, sized by the number of variables
        and lags.

    Raises ValueError if the arrays, `lags` and `names` do not fit together.

    >>> scores = np.zeros((2, 2, 3))
    >>> scores[0, 1, 2] = 1.0  # "wind" drives "sea" two samples later
    >>> figure = plot_lag_matrix(scores, graph=scores > 0, lags=(0, 1, 2), names=("wind", "sea"))
    """
    given = _checked(scores, graph, lags, names, dt, time_unit)
    width, height = _matrix_size(len(names), len(lags), _PAGE)
    return _draw_matrix(figure_for(fig, width, height), given, _PAGE)


def figure_for(fig: FigureBase | None, width: float, height: float) -> FigureBase:
    """Return the figure to draw on, by default a new one of this size in inches."""
    return Figure(figsize=(width, height), layout="constrained") if fig is None else fig


class _Candidates(NamedTuple):
    """The checked candidate edges of a figure."""

    scores: np.ndarray
    graph: np.ndarray | None
    lags: Sequence[int]
    names: Sequence[str]
    dt: float | None
    time_unit: str


def _draw_matrix(fig: FigureBase, given: _Candidates, page: float) -> FigureBase:
    dim, _, n_lags = given.scores.shape
    norm = PowerNorm(0.5, vmin=0.0, vmax=np.nanmax(given.scores, initial=0.0) or 1.0, clip=True)
    in_blocks, (columns, *_) = _in_blocks(dim, n_lags), _panels(dim, n_lags, page)
    axes = _draw_blocks(fig, given, norm) if in_blocks else _draw_panels(fig, given, norm, columns)
    if n_lags > 1:
        below = in_blocks or columns == 1
        write = axes[-1].set_xlabel if below else fig.supxlabel
        write(_lag_label(given.lags, given.dt, given.time_unit, in_blocks), fontsize=10)
    bar = fig.colorbar(ScalarMappable(norm, _SCORES), ax=axes, shrink=0.8, aspect=25, **_BAR)
    bar.set_label("score" + (" (framed: kept)" if given.graph is not None else ""))
    ticks = float(norm.vmax or 0) * np.linspace(0, 1, 5) ** 2  # even on the square-root scale
    bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
    return fig


def plot_process_graph(
    graph: Checked[Bool[ArrayLike, "source target lag"]],
    *,
    scores: Checked[Real[ArrayLike, "source target lag"] | None] = None,
    delays: Checked[Real[ArrayLike, "source target lag"] | None] = None,
    lags: Checked[Sequence[int]],
    names: Checked[Sequence[str]],
    dt: Checked[float | None] = None,
    time_unit: Checked[str] = "",
    confounded: Checked[Bool[ArrayLike, "source target"] | None] = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the graph as arrows between variables on a circle, labelled with their delays.

    All lags of one pair share an arrow: "1–3, 6" means lags 1, 2, 3 and 6. An arrow from a variable
    to itself is a small loop. The caption explains the labels: lags in samples and, with `dt` and
    up to eight variables, delays in `time_unit`: those of the lags, or the estimated `delays` if
    given and finite. With `scores`, the width of an arrow follows the square root of its highest
    score. Up to eight variables, colours distinguish sources; beyond, they show the lag of the
    highest score (without `scores`, the smallest lag). Labels that would overlap are omitted,
    weakest edges first, and the caption gives their number. Arrows between `confounded` pairs,
    driven by an unobserved variable, are dashed and have two heads. `plot_lag_matrix` shows all
    edges.

    Made for 1 to about 20 variables. Raises ValueError if the arrays, `lags` and `names` do not
    fit together.

    >>> graph = np.zeros((2, 2, 3), dtype=bool)
    >>> graph[0, 1, 2] = True  # "wind" drives "sea" two samples later
    >>> ax = plot_process_graph(graph, lags=(0, 1, 2), names=("wind", "sea"), dt=0.5, time_unit="h")
    """
    given = _checked(graph if scores is None else scores, graph, lags, names, dt, time_unit)
    graph, dim = np.asarray(given.graph), len(names)
    few = dim <= _MANY
    if ax is None:
        ax = Figure(figsize=_graph_size(dim), layout="constrained").add_subplot()
    norm = Normalize(min(lags), max(max(lags), min(lags) + 1))
    edges, used = [], set()
    for source, target in np.argwhere(graph.any(axis=2)).tolist():
        kept = graph[source, target]
        strength = np.where(kept, np.nan_to_num(given.scores[source, target]), -np.inf)
        strongest = lags[int(strength.argmax())]
        used.add(strongest)
        colour = _SOURCES[source] if few else _DELAYS(norm(strongest))
        label = ""
        if len(lags) > 1 or lags[0]:  # otherwise nothing is delayed
            late = None if delays is None else np.asarray(delays, float)[source, target, kept]
            label = _delay_text(np.asarray(lags)[kept], dt if few else None, time_unit, late)
        unseen = confounded is not None and bool(np.asarray(confounded)[source, target])
        edges.append(Edge(source, target, max(float(strength.max()), 0.0), colour, label, unseen))
    if not few and len(used) > 1:
        label = "smallest lag" if scores is None else "lag of the highest score"
        shape = dict(shrink=0.4, aspect=20, ticks=MaxNLocator(5, integer=True), **_BAR)
        ax.figure.colorbar(ScalarMappable(norm, _DELAYS), ax=ax, label=label, **shape)
    omitted = draw_process_graph(ax, edges, given.names, _SOURCES[:dim] if few else [_INK] * dim)
    said = {
        _describe_labels(dt, time_unit, few, delays is not None): any(e.label for e in edges),
        "width: score": scores is not None,
        "colour: source": few and len(edges) > 1,
        "dashed, two heads: something unseen drives both": any(e.unseen for e in edges),
    }
    # Beside other panels there is room for half a line.
    caption = textwrap.fill("; ".join(line for line, holds in said.items() if holds), CAPTION)
    if omitted:
        caption += f"\n{omitted} of {len(edges)} labels omitted for space"
    caption = caption if edges else "no edge kept"
    ax.set_xlabel(caption, fontsize=9)
    return ax


def plot_discovery(found: Any) -> Figure:
    """Plot the lag matrix and the process graph of a `Discovery` in one figure, as
    `Discovery.plot()`.

    The two are side by side up to eight variables, and stacked beyond. Needs the attributes
    `graph`, `scores` `[source target lag]`, `names`, `lags`, `dt` and `time_unit`. Lags of a map
    are counted as in its report, up to the level that moves: a source at lag 0 of the rate acts
    after one sample.
    """
    needed = ("graph", "scores", "names", "lags", "dt", "time_unit")
    if missing := [name for name in needed if not hasattr(found, name)]:
        raise argument_error("found", f"a Discovery, with {missing[0]}", found)
    dim, _, n_lags = np.shape(found.scores)
    side, tall = _graph_size(dim)
    page = _PAGE if dim > _MANY else 0.6  # panels beside the graph are preferably stacked
    width, height = _matrix_size(dim, n_lags, page)
    if dim > _MANY:
        fig = Figure(figsize=(max(width, side), height + tall), layout="constrained")
        left, right = fig.subfigures(2, 1, height_ratios=(height, tall))  # type: ignore[misc]
    else:
        width *= np.clip(tall / height, 1.0, 1.4)  # larger cells instead of empty space
        fig = Figure(figsize=(width + side, max(height, tall)), layout="constrained")
        left, right = fig.subfigures(1, 2, width_ratios=(width, side))  # type: ignore[misc]
    shared = labels_of(found)
    _draw_matrix(left, _checked(found.scores, found.graph, **shared), page)
    shared |= beside_arrows(found)
    plot_process_graph(found.graph, scores=found.scores, ax=right.add_subplot(), **shared)
    return fig


def labels_of(found: Any) -> dict[str, Any]:
    """Return the labels for figures of a discovery: its lags as counted in its report (for a map,
    up to the level that moves), its names, and its unit of time.
    """
    shared = {name: getattr(found, name) for name in ("lags", "names", "dt", "time_unit")}
    return shared if _between_samples(found) else shared | {"lags": found.level_lags}


def beside_arrows(found: Any) -> dict[str, Any]:
    """Return the delays and confounded pairs for the arrows of a discovery."""
    delays = getattr(found, "delays", None) if _between_samples(found) else None
    return {"delays": delays, "confounded": getattr(found, "confounded", None)}


def _between_samples(found: Any) -> bool:
    return getattr(found, "moves_between_samples", True)


def _checked(scores, graph, lags, names, dt, time_unit) -> _Candidates:
    lags, names = read_lags(lags), check_names(names, None)
    if dt is not None:
        check_positive(dt=dt)
    check_real_array(scores, "scores", "[source target lag]")
    scores = np.asarray(scores, dtype=float)
    expected = (len(names), len(names), len(lags))
    if graph is not None:
        check_real_array(graph, "graph", "[source target lag]")
    for label, array in (("scores", scores), ("graph", graph)):
        if array is not None and np.shape(array) != expected:
            raise ValueError(
                f"Expected {label} of shape {expected} [source target lag] for {len(names)} names "
                f"and {len(lags)} lags; got {np.shape(array)}."
            )
    if 0 in expected:
        raise ValueError("Nothing to draw: expected at least one name and one lag.")
    graph = None if graph is None else np.asarray(check_graph(graph, expected))
    return _Candidates(scores, graph, lags, short_names(names), dt, time_unit)


def _in_blocks(dim: int, n_lags: int) -> bool:
    return dim > _MANY or (n_lags == 1 and dim > 1)


def _panels(dim: int, n_lags: int, page: float) -> tuple[int, float, float]:
    """Return the number of columns that brings the figure closest to the ratio `page`, and the
    width and height of all panels in inches.
    """
    width, height = _cell_size(n_lags)
    layouts = []
    for columns in range(1, dim + 1):
        rows = -(-dim // columns)
        wide, tall = columns * (width * n_lags + 0.2), rows * (height * dim + 0.5)
        far = abs(np.log(wide / tall / page)) + 0.7 * (rows * columns - dim)
        layouts.append((far, columns, wide, tall))
    return min(layouts)[1:]


def _cell_size(n_lags: int) -> tuple[float, float]:
    """Return the width and height of a panel cell in inches."""
    width = float(np.clip(5.0 / n_lags, 0.12, 0.34))
    return width, max(width, 0.28)


def _graph_size(dim: int) -> tuple[float, float]:
    """Return the width and height of the process graph in inches, no wider than its nodes need."""
    side = float(np.clip(4.4 + 0.3 * dim, 4.8, 10.4))
    low, high = extent(dim)
    wide, tall = side * (high - low) / np.max(high - low)
    return max(wide, 0.9 * side), tall + 0.3  # the caption is below


def _matrix_size(dim: int, n_lags: int, page: float) -> tuple[float, float]:
    if _in_blocks(dim, n_lags):
        cell = 0.45 if n_lags == 1 else 0.13
        return min(2.6 + cell * dim * n_lags, _MAX_MATRIX_WIDTH), 1.7 + 0.32 * max(dim, 4)
    _, wide, tall = _panels(dim, n_lags, page)
    return 2.4 + wide, 0.9 + tall


def _cells(ax, values, kept, norm) -> None:
    """Draw `values [row column]`, with the first row on top, and frame the kept cells."""
    rows, columns = values.shape
    shown = np.ma.masked_invalid(values)
    ax.pcolormesh(shown, norm=norm, cmap=_SCORES, edgecolors="white", linewidth=0.3)
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    if kept is not None and kept.any():
        frames = [Rectangle((j + 0.06, i + 0.06), 0.88, 0.88) for i, j in np.argwhere(kept)]
        style = dict(facecolor="none", edgecolor=_KEPT, linewidth=2.0 if columns < 60 else 1.2)
        ax.add_collection(PatchCollection(frames, zorder=3, **style))
    ax.tick_params(length=0)
    ax.spines[:].set(color="#999999", visible=True)


def _tick_labels(names: Sequence[str]) -> dict[str, Any]:
    """Return the tick labels of rows; if one is long, small and in two lines."""
    small = {"fontsize": 7} if max(map(len, names)) > LINE else {}
    return {"labels": [wrapped(name, LINE) for name in names], **small}


def _draw_panels(fig: FigureBase, given: _Candidates, norm: Any, columns: int) -> list[Axes]:
    scores, graph, lags, names, *_ = given
    dim, n_lags = len(names), len(lags)
    width, height = _cell_size(n_lags)
    grid = fig.subplots(-(-dim // columns), columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.ravel())
    step = -(-n_lags // 13)  # more tick labels than this would touch
    for target, ax in enumerate(axes[:dim]):
        _cells(ax, scores[:, target], None if graph is None else graph[:, target], norm)
        ax.set_aspect(height / width)
        characters = width * n_lags / 0.095 if columns > 1 else np.inf  # room above the panel
        title = f"→ {names[target]}"
        title = wrapped(title, max(7, characters))
        longest = max(map(len, title.split("\n")))
        size = float(np.clip(10 * characters / longest, 7, 10))
        ax.set_title(title, fontsize=size, fontweight="bold")
        ax.set_xticks(np.arange(n_lags)[::step] + 0.5, [str(lag) for lag in lags][::step])
        ax.set_yticks(np.arange(dim) + 0.5, **_tick_labels(names))
        # Hidden panels below would remove the tick labels of the shared axis.
        ax.tick_params(labelbottom=target + columns >= dim)
    for ax in axes[dim:]:
        ax.remove()
    fig.supylabel("source", fontsize=10)
    return axes[:dim]


def _draw_blocks(fig: FigureBase, given: _Candidates, norm: Any) -> list[Axes]:
    scores, graph, lags, names, *_ = given
    ax, dim, n_lags = fig.add_subplot(), len(names), len(lags)
    # One row per target.
    values, kept = (
        None if array is None else array.transpose(1, 0, 2).reshape(dim, dim * n_lags)
        for array in (scores, graph)
    )
    _cells(ax, values, kept, norm)
    ax.set_yticks(np.arange(dim) + 0.5, **_tick_labels(names))
    ax.set_ylabel("target")
    slanted = max(map(len, names)) * 0.085 > (0.45 if n_lags == 1 else 0.13 * n_lags)
    turned = dict(rotation=60, ha="left") if slanted else dict(rotation=0, ha="center")
    above, middles = ax.secondary_xaxis("top"), (np.arange(dim) + 0.5) * n_lags
    above.set_xticks(middles, rotation_mode="anchor", **_tick_labels(names), **turned)
    ax.set_title("source", fontsize=10)
    if n_lags == 1:
        ax.set_aspect("equal")
        ax.set_xticks([])
        return [ax]
    for block in range(1, dim):
        ax.axvline(block * n_lags, color="#555555", linewidth=0.8, zorder=2)
    # First and last lag of each block; the last only if both fit.
    shown = (0, n_lags - 1) if n_lags > 4 else (0,)
    ends = [(block * n_lags + k, lags[k]) for block in range(dim) for k in shown]
    ax.set_xticks([at + 0.5 for at, _ in ends], [str(lag) for _, lag in ends], fontsize=7)
    return [ax]


def _lag_label(lags, dt: float | None, time_unit: str, in_blocks: bool) -> str:
    each = _ranges([str(lag) for lag in lags], np.asarray(lags))
    blocks = f"; from left to right in each block: {each}" if in_blocks else ""
    if dt == 1 and time_unit:
        return f"lag ({time_unit}){blocks}"
    step = "" if dt is None else f"; 1 sample = {dt:.4g} {time_unit}".rstrip()
    return f"lag (samples{step}){blocks}"


def _delay_text(
    lags: np.ndarray, dt: float | None, time_unit: str, delays: np.ndarray | None = None
) -> str:
    samples = _ranges([str(lag) for lag in lags], lags)
    if dt is None or (dt == 1 and delays is None) or not lags.any():
        return samples
    times = [f"{lag * dt:.4g}" for lag in lags]
    if delays is not None:
        given = zip(times, delays, strict=True)
        times = [f"{delay:.3g}" if np.isfinite(delay) else time for time, delay in given]
    return f"{samples}\n({_ranges(times, lags)} {time_unit})".replace(" )", ")")


def _ranges(texts: list[str], lags: np.ndarray) -> str:
    """Return '1–3, 6' for lags 1, 2, 3, 6, written with the text of each lag."""
    starts = np.flatnonzero(np.diff(lags, prepend=lags[0] - 2) != 1)
    stops = [*starts[1:], len(lags)]
    return ", ".join(
        texts[a] if b - a == 1 else f"{texts[a]}{'–' if b - a > 2 else ', '}{texts[b - 1]}"
        for a, b in zip(starts, stops, strict=True)
    )


def _describe_labels(dt: float | None, time_unit: str, in_time: bool, estimated: bool) -> str:
    if dt == 1 and time_unit and not estimated:
        return f"labels: delay ({time_unit})"
    if dt is None or (dt == 1 and not (estimated and in_time)):
        return "labels: lag (samples)"
    if in_time:
        return f"labels: lag in samples (delay{f' in {time_unit}' if time_unit else ''})"
    return f"labels: lag in samples of {dt:.4g} {time_unit}".rstrip()
