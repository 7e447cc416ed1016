"""The checks of an identifiability report that refit: halves, replacements, other differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..fit._prices import AbstractPrice
from ..fit._refit import StrengthConfig
from ..measure._rivals import RivalEdges, joint_strengths, rival_edges
from ..measure._stability import edge_stability, find_again
from ..select._strategy import AbstractStrategy
from ..windows._thin import first_rows, is_regular, thin_windows
from ..windows._windows import Windows
from ._checks import ASSUMED, MEASURED, Notes, only
from ._paper_strengths import complement_strengths

# Share of half-length refits that must find an edge again.
STABLE = 0.5
# Candidate inputs up to which networks of all of them are fitted.
MOST_INPUTS = 40


class FoundBy(NamedTuple):
    """How graphs are found again, and the settings of refits of networks."""

    strategy: AbstractStrategy | Callable
    price: AbstractPrice | None
    config: StrengthConfig | None


def refits(
    notes: Notes,
    windows: Windows,
    price: np.ndarray,
    found_by: FoundBy,
    seeds: int,
    keys,
    progress: bool,
    alone: np.ndarray | None,
) -> dict[str, Any]:
    """Add what refits find to `notes`; returns the fields of the report that hold their results.

    `price` of an edge per target; `keys` are four; `alone` is what `edges_alone` returned.
    """
    graph, config = notes.graph, found_by.config
    extra: dict[str, Any] = {}
    recovery = "finite-sample recovery"
    used = int(windows.n_valid)
    if used // 2 >= windows.dim + 1:
        extra["stability"] = stability = edge_stability(
            windows,
            key=keys[0],
            seeds=seeds,
            strategy=found_by.strategy,
            price=found_by.price,
            progress=progress,
        )
        found = np.asarray(stability.selected)
        unstable = graph & (found < STABLE)
        n_edges = max(int(graph.sum()), 1)
        notes.add(
            MEASURED,
            "stable edges",
            float((graph & ~unstable).sum() / n_edges),
            recovery,
            f"share of the edges that at least {STABLE:.0%} of {len(stability.graphs)} refits on "
            "halves of the data select again.",
        )
        missed = ~graph & (found > STABLE)
        if unstable.sum() > graph.sum() / 2:
            notes.problems.append(
                f"{unstable.sum()} of {graph.sum()} edges are not found again on halves of the "
                "data."
            )
        elif unstable.any():
            notes.reservations.append(
                f"Not found again on most halves of the data: {notes.edges(unstable)}."
            )
        if missed.any():
            notes.reservations.append(
                f"Found on most halves of the data but not on all of them: {notes.edges(missed)}."
            )
    if graph.any():
        extra["rivals"] = rivals = rival_edges(windows, graph, key=keys[1], config=config)
        about_rivals(notes, rivals, price)
        extra["joint"] = _about_redundancy(notes, windows, price, config, keys[3], alone)
    if is_regular(windows):
        extra |= _other_differences(notes, windows, found_by, keys[2])
    return extra


def about_rivals(notes: Notes, rivals: RivalEdges, price: np.ndarray) -> None:
    """Edges that another input could take over for less than the price of an edge."""
    cost = np.asarray(rivals.cost)
    limit = price[None, :, None]
    ambiguous = notes.graph & (cost < limit)
    n_edges = int(notes.graph.sum())
    notes.add(
        MEASURED,
        "replaceable edges",
        float(ambiguous.sum() / n_edges),
        "faithfulness",
        "share of the edges that an input of another variable replaces at less than the price of "
        "an edge.",
    )
    if ambiguous.any():
        i, j, a = np.argwhere(ambiguous)[0]
        source, lag = np.asarray(rivals.rival)[i, j, a]
        notes.problems.append(
            f"{ambiguous.sum()} of {n_edges} edges could as well come from another variable, for "
            f"example {notes.edges(only(cost.shape, (i, j, a)))} from {notes.names[source]}@"
            f"{notes.lags[lag]} (cost {cost[i, j, a]:.2g}, price {price[j]:.2g}): these inputs are "
            "functions of one another in the data. Drop one, or say which with prior_knowledge."
        )
    lag_cost = np.asarray(rivals.lag_cost)
    blurred = [
        (i, j, a, np.flatnonzero(lag_cost[i, j, a] < price[j]))
        for i, j, a in np.argwhere(notes.graph)
    ]
    blurred = [entry for entry in blurred if len(entry[3])]
    if blurred:
        texts = [
            f"{notes.edges(only(cost.shape, (i, j, a)))} (or lag "
            f"{', '.join(str(notes.lags[b]) for b in others)})"
            for i, j, a, others in blurred[:4]
        ]
        more = f" and {len(blurred) - 4} more" if len(blurred) > 4 else ""
        notes.reservations.append(
            f"Another lag of the same source would do as well: {'; '.join(texts)}{more}."
        )


def edges_alone(
    windows: Windows, graph: np.ndarray, config: StrengthConfig | None, key: PRNGKeyArray
) -> np.ndarray | None:
    """Strengths of the edges of a graph against all other candidates, the paper's; None for more
    candidates than one network takes, or without edges.
    """
    if windows.dim * windows.n_lags > MOST_INPUTS or not graph.any():
        return None
    config = StrengthConfig() if config is None else config
    return np.asarray(complement_strengths(windows, jnp.asarray(graph), config, key)[0])


def _about_redundancy(notes, windows, price, config, key, alone) -> np.ndarray | None:
    """Drivers that all other variables together say anyway."""
    n_inputs = windows.dim * windows.n_lags
    theorem = "full support of the occupation measure"
    if n_inputs > MOST_INPUTS:
        notes.add(
            ASSUMED,
            "smallest joint strength",
            "not measured",
            theorem,
            f"that is for at most {MOST_INPUTS} candidate inputs.",
        )
        return None
    if windows.n_lags == 1 and alone is not None:  # a source is an edge
        joint = alone[:, :, 0]
    else:
        joint = np.asarray(joint_strengths(windows, notes.graph, key=key, config=config))
    notes.add(
        MEASURED,
        "smallest joint strength",
        float(np.nanmin(joint)),
        theorem,
        "what the other variables together, at all lags, cannot replace of a source, its own lags "
        "taken together.",
    )
    lost = joint < price[None]
    if lost.any():
        pairs = ", ".join(
            f"{notes.names[i]} -> {notes.names[j]} ({joint[i, j]:.2g})"
            for i, j in np.argwhere(lost)[:4]
        )
        notes.problems.append(
            f"{lost.sum()} of {np.isfinite(joint).sum()} drivers say less than the price of an "
            f"edge beyond what all other variables say together: {pairs}. Along these data they "
            "are functions of the others, and the graph is the sparsest of several that fit."
        )
    return joint


def _other_differences(notes, windows, found_by, key) -> dict[str, np.ndarray]:
    """Edges that come or go with the step or the scheme of the differences."""
    graph = notes.graph
    found: dict[str, Any] = {}
    if windows.scheme == "midpoint":
        notes.add(
            ASSUMED,
            "edges that change with the step",
            "untested",
            "the grid is fine enough (ω_G of the finite-sample bound)",
            "midpoint windows hold states between samples; discover again with scheme 'euler', and "
            "on every second sample, to compare.",
        )
        return found
    half = int(windows.n_valid) // 2
    other = "central" if windows.scheme != "central" else "euler"
    changes = {
        "thinned": ("edges that change with the step", 2, None, "over two steps"),
        "other_scheme": ("edges that change with the scheme", 1, other, f"by {other!r}"),
    }
    for name, (title, factor, scheme, words) in changes.items():
        try:
            changed = thin_windows(windows, factor, scheme=scheme)
        except ValueError:
            continue
        # Of the length of the halves, and of the whole: shapes that are compiled already.
        length = half if factor == 2 else windows.valid.shape[0]
        changed = first_rows(changed, length)
        again, _ = find_again(changed, found_by.strategy, found_by.price, key)
        selected = np.asarray(again)
        found[name] = selected
        new, gone = selected & ~graph, graph & ~selected
        notes.add(
            MEASURED,
            title,
            float(new.sum() + gone.sum()),
            "the grid is fine enough (ω_G of the finite-sample bound)",
            f"with differences {words}: new {notes.edges(new) or 'none'}; gone "
            f"{notes.edges(gone) or 'none'}.",
        )
        if new.any() or gone.any():
            extra = f"; new, so likely artefacts of it: {notes.edges(new)}" if new.any() else ""
            lost = f"; gone: {notes.edges(gone)}" if gone.any() else ""
            notes.reservations.append(f"The graph changes with differences {words}{extra}{lost}.")
    return found
