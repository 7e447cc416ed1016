"""The report of a discovery, for a methods section."""

import textwrap
from typing import Any

import numpy as np

from .._checks import refusal, shown
from ._checks import COLLINEAR, WINDOWS_PER_INPUT
from ._conditioning import condition_number
from ._identifiability import IdentifiabilityReport, report_without_refits

# Edges in the few lines of a prompt.
SHOWN_EDGES = 5


def write_report(found: Any, identifiability: Any = None, *, full: bool = False) -> str:
    """Plain text, 88 columns: verdict, edges, findings; with `full` or the report of
    `Discovery.identifiability` also data, method, targets, warnings and identifiability.

    Without that report, the last section holds what needs no refits.
    """
    if identifiability is not None and not isinstance(identifiability, IdentifiabilityReport):
        raise refusal("identifiability", "what found.identifiability returns", identifiability)
    sections = [("Edges kept", _edges(found)), ("Findings", _findings(found))]
    if full or identifiability is not None:
        price = np.asarray(found.strengths.price(found.coefficient))
        sections = [
            ("Data", _data(found)),
            ("Method", _method(found)),
            *sections,
            ("Targets", _targets(found, price)),
            ("Warnings", _warnings(found, price)),
            ("Identifiability", _identifiability(found, identifiability, price)),
        ]
    text = "\n\n".join(f"{title}\n{'-' * len(title)}\n{body}" for title, body in sections)
    more = "" if full else "\n\nMore: found.report(full=True), or --full on the command line."
    return f"{found.verdict.text}\n\n{text}{more}"


def write_few_lines(found: Any) -> str:
    """What a discovery is, for a prompt: the strongest edges and what to call next."""
    edges = np.argwhere(found.graph)
    edges = edges[np.argsort(-found.scores[tuple(edges.T)])]
    lines = [
        f"Discovery of {len(found.names)} variables at lags {shown(found.lags)}: "
        f"{len(edges)} of {found.graph.size} candidate edges kept"
        + (", strongest first" if len(edges) else "")
    ]
    for i, j, a in edges[:SHOWN_EDGES]:
        delay = f"@{found.lags[a]}" if found.lags[a] else ""
        lines.append(f"  {found.names[i]}{delay} -> {found.names[j]}  {found.scores[i, j, a]:.3g}")
    if len(edges) > SHOWN_EDGES:
        lines.append(f"  and {len(edges) - SHOWN_EDGES} more")
    return "\n".join((*lines, "Next: print(found.report()), found.to_frame(), found.plot()."))


def _data(found) -> str:
    unit = f" {found.time_unit}" if found.time_unit else ""
    used, dropped = int(found.windows.n_valid), int(found.windows.dropped)
    lags = ", ".join(str(lag) for lag in found.lags)
    missing = f"; {dropped} more touch a missing value" if dropped else ""
    return _wrap(
        f"{len(found.names)} variables ({', '.join(found.names)}), sampling interval "
        f"{found.dt:.4g}{unit}. {used} windows{missing}. Candidate lags: {lags} samples. States "
        "and rates of change are standardised per variable."
    )


def _findings(found) -> str:
    """What lowers the verdict and what was dealt with, each with its remedy."""
    findings = (*found.verdict.reasons, *found.verdict.notes)
    if not findings:
        return "none."
    lines = []
    for finding in findings:
        number = finding.value if isinstance(finding.value, str) else f"{finding.value:.3g}"
        remedy = f" To do: {finding.remedy}" if finding.remedy else ""
        lines.append(
            _wrap(f"- {finding.name} [{finding.weight}, {number}]: {finding.text}{remedy}", "  ")
        )
    lines.append(
        _wrap("A page for each, with data that cause it and data that do not: docs/problems.")
    )
    return "\n".join(lines)


