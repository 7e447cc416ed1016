"""The default choice of candidate lags, from the dependence of each step on past samples."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import check_kind
from .._types import Checked
from .._wording import amount, time_span
from ..samples._columns import correlation_time
from ..samples._gaps import Stretch, linearly_interpolated
from ..samples._samples import Samples
from ..samples._trajectories import transposed_hint
from ._prior import schedules_of

# FULL: number of candidates, variables × lags, up to which no lag is omitted. MOST: maximum number
# of lags otherwise. ADDED: maximum number of lags found by the search. WIDE: maximum number of
# candidates for many variables, so that a search takes a minute and not an hour.
FULL, MOST, ADDED, WIDE = 150, 16, 7, 600
# Probability of a false correlation, over all lags and pairs, and the minimum share of the variance
# of a step that it must explain.
CHANCE, LEAST = 1e-3, 0.005
# Lags up to which predictive power may be inertia or measurement error rather than a delay.
INERTIA = 2
# Share of a column, given the others, below which it is redundant up to rounding; and number of
# steps required per product of two present states.
RESOLVED, PRODUCT = 1e-6, 20
# Number of columns compared at every lag in one call.
SOME = 16
# Largest lag tested, as a share of the record, and in samples.
SHARE, FURTHEST = 0.1, 400
# Minimum number of windows; samples required beyond the largest lag in the longest recording; and
# number of variables above which there must be at least as many windows as candidate inputs.
FEWEST, LONGEST, MANY = 10, 8, 50


def choose_lags(samples: Checked[Samples]) -> tuple[tuple[int, ...], str]:
    """Return candidate lags for samples, and a sentence with the reason.

    The next step of every variable is regressed on cubic polynomials of the present state of all
    variables. The lag at which the state or its square explains the most of the residual is then
    added, repeatedly, while its effect is clear: a false positive probability of 1e-3 over all lags
    and pairs, by standard errors that are robust to a few large values, and half a percent of the
    variance of a step.

    The largest candidate is a quarter more than the largest lag found. If no lag above two is
    found, it is the time in which correlations fall to 1/e. All lags up to it are candidates if
    these are at most sixteen lags or 150 candidate inputs, because an effect at an omitted lag is
    split between its neighbours. Otherwise there are sixteen: 0 and 1, those found with their
    neighbours, and an even grid over the rest. For more than fifty variables they are the present,
    the lags found and then the smallest others, as far as 600 candidate inputs and the windows of
    the record allow.

    **Arguments:**

    - `samples`: from [`read_samples`][ndde_jax.read_samples], equally spaced.

    **Returns:** the lags, in samples, ascending from 0, and the reason.

    **Raises:** `ValueError` if `samples` are not `Samples`.

    ```python
    import numpy as np
    import ndde_jax as ndde

    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(7, 1999):
        x[k + 1] = 0.7 * x[k] + rng.normal(size=2) + [0.0, 0.6 * x[k - 7, 0]]
    print(ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0)))
    ```
    """
    check_kind(samples, Samples, "samples", "what read_samples returns")
    longest = max(samples.values, key=len)
    x = linearly_interpolated(longest)
    furthest = min(int(SHARE * min(len(value) for value in samples.values)), FURTHEST)
    if furthest < 1 or not samples.regular:
        short = "the record is too short for any other"
        return (0,), f"Lag 0 only: {short if samples.regular else 'the clock is irregular'}."
    # The later lags of a schedule repeat its first ones, and its own past predicts it completely.
    shown = _found(np.delete(x, list(schedules_of(samples)), axis=1), furthest)
    last = max(shown, default=0)
    largest = with_a_quarter_more(last) if shown else 0
    if last > INERTIA:
        most = f"{last} is the largest that improves the prediction of the next step"
        why = f": {most}; a few more are added."
    else:
        # A straight line over a long gap would be correlated for as long.
        columns = [Stretch.longest(column).x for column in np.asarray(longest, float).T]
        times = (correlation_time(c, len(c) // 2) or 1 for c in columns if len(c) > 1)
        largest = max(largest, min(max(times, default=1), MOST - 1))
        none = f"no delayed influence beyond {INERTIA} samples is seen."
        why = f", the time in which correlations fall to 1/e: {none}"
    largest = min(largest, furthest)
    late = time_span(largest * samples.dt, unit=samples.time_unit)
    late = f" ({late})" if samples.time_unit or samples.dt != 1 else ""
    reason = f"Lags up to {amount(float(largest), 'sample', 6)}{late}{why}"
    lags = lags_up_to(largest, shown, samples)
    if len(lags) <= largest:
        reason += " Away from the lags found, the grid is coarse."
    return lags, reason


def with_a_quarter_more(lag: int) -> int:
    """Return the largest candidate, given the largest lag with predictive power."""
    return int(np.ceil(1.25 * lag)) + 1


def lags_up_to(largest: int, shown: Sequence[int], samples: Samples) -> tuple[int, ...]:
    """Return candidate lags up to the largest: all of them if there is room, otherwise the lags
    `shown` to have predictive power, their neighbours, and an even grid over the rest; for many
    variables no more than the record can decide.
    """
    dim, lags = samples.dim, tuple(range(largest + 1))
    if largest >= max(MOST, FULL // dim):
        lags = _coarse(largest, shown)
    windows = sum(max(len(x) - largest - 1, 0) for x in samples.values)
    room = min(windows, WIDE) // dim
    if dim > MANY and len(lags) > room:
        first = dict.fromkeys([0, *(lag for lag in shown if lag in lags), *lags])
        lags = tuple(sorted([*first][: max(room, 1)]))
    return lags


def _coarse(largest: int, shown: Sequence[int]) -> tuple[int, ...]:
    chosen = {0, 1}
    for lag in shown:
        near = {n for n in (lag - 1, lag, lag + 1) if 0 <= n <= largest}
        if len(chosen | near) > MOST - 4:
            break
        chosen |= near
    for lag in np.linspace(0, largest, MOST - len(chosen) + 2).round().astype(int).tolist():
        if len(chosen) < MOST and all(abs(lag - other) > 1 for other in chosen):
            chosen.add(lag)
    return tuple(sorted(chosen))


def _found(x: Float[np.ndarray, "time dim"], furthest: int, beside: bool = True) -> list[int]:
    """Return lags that explain the next step beyond the present state, most predictive first.

    - `beside`: whether to test only the part of a past state that is not explained by the terms
        already included: a slow state differs little from the present, and only the difference is
        informative. Smooth samples without noise follow from any few before them by interpolation;
        for these, the past state itself must correlate with the residual.
    """
    from scipy.stats import norm

    z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    steps = np.diff(z[furthest:], axis=0)
    steps = (steps - steps.mean(axis=0)) / np.maximum(steps.std(axis=0), 1e-300)
    (n, dim), rows = steps.shape, len(z) - 1
    if n < 4 * dim + 20:
        return []

    def at(lag: int) -> Float[np.ndarray, "step column"]:
        late = z[furthest - lag : rows - lag]
        return np.concatenate([late, late**2, late**3], axis=1)

    scores = _normal_scores(z)

    def ranks(lag: int) -> Float[np.ndarray, "step dim"]:
        return scores[furthest - lag : rows - lag]

    late = np.concatenate([z[:-1], z[:-1] ** 2], axis=1)
    more = [np.ones((n, 1)), at(0)]
    first, second = np.triu_indices(dim, 1)
    if len(first) <= n // PRODUCT:
        more.append(z[furthest:-1][:, first] * z[furthest:-1][:, second])
    own = at_every_lag(late**2, np.ones((n, 1)), furthest)[:, :, 0]
    least, rest, found, seen = RESOLVED * own, steps, list[int](), set[int]()
    basis = np.zeros((n, 0))
    clear = norm.isf(CHANCE / (2 * own.size * dim)) ** 2
    while len(found) < ADDED and basis.shape[1] <= n // 4:
        new = np.concatenate(more, axis=1)
        size = np.maximum(np.linalg.norm(new, axis=0), 1e-300)
        for _ in range(2):
            new = new - basis @ (basis.T @ new)
        new, triangle = np.linalg.qr(new / size)
        new = new[:, np.abs(np.diag(triangle)) > np.sqrt(RESOLVED)]
        basis = np.concatenate([basis, new], axis=1)
        for some in _parts(new) if beside else ():
            own = own - (at_every_lag(late, some, furthest) ** 2).sum(axis=2)
        rest = rest - new @ (new.T @ rest)
        left = np.maximum(np.linalg.norm(rest, axis=0), 1e-300)
        free, strongest = np.where(own > least, own, np.inf)[:, :, None], np.zeros(furthest)
        for some, size in zip(_parts(rest), _parts(left[None]), strict=True):
            share = (at_every_lag(late, some, furthest) / size) ** 2 / free
            told = (share > clear / (n - basis.shape[1])) & (share * size**2 > LEAST * n)
            strongest = np.maximum(strongest, np.where(told, share, 0).max(axis=(1, 2)))
        strongest[[lag - 1 for lag in seen]] = 0
        order = np.argsort(-strongest, kind="stable")[: np.count_nonzero(strongest)] + 1
        ranked = ranks(0), *map(ranks, found)
        for lag in map(int, order):
            seen.add(lag)
            then = late[furthest - lag : rows - lag]
            then = then - basis @ (basis.T @ then) if beside else then
            if _is_significant(then, rest, clear) or _is_ordered(ranks(lag), ranked, rest, clear):
                found.append(lag)
                more = [at(lag)]
                break
        else:
            break
    smooth = found and beside and (left**2 < LEAST * n).all()
    return _found(x, furthest, beside=False) if smooth else found


def _is_significant(
    late: Float[np.ndarray, "step column"], rest: Float[np.ndarray, "step dim"], clear: float
) -> bool:
    """Return whether columns correlate with the residuals, by heteroscedasticity-consistent
    standard errors (White, 1980): a few large values are not evidence.
    """
    square = (late**2).T @ rest**2
    along = (late.T @ rest) ** 2
    return bool((along > clear * np.where(square > 0, square, np.inf)).any())


def _is_ordered(
    late: Float[np.ndarray, "step dim"],
    known: Sequence[Float[np.ndarray, "step dim"]],
    rest: Float[np.ndarray, "step dim"],
    clear: float,
) -> bool:
    """Return whether normal scores of a past state, given the known ones, correlate with those of
    the residuals: an effect seen in a few large values must be seen in all others.
    """
    known = np.concatenate([np.ones((len(rest), 1)), *known], axis=1)
    late = late - known @ np.linalg.lstsq(known, late, rcond=None)[0]
    rest = _normal_scores(rest)
    size = (late**2).sum(axis=0)[:, None] * (rest**2).mean(axis=0)
    return bool(((late.T @ rest) ** 2 > clear * np.where(size > 0, size, np.inf)).any())


def _normal_scores(x: Float[np.ndarray, "time dim"]) -> Float[np.ndarray, "time dim"]:
    """Return the normal scores of the ranks in each column."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri(rankdata(x, axis=0) / (len(x) + 1))


