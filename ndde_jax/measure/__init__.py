"""The measures of an edge: stability, delays, and precedence.

Strengths are at the top level: [`signal_strengths`][ndde_jax.signal_strengths].
"""

from ..select._measured import SignalStrengths as SignalStrengths
from ._delays import DelayEstimates as DelayEstimates, refine_delays as refine_delays
from ._precedence import (
    Ranking as Ranking,
    TravelTime as TravelTime,
    precedence as precedence,
    rank_sources as rank_sources,
    travel_time as travel_time,
)
from ._stability import EdgeStability as EdgeStability, edge_stability as edge_stability
