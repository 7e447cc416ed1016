"""Refits on halves, other inputs and other differences, a rollout, and the rules about them."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._wording import listed
from ..assess._score import Inputs, residuals_of
from ..fit._prices import AbstractPrice
from ..measure._stability import EdgeStability, edge_stability, find_again
from ..models._confine import RestoredDDE, confine
from ..models._model import AbstractDelayModel
from ..select._strategies import AbstractStrategy
from ..simulate._solve import solve_sdde
from ..windows._windows import Windows, first_rows, is_regular, thin_windows
from ._finding import REFITS, SHOWN_LINKS, Hit, Limits, rules_about
from ._graph_rules import FINITE, OF_PRICE, SUPPORT, TOO_MANY, GraphEvidence

# Fewest rows per column of a regression on all candidates.
ROWS = 5
# Largest number of steps of a rollout.
STEPS = 5000


@dataclasses.dataclass(frozen=True)
class Finder:
    """A way to find graphs again: by a `strategy`, at a `price`, `seeds` times on each half."""

    strategy: AbstractStrategy | Callable
    price: AbstractPrice | None
    seeds: int
    progress: bool


@dataclasses.dataclass(frozen=True, eq=False)
class RefitEvidence:
    """The input of rules about refits; None for refits that were not made.

    - `base`: the graph and its data.
    - `stability`: graphs of halves of the record.
    - `joint`: share of a rate explained only by a source, `[source target]`.
    - `thinned`, `other_scheme`: graphs of differences over two steps, and of another scheme.
    - `outside`: share of a rollout of the drift outside the box of the data.
    """

    base: GraphEvidence
    stability: EdgeStability | None = None
    joint: np.ndarray | None = None
    thinned: np.ndarray | None = None
    other_scheme: np.ndarray | None = None
    outside: float | None = None


def refit(base: GraphEvidence, inputs: Inputs, finder: Finder, key: PRNGKeyArray) -> RefitEvidence:
    """Return the results of the refits."""
    windows, keys = base.windows, jr.split(key)
    stability = None
    if int(windows.n_valid) // 2 >= windows.dim + 1:
        stability = edge_stability(windows, key=keys[0], **vars(finder))
    thinned, other = _other_differences(base, finder, keys[1])
    return RefitEvidence(
        base=base,
        stability=stability,
        joint=shares_beyond_others(inputs, base, whole_sources=True),
        thinned=thinned,
        other_scheme=other,
        outside=share_outside(base.model, windows) if 0 in windows.lags else None,
    )


def shares_beyond_others(
    inputs: Inputs, base: GraphEvidence, *, whole_sources: bool
) -> np.ndarray | None:
    """Return the share of a rate's variance that an edge, `[source target lag]`, or all lags of a
    source, `[source target]`, explain given all other candidates, minus the share expected by
    chance. NaN without an edge; None if there are too many candidates for the rows.
    """
    columns, graph = _columns(inputs), base.graph
    n, rates = columns.shape[-1], inputs.rows.rates
    for width in (columns.shape[2], 1):  # lines alone if rows are too few for all terms
        if columns.shape[0] * columns.shape[1] * width * ROWS <= n:
            columns = columns[:, :, :width]
            break
    else:
        return None
    share = np.full(graph.shape, np.nan)
    allowed = inputs.rows.allowed
    for i, j, a in np.argwhere(graph).tolist():
        others = allowed[:, j].copy()
        others[i, slice(None) if whole_sources else a] = False
        rate, given = rates[:, j], _gathered(columns, others)
        tested = graph[:, j] & ~others & allowed[:, j] if whole_sources else None
        added = np.concatenate([given, _gathered(columns, tested)], 1) if whole_sources else (
            np.concatenate([given, columns[a, i].T], axis=1)
        )  # fmt: skip
        before, after = (residuals_of(rate, c) for c in (given, added))
        count = added.shape[1] - given.shape[1]
        noise = after @ after / max(n - added.shape[1] - 1, 1)
        share[i, j, a] = (before @ before - after @ after - count * noise) / (rate @ rate)
    if not whole_sources:
        return share
    return np.where(graph.any(axis=2), np.nanmax(np.nan_to_num(share, nan=-np.inf), axis=2), np.nan)


def share_outside(model: AbstractDelayModel, windows: Windows) -> float:
    """Return the share of a rollout of the drift without noise that is outside the data's box."""
    confined = model if isinstance(model, RestoredDDE) else confine(model, windows=windows)
    row = int(np.argmax(np.asarray(windows.valid)))
    scaling = windows.scaling
    state = windows.history[row, windows.lags.index(0)] * scaling.scale + scaling.center
    # Forward differences describe a map. Central ones describe a rate, which needs shorter steps.
    parts = 1 if windows.scheme == "euler" else 4
    steps = parts * min(int(windows.n_valid), STEPS)
    path = solve_sdde(
        confined, history=state, n_steps=steps, dt=confined.dt / parts, save_every=parts
    )
    distance = jnp.abs(path.ys - confined.center[None])
    return float(jnp.mean(~jnp.all(distance <= confined.radius[None], axis=1)))


