"""Drifts of splines on the host: the same values as JAX computes."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax.models import SplineDrift
from ndde_jax.models._splines import host_splines
from tests.helpers import networks

DIM, LAGS, SLOTS, TERMS = 3, (0, 2), 4, 4


def spline_model(networks) -> ndde.models.NeuralDDE:
    """A model with products, some inputs of which the mask closes, beyond its box for some rows."""
    rng, inputs = np.random.default_rng(0), DIM * len(LAGS)
    pairs = SLOTS * (SLOTS - 1) // 2
    drift = SplineDrift(
        index=jnp.asarray([rng.choice(inputs, SLOTS, replace=False) for _ in range(DIM)]),
        knots=jnp.asarray(np.sort(rng.normal(size=(inputs, TERMS + 1)), axis=1)),
        constant=jnp.asarray(rng.normal(size=DIM)),
        splines=jnp.asarray(rng.normal(size=(DIM, SLOTS, TERMS))),
        products=jnp.asarray(rng.normal(size=(DIM, pairs)) * (rng.random((DIM, pairs)) < 0.5)),
        lower=jnp.full(inputs, -1.0),
        upper=jnp.full(inputs, 1.5),
        networks=networks,
    )
    windows = ndde.lagged_windows(rng.normal(size=(50, DIM)) * 3 + 1, dt=0.5, lags=LAGS)
    mask = jnp.asarray(rng.random((DIM, len(LAGS), DIM)) < 0.7)
    return ndde.models.NeuralDDE(drift, mask, windows.scaling, windows.dt, windows.lags)


@pytest.mark.parametrize("networked", [False, True])
def test_the_host_computes_what_jax_does(networked):
    drift = networks(DIM, len(LAGS), key=jr.key(0)) if networked else None
    model = spline_model(drift)
    histories = np.random.default_rng(1).normal(size=(40, len(LAGS), DIM)) * 4 + 1
    expected, known = jax.vmap(model)(jnp.asarray(histories)), host_splines(model)
    np.testing.assert_allclose(known(histories), expected, atol=1e-10)
    for j in range(DIM):
        np.testing.assert_allclose(known.rate(histories, j), expected[:, j], atol=1e-10)


def test_no_other_drift_is_known_as_splines():
    x = np.random.default_rng(0).normal(size=(60, 2))
    windows = ndde.lagged_windows(x, dt=1.0, lags=(0,))
    law = ndde.fit_drift(windows, "full", family=ndde.models.Polynomials(), key=jr.key(0))
    assert host_splines(law) is None and host_splines(lambda history: history[0]) is None
