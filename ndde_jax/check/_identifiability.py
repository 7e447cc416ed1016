"""The report on whether data support a graph: conditions of theorems, and results of refits."""

import dataclasses
from collections.abc import Callable, Sequence

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._blas import one_blas_thread
from .._checks import (
    check_coefficient,
    check_concrete,
    check_config,
    check_key,
    check_kind,
    check_names,
    check_whole,
    check_windows,
)
from .._types import Checked, RealScalarLike
from .._wording import wrapped
from ..assess._rivals import Rivals
from ..assess._score import read_inputs, rows_of
from ..fit._prices import as_price
from ..fit._refit import StrengthConfig, fit_graph
from ..measure._stability import EdgeStability, as_finder, find_again
from ..measure._strength import signal_strengths
from ..models._model import NeuralDDE, check_model_matches
from ..select._default import refitting_strategy
from ..select._measured import SignalStrengths
from ..select._strategies import AbstractStrategy
from ..windows._windows import Windows
from ._finding import (
    ASSUMED,
    ESTIMATED,
    GRAPH,
    LINE,
    MEASURED,
    NOTE,
    PROBLEM,
    REFITS,
    RESERVATION,
    Finding,
    findings_of,
)
from ._graph_rules import GraphEvidence, evidence_of_windows
from ._refits import Finder, RefitEvidence, refit, shares_beyond_others
from ._verdict import SUPPORTED, Verdict, verdict_from_findings

# Added to the verdict of a report.
REFITTED = ", refits on parts of the data included"


@dataclasses.dataclass(frozen=True, eq=False)
class IdentifiabilityReport:
    """The answer to whether data support a graph, with its grounds. `print` it.

    - `verdict`: [`Verdict`][ndde_jax.check.Verdict] of all findings. For `found.identifiability`,
        it is `found.verdict` with the findings of the refits added.
    - `findings`: all findings, labelled; those with a weight are reasons for the verdict.
    - `graph`, `strengths`: the graph examined and its strengths; `evidence` has both and the rest.
    - `rivals`: [`Rivals`][ndde_jax.assess.Rivals] of each edge.
    - `stability`, `joint`, `alone`, `thinned`, `other_scheme`: results of the refits, None if not
        made; see [`edge_stability`][ndde_jax.measure.edge_stability]. `joint` and `alone` are the
        strengths of sources and of edges if all other candidates may replace them, as
        [`paper_strengths`][ndde_jax.theory.paper_strengths], here in closed form with lines and
        bends of inputs. The last two are the graphs selected on differences over two steps and
        with another scheme.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    evidence: GraphEvidence
    refits: RefitEvidence | None = None

    @property
    def supported(self) -> bool:
        """Whether nothing speaks against the graph."""
        return self.verdict == SUPPORTED

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems: reasons why the data do not support the graph; empty if they do."""
        return tuple(reason.text for reason in self.verdict.reasons if reason.weight == PROBLEM)

    @property
    def reservations(self) -> tuple[str, ...]:
        """The reservations about the graph, to keep in mind if the data support it."""
        return tuple(reason.text for reason in self.verdict.reasons if reason.weight == RESERVATION)

    @property
    def graph(self) -> np.ndarray:
        """The graph examined, bool `[source target lag]`."""
        return self.evidence.graph

    @property
    def strengths(self) -> SignalStrengths:
        """The strengths of its edges."""
        return self.evidence.strengths

    @property
    def stability(self) -> EdgeStability | None:
        """The graphs of halves of the record."""
        return None if self.refits is None else self.refits.stability

    @property
    def rivals(self) -> Rivals:
        """The costs of replacing each edge."""
        return self.evidence.relations.rivals

    @property
    def joint(self) -> np.ndarray | None:
        """The share of a rate explained only by its source, not by all other variables together,
        `[source target]`.
        """
        return None if self.refits is None else self.refits.joint

    @property
    def alone(self) -> np.ndarray | None:
        """The share of a rate explained only by an edge, not by all other candidates together,
        `[source target lag]`.
        """
        return self.evidence.alone

    @property
    def thinned(self) -> np.ndarray | None:
        """The graph of differences over two steps, bool `[source target lag]`."""
        return None if self.refits is None else self.refits.thinned

    @property
    def other_scheme(self) -> np.ndarray | None:
        """The graph with another difference scheme, bool `[source target lag]`."""
        return None if self.refits is None else self.refits.other_scheme

    def __getitem__(self, name: str) -> float | str:
        """Return the value of a finding by its name."""
        for finding in self.findings:
            if finding.name == name:
                return finding.value
        known = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"no finding {name!r}; the findings are: {known}")

    def __repr__(self) -> str:
        edges = "\n".join(self.edges()) if self.refits is not None else ""
        return "\n\n".join(filter(None, (self.verdict.text, edges, lines_text(self.findings))))

    def edges(self):
        """Yield the lines of a table of kept edges: strength, share of halves, and best rival."""
        base = self.evidence
        edges = base.edges(base.graph)
        if not edges:
            return
        labels = list(map(base.label, edges))
        width = max(map(len, [*labels, "edge"]))
        yield f"{'edge':<{width}} {'strength':>9} {'found':>6}  best rival (its cost)"
        for edge, label in zip(edges, labels, strict=True):
            share = "-"
            if self.stability is not None:
                share = f"{float(np.asarray(self.stability.selected)[edge]):.0%}"
            rival = self._rival(edge)
            yield f"{label:<{width}} {base.scores[edge]:>9.4f} {share:>6}  {rival}"
        yield wrapped(
            "found: share of refits on halves of the data that select the edge. rival: the input "
            "of another variable that replaces the edge with the smallest rise of the error."
        )

    def _rival(self, edge: tuple[int, int, int]) -> str:
        cost = float(self.rivals.cost[edge])
        if not np.isfinite(cost):
            return "none"
        source, lag = self.rivals.rival[edge]
        return f"{self.evidence.names[source]}@{self.evidence.lags[lag]} ({cost:.4f})"


