"""The verdict of a discovery: five lines, and the findings behind them."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Float

from .._blas import one_blas_thread
from .._wording import amount, listed, wrapped
from ._finding import (
    GRAPH,
    NOTE,
    PROBLEM,
    RESERVATION,
    SAMPLES,
    SHOWN_LINKS,
    Finding,
    by_severity,
    findings_of,
)
from ._graph_rules import GraphEvidence, evidence_of
from ._sample_rules import SampleEvidence

SUPPORTED, RESERVED, REFUSED = "supported", "with reservations", "not supported"
# Largest number of variables whose shares are listed one by one.
SHOWN_NAMES = 6
# Number of reservations that together are a problem: the more there are, the fewer links are true
# (`benchmarks.verdict table`). Reservations about what cannot be determined do not count.
MANY, NOT_COUNTED = 6, ("short record", "hidden driver possible")


class Verdict(str):
    """The verdict on a discovery: `"supported"`, `"with reservations"` or `"not supported"`.

    It compares and formats as that text; `print(found.verdict.text)` gives the five lines.

    - `reasons`: the [`Finding`][ndde_jax.check.Finding]s that lower it, the worst first; empty if
        it is supported.
    - `notes`: findings without weight, and what was dealt with.
    - `lines`: what was found, how sure that is, what speaks against it, the notes, and what to do
        next.
    - `memory`: for each variable, the share of its rate's variance that persists in the residuals
        ([`residual_memory`][ndde_jax.check.residual_memory]); empty for irregular sampling.
    """

    reasons: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    lines: tuple[str, ...]
    memory: tuple[float, ...]

    def __new__(
        cls,
        reasons: Iterable[Finding] = (),
        notes: Iterable[Finding] = (),
        lines: Iterable[str] = (),
        memory: Iterable[float] = (),
    ):
        """Decide from the findings: the most serious reason, or many reservations together."""
        reasons = tuple(reasons)
        weights = {finding.weight for finding in reasons}
        counted = [f for f in reasons if f.weight == RESERVATION and f.name not in NOT_COUNTED]
        refused = PROBLEM in weights or len(counted) >= MANY
        text = REFUSED if refused else RESERVED if RESERVATION in weights else SUPPORTED
        self = super().__new__(cls, text)
        self.reasons, self.notes, self.lines = reasons, tuple(notes), tuple(lines)
        self.memory = tuple(memory)
        return self

    @property
    def text(self) -> str:
        """The lines, wrapped at 88 columns."""
        return "\n".join(wrapped(line, "  ") for line in self.lines)

    def __getnewargs__(self):
        return self.reasons, self.notes, self.lines, self.memory


@one_blas_thread()
def verdict(found: Any) -> Verdict:
    """Return the verdict on a [`Discovery`][ndde_jax.Discovery] from its samples, strengths and
    residuals, without fitting anything again.
    """
    evidence = evidence_of(found)
    samples = findings_of(SAMPLES, sample_evidence(found))
    return verdict_from_findings(evidence, [*samples, *findings_of(GRAPH, evidence)])


def sample_evidence(found: Any) -> SampleEvidence:
    """Return the evidence on the samples of a [`Discovery`][ndde_jax.Discovery]."""
    links = np.asarray(found.graph).any(axis=2) & ~np.eye(len(found.names), dtype=bool)
    return SampleEvidence(found.samples, found.inputs, links)


def verdict_from_findings(
    evidence: GraphEvidence, findings: Iterable[Finding], also: str = ""
) -> Verdict:
    """Return the verdict from the findings; `also` names additional tests."""
    findings = by_severity(findings)
    reasons = [finding for finding in findings if finding.weight != NOTE]
    notes = [finding for finding in findings if finding.weight == NOTE]
    judged = Verdict(reasons)
    many = judged == REFUSED and reasons[0].weight != PROBLEM
    together = "Too many reservations to rely on the links. " if many else ""
    if judged == REFUSED and evidence.doubt == PROBLEM:
        together = "Most links are doubtful, and for more than one reason. "
    lines = (
        f"Verdict: {judged}{also}. {_what(evidence)}",
        f"How sure: {_sure(evidence)}{_untested(evidence) if judged == SUPPORTED else ''}",
        f"Against it: {together}{_findings_text(reasons) or 'nothing that was tested.'}",
        *((f"Noted: {_findings_text(notes)}",) if notes else ()),
        f"Next: {_next(evidence, judged, reasons, notes)}",
    )
    return Verdict(reasons, notes, lines, evidence.memory.tolist())


def _findings_text(findings: list[Finding]) -> str:
    shown = " ".join(f"({finding.name}) {finding.text}" for finding in findings[:SHOWN_LINKS])
    more = len(findings) - SHOWN_LINKS
    return shown + (f" And {more} more among the findings." if more > 0 else "")


def _next(
    evidence: GraphEvidence, judged: Verdict, reasons: list[Finding], notes: list[Finding]
) -> str:
    # Remedies by a line of code come first, logarithms even where they are only worth a try.
    logarithms = [f for f in notes if "transform=" in f.remedy] if reasons else []
    remedies = [f.remedy for f in reasons + logarithms if f.remedy]
    if judged == REFUSED:
        remedies += _advice_to_declare(evidence)
    by_code = ("x[", "inputs=['", "transform=")
    remedies.sort(key=lambda said: next((k for k, one in enumerate(by_code) if one in said), 3))
    if not remedies:
        return "found.effects(), found.forecast(...); found.report(full=True) has the rest."
    first, *others = remedies
    again = filter(None, (_without_repeats(other, first) for other in others))
    return " ".join((first, *itertools.islice(again, 1)))


def _advice_to_declare(e: GraphEvidence) -> list[str]:
    """Return the advice to declare the variables that drive others and that no other drives.

    Nobody can tell from a record that rain comes from outside, and what is doubtful about its own
    past, or about what drives it, is no doubt about what it drives.
    """
    names = _unmoved_sources(e)
    if not names:
        return []
    come = "comes" if len(names) == 1 else "come"
    return [
        f"If {listed(names)} {come} from outside, as weather or settings do, declare that: "
        f'inputs={names!r} (--inputs "{",".join(names)}").'
    ]


def _unmoved_sources(e: GraphEvidence) -> list[str]:
    """Return the variables that drive others and that no other drives, without known inputs."""
    alone = e.pairs.any(axis=1) & ~e.pairs.any(axis=0) & e.modelled
    return [e.names[i] for i in np.flatnonzero(alone)]


def _untested(e: GraphEvidence) -> str:
    """Return sentences on sources that nothing measured moves. Only their own past can show that
    their targets follow, and a driver of both that has a memory, or that acts on the source first,
    moves that past too.
    """
    said, names = "", _unmoved_sources(e)
    if names:
        what = "it and its targets" if len(names) == 1 else "one of them and its targets"
        who = listed(names, SHOWN_NAMES)
        said = f" Nothing measured moves {who}: an unobserved driver of {what} may not show."
    pairs = [" and ".join(pair) for pair in e.unmoved_pairs]
    if pairs:
        said += (
            f" {listed(pairs, SHOWN_NAMES, '; ')} drive each other, and nothing else moves them: "
            "an unobserved driver of both may not show."
        )
    return said


def _without_repeats(remedy: str, said: str) -> str:
    """Return a remedy without the choices that another remedy already gives."""
    choices = remedy.removesuffix(".").split(", or ")
    left = [one for one in choices if one.lower() not in said.lower()]
    if len(left) == len(choices):
        return remedy
    return f"{left[0][:1].upper()}{', or '.join(left)[1:]}." if left else ""


def _what(e: GraphEvidence) -> str:
    links = e.links()
    kept = int(e.kept.sum())
    if not kept:
        return "No candidate input explains any rate of change."
    if not links:
        inputs = amount(float(kept), "input", 9)
        return f"{inputs} kept; every variable is explained by its own states alone."
    count = amount(float(len(e.links_told(links))), "link", 9)
    return f"{count} between variables: {e.links_listed(links)}."


def _sure(e: GraphEvidence) -> str:
    kept = e.kept
    if not kept.any():
        return "nothing was kept."
    firm, number = int((kept & (e.lower > 0)).sum()), int(kept.sum())
    names, inside = np.asarray(e.names)[e.modelled], _share_explained(e, e.strengths.risk)
    outside = inside if e.held_out is None else _share_explained(e, e.held_out)
    less = np.flatnonzero(outside < inside / 2)
    explained, tested = (
        ", ".join(f"{names[j]} {shares[j]:.0%}" for j in which)
        for shares, which in ((inside, range(len(names))), (outside, less))
    )
    if len(names) > SHOWN_NAMES:
        explained = f"{float(np.median(inside)):.0%} in the median"
        tested = f"{len(less)} of {len(names)} variables"
    poor = f" On held-out blocks, less than half of that is explained: {tested}."
    return (
        f"{firm} of {amount(number, 'kept input', 9)} {'has' if firm == 1 else 'have'} a strength "
        "whose lower 95 % bound is above zero. "
        f"Explained share of the rates of change: {explained}.{poor if len(less) else ''}"
    )


def _share_explained(e: GraphEvidence, left: Any) -> Float[np.ndarray, "target"]:
    """Return the explained shares of the modelled rates from the shares that are left."""
    return np.maximum(0.0, 1 - np.asarray(left, float)[e.modelled])
