"""A robust score test: do further columns explain what a regression leaves?

First its material: rows of the past, rows before them, and columns of inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._types import KnownGraph, KnownScores, divisor
from ..models._confine import RestoredDDE
from ..models._model import AbstractDelayModel, model_rates
from ..models._splines import KnownSplines, known_splines
from ..windows._windows import Windows

Column = Float[np.ndarray, "row"]
Columns = Float[np.ndarray, "row column"]
# A number for every variable in every row.
PerRow = Float[np.ndarray, "row dim"]
# Candidate inputs of one target.
SourceLags = Bool[np.ndarray, "source lag"]
# Own samples of a source, before the one that is tested, that its past is taken to be.
OWN_PAST = 2
# Robust standard deviations beyond which a value counts no more in a column that is tested.
FAR_VALUE = 5.0


class FittedDrift(NamedTuple):
    """A fitted drift along rows of the past.

    - `rates`: what it says of the standardised rates, `[row dim]`.
    - `rate`: the physical rate of one of the variables of the history at physical histories.
    - `history`: that it reads, `[row lag every]`.
    - `scale`: of the rates, `[dim]`.
    - `among`: which variables of the history the rows have.
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
        """Return the drift of a model along histories: of splines on the host, of others by a
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
        """Return the standardised rate of a target with some inputs held at their means: what the
        others do.
        """
        history = self.history.copy()
        for source, place in np.argwhere(held):
            moved = history[:, place, self.among[source]]
            moved[:] = moved.mean()
        return self._rate(history, target)

    def with_moved(self, place: int, source: int, by: float, target: int) -> Column:
        """Return the standardised rate of a target with one input moved, by so many standard
        deviations.
        """
        history = self.history.copy()
        moved = history[:, place, self.among[source]]
        moved += by * moved.std()
        return self._rate(history, target)

    def _rate(self, history: Float[np.ndarray, "row lag every"], target: int) -> Column:
        return self.rate(history, int(self.among[target])) / self.scale[target]


def _known(
    model: AbstractDelayModel | Callable, history: Float[np.ndarray, "row lag every"]
) -> KnownSplines | None:
    """Return the splines of a model on the host; None where it has none, or where it is pulled back
    from some of the histories.
    """
    if isinstance(model, RestoredDDE):
        away = np.abs(history[:, 0] - np.asarray(model.center))
        return known_splines(model.model) if (away <= np.asarray(model.radius)).all() else None
    return known_splines(model)


class Rows(NamedTuple):
    """Valid windows in double precision.

    - `past`: standardised states, `[row lag dim]`; `rates`: standardised rates, `[row dim]`.
    - `position`: samples at which they are. `lags`, `step`: as of [`Windows`][ndde_jax.Windows].
    - `allowed`: edges that prior knowledge allows, `[source target lag]`.
    - `moves`: by how much a standardised rate of 1 moves a standardised state in a step, `[dim]`.
    - `midway`: whether states are those halfway through a step.
    - `drift`: a fitted drift along these rows; None where none is known.
    - `known`: which states are measured, `[row lag dim]`; rates that are not are NaN. None where
        everything is.
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

    def of(self, some: Bool[np.ndarray, "dim"]) -> "Rows":
        """Return the rows that miss nothing of some variables, with these alone."""
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
        """The row so many samples before each; −1 where there is none."""
        wanted = self.position - shift
        place = np.searchsorted(self.position, wanted)
        place = np.minimum(place, len(self.position) - 1)
        return np.where(self.position[place] == wanted, place, -1)


def rows_of(windows: Windows, model: AbstractDelayModel | Callable | None = None) -> Rows:
    """Return the valid rows of windows of one system, and what a drift says of them."""
    valid = np.asarray(windows.valid)
    rates = np.asarray(windows.increment, np.float64)[valid]
    return _rows(windows, valid, windows.history, rates - rates.mean(axis=0), model)


