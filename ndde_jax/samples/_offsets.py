"""Recordings of one system that differ by a constant: the height of a gauge, the gain of a day."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

OFFSETS = "offsets"


def offsets_of(
    values: Sequence[np.ndarray], known: Bool[np.ndarray, "dim"]
) -> tuple[Float[np.ndarray, "recording dim"], Float[np.ndarray, "dim"]]:
    """How far the mean of each recording lies from that of all, 0 for known inputs and where
    nothing was measured; and the spread of that, in standard deviations within recordings.
    """
    counts = np.stack([np.isfinite(x).sum(axis=0) for x in values])
    sums = np.stack([np.nansum(np.asarray(x, float), axis=0) for x in values])
    means = sums / np.maximum(counts, 1)
    total = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    offsets = np.where((counts > 0) & ~known[None], means - total[None], 0.0)
    left = sum(np.nansum((x - m[None]) ** 2, axis=0) for x, m in zip(values, means, strict=True))
    within = np.sqrt(left / np.maximum(counts.sum(axis=0), 1))
    return offsets, offsets.std(axis=0) / np.where(within > 0, within, 1.0)
