"""Drifts of few polynomial terms where these suffice, networks elsewhere.

A network spends ten to twenty effective parameters on x(y − z), sparse regression one or two, and
with noisy data every parameter costs accuracy. So a target may have a polynomial of a few terms
instead of a network, if the Bayesian information criterion prefers it.

Coefficients may be fixed at whole numbers, or at a common magnitude, where the data allow it. The
law says x' = 10 (y − x), not x' = 10.1 y − 9.96 x. A number that need not be estimated adds no
error to a forecast, and data determine the coefficients of nearly equal x and y poorly.

`equations` writes the formula of a drift that has one.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._checks import check_choice, check_concrete, check_names, check_whole
from .._memory import after
from .._types import Checked, Scaling, namespace_of, to_jax
from ._families import AbstractDrift, Mask
from ._model import NeuralDDE, check_model
from ._networks import MaskedDrift

# Highest degree, and largest number of terms: with more inputs the degree is lowered.
MAX_DEGREE = 3
MAX_TERMS = 100
# Polynomials are constant further outside the data than this share of their range, since nothing
# else bounds them. Wide, because a correct polynomial is correct out there as well.
CLIP_MARGIN = 0.5
# Zero is the natural origin of physical laws, unless it is more than this many standard deviations
# away, where the powers of a variable are collinear.
MAX_ORIGIN_SHIFT = 12.0

Exponents = tuple[tuple[int, ...], ...]


class PolynomialDrift(AbstractDrift):
    """A sum of a [`MaskedDrift`][ndde_jax.models.MaskedDrift] and one sparse polynomial per target.

    Replaces a `MaskedDrift` in a [`NeuralDDE`][ndde_jax.models.NeuralDDE]; created by
    [`fit_flow`][ndde_jax.fitting.fit_flow], where one of the two is zero for every target.

    - `networks`: the networks; None if no target has one.
    - `coefficients`: coefficients of all terms, most of them zero.
    - `index`: the input, flat (lag, source), of each slot.
    - `origin`: added to standardised inputs; by default such that terms are powers of x / scale.
    - `lower`, `upper`: standardised inputs are clipped to this box, so the drift is bounded.
    - `exponents`: exponents of the slots in each term.
    """

    networks: MaskedDrift | None
    coefficients: Float[Array, "target term"]
    index: Int[Array, "target slot"]
    origin: Float[Array, "input"]
    lower: Float[Array, "input"]
    upper: Float[Array, "input"]
    exponents: Exponents = eqx.field(static=True)

    def __call__(
        self, history: Float[Array, "lag dim"], mask: Mask = None
    ) -> Float[Array, "target"]:
        """Return the standardised rate of change for one standardised history.

        The mask weights the inputs of networks, and every term of a polynomial by all inputs that
        the term depends on.
        """
        z = history.reshape(-1)
        z = self.origin + jnp.clip(z, self.lower, self.upper)
        terms = jax.vmap(lambda index: monomials(z[index][None], self.exponents)[0])(self.index)
        if mask is not None:
            gates = mask.reshape(len(self.index), -1).astype(z.dtype)
            gates = jnp.take_along_axis(gates, self.index, axis=1)
            depends = np.asarray(self.exponents) > 0
            terms *= jnp.prod(jnp.where(depends[None], gates[:, None], 1), axis=2)
        rate = jnp.sum(self.coefficients * terms, axis=1)
        return rate if self.networks is None else rate + self.networks(history, mask)

    def output_range(self) -> tuple[Float[Array, "target"], Float[Array, "target"]]:
        """Return the midpoint and half-width of an interval that contains all outputs."""
        xp = namespace_of(self)
        own = jax.tree.map(xp.asarray, self)
        largest = xp.maximum(xp.abs(own.origin + own.lower), xp.abs(own.origin + own.upper))
        terms = monomials(largest[own.index], self.exponents)
        spread = to_jax(xp.sum(xp.abs(own.coefficients) * terms, axis=1))
        if self.networks is None:
            return to_jax(xp.zeros_like(spread)), spread
        middle, wide = self.networks.output_range()
        return middle, wide + spread


class PolynomialFit(eqx.Module):
    """A sparse polynomial: coefficients, weighted mean squared error, and number of terms."""

    coefficients: Float[Array, "term"]
    risk: Float[Array, ""]
    count: Float[Array, ""]


def all_exponents(n_slots: int) -> Exponents:
    """Return the exponents of all monomials in `n_slots` inputs by degree, constant first. The
    highest degree is the largest up to three that gives at most a hundred terms, and at least one.
    """
    found: list[tuple[int, ...]] = [(0,) * n_slots]
    for degree in range(1, MAX_DEGREE + 1):
        terms = itertools.combinations_with_replacement(range(n_slots), degree)
        powers = [tuple(map(chosen.count, range(n_slots))) for chosen in terms]
        if degree > 1 and len(found) + len(powers) > MAX_TERMS:
            break
        found += powers
    return tuple(found)


def monomials(
    z: Float[Array | np.ndarray, "row slot"], exponents: Exponents
) -> Float[Array | np.ndarray, "row term"]:
    """Return the value of every term in every row."""
    xp = np if isinstance(z, np.ndarray) else jnp
    powers = [xp.ones_like(z)]
    for _ in range(max(map(max, exponents))):
        powers.append(powers[-1] * z)
    table = xp.stack(powers)  # [power row slot]
    e = np.asarray(exponents)
    return xp.prod(table[e.T, :, np.arange(e.shape[1])[:, None]], axis=0).T


def natural_origin(scaling: Scaling) -> Float[Array, "dim"]:
    """Return the offset of the mean from physical zero, in standard deviations; 0 if zero is too
    far away.
    """
    shift = _shift(scaling)
    return jnp.where(jnp.abs(shift) <= MAX_ORIGIN_SHIFT, shift, 0)


def _shift(scaling: Scaling) -> Float[Array, "dim"]:
    return scaling.center / jnp.where(scaling.scale > 0, scaling.scale, 1)


def physical_units(
    scaling: Scaling, index: Int[Array, "slot"], target: Int[Array, ""], exponents: Exponents
) -> Float[Array, "term"]:
    """Return, for every term, the physical value of a coefficient of 1; 0 if the term is not a
    product of the variables themselves, because zero is far from their values.
    """
    source = index % scaling.scale.shape[0]
    natural = (scaling.scale > 0) & (jnp.abs(_shift(scaling)) <= MAX_ORIGIN_SHIFT)
    e = np.asarray(exponents)
    powers = scaling.scale[source][None] ** e.astype(scaling.scale.dtype)
    size = jnp.prod(jnp.where(e > 0, powers, 1), axis=1)
    usable = jnp.all((e == 0) | natural[source][None], axis=1)
    return jnp.where(usable, scaling.rate_scale[target] / size, 0)


@partial(jax.jit, static_argnames="exponents")
def fit_polynomial(
    inputs: Float[Array, "window slot"],
    used: Bool[Array, "slot"],
    output: Float[Array, "window"],
    weight: Float[Array, "window"],
    exponents: Exponents,
    units: Float[Array, "term"] | None = None,
) -> PolynomialFit:
    """Fit by least squares the terms that backward elimination keeps.

    All terms in the inputs in use, up to some degree, are fitted. Then the term whose removal
    raises the risk least is dropped, until none is left. Among the models from all starting
    degrees, the one with the lowest

        n log(risk + 10⁻⁷) + k log n + 2 log (P choose k)

    is returned, with P terms of any degree ([Chen and Chen,
    2008](https://doi.org/10.1093/biomet/asn034)). On a limit cycle, where terms are functions of
    one another, starts from low degrees find the simple law.

    With `units`, the physical value of a coefficient of 1 (0 for a term without units),
    coefficients that are compatible with simple numbers are fixed at them, see `simplify`.
    """
    root = jnp.sqrt(weight.astype(inputs.dtype))[:, None]
    columns = monomials(inputs, exponents) * root
    allowed = ~jnp.any((np.asarray(exponents) > 0) & ~used[None], axis=1)
    norm, allowed = _length(columns, allowed)
    columns = jnp.where(allowed, columns / norm[None], 0)
    y = output * root[:, 0]
    size, varies = _length(y)
    y = jnp.where(varies, y / size, 0)
    n = jnp.maximum(jnp.sum(weight), 2)
    # The choice of terms has no derivative; their coefficients have one.
    chosen = _eliminate(*jax.lax.stop_gradient((columns, y, n)), allowed, exponents)
    found, k = _with_derivatives(columns, y, chosen), chosen.count
    error = jnp.sum((y - columns @ found) ** 2)
    # The risk from the triangular factor has less rounding error.
    risk = chosen.risk + error - jax.lax.stop_gradient(error)
    unit = size / norm
    if units is not None:
        # If one origin is not zero, coefficients of lower degree contain parts of the others.
        kept = chosen.coefficients != 0
        units = jnp.where(jnp.all((units != 0) | ~kept), units * unit, 0)
        degree = jnp.asarray(np.sum(exponents, axis=1))
        found, risk, k = simplify(columns, y, kept, units, degree, n)
    return PolynomialFit(found * unit, risk * size**2 / n, k)


def _length(columns: Float[Array, "row *column"], usable: Any = True):
    """Return Euclidean lengths, and which of them are usable and not zero. Other lengths are 1,
    since the root of zero has no derivative.
    """
    square = jnp.sum(columns**2, axis=0)
    usable = usable & (square > 0)
    return jnp.sqrt(jnp.where(usable, square, 1)), usable


class _Elimination(eqx.Module):
    """The result of backward elimination, with the inverse of its normal equations."""

    coefficients: Float[Array, "term"]
    risk: Float[Array, ""]
    count: Float[Array, ""]
    inverse: Float[Array, "term term"]


def _with_derivatives(columns, y, chosen: _Elimination) -> Float[Array, "term"]:
    """Return the coefficients, with the derivatives of the least-squares minimum.

    A Newton step from them is zero up to rounding error, and its derivative is theirs by the
    implicit function theorem. A factorisation cannot be differentiated where terms are excluded,
    since their columns are zero.
    """
    at = chosen.coefficients
    step = chosen.inverse @ (columns.T @ (y - columns @ at) - RIDGE**2 * at)
    return at + step - jax.lax.stop_gradient(step)


def _least_squares(
    columns: Float[Array, "row term"], y: Float[Array, "row"], free: Bool[Array, "term"]
) -> tuple[Float[Array, "term"], Float[Array, "term term"]]:
    """Return the coefficients of the columns, zero unless `free`, and the inverse root of the
    normal equations.
    """
    pivots = jnp.diag(jnp.where(free, RIDGE, 1.0).astype(columns.dtype))
    q, r = jnp.linalg.qr(jnp.concatenate([columns, pivots]))
    inverse = jax.scipy.linalg.solve_triangular(r, after(jnp.eye(len(r), dtype=r.dtype), q))
    return jnp.where(free, inverse @ (q[: len(columns)].T @ y), 0), inverse


@partial(jax.jit, static_argnames="exponents")
def _eliminate(columns, y, n, allowed, exponents: Exponents) -> _Elimination:
    """Return the terms that backward elimination keeps, see `fit_polynomial`.

    Under `vmap` fits run one after the other: LAPACK solves single triangular systems, but batches
    of them are solved by XLA loops.
    """
    search = jax.custom_batching.sequential_vmap(partial(_one_elimination, exponents=exponents))
    return search(columns, y, n, allowed)


def _one_elimination(columns, y, n, allowed, *, exponents: Exponents) -> _Elimination:
    n_terms, dtype = len(exponents), columns.dtype
    # Work on the triangular factor, whose size does not grow with the data.
    triangle = jnp.linalg.qr(jnp.concatenate([columns, y[:, None]], axis=1), mode="r")
    design, target = triangle[:, :-1], triangle[:, -1]
    total = jnp.sum(allowed)
    # Tabulated, since the gamma function takes longer to compile than all the rest.
    factorial = jnp.asarray([math.lgamma(k + 1) for k in range(n_terms + 1)], dtype)

    def step(carry, _):
        mask, least, best = carry
        found, inverse = _least_squares(jnp.where(mask[None], design, 0), target, mask)
        risk = jnp.sum((target - design @ found) ** 2)
        count = jnp.sum(mask)
        k = count.astype(dtype)
        ways = factorial[total] - factorial[count] - factorial[total - count]
        cost = n * jnp.log(risk + FLOOR) + k * jnp.log(n) + 2 * ways
        # The best solution is kept: solving for it again later would be compiled again.
        better = cost < least
        root = jnp.where(mask[:, None], inverse, 0)
        best = jax.tree.map(partial(jnp.where, better), (found, risk, k, root), best)
        # Rise of the risk without each term.
        rise = found**2 / jnp.sum(inverse**2, axis=1)
        worst = jnp.argmin(jnp.where(mask, rise, jnp.inf))
        return (mask.at[worst].set(False), jnp.where(better, cost, least), best), None

    def from_degree(kept, start):
        (_, *kept), _ = jax.lax.scan(step, (start, *kept), None, length=n_terms + 1)
        return tuple(kept), None

    degree = np.sum(exponents, axis=1)
    starts = allowed[None] & (degree[None] <= np.arange(1, max(degree) + 1)[:, None])
    nothing = jnp.full(n_terms, jnp.nan, dtype)
    nothing = (nothing, nothing[0], nothing[0], jnp.full((n_terms, n_terms), jnp.nan, dtype))
    (_, best), _ = jax.lax.scan(from_degree, (jnp.asarray(jnp.inf, dtype), nothing), starts)
    found, risk, k, root = best
    return _Elimination(found, risk, k, root @ root.T)


def bounds(
    inputs: Float[Array, "window input"], weight: Float[Array, "window"]
) -> tuple[Float[Array, "input"], Float[Array, "input"]]:
    """Return the box of the data, extended by half its range on each side."""
    seen = (weight > 0)[:, None]
    low = jnp.min(jnp.where(seen, inputs, jnp.inf), axis=0)
    high = jnp.max(jnp.where(seen, inputs, -jnp.inf), axis=0)
    return low - CLIP_MARGIN * (high - low), high + CLIP_MARGIN * (high - low)


# Keeps collinear terms from breaking a factorisation in single precision.
RIDGE = 1e-5
# Added to a risk, as a share of variance: the error that corrected differences have anyway.
FLOOR = 1e-7


def simplify(
    design: Float[Array, "row term"],
    target: Float[Array, "row"],
    kept: Bool[Array, "term"],
    unit: Float[Array, "term"],
    degree: Int[Array, "term"],
    n: Float[Array, ""],
) -> tuple[Float[Array, "term"], Float[Array, ""], Float[Array, ""]]:
    """Fit the kept terms by least squares, with some coefficients whole and some equal in size.

    A coefficient c is a real number with uniform density, or a whole number m with odds 1/|m|. The
    sizes of two coefficients of terms of the same degree (which share a unit if their variables do)
    differ by anything up to their own or, with odds 1/(number of such pairs), not at all. With the
    standard error s of c, or of the difference d of the sizes, the odds are

        exp(−(c − m)²/2s²) / (√(2π) s |m|)    and    exp(−d²/2s²) / (√(2π) s) · size / pairs .

    As long as any odds exceed one, the largest decide, and everything else is refitted.

    **Arguments:**

    - `design`, `target`: rows of the regression, `target` of length 1 over all data; their
        triangular factor is enough.
    - `unit`: factor from coefficients to those of the law; 0 for coefficients without such a unit,
        which are not fixed.
    - `n`: number of data.

    **Returns:** coefficients, sum of squared errors, and the number of estimated parameters.
    """
    n_terms, dtype = len(kept), design.dtype
    scale = jnp.where(unit != 0, unit, 1)
    columns = design / scale[None]  # for coefficients in the units of the law
    usable = unit != 0
    alike = (degree[:, None] == degree[None]) & (degree > 0)[:, None]
    alike = alike & usable[:, None] & usable[None]
    upper = jnp.triu(jnp.ones((n_terms, n_terms), bool), 1)
    density = math.sqrt(2 * math.pi)

    def fit(columns, target, groups, held):
        """Return the values of all groups of terms, their covariance, and the squared error."""
        grouped = columns @ groups
        norm, free = _length(grouped)
        rest = target - columns @ held
        values, inverse = _least_squares(grouped / norm[None], rest, free)
        values = values / norm
        error = jnp.sum((rest - grouped @ values) ** 2)
        covariance = (inverse @ inverse.T) / (norm[:, None] * norm[None]) * (error + FLOOR) / n
        return values, covariance, error, free

    # Decisions have no derivative, and a loop of unknown length has no reverse derivative.
    decided_on = jax.lax.stop_gradient((columns, target))

    def moves(state):
        """Return the log odds of fixing each group at a whole number and of joining each pair."""
        values, covariance, _, free = fit(*decided_on, *state)
        variance = jnp.diag(covariance)
        whole = jnp.round(values)
        possible = free & usable & (whole != 0)
        spread = jnp.where(possible, variance, 1)
        odds = -((values - whole) ** 2) / (2 * spread)
        odds -= jnp.log(density * jnp.sqrt(spread) * jnp.maximum(jnp.abs(whole), 1))
        hold = jnp.where(possible, odds, -jnp.inf)

        size, sign = jnp.abs(values), jnp.sign(values)
        pairs = upper & alike & free[:, None] & free[None]
        same = sign[:, None] * sign[None]
        spread = variance[:, None] + variance[None] - 2 * same * covariance
        spread = jnp.where(pairs & (spread > 0), spread, 1)
        odds = -((size[:, None] - size[None]) ** 2) / (2 * spread)
        odds += jnp.log(jnp.minimum(size[:, None], size[None]) + jnp.finfo(dtype).tiny)
        odds -= jnp.log(density * jnp.sqrt(spread) * jnp.maximum(jnp.sum(pairs), 1).astype(dtype))
        join = jnp.where(pairs, odds, -jnp.inf)
        return hold, join, whole, same

    def step(state):
        groups, held, hold, join, whole, same = state
        best = jnp.argmax(hold)
        first, second = jnp.unravel_index(jnp.argmax(join), join.shape)
        members = groups[:, second]
        joined = groups.at[:, first].add(same[first, second] * members).at[:, second].set(0)
        fixed = held + whole[best] * groups[:, best]
        holds = hold[best] >= join[first, second]
        groups = jnp.where(holds, groups.at[:, best].set(0), joined)
        held = jnp.where(holds, fixed, held)
        return groups, held, *moves((groups, held))

    def worthwhile(state):
        return jnp.maximum(jnp.max(state[2]), jnp.max(state[3])) > 0

    start = (jnp.diag(kept.astype(dtype)), jnp.zeros(n_terms, dtype))
    groups, held, *_ = jax.lax.while_loop(worthwhile, step, (*start, *moves(start)))
    values, _, error, free = fit(columns, target, groups, held)
    return (groups @ values + held) / scale, error, jnp.sum(free).astype(dtype)


# ---- formulas, for people and programs ----

FORMS = ("text", "latex", "sympy")


@dataclasses.dataclass(frozen=True)
class Formula:
    """A polynomial in physical units, or only the inputs that a rate depends on.

    - `inputs`: flat (lag, source) inputs of a rate that is not a polynomial; None if it is one.
    - `terms`: coefficient and factors; a factor is an input, a number added to it, and its power.
    - `constant`: the constant term; 0 if only rounding error is left of it.
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

    Targets fitted by a network or splines read `f(...)`, with their inputs.

    **Arguments:**

    - `model`: model of one system, from [`fit_flow`][ndde_jax.fitting.fit_flow] or any other fit.
    - `names`: names of the variables; x0, x1, … by default.
    - `digits`: significant digits of coefficients.
    - `form`: `"text"`, in which a delay of 0.5 reads `x[t-0.5]`; `"latex"`; or `"sympy"`, equations
        of functions of t, which needs SymPy. Delays are in the time unit of the rates.

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
    """Return the formulas in the given form, one for each target that has one."""
    write = {"text": _as_text, "latex": _as_latex, "sympy": _as_sympy}[form]
    return write(formulas, names, lags, dt, digits)


def formulas_of(model: Any) -> list[Formula]:
    """Return the formula of every target of one system.

    **Raises:** `ValueError` as [`equations`][ndde_jax.equations] for its model.
    """
    check_model(model)
    if not isinstance(model, NeuralDDE):
        raise ValueError("model must be a NeuralDDE; got a RestoredDDE. Pass its attribute model.")
    check_concrete("equations", model)
    if model.mask.ndim != 3:
        raise ValueError("equations takes one system; got a batch. Index its leaves first.")
    return [_formula(model, j) or inputs_only(model, j) for j in range(model.mask.shape[0])]


def inputs_only(model: Any, target: int) -> Formula:
    """Return a formula that names only the inputs of a rate."""
    return Formula(tuple(np.flatnonzero(np.asarray(model.mask)[target].ravel()).tolist()))


def _formula(model: NeuralDDE, target: int) -> Formula | None:
    """Return the formula of a target; None if its drift consists of splines or a network."""
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
    # The remainder of a constant that cancels is rounding error.
    constant = constant if abs(constant) > 1e-4 * rate else 0.0
    return Formula(None, tuple(terms), constant)


def _as_text(formulas, names, lags, dt, digits) -> tuple[str, ...]:
    labels = [name + (f"[t-{lag * dt:.6g}]" if lag else "") for lag in lags for name in names]
    number = lambda value: f"{abs(value):.{digits}g}"  # noqa: E731
    rates = ((f"d{name}/dt", "f") for name in names)
    return _format_formulas(formulas, rates, labels, number, ("(", ")"), "^{}", " ")


def _as_latex(formulas, names, lags, dt, digits) -> tuple[str, ...]:
    written = [_latex_name(name) for name in names]
    labels = [name + (f"(t - {lag * dt:.6g})" if lag else "") for lag in lags for name in written]

    def number(value):
        mantissa, _, power = f"{abs(value):.{digits}g}".partition("e")
        return rf"{mantissa} \cdot 10^{{{int(power)}}}" if power else mantissa

    rates = ((rf"\dot{{{name}}}", f"f_{{{name}}}") for name in written)
    return _format_formulas(
        formulas, rates, labels, number, (r"\left(", r"\right)"), "^{{{}}}", r"\,"
    )


def _format_formulas(
    formulas, rates, labels, number, brackets, raised: str, times
) -> tuple[str, ...]:
    """Return the formulas in one style; `rates` holds the name of each rate and of its function,
    which is used if it has no formula.
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
    """Return a name for LaTeX: a letter unchanged, a word upright, and a name with blanks or
    hyphens as text, which keeps them.
    """
    plain = "".join("\\" + c if c in "_%&#${}" else c for c in name)
    style = "text" if {" ", "-"} & {*name} else "mathrm"
    return plain if len(name) == 1 else rf"\{style}{{{plain}}}"


def _as_sympy(formulas, names, lags, dt, digits) -> tuple[Any, ...]:
    try:
        import sympy
    except ImportError as error:
        raise ImportError('form="sympy" needs SymPy: pip install sympy.') from error
    t = sympy.Symbol("t", real=True)
    # Rounded as in text, so that 0.75 is not 0.74999.
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
