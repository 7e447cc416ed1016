"""Simulated floods: storms over catchments, a tree of reaches, levels in whole centimetres.

Thresholds for records of passing events can be inspected here without a river's truth.
"""

import numpy as np
from jaxtyping import Bool, Float

import ndde_jax as ndde
from benchmarks import tables
from ndde_jax.measure._events import read_events

# Hours, at 15 minutes a sample; gauges; records of the table.
DT, GAUGES, RECORDS = 0.25, (3, 5, 8, 12), 120
LAGS = (0, 1, 2, 3, 4)


def simulate(
    seed: int, n_gauges: int = 5, n: int = 2000
) -> tuple[Float[np.ndarray, "time gauge"], Bool[np.ndarray, "source target"]]:
    """Return levels and the network. Every gauge except the last flows into one downstream, after
    a travel time of one to some forty samples that spreads the wave. Rain on its own catchment
    passes through two reservoirs. Levels are a power of the flow, each in its own unit.
    """
    rng = np.random.default_rng(seed)
    later = [np.arange(k + 1, n_gauges) for k in range(n_gauges - 1)]
    down = [int(rng.choice(below, p=_near(len(below)))) for below in later]
    rain, place, time = np.zeros((n, n_gauges)), rng.uniform(0, 1, n_gauges), np.arange(n)
    for _ in range(rng.integers(2, 6)):
        start, length, size = rng.uniform(0.05, 0.75) * n, rng.uniform(20, 150), rng.gamma(2)
        speed = 20 * rng.normal()
        for k in range(n_gauges):
            middle = start + speed * place[k] + length / 2
            shape = np.exp(-0.5 * ((time - middle) / (length / 3)) ** 2)
            rain[:, k] += size * rng.lognormal(0, 0.4) * shape * rng.gamma(0.5, size=n)
    area, inflow = rng.lognormal(0, 0.7, n_gauges), np.zeros((n, n_gauges))
    flow, truth = np.zeros((n, n_gauges)), np.zeros((n_gauges, n_gauges), bool)
    for k in range(n_gauges):
        flow[:, k] = area[k] * _reservoirs(rain[:, k], rng.lognormal(3, 0.3)) + inflow[:, k]
        if k < n_gauges - 1:
            travel = int(rng.lognormal(np.log(8), 0.9))
            spread = max(travel / 4, 1)
            shift = int(max(travel - 2 * spread, 0))
            wave = _reservoirs(flow[:, k], spread)
            inflow[:, down[k]] += np.concatenate([np.full(shift, wave[0]), wave[: n - shift]])
            truth[k, down[k]] = True
    level = (flow + 0.05 * flow.max(axis=0)) ** rng.uniform(0.4, 0.7, n_gauges)
    return np.round(level / level.std(axis=0) * rng.lognormal(3.5, 0.7, n_gauges)), truth


def table() -> str:
    """Return a table of the library's results on such records: the gauges identified as
    neighbours, and the ranking.
    """
    body = []
    for n_gauges in GAUGES:
        hits = claimed = true = decided = 0
        areas = []
        for seed in range(RECORDS):
            x, truth = simulate(seed, n_gauges)
            events = read_events(ndde.read_samples(x, dt=DT), lags=LAGS)
            if events is None:
                continue
            decided += 1
            apart = ~np.eye(n_gauges, dtype=bool)
            areas.append(float(ndde.metrics.auroc(events.ranking.value[apart], truth[apart])))
            hits += int((events.next & truth).sum())
            claimed, true = claimed + int(events.next.sum()), true + int(truth.sum())
        numbers = (np.mean(areas), hits / claimed, hits / true)
        rows = f"{decided} of {RECORDS}"
        body.append([str(n_gauges), rows, *(tables.number(value, 2) for value in numbers)])
    header = ["gauges", "read as events", "AUROC", "neighbours true", "of the true links"]
    return tables.markdown(header, body, text_columns=2)


def _near(n: int) -> Float[np.ndarray, " place"]:
    weight = 1 / np.arange(1, n + 1)
    return weight / weight.sum()


def _reservoirs(flow, hold: float):
    """Return the outflow of two linear reservoirs in series, each with time constant `hold`, in
    samples.
    """
    keep = np.exp(-1 / hold)
    for _ in range(2):
        out, left = np.empty_like(flow), 0.0
        for t, q in enumerate(flow):
            left = keep * left + (1 - keep) * q
            out[t] = left
        flow = out
    return flow
