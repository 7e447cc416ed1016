"""Rivals of kept inputs: other candidates that explain a rate as well, in closed form."""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from .._types import KnownGraph, KnownScores
from ..regression._design import knots_of, spline_terms
from ._score import (
    NOISE,
    Column,
    Inputs,
    Rows,
    SourceLags,
    drift_if_better,
    favours_products,
    read_inputs,
    residuals_of,
    whitening,
)

# Fewest rows per column of a regression with Hermite terms; with fewer, lines alone.
ROWS = 5
# Smallest share of the rows of a target and its inputs in which a candidate must be measured.
MEASURED = 0.5
# Number of blocks of the record for the spread of the cost of a replacement, and the standard
# errors of a one-sided 95 % bound.
BLOCKS, BOUND = 16, 1.645


@dataclasses.dataclass(frozen=True, eq=False)
class Rivals:
    """The best single replacement of every kept input of every target.

    Adjacent lags of a source are one input and are replaced together. The cost is the rise of the
    target's squared error, as a share of the variance of its rate, with lines and Hermite terms
    of all inputs fitted again, with their products if these matter, and with the fitted drift of
    the other inputs if it is more curved. Infinite if there is no edge or no replacement.

    - `cost`: the cost of the best replacement by another source, `[source target lag]`; `lower`:
        its lower 95 % bound, from the spread over blocks of the record.
    - `rival`: that source and the index of its lag, `[source target lag 2]`; −1 if there is none.
    - `lag_cost`: the cost of the best other lag of the same source, `[source target lag]`.
    """

    cost: KnownScores
    lower: KnownScores
    rival: Int[np.ndarray, "source target lag 2"]
    lag_cost: KnownScores

    @classmethod
    def none(cls, graph: KnownGraph) -> "Rivals":
        """Return the result for a graph without tested rivals."""
        cost, lower, of_lags = (np.full(graph.shape, np.inf) for _ in range(3))
        return cls(cost, lower, np.full((*graph.shape, 2), -1), of_lags)


def rivals(inputs: Inputs, graph: KnownGraph, required: KnownGraph) -> Rivals:
    """Return the cost of replacing each kept input by its best rival.

    Costs are computed from inner products of columns: one pass over the rows for every target, and
    one for the best rival of each edge. Inputs that prior knowledge requires have no rivals, and
    inputs that it forbids are not rivals.
    """
    rows, found = inputs.rows, Rivals.none(graph)
    n = len(rows.rates)
    most = int(graph.sum(axis=(0, 2)).max(initial=0))
    plain = inputs.line[..., None]
    if ROWS * 4 * (most + 1) <= n:
        plain = np.concatenate([plain, inputs.hermite], axis=-1)
    plain = _unit(np.moveaxis(plain, 0, -1))  # [lag source column row]
    plain_grams = np.einsum("asmn,askn->asmk", plain, plain, optimize=True)
    adjacent = adjacent_lags(graph, rows.lags)
    for j in np.flatnonzero((graph & ~required).any(axis=(0, 2))).tolist():
        possible = rows.allowed[:, j] & ~graph[:, j]
        if not possible.any():
            continue
        groups = join_adjacent(graph[:, j], adjacent[:, j])
        rate, total = rows.rates[:, j], float(rows.rates[:, j] @ rows.rates[:, j])
        # Columns of the kept inputs and of every candidate, with the groups they belong to.
        kept = np.concatenate([plain[a, i] for i, lags in groups for a in lags])
        each = plain.shape[2]
        of = np.repeat(np.arange(len(groups)), [each * len(lags) for _, lags in groups])
        kept_of, columns, grams = np.stack([of, of]), plain, plain_grams
        columns_of = np.full(each, -1)
        if favours_products(inputs, j, graph[:, j]):
            lines, of = kept[::each], of[::each]
            pairs = np.triu_indices(len(lines), 1)
            kept = np.concatenate([kept, _unit(lines[pairs[0]] * lines[pairs[1]])])
            kept_of = np.concatenate([kept_of, of[np.stack(pairs)]], axis=1)
            columns = np.concatenate([plain, _unit(plain[:, :, :1] * lines)], axis=2)
            columns_of = np.concatenate([columns_of, of])
            grams = np.einsum("asmn,askn->asmk", columns, columns, optimize=True)
        whole = residuals_of(rate, kept.T)
        drift = drift_if_better(rows, j, whole)
        if drift is not None:
            by_drift = residuals_of(rate, np.concatenate([kept, _unit(drift.rates[None, :, j])]).T)
            # A drift without residual noise follows the path whatever its inputs.
            noisy = by_drift @ by_drift > NOISE * total
            whole, drift = (by_drift, drift) if noisy else (whole, None)
            if not noisy:
                # Without noise any candidate compensates for what polynomials miss of a law.
                lines = np.stack([inputs.line[:, a, i] for i, lags in groups for a in lags], axis=1)
                splines = spline_terms(lines, knots_of(lines))[..., 1:]
                counts = [splines.shape[2] * len(lags) for _, lags in groups]
                number = np.repeat(np.arange(len(groups)), counts)
                kept = np.concatenate([kept, _unit(splines.reshape(n, -1).T)])
                kept_of = np.concatenate([kept_of, np.stack([number, number])], axis=1)
                whole = residuals_of(rate, kept.T)
        with_kept, with_rate = columns @ kept.T, columns @ rate
        for k, (i, lags) in enumerate(groups):
            if required[i, j, lags].any():
                continue
            # Inner products of the residuals of the rate and of every candidate given the others.
            rest, new = (kept_of != k).all(axis=0), columns_of != k
            others, with_others = kept[rest], with_kept[:, :, new][..., rest]
            if drift is not None:
                only = np.zeros_like(graph[:, j])
                only[i, lags] = True
                rest_of_drift = _unit(drift.without(only, j)[None])
                others = np.concatenate([others, rest_of_drift])
                more = columns[:, :, new] @ rest_of_drift.T
                with_others = np.concatenate([with_others, more], axis=-1)
            root = whitening(others @ others.T)
            shared = with_others @ root.T
            explained = root @ (others @ rate)
            left = float(rate @ rate - explained @ explained)
            own = whitening(grams[:, :, new][..., new] - shared @ np.swapaxes(shared, -1, -2))
            said = (own @ (with_rate[..., new] - shared @ explained)[..., None])[..., 0]
            rise = (left - (said**2).sum(axis=-1) - whole @ whole) / total
            rise = np.where(possible, rise.T, np.inf)  # [source lag]
            found.lag_cost[i, j, lags] = rise[i].min()
            rise[i] = np.inf
            s, b = np.unravel_index(np.argmin(rise), rise.shape)
            if np.isfinite(rise[s, b]):
                found.cost[i, j, lags], found.rival[i, j, lags] = rise[s, b], (s, b)
                replaced = residuals_of(rate, np.concatenate([others, columns[b, s, new]]).T)
                found.lower[i, j, lags] = _bound((replaced**2 - whole**2) / total)
    return found


