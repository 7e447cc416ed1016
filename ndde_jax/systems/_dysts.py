"""The ordinary differential equations of the dysts collection (W. Gilpin) as systems.

dysts writes every right-hand side in NumPy. Each is rebuilt here with `np` bound to `jax.numpy`, so
that it can be traced and differentiated. The modules of dysts do not change. Graphs come from
automatic differentiation along the attractor, not from published Jacobians. dysts is imported on
first use.
"""

import dataclasses
import functools
import importlib
import json
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Pairs, divisor, to_jax
from ._system import System, _as_leaf, _suggest, make

# Delay systems of dysts that this package implements itself, and their names here.
COUNTERPARTS = {
    "IkedaDelay": "ikeda_delay",
    "MackeyGlass": "mackey_glass",
    "PiecewiseCircuit": "piecewise_circuit",
    "ScrollDelay": "scroll_delay",
    "SprottDelay": "sprott_delay",
    "VossDelay": "voss_delay",
}

_POINTS = 200
# A derivative below this share of the largest one in its row, both in units of the variables'
# spread, is rounding: graphs are computed in double precision.
_NEGLIGIBLE = 1e-11


@functools.cache
def _modules() -> tuple[types.ModuleType, types.ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dysts warns that Numba is missing
        return importlib.import_module("dysts.base"), importlib.import_module("dysts.flows")


@functools.cache
def _records() -> dict[str, dict[str, Any]]:
    """Return dysts' table of parameters, initial conditions and time scales, ODEs only.

    Read from the file, because instantiating a class of dysts seeds NumPy's global generator.
    """
    base, flows = _modules()
    with open(base.DATAPATH_CONTINUOUS, encoding="utf-8") as file:
        table = json.load(file)
    classes = {name: getattr(flows, name, None) for name in table}
    return {
        name: table[name]
        for name, cls in classes.items()
        if isinstance(cls, type) and issubclass(cls, base.DynSys)
    }


def ode_names() -> tuple[str, ...]:
    """Return all ordinary differential equations of dysts, whether JAX can trace them or not."""
    return tuple(sorted(_records()))


def in_numpy(name: str, parameters: Mapping[str, Any]) -> Any:
    """Return the system of dysts in NumPy; its `rhs(x, t)` takes `x` `[dim]`.

    It bypasses Numba. Where Numba is installed, dysts would spend seconds per system on compiling
    a function called a few hundred times, and Numba rejects parameters that are 0-d arrays.
    """
    return _prepared(_written_in(np, name)(), parameters)


@functools.cache
def _field(name: str) -> Callable:
    """Return the right-hand side on JAX arrays.

    Cached: one function per system, because it is a static argument under `jit`.
    """
    cls = _written_in(jnp, name)

    def field(t, x, lagged, **parameters):
        # dysts relies on NumPy's broadcasting, whatever the settings of the process.
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            rates = _prepared(cls(), parameters).rhs(x, t)
        return jnp.stack([jnp.asarray(rate, x.dtype) for rate in rates])

    field.__name__ = field.__qualname__ = name
    return field


def _written_in(numpy: types.ModuleType, name: str) -> type:
    """Return a copy of dysts' class `name` whose methods use `numpy` in place of NumPy."""
    base, flows = _modules()
    members: dict[str, Any] = {}
    for cls in reversed(getattr(flows, name).__mro__):
        if issubclass(cls, base.DynSys):
            for key, member in vars(cls).items():
                if isinstance(member, staticmethod):
                    members[key] = staticmethod(_rebound(member.__func__, numpy))
                elif isinstance(member, types.FunctionType) and key != "__init__":
                    members[key] = _rebound(member, numpy)
    return type(name, (), members)


def _rebound(function: Callable, numpy: types.ModuleType) -> Callable:
    while isinstance(function, staticmethod):  # some are wrapped twice
        function = function.__func__
    function = getattr(function, "py_func", function)  # the function that Numba wraps, if installed
    namespace = {**function.__globals__, "np": numpy}
    return types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )


def _prepared(instance: Any, parameters: Mapping[str, Any]) -> Any:
    """Set up a system like dysts' constructor, but without seeding NumPy's global generator."""
    vars(instance).update(parameters)
    # The base class passes them by position, sorted by name.
    instance.param_list = [parameters[key] for key in sorted(parameters)]
    return instance


