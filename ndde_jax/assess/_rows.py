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


# Kept inputs of a target up to which their products are columns too.
MULTIPLIED = 5


class Inputs(NamedTuple):
    """Columns of all candidate inputs, computed once: `line` as it is and `bend` for regressions,
    `test` to be tested.
    """

    rows: Rows
    line: Float[np.ndarray, "row lag dim"]
    bend: Float[np.ndarray, "row lag dim column"]
    test: Float[np.ndarray, "row lag dim column"]


def read_inputs(rows: Rows) -> Inputs:
    """Return all columns of all candidates."""
    return Inputs(rows, rows.past, bends(rows.past), tested(rows.past))


def kept_columns(
    inputs: Inputs, kept: Bool[np.ndarray, "source lag"], *, own: int | None = None
) -> Float[np.ndarray, "row column"]:
    """Return the columns of a target's inputs: lines, bends and, of a few, products; `own`, it, is
    given at the first lag as a line at least.
    """
    n = len(inputs.line)
    places = [(int(i), int(a)) for i, a in np.argwhere(kept)]
    line = [inputs.line[:, a, i] for i, a in places]
    columns = [np.stack(line, axis=1)] if line else []
    columns += [inputs.bend[:, a, i] for i, a in places]
    if 1 < len(places) <= MULTIPLIED:
        columns += [(line[k] * line[m])[:, None] for k in range(len(line)) for m in range(k)]
    if own is not None and (own, 0) not in places:
        columns.append(inputs.line[:, 0, own][:, None])
    return np.concatenate(columns, axis=1) if columns else np.zeros((n, 0))


def earlier(
    inputs: Inputs, graph: Bool[np.ndarray, "source target lag"], source: int, lag: int
) -> tuple[Float[np.ndarray, "row column"], Bool[np.ndarray, "row"]]:
    """Return what a source was made of `lag` samples ago, and the rows that have such a past.

    Its own samples before that and its kept inputs then.
    """
    rows = inputs.rows
    first = rows.before(lag + rows.step)
    second = rows.before(lag + OWN_PAST * rows.step)
    there = (first >= 0) & (second >= 0)
    columns = [inputs.line[first, 0, source], inputs.line[second, 0, source]]
    columns += list(inputs.test[first, 0, source, 1:].T)
    places = np.argwhere(graph[:, source])
    columns += [inputs.line[first, a, i] for i, a in places if (i, a) != (source, 0)]
    return np.stack(columns, axis=1), there
