"""Hard-concrete gates against Monte Carlo and closed forms."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.special import expit, logit

from ndde_jax import gates

BETA, LOW, HIGH = 0.33, -0.1, 1.1

# log_alpha, P(z != 0), P(0 < z < 1), to three digits.
TABLE = [
    (3.0, 0.978, 0.077),
    (2.0, 0.942, 0.172),
    (0.0, 0.688, 0.376),
    (-2.0, 0.230, 0.172),
    (-3.0, 0.099, 0.077),
]


@pytest.mark.parametrize(("log_alpha", "is_open", "between"), TABLE)
def test_probabilities(log_alpha, is_open, between):
    """The published closed form, the inverse of the sampling map, and draws agree."""
    z = gates.sample_gate(jnp.full(40_000, log_alpha), key=jr.key(0))
    np.testing.assert_allclose(jnp.mean(z > 0), is_open, atol=0.008)
    np.testing.assert_allclose(jnp.mean((z > 0) & (z < 1)), between, atol=0.008)
    np.testing.assert_allclose(gates.open_probability(jnp.asarray(log_alpha)), is_open, atol=5e-4)
    # z <= 0 iff logit(u) <= beta logit(-low / (high - low)) - log_alpha.
    closed = expit(BETA * logit(-LOW / (HIGH - LOW)) - log_alpha)
    np.testing.assert_allclose(1 - closed, is_open, atol=5e-4)


def test_distribution_between_zero_and_one():
    """The empirical distribution function, compared with the closed form."""
    log_alpha = 0.5
    z = np.asarray(gates.sample_gate(jnp.full(40_000, log_alpha), key=jr.key(1)))
    for x in (0.1, 0.4, 0.8):
        expected = expit(BETA * logit((x - LOW) / (HIGH - LOW)) - log_alpha)
        np.testing.assert_allclose(np.mean(z <= x), expected, atol=0.008)


def test_expected_l0_is_the_expected_number_of_open_gates():
    log_alpha = jnp.array([-2.0, 0.0, 1.0, 3.0])
    keys = jr.split(jr.key(2), 20_000)
    z = jax.vmap(lambda k: gates.sample_gate(log_alpha, key=k))(keys)
    np.testing.assert_allclose(
        gates.expected_l0(log_alpha), jnp.mean(jnp.sum(z > 0, axis=1)), atol=0.03
    )


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [
        ("open_probability", BETA * np.log(-LOW / HIGH)),
        ("median", 0.0),
        ("deterministic_gate", np.log(-LOW / HIGH)),
    ],
)
def test_thresholds_of_the_decision_rules(rule, threshold):
    """−0.79, 0 and −2.40."""
    mask = gates.hard_mask(jnp.array([threshold - 1e-6, threshold + 1e-6]), rule)
    np.testing.assert_array_equal(mask, [False, True])


def test_unknown_rule():
    with pytest.raises(ValueError, match="rule must be"):
        gates.hard_mask(jnp.zeros(2), "mean")


def test_deterministic_gate_is_the_clipped_stretched_sigmoid():
    log_alpha = np.linspace(-6, 6, 41)
    expected = np.clip(expit(log_alpha) * (HIGH - LOW) + LOW, 0, 1)
    np.testing.assert_allclose(gates.deterministic_gate(jnp.asarray(log_alpha)), expected)


def test_noise_is_logistic_and_finite():
    noise = gates.logistic_noise(jr.key(3), (100_000,))
    assert bool(jnp.all(jnp.isfinite(noise)))
    np.testing.assert_allclose(jnp.mean(noise), 0, atol=0.03)
    np.testing.assert_allclose(jnp.var(noise), np.pi**2 / 3, rtol=0.02)
    assert gates.logistic_noise(jr.key(3), (2,), jnp.float32).dtype == jnp.float32


def test_noise_is_laid_out_as_uniform_draws_of_the_same_shape():
    """However noise is drawn, a key and a shape give JAX's own draws."""
    shape = (3, 2, 4)
    u = np.asarray(jr.uniform(jr.key(9), shape, minval=1e-6, maxval=1 - 1e-6))
    found = gates.logistic_noise(jr.key(9), shape)
    np.testing.assert_allclose(found, np.log(u / (1 - u)), rtol=1e-9)


