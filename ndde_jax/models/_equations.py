"""The formulas of a learned system, for a person or a program to read."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import check_choice, check_concrete, check_names, check_whole
from .._types import Checked
from ._model import NeuralDDE, check_model
from ._polynomials import PolynomialDrift

FORMS = ("text", "latex", "sympy")


@dataclasses.dataclass(frozen=True)
class Formula:
    """A polynomial in physical units, or only the inputs that a rate depends on.

    - `inputs`: flat (lag, source), of a rate that is no polynomial; None for one that is.
    - `terms`: coefficient and factors, each an input, what is added to it, and its power.
    - `constant`: with what is left of one that cancels set to 0.
    """

    inputs: tuple[int, ...] | None = None
    terms: tuple[tuple[float, tuple[tuple[int, float, int], ...]], ...] = ()
    constant: float = 0.0


def equations(
    model: Checked[NeuralDDE],
    names: Checked[Sequence[str] | None] = None,
    *,
    digits: Checked[int] = 3,
    form: Checked[str] = "text",
) -> tuple[Any, ...]:
    """Return the rates of a learned system as formulas in physical units, one per variable.

    Targets that a network or splines fit read `f(...)`, with the inputs they have.

    **Arguments:**

    - `model`: of one system, from [`fit_flow`][ndde_jax.fitting.fit_flow] or any other fit.
    - `names`: of the variables; x0, x1, … by default. A lag of l samples reads `x[t-l]`.
    - `digits`: significant digits of coefficients.
    - `form`: `"text"`; `"latex"`, whose delays are in units of time; or `"sympy"`, equations of
        functions of t, which needs SymPy.

    **Returns:** one string, or one `sympy.Eq`, per variable.

    **Raises:** `ValueError` for a wrong number of names, another `form`, and for several systems at
    once; `ImportError` without SymPy.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    model = ndde.fitting.fit_flow(windows, key=jax.random.key(0), family="polynomial")
    print(ndde.equations(model, ["x", "y"]))  # ("dx/dt = y", "dy/dt = -x")
    print(ndde.equations(model, ["x", "y"], form="latex")[0])  # \\dot{x} = y
    ```
    """
    check_choice(form, "form", FORMS)
    check_whole(digits, "digits", most=17)
    formulas = formulas_of(model)
    dim = len(formulas)
    names = tuple(f"x{i}" for i in range(dim)) if names is None else check_names(names, dim)
    return write_formulas(
        formulas, tuple(names), model.lags, float(model.dt), digits=int(digits), form=form
    )


def write_formulas(formulas, names, lags, dt, *, digits: int, form: str) -> tuple[Any, ...]:
    """Return written formulas by target, None for those that have no equation."""
    write = {"text": _as_text, "latex": _as_latex, "sympy": _as_sympy}[form]
    return write(formulas, names, lags, dt, digits)


def formulas_of(model: Any) -> list[Formula]:
    """Return the formula of every target of one system.

    **Raises:** `ValueError` as [`equations`][ndde_jax.equations] does of a model.
    """
    check_model(model)
    if not isinstance(model, NeuralDDE):
        raise ValueError("model must be a NeuralDDE; got a RestoredDDE, whose model has equations.")
    check_concrete("equations", model)
    if model.mask.ndim != 3:
        raise ValueError("equations takes one system; index the leaves of a batch first.")
    return [_formula(model, j) or unspoken(model, j) for j in range(model.mask.shape[0])]


def unspoken(model: Any, target: int) -> Formula:
    """Return a formula that names only the inputs of a rate."""
    return Formula(tuple(np.flatnonzero(np.asarray(model.mask)[target].ravel()).tolist()))


def _formula(model: NeuralDDE, target: int) -> Formula | None:
    """Return the formula of a target; None where splines or a network make up its drift."""
    drift, s = model.drift, model.scaling
    if not isinstance(drift, PolynomialDrift):
        return None
    if drift.networks is not None and np.any(np.asarray(drift.networks.layers[-1][0][target])):
        return None
    n_lags = len(model.lags)
    origin = np.asarray(drift.origin)
    scale, center = np.tile(s.scale, n_lags), np.tile(s.center, n_lags)
    rate = float(s.rate_scale[target])
    constant = float(s.rate_center[target])
    if drift.networks is not None:
        constant += rate * float(drift.networks.layers[-1][1][target, 0])
    terms = []
    index = np.asarray(drift.index)[target]
    for c, powers in zip(np.asarray(drift.coefficients)[target], drift.exponents, strict=True):
        value, factors = rate * float(c), []
        for i, power in zip(index, powers, strict=True):
            if not power:
                continue
            value /= float(scale[i]) ** power
            added = float(origin[i] * scale[i] - center[i])
            small = abs(added) <= 1e-5 * abs(float(center[i])) + 1e-12
            factors.append((int(i), 0.0 if small else added, int(power)))
        if not factors:
            constant += value
        elif value:
            terms.append((value, tuple(factors)))
    # What is left of a constant that cancels is rounding.
    constant = constant if abs(constant) > 1e-4 * rate else 0.0
    return Formula(None, tuple(terms), constant)


def _as_text(formulas, names, lags, dt, digits) -> tuple[str, ...]:
    labels = [name + (f"[t-{lag}]" if lag else "") for lag in lags for name in names]
    number = lambda value: f"{abs(value):.{digits}g}"  # noqa: E731
    rates = ((f"d{name}/dt", "f") for name in names)
    return _written(formulas, rates, labels, number, ("(", ")"), "^{}", " ")


def _as_latex(formulas, names, lags, dt, digits) -> tuple[str, ...]:
    written = [_latex_name(name) for name in names]
    labels = [name + (f"(t - {lag * dt:.6g})" if lag else "") for lag in lags for name in written]

    def number(value):
        mantissa, _, power = f"{abs(value):.{digits}g}".partition("e")
        return rf"{mantissa} \cdot 10^{{{int(power)}}}" if power else mantissa

    rates = ((rf"\dot{{{name}}}", f"f_{{{name}}}") for name in written)
    return _written(formulas, rates, labels, number, (r"\left(", r"\right)"), "^{{{}}}", r"\,")


def _written(formulas, rates, labels, number, brackets, raised: str, times) -> tuple[str, ...]:
    """Return the formulas in one style; `rates` are the names of each rate, and of its function
    where it has no formula.
    """
    opened, closed = brackets

    def factor(i, added, power):
        away = f"{opened}{labels[i]} {'-+'[added > 0]} {number(added)}{closed}"
        return (away if added else labels[i]) + (raised.format(power) if power > 1 else "")

    def side(function, formula):
        if formula.inputs is not None:
            return f"{function}{opened}{', '.join(labels[i] for i in formula.inputs)}{closed}"
        parts = []
        for value, factors in formula.terms:
            size, written = number(value), [factor(*f) for f in factors]
            parts.append((value, times.join(written if size == "1" else [size, *written])))
        if formula.constant:
            parts.append((formula.constant, number(formula.constant)))
        parts = parts or [(1.0, "0")]
        text = " ".join(f"{'-' if value < 0 else '+'} {term}" for value, term in parts)
        return text[2:] if text.startswith("+") else "-" + text[2:]

    given = zip(rates, formulas, strict=True)
    return tuple(f"{rate} = {side(name, f)}" for (rate, name), f in given if f is not None)


def _latex_name(name: str) -> str:
    """Return a name for LaTeX: a letter as it is, a word upright."""
    plain = "".join("\\" + c if c in "_%&#${}" else c for c in name)
    return plain if len(name) == 1 else rf"\mathrm{{{plain}}}"


def _as_sympy(formulas, names, lags, dt, digits) -> tuple[Any, ...]:
    try:
        import sympy
    except ImportError as error:
        raise ImportError('form="sympy" needs SymPy: pip install sympy.') from error
    t = sympy.Symbol("t", real=True)
    # Written as said in text, so that 0.75 is not 0.74999.
    number = lambda v, n=digits: sympy.Float(f"{v:.{n}g}", 17) if v % 1 else sympy.Integer(int(v))  # noqa: E731
    states = [sympy.Function(name)(t) for name in names]
    past = [state.subs(t, t - number(lag * dt, 12)) for lag in lags for state in states]

    def side(name, formula):
        if formula.inputs is not None:
            return sympy.Function(f"f_{name}")(*(past[i] for i in formula.inputs))
        total = number(formula.constant)
        for value, factors in formula.terms:
            term = number(float(f"{value:.{digits}g}"))
            for i, added, power in factors:
                term = term * (past[i] + number(added)) ** power
            total = total + term
        return total

    return tuple(
        sympy.Eq(sympy.Derivative(state, t), side(name, formula), evaluate=False)
        for name, state, formula in zip(names, states, formulas, strict=True)
        if formula is not None
    )
