"""Requirements for every family of drifts, checked in the same way for each."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import ndde_jax as ndde
from ndde_jax import models

FAMILIES = {
    "Networks": models.Networks(members=1, width=4, steps=15),
    "Polynomials": models.Polynomials(),
}
MATRIX = np.array([[-0.1, 1.0, 0.0], [-1.0, -0.1, 0.0], [0.0, 0.8, -0.5]])
GRAPH = (MATRIX.T != 0)[:, :, None]  # [source target lag]


@pytest.fixture(scope="module")
def x():
    """A linear system, driven by noise."""
    rng, x = np.random.default_rng(0), np.zeros((2000, 3))
    for k in range(len(x) - 1):
        x[k + 1] = x[k] + 0.05 * MATRIX @ x[k] + 0.1 * rng.normal(size=3)
    return x


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_of_drifts(family, x):
    windows = ndde.lagged_windows(x, dt=0.05)
    model = ndde.fit_drift(windows, GRAPH, family, key=jr.key(0))
    # Near the truth, x' = A x, within the data; least squares are off by their standard errors.
    states = jnp.asarray(x[100::200])[:, None]
    error = np.asarray(jax.vmap(model)(states)) - x[100::200] @ MATRIX.T
    assert np.sqrt(np.mean(error**2)) < 0.25 * np.std(x @ MATRIX.T)
    # Inputs that the graph closes are not read.
    slopes = jax.jacfwd(model)(states[0])[:, 0]
    assert not np.asarray(slopes)[~GRAPH[:, :, 0].T].any()
    # Bounded, however far the state is.
    middle, wide = model.drift.output_range()
    far = jax.vmap(lambda z: model.drift(z[None]))(1e3 * jr.normal(jr.key(1), (64, 3)))
    assert (jnp.abs(far - middle[None]) <= wide[None] * (1 + 1e-6)).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_is_the_drift_of_a_discovery_and_is_kept(family, x, tmp_path):
    recipe = ndde.Recipe(strategy=ndde.select.Splines(), family=family)
    found = ndde.discover(x, dt=0.05, lags=(0,), recipe=recipe, key=jr.key(0))
    found.save(tmp_path)
    again = ndde.Discovery.load(tmp_path)
    assert again.recipe.family == family
    np.testing.assert_array_equal(again.model(x[:1]), found.model(x[:1]))
