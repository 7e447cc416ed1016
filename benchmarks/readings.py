"""Readings of the paper's objective: with which do its coefficients keep and drop edges?

    python -m benchmarks.readings run --out readings.sqlite
    python -m benchmarks.readings table readings.sqlite

The paper writes risk + λ (number of edges) and gives λ, but not how the two are averaged. A reading
is a pair of averages: over targets, samples and gates. Only the price of an edge in units of the
standardised mean squared error of its target matters, so one program serves all readings. The paper
does not say either where gates start. Two starts are tried: open, the library's, and undecided,
where a gate is as likely to be kept as not. Systems have no noise and are sampled as in dysts, the
lag is 0, and settings are those of the paper's two benchmarks (`L0NDDE.paper`, `FitConfig.paper`).
The methods `unit_…` of `benchmarks.causal_dynamics` are readings on its graphs, beside the
published rows.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import diffrax
import jax.random as jr
import numpy as np
from jaxtyping import Float

import ndde_jax as ndde

from . import tables
from ._small import command, fill
from ._store import Store, Unit

BENCHMARK = "readings"
SYSTEMS = ("Lorenz", "Rossler", "SprottB", "Thomas", "GenesioTesi", "Rucklidge")
# Samples, discarded samples before them, and solver steps per sample.
SAMPLES, FORGOTTEN, SUBSTEPS = 1000, 500, 5


class Reading(NamedTuple):
    """An objective, and the price of an edge that follows from it."""

    objective: str
    price: Callable[[float, int, int, int], float]


# The price from λ and the numbers of variables, of candidate inputs of each, and of samples in a
# batch.
READINGS: Mapping[str, Reading] = {
    "all edges, mean risk": Reading("mean_j risk_j + λ Σ_ij z_ij", lambda c, d, f, b: c * d),
    "edges of a target": Reading("Σ_j (risk_j + λ Σ_i z_ij)", lambda c, d, f, b: c),
    "mean over gates": Reading("Σ_j (risk_j + λ mean_i z_ij)", lambda c, d, f, b: c / f),
    "summed risk, mean over all gates": Reading(
        "Σ_j risk_j + λ mean_ij z_ij", lambda c, d, f, b: c / (d * f)
    ),
    "summed over the batch": Reading("Σ_k Σ_j error² + λ Σ_ij z_ij", lambda c, d, f, b: c / b),
}


# log_alpha of all gates before training.
STARTS: Mapping[str, float] = {"open": 2.0, "undecided": 0.0}


class Setup(NamedTuple):
    """One of the paper's two benchmarks: its coefficient, and its training settings."""

    coefficient: float
    changes: dict


# The library's plateau test, on means of 50 steps instead of single batches.
SMOOTHED = dict(epoch_steps=50, smoothing=0.7, improvement=1e-3)
SETUPS: Mapping[str, Setup] = {
    "causal_dynamics": Setup(0.025, SMOOTHED),
    # The paper's gradient penalty, read as one on the Jacobian, which makes functions Lipschitz.
    "causal_dynamics, Jacobian": Setup(0.025, SMOOTHED | dict(gradient_penalty_variant="jacobian")),
    "dysts": Setup(0.05, SMOOTHED | dict(gradient_penalty=None, warmup_steps=0)),
    # The paper's patience, counted from step to step, smoothed over about three.
    "dysts, step by step": Setup(
        0.05, SMOOTHED | dict(gradient_penalty=None, warmup_steps=0, epoch_steps=1)
    ),
}


def sampled(name: str) -> Float[np.ndarray, "time dim"]:
    """A trajectory on the attractor, without noise."""
    system = ndde.systems.get(name)
    path = ndde.solve_sdde(
        system,
        n_steps=(SAMPLES + FORGOTTEN) * SUBSTEPS,
        dt=system.sampling_step / SUBSTEPS,
        save_every=SUBSTEPS,
        solver=diffrax.Tsit5(),
    )
    return np.asarray(path.ys)[FORGOTTEN:]