def partial_rows_of(windows: Windows, model: AbstractDelayModel | Callable | None = None) -> Rows:
    """Return the rows in which some rate is measured; the valid ones where no others are kept."""
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
    """Return a value, held within `FAR_VALUE` robust standard deviations, and two columns that
    bend: the second and third Legendre polynomial of its rank. All are bounded, so no single sample
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
    """Return quantiles of the normal distribution at the ranks of values; ties share theirs."""
    from scipy.special import ndtri  # takes a moment to import

    return ndtri(_ranks(x))


def _ranks(x):
    """Return mid-ranks over the number of rows, between 0 and 1."""
    from scipy.stats import rankdata  # takes a moment to import

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


def kept_columns(inputs: Inputs, kept: SourceLags, *, own: int | None = None) -> Columns:
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


# Share of the variance of a rate below which what is left is an error of the drift, and no noise.
NOISE = 1e-3
# How much more polynomials may leave of a rate than the fitted drift does. Set by looking: between
# what they leave of steep thresholds (`benchmarks.delays`), and, less, of variables that share the
# bursts of an unseen driver (`benchmarks.verdict kinds`), which a drift must not explain away.
POOR = 1.25


def drift_beyond(
    rows: Rows, target: int, left: Column, used: Any = slice(None), poor: float = POOR
) -> FittedDrift | None:
    """Return the fitted drift where polynomials of the kept inputs leave `poor` times as much of a
    rate, in the rows that are used, as it does; None elsewhere, and where none is known.

    The rest of a strong bend, which polynomials lack, is foretold by whatever moves the inputs, and
    would pass for something unseen.
    """
    if rows.drift is None or not np.isfinite(rows.drift.rates[used, target]).all():
        return None
    by_drift = rows.rates[used, target] - rows.drift.rates[used, target]
    return rows.drift if left @ left > poor * by_drift.var() * len(left) else None


def given_columns(
    inputs: Inputs, graph: KnownGraph, target: int, *, own: bool = False, poor: float = POOR
) -> Columns:
    """Return [`kept_columns`][ndde_jax.assess._score.kept_columns] of all inputs of a target, and
    the fitted drift where they do not describe its rate.
    """
    columns, rows = kept_columns(inputs, graph[:, target], own=target if own else None), inputs.rows
    left = left_by(rows.rates[:, target], columns)
    drift = drift_beyond(rows, target, left, poor=poor)
    return np.concatenate([columns, drift.rates[:, [target]]], axis=1) if drift else columns


def multiplies(inputs: Inputs, target: int, kept: SourceLags) -> bool:
    """Return whether products of a target's few kept inputs are worth their columns, by the
    Bayesian information criterion.
    """
    count = int(kept.sum())
    pairs = count * (count - 1) // 2
    there = inputs.rows.counting(target, kept)
    n = int(there.sum())
    if not 1 < count <= MULTIPLIED or n < 4 * (4 * count + pairs):
        return False
    columns, rate = kept_columns(inputs, kept)[there], inputs.rows.rates[there, target]
    whole, apart = left_by(rate, columns), left_by(rate, columns[:, :-pairs])
    return bool(apart @ apart > whole @ whole * np.exp(pairs * np.log(n) / n))


def earlier(
    inputs: Inputs, graph: KnownGraph, source: int, lag: int
) -> tuple[Columns, Bool[np.ndarray, "row"]]:
    """Return what a source was made of `lag` samples ago, and the rows that have such a past.

    Its own samples before that and its kept inputs then.
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


# Share of a column's variance that others must leave of it; below that it says nothing of its own.
OWN = 1e-6
# Share of the variance of standardised columns below which a direction is none.
NONE = 1e-9
# Robust standard deviations beyond which a residual counts no more.
FAR = 4.0
# Most regressions until clipped residuals are their own, to a share of that.
REFITS, SETTLED = 30, 1e-3


class Test(NamedTuple):
    """`p` of the hypothesis that no column explains anything, the number of `columns` that were
    left to test, and the `share` of what is left that they explain beyond chance; 1, 0 and 0 where
    none is.
    """

    p: Float[np.ndarray, "*test"]
    columns: Int[np.ndarray, "*test"]
    share: Float[np.ndarray, "*test"]


