"""Training on systems with a known answer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.fit._fit import empirical_risk, gradient_penalty
from ndde_jax.models._networks import apply_layers
from ndde_jax.windows._windows import pad_windows
from tests.helpers import networks

SMALL = ndde.FitConfig(max_steps=200, newton_steps=15)


def spiral(n=400, dt=0.1, coupling=0.0):
    """x' = −x/4 + noise-free forcing by y; y autonomous: edges y->y, (x, y)->x."""
    t = dt * np.arange(n)
    y = np.sin(t) + 0.5 * np.sin(2.3 * t)
    x = np.zeros(n)
    for k in range(n - 1):
        x[k + 1] = x[k] + dt * (-0.25 * x[k] + y[k] ** 2 - 0.6 + coupling * x[k])
    return np.stack([x, y], axis=1), dt


@pytest.fixture(scope="module")
def windows():
    x, dt = spiral()
    return ndde.lagged_windows(x, dt=dt, lags=(0, 2), scheme="central")


@pytest.fixture(scope="module")
def result(windows):
    return ndde.fit(ndde.L0NDDE(), windows, SMALL, key=jax.random.key(0))


def test_shapes_and_status(windows, result):
    assert result.scores.shape == (2, 2, 2)
    assert result.path_masks.shape == (8, 2, 2, 2)
    np.testing.assert_array_equal(result.path_masks[0], result.model.mask)
    assert int(result.steps) == 15 + 200 + 15
    assert "stopped" in str(result.status)
    assert bool(jnp.all((result.scores > 0) & (result.scores < 1)))


def test_risk_is_that_of_the_model(windows, result):
    """Rates in physical units, by calling the model window by window."""
    s = windows.scaling
    physical = windows.history * s.scale[None, None] + s.center[None, None]
    drift = jax.vmap(result.model)(physical)
    rate = windows.increment * s.rate_scale[None] + s.rate_center[None]
    risk = jnp.mean(((drift - rate) / s.rate_scale[None]) ** 2, axis=0)
    np.testing.assert_allclose(risk, result.risk, rtol=1e-9)


def test_empirical_risk_of_a_constant_is_one(windows):
    layers = jax.tree.map(jnp.zeros_like, networks(2, 2, key=jax.random.key(0)))
    risk = empirical_risk(
        layers.layers,
        windows.history.reshape(-1, 4).T,
        windows.increment.T,
        windows.weight,
        jnp.ones((2, 3, 4)),
    )
    np.testing.assert_allclose(risk, 1, rtol=1e-9)


def test_mean_squared_error_weights_draws_and_windows():
    """Compared with a loop."""
    rng = np.random.default_rng(0)
    drift = networks(2, 1, width=3, depth=1, key=jax.random.key(1))
    z, y, w = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.uniform(size=5)
    gates = rng.uniform(size=(2, 3, 2))
    expected = np.zeros(2)
    for j, s, k in np.ndindex(2, 3, 5):
        mask = jnp.asarray(gates[:, s]).reshape(2, 1, 2)
        expected[j] += w[k] * (drift(jnp.asarray(z[k : k + 1]), mask)[j] - y[k, j]) ** 2
    risk = empirical_risk(drift.layers, *map(jnp.asarray, (z.T, y.T, w, gates)))
    np.testing.assert_allclose(risk, expected / (3 * w.sum()), rtol=1e-9)


def test_large_coefficient_closes_everything_and_zero_keeps_it(windows):
    def degree(coefficient):
        method = ndde.L0NDDE(coefficient=coefficient)
        result = ndde.fit(method, windows, SMALL, key=jax.random.key(0))
        return int(result.model.mask.sum())

    assert degree(100.0) == 0
    # A free gate still drifts slightly where it does not matter.
    assert degree(0.0) >= 7


def test_padding_changes_no_result(windows, result):
    padded = ndde.fit(ndde.L0NDDE(), pad_windows(windows, 448), SMALL, key=jax.random.key(0))
    np.testing.assert_allclose(padded.scores, result.scores, atol=1e-6)
    np.testing.assert_array_equal(padded.model.mask, result.model.mask)
    np.testing.assert_allclose(padded.risk, result.risk, rtol=1e-3)


