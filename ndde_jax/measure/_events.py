"""The graph and delays of records in which a few events pass from one variable to the next.

Given all others no variable adds anything there, and a search that conditions on all others keeps
whichever neighbour fits the rounding. Precedence at least gives the order of the variables.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._types import KnownGraph, Pairs, Square
from ..samples._samples import Samples
from ..select._splines import spline_graph
from ..windows._prior import PriorKnowledge
from ..windows._windows import KnownData, Windows, lagged_windows
from ._delays import Delays, candidate_lags
from ._precedence import Ranking, TravelTime, events_alone, likeness, rank_sources, travel_time
from ._relevance import linear_gains

# Weight of precedence from which on it decides the graph as well.
DECISIVE = 0.5
# Precedence below which neither of two variables is first.
FIRST = 0.05
# Share of a rate that a source adds to the present states of all others, by splines and products,
# the strongest of a target and the median over these, from which on variables move one another by a
# law, in spikes as of a relaxation oscillation. Set by looking: of simulated rivers and of a flood
# it is .00 to .37, of Brusselators and neurons .81 to .93.
LAW = 0.6
# Share of a rate that one source adds, given all others, from which on variables do not stand in
# for one another, as where daily rain wets the soil. Set by looking: of simulated rivers and of a
# flood it is .16 at most, of rain and soil .9.
TOLD = 0.5
# Delays are tried up to this share of the record, which leaves four stretches to compare.
LONGEST = 1 / 16


class Events(NamedTuple):
    """The ranking, pairs and prior that a record of events gives before any search.

    - `ranking`: see [`rank_sources`][ndde_jax.measure.rank_sources].
    - `next`: pairs that the tree of the greatest likenesses joins, and of which the target is, at
        some later time, most like the source among all variables that the source precedes,
        `[source target]`.
    - `prior`: the given prior, restricted to these pairs, edges from a variable to itself and
        required edges.
    """

    ranking: Ranking
    next: Pairs
    prior: PriorKnowledge

    @property
    def choice(self) -> str:
        """A sentence for a report."""
        dim = len(self.next)
        return (
            f"{self.ranking.reason[0].upper()}{self.ranking.reason[1:]} Edges were looked for in "
            f"the {int(self.next.sum())} of {dim * (dim - 1)} ordered pairs in which one of two "
            "that the tree of the greatest likenesses joins follows the other most closely; what "
            "lies further apart is not told from what lies between."
        )


def read_events(samples: Samples, *, lags, prior: PriorKnowledge | None = None) -> Events | None:
    """Return the events of a record; None unless some variable is first and precedence decides, by
    [`rank_sources`][ndde_jax.measure.rank_sources] with the strengths of linear regressions on
    forward differences at `lags`, and neither the present states of others nor a single source,
    given all others, give its rates.

    Where a signal between two variables passes through all that lie between them, the network is a
    tree: that of the greatest dependences (Chow and Liu,
    [1968](https://doi.org/10.1109/TIT.1968.1054142)). A source passes its signal on to one place.
    """
    if not events_alone(samples) > DECISIVE:
        return None
    windows = lagged_windows(samples, lags=lags, scheme="euler", prior=prior)
    data = KnownData(windows)
    if data.refused:
        return None
    strengths, itself = np.maximum(linear_gains(data)[0], 0), np.eye(samples.dim, dtype=bool)
    if np.where(itself, 0, strengths).max() > TOLD:
        return None
    ranking = rank_sources(samples, strengths)
    if not ranking.trust > DECISIVE:
        return None
    leads = (ranking.precedence > FIRST) & ~itself
    if not leads.any():
        return None  # shocks that reach all within one sample, such as those of a market
    present = spline_graph(lagged_windows(samples, lags=(0,), scheme="euler"))
    if np.median(np.where(itself, 0, present.source_value).max(axis=0)) > LAW:
        return None
    alike = np.where(leads, likeness(samples, largest_shift(samples)), -np.inf)
    nearest = leads & _tree(np.maximum(alike, alike.T)) & (alike == alike.max(axis=1)[:, None])
    near, required = jnp.asarray(nearest | itself)[..., None], windows.prior.required
    allowed = (windows.prior.allowed & near) | required
    return Events(ranking, nearest, PriorKnowledge(allowed, required))


def _tree(alike: Square) -> Pairs:
    """Return the forest of the greatest sum of correlations; pairs of −inf are not joined."""
    from scipy.sparse.csgraph import minimum_spanning_tree  # takes a moment to import

    # Costs of 0 would mean no pair, as those of inf do.
    tree = minimum_spanning_tree(2 - alike).toarray() > 0
    return tree | tree.T


def largest_shift(samples: Samples) -> int:
    """Return the largest shift, in samples, that leaves enough stretches to compare."""
    return int(LONGEST * min(len(value) for value in samples.values))


def travel_times(
    samples: Samples, windows: Windows, graph: KnownGraph, *, key: PRNGKeyArray
) -> Delays:
    """Return the delays of kept edges between different variables by
    [`travel_time`][ndde_jax.measure.travel_time], whatever the candidate lags, with 90 % intervals;
    all lags of a pair have the same. Edges of a variable to itself stay at their lag.
    """
    delays, intervals = candidate_lags(windows, graph)
    largest = largest_shift(samples)
    if largest < 1:
        return delays, intervals
    pairs = graph.any(axis=2) & ~np.eye(samples.dim, dtype=bool)
    for source, target in zip(*np.nonzero(pairs), strict=True):
        found: TravelTime = travel_time(samples, int(source), int(target), largest, key=key)
        kept = graph[source, target]
        delays[source, target, kept] = found.delay
        intervals[source, target, kept] = found.lower, found.upper
    return delays, intervals
