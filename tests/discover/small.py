"""A small system, and a recipe that finds it in seconds."""

import jax
import numpy as np

import ndde_jax as ndde

NAMES = ("driven", "driver")
LAGS = (0, 2)
DT = 0.5
# Small networks, which suffice for the map below.
STRENGTH = ndde.fitting.StrengthConfig(
    width=4, depth=1, steps=20, restarts=1, folds=2, fold_steps=10, resamples=20, search=4
)
RECIPE = ndde.Recipe(strategy=ndde.select.Default(networks=STRENGTH))
# driver -> itself at both lags, driver -> driven at lag 2 samples, driven -> itself.
TRUTH = np.zeros((2, 2, 2), bool)
TRUTH[1, 1, :] = TRUTH[1, 0, 1] = TRUTH[0, 0, 0] = True


def driven_map(n=200):
    """A noisy driver, and a driven variable without noise; difference quotients are exact."""
    kick = np.random.default_rng(0).normal(size=n + 50)
    x = np.zeros((n + 50, 2))
    for k in range(2, n + 49):
        x[k + 1, 0] = 0.3 * x[k, 0] + np.tanh(x[k - 2, 1])
        x[k + 1, 1] = -0.6 * x[k, 1] + 0.7 * x[k - 2, 1] + 0.3 * kick[k]
    return x[50:]


X = driven_map()


def discover(x, **options):
    settings = dict(lags=LAGS, scheme="euler", recipe=RECIPE)
    return ndde.discover(x, key=jax.random.key(0), **settings | options)


def assert_same_windows(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def assert_same_scores(one, other, atol=0.01):
    """Run up to the end of training, which depends on the initial weights and on rounding."""
    np.testing.assert_allclose(one, other, rtol=0, atol=atol)
