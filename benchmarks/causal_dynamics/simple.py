"""The simple tier: one system of dysts per graph, its variables are the nodes."""

from collections.abc import Iterator

import jax.random as jr
import numpy as np

from . import networks
from .recipes import Arrays, Note, Recipe, bounded, file_of, key_of, stream, without
from .trajectories import (
    SAMPLES_PER_PERIOD,
    corrected_graph,
    flow,
    published_graph,
    random_series,
    systems_with_jacobian,
)

# A system is omitted if this multiple of the number of series gives too few finite ones.
_ROUNDS = 5


def graphs(
    category: str, recipe: Recipe, *, n_graphs: int, seed: int, n_series: int, note: Note
) -> Iterator[tuple[str, Arrays]]:
    """Yield names and files of the systems, in an order that depends on the seed."""
    names = systems_with_jacobian()
    order = np.random.default_rng(stream(seed, category, "order")).permutation(len(names))
    made = 0
    for name in (names[i] for i in order):
        if made == n_graphs:
            return
        arrays = _simple_graph(name, category, recipe, seed, n_series, note)
        if arrays is not None:
            made += 1
            yield f"{category.replace('/', '_')}_{name}", arrays
    if made < n_graphs:
        note(f"{category}: {made} graphs, all there are")


def _simple_graph(name, category, recipe, seed, n_series, note) -> Arrays | None:
    published, later, true = (
        published_graph(name),
        published_graph(name, (1.1, 1.2, 1.3)),
        corrected_graph(name),
    )
    hidden = networks.hidden_variable(published, tier="simple") if recipe.hidden else None
    published, later, true = without(hidden, published, later, true)
    if all(graph.all() or not graph.any() for graph in (published, true)):
        note(f"{category}: {name} left out, its graph is complete or empty")
        return None
    x, n_rejected = _finite_series(name, key_of(stream(seed, category, name)), n_series, recipe)
    if len(x) < n_series:
        note(f"{category}: {name} left out, {len(x)} of {len(x) + n_rejected} series are finite")
        return None
    if hidden is not None:
        x = np.delete(x, hidden, axis=2)
    return file_of(
        category,
        seed,
        x,
        published,
        name=name,
        adjacency_true=true,
        adjacency_v1=later,
        adjacency_raw=published.T,
        raw_orientation="target_source",
        dt=flow(name).period / SAMPLES_PER_PERIOD,
        lags=np.zeros(0, int),
        noise=recipe.noise,
        time_lag=0,
        standardize=False,
        dropped_variable=-1 if hidden is None else hidden,
        n_rejected=n_rejected,
    )


def _finite_series(name, key, n_series, recipe) -> tuple[np.ndarray, int]:
    """Return the first finite series, and the number of series rejected before."""
    kept, n_rejected = [], 0
    for attempt in range(_ROUNDS):
        keys = jr.split(jr.fold_in(key, attempt), n_series)
        for series in random_series(name, keys, noise=recipe.noise):
            if len(kept) < n_series:
                fine = bounded(series)
                kept += [series] if fine else []
                n_rejected += not fine
        if len(kept) == n_series:
            break
    return np.array(kept), n_rejected
