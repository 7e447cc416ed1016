"""The names of axes and types used in the signatures of the library.

| axis | meaning |
|---|---|
| `time` | samples of one trajectory, in order |
| `series` | trajectories of one system |
| `window` | rows of training data: one sample with its past |
| `lag` | candidate lags, ascending, in samples |
| `delay` | lagged states of a simulated system, in units of time |
| `dim` | variables of the system |
| `source`, `target` | the same variables, as drivers and as what they drive |
| `input` | all pairs (lag, source), flattened |
| `hidden` | units of a hidden layer |
| `draw` | random draws: gates, noise |
| `epoch` | points of a training curve |
| `path` | simulated trajectories |
| `batch` | systems, seeds or penalties stacked in front of everything else |

Graphs are always `[source, target, lag]`, summary graphs `[source, target]`.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Real

from ._checks import check_number, is_traced

Graph: TypeAlias = Bool[Array, "source target lag"]
Scores: TypeAlias = Float[Array, "source target lag"]
# NumPy types for values that are known while others are traced: graphs, scores, inputs of a target,
# pairs of variables, and a number for each pair.
KnownGraph: TypeAlias = Bool[np.ndarray, "source target lag"]
KnownScores: TypeAlias = Float[np.ndarray, "source target lag"]
KnownMask: TypeAlias = Bool[np.ndarray, " input"]
Pairs: TypeAlias = Bool[np.ndarray, "source target"]
Square: TypeAlias = Float[np.ndarray, "source target"]

# An argument that a function checks by hand, so that the message of an error says what to do. A
# type checker in front, as in the tests, would hide that message.
if TYPE_CHECKING:
    # For a type checker an ArrayLike may be complex, even within jaxtyping's Real.
    RealScalarLike: TypeAlias = float | Array | np.ndarray
    T = TypeVar("T")
    Checked: TypeAlias = T
else:
    RealScalarLike: TypeAlias = Real[ArrayLike, ""]

    class Checked:
        """A marker: `Checked[kind]` documents a kind, and is `Any` at run time."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return Any


# Raw data: `[time dim]`, `[time]`, `[series time dim]`, or a list of arrays `[time dim]` whose
# lengths differ; anything that NumPy can read. Other values raise a ValueError that says why, which
# a type checker in front would hide.
TrajectoryLike: TypeAlias = Any


def floating_type(value: Any) -> Any:
    """Return the type of a floating array, JAX's default for anything else."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    # NumPy's double precision would cause a warning if JAX has it disabled.
    return jax.dtypes.canonicalize_dtype(dtype)


def as_scalar(value: Any) -> Array:
    """Return a number as an array leaf that keeps its type, so that it can be swept.

    It is strongly typed: a Python float is weak, and an array in its place would compile again.
    """
    return jnp.asarray(value, dtype=floating_type(value))


def namespace_of(tree: Any) -> ModuleType:
    """Return NumPy, or `jax.numpy` where something in a tree is traced."""
    return jnp if is_traced(tree) else np


@contextlib.contextmanager
def concretely() -> Iterator[None]:
    """Compute known values at once, even inside a function that JAX is tracing; a context manager
    and decorator.

    Does nothing outside of traces: `ensure_compile_time_eval` makes JAX compile its programs again,
    and every constant in them as a separate program.
    """
    traced = isinstance(jnp.zeros(()), jax.core.Tracer)
    with jax.ensure_compile_time_eval() if traced else contextlib.nullcontext():
        yield


def to_jax(value: Any, dtype: Any = None) -> Array:
    """Return `jnp.asarray(value, dtype)` without compiling a program for every new shape.

    NumPy converts and JAX only receives the result: `jnp.asarray` of a NumPy array costs a megabyte
    or more for every new shape, which adds up over many records of different lengths.
    """
    if is_traced(value):
        return jnp.asarray(value, dtype)
    if isinstance(value, jax.Array) and (dtype is None or value.dtype == dtype):
        return value
    value = np.asarray(value)
    dtype = jax.dtypes.canonicalize_dtype(value.dtype if dtype is None else dtype)
    return jax.device_put(value.astype(dtype, copy=False))


def on_host_or_traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays that computes in NumPy, so that no shape needs its own program,
    and in JAX if something is traced. The decorated function gets the namespace as first argument.
    """

    @functools.wraps(function)
    def call(*trees: Any) -> Any:
        if is_traced(trees):
            return function(jnp, *trees)
        with np.errstate(over="ignore", invalid="ignore"):
            return jax.tree.map(to_jax, function(np, *jax.tree.map(np.asarray, trees)))

    return call


def divisor(size: Any) -> Any:
    """Return sizes to divide by: 1 in place of those that are not positive."""
    return namespace_of(size).where(size > 0, size, 1)


def root(square: Array) -> Array:
    """Return the square root with derivative 0 at 0, where that of `jnp.sqrt` is infinite."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), square)


def as_number(name: str, *, optional: bool = False, **bounds: Any) -> Callable[[Any], Array | None]:
    """Return a converter of a setting: `as_scalar`, after a check whose errors name the setting."""

    def convert(value: Any) -> Array | None:
        if optional and value is None:
            return None
        check_number(value, name, **bounds)
        return as_scalar(value)

    return convert


class Settings(eqx.Module):
    """A base class of settings; checks each field that is a `setting` and names it in errors."""

    def __check_init__(self):
        for field in dataclasses.fields(self):
            if check := field.metadata.get("check"):
                check(getattr(self, field.name), name=field.name)


def setting(default: Any, check: Callable[..., Any], **options: Any) -> Any:
    """Return a field of [`Settings`][ndde_jax._types.Settings] with a check, which gets the
    options, and a default, or a class that makes it. Plain numbers and words are static.
    """
    given = {"default_factory" if isinstance(default, type) else "default": default}
    static = isinstance(default, bool | int | float | str)
    metadata = {"check": functools.partial(check, **options)}
    return eqx.field(static=static, metadata=metadata, **given)


def number(name: str, default: Any, **bounds: Any) -> Any:
    """Return a field with a number that can be swept, or None if that is its default."""
    converter = as_number(name, optional=default is None, **bounds)
    return eqx.field(converter=converter, default=default)


class Scaling(eqx.Module):
    """The means and standard deviations that make states and rates of change dimensionless.

    A physical state x becomes (x − center) / scale, a physical rate of change r becomes
    (r − rate_center) / rate_scale; all per variable.
    """

    center: Float[Array, "dim"]
    scale: Float[Array, "dim"]
    rate_center: Float[Array, "dim"]
    rate_scale: Float[Array, "dim"]
