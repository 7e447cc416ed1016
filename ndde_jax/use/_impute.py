"""Imputation by the learned system itself: the most likely path, given all that was measured.

A learned system predicts every sample from those before, up to noise. Missing values are estimated
by minimising the residuals of all these equations, in units of the noise: a sparse problem of
nonlinear least squares, in which a value enters as present, past and next state (weak-constraint
four-dimensional variational assimilation; Trémolet, *QJRMS* 132 (2006), 2483).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._checks import check_key, check_whole
from .._types import Checked
from ..samples._gaps import bridged
from ..samples._samples import ESTIMATES, Samples, named, treated, undone
from ._ensemble import Ensemble, generator, in_precision, relative_amplitude
from ._simulate import Steps, make_steps, no_change

IMPUTE = ESTIMATES[-1]
# Rows whose derivatives are taken at once: one shape for all gaps of all records.
ROWS = 256
# Least noise, as a share of the standard deviation of a step: below it the equation is not known.
LEAST_NOISE = 1e-4
# Mean square of what is left of a stretch's equations, in units of the noise: from the first on,
# errors are as much larger as it says; beyond the second, the path is none of this system's.
STRAINED, MISFIT = 4.0, 100.0
# Of Gauss-Newton, damped like Levenberg and Marquardt: steps, and when a stretch has settled.
STEPS, SETTLED, LEAST_GAIN = 40, 1e-5, 1e-7
FIRST_DAMPING, MOST_DAMPING = 1e-3, 1e8
# Unknown values of a stretch up to which their covariance is inverted; beyond, errors are those of
# so many draws.
DENSE, DRAWN = 1500, 200
# Samples of a stretch up to which it is followed, and standard deviations within which.
FOLLOWED, WILD = 1000, 10.0

# What follows from pasts `[row offset dim]`, and its derivatives: `[row dim]`, `[row dim offset
# dim]`.
Law = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Problem:
    """The known part of an imputation; recordings one after another along `sample`.

    - `x`: values, with a first guess where they are unknown, NaN where they stay missing.
    - `unknown`: the values to estimate.
    - `rows`: samples from which a step to the next is seen whole.
    - `offsets`: of the samples that the law reads, counted back from the present, from 0.
    - `white`: makes residuals of a step white, `[row dim dim]`.
    - `center`, `scale`: of every variable; what is held to them are unknown values whose own step
      is not seen, such as the first of a record.
    - `part`: recording of every sample.
    """

    x: Float[np.ndarray, "sample dim"]
    unknown: Bool[np.ndarray, "sample dim"]
    rows: Int[np.ndarray, "row"]
    offsets: tuple[int, ...]
    white: Float[np.ndarray, "row dim dim"]
    center: Float[np.ndarray, "dim"]
    scale: Float[np.ndarray, "dim"]
    part: Int[np.ndarray, "sample"]


@dataclasses.dataclass(frozen=True)
class Path:
    """A path of estimated values, in the order of `unknown`.

    - `values`, `errors`: most likely values, and standard errors by Laplace's approximation.
    - `draws`: from that approximation, `[draw value]`.
    - `group`: of every value: the stretch it belongs to; values of different stretches are in no
      equation together.
    - `settled`: whether a stretch converged; `misfit`: mean square of what is left of its
      equations, in units of the noise; about 1 where the law holds.
    - `steps`: of Gauss-Newton.
    """

    values: np.ndarray
    errors: np.ndarray
    draws: np.ndarray
    group: np.ndarray
    settled: np.ndarray
    misfit: np.ndarray
    steps: int


def seen_rows(x, unknown, offsets, part, inside) -> np.ndarray:
    """Return the samples whose step is fully covered by data or unknowns, with an unknown among
    them.
    """
    n, reach = len(x), offsets[-1]
    k = np.arange(reach, n - 1)
    k = k[(part[k - reach] == part[k + 1]) & inside[k]]
    around = _around(k, offsets)
    whole = np.isfinite(x[around]).all(axis=(1, 2))
    return k[whole & unknown[around].any(axis=(1, 2))]


def _around(rows, offsets) -> np.ndarray:
    """Return the samples that a step reads, and the next, `[row offset+1]`."""
    return np.concatenate([rows[:, None] - np.asarray(offsets)[None], rows[:, None] + 1], axis=1)


def stretches(unknown, part, reach: int) -> np.ndarray:
    """Return a group number for every unknown value; values in one equation share it."""
    sample = np.nonzero(unknown)[0]
    if not len(sample):
        return np.zeros(0, int)
    apart = (np.diff(sample) > reach + 1) | (np.diff(part[sample]) != 0)
    return np.concatenate([[0], np.cumsum(apart)])


def most_likely(law: Law, problem: Problem, *, draws: int, rng: np.random.Generator) -> Path:
    """Return the most likely path by Gauss-Newton from a first guess, with damping for each gap
    group.
    """
    p = problem
    group = stretches(p.unknown, p.part, p.offsets[-1])
    where = np.full(p.unknown.shape, -1)
    where[p.unknown] = np.arange(len(group))
    ids = where[_around(p.rows, p.offsets)]  # [row offset+1 dim]
    row_group = group[ids.reshape(len(ids), -1).max(axis=1)] if len(ids) else np.zeros(0, int)
    sample, column = np.nonzero(p.unknown)
    lone = ~np.isin(sample - 1, p.rows)
    count = group[-1] + 1 if len(group) else 0

    def residuals(values):
        x = p.x.copy()
        x[p.unknown] = values
        past = x[p.rows[:, None] - np.asarray(p.offsets)[None]]
        with np.errstate(over="ignore", invalid="ignore"):
            said, slopes = law(past)
            left = np.einsum("rij,rj->ri", p.white, x[p.rows + 1] - said)
            slopes = np.einsum("rij,rjok->riok", p.white, slopes)
            alone = np.where(lone, (values - p.center[column]) / p.scale[column], 0.0)
        return left, slopes, alone

    def cost_of(left, alone):
        with np.errstate(over="ignore", invalid="ignore"):
            own = np.bincount(row_group, (left**2).sum(axis=1), count)
            return own + np.bincount(group, alone**2, count)

    unit = 1 / p.scale[column] ** 2
    values = p.x[p.unknown]
    left, slopes, alone = residuals(values)
    cost = cost_of(left, alone)
    damping = np.full(count, FIRST_DAMPING)
    settled = ~np.isfinite(cost)
    steps = 0
    while steps < STEPS and not settled.all():
        steps += 1
        matrix, right = _equations(p, ids, left, slopes, alone, lone, column, len(group))
        gram = matrix.T @ matrix
        move = _solver(gram, damping[group] * unit)(-(matrix.T @ right))
        move = np.where(settled[group] | ~np.isfinite(move), 0.0, move)
        tried = residuals(values + move)
        new = cost_of(tried[0], tried[2])
        better = np.nan_to_num(new, nan=np.inf) <= cost
        taken, rows = better[group], better[row_group]
        far = np.zeros(count)
        np.maximum.at(far, group, np.abs(move) * np.sqrt(unit))
        small = (far < SETTLED) | (better & (cost - new <= LEAST_GAIN * cost))
        values = np.where(taken, values + move, values)
        left = np.where(rows[:, None], tried[0], left)
        slopes = np.where(rows[:, None, None, None], tried[1], slopes)
        alone = np.where(taken, tried[2], alone)
        cost = np.where(better, new, cost)
        damping = np.where(better, damping / 10, damping * 10)
        settled |= small | (damping > MOST_DAMPING)
    good = settled & np.isfinite(cost)
    # Equations less what was fitted to them.
    free = len(p.x[0]) * np.bincount(row_group, minlength=count) - np.bincount(group, ~lone, count)
    free = np.maximum(free, 1)
    matrix, _ = _equations(p, ids, left, slopes, alone, lone, column, len(group))
    errors, drawn = _spread(matrix, group, unit, draws, rng)
    return Path(values, errors, values[None] + drawn, group, good, cost / free, steps)


def followed(law: Law, problem: Problem, again: Bool[np.ndarray, "group"]) -> np.ndarray:
    """Return another first guess for some gap groups, `[sample dim]`: the learned system run on
    from the samples before, with measured values put in; not through groups of more than so many
    samples.
    """
    p, x = problem, problem.x.copy()
    group = stretches(p.unknown, p.part, p.offsets[-1])
    sample = np.nonzero(p.unknown)[0]
    first = np.full(len(again), len(x))
    last = np.zeros(len(again), int)
    np.minimum.at(first, group, sample)
    np.maximum.at(last, group, sample)
    again = again & (last - first < FOLLOWED)
    for step in range(int((last - first)[again].max(initial=-1)) + 1):
        now = (first + step)[again & (first + step <= last)]
        now = now[np.isin(now - 1, p.rows)]
        said, _ = law(x[now[:, None] - 1 - np.asarray(p.offsets)[None]])
        near = np.abs(said - p.center[None]) < WILD * p.scale[None]
        x[now] = np.where(p.unknown[now] & near, said, x[now])
    return x


def better_of(one: Path, other: Path) -> Path:
    """Return the better-fitting of two paths in each gap group."""
    found = other.settled & ~(one.settled & (one.misfit <= other.misfit))
    own = found[one.group]
    return Path(
        values=np.where(own, other.values, one.values),
        errors=np.where(own, other.errors, one.errors),
        draws=np.where(own[None], other.draws, one.draws),
        group=one.group,
        settled=one.settled | found,
        misfit=np.where(found, other.misfit, one.misfit),
        steps=one.steps + other.steps,
    )


def _equations(p: Problem, ids, left, slopes, alone, lone, column, n):
    """Return a sparse matrix and the right side: steps first, then the prior of unknown values."""
    from scipy.sparse import csr_matrix

    dim = p.x.shape[1]
    blocks = np.concatenate([-slopes, p.white[:, :, None, :]], axis=2)  # [row dim offset+1 dim]
    to = np.broadcast_to(ids[:, None], blocks.shape)
    row = np.broadcast_to(np.arange(len(ids) * dim).reshape(len(ids), dim, 1, 1), blocks.shape)
    used = (to >= 0) & np.isfinite(blocks)
    held = np.flatnonzero(lone)
    first = len(ids) * dim
    entries = np.concatenate([blocks[used], 1 / p.scale[column[held]]])
    place = (
        np.concatenate([row[used], first + np.arange(len(held))]),
        np.concatenate([to[used], held]),
    )
    matrix = csr_matrix((entries, place), shape=(first + len(held), n))
    return matrix, np.concatenate([np.nan_to_num(left).ravel(), np.nan_to_num(alone[held])])


def _solver(gram, more) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver of the sparse normal equations with a given addition to their diagonal."""
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
    # What no equation sees would have no bound.
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


