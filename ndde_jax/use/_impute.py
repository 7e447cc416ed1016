"""Imputation by the learned system: the most likely path, given all measurements.

A learned system predicts every sample from earlier ones, up to noise. Missing values are estimated
by minimising the residuals of all these equations, in units of the noise. This is a sparse problem
of nonlinear least squares, in which a value enters as present, past and next state (weak-constraint
four-dimensional variational assimilation; Trémolet, *QJRMS* 132 (2006), 2483).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._checks import check_key, check_whole
from .._types import Checked
from ..samples._gaps import linearly_interpolated
from ..samples._samples import ESTIMATES, Samples, in_measured_units, named, treated
from ._ensemble import Ensemble, generator, in_precision, relative_amplitude
from ._simulate import Steps, make_steps, no_change

IMPUTE = ESTIMATES[-1]
# Rows whose derivatives are computed together: one shape for all gaps of all records.
ROWS = 256
# Least noise, as a share of the standard deviation of a step, since no equation is known better.
LEAST_NOISE = 1e-4
# Mean squared residual of a stretch's equations, in units of the noise. Above the first value,
# standard errors are enlarged by its root; above the second, the path is not one of this system.
STRAINED, MISFIT = 4.0, 100.0
# Gauss-Newton with Levenberg-Marquardt damping: most steps, and when a stretch has converged.
STEPS, SETTLED, LEAST_GAIN = 40, 1e-5, 1e-7
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8
# Unknown values of a stretch up to which their covariance is inverted; beyond, standard errors come
# from so many draws.
DENSE, DRAWN = 1500, 200
# Longest stretch, in samples, that is simulated for a first guess, and standard deviations beyond
# which simulated values are not used.
FOLLOWED, WILD = 1000, 10.0

# The next states after pasts `[row offset dim]`, and their derivatives: `[row dim]`,
# `[row dim offset dim]`.
Law = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """The known part of an imputation; recordings are concatenated along `sample`.

    - `x`: values, with a first guess where unknown, and NaN where they stay missing.
    - `unknown`: the values to estimate.
    - `rows`: samples from which a step to the next reads only measured or unknown values.
    - `offsets`: offsets of the samples that the law reads, counted back from the present, from 0.
    - `white`: whitening matrices of the residuals of each step, `[row dim dim]`.
    - `center`, `scale`: centre and scale of each variable; the prior of unknown values to which no
        step in `rows` leads, such as the first of a record.
    - `part`: recording of each sample.
    """

    x: Float[np.ndarray, "sample dim"]
    unknown: Bool[np.ndarray, "sample dim"]
    rows: Int[np.ndarray, "row"]
    offsets: tuple[int, ...]
    white: Float[np.ndarray, "row dim dim"]
    center: Float[np.ndarray, "dim"]
    scale: Float[np.ndarray, "dim"]
    part: Int[np.ndarray, "sample"]

    @functools.cached_property
    def sample(self) -> Int[np.ndarray, "value"]:
        """The sample of each unknown value."""
        return np.nonzero(self.unknown)[0]

    @functools.cached_property
    def column(self) -> Int[np.ndarray, "value"]:
        """The variable of each unknown value."""
        return np.nonzero(self.unknown)[1]

    @functools.cached_property
    def group(self) -> Int[np.ndarray, "value"]:
        """The stretch of each unknown value."""
        return stretches(self.unknown, self.part, self.offsets[-1])

    @property
    def count(self) -> int:
        """The number of stretches."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def ends(self) -> Int[np.ndarray, "end group"]:
        """The first and the last sample of each stretch."""
        numbers = np.arange(self.count)
        first, after = (np.searchsorted(self.group, numbers, side) for side in ("left", "right"))
        return self.sample[np.stack([first, after - 1])]

    @functools.cached_property
    def read(self) -> Int[np.ndarray, "row around dim"]:
        """The unknown values that each step reads or leads to; −1 for known ones."""
        number = np.full(self.unknown.shape, -1)
        number[self.unknown] = np.arange(len(self.sample))
        return number[_around(self.rows, self.offsets)]

    @functools.cached_property
    def row_group(self) -> Int[np.ndarray, "row"]:
        """The stretch of each step."""
        return self.group[self.read.max(axis=(1, 2), initial=-1)]

    @functools.cached_property
    def lone(self) -> Bool[np.ndarray, "value"]:
        """A mask of the values that no step leads to."""
        return ~np.isin(self.sample - 1, self.rows)

    def filled(self, values: Any, taken: Any = True, otherwise: Any = None) -> np.ndarray:
        """Return all samples, `[sample dim]`, with `values` where `taken`, elsewhere unchanged or
        `otherwise`.
        """
        x = np.array(self.x if otherwise is None else otherwise)
        x[self.unknown] = np.where(taken, values, x[self.unknown])
        return x

    def at(self, law: Law, values: Float[np.ndarray, "value"]) -> "State":
        """Return the residuals of all equations for some values."""
        x = self.filled(values)
        with np.errstate(over="ignore", invalid="ignore"):
            said, slopes = law(x[_read(self.rows, self.offsets)])
            left = np.einsum("rij,rj->ri", self.white, x[self.rows + 1] - said)
            slopes = np.einsum("rij,rjok->riok", self.white, slopes)
            alone = (values - self.center[self.column]) / self.scale[self.column]
            alone = np.where(self.lone, alone, 0.0)
            cost = np.bincount(self.row_group, (left**2).sum(axis=1), self.count)
            cost = cost + np.bincount(self.group, alone**2, self.count)
        return State(values, left, slopes, alone, cost)


