"""A data card per task: why its delays can or cannot be found in a series of this length."""

import numpy as np

from benchmarks import tables

from .data import simulate
from .settings import Specification
from .theory import Window, measured_strengths


def card(spec: Specification, seed: int = 0) -> dict[str, float]:
    """Return figures that decide whether a task can be solved.

    - `autocorrelation`: of the samples at one grid step, the largest of all variables. Near 1
        neighbouring lags cannot be distinguished.
    - `noise`: share of the measured rates' variance that no drift explains, mean over targets.
    - `weakest`: smallest signal strength s² of a true edge under the true drift, as a share of the
        variance of its target's measured rate.
    - `price`: the least strength of an edge under the default rule at this length and noise, for
        the target of the weakest edge.
    - `margin`, `spread`: by the penalised theorem at the largest price of all targets, the least
        excess of the objective of a wrong graph, and its chance variation. If the margin is larger,
        the theorem guarantees the graph; otherwise it makes no statement.
    - `identifiable`: share of true edges whose strength exceeds the price, so that no model without
        them can compete. Others may still be found, since the projection uses all other candidates
        and a sparse graph pays for each.
    """
    series = simulate(spec, seed)
    step = series.lags[1] - series.lags[0]
    late, early = series.x[step:], series.x[:-step]
    autocorrelation = [np.corrcoef(a, b)[0, 1] for a, b in zip(late.T, early.T, strict=True)]
    noise = 1 - series.explained
    strengths = measured_strengths(series)
    n, n_inputs = len(series.x), series.graph.shape[0] * series.graph.shape[2]
    # The price of ndde_jax.measure.SignalStrengths.kept, with networks of 8 units.
    price = 1e-4 + 8 * max(np.log(n) - 2 + np.log(n_inputs), 0) / n * noise
    window = Window.of(series, strengths)
    edges = np.nonzero(series.graph)
    weakest = np.nanargmin(strengths[edges] / price[edges[1]])
    return {
        "dim": series.x.shape[1],
        "candidates": n_inputs,
        "edges": int(series.graph.sum()),
        "autocorrelation": float(np.max(autocorrelation)),
        "noise": float(noise.mean()),
        "weakest": float(strengths[edges][weakest]),
        "price": float(price[edges[1]][weakest]),
        "margin": window.margin(float(price.max())),
        "spread": window.spread(n),
        "identifiable": float(np.mean(strengths[edges] > price[edges[1]])),
    }


def cards(specs: list[Specification]) -> str:
    """A Markdown table, one row per task."""
    header = ["task", "D", "candidates", "edges", "autocorrelation", "noise", "weakest", "price"]
    header += ["margin", "spread", "identifiable"]
    rows = []
    for spec in specs:
        c = card(spec)
        rows.append(
            [
                f"{spec.category}/{spec.name}",
                *(str(int(c[name])) for name in ("dim", "candidates", "edges")),
                *(tables.number(c[name], 3) for name in ("autocorrelation", "noise")),
                *(f"{c[name]:.1e}" for name in ("weakest", "price", "margin", "spread")),
                tables.number(c["identifiable"], 2),
            ]
        )
    return tables.markdown(header, rows)
