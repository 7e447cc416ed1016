"""Terms of a rate: its inputs, linear or as splines, and products of two inputs.

First, forward selection, backward elimination and exchange on the splines of all inputs. Products
of two inputs are then ranked by the residual. The most promising ones join the search as further
groups, among the most important inputs, until no product lowers the criterion.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from .._memory import after
from .._types import namespace_of
from ._design import WIDTH, Design, inner_products
from ._search import (
    CURVE,
    FLOOR,
    LINE,
    MOST,
    OUT,
    PROGRESS,
    Problem,
    Selection,
    best_of,
    best_pair_of_lines,
    best_pairs,
    columns_price,
    each_alone,
    log_choices,
    quadratic_forms,
    ridge_of,
    search,
    search_from,
    search_known,
    search_roomy,
)

# Numbers of inputs and products in a search with products: a size that is compiled already.
AMONG, PRODUCTS = 17, 15
# Most searches with products, each among those suggested by the previous one.
ROUNDS = 4
# Number of required inputs beyond which all are linear or all are splines, without products.
MANY = 24


class Terms(NamedTuple):
    """The terms of one rate: the level of each input, and the products in use.

    - `level`: level of each input, OUT, LINE (linear) or CURVE (as a spline), `[input]`.
    - `pairs`: the two inputs of each product, `[product 2]`, the smaller number first.
    - `used`: which of these products are in use, `[product]`, as shapes are static under `jit`.
    - `modulated`: whether all terms are linear, or products of the rate's own state with a linear
        term, which cost one column each.
    """

    level: Int[Any, "input"]
    pairs: Int[Any, "product 2"]
    used: Bool[Any, "product"]
    modulated: Any = False

    def reads(self) -> Bool[Any, "input"]:
        """Return which inputs the terms read."""
        return (self.level > OUT) | _in_pairs(self.pairs, self.used, self.level.shape[0])

    def linear(self) -> Any:
        """Return whether the terms are linear in every input."""
        xp = namespace_of(tuple(self))
        return xp.logical_not((self.level == CURVE).any() | self.used.any())

    def replaced(self, old: Any, new: Any) -> "Terms":
        """Return the terms with the input `old` replaced by `new`, which they do not read."""
        xp = namespace_of((tuple(self), old, new))
        numbers = np.arange(self.level.shape[0])
        here = xp.where(numbers == old, OUT, self.level)
        level = xp.where(numbers == new, self.level[old], here).astype(self.level.dtype)
        pairs = xp.sort(xp.where(self.pairs == old, new, self.pairs), axis=1)
        return Terms(level, pairs.astype(self.pairs.dtype), self.used, self.modulated)

    @classmethod
    def none(cls, n_inputs: int, xp: Any) -> "Terms":
        """Return empty terms with room for products, as NumPy or JAX arrays."""
        room = min(PRODUCTS, n_inputs * (n_inputs - 1) // 2)
        pairs = xp.zeros((room, 2), xp.asarray(0).dtype)
        return cls(xp.zeros(n_inputs, np.int32), pairs, xp.zeros(room, bool), xp.zeros((), bool))

    def among(self, n_inputs: int) -> "Terms":
        """Return the terms for a larger set of inputs, which begins with theirs; on the host."""
        level, pairs, used, _ = Terms.none(n_inputs, np)
        kept = self.pairs[self.used][: len(pairs)]
        level[: len(self.level)], pairs[: len(kept)], used[: len(kept)] = self.level, kept, True
        return Terms(level, pairs, used, self.modulated)

    @classmethod
    def lines(cls, mask: Any) -> "Terms":
        """Return the terms of a linear model of some inputs."""
        level = np.where(np.asarray(mask), LINE, OUT)
        return cls(level, np.zeros((0, 2), int), np.zeros(0, bool))


def _in_pairs(pairs: Any, which: Any, n_inputs: int) -> Any:
    """Return the inputs that are in some of the pairs, `[input]`."""
    numbers = np.arange(n_inputs)
    return ((pairs[:, :, None] == numbers[None, None]) & which[:, None, None]).any((0, 1))


class Own(NamedTuple):
    """The own state of a rate among its inputs.

    - `place`: its number; `others`: which inputs are states of other variables, `[input]`.
    """

    place: int | Int[Any, ""]
    others: Bool[Any, "input"]

    @classmethod
    def of(cls, j: Any, n_inputs: int, dim: int) -> "Own":
        """Return the own state of target `j` at the first lag, of inputs numbered (lag, source)."""
        return cls(j, np.arange(n_inputs) % dim != j)

    def among(self, inputs: Any) -> "Own | None":
        """Return the own state among some inputs, on the host; None if it is not one of them."""
        here = np.flatnonzero(inputs) == self.place
        return Own(int(here.argmax()), self.others[inputs]) if here.any() else None

    def multiplied(self) -> Any:
        """Return which two inputs may be multiplied: itself and those of others."""
        xp = namespace_of(tuple(self))
        once = (np.arange(self.others.shape[0]) == self.place)[:, None] & self.others[None]
        return xp.logical_or(once, once.T)


class ReducedFit(NamedTuple):
    """A least squares fit without some of its inputs: the rise of the risk, the risk by generalised
    cross-validation, and the residual, `[window]`.
    """

    rise: Any
    corrected_risk: Any
    residual: Any


class Fit(NamedTuple):
    """A least squares fit of one rate on terms.

    - `columns`: weighted columns, `[window column]`; `on`: which of them are in use.
    - `place`: the index of each column among the features of a
        [`Design`][ndde_jax.regression.Design], flattened over inputs; −1 for products.
    - `reads`: the inputs of each column, `[column input]`.
    - `coefficients`: those of the columns; `inverse`: the inverse of their inner products.
    - `residual`: standardised and weighted, `[window]`; `risk`: its sum of squares.
    - `n`: number of windows; `charged`: number of columns charged by the criterion.
    """

    terms: Terms
    columns: Any
    on: Any
    place: Any
    reads: Any
    coefficients: Any
    inverse: Any
    residual: Any
    risk: Any
    n: Any
    charged: Any

    def criterion(self, candidates: int | None = None) -> Any:
        """Return n log(risk + 10⁻⁴) with the prices of the columns and of the choices of inputs
        and of products.

        - `candidates`: number of inputs among which the choice was made; by default all of the
            design, 0 if the choice costs nothing.
        """
        candidates = len(self.terms.level) if candidates is None else candidates
        number, products, dtype = self.terms.reads().sum(), self.terms.used.sum(), self.risk.dtype
        xp = namespace_of((self.n, self.risk))
        inputs = log_choices(candidates, number)
        pairs = log_choices(number * (number - 1) // 2, products)
        price = columns_price(self.n, xp.asarray(self.charged, dtype))
        price = price + 2 * (xp.asarray(inputs, dtype) + xp.asarray(pairs, dtype))
        return self.n * xp.log(self.risk + FLOOR) + price

    def left_of(self, values: Any) -> Any:
        """Return the residuals of other values on the columns, `[window value]`."""
        return values - self.columns @ (self.inverse @ (self.columns.T @ values))

    def rise_without(self, inputs: Bool[Any, "input"]) -> Any:
        """Return the rise of the risk without all columns that read one of some inputs."""
        xp, (c, multiplier) = namespace_of((self.columns, inputs)), self._held(inputs)
        return xp.maximum(c @ multiplier, 0)

    def without(self, inputs: Bool[Any, "input"]) -> "ReducedFit":
        """Return the fit without all columns that read one of some inputs."""
        xp, (c, multiplier) = namespace_of((self.columns, inputs)), self._held(inputs)
        rise = xp.maximum(c @ multiplier, 0)
        residual = self.residual + self.columns @ (self.inverse @ multiplier)
        return ReducedFit(rise, self._corrected(rise, inputs), residual)

    def corrected_risk(self, inputs: Any = None) -> Any:
        """Return the risk by generalised cross-validation, without some inputs or with all."""
        return self._corrected(0 if inputs is None else self.rise_without(inputs), inputs)

    def _corrected(self, rise: Any, inputs: Any) -> Any:
        xp, stays = namespace_of((self.columns, inputs)), self.on
        if inputs is not None:
            stays = stays & ~(self.reads & inputs[None]).any(axis=1)
        share = stays.sum().astype(self.risk.dtype) / xp.maximum(self.n, 1)
        return (self.risk + rise) / (1 - xp.minimum(share, 0.9)) ** 2

    def _held(self, inputs: Any) -> tuple[Any, Any]:
        """Return the coefficients of the columns that read one of some inputs, and the Lagrange
        multipliers of the constraint that they are 0; 0 for all other columns.
        """
        xp = namespace_of((self.columns, inputs))
        gone = self.on & (self.reads & inputs[None]).any(1)
        block = xp.where(gone[:, None] & gone[None], self.inverse, 0)
        block = block + xp.diag(xp.where(gone, 0, 1).astype(block.dtype))
        c = xp.where(gone, self.coefficients, 0)
        return c, xp.linalg.solve(block, c[:, None])[:, 0]


def fit_terms(design: Design, y: Any, terms: Terms) -> Fit:
    """Return the least squares fit of a standardised rate `[window]` on terms.

    ```python
    import numpy as np
    from ndde_jax import regression

    z = np.random.default_rng(0).normal(size=(200, 2))
    design = regression.design_of(z, np.ones(200))
    y, _ = design.standardised(2 * z[:, 0])
    line = regression.Terms.lines([True, False])
    print(round(float(regression.fit_terms(design, y, line).risk), 6))  # 0.0
    ```
    """
    xp = namespace_of((design, y, terms))
    n_inputs = design.n_inputs
    numbers = np.arange(n_inputs)
    if xp is np:
        own = np.flatnonzero(terms.level > OUT)
        level, pairs = terms.level[own], terms.pairs[terms.used]
        used = np.ones(len(pairs), bool)
    else:
        own = jnp.nonzero(terms.level > OUT, size=min(MOST, n_inputs), fill_value=n_inputs)[0]
        level = jnp.where(own < n_inputs, terms.level[jnp.minimum(own, n_inputs - 1)], OUT)
        own, pairs, used = jnp.minimum(own, n_inputs - 1), terms.pairs, terms.used
    width = design.width
    first = np.arange(width) == 0
    lines = (level == LINE)[:, None] & first[None]
    on = design.present[own] & ((level == CURVE)[:, None] | lines)
    multiplied = design.products(pairs)[0]
    splines = (own[:, None] * width + np.arange(width)[None]).reshape(-1)
    reads = xp.repeat(own[:, None] == numbers[None], width, axis=0)
    reads = xp.concatenate([reads, (pairs[:, :, None] == numbers[None, None]).any(1)])
    place = xp.concatenate([splines, xp.full(len(pairs), -1)])
    on = xp.concatenate([on.reshape(-1), used])
    if xp is np:
        reads, place, on = reads[on], place[on], on[on]
        splines = place[: len(place) - len(pairs)]
    columns = design.features.reshape(len(y), -1)[:, splines]
    columns = xp.concatenate([columns, multiplied], axis=1) if len(pairs) else columns
    if xp is not np:
        columns = xp.where(on[None], columns, 0)
    gram = columns.T @ columns
    error = xp.where(on & (place >= 0), design.error, 0).astype(gram.dtype)
    ridge = xp.where(on, ridge_of(gram.dtype), 1).astype(gram.dtype) + error
    inverse = xp.linalg.inv(gram + np.eye(len(gram), dtype=gram.dtype) * ridge[None])
    c = inverse @ (columns.T @ y)
    # Iterative refinement, twice, which removes the effects of ridge and rounding.
    for _ in range(2):
        c = c + inverse @ (columns.T @ (y - columns @ c) - error * c)
    c = xp.where(on, c, 0)
    left = y - columns @ c
    risk = left @ left + error @ c**2
    charged = _charged(design, terms)
    n = design.n_windows
    return Fit(terms, columns, on, place, reads, c, inverse, left, risk, n, charged)


def best_fit(design: Design, y: Any, inputs: Any, own: Own | None = None) -> Fit:
    """Return the least squares fit of a rate on the best terms that read all of some inputs."""
    return fit_terms(design, y, find_terms(design, y, inputs, inputs, own=own))


def _charged(design: Design, terms: Terms) -> Any:
    """Return the number of columns charged for terms: one per input for a linear model; otherwise
    the columns of its spline for each input, and one for each product.
    """
    xp = namespace_of((design, terms))
    each = xp.where(terms.linear() | terms.modulated, 1, design.present.sum(1))
    return xp.where(terms.reads(), each, 0).sum() + terms.used.sum()


def outside_gains(design: Design, fit: Fit) -> Any:
    """Return the part of a fit's residual that each input explains with all coefficients refitted,
    `[input]`: linearly for a linear model, otherwise by its spline. The part explained by chance is
    included, because weak inputs are ranked by it and all below chance would be equal.
    """
    xp = namespace_of((design, fit.columns))
    n_inputs, width = design.n_inputs, design.width
    features = design.features.reshape(len(fit.residual), -1)
    overlap = design.gram.reshape(n_inputs * width, -1)[xp.maximum(fit.place, 0)]
    product = fit.place < 0
    if xp is np:
        overlap[product] = fit.columns[:, product].T @ features
    else:
        overlap = jnp.where(product[:, None], fit.columns.T @ features, overlap)
    overlap = xp.where(fit.on[:, None], overlap, 0)
    left = (fit.residual @ features).reshape(n_inputs, width)
    solved = (fit.inverse @ overlap).reshape(-1, n_inputs, width).transpose(1, 0, 2)
    overlap = overlap.reshape(-1, n_inputs, width).transpose(1, 2, 0)
    each, eye = np.arange(n_inputs), np.eye(width, dtype=left.dtype)[None]
    block = design.gram[each, :, each] - overlap @ solved + ridge_of(left.dtype) * eye
    present = design.present
    block = xp.where(present[:, :, None] & present[:, None], block, eye)
    gain = quadratic_forms(block, xp.where(present, left, 0))
    return xp.where(fit.terms.linear(), gain[:, 0], gain[:, -1])


class _Products(NamedTuple):
    """The products that a search chooses among.

    - `pairs`: the two inputs of each, `[product 2]`; `there`: which exist.
    - `score`: the largest fall of the criterion that one of them may give.
    """

    pairs: Any
    there: Any
    score: Any


class _Rate(NamedTuple):
    """A standardised rate with the inputs and features that may describe it.

    - `y`: the rate, `[window]`; `cross`: its inner products with all features, `[input width]`.
    - `allowed`, `required`: inputs that it may and must depend on, `[input]`.
    - `n`: number of windows.
    - `curved`: whether splines of inputs and products of all inputs are allowed.
    - `choices`: number of inputs among which a choice is made.
    - `relaxed`: whether the search only collects inputs to start another search from.
    - `own`: its own state, if only this is multiplied unless the rate is `curved`.
    """

    y: Any
    cross: Any
    allowed: Any
    required: Any
    n: Any
    curved: Any
    choices: int
    relaxed: Any = False
    own: Own | None = None


def _searched(problem: Problem, start: Any, most: int) -> Selection:
    """Return the selection found from a start; on the host with more room as needed."""
    if namespace_of((problem, start)) is np:
        return search_roomy(problem, start, most)
    return search(jax.tree.map(jnp.asarray, problem), jnp.asarray(start)[None], most).of_targets(0)


def _problem(design: Design, rate: _Rate, slots: Any, products: _Products, place: Any) -> Problem:
    """Return the problem of the splines of the inputs in some slots and of products.

    - `place`: the slots of the inputs of each product, `[product 2]`.
    """
    xp = namespace_of((design, rate, slots, products))
    y, dtype = rate.y, rate.y.dtype
    own_present = design.present[slots] & xp.logical_or(
        rate.curved, (np.arange(design.width) == 0)[None]
    )
    pairs, count, among = products.pairs, products.pairs.shape[0], slots.shape[0]
    spare, full = (0, design.width - 3), (0, 0)
    multiplied = design.products(pairs)[0]
    crossed = inner_products(design.features[:, slots], multiplied)
    # A product is grouped with the linear features of its inputs, so that one move adds all three.
    lines = design.inner_products_with_lines(pairs)
    between = lines[pairs, 0]
    along = crossed[place, 0].transpose(2, 0, 1)  # products with lines, `[product product 2]`
    inner = xp.concatenate([(multiplied.T @ multiplied)[:, None, :, None], along[:, None]], axis=3)
    below = xp.concatenate([along.transpose(1, 2, 0)[..., None], between], axis=3)
    inner = xp.pad(xp.concatenate([inner, below], axis=1), (full, spare, full, spare))
    crossed = xp.concatenate([crossed[..., None], lines[slots]], axis=3)
    crossed = xp.pad(crossed, (full, full, full, spare))
    above = xp.concatenate([design.gram[slots][:, :, slots], crossed], axis=2)
    below = xp.concatenate([crossed.transpose(2, 3, 0, 1), inner], axis=2)
    cross = xp.concatenate([(y @ multiplied)[:, None], rate.cross[pairs, 0]], axis=1)
    cross = xp.pad(cross, (full, spare))
    there = xp.repeat(products.there[:, None], 3, axis=1)
    unused = xp.zeros(count, bool)
    charge = xp.concatenate([own_present.sum(1), xp.zeros(count, int)]).astype(np.int32)
    return Problem(
        gram=xp.concatenate([above, below]),
        cross=xp.concatenate([rate.cross[slots], cross])[None],
        power=(y @ y)[None],
        present=xp.concatenate([own_present, xp.pad(there, (full, spare))]),
        n=rate.n,
        choices=xp.where(rate.relaxed, 1, rate.choices).astype(dtype),
        price=xp.where(rate.relaxed, -charge.astype(dtype) * _discount(rate.n), 0).astype(dtype),
        charge=charge,
        reads=xp.concatenate([each_alone(among), xp.asarray(place).astype(np.int32)]),
        allowed=xp.concatenate([rate.allowed[slots], products.there])[None],
        required=xp.concatenate([rate.required[slots], unused])[None],
    )


def _with_products(
    design: Design, rate: _Rate, terms: Terms, worth: Any, products: _Products, most: int
) -> tuple[Terms, Any]:
    """Return the terms and their cost from a search that starts from given terms, among products
    and the inputs that are worth most.
    """
    xp = namespace_of((design, rate, terms, products))
    n_inputs, pairs = design.n_inputs, products.pairs
    read = _in_pairs(pairs, products.there, n_inputs)
    rank = xp.where(read, xp.maximum(worth, 1e30), worth)
    # A fixed size needs no program for every number; under `jit` every shape has its own anyway.
    among = n_inputs
    if xp is np:
        among = min(max(AMONG, int((worth == np.inf).sum())), n_inputs)
    slots = xp.sort(xp.argsort(-rank, stable=True)[:among])
    place = xp.minimum(xp.searchsorted(slots, pairs), among - 1)
    # A product is unusable if there was no room for its inputs.
    products = products._replace(there=products.there & (slots[place] == pairs).all(1))
    same = (pairs[:, None] == terms.pairs[None]).all(2) & terms.used[None]
    start = xp.concatenate([terms.level[slots], xp.where(same.any(1), CURVE, OUT)])
    problem = _problem(design, rate, slots, products, place)
    found = _searched(problem, start.astype(np.int32), most)
    here = slots[:, None] == np.arange(n_inputs)[None]
    level = xp.where(here, found.level[:among, None], OUT).max(0)
    used, straight = found.level[among:] > OUT, found.level[among:] == CURVE
    level = xp.maximum(level, _in_pairs(pairs, straight, n_inputs).astype(level.dtype))
    return Terms(level, pairs, used, xp.logical_not(rate.curved)), found.cost


def _gains_of_products(design: Design, fit: Fit, some: Any = slice(None)) -> Any:
    """Return the part of a fit's residual that the product of each of `some` inputs with each input
    explains, `[some input]`.
    """
    xp, norms = namespace_of((design, fit.residual)), design.norms[some]
    inner = design.along_products(fit.residual, some)
    there = (norms > 1e-12) & ~np.eye(design.n_inputs, dtype=bool)[some]
    return xp.where(there, inner**2 / xp.where(there, norms, 1), 0)


@functools.cache
def _pairs(n_inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two inputs of all pairs, the smaller number first."""
    return np.triu_indices(n_inputs, 1)