class State(NamedTuple):
    """The values, and the residuals of all equations, in units of the noise.

    - `left`: residuals of each step; `slopes`: derivatives by what the step reads.
    - `alone`: distance from the mean for each value that no step leads to; 0 for others.
    - `cost`: the sum of squares of each stretch.
    """

    values: Float[np.ndarray, "value"]
    left: Float[np.ndarray, "row dim"]
    slopes: Float[np.ndarray, "row dim offset dim"]
    alone: Float[np.ndarray, "value"]
    cost: Float[np.ndarray, "group"]


class Path(NamedTuple):
    """A path of estimated values, in the order of `unknown`.

    - `values`, `errors`: most likely values, and standard errors by Laplace's approximation.
    - `draws`: from that approximation, `[draw value]`.
    - `group`: stretch of each value; no equation joins values of different stretches.
    - `settled`: whether a stretch converged; `misfit`: mean squared residual of its equations, in
        units of the noise, about 1 where the law holds.
    - `steps`: number of Gauss-Newton steps.
    """

    values: np.ndarray
    errors: np.ndarray
    draws: np.ndarray
    group: np.ndarray
    settled: np.ndarray
    misfit: np.ndarray
    steps: int

    @property
    def failed(self) -> Bool[np.ndarray, "group"]:
        """The stretches through which no path of the system leads."""
        return ~self.settled | ~(self.misfit < MISFIT)


def seen_rows(x, unknown, offsets, part, inside) -> np.ndarray:
    """Return the samples whose step reads only measured or unknown values, at least one unknown."""
    n, reach = len(x), offsets[-1]
    k = np.arange(reach, n - 1)
    k = k[(part[k - reach] == part[k + 1]) & inside[k]]
    around = _around(k, offsets)
    whole = np.isfinite(x[around]).all(axis=(1, 2))
    return k[whole & unknown[around].any(axis=(1, 2))]


def _read(rows, offsets) -> np.ndarray:
    """Return the samples that a step reads, `[row offset]`."""
    return rows[:, None] - np.asarray(offsets)[None]


def _around(rows, offsets) -> np.ndarray:
    """Return the samples that a step reads, and the next one, `[row offset+1]`."""
    return _read(rows, (*offsets, -1))


