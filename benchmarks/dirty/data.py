"""Small delayed networks by plain Euler loops, and common faults of measurement.

Written without the library's simulator, so that the two cannot share an error.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

DIM, LAGS, LENGTH = 4, (0, 1, 2, 3, 4), 1500
# Time between samples, and Euler steps in it.
DT, FINE = 0.5, 10
NOISE = 0.4
WARM_UP = 100


@dataclass(frozen=True)
class Network:
    """dx_j = (−x_j + Σ w_ij tanh(1.5 x_i(t − τ_ij))) dt + σ dW; delays in samples."""

    weights: Float[np.ndarray, "source target"]
    delays: Float[np.ndarray, "source target"]
    sigma: float = NOISE

    @property
    def graph(self) -> Bool[np.ndarray, "source target lag"]:
        """The truth on the candidate lags; every variable drives itself at lag 0."""
        graph = np.zeros((len(self.weights), len(self.weights), len(LAGS)), bool)
        for i, j in np.argwhere(self.weights != 0):
            graph[i, j, int(self.delays[i, j])] = True
        graph[..., 0] |= np.eye(len(self.weights), dtype=bool)
        return graph


@dataclass(frozen=True)
class Case:
    """A case: the arguments of `discover`, and the truth.

    - `names`: findings, any of which names the fault.
    """

    x: Float[np.ndarray, "time dim"]
    graph: Bool[np.ndarray, "source target lag"]
    options: dict = field(default_factory=lambda: {"dt": DT})
    names: tuple[str, ...] = ()


def network(rng: np.random.Generator, dim: int = DIM) -> Network:
    """A ring in random order, so that every variable is driven, with a few more links. Feedback is
    negative or weak, so that no variable gets stuck.
    """
    weights, delays = np.zeros((dim, dim)), np.zeros((dim, dim))
    order = rng.permutation(dim)
    links = list(zip(order, np.roll(order, 1), strict=True))
    links += [tuple(rng.choice(dim, 2, replace=False)) for _ in range(dim // 2)]
    for i, j in links:
        weights[i, j] = rng.uniform(1.0, 1.6) * rng.choice([-1, 1])
        delays[i, j] = rng.choice(LAGS[1:])
    # The product around the ring decides its feedback.
    if np.prod([weights[i, j] for i, j in links[:dim]]) > 0:
        weights[links[0]] *= -1
    return Network(weights, delays)


def simulate(
    net: Network,
    n: int,
    rng: np.random.Generator,
    *,
    forcing: Callable[[float], Float[np.ndarray, "dim"]] = lambda t: 0.0,
    burn: int = WARM_UP,
) -> Float[np.ndarray, "step dim"]:
    """A path at the Euler steps, `FINE` per sample."""
    dim, h = len(net.weights), DT / FINE
    late = (net.delays * FINE).astype(int)
    longest = int(late.max()) if dim else 0
    steps = (n + burn) * FINE
    path = np.zeros((longest + steps + 1, dim))
    path[: longest + 1] = 0.5 * rng.normal(size=dim)
    noise = net.sigma * np.sqrt(h) * rng.normal(size=(steps, dim))
    columns = np.broadcast_to(np.arange(dim)[:, None], (dim, dim))
    for k in range(steps):
        now = longest + k
        past = path[now - late, columns]
        drift = -path[now] + np.sum(net.weights * np.tanh(1.5 * past), axis=0)
        path[now + 1] = path[now] + h * (drift + forcing(k * h)) + noise[k]
    return path[longest + burn * FINE + 1 :]


@functools.lru_cache(maxsize=8)
def fine(seed: int) -> tuple[Network, Float[np.ndarray, "step dim"]]:
    """The network of a seed and its clean path at the Euler steps."""
    rng = np.random.default_rng([seed, 0])
    net = network(rng)
    return net, simulate(net, LENGTH, rng)


def twin(seed: int) -> Case:
    """The clean record."""
    net, path = fine(seed)
    return Case(path[::FINE][:LENGTH], net.graph)


def dirty(kind: str, seed: int) -> Case:
    """The record of a kind; all random numbers follow from kind and seed."""
    rng = np.random.default_rng([seed, 1, *kind.encode()])
    return KINDS[kind](seed, rng)


# ---- kinds ----


def _forced(seed, rng, forcing, names):
    net, _ = fine(seed)
    path = simulate(net, LENGTH, rng, forcing=forcing)
    return Case(path[::FINE][:LENGTH], net.graph, names=names)


def _season_common(seed, rng):
    phase = rng.uniform(0, 2 * np.pi)
    return _forced(
        seed,
        rng,
        lambda t: 1.5 * np.sin(2 * np.pi * t / (24 * DT) + phase) * np.ones(DIM),
        ("season",),
    )  # fmt: skip


def _changed(change, names=(), **options):
    """A kind that changes the samples of the twin."""

    def make(seed, rng):
        clean = twin(seed)
        x = change(clean.x.copy(), rng)
        return Case(x, clean.graph, {"dt": DT, **options}, names)

    return make


def _season_each(x, rng):
    phase = rng.uniform(0, 2 * np.pi, DIM)
    t = np.arange(len(x))[:, None]
    return x + 1.5 * x.std(axis=0) * np.sin(2 * np.pi * t / 12 + phase)


def _trend(x, rng):
    return x + 3 * x.std(axis=0) * np.linspace(0, 1, len(x))[:, None] * rng.choice([-1, 1], DIM)


def _regime(seed, rng):
    shift = 1.5 * rng.choice([-1, 1], DIM)
    late = (WARM_UP + LENGTH / 2) * DT
    return _forced(seed, rng, lambda t: shift * (t > late), ("change of regime",))


def _clocked(draw):
    def make(seed, rng):
        net, path = fine(seed)
        index = draw(rng)
        index = index[index < len(path)]
        return Case(path[index], net.graph, {"t": index * DT / FINE}, ("irregular clock",))

    return make


def _irregular(rng):
    return np.cumsum(rng.integers(2, 2 * FINE - 1, LENGTH))


def _jittered(rng):
    return np.arange(LENGTH) * FINE + rng.integers(0, 3, LENGTH)


def _duplicated(share):
    def make(seed, rng):
        clean = twin(seed)
        copy = clean.x[:, :1] + share * clean.x[:, :1].std() * rng.normal(size=(LENGTH, 1))
        graph = np.zeros((DIM + 1, DIM + 1, len(LAGS)), bool)
        graph[:DIM, :DIM] = clean.graph
        return Case(np.hstack([clean.x, copy]), graph, names=("duplicate", "near duplicate"))

    return make


def _missing_random(x, rng):
    return np.where(rng.random(x.shape) < 0.1, np.nan, x)


def _missing_stretch(x, rng):
    for j in range(DIM):
        start = rng.integers(50, len(x) - 200)
        x[start : start + 100, j] = np.nan
    return x


def _quantised(x, rng):
    step = 0.8 * x.std(axis=0)
    return step * np.round(x / step)


def _clipped(x, rng):
    high, low = np.quantile(x, [0.9, 0.1], axis=0)
    return np.clip(x, low, high)


def _outliers(x, rng):
    hit = rng.random(x.shape) < 0.01
    return np.where(hit, x + 8 * x.std(axis=0) * rng.choice([-1, 1], x.shape), x)


def _stuck(x, rng):
    for j in range(0, DIM, 2):
        start = rng.integers(50, len(x) - 200)
        x[start : start + 60, j] = x[start, j]
    return x


def _held(x, rng):
    return np.repeat(x[::3], 3, axis=0)[: len(x)]


def _error(share):
    return _changed(
        lambda x, rng: x + share * x.std(axis=0) * rng.normal(size=x.shape), ("measurement error",)
    )


def _tiny_noise(seed, rng):
    net, _ = fine(seed)
    quiet = Network(net.weights, net.delays, NOISE / 1000)
    path = simulate(quiet, LENGTH, rng, burn=20 * WARM_UP)
    names = ("no noise, one cycle", "no edge", "weak edges", "linear combination", "near duplicate")
    return Case(path[::FINE][:LENGTH], net.graph, names=names)


def _short(x, rng):
    return x[:120]


def _hidden(seed, rng):
    """The variable with most links to others is hidden."""
    clean = twin(seed)
    links = clean.graph.any(axis=2) & ~np.eye(DIM, dtype=bool)
    gone = int(np.argmax(links.sum(axis=1)))
    seen = [j for j in range(DIM) if j != gone]
    return Case(
        clean.x[:, seen],
        clean.graph[np.ix_(seen, seen)],
        names=("residual memory", "neighbouring lags"),
    )


KINDS: dict[str, Callable[[int, np.random.Generator], Case]] = {
    "season_common": _season_common,
    "season_each": _changed(_season_each, ("season",)),
    "trend": _changed(_trend, ("trend",)),
    "regime": _regime,
    "irregular": _clocked(_irregular),
    "jittered": _clocked(_jittered),
    "duplicate": _duplicated(0.0),
    "near_duplicate": _duplicated(0.03),
    "missing_random": _changed(_missing_random, ("missing values",)),
    "missing_stretch": _changed(_missing_stretch, ("missing stretch",)),
    "quantised": _changed(_quantised, ("quantised",)),
    "clipped": _changed(_clipped, ("clipped",)),
    "outliers": _changed(_outliers, ("spikes",)),
    "stuck": _changed(_stuck, ("stuck sensor",)),
    "held": _changed(_held, ("held values",)),
    "error_02": _error(0.02),
    "error_05": _error(0.05),
    "error_10": _error(0.10),
    "tiny_noise": _tiny_noise,
    "short": _changed(_short, ("short record",)),
    "hidden": _hidden,
}
