"""What makes real series lie, each by name: findings on the samples, before anything is fitted."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from .._checks import refusal
from .._spoken import percent
from .._types import Checked
from ..samples._blocks import APART, trend
from ..samples._columns import is_event
from ..samples._error import measurement_error, stretch
from ..samples._prepare import FEWEST, SEASON, TREND, bridged, is_clock, seasons
from ..samples._samples import Samples
from ..samples._transforms import TRANSFORM
from ..samples._treatments import OFFSETS, Treatment, terms
from . import _data_tests as tests
from ._finding import NOTE, PROBLEM, RESERVATION, Finding, measured
from ._sensors import sensors

# Interpolation or filling whose error has a larger share of the variance of a step is no longer
# harmless, and neither are measurement errors or a resolution of this size.
HARMFUL = 0.1
# Ratio of long to short intervals from which on no interpolation helps.
UNEVEN = 3.0
# How clearly a season must be added to what is measured to leave nothing behind.
ADDED = 0.02
# Share of missing values from which on they weigh.
MANY_MISSING = 0.2
# Noise, as a share of one-step increments, below which an orbit that returns this closely never
# leaves its cycle.
TINY, RETURNS = 0.01, 0.999
# Of the statistic of Dickey and Fuller, above which no force that pulls back can be shown.
UNIT_ROOT = -1.7


def data_findings(
    samples: Checked[Samples], inputs: Checked[Sequence[str]] = ()
) -> tuple[Finding, ...]:
    """What the samples alone show that could make a graph wrong, and what was done about it.

    Seasons, trends, changes of regime, random walks, irregular clocks, copies of columns, missing
    values, sensors that are quantised, clipped, stuck, held or interpolated, spikes, measurement
    error, and orbits without noise that only repeat themselves. Closed forms, a fraction of a
    second for twenty variables and five thousand samples. None fires on good data; each has a
    remedy. Treated samples are tested as they are, and as they were measured where the treatment
    would hide something.

    **Arguments:**

    - `samples`: of [`read_samples`][ndde_jax.read_samples], treated by
        [`prepare_samples`][ndde_jax.prepare_samples] or not.
    - `inputs`: names of known inputs, which may jump, drift and stand still as they like.

    **Returns:** findings, the gravest first; `weight` says what each does to the verdict.

    **Raises:** `ValueError` for what are no samples.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(500, 2))
    x = np.concatenate([x, x[:, :1]], axis=1)
    (found,) = ndde.data_findings(ndde.read_samples(x, dt=1.0, names=("a", "b", "copy")))
    print(found.name, found.weight)  # duplicate problem
    ```
    """
    if not isinstance(samples, Samples):
        raise refusal("samples", "what read_samples returns", samples)
    raw = samples.as_measured()
    found = [*_treated(samples), *_season(samples, inputs)]
    for check in (_clock, _missing, _copies):
        found += check(samples)
    keep = ~np.isin(np.asarray(samples.names), list(inputs))
    if keep.any():
        record, raw, samples = raw, _some(raw, keep), _some(samples, keep)
        found += [*_cycle(samples), *_not_stationary(samples)]
        found += [*sensors(raw, record), *_spoilt_by_error(raw, samples)]
    grave = {PROBLEM: 0, RESERVATION: 1, NOTE: 2}
    return tuple(sorted(found, key=lambda finding: grave[finding.weight]))


def _treated(samples: Samples) -> Iterator[Finding]:
    """What was dealt with, and weighs only as far as it could not be."""
    remedies = {
        "codes": "Write them as empty cells; treat=False keeps them as numbers.",
        "rows": "Nothing, if these rows are really missing.",
        "clock": "Sample regularly, or resample with a model of the noise.",
        "spikes": "Look at them; discover with treat=False keeps them.",
        "season": "Give the driver of the season as a variable if it was measured; treat=False "
        "keeps the season.",
        "rhythm": "Nothing, unless it is a clock from outside: prepare_samples removes it.",
        "trend": "Give what causes it as a variable; treat=False keeps the trend.",
        "impute": "Compare with the graph without them, recipe Recipe(impute=0).",
        "gaps": "Fill them with what is known of the system; treat=False drops the rows instead.",
    }
    names = {
        **{"rows": "missing rows", "clock": "irregular clock", "gaps": "missing values"},
        **{"impute": "missing values", "codes": "missing values"},
    }
    imputed = any(treatment.name == "impute" for treatment in samples.treatments)
    for treatment in samples.treatments:
        if treatment.name in (OFFSETS, TRANSFORM):
            continue  # asked for, and said among the choices
        if treatment.name == "gaps" and imputed:
            continue  # what was filled is estimated anew
        yield measured(
            names.get(treatment.name, treatment.name),
            treatment.size,
            treatment.text,
            remedies[treatment.name],
            _weight(samples, treatment),
        )


def _weight(samples: Samples, treatment: Treatment) -> str:
    """What a treatment leaves behind."""
    if treatment.name == "gaps":
        gone = sum(int(np.isnan(x).sum()) for x in treatment.values)
        return RESERVATION if gone > MANY_MISSING * sum(x.size for x in treatment.values) else NOTE
    if treatment.name == "impute":
        return RESERVATION if treatment.size > MANY_MISSING else NOTE
    if treatment.size <= HARMFUL or treatment.name in ("rows", "spikes", "rhythm", "codes"):
        return NOTE
    if treatment.name == "clock":
        intervals = np.concatenate([np.diff(times) for times in treatment.times])
        low, high = np.quantile(intervals, [0.05, 0.95])
        return PROBLEM if high > UNEVEN * low else RESERVATION
    if treatment.name == "season":
        # What was added is gone; what moves the system has left its marks.
        k = max(range(len(treatment.values)), key=lambda i: len(treatment.values[i]))
        before, times = bridged(treatment.values[k]), treatment.times[k]
        waves = terms(times - times[0], treatment.periods)[:, 2:]
        sign = tests.inside(before, before - treatment.removed(times, k), waves)
        return PROBLEM if sign < 0 else NOTE if sign > ADDED else RESERVATION
    return RESERVATION


def _some(samples: Samples, keep: np.ndarray) -> Samples:
    """Without the known inputs; what was treated has been looked at."""
    names = tuple(np.asarray(samples.names)[keep].tolist())
    values = tuple(x[:, keep] for x in samples.values)
    return dataclasses.replace(samples, names=names, values=values, treatments=())


def _season(samples: Samples, inputs: Sequence[str]) -> Iterator[Finding]:
    if len(samples.treatments) and any(t.name in ("season", "rhythm") for t in samples.treatments):
        return
    lines = [line for line in seasons(samples) if line.share > SEASON]
    if not lines:
        return
    unit = f" {samples.time_unit}" if samples.time_unit else ""
    best = lines[0]
    clock = is_clock(samples, lines) or any(samples.names[k.column] in inputs for k in lines)
    columns = sorted({line.column for line in lines})
    yield measured(
        "season",
        best.share,
        f"{_named(samples, columns)} oscillate with a period of {best.period * samples.dt:.4g}"
        f"{unit} whose phase keeps time, which an outer clock does; "
        + (
            "one variable is that clock and explains it, or an input carries it."
            if clock
            else "variables that share it seem to drive one another."
        ),
        "prepare_samples removes it." if not clock else "Declare the clock exogenous.",
        NOTE if clock else RESERVATION,
    )


def _clock(samples: Samples) -> Iterator[Finding]:
    if samples.regular:
        return
    intervals = np.concatenate([np.diff(times) for times in samples.times])
    low, high = np.quantile(intervals, [0.05, 0.95])
    unit = f" {samples.time_unit}" if samples.time_unit else ""
    ratio = float(high / low)
    yield measured(
        "irregular clock",
        ratio,
        f"Samples are not equally spaced: one is {low:.3g} to {high:.3g}{unit} after another, so a "
        "lag in samples is no single delay.",
        "Interpolate to a regular grid, as prepare_samples does with very uneven ones.",
        PROBLEM if ratio > 2 else RESERVATION if ratio > 1.2 else NOTE,
    )


def _missing(samples: Samples) -> Iterator[Finding]:
    gone = np.concatenate([np.isnan(x) for x in samples.values])
    if not gone.any():
        return
    share = float(gone.mean())
    worst = int(np.argmax(gone.mean(axis=0)))
    longest = max(
        tests.longest_run(np.where(np.isnan(x[:, j]), 0.0, np.arange(1.0, len(x) + 1)))[0]
        for x in samples.values
        for j in range(samples.dim)
    )
    yield measured(
        "missing stretch" if longest > 5 else "missing values",
        share,
        f"{share:.1%} of the values are missing and not estimated, most of {samples.names[worst]}; "
        f"the longest gap has {longest} samples. Windows that touch one are not used.",
        "Nothing, unless values are missing because of what they would be: then what is left is "
        "a biased part.",
        RESERVATION if share > MANY_MISSING else NOTE,
    )


def _copies(samples: Samples) -> Iterator[Finding]:
    x = np.concatenate(samples.values)
    x = x[np.isfinite(x).all(axis=1)]
    if len(x) < 30:
        return
    found = tests.copies(x) if len(samples.values) == 1 else [
        copy for copy in tests.copies(x) if copy[2] == 0
    ]  # fmt: skip
    for j, i, lag, rest in found:
        exact = "a copy" if rest < 1e-6 else "nearly a copy"
        when = f" {lag} samples later" if lag else ""
        yield measured(
            "duplicate" if rest < 1e-6 else "near duplicate",
            rest,
            f"{samples.names[j]} is {exact} of {samples.names[i]}{when} ({rest:.1g} of its "
            "variance is its own): which of them drives cannot be told.",
            f"Leave out {samples.names[j]}.",
            PROBLEM,
        )
    if found:
        return
    share, involved = tests.combination(x)
    if share < 1e-3:
        names = _named(samples, np.flatnonzero(involved))
        yield measured(
            "linear combination",
            share,
            f"{names} are linear combinations of one another up to {share:.1g} of their variance: "
            "which of them drives cannot be told.",
            "Leave out one of them.",
            PROBLEM,
        )


def _cycle(samples: Samples) -> Iterator[Finding]:
    x = _longest(samples)
    if len(x) < FEWEST or not samples.regular:
        return
    rest = np.diff(x, n=5, axis=0)
    noise = (rest**2).mean(axis=0) / 252
    steps = np.diff(x, axis=0).var(axis=0)
    share = float(np.max(noise / np.where(steps > 0, steps, 1)))
    again = tests.returns(x)
    if share < TINY and again > RETURNS:
        yield measured(
            "no noise, one cycle",
            share,
            f"The record repeats itself (correlation {again:.3f} with itself later) and noise is "
            f"{share:.1g} of a step: along one closed orbit every variable is a function of every "
            "other, so what drives what cannot be told.",
            "Record from several starts, or with the system disturbed.",
            PROBLEM,
        )


def _spoilt_by_error(raw: Samples, samples: Samples) -> Iterator[Finding]:
    kept = raw if raw.regular else samples
    if not kept.regular:
        return
    for j, name in enumerate(kept.names):
        x = max((stretch(x[:, j]) for x in kept.values), key=len)
        steps = np.diff(x).var() if len(x) > 50 else 0.0
        if not steps > 0 or tests.quantum(x) ** 2 / 6 > 0.02 * steps:
            continue
        best, least = measurement_error(x)
        share = 2 * best / steps
        if least > 0 and share > HARMFUL / 2:
            deviation = float(np.sqrt(best) / x.std())
            yield measured(
                "measurement error",
                deviation,
                f"{name} carries white errors of about {percent(deviation, 1)} of its standard "
                f"deviation, {percent(share)} of the variance of its change from sample to sample.",
                "Average neighbouring samples, or sample less often; a lag may be off by one.",
                RESERVATION if share > HARMFUL else NOTE,
            )


def _not_stationary(samples: Samples) -> Iterator[Finding]:
    if not samples.regular:
        return
    x = _longest(samples)
    if len(x) < FEWEST:
        return
    # Tests of many variables and kinds: the limits hold for all of them together.
    # What jumps between a few values neither drifts nor wanders.
    moving = [not is_event(column) for column in x.T]
    trends = [
        trend(column) if moves else (0.0, 0.0) for column, moves in zip(x.T, moving, strict=True)
    ]
    drifting = [j for j, (errors, share) in enumerate(trends) if errors > APART and share > TREND]
    if drifting:
        worst = max(drifting, key=lambda j: trends[j][0])
        yield measured(
            "trend",
            trends[worst][1],
            f"{_named(samples, drifting)} {'has' if len(drifting) == 1 else 'have'} a trend "
            f"({trends[worst][1]:.0%} of the variance of {samples.names[worst]}): variables that "
            "share one seem to drive one another.",
            "Remove it before, or give what causes it as a variable.",
        )
    still = (0.0, "", 0.0)
    changes = [still if tests.switched(c) else tests.regime_change(c) for c in x.T]
    changed = [j for j, change in enumerate(changes) if moving[j] and change[0] > APART]
    if changed:
        worst = max(changed, key=lambda j: changes[j][0])
        _, what, where = changes[worst]
        yield measured(
            "change of regime",
            where,
            f"The {what} of {samples.names[worst]} changes after about {where:.0%} of the record"
            + (f", and also {_named(samples, [j for j in changed if j != worst])} change"
               if len(changed) > 1 else "")
            + ": one graph and one drift may not hold throughout.",
            "Analyse the parts before and after on their own.",
            PROBLEM,
        )  # fmt: skip
    walks = [j for j, column in enumerate(x.T) if moving[j] and tests.unit_root(column) > UNIT_ROOT]
    if walks and not drifting and not changed:
        yield measured(
            "random walk",
            float(max(tests.unit_root(x[:, j]) for j in walks)),
            f"Nothing pulls {_named(samples, walks)} back within the record: it wanders, or the "
            "record is short beside its slowest movement. Wandering variables seem to be related "
            "by chance.",
            "Record for longer, or analyse the changes instead of the levels.",
        )


def _longest(samples: Samples):
    return bridged(max(samples.values, key=len))


def _named(samples: Samples, columns) -> str:
    names = [samples.names[int(j)] for j in columns]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
