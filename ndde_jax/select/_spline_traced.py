"""The search of [`spline_graph`][ndde_jax.select.spline_graph] in JAX, for windows that are traced.

The same criterion, shortlists and moves as `_spline_search.py` has in NumPy, whose functions have
the same names: under `jit` and `vmap` no shape depends on what is found.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._order import after
from ..fit._prices import RESOLUTION
from ..regression._search import columns_price
from ..windows._flat import FlatData
from ._basis import N_FEATURES, centred, normalised, spline
from ._regression import FLOOR, RIDGE
from ._spline_search import ROOM, ROUNDS


class Found(NamedTuple):
    """The best models; names as in [`SplineGraph`][ndde_jax.select.SplineGraph], inputs flat."""

    mask: Bool[Array, "*target input"]
    evidence: Float[Array, "*target input"]
    rise: Float[Array, "*target source"]
    slots: Int[Array, "*target slot"]
    risk: Float[Array, "*target"]
    fitted: Float[Array, "*target window"]


def search_targets(data: FlatData, n_slots: int, steps: int) -> Found:
    """All targets, one after the other."""
    root = jnp.sqrt(data.weight)
    features = jax.lax.map(lambda z: spline(z, root), data.inputs.T)  # [input window feature]
    norms = _product_norms(data.inputs, data.weight)

    def target(args):
        output, allowed, required = args
        y = centred(output[:, None], root)[:, 0]
        scale = jnp.sum(y**2)
        y = y / jnp.sqrt(jnp.where(scale > 0, scale, 1))
        given = jax.lax.stop_gradient((features, data.inputs, norms, y, root))
        slots, chosen = _choose(*given, n_slots, steps, allowed, required)
        model = _Model(features[slots], data.inputs[:, slots], y, root, len(features))
        chosen = _resolved(model, chosen, required[slots])
        found, residual = _described(model, features, slots, chosen, allowed, data.dim)
        fitted = (y - residual) * jnp.sqrt(scale)
        fitted = jnp.where(root > 0, fitted / jnp.where(root > 0, root, 1), 0)
        mean = (data.weight @ output) / jnp.maximum(jnp.sum(data.weight), 1)
        return found._replace(fitted=fitted + mean)

    return jax.lax.map(target, (data.outputs.T, data.allowed, data.required))


def _described(model: "_Model", features, slots, chosen, allowed, dim: int) -> tuple[Found, Array]:
    """What every edge of a model says, without its rate; and its residual."""
    n_inputs, n_slots = len(features), len(slots)
    # One map over the model and all its neighbours: every further use compiles once more.
    flips = chosen[None] ^ jnp.eye(n_slots + 1, n_slots, -1, dtype=bool)
    without = chosen[None] & (slots[None] % dim != jnp.arange(dim)[:, None])
    _, risks, coefficients = jax.lax.map(model.best, jnp.concatenate([flips, without]))
    risk, flipped, left_out = risks[0], risks[1 : n_slots + 1], risks[n_slots + 1 :]
    residual = model.y - model.columns @ coefficients[0]
    change = jnp.log((flipped + FLOOR) / (risk + FLOOR))
    gains = _outside_gains(features, residual, slots, chosen) - N_FEATURES * risk / model.n
    evidence = jnp.log((risk + FLOOR) / (jnp.maximum(risk - gains, 0) + FLOOR))
    inside = jnp.where(chosen, change, jnp.where(allowed[slots], -change, evidence[slots]))
    evidence = evidence.at[slots].set(inside)
    mask = jnp.zeros(n_inputs, bool).at[slots].set(chosen)
    return Found(mask, evidence, left_out - risk, slots, risk, residual), residual


def _resolved(model: "_Model", chosen, required):
    """Without the inputs that are worth less than difference quotients err, the least first."""
    n_slots = chosen.shape[0]

    def drop(carry):
        chosen, _ = carry
        masks = chosen[None] & ~jnp.eye(n_slots + 1, n_slots, -1, dtype=bool)
        risks = jax.lax.map(lambda mask: model.best(mask)[1], masks)
        worth = jnp.where(chosen & ~required, risks[1:] - risks[0], jnp.inf)
        least = jnp.argmin(worth)
        unresolved = worth[least] < RESOLUTION
        return chosen & ~(unresolved & (jnp.arange(n_slots) == least)), unresolved

    start = (chosen, jnp.asarray(True))
    return jax.lax.while_loop(lambda carry: carry[1], drop, start)[0]


def _choose(features, inputs, norms, y, root, n_slots: int, steps: int, allowed, required):
    """A shortlist of one target, and which of it the best model found takes.

    The first list is by pursuit. Each further one holds the inputs of the model before, best first
    and without the least of them if it is full, and what explains most of that model's residual.
    """
    n_inputs = len(features)
    most = n_slots - min(ROOM, n_slots // 3)

    def listed(worth, gains):
        """Inputs of a model by what they are worth (minus infinity: not in it), then others."""
        return jnp.lexsort((-gains, -worth))[:n_slots]

    def improve(carry):
        slots, best, count, _ = carry
        model = _Model(features[slots], inputs[:, slots], y, root, n_inputs)
        chosen, cost = _local_search(model, steps, allowed[slots], required[slots])
        masks = chosen[None] & ~jnp.eye(n_slots + 1, n_slots, -1, dtype=bool)
        _, risks, coefficients = jax.lax.map(model.best, masks)
        residual = y - model.columns @ coefficients[0]
        risk, without = risks[0], jnp.nan_to_num(risks[1:], nan=1.0)
        gains = _outside_gains(features, residual, slots, chosen) - N_FEATURES * risk / model.n
        pairs = _product_gains(inputs, root * residual, norms, allowed)
        pairs = pairs - 2 * jnp.log(n_inputs) * risk / model.n  # the largest of so many by chance
        gains = jnp.where(allowed, jnp.maximum(gains, pairs), -jnp.inf)
        worth = jnp.where(required[slots], jnp.inf, without)
        worth = (
            jnp.full(n_inputs, -jnp.inf, y.dtype).at[slots].set(jnp.where(chosen, worth, -jnp.inf))
        )
        cost = cost.astype(y.dtype)  # counting gives double precision where that is on
        found = (listed(worth, gains), jnp.arange(n_slots) < jnp.sum(chosen), cost)
        # Not worse but not better: the same model, seen beside what else could be in it.
        keep, better = cost > best[2] + 1e-3, cost < best[2] - 1e-3
        best = jax.tree.map(lambda old, new: jnp.where(keep, old, new), best, found)
        dispensable = (jnp.argsort(jnp.argsort(-worth)) >= most) & ~required
        slots = listed(jnp.where(dispensable, -jnp.inf, worth), gains)
        return slots, best, count + 1, better

    slots = _pursuit(features, y, n_slots, allowed, required)
    nothing = (slots, jnp.zeros(n_slots, bool), jnp.asarray(jnp.inf, y.dtype))
    start = (slots, nothing, jnp.zeros((), int), jnp.asarray(True))
    rounds = jnp.where(n_slots < jnp.sum(allowed), ROUNDS, 1)
    return jax.lax.while_loop(lambda c: c[3] & (c[2] < rounds), improve, start)[1][:2]


def _gains(features, residual):
    """What each group of features explains of a residual."""
    gram = jnp.einsum("iwf,iwg->ifg", features, features)
    inner = jnp.einsum("iwf,w->if", features, residual)
    solved = jnp.linalg.solve(
        gram + RIDGE * jnp.eye(features.shape[2], dtype=features.dtype)[None], inner[..., None]
    )
    return jnp.sum(inner * solved[..., 0], axis=1)


def _pursuit(features, y, n_slots: int, allowed, required) -> Int[Array, "slot"]:
    """Inputs in the order in which they explain most of what is left; required ones come first, and
    those that are not allowed only fill what would be empty. Gains lie between 0 and 1.
    """

    def step(carry, _):
        rest, residual, taken = carry
        gains = _gains(rest, residual)
        gains = jnp.where(required, gains + 2, jnp.where(allowed, gains, -1))
        best = jnp.argmax(jnp.where(taken, -jnp.inf, gains))
        basis, triangle = jnp.linalg.qr(rest[best])
        basis = jnp.where((jnp.abs(jnp.diag(triangle)) > 1e-3)[None], basis, 0)
        rest = rest - jnp.einsum("wf,fig->iwg", basis, jnp.einsum("wf,iwg->fig", basis, rest))
        residual = residual - basis @ (basis.T @ residual)
        return (rest, residual, taken.at[best].set(True)), best

    start = (features, y, jnp.zeros(features.shape[0], bool))
    return jax.lax.scan(step, start, None, length=n_slots)[1]


class _Model:
    """Least squares on some slots, on their splines, and on these and the products of inputs.

    Everything is done on the triangular factor of all columns: its size does not grow with the
    number of windows.
    """

    def __init__(self, features, inputs, y, root, n_inputs: int):
        n_slots, n_windows, n_features = features.shape
        self.n, self.n_inputs = jnp.sum(root > 0).astype(root.dtype), n_inputs
        pairs = np.array(list(itertools.combinations(range(n_slots), 2)), int).reshape(-1, 2)
        products = normalised(inputs[:, pairs[:, 0]] * inputs[:, pairs[:, 1]], root)
        self.owner = np.repeat(np.arange(n_slots), n_features)
        # The first column of a spline is the variable itself.
        self.straight = np.tile(np.arange(n_features) == 0, n_slots)
        self.pairs = pairs
        splines = jnp.moveaxis(features, 1, 0).reshape(n_windows, -1)
        self.columns, self.y = jnp.concatenate([splines, products], axis=1), y
        triangle = jnp.linalg.qr(jnp.concatenate([self.columns, y[:, None]], axis=1), mode="r")
        self.triangle, self.rotated = triangle[:, :-1], triangle[:, -1]
        self.gram = self.triangle.T @ self.triangle

    def _masks(self, chosen):
        """Columns in use of a linear model, of splines, and of splines and products."""
        splines = chosen[self.owner]
        products = chosen[self.pairs[:, 0]] & chosen[self.pairs[:, 1]]
        return [
            jnp.concatenate([splines & self.straight, jnp.zeros_like(products)]),
            jnp.concatenate([splines, jnp.zeros_like(products)]),
            jnp.concatenate([splines, products]),
        ]

    def _solve(self, used):
        used = used.astype(self.gram.dtype)
        gram = self.gram * used[:, None] * used[None] + jnp.diag(1 - used + RIDGE)
        factor = (jnp.linalg.cholesky(gram), True)

        def improve(c):
            left = self.rotated - self.triangle @ c
            return c + used * jax.scipy.linalg.cho_solve(factor, used * (self.triangle.T @ left))

        # Twice, which removes what ridge and rounding did.
        return improve(improve(jnp.zeros_like(used)))

    def best(self, chosen):
        """Risk, criterion without the number of inputs, and coefficients, of the best model."""

        def kind(used):
            c = self._solve(used)
            risk = jnp.sum((self.rotated - self.triangle @ c) ** 2)
            count = jnp.sum(used).astype(c.dtype)
            price = columns_price(self.n, count)
            return self.n * jnp.log(risk + FLOOR) + price, risk, c

        # One after the other, see `after`.
        criteria, *_ = found = jax.lax.map(kind, jnp.stack(self._masks(chosen)))
        best = jnp.argmin(jnp.where(jnp.isnan(criteria), jnp.inf, criteria))
        return tuple(part[best] for part in found)

    def criterion(self, chosen):
        """The extended Bayesian information criterion."""
        k = jnp.sum(chosen).astype(self.triangle.dtype)
        lgamma = jax.scipy.special.gammaln
        count = lgamma(self.n_inputs + 1.0) - lgamma(k + 1.0) - lgamma(self.n_inputs - k + 1.0)
        return self.best(chosen)[0] + 2 * count


def _local_search(model: _Model, steps: int, allowed, required):
    """Best prefix of the pursuit, then the best addition, removal or swap while that pays."""
    n_slots = int(model.owner[-1]) + 1
    prefixes = jnp.arange(n_slots)[None] < jnp.arange(n_slots + 1)[:, None]
    prefixes = (prefixes & allowed[None]) | required[None]
    costs = jax.lax.map(model.criterion, prefixes)
    start = jnp.argmin(costs)
    swaps = list(itertools.combinations(range(n_slots), 2))
    moves = np.zeros((n_slots + len(swaps), n_slots), bool)
    moves[np.arange(n_slots), np.arange(n_slots)] = True
    for row, pair in enumerate(swaps, start=n_slots):
        moves[row, list(pair)] = True
    moves = jnp.asarray(moves)

    def step(carry):
        chosen, cost, count, _ = carry

        def after(move):
            inside = jnp.sum(move & chosen)
            sensible = (jnp.sum(move) == 1) | (inside == 1)  # a swap exchanges one in and one out
            obeys = ~jnp.any(move & (required | ~allowed))
            return jax.lax.cond(
                sensible & obeys,
                lambda: model.criterion(chosen ^ move),
                lambda: jnp.full_like(cost, jnp.inf),
            )

        costs = jax.lax.map(after, moves)
        best = jnp.argmin(jnp.where(jnp.isnan(costs), jnp.inf, costs))
        better = costs[best] < cost - 1e-3
        chosen = jnp.where(better, chosen ^ moves[best], chosen)
        return chosen, jnp.where(better, costs[best], cost), count + 1, better

    begin = (prefixes[start], costs[start], jnp.zeros((), int), jnp.asarray(True))
    return jax.lax.while_loop(lambda c: c[3] & (c[2] < steps), step, begin)[:2]


def _outside_gains(features, residual, slots, chosen) -> Float[Array, "input"]:
    """What the splines of inputs explain of a residual, less what chosen ones can take over."""
    basis = jnp.where(chosen[:, None, None], features[slots], 0)
    basis = jnp.moveaxis(basis, 1, 0).reshape(len(residual), -1)
    # The residual comes from other factorisations.
    ridge = after(RIDGE * jnp.eye(basis.shape[1], dtype=basis.dtype), residual)
    gram = basis.T @ basis + ridge
    overlap = jnp.einsum("wb,iwf->bif", basis, features)
    flat = overlap.reshape(len(overlap), -1)
    solved = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(gram), True), flat)
    solved = solved.reshape(overlap.shape)
    return _gains(features - jnp.einsum("wb,bif->iwf", basis, solved), residual)


def _product_norms(inputs, weight) -> Float[Array, "input input"]:
    """Sum of squares of every centred product of two inputs."""
    mean = inputs.T @ (weight[:, None] * inputs) / jnp.maximum(jnp.sum(weight), 1)
    square = (inputs**2).T @ (weight[:, None] * inputs**2)
    return square - jnp.maximum(jnp.sum(weight), 1) * mean**2


def _product_gains(inputs, residual, norms, allowed) -> Float[Array, "input"]:
    """What the best product with another input explains of a residual, which sums to 0."""
    inner = inputs.T @ (residual[:, None] * inputs)
    usable = allowed[:, None] & allowed[None] & ~jnp.eye(len(norms), dtype=bool) & (norms > 0)
    gains = jnp.where(usable, inner**2 / jnp.where(usable, norms, 1), 0)
    return jnp.max(gains, axis=1)
