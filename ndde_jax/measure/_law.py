"""The drift of a discovery without delays: fitted by its flow, as a law if one leaves nothing to
explain.

White noise that drives a system makes a forward difference the rate of the flow over one step plus
noise that is independent of the state at its start and of all other steps. So least squares of
one-step forecasts are maximum likelihood, to first order in the step, and as accurate as any
estimate that knows as much. A central difference is neither: its noise is in the present state too,
it measures the current velocity, and its curvature shows as terms that no law has.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._memory import padded_length
from ..fit._flow import Flow, fit_drift, meet_midway
from ..models._families import Best, Family
from ..models._model import AbstractDelayModel, NeuralDDE
from ..models._polynomials import MAX_TERMS, monomials
from ..samples._noise import measurement_errors
from ..samples._samples import Samples
from ..select._target_fit import beyond_chance, chance_of_leftover
from ..windows._stencils import reads_filtered
from ..windows._windows import Windows, lagged_windows, pad_windows

# Inputs of a target are given room in steps of so many.
SLOTS = 4
# Corrections of networks: a law is corrected six times, which costs it nothing.
NETWORK_ROUNDS = 3
# Relative error of a rate of change of frequency ω by a stencil, at a step of h: (hω)^power / by.
CURVATURE = {"central": (2, 6.0), "central4": (4, 30.0)}

FORWARD = (
    "The drift is fitted to forward differences, by what its own flow does in a step: measurements "
    "show no errors for which the central ones that edges were measured by would be better."
)


def fit_law(windows: Windows, graph: Any, family: Family, *, key: Any) -> AbstractDelayModel:
    """Fit a drift of present states on a graph.

    Polynomials are fitted first; where they leave nothing that smooth functions of the inputs of
    any variable explain, they are the drift and no network is fitted.
    """
    room = int(np.asarray(graph).sum(axis=(0, 2)).max()) + SLOTS
    if windows.scheme != "euler" or not isinstance(family, Best) or room >= MAX_TERMS:
        return fit_drift(windows, graph, family, key=key)
    windows = pad_windows(windows, padded_length(len(windows.valid)))
    law = fit_drift(windows, graph, family.polynomials, key=key)
    if not any(leaves_something(windows, law)):
        return law
    return fit_drift(windows, graph, family, flow=Flow(NETWORK_ROUNDS), key=key)


def law_windows(samples: Samples, windows: Windows) -> Windows:
    """Return forward differences, where they are the better measurement of a drift of present
    states than the windows that a graph was found in; else these.

    Errors of measurements, of variance r, make every variable seem to return to its mean, at a rate
    of r / (h · variance). Central differences have no such error, but that of the curvature within
    their stencil. The smaller decides, and noise that was filtered before sampling stays with
    central ones.
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
        # Both relative to the rates, with h and ω in units of the spread of values and rates.
        turn = rate * windows.step * float(windows.dt) / scale
        false = measurement_errors(samples) / scale**2 / turn
        if not np.mean(false) <= np.mean(turn**power) / by:
            return windows
    return lagged_windows(samples, lags=windows.lags, scheme="euler", prior=windows.prior)


def leaves_something(windows: Windows, law: NeuralDDE) -> list[bool]:
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
        chance_of_leftover(
            root * residual[:, j], root[:, None] * terms[:, j, used[j]], inputs[:, mask[j]], root
        )
        for j in range(len(used))
    ]
    return beyond_chance(chances)


@eqx.filter_jit
def _residuals(windows: Windows, law: NeuralDDE):
    """Return the residuals of the rates, all terms and the inputs, at the middle of every step."""
    seen = meet_midway(windows, law)
    drift = law.drift
    inputs = jnp.where(windows.valid[:, None], seen.history.reshape(len(seen.valid), -1), 0)

    def one(z):
        own = (drift.origin + z)[drift.index]
        return jax.vmap(lambda seen: monomials(seen[None], drift.exponents)[0])(own)

    rates = jax.vmap(drift)(seen.history)
    residual = jnp.where(windows.valid[:, None], seen.increment - rates, 0)
    return residual, jax.vmap(one)(inputs), inputs
