"""A test of whether a strictly periodic oscillation is external or the system's own.

Weak noise shifts the phase of a strong oscillator so little that its spectral line is as sharp as
that of a season. The drift distinguishes the two. After removal of a season, the remaining dynamics
of a driven system are explained about as well as before, or better. After removal of its own
oscillation, no drift explains the remainder of an oscillator.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from .._wording import time_span
from ..regression._terms import FLOOR
from ..samples._prepare import prepare_samples
from ..samples._samples import Samples
from ..windows._prior import PriorKnowledge, inputs_of
from ._reading import Chosen, choose_windows

# The least fall of the log residual variance of the rates, per variable and with the cost of graph
# and season, when the oscillation stays in place, for it to be the system's own. In 14 simulated
# records with a season removed, the six with a real season had at most .09, the eight of systems
# that oscillate by themselves .30 or more.
CLEARLY = 0.15


class SeasonDecision(NamedTuple):
    """The samples after the decision on a season, and the windows chosen for them, if any."""

    samples: Samples
    chosen: Chosen | None


def with_own_rhythm(
    samples: Samples,
    steps: tuple[str, ...],
    *,
    lags,
    prior: PriorKnowledge | None,
    inputs: tuple[str, ...] = (),
) -> SeasonDecision:
    """Return the samples that [`prepare_samples`][ndde_jax.prepare_samples] made with `steps`,
    with the season restored if graphs at `lags` show that the system generates it; a treatment
    named `"rhythm"`, which changes nothing, then reports it. Samples that came with the season
    already removed (no such step) are unchanged.
    """
    season = next((t for t in samples.treatments if t.name == "season"), None)
    if season is None or "season" not in steps:
        return SeasonDecision(samples, None)
    without = [step for step in steps if step != "season"]
    whole = prepare_samples(samples.as_measured(), without, inputs, samples.transform)
    waves = 2 * len(season.periods)
    removed, kept = (
        choose_windows(one, lags=lags, scheme="auto", prior=prior) for one in (samples, whole)
    )
    names = samples.names
    gain = log_residual_variance(removed, waves, names, prior) - log_residual_variance(
        kept, 0, names, prior
    )
    if not gain > CLEARLY:
        return SeasonDecision(samples, removed)
    periods = " and ".join(
        time_span(period, unit=samples.time_unit, digits=4) for period in season.periods
    )
    rhythm = dataclasses.replace(
        season,
        name="rhythm",
        size=gain,
        text=f"An oscillation of period {periods} keeps time like a clock, but the variables "
        "explain it by themselves. Without it, the unexplained variance of their rates would be "
        f"{np.exp(gain):.1f} times as large. It is kept.",
        periods=(),
        coefficients=(),
        **{name: getattr(whole, name) for name in ("values", "times", "dt", "regular")},
    )
    return SeasonDecision(dataclasses.replace(whole, treatments=(*whole.treatments, rhythm)), kept)


def log_residual_variance(
    chosen: Chosen, n_more: int, names: tuple[str, ...], prior: PriorKnowledge | None
) -> float:
    """Return the log residual variance of the rates under the best graph of splines, in their
    units, with the cost of its edges and of `n_more` parameters per variable; the mean over
    variables that others may drive.
    """
    windows, found = chosen.screened.windows, chosen.screened.found
    n = float(windows.n_valid)
    edges = np.asarray(found.graph).sum(axis=(0, 2))
    cost = edges * (np.log(n) + 2 * np.log(windows.dim * windows.n_lags)) + n_more * np.log(n)
    unit = 2 * np.log(np.asarray(windows.scaling.rate_scale, float))
    each = np.log(np.asarray(found.risk) + FLOOR) + unit + cost / n
    inputs = () if prior is None else inputs_of(prior, names)
    driven = ~np.isin(np.asarray(names), inputs)
    return float(np.mean(each[driven] if driven.any() else each))