def partial_rivals(rows: Rows, graph: KnownGraph, required: KnownGraph, fewest: int) -> Rivals:
    """Return [`rivals`][ndde_jax.assess._rivals.rivals] from rows with missing values. Each
    candidate is compared in the rows that have it, the target and its inputs. A candidate that is
    missing in most of these counts as unobserved, and is no rival.
    """
    found, each = Rivals.none(graph), np.arange(len(graph))
    for j in np.flatnonzero((graph & ~required).any(axis=(0, 2))):
        own = graph[:, j].any(axis=1) | (each == j)
        least = max(fewest, MEASURED * len(rows.of(own).rates))
        for source in (None, *np.flatnonzero(~own)):
            some = own | (each == source)
            part, place = rows.of(some), np.ix_(some, some)
            if len(part.rates) < least:
                continue
            target, numbers = int(some[:j].sum()), np.flatnonzero(some)
            kept = np.zeros_like(graph[place])
            kept[:, target] = graph[place][:, target]
            of_part = rivals(read_inputs(part), kept, required[place])
            cost, rival = of_part.cost[:, target], of_part.rival[:, target]
            better = cost < found.cost[some, j]
            to = np.ix_(some, [j])
            number = np.where(rival[..., 0] >= 0, numbers[rival[..., 0]], -1)
            rival = np.stack([number, rival[..., 1]], axis=-1)
            for whole, new in ((found.cost, cost), (found.lower, of_part.lower[:, target])):
                whole[to] = np.where(better, new, whole[some, j])[:, None]
            found.rival[to] = np.where(better[..., None], rival, found.rival[some, j])[:, None]
            lag_cost = np.minimum(of_part.lag_cost[:, target], found.lag_cost[some, j])
            found.lag_cost[to] = lag_cost[:, None]
    return found


def _unit(columns: Float[np.ndarray, "*any row"]) -> Float[np.ndarray, "*any row"]:
    """Return columns scaled to mean 0 and length 1, or length 0 if they are constant."""
    columns = columns - columns.mean(axis=-1, keepdims=True)
    size = np.sqrt(np.einsum("...n,...n->...", columns, columns))
    return np.ascontiguousarray(columns / np.where(size > 0, size, np.inf)[..., None])


def adjacent_lags(graph: KnownGraph, lags: tuple[int, ...]) -> KnownGraph:
    """Return the edges of a source one candidate lag after another edge of it: a delay may lie
    between the two, or one is a proxy. None with fewer than three candidate lags.
    """
    found = np.zeros_like(graph)
    if len(lags) < 3:
        return found
    found[:, :, 1:] = graph[:, :, 1:] & graph[:, :, :-1]
    if lags[0] == 0:
        # A variable's decay and its feedback a little later are two separate effects.
        found[:, :, 1] &= ~np.eye(len(graph), dtype=bool)
    return found


def join_adjacent(kept: SourceLags, adjacent: SourceLags) -> list[tuple[int, list[int]]]:
    """Return the kept inputs of a target, joining those `adjacent` to the previous one: if a delay
    lies between them, neither explains much without the other.
    """
    groups: list[tuple[int, list[int]]] = []
    for i, a in np.argwhere(kept).tolist():
        if adjacent[i, a]:
            groups[-1][1].append(a)
        else:
            groups.append((i, [a]))
    return groups


def _bound(rise: Column) -> float:
    """Return the lower bound of a sum from its spread over blocks."""
    sums = np.array([part.sum() for part in np.array_split(rise, BLOCKS)])
    return float(sums.sum() - BOUND * np.sqrt(BLOCKS) * sums.std(ddof=1))
