"""Splines on the graph of a discovery, fitted to samples read as a map or as a flow."""

from typing import Any

from ..models._model import NeuralDDE
from ..samples._samples import Samples
from ..select._midpoint import halfway, read_steps
from ..select._spline_fit import fit_splines
from ..windows._windows import lagged_windows


def refitted(found: Any, samples: Samples, scheme: str) -> NeuralDDE:
    """Return splines on the graph of a discovery, fitted to samples as it fits its own, with rates
    of a scheme.
    """
    if scheme != "midpoint":
        windows = lagged_windows(samples, lags=found.lags, scheme=scheme)
        return fit_splines(windows, found.reads)
    steps = read_steps(samples, lags=found.lags)
    model = fit_splines(halfway(steps), found.reads)
    for _ in range(found.recipe.passes - 1):
        model = fit_splines(steps.met_by(model), found.reads)
    return model


def other_reading(found: Any) -> NeuralDDE | None:
    """Return splines fitted to the samples of a discovery as a flow if it has read them as a map,
    and as a map if as a flow, where it is undecided between the two; None elsewhere.

    A rate over a step is a mean, so that the slopes of a map are smaller than those of the flow
    that does the same.
    """
    schemes = {"euler": "midpoint", "midpoint": "euler"}
    decided = found.reading != "undecided" or found.windows.scheme not in schemes
    if decided or found.events or not found.samples.regular:
        return None
    return refitted(found, found.samples, schemes[found.windows.scheme])
