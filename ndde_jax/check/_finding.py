"""Findings, and the registry of the rules that raise them, with one entry for each."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._wording import listed

MEASURED, ESTIMATED, ASSUMED = "measured", "estimated", "assumed"
# The weight of a finding in the verdict; `SEVERITY_ORDER` is the order in which they are reported.
NOTE, RESERVATION, PROBLEM = "note", "reservation", "problem"
SEVERITY_ORDER = (PROBLEM, RESERVATION, NOTE)
# The evidence of a rule: the samples alone, a graph with its drift, the same for the conditions of
# theorems (no weight in the verdict), or refits on parts of the data.
SAMPLES, GRAPH, LINE, REFITS = "samples", "graph", "line", "refits"
# Number of links listed in one sentence.
SHOWN_LINKS = 3


@dataclasses.dataclass(frozen=True)
class Finding:
    """A finding: one line of the report.

    - `kind`: `"measured"` on the data, `"estimated"` with a fitted model, or `"assumed"`.
    - `name`, `value`: what was found, and its size (a number or a few words).
    - `theorem`: the statement of the paper it concerns; empty if it concerns only the data.
    - `text`: what it means, in a sentence.
    - `remedy`: what to do about it; empty if there is nothing to do.
    - `weight`: its effect on the verdict, `"note"`, `"reservation"` or `"problem"`.
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
        """The documentation page: data that raise the finding, data that do not, and what to do."""
        rule = RULES.get(self.name)
        own = self.name if rule is None or rule.about in (SAMPLES, GRAPH) else "identifiability"
        return f"docs/problems/{own.replace(',', '').replace(' ', '_')}.md"


@dataclasses.dataclass(frozen=True)
class Limits:
    """The sizes above which a hit is a note, a reservation or a problem; None where it never is.

    `why` gives the reason for these limits. With `below`, sizes below a limit count instead.
    """

    note: float | int | None = None
    reservation: float | int | None = None
    problem: float | int | None = None
    below: bool = False
    why: str = ""

    def weight(self, size: float | int) -> str | None:
        """Return the weight of a size; None if it is not reported."""
        for name in SEVERITY_ORDER:
            limit = getattr(self, name)
            if limit is not None and (size < limit if self.below else size > limit):
                return name
        return None


@dataclasses.dataclass(frozen=True)
class Hit:
    """A measurement made by a test.

    - `size`: the number compared with the limits of the rule, and the value of the finding.
    - `words`: values for the placeholders in the sentence and the remedy of the rule.
    - `value`: the value of the finding, in place of the size.
    - `weight`: the weight, in place of the one given by the limits.
    - `variable`: the variable concerned. Hits of one rule on several variables are then merged into
        one finding, with the largest first.
    """

    size: float | int
    words: dict[str, Any] = dataclasses.field(default_factory=dict)
    value: float | int | str | None = None
    weight: str | None = None
    variable: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule, one entry of the registry: a test, its limits, its sentence and its remedy.

    - `name`: the name of the finding and of its page in `docs/problems/`.
    - `about`: the evidence that the test reads, `"samples"`, `"graph"`, `"line"` or `"refits"`.
    - `test`: a pure function of that evidence, [`SampleEvidence`][ndde_jax.check.SampleEvidence] or
        [`GraphEvidence`][ndde_jax.check.GraphEvidence], that yields a
        [`Hit`][ndde_jax.check.Hit] for everything it finds.
    - `sentence`, `remedy`: templates for `str.format`, filled with the words of a hit.
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
        """Yield the findings; hits on several variables with the same weight are one finding."""
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
    """Register the decorated test as a [`Rule`][ndde_jax.check.Rule] for all later verdicts.

    **Arguments:**

    - `name`, `about`, `sentence`, `remedy`, and the `options` `limits`, `kind` and `theorem`: the
        fields of [`Rule`][ndde_jax.check.Rule].

    **Raises:** `ValueError` if the name is taken or `about` is not one of the four.

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
            raise ValueError(f"a finding named {name!r} already exists.")
        RULES[name] = Rule(name, about, test, sentence, remedy, **options)
        return test

    return add


def rules_about(about: str, **usual: Any) -> Callable:
    """Return [`rule`][ndde_jax.check.rule] with `about` and default options already set."""

    def own(name: str, sentence: str, remedy: str = "", **options: Any) -> Callable:
        return rule(name, about, sentence, remedy, **(usual | options))

    return own


def findings_of(about: str, evidence: Any) -> list[Finding]:
    """Return the findings of all rules about one kind of evidence, most serious first."""
    rules = [entry for entry in RULES.values() if entry.about == about]
    return by_severity([found for entry in rules for found in entry.findings(evidence)])


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by weight; findings of equal weight keep their order."""
    return sorted(findings, key=lambda finding: SEVERITY_ORDER.index(finding.weight))
