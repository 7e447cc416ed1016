"""Terms of a rate: least squares, the worth of each input, and products."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ndde_jax.regression import _design, _terms
from ndde_jax.regression._design import design_of
from ndde_jax.regression._search import CURVE, LINE, OUT
from ndde_jax.regression._terms import Own, Terms, describe, find_terms, fit_terms, outside_gains

N, INPUTS = 400, 5


def record(seed=0, n=N):
    """Inputs, and a rate that follows a curve of one, a product of two, and none of the others."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, INPUTS))
    return z, np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2] + 0.5 * rng.normal(size=n)


def free(n_inputs=INPUTS):
    return np.ones(n_inputs, bool), np.zeros(n_inputs, bool)


def rows(design, terms):
    """Columns of terms, by hand."""
    parts = [
        design.features[:, i, : {LINE: 1, CURVE: design.features.shape[2]}[level]]
        for i, level in enumerate(terms.level)
        if level != OUT
    ]
    z, pairs = design.inputs, terms.pairs[terms.used]
    products = [z[:, [a]] * z[:, [b]] for a, b in pairs]
    return np.column_stack([np.ones(len(z)), *parts, *products])


def risk_of(columns, y):
    left = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
    return left @ left


def test_errors_of_inputs_count_as_rows_that_hold_nothing_else():
    """Least squares with a ridge equal those with as many more rows (Marquardt, 1970)."""
    z, rate = record()
    error = 0.01
    design = design_of(z, np.ones(N), error=error)
    y, _ = design.standardised(rate)
    terms = Terms(np.array([CURVE, OUT, OUT, CURVE, OUT]), np.zeros((0, 2), int), np.zeros(0, bool))
    fit = fit_terms(design, y, terms)
    columns = rows(design, terms)[:, 1:]
    more = np.sqrt(error) * np.eye(columns.shape[1])
    columns, longer = np.concatenate([columns, more]), np.append(y, np.zeros(len(more)))
    np.testing.assert_allclose(fit.risk, risk_of(columns, longer), rtol=1e-9)
    plain = design_of(z, np.ones(N))
    extra = design.gram.reshape(2 * (design.present.size,)) - plain.gram.reshape(
        2 * (design.present.size,)
    )
    np.testing.assert_allclose(extra, error * np.eye(len(extra)), atol=1e-12)
    other = design.with_inputs([1], z[:, [4]] + 1)
    again = design_of(np.column_stack([z[:, 0], z[:, 4] + 1, z[:, 2:]]), np.ones(N), error=error)
    np.testing.assert_allclose(other.gram, again.gram, atol=1e-12)


def test_a_fit_is_that_of_numpy():
    z, rate = record()
    design = design_of(z, np.ones(N))
    y, _ = design.standardised(rate)
    pairs = np.array([[1, 2], [0, 3]])
    terms = Terms(np.array([CURVE, LINE, OUT, LINE, OUT]), pairs, np.array([True, False]))
    fit = fit_terms(design, y, terms)
    assert fit.risk == pytest.approx(risk_of(rows(design, terms), y), rel=1e-9)
    np.testing.assert_array_equal(terms.reads(), [True, True, True, True, False])
    # Without input 1 its line and its product go; its partner's line would stay.
    less = Terms(np.array([CURVE, OUT, OUT, LINE, OUT]), pairs, np.array([False, False]))
    gone = np.arange(INPUTS) == 1
    kept = rows(design, less)
    rise = risk_of(kept, y) - fit.risk
    assert fit.rise_without(gone) == pytest.approx(rise, rel=1e-6)
    left = y - kept @ np.linalg.lstsq(kept, y, rcond=None)[0]
    np.testing.assert_allclose(fit.without(gone).residual, left, atol=1e-7)


def test_what_inputs_outside_explain_is_what_least_squares_gain():
    z, rate = record(1)
    design = design_of(z, np.ones(N))
    y, _ = design.standardised(rate)
    bent = Terms(np.array([CURVE, OUT, OUT, OUT, OUT]), np.array([[1, 2]]), np.array([True]))
    for terms, columns in ((bent, 6), (Terms.lines(np.arange(INPUTS) == 0), 1)):
        fit = fit_terms(design, y, terms)
        own = rows(design, terms)
        for i in (3, 4):
            more = np.column_stack([own, design.features[:, i, :columns]])
            gain = fit.risk - risk_of(more, y)
            assert outside_gains(design, fit)[i] == pytest.approx(gain, abs=1e-6)


