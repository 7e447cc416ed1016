"""The search among lags, against enumeration and refits."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._newton import fit_network
from ndde_jax.fit._prices import EBIC
from ndde_jax.select._judge import MoveProblem
from ndde_jax.select._worth import BLOCKS, stretches

from .small import QUICK, TRUTH, delayed_pair


def search(windows, price=None):
    return ndde.recover(windows, ndde.select.Moves(refit=QUICK), price, key=jr.key(0))


@pytest.mark.slow
def test_search_agrees_with_enumeration(pair):
    found = search(pair)
    np.testing.assert_array_equal(found.graph, TRUTH)
    few = ndde.lagged_windows(delayed_pair(600)[:, :1], dt=0.1, lags=(0, 3, 6, 9))
    config = ndde.fitting.StrengthConfig(steps=15, restarts=1)
    exact = ndde.recover(few, ndde.select.Exhaustive(config), key=jr.key(1))
    moved = search(few)
    np.testing.assert_array_equal(moved.graph, exact.graph)
    np.testing.assert_allclose(moved.risk, jnp.min(exact.details[1], axis=1), rtol=0.05)


# No prior decides anything.
EVERYTHING = jnp.ones(8, bool)


@pytest.mark.slow
def test_a_wrong_lag_is_swapped_for_the_right_one(pair):
    """From a network on a neighbour of the true lag, one move leads to the truth."""
    inputs = pair.history.reshape(len(pair.history), -1)  # (lag, source)
    problem = MoveProblem(inputs, pair.increment[:, 1], pair.weight, 8, EBIC(), QUICK, EVERYTHING)
    wrong = jnp.zeros(8, bool).at[jnp.array([1, 6])].set(True)  # y itself; x at lag 9
    mask, network = problem.from_scratch(wrong, jr.key(0))
    ranked = problem.moves[jnp.argsort(problem.linearised(mask, network))]
    right = jnp.zeros(8, bool).at[jnp.array([1, 4])].set(True)  # x at lag 6
    assert any((np.asarray(mask ^ move) == np.asarray(right)).all() for move in ranked[:4])
    found, *_ = problem.search((mask, network), jnp.asarray(1.0 * len(inputs)))
    np.testing.assert_array_equal(found, right)


@pytest.mark.slow
def test_linearised_risks_foresee_refits(pair):
    """An addition is predicted to a few per cent of the risk."""
    inputs = pair.history.reshape(len(pair.history), -1)
    problem = MoveProblem(inputs, pair.increment[:, 1], pair.weight, 8, EBIC(), QUICK, EVERYTHING)
    mask = jnp.zeros(8, bool).at[jnp.array([1, 4])].set(True)
    _, found = problem.from_scratch(mask, jr.key(0))
    risks = problem.linearised(mask, found)[:8]
    added = mask.at[0].set(True)
    refit = fit_network(
        problem.alive(found.network, added),
        jnp.where(added[None], inputs, 0),
        pair.increment[:, 1],
        pair.weight,
        n_iterations=10,
        decay=found.decay,
    )
    np.testing.assert_allclose(risks[0], refit.risk, rtol=0.05)


@pytest.mark.slow
def test_coefficient_sets_the_price(pair):
    nothing = search(pair, 100.0)
    assert not np.asarray(nothing.graph).any()
    np.testing.assert_allclose(nothing.price, 100 / 8)
    cheap = search(pair, 1e-6)
    assert np.asarray(cheap.graph).sum() > TRUTH.sum()


def test_one_system_at_a_time(pair):
    batch = ndde.stack_windows([pair, pair])
    for call in (ndde.select.spline_graph, search):
        with pytest.raises(ValueError, match=r"use jax\.vmap"):
            call(batch)
    with pytest.raises(ValueError, match="at least 1"):
        ndde.select.spline_graph(pair, shortlist=0)


def test_stretches_hold_as_many_valid_windows_each():
    rng = np.random.default_rng(0)
    weight = (rng.random(400) < 0.8).astype(float)
    weight[:7] = 0  # ends that ring are excluded first
    rank = stretches(weight)
    assert rank.min() == 0 and (np.diff(rank) >= 0).all()
    counts = np.bincount(rank, weight, BLOCKS)
    assert counts.max() - counts.min() <= 1
    assert (stretches(np.zeros(5)) == 0).all()
