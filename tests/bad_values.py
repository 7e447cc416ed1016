"""Valid values, and the faults that replace them, by kind of argument."""

import concurrent.futures
import functools
import itertools
import multiprocessing
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import ndde_jax as ndde
from ndde_jax import gates, theory
from tests.helpers import networks

from .use import small

# ---- valid values ----

DIM, LAGS = 2, (0, 1)
SHAPE = (DIM, DIM, len(LAGS))
X = np.random.default_rng(0).normal(size=(60, DIM)).cumsum(axis=0)


@functools.cache
def key():
    return jax.random.key(0)


@functools.cache
def samples():
    return ndde.read_samples(X, dt=0.5)


def windows():
    return ndde.lagged_windows(X, dt=0.5, lags=LAGS)


@functools.cache
def stacked():
    return ndde.stack_windows([windows(), windows()])


@functools.cache
def model(dim=DIM, lags=LAGS):
    drift = networks(dim, len(lags), key=key())
    one = jnp.ones(dim)
    scaling = ndde.windows.Scaling(0 * one, one, 0 * one, one)
    mask = jnp.ones((dim, len(lags), dim), bool)
    return ndde.models.NeuralDDE(drift, mask, scaling, jnp.asarray(0.5), lags)


@functools.cache
def result():
    some = jnp.ones((DIM, len(LAGS), DIM))
    return ndde.FitResult(
        model=model(),
        scores=some,
        path_masks=some[None] > 0,
        risk=jnp.ones(DIM),
        losses=jnp.ones(3),
        steps=jnp.asarray(3),
        status=ndde.Status.converged,
    )


@functools.cache
def strengths():
    edges, one, pairs = jnp.ones(SHAPE), jnp.ones(DIM), jnp.ones((DIM, DIM))
    prior = ndde.windows.PriorKnowledge.nothing(DIM, len(LAGS))
    return ndde.measure.SignalStrengths(
        edges, edges, edges, pairs, pairs, edges > 0, one, one, one, prior
    )  # fmt: skip


@functools.cache
def coefficient_path():
    two, edges = jnp.ones(2), jnp.ones(SHAPE)
    graphs = jnp.ones((2, *SHAPE), bool)
    return ndde.select.SweptGraphs(
        jnp.array([0.1, 1.0]), graphs, edges, edges, two, two, ndde.Status.converged
    )


@functools.cache
def discovery():
    return small.discovery(X, np.ones(SHAPE, bool), lags=LAGS, dt=0.5, names=("a", "b"))


def graph():
    return np.ones(SHAPE, bool)


def drift(t, x, lagged, args):
    return -x


@functools.cache
def system():
    return ndde.systems.get("mackey_glass")


@functools.cache
def damped():
    return theory.linear_dissipativity([[-1.0]])


# ---- faults ----


def _traced_list():
    return itertools.count()


OBJECT = np.array([object()] * 2)
SPANS = np.arange(60 * DIM).reshape(60, DIM).astype("timedelta64[s]")
TEXT = np.array([["a", "b"]] * 60)
NUMBER = ("a", None, 1j, [1, 2], {}, np.ones(2), True, np.nan, "1.5", OBJECT, key)