def test_weights_of_zero_leave_windows_out():
    z, rate = record(2)
    weight = np.where(np.arange(N) < 300, 1.0, 0.0)
    rate = np.where(weight > 0, rate, 1e3)
    some, few = design_of(z, weight), design_of(z[:300], np.ones(300))
    terms = find_terms(few, few.standardised(rate[:300])[0], *free())
    both = [fit_terms(d, d.standardised(r)[0], terms) for d, r in ((some, rate), (few, rate[:300]))]
    assert both[0].risk == pytest.approx(both[1].risk, rel=1e-9)
    assert both[0].criterion() == pytest.approx(both[1].criterion())


@pytest.mark.parametrize("seed", range(3))
def test_the_terms_are_the_best_of_all(seed):
    """By brute force over every choice of inputs and products, linear or curved."""
    z, rate = record(seed)
    z = z[:, :4]
    design = design_of(z, np.ones(N))
    y, _ = design.standardised(rate)
    every = np.array(list(itertools.combinations(range(4), 2)))
    costs = []
    for reads in itertools.product([False, True], repeat=4):
        number = sum(reads)
        inside = [k for k, (a, b) in enumerate(every) if reads[a] and reads[b]]
        choose = 2 * math.log(math.comb(4, min(number, 2)))
        for bent in (False, True):
            for used in itertools.product([False, True], repeat=len(inside) if bent else 0):
                on = np.isin(np.arange(6), np.array(inside, int)[np.array(used, bool)])
                if bent and not (number or on.any()):
                    continue
                level = np.where(reads, CURVE if bent else LINE, OUT)
                risk = risk_of(rows(design, Terms(level, every, on)), y)
                p = (6 if bent else 1) * number + on.sum()
                pairs = 2 * math.log(math.comb(len(inside), int(on.sum()))) if bent else 0
                price = p * np.log(N) * N / (N - p - 2) + choose + pairs
                costs.append((N * np.log(risk + 1e-4) + price, reads, on.tolist()))
    found = find_terms(design, y, *free(4))
    cost, reads, on = min(costs)
    np.testing.assert_array_equal(found.reads(), reads)
    assert sorted(map(tuple, found.pairs[found.used])) == sorted(map(tuple, every[on]))
    assert fit_terms(design, y, found).criterion() == pytest.approx(cost, abs=0.05)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("place", [1, 2])
def test_products_with_the_own_state_cost_one_column_each(place, traced):
    """By hand: a rate that an input modulates. Two splines and a product would cost 13 columns."""
    rng = np.random.default_rng(place)
    z = rng.normal(size=(N, INPUTS))
    rate = 0.5 * z[:, place] + 0.35 * z[:, place] * z[:, 4] + rng.normal(size=N)
    own = Own(place, np.arange(INPUTS) != place)

    def found(z, rate, own):
        design = design_of(z, 1.0 + 0 * rate)
        y, _ = design.standardised(rate)
        allowed = rate[:INPUTS] < np.inf
        terms = find_terms(design, y, allowed, ~allowed, own=own)
        return terms, fit_terms(design, y, terms).criterion()

    found = jax.jit(found) if traced else found
    terms, cost = found(z, rate, own)
    assert np.flatnonzero(terms.reads()).tolist() == [place, 4]
    assert np.asarray(terms.pairs)[np.asarray(terms.used)].tolist() == [[place, 4]]
    columns = np.column_stack([np.ones(N), z[:, [place, 4]], z[:, place] * z[:, 4]])
    left = rate - columns @ np.linalg.lstsq(columns, rate, rcond=None)[0]
    price = 3 * np.log(N) * N / (N - 5) + 2 * math.log(math.comb(INPUTS, 2))
    assert cost == pytest.approx(N * np.log(left.var() / rate.var() + 1e-4) + price, abs=1e-3)
    without, cost_without = found(z, rate, None)
    assert np.flatnonzero(without.reads()).tolist() == [place]
    assert cost_without > cost


