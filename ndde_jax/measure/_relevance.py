"""The relevance of each source: by its present if that determines the rate, else by its past too.

If all variables are observed and nothing is delayed, the present state determines the rate, and the
past offers only proxies. If something is unobserved, or variables are static maps of partly
observed states, the past has information that the present lacks. The data decide which case holds:
by how much the past lowers the residual variance left by the present.

In the second case, shares of a rate do not show whether anything drives it. An autonomous variable
is predicted by its own past, and also by its effects, which are functions of its state. So shares
are weighted by the part of the rate that the variable's own past leaves unexplained.
"""

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from .._types import Square, divisor, to_jax
from ..models._polynomials import all_exponents, monomials
from ..regression._search import WINDOWS_PER_COLUMN
from ..regression._terms import FLOOR
from ..samples._samples import Samples
from ..select._screened import Screened
from ..select._splines import SHORTLIST, SplineGraph, graph_of_terms
from ..windows._windows import KnownData, Windows
from ._precedence import rank_sources

# Weight of precedence above which a report mentions it.
SPOKEN_OF = 0.05
# Share of a target's variance: gains below this are no sign of hidden variables, and a variable
# whose own past leaves less of its rate unexplained is probably autonomous.
NOTICEABLE = 0.1
# How fast trust in the present falls with the gain from the past, per unit of log risk. Chosen on
# simulated networks of CausalDynamics; any value from 8 up ranks about as well.
STEEPNESS = 16.0
# Condition number up to which an inverse factor gives the share of a source to six digits.
DEFINITE = 1e9
# Share of a rate's variance within rounding errors of single precision. Smaller shares do not show
# which of two rates its own past predicts better.
ROUNDING = 1e-7
# Windows per column of a polynomial from which on more hardly make its risk more exact, so that a
# hundred variables take seconds.
ENOUGH = 20


def rank(samples: Samples, screened: Screened, source_value) -> tuple[Square, tuple[str, ...]]:
    """Return the ranking of sources of a discovery, and sentences on its basis. The ranking is
    that of [`relevance`][ndde_jax.measure._relevance.relevance], replaced by precedence as far as
    [`rank_sources`][ndde_jax.measure.rank_sources] trusts it.

    **Arguments:**

    - `source_value`: strengths of sources, `[source target]`.
    """
    strengths = np.nan_to_num(np.maximum(np.asarray(source_value, float), 0))
    # Precedence shows in a whole record, not in the parts that a mask leaves.
    first = None if samples.mask else rank_sources(samples, strengths)
    if first is not None and first.trust >= 1:
        return first.precedence, (first.reason,)
    value, reason = relevance(screened)
    value = np.nan_to_num(value)
    # Shares have no scale: let them add up to the explained variance.
    explained = float(np.nansum(np.clip(1 - np.asarray(screened.found.risk, float), 1e-6, 1)))
    value = value * explained / max(float(value.sum()), 1e-12)
    reasons = (reason,) if reason else ()
    if first is not None:
        value = (1 - first.trust) * value + first.trust * first.precedence
        if first.trust > SPOKEN_OF:
            reasons += (first.reason,)
    return value, reasons


def relevance(screened: Screened) -> tuple[Square, str]:
    """Return a ranking of sources, from 0 to about 1, and a sentence on its basis.

    The ranking is t · present + (1 − t) · past, with t = exp(−16 g). Here g is the mean over
    targets of log((risk by the present + .1) / (risk with the past + .1)) where positive.

    - *By the present*, a source counts as the root of the geometric mean of the loss without it and
        its share among all sources of the target.
    - *By the past*, where the size of a proxy means little, it counts as the root of that share
        alone. A search must pick one of many proxies, and with other noise would pick another; a
        linear regression on all of them does not choose. So for the past the two are averaged, with
        the squared ratio of their risks as the weight of the regression: none for nonlinear
        effects.

    As far as the past counts, other sources are weighted by the part that the own past leaves
    unexplained, see `_autonomy_weights`. If one lag of each source determines its target's rate, as
    with delays, sources rank like their strengths.
    """
    windows, found = screened.windows, screened.found
    value = _by_source(found)
    if len(windows.lags) == 1 or windows.lags[0] != 0:
        return _shares(value, 0.5), ""
    now = _by_present(screened)
    risk = np.asarray(found.risk, float)
    straight, linear_risk = linear_gains(screened.data)
    weight = np.minimum((risk + FLOOR) / (linear_risk + FLOOR), 1)[None] ** 2
    past = (_shares(value, 1.0) + weight * _shares(straight, 1.0)) / (1 + weight)
    gain = np.log((np.asarray(now.risk, float) + NOTICEABLE) / (risk + NOTICEABLE))
    trust = float(np.exp(-STEEPNESS * np.mean(np.maximum(gain, 0))))
    reason = (
        "The ranking of sources, found.source_scores, is based on how well each explains a target's"
        f" rate: {trust:.0%} by its present value alone, {1 - trust:.0%} by its past as well."
    )
    value = trust * _shares(_by_source(now), 0.5) + (1 - trust) * past
    return value * _autonomy_weights(own_risk(screened.data)) ** (1 - trust), reason


def _autonomy_weights(own: Float[np.ndarray, " target"]) -> Square:
    """Return a weight for each source from the residual variances of source and target given their
    `own` past. It is 1 for the variable itself, and for pairs whose own past leaves a tenth of both
    rates unexplained.

    With x = min((risk + 1e-7) / .1, 1), near 0 for an autonomous variable, the squared weight is
    x_target · 2 x_target / (x_source + x_target). So the target's own past must leave something
    unexplained. If it leaves more than the source's own past does, the source is more likely to be
    the cause. An effect also depends on its other causes, about which its own past says less.
    """
    left = np.minimum((own + ROUNDING) / NOTICEABLE, 1)
    weight = np.sqrt(2 * left[None] ** 2 / (left[:, None] + left[None]))
    return np.where(np.eye(len(own), dtype=bool), 1.0, weight)


