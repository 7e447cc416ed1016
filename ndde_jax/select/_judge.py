"""Local search over the inputs of one target, with networks: edges of a shortlist are added,
dropped and exchanged, and moves are ranked by a linearised network before the best are refitted.

Under tracing, the search is one program. For concrete windows, two small compiled programs serve
all targets of all data sets, and the search itself is plain Python.
"""

import functools
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float

from .._axes import flat_inputs
from .._memory import padded_length
from .._types import KnownMask, divisor, to_jax
from ..fit._newton import NetworkFit, fit_network, predict, predict_and_jacobian
from ..fit._prices import AbstractPrice
from ..fit._refit import StrengthConfig
from ..regression._search import COMPILER_OPTIONS, known_options, padded
from ..regression._terms import FLOOR
from ._splines import SplineGraph
from ._worth import BLOCKS, stretches

# Number of best-ranked moves that are refitted at every step.
REFITTED = 4


class MoveProblem(eqx.Module):
    """The search problem of one target and its shortlist. Networks have all slots as inputs; a mask
    closes those not chosen.
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
        # Moves that leave the inputs decided by the prior unchanged.
        self.possible = to_jax(~(moves & ~undecided[None]).any(axis=1))

    def fit(self, mask, network, steps, decay=1e-2):
        """Return a network trained on the open slots, starting from another network."""
        inputs = self.inputs * mask[None].astype(self.inputs.dtype)
        return fit_network(
            network, inputs, self.output, self.weight, n_iterations=steps, decay=decay
        )

    def random_starts(self, key):
        """Return stacked random networks for a fit from scratch."""
        n_slots, dtype = self.inputs.shape[1], self.inputs.dtype
        return self.config.random_networks(self.config.restarts, n_slots, dtype, key=key)

    def from_scratch(self, mask, key):
        """Return the best of several starts, with its mask."""
        starts = self.random_starts(key)
        fits = jax.lax.map(lambda start: self.fit(mask, start, self.config.steps), starts)
        best = jnp.argmin(jnp.where(jnp.isfinite(fits.risk), fits.risk, jnp.inf))
        return mask, jax.tree.map(lambda leaf: leaf[best], fits)

    def alive(self, network, mask):
        """Return the network with zero weights on closed slots."""
        (weight, bias), *rest = network
        return ((weight * mask[None].astype(weight.dtype), bias), *rest)

    def linearised(self, mask, found) -> Float[jax.Array, "move"]:
        """Return the risk after each move, estimated by one Gauss–Newton step from the network.

        Accurate for additions. Removals look too cheap, because the derivatives with respect to all
        other weights still contain the input. That is why the best few moves are refitted.
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
        """Return the mask after greedily taking the best move while it lowers the cost."""

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
        # The last ranking is that of the final network, from which no move paid.
        return mask, found, linear, price_of(found)

    def evidence(self, mask: Bool[jax.Array, "slot"], found, linear, n) -> Float[jax.Array, "slot"]:
        """Return the change of the log-risk for each slot, positive if it supports the edge."""
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
        # A factorisation can fail in single precision. That is no evidence about the edge.
        risk = jnp.where(jnp.isfinite(risk), risk, own)
        # An addition brings `width` weights, which lower the risk by this much by chance.
        chance = jnp.where(mask, 0, found.risk * self.config.width / n)
        change = jnp.log((risk + chance + FLOOR) / (own + FLOOR))
        return jnp.where(mask, change, -change)


# ---- concrete windows ----

# Slots of a problem: spare ones in addition to the inputs chosen, and the fewest slots.
SPARE_SLOTS, FEWEST_SLOTS = 4, 8


class Judged(NamedTuple):
    """The judgement of networks on one target, in NumPy.

    - `mask`, `evidence`: of every input, whether it is kept and its score; see
        [`Moves`][ndde_jax.select.Moves].
    - `worth`: rise of the corrected risk without a kept edge, its fall with a dropped edge among
        `slots`, 0 elsewhere.
    - `blocks`: rise of the risk without each kept edge by block of the record, `[input block]`;
        `left`: the residual risk in each block.
    - `risk`, `threshold`: corrected risk and the price of an edge.
    - `fit`, `slots`: the network and its inputs; those not in `mask` are closed.
    """

    mask: KnownMask
    evidence: Float[np.ndarray, " input"]
    worth: Float[np.ndarray, " input"]
    blocks: Float[np.ndarray, "input block"]
    left: Float[np.ndarray, " block"]
    risk: float
    threshold: float
    fit: NetworkFit
    slots: np.ndarray


