"""Maps with sources that act over several lags, against all graphs, least squares and the truth."""

import itertools
import math

import jax
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.regression import Problem, Readings, compare_readings, sums_of
from ndde_jax.regression._distributed import _Prices, distributed_lags
from ndde_jax.select._screened import Screened

LAGS, FLOOR = 4, 1e-4


def autoregression(seed, dim, n, size, own=0.2, at=(0, 1, 2), parents=1):
    """A vector autoregression and its links `[source target lag]`: `parents` other variables drive
    each, at some lags with the same size.
    """
    rng, links = np.random.default_rng(seed), np.zeros((dim, dim, LAGS), bool)
    matrix = own * np.eye(dim)
    for target in range(dim):
        others = np.delete(np.arange(dim), target)
        matrix[target, rng.choice(others, parents, replace=False)] = size
    links[..., list(at)] = (matrix.T != 0)[..., None]
    x = np.zeros((n + 100, dim))
    for t in range(LAGS, len(x)):
        x[t] = matrix @ sum(x[t - 1 - lag] for lag in at) + rng.normal(size=dim)
    return x[100:], links


def columns(x):
    """Straight lines of all inputs (lag, source), and the rates."""
    at = np.arange(LAGS, len(x) - 1)
    return np.concatenate([x[at - lag] for lag in range(LAGS)], axis=1), x[at + 1] - x[at]


def problem(lines, rates, **changes):
    sums = sums_of(lines, rates, np.ones(len(lines)))
    return Problem.of(sums, 1, n=len(lines))._replace(**changes)


def log_risk(lines, rate, mask):
    """Values by least squares on the columns themselves."""
    a = np.column_stack([np.ones(len(rate)), lines[:, mask]])
    left = rate - a @ np.linalg.lstsq(a, rate, rcond=None)[0]
    return len(rate) * np.log(left @ left / np.sum((rate - rate.mean()) ** 2) + FLOOR)


def best_of_all(lines, rates):
    """The graph of two variables that is best by the documented criterion, and its value."""
    n, dim = rates.shape
    every = [np.array(mask) for mask in itertools.product([False, True], repeat=dim * LAGS)]
    rows = []
    for j in range(dim):
        risk = {tuple(mask): log_risk(lines, rates[:, j], mask) for mask in every}
        for mask in every:
            lags = mask.reshape(LAGS, dim).sum(axis=0)
            p, other = mask.sum(), lags[1 - j]
            usual = p * np.log(n) * n / (n - p - 2)
            choice = math.log(math.comb(dim, np.count_nonzero(lags)))
            choice += sum(math.log(LAGS * math.comb(LAGS, k)) for k in lags if k)
            own = mask & (np.arange(len(mask)) % dim == j)
            fit = risk[tuple(mask)]
            rows.append((fit + usual + 2 * choice, other, risk[tuple(own)] - fit))
    size = len(every)
    one, two = (np.array(rows[j * size : (j + 1) * size]) for j in range(dim))
    cost, count, rise = (a[:, None] + b[None] for a, b in zip(one.T, two.T, strict=True))
    square = np.where(count > 0, rise / np.maximum(count, 1), n)
    column = np.minimum(1 + np.log(np.maximum(square, 1)), np.log(n))
    total = cost - count * (np.log(n) - column)
    best = np.unravel_index(total.argmin(), total.shape)
    return np.stack([every[k] for k in best]), total.min()


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 6, 8])
def test_it_ends_at_the_best_of_all_graphs(seed):
    lines, rates = columns(autoregression(seed, 2, 300, 0.2, own=0.1)[0])
    mask, cost = best_of_all(lines, rates)
    start = np.zeros(mask.shape, bool)
    start[0, 1] = start[1, 0] = True
    found = distributed_lags(problem(lines, rates), LAGS, start)
    np.testing.assert_array_equal(found.mask, mask)
    np.testing.assert_allclose(found.cost, cost, atol=1e-2)


