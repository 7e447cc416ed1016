"""Records that raise findings of the report, and records that do not: simulated, then spoilt."""

import dataclasses
import functools

import numpy as np

N, DT = 1200, 0.5


@dataclasses.dataclass(frozen=True)
class Data:
    """What `discover` is given: samples, and what is said about them."""

    x: np.ndarray
    options: dict = dataclasses.field(default_factory=lambda: {"dt": DT})
    treat: bool = True
    lags: tuple[int, ...] = (0, 1, 2)


@functools.cache  # asked for twenty times
def plain(n=N, seed=0, dim=3):
    """Noise-driven, damped, coupled in a ring: stationary, and nothing wrong with it."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 200, dim))
    for k in range(2, len(x)):
        own = 1.5 * x[k - 1] - 0.65 * x[k - 2]
        x[k] = own + 0.1 * np.roll(x[k - 1], 1) + 0.3 * rng.normal(size=dim)
    return x[200:]


@functools.cache
def delayed(late, n=N, seed=0, fine=10):
    """A driver, and a follower `late` samples behind; samples half a unit of time apart."""
    rng, back, h = np.random.default_rng(seed), round(late * fine), DT / fine
    x = np.zeros((fine * (n + 100), 2))
    noise = np.sqrt(h) * np.array([1.0, 0.3]) * rng.normal(size=x.shape)
    for k in range(back, len(x) - 1):
        drift = np.array([-x[k, 0], 2 * np.tanh(x[k - back, 0]) - x[k, 1]])
        x[k + 1] = x[k] + h * drift + noise[k]
    return x[100 * fine :: fine]


def graded(strengths, n=800, seed=3):
    """Independent drivers of the last variable, each with a strength of its own."""
    rng, dim = np.random.default_rng(seed), len(strengths)
    x = np.zeros((n, dim + 1))
    for k in range(n - 1):
        drift = -0.5 * x[k]
        drift[-1] += x[k, :-1] @ np.asarray(strengths)
        x[k + 1] = x[k] + drift + 0.5 * rng.normal(size=dim + 1)
    return x


def hidden(n=N, seed=0, fine=10):
    """A slow variable drives another: `[time, (slow, fast)]`."""
    rng, h, x = np.random.default_rng(seed), DT / fine, np.zeros((fine * (n + 100), 2))
    noise = np.sqrt(h) * np.array([0.6, 0.3]) * rng.normal(size=x.shape)
    for k in range(len(x) - 1):
        drift = np.array([-0.3 * x[k, 0], x[k, 0] - 0.3 * x[k, 1]])
        x[k + 1] = x[k] + h * drift + noise[k]
    return x[100 * fine :: fine]


@functools.cache
def averaged(means, n=N, seed=0, fine=10):
    """A ring of three variables, each pushed by the one before it: means over every sampling
    interval, or values at its end.
    """
    rng, x = np.random.default_rng(seed), np.zeros((fine * (n + 100), 3))
    noise = np.sqrt(1 / fine) * rng.normal(size=x.shape)
    for k in range(len(x) - 1):
        x[k + 1] = x[k] + (0.4 * np.roll(x[k], 1) - 0.8 * x[k]) / fine + noise[k]
    inside = x[100 * fine :].reshape(n, fine, 3)
    return inside.mean(axis=1) if means else inside[:, -1]


@functools.cache
def bursts(seen=False, n=1000, seed=0):
    """An unseen variable jumps now and then and moves two others, one two samples before the other;
    or, if it is `seen`, the first of them moves the second.
    """
    rng, x, h = np.random.default_rng(seed), np.zeros((n + 100, 2)), np.zeros(n + 100)
    jump = (rng.random(n + 100) < 0.04) * rng.choice([-6.0, 6.0], n + 100)
    noise = rng.normal(size=x.shape)
    for k in range(4, n + 99):
        h[k] = 0.5 * h[k - 1] + jump[k]
        moved = x[k - 2, 0] if seen else h[k - 3]
        x[k + 1] = 0.5 * x[k] + noise[k] + np.array([h[k - 1], 0.8 * moved])
    return x[100:]


@functools.cache
def driven_by(memory, n=1000, seed=0):
    """A variable with a memory, or without any, drives another three samples later."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 100, 2))
    noise = rng.normal(size=x.shape)
    for k in range(2, n + 99):
        x[k + 1] = np.array([memory * x[k, 0], 0.5 * x[k, 1] + 0.6 * x[k - 2, 0]]) + noise[k]
    return x[100:]


def recalibrated(shift, n=1200, seed=3):
    """A slow variable drives another, and its sensor reads `shift` more from sample 700 on."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 200, 2))
    noise = rng.normal(size=x.shape)
    for k in range(2, n + 199):
        x[k + 1] = np.array([0.95 * x[k, 0], 0.8 * x[k, 1] + 0.4 * x[k - 2, 0]]) + noise[k]
    x = x[200:] / x[200:].std(axis=0)
    x[700:, 0] += shift
    return x


@functools.cache
def sensors(error, n=400, seed=0):
    """A variable drives another, and a third is the first with an error; or its own, if None."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 100, 3))
    noise = rng.normal(size=x.shape)
    for k in range(1, n + 99):
        x[k + 1] = 0.5 * x[k] + noise[k]
        x[k + 1, 1] += 0.7 * x[k - 1, 0]
    if error is not None:
        x[:, 2] = x[:, 0] + error * noise[:, 2]
    return x[100:]


@functools.cache
def blood(sigma, n=1500, seed=0, fine=10, late=17):
    """The equation of Mackey and Glass (1977), one sample a unit of time."""
    rng, h = np.random.default_rng(seed), 1 / fine
    x = np.full(fine * (n + 300), 1.2)
    noise = sigma * np.sqrt(h) * rng.normal(size=len(x))
    for k in range(fine * late, len(x) - 1):
        then = x[k - fine * late]
        x[k + 1] = x[k] + h * (0.2 * then / (1 + then**10) - 0.1 * x[k]) + noise[k]
    return x[300 * fine :: fine, None]


