"""The report of a discovery, as a value that can be written as text or as a page."""

import base64
import dataclasses
import importlib.resources
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ._checks import argument_error, short_repr
from ._store import version
from ._wording import amount, listed, more_than, percent, time_span, wrapped
from .check._finding import LINE, Finding, findings_of
from .check._graph_rules import GraphEvidence, evidence_of
from .check._identifiability import IdentifiabilityReport, lines_text
from .check._verdict import Verdict
from .select._reading import EITHER
from .windows._stencils import FORMULAS

# The most rows in the table of edges, edges in the summary at a prompt, and names in a sentence.
MOST_ROWS, SHOWN_EDGES, SHOWN_NAMES = 30, 5, 8
STRENGTH = (
    "Strength: the share of the variance of the target's rate of change that only this link "
    "explains, given all other kept inputs. At least: its lower 95 % bound, from stretches of the "
    "record. After: the time from the source to the change of the target, with a 90 % interval, "
    "given the graph. Lags of a variable's own past are in samples."
)


@dataclasses.dataclass(frozen=True)
class EdgeRow:
    """A row of the table of edges: a link between variables, or all lags of one variable's past.

    `link` and `after` are words; `strength` and `lower` are shares of the variance of the target's
    rate.
    """

    link: str
    after: str
    strength: float
    lower: float

    @property
    def shares(self) -> tuple[str, str]:
        """The strength and the lower bound as text; small ones as "< 0.001"."""
        return _share(self.strength), _share(self.lower)


@dataclasses.dataclass(frozen=True)
class TargetRow:
    """A row of the table of targets: what explains the rate of a variable that is no known input.

    `words` name its drivers. `explained`, `held_out` and `memory` are shares of its variance:
    explained, explained on held-out blocks, and left with a memory (NaN if unknown). `inputs` is
    the number of inputs kept, `price` is what one must be worth.
    """

    name: str
    words: str
    explained: float
    held_out: float
    memory: float
    inputs: int
    price: float


@dataclasses.dataclass(frozen=True)
class Report:
    """The whole content of a report; [`Discovery.report_data`][ndde_jax.Discovery.report_data]
    makes it.

    - `names`: names of the variables. `verdict`: the verdict with its findings.
    - `edges`: rows of the table, links between variables first, strongest first; `more`: the number
        of further edges.
    - `unresolved_pairs`: sentences on pairs that no arrow fully describes.
    - `targets`: one row per variable.
    - `data`, `method`: sentences.
    - `lines`: the conditions of the theorems, as far as they were measured; `refits`: the table of
        edges from refits.
    """

    names: tuple[str, ...]
    verdict: Verdict
    edges: tuple[EdgeRow, ...]
    more: int
    unresolved_pairs: tuple[str, ...]
    targets: tuple[TargetRow, ...]
    data: str
    method: tuple[str, ...]
    lines: tuple[Finding, ...] = ()
    refits: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The names of the first few variables."""
        return listed(self.names, SHOWN_NAMES)

    @property
    def undecided(self) -> str:
        """The sentence on a record that is undecided between map and flow; empty for others."""
        return next((said for said in self.method if said.startswith(EITHER)), "")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The reasons for the verdict, the most serious first, and notes."""
        return (*self.verdict.reasons, *self.verdict.notes)

    def text(self, *, full: bool = False) -> str:
        """Return the text in 88 columns: verdict, edges, findings; with `full` also data, method,
        targets and identifiability.
        """
        edges, lines = _aligned(self.edges), lines_text(self.lines)
        page = _rendered("report.txt.jinja", report=self, full=full, edges=edges, lines=lines)
        return page.rstrip("\n")

    def html(
        self, *, pictures: Mapping[str, bytes], repeat: Sequence[str] = (), uses: str = ""
    ) -> bytes:
        """Return the report as one self-contained page, for a screen, a phone or paper.

        **Arguments:**

        - `pictures`: PNG files by name.
        - `repeat`: the shell commands that reproduce it.
        - `uses`: the reason why effects and a forecast are not drawn, if they are not.
        """
        encoded = {name: base64.b64encode(file).decode() for name, file in pictures.items()}
        about = dict(full=self.text(full=True).rstrip(), pictures=encoded, why_not=uses)
        about |= dict(repeat="\n".join(repeat), versions=(version(), jax.__version__))
        return _rendered("report.html.jinja", report=self, **about).encode()


def _rendered(template: str, **values: Any) -> str:
    """Return a template of this folder, filled in, with the globals that both templates use."""
    import jinja2

    page = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    page.autoescape = template.startswith("report.html")
    page.filters["wrap"] = wrapped
    page.globals |= {"percent": percent, "max": max, "strength": STRENGTH}
    source = importlib.resources.files("ndde_jax").joinpath(template).read_text("utf-8")
    return printable(page.from_string(source).render(values))


