"""Systems as values (drift, lags, noise, history, true graph), and the registry of names."""

import dataclasses
import difflib
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._checks import check_choice, check_kind, check_real_array, is_traced
from .._types import Checked, Graph, RealScalarLike


class Drift(eqx.Module):
    """A vector field together with its parameters.

    - `field`: the pure function `field(t, x, lagged, **parameters)`.
    - `parameters`: its parameters by name. They are array leaves, so `jax.vmap` and `jax.grad` of
        a `Drift` apply to them.

    ```python
    import jax
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass")
    x, lagged = system.history, system.history[None]
    print(system.drift(0.0, x, lagged))
    print(jax.grad(lambda beta: system.drift(0.0, x, lagged, {"beta": beta})[0])(0.2))
    ```
    """

    field: Callable = eqx.field(static=True)
    parameters: dict[str, Array]

    def __call__(
        self,
        t: RealScalarLike,
        x: Float[Array, "dim"],
        lagged: Float[Array, "delay dim"],
        args: Mapping | None = None,
    ) -> Float[Array, "dim"]:
        """Return the rate of change at time `t`, per unit of time.

        **Arguments:**

        - `x`: present state.
        - `lagged`: row i is the state at `t - lags[i]`.
        - `args`: parameters by name, all or some, that replace the stored ones.
        """
        return self.field(t, x, lagged, **{**self.parameters, **(args or {})})


