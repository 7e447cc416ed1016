"""Records by family and size, with their truth, and plants of a directory."""

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from . import flows, generators, maps
from .generators import LAGS

PLANTS = "plants"
# Candidate lags of rates of all simulated records.
CANDIDATES = tuple(range(LAGS))
# Standard deviation, in units of the largest value, below which a variable is at rest, and the
# correlation from which on two move as one.
AT_REST, AS_ONE = 0.01, 0.999


@dataclass(frozen=True, eq=False)
class Record:
    """A record: the inputs of a method and the truth.

    - `x`: samples, NaN where missing; `dt`: time between them; `lags`: candidate lags of rates,
        None if unknown.
    - `links`: true links at the lags of rates, None if only pairs are known; `pairs`: the same
        without lags; `judged`: pairs whose truth is known.
    - `at_once`: pairs that are related within a sampling interval, symmetric.
    """

    x: Float[np.ndarray, "time dim"]
    pairs: Bool[np.ndarray, "source target"]
    links: Bool[np.ndarray, "source target lag"] | None = None
    at_once: Bool[np.ndarray, "source target"] | None = None
    judged: Bool[np.ndarray, "source target"] | None = None
    dt: float = 1.0
    lags: tuple[int, ...] | None = CANDIDATES
    names: tuple[str, ...] = field(default=())

    @property
    def where(self) -> Bool[np.ndarray, "source target"]:
        """The pairs of different variables whose truth is known."""
        apart = ~np.eye(len(self.pairs), dtype=bool)
        return apart if self.judged is None else apart & self.judged

    @property
    def ranked(self) -> Bool[np.ndarray, "source target"]:
        """The pairs with known truth, without those that are linked only within a sample, where it
        is unclear whether that is an edge.
        """
        if self.at_once is None:
            return self.where
        return self.where & ~(self.at_once & ~self.pairs & ~self.pairs.T)


def _of_map(make: Callable, rng, p, n) -> Record:
    """Return a record of a map, drawn again while a variable is at rest or two move as one, since
    nothing in such a record shows what drives them.
    """
    while True:
        system = make(rng, p)
        x, links = maps.iterated(system, n, rng), system.links
        if _varied(x):
            return Record(x, links.any(axis=2), links, system.at_once | system.at_once.T)


def _varied(x: Float[np.ndarray, "time dim"]) -> bool:
    if not (x.std(axis=0) > AT_REST * np.abs(x).max(axis=0)).all():
        return False
    return bool(np.abs(np.corrcoef(x.T)[np.triu_indices(x.shape[1], 1)]).max() < AS_ONE)


def _of_flow(make: Callable, rng, p, n) -> Record:
    system = make(rng, p)
    return Record(flows.integrated(system, n, rng), system.links, dt=system.step)


def _of_batch(make: Callable, rng, p, n) -> Record:
    """Return one record of `generators`, which make many at a time."""
    batch = make(1, n=n, seed=int(rng.integers(2**31)), **({"dim": p} if p else {}))
    return Record(batch.x[0], batch.links[0].any(axis=2), batch.links[0])


def _haemodynamic(rng, p, n) -> Record:
    """Return the haemodynamic response to neurons, sampled every three seconds."""
    system, every = flows.neurons(rng, p), 30
    activity = flows.integrated(system, n * every, rng, substeps=4, before=100)
    x = flows.haemodynamic(activity, rng, step=system.step, every=every)
    return Record(x, system.links, dt=3.0)


def _unrelated(x) -> Record:
    """Return a record in which nothing drives anything else."""
    p = x.shape[1]
    links = np.zeros((p, p, LAGS), bool)
    links[..., 0] = np.eye(p)
    return Record(x, links.any(axis=2), links)


def _autoregressions(rng, p, n):
    own = rng.uniform(0.3, 0.95, p)
    x = np.zeros((n + 200, p))
    for k in range(1, len(x)):
        x[k] = own * x[k - 1] + rng.normal(size=p)
    return x[200:]