@pytest.mark.slow
def test_newton_refinement_reaches_far_below_adam(windows):
    """Smooth noise-free data, all inputs open: the error left by first-order training."""
    method = ndde.L0NDDE(coefficient=0.0, path=())
    risk = {
        refine: ndde.fit(
            method,
            windows,
            ndde.FitConfig(max_steps=200, warmup="adam", warmup_steps=100, refine=refine),
            key=jax.random.key(0),
        ).risk.max()
        for refine in ("adam", "newton")
    }
    assert risk["newton"] < 0.4 * risk["adam"]


def test_patience_stops_early_and_losses_end_in_nan(windows):
    config = ndde.FitConfig(max_steps=1500, patience=100, refine="none", newton_steps=15)
    result = ndde.fit(ndde.L0NDDE(path=()), windows, config, key=jax.random.key(0))
    assert "converged" in str(result.status)
    steps = int(result.steps) - 15
    assert steps < 1500
    n = steps // config.epoch_steps
    assert bool(jnp.all(jnp.isfinite(result.losses[:n])))
    assert bool(jnp.all(jnp.isnan(result.losses[n:])))


def test_statuses_are_data(windows):
    broken = eqx.tree_at(lambda w: w.increment, windows, windows.increment.at[5, 0].set(jnp.nan))
    constant = eqx.tree_at(lambda w: w.increment, windows, windows.increment.at[:, 1].set(0))
    few = eqx.tree_at(lambda w: w.valid, windows, windows.valid.at[2:].set(False))
    for case in (broken, constant, few):
        result = ndde.fit(ndde.L0NDDE(), case, SMALL, key=jax.random.key(0))
        assert "refused" in str(result.status)
        assert bool(jnp.all(jnp.isnan(result.scores)))
        for model in (result.model, ndde.fitting.fit_graph(case, "full", key=jax.random.key(0))):
            assert all(bool(jnp.all(jnp.isnan(a))) for a in jax.tree.leaves(model.drift))
    wild = warmed_up(0, 70, learning_rate=jnp.inf)
    result = ndde.fit(ndde.L0NDDE(path=()), windows, wild, key=jax.random.key(0))
    assert "diverged" in str(result.status)


def test_prediction_gradient_penalty_is_a_rescaling(windows):
    """The paper code's variant: ‖∂loss/∂predictions‖² of the mean loss, by differentiating it."""
    drift = networks(2, 2, key=jax.random.key(0))
    z, y = windows.history.reshape(-1, 4)[:32].T, windows.increment[:32].T
    gates = jnp.ones((2, 3, 4))
    weight = jnp.ones(32)

    def mean_loss(output):
        return jnp.mean((output - y[:, None]) ** 2)

    output = apply_layers(drift.layers, z, gates)
    # A loss averaged over draws, windows and networks, differentiated with respect to predictions.
    # Sums over networks are minimised, so means of both sides are alike.
    gradient = jax.grad(mean_loss)(output)
    risk = empirical_risk(drift.layers, z, y, weight, gates)
    np.testing.assert_allclose(jnp.mean(risk), mean_loss(output), rtol=1e-9)
    penalty = gradient_penalty(
        drift.layers, z, gates, risk, jnp.asarray(1.0), "prediction", n_networks=2
    )
    np.testing.assert_allclose(jnp.mean(penalty), jnp.sum(gradient**2), rtol=1e-9)


def test_paper_preset():
    config = ndde.FitConfig.paper()
    assert float(config.learning_rate) == float(config.gate_learning_rate) == 1e-3
    assert config.patience == 200 and config.warmup_steps == 100 and config.batch_size == 128
    # Its plateau is one of single steps, and its scores are those at the end.
    assert config.epoch_steps == 1 and float(config.smoothing) == float(config.improvement) == 0
    assert config.scores == "end"
    method = ndde.L0NDDE.paper()
    np.testing.assert_allclose(method.coefficients(3, 2, 128), [0.025 * 6])
    # The paper's mask is the sigmoid of the logits, cut at one half.
    logits = jnp.array([[-3.0, -0.5, -0.01, 0.01, 2.0]])
    np.testing.assert_array_equal(method.mask((logits,), ()), jax.nn.sigmoid(logits) > 0.5)
    assert ndde.L0NDDE().rule == "open_probability"


