"""Strengths as the paper defines them, against regressions on all subsets and a closed form."""

import itertools

import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import theory

QUICK = ndde.fitting.StrengthConfig(restarts=2, steps=30, folds=2, fold_steps=2, width=4, depth=1)
# Weights of three inputs, the third of which nearly repeats the first.
WEIGHTS = np.array([0.8, -0.5, 0.0])
APART = 0.5


def copies(n=1500):
    """Fresh random states at every step, so that all rates are regressions: x0' = w · x, the others
    are pulled to fresh values. cov = [[1, 0, 1], [0, 1, 0], [1, 0, 1 + APART²]].
    """
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 3))
    z[:, 2] = z[:, 0] + APART * z[:, 2]
    rates = np.stack([z @ WEIGHTS + 0.3 * rng.normal(size=n), *rng.normal(size=(2, n))], axis=1)
    return z, rates


@pytest.fixture(scope="module")
def windows():
    import equinox as eqx
    import jax.numpy as jnp

    z, rates = copies()
    template = ndde.lagged_windows(np.random.default_rng(1).normal(size=(len(z) + 1, 3)), dt=1.0)
    z, rates = ((a - a.mean(0)) / a.std(0) for a in (z, rates))
    like = lambda a: jnp.asarray(a, template.history.dtype)  # noqa: E731
    return eqx.tree_at(
        lambda w: (w.history, w.increment), template, (like(z)[:, None], like(rates))
    )


@pytest.fixture(scope="module")
def found(windows):
    return theory.paper_strengths(windows, key=jr.key(0), config=QUICK)


def least_squares(windows, target, inputs):
    z = np.asarray(windows.history)[:, 0][:, list(inputs)]
    y = np.asarray(windows.increment)[:, target]
    z = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    return np.mean((y - z @ np.linalg.lstsq(z, y, rcond=None)[0]) ** 2)


def brute_force(windows, target, source):
    """The best regression over all sets without the source, minus the best over all."""
    sets = [s for r in range(4) for s in itertools.combinations(range(3), r)]
    best = min(least_squares(windows, target, s) for s in sets)
    return min(least_squares(windows, target, s) for s in sets if source not in s) - best


@pytest.mark.slow
def test_every_subset_against_regressions_on_every_subset(windows, found):
    assert found.exhaustive
    for target, source in itertools.product(range(3), range(3)):
        expected = brute_force(windows, target, source)
        assert float(found.value[source, target, 0]) == pytest.approx(expected, abs=0.015)
    np.testing.assert_array_equal(found.graph[:, 0, 0], [True, True, False])
    np.testing.assert_array_equal(found.graph[:, 1:, 0], False)


def test_against_the_closed_form_of_a_normal_law(found):
    """s² = w² / (Σ⁻¹)_ii: the variance of an input not explained by the others, times its squared
    weight, as a share of the variance of the rate.
    """
    covariance = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1 + APART**2]])
    variance = WEIGHTS @ covariance @ WEIGHTS + 0.09
    exact = WEIGHTS**2 / np.diag(np.linalg.inv(covariance)) / variance
    assert exact[0] == pytest.approx(0.64 * 0.2 / variance)
    np.testing.assert_allclose(found.value[:, 0, 0], exact, atol=0.03)
    # The window is that of the smallest over two inputs.
    smallest = min(exact[:2])
    assert float(found.smallest) == pytest.approx(smallest, abs=0.03)
    assert int(found.largest_degree) == 2
    assert float(found.window(10.0)) == pytest.approx(10 * float(found.smallest) / 2, rel=1e-5)


@pytest.mark.slow
def test_relative_to_a_graph_strengths_are_larger(windows, found):
    """There the copy may not be a proxy for the first input, so the window would be overstated."""
    graph = np.zeros((3, 3, 1), bool)
    graph[:2, 0] = True
    ours = ndde.signal_strengths(windows, graph=graph, key=jr.key(0), config=QUICK)
    covariance = np.array([[1.0, 0], [0, 1]])
    variance = WEIGHTS[:2] @ covariance @ WEIGHTS[:2] + 0.09
    assert float(ours.value[0, 0, 0]) == pytest.approx(0.64 / variance, abs=0.04)
    assert float(ours.value[0, 0, 0]) > 3 * float(found.value[0, 0, 0])


def test_the_largest_set_without_an_edge_stands_in_for_all_sets(windows, found):
    graph = np.asarray(found.graph)
    other = theory.paper_strengths(
        windows, key=jr.key(1), graph=graph, config=QUICK, most_subsets=0
    )
    assert not other.exhaustive
    np.testing.assert_array_equal(np.isfinite(np.asarray(other.value)), graph)
    np.testing.assert_allclose(
        np.asarray(other.value)[graph], np.asarray(found.value)[graph], atol=0.02
    )
    np.testing.assert_allclose(other.risk, found.risk, atol=0.03)


def test_without_edges_there_is_no_window(found):
    import equinox as eqx
    import jax.numpy as jnp

    empty = eqx.tree_at(lambda f: f.graph, found, jnp.zeros_like(found.graph))
    assert float(empty.window()) == 0
