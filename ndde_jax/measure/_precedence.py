"""The order in which a few events pass from variable to variable, and their travel times.

In such records (floods, epidemics, fronts) neighbours at nearly the same time are proxies for one
another. Given all others no variable adds anything, so strengths that condition on all others rank
by chance. Pair by pair, the variable that is reached first still predicts the other, but not the
reverse.

Strengths find the lag at which a source helps most, which in a smooth record is any lag near the
true one. The travel time of a signal that moves as a wave is better measured by the wave itself.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import (
    argument_error,
    check_concrete,
    check_key,
    check_number,
    check_real_array,
    check_whole,
)
from .._types import Checked, Square, divisor
from ..samples._gaps import linearly_interpolated
from ..samples._reading import read_samples
from ..samples._samples import Samples

# Numbers of past samples of either variable. The best number is unknown and differs between
# records, so shares are averaged over several.
ORDERS = (1, 2, 3, 5)
# Rows below which a regression on ten past values says little.
FEWEST = 60
# Share of its size below which the spread of a column is rounding error, and the ridge of
# regressions, relative to the spread of columns: far below what any record resolves.
CONSTANT, RIDGE = 1e-12, 1e-7
# Shares below this are rounding errors, such as those of constant sources.
ROUNDING = 1e-13
# Shifts, in samples, at which the similarity of two variables is measured.
SHIFTS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
# Where trust in precedence begins and is complete; fixed on simulated rivers against simulated
# chaos, see benchmarks/rivers. Likeness: median over pairs of the highest shifted correlation.
# Tails: median fourth standardised moment of the increments, 3 for normal ones. Explained: median
# share of the one-step surprise that all others together explain; trust falls with it. Lasting:
# median variance of a change over four samples, divided by four times that over one: a fourth for
# values forgotten at once, such as stock returns (.3), 1 for a random walk, more for levels
# that rise over several samples (1.1 and more for five gauges of a flood).
LIKENESS = (0.3, 0.45)
TAILS = (9.0, 14.0)
EXPLAINED = (0.6, 0.45)
LASTING = (0.5, 1.0)
# A variable that was set jumps: least median change, in standard deviations, and least share of
# samples, without those at its most frequent value, that repeat the previous one. Random set points
# change by one standard deviation; water levels read in centimetres repeat as often, but change by
# a tenth.
JUMP, REPEATED = 0.5, 0.5
# Largest number of changes of a set variable that are a few events: five of a heating system are,
# twenty of a control loop are not; chosen by inspecting these two.
MAX_SET_CHANGES = 10
# Strength of a target's strongest source, median over targets: if that much is left after
# conditioning, sources can be distinguished.
STRONG = (0.25, 0.12)


@dataclasses.dataclass(frozen=True, eq=False)
class Ranking:
    """The result of [`rank_sources`][ndde_jax.measure.rank_sources]; NumPy, `[source target]`.

    - `value`: the ranking, strengths and precedence mixed by `trust`.
    - `precedence`: precedence of each pair, see [`precedence`][ndde_jax.measure.precedence].
    - `trust`: weight of precedence, from 0 to 1.
    - `reason`: a sentence for a report: what decides the ranking, and the numbers behind it.
    """

    value: Square
    precedence: Square
    trust: float
    reason: str


def precedence(x: Any) -> Square:
    """Return the precedence of every pair of variables in closed form: which of the two predicts
    the other.

    Given the last p values of the target, those of the source explain a share r of the residual of
    the next step: a partial R², averaged over p = 1, 2, 3, 5. With a the share minus its reverse,
    the result is

        sign(a) √(|a| r)

    from −1, where the target leads, to 1. Units do not matter. Variables that drive each other
    equally have 0, so this is not a measure of influence; see
    [`rank_sources`][ndde_jax.measure.rank_sources]. The diagonal holds the share of the next
    increment that a variable's own past explains.

    **Arguments:**

    - `x`: [`Samples`][ndde_jax.Samples], or input of
        [`read_samples`][ndde_jax.read_samples], equally spaced. Rows with a missing value are
        excluded; if that would be more than half, gaps are bridged by straight lines.

    **Raises:** `ValueError` for input that cannot be read, and under `jit`.

    ```python
    import numpy as np
    import ndde_jax as ndde

    rain = np.random.default_rng(0).gamma(0.1, size=500)
    upstream = np.convolve(rain, 0.8 ** np.arange(30))[:500]
    downstream = 9 * np.convolve(upstream, 0.7 ** np.arange(30))[:500]
    print(ndde.measure.precedence(np.stack([upstream, downstream], 1)).round(2))
    ```

    The comparison of predictions follows Granger, [1969](https://doi.org/10.2307/1912791).
    """
    share, own = _shares(_read(x, "precedence"))
    lead = share - share.T
    value = np.sign(lead) * np.sqrt(np.abs(lead) * share)
    return value + np.diag(own)


def rank_sources(x: Any, strengths: Any) -> Ranking:
    """Return one ranking of the drivers of each variable, from strengths and from precedence.

    Strengths that condition on all others are right if the variables can be distinguished. If one
    event passes through all variables they cannot, and [`precedence`][ndde_jax.measure.precedence]
    decides. Five unit-free numbers determine the case from the data alone: how similar variables
    are at some shift, how much of their variation is due to rare events, whether events last longer
    than a sample, whether all others together explain a variable's surprises, and whether the
    strongest source of a variable still adds something given the others. The value is

        (1 − trust) · strength + trust · precedence.

    **Arguments:**

    - `x`: as for [`precedence`][ndde_jax.measure.precedence].
    - `strengths`: `[source target]`, shares of a variance from 0 to 1, such as
        `found.strengths.source_value`.

    **Returns:** [`Ranking`][ndde_jax.measure.Ranking].

    **Raises:** `ValueError` for input that cannot be read, or strengths of another shape.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(300, 3)).cumsum(axis=0)
    ranking = ndde.measure.rank_sources(x, np.eye(3))
    print(ranking.trust, ranking.reason)
    ```
    """
    samples = _read(x, "rank_sources")
    what = f"[source target] = {(samples.dim, samples.dim)}, not negative"
    check_real_array(strengths, "strengths", what)
    strengths = np.asarray(strengths, float)
    if strengths.shape != (samples.dim, samples.dim):
        raise ValueError(f"strengths must be {what}; got an array of shape {strengths.shape}.")
    if why := _why_not_ranked(samples):
        reason = f"strengths rank the sources: {why}."
        return Ranking(strengths, np.zeros_like(strengths), 0.0, reason)
    first = precedence(samples)
    trust, reason = _trust(samples, strengths)
    return Ranking((1 - trust) * strengths + trust * first, first, trust, reason)


def _read(samples: Any, who: str) -> Samples:
    check_concrete(who, samples if not isinstance(samples, Samples) else ())
    return samples if isinstance(samples, Samples) else read_samples(samples, dt=1.0)


def _why_not_ranked(samples: Samples) -> str:
    """Return why no variable can be ranked first; empty if one can."""
    if samples.dim == 1:
        return "there is one variable"
    if not samples.regular:
        return "the samples are not equally spaced"
    if sum(len(value) for value in samples.values) < FEWEST:
        return f"there are fewer than {FEWEST} samples"
    measured = samples.as_measured()  # once a season is removed, no value looks held
    held = [name for j, name in enumerate(samples.names) if _was_set(measured, j)]
    return f"{held[0]} was set in many steps, which are not passing events" if held else ""


def _was_set(samples: Samples, variable: int) -> bool:
    """Return whether a variable is held at several values and often jumps from one to the next."""
    values = [np.asarray(value, float)[:, variable] for value in samples.values]
    together = np.concatenate([value[np.isfinite(value)] for value in values])
    levels, counts = np.unique(together, return_counts=True)
    if len(levels) < 2:
        return False
    later = np.concatenate([value[1:] for value in values])
    steps = np.concatenate([np.diff(value) for value in values])
    away = np.isfinite(steps) & (later != levels[counts.argmax()])
    jumps = np.abs(steps[np.isfinite(steps) & (steps != 0)])
    if not away.any() or len(jumps) <= MAX_SET_CHANGES or np.median(jumps) < JUMP * together.std():
        return False
    return float(np.mean(steps[away] == 0)) > REPEATED


def trust_bound(samples: Samples) -> float:
    """Return an upper bound on the weight of precedence, from the conditions that need no
    strengths.
    """
    if _why_not_ranked(samples):
        return 0.0
    trust = min(_ramp(np.log(_tails(samples)), np.log(TAILS)), _ramp(_lasting(samples), LASTING))
    trust = min(trust, _ramp(_likeness(samples), LIKENESS)) if trust > 0 else trust
    return min(trust, _ramp(_explained(samples), EXPLAINED)) if trust > 0 else trust


def _trust(samples: Samples, strengths: np.ndarray) -> tuple[float, str]:
    """Return the weight of precedence, and the reason for it."""
    likeness, tails, explained = _likeness(samples), _tails(samples), _explained(samples)
    others = np.where(np.eye(samples.dim, dtype=bool), 0, strengths)
    strongest = float(np.median(others.max(axis=0)))
    trust = min(
        _ramp(likeness, LIKENESS),
        _ramp(np.log(tails), np.log(TAILS)),
        _ramp(explained, EXPLAINED),
        _ramp(strongest, STRONG),
        _ramp(_lasting(samples), LASTING),
    )
    numbers = (
        f"the strongest source adds {strongest:.2f} of a rate's variance given all others (median)"
        f", the correlation at the best shift is {likeness:.2f}, the fourth moment of the "
        f"increments is {tails:.0f} (3 if normal), and all others explain {100 * explained:.0f} % "
        "of a variable's one-step surprises"
    )
    if trust > 0.5:
        return trust, (
            f"precedence ranks the sources (weight {trust:.2f}), since a few events pass through "
            f"all variables, which are then proxies for one another: {numbers}."
        )
    return trust, (
        f"strengths rank the sources (weight {1 - trust:.2f}), since variables can be "
        f"distinguished or share no rare events: {numbers}."
    )


def _ramp(value, bounds) -> float:
    start, end = bounds
    return float(np.clip((value - start) / (end - start), 0, 1))


def _bridged(samples: Samples) -> list[Float[np.ndarray, "time dim"]]:
    """Return values scaled by their spread, with straight lines across gaps."""
    together = np.concatenate([np.asarray(v, float) for v in samples.values])
    centre, spread = np.nanmean(together, axis=0), divisor(np.nanstd(together, axis=0))
    return [
        linearly_interpolated(np.asarray(value, float) - centre) / spread
        for value in samples.values
    ]


def _likeness(samples: Samples) -> float:
    pieces, dim = _bridged(samples), samples.dim
    best = np.full((dim, dim), -1.0)
    for shift in SHIFTS:
        kept = [piece for piece in pieces if len(piece) > 4 * shift]
        if not kept:
            break
        early = np.concatenate([piece[: len(piece) - shift] for piece in kept])
        late = np.concatenate([piece[shift:] for piece in kept])
        both = _unit(early).T @ _unit(late)
        best = np.maximum(best, np.maximum(both, both.T))
    return float(np.median(best[~np.eye(dim, dtype=bool)]))


def _unit(columns):
    centred = columns - columns.mean(axis=0)
    return centred / np.maximum(np.linalg.norm(centred, axis=0), 1e-300)


def _tails(samples: Samples) -> float:
    steps = np.concatenate([np.diff(piece, axis=0) for piece in _bridged(samples)])
    steps = steps - steps.mean(axis=0)
    # Squared below.
    variance = np.maximum(np.mean(steps**2, axis=0), 1e-100)
    return float(np.median(np.maximum(np.mean(steps**4, axis=0) / variance**2, 1)))


def _lasting(samples: Samples) -> float:
    """Return the median variance of changes over four samples, over four times that of changes over
    one; 0 where no recording has five samples.
    """
    pieces = [piece for piece in _bridged(samples) if len(piece) > 4]
    if not pieces:
        return 0.0
    short, long = (
        np.mean(np.concatenate([piece[k:] - piece[:-k] for piece in pieces]) ** 2, axis=0)
        for k in (1, 4)
    )
    return float(np.median(long / (4 * np.maximum(short, 1e-300))))


def _explained(samples: Samples) -> float:
    """Return the median share of the surprise in a variable's next step, given two of its own past
    values, that two past values of all others explain.
    """
    root, dim = _root(samples, 2), samples.dim
    shares = []
    for target in range(dim):
        own = [target, dim + target]
        others = [k for k in range(2 * dim) if k not in own]
        left = _triangle(root[:, [*own, *others, 2 * dim + target]])[:, -1] ** 2
        surprise = left[2:].sum()
        shares.append(left[2:-1].sum() / surprise if surprise > 0 else 0.0)
    return float(np.median(shares))


def _shares(samples: Samples):
    """Return the partial R² of every source, `[source target]`, and R² of the own past, both of the
    next increment and averaged over `ORDERS`.
    """
    dim = samples.dim
    root = _root(samples, max(ORDERS))
    step, total = root[:, -dim:], np.sum(root[:, -dim:] ** 2, axis=0)
    # Order p uses the first p rows of a variable: [variable order moment].
    past = np.moveaxis(root[:, :-dim].reshape(len(root), -1, dim), 0, 2).swapaxes(0, 1)
    shares, own = np.zeros((dim, dim)), np.zeros(dim)
    for target in range(dim):
        others = np.arange(dim) != target
        # The first columns span the same space as fewer past values.
        basis, _ = np.linalg.qr(past[target].T)
        for order in ORDERS:
            known = basis[:, :order]
            left = _without(step[:, target], known)
            alone = float(np.sum(left**2))
            if total[target] > 0:
                own[target] += (1 - alone / total[target]) / len(ORDERS)
            if alone <= CONSTANT * total[target]:
                continue
            # One target at a time: all pairs of a hundred variables would take gigabytes.
            sources = _without(past[others, :order], known)
            stacked = np.concatenate([sources, np.tile(left, (len(sources), 1, 1))], axis=1)
            both = _triangle(np.swapaxes(stacked, 1, 2))[:, -1, -1] ** 2
            part = 1 - both / alone
            shares[others, target] += np.where(part > ROUNDING, part, 0) / len(ORDERS)
    return shares, own


def _without(rows, known):
    """Return the residual of rows on orthonormal columns, projected twice against rounding."""
    for _ in range(2):
        rows = rows - (rows @ known) @ known.T
    return rows


def _root(samples: Samples, order: int):
    """Return a triangular root of all second moments about the mean, which is all that regressions
    need of the data. Columns are past values (the last, the one before, ..., each of all variables)
    and next increments.
    """
    pieces = [np.asarray(v, float) for v in samples.values]
    rows = _rows(pieces, order)
    kept = rows[np.isfinite(rows).all(axis=1)]
    if 2 * len(kept) < len(rows) or len(kept) < FEWEST:
        kept = _rows(_bridged(samples), order)
    size = np.sqrt(np.mean(kept**2, axis=0))
    kept = kept - kept.mean(axis=0)
    scale = np.sqrt(np.mean(kept**2, axis=0))
    kept = kept / np.where(scale > CONSTANT * size, scale, np.inf)
    # Ridge rows, which separate constants and copies and are too small to matter elsewhere.
    n_past = order * samples.dim
    ridge = RIDGE * np.sqrt(len(kept)) * np.eye(n_past, kept.shape[1])
    return _triangle(np.concatenate([kept, ridge]))


def _rows(pieces, order):
    blocks = []
    for x in pieces:
        last = len(x) - 1
        past = [x[order - 1 - k : last - k] for k in range(order)]
        blocks.append(np.concatenate([*past, np.diff(x, axis=0)[order - 1 :]], axis=1))
    return np.concatenate([block for block in blocks if len(block)])


def _triangle(columns):
    return np.linalg.qr(columns, mode="r")


# Half a sample, which no record resolves.
RESOLUTION = 0.5


class TravelTime(NamedTuple):
    """The result of [`travel_time`][ndde_jax.measure.travel_time], in the unit of `dt`.

    - `delay`: estimate; `lower`, `upper`: ends of its interval.
    - `likeness`: similarity at that delay, a correlation. If it is low, nothing travels.
    - `at_end`: whether the delay is the largest that was tried, and so only a lower bound.
    """

    delay: float
    lower: float
    upper: float
    likeness: float
    at_end: bool


def travel_time(
    x: Any,
    source: Checked[int | str],
    target: Checked[int | str],
    largest: Checked[int],
    *,
    level: Checked[float] = 0.9,
    draws: Checked[int] = 400,
    key: Checked[PRNGKeyArray],
) -> TravelTime:
    """Return the delay at which a target's deviations from its median look most like the source's.

    The likeness at a shift is the correlation of d·|d|, where d is the deviation from the median:
    high and low extremes count most, and units do not matter. The highest likeness is interpolated
    between samples by a parabola. The interval comes from a bootstrap of blocks of `2 · largest`
    samples, widened at either end by half a sample, which no record resolves. Only non-negative
    delays are tried: the direction is assumed to be known.

    **Arguments:**

    - `x`: [`Samples`][ndde_jax.Samples], or input of
        [`read_samples`][ndde_jax.read_samples] (then `dt` is 1), equally spaced.
        Missing values are omitted pair by pair.
    - `source`, `target`: positions or names.
    - `largest`: longest delay, in samples.
    - `level`: confidence level of the interval.
    - `draws`: number of bootstrap draws of blocks; 400 determine the ends of a 90 % interval to
        about a tenth of its width.
    - `key`: random key of the draws.

    **Returns:** [`TravelTime`][ndde_jax.measure.TravelTime].

    **Raises:** `ValueError` for unknown variables, samples that are not equally spaced, or fewer
    than four blocks of them.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    rain = np.random.default_rng(0).gamma(0.05, size=1000)
    wave = np.convolve(rain, 0.9 ** np.arange(60))[:1000]
    x = np.stack([wave, np.roll(wave, 7)], axis=1)
    print(ndde.measure.travel_time(x, 0, 1, largest=20, key=jax.random.key(0)).delay)  # about 7
    ```

    The block bootstrap follows Künsch, [1989](https://doi.org/10.1214/aos/1176347265).
    """
    samples = _read(x, "travel_time")
    ends = [_position(samples, end, name) for end, name in ((source, "source"), (target, "target"))]
    check_whole(largest, "largest")
    check_whole(draws, "draws", least=20)
    check_number(level, "level", above=0, below=1)
    key = check_key(key)
    if not samples.regular:
        raise ValueError("travel_time needs equally spaced samples; interpolate them first.")
    length = sum(max(len(value) - largest, 0) for value in samples.values)
    if length < 8 * largest:
        raise ValueError(
            f"largest must leave four blocks of 2 * largest samples; got {largest} for "
            f"{length} pairs of samples that far apart. Choose at most {length // 8}."
        )
    sums = _block_sums([value[:, ends] for value in samples.values], largest)
    n_blocks = sums.shape[-1]
    seed = np.asarray(jax.random.key_data(jax.random.split(key)[0])).tolist()
    chosen = np.random.default_rng(seed).multinomial(
        n_blocks, np.full(n_blocks, 1 / n_blocks), draws
    )
    # [shift draw]; the first draw has every block once
    alike = _correlations(sums @ np.column_stack([np.ones(n_blocks), chosen.T]))
    best = np.array([_peak(column) for column in alike.T])
    tail = (1 - level) / 2
    low, high = np.quantile(best[1:], [tail, 1 - tail])
    low, high = min(low, best[0]) - RESOLUTION, max(high, best[0]) + RESOLUTION
    in_time = np.array([best[0], max(low, 0.0), high]) * samples.dt
    delay, lower, upper = map(float, in_time)
    at_end = bool(alike[:, 0].argmax() == largest)
    return TravelTime(delay, lower, upper, float(alike[:, 0].max()), at_end)


def likeness(samples: Samples, largest: int) -> Square:
    """Return the likeness of all pairs, as in [`travel_time`][ndde_jax.measure.travel_time], at the
    best shift of up to `largest` samples, by Fourier transforms. Missing values and those past an
    end count as the median.
    """
    together = np.concatenate(samples.values).astype(float)
    centre = np.nanmedian(together, axis=0)
    total, power = np.zeros((largest + 1, samples.dim, samples.dim)), 0.0
    for value in samples.values:
        d = np.nan_to_num(np.asarray(value, float) - centre)
        d = d * np.abs(d)
        d = d - d.mean(axis=0)
        wave = np.fft.rfft(d, len(d) + largest, axis=0)
        # Products with later values at all shifts; one source at a time, to save memory.
        for source in range(samples.dim):
            products = np.conj(wave[:, source, None]) * wave
            total[:, source] += np.fft.irfft(products, len(d) + largest, axis=0)[: largest + 1]
        power = power + (d**2).sum(axis=0)
    scale = np.sqrt(np.outer(power, power))
    return (total / divisor(scale)).max(axis=0)


def _position(samples: Samples, variable: Any, name: str) -> int:
    if isinstance(variable, str):
        if variable not in samples.names:
            raise argument_error(name, f"one of {', '.join(samples.names)}", variable)
        return samples.names.index(variable)
    check_whole(variable, name, least=0, most=samples.dim - 1)
    return int(variable)


def _block_sums(pairs: list[np.ndarray], largest: int) -> np.ndarray:
    """Return the sums of 1, a, b, a², b² and ab over blocks, `[moment shift block]`, where a is the
    source now and b the target `shift` samples later.
    """
    together = np.concatenate(pairs).astype(float)
    centre = np.nanmedian(together, axis=0)
    weighed = (together - centre) * np.abs(together - centre)
    scale = np.sqrt(np.nanmean(weighed**2, axis=0))
    found = []
    for pair in pairs:
        n = len(pair) - largest
        if n < 1:
            continue
        d = np.asarray(pair, float) - centre
        a, b = (d * np.abs(d) / divisor(scale)).T
        late = np.stack([b[shift : shift + n] for shift in range(largest + 1)])
        both = np.isfinite(a[:n]) & np.isfinite(late)
        a, late = np.where(both, a[:n], 0), np.where(both, late, 0)
        blocks = max(n // (2 * largest), 1)
        starts = np.arange(blocks) * n // blocks
        sums = functools.partial(np.add.reduceat, indices=starts, axis=1)
        # One moment at a time: together they take six times the memory.
        moments = [sums(both.astype(float)), sums(a), sums(late)]
        found.append(np.stack([*moments, sums(a**2), sums(late**2), sums(a * late)]))
    return np.concatenate(found, axis=2)


def _correlations(sums: np.ndarray) -> np.ndarray:
    """Return the correlations from sums `[moment shift draw]`."""
    n = np.maximum(sums[0], 1)
    a, b, aa, bb, ab = sums[1:] / n
    spread = np.maximum((aa - a**2) * (bb - b**2), 1e-300)
    return (ab - a * b) / np.sqrt(spread)


def _peak(likeness: np.ndarray) -> float:
    """Return the position of the greatest similarity, in samples, by a parabola."""
    k = int(np.argmax(likeness))
    if not 0 < k < len(likeness) - 1:
        return float(k)
    before, at, after = likeness[k - 1 : k + 2]
    bend = before - 2 * at + after
    return k + (0.5 * (before - after) / bend if bend < 0 else 0.0)
