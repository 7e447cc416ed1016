"""Ablations: the contribution of each part of the estimator, by omitting it or varying it.

    python -m benchmarks.ablations run --out ablations.sqlite
    python -m benchmarks.ablations table ablations.sqlite

Six systems of three variables, noise that adds two hundredths of a standard deviation per sample,
gates with the library's settings (`L0NDDE`, one coefficient, `FitConfig`), forward differences, lag
0. Each row changes one of these. Every row is fitted to the same series with the same keys, so
comparisons are paired.

- *SHD / D²*: wrong edges as a share of the nine candidates, summed over lags.
- *AUROC* of the edges.
- *drift*: relative root mean square error of the fitted drift on the attractor, on held-out states.
- *lost*: share of ten paths from such states that leave ten standard deviations within 1000
  samples.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import ndde_jax as ndde

from . import tables
from ._small import command, fill
from ._store import Store, Unit
from .readings import FORGOTTEN, SAMPLES, SUBSTEPS, SYSTEMS, sampled

BENCHMARK = "ablations"
# Size of the noise per sample, and the limit for paths, in standard deviations.
NOISE, FAR = 0.02, 10.0
TEST, PATHS, STEPS = 500, 10, 1000


NOTHING: Mapping = MappingProxyType({})


class Row(NamedTuple):
    """The settings of one row: changes of `L0NDDE` or another method, of `FitConfig`, and of the
    windows.
    """

    config: Mapping = NOTHING
    penalty: Mapping = NOTHING
    method: Callable | None = None
    lags: tuple[int, ...] = (0,)
    confined: bool = False
    graph: str | None = None


def _penalty(variant: str, *values: float) -> dict[str, Row]:
    change = dict(gradient_penalty_variant=variant)
    return {f"{v:g}": Row(config=change | dict(gradient_penalty=v)) for v in values}


BASE = "none"
# Rows by part; the first row of every part is the unchanged estimator.
PARTS: Mapping[str, Mapping[str, Row]] = {
    "gradient penalty, of the drift by its inputs": {
        BASE: Row(),
        **_penalty("jacobian", 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    },
    "gradient penalty, of the loss by the predictions": {
        BASE: Row(),
        **_penalty("prediction", 10.0, 100.0, 1000.0, 10000.0),
    },
    "selection": {
        "gates": Row(),
        "none (all inputs)": Row(method=lambda **_: ndde.NODE()),
        "weights with an L1 penalty": Row(
            method=lambda **_: ndde.CNODE(coefficient=0.05, variant="weights")
        ),
        "the true graph": Row(graph="true"),
    },
    "warm start": {
        "Newton": Row(),
        "none": Row(config=dict(warmup="adam", warmup_steps=0)),
        "Adam, 100 steps": Row(config=dict(warmup="adam", warmup_steps=100)),
        "Adam, 1000 steps": Row(config=dict(warmup="adam", warmup_steps=1000)),
    },
    "draws of the gates": {
        "3": Row(),
        "1": Row(penalty=dict(n_draws=1)),
        "10": Row(penalty=dict(n_draws=10)),
    },
    "confinement": {"none": Row(), "to the box of the data": Row(confined=True)},
    "lags": {
        "0": Row(),
        "0, 1": Row(lags=(0, 1)),
        "0, 5": Row(lags=(0, 5)),
        "0, 1, 2, 3": Row(lags=(0, 1, 2, 3)),
    },
}


@functools.lru_cache(maxsize=2)
def noisy(name: str, seed: int):
    """A system's series with noise, and states of an independent run of it without any."""
    system, clean = ndde.systems.get(name), sampled(name)
    sigma = NOISE * clean.std(axis=0) / np.sqrt(system.sampling_step)
    path = ndde.solve_sdde(
        system.drift,
        history=clean[-1],
        n_steps=(SAMPLES + FORGOTTEN) * SUBSTEPS,
        dt=system.sampling_step / SUBSTEPS,
        save_every=SUBSTEPS,
        sigma=sigma,
        key=jr.key(seed),
    )
    return np.asarray(path.ys)[FORGOTTEN:], clean


def score(part: str, row: str, system: str, seed: int, **changes) -> dict[str, float]:
    """Fit one row to one series; `changes` are further changes of `FitConfig`."""
    chosen = PARTS[part][row]
    known = ndde.systems.get(system)
    x, clean = noisy(system, seed)
    windows = ndde.lagged_windows(x, dt=known.sampling_step, lags=chosen.lags, scheme="euler")
    true = np.asarray(known.graph)[:, :, 0]
    if chosen.graph is not None:
        model = ndde.fitting.fit_graph(windows, true[:, :, None], key=jr.key(seed))
        graph, scores = true[:, :, None], true.astype(float)
    else:
        method = (chosen.method or ndde.L0NDDE)(**({"path": ()} | dict(chosen.penalty)))
        config = ndde.FitConfig(**(dict(chosen.config) | changes))
        found = ndde.fit(method, windows, config, key=jr.key(seed))
        model = found.model
        graph = np.asarray(ndde.window_graph(found))
        scores = np.asarray(ndde.edge_scores(found)).max(axis=2)
    if chosen.confined:
        model = ndde.confine(model, windows=windows)
    # Every edge at a later lag is wrong.
    wrong = float((graph[:, :, 0] != true).sum() + graph[:, :, 1:].sum())
    return {
        "wrong": wrong / true.size,
        "auroc": float(ndde.metrics.auroc(scores, true)),
        **_quality(model, known, clean, x.std(axis=0), max(chosen.lags)),
    }


