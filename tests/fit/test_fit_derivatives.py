"""Derivatives of fitted drifts with respect to data, on incomplete graphs, against differences."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde

T = np.arange(300) * 0.1
NOISE = 0.05 * np.random.default_rng(0).normal(size=(300, 2))
GRAPH = np.array([[[1], [1]], [[1], [0]]], bool)
KEY = jr.key(0)


def rate(c, graph=GRAPH, scheme="central", family=None):
    """A drift at one place, fitted to a record that depends on a number."""
    x = jnp.stack([jnp.sin(T) + c * jnp.sin(2.3 * T), jnp.cos(T)], axis=1) + NOISE
    windows = ndde.lagged_windows(x, dt=0.1, scheme=scheme)
    family = ndde.models.Polynomials() if family is None else family
    return ndde.fit_drift(windows, graph, family, key=jr.key(0))(jnp.ones((1, 2)))[0]


def check(function, at=0.1, step=1e-5, rtol=1e-5, atol=0.0):
    both = jax.jit(jax.value_and_grad(function))  # one program for values and the derivative
    difference = (both(at + step)[0] - both(at - step)[0]) / (2 * step)
    np.testing.assert_allclose(both(at)[1], difference, rtol=rtol, atol=atol)


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme, lacking",
    [
        ("euler", True),
        pytest.param("central", False, marks=SLOW),
        # Both schemes and both graphs once more, in the other combinations.
        pytest.param("central", True, marks=SLOW),
        pytest.param("euler", False, marks=SLOW),
    ],
)
def test_of_polynomials(scheme, lacking):
    graph = GRAPH if lacking else np.ones_like(GRAPH)
    check(lambda c: rate(c, graph, scheme))


@pytest.mark.slow
def test_of_numbers_that_may_be_simple():
    # Where the coefficient was rounded to a simple number, nothing depends on the data any more.
    family = ndde.models.Polynomials(simple_numbers=True)
    check(lambda c: rate(c, family=family), rtol=1e-4, atol=1e-10)


@pytest.mark.slow
def test_of_the_default_family():
    networks = ndde.models.Networks(members=2, width=4, depth=1, steps=10)
    check(lambda c: rate(c, family=ndde.models.Best(networks)))


@pytest.mark.slow
def test_in_single_precision():
    right = jax.jit(jax.grad(rate))(0.1)
    with jax.enable_x64(False):
        found = jax.jit(jax.grad(lambda c: rate(c)))(jnp.float32(0.1))
        assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, right, rtol=2e-2)


@pytest.mark.slow
def test_through_a_simulation():
    """From the record to a loss of a simulated path: every stage passes derivatives on."""

    def loss(c):
        x = jnp.stack([jnp.sin(T) + c * jnp.sin(2.3 * T), jnp.cos(T)], axis=1) + NOISE
        windows = ndde.lagged_windows(x, dt=0.1, scheme="central")
        model = ndde.fit_drift(windows, GRAPH, ndde.models.Polynomials(), key=jr.key(0))
        path = ndde.solve_sdde(model, history=x[:1], n_steps=20)
        return jnp.mean((path.ys - x[:21]) ** 2)

    check(loss)


@pytest.mark.slow
def test_a_batch_equals_its_members():
    x = np.stack([np.sin(T), np.cos(T)], axis=1)
    given = [ndde.lagged_windows(x * (1 + i) + NOISE, dt=0.1, scheme="central") for i in range(3)]

    def fit(windows):
        family = ndde.models.Polynomials()
        return ndde.fit_drift(windows, GRAPH, family, key=jr.key(0)).drift.coefficients

    together = jax.jit(jax.vmap(fit))(ndde.stack_windows(given))
    alone = jax.jit(fit)
    for one, windows in zip(together, given, strict=True):
        np.testing.assert_allclose(one, alone(windows), rtol=1e-9, atol=1e-12)
    slope = jax.jit(jax.vmap(jax.grad(rate)))(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(slope[0], jax.jit(jax.grad(rate))(0.1), rtol=1e-9)


@pytest.mark.slow
def test_of_a_fit_by_adam_at_weights_that_have_not_moved():
    """Adam divides by the root of a mean square, which is 0 there and not differentiable at 0."""
    windows = ndde.lagged_windows(
        jnp.stack([jnp.sin(T) + 0.1 * jnp.sin(2.3 * T), jnp.cos(T)], axis=1) + NOISE, dt=0.1
    )
    settings = dict(warmup="adam", warmup_steps=10, refine="adam", refine_steps=10, patience=None)
    config = ndde.FitConfig(**settings, max_steps=20, epoch_steps=10, width=3, depth=1)

    def risk(coefficient):
        return ndde.fit(ndde.L0NDDE(coefficient), windows, config, key=jr.key(0)).risk[0]

    check(risk, at=0.05, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [ndde.models.Polynomials(), ndde.models.Networks(members=1, width=3, depth=1, steps=3)],
    ids=["polynomials", "networks"],
)
def test_a_member_that_is_refused_does_not_reach_what_others_share(family):
    """Its own derivatives are NaN; those of the others remain, with respect to a shared number."""
    x = np.stack([np.sin(T), np.cos(T)], axis=1) + NOISE

    def one(c, x):
        windows = ndde.lagged_windows(
            x + c * jnp.where(x == 1, 0, jnp.sin(2.3 * T)[:, None]), dt=0.1
        )
        drift = ndde.fit_drift(windows, "full", family, flow=ndde.fitting.Flow(rounds=1), key=KEY)
        found = jnp.sum(drift(jnp.ones((1, 2))))
        return jnp.where(jnp.isfinite(found), found, 0)

    still = np.stack([np.ones_like(T), x[:, 1]], axis=1)
    both = jax.jit(jax.grad(lambda c: jnp.sum(jax.vmap(one, (None, 0))(c, np.stack([x, still])))))
    np.testing.assert_allclose(both(0.1), jax.jit(jax.grad(one))(0.1, x), rtol=1e-6)