def _promising(design: Design, fit: Fit, rate: _Rate) -> _Products:
    """Return the products that explain most of a fit's residual."""
    xp = namespace_of((design, fit.residual))
    n_inputs, n = design.n_inputs, rate.n
    if xp is np and rate.own is not None:
        others = np.flatnonzero(rate.own.others)
        first, second = np.sort([np.full(len(others), rate.own.place), others], axis=0)
        gain = _gains_of_products(design, fit, [rate.own.place])[0, others]
    else:
        first, second = _pairs(n_inputs)
        gain = _gains_of_products(design, fit)[first, second]
    usable = rate.allowed[first] & rate.allowed[second]
    if xp is not np and rate.own is not None:
        usable = usable & (rate.curved | rate.own.multiplied()[first, second])
    read = fit.terms.reads()
    new = (~read[first]).astype(gain.dtype) + (~read[second]).astype(gain.dtype)
    share = xp.minimum(gain / (fit.risk + FLOOR), 0.99)
    price = xp.log(xp.maximum(n, 2)) + 2 * new * math.log(max(n_inputs, 2))
    score = -n * xp.log1p(-share) - price.astype(gain.dtype)
    score = xp.where(usable & (gain >= FLOOR), score, -np.inf)
    if not len(first):
        return _Products(
            xp.zeros((0, 2), np.int32), xp.zeros(0, bool), xp.asarray(-np.inf, rate.y.dtype)
        )
    best = np.arange(len(score))
    if xp is np and len(score) > PRODUCTS:
        best = np.sort(np.argpartition(-score, PRODUCTS)[:PRODUCTS])
    best = xp.asarray(best)[xp.argsort(-score[best], stable=True)][:PRODUCTS]
    pairs = xp.stack([xp.asarray(first)[best], xp.asarray(second)[best]], axis=1)
    return _Products(pairs, xp.isfinite(score[best]), score[best[0]])