def _quality(model, known, clean, scale, longest: int) -> dict[str, float]:
    rows = np.linspace(longest, len(clean) - 1, TEST).astype(int)
    past = rows[:, None] - np.asarray(model.lags)
    nothing = jnp.zeros((0, clean.shape[1]))
    true = jax.vmap(lambda z: known.drift(0.0, z, nothing))(jnp.asarray(clean[rows]))
    error = (np.asarray(_drifts(model, jnp.asarray(clean[past]))) - np.asarray(true)) / scale
    size = np.asarray(true) / scale
    starts = rows[:: TEST // PATHS]
    begin = jnp.asarray(np.stack([clean[k - longest : k + 1] for k in starts]))
    ends = np.asarray(_paths(model, begin))
    far = ~(np.abs(ends - clean.mean(axis=0)) < FAR * scale)
    return {
        "drift": float(np.sqrt(np.mean(error**2) / np.mean((size - size.mean(axis=0)) ** 2))),
        "lost": float(far.any(axis=(1, 2)).mean()),
    }


@jax.jit
def _drifts(model, histories):
    return jax.vmap(model)(histories)


@jax.jit
def _paths(model, begin):
    """Return Euler paths of the model's own step, every tenth state, `[path time dim]`."""
    back = jnp.asarray(model.lags)

    def step(past, _):
        new = past[-1] + model.dt * model(past[-1 - back])
        return jnp.concatenate([past[1:], new[None]]), new

    return jax.vmap(lambda past: jax.lax.scan(step, past, None, length=STEPS)[1])(begin)[:, ::10]


def run(out: Path, *, systems: Sequence[str], seeds: int, parts: Sequence[str]) -> None:
    """Fit every row on every system into one file; existing results are not computed again."""

    def fitted(unit: Unit, store: Store) -> dict[str, float]:
        return _shared(unit, store) or score(unit.category, unit.method, unit.graph, unit.seed)

    fill(out, _units(systems, seeds, parts), _settings, fitted)


def _shared(unit: Unit, store: Store) -> dict[str, float]:
    """The unchanged estimator is in every part but fitted only once."""
    if PARTS[unit.category][unit.method] != Row():
        return {}
    same = [
        row
        for row in store.rows(BENCHMARK)
        if (row.graph, row.seed) == (unit.graph, unit.seed)
        and PARTS[row.category][row.method] == Row()
    ]
    return {row.metric: row.value for row in same}


def _settings(unit: Unit) -> str:
    row = PARTS[unit.category][unit.method]
    return repr((NOISE, SAMPLES, FORGOTTEN, SUBSTEPS, dict(row.config), dict(row.penalty), row[3:]))


def _units(systems, seeds, parts):
    for system in systems:
        for seed in range(seeds):
            for part in parts:
                for row in PARTS[part]:
                    yield Unit(BENCHMARK, part, system, 0, row, seed)


def table(store: Store) -> str:
    """Return means over systems and seeds, and the paired difference of each row from the first
    of its part, with its standard error.
    """
    found = defaultdict(dict)
    for row in store.rows(BENCHMARK):
        found[row.category, row.method, row.metric][row.graph, row.seed] = row.value
    names = ("wrong", "auroc", "drift", "lost")
    lines = []
    for part, rows in PARTS.items():
        first = next(iter(rows))
        for row in rows:
            if not found[part, row, "wrong"]:
                continue
            cells = [_cell(found, part, row, first, name) for name in names]
            n = len(found[part, row, "wrong"])
            lines.append([part, row, *cells, str(n)])
    header = ["part", "is", "SHD / D²", "AUROC", "drift", "lost", "fits"]
    return tables.markdown(header, lines, text_columns=2)


def _cell(found, part: str, row: str, first: str, name: str) -> str:
    values = found[part, row, name]
    mean = tables.number(tables.mean(values.values()))
    base = found[part, first, name]
    apart = [values[k] - base[k] for k in values.keys() & base.keys()]
    if row == first or len(apart) < 2 or name == "lost":
        return mean
    change, error = np.mean(apart), np.std(apart, ddof=1) / np.sqrt(len(apart))
    return f"{mean} ({change:+.2f} ± {error:.2f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `run` or `table`."""
    command(
        arguments, name="ablations", description=__doc__, option="part", choices=tuple(PARTS),
        systems=SYSTEMS, seeds=3, run=run, table=table,
    )  # fmt: skip


if __name__ == "__main__":
    main()
