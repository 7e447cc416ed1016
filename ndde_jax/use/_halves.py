"""Least squares on halves of the data, and the graph chosen again on each: sums, no rows.

What a model costs follows from sums over windows alone (a Gram matrix), and the sums of a half are
those of its blocks. So one pass over the data serves every half, and a model is a small system of
equations. Half of the blocks, drawn without replacement, spread an estimate about as much as the
data themselves do, and see no window twice, which keeps a criterion honest; halves come in pairs
that share nothing (Shah and Samworth, 2013).
"""

import math
from typing import Any

import numpy as np

from ..select._splines import FLOOR

RIDGE = 1e-8
# Contiguous blocks, as many as there are unless they would be shorter than two windows reach.
MOST_BLOCKS, FEWEST_BLOCKS = 40, 6
STEPS = 12


def count_blocks(n: int, reach: int) -> int:
    """An even number of blocks for so many rows."""
    return 2 * (int(np.clip(n // (2 * reach + 2), FEWEST_BLOCKS, MOST_BLOCKS)) // 2)


def block_of(n: int, n_blocks: int) -> np.ndarray:
    """Which block each of `n` rows in order belongs to."""
    return np.arange(n) * n_blocks // n


def draw_halves(n_blocks: int, n_halves: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks of each half, bool `[half block]`: pairs of complements."""
    halves = np.zeros((n_halves, n_blocks), bool)
    for k in range(0, n_halves, 2):
        halves[k, rng.permutation(n_blocks)[: n_blocks // 2]] = True
        halves[k + 1 : k + 2] = ~halves[k]
    return halves


def block_sums(
    design: np.ndarray, output: np.ndarray, weight: np.ndarray, block: np.ndarray, n_blocks: int
) -> np.ndarray:
    """Gram matrix of the columns and the output, per block `[block column+1 column+1]`."""
    full = np.column_stack([design, output])
    sums = np.empty((n_blocks, full.shape[1], full.shape[1]))
    for b in range(n_blocks):
        rows = block == b
        sums[b] = full[rows].T @ (weight[rows, None] * full[rows])
    return sums


class Sums:
    """Least squares on some columns, from Gram matrices `[*half column+1 column+1]` whose last one
    is the output.
    """

    def __init__(self, gram: np.ndarray):
        norm = np.sqrt(np.maximum(np.diagonal(gram, axis1=-2, axis2=-1)[..., :-1], 0))
        self.unit = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1), 0)
        self.gram = gram[..., :-1, :-1] * self.unit[..., :, None] * self.unit[..., None, :]
        self.inner = gram[..., :-1, -1] * self.unit
        self.square = gram[..., -1, -1]
        self.n = gram[..., 0, 0]  # the first column is 1
        self.spread = self.square - gram[..., 0, -1] ** 2 / np.maximum(self.n, 1e-300)

    def solve(self, used: np.ndarray, halves: Any = ...) -> tuple[np.ndarray, Any]:
        """Coefficients `[*half used]` and the sums of squares that are left `[*half]`."""
        # Of a list of halves the columns are taken at once: whole matrices would be copied first.
        pairs = halves if halves is ... else np.reshape(halves, (-1, 1, 1))
        small = self.gram[pairs, used[:, None], used] + RIDGE * np.eye(len(used))
        inner = self.inner[halves][..., used]
        scaled = np.linalg.solve(small, inner[..., None])[..., 0]
        left = np.maximum(self.square[halves] - np.sum(scaled * inner, axis=-1), 0.0)
        return scaled * self.unit[halves][..., used], left

    def criterion(self, used: np.ndarray, halves: Any = ...) -> Any:
        """n log(risk + 10⁻⁴) + columns log n, as the search by splines counts, `[*half]`."""
        left, spread, n = self.solve(used, halves)[1], self.spread[halves], self.n[halves]
        risk = np.where(spread > 0, left / np.where(spread > 0, spread, 1), 0)
        return n * np.log(risk + FLOOR) + len(used) * np.log(np.maximum(n, 2.0))


def used_columns(chosen: np.ndarray, needs: np.ndarray, kind: np.ndarray, family: int):
    """Columns of a family whose inputs are all chosen."""
    ready = np.append(chosen, True)  # −1 needs nothing
    return np.flatnonzero(ready[needs].all(axis=1) & (kind <= family))


def best_family(sums: Sums, chosen: np.ndarray, needs, kind) -> tuple[float, np.ndarray]:
    """The criterion and the columns of the best of three families on some inputs, of one half."""
    costs, columns = _families(sums, chosen, needs, kind, ...)
    best = int(np.argmin(costs))
    return float(costs[best]), columns[best]


def _families(sums: Sums, chosen: np.ndarray, needs, kind, halves):
    """Criteria `[family *half]` on some inputs, infinite where a half has too few windows, and the
    columns of each family; the last is the constant alone, for halves that can afford no other.
    """
    columns: list[np.ndarray] = []
    for family in range(3):
        used = used_columns(chosen, needs, kind, family)
        if not columns or len(used) != len(columns[-1]):
            columns.append(used)
    n = sums.n[halves]
    costs = [
        np.where(len(used) < 0.5 * n, sums.criterion(used, halves), np.inf) for used in columns
    ]
    constant = np.array([0])
    poor = np.isinf(costs[0])
    last = sums.criterion(constant, halves) if np.any(poor) else np.inf
    costs.append(np.where(poor, last, np.inf))
    return np.stack(costs), [*columns, constant]


def choose(
    sums: Sums, start: np.ndarray, needs, kind, *, fixed: np.ndarray, swaps: list, n_candidates: int
) -> np.ndarray:
    """Inputs by the extended Bayesian information criterion, on every half, bool `[half input]`:
    from `start`, the best addition, removal or exchange while one pays. `fixed` inputs stay.

    Halves take their steps together, since most ask for the same models.
    """
    n_halves = len(sums.n)
    seen: list[dict[bytes, float]] = [{} for _ in range(n_halves)]

    def learn(moves: list[list[np.ndarray]]):
        wanted: dict[bytes, tuple[np.ndarray, list[int]]] = {}
        for h, of_half in enumerate(moves):
            for move in of_half:
                if (word := move.tobytes()) not in seen[h]:
                    wanted.setdefault(word, (move, []))[1].append(h)
        for word, (move, halves) in wanted.items():
            k = int(move.sum())
            ways = (
                math.lgamma(n_candidates + 1) - math.lgamma(k + 1)
                - math.lgamma(n_candidates - k + 1)
            )  # fmt: skip
            costs = _families(sums, move, needs, kind, halves)[0].min(axis=0)
            for h, cost in zip(halves, costs, strict=True):
                seen[h][word] = float(cost) + 2 * ways

    chosen = [start.copy() for _ in range(n_halves)]
    learn([[start]] * n_halves)
    best = [one[start.tobytes()] for one in seen]
    active = set(range(n_halves))
    for _ in range(STEPS):
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
    """What one addition, removal or exchange makes of some inputs."""
    moves = [chosen ^ (np.arange(len(chosen)) == i) for i in np.flatnonzero(~fixed)]
    for i, j in swaps:
        if chosen[i] != chosen[j] and not (fixed[i] or fixed[j]):
            move = chosen.copy()
            move[[i, j]] = ~move[[i, j]]
            moves.append(move)
    return moves
