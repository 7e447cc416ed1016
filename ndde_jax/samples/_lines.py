"""Seasons and clocks: spectral lines of stable phase, which noisy autonomous systems lack."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._columns import PAST, line as straight
from ._treatments import terms

# Minimum number of cycles in a record to test a phase: of any period, and of a known clock, whose
# period need not be searched for. ALMOST: three years of 365 days count as three cycles.
FEWEST_CYCLES, OF_CLOCK, ALMOST = 6, 3, 0.02
# Cycles per record by which a line may differ from a known clock: the frequency of a barely
# detected line is certain to an eighth of a cycle. The sidereal day of 23.93 hours differs from the
# solar day after eighty days.
SAME_CLOCK = 0.4
# Likely samples per cycle in records without a unit of time: quarters and months of a year, days
# and working days of a week, five minutes to hours of a day, weeks and days of a year. A period
# between four samples and a sixth of the record is near one of these with a probability of 2 to
# 4 %: the sum of their widths over the range, both in logarithms.
USUAL, SAME_COUNT = (4, 12, 7, 5, 288, 144, 96, 48, 24, 365.2425 / 7, 365.2425), 0.01
# Maximum number of pieces of a record whose phases are compared.
PIECES = 32
# Candidates per variable: the highest peaks relative to the background.
CANDIDATES = 6
# Searches per variable, each without the lines found so far: pieces are too short to separate a
# weak line, such as the solar tide, from a strong one next to it.
PASSES = 4
# Refinement of the frequency grid relative to that of the record.
PADDING = 8
# Probability of a false line, over all variables and frequencies of a record.
CHANCE = 1e-3
# Standard deviations by which scatter across the phase may exceed scatter along it.
LOPSIDED = 3.0
# Squared phase shift, in radians squared, that noise would have given an oscillation of the system
# itself. Beyond it, a stable phase shows an outer clock; the second limit is for usual periods.
WANDER, OF_USUAL = 2.5, 0.5
# Probability that a wave without predictive value seems to improve predictions from the past: limit
# for any period, for known clocks, which are likely present, and for possible known clocks.
PREDICTIVE, OF_KNOWN, PERHAPS = 1e-6, 1e-4, 1e-2
# If the residual of a line is white to this share, and the line is at most that share of its
# variable, the residual cannot be the measurement error of an oscillation of the system itself.
ROUGH, MOSTLY = 0.25, 0.8
# Smallest squared phase shift assumed for a variable, also for one without noise.
QUIET = 0.1


@dataclasses.dataclass(frozen=True)
class Line:
    """A spectral line: an oscillation of stable phase in one variable.

    - `period`: in samples.
    - `share`: of the variance of the variable.
    - `of_clock`: whether the period is that of a known clock or of one of its overtones.
    - `share_of_steps`: of the variance of the steps of the variable.
    - `outer`: whether an outside clock causes it. If not, the system itself may cause it: a system
        with little noise, measured with errors, or any system if the period is of a known clock.
    """

    column: int
    period: float
    share: float
    of_clock: bool = False
    share_of_steps: float = 0.0
    outer: bool = True


def find_lines(
    x: Float[np.ndarray, "time dim"], clocks: tuple[float, ...] = ()
) -> tuple[Line, ...]:
    """Return the spectral lines of complete, equally spaced samples, strongest first.

    The record is cut into pieces of whole cycles, and the oscillation at a candidate frequency is
    measured in each. For a season, the pieces agree in amplitude and phase up to the other
    movements of the variable, which disturb both equally. An oscillation of the system itself loses
    its phase: noise shifts the phase and no force restores it, so phases drift apart more than
    amplitudes. A line must

    - (a) stand out against its own scatter from piece to piece, counting pieces that resemble their
      neighbours as fewer, with a false positive probability of 1e-3 per record;
    - (b) scatter in phase no more than in amplitude, to three standard deviations;
    - (c) improve on predictions from past samples, with a false positive probability of 1e-6 (1e-4
      for a known clock, in all variables together).

    A line is from an outer clock if (d) noise would have shifted the phase of an oscillation of the
    system itself, by about a radian and a half in the geometric mean of all variables. Without
    noise such a system keeps time like a clock, and its line is omitted unless the residual is
    rough. `clocks` are the periods, in samples, of known clocks (a year, a day). These and their
    overtones need not satisfy (d), and three cycles suffice instead of six. With so few, standing
    out against neighbouring frequencies may replace (a). Between 1e-4 and 1e-2 in (c), a line of a
    known clock is returned as one that the system may cause itself. If no clock is known, a fifth
    of the squared shift suffices in (d) for periods of 24, 48 or other usual numbers of samples.

    (a) is the F-test of Thomson, *Spectrum estimation and harmonic analysis* (Proceedings of the
    IEEE, 1982), on pieces instead of tapers.
    """
    n, dim = x.shape
    if n < 4 * FEWEST_CYCLES:
        return ()
    x = x - x.mean(axis=0)
    x = x - np.stack([straight(column) for column in x.T], axis=1)
    total = (x**2).mean(axis=0)
    found: list[Line] = []
    known = [c for c in with_overtones(clocks) if OF_CLOCK - ALMOST <= n / c <= n / 2]
    moving = np.flatnonzero(total > 0)
    for j in moving:
        kept: list[Line] = []
        for _ in range(PASSES):
            rest, before = _without(x[:, j], kept), len(kept)
            given = int(j), total[j], dim
            lines = [_tested(rest, frequency, *given) for frequency in _peaks(rest)]
            lines += [_tested(rest, 1 / clock, *given, clocks=len(known)) for clock in known]
            for line in lines:
                if line and all(abs(1 / other.period - 1 / line.period) * n > 2 for other in kept):
                    kept.append(line)
            if len(kept) == before:
                break
        for k, line in enumerate(kept if len(kept) > 1 else ()):
            rest = _without(x[:, j], kept[:k] + kept[k + 1 :])
            kept[k] = _tested(rest, 1 / line.period, int(j), total[j], dim) or line
        found += kept
    # In radians squared, for an oscillation that makes up all of the variance.
    wander = [n * dynamical_noise(x[:, j]) / (2 * total[j]) for j in moving]
    shift = float(np.exp(np.mean(np.log(np.maximum(wander, QUIET))))) if wander else 0.0

    def is_known(period: float) -> bool:
        cycles = (abs(1 / clock - 1 / period) * n for clock in with_overtones(clocks))
        return any(difference < SAME_CLOCK for difference in cycles)

    def is_usual(period: float) -> bool:
        near = (abs(period / k - 1) < min(SAME_COUNT, SAME_CLOCK * k / n) for k in USUAL)
        return not clocks and any(near)

    chances = _chances(x, {line.period for line in found})

    def told(line: Line) -> Line | None:
        """Return the line with `of_clock`, `share_of_steps` and `outer` set; None if it does not
        improve predictions, or in a smooth record whose own oscillations keep their phase.
        """
        near, chance = is_known(line.period), chances[line.period]
        unforeseen = chance.apart < PREDICTIVE or (near and min(chance) < OF_KNOWN)
        if not unforeseen and not (near and min(chance) < PERHAPS):
            return None
        variance = line.share * total[line.column] * (2 * np.sin(np.pi / line.period)) ** 2
        of_steps = float(variance / np.diff(x[:, line.column]).var())
        left = float(total[line.column]) * max(1 - line.share, 0.0)
        # The variance of white noise whose fourth differences have the size found.
        rough = _size(np.diff(x[:, line.column], n=4)) / 70 > ROUGH * left
        moved = shift > (OF_USUAL if is_usual(line.period) else WANDER)
        outer = bool(unforeseen and (near or moved or (line.share < MOSTLY and rough)))
        if not (outer or rough or near):
            return None
        return dataclasses.replace(line, of_clock=near, share_of_steps=of_steps, outer=outer)

    shown = filter(None, map(told, found))
    return tuple(sorted(shown, key=lambda line: -line.share))


def with_overtones(clocks: tuple[float, ...]) -> tuple[float, ...]:
    """Return periods with their halves and thirds, which a week of five working days has."""
    return tuple(clock / k for clock in clocks for k in (1, 2, 3))


def _without(x: Float[np.ndarray, "time"], lines: list[Line]) -> Float[np.ndarray, "time"]:
    """Return a variable without its lines."""
    if not lines:
        return x
    waves = terms(np.arange(float(len(x))), tuple(line.period for line in lines))[:, 2:]
    return x - waves @ np.linalg.lstsq(waves, x, rcond=None)[0]


class Chance(NamedTuple):
    """The probability that a wave without predictive value beyond past samples seems as predictive
    as this one: in any single variable, `apart`, and in all of them `together`.
    """

    apart: float
    together: float


def _chances(x: Float[np.ndarray, "time dim"], periods: set[float]) -> dict[float, Chance]:
    """Return, for each period, the probabilities of its improvement on predictions from the past.

    The next state of a system follows from its past; an outer clock adds to this. The past is the
    last samples of all variables, with the squares and cubes of the very last one. Without these
    the phase of a strongly nonlinear oscillation would predict what the linear terms miss. All
    variables together are tested by Wilks' statistic with Bartlett's approximation. With too few
    samples the probabilities are 0.
    """
    from scipy.special import chdtrc  # takes a moment to import

    n, dim = x.shape
    scale = np.sqrt((x**2).mean(axis=0))
    z = x / np.where(scale > 0, scale, 1)
    past = [z[PAST - lag : n - lag] for lag in range(1, PAST + 1)]
    design = np.concatenate([np.ones((n - PAST, 1)), *past, past[0] ** 2, past[0] ** 3], axis=1)
    if not periods or len(design) < 2 * design.shape[1]:
        return dict.fromkeys(periods, Chance(0.0, 0.0))
    basis, triangle = np.linalg.qr(design)
    basis = basis * (np.abs(np.diag(triangle)) > 1e-8 * np.sqrt(n))
    rest = z[PAST:] - basis @ (basis.T @ z[PAST:])
    inverse = np.linalg.pinv(rest.T @ rest, hermitian=True)
    free = len(design) - design.shape[1] - 2
    time, found = np.arange(float(PAST), n), {}
    for period in periods:
        wave = terms(time, (period,))[:, 2:]
        wave = np.linalg.qr(wave - basis @ (basis.T @ wave))[0]
        along = wave.T @ rest
        explained = (along**2).sum(axis=0)
        left = np.maximum((rest**2).sum(axis=0) - explained, 1e-300)
        # Tail of an F distribution with two degrees of freedom in the numerator.
        apart = dim * np.exp(-free / 2 * np.log1p(explained / left).max())
        wilks = np.linalg.det(np.eye(2) - along @ inverse @ along.T)
        statistic = -(free + 2 - (dim + 3) / 2) * np.log(np.clip(wilks, 1e-300, 1))
        found[period] = Chance(float(apart), float(chdtrc(2 * dim, max(statistic, 0.0))))
    return found


def _size(rest: np.ndarray) -> float:
    """Return a variance that is not raised by isolated bursts."""
    return min(np.mean(rest**2), (1.4826 * np.median(np.abs(rest))) ** 2) if len(rest) else 0.0


def dynamical_noise(x: Float[np.ndarray, "time"]) -> float:
    """Return a lower bound on the variance per step of dynamical noise, excluding measurement
    error; 0 if none can be shown.

    Fourth differences of samples with error variance s and increment noise variance q have variance
    70 s + 20 q and lag-1 covariance −56 s − 15 q, and contain almost nothing of a smooth signal.
    Their correlation is lowered by one and a half of its standard deviations.
    """
    rest = np.diff(x, n=4)
    if len(rest) < 20 or not rest.any():
        return 0.0
    correlation = float(np.mean(rest[1:] * rest[:-1]) / np.mean(rest**2))
    return max(0.0, _size(rest) * (0.8 + correlation - 0.75 / np.sqrt(len(rest))))


def _peaks(x: Float[np.ndarray, "time"]) -> list[float]:
    """Return the frequencies, in cycles per sample, of the strongest peaks of the spectrum."""
    from scipy.ndimage import median_filter

    n = len(x)
    size = PADDING * int(2 ** np.ceil(np.log2(n)))
    power = np.abs(np.fft.rfft(x * np.hanning(n), size)) ** 2
    # One value per resolution element is enough for the background.
    width = max(size // n, 1)
    coarse = power[: len(power) // width * width].reshape(-1, width).mean(axis=1)
    half = max(8, len(coarse) // 100)
    ends = "mirror" if len(coarse) > half else "nearest"
    around = median_filter(coarse, 2 * half + 1, mode=ends)
    background = around[np.minimum(np.arange(len(power)) // width, len(around) - 1)]
    inner = np.arange(1, len(power) - 1)
    top = (power[inner] >= power[inner - 1]) & (power[inner] > power[inner + 1])
    inner = inner[top & (inner / size * n >= FEWEST_CYCLES)]
    floor = 1e-12 * power.max() if power.max() > 0 else 1.0
    ratio = power[inner] / (background[inner] + floor)
    chosen: list[int] = []
    by_ratio, by_power = inner[np.argsort(-ratio)], inner[np.argsort(-power[inner])]
    for peak in np.concatenate([by_power[: CANDIDATES // 2], by_ratio[:CANDIDATES]]):
        if all(abs(peak - other) > 3 * width for other in chosen):
            chosen.append(int(peak))
    return [peak / size for peak in chosen]


def _tested(
    x, frequency: float, column: int, total: float, dim: int, clocks: int = 0
) -> Line | None:
    """Return the line at a frequency of a variable; None if there is none.

    - `clocks`: number of known clocks tested, if the frequency is that of one; 0 if it was found by
        searching all frequencies.
    """
    n = len(x)
    cycles = frequency * n
    # Pieces of whole cycles with at least four samples.
    per_piece = max(1, round(cycles / PIECES), int(np.ceil(4 * frequency)))
    length = round(per_piece / frequency)
    count = n // length
    if count < (OF_CLOCK if clocks else FEWEST_CYCLES):
        return None
    z = _pieces(x, frequency, length, count)
    if not clocks:
        # A frequency that is slightly off turns the phase from piece to piece. The turn that aligns
        # all pieces is the one with the longest mean.
        shift = np.linspace(-1, 1, 65) / (2 * n)
        turned = np.exp(-2j * np.pi * shift[:, None] * length * np.arange(count)[None])
        frequency = frequency + shift[np.argmax(np.abs(turned @ z))]
        if not 0 < frequency <= 0.5 + 1e-9:
            return None
        z = _pieces(x, frequency, length, count)
    mean = z.mean()
    rest = z - mean
    square = np.sum(np.abs(rest) ** 2)
    kept = np.real(np.sum(rest[1:] * np.conj(rest[:-1]))) / max(square, 1e-300)
    kept = min(max(kept, 0.0), 0.95)
    effective = count * (1 - kept) / (1 + kept)
    if effective < 3 or not abs(mean) > 0:
        return None
    log_p = -(effective - 1) * np.log1p(abs(mean) ** 2 / max(square / (count - 2), 1e-300))
    if clocks and count < FEWEST_CYCLES:
        log_p = min(log_p, _log_p_from_neighbours(x, frequency))
    if log_p > np.log(CHANCE) - np.log((clocks or n / 2) * dim):
        return None
    turned = rest * np.conj(mean) / abs(mean)
    along, across = np.sum(turned.real**2), np.sum(turned.imag**2)
    # In a record without noise, the residual is rounding.
    rounding = 1e-12 * count * abs(mean) ** 2
    if across > (along + rounding) * np.exp(2 * LOPSIDED / np.sqrt(effective - 1)):
        return None
    share = float(min(abs(mean) ** 2 / 2 / total, 1.0))
    return Line(column, float(1 / frequency), share) if share > 0 else None


def _log_p_from_neighbours(x: Float[np.ndarray, "time"], frequency: float) -> float:
    """Return the log probability that a wave of a known frequency is this large by chance, given
    neighbouring frequencies: those with up to twice as many cycles in the record, except overtones.

    The scatter of a few pieces is too uncertain. Noise is as large at neighbouring frequencies, and
    larger at lower ones if it is red.
    """
    n, cycles = len(x), frequency * len(x)
    rest = _without(x, [Line(0, 1 / frequency, 0.0)])
    counts = np.arange(1, round(2 * cycles) + 1)
    counts = counts[np.abs(counts / cycles - np.round(counts / cycles)) * cycles >= 1]
    if len(counts) < 3:
        return 0.0
    noise = np.mean(np.abs(np.fft.rfft(rest)[counts]) ** 2)
    wave = (np.sum(x**2) - np.sum(rest**2)) * n / 2
    # Tail of an F distribution with two degrees of freedom in the numerator.
    return float(-len(counts) * np.log1p(wave / max(noise, 1e-300) / len(counts)))


def _pieces(x, frequency: float, length: int, count: int):
    """Return the complex amplitude at a frequency in pieces of a record, each without its mean."""
    pieces = x[: length * count].reshape(count, length)
    pieces = pieces - pieces.mean(axis=1, keepdims=True)
    time = np.arange(length * count).reshape(count, length)
    return 2 * np.mean(pieces * np.exp(-2j * np.pi * frequency * time), axis=1)