@pytest.mark.slow
def test_it_ends_within_a_nat_of_the_best():
    """Two simultaneous moves, and their effect on the size of effects, are not searched."""
    for seed in range(20):
        lines, rates = columns(autoregression(seed, 2, 300, 0.2, own=0.1)[0])
        found = distributed_lags(problem(lines, rates), LAGS, np.ones((2, 2 * LAGS), bool))
        assert -1e-2 < found.cost - best_of_all(lines, rates)[1] < 2


def test_priors_are_obeyed():
    lines, rates = columns(autoregression(0, 2, 300, 0.2)[0])
    allowed, required = np.ones((2, 8), bool), np.zeros((2, 8), bool)
    allowed[:, 1], required[:, 7] = False, True
    limits = problem(lines, rates, allowed=allowed, required=required)
    found = distributed_lags(limits, LAGS, np.ones((2, 8), bool))
    assert not found.mask[:, 1].any() and found.mask[:, 7].all()


def test_choices_cost_no_more_than_their_tangents():
    rng, prices = np.random.default_rng(0), _Prices(5, 6, 500.0, 20.0)

    def choices(mask):
        each = prices.each(mask)
        return prices.sources()[(each > 0).sum()] + prices.lags()[each].sum()

    for less in (False, True):
        for share in (0.1, 0.5, 0.9):
            one, other = rng.random((2, 200, 30)) < share
            for a, b in zip(one, other, strict=True):
                slope = prices.slopes(0, a, less=less) + prices.discount() * (np.arange(30) % 5 > 0)
                assert choices(b) <= choices(a) + slope @ (b.astype(float) - a) + 1e-9


def read(x):
    x, dim = (x - x.mean(axis=0)) / x.std(axis=0), x.shape[1]
    allowed = np.ones((dim, dim, LAGS), bool)
    return compare_readings([x], tuple(range(LAGS)), allowed, ~allowed)


def right_and_false(graph, links):
    off = ~np.eye(len(links), dtype=bool)
    return int((graph & links)[off].sum()), int((graph & ~links)[off].sum())


def test_weak_links_at_several_lags_are_found_together():
    x, links = autoregression(2, 4, 500, 0.12, own=0.1)
    found = read(x)
    assert found.name == "map"
    assert right_and_false(found.map_graph, links) == (7, 0)
    assert right_and_false(found.distributed, links) == (11, 0)


@pytest.mark.parametrize("at", [(0,), (3,)])
def test_sources_at_one_lag_are_left_to_the_plain_map(at):
    x, _ = autoregression(0, 4, 500, 0.3, at=at)
    assert read(x).distributed is None


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 200, 1000])
def test_nothing_is_found_together_where_nothing_drives(n):
    """Autoregressions of three lags: none of 40 records has weak links at several lags."""
    chosen = [read(autoregression(seed, 5, n, 0.0)[0]).distributed for seed in range(40)]
    assert sum(graph is not None for graph in chosen) == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_discover_keeps_them(seed):
    x, links = autoregression(seed, 8, 800, 0.1, own=0.1, parents=2)
    found = ndde.discover(x, dt=1.0, lags=range(LAGS), key=jax.random.key(0))
    right, false = right_and_false(np.asarray(found.graph), links)
    assert right >= 0.75 * 3 * 16 and false <= 0.2 * right
    # Individually they are weak, and the report says so.
    assert not str(found.verdict).startswith("supported")


def test_a_report_says_that_sources_were_chosen_before_their_lags():
    rng, price = np.random.default_rng(4), ndde.select.EBIC()
    windows = ndde.lagged_windows(rng.normal(size=(300, 2)), dt=1.0, lags=(0, 1), scheme="euler")
    graph = np.zeros((2, 2, 2), bool)
    graph[0, 1] = True
    for distributed, said in ((graph, 1), (None, 0)):
        readings = Readings(np.array([-9.0, 0.0]), graph, graph, np.zeros(2), distributed)
        screened = Screened(windows, readings=readings)
        found = ndde.select.Default(networks=None)._search(screened, price, jax.random.key(0))
        remarks = found.measured.remarks
        assert len(remarks) == said and all("Sources act over several lags" in r for r in remarks)
