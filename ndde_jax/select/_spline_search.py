"""The search of [`spline_graph`][ndde_jax.select.spline_graph] in NumPy, for windows that are
known.

The same criterion, shortlists and moves as the traced version, on inner products of columns: no
move costs a pass over the windows, and nothing is compiled, so that another length, width or number
of lags is as fast as the first.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..fit._prices import RESOLUTION
from ..regression._features import spline_terms
from ._basis import LEAST, N_FEATURES, QUANTILES
from ._factors import orthogonal, root_solved
from ._regression import FLOOR, RIDGE, Regression

# Most shortlists for a target; two or three are the rule, since the last improves nothing.
ROUNDS = 6
# Places on each that are for inputs which the model before did not have.
ROOM = 4
# A step must lower the criterion by this much.
PROGRESS = 1e-3


class Columns(NamedTuple):
    """What all targets share: splines of every input, and their inner products.

    - `root`: root of the weight of each window; rows are multiplied by it.
    - `splines`: how the features of each input are made.
    - `features`: orthonormal columns of mean zero, N_FEATURES per input; zeros where redundant.
    - `gram`: their inner products, and `blocks`, those of each input alone.
    - `norms`: sum of squares of every centred product of two inputs.
    """

    inputs: Float[np.ndarray, "window input"]
    root: Float[np.ndarray, " window"]
    splines: tuple["Spline", ...]
    features: Float[np.ndarray, "window column"]
    gram: Float[np.ndarray, "column column"]
    blocks: Float[np.ndarray, "input own own"]
    norms: Float[np.ndarray, "input input"]

    @property
    def n_inputs(self) -> int:
        """Candidate inputs."""
        return self.inputs.shape[1]

    @property
    def n_windows(self) -> int:
        """Windows that count."""
        return int((self.root > 0).sum())

    def standardised(self, output) -> tuple[Float[np.ndarray, " window"], float]:
        """A rate as regressions want it, of mean 0 and length 1, and its sum of squares before."""
        y = _centred(np.asarray(output, np.float64)[:, None], self.root)[:, 0]
        scale = float(y @ y)
        return y / np.sqrt(scale if scale > 0 else 1), scale

    def first(self, n: int) -> "Columns":
        """The same of the first inputs."""
        own = slice(n * N_FEATURES)
        return Columns(
            inputs=self.inputs[:, :n],
            root=self.root,
            splines=self.splines[:n],
            features=self.features[:, own],
            gram=self.gram[own, own],
            blocks=self.blocks[:n],
            norms=self.norms[:n, :n],
        )

    def with_inputs(self, places, values: Float[np.ndarray, "window place"]) -> "Columns":
        """The same with other values of the inputs at some places."""
        places, width = np.asarray(places, int), N_FEATURES
        new, inputs = columns_of(values, self.root**2), self.inputs.copy()
        features, gram, splines = self.features.copy(), self.gram.copy(), list(self.splines)
        own = (places[:, None] * width + np.arange(width)[None]).ravel()
        inputs[:, places], features[:, own] = new.inputs, new.features
        gram[own] = new.features.T @ features
        gram[:, own] = gram[own].T
        blocks, norms = self.blocks.copy(), self.norms.copy()
        blocks[places] = new.blocks
        norms[places] = _norms_of_products(inputs[:, places], inputs, self.root)
        norms[:, places] = norms[places].T
        for place, spline in zip(places, new.splines, strict=True):
            splines[place] = spline
        return Columns(inputs, self.root, tuple(splines), features, gram, blocks, norms)


class Spline(NamedTuple):
    """One input: knots, and columns = (terms − mean) @ matrix, times the root of the weight."""

    knots: Float[np.ndarray, " knot"]
    mean: Float[np.ndarray, " term"]
    matrix: Float[np.ndarray, "term column"]
    columns: Float[np.ndarray, "window column"]


class Found(NamedTuple):
    """The best model of one target; names as in [`SplineGraph`][ndde_jax.select.SplineGraph]."""

    mask: Bool[np.ndarray, " input"]
    evidence: Float[np.ndarray, " input"]
    rise: Float[np.ndarray, " source"]
    slots: Int[np.ndarray, " slot"]
    risk: float
    fitted: Float[np.ndarray, " window"]


def columns_of(inputs, weight) -> Columns:
    """Splines of all inputs, `[window input]`."""
    inputs, root = np.asarray(inputs, np.float64), np.sqrt(np.asarray(weight, np.float64))
    valid, n = inputs[root > 0], inputs.shape[1]
    knots = np.quantile(valid, QUANTILES, axis=0) if len(valid) else np.zeros(len(QUANTILES))
    knots = np.broadcast_to(knots.T, (n, len(QUANTILES)))
    features = np.zeros((len(inputs), n * N_FEATURES))
    splines = tuple(
        _spline(z, own, root, features[:, i * N_FEATURES : (i + 1) * N_FEATURES])
        for i, (z, own) in enumerate(zip(inputs.T, knots, strict=True))
    )
    norms = _norms_of_products(inputs, inputs, root)
    gram = features.T @ features
    each = np.arange(n)
    blocks = gram.reshape(n, N_FEATURES, n, N_FEATURES)[each, :, each]
    return Columns(inputs, root, splines, features, gram, blocks, norms)


def _norms_of_products(some, inputs, root):
    """Sum of squares of every centred product of one of some inputs with one of all."""
    weight = root**2
    mean = some.T @ (weight[:, None] * inputs) / max(weight.sum(), 1)
    square = (some**2).T @ (weight[:, None] * inputs**2)
    return square - max(weight.sum(), 1) * mean**2


def search_target(columns: Columns, output, allowed, required, *, slots: int, steps: int, dim: int):
    """The best model of one target, by rounds of shortlist and local search among the inputs that
    it may have.
    """
    root, n_inputs = columns.root, columns.n_inputs
    y, scale = columns.standardised(output)
    allowed, required = np.asarray(allowed), np.asarray(required)
    own_slots = min(slots, max(int(allowed.sum()), 1))
    model, chosen = _rounds(columns, y, own_slots, steps, allowed, required)
    chosen = _resolved(model, chosen, required[model.slots])
    risk, coefficients = model.best(chosen)[1:]
    residual = y - model.columns @ coefficients
    flips = model.risks(chosen ^ np.eye(len(chosen), dtype=bool))
    owners = model.slots % dim
    without = chosen & (owners != np.arange(dim)[:, None])
    rise = np.where((without == chosen).all(axis=1), 0.0, model.risks(without) - risk)
    change = np.log((flips + FLOOR) / (risk + FLOOR))
    gains = outside_gains(columns, residual, model.slots[chosen]) - N_FEATURES * risk / model.n
    evidence = np.log((risk + FLOOR) / (np.maximum(risk - gains, 0) + FLOOR))
    inside = np.where(allowed[model.slots], -change, evidence[model.slots])
    evidence[model.slots] = np.where(chosen, change, inside)
    mask = np.zeros(n_inputs, bool)
    mask[model.slots] = chosen
    safe = np.where(root > 0, root, 1)
    fitted = np.where(root > 0, (y - residual) * np.sqrt(scale) / safe, 0)
    mean = root**2 @ np.asarray(output, np.float64) / max(float(root @ root), 1)
    others = np.setdiff1d(np.arange(n_inputs), model.slots)
    shortlist = np.concatenate([model.slots, others])[:slots]
    return Found(mask, evidence, rise, shortlist, risk, fitted + mean)


def _resolved(model: "Regression", chosen, required):
    """Without the inputs that are worth less than difference quotients err, the least first."""
    bits = np.eye(len(chosen), dtype=bool)
    while (chosen & ~required).any():
        worth = model.risks(chosen & ~bits) - model.risks([chosen])
        worth = np.where(chosen & ~required, worth, np.inf)
        least = int(np.argmin(worth))
        if worth[least] >= RESOLUTION:
            break
        chosen = chosen & ~bits[least]
    return chosen


def _rounds(columns: Columns, y, n_slots: int, steps: int, allowed, required):
    """The model on the last shortlist that improved, and which of it is chosen."""
    n_inputs = columns.n_inputs
    most = n_slots - min(ROOM, n_slots // 3)
    slots = _pursuit(columns, y, n_slots, allowed, required)
    whole = n_slots >= allowed.sum()
    best = None
    for _ in range(1 if whole else ROUNDS):
        model = Regression(columns, y, slots)
        start = np.isin(slots, best[0].slots[best[1]]) if best is not None else None
        chosen, cost = _local_search(model, steps, allowed[slots], required[slots], start)
        better = best is None or cost < best[2] - PROGRESS
        if best is None or cost <= best[2] + PROGRESS:
            best = (model, chosen, cost)
        if not better or whole:
            break
        risk, coefficients = model.best(chosen)[1:]
        residual = y - model.columns @ coefficients
        without = model.risks(chosen & ~np.eye(n_slots, dtype=bool))
        gains = outside_gains(columns, residual, slots[chosen]) - N_FEATURES * risk / model.n
        pairs = _product_gains(columns, residual, allowed)
        pairs = pairs - 2 * np.log(n_inputs) * risk / model.n  # the largest of so many by chance
        gains = np.where(allowed, np.maximum(gains, pairs), -np.inf)
        worth = np.full(n_inputs, -np.inf)
        worth[slots] = np.where(chosen, np.where(required[slots], np.inf, without), -np.inf)
        dispensable = (np.argsort(np.argsort(-worth, kind="stable")) >= most) & ~required
        slots = np.lexsort((-gains, -np.where(dispensable, -np.inf, worth)))[:n_slots]
    return best[0], best[1]


def _local_search(model: Regression, steps: int, allowed, required, start=None):
    """Best prefix of the pursuit, then the best addition, removal or swap while that pays."""
    n_slots = len(allowed)
    starts = [(np.arange(n_slots) < k) & allowed | required for k in range(n_slots + 1)]
    if start is not None:
        starts.append(start & allowed | required)
    costs = model.criteria(starts)
    chosen, cost = starts[int(np.argmin(costs))], costs.min()
    free = allowed & ~required
    for _ in range(steps):
        moved = model.promising(chosen, free)
        if not len(moved):
            break
        costs = model.criteria(moved)
        best = int(np.argmin(costs))
        if not costs[best] < cost - PROGRESS:
            break
        chosen, cost = moved[best], costs[best]
    return chosen, cost


def _pursuit(columns: Columns, y, n_slots: int, allowed, required) -> Int[np.ndarray, " slot"]:
    """Inputs in the order in which they explain most of what is left; required ones come first, and
    those that are not allowed only fill what would be empty. Gains lie between 0 and 1.
    """
    width, n = N_FEATURES, columns.n_inputs
    inner, blocks = (columns.features.T @ y).reshape(n, width), columns.blocks
    basis = np.zeros((0, n * width))  # rows of a triangular factor of the inner products
    taken = np.zeros(n, bool)
    order = []
    for _ in range(n_slots):
        gains = _group_gains(blocks, inner)
        gains = np.where(required, gains + 2, np.where(allowed, gains, -1))
        best = int(np.argmax(np.where(taken, -np.inf, gains)))
        order.append(best)
        taken[best] = True
        own = slice(best * width, (best + 1) * width)
        rest = columns.gram[own] - basis[:, own].T @ basis
        value, vector = np.linalg.eigh(rest[:, own])
        good = value > 1e-6
        new = (vector[:, good] / np.sqrt(value[good])).T @ rest
        # What is left of every other group once these columns are taken out.
        along = (vector[:, good] / np.sqrt(value[good])).T @ inner[best]
        grouped = new.reshape(-1, n, width).transpose(1, 2, 0)
        inner = inner - grouped @ along
        blocks = blocks - grouped @ grouped.transpose(0, 2, 1)
        basis = np.concatenate([basis, new])
    return np.array(order)


def _group_gains(blocks, inner) -> Float[np.ndarray, " input"]:
    """What each group of columns explains, from its inner products with itself and the target."""
    solved = np.linalg.solve(blocks + RIDGE * np.eye(blocks.shape[1])[None], inner[..., None])
    return np.sum(inner * solved[..., 0], axis=1)


def outside_gains(columns: Columns, residual, chosen) -> Float[np.ndarray, " input"]:
    """What the splines of inputs explain of a residual, less what chosen ones can take over."""
    width, n = N_FEATURES, columns.n_inputs
    own = (np.asarray(chosen)[:, None] * width + np.arange(width)[None]).ravel().astype(int)
    inner, blocks = columns.features.T @ residual, columns.blocks
    if len(own):
        gram = columns.gram[np.ix_(own, own)] + RIDGE * np.eye(len(own))
        overlap = columns.gram[own]
        # (Φ − B S)ᵀ (Φ − B S) with S = (G + r)⁻¹ BᵀΦ, the ridge r being negligible: of roots W of
        # ΦᵀB S = WᵀW.
        both = root_solved(gram, np.column_stack([overlap, inner[own]]))
        root, own_inner = both[:, :-1], both[:, -1]
        inner = inner - root.T @ own_inner
        grouped = root.reshape(-1, n, width).swapaxes(0, 1)
        blocks = blocks - grouped.swapaxes(1, 2) @ grouped
    return _group_gains(blocks, inner.reshape(n, width))


def _product_gains(columns: Columns, residual, allowed) -> Float[np.ndarray, " input"]:
    """What the best product with another input explains of a residual, which sums to 0."""
    weighted = columns.root * residual
    inner = columns.inputs.T @ (weighted[:, None] * columns.inputs)
    usable = allowed[:, None] & allowed[None] & ~np.eye(len(inner), dtype=bool)
    usable &= columns.norms > 0
    gains = np.where(usable, inner**2 / np.where(usable, columns.norms, 1), 0)
    return np.max(gains, axis=1)


def _centred(columns, root):
    total = max(float(root @ root), 1)
    return (columns - (root**2 @ columns / total)[None]) * root[:, None]


def _spline(z, knots, root, room) -> Spline:
    """Restricted cubic spline of one input, orthonormalised, in the columns `room`, which are zero
    and stay so where they are redundant.
    """
    terms = spline_terms(z, knots)
    total = max(float(root @ root), 1)
    mean = root**2 @ terms / total
    columns = (terms - mean[None]) * root[:, None]
    norm = np.sqrt(np.sum(columns**2, axis=0))
    # Where knots coincide a term is nothing but rounding, which must not be blown up to size one.
    there = norm > LEAST * norm[0]
    norm = np.where(there, norm, 1)
    columns = columns / norm[None]
    good = np.flatnonzero(there)
    basis, triangle = orthogonal(columns[:, good])
    # One after the other: the direction of a redundant column is rounding, and what follows has a
    # share in it.
    while len(bad := np.flatnonzero(np.abs(np.diag(triangle)) <= 1e-4)):
        good = np.delete(good, bad[0])
        basis, triangle = orthogonal(columns[:, good])
    matrix = np.zeros((len(norm), len(norm)))
    matrix[np.ix_(good, good)] = np.linalg.inv(triangle)
    room[:, good] = basis
    return Spline(knots, mean, matrix / norm[:, None], room)
