"""Graph laws, static maps and labels of generated networks, against counting and plain loops."""

import collections
import itertools

import numpy as np
import pytest
from scipy import stats

from benchmarks.causal_dynamics import networks
from benchmarks.causal_dynamics.networks import Network

LINEAR, SIN, LOGISTIC, RELU = 0, 1, 2, 4


def edges_of(graph):
    return frozenset(zip(*(axis.tolist() for axis in np.nonzero(graph)), strict=True))


def growth_law(n_nodes):
    """The probability of every tree: node k drives an earlier node in proportion to parents + 1."""
    law = {}
    for targets in itertools.product(*(range(new) for new in range(1, n_nodes))):
        probability = 1.0
        for new, target in enumerate(targets, start=1):
            parents = [targets[: new - 1].count(node) for node in range(new)]
            probability *= (1 + parents[target]) / (new + sum(parents))
        law[frozenset((new, target) for new, target in enumerate(targets, start=1))] = probability
    return law


def test_trees_grow_by_the_law():
    law, rng = growth_law(5), np.random.default_rng(0)
    assert sum(law.values()) == pytest.approx(1)
    n = 6000
    counts = collections.Counter(edges_of(networks.random_graph(5, rng)) for _ in range(n))
    assert set(counts) <= set(law)
    observed = [counts[graph] for graph in law]
    assert stats.chisquare(observed, [n * p for p in law.values()]).pvalue > 0.01


def test_confounded_graphs_are_two_trees_one_turned():
    rng, n = np.random.default_rng(1), 4000
    law = growth_law(4)

    def turned(edges):  # a quarter turn against the clock: column c becomes row n - 1 - c
        return {(3 - target, source) for source, target in edges}

    expected = collections.Counter()
    for (first, p), (second, q) in itertools.product(law.items(), repeat=2):
        union = {(i, j) for i, j in first | turned(second) if i > j}
        expected[frozenset(union)] += p * q
    counts = collections.Counter(
        edges_of(networks.random_graph(4, rng, confounded=True)) for _ in range(n)
    )
    assert set(counts) <= set(expected)
    observed = [counts[graph] for graph in expected]
    assert stats.chisquare(observed, [n * p for p in expected.values()]).pvalue > 0.01


@pytest.mark.parametrize("confounded, n_graphs", [(False, 2), (True, 3)])
def test_three_nodes_have_few_graphs(confounded, n_graphs):
    rng = np.random.default_rng(2)
    counts = collections.Counter(
        edges_of(networks.random_graph(3, rng, confounded=confounded)) for _ in range(900)
    )
    assert len(counts) == n_graphs
    assert all((1, 0) in edges for edges in counts)
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_one_node_is_no_network():
    with pytest.raises(ValueError, match="at least two nodes; got 1"):
        networks.random_graph(1, np.random.default_rng(0))


def test_lagged_edges_are_anywhere_with_probability_a_tenth():
    rng = np.random.default_rng(3)
    late = np.array([networks.random_network(10, rng, lagged=True).lagged for _ in range(300)])
    assert stats.binomtest(int(late.sum()), late.size, 0.1).pvalue > 0.01
    assert late.mean(axis=0).min() > 0  # self-loops and both directions among them


def network_of(regular, lagged=None, seed=0):
    rng = np.random.default_rng(seed)
    n = len(regular) * (1 if lagged is None else 2)
    return Network(regular, lagged, rng.normal(size=(n, 3, 3)), rng.normal(size=(n, 3)))


def chosen(network, activation, n_series=2):
    return np.full((n_series, len(network.edges)), activation)


def plain_value(network, inputs, series, time, node, activate):
    """The state of a node without lagged edges, by recursion."""
    parents = np.flatnonzero(network.regular[:, node])
    if len(parents) == 0:
        return inputs[series, time, node]
    values = (plain_value(network, inputs, series, time, p, activate) for p in parents)
    return sum(
        activate(network.weights[p] @ v + network.biases[p])
        for p, v in zip(parents, values, strict=True)
    )


@pytest.mark.parametrize(
    "activation, function",
    [
        (LINEAR, lambda z: z),
        (SIN, np.sin),
        (LOGISTIC, lambda z: 1 / (1 + np.exp(-z))),
        (RELU, lambda z: z * (z > 0)),
    ],
)
def test_nodes_are_sums_over_parents(activation, function):
    rng = np.random.default_rng(4)
    regular = networks.random_graph(6, rng, confounded=True)
    network, inputs = network_of(regular), rng.normal(size=(2, 5, 6, 3))
    states = networks.propagated(network, inputs, activations=chosen(network, activation))
    for series, time, node in np.ndindex(2, 5, 6):
        expected = plain_value(network, inputs, series, time, node, function)
        np.testing.assert_allclose(states[series, time, node], expected)


