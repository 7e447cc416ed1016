"""Inputs that are set or measured at the ticks of a slower clock and hold their value in between.

Nothing can be seen to drive them between two ticks, so a search that counts every sample as an
opportunity has far fewer windows than it counts.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ._gaps import LONGEST_HOLE, linearly_interpolated
from ._samples import Samples

# Minimum number of changes that all fall on ticks.
CHANGES = 10
# Minimum number of ticks for testing whether others drive a variable, and the error rate of the
# test.
TICKS, ERROR = 20, 0.01
# Number of lags of the other variables that are tested, spread over the time between two ticks.
AGES = 13
# Spread of residual ranks, over their number, below which it is rounding.
ROUNDING = 1e-9
# Share of measured values below which a variable is measured seldom, if another has more.
HALF = 0.5


def measured_seldom(samples: Samples) -> dict[int, int]:
    """Return the numbers of variables with values at no more than every second sample, at intervals
    of about one length, each with that length in samples; empty if no variable has more values.
    """
    there = [np.isfinite(x) for x in samples.values]
    share = np.concatenate(there).mean(axis=0)
    both_ends = len(there) / sum(map(len, there))  # both ends of each recording: one value more
    found = {}
    for j in np.flatnonzero(share - both_ends < HALF) if share.max() > HALF + both_ends else ():
        between = np.concatenate([np.diff(np.flatnonzero(known[:, j])) for known in there])
        if len(between) >= CHANGES and np.median(between) > 1:
            typical = int(np.median(between))
            if np.mean(between <= LONGEST_HOLE * typical) > 0.9:
                found[int(j)] = typical
    return found


def forward_filled(
    x: Float[np.ndarray, "time dim"], seldom: dict[int, int]
) -> Float[np.ndarray, "time dim"]:
    """Return values in which the variables measured seldom hold each value until the next, for at
    most two and a half usual intervals.
    """
    import pandas as pd

    filled = np.array(x)
    for j, typical in seldom.items():
        filled[:, j] = pd.Series(x[:, j]).ffill(limit=int(LONGEST_HOLE * typical))
    return filled


def held_inputs(samples: Samples) -> dict[int, int]:
    """Return the numbers of variables that change only at the ticks of a slower clock, each with
    the samples per tick, and that no other variable predicts.

    Prediction is tested by rank correlations of the change at a tick with the others at samples
    before it and in the mean since the last tick, at an error rate of 1 % per variable. Values of
    others at the tick itself do not count, because they may respond to it, as a controller does.
    The result is empty if all variables are held: then the record repeats its samples.
    """
    clocks = {j: clock_of(samples, j) for j in range(samples.dim)}
    held = {j: clock for j, clock in clocks.items() if clock > 1}
    if len(held) == len(clocks):
        return {}
    return {j: clock for j, clock in held.items() if not _is_predicted(samples, j, clock)}


def _changes(value: Float[np.ndarray, " time"]) -> Int[np.ndarray, " change"]:
    """Return the samples that differ from the one before."""
    step = np.diff(value, prepend=np.nan)
    return np.flatnonzero(np.isfinite(step) & (step != 0))


def clock_of(samples: Samples, variable: int) -> int:
    """Return the number of samples per tick of a slower clock; 1 if changes follow none."""
    changes = [_changes(np.asarray(x, float)[:, variable]) for x in samples.values]
    steps = np.concatenate([np.diff(at) for at in changes])
    return int(np.gcd.reduce(steps)) if len(steps) >= CHANGES else 1


def is_switch(samples: Samples, variable: int) -> bool:
    """Return whether a variable has exactly two values."""
    values = np.concatenate([np.asarray(x, float)[:, variable] for x in samples.values])
    return len(np.unique(values[np.isfinite(values)])) == 2


def _is_predicted(samples: Samples, variable: int, clock: int) -> bool:
    """Return whether other variables predict the changes of a held variable; True if there are too
    few ticks for the test.
    """
    from scipy import stats  # takes most of a second to import

    table = np.concatenate(list(_at_ticks(samples, variable, clock)))
    table = table[np.isfinite(table).all(axis=1)]
    if len(table) < TICKS:
        return True
    # Ranks first: the ranks of a residual of a two-level variable would reveal the level before.
    ranks = stats.rankdata(table, axis=0)
    own = np.column_stack([np.ones(len(ranks)), ranks[:, 1]])
    left = ranks - own @ np.linalg.lstsq(own, ranks, rcond=None)[0]
    moves = np.ptp(left, axis=0) > ROUNDING * len(left)
    new, others = left[:, 0], left[:, 2:].T[moves[2:]]
    if not len(others) or not moves[0]:
        return False
    p = [stats.pearsonr(other, new).pvalue for other in others]
    return bool(min(p) * len(p) < ERROR)


def _at_ticks(
    samples: Samples, variable: int, clock: int
) -> Iterator[Float[np.ndarray, "tick column"]]:
    """Yield, for each recording, the value set at every tick, the value before it, and the other
    variables, with straight lines over their gaps.
    """
    ages = np.unique(np.linspace(1, clock, AGES).astype(int))
    for x in samples.values:
        value = np.asarray(x, float)
        changes = _changes(value[:, variable])
        if not len(changes):
            continue
        ticks = np.arange(changes[0] % clock, len(value), clock)
        ticks = ticks[ticks >= clock]
        others = np.delete(linearly_interpolated(value), variable, axis=1)
        total = np.cumsum(np.concatenate([np.zeros((1, others.shape[1])), others]), axis=0)
        mean = (total[ticks] - total[ticks - clock]) / clock
        own = [value[ticks, variable], value[ticks - clock, variable]]
        yield np.column_stack([*own, *(others[ticks - age] for age in ages), mean])
