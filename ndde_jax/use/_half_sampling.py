"""Regressions on halves of the data, with inputs chosen anew on each, from sums alone.

What a model costs follows from sums over windows alone, and the sums of a half are those of its
blocks. So one pass over the data serves every half, and a model is a small system of equations.
Half of the blocks, drawn without replacement, spread an estimate about as much as the data
themselves do, and see no window twice, which keeps a criterion honest; halves come in pairs that
share nothing (Shah and Samworth, 2013).

Columns are splines and products of a few inputs. Unlike those a search makes, which exist on the
data only, these belong to a simulator and can be evaluated anywhere.
"""

import math
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from ..regression import Sums, sums_of
from ..regression._features import WIDTH, knots_of, spline_terms
from ..select._splines import FLOOR

RIDGE = 1e-8
# Contiguous blocks, as many as there are unless they would be shorter than two windows reach.
MOST_BLOCKS, FEWEST_BLOCKS = 40, 6
# Moves of a search.
MOVES = 12
# Inputs are held this share of the range of the data beyond it, so that no path runs away along the
# straight continuation of a spline.
SPARE = 0.25
# From which family on a column is used.
LINEAR, CURVED, MULTIPLIED = 0, 1, 2


class Basis(eqx.Module):
    """A basis: a constant, then the spline terms of every input, itself first, then products.

    - `inputs`: which are used, flat (lag, source).
    - `pairs`: whose products are columns, as positions in `inputs`.
    - `center`, `scale`, `knots`, `low`, `high`: of each; the last three standardised.
    """

    inputs: Int[Array | np.ndarray, "input"]
    pairs: Int[Array | np.ndarray, "pair 2"]
    center: Float[Array | np.ndarray, "input"]
    scale: Float[Array | np.ndarray, "input"]
    knots: Float[Array | np.ndarray, "input knot"]
    low: Float[Array | np.ndarray, "input"]
    high: Float[Array | np.ndarray, "input"]

    def __call__(
        self, history: Float[ArrayLike, "*batch lag dim"]
    ) -> Float[Array | np.ndarray, "*batch feature"]:
        """Return all columns for physical histories; in NumPy if both are."""
        known = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves((self, history)))
        return _columns(self, history, np) if known else _jitted(self, jnp.asarray(history))

    @property
    def needs(self) -> Int[np.ndarray, "feature 2"]:
        """The one or two inputs that each column needs, positions in `inputs`; −1 for none."""
        splines = np.repeat(np.arange(len(self.inputs)), WIDTH)
        singles = np.stack([np.append(-1, splines), np.full(1 + len(splines), -1)], axis=1)
        return np.concatenate([singles, np.asarray(self.pairs)])

    @property
    def kind(self) -> Int[np.ndarray, "feature"]:
        """The first family that uses each column."""
        of_input = [LINEAR] + [CURVED] * (WIDTH - 1)
        splines, products = of_input * len(self.inputs), [MULTIPLIED] * len(self.pairs)
        return np.array([LINEAR, *splines, *products])

    @property
    def labels(self) -> list[tuple]:
        """The labels that tell columns of several bases apart: the inputs, and for splines the
        term.
        """
        flat, needs = np.asarray(self.inputs), self.needs
        term = (np.arange(len(needs)) - 1) % WIDTH
        return [
            (*sorted(int(flat[i]) for i in need if i >= 0), *((-1, k) if need[1] < 0 else ()))
            for need, k in zip(needs, term.tolist(), strict=True)
        ]


def make_basis(histories: np.ndarray, inputs: Any, pairs: Any) -> Basis:
    """Return a basis for physical histories `[row lag dim]`, in NumPy."""
    inputs, pairs = np.asarray(inputs, int), np.asarray(pairs, int).reshape(-1, 2)
    z = histories.reshape(len(histories), -1)[:, inputs]
    center, scale = z.mean(axis=0), z.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (z - center) / scale
    knots = knots_of(z)
    # Of a variable with few values, knots that coincide would divide by zero.
    knots = knots + 1e-6 * np.arange(knots.shape[1])
    low, high = z.min(axis=0), z.max(axis=0)
    spare = SPARE * (high - low)
    return Basis(inputs, pairs, center, scale, knots, low - spare, high + spare)


