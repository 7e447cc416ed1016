"""Windows together with what splines find in them, so that several uses share one search."""

import functools

from ..windows._windows import Windows
from ._splines import SplineGraph, spline_graph


class Screened:
    """Windows, and the graph that [`spline_graph`][ndde_jax.select.spline_graph] finds in them,
    searched when it is first asked for unless it is `found` already.
    """

    def __init__(self, windows: Windows, found: SplineGraph | None = None):
        self.windows = windows
        if found is not None:
            self.found = found

    @functools.cached_property
    def found(self) -> SplineGraph:
        return spline_graph(self.windows)
