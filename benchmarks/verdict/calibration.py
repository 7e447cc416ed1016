"""The reliability of verdicts, kind by kind: discover, judge against the truth, count."""

import dataclasses
import functools
import json
import math
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax.random as jr
import numpy as np

import ndde_jax as ndde

from .. import tables
from .._runner import run_tasks
from .._store import Record, Store, Unit
from ..world import data
from . import kinds
from .kinds import CLEAN, GROUPS, KINDS, PLANTS, UNMOVED, Case

BENCHMARK, METHOD = "verdict_kinds", "discover"
# Level of a confidence interval.
LEVEL = 0.95
# Findings about effects that are no links; on clean records they are alarms.
ALARMS = ("hidden driver", "links at once", "drifting link")
# The groups of records with a hidden driver.
HIDDEN = ("confounded", UNMOVED)
# Ranges of numbers of reservations that are counted together; more are always a problem.
RESERVATIONS = ((0, 0), (1, 1), (2, 3), (4, 7))


@dataclass(frozen=True)
class Task:
    """One record of a kind, or one plant of a directory."""

    group: str
    name: str
    seed: int
    number: int = 0
    directory: Path | None = None
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        return Unit(BENCHMARK, self.group, self.name, self.number, METHOD, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks share."""
        return json.dumps({"batch": kinds.BATCH, "lags": kinds.LAGS})

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def tasks(
    *, records: int, seed: int, only: str | None = None, directory: Path | None = None
) -> list[Task]:
    """Return tasks of `records` records of each kind whose name or group contains `only`, and of
    the plants of a directory.

    **Raises:** `ValueError` if nothing is left.
    """
    found = [
        Task(kind.group, name, seed, number)
        for name, kind in KINDS.items()
        for number in range(records)
    ]
    if directory is not None:
        found += [Task(PLANTS, name, seed, 0, directory) for name in data.plants(directory)]
    found = [task for task in found if only is None or only in f"{task.group} {task.name}"]
    if not found:
        raise ValueError(f"nothing matches {only!r}; there are: {', '.join(KINDS)}.")
    return found


def run(chosen: Sequence[Task], store: Store, *, workers: int | str = 1, progress=True) -> None:
    """Run the tasks that the store does not hold yet."""
    run_tasks(
        chosen,
        evaluate,
        store,
        kind=lambda task: (task.name, task.seed),
        workers=workers,
        progress=progress,
    )


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception becomes a status."""
    if task.directory is None:
        case, names = kinds.case(task.name, task.seed, task.number), KINDS[task.name].names
    else:
        case, names = kinds.plant(task.directory, task.name), ()
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(f"{task.name} {task.number}".encode()))
    start = time.perf_counter()
    try:
        found = ndde.discover(case.x, dt=case.dt, lags=case.lags, key=key)
        verdict, graph = found.verdict, np.asarray(found.graph)
    except Exception as error:
        seconds = time.perf_counter() - start
        return [Record(task.unit, {"verdict": -1.0}, f"error: {error}"[:300], seconds)]
    weighs = tuple(finding.name for finding in verdict.reasons)
    metrics = judged(graph, case) | {
        "verdict": float(tables.VERDICTS.index(str(verdict))),
        "named": float(bool(set(names) & set(weighs))) if names else math.nan,
        "alarms": float(bool(set(ALARMS) & set(weighs))) if not names else math.nan,
        "confounded": float(np.asarray(found.confounded).any()),
        "reservations": float(sum(finding.weight == "reservation" for finding in verdict.reasons)),
    }
    status = "; ".join(weighs)[:300] or "ok"
    return [Record(task.unit, metrics, status, time.perf_counter() - start)]


def judged(graph, case: Case) -> dict[str, float]:
    """Return the numbers of kept links, of true kept links and of true links, at their lags, or as
    pairs if only these are known; and whether a pair with a hidden driver has a link.
    """
    pairs = case.links.shape[2] == 1
    kept = (graph.any(axis=2, keepdims=True) if pairs else graph) & case.judged[..., None]
    truth = case.links & case.judged[..., None]
    return {
        "edges": float(kept.sum()),
        "true": float((kept & truth).sum()),
        "truth": float(truth.sum()),
        "false_pair": float((graph.any(axis=2) & case.hidden).any()),
    }


def table(store: Store) -> str:
    """Return Markdown: the reliability of verdicts by group, and the findings by kind.

    **Raises:** `ValueError` if the store holds no results.
    """
    found = results(store)
    groups = defaultdict(list)
    for unit, metrics in found.items():
        if metrics["verdict"] >= 0:
            groups[unit.category].append(metrics)
    rows = [_row(group, groups[group]) for group in GROUPS if groups[group]]
    clean = [one for group in CLEAN for one in groups[group]]
    told = [m for group in GROUPS if group != UNMOVED for m in groups[group]]
    together = {"nothing wrong": clean, f"all but {UNMOVED}" if groups[UNMOVED] else "all": told}
    rows += [_row(name, chosen) for name, chosen in together.items() if chosen]
    header = ["kind", "reports", "S", "R", "N"]
    header += ["edges in S", "true", "edges in R", "true", "of all true in S"]
    parts = [tables.markdown(header, rows), _by_reservations(told), _named(found)]
    return "\n\n".join(part for part in parts if part)


