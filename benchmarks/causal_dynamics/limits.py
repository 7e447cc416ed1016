"""The best possible scores, which are below 1 where labels and data disagree."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from benchmarks import tables
from benchmarks.linear import nested_comparisons
from ndde_jax import metrics

from . import networks
from .data import read_graph, standardise
from .recipes import RECIPES, stream, without
from .trajectories import corrected_graph, published_graph, systems_with_jacobian

Adjacency = Bool[np.ndarray, "source target"]
# Harmonics of the calendar year in the model that made the ENSO series.
HARMONICS = 2
# Smallest −log p at which an edge of that model counts as found.
SIGNIFICANT = -np.log(0.05)


def copies(edges: Adjacency) -> Int[np.ndarray, " node"]:
    """Return one number per group of nodes with the same state.

    A node with a single parent is a linear image of its parent, and vice versa: all such neighbours
    are one state in different coordinates, and data do not show which came first.
    """
    group = np.arange(len(edges))
    for child in np.flatnonzero(edges.sum(axis=0) == 1):
        group[group == group[child]] = group[np.flatnonzero(edges[:, child])[0]]
    return group


def visible_edges(edges: Adjacency, hidden: int | None) -> Adjacency:
    """Return the visible edges if a node is hidden: its parents drive its children, since maps of
    maps are maps.
    """
    if hidden is None:
        return edges
    return edges | np.outer(edges[:, hidden], edges[hidden])


def averaged(graph: Adjacency, group: Int[np.ndarray, " node"]) -> Float[np.ndarray, "node node"]:
    """The mean of a graph over all orders of the nodes in each group."""
    same = group[:, None] == group[None]
    own = np.eye(len(graph), dtype=bool)
    mean = np.zeros(graph.shape)
    for i, j in np.ndindex(graph.shape):
        alike = same[i][:, None] & same[j][None]
        mean[i, j] = graph[alike & (own if i == j else ~own)].mean()
    return mean


def best_ranking(
    network: networks.Network, *, hide: bool, past: bool = False
) -> tuple[np.ndarray, Adjacency]:
    """Return scores of a ranking that knows everything except the order within groups of `copies`,
    and the labels for them. With `past` it takes the earlier variable for the cause, like all
    methods based on prediction, and so reverses edges whose causes lie in the future.
    """
    edges, labels = networks.without_self_loops(network), networks.summary(network)
    hidden = networks.hidden_variable(labels, tier="coupled") if hide else None
    group = copies(edges)
    turned = edges if not past or network.lagged is None else network.regular | network.lagged.T
    visible = visible_edges(turned, hidden)
    visible = visible | np.diag(~edges.any(axis=0))
    visible, labels = without(hidden, visible, labels)
    if hidden is not None:
        group = np.delete(group, hidden)
    return averaged(visible, group), labels


def coupled_limit(
    category: str, *, n_graphs: int, n_nodes: int, seed: int = 0, past: bool = False
) -> list[float]:
    """Return mean AUROC, AUPRC and errors of the best ranking, and AUROC and AUPRC of self-edges,
    over random networks.
    """
    recipe, found = RECIPES[category], []
    for index in range(n_graphs):
        rng = np.random.default_rng(stream(seed, category, index))
        network = networks.random_network(
            n_nodes, rng, confounded=recipe.hidden, lagged=recipe.lagged
        )
        scores, labels = best_ranking(network, hide=recipe.hidden, past=past)
        if labels.any() and not labels.all():
            found.append(_beside_guess(scores, labels))
    return np.mean(found, axis=0).tolist()


def up_to_coordinates(labels: Adjacency, *, own: float = 0.0) -> Float[np.ndarray, "node node"]:
    """Return the best ranking of edges among variables that are all driven by one hidden variable.

    In x' = f(x, y, z), y' = g(x, y, z) any other coordinate can replace the hidden z: with f itself
    as z, x' = z depends on neither x nor y. Data show the relation of x, y, x' and y' that remains
    when z is eliminated: which sources act, not on what. A positive `own` breaks these ties by the
    guess that variables act on themselves rather than on others.
    """
    return labels.any(axis=1, keepdims=True) * (1 + own * np.eye(len(labels)))


def hidden_limits() -> dict[str, list[float]]:
    """Return the limits of `coupled_limit` over the systems of simple/confounder with their correct
    graphs: from what data can show; from this and the guess that own effects are more common; from
    this and the frequencies of the edges in all other systems that show the same.
    """
    whole, parts = [], []
    for name in systems_with_jacobian():
        hidden = networks.hidden_variable(published_graph(name), tier="simple")
        (labels,) = without(hidden, corrected_graph(name))
        if labels.any() and not labels.all():
            (whole if hidden is None else parts).append(labels)
    rankings = {
        "": up_to_coordinates,
        ", own effects first": lambda labels: up_to_coordinates(labels, own=0.5),
        ", frequencies known": lambda labels: _frequencies(labels, parts),
    }
    known = [_beside_guess(labels, labels) for labels in whole]
    return {
        name: np.mean(known + [_beside_guess(rank(x), x) for x in parts], axis=0).tolist()
        for name, rank in rankings.items()
    }


def _frequencies(labels: Adjacency, among: list[Adjacency]) -> Float[np.ndarray, "node node"]:
    """Return how often the edges exist in the other graphs of the same `up_to_coordinates`."""
    shown = up_to_coordinates(labels)
    alike = [x for x in among if x is not labels and np.array_equal(up_to_coordinates(x), shown)]
    return np.mean(alike, axis=0) if alike else shown


def seasonal_regression(x: Float[np.ndarray, "time dim"], *, period: float = 12):
    """Return scores [source, target] by the kind of model that made the ENSO series, linear with a
    seasonal cycle: −log p of the F-test that a source acts in no season.
    """
    n, dim = len(x) - 1, x.shape[1]
    phase = 2 * np.pi * np.arange(n)[:, None] / period * np.arange(1, HARMONICS + 1)
    cycle = np.concatenate([np.ones((n, 1)), np.cos(phase), np.sin(phase)], axis=1)
    design = np.concatenate([cycle, *(x[:-1, [i]] * cycle for i in range(dim))], axis=1)
    source = np.repeat(np.arange(-1, dim), cycle.shape[1])
    return -nested_comparisons(design, source, np.diff(x, axis=0))[1]


def observed(
    labels: Adjacency, varies: Bool[np.ndarray, " node"]
) -> Float[np.ndarray, "node node"]:
    """Return the correct graph where data can show it; edges of constants share their mean."""
    known = varies[:, None] & varies[None]
    return np.where(known, labels, 0.0 if known.all() else labels[~known].mean())


def law_table(*, n_graphs: int, n_nodes: int, seed: int = 0) -> str:
    """Return limits that follow from the laws of the networks."""
    header = ["category", "AUROC", "AUPRC", "SHD", "self-edges", "AUPRC"]
    body, size = [], dict(n_graphs=n_graphs, n_nodes=n_nodes, seed=seed)
    for name, limit in hidden_limits().items():
        body.append([f"simple/confounder{name}", *_cells(limit)])
    for category, recipe in RECIPES.items():
        if category.startswith("coupled/"):
            for past in (False, True) if recipe.lagged else (False,):
                limit = coupled_limit(category, **size, past=past)
                name = f"{category}, by the past" if past else category
                body.append([name, *_cells(limit)])
    return tables.markdown(header, body)


def _cells(limit: Sequence[float]) -> list[str]:
    """Return AUROC, AUPRC, errors, and if given AUROC and AUPRC of self-edges."""
    return [tables.number(value, 1 if k == 2 else 3) for k, value in enumerate(limit)]


def data_table(files: Iterable[Path]) -> str:
    """Return mean scores against the labels of these files: of the correct graph, of the correct
    graph without edges of constant variables, and of the true kind of model fitted to ENSO series.
    """
    rows: dict[tuple[str, str], list[Sequence[float]]] = {}
    for file in files:
        graph = read_graph(file)
        published, corrected = graph.labels["published"], graph.labels.get("corrected")
        if published.all() or not published.any():
            continue
        if corrected is not None:
            rows.setdefault((graph.category, "right graph"), []).append(
                _judged(corrected, published)
            )
        varies = np.any(np.ptp(graph.series, axis=1) > 0, axis=0)
        if not varies.all():
            best = observed(published if corrected is None else corrected, varies)
            rows.setdefault((graph.category, "right graph, constants unknown"), []).append(
                _judged(best, published)
            )
        if graph.category == "climate/enso":
            fits = [seasonal_regression(x) for x in standardise(graph.series)]
            scores = [_judged(fit, published, least=SIGNIFICANT) for fit in fits]
            rows.setdefault((graph.category, "true kind of model"), []).append(
                np.mean(scores, axis=0)
            )
    body = [
        [*key, str(len(values)), *_cells(np.mean(values, axis=0))]
        for key, values in sorted(rows.items())
    ]
    header = ["category", "answer", "graphs", "AUROC", "AUPRC", "SHD"]
    return tables.markdown(header, body, text_columns=2)


@jax.jit
def _both(scores, labels):
    return metrics.auroc(scores, labels), metrics.auprc(scores, labels)


def _beside_guess(scores, labels) -> list[float]:
    """Return scores of a ranking and its errors, and the scores of self-edges."""
    return [*_judged(scores, labels), *_ranked(np.eye(len(labels)), labels)]


def _judged(scores, labels, least: float = 0.5) -> list[float]:
    """Return scores of a ranking, and errors in ten series of edges with scores above `least`."""
    return [*_ranked(scores, labels), 10.0 * np.sum((scores > least) != labels)]


def _ranked(scores, labels) -> list[float]:
    return [float(score) for score in _both(np.asarray(scores, float), labels)]
