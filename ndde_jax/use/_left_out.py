"""The effects that a fitted drift omits, so that intervals include them.

- Curvature: if it is not worth its price, an effect is fitted by a straight line, also on halves
    of the data. That does not mean that there is none.
- Delays between the candidate lags, which a drift reads at the nearest candidate.
- The other reading of a record that may come from a map or a flow.
- The bias of the estimator, which a parametric bootstrap shows on a known drift: the learned one.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int

from .._memory import padded_length
from ..models._model import NeuralDDE
from ..regression._design import WIDTH, spline_terms
from ..samples._reading import read_samples
from ..samples._samples import Samples
from ..select._between import NEAREST, Record, fewest_windows
from ..select._measured import fit_splines
from ..select._midpoint import at_midpoints, read_steps
from ..simulate._solve import solve_sdde
from ..windows._windows import KnownData, lagged_windows
from ._arguments import edges_of_inputs
from ._ensemble import (
    Basis,
    Ensemble,
    center_drift,
    given_inputs,
    histories_of,
    make_basis,
    rates_of,
)
from ._one_step import Quadrature, quadrature, samples_of

# ---- curvature ----


# Prior standard deviations of curvature over the data, as shares of that of the rate, with equal
# prior probability. Smaller ones, or none, would smooth away real curvature, and intervals would
# not include that of one or two standard errors.
SIZES = (1 / 4, 1 / 2)
# Of the mean square of columns, against rounding.
TINY = 1e-9
# Share of the distance of the outer knots above which two knots are distinct.
APART = 1e-4
# Points for the integral of the roughness of curvature.
POINTS = 200


@dataclasses.dataclass(frozen=True, eq=False)
class Center:
    """The part of a target that an ensemble's centre explains: the columns in use (`which`) of a
    reduced basis, with a constant, and their means over steps, `[row column]`.
    """

    basis: Basis
    which: Int[np.ndarray, "column"]
    columns: Float[np.ndarray, "row column"]
    coefficients: Float[np.ndarray, "column"]


@dataclasses.dataclass(frozen=True, eq=False)
class CenterResiduals:
    """The residuals of the centre of an ensemble.

    - `histories`: histories at the start of the steps; `path`: their quadrature points under the
        centre.
    - `centers`: one per target.
    - `residual`: residuals of the rates; `size`: standard deviations of the rates.
    """

    histories: Float[np.ndarray, "row lag dim"]
    path: Quadrature
    centers: list[Center]
    residual: Float[np.ndarray, "row target"]
    size: Float[np.ndarray, "target"]


def residuals_of(found: Any, ensemble: Ensemble) -> CenterResiduals:
    """Return the residuals of the centre of an ensemble."""
    rows, dt, basis = ensemble.rows, float(found.dt), ensemble.basis
    drift = center_drift(rates_of(found.model), ensemble.trust, basis, ensemble.center)
    given = given_inputs(found, ensemble.inputs)
    path, mean = quadrature(drift, rows, found.lags, dt, ensemble.step, given)
    rate, constant = (rows.next - rows.now) / dt, np.arange(len(basis.kind)) == 0
    centers = []
    for coefficients in ensemble.center:
        used = (coefficients != 0) | constant
        small, place = basis.part(np.flatnonzero(used))
        which = np.flatnonzero(used[place])
        centers.append(Center(small, which, path.mean(small)[:, which], coefficients[used]))
    return CenterResiduals(rows.start, path, centers, rate - mean, rate.std(axis=0))


@dataclasses.dataclass(frozen=True, eq=False)
class Curvature:
    """The possible curvature of an edge beyond its curve: a rate per term, `[row term]`.

    - `basis`: basis of the inputs of the edge; `weight`: weights of its columns in each term.
    - `center`: what the centre explains; `adapts`: changes of its coefficients with each term.
    - `mean`, `covariance`: moments of the coefficients of the terms.
    """

    basis: Basis
    weight: Float[np.ndarray, "feature term"]
    center: Center
    adapts: Float[np.ndarray, "column term"]
    mean: Float[np.ndarray, "term"]
    covariance: Float[np.ndarray, "term term"]

    def __call__(self, histories: np.ndarray) -> Float[np.ndarray, "row term"]:
        """Return the rates for one unit of each coefficient."""
        center = np.asarray(self.center.basis(histories))[:, self.center.which]
        return np.asarray(self.basis(histories)) @ self.weight - center @ self.adapts

    def of(self, values: Float[np.ndarray, "term *point"]) -> tuple[Any, Any]:
        """Return the mean and variance of a quantity linear in the coefficients, `[*point]`, from
        its values for one unit of each.
        """
        return self.mean @ values, np.einsum("a...,ab,b...->...", values, self.covariance, values)


def find_curvature(
    left: CenterResiduals, target: int, source: int, lags: Bool[np.ndarray, "lag"]
) -> Curvature:
    """Return the possible curvature of an edge, given the data.

    Coefficients of the curved terms of a restricted cubic spline are normal a priori, while the
    columns of the centre adapt. Rough curves are less likely than smooth ones by the integral of
    their squared second derivative, as in a smoothing spline (Wahba, *JRSS B* 45 (1983), 133).
    Their size is one of `SIZES`, weighted by how well each explains the residuals. Errors are valid
    for changing variances (White, 1982).

    - `lags`: lags at which the source is read for the edge.
    """
    center, inputs = left.centers[target], np.flatnonzero(lags) * len(left.size) + source
    basis = make_basis(left.histories, inputs, [])
    terms, residual = left.path.mean(basis), left.residual[:, target]
    weight, line = np.zeros((len(basis.kind), WIDTH - 1)), np.zeros(len(basis.kind))
    for k, share in enumerate(_shares(center, residual, terms[:, 1::WIDTH])):
        line[1 + k * WIDTH] = share
        weight[2 + k * WIDTH : 1 + (k + 1) * WIDTH] = share * np.eye(WIDTH - 1)
    # A straight line is no curvature, whether the centre has one or not.
    known, curves = np.column_stack([center.columns, terms @ line]), terms @ weight
    fitted = np.linalg.lstsq(known, curves, rcond=None)[0]
    *_, own = fitted
    posterior = np.zeros(WIDTH - 1), np.zeros((WIDTH - 1, WIDTH - 1))
    if _values(basis) > 2:
        beyond, even = curves - known @ fitted, residual - residual.mean()
        posterior = _posterior(beyond, even, _roughness(basis), float(left.size[target]))
    return Curvature(basis, weight - np.outer(line, own), center, fitted[:-1], *posterior)


def _values(basis: Basis) -> int:
    """Return the number of distinct knots of the first input; with two values, none is curved."""
    knots = np.asarray(basis.knots[0])
    return 1 + int(np.sum(np.diff(knots) > APART * (knots[-1] - knots[0])))


def _shares(
    center: Center, residual: Float[np.ndarray, "row"], lines: Float[np.ndarray, "row input"]
) -> Float[np.ndarray, "input"]:
    """Return the share of each input in the effect of an edge: 1 for a single input; for several,
    between which a delay lies, in proportion to the straight lines that they explain.
    """
    n = lines.shape[1]
    if n == 1:
        return np.ones(1)
    rate = residual + center.columns @ center.coefficients
    columns = np.concatenate([center.columns, lines], axis=1)
    # Lines that the centre already contains share its coefficients.
    found = np.linalg.lstsq(columns, rate, rcond=None)[0]
    size = np.abs(found[-n:])
    return size / size.sum() if size.sum() > 0 else np.full(n, 1 / n)


def _roughness(basis: Basis) -> np.ndarray:
    """Return integrals of products of second derivatives of the curved terms of the first input."""
    knots = np.asarray(basis.knots[0])
    z = np.linspace(knots[0], knots[-1], POINTS)
    apart = z[1] - z[0]
    second = np.diff(spline_terms(z, knots)[:, 1:], n=2, axis=0) / apart**2
    return _regularised(second.T @ second * apart)


def _regularised(gram: np.ndarray, share: float = TINY) -> np.ndarray:
    """Return a matrix of inner products, made invertible in spite of rounding."""
    return gram + share * max(np.trace(gram) / len(gram), 1e-300) * np.eye(len(gram))


def _posterior(
    columns: Float[np.ndarray, "row term"],
    residual: Float[np.ndarray, "row"],
    roughness: Float[np.ndarray, "term term"],
    size: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the covariance of the coefficients of columns that explain a residual,
    averaged over priors; `size` is the standard deviation of the rate.
    """
    inverse = np.linalg.inv(_regularised(columns.T @ columns))
    estimate = inverse @ (columns.T @ residual)
    influence = columns * residual[:, None]
    error = _regularised(inverse @ (influence.T @ influence) @ inverse)
    prior = np.linalg.inv(roughness)
    # The mean square of curvature over the data, per unit of the prior.
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


