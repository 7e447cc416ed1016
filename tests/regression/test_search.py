"""Sums and their search, against exhaustive search, statsmodels and plain least squares."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm

from ndde_jax.regression import Problem, design_of, search, search_known, sums_of
from ndde_jax.regression._search import (
    FLOOR,
    best_pair_of_lines,
    best_pairs,
    columns_price,
    known_options,
    quadratic_forms,
    search_from,
)

WIDTH = 3
PER_TARGET = ("cross", "power", "allowed", "required")


def record(seed, n=200, groups=4, targets=2):
    """Groups (z, z², z³) of correlated variables, and targets driven by some of them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, groups)) @ (np.eye(groups) + 0.4 * rng.normal(size=(groups, groups)))
    z = z / z.std(axis=0)
    y = 0.5 * z[:, :1] + 0.4 * z[:, 1:2] ** 2 + rng.normal(size=(n, targets))
    return np.stack([z, z**2, z**3], axis=-1).reshape(n, -1), y


def problem(x, y, **changes):
    sums = sums_of(x, y, np.ones(len(x)))
    return Problem.of(sums, WIDTH, n=len(x))._replace(**changes)


def columns_of(level):
    """Column numbers of groups at levels 0, 1 (the line) and 2 (all)."""
    return [g * WIDTH + k for g, at in enumerate(level) for k in range((0, 1, WIDTH)[at])]


