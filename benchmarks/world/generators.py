"""Generators of clean and misleading records with known truth, many at a time.

Every generator returns a `Batch`: `x` `[record time dim]`, and `links` `[record source target lag]`
with the lags of rates, so that a link at rate lag L moves the level L + 1 samples later. Maps step
once per sample; flows are simulated with Euler–Maruyama at a twentieth of the sampling interval.
"""

from typing import NamedTuple

import numpy as np

# Samples before a record begins, steps per sample of a flow, and number of candidate lags.
BEFORE, SUBSTEPS, LAGS = 300, 20, 6


class Batch(NamedTuple):
    """Records `[record time dim]`, true links `[record source target lag]` at lags of rates, and
    pairs with a hidden common driver, `[source target]`.
    """

    x: np.ndarray
    links: np.ndarray
    hidden: np.ndarray


# ---- noises ----


def gaussian(rng, shape):
    """Return white Gaussian noise of variance 1."""
    return rng.normal(size=shape)


def student(rng, shape):
    """Return Student-t noise with 2.5 degrees of freedom, of variance 1."""
    return rng.standard_t(2.5, size=shape) / np.sqrt(5)


def jumps(rng, shape):
    """Return small noise with a jump in one of twenty samples."""
    jump = (rng.random(shape) < 0.05) * rng.normal(size=shape) * 3
    return (rng.normal(size=shape) * 0.7 + jump) / np.sqrt(0.49 + 0.45)


def skewed(rng, shape):
    """Return exponential noise, centred."""
    return rng.exponential(size=shape) - 1


def volatile(rng, shape):
    """Return noise of changing variance, the same for all variables of a record,
    `[time record dim]`.
    """
    noise, h = rng.normal(size=shape), np.zeros(shape[:2])
    step = 0.25 * rng.normal(size=shape[:2])
    for k in range(1, len(h)):
        h[k] = 0.98 * h[k - 1] + step[k]
    return noise * np.exp(h / 2)[..., None]


NOISES = {
    "gaussian": gaussian,
    "student": student,
    "jumps": jumps,
    "skewed": skewed,
    "volatile": volatile,
}


def _drawn_noise(name, rng, shape, shared):
    """Return noise with a share of its variance common to all variables of a record."""
    noise = NOISES[name](rng, shape)
    if not shared:
        return noise
    return np.sqrt(1 - shared) * noise + np.sqrt(shared) * NOISES[name](rng, (*shape[:2], 1))


def independent(records, *, n=1000, dim=2, memory=0.5, noise="gaussian", seed=0) -> Batch:
    """Return independent autoregressions."""
    rng = np.random.default_rng(seed)
    e = NOISES[noise](rng, (n + BEFORE, records, dim))
    x = np.zeros_like(e)
    for k in range(1, len(x)):
        x[k] = memory * x[k - 1] + e[k]
    links = np.zeros((records, dim, dim, LAGS), bool)
    return Batch(x[BEFORE:].swapaxes(0, 1), links, np.zeros((dim, dim), bool))


# ---- links ----


def _drawn(rng, records, dim, extra):
    """Return sparse random links between variables: `source`, `target` and `lag`, each
    `[record link]`.
    """
    source = rng.integers(0, dim, (records, extra))
    target = (source + rng.integers(1, dim, (records, extra))) % dim
    lag = rng.integers(0, LAGS - 2, (records, extra))
    return source, target, lag


def _stabilised(own, source, target, lag, size, flow=False):
    """Return sizes reduced until the linear system is stable, spectral radius .95 per sample."""
    records, dim = own.shape
    size, record, width = size.copy(), np.arange(records), LAGS * dim
    for _ in range(20):
        companion = np.zeros((records, width, width))
        companion[:, np.arange(dim, width), np.arange(width - dim)] = 1
        companion[:, np.arange(dim), np.arange(dim)] = 1 - own if flow else own
        for m in range(size.shape[1]):
            companion[record, target[:, m], lag[:, m] * dim + source[:, m]] += size[:, m]
        wild = np.abs(np.linalg.eigvals(companion)).max(axis=1) > 0.95
        if not wild.any():
            break
        size[wild] *= 0.8
    return size


