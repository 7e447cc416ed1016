"""Single samples that leave their neighbours and come back at once, as no path does."""

import numpy as np
from jaxtyping import Bool, Float

# How far from its neighbours a sample must lie: in typical distances, and in ranges that the four
# neighbours span.
FAR, RANGES = 10.0, 4.0


def find_spikes(x: Float[np.ndarray, "time dim"]) -> Bool[np.ndarray, "time dim"]:
    """Where single values are spikes.

    A value is one if it lies off the median of its two neighbours on either side by ten times what
    is typical (the larger of the median distance, over 0.67, and the 90 % quantile over 1.64, as
    for normal distances) and by four times the range of three of the four. A burst of several
    samples, which a system can make, is none.
    """
    found = np.zeros(x.shape, bool)
    if len(x) < 20:
        return found
    around = np.sort(np.stack([x[:-4], x[1:-3], x[3:-1], x[4:]]), axis=0)
    distance = np.abs(x[2:-2] - (around[1] + around[2]) / 2)
    # One of the four may be a spike itself.
    spread = np.minimum(around[3] - around[1], around[2] - around[0])
    with np.errstate(invalid="ignore"):
        for j in range(x.shape[1]):
            there = np.isfinite(distance[:, j]) & np.isfinite(spread[:, j])
            if there.sum() < 20:
                continue
            far = distance[there, j]
            typical = max(np.median(far) / 0.6745, np.quantile(far, 0.9) / 1.645)
            floor = 1e-9 * np.nanmax(np.abs(x[:, j]))
            found[2:-2, j] = there & (distance[:, j] > FAR * typical + floor)
            found[2:-2, j] &= distance[:, j] > RANGES * spread[:, j]
    return found