def _columns(basis: Basis, history: Any, xp: Any = jnp) -> Any:
    flat = history.reshape(*history.shape[:-2], -1)[..., basis.inputs]
    ahead = (None,) * (flat.ndim - 1)
    z = (flat - basis.center[ahead]) / basis.scale[ahead]
    z = xp.clip(z, basis.low[ahead], basis.high[ahead])
    terms = spline_terms(z, basis.knots[ahead]).reshape(*z.shape[:-1], -1)
    products = z[..., basis.pairs[:, 0]] * z[..., basis.pairs[:, 1]]
    return xp.concatenate([xp.ones_like(z[..., :1]), terms, products], axis=-1)


# One program where it is called by itself, part of the program around it otherwise.
_jitted = partial(jax.jit, inline=True)(_columns)


def shared_basis(
    histories: np.ndarray, bases: list[Basis], used: list[np.ndarray]
) -> tuple[Basis, list[np.ndarray]]:
    """Return one basis that has all used columns of several, and the positions of each one's
    columns in it.
    """
    labels = [basis.labels for basis in bases]
    wanted = {
        label for own, use in zip(labels, used, strict=True)
        for label, u in zip(own, use, strict=True) if u
    }  # fmt: skip
    pairs = sorted(label for label in wanted if -1 not in label)
    inputs = {i for pair in pairs for i in pair} | {w[0] for w in wanted if len(w) == 3}
    slots = sorted(inputs or {int(np.asarray(bases[0].inputs)[0])})
    basis = make_basis(histories, slots, [[slots.index(a), slots.index(b)] for a, b in pairs])
    place = {label: k for k, label in enumerate(basis.labels)}
    return basis, [
        np.array([place[label] for label, u in zip(own, use, strict=True) if u], int)
        for own, use in zip(labels, used, strict=True)
    ]


# ---- sums ----


