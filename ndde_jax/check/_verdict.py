"""The verdict of a discovery: five lines, and what each of them rests on."""

import dataclasses
import textwrap
from typing import Any

import numpy as np

from .._spoken import amount, percent
from .._types import to_jax
from ..measure._reads import delays_between
from ..measure._refined import left_at_delays
from ..select._midpoint import measured_rows
from ..windows._thin import is_regular
from ..windows._windows import Windows
from ._beside import about_pairs
from ._conditioning import drift_of, memory_of
from ._data_findings import data_findings
from ._finding import ESTIMATED, MEASURED, NOTE, PROBLEM, RESERVATION, Finding

SUPPORTED, RESERVED, REFUSED = "supported", "with reservations", "not supported"
# Windows per candidate input: below the first a graph has reservations, below the second it is not
# supported.
SHORT, TOO_SHORT = 15, 6
# Share of a rate's variance that may persist in its residuals: beyond the first a driver or a delay
# seems to be missing, beyond the second it decides.
MEMORY, HEAVY_MEMORY = 0.05, 0.3
# Rows of measured values in which residuals are looked at, at least.
FEWEST = 100
# An edge whose strength is less than this many times its price is weak.
CLEAR = 2.0
# Share of edges that may be doubtful before the graph has reservations, and before it is not
# supported. A graph that is called supported promises that 95 % of its edges are true, so doubt
# about one edge in twenty is named, and weighs nothing.
DOUBT, DOUBTFUL = 0.05, 0.5
# Variables that events pass through, beyond which the wrong neighbour is picked as often as the
# right one: in simulated floods .6 of the pairs are true of 3 and 5 gauges, .5 of 8 and 12
# (`python -m benchmarks.rivers simulated`).
MANY = 8
# Edges named in a line.
SHOWN = 3


class Verdict(str):
    """What one may make of a discovery: `"supported"`, `"with reservations"` or `"not supported"`.

    Compares and formats as that text; `print(found.verdict.text)` gives the five lines.

    - `reasons`: the [`Finding`][ndde_jax.check.Finding]s that lower it, the gravest first; empty if
        it is supported.
    - `notes`: what else was found, or dealt with, and weighs nothing.
    - `lines`: what was found, how sure that is, what speaks against it, what was dealt with or
        weighs nothing, and what to do next.
    - `memory`: of each variable, the share of its rate's variance that persists in what is left
        ([`residual_memory`][ndde_jax.check.residual_memory]); empty for irregular sampling.
    """

    reasons: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    lines: tuple[str, ...]
    memory: tuple[float, ...]

    def __new__(cls, reasons=(), notes=(), lines=(), memory=()):
        """From what was found; the gravest reason decides."""
        weights = {finding.weight for finding in reasons}
        text = REFUSED if PROBLEM in weights else RESERVED if RESERVATION in weights else SUPPORTED
        self = super().__new__(cls, text)
        self.reasons, self.notes, self.lines = tuple(reasons), tuple(notes), tuple(lines)
        self.memory = tuple(memory)
        return self

    @property
    def text(self) -> str:
        """The lines, each wrapped at 88 columns."""
        return "\n".join(textwrap.fill(line, 88, subsequent_indent="  ") for line in self.lines)

    def __getnewargs__(self):
        return self.reasons, self.notes, self.lines, self.memory


def verdict(found: Any) -> Verdict:
    """The verdict on a [`Discovery`][ndde_jax.Discovery], from its samples, strengths and residuals
    alone; nothing is fitted again.
    """
    memory = _memory(found)
    findings = [*data_findings(found.samples, found.inputs), *_about_graph(found)]
    findings += [*_about_residuals(found, memory), *about_pairs(found)]
    order = {PROBLEM: 0, RESERVATION: 1, NOTE: 2}
    findings.sort(key=lambda finding: order[finding.weight])
    reasons = [finding for finding in findings if finding.weight != NOTE]
    notes = [finding for finding in findings if finding.weight == NOTE]
    text = str(Verdict(reasons))
    lines = (
        f"Verdict: {text}. {_what(found)}",
        f"How sure: {_sure(found)}",
        f"Against it: {_listed(reasons) or 'nothing that was tested.'}",
        *((f"Noted: {_listed(notes)}",) if notes else ()),
        f"Next: {_next(reasons)}",
    )
    return Verdict(reasons, notes, lines, memory.tolist())


