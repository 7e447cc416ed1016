"""The design shared by the regressions of all rates on the same inputs: for each input a linear
term and the nonlinear terms of a restricted cubic spline, and products of two linear terms.

In NumPy for concrete windows, because a program would be compiled for every length; in JAX, by the
same code, for traced ones.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._memory import machine_memory
from .._types import divisor, namespace_of

# ---- features of one input ----

# Knots of restricted cubic splines (Harrell, Regression Modeling Strategies, 2015, table 2.3).
QUANTILES = (0.025, 0.1833, 0.3417, 0.5, 0.6583, 0.8167, 0.975)
# Number of terms of a spline; the first is the input itself.
WIDTH = len(QUANTILES) - 1
# Knots for records without noise, in which the only error is that of the splines: other lags would
# compensate for the error that seven knots leave for a steep law.
MANY_QUANTILES = tuple(np.linspace(0.02, 0.98, 21).tolist())
# Squared interpolation error from neighbours, relative to a step, below which a path is smooth.
SMOOTH = 0.25
# Squared error of cubics, relative to that of lines, below which a path is clearly curved.
CURVED = 0.5


def knots_of(
    values: Float[np.ndarray, "sample *input"], quantiles: tuple[float, ...] = QUANTILES
) -> Float[np.ndarray, "*input knot"]:
    """Return the knots of each input, at quantiles of its values."""
    if not len(values):
        return np.zeros((*values.shape[1:], len(quantiles)))
    return np.moveaxis(np.quantile(values, quantiles, axis=0), 0, -1)


def spline_terms(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> Float[Array | np.ndarray, "*input term"]:
    """Return the terms of a restricted cubic spline of every input; the first is the input itself.

    Linear beyond the outer knots, which limits the leverage of extremes (Harrell, 2015, equation
    2.25).
    """
    columns = spline_columns(z, knots)
    return (np if isinstance(columns[-1], np.ndarray) else jnp).stack(columns, axis=-1)


def spline_columns(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> list[Float[Array | np.ndarray, "*input"]]:
    """Return each of the [`spline_terms`][ndde_jax.regression._design.spline_terms]."""
    xp = np if isinstance(z, np.ndarray) and isinstance(knots, np.ndarray) else jnp
    span = xp.maximum(knots[..., -1] - knots[..., 0], 1e-6)
    wide = xp.maximum(knots[..., -1] - knots[..., -2], 1e-6)
    beyond = [xp.maximum(z - knots[..., k], 0) / span for k in range(knots.shape[-1])]
    # Several times as fast as a power.
    *cubes, before, last = [u * u * u for u in beyond]
    curved = [
        cube
        - before * (knots[..., -1] - knots[..., k]) / wide
        + last * (knots[..., -2] - knots[..., k]) / wide
        for k, cube in enumerate(cubes)
    ]
    return [z, *curved]


# ---- the design ----


# Weights of the means of the two samples one, three and five steps away, for interpolation on a
# line, a cubic and a quintic. The zero weight evaluates the line at the same samples as the cubic.
INTERPOLATION_WEIGHTS = ((1.0, 0.0), (9 / 8, -1 / 8), (75 / 64, -25 / 128, 3 / 128))


class InterpolationErrors(NamedTuple):
    """The mean squared errors of interpolating a sample from its neighbours, relative to the mean
    square of a step, `[dim]`: on `lines`, `cubics` and `quintics` through every other sample.

    On a path with independent steps the relative error of lines is one half, and larger for others.
    """

    lines: Float[np.ndarray, " dim"]
    cubics: Float[np.ndarray, " dim"]
    quintics: Float[np.ndarray, " dim"]

    @classmethod
    def of(cls, recordings: list[np.ndarray]) -> "InterpolationErrors":
        """Return the errors in recordings, each `[time dim]`, NaN where missing."""
        errors, steps = np.zeros((2, len(INTERPOLATION_WEIGHTS), recordings[0].shape[1]))
        for x in recordings:
            for k, weights in enumerate(INTERPOLATION_WEIGHTS):
                reach = 2 * len(weights) - 1
                if (n := len(x) - reach) <= reach:
                    continue
                error = -x[reach:n]
                for side, weight in zip(range(1, reach + 1, 2), weights, strict=True):
                    pair = x[reach - side : n - side] + x[reach + side : n + side]
                    error = error + weight * pair / 2
                step = np.where(np.isfinite(error), x[reach + 1 : n + 1] - x[reach:n], np.nan)
                errors[k] += np.nansum(error**2, axis=0)
                steps[k] += np.nansum(step**2, axis=0)
        return cls(*errors / divisor(steps))

    @property
    def rough(self) -> Bool[np.ndarray, " dim"]:
        """The variables that lines interpolate as well as cubics, such as noise-driven paths."""
        return self.lines <= self.cubics

    @property
    def curved(self) -> Bool[np.ndarray, " dim"]:
        """The variables with a clearly curved path: cubics err less than half as much as lines."""
        return self.cubics < CURVED * self.lines

    @property
    def least(self) -> Float[np.ndarray, " dim"]:
        """The error of the best interpolation of each variable."""
        return np.minimum.reduce(self)

    @property
    def smooth(self) -> bool:
        """Whether all paths are smooth: the interpolation error is less than half of that on a path
        with independent steps.
        """
        return bool(np.all(np.minimum(self.lines, self.cubics) < SMOOTH))


# Size of a term relative to that of the variable itself, below which it is rounding error in single
# precision, for example where knots coincide.
LEAST = 1e-5
# Relative size of a term orthogonal to the terms before it, below which it is redundant.
REDUNDANT = 1e-4
# Numbers in the inputs whose splines are computed at a time: a megabyte, which fits into caches.
AT_A_TIME = 2**17


# Arrays of the size of `gram` and of `features` that a search holds at a time. Measured for 300 to
# 900 inputs and 1500 to 6000 windows.
GRAMS, FEATURES = 3, 2


def check_room(n_inputs: int, n_windows: int, grams: int = GRAMS, features: int = FEATURES) -> None:
    """Raise an error if the inner products of the inputs do not fit into the memory of the machine.

    - `grams`, `features`: numbers of arrays of the size of these arrays of a design that are held
        at a time.

    **Raises:** `ValueError` with the memory needed and a remedy.
    """
    terms, memory = n_inputs * WIDTH, machine_memory()
    needed = 8.0 * terms * (grams * terms + features * n_windows)
    if needed > memory:
        raise ValueError(
            f"{n_inputs} candidate inputs (variables × lags) in {n_windows} windows take about "
            f"{needed / 1e9:.2g} GB; this machine has {memory / 1e9:.2g} GB. Choose fewer lags, "
            "such as every tenth, range(0, 1001, 10), or fewer variables."
        )


# A plain dataclass: searches read attributes of a design ten thousand times, which takes
# microseconds each for an `eqx.Module`.
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """The splines of every input, orthonormal within each input, and their inner products.

    - `inputs`: standardised values, `[window input]`.
    - `root`: square root of the weight of each window, `[window]`; rows are multiplied by it.
    - `features`: columns of weighted mean zero, `[window input width]`, the linear one first, zero
        if redundant; they are (terms at the `knots` − `mean`) @ `matrix`.
    - `gram`: their inner products, `[input width input width]`.
    - `present`: which of them are not redundant, `[input width]`.
    - `norms`: sum of squares of every centred product of two inputs, `[input input]`.
    - `error`: error variance of the features, which is added to the inner product of each feature
        with itself.
    """

    inputs: Any
    root: Any
    knots: Any
    mean: Any
    matrix: Any
    present: Any
    features: Any
    gram: Any
    norms: Any
    error: Any = 0.0
    # Fields with inputs on their first axis, on the axis after the rows, and on both axes.
    OF_INPUTS: ClassVar[tuple[str, ...]] = ("knots", "mean", "matrix", "present")
    OF_ROWS: ClassVar[tuple[str, ...]] = ("inputs", "features")
    OF_PAIRS: ClassVar[tuple[str, ...]] = ("norms",)

    @property
    def n_inputs(self) -> int:
        """The number of candidate inputs."""
        return self.knots.shape[0]

    @property
    def width(self) -> int:
        """The number of terms of a spline."""
        return self.knots.shape[1] - 1

    @property
    def n_windows(self) -> Any:
        """The number of windows with positive weight."""
        return (self.root > 0).sum().astype(self.root.dtype)

    def standardised(self, output: Any) -> tuple[Any, Any]:
        """Return a rate standardised for regressions, with weighted mean 0 and length 1,
        `[window]`, and its original length.
        """
        xp = namespace_of((self, output))
        weight = self.root**2
        y = (output - weight @ output / xp.maximum(weight.sum(), 1)) * self.root
        size = xp.sqrt(y @ y)
        return y / divisor(size), size

    def of_inputs(self, inputs: Any) -> "Design":
        """Return the design of some inputs, by their numbers or as a slice."""
        own = {name: getattr(self, name)[inputs] for name in self.OF_INPUTS}
        own |= {name: getattr(self, name)[:, inputs] for name in self.OF_ROWS}
        own |= {name: getattr(self, name)[inputs][:, inputs] for name in self.OF_PAIRS}
        return dataclasses.replace(self, gram=self.gram[inputs][:, :, inputs], **own)

    def with_inputs(self, places: Any, values: Any) -> "Design":
        """Return the design with new values, `[window place]`, for the inputs at some places."""
        places = np.asarray(places, int)
        knots = knots_of(values[self.root > 0], quantiles_of(self.width))
        new = design_of(values, self.root**2, knots)
        parts = self.OF_INPUTS + self.OF_ROWS
        own = {name: getattr(self, name).copy(order="K") for name in parts}
        for name in self.OF_INPUTS:
            own[name][places] = getattr(new, name)
        for name in self.OF_ROWS:
            own[name][:, places] = getattr(new, name)
        gram, norms = self.gram.copy(), self.norms.copy()
        rows = inner_products(new.features, own["features"])
        rows[np.arange(len(places)), :, places] += self.error * np.eye(self.width)[None]
        gram[places], gram[:, :, places] = rows, rows.transpose(2, 3, 0, 1)
        rows = _norms_of_products(new.inputs, own["inputs"], self.root)
        norms[places], norms[:, places] = rows, rows.T
        return dataclasses.replace(self, gram=gram, norms=norms, **own)

    def products(self, pairs: Any) -> tuple[Any, Any, Any]:
        """Return the centred products of two inputs, scaled to unit length, `[row pair]`, with
        their original means and lengths.

        - `pairs`: the two inputs of each, `[pair 2]`.
        """
        raw, mean = self.centred_products(pairs)
        xp = namespace_of(raw)
        size = divisor(xp.sqrt((raw**2).sum(0)))
        return raw / size[None], mean, size

    def centred_products(self, pairs: Any) -> tuple[Any, Any]:
        """Return the centred products of two inputs, `[row pair]`, and their means."""
        xp = namespace_of((self, pairs))
        weight = self.root**2
        raw = self.inputs[:, pairs[:, 0]] * self.inputs[:, pairs[:, 1]]
        mean = weight @ raw / xp.maximum(weight.sum(), 1)
        return (raw - mean[None]) * self.root[:, None], mean

    def inner_products_with_lines(self, pairs: Any) -> Any:
        """Return the inner products of all features with the linear features of both inputs of some
        pairs, `[input width pair 2]`, without the error variance.
        """
        xp = namespace_of((self, pairs))
        itself = np.arange(self.n_inputs)[:, None, None] == pairs[None]
        line = (np.arange(self.width) == 0)[None, :, None, None]
        error = xp.where(itself[:, None] & line, self.error, 0).astype(self.gram.dtype)
        return self.gram[:, :, pairs, 0] - error

    def along_products(self, residual: Any, some: Any = slice(None)) -> Any:
        """Return the inner products of the products of `some` inputs and all with a residual of
        weighted mean zero, `[some input]`.
        """
        inputs, weighted = self.inputs, self.root * residual
        if namespace_of((inputs, weighted)) is np:
            # Takes half the time, and is accurate enough for a ranking.
            inputs, weighted = (a.astype(np.float32) for a in (inputs, weighted))
        return inputs[:, some].T @ (weighted[:, None] * inputs)


class Rate(NamedTuple):
    """The rate of a target in the rows of a design, and the mean of the rate."""

    design: Design
    output: Any
    mean: float


def quantiles_of(width: int) -> tuple[float, ...]:
    """Return the quantiles for the knots of splines with `width` terms."""
    return QUANTILES if width == WIDTH else MANY_QUANTILES


def design_of(inputs: Any, weight: Any, knots: Any = None, error: Any = 0.0) -> Design:
    """Return the design of inputs `[window input]` with a weight for each window.

    - `knots`: knots of their splines, `[input knot]`; by default at quantiles of the inputs.
    - `error`: error variance of the features.

    **Raises:** `ValueError` for more inputs than fit into memory.

    ```python
    import numpy as np
    from ndde_jax import regression

    z = np.random.default_rng(0).normal(size=(200, 3))
    print(regression.design_of(z, np.ones(200)).features.shape)  # (200, 3, 6)
    ```
    """
    xp = namespace_of((inputs, weight))
    if xp is np:
        check_room(inputs.shape[1], len(inputs))
        # Column-major, because all further operations run along inputs.
        inputs, weight = (np.asarray(a, np.float64, order="F") for a in (inputs, weight))
    root = xp.sqrt(weight)
    if knots is None and xp is np:
        knots = knots_of(inputs[weight > 0])
    elif knots is None:
        at = jnp.asarray(QUANTILES, inputs.dtype)
        seen = jnp.where((weight > 0)[:, None], inputs, jnp.nan)
        knots = jnp.nan_to_num(jnp.nanquantile(seen, at, axis=0).T)
    mean, basis = _splines(inputs, knots, weight, root)
    gram = inner_products(basis.features, basis.features)
    if not isinstance(error, float) or error:
        eye = np.eye(basis.present.size, dtype=inputs.dtype)
        gram = gram + error * eye.reshape(gram.shape)
    return Design(
        inputs=inputs,
        root=root,
        knots=knots,
        mean=mean,
        **basis._asdict(),
        gram=gram,
        norms=_norms_of_products(inputs, inputs, root),
        error=error,
    )


def _splines(inputs: Any, knots: Any, weight: Any, root: Any) -> tuple[Any, "Basis"]:
    """Return the means of the spline terms of every input, `[input term]`, and their basis; large
    arrays are processed a few inputs at a time, so that they stay in the cache.
    """
    xp, (n, n_inputs) = namespace_of((inputs, knots, weight)), inputs.shape
    if xp is np and inputs.size > AT_A_TIME and n_inputs > 1:
        few = max(AT_A_TIME // n, 1)
        features = np.empty((n_inputs, knots.shape[1] - 1, n))
        rest = []
        for first in range(0, n_inputs, few):
            part = slice(first, first + few)
            mean, basis = _splines(inputs[:, part], knots[part], weight, root)
            features[part] = basis.features.transpose(1, 2, 0)
            rest.append((mean, basis.matrix, basis.present))
        mean, *basis = map(np.concatenate, zip(*rest, strict=True))
        return mean, Basis(features.transpose(2, 0, 1), *basis)
    terms = spline_columns(inputs, knots if xp is np else knots[None])
    total = xp.maximum(weight.sum(), 1)
    means = [weight @ term / total for term in terms]
    centred = ((term - m[None]) * root[:, None] for term, m in zip(terms, means, strict=True))
    return xp.stack(means, axis=-1), orthonormal(centred)


class Basis(NamedTuple):
    """The orthonormal features of every input, `[row input width]`, with the `matrix`,
    `[input term width]`, that transforms its terms into them, and which features are `present`.
    """

    features: Any
    matrix: Any
    present: Any


def orthonormal(terms: Iterable) -> Basis:
    """Return the orthonormal features of the centred terms of every input, `[row input]` each.

    Gram–Schmidt on all inputs at once, each step twice, which is as accurate as Householder
    reflections.
    """
    one: Any = None
    rows: list[Any] = []
    columns: list[Any] = []
    present: list[Any] = []
    terms = list(terms)
    for k, column in enumerate(terms):
        xp = namespace_of(column)
        size = xp.sqrt((column**2).sum(0))
        one = size if one is None else one
        there = (size > LEAST * one) & (size > 0)
        scale = xp.where(there, size, 1)
        column = column / scale[None]
        row = np.eye(len(terms), dtype=column.dtype)[k][None] / scale[:, None]
        for _ in range(2 if columns else 0):
            for other, before in zip(columns, rows, strict=True):
                along = (other * column).sum(0)
                column = column - along[None] * other
                row = row - along[:, None] * before
        left = xp.sqrt((column**2).sum(0))
        there = there & (left > REDUNDANT)
        scale = xp.where(there, left, 1)
        columns.append(xp.where(there[None], column / scale[None], 0))
        rows.append(xp.where(there[:, None], row / scale[:, None], 0))
        present.append(there)
    features = xp.stack([column.T for column in columns], axis=1).transpose(2, 0, 1)
    return Basis(features, xp.stack(rows, axis=-1), xp.stack(present, axis=-1))


def inner_products(some: Any, features: Any) -> Any:
    """Return the inner products of some features with others, `[some width input width]`."""
    n = some.shape[0]
    both = some.reshape(n, -1).T @ features.reshape(n, -1)
    return both.reshape(*some.shape[1:], *features.shape[1:])


def _norms_of_products(some: Any, inputs: Any, root: Any) -> Any:
    """Return the sums of squares of the centred products of each of `some` inputs with each of all
    inputs.
    """
    xp = namespace_of((some, inputs, root))
    weight = root**2
    total = xp.maximum(weight.sum(), 1)
    mean = some.T @ (weight[:, None] * inputs) / total
    square = (some**2).T @ (weight[:, None] * inputs**2)
    return square - total * mean**2
