"""Lazy device arrays: fields that stay in NumPy until they are asked for, where thousands are
kept.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ._types import to_jax

Kind = TypeVar("Kind")


def concretely() -> contextlib.AbstractContextManager:
    """Return a context in which numbers are numbers, in a function that is being traced as well.

    Nothing where nothing is traced: JAX compiles its programs anew for `ensure_compile_time_eval`,
    and every constant in them as a program of its own.
    """
    traced = isinstance(jnp.zeros(()), jax.core.Tracer)
    return jax.ensure_compile_time_eval() if traced else contextlib.nullcontext()


class _OnHost(np.ndarray):
    """A NumPy copy of a JAX array that becomes one again when asked for."""


@dataclasses.dataclass(frozen=True)
class _Packed:
    tree: Any

    def unpacked(self) -> Any:
        # Numbers are numbers in a function that is being traced, too.
        with jax.ensure_compile_time_eval():
            return jax.tree.map(_to_device, self.tree)


class _Held:
    def __init__(self, name: str):
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = _Packed(jax.tree.map(_to_host, value))

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            raise AttributeError(self.name)  # like any field without a default
        value = instance.__dict__[self.name]
        if isinstance(value, _Packed):
            value = instance.__dict__[self.name] = value.unpacked()
        return value


def held(*names: str) -> Callable[[type[Kind]], type[Kind]]:
    """Keep fields of a dataclass on the host, where they are pytrees with many small arrays.

    An array of JAX takes three kilobytes beside its numbers, and an answer has dozens: of a
    thousand small systems that is more than all their numbers.
    """

    def hold(kind: type[Kind]) -> type[Kind]:
        for name in names:
            setattr(kind, name, _Held(name))
        return kind

    return hold


def look(instance: Any, name: str) -> Any:
    """Return the field unpacked, without storing it unpacked in the instance."""
    value = vars(instance).get(name) if hasattr(instance, "__dict__") else None
    return value.unpacked() if isinstance(value, _Packed) else getattr(instance, name)


def _to_host(leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    # Keys and weak types have no equal in NumPy.
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) or leaf.weak_type:
        return leaf
    # A copy: what NumPy only looks at stays an array of JAX.
    copied = np.array(leaf).view(_OnHost)
    copied.flags.writeable = False
    return copied


def _to_device(leaf: Any) -> Any:
    return to_jax(leaf.view(np.ndarray)) if isinstance(leaf, _OnHost) else leaf