def _share(value: float) -> str:
    if abs(value) < 0.0005:
        return "< 0.001" if value > 0 else "0.000"
    return f"{value:.3f}"


def _aligned(edges: Sequence[EdgeRow]) -> list[str]:
    """Return the lines of a table, with words left-aligned and numbers right-aligned."""
    heads = ("link", "after (90 %)", "strength", "at least")
    rows = [heads, *((r.link, r.after, *r.shares) for r in edges)]
    a, b, c, d = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [f"{row[0]:<{a}}  {row[1]:<{b}}  {row[2]:>{c}}  {row[3]:>{d}}" for row in rows]


def report_data(
    found: Any, identifiability: IdentifiabilityReport | None = None, *, full: bool = True
) -> Report:
    """Return the content of the report of a discovery; without `full`, no lines on
    identifiability.
    """
    if identifiability is not None and not isinstance(identifiability, IdentifiabilityReport):
        raise argument_error(
            "identifiability", "what found.identifiability returns", identifiability
        )
    evidence = evidence_of(found)
    verdict = found.verdict if identifiability is None else identifiability.verdict
    lines, refits = (), ()
    if identifiability is not None:
        lines, refits = identifiability.findings, tuple(identifiability.edges())
    elif full:
        lines = tuple(findings_of(LINE, evidence))
    (edges, more), pairs = _edge_rows(evidence), unresolved_pairs(found)
    targets = _target_rows(found, evidence, verdict.memory)
    data, method = _data(found), _method(found)
    return Report(found.names, verdict, edges, more, pairs, targets, data, method, lines, refits)


def short_summary(found: Any) -> str:
    """Return a short summary of a discovery: the strongest edges and what to call next."""
    into = np.array([name not in found.inputs for name in found.names])  # as in the report
    edges = np.argwhere(found.graph & into[None, :, None])
    own = edges[:, 0] == edges[:, 1]
    edges = edges[np.lexsort((-found.scores[tuple(edges.T)], own))]
    lines = [
        f"Discovery of {amount(len(found.names), 'variable', 9)} at lags {short_repr(found.lags)}: "
        f"{len(edges)} of {found.graph[:, into].size} candidate edges kept"
        + (", the strongest between variables first" if len(edges) else "")
    ]
    for i, j, a in edges[:SHOWN_EDGES]:
        delay = f"@{found.lags[a]}" if found.lags[a] else ""
        lines.append(f"  {found.names[i]}{delay} -> {found.names[j]}  {found.scores[i, j, a]:.3g}")
    lines += more_than(SHOWN_EDGES, len(edges), "  and {} more")
    return "\n".join((*lines, "Next: print(found.report()), found.to_frame(), found.plot()."))


def unresolved_pairs(found: Any) -> tuple[str, ...]:
    """Return sentences on pairs that arrows do not fully describe: those with an unmeasured driver,
    and those related within a sampling interval.
    """
    names, correlation = found.names, found.residual_correlation
    hidden = [
        f"{names[i]} <-> {names[j]}: an unobserved variable seems to drive both; the link between "
        "them may be due to it."
        for i, j in np.argwhere(np.triu(found.confounded, 1))
    ]
    known = np.isin(np.asarray(names), found.inputs)
    at_once = []
    pairs = np.argwhere(np.triu(found.at_once, 1))
    strongest = np.argsort(-np.abs(correlation[tuple(pairs.T)]), kind="stable")
    for i, j in pairs[strongest]:
        pair = f"{names[i]} -- {names[j]}: related"
        if known[i] or known[j]:
            source, target = (i, j) if known[i] else (j, i)
            pair = f"{names[source]} → {names[target]}:"
        at_once.append(
            f"{pair} within one sampling interval (correlation {correlation[i, j]:.2f} of the "
            "residuals of their rates)."
        )
    said = hidden + at_once
    return (*said[:MOST_ROWS], *more_than(MOST_ROWS, len(said), "and {} more such pairs."))


