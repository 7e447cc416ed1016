"""Rules about samples: properties of real series that mislead, found before anything is fitted."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from .._checks import check_kind
from .._types import Checked, divisor
from .._wording import amount, listed, percent, time_span
from ..samples._clock_inputs import clock_named
from ..samples._columns import APART, SMALLER, is_event, rests_at_zero, trends, wrapping_angle
from ..samples._factors import factor_nats, proportional
from ..samples._gaps import Stretch, linearly_interpolated, runs
from ..samples._noise import measurement_error, stretch
from ..samples._prepare import (
    FEWEST,
    TREND,
    carriers,
    not_carried,
    prepare_samples,
    seasons,
    spectral_lines,
    treated_columns,
)
from ..samples._samples import Samples
from ..samples._treatments import CALENDAR, HELD, SCHEDULE, Treatment, terms
from . import _data_tests as tests
from ._finding import (
    NOTE,
    PROBLEM,
    RESERVATION,
    RULES,
    SAMPLES,
    Finding,
    Hit,
    Limits,
    Rule,
    findings_of,
    rules_about,
)

# Share of the variance of a step from which on an error of interpolation, measurement or rounding
# is not harmless.
HARMFUL = 0.1
# How clearly a season must be additive to leave nothing behind, and the nats per variable by which
# it must be part of the state to be a problem, beyond chance (from added seasons of
# `benchmarks.verdict`, seed 12000). In a linear system nothing is left behind.
ADDED, INSIDE = 0.02, 5.0
# Share of missing values above which they are a reservation.
MANY_MISSING = 0.2
# Largest gap, in samples, that counts as single values and not as a stretch.
SHORT_GAP = 5
# Ratio of long to short intervals above which no interpolation helps.
UNEVEN = 3.0
# Dickey–Fuller statistic above which no restoring force can be shown.
UNIT_ROOT = -1.7
# A cycle without noise: limits of the noise of a step and of the later autocorrelation.
TINY, RETURNS = 0.01, 0.999
# Shortest run of one value of a stuck sensor, and the largest share of repeats of its variable.
STUCK, REPEATS = 8, 0.1
# Largest number of stretches at rest that count as pauses of the experiment.
PAUSES = 3
# Share of changes that directly follow another, from which on a repeating variable is at rest.
RESTING = 0.1
# Share of samples at the largest or smallest value beyond which a sensor counts as clipped.
CLIPPED = 0.003
# Share of samples equal to the one before, above which values count as held.
REPEATED = 0.45
# The same share for values that are written only after a large enough change.
BANDED = 0.15
# Standard errors of a shift of a level given its past, and the smallest in standard deviations.
SHIFTED, SHIFT = 6.5, 0.3
# Spread of the means of recordings, in standard deviations within them, above which it is reported,
# and the probability of one as large in any variable.
BASELINES, BY_CHANCE = 0.4, 1e-4
# Fewest samples of a variable for a test of its sensor.
SENSED = 50

sample_rule = rules_about(SAMPLES)


@dataclasses.dataclass(frozen=True, eq=False)
class Sensor:
    """The longest stretch of measured samples, `x` `[time]`, of the variable `name`."""

    name: str
    x: np.ndarray

    @functools.cached_property
    def quantum(self) -> float:
        """The step of which all differences are multiples; 0 if there is none."""
        return tests.quantum(self.x)

    @functools.cached_property
    def rounding(self) -> float:
        """The variance of the rounding error, as a share of the variance of a step."""
        steps = float(np.diff(self.x).var())
        return self.quantum**2 / 6 / steps if steps > 0 else 0.0

    @functools.cached_property
    def clipped(self) -> float:
        """The share of samples at the ends of the range."""
        return tests.clipped(self.x)

    @functools.cached_property
    def run(self) -> tests.Run:
        """The longest run of one value."""
        return tests.longest_run(self.x)


@dataclasses.dataclass(frozen=True, eq=False)
class SampleEvidence:
    """The input of rules about samples.

    - `samples`: the samples as they are, treated or not.
    - `inputs`: names of known inputs, which may jump, drift and stand still.
    - `links`: which variable was found to drive which; None before a search.
    """

    samples: Samples
    inputs: tuple[str, ...] = ()
    links: Bool[np.ndarray, "source target"] | None = None

    @functools.cached_property
    def measured(self) -> Samples:
        """The samples before any treatment except that of codes for missing values, which are not
        measurements.
        """
        coded = any(treatment.name == "codes" for treatment in self.samples.treatments)
        return prepare_samples(self.samples.as_measured(), ("codes",) if coded else ())

    @functools.cached_property
    def own(self) -> Samples:
        """The samples without known inputs and without treatments, which have their own rules."""
        return self._without_inputs(self.samples)

    @functools.cached_property
    def own_measured(self) -> Samples:
        """The samples before any treatment, without known inputs."""
        return self._without_inputs(self.measured)

    @functools.cached_property
    def longest(self) -> Float[np.ndarray, "time dim"]:
        """The longest record without known inputs, with gaps bridged; empty if samples are uneven
        or too few.
        """
        x = max(self.own.values, key=len)
        usable = self.own.regular and len(x) >= FEWEST and x.shape[1] > 0
        return linearly_interpolated(x) if usable else np.zeros((0, x.shape[1]))

    @functools.cached_property
    def stretches(self) -> list[Stretch]:
        """The longest stretch without a long gap of each variable of the longest record."""
        if not len(self.longest):
            return []
        return [Stretch.longest(column) for column in max(self.own.values, key=len).T]

    @functools.cached_property
    def moving(self) -> list[int]:
        """The columns that do not jump between a few values; those that do neither drift nor
        wander.
        """
        return [j for j, part in enumerate(self.stretches) if len(part.x) and not is_event(part.x)]

    @functools.cached_property
    def trends(self) -> dict[int, tuple[float, float]]:
        """The clear trends by column: the size in standard errors and the share of the variance."""
        found = trends(self.longest)
        each = {j: (found.errors[j], found.shares[j]) for j in self.moving}
        return {j: (e, share) for j, (e, share) in each.items() if e > APART and share > TREND}

    @functools.cached_property
    def changes(self) -> dict[int, tuple[float, str, float]]:
        """The clear changes of regime by column: standard errors, what changes, and where, without
        those explained by switches.
        """
        found, n = {}, len(self.longest)
        for j in self.moving:
            first, x = self.stretches[j]
            if tests.is_set(x) or self.own.names[j] in self.switches:
                continue
            errors, what, where = tests.regime_change(self.unswitched(j))
            if errors > APART:
                found[j] = errors, what, (first + where * len(x)) / n
        return found

    @functools.cached_property
    def shifts(self) -> dict[int, tuple[float, float]]:
        """The clear shifts by column, of variables without a change of regime: standard errors and
        where.
        """
        names, found = list(self.samples.names), {}
        each = tests.shifts(max(self.samples.values, key=len)) if len(self.longest) else None
        for j in self.moving:
            mine = names.index(self.own.names[j])
            if each is None or j in self.changes or tests.is_set(self.stretches[j].x):
                continue
            if each.errors[mine] > SHIFTED and each.heights[mine] > SHIFT:
                found[j] = float(each.errors[mine]), float(each.places[mine])
        return found

    @functools.cached_property
    def switches(self) -> tuple[str, ...]:
        """The names of known inputs, and of variables with two measured values."""
        known = [x[np.isfinite(x)] for x in np.concatenate(self.measured.values).T]
        two = [len(np.unique(x)) == 2 for x in known]
        return (*self.inputs, *itertools.compress(self.samples.names, two))

    def unswitched(self, column: int) -> Float[np.ndarray, "time"]:
        """Return the longest stretch of a variable, minus its least-squares fit on the switches,
        such as a law, that were found to drive it directly or through others.
        """
        (first, x), names = self.stretches[column], list(self.samples.names)
        if self.links is None:
            return x
        from scipy.sparse.csgraph import breadth_first_order  # takes a moment to import

        target = names.index(self.own.names[column])
        behind = breadth_first_order(self.links.T, target, return_predecessors=False)
        drives = np.isin(names, self.switches) & np.isin(np.arange(len(names)), behind)
        values = linearly_interpolated(max(self.samples.values, key=len))[
            first : first + len(x), drives
        ]
        values = values - values.mean(axis=0)
        return x - values @ np.linalg.lstsq(values, x - x.mean(), rcond=None)[0]

    @functools.cached_property
    def growing(self) -> dict[int, str]:
        """The variables that change in proportion to their level before seasons and trends are
        subtracted: columns and names.
        """
        before = self.samples.before("season", "trend")
        found = np.flatnonzero(proportional(factor_nats(before), before))
        return {int(j): before.names[j] for j in found}

    @functools.cached_property
    def sensors(self) -> tuple[Sensor, ...]:
        """The variables whose sensor is tested, without pauses of the whole record. Variables that
        are set (stepping actuators, quantised controls, switches) are excluded, unless they only
        look so because small changes were not recorded.
        """
        resting = [_resting(x) for x in self.measured.values]
        found = []
        for j, name in enumerate(self.own_measured.names):
            parts = zip(self.own_measured.values, resting, strict=True)
            kept = [x[np.isfinite(x[:, j]) & ~rest, j].astype(float) for x, rest in parts]
            x = max(kept, key=len)
            if len(x) >= SENSED and (tests.deadband(x) or not (tests.is_set(x) or is_event(x))):
                found.append(Sensor(name, x))
        return tuple(found)

    @functools.cached_property
    def copies(self) -> list[tuple[int, int, int, float]]:
        """The columns that are copies of others; with several recordings, only at lag 0. Of two
        inputs, such as sine and cosine of a year, one may be a later copy, since none drives them.
        """
        x = self._complete
        if len(x) < 30:
            return []
        names, one = self.samples.names, len(self.samples.values) == 1
        return [
            copy
            for copy in tests.copies(x)
            if copy[2] == 0 or (one and not {names[j] for j in copy[:2]} <= {*self.inputs})
        ]

    @property
    def _complete(self) -> Float[np.ndarray, "time dim"]:
        x = np.concatenate(self.samples.values)
        return x[np.isfinite(x).all(axis=1)]

    @property
    def combination(self) -> tuple[float, Bool[np.ndarray, "dim"]]:
        """The smallest share of variance along a direction of several columns, and these."""
        x = self._complete
        if len(x) < 30 or self.copies:
            return 1.0, np.zeros(x.shape[1], bool)
        return tests.combination(x)

    @functools.cached_property
    def intervals(self) -> tuple[float, float]:
        """The 5 and 95 % quantiles of the intervals between samples of the variable that has most:
        in a merged table no row has all variables.
        """
        there = [np.isfinite(x) for x in self.samples.values]
        best = int(np.argmax(np.sum([known.sum(axis=0) for known in there], axis=0)))
        pairs = zip(self.samples.times, there, strict=True)
        between = np.concatenate([np.diff(times[known[:, best]]) for times, known in pairs])
        low, high = np.quantile(between, [0.05, 0.95])
        return float(low), float(high)

    @property
    def longest_gap(self) -> tuple[int, str]:
        """The length of the longest stretch of missing values of one variable, 0 if there is none,
        and the dates of its ends in words, empty if unknown.
        """
        longest, said = 0, ""
        for k, x in enumerate(self.samples.values):
            for gone in np.isnan(x).T:
                for start, stop in runs(gone):
                    if stop - start > longest:
                        longest = int(stop - start)
                        ends = [self.samples.when(int(i), k) for i in (start, stop - 1)]
                        said = " to ".join(dict.fromkeys(ends))
        return longest, said

    def when(self, share: float) -> str:
        """Return in words where in the longest record a change lies, with its date if known."""
        values = self.samples.values
        k = max(range(len(values)), key=lambda i: len(values[i]))
        date = self.samples.when(round(share * (len(values[k]) - 1)), k)
        return f"in about {date}, {share:.0%} into" if date else f"after about {share:.0%} of"

    def own_named(self, columns: Sequence[int]) -> str:
        """Return the names of columns of samples without known inputs for a sentence."""
        return listed([self.own.names[j] for j in columns])

    def named(self, columns: Sequence[int] | np.ndarray) -> str:
        """Return the names of columns for a sentence."""
        return listed([self.samples.names[int(j)] for j in columns])

    def _without_inputs(self, samples: Samples) -> Samples:
        keep = ~np.isin(np.asarray(samples.names), list(self.inputs))
        names = tuple(np.asarray(samples.names)[keep].tolist())
        values = tuple(x[:, keep] for x in samples.values)
        return dataclasses.replace(samples, names=names, values=values, treatments=())


def data_findings(
    samples: Checked[Samples], inputs: Checked[Sequence[str]] = ()
) -> tuple[Finding, ...]:
    """Return the findings on samples alone that could make a graph wrong, and what was done.

    The findings cover seasons, trends, changes of regime, random walks, irregular clocks, copies of
    columns, missing values, angles, sensors that are quantised, clipped, stuck, held or
    interpolated, spikes, measurement error, and noise-free orbits that only repeat themselves. The
    tests are closed forms and take a fraction of a second for twenty variables and five thousand
    samples. They are designed not to fire on good data. Treated samples are tested as they
    are, and as they were measured if the treatment would hide something.

    **Arguments:**

    - `samples`: samples from [`read_samples`][ndde_jax.read_samples], with or without treatment by
        [`prepare_samples`][ndde_jax.prepare_samples].
    - `inputs`: names of known inputs, which may jump, drift and stand still.

    **Returns:** the findings, most serious first; `weight` is the effect of each on the verdict.

    **Raises:** `ValueError` for an argument that is not `Samples`.

    ```python
    import numpy as np
    import ndde_jax as ndde

    x = np.random.default_rng(0).normal(size=(500, 2))
    x = np.concatenate([x, x[:, :1]], axis=1)
    (found,) = ndde.data_findings(ndde.read_samples(x, dt=1.0, names=("a", "b", "copy")))
    print(found.name, found.weight)  # duplicate problem
    ```
    """
    check_kind(samples, Samples, "samples", "what read_samples returns")
    return tuple(findings_of(SAMPLES, SampleEvidence(samples, tuple(inputs))))


# ---- treatments ----

# The finding and its remedy by the name of a treatment. Offsets and transforms are requested by the
# user and listed among the choices.
TREATED = {
    "codes": (
        "missing values",
        "Write them as empty cells; treat=False (--no-treat) keeps them as numbers.",
    ),
    HELD: (
        "held values",
        "If it was recorded less often than it is listed, sample all variables as rarely: its "
        "delays are wrong by up to the time between two values. If it is set by hand, declare it: "
        "inputs=[...] or --inputs. treat=False (--no-treat) searches for what drives it.",
    ),
    "rows": ("missing rows", "Nothing, if these rows are really missing."),
    "clock": ("irregular clock", "Sample regularly, or resample with a model of the noise."),
    CALENDAR: ("irregular clock", "Nothing, if each row is a calendar week or similar."),
    "spikes": ("spikes", "Inspect them; treat=False (--no-treat) keeps them."),
    "season": ("season", "{clock}; treat=False (--no-treat) keeps the season."),
    "rhythm": ("rhythm", "Nothing, unless an outer clock causes it: prepare_samples removes it."),
    SCHEDULE: (
        "season",
        "Nothing, if it is a schedule; treat=False (--no-treat) searches for what drives it.",
    ),
    "trend": (
        "trend",
        "Add its cause as a variable; treat=False (--no-treat) keeps the trend.",
    ),
    "impute": ("missing values", "Compare with the graph without them: recipe=Recipe(impute=0)."),
    "gaps": (
        "missing values",
        "Fill them from knowledge of the system; treat=False (--no-treat) omits the windows that "
        "touch them.",
    ),
}


# Treatments that leave nothing behind whatever their size.
HARMLESS = ("rows", CALENDAR, "spikes", "rhythm", "codes", SCHEDULE)


def _treatment_hits(treatment: str, remedy: str, evidence: SampleEvidence) -> Iterator[Hit]:
    done = evidence.samples.treatments
    if treatment == "gaps" and any(other.name == "impute" for other in done):
        return  # filled values are estimated again
    for one in done:
        if one.name == treatment and not (treatment == HELD and _set_externally(one)):
            weight = _remaining_weight(evidence.samples, one)
            clock = _as_input(one.periods, evidence.samples.time_unit)
            words = {"text": one.text, "meaning": "", "remedy": remedy.format(clock=clock)}
            if one.name == "season" and weight == PROBLEM:
                words["meaning"] = (
                    " The changes of the variables still depend on the phase of the cycle."
                )
            growing = evidence.growing if one.name in ("season", "trend") else {}
            if growing.keys() & set(one.columns):
                names = list(growing.values())
                options = " ".join(f'--log "{name}"' for name in names)
                weight = PROBLEM if weight == PROBLEM else RESERVATION
                words["meaning"] += (
                    f" The changes of {listed(names, most=4)} grow with the level, so subtracting "
                    "it leaves a part behind."
                )
                words["remedy"] = (
                    "Take logarithms of what cannot fall below zero: "
                    f"transform={dict.fromkeys(names, 'log')} ({options})."
                )
            yield Hit(one.size, words, weight=weight)


def _as_input(periods: Sequence[float], unit: str) -> str:
    """Return the advice to make the cause of cycles, with periods in a unit, a known input."""
    clocks = [clock for clock in (clock_named(period, unit) for period in periods) if clock]
    advice = "Make what causes the cycle a known input: a measured driver by its name, or "
    if not clocks:
        return f"{advice}a cosine and a sine of the period as two variables (inputs=, --inputs)"
    one = "the clock" if len(clocks) == 1 else "clocks"
    return f"{advice}{one}, inputs={clocks} (--inputs {','.join(clocks)})"


def _set_externally(treatment: Treatment) -> bool:
    """Return whether all variables that a treatment concerns are set from outside, like inputs."""
    values = linearly_interpolated(max(treatment.values, key=len))
    return all(tests.is_set(values[:, j]) for j in treatment.columns)


def _remaining_weight(samples: Samples, treatment: Treatment) -> str:
    """Return the weight of what a treatment leaves behind."""
    if treatment.name == "gaps":
        gone = sum(int(np.isnan(x).sum()) for x in treatment.values)
        return RESERVATION if gone > MANY_MISSING * sum(x.size for x in treatment.values) else NOTE
    if treatment.name == "impute":
        return RESERVATION if treatment.size > MANY_MISSING else NOTE
    if treatment.name == HELD:
        return RESERVATION
    if treatment.size <= HARMFUL or treatment.name in HARMLESS:
        return NOTE
    if treatment.name == "clock":
        before = dataclasses.replace(samples, times=treatment.times, values=treatment.values)
        low, high = SampleEvidence(before).intervals
        return PROBLEM if high > UNEVEN * low else RESERVATION
    if treatment.name == "season":
        # An added season is gone; one that moves the system has left traces.
        k = max(range(len(treatment.values)), key=lambda i: len(treatment.values[i]))
        before, times = linearly_interpolated(treatment.values[k]), treatment.times[k]
        waves = terms(times - times[0], treatment.periods)[:, 2:]
        sign = tests.inside(before, before - treatment.removed(times, k), waves)
        moves = sign * len(before) / 2 < -INSIDE
        return PROBLEM if moves else NOTE if sign > ADDED else RESERVATION
    return RESERVATION


for _treatment, (_name, _remedy) in TREATED.items():
    RULES[f"{_name}, by {_treatment}"] = Rule(
        _name,
        SAMPLES,
        functools.partial(_treatment_hits, _treatment, _remedy),
        "{text}{meaning}",
        "{remedy}",
    )


# ---- clocks, seasons and missing values ----


@sample_rule(
    "season",
    "A cycle of {period} keeps its phase in {who}, like an external clock; {meaning}",
    "{remedy}",
)
def _season(evidence: SampleEvidence) -> Iterator[Hit]:
    samples = evidence.samples
    if any(treatment.name in ("season", "rhythm") for treatment in samples.treatments):
        return
    lines = seasons(samples)
    if not lines:
        return
    known = np.isin(np.asarray(samples.names), list(evidence.inputs))
    clock = not not_carried(samples, lines, carriers(samples, lines, known))
    meaning, remedy = (
        ("one variable is that clock and explains it, or an input contains it.",
         "Declare the clock as a known input (inputs=, --inputs).")
        if clock
        else ("variables that share it seem to drive one another.", "prepare_samples removes it.")
    )  # fmt: skip
    words = _cycle_of(evidence, lines) | {"meaning": meaning, "remedy": remedy}
    yield Hit(lines[0].share, words, weight=NOTE if clock else RESERVATION)


@sample_rule(
    "rhythm",
    "A cycle of {period} keeps its phase in {who} ({share} of the variance). {meaning}; it was "
    "left as it is.",
    "{remedy}",
)
def _rhythm(evidence: SampleEvidence) -> Iterator[Hit]:
    samples = evidence.samples
    if any(treatment.name in ("season", "rhythm") for treatment in samples.treatments):
        return
    lines = [line for line in spectral_lines(samples) if not line.outer]
    given = np.isin(np.asarray(samples.names), list(evidence.inputs))
    if lines := not_carried(samples, lines, given):
        known = lines[0].of_clock
        meaning, remedy = (
            ("It may be a season, which makes variables seem to drive each other, or be their own; "
             "the record does not show which",
             f"{_as_input([lines[0].period * samples.dt], samples.time_unit)}. A longer record may "
             "show which it is.")
            if known
            else ("A daily or yearly cycle looks like this; so does a system with little noise, "
             "measured with errors",
             "If it is daily, weekly or yearly, give time stamps or the unit of time: it is then "
             "removed before the search.")
        )  # fmt: skip
        words = _cycle_of(evidence, lines) | {"share": percent(lines[0].share)}
        words |= {"meaning": meaning, "remedy": remedy}
        yield Hit(lines[0].share, words, weight=RESERVATION if known else NOTE)


def _cycle_of(evidence: SampleEvidence, lines: Sequence[Any]) -> dict[str, Any]:
    """Return in words which variables have the cycle of some spectral lines, and its period."""
    samples, who = evidence.samples, evidence.named(sorted({line.column for line in lines}))
    return {"who": who, "period": time_span(lines[0].period * samples.dt, unit=samples.time_unit)}


@sample_rule(
    "irregular clock",
    "Samples are not equally spaced: intervals range from {low} to {high}, so a lag in samples is "
    "not a single delay.",
    "Interpolate to a regular grid, as prepare_samples does with very uneven samples.",
    limits=Limits(
        note=0.0,
        reservation=1.2,
        problem=2.0,
        why="below 1.2 a lag of five samples is one delay to within a sample; at 2 a lag of one "
        "sample can equal a lag of two",
    ),
)
def _clock(evidence: SampleEvidence) -> Iterator[Hit]:
    if evidence.samples.regular:
        return
    low, high = evidence.intervals
    unit = evidence.samples.time_unit
    yield Hit(high / low, {"low": f"{low:.3g}", "high": f"{high:.3g} {unit}".rstrip()})


def _missing(evidence: SampleEvidence, in_a_row: bool) -> Iterator[Hit]:
    samples = evidence.samples
    gone = np.concatenate([np.isnan(x) for x in samples.values])
    longest, ends = evidence.longest_gap
    if longest and in_a_row == (longest > SHORT_GAP):
        share, number = float(gone.mean()), int(gone.sum())
        each = gone.sum(axis=0)
        worst = samples.names[int(np.argmax(each))]
        of = f", most of {worst}" if (each == each.max()).sum() == 1 else ""
        count = f"{amount(float(number), 'value', 9)} ({share:.1%}{of}) are"
        words = {"count": f"1 value of {worst} is" if number == 1 else count}
        words["longest"] = amount(float(longest), "sample", 9)
        yield Hit(share, words | {"ends": f", {ends}" if ends else ""})


for _name, _in_a_row in (("missing values", False), ("missing stretch", True)):
    RULES[_name] = Rule(
        _name,
        SAMPLES,
        functools.partial(_missing, in_a_row=_in_a_row),
        "{count} missing and not estimated; the longest gap spans {longest}{ends}. Windows that "
        "touch a gap are used, if at all, only for variables that do not need its values.",
        "Nothing, unless values are missing because of what they would have been: the rest is then "
        "a biased sample.",
        Limits(
            note=0.0,
            reservation=MANY_MISSING,
            why="with a fifth missing, few windows of several lags are complete",
        ),
    )


# ---- redundant columns ----

COPIED = (
    "{copies} of {first}{when} ({rest} is {own} own): which of them drives cannot be determined."
)
ALWAYS = Limits(problem=-1.0, why="no record can distinguish two columns of one variable")
EXACT = 1e-6


def _copies(evidence: SampleEvidence, exact: bool) -> Iterator[Hit]:
    """Report copies at lag 0 in groups, and later copies one by one."""
    nearly, groups = "" if exact else "nearly ", list[set[int]]()
    alike = [copy for copy in evidence.copies if (copy[3] < EXACT) == exact]
    for j, i, lag, _ in alike:
        if not lag:
            joined = [group for group in groups if group & {i, j}]
            groups = [group for group in groups if group not in joined]
            groups.append({i, j}.union(*joined))
    late = [({i, j}, i, lag, rest) for j, i, lag, rest in alike if lag]
    most = [max(rest for j, i, lag, rest in alike if not lag and i in group) for group in groups]
    now = [(group, min(group), 0, rest) for group, rest in zip(groups, most, strict=True)]
    for group, first, lag, rest in (*now, *late):
        copies = evidence.named(sorted(group - {first}))
        one = len(group) == 2
        share = f"{'' if one else 'at most '}{rest:.1g}" if rest > 1e-12 else "none"
        words = {
            "copies": f"{copies} is {nearly}a copy" if one else f"{copies} are {nearly}copies",
            "first": evidence.samples.names[first],
            "when": f" {lag} samples later" if lag else "",
            "rest": f"{share} of its variance" if one else f"{share} of their variance",
            "own": "its" if one else "their",
            "remedy": f"Omit {copies}." if one else "Keep one of them.",
        }
        yield Hit(rest, words)


for _name, _exact in (("duplicate", True), ("near duplicate", False)):
    RULES[_name] = Rule(
        _name, SAMPLES, functools.partial(_copies, exact=_exact), COPIED, "{remedy}", ALWAYS
    )


@sample_rule(
    "linear combination",
    "{what}: which of them drives cannot be determined.",
    "Omit one of them.",
    limits=Limits(
        problem=1e-3,
        below=True,
        why="standard errors grow thirtyfold if only a thousandth of a variance is a column's own",
    ),
)
def _combination(evidence: SampleEvidence) -> Iterator[Hit]:
    share, involved = evidence.combination
    who = evidence.named(np.flatnonzero(involved))
    what = f"{who} are linear combinations of one another to within {share:.1g} of their variance"
    yield Hit(share, {"what": what})
    names = evidence.own.names
    for j, i, width in tests.running_means(evidence.longest):
        yield Hit(0.0, {"what": f"{names[j]} is the mean of {width} samples of {names[i]}"})


# ---- records without noise, and records that change ----


@sample_rule(
    "no noise, one cycle",
    "The record repeats itself (autocorrelation {again:.3f}), and noise is {share:.1g} of the "
    "variance of a step. Along one closed orbit every variable is a function of every other, so "
    "which drives which cannot be determined.",
    "Record from several starts, or with the system disturbed.",
    limits=Limits(
        problem=TINY, below=True, why="noise of a hundredth of a step never leaves the cycle"
    ),
)
def _cycle(evidence: SampleEvidence) -> Iterator[Hit]:
    x = evidence.longest
    if not len(x):
        return
    noise = (np.diff(x, n=5, axis=0) ** 2).mean(axis=0) / 252  # the sum of squares of 1 5 10 10 5 1
    steps = np.diff(x, axis=0).var(axis=0)
    share = float(np.max(noise / divisor(steps)))
    again = tests.returns(x)
    if again > RETURNS:
        yield Hit(share, {"again": again, "share": share})


@sample_rule(
    "trend",
    "{who} {have} a trend ({share:.0%} of the variance of {worst}): variables that share a trend "
    "seem to drive one another.",
    "Remove it first, or add its cause as a variable.",
    limits=Limits(
        reservation=TREND,
        why="a slope beyond five standard errors that makes up a twentieth of a variance",
    ),
)
def _trend(evidence: SampleEvidence) -> Iterator[Hit]:
    if not evidence.trends:
        return
    worst = max(evidence.trends, key=lambda j: evidence.trends[j][0])
    share, names = evidence.trends[worst][1], evidence.own.names
    who = listed([names[j] for j in evidence.trends])
    have = "has" if len(evidence.trends) == 1 else "have"
    yield Hit(share, {"who": who, "have": have, "share": share, "worst": names[worst]})


@sample_rule(
    "change of regime",
    "The {what} of {worst} changes {where} the record{others}: one graph and "
    "one drift may not hold throughout.",
    "Analyse the parts before and after separately.",
    limits=Limits(
        reservation=APART,
        problem=APART,
        why="standard errors, the largest of many tests on good records; a change of the noise "
        "level alone is a reservation: all links of such records were true (2133 simulated ones)",
    ),
)
def _regime(evidence: SampleEvidence) -> Iterator[Hit]:
    if not evidence.changes:
        return
    worst, also = _clearest(evidence.changes)
    errors, what, where = evidence.changes[worst]
    others = f", and also {evidence.own_named(also)} change" if also else ""
    words = {"what": what, "worst": evidence.own_named([worst]), "where": evidence.when(where)}
    words["others"] = others
    law = any(evidence.changes[j][1] in ("mean", "memory") for j in evidence.changes)
    yield Hit(errors, words, value=where, weight=PROBLEM if law else RESERVATION)


@sample_rule(
    "shifted level",
    "{worst}{others} shifts {where} the record, by more than the past of all variables explains: "
    "the sensor of {worst}, or of what drives it, was changed, or another influence began.",
    "Correct the values if a sensor was changed. Otherwise analyse the parts before and after "
    "separately.",
    limits=Limits(
        problem=SHIFTED,
        why="standard errors; none of 520 good records of 65 kinds has such a shift, and of 40 "
        "steps by one and two standard deviations in rough variables 37 are named",
    ),
)
def _shift(evidence: SampleEvidence) -> Iterator[Hit]:
    if not evidence.shifts:
        return
    worst, also = _clearest(evidence.shifts)
    errors, where = evidence.shifts[worst]
    words = {"worst": evidence.own_named([worst]), "where": evidence.when(where)}
    words["others"] = f" (and also {evidence.own_named(also)})" if also else ""
    yield Hit(errors, words, value=where)


def _clearest(found: Mapping[int, tuple]) -> tuple[int, list[int]]:
    """Return the column whose first number, standard errors, is largest, and the other columns."""
    worst = max(found, key=lambda j: found[j][0])
    return worst, [j for j in found if j != worst]


@sample_rule(
    "baselines",
    "The mean of {worst}{others} differs from recording to recording by {spread:.2g} standard "
    "deviations, more than by chance. A separate level in every recording looks like memory, and "
    "creates links where there are none.",
    "If the sensors or subjects differ, and not the dynamics, give every recording its own mean: "
    "Recipe(offsets=True), or --offsets.",
    limits=Limits(
        reservation=BASELINES,
        why="standard deviations within recordings; in six records of autoregressions, levels .2 "
        "apart gave false lags in none, .4 apart in five",
    ),
)
def _baselines(evidence: SampleEvidence) -> Iterator[Hit]:
    own, spreads = evidence.own, {}
    for j, name in enumerate(own.names):
        spread, chance = tests.baselines([np.asarray(x[:, j], float) for x in own.values])
        if chance < BY_CHANCE / len(own.names):
            spreads[name] = spread
    if not spreads:
        return
    worst = max(spreads, key=lambda name: spreads[name])
    also = [name for name in spreads if name != worst]
    others = f" (and also of {listed(also)})" if also else ""
    words = {"worst": worst, "others": others, "spread": spreads[worst]}
    yield Hit(spreads[worst], words, variable=worst)


@sample_rule(
    "random walk",
    "Nothing pulls {who} back within the record: the values wander, or the record is short "
    "compared with their slowest movement. Variables that wander can seem related by chance.",
    "Record for longer, or analyse the changes instead of the levels.",
    limits=Limits(
        reservation=UNIT_ROOT,
        why="the Dickey–Fuller statistic that half of all random walks exceed",
    ),
)
def _walk(evidence: SampleEvidence) -> Iterator[Hit]:
    if evidence.trends or evidence.changes:
        return
    roots = {j: tests.unit_root(evidence.unswitched(j)) for j in evidence.moving}
    walks = [j for j, root in roots.items() if root > UNIT_ROOT]
    if walks:
        who = listed([evidence.own.names[j] for j in walks])
        yield Hit(max(roots[j] for j in walks), {"who": who})


# ---- sensors ----


@sample_rule(
    "quantised",
    "{name} is recorded in steps of {step:.3g}, {size:.2g} standard deviations of its change from "
    "sample to sample.",
    "Record it more finely, or sample less often.",
    limits=Limits(
        note=0.02,
        reservation=HARMFUL,
        problem=0.2,
        why="the rounding error as a share of the variance of a step: as harmful as a measurement "
        "error of that size",
    ),
)
def _quantised(evidence: SampleEvidence) -> Iterator[Hit]:
    for sensor in evidence.sensors:
        step = sensor.quantum
        if sensor.rounding > 0:
            words = {"name": sensor.name, "step": step, "size": np.sqrt(6 * sensor.rounding)}
            yield Hit(sensor.rounding, words, value=step, variable=sensor.name)


def _fine_sensors(evidence: SampleEvidence, order: int = 0) -> Iterator[Sensor]:
    """Yield the sensors whose repeated values are meaningful: not resting at zero, and not coarse,
    unless their values (`order` 1) or slopes (2) change at the ticks of a slower clock.
    """
    for sensor in evidence.sensors:
        coarse = sensor.rounding > 0.02
        if coarse and not (order and tests.slower_clock(sensor.x, order)):
            continue
        if not rests_at_zero(sensor.x):
            yield sensor


@sample_rule(
    "wrapped angle",
    "{name} is an angle that starts again at {seam} after a full turn. Jumps there make up "
    "{share:.0%} of the variance of its steps, and nothing drives these jumps.",
    "Use its sine and its cosine instead.",
    limits=Limits(
        problem=SMALLER,
        why="steps of independent values lose half of their variance if they may wrap around",
    ),
)
def _wrapped(evidence: SampleEvidence) -> Iterator[Hit]:
    for sensor in evidence.sensors:
        turn = wrapping_angle(sensor.x)
        if turn is not None:
            seam = f"{turn.seam:g}"
            words = {"name": sensor.name, "seam": seam, "share": turn.share}
            yield Hit(turn.share, words, variable=sensor.name)


@sample_rule(
    "clipped",
    "{share:.1%} of the samples of {name} sit exactly at {where}.",
    "{remedy}",
    limits=Limits(
        reservation=CLIPPED, why="a good record of 1000 samples has no extreme value three times"
    ),
)
def _clipped(evidence: SampleEvidence) -> Iterator[Hit]:
    for sensor in _fine_sensors(evidence):
        words: dict[str, Any] = {
            "where": "its largest or smallest value: the sensor is at its limit",
            "remedy": "Mark these samples as missing, or extend the range.",
        }
        weight, at_zero = None, (sensor.x == 0).mean() == sensor.clipped
        if sensor.clipped > CLIPPED and at_zero and sensor.x.min() == 0:
            weight = NOTE
            words = {
                "where": "zero, its smallest value: it was absent, like rain, or the sensor does "
                "not read lower",
                "remedy": "If the sensor is at its limit there, mark these samples as missing.",
            }
        words |= {"share": sensor.clipped, "name": sensor.name}
        yield Hit(sensor.clipped, words, variable=sensor.name, weight=weight)


@sample_rule(
    "held values",
    "{share:.0%} of the samples of {name} repeat the one before: {why}.",
    "{remedy}",
    limits=Limits(
        problem=REPEATED, why="every second sample repeats if a sensor is read half as often"
    ),
)
def _held(evidence: SampleEvidence) -> Iterator[Hit]:
    said = {evidence.samples.names[j] for j in treated_columns(evidence.samples, HELD)}
    for sensor in _fine_sensors(evidence, 1):
        if sensor.name in said:
            continue
        share, band, held = sensor.run.repeats, tests.deadband(sensor.x), None
        if band and share > BANDED:
            why = f"a value is written only after a change of {band:.3g} or more, or the "
            why += "variable moves only by so much, as a sticking valve does"
            remedy = "Ask for all samples, without exception reporting or compression."
            held = RESERVATION if share <= REPEATED else None
        elif sensor.clipped <= CLIPPED and tests.consecutive_change_share(sensor.x) < RESTING:
            why = "it was recorded less often than it is listed, or is an input that is held "
            why += "between changes"
            remedy = "Use each measurement once: sample as rarely as the slowest variable. Declare "
            remedy += f"an input that is held: inputs=[{sensor.name!r}], or --inputs."
            # A variable without drivers may well be set by hand.
            j, links = evidence.samples.names.index(sensor.name), evidence.links
            if share > REPEATED and links is not None and not links[:, j].any():
                held = RESERVATION
        else:
            continue
        words = {"share": share, "name": sensor.name, "why": why, "remedy": remedy}
        yield Hit(share, words, weight=held, variable=sensor.name)


@sample_rule(
    "stuck sensor",
    "{name} stays at {value:.6g} for {run} samples, and rarely repeats a value elsewhere.",
    "Mark that stretch as missing.",
    limits=Limits(
        reservation=float(STUCK - 1),
        why="eight equal samples are not chance in a variable that repeats one in ten",
    ),
)
def _stuck(evidence: SampleEvidence) -> Iterator[Hit]:
    for sensor in _fine_sensors(evidence):
        run, lowest = sensor.run, sensor.x[sensor.run.start] == sensor.x.min()
        if sensor.clipped <= CLIPPED and run.repeats < REPEATS and not (lowest or _slow(sensor)):
            words = {"name": sensor.name, "value": sensor.x[run.start], "run": run.length}
            yield Hit(float(run.length), words, variable=sensor.name)


def _slow(sensor: Sensor) -> bool:
    """Return whether a variable moves by at most its rounding unit just before or after its
    longest run, like a river at low flow, which may well stay at one level.
    """
    first, last = sensor.run.start, sensor.run.start + sensor.run.length - 1
    for beside in (sensor.x[max(first - STUCK, 0) : first + 1], sensor.x[last:][: STUCK + 1]):
        steps = np.abs(np.diff(beside))
        smallest = steps[steps > 0].min(initial=np.inf)
        if len(steps) == STUCK and np.median(steps) <= 2.001 * smallest:
            return True
    return False


@sample_rule(
    "interpolated",
    "{share:.0%} of the samples of {name} lie exactly between their neighbours: it was interpolated"
    " from other samples and contains its own future.",
    "Use the samples that were measured.",
    limits=Limits(
        reservation=0.05,
        problem=0.3,
        why="a third of the samples if the record has half the rate; an eighth if uneven samples "
        "were interpolated at their mean interval, which moved a delay by a sample",
    ),
)
def _interpolated(evidence: SampleEvidence) -> Iterator[Hit]:
    for sensor in _fine_sensors(evidence, 2):
        share = tests.straight_share(sensor.x)
        yield Hit(share, {"share": share, "name": sensor.name}, variable=sensor.name)


@sample_rule(
    "measurement error",
    "{name} has white measurement errors of about {deviation} of its standard deviation or {share} "
    "of the variance of its change from sample to sample.",
    "Average neighbouring samples, or sample less often; a lag may be off by one.",
    limits=Limits(
        note=HARMFUL / 2,
        reservation=HARMFUL,
        why="the error as a share of the variance of a step at which lags start to be off by one",
    ),
)
def _measurement_error(evidence: SampleEvidence) -> Iterator[Hit]:
    kept = evidence.own_measured if evidence.own_measured.regular else evidence.own
    for j, name in enumerate(kept.names if kept.regular else ()):
        x = max((stretch(x[:, j]) for x in kept.values), key=len)
        steps = np.diff(x).var() if len(x) > SENSED else 0.0
        if not steps > 0 or tests.quantum(x) ** 2 / 6 > 0.02 * steps:
            continue
        best, least = measurement_error(x)
        share, deviation = 2 * best / steps, float(np.sqrt(best) / x.std())
        if least > 0:
            words = {"name": name, "deviation": percent(deviation, 1), "share": percent(share)}
            yield Hit(share, words, value=deviation, variable=name)


def _resting(x: np.ndarray) -> Bool[np.ndarray, "time"]:
    """Return where all of several variables repeat their last values, `[time]`: the system rests
    before or after an experiment, and no sensor is stuck.
    """
    rest = np.zeros(len(x), bool)
    if x.shape[1] > 1:
        rest[1:] = (np.diff(x, axis=0) == 0).all(axis=1)
    long = [(start, stop) for start, stop in runs(rest) if stop - start >= STUCK]
    # Chance repeats of all variables do not count, nor does a record that was held throughout.
    rest[:] = False
    for start, stop in long if len(long) <= PAUSES else ():
        rest[start:stop] = True
    return rest
