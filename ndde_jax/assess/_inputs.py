"""Columns of the inputs that a graph keeps, and of what a source had before it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ._rows import OWN_PAST, Rows, bends, tested

# Kept inputs of a target up to which their products are columns too.
MULTIPLIED = 5


class Inputs(NamedTuple):
    """Columns of all candidate inputs, computed once: `line` as it is and `bend` for regressions,
    `test` to be tested.
    """

    rows: Rows
    line: Float[np.ndarray, "row lag dim"]
    bend: Float[np.ndarray, "row lag dim column"]
    test: Float[np.ndarray, "row lag dim column"]


def read_inputs(rows: Rows) -> Inputs:
    """Return all columns of all candidates."""
    return Inputs(rows, rows.past, bends(rows.past), tested(rows.past))


def kept_columns(
    inputs: Inputs, kept: Bool[np.ndarray, "source lag"], *, own: int | None = None
) -> Float[np.ndarray, "row column"]:
    """Return the columns of a target's inputs: lines, bends and, of a few, products; `own`, it, is
    given at the first lag as a line at least.
    """
    n = len(inputs.line)
    places = [(int(i), int(a)) for i, a in np.argwhere(kept)]
    line = [inputs.line[:, a, i] for i, a in places]
    columns = [np.stack(line, axis=1)] if line else []
    columns += [inputs.bend[:, a, i] for i, a in places]
    if 1 < len(places) <= MULTIPLIED:
        columns += [(line[k] * line[m])[:, None] for k in range(len(line)) for m in range(k)]
    if own is not None and (own, 0) not in places:
        columns.append(inputs.line[:, 0, own][:, None])
    return np.concatenate(columns, axis=1) if columns else np.zeros((n, 0))


def earlier(
    inputs: Inputs, graph: Bool[np.ndarray, "source target lag"], source: int, lag: int
) -> tuple[Float[np.ndarray, "row column"], Bool[np.ndarray, "row"]]:
    """Return what a source was made of `lag` samples ago, and the rows that have such a past.

    Its own samples before that and its kept inputs then.
    """
    rows = inputs.rows
    first = rows.before(lag + rows.step)
    second = rows.before(lag + OWN_PAST * rows.step)
    there = (first >= 0) & (second >= 0)
    columns = [inputs.line[first, 0, source], inputs.line[second, 0, source]]
    columns += list(inputs.test[first, 0, source, 1:].T)
    places = np.argwhere(graph[:, source])
    columns += [inputs.line[first, a, i] for i, a in places if (i, a) != (source, 0)]
    return np.stack(columns, axis=1), there
