"""A readable error in place of JAX's where reverse-mode differentiation is impossible."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .._checks import is_traced


def forward_only(tree: Any, sentence: str) -> Any:
    """Return the tree unchanged; a `grad` through it raises `ValueError` with the sentence.

    Loops whose length depends on data have no reverse derivative, and JAX says so of the loop. It
    finds out only on the way back, which passes these results first.
    """
    if not is_traced(tree):
        return tree

    def one(leaf):
        floating = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return _same(sentence, leaf) if floating else leaf

    return jax.tree.map(one, tree)


def _same(sentence: str, x: Any) -> Any:
    @jax.custom_jvp
    def same(x):
        return x

    same.defjvp(lambda primals, tangents: (primals[0], _tangent.bind(*tangents, sentence=sentence)))
    return same(x)


def _refuse(cotangent, x, *, sentence):
    raise ValueError(sentence)


# Linear in its argument, the identity forwards, and without a transpose.
_tangent = Primitive("forward_only")
_tangent.def_impl(lambda x, **_: x)
_tangent.def_abstract_eval(lambda x, **_: x)
mlir.register_lowering(_tangent, lambda context, x, **_: [x])
batching.defvectorized(_tangent)
ad.deflinear2(_tangent, _refuse)