class System(eqx.Module):
    """A delayed stochastic system, dX = G(t, X(t), X(t−τ₁), …) dt + Σ dW, with its true graph.

    - `drift`: G, a [`Drift`][ndde_jax.systems.Drift], called as `drift(t, x, lagged, args=None)`.
    - `lags`: τ₁ < τ₂ < …, in units of time; empty for an ordinary differential equation.
    - `sigma`: diagonal of Σ, in units of the state per square root of time; a number, or one per
        variable. Over a dominant period, the default noise adds about a twentieth of the variable's
        standard deviation (between 1 and 15 per cent), unless the description says that noise
        drives the system. `sigma` is 0 for ordinary differential equations and for variables whose
        equation is a definition, such as x' = v.
    - `history`: the state on t ≤ 0, constant `[dim]` or a function of time that returns `[dim]`.
    - `graph`: the links, `[source target lag]` with lag axis (0, *lags); see below.
    - `dt`: a step that resolves the dynamics with Euler's method and divides the lags.
    - `sampling_step`: interval between observations, a multiple of `dt`. If the ratios of the lags
        are simple, it divides them, so that the lags are whole numbers of samples.
    - `transient`: time after which the history is forgotten.
    - `name`, `variables`, `source`, `description`: text; the description contains the equation and
        the units.

    `graph` has an edge for every term of the equations, including the linear decay of a variable,
    an edge from the variable to itself. The graph refers to the default parameters: setting one to
    zero may remove an edge, but does not change the graph. Arrays are leaves; all else is static.
    """

    drift: Drift
    lags: Float[Array, "delay"]
    sigma: Float[Array, ""] | Float[Array, "dim"]
    history: Float[Array, "dim"] | Callable
    graph: Graph
    variables: tuple[str, ...] = eqx.field(static=True)
    dt: float = eqx.field(static=True)
    sampling_step: float = eqx.field(static=True)
    transient: float = eqx.field(static=True)
    name: str = eqx.field(static=True, default="")
    source: str = eqx.field(static=True, default="")
    description: str = eqx.field(static=True, default="")

    @property
    def dim(self) -> int:
        """The number of variables."""
        return len(self.variables)

    @property
    def delays(self) -> Float[Array, "delay"]:
        """The lags: delays in units of time."""
        return self.lags

    def vector_field(
        self, t: RealScalarLike, y: Float[Array, "dim"], args: Mapping | None = None
    ) -> Float[Array, "dim"]:
        """Return the drift of a system without delays, in the form that `diffrax.ODETerm` takes.

        **Raises:** `ValueError` if the system has delays; use `ndde_jax.simulate.DelayTerm(system)`
        then.
        """
        if self.lags.shape[0]:
            raise ValueError(
                "a vector field has no delays, and the system has "
                f"{self.lags.shape[0]}; take ndde_jax.simulate.DelayTerm(system)."
            )
        return self.drift(t, y, jnp.zeros((0, *y.shape), y.dtype), args)

    def with_delays(self, delays) -> "System":
        """Return the system with other delays, in units of time; an alias of `with_lags`."""
        return self.with_lags(delays)

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters of the drift by name."""
        return self.drift.parameters

    def jacobian(
        self,
        t: RealScalarLike,
        x: Float[Array, "dim"],
        lagged: Float[Array, "delay dim"] | None = None,
    ) -> Float[Array, "lag target source"]:
        """Return the derivatives of the drift at one point.

        They form a matrix ∂G_target / ∂x_source(t − lag) for each lag of (0, *lags). `lagged` may
        be omitted if there are no lags.
        """
        if lagged is None:
            lagged = jnp.zeros((0, *x.shape), x.dtype)
        present, past = jax.jacfwd(self.drift, argnums=(1, 2))(t, x, lagged)
        return jnp.concatenate([present[None], jnp.moveaxis(past, 1, 0)])

    def with_parameters(self, **parameters) -> "System":
        """Return the system with other parameters, by name, in the same shapes.

        Lags are not parameters: see `with_lags`. Graph, steps and history do not change.

        **Raises:** `ValueError` for an unknown name or a different shape.
        """
        old = self.drift.parameters
        for key, value in parameters.items():
            if key not in old:
                raise ValueError(
                    f"{self.name} has no parameter {key!r}; {_suggest(key, old)}"
                    + (" Lags are set by with_lags." if key.startswith("tau") else "")
                )
            check_real_array(value, key, f"shape {old[key].shape}")
            if np.shape(value) != old[key].shape:
                raise ValueError(
                    f"{key} must have shape {old[key].shape}; got {np.shape(value)}. "
                    "For many values at once use jax.vmap."
                )
        new = {key: _as_leaf(value, key) for key, value in parameters.items()}
        return dataclasses.replace(self, drift=Drift(self.drift.field, {**old, **new}))

    def with_lags(self, lags) -> "System":
        """Return the system with other lags: the same number, ascending and positive.

        `dt` and `sampling_step` do not change and may no longer divide the lags.

        **Raises:** `ValueError` otherwise.
        """
        lags = _as_leaf(lags, "lags")
        if lags.shape != self.lags.shape:
            raise ValueError(f"lags must have shape {self.lags.shape}; got {lags.shape}.")
        if not is_traced(lags):
            check_lags([float(lag) for lag in lags])
        return dataclasses.replace(self, lags=lags)


def make(
    field: Callable,
    *,
    parameters: Mapping[str, object],
    history: Sequence[float] | np.ndarray,
    dt: float,
    sampling_step: float | None = None,
    transient: float,
    drivers: Mapping[str, str] | None = None,
    graph: Bool[np.ndarray, "source target lag"] | None = None,
    variables: Iterable[str] | None = None,
    lags: Sequence[RealScalarLike] = (),
    sigma: float | Sequence[float] = 0.0,
) -> System:
    """Return a system from plain numbers, without name, source and description.

    The graph is given as the drivers of each variable, `{"m": "m p@1", "p": "m p"}`: m' depends on
    m(t) and on p(t − first lag). Networks give `graph` instead, and `variables` if these are not
    x1, x2 and so on. `sampling_step` is ten steps by default. `dt` is lowered to the next step that
    divides the lags, and `sampling_step` moves to the nearest multiple of it that divides them.
    """
    lags = [float(lag) for lag in lags]
    check_lags(lags)
    if drivers is not None:
        variables, graph = drivers, _graph_of(drivers, len(lags))
    dt, sampling_step = _steps(lags, dt, 10 * dt if sampling_step is None else sampling_step)
    return System(
        drift=Drift(field, {key: _as_leaf(value) for key, value in parameters.items()}),
        lags=_as_leaf(lags),
        sigma=_as_leaf(sigma),
        history=_as_leaf(history),
        graph=jnp.asarray(graph, bool),
        variables=tuple(variables or (f"x{i + 1}" for i in range(len(graph)))),
        dt=dt,
        sampling_step=sampling_step,
        transient=transient,
    )


def check_lags(lags: Sequence[float]) -> None:
    """Raise `ValueError` unless lags are positive, finite and ascending."""
    if not all(math.isfinite(lag) and lag > 0 for lag in lags):
        raise ValueError(f"lags must be positive and finite; got {list(lags)}.")
    if any(late <= early for early, late in itertools.pairwise(lags)):
        raise ValueError(f"lags must be ascending and distinct; got {list(lags)}.")


def _graph_of(drivers: Mapping[str, str], n_lags: int) -> np.ndarray:
    index = {name: i for i, name in enumerate(drivers)}
    graph = np.zeros((len(index), len(index), 1 + n_lags), bool)
    for target, names in drivers.items():
        for term in names.split():
            source, _, lag = term.partition("@")
            graph[index[source], index[target], int(lag or 0)] = True
    return graph


def _steps(lags: Sequence[float], dt: float, sampling_step: float) -> tuple[float, float]:
    """Return the next step up to `dt` that divides the lags, and a sampling step.

    The sampling step is the multiple of it nearest to `sampling_step` that also divides the lags.
    """
    if not lags:
        ratio = max(1, round(sampling_step / dt))
        return sampling_step / ratio, sampling_step
    # The lags as decimal fractions: 1.0 and 1.7 have the unit 0.1.
    parts = [Fraction(repr(lag)) for lag in lags]
    unit = Fraction(
        math.gcd(*(part.numerator for part in parts)),
        math.lcm(*(part.denominator for part in parts)),
    )
    if unit * 10 < dt:  # the common unit is too small, so only the smallest lag is divided
        unit = parts[0]
    n = math.ceil(unit / Fraction(repr(dt)))
    step = float(unit / n)
    divisors = [m for m in range(1, n + 1) if n % m == 0]
    ratio = min(divisors, key=lambda m: abs(math.log(m * step / sampling_step)))
    return step, float(ratio * unit / n)


def _as_leaf(value, name: str = "value") -> Array:
    """Return an array of the default floating type; floating JAX arrays keep their own."""
    check_real_array(value, name, "one or several")
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    floating = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating)
    return jnp.asarray(value, value.dtype if floating else jnp.result_type(float))


def _suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names closest to a wrong one."""
    known = list(known)
    folded = {entry.lower(): entry for entry in known}
    near = [folded[match] for match in difflib.get_close_matches(name.lower(), folded, n=3)]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f"known are {', '.join(known[:12])}{more}." if known else "there are none."


