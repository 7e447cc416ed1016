"""Search among many collinear inputs: moves ranked by a linearised network, judged by refits."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import check_whole
from .._types import Checked, Graph, RealScalarLike, Scores
from ..fit._newton import fit_network, predict_and_jacobian
from ..fit._prices import AbstractPrice, as_price
from ..fit._refit import StrengthConfig, checked_refit
from ..models._networks import init_layers
from ..windows._flat import FlatData
from ..windows._windows import Windows
from ._splines import FLOOR, SplineGraph, spline_graph

# Moves that are refitted at every step, best ones first.
REFITTED = 4
# Candidate inputs per target from which on judging every edge by refitted networks, whose cost
# grows with the square of their number, takes too long.
MANY_INPUTS = 25


class LagSearch(eqx.Module):
    """What [`search_lags`][ndde_jax.search_lags] found.

    - `graph`: `[source target lag]`.
    - `evidence`: by how much the logarithm of a target's risk rises when a kept edge is left out,
      or falls when a dropped one is added, `[source target lag]`. Kept edges are refitted without;
      dropped ones are linearised (on the shortlist) or regressed on splines (elsewhere).
    - `risk`: standardised mean squared error per target, corrected for the parameters used.
    - `threshold`: what an edge must lower that risk by to be kept, `[target]`.
    - `screening`: the [`SplineGraph`][ndde_jax.SplineGraph] it started from.
    """

    graph: Graph
    evidence: Scores
    risk: Float[jax.Array, "target"]
    threshold: Float[jax.Array, "target"]
    screening: SplineGraph


def search_lags(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray],
    coefficient: Checked[RealScalarLike | AbstractPrice | None] = None,
    config: Checked[StrengthConfig | None] = None,
    shortlist: Checked[int] = 12,
) -> LagSearch:
    """The library's graph search for many candidate lags, where neighbours are nearly collinear.

    For each target, [`spline_graph`][ndde_jax.spline_graph] makes a shortlist and a first choice. A
    network is fitted on that choice and improved move by move: an edge added, dropped, or *swapped*
    for another. All moves are ranked by what one Gauss–Newton step would make of them, the best
    few are refitted, and the best of these is taken if it lowers risk + price × edges, with the
    price of [`SignalStrengths.kept`][ndde_jax.SignalStrengths.kept]. Unlike in
    [`search_graph`][ndde_jax.search_graph] the cost does not grow with the number of candidates,
    and a wrong lag can be corrected in one move, without passing through a worse graph. What the
    prior of the windows decides is never moved.

    **Arguments:**

    - `windows`: of one system; [`midpoint_windows`][ndde_jax.midpoint_windows] where noise drives
        the system, since lags half a step off cost edges.
    - `key`: initial weights.
    - `coefficient`: λ, an edge costs λ/F of its target's variance, F being the number of
        candidates, or a price; by default [`EBIC`][ndde_jax.select.EBIC].
    - `config`: [`StrengthConfig`][ndde_jax.StrengthConfig]: `restarts` and `steps` of first fits,
        `fold_steps` of refits, at most `search` moves.
    - `shortlist`: inputs per target to search among, static.

    **Returns:** [`LagSearch`][ndde_jax.LagSearch]; NaN for windows that [`fit`][ndde_jax.fit] would
    refuse.

    **Raises:** `ValueError` for a batch of systems (use `jax.vmap`).

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.search_lags(windows, key=jax.random.key(0)).graph[:, :, 0])
    ```
    """
    config, key = checked_refit("search_lags", windows, config, key)
    price = as_price(coefficient, "coefficient")
    check_whole(shortlist, "shortlist")
    screening = spline_graph(windows, shortlist=shortlist)
    return _search(windows, screening, price, config, key)


@eqx.filter_jit
def _search(windows, screening: SplineGraph, price, config, key) -> LagSearch:
    data = FlatData(windows)
    dim, n_inputs = data.dim, data.inputs.shape[1]
    shape = (dim, n_inputs // dim, dim)
    n = jnp.maximum(jnp.sum(data.weight), 1)
    first = jnp.moveaxis(screening.graph, (0, 1, 2), (2, 0, 1)).reshape(dim, n_inputs)
    spline_evidence = jnp.moveaxis(screening.evidence, (0, 1, 2), (2, 0, 1)).reshape(dim, n_inputs)

    def target(args):
        output, slots, chosen, undecided, evidence, key = args
        problem = _Problem(
            data.inputs[:, slots],
            output,
            data.weight,
            n_inputs,
            price,
            config,
            undecided[slots],
        )
        state = problem.from_scratch(chosen[slots], key)
        mask, found, linear, paid = problem.search(state, n)
        inside = problem.evidence(mask, found, linear, n)
        evidence = evidence.at[slots].set(inside)
        chosen = jnp.zeros(n_inputs, bool).at[slots].set(mask)
        return chosen, evidence, found.corrected_risk(n), paid

    keys = jr.split(key, dim)
    undecided = data.allowed & ~data.required
    each = (data.outputs.T, screening.shortlist, first, undecided, spline_evidence, keys)
    mask, evidence, risk, threshold = jax.lax.map(target, each)
    refused = data.refused
    return LagSearch(
        graph=to_graph_axes(mask.reshape(shape)) & ~refused,
        evidence=jnp.where(refused, jnp.nan, to_graph_axes(evidence.reshape(shape))),
        risk=jnp.where(refused, jnp.nan, risk),
        threshold=jnp.where(refused, jnp.nan, threshold),
        screening=screening,
    )


class _Problem:
    """One target and its shortlist. Networks see all slots; a mask closes those not chosen."""

    def __init__(self, inputs, output, weight, n_inputs: int, price, config, undecided):
        self.inputs, self.output, self.weight = inputs, output, weight
        self.n_inputs, self.price, self.config = n_inputs, price, config
        n_slots = inputs.shape[1]
        swaps = list(itertools.combinations(range(n_slots), 2))
        moves = np.zeros((n_slots + len(swaps), n_slots), bool)
        moves[np.arange(n_slots), np.arange(n_slots)] = True
        for row, pair in enumerate(swaps, start=n_slots):
            moves[row, list(pair)] = True
        self.moves = jnp.asarray(moves)
        # Moves that leave alone what the prior decides.
        self.possible = ~jnp.any(self.moves & ~undecided[None], axis=1)

    def _fit(self, mask, network, steps: int, decay=1e-2):
        inputs = self.inputs * mask[None].astype(self.inputs.dtype)
        found = fit_network(
            network, inputs, self.output, self.weight, n_iterations=steps, decay=decay
        )
        return found

    def from_scratch(self, mask, key):
        """The best of several starts, its mask with it."""
        config = self.config
        starts = init_layers(
            config.restarts,
            self.inputs.shape[1],
            width=config.width,
            depth=config.depth,
            key=key,
            dtype=self.inputs.dtype,
        )
        fits = jax.lax.map(lambda start: self._fit(mask, start, config.steps), starts)
        best = jnp.argmin(jnp.where(jnp.isfinite(fits.risk), fits.risk, jnp.inf))
        return mask, jax.tree.map(lambda leaf: leaf[best], fits)

    def _alive(self, network, mask):
        """The network with zero weights on closed slots."""
        (weight, bias), *rest = network
        return ((weight * mask[None].astype(weight.dtype), bias), *rest)

    def linearised(self, mask, found) -> Float[jax.Array, "move"]:
        """Risk after each move by one Gauss–Newton step from the present network.

        Good for additions. Removals come out too cheap, since the derivatives with respect to all
        other weights still contain the input; that is why the best few moves are refitted.
        """
        network = self._alive(found.network, mask)
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
        """The best move, again and again, while it pays."""

        def price_of(found):
            return self.price(found.corrected_risk(n), n, self.n_inputs, self.config.width)

        def step(carry):
            mask, found, _, count, _ = carry
            price = price_of(found)
            cost = self.linearised(mask, found)
            sizes = jnp.sum(mask[None] ^ self.moves, axis=1).astype(cost.dtype)
            ranked = jnp.where(self.possible, cost + price * sizes, jnp.inf)
            _, best = jax.lax.top_k(-ranked, min(REFITTED, len(self.moves)))
            network = self._alive(found.network, mask)

            def refit(move):
                new = mask ^ move
                refitted = self._fit(new, network, self.config.fold_steps, found.decay)
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
        """Change of the log-risk by each slot, positive where it speaks for the edge."""
        n_slots = self.inputs.shape[1]
        network = self._alive(found.network, mask)

        def without(slot):
            move = jnp.arange(n_slots) == slot

            def refit():
                return self._fit(
                    mask & ~move, network, self.config.fold_steps, found.decay
                ).corrected_risk(n)

            return jax.lax.cond(mask[slot], refit, lambda: linear[slot])

        risk = jax.lax.map(without, jnp.arange(n_slots))
        own = jnp.where(mask, found.corrected_risk(n), found.risk)
        # A factorisation can fail in single precision; that says nothing for or against an edge.
        risk = jnp.where(jnp.isfinite(risk), risk, own)
        # An addition brings `width` weights, which chance alone would use.
        chance = jnp.where(mask, 0, found.risk * self.config.width / n)
        change = jnp.log((risk + chance + FLOOR) / (own + FLOOR))
        return jnp.where(mask, change, -change)


def searches_by_moves(windows: Windows) -> bool:
    """Whether candidates are many, or states lie between samples."""
    return windows.dim * windows.n_lags >= MANY_INPUTS or windows.scheme == "midpoint"