# ---- delays between the candidate lags ----


def missed_by_lags(found: Any) -> Float[np.ndarray, "source target lag"]:
    """Return by how much slopes are larger if sources are read at their estimated delays instead of
    the candidate lags that the drift reads; from straight lines, and 0 for targets without such a
    delay.

    A delay near a candidate is read there, since no criterion requires another input. Half a sample
    away, however, a noise-driven path already differs, and the slope is too small.
    """
    graph, reads = np.asarray(found.graph), np.asarray(found.reads)
    shift, windows, dt = np.zeros(graph.shape), found.windows, float(found.dt)
    delays = np.nan_to_num(np.asarray(found.delays) / dt)
    between = found.delay_resolved & (delays > NEAREST)
    data = KnownData(windows)
    if windows.scheme != "midpoint" or found.events or data.refused or not between.any():
        return shift
    record, edge = Record.of(found.samples, windows), edges_of_inputs(found)
    scale = np.asarray(windows.scaling.scale, float)
    rate_scale = np.asarray(windows.scaling.rate_scale, float)
    for target in map(int, np.flatnonzero(between.any(axis=(0, 2)))):
        source, lag = np.nonzero(reads[:, target])
        inputs, edges = data.inputs[:, lag * data.dim + source], edge[source, target, lag]
        late, kept = np.argwhere(between[:, target]), ~between[source, target, edges]
        read = [record.at(int(i), float(delays[i, target, a]), target) for i, a in late]
        at_lags = inputs, np.stack([source, edges])
        of = np.concatenate([late.T, at_lags[1][:, kept]], axis=1)
        at_delays = np.column_stack([*read, inputs[:, kept]]), of
        seen = np.isfinite(at_delays[0]).all(axis=1) & (data.weight > 0)
        if seen.sum() < fewest_windows(len(source) + len(late)):
            continue
        root, rate = np.sqrt(data.weight[seen]), data.outputs[seen, target]
        for sign, (columns, of) in ((-1, at_lags), (1, at_delays)):
            design = root[:, None] * np.column_stack([np.ones(len(root)), columns[seen]])
            slopes = np.linalg.lstsq(design, root * rate, rcond=None)[0][1:]
            np.add.at(shift[:, target], tuple(of), sign * slopes)
    return shift * (rate_scale[None] / scale[:, None])[..., None]