# By kind of argument. Functions among the faults are called when a case runs.
KINDS: dict[str, tuple] = {
    "key": (0, None, "seed", 1.5, np.zeros(2), [0, 1], lambda: jax.random.split(key(), 3),
            jnp.ones),
    "windows": (3, None, X, "windows", stacked, ndde.Windows, [1], model),
    "method": ("l0", ndde.L0NDDE, 3, {}, ndde.FitConfig),
    "value": ("best", 3, {}, (1,), ndde.L0NDDE, ndde.FitConfig(), np.ones(2)),
    "fit_config": ({}, "paper", 3, ndde.FitConfig, ndde.fitting.StrengthConfig, ndde.L0NDDE),
    "strength_config": ({}, "paper", 3, ndde.fitting.StrengthConfig, ndde.FitConfig),
    "graph": (
        np.full(SHAPE, 1e-9), np.full(SHAPE, np.nan), np.full(SHAPE, 0.5), np.full(SHAPE, 2),
        -np.ones(SHAPE), np.ones((3, 3, 2), bool), np.ones(SHAPE[:2], bool), "all", 3, {},
        np.ones(SHAPE, complex), OBJECT, [[True], [True, False]], np.full(SHAPE, "x"),
        lambda: jnp.full(SHAPE, 0.3), np.zeros((0, 0, 0), bool),
    ),
    "positive": (*NUMBER, 0, -1, -0.5, np.inf, -np.inf),
    "optional_positive": (*(v for v in NUMBER if v is not None), 0, -1, -0.5, np.inf),
    "not_negative": (*NUMBER, -1, -0.5, -np.inf),
    "rate": ("a", 1j, [1], {}, np.ones(2), True, -1.0, np.nan),
    "share": (*NUMBER, -0.1, 1.1, np.inf),
    "number": ("a", None, 1j, [1], {}, np.ones(2), True, np.nan, np.inf),
    "count": (0, -1, 1.5, 2.0, "a", "2", [1], {}, True, np.nan, np.ones(2, int), 1j),
    "count_from_0": (-1, 1.5, 2.0, "a", [1], {}, True, np.nan, np.ones(2, int)),
    "choice": ("zzz", 3, ("auto",), b"auto", True, ""),
    "flag": ("yes", 2, None, [], np.ones(2, bool), 0.0),
    "names": ("ab", ("a", "a"), ("a",), 2, (None, "b"), ("a", "b", "c"), 1.5, (1.5, 2.5), b"ab"),
    "lags": (
        2, "0:3", (0.5,), (-1,), (3, 1), (0, 0), (), (True, 2), range(10**7), _traced_list,
        (None,), {"a": 1}, np.array([0.0, 1.0]), 1.5,
    ),
    "model": (3, "model", X, dict, ndde.models.NeuralDDE, lambda: model(3),
              lambda: model(2, (0, 2))),
    "any_model": (3, "model", X, dict, ndde.models.NeuralDDE, None),
    "other_model": (3, "model", X, dict, ndde.models.NeuralDDE, lambda: model(2, (0, 2))),
    "x": (
        TEXT, X + 1j, SPANS, X[None, None], 3.0, np.zeros((0, 2)), [[1.0, 2.0], [1.0]],
        np.full((60, 2), np.nan), X.T, None, "x", OBJECT, np.where(X > 0, np.inf, X), X * 1e160,
        np.ones((60, 2)), {}, X.astype("datetime64[s]"), [], lambda: [X, X[:, :1]], X[:2],
    ),
    "samples": (3, None, "x", X, [1], {}, windows, ndde.Samples),
    "values": (TEXT, X + 1j, SPANS, OBJECT, [[1.0], [1.0, 2.0]], "x", {}),
    "dt": (0, -1, np.nan, np.inf, "a", [1, 2], {}, 1j, 1e-300, 1e300, np.ones(2), X),
    "step": (0, -1, np.nan, np.inf, "a", [1, 2], {}, 1j, True, np.ones(2), None),
    "prior": (
        "x", 3, {}, graph, lambda: ndde.windows.PriorKnowledge.nothing(3, 2),
        lambda: ndde.windows.PriorKnowledge.nothing(2, 3), ndde.windows.PriorKnowledge,
    ),
    "inputs": (
        "zzz", 3, ("a", "a"), {"new": "text"}, {"new": [1.0]}, {"new": X}, {0: X[:, 0]}, {}, b"a",
        {"new": X[:, 0] * 1j},
    ),
    "mask": (
        "winter", 3, {}, X, np.ones(60), np.ones(59, bool), np.zeros(60, bool),
        np.ones((60, 2), bool), [True], True, OBJECT, [np.ones(60, bool), np.ones(60, bool)],
        b"a", SPANS, [1, 0], [[True], [True, False]], [[[True], [True, False]]],
    ),
    "transform": (
        "logarithm", 3, ("log",), {"zzz": "log"}, {"x0": "square"}, {"x0": None}, b"log", True, X,
        {0: "log"}, {"x0": ["log"]}, OBJECT, "log",
    ),
    "input_names": ("zzz", 3, ("a", "a"), {}, b"a", 1.5),
    "edges": ("ab", 3, None, [("a", "z")], [("a",)], [("a", "b", 7)], [3], [("a", 0.7)], [("a", 9)],
              [("a", "b", 0, 0)], [None], [("a", True)], ["ab"]),
    "variables": ("z", 3, None, ["z"], [0.7], [9], [-1], [None], [True], [("a",)]),
    "amount": (0, -1, 1.5, None, {}, True),
    "history": (
        np.full(DIM, np.nan), np.full(DIM, np.inf), 3.0, "x", None, np.zeros((0, DIM)), OBJECT,
        np.ones(DIM) + 1j, [[1.0], [1.0, 2.0]], {}, lambda t: 1.0, lambda t: "x", lambda: 3,
        np.zeros(0),
    ),
    "sigma": (np.ones(3), "x", np.nan, np.inf, np.ones((3, 3)), 1j, OBJECT, {}),
    "delays": (0.0, -1.0, np.nan, np.inf, "a", 1j, [[1.0]], [1.0, -1.0], 0.01, OBJECT, {}, 1e12),
    "bounds": (3, "ab", (0.0, 1.0), (2.0, 1.0), (1.0,), (1.0, 2.0, 3.0), (None, 1.0), [np.nan, 1]),
    "steps": (0, -1, 1.5, None, "a", True, np.ones(2), 10**12, [3]),
    "solver": ("euler", 3, diffrax.Euler, diffrax.ImplicitEuler(), {}),
    "function": (3, "f", {}, np.ones(2)),
    "matrix": ("x", np.ones(2), 1.0, None, np.ones((2, 2, 2)), OBJECT),
    "box": ("x", -1.0, 0.0, np.nan, np.inf, np.ones(3), np.ones((2, 2)), OBJECT, 1j, {}),
    "center": ("x", np.nan, np.inf, np.ones(3), np.ones((2, 2)), OBJECT, 1j, {}),
    "result": (3, None, "fit", model, {}, ndde.FitResult),
    "systems": (3, None, "x", X, X[:, 0], {}, samples, b"x"),
    "executor": (3, "dask", {}, [], lambda: concurrent.futures.ThreadPoolExecutor,
                 lambda: concurrent.futures.ProcessPoolExecutor(
                     1, mp_context=multiprocessing.get_context("fork"))),
    "list_of_windows": (3, None, "w", windows, [3], lambda: [stacked()], {},
                        lambda: [windows(), X]),
    "form": ("html", 3, None, "", ("text",), b"latex"),
    "system_name": ("mackey_glas", 3, None, "", ("a",), b"ikeda"),
    "example_name": ("el_nino", 3, None, "", ["enso"], {}),
    "log_alpha": ("a", 1j, OBJECT, None, [[1.0], [1.0, 2.0]]),
    "gate": (3, "x", {}, gates.HardConcrete, 0.33),
    "trajectory": ("x", 3.0, np.ones(3), TEXT, X + 1j, np.zeros((0, 2)), np.ones((60, 3)), OBJECT,
                   np.ones((2, 60, 2)), None),
    "per_trajectory": ("x", 0.0, -1.0, np.nan, np.ones(3), 1j, None, OBJECT, {}),
    "truth": ("x", np.ones((3, 2)), np.ones(5), 1.0 * np.ones((2, 3)), OBJECT, 1j * np.ones((2, 2)),
              None, {}),
    "where": ("x", np.ones((3, 3), bool), np.ones((2, 2)), np.full((2, 2), np.nan), OBJECT, 2),
    "spectrum": ("x", 3.0, 1j, [], OBJECT, {}, None, ["a"]),
    "prices": ("x", -1.0, [-1.0], [np.nan], [[1.0]], OBJECT, 1j, {}, 3.0),
    "coefficients": ((), (1.0,), (1.0, 0.5), (-1.0, 1.0), (0.0, 1.0), (1.0, 1.0), "ab", 3.0, OBJECT,
                     (1.0, np.nan), (1.0, np.inf), [[1.0, 2.0]], None),
    "scores": (np.ones((3, 3, 2)), np.ones((2, 2)), "x", OBJECT, 1j * np.ones(SHAPE), 3),
    "directory": (3, 1.5, {}, ["a"]),
    "draws": ("x", np.ones((60, 3)), OBJECT, 1j * np.ones((60, 2)), np.ones((2, 60, 2))),
}  # fmt: skip


