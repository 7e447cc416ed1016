"""Runge–Kutta steps, with or without noise, and dense output, taken from a Diffrax solver."""

from functools import cache
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import short_repr
from .._types import to_jax


class Tableau(eqx.Module):
    """The coefficients of an explicit Runge–Kutta method and of its dense output.

    A step is stored as one *record*: its start, its end and its stages, `[2 + stage *state]`. Dense
    output is a linear combination of a record's rows, with weights that depend only on the fraction
    of the step. All lagged values of many steps are thus one matrix product.

    A method of strong order 1.5 for additive noise (`stages` given) stores the states at its stages
    instead of their increments. A delay on the grid reads these states directly: between two
    multiples of the delay, a delay equation is a joint equation of all its segments, whose stages
    coincide.
    """

    solver: diffrax.AbstractSolver = eqx.field(static=True)
    a: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    b: tuple[float, ...] = eqx.field(static=True)
    c: tuple[float, ...] = eqx.field(static=True)
    order: int = eqx.field(static=True)
    # The weights of W and H of the noise in each stage and in the end of the step.
    stages: tuple[tuple[float, float], ...] = eqx.field(static=True, default=())

    @property
    def rule(self) -> str:
        """The rule by which the noise of a step enters the state, see `Problem.noise`."""
        return RULES.get(type(self.solver), "ito")

    @property
    def n_rows(self) -> int:
        """The number of rows of a record."""
        return 2 + len(self.b)

    def weights(self, fraction: Float[Array, ""]) -> Float[Array, "row"]:
        """Return the weights of a record's rows in the state at a fraction of the step."""
        basis = jnp.asarray(np.eye(self.n_rows, dtype=jnp.result_type(fraction, float)))
        rows = dict(y0=basis[0], y1=basis[1])
        if self.order > 1:
            rows["k"] = basis[2:]
        zero, one = jnp.zeros((), basis.dtype), jnp.ones((), basis.dtype)
        between = self.solver.interpolation_cls(t0=zero, t1=one, **rows)
        return between.evaluate(jnp.asarray(fraction, basis.dtype))

    def step(self, rate, y: Float[Array, "*state"], increment) -> Float[Array, "row *state"]:
        """Return the record of one step.

        `rate(stage, y)` is the drift times dt at a stage. `increment` is the noise term, the same
        at every stage, so that additive noise enters once in total. With `stages` it holds the
        terms of W and H, `[2 *state]`.
        """
        if self.stages:
            return self._stochastic(rate, y, increment)
        stages: list[Array] = []
        for s, row in enumerate(self.a):
            k = rate(s, _moved(y, row, stages))
            stages.append(k if increment is None else k + increment)
        return jnp.stack([y, _moved(y, self.b, stages), *stages])

    def _stochastic(self, rate, y, increment):
        """Return the record of a step of strong order 1.5."""
        rates: list[Array] = []
        found: list[Array] = []
        for s, shares in enumerate(self.stages):
            row = self.b if s == len(self.b) else self.a[s]
            at = y
            if increment is not None:
                at = y + jnp.tensordot(jnp.asarray(shares, y.dtype), increment, 1)
            found.append(_moved(at, row, rates))
            if s < len(self.b):
                rates.append(rate(s, found[-1]))
        return jnp.stack([y, found[-1], *found[:-1]])

    def record(self, past, start) -> Float[Array, "row *state"]:
        """Return a record that reproduces a function of the number of steps on [start, start + 1].

        Its stages are a least-squares fit of the dense output at equally spaced points, so the past
        has the order at which the solver reads it.
        """
        y0, y1 = past(start), past(start + 1)
        if self.stages:
            return jnp.stack([y0, y1, *(past(start + c) for c in self.c)])
        if self.order == 1:
            return jnp.stack([y0, y1, jnp.zeros_like(y0)])
        nodes, weights = _at_nodes(self, jnp.result_type(float))
        # Python floats, which take the dtype of `start`.
        values = jnp.stack([past(start + node) for node in nodes.tolist()])
        ends = jnp.stack([y0, y1])
        known = jnp.tensordot(jnp.asarray(weights[:, :2], y0.dtype), ends, axes=1)
        inverse = jnp.asarray(np.linalg.pinv(weights[:, 2:], rcond=1e-5), y0.dtype)
        return jnp.concatenate([ends, jnp.tensordot(inverse, values - known, axes=1)])