@functools.cache
def _failure(name: str) -> str:
    """Return the reason why JAX cannot trace a system; empty if it can."""
    record = _records()[name]
    x = to_jax(_initial(record), float)
    parameters = {key: _as_leaf(value) for key, value in record["parameters"].items()}
    field = functools.partial(_field(name), lagged=to_jax(np.zeros((0, x.size))))
    try:
        shape = jax.eval_shape(lambda t, x, p: field(t, x, **p), 0.0, x, parameters).shape
    except Exception as error:
        # Any error is an answer: the code of dysts may fail under tracing in any way.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    if shape != x.shape:
        return f"ValueError: the rates have shape {shape}, the state {x.shape}"
    return ""


def traceable() -> tuple[str, ...]:
    """Return the names of the systems that JAX can trace."""
    return tuple(name for name in ode_names() if not _failure(name))


def _initial(record: Mapping) -> Float[np.ndarray, "dim"]:
    start = np.asarray(record["initial_conditions"], float)
    return start if start.ndim == 1 else start[0]


def make_dysts(name: str, **options) -> System:
    """Return the system `name` of dysts, with parameters replaced by `options`.

    The state at t ≤ 0 is the initial condition of dysts. `dt` is its step, moved to the nearest one
    that divides the sampling step. `sampling_step` is a hundredth of its period, and `transient`
    five periods.
    """
    record = _records()[name]
    if why := _failure(name):
        raise ValueError(f"JAX cannot trace {name} of dysts: {why}.")
    parameters = dict(record["parameters"])
    for key, value in options.items():
        if key not in parameters:
            raise ValueError(f"{name} has no option {key!r}; {_suggest(key, parameters)}")
        if np.shape(value) != np.shape(parameters[key]):
            expected = np.shape(parameters[key])
            raise ValueError(f"{key} must have shape {expected}; got {np.shape(value)}.")
        parameters[key] = value
    frozen = json.dumps({key: np.asarray(value).tolist() for key, value in parameters.items()})
    system = make(
        _field(name),
        parameters=parameters,
        graph=_graph(name, frozen)[..., None],
        history=_initial(record),
        dt=record["dt"],
        sampling_step=record["period"] / 100,
        transient=5 * record["period"],
    )
    said = {"name": name, "source": f"dysts 0.95: {record['citation']}"}
    return dataclasses.replace(system, **said, description=record["description"] or "")


@functools.cache
def _graph(name: str, frozen: str) -> Pairs:
    """Return the graph of a system: the derivatives that are nonzero somewhere on the attractor."""
    parameters = {key: np.asarray(value, float) for key, value in json.loads(frozen).items()}
    times, states = _attractor(name, parameters)
    with jax.enable_x64(True):
        field = functools.partial(_field(name), **parameters)

        def jacobian(t, x):
            return jax.jacfwd(lambda x: field(t, x, jnp.zeros((0, x.size))))(x)

        # Not compiled as a whole: the single operations are then compiled once for all systems.
        matrices = jax.vmap(jacobian)(jnp.asarray(times), jnp.asarray(states))
    spread = divisor(np.std(states, axis=0))
    strength = np.max(np.abs(np.asarray(matrices)), axis=0) * spread  # [target source]
    return (strength > _NEGLIGIBLE * strength.max(axis=1, keepdims=True)).T


def _attractor(
    name: str, parameters: Mapping
) -> tuple[Float[np.ndarray, "time"], Float[np.ndarray, "time dim"]]:
    """Return the times and states of a trajectory of ten periods, integrated by SciPy."""
    from scipy.integrate import solve_ivp

    record, rhs = _records()[name], in_numpy(name, parameters).rhs
    times = np.linspace(0, 10 * record["period"], _POINTS)
    options = dict(method="DOP853", t_eval=times, rtol=1e-7, atol=1e-9)
    with np.errstate(all="ignore"):
        rates = lambda t, x: np.asarray(rhs(x, t), float)  # noqa: E731
        solution = solve_ivp(rates, (0, times[-1]), _initial(record), **options)
    if not solution.success:
        raise ValueError(f"the trajectory of {name} cannot be integrated: {solution.message}")
    return times, solution.y.T
