"""Can these data support a graph? What the paper's theorems ask for, measured where it can be."""

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from .._checks import (
    check_coefficient,
    check_concrete,
    check_config,
    check_key,
    check_names,
    check_whole,
    check_windows,
    refusal,
)
from .._types import Checked, RealScalarLike
from ..fit._fixed import fit_graph
from ..fit._prices import as_price
from ..fit._refit import StrengthConfig
from ..measure._rivals import RivalEdges
from ..measure._stability import EdgeStability, check_finder, find_again
from ..measure._strength import SignalStrengths, signal_strengths
from ..models._model import NeuralDDE, check_model_matches
from ..select._recover import default_strategy
from ..select._strategy import AbstractStrategy
from ..windows._thin import is_regular
from ..windows._windows import Windows
from ._checks import (
    Notes,
    about_damping,
    about_data,
    about_memory,
    about_noise,
    about_signal,
    assumptions,
)
from ._conditioning import drift_of
from ._finding import ASSUMED, ESTIMATED, MEASURED, Finding
from ._refits import FoundBy, edges_alone, refits


@dataclasses.dataclass(frozen=True)
class IdentifiabilityReport:
    """Whether data support a graph, and what that rests on. `print` it.

    - `problems`: why they do not; empty if they do.
    - `reservations`: what to keep in mind if they do.
    - `findings`: every quantity, labelled.
    - `graph`, `strengths`: what was examined.
    - `stability`, `rivals`, `joint`, `alone`, `thinned`, `other_scheme`: results of the refits,
        None where not made; see [`edge_stability`][ndde_jax.measure.edge_stability],
        [`rival_edges`][ndde_jax.measure.rival_edges],
        [`joint_strengths`][ndde_jax.measure.joint_strengths] and
        [`paper_strengths`][ndde_jax.theory.paper_strengths]. The last two are graphs selected on
        differences over two steps, and of another scheme.
    """

    names: tuple[str, ...]
    lags: tuple[int, ...]
    graph: np.ndarray
    strengths: SignalStrengths
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    reservations: tuple[str, ...]
    stability: EdgeStability | None = None
    rivals: RivalEdges | None = None
    joint: np.ndarray | None = None
    alone: np.ndarray | None = None
    thinned: np.ndarray | None = None
    other_scheme: np.ndarray | None = None

    @property
    def supported(self) -> bool:
        """Whether nothing speaks against the graph."""
        return not self.problems

    def __getitem__(self, name: str) -> float | str:
        """The value of a finding by its name."""
        for finding in self.findings:
            if finding.name == name:
                return finding.value
        known = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"no finding {name!r}; there are: {known}")

    def __str__(self) -> str:
        lines = [_wrap(self._verdict())]
        lines += [_wrap("- " + text, "  ") for text in (*self.problems, *self.reservations)]
        if self.stability is not None or self.rivals is not None:
            lines += ["", *self._edges()]
        for kind in (MEASURED, ESTIMATED, ASSUMED):
            chosen = [finding for finding in self.findings if finding.kind == kind]
            if chosen:
                lines += ["", kind.capitalize() + ":"]
                lines += [_wrap("- " + _line(finding), "  ") for finding in chosen]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.problems:
            return "These data do not support the graph."
        partial = "" if self.stability is not None else " (no refits on parts of the data yet)"
        if self.reservations:
            return f"These data support the graph with reservations{partial}."
        return f"Nothing measured speaks against the graph{partial}."

    def _edges(self):
        """A table of the kept edges."""
        edges = np.argwhere(self.graph)
        if not len(edges):
            return
        value = np.asarray(self.strengths.value)
        edges = edges[np.argsort(-value[tuple(edges.T)])]
        labels = [self._label(*edge) for edge in edges]
        width = max(map(len, [*labels, "edge"]))
        yield f"{'edge':<{width}} {'strength':>9} {'found':>6} {'gates':>6}  best rival (its cost)"
        for edge, label in zip(edges, labels, strict=True):
            i, j, a = edge
            row = f"{label:<{width}} {value[i, j, a]:>9.4f}"
            for shares in ("selected", "open"):
                row += f" {_share(self.stability, shares, edge):>6}"
            yield row + "  " + self._rival(edge)
        yield _wrap(
            "found: share of refits on halves of the data that select the edge. gates: share of "
            "them, over all coefficients, that keep its gate open. rival: the input of another "
            "variable that replaces the edge at the least rise of the risk."
        )

    def _rival(self, edge) -> str:
        if self.rivals is None:
            return "-"
        cost = float(np.asarray(self.rivals.cost)[tuple(edge)])
        if not np.isfinite(cost):
            return "none"
        source, lag = np.asarray(self.rivals.rival)[tuple(edge)]
        return f"{self.names[source]}@{self.lags[lag]} ({cost:.4f})"

    def _label(self, i, j, a) -> str:
        return f"{self.names[i]}@{self.lags[a]} -> {self.names[j]}"


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
    """Say whether data support a graph, and on what that rests.

    Signal strengths, relative to the graph and as the paper defines them, and the window of
    penalties that the latter leave; how stable every edge is on halves of
    the data, from other seeds and at other prices; which inputs could replace it; whether the graph
    changes with the step of the differences; noise and damping. Every number is labelled measured,
    estimated or assumed, with the statement of the paper it speaks to. Takes several times as long
    as the discovery itself.

    **Arguments:**

    - `windows`: of one system.
    - `key`: for all refits. Left out, nothing is refitted and only what `strengths` and `model`
        show is reported.
    - `strengths`, `model`: of a discovery; measured on what the strategy finds if left out, which
        needs `key`.
    - `coefficient`: λ of the rule that keeps edges, as for [`discover`][ndde_jax.discover]; the
        price at which the strategy finds them again.
    - `names`: of the variables.
    - `seeds`: refits of each half of the data.
    - `strategy`: how graphs are found again, as for
        [`edge_stability`][ndde_jax.measure.edge_stability]; a discovery does it as it did before.
    - `config`: of the refits of networks, [`StrengthConfig`][ndde_jax.fitting.StrengthConfig].
    - `progress`: show a bar over the refits of halves.

    **Returns:** [`IdentifiabilityReport`][ndde_jax.check.IdentifiabilityReport].

    **Raises:** `ValueError` for a batch of systems, wrong names, or if neither `key` nor
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
    check_finder(strategy)
    if strengths is not None and not isinstance(strengths, SignalStrengths):
        raise refusal("strengths", "what signal_strengths returns", strengths)
    if model is not None:
        check_model_matches(windows, model)
    dim = windows.dim
    names = tuple(f"x{i}" for i in range(dim)) if names is None else check_names(names, dim)
    if key is None:
        if strengths is None or model is None:
            raise ValueError("give key, or strengths and model so that nothing needs to be fitted.")
        graph = np.asarray(strengths.kept(coefficient))
        price = np.asarray(strengths.price(coefficient))
        notes = _noted(windows, strengths, model, graph, price, names)
        return _report(notes, strengths)
    keys = jr.split(check_key(key), 6)
    strategy = default_strategy(windows, config) if strategy is None else strategy
    priced = coefficient is not None and not callable(strategy)
    found_at = as_price(coefficient, "coefficient") if priced else None
    if strengths is None:
        search_key, strength_key = jr.split(keys[0])
        selected, _ = find_again(windows, strategy, found_at, search_key)
        strengths = signal_strengths(windows, graph=selected, key=strength_key, config=config)
    graph = np.asarray(strengths.kept(coefficient))
    price = np.asarray(strengths.price(coefficient))
    if model is None:
        model = fit_graph(windows, graph, key=keys[1], config=config)
    # With the key of the joint strengths, which these are where there is one lag.
    alone = edges_alone(windows, graph, config, keys[5])
    notes = _noted(windows, strengths, model, graph, price, names, alone, simulate=True)
    found_by = FoundBy(strategy, found_at, config)
    extra = refits(notes, windows, price, found_by, seeds, keys[2:], progress, alone)
    return _report(notes, strengths, alone=alone, **extra)


def report_without_refits(found: Any, price: np.ndarray) -> IdentifiabilityReport:
    """Of a discovery, whose parts are known to belong together, at the price of an edge."""
    graph = np.asarray(found.graph)
    notes = _noted(found.windows, found.strengths, found.model, graph, price, found.names)
    return _report(notes, found.strengths)


def _noted(windows, strengths, model, graph, price, names, alone=None, *, simulate=False) -> Notes:
    """What can be said of a graph and of a drift; `simulate` also runs the latter."""
    notes = Notes(names, windows.lags, graph)
    about_data(notes, windows)
    about_signal(notes, strengths, price, alone)
    drift = drift_of(windows, model) if is_regular(windows) else None
    about_memory(notes, windows, drift)
    about_noise(notes, windows, drift)
    about_damping(notes, windows, model, simulate=simulate)
    return notes


def _report(notes: Notes, strengths: SignalStrengths, **refitted) -> IdentifiabilityReport:
    assumptions(notes)
    return IdentifiabilityReport(
        names=notes.names,
        lags=notes.lags,
        graph=notes.graph,
        strengths=strengths,
        findings=tuple(notes.findings),
        problems=tuple(notes.problems),
        reservations=tuple(notes.reservations),
        **refitted,
    )


def _share(stability, name, edge) -> str:
    return "-" if stability is None else f"{float(getattr(stability, name)[tuple(edge)]):.0%}"


def _line(finding: Finding) -> str:
    value = finding.value if isinstance(finding.value, str) else f"{finding.value:.3g}"
    return f"{finding.name}: {value} [{finding.theorem}] {finding.text}"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 88, subsequent_indent=indent)
