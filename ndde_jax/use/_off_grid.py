"""Slopes of delays between the candidate lags, which a drift reads at the nearest of them."""

from typing import Any

import numpy as np
from jaxtyping import Float

from ..select._between import NEAREST, Record, fewest_windows
from ..windows._flat import KnownData
from ._arguments import edges_of_inputs


def missed_by_lags(found: Any) -> Float[np.ndarray, "source target lag"]:
    """Return by how much slopes of edges are larger if sources are read at their estimated delays
    instead of the candidate lags that the drift reads; of straight lines, 0 where a target has no
    such delay.

    A delay near enough to a candidate is read there, as no criterion asks for another input. Half
    a sample beside it a path that noise drives is already another, and its slope too small.
    """
    graph, reads = np.asarray(found.graph), np.asarray(found.reads)
    shift, windows, dt = np.zeros(graph.shape), found.windows, float(found.dt)
    delays = np.nan_to_num(np.asarray(found.delays) / dt)
    between = found.delay_resolved & (delays > NEAREST)
    data = KnownData(windows)
    if windows.scheme != "midpoint" or found.events or data.refused or not between.any():
        return shift
    record, edge = Record.of(found.samples, windows), edges_of_inputs(found)
    scale = np.asarray(windows.scaling.scale, float)
    rate_scale = np.asarray(windows.scaling.rate_scale, float)
    for target in map(int, np.flatnonzero(between.any(axis=(0, 2)))):
        lags = [(int(i), int(a)) for i, a in np.argwhere(reads[:, target])]
        place = {(i, a): int(edge[i, target, a]) for i, a in lags}
        at_lags = [data.inputs[:, a * data.dim + i] for i, a in lags]
        late = [(int(i), int(a)) for i, a in np.argwhere(between[:, target])]
        kept = [(i, a) for i, a in lags if (i, place[i, a]) not in late]
        at_delays = [record.at(i, float(delays[i, target, a]), target) for i, a in late]
        at_delays += [data.inputs[:, a * data.dim + i] for i, a in kept]
        seen = np.isfinite(np.sum(at_delays, axis=0)) & (data.weight > 0)
        if seen.sum() < fewest_windows(len(lags) + len(late)):
            continue
        root, rate = np.sqrt(data.weight[seen])[:, None], data.outputs[seen, target]

        def lines(columns, seen=seen, root=root, rate=rate):
            design = np.stack([np.ones(len(seen)), *columns], axis=1)[seen]
            return np.linalg.lstsq(root * design, root[:, 0] * rate, rcond=None)[0][1:]

        for (i, a), slope in zip(lags, lines(at_lags), strict=True):
            shift[i, target, place[i, a]] -= slope
        for (i, a), slope in zip([*late, *kept], lines(at_delays), strict=True):
            shift[i, target, a if (i, a) in late else place[i, a]] += slope
    return shift * (rate_scale[None] / scale[:, None])[..., None]