def lines_text(findings: Sequence[Finding]) -> str:
    """Return findings grouped by kind: measured, estimated, assumed."""
    parts = []
    for kind in (MEASURED, ESTIMATED, ASSUMED):
        chosen = [finding for finding in findings if finding.kind == kind]
        if chosen:
            lines = [wrapped("- " + _line(f), "  ") for f in chosen]
            parts.append("\n".join((kind.capitalize() + ":", *lines)))
    return "\n\n".join(parts)


def _line(finding: Finding) -> str:
    value = finding.value if isinstance(finding.value, str) else f"{finding.value:.3g}"
    if not finding.theorem:
        return f"{finding.name}: {value}. {finding.text}"
    return f"{finding.name}: {value} ({finding.text.rstrip('.')}). In the paper: {finding.theorem}."


@one_blas_thread()
def identifiability_report(
    windows: Checked[Windows],
    *,
    key: Checked[PRNGKeyArray | None] = None,
    strengths: Checked[SignalStrengths | None] = None,
    model: Checked[NeuralDDE | None] = None,
    coefficient: Checked[RealScalarLike | None] = None,
    names: Checked[Sequence[str] | None] = None,
    seeds: Checked[int] = 2,
    strategy: Checked[AbstractStrategy | Callable | None] = None,
    config: Checked[StrengthConfig | None] = None,
    progress: bool = False,
) -> IdentifiabilityReport:
    """Report whether data support a graph, and why.

    The report covers signal strengths, relative to the graph and to all candidates, and the window
    of penalties that the latter leave; the stability of every edge on halves of the data; the
    inputs that could replace it; changes of the graph with the step of the differences; noise and
    damping. Every number is labelled measured, estimated or assumed, with the statement of the
    paper it concerns. It takes several times as long as the discovery itself.

    **Arguments:**

    - `windows`: windows of one system.
    - `key`: a key for all refits. Without it nothing is refitted, and the report is limited to
        `strengths` and `model`.
    - `strengths`, `model`: results of a discovery. By default they are measured on the graph that
        the strategy finds, which needs `key`.
    - `coefficient`: λ of the rule that keeps edges, as for [`discover`][ndde_jax.discover]; also
        the price at which the strategy finds them again.
    - `names`: the names of the variables.
    - `seeds`: the number of refits of each half of the data.
    - `strategy`: how graphs are found again, as for
        [`edge_stability`][ndde_jax.measure.edge_stability]; a discovery uses its own strategy.
    - `config`: the [`StrengthConfig`][ndde_jax.fitting.StrengthConfig] of the refits of networks.
    - `progress`: whether to show a progress bar for the refits of halves.

    **Returns:** [`IdentifiabilityReport`][ndde_jax.check.IdentifiabilityReport].

    **Raises:** `ValueError` for a batch of systems, wrong names, or if neither `key` nor both
    `strengths` and `model` are given.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(300) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1, scheme="central4")
    print(ndde.identifiability_report(windows, seeds=1, key=jax.random.key(0)))
    ```
    """
    check_windows(windows, "identifiability_report", "take one with unstack_windows")
    check_concrete("identifiability_report", (windows, key))
    check_coefficient(coefficient)
    check_whole(seeds, "seeds")
    check_config(config, StrengthConfig)
    strategy = as_finder(strategy, refitting_strategy(windows, config))
    check_kind(strengths, SignalStrengths | None, "strengths", "what signal_strengths returns")
    if model is not None:
        check_model_matches(windows, model)
    dim = windows.dim
    names = tuple(f"x{i}" for i in range(dim)) if names is None else check_names(names, dim)
    if key is None:
        if strengths is None or model is None:
            raise ValueError("Pass key; or pass strengths and model, so that nothing is fitted.")
        return examine(evidence_of_windows(windows, model, strengths, coefficient, names))
    keys = jr.split(check_key(key), 4)
    priced = coefficient is not None and not callable(strategy)
    found_at = as_price(coefficient, "coefficient") if priced else None
    if strengths is None:
        selected, _ = find_again(windows, strategy, found_at, keys[0])
        strengths = signal_strengths(windows, graph=selected, key=keys[1], config=config)
    if model is None:
        graph = np.asarray(strengths.kept(coefficient))
        model = fit_graph(windows, graph, key=keys[2], config=config)
    evidence = evidence_of_windows(windows, model, strengths, coefficient, names)
    return examine(evidence, Finder(strategy, found_at, seeds, progress), keys[3])


def examine(
    evidence: GraphEvidence,
    finder: Finder | None = None,
    key: PRNGKeyArray | None = None,
    samples: Sequence[Finding] = (),
) -> IdentifiabilityReport:
    """Return the report on a graph; `finder` and `key` are for refits, which are omitted without
    them, and `samples` are findings on the samples.
    """
    refits = None
    if finder is not None:
        inputs = read_inputs(rows_of(evidence.windows))
        alone = shares_beyond_others(inputs, evidence, whole_sources=False)
        evidence = dataclasses.replace(evidence, alone=alone)
        refits = refit(evidence, inputs, finder, key)
    told = [*samples, *findings_of(GRAPH, evidence)]
    again = [] if refits is None else findings_of(REFITS, refits)
    reasons = [finding for finding in again if finding.weight != NOTE]
    verdict = verdict_from_findings(evidence, [*told, *reasons], "" if refits is None else REFITTED)
    findings = (*told, *findings_of(LINE, evidence), *again)
    return IdentifiabilityReport(verdict, findings, evidence, refits)
