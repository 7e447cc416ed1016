"""How much each source matters, by the present where it tells the rate, else by the past too.

One setting for every kind of series. Where all variables are seen and nothing is delayed, the
present state tells the rate, and the past offers stand-ins only. Where something is hidden, or
nodes are static maps of states of which a third is seen, the past carries what the present lacks.
Which of the two holds shows in the data: by how much the past lowers what the present leaves
unexplained.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from benchmarks import linear

from .outcomes import OK, Prediction, blind_to_constants, outcome, values
from .settings import Settings

# In samples, of which the benchmark takes a hundred per period. Two spacings, since either alone is
# a chance choice of which stand-ins are on offer; the last is what the present is compared with:
# samples five apart share little of the noise that ends up in a difference quotient.
PRESENT = (0,)
PASTS = ((0, 2, 4, 6), (0, 5, 10))
# Of a target's variance: gains below this are no sign of anything hidden.
NOTICEABLE = 0.1
# How fast trust in the present falls with what the past adds, in units of the logarithm of a risk.
STEEPNESS = 4.0
# The least strength that makes an edge, and how much more it takes where all depends on stand-ins.
NEGLIGIBLE, CAUTION = 0.12, 0.9
# Risks below this are errors of rates.
FLOOR = 1e-4

Square = Float[np.ndarray, "source target"]


class Strengths(NamedTuple):
    """What one set of lags says: strengths, the risk per target, and whether all went well."""

    value: Square
    risk: Float[np.ndarray, " target"]
    status: str


@blind_to_constants
def relevance(series: Sequence[np.ndarray], dt: float, settings: Settings, *, key):
    """Strengths with the present alone and with two sets of lags, weighted by how much the past
    adds.

    The weight of the present is exp(−4 g), g being the mean over targets of
    log((risk by the present + .1) / (risk with the past + .1)) where that is positive. An edge is
    kept from a strength of .12 on, and where the past must help from up to .9 · (1 − 2/D) more:
    each of the other D − 2 variables can then be a stand-in. Scores are 1/2 at that threshold.
    """
    import ndde_jax as ndde

    def one(x):
        def windows(lags):
            return ndde.lagged_windows(x, dt=dt, lags=lags, scheme=settings.scheme)

        present = strengths_now(windows(PRESENT))
        pasts = [strengths_of_past(windows(lags)) for lags in PASTS]
        trust = trust_in_present(present.risk, pasts[-1].risk)
        past = np.mean([found.value for found in pasts], axis=0)
        value = trust * present.value + (1 - trust) * past
        least = least_strength(trust, len(value))
        failed = [found.status for found in (present, *pasts) if found.status != OK]
        return Prediction(value / (value + least), value > least, failed[0] if failed else OK)

    return [one(x) for x in series]


def trust_in_present(present, past) -> float:
    """From 1, where the past adds nothing to what the present tells, down to 0."""
    gain = np.log((present + NOTICEABLE) / (past + NOTICEABLE))
    return float(np.exp(-STEEPNESS * np.mean(np.maximum(gain, 0))))


def least_strength(trust: float, dim: int) -> float:
    """What an edge must be worth: more, the less the present tells and the more variables there are
    besides the two that could stand in.
    """
    return NEGLIGIBLE + CAUTION * (1 - trust) * (1 - 2 / max(dim, 2))


def strengths_now(windows) -> Strengths:
    """Of a search among inputs that tell the rate: root of the geometric mean of what is lost
    without a source and its share among all sources of the target.
    """
    found, value = _search(windows)
    return Strengths(_shares(value, 0.5), np.asarray(found.risk), outcome(found))


def strengths_of_past(windows) -> Strengths:
    """Of a search among stand-ins, and of linear regression on all of them where that predicts
    about as well.

    A search has to pick one of many stand-ins, and on other noise would pick another. A regression
    on all of them does not choose, so each steadies the other; it counts by the square of the ratio
    of risks, not at all where effects are bent. Roots of shares of what all sources of a target are
    worth: the size of a stand-in means little.
    """
    found, value = _search(windows)
    straight, _ = linear.on_windows(linear.linear_strengths, windows)
    risk = np.asarray(found.risk)
    ratio = (risk + FLOOR) / (linear.linear_risk(*linear.flat_windows(windows)) + FLOOR)
    weight = np.minimum(ratio, 1) ** 2
    both = _shares(value, 1.0) + weight * _shares(straight.max(axis=2), 1.0)
    return Strengths(both / (1 + weight), risk, outcome(found))


def _search(windows):
    import ndde_jax as ndde

    found = ndde.select.spline_graph(windows)
    return found, values(found).max(axis=2)


def _shares(value: Square, exponent: float) -> Square:
    """Root of a strength over a power of the sum of those of a target."""
    value = np.maximum(value, 0)
    total = np.sum(value, axis=0, keepdims=True)
    return np.sqrt(value / np.where(total > 0, total, 1) ** exponent)
