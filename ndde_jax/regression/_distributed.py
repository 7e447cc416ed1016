"""Inputs of a map whose sources act over several lags each, at prices estimated from the record.

The extended Bayesian information criterion selects every lag of every source separately, with a
price that assumes effects as large as the target itself. Where sources act over several lags, as in
vector autoregressions, many lags are weak, and none alone is worth that price although the source
clearly is. Here a target chooses among sources, and each source among its lags, and the expected
size of effects is estimated from the record (empirical Bayes). Both criteria correspond to priors
on graphs, so they can be compared, over all targets together.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from .._types import KnownMask
from ._search import (
    FLOOR,
    LINE,
    MOST,
    OUT,
    PROGRESS,
    Problem,
    columns_price,
    ridge_of,
    search_roomy,
)

# Most rounds of searches, each at the effect size estimated in the previous one, and the change of
# their mean square below which they end.
ROUNDS, SETTLED = 6, 0.1


class Distributed(NamedTuple):
    """A graph of distributed lags, `[target input]`, and its criterion, summed over targets."""

    mask: Bool[np.ndarray, "target input"]
    cost: float


def distributed_lags(
    problem: Problem, n_lags: int, start: Bool[np.ndarray, "target input"]
) -> Distributed:
    """Return the linear map with few sources, each at any of its lags, that locally minimises

        n log(risk + 10⁻⁴) + log n · own columns + (1 + log m) · other columns
        + 2 log (sources choose s) + Σ 2 log (L (L choose k)),

    where k of the L lags of each of s sources are in use. All numbers k are equally likely, and all
    choices of k lags. m is the mean square of the effects of other variables in standard errors,
    that is, the rise of twice the log likelihood of all targets due to these effects, divided by
    their number. If 1 + log m is less than log n, the price of an effect as large as the target
    itself, it replaces log n: the empirical Bayes criterion of George and Foster (2000). Columns
    cost more in short records, as in [`search`][ndde_jax.regression.search], which makes all moves.

    - `problem`: one linear feature for each input, numbered (lag, source); sources are the targets.
        Its prices of columns and of choices are not used.
    - `start`: inputs to start from, the result of another search.
    """
    found = (start & problem.allowed) | problem.required
    prices = _Prices.at(problem, n_lags, found)
    best = Distributed(found, np.inf)
    for _ in range(ROUNDS):
        found = np.stack([_searched(problem, prices, j, own) for j, own in enumerate(found)])
        before, prices = prices, _Prices.at(problem, n_lags, found)
        cost = sum(_log_risk(problem, j, own) + prices.of(j, own) for j, own in enumerate(found))
        best = min(best, Distributed(found, float(cost)), key=lambda one: one.cost)
        if abs(prices.square - before.square) < SETTLED:
            break
    return best


def _log_risk(problem: Problem, j: int, mask: KnownMask) -> float:
    """Return n log(risk + 10⁻⁴) for a target with some inputs."""
    c, gram = problem.cross[j, mask, 0], problem.gram[mask, 0][:, mask, 0]
    gram = gram + ridge_of(gram.dtype) * np.eye(len(c))
    risk = 1 - float(c @ np.linalg.solve(gram, c[:, None])[:, 0]) / max(problem.power[j], 1e-300)
    return float(problem.n) * math.log(max(risk, 0) + FLOOR)


class _Prices(NamedTuple):
    """The prices of the inputs of a target, `n_lags` lags of each of `dim` sources, for `n` windows
    and effects of other variables with mean square `square`, in squared standard errors.
    """

    dim: int
    n_lags: int
    n: float
    square: float

    @classmethod
    def at(cls, problem: Problem, n_lags: int, masks: Bool[np.ndarray, "target input"]):
        """Return the prices at the effect size of a graph; the usual price of columns if it has no
        effects.
        """
        n, rise, dim = float(problem.n), 0.0, len(masks)
        others = masks & (np.arange(masks.shape[1])[None] % dim != np.arange(dim)[:, None])
        for j in map(int, np.flatnonzero(others.any(axis=1))):
            own = masks[j] & ~others[j]
            rise += _log_risk(problem, j, own) - _log_risk(problem, j, masks[j])
        count = int(others.sum())
        return cls(dim, n_lags, n, rise / count if count else n)

    def discount(self) -> float:
        """Return by how much the price of an effect of another variable is below log n."""
        return max(math.log(self.n) - 1 - math.log(max(self.square, 1.0)), 0.0)

    def sources(self) -> Float[np.ndarray, " number"]:
        """Return the price of choosing 0, 1, 2 … sources."""
        return 2 * np.log([float(math.comb(self.dim, s)) for s in range(self.dim + 1)])

    def lags(self) -> Float[np.ndarray, " number"]:
        """Return the price of choosing 0, 1, 2 … lags of a source; no lag costs 0."""
        counts = range(1, self.n_lags + 1)
        each = [float(self.n_lags * math.comb(self.n_lags, k)) for k in counts]
        return np.concatenate([[0.0], 2 * np.log(each)])

    def each(self, mask: KnownMask) -> np.ndarray:
        """Return the number of lags of every source."""
        return mask.reshape(self.n_lags, self.dim).sum(axis=0)

    def of(self, j: int, mask: KnownMask) -> float:
        """Return the price of the inputs of a target."""
        each, count = self.each(mask), float(mask.sum())
        columns = float(columns_price(self.n, np.asarray(count)))
        columns -= self.discount() * (count - float(each[j]))
        return columns + float(self.sources()[(each > 0).sum()] + self.lags()[each].sum())

    def slopes(self, j: int, mask: KnownMask, *, less: bool):
        """Return, for every input, by how much the price of choices rises with one more input of
        its source, or falls with one `less`, minus the discount.

        The prices of choices are concave in the numbers of sources and of lags. So they lie below
        these tangents, and a change that lowers the cost along a tangent lowers the true cost.
        """
        each, rises, of_source = self.each(mask), np.diff(self.lags()), np.diff(self.sources())
        number = int((each > 0).sum()) - less
        if less:
            place, joins = np.maximum(each - 1, 0), each <= 1
        else:
            place, joins = np.minimum(each, len(rises) - 1), each == 0
        slope = rises[place] + joins * of_source[np.clip(number, 0, len(of_source) - 1)]
        return np.tile(slope - self.discount() * (np.arange(self.dim) != j), self.n_lags)


def _searched(problem: Problem, prices: _Prices, j: int, start: KnownMask):
    """Return the inputs of one target that no search at tangents of their prices improves."""

    def cost(mask):
        return _log_risk(problem, j, mask) + prices.of(j, mask)

    found, least, less, stuck = start, cost(start), False, 0
    while stuck < 2:
        new = _at_slopes(problem, prices.slopes(j, found, less=less), j, found)
        lower = cost(new)
        better = lower < least - PROGRESS
        found, least, stuck = (new, lower, 0) if better else (found, least, stuck + 1)
        less = not less
    return found


def _at_slopes(problem: Problem, price, j: int, start: KnownMask):
    """Return the inputs that a search finds at fixed prices per input, added to that of columns."""
    one = problem.of_targets([j])._replace(choices=np.asarray(1.0), price=price)
    most = MOST
    while most <= start.sum():
        most *= 2
    return search_roomy(one, np.where(start, LINE, OUT), most).level > OUT