def test_the_stopping_rule_step_by_step(windows):
    """It ends `patience` steps after the last step with the lowest objective so far, and ranks by
    the gates at that time.
    """
    changes = dict(max_steps=600, patience=20, warmup_steps=3, width=4, refine="none")
    config = ndde.FitConfig.paper(**changes)
    found = ndde.fit(ndde.L0NDDE.paper(), windows, config, key=jax.random.key(0))
    losses = np.asarray(found.losses)
    losses = losses[np.isfinite(losses)][3:]
    best = np.minimum.accumulate(losses)
    last = int(np.flatnonzero(losses == best)[-1])
    lowest = [k for k in range(1, len(losses)) if losses[k] < best[k - 1]]
    assert (lowest[-1] if lowest else 0) == last and len(losses) - 1 - last == 20
    assert found.outcome == "converged" and int(found.steps) == len(losses) + 3
    phase = ndde.fit(
        ndde.L0NDDE.paper(),
        windows,
        ndde.FitConfig.paper(**changes, scores="phase"),
        key=jax.random.key(0),
    )
    # All gates start alike and move one way or the other, so the end is further out.
    start = float(ndde.gates.open_probability(jnp.asarray(1.0)))
    apart = [np.abs(np.asarray(one.scores) - start).max() for one in (found, phase)]
    assert apart[0] > apart[1] > 0


def warmed_up(warmup_steps, refine_steps, learning_rate=5e-3):
    return ndde.FitConfig(
        warmup="adam",
        warmup_steps=warmup_steps,
        learning_rate=learning_rate,
        max_steps=100,
        patience=None,
        refine="adam" if refine_steps else "none",
        refine_steps=refine_steps,
        batch_size=16,
    )


@pytest.mark.parametrize(
    "warmup_steps, refine_steps",
    [(0, 70), (25, 0), pytest.param(100, 70, marks=pytest.mark.slow)],
)
def test_the_warm_up_takes_as_many_steps_as_asked_for(windows, warmup_steps, refine_steps):
    """25 used to become a whole epoch of 50. The sparsifying phase never exceeds its limit."""
    config = warmed_up(warmup_steps, refine_steps)
    result = ndde.fit(ndde.L0NDDE(path=()), windows, config, key=jax.random.key(0))
    assert int(result.steps) == warmup_steps + 100 + refine_steps
    assert result.losses.shape == (warmup_steps // 50 + 2,)
    assert bool(jnp.all(jnp.isfinite(result.losses)))


def test_scores_are_means_over_the_sparsifying_phase(windows):
    """Where the warm-up is not a whole number of epochs as well; gates do not move here."""
    method = ndde.L0NDDE(path=(), coefficient=0.05)
    config = ndde.FitConfig(
        warmup="adam", warmup_steps=30, max_steps=20, epoch_steps=20, patience=None, refine="none"
    )
    still = eqx.tree_at(lambda c: c.gate_learning_rate, config, jnp.asarray(0.0))
    result = ndde.fit(method, windows, still, key=jax.random.key(0))
    np.testing.assert_allclose(result.scores, ndde.gates.open_probability(jnp.asarray(2.0)))
    assert int(result.steps) == 30 + 20 and result.losses.shape == (30 // 20 + 1,)
    assert bool(jnp.all(jnp.isfinite(result.losses)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(max_steps=0), "max_steps must be at least 1"),
        (dict(patience=0), "patience must be at least 1"),
        (dict(warmup="cold"), "warmup must be"),
        (dict(refine="gently"), "refine must be"),
        (dict(refine_steps=-1), "refine_steps must not be negative"),
    ],
)
def test_unusable_settings(change, message):
    with pytest.raises(ValueError, match=message):
        ndde.FitConfig(**change)


def test_a_batch_is_refused(windows):
    with pytest.raises(ValueError, match=r"vmap or fit_many"):
        ndde.fit(
            ndde.L0NDDE(), ndde.stack_windows([windows, windows]), SMALL, key=jax.random.key(0)
        )