def _candidates(terms: Terms, more: _Products, others: _Products) -> _Products:
    """Return the products in use and, alternately, those that are promising in addition to the
    terms and in addition to the terms without products.
    """
    xp = namespace_of((tuple(terms), tuple(more)))
    turns = np.argsort(np.tile(np.arange(len(more.pairs)), 2), kind="stable")
    pairs = xp.concatenate([terms.pairs, xp.concatenate([more.pairs, others.pairs])[turns]])
    there = xp.concatenate([terms.used, xp.concatenate([more.there, others.there])[turns]])
    # Remove duplicate pairs.
    same = (pairs[:, None] == pairs[None]).all(2) & there[None]
    earlier = np.tril(np.ones((len(pairs),) * 2, bool), -1)
    there = there & ~(same & earlier).any(1)
    kept = xp.argsort(~there, stable=True)[: terms.used.shape[0]]
    return _Products(pairs[kept], there[kept], more.score)


def _lines_or_curves(design: Design, y: Any, mask: Any) -> Terms:
    straight = Terms.lines(mask)
    curved = straight._replace(level=np.where(mask, CURVE, OUT))
    return min((straight, curved), key=lambda terms: fit_terms(design, y, terms).criterion())


def _most(required: Any) -> int:
    """Return the initial room for terms, one of few sizes."""
    count = int(required.sum())
    return MOST if count <= MOST - 4 else 2 * (MANY if count > MOST else MOST)


