"""A robust score test of whether further columns explain the residuals of a regression.

Its data come first: rows of the past, rows before them, and columns of inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, KnownScores, divisor
from ..models._confine import RestoredDDE
from ..models._model import AbstractDelayModel, model_rates
from ..models._splines import HostSplines, host_splines
from ..windows._windows import Windows

Column = Float[np.ndarray, "row"]
Columns = Float[np.ndarray, "row column"]
# One number per variable and row.
PerRow = Float[np.ndarray, "row dim"]
# Candidate inputs of one target.
SourceLags = Bool[np.ndarray, "source lag"]
# Number of a source's own samples before the tested one that make up its past.
OWN_PAST = 2
# Robust standard deviations at which values in a tested column are clipped.
FAR_VALUE = 5.0


class FittedDrift(NamedTuple):
    """A fitted drift along rows of the past.

    - `rates`: its standardised rates, `[row dim]`.
    - `rate`: a function of physical histories and a variable that returns its physical rate.
    - `history`: the histories it reads, `[row lag every]`.
    - `scale`: the scale of the rates, `[dim]`.
    - `among`: the indices in the history of the variables of the rows, `[dim]`.
    """

    rates: PerRow
    rate: Callable[[Float[np.ndarray, "row lag every"], int], Column]
    history: Float[np.ndarray, "row lag every"]
    scale: Float[np.ndarray, "dim"]
    among: Int[np.ndarray, "dim"]

    @classmethod
    def along(
        cls,
        model: AbstractDelayModel | Callable,
        history: Float[np.ndarray, "row lag every"],
        dtype: Any,
        scale: Float[np.ndarray, "dim"],
    ) -> "FittedDrift":
        """Return the drift of a model along histories: splines on the host, other models by a
        compiled program.
        """
        known = _known(model, history)

        def by_program(histories, j):
            return model_rates(model, histories, dtype)[:, j]

        rates = model_rates(model, history, dtype) if known is None else known(history)
        rate = by_program if known is None else known.rate
        return cls(rates / scale, rate, history, scale, np.arange(len(scale)))

    def of(self, rows: Any, some: Bool[np.ndarray, "dim"]) -> "FittedDrift":
        """Return the drift of some of the variables at some rows; its history keeps the others."""
        rates, history = self.rates[rows][:, some], self.history[rows]
        return FittedDrift(rates, self.rate, history, self.scale[some], self.among[some])

    def without(self, held: SourceLags, target: int) -> Column:
        """Return the standardised rate of a target with some inputs held at their means."""
        history = self.history.copy()
        for source, place in np.argwhere(held):
            moved = history[:, place, self.among[source]]
            moved[:] = moved.mean()
        return self._rate(history, target)

    def with_moved(self, place: int, source: int, by: float, target: int) -> Column:
        """Return the standardised rate of a target with one input moved by standard deviations."""
        history = self.history.copy()
        moved = history[:, place, self.among[source]]
        moved += by * moved.std()
        return self._rate(history, target)

    def _rate(self, history: Float[np.ndarray, "row lag every"], target: int) -> Column:
        return self.rate(history, int(self.among[target])) / self.scale[target]


def _known(
    model: AbstractDelayModel | Callable, history: Float[np.ndarray, "row lag every"]
) -> HostSplines | None:
    """Return the splines of a model on the host; None if it has none, or if some histories are
    outside its box and pulled back.
    """
    if isinstance(model, RestoredDDE):
        away = np.abs(history[:, 0] - np.asarray(model.center))
        return host_splines(model.model) if (away <= np.asarray(model.radius)).all() else None
    return host_splines(model)


class Rows(NamedTuple):
    """The rows of valid windows, in double precision.

    - `past`: standardised states, `[row lag dim]`; `rates`: standardised rates, `[row dim]`.
    - `position`: the sample of each row. `lags`, `step`: as in [`Windows`][ndde_jax.Windows].
    - `allowed`: edges that prior knowledge allows, `[source target lag]`.
    - `moves`: the change of a standardised state in a step at a standardised rate of 1, `[dim]`.
    - `midway`: whether states are those halfway through a step.
    - `drift`: a fitted drift along these rows; None if none is known.
    - `known`: which states are measured, `[row lag dim]`; rates that are not are NaN. None if
        everything is measured.
    - `late`: sources of every target at delays between the lags, zero where there are fewer,
        `[row target column]`; None without any.
    """

    past: Float[np.ndarray, "row lag dim"]
    rates: PerRow
    position: Int[np.ndarray, "row"]
    lags: tuple[int, ...]
    step: int
    allowed: KnownGraph
    moves: Float[np.ndarray, "dim"]
    midway: bool = False
    drift: FittedDrift | None = None
    known: Bool[np.ndarray, "row lag dim"] | None = None
    late: Float[np.ndarray, "row target column"] | None = None

    def of(self, some: Bool[np.ndarray, "dim"]) -> "Rows":
        """Return the rows without missing values of some variables, with only these variables."""
        there = np.isfinite(self.rates[:, some]).all(axis=1)
        if self.known is not None:
            there &= self.known[:, :, some].all(axis=(1, 2))
        rates = self.rates[there][:, some]
        return self._replace(
            past=self.past[there][:, :, some],
            rates=rates - rates.sum(axis=0) / max(len(rates), 1),
            position=self.position[there],
            allowed=self.allowed[some][:, some],
            moves=self.moves[some],
            drift=self.drift and self.drift.of(there, some),
            known=None,
            late=None if self.late is None else self.late[there][:, some],
        )

    def counting(self, j: int, kept: SourceLags) -> Bool[np.ndarray, "row"]:
        """Return the rows in which the rate of a target, its own state at the first lag and its
        inputs are measured.
        """
        if self.known is None:
            return np.ones(len(self.rates), bool)
        own = np.arange(self.dim) == j
        there = np.isfinite(self.rates[:, j]) & self.known[:, 0, own].all(axis=1)
        return there & self.known[:, kept.T].all(axis=1)

    @property
    def dim(self) -> int:
        """The number of variables."""
        return self.past.shape[2]

    def before(self, shift: int) -> Int[np.ndarray, "row"]:
        """Return the index of the row `shift` samples before each row; −1 if there is none."""
        wanted = self.position - shift
        place = np.searchsorted(self.position, wanted)
        place = np.minimum(place, len(self.position) - 1)
        return np.where(self.position[place] == wanted, place, -1)


def rows_of(windows: Windows, model: AbstractDelayModel | Callable | None = None) -> Rows:
    """Return the valid rows of the windows of one system, with the drift of a model along them."""
    valid = np.asarray(windows.valid)
    rates = np.asarray(windows.increment, np.float64)[valid]
    return _rows(windows, valid, windows.history, rates - rates.mean(axis=0), model)


def partial_rows_of(windows: Windows, model: AbstractDelayModel | Callable | None = None) -> Rows:
    """Return the rows in which some rate is measured; the valid rows if there are no others."""
    if windows.partial is None:
        return rows_of(windows, model)
    partial = windows.partial
    rated = np.asarray(partial.rated)
    some = rated.any(axis=1)
    rates = np.where(rated, np.asarray(partial.increment, np.float64), np.nan)[some]
    rates = rates - np.nanmean(rates, axis=0)
    known = np.asarray(partial.known)[some]
    return _rows(windows, some, partial.history, rates, model)._replace(known=known)


def _rows(
    windows: Windows,
    used: Bool[np.ndarray, "window"],
    history: Any,
    rates: PerRow,
    model: AbstractDelayModel | Callable | None,
) -> Rows:
    s = windows.scaling
    rate_scale, scale = (np.asarray(a, np.float64) for a in (s.rate_scale, s.scale))
    drift = None
    if model is not None:
        physical, dtype = _physical(windows, used, history), windows.history.dtype
        drift = FittedDrift.along(model, physical, dtype, divisor(rate_scale))
    return Rows(
        past=np.asarray(history, np.float64)[used],
        rates=rates,
        position=np.asarray(windows.position)[used],
        lags=windows.lags,
        step=windows.step,
        allowed=np.asarray(windows.prior.allowed),
        moves=windows.step * float(windows.dt) * rate_scale / divisor(scale),
        midway=windows.scheme == "midpoint",
        drift=drift,
    )


def drift_of(windows: Windows, model: AbstractDelayModel | Callable) -> PerRow:
    """Return the drift of a model at all valid rows, in physical units."""
    history = _physical(windows, np.asarray(windows.valid), windows.history)
    physical = np.ones(history.shape[2])
    return FittedDrift.along(model, history, windows.history.dtype, physical).rates


def _physical(windows, used, history):
    scaling = windows.scaling
    scale, center = np.asarray(scaling.scale, float), np.asarray(scaling.center)
    return np.asarray(history, float)[used] * scale + center


def hermite_terms(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any column"]:
    """Return Hermite polynomials of degree 2 to 4 of the normal scores of values, with variance
    about 1, for deviations from a straight line under any distribution.
    """
    z = normal_scores(x)
    return np.stack(
        [(z**2 - 1) / np.sqrt(2), (z**3 - 3 * z) / np.sqrt(6), (z**4 - 6 * z**2 + 3) / np.sqrt(24)],
        axis=-1,
    )


def bounded_columns(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any column"]:
    """Return the values, clipped at `FAR_VALUE` robust standard deviations, and two columns more:
    the second and third Legendre polynomials of the rank. All are bounded, so that no single sample
    decides a test.
    """
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.349
    far = np.where(spread > 0, FAR_VALUE * spread, np.inf)
    rank = 2 * _ranks(x) - 1
    return np.stack(
        [np.clip(x, middle - far, middle + far), 1.5 * rank**2 - 0.5, 2.5 * rank**3 - 1.5 * rank],
        axis=-1,
    )


def normal_scores(x: Float[np.ndarray, "row *any"]) -> Float[np.ndarray, "row *any"]:
    """Return the normal quantiles at the ranks of values; ties share one."""
    from scipy.special import ndtri  # takes a moment to import

    return ndtri(_ranks(x))


def _ranks(x):
    """Return mid-ranks over the number of rows, between 0 and 1."""
    from scipy.stats import rankdata  # takes a moment to import

    return (rankdata(x, axis=0) - 0.5) / len(x)


# Largest number of kept inputs of a target whose products are columns too.
MULTIPLIED = 5


class Inputs(NamedTuple):
    """The columns of all candidate inputs, computed once: `line`, the values, and `hermite`
    terms for regressions, and `test` for tests.
    """

    rows: Rows
    line: Float[np.ndarray, "row lag dim"]
    hermite: Float[np.ndarray, "row lag dim column"]
    test: Float[np.ndarray, "row lag dim column"]


def read_inputs(rows: Rows) -> Inputs:
    """Return all columns of all candidates."""
    return Inputs(rows, rows.past, hermite_terms(rows.past), bounded_columns(rows.past))


def kept_columns(inputs: Inputs, kept: SourceLags, *, own: int | None = None) -> Columns:
    """Return the columns of a target's inputs: lines, Hermite terms and, if the inputs are
    few, products; with `own`, the index of the target, at least a line of its own first lag.
    """
    n = len(inputs.line)
    places = [(int(i), int(a)) for i, a in np.argwhere(kept)]
    line = [inputs.line[:, a, i] for i, a in places]
    columns = [np.stack(line, axis=1)] if line else []
    columns += [inputs.hermite[:, a, i] for i, a in places]
    if 1 < len(places) <= MULTIPLIED:
        columns += [(line[k] * line[m])[:, None] for k in range(len(line)) for m in range(k)]
    if own is not None and (own, 0) not in places:
        columns.append(inputs.line[:, 0, own][:, None])
    return np.concatenate(columns, axis=1) if columns else np.zeros((n, 0))


# Share of the variance of a rate below which its residual is an error of the drift, and not noise.
NOISE = 1e-3
# Largest ratio of the residual variances of polynomials and of the fitted drift. Chosen by
# inspection, between the ratios for steep thresholds (`benchmarks.delays`) and the smaller ones for
# variables that share the bursts of an unobserved driver (`benchmarks.verdict kinds`), which a
# drift must not explain away.
POOR = 1.25


def drift_if_better(
    rows: Rows, target: int, left: Column, used: Any = slice(None), poor: float = POOR
) -> FittedDrift | None:
    """Return the fitted drift if polynomials of the kept inputs leave more than `poor` times as
    much of a rate as it does, in the rows used; None otherwise, or if no drift is known.

    Whatever moves the inputs predicts the part of a strong bend that polynomials miss, which could
    be mistaken for an unobserved variable.
    """
    if rows.drift is None or not np.isfinite(rows.drift.rates[used, target]).all():
        return None
    by_drift = rows.rates[used, target] - rows.drift.rates[used, target]
    return rows.drift if left @ left > poor * by_drift.var() * len(left) else None


def conditioning_columns(
    inputs: Inputs, graph: KnownGraph, target: int, *, own: bool = False, poor: float = POOR
) -> Columns:
    """Return [`kept_columns`][ndde_jax.assess._score.kept_columns] of all inputs of a target, those
    at delays between the lags, and the fitted drift if they do not describe its rate.
    """
    columns, rows = kept_columns(inputs, graph[:, target], own=target if own else None), inputs.rows
    if rows.late is not None:
        late = rows.late[:, target, (rows.late[:, target] != 0).any(axis=0)]
        columns = np.concatenate([columns, late, *hermite_terms(late).transpose(1, 0, 2)], axis=1)
    left = residuals_of(rows.rates[:, target], columns)
    drift = drift_if_better(rows, target, left, poor=poor)
    return np.concatenate([columns, drift.rates[:, [target]]], axis=1) if drift else columns


def favours_products(inputs: Inputs, target: int, kept: SourceLags) -> bool:
    """Return whether the Bayesian information criterion favours products of a target's few kept
    inputs.
    """
    count = int(kept.sum())
    pairs = count * (count - 1) // 2
    there = inputs.rows.counting(target, kept)
    n = int(there.sum())
    if not 1 < count <= MULTIPLIED or n < 4 * (4 * count + pairs):
        return False
    columns, rate = kept_columns(inputs, kept)[there], inputs.rows.rates[there, target]
    whole, apart = residuals_of(rate, columns), residuals_of(rate, columns[:, :-pairs])
    return bool(apart @ apart > whole @ whole * np.exp(pairs * np.log(n) / n))


def source_past(
    inputs: Inputs, graph: KnownGraph, source: int, lag: int
) -> tuple[Columns, Bool[np.ndarray, "row"]]:
    """Return what a source was made of `lag` samples ago, and the rows that have such a past.

    These are its own samples before that time and its kept inputs at that time.
    """
    rows = inputs.rows
    first = rows.before(lag + rows.step)
    second = rows.before(lag + OWN_PAST * rows.step)
    there = (first >= 0) & (second >= 0)
    if rows.known is not None:
        there &= rows.known[first, 0, source] & rows.known[second, 0, source]
        there &= rows.known[first][:, graph[:, source].T].all(axis=1)
    columns = [inputs.line[first, 0, source], inputs.line[second, 0, source]]
    columns += list(inputs.test[first, 0, source, 1:].T)
    places = np.argwhere(graph[:, source])
    columns += [inputs.line[first, a, i] for i, a in places if (i, a) != (source, 0)]
    return np.stack(columns, axis=1), there


# Residual share of a column's variance, given the others, below which the column is redundant.
OWN = 1e-6
# Share of the variance of standardised columns below which a direction does not count.
NONE = 1e-9
# Robust standard deviations at which residuals are clipped.
FAR = 4.0
# Largest number of regressions on clipped residuals, and the tolerance of their convergence.
REFITS, SETTLED = 30, 1e-3


class Test(NamedTuple):
    """The p-value `p` of the hypothesis that no column explains anything, the number of `columns`
    left to test, and the `share` of the residual variance that they explain beyond chance; 1, 0 and
    0 without columns.
    """

    p: Float[np.ndarray, "*test"]
    columns: Int[np.ndarray, "*test"]
    share: Float[np.ndarray, "*test"]


def basis(columns: Columns) -> Float[np.ndarray, "direction row"]:
    """Return an orthonormal basis of columns and a constant, without redundant directions."""
    n = len(columns)
    centred = (columns - columns.mean(axis=0)).T
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = centred / np.where(size > 1e-12 * np.sqrt(n), size, np.inf)
    constant = np.full((1, n), n**-0.5)
    if not len(centred):
        return constant
    return np.concatenate([constant, whitening(centred @ centred.T) @ centred])


def residuals_of(rate: Column, columns: Columns) -> Column:
    """Return the residuals of a regression of a rate on columns and a constant."""
    q = basis(columns)
    return rate - (q @ rate) @ q


def whitening(gram: Float[np.ndarray, "*any c c"]) -> Float[np.ndarray, "*any c c"]:
    """Return matrices that orthonormalise directions with given inner products, with zeros for
    directions without length.
    """
    values, vectors = np.linalg.eigh(gram)
    there = values > NONE
    scale = np.where(there, 1 / np.sqrt(np.where(there, values, 1)), 0)
    return np.swapaxes(vectors * scale[..., None, :], -1, -2)


def clipped_residuals(rate: Column, q: Float[np.ndarray, "direction row"]) -> Column:
    """Return the residuals of a regression of a rate on an orthonormal basis, clipped at
    [`FAR`][ndde_jax.assess._score.FAR] robust standard deviations, so that heavy tails decide
    nothing and sums are closer to normal.

    The regression minimises clipped residuals (Huber, 1964) by repeated least squares. If most
    residuals are tiny, as with rare events, the residuals of an ordinary regression, which the
    large ones distort, are not noise.
    """
    left = rate - (q @ rate) @ q
    low, middle, high = np.quantile(left, [0.25, 0.5, 0.75])
    most = FAR * (high - low) / 1.349
    if not most > 0:
        return left
    left = left - middle
    for _ in range(REFITS):
        move = (q @ np.clip(left, -most, most)) @ q
        left = left - move
        if np.abs(move).max() < SETTLED * most:
            break
    clipped = np.clip(left, -most, most)
    return clipped - (q @ clipped) @ q


def score_test(
    left: Float[np.ndarray, "*test row"],
    own: Float[np.ndarray, "*test column row"],
    size: Float[np.ndarray, "*test column"],
    fitted: Int[np.ndarray, "*test"] | int,
) -> Test:
    """Test whether columns explain the residuals, allowing for changing variances.

    The score of the restricted regression, Σ own · left, is divided by its own sum of squares,
    which holds for any variances of the noise (White, 1980). The statistic is Hotelling's, so that
    its reference, an F distribution, also holds for few rows.

    **Arguments:**

    - `left`: the residuals of a rate from the restricted regression.
    - `own`: the residuals of the tested columns; `size`: the norms of these columns before.
    - `fitted`: the number of columns of the restricted regression.
    """
    from scipy.special import fdtrc  # takes a moment to import

    scale = np.where(size > 0, 1 / divisor(size), 0)
    gram = (own @ np.swapaxes(own, -1, -2)) * scale[..., :, None] * scale[..., None, :]
    values, vectors = np.linalg.eigh(gram)
    there = values > OWN
    turn = vectors * np.where(there, 1 / np.sqrt(np.where(there, values, 1)), 0)[..., None, :]
    score = (np.swapaxes(turn, -1, -2) * scale[..., None, :]) @ own * left[..., None, :]
    total, variance = score.sum(axis=-1), score @ np.swapaxes(score, -1, -2)
    # Missing directions get a variance, and have no score.
    spread = divisor(np.trace(variance, axis1=-2, axis2=-1)[..., None, None])
    eye = np.eye(there.shape[-1])
    variance = variance / spread + (1e-12 + ~there)[..., None, :] * eye
    solved = np.linalg.solve(variance, total[..., None])[..., 0]
    n, q = left.shape[-1] - fitted, there.sum(axis=-1)
    # Residuals are smaller than the noise because of the fit.
    share = (total * solved).sum(axis=-1) / spread[..., 0, 0] / left.shape[-1]
    share = np.clip(share, 0, 1 - 1e-12)
    rest = np.maximum(n - q, 1)
    ratio = rest / np.maximum(q, 1) * share / (1 - share)
    p = np.where(q > 0, fdtrc(np.maximum(q, 1), rest, ratio), 1.0)
    return Test(p, q, np.maximum(share - q / left.shape[-1], 0))


def group_test(rate: Column, columns: Columns, given: Float[np.ndarray, "row given"]) -> Test:
    """Return the [`score_test`][ndde_jax.assess._score.score_test] of columns, given others."""
    q = basis(given)
    columns = (columns - columns.mean(axis=0)).T
    own = columns - (columns @ q.T) @ q
    return score_test(clipped_residuals(rate, q), own, np.linalg.norm(columns, axis=1), len(q))


def source_tests(
    rate: Column,
    columns: Float[np.ndarray, "source column row"],
    made: Float[np.ndarray, "source past row"],
    given: Float[np.ndarray, "row given"],
) -> Test:
    """Return the [`group_test`][ndde_jax.assess._score.group_test] of many sources at once, each
    given common columns and the columns that the source was `made` of; all centred.
    """
    q = basis(given)
    left = clipped_residuals(rate, q)
    n_columns, n_past, n = columns.shape[1], made.shape[1], len(rate)
    flat = np.concatenate([columns, made], axis=1).reshape(-1, n)
    size = np.sqrt(np.einsum("kn,kn->k", flat, flat)).reshape(len(columns), -1)
    flat = flat - (flat @ q.T) @ q
    both = flat.reshape(len(columns), n_columns + n_past, n)
    past = both[:, n_columns:]
    rest = np.where(size > 0, 1 / divisor(size), 0)[:, n_columns:]
    gram = (past @ past.swapaxes(1, 2)) * rest[:, :, None] * rest[:, None, :]
    root = whitening(gram) * rest[:, None, :]
    inverse = root.swapaxes(1, 2) @ root
    # Columns and residuals of the rate, minus their regression on the past of the source.
    said = np.concatenate([both[:, :n_columns] @ past.swapaxes(1, 2), (past @ left)[:, None]], 1)
    cleared = (said @ inverse) @ past
    own = both[:, :n_columns] - cleared[:, :n_columns]
    fitted = len(q) + (root != 0).any(axis=2).sum(axis=1)
    return score_test(left[None] - cleared[:, n_columns], own, size[:, :n_columns], fitted)


# Fewest rows per column of a regression for a test.
ROWS = 2


def edge_p_values(
    inputs: Inputs, graph: KnownGraph, factors: Float[np.ndarray, "dim factor"]
) -> KnownScores:
    """Return the probability that an input explains its target's rate as well by chance.

    Each candidate, as a line, two curves and its innovation times the target's own present,
    is tested given the other kept inputs of its target and what its source was made of: the
    source's own past and its kept inputs at that time, as in the momentary conditional independence
    of Runge et al. (2019). The innovation of the source, its residual, is new at every step, so the
    test holds for any memory of the residuals. Its variance is that of the scores, so it holds for
    changing noise. Candidates that are not kept are also tested given common factors of all
    variables at their lag, since each of them reveals these factors.

    **Returns:** NaN where prior knowledge excludes an edge or too few rows are left; 1 for an input
    that is determined by the others.
    """
    rows = inputs.rows
    lags, dim = rows.lags, rows.dim
    p = np.full((dim, dim, len(lags)), np.nan)
    given = [kept_columns(inputs, graph[:, j], own=j) for j in range(dim)]
    for a, lag in enumerate(lags):
        past = [source_past(inputs, graph, i, lag) for i in range(dim)]
        there = past[0][1]
        widest = max(columns.shape[1] for columns, _ in past)
        if there.sum() < ROWS * (widest + 10):
            continue
        made = np.zeros((dim, widest, int(there.sum())))
        for i, (columns, _) in enumerate(past):
            made[i, : columns.shape[1]] = columns[there].T
        made -= made.mean(axis=2, keepdims=True)
        test = np.ascontiguousarray(inputs.test[there, a].transpose(1, 2, 0))
        test -= test.mean(axis=2, keepdims=True)
        pairs = zip(test[:, 0], made, strict=True)
        innovations = np.stack([residuals_of(x, m.T) for x, m in pairs])
        common = inputs.line[:, a] @ factors
        for j in range(dim):
            beside = np.concatenate([given[j], common], axis=1)
            if len(beside) > ROWS * (beside.shape[1] + widest):
                every = _with_product(test, innovations, inputs.test[there, 0, j, 0])
                p[:, j, a] = source_tests(rows.rates[there, j], every, made, beside[there]).p
    return np.where(rows.allowed, kept_p_values(inputs, graph, p), np.nan)


def _with_product(
    columns: Float[np.ndarray, "*source column row"],
    innovations: Float[np.ndarray, "*source row"],
    own: Column,
) -> Float[np.ndarray, "*source one_more row"]:
    """Return the tested columns of sources, and products of their innovations, which the past does
    not predict, with a target's own state.
    """
    product = (innovations * (own - own.mean()))[..., None, :]
    product -= product.mean(axis=-1, keepdims=True)
    return np.concatenate([columns, product], axis=-2)


def kept_p_values(inputs: Inputs, graph: KnownGraph, p: KnownScores) -> KnownScores:
    """Return the p-values, with those of the kept edges and of each target's own present replaced.
    These are among the given columns of their targets, so each is tested without itself, in the
    rows that have what its test needs.
    """
    rows, p = inputs.rows, p.copy()
    lags, dim = rows.lags, rows.dim
    special = graph.copy()
    special[np.arange(dim), np.arange(dim), 0] = True
    for i, j, a in np.argwhere(special).tolist():
        others = graph[:, j].copy()
        others[i, a] = False
        own = None if (i, a) == (j, 0) else j
        past, there = source_past(inputs, graph, i, lags[a])
        there &= rows.counting(j, graph[:, j])
        if rows.known is not None:
            there &= rows.known[:, a, i]
        beside = np.concatenate([kept_columns(inputs, others, own=own), past], axis=1)[there]
        if len(beside) > ROWS * (beside.shape[1] + 10):
            tested = inputs.test[there, a, i]
            if i != j:
                innovations = residuals_of(tested[:, 0], past[there])
                tested = _with_product(tested.T, innovations, inputs.test[there, 0, j, 0]).T
            p[i, j, a] = group_test(rows.rates[there, j], tested, beside).p
    return p
