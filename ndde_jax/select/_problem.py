"""The problem of one target and a shortlist of inputs: networks judge edges added, dropped and
swapped.
"""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import to_jax
from ..fit._newton import fit_network, predict_and_jacobian
from ..fit._prices import AbstractPrice
from ..fit._refit import StrengthConfig
from ..models._networks import init_layers
from ._splines import FLOOR

# Moves that are refitted at every step, best ones first.
REFITTED = 4


class MoveProblem(eqx.Module):
    """A problem of one target and its shortlist. Networks see all slots; a mask closes those not
    chosen.
    """

    inputs: Float[jax.Array, "window slot"]
    output: Float[jax.Array, "window"]
    weight: Float[jax.Array, "window"]
    n_inputs: Any
    price: AbstractPrice
    config: StrengthConfig
    moves: Bool[jax.Array, "move slot"]
    possible: Bool[jax.Array, "move"]

    def __init__(self, inputs, output, weight, n_inputs, price, config, undecided):
        self.inputs, self.output, self.weight = inputs, output, to_jax(weight)
        self.n_inputs, self.price, self.config = n_inputs, price, config
        n_slots = inputs.shape[1]
        swaps = list(itertools.combinations(range(n_slots), 2))
        moves = np.zeros((n_slots + len(swaps), n_slots), bool)
        moves[np.arange(n_slots), np.arange(n_slots)] = True
        for row, pair in enumerate(swaps, start=n_slots):
            moves[row, list(pair)] = True
        self.moves = to_jax(moves)
        # Moves that leave alone what the prior decides.
        self.possible = to_jax(~(moves & ~undecided[None]).any(axis=1))

    def fit(self, mask, network, steps, decay=1e-2):
        """Return a network trained from another, on the slots that are open."""
        inputs = self.inputs * mask[None].astype(self.inputs.dtype)
        found = fit_network(
            network, inputs, self.output, self.weight, n_iterations=steps, decay=decay
        )
        return found

    def from_scratch(self, mask, key):
        """Return the best of several starts, with its mask."""
        config = self.config
        starts = init_layers(
            config.restarts,
            self.inputs.shape[1],
            width=config.width,
            depth=config.depth,
            key=key,
            dtype=self.inputs.dtype,
        )
        fits = jax.lax.map(lambda start: self.fit(mask, start, config.steps), starts)
        best = jnp.argmin(jnp.where(jnp.isfinite(fits.risk), fits.risk, jnp.inf))
        return mask, jax.tree.map(lambda leaf: leaf[best], fits)

    def alive(self, network, mask):
        """Return the network with zero weights on closed slots."""
        (weight, bias), *rest = network
        return ((weight * mask[None].astype(weight.dtype), bias), *rest)

    def linearised(self, mask, found) -> Float[jax.Array, "move"]:
        """Return the risk after each move by one Gauss–Newton step from the present network.

        Good for additions. Removals come out too cheap, since the derivatives with respect to all
        other weights still contain the input; that is why the best few moves are refitted.
        """
        network = self.alive(found.network, mask)
        prediction, jacobian = predict_and_jacobian(network, self.inputs)
        root = jnp.sqrt(self.weight)
        jacobian = jacobian * root[:, None]
        residual = (self.output - prediction) * root
        # First-layer weights come first in a flattened network, [hidden input].
        weight = network[0][0]
        owner = np.full(jacobian.shape[1], -1)
        owner[: weight.size] = np.tile(np.arange(weight.shape[1]), weight.shape[0])
        theta = jnp.concatenate(
            [weight.ravel(), jnp.zeros(jacobian.shape[1] - weight.size, weight.dtype)]
        )
        theta = theta.astype(jacobian.dtype)
        gram = jacobian.T @ jacobian
        slope = jacobian.T @ residual
        total = jnp.sum(self.weight)
        damping = 1e-6 * total + found.decay * total / 1000

        def after(move):
            new = mask ^ move
            gone = (mask & move)[owner] & (owner >= 0)
            free = (new[owner] | (owner < 0)).astype(gram.dtype)
            fixed = jnp.where(gone, -theta, 0)
            target = slope - gram @ fixed
            matrix = gram * free[:, None] * free[None] + jnp.diag(1 - free + damping)
            step = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(matrix), True), free * target)
            step = step * free + fixed
            change = step @ (gram @ step) - 2 * step @ slope
            sensible = (jnp.sum(move) == 1) | (jnp.sum(move & mask) == 1)
            risk = found.risk + change / total
            return jnp.where(sensible & jnp.isfinite(risk), jnp.maximum(risk, 0), jnp.inf)

        return jax.lax.map(after, self.moves)

    def search(self, state, n):
        """Return the mask after the best moves, one by one, while they pay."""

        def price_of(found):
            return self.price(found.corrected_risk(n), n, self.n_inputs, self.config.width)

        def step(carry):
            mask, found, _, count, _ = carry
            price = price_of(found)
            cost = self.linearised(mask, found)
            sizes = jnp.sum(mask[None] ^ self.moves, axis=1).astype(cost.dtype)
            ranked = jnp.where(self.possible, cost + price * sizes, jnp.inf)
            _, best = jax.lax.top_k(-ranked, min(REFITTED, len(self.moves)))
            network = self.alive(found.network, mask)

            def refit(move):
                new = mask ^ move
                refitted = self.fit(new, network, self.config.fold_steps, found.decay)
                risk = refitted.corrected_risk(n)
                fewer = (jnp.sum(mask) - jnp.sum(new)).astype(price.dtype)
                gain = found.corrected_risk(n) - risk + price * fewer
                return jnp.where(jnp.isfinite(gain), gain, -jnp.inf), refitted

            gains, fits = jax.lax.map(refit, self.moves[best])
            gains = jnp.where(self.possible[best], gains, -jnp.inf)
            winner = jnp.argmax(gains)
            better = gains[winner] > 0
            moved = mask ^ self.moves[best[winner]]
            fresh = jax.tree.map(lambda leaf: leaf[winner], fits)
            found = jax.tree.map(lambda a, b: jnp.where(better, a, b), fresh, found)
            return jnp.where(better, moved, mask), found, cost, count + 1, better

        unknown = jnp.full(len(self.moves), jnp.inf, self.inputs.dtype)
        start = (*state, unknown, jnp.zeros((), int), jnp.asarray(True))
        limit = self.config.search + self.inputs.shape[1]
        mask, found, linear, *_ = jax.lax.while_loop(lambda c: c[4] & (c[3] < limit), step, start)
        # Where no move paid, the last ranking is that of the final network.
        return mask, found, linear, price_of(found)

    def evidence(self, mask: Bool[jax.Array, "slot"], found, linear, n) -> Float[jax.Array, "slot"]:
        """Return the change of the log-risk by each slot, positive where it supports the edge."""
        n_slots = self.inputs.shape[1]
        network = self.alive(found.network, mask)

        def without(slot):
            left = mask & (jnp.arange(n_slots) != slot)

            def refit():
                return self.fit(left, network, self.config.fold_steps, found.decay).corrected_risk(
                    n
                )

            return jax.lax.cond(mask[slot], refit, lambda: linear[slot])

        risk = jax.lax.map(without, jnp.arange(n_slots))
        own = jnp.where(mask, found.corrected_risk(n), found.risk)
        # A factorisation can fail in single precision; that says nothing for or against an edge.
        risk = jnp.where(jnp.isfinite(risk), risk, own)
        # An addition brings `width` weights, which chance alone would use.
        chance = jnp.where(mask, 0, found.risk * self.config.width / n)
        change = jnp.log((risk + chance + FLOOR) / (own + FLOOR))
        return jnp.where(mask, change, -change)