def _independent(rng, p, n) -> Record:
    return _unrelated(_autoregressions(rng, p, n))


def _random_walks(rng, p, n) -> Record:
    return _unrelated(np.cumsum(rng.normal(size=(n, p)), axis=0))


def _growth(rng, p, n) -> Record:
    """Return sums of autoregressive growth (coefficients .2 to .7) around its mean, like national
    accounts and prices.
    """
    x, own = np.zeros((n + 200, p)), rng.uniform(0.2, 0.7, p)
    for k in range(1, len(x)):
        x[k] = own * x[k - 1] + rng.normal(size=p)
    return _unrelated(np.cumsum(1 + x[200:], axis=0))


def _seasons(rng, p, n) -> Record:
    """Return autoregressions with a season of 24 samples, each with its own phase."""
    x = _autoregressions(rng, p, n)
    wave = np.sin(2 * np.pi * (np.arange(n)[:, None] / 24 + rng.uniform(0, 0.3, p)))
    return _unrelated(x + x.std(axis=0) * rng.uniform(0.7, 1.5, p) * wave)


def _stations(rng, p, n) -> Record:
    """Return stations with equal autoregression, whose innovations share a field. They have
    contemporaneous relations only: no past predicts another station. Outages of ten samples on
    average leave 13 % missing.
    """
    x, share = np.zeros((n + 200, p)), rng.uniform(0.5, 0.9, p)
    for k in range(1, len(x)):
        x[k] = 0.8 * x[k - 1] + share * rng.normal() + np.sqrt(1 - share**2) * rng.normal(size=p)
    x, down = x[200:], np.zeros(p, bool)
    for k in range(n):
        down = np.where(down, rng.random(p) > 0.1, rng.random(p) < 0.1 * 0.13 / 0.87)
        x[k, down] = np.nan
    found = _unrelated(x)
    return Record(x, found.pairs, found.links, ~np.eye(p, dtype=bool))


