"""Rules about refits: what halves, other inputs and other differences say of a graph."""

from collections.abc import Iterator

import numpy as np

from ._finding import REFITS, SHOWN_LINKS, Hit, Limits, listed, rule
from ._graph_rules import FINITE, OF_PRICE, SUPPORT, TOO_MANY, GraphEvidence
from ._refits import RefitEvidence

# Share of half-length refits that must find an edge again, or find one that the whole has not.
STABLE = 0.5
STEP = "the grid is fine enough (ω_G of the finite-sample bound)"


def _named(base: GraphEvidence, which: np.ndarray) -> str:
    named = [f"{base.names[i]}@{base.lags[a]} → {base.names[j]}" for i, j, a in base.edges(which)]
    return listed(named, SHOWN_LINKS) or "none"


def _counted(base: GraphEvidence, which: np.ndarray) -> dict[str, int]:
    return {"count": int(which.sum()), "kept": int(base.graph.sum())}


@rule(
    "stable edges",
    REFITS,
    "{count} of {kept} edges are not found again by half of the refits on halves of the data: "
    "{lost}.",
    "Record for longer, or drop these.",
    limits=Limits(
        note=-1.0,
        reservation=0.2,
        problem=0.5,
        why="a share of the edges that are lost; half the data show weak edges half as clearly",
    ),
    theorem=FINITE,
)
def _stable(e: RefitEvidence) -> Iterator[Hit]:
    if e.stability is not None and e.base.graph.any():
        lost = e.base.graph & (np.asarray(e.stability.selected) < STABLE)
        share = float(lost.sum() / e.base.graph.sum())
        words = _counted(e.base, lost) | {"lost": _named(e.base, lost)}
        yield Hit(share, words, value=1 - share)


@rule(
    "edges of halves",
    REFITS,
    "Most halves of the data have links between variables that the whole has not: {new}.",
    "Analyse the halves on their own{second_half}.",
    limits=Limits(note=0.0, reservation=TOO_MANY, why="a share of the links between variables"),
    theorem=FINITE,
)
def _halves(e: RefitEvidence) -> Iterator[Hit]:
    if e.stability is not None:
        new = ~e.base.graph & (np.asarray(e.stability.selected) > STABLE)
        # Another lag of a link, or of a variable's own past, is the same link.
        new &= ~(e.base.pairs | np.eye(len(e.base.names), dtype=bool))[:, :, None]
        words = {"new": _named(e.base, new), "second_half": e.base.second_half}
        yield Hit(float(new.sum() / max(e.base.pairs.sum(), 1)), words)


@rule(
    "replaceable lags",
    REFITS,
    "Another lag of the same source would do as well in {count} of {kept} edges: {edges}.",
    "Read these lags as intervals.",
    limits=Limits(note=0.0, why="the source is right all the same"),
    theorem=SUPPORT,
)
def _lags(e: RefitEvidence) -> Iterator[Hit]:
    if e.base.graph.any():
        least = e.base.relations.rivals.lag_cost
        close = e.base.graph & (least < OF_PRICE * e.base.price[None, :, None])
        words = _counted(e.base, close) | {"edges": _named(e.base, close)}
        yield Hit(float(close.sum() / e.base.graph.sum()), words)


@rule(
    "smallest joint strength",
    REFITS,
    "What sources say of a rate that all other variables together, at all lags, do not: less than "
    "half the price of an edge for {pairs}.",
    "Drop one of those that say the same, or say which with prior_knowledge.",
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


@rule(
    "edges that change with the step",
    REFITS,
    "Differences over two steps bring other links between variables: new {new}; gone {gone}.",
    "Sample more often; new links are likely artefacts of the step.",
    limits=Limits(note=-1.0, reservation=0.5, why="half of the links between variables"),
    theorem=STEP,
)
def _step(e: RefitEvidence) -> Iterator[Hit]:
    yield from _changed(e, e.thinned)


@rule(
    "edges that change with the scheme",
    REFITS,
    "Another difference scheme brings other links between variables: new {new}; gone {gone}.",
    "Sample more often.",
    limits=Limits(note=-1.0, why="a scheme that does not fit the noise says nothing of the data"),
    theorem=STEP,
)
def _scheme(e: RefitEvidence) -> Iterator[Hit]:
    yield from _changed(e, e.other_scheme)


def _changed(e: RefitEvidence, graph: np.ndarray | None) -> Iterator[Hit]:
    if graph is None:
        return
    apart = ~np.eye(len(e.base.names), dtype=bool)
    now, then = e.base.pairs, graph.any(axis=2) & apart & e.base.modelled[None]
    new, gone = then & ~now, now & ~then
    words = {"new": e.base.pairs_listed(new, "→"), "gone": e.base.pairs_listed(gone, "→")}
    words = {key: said or "none" for key, said in words.items()}
    yield Hit(float((new | gone).sum() / max(now.sum(), 1)), words)


@rule(
    "share outside the box",
    REFITS,
    "{share:.0%} of a rollout of the drift without noise, from a state of the data, is outside the "
    "box of the data.",
    "Fit it again with another key.",
    limits=Limits(note=-1.0, reservation=0.5, why="such a drift does not stay where the data are"),
    theorem="ergodicity (delay-adapted dissipativity)",
)
def _outside(e: RefitEvidence) -> Iterator[Hit]:
    if e.outside is not None:
        outside = e.outside if np.isfinite(e.outside) else 1.0
        yield Hit(outside, {"share": outside})
