"""Least squares on halves of the data, and the graph chosen again on each: sums, no rows.

What a model costs follows from sums over windows alone (a Gram matrix), and the sums of a half are
those of its blocks. So one pass over the data serves every half, and a model is a small system of
equations. Half of the blocks, drawn without replacement, spread an estimate about as much as the
data themselves do, and see no window twice, which keeps a criterion honest; halves come in pairs
that share nothing (Shah and Samworth, 2013).
"""

import math

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
    """Least squares on some columns, from a Gram matrix whose last column is the output."""

    def __init__(self, gram: np.ndarray):
        norm = np.sqrt(np.maximum(np.diag(gram)[:-1], 0))
        self.unit = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1), 0)
        self.gram = gram[:-1, :-1] * self.unit[:, None] * self.unit[None]
        self.inner = gram[:-1, -1] * self.unit
        self.square = gram[-1, -1]
        self.n = gram[0, 0]  # the first column is 1
        self.spread = self.square - gram[0, -1] ** 2 / max(self.n, 1e-300)

    def solve(self, used: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients `[used]` and the sum of squares that is left."""
        small = self.gram[np.ix_(used, used)]
        small = small + RIDGE * np.eye(len(small))
        coefficients = np.linalg.solve(small, self.inner[used])
        left = self.square - coefficients @ self.inner[used]
        return coefficients * self.unit[used], max(left, 0.0)

    def criterion(self, used: np.ndarray) -> float:
        """n log(risk + 10⁻⁴) + columns log n, as the search by splines counts."""
        _, left = self.solve(used)
        risk = left / self.spread if self.spread > 0 else 0.0
        return self.n * math.log(risk + FLOOR) + len(used) * math.log(max(self.n, 2.0))


def used_columns(chosen: np.ndarray, needs: np.ndarray, kind: np.ndarray, family: int):
    """Columns of a family whose inputs are all chosen."""
    ready = np.append(chosen, True)  # −1 needs nothing
    return np.flatnonzero(ready[needs].all(axis=1) & (kind <= family))


def best_family(sums: Sums, chosen: np.ndarray, needs, kind) -> tuple[float, np.ndarray]:
    """The criterion and the columns of the best of three families on some inputs."""
    found: list[tuple[float, np.ndarray]] = []
    for family in range(3):
        used = used_columns(chosen, needs, kind, family)
        if found and len(used) in (len(found[-1][1]), 0):
            continue
        if len(used) >= 0.5 * sums.n:
            continue
        found.append((sums.criterion(used), used))
    if not found:
        used = np.array([0])
        return sums.criterion(used), used
    return min(found, key=lambda pair: pair[0])


def choose(
    sums: Sums, start: np.ndarray, needs, kind, *, fixed: np.ndarray, swaps: list, n_candidates: int
) -> np.ndarray:
    """Inputs by the extended Bayesian information criterion: from `start`, the best addition,
    removal or exchange while one pays. `fixed` inputs stay as they are.
    """
    seen: dict[bytes, float] = {}

    def cost(chosen):
        word = chosen.tobytes()
        if word not in seen:
            k = int(chosen.sum())
            ways = (
                math.lgamma(n_candidates + 1) - math.lgamma(k + 1)
                - math.lgamma(n_candidates - k + 1)
            )  # fmt: skip
            seen[word] = best_family(sums, chosen, needs, kind)[0] + 2 * ways
        return seen[word]

    chosen, best = start.copy(), cost(start)
    for _ in range(STEPS):
        moves = [chosen ^ (np.arange(len(chosen)) == i) for i in np.flatnonzero(~fixed)]
        for i, j in swaps:
            if chosen[i] != chosen[j] and not (fixed[i] or fixed[j]):
                move = chosen.copy()
                move[[i, j]] = ~move[[i, j]]
                moves.append(move)
        costs = [cost(move) for move in moves]
        if not costs or min(costs) > best - 1e-3:
            return chosen
        chosen = moves[int(np.argmin(costs))]
        best = min(costs)
    return chosen
