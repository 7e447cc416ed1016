"""How much each source matters, by the present where it tells the rate, else by the past too.

Where all variables are seen and nothing is delayed, the present state tells the rate, and the past
offers stand-ins only. Where something is hidden, or variables are static maps of states that are
seen in part, the past carries what the present lacks. Which of the two holds shows in the data: by
how much the past lowers what the present leaves unexplained.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from ..samples._samples import Samples
from ..select._splines import SplineGraph, spline_graph
from ..windows._flat import KnownData
from ..windows._prior import PriorKnowledge
from ..windows._windows import Windows
from ._precedence import rank_sources

# Kept lags per pair of different variables, up to which each is a delay of its own, and from which
# on they stand in for something.
ONE_LAG, SEVERAL_LAGS = 1.1, 1.5
# Weight of precedence from which on a report speaks of it.
SPOKEN_OF = 0.05
# Of a target's variance: gains below this are no sign of anything hidden.
NOTICEABLE = 0.1
# How fast trust in the present falls with what the past adds, in units of the logarithm of a risk.
STEEPNESS = 4.0
# Risks below this are errors of rates.
FLOOR = 1e-4
# What keeps collinear inputs from breaking a linear regression, of their variance.
RIDGE = 1e-8

Square = Float[np.ndarray, "source target"]


def rank(
    samples: Samples, windows: Windows, source_value, *graphs
) -> tuple[Square, tuple[str, ...]]:
    """The ranking of sources of a discovery, and sentences on what was chosen and why.

    Strengths, where the `graphs`, the final one and that of splines, which has stand-ins that
    networks do without, take one lag of a source, as delays do. Several lags of most sources are
    the mark of stand-ins, and then [`relevance`][ndde_jax.measure._relevance.relevance] ranks them:
    weight 0 up to 1.1 lags per pair of different variables, 1 from 1.5 on. These two numbers
    separate the development data of the benchmarks of delays and of CausalDynamics, and were chosen
    by them; so was relevance alone where the present is the only candidate. All give way to who
    predicts whom first where [`rank_sources`][ndde_jax.measure.rank_sources] says so.
    """
    strengths = np.nan_to_num(np.maximum(np.asarray(source_value, float), 0))
    first = rank_sources(samples, strengths)
    alone = len(windows.lags) == 1
    per_pair = max(_lags_per_pair(graph) for graph in graphs)
    several = (per_pair - ONE_LAG) / (SEVERAL_LAGS - ONE_LAG)
    weight = 1.0 if alone else float(np.clip(several, 0, 1))
    value, reasons = strengths, ()
    if weight > 0 and first.trust < 1:
        value = (1 - weight) * strengths + weight * np.nan_to_num(relevance(windows))
        reasons = (
            f"Graphs take up to {per_pair:.1f} lags of a source on average, as where some stand in "
            "for what is not seen; sources are ranked by their shares in what the present tells, "
            f"or else the past (weight {weight:.2f}).",
        )[alone:]
    value = (1 - first.trust) * value + first.trust * first.precedence
    spoken = first.trust > SPOKEN_OF
    return value, (*reasons, first.reason) if spoken else reasons


def _lags_per_pair(graph) -> float:
    """Kept lags of a source, over the pairs of different variables that are joined at all."""
    lags = np.asarray(graph).sum(axis=2)[~np.eye(len(graph), dtype=bool)]
    return float(lags.sum() / max((lags > 0).sum(), 1))


def relevance(windows: Windows) -> Square:
    """A ranking of sources, from 0 to about 1.

    With t = exp(−4 g), g being the mean over targets of log((risk by the present + .1) / (risk with
    the past + .1)) where that is positive, it is t · present + (1 − t) · past. By the present, a
    source counts by the root of the geometric mean of what is lost without it and its share among
    all sources of the target; by the past, where the size of a stand-in means little, by the root
    of that share alone. A search has to pick one of many stand-ins, and on other noise would pick
    another; a linear regression on all of them does not choose. So the two are averaged there, with
    the square of the ratio of their risks for the weight of the second: none where effects are
    bent.
    """
    found = spline_graph(windows)
    if len(windows.lags) == 1 or windows.lags[0] != 0:
        return _shares(_by_source(found), 0.5)
    now = spline_graph(_present(windows))
    present, risk = _shares(_by_source(now), 0.5), np.asarray(found.risk, float)
    straight, linear_risk = linear_gains(KnownData(windows))
    weight = np.minimum((risk + FLOOR) / (linear_risk + FLOOR), 1)[None] ** 2
    past = _shares(_by_source(found), 1.0) + weight * _shares(straight, 1.0)
    gain = np.log((np.asarray(now.risk, float) + NOTICEABLE) / (risk + NOTICEABLE))
    trust = float(np.exp(-STEEPNESS * np.mean(np.maximum(gain, 0))))
    return trust * present + (1 - trust) * past / (1 + weight)


def _present(windows: Windows) -> Windows:
    """The same rows, with the present state alone."""
    prior = PriorKnowledge(windows.prior.allowed[..., :1], windows.prior.required[..., :1])
    return dataclasses.replace(windows, history=windows.history[:, :1], prior=prior, lags=(0,))


def _by_source(found: SplineGraph) -> Square:
    return np.asarray(found.value, float).max(axis=2)


def linear_gains(data: KnownData) -> tuple[Square, Float[np.ndarray, " target"]]:
    """Rise of the risk of a linear regression without a source at all lags, and that risk."""
    root = np.sqrt(data.weight)[:, None]
    total = max(float(data.weight.sum()), 1.0)

    def centred(a):
        return (a - data.weight @ a / total) * root / np.sqrt(total)

    x, y = centred(data.inputs), centred(data.outputs)
    gram, inner, power = x.T @ x, x.T @ y, (y**2).sum(axis=0)

    def risk(keep):
        a = gram[np.ix_(keep, keep)] + RIDGE * np.eye(len(keep))
        left = power - (inner[keep] * np.linalg.solve(a, inner[keep])).sum(axis=0)
        return np.maximum(left, 0) / np.where(power > 0, power, 1)

    every = np.arange(x.shape[1])
    full = risk(every)
    without = [risk(every[every % data.dim != source]) for source in range(data.dim)]
    return np.stack(without) - full[None], full


def _shares(value: Square, exponent: float) -> Square:
    """Root of a strength over a power of the sum of those of a target."""
    value = np.maximum(value, 0)
    total = value.sum(axis=0, keepdims=True)
    return np.sqrt(value / np.where(total > 0, total, 1) ** exponent)