# ---- the other reading ----


def refitted(found: Any, samples: Samples, scheme: str) -> NeuralDDE:
    """Return splines on the graph of a discovery, fitted to other samples like its own, with rates
    of a scheme.
    """
    if scheme != "midpoint":
        return fit_splines(lagged_windows(samples, lags=found.lags, scheme=scheme), found.reads)
    steps = read_steps(samples, lags=found.lags)
    model = fit_splines(at_midpoints(steps), found.reads)
    for _ in range(found.recipe.passes - 1):
        model = fit_splines(steps.corrected_by(model), found.reads)
    return model


@dataclasses.dataclass(frozen=True, eq=False)
class AlternativeReading:
    """The other reading of a record that is undecided between a map and a flow.

    - `models`: the drift of that reading, on the same graph; none for a decided record.
    - `probability`: its probability.
    """

    models: tuple[NeuralDDE, ...]
    probability: float


def alternative_reading(found: Any) -> AlternativeReading:
    """Return the other reading of an undecided discovery: as a flow if it reads its samples as a
    map, and vice versa.

    A rate over a step is a mean, so the slopes of a map are smaller than those of the equivalent
    flow.
    """
    schemes, own = {"euler": "midpoint", "midpoint": "euler"}, found.windows.scheme
    decided = found.reading != "undecided" or not np.isfinite(found.evidence)
    if decided or own not in schemes or found.events or not found.samples.regular:
        return AlternativeReading((), 0.0)
    flow = 1 / (1 + np.exp(-found.evidence))
    other = refitted(found, samples_of(found), schemes[own])
    return AlternativeReading((other,), float(flow if own == "euler" else 1 - flow))


# ---- the bias of the estimator ----


# Two distinguish a bias from chance well enough; remaining chance only widens intervals.
REPLICATES = 2
# Length of a short recording, in units of the past that the drift reads.
STRETCH = 4
# Simulation steps per sample, most samples of a replicate, and most values of all its variables.
FINE, LONGEST, MOST_VALUES = 4, 4000, 40_000
# A replicate whose standard deviations differ from those of the data by more than this factor
# occupies other states, and says nothing about these data.
ALIKE = 2.0
# Of the mean square of columns, against rounding.
RIDGE = 1e-6


def make_replicates(found: Any, ensemble: Ensemble) -> tuple[NeuralDDE, ...]:
    """Return the replicates of a parametric bootstrap: models fitted to simulated records of the
    learned system, with its noise and measurement error, from the first complete past on, or in
    stretches along the data. They are sampled, differenced and fitted on its graph like the data.

    Their difference from the learned drift estimates that of the learned from the true drift, from
    all causes other than the length of the record: coarse sampling, errors in the inputs, smoothed
    curves. Networks are replaced by splines.

    Empty for what the learned system cannot simulate (known inputs, passing events), and for
    irregular sampling.
    """
    if found.inputs or found.events or not found.samples.regular:
        return ()
    record = max(samples_of(found).values, key=len)
    past = found.lags[-1] + 1
    # Simulated freely, the learned system may settle away from the data. It is then restarted all
    # along the data.
    for simulated in (_long_runs, _stretches):
        made = [x for x in simulated(found, ensemble, record, past) if _similar(x, record)]
        if made:
            break
    dt, scheme = float(found.dt), found.windows.scheme
    return tuple(refitted(found, read_samples(list(x), dt=dt), scheme) for x in made)


