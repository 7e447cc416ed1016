"""Search among many collinear inputs: moves ranked by a linearised network, judged by refits."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._axes import to_graph_axes
from .._checks import check_whole, is_traced
from .._types import Checked, Graph, RealScalarLike, Scores
from ..fit._newton import NetworkFit, fit_network, predict, predict_and_jacobian
from ..fit._prices import AbstractPrice, as_price
from ..fit._refit import StrengthConfig, checked_refit
from ..models._networks import init_layers
from ..windows._flat import FlatData, KnownData
from ..windows._windows import Windows
from ._splines import FLOOR, SplineGraph, spline_graph

# Windows of the shortest padded data.
SHORTEST = 256
# Inputs of a problem: those chosen and some that could take their place.
SPARE_SLOTS, FEWEST_SLOTS = 4, 8
# Stretches of a record over which the worth of an edge is compared.
BLOCKS = 32
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


def _search(windows, screening: SplineGraph, price, config, key) -> LagSearch:
    if is_traced(windows, screening, price, key):
        return _search_traced(windows, screening, price, config, key)
    data = KnownData(windows)
    if data.refused:
        nothing = jnp.full(data.dim, jnp.nan, data.dtype)
        return LagSearch(screening.graph, screening.evidence, nothing, nothing, screening)
    judged = judge(data, screening, price, config, key=key)
    return _as_lag_search(judged, screening, data.dtype)


class Judged(NamedTuple):
    """What networks say of one target; NumPy.

    - `mask`, `evidence`: of every input; see [`LagSearch`][ndde_jax.LagSearch].
    - `worth`: rise of the corrected risk without a kept edge, its fall with a dropped one among
        `slots`, 0 elsewhere; and `blocks`, that of kept ones from stretch to stretch of the record,
        `[input block]`.
    - `risk`, `threshold`: corrected risk and the price of an edge.
    - `fit`, `slots`: the network, on these inputs, those not in `mask` closed.
    """

    mask: Bool[np.ndarray, " input"]
    evidence: Float[np.ndarray, " input"]
    worth: Float[np.ndarray, " input"]
    blocks: Float[np.ndarray, "input block"]
    risk: float
    threshold: float
    fit: NetworkFit
    slots: np.ndarray


def judge(data, screening: SplineGraph, price, config, *, key, needed=None) -> list:
    """Moves from what splines chose, target by target.

    Windows and slots are padded to a few sizes, so that one compiled program serves all targets,
    and other data.

    **Arguments:**

    - `data`: [`KnownData`][ndde_jax.windows._flat.KnownData].
    - `needed`: function from a target and a first network on its choice to whether networks are to
        go on; by default always. Where not, the entry is None.
    """
    n_inputs, dim, dtype = data.inputs.shape[1], data.dim, data.dtype
    flat = lambda a: np.moveaxis(np.asarray(a), (0, 1, 2), (2, 0, 1)).reshape(dim, -1)  # noqa: E731
    graph, evidence = flat(screening.graph), flat(screening.evidence)
    undecided = data.allowed & ~data.required
    length = padded_length(len(data.weight))
    weight = _padded(data.weight, length).astype(dtype)
    found = []
    for j, own in enumerate(jr.split(key, dim)):
        slots = np.asarray(screening.shortlist)[j]
        room = min(max(int(graph[j].sum()) + SPARE_SLOTS, FEWEST_SLOTS), len(slots))
        # What is chosen, then what pursuit listed first.
        slots = slots[np.argsort(~graph[j][slots], kind="stable")]
        slots = slots[: min(-(-room // 4) * 4, len(slots))]
        arrays = (_padded(data.inputs[:, slots], length), _padded(data.outputs[:, j], length))
        arrays = tuple(jnp.asarray(a.astype(dtype)) for a in arrays)
        among = jnp.asarray(n_inputs, dtype)
        problem = _Problem(*arrays, weight, among, price, config, undecided[j][slots])
        state = _first(problem, graph[j][slots], own)
        n = max(float(data.weight.sum()), 1.0)
        if needed is not None and not needed(j, state[1]):
            found.append(None)
            continue
        mask, fitted, paid, inside, worth, blocks = jax.tree.map(
            np.asarray, _improve(problem, state)
        )
        row = Judged(
            mask=np.isin(np.arange(n_inputs), slots[mask]),
            evidence=evidence[j].copy(),
            worth=np.zeros(n_inputs),
            blocks=np.zeros((n_inputs, blocks.shape[1])),
            risk=float(fitted.corrected_risk(n)),
            threshold=float(paid),
            fit=fitted,
            slots=slots,
        )
        row.evidence[slots], row.worth[slots], row.blocks[slots] = inside, worth, blocks
        found.append(row)
    return found


def padded_length(n: int) -> int:
    """Room for so many windows: 2^k or 3·2^k, so that few lengths are compiled."""
    length = SHORTEST
    while length < n:
        length = length * 3 // 2 if length & (length - 1) == 0 else length * 4 // 3
    return length


def _padded(array, length: int):
    return np.concatenate([array, np.zeros((length - len(array), *array.shape[1:]))])


def _as_lag_search(judged, screening, dtype) -> LagSearch:
    def edges(rows):
        rows = np.stack(rows)
        return np.moveaxis(rows.reshape(len(rows), -1, len(rows)), (2, 0, 1), (0, 1, 2))

    def numbers(values):
        return jnp.asarray(np.asarray(values, float), dtype)

    return LagSearch(
        graph=jnp.asarray(edges([row.mask for row in judged])),
        evidence=numbers(edges([row.evidence for row in judged])),
        risk=numbers([row.risk for row in judged]),
        threshold=numbers([row.threshold for row in judged]),
        screening=screening,
    )


@eqx.filter_jit
def _first(problem: "_Problem", chosen, key):
    return problem.from_scratch(jnp.asarray(chosen), key)


@eqx.filter_jit
def _improve(problem: "_Problem", state):
    n = jnp.maximum(jnp.sum(problem.weight), 1)
    mask, found, linear, paid = problem.search(state, n)
    inside, worth, blocks = problem.evidence(mask, found, linear, n)
    return mask, found, paid, inside, worth, blocks


@eqx.filter_jit
def _search_traced(windows, screening: SplineGraph, price, config, key) -> LagSearch:
    data = FlatData(windows)
    dim, n_inputs = data.dim, data.inputs.shape[1]
    shape = (dim, n_inputs // dim, dim)
    n = jnp.maximum(jnp.sum(data.weight), 1)
    first = jnp.moveaxis(screening.graph, (0, 1, 2), (2, 0, 1)).reshape(dim, n_inputs)
    spline_evidence = jnp.moveaxis(screening.evidence, (0, 1, 2), (2, 0, 1)).reshape(dim, n_inputs)

    def target(args):
        output, slots, chosen, undecided, evidence, key = args
        inputs = data.inputs[:, slots]
        undecided = undecided[slots]
        problem = _Problem(inputs, output, data.weight, n_inputs, price, config, undecided)
        state = problem.from_scratch(chosen[slots], key)
        mask, found, linear, paid = problem.search(state, n)
        inside, *_ = problem.evidence(mask, found, linear, n)
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


class _Problem(eqx.Module):
    """One target and its shortlist. Networks see all slots; a mask closes those not chosen."""

    inputs: Float[jax.Array, "window slot"]
    output: Float[jax.Array, "window"]
    weight: Float[jax.Array, "window"]
    n_inputs: Any
    price: AbstractPrice
    config: StrengthConfig
    moves: Bool[jax.Array, "move slot"]
    possible: Bool[jax.Array, "move"]

    def __init__(self, inputs, output, weight, n_inputs, price, config, undecided):
        self.inputs, self.output, self.weight = inputs, output, jnp.asarray(weight)
        self.n_inputs, self.price, self.config = n_inputs, price, config
        n_slots = inputs.shape[1]
        swaps = list(itertools.combinations(range(n_slots), 2))
        moves = np.zeros((n_slots + len(swaps), n_slots), bool)
        moves[np.arange(n_slots), np.arange(n_slots)] = True
        for row, pair in enumerate(swaps, start=n_slots):
            moves[row, list(pair)] = True
        self.moves = jnp.asarray(moves)
        # Moves that leave alone what the prior decides.
        self.possible = ~jnp.any(self.moves & ~jnp.asarray(undecided)[None], axis=1)

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

    def evidence(self, mask: Bool[jax.Array, "slot"], found, linear, n):
        """Change of the log-risk by each slot, positive where it speaks for the edge; what each
        kept edge is worth, and the same by blocks of windows, `[slot block]`.
        """
        n_slots = self.inputs.shape[1]
        network = self._alive(found.network, mask)
        squares = (predict(network, self.inputs) - self.output) ** 2
        rank = (
            (jnp.cumsum(self.weight > 0) - 1) * BLOCKS // jnp.maximum(jnp.sum(self.weight > 0), 1)
        )
        size = jax.ops.segment_sum(self.weight, rank, BLOCKS)

        def without(slot):
            def refit():
                left = mask & (jnp.arange(n_slots) != slot)
                new = self._fit(left, network, self.config.fold_steps, found.decay)
                seen = self.inputs * left[None].astype(self.inputs.dtype)
                more = (predict(new.network, seen) - self.output) ** 2 - squares
                sums = jax.ops.segment_sum(self.weight * more, rank, BLOCKS)
                return new.corrected_risk(n), sums / jnp.where(size > 0, size, 1)

            return jax.lax.cond(
                mask[slot], refit, lambda: (linear[slot], jnp.zeros(BLOCKS, squares.dtype))
            )

        risk, blocks = jax.lax.map(without, jnp.arange(n_slots))
        own = jnp.where(mask, found.corrected_risk(n), found.risk)
        # A factorisation can fail in single precision; that says nothing for or against an edge.
        risk = jnp.where(jnp.isfinite(risk), risk, own)
        # An addition brings `width` weights, which chance alone would use.
        chance = jnp.where(mask, 0, found.risk * self.config.width / n)
        change = jnp.log((risk + chance + FLOOR) / (own + FLOOR))
        worth = jnp.where(mask, risk - own, own - risk - chance)
        return jnp.where(mask, change, -change), worth, blocks


def searches_by_moves(windows: Windows) -> bool:
    """Whether candidates are many, or states lie between samples."""
    return windows.dim * windows.n_lags >= MANY_INPUTS or windows.scheme == "midpoint"