def stretches(unknown, part, reach: int) -> np.ndarray:
    """Return the stretch of each unknown value; values in one equation share it."""
    sample = np.nonzero(unknown)[0]
    if not len(sample):
        return np.zeros(0, int)
    apart = (np.diff(sample) > reach + 1) | (np.diff(part[sample]) != 0)
    return np.concatenate([[0], np.cumsum(apart)])


def most_likely(law: Law, problem: Problem, *, draws: int, rng: np.random.Generator) -> Path:
    """Return the most likely path by Gauss-Newton from a first guess, with damping per stretch."""
    p, group = problem, problem.group
    unit = 1 / p.scale[p.column] ** 2
    state = p.at(law, p.x[p.unknown])
    damping, settled = np.full(p.count, FIRST_DAMPING), ~np.isfinite(state.cost)
    steps = 0
    while steps < STEPS and not settled.all():
        steps += 1
        matrix, right = _equations(p, state)
        move = _solver(matrix.T @ matrix, damping[group] * unit)(-(matrix.T @ right))
        move = np.where(settled[group] | ~np.isfinite(move), 0.0, move)
        tried = p.at(law, state.values + move)
        better = np.nan_to_num(tried.cost, nan=np.inf) <= state.cost
        far = np.zeros(p.count)
        np.maximum.at(far, group, np.abs(move) * np.sqrt(unit))
        settled |= far < SETTLED
        settled |= better & (state.cost - tried.cost <= LEAST_GAIN * state.cost)
        taken = (better[of] for of in (group, p.row_group, p.row_group, group, slice(None)))
        state = State(*map(_either, taken, tried, state))
        damping = np.where(better, damping / 10, damping * 10)
        settled |= damping > MOST_DAMPING
    # Number of equations less the number of fitted values.
    fitted = np.bincount(group, ~p.lone, p.count)
    free = np.maximum(p.x.shape[1] * np.bincount(p.row_group, minlength=p.count) - fitted, 1)
    misfit = state.cost / free
    errors, drawn = _spread(_equations(p, state)[0], group, unit, draws, rng)
    strain = np.where(misfit > STRAINED, np.sqrt(misfit), 1.0)[group]
    errors, drawn = errors * strain, state.values[None] + drawn * strain[None]
    settled = settled & np.isfinite(state.cost)
    return Path(state.values, errors, drawn, group, settled, misfit, steps)