def _shares(rng, p, n) -> Record:
    """Return stock returns with one market factor, and half as many links as shares: the own
    innovation of one share moves another one to three samples later, as in Kleinberg's FinanceCPT.
    """
    news, links = rng.normal(size=(n, p)), np.zeros((p, p, LAGS), bool)
    x = rng.normal(size=(n, 1)) * rng.uniform(0.8, 1.6, p) + news
    apart = np.argwhere(~np.eye(p, dtype=bool))
    for i, j in rng.choice(apart, p // 2, replace=False).tolist():
        later = int(rng.integers(1, 4))
        x[later:, j] += rng.choice([-1, 1]) * rng.uniform(0.3, 0.6) * news[:-later, i]
        links[i, j, later - 1] = True
    links[..., 0] |= np.eye(p, dtype=bool)
    return Record(x, links.any(axis=2), links, ~np.eye(p, dtype=bool))


def _hidden(records, *, n, seed):
    kind = generators.DRIVERS[seed % len(generators.DRIVERS)]
    return generators.hidden_map(records, n=n, kind=kind, seed=seed)


def _map(make: Callable, **options):
    return functools.partial(_of_map, functools.partial(make, **options))


def _flow(make: Callable, **options):
    return functools.partial(_of_flow, functools.partial(make, **options))


# Generators of a record with given numbers of variables and samples, by name, and the sizes to run.
FAMILIES: dict[str, tuple[Callable, tuple[tuple[int, int], ...]]] = {
    "linear": (_map(maps.structural), ((3, 100), (5, 250), (10, 500), (20, 1000))),
    "linear_at_once": (_map(maps.structural, at_once=0.3), ((5, 250), (10, 500))),
    "nonlinear": (_map(maps.structural, nonlinear=True), ((3, 100), (5, 250), (10, 500))),
    "nonlinear_at_once": (
        _map(maps.structural, nonlinear=True, at_once=0.3),
        ((5, 250), (10, 500)),
    ),
    "sparse_var": (_map(maps.sparse_var), ((10, 1000), (20, 1000))),
    "threshold": (_map(maps.threshold), ((5, 500),)),
    "bilinear": (_map(maps.bilinear), ((5, 500),)),
    "logistic": (_map(maps.logistic), ((5, 500),)),
    "henon": (_map(maps.henon), ((5, 500),)),
    "ikeda": (_map(maps.ikeda), ((6, 500),)),
    "lorenz96_f10": (_flow(flows.lorenz96), ((10, 500), (20, 500))),
    "lorenz96_f40": (_flow(flows.lorenz96, force=40.0), ((10, 500), (20, 500))),
    "lotka_volterra": (_flow(flows.lotka_volterra), ((8, 500),)),
    "kuramoto": (_flow(flows.kuramoto), ((5, 500),)),
    "delayed_flow": (functools.partial(_of_batch, generators.clean_flow), ((4, 500),)),
    "haemodynamic": (_haemodynamic, ((5, 200), (10, 200))),
    "genes": (_flow(flows.genes), ((10, 200),)),
    "shares": (_shares, ((10, 1000),)),
    "hidden": (lambda rng, p, n: _of_batch(_hidden, rng, None, n), ((4, 500),)),
    "independent": (_independent, ((5, 100), (5, 500), (20, 500))),
    "random_walks": (_random_walks, ((5, 500),)),
    "growth": (_growth, ((6, 200), (6, 500))),
    "seasons": (_seasons, ((5, 500),)),
    "stations": (_stations, ((6, 1000),)),
}


def label(p: int, n: int) -> str:
    """Return the label of a size: variables and samples."""
    return f"{p}x{n}"


@functools.lru_cache(maxsize=512)
def record(family: str, size: str, seed: int, directory: Path | None = None) -> Record:
    """The record of a family, a size (or the name of a plant) and a seed."""
    if family == PLANTS:
        return plant(Path(directory or "."), size)
    p, n = (int(part) for part in size.split("x"))
    rng = np.random.default_rng([seed, zlib.crc32(f"{family} {size}".encode())])
    return FAMILIES[family][0](rng, p, n)


# ---- plants ----


@dataclass(frozen=True)
class Layout:
    """The layout of a plant's file: its columns after the skipped ones, actuators first."""

    file: str
    actuators: int
    dt: float = 1.0
    skip: int = 0


# Layouts in the order of their directory; `skip` omits a column of times.
LAYOUTS = {
    "dryer": Layout("dryer.dat", 1, 0.08),
    "heating": Layout("heating_system.dat", 1, 2.0, 1),
    "exchanger": Layout("exchanger.dat", 1, 1.0, 1),
    "flutter": Layout("flutter.dat", 1),
    "glass_furnace": Layout("glassfurnace.dat", 3, 1.0, 1),
    "evaporator": Layout("evaporator.dat", 3, 10.0),
    "gas_furnace": Layout("gasrate_co2.csv", 1, 9.0),
}


def plant(directory: Path, name: str) -> Record:
    """Return a plant of a directory: each actuator drives each sensor, nothing drives an actuator,
    and links between sensors are unknown.

    **Raises:** `ValueError` if its file is not there.
    """
    layout = LAYOUTS[name]
    file = directory / layout.file
    if not file.exists():
        raise ValueError(f"{file} does not exist.")
    comma = file.suffix == ".csv"
    table = np.loadtxt(file, delimiter="," if comma else None, skiprows=int(comma), ndmin=2)
    x = np.ascontiguousarray(table[:, layout.skip :])
    actuator = np.arange(x.shape[1]) < layout.actuators
    pairs = actuator[:, None] & ~actuator[None]
    judged = actuator[:, None] | actuator[None]
    return Record(x, pairs, judged=judged, dt=layout.dt, lags=None)


def plants(directory: Path) -> list[str]:
    """Return the plants in a directory.

    **Raises:** `ValueError` if there are none.
    """
    found = [name for name, layout in LAYOUTS.items() if (directory / layout.file).exists()]
    if not found:
        files = ", ".join(layout.file for layout in LAYOUTS.values())
        raise ValueError(f"{directory} holds none of the plants: {files}.")
    return found
