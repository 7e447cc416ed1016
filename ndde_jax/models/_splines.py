"""Drifts that are sums of splines and products of inputs, fitted in closed form."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._types import Scaling, namespace_of, to_jax
from ..regression._design import spline_terms
from ._families import AbstractDrift, Mask
from ._networks import MaskedDrift


class SplineDrift(AbstractDrift):
    """A sum of restricted cubic splines and products of inputs for each target.

    Replaces a [`MaskedDrift`][ndde_jax.models.MaskedDrift] in a
    [`NeuralDDE`][ndde_jax.models.NeuralDDE]; fitted by least squares, see
    [`fit_splines`][ndde_jax.select.fit_splines].

    - `index`: the input, flat (lag, source), of each slot; an unused slot repeats an input with
        coefficients 0.
    - `knots`: knots of every input, standardised, ascending.
    - `constant`, `splines`, `products`: coefficients of 1, of the spline terms of every slot (the
        input itself first), and of the product of every pair of slots.
    - `lower`, `upper`: standardised inputs are clipped to this box, so the drift is bounded.
    - `networks`: added to the sum; None if no target has one, zero for targets with splines.
    """

    index: Int[Array, "target slot"]
    knots: Float[Array, "input knot"]
    constant: Float[Array, "target"]
    splines: Float[Array, "target slot term"]
    products: Float[Array, "target pair"]
    lower: Float[Array, "input"]
    upper: Float[Array, "input"]
    networks: MaskedDrift | None = None

    def __call__(
        self, history: Float[Array, "lag dim"], mask: Mask = None
    ) -> Float[Array, "target"]:
        """Return the standardised rate of change for one standardised history. The mask weights
        every term by all inputs that the term depends on.
        """
        z = jnp.clip(history.reshape(-1), self.lower, self.upper)
        terms = spline_terms(z, self.knots)[self.index]
        first, second = pairs_of(self.index.shape[1])
        values = z[self.index]
        products = values[:, first] * values[:, second]
        if mask is not None:
            gates = mask.reshape(len(self.index), -1).astype(z.dtype)
            gates = jnp.take_along_axis(gates, self.index, axis=1)
            terms = terms * gates[:, :, None]
            products = products * gates[:, first] * gates[:, second]
        rate = self.constant + jnp.sum(self.splines * terms, axis=(1, 2))
        rate = rate + jnp.sum(self.products * products, axis=1)
        return rate if self.networks is None else rate + self.networks(history, mask)

    def output_range(self) -> tuple[Float[Array, "target"], Float[Array, "target"]]:
        """Return the midpoint and half-width of an interval that contains all outputs."""
        # Each spline is bounded by its extremes on a fine grid over the box, with some slack.
        xp = namespace_of(self)
        own = jax.tree.map(xp.asarray, self)
        at = xp.linspace(0, 1, 65, dtype=own.lower.dtype)[:, None]
        z = own.lower[None] + at * (own.upper - own.lower)[None]
        knots = xp.broadcast_to(own.knots[None], (len(at), *own.knots.shape))
        terms = spline_terms(z, knots)  # [point input term]
        values = xp.einsum("pjsk,jsk->pjs", terms[:, own.index], own.splines)
        low, high = xp.min(values, axis=0), xp.max(values, axis=0)
        slack = 0.05 * (high - low)
        first, second = pairs_of(own.index.shape[1])
        size = xp.maximum(xp.abs(own.lower), xp.abs(own.upper))[own.index]
        spread = xp.sum(xp.abs(own.products) * size[:, first] * size[:, second], axis=1)
        middle = own.constant + xp.sum(high + low, axis=1) / 2
        spread = xp.sum((high - low) / 2 + slack, axis=1) + spread
        if self.networks is not None:
            other, wide = map(xp.asarray, self.networks.output_range())
            middle, spread = middle + other, spread + wide
        return to_jax(middle), to_jax(spread)


def pairs_of(n_slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two members of every pair of slots."""
    pairs = np.array(list(itertools.combinations(range(n_slots), 2)), int).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


class HostSplines(NamedTuple):
    """The physical drift of a spline model on the host, in double precision, for many physical
    histories at once. Nothing is compiled, and single targets can be evaluated alone.

    - `drift`: the drift, with coefficients and weights multiplied by the mask.
    - `scaling`: the scaling of the model.
    """

    drift: SplineDrift
    scaling: Scaling

    def __call__(self, histories: Float[np.ndarray, "row lag dim"]) -> Float[np.ndarray, "row dim"]:
        """Return the rates of all targets."""
        terms: dict[int, np.ndarray] = {}
        targets = range(len(self.drift.constant))
        return np.stack([self.rate(histories, j, terms) for j in targets], axis=1)

    def rate(
        self,
        histories: Float[np.ndarray, "row lag dim"],
        target: int,
        terms: dict[int, np.ndarray] | None = None,
    ) -> Float[np.ndarray, "row"]:
        """Return the rate of one target; `terms` caches the splines of inputs."""
        own, s, terms = self.drift, self.scaling, {} if terms is None else terms
        rate: Any = np.full(len(histories), own.constant[target])

        def standardised(i):
            lag, source = divmod(int(i), histories.shape[2])
            return (histories[:, lag, source] - s.center[source]) / s.scale[source]

        def spline(slot):
            i = int(own.index[target, slot])
            if i not in terms:
                z = np.clip(standardised(i), own.lower[i], own.upper[i])
                terms[i] = spline_terms(z, own.knots[i])
            return terms[i]

        for slot in np.flatnonzero(np.any(own.splines[target], axis=1)):
            rate += spline(slot) @ own.splines[target, slot]
        first, second = pairs_of(own.index.shape[1])
        for k in np.flatnonzero(own.products[target]):
            product = spline(first[k])[:, 0] * spline(second[k])[:, 0]
            rate += own.products[target, k] * product
        if own.networks is not None:
            (weight, bias), *rest = ((w[target], b[target]) for w, b in own.networks.layers)
            reads = np.flatnonzero(weight.any(axis=0))
            hidden = bias + sum(standardised(i)[:, None] * weight[:, i] for i in reads)
            for weight, bias in rest:
                hidden = np.tanh(hidden) @ weight.T + bias
            rate += hidden[..., 0]
        return s.rate_center[target] + s.rate_scale[target] * rate


def host_splines(model: Any) -> HostSplines | None:
    """Return the drift of a spline model on the host; None for other models."""
    drift = getattr(model, "drift", None)
    if not isinstance(drift, SplineDrift):
        return None
    own, s = jax.tree.map(
        lambda a: np.asarray(a, np.float64 if jnp.issubdtype(a.dtype, jnp.floating) else a.dtype),
        (drift, model.scaling),
    )
    mask = np.asarray(model.mask).reshape(len(own.index), -1)
    gates = np.take_along_axis(mask, own.index, axis=1)
    first, second = pairs_of(own.index.shape[1])
    own = eqx.tree_at(
        lambda drift: (drift.splines, drift.products),
        own,
        (own.splines * gates[:, :, None], own.products * (gates[:, first] & gates[:, second])),
    )
    if own.networks is not None:
        weight = own.networks.layers[0][0] * mask[:, None]
        own = eqx.tree_at(lambda drift: drift.networks.layers[0][0], own, weight)
    return HostSplines(own, s)