def diverged(values: Any, group, low: Any, high: Any) -> np.ndarray:
    """Return which values lie in gap groups that left the range of the data by over its width."""
    far = ~np.isfinite(values) | (values < 2 * low - high) | (values > 2 * high - low)
    count = group[-1] + 1 if len(group) else 0
    return np.bincount(group, far, count)[group] > 0


# ---- of a discovery ----


@dataclasses.dataclass(frozen=True)
class Imputed:
    """A set of samples completed by the learned system; NumPy, measured units; made by
    `found.impute`.

    - `samples`: with the most likely values where none were measured, on the grid of the
        discovery; of a logarithm or a rank the median. Where the estimate failed values are as
        they were: missing, or filled as short gaps are.
    - `errors`: standard errors of these, `[time dim]` per trajectory; NaN elsewhere. By Laplace's
        approximation, given the drift and its noise; larger where a misfit above 4 strains them.
    - `draws`: completed samples that are as likely, for multiple imputation: differences between
        results from several of them show the uncertainty of the missing values.
    - `table`: a row for each stretch of gaps that equations tie together (`columns` names them):
        recording, first and last sample, missing values, whether they are estimated now, and the
        mean square of what is left of the equations there in units of the noise, about 1 where the
        law holds; above 100 nothing is estimated.
    - `moved`: root mean square, in standard deviations of a variable, of how far estimates lie from
        those before: of gap filling, straight lines, or the last round.
    - `treated`: the samples as the discovery reads them, completed by a draw, so that a search in
        them finds noise in gaps as elsewhere.
    - `notes`: sentences on what could not be done.
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
        """Return a pandas DataFrame with a row for each gap."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    def __repr__(self) -> str:
        done, left = (
            sum(row[4] for row in self.table),
            np.isnan(np.concatenate(self.samples.values)),
        )
        stretches = "1 stretch" if done == 1 else f"{done} stretches"
        return (
            f"Imputed: {self.count} values of {', '.join(self.samples.names)} estimated in "
            f"{stretches}, {int(left.sum())} left missing"
        )


