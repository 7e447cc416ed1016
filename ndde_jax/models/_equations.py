"""What a learned system says, as formulas a person can read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import check_concrete, check_names, check_whole
from .._types import Checked
from ._model import NeuralDDE, check_model
from ._polynomials import PolynomialDrift


def equations(
    model: Checked[NeuralDDE],
    names: Checked[Sequence[str] | None] = None,
    *,
    digits: Checked[int] = 3,
) -> tuple[str, ...]:
    """The rates of a learned system as formulas in physical units, one line per variable.

    Targets that a network fits read `f(...)`, with the inputs it has.

    **Arguments:**

    - `model`: of one system, from [`fit_flow`][ndde_jax.fitting.fit_flow] or any other fit.
    - `names`: of the variables; x0, x1, … by default. A lag of l samples reads `x[t-l]`.
    - `digits`: significant digits of coefficients.

    **Returns:** one string per variable.

    **Raises:** `ValueError` for a wrong number of names, and for several systems at once.

    ```python
    import jax, numpy as np
    import ndde_jax as ndde

    t = np.arange(500) * 0.1
    windows = ndde.lagged_windows(np.stack([np.sin(t), np.cos(t)], 1), dt=0.1)
    model = ndde.fitting.fit_flow(windows, key=jax.random.key(0), family="polynomial")
    print(ndde.equations(model, ["x", "y"]))  # ("dx/dt = y", "dy/dt = -x")
    ```
    """
    check_model(model)
    if not isinstance(model, NeuralDDE):
        raise ValueError("model must be a NeuralDDE; got a RestoredDDE, whose model has equations.")
    check_whole(digits, "digits", most=17)
    check_concrete("equations", model)
    if model.mask.ndim != 3:
        raise ValueError("equations takes one system; index the leaves of a batch first.")
    dim = model.mask.shape[0]
    names = tuple(f"x{i}" for i in range(dim)) if names is None else check_names(names, dim)
    mask = np.asarray(model.mask).reshape(dim, -1)
    labels = [names[i] + (f"[t-{lag}]" if lag else "") for lag in model.lags for i in range(dim)]
    return tuple(
        f"d{names[j]}/dt = "
        + (_formula(model, j, labels, digits) or f"f({', '.join(_of(labels, mask[j]))})")
        for j in range(dim)
    )


def _of(labels, mask):
    return [label for label, kept in zip(labels, mask, strict=True) if kept]


def _formula(model: NeuralDDE, target: int, labels: list[str], digits: Any) -> str | None:
    """None where a network has the word."""
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
    parts = []
    index = np.asarray(drift.index)[target]
    for c, powers in zip(np.asarray(drift.coefficients)[target], drift.exponents, strict=True):
        value, factors = rate * float(c), []
        for i, power in zip(index, powers, strict=True):
            if not power:
                continue
            value /= float(scale[i]) ** power
            zero = float(center[i] - origin[i] * scale[i])
            small = abs(zero) <= 1e-5 * abs(float(center[i])) + 1e-12
            away = f"({labels[i]} {'+-'[zero > 0]} {abs(zero):.{digits}g})"
            base = labels[i] if small else away
            factors.append(base + (f"^{power}" if power > 1 else ""))
        if not factors:
            constant += value
        elif value:
            size = f"{abs(value):.{digits}g}"
            parts.append(("+-"[value < 0], " ".join(factors if size == "1" else [size, *factors])))
    # What is left of a constant that cancels is rounding.
    if abs(constant) > 1e-4 * rate:
        parts.append(("+-"[constant < 0], f"{abs(constant):.{digits}g}"))
    parts = parts or [("+", "0")]
    text = " ".join(f"{sign} {term}" for sign, term in parts)
    return text[2:] if text.startswith("+") else "-" + text[2:]