def own_risk(data: KnownData) -> Float[np.ndarray, " target"]:
    """Return the share of the variance of each rate that the variable's own lags leave unexplained,
    per degree of freedom. It is that of the polynomial of up to third degree that leaves least.
    Where the lags must replace unobserved variables of a chaotic system, cubic polynomials leave
    smaller residuals than quadratic ones. This separates autonomous variables better.

    Polynomials with more than one column per four windows are omitted; without any, the share is 1.
    """
    kept = data.weight > 0
    inputs, n_lags = data.inputs[kept], data.inputs.shape[1] // data.dim
    exponents = all_exponents(n_lags)
    sizes = np.cumsum(np.bincount([sum(powers) for powers in exponents]))
    sizes = sizes[sizes <= len(inputs) // WINDOWS_PER_COLUMN].tolist()
    if len(sizes) < 2:
        return np.ones(data.dim)
    exponents, step = exponents[: sizes[-1]], max(len(inputs) // (ENOUGH * sizes[-1]), 1)
    inputs, rates = inputs[::step], data.outputs[kept][::step]
    inputs = inputs - inputs.mean(axis=0)
    inputs = inputs / divisor(inputs.std(axis=0))
    root = np.sqrt(data.weight[kept][::step])[:, None]
    risks = np.ones(data.dim)
    for j in range(data.dim):
        columns = np.asarray(monomials(inputs[:, j :: data.dim], exponents))
        both = np.concatenate([columns, rates[:, [j]]], axis=1) * root
        # The columns of lower degrees come first, so one factor has the residuals of all.
        left = np.asarray(np.linalg.qr(both, mode="r"))[:, -1] ** 2
        per_freedom = [left[size:].sum() / (len(both) - size) for size in sizes]
        risks[j] = min(per_freedom) / divisor(per_freedom[0])
    return risks


def _by_present(screened: Screened) -> SplineGraph:
    """Return the graph that splines find with the present state alone, the first of the lags."""
    present = _present(screened.windows)
    if screened.data.refused or present.partial is not None:
        return Screened(present).found
    data = KnownData(present)
    few = [screened.design.of_inputs(slice(data.dim))] * data.dim
    return graph_of_terms(data, few, screened.present, SHORTLIST)


def _present(windows: Windows) -> Windows:
    """Return the same windows with the present state alone."""
    # Sliced by NumPy: JAX would compile a slice of every length.
    prior = jax.tree.map(lambda a: to_jax(np.asarray(a)[..., :1]), windows.prior)
    history = to_jax(np.asarray(windows.history)[:, :1])
    partial = windows.partial
    if partial is not None:
        states, known = (to_jax(np.asarray(a)[:, :1]) for a in (partial.history, partial.known))
        partial = dataclasses.replace(partial, history=states, known=known)
    return dataclasses.replace(windows, history=history, prior=prior, lags=(0,), partial=partial)


def _by_source(found: SplineGraph) -> Square:
    """Return the strength of each source at its best lag, or at all its kept lags together if that
    is larger.
    """
    value = np.maximum(np.asarray(found.value).max(axis=2), np.asarray(found.source_value))
    return np.asarray(value, float)


def linear_gains(data: KnownData) -> tuple[Square, Float[np.ndarray, " target"]]:
    """Return the rise of the risk of a linear regression without a source at all lags, and the risk
    with all sources.
    """
    root = np.sqrt(data.weight)[:, None]
    total = max(float(data.weight.sum()), 1.0)

    def centred(a):
        return (a - data.weight @ a / total) * root / np.sqrt(total)

    # Lags of smooth records are almost collinear, so use orthogonal factors: inner products would
    # square the condition number. From here on there are as many rows as columns.
    both = np.concatenate([centred(data.inputs), centred(data.outputs)], axis=1)
    triangle = np.linalg.qr(both, mode="r")
    x, y = np.split(triangle, [data.inputs.shape[1]], axis=1)
    power = (y**2).sum(axis=0)

    scale, every = divisor(power), np.arange(x.shape[1])
    apart = _inverse_factor(x)
    if apart is not None:
        # The part that only a source explains lies along its rows of the inverse.
        along = [np.linalg.qr(apart[every % data.dim == i].T)[0] for i in range(data.dim)]
        rises = [((own.T @ y[: len(every)]) ** 2).sum(axis=0) / scale for own in along]
        return np.stack(rises), (y[len(every) :] ** 2).sum(axis=0) / scale

    def risk(keep):
        left = y - x[:, keep] @ np.linalg.lstsq(x[:, keep], y, rcond=None)[0]
        return (left**2).sum(axis=0) / scale

    full = risk(every)
    without = [risk(every[every % data.dim != source]) for source in range(data.dim)]
    return np.stack(without) - full[None], full


def _inverse_factor(x: Float[np.ndarray, "row input"]) -> Float[np.ndarray, "input input"] | None:
    """Return the inverse of a triangular factor; None if inputs are almost collinear."""
    factor = x[: x.shape[1]]
    if len(factor) < x.shape[1] or not np.diagonal(factor).all():
        return None
    inverse = np.linalg.inv(factor)
    return inverse if np.linalg.norm(factor, 1) * np.linalg.norm(inverse, 1) < DEFINITE else None


def _shares(value: Square, exponent: float) -> Square:
    """Return the root of each strength divided by a power of the sum over its target's sources."""
    value = np.maximum(value, 0)
    total = value.sum(axis=0, keepdims=True)
    return np.sqrt(value / divisor(total) ** exponent)
