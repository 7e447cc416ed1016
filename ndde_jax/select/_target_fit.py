"""Least squares fit of one target on chosen inputs, and quantities derived from it, including a
closed-form test of whether its residual leaves anything for networks to explain.
"""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._types import KnownMask, divisor
from ..regression._design import Design, Rate, spline_terms
from ..regression._terms import Fit, Own, Terms, best_fit, find_terms, fit_terms, outside_gains
from ..windows._windows import KnownData
from ._worth import Worth, worth_of

# Number of blocks that are held out in turn.
FOLDS = 5


class TargetFit:
    """A least squares fit of one target on the best terms that read all of some inputs, with and
    without each input.

    - `summed`: the rate from the sums of a record that does not fit into memory, of which the
        windows are a part. The fit is from these sums. Quantities that sums do not determine come
        from the part: held-out errors, errors by stretch, and residuals.
    - `known`: the best terms by inputs, shared by all fits of one target and design.
    """

    def __init__(
        self,
        design: Design,
        data: KnownData,
        j: int,
        mask,
        summed: Rate | None = None,
        known: dict[bytes, Terms] | None = None,
    ):
        self.data, self.target, self.summed = data, j, summed
        self.known = {} if known is None else known
        self.mask, self.inputs = np.asarray(mask), np.flatnonzero(mask)
        self.design, self.root = design, design.root
        self.whole = design if summed is None else summed.design
        self.n = float(self.whole.n_windows)
        self.y, size = design.standardised(data.outputs[:, j])
        self.power = float(size) ** 2 / max(float(self.root @ self.root), 1)
        self.all = np.ones(len(self.inputs), bool)

    @property
    def own(self) -> Own:
        """The own state of the target among its inputs."""
        return Own.of(self.target, len(self.mask), self.data.dim)

    def on(self, mask: KnownMask, design: Design | None = None) -> "TargetFit":
        """Return the fit of the same target on other inputs, or on another design."""
        if design is None and (mask == self.mask).all():
            return self
        known = self.known if design is None else None
        design = self.design if design is None else design
        return TargetFit(design, self.data, self.target, mask, self.summed, known)

    def of_windows(self) -> "TargetFit":
        """Return the fit of the windows in memory."""
        if self.summed is None:
            return self
        return TargetFit(self.design, self.data, self.target, self.mask, known=self.known)

    @functools.cached_property
    def terms(self) -> Terms:
        """The best terms with all inputs, in the windows in memory."""
        key = self.mask.tobytes()
        if key not in self.known:
            self.known[key] = find_terms(self.design, self.y, self.mask, self.mask, own=self.own)
        return self.known[key]

    @functools.cached_property
    def fit(self) -> Fit:
        """The least squares fit with all inputs."""
        if self.summed is None:
            return self.part
        y, _ = self.whole.standardised(self.summed.output)
        return best_fit(self.whole, y, self.mask, self.own)

    @functools.cached_property
    def part(self) -> Fit:
        """The least squares fit with all inputs, in the windows in memory."""
        return fit_terms(self.design, self.y, self.terms)

    @property
    def linear(self) -> bool:
        """Whether the best terms are linear in every input."""
        return bool(self.fit.terms.linear())

    def criterion(self) -> float:
        """Return the extended Bayesian information criterion."""
        return self.fit.criterion()

    def omitted(self, keep) -> KnownMask:
        """Return the inputs that are omitted when only some of those of the mask are kept."""
        gone = np.zeros(len(self.mask), bool)
        gone[self.inputs[~np.asarray(keep)]] = True
        return gone

    def corrected_risk(self, keep=None) -> float:
        """Return the risk with some of the inputs, by generalised cross-validation."""
        return float(self.fit.corrected_risk(None if keep is None else self.omitted(keep)))

    def held_out(self, reach: int) -> float:
        """Return the unexplained share of the rate's variance on held-out blocks of windows, each
        block in turn, separated from the fitted windows by the `reach` of a window.

        The inputs and the kind of model are fixed; coefficients and the mean of the rate are those
        of the other blocks. If too few windows are left to fit, the prediction is their mean alone,
        so a record that is too short for this explains nothing: 1.
        """
        rows = np.flatnonzero(self.root > 0)
        x = self.part.columns[rows] / self.root[rows, None]
        y = self.y[rows] / self.root[rows]
        weight, place = self.root[rows] ** 2, np.arange(len(rows))
        error = power = 0.0
        for block in np.array_split(place, FOLDS):
            if not len(block):
                continue
            near = (rows >= rows[block[0]] - reach) & (rows <= rows[block[-1]] + reach)
            # If no window is beyond the reach of the block, all windows outside it.
            own = ~near if not near.all() else ~np.isin(place, block)
            mean = weight[own] @ y[own] / weight[own].sum() if own.any() else 0.0
            says = mean
            if own.sum() > x.shape[1] + 2:
                root = np.sqrt(weight[own])[:, None]
                design = np.column_stack([np.ones(own.sum()), x[own]])
                c = np.linalg.lstsq(root * design, root[:, 0] * y[own], rcond=1e-5)[0]
                says = c[0] + x[block] @ c[1:]
            error += weight[block] @ (y[block] - says) ** 2
            power += weight[block] @ (y[block] - mean) ** 2
        return float(error / power) if power > 0 else 1.0

    def left(self) -> Float[np.ndarray, " window"]:
        """Return the standardised residual of the rate; 0 in windows of weight zero."""
        root = divisor(self.root)
        size = np.sqrt(self.power * max(float(self.root @ self.root), 1))
        return size * self.part.residual / root

    def lack_of_fit(self) -> float:
        """Return the p-value of the residual explained by smooth functions of the inputs: the
        probability of explaining as much of pure noise.
        """
        inputs = self.design.inputs[:, self.inputs]
        return lack_of_fit_p_value(self.part.residual, self.part.columns, inputs, self.root)

    def input_error_share(self, sizes) -> float:
        """Return the share of the rate's variance that the model does not explain because of errors
        of these `sizes` in the inputs, summed over single inputs; at most its whole residual.
        """
        total, inputs, model = 0.0, self.data.inputs, Coefficients.of(self.design, self.part)
        for i in map(int, self.inputs):
            size = sizes[i % self.data.dim]
            above, below = (
                spline_terms(inputs[:, i] + sign * size, self.design.knots[i]) for sign in (1, -1)
            )
            products = [size * inputs[:, other] for other in model.partners(i)]
            missed = model.change(i, (above - below) / 2, products)
            total += float(np.sum((self.root * missed) ** 2))
        return min(total, float(self.part.risk))

    def without_proxies(self, sizes) -> "TargetFit":
        """Return the fit after backward elimination among the lags of sources with several, while
        the least of these lags explains less than errors in the inputs hide: an input that averages
        errors out cannot explain more.
        """
        limit, own, dim = self.input_error_share(sizes), self, self.data.dim
        while True:
            sources = own.inputs % dim
            several = np.bincount(sources, minlength=dim)[sources] > 1
            open_ = several & ~self.data.required[self.target][own.inputs]
            if not open_.any():
                return own
            risk, places = own.corrected_risk(), np.arange(len(sources))
            worth = [own.corrected_risk(own.all & (places != p)) for p in np.flatnonzero(open_)]
            least = int(np.argmin(worth))
            if worth[least] - risk >= limit:
                return own
            mask = own.mask.copy()
            mask[own.inputs[np.flatnonzero(open_)[least]]] = False
            own = self.on(mask)

    def second_lags(self, sizes) -> KnownMask:
        """Return the inputs that are not kept although their source, which has measurement errors,
        is kept at another lag.
        """
        dim = self.data.dim
        kept = np.bincount(self.inputs % dim, minlength=dim) > 0
        return np.tile(kept & (sizes > 0), len(self.mask) // dim) & ~self.mask

    def worth(self) -> Worth:
        """Return the worth of every input."""
        return worth_of(self.fit, self.part, self.root, self.data.dim)

    def gains_of_others(self) -> Float[np.ndarray, " input"]:
        """Return the fall of the risk with each other input added."""
        return np.maximum(outside_gains(self.whole, self.fit), 0)


class Coefficients(NamedTuple):
    """The coefficients of a fit, for the terms of every input's spline and for products.

    - `splines`: `[input term]`.
    - `pairs`: the two inputs of every product, `[pair 2]`; `paired`: its coefficient.
    """

    splines: Float[np.ndarray, "input term"]
    pairs: Int[np.ndarray, "pair 2"]
    paired: Float[np.ndarray, " pair"]

    @classmethod
    def of(cls, design: Design, fit: Fit) -> "Coefficients":
        """Return the coefficients of a fit on a design."""
        flat, product = np.zeros(design.matrix.shape[0] * design.matrix.shape[2]), fit.place < 0
        flat[fit.place[~product]] = fit.coefficients[~product]
        features = flat.reshape(design.n_inputs, -1)
        pairs = fit.terms.pairs[fit.terms.used]
        return cls(
            splines=np.einsum("itf,if->it", design.matrix, features),
            pairs=pairs,
            paired=fit.coefficients[product] / design.products(pairs)[2],
        )

    def partners(self, i: int) -> list[int]:
        """Return the inputs that input `i` is multiplied by."""
        return [int(pair.sum()) - i for pair in self.pairs if i in pair]

    def change(
        self, i: int, terms: Float[np.ndarray, "row term"], products: list[np.ndarray]
    ) -> Float[np.ndarray, " row"]:
        """Return the change of the prediction for given changes of the `terms` of input `i` and of
        its `products` with its `partners`.
        """
        values = self.paired[(self.pairs == i).any(axis=1)]
        change = terms @ self.splines[i]
        return change + sum(v * product for v, product in zip(values, products, strict=True))


# ---- structure left for networks ----

# Most random hidden units: enough for any shape that eight trained ones can form, and few compared
# with the windows.
UNITS = 64
# Scale of their weights, for standardised inputs: between nearly linear and nearly a step.
STEEPNESS = 1.5
# Most inputs of a unit: random directions among many inputs are seldom close to the relevant ones.
MOST = 3
# Windows per unit that the test needs.
PER_UNIT = 4
# Probability that the test finds structure in any target if there is none.
CHANCE = 0.01


def significant_lack_of_fit(chances: list[float]) -> list[bool]:
    """Return, from the p-value of each target, whether its residual has structure left. The level
    `CHANCE` is divided among the targets (Bonferroni).
    """
    return [chance < CHANCE / len(chances) for chance in chances]


def lack_of_fit_p_value(
    residual: Float[np.ndarray, " window"],
    known: Float[np.ndarray, "window column"],
    inputs: Float[np.ndarray, "window input"],
    root: Float[np.ndarray, " window"],
) -> float:
    """Return the p-value of smooth functions of some inputs for a residual: the probability that by
    chance alone they explain as much of it.

    An F test of random tanh units of one to three inputs each, added to the columns of the model
    whose least squares fit left the residual. Random units span what a trained network can add
    (Rahimi & Recht, "Random features for large-scale kernel machines", NIPS 2007). The test assumes
    independent windows; with dependent ones it rejects too often, never too seldom.

    **Arguments:**

    - `residual`, `known`: multiplied by `root`, the square roots of the weights of the windows.
    - `inputs`: standardised.

    **Returns:** a probability; 1 if the test cannot be made.
    """
    from scipy.special import fdtrc  # slow to import

    used = root > 0
    n, count = int(used.sum()), min(UNITS, int(used.sum()) // PER_UNIT)
    spare = n - known.shape[1] - count - 1
    if count == 0 or spare < PER_UNIT or not inputs.shape[1]:
        return 1.0
    # The same units every time, so that the result depends on the data alone.
    draw = np.random.default_rng(0)
    seen = np.minimum(np.arange(count) % MOST + 1, inputs.shape[1])
    places = draw.random((inputs.shape[1], count)).argsort(axis=0).argsort(axis=0)
    weights = np.where(places < seen, draw.normal(size=places.shape), 0) * STEEPNESS / np.sqrt(seen)
    units = np.tanh(inputs[used] @ weights + draw.normal(size=count)) * root[used, None]
    basis, _ = np.linalg.qr(np.concatenate([root[used, None], known[used], units], axis=1))
    new = basis[:, 1 + known.shape[1] :]
    left = residual[used] - basis[:, : 1 + known.shape[1]] @ (
        basis[:, : 1 + known.shape[1]].T @ residual[used]
    )
    explained, total = float(np.sum((new.T @ left) ** 2)), float(left @ left)
    if not total > 0 or not np.isfinite(explained):
        return 1.0
    ratio = (explained / count) / (max(total - explained, 1e-300) / spare)
    return float(fdtrc(count, spare, ratio))