def _listed(findings: list[Finding]) -> str:
    shown = " ".join(f"({finding.name}) {finding.text}" for finding in findings[:SHOWN])
    more = len(findings) - SHOWN
    return shown + (f" And {more} more in the full report." if more > 0 else "")


def _next(reasons: list[Finding]) -> str:
    remedies = list(dict.fromkeys(f.remedy for f in reasons if f.remedy))[:2]
    if not remedies:
        return "found.effects(), found.forecast(...); found.report(full=True) has the rest."
    return " ".join(remedies)


def _what(found: Any) -> str:
    edges = _others(found)
    kept = int(found.graph.sum())
    if not kept:
        return "No candidate input explains any rate of change."
    if not edges:
        return f"{kept} inputs kept; every variable is explained by itself alone."
    named = [_edge(found, edge) for edge in edges[:SHOWN]]
    more = f" and {len(edges) - SHOWN} more" if len(edges) > SHOWN else ""
    links = "1 link" if len(edges) == 1 else f"{len(edges)} links"
    return f"{links} between variables: {'; '.join(named)}{more}."


def _others(found: Any) -> list[tuple[int, ...]]:
    """Edges between different variables, strongest first."""
    edges = [tuple(map(int, edge)) for edge in np.argwhere(found.graph) if edge[0] != edge[1]]
    edges = sorted(edges, key=lambda edge: -found.scores[edge])
    # A travel time is of the pair, whichever lags carry it.
    return list({edge[:2]: edge for edge in edges[::-1]}.values())[::-1] if found.events else edges


def _edge(found: Any, edge: tuple[int, ...]) -> str:
    i, j, a = edge
    delay = (
        float(found.delays[edge]) if np.isfinite(found.delays[edge]) else found.lags[a] * found.dt
    )
    late = f" {amount(delay, found.time_unit)} later" if delay else ""
    if found.events:
        return f"{found.names[j]} follows {found.names[i]}{late}"
    return f"{found.names[i]} drives {found.names[j]}{late}"


def _sure(found: Any) -> str:
    modelled = _modelled(found)
    kept = found.graph & modelled[None, :, None]
    if not kept.any():
        return "nothing was kept."
    firm = int((kept & (found.lower > 0)).sum())
    risk = np.asarray(found.strengths.risk, float)[modelled]
    names = np.asarray(found.names)[modelled]
    explained = ", ".join(
        f"{name} {max(0.0, 1 - value):.0%}" for name, value in zip(names, risk, strict=True)
    )
    n = len(names)
    of = explained if n <= 6 else f"{max(0.0, 1 - float(np.median(risk))):.0%} in the median"
    return (
        f"{firm} of {int(kept.sum())} kept inputs lower the error by more than chance does from "
        f"stretch to stretch (95 %). Explained of the rates of change: {of}."
    )


def _modelled(found: Any) -> np.ndarray:
    """Variables that are no known inputs, `[dim]`."""
    return ~np.isin(np.asarray(found.names), found.inputs)


