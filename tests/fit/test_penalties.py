"""One suite for all methods: a new one adds a line to `METHODS`."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import ndde_jax as ndde
from ndde_jax.fit.penalties import column_norms, group_shrink, path_weights
from ndde_jax.models._networks import init_layers
from tests.helpers import METHODS, ORDER, TRUTH, windows

CONFIG = ndde.FitConfig(
    max_steps=600,
    patience=600,
    batch_size=48,
    newton_steps=15,
    learning_rate=5e-3,
    refine="newton",
)
# In TRUTH, 1 drives 0 and 0 does not drive itself: both against the data.
FORBIDDEN, REQUIRED = (1, 0), (0, 0)
PRIOR = ndde.prior_knowledge(3, forbidden=[FORBIDDEN], required=[REQUIRED])


# Like their neighbours except for one setting; without a path less is trained than with one.
SLOW = {"L0NDDE", "L0NDDE path", "AGL reset", "PathReg", "PathReg gates", "CNODE paths"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(method, id=method[0], marks=[pytest.mark.slow] * (method[0] in SLOW))
        for method in METHODS
    ],
)
def fitted(request):
    """The default, no and a huge coefficient on the same data, the default on variables in another
    order, and the huge one with prior knowledge, all in one batch.
    """
    _, method, _ = request.param
    informed = eqx.tree_at(lambda w: w.prior, windows(), PRIOR)
    data = [*[windows()] * 3, windows(ORDER), informed]
    data = jax.tree.map(lambda *leaves: np.stack(leaves), *data)

    def one(coefficient, w):
        changed = method
        if not isinstance(method, ndde.NODE):
            changed = eqx.tree_at(lambda m: m.coefficient, method, coefficient)
        return ndde.fit(changed, w, CONFIG, key=jr.key(1))

    prices = jnp.array([1.0, 0.0, 1e4, 1.0, 1e4]) * method.coefficient
    return *request.param, jax.vmap(one)(prices, data)


def test_shapes_and_types(fitted):
    result = fitted[-1]
    assert result.scores.shape == (5, 3, 1, 3) and result.scores.dtype == jnp.float32
    assert result.model.mask.shape == (5, 3, 1, 3) and result.model.mask.dtype == bool
    assert result.risk.dtype == jnp.float32
    assert bool(jnp.all((result.scores >= 0) & (result.scores <= 1)))
    assert bool(jnp.all(jnp.isfinite(result.risk)))


def test_recovers_a_sparse_graph(fitted):
    name, _, allowed, result = fitted
    mask = np.asarray(result.model.mask[0, :, 0])
    wrong = int((mask != TRUTH).sum())
    if name == "NODE":  # selects nothing, so the wrong edges are those that do not exist
        assert wrong == allowed == (~TRUTH).sum() and float(jnp.max(result.risk[0])) < 0.01
        return
    assert roc_auc_score(TRUTH.ravel(), np.asarray(result.scores[0, :, 0]).ravel()) > 0.95
    assert wrong <= allowed and not (mask & ~TRUTH).any()
    kept_whole = (mask == TRUTH).all(axis=1)
    assert float(jnp.max(result.risk[0][kept_whole])) < 0.03


def test_no_penalty_is_as_good_as_node(fitted):
    """R² above 0.99 with all true inputs: no method is handicapped except by its penalty."""
    result = fitted[-1]
    assert float(jnp.max(result.risk[1])) < 0.01
    # Gates stay random without a penalty, and close some irrelevant inputs by chance.
    assert np.all(np.asarray(result.model.mask[1, :, 0]) | ~TRUTH)


def test_a_huge_penalty_closes_everything(fitted):
    name, _, _, result = fitted
    if name == "NODE":  # has no price
        np.testing.assert_array_equal(result.model.mask[2], result.model.mask[0])
        # A GPU adds up members of a batch in different orders.
        np.testing.assert_allclose(result.risk[2], result.risk[0], rtol=1e-3, atol=1e-4)
    else:
        assert not bool(jnp.any(result.model.mask[2]))
        np.testing.assert_allclose(result.risk[2], 1, atol=0.02)


def test_order_of_variables_does_not_matter(fitted):
    _, _, allowed, result = fitted
    moved = np.asarray(result.model.mask[3, :, 0])
    # Rounding, which differs between processors, may turn one of nine edges.
    assert (moved != TRUTH[np.ix_(ORDER, ORDER)]).sum() <= max(allowed, 1)


def test_prior_knowledge_is_obeyed(fitted):
    """Even with a coefficient that closes everything that may be closed, and against the data."""
    result = jax.tree.map(lambda leaf: leaf[4], fitted[-1])
    scores = np.asarray(ndde.edge_scores(result))[:, :, 0]
    graphs = np.moveaxis(np.asarray(result.path_masks), (1, 2, 3), (2, 3, 1))[..., 0]
    assert scores[FORBIDDEN] == 0 and not graphs[:, *FORBIDDEN].any()
    assert scores[REQUIRED] == pytest.approx(1) and graphs[:, *REQUIRED].all()
    slopes = jax.jit(lambda model: jax.jacfwd(model)(model.scaling.center[None])[:, 0])
    drift = slopes(result.model)
    assert drift[FORBIDDEN[1], FORBIDDEN[0]] == 0
    assert drift[REQUIRED[1], REQUIRED[0]] != 0


@pytest.mark.slow
@pytest.mark.parametrize("warmup", ["newton", "adam"])
def test_reset_starts_again_from_the_random_networks(warmup):
    """With a Newton warm-up it used to continue from the pilot."""
    config = ndde.FitConfig(
        max_steps=1,
        epoch_steps=1,
        warmup=warmup,
        warmup_steps=3,
        newton_steps=3,
        refine="none",
        learning_rate=1e-12,  # only the reset moves anything
    )
    key = jr.key(0)
    layers = init_layers(3, 3, width=8, depth=2, dtype=jnp.float32, key=jr.split(key, 3)[0])
    for reset in (True, False):
        method = ndde.AGL(coefficient=0.0, reset=reset)
        found = ndde.fit(method, windows(), config, key=key).model.drift.layers
        distance = float(jnp.max(jnp.abs(found[0][0] - layers[0][0])))
        moved_by_pilot = warmup == "newton" and not reset
        assert distance > 0.1 if moved_by_pilot else distance < 1e-6


def test_one_compilation_for_all_coefficients():
    from ndde_jax.fit import _fit

    config = ndde.FitConfig(max_steps=20, epoch_steps=10, newton_steps=2, batch_size=16)
    w = windows()
    for kind in (ndde.AGL, ndde.CNODE, ndde.PathReg):
        run = eqx.filter_jit(eqx.debug.assert_max_traces(_fit._fit, max_traces=1))
        for coefficient in (0.0, 0.1, jnp.asarray(3.0)):
            run.lower(kind(coefficient=coefficient), w, config, jr.key(0))


def test_group_shrinkage_solves_its_problem():
    """The proximal step minimises ‖W − V‖²/2 + t ‖W‖ column by column: random search finds
    nothing better, and columns below the threshold are exactly zero.
    """
    layers = init_layers(2, 4, width=5, depth=2, key=jr.key(0))
    threshold = jnp.array([[0.1, 10.0, 0.3, 0.0], [0.2, 0.0, 5.0, 0.4]])
    shrunk = group_shrink(layers, threshold)[0][0]
    assert bool(jnp.all(shrunk[0, :, 1] == 0)) and bool(jnp.all(shrunk[1, :, 2] == 0))

    def cost(weight):
        distance = jnp.sum((weight - layers[0][0]) ** 2, axis=1) / 2
        return distance + threshold * jnp.sqrt(jnp.sum(weight**2, axis=1))

    best = cost(shrunk)
    for i in range(200):
        move = 10 ** -(1 + i % 4) * jr.normal(jr.key(i), shrunk.shape)
        assert bool(jnp.all(cost(shrunk + move) >= best - 1e-12))
    np.testing.assert_array_equal(shrunk[0, :, 3], layers[0][0][0, :, 3])


def test_path_weights_by_enumeration():
    layers = init_layers(2, 3, width=4, depth=2, key=jr.key(3))
    first, second, last = (np.abs(np.asarray(weight)) for weight, _ in layers)
    for network in range(2):
        for i in range(3):
            total = sum(
                last[network, 0, b] * second[network, b, a] * first[network, a, i]
                for a in range(4)
                for b in range(4)
            )
            np.testing.assert_allclose(path_weights(layers)[network, i], total, rtol=1e-6)
    norms = np.linalg.norm(np.asarray(layers[0][0]), axis=1)
    np.testing.assert_allclose(column_norms(layers), norms, rtol=1e-6)


def test_penalties_in_closed_form():
    """An input that is fully used pays λ/F in every method."""
    layers = init_layers(1, 4, width=5, depth=2, key=jr.key(4))
    price = jnp.array([2.0])
    cnode = ndde.CNODE(logit=0.0)
    np.testing.assert_allclose(cnode.penalty(cnode.init(layers), layers, price), 2 * 0.5)
    agl = ndde.AGL()
    weights, _ = agl.begin(agl.init(layers), layers, layers)
    np.testing.assert_allclose(agl.penalty(weights, layers, price), 2.0, rtol=1e-6)
    np.testing.assert_allclose(
        agl.proximal_shrinkage(weights, price) * column_norms(layers), 0.5, rtol=1e-6
    )
    pathreg = ndde.PathReg(variant="gates")
    open_wide = jax.tree.map(lambda a: jnp.full_like(a, 50.0), pathreg.init(layers))
    np.testing.assert_allclose(pathreg.penalty(open_wide, layers, price), 2.0, rtol=1e-6)
    reference = ndde.PathReg().penalty(open_wide, layers, price)
    expected = 2 * (jnp.mean(path_weights(layers)) + 0.1)
    np.testing.assert_allclose(reference, expected[None], rtol=1e-6)
    # Closing one hidden layer closes all paths: the penalty cannot tell which gates should close.
    closed = (open_wide[0], jnp.full_like(open_wide[1], -50.0), open_wide[2])
    np.testing.assert_allclose(pathreg.penalty(closed, layers, price), 0.0, atol=1e-6)


def test_hidden_gates_equal_gated_activations():
    """PathReg's gates in the weights against a network with gates on its units."""
    layers = init_layers(1, 3, width=4, depth=2, key=jr.key(5))
    method = ndde.PathReg()
    selector = tuple(
        jr.normal(key, log_alpha.shape)
        for key, log_alpha in zip(jr.split(jr.key(6), 3), method.init(layers), strict=True)
    )
    noise = method.noise(jr.key(7), 1, layers)[0]
    gated = method.gated_layers(selector, layers, noise)
    z = np.asarray(jr.normal(jr.key(8), (3,)))
    gate = lambda u, alpha: np.clip(  # noqa: E731
        1.2 / (1 + np.exp(-(u + alpha) / 0.33)) - 0.1, 0, 1
    )
    alphas = [np.asarray(a)[0] for a in selector]
    draws = np.split(np.asarray(noise)[0, 0], [3, 7])
    hidden = z * gate(draws[0], alphas[0])
    for level in (0, 1):
        weight, bias = (np.asarray(a)[0] for a in layers[level])
        hidden = np.tanh(weight @ hidden + bias) * gate(draws[level + 1], alphas[level + 1])
    weight, bias = (np.asarray(a)[0] for a in layers[2])
    expected = weight @ hidden + bias

    inputs = method.gates(selector, noise)
    drift = ndde.models.MaskedDrift(gated)
    found = drift(jnp.asarray(z)[None], inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ndde.CNODE(variant="l2"), "variant must be one of"),
        (lambda: ndde.CNODE(variant="paths", logit=1.0), "has no gates"),
        (lambda: ndde.PathReg(variant="weights"), "variant must be one of"),
        (lambda: ndde.AGL(path=0.3), "sequence of numbers"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", [ndde.AGL, ndde.CNODE, ndde.PathReg, ndde.NODE])
def test_options_that_a_method_does_not_use_are_refused(kind):
    with pytest.raises(TypeError):
        kind(temperature=0.5)


def test_paper_presets():
    assert float(ndde.L0NDDE.paper().coefficient) == pytest.approx(0.025)
    assert float(ndde.AGL.paper().coefficient) == 5
    assert float(ndde.CNODE.paper().coefficient) == 50
    assert ndde.PathReg.paper().variant == "gates" and ndde.PathReg.paper().rule == "median"
    # Weights are 0 or not; sigmoids would never be cut at 1e-8.
    weights = jnp.array([[2.0, 1e-3, 0.0]])
    np.testing.assert_array_equal(ndde.CNODE.paper().mask(weights, ()), [[True, True, False]])
    assert ndde.NODE.paper() == ndde.NODE()


def test_the_unit_of_a_coefficient():
    """mean_j risk_j + λ Σ_ij z_ij, Σ_j (risk_j + λ mean_i z_ij) and Σ_k Σ_j error² + λ Σ_ij z_ij,
    differentiated by one gate and by the risk of its target.
    """
    dim, inputs, batch, price = 3, 5, 40, 0.02
    probability = jnp.full((dim, inputs), 0.4)
    objectives = {
        "sum": lambda risk, z: jnp.mean(risk) + price * jnp.sum(z),
        "mean": lambda risk, z: jnp.sum(risk + price * jnp.mean(z, axis=1)),
        "batch": lambda risk, z: batch * jnp.sum(risk) + price * jnp.sum(z),
    }
    for unit, objective in objectives.items():
        by_risk, by_gate = jax.grad(objective, argnums=(0, 1))(jnp.ones(dim), probability)
        for method in (ndde.L0NDDE, ndde.AGL, ndde.CNODE, ndde.PathReg):
            given = method(coefficient=price, unit=unit, path=(0.1,))
            own, further = np.asarray(given.coefficients(inputs, dim, batch))
            assert own / inputs == pytest.approx(float(by_gate[0, 0] / by_risk[0]), rel=1e-6)
            assert further == pytest.approx(0.1 * inputs)


def test_weights_of_cnode_reach_zero_and_stay_there():
    method = ndde.CNODE(coefficient=1.0, variant="weights", threshold=0.0)
    layers = ((jnp.ones((1, 4, 3)), jnp.zeros((1, 4))), (jnp.ones((1, 1, 4)), jnp.zeros((1, 1))))
    weights = method.init(layers)
    np.testing.assert_array_equal(weights, jnp.ones((1, 3)))
    for _ in range(3):
        slope = jax.grad(lambda w: method.penalty(w, layers, jnp.ones(1))[0])(weights)
        weights = method.project(weights - jnp.array([[1.3, 0.9, 0.0]]) * slope * 3)
    np.testing.assert_allclose(weights, [[0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(method.mask(weights, layers), [[False, False, True]])
    np.testing.assert_allclose(method.freeze(weights, layers)[0][0][0, 0], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(method.scores(weights, layers), [[0.0, 0.0, 0.5]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ndde.AGL, ndde.PathReg])
def test_baselines_explain_lorenz_at_the_coefficient_they_choose(kind):
    """R² of at least 0.99 for every target: published baselines that fail here were handicapped."""

    def drift(t, x, lagged, args):
        return jnp.array(
            [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 * x[2] / 3]
        )

    path = ndde.solve_sdde(
        drift,
        history=jnp.array([1.0, 1.0, 20.0]),
        lags=(),
        dt=0.01,
        n_steps=4000,
        solver=diffrax.Tsit5(),
        save_every=2,
    )
    w = ndde.lagged_windows(np.asarray(path.ys[500:]), dt=0.02, scheme="central4")
    grid = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    refit = ndde.fitting.StrengthConfig(restarts=1, steps=25, folds=3, fold_steps=8)
    chosen = ndde.select.coefficient_path(kind(), w, grid, key=jr.key(0), refit=refit).select()
    result = ndde.fit(kind(coefficient=chosen), w, key=jr.key(1))
    assert float(jnp.max(result.risk)) < 0.01


def test_a_penalty_of_one_number_is_refused():
    """Every network would be charged for it, broadcast without a warning."""

    class OneNumber(ndde.NODE):
        def penalty(self, selector, layers, coefficient):
            return jnp.sum(coefficient)

    with pytest.raises(AssertionError, match="shape"):
        jax.eval_shape(lambda: ndde.fit(OneNumber(), windows(), CONFIG, key=jr.key(0)).risk)