def _moved(y: Array, weights: tuple[float, ...], stages: list[Array]) -> Array:
    """Return a state plus the weighted sum of stages."""
    for weight, stage in zip(weights, stages, strict=True):
        y = y + weight * stage if weight != 0 else y
    return y


@cache
def _at_nodes(tableau: Tableau, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes for fitting a record of the past, as shares of a step, and their weights."""
    nodes = np.linspace(0, 1, max(len(tableau.b), 4) + 1)[1:]
    with jax.ensure_compile_time_eval():
        return nodes, np.asarray(_weights_at(tableau, to_jax(nodes, dtype)))


# One small program instead of some forty operations compiled one by one.
@jax.jit
def _weights_at(tableau: Tableau, fractions: Float[Array, "node"]) -> Float[Array, "node row"]:
    return jax.vmap(tableau.weights)(fractions)


# Methods that differ from Euler's in the noise term.
RULES: dict[type, str] = {
    diffrax.ItoMilstein: "ito milstein",
    diffrax.StratonovichMilstein: "milstein",
    diffrax.EulerHeun: "heun",
}


@cache
def tableau_of(kind: type) -> Tableau:
    """Return the tableau of a class of Diffrax solvers."""
    if issubclass(kind, diffrax.Euler) or kind in RULES:
        return Tableau(kind(), ((),), (1.0,), (0.0,), 1)
    solver: Any = kind
    table = solver.tableau
    stages: tuple = ()
    if issubclass(kind, diffrax.AbstractSRK):
        w, h = table.coeffs_w, table.coeffs_hh
        stages = tuple(zip((*w.a, w.b_sol), (*h.a, h.b_sol), strict=True))
        stages = tuple((float(a), float(b)) for a, b in stages)
    return Tableau(
        solver=solver(),
        a=((), *(tuple(map(float, row)) for row in (table.a if stages else table.a_lower))),
        b=tuple(map(float, table.b_sol)),
        c=(0.0, *map(float, table.c)),
        order=solver().order(None),
        stages=stages,
    )


def read_solver(solver: Any, *, noisy: bool = True) -> Tableau:
    """Return the tableau of an explicit one-step solver; raise an error for others.

    `noisy`: solvers made for noise are allowed.
    """
    solver = diffrax.Euler() if solver is None else solver
    kind: Any = type(solver)
    # Not isinstance, which takes a wrapped solver for the solver inside.
    explicit = issubclass(kind, diffrax.AbstractERK) and isinstance(
        kind.tableau, diffrax.ButcherTableau
    )
    stochastic = kind in RULES or kind in (diffrax.SRA1, diffrax.ShARK)
    if not (issubclass(kind, diffrax.Euler) or explicit or (noisy and stochastic)):
        noise = ", or with noise ItoMilstein, StratonovichMilstein, EulerHeun, SRA1 or ShARK"
        implicit = ""
        if isinstance(solver, diffrax.AbstractImplicitSolver):
            implicit = (
                " Implicit solvers, for stiff equations, run in diffrax.diffeqsolve, with "
                "ndde.simulate.DelayTerm and DelaySolver."
            )
        raise ValueError(
            "solver must be diffrax.Euler() or an explicit Runge-Kutta method of Diffrax, such as "
            f"Heun, Bosh3 or Tsit5{noise if noisy else ''}; got {short_repr(solver)}.{implicit}"
        )
    return tableau_of(kind)