def _about_graph(found: Any):
    """Enough data, and edges that stand clear of their price and, over blocks, of zero."""
    n_inputs = len(found.names) * len(found.lags)
    used = int(found.windows.n_valid)
    if used < SHORT * n_inputs:
        yield Finding(
            MEASURED,
            "short record",
            used / n_inputs,
            "finite-sample recovery",
            f"{used} windows for {n_inputs} candidate inputs of each variable.",
            "Use fewer lags or variables, or longer data.",
            PROBLEM if used < TOO_SHORT * n_inputs else RESERVATION,
        )
    dropped = int(found.windows.dropped)
    if dropped > used:
        yield Finding(
            MEASURED,
            "lost windows",
            dropped / (used + dropped),
            "finite-sample recovery",
            f"More windows are lost to missing values ({dropped}) than are left ({used}).",
            "Fill short gaps, or leave out the variable that is missing most.",
        )
    if not found.graph.any():
        yield Finding(
            ESTIMATED,
            "no edge",
            0.0,
            "identifiability with the penalised objective",
            "No candidate input is worth its parameters.",
            "Sample more often, add lags or variables, or record for longer.",
            PROBLEM,
        )
        return
    if found.events:
        many = len(found.names) > MANY
        yield Finding(
            ESTIMATED,
            "passing events",
            float((found.graph.any(axis=2) & ~np.eye(len(found.names), dtype=bool)).sum()),
            "full support of the occupation measure",
            "A few events pass through all variables, which then stand in for one another: links "
            "say who comes first and whom it is most like, not what works directly."
            + (f" Of {len(found.names)} the wrong neighbour is as likely as the right one." * many),
            "Take a few that can be neighbours at a time, or record more events."
            if many
            else "Read them as who follows whom; a record with more events tells them apart.",
            PROBLEM if many else RESERVATION,
        )
    weak, touching = _weak(found), _touching(found)
    kept = found.graph.sum()
    weight = RESERVATION if (weak | touching).sum() > DOUBT * kept else NOTE
    yield from _about_strengths(found, weak, PROBLEM if weak.sum() > DOUBTFUL * kept else weight)
    yield from _about_lags(found, touching, weight)
    yield from _about_delays(found)


def _weak(found: Any) -> np.ndarray:
    """Edges that do not stand clear of their price and of zero, `[source target lag]`."""
    required = np.asarray(found.windows.prior.required)
    price = np.asarray(found.strengths.price(found.coefficient), float)
    clear = (found.lower > 0) & (found.scores > CLEAR * price[None, :, None])
    return found.graph & ~required & ~clear & _modelled(found)[None, :, None]


def _about_strengths(found: Any, weak: np.ndarray, weight: str):
    if not weak.any():
        return
    edges = [tuple(map(int, edge)) for edge in np.argwhere(weak)]
    edges.sort(key=lambda edge: found.scores[edge])
    named = "; ".join(_edge(found, edge) for edge in edges[:SHOWN])
    more = f" and {len(edges) - SHOWN} more" if len(edges) > SHOWN else ""
    yield Finding(
        ESTIMATED,
        "weak edges",
        float(weak.sum() / found.graph.sum()),
        "identifiability with the penalised objective",
        f"{len(edges)} of {int(found.graph.sum())} inputs are hardly worth their price, or not "
        f"in every part of the record: {named}{more}.",
        "Record for longer, or drop them: found.graph & (found.lower > 0).",
        weight,
    )


def _touching(found: Any) -> np.ndarray:
    """Edges of a source one lag after another edge of it: one of the two may be a stand-in."""
    graph = np.asarray(found.graph) & _modelled(found)[None, :, None]
    touching = np.zeros_like(graph)
    if len(found.lags) < 3:
        return touching
    touching[:, :, 1:] = graph[:, :, 1:] & graph[:, :, :-1]
    if found.lags[0] == 0:
        # A variable that decays and is fed back a little later is no more than that.
        touching[:, :, 1] &= ~np.eye(len(graph), dtype=bool)
    return touching


