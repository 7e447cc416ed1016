"""Windows with the result of the splines on them, so that several uses share one search."""

import copy
import functools
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._memory import drop_programs_if_many
from .._types import KnownMask
from ..regression._design import MANY_QUANTILES, Design, Rate, design_of, knots_of
from ..regression._readings import Readings
from ..regression._summed import Summed
from ..regression._terms import Terms
from ..windows._stencils import SMOOTH_SHARE
from ..windows._windows import KnownData, Windows
from ._between import Record, Refiner
from ._splines import (
    EXACT,
    SHORTLIST,
    Searched,
    SplineGraph,
    partial_knots,
    present_terms,
    search_flow,
    search_known,
    search_partial,
)
from ._target_fit import TargetFit


class Screened:
    """The windows of one system with results computed on first use: flat arrays (`data`),
    splines of all inputs (`design`), and the graph that
    [`spline_graph`][ndde_jax.select.spline_graph] finds (`found`).

    It also contains what is known about the samples: `steps`, from which windows halfway through
    steps are made; `readings`, the comparison of the record as a map and as a flow; `errors`, the
    variances of measurement errors; `record`, the samples between the candidate lags, if delays may
    lie there; and `inverse_variance`, the weights of windows whose noise variance changes. `whole`
    is the record that the windows are a part of, if it does not fit into memory.
    """

    def __init__(
        self,
        windows: Windows,
        steps: Any = None,
        readings: Readings | None = None,
        errors: Float[np.ndarray, " dim"] | None = None,
        record: Record | None = None,
        inverse_variance: Float[np.ndarray, " window"] | None = None,
    ):
        self.windows, self.steps, self.readings = windows, steps, readings
        self.errors, self.record, self.inverse_variance = errors, record, inverse_variance
        self.whole: Any = None
        self.summed: Summed | None = None

    def knowing(self, **more: Any) -> "Screened":
        """Return the windows with further knowledge: `errors` and `record`, or the `whole` record
        and the sums over it, `summed`.
        """
        other = copy.copy(self)
        vars(other).update(more)
        return other

    def rate(self, j: int, inputs: KnownMask) -> Rate:
        """Return the rate of a target with a design for some inputs, from sums if known."""
        if self.summed is not None:
            return self.summed.rate(j)
        partial, output = self.data.partial is not None, self.data.outputs[:, j]
        design = self.design_for(j, inputs) if partial else self.design
        weight = design.root**2
        return Rate(design, output, float(weight @ output) / max(float(weight.sum()), 1))

    def on(self, windows: Windows) -> "Screened":
        """Return the results for other windows of the same samples, for example those of a half."""
        if windows is self.windows:
            return self
        record = None if self.record is None else self.record.of_rows(windows)
        return Screened(windows, errors=self.errors, record=record)

    @functools.cached_property
    def data(self) -> KnownData:
        data = KnownData(self.windows)
        return data if self.inverse_variance is None else data.weighing(self.inverse_variance)

    @functools.cached_property
    def exact(self) -> bool:
        """Whether the record has no noise, so that rates are exact up to difference quotients, and
        has past states as inputs.
        """
        smooth = self.windows.scheme == "central4" and self._beside_present
        return bool(smooth and np.mean(np.asarray(self.windows.noise_share)) < SMOOTH_SHARE)

    @property
    def _beside_present(self) -> bool:
        """Whether past and present states are inputs, in a complete record in memory."""
        data, lags = self.data, self.windows.lags
        known = data.partial is None and self.whole is None and not data.refused
        return known and len(lags) > 1 and lags[0] == 0

    @functools.cached_property
    def design(self) -> Design:
        return design_of(self.data.inputs, self.data.weight, error=EXACT * self.exact)

    @functools.cached_property
    def many_knots(self) -> Design:
        """The design with splines of many knots."""
        data = self.data
        knots = knots_of(data.inputs[data.weight > 0], MANY_QUANTILES)
        return design_of(data.inputs, data.weight, knots, EXACT)

    @property
    def found(self) -> SplineGraph:
        return self._searched.found

    @property
    def alone(self) -> Bool[np.ndarray, " target"]:
        """The targets that depend on present states alone."""
        return self._searched.alone

    @functools.cached_property
    def _searched(self) -> Searched:
        drop_programs_if_many(self.windows)
        data, none = self.data, np.zeros(self.data.dim, bool)
        if data.partial is not None:
            return Searched(search_partial(data, SHORTLIST), none, none)
        many = (lambda: self.many_knots) if self.exact else None
        if self.exact or (self._beside_present and self.windows.scheme == "midpoint"):
            return search_flow(data, self.design, many, SHORTLIST, self.present)
        several = len(self.windows.lags) > 1 and not data.refused
        now = self.present if several else None
        return Searched(search_known(data, self.design, SHORTLIST, now), none, none)

    @functools.cached_property
    def present(self) -> list[Terms]:
        """The terms found by a search among the inputs at the first lag alone."""
        return present_terms(self.data, self.design)

    @functools.cached_property
    def knots(self) -> Float[np.ndarray, "input knot"]:
        """The knots of the splines of every input in a drift, the same for all targets."""
        if self.data.partial is None:
            return self.design.knots
        return partial_knots(self.data.partial)

    def design_for(self, j: int, inputs: KnownMask) -> Design:
        """Return the design of the windows that are valid for a target and some inputs."""
        if self.data.partial is None:
            many = self.exact and self._searched.many[j]
            return self.many_knots if many else self.design
        data = self.data.of_target(j, inputs)
        return design_of(data.inputs, data.weight, self.knots)

    def refiners(self, data: KnownData, fits: list[TargetFit]) -> list[Refiner]:
        """Return the searches for delays between the candidates, one per target; none if the
        samples between the candidates are not known.
        """
        lags, among = self.windows.lags, self.data.allowed
        if self.record is None:
            return []
        return [
            Refiner(
                self.record._replace(width=own.design.width),
                data.weighing(own.data.weight),
                lags,
                own.design,
                among,
            )
            for own in fits
        ]

    def fit(self, j: int, inputs: KnownMask, summed: Rate | None = None) -> TargetFit:
        """Return the fit of a target on some inputs, in the windows that are valid for these."""
        data = self.data.of_target(j, inputs)
        counting = b"" if data.partial is None else np.asarray(inputs).tobytes()
        known = self._terms.setdefault((j, counting), {})
        return TargetFit(self.design_for(j, inputs), data, j, inputs, summed, known)

    @functools.cached_property
    def _terms(self) -> dict[tuple[int, bytes], dict[bytes, Terms]]:
        """The best terms by inputs, for each target and the inputs that define its windows."""
        return {}
