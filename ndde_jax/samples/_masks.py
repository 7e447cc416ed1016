"""Masks of the samples that may be the present of a window, such as those of winters only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import refusal, shown
from ._cells import MISSING, to_float

EXPECTED = "booleans, one per sample, [time] (a list of arrays for several trajectories)"


def read_mask(mask: Any, lengths: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Return one bool array per trajectory; an empty sequence if every sample counts.

    **Raises:** `ValueError` for anything but booleans, for another number of samples, and if no
    sample is in.
    """
    if mask is None:
        return ()
    parts = _parts(mask, len(lengths))
    remedy = "Write a condition on the samples, such as np.isin(month, (12, 1, 2))."
    if not parts or any(part.dtype != bool for part in parts):
        raise refusal("mask", EXPECTED, mask, remedy)
    if len(parts) == 1 and len(set(lengths)) == 1:
        parts = parts * len(lengths)
    if [part.shape for part in parts] != [(n,) for n in lengths]:
        shapes = ", ".join(str(part.shape) for part in parts[:6])
        listed = ", ".join(map(str, lengths[:6]))
        raise ValueError(
            f"mask must hold one boolean per sample, for trajectories of {listed} samples; got "
            f"shapes {shapes}."
        )
    if not any(part.any() for part in parts):
        raise ValueError("mask must be True somewhere: it leaves no sample as a present.")
    return () if all(part.all() for part in parts) else tuple(parts)


def _parts(mask: Any, count: int) -> list[np.ndarray]:
    """Return the arrays, not yet checked; empty if there are none."""
    if isinstance(mask, str | bytes | Mapping):
        return []
    try:
        many = isinstance(mask, list | tuple) and any(np.ndim(part) > 0 for part in mask)
        parts = [np.asarray(part) for part in (list(mask) if many else [mask])]
    except (TypeError, ValueError):  # nested unevenly
        return []
    if not many and parts[0].ndim == 2 and len(parts[0]) == count:
        return list(parts[0])
    return parts


def mask_at(
    mask: tuple[np.ndarray, ...], times: Sequence[np.ndarray], new: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Return the mask at other times: its value at the nearest sample."""
    return tuple(
        m[np.clip(np.searchsorted((t[1:] + t[:-1]) / 2, at), 0, len(m) - 1)]
        for m, t, at in zip(mask, times, new, strict=True)
    )


def said_of_mask(mask: tuple[np.ndarray, ...], n_rows: int, n_left: int) -> tuple[str, ...]:
    """Return a sentence on the mask for a report."""
    if not mask:
        return ()
    inside, every = sum(int(part.sum()) for part in mask), sum(map(len, mask))
    return (
        f"Only the {inside} of {every} samples in the mask serve as the present of a window: "
        f"{n_left} of {n_rows} windows are left, whose past is read from everywhere. Seasons, "
        "trends, noise and measurement errors are estimated on the whole record, and passing "
        "events are not looked for.",
    )


# ---- in files ----


def rows_with(file: str, columns: Any, only: Sequence[tuple[str, tuple[str, ...]]]):
    """Return the rows of a frame in which each given column has one of its values, bool `[row]`.

    Cells are compared as numbers where both are numbers, else as they are written.

    **Raises:** `ValueError` for a column that is not there, and a value that no row has.
    """
    inside = np.ones(len(columns), bool)
    for name, values in only:
        if name not in columns:
            listed = ", ".join(list(columns)[:20])
            raise ValueError(f"--only: {file} has no column {name!r}; it has: {listed}.")
        cells = [_comparable(cell) for cell in columns[name]]
        wanted = {_comparable(value): value for value in values}
        seen = set(cells)
        if absent := [value for cell, value in wanted.items() if cell not in seen]:
            some = ", ".join(dict.fromkeys(str(cell).strip() for cell in columns[name][:2000]))
            raise ValueError(
                f"--only: no row of {file} has {absent[0]!r} in column {name!r}; it holds: "
                f"{some if len(some) < 80 else some[:76] + ' ...'}."
            )
        inside &= np.array([cell in wanted for cell in cells])
    return inside


def rows_of_months(file: str, stamps: np.ndarray | None, months: Sequence[int]) -> np.ndarray:
    """Return the rows whose date is in one of these months, 1 to 12, bool `[row]`.

    **Raises:** `ValueError` if the time column holds no dates.
    """
    if stamps is None or not np.issubdtype(stamps.dtype, np.datetime64):
        raise ValueError(
            f"--months needs a time column with dates; that of {file} "
            + ("is missing." if stamps is None else f"begins with {shown(stamps[0])}.")
            + " Name a column of months with --only month=12,1,2."
        )
    month = stamps.astype("datetime64[M]").astype(int) % 12 + 1
    return np.isin(month, list(months))


def _comparable(cell: Any) -> Any:
    if cell is None or str(cell).strip().lower() in MISSING:
        return None
    number = to_float(str(cell).strip())
    return str(cell).strip() if number is None else number