def _method(found) -> str:
    n_inputs = len(found.names) * len(found.lags)
    if found.coefficient is None:
        rule = (
            "an edge is kept if leaving it out raises the risk by more than the Bayesian "
            "information criterion charges for the weights it brings"
        )
    else:
        rule = (
            f"an edge is kept if leaving it out raises the risk by more than λ/F = "
            f"{found.coefficient:g}/{n_inputs} = {found.coefficient / n_inputs:.3g} of the "
            "variance of its target's rate"
        )
    by_networks = [name for name, own in zip(found.names, found.networks, strict=True) if own]
    if found.recipe.strategy is not None:
        search = f"Graph found by {type(found.recipe.strategy).__name__.lower()}."
    elif not found.recipe.networks:
        search = "Graph found by splines and products of inputs, in closed form."
    else:
        search = (
            "Graph found by splines and products of inputs; networks judged it "
            + (f"for {', '.join(by_networks)}" if by_networks else "for no variable")
            + ", where they explain more."
        )
    return "\n".join(
        (
            _wrap(found.windows.explain()),
            *map(_wrap, found.choices),
            _wrap(f"{search} Strengths by refitting without each edge kept; {rule}."),
        )
    )


def _edges(found) -> str:
    source, target, lag = np.nonzero(found.graph)
    if source.size == 0:
        return "none: no candidate input explains any rate of change."
    strength = found.scores[source, target, lag]
    order = np.argsort(-strength)
    width = max(len(name) for name in (*found.names, "source", "target"))
    unit = f" [{found.time_unit}]" if found.time_unit else ""
    delay_title = f"delay{unit}"
    wide = max(12, len(delay_title))
    head = (
        f"{'source':<{width}} -> {'target':<{width}} {'lag':>5} {'level':>5} {delay_title:>{wide}} "
    )
    held_out = np.asarray(found.strengths.held_out)
    # Closed forms hold nothing out; then there is room for where the delay lies.
    measured = bool(np.isfinite(held_out[found.graph]).any())
    lower = f"{'lower 95%':>10}"
    titles = f"{'held-out':>10} {lower}" if measured else f"{lower} {'delay within':>17}"
    rows = [head + f"{'strength':>10} {titles}"]
    for k in order:
        edge = i, j, a = source[k], target[k], lag[k]
        low, high = found.delay_intervals[edge]
        within = f"{low:.4g} to {high:.4g}" if high > 0 else "the present"
        lower = f"{found.lower[edge]:>10.4f}"
        last = f"{held_out[edge]:>10.4f} {lower}" if measured else f"{lower} {within:>17}"
        rows.append(
            f"{found.names[i]:<{width}} -> {found.names[j]:<{width}} {found.lags[a]:>5} "
            f"{found.level_lags[a]:>5} {found.delays[edge]:>{wide}.4g} {strength[k]:>10.4f} {last}"
        )
    note = _wrap(
        "Strength: rise of the target's mean squared error when the edge is left out and "
        "everything else refitted, as a share of the variance of its rate of change. A source at "
        "lag L samples acts on the change from one sample to the next, so it is level = L + "
        f"{found.windows.step} samples before the level that it moves."
    )
    return "\n".join((*rows, *(_wrap(line, "  ") for line in pairs_beside(found)), note))


def pairs_beside(found) -> list[str]:
    """Pairs of which an arrow does not say all: what is unseen, and what is related at once."""
    names, correlation = found.names, found.residual_correlation
    hidden = [
        f"{names[i]} <-> {names[j]}: something unseen seems to drive both; the link between them "
        "may stand for it."
        for i, j in np.argwhere(np.triu(found.confounded, 1))
    ]
    return hidden + [
        f"{names[i]} -- {names[j]}: related within one sampling interval (correlation "
        f"{correlation[i, j]:.2f} of what is left of their rates)."
        for i, j in np.argwhere(np.triu(found.at_once, 1))
    ]


