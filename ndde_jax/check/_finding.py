"""Findings, and the registry of rules that raise them: one entry holds all that belongs to one."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._spoken import listed

MEASURED, ESTIMATED, ASSUMED = "measured", "estimated", "assumed"
# How much a finding weighs in the verdict, and in which order findings are told.
NOTE, RESERVATION, PROBLEM = "note", "reservation", "problem"
GRAVITY = (PROBLEM, RESERVATION, NOTE)
# What a rule looks at: samples alone; a graph and its drift; the same for what theorems ask for,
# which weighs nothing; refits on parts of the data.
SAMPLES, GRAPH, LINE, REFITS = "samples", "graph", "line", "refits"
# Links in one sentence.
SHOWN_LINKS = 3


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report.

    - `kind`: `"measured"` on the data, `"estimated"` through a fitted model, or `"assumed"`.
    - `name`, `value`: what, and how much (a number or a few words).
    - `theorem`: the statement of the paper it speaks to; empty where it speaks to the data alone.
    - `text`: what it means, in a sentence.
    - `remedy`: what to do about it; empty where there is nothing to do.
    - `weight`: `"note"`, `"reservation"` or `"problem"`: what it does to the verdict.
    """

    kind: str
    name: str
    value: float | str
    theorem: str
    text: str
    remedy: str = ""
    weight: str = NOTE

    @property
    def page(self) -> str:
        """The page of the documentation: data that cause it, data that do not, and what to do."""
        rule = RULES.get(self.name)
        own = self.name if rule is None or rule.about in (SAMPLES, GRAPH) else "identifiability"
        return f"docs/problems/{own.replace(',', '').replace(' ', '_')}.md"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Sizes from which on something is a note, a reservation, a problem; None where it never is.

    `why` says where they come from. With `below`, small sizes are the bad ones.
    """

    note: float | int | None = None
    reservation: float | int | None = None
    problem: float | int | None = None
    below: bool = False
    why: str = ""

    def weight(self, size: float | int) -> str | None:
        """Return what a size weighs; None if it is not worth a word."""
        for name in GRAVITY:
            limit = getattr(self, name)
            if limit is not None and (size < limit if self.below else size > limit):
                return name
        return None


@dataclasses.dataclass(frozen=True)
class Hit:
    """A measurement that a test has made.

    - `size`: what the limits of the rule judge, and the value of the finding.
    - `words`: for the gaps in the sentence and the remedy of the rule.
    - `value`: shown in place of the size.
    - `weight`: in place of what the limits say, where more than the size decides.
    - `variable`: whom it is about; hits of one rule are then told as one, the largest first.
    """

    size: float | int
    words: dict[str, Any] = dataclasses.field(default_factory=dict)
    value: float | int | str | None = None
    weight: str | None = None
    variable: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One entry of the registry: a test, its limits, its sentence and its remedy.

    - `name`: of the finding, and of its page in `docs/problems/`.
    - `about`: `"samples"`, `"graph"`, `"line"` or `"refits"`: which evidence the test reads.
    - `test`: a pure function of that evidence, [`SampleEvidence`][ndde_jax.check.SampleEvidence] or
        [`GraphEvidence`][ndde_jax.check.GraphEvidence], that yields a
        [`Hit`][ndde_jax.check.Hit] for whatever it finds.
    - `sentence`, `remedy`: with gaps as in `str.format`, filled with the words of a hit.
    - `limits`: [`Limits`][ndde_jax.check.Limits] that turn a size into a weight.
    - `kind`, `theorem`: as in [`Finding`][ndde_jax.check.Finding].
    """

    name: str
    about: str
    test: Callable[[Any], Iterable[Hit]]
    sentence: str
    remedy: str = ""
    limits: Limits = Limits()
    kind: str = MEASURED
    theorem: str = ""

    def findings(self, evidence: Any) -> Iterator[Finding]:
        """Yield what the test finds; hits on several variables at one weight are one finding."""
        groups: dict[tuple[str, str], list[Hit]] = {}
        for number, hit in enumerate(self.test(evidence)):
            weight = NOTE if self.about == LINE else hit.weight or self.limits.weight(hit.size)
            if weight is not None:
                groups.setdefault((weight, "" if hit.variable else str(number)), []).append(hit)
        for (weight, _), hits in groups.items():
            hits.sort(key=lambda hit: -abs(hit.size))
            worst = hits[0]
            text = self.sentence.format(**worst.words)
            if others := [hit.variable for hit in hits[1:]]:
                text += f" The same holds for {listed(others)}."
            value = worst.size if worst.value is None else worst.value
            value = value if isinstance(value, str) else float(value)
            remedy = self.remedy.format(**worst.words)
            yield Finding(self.kind, self.name, value, self.theorem, text, remedy, weight)


RULES: dict[str, Rule] = {}


def rule(name: str, about: str, sentence: str, remedy: str = "", **options: Any) -> Callable:
    """Register the test below as a [`Rule`][ndde_jax.check.Rule]: every later verdict asks it.

    **Arguments:**

    - `name`, `about`, `sentence`, `remedy`, and among `options` `limits`, `kind` and `theorem`: as
        the fields of [`Rule`][ndde_jax.check.Rule].

    **Raises:** `ValueError` for a name that is taken, or another `about` than the four.

    ```python
    import numpy as np
    import ndde_jax as ndde

    @ndde.check.rule(
        "negative values",
        about="samples",
        sentence="{name} is negative in {share:.0%} of the samples.",
        remedy="Check its unit.",
        limits=ndde.check.Limits(reservation=0.0, why="rainfall is never negative"),
    )
    def negative_values(evidence):
        for j, name in enumerate(evidence.samples.names):
            share = float(np.mean(evidence.samples.values[0][:, j] < 0))
            yield ndde.check.Hit(share, {"name": name, "share": share}, variable=name)

    x = np.random.default_rng(0).normal(size=(500, 2))
    print(ndde.data_findings(ndde.read_samples(x, dt=1.0))[0].text)
    del ndde.check.RULES["negative values"]
    ```
    """
    if about not in (SAMPLES, GRAPH, LINE, REFITS):
        raise ValueError(f"about must be 'samples', 'graph', 'line' or 'refits'; got {about!r}.")

    def add(test: Callable[[Any], Iterable[Hit]]) -> Callable[[Any], Iterable[Hit]]:
        if name in RULES:
            raise ValueError(f"there is a finding of the name {name!r} already.")
        RULES[name] = Rule(name, about, test, sentence, remedy, **options)
        return test

    return add


def rules_about(about: str, **usual: Any) -> Callable:
    """Return [`rule`][ndde_jax.check.rule] for one kind of evidence, with its usual options."""

    def own(name: str, sentence: str, remedy: str = "", **options: Any) -> Callable:
        return rule(name, about, sentence, remedy, **(usual | options))

    return own


def findings_of(about: str, evidence: Any) -> list[Finding]:
    """Return what all rules about one kind of evidence find, the gravest first."""
    rules = [entry for entry in RULES.values() if entry.about == about]
    return gravest_first([found for entry in rules for found in entry.findings(evidence)])


def gravest_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by weight; those of one weight keep their order."""
    return sorted(findings, key=lambda finding: GRAVITY.index(finding.weight))
