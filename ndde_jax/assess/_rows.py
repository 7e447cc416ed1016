"""The material of tests of rates: rows of the past, rows before them, and columns of inputs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..windows._windows import Windows

# Own samples of a source, before the one that is tested, that its past is taken to be.
OWN_PAST = 2
# Robust standard deviations beyond which a value counts no more in a column that is tested.
FAR = 5.0


class Rows(NamedTuple):
    """Valid windows in double precision.

    - `past`: standardised states, `[row lag dim]`; `rates`: standardised rates, `[row dim]`.
    - `position`: samples at which they are. `lags`, `step`: as of [`Windows`][ndde_jax.Windows].
    - `allowed`: edges that prior knowledge allows, `[source target lag]`.
    - `moves`: by how much a standardised rate of 1 moves a standardised state in a step, `[dim]`.
    - `midway`: whether states are those halfway through a step.
    """

    past: Float[np.ndarray, "row lag dim"]
    rates: Float[np.ndarray, "row dim"]
    position: Int[np.ndarray, "row"]
    lags: tuple[int, ...]
    step: int
    allowed: Bool[np.ndarray, "source target lag"]
    moves: Float[np.ndarray, "dim"]
    midway: bool = False

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.past.shape[2]

    def before(self, shift: int) -> Int[np.ndarray, "row"]:
        """The row so many samples before each; −1 where there is none."""
        wanted = self.position - shift
        place = np.searchsorted(self.position, wanted)
        place = np.minimum(place, len(self.position) - 1)
        return np.where(self.position[place] == wanted, place, -1)


def rows_of(windows: Windows) -> Rows:
    """Return the valid rows of windows of one system."""
    valid, s = np.asarray(windows.valid), windows.scaling
    rates = np.asarray(windows.increment, np.float64)[valid]
    rate_scale, scale = (np.asarray(a, np.float64) for a in (s.rate_scale, s.scale))
    return Rows(
        past=np.asarray(windows.history, np.float64)[valid],
        rates=rates - rates.mean(axis=0),
        position=np.asarray(windows.position)[valid],
        lags=windows.lags,
        step=windows.step,
        allowed=np.asarray(windows.prior.allowed),
        moves=windows.step * float(windows.dt) * rate_scale / np.where(scale > 0, scale, 1),
        midway=windows.scheme == "midpoint",
    )


def bends(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any column"]:
    """Return polynomials of degree 2 to 4 of the normal scores of values, for deviations from a
    straight line under any distribution: Hermite polynomials, of variance about 1.
    """
    z = normal_scores(x)
    return np.stack(
        [(z**2 - 1) / np.sqrt(2), (z**3 - 3 * z) / np.sqrt(6), (z**4 - 6 * z**2 + 3) / np.sqrt(24)],
        axis=-1,
    )


def tested(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any column"]:
    """A value, no further away than [`FAR`][ndde_jax.assess._rows.FAR], and two columns that bend:
    the second and third Legendre polynomial of its rank. All are bounded, so no single sample
    decides a test.
    """
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.349
    far = np.where(spread > 0, FAR * spread, np.inf)
    rank = 2 * _ranks(x) - 1
    return np.stack(
        [np.clip(x, middle - far, middle + far), 1.5 * rank**2 - 0.5, 2.5 * rank**3 - 1.5 * rank],
        axis=-1,
    )


def normal_scores(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any"]:
    """Return quantiles of the normal distribution at the ranks of values; ties share theirs."""
    from scipy.special import ndtri  # takes a moment to import

    return ndtri(_ranks(x))


def _ranks(x):
    """Return mid-ranks over the number of rows, between 0 and 1."""
    from scipy.stats import rankdata

    return (rankdata(x, axis=0) - 0.5) / len(x)
