"""Missing values estimated by the learned system itself."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..samples._prepare import bridged
from ..samples._samples import ESTIMATES, Samples, named, treated, undone
from ._ensemble import Ensemble
from ._forecast import make_learned
from ._noise import relative_amplitude
from ._one_step import NODES, nodes
from ._paths import Path, Problem, better_of, diverged, followed, most_likely, seen_rows
from ._simulate import Learned, no_change, simulate

IMPUTE = ESTIMATES[-1]
# Rows whose derivatives are taken at once: one shape for all gaps of all records.
ROWS = 256
# Least noise, as a share of the standard deviation of a step: below it the equation is not known.
LEAST_NOISE = 1e-4
# Mean square of what is left of a stretch's equations, in units of the noise: from the first on,
# errors are as much larger as it says; beyond the second, the path is none of this system's.
STRAINED, MISFIT = 4.0, 100.0


@dataclasses.dataclass(frozen=True)
class Imputed:
    """Samples completed by the learned system; NumPy, measured units; made by `found.impute`.

    - `samples`: with the most likely values where none were measured, on the grid of the
        discovery; of a logarithm or a rank the median. Where the estimate failed values are as
        they were: missing, or filled as short gaps are.
    - `errors`: standard errors of these, `[time dim]` per trajectory; NaN elsewhere. By Laplace's
        approximation, given the drift and its noise; larger where a misfit above 4 strains them.
    - `draws`: completed samples that are as likely, for multiple imputation: what differs between
        results from several of them is what is not known of the missing values.
    - `table`: a row for each stretch of gaps that equations tie together (`columns` names them):
        recording, first and last sample, missing values, whether they are estimated now, and the
        mean square of what is left of the equations there in units of the noise, about 1 where the
        law holds; above 100 nothing is estimated.
    - `moved`: root mean square, in standard deviations of a variable, of how far estimates lie from
        those before: of gap filling, straight lines, or the last round.
    - `treated`: the samples as the discovery reads them, completed by a draw, so that a search in
        them sees noise in gaps as elsewhere.
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
        """Values that are estimated."""
        return sum(int(np.isfinite(error).sum()) for error in self.errors)

    def rows(self) -> list[tuple]:
        """What `to_frame` shows, without pandas."""
        return list(self.table)

    def to_frame(self):
        """A pandas DataFrame with a row for each stretch; needs pandas."""
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


def impute(
    found: Any,
    ensemble: Ensemble,
    *,
    draws: int,
    rng: np.random.Generator,
    before: Imputed | None = None,
) -> Imputed:
    """As `found.impute` says; `before` is what an earlier round returned."""
    base = without_estimates(found.samples)
    start = [_guess(x) for x in found.samples.values]
    gone = [np.isnan(x) | a for x, a in zip(base.values, base.estimated, strict=True)]
    lengths = [len(x) for x in start]
    part = np.repeat(np.arange(len(lengths)), lengths)
    inside = np.concatenate(base.mask) if base.mask else np.ones(len(part), bool)
    unknown, left = _looked_for(gone, inside)
    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])
    x = np.where(unknown, np.concatenate(start), plain)
    learned = make_learned(found, dataclasses.replace(ensemble, theta=ensemble.center[None]))
    offsets = _offsets(tuple(found.lags), learned.step)
    rows = seen_rows(x, unknown, offsets, part, inside)
    law = functools.partial(_law, learned, offsets)
    center, scale = (np.asarray(a, np.float64) for a in (learned.center, learned.scale))
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
    """Whether any value was not measured, or estimated since."""
    return any(
        np.isnan(x).any() or a.any() for x, a in zip(samples.values, samples.estimated, strict=True)
    )


def without_estimates(samples: Samples) -> Samples:
    """Before an earlier round of imputation."""
    if not samples.treatments or samples.treatments[-1].name != IMPUTE:
        return samples
    values = samples.treatments[-1].values
    return dataclasses.replace(samples, values=values, treatments=samples.treatments[:-1])


def _guess(x: np.ndarray) -> np.ndarray:
    """Straight lines over gaps; a variable without any value stays missing."""
    x = np.asarray(x, np.float64)
    return np.where(np.isnan(x).all(axis=0)[None], np.nan, bridged(x))


