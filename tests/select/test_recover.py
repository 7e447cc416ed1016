"""One suite for all strategies: a new one adds a line to `STRATEGIES`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import ndde_jax as ndde
from benchmarks.world.data import record
from ndde_jax import select
from ndde_jax.select._default import MANY_INPUTS
from tests.helpers import TRUTH, windows

REFIT = ndde.fitting.StrengthConfig(restarts=1, steps=15, fold_steps=6, folds=2, blocks=4, width=6)
FIT = ndde.FitConfig(max_steps=300, newton_steps=15, width=6, refine="none", learning_rate=5e-3)
GRID = jnp.array([0.02, 0.1, 0.5])
# Strategies that price columns, and refuse other prices.
OF_COLUMNS = ("Splines",)
STRATEGIES = {
    "Default": select.Default(select.Splines(shortlist=3), networks=None),
    "Gates": select.Gates(ndde.L0NDDE(path=(0.02, 0.1)), FIT, REFIT),
    "Gates, as they are": select.Gates(ndde.L0NDDE(0.1, path=()), FIT, improve=False),
    "Gates, group lasso": select.Gates(ndde.AGL(0.3), FIT, REFIT),
    "Gates, from everything": select.Gates(starts=np.ones((3, 3, 1), bool), refit=REFIT),
    "Splines": select.Splines(shortlist=3),
    "Moves": select.Moves(shortlist=3, refit=REFIT),
    # Every subset is fitted from random starts only, one in ten of which ends in a poor minimum.
    "Exhaustive": select.Exhaustive(ndde.fitting.StrengthConfig(restarts=3, steps=20, width=6)),
    "CoefficientPath": select.CoefficientPath(GRID, ndde.L0NDDE(), FIT, REFIT),
}
# Splines accept the extended Bayesian information criterion only. With one kind of price
# everywhere, the tests of a strategy share its programs.
PRICES = {
    name: None if name in ("Default", *OF_COLUMNS) else select.PerInput(0.1) for name in STRATEGIES
}
GRAPH = TRUTH.T[:, :, None]  # [source, target, lag]


def run(strategy, w, key, price):
    return ndde.recover(w, strategy, price, key=key)


# Like "Gates" except for the penalty, which has its own tests; with less work; a path of them; or
# with the tests of `test_exhaustive` and `test_moves`.
SLOW = {
    "Gates, as they are",
    "Gates, group lasso",
    "Gates, from everything",
    "CoefficientPath",
    "Exhaustive",
    "Moves",
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in STRATEGIES],
)
def found(request):
    """One strategy on two systems in one batch, the second with a variable that does not vary."""
    strategy, w = STRATEGIES[request.param], windows()
    still = eqx.tree_at(lambda w: w.increment, w, w.increment.at[:, 1].set(0))
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), w, still)
    recover = eqx.filter_jit(eqx.filter_vmap(run, in_axes=(None, 0, 0, None)))
    found = recover(strategy, batch, jr.split(jr.key(0)), PRICES[request.param])
    return request.param, strategy, found


def test_recovers_an_easy_graph(found):
    _, _, (first, _) = found[0], found[1], unstacked(found[2])
    np.testing.assert_array_equal(first.graph, GRAPH)
    assert first.scores.shape == GRAPH.shape
    assert roc_auc_score(GRAPH.ravel(), np.asarray(first.scores).ravel()) > 0.95
    assert float(jnp.max(first.risk)) < 0.3 and str(first.status) != ""
    assert first.risk.shape == first.price.shape == (3,)


def test_a_system_that_cannot_be_fitted_is_a_status_and_leaves_its_neighbour_alone(found):
    _, _, batch = found
    first, second = unstacked(batch)
    assert "refused" in str(second.status) and bool(jnp.all(jnp.isnan(second.risk)))
    assert "refused" not in str(first.status)


def test_alone_as_in_a_batch(found):
    name, strategy, batch = found
    alone = ndde.recover(windows(), strategy, PRICES[name], key=jr.split(jr.key(0))[0])
    np.testing.assert_array_equal(alone.graph, batch.graph[0])
    np.testing.assert_allclose(alone.risk, batch.risk[0], atol=0.02)


def test_no_edge_is_worth_any_price(found):
    name, strategy, _ = found
    price = select.PerInput(3 * 2.0)  # twice the variance of a rate
    if name in OF_COLUMNS:
        with pytest.raises(ValueError, match=r"price must be EBIC\(\) for splines"):
            ndde.recover(windows(), strategy, price, key=jr.key(0))
        return
    if name == "CoefficientPath":  # uses the nearest of its grid
        strategy = eqx.tree_at(lambda s: s.coefficients, strategy, GRID.at[-1].set(1e4))
        price = select.PerInput(1e4)
    none = ndde.recover(windows(), strategy, price, key=jr.key(0))
    assert not bool(jnp.any(none.graph))
    np.testing.assert_allclose(none.price, price.coefficient / 3, rtol=1e-5)
    np.testing.assert_allclose(none.risk, 1, atol=0.05)


def weak(seed, gain):
    """Windows of a variable that another follows two samples later, and of a random walk."""
    rng, x = np.random.default_rng(seed), np.zeros((200, 3))
    for k in range(2, 199):
        pull = [-x[k, 0], gain * np.tanh(x[k - 2, 0]) - x[k, 1], 0.0]
        x[k + 1] = x[k] + 0.1 * np.array(pull) + 0.3 * np.array([1, 0.3, 1]) * rng.normal(size=3)
    return ndde.lagged_windows(x, dt=0.1, lags=range(4))


@pytest.mark.slow
@pytest.mark.parametrize("price", [None, select.PerInput(1.0)], ids=["EBIC", "PerInput"])
def test_weak_edges_are_dropped_in_a_batch_as_they_are_alone(price):
    """Where splines keep edges that are worth no more than their spread over the record."""
    strategy = select.Default(networks=None)
    systems = [weak(seed, gain) for seed in range(8) for gain in (0.5, 1.0)]
    together = jax.jit(jax.vmap(lambda w: ndde.recover(w, strategy, price, key=jr.key(0))))
    batch = together(ndde.stack_windows(systems))
    dropped = 0
    for i, w in enumerate(systems):
        alone = ndde.recover(w, strategy, price, key=jr.key(0))
        np.testing.assert_array_equal(batch.graph[i], alone.graph)
        np.testing.assert_allclose(batch.risk[i], alone.risk, rtol=1e-6)
        np.testing.assert_allclose(batch.price[i], alone.price, rtol=1e-5)
        dropped += int(jnp.sum(batch.details.graph[i] & ~batch.graph[i]))
    assert dropped > 4


@pytest.mark.slow
def test_prices_in_a_batch_keep_what_each_keeps_alone():
    w, strategy = windows(), STRATEGIES["Default"]
    coefficients = jnp.array([0.03, 1.5, 6.0])
    batch = jax.vmap(lambda c: ndde.recover(w, strategy, c, key=jr.key(0)))(coefficients)
    for i, c in enumerate(coefficients.tolist()):
        alone = ndde.recover(w, strategy, c, key=jr.key(0))
        np.testing.assert_array_equal(batch.graph[i], alone.graph)
        np.testing.assert_allclose(batch.price[i], alone.price, rtol=1e-5)
        np.testing.assert_allclose(batch.risk[i], alone.risk, atol=0.05)
    assert bool(batch.graph[0].any()) and not bool(batch.graph[2].any())


def unstacked(batch):
    return [jax.tree.map(lambda a, i=i: a[i], batch) for i in range(2)]


def test_refits_depend_on_how_many_candidates_there_are():
    few, many = windows(), np.random.default_rng(0).normal(size=(60, 5)).cumsum(axis=0)
    many = ndde.lagged_windows(many, dt=1.0, lags=range(5))
    assert few.dim * few.n_lags < MANY_INPUTS <= many.dim * many.n_lags
    from ndde_jax.select._default import refitting_strategy

    assert isinstance(refitting_strategy(few), select.Gates)
    assert isinstance(refitting_strategy(many), select.Moves)


def test_prices():
    risk = jnp.array([0.1, 0.4])
    np.testing.assert_allclose(select.PerInput(0.05)(risk, 100, 10, 8), [0.005, 0.005])
    low, high = (select.EBIC()(risk, n, 10, 8) for n in (10_000, 100))
    assert bool(jnp.all(low < high)) and float(high[1]) == pytest.approx(
        4 * float(high[0]), rel=0.01
    )
    slope = jax.grad(lambda c: select.PerInput(c)(jnp.array(0.1), 100, 10, 8))(0.05)
    assert float(slope) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(strategy=select.Moves), r"Mind the parentheses: Moves\(\)"),
        (dict(strategy="splines"), "strategy must be a strategy such as"),
        (dict(price="bic"), "price must be a price such as"),
        (dict(price=-1.0), "price must be positive"),
        (dict(key=0), "key must be a JAX random key"),
        (
            dict(strategy=STRATEGIES["CoefficientPath"], price=select.EBIC()),
            "coefficient per input",
        ),
        (dict(strategy=STRATEGIES["Gates, as they are"], price=select.EBIC()), "improve=True"),
    ],
)
def test_refusals(change, message):
    given = dict(strategy=select.Splines(), price=None, key=jr.key(0)) | change
    with pytest.raises(ValueError, match=message):
        ndde.recover(windows(), given["strategy"], given["price"], key=given["key"])


def test_settings_are_checked_where_they_are_made():
    for make, message in [
        (lambda: select.Splines(shortlist=0), "shortlist"),
        (lambda: select.Moves(refit={}), "refit must be a StrengthConfig"),
        (lambda: select.Gates(penalty=ndde.L0NDDE), r"penalty must be a method"),
        (lambda: select.Gates(starts=np.ones((2, 2))), r"starts must be \[source target lag\]"),
        (lambda: select.Gates(starts=GRAPH, improve=False), "omit improve=False"),
        (lambda: select.PerInput(0.0), "coefficient must be positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def test_what_multiplies_the_own_state_of_its_target_is_found():
    """x moves y neither up nor down: it decides how much of y stays. Two splines and their product
    would cost more than it explains.
    """
    exact = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(460, 3))
        for k in range(3, 460):
            x[k, 0] += 0.4 * x[k - 1, 0]
            x[k, 1] += (0.35 + 0.5 * np.tanh(x[k - 3, 0])) * x[k - 1, 1]
            x[k, 2] += 0.5 * x[k - 1, 2]
        found = ndde.discover(x[60:], dt=1.0, lags=range(5), key=jr.key(0))
        exact += np.argwhere(found.graph & ~np.eye(3, dtype=bool)[:, :, None]).tolist() == [
            [0, 1, 2]
        ]
    assert exact >= 5


def test_weak_links_that_multiply_are_not_given_up_for_a_map_of_sums():
    """A map of sums has no products, so it needs fewer inputs and explains a little less."""
    kept = 0
    for seed in (0, 5, 6):
        one = record("bilinear", "5x500", seed)
        found = ndde.discover(one.x, dt=1.0, lags=one.lags, key=jr.key(0))
        kept += (found.graph & one.links & ~np.eye(5, dtype=bool)[:, :, None]).sum()
    assert kept >= 7
