"""Derivatives that a diverging path does not spoil for its neighbours in a batch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


def guarded_if(guard: bool, function: Callable, shared: Any, own: Any) -> tuple[Any, Array]:
    """Return `function(shared, own)`, some steps, without derivatives where one is not finite.

    Where a loss leaves out a path that diverged, zero comes back to its last step, whose derivative
    is infinite, and 0 · ∞ is NaN in the sum over all paths. Hence, with a `guard`, neither does a
    tangent enter the steps of which one diverges, nor does one leave them, and by transposition no
    cotangent. Each step by itself would cost half as much again as the gradient.

    **Arguments:**

    - `function`: returns an array or more with the axes of a batch before the last, and states
        `[time *batch dim]`.
    - `shared`: numbers of all members of a batch; if there is a batch inside of the state, NaN
        comes back to them, because it is in their sum already.
    - `own`: numbers of each member, with the axes of the batch before the last.
    """
    return _guarded(function, shared, own) if guard else function(shared, own)


@eqx.filter_custom_jvp
def _guarded(function, shared, own):
    return function(shared, own)


@_guarded.def_jvp
def _guarded_jvp(primals, tangents):
    function, *given = primals
    moved = tangents[1:]
    is_none = lambda x: x is None  # noqa: E731
    varied = jax.tree.map(
        lambda t, x: None if t is None else x, moved, tuple(given), is_leaf=is_none
    )
    fixed = jax.tree.map(
        lambda t, x: x if t is None else None, moved, tuple(given), is_leaf=is_none
    )
    new, push = jax.linearize(lambda varied: function(*eqx.combine(varied, fixed)), varied)
    ok = jnp.all(jnp.isfinite(new[1]), axis=(0, -1))

    def kept(tangent):
        one = jnp.expand_dims(ok, -1)
        one = jnp.reshape(one, (1,) * (tangent.ndim - one.ndim) + one.shape)
        return jnp.where(one, tangent, 0)

    shared, own = moved
    own = jax.tree.map(kept, own)
    if ok.ndim == 0:
        shared = jax.tree.map(lambda t: jnp.where(ok, t, 0), shared)
    return new, jax.tree.map(kept, push((shared, own)))


def in_batch(tree: Any) -> bool:
    """Return whether a leaf, or a value that a function closes over, belongs to a `vmap`.

    Guarding costs a single path a third of its gradient, which is NaN with it or without.
    """
    return any(map(_batched, jax.tree.leaves(tree)))


def _batched(leaf: Any) -> bool:
    if isinstance(leaf, jax.core.Tracer):
        if type(leaf).__name__ == "BatchTracer":
            return True
        return hasattr(leaf, "primal") and _batched(leaf.primal)
    cells = getattr(leaf, "__closure__", None) or ()
    return any(in_batch(cell.cell_contents) for cell in cells if not _empty(cell))


def _empty(cell) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:
        return True
