"""States between samples: what a step that is finer than the sampling reads of the past.

A cubic through the four samples around (Lagrange), one-sided at the present and where the past
begins; what jumps, because it was taken hold of, is followed by straight lines up to the jump.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

# Nodes of the cubic; and parts of a step, each of the classical method of Runge and Kutta, of
# fourth order. One part is too coarse where the present moves far within a step; four gave what two
# give on every delayed system tried.
NODES, PARTS = 4, 2
# Stages of a part: where in it the drift is asked, how far along the last rate, weight of the rate.
_STAGES = ((0.0, 0.5, 1 / 6), (0.5, 0.5, 1 / 3), (0.5, 1.0, 1 / 3), (1.0, 0.0, 1 / 6))


def stages() -> Float[np.ndarray, "stage 4"]:
    """Of a whole step: time of the rate, distance to the state of the next stage, weight of the
    rate, and whether a part ends with it; times and lengths in steps.
    """
    table = [
        ((part + time) / PARTS, on / PARTS, weight / PARTS, float(last == len(_STAGES) - 1))
        for part in range(PARTS)
        for last, (time, on, weight) in enumerate(_STAGES)
    ]
    return np.array(table)


def nodes(place: Any, newest: Any, xp: Any, count: int = NODES) -> Any:
    """First of the `count` samples around the interval that begins at sample `place`."""
    return xp.clip(place - 1, 0, newest - count + 1)


def weights(place: Any, first: Any, s: Any, count: int = NODES) -> list:
    """Of the samples from `first` on, for the state a share `s` of an interval after `place`."""
    at = place - first + s
    found = []
    for a in range(count):
        weight = 0 * at + 1.0
        for b in range(count):
            if b != a:
                weight = weight * (at - b) / (a - b)
        found.append(weight)
    return found
