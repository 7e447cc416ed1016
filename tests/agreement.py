"""Check that a function alone, compiled and over a batch gives the same result."""

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def check(one, batched, singles, **tolerance):
    """`vmap(one)` over a batch agrees with one-by-one calls, and so does `jit`."""
    agree(one, batched, singles, eqx.filter_jit(one), **tolerance)


def check_compiled(one, batched, singles, **tolerance):
    """Check `vmap` only, since `jit` would compile again what is one compiled program already."""
    agree(one, batched, singles, one, **tolerance)
    whole = eqx.filter_eval_shape(one, *singles[0])
    for a, b in zip(*map(jax.tree.leaves, (whole, one(*singles[0]))), strict=True):
        assert (a.shape, a.dtype) == (jnp.shape(b), jnp.result_type(b))


def agree(one, batched, singles, compiled, **tolerance):
    together = jax.tree.map(np.asarray, eqx.filter_jit(eqx.filter_vmap(one))(*batched))
    for i, single in enumerate(singles):
        alone, of_batch = one(*single), jax.tree.map(lambda leaf, i=i: leaf[i], together)
        chex.assert_trees_all_close(of_batch, alone, **tolerance)
        again = alone if compiled is one else compiled(*single)
        chex.assert_trees_all_close(again, alone, **tolerance)