class WithImputation:
    """The imputation of missing values. A base of [`Discovery`][ndde_jax.Discovery]."""

    def impute(
        self: Any, *, draws: Checked[int] = 0, key: Checked[PRNGKeyArray | None] = None
    ) -> Imputed:
        """Estimate missing values, in long gaps too, by the learned system: those that minimise the
        residuals of its equations, in units of their noise, given everything that was measured.

        Each value enters the equations as present, past and next state. Values that gap filling had
        estimated are estimated anew. Stretches through which no path of the system leads are left
        as they were, and so are variables of which a recording has no value. Values that no step
        leads to, such as the first of a record, are held to the mean and the variance of the
        variable.

        **Arguments:**

        - `draws`: completed samples to draw for multiple imputation, none by default.
        - `key`: for draws; by default `jax.random.key(0)`.

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
    start = [_guess(x) for x in found.samples.values]
    gone = [np.isnan(x) | a for x, a in zip(base.values, base.estimated, strict=True)]
    lengths = [len(x) for x in start]
    part = np.repeat(np.arange(len(lengths)), lengths)
    inside = np.concatenate(base.mask) if base.mask else np.ones(len(part), bool)
    unknown, left = _looked_for(gone, inside)
    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])
    x = np.where(unknown, np.concatenate(start), plain)
    steps = make_steps(found, ensemble, no_change(1, x.shape[1]), [-1], found.lags[-1] + 2)
    offsets = steps.back
    rows = seen_rows(x, unknown, offsets, part, inside)
    law, scaling = functools.partial(_law, steps), found.model.scaling
    center, scale = (np.asarray(a, np.float64) for a in (scaling.center, scaling.scale))
    white = _white(ensemble, x, rows, center, scale)
    problem = Problem(x, unknown, rows, offsets, white, center, scale, part)
    known = np.where(unknown, np.nan, x)
    path = _found(problem, ensemble, law, draws + 1, rng)
    low, high = np.nanmin(known, axis=0), np.nanmax(known, axis=0)
    strain = np.where(path.misfit > STRAINED, np.sqrt(path.misfit), 1.0)[path.group]
    path = dataclasses.replace(
        path,
        errors=path.errors * strain,
        draws=path.values[None] + (path.draws - path.values[None]) * strain[None],
    )
    column = np.nonzero(unknown)[1]
    bad = diverged(path.values, path.group, low[column], high[column])
    bad |= ~path.settled[path.group] | ~(path.misfit[path.group] < MISFIT)
    return _made(base, problem, path, bad, lengths, before, left & np.isnan(plain))


def missing(samples: Samples) -> bool:
    """Return whether any value was not measured, or was estimated since."""
    return any(
        np.isnan(x).any() or a.any() for x, a in zip(samples.values, samples.estimated, strict=True)
    )


def without_estimates(samples: Samples) -> Samples:
    """Return the samples as they were before an earlier round of imputation."""
    if not samples.treatments or samples.treatments[-1].name != IMPUTE:
        return samples
    values = samples.treatments[-1].values
    return dataclasses.replace(samples, values=values, treatments=samples.treatments[:-1])


def _guess(x: np.ndarray) -> np.ndarray:
    """Return straight lines over gaps; a variable without any value stays missing."""
    x = np.asarray(x, np.float64)
    return np.where(np.isnan(x).all(axis=0)[None], np.nan, bridged(x))


def _looked_for(gone, inside) -> tuple[np.ndarray, np.ndarray]:
    """Return the values to estimate, and missing ones that are left: those of variables of which a
    recording has none, and those whose step begins outside the mask.
    """
    nothing = np.concatenate([np.broadcast_to(g.all(axis=0), g.shape) for g in gone])
    first = np.cumsum([0, *(len(g) for g in gone[:-1])])
    own = np.concatenate([inside[:1], inside[:-1]])
    own[first] = inside[first]
    missing = np.concatenate(gone)
    unknown = missing & ~nothing & own[:, None]
    return unknown, missing & ~unknown


def _white(ensemble: Ensemble, x, rows, center, scale) -> np.ndarray:
    """Return the matrices that whiten the noise of each step, `[row dim dim]`, where it depends on
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
    """Return the path, found again where the size of the noise depends on the state."""
    p = problem
    if np.any(ensemble.noise.amplitude[:, 1:] != 0):
        first = most_likely(law, p, draws=0, rng=rng)
        x = p.x.copy()
        x[p.unknown] = np.where(first.settled[first.group], first.values, x[p.unknown])
        p = dataclasses.replace(p, x=x, white=_white(ensemble, x, p.rows, p.center, p.scale))
    path = most_likely(law, p, draws=draws, rng=rng)
    failed = ~path.settled | ~(path.misfit < MISFIT)
    if not failed.any():
        return path
    # Along a straight line a strongly curved path may not be found from either side.
    x = p.x.copy()
    x[p.unknown] = np.where(failed[path.group], x[p.unknown], path.values)
    x = followed(law, dataclasses.replace(p, x=x), failed)
    other = most_likely(law, dataclasses.replace(p, x=x), draws=draws, rng=rng)
    return better_of(path, other)