def _parts(columns: Float[np.ndarray, "row column"]) -> list[Float[np.ndarray, "row some"]]:
    """Return a few columns at a time, so that products at every lag fit in memory."""
    return [columns[:, k : k + SOME] for k in range(0, columns.shape[1], SOME)]


def at_every_lag(
    late: Float[np.ndarray, "time column"], now: Float[np.ndarray, "step other"], furthest: int
) -> Float[np.ndarray, "lag column other"]:
    """Return the inner products of columns at the lags 1 to `furthest` with others, whose first
    step is `furthest` samples after the first time.

    Pieces are summed before one inverse transform; `scipy.signal.oaconvolve` would transform the
    whole record for every pair of columns.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(4 * furthest, real=True)
    length = size - furthest
    total = np.zeros((size // 2 + 1, late.shape[1], now.shape[1]), complex)
    for start in range(0, len(now), length):
        before, after = late[start : start + size], now[start : start + length]
        along = rfft(before, size, axis=0)[:, :, None]
        total += along @ rfft(after, size, axis=0).conj()[:, None, :]
    return irfft(total, size, axis=0)[furthest - 1 :: -1][:furthest]


def check_decidable(samples: Samples, lags: tuple[int, ...]) -> None:
    """Raise an error, before any search, for data from which no search could decide.

    **Raises:** `ValueError` for too few windows, absolutely or relative to the candidate inputs.
    """
    reach = max(lags) + 1
    windows = sum(max(len(x) - reach, 0) for x in samples.values)
    longest = max(map(len, samples.values))
    if windows and (windows < FEWEST or longest < reach + LONGEST):
        raise ValueError(
            f"x is too short for the largest lag, {max(lags)}: it holds "
            f"{amount(windows, 'window', 9)}, and its longest recording has {longest} samples; "
            f"expected {FEWEST} windows, and {LONGEST} samples more than the lag. With less, not "
            "even a linear drift can be estimated."
        )
    candidates = samples.dim * len(lags)
    if samples.dim > MANY and candidates > windows:
        raise ValueError(
            f"x has {samples.dim} variables at {len(lags)} lags, {candidates} candidate inputs, "
            f"and {windows} windows: with fewer windows than candidates, any rate can be explained "
            "by chance. Choose fewer variables or lags, or record for longer."
            + transposed_hint(longest, samples.dim)
        )
