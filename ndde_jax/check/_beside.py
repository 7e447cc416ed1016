"""What stands beside the graph of causes: hidden drivers, links at once, effects that drift."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._finding import ESTIMATED, NOTE, PROBLEM, RESERVATION, Finding

# Share of the links between variables from which on a graph is not supported: "with reservations"
# promises that four of five are true, and of links between confounded pairs hardly one is.
TOO_MANY = 0.2
# Pairs or inputs named in a line.
SHOWN = 3


def about_pairs(found: Any) -> Iterator[Finding]:
    """Findings on pairs of variables and on time, from what the inputs found leave."""
    modelled = ~np.isin(np.asarray(found.names), found.inputs)
    links = found.graph.any(axis=2) & ~np.eye(len(found.names), dtype=bool) & modelled[None]
    yield from _hidden(found, links)
    yield from _at_once(found, links, modelled)
    yield from _drifting(found, modelled)


def _hidden(found: Any, links: np.ndarray) -> Iterator[Finding]:
    held = links & found.confounded
    if not held.any():
        return
    share = float(held.sum() / links.sum())
    yield Finding(
        ESTIMATED,
        "hidden driver",
        share,
        "data-generating process",
        f"Something unseen seems to drive both of {_pairs(found, held | held.T, '<->')}: the "
        "target follows what is new in the source, and not the source, as it would if driven.",
        "Add what drives both if it was measured; read these links as common causes.",
        PROBLEM if share > TOO_MANY else RESERVATION,
    )


def _at_once(found: Any, links: np.ndarray, modelled: np.ndarray) -> Iterator[Finding]:
    pairs = found.at_once & modelled[None] & modelled[:, None]
    if not pairs.any():
        return
    # A pair that is related at once stands in for one another as sources, and passes on as targets.
    touched = links & (pairs.any(axis=1)[:, None] | pairs.any(axis=1)[None])
    share = float((links & pairs).sum() / max(links.sum(), 1))
    strongest = float(np.nanmax(np.abs(found.residual_correlation[pairs])))
    yield Finding(
        ESTIMATED,
        "links at once",
        strongest,
        "data-generating process",
        f"{_pairs(found, pairs, '--')} are related within one sampling interval (correlation up to "
        f"{strongest:.2f} of what is left of their rates): which comes first cannot be told.",
        "Sample more often; read these links as relations without a direction.",
        NOTE if not touched.any() else PROBLEM if share > TOO_MANY else RESERVATION,
    )


def _drifting(found: Any, modelled: np.ndarray) -> Iterator[Finding]:
    drifts = found.drifting & modelled[None, :, None]
    if not drifts.any():
        return
    links = list(dict.fromkeys((int(i), int(j)) for i, j, _ in np.argwhere(drifts)))
    named = ", ".join(f"{found.names[i]} -> {found.names[j]}" for i, j in links[:SHOWN])
    more = f" and {len(links) - SHOWN} more" if len(links) > SHOWN else ""
    yield Finding(
        ESTIMATED,
        "drifting link",
        float(drifts.sum() / drifts.size),
        "data-generating process",
        f"Effects change steadily over the record: {named}{more}. Links that go from one sign to "
        "the other are missing from the graph, and slopes are means.",
        "Analyse the first and the second half on their own.",
        RESERVATION,
    )


def _pairs(found: Any, pairs: np.ndarray, sign: str) -> str:
    named = [f"{found.names[i]} {sign} {found.names[j]}" for i, j in np.argwhere(np.triu(pairs, 1))]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more
