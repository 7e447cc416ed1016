"""Shared parts of several tests: an easy system, and all methods."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde
from ndde_jax.models._networks import init_layers

# Name, method, wrong edges allowed on the easy system at this price. Methods that lose a target
# altogether have no price at which all three survive their own penalty.
METHODS = [
    ("L0NDDE", ndde.L0NDDE(path=()), 0),
    ("L0NDDE path", ndde.L0NDDE(), 0),
    ("CNODE gates", ndde.CNODE(coefficient=0.3), 2),
    ("CNODE paths", ndde.CNODE(variant="paths"), 0),
    ("AGL", ndde.AGL(coefficient=0.3), 0),
    ("AGL reset", ndde.AGL(coefficient=0.1, reset=True), 0),
    ("PathReg", ndde.PathReg(), 0),
    ("PathReg gates", ndde.PathReg(variant="gates", coefficient=0.5), 0),
    ("NODE", ndde.NODE(), 4),
]
NAMES = [row[0] for row in METHODS]
# The inputs of each target, [target, source].
TRUTH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 1]], bool)
ORDER = np.array([2, 0, 1])


def windows(order=(0, 1, 2)):
    """Independent states and exact rates, so that only the method is tested."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3))
    rates = np.stack([np.tanh(2 * z[:, 1]), z[:, 0] * z[:, 2], z[:, 2] - 0.5 * z[:, 1] ** 2], 1)
    rates = (rates - rates.mean(0)) / rates.std(0)
    z, rates = z[:, list(order)], rates[:, list(order)]
    template = ndde.lagged_windows(rng.normal(size=(401, 3)).cumsum(0), dt=1.0)
    like = lambda a: jnp.asarray(a, jnp.float32)  # noqa: E731
    template = jax.tree.map(
        lambda a: a.astype(jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, template
    )
    return eqx.tree_at(
        lambda w: (w.history, w.increment), template, (like(z)[:, None], like(rates))
    )


def networks(dim, n_lags, *, width=8, depth=2, key):
    """A drift of networks with random weights."""
    layers = init_layers(dim, dim * n_lags, width=width, depth=depth, key=key)
    return ndde.models.MaskedDrift(layers)


QUICK = ndde.fitting.StrengthConfig(restarts=1, steps=20, fold_steps=10, folds=2, blocks=8, width=4)
