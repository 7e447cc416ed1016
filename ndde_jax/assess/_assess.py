"""All that is told of a graph beside it: error rates, what is unseen, at once, or drifting."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from ..windows._windows import Windows
from ._at_once import at_once, residuals
from ._drifting import drifting
from ._edges import edge_p_values, q_values
from ._inputs import read_inputs
from ._rows import rows_of
from ._unseen import unseen


@dataclasses.dataclass(frozen=True)
class ErrorRates:
    """`p` and `q` of every candidate edge, `[source target lag]`."""

    p: Float[np.ndarray, "source target lag"]
    q: Float[np.ndarray, "source target lag"]


@dataclasses.dataclass(frozen=True)
class Relations:
    """What a graph of causes does not hold: `correlation` of what is left of two rates, pairs that
    are related `at_once` and pairs that are `confounded`, `[source target]`, symmetric; and inputs
    whose effect is `drifting`, `[source target lag]`.
    """

    correlation: Float[np.ndarray, "source target"]
    at_once: Bool[np.ndarray, "source target"]
    confounded: Bool[np.ndarray, "source target"]
    drifting: Bool[np.ndarray, "source target lag"]

    def of_events(self) -> "Relations":
        """The correlation alone: other tests take the inputs kept for what explains the rates."""
        none = np.zeros_like(self.drifting)
        return Relations(self.correlation, none.any(axis=2), none.any(axis=2), none)


# Rows below which nothing is tested.
FEWEST = 40


def error_rates(windows: Windows, graph: Bool[np.ndarray, "source target lag"]) -> ErrorRates:
    """Of every candidate edge, given the graph."""
    rows = rows_of(windows)
    enough = len(rows.rates) >= FEWEST
    p = edge_p_values(read_inputs(rows), graph) if enough else np.full(graph.shape, np.nan)
    return ErrorRates(p, q_values(p))


def relations(windows: Windows, graph: Bool[np.ndarray, "source target lag"]) -> Relations:
    """What the inputs of a graph leave says about pairs of variables and about time."""
    rows = rows_of(windows)
    if len(rows.rates) < FEWEST:
        none = np.zeros(graph.shape, bool)
        return Relations(np.full(graph.shape[:2], np.nan), none[..., 0], none[..., 0], none)
    inputs = read_inputs(rows)
    left = residuals(inputs, graph)
    related = at_once(inputs, graph, left)
    return Relations(
        correlation=related.correlation,
        at_once=related.related,
        confounded=unseen(inputs, graph, left).pairs,
        drifting=drifting(inputs, graph).found,
    )
