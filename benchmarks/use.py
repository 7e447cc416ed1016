"""Uses of a graph, scored against the truth: `python -m benchmarks.use run|table`.

`run` discovers the systems of `benchmarks.delays` from fresh seeds, and networks that are in no
other table. It then forecasts an independent run, compares effects with those of the true drift,
and holds a variable in the learned and in the true system. `table` prints how often that was right.
"""

import argparse
import dataclasses
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

import ndde_jax as ndde

from . import tables
from ._arguments import add_machines, carry_out, existing_store, positive
from ._runner import program, run_tasks
from ._store import Record, Store, Unit
from ._truths import effect_scores, intervention_scores, share_scores
from .delays.data import another_run, simulate
from .delays.runner import choose
from .delays.settings import Specification

BENCHMARK = "use"
# Far from the seeds on which anything was decided.
FRESH = 2000
# Steps of the lag grid ahead.
AHEAD = (1, 2, 5, 10, 20)
RIVALS = ("persistence", "climatology", "VAR", "PySINDy")
# Number of origins, whose horizons do not overlap, and of paths from each.
ORIGINS, PATHS = 36, 100
# Networks of no other table: units, delays, seed.
NEW = tuple(
    Specification(f"random_{size}_{n_delays}_{100 + size + 10 * n_delays}", "low", 4000)
    for size in range(2, 8)
    for n_delays in (1, 2, 3)
)


@dataclass(frozen=True)
class Task:
    """One system and all tests of its discovery."""

    spec: Specification
    group: str
    seed: int
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        spec = self.spec
        return Unit(BENCHMARK, self.group, spec.name, spec.series, "discover", self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks share."""
        return json.dumps({"ahead": AHEAD, "origins": ORIGINS, "paths": PATHS})

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception becomes a status."""
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(task.spec.name.encode()))
    start, metrics = time.perf_counter(), {"failed": 1.0}
    try:
        series = simulate(task.spec, task.seed)
        found = ndde.discover(series.x, dt=series.dt, lags=series.lags, key=key)
        status = str(found.verdict)
        metrics |= forecast_scores(found, task, jr.fold_in(key, 1))
        metrics |= effect_scores(found, series) | share_scores(found, series)
        metrics |= intervention_scores(found, series, jr.fold_in(key, 2)) | {"failed": 0.0}
    except Exception as error:
        status = f"error: {type(error).__name__}: {error}"
    return [Record(task.unit, metrics, status[:300], time.perf_counter() - start, {})]


