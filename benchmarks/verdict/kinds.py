"""Records by kind, to test verdicts on clean and on misleading records.

The generators of `benchmarks.world` make many at a time. No rule was decided on the seeds of a
published table.
"""

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from ..world import data, generators
from ..world.generators import Batch

# Number of records simulated together, and candidate lags of all simulated records.
BATCH, LAGS = 20, tuple(range(generators.LAGS))
PLANTS = "plants"


@dataclass(frozen=True)
class Kind:
    """A kind of record.

    - `make`: makes a batch of a given number of records from a seed.
    - `group`: its group in the table.
    - `exact`: whether its links are judged at their lags. Pairs are judged if these are not whole
        samples, or samples are not of the state.
    - `names`: findings, any of which names the problem; empty if nothing is wrong.
    """

    make: Callable[[int, int], Batch]
    group: str
    exact: bool = True
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Case:
    """A record with its truth.

    - `x`: samples; `dt`, `lags`: as in [`discover`][ndde_jax.discover].
    - `links`: true links, with one lag if only pairs are known; `judged`: the judged pairs.
    - `hidden`: the pairs with a hidden driver.
    """

    x: Float[np.ndarray, "time dim"]
    links: Bool[np.ndarray, "source target lag"]
    hidden: Bool[np.ndarray, "source target"]
    judged: Bool[np.ndarray, "source target"]
    dt: float = 1.0
    lags: tuple[int, ...] | None = LAGS


def _of(generator, change=None, **options) -> Callable[[int, int], Batch]:
    def make(records: int, seed: int) -> Batch:
        batch = generator(records, seed=seed, **options)
        return batch if change is None else batch._replace(x=change(batch, seed))

    return make


def _means(width: int):
    return lambda batch, seed: generators.averaged(batch, width)


def _every(step: int):
    return lambda batch, seed: batch.x[:, ::step]


def _moving(batch: Batch, seed: int, width: int = 5):
    """Return moving means."""
    total = np.cumsum(np.pad(batch.x, ((0, 0), (1, 0), (0, 0))), axis=1)
    return (total[:, width:] - total[:, :-width]) / width


def _season(batch: Batch, seed: int, period: float = 24.0):
    """Return the records plus a season with its own phase and size for each variable."""
    rng = np.random.default_rng([seed, 24])
    shape = (len(batch.x), 1, batch.x.shape[2])
    phase, size = rng.uniform(0, 0.3, shape), rng.uniform(0.7, 1.5, shape)
    wave = np.sin(2 * np.pi * (np.arange(batch.x.shape[1])[None, :, None] / period + phase))
    return batch.x + batch.x.std(axis=1, keepdims=True) * size * wave


_MAP, _FLOW = generators.clean_map, generators.clean_flow
_HIDDEN = ("hidden driver",)
_POSSIBLE = (*_HIDDEN, "hidden driver possible")
_COARSE = ("links at once", "residual memory", "persistent rates", "hidden driver")
_DRIFT = ("drifting link", "change of regime")
KINDS: dict[str, Kind] = {
    "linear map": Kind(_of(_MAP), "maps"),
    "bent map": Kind(_of(_MAP, kind="tanh"), "maps"),
    "linear flow": Kind(_of(_FLOW), "flows"),
    "bent flow": Kind(_of(_FLOW, kind="tanh"), "flows"),
    "flow off the grid": Kind(_of(_FLOW, off_grid=True), "flows", exact=False),
    **{
        f"{driver} driver of a map": Kind(
            _of(generators.hidden_map, kind=driver, strength=1.0), "confounded", names=_HIDDEN
        )
        for driver in generators.DRIVERS
    },
    **{
        f"{driver} driver of a flow": Kind(
            _of(generators.hidden_flow, kind=driver), "confounded", names=_HIDDEN
        )
        for driver in generators.DRIVERS
    },
    **{
        f"{driver} driver alone, of a {name}": Kind(
            _of(make, kind=driver, strength=strength, moved=False), "unmoved", names=_POSSIBLE
        )
        for name, make, strength in (
            ("map", generators.hidden_map, 1.0),
            ("flow", generators.hidden_flow, 0.75),
        )
        for driver in generators.DRIVERS
    },
    "links at once": Kind(
        _of(_MAP, at_once=0.6, strength=(0.2, 0.5)), "simultaneous", names=("links at once",)
    ),
    "shared noise of a map": Kind(_of(_MAP, shared=0.4), "simultaneous", names=("links at once",)),
    "shared noise of a flow": Kind(
        _of(_FLOW, shared=0.4), "simultaneous", names=("links at once",)
    ),
    "means of a map": Kind(_of(_MAP, _means(4), n=4000), "aggregated", False, _COARSE),
    "means of a flow": Kind(_of(_FLOW, _means(3), n=3000), "aggregated", False, _COARSE),
    "coarse flow": Kind(_of(_FLOW, _every(4), n=4000), "aggregated", False, _COARSE),
    "moving means": Kind(_of(_MAP, _moving), "filtered", False, _COARSE),
    "differences": Kind(
        _of(_MAP, lambda batch, _: np.diff(batch.x, axis=1)), "filtered", False, _COARSE
    ),
    "running sums": Kind(
        _of(_MAP, lambda batch, _: np.cumsum(batch.x, axis=1)),
        "filtered",
        False,
        (*_COARSE, "random walk", "neighbouring lags"),
    ),
    "added season": Kind(_of(_MAP, _season), "seasonal", names=("season",)),
    "turning map": Kind(_of(_MAP, drifting=True), "drifting", names=_DRIFT),
    "turning flow": Kind(_of(_FLOW, drifting=True), "drifting", names=_DRIFT),
    **{
        f"{noise} {name}": Kind(_of(make, noise=noise), "heavy-tailed")
        for noise in ("student", "jumps")
        for name, make in (("map", _MAP), ("flow", _FLOW))
    },
}
# Groups in the order of the table; nothing is wrong with those of the first line.
CLEAN = ("maps", "flows", "heavy-tailed")
# The group whose links no test can tell from true ones: not counted where all are counted.
UNMOVED = "unmoved"
GROUPS = (*CLEAN, *dict.fromkeys(kind.group for kind in KINDS.values()), PLANTS)
GROUPS = tuple(dict.fromkeys(GROUPS))


@functools.lru_cache(maxsize=2)
def batch(name: str, seed: int) -> Batch:
    """Return one batch of records of a kind."""
    # Kinds with the same seed have different graphs.
    own = np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0]
    return KINDS[name].make(BATCH, int(own))


def case(name: str, seed: int, number: int) -> Case:
    """Return one record of a kind; records beyond a batch have the next seed."""
    more, number = divmod(number, BATCH)
    made = batch(name, seed + more)
    apart = ~np.eye(made.x.shape[2], dtype=bool)
    links = made.links[number]
    if not KINDS[name].exact:
        links = links.any(axis=2, keepdims=True)
    return Case(made.x[number], links, made.hidden, apart)


def plant(directory: Path, name: str) -> Case:
    """Return a plant of a directory, judged on the known pairs."""
    found = data.plant(directory, name)
    nothing = np.zeros_like(found.pairs)
    return Case(found.x, found.pairs[..., None], nothing, found.where, found.dt, found.lags)
