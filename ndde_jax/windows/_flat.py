"""Windows as the flat arrays that training loops want."""

import copy

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int

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
        n = windows.history.shape[0]
        dtype = windows.history.dtype
        self.dim = windows.history.shape[2]
        self.n_valid = jnp.sum(windows.valid)
        constant = jnp.any(~(windows.scaling.scale > 0)) | jnp.any(
            ~(windows.scaling.rate_scale > 0)
        )
        finite = jnp.all(jnp.isfinite(windows.history)) & jnp.all(jnp.isfinite(windows.increment))
        varies = jnp.all(jnp.any(windows.increment != 0, axis=0))
        self.refused = constant | ~finite | ~varies | (self.n_valid < self.dim + 1)
        use = windows.valid & ~self.refused
        self.inputs = jnp.where(use[:, None], windows.history.reshape(n, -1), 0)
        self.outputs = jnp.where(use[:, None], windows.increment, 0)
        self.weight = jnp.where(use, windows.weight, 0).astype(dtype)
        self.order = jnp.argsort(~windows.valid, stable=True)
        # [source target lag] -> [target input], inputs (lag, source).
        flat = lambda graph: jnp.transpose(graph, (1, 2, 0)).reshape(self.dim, -1)  # noqa: E731
        self.allowed, self.required = flat(windows.prior.allowed), flat(windows.prior.required)

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