def _apply(kind, value):
    return np.tanh(1.5 * value) if kind == "tanh" else value


def clean_map(
    records, *, n=1000, dim=4, extra=4, kind="linear", strength=(0.4, 0.7), noise="gaussian",
    shared=0.0, at_once=0.0, drifting=False, seed=0,
) -> Batch:  # fmt: skip
    """Return maps x[k+1] = a x[k] + links + noise, bounded by a soft limit.

    `shared`: share of the variance of the noise that is common to all variables; `at_once`: size
    of the link of every variable to the next within the sample; `drifting`: whether links change
    steadily from their size to its negative.
    """
    rng = np.random.default_rng(seed)
    source, target, lag = _drawn(rng, records, dim, extra)
    size = rng.uniform(*strength, (records, extra)) * rng.choice([-1, 1], (records, extra))
    a = rng.uniform(0.3, 0.7, (records, dim))
    size = _stabilised(a, source, target, lag, size)
    e = _drawn_noise(noise, rng, (n + BEFORE, records, dim), shared)
    x, record = np.zeros_like(e), np.arange(records)
    for k in range(LAGS, len(x) - 1):
        now = a * x[k] + e[k + 1]
        fade = 1 - 2 * max(k - BEFORE, 0) / n if drifting else 1.0
        for m in range(extra):
            moved = _apply(kind, x[k - lag[:, m], record, source[:, m]])
            now[record, target[:, m]] += fade * size[:, m] * moved
        for j in range(1, dim) if at_once else ():
            now[:, j] += at_once * now[:, j - 1]
        x[k + 1] = 20 * np.tanh(now / 20)
    links = np.zeros((records, dim, dim, LAGS), bool)
    for m in range(extra):
        links[record, source[:, m], target[:, m], lag[:, m]] = True
    links |= np.eye(dim, dtype=bool)[None, :, :, None] & (np.arange(LAGS) == 0)
    return Batch(x[BEFORE:].swapaxes(0, 1), links, np.zeros((dim, dim), bool))


