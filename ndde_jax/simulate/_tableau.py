"""Explicit Runge–Kutta steps and dense output, read off a Diffrax solver."""

from functools import cache
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._checks import shown
from .._types import to_jax


class Tableau(eqx.Module):
    """Coefficients of an explicit Runge–Kutta method, and of the polynomial between its steps.

    A step is remembered as one *record*, its start, its end and its stages, `[2 + stage *state]`;
    dense output is a linear combination of a record's rows with weights that depend on the fraction
    of the step alone. So all lagged values of many steps are one matrix product.
    """

    solver: diffrax.AbstractSolver = eqx.field(static=True)
    a: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    b: tuple[float, ...] = eqx.field(static=True)
    c: tuple[float, ...] = eqx.field(static=True)
    order: int = eqx.field(static=True)

    @property
    def n_rows(self) -> int:
        """Rows of a record."""
        return 2 + len(self.b)

    def weights(self, fraction: Float[Array, ""]) -> Float[Array, "row"]:
        """Weights of a record's rows in the state at a fraction of its step."""
        basis = jnp.asarray(np.eye(self.n_rows, dtype=jnp.result_type(fraction, float)))
        rows = dict(y0=basis[0], y1=basis[1])
        if not isinstance(self.solver, diffrax.Euler):
            rows["k"] = basis[2:]
        zero, one = jnp.zeros((), basis.dtype), jnp.ones((), basis.dtype)
        between = self.solver.interpolation_cls(t0=zero, t1=one, **rows)
        return between.evaluate(jnp.asarray(fraction, basis.dtype))

    def step(self, rate, y: Float[Array, "*state"], increment) -> Float[Array, "row *state"]:
        """The record of one step.

        `rate(stage, y)` is the drift times dt at a stage; `increment` what the noise adds, the same
        to every stage, which makes additive noise enter once in total.
        """
        stages: list[Array] = []
        for s in range(len(self.b)):
            at = y
            for coefficient, k in zip(self.a[s], stages, strict=True):
                if coefficient != 0:
                    at = at + coefficient * k
            k = rate(s, at)
            stages.append(k if increment is None else k + increment)
        end = y
        for coefficient, k in zip(self.b, stages, strict=True):
            if coefficient != 0:
                end = end + coefficient * k
        return jnp.stack([y, end, *stages])

    def record(self, past, start) -> Float[Array, "row *state"]:
        """A record that reproduces a function of the number of steps on [start, start + 1].

        Its stages are the least-squares fit of the dense output at equally spaced points, so the
        past is known to the order at which the solver reads it.
        """
        y0, y1 = past(start), past(start + 1)
        if isinstance(self.solver, diffrax.Euler):
            return jnp.stack([y0, y1, jnp.zeros_like(y0)])
        nodes, weights = _at_nodes(self, jnp.result_type(float))
        values = jnp.stack([past(start + node) for node in nodes])
        known = jnp.tensordot(jnp.asarray(weights[:, :2], y0.dtype), jnp.stack([y0, y1]), axes=1)
        inverse = jnp.asarray(np.linalg.pinv(weights[:, 2:], rcond=1e-5), y0.dtype)
        return jnp.concatenate(
            [jnp.stack([y0, y1]), jnp.tensordot(inverse, values - known, axes=1)]
        )


@cache
def _at_nodes(tableau: Tableau, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where a record of the past is fitted, as shares of a step, and the weights there."""
    nodes = np.linspace(0, 1, max(len(tableau.b), 4) + 1)[1:]
    with jax.ensure_compile_time_eval():
        return nodes, np.asarray(_weights_at(tableau, to_jax(nodes, dtype)))


# One small program instead of some forty operations that are compiled one by one.
@jax.jit
def _weights_at(tableau: Tableau, fractions: Float[Array, "node"]) -> Float[Array, "node row"]:
    return jax.vmap(tableau.weights)(fractions)


@cache
def tableau_of(kind: type) -> Tableau:
    """The tableau of a class of Diffrax solvers."""
    if issubclass(kind, diffrax.Euler):
        return Tableau(kind(), ((),), (1.0,), (0.0,), 1)
    solver: Any = kind
    table = solver.tableau
    return Tableau(
        solver=solver(),
        a=((), *(tuple(map(float, row)) for row in table.a_lower)),
        b=tuple(map(float, table.b_sol)),
        c=(0.0, *map(float, table.c)),
        order=solver().order(None),
    )


def read_solver(solver: Any) -> Tableau:
    """Checks that the solver is explicit and one-step."""
    if solver is None:
        solver = diffrax.Euler()
    kind: Any = type(solver)
    # Not isinstance, to which a wrapped solver is of the kind of the one inside.
    explicit = issubclass(kind, diffrax.AbstractERK) and isinstance(
        kind.tableau, diffrax.ButcherTableau
    )
    if not (issubclass(kind, diffrax.Euler) or explicit):
        raise ValueError(
            "solver must be diffrax.Euler() or an explicit Runge-Kutta method of Diffrax, such as "
            f"Heun, Bosh3 or Tsit5; got {shown(solver)}."
        )
    return tableau_of(kind)
