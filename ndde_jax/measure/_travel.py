"""The travel time of a signal from one variable to another, for smooth records with pronounced
events.

A network that is fitted to rates of change finds the lag at which a source helps most, which for a
smooth record is any near the truth. A signal that travels as a wave is better measured by the wave
itself.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import check_concrete, check_key, check_number, check_whole, refusal
from .._types import Checked
from ..samples._reading import read_samples
from ..samples._samples import Samples

# Half a sample: what no record resolves.
RESOLUTION = 0.5


class TravelTime(NamedTuple):
    """The result of [`travel_time`][ndde_jax.measure.travel_time], in the unit of `dt`.

    - `delay`: estimate; `lower`, `upper`: ends of its interval.
    - `likeness`: correlation at that delay. Where it is low, nothing travels.
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

    The likeness of a shift is the correlation of d·|d|, d being the deviation from the median: high
    and low extremes count most, the units do not. Between samples the highest likeness is
    interpolated by a parabola. The interval comes from drawing blocks of `2 · largest` samples
    anew, and half a sample is added at either end, which no record resolves. Only delays from 0 on
    are tried: the direction is taken as known.

    **Arguments:**

    - `x`: [`Samples`][ndde_jax.Samples], or what
        [`read_samples`][ndde_jax.read_samples] takes (then `dt` is 1), equally spaced.
        Missing values are left out pair by pair.
    - `source`, `target`: positions or names.
    - `largest`: longest delay, in samples.
    - `level`: confidence level of the interval.
    - `draws`: number of bootstrap draws of blocks; 400 fix the ends of a 90 % interval to about a
        tenth of its width.
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

    Künsch, [1989](https://doi.org/10.1214/aos/1176347265), for drawing blocks.
    """
    check_concrete("travel_time", x if not isinstance(x, Samples) else ())
    samples = x if isinstance(x, Samples) else read_samples(x, dt=1.0)
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
            f"{length} samples that have one so much later. Choose at most {length // 8}."
        )
    sums = _block_sums([value[:, ends] for value in samples.values], largest)
    n_blocks = sums.shape[-1]
    seed = np.asarray(jax.random.key_data(jax.random.split(key)[0])).tolist()
    chosen = np.random.default_rng(seed).multinomial(
        n_blocks, np.full(n_blocks, 1 / n_blocks), draws
    )
    # [shift draw], the first of all blocks once
    alike = _correlations(sums @ np.column_stack([np.ones(n_blocks), chosen.T]))
    best = np.array([_peak(column) for column in alike.T])
    tail = (1 - level) / 2
    low, high = np.quantile(best[1:], [tail, 1 - tail])
    low, high = min(low, best[0]) - RESOLUTION, max(high, best[0]) + RESOLUTION
    in_time = np.array([best[0], max(low, 0.0), high]) * samples.dt
    delay, lower, upper = map(float, in_time)
    at_end = bool(alike[:, 0].argmax() == largest)
    return TravelTime(delay, lower, upper, float(alike[:, 0].max()), at_end)


def likeness(samples: Samples, largest: int) -> Float[np.ndarray, "source target"]:
    """Return the likeness, as in [`travel_time`][ndde_jax.measure.travel_time], at the best shift
    of up to `largest` samples, of all pairs, by Fourier transforms: missing values and those past
    an end count as the median.
    """
    together = np.concatenate(samples.values).astype(float)
    centre = np.nanmedian(together, axis=0)
    total, power = np.zeros((largest + 1, samples.dim, samples.dim)), 0.0
    for value in samples.values:
        d = np.nan_to_num(np.asarray(value, float) - centre)
        d = d * np.abs(d)
        d = d - d.mean(axis=0)
        wave = np.fft.rfft(d, len(d) + largest, axis=0)
        # What was now times what is so many samples later; one source at a time, for memory.
        for source in range(samples.dim):
            products = np.conj(wave[:, source, None]) * wave
            total[:, source] += np.fft.irfft(products, len(d) + largest, axis=0)[: largest + 1]
        power = power + (d**2).sum(axis=0)
    scale = np.sqrt(np.outer(power, power))
    return (total / np.where(scale > 0, scale, 1)).max(axis=0)


def _position(samples: Samples, variable: Any, name: str) -> int:
    if isinstance(variable, str):
        if variable not in samples.names:
            raise refusal(name, f"one of {', '.join(samples.names)}", variable)
        return samples.names.index(variable)
    check_whole(variable, name, least=0, most=samples.dim - 1)
    return int(variable)


def _block_sums(pairs: list[np.ndarray], largest: int) -> np.ndarray:
    """Return the sums of 1, a, b, a², b² and ab over blocks, `[moment shift block]`, a being the
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
        a, b = (d * np.abs(d) / np.where(scale > 0, scale, 1)).T
        late = np.stack([b[shift : shift + n] for shift in range(largest + 1)])
        both = np.isfinite(a[:n]) & np.isfinite(late)
        a, late = np.where(both, a[:n], 0), np.where(both, late, 0)
        blocks = max(n // (2 * largest), 1)
        starts = np.arange(blocks) * n // blocks
        sums = functools.partial(np.add.reduceat, indices=starts, axis=1)
        # One moment after the other: together they are six times as large.
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
    """Return the position of the greatest likeness, in samples, between them by a parabola."""
    k = int(np.argmax(likeness))
    if not 0 < k < len(likeness) - 1:
        return float(k)
    before, at, after = likeness[k - 1 : k + 2]
    bend = before - 2 * at + after
    return k + (0.5 * (before - after) / bend if bend < 0 else 0.0)
