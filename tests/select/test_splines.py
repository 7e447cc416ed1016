"""Graphs by spline regression."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.regression._design import QUANTILES, WIDTH, design_of
from ndde_jax.regression._terms import find_terms, fit_terms

from .small import QUICK, TRUTH, lorenz_ring


def test_spline_graph_finds_the_lag_among_its_neighbours(pair):
    found = ndde.select.spline_graph(pair)
    np.testing.assert_array_equal(found.graph, TRUTH)
    assert ndde.metrics.auroc(found.evidence, TRUTH) == 1
    assert (np.asarray(found.evidence) > 0)[TRUTH].all()


def test_risk_and_rate_are_those_of_the_best_of_all_models(pair):
    """Linear, or curved with every choice of products, by NumPy's least squares."""
    found = ndde.select.spline_graph(pair)
    z = np.asarray(pair.history).reshape(len(pair.history), -1)
    y, best_kinds = np.asarray(pair.increment), []
    for target in range(2):
        chosen = np.flatnonzero(np.moveaxis(TRUTH, (0, 1, 2), (2, 0, 1))[target].ravel())
        splines = design_of(z[:, chosen], np.ones(len(z))).features
        pairs = list(itertools.combinations(range(len(chosen)), 2))
        costs = {}
        for bent in (False, True):
            for used in itertools.product([False, True], repeat=len(pairs) if bent else 0):
                parts = [splines[:, i, : WIDTH if bent else 1] for i in range(len(chosen))]
                parts += [
                    z[:, chosen[[a]]] * z[:, chosen[[b]]]
                    for (a, b), u in zip(pairs, used, strict=bent)
                    if u
                ]
                design = np.column_stack([np.ones(len(z)), *parts])
                fit = design @ np.linalg.lstsq(design, y[:, target], rcond=None)[0]
                risk = np.mean((y[:, target] - fit) ** 2) / np.var(y[:, target])
                n, p = len(z), design.shape[1] - 1
                cost = n * np.log(risk + 1e-4) + p * np.log(n) * n / (n - p - 2)
                costs[cost + 2 * np.log(math.comb(len(pairs), sum(used)))] = risk, fit, bent
        risk, fit, bent = costs[min(costs)]
        best_kinds.append(bent)
        np.testing.assert_allclose(found.risk[target], risk, rtol=1e-6)
        np.testing.assert_allclose(found.rate[:, target], fit, atol=1e-4)
    assert sorted(best_kinds) == [False, True]  # one law is linear, the other not


def test_value_of_an_edge_is_what_its_risk_changes_by(pair):
    """The risk without a kept edge, by least squares without the columns that read it."""
    found = ndde.select.spline_graph(pair)
    z = np.asarray(pair.history).reshape(len(pair.history), -1)
    design = design_of(z, np.ones(len(z)))
    for target in range(2):
        chosen = np.moveaxis(TRUTH, (0, 1, 2), (2, 0, 1))[target].ravel()
        y, _ = design.standardised(np.asarray(pair.increment)[:, target])
        fit = fit_terms(design, y, find_terms(design, y, chosen, chosen))
        for i in np.flatnonzero(chosen):
            rest = fit.columns[:, ~fit.reads[:, i]]
            left = y - rest @ np.linalg.lstsq(rest, y, rcond=None)[0] if rest.size else y
            lag, source = divmod(i, 2)
            np.testing.assert_allclose(
                found.value[source, target, lag], left @ left - fit.risk, rtol=1e-5
            )
    # The others hold the part explained by chance, the share of one column or spline.
    value = np.asarray(found.value)
    assert value[TRUTH].min() > 10 * value[~TRUTH].max() > 0


