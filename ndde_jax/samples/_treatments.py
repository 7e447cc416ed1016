"""Treatments applied to measurements before any fit, stored so that they can be undone.

A treatment changes `Samples` into `Samples`. It keeps what it changed, so nothing is lost: the
report says what was done, `Samples.as_measured` goes back, and a forecast adds a season again.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

# Recordings of one system that differ by a constant: the height of a gauge, the gain of a day.
OFFSETS = "offsets"


@dataclasses.dataclass(frozen=True)
class Treatment:
    """A treatment of samples, with the NumPy arrays that undo it.

    - `name`: which, such as `"season"`.
    - `text`: what was done, a sentence for the report.
    - `size`: the number behind it, of the kind the sentence says.
    - `columns`: of the variables it concerns.
    - `values`, `times`, `dt`, `regular`: of the samples before.
    - `periods`: of the seasons removed, in units of time; empty for other treatments.
    - `coefficients`: of what was removed, `[term dim]` per trajectory: a constant, the time from
        the first sample, then cosine and sine of every period. Empty where nothing was removed.
    - `kinds`: of the transforms, `"log"` or `"ranks"`, one for each of `columns`; empty for other
        treatments. `tables`: different values and their normal scores, `[knot 2]`, for each of
        them; without rows for a logarithm.
    """

    name: str
    text: str
    size: float
    columns: tuple[int, ...]
    values: tuple[np.ndarray, ...]
    times: tuple[np.ndarray, ...]
    dt: float
    regular: bool
    periods: tuple[float, ...] = ()
    coefficients: tuple[np.ndarray, ...] = ()
    kinds: tuple[str, ...] = ()
    tables: tuple[np.ndarray, ...] = ()

    def removed(
        self, times: Float[np.ndarray, "time"], trajectory: int = 0
    ) -> Float[np.ndarray, "time dim"]:
        """Return the terms removed from a trajectory, continued to any times; zeros if there are
        none.

        ```python
        import numpy as np
        import ndde_jax as ndde

        rng, t = np.random.default_rng(0), np.arange(600.0)
        x = np.sin(2 * np.pi * t / 12)[:, None] + 0.3 * rng.normal(size=(600, 2))
        samples = ndde.prepare_samples(ndde.read_samples(x, dt=1.0, time_unit="month"))
        (season,) = samples.treatments
        print(season.removed(np.arange(600.0, 612.0))[:, 0])  # the next year of it
        ```
        """
        if not self.coefficients:
            return np.zeros((len(times), self.values[0].shape[1]))
        elapsed = np.asarray(times, float) - self.times[trajectory][0]
        return terms(elapsed, self.periods) @ self.coefficients[trajectory]


def terms(
    elapsed: Float[np.ndarray, "time"], periods: tuple[float, ...]
) -> Float[np.ndarray, "time term"]:
    """Return a constant, the time, and cosine and sine of every period."""
    columns = [np.ones_like(elapsed), elapsed]
    for period in periods:
        angle = 2 * np.pi * elapsed / period
        columns += [np.cos(angle), np.sin(angle)]
    return np.stack(columns, axis=1)


def offsets_of(
    values: Sequence[np.ndarray], known: Bool[np.ndarray, "dim"]
) -> tuple[Float[np.ndarray, "recording dim"], Float[np.ndarray, "dim"]]:
    """Return the offset of each recording's mean from the common mean, 0 for known inputs and where
    nothing was measured; and the spread of offsets, in standard deviations within recordings.
    """
    counts = np.stack([np.isfinite(x).sum(axis=0) for x in values])
    sums = np.stack([np.nansum(np.asarray(x, float), axis=0) for x in values])
    means = sums / np.maximum(counts, 1)
    total = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    offsets = np.where((counts > 0) & ~known[None], means - total[None], 0.0)
    left = sum(np.nansum((x - m[None]) ** 2, axis=0) for x, m in zip(values, means, strict=True))
    within = np.sqrt(left / np.maximum(counts.sum(axis=0), 1))
    return offsets, offsets.std(axis=0) / np.where(within > 0, within, 1.0)
