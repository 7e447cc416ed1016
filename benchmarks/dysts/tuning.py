"""The paper's choice of a recipe: one setting after another, by the valid prediction time."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import tables
from benchmarks._runner import run_tasks
from benchmarks._store import Record, Store, Unit

from .methods import learned
from .runner import Task, evaluate_with, killed
from .settings import Recipe, beyond_grid, grid, recipes

BENCHMARK = "dysts-tuning"


@dataclasses.dataclass(frozen=True)
class Trial(Task):
    """A recipe with changed settings, on one system."""

    recipe: Recipe = dataclasses.field(kw_only=True)

    @property
    def unit(self) -> Unit:
        """The key of the task in the store; its name contains the tuned settings."""
        told = (f"{key}={getattr(self.recipe, key):g}" for key in tuned_keys(self.recipe))
        name = " ".join([self.method, *told])
        return Unit(BENCHMARK, self.category, self.path.stem, 0, name, self.seed)


def evaluate(trial: Trial) -> list[Record]:
    """Return scores of one trial."""
    return evaluate_with(functools.partial(learned, trial.recipe), trial)


def tuned_keys(recipe: Recipe) -> list[str]:
    """Return settings of the grid that a recipe uses, the coefficient first."""
    keys = [] if recipe.penalty == "node" else ["coefficient"]
    if recipe.fit == "paper":
        keys += ["gradient_penalty", "warmup_steps", "refine_steps"]
    return keys


def tune(
    method: str,
    files: Sequence[Path],
    store: Store,
    *,
    keys: Sequence[str] | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: bool = True,
) -> str:
    """Search the paper's grid, one setting at a time, each with the best of those before.

    All 1080 combinations would be 5400 fits a method; this is 24 times 5. The best value has the
    largest valid prediction time in Lyapunov times, the mean over systems; the first of equally
    good ones is chosen. If it is an end of the grid, values beyond it are tried too. Trials are in
    the store, so a stopped search can be resumed.

    **Returns:** a Markdown table of all trials, and the choice in the form of `settings.toml`.

    **Raises:** `ValueError` if the method has no recipe, or nothing to tune.
    """
    known = recipes()
    if method not in known:
        raise ValueError(f"unknown recipe {method}; known: {', '.join(known)}.")
    recipe, possible = known[method], tuned_keys(known[method])
    keys = possible if keys is None else list(keys)
    if not keys or set(keys) - set(possible):
        raise ValueError(
            f"{method} has {', '.join(possible) or 'nothing'} to tune; got {', '.join(keys)}."
        )
    body = []
    for key in keys:
        times: dict[float, float] = {}

        def tried(values, key=key, recipe=recipe, times=times):
            """The best value so far, the first of equally good ones."""
            for value in values:
                one = dataclasses.replace(recipe, **{key: value})
                times[value] = _valid_prediction_time(
                    method, one, files, store, seed, workers, progress
                )
            return max(times, key=lambda value: np.nan_to_num(times[value], nan=-math.inf))

        values = grid()[key]
        best = tried(values)
        further = beyond_grid().get(key, [])
        if best == min(values):
            best = tried([value for value in further if value < best])
        elif best == max(values):
            best = tried([value for value in further if value > best])
        recipe = dataclasses.replace(recipe, **{key: best})
        for value, time in sorted(times.items()):
            mark = " ←" if value == best else ""
            body.append([key, f"{value:g}{mark}", tables.number(time, 2)])
    chosen = "\n".join(f"{key} = {getattr(recipe, key):g}" for key in keys)
    return f"{tables.markdown([method, 'value', 'VLPT'], body)}\n\n{chosen}"


def _valid_prediction_time(method, recipe, files, store, seed, workers, progress) -> float:
    text = recipe.to_json()
    trials = [Trial(path, method, seed, "tuning", text, recipe=recipe) for path in files]
    run_tasks(trials, evaluate, store, killed=killed, workers=workers, progress=progress)
    rows = store.rows(BENCHMARK)
    name = trials[0].unit.method
    values = [r.value for r in rows if r.metric == "vlpt" and (r.method, r.seed) == (name, seed)]
    return float(np.mean([0.0 if v is None or math.isnan(v) else v for v in values]))