def _either(taken: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the rows of `one` that are taken, and the others of `other`."""
    return np.where(taken.reshape(-1, *(1,) * (one.ndim - 1)), one, other)


def simulated_guess(law: Law, problem: Problem, again: Bool[np.ndarray, "group"]) -> np.ndarray:
    """Return another first guess for some stretches, `[sample dim]`: the learned system simulated
    from the samples before, with measured values inserted. Long stretches are left unchanged.
    """
    p, x, (first, last) = problem, problem.x.copy(), problem.ends
    again = again & (last - first < FOLLOWED)
    for step in range(int((last - first)[again].max(initial=-1)) + 1):
        now = (first + step)[again & (first + step <= last)]
        now = now[np.isin(now - 1, p.rows)]
        said, _ = law(x[_read(now - 1, p.offsets)])
        near = np.abs(said - p.center[None]) < WILD * p.scale[None]
        x[now] = np.where(p.unknown[now] & near, said, x[now])
    return x


def better_of(one: Path, other: Path) -> Path:
    """Return the better-fitting of two paths in each stretch."""
    found = other.settled & ~(one.settled & (one.misfit <= other.misfit))
    own = found[one.group]
    values, errors, draws = (
        np.where(own, new, old) for old, new in zip(one[:3], other[:3], strict=True)
    )
    misfit, steps = np.where(found, other.misfit, one.misfit), one.steps + other.steps
    return Path(values, errors, draws, one.group, one.settled | found, misfit, steps)


def _equations(p: Problem, state: State):
    """Return a sparse matrix and right-hand side: steps first, then the prior of lone values."""
    from scipy.sparse import csr_matrix

    blocks = np.concatenate([-state.slopes, p.white[:, :, None, :]], axis=2)  # of steps
    to = np.broadcast_to(p.read[:, None], blocks.shape)
    row = np.broadcast_to(np.arange(state.left.size).reshape(*state.left.shape, 1, 1), blocks.shape)
    used, held = (to >= 0) & np.isfinite(blocks), np.flatnonzero(p.lone)
    entries = np.concatenate([blocks[used], 1 / p.scale[p.column[held]]])
    rows = np.concatenate([row[used], state.left.size + np.arange(len(held))])
    columns, shape = np.concatenate([to[used], held]), (state.left.size + len(held), len(p.group))
    matrix = csr_matrix((entries, (rows, columns)), shape=shape)
    return matrix, np.nan_to_num(np.concatenate([state.left.ravel(), state.alone[held]]))


def _solver(gram, more) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver of the sparse normal equations with an addition to their diagonal."""
    from scipy.sparse import diags
    from scipy.sparse.linalg import splu

    tiny = 1e-14 * (gram.diagonal() + more)
    lower = splu(
        (gram + diags(more + tiny)).tocsc(),
        permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    return lower.solve


def _spread(matrix, group, unit, draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors, and draws about zero."""
    gram = (matrix.T @ matrix).tocsr()
    # Values in no equation would be unbounded.
    more = 1e-6 * unit
    solve = _solver(gram, more)
    errors = np.zeros(len(group))
    for number in range(group[-1] + 1 if len(group) else 0):
        own = np.flatnonzero(group == number)
        if len(own) <= DENSE:
            block = gram[own][:, own].toarray() + np.diag(more[own])
            errors[own] = np.sqrt(np.maximum(np.diag(np.linalg.inv(block)), 0))
        else:
            several = rng.normal(size=(matrix.shape[0], DRAWN))
            errors[own] = solve(np.ascontiguousarray(matrix.T @ several)).std(axis=1)[own]
    drawn = [solve(matrix.T @ rng.normal(size=matrix.shape[0])) for _ in range(draws)]
    return errors, np.array(drawn).reshape(draws, len(group))


# ---- imputation of a discovery ----


@dataclasses.dataclass(frozen=True, eq=False)
class Imputed:
    """The samples completed by the learned system; NumPy, in measured units; made by
    `found.impute`.

    - `samples`: samples with the most likely values where none were measured, on the grid of the
        discovery; medians for logarithms or ranks. Where estimation failed, values are unchanged:
        missing, or filled like short gaps.
    - `errors`: standard errors of estimated values, `[time dim]` per trajectory; NaN elsewhere. By
        Laplace's approximation, given the drift and its noise, and enlarged if the misfit is above
        4.
    - `draws`: completed samples drawn by their likelihood, for multiple imputation: differences
        between results from several of them show the uncertainty of the missing values.
    - `table`: a row with the fields `columns` per stretch of gaps that equations join: recording,
        first and last sample, number of missing values, whether they are now estimated, and the
        mean squared residual of its equations in units of the noise, about 1 where the law holds.
        Above 100 nothing is estimated.
    - `moved`: root mean square distance, in standard deviations of a variable, of estimates from
        the previous ones: gap filling, straight lines, or the last round.
    - `treated`: the samples as the discovery reads them, completed by a draw, so that gaps contain
        noise as well.
    - `notes`: sentences on what could not be estimated.
    """

    samples: Samples
    errors: tuple[np.ndarray, ...]
    draws: tuple[Samples, ...]
    table: tuple[tuple[int, int, int, int, bool, float], ...]
    moved: float
    treated: Samples
    estimates: tuple[np.ndarray, ...] = dataclasses.field(repr=False, default=())
    notes: tuple[str, ...] = ()

    columns = ("recording", "first", "last", "values", "estimated", "misfit")

    @property
    def count(self) -> int:
        """The number of estimated values."""
        return sum(int(np.isfinite(error).sum()) for error in self.errors)

    def rows(self) -> list[tuple]:
        """Return the rows of `to_frame` as tuples."""
        return list(self.table)

    def to_frame(self):
        """Return a pandas DataFrame with a row per stretch of gaps."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    def __repr__(self) -> str:
        done, left = sum(row[4] for row in self.table), _missing(self.samples.values)
        stretches = "1 stretch" if done == 1 else f"{done} stretches"
        return (
            f"Imputed: {self.count} values of {', '.join(self.samples.names)} estimated in "
            f"{stretches}, {left} left missing"
        )


class WithImputation:
    """The imputation of missing values. A base of [`Discovery`][ndde_jax.Discovery]."""

    def impute(
        self: Any, *, draws: Checked[int] = 0, key: Checked[PRNGKeyArray | None] = None
    ) -> Imputed:
        """Estimate missing values, even in long gaps, by the learned system: the values that
        minimise the residuals of its equations, in units of their noise, given all measurements.

        Each value enters the equations as present, past and next state. Values estimated by gap
        filling are estimated again. Stretches through which no path of the system leads are
        unchanged, and so are variables without any value in a recording. Values that no step leads
        to, such as the first of a record, get the mean and variance of the variable as a prior.

        **Arguments:**

        - `draws`: number of completed samples to draw for multiple imputation; 0 by default.
        - `key`: key for draws; by default `jax.random.key(0)`.

        **Returns:** [`Imputed`][ndde_jax.use.Imputed], in measured units.
        [`Recipe(impute=...)`][ndde_jax.Recipe] repeats the discovery on the completed samples.

        **Raises:** `ValueError` for irregular sampling, or too few complete steps.

        ```python
        import jax, numpy as np
        import ndde_jax as ndde

        rng, x = np.random.default_rng(0), np.zeros((400, 1))
        for k in range(399):
            x[k + 1] = 0.9 * x[k] + rng.normal()
        x[200:210] = np.nan
        found = ndde.discover(x, dt=1.0, recipe=ndde.Recipe.fast(), key=jax.random.key(0))
        made = found.impute()
        print(made.samples.values[0][200:210, 0], made.errors[0][200:210, 0])
        ```
        """
        check_whole(draws, "draws", least=0)
        key = jr.key(0) if key is None else check_key(key)
        return impute(self, self._members, draws=draws, rng=generator(key))


def impute(
    found: Any,
    ensemble: Ensemble,
    *,
    draws: int,
    rng: np.random.Generator,
    before: Imputed | None = None,
) -> Imputed:
    """Return the samples with missing values estimated; see `found.impute`. `before` is the result
    of an earlier round.
    """
    base = without_estimates(found.samples)
    start = np.concatenate([_guess(x) for x in found.samples.values])
    gone = [np.isnan(x) | a for x, a in zip(base.values, base.estimated, strict=True)]
    part = np.repeat(np.arange(len(gone)), [len(x) for x in gone])
    inside = np.concatenate(base.mask) if base.mask else np.ones(len(part), bool)
    unknown, left = _to_estimate(gone, inside, part)
    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])
    x = np.where(unknown, start, plain)
    steps = make_steps(found, ensemble, no_change(1, x.shape[1]), [-1], found.lags[-1] + 2)
    offsets = steps.back
    rows = seen_rows(x, unknown, offsets, part, inside)
    law, scaling = functools.partial(_law, steps), found.model.scaling
    center, scale = (np.asarray(a, np.float64) for a in (scaling.center, scaling.scale))
    white = _white(ensemble, x, rows, center, scale)
    problem = Problem(x, unknown, rows, offsets, white, center, scale, part)
    known = np.where(unknown, np.nan, x)
    path = _found(problem, ensemble, law, draws + 1, rng)
    low, high = (side(known, axis=0)[problem.column] for side in (np.nanmin, np.nanmax))
    # Values outside the range of the data by more than its width have diverged.
    near = np.abs(path.values - (low + high) / 2) <= 1.5 * (high - low)
    failed = path.failed
    failed[path.group[~near]] = True
    return _result(base, problem, path, failed, before, left & np.isnan(plain))


def missing(samples: Samples) -> bool:
    """Return whether any value is missing or estimated."""
    return any(mask.any() for mask in (*map(np.isnan, samples.values), *samples.estimated))


def _missing(values: Iterable[np.ndarray]) -> int:
    """Return the number of missing values in all recordings."""
    return sum(int(np.isnan(x).sum()) for x in values)


def without_estimates(samples: Samples) -> Samples:
    """Return the samples as they were before an earlier round of imputation."""
    if not samples.treatments or samples.treatments[-1].name != IMPUTE:
        return samples
    *others, last = samples.treatments
    return dataclasses.replace(samples, values=last.values, treatments=tuple(others))


def _guess(x: np.ndarray) -> np.ndarray:
    """Return values with straight lines over gaps; a variable without values stays missing."""
    x = np.asarray(x, np.float64)
    return np.where(np.isnan(x).all(axis=0)[None], np.nan, linearly_interpolated(x))


def _to_estimate(gone, inside, part) -> tuple[np.ndarray, np.ndarray]:
    """Return the values to estimate, and the missing values that are not: those of variables
    without values in a recording, and those whose step begins outside the mask.
    """
    missing, nothing = np.concatenate(gone), np.stack([g.all(axis=0) for g in gone])[part]
    led_to = np.where(np.diff(part, prepend=-1) == 0, np.roll(inside, 1), inside)
    unknown = missing & ~nothing & led_to[:, None]
    return unknown, missing & ~unknown


def _white(ensemble: Ensemble, x, rows, center, scale) -> np.ndarray:
    """Return the matrices that whiten the noise of each step, `[row dim dim]`, which may depend on
    the state x.
    """
    noise = ensemble.noise
    steps = np.nanstd(np.diff(x, axis=0), axis=0)
    steps = np.where(steps > 0, steps, scale)
    covariance = noise.covariance + np.diag(2 * noise.error**2 + (LEAST_NOISE * steps) ** 2)
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    amplitude = relative_amplitude(noise.amplitude, (x[rows] - center[None]) / scale[None])
    return white[None] / amplitude[:, None]


def _found(problem: Problem, ensemble: Ensemble, law, draws: int, rng) -> Path:
    """Return the path; estimated twice if the amplitude of the noise depends on the state."""
    p = problem
    if np.any(ensemble.noise.amplitude[:, 1:] != 0):
        first = most_likely(law, p, draws=0, rng=rng)
        x = p.filled(first.values, first.settled[first.group])
        p = dataclasses.replace(p, x=x, white=_white(ensemble, x, p.rows, p.center, p.scale))
    path = most_likely(law, p, draws=draws, rng=rng)
    if not path.failed.any():
        return path
    # From straight lines, a strongly curved path may not be found.
    p = dataclasses.replace(p, x=p.filled(path.values, ~path.failed[path.group]))
    p = dataclasses.replace(p, x=simulated_guess(law, p, path.failed))
    return better_of(path, most_likely(law, p, draws=draws, rng=rng))


def _law(steps: Steps, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and derivatives of the steps of many rows, in batches of one shape."""
    n, dim = len(past), past.shape[2]
    value, slope = np.zeros((n, dim)), np.zeros((n, dim, *past.shape[1:]))
    for own in (slice(first, first + ROWS) for first in range(0, n, ROWS)):
        spare = [(0, ROWS - len(past[own])), (0, 0), (0, 0)]
        rows = in_precision(steps.members, np.pad(past[own], spare))
        value[own], slope[own] = (np.asarray(a)[: len(past[own])] for a in _linearised(steps, rows))
    return value, slope


@eqx.filter_jit
def _linearised(steps: Steps, past: Float[Array, "row offset dim"]) -> tuple[Array, Array]:
    """Return the next sample, by one step of the simulator, and its derivatives."""

    def following(past):
        states = past[:, None]
        new = (states[0] + steps(0.0, states[0], states[1:]))[0]
        return new, new

    slopes, values = jax.vmap(jax.jacrev(following, has_aux=True))(past)
    return values, slopes


# ---- results ----


def _result(base: Samples, p: Problem, path: Path, failed, before, left) -> Imputed:
    """Return the result of a path that is valid except in `failed` stretches."""
    starts, good = np.searchsorted(p.part, np.arange(len(base.values))), ~failed[path.group]
    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])

    def whole(values, otherwise=plain):
        """Return all values of each recording, and `otherwise` where none was estimated."""
        return np.split(p.filled(values, good, otherwise), starts[1:])

    most, drawn = whole(path.values), [whole(d) for d in path.draws]
    table = _table(p, path, failed, starts)
    earlier = p.x if before is None else np.concatenate(before.estimates)
    change = (path.values - earlier[p.unknown]) / p.scale[p.column]
    change = change[good & np.isfinite(change)]
    moved = float(np.sqrt(np.mean(change**2))) if len(change) else 0.0
    count, of = int(good.sum()), plain.size
    columns = np.unique(p.column[good])
    still = _missing(most)
    text = (
        f"{count} values that were not measured ({named(base, columns)}) are estimated by the "
        f"model, {count / of:.1%} of all"
        + (f"; {still} remain missing" if still else "")
        + f". The last round changed them by {moved:.2g} standard deviations. Such values favour "
        "the model: strengths of edges through them are optimistic."
    )
    changes = {"values": tuple(drawn[0])}
    complete = treated(base, IMPUTE, text, count / of, columns, changes) if count else base
    up, down = (_measured(base, whole(path.values + s * path.errors)).values for s in (1, -1))
    estimated = whole(path.errors, np.full(p.x.shape, np.nan))
    errors = tuple(
        np.where(np.isfinite(e), (a - b) / 2, np.nan)
        for a, b, e in zip(up, down, estimated, strict=True)
    )
    made, *draws = (_measured(base, values) for values in (most, *drawn[1:]))
    notes = _notes(table, left)
    return Imputed(made, errors, tuple(draws), table, moved, complete, tuple(most), notes)


def _measured(base: Samples, values) -> Samples:
    """Return values in measured units, without treatments; measured values are unchanged."""
    first = base.treatments[0].values if base.treatments else base.values
    new = []
    for k, (x, own, raw) in enumerate(zip(values, base.values, first, strict=True)):
        back = in_measured_units(base, x, k)
        if raw.shape == own.shape:
            kept = np.isfinite(raw) & np.isfinite(own) & ~base.estimated[k]
            back = np.where(kept, raw, back)
        new.append(back.astype(own.dtype))
    return dataclasses.replace(base, values=tuple(new), treatments=())


def _table(p: Problem, path: Path, failed, starts) -> tuple:
    part, count = p.part[p.ends[0]], np.bincount(p.group, minlength=p.count)
    columns = (part, *(p.ends - starts[part]), count, ~failed, path.misfit)
    return tuple(zip(*(column.tolist() for column in columns), strict=True))


def _notes(table, left) -> tuple[str, ...]:
    notes = []
    failed = [row for row in table if not row[4]]
    if failed:
        part, first, last, *_ = failed[0]
        values = sum(row[3] for row in failed)
        notes.append(
            f"{len(failed)} of {len(table)} stretches are left unchanged, {values} values: no "
            f"path of the learned system leads through them (the first in recording {part}, "
            f"samples {first} to {last})."
        )
    if left.any():
        notes.append(
            f"{int(left.sum())} values were not estimated: a recording has no value of the "
            "variable, or their step begins outside the mask."
        )
    return tuple(notes)