def test_source_value_is_that_of_all_its_lags(pair):
    found = ndde.select.spline_graph(pair)
    prior = ndde.prior_knowledge(2, lags=pair.lags, forbidden=[(0, 0), (1, 0), (1, 1)])
    without = ndde.select.spline_graph(eqx.tree_at(lambda w: w.prior, pair, prior))
    # x0 has no input left; x1 keeps x0 where it had it.
    np.testing.assert_allclose(found.source_value[0, 0], without.risk[0] - found.risk[0], rtol=1e-6)
    assert found.source_value[0, 0] > 1.05 * np.max(found.value[0, 0])
    kept = TRUTH.sum(axis=2) == 1
    np.testing.assert_allclose(
        found.source_value[kept], np.max(found.value, axis=2, where=TRUTH, initial=0)[kept]
    )
    assert (np.asarray(found.source_value)[~TRUTH.any(axis=2)] == 0).all()


def test_restricted_cubic_splines_span_what_they_should():
    """Linear functions exactly, and only linear ones beyond the outer knots."""
    z = jnp.sort(jr.normal(jr.key(0), (500,)))
    basis = design_of(np.asarray(z)[:, None], np.ones(500)).features[:, 0]
    np.testing.assert_allclose(basis.T @ basis, np.eye(WIDTH), atol=1e-9)
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
    """No spline of either input is related to the product of two independent inputs."""
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
def test_products_of_present_states_are_found_among_many_lags():
    """Sums over all lags follow the smooth path of a ring closely, but its drift has products."""
    x, truth = lorenz_ring(5, 400)
    windows = ndde.lagged_windows(x, dt=0.05, lags=range(5), scheme="central4")
    found = ndde.select.spline_graph(windows)
    np.testing.assert_array_equal(found.graph[:, :, 0], truth)
    assert not np.asarray(found.graph)[:, :, 1:].any()
    # Like a search of the present alone, at the price of five times as many candidates.
    alone = ndde.select.spline_graph(
        ndde.lagged_windows(x[4:], dt=0.05, lags=(0,), scheme="central4")
    )
    np.testing.assert_array_equal(found.products, alone.products)
    assert (np.asarray(found.cost) > np.asarray(alone.cost)).all()


@pytest.mark.slow
def test_a_full_shortlist_makes_room():
    """Products of neighbours on a ring: the first models fill their shortlists with proxies."""
    system = ndde.systems.get("lorenz96_delayed")
    path = ndde.solve_sdde(
        system.drift, lags=system.lags, dt=1 / 300, n_steps=20000, history=system.history,
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
    from ndde_jax.windows._windows import pad_windows

    padded = pad_windows(pair, len(pair.history) + 100)
    a, b = ndde.select.spline_graph(pair), ndde.select.spline_graph(padded)
    np.testing.assert_array_equal(a.graph, b.graph)
    np.testing.assert_allclose(a.evidence, b.evidence, rtol=1e-6, atol=1e-9)


def test_a_constant_variable_gives_nan(pair):
    w = eqx.tree_at(lambda w: w.increment, pair, pair.increment.at[:, 0].set(0))
    found = ndde.recover(w, ndde.select.Moves(refit=QUICK), key=jr.key(0))
    assert np.isnan(found.scores).all() and not np.asarray(found.graph).any()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["risk", "scores"])
def test_worth_has_the_derivatives_of_differences(pair, what):
    """By rates and by states, on the graph that is found; single terms enter or leave at jumps."""

    @jax.jit
    def total(c):
        moved = eqx.tree_at(
            lambda w: (w.increment, w.history),
            pair,
            (
                pair.increment + c * jnp.sin(pair.history[:, 0]),
                pair.history + c * jnp.cos(3 * pair.history),
            ),
        )
        return jnp.sum(getattr(ndde.recover(moved, ndde.select.Splines(), key=jr.key(0)), what))

    at, step = 0.01, 1e-5
    difference = (total(at + step) - total(at - step)) / (2 * step)
    np.testing.assert_allclose(jax.jit(jax.grad(total))(at), difference, rtol=1e-5)
    assert abs(difference) > 1e-4
