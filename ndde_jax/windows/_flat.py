"""Windows as flat arrays for training loops."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._axes import flat_inputs
from .._types import namespace_of, to_jax
from ._windows import Windows


class _Arrays:
    """The data of windows as flat arrays, with zeros where nothing may be used; `xp` is NumPy or
    JAX's.
    """

    def __init__(self, windows: Windows, xp: Any):
        given = jax.tree.map(xp.asarray, windows)
        n, dim = given.history.shape[0], given.history.shape[2]
        scaling = given.scaling
        constant = xp.any(~(scaling.scale > 0)) | xp.any(~(scaling.rate_scale > 0))
        finite = xp.all(xp.isfinite(given.history)) & xp.all(xp.isfinite(given.increment))
        varies = xp.all(xp.any(given.increment != 0, axis=0))
        self.valid = given.valid
        self.refused = constant | ~finite | ~varies | (xp.sum(given.valid) < dim + 1)
        use = given.valid & ~self.refused
        self.inputs = xp.where(use[:, None], given.history.reshape(n, -1), 0)
        self.outputs = xp.where(use[:, None], given.increment, 0)
        self.weight = xp.where(use, given.weight, 0)
        self.allowed, self.required = map(flat_inputs, (given.prior.allowed, given.prior.required))


class FlatPartial(NamedTuple):
    """The windows that miss values of some variables as flat arrays; NumPy or JAX.

    - `inputs`, `outputs`: as of all data, `[window input]` and `[window target]`.
    - `known`, `rated`: which of these are measured.
    """

    inputs: Any
    outputs: Any
    known: Any
    rated: Any

    @classmethod
    def of(cls, windows: Windows, xp: Any) -> "FlatPartial | None":
        """Return those of windows; None where they have none."""
        if windows.partial is None:
            return None
        given = jax.tree.map(xp.asarray, windows.partial)
        states, known = (a.reshape(len(a), -1) for a in (given.history, given.known))
        return cls(states, given.increment, known, given.rated)

    def weight(self, rated: Any, inputs: Any) -> Any:
        """Return the weight of every window for a target whose rate is measured in some, fitted on
        some inputs: 1 where all are measured, else 0.
        """
        there = rated & (self.known | ~inputs[None]).all(axis=1)
        return there.astype(self.inputs.dtype)


class FlatData(eqx.Module):
    """The windows as flat arrays, valid rows listed first so that padding changes no draw."""

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
        known, dtype = _Arrays(windows, xp), windows.history.dtype
        self.dim = windows.history.shape[2]
        self.inputs, self.outputs = to_jax(known.inputs, dtype), to_jax(known.outputs, dtype)
        self.weight, self.refused = to_jax(known.weight, dtype), to_jax(known.refused)
        self.allowed, self.required = to_jax(known.allowed), to_jax(known.required)
        self.n_valid = to_jax(xp.sum(known.valid))
        self.order = to_jax(xp.argsort(~known.valid, stable=True))

    @property
    def total(self) -> Float[Array, ""]:
        """The sum of the weights, at least 1."""
        return jnp.maximum(jnp.sum(self.weight), 1)

    @property
    def undecided(self) -> Bool[Array, "target input"]:
        """The inputs that the data decide, and not the prior."""
        return self.allowed & ~self.required

    def each_target(self, function: Callable, key: PRNGKeyArray, *rows: Any) -> Any:
        """Return `function(output, key, *row)` of every target, one after the other, for a row of
        each of the `rows`.
        """
        given = (self.outputs.T, jr.split(key, self.dim), *rows)
        return jax.lax.map(lambda args: function(*args), given)

    def apply_prior(self, mask: Bool[Array, "target *more input"]) -> Bool[Array, "..."]:
        """Return the masks with inputs that are not allowed closed and required ones open."""
        shape = (self.dim,) + (1,) * (mask.ndim - 2) + mask.shape[-1:]
        return (mask & self.allowed.reshape(shape)) | self.required.reshape(shape)

    def minibatches(self, key, n_steps: int, size: int):
        """Return `n_steps` batches with the window axis last, drawn with replacement."""
        dtype = self.inputs.dtype
        u = jr.uniform(key, (n_steps * size,), dtype)
        last = jnp.maximum(self.n_valid - 1, 0).astype(jnp.int32)
        # u < 1, but u * n may round up to n in float32.
        draw = jnp.minimum((u * self.n_valid.astype(dtype)).astype(jnp.int32), last)
        index = self.order[draw]
        split = lambda a: jnp.swapaxes(a[index].reshape(n_steps, size, -1), 1, 2)  # noqa: E731
        return split(self.inputs), split(self.outputs), self.weight[index].reshape(n_steps, size)


class KnownData:
    """The windows as flat NumPy arrays, for closed forms that compile nothing."""

    def __init__(self, windows: Windows):
        known = _Arrays(windows, np)
        self.dim, self.dtype = windows.history.shape[2], windows.history.dtype
        self.inputs, self.outputs = (a.astype(np.float64) for a in (known.inputs, known.outputs))
        self.weight, self.refused = known.weight.astype(np.float64), bool(known.refused)
        self.allowed, self.required = known.allowed, known.required
        self.partial = None if self.refused else FlatPartial.of(windows, np)
        # Windows that count for some target.
        self.some = self.weight > 0 if self.partial is None else self.partial.rated.any(axis=1)
        if self.partial is not None:
            self.inputs, self.outputs = (a.astype(np.float64) for a in self.partial[:2])
            self.partial = self.partial._replace(inputs=self.inputs, outputs=self.outputs)

    def numbers(self, values: Any) -> Array:
        """Return numbers that were found in the data, in their precision; NaN if these are
        refused.
        """
        values = np.asarray(values, float)
        return to_jax(np.full_like(values, np.nan) if self.refused else values, self.dtype)

    def of_target(self, j: int, inputs: Bool[np.ndarray, " input"]) -> "KnownData":
        """Return the data of one target, fitted on some inputs: where values are missing, the
        windows in which its rate and these are measured.
        """
        if self.partial is None:
            return self
        return self.weighing(self.partial.weight(self.partial.rated[:, j], np.asarray(inputs)))

    def weighing(self, weight: Float[np.ndarray, " window"]) -> "KnownData":
        """Return the data with another weight of every window."""
        other = copy.copy(self)
        other.weight = weight
        return other

    def on_rows(self, outputs: Float[np.ndarray, "row target"]) -> "KnownData":
        """Return the data with rows that stand for the windows, of weight one."""
        other = copy.copy(self)
        other.outputs, other.weight = outputs, np.ones(len(outputs))
        return other

    def allowing(self, among: Bool[np.ndarray, "target input"]) -> "KnownData":
        """Return the data with no other inputs allowed than these and required ones."""
        other = copy.copy(self)
        other.allowed = self.allowed & (among | self.required)
        return other
