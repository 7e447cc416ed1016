"""What an edge is worth: strengths, rivals, stability, delays, and who predicts whom first."""

from ._precedence import (
    Ranking as Ranking,
    precedence as precedence,
    rank_sources as rank_sources,
)
from ._travel import TravelTime as TravelTime, travel_time as travel_time
