"""Inputs that could replace an edge."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._axes import from_graph_axes
from ndde_jax.fit._refit import fit_layers
from tests.helpers import QUICK, TRUTH, windows


def copied():
    """The easy system with its last variable replaced by a noisy copy of the first."""
    w = windows()
    copy = w.history[:, 0, 0] + 0.05 * jr.normal(jr.key(1), w.history[:, 0, 0].shape, jnp.float32)
    return eqx.tree_at(lambda w: w.history, w, w.history.at[:, 0, 2].set(copy))


@pytest.mark.slow
def test_a_copy_is_a_rival_and_an_independent_input_is_none():
    graph = np.zeros((3, 3, 1), bool)
    graph[0, 1] = graph[1, 0] = True
    free = ndde.measure.rival_edges(windows(), graph, key=jr.key(0), config=QUICK)
    assert float(free.cost[1, 0, 0]) > 0.8
    assert np.isinf(free.cost[0, 0, 0])
    np.testing.assert_array_equal(free.rival[0, 0, 0], [-1, -1])
    copy = ndde.measure.rival_edges(copied(), graph, key=jr.key(0), config=QUICK)
    np.testing.assert_array_equal(copy.rival[0, 1, 0], [2, 0])
    assert abs(float(copy.cost[0, 1, 0])) < 0.05


@pytest.mark.slow
def test_costs_agree_with_fits_from_scratch():
    """A replacement is no worse than the best of several random starts. These may all end in a
    poorer minimum than the start from the network of the graph, hence the wider margin below.
    """
    w = windows()
    graph = jnp.asarray(TRUTH.T[:, :, None])
    rivals = ndde.measure.rival_edges(w, graph, key=jr.key(0), config=QUICK)
    scratch_config = ndde.fitting.StrengthConfig(restarts=6, steps=40, width=4)

    def risk(graph):
        base = from_graph_axes(graph).reshape(3, -1)
        return fit_layers(w, base, scratch_config, 3, key=jr.key(5))[1]

    base = risk(graph)
    for source, target in np.argwhere(TRUTH.T):
        without = graph.at[source, target].set(False)
        scratch = [
            float(risk(without.at[other, target].set(True))[target])
            for other in range(3)
            if other != source and not bool(graph[other, target, 0])
        ]
        found = float(rivals.cost[source, target, 0]) + float(base[target])
        assert min(scratch) - 0.2 < found < min(scratch) + 0.06


def test_other_lags_of_the_same_source():
    rng = np.random.default_rng(0)
    x = np.zeros((600, 2))
    for k in range(3, 599):
        x[k + 1] = 0.7 * x[k] + rng.normal(size=2)
        x[k + 1, 1] += 2 * np.tanh(x[k - 3, 0])
    w = ndde.lagged_windows(x, dt=1.0, lags=(0, 2, 3))
    graph = np.zeros((2, 2, 3), bool)
    graph[0, 1, 2] = graph[[0, 1], [0, 1], 0] = True
    rivals = ndde.measure.rival_edges(w, graph, key=jr.key(0), config=QUICK)
    assert rivals.lag_cost.shape == (2, 2, 3, 3)
    cost = rivals.lag_cost[0, 1, 2]
    assert np.isinf(cost[2])  # the edge itself
    # The neighbouring lag shares .7 of it and is a better proxy than the present state.
    assert 0.02 < float(cost[1]) < float(cost[0])


@pytest.mark.slow
def test_the_prior_excludes_rivals():
    graph = np.zeros((3, 3, 1), bool)
    graph[0, 1] = True
    bound = eqx.tree_at(lambda w: w.prior, copied(), ndde.prior_knowledge(3, forbidden=[(2, 1)]))
    rivals = ndde.measure.rival_edges(bound, graph, key=jr.key(0), config=QUICK)
    np.testing.assert_array_equal(rivals.rival[0, 1, 0], [1, 0])
    bound = eqx.tree_at(lambda w: w.prior, bound, ndde.prior_knowledge(3, required=[(0, 1)]))
    assert np.isinf(
        ndde.measure.rival_edges(bound, graph, key=jr.key(0), config=QUICK).cost[0, 1, 0]
    )