def printable(text: str) -> str:
    """Return a text without control characters, which names could pass to a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else "\ufffd" for c in text)


def _edge_rows(e: GraphEvidence) -> tuple[tuple[EdgeRow, ...], int]:
    """Return links between variables, then the past of each variable in one row; and the number of
    edges that are not shown.
    """
    # For passing events, one delay is measured for a pair, whatever its lags.
    links: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    own: dict[int, list[tuple[int, int, int]]] = {}
    for edge in e.edges(e.kept):
        source, target = e.names[edge[0]], e.names[edge[1]]
        if edge[0] == edge[1]:
            own.setdefault(edge[0], []).append(edge)
        else:
            said = f"{source} → {target}", e.after(edge) or "no delay"
            links.setdefault(said, []).append(edge)
    for i, edges in own.items():
        word = "lag" if len(edges) == 1 else "lags"
        lags = [e.lags[a] + e.step for *_, a in sorted(edges)]
        links[f"{e.names[i]} → itself", f"{word} {listed(lags)}"] = edges
    rows = [
        EdgeRow(link, after, float(e.scores[edges[0]]), float(e.lower[edges[0]]))
        for (link, after), edges in links.items()
    ]
    return tuple(rows[:MOST_ROWS]), sum(map(len, list(links.values())[MOST_ROWS:]))


def _target_rows(found: Any, e: GraphEvidence, memory: tuple[float, ...]) -> tuple[TargetRow, ...]:
    risk, held_out = np.asarray(found.strengths.risk, float), np.asarray(found.held_out, float)
    rows = []
    for j in map(int, np.flatnonzero(e.modelled)):
        edges = [edge for edge in e.edges(e.graph) if edge[1] == j]
        explained = max(0.0, 1 - float(risk[j]))
        shares = explained, 1 - float(held_out[j]), memory[j] if memory else float("nan")
        words = _words(e, edges, explained)
        rows.append(TargetRow(found.names[j], words, *shares, len(edges), float(e.price[j])))
    return tuple(rows)


def _words(e: GraphEvidence, edges: Sequence[tuple[int, int, int]], explained: float) -> str:
    if not edges:
        return "no candidate explains how fast it changes."
    # Without intervals, which are in the table.
    late = {edge: e.after(edge).partition(" (")[0] for edge in edges}
    links = [edge for edge in edges if edge[0] != edge[1]]
    others = [e.names[edge[0]] + (f" {late[edge]} before" * bool(late[edge])) for edge in links]
    own = ["its own past"] * (len(links) < len(edges))
    by = " and ".join(filter(None, (listed(list(dict.fromkeys(others)), SHOWN_NAMES), *own)))
    return f"{explained:.0%} of how fast it changes is explained by {by}."


def _data(found: Any) -> str:
    lengths = [len(values) for values in found.samples.values]
    missing = sum(int(np.isnan(values).sum()) for values in found.samples.values)
    many = f"{lengths[0]} samples" if len(lengths) == 1 else (
        f"{len(lengths)} recordings, {sum(lengths)} samples"
    )  # fmt: skip
    gaps = f", {amount(float(missing), 'value', 9)} missing after treatment" if missing else ""
    dropped = int(found.windows.dropped)
    touched = f"; {dropped} more contain a missing value" if dropped else ""
    if found.windows.partial is not None:
        counts = np.asarray(found.windows.count(found.graph))
        touched += (
            f" and count for variables whose rate and inputs are measured in them, {counts.min()}"
            f" to {counts.max()} windows each"
        )
    known = f"; known inputs: {listed(found.inputs, SHOWN_NAMES)}" if found.inputs else ""
    variables = amount(len(found.names), "variable", 9)
    who = f"{variables} ({listed(found.names, SHOWN_NAMES)}{known})"
    each = time_span(found.dt, unit=found.time_unit).removeprefix("1 ")
    return (
        f"{who}, {many}, one every {each}{_period(found.samples)}{gaps}. "
        f"{int(found.windows.n_valid)} windows"
        f"{touched}. Candidate lags: {_lags(found.lags)}. States and rates of change are "
        "standardised per variable."
    )


def _period(samples: Any) -> str:
    """Return the first and the last date of a single recording."""
    known = len(samples.values) == 1 and samples.when(0)
    return f", from {known} to {samples.when(-1)}" if known else ""


def _lags(lags: Sequence[int]) -> str:
    row = len(lags) > 2 and list(lags) == list(range(lags[0], lags[-1] + 1))
    said = f"{lags[0]} to {lags[-1]}" if row else ", ".join(map(str, lags))
    return f"{said} samples"


def _method(found: Any) -> tuple[str, ...]:
    n_inputs = len(found.names) * len(found.lags)
    if found.coefficient is None:
        rule = "the price of its weights under the extended Bayesian information criterion"
    else:
        price = found.coefficient / n_inputs
        rule = (
            f"λ/F = {found.coefficient:g}/{n_inputs} = {price:.3g} of the variance of its target's "
            "rate"
        )
    by_networks = [name for name, own in zip(found.names, found.networks, strict=True) if own]
    search = found.recipe.strategy.described(listed(by_networks) if by_networks else "")
    share = np.asarray(found.windows.noise_share, float)
    noise = "" if not np.isfinite(share).all() else (
        f" Judged by roughness, {percent(float(share.mean()))} of the variance of a step is noise, "
        "on average over variables and before any input is taken into account."
    )  # fmt: skip
    scheme = found.windows.scheme
    return (
        f"Rates of change by scheme {scheme!r}: {FORMULAS[scheme]}.{noise}",
        *found.choices,
        f"{search} Strengths are measured by refitting without each kept edge. An edge is kept if "
        f"omitting it raises the error by more than {rule}.",
        "A source at lag L samples acts on the change from one sample to the next, so it is L + "
        f"{found.windows.step} samples before the level that it moves.",
    )