def judge(
    data, screening: SplineGraph, price, config, *, key, asked=None, needed=None, seen=None
) -> list:
    """Return the judgement of networks on each target, by moves from the inputs that splines chose.

    Windows and slots are padded to a few sizes, so that one compiled program serves all targets and
    other data sets.

    **Arguments:**

    - `data`: [`KnownData`][ndde_jax.windows._windows.KnownData].
    - `asked`: the targets to judge; by default all. The entry of the others is None.
    - `needed`: function of a target and a first network on the inputs chosen for it that returns
        whether to continue; by default always. If not, the entry is None.
    - `seen`: inputs, `[window input]`, and weights of the windows of each target; by default those
        of the data.
    """
    n_inputs, dim = data.inputs.shape[1], data.dim
    graph = flat_inputs(np.asarray(screening.graph))
    evidence = flat_inputs(np.asarray(screening.evidence))
    undecided = data.allowed & ~data.required
    asked = np.ones(dim, bool) if asked is None else np.asarray(asked)
    # No keys unless a target is judged: splitting them compiles for every number of targets.
    found: list = [None] * dim
    for j, own in enumerate(jr.split(key, dim) if asked.any() else ()):
        if not asked[j]:
            continue
        slots = np.asarray(screening.shortlist)[j]
        room = min(max(int(graph[j].sum()) + SPARE_SLOTS, FEWEST_SLOTS), len(slots))
        # Chosen inputs first, then the others in the order of the shortlist.
        slots = slots[np.argsort(~graph[j][slots], kind="stable")]
        slots = slots[: min(-(-room // 4) * 4, len(slots))]
        inputs, weight = (data.inputs, data.weight) if seen is None else seen[j]
        weighed = data.weighing(weight)
        problem = _problem(weighed, j, inputs[:, slots], price, config, undecided[j][slots])
        mask, first = np.asarray(graph[j][slots]), _from_scratch(problem, graph[j][slots], own)
        if needed is not None and not needed(j, first.network):
            continue
        mask, last, linear, tried = _search(problem, mask, first)
        inside, worth, blocks, left = _evidence(problem, mask, last, linear, tried, weight)
        row = Judged(
            mask=np.isin(np.arange(n_inputs), slots[mask]),
            evidence=evidence[j].copy(),
            worth=np.zeros(n_inputs),
            blocks=np.zeros((n_inputs, blocks.shape[1])),
            left=left,
            risk=last.risk,
            threshold=last.price,
            fit=last.network,
            slots=slots,
        )
        row.evidence[slots], row.worth[slots], row.blocks[slots] = inside, worth, blocks
        found[j] = row
    return found


def fit_on(data, j: int, mask, price, config, key) -> tuple[NetworkFit, np.ndarray]:
    """Return a network of one target on a mask of candidates, and the slots that it reads."""
    slots, closed = np.flatnonzero(mask), np.flatnonzero(~mask)
    # Closed inputs pad the slots to a size that is compiled already.
    wanted = max(-(-len(slots) // 4) * 4, FEWEST_SLOTS)
    slots = np.concatenate([slots, closed[: wanted - len(slots)]])
    inputs, undecided = data.inputs[:, slots], np.ones(len(slots), bool)
    problem = _problem(data, j, inputs, price, config, undecided)
    return _from_scratch(problem, mask[slots], key).network, slots


def _problem(data, j: int, inputs, price, config, undecided) -> MoveProblem:
    """Return the problem of one target, with padded rows."""
    arrays = (inputs, data.outputs[:, j], data.weight)
    spare = padded_length(len(data.weight)) - len(data.weight)
    inputs, output, weight = (to_jax(padded(spare, a, 0), data.dtype) for a in arrays)
    among = to_jax(data.inputs.shape[1], data.dtype)
    return MoveProblem(inputs, output, weight, among, price, config, undecided)


class _Refit(NamedTuple):
    """A network, its corrected risk, the price of an edge, and its squared errors."""

    network: NetworkFit
    risk: float
    price: float
    squares: Float[np.ndarray, " window"]


def _fitted(problem: MoveProblem, mask, network, steps, decay):
    found = problem.fit(mask, network, steps, decay)
    n = jnp.maximum(jnp.sum(problem.weight), 1)
    risk = found.corrected_risk(n)
    seen = problem.inputs * mask[None].astype(problem.inputs.dtype)
    squares = (predict(found.network, seen) - problem.output) ** 2
    return found, risk, problem.price(risk, n, problem.n_inputs, problem.config.width), squares


@functools.cache
def _fit_compiled():
    """Return the program of a fit, set up on first use. The options halve the compile time and do
    not slow the program down.
    """
    return jax.jit(_fitted, compiler_options=known_options(COMPILER_OPTIONS))


_ranked = eqx.filter_jit(MoveProblem.linearised)


def _refit(problem: MoveProblem, mask, network, steps: int, decay: Any = 1e-2) -> _Refit:
    dtype = problem.inputs.dtype
    # Steps and decay are arrays so that all refits share one program.
    found = _fit_compiled()(problem, to_jax(mask), network, to_jax(steps), to_jax(decay, dtype))
    network, risk, price, squares = jax.tree.map(np.asarray, found)
    return _Refit(network, float(risk), float(price), squares)


def _from_scratch(problem: MoveProblem, mask, key) -> _Refit:
    """Return the best of several starts."""
    config = problem.config
    # In NumPy, since a slice of a JAX array would be a program of its own.
    starts = jax.tree.map(np.asarray, problem.random_starts(key))
    fits = [
        _refit(problem, mask, jax.tree.map(lambda leaf: leaf[i], starts), config.steps)  # noqa: B023
        for i in range(config.restarts)
    ]
    return min(fits, key=lambda fit: fit.risk if np.isfinite(fit.risk) else np.inf)


def _search(problem: MoveProblem, mask, found: _Refit):
    """Return the mask after greedily taking the best move while it lowers the cost:
    `MoveProblem.search` outside JAX.

    Returns the mask, its network, the ranking of all moves, and the refits of moves that did not
    pay, keyed by mask.
    """
    moves, possible = np.asarray(problem.moves), np.asarray(problem.possible)
    linear = np.full(len(moves), np.inf)
    tried: dict[bytes, _Refit] = {}
    for _ in range(problem.config.search + len(mask)):
        linear = np.asarray(_ranked(problem, to_jax(mask), found.network))
        sizes = (mask[None] ^ moves).sum(axis=1)
        network = problem.alive(found.network.network, mask)
        ranked = np.where(possible, linear + found.price * sizes, np.inf)
        best, tried = None, {}
        for move in np.argsort(ranked, kind="stable")[:REFITTED]:
            if not possible[move]:
                continue
            new = mask ^ moves[move]
            fold_steps, decay = problem.config.fold_steps, found.network.decay
            refit = tried[new.tobytes()] = _refit(problem, new, network, fold_steps, decay)
            gain = found.risk - refit.risk + found.price * float(mask.sum() - new.sum())
            if np.isfinite(gain) and gain > 0 and (best is None or gain > best[0]):
                best = (gain, new, refit)
        if best is None:
            break
        (_, mask, found), tried = best, {}
    # The last ranking is that of the final network, from which no move paid.
    return mask, found, linear, tried


def _evidence(problem: MoveProblem, mask, found: _Refit, linear, tried, weight):
    """Return the change of the log-risk for each slot, positive if it supports the edge; the worth
    of each slot; the worth of kept ones by block of windows, `[slot block]`; and the residual risk
    by block. `tried` holds earlier refits from the same network.
    """
    rank = stretches(weight)
    size = divisor(np.bincount(rank, weight, BLOCKS))
    n, n_slots = max(float(weight.sum()), 1.0), len(mask)
    own = np.where(mask, found.risk, float(found.network.risk))
    risk, blocks = np.array(linear[:n_slots], float), np.zeros((n_slots, BLOCKS))
    network = problem.alive(found.network.network, mask)
    for slot in np.flatnonzero(mask):
        others = mask & (np.arange(n_slots) != slot)
        refit = tried.get(others.tobytes())
        if refit is None:
            steps, decay = problem.config.fold_steps, found.network.decay
            refit = _refit(problem, others, network, steps, decay)
        more = weight * (refit.squares - found.squares)[: len(weight)]
        blocks[slot] = np.bincount(rank, more, BLOCKS) / size
        risk[slot] = refit.risk
    # A factorisation can fail in single precision. That is no evidence about the edge.
    risk = np.where(np.isfinite(risk), risk, own)
    # An addition brings `width` weights, which lower the risk by this much by chance.
    chance = np.where(mask, 0, found.network.risk * problem.config.width / n)
    change = np.log((risk + chance + FLOOR) / (own + FLOOR))
    worth = np.where(mask, risk - own, own - risk - chance)
    left = np.bincount(rank, weight * found.squares[: len(weight)], BLOCKS) / size
    return np.where(mask, change, -change), worth, blocks, left
