"""The most likely path through what was not measured, given all that was.

A learned system says of every sample how it follows from those before, up to noise. Missing values
are those numbers that make what is left of all these equations least, in units of the noise: a
sparse problem of nonlinear least squares, in which a value is seen as present, as past and as next
(weak-constraint four-dimensional variational assimilation; Trémolet, *QJRMS* 132 (2006), 2483).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

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
    """What is known; recordings one after another along `sample`.

    - `x`: values, with a first guess where they are unknown, NaN where they stay missing.
    - `unknown`: which are looked for.
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
    """Values that were looked for, in the order of `unknown`.

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
    """Samples from which a step is seen whole, with an unknown value in it."""
    n, reach = len(x), offsets[-1]
    k = np.arange(reach, n - 1)
    k = k[(part[k - reach] == part[k + 1]) & inside[k]]
    around = _around(k, offsets)
    whole = np.isfinite(x[around]).all(axis=(1, 2))
    return k[whole & unknown[around].any(axis=(1, 2))]


def _around(rows, offsets) -> np.ndarray:
    """Samples that a step reads, and the next, `[row offset+1]`."""
    return np.concatenate([rows[:, None] - np.asarray(offsets)[None], rows[:, None] + 1], axis=1)


def stretches(unknown, part, reach: int) -> np.ndarray:
    """A number for every unknown value, the same where one equation may see two."""
    sample = np.nonzero(unknown)[0]
    if not len(sample):
        return np.zeros(0, int)
    apart = (np.diff(sample) > reach + 1) | (np.diff(part[sample]) != 0)
    return np.concatenate([[0], np.cumsum(apart)])


def most_likely(law: Law, problem: Problem, *, draws: int, rng: np.random.Generator) -> Path:
    """Gauss-Newton from the first guess on, every stretch damped by itself."""
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
    """Another first guess for some stretches, `[sample dim]`: where the law leads from what is
    before, measured values in between put in; not through stretches of more than so many samples.
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
    """Stretch by stretch, the path that fits better."""
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
    """A sparse matrix and the right side: steps, then what unseen values are held to."""
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
    """Of the sparse normal equations, with something on their diagonal."""
    from scipy.sparse import diags
    from scipy.sparse.linalg import splu

    tiny = 1e-14 * (gram.diagonal() + more)
    lower = splu(
        (gram + diags(more + tiny)).tocsc(),
        permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True},
    )  # fmt: skip
    return lower.solve


def _spread(matrix, group, unit, draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors, and draws about zero."""
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
    """Values of stretches that left the range of the data by more than its width."""
    far = ~np.isfinite(values) | (values < 2 * low - high) | (values > 2 * high - low)
    count = group[-1] + 1 if len(group) else 0
    return np.bincount(group, far, count)[group] > 0