def _problem_of_sums(
    design: Design, outputs: Any, allowed: Any, required: Any, choices: int
) -> Problem:
    """Return the problem of the splines of all inputs, without products, for rates
    `[window target]`, on the host.
    """
    cross = outputs.T @ design.features.reshape(len(outputs), -1)
    return Problem(
        gram=design.gram,
        cross=cross.reshape(-1, design.n_inputs, design.width),
        power=(outputs**2).sum(0),
        present=design.present,
        n=design.n_windows,
        choices=float(choices),
        price=np.zeros(design.n_inputs),
        charge=design.present.sum(1),
        reads=each_alone(design.n_inputs),
        allowed=allowed,
        required=required,
    )


def _of_lines(problem: Problem) -> Problem:
    """Return the problem of the linear features alone."""
    present = problem.present[:, :1]
    gram, cross = problem.gram[:, :1, :, :1], problem.cross[:, :, :1]
    return problem._replace(gram=gram, cross=cross, present=present, charge=present.sum(1))


def _discount(n: Any) -> Any:
    """Return the discount on the price of a column when inputs are only collected to start from:
    it then costs one unit of twice the log likelihood, less than the gain by chance.
    """
    return namespace_of(n).log(namespace_of(n).maximum(n, 2)) - 1


def _sums(splines: Problem, most: int) -> tuple[Selection, Selection]:
    """Return the best linear model of every target and the best sum of splines, on the host.

    Levels of a slow variable may explain nothing individually and their differences everything. So
    a linear model is searched from the empty set, from the best two inputs, and by backward
    elimination from more inputs than it needs; splines are searched from the empty set and from the
    linear model.
    """
    lines = _of_lines(splines)
    relaxed = lines._replace(choices=1.0, price=-lines.charge * _discount(lines.n))
    many = search_known(relaxed, None, most)
    gram, each = lines.gram[:, 0, :, 0], zip(lines.cross[:, :, 0], lines.allowed, strict=True)
    pairs = np.stack([best_pair_of_lines(gram, cross, allowed) for cross, allowed in each])
    starts = (None, pairs, many.level)
    linear = best_of(search_from(lines, starts, most))
    curved = search_known(splines, None, most)
    again = np.flatnonzero(((linear.level > OUT) & (curved.level == OUT)).any(axis=1))
    if len(again):
        start = np.where(linear.level[again] > OUT, CURVE, OUT)
        new = search_known(splines.of_targets(again), start, most)
        new = best_of([curved.of_targets(again), new])
        for whole, part in zip(curved, new, strict=True):
            whole[again] = part
    return linear, curved