def _law(steps: Steps, past: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and derivatives of the step of many rows, in batches of one shape."""
    n, dim = len(past), past.shape[2]
    padded = np.zeros((-(-n // ROWS) * ROWS, *past.shape[1:]))
    padded[:n] = past
    parts = [
        _linearised(steps, in_precision(steps.members, padded[b : b + ROWS]))
        for b in range(0, len(padded), ROWS)
    ]
    value, slope = np.zeros((0, dim)), np.zeros((0, dim, *past.shape[1:]))
    if parts:
        value, slope = (np.concatenate([np.asarray(a, np.float64) for a in z])
                        for z in zip(*parts, strict=True))  # fmt: skip
    return value[:n], slope[:n]


@eqx.filter_jit
def _linearised(steps: Steps, past: Float[Array, "row offset dim"]) -> tuple[Array, Array]:
    """Return the next sample, by one step of the simulator, and its derivatives."""

    def following(past):
        states = past[:, None]
        return (states[0] + steps(0.0, states[0], states[1:]))[0]

    def linearised(past):
        value, pull_back = jax.vjp(following, past)
        return value, jax.vmap(pull_back)(jnp.eye(len(value), dtype=value.dtype))[0]

    return jax.vmap(linearised)(past)


# ---- what comes of it ----


def _made(base: Samples, p: Problem, path: Path, bad, lengths, before, left) -> Imputed:
    ends = np.cumsum(lengths)[:-1]
    cut = lambda a: np.split(a, ends)  # noqa: E731

    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])

    def whole(values):
        """Return all values, unchanged where none was found."""
        out = plain.copy()
        out[p.unknown] = np.where(bad, plain[p.unknown], values)
        return cut(out)

    most, drawn = whole(path.values), [whole(d) for d in path.draws]
    table = _table(p, path, bad, np.concatenate([[0], ends]))
    column = np.nonzero(p.unknown)[1]
    earlier = p.x if before is None else np.concatenate(before.estimates)
    change = (path.values - earlier[p.unknown]) / p.scale[column]
    change = change[~bad & np.isfinite(change)]
    moved = float(np.sqrt(np.mean(change**2))) if len(change) else 0.0
    count, of = int((~bad).sum()), sum(x.size for x in base.values)
    columns = np.unique(column[~bad])
    still = sum(int(np.isnan(x).sum()) for x in most)
    text = (
        f"{count} values that were not measured ({named(base, columns)}) are estimated by the "
        f"model, {count / of:.1%} of all"
        + (f"; {still} stay missing" if still else "")
        + f". The last round moved them by {moved:.2g} standard deviations. Such values favour the "
        "model: strengths of edges through them are optimistic."
    )
    changes = {"values": tuple(drawn[0])}
    complete = treated(base, IMPUTE, text, count / of, columns, changes) if count else base
    errors = np.full(p.x.shape, np.nan)
    errors[p.unknown] = np.where(bad, np.nan, path.errors)
    plain, up, down = (
        _measured(base, values)
        for values in (most, *([m + s * e for m, e in zip(most, cut(errors), strict=True)]
                               for s in (1, -1)))
    )  # fmt: skip
    spread = tuple(
        np.where(np.isfinite(e), (a - b) / 2, np.nan)
        for a, b, e in zip(up.values, down.values, cut(errors), strict=True)
    )
    return Imputed(
        samples=plain,
        errors=spread,
        draws=tuple(_measured(base, d) for d in drawn[1:]),
        table=table,
        moved=moved,
        treated=complete,
        estimates=tuple(most),
        notes=_notes(table, left),
    )


def _measured(base: Samples, values) -> Samples:
    """Return values in measured units, without treatments; measured values are unchanged."""
    first = base.treatments[0].values if base.treatments else base.values
    new = []
    for k, (x, own, raw) in enumerate(zip(values, base.values, first, strict=True)):
        back = undone(base, x, k)
        if raw.shape == own.shape:
            kept = np.isfinite(raw) & np.isfinite(own) & ~base.estimated[k]
            back = np.where(kept, raw, back)
        new.append(back.astype(own.dtype))
    return dataclasses.replace(base, values=tuple(new), treatments=())


def _table(p: Problem, path: Path, bad, starts) -> tuple:
    sample = np.nonzero(p.unknown)[0]
    rows = []
    for number, misfit in enumerate(path.misfit):
        own = path.group == number
        part = int(p.part[sample[own][0]])
        first, last = (int(sample[own][i] - starts[part]) for i in (0, -1))
        rows.append((part, first, last, int(own.sum()), not bad[own][0], float(misfit)))
    return tuple(rows)


def _notes(table, left) -> tuple[str, ...]:
    notes = []
    failed = [row for row in table if not row[4]]
    if failed:
        part, first, last, *_ = failed[0]
        values = sum(row[3] for row in failed)
        notes.append(
            f"{len(failed)} of {len(table)} stretches are left as they were, {values} values: no "
            f"path of the learned system leads through them (the first in recording {part}, "
            f"samples {first} to {last})."
        )
    if left.any():
        notes.append(
            f"{int(left.sum())} values were not looked for: a recording has no value of the "
            "variable, or their step begins outside the mask."
        )
    return tuple(notes)
