"""Matplotlib without a display."""

from pathlib import Path


def axes(n: int, width: float = 4.0, *, height: float = 3.2, **options):
    """A figure and a row of `n` axes, each `width` inches wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, n, squeeze=False, **options)[0]


def save(figure, path: Path) -> Path:
    figure.savefig(path, dpi=150)
    return path
