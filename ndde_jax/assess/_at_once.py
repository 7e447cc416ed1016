"""Links inside one sampling interval: what inputs leave of two rates at the same step."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._inputs import Inputs, kept_columns
from ._score import basis

# Partial correlation of what is left, below which a link inside the interval does no harm, and the
# probability that a record of unrelated variables has any such pair by chance, which is divided
# among its pairs (Bonferroni).
RELATED, CHANCE = 0.15, 1 / 40


class AtOnce(NamedTuple):
    """`correlation` of what is left of two rates, and whether it stands given the rest, `related`;
    both symmetric, `[source target]`.
    """

    correlation: Float[np.ndarray, "source target"]
    related: Bool[np.ndarray, "source target"]


def residuals(
    inputs: Inputs, graph: Bool[np.ndarray, "source target lag"]
) -> Float[np.ndarray, "row dim"]:
    """Return what a regression on the inputs kept, with bends and products, leaves of every rate.

    NaN where there are hardly more rows than columns.
    """
    rates = inputs.rows.rates
    left = np.full_like(rates, np.nan)
    for j in range(rates.shape[1]):
        q = basis(kept_columns(inputs, graph[:, j]))
        if len(rates) > 2 * len(q):
            left[:, j] = rates[:, j] - (q @ rates[:, j]) @ q
    return left


def at_once(
    inputs: Inputs,
    graph: Bool[np.ndarray, "source target lag"],
    left: Float[np.ndarray, "row dim"],
) -> AtOnce:
    """Return correlations of residuals, and partial ones given all other residuals that are large
    and beyond chance, by standard errors that hold for changing variances.

    Of a continuous path a link whose delay is shorter than a step works within the step too. As
    much as that can be is taken off before.
    """
    from scipy.stats import norm  # takes a moment to import

    left = _outside(inputs, graph, left)
    dim = left.shape[1]
    correlation, related = np.full((dim, dim), np.nan), np.zeros((dim, dim), bool)
    known = np.isfinite(left).all(axis=0)
    z = left[:, known]
    size = np.sqrt(np.mean(z**2, axis=0))
    z = z / np.where(size > 0, size, np.inf)
    n, places = len(z), np.ix_(known, known)
    if n <= 2 * z.shape[1] or not z.shape[1]:
        return AtOnce(correlation, related)
    covariance = z.T @ z / n
    correlation[places] = covariance
    precision = np.linalg.pinv(covariance + 1e-9 * np.eye(len(covariance)), hermitian=True)
    d = np.sqrt(np.maximum(np.diag(precision), 1e-300))
    partial = -precision / np.outer(d, d)
    np.fill_diagonal(partial, 1)
    whole = z @ precision
    apart = norm.isf(CHANCE / max(len(partial) * (len(partial) - 1), 1))
    inside = np.zeros_like(partial, dtype=bool)
    for i in range(len(partial) - 1):
        j = np.arange(i + 1, len(partial))
        # What the others leave of both, from the precisions of the two alone.
        pair = np.stack([whole[:, [i] * len(j)], whole[:, j]])
        aa, bb, ab = precision[i, i], precision[j, j], precision[i, j]
        det = np.maximum(aa * bb - ab**2, 1e-300)
        a, b = (bb * pair[0] - ab * pair[1]) / det, (aa * pair[1] - ab * pair[0]) / det
        product = a * b
        error = np.sqrt(np.mean((product - product.mean(axis=0)) ** 2, axis=0) / n)
        beyond = np.abs(product.mean(axis=0)) > apart * error
        inside[i, j] = beyond & (np.abs(partial[i, j]) > RELATED)
    related[places] = inside | inside.T
    return AtOnce(correlation, related)


def _outside(inputs, graph, left):
    """Return residuals of a continuous path without what links kept at the present, or at the next
    lag, can do within a step: noise of the source reaches the target for half of the step at most.
    Rates that were corrected for a present link may lack as much where its delay is a part of the
    step.
    """
    rows, corrected = inputs.rows, left.copy()
    if not rows.midway:
        return left
    soon = [a for a, lag in enumerate(rows.lags) if lag <= rows.step]
    for j in range(left.shape[1]):
        places = [(int(i), int(a)) for i, a in np.argwhere(graph[:, j])]
        sources = dict.fromkeys(i for i, a in places if a in soon and i != j)
        if not sources:
            continue
        lines = np.stack([inputs.line[:, a, i] for i, a in places], axis=1)
        slopes = np.linalg.lstsq(lines - lines.mean(axis=0), rows.rates[:, j], rcond=1e-9)[0]
        for i in sources:
            at = [k for k, (s, a) in enumerate(places) if s == i and a in soon]
            most = abs(float(slopes[at].sum())) * float(rows.moves[i]) / 2
            size = float(left[:, i] @ left[:, i])
            slope = float(left[:, i] @ corrected[:, j]) / size if size > 0 else 0.0
            corrected[:, j] -= np.clip(slope, -most, most) * left[:, i]
    return corrected
