"""Methods as small adapters of one signature: problems in, systems to simulate out.

An adapter gets problems, which it may process as a batch, and one key per problem; it returns one
`Learned` per problem. To add a method, write its adapter and one line in `METHODS`, or a recipe in
`settings.toml`.
"""

import functools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import ndde_jax as ndde
from benchmarks import peers
from ndde_jax.windows._windows import pad_windows

from .anchors import Learned, Method, Polynomial, floor, in_coordinates, mean, oracle, terms
from .data import Problem
from .settings import Recipe, recipes

# Windows are padded to this times a power of two; 10000, the largest number, needs no padding.
SHORTEST = 1250


def pysindy(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """Sparse regression on polynomials of degree three by PySINDy, with its defaults."""

    def one(problem):
        powers, found = peers.sparse_regression(
            problem.train * problem.std + problem.mean, problem.dt
        )
        graph = ((found != 0).astype(int) @ powers).T > 0
        drift = Polynomial(jnp.asarray(found), tuple(map(tuple, powers.tolist())))
        model = in_coordinates(drift, problem)
        return Learned(model, "flow", graph, "ok" if np.isfinite(found).all() else "diverged")

    return [one(problem) for problem in problems]


def discover(
    problems: Sequence[Problem], *, keys, recipe: ndde.Recipe | None = None
) -> list[Learned]:
    """The library's `discover`, with its defaults or a recipe, in the units of the equations."""

    def one(problem, key):
        x = np.asarray(problem.train * problem.std + problem.mean)
        found = ndde.discover(x, dt=float(problem.dt), lags=(0,), recipe=recipe, key=key)
        finite = bool(jnp.all(jnp.isfinite(found.scores)))
        model = standardised(found.model, problem)
        return Learned(model, "flow", found.graph[..., 0], "ok" if finite else "refused")

    return [one(p, k) for p, k in zip(problems, keys, strict=True)]


def learned(recipe: Recipe, problems: Sequence[Problem], *, keys) -> list[Learned]:
    """Fit a recipe to every problem.

    Fits are in the units of the equations, since zero may have a meaning. Forecasts are
    standardised.
    """
    if recipe.graph == "discover":
        asked = ndde.Recipe(family=family(recipe), confine=recipe.confine)
        return discover(problems, keys=keys, recipe=asked)
    return [_fitted(recipe, p, k) for p, k in zip(problems, keys, strict=True)]


def _fitted(recipe: Recipe, problem: Problem, key) -> Learned:
    """Return the graph that a penalty keeps, or the full one, with its networks, iterated as a
    one-step map, or with a drift fitted by its flow.
    """
    windows = windows_of(problem)
    graph_key, drift_key = jr.split(key)
    graph, status = np.ones((windows.dim, windows.dim, 1), bool), "ok"
    if recipe.graph == "penalty":
        gates = ndde.select.Gates(penalty(recipe), fit_config(recipe), improve=False)
        found = ndde.recover(windows, gates, key=graph_key)
        graph, status = np.asarray(found.graph), found.details.outcome
    if recipe.drift == "map":
        model, solver = found.details.model, "euler"
    else:
        model, solver = ndde.fit_drift(windows, graph, family(recipe), key=drift_key), "flow"
    return Learned(confined(recipe, model, windows, problem), solver, graph[..., 0], status)


def windows_of(problem: Problem) -> ndde.Windows:
    """Forward differences, padded to one of a few lengths, since every length is compiled."""
    windows = ndde.lagged_windows(problem.train * problem.std + problem.mean, dt=problem.dt)
    length, n = SHORTEST, windows.valid.shape[0]
    while length < n:
        length *= 2
    return pad_windows(windows, length)


def family(recipe: Recipe) -> ndde.models.Networks | ndde.models.Best:
    """Return the family of functions of a recipe's drift."""
    simple = ndde.models.Polynomials(simple_numbers=recipe.drift == "round")
    if recipe.drift == "networks":
        return ndde.models.Networks()
    return ndde.models.Best(polynomials=simple)


def confined(recipe: Recipe, model, windows: ndde.Windows, problem: Problem):
    """A model in standardised coordinates, pulled back outside the box of the training data if the
    recipe says so.
    """
    if recipe.confine and problem.regime != "unbounded":
        model = ndde.confine(model, windows=windows)
    return standardised(model, problem)


def standardised(model, problem: Problem):
    """A model, confined or not, in the standardised coordinates of a system."""
    std = jnp.asarray(problem.std, jnp.result_type(float))
    mean = jnp.asarray(problem.mean, std.dtype)
    if isinstance(model, ndde.models.RestoredDDE):
        inner = standardised(model.model, problem)
        center, radius = (model.center - mean) / std, model.radius / std
        return ndde.models.RestoredDDE(inner, center, radius, model.rate)
    s = model.scaling
    moved = (s.center - mean) / std, s.scale / std, s.rate_center / std, s.rate_scale / std
    return eqx.tree_at(lambda m: m.scaling, model, ndde.windows.Scaling(*moved))


def penalty(recipe: Recipe):
    """The library's method of a recipe."""
    given = {} if recipe.coefficient is None else {"coefficient": recipe.coefficient}
    kinds = {
        "l0ndde": ndde.L0NDDE,
        "node": ndde.NODE,
        "cnode": ndde.CNODE,
        "agl": ndde.AGL,
        "pathreg": ndde.PathReg,
    }
    kind = kinds[recipe.penalty]
    if kind is ndde.L0NDDE:
        # Prices along a path rank edges; the coefficient alone decides which the model keeps.
        given["path"] = ()
    if recipe.fit == "paper":
        given.pop("path", None)
    return kind.paper(**given) if recipe.fit == "paper" else kind(**given)


def fit_config(recipe: Recipe) -> ndde.FitConfig:
    """The library's configuration of a recipe."""
    if recipe.fit == "paper":
        changes = {
            name: value
            for name in ("gradient_penalty", "warmup_steps", "refine_steps")
            if (value := getattr(recipe, name)) is not None
        }
        return ndde.FitConfig.paper(**changes)
    return ndde.FitConfig()


METHODS: dict[str, Method] = {
    "mean": mean,
    "floor": floor,
    "oracle": oracle,
    "terms": terms,
    "pysindy": pysindy,
    "discover": discover,
    **{name: functools.partial(learned, recipe) for name, recipe in recipes().items()},
}
