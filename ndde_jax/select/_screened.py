"""The windows together with the splines' result on them, so that several uses share one search."""

import functools
from typing import Any

from .._memory import make_room
from ..regression._design import Design, design_of
from ..regression._readings import Readings
from ..windows._flat import KnownData
from ..windows._windows import Windows
from ._splines import SHORTLIST, SplineGraph, search_known


class Screened:
    """A set of windows of one system with results computed on first use: flat arrays (`data`),
    splines of all inputs (`design`), and the graph that
    [`spline_graph`][ndde_jax.select.spline_graph] finds (`found`), unless it is given. `steps` are
    the steps from which windows halfway through them are made; `readings` is the comparison of the
    record as a map and as a flow, where it was made.
    """

    def __init__(
        self,
        windows: Windows,
        found: SplineGraph | None = None,
        steps: Any = None,
        readings: Readings | None = None,
    ):
        self.windows, self.steps, self.readings = windows, steps, readings
        if found is not None:
            self.found = found

    @functools.cached_property
    def data(self) -> KnownData:
        return KnownData(self.windows)

    @functools.cached_property
    def design(self) -> Design:
        return design_of(self.data.inputs, self.data.weight)

    @functools.cached_property
    def found(self) -> SplineGraph:
        make_room(self.windows)
        return search_known(self.data, self.design, SHORTLIST)