def results(store: Store) -> dict[Unit, dict[str, float]]:
    """Return metrics by unit.

    **Raises:** `ValueError` if there are none.
    """
    found: dict[Unit, dict[str, float]] = defaultdict(dict)
    for row in store.rows(BENCHMARK):
        unit = Unit(row.benchmark, row.category, row.graph, row.series, row.method, row.seed)
        found[unit][row.metric] = math.nan if row.value is None else row.value
    if not found:
        raise ValueError(f"{store.path} holds no verdicts by kind; run it first.")
    return found


def _row(name: str, reports: Sequence[dict[str, float]]) -> list[str]:
    by = [[m for m in reports if m["verdict"] == k] for k in range(len(tables.VERDICTS))]
    cells = [name, str(len(reports)), *(tables.number(len(one) / len(reports)) for one in by)]
    for chosen in by[:2]:
        kept, true = (int(sum(m[what] for m in chosen)) for what in ("edges", "true"))
        cells += [str(kept), with_limits(true, kept)]
    everything = sum(m["truth"] for m in reports)
    inside = sum(m["true"] for m in by[0])
    return [*cells, tables.number(inside / everything if everything else math.nan)]


def _by_reservations(reports: Iterable[dict[str, float]]) -> str:
    """Return the table of links by the number of reservations, for reports that are not refused;
    empty if reservations were not counted.
    """
    told = [m for m in reports if m["verdict"] in (0, 1) and "reservations" in m]
    rows = []
    for least, most in RESERVATIONS:
        chosen = [m for m in told if least <= m["reservations"] <= most]
        kept, true = (int(sum(m[what] for m in chosen)) for what in ("edges", "true"))
        name = str(least) if least == most else f"{least} to {most}"
        rows.append([name, str(len(chosen)), str(kept), with_limits(true, kept)])
    return tables.markdown(["reservations", "reports", "edges", "true"], rows) if told else ""


def _named(found: dict[Unit, dict[str, float]]) -> str:
    """Return the table of findings, by kind."""
    by_kind = defaultdict(list)
    for unit, metrics in found.items():
        if metrics["verdict"] >= 0:
            by_kind[unit.category, unit.graph].append(metrics)
    rows = []
    order = {group: place for place, group in enumerate(GROUPS)}
    for (group, name), chosen in sorted(by_kind.items(), key=lambda one: order[one[0][0]]):
        certified = sum(m["verdict"] == 0 and m["false_pair"] > 0 for m in chosen)
        rows.append(
            [
                group,
                name,
                _counted(m["named"] for m in chosen),
                _counted(m["alarms"] for m in chosen),
                _counted(m["confounded"] for m in chosen),
                with_limits(certified, len(chosen)) if group in HIDDEN else "-",
            ]
        )
    for hidden in HIDDEN:
        driven = [m for (group, _), c in by_kind.items() if group == hidden for m in c]
        if driven:
            certified = sum(m["verdict"] == 0 and m["false_pair"] > 0 for m in driven)
            named = _counted(m["named"] for m in driven)
            pairs = _counted(m["confounded"] for m in driven)
            told = with_limits(certified, len(driven))
            rows.append([hidden, "all of them", named, "-", pairs, told])
    clean = [m for (group, _), c in by_kind.items() if group in CLEAN for m in c]
    if clean:
        alarms, pairs = (_counted(m[what] for m in clean) for what in ("alarms", "confounded"))
        rows.append(["nothing wrong", "all of them", "-", alarms, pairs, "-"])
    header = ["group", "kind", "named", "alarms", "a pair called confounded", "S, false pair"]
    return tables.markdown(header, rows, text_columns=2)


def _counted(flags: Iterable[float]) -> str:
    known = [flag for flag in flags if not math.isnan(flag)]
    return with_limits(int(sum(known)), len(known)) if known else "-"


@functools.cache
def with_limits(part: int, whole: int) -> str:
    """Return a share with its limits by Wilson (1927) for independent cases: ".96 (.93–.98)"; `-`
    if there are none.
    """
    if not whole:
        return "-"
    from scipy.stats import binomtest

    limits = binomtest(part, whole).proportion_ci(LEVEL, method="wilson")
    low, high = tables.number(limits.low), tables.number(limits.high)
    return f"{tables.number(part / whole)} ({low}–{high})"
