"""Networks of the coupled tier: graph laws, static maps, and the published labels.

Only nodes without parents have dynamics. Every other node is, at each time, a sum of linear (or
activated) maps of the three components of its parents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

LAG_EDGE_PROBABILITY = 0.1
COMPONENTS = 3
ACTIVATIONS = (
    lambda z: z,
    np.sin,
    lambda z: 0.5 * (1 + np.tanh(z / 2)),  # the logistic function without overflow
    np.tanh,
    lambda z: np.maximum(z, 0),
)
IDENTITY = 0

Adjacency = Bool[np.ndarray, "source target"]


@dataclass(frozen=True)
class Network:
    """A graph with the weights of its maps.

    `lagged` is None without a time lag. With one, there are two blocks of nodes: the nodes now, and
    the same nodes one lag *later*; `regular` edges start in the first, `lagged` edges in the
    second. As in the benchmark, lagged causes therefore lie in the future.
    """

    regular: Adjacency
    lagged: Adjacency | None
    weights: Float[np.ndarray, "block_node 3 3"]
    biases: Float[np.ndarray, "block_node 3"]

    @property
    def edges(self) -> Bool[np.ndarray, "block_node target"]:
        """All edges; rows are the nodes now, then those one lag later."""
        return self.regular if self.lagged is None else np.concatenate([self.regular, self.lagged])

    @property
    def parentless(self) -> Bool[np.ndarray, "block_node"]:
        """A mask of the nodes without parents in their own block, whose values are inputs."""
        blocks = [self.regular] if self.lagged is None else [self.regular, self.lagged]
        return np.concatenate([~block.any(axis=0) for block in blocks])


def random_network(
    n_nodes: int, rng: np.random.Generator, *, confounded: bool = False, lagged: bool = False
) -> Network:
    """Return a graph of `random_graph`, random edges with a lag, and standard normal weights."""
    regular = random_graph(n_nodes, rng, confounded=confounded)
    late = rng.random((n_nodes, n_nodes)) < LAG_EDGE_PROBABILITY if lagged else None
    n_sources = n_nodes * (2 if lagged else 1)
    weights = rng.standard_normal((n_sources, COMPONENTS, COMPONENTS))
    return Network(regular, late, weights, rng.standard_normal((n_sources, COMPONENTS)))


def random_graph(n_nodes: int, rng: np.random.Generator, *, confounded: bool = False) -> Adjacency:
    """Return a random directed acyclic graph; edges point from later nodes to earlier ones.

    Three nodes: one of the trees (if confounded, of all connected graphs) with a single sink,
    equally likely. Otherwise a growing network: each new node drives one earlier node, chosen with
    probability proportional to its number of parents plus one (Krapivsky and Redner, *Phys. Rev. E*
    63, 066123 (2001), without redirection). If confounded, the edges of a second such tree, rotated
    by 90 degrees, are added.
    """
    if n_nodes < 2:
        raise ValueError(f"a network needs at least two nodes; got {n_nodes}.")
    if n_nodes == 3:
        graphs = ([(1, 0), (2, 0)], [(1, 0), (2, 1)], [(1, 0), (2, 0), (2, 1)])
        graph = np.zeros((3, 3), bool)
        graph[tuple(np.transpose(graphs[rng.integers(3 if confounded else 2)]))] = True
        return graph
    graph = _tree(n_nodes, rng)
    if confounded:
        graph = np.tril(graph | np.rot90(_tree(n_nodes, rng)), k=-1)
    return graph


def _tree(n_nodes: int, rng: np.random.Generator) -> Adjacency:
    graph = np.zeros((n_nodes, n_nodes), bool)
    for new in range(1, n_nodes):
        weight = 1 + graph[:, :new].sum(axis=0)
        graph[new, rng.choice(new, p=weight / weight.sum())] = True
    return graph


def propagated(
    network: Network,
    inputs: Float[np.ndarray, "series time block_node 3"],
    *,
    activations: Int[np.ndarray, "series block_node"],
    standardise: bool = False,
) -> Float[np.ndarray, "series time node 3"]:
    """Return the states of all nodes, from the inputs of nodes without parents.

    **Arguments:**

    - `inputs`: states of nodes without parents; those of other nodes are ignored.
    - `activations`: index into `ACTIVATIONS` of every node, applied to each parent's part of the
        sum.
    - `standardise`: whether every input and every sum gets mean 0 and standard deviation 1 in time
        before it is passed to children. A constant sum becomes 0 (the benchmark divides by 0, and
        its evaluation replaces the node and all that depends on it by 0).
    """
    if standardise:
        inputs = _standardised(inputs)
    n_nodes = network.regular.shape[1]
    edges = network.edges
    states = np.where(network.parentless[:, None], inputs, 0.0)
    # Later nodes drive earlier ones. Lagged edges may point anywhere: a source that is not computed
    # yet has its input, or 0.
    for index in reversed(range(len(edges))):
        parents = np.flatnonzero(edges[:, index % n_nodes])
        if parents.size == 0:
            continue
        parts = (
            np.einsum("kij,stkj->stki", network.weights[parents], states[:, :, parents])
            + network.biases[parents]
        )
        chosen = activations[:, index]
        for k in np.unique(chosen):
            parts[chosen == k] = ACTIVATIONS[k](parts[chosen == k])
        total = parts.sum(axis=2)
        states[:, :, index] += _standardised(total) if standardise else total
    return states[:, :, :n_nodes]


def _standardised(x: Float[np.ndarray, "series time *rest"]) -> np.ndarray:
    """Return values of mean 0 and deviation 1 in time; zero if constant up to rounding."""
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = x.std(axis=1, ddof=1, keepdims=True)
    moving = deviation > 1e-12 * np.abs(x).max(axis=1, keepdims=True)
    return np.where(moving, centred / np.where(moving, deviation, 1), 0.0)


def sinusoids(
    shape: Sequence[int], n_samples: int, rng: np.random.Generator
) -> Float[np.ndarray, "time *shape"]:
    """The periodic inputs: amplitude uniform in (−1, 1), phase in (0, 2π), last time in (0, 20)."""
    amplitude = rng.uniform(-1, 1, shape)
    phase = rng.uniform(0, 2 * np.pi, shape)
    times = np.linspace(0, rng.uniform(0, 20, shape), n_samples)
    return amplitude * np.sin(times + phase)


def without_self_loops(network: Network) -> Adjacency:
    """Return regular and lagged edges in one graph."""
    return network.edges.reshape(-1, *network.regular.shape).any(axis=0)


def summary(network: Network) -> Adjacency:
    """The published labels: all edges, and a self-loop on every node without parents."""
    graph = without_self_loops(network)
    return graph | np.diag(~graph.any(axis=0))


def hidden_variable(published: Adjacency, *, tier: str) -> int | None:
    """Return the variable that the benchmark hides to confound the others, if any.

    The benchmark intends to hide the first variable with two children, and counts along the first
    axis of its matrix. In the simple tier that axis holds targets. In the coupled tier it holds
    sources, so there the first node with two *parents* is hidden.
    """
    raw = published.T if tier == "simple" else published
    counts = (raw & ~np.eye(len(raw), dtype=bool)).sum(axis=0)
    found = np.flatnonzero(counts >= 2)
    return int(found[0]) if found.size else None
