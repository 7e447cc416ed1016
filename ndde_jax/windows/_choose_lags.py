"""The default choice of candidate lags, from the memory that samples have of one another."""

import numpy as np
from jaxtyping import Float

from .._checks import refusal
from .._spoken import amount, time_span
from .._types import Checked
from ..samples._columns import correlation_time
from ..samples._gaps import bridged
from ..samples._samples import Samples
from ..samples._trajectories import transposed_hint

# Candidates, variables × lags, up to which no lag is left out; most lags where some are, and most
# lags that the search adds to the present.
FULL, MOST, ADDED = 150, 16, 7
# Standard errors from which on a correlation at a lag is one, over all lags and pairs, and the
# least share of a variance it must explain.
CLEAR, LEAST = 5.0, 0.005
# Largest lag looked at, as a share of the record, and in samples.
SHARE, FURTHEST = 0.1, 400
# Fewest windows, and samples of the longest recording beyond the largest lag; and variables from
# which on there must be more windows than candidate inputs.
FEWEST, LONGEST, MANY = 10, 8, 50


def choose_lags(samples: Checked[Samples]) -> tuple[tuple[int, ...], str]:
    """Return candidate lags for samples, coarse to fine, and the reason in a sentence.

    The next step of every variable is regressed on the present state of all, linearly and by
    cubes; to this the lag is added at which the state, or its square, explains most of what is
    left, again and again while that is clear (five standard errors and half a percent). The largest
    lag found, and a fourth more, is the largest candidate; where none is found, the time in which
    correlations fall to 1/e. Up to sixteen lags, or 150 candidates, are all taken: where one is
    left out, what acts there is split between its neighbours. Otherwise they are sixteen: 0 and 1,
    those found and their neighbours, and an even grid over the rest.

    **Arguments:**

    - `samples`: of [`read_samples`][ndde_jax.read_samples], equally spaced.

    **Returns:** the lags, in samples, ascending from 0, and why.

    **Raises:** `ValueError` for what are no samples.

    ```python
    import numpy as np
    import ndde_jax as ndde

    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(7, 1999):
        x[k + 1] = 0.7 * x[k] + rng.normal(size=2) + [0.0, 0.6 * x[k - 7, 0]]
    print(ndde.windows.choose_lags(ndde.read_samples(x, dt=1.0)))
    ```
    """
    if not isinstance(samples, Samples):
        raise refusal("samples", "what read_samples returns", samples)
    x = bridged(max(samples.values, key=len))
    furthest = min(int(SHARE * min(len(value) for value in samples.values)), FURTHEST)
    if furthest < 1 or not samples.regular:
        return (0,), "Lag 0 only: " + (
            "the record is too short for any other."
            if samples.regular
            else "the clock is irregular."
        )
    shown = _found(x, furthest)
    if shown:
        last = max(shown)
        largest = min(max(int(np.ceil(1.25 * last)) + 1, 2), furthest)
        why = (
            f": {last} is the largest that tells more of the next step than the others do; a "
            "fourth more is taken."
        )
    else:
        memory = max(correlation_time(column, len(x) // 2) or 1 for column in x.T)
        largest = min(memory, furthest, MOST - 1)
        why = ", the time in which correlations fall to 1/e: no delayed influence shows."
    late = time_span(largest * samples.dt, unit=samples.time_unit)
    late = f" ({late})" if samples.time_unit or samples.dt != 1 else ""
    reason = f"Lags up to {amount(float(largest), 'sample', 6)}{late}{why}"
    if largest < max(MOST, FULL // samples.dim):
        return tuple(range(largest + 1)), reason
    chosen = {0, 1}
    for lag in shown:
        near = {n for n in (lag - 1, lag, lag + 1) if 0 <= n <= largest}
        if len(chosen | near) > MOST - 4:
            break
        chosen |= near
    for lag in np.linspace(0, largest, MOST - len(chosen) + 2).round().astype(int).tolist():
        if len(chosen) < MOST and all(abs(lag - other) > 1 for other in chosen):
            chosen.add(lag)
    return tuple(sorted(chosen)), reason + " Between those that were found, the grid is coarse."


def _found(x: Float[np.ndarray, "time dim"], furthest: int) -> list[int]:
    """Return lags that explain the next step beyond the present state, the most telling first."""
    z = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    steps = np.diff(z[furthest:], axis=0)
    steps = (steps - steps.mean(axis=0)) / np.maximum(steps.std(axis=0), 1e-300)
    n, rows = len(steps), len(z) - 1

    def at(lag: int) -> Float[np.ndarray, "step dim"]:
        return z[furthest - lag : rows - lag]

    if n < 4 * z.shape[1] + 20:
        return []
    design = np.concatenate([np.ones((n, 1)), at(0), at(0) ** 3], axis=1)
    found: list[int] = []
    for _ in range(ADDED):
        basis = np.linalg.qr(design)[0]
        rest = steps - basis @ (basis.T @ steps)
        left = np.maximum(rest.std(axis=0), 1e-300)
        best, strongest = 0.0, 0
        for lag in range(1, furthest + 1):
            late = at(lag)
            square = late**2 - 1
            size = np.maximum(np.sqrt(np.mean(square**2, axis=0)), 1e-12)[:, None]
            here = max(
                np.abs(late.T @ rest / left).max(), np.abs(square.T @ rest / left / size).max()
            )
            if here > best:
                best, strongest = float(here), lag
        explained = (best / n) ** 2 * float((left**2).max())
        if best < CLEAR * np.sqrt(n) or explained < LEAST or strongest in found:
            break
        found.append(strongest)
        design = np.concatenate([design, at(strongest), at(strongest) ** 3], axis=1)
        if design.shape[1] > n // 4:
            break
    return found


def check_decidable(samples: Samples, lags: tuple[int, ...]) -> None:
    """Raise an error, before any search, for data that no search could decide.

    **Raises:** `ValueError` for too few windows, alone or beside the candidate inputs.
    """
    reach = max(lags) + 1
    windows = sum(max(len(x) - reach, 0) for x in samples.values)
    longest = max(map(len, samples.values))
    if windows and (windows < FEWEST or longest < reach + LONGEST):
        raise ValueError(
            f"x is too short for the largest lag, {max(lags)}: it holds {windows} windows, its "
            f"longest recording {longest} samples; expected {FEWEST} windows, and {LONGEST} "
            "samples more than the lag. From less not even a linear drift can be told."
        )
    candidates = samples.dim * len(lags)
    if samples.dim > MANY and candidates > windows:
        raise ValueError(
            f"x has {samples.dim} variables at {len(lags)} lags, {candidates} candidate inputs, "
            f"and {windows} windows: with fewer windows than candidates any rate can be explained "
            "by chance. Choose fewer variables or lags, or record for longer."
            + transposed_hint(longest, samples.dim)
        )
