"""The geometry of the process graph: nodes on a circle, curved arrows, labels that do not
collide.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

_INK = "#222222"
_NODE = "#E8EEF4"
_RING = 1.0  # radius of the circle of nodes; every other length is relative to it


class Edge(NamedTuple):
    """An arrow: all kept lags of one ordered pair of variables."""

    source: int
    target: int
    strength: float  # not negative
    colour: Any
    label: str
    unseen: bool = False  # two heads and dashes: something else drives both


def draw_process_graph(
    ax: Axes, edges: Sequence[Edge], names: Sequence[str], rims: Sequence[Any]
) -> int:
    """Draw nodes, arrows, loops and labels on `ax`; return the number of labels that found no
    room.
    """
    positions = _circle(len(names))
    radius = _node_radius(len(names))
    font = 10.0 if len(names) <= 8 else 9.0
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
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
    # The strongest edge is drawn on top, and chooses the place of its label first.
    for rank, edge in enumerate(sorted(edges, key=lambda edge: -edge.strength)):
        width = 0.9 + 2.6 * np.sqrt(edge.strength / highest) if highest > 0 else 1.5
        if edge.source == edge.target:
            curve = _loop(positions[edge.source], radius, len(names))
        else:
            both_ways = (edge.target, edge.source) in pairs
            curve = _clear_arc(positions, edge.source, edge.target, radius, both_ways)
            placed.append(_box_around(ax, curve[-1], 0.03))
            to_label.append((edge, curve))
        heads, line = ("<|-|>", "--") if edge.unseen else ("-|>", "-")
        style = {
            "arrowstyle": heads,
            "linestyle": line,
            "mutation_scale": 7 + 2.5 * width,
            "lw": width,
        }
        style |= {"color": edge.colour, "shrinkA": 0, "shrinkB": 0, "zorder": 2 - 1e-3 * rank}
        ax.add_patch(FancyArrowPatch(path=Path(curve), capstyle="butt", **style))
    omitted = 0
    for edge, curve in to_label:
        box = _place(ax, curve, edge, placed, font - 1) if edge.label else None
        omitted += bool(edge.label) and box is None
        placed += [] if box is None else [box]
    return omitted


def _circle(n: int) -> np.ndarray:
    """Return the centres `[n 2]`, clockwise from the top; two nodes lie side by side."""
    if n == 1:
        return np.zeros((1, 2))
    angle = (np.pi if n == 2 else np.pi / 2) - 2 * np.pi * np.arange(n) / n
    return _RING * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _node_radius(n: int) -> float:
    return 0.22 if n <= 2 else min(0.22, 0.33 * 2 * _RING * np.sin(np.pi / n))


def _outward(centre: np.ndarray, n: int) -> np.ndarray:
    """Return the direction of loops and labels; upwards for one or two nodes, where there is
    room.
    """
    return centre / np.hypot(*centre) if n > 2 else np.array([0.0, 1.0])


def _clear_arc(
    positions: np.ndarray, source: int, target: int, radius: float, both_ways: bool
) -> np.ndarray:
    """Return an arc that keeps away from all other nodes, bent towards the centre as far as
    needed.
    """
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
    start = np.arctan2(*direction[::-1]) + np.pi
    angle = start - np.linspace(0, 2 * np.pi, 200)
    points = middle + size * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return _thinned(points[np.hypot(*(points - centre).T) > radius + 0.008])


def _thinned(points: np.ndarray) -> np.ndarray:
    """Return about 40 of the points, both ends among them.

    An arrow head takes its direction from the last two: they must not be too close.
    """
    chosen = np.linspace(0, len(points) - 1, min(len(points), 40)).round().astype(int)
    return points[chosen]


def _loop_size(radius: float) -> float:
    return 0.62 * radius


def _write_names(ax, positions, radius, names, loops, font) -> list[Text]:
    """Write names inside their nodes if all fit there, else outside; delays of loops outside.

    Sets the limits of the axes, as the texts outside need room. Returns the texts outside.
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
    sizes = (text.get_window_extent() for text in inside)
    widest = max(np.hypot(size.width, size.height) for size in sizes)
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
        words = delays if fits else "\n".join(filter(None, (name, delays and f"self: {delays}")))
        if words:
            text = ax.text(*centre, words, fontsize=font - 1, **style)
            outside.append((text, centre, top_of_loop if node in loops else radius + 0.04))
    for _ in range(4):  # room for the texts changes the scale, the scale changes the room
        before = np.stack([low, high])
        for text, centre, distance in outside:
            size = text.get_window_extent()
            half = np.array([size.width, size.height]) / 2 / _pixels_per_unit(ax)
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
    # Text is measured in pixels: the layout has to be final before anything is placed.
    if figure := ax.get_figure(root=True):
        figure.draw_without_rendering()


def wrapped(name: str) -> str:
    """Break a long name once, at the separator nearest to its middle."""
    breaks = [i for i, character in enumerate(name) if character in " _-./"]
    if len(name) <= 7 or not breaks:
        return name
    at = min(breaks, key=lambda i: abs(i - len(name) / 2))
    return name[: at + 1].rstrip() + "\n" + name[at + 1 :]


def _pixels_per_unit(ax: Axes) -> float:
    origin, one = ax.transData.transform([(0, 0), (1, 0)])
    return float(one[0] - origin[0])


def _box_around(ax: Axes, centre: np.ndarray, half: float) -> Bbox:
    return Bbox(ax.transData.transform([centre - half, centre + half]))


def _place(ax, curve, edge, placed, font) -> Bbox | None:
    """Label an arrow on or beside its curve, on the first free spot; None if there is no room."""
    tint = 0.7 * np.array(to_rgb(edge.colour))  # as the arrow, but dark enough to read
    text = ax.text(0, 0, edge.label, ha="center", va="center", fontsize=font, color=tint, zorder=5)
    text.set_bbox({"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.85})
    size = text.get_window_extent()
    half = np.array([size.width, size.height]) / 2 + 2.0
    pixels = ax.transData.transform(curve)
    chord = pixels[-1] - pixels[0]
    along = chord / np.hypot(*chord)
    normal = np.array([-along[1], along[0]])
    aside = np.abs(normal) @ half + 2.0
    # On a short arrow the label would hide the arrow: beside it then.
    hides = 2 * np.abs(along) @ half > 0.45 * np.hypot(*chord)
    offsets = [(0.0,), (aside, -aside)][:: -1 if hides else 1]
    for steps in offsets:
        for share in (0.5, 0.58, 0.42, 0.66, 0.34, 0.74, 0.26):
            for step in steps:
                at = pixels[int(share * (len(pixels) - 1))] + step * normal
                box = Bbox([at - half, at + half])
                if not any(box.overlaps(other) for other in placed):
                    text.set_position(ax.transData.inverted().transform(at))
                    return box
    text.remove()
    return None
