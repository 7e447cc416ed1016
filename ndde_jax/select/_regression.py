"""Least squares of one rate on some inputs, from inner products: no model costs a pass over the
windows.
"""

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..regression._search import columns_price
from ._basis import N_FEATURES
from ._factors import solved, solved_by_inverse

if TYPE_CHECKING:
    from ._spline_search import Columns

# Shares of a variance: what keeps nearly redundant features from breaking a factorisation in single
# precision, and below what splines and difference quotients err anyway.
RIDGE = 1e-5
FLOOR = 1e-4
# The same where models are only compared, in double precision.
THIN_RIDGE = 1e-7
# Inputs beyond which a model has no products.
MOST_PAIRED = 20
# Numbers in the matrices that are solved at once.
MOST_AT_ONCE = 2**22
# Moves that are solved exactly, of those that seem best.
PROMISING = 3


class Regression:
    """Least squares on some slots: linear, on splines, or on these and the products of inputs."""

    def __init__(self, columns: "Columns", y, slots):
        self.slots, self.n_inputs = slots, columns.n_inputs
        self.n = float(np.sum(columns.root > 0))
        # Products of more would be more columns than windows.
        paired = range(len(slots)) if len(slots) <= MOST_PAIRED else ()
        pairs = np.array(list(itertools.combinations(paired, 2)), int).reshape(-1, 2)
        # Rows of the transpose lie in one piece and are copied as such.
        inputs = columns.inputs[:, slots].T
        raw = inputs[pairs[:, 0]] * inputs[pairs[:, 1]]
        self.product_mean, self.product_norm, products = normalised(raw.T, columns.root)
        own = (slots[:, None] * N_FEATURES + np.arange(N_FEATURES)[None]).ravel()
        splines = columns.features[:, own]
        self.columns = np.concatenate([splines, products], axis=1)
        crossed = splines.T @ products
        self.gram = np.block(
            [[columns.gram[np.ix_(own, own)], crossed], [crossed.T, products.T @ products]]
        )
        self.gram[np.diag_indices_from(self.gram)] += RIDGE
        self.inner = self.columns.T @ y
        self.power = float(y @ y)
        self.pairs = pairs
        self.thin = self.gram.copy()
        self.thin[np.diag_indices_from(self.gram)] += THIN_RIDGE - RIDGE
        # Which column is the product of two slots.
        self.product = np.zeros((len(slots), len(slots)), int)
        numbers = len(slots) * N_FEATURES + np.arange(len(pairs))
        self.product[pairs[:, 0], pairs[:, 1]] = self.product[pairs[:, 1], pairs[:, 0]] = numbers
        self.known: dict[bytes, _Solved] = {}
        self.final: dict[bytes, _Solved] = {}

    def best(self, chosen) -> tuple[float, float, np.ndarray]:
        """Criterion without the number of inputs, risk and coefficients, of the best kind."""
        name = chosen.tobytes()
        if name not in self.final:
            found = self._solve(self._found(chosen).used[None], solved_by_inverse)
            self.final[name] = _Solved(*(part[0] for part in found))
        criterion, risk, used, c = self.final[name]
        coefficients = np.zeros(len(self.inner))
        coefficients[used] = c
        return criterion, risk, coefficients

    def risks(self, masks) -> Float[np.ndarray, " mask"]:
        """Of the best kinds of models, all solved at once."""
        self.solve(masks)
        return np.array([self.known[mask.tobytes()][1] for mask in masks])

    def criteria(self, masks) -> Float[np.ndarray, " mask"]:
        """The extended Bayesian information criterion of each, all solved at once."""
        self.solve(masks)
        return np.array([self.criterion(mask) for mask in masks])

    def _found(self, chosen) -> "_Solved":
        if chosen.tobytes() not in self.known:
            self.solve([chosen])
        return self.known[chosen.tobytes()]

    def solve(self, masks) -> None:
        """Least squares for every choice of inputs that is not known yet; those of one size have
        equally many columns, so that one call serves them all.
        """
        sizes: dict[int, dict[bytes, np.ndarray]] = {}
        for mask in masks:
            if (name := mask.tobytes()) not in self.known:
                sizes.setdefault(int(mask.sum()), {})[name] = mask
        for size, named in sizes.items():
            widest = size * N_FEATURES + (size * (size - 1) // 2 if len(self.pairs) else 0)
            at_once = max(1, MOST_AT_ONCE // max(widest, 1) ** 2)
            for first in range(0, len(named), at_once):
                names = list(named)[first : first + at_once]
                kinds = self._kinds(np.array([named[name] for name in names]))
                every = [self._solve(used) for used in kinds]
                for i, name in enumerate(names):
                    self.known[name] = min(
                        (_Solved(*(part[i] for part in kind)) for kind in every),
                        key=lambda one: one.criterion,
                    )

    def _kinds(self, masks) -> list[Int[np.ndarray, "mask column"]]:
        """Columns in use of linear models, of splines, and of splines and products."""
        count = len(masks)
        members = np.nonzero(masks)[1].reshape(count, -1)
        splines = members[..., None] * N_FEATURES + np.arange(N_FEATURES)
        splines = splines.reshape(count, -1)
        both = masks[:, self.pairs[:, 0]] & masks[:, self.pairs[:, 1]]
        products = masks.shape[1] * N_FEATURES + np.nonzero(both)[1].reshape(count, -1)
        # The first column of a spline is the variable itself.
        kinds = [members * N_FEATURES, splines]
        return [*kinds, np.concatenate([splines, products], axis=1)] if products.size else kinds

    def _solve(self, used, solve=solved) -> "_Solved":
        inner = self.inner[used]
        ridged = np.empty((*used.shape, used.shape[1]))
        for own, out in zip(used, ridged, strict=True):
            np.take(self.gram[own], own, axis=1, out=out, mode="clip")
        # gram = ridged − RIDGE.
        c = solve(ridged, inner[..., None], RIDGE)
        square = (c * (ridged @ c)).sum(axis=(1, 2)) - RIDGE * (c**2).sum(axis=(1, 2))
        c = c[..., 0]
        risk = np.maximum(self.power - 2 * (c * inner).sum(axis=1) + square, 0.0)
        criterion = self.n * np.log(risk + FLOOR) + columns_price(self.n, used.shape[1])
        return _Solved(criterion, risk, used, c)

    def criterion(self, chosen) -> float:
        """The extended Bayesian information criterion."""
        return self._found(chosen).criterion + 2 * log_choices(self.n_inputs, int(chosen.sum()))

    def promising(self, chosen, free) -> Bool[np.ndarray, "move slot"]:
        """The choices that seem best among those with one of the `free` inputs more or less, or one
        exchanged for another.

        One inverse per kind of model serves all moves: what a group of columns adds is a solution
        of its own size, and so is what one takes away. Products of an input with those chosen come
        and go with it.
        """
        members = np.flatnonzero(chosen)
        inside, outside = np.flatnonzero(chosen & free), np.flatnonzero(~chosen & free)
        kinds = [
            self._neighbours(kind, members, inside, outside)
            for kind in range(3 if len(self.pairs) else 2)
        ]
        flips = np.eye(len(chosen), dtype=bool)
        swaps = (flips[inside][:, None] | flips[outside][None]).reshape(-1, len(chosen))
        moves = np.concatenate([flips[outside], flips[inside], swaps])
        costs = np.min(kinds, axis=0)
        return chosen ^ moves[np.argsort(costs, kind="stable")[:PROMISING]]

    def _neighbours(self, kind: int, members, inside, outside) -> Float[np.ndarray, " move"]:
        """Criteria of one kind of model with one more, one less, one exchanged."""
        used, owners = self._columns(kind, members)
        inverse = np.linalg.inv(self.thin[np.ix_(used, used)])
        c = inverse @ self.inner[used]
        whole = _States(*(a[None] for a in (used, inverse, c, self.inner[used] @ c, members)))
        added = self._added(kind, whole, outside)[0]
        if not len(inside):
            return added
        gone = (owners[None] == inside[:, None, None]).any(axis=2)
        rests = np.array([members[members != i] for i in inside])
        parts = whole.without(gone, rests)
        dropped = self._cost(parts.energy, parts.used.shape[1], rests.shape[1])
        swapped = self._added(kind, parts, outside)
        return np.concatenate([added, dropped, swapped.ravel()])

    def _columns(self, kind: int, members):
        """Of a linear model, of splines, or of splines and products; and the slots of each."""
        first = members * N_FEATURES
        owners = np.stack([members, members], axis=1)
        if kind == 0:
            return first, owners
        splines = (first[:, None] + np.arange(N_FEATURES)).ravel()
        owners = np.repeat(owners, N_FEATURES, axis=0)
        if kind == 1:
            return splines, owners
        one, other = np.triu_indices(len(members), 1)
        pairs = np.stack([members[one], members[other]], axis=1)
        products = self.product[pairs[:, 0], pairs[:, 1]]
        return np.concatenate([splines, products]), np.concatenate([owners, pairs])

    def _added(self, kind: int, states: "_States", outside) -> Float[np.ndarray, "state move"]:
        """Criteria of models with one of the inputs outside."""
        count, size = states.used.shape
        if not len(outside):
            return np.zeros((count, 0))
        own = np.broadcast_to(outside[:, None] * N_FEATURES, (count, len(outside), 1))
        if kind > 0:
            own = own + np.arange(N_FEATURES)
        if kind > 1:
            products = self.product[outside[None, :, None], states.members[:, None]]
            own = np.concatenate([own, products], axis=2)
        shape = (count, size, *own.shape[1:])
        overlap = self.thin[states.used[:, :, None], own.reshape(count, 1, -1)]
        solved = (states.inverse @ overlap).reshape(shape).transpose(0, 2, 1, 3)
        left = self.inner[own] - (states.c[:, None] @ overlap).reshape(own.shape)
        block = self.thin[own[..., :, None], own[..., None, :]]
        block = block - overlap.reshape(shape).transpose(0, 2, 3, 1) @ solved
        gains = (left * np.linalg.solve(block, left[..., None])[..., 0]).sum(axis=2)
        degree = states.members.shape[1] + 1
        return self._cost(states.energy[:, None] + gains, size + own.shape[2], degree)

    def _cost(self, energy, count: int, degree: int):
        """The criterion of what explains so much with so many columns of so many inputs."""
        risk = np.maximum(self.power - energy, 0.0)
        columns = columns_price(self.n, count)
        return self.n * np.log(risk + FLOOR) + columns + 2 * log_choices(self.n_inputs, degree)


class _States(NamedTuple):
    """Models: columns in use, the inverse of their inner products, coefficients, what they explain,
    and their inputs.
    """

    used: Int[np.ndarray, "state column"]
    inverse: Float[np.ndarray, "state column column"]
    c: Float[np.ndarray, "state column"]
    energy: Float[np.ndarray, " state"]
    members: Int[np.ndarray, "state input"]

    def without(self, gone: Bool[np.ndarray, "part column"], members) -> "_States":
        """This one model without some columns, equally many each time, by inverses of blocks."""
        used, inverse, c = self.used[0], self.inverse[0], self.c[0]
        left = np.nonzero(gone)[1].reshape(len(gone), -1)
        kept = np.nonzero(~gone)[1].reshape(len(gone), -1)
        across = inverse[kept[:, :, None], left[:, None]]
        right = np.concatenate([across.transpose(0, 2, 1), c[left][..., None]], axis=2)
        solved = np.linalg.solve(inverse[left[:, :, None], left[:, None]], right)
        energy = self.energy - (c[left] * solved[..., -1]).sum(axis=1)
        less = across @ solved
        rest = inverse[kept[:, :, None], kept[:, None]] - less[..., :-1]
        return _States(used[kept], rest, c[kept] - less[..., -1], energy, members)


class _Solved(NamedTuple):
    """Least squares of one choice of inputs, or of many; the criterion is without the number of
    inputs.
    """

    criterion: Any
    risk: Any
    used: Any
    coefficients: Any


def log_choices(n: int, k: int) -> float:
    """Logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


def normalised(columns, root):
    """Means, norms, and columns that are centred and of unit length where they vary."""
    mean = root**2 @ columns / max(float(root @ root), 1)
    columns = (columns - mean[None]) * root[:, None]
    norm = np.sqrt(np.sum(columns**2, axis=0))
    norm = np.where(norm > 0, norm, 1)
    return mean, norm, columns / norm[None]
