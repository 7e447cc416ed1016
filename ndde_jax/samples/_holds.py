"""Inputs that somebody sets, or measures, at the ticks of a slower clock; in between the last value
holds.

Nothing can be seen to drive them between two ticks, so a search that takes every sample for a
chance to be driven has far fewer windows than it counts.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ._gaps import LONGEST_HOLE, bridged
from ._samples import Samples

# Changes from which on it is no chance that all of them are at ticks.
CHANGES = 10
# Ticks that tell whether others drive a variable, and the chance to see a driver where there is
# none.
TICKS, ERROR = 20, 0.01
# Ages at which other variables may tell what is set, spread over the time between two ticks.
AGES = 13
# Spread of what is left of ranks, over their number, below which it is rounding.
ROUNDING = 1e-9
# Share of measured values below which a variable is measured seldom, if another is not.
HALF = 0.5


def measured_seldom(samples: Samples) -> dict[int, int]:
    """Return the numbers of variables that have values at every second sample at most, from the
    first to the last of them at intervals of about one length, with that length in samples;
    nothing if no variable has more.
    """
    there = [np.isfinite(x) for x in samples.values]
    share = np.concatenate(there).mean(axis=0)
    both_ends = len(there) / sum(map(len, there))  # of each recording, which is one value more
    found = {}
    for j in np.flatnonzero(share - both_ends < HALF) if share.max() > HALF + both_ends else ():
        between = np.concatenate([np.diff(np.flatnonzero(known[:, j])) for known in there])
        if len(between) >= CHANGES and np.median(between) > 1:
            typical = int(np.median(between))
            if np.mean(between <= LONGEST_HOLE * typical) > 0.9:
                found[int(j)] = typical
    return found


def until_the_next(
    x: Float[np.ndarray, "time dim"], seldom: dict[int, int]
) -> Float[np.ndarray, "time dim"]:
    """Return values that hold until the next, for two and a half usual intervals at most, in the
    variables that are measured seldom.
    """
    import pandas as pd

    filled = np.array(x)
    for j, typical in seldom.items():
        filled[:, j] = pd.Series(x[:, j]).ffill(limit=int(LONGEST_HOLE * typical))
    return filled


def held_inputs(samples: Samples) -> dict[int, int]:
    """Return the numbers of variables that change only every so many samples, with how many, and
    that no other variable foretells: by rank correlations of what is new at a tick with the others
    at samples before it and in the mean since the last one, at an error rate of 1 % a variable.
    What others do at the tick itself may be an answer to it, as that of a controller.

    Nothing is returned if all variables are held: then the record is listed too often.
    """
    clocks = {j: clock_of(samples, j) for j in range(samples.dim)}
    held = {j: clock for j, clock in clocks.items() if clock > 1}
    if len(held) == len(clocks):
        return {}
    return {j: clock for j, clock in held.items() if not _foretold(samples, j, clock)}


def _changes(value: Float[np.ndarray, " time"]) -> Int[np.ndarray, " change"]:
    """Return the samples that differ from the one before."""
    step = np.diff(value, prepend=np.nan)
    return np.flatnonzero(np.isfinite(step) & (step != 0))


def clock_of(samples: Samples, variable: int) -> int:
    """Return how many samples lie from one tick to the next; 1 where changes follow no slower
    clock.
    """
    changes = [_changes(np.asarray(x, float)[:, variable]) for x in samples.values]
    steps = np.concatenate([np.diff(at) for at in changes])
    return int(np.gcd.reduce(steps)) if len(steps) >= CHANGES else 1


def is_switch(samples: Samples, variable: int) -> bool:
    """Return whether a variable has two values only."""
    values = np.concatenate([np.asarray(x, float)[:, variable] for x in samples.values])
    return len(np.unique(values[np.isfinite(values)])) == 2


def _foretold(samples: Samples, variable: int, clock: int) -> bool:
    """Return whether others tell what is new in a held variable; True if there are too few
    ticks to know.
    """
    from scipy import stats  # takes most of a second to import

    table = np.concatenate(list(_at_ticks(samples, variable, clock)))
    table = table[np.isfinite(table).all(axis=1)]
    if len(table) < TICKS:
        return True
    # Ranks first: of what is new in a value of two levels, ranks would tell the level before.
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
    """Yield for each recording what is set at every tick, what was set before, and the others, with
    straight lines over their gaps.
    """
    ages = np.unique(np.linspace(1, clock, AGES).astype(int))
    for x in samples.values:
        value = np.asarray(x, float)
        changes = _changes(value[:, variable])
        if not len(changes):
            continue
        ticks = np.arange(changes[0] % clock, len(value), clock)
        ticks = ticks[ticks >= clock]
        others = np.delete(bridged(value), variable, axis=1)
        total = np.cumsum(np.concatenate([np.zeros((1, others.shape[1])), others]), axis=0)
        mean = (total[ticks] - total[ticks - clock]) / clock
        own = [value[ticks, variable], value[ticks - clock, variable]]
        yield np.column_stack([*own, *(others[ticks - age] for age in ages), mean])