def test_gradient_flows_through_fractional_draws_only():
    noise = gates.logistic_noise(jr.key(4), (1000,))
    log_alpha = jnp.zeros(1000)
    z, back = jax.vjp(lambda a: gates.sample_gate(a, noise=noise), log_alpha)
    gradient = back(jnp.ones(1000))[0]
    np.testing.assert_array_equal(gradient > 0, (z > 0) & (z < 1))
    step = 1e-6
    above, below = (gates.sample_gate(log_alpha + by, noise=noise) for by in (step, -step))
    slope = above - below
    np.testing.assert_allclose(gradient, slope / (2 * step), rtol=1e-4, atol=1e-4)


def test_values_and_gradients_stay_finite_at_extremes():
    """A gate that has died or locked in, and temperatures at which the sigmoid saturates."""
    log_alpha = jnp.array([-1e4, -50.0, 0.0, 50.0, 1e4])
    noise = gates.logistic_noise(jr.key(6), (200, 1), jnp.float32).astype(float)
    with_default = [gates.open_probability, gates.deterministic_gate]
    draws = [
        lambda a, t=t: gates.sample_gate(a[None], noise=noise, gate=gates.HardConcrete(t))
        for t in (1e-3, 0.33)
    ]
    for function in (*with_default, *draws):
        value, gradient = jax.value_and_grad(lambda a, f=function: jnp.sum(f(a)))(log_alpha)
        assert bool(jnp.isfinite(value)) and bool(jnp.all(jnp.isfinite(gradient)))
        assert bool(jnp.all(gradient >= 0))
    np.testing.assert_array_equal(gates.deterministic_gate(log_alpha)[jnp.array([0, 4])], [0, 1])


def test_swept_stretch():
    """Wider stretch, more exact zeros: P(z = 0) from the closed form for each."""
    low, high = jnp.array([-0.01, -0.1, -1.0]), jnp.array([1.01, 1.1, 2.0])

    @jax.jit
    @jax.vmap
    def shares(low, high):
        gate = gates.HardConcrete(low=low, high=high)
        z = gates.sample_gate(jnp.zeros(40_000), key=jr.key(7), gate=gate)
        return jnp.mean(z > 0), jnp.mean(z == 1), gates.open_probability(jnp.zeros(()), gate)

    is_open, is_one, probability = shares(low, high)
    width = high - low
    np.testing.assert_allclose(probability, 1 - expit(BETA * logit(-low / width)), rtol=1e-9)
    np.testing.assert_allclose(is_open, probability, atol=0.008)
    np.testing.assert_allclose(is_one, 1 - expit(BETA * logit((1 - low) / width)), atol=0.008)


def test_transforms_and_swept_temperature():
    log_alpha = jnp.array([-1.0, 0.0, 2.0])
    key = jr.key(5)
    temperatures = jnp.array([0.1, 0.33, 1.0])

    def draw(temperature):
        return gates.sample_gate(log_alpha, key=key, gate=gates.HardConcrete(temperature))

    together = jax.jit(jax.vmap(draw))(temperatures)
    for temperature, row in zip(temperatures, together, strict=True):
        np.testing.assert_allclose(draw(temperature), row, rtol=1e-9)
    gradient = jax.grad(lambda a: gates.expected_l0(a))(log_alpha)
    p = gates.open_probability(log_alpha)
    np.testing.assert_allclose(gradient, p * (1 - p), rtol=1e-9)


def test_locations_may_be_whole_numbers():
    np.testing.assert_allclose(gates.open_probability(1), gates.open_probability(1.0))