@pytest.mark.parametrize("traced", [False, True])
def test_products_with_what_resembles_the_own_state_are_not_taken_for_its_curve(traced):
    """A mild curve is worth less than its spline costs, but more than a product does."""

    def products(z, rate):
        design = design_of(z, 1.0 + 0 * rate)
        allowed = rate[:3] < np.inf
        own = Own(0, np.arange(3) != 0)
        y, _ = design.standardised(rate)
        return find_terms(design, y, allowed, ~allowed, own=own).used.any()

    found, rng, wrong = jax.jit(products) if traced else products, np.random.default_rng(5), 0
    for _ in range(30):
        z = rng.normal(size=(N, 3))
        z[:, 1] = z[:, 0] + 0.3 * z[:, 1]
        rate = 0.5 * z[:, 0] - 0.14 * z[:, 0] ** 2 + rng.normal(size=N)
        wrong += int(found(z, rate))
    assert wrong <= 1  # twenty, if only the criterion decided


def test_only_products_of_the_own_state_with_others_are_cheap():
    """Products of others, and of the own state with its past, cost the splines of both inputs."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(N, INPUTS))
    own = Own(1, np.isin(np.arange(INPUTS), [0, 2, 4]))  # input 3 is its past
    for pair in ([0, 2], [1, 3]):
        rate = 0.5 * z[:, 1] + 0.35 * z[:, pair[0]] * z[:, pair[1]] + rng.normal(size=N)
        design = design_of(z, np.ones(N))
        terms = find_terms(design, design.standardised(rate)[0], *free(), own=own)
        assert not terms.used.any()


def test_inputs_that_act_through_their_product_alone_are_found_among_many():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 30))
    design = design_of(z, np.ones(600))
    y, _ = design.standardised(z[:, 4] * z[:, 17] + rng.normal(size=600))
    terms = find_terms(design, y, *free(30))
    assert np.flatnonzero(terms.reads()).tolist() == [4, 17]


def test_what_is_required_is_read_and_what_is_not_allowed_is_not():
    z, rate = record(3)
    design = design_of(z, np.ones(N))
    y, _ = design.standardised(rate)
    allowed, required = np.array([1, 1, 0, 1, 1], bool), np.array([0, 0, 0, 0, 1], bool)
    reads = find_terms(design, y, allowed, required).reads()
    assert reads[4] and not reads[2] and reads[0]


@pytest.mark.slow
def test_more_inputs_than_a_search_has_room_for():
    """Forty straight lines, all needed, and all of thirty that are given."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(1500, 40))
    design = design_of(z, np.ones(1500))
    y, _ = design.standardised(z.sum(axis=1) + rng.normal(size=1500))
    assert find_terms(design, y, *free(40)).reads().all()
    mask = np.arange(40) < 30
    np.testing.assert_array_equal(find_terms(design, y, mask, mask).reads(), mask)