KINDS |= {
    "source": (None, 3, "record.npy", {}, [[1.0, 2.0]], OBJECT, np.ones((2, 2, 2)),
               np.full((3, 2), 1j)),
    "data_lags": (*KINDS["lags"], (0, 10**9)),
    "optional_result": (3, "fit", model, {}, ndde.FitResult),
    "positive_lags": (0.0, -1.0, np.nan, np.inf, "a", 1j, [[1.0]], [1.0, -1.0], OBJECT, {}, []),
    "rate_or_batch": ("a", 1j, {}, -1.0, OBJECT, np.array([0.1, -0.1]), np.array(["a"])),
    "rates": ("x", -1.0, [-1.0], [np.nan], [np.inf], OBJECT, 1j, [0.1, 0.2], {}),
    "box_of_one": ("x", np.nan, np.inf, OBJECT, 1j, {}),
    "sigma_of_one": (np.ones(3), "x", np.nan, np.inf, np.ones((3, 3)), 1j, OBJECT, {}),
    "not_negative_or_none": ("a", 1j, [1, 2], {}, np.ones(2), True, np.nan, -1, -np.inf),
    "histories": ("x", None, 3.0, np.ones((20, DIM)), np.ones((20, 3, DIM)), np.ones((0, 2, DIM)),
                  np.full((5, 2, DIM), np.nan), OBJECT, 1j * np.ones((5, 2, DIM)), {}),
    "drifts": ("ab", 3, None, [], [3], {}, lambda: [np.ones(2)]),
    "lengths": ("x", 0.1, [], [0.0], [-0.1], [np.nan], [1.5], [[0.1]], OBJECT, 1j, {}),
    "step_or_none": (0, -1, np.nan, np.inf, "a", [1, 2], {}, 1j, True, np.ones(2), None),
    "stamps": ("x", np.arange(3), X, OBJECT, None, 1j * np.arange(60)),
    "square": ("x", np.ones((3, 3)), np.ones(2), OBJECT, 1j * np.ones((2, 2))),
    "column": ("z", -1, 9, 1.5, None, True, [0]),
    "inner_share": (*NUMBER, -0.1, 0, 1, 1.1, np.inf),
    "units": (("m",), 3, "abc", ("a", "b", "c")),
    "span": (0, -1, 1.5, "x", "3 parsec", "0h", [1], {}, True, np.ones(2), OBJECT),
    "span_from_0": (-1, 1.5, "x", "3 parsec", [1], {}, True, np.ones(2), OBJECT, 3),
    "variable": ("z", 7, 1.5, None, True, [0], {}, OBJECT),
    "lag": (7, "0", 0.0, True, [0], {}),
    "key_or_none": (0, "seed", 1.5, np.zeros(2), [0, 1]),
    "past": ("x", 3.0, TEXT, X + 1j, np.zeros((0, DIM)), np.ones((60, 3)), OBJECT, X[:1], {},
             np.full((60, DIM), np.nan)),
    "inputs": (3, "a", [1], {"z": np.zeros(3)}, {"a": np.zeros(3)}),
    "settings": (3, "a", [1], {"z": 1.0}, {"a": "x"}, {"a": np.nan}, {"a": np.zeros(7)}, {"a": 1j},
                 {"a": None}, {5: 1.0}, {True: 1.0}),
    "rules": ({"a": lambda: 1.0}, {"a": lambda a, b, c: 1.0}),
    "cuts": (3, "a", {}, [3], [("a",)], [("a", "z")], [("a", "b", 9)], [None]),
    "rivals": (3, "VAR", None, OBJECT, ("ARMA",), (3,), {"VAR"}),
    "steps_ahead": (3, "a", (), OBJECT, (0,), (4,), (1.5,), (True,), ("a",)),
    "by_edge": (3, "a", [1], {"a": 1.0}, {("a", "z"): 1.0}, {("a", "b"): "x"}, {("a", "b", 9): 1}),
    "samples": ("x", 3.0, None, OBJECT, {}, np.ones((5, 3)), np.zeros((0, 2)), 1j * X[:5]),
    "came": ("x", None, OBJECT, {}, np.ones(3), 1j * np.ones(2), [[1.0], [1.0, 2.0]]),
}  # fmt: skip


def lazy(value: Any) -> Any:
    """Call a function without arguments from these tables."""
    made_here = callable(value) and "bad_" in getattr(value, "__module__", "")
    if hasattr(value, "cache_clear") or (made_here and value is not drift and _no_arguments(value)):
        return value()
    return value


def _no_arguments(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount == 0