@functools.cache
def chaos(sigma, error, n=1500, dt=0.02, fine=20, seed=0):
    """The equations of Lorenz (1963) with noise that moves them, and with errors of measurement, as
    a share of each standard deviation.
    """
    rng, h = np.random.default_rng(seed), dt / fine
    x, path = np.array([3.0, 5.0, 20.0]), []
    for k in range(fine * (n + 300)):
        rates = [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]]
        x = x + h * np.array(rates) + sigma * np.sqrt(h) * rng.normal(size=3)
        if k % fine == 0:
            path.append(x)
    path = np.array(path[300:])
    return path + error * path.std(axis=0) * rng.normal(size=path.shape)


@functools.cache
def within(at_once, n=N, seed=0):
    """One variable moves another, within the same sample or one sample later."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 100, 2))
    noise = rng.normal(size=x.shape)
    for k in range(n + 99):
        x[k + 1] = 0.5 * x[k] + noise[k]
        x[k + 1, 1] += 0.8 * (x[k + 1, 0] if at_once else x[k - 1, 0])
    return x[100:]


@functools.cache
def fading(to, n=N, seed=0):
    """A link whose coefficient goes steadily from .9 to `to`."""
    rng, x = np.random.default_rng(seed), np.zeros((n + 100, 2))
    noise, c = rng.normal(size=x.shape), np.linspace(0.9, to, n + 100)
    for k in range(1, n + 99):
        x[k + 1] = 0.5 * x[k] + noise[k] + np.array([0.0, c[k] * x[k - 1, 0]])
    return x[100:]


def waves(n=1500, seed=0):
    """A few floods that pass four gauges one after another, each a little later and flatter."""
    rng, rain = np.random.default_rng(seed), np.zeros(n)
    rain[rng.choice(n - 200, 9, replace=False)] = rng.uniform(1, 4, 9)
    levels, fill = [], rain
    for k in range(4):
        shape = np.arange(60) * np.exp(-np.arange(60) / (4 + 2 * k))
        fill = np.convolve(np.roll(fill, 6), shape / shape.sum())[:n]
        levels.append(1 + 20 * fill + 0.01 * rng.normal(size=n))
    return np.stack(levels, axis=1)


def oscillator(n=1500, seed=0, fine=5, late=6):
    """A delayed feedback that keeps time by itself, and two variables that it drives."""
    rng, h, noise = np.random.default_rng(seed), DT / fine, np.array([0.05, 0.5, 0.5])
    x = np.full((fine * (late + n) + 1, 3), 0.3)
    for k in range(late * fine, len(x) - 1):
        first, second, third = x[k]
        fed_back = 2 / (1 + max(x[k - late * fine, 0], 0) ** 8)
        drift = np.array([fed_back - first, np.tanh(3 * (first - 1)) - second, second - third])
        x[k + 1] = x[k] + h * drift + np.sqrt(h) * noise * rng.normal(size=3)
    return x[late * fine + 1 :: fine]


def gone(x, starts, length=12):
    """Stretches without values: `starts` per variable."""
    x = x.copy()
    for column, first in enumerate(starts):
        for start in range(first, len(x) - length, 48):
            x[start : start + length, column] = np.nan
    return x


def cycle(sigma, n=1000, seed=0):
    """An oscillation of a system's own, with noise or without."""
    rng, z, path = np.random.default_rng(seed), 1 + 0j, []
    for _ in range(n + 100):
        for _ in range(10):
            noise = sigma * np.sqrt(0.1) * (rng.normal() + 1j * rng.normal())
            z = z + 0.1 * (0.5 * z * (1 - abs(z) ** 2) + 0.3j * z) + noise
        path.append(z)
    z = np.array(path)[100:]
    return np.stack([z.real, z.imag], axis=1)


def changed(change, n=N, **options):
    """The plain record, changed, beside itself."""
    x = plain(n=n)
    options = {"dt": DT, **options}
    return Data(change(x.copy(), np.random.default_rng(7)), options), Data(x, options)


def recordings(count=8):
    """As many recordings, each with levels of its own, beside others that have none."""
    x = plain().reshape(count, -1, 3)
    levels = 3 * x.std() * np.random.default_rng(7).normal(size=(count, 1, 3))
    return Data(x + levels), Data(x)


def with_copy(share, *, of=0, scale=1.0):
    """One more variable that is another with a little of its own."""

    def change(x, rng):
        own = share * x[:, of].std() * rng.normal(size=len(x))
        return np.column_stack([x, scale * x[:, of] + own])

    return change


def driven_apart():
    """What a copy is not: a fourth variable that follows the first."""
    return Data(plain(dim=4))


def stretch(x, rng):
    """A hundred values in a row are missing."""
    x[300:400, 0] = np.nan
    return x


def stuck(x, rng):
    """A sensor stays where it is for a while."""
    x[80:140, 0] = x[80, 0]
    return x


def spiked(x, rng):
    """Single values are far off."""
    x[rng.choice(160, 3, replace=False), 0] += 12
    x[rng.choice(len(x), 6, replace=False), 0] -= 12
    return x


def between(x, rng):
    """Values between every fourth are drawn with a ruler."""
    fine = np.arange(len(x)) / 4
    return np.stack([np.interp(fine, np.arange(len(x)), c) for c in x.T], axis=1)


def uneven():
    """Times that lie anywhere between a tenth of a unit and nearly two apart."""
    return {"t": np.cumsum(np.random.default_rng(0).uniform(0.1, 1.9, N))}