def forecast_scores(found: ndde.Discovery, task: Task, key) -> dict[str, float]:
    """Return the coverage of 90 % intervals and CRPS by steps of the lag grid, on an independent
    run.
    """
    step = found.lags[1] - found.lags[0]
    at = tuple(step * k for k in AHEAD)
    made = found.backtest(
        at[-1],
        # Times are needed, since a season may have been found.
        data=ndde.read_samples(another_run(task.spec, task.seed, 1), dt=found.dt),
        origins=min(ORIGINS, task.spec.length // at[-1]),
        paths=PATHS,
        rivals=RIVALS,
        at=at,
        key=key,
    )
    scores = {}
    for k, ahead in enumerate(AHEAD):
        scores[f"coverage {ahead}"] = float(made.coverage[0, k].mean())
        if not made.beyond.all():
            within = made.inside[0, ~made.beyond, k].mean()
            scores[f"within {ahead}"] = float(within)
        for m, method in enumerate(made.methods):
            scores[f"crps {method} {ahead}"] = float(made.crps[m, k].mean())
    for rival in RIVALS:
        better, error = made.against(rival)
        scores |= {f"better {rival} {a}": float(b) for a, b in zip(AHEAD, better, strict=True)}
        scores |= {f"error {rival} {a}": float(e) for a, e in zip(AHEAD, error, strict=True)}
    return scores


def table(store: Store) -> str:
    """Return Markdown: forecasts, effects, shares and interventions, by group of systems."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    ended: dict[tuple[str, str], str] = {}
    for row in store.rows(BENCHMARK):
        found.setdefault(row.category, {}).setdefault(row.graph, {})[row.metric] = row.value
        ended[row.category, row.graph] = row.status
    if not found:
        raise ValueError(f"{store.path} holds no results of {BENCHMARK}; run it first.")
    groups = {name: list(systems.values()) for name, systems in sorted(found.items())}
    statuses = ", ".join(f"{status} {n}" for status, n in Counter(ended.values()).most_common())
    return "\n\n".join([_forecasts(groups), _effects(groups), f"Statuses: {statuses}."])


def _forecasts(groups) -> str:
    header = ["systems", "steps", "n", "coverage", ".8 to 1", "within", ".8 to 1"]
    header += [f"CRPS / {rival}" for rival in RIVALS]
    header += [f"worse than {rival}" for rival in RIVALS]
    rows = []
    for name, systems in groups.items():
        for ahead in AHEAD:
            own, cells = _values(systems, f"crps ndde_jax {ahead}"), []
            for of in ("coverage", "within"):
                inside = _values(systems, f"{of} {ahead}")
                good = (inside >= 0.8) & (inside <= 1)
                cells.append(tables.number(_mean(inside), 3))
                cells.append(tables.number(_mean(good)))
            for rival in RIVALS:
                theirs = _values(systems, f"crps {rival} {ahead}")
                cells.append(tables.number(np.exp(np.mean(np.log(own / theirs))), 3))
            for rival in RIVALS:
                better = _values(systems, f"better {rival} {ahead}")
                error = _values(systems, f"error {rival} {ahead}")
                cells.append(str(int((better < -2 * error).sum())))
            rows.append([name, str(ahead), str(len(own)), *cells])
    return tables.markdown(header, rows, text_columns=1)


def _effects(groups) -> str:
    """Return sums over systems: the number of cases, and how many are right."""
    parts = {
        "sign of clear slopes": ("sign right", "clear"),
        "slope in its interval": ("slope covered", "kept"),
        "curve within .1 of its range": ("curve good", "curves"),
        "curve in its interval": ("curve covered", "curves"),
        "found in 90 % of halves, true": ("often true", "often"),
        "true, found in 90 % of halves": ("truth often", "truth"),
        "sign of clear effects of holding": ("held sign right", "held clear"),
        "effect of holding in its interval": ("held covered", "held"),
    }
    rows = []
    for name, systems in groups.items():
        for label, (right, of) in parts.items():
            n = np.nansum(_values(systems, of))
            share = np.nansum(_values(systems, right)) / n if n else np.nan
            rows.append([name, label, f"{n:.0f}", tables.number(share, 3)])
    return tables.markdown(["systems", "what", "of", "share"], rows, text_columns=2)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def _values(systems, name: str) -> np.ndarray:
    """Return the values of the systems that have them."""
    return np.array([m[name] for m in systems if m.get(name) is not None], float)


def run(
    groups: dict[str, Sequence[Specification]], store: Store, *, seed: int = FRESH, workers=1
) -> None:
    """Run the tasks that the store does not hold yet."""
    tasks = [Task(spec, group, seed) for group, specs in groups.items() for spec in specs]
    run_tasks(tasks, evaluate, store, workers=workers)


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    return carry_out(_parser(), arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.use")
    actions = parser.add_subparsers(required=True, metavar="run|table")
    running = actions.add_parser("run", help="discover and use; resumes an interrupted run")
    running.set_defaults(action=_run)
    running.add_argument("--out", type=Path, required=True, metavar="FILE", help="SQLite results")
    running.add_argument("--only", metavar="PATTERN", help="systems whose name contains this")
    running.add_argument("--limit", type=positive, metavar="N", help="at most N of either group")
    running.add_argument("--new", action="store_true", help="networks of no other table too")
    running.add_argument("--smoke", action="store_true", help="three tiny tasks")
    running.add_argument("--seed", type=int, default=FRESH)
    add_machines(running)
    showing = actions.add_parser("table", help="print the tables as Markdown")
    showing.set_defaults(action=_table)
    showing.add_argument("results", type=Path)
    return parser


def _run(options) -> int:
    known = choose(categories=("low",), only=options.only, limit=options.limit, smoke=options.smoke)
    groups: dict[str, Sequence[Specification]] = {"delays": known}
    if options.new:
        groups["new"] = NEW[: options.limit]
    with Store(options.out) as store:
        run(groups, store, seed=options.seed, workers=options.workers)
    return 0


def _table(options) -> int:
    with existing_store(options.results) as store:
        print(table(store))
    return 0


if __name__ == "__main__":
    sys.exit(program(main))