def criterion(x, y, level):
    """The documented criterion, by least squares on the columns themselves."""
    used, n = columns_of(level), len(x)
    a = np.column_stack([np.ones(n), x[:, used]])
    left = y - a @ np.linalg.lstsq(a, y, rcond=None)[0]
    risk = (left @ left) / np.sum((y - y.mean()) ** 2)
    held, n_groups = sum(at > 0 for at in level), len(level)
    # Choosing more than half of the groups costs as much as choosing half of them.
    ways = np.log(math.comb(n_groups, min(held, n_groups // 2)))
    p = len(used)
    return n * np.log(risk + FLOOR) + p * np.log(n) * n / (n - p - 2) + 2 * ways, risk


@pytest.mark.parametrize("seed", range(8))
def test_it_ends_at_the_best_of_all_models(seed):
    x, y = record(seed)
    found = search_known(problem(x, y))
    for j in range(y.shape[1]):
        every = {
            level: criterion(x, y[:, j], level)[0]
            for level in itertools.product(range(3), repeat=4)
        }
        best = min(every, key=every.get)
        assert tuple(found.level[j]) == best
        np.testing.assert_allclose(found.cost[j], every[best], atol=1e-3)
        np.testing.assert_allclose(found.risk[j], criterion(x, y[:, j], best)[1], rtol=1e-5)


def test_a_group_is_worth_what_the_risk_rises_by_without_it():
    x, y = record(3)
    found = search_known(problem(x, y))
    level = found.level[0]
    for group in np.flatnonzero(level):
        without = np.where(np.arange(4) == group, 0, level)
        ols = [
            sm.OLS(y[:, 0], sm.add_constant(x[:, columns_of(own)])).fit()
            for own in (level, without)
        ]
        rise = np.log((1 - ols[1].rsquared + FLOOR) / (1 - ols[0].rsquared + FLOOR))
        np.testing.assert_allclose(found.change[0, group], rise, rtol=1e-4)


@pytest.mark.parametrize("x64", [True, False])
def test_traced_and_in_a_batch_as_alone(x64):
    with jax.enable_x64(x64):
        problems = [problem(*record(seed)) for seed in (0, 1)]
        traced = [jax.tree.map(jnp.asarray, one) for one in problems]
        batch = jax.tree.map(lambda *a: jnp.stack(a), *traced)
        found = eqx.filter_jit(eqx.filter_vmap(search))(batch)
        for k, one in enumerate(problems):
            alone = search_known(one)
            np.testing.assert_array_equal(found.level[k], alone.level)
            np.testing.assert_allclose(found.risk[k], alone.risk, rtol=1e-9 if x64 else 1e-3)


def test_priors_and_prices_are_obeyed():
    x, y = record(0)
    allowed = np.ones((2, 4), bool)
    allowed[:, 0] = False
    required = np.zeros((2, 4), bool)
    required[:, 3] = True
    found = search_known(problem(x, y, allowed=allowed, required=required))
    assert not found.level[:, 0].any() and (found.level[:, 3] > 0).all()
    assert not search_known(problem(x, y, price=np.full(4, 1e4))).level.any()


def test_a_start_in_a_worse_optimum_is_left():
    x, y = record(5)
    alone = search_known(problem(x, y))
    begun = search_known(problem(x, y), np.full((2, 4), 2, np.int32))
    np.testing.assert_allclose(begun.cost, alone.cost, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_where_each_input_counts_for_nothing_beside_the_others(seed):
    """Powers of one number are proxies for one another: a dropped one is wanted back, and so on."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, 300)
    z = np.stack([t**k for k in range(1, 9)], axis=1) + 1e-2 * rng.normal(size=(300, 8))
    design = design_of(z, np.ones(300))
    y = np.stack([design.standardised(one)[0] for one in (np.exp(t), np.sin(3 * t))], axis=1)
    sums = sums_of(design.features.reshape(300, -1), y, np.ones(300))
    charge = design.present.sum(axis=1).astype(np.int32)
    found = search_known(Problem.of(sums, design.features.shape[2], n=300)._replace(charge=charge))
    assert found.ended.all() and (found.risk < 1e-3).all()


def test_no_model_wins_by_interpolation():
    """Sixty columns of noise explain twenty windows of noise entirely; few are ever selected."""
    taken = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(20, 60)), rng.normal(size=(20, 3))
        found = search_known(problem(x, y))
        columns = [sum((0, 1, WIDTH)[at] for at in level) for level in found.level]
        assert max(columns) <= 20 / 4
        taken += int((found.level > 0).sum())
    assert taken <= 12  # of 600


def test_the_price_of_columns_has_no_bound():
    price = [float(columns_price(40.0, p)) for p in (1, 5, 10, 11, 38, 50)]
    assert np.all(np.diff(price[:3]) > 0) and np.isinf(price[3:]).all()
    np.testing.assert_allclose(price[2], 10 * np.log(40) * 40 / 28)
    # One of many: log n.
    np.testing.assert_allclose(columns_price(1e6, 1), np.log(1e6), rtol=1e-4)


def test_sums_add_up_over_blocks_and_recordings():
    x, y = record(0)
    w = np.random.default_rng(1).uniform(size=len(x)) * (np.arange(len(x)) % 7 > 0)
    whole, blocks = sums_of(x, y, w), sums_of(x, y, w, 5)
    parts = sums_of(x[:90], y[:90], w[:90]) + sums_of(x[90:], y[90:], w[90:])
    for made in (jax.tree.map(lambda a: a.sum(0, keepdims=True), blocks), parts):
        for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(made), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(blocks.weight[1:3].sum(), w[40:120].sum())


def test_groups_are_orthonormal_and_redundant_columns_are_gone():
    x, y = record(0)
    x[:, 4] = 2 * x[:, 3] + 5  # a curve that is the line again
    made = problem(x, y)
    assert made.present[1].tolist() == [True, False, True]
    columns = (x - x.mean(axis=0)).reshape(len(x), -1, WIDTH)
    for g in range(4):
        q, r = np.linalg.qr(columns[:, g, made.present[g]])
        columns[:, g], columns[:, g, made.present[g]] = 0, q * np.sign(np.diag(r))
    flat = columns.reshape(len(x), -1)
    np.testing.assert_allclose(made.gram.reshape(12, 12), flat.T @ flat, atol=1e-6)
    np.testing.assert_allclose(made.cross.reshape(2, 12), y.T @ flat, atol=1e-6)


def test_options_that_a_release_of_the_compiler_lacks_are_left_out():
    """The emitters that the search requests do not exist since jaxlib 0.11.1."""
    options = {"xla_backend_optimization_level": 1, "xla_no_such_option": True}
    assert known_options(options) == {"xla_backend_optimization_level": 1}


def test_a_program_compiled_at_once_finds_what_a_better_one_does(monkeypatch):
    """Their results differ by rounding."""
    problems = [problem(*record(seed)) for seed in range(4)]
    monkeypatch.setattr("ndde_jax.regression._search.QUICK", 10**9)
    quick = [search_known(one) for one in problems]
    monkeypatch.setattr("ndde_jax.regression._search.QUICK", 0)
    for one, before in zip(problems, quick, strict=True):
        after = search_known(one)
        np.testing.assert_array_equal(after.level, before.level)
        for name in ("risk", "cost", "change"):
            np.testing.assert_allclose(getattr(after, name), getattr(before, name), rtol=1e-9)


def test_many_targets_are_searched_as_one_after_the_other():
    """Targets are compiled eight at a time, and with room for few groups at first if there are many
    to choose from.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 220))
    y = x[:, :130] @ (rng.random((130, 11)) < 0.06) + rng.normal(size=(400, 11))
    whole = Problem.of(sums_of(x, y, np.ones(400)), 1, n=400)
    found = search_known(whole)
    assert (found.level > 0).sum(1).max() > 6
    for j in range(11):
        own = {name: getattr(whole, name)[j : j + 1] for name in PER_TARGET}
        one = search_known(whole._replace(**own))
        np.testing.assert_array_equal(one.level[0], found.level[j])
        np.testing.assert_allclose(one.change[0], found.change[j], rtol=1e-9)


def test_several_starts_are_searched_as_one_after_the_other():
    whole = problem(*record(5, groups=6, targets=3))
    starts = (None, np.full((3, 6), 2, np.int32), best_pairs(whole))
    every = search_from(whole, starts)
    assert len(every) == 3
    for start, found in zip(starts, every, strict=True):
        one = search_known(whole, start)
        assert all(map(np.array_equal, one, found))


def test_the_best_pair_is_that_of_all_pairs():
    x, y = record(5, groups=6)
    allowed = np.ones((2, 6), bool)
    allowed[1, 0] = False
    level = best_pairs(problem(x, y, allowed=allowed))
    x = x - x.mean(axis=0)
    for j in range(2):
        among = np.flatnonzero(allowed[j])
        left = {
            pair: np.linalg.lstsq(
                x[:, columns_of(2 * np.isin(range(6), pair))], y[:, j] - y[:, j].mean(), rcond=None
            )[1][0]
            for pair in itertools.combinations(among, 2)
        }
        assert tuple(np.flatnonzero(level[j])) == min(left, key=left.get)


@pytest.mark.parametrize("of", [np, jnp])
def test_the_best_pair_of_lines_is_that_of_all_pairs(of):
    rng = np.random.default_rng(5)
    x = np.cumsum(rng.normal(size=(300, 9)), axis=0)
    x[:, 8] = x[:, 7]  # with its copy it adds nothing to it
    x -= x.mean(axis=0)
    y = x[:, 2] - 0.9 * x[:, 5] + rng.normal(size=300)
    allowed = np.arange(9) != 0
    level = best_pair_of_lines(of.asarray(x.T @ x), of.asarray(x.T @ y), of.asarray(allowed))
    risks = {
        pair: np.sum((y - (z := x[:, pair]) @ np.linalg.lstsq(z, y, rcond=None)[0]) ** 2)
        for pair in itertools.combinations(range(1, 9), 2)
    }
    assert tuple(np.flatnonzero(level)) == min(risks, key=risks.get)
    assert not best_pair_of_lines(of.asarray(x.T @ x), of.asarray(x.T @ y), of.zeros(9, bool)).any()


@pytest.mark.parametrize("width", [3, 12])
def test_elimination_is_that_of_numpy(width):
    rng = np.random.default_rng(0)
    root, b = rng.normal(size=(5, width, width)), rng.normal(size=(5, width))
    a = root @ root.swapaxes(1, 2) + np.eye(width)
    expected = [
        np.einsum("gi,gi->g", b[:, :k], np.linalg.solve(a[:, :k, :k], b[:, :k, None])[..., 0])
        for k in range(1, width + 1)
    ]
    for xp in (np, jnp):
        got = quadratic_forms(xp.asarray(a), xp.asarray(b))
        np.testing.assert_allclose(got, np.stack(expected, axis=1), rtol=1e-9)
