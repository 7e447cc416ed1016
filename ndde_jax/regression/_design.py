"""The design that regressions of all rates on the same inputs share: of each input a straight line
and the bends of a restricted cubic spline, and products of lines.

In NumPy for windows that are known, since a program would be compiled for every length; in JAX, by
the same lines, where they are traced.
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
# Terms of a spline: the input itself first.
WIDTH = len(QUANTILES) - 1
# Knots for records without noise, whose splines err by their own bends and by nothing else: what
# seven miss of a steep law, other lags would make up for.
MANY_QUANTILES = tuple(np.linspace(0.02, 0.98, 21).tolist())
# Squared error of a neighbour's guess, relative to a step, below which a path is smooth.
SMOOTH = 0.25
# Squared error of cubics, relative to that of lines, below which a path clearly bends.
BENT = 0.5


def knots_of(
    values: Float[np.ndarray, "sample *input"], quantiles: tuple[float, ...] = QUANTILES
) -> Float[np.ndarray, "*input knot"]:
    """Return the knots of each input, quantiles of its values."""
    if not len(values):
        return np.zeros((*values.shape[1:], len(quantiles)))
    return np.moveaxis(np.quantile(values, quantiles, axis=0), 0, -1)


def spline_terms(
    z: Float[Array | np.ndarray, "*input"], knots: Float[Array | np.ndarray, "*known knot"]
) -> Float[Array | np.ndarray, "*input term"]:
    """Return the terms of a restricted cubic spline of every input; the first is the input itself.

    Linear beyond the outer knots, so that rare extremes have no leverage (Harrell, 2015, equation
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
    # Several times as quick as a power.
    *cubes, before, last = [u * u * u for u in beyond]
    curved = [
        cube
        - before * (knots[..., -1] - knots[..., k]) / wide
        + last * (knots[..., -2] - knots[..., k]) / wide
        for k, cube in enumerate(cubes)
    ]
    return [z, *curved]


# ---- the design ----


# Weights of the mean of both samples one, three and five steps away in a guess of the sample
# between them: on a line, a cubic, a quintic. The line's second makes it err at the same samples.
GUESSES = ((1.0, 0.0), (9 / 8, -1 / 8), (75 / 64, -25 / 128, 3 / 128))


class Between(NamedTuple):
    """The mean squared errors of guesses of a sample from its neighbours, relative to the mean
    square of a step, `[dim]`: on `lines`, `cubics` and `quintics` through every other sample.

    Lines err by a half on a path whose steps do not depend on one another, and the others by more.
    """

    lines: Float[np.ndarray, " dim"]
    cubics: Float[np.ndarray, " dim"]
    quintics: Float[np.ndarray, " dim"]

    @classmethod
    def of(cls, recordings: list[np.ndarray]) -> "Between":
        """Return the errors in recordings, each `[time dim]`, NaN where missing."""
        errors, steps = np.zeros((2, len(GUESSES), recordings[0].shape[1]))
        for x in recordings:
            for k, weights in enumerate(GUESSES):
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
        """The variables of which lines tell as much as cubics, as of paths that noise drives."""
        return self.lines <= self.cubics

    @property
    def bent(self) -> Bool[np.ndarray, " dim"]:
        """The variables whose path clearly bends between samples: cubics err half as much."""
        return self.cubics < BENT * self.lines

    @property
    def least(self) -> Float[np.ndarray, " dim"]:
        """The error of whichever guess is best for a variable."""
        return np.minimum.reduce(self)

    @property
    def smooth(self) -> bool:
        """Whether all paths hardly leap: neighbours tell a sample at half the error and less of
        steps that do not depend on one another.
        """
        return bool(np.all(np.minimum(self.lines, self.cubics) < SMOOTH))


# Of the size of a term beside that of the variable itself: less is rounding in single precision,
# as where knots coincide.
LEAST = 1e-5
# Of the size of a term beside the terms before it: less is redundant.
REDUNDANT = 1e-4
# Numbers of inputs whose splines are made at a time: a megabyte, which caches hold.
AT_A_TIME = 2**17


# Arrays of the size of `gram`, and of `features`, that a search holds at a time. Measured from 300
# to 900 inputs and from 1500 to 6000 windows.
GRAMS, FEATURES = 3, 2


def check_room(n_inputs: int, n_windows: int, grams: int = GRAMS, features: int = FEATURES) -> None:
    """Raise an error for inputs whose inner products do not fit into the memory of this machine.

    - `grams`, `features`: how many arrays of the size of those of a design are held at a time.

    **Raises:** `ValueError` that says how much they take, and what to do.
    """
    terms, memory = n_inputs * WIDTH, machine_memory()
    needed = 8.0 * terms * (grams * terms + features * n_windows)
    if needed > memory:
        raise ValueError(
            f"{n_inputs} candidate inputs (variables × lags) in {n_windows} windows take about "
            f"{needed / 1e9:.2g} GB; this machine has {memory / 1e9:.2g} GB. Choose fewer lags, "
            "such as every tenth, range(0, 1001, 10), or fewer variables."
        )


# Plain dataclasses: searches read attributes of a design ten thousand times, and those of an
# `eqx.Module` take microseconds.
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Design:
    """The splines of every input, orthonormal within each, and their inner products.

    - `inputs`: standardised values, `[window input]`.
    - `root`: root of the weight of each window, `[window]`; rows are multiplied by it.
    - `features`: columns of weighted mean zero, `[window input width]`, the straight line first,
        zeros where redundant; they are (terms at the `knots` − `mean`) @ `matrix`.
    - `gram`: their inner products, `[input width input width]`.
    - `present`: which of them are not redundant, `[input width]`.
    - `norms`: sum of squares of every centred product of two inputs, `[input input]`.
    - `error`: variance of errors of the features, of which the inner product of each with itself
        has that much more.
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
    # Which of these have inputs on their first axis, after the rows, and on both axes.
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
        """The number of windows that count."""
        return (self.root > 0).sum().astype(self.root.dtype)

    def standardised(self, output: Any) -> tuple[Any, Any]:
        """Return a rate as regressions use it, of weighted mean 0 and length 1, `[window]`, and its
        length before.
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
        """Return the design with other values, `[window place]`, of the inputs at some places."""
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
        """Return the centred products of two inputs, of unit length, `[row pair]`, with their means
        and lengths before.

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
        """Return the inner products of all features with the straight lines of both inputs of some
        pairs, `[input width pair 2]`, without errors.
        """
        xp = namespace_of((self, pairs))
        itself = np.arange(self.n_inputs)[:, None, None] == pairs[None]
        line = (np.arange(self.width) == 0)[None, :, None, None]
        error = xp.where(itself[:, None] & line, self.error, 0).astype(self.gram.dtype)
        return self.gram[:, :, pairs, 0] - error

    def along_products(self, residual: Any) -> Any:
        """Return the inner product of the product of every two inputs with a residual of weighted
        mean zero, `[input input]`.
        """
        inputs, weighted = self.inputs, self.root * residual
        if namespace_of((inputs, weighted)) is np:
            # In half the time, and as good for a ranking.
            inputs, weighted = (a.astype(np.float32) for a in (inputs, weighted))
        return inputs.T @ (weighted[:, None] * inputs)


class Rate(NamedTuple):
    """The rate of a target in the rows of a design, and its mean."""

    design: Design
    output: Any
    mean: float


def quantiles_of(width: int) -> tuple[float, ...]:
    """Return the quantiles that are the knots of splines with so many terms."""
    return QUANTILES if width == WIDTH else MANY_QUANTILES


def design_of(inputs: Any, weight: Any, knots: Any = None, error: Any = 0.0) -> Design:
    """Return the design of inputs `[window input]` with a weight for each window.

    - `knots`: of their splines, `[input knot]`; by default at quantiles of the inputs.
    - `error`: variance of errors of the features.

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
        # One input after the other in memory, which all that follows runs along.
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
    """Return the means of the spline terms of every input, `[input term]`, and their basis; a few
    inputs at a time where there are many numbers, which then stay close to the processor.
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
    `[input term width]`, that makes them of its terms, and which are `present`.
    """

    features: Any
    matrix: Any
    present: Any


def orthonormal(terms: Iterable) -> Basis:
    """Return the orthonormal features of the centred terms of every input, `[row input]` each.

    Gram–Schmidt on all inputs at once, each step twice, which is as good as reflections.
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
    """Return the sum of squares of every centred product of one of `some` inputs with one of
    all.
    """
    xp = namespace_of((some, inputs, root))
    weight = root**2
    total = xp.maximum(weight.sum(), 1)
    mean = some.T @ (weight[:, None] * inputs) / total
    square = (some**2).T @ (weight[:, None] * inputs**2)
    return square - total * mean**2
