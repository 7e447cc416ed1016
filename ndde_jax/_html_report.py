"""A discovery on one page: `report.html`, whole in itself, for a screen, a phone or paper."""

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._spoken import amount, percent
from ._version import version
from .check._report import pairs_beside

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #c9d1d9;
  --soft: #f3f5f8; --good: #1a6b3c; --fair: #8a5a00; --bad: #a3272f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --paper: #14171c; --line: #3b434e;
  --soft: #1e232b; --good: #7fd6a2; --fair: #f0c062; --bad: #ff9a9a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { font-weight: 700; } .supported { color: var(--good); }
.with-reservations { color: var(--fair); } .not-supported { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; } td.number, th.number { text-align: right; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); }
.uses { grid-template-columns: minmax(0, 1fr); } .uses div { overflow-x: auto; }
.uses img { min-width: 40rem; }
dt { font-weight: 700; margin-top: .75rem; } dd { margin: .25rem 0 0 1rem; }
dt span, dd span { font-weight: 400; font-size: .9rem; }
figure { margin: 0; } img { max-width: 100%; height: auto; background: #ffffff; }
figcaption, .aside { font-size: .9rem; }
pre { overflow-x: auto; padding: .75rem; background: var(--soft); font-size: .85rem; }
@page { margin: 15mm; }
@media print { body { max-width: none; padding: 0; } .uses img { min-width: 0; }
  .wide, .uses div, pre { overflow: visible; } pre { white-space: pre-wrap; }
  pre, td, th, p, li, dd { overflow-wrap: anywhere; } td, th { white-space: normal; }
  details > * { display: block; } details::details-content { content-visibility: visible; }
  h2, h3, figure, tr { break-inside: avoid; } h2, h3, dt { break-after: avoid; } }
"""

# What the pictures show, for those who do not see them, and below them for all others.
PICTURES = {
    "process_graph.png": "The graph: one arrow per source and target, labelled with lags.",
    "lag_matrix.png": "Strength of every candidate edge: one panel or block per target, by lag.",
}
# Those that take more time, drawn where asked for.
USES = {
    "effects.png": "Effect of every kept edge on its target’s rate, with 90 % intervals.",
    "forecast.png": "Forecast from the end of the record: median, 50 and 90 % intervals.",
}
NOT_DRAWN = (
    "Not drawn: ndde-jax discover --effects draws them here; ndde-jax effects, forecast and "
    "intervene do so from the discovery beside this file."
)


def html_report(
    found: Any,
    report: str,
    *,
    pictures: Mapping[str, bytes],
    repeat: Sequence[str] = (),
    uses: str = "",
) -> bytes:
    """The page; `report` is the text in full, `pictures` are PNG files by name, `repeat` the lines
    of a shell that make all of it again, and `uses` why effects and forecast are not drawn.
    """
    verdict = str(found.verdict)
    lines = "".join(f"<p>{_text(line)}</p>\n" for line in found.verdict.lines)
    body = (
        f'<h1>{_text(", ".join(found.names))}: <span class="verdict '
        f'{verdict.replace(" ", "-")}">{_text(verdict)}</span></h1>\n{lines}'
        f"{_figures(pictures, PICTURES)}"
        f"<h2>In words</h2>\n{_words(found)}"
        f"<h2>Edges kept</h2>\n{_edges(found)}"
        f"<h2>Effects and forecast</h2>\n{_figures(pictures, USES, 'uses') or _paragraph(uses)}"
        f"<h2>What is left unexplained</h2>\n{_left(found)}"
        f"<h2>Quality of the data</h2>\n{_data(found)}{_findings(found)}"
        f"<h2>The report in full</h2>\n<details><summary>Text</summary>\n"
        f'<pre tabindex="0">{_text(report.rstrip())}</pre></details>\n'
        f"<h2>How to repeat it</h2>\n{_repeat(repeat)}"
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Who drives whom: {_text(', '.join(found.names))}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
    return page.encode()


def _text(text: Any) -> str:
    return html.escape(str(text))


def _paragraph(text: str) -> str:
    return f"<p>{_text(text or NOT_DRAWN)}</p>\n"


def _figures(pictures: Mapping[str, bytes], captions: Mapping[str, str], kind: str = "") -> str:
    """Figures with their captions; a picture that is too wide for a phone scrolls by itself, which
    keys can do too.
    """
    focus = ' tabindex="0"' if kind else ""
    shown = [
        f'<figure><div{focus}><img alt="{_text(caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(pictures[name]).decode()}"></div><figcaption>{_text(caption)}'
        "</figcaption></figure>\n"
        for name, caption in captions.items()
        if name in pictures
    ]
    return f'<div class="pictures {kind}">\n{"".join(shown)}</div>\n' if shown else ""


def _table(caption: str, numbers: int, columns: Sequence[str], rows: Sequence[Sequence]) -> str:
    """A table that scrolls by itself; the last `numbers` columns hold numbers."""
    first = len(columns) - numbers
    kinds = ["" if k < first else ' class="number"' for k in range(len(columns))]
    head = "".join(
        f'<th scope="col"{kind}>{_text(name)}</th>'
        for kind, name in zip(kinds, columns, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_text(c)}</td>" for kind, c in zip(kinds, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{_text(caption)}">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n</div>\n"
    )


def _words(found: Any) -> str:
    """A sentence for each variable: what its rate of change follows, and how much of it that is."""
    items = []
    for j, name in enumerate(found.names):
        edges = np.argwhere(found.graph[:, j])
        order = np.argsort(-found.scores[:, j][tuple(edges.T)], kind="stable")
        parts = [_part(found, i, j, k) for i, k in edges[order].tolist()]
        share = f"{max(0.0, 1 - float(found.strengths.risk[j])):.0%}"
        said = (
            f"how fast it changes follows {'; '.join(parts)}. Together these explain {share}."
            if parts
            else "nothing among the candidates says how fast it changes."
        )
        items.append(f"<li><strong>{_text(name)}</strong>: {said}</li>\n")
    return (
        f'<ul>\n{"".join(items)}</ul>\n<p class="aside">In brackets: what share of the variance of '
        "that rate only this one explains. In which direction it acts, and by how much, say the "
        "effects.</p>\n"
    )


def _part(found: Any, i: int, j: int, k: int) -> str:
    delay = float(found.delays[i, j, k])
    delay = delay if np.isfinite(delay) else found.lags[k] * found.dt
    who = "its own value" if i == j else f"<strong>{_text(found.names[i])}</strong>"
    ago = f"{_text(amount(float(delay), found.time_unit))} before" if delay else "now"
    return f"{who} {ago} ({percent(float(found.scores[i, j, k]))})"


def _edges(found: Any) -> str:
    """Strongest first, as everywhere."""
    edges = np.argwhere(found.graph)
    if not len(edges):
        return "<p>None.</p>\n"
    order = np.argsort(-found.scores[tuple(edges.T)], kind="stable")
    unit = f" [{found.time_unit}]" if found.time_unit else ""
    rows = []
    for i, j, k in edges[order]:
        low, high = found.delay_intervals[i, j, k]
        delay, score, lower = (a[i, j, k] for a in (found.delays, found.scores, found.lower))
        names = (found.names[i], found.names[j], found.lags[k], found.level_lags[k])
        # A delay that was not estimated is its lag, with no width.
        interval = f"{low:.4g} to {high:.4g}" if low < high else "not estimated"
        rows.append((*names, f"{delay:.4g}", interval, f"{score:.4f}", f"{lower:.4f}"))
    columns = (
        *("source", "target", "lag", "level lag", f"delay{unit}", "90 %, given the graph"),
        *("strength", "lower 95 %"),
    )
    return _table("Edges kept", 6, columns, rows) + (
        f"{_beside(found)}"
        '<p class="aside">Strength: rise of the target’s mean squared error when the edge is left '
        "out and everything else refitted, as a share of the variance of its rate of change. Lags "
        "are in samples, of the rate; the level that moves is one sample later.</p>\n"
    )


def _beside(found: Any) -> str:
    """Pairs that an arrow does not say all of."""
    said = "".join(f"<li>{_text(line)}</li>\n" for line in pairs_beside(found))
    return f"<ul>\n{said}</ul>\n" if said else ""


def _left(found: Any) -> str:
    """Per variable: how much of its rate is explained, and whether what is left has a memory."""
    memory = found.verdict.memory or (None,) * len(found.names)
    rows = [
        (name, f"{max(0.0, 1 - float(risk)):.0%}", "not measured" if m is None else percent(m, 1))
        for name, risk, m in zip(found.names, np.asarray(found.strengths.risk), memory, strict=True)
    ]
    return _table("Residuals", 2, ("rate of", "explained", "left with a memory"), rows) + (
        '<p class="aside">Noise is new at every step. Where what is left of a rate foretells what '
        "is left later, a driver was not measured, or its delay is not among the candidates: above "
        "5 % of the variance that is a reservation, above 30 % a problem.</p>\n"
    )


def _data(found: Any) -> str:
    lengths = [len(values) for values in found.samples.values]
    missing = sum(int(np.isnan(values).sum()) for values in found.samples.values)
    many = f"{len(lengths)} recordings, {sum(lengths)} samples" if len(lengths) > 1 else (
        f"{lengths[0]} samples"
    )  # fmt: skip
    interval = f"{found.dt:g} {found.time_unit}".rstrip()
    lags = ", ".join(map(str, found.lags))
    return (
        f"<p>{len(found.names)} variables, {many} every {_text(interval)}, {missing} values "
        f"missing after treatment; candidate lags {lags} samples.</p>\n"
    )


def _findings(found: Any) -> str:
    findings = (*found.verdict.reasons, *found.verdict.notes)
    if not findings:
        return "<p>Nothing that was tested speaks against these data.</p>\n"
    items = "".join(
        f"<dt>{_text(f.name)} <span>({_text(f.weight)})</span></dt>\n<dd>{_text(f.text)} "
        f"{_text(f.remedy)} <span>More: {_text(f.page)}</span></dd>\n"
        for f in findings
    )
    return f"<dl>\n{items}</dl>\n"


def _repeat(lines: Sequence[str]) -> str:
    import jax

    commands = f'<pre tabindex="0">{_text(chr(10).join(lines))}</pre>\n' if lines else ""
    return (
        f"{commands}<p>With ndde_jax {_text(version())} and JAX {_text(jax.__version__)}. The same "
        "data, settings and seed on the same machine give the same numbers; <code>discovery/"
        "</code> beside this file holds everything found, for <code>ndde-jax effects</code>, "
        "<code>forecast</code> and <code>intervene</code>.</p>\n"
        "<p>Cite: Boussard, Debouchage, Saulus, <cite>Identifiability Guarantees for Drivers and "
        "Dynamics of Delayed Physical Systems</cite>.</p>\n"
    )