def basis(columns: Columns) -> Float[np.ndarray, "direction row"]:
    """An orthonormal basis of columns and a constant, without directions that are there already."""
    n = len(columns)
    centred = (columns - columns.mean(axis=0)).T
    size = np.linalg.norm(centred, axis=1, keepdims=True)
    centred = centred / np.where(size > 1e-12 * np.sqrt(n), size, np.inf)
    constant = np.full((1, n), n**-0.5)
    if not len(centred):
        return constant
    return np.concatenate([constant, roots(centred @ centred.T) @ centred])


def left_by(rate: Column, columns: Columns) -> Column:
    """Return what a regression on columns and a constant leaves of a rate."""
    q = basis(columns)
    return rate - (q @ rate) @ q


def roots(gram: Float[np.ndarray, "*any c c"]) -> Float[np.ndarray, "*any c c"]:
    """Return matrices that make directions of given inner products orthonormal, and zeros for
    directions without length.
    """
    values, vectors = np.linalg.eigh(gram)
    there = values > NONE
    scale = np.where(there, 1 / np.sqrt(np.where(there, values, 1)), 0)
    return np.swapaxes(vectors * scale[..., None, :], -1, -2)


def bounded_left(rate: Column, q: Float[np.ndarray, "direction row"]) -> Column:
    """Return what a regression on an orthonormal basis leaves of a rate, clipped at
    [`FAR`][ndde_jax.assess._score.FAR] robust standard deviations: heavy tails then decide nothing,
    and sums are normal sooner.

    The regression is that of clipped residuals (Huber, 1964), by repeated least squares: where most
    residuals are tiny, as of events that are rare, those of one that was drawn by the large ones
    are no noise.
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
    """Test whether columns explain what is left, with changing variances allowed for.

    The score of the restricted regression, Σ own · left, over its own sum of squares, which holds
    for any variances of the noise (White, 1980); the statistic is that of Hotelling, so that its
    reference, an F distribution, holds for few rows too.

    **Arguments:**

    - `left`: what the restricted regression leaves of a rate.
    - `own`: what it leaves of the columns that are tested; `size`: their norms before.
    - `fitted`: how many columns the restricted regression has.
    """
    from scipy.special import fdtrc  # takes a moment to import

    scale = np.where(size > 0, 1 / divisor(size), 0)
    gram = (own @ np.swapaxes(own, -1, -2)) * scale[..., :, None] * scale[..., None, :]
    values, vectors = np.linalg.eigh(gram)
    there = values > OWN
    turn = vectors * np.where(there, 1 / np.sqrt(np.where(there, values, 1)), 0)[..., None, :]
    score = (np.swapaxes(turn, -1, -2) * scale[..., None, :]) @ own * left[..., None, :]
    total, variance = score.sum(axis=-1), score @ np.swapaxes(score, -1, -2)
    # Directions that are not there get a variance, and have no score.
    spread = divisor(np.trace(variance, axis1=-2, axis2=-1)[..., None, None])
    eye = np.eye(there.shape[-1])
    variance = variance / spread + (1e-12 + ~there)[..., None, :] * eye
    solved = np.linalg.solve(variance, total[..., None])[..., 0]
    n, q = left.shape[-1] - fitted, there.sum(axis=-1)
    # Residuals are smaller than noise by what was fitted.
    share = (total * solved).sum(axis=-1) / spread[..., 0, 0] / left.shape[-1]
    share = np.clip(share, 0, 1 - 1e-12)
    rest = np.maximum(n - q, 1)
    ratio = rest / np.maximum(q, 1) * share / (1 - share)
    p = np.where(q > 0, fdtrc(np.maximum(q, 1), rest, ratio), 1.0)
    return Test(p, q, np.maximum(share - q / left.shape[-1], 0))


def group_test(rate: Column, columns: Columns, given: Float[np.ndarray, "row given"]) -> Test:
    """Return [`score_test`][ndde_jax.assess._score.score_test] of columns beside given ones."""
    q = basis(given)
    columns = (columns - columns.mean(axis=0)).T
    own = columns - (columns @ q.T) @ q
    return score_test(bounded_left(rate, q), own, np.linalg.norm(columns, axis=1), len(q))


def source_tests(
    rate: Column,
    columns: Float[np.ndarray, "source column row"],
    made: Float[np.ndarray, "source past row"],
    given: Float[np.ndarray, "row given"],
) -> Test:
    """Return [`group_test`][ndde_jax.assess._score.group_test] for many sources at once, each
    beside what is given and what that source alone was `made` of; all centred.
    """
    q = basis(given)
    left = bounded_left(rate, q)
    n_columns, n_past, n = columns.shape[1], made.shape[1], len(rate)
    flat = np.concatenate([columns, made], axis=1).reshape(-1, n)
    size = np.sqrt(np.einsum("kn,kn->k", flat, flat)).reshape(len(columns), -1)
    flat = flat - (flat @ q.T) @ q
    both = flat.reshape(len(columns), n_columns + n_past, n)
    past = both[:, n_columns:]
    rest = np.where(size > 0, 1 / divisor(size), 0)[:, n_columns:]
    gram = (past @ past.swapaxes(1, 2)) * rest[:, :, None] * rest[:, None, :]
    root = roots(gram) * rest[:, None, :]
    inverse = root.swapaxes(1, 2) @ root
    # Columns and what is left of the rate, less what the past of their source says of either.
    said = np.concatenate([both[:, :n_columns] @ past.swapaxes(1, 2), (past @ left)[:, None]], 1)
    cleared = (said @ inverse) @ past
    own = both[:, :n_columns] - cleared[:, :n_columns]
    fitted = len(q) + (root != 0).any(axis=2).sum(axis=1)
    return score_test(left[None] - cleared[:, n_columns], own, size[:, :n_columns], fitted)


# Rows for every column of a regression, below which nothing is tested.
ROWS = 2


def edge_p_values(inputs: Inputs, graph: KnownGraph) -> KnownScores:
    """The probability that an input explains its target's rate as well by chance.

    Each candidate, as a line and two bends, is tested beside the other kept inputs of its target
    and beside what its source was made of: that source's own past and its kept inputs then, as the
    momentary conditional independence of Runge et al. (2019). What is left of a source is then new
    at every step, so the test holds whatever memory the residuals have, and its variance is that of
    the scores themselves, so it holds whatever happens to the size of noise.

    **Returns:** NaN where prior knowledge excludes an edge or too few rows are left; 1 where an
    input has nothing of its own.
    """
    rows = inputs.rows
    lags, dim = rows.lags, rows.dim
    p = np.full((dim, dim, len(lags)), np.nan)
    given = [kept_columns(inputs, graph[:, j], own=j) for j in range(dim)]
    for a, lag in enumerate(lags):
        past = [earlier(inputs, graph, i, lag) for i in range(dim)]
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
        for j in range(dim):
            if len(given[j]) > ROWS * (given[j].shape[1] + widest):
                p[:, j, a] = source_tests(rows.rates[there, j], test, made, given[j][there]).p
    return np.where(rows.allowed, kept_p_values(inputs, graph, p), np.nan)


def kept_p_values(inputs: Inputs, graph: KnownGraph, p: KnownScores) -> KnownScores:
    """Return p-values with those of the edges of a graph, and of the present of every target, which
    stand among the columns of their targets; each in the rows that hold what its test needs.
    """
    rows, p = inputs.rows, p.copy()
    lags, dim = rows.lags, rows.dim
    special = graph.copy()
    special[np.arange(dim), np.arange(dim), 0] = True
    for i, j, a in np.argwhere(special).tolist():
        others = graph[:, j].copy()
        others[i, a] = False
        own = None if (i, a) == (j, 0) else j
        past, there = earlier(inputs, graph, i, lags[a])
        there &= rows.counting(j, graph[:, j])
        if rows.known is not None:
            there &= rows.known[:, a, i]
        beside = np.concatenate([kept_columns(inputs, others, own=own), past], axis=1)[there]
        if len(beside) > ROWS * (beside.shape[1] + 10):
            p[i, j, a] = group_test(rows.rates[there, j], inputs.test[there, a, i], beside).p
    return p
