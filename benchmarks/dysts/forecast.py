"""Simulation of a learned or true system from given starts: trajectories and Lyapunov exponents.

All coordinates are standardised. Systems whose models have the same structure run as one batch.
Numbers of steps are rounded to a few values, because each new one compiles.
"""

from collections.abc import Iterator, Sequence

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde

from .data import Problem

# A model is either the one-step map of Euler's method, or a differential equation. For the latter a
# forecast needs more digits than an exponent: at third order and a hundred samples per period, even
# the true Lorenz system diverges one Lyapunov time too early.
SOLVERS = {"euler": diffrax.Euler, "flow": diffrax.Tsit5}
SOLVERS_OF_EXPONENTS = {"euler": diffrax.Euler, "flow": diffrax.Bosh3}
# Numbers of steps are this times a power of two, so that there are few different programs.
SHORTEST = 3125


class TrueSystem(eqx.Module):
    """The true right-hand side in standardised coordinates, used like a learned model."""

    drift: eqx.Module
    mean: jax.Array
    std: jax.Array

    def __call__(self, t, x, lagged, args):
        """Return the rate of change of the standardised state."""
        return self.drift(t, self.mean + self.std * x, lagged) / self.std


def rate_of_change(model, x):
    """The drift at one state, of a learned model or of the truth."""
    if isinstance(model, TrueSystem):
        return model(0.0, x, jnp.zeros((0, x.shape[0]), x.dtype), None)
    return model(x[None])


def forecasts(
    models: Sequence, problems: Sequence[Problem], solver: str, starts: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return trajectories `[test time dim]` of every model from its starts, one sample apart."""
    found: list = [None] * len(problems)
    n_steps = [problem.n_forecast - 1 for problem in problems]
    for group, steps in _batches(models, [_rounded_up(n) for n in n_steps]):
        dt = jnp.asarray([problems[i].dt for i in group])
        y = _solve(
            _stacked(models, group), jnp.stack([_as(starts[i]) for i in group]), dt, steps, solver
        )
        for i, one in zip(group, np.asarray(y), strict=True):
            found[i] = one[:, : problems[i].n_forecast]
    return found


def exponents(models: Sequence, problems: Sequence[Problem], solver: str) -> list[np.ndarray]:
    """Return Lyapunov spectra `[test dim]` along the orbits from the starts of the tests.

    They begin at the start and last a test, rounded down by at most a half. The same code computes
    those of learned and true systems.
    """
    found: list = [None] * len(problems)
    for group, steps in _batches(models, [_rounded_down(p.n_forecast - 1) for p in problems]):
        dt = jnp.asarray([problems[i].dt for i in group])
        starts = jnp.stack([_as(problems[i].starts) for i in group])
        spectra = _spectra(_stacked(models, group), starts, dt, steps, solver)
        for i, one in zip(group, np.asarray(spectra), strict=True):
            found[i] = one
    return found


def one_step_error(model, problem: Problem, solver: str) -> float:
    """Return the mean squared error of one-step forecasts of the training trajectory.

    It is in units of the variance of the steps, so that persistence scores about 1; the mean over
    variables.
    """
    x = _as(problem.train)
    end = _one_step(model, x[:-1], problem.dt, solver)
    steps = np.diff(problem.train, axis=0)
    error = np.asarray(end) - problem.train[1:]
    return float(np.mean(np.mean(error**2, axis=0) / np.var(steps, axis=0)))


@eqx.filter_jit
def _one_step(model, x, dt, solver):
    return jax.vmap(lambda start: _path(model, start, dt, 1, solver)[-1])(x)


@eqx.filter_jit
def _solve(models, starts, dt, n_steps: int, solver: str):
    def system(model, starts, dt):
        return jax.vmap(lambda start: _path(model, start, dt, n_steps, solver))(starts)

    return eqx.filter_vmap(system)(models, starts, dt)


@eqx.filter_jit
def _spectra(models, starts, dt, n_steps: int, solver: str):
    def system(model, starts, dt):
        def one(start):
            return ndde.lyapunov_spectrum(
                model,
                history=start,
                n_steps=n_steps,
                transient_steps=0,
                solver=SOLVERS_OF_EXPONENTS[solver](),
                **_options(model, dt),
            ).exponents

        return jax.vmap(one)(starts)

    return eqx.filter_vmap(system)(models, starts, dt)


def _path(model, start, dt, n_steps, solver):
    return ndde.solve_sdde(
        model, history=start, n_steps=n_steps, solver=SOLVERS[solver](), **_options(model, dt)
    ).ys


def _options(model, dt) -> dict:
    """A learned model brings its own step."""
    return {"dt": dt} if isinstance(model, TrueSystem) else {}


def _stacked(models: Sequence, group: Sequence[int]):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(models[i] for i in group))


def _batches(models: Sequence, steps: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Yield indices of models that can run together, and their number of steps."""
    groups: dict = {}
    for i, (model, n) in enumerate(zip(models, steps, strict=True)):
        leaves, structure = jax.tree.flatten(model)
        shapes = tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves)
        groups.setdefault((structure, shapes, n), []).append(i)
    for (_, _, n), group in groups.items():
        yield group, n


def _rounded_up(n: int) -> int:
    steps = SHORTEST
    while steps < n:
        steps *= 2
    return steps


def _rounded_down(n: int) -> int:
    """Return the number of steps rounded down, at least the 200 that a spectrum needs."""
    steps = SHORTEST
    while steps * 2 <= n:
        steps *= 2
    return min(steps, n)


def _as(x) -> jax.Array:
    return jnp.asarray(x, jnp.result_type(float))
