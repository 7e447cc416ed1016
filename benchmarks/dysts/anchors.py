"""Anchors of the tables: limits that need no learning.

`oracle` and `terms` know the equations and fit only their numbers.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

import ndde_jax as ndde
from ndde_jax.models._polynomials import monomials

from .data import Problem
from .forecast import TrueSystem, rate_of_change

# Distance of the floor's starts from the true ones, standardised.
WRONG_START = 1e-3
# Gauss–Newton steps of the oracle; from the published parameters it takes three.
ORACLE_STEPS = 10
# Polynomials among the true equations have at most this degree, and are exact to this.
MAX_DEGREE = 4
EXACT = 1e-8


class Learned(NamedTuple):
    """The learned system that a method returns.

    - `model`: the model to simulate; None always forecasts the mean of the training data.
    - `solver`: name in `forecast.SOLVERS`.
    - `graph`: None if there is nothing to compare.
    - `status`: `ok`, or the error.
    - `shift`: added to the initial states.
    """

    model: Any
    solver: str
    graph: Bool[np.ndarray, "source target"] | None
    status: str
    shift: float = 0.0


Method = Callable[..., list[Learned]]


def mean(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """Return the anchor `mean`, an upper limit of errors: the mean of the training data, whatever
    the start.
    """
    return [Learned(None, "euler", None, "ok") for _ in problems]


def floor(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """The true system from a slightly wrong start, which no method can be expected to beat."""
    return [Learned(true_system(p), "flow", p.graph, "ok", shift=WRONG_START) for p in problems]


def oracle(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """The true equations with parameters refitted to the training data: the limit of the noise.

    Least squares of one-step forecasts, as in all methods that know the flow, from the published
    parameters. Directions that the data do not determine stay unchanged.
    """
    return [Learned(_refitted(p), "flow", p.graph, "ok") for p in problems]


def terms(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """The true equations as polynomials with all coefficients refitted: the limit of the noise if
    the terms are known, but not that most of their coefficients are 1. Equations that are no
    polynomials are treated as by `oracle`.
    """
    return [Learned(_refitted_terms(p) or _refitted(p), "flow", p.graph, "ok") for p in problems]


def true_system(problem: Problem) -> TrueSystem:
    """The equations of the system behind a problem, in its standardised coordinates."""
    return in_coordinates(ndde.systems.get(problem.name).drift, problem)


class Polynomial(eqx.Module):
    """A right-hand side as coefficients of monomials, in the units of the equations."""

    coefficients: jax.Array
    powers: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __call__(self, t, x, lagged):
        """Return the rate of change of the state."""
        return self.coefficients @ monomials(x[None], self.powers)[0]


def true_terms(problem: Problem) -> Polynomial | None:
    """Return the equations as polynomials of up to degree four; None if they are none."""
    powers = range(MAX_DEGREE + 1)
    powers = [e for e in itertools.product(powers, repeat=problem.dim) if sum(e) <= MAX_DEGREE]
    z = np.random.default_rng(0).uniform(-2, 2, size=(20 * len(powers), problem.dim))
    with jax.enable_x64(True):
        x = jnp.asarray(problem.mean + problem.std * z)
        drift = ndde.systems.get(problem.name).drift
        rates = np.asarray(jax.vmap(lambda x: drift(0.0, x, jnp.zeros((0, problem.dim))))(x))
        columns = np.asarray(monomials(x, tuple(powers)))
    size, unit = (np.sqrt(np.mean(a**2, axis=0)) for a in (columns, rates))
    found, *_ = np.linalg.lstsq(columns / size, rates / unit, rcond=None)
    if np.abs(columns / size @ found - rates / unit).max() > EXACT:
        return None
    kept = np.abs(found) > 10 * EXACT
    used = kept.any(axis=1)
    coefficients = (found * kept * unit / size[:, None])[used].T
    return Polynomial(coefficients, tuple(itertools.compress(powers, used)))


def _refitted_terms(problem: Problem) -> TrueSystem | None:
    published = true_terms(problem)
    if published is None:
        return None
    which = np.nonzero(published.coefficients)

    def with_numbers(numbers):
        empty = jnp.zeros(published.coefficients.shape, numbers.dtype)
        return Polynomial(empty.at[which].set(numbers), published.powers)

    numbers = _least_squares(problem, with_numbers, published.coefficients[which])
    return in_coordinates(with_numbers(jnp.asarray(numbers, float)), problem)


def _refitted(problem: Problem) -> TrueSystem:
    from jax.flatten_util import ravel_pytree

    # Double precision: parameters of a system may differ by many orders of magnitude.
    with jax.enable_x64(True):
        system = ndde.systems.get(problem.name)
        start, restore = ravel_pytree(system.parameters)
        field = system.drift.field

        def with_numbers(numbers):
            return type(system.drift)(field, restore(numbers))

        numbers = jnp.asarray(_least_squares(problem, with_numbers, start))
        found = {key: np.asarray(value) for key, value in restore(numbers).items()}
    found = {key: jnp.asarray(value, float) for key, value in found.items()}
    return in_coordinates(type(system.drift)(field, found), problem)


def _least_squares(problem: Problem, with_numbers: Callable, start) -> np.ndarray:
    """Return the numbers whose one-step forecasts fit the training data best: Gauss–Newton."""
    with jax.enable_x64(True):
        x = jnp.asarray(problem.train, float)

        @jax.jit
        def step(numbers, x):
            def residual(numbers):
                model = in_coordinates(with_numbers(numbers), problem)
                return (_runge_kutta(model, x[:-1], problem.dt) - x[1:]).ravel()

            jacobian = jax.jacfwd(residual)(numbers)
            size = jnp.linalg.norm(jacobian, axis=0)
            size = jnp.where(size > 0, size, 1)
            move = jnp.linalg.lstsq(jacobian / size[None], -residual(numbers), rcond=1e-6)[0]
            return numbers + move / size

        numbers = jnp.asarray(start, float)
        for _ in range(ORACLE_STEPS):
            numbers = step(numbers, x)
        if not np.isfinite(numbers).all():
            raise ValueError(f"the parameters of {problem.name} cannot be refitted.")
        return np.asarray(numbers)


def in_coordinates(drift, problem: Problem) -> TrueSystem:
    """A right-hand side in the units of the equations, in standardised coordinates."""
    return TrueSystem(drift, jnp.asarray(problem.mean), jnp.asarray(problem.std))


def _runge_kutta(model, x, h):
    """Take one classical Runge–Kutta step of every row."""

    def step(x):
        k1 = rate_of_change(model, x)
        k2 = rate_of_change(model, x + h / 2 * k1)
        k3 = rate_of_change(model, x + h / 2 * k2)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate_of_change(model, x + h * k3))

    return jax.vmap(step)(x)