def _about_lags(found: Any, touching: np.ndarray, weight: str):
    """Sources kept at neighbouring lags: stand-ins for one another, or for a hidden driver."""
    if not touching.any():
        return
    pairs = [f"{found.names[i]} -> {found.names[j]}" for i, j in np.argwhere(touching.any(axis=2))]
    yield Finding(
        ESTIMATED,
        "neighbouring lags",
        float(touching.sum() / found.graph.sum()),
        "full support of the occupation measure",
        f"{', '.join(pairs[:SHOWN])}{' and more' if len(pairs) > SHOWN else ''} at lags next to "
        "each other: the delay lies between them, or they stand in for a driver that is not seen.",
        "Read the lag as an interval, or thin out the lags.",
        weight,
    )


def _about_delays(found: Any):
    """Delays that the drift has to read off the candidates around them."""
    late = found.delays / found.dt
    between, finer = delays_between(found.graph, found.reads, late, found.lags)
    if not between.any():
        return
    edges = [tuple(map(int, edge)) for edge in np.argwhere(between)]
    edges.sort(key=lambda edge: -found.scores[edge])
    named = "; ".join(_edge(found, edge) for edge in edges[:SHOWN])
    more = f" and {len(edges) - SHOWN} more" if len(edges) > SHOWN else ""
    yield Finding(
        ESTIMATED,
        "delay between lags",
        float(between.sum() / found.graph.sum()),
        "full support of the occupation measure",
        f"Delays lie between the candidate lags: {named}{more}. Strengths are of these delays; the "
        "drift, and effects and forecasts with it, have only the candidates around them.",
        f"Discover again with lags={finer}, among which they are.",
        NOTE,
    )


def _memory(found: Any) -> np.ndarray:
    """Of what the drift leaves; none where neighbours are no samples in a row."""
    if not is_regular(found.windows):
        return np.zeros(0)
    windows = _measured(found)
    drift, scaling = drift_of(windows, found.model), windows.scaling
    increment = np.asarray(windows.increment, float)[np.asarray(windows.valid)]
    # Where a drift can only read around a delay, what that leaves is known to remember.
    for j in map(int, np.flatnonzero((found.reads & ~found.graph).any(axis=(0, 2)))):
        left = left_at_delays(found.samples, windows, found.graph, found.delays, j)
        rate = float(scaling.rate_scale[j]) * (increment[:, j] - left)
        drift[:, j] = float(scaling.rate_center[j]) + rate
    return memory_of(windows, drift)


def _measured(found: Any) -> Windows:
    """Windows without rows that hold estimates of the model, whose residuals are of its own making;
    all of them if too few are left.
    """
    if not any(treatment.name == "impute" for treatment in found.samples.treatments):
        return found.windows
    try:
        rows = measured_rows(found.samples, found.windows) & np.asarray(found.windows.valid)
    except ValueError:
        return found.windows
    if rows.sum() < FEWEST:
        return found.windows
    return dataclasses.replace(found.windows, valid=to_jax(rows))


def _about_residuals(found: Any, memory: np.ndarray):
    """What the drift leaves must be new at every step."""
    if not memory.size:
        return
    if not np.isfinite(memory).all():
        yield Finding(
            ESTIMATED,
            "drift not finite",
            0.0,
            "data-generating process",
            "The fitted drift is not finite along the data.",
            "Fit it again with another seed.",
            PROBLEM,
        )
        return
    memory = np.where(_modelled(found), memory, 0)
    worst = int(np.argmax(memory))
    if memory[worst] > MEMORY:
        which = ", ".join(n for n, m in zip(found.names, memory, strict=True) if m > MEMORY)
        yield Finding(
            ESTIMATED,
            "residual memory",
            float(memory[worst]),
            "data-generating process",
            f"What is left of the rate of {which} has a memory ({percent(float(memory[worst]))} "
            "of its variance): a driver is hidden or a delay is not among the candidates.",
            "Add the driver or larger lags; edges may be stand-ins.",
            # Who comes first, which decides where events pass, does not rest on the drift.
            PROBLEM if memory[worst] > HEAVY_MEMORY and not found.events else RESERVATION,
        )