def score(
    setup: str, reading: str, start: str, system: str, seed: int, **changes
) -> dict[str, float]:
    """Fit one system by one reading and compare its graph with the true one."""
    true = np.asarray(ndde.systems.get(system).graph)[:, :, 0]
    windows = ndde.lagged_windows(sampled(system), dt=ndde.systems.get(system).sampling_step)
    chosen = SETUPS[setup]
    config = ndde.FitConfig.paper(**({"scores": "phase"} | chosen.changes | changes))
    price = _price(setup, reading, windows.dim, config.batch_size)
    # The λ of `unit="mean"` is F times the price of an edge.
    method = dataclasses.replace(
        ndde.L0NDDE.paper(price * windows.dim * windows.n_lags),
        log_alpha=STARTS[start],
        unit="mean",
    )
    found = ndde.fit(method, windows, config, key=jr.key(seed))
    graph = np.asarray(ndde.window_graph(found))[:, :, 0]
    scores = np.asarray(ndde.edge_scores(found))[:, :, 0]
    return {
        "price": price,
        "kept": float(graph.sum()),
        "true": float(true.sum()),
        "wrong": float((graph != true).mean()),
        "dense": float((~true).mean()),
        "auroc": float(ndde.metrics.auroc(scores, true)),
        "risk": float(np.asarray(found.risk).mean()),
        "steps": float(found.steps),
        "limit": float(found.outcome == "stopped"),
    }


METHODS = {f"{r}, {s}": (r, s) for r in READINGS for s in STARTS}


def _price(setup: str, reading: str, dim: int, batch: int) -> float:
    return READINGS[reading].price(SETUPS[setup].coefficient, dim, dim, batch)


def run(out: Path, *, systems: Sequence[str], seeds: int, setups: Sequence[str]) -> None:
    """Fit every reading on every system into one file; existing results are not computed again."""

    def fitted(unit: Unit, store: Store) -> dict[str, float]:
        return score(unit.category, *METHODS[unit.method], unit.graph, unit.seed)

    fill(out, _units(systems, seeds, setups), _settings, fitted)


def _settings(unit: Unit) -> str:
    chosen, (reading, start) = SETUPS[unit.category], METHODS[unit.method]
    settings = (SAMPLES, FORGOTTEN, SUBSTEPS, chosen.coefficient, sorted(chosen.changes.items()),
                READINGS[reading].objective, STARTS[start])  # fmt: skip
    return repr(settings)


def _units(systems, seeds, setups):
    for setup in setups:
        for system in systems:
            for seed in range(seeds):
                for method in METHODS:
                    yield Unit(BENCHMARK, setup, system, 0, method, seed)


def table(store: Store) -> str:
    """Return a table of means over systems and seeds, with the readings of a setup together."""
    found = defaultdict(lambda: defaultdict(list))
    for row in store.rows(BENCHMARK):
        found[row.category, row.method][row.metric].append(row.value)
    header = ["setup", "objective", "gates start", "price of an edge", "kept", "SHD / D²", "AUROC",
              "risk", "steps"]  # fmt: skip
    lines = []
    for setup in SETUPS:
        for start in STARTS:
            names = [name for name, method in METHODS.items() if method[1] == start]
            mine = [(name, found[setup, name]) for name in names if (setup, name) in found]
            for name, values in sorted(mine, key=lambda pair: -tables.mean(pair[1]["price"])):
                mean = {key: tables.mean(v) for key, v in values.items()}
                lines.append([
                    setup, READINGS[METHODS[name][0]].objective, start, f"{mean['price']:.2g}",
                    f"{mean['kept']:.1f} of {mean['true']:.1f}", _with_error(values["wrong"]),
                    tables.number(mean["auroc"]), f"{mean['risk']:.3f}", f"{mean['steps']:.0f}",
                ])  # fmt: skip
        everything = [values for (which, _), values in found.items() if which == setup]
        if everything:
            values = everything[0]
            lines.append([
                setup, "every edge kept", "-", "0", f"9.0 of {tables.mean(values['true']):.1f}",
                tables.number(tables.mean(values["dense"])), "-", "-", "-",
            ])  # fmt: skip
    return tables.markdown(header, lines, text_columns=3)


def _with_error(values: Sequence[float]) -> str:
    """A mean, and its standard error over systems and seeds."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{tables.number(tables.mean(values))} ± {tables.number(float(error))}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command `run` or `table`."""
    command(
        arguments, name="readings", description=__doc__, option="setup", choices=tuple(SETUPS),
        systems=SYSTEMS, seeds=1, run=run, table=table,
    )  # fmt: skip


if __name__ == "__main__":
    main()
