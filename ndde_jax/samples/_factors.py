"""Tests for changes in proportion to the level of a variable, against changes by amounts."""

import numpy as np
from jaxtyping import Bool, Float

from ._samples import Samples

# Nats, in total and per value, by which proportional changes must be likelier.
CLEARLY, EACH = 10.0, 0.05
# Ratio of the largest to the smallest value below which the two cases are nearly the same.
WIDE = 1.5
# Maximum number of other variables, and minimum number of samples per column.
OTHERS, SAMPLES = 20, 10
POWERS = (1, 2, 3)


def factor_nats(samples: Samples) -> Float[np.ndarray, "dim"]:
    """Return, for each variable, by how many nats changes in proportion to its level are likelier
    than changes by amounts; 0 if some value is not positive or all values are nearly the same.

    Given the last two values of the variable, with their powers and logarithms, and the present
    values of the others, the logarithm of the next value is normal in one case and the value itself
    in the other. Densities are compared in the unit of the value (Box and Cox, *An analysis of
    transformations*, Journal of the Royal Statistical Society B, 1964).
    """
    nats = np.zeros(samples.dim)
    recordings = [np.asarray(x, float) for x in samples.values]
    every = np.concatenate(recordings)
    there = np.isfinite(every)
    low = np.where(there, every, np.inf).min(axis=0)
    # A value measured at zero or below has no logarithm, even if a season was removed since.
    whole = np.concatenate(samples.before("season", "trend").values)
    low = np.minimum(low, np.where(np.isfinite(whole), whole, np.inf).min(axis=0))
    high = np.where(there, every, -np.inf).max(axis=0)
    changed = {j for t in samples.treatments for j in t.columns if t.kinds}
    for j in np.flatnonzero((low > 0) & (high > WIDE * low)):
        if int(j) not in changed:
            nats[j] = _nats_of(recordings, int(j), low > 0)
    return nats


def proportional(nats: Float[np.ndarray, "dim"], samples: Samples) -> Bool[np.ndarray, "dim"]:
    """Return which variables clearly change in proportion to their level, given their nats."""
    measured = np.sum([x.sum(axis=0) for x in samples.present], axis=0)
    return nats > np.maximum(CLEARLY, EACH * measured)


def _nats_of(recordings: list[np.ndarray], target: int, positive: Bool[np.ndarray, "dim"]) -> float:
    """Return the nats of one variable whose values are all positive."""
    others = [k for k in range(len(positive)) if k != target][:OTHERS]
    present, before, after = (
        np.concatenate([x[start : len(x) - 2 + start] for x in recordings]) for start in (1, 0, 2)
    )
    rows = np.isfinite(np.stack([x[:, target] for x in (before, present, after)])).all(axis=0)
    present, before, after = present[rows], before[rows, target], after[rows, target]
    now, most = present[:, target], len(present) // SAMPLES
    if most < 1 + 2 * (len(POWERS) + 1):
        return 0.0
    columns = [np.ones(len(now))]
    for x in (now, before):
        columns += [(x / x.mean()) ** power for power in POWERS] + [np.log(x)]
    for k in others:
        there = np.isfinite(present[:, k])
        if there.any():
            # Missing values are set to the mean, which carries no information.
            x = np.where(there, present[:, k], present[there, k].mean())
            columns += [x, np.log(x)] if positive[k] else [x]
    design = np.stack(columns[:most], axis=1)
    design = design / np.maximum(np.sqrt(np.mean(design**2, axis=0)), 1e-300)[None]
    changes = np.stack([after - now, np.log(after / now)], axis=1)
    left = changes - design @ np.linalg.lstsq(design, changes, rcond=1e-9)[0]
    amount, factor = np.mean(left**2, axis=0)
    if not (amount > 0 and factor > 0):
        return 0.0
    return float(len(now) * np.log(amount / factor) / 2 - np.log(after).sum())
