"""Windows as the flat arrays that training loops want."""

import copy

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._types import namespace_of, to_jax
from ._windows import Windows


class FlatData(eqx.Module):
    """Windows as flat arrays, valid rows listed first so that padding changes no draw."""

    inputs: Float[Array, "window input"]
    outputs: Float[Array, "window target"]
    weight: Float[Array, "window"]
    order: Int[Array, "window"]
    n_valid: Int[Array, ""]
    refused: Bool[Array, ""]
    allowed: Bool[Array, "target input"]
    required: Bool[Array, "target input"]
    dim: int = eqx.field(static=True)

    def __init__(self, windows: Windows):
        # In NumPy where nothing is traced, since a dozen programs would be compiled otherwise.
        xp = namespace_of(windows)
        given = jax.tree.map(xp.asarray, windows)
        n, dtype = given.history.shape[0], given.history.dtype
        self.dim = given.history.shape[2]
        n_valid = xp.sum(given.valid)
        scaling = given.scaling
        constant = xp.any(~(scaling.scale > 0)) | xp.any(~(scaling.rate_scale > 0))
        finite = xp.all(xp.isfinite(given.history)) & xp.all(xp.isfinite(given.increment))
        varies = xp.all(xp.any(given.increment != 0, axis=0))
        refused = constant | ~finite | ~varies | (n_valid < self.dim + 1)
        use = given.valid & ~refused
        self.n_valid, self.refused = to_jax(n_valid), to_jax(refused)
        self.inputs = to_jax(xp.where(use[:, None], given.history.reshape(n, -1), 0), dtype)
        self.outputs = to_jax(xp.where(use[:, None], given.increment, 0), dtype)
        self.weight = to_jax(xp.where(use, given.weight, 0), dtype)
        self.order = to_jax(xp.argsort(~given.valid, stable=True))
        # [source target lag] -> [target input], inputs (lag, source).
        flat = lambda graph: to_jax(xp.transpose(graph, (1, 2, 0)).reshape(self.dim, -1))  # noqa: E731
        self.allowed, self.required = flat(given.prior.allowed), flat(given.prior.required)

    def apply_prior(self, mask: Bool[Array, "target *more input"]) -> Bool[Array, "..."]:
        """The masks with inputs that are not allowed closed and required ones open."""
        shape = (self.dim,) + (1,) * (mask.ndim - 2) + mask.shape[-1:]
        return (mask & self.allowed.reshape(shape)) | self.required.reshape(shape)

    def minibatches(self, key, n_steps: int, size: int):
        """`n_steps` batches with the window axis last, drawn with replacement."""
        dtype = self.inputs.dtype
        u = jr.uniform(key, (n_steps * size,), dtype)
        last = jnp.maximum(self.n_valid - 1, 0).astype(jnp.int32)
        # u < 1, but u * n may round up to n in float32.
        draw = jnp.minimum((u * self.n_valid.astype(dtype)).astype(jnp.int32), last)
        index = self.order[draw]
        split = lambda a: jnp.swapaxes(a[index].reshape(n_steps, size, -1), 1, 2)  # noqa: E731
        return split(self.inputs), split(self.outputs), self.weight[index].reshape(n_steps, size)


class KnownData:
    """The same in NumPy, for closed forms that compile nothing."""

    def __init__(self, windows: Windows):
        history, increment = np.asarray(windows.history), np.asarray(windows.increment)
        valid, weight = np.asarray(windows.valid), np.asarray(windows.weight)
        n, self.dim, self.dtype = history.shape[0], history.shape[2], history.dtype
        scales = (np.asarray(windows.scaling.scale), np.asarray(windows.scaling.rate_scale))
        finite = np.isfinite(history).all() and np.isfinite(increment).all()
        varies = (increment != 0).any(axis=0).all() and all((s > 0).all() for s in scales)
        self.refused = not (finite and varies) or int(valid.sum()) < self.dim + 1
        use = valid & (not self.refused)
        self.inputs = np.where(use[:, None], history.reshape(n, -1), 0).astype(np.float64)
        self.outputs = np.where(use[:, None], increment, 0).astype(np.float64)
        self.weight = np.where(use, weight, 0).astype(np.float64)
        prior = windows.prior
        flat = lambda g: np.transpose(np.asarray(g), (1, 2, 0)).reshape(self.dim, -1)  # noqa: E731
        self.allowed, self.required = flat(prior.allowed), flat(prior.required)

    def allowing(self, among: Bool[np.ndarray, "target input"]) -> "KnownData":
        """The same data with no other inputs allowed than these and required ones."""
        other = copy.copy(self)
        other.allowed = self.allowed & (among | self.required)
        return other
