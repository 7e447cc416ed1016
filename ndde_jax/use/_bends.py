"""Bends that a drift leaves out: what a curve may be besides what was fitted.

Where a bend is not worth its price an effect is fitted by a straight line, and models of halves of
the data are straight as well. That a bend was not worth its price does not say that there is none.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..regression._features import WIDTH, spline_terms
from ._ensemble import Basis, Ensemble, make_basis
from ._one_step import Quadrature, lead

# Prior standard deviations of a bend over the data, as shares of that of the rate, each as likely
# as the other. Smaller ones, or none, would smooth away bends that there are, and intervals would
# not hold those of one or two standard errors.
SIZES = (1 / 4, 1 / 2)
# Of the mean square of columns, against rounding.
RIDGE = 1e-9
# Of the distance of the outer knots, from which on two are apart.
APART = 1e-4
# Points at which the roughness of a bend is summed up.
POINTS = 200


@dataclasses.dataclass(frozen=True)
class Center:
    """What the centre of an ensemble explains of one target: columns of a basis that has no others,
    and a constant; `which` they are, and their means over steps, `[row column]`.
    """

    basis: Basis
    which: Int[np.ndarray, "column"]
    columns: Float[np.ndarray, "row column"]
    coefficients: Float[np.ndarray, "column"]


@dataclasses.dataclass(frozen=True)
class Left:
    """What the centre of an ensemble leaves of every step.

    - `histories`: at the start of the steps; `path`: quadrature points of them under the centre.
    - `centers`: one for each target.
    - `residual`: of the rates; `size`: standard deviations of the rates.
    """

    histories: Float[np.ndarray, "row lag dim"]
    path: Quadrature
    centers: list[Center]
    residual: Float[np.ndarray, "row target"]
    size: Float[np.ndarray, "target"]


def what_is_left(found: Any, ensemble: Ensemble, rates: Callable) -> Left:
    """Return what the centre of an ensemble leaves of every step; `rates` are those of the learned
    model as a function of histories.
    """
    rows, dt, basis = ensemble.rows, float(found.dt), ensemble.basis

    def drift(z):
        return rates(z) * ensemble.trust[None] + basis(z) @ ensemble.center.T

    path, mean = lead(drift, rows, found.lags, dt, ensemble.step)
    rate, constant = (rows.next - rows.now) / dt, np.arange(len(basis.kind)) == 0
    centers = []
    for coefficients in ensemble.center:
        used = (coefficients != 0) | constant
        small, place = basis.part(np.flatnonzero(used))
        which = np.flatnonzero(used[place])
        centers.append(Center(small, which, path.mean(small)[:, which], coefficients[used]))
    return Left(rows.start, path, centers, rate - mean, rate.std(axis=0))


@dataclasses.dataclass(frozen=True)
class Bend:
    """What one edge may bend beyond its curve: a rate for every coefficient, `[row bend]`.

    - `basis`: of the inputs of the edge; `weight`: of its columns in each bend.
    - `center`: what the centre explains; `adapts`: how its coefficients change with each bend.
    - `mean`, `covariance`: of the coefficients of the bends.
    """

    basis: Basis
    weight: Float[np.ndarray, "feature bend"]
    center: Center
    adapts: Float[np.ndarray, "column bend"]
    mean: Float[np.ndarray, "bend"]
    covariance: Float[np.ndarray, "bend bend"]

    def __call__(self, histories: np.ndarray) -> Float[np.ndarray, "row bend"]:
        """Return the rates of one of each coefficient."""
        center = np.asarray(self.center.basis(histories))[:, self.center.which]
        return np.asarray(self.basis(histories)) @ self.weight - center @ self.adapts

    def of(self, values: Float[np.ndarray, "bend *point"]) -> tuple[Any, Any]:
        """Return the mean and the variance of what is linear in the coefficients, `[*point]`, from
        its values for one of each.
        """
        return self.mean @ values, np.einsum("a...,ab,b...->...", values, self.covariance, values)


def find_bend(left: Left, target: int, source: int, lags: Bool[np.ndarray, "lag"]) -> Bend:
    """Return what an edge may bend, given the data.

    Coefficients of the bends of a restricted cubic spline, the columns of the centre adapting, are
    normal beforehand, rough bends less likely than smooth ones by the integral of their squared
    second derivative, as of a smoothing spline (Wahba, *JRSS B* 45 (1983), 133); their size is one
    of `SIZES`, weighed by how well each explains what is left. Errors hold for changing variances
    (White, 1982).

    - `lags`: at which the source is read for the edge.
    """
    center, inputs = left.centers[target], np.flatnonzero(lags) * len(left.size) + source
    basis = make_basis(left.histories, inputs, [])
    terms, residual = left.path.mean(basis), left.residual[:, target]
    weight, line = np.zeros((len(basis.kind), WIDTH - 1)), np.zeros(len(basis.kind))
    for k, share in enumerate(_shares(center, residual, terms[:, 1::WIDTH])):
        line[1 + k * WIDTH] = share
        weight[2 + k * WIDTH : 1 + (k + 1) * WIDTH] = share * np.eye(WIDTH - 1)
    # A straight line is no bend, whether the centre has one or not.
    known, bends = np.column_stack([center.columns, terms @ line]), terms @ weight
    fitted = np.linalg.lstsq(known, bends, rcond=None)[0]
    *_, own = fitted
    posterior = np.zeros(WIDTH - 1), np.zeros((WIDTH - 1, WIDTH - 1))
    if _values(basis) > 2:
        beyond, even = bends - known @ fitted, residual - residual.mean()
        posterior = _posterior(beyond, even, _roughness(basis), float(left.size[target]))
    return Bend(basis, weight - np.outer(line, own), center, fitted[:-1], *posterior)


def _values(basis: Basis) -> int:
    """Return how many knots of the first input are apart: a variable of two values has no bend."""
    knots = np.asarray(basis.knots[0])
    return 1 + int(np.sum(np.diff(knots) > APART * (knots[-1] - knots[0])))


def _shares(
    center: Center, residual: Float[np.ndarray, "row"], lines: Float[np.ndarray, "row input"]
) -> Float[np.ndarray, "input"]:
    """Return the share of each input of an edge in its effect: all of one; of several, between
    which a delay lies, in proportion to straight lines through what they explain.
    """
    n = lines.shape[1]
    if n == 1:
        return np.ones(1)
    rate = residual + center.columns @ center.coefficients
    columns = np.concatenate([center.columns, lines], axis=1)
    # Lines that the centre has already share its coefficients.
    found = np.linalg.lstsq(columns, rate, rcond=None)[0]
    size = np.abs(found[-n:])
    return size / size.sum() if size.sum() > 0 else np.full(n, 1 / n)


def _roughness(basis: Basis) -> np.ndarray:
    """Return integrals of products of second derivatives of the bends of the first input."""
    knots = np.asarray(basis.knots[0])
    z = np.linspace(knots[0], knots[-1], POINTS)
    apart = z[1] - z[0]
    second = np.diff(spline_terms(z, knots)[:, 1:], n=2, axis=0) / apart**2
    return _held(second.T @ second * apart)


def _held(gram: np.ndarray) -> np.ndarray:
    """Return a matrix of inner products that has an inverse in spite of rounding."""
    return gram + RIDGE * max(np.trace(gram) / len(gram), 1e-300) * np.eye(len(gram))


def _posterior(
    columns: Float[np.ndarray, "row bend"],
    residual: Float[np.ndarray, "row"],
    roughness: Float[np.ndarray, "bend bend"],
    size: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of the coefficients of columns that explain a residual,
    averaged over priors; `size` is the standard deviation of the rate.
    """
    inverse = np.linalg.inv(_held(columns.T @ columns))
    estimate = inverse @ (columns.T @ residual)
    influence = columns * residual[:, None]
    error = _held(inverse @ (influence.T @ influence) @ inverse)
    prior = np.linalg.inv(roughness)
    # The mean square of a bend over the data, of one unit of the prior.
    square = np.einsum("na,ab,nb->", columns, prior, columns) / len(columns)
    means, spreads, nats = [], [], []
    for scale in (np.asarray(SIZES) * size) ** 2 / square:
        total = scale * prior + error
        gain = np.linalg.solve(total, scale * prior).T
        means.append(gain @ estimate)
        spreads.append(scale * (prior - gain @ prior))
        distance = estimate @ np.linalg.solve(total, estimate)
        nats.append(-(np.linalg.slogdet(total)[1] + distance) / 2)
    weight = np.exp(np.array(nats) - max(nats))
    weight /= weight.sum()
    mean = weight @ means
    apart = np.array(means) - mean
    return mean, np.tensordot(weight, spreads, axes=1) + (weight * apart.T) @ apart
