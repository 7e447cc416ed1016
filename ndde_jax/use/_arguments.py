"""Arguments of callers: time spans in samples, variables by name, edges and their inputs."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._checks import argument_error, check_kind, check_real_array, check_whole, short_repr
from .._types import namespace_of
from ..samples._dates import unit_ratio
from ..select._between import edge_of_reads

# A number with an optional unit.
SPAN_PATTERN = re.compile(r"\s*\+?((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ]*)\s*")


def read_span(value: Any, found: Any, name: str, least: int = 1) -> int:
    """Return a span in samples, from a whole number or a time with its unit such as "6h".

    **Raises:** `ValueError` for anything else, a unit that cannot be compared with that of the
    data, and a time that is not a whole number of samples.
    """
    if not isinstance(value, str):
        check_whole(value, name, least=least)
        return int(value)
    match = SPAN_PATTERN.fullmatch(value)
    if match is None or not np.isfinite(float(match[1])):
        raise argument_error(name, "samples, or a time with its unit such as '6h'", value)
    number, own = float(match[1]), found.time_unit
    if match[2]:
        ratio = unit_ratio(match[2], own)
        if ratio is None and all(unit_ratio(match[2], u) is None for u in ("second", "month")):
            expected = "expected one such as 'h', 'day' or 'month', or samples without a unit."
            raise ValueError(f"{name}={value!r}: {match[2]!r} is not a unit of time; {expected}")
        if ratio is None:
            said = f"in {own!r}" if own else "without a unit of time"
            remedy = "in samples or in that unit" if own else "in samples"
            raise ValueError(
                f"{name}={value!r} cannot be converted: the times of the data are {said}. Give it "
                f"{remedy}."
            )
        number *= ratio / float(found.dt)
    samples = round(number)
    if abs(samples - number) > 1e-3 * max(1.0, number) ** 0.5 or samples < least:
        unit = f" {own}" if own else ""
        raise ValueError(
            f"{name} must be a whole number of samples, at least {least}; {value!r} is "
            f"{number:.4g} samples of {found.dt:.6g}{unit}."
        )
    return samples


def mapping(value: Any, name: str, what: str) -> dict:
    """Return the given mapping, empty for None; `what` says from what to what.

    **Raises:** `ValueError` for anything else.
    """
    if value is None:
        return {}
    check_kind(value, Mapping, name, f"a mapping from {what}")
    return dict(value)


def series(value: Any, name: str, steps: int) -> Float[Array | np.ndarray, "sample"]:
    """Return values from sample 0 on, from a number or `[horizon]` numbers.

    **Raises:** `ValueError` for anything else.
    """
    check_real_array(value, name, "a number, or one per step of the horizon", finite=True)
    xp = namespace_of(value)
    value = xp.asarray(value, float)
    if value.shape not in ((), (steps,)):
        raise ValueError(
            f"{name} must be a number, or [horizon] = ({steps},) of them; got shape {value.shape}."
        )
    value = xp.broadcast_to(value, (steps,))
    return xp.concatenate([value[:1], value])


def variable(value: Any, found: Any, name: str) -> int:
    """Return the index of a variable given by its name, transformed label or index."""
    names = tuple(found.names)
    for known in (names, tuple(found.samples.labels)):
        if isinstance(value, str) and value in known:
            return known.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if -len(names) <= value < len(names):
            return int(value) % len(names)
    raise ValueError(
        f"{name} must be one of {', '.join(names)}, or an index below {len(names)}; got "
        f"{short_repr(value)}."
    )


def kept_lags(found: Any, i: int, j: int, lag: Any, name: str, without: str) -> np.ndarray:
    """Return the positions of the kept lags of an edge, or of the given lag.

    **Raises:** `ValueError` for an edge that was not kept (`without` says the consequence), and for
    a lag at which it was not kept.
    """
    kept, said = np.flatnonzero(found.graph[i, j]), f"{found.names[i]} -> {found.names[j]}"
    if not len(kept):
        raise ValueError(f"{said} is not an edge of the graph, so {without}.")
    if lag is None:
        return kept
    if isinstance(lag, bool) or not isinstance(lag, int | np.integer):
        raise argument_error(name, "a lag in samples", lag)
    here = kept[np.asarray(found.lags)[kept] == lag]
    if not len(here):
        listed = ", ".join(str(found.lags[a]) for a in kept)
        raise ValueError(f"{name}: {said} has lags of {listed} samples; got {short_repr(lag)}.")
    return here


def edges_of_inputs(
    found: Any, pair: Any = ..., *, beside: bool = False
) -> Int[np.ndarray, "*pair lag"]:
    """Return the position of the lag of the edge that each input of the model belongs to, −1 for no
    input; for all pairs, `[source target lag]`, or for one, `[lag]`. An edge whose delay lies
    between candidates has several inputs. With `beside`, lags next to an edge count as well.
    """
    candidates = float(found.dt) * np.asarray(found.lags, float)
    # A map reads each edge at its own lag. Its other inputs are links passed on within an interval.
    reads = found.reads if found.moves_between_samples else found.graph
    reads, graph, delays = (np.array(part)[pair] for part in (reads, found.graph, found.delays))
    if beside:
        reads |= neighbours(graph)
    return edge_of_reads(reads, graph, delays, candidates)


def neighbours(graph: Bool[np.ndarray, "*batch lag"]) -> Bool[np.ndarray, "*batch lag"]:
    """Return the candidates one lag before and after each edge."""
    padded = np.pad(graph, [*[(0, 0)] * (graph.ndim - 1), (1, 1)])
    return padded[..., :-2] | padded[..., 2:]


def inputs_of(found: Any, i: int, j: int, a: int) -> Bool[np.ndarray, " lag"]:
    """Return the lags at which the model reads the source of one edge."""
    return edges_of_inputs(found, (i, j)) == a


def sum_to_edges(
    found: Any, values: Float[np.ndarray, "*batch source target lag"]
) -> Float[np.ndarray, "*batch source target lag"]:
    """Return sums over the inputs of each edge and neighbouring lags, at the edge; 0 elsewhere.

    On a half of the data, a lag next to an edge is often a proxy for it.
    """
    edge, sums = edges_of_inputs(found, beside=True), np.zeros(np.shape(values))
    for i, j, lag in np.argwhere(edge >= 0):
        sums[..., i, j, edge[i, j, lag]] += values[..., i, j, lag]
    return sums