def count_blocks(n: int, reach: int) -> int:
    """Return an even number of blocks for this many rows."""
    return 2 * (int(np.clip(n // (2 * reach + 2), FEWEST_BLOCKS, MOST_BLOCKS)) // 2)


def draw_halves(
    n_blocks: int, n_halves: int, rng: np.random.Generator
) -> Bool[np.ndarray, "half block"]:
    """Return the blocks of each half, in complementary pairs."""
    halves = np.zeros((n_halves, n_blocks), bool)
    for k in range(0, n_halves, 2):
        halves[k, rng.permutation(n_blocks)[: n_blocks // 2]] = True
        halves[k + 1 : k + 2] = ~halves[k]
    return halves


class Equations:
    """The least-squares equations of one output on some columns, for many halves at once."""

    def __init__(self, sums: Sums):
        """- `sums`: of each half, as if it were a block."""
        norm = np.sqrt(np.maximum(np.diagonal(sums.xx, axis1=-2, axis2=-1), 0))
        self.unit = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1), 0)
        self.gram = sums.xx * self.unit[..., :, None] * self.unit[..., None, :]
        self.inner = sums.xy[..., 0] * self.unit
        self.square, self.n = sums.yy[..., 0], sums.weight
        self.spread = self.square - sums.y[..., 0] ** 2 / np.maximum(self.n, 1e-300)

    @classmethod
    def of(cls, design: np.ndarray, output: np.ndarray, weight: Any = None, halves: Any = None):
        """Return the equations of rows, one for each half `[half block]`, or for all."""
        weight = np.ones(len(design)) if weight is None else weight
        halves = np.ones((1, 1), bool) if halves is None else halves
        blocks = sums_of(design, output[:, None], weight, halves.shape[1])
        return cls(jax.tree.map(partial(np.tensordot, halves.astype(float), axes=1), blocks))

    def solve(self, used: np.ndarray, halves: Any = ...) -> tuple[np.ndarray, Any]:
        """Return coefficients `[half used]` and residual sums of squares `[half]`."""
        # Of a list of halves the columns are taken at once: whole matrices would be copied first.
        pairs = halves if halves is ... else np.reshape(halves, (-1, 1, 1))
        small = self.gram[pairs, used[:, None], used] + RIDGE * np.eye(len(used))
        inner = self.inner[halves][..., used]
        scaled = np.linalg.solve(small, inner[..., None])[..., 0]
        left = np.maximum(self.square[halves] - np.sum(scaled * inner, axis=-1), 0.0)
        return scaled * self.unit[halves][..., used], left

    def criterion(self, used: np.ndarray, halves: Any = ...) -> Any:
        """Return n log(risk + 10⁻⁴) + columns log n, the criterion of the search by splines,
        `[half]`.
        """
        left, spread, n = self.solve(used, halves)[1], self.spread[halves], self.n[halves]
        risk = np.where(spread > 0, left / np.where(spread > 0, spread, 1), 0)
        return n * np.log(risk + FLOOR) + len(used) * np.log(np.maximum(n, 2.0))


# ---- the choice of inputs ----


def used_columns(basis: Basis, chosen: np.ndarray, family: int) -> np.ndarray:
    """Return the columns of a family whose inputs are all chosen."""
    ready = np.append(chosen, True)  # −1 needs nothing
    return np.flatnonzero(ready[basis.needs].all(axis=1) & (basis.kind <= family))


def best_family(equations: Equations, basis: Basis, chosen: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the criterion and the columns of the best family on some inputs, on all data."""
    costs, columns = _families(equations, basis, chosen, ...)
    best = int(np.argmin(costs[:, 0]))
    return float(costs[best, 0]), columns[best]


def _families(equations: Equations, basis: Basis, chosen: np.ndarray, halves: Any):
    """Return criteria `[family half]` on some inputs, infinite where a half has too few windows,
    and the columns of each family; the last is the constant alone, for halves that can afford no
    other.
    """
    columns: list[np.ndarray] = []
    for family in (LINEAR, CURVED, MULTIPLIED):
        used = used_columns(basis, chosen, family)
        if not columns or len(used) != len(columns[-1]):
            columns.append(used)
    n = equations.n[halves]
    costs = [
        np.where(len(used) < 0.5 * n, equations.criterion(used, halves), np.inf) for used in columns
    ]
    constant = np.array([0])
    poor = np.isinf(costs[0])
    last = equations.criterion(constant, halves) if np.any(poor) else np.inf
    costs.append(np.where(poor, last, np.inf))
    return np.stack(costs), [*columns, constant]


# Not `regression.search`, which takes one problem at a time: here every half asks about the same
# columns. For 3 targets with 9 candidates and 40 halves this takes 0.07 s of CPU; 120 searches,
# without products, take 4.6 s, after 1.9 s of compilation.
def choose(
    equations: Equations,
    basis: Basis,
    start: np.ndarray,
    *,
    fixed: np.ndarray,
    swaps: list[tuple[int, int]],
    n_candidates: int,
) -> Bool[np.ndarray, "half input"]:
    """Return inputs by the extended Bayesian information criterion, on every half: from `start`,
    the best addition, removal or exchange while one lowers it. `fixed` inputs stay.

    Halves take their steps together, since most ask for the same models.
    """
    n_halves = len(equations.n)
    seen: list[dict[bytes, float]] = [{} for _ in range(n_halves)]

    def learn(moves: list[list[np.ndarray]]):
        wanted: dict[bytes, tuple[np.ndarray, list[int]]] = {}
        for h, of_half in enumerate(moves):
            for move in of_half:
                if (word := move.tobytes()) not in seen[h]:
                    wanted.setdefault(word, (move, []))[1].append(h)
        for word, (move, halves) in wanted.items():
            price = 2 * math.log(math.comb(n_candidates, int(move.sum())))
            costs = _families(equations, basis, move, halves)[0].min(axis=0)
            for h, cost in zip(halves, costs, strict=True):
                seen[h][word] = float(cost) + price

    chosen = [start.copy() for _ in range(n_halves)]
    learn([[start]] * n_halves)
    best = [one[start.tobytes()] for one in seen]
    active = set(range(n_halves))
    for _ in range(MOVES):
        moves = [_moves(c, fixed, swaps) if h in active else [] for h, c in enumerate(chosen)]
        learn(moves)
        for h in sorted(active):
            costs = [seen[h][move.tobytes()] for move in moves[h]]
            if not costs or min(costs) > best[h] - 1e-3:
                active.remove(h)
                continue
            chosen[h], best[h] = moves[h][int(np.argmin(costs))], min(costs)
    return np.stack(chosen)


def _moves(chosen: np.ndarray, fixed: np.ndarray, swaps: list) -> list[np.ndarray]:
    """Return all sets one addition, removal or exchange away from some inputs."""
    moves = [chosen ^ (np.arange(len(chosen)) == i) for i in np.flatnonzero(~fixed)]
    for i, j in swaps:
        if chosen[i] != chosen[j] and not (fixed[i] or fixed[j]):
            move = chosen.copy()
            move[[i, j]] = ~move[[i, j]]
            moves.append(move)
    return moves