def clean_flow(
    records, *, n=1000, dim=4, extra=3, kind="linear", strength=(0.3, 0.6), off_grid=False,
    noise="gaussian", shared=0.0, drifting=False, seed=0,
) -> Batch:  # fmt: skip
    """Return flows dx = (−g x + links) dt + noise, with delays of whole samples unless `off_grid`;
    `shared` and `drifting` as in `clean_map`.
    """
    rng = np.random.default_rng(seed)
    source, target, lag = _drawn(rng, records, dim, extra)
    late = lag * SUBSTEPS + (rng.integers(0, SUBSTEPS, lag.shape) if off_grid else 0)
    size = rng.uniform(*strength, (records, extra)) * rng.choice([-1, 1], (records, extra))
    g = rng.uniform(0.25, 0.6, (records, dim))
    size = _stabilised(g, source, target, lag, size, flow=True)
    steps, record = (n + BEFORE // 3) * SUBSTEPS, np.arange(records)
    x = np.zeros((steps, records, dim))
    scale = 0.7 / np.sqrt(SUBSTEPS)
    e = _drawn_noise(noise, rng, (steps, records, dim), shared) * scale
    for k in range(LAGS * SUBSTEPS, steps - 1):
        drift = -g * x[k]
        fade = 1 - 2 * max(k / SUBSTEPS - BEFORE // 3, 0) / n if drifting else 1.0
        for m in range(extra):
            moved = _apply(kind, x[k - late[:, m], record, source[:, m]])
            drift[record, target[:, m]] += fade * size[:, m] * moved
        x[k + 1] = 20 * np.tanh((x[k] + drift / SUBSTEPS + e[k]) / 20)
    links = np.zeros((records, dim, dim, LAGS), bool)
    for m in range(extra):
        lag_of_link = np.round(late[:, m] / SUBSTEPS).astype(int)
        links[record, source[:, m], target[:, m], lag_of_link] = True
    links |= np.eye(dim, dtype=bool)[None, :, :, None] & (np.arange(LAGS) == 0)
    return Batch(x[-n * SUBSTEPS :: SUBSTEPS].swapaxes(0, 1), links, np.zeros((dim, dim), bool))


# ---- hidden drivers ----

DRIVERS = ("slow", "bursty", "oscillating", "white")


def driver(rng, kind, records, steps, substeps=1):
    """Return hidden drivers of variance about 1, `[time record]`; `substeps` steps per sample."""
    h, u = np.zeros((steps, records)), rng.normal(size=(steps, records))
    if kind == "bursty":
        a = np.exp(-1 / (2 * substeps))
        burst = rng.random(u.shape) < 0.04 / substeps
        u = burst * rng.exponential(3.0, u.shape) * rng.choice([-1, 1], u.shape)
        for k in range(1, steps):
            h[k] = a * h[k - 1] + u[k]
    elif kind == "oscillating":
        q, w = np.exp(-1 / (15 * substeps)), 2 * np.pi / (9 * substeps)
        for k in range(2, steps):
            h[k] = 2 * q * np.cos(w) * h[k - 1] - q * q * h[k - 2] + u[k]
    else:
        a = np.exp(-1 / (8 * substeps)) if kind == "slow" else np.exp(-1 / (0.5 * substeps))
        for k in range(1, steps):
            h[k] = a * h[k - 1] + u[k]
    return (h - h.mean(axis=0)) / h.std(axis=0)


def hidden_map(records, *, n=1000, kind="slow", strength=0.8, moved=True, seed=0) -> Batch:
    """Return maps of four variables: a hidden driver drives 0 and 1, and 2 drives 3 and, if 0 is to
    be `moved` by something measured, 0.
    """
    rng = np.random.default_rng(seed)
    steps, dim = n + BEFORE, 4
    h = driver(rng, kind, records, steps)
    a, e = rng.uniform(0.3, 0.7, (records, dim)), rng.normal(size=(steps, records, dim))
    x = np.zeros_like(e)
    for k in range(LAGS, steps - 1):
        now = a * x[k] + e[k + 1]
        now[:, 0] += 0.6 * moved * x[k - 1, :, 2] + strength * h[k - 1]
        now[:, 1] += strength * h[k - 3]
        now[:, 3] += 0.6 * x[k - 2, :, 2]
        x[k + 1] = now
    return Batch(x[BEFORE:].swapaxes(0, 1), *_truth(records, (2, 3, 2), *[(2, 0, 1)] * moved))


def hidden_flow(records, *, n=1000, kind="bursty", strength=0.75, moved=True, seed=0) -> Batch:
    """Return flows of four variables like `hidden_map`: the hidden driver acts on 0 after one
    sample and on 1 after three.
    """
    rng = np.random.default_rng(seed)
    steps, dim = (n + BEFORE // 3) * SUBSTEPS, 4
    h = driver(rng, kind, records, steps, SUBSTEPS)
    g, x = rng.uniform(0.2, 0.5, (records, dim)), np.zeros((steps, records, dim))
    e = rng.normal(size=x.shape) * 0.7 / np.sqrt(SUBSTEPS)
    for k in range(3 * SUBSTEPS + 1, steps - 1):
        drift = -g * x[k]
        drift[:, 0] += 0.4 * moved * x[k - SUBSTEPS, :, 2] + strength * h[k - SUBSTEPS]
        drift[:, 1] += strength * h[k - 3 * SUBSTEPS]
        drift[:, 3] += 0.4 * x[k - 2 * SUBSTEPS, :, 2]
        x[k + 1] = x[k] + drift / SUBSTEPS + e[k]
    truth = _truth(records, (2, 3, 2), *[(2, 0, 1)] * moved)
    return Batch(x[-n * SUBSTEPS :: SUBSTEPS].swapaxes(0, 1), *truth)


def _truth(records, *edges):
    links, hidden = np.zeros((4, 4, LAGS), bool), np.zeros((4, 4), bool)
    links[np.arange(4), np.arange(4), 0] = True
    for edge in edges:
        links[edge] = True
    hidden[0, 1] = hidden[1, 0] = True
    return np.repeat(links[None], records, axis=0), hidden


def averaged(batch: Batch, width: int) -> np.ndarray:
    """Return means over `width` samples instead of samples, `[record time dim]`."""
    n = batch.x.shape[1] // width * width
    return batch.x[:, :n].reshape(len(batch.x), -1, width, batch.x.shape[2]).mean(axis=2)