def _looked_for(gone, inside) -> tuple[np.ndarray, np.ndarray]:
    """Values that are looked for, and missing ones that are not: of variables of which a recording
    has none, and those whose step begins outside the mask.
    """
    nothing = np.concatenate([np.broadcast_to(g.all(axis=0), g.shape) for g in gone])
    first = np.cumsum([0, *(len(g) for g in gone[:-1])])
    own = np.concatenate([inside[:1], inside[:-1]])
    own[first] = inside[first]
    missing = np.concatenate(gone)
    unknown = missing & ~nothing & own[:, None]
    return unknown, missing & ~unknown


def _offsets(lags: tuple[int, ...], step: str) -> tuple[int, ...]:
    """Samples that a step of the simulator reads, counted back."""
    read = {0, *lags, *(lag - 1 for lag in lags if lag > 0)}
    if step == "flow":
        newest = lags[-1] + 1
        count = min(NODES, newest + 1)
        for lag in lags:
            first = int(nodes(min(newest - lag, newest - 1), newest, np, count))
            read |= {newest - first - a for a in range(count)}
    return tuple(sorted(read))


def _white(ensemble: Ensemble, x, rows, center, scale) -> np.ndarray:
    """What makes the noise of each step white, `[row dim dim]`, where it depends on the state x."""
    noise = ensemble.noise
    steps = np.nanstd(np.diff(x, axis=0), axis=0)
    steps = np.where(steps > 0, steps, scale)
    covariance = noise.covariance + np.diag(2 * noise.error**2 + (LEAST_NOISE * steps) ** 2)
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    amplitude = relative_amplitude(noise.amplitude, (x[rows] - center[None]) / scale[None])
    return white[None] / amplitude[:, None]


def _found(problem: Problem, ensemble: Ensemble, law, draws: int, rng) -> Path:
    """The path; found again where the size of the noise depends on the state, which it says."""
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


def _law(learned: Learned, offsets: tuple[int, ...], past: np.ndarray):
    """In batches of one shape."""
    n, dtype = len(past), learned.dt.dtype
    batches = -(-n // ROWS)
    padded = np.zeros((batches * ROWS, *past.shape[1:]))
    padded[:n] = past
    parts = [
        _linearised(learned, offsets, jnp.asarray(padded[b * ROWS : (b + 1) * ROWS], dtype))
        for b in range(batches)
    ]
    dim = past.shape[2]
    value, slope = np.zeros((0, dim)), np.zeros((0, dim, *past.shape[1:]))
    if parts:
        value, slope = (np.concatenate([np.asarray(a, np.float64) for a in z])
                        for z in zip(*parts, strict=True))  # fmt: skip
    return value[:n], slope[:n]


@eqx.filter_jit
def _linearised(
    learned: Learned, offsets: tuple[int, ...], past: Float[Array, "row offset dim"]
) -> tuple[Array, Array]:
    """The next sample, by one step of the simulator, and its derivatives."""
    dim, dtype = past.shape[2], past.dtype
    # As long as a forecast has it; what is not read may be anything.
    at = np.arange(learned.lags[-1] + 1, -1, -1)
    place = np.array([offsets.index(o) if o in offsets else 0 for o in at])
    change, noise = no_change(1, dim, dtype), jnp.zeros((1, 1, dim), dtype)

    def following(past):
        paths, _ = simulate(learned, change, past[place][None], jnp.zeros(1, int), noise)
        return paths[0, 0]

    def linearised(past):
        value, pull_back = jax.vjp(following, past)
        return value, jax.vmap(pull_back)(jnp.eye(dim, dtype=dtype))[0]

    return jax.vmap(linearised)(past)


# ---- what comes of it ----


def _made(base: Samples, p: Problem, path: Path, bad, lengths, before, left) -> Imputed:
    ends = np.cumsum(lengths)[:-1]
    cut = lambda a: np.split(a, ends)  # noqa: E731

    plain = np.concatenate([np.asarray(x, np.float64) for x in base.values])

    def whole(values):
        """All values, as they were where none was found."""
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
    """In measured units, without treatments; what was measured is as it was."""
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
