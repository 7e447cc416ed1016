"""The drift of a discovery as formulas, where a few terms say as much as it does."""

from typing import Any

import numpy as np

from .._checks import check_choice, check_key, check_whole
from ..fit._flow import fit_flow
from ..fit._risk import risk
from ..models._confine import RestoredDDE
from ..models._equations import FORMS, formulas_of, unspoken, write_formulas
from ..models._polynomials import MAX_TERMS
from ._step_fit import count_numbers

FLOOR = 1e-12
# Slots come in steps of so many.
SPARE = 4


def discovery_formulas(
    found: Any, *, key: Any, digits: Any, form: Any, options: dict
) -> tuple[Any, ...]:
    """As `found.equations` says."""
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
    """The drift itself where it is a polynomial; elsewhere polynomials on the graph where the
    Bayesian information criterion prefers them to the drift that was found; none where there are
    more inputs than a polynomial can have.
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
