"""Limits of the benchmark: groups of copies, means over their orders, the seasonal regression."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm

from benchmarks.causal_dynamics import limits, networks
from benchmarks.causal_dynamics.__main__ import main
from ndde_jax import metrics


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def _graph(n, *edges):
    graph = np.zeros((n, n), bool)
    graph[tuple(np.transpose(edges))] = True
    return graph


def test_chains_are_copies_and_sums_are_not():
    assert len(set(limits.copies(_graph(3, (2, 1), (1, 0))))) == 1
    assert len(set(limits.copies(_graph(3, (2, 0), (1, 0))))) == 3
    # 4 -> 3, and 3 and 2 -> 1, and 1 -> 0.
    group = limits.copies(_graph(5, (4, 3), (3, 1), (2, 1), (1, 0)))
    assert group[4] == group[3] and group[1] == group[0]
    assert len(set(group)) == 3


def test_copies_carry_one_state_in_other_coordinates(rng):
    network = networks.Network(
        _graph(4, (3, 2), (2, 0), (1, 0)), None, rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3))
    )
    inputs = rng.normal(size=(4, 1, 200, 3)).swapaxes(0, 1).swapaxes(1, 2)
    states = networks.propagated(network, inputs, activations=np.zeros((1, 4), int))[0]
    group = limits.copies(network.regular)
    for i, j in itertools.permutations(range(4), 2):
        design = np.column_stack([states[:, i], np.ones(200)])
        left = np.linalg.lstsq(design, states[:, j], rcond=None)[1]
        assert (left.max() < 1e-9) == (group[i] == group[j])


def test_mean_over_orders_equals_enumeration(rng):
    group = np.array([0, 1, 0, 0, 1, 2])
    graph = rng.random((6, 6)) < 0.4
    orders = []
    for first in itertools.permutations([0, 2, 3]):
        for second in itertools.permutations([1, 4]):
            order = np.arange(6)
            order[[0, 2, 3]], order[[1, 4]] = first, second
            orders.append(graph[np.ix_(order, order)])
    np.testing.assert_allclose(limits.averaged(graph, group), np.mean(orders, axis=0))


def test_nothing_is_known_of_constants():
    """The score is the mean over all guesses of the edges of constants."""
    labels = ~_graph(3, (0, 2), (2, 1))
    best = limits.observed(labels, np.array([True, True, False]))
    assert np.array_equal(best[:2, :2], labels[:2, :2])
    hidden = [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert {best[edge] for edge in hidden} == {0.6}
    scores = []
    for order in itertools.permutations(range(5)):
        guess = best.copy()
        guess[tuple(np.transpose(hidden))] += 1e-3 * np.array(order)
        scores.append(float(metrics.auroc(guess, labels)))
    assert float(metrics.auroc(best, labels)) == pytest.approx(np.mean(scores))
    assert np.array_equal(limits.observed(labels, np.ones(3, bool)), labels)


def test_a_network_without_copies_can_be_ranked_perfectly(rng):
    network = networks.Network(
        _graph(4, (3, 1), (2, 1), (2, 0), (3, 0)), None, np.ones((4, 3, 3)), np.ones((4, 3))
    )
    scores, labels = limits.best_ranking(network, hide=False)
    np.testing.assert_array_equal(scores, labels)
    assert labels.trace() == 2


def test_what_is_hidden_hands_its_causes_on():
    # 1 has two parents and is hidden; its child 0 then depends on them without an edge.
    network = networks.Network(
        _graph(4, (3, 1), (2, 1), (1, 0)), None, np.ones((4, 3, 3)), np.ones((4, 3))
    )
    scores, labels = limits.best_ranking(network, hide=True)
    np.testing.assert_array_equal(labels, np.diag([False, True, True]))
    np.testing.assert_array_equal(scores, [[0, 0, 0], [1, 1, 0], [1, 0, 1]])


def test_by_the_past_late_causes_are_effects():
    # 2 and 3 drive 1 at once; 0 follows the future of 1.
    network = networks.Network(
        _graph(4, (3, 1), (2, 1)), _graph(4, (1, 0)), np.ones((8, 3, 3)), np.ones((4, 3))
    )
    scores, labels = limits.best_ranking(network, hide=False, past=True)
    assert labels[1, 0] and not labels[0, 1]
    scores_of_both = limits.best_ranking(network, hide=False)[0]
    assert scores[0, 1] == scores[1, 0] == scores_of_both[1, 0]  # copies
    network = networks.Network(
        _graph(4, (3, 1), (2, 1), (3, 0)), _graph(4, (1, 0)), np.ones((8, 3, 3)), np.ones((4, 3))
    )
    scores, labels = limits.best_ranking(network, hide=False, past=True)
    assert labels[1, 0] and scores[0, 1] == 1 and scores[1, 0] == 0
    assert scores[3, 0] == scores[3, 1] == 1


@pytest.mark.parametrize("present", list(itertools.product([0, 1], repeat=4)))
def test_what_every_coordinate_of_a_hidden_variable_shows(present, rng):
    """Correct graphs of two variables, both driven by a hidden third one. With the rate of one
    target as its coordinate, that target has no visible source, and the other has those that act
    on either.
    """
    labels = np.array(present, bool).reshape(2, 2)
    weight, bend = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    mask = np.append(labels.T, np.ones((2, 1)), axis=1)  # [target, (x, y, z)]

    def rates(state):
        return jnp.sum(mask * (weight * state[None] + bend * jnp.sin(state)[None]), axis=1)

    slopes = np.stack([jax.jacfwd(rates)(state) for state in rng.normal(size=(20, 3))])
    shown = limits.up_to_coordinates(labels)
    for kept, other in ((0, 1), (1, 0)):
        # The slope of a rate at fixed rate of the other target, by the implicit function theorem.
        ratio = slopes[:, kept, 2] / slopes[:, other, 2]
        left = slopes[:, kept, :2] - ratio[:, None] * slopes[:, other, :2]
        acts = np.abs(left).max(axis=0) > 1e-4
        np.testing.assert_array_equal(shown, np.outer(acts, [1, 1]))
    guessed = limits.up_to_coordinates(labels, own=0.5)
    np.testing.assert_array_equal(guessed - shown, np.diag(0.5 * labels.any(axis=1)))


def test_frequencies_are_those_of_other_systems_that_show_the_same(monkeypatch):
    """Two systems in which both variables act, and one in which the second does not."""
    graphs = {
        "a": [[1, 0], [0, 1]],
        "b": [[1, 1], [0, 1]],
        "c": [[1, 0], [0, 0]],
    }
    monkeypatch.setattr(limits, "systems_with_jacobian", lambda: tuple(graphs))
    monkeypatch.setattr(limits, "published_graph", lambda name: np.ones((2, 2), bool))
    monkeypatch.setattr(limits, "corrected_graph", lambda name: np.array(graphs[name], bool))
    monkeypatch.setattr(limits.networks, "hidden_variable", lambda published, tier: -1)
    monkeypatch.setattr(limits, "without", lambda hidden, graph: [graph])
    found = limits.hidden_limits()
    # a by b: the edges of a, and one more beside them. b by a: its third edge last, tied. c: tied.
    aurocs = [3 / 4, (2 + 1 / 2) / 3, (1 + 2 + 2) / 6]
    assert found[", frequencies known"][0] == pytest.approx(np.mean(aurocs))
    assert found[""][0] == pytest.approx(np.mean([1 / 2, 1 / 2, 5 / 6]))


def test_limits_lie_between_guess_and_one():
    auroc, auprc, errors, guess, _ = limits.coupled_limit(
        "coupled/default", n_graphs=20, n_nodes=10
    )
    assert 0 < errors < 100  # of 1000 entries, of which 150 are edges
    assert guess + 0.2 < auroc < 1
    assert auprc < auroc


def test_seasonal_regression_against_statsmodels(rng):
    x = np.cumsum(rng.normal(size=(300, 3)), axis=0)
    scores = limits.seasonal_regression(x)
    month = np.arange(299) % 12
    cycle = [np.ones(299)]
    for k in (1, 2):
        cycle += [np.cos(2 * np.pi * k * month / 12), np.sin(2 * np.pi * k * month / 12)]
    cycle = np.stack(cycle, 1)
    blocks = [x[:-1, [i]] * cycle for i in range(3)]
    for source in range(3):
        kept = [block for i, block in enumerate(blocks) if i != source]
        for target in range(3):
            y = np.diff(x[:, target])
            full = sm.OLS(y, np.concatenate([cycle, *blocks], 1)).fit()
            rest = sm.OLS(y, np.concatenate([cycle, *kept], 1)).fit()
            p = full.compare_f_test(rest)[1]
            assert scores[source, target] == pytest.approx(-np.log(p), rel=1e-6)


def test_tables_are_printed(tmp_path, capsys, rng, monkeypatch):
    # The second variable is hidden. The first of the others drives both, the third drives itself.
    monkeypatch.setattr(limits, "systems_with_jacobian", lambda: ("Lorenz",))
    truth = np.array([[1, 0], [1, 1]])
    np.savez(
        tmp_path / "simple_default_Two.npz",
        x=rng.normal(size=(1, 20, 2)),
        adjacency=np.array([[1, 0], [0, 1]]),
        adjacency_true=truth,
        dt=1.0,
        category="simple/default",
    )
    assert main(["limits", "--data", str(tmp_path), "--graphs", "3", "--nodes", "5"]) == 0
    printed = capsys.readouterr().out
    assert "coupled/timelag" in printed
    tied, guessed, known = printed.splitlines()[2:5]
    assert " .500 |" in tied
    assert f"{5 / 6:.3f}"[1:] in guessed  # own effects first, one of two pairs tied
    assert " .500 |" in known  # no other system
    right = float(metrics.auroc(truth.astype(float), np.eye(2, dtype=bool)))
    assert f"{right:.3f}"[1:] in printed
