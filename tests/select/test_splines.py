"""Graphs by spline regression."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.select._basis import N_FEATURES, QUANTILES, spline

from .small import QUICK, TRUTH


def test_spline_graph_finds_the_lag_among_its_neighbours(pair):
    found = ndde.select.spline_graph(pair)
    np.testing.assert_array_equal(found.graph, TRUTH)
    assert ndde.metrics.auroc(found.evidence, TRUTH) == 1
    assert (np.asarray(found.evidence) > 0)[TRUTH].all()


def test_risk_and_rate_of_a_spline_model_are_those_of_least_squares(pair):
    found = ndde.select.spline_graph(pair)
    z = np.asarray(pair.history).reshape(len(pair.history), -1)
    y, kinds = np.asarray(pair.increment), set()
    for target in range(2):
        chosen = np.moveaxis(TRUTH, (0, 1, 2), (2, 0, 1))[target].ravel()
        root, inputs = jnp.ones(len(z)), jnp.asarray(z[:, chosen].T)
        columns = [np.asarray(spline(c, root)) for c in inputs]
        pairs = itertools.combinations(np.nonzero(chosen)[0], 2)
        designs = [
            np.column_stack([np.ones(len(z)), z[:, chosen]]),
            np.column_stack([np.ones(len(z)), *columns]),
            np.column_stack([np.ones(len(z)), *columns, *(z[:, a] * z[:, b] for a, b in pairs)]),
        ]
        fits = [d @ np.linalg.lstsq(d, y[:, target], rcond=None)[0] for d in designs]
        risks = [np.mean((y[:, target] - f) ** 2) / np.var(y[:, target]) for f in fits]
        costs = [
            len(z) * np.log(risk + 1e-4) + (design.shape[1] - 1) * np.log(len(z))
            for risk, design in zip(risks, designs, strict=True)
        ]
        best = np.argmin(costs)
        kinds.add(int(best))
        np.testing.assert_allclose(found.risk[target], risks[best], rtol=1e-6)
        np.testing.assert_allclose(found.rate[:, target], fits[best], atol=1e-4)
    assert kinds == {0, 1}  # one law is straight, the other not


def test_value_of_an_edge_is_what_its_risk_changes_by(pair):
    """The risk without the edge, or with it, is that of the only graph that a prior leaves."""
    found = ndde.select.spline_graph(pair)
    for edge in ((0, 0, 2), (1, 1, 0), (1, 0, 0)):
        other = TRUTH.copy()
        other[edge] = not TRUTH[edge]
        edges = {True: [], False: []}
        for source, target, lag in np.ndindex(other.shape):
            edges[bool(other[source, target, lag])].append((source, target, pair.lags[lag]))
        prior = ndde.prior_knowledge(
            2, lags=pair.lags, required=edges[True], forbidden=edges[False]
        )
        fixed = ndde.select.spline_graph(eqx.tree_at(lambda w: w.prior, pair, prior))
        np.testing.assert_array_equal(fixed.graph, other)
        change = float(fixed.risk[edge[1]] - found.risk[edge[1]])
        assert (change > 0) == bool(TRUTH[edge])
        np.testing.assert_allclose(found.value[edge], abs(change), rtol=1e-6)


def test_source_value_is_that_of_all_its_lags(pair):
    found = ndde.select.spline_graph(pair)
    prior = ndde.prior_knowledge(2, lags=pair.lags, forbidden=[(0, 0), (1, 0), (1, 1)])
    without = ndde.select.spline_graph(eqx.tree_at(lambda w: w.prior, pair, prior))
    # Nothing is left for x0; x1 keeps x0 where it had it.
    np.testing.assert_allclose(found.source_value[0, 0], without.risk[0] - found.risk[0], rtol=1e-6)
    assert found.source_value[0, 0] > 1.05 * np.max(found.value[0, 0])
    kept = TRUTH.sum(axis=2) == 1
    np.testing.assert_allclose(
        found.source_value[kept], np.max(found.value, axis=2, where=TRUTH, initial=0)[kept]
    )
    assert (np.asarray(found.source_value)[~TRUTH.any(axis=2)] == 0).all()


def test_restricted_cubic_splines_span_what_they_should():
    """Linear functions exactly, nothing but linear ones beyond the outer knots."""
    z = jnp.sort(jr.normal(jr.key(0), (500,)))
    basis = np.asarray(spline(z, jnp.ones(500)))
    np.testing.assert_allclose(basis.T @ basis, np.eye(N_FEATURES), atol=1e-9)
    centred = np.asarray(z - z.mean())
    np.testing.assert_allclose(basis @ (basis.T @ centred), centred, atol=1e-9)
    beyond = np.asarray(z) > np.quantile(z, QUANTILES[-1])
    line = np.stack([np.ones(beyond.sum()), np.asarray(z)[beyond]], 1)
    rest = basis[beyond] - line @ np.linalg.lstsq(line, basis[beyond], rcond=None)[0]
    assert np.abs(rest).max() < 1e-9


def test_products_are_found():
    rng = np.random.default_rng(1)
    w = ndde.lagged_windows(rng.normal(size=(600, 3)), dt=1.0)
    z = w.history[:, 0]
    w = eqx.tree_at(lambda w: w.increment, w, jnp.stack([z[:, 1] * z[:, 2], z[:, 0], z[:, 2]], 1))
    expected = np.array([[0, 1, 0], [1, 0, 0], [1, 0, 1]], bool)
    np.testing.assert_array_equal(ndde.select.spline_graph(w).graph[:, :, 0], expected)


def test_inputs_that_act_only_through_one_another_are_found_among_many():
    """No spline of either has anything to do with the product of two independent inputs."""
    rng = np.random.default_rng(0)
    w = ndde.lagged_windows(rng.normal(size=(600, 2)), dt=1.0, lags=range(30))
    z = w.history
    rates = [z[:, 3, 1] * z[:, 17, 0], z[:, 2, 0] * z[:, 25, 0] + 0.7 * z[:, 11, 1]]
    expected = np.zeros((2, 2, 30), bool)
    expected[1, 0, 3] = expected[0, 0, 17] = True
    expected[0, 1, [2, 25]] = expected[1, 1, 11] = True
    found = ndde.select.spline_graph(eqx.tree_at(lambda w: w.increment, w, jnp.stack(rates, 1)))
    np.testing.assert_array_equal(found.graph, expected)
    for target in range(2):  # what the model has leads the shortlist
        drivers = np.flatnonzero(np.moveaxis(expected, 2, 0)[:, :, target])
        assert set(drivers) == set(np.asarray(found.shortlist)[target, : len(drivers)])


@pytest.mark.slow
def test_a_full_shortlist_makes_room():
    """Products of neighbours on a ring: the first models fill their shortlists with stand-ins."""
    system = ndde.systems.get("lorenz96_delayed")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=1 / 300, n_steps=40000, history=system.history,
        sigma=0.5, key=jr.key(0), save_every=10,
    )  # fmt: skip
    lags = (0, 5, 10, 15, 20, 25)
    found = ndde.select.spline_graph(
        ndde.select.midpoint_windows(path.ys[500:], dt=1 / 30, lags=lags)
    )
    expected = np.zeros((6, 6, 6), bool)
    for i in range(6):
        expected[[(i + 1) % 6, i - 2, i - 1, i], i, 0] = True
        expected[(i + 3) % 6, i, 3] = True
    np.testing.assert_array_equal(found.graph, expected)


def test_padding_changes_nothing(pair):
    from ndde_jax.windows._stack import pad_windows

    padded = pad_windows(pair, len(pair.history) + 100)
    a, b = ndde.select.spline_graph(pair), ndde.select.spline_graph(padded)
    np.testing.assert_array_equal(a.graph, b.graph)
    np.testing.assert_allclose(a.evidence, b.evidence, rtol=1e-6, atol=1e-9)


def test_a_constant_variable_gives_nan(pair):
    w = eqx.tree_at(lambda w: w.increment, pair, pair.increment.at[:, 0].set(0))
    found = ndde.select.search_lags(w, key=jr.key(0), config=QUICK)
    assert np.isnan(found.evidence).all() and not np.asarray(found.graph).any()
