"""The worth of the inputs of a fit, with lower bounds from its spread over stretches, and
the inputs that a price leaves.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import namespace_of
from ..fit._prices import EBIC, AbstractPrice
from ..regression._terms import FLOOR, Fit, each_left_out

# Number of stretches of a record over which the worth of an edge is compared.
BLOCKS = 32
# Level of the one-sided lower bounds.
CONFIDENCE = 0.95


class Worth(NamedTuple):
    """The worth of every input of a fit, and of every source at all its lags together, in NumPy or
    JAX.

    - `mask`: inputs that the fit reads, `[input]`; numbered (lag, source).
    - `risk`: risk of the fit, by generalised cross-validation.
    - `rises`: rise of the uncorrected risk without each input, followed by that without each
        source.
    - `value`, `lower`: rise of the corrected risk without an input, at most 1, and its lower bound,
        `[input]`; 0 for inputs that the fit does not read.
    - `together`, `bound`: the same without all lags of a source, `[source]`.
    """

    mask: Any
    risk: Any
    rises: Any
    value: Any
    lower: Any
    together: Any
    bound: Any

    def limit(self, n: Any, price: AbstractPrice | None) -> Any:
        """Return the least worth of an edge, for `n` windows.

        The criterion has already decided on every edge, with the others refitted. So without
        another price this is its charge for a linear input, the least it charges, but at most the
        worth of the least of the kept edges.
        """
        xp, n_inputs = namespace_of((self.risk, n)), len(self.mask)
        if price is not None and not isinstance(price, EBIC):
            return xp.asarray(price(xp.asarray(self.risk), n, n_inputs, 1))
        charge = (self.risk + FLOOR) * (xp.log(n) + 2 * np.log(n_inputs).item()) / n
        least = 0.99 * xp.min(xp.where(self.mask, self.value, xp.inf))
        return xp.maximum(xp.minimum(charge, least), 0.0)

    def with_best_lags(self, limit: Any) -> "Worth":
        """Return the worth with that of all lags of a source assigned to its best lag, where lags
        can replace one another: no single one is needed, although all of them together may be.
        """
        xp, dim = namespace_of((self.value, limit)), len(self.together)
        n_lags = len(self.mask) // dim
        by_lag = lambda a: a.reshape(n_lags, dim)  # noqa: E731
        several = by_lag(self.mask).sum(axis=0) > 1
        alone = by_lag(self.mask & (self.value > limit) & (self.lower > 0)).any(axis=0)
        whole = several & ~alone & (self.together > limit) & (self.bound > 0)
        best = xp.argmax(xp.where(by_lag(self.mask), by_lag(self.value), -xp.inf), axis=0)
        chosen = xp.tile(whole, n_lags) & (
            np.repeat(np.arange(n_lags), dim) == xp.tile(best, n_lags)
        )
        value, lower = (xp.tile(a, n_lags) for a in (self.together, self.bound))
        return self._replace(
            value=xp.where(chosen, value, self.value), lower=xp.where(chosen, lower, self.lower)
        )


def worth_of(fit: Fit, part: Fit, root: Any, dim: int) -> Worth:
    """Return the worth of the inputs of a fit of one target.

    - `part`: the fit in the windows in memory, for errors by stretch; the same as `fit` if all
        windows are in memory.
    - `root`: square roots of the weights of these windows.
    - `dim`: number of sources.
    """
    xp, mask = namespace_of((fit, root)), fit.terms.reads()
    n_inputs, risk = len(mask), fit.corrected_risk()
    groups = each_left_out(n_inputs, dim)
    rank, counted = stretches(root), (root > 0).astype(part.residual.dtype)
    size = xp.maximum(_sums(counted, rank), 1)
    left = part.n * _sums(part.residual**2, rank) / size

    def without(gone):
        """Return the rise of the risk, of the corrected risk, and of the error by stretch."""
        found = fit.without(gone)
        residual = (found if part is fit else part.without(gone)).residual
        more = part.n * _sums(residual**2, rank) / size - left
        return found.rise, found.corrected_risk - risk, more

    read = (groups & mask[None]).any(axis=1)
    if xp is np:
        rises, value, blocks = (np.zeros((len(groups), *more)) for more in ((), (), (BLOCKS,)))
        for k in np.flatnonzero(read):
            rises[k], value[k], blocks[k] = without(groups[k])
    else:
        rises, value, blocks = jax.lax.map(without, jnp.asarray(groups))
    value = xp.minimum(value, 1)
    lower, cut = xp.where(read, lower_bound(value, blocks, left), 0), n_inputs
    return Worth(mask, risk, rises, value[:cut], lower[:cut], value[cut:], lower[cut:])


def _sums(values: Any, rank: Any) -> Any:
    """Return the sum of values in each stretch, `[block]`."""
    if namespace_of((values, rank)) is np:
        return np.bincount(rank, values, BLOCKS)
    return jax.ops.segment_sum(values, rank, BLOCKS)


def stretches(weight: Any) -> Any:
    """Return the stretch that contains each window, one of `BLOCKS` with equally many valid
    windows. Windows before the first valid one belong to the first stretch.
    """
    xp, used = namespace_of(weight), weight > 0
    rank = (xp.cumsum(used) - 1) * BLOCKS // xp.maximum(used.sum(), 1)
    return xp.clip(rank, 0, BLOCKS - 1)


def lower_bound(worth: Any, blocks: Any, left: Any) -> Any:
    """Return a lower confidence bound of the worth of each input, `[input]`, from its worth by
    block, `[input block]`, and the risk with it by block, `left`, `[block]`.

    The bound is Student's bound of the mean. If a variable moves in bursts, a few blocks contain
    nearly all of an edge's worth, and this bound is below zero although the edge explains most of
    the rate in nearly every block. Then it is the bound of the mean share (b − a) / (b + a), which
    no block dominates, times the median block size; a and b are the errors with and without the
    edge. Bursts are defined by an effective number of blocks, (Σ size)² / Σ size² for the sizes
    b + a, below half their number.
    """
    xp, count = namespace_of((worth, blocks, left)), blocks.shape[1]
    quantile = student_quantile(CONFIDENCE, count - 1) / count**0.5
    plain = worth - quantile * blocks.std(axis=1, ddof=1)
    size = 2 * left[None] + blocks
    bursts = size.sum(axis=1) ** 2 < count / 2 * (size**2).sum(axis=1)
    share = blocks / xp.where(size > 0, size, 1)
    steady = share.mean(axis=1) - quantile * share.std(axis=1, ddof=1)
    steady = xp.minimum(steady * xp.median(size, axis=1), worth)
    return xp.where(bursts & (plain <= 0), xp.maximum(plain, steady), plain)


def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t with given degrees of freedom, at a probability above one
    half.
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))