def find_sums(design: Design, outputs: Any, allowed: Any, required: Any) -> list[Terms]:
    """Return the best sums of splines for several rates, `[window target]`, each with its own
    inputs, `[target input]`; on the host.

    For designs with many knots. The search starts from the empty set and from the best pair of
    inputs: without noise, differences of a few states just before the present reproduce the rate of
    a path, and no single move leads from these states to the two inputs that determine it.
    """
    problem = _problem_of_sums(design, outputs, allowed, required, design.n_inputs)
    most = _most(required.sum(1).max(initial=0)[None])
    found = best_of(search_from(problem, (None, best_pairs(problem)), most))
    nothing = Terms.none(design.n_inputs, np)
    return [nothing._replace(level=level) for level in found.level]


def find_all_terms(
    design: Design,
    outputs: Any,
    allowed: Any,
    required: Any,
    step: int,
    now: list[Terms] | None = None,
    choices: int | None = None,
    own: Sequence[Own | None] | None = None,
) -> list[Terms]:
    """Return [`find_terms`][ndde_jax.regression.find_terms] for several rates, `[window target]`,
    each with its own inputs, `[target input]`; on the host.

    On a smooth path, a sum over many lags of all sources fits closely, and no single move leads
    from it to the products of a few present states that drive the path. So these products are
    searched separately.

    - `now`: the terms found among the inputs at the first lag alone, if known.
    - `own`: the own state of each rate, for rates of inputs.
    - `choices`: number of inputs among which a choice is made, by default those of the design.
    """
    choices = design.n_inputs if choices is None else choices
    own = [None] * len(allowed) if own is None else own
    most = _most(required.sum(1).max(initial=0)[None])
    problem = _problem_of_sums(design, outputs, allowed, required, choices)
    linear, curved = _sums(problem, most)
    present: list[Terms | None] = [None] * len(allowed)
    if 0 < step < design.n_inputs:
        if now is None:
            few, first = design.of_inputs(slice(step)), np.s_[:, :step]
            early = [one and one._replace(others=one.others[:step]) for one in own]
            now = find_all_terms(few, outputs, allowed[first], required[first], 0, own=early)
        for j, one in enumerate(own.among(design.n_inputs) for own in now):
            present[j] = one._replace(level=np.maximum(one.level, CURVE * required[j]))
    rows = zip(outputs.T, problem.cross, allowed, required, strict=True)
    rates = [_Rate(*row, design.n_windows, True, choices) for row in rows]
    return [
        _find_known(design, rate, linear.of_targets(j), curved.of_targets(j), present[j], own[j])
        for j, rate in enumerate(rates)
    ]


