"""Sufficient statistics of regressions, additive sums over windows, and the design of a record of
which only these are known.
"""

import dataclasses
import itertools
import operator
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._types import divisor, namespace_of
from ._design import WIDTH, Design, Rate, inner_products, orthonormal


class Sums(eqx.Module):
    """The sums over the windows of each block, which are sufficient for regressions.

    They are additive: the sums of a longer record, of several recordings, of chunks or of parts on
    other machines are the sums of the parts, if all use the same features. Weights represent masks,
    missing values and recordings.

    - `weight`: Σ w.
    - `x`, `y`: Σ w x of the features and Σ w y of the targets.
    - `xx`, `xy`, `yy`: Σ w x xᵀ, Σ w x yᵀ and Σ w y².
    """

    weight: Float[Array | np.ndarray, "block"]
    x: Float[Array | np.ndarray, "block feature"]
    y: Float[Array | np.ndarray, "block target"]
    xx: Float[Array | np.ndarray, "block feature feature"]
    xy: Float[Array | np.ndarray, "block feature target"]
    yy: Float[Array | np.ndarray, "block target"]

    def __add__(self, other: "Sums") -> "Sums":
        return jax.tree.map(operator.add, self, other)


def sums_of(
    features: Float[Array | np.ndarray, "window feature"],
    targets: Float[Array | np.ndarray, "window target"],
    weight: Float[Array | np.ndarray, "window"],
    n_blocks: int = 1,
) -> Sums:
    """Return sums over equally long blocks of consecutive windows.

    In NumPy unless an argument is traced, because a program would be compiled for every length.
    Rows of weight zero may contain any finite values.

    ```python
    import numpy as np
    from ndde_jax import regression

    x = np.random.default_rng(0).normal(size=(100, 2))
    weight = np.ones(100)
    whole = regression.sums_of(x, x, weight)
    parts = regression.sums_of(x[:30], x[:30], weight[:30])
    parts = parts + regression.sums_of(x[30:], x[30:], weight[30:])
    print(np.allclose(whole.xx, parts.xx))  # True
    ```
    """
    xp = namespace_of((features, targets, weight))
    edges = np.linspace(0, len(weight), n_blocks + 1).round().astype(int)
    blocks = []
    for first, last in itertools.pairwise(edges):
        x, y, w = features[first:last], targets[first:last], weight[first:last]
        wx = x if xp is np and (w == 1).all() else w[:, None] * x
        xx = _weighted_squares(x, w) if xp is np else wx.T @ x
        blocks.append((w.sum(), wx.sum(0), w @ y, xx, wx.T @ y, w @ y**2))
    return Sums(*(xp.stack(parts) for parts in zip(*blocks, strict=True)))


