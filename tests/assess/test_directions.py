"""Directions of contemporaneous relations, compared with mutual information of residuals."""

import numpy as np
import pytest
from sklearn.feature_selection import mutual_info_regression

import ndde_jax as ndde
from ndde_jax.assess._assess import direction_evidence

PAIR = ~np.eye(2, dtype=bool)
SHAPES = {
    "on and off": lambda rng, n: np.where(rng.random(n) < 0.8, 0.0, 1.0) + 0.1 * rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "heavy tails": lambda rng, n: rng.laplace(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "normal": lambda rng, n: rng.normal(size=n),
}


def pair(shape, seed, n=1000):
    rng = np.random.default_rng(seed)
    x, e = (SHAPES[shape](rng, n) for _ in range(2))
    left = np.stack([x, 0.6 * x / x.std() + 0.8 * e / e.std()], axis=1)
    return left - left.mean(axis=0)


def by_mutual_information(left):
    """How much more the residual of the source on the target depends on its regressor than the
    other way round; positive where the first drives the second.
    """
    x, y = (left / left.std(axis=0)).T
    along = (x * y).mean()
    forward = mutual_info_regression(x[:, None], y - along * x, random_state=0)[0]
    back = mutual_info_regression(y[:, None], x - along * y, random_state=0)[0]
    return back - forward


@pytest.mark.parametrize("shape", SHAPES)
def test_direction_is_that_of_independence(shape):
    nats = np.array([direction_evidence(pair(shape, seed), PAIR)[0, 1] for seed in range(30)])
    if shape == "normal":
        assert 6 < (nats > 0).sum() < 24 and np.median(np.abs(nats)) < 2
        return
    assert (nats > 0).sum() >= 28
    slow = [by_mutual_information(pair(shape, seed)) > 0 for seed in range(8)]
    assert sum(slow) >= 6  # a cruder tool that agrees


def test_evidence_is_antisymmetric_and_of_pairs_alone():
    left = np.concatenate([pair("exponential", 0), pair("uniform", 1)], axis=1)
    pairs = np.zeros((4, 4), bool)
    pairs[0, 1] = pairs[1, 0] = True
    nats = direction_evidence(left, pairs)
    np.testing.assert_array_equal(nats, -nats.T)
    assert nats[0, 1] > 5 and not nats[2:].any()
    turned = direction_evidence(left[:, ::-1], pairs[::-1, ::-1])
    np.testing.assert_allclose(turned[3, 2], nats[0, 1], rtol=1e-9)
    holes = np.concatenate([left, np.full((50, 4), np.nan)])
    np.testing.assert_allclose(direction_evidence(holes, pairs), nats, rtol=1e-9)


def test_what_cannot_be_compared_is_no_evidence():
    left = np.stack([np.zeros(50), np.arange(50.0)], axis=1)
    assert not direction_evidence(left, PAIR).any()
    assert not direction_evidence(np.full((50, 2), np.nan), PAIR).any()


def test_sources_at_once_are_ranked_with_their_direction():
    """A chain faster than its samples: the inputs switch, and each drives the next."""
    rng, x, blocks = np.random.default_rng(0), np.zeros((400, 4)), np.zeros(4)
    for k in range(400):
        blocks = np.where(rng.random(4) < 0.3, rng.random(4) < 0.3, blocks)
        x[k, 0] = blocks[0]
        for j in range(1, 3):
            x[k, j] = blocks[j] + 0.7 * x[k, j - 1]
        x[k, 3] = blocks[3]
    x += 0.05 * rng.normal(size=x.shape)
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0, 1), scheme="euler")
    graph = np.zeros((4, 4, 2), bool)
    graph[range(4), range(4), 0] = True
    found = ndde.assess.relations(windows, graph)
    assert found.at_once[0, 1] and found.at_once[1, 2]
    lagged = 1e-3 * rng.random((4, 4))
    scores = found.ranked(lagged, graph, np.full(4, 0.5))
    assert scores[0, 1] > scores[1, 0] and scores[1, 2] > scores[2, 1]
    assert min(scores[0, 1], scores[1, 2]) > max(scores[3, :3].max(), scores[:3, 3].max())
    # Pairs that are not related at once, and those with a link, are left unchanged.
    apart = ~found.at_once
    np.testing.assert_array_equal(scores[apart], lagged[apart])
    graph[0, 1, 1] = True
    scores = found.ranked(lagged, graph, np.full(4, 0.5))
    np.testing.assert_array_equal(scores[:2, :2], lagged[:2, :2])
    assert (found.ranked(lagged, graph, np.full(4, np.nan)) == lagged).all()
