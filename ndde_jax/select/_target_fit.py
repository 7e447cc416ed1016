"""Least squares of one target on chosen inputs, and what they tell."""

import numpy as np
from jaxtyping import Bool, Float

from ..regression._features import spline_terms
from ..windows._flat import KnownData
from ._basis import N_FEATURES
from ._leftover import chance_of_leftover
from ._regression import RIDGE, Regression
from ._spline_search import Columns, outside_gains

# Blocks that are left out in turn.
FOLDS = 5


class TargetFit:
    """Least squares of one target on some inputs, with and without each."""

    def __init__(self, columns: Columns, data: KnownData, j: int, mask):
        self.target, self.mask, self.inputs = j, np.asarray(mask), np.flatnonzero(mask)
        self.columns, root = columns, columns.root
        self.root = root
        total = max(float(root @ root), 1)
        y = (data.outputs[:, j] - root**2 @ data.outputs[:, j] / total) * root
        self.power = float(y @ y) / total
        self.y = y / np.sqrt(self.power * total if self.power > 0 else 1)
        self.model = Regression(columns, self.y, self.inputs)
        self.all = np.ones(len(self.inputs), bool)

    @property
    def linear(self) -> bool:
        """Whether the best model takes every input as it is."""
        return bool(self.solution(self.all)[2] <= len(self.inputs))

    def criterion(self) -> float:
        """The extended Bayesian information criterion."""
        return self.model.criterion(self.all)

    def solution(self, keep):
        """Risk, coefficients and number of columns of a model with some inputs."""
        risk, coefficients = self.model.best(keep)[1:]
        return risk, coefficients, int((coefficients != 0).sum())

    def corrected_risk(self, keep=None) -> float:
        """Generalised cross-validation."""
        risk, _, count = self.solution(self.all if keep is None else keep)
        return float(risk / (1 - min(count / max(self.model.n, 1), 0.9)) ** 2)

    def held_out(self, reach: int) -> float:
        """Return the share of the variance of the rate that is left on blocks of windows that were
        not fitted, all of them in turn, separated from those that were by the `reach` of a window.

        The inputs and the kind of model stay; coefficients and the mean of the rate are those of
        the other blocks.
        """
        used = np.flatnonzero(self.solution(self.all)[1])
        rows = np.flatnonzero(self.root > 0)
        x, y = (
            self.model.columns[rows][:, used] / self.root[rows, None],
            self.y[rows] / self.root[rows],
        )
        weight, place = self.root[rows] ** 2, np.arange(len(rows))
        error = power = 0.0
        for block in np.array_split(place, FOLDS):
            if not len(block):
                continue
            near = (rows >= rows[block[0]] - reach) & (rows <= rows[block[-1]] + reach)
            own = ~near
            if own.sum() <= len(used) + 2:
                return np.nan
            root = np.sqrt(weight[own])[:, None]
            design = np.column_stack([np.ones(own.sum()), x[own]])
            c = np.linalg.lstsq(root * design, root[:, 0] * y[own], rcond=RIDGE)[0]
            says = c[0] + x[block] @ c[1:]
            mean = weight[own] @ y[own] / weight[own].sum()
            error += weight[block] @ (y[block] - says) ** 2
            power += weight[block] @ (y[block] - mean) ** 2
        return float(error / power) if power > 0 else np.nan

    def left(self) -> Float[np.ndarray, " window"]:
        """What is left of the rate, standardised; 0 in windows that do not count."""
        residual = self.y - self.model.columns @ self.solution(self.all)[1]
        root = np.where(self.root > 0, self.root, 1)
        return np.sqrt(self.power * max(float(self.root @ self.root), 1)) * residual / root

    def leftover(self) -> float:
        """The chance that smooth functions of the inputs explain more of nothing but noise."""
        coefficients = self.solution(self.all)[1]
        columns = self.model.columns[:, coefficients != 0]
        residual = self.y - self.model.columns @ coefficients
        inputs = self.columns.inputs[:, self.inputs]
        return chance_of_leftover(residual, columns, inputs, self.root)

    def hidden(self, data: KnownData, sizes) -> float:
        """The share of the rate's variance that errors of these `sizes` in the inputs, each on its
        own, make the model miss; at most all it misses.
        """
        risk, coefficients, _ = self.solution(self.all)
        own = coefficients[: len(self.inputs) * N_FEATURES].reshape(-1, N_FEATURES)
        paired = coefficients[len(self.inputs) * N_FEATURES :] / self.model.product_norm
        first, second = self.model.pairs.T
        total = 0.0
        for slot, i in enumerate(self.inputs):
            size, spline = sizes[i % data.dim], self.columns.splines[i]
            above, below = (
                spline_terms(data.inputs[:, i] + sign * size, spline.knots) for sign in (1, -1)
            )
            missed = (above - below) / 2 @ (spline.matrix @ own[slot])
            for mine, other in ((first, second), (second, first)):
                with_it = mine == slot
                missed += size * (data.inputs[:, self.inputs[other[with_it]]] @ paired[with_it])
            total += float(np.sum((self.root * missed) ** 2))
        return min(total, risk)

    def without_stand_ins(self, data: KnownData, sizes) -> "TargetFit":
        """Without lags of a source that has several, as long as the least of them explains less
        than errors in the inputs hide: what averages errors out cannot explain more.
        """
        mask, limit, own = self.mask.copy(), self.hidden(data, sizes), self
        while True:
            sources = own.inputs % data.dim
            several = np.bincount(sources, minlength=data.dim)[sources] > 1
            open_ = several & ~data.required[self.target][own.inputs]
            if not open_.any():
                return own
            risk, places = own.corrected_risk(), np.arange(len(sources))
            worth = [own.corrected_risk(own.all & (places != p)) for p in np.flatnonzero(open_)]
            least = int(np.argmin(worth))
            if worth[least] - risk >= limit:
                return own
            mask[own.inputs[np.flatnonzero(open_)[least]]] = False
            own = TargetFit(self.columns, data, self.target, mask)

    def second_lags(self, data: KnownData, sizes) -> Bool[np.ndarray, " input"]:
        """Inputs that are not kept, of sources with errors that are kept at another lag."""
        kept = np.bincount(self.inputs % data.dim, minlength=data.dim) > 0
        return np.tile(kept & (sizes > 0), len(self.mask) // data.dim) & ~self.mask

    def outside(self):
        """What every other input would lower the risk by."""
        risk, coefficients, _ = self.solution(self.all)
        residual = self.y - self.model.columns @ coefficients
        gains = outside_gains(self.columns, residual, self.inputs)
        gains = gains - N_FEATURES * risk / self.model.n
        return np.maximum(gains, 0)

    def errors(self, keep):
        """Squared error of every window with some of the inputs, of mean `risk`."""
        return (self.y - self.model.columns @ self.solution(keep)[1]) ** 2 * self.model.n
