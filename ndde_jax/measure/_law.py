"""The drift of a discovery without delays: fitted through its flow, as a polynomial law if that
leaves nothing to explain.

If white noise drives a system, a forward difference is the rate of the flow over one step plus
noise that is independent of the state at its start and of all other steps. So least squares on
one-step forecasts is maximum likelihood, to first order in the step, and as accurate as any
estimate from the same information. A central difference is not: its noise is in the present state
too, it measures the current velocity, and its curvature shows as terms that no law has.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._memory import padded_length
from ..fit._flow import Flow, correct_at_midpoints, fit_drift
from ..models._families import Best, Family
from ..models._model import AbstractDelayModel, NeuralDDE
from ..models._polynomials import MAX_TERMS, monomials
from ..samples._noise import measurement_errors
from ..samples._samples import Samples
from ..select._target_fit import lack_of_fit_p_value, significant_lack_of_fit
from ..windows._stencils import reads_filtered
from ..windows._windows import Windows, lagged_windows, pad_windows

# Room for inputs beyond the largest in-degree.
SLOTS = 4
# Corrections of networks; a polynomial law is corrected six times, at no cost.
NETWORK_ROUNDS = 3
# Relative error of a stencil's rate of change at frequency ω and step h: (hω)^power / by.
CURVATURE = {"central": (2, 6.0), "central4": (4, 30.0)}

FORWARD = (
    "The drift is fitted to forward differences through its own flow over a step. Edges were "
    "measured by central differences, but measurement errors are too small to need them here."
)


def fit_law(windows: Windows, graph: Any, family: Family, *, key: Any) -> AbstractDelayModel:
    """Fit a drift of present states on a graph.

    Polynomials are fitted first. If smooth functions of the inputs explain nothing of the residual
    of any variable, the polynomials are the drift and no network is fitted.
    """
    room = int(np.asarray(graph).sum(axis=(0, 2)).max()) + SLOTS
    if windows.scheme != "euler" or not isinstance(family, Best) or room >= MAX_TERMS:
        return fit_drift(windows, graph, family, key=key)
    windows = pad_windows(windows, padded_length(len(windows.valid)))
    law = fit_drift(windows, graph, family.polynomials, key=key)
    if not any(residual_is_explained(windows, law)):
        return law
    return fit_drift(windows, graph, family, flow=Flow(NETWORK_ROUNDS), key=key)


def law_windows(samples: Samples, windows: Windows) -> Windows:
    """Return forward differences if they measure a drift of present states better than the windows
    in which a graph was found, otherwise these windows.

    Measurement errors of variance r make every variable seem to return to its mean at a rate of
    r / (h · variance). Central differences have no such error, but one from the curvature within
    their stencil. The smaller error decides; if noise was filtered before sampling, central
    differences are kept.
    """
    if windows.lags != (0,) or windows.scheme not in (*CURVATURE, "midpoint"):
        return windows
    if windows.scheme in CURVATURE:
        if reads_filtered(windows.noise_share, windows.roll_off, windows.ringing):
            return windows
        power, by = CURVATURE[windows.scheme]
        scale, rate = (
            np.asarray(a, float) for a in (windows.scaling.scale, windows.scaling.rate_scale)
        )
        # Both errors relative to the rates, with ω from the spread of values and rates.
        turn = rate * windows.step * float(windows.dt) / scale
        false = measurement_errors(samples) / scale**2 / turn
        if not np.mean(false) <= np.mean(turn**power) / by:
            return windows
    return lagged_windows(samples, lags=windows.lags, scheme="euler", prior=windows.prior)


def residual_is_explained(windows: Windows, law: NeuralDDE) -> list[bool]:
    """Return, for each target, whether smooth functions of its inputs explain the residual of its
    polynomial.
    """
    residual, terms, inputs = (np.asarray(a, np.float64) for a in _residuals(windows, law))
    if not np.isfinite(residual).all():
        return [False] * windows.dim
    drift: Any = law.drift  # polynomials
    used = np.asarray(drift.coefficients) != 0
    mask = np.asarray(law.mask).reshape(len(used), -1)
    root = np.sqrt(np.asarray(windows.weight, np.float64))
    chances = [
        lack_of_fit_p_value(
            root * residual[:, j], root[:, None] * terms[:, j, used[j]], inputs[:, mask[j]], root
        )
        for j in range(len(used))
    ]
    return significant_lack_of_fit(chances)


@eqx.filter_jit
def _residuals(windows: Windows, law: NeuralDDE):
    """Return the residuals of the rates, all terms and the inputs, at the middle of every step."""
    seen = correct_at_midpoints(windows, law)
    drift = law.drift
    inputs = jnp.where(windows.valid[:, None], seen.history.reshape(len(seen.valid), -1), 0)

    def one(z):
        own = (drift.origin + z)[drift.index]
        return jax.vmap(lambda seen: monomials(seen[None], drift.exponents)[0])(own)

    rates = jax.vmap(drift)(seen.history)
    residual = jnp.where(windows.valid[:, None], seen.increment - rates, 0)
    return residual, jax.vmap(one)(inputs), inputs