def _targets(found, price: np.ndarray) -> str:
    held_out = np.asarray(found.held_out)
    in_sample = np.asarray(found.strengths.risk_in_sample)
    measured_on = np.asarray(found.strengths.graph)
    n_inputs = len(found.names) * len(found.lags)
    rows = []
    for j, name in enumerate(found.names):
        degree, measured = int(found.graph[:, j].sum()), measured_on[:, j]
        differs = (measured != found.graph[:, j]).any()
        other = f" (of the graph measured, with {int(measured.sum())})" if differs else ""
        rows.append(
            f"{name}: {degree} of {n_inputs} inputs; unexplained share of the rate's variance "
            f"{in_sample[j]:.3g} in-sample, {held_out[j]:.3g} on blocks held out, given the "
            f"graph{other}; edges must be worth "
            f"{price[j]:.3g}."
        )
    return "\n".join(_wrap(row, "  ") for row in rows)


def _warnings(found, price: np.ndarray) -> str:
    found_warnings = list(_collect(found, price))
    if not found_warnings:
        return "none."
    return "\n".join(_wrap("- " + text, "  ") for text in found_warnings)


def _identifiability(found, report, price: np.ndarray) -> str:
    if report is not None:
        return str(report)
    hint = _wrap("Refits on parts of the data say more: found.identifiability(key=...).")
    return f"{report_without_refits(found, price)}\n\n{hint}"


def _collect(found, price: np.ndarray):
    n_inputs = len(found.names) * len(found.lags)
    used, dropped = int(found.windows.n_valid), int(found.windows.dropped)
    if used < WINDOWS_PER_INPUT * n_inputs:
        yield (
            f"Short for this many inputs: {used} windows for {n_inputs} candidate inputs per "
            f"target, fewer than {WINDOWS_PER_INPUT} each. Use fewer lags or longer data."
        )
    if dropped > used:
        yield f"More windows are lost to missing values ({dropped}) than are left ({used})."
    condition = condition_number(found.windows)
    if condition > COLLINEAR:
        yield (
            f"The candidate inputs are nearly collinear (condition number {condition:.1e}); "
            "neighbouring lags can stand in for one another, so read a lag as an interval. Thin "
            "out the lags to sharpen it."
        )
    for j, name in enumerate(found.names):
        if not found.held_out[j] < 0.9:
            yield (
                f"The rate of {name} is hardly explained ({found.held_out[j]:.0%} of its variance "
                "is left on blocks held out): noise is nearly all there is, or a driver is missing."
            )
    dropped_inputs = (np.asarray(found.strengths.graph) & ~found.graph).sum(axis=(0, 2))
    for name, count in zip(found.names, dropped_inputs, strict=True):
        if count > 1:
            yield (
                f"{count} inputs of {name} were dropped together although each was measured with "
                "the others in place: if they can stand in for one another, that was too many. "
                "Compare with signal_strengths relative to the graph kept."
            )
    doubtful = found.graph & ~(found.lower > 0)
    if doubtful.any():
        yield (
            f"{int(doubtful.sum())} of {int(found.graph.sum())} kept edges have a lower bound at "
            "or below zero over blocks of the record."
        )
    yield from _against_the_prior(found, price)
    if 0 not in found.lags:
        yield "Lag 0 is not a candidate: instantaneous drivers can show up at the smallest lag."


def _against_the_prior(found, price: np.ndarray):
    """Edges of the prior that the data speak against."""
    prior = found.windows.prior
    lower = np.asarray(found.strengths.lower)
    worth = (np.asarray(found.scores) > price[None, :, None]) & (lower > 0)
    for i, j, a in np.argwhere(worth & ~np.asarray(prior.allowed)):
        yield (
            f"{found.names[i]} -> {found.names[j]} at lag {found.lags[a]} is forbidden, but would "
            f"lower the risk by {found.scores[i, j, a]:.3g}."
        )
    for i, j, a in np.argwhere(~worth & np.asarray(prior.required)):
        yield (
            f"{found.names[i]} -> {found.names[j]} at lag {found.lags[a]} is required, but the "
            "data would do without it."
        )


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 88, subsequent_indent=indent)
