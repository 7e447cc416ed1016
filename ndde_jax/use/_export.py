"""Export of graph and drift: JSON, DOT, networkx, xarray, formulas."""

import json
from typing import Any

import numpy as np

from .._checks import check_choice, check_key, check_whole
from ..fit._flow import fit_flow
from ..fit._loss import risk
from ..models._confine import RestoredDDE
from ..models._equations import FORMS, formulas_of, unspoken, write_formulas
from ..models._polynomials import MAX_TERMS
from ._ensemble import count_numbers


def edge_rows(found: Any) -> list[dict[str, Any]]:
    """Return the facts on every kept edge, in plain numbers."""
    effects, low_high = found.effects(), found.delay_intervals
    known = {
        "delay_estimate": found.delays,
        "delay_low": low_high[..., 0],
        "delay_high": low_high[..., 1],
        "score": found.scores,
        "sign": effects.sign,
        "slope": effects.slope,
        "slope_low": effects.slope_low,
        "slope_high": effects.slope_high,
        "share": effects.share,
    }
    rows = []
    for i, j, a in np.argwhere(effects.graph):
        lag = int(found.lags[a])
        edge = {"source": found.names[i], "target": found.names[j], "lag": lag}
        numbers = {name: values[i, j, a].item() for name, values in known.items()}
        rows.append({**edge, "delay": float(lag * found.dt), **numbers})
    return rows


def to_json(found: Any) -> str:
    """Return variables, sampling and edges; NaN is written as null."""
    known = lambda v: None if isinstance(v, float) and np.isnan(v) else v  # noqa: E731
    edges = [{name: known(value) for name, value in row.items()} for row in edge_rows(found)]
    about = {
        "variables": list(found.names),
        "dt": float(found.dt),
        "time_unit": found.time_unit,
        "lags": [int(lag) for lag in found.lags],
        **({"transform": transform} if (transform := found.samples.transform) else {}),
        "edges": edges,
    }
    return json.dumps(about, indent=1, ensure_ascii=False, allow_nan=False)


def to_dot(found: Any) -> str:
    """Return a graph for Graphviz: solid arrows raise their target's rate on average, dashed ones
    lower it.
    """
    quoted = lambda name: json.dumps(name, ensure_ascii=False)  # noqa: E731
    lines = ["digraph {", *(f"  {quoted(name)};" for name in found.names)]
    for row in edge_rows(found):
        style = "solid" if row["sign"] >= 0 else "dashed"
        label = f', label="{row["lag"]}"' if row["lag"] else ""
        lines.append(
            f"  {quoted(row['source'])} -> {quoted(row['target'])} [style={style}{label}];"
        )
    return "\n".join([*lines, "}", ""])


def to_networkx(found: Any) -> Any:
    """Return a `networkx.MultiDiGraph`, whose edges carry lag, delay, score, sign, slope and share;
    from there to GraphML and other formats.
    """
    import networkx

    graph = networkx.MultiDiGraph(dt=float(found.dt), time_unit=found.time_unit)
    graph.add_nodes_from(found.names)
    for row in edge_rows(found):
        graph.add_edge(row.pop("source"), row.pop("target"), **row)
    return graph


def to_xarray(found: Any) -> Any:
    """Return an `xarray.Dataset` over source, target and lag."""
    import xarray

    edge, bounds = ("source", "target", "lag"), np.moveaxis(found.delay_intervals, -1, 0)
    values = {
        "graph": found.graph,
        "score": found.scores,
        "lower": found.lower,
        "delay_estimate": found.delays,
        "delay_low": bounds[0],
        "delay_high": bounds[1],
    }
    names, lags = list(found.names), np.asarray(found.lags)
    return xarray.Dataset(
        {
            **{name: (edge, np.array(value)) for name, value in values.items()},
            "source_score": (("source", "target"), np.array(found.source_scores)),
        },
        coords={
            "source": names,
            "target": names,
            "lag": lags,
            "delay": ("lag", lags * float(found.dt)),
        },
        attrs={"dt": float(found.dt), "time_unit": found.time_unit},
    )


# ---- formulas ----


FLOOR = 1e-12
# Slots come in steps of so many.
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
    """Return the drift itself where it is a polynomial; elsewhere polynomials on the graph where
    the Bayesian information criterion prefers them to the drift; None where there are more inputs
    than a polynomial can have.
    """
    windows, model, graph = found.windows, found.model, np.asarray(found.reads)
    own = formulas_of(model.model if isinstance(model, RestoredDDE) else model)
    if all(formula.inputs is None for formula in own):
        return own
    if graph.sum(axis=(0, 2)).max() + SPARE >= MAX_TERMS:
        return [unspoken(model, j) for j in range(model.dim)]
    # Of the rates that edges were measured by, both.
    simple = fit_flow(windows, graph, key=key, family="polynomial", rounds=0)
    n = int(windows.n_valid)
    scores = [
        n * np.log(np.asarray(risk(each, windows), np.float64) + FLOOR) + count * np.log(n)
        for each, count in ((simple, _terms(simple)), (model, count_numbers(model)))
    ]
    formulas = formulas_of(simple)
    return [
        mine if mine.inputs is None else f if scores[0][j] <= scores[1][j] else mine
        for j, (mine, f) in enumerate(zip(own, formulas, strict=True))
    ]


def _terms(model: Any) -> np.ndarray:
    return np.count_nonzero(np.asarray(model.drift.coefficients), axis=1)
