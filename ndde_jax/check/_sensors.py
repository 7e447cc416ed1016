"""What is wrong with single variables: sensors that are coarse, at their limit, stuck or held."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..samples._columns import is_event
from ..samples._samples import Samples
from . import _data_tests as tests
from ._finding import NOTE, PROBLEM, RESERVATION, Finding, measured

# Error of rounding, as a share of the variance of a step: beyond the first it does the harm that
# errors of measurement of that size do, beyond the second it leaves nothing to learn from.
HARMFUL, COARSE = 0.1, 0.2
# A run of one value this long, in a variable that hardly ever repeats one, is a stuck sensor.
STUCK, REPEATS = 8, 0.1
# Stretches in which everything rests, at most, for them to be pauses of the experiment.
PAUSES = 3
# Share of samples that repeat the one before, or lie on the line between their neighbours, from
# which on a record was held or interpolated.
HELD, INTERPOLATED = 0.45, 0.3
# Share of changes that come right after another, from which on what repeats itself is at rest.
RESTING = 0.1


def sensors(raw: Samples, record: Samples | None = None) -> Iterator[Finding]:
    """What is wrong with single variables, each name once: the worst, and who else has it.

    Nothing is wrong with what is set: actuators that step, quantised controls, switches; and
    nothing with a pause of the whole `record`, of which `raw` may be a part.
    """
    resting = [_resting(x) for x in (raw if record is None else record).values]
    found: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for j, name in enumerate(raw.names):
        parts = zip(raw.values, resting, strict=True)
        kept = [x[np.isfinite(x[:, j]) & ~rest, j].astype(float) for x, rest in parts]
        x = max(kept, key=len)
        looked_at = len(x) >= 50 and not (tests.switched(x) or is_event(x))
        for finding in _sensor(name, x) if looked_at else ():
            found.setdefault((finding.name, finding.weight), []).append((name, finding))
    for group in found.values():
        group.sort(key=lambda named: -abs(float(named[1].value)))
        worst = group[0][1]
        if others := [name for name, _ in group[1:]]:
            worst = dataclasses.replace(
                worst, text=f"{worst.text} The same of {', '.join(others)}."
            )
        yield worst


def _resting(x: np.ndarray) -> np.ndarray:
    """Samples at which every variable of several repeats its last value, bool `[time]`: the system
    is at rest, before or after an experiment, and no sensor of it is stuck.
    """
    rest = np.zeros(len(x), bool)
    if x.shape[1] > 1:
        rest[1:] = (np.diff(x, axis=0) == 0).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rest.astype(int), [0]])))
    long = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= STUCK]
    # Samples at which all repeat by chance stay, and so does a record that was held throughout.
    rest[:] = False
    for start, stop in long if len(long) <= PAUSES else ():
        rest[start:stop] = True
    return rest


def _sensor(name: str, x: np.ndarray) -> Iterator[Finding]:
    steps = float(np.diff(x).var())
    run, repeats = tests.longest_run(x)
    step = tests.quantum(x)
    if step > 0 and steps > 0 and step**2 / 6 > 0.02 * steps:
        error = step**2 / 6 / steps
        yield measured(
            "quantised",
            step,
            f"{name} is recorded in steps of {step:.3g}, {step / np.sqrt(steps):.2g} standard "
            "deviations of its change from sample to sample.",
            "Record it more finely, or sample less often.",
            PROBLEM if error > COARSE else RESERVATION if error > HARMFUL else NOTE,
        )
        return
    share = tests.clipped(x)
    if share > 0.003:
        yield measured(
            "clipped",
            share,
            f"{share:.1%} of the samples of {name} sit exactly at its largest or smallest "
            "value: the sensor is at its limit.",
            "Mark these samples as missing, or extend the range.",
        )
    elif repeats > HELD and tests.in_a_row(x) < RESTING:
        yield measured(
            "held values",
            repeats,
            f"{repeats:.0%} of the samples of {name} repeat the one before: it was recorded "
            "less often than it is listed.",
            "Take every sample once: sample as seldom as the slowest variable.",
            PROBLEM,
        )
    elif run >= STUCK and repeats < REPEATS:
        yield measured(
            "stuck sensor",
            float(run),
            f"{name} stays at one value for {run} samples and never else.",
            "Mark the stretch as missing.",
        )
    straight = tests.straight_share(x)
    if straight > INTERPOLATED:
        yield measured(
            "interpolated",
            straight,
            f"{straight:.0%} of the samples of {name} lie exactly between their neighbours: "
            "it was interpolated from fewer, and knows its future.",
            "Use the samples that were measured.",
            PROBLEM,
        )
