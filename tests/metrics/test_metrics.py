"""Graph metrics against scikit-learn."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import sklearn.metrics as skm
from hypothesis import given

from ndde_jax import metrics

# One size for all examples, so that each metric compiles once.
SHAPE = (3, 3, 2)
auroc, auprc = jax.jit(metrics.auroc), jax.jit(metrics.auprc)
GRAPH_METRICS = {
    "precision": (metrics.precision, skm.precision_score),
    "recall": (metrics.recall, skm.recall_score),
    "f1_score": (metrics.f1_score, skm.f1_score),
}

graphs = hnp.arrays(bool, SHAPE)
mixed_graphs = graphs.filter(lambda graph: graph.any() and not graph.all())
# A few distinct values tie often; arbitrary floats cover the rest. XLA flushes subnormal numbers to
# zero.
tied_scores = hnp.arrays(float, SHAPE, elements=st.sampled_from([-1.0, 0.0, 0.5, 0.7]))
any_scores = hnp.arrays(
    float, SHAPE, elements=st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False)
)
scores = st.one_of(tied_scores, any_scores)


@given(scores, mixed_graphs)
def test_ranking_equals_scikit_learn(scores, truth):
    flat = truth.ravel(), scores.ravel()
    np.testing.assert_allclose(auroc(scores, truth), skm.roc_auc_score(*flat), rtol=1e-12)
    np.testing.assert_allclose(auprc(scores, truth), skm.average_precision_score(*flat), rtol=1e-12)


@given(scores, graphs, graphs)
def test_mask_equals_leaving_entries_out(scores, truth, where):
    kept = truth[where]
    masked = np.where(where, scores, np.nan)  # values under the mask must not matter
    values = auroc(masked, truth, where=where), auprc(masked, truth, where=where)
    if kept.size == 0 or kept.all() or not kept.any():
        assert np.isnan(values).all()
    else:
        expected = (
            skm.roc_auc_score(kept, scores[where]),
            skm.average_precision_score(kept, scores[where]),
        )
        np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("name", GRAPH_METRICS)
@given(graph=graphs, truth=graphs, where=graphs)
def test_graph_metrics_equal_scikit_learn(name, graph, truth, where):
    ours, theirs = GRAPH_METRICS[name]
    if not where.any():
        assert np.isnan(ours(graph, truth, where=where))
        return
    expected = theirs(truth[where], graph[where], zero_division=np.nan)
    np.testing.assert_allclose(ours(graph, truth, where=where), expected, rtol=1e-12)


@given(graphs, graphs, graphs)
def test_structural_hamming_distance_counts_differing_entries(graph, truth, where):
    expected = int(np.sum(graph[where] != truth[where]))
    distance = metrics.structural_hamming_distance(graph, truth, where=where)
    assert distance == expected
    assert jnp.issubdtype(distance.dtype, jnp.integer)
    share = metrics.structural_hamming_distance(graph, truth, where=where, normalize=True)
    np.testing.assert_allclose(share, expected / where.sum() if where.any() else np.nan)


def test_reversed_edge_counts_twice():
    graph = np.array([[0, 1], [0, 0]])
    assert metrics.structural_hamming_distance(graph, graph.T) == 2


def test_numbers_count_as_edges_from_one_half_on():
    strengths = np.array([[0.5, 0.49], [2.0, -1.0]])
    truth = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert metrics.structural_hamming_distance(strengths, truth) == 0
    assert metrics.auroc(strengths, truth) == 1.0


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.auprc])
def test_single_class_or_nan_score_gives_nan(metric):
    scores = jnp.arange(4.0).reshape(2, 2)
    assert jnp.isnan(metric(scores, jnp.ones((2, 2), bool)))
    assert jnp.isnan(metric(scores, jnp.zeros((2, 2), bool)))
    assert jnp.isnan(metric(scores.at[0, 0].set(jnp.nan), jnp.eye(2, dtype=bool)))


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.auprc, metrics.f1_score])
def test_vmap_equals_a_loop(metric, getkey):
    scores = jr.uniform(getkey(), (5, 4, 4)).round(1)  # rounded: ties
    truth = jr.bernoulli(getkey(), 0.4, (5, 4, 4))
    where = ~jnp.eye(4, dtype=bool)
    batched = jax.vmap(lambda s, t: metric(s, t, where=where))(scores, truth)
    looped = [metric(s, t, where=where) for s, t in zip(scores, truth, strict=True)]
    np.testing.assert_allclose(batched, jnp.stack(looped), rtol=1e-12)


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.auprc])
def test_scores_in_place_of_the_truth_are_refused(metric):
    scores, truth = np.array([0.9, 0.2, 0.4]), np.array([1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"truth must be boolean, or 0 and 1; it holds 0\.9"):
        metric(truth, scores)
    unknown = np.array([1.0, 0.0, np.nan])
    assert metric(scores, unknown, where=np.isfinite(unknown)) == 1.0
    np.testing.assert_array_equal(jax.jit(metric)(scores, truth), metric(scores, truth))


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.auprc])
def test_ranking_keeps_single_precision(metric):
    scores = jnp.array([0.1, 0.3, 0.2], jnp.float32)
    truth = jnp.array([False, True, False])
    assert metric(scores, truth) == 1.0
    with jax.enable_x64(False):
        assert metric(np.array([0.1, 0.3, 0.2]), np.array(truth)).dtype == jnp.float32


@pytest.mark.parametrize("scores", [1 - np.geomspace(1e-13, 1e-7, 6), -np.geomspace(1e-90, 0.5, 6)])
def test_scores_that_single_precision_would_tie_keep_their_order(scores):
    """The score of small p-values."""
    truth = np.array([True, False, True, False, False, False])
    with jax.enable_x64(False):
        np.testing.assert_allclose(metrics.auroc(scores, truth), skm.roc_auc_score(truth, scores))
        found = metrics.auprc(np.append(scores, np.nan), np.append(truth, True))
    assert np.isnan(found)


@pytest.mark.parametrize(
    "metric", [metrics.auroc, metrics.auprc, metrics.structural_hamming_distance, metrics.recall]
)
def test_shapes_that_do_not_match_are_refused(metric):
    with pytest.raises(ValueError, match=r"one shape; got \(2, 3\) and a truth of \(3, 2\)"):
        metric(jnp.ones((2, 3)), jnp.ones((3, 2), bool))
    with pytest.raises(ValueError, match=r"`where` must broadcast to the shape \(2, 3\)"):
        metric(jnp.ones((2, 3)), jnp.ones((2, 3), bool), where=jnp.ones((3, 2), bool))