def _run(found: Any, ensemble: Ensemble, start: Any, n: int, key: Any) -> Any:
    """Return `n` samples of the learned system after a start, `[n dim]`."""
    dt, dtype = float(found.dt), found.model.dt.dtype
    # A map moves from sample to sample, with no states between.
    fine = FINE if found.moves_between_samples else 1
    sigma = jnp.asarray(ensemble.noise.factor / np.sqrt(dt), dtype)
    given = dict(history=jnp.asarray(start, dtype), sigma=sigma, key=key, save_every=fine)
    return solve_sdde(found.model, dt=dt / fine, n_steps=n * fine, **given).ys[1:]


def _measured(ensemble: Ensemble, k: int, x: np.ndarray) -> np.ndarray:
    return x + np.random.default_rng(k).normal(size=x.shape) * ensemble.noise.error


def _long_runs(found: Any, ensemble: Ensemble, record: np.ndarray, past: int) -> list[np.ndarray]:
    """Return one recording per bootstrap model, `[1 time dim]`, from the first complete past on."""
    there = np.isfinite(record).all(axis=1)
    starts = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(there, past).all(axis=1))
    if not len(starts):
        return []
    start = np.asarray(record[starts[0] : starts[0] + past], np.float64)
    n = min(len(record), LONGEST, max(MOST_VALUES // len(found.names), 4 * past)) - 1
    # One of a few lengths, since every length compiles again.
    long = padded_length(n)
    keys = map(jr.key, range(REPLICATES))
    runs = (np.asarray(_run(found, ensemble, start, long, key))[:n] for key in keys)
    return [_measured(ensemble, k, x.astype(np.float64))[None] for k, x in enumerate(runs)]


def _stretches(found: Any, ensemble: Ensemble, record: np.ndarray, past: int) -> list[np.ndarray]:
    """Return many short recordings per bootstrap model, `[stretch time dim]`, that start from pasts
    of the record.
    """
    record, length = np.asarray(record, np.float64), STRETCH * past
    most = max(MOST_VALUES // (length * record.shape[1]), 1)
    first = np.arange(0, len(record) - past, length)
    first = first[np.unique(np.linspace(0, len(first) - 1, most).astype(int))]
    starts = record[first[:, None] + np.arange(past)[None]]
    starts = starts[np.isfinite(starts).all(axis=(1, 2))]
    if not len(starts):
        return []
    keys = jr.split(jr.key(0), (REPLICATES, len(starts)))
    go_on = jax.vmap(lambda start, key: _run(found, ensemble, start, length, key))
    made = []
    for k in range(REPLICATES):
        new = np.asarray(go_on(jnp.asarray(starts, found.model.dt.dtype), keys[k]), np.float64)
        made.append(np.concatenate([starts, _measured(ensemble, k, new)], axis=1))
    return made


def _similar(x: np.ndarray, record: np.ndarray) -> bool:
    if not np.isfinite(x).all():
        return False
    ratio = x.std(axis=(0, 1)) / np.maximum(np.nanstd(record, axis=0), 1e-300)
    return bool(((ratio > 1 / ALIKE) & (ratio < ALIKE)).all())


def spread_by_replicates(
    found: Any, ensemble: Ensemble, replicates: tuple[NeuralDDE, ...]
) -> Ensemble:
    """Return the ensemble with members that also differ by the bias of estimation: each adds the
    mean difference of the bootstrap models from the learned drift, as far as the columns of the
    ensemble can express it, times a standard normal number of its own.
    """
    from scipy.special import ndtri

    if not replicates:
        return ensemble
    histories = histories_of(ensemble)
    bias = np.mean([rates_of(replicate)(histories) for replicate in replicates], axis=0)
    bias = bias - rates_of(found.model)(histories)
    features, theta = ensemble.basis(histories), ensemble.theta.copy()
    number = ndtri((np.arange(len(theta)) + 0.5) / len(theta))
    number = np.random.default_rng(0).permutation(number)
    for j in range(theta.shape[1]):
        used = (theta[:, j] != 0).any(axis=0) | (ensemble.center[j] != 0)
        if used.any():
            some = features[:, used]
            weights = np.linalg.solve(_regularised(some.T @ some, RIDGE), some.T @ bias[:, j])
            theta[:, j, used] += number[:, None] * weights[None]
    return dataclasses.replace(ensemble, theta=theta)
