"""Prior knowledge: built from names, obeyed by every method that fits windows."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from tests.helpers import TRUTH, windows

NAMES3 = ("sun", "ocean", "wind")


def test_edges_by_name_and_index():
    prior = ndde.prior_knowledge(
        NAMES3,
        lags=(0, 6),
        forbidden=[("ocean", "wind"), (2, "wind", 6)],
        required=[("wind", "ocean", 6)],
        exogenous=["sun"],
    )
    allowed = np.ones((3, 3, 2), bool)
    allowed[1, 2] = False
    allowed[2, 2, 1] = False
    allowed[[1, 2], 0] = False
    np.testing.assert_array_equal(prior.allowed, allowed)
    assert np.argwhere(prior.required).tolist() == [[2, 1, 1]]
    assert prior.undecided.sum() == allowed.sum() - 1


def test_no_self_edges():
    prior = ndde.prior_knowledge(2, lags=(0, 1), self_edges=False)
    np.testing.assert_array_equal(prior.allowed[:, :, 1], [[False, True], [True, False]])


def test_apply_removes_and_adds_also_in_batches():
    prior = ndde.prior_knowledge(2, forbidden=[(0, 1)], required=[(1, 0)])
    graph = jnp.stack([jnp.zeros((2, 2, 1), bool), jnp.ones((2, 2, 1), bool)])
    expected = [[[0, 0], [1, 0]], [[1, 0], [1, 1]]]
    np.testing.assert_array_equal(prior.apply(graph)[..., 0], expected)
    np.testing.assert_array_equal(prior.apply(graph[0])[..., 0], expected[0])


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(forbidden=[("moon", "wind")]), "no variable 'moon'"),
        (dict(exogenous=[3]), "no variable 3"),
        (dict(forbidden=[("sun",)]), "expected an edge"),
        (dict(forbidden=["sun"]), "expected an edge"),
        (dict(forbidden=[("sun", "wind", 5)]), "lag 5 is not a candidate"),
        (dict(required=[("sun", "wind")]), "say at which lag"),
        (dict(required=[("wind", "sun", 0)], exogenous=["sun"]), "both required and forbidden"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        ndde.prior_knowledge(NAMES3, lags=(0, 6), **options)


def test_the_shape_must_fit_the_data():
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(ValueError, match=r"shape \(3, 3, 1\).*\(2, 2, 1\)"):
        ndde.lagged_windows(x, dt=1.0, prior=ndde.prior_knowledge(3))


# In TRUTH, 1 drives 0 and 0 does not drive itself: both against the data.
FORBIDDEN, REQUIRED = (1, 0), (0, 0)
PRIOR = ndde.prior_knowledge(3, forbidden=[FORBIDDEN], required=[REQUIRED])


def informed():
    return eqx.tree_at(lambda w: w.prior, windows(), PRIOR)


def test_a_forbidden_input_leaves_the_rest_as_without_it():
    """The other targets are fitted as if nothing were forbidden."""
    config = ndde.FitConfig(max_steps=100, patience=None, newton_steps=10, batch_size=32)
    free = ndde.fit(ndde.L0NDDE(path=()), windows(), config, key=jr.key(0))
    bound = ndde.fit(ndde.L0NDDE(path=()), informed(), config, key=jr.key(0))
    np.testing.assert_allclose(free.scores[1:], bound.scores[1:], atol=1e-5)


@pytest.fixture(scope="module")
def quick():
    return ndde.fitting.StrengthConfig(
        restarts=1, steps=15, fold_steps=5, folds=2, blocks=8, width=4
    )


def test_search_obeys(quick):
    truth = jnp.asarray(TRUTH.T[:, :, None])
    strategy = ndde.select.Gates(starts=truth, refit=quick)
    graph = ndde.recover(informed(), strategy, key=jr.key(1)).graph
    assert not bool(graph[(*FORBIDDEN, 0)]) and bool(graph[(*REQUIRED, 0)])
    np.testing.assert_array_equal(graph[:, 1:, 0], TRUTH.T[:, 1:])


def test_strengths_are_measured_but_not_kept(quick):
    found = ndde.signal_strengths(informed(), graph="full", key=jr.key(2), config=quick)
    assert bool(found.graph[(*REQUIRED, 0)]) and not bool(found.graph[(*FORBIDDEN, 0)])
    assert float(found.value[(*FORBIDDEN, 0)]) > 0.5  # the data contradict the prior
    for kept in (found.kept(), found.kept(1e-3), found.kept(2.9)):
        assert not bool(kept[(*FORBIDDEN, 0)]) and bool(kept[(*REQUIRED, 0)])


def test_an_exhaustive_search_finds_the_best_that_obeys(quick):
    free, bound = (
        ndde.recover(w, ndde.select.Exhaustive(quick), key=jr.key(3))
        for w in (windows(), informed())
    )
    (subsets, risk), (_, other) = free.details, bound.details
    np.testing.assert_allclose(risk, other, rtol=1e-3, atol=1e-6)  # in float32
    subsets = np.asarray(subsets)
    obeys = subsets[:, REQUIRED[0]] & ~subsets[:, FORBIDDEN[0]]
    cost = np.asarray(risk[0] + free.price[0] * subsets.sum(axis=1).astype(np.float32))
    best = subsets[obeys][np.argmin(cost[obeys])]
    np.testing.assert_array_equal(bound.graph[:, 0, 0], best)
    np.testing.assert_array_equal(bound.graph[:, 1:], free.graph[:, 1:])


@pytest.mark.slow
def test_search_among_lags_obeys(quick):
    strategy = ndde.select.Moves(refit=quick)
    found = ndde.recover(informed(), strategy, key=jr.key(1))
    for graph in (found.graph, found.details.graph):
        assert not bool(graph[(*FORBIDDEN, 0)]) and bool(graph[(*REQUIRED, 0)])
    np.testing.assert_array_equal(found.graph[:, 1:, 0], TRUTH.T[:, 1:])
    # With nothing left to choose from, the shortlist still contains every input once.
    nothing = ndde.prior_knowledge(3, forbidden=[(i, j) for i in range(3) for j in range(3)])
    unable = eqx.tree_at(lambda w: w.prior, windows(), nothing)
    empty = ndde.recover(unable, strategy, key=jr.key(1))
    assert not bool(empty.graph.any())
    np.testing.assert_array_equal(jnp.sort(empty.details.shortlist), [[0, 1, 2]] * 3)


def test_midpoint_windows_carry_it():
    x = np.random.default_rng(0).normal(size=(60, 2)).cumsum(axis=0)
    prior = ndde.prior_knowledge(2, lags=(0, 3), self_edges=False)
    w = ndde.select.midpoint_windows(x, dt=1.0, lags=(0, 3), prior=prior)
    np.testing.assert_array_equal(w.prior.allowed, prior.allowed)
    assert ndde.select.midpoint_windows(x, dt=1.0, lags=(0, 3)).prior.allowed.shape == (2, 2, 2)
    with pytest.raises(ValueError, match="the prior has shape"):
        ndde.select.midpoint_windows(x, dt=1.0, lags=(0,), prior=prior)


@pytest.mark.slow
def test_path_obeys(quick):
    config = ndde.FitConfig(max_steps=100, patience=None, newton_steps=10, batch_size=32)
    found = ndde.select.coefficient_path(
        ndde.AGL(), informed(), (0.01, 100.0), key=jr.key(4), config=config, refit=quick
    )
    assert not bool(jnp.any(found.graphs[:, *FORBIDDEN]))
    assert bool(jnp.all(found.graphs[:, *REQUIRED]))
    assert float(found.death[(*FORBIDDEN, 0)]) == 0 and np.isinf(found.death[(*REQUIRED, 0)])


def follower(n=500):
    """A variable that follows another after four samples, a rate lag of three."""
    rng, x = np.random.default_rng(0), np.zeros((n, 2))
    for k in range(3, n - 1):
        x[k + 1] = 0.5 * x[k] + [0.0, 0.8 * x[k - 3, 0]] + rng.normal(size=2)
    return x


def test_lags_are_chosen_where_none_are_given():
    options = dict(dt=1.0, recipe=ndde.Recipe.fast(), key=jr.key(0))
    found = ndde.discover(follower(), **options)
    chosen, _ = ndde.windows.choose_lags(ndde.read_samples(follower(), dt=1.0))
    assert found.lags == chosen and 3 in chosen
    assert np.argwhere(found.graph[0, 1]).ravel().tolist() == [chosen.index(3)]
    again = ndde.discover(follower(), **options, lags=chosen)
    assert np.array_equal(found.graph, again.graph)


def test_a_prior_without_lags_holds_at_all_that_are_chosen():
    options = dict(dt=1.0, recipe=ndde.Recipe.fast(), key=jr.key(0))
    prior = ndde.prior_knowledge(2, forbidden=[(0, 1)], required=[(1, 0)])
    found = ndde.discover(follower(), **options, prior=prior)
    assert len(found.lags) > 1 and not found.graph[0, 1].any()
    assert found.graph[1, 0].tolist() == [True] + [False] * (len(found.lags) - 1)
    of_three = ndde.prior_knowledge(2, lags=(0, 1, 2), forbidden=[(0, 1)])
    with pytest.raises(ValueError, match="the prior has 3 lags, but discover is to choose them"):
        ndde.discover(follower(), **options, prior=of_three)
