"""Methods as small adapters of one signature: problems in, systems to simulate out.

An adapter gets problems, of which it may make a batch, and one key per problem; it returns one
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
from ndde_jax.fit._prices import RESOLUTION
from ndde_jax.windows._stack import pad_windows

from .anchors import Learned, Method, Polynomial, floor, in_coordinates, mean, oracle, terms
from .data import Problem
from .settings import Recipe, recipes

# Windows are padded to this times a power of two: 10000, the most there are, needs no padding.
SHORTEST = 1250
# Refits that tell which edges pay: one start each, two blocks held out.
SELECTION = ndde.fitting.StrengthConfig(restarts=1, steps=40, folds=2, fold_steps=8)


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


def discover(problems: Sequence[Problem], *, keys) -> list[Learned]:
    """The library's front door with its defaults, in the units of the equations."""

    def one(problem, key):
        x = np.asarray(problem.train * problem.std + problem.mean)
        found = ndde.discover(x, dt=float(problem.dt), lags=(0,), key=key)
        model = _in_standard_units(found.model, problem)
        finite = bool(jnp.all(jnp.isfinite(found.scores)))
        return Learned(model, "flow", found.graph[..., 0], "ok" if finite else "refused")

    return [one(p, k) for p, k in zip(problems, keys, strict=True)]


def _in_standard_units(model, problem: Problem):
    """A model, confined or not, in the standardised coordinates of a system."""
    if not isinstance(model, ndde.models.RestoredDDE):
        return _standardised(model, problem)
    std = jnp.asarray(problem.std, model.center.dtype)
    return ndde.models.RestoredDDE(
        _standardised(model.model, problem),
        (model.center - problem.mean.astype(std.dtype)) / std,
        model.radius / std,
        model.rate,
    )


def learned(recipe: Recipe, problems: Sequence[Problem], *, keys) -> list[Learned]:
    """Fit a recipe to every problem.

    In the units of the equations, since zero may mean something; forecasts are standardised.
    """
    windows = [_padded(ndde.lagged_windows(p.train * p.std + p.mean, dt=p.dt)) for p in problems]
    method, config = penalty(recipe), fit_config(recipe)
    if recipe.flow:
        found = [
            _with_flow(recipe, method, config, w, k) for w, k in zip(windows, keys, strict=True)
        ]
    else:
        # One key per problem, not per position, so that a resumed run draws the same numbers.
        fits = [
            ndde.fit_many(method, [w], config, key=k, workers=1, progress=False)[0]
            for w, k in zip(windows, keys, strict=True)
        ]
        found = [(f.model, np.asarray(ndde.window_graph(f))[..., 0], f.outcome) for f in fits]
    solver = "flow" if recipe.flow else "euler"

    def confined(model, w, p):
        return _confined(recipe, _standardised(model, p), _standardised(w, p), p)

    return [
        Learned(confined(model, w, p), solver, graph, status)
        for (model, graph, status), w, p in zip(found, windows, problems, strict=True)
    ]


def _standardised(fitted: ndde.models.NeuralDDE | ndde.Windows, problem: Problem):
    """A model or windows of a system, in its standardised coordinates."""
    s, std = fitted.scaling, jnp.asarray(problem.std, fitted.scaling.scale.dtype)
    scaling = ndde.windows.Scaling(
        (s.center - problem.mean.astype(std.dtype)) / std,
        s.scale / std,
        s.rate_center / std,
        s.rate_scale / std,
    )
    return eqx.tree_at(lambda f: f.scaling, fitted, scaling)


def _worth_keeping(strengths):
    """The library's rule, less its allowance for the bias of differences: that is corrected here.

    Nested models cannot lower the risk by more than an edge costs; where they seem to, the fit with
    all edges has failed. Then the edge that is missed least goes, and for the others nothing
    is shown.
    """
    price = (strengths.threshold - RESOLUTION)[None, :, None]
    worth = (strengths.value > price) & (strengths.held_out > 0)
    failed = strengths.graph & (strengths.value < -price)
    least = jnp.min(jnp.where(strengths.graph, strengths.value, 0), axis=(0, 2), keepdims=True)
    return worth | (failed & (strengths.value > least))


def _known_by_terms(graph, pilot):
    """The graph, with the inputs of a variable's terms where the pilot needs no more than those."""
    if not isinstance(pilot.drift, ndde.models.PolynomialDrift):
        return graph
    support = pilot.drift.support().reshape(pilot.mask.shape).transpose(2, 0, 1)
    explained = jnp.any(support, axis=(0, 2), keepdims=True)
    return jnp.where(explained, support, graph)


def _padded(windows):
    """At one of a few lengths, since every length compiles anew; padding weighs nothing."""
    length, n = SHORTEST, windows.valid.shape[0]
    while length < n:
        length *= 2
    return pad_windows(windows, length)


def _with_flow(recipe: Recipe, method, config, windows, key):
    """Pilot on all inputs, selection on windows corrected by it, refit on what was selected."""
    pilot_key, gate_key, strength_key, refit_key = jr.split(key, 4)
    graph, status = "full", "ok"
    options = dict(rounds=recipe.rounds, family=recipe.family, simple_numbers=recipe.simple_numbers)
    if recipe.penalty != "node":
        pilot = ndde.fitting.fit_flow(windows, key=pilot_key, members=1, **options)
        corrected = ndde.fitting.correct_flow(windows, pilot)
        result = ndde.fit(method, corrected, config, key=gate_key)
        graph, status = ndde.window_graph(result), result.outcome
        if recipe.select == "strength":
            strengths = ndde.signal_strengths(
                corrected, graph=graph, key=strength_key, config=SELECTION
            )
            graph = _known_by_terms(_worth_keeping(strengths), pilot)
    model = ndde.fitting.fit_flow(windows, graph, key=refit_key, members=recipe.members, **options)
    kept = np.ones((windows.dim, windows.dim), bool) if recipe.penalty == "node" else graph[..., 0]
    return model, np.asarray(kept), status


def _confined(recipe: Recipe, model, windows, problem: Problem):
    if not recipe.confine or problem.regime == "unbounded":
        return model
    return ndde.confine(model, windows=windows)


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
        # Prices along a path rank edges; what the model keeps is decided by its coefficient alone.
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
    return ndde.FitConfig(refine="none") if recipe.flow else ndde.FitConfig()


METHODS: dict[str, Method] = {
    "mean": mean,
    "floor": floor,
    "oracle": oracle,
    "terms": terms,
    "pysindy": pysindy,
    "discover": discover,
    **{name: functools.partial(learned, recipe) for name, recipe in recipes().items()},
}