def find_terms(
    design: Design, y: Any, allowed: Any, required: Any, step: int = 0, own: Own | None = None
) -> Terms:
    """Return the terms that minimise the extended Bayesian information criterion for a rate: of a
    linear model, of one whose inputs are also multiplied by the rate's own state, or of splines and
    products.

    Linear terms, and their products with the own state, which say how fast it grows or decays, are
    charged one column each; any other model is charged all columns of its spline for each input,
    used or not, and one per product. Otherwise neighbouring lags, which are nearly collinear, could
    compensate as linear terms for inexact states at half samples, at the cost of one column each.

    Works under `jit` and `vmap`, where a rate has at most 12 terms. On the host there is no limit,
    but more than 24 required inputs are all linear or all splines, without products.

    - `y`: a rate from [`Design.standardised`][ndde_jax.regression.Design.standardised].
    - `allowed`, `required`: inputs that it may and must depend on, `[input]`.
    - `step`: number of sources if inputs are numbered (lag, source), static, which is the number of
        inputs at the first lag; 0, the default, if inputs are not lags.
    - `own`: the rate's own state among the inputs, [`Own`][ndde_jax.regression.Own]; by default the
        rate is not that of an input.

    ```python
    import numpy as np
    from ndde_jax import regression

    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 4))
    design = regression.design_of(z, np.ones(500))
    y, _ = design.standardised(z[:, 0] * z[:, 1] + 0.5 * rng.normal(size=500))
    every = np.ones(4, bool)
    print(regression.find_terms(design, y, every, ~every).reads())  # [True True False False]
    ```
    """
    if namespace_of((design, y, allowed, required)) is jnp:
        return find_traced(design, y, allowed, required, step, own)[0]
    if required.sum() > MANY:
        return _lines_or_curves(design, y, required)
    if not allowed.all():
        return _find_among(design, y, allowed, required, own)
    return find_all_terms(design, y[:, None], allowed[None], required[None], step, own=[own])[0]


def _find_among(
    design: Design, y: Any, allowed: Any, required: Any, state: Own | None = None
) -> Terms:
    """Return the terms of a search among the allowed inputs only."""
    own, n_inputs = np.flatnonzero(allowed), design.n_inputs
    if not len(own):
        return Terms.lines(allowed)
    few, every, forced = design.of_inputs(own), np.ones(len(own), bool), required[own]
    (terms,) = find_all_terms(
        few,
        y[:, None],
        every[None],
        forced[None],
        0,
        choices=n_inputs,
        own=[state and state.among(allowed)],
    )
    level = np.zeros(n_inputs, terms.level.dtype)
    level[own] = terms.level
    return Terms(level, own[terms.pairs], terms.used, terms.modulated)


