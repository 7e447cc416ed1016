"""Checks of arguments whose errors name the argument, the expected value and the given one.

Public functions call these before anything is compiled, so that the error of a mistake comes from
the library and not from the code that would have failed later. Under `jit`, `vmap` and `grad`
numbers are not known: types and shapes are checked, values are not.
"""

import contextlib
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The most characters of a value that a message shows.
LONGEST = 60


def is_traced(*trees: Any) -> bool:
    """Return whether a value is traced by `jit`, `vmap` or `grad`."""
    # A plain loop: searches call this at every step, and a generator is slower.
    for leaf in jax.tree.leaves(trees):
        if isinstance(leaf, jax.core.Tracer):
            return True
    return False


def short_repr(value: Any) -> str:
    """Return a value as messages show it: short; arrays by shape and type, not by contents."""
    if isinstance(value, jax.core.Tracer):
        return f"a traced array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape and dtype is not None:
        return f"an array of shape {tuple(shape)} and dtype {dtype}"
    if shape == () and dtype is not None and not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        value = np.asarray(value)[()]
        value = value.item() if hasattr(value, "item") else value
    plain = str | bytes | int | float | complex | list | tuple | dict | set | None
    if shape is None and not isinstance(value, plain):
        return f"a value of type {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def argument_error(name: str, expected: str, got: Any, remedy: str = "") -> ValueError:
    """Return the error that says what `name` must be, what came, and what to do."""
    return ValueError(f"{name} must be {expected}; got {short_repr(got)}.{remedy and ' ' + remedy}")


# ---- numbers ----


def _bounds(above, least, below, most) -> str:
    """Return the words after "must" in the message on a number out of range."""
    if below is None and most is None:
        if above is None and least is None:
            return "be finite"
        if above is None:
            return "not be negative" if least == 0 else f"be at least {least}"
        return "be positive" if above == 0 else f"be above {above}"
    low = f"({above}" if above is not None else "(-inf" if least is None else f"[{least}"
    return f"lie in {low}, " + (f"{below})" if below is not None else f"{most}]")


def check_number(
    value: Any, name: str, *, above=None, least=None, below=None, most=None, finite: bool = True
) -> None:
    """Raise an error unless the value is one real number within bounds, not an array with axes."""
    bounds = _bounds(above, least, below, most)
    wanted = {"be positive": "a positive number", "be finite": "a number"}.get(
        bounds, f"a number and {bounds}"
    )
    if not _is_number(value):
        raise argument_error(name, wanted, value)
    if np.shape(value) != ():
        raise argument_error(name, wanted, value, "For many at once use jax.vmap.")
    if isinstance(value, jax.core.Tracer):
        return
    number = float(value)
    bounded = (above, operator.gt), (least, operator.ge), (below, operator.lt), (most, operator.le)
    inside = all(bound is None or holds(number, bound) for bound, holds in bounded)
    if not inside or np.isnan(number) or (finite and np.isinf(number)):
        word = bounds if not inside or np.isnan(number) else "be finite"
        raise ValueError(f"{name} must {word}; got {short_repr(value)}.")


def is_real(dtype: Any) -> bool:
    """Return whether a type is boolean, integer or floating, including JAX's extra types."""
    # NumPy counts time spans among the integers.
    real = any(jnp.issubdtype(dtype, kind) for kind in (np.bool_, np.integer, np.floating))
    return real and not jnp.issubdtype(dtype, np.timedelta64)


def _is_number(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return value.dtype != bool and is_real(value.dtype)
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_positive(**values: Any) -> None:
    """Raise an error unless all values, given by name, are numbers above 0."""
    for name, value in values.items():
        check_number(value, name, above=0)


def check_non_negative(**values: Any) -> None:
    """Raise an error unless all values, given by name, are numbers of at least 0."""
    for name, value in values.items():
        check_number(value, name, least=0)


def check_whole(value: Any, name: str, least: int = 1, most: int | None = None) -> None:
    """Raise an error unless the value is an int, on which shapes depend; 2.0 is not accepted."""
    if isinstance(value, jax.core.Tracer):
        why = "shapes depend on it, so it cannot be traced by jit, vmap or grad"
        raise ValueError(f"{name} must be a plain int: {why}. Mark it as static.")
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool_):
        raise argument_error(name, f"a whole number, at least {least}", value)
    if number < least:
        raise ValueError(f"{name} must {_bounds(None, least, None, None)}; got {number}.")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}; got {number}.")


def check_coefficient(value: Any, name: str = "coefficient") -> None:
    """Raise an error unless the price of an edge is None, for the default rule, or a positive
    number.
    """
    if value is not None:
        check_number(value, name, above=0)


