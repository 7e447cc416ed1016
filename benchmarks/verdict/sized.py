"""Records with known delays, slopes, curves and futures, to test the coverage of intervals.

Links join different pairs, each with one size, linear or nonlinear. Maps step once per sample,
flows twenty times, with delays of any whole number of these steps.
"""

import zlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..world.generators import BEFORE, SUBSTEPS, gaussian, volatile

# Candidate lags, and number of samples after a record.
LAGS, AFTER = tuple(range(8)), 300
DIM, LINKS = 3, 3
# Lengths of records, and slope at zero of a nonlinear link of size 1.
LENGTHS, BEND = (500, 1000, 4000), 1.5
# Standard deviation of the noise per sample.
MAP_NOISE, FLOW_NOISE = 1.0, 0.7


@dataclass(frozen=True)
class System:
    """A kind of system: a map or a flow, with linear or nonlinear links, and noise of constant or
    changing variance.
    """

    flow: bool
    nonlinear: bool
    changing: bool


SYSTEMS = {
    f"{'bent' if nonlinear else 'linear'} {'flow' if flow else 'map'}"
    f"{', changing noise' if changing else ''}": System(flow, nonlinear, changing)
    for flow in (False, True)
    for nonlinear in (False, True)
    for changing in (False, True)
}


@dataclass(frozen=True, eq=False)
class Known:
    """A record with its truth.

    - `x`: samples; `after`: later samples.
    - `source`, `target`, `delay`, `size`: of links between variables, with delays in samples; in a
        flow, delays are counted from the middle of the small step.
    - `own`: own effects: slope of a variable's rate on its present.
    - `substeps`: steps per sample; `nonlinear`: links are size · tanh(1.5 x).
    - `source_values`: the source values read by each link within the record, `[link time]`.
    """

    x: Float[np.ndarray, "time dim"]
    after: Float[np.ndarray, "time dim"]
    source: Int[np.ndarray, " link"]
    target: Int[np.ndarray, " link"]
    delay: Float[np.ndarray, " link"]
    size: Float[np.ndarray, " link"]
    own: Float[np.ndarray, " dim"]
    source_values: Float[np.ndarray, "link time"]
    substeps: int
    nonlinear: bool

    def contribution(self, link: int, value):
        """Return the contribution of a link to the rate of its target at values of its source."""
        return self.size[link] * (np.tanh(BEND * value) if self.nonlinear else value)

    @property
    def slopes(self) -> Float[np.ndarray, " link"]:
        """The mean slopes of the links over the record."""
        if not self.nonlinear:
            return self.size
        return self.size * BEND * np.mean(1 - np.tanh(BEND * self.source_values) ** 2, axis=1)

    def response(self, link: int, steps: int, *, held: bool) -> Float[np.ndarray, " time"]:
        """Return the levels of a link's target, by sample, after its source is pushed by one, or
        held there, in the linear system with the mean slopes.
        """
        delay = np.floor(self.delay * self.substeps).astype(int)
        begin = delay.max()
        x = np.zeros((begin + steps * self.substeps + 1, len(self.own)))
        x[begin, self.source[link]] = 1.0
        for k in range(begin, len(x) - 1):
            rate = self.own * x[k]
            np.add.at(rate, self.target, self.slopes * x[k - delay, self.source])
            x[k + 1] = x[k] + rate / self.substeps
            if held:
                x[k + 1, self.source[link]] = 1.0
        return x[begin :: self.substeps, self.target[link]]


def record(name: str, length: int, seed: int, number: int) -> Known:
    """Return one record of a kind of system; kinds with the same seed have different systems."""
    system = SYSTEMS[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), length, number])
    substeps = SUBSTEPS if system.flow else 1
    pairs = [(i, j) for i in range(DIM) for j in range(DIM) if i != j]
    source, target = np.array(pairs)[rng.permutation(len(pairs))[:LINKS]].T
    delay = rng.integers(0, (LAGS[-1] - 1) * substeps, LINKS)
    own = -rng.uniform(0.3, 0.7, DIM)
    size = rng.uniform(0.3, 0.6, LINKS) * rng.choice([-1, 1], LINKS)
    steepest = BEND if system.nonlinear else 1
    size = stabilised(own, source, target, delay / substeps, size * steepest) / steepest
    n = length + AFTER + BEFORE
    noise = (volatile if system.changing else gaussian)(rng, (n, 1, DIM * substeps))[:, 0]
    spread = FLOW_NOISE / np.sqrt(substeps) if system.flow else MAP_NOISE
    noise = spread * noise.reshape(n * substeps, DIM)
    x = np.zeros_like(noise)
    for k in range(int(delay.max()), len(x) - 1):
        value = x[k - delay, source]
        rate = own * x[k]
        np.add.at(rate, target, size * (np.tanh(BEND * value) if system.nonlinear else value))
        x[k + 1] = x[k] + rate / substeps + noise[k]
    at = BEFORE * substeps + substeps * np.arange(length)
    samples = x[BEFORE * substeps :: substeps]
    return Known(
        x=samples[:length],
        after=samples[length:],
        source=source,
        target=target,
        # A step uses values at its beginning, half a step before its middle.
        delay=delay + 0.0 if substeps == 1 else (delay + 0.5) / substeps,
        size=size,
        own=own,
        source_values=x[at[None] - delay[:, None], source[:, None]],
        substeps=substeps,
        nonlinear=system.nonlinear,
    )


def stabilised(own, source, target, delay, size, radius: float = 0.95):
    """Return sizes reduced until the linear map is stable."""
    width, delay = DIM * (len(LAGS) + 1), np.round(delay).astype(int)
    while True:
        companion = np.eye(width, k=-DIM)
        companion[np.arange(DIM), np.arange(DIM)] += 1 + own
        np.add.at(companion, (target, delay * DIM + source), size)
        if np.abs(np.linalg.eigvals(companion)).max() < radius:
            return size
        size = 0.9 * size