def _multiplied(terms: Terms) -> Terms:
    """Return all inputs as splines, with all products of two if there is room; products that
    explain much together may explain nothing individually.
    """
    xp, width = namespace_of(tuple(terms)), terms.used.shape[0]
    count = max(k for k in range(1, 7) if k * (k - 1) // 2 <= width)
    reads = terms.level > OUT
    if xp is np:
        members = np.resize(np.flatnonzero(reads), count) if reads.any() else np.zeros(count, int)
    else:
        members = jnp.nonzero(reads, size=count, fill_value=0)[0]
    first, second = np.triu_indices(count, 1)
    pairs = xp.stack([members[first], members[second]], axis=1).astype(terms.pairs.dtype)
    spare = width - len(first)
    pairs = xp.concatenate([xp.sort(pairs, axis=1), xp.zeros((spare, 2), pairs.dtype)])
    inside = (second < reads.sum()) & (reads.sum() <= count)
    used = xp.concatenate([inside, xp.zeros(spare, bool)])
    return Terms(xp.where(reads, CURVE, OUT).astype(terms.level.dtype), pairs, used)


def _find_known(
    design: Design,
    rate: _Rate,
    linear: Selection,
    curved: Selection,
    now: Terms | None,
    own: Own | None,
) -> Terms:
    """Return the best terms from given starts, on the host: the best linear model, the best sum of
    splines, and the best terms of the inputs at the first lag, if available.
    """
    y, allowed, required = rate.y, rate.allowed, rate.required
    if required.sum() > MANY:
        return _lines_or_curves(design, y, required)
    most = _most(required)
    # There may be many weak linear terms, each of them cheap.
    if most < len(allowed) and (linear.level > OUT).sum() >= most:
        splines = _problem_of_sums(design, y[:, None], allowed[None], required[None], rate.choices)
        linear = search_roomy(_of_lines(splines), linear.level, 2 * most)
    nothing = Terms.none(design.n_inputs, np)
    best = [(nothing._replace(level=kind.level), kind.cost) for kind in (linear, curved)]
    if now is not None:
        best.append((now, fit_terms(design, y, now).criterion(rate.choices)))
    if len(nothing.pairs) and design.width == WIDTH:
        # A search from sums may miss products whose inputs it already uses, and vice versa.
        multiplied = _with_rounds(design, rate, *best[1], most)
        starts = [_multiplied(one) for one, _ in (*best[:2], multiplied)]
        starts.extend(one for one, _ in best[2:])
        best.append(multiplied)
        if multiplied[0].used.any():
            best.append(_with_rounds(design, rate, nothing, np.inf, most))
        for k, one in enumerate(starts):
            known = any(all(map(np.array_equal, one, other)) for other in starts[:k])
            if not one.used.any() or known:
                continue
            alone, whole = (
                fit_terms(design, y, one._replace(used=one.used & on)) for on in (False, True)
            )
            if not _worth_together(whole.n, alone.risk, whole.risk, one.used.sum()):
                continue
            products = _Products(one.pairs, one.used, np.inf)
            worth = _worth(design, rate, whole)
            pruned = _with_products(design, rate, one, worth, products, most)
            if pruned[1] < min(cost for _, cost in best) - PROGRESS:
                best.append(_with_rounds(design, rate, *pruned, most))
        if own is not None:
            straight = rate._replace(curved=False, own=own)
            terms, cost = _with_rounds(design, straight, *best[0], most)
            if terms.used.any() and cost < _cost_of_a_curve(design, straight, best[0][0], own):
                best.append((terms, cost))
    return min(best, key=lambda one: one[1])[0]


def _worth_together(n: Any, alone: Any, whole: Any, pairs: Any) -> Any:
    """Return whether all products of some terms explain as much as two of them cost, or one if
    there is one: a single product is found individually.

    - `alone`, `whole`: the risk of the terms without their products and with them.
    - `pairs`: how many products there are.
    """
    xp = namespace_of((n, alone, whole, pairs))
    gain, number = n * (xp.log(alone + FLOOR) - xp.log(whole + FLOOR)), xp.minimum(pairs, 2)
    columns, choice = (xp.asarray(a, gain.dtype) for a in (number, log_choices(pairs, number)))
    return gain > columns * xp.log(n) + 2 * choice


def _worth(design: Design, rate: _Rate, fit: Fit) -> Any:
    """Return the gain from each input in addition to a fit, on the host; infinite if it is read."""
    gain = np.where(rate.allowed, outside_gains(design, fit), -1)
    return np.where(fit.terms.reads() | rate.required, np.inf, gain)


def _with_rounds(
    design: Design, rate: _Rate, terms: Terms, cost: Any, most: int
) -> tuple[Terms, Any]:
    """Return the terms and their cost after repeated searches with products, on the host."""
    for _ in range(ROUNDS):
        fit = fit_terms(design, rate.y, terms)
        more = others = _promising(design, fit, rate)
        if terms.used.any():
            bare = fit_terms(design, rate.y, terms._replace(used=terms.used & False))
            others = _promising(design, bare, rate)
        products = _candidates(terms, more, others)
        if not products.score > 0:
            break
        worth = _worth(design, rate, fit)
        new, new_cost = _with_products(design, rate, terms, worth, products, most)
        if not new_cost < cost - PROGRESS:
            break
        terms, cost = new, new_cost
    return terms, cost


def _cost_of_a_curve(design: Design, rate: _Rate, linear: Terms, own: Own) -> Any:
    """Return the criterion of linear terms with a curve of the own state that costs two columns.

    Products of the own state with others that resemble it follow its curve. They cost less than
    its spline, so they must also explain more.
    """
    xp = namespace_of((design, rate.y, tuple(linear)))
    here = np.arange(design.n_inputs) == own.place
    curved = linear._replace(level=xp.where(here, CURVE, linear.level))
    fit = fit_terms(design, rate.y, curved)
    return fit._replace(charged=curved.reads().sum() + 1).criterion(rate.choices)


def find_traced(
    design: Design, y: Any, allowed: Any, required: Any, step: int, own: Own | None = None
) -> tuple[Terms, Terms]:
    """Return [`find_terms`][ndde_jax.regression.find_terms] under tracing, and the best terms that
    read inputs at the first lag alone; the same terms twice if there is one lag.

    One loop serves all kinds of model, the first iteration without products, so that its body is
    compiled once.
    """
    n_inputs = design.n_inputs
    worth, nothing = jnp.zeros(n_inputs, y.dtype), Terms.none(n_inputs, jnp)
    cross = (y @ design.features.reshape(len(y), -1)).reshape(n_inputs, design.width)
    now = np.arange(n_inputs) < step

    def searched(begun, kind):
        begin, linear, least = begun
        curved, at_once, relaxed, goes_on, multiplied, of_now = kind
        modulated = at_once & ~curved
        begin = jnp.where(modulated, linear, begin)
        may = jnp.asarray(allowed) & (jnp.asarray(required) | now | ~of_now)
        given = (may, jnp.asarray(required), design.n_windows)
        rate = _Rate(y, cross, *given, curved, n_inputs, relaxed, own)
        level = jnp.where(begin > OUT, jnp.where(curved, CURVE, LINE), OUT).astype(begin.dtype)
        start = nothing._replace(level=jnp.where(goes_on, level, nothing.level))
        whole = _multiplied(start)
        start = jax.tree.map(lambda a, b: jnp.where(multiplied, a, b), whole, start)

        def promising(terms, count):
            """Return the products to search among, and whether the search is worthwhile."""

            def beside(used):
                fit = fit_terms(design, y, terms._replace(used=used))
                return _promising(design, fit, rate), fit.risk

            # A loop, so that its body is compiled once for both.
            both, (whole, alone) = jax.lax.map(beside, jnp.stack([terms.used, terms.used & False]))
            more, others = (jax.tree.map(lambda a, k=k: a[k], both) for k in (0, 1))
            together = _worth_together(rate.n, alone, whole, terms.used.sum())
            worthwhile = jnp.where(multiplied & (count == 0), together, more.score > 0)
            return _candidates(terms, more, others), worthwhile

        def improve(carry):
            terms, cost, count, _ = carry
            none = _Products(nothing.pairs, nothing.used, endless), jnp.asarray(True)
            first = (count == 0) & ~at_once
            products, worthwhile = jax.lax.cond(first, lambda *_: none, promising, terms, count)
            new, new_cost = jax.lax.cond(
                worthwhile,
                lambda: _with_products(design, rate, terms, worth, products, MOST),
                lambda: (terms, endless),
            )
            better = new_cost < cost - PROGRESS
            new = jax.tree.map(lambda a, b: jnp.where(better, a, b), new, terms)
            return new, jnp.where(better, new_cost, cost), count + 1, better

        endless, zero = jnp.asarray(jnp.inf, y.dtype), jnp.zeros((), jnp.int32)
        rounds = jnp.where(at_once, ROUNDS, jnp.where(curved, ROUNDS + 1, 1))
        terms, cost, *_ = jax.lax.while_loop(
            lambda c: c[3] & (c[2] < rounds), improve, (start, endless, zero, jnp.asarray(True))
        )
        cost = jnp.where(relaxed, endless, cost)
        if own is not None:
            # Factorisations of many systems side by side would wait for each other's threads.
            later = rate._replace(y=after(rate.y, cost))
            curve = jax.lax.cond(
                modulated,
                lambda: _cost_of_a_curve(design, later, nothing._replace(level=linear), own),
                lambda: endless,
            )
            worthless = modulated & ~(terms.used.any() & (cost < curve))
            cost = jnp.where(worthless, endless, cost)
        better = ~curved & ~at_once & (of_now | (cost < least))
        linear, least = jnp.where(better, terms.level, linear), jnp.where(better, cost, least)
        return (terms.level, linear, least), (terms, cost)

    # A linear model from two inputs; collected inputs, from them by elimination a linear model,
    # from it sums of splines, then their products, and all products; then a linear model, sums of
    # splines, and splines with products at once, each from the empty set; and from the best linear
    # model, products with the own state. With several lags, at the first lag a linear model, its
    # products with the own state, sums and their products, these at once, and from them all others.
    yes, no = True, False
    kinds = np.array(
        [
            [no, no, no, yes, yes, no, yes, yes, no, no, no, yes, yes, yes],
            [no, no, no, no, yes, no, no, yes, yes, no, yes, no, yes, yes],
            [no, yes, no, no, no, no, no, no, no, no, no, no, no, no],
            [yes, no, yes, yes, yes, no, no, no, yes, no, yes, no, no, yes],
            [no, no, no, no, yes, no, no, no, no, no, no, no, no, yes],
            [no, no, no, no, no, no, no, no, no, yes, yes, yes, yes, no],
        ]
    )
    several = 0 < step < n_inputs
    if not several:
        kinds = kinds[:, :9]
    if own is None:
        kinds = kinds[:, kinds[0] | ~kinds[1]]
    at_first = np.flatnonzero(kinds[-1])
    begin = best_pair_of_lines(design.gram[:, 0, :, 0], cross[:, 0], jnp.asarray(allowed))
    none = (begin, nothing.level, jnp.asarray(jnp.inf, y.dtype))
    _, (terms, cost) = jax.lax.scan(searched, none, list(map(jnp.asarray, kinds)))
    best = jnp.argmin(cost)
    present = at_first[0] + jnp.argmin(cost[at_first]) if several else best
    return tuple(jax.tree.map(lambda a, k=k: a[k], terms) for k in (best, present))


class Described(NamedTuple):
    """The effect of every input in the terms of a rate.

    - `mask`: inputs that the terms read, `[input]`.
    - `evidence`: rise of log(risk + 10⁻⁴) without one of them, or its fall with the spline of
        another, `[input]`.
    - `rise`: rise of the risk without a source at all its lags, `[source]`.
    - `slots`: the inputs that are worth most, beginning with those in use, `[slot]`.
    - `risk`: unexplained share of the variance.
    - `fitted`: the rate predicted by the terms, including its mean, `[window]`.
    - `cost`: the criterion per window.
    - `products`: number of products of inputs.
    """

    mask: Any
    evidence: Any
    rise: Any
    slots: Any
    risk: Any
    fitted: Any
    cost: Any
    products: Any


def each_left_out(n_inputs: int, dim: int) -> Bool[np.ndarray, "group input"]:
    """Return groups of inputs: each input, followed by each source at all its lags."""
    sources = np.arange(n_inputs)[None] % dim == np.arange(dim)[:, None]
    return np.concatenate([np.eye(n_inputs, dtype=bool), sources])


def describe(design: Design, output: Any, terms: Terms, dim: int, n_slots: int) -> Described:
    """Return the effect of every input in the terms of a rate.

    - `output`: the rate as it was measured, `[window]`.
    - `dim`: number of sources; inputs are numbered (lag, source).
    - `n_slots`: number of inputs to list, static.
    """
    fit = fit_terms(design, design.standardised(output)[0], terms)
    groups = each_left_out(design.n_inputs, dim)
    if namespace_of(fit) is np:
        rises = np.zeros(len(groups))
        for k in np.flatnonzero((groups & terms.reads()).any(1)):
            rises[k] = fit.rise_without(groups[k])
    else:
        rises = jax.lax.map(fit.rise_without, jnp.asarray(groups))
    return describe_fit(design, output, fit, rises, n_slots)


def describe_fit(design: Design, output: Any, fit: Fit, rises: Any, n_slots: int) -> Described:
    """Return the effect of every input in a fit of a rate.

    - `rises`: rise of the risk without each group of
        [`each_left_out`][ndde_jax.regression._terms.each_left_out].
    """
    xp, (y, size) = namespace_of((design, output, fit)), design.standardised(output)
    terms, mask, n_inputs = fit.terms, fit.terms.reads(), design.n_inputs
    rise, rise_of_source = rises[:n_inputs], rises[n_inputs:]
    # What an input explains by itself, or by its best product minus the price of the product.
    gain, n = outside_gains(design, fit), xp.maximum(fit.n, 2)
    if xp is not np or not terms.linear():
        price = (2 * math.log(max(n_inputs, 2)) + xp.log(n)) * fit.risk / n
        most = xp.max(_gains_of_products(design, fit), axis=1) - price
        gain = xp.where(terms.linear(), gain, xp.maximum(gain, most))
    gain = xp.minimum(gain, fit.risk)
    evidence = xp.where(
        mask,
        xp.log((fit.risk + rise + FLOOR) / (fit.risk + FLOOR)),
        xp.log((fit.risk + FLOOR) / (fit.risk - gain + FLOOR)),
    )
    slots = xp.argsort(-xp.where(mask, 1 + rise, gain), stable=True)[:n_slots]
    root, weight = design.root, design.root**2
    fitted = xp.where(root > 0, (y - fit.residual) * size / xp.where(root > 0, root, 1), 0)
    return Described(
        mask=mask,
        evidence=evidence,
        rise=rise_of_source,
        slots=slots,
        risk=fit.risk,
        fitted=fitted + weight @ output / xp.maximum(weight.sum(), 1),
        cost=fit.criterion() / xp.maximum(fit.n, 1),
        products=terms.used.sum(),
    )