def check_flag(value: Any, name: str) -> None:
    """Raise an error unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise argument_error(name, "True or False", value)


def check_kind(value: Any, kind: Any, name: str, expected: str, remedy: str = "") -> None:
    """Raise an error unless the value is an instance of a kind, which `expected` describes."""
    if not isinstance(value, kind):
        raise argument_error(name, expected, value, remedy)


def check_real_array(
    value: Any, name: str, what: str, *, finite: bool = False, above=None, least=None
) -> None:
    """Raise an error unless the value is an array of real numbers; `what` names its axes."""
    array = _as_real(value, name, f"real numbers, {what}")
    if is_traced(array):
        return
    array = np.asarray(array, float)
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinite values.")
    if above is not None or least is not None:
        inside = array > above if least is None else array >= least
        if not inside.all():
            bad = float(array[~inside].flat[0])
            raise ValueError(f"{name} must {_bounds(above, least, None, None)}; got {bad:.4g}.")


def _as_real(value: Any, name: str, what: str) -> jax.Array | np.ndarray:
    try:
        # NumPy cannot convert a list that holds a traced number.
        known = not isinstance(value, jax.Array) and not is_traced(value)
        array = np.asarray(value) if known else jnp.asarray(value)
    except (TypeError, ValueError):
        raise argument_error(name, what, value) from None
    if not is_real(array.dtype):
        raise argument_error(name, what, value)
    return array


# ---- words ----


def check_choice(value: Any, name: str, options: Iterable[str]) -> None:
    """Raise an error unless the value is one of a few words."""
    options = tuple(options)
    if not isinstance(value, str) or value not in options:
        listed = f"{', '.join(map(repr, options[:-1]))} or {options[-1]!r}"
        raise argument_error(name, f"one of {listed}", value)


def check_names(names: Any, dim: int | None, name: str = "names") -> tuple[str, ...]:
    """Return different names, one per variable, as a tuple."""
    count = "different names" if dim is None else f"{dim} different names, one per variable"
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Iterable):
        raise argument_error(name, f"a sequence of {count}", names, f"Write {name}=(...,).")
    names = tuple(str(item) if isinstance(item, int | np.integer) else item for item in names)
    if bad := [item for item in names if not isinstance(item, str)]:
        raise argument_error(name, f"a sequence of {count}, each a string", bad[0])
    if not names:
        raise argument_error(name, f"a sequence of {count}", names)
    if dim is not None and len(names) != dim:
        raise ValueError(
            f"{name} must be {count}; got {short_repr(names)}, {len(names)} for {dim} variables."
        )
    if len(set(names)) < len(names):
        twice = next(item for item in names if names.count(item) > 1)
        raise ValueError(f"{name} must be {count}; got {twice!r} more than once.")
    return names


# ---- randomness ----


def check_key(key: Any, name: str = "key") -> jax.Array:
    """Return one typed random key; the older form, two unsigned numbers, is accepted and
    wrapped.
    """
    array = isinstance(key, jax.Array | np.ndarray)
    typed = array and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    if array and key.dtype == np.uint32 and key.ndim:
        with contextlib.suppress(TypeError, ValueError):  # not the length of JAX's keys
            key, typed = jax.random.wrap_key_data(key), True
    if not typed:
        remedy = f"Make one with jax.random.key({key if type(key) is int else 0})."
        raise argument_error(name, "a JAX random key", key, remedy)
    if key.shape != ():
        raise ValueError(
            f"{name} must be one JAX random key; got an array of keys of shape {key.shape}. Take "
            f"one ({name}[0]), or use jax.vmap."
        )
    return key


# ---- objects of the library ----


def check_windows(windows: Any, who: str, instead: str = "use jax.vmap for several") -> None:
    """Raise an error unless the value is the `Windows` of one system."""
    if type(windows).__name__ != "Windows" or not hasattr(windows, "history"):
        raise ValueError(
            f"windows must be what lagged_windows returns; {who} got {short_repr(windows)}. Make "
            "them with ndde_jax.lagged_windows(x, dt=..., lags=...)."
        )
    if np.ndim(windows.history) != 3:
        raise ValueError(
            f"{who} takes the windows of one system, history [window lag dim]; got windows of "
            f"shape {np.shape(windows.history)}: {instead}."
        )


def check_config(config: Any, kind: type, name: str = "config") -> None:
    """Raise an error unless settings are of the given kind, or None for their defaults."""
    remedy = f"Write ndde_jax.{kind.__name__}(...) with the settings to change."
    check_kind(config, kind | None, name, f"a {kind.__name__} or None", remedy)


def check_graph(graph: Any, shape: tuple[int, ...], name: str = "graph") -> jax.Array:
    """Return edges `[source target lag]` as booleans. Numbers must be 0 or 1: a cast score would be
    an edge wherever it is not exactly zero.
    """
    array = _as_real(graph, name, f"booleans [source target lag] = {shape}")
    if array.shape != shape:
        expected = f"[source target lag] = {shape}, for these variables and lags"
        raise ValueError(f"{name} must be {expected}; got {array.shape}.")
    if is_traced(array):
        return jnp.asarray(array).astype(bool)
    values = np.asarray(array)
    if values.dtype != bool and len(bad := values[~np.isin(values, (0, 1))]):
        raise ValueError(
            f"{name} must hold edges, True or False; got {bad[0]:.4g} among numbers. Pass "
            "found.graph, not found.scores, or compare scores with a threshold."
        )
    # Not by `jnp`, which compiles a program for every shape.
    return jax.device_put(values.astype(bool))


# ---- limits ----


def check_concrete(who: str, tree: Any, remedy: str = "Call it outside.") -> None:
    """Raise an error inside `jit`, `vmap` or `grad`, for functions that branch on values."""
    if is_traced(tree):
        raise ValueError(
            f"{who} needs to see the numbers and cannot run inside jit, vmap or grad. {remedy}"
        )


def check_sizes(values: Any, dtype: Any, name: str) -> None:
    """Raise an error for numbers whose squares would leave the range of a floating type."""
    limits = jnp.finfo(dtype)
    low, high = max(float(limits.tiny), 1e-150), min(float(limits.max), 1e150)
    size = np.abs(np.asarray(values, np.float64))
    size = float(np.max(size, initial=0, where=np.isfinite(size)))
    if size > high or 0 < size < low:
        word = f"beyond {high:.2g}" if size > high else f"below {low:.2g}"
        raise ValueError(
            f"{name} must be of a size that {limits.dtype} can compute with; got {size:.3g}, "
            f"{word}. Choose a unit in which typical values are near 1."
        )