class _Entry(NamedTuple):
    factory: Callable[..., System]
    options: tuple[str, ...]  # the keywords of the factory
    source: str
    description: str


_ENTRIES: dict[str, _Entry] = {}


def register(
    name: str, *, source: str, lags: Mapping[str, float] | Sequence[float] = (), **settings
) -> Callable:
    """Register the drift of a system under `name` (a decorator).

    The function's docstring becomes the system's description, and its keyword defaults become the
    system's parameters. `lags` by name are options of [`get`][ndde_jax.systems.get]. `settings` are
    those of `make`.
    """
    named = dict(lags) if isinstance(lags, Mapping) else {}

    def keep(field: Callable) -> Callable:
        keywords = inspect.signature(field).parameters.values()
        parameters = {key.name: key.default for key in keywords if key.kind is key.KEYWORD_ONLY}

        def factory(**chosen) -> System:
            times = tuple({**named, **chosen}.values()) if named else lags
            return make(field, parameters=parameters, lags=times, **settings)

        _enter(name, _Entry(factory, tuple(named), source, inspect.getdoc(field) or ""))
        return field

    return keep


def register_factory(name: str, *, source: str) -> Callable:
    """Register a function that makes a system under `name` (a decorator).

    Its docstring becomes the system's description.
    """

    def keep(factory: Callable[..., System]) -> Callable[..., System]:
        options = tuple(inspect.signature(factory).parameters)
        _enter(name, _Entry(factory, options, source, inspect.getdoc(factory) or ""))
        return factory

    return keep


def _enter(name: str, entry: _Entry) -> None:
    if name in _ENTRIES:
        raise ValueError(f"{name!r} is registered twice.")
    _ENTRIES[name] = entry


def names(kind: Checked[str | None] = None) -> tuple[str, ...]:
    """Return the names that [`get`][ndde_jax.systems.get] accepts, in alphabetical order.

    **Arguments:**

    - `kind`: `"delay"` for the systems written here, `"dysts"` for the ordinary differential
        equations of the dysts collection that JAX can trace; both by default. The first call tries
        to trace each of them, which takes a second or two.

    **Raises:** `ValueError` for any other kind.

    ```python
    import ndde_jax as ndde

    print(ndde.systems.names("delay")[:3])
    ```
    """
    if kind is not None:
        check_choice(kind, "kind", ("delay", "dysts"))
    found = () if kind == "dysts" else tuple(_ENTRIES)
    if kind != "delay":
        from . import _dysts

        found += _dysts.traceable()
    return tuple(sorted(found))


def get(name: Checked[str], **options) -> System:
    """Return a named system.

    **Arguments:**

    - `name`: one of [`names`][ndde_jax.systems.names].
    - `options`: the named lags and sizes of the system (`tau=23.0`, `size=5`), and any of its
        parameters (`beta=0.25`). The steps are adapted so that they still divide the lags. For lags
        or parameters under `jax.vmap` or `jax.grad`, see `System.with_lags` and
        `System.with_parameters`.

    **Returns:** a [`System`][ndde_jax.systems.System].

    **Raises:** `ValueError` for an unknown name or option, and for a value out of range.

    ```python
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass", tau=23.0)
    print(system.lags, system.graph[0, 0], system.sampling_step)
    print(system.description)
    ```
    """
    check_kind(name, str, "name", "the name of a system", "See ndde_jax.systems.names().")
    if name not in _ENTRIES:
        from . import _dysts

        if name in _dysts.ode_names():
            return _dysts.make_dysts(name, **options)
        known = (*_ENTRIES, *_dysts.ode_names())
        hint = _dysts.COUNTERPARTS.get(name)
        hint = f"here it is {hint!r}." if hint else _suggest(name, known)
        raise ValueError(f"no system is called {name!r}; {hint} See ndde_jax.systems.names().")
    entry = _ENTRIES[name]
    structural = {key: value for key, value in options.items() if key in entry.options}
    rest = {key: value for key, value in options.items() if key not in entry.options}
    system = entry.factory(**structural)
    unknown = [key for key in rest if key not in system.parameters]
    if unknown:
        hint = _suggest(unknown[0], (*entry.options, *system.parameters))
        raise ValueError(f"{name} has no option {unknown[0]!r}; {hint}")
    said = {"name": name, "source": entry.source, "description": entry.description}
    return dataclasses.replace(system, **said).with_parameters(**rest)
