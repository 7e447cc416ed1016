"""The default choice of candidate lags, from the memory that samples have of one another."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import check_kind
from .._spoken import amount, time_span
from .._types import Checked
from ..samples._columns import correlation_time
from ..samples._gaps import Stretch, bridged
from ..samples._samples import Samples
from ..samples._trajectories import transposed_hint
from ._prior import schedules_of

# Candidates, variables × lags, up to which no lag is left out; most lags where some are, and most
# lags that the search adds to the present. Most candidates where variables are many, so that a
# search takes a minute and not an hour.
FULL, MOST, ADDED, WIDE = 150, 16, 7, 600
# Chance of a correlation, over all lags and pairs, where there is none, and the least share of the
# variance of a step that it must explain.
CHANCE, LEAST = 1e-3, 0.005
# Lags up to which what tells of the next step may be inertia, or the error of a measurement, rather
# than a delay.
INERTIA = 2
# Share of a column beside others below which it is the same, but for rounding; and steps for every
# product of two states that is known of the present.
RESOLVED, PRODUCT = 1e-6, 20
# Columns that are compared at every lag at once.
SOME = 16
# Largest lag looked at, as a share of the record, and in samples.
SHARE, FURTHEST = 0.1, 400
# Fewest windows, and samples of the longest recording beyond the largest lag; and variables from
# which on there must be more windows than candidate inputs.
FEWEST, LONGEST, MANY = 10, 8, 50


def choose_lags(samples: Checked[Samples]) -> tuple[tuple[int, ...], str]:
    """Return candidate lags for samples, coarse to fine, and the reason in a sentence.

    The next step of every variable is regressed on the present state of all, by cubic
    polynomials; to this the lag is added at which the state, or its square, explains most
    beside what is there already, again and again while that is clear (a chance of 1e-3 over all
    lags and pairs, by standard errors that a few large values do not make small, and half a percent
    of the variance of a step). The largest lag found, and a
    fourth more, is the largest candidate; where none above two is found, the time in which
    correlations fall to 1/e. Up to sixteen lags, or 150 candidates, are all taken: where one is
    left out, what acts there is split between its neighbours. Otherwise they are sixteen: 0 and
    1, those found and their neighbours, and an even grid over the rest. Of more than fifty
    variables they are the present, those found and the first others, as many as 600 candidates
    and the windows of the record allow.

    **Arguments:**

    - `samples`: of [`read_samples`][ndde_jax.read_samples], equally spaced.

    **Returns:** the lags, in samples, ascending from 0, and why.

    **Raises:** `ValueError` for what are no samples.

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
    x = bridged(longest)
    furthest = min(int(SHARE * min(len(value) for value in samples.values)), FURTHEST)
    if furthest < 1 or not samples.regular:
        short = "the record is too short for any other"
        return (0,), f"Lag 0 only: {short if samples.regular else 'the clock is irregular'}."
    # The later lags of a schedule are its first ones again, and its own past tells all of it.
    shown = _found(np.delete(x, list(schedules_of(samples)), axis=1), furthest)
    last = max(shown, default=0)
    largest = with_a_quarter_more(last) if shown else 0
    if last > INERTIA:
        most = f"{last} is the largest that tells more of the next step than the others do"
        why = f": {most}; some more are taken."
    else:
        # A straight line over a long gap would remember for as long.
        columns = [Stretch.longest(column).x for column in np.asarray(longest, float).T]
        times = (correlation_time(c, len(c) // 2) or 1 for c in columns if len(c) > 1)
        largest = max(largest, min(max(times, default=1), MOST - 1))
        none = f"no delayed influence beyond {INERTIA} samples shows."
        why = f", the time in which correlations fall to 1/e: {none}"
    largest = min(largest, furthest)
    late = time_span(largest * samples.dt, unit=samples.time_unit)
    late = f" ({late})" if samples.time_unit or samples.dt != 1 else ""
    reason = f"Lags up to {amount(float(largest), 'sample', 6)}{late}{why}"
    lags = lags_up_to(largest, shown, samples)
    if len(lags) <= largest:
        reason += " Between those that were found, the grid is coarse."
    return lags, reason


def with_a_quarter_more(lag: int) -> int:
    """Return the largest candidate where a lag is the largest that was seen to tell something."""
    return int(np.ceil(1.25 * lag)) + 1


def lags_up_to(largest: int, shown: Sequence[int], samples: Samples) -> tuple[int, ...]:
    """Return candidate lags up to the largest: all of them where there is room, else those that
    were `shown` to tell something, and their neighbours, and an even grid over the rest; of many
    variables no more than a record can decide about.
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
    """Return lags that explain the next step beyond the present state, the most telling first.

    - `beside`: whether what a late state adds beside all that is known counts: a slow one differs
        little from the present, and in that little lies all that it tells. Smooth samples without
        noise follow from any few before them, which is interpolation; there the state itself must
        go with what the present leaves.
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
            if _is_firm(then, rest, clear) or _is_ordered(ranks(lag), ranked, rest, clear):
                found.append(lag)
                more = [at(lag)]
                break
        else:
            break
    smooth = found and beside and (left**2 < LEAST * n).all()
    return _found(x, furthest, beside=False) if smooth else found


def _is_firm(
    late: Float[np.ndarray, "step column"], rest: Float[np.ndarray, "step dim"], clear: float
) -> bool:
    """Return whether columns go with what is left, by standard errors that hold whatever the
    variances (White, 1980): a few large values are no evidence.
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
    """Return whether normal scores of a late state, beside others that are known, go with those of
    what is left: what a few large values tell in truth, all the others tell as well.
    """
    known = np.concatenate([np.ones((len(rest), 1)), *known], axis=1)
    late = late - known @ np.linalg.lstsq(known, late, rcond=None)[0]
    rest = _normal_scores(rest)
    size = (late**2).sum(axis=0)[:, None] * (rest**2).mean(axis=0)
    return bool(((late.T @ rest) ** 2 > clear * np.where(size > 0, size, np.inf)).any())


def _normal_scores(x: Float[np.ndarray, "time dim"]) -> Float[np.ndarray, "time dim"]:
    """Return the points below which a standard normal lies with the share of each rank."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri(rankdata(x, axis=0) / (len(x) + 1))


def _parts(columns: Float[np.ndarray, "row column"]) -> list[Float[np.ndarray, "row some"]]:
    """Return a few columns at a time, so that products at every lag fit into memory."""
    return [columns[:, k : k + SOME] for k in range(0, columns.shape[1], SOME)]


def at_every_lag(
    late: Float[np.ndarray, "time column"], now: Float[np.ndarray, "step other"], furthest: int
) -> Float[np.ndarray, "lag column other"]:
    """Return the inner products of columns at the lags 1 to `furthest` with others, whose first
    step is `furthest` samples after the first time.

    Pieces are summed before they are transformed back, once for all; `scipy.signal.oaconvolve`
    transforms the whole record for every two columns.
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
    """Raise an error, before any search, for data that no search could decide.

    **Raises:** `ValueError` for too few windows, alone or beside the candidate inputs.
    """
    reach = max(lags) + 1
    windows = sum(max(len(x) - reach, 0) for x in samples.values)
    longest = max(map(len, samples.values))
    if windows and (windows < FEWEST or longest < reach + LONGEST):
        raise ValueError(
            f"x is too short for the largest lag, {max(lags)}: it holds "
            f"{amount(windows, 'window', 9)}, its longest recording {longest} samples; expected "
            f"{FEWEST} windows, and {LONGEST} samples more than the lag. From less not even a "
            "linear drift can be told."
        )
    candidates = samples.dim * len(lags)
    if samples.dim > MANY and candidates > windows:
        raise ValueError(
            f"x has {samples.dim} variables at {len(lags)} lags, {candidates} candidate inputs, "
            f"and {windows} windows: with fewer windows than candidates any rate can be explained "
            "by chance. Choose fewer variables or lags, or record for longer."
            + transposed_hint(longest, samples.dim)
        )
