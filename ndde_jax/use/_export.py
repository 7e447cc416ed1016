"""Exports of graph and drift: JSON, DOT, networkx, xarray, formulas."""

import json
from typing import Any, cast

import numpy as np

from .._checks import check_choice, check_key, check_whole
from ..fit._fit import risk
from ..fit._flow import fit_flow
from ..models._confine import RestoredDDE
from ..models._polynomials import (
    FORMS,
    MAX_TERMS,
    PolynomialDrift,
    formulas_of,
    inputs_only,
    write_formulas,
)
from ._ensemble import count_parameters


def edge_rows(found: Any) -> list[dict[str, Any]]:
    """Return the properties of every kept edge as plain numbers; NaN for effects if samples are too
    few or not equally spaced.
    """
    try:
        effects = found.effects()
    except ValueError:
        effects = None
    low, high = np.moveaxis(found.delay_intervals, -1, 0)
    known = dict(delay_estimate=found.delays, delay_low=low, delay_high=high, score=found.scores)
    of_effects = ("sign", "slope", "slope_low", "slope_high", "share")
    unknown = np.full(found.graph.shape, np.nan)
    known |= {name: getattr(effects, name, unknown) for name in of_effects}
    rows = []
    for i, j, a in np.argwhere(found.graph):
        lag = int(found.lags[a])
        edge = {"source": found.names[i], "target": found.names[j], "lag": lag}
        numbers = {name: values[i, j, a].item() for name, values in known.items()}
        rows.append({**edge, "delay": float(lag * found.dt), **numbers})
    return rows


class WithExports:
    """The exports of a discovery. A base of [`Discovery`][ndde_jax.Discovery]."""

    def to_json(self: Any) -> str:
        """Return the graph as JSON: variables, sampling interval, and for every kept edge its lag,
        delay, score, sign, slope with its interval, and share of resamples. NaN becomes null, and
        effects are null if samples are too few or not equally spaced.
        """
        known = lambda v: None if isinstance(v, float) and np.isnan(v) else v  # noqa: E731
        edges = [{name: known(value) for name, value in row.items()} for row in edge_rows(self)]
        transform = self.samples.transform
        about = dict(variables=list(self.names), dt=float(self.dt), time_unit=self.time_unit)
        about |= dict(lags=[int(lag) for lag in self.lags])
        about |= {"transform": transform} if transform else {}
        about |= {"edges": edges}
        return json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False)

    def to_dot(self: Any) -> str:
        """Return the graph for Graphviz; edges that lower the rate of their target are dashed, and
        labels are lags in samples.
        """
        quoted = lambda name: json.dumps(name, ensure_ascii=False)  # noqa: E731
        lines = ["digraph {", *(f"  {quoted(name)};" for name in self.names)]
        for row in edge_rows(self):
            style = "dashed" if row["sign"] < 0 else "solid"
            label = f', label="{row["lag"]}"' if row["lag"] else ""
            ends = " -> ".join(quoted(row[end]) for end in ("source", "target"))
            lines.append(f"  {ends} [style={style}{label}];")
        return "\n".join([*lines, "}", ""])

    def to_networkx(self: Any):
        """Return a `networkx.MultiDiGraph` whose edges have the attributes that `to_json` writes;
        needs networkx, which also writes GraphML and other formats.

        **Raises:** `ImportError` without networkx.
        """
        try:
            import networkx
        except ImportError as error:
            raise ImportError("to_networkx needs networkx: pip install networkx.") from error

        graph = networkx.MultiDiGraph(dt=float(self.dt), time_unit=self.time_unit)
        graph.add_nodes_from(self.names)
        for row in edge_rows(self):
            graph.add_edge(row.pop("source"), row.pop("target"), **row)
        return graph

    def to_xarray(self: Any):
        """Return an `xarray.Dataset` over source, target and lag: graph, scores, lower bounds and
        delays in units of time, with `delay` as a second coordinate of lags; needs xarray.

        **Raises:** `ImportError` without xarray.
        """
        try:
            import xarray
        except ImportError as error:
            remedy = 'pip install "ndde_jax[data]"'
            raise ImportError(f"to_xarray needs xarray: {remedy}.") from error

        edge, (low, high) = ("source", "target", "lag"), np.moveaxis(self.delay_intervals, -1, 0)
        values = dict(graph=self.graph, score=self.scores, lower=self.lower)
        values |= dict(delay_estimate=self.delays, delay_low=low, delay_high=high)
        names, lags, dt = list(self.names), np.asarray(self.lags), float(self.dt)
        cubes = {name: (edge, np.array(value)) for name, value in values.items()}
        ranking = {"source_score": (edge[:2], np.array(self.source_scores))}
        places = {"source": names, "target": names, "lag": lags, "delay": ("lag", lags * dt)}
        return xarray.Dataset(cubes | ranking, places, {"dt": dt, "time_unit": self.time_unit})


# ---- formulas ----


FLOOR = 1e-12
# The number of slots grows in steps of this size.
SPARE = 4


def discovery_formulas(
    found: Any, *, key: Any, digits: Any, form: Any, options: dict
) -> tuple[Any, ...]:
    """Return the formulas of a discovery; see `found.equations`."""
    key = check_key(key)
    check_whole(digits, "digits", most=17)
    check_choice(form, "form", FORMS)
    if options:
        formulas = formulas_of(fit_flow(found.windows, found.reads, key=key, **options))
    else:
        formulas = _judged(found, key)
    known = [name in found.inputs for name in found.names]
    formulas = [None if k else f for f, k in zip(formulas, known, strict=True)]
    return write_formulas(
        formulas, found.samples.symbols, found.lags, float(found.dt), digits=int(digits), form=form
    )


def _judged(found: Any, key: Any) -> list:
    """Return the drift itself if it is a polynomial. Otherwise return polynomials on the graph for
    targets where the Bayesian information criterion prefers them to the drift. If there are more
    inputs than a polynomial can have, formulas only name the inputs.
    """
    windows, model, graph = found.windows, found.model, np.asarray(found.reads)
    own = formulas_of(model.model if isinstance(model, RestoredDDE) else model)
    if all(formula.inputs is None for formula in own):
        return own
    if graph.sum(axis=(0, 2)).max() + SPARE >= MAX_TERMS:
        return [inputs_only(model, j) for j in range(model.dim)]
    # Both are compared on the rates by which edges were measured.
    simple = fit_flow(windows, graph, key=key, family="polynomial", rounds=0)
    n, drift = int(windows.n_valid), cast(PolynomialDrift, simple.drift)
    terms = np.count_nonzero(np.asarray(drift.coefficients), axis=1)
    scores = [
        n * np.log(np.asarray(risk(each, windows), np.float64) + FLOOR) + count * np.log(n)
        for each, count in ((simple, terms), (model, count_parameters(model)))
    ]
    pairs = zip(own, formulas_of(simple), scores[0] <= scores[1], strict=True)
    return [f if simpler and mine.inputs is not None else mine for mine, f, simpler in pairs]