@pytest.mark.slow
def test_traced_as_known():
    z, rate = record(5)

    def found(z, rate):
        design = design_of(z, jnp.ones_like(rate))
        y, _ = design.standardised(rate)
        allowed = rate[:INPUTS] < jnp.inf
        terms = find_terms(design, y, allowed, ~allowed, 1)
        return describe(design, rate, terms, 1, INPUTS)

    traced = jax.jit(found)(jnp.asarray(z), jnp.asarray(rate))
    design = design_of(z, np.ones(N))
    y, _ = design.standardised(rate)
    known = describe(design, rate, find_terms(design, y, *free(), 1), 1, INPUTS)
    for one, other in zip(traced, known, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert np.flatnonzero(known.mask).tolist() == [0, 1, 2]


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_growth_that_goes_on_is_told_by_two_levels_and_not_by_others_that_grow(traced):
    """Neither of the two levels alone explains any of the growth: only their difference does."""
    growth = np.random.default_rng(2).normal(size=(200, 6))
    for k in range(1, 200):
        growth[k] += 0.6 * growth[k - 1]
    x, rows = np.cumsum(1 + growth, axis=0), np.arange(7, 199)
    z = np.concatenate([x[rows - lag] for lag in range(8)], axis=1)

    def reads(z, rate):
        design = design_of(z, 1.0 + 0 * rate)
        allowed = rate[:48] < np.inf
        return find_terms(design, design.standardised(rate)[0], allowed, ~allowed).reads()

    reads = jax.jit(reads) if traced else reads
    for j, rate in enumerate((x[rows + 1] - x[rows]).T):
        assert np.asarray(reads(z, rate))[[j, j + 6]].all()


def test_noise_has_no_terms():
    """At most one in twenty rates without drivers is given an input."""
    rng = np.random.default_rng(6)
    design = design_of(rng.normal(size=(200, 6)), np.ones(200))
    noise = rng.normal(size=(60, 200))
    found = [find_terms(design, design.standardised(y)[0], *free(6)).reads().any() for y in noise]
    assert np.mean(found) <= 0.05


@pytest.mark.parametrize("size", [0.0, 0.4])
def test_products_are_tried_together_where_all_of_them_explain_what_two_cost(size):
    """Products of three inputs; without products, chance alone seldom explains so much."""
    rng, tried = np.random.default_rng(4), []
    for _ in range(40):
        z = rng.normal(size=(400, 3))
        y = z.sum(1) + size * (z[:, 0] * z[:, 1] + z[:, 1] * z[:, 2]) + rng.normal(size=400)
        design = design_of(z, np.ones(400))
        nothing = _terms.Terms.none(3, np)
        terms = _terms._multiplied(nothing._replace(level=np.full(3, LINE, np.int32)))
        assert terms.used.sum() == 3
        rate, without = design.standardised(y)[0], terms._replace(used=np.zeros(3, bool))
        risks = (_terms.fit_terms(design, rate, one).risk for one in (without, terms))
        tried.append(_terms._worth_together(400, *risks, 3))
    assert all(tried) if size else np.mean(tried) < 0.05


def test_products_come_with_the_inner_products_of_their_columns():
    rng, error = np.random.default_rng(3), 0.01
    z = rng.normal(size=(200, 5))
    design = design_of(z, np.ones(200), error=error)
    y, _ = design.standardised(z[:, 0] * z[:, 3] + rng.normal(size=200))
    cross = (y @ design.features.reshape(200, -1)).reshape(5, -1)
    every, slots = np.ones(5, bool), np.array([0, 1, 3])
    pairs, place = np.array([[0, 3], [1, 3], [0, 1]]), np.array([[0, 2], [1, 2], [0, 1]])
    rate = _terms._Rate(y, cross, every, ~every, 200.0, True, 5)
    products = _terms._Products(pairs, np.ones(3, bool), 1.0)
    problem = _terms._problem(design, rate, slots, products, place)
    # Splines of three inputs, then each product with the straight lines of both its inputs.
    lines = design.features[:, :, 0]
    columns = [design.features[:, j] for j in slots]
    for a, b in pairs:
        one = z[:, a] * z[:, b] - np.mean(z[:, a] * z[:, b])
        columns.append(np.stack([one / np.linalg.norm(one), lines[:, a], lines[:, b]], axis=1))
    columns = np.concatenate(columns, axis=1)
    held = problem.present.reshape(-1)
    errors = error * np.diag(np.arange(columns.shape[1]) < 3 * design.width)
    n = len(held)
    np.testing.assert_allclose(
        problem.gram.reshape(n, n)[np.ix_(held, held)], columns.T @ columns + errors, atol=1e-12
    )
    np.testing.assert_allclose(problem.cross.reshape(-1)[held], columns.T @ y, atol=1e-12)


def test_inputs_a_few_at_a_time_are_as_all_at_once(monkeypatch):
    z = np.random.default_rng(4).normal(size=(300, 7))
    z[:, 6] = z[:, 6] > 0  # redundant splines
    whole = design_of(z, np.ones(300))
    monkeypatch.setattr(_design, "AT_A_TIME", 700)
    parts = design_of(z, np.ones(300))
    assert parts.features.strides == whole.features.strides
    for name in ("features", "matrix", "mean", "gram"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-10)
    np.testing.assert_array_equal(parts.present, whole.present)
    assert not whole.present.all()