def test_activations_may_differ_between_series_and_nodes():
    regular = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], bool)  # 2 → 1 → 0
    network, rng = network_of(regular), np.random.default_rng(5)
    inputs = rng.normal(size=(2, 5, 3, 3))
    kinds = np.array([[SIN, LINEAR, LINEAR], [LINEAR, RELU, SIN]])
    states = networks.propagated(network, inputs, activations=kinds)
    into_1 = inputs[:, :, 2] @ network.weights[2].T + network.biases[2]
    into_1[1] = np.maximum(into_1[1], 0)
    into_0 = into_1 @ network.weights[1].T + network.biases[1]
    into_0[0] = np.sin(into_0[0])
    np.testing.assert_allclose(states[:, :, 1], into_1)
    np.testing.assert_allclose(states[:, :, 0], into_0)


def test_lagged_causes_lie_in_the_future():
    regular = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]], bool)  # 1 → 0
    lagged = np.array([[0, 0, 0], [0, 0, 0], [1, 0, 0]], bool)  # 2 → 0, later
    network, lag = network_of(regular, lagged), 3
    whole = np.random.default_rng(6).normal(size=(2, 20 + lag, 3, 3))
    inputs = np.concatenate([whole[:, :20], whole[:, lag:]], axis=2)
    states = networks.propagated(network, inputs, activations=chosen(network, LINEAR))
    now = whole[:, :20, 1] @ network.weights[1].T + network.biases[1]
    later = whole[:, lag:, 2] @ network.weights[5].T + network.biases[5]
    np.testing.assert_allclose(states[:, :, 0], now + later)
    np.testing.assert_array_equal(states[:, :, 1:], whole[:, :20, 1:])


def test_any_lagged_graph_by_a_plain_loop():
    """Later block first, each node from last to first, adding to its current state."""
    rng = np.random.default_rng(7)
    for seed in range(10):
        network = networks.random_network(5, rng, lagged=True)
        n, inputs = 5, np.random.default_rng(seed).normal(size=(1, 4, 10, 3))
        x = {}
        for block, graph in enumerate([network.regular, network.lagged]):
            for node in range(n):
                alone = not graph[:, node].any()
                x[block, node] = inputs[0, :, block * n + node].copy() * alone
        for block, node in itertools.product((1, 0), reversed(range(n))):
            total = 0.0
            for b, graph in enumerate([network.regular, network.lagged]):
                for source in np.flatnonzero(graph[:, node]):
                    weight, bias = network.weights[b * n + source], network.biases[b * n + source]
                    total = total + x[b, source] @ weight.T + bias
            x[block, node] = x[block, node] + total
        found = networks.propagated(network, inputs, activations=chosen(network, LINEAR, 1))
        np.testing.assert_allclose(found[0], np.stack([x[0, i] for i in range(n)], axis=1))


def test_standardised_networks_have_unit_deviations_and_survive_constants():
    regular = networks.random_graph(8, np.random.default_rng(8))
    network = network_of(regular)
    inputs = 100 * np.random.default_rng(9).normal(size=(2, 50, 8, 3)) + 7
    activations = chosen(network, LINEAR)
    x = networks.propagated(network, inputs, activations=activations, standardise=True)
    np.testing.assert_allclose(x.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(x.std(axis=1, ddof=1), 1)
    dead = Network(regular, None, 0 * network.weights, network.biases)
    x = networks.propagated(dead, inputs, activations=activations, standardise=True)
    np.testing.assert_array_equal(x[:, :, regular.any(axis=0)], 0)
    np.testing.assert_allclose(x[:, :, ~regular.any(axis=0)].std(axis=1, ddof=1), 1)


def test_sinusoids_are_sinusoids_of_the_given_ranges():
    waves = networks.sinusoids((200, 3), 400, np.random.default_rng(10))
    assert waves.shape == (400, 200, 3)
    assert np.abs(waves).max() <= 1
    # y'' = −ω² y, with ω below 20 per series of length 1
    middle, second = waves[1:-1], np.diff(waves, 2, axis=0) * 399**2
    omega = np.sqrt(-np.sum(middle * second, axis=0) / np.sum(middle**2, axis=0))
    np.testing.assert_allclose(second, -(omega**2) * middle, atol=1e-6 * 400)
    assert stats.kstest(omega.ravel() / 20, "uniform").pvalue > 0.01


def test_published_labels_give_parentless_nodes_a_self_loop():
    regular = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], bool)
    lagged = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]], bool)
    plain, late = network_of(regular), network_of(regular, lagged)
    np.testing.assert_array_equal(networks.summary(plain), [[0, 0, 0], [1, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(networks.without_self_loops(plain), regular)
    np.testing.assert_array_equal(networks.summary(late), [[0, 0, 0], [1, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(late.parentless, [0, 1, 1, 1, 1, 0])


def test_hidden_variable_is_the_first_with_two_children_or_so_they_meant():
    graph = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 1]], bool)
    assert networks.hidden_variable(graph, tier="simple") == 2  # drives 0 and 3
    assert networks.hidden_variable(graph, tier="coupled") == 1  # driven by 0 and 3
    assert networks.hidden_variable(np.eye(3, dtype=bool), tier="simple") is None