def _other_differences(
    base: GraphEvidence, finder: Finder, key: PRNGKeyArray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the graphs of differences over two steps and of another scheme; None without them."""
    windows = base.windows
    if not base.flow or not is_regular(windows) or windows.scheme == "midpoint":
        return None, None  # a map has no step; midpoints hold states between samples
    other = "central" if windows.scheme != "central" else "euler"
    # The lengths of a half and of the whole record: these shapes are already compiled.
    asked = ((2, None, int(windows.n_valid) // 2), (1, other, windows.valid.shape[0]))
    found: list[np.ndarray | None] = []
    for factor, scheme, length in asked:
        try:
            changed = first_rows(thin_windows(windows, factor, scheme=scheme), length)
        except ValueError:
            found.append(None)
            continue
        found.append(np.asarray(find_again(changed, finder.strategy, finder.price, key)[0]))
    return found[0], found[1]


def _columns(inputs: Inputs) -> Float[np.ndarray, "lag source column row"]:
    """Return the centred lines and Hermite terms of every candidate."""
    columns = np.concatenate([inputs.line[..., None], inputs.hermite], axis=-1)
    columns = np.ascontiguousarray(np.moveaxis(columns, 0, -1))
    return columns - columns.mean(axis=-1, keepdims=True)


def _gathered(
    columns: Float[np.ndarray, "lag source column row"], which: Bool[np.ndarray, "source lag"]
) -> Float[np.ndarray, "row some"]:
    return columns[which.T].reshape(-1, columns.shape[-1]).T


# Share of half-length refits that must find an edge of the whole record, or one that it lacks.
STABLE = 0.5
STEP = "the grid is fine enough (ω_G of the finite-sample bound)"

refit_rule = rules_about(REFITS, theorem=FINITE)


def _named(base: GraphEvidence, which: np.ndarray) -> str:
    return listed(map(base.label, base.edges(which)), SHOWN_LINKS) or "none"


def _counted(base: GraphEvidence, which: np.ndarray) -> dict[str, Any]:
    count = int(which.sum())
    return {"count": count, "kept": int(base.graph.sum()), "are": "is" if count == 1 else "are"}


@refit_rule(
    "stable edges",
    "{count} of {kept} edges {are} not found again by half of the refits on halves of the data: "
    "{lost}.",
    "Record for longer, or drop these.",
    limits=Limits(
        note=-1.0,
        reservation=0.2,
        problem=0.5,
        why="the share of the edges lost; half the data show weak edges half as clearly",
    ),
)
def _stable(e: RefitEvidence) -> Iterator[Hit]:
    if e.stability is not None and e.base.graph.any():
        lost = e.base.graph & (np.asarray(e.stability.selected) < STABLE)
        share = float(lost.sum() / e.base.graph.sum())
        words = _counted(e.base, lost) | {"lost": _named(e.base, lost)}
        yield Hit(share, words, value=1 - share)


@refit_rule(
    "edges of halves",
    "Most halves of the data have links between variables that the whole record lacks: {new}.",
    "Analyse the halves separately{second_half}.",
    limits=Limits(note=0.0, reservation=TOO_MANY, why="a share of the links between variables"),
)
def _halves(e: RefitEvidence) -> Iterator[Hit]:
    if e.stability is not None:
        new = ~e.base.graph & (np.asarray(e.stability.selected) > STABLE)
        # Another lag of a link, or of a variable's own past, counts as the same link.
        new &= ~(e.base.foretelling | np.eye(len(e.base.names), dtype=bool))[:, :, None]
        words = {"new": _named(e.base, new), "second_half": e.base.second_half}
        yield Hit(float(new.sum() / max(e.base.pairs.sum(), 1)), words)


@refit_rule(
    "replaceable lags",
    "In {count} of {kept} edges, another lag of the same source would do as well: {edges}.",
    "Read these lags as intervals.",
    limits=Limits(note=0.0, why="the source is still right"),
    theorem=SUPPORT,
)
def _lags(e: RefitEvidence) -> Iterator[Hit]:
    if e.base.graph.any():
        least = e.base.relations.rivals.lag_cost
        close = e.base.graph & (least < OF_PRICE * e.base.price[None, :, None])
        words = _counted(e.base, close) | {"edges": _named(e.base, close)}
        yield Hit(float(close.sum() / e.base.graph.sum()), words)


@refit_rule(
    "smallest joint strength",
    "Share of a rate that its source explains but all other variables together, at all lags, do "
    "not: below half the price of an edge for {pairs}.",
    "Drop one of the variables with the same information, or choose with prior_knowledge.",
    limits=Limits(
        note=-1.0,
        reservation=0.0,
        problem=TOO_MANY,
        why="a share of the links: the graph is then the sparsest of several that fit",
    ),
    theorem=SUPPORT,
)
def _joint(e: RefitEvidence) -> Iterator[Hit]:
    if e.joint is None or not np.isfinite(e.joint).any():
        return
    known = np.isfinite(e.joint)
    with np.errstate(invalid="ignore"):
        lost = known & (e.joint < OF_PRICE * e.base.price[None])
    words = {"pairs": e.base.pairs_listed(lost, "→") or "none"}
    yield Hit(float(lost.sum() / known.sum()), words, value=float(np.nanmin(e.joint)))


@refit_rule(
    "edges that change with the step",
    "Differences over two steps change the links between variables: new {new}; gone {gone}.",
    "Sample more often; new links are probably artefacts of the step.",
    limits=Limits(note=-1.0, reservation=0.5, why="half of the links between variables"),
    theorem=STEP,
)
def _step(e: RefitEvidence) -> Iterator[Hit]:
    yield from _changed(e, e.thinned)


@refit_rule(
    "edges that change with the scheme",
    "Another difference scheme changes the links between variables: new {new}; gone {gone}.",
    "Sample more often.",
    limits=Limits(note=-1.0, why="a scheme that does not suit the noise says nothing of the data"),
    theorem=STEP,
)
def _scheme(e: RefitEvidence) -> Iterator[Hit]:
    yield from _changed(e, e.other_scheme)


def _changed(e: RefitEvidence, graph: np.ndarray | None) -> Iterator[Hit]:
    if graph is None:
        return
    apart = ~np.eye(len(e.base.names), dtype=bool)
    now, then = e.base.pairs, graph.any(axis=2) & apart & e.base.modelled[None]
    new, gone = then & ~e.base.foretelling, now & ~then
    words = {"new": e.base.pairs_listed(new, "→"), "gone": e.base.pairs_listed(gone, "→")}
    words = {key: said or "none" for key, said in words.items()}
    yield Hit(float((new | gone).sum() / max(now.sum(), 1)), words)


@refit_rule(
    "share outside the box",
    "{share:.0%} of a rollout of the drift without noise, from a state of the data, lies outside "
    "the box of the data.",
    "Fit it again with another key.",
    limits=Limits(note=-1.0, reservation=0.5, why="such a drift does not stay where the data are"),
    theorem="ergodicity (delay-adapted dissipativity)",
)
def _outside(e: RefitEvidence) -> Iterator[Hit]:
    if e.outside is not None:
        outside = e.outside if np.isfinite(e.outside) else 1.0
        yield Hit(outside, {"share": outside})
