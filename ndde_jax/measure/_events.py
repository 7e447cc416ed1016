"""The graph and delays of records in which a few events pass from one variable to the next.

In such records no variable adds anything given all others, and a search that conditions on all
others keeps whichever neighbour fits the rounding errors. Precedence still orders the variables.
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
from ._precedence import Ranking, TravelTime, likeness, rank_sources, travel_time, trust_bound
from ._relevance import linear_gains

# Weight of precedence above which it decides the graph as well.
DECISIVE = 0.5
# Precedence below which neither of two variables is first.
MIN_PRECEDENCE = 0.05
# Share of a rate that the strongest source of a target adds to the present states of all others, by
# splines and products, median over targets. Above it variables drive one another by a law, in
# spikes like those of a relaxation oscillation. Chosen by inspection: it is .00 to .37 for
# simulated rivers and a flood, .81 to .93 for Brusselators and neurons.
MAX_PRESENT_SHARE = 0.6
# Share of a rate that one source adds, given all others, above which variables are not proxies for
# one another, for example daily rain and soil moisture. Chosen by inspection: it is at most .16 for
# simulated rivers and a flood, .9 for rain and soil.
MAX_SINGLE_SOURCE_SHARE = 0.5
# Delays are tried up to this share of the record, which leaves four segments to compare.
LONGEST = 1 / 16


class Events(NamedTuple):
    """The ranking, pairs and prior that a record of events yields before any search.

    - `ranking`: see [`rank_sources`][ndde_jax.measure.rank_sources].
    - `next`: pairs in the maximum spanning tree of similarities whose target, at some later time,
        resembles the source more than all other variables that the source precedes,
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
            f"{self.ranking.reason[0].upper()}{self.ranking.reason[1:]} Edges were searched only "
            f"in the {int(self.next.sum())} of {dim * (dim - 1)} ordered pairs that are joined by "
            "the maximum spanning tree of similarities and in which one variable follows the other "
            "most closely. Effects over longer distances cannot be distinguished from those of "
            "the variables between."
        )


def read_events(samples: Samples, *, lags, prior: PriorKnowledge | None = None) -> Events | None:
    """Return the events of a record, or None. There are events if some variable is first and
    precedence decides, by [`rank_sources`][ndde_jax.measure.rank_sources] with strengths from
    linear regressions of forward differences at `lags`, and if neither the present states of others
    nor a single source, given all others, explains the rates.

    If a signal between two variables passes through all variables between them, the network is the
    tree of the greatest dependences (Chow and Liu,
    [1968](https://doi.org/10.1109/TIT.1968.1054142)). A source passes its signal to one variable.
    """
    if not trust_bound(samples) > DECISIVE:
        return None
    windows = lagged_windows(samples, lags=lags, scheme="euler", prior=prior)
    data = KnownData(windows)
    if data.refused:
        return None
    strengths, itself = np.maximum(linear_gains(data)[0], 0), np.eye(samples.dim, dtype=bool)
    if np.where(itself, 0, strengths).max() > MAX_SINGLE_SOURCE_SHARE:
        return None
    ranking = rank_sources(samples, strengths)
    if not ranking.trust > DECISIVE:
        return None
    leads = (ranking.precedence > MIN_PRECEDENCE) & ~itself
    if not leads.any():
        return None  # shocks that reach all variables within one sample, as in a market
    present = spline_graph(lagged_windows(samples, lags=(0,), scheme="euler"))
    if np.median(np.where(itself, 0, present.source_value).max(axis=0)) > MAX_PRESENT_SHARE:
        return None
    alike = np.where(leads, likeness(samples, largest_shift(samples)), -np.inf)
    nearest = leads & _tree(np.maximum(alike, alike.T)) & (alike == alike.max(axis=1)[:, None])
    near, required = jnp.asarray(nearest | itself)[..., None], windows.prior.required
    allowed = (windows.prior.allowed & near) | required
    return Events(ranking, nearest, PriorKnowledge(allowed, required))


def _tree(alike: Square) -> Pairs:
    """Return the forest of the greatest sum of correlations; pairs of −inf are not joined."""
    from scipy.sparse.csgraph import minimum_spanning_tree  # takes a moment to import

    # A cost of 0 would mean no pair, as inf does.
    tree = minimum_spanning_tree(2 - alike).toarray() > 0
    return tree | tree.T


def largest_shift(samples: Samples) -> int:
    """Return the largest shift, in samples, that leaves enough segments to compare."""
    return int(LONGEST * min(len(value) for value in samples.values))


def travel_times(
    samples: Samples, windows: Windows, graph: KnownGraph, *, key: PRNGKeyArray
) -> Delays:
    """Return the delays, in samples, of kept edges between different variables by
    [`travel_time`][ndde_jax.measure.travel_time], whatever the candidate lags, with 90 % intervals.
    All lags of a pair have the same delay. Edges of a variable to itself stay at their lag.
    """
    delays, intervals = candidate_lags(windows, graph)
    largest = largest_shift(samples)
    if largest < 1:
        return delays, intervals
    pairs = graph.any(axis=2) & ~np.eye(samples.dim, dtype=bool)
    for source, target in zip(*np.nonzero(pairs), strict=True):
        found: TravelTime = travel_time(samples, int(source), int(target), largest, key=key)
        kept = graph[source, target]
        delays[source, target, kept] = found.delay / samples.dt
        intervals[source, target, kept] = np.array([found.lower, found.upper]) / samples.dt
    return delays, intervals
