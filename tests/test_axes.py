"""Orientation: one asymmetric system, checked end to end, and the axis maps by brute force."""

import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._axes import from_graph_axes, to_graph_axes


def test_axes_are_a_permutation_and_back():
    array = np.arange(2 * 3 * 4).reshape(2, 3, 4)  # [target lag source]
    graph = to_graph_axes(jnp.asarray(array))
    assert graph.shape == (4, 2, 3)
    for target, lag, source in np.ndindex(array.shape):
        assert graph[source, target, lag] == array[target, lag, source]
    np.testing.assert_array_equal(from_graph_axes(graph), array)


def test_summary_is_the_maximum_over_lags():
    graph = np.zeros((2, 2, 3), bool)
    graph[0, 1, 2] = True
    np.testing.assert_array_equal(ndde.summary_graph(graph), [[False, True], [False, False]])
    scores = np.arange(8.0).reshape(2, 2, 2)
    np.testing.assert_array_equal(ndde.summary_graph(scores), scores.max(axis=2))


@pytest.fixture(scope="module")
def chain():
    """x0 drives x1 with a delay of 3 samples; nothing drives x0 but itself."""
    rng = np.random.default_rng(1)
    n, dt = 600, 0.1
    x = np.zeros((n, 2))
    for k in range(3, n - 1):
        noise = rng.normal(size=2) * np.sqrt(dt)
        x[k + 1, 0] = x[k, 0] - dt * x[k, 0] + noise[0]
        x[k + 1, 1] = x[k, 1] + dt * (3 * x[k - 3, 0] - 2 * x[k, 1]) + 0.2 * noise[1]
    return x[100:], dt


def test_orientation_of_an_asymmetric_system(chain, getkey):
    x, dt = chain
    windows = ndde.lagged_windows(x, dt=dt, lags=(0, 3))
    result = ndde.fit(
        ndde.L0NDDE(), windows, ndde.FitConfig(max_steps=400, batch_size=64, depth=1), key=getkey()
    )
    scores = ndde.edge_scores(result)
    assert scores.shape == (2, 2, 2)
    # [source, target, lag]: the delayed edge 0 -> 1, against its transpose and its undelayed twin.
    assert scores[0, 1, 1] > scores[1, 0, 1] + 0.1
    assert scores[0, 1, 1] > scores[0, 1, 0] + 0.1
    strengths = ndde.signal_strengths(
        windows,
        graph="full",
        key=getkey(),
        config=ndde.fitting.StrengthConfig(steps=15, fold_steps=5, restarts=1, folds=2, depth=1),
    )
    assert strengths.kept()[0, 1, 1] and not strengths.kept()[1, 0, 1]
    # And the model: its drift of x1 responds to the delayed x0, that of x0 not to x1.
    graph = np.zeros((2, 2, 2), bool)
    graph[0, 0, 0] = graph[0, 1, 1] = graph[1, 1, 0] = True
    model = ndde.fitting.fit_graph(
        windows, graph, key=getkey(), config=ndde.fitting.StrengthConfig(steps=15, depth=1)
    )
    at = jnp.zeros((2, 2))
    moved = model(at.at[1, 0].set(0.5)) - model(at)
    assert moved[0] == 0
    np.testing.assert_allclose(moved[1], 1.5, rtol=0.3)