def _weighted_squares(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return xᵀ diag(weight) x as an array times its own transpose, which takes half the time."""
    rows = x if (weight == 1).all() else np.sqrt(weight)[:, None] * x
    return rows.T @ rows


def with_changed(
    sums: Sums,
    features: Float[np.ndarray, "window feature"],
    targets: Float[np.ndarray, "window target"],
    weight: Float[np.ndarray, "window"],
    changed: Bool[np.ndarray, "feature"],
) -> Sums:
    """Return the sums of one block of windows after some features `changed`; `features` contains
    the present values of all of them.
    """
    new = features[:, changed]
    new = new if (weight == 1).all() else weight[:, None] * new
    x, xx, xy = sums.x.copy(), sums.xx.copy(), sums.xy.copy()
    x[0, changed], xy[0, changed] = new.sum(axis=0), new.T @ targets
    xx[0, changed] = products = new.T @ features
    xx[0][:, changed] = products.T
    return Sums(sums.weight, x, sums.y, xx, xy, sums.yy)


# Eigenvalues of the inner products of columns of length one below which they are rounding error.
LEAST = 1e-11


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class SummedDesign(Design):
    """A [`Design`][ndde_jax.regression.Design] from sums over windows, which its rows represent.

    Regressions need only the inner products of columns. So the design has one row per summed column
    in place of millions of windows, with the same inner products, and searches and fits give the
    same results.

    - `n`: number of windows; `terms`: centred terms of every spline, `[row input term]`.
    - `paired`: centred products of two inputs, `[row pair]`; `pair_mean`: their means.
    - `number`: the index of the product of two inputs among these, `[input input]`; −1 if it was
        not summed: it is then no candidate and is returned as zero.
    """

    n: Any
    terms: Any
    paired: Any
    pair_mean: Any
    number: Any
    OF_ROWS: ClassVar[tuple[str, ...]] = ("features", "terms")
    OF_PAIRS: ClassVar[tuple[str, ...]] = ("norms", "number")

    @property
    def n_windows(self) -> Any:
        """The number of windows with positive weight."""
        return np.float64(self.n)

    def standardised(self, output: Any) -> tuple[Any, Any]:
        """Return a rate, `[row]`, scaled to length 1, and its length; its mean is 0 already."""
        size = np.sqrt(output @ output)
        return output / (size if size > 0 else 1), size

    def centred_products(self, pairs: Any) -> tuple[Any, Any]:
        """Return the centred products of two inputs, `[row pair]`, and their means."""
        number = self.number[pairs[:, 0], pairs[:, 1]]
        there = number >= 0
        raw = np.where(there[None], self.paired[:, number], 0)
        return raw, np.where(there, self.pair_mean[number], 0)

    def along_products(self, residual: Any, some: Any = slice(None)) -> Any:
        """Return the inner products of the products of `some` inputs and all with a residual."""
        along = np.append(residual @ self.paired, 0.0)
        return along[self.number[some]]


class Summed(NamedTuple):
    """A design from sums, the rates in its rows, `[row target]`, and their means, `center`."""

    design: SummedDesign
    outputs: Float[np.ndarray, "row target"]
    center: Float[np.ndarray, " target"]

    def rate(self, j: int, inputs: Any = None) -> Rate:
        """Return the rate of a target with a design of some inputs, by default of all."""
        design = self.design if inputs is None else self.design.of_inputs(inputs)
        return Rate(design, self.outputs[:, j], float(self.center[j]))


def summed_design(
    sums: Sums, knots: Float[np.ndarray, "input knot"], pairs: Int[np.ndarray, "pair 2"]
) -> Summed:
    """Return the design of one block of sums over the terms of the splines of all inputs, followed
    by products of pairs of these, the smaller number first.

    The rows are a square root of the Gram matrix of all columns, from its eigenvectors, because
    some columns may be linear combinations of others. One more row contains the part of each rate
    that no column explains.

    ```python
    import numpy as np
    from ndde_jax import regression
    from ndde_jax.regression._design import spline_terms
    from ndde_jax.regression._summed import summed_design

    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 3))
    y = z[:, 0] * z[:, 1] + rng.normal(size=500)
    knots = regression.design_of(z, np.ones(500)).knots
    pairs = np.stack(np.triu_indices(3, 1), axis=1)
    columns = [spline_terms(z, knots).reshape(500, -1), z[:, pairs].prod(axis=2)]
    sums = regression.sums_of(np.concatenate(columns, axis=1), y[:, None], np.ones(500))
    made, every = summed_design(sums, knots, pairs), np.ones(3, bool)
    y, _ = made.design.standardised(made.outputs[:, 0])
    print(regression.find_terms(made.design, y, every, ~every).reads())  # [ True  True False]
    ```
    """
    n, n_inputs = float(sums.weight[0]), len(knots)
    total = max(n, 1.0)
    mean, center = sums.x[0] / total, sums.y[0] / total
    gram = sums.xx[0] - n * mean[:, None] * mean[None]
    cross = sums.xy[0] - n * mean[:, None] * center[None]
    power = sums.yy[0] - n * center**2
    size = divisor(np.sqrt(np.maximum(np.diag(gram), 0)))
    value, vector = np.linalg.eigh(gram / size[:, None] / size[None])
    value, vector = value[value > LEAST], vector[:, value > LEAST]
    columns = np.sqrt(value)[:, None] * vector.T * size[None]
    explained = vector.T @ (cross / size[:, None]) / np.sqrt(value)[:, None]
    left = np.sqrt(np.maximum(power - (explained**2).sum(0), 0))
    outputs = np.concatenate([explained, left[None]])
    columns = np.concatenate([columns, np.zeros((1, columns.shape[1]))])
    n_terms = n_inputs * WIDTH
    basis = orthonormal(columns[:, k:n_terms:WIDTH] for k in range(WIDTH))
    paired = columns[:, n_terms:]
    number, norms = np.full((n_inputs, n_inputs), -1), np.zeros((n_inputs, n_inputs))
    for first, second in (pairs.T, pairs.T[::-1]):
        number[first, second], norms[first, second] = np.arange(len(pairs)), (paired**2).sum(0)
    design = SummedDesign(
        inputs=None,
        root=np.ones(len(columns)),
        knots=knots,
        mean=mean[:n_terms].reshape(n_inputs, WIDTH),
        **basis._asdict(),
        gram=inner_products(basis.features, basis.features),
        norms=norms,
        n=n,
        terms=columns[:, :n_terms].reshape(len(columns), n_inputs, WIDTH),
        paired=paired,
        pair_mean=mean[n_terms:],
        number=number,
    )
    return Summed(design, outputs, center)
