"""Run methods on records with one fault, and on their clean twins."""

import dataclasses
import fnmatch
import json
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax.random as jr
import numpy as np

from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from .data import DIM, KINDS, LAGS, LENGTH, Case, dirty, twin
from .methods import METHODS, Answer

BENCHMARK, TWIN = "dirty", "twin"


@dataclass(frozen=True)
class Task:
    """One method on one kind, or on the clean twin, of one seed."""

    kind: str
    method: str
    seed: int
    finished: bool = False

    @property
    def unit(self) -> Unit:
        """The key of the task in the store."""
        return Unit(BENCHMARK, "network", self.kind, 0, self.method, self.seed)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The one unit, unless it is done."""
        return () if self.finished else (self.unit,)

    @property
    def settings_text(self) -> str:
        """The settings that all tasks share."""
        return json.dumps({"dim": DIM, "lags": LAGS, "length": LENGTH}, sort_keys=True)

    def without(self, done: set[Unit]) -> "Task":
        """The task, finished if its unit is done."""
        return dataclasses.replace(self, finished=self.unit in done)


def choose(only: str | None = None, limit: int | None = None) -> list[str]:
    """Return kinds by text or shell pattern, at most `limit`.

    **Raises:** `ValueError` if nothing is left.
    """
    kept = [kind for kind in KINDS if only is None or fnmatch.fnmatch(kind, f"*{only}*")][:limit]
    if not kept:
        raise ValueError(f"no kind matches {only!r}; there are: {', '.join(KINDS)}.")
    return kept


def run(
    kinds: Iterable[str],
    methods: Sequence[str],
    store: Store,
    *,
    seeds: Sequence[int] = (0,),
    workers: int | str = 1,
    retry_errors: bool = False,
    progress: bool = True,
) -> None:
    """Run the tasks that the store does not hold yet; the twin of every seed first."""
    tasks = [
        Task(kind, method, seed) for method in methods for seed in seeds for kind in (TWIN, *kinds)
    ]
    run_tasks(
        tasks,
        evaluate,
        store,
        workers=workers,
        retry_errors=retry_errors,
        progress=progress,
    )


def evaluate(task: Task) -> list[Record]:
    """Compute one task. An exception of the method becomes a status: a refusal if it is a
    `ValueError`.
    """
    case = twin(task.seed) if task.kind == TWIN else dirty(task.kind, task.seed)
    key = jr.fold_in(jr.key(task.seed), zlib.crc32(task.kind.encode()))
    start, status = time.perf_counter(), "ok"
    try:
        found = METHODS[task.method](case.x, LAGS, key=key, **case.options)
    except ValueError as error:
        found, status = _nothing(case), f"refused: {error}"
    except Exception as error:
        found, status = _nothing(case), f"error: {type(error).__name__}: {error}"
    metrics = scored(found, case)
    metrics["refused"] = float(status.startswith("refused"))
    seconds = time.perf_counter() - start
    arrays = {"graph": found.graph, "truth": case.graph}
    text = status if status != "ok" else "; ".join(found.names)[:300] or "ok"
    return [Record(task.unit, metrics, text, seconds, arrays)]


def _nothing(case: Case) -> Answer:
    return Answer(np.zeros_like(case.graph), verdict=2)


def scored(found: Answer, case: Case) -> dict[str, float]:
    """Return false and true edges, at exact lags and between sources and targets, and whether a
    finding names the fault.
    """
    graph, truth = found.graph, case.graph
    summary, true_summary = graph.any(axis=2), truth.any(axis=2)
    return {
        "edges": float(graph.sum()),
        "true": float((graph & truth).sum()),
        "false": float((graph & ~truth).sum()),
        "truth": float(truth.sum()),
        "summary_edges": float(summary.sum()),
        "summary_true": float((summary & true_summary).sum()),
        "summary_truth": float(true_summary.sum()),
        "named": float(any(name in found.names for name in case.names)),
        "reasons": float(found.reasons),
        "findings": float(len(found.names)),
        "verdict": float(found.verdict),
    }
