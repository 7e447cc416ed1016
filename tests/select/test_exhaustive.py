"""Exact L0, strengths and coefficient paths, against brute force."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax._axes import from_graph_axes
from ndde_jax.fit._refit import fit_layers
from ndde_jax.select._strategies import held_out_errors

CONFIG = ndde.fitting.StrengthConfig(restarts=2, steps=15, fold_steps=4, folds=2, resamples=20)
LAGS = (0, 2)
# The inputs of each target, [target, lag, source].
TRUTH = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], bool)


@pytest.fixture(scope="module")
def windows():
    """A linear map with noise, so that ordinary least squares is an oracle for every subset."""
    rng = np.random.default_rng(0)
    x = np.zeros((600, 2))
    for k in range(2, 599):
        rate = np.array([-x[k, 0] + 0.7 * x[k - 2, 1], -0.9 * x[k, 1] - 0.8 * x[k - 2, 0]])
        x[k + 1] = x[k] + 0.3 * rate + 0.4 * rng.normal(size=2)
    return ndde.lagged_windows(x, dt=0.3, lags=LAGS)


@pytest.fixture(scope="module")
def exact(windows):
    return ndde.recover(windows, ndde.select.Exhaustive(CONFIG), 0.08, key=jr.key(0))


@pytest.fixture(scope="module")
def strengths(windows, exact):
    return ndde.signal_strengths(
        windows, graph=exact.graph, key=jr.key(1), config=CONFIG, max_inputs=4
    )


def least_squares_risk(windows, target, mask):
    z = np.asarray(windows.history).reshape(len(windows.history), -1)[:, mask]
    y = np.asarray(windows.increment)[:, target]
    z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    return np.mean((y - z @ np.linalg.lstsq(z, y, rcond=None)[0]) ** 2)


def test_enumeration_against_least_squares(windows, exact):
    """On a linear system the risk of every subset, and so the best one, is that of regression."""
    subsets = [np.array(m) for m in itertools.product((False, True), repeat=4)]
    flat, risk = map(np.asarray, exact.details)
    assert {tuple(m) for m in flat} == {tuple(m) for m in subsets}
    for target in range(2):
        risks = np.array([least_squares_risk(windows, target, mask) for mask in flat])
        np.testing.assert_allclose(risk[target], risks, atol=0.04)
        cost = risks + 0.08 / 4 * flat.sum(axis=1)
        found = np.asarray(from_graph_axes(exact.graph))[target].reshape(-1)
        np.testing.assert_array_equal(found, flat[np.argmin(cost)])
    np.testing.assert_array_equal(from_graph_axes(exact.graph), TRUTH)
    np.testing.assert_allclose(exact.price, 0.02, rtol=1e-6)


@pytest.mark.slow
def test_enumeration_against_one_by_one_refits(windows, exact):
    """The compiled loop over subsets equals a plain loop over subsets."""
    fit = eqx.filter_jit(lambda mask: fit_layers(windows, mask, CONFIG, 4, key=jr.key(0))[1])
    flat, risk = exact.details
    risks = np.stack([fit(jnp.stack([mask, mask])) for mask in flat], axis=1)
    np.testing.assert_allclose(risk, risks, rtol=1e-6)
    cost = np.sort(risks + 0.02 * np.asarray(flat).sum(axis=1)[None], axis=1)
    # The second best subset differs in the input with the least score.
    scores = np.asarray(from_graph_axes(exact.scores)).reshape(2, 4)
    np.testing.assert_allclose(np.abs(scores).min(axis=1), cost[:, 1] - cost[:, 0], atol=1e-6)


@pytest.mark.slow
def test_strengths_are_differences_of_the_enumeration(strengths, exact):
    np.testing.assert_array_equal(strengths.kept(0.08), exact.graph)
    # What every flip changes, read off the enumeration.
    flat, risk = map(np.asarray, exact.details)
    index = {tuple(m): i for i, m in enumerate(flat)}
    chosen = np.asarray(from_graph_axes(exact.graph)).reshape(2, 4)
    value = np.asarray(from_graph_axes(strengths.value)).reshape(2, 4)
    for target, edge in itertools.product(range(2), range(4)):
        flipped = chosen[target].copy()
        flipped[edge] ^= True
        rise = risk[target, index[tuple(flipped)]] - risk[target, index[tuple(chosen[target])]]
        expected = -rise if flipped[edge] else rise
        np.testing.assert_allclose(value[target, edge], expected, atol=0.015)


@pytest.mark.slow
def test_strengths_find_an_edge_that_the_graph_lacks(windows, exact):
    wrong = exact.graph.at[1, 0, 1].set(False)  # a true edge left out of target 0
    strengths = ndde.signal_strengths(
        windows, graph=wrong, key=jr.key(1), config=CONFIG, max_inputs=4
    )
    np.testing.assert_array_equal(strengths.kept(0.08), exact.graph)


PRICES = (0.01, 0.1, 0.5, 3.0, 30.0)
FIT = ndde.FitConfig(max_steps=300, newton_steps=10)


@pytest.fixture(scope="module", params=[ndde.L0NDDE(), ndde.AGL()], ids=["L0NDDE", "AGL"])
def along(request, windows):
    return ndde.select.coefficient_path(
        request.param, windows, PRICES, key=jr.key(2), config=FIT, refit=CONFIG
    )


@pytest.mark.slow
def test_path(along):
    graphs = np.asarray(along.graphs)
    assert graphs.shape == (5, 2, 2, 2)
    counts = graphs.sum(axis=(1, 2, 3))
    assert counts[0] >= 3 and counts[-1] == 0
    # Deaths by the definition, edge by edge.
    for edge in np.ndindex(2, 2, 2):
        alive = np.flatnonzero(graphs[(slice(None), *edge)])
        expected = 0 if not len(alive) else (*PRICES, np.inf)[alive[-1] + 1]
        np.testing.assert_allclose(along.death[edge], expected, rtol=1e-6)
    np.testing.assert_allclose(along.held_out[-1], 2, atol=0.1)
    assert float(along.held_out[1]) < 1.8
    best = int(np.argmin(np.asarray(along.held_out)))
    assert float(along.standard_error[best]) == 0
    assert float(along.select(0.0)) >= float(along.coefficients[best])
    assert float(along.select(1e9)) == pytest.approx(30.0)
    np.testing.assert_array_equal(along.graph(0.11), along.graphs[1])


@pytest.mark.slow
def test_selected_graph_holds_the_true_drivers(along):
    found = np.asarray(from_graph_axes(along.graph()))
    assert not np.any(TRUTH & ~found)


@pytest.mark.slow
def test_a_graph_met_again_is_judged_alike(windows):
    """Equal neighbours along a path share a refit, and only they do."""
    full, true = np.ones((2, 4), bool), TRUTH.reshape(2, 4)
    mixed = np.stack([full[0], true[1]])
    judge = eqx.filter_jit(lambda masks: held_out_errors(windows, masks, CONFIG, key=jr.key(0))[0])
    one_way = np.asarray(judge(np.stack([full, full, mixed, true])))
    another = np.asarray(judge(np.stack([true, mixed, full, true])))
    np.testing.assert_array_equal(one_way[:, 0], one_way[:, 1])
    np.testing.assert_allclose(one_way[:, [1, 2, 3]], another[:, [2, 1, 0]], rtol=1e-5)
    np.testing.assert_allclose(another[:, 0], another[:, 3], rtol=1e-5)
    assert np.all(one_way[:, 0] != one_way[:, 3])


@pytest.mark.slow
def test_paths_of_many_systems(windows):
    """Under vmap, the same as one by one."""
    quick = ndde.FitConfig(max_steps=40, epoch_steps=20, newton_steps=3, batch_size=16)
    refit = ndde.fitting.StrengthConfig(restarts=1, steps=3, fold_steps=2, folds=2)

    def one(key):
        found = ndde.select.coefficient_path(
            ndde.AGL(), windows, (0.1, 1.0), key=key, config=quick, refit=refit
        )
        return found.held_out

    keys = jr.split(jr.key(0), 2)
    np.testing.assert_allclose(
        jax.vmap(one)(keys), jnp.stack([one(key) for key in keys]), rtol=1e-4
    )


def test_refusals(windows):
    for coefficients, message in [
        ((0.1,), "at least two"),
        ((0.1, 0.1), "ascending"),
        ((0.0, 1.0), "positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            ndde.select.coefficient_path(ndde.AGL(), windows, coefficients, key=jr.key(0))
    with pytest.raises(ValueError, match="no penalty"):
        ndde.select.coefficient_path(ndde.NODE(), windows, (0.1, 1.0), key=jr.key(0))
    x = np.random.default_rng(0).normal(size=(60, 7)).cumsum(axis=0)
    with pytest.raises(ValueError, match="at most 12"):
        many = ndde.lagged_windows(x, dt=1.0, lags=(0, 1))
        ndde.recover(many, ndde.select.Exhaustive(), key=jr.key(0))
