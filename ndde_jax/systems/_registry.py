"""The names of systems, and functions to register and get one."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import NamedTuple

from .._checks import check_choice, refusal
from .._types import Checked
from ._system import System, _suggest


class _Entry(NamedTuple):
    factory: functools.partial
    source: str


_ENTRIES: dict[str, _Entry] = {}


def register(name: str, *, source: str, **options) -> Callable:
    """Register a function that makes a system under `name` (a decorator), with its docstring as the
    system's description. `options` are passed to the function, so one function serves many names.
    """

    def keep(factory: Callable[..., System]) -> Callable[..., System]:
        if name in _ENTRIES:
            raise ValueError(f"{name!r} is registered twice.")
        _ENTRIES[name] = _Entry(functools.partial(factory, **options), source)
        return factory

    return keep


def names(kind: Checked[str | None] = None) -> tuple[str, ...]:
    """Return the names that [`get`][ndde_jax.systems.get] accepts, in alphabetical order.

    **Arguments:**

    - `kind`: `"delay"` for the systems written here, `"dysts"` for the ordinary differential
        equations of the dysts collection that JAX can trace, by default both. Whether JAX can trace
        one is found by trying, which takes a second or two on the first call.

    **Raises:** `ValueError` for another kind.

    ```python
    import ndde_jax as ndde

    print(ndde.systems.names("delay")[:3])
    ```
    """
    if kind is not None:
        check_choice(kind, "kind", ("delay", "dysts"))
    found: tuple[str, ...] = ()
    if kind in (None, "delay"):
        found += tuple(_ENTRIES)
    if kind in (None, "dysts"):
        from . import _dysts

        found += _dysts.traceable()
    return tuple(sorted(found))


def get(name: Checked[str], **options) -> System:
    """Return a named system.

    **Arguments:**

    - `name`: one of [`names`][ndde_jax.systems.names].
    - `options`: lags and sizes the system names (`tau=23.0`, `size=5`), and any of its parameters
        (`beta=0.25`). The steps follow the lags, so that they still divide them; for lags or
        parameters under `jax.vmap` or `jax.grad` see `System.with_lags` and
        `System.with_parameters`.

    **Returns:** a [`System`][ndde_jax.systems.System].

    **Raises:** `ValueError` for a name or option that is not known, and for a value out of range.

    ```python
    import ndde_jax as ndde

    system = ndde.systems.get("mackey_glass", tau=23.0)
    print(system.lags, system.graph[0, 0], system.sampling_step)
    print(system.description)
    ```
    """
    if not isinstance(name, str):
        raise refusal("name", "the name of a system", name, "See ndde_jax.systems.names().")
    if name not in _ENTRIES:
        from . import _dysts

        if name in _dysts.ode_names():
            return _dysts.make_dysts(name, **options)
        known = (*_ENTRIES, *_dysts.ode_names())
        hint = _dysts.COUNTERPARTS.get(name)
        hint = f"here it is {hint!r}." if hint else _suggest(name, known)
        raise ValueError(f"no system is called {name!r}; {hint} See ndde_jax.systems.names().")
    entry = _ENTRIES[name]
    accepted = inspect.signature(entry.factory).parameters
    structural = {key: value for key, value in options.items() if key in accepted}
    rest = {key: value for key, value in options.items() if key not in accepted}
    system = entry.factory(**structural)
    unknown = [key for key in rest if key not in system.parameters]
    if unknown:
        hint = _suggest(unknown[0], (*accepted, *system.parameters))
        raise ValueError(f"{name} has no option {unknown[0]!r}; {hint}")
    system = dataclasses.replace(
        system,
        name=name,
        source=entry.source,
        description=inspect.getdoc(entry.factory.func) or "",
    )
    return system.with_parameters(**rest)
